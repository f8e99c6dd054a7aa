"""MosaicTable.append: rows of any kind of data, matched by name and cast if no value changes."""

import datetime
from decimal import Decimal

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import data_files

import fastmosaic as fm

TYPES = {
    "integer": pa.array([1, None, -3], pa.int16()),
    "unsigned": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "float": pa.array([1.5, None, float("inf")], pa.float32()),
    "half": pa.array([1.5, None, -2], pa.float16()),
    "truth": pa.array([True, None, False]),
    "text": pa.array(["a", None, ""]),
    "long": pa.array(["a", None, "é"], pa.large_string()),
    "view": pa.array(["a", None, "b" * 40], pa.string_view()),
    "bytes": pa.array([b"a", None, b"\xff"]),
    "fixed": pa.array([b"abc", None, b"def"], pa.binary(3)),
    "decimal": pa.array([Decimal("1.10"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
    "date": pa.array([datetime.date(2026, 11, 1), None, datetime.date(1, 1, 1)]),
    "instant": pa.array([0, None, 10**15], pa.timestamp("us", "Europe/Berlin")),
    "took": pa.array([1, None, -5], pa.duration("ns")),
    "time": pa.array([1, None, 86_399_999_999], pa.time64("us")),
    "kind": pa.array(["x", None, "y"]).dictionary_encode(),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "texts": pa.array([["a", None], None, []], pa.list_(pa.string())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "inner": pa.array([{"l": [{"z": 1}]}, None, {"l": None}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "nothing": pa.nulls(3),
}
ALL = pa.table(TYPES)


@pytest.fixture
def table(tmp_path):
    data = pa.table({"id": pa.array([1, 2], pa.int64()), "a": [0.5, None], "b": ["x", "y"]})
    return fm.MosaicTable.create(tmp_path / "t", data)


def last(table):
    return fm.read_table(table._store.path).to_pylist()[-1]


def test_rows_follow_those_that_are_there(table):
    change = table.append(pa.table({"id": [3], "a": [2.5], "b": ["z"]}))
    assert (change.version, change.operation, change.committed) == (2, "append", True)
    assert dict(change.summary) == {"rows": 1, "files": 1}
    assert repr(change) == "<TableChange: append, version 2, rows: 1, files: 1>"
    assert table.read()["id"].to_pylist() == [1, 2, 3]
    assert (table.version, table.num_rows, len(table.files)) == (2, 3, 2)
    assert repr(table).endswith(": version 2, 3 rows in 2 files>")


def test_columns_are_matched_by_name(table):
    table.append(pa.table({"b": ["z"], "id": [3]}))
    assert last(table) == {"id": 3, "a": None, "b": "z"}
    table.append(pa.table({"a": [9.0]}))
    assert last(table) == {"id": None, "a": 9.0, "b": None}
    assert table.schema.names == ["id", "a", "b"]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("id", pa.array([3], pa.int8())),
        ("id", pa.array([3], pa.uint64())),
        ("a", pa.array([3], pa.int32())),
        ("a", pa.array([3.0], pa.float32())),
        ("b", pa.array(["3"], pa.string_view())),
        ("b", pa.array(["3"], pa.large_string())),
        ("b", pa.array(["3"]).dictionary_encode()),
        ("b", pa.nulls(1)),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.type),
)
def test_types_are_cast_if_no_value_changes(table, column, values):
    before = table.schema
    table.append(pa.table({column: values}))
    expected = values.to_pylist()[0]
    assert last(table)[column] == expected
    assert table.schema == before


@pytest.mark.parametrize(
    ("column", "values"),
    [("id", [1.5]), ("id", ["x"]), ("a", [2**53 + 1]), ("id", [[1]])],
    ids=str,
)
def test_values_that_would_change_are_refused(table, column, values):
    before = data_files(table._store.path)
    with pytest.raises(fm.SchemaMismatchError, match=f"'{column}'"):
        table.append(pa.table({column: values}))
    assert table.version == 1
    assert data_files(table._store.path) == before


def test_other_columns_are_refused(table):
    with pytest.raises(fm.SchemaMismatchError, match=r"'c'.*add it with add_columns first"):
        table.append(pa.table({"id": [3], "c": [1]}))
    twice = pa.Table.from_arrays([pa.array([1])] * 2, names=["id", "id"])
    with pytest.raises(fm.SchemaMismatchError, match=r"'id'.*more than once"):
        table.append(twice)
    assert table.refresh().version == 1


def test_nothing_is_appended_if_there_are_no_rows(table):
    before = data_files(table._store.path)
    for data in (pa.table({"id": pa.array([], pa.int64())}), iter([pa.record_batch({"a": []})])):
        change = table.append(data)
        assert (change.version, change.committed) == (1, False)
        assert repr(change) == "<TableChange: append, nothing to do>"
    assert data_files(table._store.path) == before


def test_all_types_are_appended(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", ALL.schema)
    table.append(ALL)
    assert table.schema == ALL.schema
    table.append(ALL.select(ALL.schema.names[::-1]))
    table.append(ALL.slice(1, 1))
    everything = ALL.to_pylist()
    found = fm.read_table(tmp_path / "t")
    assert found.schema == ALL.schema
    assert found.to_pylist() == [*everything, *everything, everything[1]]
    table.append(ALL.select(["kind", "struct"]))
    assert fm.read_table(tmp_path / "t").to_pylist()[-1] == {
        **dict.fromkeys(ALL.schema.names),
        "kind": "y",
        "struct": {"a": None, "b": None},
    }


def test_other_dictionaries_are_united(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", ALL.select(["kind"]))
    table.append(pa.table({"kind": pa.array(["z", "x"]).dictionary_encode()}))
    table.append(pa.table({"kind": ["plain"]}))
    found = fm.read_table(tmp_path / "t")["kind"]
    assert pa.types.is_dictionary(found.type)
    assert found.to_pylist() == ["x", None, "y", "z", "x", "plain"]


@pytest.mark.parametrize("kind", ["pandas", "polars", "reader", "batches", "dataset", "pylist"])
def test_any_data_can_be_appended(kind, table, tmp_path):
    data = pa.table({"id": [3, 4], "b": ["z", None], "a": [None, 1.0]})
    if kind == "dataset":
        fm.write_table(data, tmp_path / "x.mosaic")
    given = {
        "pandas": data.to_pandas,
        "polars": lambda: pl.from_arrow(data),
        "reader": data.to_reader,
        "batches": lambda: iter(data.to_batches(max_chunksize=1)),
        "dataset": lambda: fm.MosaicDataset(tmp_path / "x.mosaic"),
        "pylist": lambda: pa.Table.from_pylist(data.to_pylist()),
    }
    table.append(given[kind]())
    rows = fm.read_table(table._store.path).to_pylist()[2:]
    assert rows == data.select(["id", "a", "b"]).to_pylist()


def test_a_table_is_appended_to_itself(table):
    table.append(table.dataset())
    assert table.read()["id"].to_pylist() == [1, 2, 1, 2]


def test_files_are_divided_as_asked(table):
    change = table.append(
        pa.table({"id": range(10)}), max_rows_per_file=4, row_group_size=2, num_buckets=1
    )
    assert dict(change.summary) == {"rows": 10, "files": 3}
    metadata = fm.MosaicFile(f"{table._store.path}/{table.files[1]}").metadata
    assert (metadata.num_rows, metadata.num_row_groups) == (4, 2)
    with pytest.raises(ValueError, match="max_rows_per_file must be at least 1"):
        table.append(pa.table({"id": [1]}), max_rows_per_file=0)


def test_data_that_fail_leave_nothing(table):
    def batches():
        for number in range(5):
            yield pa.record_batch({"id": [number]})
        raise RuntimeError("no more")

    before = data_files(table._store.path)
    with pytest.raises(RuntimeError, match="no more"):
        table.append(batches(), max_rows_per_file=1)
    assert data_files(table._store.path) == before
    assert table.refresh().version == 1


def test_columns_that_must_not_be_null(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int64())])
    table = fm.MosaicTable.create(tmp_path / "t", schema)
    with pytest.raises(fm.SchemaMismatchError, match="'id'"):
        table.append(pa.table({"id": [None], "x": [1]}))
    with pytest.raises(fm.SchemaMismatchError, match=r"'id'.*must not be null"):
        table.append(pa.table({"x": [1]}))
    table.append(pa.table({"id": [1]}))
    assert table.schema == schema
    table.add_columns({"y": pc.field("id") + 1})
    assert table.read().to_pylist() == [{"id": 1, "x": None, "y": 2}]
