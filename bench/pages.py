"""What each step of choosing pages saves, for many kinds of columns.

python -m bench.pages           prints the first table of docs/layout.md
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fastmosaic as fm
from bench.shapes import KINDS

NUM_COLUMNS = 10
ROWS = (15_000, 2_000)
STEPS: dict[str, dict[str, Any]] = {
    "rule of Apache's writer, level 1": {"max_dict_entries": 255, "compression_level": 1},
    "pages by cost, level 1 (steps 1 to 4)": {"compression_level": 1},
    "also blocks and matches (the default)": {},
}
PARQUET = "Parquet, zstd, the smaller of with and without dictionaries"


def size(table: pa.Table, options: dict[str, Any]) -> int:
    sink = io.BytesIO()
    fm.write_table(table, sink, **options)
    return len(sink.getvalue())


def parquet_size(table: pa.Table) -> int:
    sizes = []
    for use_dictionary in (True, False):
        sink = io.BytesIO()
        pq.write_table(table, sink, compression="zstd", use_dictionary=use_dictionary)
        sizes.append(len(sink.getvalue()))
    return min(sizes)


def main() -> None:
    sums = {name: [0] * len(ROWS) for name in [*STEPS, PARQUET]}
    for make in KINDS.values():
        for place, rows in enumerate(ROWS):
            table = make(NUM_COLUMNS, rows)
            for name, options in STEPS.items():
                sums[name][place] += size(table, options)
            sums[PARQUET][place] += parquet_size(table)
    first = next(iter(sums.values()))
    print(f"| {len(KINDS)} kinds of columns |", " | ".join(f"{rows:,} rows" for rows in ROWS), "|")
    print("|---|" + "---:|" * len(ROWS))
    for name, found in sums.items():
        ratios = (f"{one / other:.2f}" for one, other in zip(found, first, strict=True))
        print(f"| {name} |", " | ".join(ratios), "|")


if __name__ == "__main__":
    main()
