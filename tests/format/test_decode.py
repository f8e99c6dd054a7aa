"""The decoder against the oracle: all kinds and encodings, damaged pages, hostile numbers."""

import gc
import random
import struct
from itertools import pairwise

import pyarrow as pa
import pytest
import reference
from files import allocated_bytes
from hypothesis import given, strategies as st
from reference import ALL_NULL, CONST, DICT, PLAIN, sized, uv
from strategies import FLAT_TYPES, array_of, scalar_types, tables

from fastmosaic.format._decode import Batch, PageFault, Pages
from fastmosaic.format.types import ColumnType, Kind
from fastmosaic.memory import Memory

every_type = pytest.mark.parametrize("arrow", FLAT_TYPES, ids=str)
NS = pa.timestamp("ns")
BIG = pa.decimal128(38, 0)


def kinds_of(types):
    return bytes(ColumnType.from_arrow(pa.field("", arrow)).kind for arrow in types)


def digits_of(types):
    return bytes(arrow.precision if pa.types.is_decimal(arrow) else 0 for arrow in types)


def from_slots(slots, types, rows, strict=True):
    """Open one page of each type."""
    return Pages.from_slots(slots, kinds_of(types), digits_of(types), rows, strict)


def from_monolithic(bucket, start, types, rows, stop, strict=True):
    kinds, digits = kinds_of(types), digits_of(types)
    return Pages.from_monolithic(bucket, start, kinds, digits, rows, stop, strict)


def next_rows(pages, columns, types, count):
    """Decode the next `count` rows of columns."""
    return pages.decode(columns, types, [count] * len(columns), Memory())


def content(page):
    """Return a page of the oracle as bytes, or None if all rows are null."""
    if page.encoding == ALL_NULL:
        return None
    return bytes([page.encoding, page.nulls != b""]) + page.table + page.nulls + page.data


def decoded(page, arrow, num_rows, strict=True):
    """Decode the bytes of one page."""
    pages = from_slots([page], [arrow], [num_rows], strict)
    (array,) = next_rows(pages, [0], [arrow], num_rows)
    if not strict:  # times and decimals may be outside the range of their type
        array.view(reference.stored_as(arrow)).validate(full=True)
        return array
    return checked(array)


def checked(array):
    """Return the array after validating it."""
    array.validate(full=True)
    return array


def possible_encodings(column):
    """Return the encodings that can represent the rows of a column."""
    distinct = len({value for value in column if value is not None})
    return [ALL_NULL] if distinct == 0 else [PLAIN, DICT] if distinct > 1 else [PLAIN, CONST, DICT]


