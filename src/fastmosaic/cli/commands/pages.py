"""pages, dictionary and column-size: how columns are stored."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from ...convert.values import json_values, texts
from ...dataset.files import File
from ...display.prefixes import grouped
from ...file.stored import Encoding, Page, StoredColumn, stored_bytes, stored_columns
from ...format.bucket import Layout
from ...format.column_set import ColumnSet
from ...query.selection import GLOB, selected, split_names
from ...schemas.union import Union
from ..arguments import Commands, add_columns, positive
from ..exit import NO, OK, complain
from ..files import (
    FileLabels,
    add_file_command,
    add_row_group,
    find_counted,
    find_files,
    opened,
    print_by_file,
    row_groups,
)
from ..output.aligned import Column
from ..output.console import Console

_STORED: Final = (
    "Columns are those that a file stores: a struct is one column for each of its fields, and one "
    "called __null__ that tells where the struct is null."
)
_SHARES: Final = (
    "A monolithic bucket is compressed as a whole: the bytes of its columns are estimated from "
    "their uncompressed sizes."
)


def add(commands: Commands) -> None:
    """Register the `pages`, `dictionary` and `column-size` commands."""
    parser = add_file_command(
        commands,
        "pages",
        "print encodings, sizes and nulls of the pages of columns",
        "Print the pages of columns: encoding, bytes, nulls and dictionary entries. A list or map has\n"
        f"one page for its lengths and others for its elements. {_STORED}\n\n{_SHARES}",
        ["pages sales.mosaic -c 'price*'", "pages sales.mosaic --row-group 0 --bucket 3"],
    )
    add_columns(parser)
    add_row_group(parser)
    parser.add_argument("--bucket", type=int, metavar="N", help="only this bucket")
    parser.set_defaults(run=_pages)

    parser = add_file_command(
        commands,
        "dictionary",
        "print dictionary entries and how often they occur",
        "Print the entries of dictionaries, the most frequent first. A constant counts as a dictionary\n"
        "with one entry. The exit status is 1 if there is no dictionary.",
        ["dictionary sales.mosaic -c kind", "dictionary warehouse -c kind --each"],
    )
    add_columns(parser)
    add_row_group(parser)
    parser.add_argument(
        "--each",
        action="store_true",
        help="print each dictionary separately, in the order of the file",
    )
    parser.set_defaults(run=_dictionary)

    parser = add_file_command(
        commands,
        "column-size",
        "print the size of each column, the largest first",
        "Print the bytes of columns in all row groups of all files; of a table, without columns that\n"
        f"were dropped or replaced. {_STORED}\n\n{_SHARES}",
        [
            "column-size sales.mosaic --limit 20",
            "column-size warehouse --by-prefix",
            "column-size sales.mosaic -c 'sensor_*' --sort name",
        ],
    )
    add_columns(parser)
    parser.add_argument(
        "--sort",
        choices=("size", "name", "position"),
        default="size",
        help="order of columns (default: size, the largest first)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    parser.add_argument(
        "--by-prefix",
        action="store_true",
        help="sum up columns whose names start with the same words",
    )
    parser.set_defaults(run=_column_size)


# ---- pages


def _chosen(files: Iterable[File], patterns: Sequence[str] | None) -> list[str] | None:
    """Return the columns that `patterns` choose, or None for all."""
    if patterns is None:
        return None
    distinct: dict[ColumnSet, str] = {file.columns: file.name for file in files}
    stored = Union(distinct, pa.schema([]))
    asked: list[str] = []
    for given in patterns:
        for name in [given] if stored.has(given) else split_names(given):
            is_known = stored.has(name) or GLOB.search(name)
            inside = [] if is_known else _inside(stored, name)
            asked += inside or [name]
    if not asked:
        raise ValueError("no column is given")
    return selected(asked, stored)


def _inside(stored: Union, name: str) -> list[str]:
    """Return the stored columns of a struct, or of a list or map that contains structs."""
    return [one for one in stored.names() if one.startswith(f"{name}.")]


def _positions(file: File, names: Sequence[str] | None) -> list[int]:
    """Return the positions of the columns that the file contains, by default of all columns."""
    block = file.metadata.schema_block
    if names is None and not file.columns.hidden:
        return list(block.order)
    chosen = file.columns.names() if names is None else filter(file.columns.has, names)
    return list(map(block.find, chosen))


def _pages(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    files = find_files(arguments)
    names = _chosen(files, arguments.columns)
    wanted = arguments.bucket
    records = []
    for file in files:
        block = file.metadata.schema_block
        positions = _positions(file, names)
        if wanted is not None:
            if not 0 <= wanted < block.num_buckets:
                raise ValueError(
                    f"{file.name}: bucket {wanted} does not exist: the file has {block.num_buckets}"
                )
            positions = [one for one in positions if block.bucket_of(one) == wanted]
        for group, columns in _stored(file, positions, arguments.row_group):
            for column in columns:
                records += [_page_record(file, group, column, page) for page in column.pages]
    if console.is_json:
        console.document(records)
        return OK
    keys = ("row_group", "bucket", "column", "type", "encoding")
    numbers = ("bytes", "uncompressed", "nulls", "entries")
    print_by_file(
        console,
        files,
        [
            *map(Column.number, ("row group", "bucket")),
            *(Column.name("column"), "type", "encoding"),
            *map(Column.number, ("bytes", "raw bytes", "nulls", "entries")),
        ],
        [(one["file"], [one[key] for key in (*keys, *numbers)]) for one in records],
        footer=_SHARES if any(one["is_share"] for one in records) else None,
    )
    return OK


def _stored(
    file: File, positions: Sequence[int], row_group: int | None
) -> Iterator[tuple[int, list[StoredColumn]]]:
    """Yield row groups with the columns at `positions`, in this order."""
    with opened(file) as source:
        for group in row_groups(file, row_group):
            columns = stored_columns(source, file.metadata, group, positions)
            by_position = {column.position: column for column in columns}
            yield group, [by_position[position] for position in positions]


def _page_record(file: File, group: int, column: StoredColumn, page: Page) -> dict[str, Any]:
    return {
        "file": file.name,
        "row_group": group,
        "bucket": column.bucket,
        "column": page.path,
        "type": page.type,
        "encoding": str(page.encoding),
        "rows": page.num_rows,
        "bytes": page.stored_bytes,
        "is_share": column.layout == Layout.MONOLITHIC,
        "uncompressed": page.size,
        "nulls": page.null_count,
        "entries": page.num_entries if page.encoding == Encoding.DICT else None,
        "entry_bytes": page.entry_bytes if page.num_entries else None,
        "constant": json_values(page.entries())[0] if page.encoding == Encoding.CONST else None,
    }


# ---- dictionary


@dataclass(slots=True)
class _Dictionary:
    """The dictionary of one page, or of several pages of a column.

    counts    by the text of the entry: -0.0 and 0.0 are different entries
    values    the JSON value of each text
    """

    column: str
    type: pa.DataType
    counts: Counter[str]
    values: dict[str, Any]
    file: str | None = None
    row_group: int | None = None

    @classmethod
    def of(cls, file: File, group: int, page: Page) -> _Dictionary:
        entries = page.entries()
        keys = list(map(str, texts(entries)))
        counts: Counter[str] = Counter()
        for key, count in zip(keys, page.counts(), strict=True):
            counts[key] += count
        values = dict(zip(keys, json_values(entries), strict=True))
        return cls(page.path, entries.type, counts, values, file.name, group)

    def to_dict(self) -> dict[str, Any]:
        place = {} if self.file is None else {"file": self.file, "row_group": self.row_group}
        return {
            **place,
            "column": self.column,
            "type": str(self.type),
            "entries": [
                {"value": self.values[text], "count": count} for text, count in self.counts.items()
            ],
        }


def _dictionary(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    if arguments.columns is None:
        raise ValueError("no columns chosen; use -c, e.g. -c kind")
    files = find_files(arguments)
    names = _chosen(files, arguments.columns)
    found: list[_Dictionary] = []
    others: Counter[str] = Counter()
    for file in files:
        for group, columns in _stored(file, _positions(file, names), arguments.row_group):
            for page in (page for column in columns for page in column.pages):
                if page.num_entries:
                    found.append(_Dictionary.of(file, group, page))
                else:
                    others[page.encoding] += 1
    if not arguments.each:
        found = _merged(found)
    without = ", ".join(f"{count:,} {name}" for name, count in others.items())
    if console.is_json:
        console.document([one.to_dict() for one in found])
    elif found:
        _print_dictionaries(console, found, FileLabels(console, files), without)
    else:
        complain(f"no dictionary found; pages: {without or 'none'}")
    return OK if found else NO


def _merged(found: Iterable[_Dictionary]) -> list[_Dictionary]:
    """Merge the dictionaries of each column, with the most frequent entries first."""
    merged: dict[tuple[str, pa.DataType], _Dictionary] = {}
    for one in found:
        empty = _Dictionary(one.column, one.type, Counter(), {})
        into = merged.setdefault((one.column, one.type), empty)
        into.counts.update(one.counts)
        into.values.update(one.values)
    for one in merged.values():
        one.counts = Counter(dict(one.counts.most_common()))
    return list(merged.values())


def _print_dictionaries(
    console: Console, found: Sequence[_Dictionary], files: FileLabels, without: str
) -> None:
    is_each = found[0].file is not None
    has_columns = len({one.column for one in found}) > 1
    heads: list[str | Column] = [
        *(files.head() if is_each else []),
        *([Column.number("row group")] if is_each else []),
        *([Column.name("column")] if has_columns else []),
        *(Column.number("count"), Column.number("share")),
        "value",
    ]
    rows: list[list[Any]] = []
    for one in found:
        total = max(1, one.counts.total())
        place = [
            *([] if one.file is None else [*files.cell(one.file), one.row_group]),
            *([one.column] if has_columns else []),
        ]
        rows += [
            [*place, count, f"{count / total:.1%}", text] for text, count in one.counts.items()
        ]
    console.table(
        heads,
        rows,
        title=files.title if is_each else None,
        footer=f"pages without a dictionary: {without}" if without else None,
    )


# ---- column-size


def _column_size(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    files = find_counted(arguments)
    names = _chosen(files, arguments.columns)
    data_bytes = sum(
        file.metadata.bytes_of(group)
        for file in files
        for group in range(file.metadata.num_row_groups)
    )
    sizes: dict[str, int] = {}
    with console.progress("reading", data_bytes) as advance:
        for file in files:
            _add_sizes(file, names, sizes, advance)
    entries: list[dict[str, Any]] = (
        _by_prefix(sizes)
        if arguments.by_prefix
        else [{"column": name, "bytes": size} for name, size in sizes.items()]
    )
    title = "prefix" if arguments.by_prefix else "column"
    if arguments.sort == "size":
        entries.sort(key=lambda one: -one["bytes"])
    elif arguments.sort == "name":
        entries.sort(key=lambda one: one[title])
    entries = entries[: arguments.limit]
    for one in entries:
        one["share"] = one["bytes"] / data_bytes if data_bytes else 0.0
    if console.is_json:
        key = "prefixes" if arguments.by_prefix else "columns"
        console.document({"files": len(files), "data_bytes": data_bytes, key: entries})
        return OK
    largest = max((one["share"] for one in entries), default=0) or 1
    heads: list[str | Column] = [
        *([Column.number("columns")] if arguments.by_prefix else []),
        *(Column.number("bytes"), Column.number("share")),
        *([Column("", whole=True)] if console.is_terminal else []),
    ]
    console.table(
        [Column.name(title), *heads],
        [
            [
                _label(one[title], one.get("is_rest", False)),
                *([one["columns"]] if arguments.by_prefix else []),
                console.size(one["bytes"]),
                f"{one['share']:.2%}",
                *([console.bar(one["share"] / largest)] if console.is_terminal else []),
            ]
            for one in entries
        ],
        footer=f"{len(sizes):,} columns, {console.size(sum(sizes.values()))} of "
        f"{console.size(data_bytes)}\n{_SHARES}",
    )
    return OK


def _label(name: str, is_rest: bool) -> str:
    if not is_rest:
        return name
    return "others" if name == "*" else f"other {name}"


def _add_sizes(
    file: File,
    names: Sequence[str] | None,
    sizes: dict[str, int],
    advance: Callable[[int], None],
) -> None:
    metadata = file.metadata
    positions = _positions(file, names)
    named = [(position, metadata.schema_block.name(position)) for position in positions]
    sizes.update((name, 0) for _, name in named if name not in sizes)
    with opened(file) as source:
        for group in range(metadata.num_row_groups):
            found = stored_bytes(source, metadata, group, positions)
            for position, name in named:
                sizes[name] += found[position]
            advance(metadata.bytes_of(group))


def _by_prefix(sizes: dict[str, int]) -> list[dict[str, Any]]:
    by_index = list(sizes.values())
    return [
        {
            "prefix": group.pattern,
            "is_rest": group.is_rest,
            "columns": len(group.members),
            "bytes": sum(by_index[index] for index in group.members),
        }
        for group in sorted(grouped(list(sizes)), key=lambda group: group.members[0])
    ]
