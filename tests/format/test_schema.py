"""The schema block: round trips, comparison with the reference, and damage."""

import json
import pickle
import struct
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
import reference
import zstandard
from hypothesis import given, strategies as st
from strategies import ANY_TYPE, names as any_names

from fastmosaic.errors import CorruptFileError, UnsupportedError
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.format.types import Kind

GOLDEN = Path(__file__).parents[1] / "golden"
FIXTURES = json.loads((GOLDEN / "manifest.json").read_text())["fixtures"]

schemas = st.builds(
    lambda names, types: pa.schema(
        [pa.field(name, *arguments) for name, arguments in zip(names, types, strict=False)]
    ),
    st.lists(any_names(), unique=True, max_size=12),
    st.lists(st.tuples(ANY_TYPE, st.booleans()), min_size=12, max_size=12),
)

# Names front coded with half a character, byte pairs, types with every kind of parameter.
BODIES = {
    "front": pa.schema(
        [
            pa.field("é", pa.string()),
            pa.field("è", pa.decimal128(30, -2)),
            pa.field("a", pa.timestamp("ns", "UTC"), nullable=False),
            pa.field("b", pa.list_(pa.field("item", pa.map_(pa.int8(), pa.list_(pa.bool_()))))),
        ]
    ),
    "pairs": pa.schema([pa.field(f"{letter}pressure", pa.int8()) for letter in "eacbd"]),
}


def examine(block):
    """Request everything that is decoded lazily."""
    schema = block.to_arrow()
    assert block.names() == schema.names
    assert sorted(block.order) == list(range(block.num_columns))
    for j, position in enumerate(block.order):
        column_type = block.column_type(position)
        assert block.find(schema.names[j]) == position
        assert block.name(position) == schema.names[j]
        assert block.field(position) == schema.field(j)
        assert column_type.kind == block.kinds[position]
    return schema


def body_of(*columns, order=b"", num_columns=None, start=b"\1\0"):
    """Return a schema block with columns given as (shared, suffix, descriptor)."""
    return (
        reference.uv(len(columns) if num_columns is None else num_columns)
        + start
        + b"".join(reference.uv(shared) + reference.sized(s) + d for shared, s, d in columns)
        + order
    )


# There and back


@given(schemas, st.integers(0, 20))
def test_a_schema_comes_back(schema, num_buckets):
    block = SchemaBlock.from_arrow(schema, num_buckets)
    assert block.encode() == reference.encode_schema(schema, num_buckets)
    for same in (block, SchemaBlock.decode(block.encode()), pickle.loads(pickle.dumps(block))):
        assert examine(same).equals(schema)
        assert same.num_columns == len(schema)
        assert same.num_buckets == max(1, min(num_buckets, len(schema)))


def test_the_example_of_the_specification():
    body = bytes.fromhex(
        "050101067265807381738275838070840002618501010002628501010002638501010002648501010002658501"
        "010807040104"
    )
    block = SchemaBlock.from_arrow(BODIES["pairs"], 1)
    assert block.encode() == body
    assert block.order.tolist() == [4, 0, 2, 1, 3]
    assert examine(SchemaBlock.decode(body)).equals(BODIES["pairs"])


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])
def test_golden_schema(fixture):
    data = (GOLDEN / fixture["file"]).read_bytes()
    index_offset, offset, num_buckets, _, compression = struct.unpack(">QQIIB", data[-32:-7])
    body = data[offset + 4 : index_offset]
    if compression:
        body = zstandard.ZstdDecompressor().decompress(body)
    block = SchemaBlock.decode(body)
    with pa.ipc.open_file(GOLDEN / fixture["expected"]) as file:
        expected = file.schema
    assert block.num_buckets == num_buckets
    assert examine(block).equals(expected)
    assert SchemaBlock.from_arrow(block.to_arrow(), num_buckets).encode() == body
    # An IPC file forgets what the keys and values of a map are called.
    if fixture["name"] != "nested_required_names":
        assert SchemaBlock.from_arrow(expected, num_buckets).encode() == body


@given(st.integers(0, 300), st.integers(1, 400))
def test_buckets_divide_the_columns(num_columns, num_buckets):
    block = SchemaBlock.decode(body_of(start=reference.uv(num_buckets) + b"\0"))
    block.num_columns = num_columns
    columns = [list(block.bucket_columns(bucket)) for bucket in range(num_buckets)]
    assert columns == reference.bucket_columns(num_columns, num_buckets)
    for bucket, positions in enumerate(columns):
        assert {block.bucket_of(position) for position in positions} <= {bucket}


def test_names_in_a_text():
    block = SchemaBlock.from_arrow(pa.schema({"b": pa.int8(), "ab": pa.int8(), "c": pa.int8()}), 1)
    assert block.occurring("(ab > 3)") == [0, 1]


