"""The oracle against what release 0.2.0 wrote, and against the examples of the specification."""

import hashlib
import json
from decimal import Decimal
from pathlib import Path

import annex_reference
import pyarrow as pa
import pytest
import reference
import zstandard

GOLDEN = Path(__file__).parents[1] / "golden"
FIXTURES = json.loads((GOLDEN / "manifest.json").read_text())["fixtures"]
every_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])


# --- Golden files ----------------------------------------------------------------------------


def golden_content(fixture):
    """The row groups, one batch each."""
    with pa.ipc.open_file(GOLDEN / fixture["expected"]) as file:
        return file.schema, [file.get_batch(i) for i in range(file.num_record_batches)]


def written_batches(groups, sizes, schema):
    """The batches that were given to the writer, from the row groups that they became."""
    rest = list(groups)
    for size in sizes:
        if size == 0:
            yield pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)
            continue
        yield rest[0].slice(0, size)
        rest[0] = rest[0].slice(size)
        if rest[0].num_rows == 0:
            del rest[0]
    assert not rest


def test_every_golden_file_is_there():
    assert len(FIXTURES) == 70
    assert {path.name for path in GOLDEN.glob("*.mosaic")} == {f["file"] for f in FIXTURES}


@every_fixture
def test_golden_file_decodes_to_its_content(fixture):
    schema, groups = golden_content(fixture)
    got_schema, got = reference.decode_file((GOLDEN / fixture["file"]).read_bytes())
    assert reference.same_schema(got_schema, schema)
    assert len(got) == len(groups)
    for batch, expected in zip(got, groups, strict=True):
        batch.validate(full=True)
        assert reference.same_batch(batch, expected)


@every_fixture
def test_content_encodes_to_the_golden_file(fixture):
    data = (GOLDEN / fixture["file"]).read_bytes()
    assert hashlib.sha256(data).hexdigest() == fixture["sha256"]
    # Not the schema of the IPC file: that one has lost the names of map keys and values.
    schema, _batches = reference.decode_file(data)
    _schema, groups = golden_content(fixture)
    batches = written_batches(groups, fixture["input_batch_rows"], schema)
    got = reference.encode_file(batches, schema, **fixture["writer_options"])
    assert reference.decode_blocks(got) == reference.decode_blocks(data)
    # Another libzstd may make other frames of the same blocks.
    if data[-8] == reference.NONE or zstandard.ZSTD_VERSION == (1, 5, 7):
        assert got == data


# --- Worked examples, §18 --------------------------------------------------------------------

SCALARS_SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("id", pa.int32(), nullable=False),
        pa.field("ok", pa.bool_()),
        pa.field("amt", pa.decimal128(20, 2)),
        pa.field("at", pa.timestamp("ns", "UTC")),
    ]
)
SCALARS = pa.record_batch(
    [
        pa.array(["ann", None, ""]),
        pa.array([1, 2, -3], pa.int32()),
        pa.array([True, False, None]),
        pa.array([Decimal("1.28"), Decimal("-1.28"), Decimal("-1.29")], pa.decimal128(20, 2)),
        pa.array([-1, None, 1500000], pa.timestamp("ns", "UTC")),
    ],
    schema=SCALARS_SCHEMA,
)
SCALARS_FILE = """
    00001a020204020080018002ff7fffffffffffffffff000f423f00000000000000010007a120000000010000
    0002fffffffd03616e6e0001000000002f0501000003616d740e011402010174110109035554430002696403
    0000046e616d650a0100026f6b000106010407020301000000000000000000393900000000000000006c0000
    0000000000390000000100000001000100004d4f5341
"""

ENCODINGS = pa.record_batch(
    {
        "color": pa.array(["red", "green", "blue"] * 4),
        "const_n": pa.array([7, None] * 6, pa.int16()),
        "d": pa.array([1000000, 1000001, None] * 4, pa.int32()),
        "nul": pa.nulls(12, pa.int64()),
        "p": pa.array(range(12), pa.int8()),
    }
)
ENCODINGS_FILE = """
    e600060007030372656405677265656e04626c756502000f4240000f4241aa0a2409244992aa000102030405
    060708090a0b0000002b0501000005636f6c6f720a0102056e73745f6e0201000164030100036e756c040100
    0170010100020202020c01000000000000000000323200000000000000006100000000000000320000000100
    000001000100004d4f5341
"""
ENCODINGS_PAGED_FILE = """
    1f000000100000001800000000000000180000001528b52ffd2015a900000200030372656405677265656e04
    626c75652449920628b52ffd200631000001010007aa0a0e28b52ffd200e710000020102000f4240000f4241
    2409aa0e28b52ffd200e7100000000000102030405060708090a0b0000002b28b52ffd202b59010005010000
    05636f6c6f720a0102056e73745f6e0201000164030100036e756c0401000170010100020202020c01000000
    00000000000073000000000000000000ab00000000000000730000000100000001010100004d4f5341
"""

