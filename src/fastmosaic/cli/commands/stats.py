"""stats: the content of columns, and how they are stored."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from ...convert.inputs import matching
from ...dataset.discovery import discover
from ...dataset.fileset import FileSet
from ...dataset.leaves import leaf_schema
from ...dataset.profile import DISTINCT_EXACT, ColumnProfile, Profiler, conclude
from ...dataset.table_files import DatasetFile
from ...errors import CorruptFileError
from ...file.stored import Encoding
from ...format.column_set import ColumnSet
from ...schemas.fit import plain_schema
from ..arguments import Commands, add_at, add_columns, add_memory_limit, add_stored, positive
from ..exit import OK
from ..files import add_file_command, as_given, check_mosaic
from ..output.aligned import Column
from ..output.console import Console
from ..output.values import parsed

_DESCRIPTION: Final = f"""\
Print the encoding, size, nulls, distinct values, minimum and maximum of columns in Mosaic files.
Structs are described by their fields. The size of the first field of a struct includes the pages that
tell where the struct is null.

All values are read. Up to {DISTINCT_EXACT} distinct values are counted exactly; larger numbers are estimated,
with an error of about 6 %."""

_SORTS: Final[dict[str, Callable[[ColumnProfile], Any]]] = {
    "name": lambda one: one.column,
    "size": lambda one: -one.bytes,
    "nulls": lambda one: -one.nulls,
    "distinct": lambda one: 1 if one.distinct is None else -one.distinct,
}
_ENCODINGS: Final = tuple(map(str, Encoding))
_MAX_BOUND: Final = 20  # characters of a minimum or maximum on a terminal


def add(commands: Commands) -> None:
    """Register the `stats` command."""
    parser = add_file_command(
        commands,
        "stats",
        "print nulls, distinct values, bounds and sizes of columns",
        _DESCRIPTION,
        ["stats sales.mosaic", "stats warehouse -c 'sensor_temp_*' --sort nulls --limit 20"],
    )
    add_at(parser)
    add_columns(parser)
    add_stored(parser)
    add_memory_limit(parser)
    parser.add_argument(
        "--sort",
        choices=("position", *_SORTS),
        default="position",
        help="order of columns (default: position); numbers from largest to smallest",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    parser.set_defaults(run=_stats)


def _stats(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    files = _opened(arguments)
    keys = set(files.partitions.names)
    if arguments.columns is None:
        chosen = [name for name in files.columns.names() if name not in keys]
    else:
        chosen = matching(arguments.columns, _Without(files.columns, keys))
    schema = files.query(chosen, None).result
    profiles = _measured(console, files, schema)
    num_rows = sum(file.metadata.num_rows for file in files.files)
    if arguments.sort in _SORTS:
        profiles.sort(key=_SORTS[arguments.sort])
    shown = profiles[: arguments.limit]
    if console.is_json:
        types = {leaf.name: leaf.type for leaf in leaf_schema(plain_schema(schema))}
        console.document(
            {
                "files": len(files.files),
                "rows": num_rows,
                "columns": [_to_dict(one, types[one.column]) for one in shown],
            }
        )
        return OK
    what = "columns" if len(profiles) == len(schema) else "columns and fields"
    print_profiles(
        console,
        shown,
        footer=f"{len(profiles):,} {what}, {num_rows:,} rows, "
        f"{console.size(sum(one.bytes for one in profiles))}",
    )
    return OK


def print_profiles(console: Console, profiles: Sequence[ColumnProfile], footer: str) -> None:
    """Print a table of profiles."""
    console.table(
        [
            *(Column.name("column"), "type", "encoding"),
            *map(Column.number, ("bytes", "nulls", "distinct")),
            *("min", "max"),
        ],
        [
            (
                one.column,
                one.type,
                _encodings(one),
                console.size(one.bytes),
                one.nulls,
                _distinct(console, one.distinct),
                *(console.shortened(bound or "", _MAX_BOUND) for bound in (one.min, one.max)),
            )
            for one in profiles
        ],
        footer=footer,
    )


class _Without:
    """The columns of files, without partition columns, which are not stored."""

    def __init__(self, columns: ColumnSet, keys: set[str]) -> None:
        self._columns = columns
        self._keys = keys

    def has(self, name: str) -> bool:
        return name not in self._keys and self._columns.has(name)

    def paths(self) -> list[str]:
        return [path for path in self._columns.paths() if path not in self._keys]

    def similar(self, name: str) -> list[str]:
        return [one for one in self._columns.similar(name) if one not in self._keys]


def _opened(arguments: argparse.Namespace) -> FileSet:
    found = discover(
        as_given(arguments.paths), follow_links=arguments.follow_links, version=arguments.at
    )
    try:
        return FileSet(found, logical=not arguments.stored)
    except CorruptFileError:
        check_mosaic(found)
        raise


def _measured(console: Console, files: FileSet, schema: pa.Schema) -> list[ColumnProfile]:
    profiler = Profiler(schema, files.partitions)
    names = frozenset(schema.names)
    groups = [
        (file, group) for file in files.files for group in range(file.metadata.num_row_groups)
    ]

    def size(file: DatasetFile, group: int) -> int:
        return sum(part.metadata.bytes_of(group) for part in file.resolved(names).parts)

    with console.progress("reading", sum(itertools.starmap(size, groups))) as advance:
        for file, group in groups:
            profiler.add(file, group, use_threads=True)
            advance(size(file, group))
    return list(conclude(schema, [profiler.measures()]))


def _pages(one: ColumnProfile) -> dict[str, int]:
    """Count the pages by encoding."""
    return {name: count for name in _ENCODINGS if (count := getattr(one, name))}


def _encodings(one: ColumnProfile) -> str:
    pages = _pages(one)
    if len(pages) == 1:
        return next(iter(pages))
    return " ".join(f"{name}:{count}" for name, count in pages.items())


def _distinct(console: Console, number: int | None) -> str:
    is_estimate = console.is_terminal and number is not None and number > DISTINCT_EXACT
    return f"~{number:,}" if is_estimate else console.cell(number)


def _to_dict(one: ColumnProfile, arrow: pa.DataType) -> dict[str, Any]:
    values = asdict(one)
    for name in _ENCODINGS:
        del values[name]
    values["min"], values["max"] = (parsed(text, arrow) for text in (one.min, one.max))
    values["is_estimate"] = one.distinct is not None and one.distinct > DISTINCT_EXACT
    return {**values, "pages": _pages(one)}