def pack(indices, width):
    """Like the oracle's `pack_bits`, but not with quadratic time."""
    digits = "".join(format(index, f"0{width}b") for index in reversed(indices)) if width else "0"
    return int(digits, 2).to_bytes((len(indices) * width + 7) // 8, "little")


# Against the oracle


@every_type
@given(data=st.data())
def test_every_encoding_of_every_type(arrow, data):
    column = data.draw(tables(min_columns=1, max_columns=1, column_types=st.just(arrow)))[0]
    array = column.combine_chunks()
    rows = reference.serialize(array)
    for encoding in possible_encodings(rows):
        page = content(reference.encode_page(rows, encoding))
        assert reference.same_array(decoded(page, arrow, len(rows)), array)


@given(table=tables(min_columns=1, max_columns=10, column_types=scalar_types()), rng=st.randoms())
def test_a_bucket_as_a_whole_and_column_by_column(table, rng):
    arrays = [column.combine_chunks() for column in table.columns]
    pages = []
    for array in arrays:
        rows = reference.serialize(array)
        pages.append(reference.encode_page(rows, rng.choice(possible_encodings(rows))))
    types, count = table.schema.types, len(arrays)
    rows = [table.num_rows] * count
    bucket = b"header" + reference.encode_monolithic(pages, count) + b"ignored"

    whole = from_monolithic(bucket, 6, types, rows, count)
    slots = from_slots([content(page) for page in pages], types, rows)
    for opened in (whole, slots):
        assert opened.count == count
        decoded = next_rows(opened, range(count), types, table.num_rows)
        for array, expected in zip(decoded, arrays, strict=True):
            assert reference.same_array(checked(array), expected)
    for i in range(count):
        part = from_monolithic(memoryview(bucket), 6, types, rows, i + 1)
        (array,) = next_rows(part, [i], [types[i]], table.num_rows)
        assert reference.same_array(array, arrays[i])


def test_columns_come_in_any_order_each_at_its_own_row():
    pages = from_slots([b"\0\0\1\2", None, b"\1\0\7"], [pa.int8()] * 3, [2, 2, 2])
    arrays = pages.decode([2, 0, 1], [pa.int8()] * 3, [1, 2, 0], Memory())
    assert [array.to_pylist() for array in arrays] == [[7], [1, 2], []]
    arrays = pages.decode([1, 2], [pa.int8()] * 2, [2, 1], Memory())
    assert [array.to_pylist() for array in arrays] == [[None, None], [7]]
    assert pages.decode([], [], [], Memory()) == []


# 1024 indices are unpacked at a time.
@pytest.mark.parametrize(
    "num_entries",
    [1, 2, 3, 4, 5, 255, 256, 257, 1000, pytest.param(70_000, marks=pytest.mark.exhaustive)],
)
@pytest.mark.parametrize(
    "arrow", [pa.int8(), pa.int16(), pa.int32(), NS, BIG, pa.string()], ids=str
)
def test_dictionaries_of_any_size(arrow, num_entries):
    rng = random.Random(num_entries)
    numbers = range(num_entries)
    strings = [f"{i:x}" * (i % 9) for i in numbers]
    entries = array_of(arrow, strings if arrow == pa.string() else [i % 100 for i in numbers])
    indices = [*reversed(numbers), *rng.choices(numbers, k=3001)]
    rows = [row for index in indices for row in ([None, index] if rng.random() < 0.3 else [index])]

    page = b"\2\1" + uv(num_entries) + b"".join(reference.serialize(entries))
    page += pack([row is None for row in rows], 1)
    page += pack(indices, reference.index_width(num_entries))
    expected = entries.take(pa.array(rows, pa.int32()))
    assert decoded(page, arrow, len(rows)).equals(expected)


@pytest.mark.parametrize(
    "num_entries", [2**width - spare for width in range(1, 17) for spare in (0, 1)][1:]
)
def test_indices_of_any_width_from_any_row_on(num_entries):
    rng = random.Random(num_entries)
    indices = [num_entries - 1, *rng.choices(range(num_entries), k=200)]
    entries = range(-num_entries, 0)
    page = b"\2\0" + uv(num_entries) + struct.pack(f">{num_entries}i", *entries)
    page += pack(indices, reference.index_width(num_entries))
    for first in (0, 1, 7, 8, 64, 150):
        pages = from_slots([page], [pa.int32()], [len(indices)])
        pages.skip(0, first)
        (array,) = next_rows(pages, [0], [pa.int32()], len(indices) - first)
        assert array.to_pylist() == [entries[index] for index in indices[first:]]


def runs_of_nulls(rng):
    """Return which rows are null: words of 64 rows that are valid, null or mixed, and runs."""
    nulls = []
    for density in (0, 1, 0.5, 0.02, 1, 0.98, 0, 0, 0.5, 1, 1):
        nulls += [rng.random() < density for _ in range(64)]
    for run in (1, 3, 63, 65, 130):
        nulls += [False] * run + [True] * (run + 1)
    return nulls


@every_type
def test_nulls_in_words_of_rows(arrow):
    rng = random.Random(5)
    nulls = runs_of_nulls(rng)
    numbers = [rng.randrange(100) for _ in nulls]
    if pa.types.is_boolean(arrow):
        numbers = [number % 2 == 1 for number in numbers]
    elif arrow in (pa.string(), pa.binary()):
        numbers = [f"{number}" * (number % 12) for number in numbers]
    values = array_of(arrow, numbers)
    column = values.take(pa.array([None if null else i for i, null in enumerate(nulls)]))
    rows = reference.serialize(column)
    for encoding in possible_encodings(rows):
        page = content(reference.encode_page(rows, encoding))
        for first in (0, 1, 63, 64, 100, 191):
            pages = from_slots([page], [arrow], [len(rows)])
            pages.skip(0, first)
            (array,) = next_rows(pages, [0], [arrow], len(rows) - first)
            assert reference.same_array(checked(array), column.slice(first))


@pytest.mark.parametrize("encoding", [PLAIN, DICT])
def test_any_byte_but_zero_is_true(encoding):
    rng = random.Random(7)
    stored = [rng.choice([0, 1, 2, 128, 255]) for _ in range(200)]
    if encoding == PLAIN:
        page = bytes([0, 0, *stored])
    else:
        page = bytes([2, 0, 5, 0, 1, 2, 128, 255])
        page += pack([[0, 1, 2, 128, 255].index(value) for value in stored], 3)
    assert decoded(page, pa.bool_(), 200).to_pylist() == [value != 0 for value in stored]


@pytest.mark.parametrize("pair", [b"\0\0", b"\0\2", b"\3\0", b"\1\4"])
def test_a_dictionary_of_two_booleans(pair):
    rng = random.Random(8)
    indices = [rng.randrange(2) for _ in range(150)]
    page = b"\2\0\2" + pair + pack(indices, 1)
    assert decoded(page, pa.bool_(), 150).to_pylist() == [pair[index] != 0 for index in indices]


# What is read though it is never written


def test_a_bitmap_may_be_of_no_nulls_or_nulls_only():
    for encoding, table in ((PLAIN, b""), (CONST, b"\5"), (DICT, b"\1\5"), (DICT, b"\0")):
        page = bytes([encoding, 1]) + table + b"\xff"
        assert decoded(page, pa.int8(), 3).to_pylist() == [None] * 3
    for page in (b"\0\1\0\5\5\5", b"\1\1\5\0", b"\2\1\1\5\0", b"\2\1\2\6\5\0\7"):
        array = decoded(page, pa.int8(), 3)
        assert array.to_pylist() == [5] * 3
        assert array.buffers()[0] is None


def test_spare_bits_and_bytes_do_not_count():
    # Flags, the last five bits of the bitmap, those of the indices, a byte at the end.
    page = b"\2\xff\2\5\6\xfa\xff\xff"
    assert decoded(page, pa.int8(), 3).to_pylist() == [6, None, 6]
    assert decoded(b"\0\xfe\0\1\2", pa.bool_(), 3).to_pylist() == [False, True, True]


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("00", 0),
        ("01 ff", -1),
        ("02 00 05", 5),
        ("04 ff ff ff 80", -128),
        ("10" + "ff" * 16, -1),
        ("10" + "00" * 15 + "05", 5),
        ("10 80" + "00" * 15, -(1 << 127)),
    ],
)
def test_a_decimal_need_not_be_minimal(encoded, value):
    page = b"\0\0" + bytes.fromhex(encoded)
    expected = array_of(BIG, [value])
    assert reference.same_array(decoded(page, BIG, 1, strict=abs(value) < 10**38), expected)


