"""CSV and JSON lines: types by all of the text, and errors that name the column."""

import contextlib
import io
import json

import pyarrow as pa
import pytest

from fastmosaic.convert import text
from fastmosaic.errors import CorruptFileError, SchemaMismatchError


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(text, "BLOCK_BYTES", 64)


def schema_of(content, format, **given):
    def open_stream():
        return contextlib.closing(io.BytesIO(content.encode()))

    return text.read_schema(open_stream, format, lambda names: given)


def read(content, format, schema, columns=None, dialect=text.DEFAULT_DIALECT):
    stream = io.BytesIO(content.encode())
    with text.open_text(stream, format, schema, columns, dialect) as reader:
        return pa.Table.from_batches(list(text.rows(reader, schema.names)))


def test_columns_of_csv_get_the_type_of_their_first_value():
    rows = ["id,late,word,when,never", *["1,,,,"] * 50, "1,2.5,,,", *["1,,,,"] * 50, "1,,NA,,"]
    content = "\n".join([*rows, "1,,,2020-01-01,"])
    schema = schema_of(content, "csv")
    assert schema.names == ["id", "late", "word", "when", "never"]
    assert schema.types == [pa.int64(), pa.float64(), pa.string(), pa.date32(), pa.null()]
    found = read(content, "csv", schema)
    assert found["late"].to_pylist() == [None] * 50 + [2.5] + [None] * 52
    assert found["word"].drop_null().to_pylist() == ["NA"]


def test_types_that_are_known():
    schema = schema_of("id,x\n1,\n", "csv", x=pa.decimal128(5, 2), id=pa.int8())
    assert schema == pa.schema({"id": pa.int8(), "x": pa.decimal128(5, 2)})


def test_fields_of_json_are_those_of_all_lines():
    rows = [{"a": 1, "b": None}] * 20 + [{"a": 1.5, "c": {"x": 1}}, {"b": [1], "c": {"y": "z"}}]
    schema = schema_of("\n".join(map(json.dumps, rows)), "json")
    assert schema == pa.schema(
        {
            "a": pa.float64(),
            "b": pa.list_(pa.int64()),
            "c": pa.struct({"x": pa.int64(), "y": pa.string()}),
        }
    )


def test_one_line_of_json_longer_than_a_block():
    row = {f"field {i}": i for i in range(100)}
    assert schema_of(json.dumps(row), "json").names == list(row)
    assert schema_of(json.dumps(row) + "\n\n" + json.dumps({"x": 1}), "json").names[-1] == "x"


def test_days_and_times_of_json_are_texts():
    schema = pa.schema({"day": pa.date32(), "id": pa.int8()})
    found = read('{"day": "2020-01-31", "id": 1}\n', "json", schema)
    assert found.to_pylist() == [{"day": "2020-01-31", "id": 1}]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_json_without_rows(content):
    with pytest.raises(CorruptFileError, match="the file is empty"):
        schema_of(content, "json")


def test_json_of_types_that_nothing_joins():
    with pytest.raises(CorruptFileError, match=r"/a\) changed from number to string"):
        schema_of('{"a": 1}\n' * 20 + '{"a": "x"}\n', "json")


def test_a_value_of_another_type():
    content = "id,x\n" + "1,2\n" * 50 + "1,y\n"
    for columns in (None, ["x"], ["x", "id"]):
        with pytest.raises(text.ValueMismatchError) as caught:
            read(content, "csv", pa.schema({"id": pa.int64(), "x": pa.int64()}), columns)
        assert caught.value.column == "x"
        assert str(caught.value) == "column 'x': read as int64, but there is 'y' in row 52"


def test_a_row_that_is_too_long():
    content = "x\n" + "1\n" * 100 + "2" * 200 + "\n"
    with pytest.raises(CorruptFileError, match="a row of it is longer than 64 bytes"):
        read(content, "csv", pa.schema({"x": pa.string()}))


def test_a_long_value_is_not_shown_in_full(monkeypatch):
    monkeypatch.setattr(text, "BLOCK_BYTES", 1 << 20)
    content = "x\n" + "1\n" * 100 + "y" * 50 + "z" * 10_000 + "\n"
    with pytest.raises(SchemaMismatchError) as caught:
        read(content, "csv", pa.schema({"x": pa.int64()}), ["x"])
    assert len(str(caught.value)) < 300


def test_dialects():
    dialect = text.Dialect(";", has_header=False)
    schema = pa.schema({"f0": pa.int64(), "f1": pa.string()})
    assert read('1;"a;b"\n', "csv", schema, None, dialect).to_pylist() == [{"f0": 1, "f1": "a;b"}]


def test_columns_that_are_wanted():
    schema = pa.schema({"a": pa.int64(), "b": pa.int64(), "c": pa.int64()})
    assert read("a,b\n1,2\n", "csv", schema, ["c", "b"]).to_pylist() == [{"c": None, "b": 2}]
    found = read('{"a": 1, "b": 2}\n', "json", schema, ["c", "b"])
    assert found.to_pylist() == [{"c": None, "b": 2}]