@pytest.mark.parametrize(
    ("descriptor", "arrow", "kind"),
    [
        (b"\x08\1\x0a", pa.string(), Kind.STRING),
        (b"\x09\2\x0a", pa.string(), Kind.STRING),
        (b"\x0b\1\x0a", pa.binary(), Kind.BINARY),
        (b"\x0c\1\x0a", pa.binary(), Kind.BINARY),
        (b"\x0f\1\x09", pa.time32("ms"), Kind.TIME),
        (b"\x10\1\x05", pa.timestamp("us"), Kind.INT64),
        (b"\x10\1\x07", pa.timestamp("ns"), Kind.TIMESTAMP_NS),
        (b"\x0e\1\x12\xff\xff\xff\xff\x0f", pa.decimal128(18, -1), Kind.DECIMAL64),
        (b"\x0e\1\x93\x02\xff\x01", pa.decimal128(19, -1), Kind.DECIMAL128),
    ],
)
def test_types_that_only_others_write(descriptor, arrow, kind):
    block = SchemaBlock.decode(body_of((0, b"a", descriptor)))
    assert examine(block) == pa.schema([pa.field("a", arrow)])
    assert block.kinds == bytes([kind])


def test_a_body_without_an_order_is_in_sorted_order():
    block = SchemaBlock.decode(body_of((0, b"a", b"\1\1"), (0, b"b", b"\2\1")))
    assert block.order.tolist() == [0, 1]


def test_bytes_after_the_order_are_ignored():
    block = SchemaBlock.decode(body_of((0, b"a", b"\1\1"), order=b"\0 and more"))
    assert examine(block) == pa.schema({"a": pa.int8()})


def test_the_same_columns_in_another_order():
    schema = BODIES["front"]
    block = SchemaBlock.from_arrow(schema, 2)
    assert block.has_columns_of(block)
    assert block.has_columns_of(SchemaBlock.from_arrow(pa.schema(list(schema)[::-1]), 2))
    others = [
        SchemaBlock.from_arrow(schema, 1),
        SchemaBlock.from_arrow(pa.schema(list(schema)[1:]), 2),
        SchemaBlock.from_arrow(schema.set(0, schema.field(0).with_nullable(False)), 2),
        SchemaBlock.from_arrow(schema.set(0, schema.field(0).with_type(pa.binary())), 2),
    ]
    assert not any(block.has_columns_of(other) for other in others)


def test_names_need_not_be_sorted():
    body = body_of((0, b"b", b"\1\1"), (0, b"a", b"\2\1"), order=b"\2\1")
    assert examine(SchemaBlock.decode(body)) == pa.schema({"a": pa.int16(), "b": pa.int8()})


# What is refused


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", ""], "empty name"),
        (["a", "é", "b", "é"], "duplicate column name 'é'"),
        (["a\0b"], r"'a\\x00b' contains a NUL character"),
    ],
)
def test_names_that_cannot_be_written(names, message):
    with pytest.raises(ValueError, match=message):
        SchemaBlock.from_arrow(pa.schema([pa.field(name, pa.int8()) for name in names]), 1)


def test_names_that_are_too_long_together(monkeypatch):
    monkeypatch.setattr("fastmosaic.format.schema.MAX_NAMES_BYTES", 10)
    block = SchemaBlock.from_arrow(pa.schema({"abcd": pa.int8(), "efghij": pa.int8()}), 1)
    assert block.names() == ["abcd", "efghij"]
    with pytest.raises(ValueError, match="take more than 10 bytes"):
        SchemaBlock.from_arrow(pa.schema({"abcd": pa.int8(), "efghijk": pa.int8()}), 1)


def test_a_type_that_the_format_does_not_have_is_told_with_its_column():
    with pytest.raises(UnsupportedError, match="no type for") as caught:
        SchemaBlock.from_arrow(pa.schema({"a": pa.int8(), "u": pa.uint64()}), 1)
    assert caught.value.column == "u"


