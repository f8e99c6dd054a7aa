"""Arrow types, their descriptors, their stored types, and single values."""

import re
from contextlib import suppress

import pyarrow as pa
import pytest
import reference
from hypothesis import given, strategies as st
from strategies import ANY_TYPE, array_of, raw_values, scalar_types

from fastmosaic.errors import CorruptFileError, UnsupportedError
from fastmosaic.format.types import (
    MAX_DEPTH,
    UINT64,
    WIDTH,
    ColumnType,
    Kind,
    decode_value,
    needs_annex,
    plain_type,
    stored_type,
)

LIST = b"\x12\1\0"  # of elements without a name, whose descriptor follows
INT8 = b"\1\1"


def column_type(arrow, nullable=True):
    return ColumnType.from_arrow(pa.field("x", arrow, nullable))


def same_names(a, b):
    """Return whether the fields inside two equal types have the same names, which Arrow ignores in maps."""
    if pa.types.is_map(a):
        pairs = [(a.key_field, b.key_field), (a.item_field, b.item_field)]
    else:
        pairs = [(a.value_field, b.value_field)] if pa.types.is_list(a) else []
    return all(one.name == other.name and same_names(one.type, other.type) for one, other in pairs)


# Descriptors

KINDS = [
    (pa.bool_(), Kind.BOOL, 1, "00"),
    (pa.int8(), Kind.INT8, 1, "01"),
    (pa.int16(), Kind.INT16, 2, "02"),
    (pa.int32(), Kind.INT32, 4, "03"),
    (pa.int64(), Kind.INT64, 8, "04"),
    (pa.float32(), Kind.INT32, 4, "05"),
    (pa.float64(), Kind.INT64, 8, "06"),
    (pa.date32(), Kind.INT32, 4, "07"),
    (pa.string(), Kind.STRING, 0, "0a"),
    (pa.binary(), Kind.BINARY, 0, "0d"),
    (pa.decimal128(1, 1), Kind.DECIMAL64, 8, "0e 01 01"),
    (pa.decimal128(18, -2), Kind.DECIMAL64, 8, "0e 12 fe ff ff ff 0f"),
    (pa.decimal128(19, 0), Kind.DECIMAL128, 0, "0e 13 00"),
    (pa.decimal128(38, -128), Kind.DECIMAL128, 0, "0e 26 80 ff ff ff 0f"),
    (pa.time32("ms"), Kind.TIME, 4, "0f 03"),
    (pa.timestamp("ms"), Kind.INT64, 8, "10 03"),
    (pa.timestamp("us"), Kind.INT64, 8, "10 06"),
    (pa.timestamp("ns"), Kind.TIMESTAMP_NS, 12, "10 09"),
    (pa.timestamp("us", "UTC"), Kind.INT64, 8, "11 06 03 55 54 43"),
    (pa.timestamp("ns", "é"), Kind.TIMESTAMP_NS, 12, "11 09 02 c3 a9"),
]


@pytest.mark.parametrize(("arrow", "kind", "width", "descriptor"), KINDS, ids=str)
def test_a_scalar_type(arrow, kind, width, descriptor):
    data = bytes.fromhex(descriptor)
    for nullable in (False, True):
        expected = ColumnType(arrow, nullable, kind, (), data[:1] + bytes([nullable]) + data[1:])
        assert column_type(arrow, nullable) == expected
        assert ColumnType.decode(expected.descriptor) == expected
    assert WIDTH[kind] == width


def test_a_list_type():
    given = column_type(pa.list_(pa.field("item", pa.int32())))
    assert given.descriptor == bytes.fromhex("12 01 04") + b"item" + bytes.fromhex("03 01")
    assert (given.kind, given.children) == (Kind.NESTED, (column_type(pa.int32()),))


def test_a_map_type():
    given = column_type(pa.map_(pa.string(), pa.int32()))
    names = b"\7entries", b"\3key", b"\5value"
    assert given.descriptor == b"\x13\1%b%b\x0a\0%b\3\1" % names
    assert given.children == (column_type(pa.string(), False), column_type(pa.int32()))


@given(ANY_TYPE, st.booleans())
def test_every_type_comes_back(arrow, nullable):
    field = pa.field("", arrow, nullable)
    given = ColumnType.from_arrow(field)
    assert given.descriptor == reference.encode_type(field)
    decoded = ColumnType.decode(given.descriptor)
    assert decoded.arrow == arrow
    assert same_names(decoded.arrow, arrow)
    assert decoded.nullable == nullable


def test_maps_that_are_equal_to_arrow_keep_their_own_names():
    one, other = (
        pa.map_(pa.field(f"k{i}", pa.string(), False), pa.field(f"v{i}", pa.int8()))
        for i in range(2)
    )
    assert one == other
    for arrow in (one, other, pa.list_(one), pa.list_(other)):
        assert column_type(arrow).descriptor == reference.encode_type(pa.field("", arrow))


