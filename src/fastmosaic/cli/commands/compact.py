"""compact: join small files of a directory or a table, without Spark."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any, Final

from ...dataset.compact import CompactionReport, compact
from ...dataset.snapshot import list_versions
from ...display.text import human_size
from ...errors import printable
from ...file.options import OPTIONS
from ...storage.location import locate
from ...storage.secrets import redacted
from ..arguments import Commands, add_command, add_json
from ..exit import OK
from ..output.console import Console, in_steps
from ..target import add_mode, add_option, add_target_size, ending_on_signals

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
    parser.add_argument("table", metavar="DIR", help="a local directory, or a table")
    add_target_size(parser)
    add_mode(parser)
    writing = parser.add_argument_group("writing row groups that are not copied")
    for name in _OPTIONS:
        add_option(writing, OPTIONS[name])
    add_json(parser)
    parser.set_defaults(run=_run, writing=_OPTIONS, single_writer=False)


def _run(arguments: argparse.Namespace) -> int:
    found = locate(arguments.table, None)
    assert found is not None  # it is a path
    if list_versions(*found):
        from . import table_actions  # what it imports takes long

        return table_actions.compact(arguments)
    console = Console(arguments)
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    options: Any = {name: value for name, value in given.items() if value is not None}
    with ending_on_signals(), console.progress("merging", None) as advance:
        report = compact(
            arguments.table,
            target_bytes=arguments.target_size,
            mode=arguments.mode,
            progress=in_steps(advance),
            **options,
        )
    _print_report(console, arguments.table, report)
    return OK


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
