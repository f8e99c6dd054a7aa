"""Minimum and maximum against the oracle, with the special cases of floats and strings."""

import struct

import pyarrow as pa
import pytest
import reference
from hypothesis import given, strategies as st
from reference import sized
from strategies import array_of, tables

from fastmosaic.format._collect import ArrowColumns, CollectedColumns
from fastmosaic.format._encode import encode
from fastmosaic.format.index import Statistic, encode_statistics
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


def measured(column, position, collects=False, **options):
    """Return the statistics of a column, encoded, and how many there are."""
    kind = bytes([ColumnType.from_arrow(pa.field("", column.type)).kind])
    digits = bytes([getattr(column.type, "precision", 0)])
    flags = bytes([5 + 2 * pa.types.is_floating(column.type)])
    batches = [ArrowColumns(pa.record_batch({"x": chunk})) for chunk in column.chunks]
    if collects:
        collected = CollectedColumns(kind)
        for batch, chunk in zip(batches, column.chunks, strict=True):
            collected.append(batch, len(chunk))
        batches = collected
    return encode(batches, [0], kind, digits, flags, **options).statistics(position, 1)


def check(column, expected):
    """Check the statistics of a column, with and without a dictionary, and of collected rows."""
    for collects in (False, True):
        for options in ({}, {"max_entries": 0}, {"max_entries": 255, "max_bytes": 32768}):
            given = measured(column, expected.position, collects, **options)
            assert given == (encode_statistics([expected]), 1)


@pytest.mark.parametrize("arrow", TYPES, ids=str)
@given(data=st.data())
def test_statistics_are_those_of_the_oracle(arrow, data):
    column = data.draw(tables(min_columns=1, max_columns=1, column_types=st.just(arrow)))[0]
    rows = reference.serialize(column.combine_chunks())
    position, nulls, low, high = reference.statistics(3, rows, arrow)
    check(column, Statistic(position, nulls, low or None, high or None))


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
        check(pa.chunked_array(chunks), expected)


def test_strings_are_ordered_by_their_unsigned_bytes():
    column = pa.chunked_array([["z", "é", None, "\U0001f600", "\uffff"], ["a", ""]])
    check(column, Statistic(0, 1, sized(b""), sized("\U0001f600".encode())))


def test_strings_are_stored_in_full():
    long = "x" * 100_000
    check(pa.chunked_array([[long]]), Statistic(0, 0, *[sized(long.encode())] * 2))


@pytest.mark.parametrize("arrow", TYPES, ids=str)
def test_nulls_only(arrow):
    column = pa.chunked_array([pa.nulls(5, arrow), pa.nulls(0, arrow)])
    check(column, Statistic(0, 5, None, None))


def test_the_order_of_large_decimals():
    arrow = pa.decimal128(30, 0)
    values = [2**70, -(2**70), 5, -1, None, 2**64, 2**64 + 1]
    column = pa.chunked_array([pa.array(values, arrow)])
    rows = [reference.serialize(pa.array([value], arrow))[0] for value in (-(2**70), 2**70)]
    check(column, Statistic(0, 1, *rows))


def test_columns_without_statistics_have_none():
    pages = encode(
        [ArrowColumns(pa.record_batch({"x": [1, 2], "y": [3, 4]}))],
        [0, 1],
        bytes([ColumnType.from_arrow(pa.field("", pa.int64())).kind] * 2),
        bytes(2),
        bytes([1, 5]),
    )
    assert pages.statistics(0, 2) == (
        encode_statistics([Statistic(1, 0, b"\0" * 7 + b"\3", b"\0" * 7 + b"\4")]),
        1,
    )
    with pytest.raises(IndexError):
        pages.statistics(0, 3)
