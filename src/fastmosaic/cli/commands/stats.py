"""stats: what the columns hold, and how they are stored."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from ...convert.inputs import matching
from ...dataset.fileset import FileSet
from ...dataset.profile import DISTINCT_EXACT, ColumnProfile, Profiler, conclude, from_text
from ...file.stored import Encoding
from ..arguments import Commands, add_columns, positive
from ..exit import OK
from ..files import add_file_command
from ..output.console import Column, Console

_DESCRIPTION: Final = f"""\
What the columns of Mosaic files hold, and how they are stored. All values are read, row group by
row group. Up to {DISTINCT_EXACT} distinct values are counted, more are estimated: the error is about 6 %."""

_SORTS: Final[dict[str, Callable[[ColumnProfile], Any]]] = {
    "name": lambda one: one.column,
    "size": lambda one: -one.bytes,
    "nulls": lambda one: -one.nulls,
    "distinct": lambda one: 1 if one.distinct is None else -one.distinct,
}
_MAX_BOUND: Final = 20  # characters of a minimum or maximum on a terminal


def add(commands: Commands) -> None:
    """Let the command have `stats`."""
    parser = add_file_command(
        commands,
        "stats",
        "encoding, bytes, nulls, distinct values and bounds of columns",
        _DESCRIPTION,
        ["stats sales.mosaic", "stats warehouse -c 'sensor_temp_*' --sort nulls --limit 20"],
    )
    add_columns(parser)
    parser.add_argument(
        "--sort",
        choices=("position", *_SORTS),
        default="position",
        help="by default as in the file; numbers sort from the largest down",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="only the first N")
    parser.set_defaults(run=_stats)


def _stats(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    paths = arguments.paths
    files = FileSet(paths[0] if len(paths) == 1 else paths)
    keys = set(files.partitions.names)
    names = [name for name in files.columns.names() if name not in keys]
    chosen = names if arguments.columns is None else matching(arguments.columns, names)
    schema = files.query(chosen, None).schema
    profiles = _measured(console, files, schema)
    num_rows = sum(file.metadata.num_rows for file in files.files)
    if arguments.sort in _SORTS:
        profiles.sort(key=_SORTS[arguments.sort])
    shown = profiles[: arguments.limit]
    if console.is_json:
        console.document(
            {
                "files": len(files.files),
                "rows": num_rows,
                "columns": [_to_dict(one, schema.field(one.column).type) for one in shown],
            }
        )
        return OK
    numbers = ("bytes", "nulls", "distinct")
    console.table(
        [
            *("column", "type", "encoding"),
            *(Column(name, True) for name in numbers),
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
                _bound(console, one.min),
                _bound(console, one.max),
            )
            for one in shown
        ],
        footer=f"{len(profiles):,} columns of {num_rows:,} rows take "
        f"{console.size(sum(one.bytes for one in profiles))}.",
    )
    return OK


def _measured(console: Console, files: FileSet, schema: pa.Schema) -> list[ColumnProfile]:
    profiler = Profiler(schema, files.partitions)
    groups = [
        (file, group) for file in files.files for group in range(file.metadata.num_row_groups)
    ]
    total = sum(file.metadata.bytes_of(group) for file, group in groups)
    with console.progress("measuring", total) as advance:
        for file, group in groups:
            profiler.add(file, group, use_threads=True)
            advance(file.metadata.bytes_of(group))
    return list(conclude(schema, [profiler.measures()]))


def _pages(one: ColumnProfile) -> dict[str, int]:
    """How many pages there are of each encoding."""
    return {str(name): count for name in Encoding if (count := getattr(one, name))}


def _encodings(one: ColumnProfile) -> str:
    pages = _pages(one)
    if len(pages) == 1:
        return next(iter(pages))
    return " ".join(f"{name}:{count}" for name, count in pages.items())


def _distinct(console: Console, number: int | None) -> str:
    is_estimate = console.is_terminal and number is not None and number > DISTINCT_EXACT
    return f"~{number:,}" if is_estimate else console.cell(number)


def _bound(console: Console, text: str | None) -> str | None:
    if text is None or not console.is_terminal or len(text) <= _MAX_BOUND:
        return text
    return f"{text[: _MAX_BOUND - 3]}..."


def _to_dict(one: ColumnProfile, arrow: pa.DataType) -> dict[str, Any]:
    values = asdict(one)
    for name in Encoding:
        del values[name]
    values["min"], values["max"] = (from_text(text, arrow) for text in (one.min, one.max))
    values["is_estimate"] = one.distinct is not None and one.distinct > DISTINCT_EXACT
    return {**values, "pages": _pages(one)}