BPE_NAMES = ["epressure", "apressure", "cpressure", "bpressure", "dpressure"]
BPE_FILE = """
    0000003305010106726580738173827583807084000261850101000262850101000263850101000264850101
    0002658501010807040104000000000000003700000000000000000000000100000000000100004d4f5341
"""


@pytest.mark.parametrize(
    ("batch", "options", "file"),
    [
        pytest.param(SCALARS, {"compression": 0}, SCALARS_FILE, id="18.1"),
        pytest.param(ENCODINGS, {"compression": 0}, ENCODINGS_FILE, id="18.2"),
        pytest.param(ENCODINGS, {"page_size_threshold": 1}, ENCODINGS_PAGED_FILE, id="18.4"),
    ],
)
def test_worked_example(batch, options, file):
    data = reference.encode_file([batch], batch.schema, num_buckets=1, **options)
    assert data == bytes.fromhex(file)
    schema, (got,) = reference.decode_file(data)
    assert schema == batch.schema
    assert reference.same_batch(got, batch)


def test_worked_example_18_8():
    schema = pa.schema([(name, pa.int8()) for name in BPE_NAMES])
    data = reference.encode_file([], schema, compression=0, num_buckets=1)
    assert data == bytes.fromhex(BPE_FILE)
    assert reference.decode_file(data) == (schema, [])


def test_bpe_rules_of_18_8():
    names = sorted(name.encode() for name in BPE_NAMES)
    rules = reference.train_bpe(names)
    texts = [reference.expand_bpe(bytes([token]), rules) for token in range(0x80, 0x86)]
    assert texts == [b"re", b"res", b"ress", b"ressu", b"ressure", b"pressure"]
    encoded = [reference.apply_bpe(name, rules) for name in names]
    assert [reference.expand_bpe(name, rules) for name in encoded] == names
    assert (reference.front_size(names), reference.front_size(encoded)) == (55, 20)


@pytest.mark.parametrize(
    ("arrow", "descriptor", "bucket", "rows"),
    [
        (pa.int32(), "03 01", "00 00 00000007 00000008", [7, 8]),
        (pa.string(), "08 01 0a", "00 00 01 78 02 79 79", ["x", "yy"]),
        (pa.int32(), "03 01", "02 00 01 00000009", [9, 9]),
        (pa.int32(), "03 01", "03 00", [None, None]),
        (pa.int32(), "03 01", "00 01 fd 00000007", [None, 7]),
        (
            pa.list_(pa.int32()),
            "12 01 04 69 74 65 6d 03 01",
            "01 01 03 00 00 00000002 00000001 00000001 00000002 00000003",
            [[1, 2], [3]],
        ),
    ],
    ids=["INTEGER", "CHAR", "DICT of one", "ALL_NULL", "spare bits", "ARRAY"],
)
def test_hand_made_file_of_18_9(arrow, descriptor, bucket, rows):
    block = bytes.fromhex(bucket)
    body = bytes.fromhex(f"01 01 00 00 01 61 {descriptor} 00")
    bounds = reference.Bucket(0, 0, len(block), len(block))
    index = reference.encode_row_group(reference.RowGroup(2, [bounds], []))
    data = block + len(body).to_bytes(4, "big") + body
    footer = reference.FOOTER.pack(len(data), len(block), 1, 1, 0, 1, 0, b"MOSA")
    _schema, (batch,) = reference.decode_file(data + index + footer)
    assert reference.same_array(batch["a"], pa.array(rows, arrow))


# --- Parts that files alone do not pin down --------------------------------------------------


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (2**32 - 1, "ffffffff0f")],
)
def test_uv(number, encoded):
    data = bytes.fromhex(encoded)
    assert reference.uv(number) == data
    assert reference.get_uv(b"?" + data + b"?", 1) == (number, 1 + len(data))


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (64, "8001"), (-(2**63), "ff" * 9 + "01")],
)
def test_zz(number, encoded):
    data = bytes.fromhex(encoded)
    assert reference.zz(number) == data
    assert reference.get_zz(b"?" + data + b"?", 1) == (number, 1 + len(data))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 4])
