"""`python -m bench.datasets`: many files as one table, against Parquet.

Writes bench/results/datasets.json and its page: 200 files of 2,000 columns and 500 rows. Every time is the best of several turns, in which the
contenders take part one after another, so that a busy moment of the machine hits them all.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import fastmosaic as fm

from . import machine, render, report
from .results import OURS, TIME, Results
from .tables import ROW_NUMBER, numbered, wide
from .worker import best_times

NUM_COLUMNS = 2_000
NUM_ROWS = 500
COLUMNS = 10

PARQUET = "pyarrow, Parquet"

Work = Callable[[], Any]


def write_data(folder: Path, num_files: int) -> tuple[Path, Path]:
    """The same tables as Mosaic and as Parquet; row numbers go on from file to file."""
    mosaic, parquet = folder / "mosaic", folder / "parquet"
    mosaic.mkdir()
    parquet.mkdir()
    table = numbered(wide(NUM_COLUMNS - 1, NUM_ROWS))
    for number in range(num_files):
        rows = pc.add(table[ROW_NUMBER], number * NUM_ROWS)
        part = table.set_column(0, ROW_NUMBER, rows)
        fm.write_table(part, mosaic / f"{number:04d}.mosaic", write_statistics=[ROW_NUMBER])
        pq.write_table(part, parquet / f"{number:04d}.parquet", compression="zstd")
    return mosaic, parquet


def contests(mosaic: Path, parquet: Path, num_files: int) -> dict[str, dict[str, Work]]:
    """What is compared: contenders by what they are asked for. The first one is ours."""
    names = fm.MosaicDataset(mosaic).schema.names
    one, ten = names[1000:1001], names[100 : 100 + 190 * COLUMNS : 190]
    last = pc.field(ROW_NUMBER) >= (num_files - 1) * NUM_ROWS
    opened, opened_parquet = fm.MosaicDataset(mosaic), ds.dataset(parquet)
    quoted = f'"{one[0]}"'

    def from_duckdb(query: str, dataset: Any = None) -> pa.Table:
        return duckdb.sql(query).to_arrow_table()  # finds `dataset` by its name

    works: dict[str, dict[str, Work]] = {}
    for title, columns in (("open, 1 column", one), (f"open, {COLUMNS} columns", ten)):
        works[title] = {
            OURS: lambda columns=columns: fm.read_table(mosaic, columns=columns),
            PARQUET: lambda columns=columns: ds.dataset(parquet).to_table(columns),
            "Polars, Parquet": lambda columns=columns: (
                pl.scan_parquet(parquet).select(columns).collect()
            ),
            "DuckDB, Parquet": lambda columns=columns: from_duckdb(
                f"select {', '.join(map(_quoted, columns))} from '{parquet}/*.parquet'"
            ),
        }
    works["1 column, dataset open"] = {
        OURS: lambda: opened.to_table(one),
        PARQUET: lambda: opened_parquet.to_table(one),
        "DuckDB over fastmosaic": lambda: from_duckdb(f"select {quoted} from dataset", opened),
        "Polars over fastmosaic": lambda: pl.scan_pyarrow_dataset(opened).select(one).collect(),
    }
    works["1 column, rows of one file, dataset open"] = {
        OURS: lambda: opened.to_table(one, last),
        PARQUET: lambda: opened_parquet.to_table(one, last),
        "DuckDB over fastmosaic": lambda: from_duckdb(
            f"select {quoted} from dataset where {ROW_NUMBER} >= {(num_files - 1) * NUM_ROWS}",
            opened,
        ),
    }
    works["count rows, dataset open"] = {
        OURS: opened.count_rows,
        PARQUET: opened_parquet.count_rows,
    }
    return works


def _quoted(name: str) -> str:
    return f'"{name}"'


def check(works: dict[str, Work]) -> None:
    """Raise unless all contenders have the same answer."""
    ours, *others = [_rows(work()) for work in works.values()]
    for name, theirs in zip(list(works)[1:], others, strict=True):
        if theirs != ours:
            raise SystemExit(f"{name} returns other rows")


def _rows(answer: Any) -> Any:
    if isinstance(answer, pl.DataFrame):
        answer = answer.to_arrow()
    return answer.to_pydict() if isinstance(answer, pa.Table) else answer


def write(results: Results, folder: Path) -> Path:
    """Write datasets.md into a folder, and return its path."""
    path = folder / "datasets.md"
    path.write_text(markdown(results), encoding="utf-8")
    return path


def markdown(results: Results) -> str:
    lines = [
        "# Dataset benchmarks",
        "",
        f"Reading {results.options['files']} local files of {NUM_COLUMNS:,} columns and {NUM_ROWS} rows each. Times are the best",
        "of several runs with a warm page cache. `make bench` reproduces this page.",
        "",
        "| query | library | ms | relative to fastmosaic |",
        "|---|---|---:|---:|",
    ]
    for title in results.cases:
        times = results.of(title, TIME)
        lines += [
            f"| {title} | {name} | {1000 * seconds:.1f} | {seconds / times[OURS]:.2f} |"
            for name, seconds in times.items()
        ]
    return "\n".join([*lines, "", report.fact_list(results), ""])


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.datasets", description=__doc__)
    render.add_arguments(parser, quick="fewer files and turns")
    args = parser.parse_args(argv)
    num_files, turns = (20, 3) if args.quick else (200, 15)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        mosaic, parquet = write_data(Path(folder), num_files)
        options = {"files": num_files, "columns": NUM_COLUMNS, "rows": NUM_ROWS, "turns": turns}
        results = Results("datasets", [], options, machine.about())
        for title, works in contests(mosaic, parquet, num_files).items():
            print(title, file=sys.stderr, flush=True)
            check(works)
            for name, seconds in best_times(works, turns).items():
                results.add(title, TIME, name, seconds)
    results.names = list(dict.fromkeys(name for _, _, name in results.values))
    print(markdown(results))
    render.publish(results, args.out, complete=not args.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