def test_leading_zeros_are_reported():
    content = "zip,id,when\n" + "12345,1,05:00\n" * 2 + "00123,0,06:00\n"
    message = (
        "lost in column 'zip', which is read as integers; use --type 'zip=string' to keep them"
    )
    with pytest.warns(text.LeadingZerosWarning, match=message):
        schema = schema_of(content, "csv")
    assert schema.field("zip").type == pa.int64()


def test_leading_zeros_in_columns_that_are_empty_at_first():
    content = "id,zip\n" + "1,\n" * 50 + "1,-007\n"
    with pytest.warns(text.LeadingZerosWarning, match="lost in column 'zip'"):
        assert schema_of(content, "csv").field("zip").type == pa.int64()


def test_many_columns_with_leading_zeros_are_counted():
    names = [f"c{i}" for i in range(7)]
    content = f"{','.join(names)}\n{','.join(['01'] * 7)}\n"
    with pytest.warns(text.LeadingZerosWarning, match=r"in 7 columns \('c0', .*'c4', \.\.\.\)"):
        schema_of(content, "csv")


@pytest.mark.parametrize(
    "content",
    [
        "x,y\n0,0.5\n-0,1\n10,2020-01-01\n",
        "x\n2020-01-01\n",
        "x\n00:30\n",
        "x\n00.5\n",
        "x\na01\n01\n",
    ],
)
def test_zeros_that_are_kept_are_not_reported(content, recwarn):
    schema_of(content, "csv")
    assert not recwarn


def test_leading_zeros_of_a_column_whose_type_is_given(recwarn):
    assert schema_of("zip\n00123\n", "csv", zip=pa.string()).types == [pa.string()]
    assert schema_of("zip\n00123\n", "csv", zip=pa.int32()).types == [pa.int32()]
    assert not recwarn


def test_dates_in_json_are_dates():
    rows = [{"day": "2024-01-31", "at": "2024-01-31 12:00:00", "both": "2024-01-31", "text": "x"}]
    rows += [{"day": None}] * 20
    rows += [{"day": "1969-12-31", "at": "2024-01-31", "both": "2024-01-31 12:00:00"}]
    content = "\n".join(map(json.dumps, rows))
    schema = schema_of(content, "json")
    assert schema.field("day").type == pa.date32()
    assert pa.types.is_timestamp(schema.field("at").type)
    assert pa.types.is_timestamp(schema.field("both").type)
    assert schema.field("text").type == pa.string()


@pytest.mark.parametrize(
    ("texts", "type"),
    [
        (["2024-01-31 12:00:00.5", None], pa.timestamp("ms")),
        (["2024-01-31T12:00:00.123456Z", "2024-01-31T12:00:00.1Z"], pa.timestamp("us", "UTC")),
        (["2024-01-31 12:00:00.123456789", "2024-01-31"], pa.timestamp("ns")),
        (["2024-01-31 12:00:00.5", "2024-01-31 12:00:00.5Z"], pa.string()),
        (["2024-13-31 12:00:00.5", "x"], pa.string()),
        (["2024-13-31 12:00:00.5"], pa.string()),
        (["9999-01-31 12:00:00.123456789"], pa.string()),
        (["2024-01-31", "x"], pa.string()),
    ],
)
def test_timestamps_in_json(texts, type):
    content = "\n".join(json.dumps({"x": text, "filler": "-" * 40}) for text in texts)
    assert schema_of(content, "json").field("x").type == type


def test_dates_inside_of_objects_are_dates():
    rows = [
        {"s": {"day": "2024-01-31", "text": "2024-01-31"}, "l": [{"at": "2024-01-31 12:00:00.5"}]}
    ]
    rows += [{"s": None, "l": []}] * 20
    rows += [{"s": {"text": "x", "late": ["2024-01-31", None]}, "l": [None, {"at": None}]}]
    content = "\n".join(map(json.dumps, rows))
    schema = schema_of(content, "json")
    late = pa.list_(pa.date32())
    struct = pa.struct({"day": pa.date32(), "text": pa.string(), "late": late})
    assert schema.field("s").type == struct
    assert schema.field("l").type == pa.list_(pa.struct({"at": pa.timestamp("ms")}))


def test_types_of_fields_are_given(monkeypatch):
    monkeypatch.setattr(text, "BLOCK_BYTES", 1000)
    content = json.dumps({"s": {"x": 1, "day": "2024-01-31"}, "took": 5, "half": 0.5})
    given = {"s.x": pa.int8(), "s.day": pa.string(), "took": pa.duration("s"), "half": pa.float16()}
    schema = schema_of(content, "json", **given)
    assert schema == pa.schema(
        {
            "s": pa.struct({"x": pa.int8(), "day": pa.string()}),
            "took": pa.duration("s"),
            "half": pa.float16(),
        }
    )
    found = read(content, "json", schema)  # as types that Arrow reads, which are cast later
    assert found.to_pylist() == [{"s": {"x": 1, "day": "2024-01-31"}, "took": 5, "half": 0.5}]
    assert read("half\n0.5", "csv", pa.schema({"half": pa.float16()}))["half"].to_pylist() == [0.5]
