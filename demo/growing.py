"""Add a column to a dataset with 10,000 columns: a Mosaic table, and Parquet files that are rewritten."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console

import fastmosaic as fm
from bench.worker import timed

from . import showing

NUM_FILES = 4


def show(console: Console, table: pa.Table, folder: Path) -> None:
    """Add a column to both datasets, which must have a column `number`, and compare the cost."""
    with console.status("writing the datasets"):
        living, parquet = _written(table, folder)
    with console.status("adding a column"):
        before = _bytes_below(living)
        seconds, _ = timed(
            lambda: fm.MosaicTable(living).add_columns({"double": pc.field("number") * 2})
        )
        mosaic = seconds, _bytes_below(living) - before
        seconds, _ = timed(lambda: _rewrite(parquet))
        rewritten = seconds, _bytes_below(parquet)
    expected = _double(table).combine_chunks()
    for found in (
        fm.read_table(living, columns=["double"]),
        pq.read_table(parquet, columns=["double"]),
    ):
        if not found["double"].combine_chunks().equals(expected):
            raise AssertionError("the new column differs from what was computed")
    groups = {
        "add a column": {"Mosaic": mosaic[0] * 1000, "Parquet": rewritten[0] * 1000},
        "bytes written": {"Mosaic": mosaic[1] / 1e6, "Parquet": rewritten[1] / 1e6},
    }
    console.print(showing.bars(console, groups, {"add a column": "ms", "bytes written": "MB"}))
    faster, smaller = (
        showing.compared(groups[what], *words)
        for what, words in {
            "add a column": ("faster", "slower"),
            "bytes written": ("less", "more"),
        }.items()
    )
    console.print(
        f"The dataset has {NUM_FILES} files with {table.num_columns:,} columns. Adding a column to the "
        f"Mosaic table is {faster} than rewriting the Parquet files and writes {smaller}. The old "
        "version of the table can still be read.\n"
    )


def _written(table: pa.Table, folder: Path) -> tuple[Path, Path]:
    """Write the table as a Mosaic table and as Parquet files; return their directories."""
    living, parquet = folder / "growing", folder / "growing-parquet"
    for directory in (living, parquet):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    rows = -(-table.num_rows // NUM_FILES)
    for number in range(NUM_FILES):
        part = table.slice(number * rows, rows)
        fm.write_table(part, living / f"part-{number}.mosaic")
        pq.write_table(part, parquet / f"part-{number}.parquet", compression="zstd")
    fm.MosaicTable.create(living)
    return living, parquet


def _rewrite(directory: Path) -> None:
    for path in sorted(directory.iterdir()):
        part = pq.read_table(path)
        pq.write_table(part.append_column("double", _double(part)), path, compression="zstd")


def _double(table: pa.Table) -> pa.ChunkedArray:
    numbers = table["number"]
    return pc.multiply(numbers, pa.scalar(2, numbers.type))


def _bytes_below(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