def test_lengths_need_not_be_minimal():
    page = b"\0\0" + bytes.fromhex("8000 8100 61 818080800062")
    assert decoded(page, pa.string(), 3).to_pylist() == ["", "a", "b"]


# Damage


def outcome(page, arrow, num_rows):
    """Decode a page with the oracle; return None if it raises an error."""
    try:
        return reference.deserialize(reference.decode_page(page, arrow, num_rows), arrow)
    except ValueError:
        return None


def check_any_bytes(page, arrow, num_rows):
    """Damaged pages raise an error or decode to the same values as in the oracle."""
    for strict in (True, False):
        array, message = attempt(decoded, page, arrow, num_rows, strict)
        nulls, other = attempt(check, page, arrow, num_rows, strict)
        assert other == message
        if message is None:
            assert reference.same_array(array, outcome(page, arrow, num_rows))
            assert nulls == array.null_count


def attempt(function, *arguments):
    """Return the result and None, or None and the message of the error."""
    try:
        return function(*arguments), None
    except (PageFault, OverflowError) as error:
        return None, str(error)


def check(page, arrow, num_rows, strict):
    """Check the bytes of one page; return the number of nulls."""
    return from_slots([page], [arrow], [num_rows], strict).check(0, num_rows)


@every_type
@given(
    page=st.builds(
        lambda encoding, flags, rest: bytes([encoding, flags]) + rest,
        st.integers(0, 3),
        st.integers(0, 1),
        st.one_of(st.binary(max_size=80), st.lists(st.integers(0, 16), max_size=80).map(bytes)),
    ),
    num_rows=st.integers(0, 12),
)
def test_arbitrary_bytes(arrow, page, num_rows):
    check_any_bytes(page, arrow, num_rows)


@every_type
@given(data=st.data(), position=st.integers(0), byte=st.integers(0, 255), more=st.integers(-9, 9))
def test_a_changed_byte_or_number_of_rows(arrow, data, position, byte, more):
    tables_of_one = tables(
        min_rows=1, max_rows=70, min_columns=1, max_columns=1, column_types=st.just(arrow)
    )
    rows = reference.serialize(data.draw(tables_of_one)[0].combine_chunks())
    encoding = data.draw(st.sampled_from(possible_encodings(rows)))
    page = bytearray(content(reference.encode_page(rows, encoding)) or b"\0\0")
    page[position % len(page)] = byte
    check_any_bytes(bytes(page), arrow, max(0, len(rows) + more))


