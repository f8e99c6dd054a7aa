"""Buckets in both layouts against the oracle: complete, some columns, and damaged."""

import struct

import pyarrow as pa
import pytest
import reference
import zstandard
from files import flat_columns
from hypothesis import given, strategies as st
from reference import sized, uv
from strategies import tables

from fastmosaic.errors import CorruptFileError, UnsupportedError
from fastmosaic.format import bucket
from fastmosaic.format._decode import Batch
from fastmosaic.format._encode import encode
from fastmosaic.format.bucket import Directory
from fastmosaic.format.columns import ColumnDecoder
from fastmosaic.format.nested import BucketColumns
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.memory import Memory

LEVEL = 1


def columns_of(schema):
    return BucketColumns(SchemaBlock.from_arrow(schema, 1), 0)


def renamed(table):
    """Create a table whose names sort in the order of the columns."""
    return table.rename_columns([f"{i:03}" for i in range(table.num_columns)])


def encoded(table, checksum=False):
    """Encode the pages of a table with sorted columns by the rule of the Apache writer."""
    columns = columns_of(table.schema)
    flat = range(columns.num_flat)
    flags = bytes([1] * len(flat))
    limits = 255, 32768
    return encode(
        flat_columns(table), flat, columns.kinds, columns.digits, flags, *limits, LEVEL, checksum
    )


def oracle_pages(table):
    arrays = [column.combine_chunks() for column in table.columns]
    types = reference.flatten_types(table.schema.types)
    pages = []
    for column, arrow in zip(reference.flatten_columns(arrays), types, strict=True):
        variable = reference.width(arrow) in (None, 12)
        encoding = reference.choose_encoding(column, 255, 32768, variable)
        pages.append(reference.encode_page(column, encoding))
    return pages


def open_monolithic(data, columns, num_rows, wanted):
    stop = max(bucket.flat_of(columns, wanted), default=-1) + 1
    return bucket.open_monolithic(data, columns, num_rows, stop)


def open_paged(data, columns, num_rows, wanted):
    """Decode a paged bucket using only the slots of the wanted columns."""
    buffer = pa.py_buffer(data)
    front = buffer.slice(0, Directory.size(columns))
    directory = Directory.decode(front, columns, num_rows, len(data))
    slots = {}
    for flat in bucket.flat_of(columns, wanted):
        start, end = directory.offsets[flat : flat + 2]
        if start < end:
            slot = buffer.slice(start, end - start)
            slots[flat] = bucket.decode_slot(slot, columns, flat, directory.rows[flat])
    flats = range(columns.num_flat)
    return bucket.open_slots(list(map(slots.get, flats)), columns, flats, directory.rows)


def decoded(pages, columns, wanted, num_rows):
    batch = Batch(len(wanted))
    numbers = bucket.flat_of(columns, wanted)
    decoder = ColumnDecoder(pages, numbers, columns, wanted)
    decoder.decode(num_rows, batch, range(len(wanted)), Memory())
    types = [columns.node(index).type.arrow for index in wanted]
    return batch.finish(num_rows, pa.schema([("", arrow) for arrow in types])).columns


# Against the oracle


@given(table=tables(min_rows=1, max_rows=100, min_columns=1, max_columns=8), rng=st.randoms())
def test_both_layouts_are_those_of_the_oracle_and_come_back(table, rng):
    table = renamed(table)
    pages, expected = encoded(table), oracle_pages(table)
    count = table.num_columns
    monolithic = bucket.encode_monolithic(pages, count)
    paged = bucket.encode_paged(pages, count)
    assert monolithic == reference.encode_monolithic(expected, count)
    assert paged == reference.encode_paged(expected, count, LEVEL)
    header = bucket.monolithic_header(pages, count)
    assert len(monolithic) == len(header) + pages.sizes()[0]

    columns = columns_of(table.schema)
    for wanted in (list(range(count)), rng.sample(range(count), rng.randrange(count + 1))):
        for data, opened in ((monolithic, open_monolithic), (paged, open_paged)):
            found = opened(data, columns, table.num_rows, wanted)
            arrays = decoded(found, columns, wanted, table.num_rows)
            for i, column in zip(wanted, arrays, strict=True):
                column.validate(full=True)
                assert reference.same_array(column, table[i].combine_chunks())


def test_a_page_may_carry_a_checksum():
    table = pa.table({"x": ["some text"] * 9})
    data = bucket.encode_paged(encoded(table, checksum=True), 1)
    assert len(data) == len(bucket.encode_paged(encoded(table), 1)) + 4
    opened = open_paged(data, columns_of(table.schema), 9, [0])
    assert decoded(opened, columns_of(table.schema), [0], 9)[0].to_pylist() == ["some text"] * 9


