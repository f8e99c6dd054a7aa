"""Files that the Apache implementation wrote once: read, and written again, byte for byte."""

import hashlib
import inspect
import io
import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest
import reference
from strategies import assert_same, without_columns

import fastmosaic as fm

GOLDEN = Path(__file__).parents[1] / "golden"
FIXTURES = json.loads((GOLDEN / "manifest.json").read_text())["fixtures"]

# The options of the other implementation, by our names.
OPTION_NAMES = {
    "zstd_level": "compression_level",
    "num_buckets": "num_buckets",
    "row_group_max_size": "row_group_bytes",
    "max_dict_total_bytes": "max_dict_total_bytes",
    "max_dict_entries": "max_dict_entries",
    "stats_columns": "write_statistics",
    "page_size_threshold": "page_size_threshold",
}

every_fixture = pytest.mark.parametrize("fixture", FIXTURES, ids=lambda fixture: fixture["name"])


def expected_content(fixture) -> pa.Table:
    with pa.ipc.open_file(GOLDEN / fixture["expected"]) as file:
        return file.read_all()


def input_batches(fixture) -> list[pa.RecordBatch]:
    """The rows as they were once given to the writer."""
    table = expected_content(fixture)
    batches, start = [], 0
    for num_rows in fixture["input_batch_rows"]:
        piece = table.slice(start, num_rows)
        start += num_rows
        if not table.num_columns:
            batches += without_columns(num_rows).to_batches()
            continue
        columns = [pa.concat_arrays([pa.array([], c.type), *c.chunks]) for c in piece.columns]
        batches.append(pa.record_batch(columns, schema=table.schema))
    assert start == table.num_rows
    return batches


def our_options(fixture) -> dict[str, object]:
    given = {"page_size_threshold": 32768, "max_dict_entries": 255, **fixture["writer_options"]}
    compression = ["none", "zstd"][given.pop("compression", 1)]
    if given.get("num_buckets") == 0:
        del given["num_buckets"]
    if compression == "zstd":
        given.setdefault("zstd_level", 1)
    return {"compression": compression, **{OPTION_NAMES[name]: given[name] for name in given}}


def rewritten(fixture) -> bytes:
    sink = io.BytesIO()
    # Not the schema in the .arrow file: Arrow's own format loses the names of map keys and values.
    schema, _ = reference.decode_file((GOLDEN / fixture["file"]).read_bytes())
    with fm.MosaicWriter(
        sink, schema, checksum=False, annex=False, **our_options(fixture)
    ) as writer:
        for batch in input_batches(fixture):
            writer.write_batch(batch)
    return sink.getvalue()


def test_no_golden_file_is_missing_or_changed():
    assert len(FIXTURES) == 70
    for fixture in FIXTURES:
        for name, digest in [("file", "sha256"), ("expected", "expected_sha256")]:
            content = (GOLDEN / fixture[name]).read_bytes()
            assert hashlib.sha256(content).hexdigest() == fixture[digest], fixture[name]


@every_fixture
def test_the_content_is_read(fixture):
    assert_same(fm.read_table(GOLDEN / fixture["file"]), expected_content(fixture))


@every_fixture
def test_each_row_group_is_read(fixture):
    with (
        fm.MosaicFile(GOLDEN / fixture["file"]) as file,
        pa.ipc.open_file(GOLDEN / fixture["expected"]) as expected,
    ):
        assert file.num_row_groups == len(fixture["structure"]["row_groups"])
        for i in range(file.num_row_groups):
            group = pa.Table.from_batches([expected.get_batch(i)])
            assert_same(file.read_row_group(i), group)