@given(
    table=tables(
        min_rows=1, max_rows=20, min_columns=1, max_columns=5, column_types=scalar_types()
    ),
    changes=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_a_changed_byte_of_a_bucket(table, changes):
    pages = []
    for column in table.columns:
        rows = reference.serialize(column.combine_chunks())
        pages.append(reference.encode_page(rows, possible_encodings(rows)[-1]))
    types, count = table.schema.types, len(pages)
    bucket = bytearray(reference.encode_monolithic(pages, count))
    for position, byte in changes:
        bucket[position % len(bucket)] = byte
    try:
        opened = from_monolithic(bytes(bucket), 0, types, [table.num_rows] * count, count)
        arrays = next_rows(opened, range(count), types, table.num_rows)
    except (PageFault, OverflowError):
        return
    columns = reference.decode_monolithic(bytes(bucket), types, count, table.num_rows)
    for array, column, arrow in zip(arrays, columns, types, strict=True):
        assert reference.same_array(checked(array), reference.deserialize(column, arrow))


VALUES = {
    pa.bool_(): [True, False],
    pa.int8(): [1, 2],
    pa.int16(): [1, 2],
    pa.int32(): [1, 2],
    pa.int64(): [1, 2],
    NS: [1, 2],
    pa.decimal128(18, 4): [1, 2],
    BIG: [1, 1 << 90],
    pa.binary(): [b"\xff", b"a" * 300],
    pa.string(): ["é", "a" * 300],
}
CUT = "ends before its last value|length is cut off|more entries than it has bytes"


@pytest.mark.parametrize("arrow", VALUES, ids=str)
def test_every_truncation_of_a_page_is_a_fault(arrow):
    rows = reference.serialize(array_of(arrow, [*VALUES[arrow], None] * 3))
    for column, encoding in ((rows, PLAIN), (rows, DICT), (rows[2:4], CONST)):
        page = content(reference.encode_page(column, encoding))
        for size in range(len(page)):
            with pytest.raises(PageFault, match=CUT) as caught:
                decoded(page[:size], arrow, len(column))
            assert caught.value.column == 0


def test_every_truncation_of_a_bucket_is_a_fault():
    arrays = [array_of(arrow, [*values, None] * 3) for arrow, values in VALUES.items()]
    pages = [
        reference.encode_page(reference.serialize(array), (PLAIN, DICT)[i % 2])
        for i, array in enumerate(arrays)
    ]
    types, count = list(VALUES), len(arrays)
    bucket = reference.encode_monolithic(pages, count)
    columns = set()
    for size in range(len(bucket)):
        with pytest.raises(PageFault, match=CUT) as caught:
            from_monolithic(bucket[:size], 0, types, [9] * count, count)
        columns.add(caught.value.column)
    assert columns == set(range(count))


@pytest.mark.parametrize(
    ("arrow", "num_rows", "page", "message"),
    [
        (pa.int8(), 1, "", "ends before its last value"),
        (pa.int8(), 1, "03 00", "unknown encoding"),
        (pa.int8(), 1, "ff 00", "unknown encoding"),
        (pa.string(), 1, "00 00 02 c3 28", "not UTF-8"),
        (pa.string(), 2, "00 00 01 c3 01 a9", "not UTF-8"),  # one character in two strings
        (pa.string(), 3, "00 00 01 c3 00 01 a9", "not UTF-8"),
        (pa.string(), 1, "01 00 01 c3", "not UTF-8"),
        (pa.string(), 1, "02 00 02 01 c3 01 a9 02", "not UTF-8"),
        (pa.string(), 1, "00 00 ff ff ff ff 1f", "a length in it is broken"),
        (pa.string(), 1, "00 00 ff ff ff ff 0f 61", "ends before its last value"),
        (BIG, 1, "00 00 11" + "00" * 17, "decimal is longer than 16 bytes"),
        (BIG, 1, "01 00 11" + "00" * 17, "decimal is longer than 16 bytes"),
        (BIG, 1, "02 00 01 11" + "00" * 17, "decimal is longer than 16 bytes"),
        (NS, 1, "00 00" + "00" * 8 + "000f4240", "not in 0..999999"),
        (NS, 1, "01 00" + "00" * 8 + "ffffffff", "not in 0..999999"),
        (NS, 1, "02 00 01" + "00" * 8 + "80000000", "not in 0..999999"),
        (pa.int8(), 1, "02 00 03 01 02 03 03", "dictionary index has no entry"),
        (pa.string(), 1, "02 00 03 00 00 00 03", "dictionary index has no entry"),
        (pa.int8(), 1, "02 00 00", "dictionary index has no entry"),
        (pa.int8(), 1, "02 00 ff ff ff ff 0f 01 02 03", "more entries than it has bytes"),
        (pa.string(), 1, "02 00 ff ff ff ff 0f 01 02 03", "more entries than it has bytes"),
    ],
)
def test_a_broken_page_says_what_is_wrong(arrow, num_rows, page, message):
    with pytest.raises(PageFault, match=message):
        decoded(bytes.fromhex(page), arrow, num_rows)


UTF8 = [0x00, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFD, 0x10000, 0x10FFFF]
NOT_UTF8 = ["80", "bf", "c0 80", "c1 bf", "e0 9f bf", "ed a0 80", "ed bf bf", "f0 8f bf bf"]
NOT_UTF8 += ["f4 90 80 80", "f5 80 80 80", "ff", "c2", "e1 80", "f1 80 80", "e1 80 41", "c2 c2"]


@pytest.mark.parametrize("before", ["", "a", "seven..", "eight...", "é" * 5])
def test_utf8_at_its_edges(before):
    for text in map(chr, UTF8):
        page = b"\0\0" + sized((before + text + "x" * 9).encode())
        assert decoded(page, pa.string(), 1).to_pylist() == [before + text + "x" * 9]
    for bad in map(bytes.fromhex, NOT_UTF8):
        for after in (b"", b"x" * 9):
            value = sized(before.encode() + bad + after)
            for page in (b"\0\0" + value, b"\1\0" + value, b"\2\0\1" + value):
                with pytest.raises(PageFault, match="not UTF-8"):
                    decoded(page, pa.string(), 1)
            assert decoded(b"\0\0" + value, pa.binary(), 1)[0].as_py() == value[1:]


@pytest.mark.parametrize(
    ("first", "beyond"),
    [((2**63 - 1), 2**63), (-(2**63), -(2**63) - 1), (0, 10**24), (0, -(10**24))],
)
def test_nanoseconds_end_with_64_bits(first, beyond):
    for encoding in (b"\0\0", b"\1\0", b"\2\0\1"):
        page = encoding + struct.pack(">qi", *divmod(first, 10**6))
        assert decoded(page, NS, 1).view(pa.int64()).to_pylist() == [first]
        with pytest.raises(PageFault, match="a timestamp exceeds 64 bits of nanoseconds"):
            decoded(encoding + struct.pack(">qi", *divmod(beyond, 10**6)), NS, 1)


def test_a_fault_names_its_column():
    types = [pa.int8(), pa.string(), pa.int8()]
    with pytest.raises(PageFault, match="unknown encoding") as caught:
        from_slots([None, b"\0\0\0", b"\7\0"], types, [1, 1, 1])
    assert caught.value.column == 2
    pages = from_slots([None, b"\0\0\1\xff", b"\0\0\1"], types, [1, 1, 1])
    with pytest.raises(PageFault, match="not UTF-8") as caught:
        next_rows(pages, [2, 1], [pa.int8(), pa.string()], 1)
    assert caught.value.column == 1
    assert next_rows(pages, [2], [pa.int8()], 1)[0].to_pylist() == [1]


@every_type
def test_bytes_after_the_last_value_are_counted(arrow):
    array = array_of(arrow, [value_of(arrow), None] * 3)
    types, counts = [arrow, pa.int8()], [6, 6]
    for encoding in (PLAIN, CONST, DICT):
        page = reference.encode_page(reference.serialize(array), encoding)
        bucket = reference.encode_monolithic([page, reference.Page(ALL_NULL, 6, b"", b"", b"")], 2)
        for spare in (b"", b"\0", b"\xff" * 9):
            slots = from_slots([content(page) + spare, None], types, counts)
            whole = from_monolithic(bucket + spare, 0, types, counts, 2)
            assert slots.surplus == whole.surplus == len(spare)
            for pages in (slots, whole):
                assert next_rows(pages, [0], [arrow], 6)[0].equals(array)
            # Before the last column there may be something else.
            assert from_monolithic(bucket + spare, 0, types, counts, 1).surplus == 0


def value_of(arrow):
    """Return a value of a scalar type."""
    return {pa.bool_(): True, pa.string(): "a", pa.binary(): b"a"}.get(arrow, 1)


# Hostile numbers


@pytest.mark.parametrize("num_rows", [2**31 - 1, 2**32 - 1])
def test_more_strings_than_arrow_has_offsets_for(num_rows):
    with pytest.raises(OverflowError, match="the column exceeds 2 GiB in one row group"):
        decoded(b"\1\0\0", pa.string(), num_rows)


def test_more_bytes_of_strings_than_arrow_has_offsets_for():
    value = sized(b"x" * (1 << 20))
    for page in (b"\1\0" + value, b"\2\0\1" + value, b"\2\0\2\0" + value + b"\xff" * 256):
        with pytest.raises(OverflowError, match="the column exceeds 2 GiB in one row group"):
            decoded(page, pa.string(), 2048)


@every_type
def test_more_rows_than_the_page_has_bytes_for(arrow):
    for page in (b"\0\0\0", b"\0\1\0", b"\1\1" + bytes(20), b"\2\0\2" + bytes(24)):
        with pytest.raises(PageFault, match=CUT):
            decoded(page, arrow, 2**32 - 1)


def test_bound_counts_what_is_not_spelled_out():
    types = [pa.int64(), pa.string(), pa.int32(), pa.int16(), pa.int8(), pa.int8(), pa.int64()]
    slots = [
        b"\1\0" + bytes(8),
        b"\1\0" + sized(b"ab"),
        b"\2\0\1" + bytes(4),  # a dictionary of one entry has no indices
        b"\0\0" + bytes(200),
        b"\2\1\2\1\2" + bytes(13) + bytes(13),
        None,
        None,
    ]
    pages = from_slots(slots, types, [100] * 7)
    singly = [pages.bound([i]) for i in range(7)]
    assert singly == [800, 4 * 101 + 2 * 100, 400, 200, 100 + 13, 100, 800]
    # Columns of nulls share theirs.
    assert pages.bound(range(7)) == sum(singly[:5]) + 800


def test_a_column_that_is_not_there():
    pages = from_slots([b"\0\0\0\0\0\1"], [pa.int32()], [1])
    for index in (-1, 1):
        for ask in (
            lambda i: next_rows(pages, [i], [pa.int32()], 1),
            lambda i: pages.decode_lists(i, 1, Memory()),
            lambda i: pages.measure([i], [1]),
            lambda i: pages.bound([i]),
            lambda i: pages.check(i, 1),
            lambda i: pages.skip(i, 1),
            lambda i: pages.skip_lists(i, 1),
            pages.is_constant,
            pages.null_count,
        ):
            with pytest.raises(IndexError, match=f"column {index} of 1"):
                ask(index)
    assert next_rows(pages, [0], [pa.int32()], 1)[0].to_pylist() == [1]


def test_the_data_of_a_column_from_stop_on_is_not_looked_for():
    column = reference.serialize(pa.array([1, 2] * 8, pa.int64()))
    bucket = reference.encode_monolithic([reference.encode_page(column, DICT)] * 2, 2)
    pages = from_monolithic(bucket[:-1], 0, [pa.int64()] * 2, [16, 16], 1)
    assert next_rows(pages, [0], [pa.int64()], 16)[0].to_pylist() == [1, 2] * 8
    with pytest.raises(IndexError, match="column 1 of 1"):
        next_rows(pages, [1], [pa.int64()], 16)


TWO_INTS = bytes([Kind.INT64] * 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((b"", 0, TWO_INTS, bytes(2), [1], 1, True), "1 row counts for 2 columns"),
        ((b"", 0, TWO_INTS, bytes(1), [1, 1], 1, True), "2 row counts for 2 columns"),
        ((b"", 0, bytes([Kind.NESTED]), bytes(1), [1], 1, True), f"kind {Kind.NESTED:d}"),
        ((b"", 0, bytes([Kind.DECIMAL64]), b"\x27", [1], 1, True), "39 digits of kind"),
        ((b"", 0, bytes([Kind.INT64]), b"\1", [1], 1, True), "1 digits of kind"),
        ((b"", 1, bytes([Kind.INT64]), bytes(1), [1], 1, True), "bad start or stop"),
        ((b"", -1, bytes([Kind.INT64]), bytes(1), [1], 1, True), "bad start or stop"),
        ((b"\3\0", 0, bytes([Kind.INT64]), bytes(1), [1], 2, True), "bad start or stop"),
    ],
)
def test_arguments_that_do_not_fit_together(arguments, message):
    with pytest.raises(ValueError, match=message):
        Pages.from_monolithic(*arguments)


