"""Row groups copied from one file to another as bytes."""

import io
from dataclasses import replace

import pyarrow as pa
import pytest
import reference

import fastmosaic as fm
from fastmosaic.file.row_group import StoredRowGroup
from fastmosaic.format.metadata import FileMetaData
from fastmosaic.storage.source import open_source

TABLE = pa.table(
    {
        "id": range(1000),
        "text": [None if n % 7 == 0 else f"text {n % 50}" for n in range(1000)],
        "list": [[n, None] if n % 3 else None for n in range(1000)],
        "constant": [1.5] * 1000,
        "nothing": pa.nulls(1000, pa.string()),
    }
)


def written(table=TABLE, **options):
    sink = io.BytesIO()
    fm.write_table(table, sink, row_group_size=400, **options)
    return sink.getvalue()


def groups(data):
    metadata = fm.read_metadata(data)
    source = open_source(data)
    return [StoredRowGroup(source, metadata, i) for i in range(metadata.num_row_groups)]


def copied(*files, schema=TABLE.schema, **options):
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, schema, **options) as writer:
        for data in files:
            for group in groups(data):
                writer.append_row_group(group)
    return sink.getvalue()


OPTIONS = [
    {},
    {"compression": "none"},
    {"num_buckets": 2, "write_statistics": True},
    {"page_size_threshold": 0},
    {"array_layout": "block"},
    {"annex": False},
    {"checksum": False, "compression_level": 19},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_copy_of_every_row_group_is_the_same_file(options):
    data = written(**options)
    assert copied(data, **options) == data


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_files_are_joined_by_copying(options):
    joined = copied(written(**options), written(TABLE.slice(300), **options), **options)
    assert fm.read_table(joined).equals(pa.concat_tables([TABLE, TABLE.slice(300)]))
    assert fm.verify(joined).ok
    metadata = fm.read_metadata(joined)
    rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert rows == [400, 400, 200, 400, 300]


def test_statistics_are_copied():
    data = written(write_statistics=["id", "text"])
    metadata = fm.read_metadata(copied(data, data))
    assert metadata.row_group(4).statistics["id"] == fm.ColumnStatistics(0, 400, 799)
    table = fm.read_table(copied(data, data), columns=["id"], filters=[("id", "=", 999)])
    assert table["id"].to_pylist() == [999, 999]


def test_rows_that_were_written_before_come_before():
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, TABLE.schema) as writer:
        writer.write(TABLE.slice(0, 5))
        (group, *_) = groups(written())
        writer.append_row_group(group)
        writer.write(TABLE.slice(5, 5))
        assert writer.num_row_groups == 2
        assert 0 < writer.estimated_file_size() < 20_000
    expected = pa.concat_tables([TABLE.slice(0, 5), TABLE.slice(0, 400), TABLE.slice(5, 5)])
    assert fm.read_table(sink.getvalue()).equals(expected)
    assert fm.verify(sink.getvalue()).ok


def test_the_order_of_columns_may_differ_and_that_of_the_file_wins():
    names = ["nothing", "list", "id", "constant", "text"]
    data = copied(written(TABLE.select(names)), written())
    assert fm.read_table(data).equals(pa.concat_tables([TABLE, TABLE]))


def test_a_table_without_columns():
    table = pa.table({"a": [1] * 500}).select([])
    joined = copied(written(table), written(table), schema=table.schema)
    assert fm.read_metadata(joined).num_rows == 1000


def test_the_annex_may_be_added_and_left_out():
    assert fm.verify(copied(written(annex=False))).ok
    assert fm.read_metadata(copied(written(), annex=False)).annex is None


NOT_NULL = pa.schema([TABLE.schema.field(0).with_nullable(False), *list(TABLE.schema)[1:]])


@pytest.mark.parametrize(
    ("other", "options", "message"),
    [
        (TABLE.drop(["id"]), {}, "it lacks the column 'id' of the new file"),
        (TABLE.rename_columns(["id", "txt", *TABLE.column_names[2:]]), {}, "it has a column 'txt'"),
        (TABLE.set_column(0, "id", TABLE["id"].cast(pa.int32())), {}, "'id' is int32, and int64"),
        (TABLE.cast(NOT_NULL), {}, "'id' is int64 not null, and int64 in the new file"),
        (TABLE, {"num_buckets": 2}, "have 2 buckets, those of the new file 5"),
        (TABLE, {"compression": "none"}, "have compression 'none', those of the new file 'zstd'"),
        (TABLE, {"array_layout": "block"}, "stored as array blocks, and list<.*> in the new file"),
    ],
    ids=["fewer", "renamed", "type", "nullable", "buckets", "compression", "layout"],
)
def test_a_row_group_of_another_kind_is_refused(other, options, message):
    sink = io.BytesIO()
    (group, *_) = groups(written(other, **options))
    with fm.MosaicWriter(sink, TABLE.schema) as writer:
        with pytest.raises(fm.SchemaMismatchError, match=message):
            writer.append_row_group(group)
        writer.write(TABLE)
    assert fm.read_table(sink.getvalue()).equals(TABLE)


def test_damaged_bytes_are_not_copied():
    data = bytearray(written())
    data[100] ^= 1
    sink = io.BytesIO()
    (group, *_) = groups(bytes(data))
    writer = fm.MosaicWriter(sink, TABLE.schema)
    with pytest.raises(fm.CorruptFileError, match="row group 0: the checksum of its buckets"):
        writer.append_row_group(group)
    with pytest.raises(ValueError, match="the writer was aborted"):
        writer.close()


def test_a_row_group_that_is_not_there():
    data = written()
    with pytest.raises(IndexError, match="row group 3"):
        StoredRowGroup(open_source(data), fm.read_metadata(data), 3)


@pytest.mark.parametrize("fault", ["missing", "paged"])
def test_a_row_group_whose_buckets_cannot_be_read(fault):
    data = written(compression="none", annex=False)
    metadata = fm.read_metadata(data)
    entries = [reference.Bucket(number, *place) for number, place in metadata.bucket_places(0)]
    if fault == "missing":
        entries.pop(2)
    else:
        entries[2] = entries[2]._replace(raw_size=0)
    index = reference.encode_row_group(reference.RowGroup(400, entries, []))
    footer = replace(metadata.footer, num_row_groups=1)
    forged = FileMetaData(footer, metadata.schema_block, index)
    with pytest.raises(fm.CorruptFileError, match="row group 0, bucket 2: the bucket is"):
        StoredRowGroup(open_source(data), forged, 0)


def test_a_closed_writer_appends_nothing():
    (group, *_) = groups(written())
    writer = fm.MosaicWriter(io.BytesIO(), TABLE.schema)
    writer.close()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.append_row_group(group)