def test_a_bucket_of_nulls_is_flags_or_a_directory_only():
    table = pa.table({f"{i:02}": pa.nulls(3, pa.int64()) for i in range(5)})
    pages = encoded(table)
    assert bucket.encode_monolithic(pages, 5) == b"\xff\x03\0"
    assert bucket.encode_paged(pages, 5) == bytes(20)


# Damage

FLAT = columns_of(pa.schema([("a", pa.int8()), ("b", pa.string())]))
NESTED = columns_of(pa.schema([("a", pa.int8()), ("b", pa.list_(pa.int8()))]))


def directory(data, columns, bucket_size=None):
    size = len(data) if bucket_size is None else bucket_size
    return Directory.decode(pa.py_buffer(data), columns, 10, size)


def test_a_directory():
    assert Directory.header([]) == b""
    data = struct.pack("<2I", 5, 0)
    given = directory(data, FLAT, 13)
    assert (given.rows, list(given.offsets)) == ([10, 10], [8, 13, 13])

    assert Directory.header([70_000]) == struct.pack("<HI", 1, 70_000)
    data = struct.pack("<HI3I", 1, 70_000, 1, 2, 3)
    given = directory(data, NESTED, 24)
    assert (given.rows, list(given.offsets)) == ([10, 10, 70_000], [18, 19, 21, 24])
    assert Directory.size(NESTED) == 18


@pytest.mark.parametrize(
    ("data", "columns", "bucket_size", "message"),
    [
        (bytes(8), FLAT, 7, "the paged bucket has 7 bytes, fewer than its directory of 8"),
        (bytes(8), FLAT, 9, "directory and slots of the paged bucket have 8 bytes, not 9"),
        (struct.pack("<2I", 1, 1), FLAT, 9, "of the paged bucket have 10 bytes, not 9"),
        (b"\xff" * 8, FLAT, 8, "of the paged bucket have 8589934598 bytes, not 8"),
        (bytes(7), FLAT, 8, "needed 8 bytes at offset 0, but 7 are left"),
        (bytes(18), NESTED, 18, "declares 0 child columns, but the schema has 1"),
        (b"\2\0" + bytes(16), NESTED, 18, "declares 2 child columns, but the schema has 1"),
        (b"\1\0" + bytes(3), NESTED, 18, "needed 4 bytes at offset 2, but 3 are left"),
        (b"\1", NESTED, 18, "needed 2 bytes at offset 0, but 1 are left"),
    ],
)
def test_a_broken_directory_is_corrupt(data, columns, bucket_size, message):
    with pytest.raises(CorruptFileError, match=message):
        directory(data, columns, bucket_size)


def test_a_directory_has_16_bits_for_its_number_of_children():
    assert Directory.header([1] * 0xFFFF)[:2] == b"\xff\xff"
    with pytest.raises(UnsupportedError, match=r"65536 child columns, .* at most 65535"):
        Directory.header([1] * 0x10000)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "needed 1 bytes at offset 0"),
        (uv(2) + uv(0) + bytes(2), "declares 0 child columns, but the schema has 1"),
        (uv(2) + uv(2) + bytes(2), "declares 2 child columns, but the schema has 1"),
        (uv(2) + uv(2**32 - 1), "declares 4294967295 child columns, but the schema has 1"),
        (uv(2) + uv(1), "needed 1 bytes at offset 2"),
        (uv(2) + uv(1) + uv(0) + b"\x3f", "column 'a': the data ends before its last value"),
        (
            uv(2) + uv(1) + uv(2**32 - 1) + b"\x0f\0" + b"\1\2",
            "column 'b': the data ends before its last value",
        ),
    ],
)
def test_a_broken_monolithic_bucket_is_corrupt(data, message):
    with pytest.raises(CorruptFileError, match=message):
        bucket.open_monolithic(data, NESTED, 2, 3)


def test_the_number_of_columns_in_a_bucket_is_the_schemas():
    for declared in (0, 2, 2**32 - 1):
        data = uv(declared) + uv(1) + uv(0) + b"\x3f\0"
        opened = bucket.open_monolithic(data, NESTED, 2, 3)
        arrays = decoded(opened, NESTED, [0, 1], 2)
        assert [column.to_pylist() for column in arrays] == [[None, None]] * 2