def test_one_slot_for_each_column():
    with pytest.raises(ValueError, match="1 slots for 2 columns"):
        Pages.from_slots([None], TWO_INTS, bytes(2), [1, 1], True)


# Memory


@pytest.mark.parametrize("num_rows", [0, 1, 7, 8, 1000])
def test_columns_of_nulls_share_their_zeros(num_rows):
    pages = from_slots([None] * len(FLAT_TYPES), FLAT_TYPES, [num_rows] * len(FLAT_TYPES))
    arrays = next_rows(pages, range(len(FLAT_TYPES)), FLAT_TYPES, num_rows)
    for array, arrow in zip(arrays, FLAT_TYPES, strict=True):
        array.validate(full=True)
        assert array.equals(pa.nulls(num_rows, arrow))
    assert len({array.buffers()[1].address for array in arrays}) == 1


def test_arrays_outlive_what_they_came_from():
    arrays = [array_of(arrow, [*values, None] * 100) for arrow, values in VALUES.items()]
    arrays.append(pa.nulls(300, pa.int64()))
    types, count = [array.type for array in arrays], len(arrays)
    columns = map(reference.serialize, arrays)
    pages = [reference.encode_page(rows, possible_encodings(rows)[-1]) for rows in columns]
    data = pa.py_buffer(reference.encode_monolithic(pages, count))
    opened = from_monolithic(memoryview(data).cast("B"), 0, types, [300] * count, count)
    del data, pages
    gc.collect()
    results = next_rows(opened, range(count), types, 300)
    del opened
    gc.collect()
    slices = [array.slice(150) for array in results]
    del results
    gc.collect()
    garbage = [b"\xff" * size for size in range(1000, 4000, 100)]
    for part, array in zip(slices, arrays, strict=True):
        part.validate(full=True)
        assert part.equals(array.slice(150))
    del garbage


