"""The annex: its bytes, what it restores, what it costs, and damaged or hostile ones."""

import hashlib
import io
import re
import struct
import uuid
import zlib
from dataclasses import replace
from pathlib import Path

import annex_reference
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import reference
from files import their_reader, written
from small_files import NESTED, SCALARS
from strategies import FLAT_TYPES, NESTED_TYPES
from user_types import LEAVES

import fastmosaic as fm
from fastmosaic.format import user_schema as attached
from fastmosaic.format._crc import crc32c
from fastmosaic.format.annex import Annex, Base, BlockChecksums, Checksums
from fastmosaic.format.footer import Flag, Footer

REFUSED = (fm.CorruptFileError, fm.UnsupportedError)
SMALL = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})


def place(data: bytes) -> tuple[int, int]:
    """Find the annex using only the specification."""
    (end,) = struct.unpack(">Q", data[-24:-16])
    size, magic = struct.unpack("<I4s", data[end - 8 : end])
    assert magic == b"MOSX"
    return end - size, end


def with_annex(data: bytes, annex: bytes) -> bytes:
    """Replace the annex of a file and adapt the footer."""
    start, end = place(data)
    moved = len(annex) - (end - start)
    index_at, schema_at = struct.unpack(">QQ", data[-32:-16])
    footer = struct.pack(">QQ", index_at + moved, schema_at + moved) + data[-16:]
    return data[:start] + annex + data[end:-32] + footer


def sealed(sections: bytes) -> bytes:
    """Make an annex of sections, with the right checksum."""
    return sections + struct.pack("<II4s", crc32c(sections), len(sections) + 12, b"MOSX")


# ---- bytes


def test_an_annex_is_laid_out_as_specified():
    annex = Annex(Checksums(0x01020304, 0x05060708), b"abc", "w é")
    sections = bytes.fromhex("01 08 04030201 08070605 02 03 616263 03 04 7720c3a9")
    assert annex.encode() == sections + struct.pack("<I", crc32c(sections)) + bytes.fromhex(
        "21000000 4d4f5358"
    )
    assert len(annex.encode()) == 0x21
    assert Annex.decode(annex.encode()) == annex


def test_the_section_about_a_base_file_is_laid_out_as_specified():
    base = Base(0x0102030405060708, 2**40, bytes(range(16)))
    body = bytes.fromhex("0807060504030201 0000000000010000") + bytes(range(16))
    assert Annex(base=base).encode() == sealed(b"\x05\x20" + body)
    assert Annex.decode(sealed(b"\x05\x20" + body)).base == base


@pytest.mark.parametrize(
    "options",
    [
        {"annex": True},
        {"annex": False},
        {"compression": "none", "row_group_size": 1},
        {"num_buckets": 1},
    ],
    ids=str,
)
def test_the_reference_finds_the_base_of_a_column_file(options, tmp_path):
    fm.write_table(SMALL, tmp_path / "a.mosaic", **options)
    table = fm.MosaicTable.create(tmp_path)
    table.add_columns({"x": pc.field("id")})
    (added,) = (tmp_path / "_columns").iterdir()
    base = (tmp_path / "a.mosaic").read_bytes()
    assert annex_reference.base_of(added.read_bytes()) == annex_reference.identity(base)
    assert annex_reference.base_of(base) is None
    stored, _ = reference.decode_file(added.read_bytes())
    assert stored.names == ["x"]
    assert their_reader(added.read_bytes()) is not None


def test_the_checksum_is_castagnolis():
    assert crc32c(b"123456789") == 0xE3069283 != zlib.crc32(b"123456789")


def test_a_default_file_has_an_annex_before_its_schema_block():
    data = written(SMALL)
    start, end = place(data)
    assert data[-6:-4] == b"\0\1"
    assert data[-7] == 1
    (index_at,) = struct.unpack(">Q", data[-32:-24])
    checksums = struct.pack("<II", crc32c(data[index_at:-32]), crc32c(data[-32:-4]))
    assert data[start : start + 10] == b"\1\x08" + checksums
    assert data[start + 10 :].startswith(b"\3\x10fastmosaic " + fm.__version__.encode())
    assert fm.read_metadata(data).created_by == f"fastmosaic {fm.__version__}"
    assert fm.read_metadata(data).format_version == 1
    assert end == fm.read_metadata(data).footer.schema_offset


