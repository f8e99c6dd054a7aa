"""Files of several formats that are written batch by batch."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather, ipc, orc

import fastmosaic as fm
from fastmosaic.convert.write import check_options, open_target, schema_for
from fastmosaic.errors import UnsupportedError

FORMATS = ["mosaic", "parquet", "orc", "arrow", "csv", "json"]
READERS = {
    "mosaic": fm.read_table,
    "parquet": pq.read_table,
    "orc": orc.read_table,
    "arrow": feather.read_table,
    "csv": csv.read_csv,
    "json": lambda path: pa.Table.from_pylist(
        [json.loads(line) for line in path.read_text().splitlines()],
        pa.schema({"id": pa.int64(), "word": pa.string()}),
    ),
}
BATCH = pa.record_batch({"id": [1, 2], "word": ["a", None]})


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_appears_when_it_is_closed(tmp_path, format):
    path = tmp_path / "file"
    target = open_target(format, str(path), None, BATCH.schema, {})
    target.write(BATCH)
    target.write(BATCH)
    assert not path.exists()
    assert target.close() == path.stat().st_size
    assert os.listdir(tmp_path) == ["file"]
    assert READERS[format](path)["id"].to_pylist() == [1, 2, 1, 2]


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_is_abandoned(tmp_path, format):
    path = tmp_path / "file"
    path.write_text("precious")
    target = open_target(format, str(path), None, BATCH.schema, {})
    target.write(BATCH)
    target.abandon()
    del target
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_text() == "precious"


@pytest.mark.parametrize("format", FORMATS)
def test_no_rows(tmp_path, format):
    target = open_target(format, str(tmp_path / "file"), None, BATCH.schema, {})
    target.close()
    found = READERS[format](tmp_path / "file")
    assert found.num_rows == 0
    assert found.column_names == ["id", "word"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_disk_that_is_full(format):
    target = open_target(format, "/dev/full", None, BATCH.schema, {})
    target.write(BATCH)
    with pytest.raises(OSError, match="No space left"):
        target.close()
    target.abandon()


class Interrupted:
    """A file in whose use Ctrl-C is pressed."""

    def write(self, data):
        raise KeyboardInterrupt


@pytest.mark.parametrize("format", FORMATS)
def test_ctrl_c_in_the_middle_of_a_write(format):
    def write():
        target = open_target(format, Interrupted(), None, BATCH.schema, {})
        target.write(BATCH)
        target.close()

    with pytest.raises(KeyboardInterrupt):
        write()


def test_an_arrow_stream(tmp_path):
    target = open_target("arrow", str(tmp_path / "s"), None, BATCH.schema, {"stream": True})
    target.write(BATCH)
    target.close()
    assert ipc.open_stream(tmp_path / "s").read_all().num_rows == 2


def test_types_that_a_format_lacks():
    schema = pa.schema(
        {"u": pa.uint8(), "d": pa.dictionary(pa.int8(), pa.string()), "t": pa.time32("s")}
    )
    assert schema_for("orc", schema).types == [pa.int16(), pa.string(), pa.time32("s")]
    assert schema_for("arrow", schema).types == [pa.uint8(), pa.string(), pa.time32("s")]
    assert schema_for("parquet", schema) is schema
    with pytest.raises(UnsupportedError, match=r"column 't': orc does not support time32\[s\]"):
        check_options("orc", schema_for("orc", schema), {})
    nested = pa.schema({"x": pa.list_(pa.uint8())})
    assert schema_for("orc", nested).types == [pa.list_(pa.int16())]


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("mosaic", {"bukets": 3}, "unknown option 'bukets'"),
        ("mosaic", {"num_bucket": 3}, "did you mean 'num_buckets'"),
        ("parquet", {"nope": 3}, "options of parquet: .*nope"),
        ("json", {"indent": 3}, "options of json: unknown option 'indent'"),
        ("parquet", {"compression": "nope"}, "parquet: Unsupported compression"),
        ("orc", {"compression": "nope"}, "NOPE"),
        ("arrow", {"compression": "gzip"}, "must be lz4, zstd or None"),
    ],
)
def test_options_that_do_not_fit(format, options, message):
    with pytest.raises(ValueError, match=message):
        check_options(format, BATCH.schema, options)


def test_all_columns_that_a_format_does_not_support_are_listed():
    schema = pa.schema({"a": pa.binary(), "b": pa.int8(), "c": pa.list_(pa.int8())})
    with pytest.raises(UnsupportedError, match=r"^2 columns cannot be stored:") as caught:
        check_options("csv", schema, {})
    assert str(caught.value).splitlines()[1:] == [
        "  column 'a': csv does not support binary",
        "  column 'c': csv does not support list<item: int8>",
    ]