def test_memory_is_given_back():
    good, bad = b"\0\0" + sized(b"x" * 1000), b"\0\0" + sized(b"\xff" * 1000)
    string = pa.string()
    gc.collect()
    before = allocated_bytes()
    for _ in range(3):
        pages = from_slots([good, None, bad, good, None], [string] * 5, [1] * 5)
        arrays = next_rows(pages, [0, 1], [string] * 2, 1)
        assert allocated_bytes() > before
        with pytest.raises(PageFault, match="not UTF-8"):
            next_rows(pages, [3, 4, 2], [string] * 3, 1)
        batch = Batch(3)
        pages.decode_into([3, 4], [1, 1], batch, [0, 1], Memory())
        with pytest.raises(PageFault, match="not UTF-8"):
            pages.decode_into([2], [1], batch, [2], Memory())
        del arrays, batch
    gc.collect()
    assert allocated_bytes() == before


# Record batches

INT8, STRING = pa.int8(), pa.string()
SCHEMA = pa.schema([("a", INT8), ("b", STRING), ("c", INT8)])


def small_pages():
    return from_slots([b"\0\0\1\2", None, b"\1\1\7\2"], SCHEMA.types, [2, 2, 2])


def decode_small(columns, batch, places):
    """Decode all rows of some of the small pages."""
    small_pages().decode_into(columns, [2] * len(columns), batch, places, Memory())