def test_blocks_have_checksums_too():
    data = written(SMALL, row_group_size=2, num_buckets=2)
    metadata = fm.read_metadata(data)
    groups = [metadata.row_group(i).buckets for i in range(2)]
    crcs = [
        [crc32c(data[b.offset : b.offset + b.compressed_size]) for b in buckets]
        for buckets in groups
    ]
    footer = metadata.footer
    assert metadata.annex.blocks == BlockChecksums(
        crc32c(data[footer.schema_offset : footer.index_offset]),
        tuple(crc32c(struct.pack("<II", *pair)) for pair in crcs),
    )


def test_without_an_annex_the_file_is_as_it_was():
    data = written(SMALL, annex=False)
    with_one = written(SMALL)
    start, end = place(with_one)
    assert data[-6:-4] == b"\0\0"
    assert len(data) == len(with_one) - (end - start)
    assert data[:-32] == with_one[:start] + with_one[end:-32]
    assert fm.read_metadata(data).created_by is None
    assert fm.read_table(data).equals(SMALL)


def test_an_unknown_section_is_skipped():
    data = written(SMALL)
    annex = sealed(b"\x63\x03xyz" + Annex(writer="another").encode()[:-12] + b"\xff\x00")
    changed = with_annex(data, annex)
    assert fm.read_table(changed).equals(SMALL)
    assert fm.read_metadata(changed).created_by == "another"


def test_an_annex_without_sections_is_one():
    assert fm.read_table(with_annex(written(SMALL), sealed(b""))).equals(SMALL)


# ---- what it keeps


class Own(pa.ExtensionType):
    def __init__(self, unit):
        self.unit = unit
        super().__init__(pa.int64(), "tests.own")

    def __arrow_ext_serialize__(self):
        return self.unit.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls(serialized.decode())


@pytest.fixture
def own():
    pa.register_extension_type(Own("m"))
    yield Own("km")
    pa.unregister_extension_type("tests.own")


IDS = [uuid.UUID(int=7).bytes, None, uuid.UUID(int=2**100).bytes]
UUIDS = pa.array(IDS, pa.uuid())
JSON = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', "null", None]))


def table_of(*columns, metadata=None) -> pa.Table:
    """Create a table from pairs of field and values."""
    fields, arrays = zip(*columns, strict=True)
    return pa.table(list(arrays), schema=pa.schema(fields, metadata))


def same(one: pa.Table, other: pa.Table) -> bool:
    return one.equals(other) and one.schema.equals(other.schema, check_metadata=True)


def test_metadata_come_back():
    table = table_of(
        (pa.field("id", pa.int64(), metadata={"comment": "the key", "é": b"\xff\0"}), [1, 2, 3]),
        (pa.field("name", pa.string(), nullable=False), ["a", "b", "c"]),
        metadata={"owner": "us", b"\xfe": ""},
    )
    data = written(table)
    assert same(fm.read_table(data), table)
    assert fm.read_schema(data).equals(table.schema, check_metadata=True)
    assert fm.read_metadata(data).schema.equals(table.schema, check_metadata=True)


def test_only_fields_with_metadata_are_in_the_section():
    fields = [
        pa.field("plain", pa.int64()),
        pa.field("noted", pa.large_string(), metadata={"k": "v"}),
    ]
    message = attached.encode(pa.schema(fields, {"m": "n"}))
    kept = pa.ipc.read_schema(pa.py_buffer(message))
    assert kept.equals(pa.schema(fields[1:], {"m": "n"}), check_metadata=True)
    assert attached.encode(pa.schema(fields[:1])) is None