@pytest.mark.parametrize(
    ("descriptor", "arrow", "kind"),
    [
        ("08 01 05", pa.string(), Kind.STRING),
        ("09 01 ff 01", pa.string(), Kind.STRING),
        ("0b 01 05", pa.binary(), Kind.BINARY),
        ("0c 01 05", pa.binary(), Kind.BINARY),
        ("0e 01 85 02 ff 01", pa.decimal128(5, -1), Kind.DECIMAL64),  # their low eight bits
        ("0f 01 09", pa.time32("ms"), Kind.TIME),
        ("10 01 00", pa.timestamp("ms"), Kind.INT64),
        ("10 01 04", pa.timestamp("us"), Kind.INT64),
        ("10 01 07", pa.timestamp("ns"), Kind.TIMESTAMP_NS),
        ("11 01 03 00", pa.timestamp("ms"), Kind.INT64),
        ("03 ff", pa.int32(), Kind.INT32),
    ],
)
def test_descriptors_that_are_never_written_are_read(descriptor, arrow, kind):
    given = ColumnType.decode(bytes.fromhex(descriptor))
    assert (given.arrow, given.nullable, given.kind) == (arrow, True, kind)


def test_the_key_of_a_map_is_not_null_whatever_the_file_says():
    given = ColumnType.decode(b"\x13\1\0\1k" + INT8 + b"\1v" + INT8)
    assert given.arrow == pa.map_(pa.int8(), pa.int8())
    assert not given.arrow.key_field.nullable


@given(
    ANY_TYPE.map(lambda arrow: reference.encode_type(pa.field("", arrow))),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 255)), max_size=3),
)
def test_a_damaged_descriptor_is_refused_or_is_another_type(descriptor, changes):
    data = bytearray(descriptor)
    for position, byte in changes:
        data[position % len(data)] = byte
    try:
        given = ColumnType.decode(bytes(data))
    except (CorruptFileError, UnsupportedError):
        return
    with suppress(TypeError):  # what pyarrow says to the oracle of nullable map keys
        field, end = reference.decode_type(bytes(data), 0)
        assert given.arrow == field.type
        assert given.nullable == field.nullable
        assert end == len(data)


@given(ANY_TYPE)
def test_every_truncation_of_a_descriptor_is_corrupt(arrow):
    descriptor = reference.encode_type(pa.field("", arrow))
    for size in range(len(descriptor)):
        with pytest.raises(CorruptFileError, match="are left"):
            ColumnType.decode(descriptor[:size])


@pytest.mark.parametrize(
    ("descriptor", "error", "message"),
    [
        (b"\x15\1", UnsupportedError, "unknown type 21 at offset 0"),
        (b"\x14\1\0", UnsupportedError, "type 20 is STRUCT, of a later Mosaic version"),
        (LIST + b"\xff\1", UnsupportedError, "unknown type 255 at offset 3"),
        (b"\3\1\0", CorruptFileError, "1 bytes follow a type descriptor"),
        (b"\x0e\1\0\0", CorruptFileError, "decimal precision 0 is not in 1..38"),
        (b"\x0e\1\x27\0", CorruptFileError, "decimal precision 39 is not in 1..38"),
        (b"\x11\1\3\1\xff", CorruptFileError, "text at offset 3 is not UTF-8"),
        (b"\x12\1\1\xff", CorruptFileError, "text at offset 2 is not UTF-8"),
        (
            b"\x13\1\0\0" + LIST + INT8 + b"\0" + INT8,
            CorruptFileError,
            "the key of the map at offset 0 is a list or map",
        ),
    ],
)
def test_a_broken_descriptor_is_refused(descriptor, error, message):
    with pytest.raises(error, match=message):
        ColumnType.decode(descriptor)


def test_types_nest_only_so_deep():
    deepest = LIST * MAX_DEPTH + INT8
    assert ColumnType.decode(deepest).descriptor == deepest
    for depth in (MAX_DEPTH + 1, 200_000):
        with pytest.raises(UnsupportedError, match="nested more than 64 deep"):
            ColumnType.decode(LIST * depth + INT8)
    arrow = pa.int8()
    for _ in range(MAX_DEPTH):
        arrow = pa.list_(arrow)
    assert column_type(arrow).arrow == arrow
    with pytest.raises(UnsupportedError, match="nested more than 64 deep"):
        column_type(pa.list_(arrow))


def test_a_type_that_the_format_lacks_has_no_descriptor():
    with pytest.raises(UnsupportedError, match=r"no type for timestamp\[s\]"):
        column_type(pa.timestamp("s"))


