"""Histograms of many columns at once, quantised to a few characters each.

A call of an Arrow function takes as long as dozens of values, so all columns of a portion are
counted together: every value becomes the number of its column and bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyarrow import types

NUM_BINS: Final = 12
NUM_LEVELS: Final = 16  # of a bin, each a hexadecimal digit
NO_HISTOGRAM: Final = " " * NUM_BINS


def histograms(columns: Sequence[pa.ChunkedArray]) -> list[str]:
    """Return a digit per bin for each column; blanks if its values are not numbers or times.

    The fullest bin of a column has the largest digit, and only an empty bin has 0. Nulls, NaN and
    infinite values do not count.

    >>> histograms([pa.chunked_array([[0, 0, 0, 11]]), pa.chunked_array([["a"] * 4])])
    ['f00000000005', '            ']
    """
    found = [NO_HISTOGRAM] * len(columns)
    numeric = [
        (place, values)
        for place, column in enumerate(columns)
        if (values := _as_double(column)) is not None
    ]
    if not numeric:
        return found
    import pyarrow.compute as pc

    none = pa.nulls(0, pa.float64())  # there may be no chunks
    values = pa.concat_arrays([none, *(chunk for _, one in numeric for chunk in one.chunks)])
    sizes = [len(column) for _, column in numeric]
    owners = pc.list_parent_indices(
        pa.LargeListArray.from_arrays(pa.array(_ends(sizes), pa.int64()), values)
    )
    is_finite = pc.fill_null(pc.is_finite(values), False)
    values, owners = values.filter(is_finite), owners.filter(is_finite)
    lows, highs = _bounds(values, owners, len(numeric))
    low, high = lows.take(owners), highs.take(owners)
    # Halves first: the difference of the largest numbers would be infinite.
    width = pc.subtract(pc.divide(high, 2.0), pc.divide(low, 2.0))
    place = pc.divide(pc.subtract(pc.divide(values, 2.0), pc.divide(low, 2.0)), width)
    place = pc.if_else(pc.is_finite(place), place, 0.5)  # a constant is in the middle
    bins = pc.min_element_wise(
        pc.cast(pc.floor(pc.multiply(place, float(NUM_BINS))), pa.int64()), NUM_BINS - 1
    )
    keys = pc.value_counts(pc.add(pc.multiply(owners, NUM_BINS), bins))
    counts = [[0] * NUM_BINS for _ in numeric]
    for key, count in zip(
        keys.field("values").to_pylist(), keys.field("counts").to_pylist(), strict=True
    ):
        owner, number = divmod(key, NUM_BINS)
        counts[owner][number] = count
    for (column, _), own in zip(numeric, counts, strict=True):
        found[column] = _digits(own)
    return found


def _digits(counts: Sequence[int]) -> str:
    largest = max(counts)
    if not largest:
        return NO_HISTOGRAM
    return "".join(f"{-(-count * (NUM_LEVELS - 1) // largest):x}" for count in counts)


def _ends(sizes: Sequence[int]) -> list[int]:
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    return ends


def _bounds(values: pa.Array, owners: pa.Array, count: int) -> tuple[pa.Array, pa.Array]:
    """Return the smallest and the largest value of each column; 0 where there is none."""
    import pyarrow.compute as pc

    table = pa.table({"owner": owners, "value": values})
    order = pc.sort_indices(table, sort_keys=[("owner", "ascending"), ("value", "ascending")])
    table = table.take(order).combine_chunks()
    sizes = [0] * count
    counted = pc.value_counts(table.column("owner"))
    for owner, size in zip(
        counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
    ):
        sizes[owner] = size
    ends = _ends(sizes)
    is_any = pa.array([size > 0 for size in sizes])
    column = pa.chunked_array([*table.column("value").chunks, pa.array([0.0])]).combine_chunks()
    first = column.take(pa.array(ends[:-1]))
    last = column.take(pa.array([max(end - 1, 0) for end in ends[1:]]))
    return pc.if_else(is_any, first, 0.0), pc.if_else(is_any, last, 0.0)


def _as_double(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    type = column.type
    if types.is_boolean(type):
        column = column.cast(pa.uint8())
    elif types.is_time32(type) or types.is_date32(type):
        column = column.cast(pa.int32())
    elif types.is_temporal(type) and not types.is_interval(type):
        column = column.cast(pa.int64())
    elif not (types.is_integer(type) or types.is_floating(type) or types.is_decimal(type)):
        return None
    return column.cast(pa.float64(), safe=False)
