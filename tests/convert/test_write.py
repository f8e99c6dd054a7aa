"""Files of several formats that are written batch by batch."""

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather, ipc, orc

import fastmosaic as fm
from fastmosaic.convert.supported import schema_for
from fastmosaic.convert.write import check_options, open_target
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
    assert schema_for("arrow", schema) is schema
    assert schema_for("parquet", schema) is schema
    with pytest.raises(UnsupportedError, match=r"column 't': orc does not support time32\[s\]"):
        check_options("orc", schema_for("orc", schema), {})
    nested = pa.schema({"x": pa.list_(pa.uint8())})
    assert schema_for("orc", nested).types == [pa.list_(pa.int16())]
    inner = pa.struct({"big": pa.uint64(), "kind": pa.dictionary(pa.int8(), pa.string())})
    wider = pa.struct({"big": pa.decimal128(20, 0), "kind": pa.string()})
    assert schema_for("orc", pa.schema({"x": pa.list_(inner)})).types == [pa.list_(wider)]


def test_types_of_parquet():
    """Dictionaries of text come back from Parquet as dictionaries, others as other types."""
    text, odd = pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.duration("s"))
    schema = pa.schema(
        {"text": text, "odd": odd, "runs": pa.run_end_encoded(pa.int32(), pa.int8())}
    )
    assert schema_for("parquet", schema).types == [text, pa.duration("s"), pa.int8()]
    scales = pa.schema({"big": pa.decimal128(19, -3), "small": pa.decimal128(3, 10)})
    assert schema_for("parquet", scales).types == [pa.decimal128(22, 0), pa.decimal128(10, 10)]


@pytest.mark.parametrize(
    ("format", "type", "message"),
    [
        ("orc", pa.duration("s"), "orc does not support duration[s]; cast it to int64"),
        ("orc", pa.time64("us"), "orc does not support time64[us]; cast it to int64"),
        ("orc", pa.month_day_nano_interval(), "orc does not support month_day_nano_interval"),
        ("orc", pa.decimal256(50, 2), "orc does not support decimal256(50, 2)"),
        (
            "parquet",
            pa.month_day_nano_interval(),
            "parquet does not support month_day_nano_interval",
        ),
        ("parquet", pa.struct([]), "parquet does not support struct<>; JSON lines support it"),
        ("json", pa.binary(), "json does not support binary"),
    ],
)
def test_the_error_names_the_field(format, type, message):
    inner = pa.struct({"name": pa.string(), "took": type})
    schema = pa.schema({"id": pa.int8(), "info": pa.struct({"runs": pa.list_(inner)})})
    with pytest.raises(UnsupportedError) as caught:
        check_options(format, schema_for(format, schema), {})
    assert str(caught.value) == f"column 'info.runs.took': {message}"


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
        "  column 'c': csv does not support list<item: int8>; JSON lines support it",
    ]


@pytest.mark.parametrize("stream", [False, True])
def test_dictionaries_of_an_arrow_file_grow(tmp_path, monkeypatch, stream):
    monkeypatch.setattr("fastmosaic.convert.write._JOINED_BYTES", 1)  # a table for each batch
    inner = pa.dictionary(pa.int8(), pa.string(), ordered=True)
    schema = pa.schema({"kind": inner, "in": pa.struct({"kinds": pa.list_(inner)})})
    target = open_target("arrow", str(tmp_path / "f"), None, schema, {"stream": stream})
    words = ["b", "a", "c", "a"]
    for number in range(len(words)):
        # The first value of each dictionary is unused.
        values = pa.array([f"unused {number}", words[number]])
        kinds = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int8()), values, ordered=True)
        lists = pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), kinds)
        struct = pa.StructArray.from_arrays([lists], fields=list(schema.field("in").type))
        target.write(pa.record_batch([kinds, struct], schema=schema))
    target.close()
    opens = ipc.open_stream if stream else ipc.open_file
    found = opens(tmp_path / "f").read_all()
    found.validate(full=True)
    assert found.schema == schema
    expected = [value for word in words for value in (word, None)]
    assert found["kind"].to_pylist() == expected
    assert found["in"].to_pylist()[::2] == [{"kinds": [word, None]} for word in words]
    last = found["kind"].chunks[-1].dictionary.to_pylist()
    assert last == ["unused 0", "b", "unused 1", "a", "unused 2", "c", "unused 3"]


def test_more_values_than_a_dictionary_can_number(monkeypatch):
    monkeypatch.setattr("fastmosaic.convert.write._JOINED_BYTES", 1)
    schema = pa.schema({"kind": pa.dictionary(pa.int8(), pa.string())})
    target = open_target("arrow", pa.BufferOutputStream(), None, schema, {})
    batches = []
    for start in (0, 100):
        words = pa.array([str(start + i) for i in range(100)])
        array = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), words)
        batches.append(pa.record_batch([array], schema=schema))
    target.write(batches[0])
    with pytest.raises(UnsupportedError, match="column 'kind': all rows together have more values"):
        target.write(batches[1])
    target.abandon()


def test_json_of_nested_columns(tmp_path):
    day = pa.array([19753, None], pa.date32())
    nanos = pa.array([1, None], pa.timestamp("ns"))
    took = pa.array([5, None], pa.duration("s"))
    pairs = pa.array([[(1, 1.5)], None], pa.map_(pa.date32(), pa.float32()))
    columns = [day, nanos, took, pairs]
    struct = pa.StructArray.from_arrays(columns, ["day", "at", "took", "map"])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), struct)
    batch = pa.record_batch({"s": struct, "l": lists})
    target = open_target("json", str(tmp_path / "f"), None, batch.schema, {})
    target.write(batch)
    target.close()
    first, second = (json.loads(line) for line in (tmp_path / "f").read_text().splitlines())
    value = {
        "day": "2024-01-31",
        "at": "1970-01-01 00:00:00.000000001",
        "took": 5,
        "map": {"1970-01-02": 1.5},
    }
    none = dict.fromkeys(value)
    assert first == {"s": value, "l": [value, none]}
    assert second == {"s": none, "l": []}


def test_json_has_no_key_twice():
    pairs = pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int8()))
    batch = pa.record_batch({"m": pairs})
    target = open_target("json", pa.BufferOutputStream(), None, batch.schema, {})
    target.write(batch)
    with pytest.raises(UnsupportedError, match="column 'm': a map contains a key more than once"):
        target.close()
