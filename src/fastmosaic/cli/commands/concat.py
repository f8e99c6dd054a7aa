"""concat: merge Mosaic files into one, by copying row groups where that is possible."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Final

from ...dataset.concat import open_sources
from ...dataset.discovery import discover
from ...display.text import human_size
from ...errors import printable
from ...file.concat import ConcatReport, concatenate, data_bytes
from ...file.options import OPTIONS
from ...storage.secrets import redacted
from ..arguments import Commands, add_command, add_follow_links, add_json
from ..exit import OK
from ..files import as_given, check_mosaic
from ..output.console import Console, in_steps
from ..target import add_mode, add_option, check_absent, ending_on_signals, naming

_DESCRIPTION: Final = """\
Merge Mosaic files into one file, with their rows in order.

Row groups of files that store the same columns, with the same types, number of buckets and
compression, are copied without decoding them. Other files are written again with the columns of
all files, and runs of small row groups are joined to larger ones.
"""
_EXAMPLES: Final = (
    "concat monday.mosaic tuesday.mosaic week.mosaic",
    "concat 'parts/*.mosaic' all.mosaic --row-group-bytes 64m",
    "concat parts/ all.mosaic --mode copy --json",
)
_NOTES: Final = """\
DST appears only when it is complete: after an error or Ctrl-C, an existing file is unchanged. The
options for writing apply to row groups that are not copied. Without them, the new file has the
compression, the number of buckets and the statistics of SRC.
"""
_OPTIONS: Final = (
    *("row_group_bytes", "row_group_size", "num_buckets"),
    *("compression", "compression_level", "array_layout"),
)


def add(commands: Commands) -> None:
    """Register the `concat` command."""
    parser = add_command(
        commands, "concat", "merge Mosaic files into one", _DESCRIPTION, _EXAMPLES, _NOTES
    )
    parser.add_argument(
        "paths", nargs="+", metavar="SRC", help="Mosaic files, directories, globs or URIs"
    )
    parser.add_argument("target", metavar="DST", help="the new file")
    add_mode(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace DST if it exists")
    add_follow_links(parser)
    writing = parser.add_argument_group("writing row groups that are not copied")
    for name in _OPTIONS:
        add_option(writing, OPTIONS[name])
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    check_absent(arguments.target, arguments.overwrite)
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    options = {name: value for name, value in given.items() if value is not None}
    with ending_on_signals(), naming(arguments.target):
        found = discover(as_given(arguments.paths), follow_links=arguments.follow_links)
        check_mosaic(found)
        files = open_sources(found)
        with console.progress("merging", data_bytes(files)) as advance:
            report = concatenate(
                files,
                arguments.target,
                mode=arguments.mode,
                progress=in_steps(advance),
                **options,
            )
    if console.is_json:
        console.document({"target": redacted(arguments.target), **asdict(report)})
    else:
        console.line(_line(arguments.target, report, console))
    return OK


def _line(target: str, report: ConcatReport, console: Console) -> str:
    return (
        f"{printable(redacted(target))}: {console.cell(report.num_rows)} rows of "
        f"{console.count(report.num_files, 'file')}, {human_size(report.num_bytes)}, "
        f"row groups: {console.cell(report.num_copied)} copied, "
        f"{console.cell(report.num_rewritten)} rewritten, {report.seconds:.2f} s"
    )