def test_extension_types_come_back(own):
    table = table_of(
        (pa.field("own", own, metadata={"k": "v"}), pa.ExtensionArray.from_storage(own, pa.array([1, None, 3]))),
        (pa.field("json", pa.json_()), JSON),
        (pa.field("uuid", pa.uuid()), UUIDS),
        (
            pa.field("uuids", pa.list_(pa.field("id", pa.uuid(), metadata={"in": "side"}))),
            pa.array([[IDS[0]], None, []], pa.list_(pa.binary(16))).cast(
                pa.list_(pa.field("id", pa.uuid()))
            ),
        ),
    )  # fmt: skip
    data = written(table, row_group_size=2)
    actual = fm.read_table(data)
    actual.validate(full=True)
    assert same(actual, table)
    assert actual.schema.field("own").type.unit == "km"
    assert fm.read_table(data, columns=["uuid"]).equals(table.select(["uuid"]))
    batches = list(fm.MosaicFile(data).iter_batches(1))
    assert same(pa.Table.from_batches(batches), table)
    filtered = fm.read_table(data, columns=["uuid", "json"], filters=[("own", ">", 1)])
    assert same(filtered, table.select(["uuid", "json"]).slice(2))


def test_an_extension_type_that_is_not_registered_is_its_storage(own):
    data = written(
        table_of((pa.field("own", own), pa.ExtensionArray.from_storage(own, pa.array([1]))))
    )
    pa.unregister_extension_type("tests.own")
    try:
        actual = fm.read_table(data)
        assert actual.schema.field("own").type == pa.int64()
        assert actual.schema.field("own").metadata == {
            b"ARROW:extension:name": b"tests.own",
            b"ARROW:extension:metadata": b"km",
        }
        again = written(actual)
    finally:
        pa.register_extension_type(Own("m"))
    assert fm.read_table(again).schema.field("own").type == own


def test_values_that_an_extension_type_cannot_have_are_corrupt():
    section = attached.encode(pa.schema([pa.field("raw", pa.uuid())]))
    data = with_annex(
        written(pa.table({"raw": [b"not sixteen bytes"]})), Annex(attached=section).encode()
    )
    with pytest.raises(
        fm.CorruptFileError, match=r"'raw': the values do not fit extension<arrow\.uuid>"
    ):
        fm.read_table(data)
    assert not fm.verify(data).ok


def test_a_type_that_does_not_fit_the_column_is_left_out():
    section = attached.encode(pa.schema([pa.field("id", pa.uuid(), metadata={"k": "v"})]))
    actual = fm.read_table(with_annex(written(SMALL), Annex(attached=section).encode()))
    assert actual.equals(SMALL)
    assert actual.schema.field("id").metadata == {b"k": b"v"}


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(5, 11, 2, name="step"),
        pd.RangeIndex(3),
        pd.Index(["x", "y", "z"], name="label"),
        pd.Index([3.5, 1.0, 2.0]),
        pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")], names=["n", None]),
        pd.DatetimeIndex(["2024-01-01", "2024-01-02", "2025-01-01"], name="day", tz="UTC"),
    ],
)
def test_an_index_of_pandas_comes_back(index):
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "z"]}, index=index)
    data = written(pa.Table.from_pandas(frame))
    pd.testing.assert_frame_equal(fm.read_table(data).to_pandas(), frame)
    pd.testing.assert_frame_equal(
        fm.read_table(data, columns=["a", *named(frame)]).to_pandas(), frame[["a"]]
    )


def named(frame: pd.DataFrame) -> list[str]:
    """Return the columns that contain an index."""
    names = pa.Table.from_pandas(frame).schema.names
    return [name for name in names if name not in ("a", "b")]


def test_metadata_of_a_projection_are_those_of_its_columns():
    noted = [pa.field(name, pa.int64(), metadata={"is": name}) for name in "abc"]
    table = table_of(*[(one, [1, 2]) for one in noted], metadata={"m": "n"})
    actual = fm.read_table(written(table), columns=["c", "a"])
    assert same(actual, table.select(["c", "a"]))
    assert actual.schema.metadata == {b"m": b"n"}
    assert fm.read_table(written(table), columns=[]).num_rows == 2