@every_fixture
def test_each_column_is_read_alone(fixture):
    expected = expected_content(fixture)
    with fm.MosaicFile(GOLDEN / fixture["file"]) as file:
        # Of the widest fixtures some: the first and last, and those in between by a stride.
        for name in expected.column_names[:: 1 + expected.num_columns // 50]:
            assert_same(file.read(columns=[name]), expected.select([name]))


@every_fixture
def test_the_metadata_is_read(fixture):
    structure = fixture["structure"]
    names = sorted(expected_content(fixture).column_names, key=str.encode)
    positions = reference.bucket_columns(len(names), structure["num_buckets"])
    metadata = fm.read_metadata(GOLDEN / fixture["file"])
    assert metadata.num_rows == fixture["rows"]
    assert metadata.num_columns == fixture["num_columns"]
    assert metadata.num_buckets == structure["num_buckets"]
    assert metadata.compression == structure["compression"]
    assert metadata.format_version == 1
    assert metadata.num_row_groups == structure["num_row_groups"]
    for i, expected in enumerate(structure["row_groups"]):
        group = metadata.row_group(i)
        assert group.num_rows == expected["rows"]
        sizes = [bucket["compressed_size"] for bucket in expected["buckets"]]
        assert group.total_compressed_size == sum(sizes)
        stored = [b for b in group.buckets if b.compressed_size]
        for bucket, wanted in zip(stored, expected["buckets"], strict=True):
            assert bucket.index == wanted["bucket"]
            assert bucket.offset == wanted["offset"]
            assert bucket.compressed_size == wanted["compressed_size"]
            assert (bucket.uncompressed_size or 0) == wanted["bulk_decompress_size"]
            assert bucket.layout == wanted["layout"]
            assert list(bucket.columns) == [names[p] for p in positions[bucket.index]]
        nulls = {entry["column"]: entry["null_count"] for entry in expected["stats"]}
        assert {n: s.null_count for n, s in group.statistics.items()} == nulls


@every_fixture
def test_the_content_is_written_to_the_same_blocks(fixture):
    original = (GOLDEN / fixture["file"]).read_bytes()
    assert reference.decode_blocks(rewritten(fixture)) == reference.decode_blocks(original)


@pytest.mark.parametrize(
    "fixture",
    [f for f in FIXTURES if f["structure"]["compression"] == "none"],
    ids=lambda fixture: fixture["name"],
)
def test_without_compression_the_content_is_written_to_the_same_bytes(fixture):
    assert rewritten(fixture) == (GOLDEN / fixture["file"]).read_bytes()


def test_never_change_these_constants():
    def file_of(type: pa.DataType) -> bytes:
        sink = io.BytesIO()
        options = {"compression": "none", "num_buckets": 1, "annex": False}
        fm.write_table(pa.table({"a": pa.array([], type)}), sink, **options)
        return sink.getvalue()

    def descriptor_of(type: pa.DataType) -> str:
        data = file_of(type)
        (index_offset,) = struct.unpack(">Q", data[-32:-24])
        # Before it: length, numColumns, numBuckets, nameEncoding, the name; after it: the order.
        return data[4 + 3 + 3 : index_offset - 1].hex()

    footer = file_of(pa.int32())[-32:]
    assert footer[-8:] == b"\0\x01\0\0MOSA"
    assert {
        type: descriptor_of(type)
        for type in [
            pa.bool_(),
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.float32(),
            pa.float64(),
            pa.date32(),
            pa.string(),
            pa.binary(),
            pa.decimal128(20, -2),
            pa.time32("ms"),
            pa.timestamp("ms"),
            pa.timestamp("us"),
            pa.timestamp("ns"),
            pa.timestamp("ns", "UTC"),
            pa.list_(pa.int32()),
            pa.map_(pa.string(), pa.int32()),
        ]
    } == {
        pa.bool_(): "0001",
        pa.int8(): "0101",
        pa.int16(): "0201",
        pa.int32(): "0301",
        pa.int64(): "0401",
        pa.float32(): "0501",
        pa.float64(): "0601",
        pa.date32(): "0701",
        pa.string(): "0a01",
        pa.binary(): "0d01",
        pa.decimal128(20, -2): "0e0114feffffff0f",
        pa.time32("ms"): "0f0103",
        pa.timestamp("ms"): "100103",
        pa.timestamp("us"): "100106",
        pa.timestamp("ns"): "100109",
        pa.timestamp("ns", "UTC"): "11010903555443",
        pa.list_(pa.int32()): "1201046974656d0301",
        pa.map_(pa.string(), pa.int32()): "130107656e7472696573036b65790a000576616c75650301",
    }
    defaults = inspect.signature(fm.MosaicWriter).parameters
    assert defaults["num_buckets"].default == 100
    assert defaults["max_dict_entries"].default is None
    assert defaults["max_dict_total_bytes"].default is None


def test_never_change_the_codes_of_the_encodings():
    # Plain 0, constant 1, dictionary 2, all null 3: two bits a column, the lowest first.
    table = pa.table(
        {
            "a plain": pa.array(range(12), pa.int8()),
            "b constant": pa.array([7] * 12, pa.int8()),
            "c dictionary": pa.array(["red", "green", "blue"] * 4),
            "d all null": pa.nulls(12, pa.int8()),
        }
    )
    sink = io.BytesIO()
    fm.write_table(table, sink, compression="none", num_buckets=1)
    assert sink.getvalue()[0] == 0b11_10_01_00


def test_the_names_of_map_keys_and_values_are_read():
    type = fm.read_schema(GOLDEN / "nested_required_names.mosaic").field("mm").type
    assert (type.key_field.name, type.item_field.name) == ("k", "v")
    assert type.item_type.value_field.name == "w"
