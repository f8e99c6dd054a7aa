"""Minimum and maximum of a column, as the format defines them.

They are those of the values that are not null, by the order of the type, but with floats the
first value seeds both: where it is NaN both stay NaN, a later NaN is passed over, and of equal
zeros the first one stays.
"""

from __future__ import annotations

import math

import pyarrow as pa
from pyarrow import types as arrow_types

from .index import Statistic
from .types import ColumnType, encode_value


def measure(position: int, column_type: ColumnType, column: pa.ChunkedArray) -> Statistic:
    """What the index says of `column`."""
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
    """Arrow itself passes over quiet NaN, but not over signalling ones."""
    import pyarrow.compute as pc

    return values.filter(pc.invert(pc.is_nan(values)))


def _first_equal(values: pa.ChunkedArray, bound: pa.Scalar) -> pa.Scalar:
    """The first of the values equal to `bound`: of 0.0 and -0.0, the one that came first."""
    import pyarrow.compute as pc

    return values[pc.index(values, bound).as_py()] if bound.as_py() == 0 else bound