def test_metadata_of_a_data_set_are_those_its_files_agree_on(tmp_path):
    def one(comment, owner):
        return table_of(
            (pa.field("a", pa.uuid()), UUIDS),
            (pa.field("b", pa.int64(), metadata={"comment": comment}), [1, 2, 3]),
            metadata={"owner": owner},
        )

    fm.write_table(one("x", "first"), tmp_path / "1.mosaic")
    fm.write_table(one("y", "second"), tmp_path / "2.mosaic")
    expected = pa.schema([("a", pa.uuid()), ("b", pa.int64())], {"owner": "first"})
    dataset = fm.MosaicDataset(tmp_path)
    assert dataset.schema.equals(expected, check_metadata=True)
    for table in (
        fm.read_table(tmp_path),
        dataset.to_table(),
        dataset.scanner().to_table(),
        dataset.head(2),
        pa.Table.from_batches(dataset.iter_batches(2)),
    ):
        assert table.schema.equals(expected, check_metadata=True)
    some = dataset.to_table(["a"], filter=pc.field("b") > 2)
    assert some.equals(pa.table({"a": pa.concat_arrays([UUIDS[2:], UUIDS[2:]])}))


def test_write_dataset_keeps_metadata_and_extension_types(tmp_path):
    table = table_of(
        (pa.field("id", pa.uuid(), metadata={"k": "v"}), UUIDS),
        (pa.field("day", pa.string()), ["mo", "mo", "tu"]),
        metadata={"m": "n"},
    )
    fm.write_dataset(table, tmp_path / "sales", partitioning="day")
    assert same(fm.read_table(tmp_path / "sales"), table)


def test_the_reference_reads_a_file_with_all_of_it(own):
    table = table_of(
        (pa.field("own", own), pa.ExtensionArray.from_storage(own, pa.array([1, None, 3]))),
        (pa.field("uuid", pa.uuid(), metadata={"k": "v"}), UUIDS),
        metadata={"m": "n"},
    )
    for options in ({}, {"page_size_threshold": 0}, {"compression": "none"}):
        data = written(table, **options)
        with their_reader(data) as reader:
            actual = reader.read_all()
        assert actual.select(["own"]).to_pydict() == {"own": [1, None, 3]}
        assert actual.select(["uuid"]).to_pydict() == {"uuid": IDS}


# ---- types


NOTED = pa.schema(
    [
        pa.field("a", pa.int64(), metadata={"k": "v"}),
        pa.field("b", pa.list_(pa.field("item", pa.int8(), metadata={"x": "y"}))),
    ],
    {"m": "n"},
)
STORED_AS_OTHERS = {
    "large": pa.array(["a"], pa.large_string()),
    "dictionary": pa.array(["a"]).dictionary_encode(),
    "unsigned": pa.array([1], pa.uint8()),
    "fixed": pa.array([[1]], pa.list_(pa.int8(), 1)),
    "null": pa.nulls(1),
}
ALL_SCALARS = pa.Table.from_batches([SCALARS])
# Digests of what was written before the annex restored types.
UNCHANGED = {
    "scalars": (ALL_SCALARS, {}, "fea26292ccb44ecf973917920747767c"),
    "statistics": (
        ALL_SCALARS,
        {"row_group_size": 5, "write_statistics": ["number"]},
        "2d505bceb277599e87b59a8df5df4289",
    ),
    "nested": (
        pa.Table.from_batches([NESTED]),
        {"num_buckets": 2},
        "9ca86714eb173c2d3e9c6f2bf8a0fed7",
    ),
    "blocks": (
        pa.Table.from_batches([NESTED]),
        {"array_layout": "block"},
        "1cd7d68387de123d2a3ac4ebf0e462d0",
    ),
    "no rows": (
        pa.table({"a": pa.array([], pa.string())}),
        {},
        "c5f8120760e5aade6ebc7b5d82993f7c",
    ),
    "no columns": (pa.table({}), {}, "736295c25b1924701d447fb85e7ce3d4"),
    "wide": (
        pa.table({f"c{i:04}": pa.array([i], pa.int32()) for i in range(300)}),
        {},
        "e1c3f4cc529b98281919ea902960a726",
    ),
    "schema metadata": (
        ALL_SCALARS.replace_schema_metadata({"pandas": "{}"}),
        {},
        "545ba2edd2a87163fe277c78c18ccac8",
    ),
    "field metadata": (
        pa.table([[1, 2], [[1], None]], schema=NOTED),
        {},
        "ec837d4e95b96047087c21117cf4973b",
    ),
    "extension": (
        pa.table({"j": pa.array(["{}", None], pa.json_()), "id": [1, 2]}),
        {},
        "3e79e1c710914ea3d523ab4848b9bd1f",
    ),
    "list of extension": (
        pa.table({"j": pa.ListArray.from_arrays([0, 2], pa.array(["{}", None], pa.json_()))}),
        {},
        "8b2e1a9f6ca56272035607f17d197ce1",
    ),
    "no annex": (
        pa.table(STORED_AS_OTHERS),
        {"annex": False},
        "c9f37c6cd090762cff50ebc349aa01ce",
    ),
}


