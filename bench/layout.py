"""Monolithic or paged: what each layout takes on disk, for many kinds and lengths of columns.

python -m bench.layout          prints the table of docs/layout.md
"""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fastmosaic as fm
from bench.tables import wide

NUM_COLUMNS = 100  # one bucket, of the size that 10,000 columns have by default
ROWS = (1, 10, 100, 200, 500, 1_000, 4_000, 10_000, 100_000, 1_000_000)
MAX_CELLS = 20_000_000

_rng = np.random.default_rng(3)


def _columns(make: Callable[[int], pa.Array], num_columns: int, num_rows: int) -> pa.Table:
    return pa.table({f"c{i:04d}": make(num_rows) for i in range(num_columns)})


def _sparse(values: np.ndarray, arrow: pa.DataType, share: float) -> pa.Array:
    """`values`, but only this share of them not null."""
    present = pa.array(_rng.random(len(values)) < share)
    return pc.if_else(present, pa.array(values, arrow), pa.scalar(None, arrow))


def _walk(num_rows: int, width: int) -> np.ndarray:
    return np.cumsum(_rng.integers(-width, width + 1, num_rows))


KINDS: dict[str, Callable[[int, int], pa.Table]] = {
    "mixed strings": wide,
    "random int32": lambda columns, rows: _columns(
        lambda n: pa.array(_rng.integers(0, 1 << 20, n), pa.int32()), columns, rows
    ),
    "random walk float64": lambda columns, rows: _columns(
        lambda n: pa.array(np.round(np.cumsum(_rng.normal(size=n)), 3)), columns, rows
    ),
    "int8, 60 % null": lambda columns, rows: _columns(
        lambda n: _sparse(np.clip(_walk(n, 2), -100, 100), pa.int8(), 0.4), columns, rows
    ),
    "int16, 95 % null": lambda columns, rows: _columns(
        lambda n: _sparse(_rng.integers(0, 100, n), pa.int16(), 0.05), columns, rows
    ),
}


def bucket_of(table: pa.Table, page_size_threshold: int | None) -> fm.BucketMetaData:
    """The one bucket that a table gets."""
    sink = io.BytesIO()
    fm.write_table(
        table,
        sink,
        num_buckets=1,
        page_size_threshold=page_size_threshold,
        row_group_bytes=1 << 40,
        row_group_size=1 << 31,
    )
    (bucket,) = fm.read_metadata(sink.getvalue()).row_group(0).buckets
    return bucket


def main() -> None:
    print("| columns | rows | bucket, raw | monolithic | paged | paged / monolithic | chosen |")
    print("|---|---:|---:|---:|---:|---:|---|")
    for kind, make in KINDS.items():
        for rows in ROWS:
            columns = min(NUM_COLUMNS, MAX_CELLS // rows)
            table = make(columns, rows)
            monolithic = bucket_of(table, 2**32 - 1)
            paged = bucket_of(table, 0)
            chosen = bucket_of(table, None)
            note = "" if columns == NUM_COLUMNS else f" ({columns} columns)"
            print(
                f"| {kind}{note} | {rows:,} | {monolithic.uncompressed_size:,} "
                f"| {monolithic.compressed_size:,} | {paged.compressed_size:,} "
                f"| {paged.compressed_size / monolithic.compressed_size:.2f} | {chosen.layout} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
