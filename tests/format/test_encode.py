"""The encoder against the oracle: all kinds of values, nulls, slices, chunks and limits."""

import gc
import random

import pyarrow as pa
import pytest
import reference
from hypothesis import given, strategies as st
from reference import ALL_NULL, CONST, DICT, PLAIN
from strategies import FLAT_TYPES, array_of, scalar_types, tables

from fastmosaic.format._collect import ArrowColumns
from fastmosaic.format._encode import ColumnFault, encode
from fastmosaic.format.types import ColumnType, Kind


def kinds_of(schema):
    return bytes(ColumnType.from_arrow(field).kind for field in schema)


def digits_of(schema):
    return bytes(arrow.precision if pa.types.is_decimal(arrow) else 0 for arrow in schema.types)


def encoded(table, use_dictionary=None, max_entries=255, max_bytes=32768):
    """Encode all columns of a table, batch by batch."""
    flags = [True] * table.num_columns if use_dictionary is None else use_dictionary
    batches = [ArrowColumns(batch) for batch in table.to_batches()]
    columns = range(table.num_columns)
    kinds, digits = kinds_of(table.schema), digits_of(table.schema)
    return encode(batches, columns, kinds, digits, bytes(flags), max_entries, max_bytes)


def oracle(column, use_dictionary=True, max_entries=255, max_bytes=32768):
    """Return the oracle's page of a column."""
    rows = reference.serialize(pa.concat_arrays(column.chunks)) if column.num_chunks else []
    limits = max_entries if use_dictionary else 0, max_bytes
    variable = reference.width(column.type) in (None, 12)
    return reference.encode_page(rows, reference.choose_encoding(rows, *limits, variable))


def content(page):
    """Return a page of the oracle as bytes, or None if all rows are null."""
    if page.encoding == ALL_NULL:
        return None
    return bytes([page.encoding, page.nulls != b""]) + page.table + page.nulls + page.data


def of_one(array, **limits):
    """Return the oracle's page, after checking that the encoder produces the same."""
    table = pa.table({"x": array})
    page = oracle(table["x"], **limits)
    pages = encoded(table, **limits)  # kept: what `page` gives is a view of it
    assert pages.page(0) == content(page)
    return page


# Against the oracle


def check_against_oracle(table, use_dictionary, max_entries, max_bytes):
    pages = encoded(table, use_dictionary, max_entries, max_bytes)
    expected = [
        oracle(column, flag, max_entries, max_bytes)
        for column, flag in zip(table.columns, use_dictionary, strict=True)
    ]
    assert pages.count == len(expected)
    assert list(pages.encodings()) == [page.encoding for page in expected]
    for flat, page in enumerate(expected):
        assert pages.num_rows(flat) == page.num_rows
        assert pages.page(flat) == content(page)

    monolithic = reference.encode_monolithic(expected, len(expected))
    assert pages.monolithic(b"") == monolithic
    assert pages.monolithic(b"header") == b"header" + monolithic
    counted = [
        len(page.nulls + page.data) + (len(page.table) if page.encoding == DICT else 0)
        for page in expected
        if page.encoding in (PLAIN, DICT) or (page.encoding == CONST and page.nulls)
    ]
    assert pages.sizes() == (len(monolithic), len(counted), sum(counted))


limits = {
    "max_entries": st.sampled_from([0, 1, 2, 3, 255, 100_000]),
    "max_bytes": st.sampled_from([0, 12, 50, 32768]),
}


@pytest.mark.parametrize("arrow", FLAT_TYPES, ids=str)
@given(data=st.data(), **limits)
def test_pages_of_every_type_are_those_of_the_oracle(arrow, data, max_entries, max_bytes):
    table = data.draw(tables(min_columns=1, max_columns=1, column_types=st.just(arrow)))
    check_against_oracle(table, [True], max_entries, max_bytes)


@given(table=tables(max_columns=12, column_types=scalar_types()), rng=st.randoms(), **limits)
def test_pages_of_a_bucket_are_those_of_the_oracle(table, rng, max_entries, max_bytes):
    flags = [rng.random() < 0.8 for _ in table.columns]
    check_against_oracle(table, flags, max_entries, max_bytes)


@given(tables(column_types=scalar_types()))
def test_the_size_of_a_batch_is_that_of_its_values(table):
    for batch in table.to_batches():
        values = filter(None, reference.chain(*map(reference.serialize, batch.columns)))
        plain, arrow_bytes = ArrowColumns(batch).sizes(kinds_of(table.schema))
        assert plain == sum(map(len, values))
        assert arrow_bytes >= 0


@pytest.mark.parametrize("offset", range(9))
def test_slices_at_every_bit(offset):
    rng = random.Random(offset)
    values = [rng.choice([None, True, False]) for _ in range(300)]
    array = pa.array(values).slice(offset, 200)
    # The chunks after the first begin inside a byte of the bitmap.
    chunks = [array.slice(0, 61), array.slice(61, 1), array.slice(62, 0), array.slice(62)]
    for flag in (False, True):
        check_against_oracle(pa.table({"x": pa.chunked_array(chunks)}), [flag], 255, 0)


# Values at their edges


