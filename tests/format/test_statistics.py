"""Minimum and maximum against the oracle, with the special cases of floats and strings."""

import struct

import pyarrow as pa
import pytest
import reference
from hypothesis import given, strategies as st
from reference import sized
from strategies import array_of, tables

from fastmosaic.format.index import Statistic
from fastmosaic.format.statistics import measure
from fastmosaic.format.types import ColumnType

TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.time32("ms"),
    pa.timestamp("ms"),
    pa.timestamp("us", "not a zone"),
    pa.timestamp("ns"),
    pa.decimal128(18, 4),
    pa.decimal128(9, -3),
    pa.string(),
]
NAN = 0x7FF8000000000001
SIGNALLING = 0x7FF0000000000001
NEGATIVE_NAN = 0xFFF8000000000000
ONE, TWO = 0x3FF0000000000000, 0x4000000000000000
ZERO, NEGATIVE_ZERO = 0, 1 << 63


def measured(*arrays):
    column = pa.chunked_array(arrays)
    return measure(0, ColumnType.from_arrow(pa.field("", column.type)), column)


@pytest.mark.parametrize("arrow", TYPES, ids=str)
@given(data=st.data())
def test_statistics_are_those_of_the_oracle(arrow, data):
    column = data.draw(tables(min_columns=1, max_columns=1, column_types=st.just(arrow)))[0]
    rows = reference.serialize(column.combine_chunks())
    position, nulls, low, high = reference.statistics(3, rows, arrow)
    given = measure(3, ColumnType.from_arrow(pa.field("", arrow)), column)
    assert given == Statistic(position, nulls, low or None, high or None)


@pytest.mark.parametrize(
    ("bits", "low", "high"),
    [
        ([NAN, ONE, TWO], NAN, NAN),
        ([None, SIGNALLING, ONE], SIGNALLING, SIGNALLING),
        ([NEGATIVE_NAN], NEGATIVE_NAN, NEGATIVE_NAN),
        ([TWO, NAN, ONE], ONE, TWO),
        ([TWO, SIGNALLING, ONE], ONE, TWO),
        ([ONE, NAN], ONE, ONE),
        ([ONE, SIGNALLING], ONE, ONE),
        ([ZERO, NEGATIVE_ZERO], ZERO, ZERO),
        ([NEGATIVE_ZERO, ZERO], NEGATIVE_ZERO, NEGATIVE_ZERO),
        ([ONE, NEGATIVE_ZERO, ZERO], NEGATIVE_ZERO, ONE),
        ([ONE, NAN, ZERO, NEGATIVE_ZERO], ZERO, ONE),
    ],
)
def test_floats(bits, low, high):
    array = array_of(pa.float64(), bits)
    expected = Statistic(0, bits.count(None), struct.pack(">Q", low), struct.pack(">Q", high))
    for chunks in ([array], [array.slice(i, 1) for i in range(len(array))]):
        assert measured(*chunks) == expected


def test_strings_are_ordered_by_their_unsigned_bytes():
    given = measured(pa.array(["z", "é", None, "\U0001f600", "\uffff"]), pa.array(["a", ""]))
    assert given == Statistic(0, 1, sized(b""), sized("\U0001f600".encode()))


def test_strings_are_stored_in_full():
    long = "x" * 100_000
    assert measured(pa.array([long])) == Statistic(0, 0, *[sized(long.encode())] * 2)


@pytest.mark.parametrize("arrow", TYPES, ids=str)
def test_nulls_only(arrow):
    assert measured(pa.nulls(5, arrow), pa.nulls(0, arrow)) == Statistic(0, 5, None, None)