# Plain types, and the types that are stored in place of others

PLAIN = [
    (pa.uint8(), pa.int16()),
    (pa.uint16(), pa.int32()),
    (pa.uint32(), pa.int64()),
    (pa.null(), pa.string()),
    (pa.large_string(), pa.string()),
    (pa.string_view(), pa.string()),
    (pa.large_binary(), pa.binary()),
    (pa.binary_view(), pa.binary()),
    (pa.binary(5), pa.binary()),
    (pa.date64(), pa.date32()),
    (pa.time32("s"), pa.time32("ms")),
    (pa.timestamp("s"), pa.timestamp("ms")),
    (pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC")),
    (pa.decimal32(5, 2), pa.decimal128(5, 2)),
    (pa.decimal64(18, -2), pa.decimal128(18, -2)),
    (pa.decimal256(38, 38), pa.decimal128(38, 38)),
    (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
    (pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.uint8())), pa.int16()),
    (pa.uuid(), pa.binary()),
    (pa.json_(), pa.string()),
    (pa.bool8(), pa.int8()),
    (pa.large_list(pa.uint8()), pa.list_(pa.int16())),
    (pa.list_(pa.uint8(), 3), pa.list_(pa.int16())),
    (pa.list_view(pa.uint8()), pa.list_(pa.int16())),
    (pa.large_list_view(pa.uint8()), pa.list_(pa.int16())),
    (
        pa.list_(pa.field("x", pa.uint8(), False, metadata={"a": "b"})),
        pa.list_(pa.field("x", pa.int16(), False)),
    ),
    (pa.map_(pa.string(), pa.int8(), keys_sorted=True), pa.map_(pa.string(), pa.int8())),
    (
        pa.map_(pa.large_string(), pa.list_(pa.map_(pa.uint8(), pa.null()))),
        pa.map_(pa.string(), pa.list_(pa.map_(pa.int16(), pa.string()))),
    ),
]


@pytest.mark.parametrize(("arrow", "plain"), PLAIN, ids=str)
def test_a_type_that_another_one_holds(arrow, plain):
    assert plain_type(arrow).equals(plain, check_metadata=True)
    assert same_names(plain_type(arrow), plain)


@given(ANY_TYPE)
def test_a_type_of_the_format_stands_for_itself(arrow):
    assert plain_type(arrow) == arrow
    assert stored_type(arrow) == arrow
    assert same_names(plain_type(arrow), arrow)


STORED = [
    (pa.duration("s"), pa.int64()),
    (pa.time64("us"), pa.int64()),
    (pa.time64("ns"), pa.int64()),
    (pa.uint64(), pa.decimal128(20, 0)),
    (pa.month_day_nano_interval(), pa.binary()),
    (pa.decimal256(76, 3), pa.binary()),
    (pa.decimal128(5, 6), pa.binary()),
    (pa.list_(pa.map_(pa.string(), pa.uint64())), pa.list_(pa.map_(pa.string(), UINT64))),
    (pa.map_(pa.duration("ns"), pa.bool_()), pa.map_(pa.int64(), pa.bool_())),
]


@pytest.mark.parametrize(("plain", "stored"), STORED, ids=str)
def test_a_plain_type_that_is_stored_as_another_one(plain, stored):
    assert plain_type(plain) == plain
    assert stored_type(plain) == stored


def test_fields_of_structs_are_plain():
    inner = pa.struct([pa.field("x", pa.uint8(), False, metadata={"a": "b"})])
    arrow = pa.struct([("kind", pa.dictionary(pa.int8(), pa.string())), ("in", pa.list_(inner))])
    plain = pa.struct([pa.field("x", pa.int16(), False)])
    assert plain_type(arrow).equals(
        pa.struct([("kind", pa.string()), ("in", pa.list_(plain))]), check_metadata=True
    )


NEED_ANNEX = [
    (pa.uint64(), "uint64; cast it to int64, or to decimal128(20, 0) for larger values"),
    (pa.float16(), "halffloat; cast it to float32"),
    (pa.time64("us"), "time64[us]; cast it to time32('ms') if milliseconds are sufficient"),
    (pa.duration("s"), "duration[s]; cast it to int64"),
    (pa.month_day_nano_interval(), "month_day_nano_interval; cast it to int64, or make each part"),
    (pa.struct([("a", pa.int8())]), "struct<a: int8>; make each field a separate column"),
    (
        pa.run_end_encoded(pa.int32(), pa.int8()),
        "run_end_encoded<run_ends: int32, values: int8>; decode it first",
    ),
    (pa.decimal256(39, 0), "decimal256(39, 0); decimals can have at most 38 digits"),
    (pa.decimal128(5, 6), "decimal128(5, 6); decimals can have at most 38 digits, and a scale"),
    (pa.list_(pa.map_(pa.int8(), pa.uint64())), "uint64; cast it to int64"),
    (pa.dictionary(pa.int8(), pa.uint64()), "uint64; cast it to int64"),
    (
        pa.map_(pa.large_list(pa.int8()), pa.int8()),
        "map<large_list<item: int8>, int8>; the keys of a map must not be lists or maps",
    ),
]


