"""Compare a table with 10,000 columns in Mosaic and in Parquet: file size, writing, reading.

Then try the command line on the file, add a column to a table of several files, and compare both formats
in Spark, if it is installed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from bench.tables import numbered, wide
from bench.worker import timed

from . import commands, growing, picture, showing, spark
from .comparing import Comparison, compare

FOLDER = Path(__file__).parents[1] / "build" / "demo"


def tell(console: Console, num_columns: int, num_rows: int, folder: Path) -> pa.Table:
    """Run the part without Spark and return the table; files and a chart are written to `folder`."""
    console.rule(f"A table with {num_columns:,} columns")
    with console.status("generating the table") as status:
        seconds, table = timed(lambda: _table(num_columns, num_rows))
        console.print(
            f"{_described(table)} (generated in {seconds:.1f} s). Both formats are compressed with "
            "zstd."
        )
        found = compare(table, folder, status.update)
        path = folder / "fastmosaic.png"
        status.update("drawing the chart")
        title = (
            f"The same table in Mosaic and in Parquet: {num_columns:,} columns, {num_rows:,} rows"
        )
        picture.draw(found, title, path)
    _show(console, found)
    console.print(f"The same as a chart: {_relative(path)}\n", soft_wrap=True)
    console.rule("The command line")
    commands.show(console, _relative(found.paths["Mosaic"]))
    return table


def _table(num_columns: int, num_rows: int) -> pa.Table:
    """Make the table, with names that are easy to type for three of its columns."""
    table = wide(num_columns - 1, num_rows)
    names = {_repeating(table): "category", table.column_names[9]: "number"}
    return numbered(table.rename_columns([names.get(name, name) for name in table.column_names]))


def _described(table: pa.Table) -> str:
    texts = sum(map(pa.types.is_string, table.schema.types))
    name_bytes = sum(len(name.encode()) for name in table.column_names) / table.num_columns
    return (
        f"{table.num_rows:,} rows, {texts:,} text columns (few distinct values, many, or mostly "
        f"null) and {table.num_columns - texts:,} integer columns; the average column name has "
        f"{name_bytes:.0f} bytes"
    )


def _repeating(table: pa.Table) -> str:
    """Return the name of a text column with a few distinct values."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_string(column.type) and 1 < len(column.unique()) <= 5:
            return name
    raise ValueError("the table has no such column")


def _show(console: Console, found: Comparison) -> None:
    groups = {"file size": {name: count / 1e6 for name, count in found.sizes.items()}}
    for what, seconds in {"write": found.writes, **found.reads}.items():
        groups[what] = {name: value * 1000 for name, value in seconds.items()}
    units = dict.fromkeys(groups, "ms") | {"file size": "MB"}
    console.print(showing.bars(console, groups, units))
    first, *_, last = found.reads
    size, write, one, every = (
        showing.compared(groups[what], *words)
        for what, words in {
            "file size": ("smaller", "larger"),
            "write": ("faster", "slower"),
            first: ("faster", "slower"),
            last: ("faster", "slower"),
        }.items()
    )
    console.print(
        f"On this machine, the Mosaic file is {size} than the Parquet file and {write} to write. "
        f"Opening it and reading {first.removeprefix('read ')} is {one}; reading "
        f"{last.removeprefix('read ')} columns is {every}. All reads returned the original values.\n"
    )


def _relative(path: Path) -> Path:
    """Return the path relative to the current directory."""
    return Path(os.path.relpath(path))


def main() -> None:
    console = showing.make_console()
    table = tell(console, 10_000, 500, FOLDER)
    console.rule("Adding a column")
    growing.show(console, table, FOLDER)
    console.rule("Spark")
    spark.show(console, table)


if __name__ == "__main__":
    main()
