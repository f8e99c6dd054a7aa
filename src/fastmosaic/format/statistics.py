"""Minimum and maximum of a column, as the format defines them.

Nulls are ignored. For floats, the first value is the initial minimum and maximum: if it is NaN,
both stay NaN; a later NaN is ignored; and of 0.0 and -0.0, the one that comes first is kept.
"""

from __future__ import annotations

import math

import pyarrow as pa
from pyarrow import types as arrow_types

from .index import Statistic
from .types import ColumnType, encode_value


def measure(position: int, column_type: ColumnType, column: pa.ChunkedArray) -> Statistic:
    """Return the statistics of `column` for the row group index."""
    if column.null_count == len(column):
        return Statistic(position, column.null_count, None, None)
    if arrow_types.is_floating(column.type):
        values = column.drop_null()
        first = values[0]
        if math.isnan(first.as_py()):
            low = high = first
        else:
            low, high = (_first_equal(values, bound) for bound in _bounds(_without_nan(values)))
    else:
        low, high = _bounds(column)
    return Statistic(
        position,
        column.null_count,
        encode_value(column_type, low),
        encode_value(column_type, high),
    )


def _bounds(column: pa.ChunkedArray) -> tuple[pa.Scalar, pa.Scalar]:
    import pyarrow.compute as pc

    extremes = pc.min_max(column)
    return extremes["min"], extremes["max"]


def _without_nan(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Drop NaN, because Arrow's `min_max` skips only quiet ones, not signalling ones."""
    import pyarrow.compute as pc

    return values.filter(pc.invert(pc.is_nan(values)))


def _first_equal(values: pa.ChunkedArray, bound: pa.Scalar) -> pa.Scalar:
    """Return the first value equal to `bound`: of 0.0 and -0.0, the one that comes first."""
    import pyarrow.compute as pc

    return values[pc.index(values, bound).as_py()] if bound.as_py() == 0 else bound