def test_columns_of_a_batch_come_from_several_places():
    batch = Batch(3)
    decode_small([0], batch, [2])
    batch.put(1, pa.array(["x", None]))
    decode_small([2], batch, [0])
    assert batch.find_nulls(b"\0\0\1") is None
    assert batch.find_nulls(b"\0\1\1") == (1, 1)
    assert batch.find_nulls(b"\1\1\1") == (0, 1)
    finished = batch.finish(2, SCHEMA)
    del batch
    gc.collect()
    finished.validate(full=True)
    assert finished.to_pydict() == {"a": [7, None], "b": ["x", None], "c": [1, 2]}


@given(table=tables(min_columns=1, max_columns=10, column_types=scalar_types()))
def test_a_batch_is_what_its_pages_are(table):
    columns = [reference.serialize(column.combine_chunks()) for column in table.columns]
    slots = [content(reference.encode_page(rows, possible_encodings(rows)[-1])) for rows in columns]
    count, types = table.num_columns, table.schema.types
    pages = from_slots(slots, types, [table.num_rows] * count)
    batch = Batch(count)
    pages.decode_into(range(count), [table.num_rows] * count, batch, range(count), Memory())
    for i, column in enumerate(table.columns):
        required = bytes(i == k for k in range(count))
        assert batch.find_nulls(required) == ((i, column.null_count) if column.null_count else None)
    finished = batch.finish(table.num_rows, table.schema)
    for array, column in zip(finished.columns, table.columns, strict=True):
        assert reference.same_array(checked(array), column.combine_chunks())


def test_large_columns_do_not_share_their_memory():
    count = 1 << 18
    pages = from_slots([b"\1\0" + bytes(7) + b"\5"] * 3, [pa.int64()] * 3, [count] * 3)
    arrays = next_rows(pages, range(3), [pa.int64()] * 3, count)
    starts = sorted(array.buffers()[1].address for array in arrays)
    assert all(after - before >= 8 * count for before, after in pairwise(starts))
    assert all(array.equals(pa.repeat(pa.scalar(5, pa.int64()), count)) for array in arrays)


def test_a_batch_without_columns():
    assert Batch(0).finish(7, pa.schema([])).num_rows == 7


@pytest.mark.parametrize("place", [-1, 3])
def test_a_place_that_is_not_there(place):
    batch = Batch(3)
    with pytest.raises(IndexError, match=f"place {place} of 3"):
        decode_small([0], batch, [place])
    with pytest.raises(IndexError, match=f"place {place} of 3"):
        batch.put(place, pa.array([1]))


def test_a_place_is_taken_once():
    batch = Batch(3)
    batch.put(0, pa.array([1, 2], INT8))
    with pytest.raises(ValueError, match="place 0 is taken"):
        batch.put(0, pa.array([1, 2], INT8))
    with pytest.raises(ValueError, match="place 0 is taken"):
        decode_small([0, 2], batch, [1, 0])
    with pytest.raises(ValueError, match="two columns have the same place"):
        decode_small([0, 2], batch, [2, 2])


def test_nulls_are_looked_for_in_all_columns():
    with pytest.raises(ValueError, match="2 columns of 3"):
        Batch(3).find_nulls(b"\0\0")


def test_a_batch_is_finished_once_and_whole():
    batch = Batch(3)
    decode_small([0, 1], batch, [0, 1])
    with pytest.raises(ValueError, match="column 2 is missing, or does not have 2 rows"):
        batch.finish(2, SCHEMA)
    decode_small([2], batch, [2])
    with pytest.raises(ValueError, match="column 0 is missing, or does not have 3 rows"):
        batch.finish(3, SCHEMA)
    finished = batch.finish(2, SCHEMA)
    with pytest.raises(ValueError, match="the batch was taken over by Arrow"):
        batch.finish(2, SCHEMA)
    assert finished.num_rows == 2