DEEPEST = b"\x12\1\1e" * 64 + b"\1\1"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "needed 1 bytes"),
        (b"\0\0\0", "has no buckets"),
        (body_of(num_columns=2**32 - 1), "4294967295 columns do not fit in the 0 bytes"),
        (body_of((0, b"a", b"\1\1"), num_columns=2), "2 columns do not fit in the 5 bytes"),
        (b"\xff\xff\xff\xff\x1f\1\0", "exceeds 32 bits"),
        (body_of(start=b"\1\1\x81\1" + bytes(300)), "129 byte-pair rules"),
        (body_of(start=b"\1\1\xff\xff\xff\xff\x0f"), "4294967295 byte-pair rules"),
        (body_of(start=b"\1\1\2abc"), "needed 4 bytes"),
        (body_of((0, b"a", b"\1\1"), start=b"\1\1\1\x80\x80"), "cyclic or forward rule"),
        (body_of((0, b"\xff", b"\1\1")), "not UTF-8"),
        (body_of((0, b"", b"\1\1")), "an empty name"),
        (body_of((0, b"b", b"\1\1"), (0, b"a", b"\1\1"), (0, b"b", b"\1\1")), "are named 'b'"),
        (body_of((0, b"a", b"\1\1"), (1, b"", b"\1\1")), "are named 'a'"),
        (body_of((0, b"a", b"\x11\1\3\1\xff")), "text that is not UTF-8"),
        (body_of((0, b"a", b"\x12\1\1\xff\1\1")), "text that is not UTF-8"),
        (body_of((0, b"a", b"\x12\1\x05item")), "5 bytes that run past the end"),
        (body_of((0, b"a", b"\x12\1\x01e\1")), "2 bytes that run past the end"),
        (body_of((0, b"a", b"\x0e\1\x27\0")), "a decimal of 39 digits"),
        (body_of((0, b"a", b"\x0e\1\0\0")), "a decimal of 0 digits"),
        (body_of((0, b"a", b"\x10\1\xff\xff\xff\xff\x10")), "exceeds 32 bits"),
        (body_of((0, b"a", b"\x10\1\xff\xff\xff\xff\xff\1")), "exceeds 32 bits"),
        (body_of((0, b"a", b"\x10\1\xff")), "a varint that is cut off"),
        (body_of((0, b"a", b"\x13\1\0\0\x12\1\0\1\1\0\1\1")), "key is a list or map at offset 10"),
        (body_of((0, b"a", b"\1\1"), order=b"\2"), "not a permutation at offset 8"),
        (body_of((0, b"a", b"\1\1"), order=b"\1"), "not a permutation"),
        (body_of((0, b"a", b"\1\1"), (0, b"b", b"\1\1"), order=b"\0\0"), "not a permutation"),
        (body_of((0, b"a", b"\1\1"), (0, b"b", b"\1\1"), order=b"\0"), "cut off"),
        (body_of((0, b"a", b"\1\1"), order=b"\xff" * 9 + b"\1"), "not a permutation"),
        (body_of((0, b"a", b"\1\1"), order=b"\x80" * 9 + b"\2"), "exceeds 64 bits"),
        (body_of((0, b"a", b"\1\1"), order=b"\x80" * 10), "exceeds 64 bits"),
    ],
)
def test_corrupt(body, message):
    with pytest.raises(CorruptFileError, match=message):
        SchemaBlock.decode(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (body_of(start=b"\1\2"), "unknown encoding of column names: 2"),
        (body_of((0, b"a", b"\x15\1")), "unknown type 21 at offset 6"),
        (body_of((0, b"a", b"\x14\1\0")), "type 20 is STRUCT, of a later Mosaic version"),
        (body_of((0, b"a", b"\x12\1\1e\x14\1")), "type 20 is STRUCT, .* at offset 10"),
        (body_of((0, b"a", b"\x12\1\1e\xff\1")), "unknown type 255 at offset 10"),
        (body_of((0, b"a", b"\x12\1\1e" + DEEPEST)), "nested more than 64 deep"),
        (body_of((0, b"a", b"\x12\1\0" * 200_000 + b"\1\1")), "nested more than 64 deep"),
        (body_of((0, b"a", b"\x13\1\0\0\1\1\0" * 200_000)), "nested more than 64 deep"),
    ],
)
def test_newer_or_wider_than_we_are(body, message):
    with pytest.raises(UnsupportedError, match=message):
        SchemaBlock.decode(body)


def test_the_deepest_type():
    examine(SchemaBlock.decode(body_of((0, b"a", DEEPEST))))


# Damage


def examine_damaged(body):
    with suppress(CorruptFileError, UnsupportedError):
        examine(SchemaBlock.decode(body))


@pytest.mark.parametrize("schema", BODIES.values(), ids=BODIES)
def test_every_truncation(schema):
    body = SchemaBlock.from_arrow(schema, 2).encode()
    for size in range(len(body)):
        examine_damaged(body[:size])


@pytest.mark.parametrize("schema", BODIES.values(), ids=BODIES)
def test_every_changed_byte(schema):
    body = SchemaBlock.from_arrow(schema, 2).encode()
    for at in range(len(body)):
        for byte in range(256):
            examine_damaged(body[:at] + bytes([byte]) + body[at + 1 :])


@given(schemas, st.data())
def test_several_changes(schema, data):
    body = bytearray(SchemaBlock.from_arrow(schema, 5).encode())
    positions = st.integers(0, len(body) - 1)
    for at, byte in data.draw(st.lists(st.tuples(positions, st.integers(0, 255)), max_size=4)):
        body[at] = byte
    examine_damaged(bytes(body))


@given(st.binary())
def test_any_bytes(body):
    examine_damaged(body)
