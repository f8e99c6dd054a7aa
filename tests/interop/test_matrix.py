"""read_matrix: values by the rule of each type, nulls, orders, rows, and errors that name the column.

Expected values come from Python's own objects, one by one, not from the code that converts arrays.
"""

import datetime as dt
import decimal
import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import types

import fastmosaic as fm

EPOCH = dt.date(1970, 1, 1)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FLOATS = ["float32", "float64"]

# Values of each type that numbers can be made of; integers are such that float32 represents them.
VALUES = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 0, 127],
    pa.int16(): [-5, 1000],
    pa.int32(): [2**24, -7],
    pa.int64(): [-(2**40), 3],
    pa.uint8(): [255, 0],
    pa.uint16(): [65535, 1],
    pa.uint32(): [2**31, 9],
    pa.uint64(): [2**63, 9],
    pa.float16(): [1.5, -0.25],
    pa.float32(): [1.5, -0.25, math.inf, math.nan],
    pa.float64(): [0.1, -2.5, math.nan, -math.inf],
    pa.decimal128(9, 2): [decimal.Decimal("1.25"), decimal.Decimal("-7.50")],
    pa.decimal128(30, 3): [decimal.Decimal("12345678.125"), decimal.Decimal(-1)],
    pa.date32(): [dt.date(2026, 3, 1), dt.date(1969, 12, 31)],
    pa.date64(): [dt.date(2026, 3, 1), dt.date(1969, 12, 31)],
    pa.time32("s"): [dt.time(1, 2, 3)],
    pa.time32("ms"): [dt.time(1, 2, 3, 4000), dt.time(0)],
    pa.time64("us"): [dt.time(1, 2, 3, 4)],
    pa.timestamp("s"): [dt.datetime(2026, 3, 1)],
    pa.timestamp("ms", "UTC"): [dt.datetime(2026, 3, 1, 4, 5, tzinfo=dt.UTC)],
    pa.timestamp("us"): [dt.datetime(2026, 3, 1, 4, 5, 6, 7)],
    pa.timestamp("ns"): [dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(1969, 12, 31)],
    pa.duration("ms"): [dt.timedelta(seconds=-3), dt.timedelta(milliseconds=1)],
    pa.dictionary(pa.int8(), pa.float64()): [0.5, 7.0],
    pa.run_end_encoded(pa.int32(), pa.int64()): [5, 6],
    pa.bool8(): [True, False],
    pa.null(): [None],
}


def number(value, type):
    """The number of a Python value of an Arrow type, exactly; None for a null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        naive = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
        return naive // dt.timedelta(microseconds=1) * UNITS[type.unit] // 10**6
    if isinstance(value, dt.date):
        return (value - EPOCH).days
    if isinstance(value, dt.time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return (seconds * 10**6 + value.microsecond) * UNITS[type.unit] // 10**6
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1) * UNITS[type.unit] // 10**6
    return value


def expected(table, dtype, null=math.nan):
    """The matrix of a table, value by value."""
    made = np.empty((table.num_rows, table.num_columns), dtype)
    for place, column in enumerate(table.columns):
        for row, value in enumerate(column):
            found = number(value.as_py(), column.type)
            made[row, place] = null if found is None else found
    return made


def written(table, **options):
    sink = pa.BufferOutputStream()
    fm.write_table(table, sink, **options)
    return sink.getvalue()


def dealt(values, num_rows, has_nulls, start=0, are_equal=False):
    """Some rows of the values, in turn, or all of them the first."""
    turn = itertools.cycle(values[:1] if are_equal else values)
    return [None if has_nulls and (row + start) % 3 == 0 else next(turn) for row in range(num_rows)]


def all_types(num_rows=50, has_nulls=True):
    columns = {}
    for number_, (type, values) in enumerate(VALUES.items()):
        for are_equal in (False, True):
            rows = dealt(values, num_rows, has_nulls or type == pa.null(), number_, are_equal)
            plain = type.value_type if types.is_dictionary(type) else type
            if types.is_run_end_encoded(type):
                made = pa.array(rows, type.value_type)
                made = pa.compute.run_end_encode(made, run_end_type=type.run_end_type)
            elif types.is_dictionary(type):
                made = pa.array(rows, plain).dictionary_encode().cast(type)
            elif type == pa.bool8():
                made = pa.ExtensionArray.from_storage(
                    type, pa.array(rows, pa.bool_()).cast(pa.int8())
                )
            else:
                made = pa.array(rows, type)
            columns[f"{number_}:{type}:{are_equal}"] = made
    return pa.table(columns)


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{}, {"num_buckets": 3, "row_group_size": 13}])
def test_values_of_all_types(dtype, order, options):
    table = all_types()
    data = written(table, **options)
    made = fm.read_matrix(data, dtype=dtype, order=order)
    assert made.dtype == dtype
    assert made.flags[f"{order}_CONTIGUOUS"]
    np.testing.assert_array_equal(made, expected(table, dtype))