@pytest.mark.parametrize(("arrow", "message"), NEED_ANNEX, ids=str)
def test_a_type_that_only_the_annex_can_restore(arrow, message):
    assert needs_annex(arrow).startswith(message)


@pytest.mark.parametrize("arrow", [one for one, _ in PLAIN], ids=str)
def test_a_type_that_is_stored_without_an_annex(arrow):
    assert needs_annex(arrow) is None


@pytest.mark.parametrize("union", [pa.sparse_union, pa.dense_union])
@pytest.mark.parametrize(
    "around",
    [lambda arrow: arrow, pa.list_, lambda arrow: pa.struct([("a", arrow)])],
    ids=["alone", "list", "struct"],
)
def test_unions_are_refused_with_advice(union, around):
    arrow = union([pa.field("a", pa.int8())])
    with pytest.raises(UnsupportedError, match=re.escape(f"no type for {arrow}; make each member")):
        plain_type(around(arrow))


# Values


@pytest.mark.parametrize(
    ("arrow", "raw", "encoded"),
    [
        (pa.bool_(), True, "01"),
        (pa.int16(), -2, "fffe"),
        (pa.float64(), 0x7FF0000000000001, "7ff0000000000001"),  # a signalling NaN
        (pa.float32(), 0x7F800001, "7f800001"),
        (pa.date32(), -1, "ffffffff"),
        (pa.time32("ms"), 86_399_999, "05265bff"),
        (pa.timestamp("us"), 1, "0000000000000001"),
        (pa.timestamp("ns"), -1, "ffffffffffffffff000f423f"),
        (pa.timestamp("ns"), -(2**63), "fffff79c842fa50900036bc0"),
        (pa.timestamp("ns"), 2**63 - 1, "000008637bd05af6000bd67f"),
        (pa.decimal128(18, 2), -129, "ffffffffffffff7f"),
        (pa.decimal128(20, 0), 0, "0100"),
        (pa.decimal128(20, 0), 128, "020080"),
        (pa.decimal128(20, 0), -128, "0180"),
        (pa.decimal128(20, 0), 2**64 - 1, "0900ffffffffffffffff"),
        (pa.string(), "é", "02c3a9"),
    ],
)
def test_a_value(arrow, raw, encoded):
    given = column_type(arrow)
    content = bytes.fromhex(encoded)[WIDTH[given.kind] == 0 :]  # without the length
    decoded = decode_value(given, content)
    assert reference.same_array(pa.array([decoded], arrow), array_of(arrow, [raw]))


with_bounds = scalar_types().filter(lambda arrow: column_type(arrow).has_bounds)


@given(with_bounds.flatmap(lambda t: raw_values(t).map(lambda raw: array_of(t, [raw]))))
def test_every_value_comes_back(array):
    given = column_type(array.type)
    encoded = reference.serialize(array)[0]
    content = (
        reference.read_sized(reference.BytesIO(encoded)) if WIDTH[given.kind] == 0 else encoded
    )
    decoded = decode_value(given, content)
    assert reference.same_array(pa.array([decoded], array.type), array)


@pytest.mark.parametrize(
    ("arrow", "data", "message"),
    [
        (pa.string(), "c3", "a string in the statistics is not UTF-8"),
        (
            pa.timestamp("ns"),
            "0000000000000000000f4240",
            "1000000 nanoseconds within a millisecond",
        ),
        (pa.timestamp("ns"), "0000000000000000ffffffff", "-1 nanoseconds within a millisecond"),
        (pa.timestamp("ns"), "000008637bd05af6000bd680", "exceeds 64 bits of nanoseconds"),
        (pa.timestamp("ns"), "fffff79c842fa50900036bbf", "exceeds 64 bits of nanoseconds"),
    ],
)
def test_a_value_that_breaks_its_type_is_corrupt(arrow, data, message):
    with pytest.raises(CorruptFileError, match=message):
        decode_value(column_type(arrow), bytes.fromhex(data))


def test_which_types_have_no_statistics():
    nested = [pa.list_(pa.int8()), pa.map_(pa.int8(), pa.int8())]
    types = [arrow for arrow, *_ in KINDS] + nested
    without = [arrow for arrow in types if not column_type(arrow).has_statistics]
    assert without == [pa.binary(), pa.decimal128(19, 0), pa.decimal128(38, -128), *nested]