@pytest.mark.parametrize(("table", "options", "digest"), UNCHANGED.values(), ids=UNCHANGED)
def test_files_without_other_types_are_as_they_always_were(monkeypatch, table, options, digest):
    monkeypatch.setattr("fastmosaic.file.writer.__version__", "0.1.0")
    data = written(table, compression="none", max_dict_entries=255, **options)
    assert hashlib.sha256(data).hexdigest()[:32] == digest
    assert not fm.read_metadata(data).footer.restores_types


STRUCT = pa.struct([("x", pa.int8())])
PLAIN_TYPES = [*FLAT_TYPES, *NESTED_TYPES, pa.json_(), pa.bool8(), pa.list_(pa.json_())]


def flags_of(arrow: pa.DataType, **options) -> int:
    sink = io.BytesIO()
    fm.MosaicWriter(sink, pa.schema([("a", arrow)]), **options).close()
    return int.from_bytes(sink.getvalue()[-6:-4])


def test_the_flag_is_set_if_types_are_restored():
    for arrow in LEAVES:
        storage = arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow
        assert flags_of(arrow) == (1 if storage in FLAT_TYPES else 3), arrow
    for arrow in (STRUCT, pa.list_(STRUCT), pa.list_(pa.uint8()), pa.map_(pa.int8(), pa.null())):
        assert flags_of(arrow) == 3, arrow
    for arrow in PLAIN_TYPES:
        assert flags_of(arrow) == 1, arrow
        assert flags_of(arrow, annex=False) == 0
    assert flags_of(pa.large_string(), annex=False) == 0


def message_of(data: bytes) -> pa.Schema:
    """The message in section 2."""
    return pa.ipc.read_schema(pa.py_buffer(annex_reference.read_annex(data).sections[2]))


def test_only_columns_that_need_it_are_listed():
    fields = [
        pa.field("a", pa.int64()),
        pa.field("b", pa.uint8()),
        pa.field("c", pa.list_(pa.string())),
        pa.field("d", STRUCT, nullable=False),
        pa.field("e", pa.string(), metadata={"k": "v"}),
        pa.field("f", pa.list_(pa.large_string())),
        pa.field("g", pa.json_()),
        pa.field("h", pa.timestamp("us", "UTC")),
    ]
    message = message_of(written(pa.schema(fields).empty_table()))
    listed = [field for field in fields if field.name in "bdefg"]
    assert message.equals(pa.schema(listed), check_metadata=True)
    for plain in (pa.schema([fields[0], fields[2], fields[7]]), pa.schema([])):
        sections = annex_reference.read_annex(written(plain.empty_table())).sections
        assert sections.keys() == {1, 3, 4}


def test_sections_of_types_and_dictionaries_are_as_specified():
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array(["b", "a"]))
    data = written(pa.table({"a": column, "b": [column[:1].to_pylist(), None]}))
    annex = annex_reference.read_annex(data)
    assert annex.sections.keys() == {1, 2, 3, 4, 6}
    size, _ = reference.get_uv(annex.sections[6], 0)
    inner = data[annex.start - size : annex.start]
    assert fm.read_table(inner).to_pydict() == {"a": [["b", "a"]]}
    assert fm.read_table(data, logical=False).to_pydict() == {"a": ["a", "b"], "b": [["a"], None]}


