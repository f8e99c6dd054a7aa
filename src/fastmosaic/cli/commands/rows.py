"""head, cat and count: the rows of files."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ...convert.inputs import Input, open_input
from ...query.where import parse
from ..arguments import (
    Commands,
    add_columns,
    add_command,
    add_json,
    add_pager,
    add_paths,
    add_where,
    whole,
)
from ..exit import OK
from ..output.cells import plain, texts
from ..output.console import Column, Console, printable, width

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
A CONDITION is as in SQL: and, or, not, = != < <= > >=, is null, in (...), between ... and ...,
like 'x%', ilike. Text is in single quotes, as are dates and times: day >= '2024-01-31'. A name
that is no word is in double quotes: "a-b" > 1.
"""
_NULL: Final = "null"
_GAP: Final = 3  # between columns on a terminal
_MAX_WIDTH: Final = 60  # of a value in a table
_MAX_WIDTH_ACROSS: Final = 20  # where rows are across
_MAX_COLUMNS: Final = 100  # of a table in a pipe
_NUM_LINES_AROUND: Final = 7  # of a table on a terminal: its head, its foot, the prompt
_MIN_COLUMNS: Final = 10
_NUM_VALUES: Final = 500_000  # that are Python objects at a time
_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]|^\s|\s$|^$')


def add(commands: Commands) -> None:
    """Let the command have these."""
    head = _add(
        commands,
        "head",
        "show the first rows",
        "Show the first rows of files. If a terminal is too narrow for them, columns are down "
        "and rows across; of very many columns, as many are shown as fit.",
        _HEAD_EXAMPLES,
    )
    head.add_argument(
        "-n", "--rows", type=whole, default=10, metavar="N", help="how many rows; 10 by default"
    )
    add_columns(head)
    add_pager(head)
    head.set_defaults(run=_head)

    cat = _add(
        commands,
        "cat",
        "print rows as CSV or JSON lines",
        "Print the rows of files as CSV, or as JSON lines with --json. In CSV, null is nothing, "
        'text without a character is "", lists and maps are JSON, and bytes are hexadecimal.',
        _CAT_EXAMPLES,
    )
    cat.add_argument("--limit", type=whole, metavar="N", help="at most so many rows")
    cat.add_argument("--no-header", action="store_true", help="no line of names")
    add_columns(cat)
    cat.set_defaults(run=_cat)

    count = _add(
        commands,
        "count",
        "count rows",
        "Count the rows of files; without a condition, Mosaic files are not read for that.",
        _COUNT_EXAMPLES,
    )
    count.set_defaults(run=_count)


def _add(
    commands: Commands, name: str, summary: str, description: str, examples: Sequence[str]
) -> argparse.ArgumentParser:
    description = textwrap.fill(description, 80)
    parser = add_command(commands, name, summary, description, examples, _LANGUAGE)
    add_paths(parser)
    add_where(parser)
    add_json(parser)
    return parser


# ---- head


