"""diff: compare two tables."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from ...convert.compare import RowDifference, SchemaDifference, is_same_type
from ...convert.inputs import matching, open_input
from ...convert.values import compact
from ...dataset.leaves import fields_of
from ...display.text import short_type
from ...errors import printable
from ...format.column_set import ColumnSet
from ...storage.secrets import redacted
from ..arguments import (
    Commands,
    add_at,
    add_columns,
    add_command,
    add_dialect,
    add_follow_links,
    add_json,
    add_memory_limit,
    add_types,
    dialect,
)
from ..exit import NO, OK
from ..output.aligned import Column
from ..output.console import Console

_EXAMPLES: Final = (
    "diff events.parquet events.mosaic",
    "diff --schema monday/ tuesday/",
    "diff a.csv b.csv -c 'price_*' --json",
)
_NOTES: Final = """\
Rows are compared in order and numbered from 0. Types that Mosaic stores in the same way, such as
string and large_string, are equal. If types differ, values are compared as their common type, if
there is one. NaN equals NaN, and -0.0 equals 0.0. With --strict, metadata and nullability are
compared, too.

exit status: 0 if the tables are the same, 1 if they differ, 2 on errors
"""
_MAX_LINES: Final = 20  # differences that are printed
_MAX_VALUE: Final = 60  # characters of a value


def add(commands: Commands) -> None:
    """Register the `diff` command."""
    parser = add_command(
        commands,
        "diff",
        "compare two tables",
        "Compare the columns and rows of two tables, in any of the supported formats.",
        _EXAMPLES,
        _NOTES,
    )
    parser.add_argument("one", metavar="A", help="a file, directory, glob or URI")
    parser.add_argument("other", metavar="B", help="another one")
    add_at(parser, what="A")
    add_at(parser, "--other-at", "B")
    add_follow_links(parser)
    parser.add_argument("--schema", action="store_true", help="compare columns only, not rows")
    parser.add_argument(
        "--strict", action="store_true", help="compare exact types, nullability and metadata"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing, only set the exit status"
    )
    add_columns(parser)
    add_memory_limit(parser)
    add_types(parser, "types of CSV and JSON columns by name or glob; may be repeated")
    add_dialect(parser)
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    one, other = (
        open_input(
            [path],
            types=dict(arguments.types),
            dialect=dialect(arguments),
            whole=True,
            follow_links=arguments.follow_links,
            version=version,
        )
        for path, version in (
            (arguments.one, arguments.at),
            (arguments.other, arguments.other_at),
        )
    )
    schemas = one.schema, other.schema
    if arguments.columns:
        chosen = matching(arguments.columns, _ColumnsOfBoth(one.columns, other.columns))
        schemas = tuple(
            source.schema_of([name for name in chosen if source.columns.has(name)])
            for source in (one, other)
        )
    columns = SchemaDifference.of(*schemas, strict=arguments.strict)
    if arguments.quiet and columns.differ:
        return NO
    rows = None
    if not arguments.schema:
        rows = RowDifference(columns.common)
        total = one.num_bytes + other.num_bytes
        with console.progress("diff", total or None) as advance:
            rows.compare(one, other, advance, is_enough=arguments.quiet)
    is_same = not columns.differ and (rows is None or not rows.differ)
    if not arguments.quiet:
        _print(console, arguments, columns, rows, is_same)
    return OK if is_same else NO


class _ColumnsOfBoth:
    """The columns of either of two tables, of which names and globs select some."""

    def __init__(self, *tables: ColumnSet) -> None:
        self._tables = tables

    def has(self, name: str) -> bool:
        return any(table.has(name) for table in self._tables)

    def paths(self) -> list[str]:
        return list(dict.fromkeys(path for table in self._tables for path in table.paths()))

    def similar(self, name: str) -> list[str]:
        return list(dict.fromkeys(one for table in self._tables for one in table.similar(name)))


def _print(
    console: Console,
    arguments: argparse.Namespace,
    columns: SchemaDifference,
    rows: RowDifference | None,
    is_same: bool,
) -> None:
    if console.is_json:
        document: dict[str, Any] = {"same": is_same, "schema": columns.to_dict()}
        if rows is not None:
            document["contents"] = rows.to_dict()
        console.document(document)
        return
    names = (_label(arguments.one, arguments.at), _label(arguments.other, arguments.other_at))
    _print_columns(console, names, columns)
    if rows is not None:
        _print_rows(console, names, rows)
    if is_same:
        what = [] if rows is None else [console.count(rows.counts[0], "row")]
        what.append(console.count(len(columns.common), "column"))
        console.line(f"no differences in {' and '.join(what)}")


def _label(path: str, version: int | None) -> str:
    """Return the name of a table, with its version if one was given."""
    return printable(redacted(path)) + ("" if version is None else f" at {version}")


def _print_columns(console: Console, names: tuple[str, str], columns: SchemaDifference) -> None:
    one, other = names
    differences = [
        *((field.name, short_type(field.type), "") for field in columns.only_one),
        *((field.name, "", short_type(field.type)) for field in columns.only_other),
        *(line for a, b in columns.types for line in _type_lines(a, b, columns.strict)),
    ]
    if differences:
        console.line(
            f"columns: {console.cell(len(columns.only_one))} only in {one}, "
            f"{console.cell(len(columns.only_other))} only in {other}, "
            f"{console.cell(len(columns.types))} with different types"
        )
        _print_table(
            console, [Column.name("column"), Column.name(one), Column.name(other)], differences
        )
    if columns.order:
        a, b = columns.order
        console.line(f"order: {one} has {a!r} where {other} has {b!r}")
    for line in columns.metadata:
        console.line(line)
    if columns.incomparable:
        shown = ", ".join(columns.incomparable[:3])
        more = f" and {len(columns.incomparable) - 3} more" if len(columns.incomparable) > 3 else ""
        console.line(f"values not compared, because there is no common type: {shown}{more}")


def _type_lines(one: pa.Field, other: pa.Field, strict: bool) -> list[tuple[str, str, str]]:
    """Return the paths and the types of everything that differs in the types of a column."""
    lines = list(_fields_that_differ(one.name, one.type, other.type, strict))
    return lines or [(one.name, str(one.type), str(other.type))]


def _fields_that_differ(
    path: str, one: pa.DataType, other: pa.DataType, strict: bool
) -> Iterator[tuple[str, str, str]]:
    texts = short_type(one), short_type(other)
    ours, theirs = ({field.name: field for field in fields_of(type)} for type in (one, other))
    if not ours or not theirs or texts[0] != texts[1]:
        if not is_same_type(one, other, strict):
            yield path, *texts
        return
    for name in {**ours, **theirs}:
        a, b = ours.get(name), theirs.get(name)
        inside = f"{path}.{name}"
        if a is None or b is None or (strict and a.nullable != b.nullable):
            yield inside, _described(a), _described(b)
        else:
            yield from _fields_that_differ(inside, a.type, b.type, strict)


def _described(field: pa.Field | None) -> str:
    if field is None:
        return ""
    return f"{short_type(field.type)}{'' if field.nullable else ' not null'}"


def _print_rows(console: Console, names: tuple[str, str], rows: RowDifference) -> None:
    one, other = names
    a, b = rows.counts
    if a != b:
        console.line(f"rows: {console.cell(a)} in {one}, {console.cell(b)} in {other}")
    if not rows.columns:
        return
    console.line(f"values: differences in {console.count(len(rows.columns), 'column')}")
    lines = [
        (
            column if place == 0 else "",
            found.num_rows if place == 0 else None,
            row,
            _text(mine),
            _text(theirs),
        )
        for column, found in rows.columns.items()
        for place, (row, mine, theirs) in enumerate(found.first)
    ]
    heads = [
        Column.name("column"),
        Column.number("rows"),
        Column.number("row"),
        Column.name(one),
        Column.name(other),
    ]
    _print_table(console, heads, lines)


def _print_table(console: Console, heads: Sequence[Column], lines: Sequence[Sequence[Any]]) -> None:
    console.table(heads, lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        console.line(
            f"and {console.count(len(lines) - _MAX_LINES, 'more line')}; use --json to print all"
        )


def _text(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    if value is None or isinstance(value, dict | list):
        text = compact(value)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
