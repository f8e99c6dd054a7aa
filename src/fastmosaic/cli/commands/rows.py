"""head, cat and count: the rows of files."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ...convert.inputs import Input, open_input
from ...convert.listed import num_leaves
from ...convert.values import json_values, readable_texts, texts
from ...display.text import short_type
from ...errors import printable
from ...query.where import parse
from ..arguments import (
    CommandParser,
    Commands,
    add_at,
    add_columns,
    add_command,
    add_json,
    add_memory_limit,
    add_pager,
    add_paths,
    add_stored,
    add_where,
    whole,
)
from ..exit import OK
from ..output.aligned import Column
from ..output.console import Console
from ..output.values import json_text

_HEAD_EXAMPLES: Final = (
    "head sales.mosaic",
    """head -n 3 -c id,'temp_*' --where "price > 9.5 and kind like 'x%'" data/""",
)
_CAT_EXAMPLES: Final = (
    "cat -c id,price sales.mosaic > sales.csv",
    """cat --json --where "day >= '2024-01-31'" data/ | jq .price""",
)
_COUNT_EXAMPLES: Final = (
    "count data/",
    """count --where "kind is null or kind in ('a', 'b')" 'data/*.mosaic'""",
)
_LANGUAGE: Final = """\
A CONDITION uses SQL syntax: and, or, not, = != < <= > >=, is null, in (...), like 'x%', ilike,
between ... and ... . Put text, dates and times in single quotes: day >= '2024-01-31'. Put names
with special characters in double quotes: "a-b" > 1. Fields of structs are info.name, and durations
are interval '90 minutes'.
"""
_NULL: Final = "null"
_MAX_WIDTH: Final = 60  # characters of a value in a table
_MAX_WIDTH_TRANSPOSED: Final = 20  # characters of a value where every row is a column
_MAX_COLUMNS: Final = 100  # columns side by side in a pipe
_NUM_OTHER_LINES: Final = 7  # lines of a terminal that the table itself leaves to its surroundings
_MIN_COLUMNS: Final = 10
_NUM_VALUES: Final = 500_000  # values that are Python objects at the same time
_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]|^\s|\s$|^$')


def add(commands: Commands) -> None:
    """Register the `head`, `cat` and `count` commands."""
    head = _add(
        commands,
        "head",
        "print the first rows",
        "Print the first rows of files. If the columns do not fit side by side on a terminal, the "
        "table is transposed: one line for each column, for as many columns as fit the terminal.",
        _HEAD_EXAMPLES,
    )
    head.add_argument(
        "-n", "--rows", type=whole, default=10, metavar="N", help="number of rows (default: 10)"
    )
    add_columns(head)
    add_stored(head)
    add_pager(head)
    head.set_defaults(run=_head)

    cat = _add(
        commands,
        "cat",
        "print rows as CSV or JSON lines",
        "Print the rows of files as CSV, or as JSON lines with --json. In CSV, null is an empty "
        'value, empty text is "", lists, maps and structs are JSON, durations are numbers of their '
        "unit, and bytes are hexadecimal.",
        _CAT_EXAMPLES,
    )
    cat.add_argument("--limit", type=whole, metavar="N", help="print at most N rows")
    cat.add_argument("--no-header", action="store_true", help="do not print the column names")
    add_columns(cat)
    add_stored(cat)
    cat.set_defaults(run=_cat)

    counter = _add(
        commands,
        "count",
        "count rows",
        "Count the rows of files. Without a condition, only the metadata of Mosaic files is read.",
        _COUNT_EXAMPLES,
    )
    counter.set_defaults(run=_count)


def _add(
    commands: Commands, name: str, summary: str, description: str, examples: Sequence[str]
) -> CommandParser:
    parser = add_command(commands, name, summary, description, examples, _LANGUAGE)
    add_paths(parser)
    add_at(parser)
    add_where(parser)
    add_memory_limit(parser)
    add_json(parser)
    return parser


# ---- head


def _head(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    source = open_input(
        arguments.paths,
        follow_links=arguments.follow_links,
        stored=arguments.stored,
        version=arguments.at,
    )
    columns = source.select(arguments.columns)
    shown = source.names() if columns is None else columns
    num_columns = len(shown)
    if console.is_terminal and columns is None:
        shown = shown[: max(_MIN_COLUMNS, console.height - _NUM_OTHER_LINES)]
    table = first_rows(source, arguments.rows, shown, arguments.where)
    if columns is not None:
        num_columns = table.num_columns  # several fields may be of one column
    if console.is_json:
        values = [json_values(column.combine_chunks()) for column in table.columns]
        console.document(list(_records(table.column_names, values, table.num_rows)))
    elif not shown:
        console.line(f"{console.count(table.num_rows, 'row')} without columns")
    else:
        total = source.num_rows if arguments.where is None else None
        _show(console, table, num_columns, total)
    return OK


def first_rows(source: Input, num_rows: int, columns: Sequence[str], where: str | None) -> pa.Table:
    """Return the first rows that match; of Mosaic files, only what they need is read."""
    if source.fileset is not None:
        condition = None if where is None else parse(where).expression(source.columns)
        return source.fileset.head(num_rows, source.fileset.query(columns, condition))
    batches = list(_limited(source.batches(columns, where), num_rows))
    return pa.Table.from_batches(batches, source.schema_of(columns))


def _limited(batches: Iterator[pa.RecordBatch], num_rows: int | None) -> Iterator[pa.RecordBatch]:
    left = num_rows
    while left is None or left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        if left is not None:
            # Slicing a batch without columns does not check its number of rows.
            batch = batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows
        yield batch


def _show(console: Console, table: pa.Table, num_columns: int, total: int | None) -> None:
    """Print the rows as a table, transposed if that is too wide.

    The files have `num_columns` columns, and `total` rows if that is known.
    """
    columns = [_cells(console, column.combine_chunks()) for column in table.columns]
    heads = [
        Column(field.name, right=_is_number(field.type), whole=_is_number(field.type))
        for field in table.schema
    ]
    rows = list(zip(*columns, strict=True))
    if console.is_terminal:
        is_wide = num_columns > len(heads) or not console.fits(heads, rows)
    else:
        is_wide = num_columns > _MAX_COLUMNS
    if is_wide:
        _show_transposed(console, table.schema, columns, num_columns, total)
    else:
        console.table(heads, rows, footer=_of(console, table.num_rows, total, "row"))


def _show_transposed(
    console: Console,
    schema: pa.Schema,
    columns: Sequence[Sequence[str]],
    num_columns: int,
    total: int | None,
) -> None:
    """Print a line for each column, with as many rows as fit the terminal."""
    longest = console.width * 2 // 5 if console.is_terminal else 0
    lines = [
        [
            console.shortened(printable(field.name), longest, in_middle=True),
            *(
                _shortened(console, cell, _MAX_WIDTH_TRANSPOSED)
                for cell in (short_type(field.type), *cells)
            ),
        ]
        for field, cells in zip(schema, columns, strict=True)
    ]
    num_rows = len(columns[0])
    if console.is_terminal:
        num_rows = min(num_rows, 1 + console.width // len("row 1"))
        while num_rows > 1 and not console.fits(*_transposed(lines, num_rows)):
            num_rows -= 1
    heads, shown = _transposed(lines, num_rows)
    facts = ", ".join(
        (
            _of(console, num_rows, total, "row"),
            _of(console, len(lines), num_columns, "column"),
        )
    )
    hint = "use -c to choose columns, cat or --json to print complete rows"
    console.table(heads, shown, footer=f"{facts}; {hint}")


def _transposed(
    lines: Sequence[Sequence[str]], num_rows: int
) -> tuple[list[str | Column], list[Sequence[str]]]:
    """Return the headings and the lines of a table with the first `num_rows` rows."""
    heads: list[str | Column] = [Column.name("column"), "type"]
    heads += [f"row {number + 1}" for number in range(num_rows)]
    return heads, [line[: len(heads)] for line in lines]


def _cells(console: Console, array: pa.Array) -> list[str]:
    return [
        _NULL if text is None else _shortened(console, text, _MAX_WIDTH)
        for text in readable_texts(array)
    ]


def _shortened(console: Console, text: str, limit: int) -> str:
    """Return a value of at most `limit` characters, also in a pipe: `cat` prints whole values."""
    text = printable(text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + console.ellipsis


def _of(console: Console, number: int, total: int | None, noun: str) -> str:
    if total is None or total == number:
        return console.count(number, noun)
    return f"{number:,} of {console.count(total, noun)}"


def _is_number(type: pa.DataType) -> bool:
    return types.is_integer(type) or types.is_floating(type) or types.is_decimal(type)


# ---- cat


def _cat(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    source = open_input(
        arguments.paths,
        whole=True,
        follow_links=arguments.follow_links,
        stored=arguments.stored,
        version=arguments.at,
    )
    columns = source.select(arguments.columns)
    names = source.schema_of(columns).names
    batches = source.batches(columns, arguments.where)
    if console.is_json:
        lines = _json_lines(names, _limited(batches, arguments.limit))
    else:
        lines = _csv_lines(names, _limited(batches, arguments.limit), not arguments.no_header)
    clean = printable if sys.stdout.isatty() else str
    for line in lines:
        # In UTF-8 whatever the locale: the output is data.
        sys.stdout.buffer.write(clean(line).encode() + b"\n")
    return OK


def _csv_lines(
    names: Sequence[str], batches: Iterator[pa.RecordBatch], header: bool
) -> Iterator[str]:
    """Yield lines of CSV; null is an empty value and empty text is quoted."""
    if header and names:
        yield ",".join(map(_quoted, names))
    for batch in _small(batches):
        columns = [_csv_values(column) for column in batch.columns]
        yield from map(",".join, zip(*columns, strict=True))


def _csv_values(array: pa.Array) -> list[str]:
    values = texts(array)
    if types.is_primitive(array.type):  # no text of these needs quotes
        return [value or "" for value in values]
    return ["" if value is None else _quoted(value) for value in values]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


def _json_lines(names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
    for batch in _small(batches):
        columns = [json_values(column) for column in batch.columns]
        for record in _records(names, columns, batch.num_rows):
            yield json_text(record)


def _records(
    names: Sequence[str], columns: Sequence[Sequence[Any]], num_rows: int
) -> Iterator[dict[str, Any]]:
    for row in zip(*columns, strict=True) if columns else [()] * num_rows:
        yield dict(zip(names, row, strict=True))


def _small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches so that the values of each can be Python objects, even in a wide table."""
    for batch in batches:
        step = max(1, _NUM_VALUES // max(1, sum(map(num_leaves, batch.schema.types))))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, min(step, batch.num_rows - start))


# ---- count


def _count(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    source = open_input(arguments.paths, follow_links=arguments.follow_links, version=arguments.at)
    if arguments.where is None and source.num_rows is not None:
        num_rows = source.num_rows
    else:
        with console.progress("counting", source.num_bytes) as advance:
            batches = source.batches([], arguments.where, advance)
            num_rows = sum(batch.num_rows for batch in batches)
    if console.is_json:
        console.document({"rows": num_rows})
    else:
        console.line(console.cell(num_rows))
    return OK
