"""Damaged, forged and hostile files: an error that says what is wrong, and nothing worse."""

import io
import json
import os
import re
import struct
import subprocess
import sys
from functools import cache
from itertools import cycle
from pathlib import Path

import pyarrow as pa
import pytest
import reference
import zstandard
from files import written
from hypothesis import given, strategies as st
from reference import uv
from small_files import FILES, SCALARS, TYPED
from strategies import types
from user_types import column_cells, dictionary_cells

import fastmosaic as fm

REFUSED = (fm.CorruptFileError, fm.UnsupportedError)

TYPED_TABLE = pa.Table.from_batches([TYPED])

every_layout = pytest.mark.parametrize("data", FILES.values(), ids=FILES)


MASKS = [1, 2, 4, 8, 16, 32, 64, 128, 255]


def changed(data: bytes, position: int, mask: int) -> bytes:
    """`data` with the bits of `mask` flipped in one byte."""
    damaged = bytearray(data)
    damaged[position] ^= mask
    return bytes(damaged)


def read_or_refuse(data: bytes) -> pa.Table | None:
    """What is read from a damaged file; None if it is refused, in whole or in part."""
    try:
        table = fm.read_table(data, use_threads=False)
        table.validate()
        # Arrow's full check knows ranges that the format does not have: damage in a value can
        # make a decimal of too many digits or a time after midnight.
        ranged = [f.name for f in table.schema if re.search("decimal|time32", str(f.type))]
        table.drop_columns(ranged).validate(full=True)
        for i in range(fm.read_metadata(data).num_row_groups):
            fm.read_metadata(data).row_group(i).to_dict()
        for name in table.column_names[:: max(1, table.num_columns // 3)]:
            assert fm.read_table(data, columns=[name], use_threads=False).num_columns == 1
    except REFUSED:
        return None
    return table


@every_layout
def test_the_undamaged_file_is_read(data):
    _, batches = reference.decode_file(data)
    assert fm.read_table(data).equals(pa.Table.from_batches(batches))


@every_layout
def test_every_truncation_is_refused(data):
    for length in range(len(data)):
        with pytest.raises(fm.CorruptFileError, match="not a Mosaic file"):
            fm.read_table(data[:length])


@every_layout
def test_every_missing_beginning_is_refused_or_read(data):
    for start in range(1, len(data)):
        read_or_refuse(data[start:])


ALL_MASKS = [pytest.param([mask], marks=pytest.mark.exhaustive, id=f"{mask:02x}") for mask in MASKS]


@pytest.mark.parametrize("masks", [pytest.param(MASKS, id="one of all"), *ALL_MASKS])
@every_layout
def test_every_changed_byte_is_refused_or_read(data, masks):
    for position, mask in zip(range(len(data)), cycle(masks), strict=False):
        read_or_refuse(changed(data, position, mask))


@every_layout
def test_every_missing_byte_is_refused_or_read(data):
    for position in range(len(data)):
        read_or_refuse(data[:position] + data[position + 1 :])


@every_layout
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_what_is_read_of_a_damaged_file_is_what_the_oracle_reads(data, step):
    for position in range(0, len(data), step):
        assert_as_the_oracle(changed(data, position, 0x02))


def assert_as_the_oracle(data: bytes) -> None:
    """We may refuse more than the oracle, but what we read is what it reads."""
    table = read_or_refuse(data)
    if table is not None:
        try:
            schema, batches = reference.decode_file(data)
        except TypeError:
            # The flag of a map key says nullable, which Arrow has not: we take it for not null.
            return
        assert reference.same_schema(table.schema, schema)
        read = table.to_batches() if table.num_rows else []
        written = [batch for batch in batches if batch.num_rows]
        assert len(read) == len(written)
        assert all(map(reference.same_batch, read, written))


@pytest.mark.parametrize("page_size_threshold", [1, 32768])
def test_with_checksums_a_changed_byte_never_gives_other_values(page_size_threshold):
    table = pa.Table.from_batches([SCALARS])
    sink = pa.BufferOutputStream()
    fm.write_table(table, sink, num_buckets=2, page_size_threshold=page_size_threshold)
    data = sink.getvalue().to_pybytes()
    (schema_offset,) = struct.unpack(">Q", data[-24:-16])
    for position in range(schema_offset):
        assert read_or_refuse(changed(data, position, 0x10)) in (None, table)


TYPED_FILES = {
    "types": written(TYPED_TABLE, num_buckets=2, compression="none", checksum=False),
    "types_paged": written(TYPED_TABLE, page_size_threshold=1, write_statistics=["info", "took"]),
}
every_typed_file = pytest.mark.parametrize("data", TYPED_FILES.values(), ids=TYPED_FILES)


def restored(data: bytes) -> list | None:
    """The rows of a file with restored types, and its dictionaries; None if it is refused."""
    try:
        table = fm.read_table(data, use_threads=False)
    except REFUSED:
        return None
    table.validate(full=True)
    cells = [column_cells(column) for column in table.columns]
    return [table.schema, cells, dictionary_cells(table)]


@every_typed_file
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_a_changed_byte_of_restored_types_is_refused_or_read(data, step):
    whole = restored(data)
    start = sum(fm.read_metadata(data).dictionaries)
    for position, mask in zip(range(0, len(data), step), cycle(MASKS), strict=False):
        found = restored(changed(data, position, mask))
        # What lies behind buckets and dictionaries has checksums, also without compression.
        in_buckets = position < start
        has_checksums = data is TYPED_FILES["types_paged"]
        assert found is None or found == whole or (in_buckets and not has_checksums)


@every_typed_file
def test_every_truncation_of_restored_types_is_refused(data):
    for length in range(0, len(data), 5):
        assert restored(data[:length]) is None


@every_typed_file
def test_a_missing_byte_of_restored_types_is_refused_or_read(data):
    whole = restored(data)
    for position in range(0, len(data), 5):
        assert restored(data[:position] + data[position + 1 :]) in (None, whole)


# Files made by hand ------------------------------------------------------------------------


def schema_body(*columns: tuple[str, str], order: str | None = None, num_buckets: int = 1) -> bytes:
    """A schema block of columns `(name, hex of the type descriptor)`, in sorted order."""
    body = uv(len(columns)) + uv(num_buckets) + b"\0"
    for name, descriptor in columns:
        body += b"\0" + uv(len(name.encode())) + name.encode() + bytes.fromhex(descriptor)
    deltas = "00" + "02" * (len(columns) - 1) if order is None else order
    return body + bytes.fromhex(deltas)


def index_entry(
    rows: int, buckets: list[tuple[int, int, int, int]], statistics: bytes = b"\0"
) -> bytes:
    """A row group of `rows` with buckets `(id, offset, size, size before compression)`."""
    entry = uv(rows) + uv(len(buckets))
    for number, offset, size, raw_size in buckets:
        entry += uv(number) + struct.pack(">Q", offset) + uv(size) + uv(raw_size)
    return entry + statistics


def forge(
    bucket: bytes = bytes.fromhex("0000 00000007 00000008"),
    body: bytes = schema_body(("a", "0301")),
    *,
    rows: int = 2,
    raw_size: int | None = None,
    statistics: bytes = b"\0",
    index: bytes | None = None,
    num_buckets: int = 1,
    num_row_groups: int = 1,
    compression: int = 0,
    version: int = 1,
) -> bytes:
    """A file of one column `a`, of two rows 7 and 8, unless something else is asked for."""
    if index is None:
        size = len(bucket) if raw_size is None else raw_size
        index = index_entry(rows, [(0, 0, len(bucket), size)], statistics)
    packed = zstandard.compress(body) if compression == 1 else body
    schema = struct.pack(">I", len(body)) + packed
    footer = reference.FOOTER.pack(
        len(bucket) + len(schema),
        len(bucket),
        num_buckets,
        num_row_groups,
        compression,
        version,
        0,
        b"MOSA",
    )
    return bucket + schema + index + footer


def page(hex_content: str) -> bytes:
    content = bytes.fromhex(hex_content)
    return uv(len(content)) + zstandard.compress(content)


def paged(*slots: bytes, header: bytes = b"", sizes: list[int] | None = None) -> bytes:
    lengths = [len(slot) for slot in slots] if sizes is None else sizes
    return header + struct.pack(f"<{len(lengths)}I", *lengths) + b"".join(slots)


HUGE = 2**32 - 1

INT = "0301"
REQUIRED_INT = "0300"
TEXT = "0a01"
BIG_DECIMAL = "0e011400"
NANOS = "100109"
INTS = "1201046974656d0301"
REQUIRED_INTS = "1201046974656d0300"
MAP = "130107656e7472696573036b6579030005 76616c75650301"


def a(descriptor: str) -> bytes:
    return schema_body(("a", descriptor))


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


# What is read, of files that the other implementation accepts though it would not write them.
ACCEPTED = {
    "integers": (forge(), pa.array([7, 8], pa.int32())),
    "char": (forge(raw("0000 0178 027979"), a("08010a")), pa.array(["x", "yy"])),
    "varchar": (forge(raw("0000 0178 027979"), a("09010a")), pa.array(["x", "yy"])),
    "binary": (
        forge(raw("0000 0178 027979"), a("0b010a")),
        pa.array([b"x", b"yy"], pa.binary()),
    ),
    "varbinary": (
        forge(raw("0000 0178 02ff79"), a("0c010a")),
        pa.array([b"x", b"\xffy"], pa.binary()),
    ),
    "timestamp of 7 digits": (
        forge(raw("0000 0000000000000001 00000064 ffffffffffffffff 000f423f"), a("100107")),
        pa.array([1_000_100, -1], pa.timestamp("ns")),
    ),
    "timestamp of 0 digits": (
        forge(raw("0000 0000000000000001 ffffffffffffffff"), a("100100")),
        pa.array([1, -1], pa.timestamp("ms")),
    ),
    "timestamp of 4 digits": (
        forge(raw("0000 0000000000000001 ffffffffffffffff"), a("100104")),
        pa.array([1, -1], pa.timestamp("us")),
    ),
    "time of 0 digits": (
        forge(raw("0000 00000001 00000002"), a("0f0100")),
        pa.array([1, 2], pa.time32("ms")),
    ),
    "a dictionary of one entry": (
        forge(raw("02 00 01 00000009")),
        pa.array([9, 9], pa.int32()),
    ),
    "all null": (forge(raw("03 00")), pa.array([None, None], pa.int32())),
    "spare bits in a bitmap": (
        forge(raw("00 01 fd 00000007")),
        pa.array([None, 7], pa.int32()),
    ),
    "a bitmap without nulls": (
        forge(raw("00 01 00 00000007 00000008")),
        pa.array([7, 8], pa.int32()),
    ),
    "a bitmap of only nulls": (forge(raw("00 01 03")), pa.array([None, None], pa.int32())),
    "an array": (
        forge(raw("01 01 03 00 00 00000002 00000001 00000001 00000002 00000003"), a(INTS)),
        pa.array([[1, 2], [3]], pa.list_(pa.int32())),
    ),
    "true as any byte": (forge(raw("0000 00ff"), a("0001")), pa.array([False, True])),
    "a nullable flag of any byte": (forge(body=a("03ff")), pa.array([7, 8], pa.int32())),
    "a decimal of no bytes, and one that is not minimal": (
        forge(raw("0000 00 03ffffff"), a(BIG_DECIMAL)),
        pa.array([0, -1], pa.decimal128(20, 0)),
    ),
    "bytes after the data": (
        forge(raw("0000 00000007 00000008 abcdef")),
        pa.array([7, 8], pa.int32()),
    ),
    "varints that are not minimal": (
        forge(index=raw("8200 8100 8000 0000000000000000 8a00 8a00 8000")),
        pa.array([7, 8], pa.int32()),
    ),
    "more buckets than columns": (
        forge(body=schema_body(("a", INT), num_buckets=5), num_buckets=5),
        pa.array([7, 8], pa.int32()),
    ),
    "no original order": (
        forge(body=schema_body(("a", INT), order="")),
        pa.array([7, 8], pa.int32()),
    ),
    "bytes after the original order": (
        forge(body=schema_body(("a", INT), order="00abcd")),
        pa.array([7, 8], pa.int32()),
    ),
    "a page with flags of the future": (
        forge(paged(page("00fe 00000007 00000008")), raw_size=0, compression=1),
        pa.array([7, 8], pa.int32()),
    ),
    "a frame with a checksum": (
        forge(
            zstandard.ZstdCompressor(write_checksum=True).compress(raw("0000 00000007 00000008")),
            raw_size=10,
            compression=1,
        ),
        pa.array([7, 8], pa.int32()),
    ),
    "a frame that does not say its size": (
        forge(
            zstandard.ZstdCompressor(write_content_size=False).compress(
                raw("0000 00000007 00000008")
            ),
            raw_size=10,
            compression=1,
        ),
        pa.array([7, 8], pa.int32()),
    ),
}


@given(types(2), st.binary(max_size=40), st.integers(1, 20))
def test_any_bytes_of_a_bucket_are_refused_or_read(type, bucket, rows):
    descriptor = reference.encode_type(pa.field("a", type)).hex()
    assert_as_the_oracle(forge(bucket, a(descriptor), rows=rows))


@given(types(2), st.binary(min_size=1, max_size=40), st.integers(1, 20))
def test_any_bytes_of_a_page_are_refused_or_read(type, content, rows):
    num_children = len(reference.flatten_type(type)) - 1
    header = struct.pack("<H", num_children) + bytes(4 * num_children) if num_children else b""
    bucket = paged(page(content.hex()), *[b""] * num_children, header=header)
    descriptor = reference.encode_type(pa.field("a", type)).hex()
    assert_as_the_oracle(forge(bucket, a(descriptor), rows=rows, raw_size=0, compression=1))


@given(st.binary(max_size=40))
def test_any_bytes_of_a_schema_are_refused_or_read(body):
    read_or_refuse(forge(b"", body, index=b"", num_row_groups=0))


@given(st.binary(max_size=40), st.integers(0, 3))
def test_any_bytes_of_an_index_are_refused_or_read(index, num_row_groups):
    read_or_refuse(forge(index=index, num_row_groups=num_row_groups))


@pytest.mark.parametrize(("data", "values"), ACCEPTED.values(), ids=ACCEPTED)
def test_an_unusual_file_is_read(data, values):
    assert fm.read_table(data).equals(pa.table({"a": values}))
    assert fm.read_table(data, columns=["a"]).equals(pa.table({"a": values}))


def test_names_may_be_unsorted():
    data = forge(
        raw("0000 00000007 00000008 00000001 00000002"),
        schema_body(("b", INT), ("a", INT)),
    )
    expected = {"b": pa.array([7, 8], pa.int32()), "a": pa.array([1, 2], pa.int32())}
    assert fm.read_table(data).equals(pa.table(expected))


@pytest.mark.parametrize("rows", [0, 3])
def test_a_file_without_columns_has_rows(rows):
    index = index_entry(rows, []) if rows else b""
    data = forge(b"", raw("000100"), index=index, num_row_groups=len(index) // 3)
    table = fm.read_table(data)
    assert (table.num_columns, table.num_rows) == (0, rows)


def test_a_zone_without_a_name_is_no_zone():
    data = forge(raw("0000 0000000000000001 0000000000000002"), a("11010300"))
    assert fm.read_schema(data).field("a").type == pa.timestamp("ms")


TWO_INTS = ("a", INT), ("b", INT)
FOUR_BYTES = "00000007"

DAMAGED = {
    "nothing": b"",
    "31 bytes": forge()[-31:],
    "only a footer": reference.FOOTER.pack(0, 0, 1, 0, 0, 1, 0, b"MOSA"),
    "another magic": forge()[:-1] + b"B",
    "the next version": forge(version=2),
    "an unknown compression": forge(compression=7),
    "the index before the schema": reference.FOOTER.pack(0, 3, 1, 0, 0, 1, 0, b"MOSA"),
    "the index after the file": forge()[:-32]
    + reference.FOOTER.pack(1 << 63, 10, 1, 1, 0, 1, 0, b"MOSA"),
    "the schema after the file": forge()[:-32]
    + reference.FOOTER.pack(1 << 63, (1 << 64) - 1, 1, 1, 0, 1, 0, b"MOSA"),
    # the schema
    "an empty schema": forge(body=b""),
    "no buckets": forge(body=raw("0100 00 0001610301 00")),
    "no name encoding": forge(body=raw("0101")),
    "rules cut off": forge(body=raw("0101 01 05 6161")),
    "a shared prefix longer than the name before": forge(body=raw("0101 00 0101610301 00")),
    "a name past the end": forge(body=raw("0101 00 000961")),
    "a name that is not UTF-8": forge(body=raw("0101 00 0001ff0301 00")),
    "a name that is half a character": forge(body=raw("0101 00 0001c30301 00")),
    "an empty name": forge(body=raw("0101 00 00000301 00")),
    "a name twice": forge(raw("0000" + FOUR_BYTES * 4), schema_body(("a", INT), ("a", INT))),
    "a token without a rule": forge(body=raw("0101 01 01 6161 0001 90 0301 00")),
    "a rule that refers to itself": forge(body=raw("0101 01 01 8061 0001 80 0301 00")),
    "two rules that refer to each other": forge(body=raw("0101 01 02 8161 8061 0001 80 0301 00")),
    "an unknown type": forge(body=a("1501")),
    "the last type": forge(body=a("ff01")),
    "a type cut off": forge(body=raw("0101 00 000161 03")),
    "a zone cut off": forge(body=raw("0101 00 000161 110103 7f55")),
    "a zone that is not UTF-8": forge(body=a("110103 01ff")),
    "an element name cut off": forge(body=raw("0101 00 000161 1201 7f61")),
    "an element name that is not UTF-8": forge(body=a("1201 01ff 0301")),
    "a map without a value type": forge(body=raw("0101 00 000161 1301 00 00 0300 00")),
    "a decimal of no digits": forge(raw("0300"), a("0e010000")),
    "a decimal of 39 digits": forge(raw("0300"), a("0e012700")),
    "an order out of range": forge(body=schema_body(("a", INT), order="02")),
    "a negative order": forge(body=schema_body(("a", INT), order="01")),
    "an order with a column twice": forge(
        raw("0000" + FOUR_BYTES * 4), schema_body(*TWO_INTS, order="0000")
    ),
    "half an order": forge(raw("0000" + FOUR_BYTES * 4), schema_body(*TWO_INTS, order="00")),
    "a varint of six bytes": forge(body=raw("818080808000 01 00 0001610301 00")),
    "a number of buckets unlike the footer's": forge(num_buckets=2),
    "more in the frame than declared": forge(zstandard.compress(bytes(20)), compression=1).replace(
        struct.pack(">I", 9), struct.pack(">I", 3)
    ),
    # the index
    "more buckets in a row group than there are": forge(
        index=index_entry(2, [(0, 0, 5, 5), (0, 0, 5, 5)])
    ),
    "a bucket out of range": forge(index=index_entry(2, [(1, 0, 10, 10)])),
    "a bucket twice": forge(
        raw("0000" + FOUR_BYTES * 4),
        schema_body(*TWO_INTS, num_buckets=2),
        num_buckets=2,
        index=index_entry(2, [(0, 0, 10, 10), (0, 0, 10, 10)]),
    ),
    "a bucket of no bytes that decompresses to some": forge(index=index_entry(2, [(0, 0, 0, 10)])),
    "a bucket that is left out": forge(index=index_entry(2, [])),
    "a bucket of no bytes": forge(index=index_entry(2, [(0, 0, 0, 0)])),
    "one bucket of two left out": forge(
        body=schema_body(*TWO_INTS, num_buckets=2),
        num_buckets=2,
        index=index_entry(2, [(0, 0, 10, 10)]),
    ),
    "a bucket past the data": forge(index=index_entry(2, [(0, 1, 10, 10)])),
    "a bucket at the end of the address space": forge(
        index=index_entry(2, [(0, (1 << 64) - 1, 10, 10)])
    ),
    "an offset cut off": forge(index=raw("02 01 00 00000000")),
    "bytes after the index": forge(index=index_entry(2, [(0, 0, 10, 10)]) + b"\0"),
    "one row group too few": forge(num_row_groups=2),
    "one row group too many": forge(num_row_groups=0),
    "statistics of a column out of range": forge(statistics=raw("01 01 02")),
    "more nulls than rows": forge(statistics=raw("01 00 03")),
    "statistics cut off": forge(statistics=raw("01 00 00 00000007 0000")),
    "statistics of text cut off": forge(
        raw("0000 0161 0162"), a(TEXT), statistics=raw("01 00 00 0161 0962")
    ),
    # a monolithic bucket
    "half a value": forge(raw("0000 00000007 0000")),
    "no flags": forge(b"\0"),
    "no bitmap": forge(raw("0001")),
    "half a constant": forge(raw("0100 0000")),
    "half a dictionary": forge(raw("0200 02 00000007 0000")),
    "no indices": forge(raw("0200 02 00000007 00000008")),
    "an index without an entry": forge(raw("0200 03 00000007 00000008 00000009 0f")),
    "a dictionary without entries": forge(raw("0200 00")),
    "text past the end": forge(raw("0000 0161 0562"), a(TEXT)),
    "text longer than memory": forge(raw("0000 0161 ffffffff0f62"), a(TEXT)),
    "text that is not UTF-8": forge(raw("0000 0161 01ff"), a(TEXT)),
    "half a character, and its other half in the next row": forge(raw("0000 01c3 01a9"), a(TEXT)),
    "constant text that is not UTF-8": forge(raw("0100 01ff"), a(TEXT)),
    "an entry that is not UTF-8": forge(raw("0200 02 0161 01ff 02"), a(TEXT)),
    "a surrogate": forge(raw("0000 0161 03eda080"), a(TEXT)),
    "a decimal of 17 bytes": forge(raw("0000 0101 11" + "00" * 17), a(BIG_DECIMAL)),
    "a constant decimal of 17 bytes": forge(raw("0100 11" + "00" * 17), a(BIG_DECIMAL)),
    "a million nanoseconds in a millisecond": forge(
        raw("0000 0000000000000001 000f4240 0000000000000001 00000000"), a(NANOS)
    ),
    "negative nanoseconds": forge(
        raw("0000 0000000000000001 ffffffff 0000000000000001 00000000"), a(NANOS)
    ),
    "a time beyond 64 bits of nanoseconds": forge(
        raw("0000 7fffffffffffffff 00000000 0000000000000001 00000000"), a(NANOS)
    ),
    "a null in a column without nulls": forge(raw("0001 01 00000007"), a(REQUIRED_INT)),
    "only nulls in a column without nulls": forge(raw("0300"), a(REQUIRED_INT)),
    "a null in a list without nulls": forge(raw("01 01 02 0d 00 00000001"), a(REQUIRED_INTS)),
    "a null key": forge(raw("01 02 02 02 30 02 01 00000001 00000001 00000005"), a(MAP)),
    "a negative length": forge(raw("01 01 01 00 00 ffffffff 00000002 00000001"), a(INTS)),
    "lengths that sum up by overflow": forge(
        raw("01 01 02 00 00 7fffffff 7fffffff 00000001 00000002"), a(INTS)
    ),
    "more elements than there are": forge(
        raw("01 01 02 00 00 00000002 00000001 00000001 00000002"), a(INTS)
    ),
    "no child header": forge(b"", a(INTS), rows=2, index=index_entry(2, [(0, 0, 0, 10)])),
    # compression
    "a frame of another size": forge(
        zstandard.compress(raw("0000 00000007 00000008")), raw_size=11, compression=1
    ),
    "a frame of a smaller size": forge(
        zstandard.compress(raw("0000 00000007 00000008")), raw_size=9, compression=1
    ),
    "no frame": forge(raw("0000 00000007 00000008"), compression=1),
    "half a frame": forge(
        zstandard.compress(raw("0000 00000007 00000008"))[:-3], raw_size=10, compression=1
    ),
    "bytes after a frame": forge(
        zstandard.compress(raw("0000 00000007 00000008")) + b"more", raw_size=10, compression=1
    ),
    # a paged bucket
    "pages without compression": forge(paged(page("0000 00000007 00000008")), raw_size=0),
    "a bucket smaller than its directory": forge(b"\0\0", raw_size=0, compression=1),
    "pages larger than the bucket": forge(
        paged(page("0000 00000007 00000008"), sizes=[100]), raw_size=0, compression=1
    ),
    "pages smaller than the bucket": forge(
        paged(page("0000 00000007 00000008"), sizes=[3]), raw_size=0, compression=1
    ),
    "a page without flags": forge(paged(page("00")), raw_size=0, compression=1),
    "half a page": forge(paged(page("0000 00000007")), raw_size=0, compression=1),
    "a page of an unknown encoding": forge(paged(page("0900 00000007")), raw_size=0, compression=1),
    "a constant page cut off": forge(paged(page("0100 0000")), raw_size=0, compression=1),
    "a page with an index without an entry": forge(
        paged(page("0200 03 00000007 00000008 00000009 0f")), raw_size=0, compression=1
    ),
    "a page of another size": forge(
        paged(uv(11) + page("0000 00000007 00000008")[1:]), raw_size=0, compression=1
    ),
    "a page that says it has no bytes": forge(
        paged(uv(0) + page("0000 00000007 00000008")[1:]), raw_size=0, compression=1
    ),
    "bytes after the frame of a page": forge(
        paged(page("0000 00000007 00000008") + b"more"), raw_size=0, compression=1
    ),
    "a slot without a frame": forge(paged(uv(10)), raw_size=0, compression=1),
    "a page that is not UTF-8": forge(
        paged(page("0000 0161 01ff")), a(TEXT), raw_size=0, compression=1
    ),
    "half a child header": forge(b"\1", a(INTS), raw_size=0, compression=1),
    "too few children": forge(
        paged(page("0000 00000001 00000001"), page("0000 0000000100000002"), header=raw("0000")),
        a(INTS),
        raw_size=0,
        compression=1,
    ),
    "more elements than the page of them has": forge(
        paged(
            page("0000 00000002 00000001"),
            page("0000 0000000100000002"),
            header=raw("010002000000"),
        ),
        a(INTS),
        raw_size=0,
        compression=1,
    ),
}


# What the errors say, and of which files: the place, if there is one, and the fact.
IN_SCHEMA = "schema block, offset .*"
IN_INDEX = "row group index, offset .*"
IN_BUCKET = "row group 0, bucket 0, offset 0: .*"
IN_COLUMN = "row group 0, bucket 0, column 'a', offset 0: .*"
REASONS = {
    "not a Mosaic file": ["nothing", "31 bytes", "another magic"],
    r"footer .*schema block .*row group index .*a file of (32|69) bytes": [
        "only a footer",
        "the index before the schema",
        "the index after the file",
        "the schema after the file",
    ],
    "version 2": ["the next version"],
    "compression 7": ["an unknown compression"],
    IN_SCHEMA + " bytes": [
        "an empty schema",
        "no name encoding",
        "rules cut off",
        "a shared prefix longer than the name before",
        "a name past the end",
        "a type cut off",
        "a zone cut off",
        "an element name cut off",
        "a map without a value type",
    ],
    IN_SCHEMA + "buckets": ["no buckets", "a number of buckets unlike the footer's"],
    IN_SCHEMA + "name .*UTF-8": ["a name that is not UTF-8", "a name that is half a character"],
    IN_SCHEMA + "UTF-8": ["a zone that is not UTF-8", "an element name that is not UTF-8"],
    IN_SCHEMA + "empty name": ["an empty name"],
    IN_SCHEMA + "'a'": ["a name twice"],
    IN_SCHEMA + "token": ["a token without a rule"],
    IN_SCHEMA + "rule.* 0x80": [
        "a rule that refers to itself",
        "two rules that refer to each other",
    ],
    IN_SCHEMA + "unknown type 21": ["an unknown type"],
    IN_SCHEMA + "unknown type 255": ["the last type"],
    IN_SCHEMA + "decimal.* 0 ": ["a decimal of no digits"],
    IN_SCHEMA + "decimal.* 39 ": ["a decimal of 39 digits"],
    IN_SCHEMA + "column order .*permutation": [
        "an order out of range",
        "a negative order",
        "an order with a column twice",
    ],
    IN_SCHEMA + "varint": ["half an order", "a varint of six bytes"],
    IN_SCHEMA + "9 bytes, but 3 are declared": ["more in the frame than declared"],
    IN_INDEX + "more buckets": ["more buckets in a row group than there are"],
    IN_INDEX + "bucket .*out of range": ["a bucket out of range"],
    "row group index, row group 0, offset .*bucket .*twice": ["a bucket twice"],
    IN_INDEX + "bucket .*0 bytes": [
        "a bucket of no bytes that decompresses to some",
        "a bucket of no bytes",
        "no child header",
    ],
    "row group 0, bucket 0: .*missing": ["a bucket that is left out"],
    "row group 0, bucket 1: .*missing": ["one bucket of two left out"],
    IN_INDEX + "bucket .*outside the data": [
        "a bucket past the data",
        "a bucket at the end of the address space",
    ],
    IN_INDEX + "ends": ["an offset cut off", "one row group too few"],
    IN_INDEX + "bytes follow": ["bytes after the index", "one row group too many"],
    IN_INDEX + "statistics .*column": ["statistics of a column out of range"],
    IN_INDEX + "statistics .*more nulls than rows": ["more nulls than rows"],
    IN_INDEX + "statistics .*cut off": ["statistics cut off", "statistics of text cut off"],
    IN_COLUMN + "ends before": [
        "half a value",
        "no flags",
        "no bitmap",
        "half a constant",
        "half a dictionary",
        "no indices",
        "text past the end",
        "text longer than memory",
        "half a page",
        "a constant page cut off",
    ],
    IN_COLUMN + "dictionary index": [
        "an index without an entry",
        "a dictionary without entries",
        "a page with an index without an entry",
    ],
    IN_COLUMN + "UTF-8": [
        "text that is not UTF-8",
        "half a character, and its other half in the next row",
        "constant text that is not UTF-8",
        "an entry that is not UTF-8",
        "a surrogate",
        "a page that is not UTF-8",
    ],
    IN_COLUMN + "decimal .*16 bytes": ["a decimal of 17 bytes", "a constant decimal of 17 bytes"],
    IN_COLUMN + "nanoseconds .*999999": [
        "a million nanoseconds in a millisecond",
        "negative nanoseconds",
    ],
    IN_COLUMN + "64 bits": ["a time beyond 64 bits of nanoseconds"],
    IN_COLUMN + "unknown encoding": ["a page of an unknown encoding"],
    "row group 0, column 'a': .*1 null": ["a null in a column without nulls"],
    "row group 0, column 'a': .*2 null": ["only nulls in a column without nulls"],
    IN_COLUMN + "null elements": ["a null in a list without nulls"],
    IN_COLUMN + "1 keys of a map are null": ["a null key"],
    IN_COLUMN + "negative length": ["a negative length"],
    IN_COLUMN + "more elements than are stored": [
        "lengths that sum up by overflow",
        "more elements than there are",
        "more elements than the page of them has",
    ],
    IN_BUCKET + "10 bytes.* 11": ["a frame of another size", "a page of another size"],
    IN_BUCKET + "10 bytes.* 9": ["a frame of a smaller size"],
    IN_BUCKET + "zstd": [
        "no frame",
        "half a frame",
        "bytes after a frame",
        "bytes after the frame of a page",
        "a slot without a frame",
    ],
    "row group 0, bucket 0: .*paged.*not compressed": ["pages without compression"],
    IN_BUCKET + "fewer than its directory": [
        "a bucket smaller than its directory",
        "half a child header",
    ],
    IN_BUCKET + "104 bytes, not 24": ["pages larger than the bucket"],
    IN_BUCKET + "7 bytes, not 24": ["pages smaller than the bucket"],
    IN_COLUMN + "the data ends before": ["a page without flags"],
    IN_BUCKET + "a zstd frame contains 10 bytes, but 0": ["a page that says it has no bytes"],
    IN_BUCKET + "0 child": ["too few children"],
}
REASON_OF = {name: reason for reason, names in REASONS.items() for name in names}
UNSUPPORTED = {"the next version", "an unknown compression", "an unknown type", "the last type"}

every_damage = pytest.mark.parametrize("name", DAMAGED)


def test_every_damage_has_a_reason():
    assert REASON_OF.keys() == DAMAGED.keys()


@every_damage
def test_a_damaged_file_is_refused(name):
    error = fm.UnsupportedError if name in UNSUPPORTED else fm.CorruptFileError
    with pytest.raises(error, match=REASON_OF[name]):
        fm.read_table(DAMAGED[name])


@every_damage
def test_a_damaged_file_is_refused_when_one_column_is_asked_for(name):
    if name == "one bucket of two left out":  # the other one, which is not read
        assert fm.read_table(DAMAGED[name], columns=["a"])["a"].to_pylist() == [7, 8]
    else:
        with pytest.raises(REFUSED, match=REASON_OF[name]):
            fm.read_table(DAMAGED[name], columns=["a"])


def test_the_next_version_is_unsupported_and_not_corrupt():
    with pytest.raises(fm.UnsupportedError, match=r"version 2 at .* is newer than this library"):
        fm.read_schema(forge(version=2))


@pytest.mark.parametrize("name", ["another magic", "text that is not UTF-8", "half a frame"])
def test_the_error_names_the_file(tmp_path, name):
    path = tmp_path / "damaged.mosaic"
    path.write_bytes(DAMAGED[name])
    with pytest.raises(fm.CorruptFileError, match=r"damaged\.mosaic: ") as caught:
        fm.read_table(path)
    assert caught.value.file == str(path)


def test_an_error_in_a_bucket_names_the_row_group_the_bucket_and_the_column():
    with pytest.raises(fm.CorruptFileError, match="UTF-8") as caught:
        fm.read_table(DAMAGED["text that is not UTF-8"])
    error = caught.value
    assert (error.row_group, error.bucket, error.column, error.offset) == (0, 0, "a", 0)


def test_statistics_that_are_not_utf8_are_refused():
    data = forge(raw("0000 0161 0162"), a(TEXT), statistics=raw("01 00 00 01ff 0162"))
    with pytest.raises(fm.CorruptFileError, match=r"statistics .*UTF-8"):
        fm.read_metadata(data).row_group(0).to_dict()


# Files that ask for more than there is -----------------------------------------------------


def name_bomb() -> bytes:
    """128 rules, each twice the one before: a name of 2**128 bytes."""
    rules = b"aa" + b"".join(bytes([0x80 + i, 0x80 + i]) for i in range(127))
    return forge(body=raw("0101 01 8001") + rules + raw("0001ff") + raw("0301 00"))


def prefix_bomb() -> bytes:
    """2,000 names that share four million bytes: 8 GB of names in a file of 4 MB."""
    count, length = 2000, 4_000_000
    body = uv(count) + raw("01 00")
    body += b"\0" + uv(length) + b"n" * length + raw(INT)
    for i in range(1, count):
        suffix = b"%04d" % i
        body += uv(length) + uv(len(suffix)) + suffix + raw(INT)
    body += b"\0" + b"\2" * (count - 1)
    return forge(b"", body, index=b"", num_row_groups=0)


def deep(descriptor: str, depth: int) -> bytes:
    return forge(b"", a(descriptor * depth + INT), index=b"", num_row_groups=0)


@cache
def zstd_bomb() -> bytes:
    """A frame of some 50 KB that holds 600 MB of zeros."""
    return zstandard.ZstdCompressor(level=1).compress(bytes(600 << 20))


# Each is refused, in the address space of a small process.
HOSTILE = {
    "rows of a plain column": lambda: forge(rows=HUGE),
    "rows of a dictionary": lambda: forge(raw("0200 02 00000007 00000008 02"), rows=HUGE),
    "rows with a bitmap": lambda: forge(raw("0001 02 00000007"), rows=HUGE),
    "rows of a constant": lambda: forge(raw("0100 00000007"), rows=HUGE),
    "rows of a constant text": lambda: forge(raw("0100 0161"), a(TEXT), rows=HUGE),
    "rows of a dictionary of one entry": lambda: forge(raw("0200 01 00000007"), rows=HUGE),
    "rows of nothing but null": lambda: forge(raw("0300"), rows=HUGE),
    "row groups": lambda: forge(num_row_groups=HUGE),
    "columns": lambda: forge(body=uv(HUGE) + raw("01 00 0001610301 00")),
    "columns in an empty schema": lambda: forge(body=uv(HUGE) + raw("01 00")),
    "buckets of a row group": lambda: forge(index=uv(2) + uv(HUGE) + bytes(11)),
    "statistics": lambda: forge(statistics=uv(HUGE)),
    "statistics of all nulls": lambda: forge(statistics=uv(HUGE) + raw("00 02") * 50),
    "entries of a dictionary": lambda: forge(raw("0200") + uv(HUGE) + raw("00000007 00000008")),
    "entries of a dictionary of text": lambda: forge(raw("0200") + uv(HUGE) + b"\1a", a(TEXT)),
    "a length of text": lambda: forge(raw("0000 0161") + uv(HUGE) + b"b", a(TEXT)),
    "elements": lambda: forge(raw("01 01") + uv(HUGE) + raw("0000 0000000100000001"), a(INTS)),
    "elements of nothing but null": lambda: forge(
        raw("01 01") + uv(HUGE) + raw("0c 00 7fffffff 7fffffff"), a(INTS)
    ),
    "children": lambda: forge(raw("01") + uv(HUGE) + raw("02 0000 0000000100000001"), a(INTS)),
    "bytes before compression": lambda: forge(
        zstandard.compress(raw("0000 00000007 00000008")), raw_size=HUGE, compression=1
    ),
    "bytes in a frame": lambda: forge(zstd_bomb(), raw_size=600 << 20, compression=1),
    "bytes in a frame that says nothing of them": lambda: forge(
        zstd_bomb(), raw_size=10, compression=1
    ),
    "bytes in a page": lambda: forge(
        paged(uv(HUGE) + page("0000 00000007 00000008")[1:]), raw_size=0, compression=1
    ),
    "bytes in a page that says it has none": lambda: forge(
        paged(uv(0) + zstd_bomb()), raw_size=0, compression=1
    ),
    "bytes in a frame of a page": lambda: forge(
        paged(uv(10) + raw("28b52ffd e0 ffffffffffffff00 010000")), raw_size=0, compression=1
    ),
    "a page of no bytes": lambda: forge(paged(page("")), raw_size=0, compression=1),
    "bytes in the schema": lambda: forge(compression=1).replace(
        struct.pack(">I", 9), struct.pack(">I", HUGE)
    ),
    "a size of a page": lambda: forge(
        paged(page("0000 00000007 00000008"), sizes=[HUGE]), raw_size=0, compression=1
    ),
    "rows of a page": lambda: forge(
        paged(page("0000 00000007 00000008")), rows=HUGE, raw_size=0, compression=1
    ),
    "rows of a constant page": lambda: forge(
        paged(page("0100 00000007")), rows=HUGE, raw_size=0, compression=1
    ),
    "rows of a page of nulls": lambda: forge(paged(b""), rows=HUGE, raw_size=0, compression=1),
    "rows of a constant in many row groups": lambda: forge(
        raw("0100 00000007"),
        index=index_entry(100_000_000, [(0, 0, 6, 6)]) * 200,
        num_row_groups=200,
    ),
    "letters by rules": name_bomb,
    "letters by prefixes": prefix_bomb,
    "a list nested 100 deep": lambda: deep("120100", 100),
    "a list nested 200,000 deep": lambda: deep("120100", 200_000),
    "a map nested 200,000 deep": lambda: deep("1301 00 00 0300 00", 200_000),
}

# These are odd, but not wrong.
HARMLESS = {
    "elements of a page": lambda: forge(
        paged(page("0000 00000001 00000001"), b"", header=raw("0100 ffffffff")),
        a(INTS),
        raw_size=0,
        compression=1,
    ),
    "buckets": lambda: forge(body=schema_body(("a", INT), num_buckets=HUGE), num_buckets=HUGE),
    "rows without columns": lambda: forge(b"", raw("000100"), index=index_entry(HUGE, [])),
    "rows without columns in many row groups": lambda: forge(
        b"", raw("000100"), index=index_entry(HUGE, []) * 100, num_row_groups=100
    ),
}

READER = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import fastmosaic as fm
for path in sys.stdin:
    outcomes = []
    for columns in (None, ["a"]):
        try:
            fm.read_table(path.rstrip(), columns=columns)
        except fm.MosaicError as error:
            assert len(str(error)) < 1000
            outcomes.append(type(error).__name__)
        else:
            outcomes.append("read")
    print(json.dumps(outcomes), flush=True)
"""


class SmallProcess:
    """A process with little memory that reads files; it may die of one, and is started again."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> list[str]:
        """How the whole file and its column `a` were read: "read", or the name of the error."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", READER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(Path(fm.__file__).parents[1])},
                text=True,
            )
        self.process.stdin.write(f"{path}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.close()
            pytest.fail("the reading process died; its error is on stderr")
        return json.loads(answer)

    def close(self) -> None:
        if self.process is not None:
            with self.process:
                self.process.stdin.close()
            self.process = None


@pytest.fixture(scope="module")
def small_process():
    process = SmallProcess()
    yield process
    process.close()


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_asks_for_too_much_is_refused(tmp_path, small_process, make):
    path = tmp_path / "hostile.mosaic"
    path.write_bytes(make())
    refusals = {"CorruptFileError", "MemoryLimitError", "UnsupportedError"}
    assert set(small_process.read(path)) <= refusals


@pytest.mark.parametrize("make", HARMLESS.values(), ids=HARMLESS)
def test_a_file_of_large_numbers_is_read(tmp_path, small_process, make):
    path = tmp_path / "odd.mosaic"
    path.write_bytes(make())
    whole, column = small_process.read(path)
    assert whole == "read"
    assert column == ("read" if fm.read_schema(path).names else "ColumnNotFoundError")


# A bad disk is not a bad file ---------------------------------------------------------------


class FailingSource:
    """Bytes of which the reads fail from the `fail_at`-th on."""

    name = "failing"
    is_local = False

    def __init__(self, data: bytes, fail_at: int) -> None:
        self.size = len(data)
        self._data = data
        self._reads_left = fail_at

    def read_at(self, offset: int, length: int) -> pa.Buffer:
        self._reads_left -= 1
        if self._reads_left < 0:
            raise TimeoutError(110, "the network is gone")
        return pa.py_buffer(self._data[offset : offset + length])

    def close(self) -> None:
        pass


def large_file() -> bytes:
    """A file whose data are not in the tail that is read with the metadata."""
    sink = pa.BufferOutputStream()
    fm.write_table(pa.table({"a": range(200_000)}), sink, compression="none")
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("fail_at", [0, 1])
def test_a_failing_read_is_the_error_of_the_system(fail_at):
    with pytest.raises(TimeoutError, match="the network is gone"):
        fm.read_table(FailingSource(large_file(), fail_at))


def test_a_failing_file_object_is_the_error_of_the_system():
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

        readinto = read

    with pytest.raises(OSError, match="Input/output error"):
        fm.read_table(Failing(FILES["paged"]))


SHRINKING = """
import os, sys
import fastmosaic as fm
with fm.MosaicFile(sys.argv[1]) as file:
    os.truncate(sys.argv[1], 1000)
    try:
        file.read()
    except (OSError, fm.CorruptFileError):
        sys.exit(0)
sys.exit("it was read")
"""


def test_a_file_that_shrinks_while_it_is_read_is_an_error(tmp_path):
    # In a process of its own: one that maps the file would die of a bus error.
    path = tmp_path / "shrinking.mosaic"
    path.write_bytes(large_file())
    subprocess.run([sys.executable, "-c", SHRINKING, path], check=True)