@pytest.mark.parametrize("digits", [18, 19, 38])
def test_decimals_at_the_edge_of_every_byte(digits):
    edges = {
        sign * (1 << bits) + step for bits in range(127) for sign in (1, -1) for step in (-1, 0)
    }
    limit = 10**digits - 1
    values = sorted(value for value in edges | {0, limit, -limit} if abs(value) <= limit)
    assert of_one(array_of(pa.decimal128(digits, 0), values)).encoding == PLAIN


def test_both_halves_of_a_decimal_count():
    values = [high << 64 | low for high in (-1, 0, 1) for low in (0, 1, 2**63, 2**64 - 1)]
    page = of_one(array_of(pa.decimal128(38, 0), values * 9))
    assert reference.get_uv(page.table, 0)[0] == 12


def test_nanoseconds_at_their_edges():
    edges = [-(2**63), -1_000_001, -1_000_000, -999_999, -1, 0, 999_999, 1_000_000, 2**63 - 1]
    assert of_one(array_of(pa.timestamp("ns"), edges)).encoding == PLAIN


def test_zeros_and_nans_differ_by_their_bits():
    zeros = array_of(pa.float64(), [0, 1 << 63] * 20)
    nans = array_of(pa.float32(), [0x7FC00000, 0x7FC00001] * 20)
    assert of_one(zeros).table == reference.uv(2) + bytes(8) + b"\x80" + bytes(7)
    assert of_one(nans).encoding == DICT
    assert of_one(zeros.take(pa.array([0, 2]))).encoding == CONST


@pytest.mark.parametrize("size", [1, 127, 128, 16383, 16384, 2097152])
def test_strings_whose_length_takes_more_bytes(size):
    assert of_one(pa.array([b"x" * size, None, b"y" * size, b""])).encoding == PLAIN


@pytest.mark.parametrize("values", [[], [None], ["", None], [None, "", ""], ["", "a"]])
def test_strings_without_a_byte(values):
    of_one(pa.array(values, pa.string()))


def unchecked(arrow, values):
    """Create an array without validation."""
    return pa.array(values, reference.stored_as(arrow)).view(arrow)


@pytest.mark.parametrize(
    ("arrow", "value", "message"),
    [
        (pa.string(), b"\xff", "a string is not UTF-8"),
        (pa.string(), b"long enough for words \xc3", "a string is not UTF-8"),
        (pa.decimal128(18, 0), bytes(8) + b"\1" + bytes(7), "a decimal has more digits"),
        (pa.decimal128(18, 0), b"\xff" * 8 + bytes(8), "a decimal has more digits"),
        *(
            (pa.decimal128(digits, 0), number.to_bytes(16, "little", signed=True), "more digits")
            for digits in (1, 9, 18, 19, 20, 37, 38)
            for number in (10**digits, -(10**digits))
        ),
        (pa.time32("ms"), 24 * 60 * 60 * 1000, "negative or not less than 24 hours"),
        (pa.time32("ms"), -1, "negative or not less than 24 hours"),
        (pa.time32("ms"), -(2**31), "negative or not less than 24 hours"),
    ],
)
def test_values_that_are_not_what_their_type_says(arrow, value, message):
    other = 0 if pa.types.is_time(arrow) else bytes(16)
    column = unchecked(arrow, [other, None, other, value])
    table = pa.table({"fine": [1, 2, 3, 4], "x": column})
    with pytest.raises(ColumnFault, match=message) as caught:
        encoded(table)
    assert caught.value.column == 1
    # Under a null and outside of the slice they do not matter.
    buffers = column.buffers()
    buffers[0] = pa.py_buffer(b"\x05")
    hidden = pa.Array.from_buffers(arrow, 4, buffers)
    for array in (column.slice(0, 3), hidden):
        assert of_one(array).encoding == CONST


@pytest.mark.parametrize("digits", range(1, 39))
def test_the_last_decimals_of_their_digits_are_written(digits):
    last = 10**digits - 1
    of_one(array_of(pa.decimal128(digits, 0), [last, -last, 0]))


def test_the_last_time_of_a_day_is_written():
    of_one(array_of(pa.time32("ms"), [24 * 60 * 60 * 1000 - 1, 0]))


def test_a_character_in_two_strings_is_in_none():
    with pytest.raises(ColumnFault, match="a string is not UTF-8"):
        encoded(pa.table({"x": unchecked(pa.string(), [b"\xc3", b"\xa9"])}))


# The choice


@pytest.mark.parametrize(("num_rows", "encoding"), [(4, PLAIN), (5, DICT)])
def test_a_dictionary_must_be_smaller(num_rows, encoding):
    assert of_one(pa.array([True, False, True, True, True][:num_rows])).encoding == encoding


@pytest.mark.parametrize(("max_entries", "encoding"), [(2, PLAIN), (3, DICT)])
def test_a_dictionary_may_reach_the_limit_of_entries(max_entries, encoding):
    array = pa.array([1, 2, 3] * 100, pa.int64())
    assert of_one(array, max_entries=max_entries).encoding == encoding


