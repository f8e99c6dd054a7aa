"""Compare both layouts of list columns: size on disk, and time to write and read.

python -m bench.arrays          writes docs/arrays.md
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa

import fastmosaic as fm
from bench.machine import description

DOCUMENT = Path(__file__).parent.parent / "docs" / "arrays.md"
LAYOUTS = ("columns", "block")
ROWS = 200_000
VECTORS = 20_000  # fewer rows, as each has many elements
RUNS = 7

_rng = np.random.default_rng(11)
_WORDS = np.array([f"word_{i}" for i in range(100)], dtype=object)

TEXT = """\
# Lists as columns or array data blocks

fastmosaic can store a list column of scalars in two ways. Both return the same table.

- `array_layout="columns"`, the default, stores two columns: one of lengths and one of elements. Each is encoded
  separately, as a constant or with a dictionary where that is smaller. Every Mosaic v1 reader can read it.
- `array_layout="block"` stores one array data block, as in Kudu: run-length encoded lengths and null bitmaps,
  followed by the non-null elements without further encoding, and a CRC-32C. Such a file has version 0x81, which the
  Apache reader refuses.

The differences are:

- Lengths that repeat over many rows take almost no space in a block, and neither do null bitmaps with long runs. As
  columns, each row needs a dictionary index, or four bytes if there are too many distinct lengths, plus one bit if
  there are nulls.
- Lengths that change from row to row take two bytes each in a block.
- A block has no dictionary, so elements with few distinct values take more space.
- A block stores elements as Arrow does. Columns need a dictionary lookup when they are written, and the byte order of
  numbers is changed. A block has its own checksum in addition to zstd's.
- A list in a block can have at most 65,535 elements.
- `take`, `sample` and `lookup` decode only the lists of the rows that they read, in both layouts. With blocks, they
  also verify the checksum of the whole block.

Use blocks for files that must have the same layout as in Kudu. After zstd compression they are not smaller, except by
a little where lengths repeat in long runs. Where lengths vary or elements repeat, columns are smaller.

## Measurements

One column, one row group, zstd level 1 with checksums, one thread. Times are processor time, the best of {runs} runs,
from and to memory. To reproduce this page, run `python -m bench.arrays`.

{table}

Measured on {machine}.
"""


def _lists(lengths: np.ndarray, elements: pa.Array, present: np.ndarray | None = None) -> pa.Array:
    """Return lists of these lengths; null where not `present`, which requires length 0."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    mask = None if present is None else pa.array(~present)
    return pa.ListArray.from_arrays(offsets, elements, mask=mask)


def _vectors() -> pa.Array:
    return _lists(
        np.full(VECTORS, 128), pa.array(_rng.normal(size=VECTORS * 128).astype(np.float32))
    )


def _sparse() -> pa.Array:
    present = _rng.random(ROWS) < 0.02
    lengths = np.where(present, _rng.integers(1, 6, ROWS), 0)
    return _lists(lengths, pa.array(_rng.integers(0, 1 << 20, lengths.sum()), pa.int32()), present)


def _equal_runs() -> pa.Array:
    lengths = np.repeat(_rng.integers(0, 17, ROWS // 1000), 1000)
    return _lists(lengths, pa.array(_rng.integers(0, 1 << 20, lengths.sum()), pa.int32()))


def _ragged() -> pa.Array:
    lengths = _rng.poisson(10, ROWS)
    return _lists(lengths, pa.array(_rng.integers(0, 1 << 40, lengths.sum()), pa.int64()))


def _ragged_with_nulls() -> pa.Array:
    lengths = _rng.poisson(10, ROWS)
    count = lengths.sum()
    values = pa.array(np.round(_rng.normal(size=count), 3), mask=_rng.random(count) < 0.3)
    return _lists(lengths, values)


def _ragged_words() -> pa.Array:
    lengths = _rng.poisson(5, ROWS)
    return _lists(lengths, pa.array(_WORDS[_rng.integers(0, len(_WORDS), lengths.sum())]))


CASES: dict[str, Callable[[], pa.Array]] = {
    "vectors of 128 float32": _vectors,
    "sparse: 2 % have 1 to 5 int32": _sparse,
    "0 to 16 int32, the same length for 1,000 rows": _equal_runs,
    "ragged: about 10 int64": _ragged,
    "ragged: about 10 float64, 30 % null": _ragged_with_nulls,
    "ragged: about 5 of 100 words": _ragged_words,
}


def _written(table: pa.Table, layout: str, compression: str) -> bytes:
    sink = io.BytesIO()
    fm.write_table(
        table,
        sink,
        array_layout=layout,
        compression=compression,
        row_group_bytes=1 << 40,
        use_threads=False,
    )
    return sink.getvalue()


def _seconds(work: Callable[[], object]) -> float:
    """Return processor time, which other load on the machine hardly changes."""
    times = []
    for _ in range(RUNS):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


def _measure(name: str, lists: pa.Array) -> Iterator[str]:
    table = pa.table({"x": lists})
    for layout in LAYOUTS:
        raw, data = (_written(table, layout, compression) for compression in ("none", "zstd"))
        if not fm.read_table(data).equals(table):
            raise AssertionError(f"{name}: the layout {layout!r} does not return the same table")
        writing = _seconds(lambda layout=layout: _written(table, layout, "zstd"))  # type: ignore[misc]
        reading = _seconds(lambda data=data: fm.read_table(data, use_threads=False))  # type: ignore[misc]
        yield (
            f"| {name} | {len(lists):,} | {layout} | {len(raw):,} | {len(data):,} "
            f"| {writing * 1000:.1f} | {reading * 1000:.1f} |"
        )


def table_of_results() -> str:
    lines = [
        "| lists | rows | layout | bytes, not compressed | bytes, zstd | write, ms | read, ms |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for name, make in CASES.items():
        lines += _measure(name, make())
    return "\n".join(lines)


def main() -> None:
    about = description()
    machine = f"{about['Processor']}, {about['System']}, {about['Python']}"
    text = TEXT.format(runs=RUNS, table=table_of_results(), machine=machine)
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