def test_the_stored_columns_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text()
    (dump,) = re.findall(r"<!-- bytes: types -->\n```\n(.*?)```", page, re.DOTALL)
    body = bytes.fromhex(
        "".join(re.findall(r"^[0-9a-f]{4}  ((?:[0-9a-f]{2} )+) ", dump, re.MULTILINE))
    )
    required = pa.struct([pa.field("x", pa.int8(), nullable=False)])
    schema = pa.schema([("s", required), ("d", pa.duration("s"))])
    data = written(schema.empty_table(), compression="none", num_buckets=1)
    assert reference.open_file(data).body == body
    assert annex_reference.decode_table(data).schema == schema


def test_a_reader_that_does_not_know_the_flag_shows_stored_columns():
    table = pa.table(
        {"s": pa.array([{"x": 1}, None], STRUCT), "d": pa.array([1, 2], pa.duration("s"))}
    )
    with their_reader(written(table)) as reader:
        stored = reader.read_all()
    assert stored.to_pydict() == {"s.__null__": [False, True], "s.x": [1, None], "d": [1, 2]}


# ---- what it costs


class Recorder:
    name = "<recorder>"

    def __init__(self, data, is_local=True):
        self._data, self.size, self.is_local = data, len(data), is_local
        self.reads = []

    def read_at(self, offset, length):
        self.reads.append((offset, length))
        return pa.py_buffer(self._data[offset : offset + length])

    def close(self):
        pass


def test_opening_takes_no_more_reads():
    wide = pa.table({f"column number {i:05}": [i] for i in range(20_000)})
    for table, num_reads in ((SMALL, 1), (wide.replace_schema_metadata({"m": "n" * 1000}), 2)):
        data = written(table, compression="none")
        source = Recorder(data)
        with fm.MosaicFile(source) as file:
            assert file.metadata.created_by is not None
        assert len(source.reads) == num_reads
        assert sum(length for _, length in source.reads) <= len(data)


def test_an_annex_that_is_longer_than_what_was_read_takes_one_more():
    wide = pa.table({f"column number {i:05}": [i] for i in range(20_000)})
    table = wide.replace_schema_metadata({"m": "n" * 10_000})
    source = Recorder(written(table, compression="none"))
    with fm.MosaicFile(source) as file:
        assert file.schema.metadata == {b"m": b"n" * 10_000}
    assert len(source.reads) == 3


def test_a_narrow_read_makes_only_its_fields(monkeypatch):
    fields = [pa.field(f"c{i:04}", pa.int8(), metadata={"i": str(i)}) for i in range(1000)]
    data = written(pa.table([pa.array([1], pa.int8())] * 1000, schema=pa.schema(fields)))
    made = []
    original = pa.field
    monkeypatch.setattr(pa, "field", lambda *a, **k: made.append(a) or original(*a, **k))
    actual = fm.read_table(data, columns=["c0007"])
    assert actual.schema.field(0).metadata == {b"i": b"7"}
    assert len(made) <= 2


# ---- damaged and hostile


DATA = written(SMALL.replace_schema_metadata({"m": "n"}), write_statistics=["id"], row_group_size=2)


def test_every_changed_bit_of_annex_index_and_footer_is_noticed_on_opening():
    start, end = place(DATA)
    (index_at,) = struct.unpack(">Q", DATA[-32:-24])
    for position in [*range(start, end), *range(index_at, len(DATA))]:
        for bit in range(8):
            damaged = bytearray(DATA)
            damaged[position] ^= 1 << bit
            with pytest.raises(REFUSED):
                fm.MosaicFile(bytes(damaged))


def test_every_truncation_of_an_annex_is_refused():
    start, end = place(DATA)
    for size in range(end - start):
        for cut in (DATA[start : start + size], DATA[end - size : end]):
            with pytest.raises(fm.CorruptFileError, match=r"annex, offset \d+: "):
                fm.MosaicFile(with_annex(DATA, cut))


def test_a_cleared_flag_does_not_hide_an_annex():
    damaged = bytearray(DATA)
    damaged[-5] = 0
    with pytest.raises(fm.CorruptFileError, match="the footer lacks the flag"):
        fm.read_table(bytes(damaged))