@pytest.mark.parametrize(
    ("array", "size"),
    [
        (pa.array(["a", "bb", "ccc"] * 100), 9),
        (array_of(pa.timestamp("ns"), [1, 2, 3] * 100), 36),
        (array_of(pa.decimal128(19, 0), [1, 200, 70_000] * 100), 9),
    ],
    ids=["string", "nanoseconds", "decimal"],
)
def test_a_dictionary_may_reach_the_limit_of_bytes(array, size):
    assert of_one(array, max_bytes=size).encoding == DICT
    assert of_one(array, max_bytes=size - 1).encoding == PLAIN


def test_the_limit_of_bytes_is_not_for_numbers():
    assert of_one(pa.array([1, 2, 3] * 100, pa.int64()), max_bytes=0).encoding == DICT
    assert of_one(array_of(pa.decimal128(18, 0), [1, 2] * 100), max_bytes=0).encoding == DICT


def test_a_constant_may_be_of_any_length():
    array = pa.array(["long" * 20, None] * 10)
    assert of_one(array, max_bytes=10).encoding == CONST
    assert encoded(pa.table({"x": array}), [False]).encodings() == bytes([CONST])


# Dictionaries


def test_a_dictionary_grows():
    rng = random.Random(1)
    numbers = [value for value in range(2000) for _ in range(3)]
    rng.shuffle(numbers)
    table = pa.table(
        {
            "number": pa.array([None if n % 7 == 0 else n << 40 for n in numbers], pa.int64()),
            "text": [f"value {n} of many" for n in numbers],
            "decimal": array_of(pa.decimal128(38, 0), [(n - 1000) << 90 for n in numbers]),
            "few": pa.array([n % 2 for n in numbers], pa.int64()),  # after the table has grown
        }
    )
    check_against_oracle(table, [True] * 4, 100_000, 1 << 20)
    assert encoded(table, None, 100_000, 1 << 20).encodings() == bytes([DICT] * 4)


def test_strings_that_differ_in_one_byte_are_different_entries():
    texts = [
        b"\0" * at + b"\1" + b"\0" * (size - at - 1) for size in range(1, 40) for at in range(size)
    ]
    page = of_one(pa.array(texts * 3), max_entries=100_000)
    assert page.table == reference.uv(len(texts)) + b"".join(map(reference.sized, texts))


def test_numbers_that_share_their_low_bits_are_different_entries():
    numbers = [high << 32 | 7 for high in range(-300, 300)] + [n << 10 for n in range(300)]
    page = of_one(array_of(pa.int64(), numbers * 3), max_entries=100_000)
    assert reference.get_uv(page.table, 0)[0] == len(set(numbers))


# ArrowColumns


def test_arrays_stand_in_for_columns_and_follow_them():
    columns = ArrowColumns(pa.record_batch({"a": [1, 2], "b": [[1], [2, 3]]}))
    columns.put(1, pa.array([1, 2], pa.int32()))
    appended = [columns.append(pa.array(["é" * i], pa.string())) for i in range(20)]
    assert appended == list(range(2, 22))
    assert columns.count == 22
    gc.collect()

    kinds = kinds_of(pa.schema([("", pa.int64()), ("", pa.int32())] + [("", pa.string())] * 20))
    assert columns.sizes(kinds)[0] == 16 + 8 + sum(1 + 2 * i for i in range(20))
    kinds = kinds[1::-1] + kinds[:1]
    pages = encode([columns], [1, 21, 0], kinds, bytes(3), bytes(3), 255, 32768)
    assert pages.page(0) == b"\0\0" + bytes.fromhex("00000001 00000002")
    with pytest.raises(IndexError, match="column 22 of 22"):
        columns.put(22, pa.array([1]))


def test_numbers_that_do_not_fit_together_are_refused():
    columns = ArrowColumns(pa.record_batch({"a": [1, 2]}))
    int64 = kinds_of(pa.schema([("", pa.int64())]))
    with pytest.raises(ValueError, match="2 kinds for 1 columns"):
        columns.sizes(int64 * 2)
    with pytest.raises(ValueError, match="2 kinds for 1 columns"):
        encode([columns], [0], int64 * 2, b"\0", b"\1", 255, 32768)
    with pytest.raises(ValueError, match="1 kinds for 1 columns"):
        encode([columns], [0], int64, bytes(2), b"\1", 255, 32768)
    with pytest.raises(ValueError, match="39 digits"):
        encode([columns], [0], bytes([Kind.DECIMAL64]), b"\x27", b"\1", 255, 32768)
    with pytest.raises(IndexError, match="column 1 of 1"):
        encode([columns], [1], int64, b"\0", b"\1", 255, 32768)
    pages = encode([columns], [0], int64, b"\0", b"\1", 255, 32768)
    for ask in (pages.page, pages.num_rows):
        with pytest.raises(IndexError, match="1"):
            ask(1)


def test_no_batches_are_columns_of_no_rows():
    kinds = bytes([Kind.INT64, Kind.STRING])
    pages = encode([], [0, 0], kinds, bytes(2), b"\1\1", 255, 32768)
    assert pages.encodings() == bytes([ALL_NULL] * 2)
    assert [pages.num_rows(flat) for flat in range(2)] == [0, 0]