def test_truncated_uv_is_an_error(data):
    with pytest.raises(ValueError, match="needed 1 bytes, 0 are left"):
        reference.get_uv(data, 0)


def test_uv_of_six_bytes_is_an_error():
    with pytest.raises(ValueError, match="too long"):
        reference.get_uv(b"\x80\x80\x80\x80\x80\x00", 0)


def test_bits_are_packed_lowest_first():
    assert reference.pack_bits([0, 1, 2] * 4, 2) == bytes.fromhex("244992")
    assert reference.unpack_bits(bytes.fromhex("244992"), 2, 12) == [0, 1, 2] * 4
    assert reference.pack_bits([0, 0], 0) == b""
    assert reference.bitmap([True] + [False] * 8 + [True]) == b"\x01\x02"
    assert reference.unbitmap(b"\x01\xfe", 10) == [True] + [False] * 8 + [True]


@pytest.mark.parametrize(
    ("number", "value"),
    [(0, "0100"), (127, "017f"), (128, "020080"), (-128, "0180"), (-129, "02ff7f")],
)
def test_large_decimals_are_minimal(number, value):
    array = pa.array([Decimal(number)], pa.decimal128(38, 0))
    assert reference.serialize(array) == [bytes.fromhex(value)]
    assert reference.deserialize([bytes.fromhex(value)], array.type) == array


@pytest.mark.parametrize(
    ("arrow", "descriptor"),
    [
        (pa.list_(pa.int32()), b"\x12\1\4item\3\1"),
        (pa.map_(pa.string(), pa.int32()), b"\x13\1\7entries\3key\x0a\0\5value\3\1"),
        (pa.decimal128(10, -2), b"\x0e\1\x0a\xfe\xff\xff\xff\x0f"),
        (pa.timestamp("us", "UTC"), b"\x11\1\6\3UTC"),
    ],
    ids=str,
)
def test_type_descriptor(arrow, descriptor):
    assert reference.encode_type(pa.field("", arrow)) == descriptor
    assert reference.decode_type(descriptor, 0) == (pa.field("", arrow), len(descriptor))


def test_legacy_struct_is_a_nanosecond_timestamp():
    legacy = pa.struct([("millis", pa.int64()), ("nanos_of_milli", pa.int32())])
    rows = pa.array([{"millis": -1, "nanos_of_milli": 999999}, None], legacy)
    stamps = pa.array([-1, None], pa.timestamp("ns"))
    assert reference.serialize(rows) == reference.serialize(stamps)
    files = [
        reference.encode_file([pa.record_batch({"t": array})], pa.schema([("t", array.type)]))
        for array in (rows, stamps)
    ]
    assert files[0] == files[1]


def test_dictionary_must_be_smaller_than_plain():
    four, five = [b"\0", b"\1"] * 2, [b"\0", b"\1", b"\0", b"\1", b"\0"]
    assert reference.choose_encoding(four, 255, 32768, False) == reference.PLAIN
    assert reference.choose_encoding(five, 255, 32768, False) == reference.DICT


def test_dictionary_limits_may_be_reached():
    column = [b"\3abc", b"\3xyz", None] * 20
    assert reference.choose_encoding(column, 2, 8, True) == reference.DICT
    assert reference.choose_encoding(column, 1, 8, True) == reference.PLAIN
    assert reference.choose_encoding(column, 2, 7, True) == reference.PLAIN
    assert reference.choose_encoding(column, 2, 7, False) == reference.DICT


def test_nan_counts_in_statistics_only_as_the_first_value():
    first = reference.serialize(pa.array([float("nan"), 2.0]))
    later = reference.serialize(pa.array([3.5, float("nan"), 1.5, None]))
    assert reference.statistics(0, first, pa.float64()) == (0, 0, first[0], first[0])
    assert reference.statistics(0, later, pa.float64()) == (0, 1, later[2], later[0])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (pa.array([0.0]), pa.array([-0.0])),
        (
            pa.array([0x7FC00000], pa.int32()).view("f4"),
            pa.array([0x7FC00001]).cast("i4").view("f4"),
        ),
        (pa.array([""]), pa.array([None], "string")),
        (pa.array([1], "i4"), pa.array([1], "i8")),
        (pa.array([[]], pa.list_(pa.int8())), pa.array([None], pa.list_(pa.int8()))),
        (pa.array([[1]], pa.list_(pa.int8())), pa.array([[1]], pa.list_(pa.field("x", pa.int8())))),
        (
            pa.array([[1]], pa.list_(pa.int8())),
            pa.array([[1]], pa.list_(pa.field("item", pa.int8(), nullable=False))),
        ),
    ],
    ids=["zero", "nan", "null", "width", "container", "element name", "element nullability"],
)
def test_same_array_sees_what_differs(a, b):
    assert reference.same_array(a, a)
    assert not reference.same_array(a, b)


