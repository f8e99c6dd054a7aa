"""diff: whether two tables are the same, and where they are not."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from ...convert.compare import Columns, Rows
from ...convert.inputs import matching, open_input
from ..arguments import Commands, add_columns, add_command, add_json
from ..exit import NO, OK
from ..output.console import Column, Console, printable
from ..text_options import add_dialect, add_types, dialect

_EXAMPLES: Final = (
    "diff events.parquet events.mosaic",
    "diff --schema monday/ tuesday/",
    "diff a.csv b.csv -c 'price_*' --json",
)
_NOTES: Final = """\
Rows are compared in their order, and count from 0. Types are the same if Mosaic stores them
alike, as large_string and string; where they differ, values are compared as the type that holds
both, if there is one. NaN equals NaN, and -0.0 equals 0.0. Metadata and whether columns may be
null are a difference with --strict only.

exit status: 0 the same, 1 different, 2 trouble
"""
_MAX_LINES: Final = 20  # of a table on the screen
_MAX_VALUE: Final = 60  # characters of a value there


def add(commands: Commands) -> None:
    """Let the command have this."""
    parser = add_command(
        commands,
        "diff",
        "compare two files or directories",
        "Compare the columns and rows of two tables, of any formats.",
        _EXAMPLES,
        _NOTES,
    )
    parser.add_argument("one", metavar="A", help="a file, directory or glob")
    parser.add_argument("other", metavar="B")
    parser.add_argument("--schema", action="store_true", help="compare the columns, not the rows")
    parser.add_argument("--strict", action="store_true", help="types must be the very same, too")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing; exit status only"
    )
    add_columns(parser)
    add_types(parser, "what columns of CSV and JSON are, by name or glob; may be repeated")
    add_dialect(parser)
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    one, other = (
        open_input([path], types=dict(arguments.types), dialect=dialect(arguments), whole=True)
        for path in (arguments.one, arguments.other)
    )
    schemas = one.schema, other.schema
    if arguments.columns:
        union = list(dict.fromkeys(one.names() + other.names()))
        chosen = matching(arguments.columns, union)
        schemas = tuple(
            pa.schema([s.field(n) for n in chosen if s.get_field_index(n) >= 0], s.metadata)
            for s in schemas
        )
    columns = Columns.of(*schemas, strict=arguments.strict)
    if arguments.quiet and columns.differ:
        return NO
    rows = None
    if not arguments.schema:
        rows = Rows(columns.common)
        total = one.num_bytes + other.num_bytes
        with console.progress("diff", total or None) as advance:
            rows.compare(one, other, advance, is_enough=arguments.quiet)
    is_same = not columns.differ and (rows is None or not rows.differ)
    if not arguments.quiet:
        _print(console, arguments, columns, rows, is_same)
    return OK if is_same else NO


def _print(
    console: Console,
    arguments: argparse.Namespace,
    columns: Columns,
    rows: Rows | None,
    is_same: bool,
) -> None:
    if console.is_json:
        document: dict[str, Any] = {"same": is_same, "schema": columns.to_dict()}
        if rows is not None:
            document["contents"] = rows.to_dict()
        console.document(document)
        return
    names = (printable(arguments.one), printable(arguments.other))
    _print_columns(console, names, columns)
    if rows is not None:
        _print_rows(console, names, rows)
    if is_same:
        counts = "" if rows is None else f"{console.cell(rows.counts[0])} rows of "
        console.line(f"the same: {counts}{console.cell(len(columns.common))} columns")


def _print_columns(console: Console, names: tuple[str, str], columns: Columns) -> None:
    one, other = names
    differences = [
        *((field.name, str(field.type), "") for field in columns.only_one),
        *((field.name, "", str(field.type)) for field in columns.only_other),
        *((a.name, str(a.type), str(b.type)) for a, b in columns.types),
    ]
    if differences:
        console.line(
            f"columns: {console.cell(len(columns.only_one))} only in {one}, "
            f"{console.cell(len(columns.only_other))} only in {other}, "
            f"{console.cell(len(columns.types))} of other types"
        )
        _print_table(console, ["column", one, other], differences)
    if columns.order:
        a, b = (printable(name) for name in columns.order)
        console.line(f"order: where {one} has {a!r}, {other} has {b!r}")
    for line in columns.metadata:
        console.line(printable(line))
    if columns.incomparable:
        shown = ", ".join(map(printable, columns.incomparable[:3]))
        more = f" and {len(columns.incomparable) - 3} more" if len(columns.incomparable) > 3 else ""
        console.line(f"values not compared, because of their types: {shown}{more}")


def _print_rows(console: Console, names: tuple[str, str], rows: Rows) -> None:
    one, other = names
    a, b = rows.counts
    if a != b:
        console.line(f"rows: {console.cell(a)} in {one}, {console.cell(b)} in {other}")
    if not rows.columns:
        return
    console.line(f"values: {console.cell(len(rows.columns))} columns differ")
    lines = [
        (
            name if number == 0 else "",
            found.num_rows if number == 0 else None,
            row,
            _text(mine),
            _text(theirs),
        )
        for name, found in rows.columns.items()
        for number, (row, mine, theirs) in enumerate(found.first)
    ]
    heads: list[str | Column] = [
        "column",
        Column("rows", right=True),
        Column("row", right=True),
        one,
        other,
    ]
    _print_table(console, heads, lines)


def _print_table(
    console: Console, heads: Sequence[str | Column], lines: Sequence[Sequence[Any]]
) -> None:
    console.table(heads, lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        console.line(f"... and {console.cell(len(lines) - _MAX_LINES)} more lines; --json has all")


def _text(value: Any) -> str:
    text = "null" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
