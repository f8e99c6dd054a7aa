"""The memory that writing a stream of 10,000 columns takes, by the size of its batches.

python -m bench.stream          prints the table of docs/memory.md
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import fastmosaic as fm
from bench.machine import peak_bytes, reset_peak

NUM_COLUMNS = 10_000
CASES = [  # rows of a batch, rows in all, bytes of a row group
    (1, 2_000, 64 << 20),
    (10, 2_000, 64 << 20),
    (100, 4_000, 64 << 20),
    (1_000, 8_000, 64 << 20),
    (100, 8_000, 256 << 20),
    (1_000, 8_000, 256 << 20),
    (10_000, 20_000, 256 << 20),
]


def batches(schema: pa.Schema, batch_rows: int, num_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of random numbers, 90 % of them null in every second column."""
    rng = np.random.default_rng(1)
    for _ in range(0, num_rows, batch_rows):
        arrays = []
        for i in range(NUM_COLUMNS):
            mask = rng.random(batch_rows) < 0.9 if i % 2 else None
            arrays.append(pa.array(rng.random(batch_rows), mask=mask))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def measure(batch_rows: int, num_rows: int, row_group_bytes: int) -> tuple[int, int, int]:
    """(bytes beyond those before writing began, row groups, bytes of a batch)."""
    schema = pa.schema({f"column_{i:05d}": pa.float64() for i in range(NUM_COLUMNS)})
    stream = batches(schema, batch_rows, num_rows)
    first = next(stream)
    before = reset_peak()
    with fm.MosaicWriter(os.devnull, schema, row_group_bytes=row_group_bytes) as writer:
        writer.write(first)
        for batch in stream:
            writer.write(batch)
    return peak_bytes() - before, writer.num_row_groups, first.nbytes


def main() -> None:
    if len(sys.argv) > 1:
        print(*measure(*map(int, sys.argv[1:])))
        return
    print("| rows of a batch | batch, MB | row group, MB | row groups | memory, MB |")
    print("|---:|---:|---:|---:|---:|")
    for batch_rows, num_rows, row_group_bytes in CASES:
        # In a process of its own: memory that is free but not given back would count.
        command = [sys.executable, "-m", "bench.stream"]
        arguments = map(str, (batch_rows, num_rows, row_group_bytes))
        output = subprocess.run([*command, *arguments], check=True, capture_output=True, text=True)
        peak, groups, batch = map(int, output.stdout.split())
        print(
            f"| {batch_rows:,} | {batch / 1e6:.1f} | {row_group_bytes / 1e6:.0f} | {groups} "
            f"| {peak / 1e6:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