def test_data_that_ends_as_an_annex_does_is_no_annex():
    for text in ("MOSX", "\0\0\0\0\x0c\0\0\0MOSX", "\1\1\1\1\x10\0\0\0MOSX"):
        table = pa.table({"text": ["some", text]})
        data = written(table, compression="none", annex=False)
        assert data.index(b"MOSX") + 4 == fm.read_metadata(data).footer.schema_offset
        assert fm.read_table(data).equals(table)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (b"\1\x07" + bytes(7), "checksums has 7 bytes, not 8"),
        (b"\1\x00", "checksums has 0 bytes, not 8"),
        (b"\1", "needed 1 bytes"),
        (b"\2\xff\xff\xff\xff\x0f", "needed 4294967295 bytes"),
        (b"\2\xff\xff\xff\xff\xff\xff", "exceeds 32 bits"),
        (b"\3\x01\xff", "writer is not UTF-8"),
        (b"\3\x01a\3\x01b", "a second section of kind 3"),
        (b"\4\x06" + bytes(6), "block checksums has 6 bytes"),
        (b"\4\x00", "block checksums has 0 bytes"),
        (b"\5\x00", "base file has 0 bytes, not 32"),
        (b"\5\x1f" + bytes(31), "base file has 31 bytes, not 32"),
        (b"\5\x21" + bytes(33), "base file has 33 bytes, not 32"),
        (b"\5\x20" + bytes(32) + b"\5\x20" + bytes(32), "a second section of kind 5"),
        (b"\1\x08" + bytes(8), "the checksum of the footer is"),
    ],
)
def test_a_hostile_annex_is_refused(sections, message):
    with pytest.raises(fm.CorruptFileError, match=f"annex, offset .*{message}"):
        fm.MosaicFile(with_annex(DATA, sealed(sections)))


@pytest.mark.parametrize("length", [0, 11, 2**31, 2**32 - 1])
def test_a_wrong_length_is_refused(length):
    annex = struct.pack("<II4s", 0, length, b"MOSX")
    with pytest.raises(fm.CorruptFileError, match="annex, offset"):
        fm.MosaicFile(with_annex(DATA, annex))


MESSAGE = attached.encode(pa.schema([pa.field("id", pa.json_(), metadata={"k": "v"})], {"m": "n"}))


@pytest.mark.parametrize("size", range(0, len(MESSAGE), 7))
def test_a_truncated_message_is_refused(size):
    data = with_annex(DATA, Annex(attached=MESSAGE[:size]).encode())
    with pytest.raises(fm.CorruptFileError, match="the metadata in the annex is damaged"):
        fm.read_table(data)
    assert "the metadata in the annex is damaged" in str(fm.verify(data))


@pytest.mark.parametrize(
    "field",
    [pa.field("a name", pa.int64()), pa.field("id", pa.list_(pa.field("a name", pa.int64())))],
    ids=["of a column", "inside a list"],
)
def test_names_that_are_not_utf8_are_refused(field):
    message = pa.schema([field.with_metadata({"k": "v"})]).serialize().to_pybytes()
    broken = message.replace(b"a name", b"a \xffame")
    data = with_annex(DATA, Annex(attached=broken).encode())
    for read in (fm.read_table, fm.read_schema):
        with pytest.raises(fm.CorruptFileError, match="the metadata in the annex is damaged"):
            read(data)
    assert "the metadata in the annex is damaged" in str(fm.verify(data))


def test_a_damaged_message_is_refused_or_read():
    for position in range(len(MESSAGE)):
        damaged = bytearray(MESSAGE)
        damaged[position] ^= 0x41
        try:
            fm.read_table(with_annex(DATA, Annex(attached=bytes(damaged)).encode()))
        except fm.CorruptFileError:
            continue


def test_a_feature_that_is_not_known_is_refused():
    footer = Footer.decode(DATA, len(DATA))
    with pytest.raises(fm.UnsupportedError, match=r"bit 12 \(0x1000\)"):
        fm.MosaicFile(DATA[:-32] + replace(footer, flags=Flag.ANNEX | 0x1000).encode())
