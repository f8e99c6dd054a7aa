"""compact: join small files of a directory or a table, without Spark."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, get_args

from ...dataset.compact import DEFAULT_COMPACT_BYTES, CompactionReport, compact
from ...dataset.snapshot import list_versions
from ...errors import printable
from ...file.concat import Mode
from ...file.options import OPTIONS
from ...memory import parse_size
from ...storage.location import locate
from ...storage.secrets import redacted
from ..arguments import Commands, add_command, add_json
from ..exit import OK
from ..output.console import Console
from ..output.values import human_size
from ..target import add_option, ending_on_signals

if TYPE_CHECKING:
    from ...table.commit import TableChange

_DESCRIPTION: Final = """\
Join small Mosaic files of a directory into larger ones.

Row groups are copied without decoding them where that is possible, and small ones are joined. Files
stay in their subdirectories, and rows keep their order. A local directory is replaced in a single step;
a table gets a new version.
"""
_EXAMPLES: Final = (
    "compact sales/",
    "compact sales/ --target-size 1g --mode copy",
    "compact s3://bucket/features --json    # a table",
)
_OPTIONS: Final = ("row_group_bytes", "row_group_size", "num_buckets", "compression_level")


def add(commands: Commands) -> None:
    """Register the `compact` command."""
    parser = add_command(
        commands, "compact", "join small files of a directory or a table", _DESCRIPTION, _EXAMPLES
    )
    parser.add_argument("path", metavar="DIR", help="a local directory, or a table")
    parser.add_argument(
        "--target-size",
        type=parse_size,
        default=DEFAULT_COMPACT_BYTES,
        metavar="SIZE",
        help="approximate size of the new files, for example 64m (default: 256m)",
    )
    parser.add_argument(
        "--mode",
        choices=get_args(Mode),
        default="auto",
        help="copy: copy all row groups, and refuse files that differ; rewrite: copy none "
        "(default: auto)",
    )
    writing = parser.add_argument_group("writing row groups that are not copied")
    for name in _OPTIONS:
        add_option(writing, OPTIONS[name])
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    options: Any = {name: value for name, value in given.items() if value is not None}
    found = locate(arguments.path, None)
    assert found is not None  # it is a path
    with ending_on_signals():
        if list_versions(*found):
            from ...table.table import MosaicTable  # it imports pyarrow.dataset, which takes long

            change = MosaicTable(arguments.path).compact(
                target_bytes=arguments.target_size, mode=arguments.mode, progress=True, **options
            )
            _print_change(console, arguments.path, change)
        else:
            _print_report(console, arguments.path, _compacted(console, arguments, options))
    return OK


def _compacted(console: Console, arguments: argparse.Namespace, options: Any) -> CompactionReport:
    with console.progress("merging", None) as advance:
        done = 0

        def show(now: int, _: int) -> None:
            nonlocal done
            advance(now - done)
            done = now

        return compact(
            arguments.path,
            target_bytes=arguments.target_size,
            mode=arguments.mode,
            progress=show,
            **options,
        )


def _print_report(console: Console, path: str, report: CompactionReport) -> None:
    if console.is_json:
        console.document({"path": redacted(path), **asdict(report)})
        return
    if not report.files_after:
        console.line(f"{printable(redacted(path))}: nothing to compact")
        return
    console.line(
        f"{printable(redacted(path))}: {console.count(report.files_before, 'file')} to "
        f"{console.cell(report.files_after)}, {console.cell(report.files_kept)} unchanged, "
        f"{human_size(report.bytes_before)} to {human_size(report.bytes_after)}, row groups: "
        f"{console.cell(report.num_copied)} copied, {console.cell(report.num_rewritten)} rewritten, "
        f"{report.seconds:.2f} s"
    )


def _print_change(console: Console, path: str, change: TableChange) -> None:
    if console.is_json:
        console.document(
            {
                "path": redacted(path),
                "version": change.version,
                "committed": change.committed,
                **change.summary,
            }
        )
    elif not change.committed:
        console.line(f"{printable(redacted(path))}: nothing to compact")
    else:
        before, after = change.summary["files_before"], change.summary["files_after"]
        console.line(
            f"{printable(redacted(path))}: {console.count(before, 'file')} to "
            f"{console.cell(after)}, version {change.version}"
        )