@pytest.mark.parametrize(
    ("slot", "message"),
    [
        (b"\x80", "needed 1 bytes at offset 1"),
        (uv(3), "zstd: "),
        (uv(3) + b"abc", "zstd: "),
        (uv(2) + reference.compress(b"ab", 1)[:-1], "zstd: "),
        (uv(2) + reference.compress(b"ab", 1) + b"\0", "zstd: "),
        (uv(4) + 2 * reference.compress(b"ab", 1), "contains 2 bytes, but 4 are declared"),
        (uv(3) + reference.compress(b"ab", 1), "contains 2 bytes, but 3 are declared"),
        (uv(2**32 - 1) + reference.compress(b"ab", 1), "declares 4294967295 bytes"),
    ],
)
def test_a_broken_slot_is_corrupt(slot, message):
    with pytest.raises(CorruptFileError, match=message):
        bucket.decode_slot(pa.py_buffer(slot), FLAT, 1, 9)


def test_faults_name_their_column():
    with pytest.raises(CorruptFileError, match="column 'b': unknown encoding"):
        bucket.open_slots([None, b"\4\0"], FLAT, range(FLAT.num_flat), [2, 2])
    opened = bucket.open_slots([None, b"\1\0" + sized(b"\xff")], FLAT, range(FLAT.num_flat), [2, 2])
    with pytest.raises(CorruptFileError, match="column 'b': a string is not UTF-8"):
        decoded(opened, FLAT, [0, 1], 2)
    assert decoded(opened, FLAT, [0], 2)[0].null_count == 2


def test_a_column_beyond_arrows_offsets_is_decoded_in_portions():
    opened = bucket.open_slots(
        [None, b"\1\0" + sized(b"x" * (1 << 20))], FLAT, range(FLAT.num_flat), [2048, 2048]
    )
    decoder = ColumnDecoder(opened, [1], FLAT, [1])
    with pytest.raises(OverflowError, match="exceeds 2 GiB in one row group"):
        decoder.decode(2048, Batch(1), [0], Memory())
    assert decoded(opened, FLAT, [1], 1)[0].to_pylist() == ["x" * (1 << 20)]


# Sizes that are declared


def declaring(content, size=None):
    """A slot whose page declares a size, and is compressed very well."""
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(content)
    return uv(len(content) if size is None else size) + frame


def refused(slot, flat, num_rows, message):
    with pytest.raises(CorruptFileError, match=message) as caught:
        bucket.decode_slot(pa.py_buffer(slot), FLAT, flat, num_rows)
    assert caught.value.column == ("a", "b")[flat]


def test_a_page_declares_no_more_than_its_rows_need():
    page = b"\0\0" + bytes(2_000_000)
    assert bucket.decode_slot(pa.py_buffer(declaring(page)), FLAT, 0, 2_000_000) == page
    refused(declaring(page), 0, 100_000, "declares 2000002 bytes, but 100000 rows need")
    # Strings may have any length.
    page = b"\0\0" + sized(b"x" * 2_000_000)
    assert bucket.decode_slot(pa.py_buffer(declaring(page)), FLAT, 1, 1) == page


def test_a_page_that_is_mostly_surplus_is_not_decompressed():
    page = b"\1\0" + sized(b"x")
    refused(declaring(page + bytes(40 << 20)), 1, 5, "far more than its pages have")
    page = b"\0\0" + sized(bytes(40 << 20))
    assert bucket.decode_slot(pa.py_buffer(declaring(page)), FLAT, 1, 1) == page


def test_a_bucket_declares_no_more_than_its_columns_need():
    numbers = columns_of(pa.schema([("a", pa.int8()), ("b", pa.int8())]))
    data = b"\0\0" + bytes(2_000_000)
    frame = pa.py_buffer(reference.compress(data, 1))
    assert bucket.decompress_bucket(frame, len(data), numbers, 1_000_000) == data
    with pytest.raises(CorruptFileError, match="declares 2000002 bytes, but its columns need"):
        bucket.decompress_bucket(frame, len(data), numbers, 1000)


@pytest.mark.parametrize("columns", [FLAT, NESTED], ids=["flat", "nested"])
def test_a_bucket_that_is_mostly_surplus_is_not_decompressed(columns):
    small = b"\x3f\0" if columns is NESTED else b"\x0f\0"
    small = (uv(2) + uv(1) + uv(0) if columns is NESTED else b"") + small
    large = small + bytes(40 << 20)
    frame = pa.py_buffer(reference.compress(large, 1))
    with pytest.raises(CorruptFileError, match="far more than its pages have"):
        bucket.decompress_bucket(frame, len(large), columns, 5)
    frame = pa.py_buffer(reference.compress(small, 1))
    assert bucket.decompress_bucket(frame, len(small), columns, 5) == small