def test_a_finished_batch_is_not_asked_again():
    batch = Batch(1)
    batch.put(0, pa.array([1, None], INT8))
    finished = batch.finish(2, pa.schema([("a", INT8)]))
    # Its columns are Arrow's now, which frees them with the last reference to `finished`.
    with pytest.raises(ValueError, match="taken"):
        batch.find_nulls(b"\1")
    with pytest.raises(ValueError, match="taken"):
        batch.put(0, pa.array([1, 2], INT8))
    with pytest.raises(ValueError, match="taken"):
        decode_small([0], batch, [0])
    assert finished.num_rows == 2


def test_a_fault_leaves_the_batch_as_it_was():
    batch = Batch(2)
    pages = from_slots([b"\0\0\1", b"\0\0\1\xff"], [INT8, STRING], [1, 1])
    with pytest.raises(PageFault, match="not UTF-8") as caught:
        pages.decode_into([0, 1], [1, 1], batch, [0, 1], Memory())
    assert caught.value.column == 1
    pages.decode_into([0], [1], batch, [0], Memory())
    batch.put(1, pa.array(["x"]))
    assert batch.finish(1, pa.schema([("a", INT8), ("b", STRING)])).to_pylist() == [
        {"a": 1, "b": "x"}
    ]


def test_a_batch_that_is_never_finished():
    batch = Batch(3)
    decode_small([0, 1], batch, [0, 1])
    batch.put(2, pa.array([1, 2], INT8))
    del batch
    gc.collect()


# Lengths of lists


def length_pages(lengths):
    """Open the lengths in every encoding that can have them."""
    column = reference.serialize(pa.array(lengths, pa.int32()))
    slots = [content(reference.encode_page(column, e)) for e in possible_encodings(column)]
    return from_slots(slots, [pa.int32()] * len(slots), [len(lengths)] * len(slots))


def offsets(pages, column, count):
    """Decode the next lengths; return validity, offsets, nulls and total as Python values."""
    validity, buffer, nulls, total = pages.decode_lists(column, count, Memory())
    valid = [True] * count
    if validity is not None:
        valid = pa.Array.from_buffers(pa.bool_(), count, [None, validity]).to_pylist()
    return valid, memoryview(buffer).cast("b").cast("i").tolist(), nulls, total


def running_sum(lengths):
    sums = [0]
    for length in lengths:
        sums.append(sums[-1] + (length or 0))
    return [length is not None for length in lengths], sums, lengths.count(None), sums[-1]


@given(
    lengths=st.lists(st.one_of(st.integers(0, 3), st.none(), st.just(2**20)), max_size=200),
    cut=st.integers(0, 200),
)
def test_offsets_are_the_running_sum(lengths, cut):
    cut = min(cut, len(lengths))
    for column in range(length_pages(lengths).count):
        assert offsets(length_pages(lengths), column, len(lengths)) == running_sum(lengths)
        pages = length_pages(lengths)
        for part in (lengths[:cut], lengths[cut:]):
            assert offsets(pages, column, len(part)) == running_sum(part)
        pages = length_pages(lengths)
        _, _, nulls, total = running_sum(lengths[:cut])
        assert pages.skip_lists(column, cut) == (total, nulls)
        assert offsets(pages, column, len(lengths) - cut) == running_sum(lengths[cut:])


def test_the_last_offset_may_be_arrows_largest():
    assert offsets(length_pages([2**31 - 1, 0]), 0, 2) == running_sum([2**31 - 1, 0])


@pytest.mark.parametrize("lengths", [[-1], [5, -3], [-(2**31)] * 3, [None, -1, -1]])
def test_a_negative_length_is_a_fault(lengths):
    for column in range(length_pages(lengths).count):
        with pytest.raises(PageFault, match="a list has a negative length"):
            offsets(length_pages(lengths), column, len(lengths))
        with pytest.raises(PageFault, match="a list has a negative length"):
            length_pages(lengths).skip_lists(column, len(lengths))


def test_more_elements_than_arrow_has_offsets_for():
    pages = length_pages([2**31 - 1] * 3)
    for column in range(pages.count):
        with pytest.raises(OverflowError, match="exceeds 2 GiB"):
            offsets(pages, column, 3)
        assert offsets(pages, column, 1) == running_sum([2**31 - 1])
        assert pages.skip_lists(column, 2) == (2**32 - 2, 0)


def test_only_numbers_of_32_bits_are_lengths():
    pages = from_slots([b"\0\0\1"], [pa.int8()], [1])
    for ask in (lambda: pages.skip_lists(0, 1), lambda: pages.decode_lists(0, 1, Memory())):
        with pytest.raises(ValueError, match="column 0 contains no lengths"):
            ask()