def _head(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    source = open_input(arguments.paths)
    columns = source.select(arguments.columns)
    names = source.names() if columns is None else columns
    shown = names
    if console.is_terminal and columns is None:
        lines = shutil.get_terminal_size().lines - _NUM_LINES_AROUND
        shown = names[: max(_MIN_COLUMNS, lines)]
    table = first_rows(source, arguments.rows, shown, arguments.where)
    if console.is_json:
        columns_of_rows = [plain(column.combine_chunks()) for column in table.columns]
        console.document(list(_records(table.column_names, columns_of_rows, table.num_rows)))
    elif not shown:
        console.line(f"{table.num_rows} rows without columns")
    else:
        total = source.num_rows if arguments.where is None else None
        _show(console, table, len(names), total)
    return OK


def first_rows(source: Input, num_rows: int, columns: Sequence[str], where: str | None) -> pa.Table:
    """The first rows that match; of Mosaic files, no more than is needed for them is read."""
    if source.fileset is not None:
        condition = None if where is None else parse(where).expression(source.field)
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
            # A batch without columns would get as many rows as are asked for.
            batch = batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows
        yield batch


def _show(console: Console, table: pa.Table, num_columns: int, total: int | None) -> None:
    """The rows as a table; or, if they are too wide for that, with columns down and rows across.

    There are `num_columns` to choose from, and `total` rows if that is known.
    """
    names = list(map(printable, table.column_names))
    down = [_cells(console, column.combine_chunks()) for column in table.columns]
    if console.is_terminal:
        is_wide = num_columns > len(names) or not _fits([names, *zip(*down, strict=True)])
    else:
        is_wide = num_columns > _MAX_COLUMNS
    if is_wide:
        _show_across(console, table.schema, down, num_columns, total)
        return
    heads = [
        Column(name, right=_is_number(field.type))
        for name, field in zip(names, table.schema, strict=True)
    ]
    console.table(heads, zip(*down, strict=True), footer=_of(table.num_rows, total, "row"))


def _show_across(
    console: Console,
    schema: pa.Schema,
    columns: Sequence[Sequence[str]],
    num_columns: int,
    total: int | None,
) -> None:
    num_rows = len(columns[0])
    room = shutil.get_terminal_size().columns
    longest = room * 2 // 5 if console.is_terminal else None
    lines = [
        [
            _middle_cut(console, printable(field.name), longest),
            *(_cut(console, cell, _MAX_WIDTH_ACROSS) for cell in (str(field.type), *cells)),
        ]
        for field, cells in zip(schema, columns, strict=True)
    ]
    if console.is_terminal:
        num_rows = min(num_rows, 1 + room // len("row 1"))
        while num_rows > 1 and not _fits(_across(lines, num_rows)):
            num_rows -= 1
    heads, *shown = _across(lines, num_rows)
    facts = f"{_of(num_rows, total, 'row')}, {_of(len(lines), num_columns, 'column')}"
    hint = "-c chooses columns, cat and --json show whole rows"
    console.table(heads, shown, footer=f"{facts}; {hint}")


def _across(lines: Sequence[Sequence[str]], num_rows: int) -> list[Sequence[str]]:
    """A line for each column, with so many rows, under heads."""
    heads = ["column", "type", *(f"row {number + 1}" for number in range(num_rows))]
    return [heads, *(line[: len(heads)] for line in lines)]


def _fits(lines: Sequence[Sequence[str]]) -> bool:
    """Whether lines of cells are not wider than the terminal."""
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    return sum(widths) + _GAP * (len(widths) - 1) <= shutil.get_terminal_size().columns


def _cells(console: Console, array: pa.Array) -> list[str]:
    return [_NULL if text is None else _cut(console, text, _MAX_WIDTH) for text in texts(array)]


def _cut(console: Console, text: str, limit: int) -> str:
    text = printable(text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + console.ellipsis


def _middle_cut(console: Console, name: str, limit: int | None) -> str:
    """A name without its middle if it is long: beginnings and ends tell names apart."""
    if limit is None or len(name) <= limit:
        return name
    half = (limit - len(console.ellipsis)) // 2
    return name[:half] + console.ellipsis + name[-half:]


def _of(count: int, total: int | None, what: str) -> str:
    if total is None or total == count:
        return f"{count:,} {what}{'' if count == 1 else 's'}"
    return f"{count:,} of {total:,} {what}s"


def _is_number(type: pa.DataType) -> bool:
    return types.is_integer(type) or types.is_floating(type) or types.is_decimal(type)


# ---- cat


def _cat(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    source = open_input(arguments.paths, whole=True)
    columns = source.select(arguments.columns)
    names = source.names() if columns is None else columns
    batches = source.batches(columns, arguments.where)
    if console.is_json:
        lines = _json_lines(names, _limited(batches, arguments.limit))
    else:
        lines = _csv_lines(names, _limited(batches, arguments.limit), not arguments.no_header)
    clean = printable if sys.stdout.isatty() else str
    for line in lines:
        # In UTF-8, whatever the locale is: this is a file.
        sys.stdout.buffer.write(clean(line).encode() + b"\n")
    return OK


def _csv_lines(
    names: Sequence[str], batches: Iterator[pa.RecordBatch], header: bool
) -> Iterator[str]:
    """Lines of CSV; null is nothing, and text without a character is in quotes."""
    if header and names:
        yield ",".join(map(_quoted, names))
    for batch in _small(batches):
        columns = [_csv_values(column) for column in batch.columns]
        yield from map(",".join, zip(*columns, strict=True))


def _csv_values(array: pa.Array) -> list[str]:
    values = texts(array)
    if types.is_primitive(array.type):
        return [value or "" for value in values]
    return ["" if value is None else _quoted(value) for value in values]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text


def _json_lines(names: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
    for batch in _small(batches):
        columns = [plain(column) for column in batch.columns]
        for record in _records(names, columns, batch.num_rows):
            yield json.dumps(record, ensure_ascii=False)


def _records(
    names: Sequence[str], columns: Sequence[Sequence[Any]], num_rows: int
) -> Iterator[dict[str, Any]]:
    for row in zip(*columns, strict=True) if columns else [()] * num_rows:
        yield dict(zip(names, row, strict=True))


def _small(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of so few rows that their values can be Python objects, even of a wide table."""
    for batch in batches:
        step = max(1, _NUM_VALUES // max(1, batch.num_columns))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, min(step, batch.num_rows - start))


# ---- count


def _count(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    source = open_input(arguments.paths)
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