def test_same_array_ignores_what_nulls_hide():
    offsets, mask = pa.array([0, 1, 2], pa.int32()), pa.array([False, True])
    hidden = pa.ListArray.from_arrays(offsets, pa.array([1, 9]), mask=mask)
    assert reference.same_array(hidden, pa.array([[1], None], pa.list_(pa.int64())))


# --- Types of the annex ----------------------------------------------------------------------

POINT = pa.struct([pa.field("x", pa.int8(), nullable=False), ("y", pa.duration("s"))])


@pytest.mark.parametrize(
    ("field", "stored"),
    [
        (pa.field("a", pa.uint64()), {"a": "decimal128(20, 0)"}),
        (
            pa.field("s", POINT),
            {"s.__null__": "bool not null", "s.x": "int8", "s.y": "int64"},
        ),
        (pa.field("s", POINT, nullable=False), {"s.x": "int8 not null", "s.y": "int64"}),
        (pa.field("s", pa.struct([]), nullable=False), {"s.__null__": "bool not null"}),
        (
            pa.field("l", pa.list_(pa.field("e", POINT))),
            {
                "l.__struct_null__": "list<e: bool not null>",
                "l.x": "list<e: int8>",
                "l.y": "list<e: int64>",
            },
        ),
        (
            pa.field("m", pa.map_(pa.string(), pa.field("value", POINT, nullable=False))),
            {
                "m.key": "list<item: string not null>",
                "m.value.x": "list<item: int8 not null>",
                "m.value.y": "list<item: int64>",
            },
        ),
        (
            pa.field("s", pa.struct([("l", pa.list_(POINT))]), nullable=False),
            {
                "s.l.__struct_null__": "list<item: bool not null>",
                "s.l.x": "list<item: int8>",
                "s.l.y": "list<item: int64>",
            },
        ),
    ],
    ids=["scalar", "struct", "required", "empty", "list", "map", "list in struct"],
)
def test_stored_columns(field, stored):
    found = annex_reference.stored_fields(field, field.name)
    shown = {one.name: f"{one.type}{'' if one.nullable else ' not null'}" for one in found}
    assert shown == stored


@pytest.mark.parametrize(
    ("array", "cells"),
    [
        (pa.array([1.5, None], pa.float16()), [0x3E00, None]),
        (pa.array([{"x": 1, "y": None}, None], POINT)[1:], [None]),
        (pa.array([[1], None, [2, 3]], pa.list_view(pa.int8()))[2:], [[2, 3]]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))[1:], [[3, 4]]),
        (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int8())), [[(b"a", 1)], None]),
        (pa.array(["b", "a", None]).dictionary_encode(), [b"b", b"a", None]),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), [(1, 2, 3)]),
        (pa.array([Decimal("1.2")], pa.decimal256(50, 1)), [12]),
    ],
    ids=["half", "struct", "view", "fixed", "map", "dictionary", "interval", "decimal"],
)
def test_cells(array, cells):
    assert annex_reference.cells(array) == cells


def test_runs_in_a_slice():
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int16()), pa.array(["a", "b"]))
    assert annex_reference.cells(runs.slice(1, 3)) == [b"a", b"b", b"b"]


@pytest.mark.parametrize("bits", [0, 0x8000, 0x3C00, 0x7C00, 0xFC00, 0x7C01, 0x7FFF, 1, 0x03FF])
def test_16_bits_of_a_float(bits):
    wide = pa.array([bits], pa.uint16()).view(pa.float16()).cast(pa.float32())
    (number,) = wide.view(pa.int32()).to_pylist()
    assert annex_reference.half(number) % (1 << 16) == bits


@pytest.mark.parametrize("value", [2**-25, 1 + 2**-11, 65520.0])
def test_a_float_of_more_bits_is_an_error(value):
    (number,) = pa.array([value], pa.float32()).view(pa.int32()).to_pylist()
    with pytest.raises(ValueError, match="16 bits"):
        annex_reference.half(number)
