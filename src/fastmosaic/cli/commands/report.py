"""report: one self-contained HTML page about files."""

from __future__ import annotations

import argparse
from typing import Final

from ...convert.inputs import open_input
from ...display.text import human_size
from ...errors import UnsupportedError, printable
from ...report.measured import MAX_CELLS, measured
from ...report.page import page
from ...storage.secrets import redacted
from ...storage.sink import open_sink
from ..arguments import Commands, add_at, add_command, add_json, add_memory_limit, add_paths
from ..exit import OK
from ..files import other_format
from ..output.console import Console
from ..target import check_absent, ending_on_signals, naming

_DESCRIPTION: Final = f"""\
Write an HTML page about Mosaic files, a dataset or a table: the columns as a tree of prefixes, where
the bytes are, statistics and a histogram of each column, row groups and layout.

The page loads nothing from elsewhere and is never larger than 5 MB, also for 100,000 columns. Statistics of
more than {MAX_CELLS // 1_000_000} million values come from some of the row groups, unless --all-rows is given; the
page says so. Sizes always include all row groups."""
_EXAMPLES: Final = (
    "report sales.mosaic -o report.html",
    "report warehouse/sales -o report.html --overwrite --all-rows",
)


def add(commands: Commands) -> None:
    """Register the `report` command."""
    parser = add_command(
        commands, "report", "write an HTML page about files", _DESCRIPTION, _EXAMPLES
    )
    add_paths(parser, "Mosaic files, directories, globs, tables or URIs")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the page, such as report.html"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists")
    parser.add_argument("--all-rows", action="store_true", help="read all rows for statistics")
    add_at(parser)
    add_memory_limit(parser)
    add_json(parser)
    parser.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    target = arguments.output
    check_absent(target, arguments.overwrite)
    with ending_on_signals(), naming(target):
        source = open_input(
            arguments.paths, follow_links=arguments.follow_links, version=arguments.at
        )
        if source.fileset is None:
            raise UnsupportedError(
                other_format(source.files[0])
                or f"{source.files[0].name}: this command reads Mosaic files only"
            )
        title = ", ".join(map(redacted, arguments.paths))
        with console.progress("reading", 2 * source.num_bytes) as advance:
            content = measured(
                source, title, advance, max_cells=None if arguments.all_rows else MAX_CELLS
            )
        made = page(content)
        sink = open_sink(target)
        try:
            sink.write(made)
            sink.commit()
        finally:
            sink.abandon()
    num_columns = len(content["columns"]["name"])
    if console.is_json:
        console.document(
            {
                "target": redacted(target),
                "bytes": len(made),
                "rows": content["rows"],
                "columns": num_columns,
                "rows_read": content["readRows"],
            }
        )
    else:
        console.line(
            f"{printable(redacted(target))}: {console.count(num_columns, 'column')}, "
            f"{console.count(content['rows'], 'row')}, {human_size(len(made))}"
        )
    return OK
