"""A 10,000-column table in Mosaic and in Parquet: sizes, and what reading ten columns takes.

Then the same in Spark, if there is one.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

import fastmosaic as fm
from bench.tables import wide

from . import spark

Result = TypeVar("Result")


def timed(work: Callable[[], Result], runs: int = 3) -> tuple[float, Result]:
    """The best time of a few runs, in milliseconds, and the result."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times) * 1000, result


def main() -> None:
    num_columns, num_rows = 10_000, 500
    print(f"Making a table of {num_columns:,} columns and {num_rows:,} rows ...")
    table = wide(num_columns, num_rows)
    columns = random.Random(1).sample(table.column_names, 10)

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, write, read in (
            ("Mosaic", fm.write_table, fm.read_table),
            ("Parquet", pq.write_table, pq.read_table),
        ):
            path = Path(folder, name)
            write_ms, _ = timed(lambda: write(table, path), runs=1)  # noqa: B023
            ten_ms, ten = timed(lambda: read(path, columns=columns))  # noqa: B023
            all_ms, whole = timed(lambda: read(path), runs=1)  # noqa: B023
            assert ten.equals(table.select(columns))
            assert whole.equals(table)
            rows.append((name, path.stat().st_size / 1e6, write_ms, ten_ms, all_ms))

    print(f"\n{'':10}{'size':>12}{'write':>12}{'10 columns':>14}{'all columns':>14}")
    for name, size, *times in rows:
        print(f"{name:10}{size:9.1f} MB{times[0]:9.0f} ms{times[1]:11.1f} ms{times[2]:11.0f} ms")
    mosaic, parquet = rows
    print(
        f"\nMosaic is {parquet[1] / mosaic[1]:.1f} times smaller, and reads ten of the columns "
        f"{parquet[3] / mosaic[3]:.0f} times faster. Both gave back the same table.\n"
    )
    spark.show(table)


if __name__ == "__main__":
    main()
