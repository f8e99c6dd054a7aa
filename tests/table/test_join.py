"""Columns whose values are joined by key."""

import datetime
import tempfile
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from living import data_files

import fastmosaic as fm
from fastmosaic.query.keys import KeyValues

DATA = pa.table({"id": [3, 1, None, 2, 1], "name": ["c", "a", None, None, "a"]})


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t")


@pytest.fixture
def table(path):
    """Two files."""
    table = fm.MosaicTable.create(path, DATA.slice(0, 2))
    table.append(DATA.slice(2))
    return table


@pytest.mark.parametrize(
    "make",
    [
        lambda data: data,
        lambda data: data.to_batches(max_chunksize=1),
        lambda data: data.to_reader(),
        lambda data: data.to_pandas(),
        pl.from_arrow,
    ],
    ids=["table", "batches", "reader", "pandas", "polars"],
)
def test_values_are_looked_up_by_key(make, table, path):
    values = pa.table({"x": ["three", "one", "none"], "id": [3, 1, 99]})
    change = table.add_columns(make(values), on="id")
    assert change.summary["columns"] == ["x"]
    assert fm.read_table(path)["x"].to_pylist() == ["three", "one", None, None, "one"]


def test_null_is_no_key(table):
    table.add_columns(pa.table({"id": [None, 1, None], "x": [5, 6, 7]}), on="id")
    assert table.read()["x"].to_pylist() == [None, 6, None, None, 6]
    values = pa.table({"id": [None, 2, 1, None], "name": [None, None, "a", "a"], "y": range(4)})
    table.add_columns(values, on=["id", "name"])
    assert table.read()["y"].to_pylist() == [None, 2, None, None, 2]


def test_keys_of_several_columns(table):
    values = pa.table({"id": [1, 3, 3, 1], "name": ["c", "a", "c", "a"], "x": [1, 2, 3, 4]})
    table.add_columns(values, on=["id", "name"])
    assert table.read()["x"].to_pylist() == [3, 4, None, None, 4]
    table.add_columns(values.rename_columns(["id", "name", "y"]), on=("name", "id"))
    assert table.read()["y"].to_pylist() == [3, 4, None, None, 4]


@settings(max_examples=15)
@given(st.integers(1, 4), st.randoms(use_true_random=False))
def test_many_keys_of_many_columns(num_keys, random):
    """Compared with a dictionary."""
    count = 200
    keys = [f"k{number}" for number in range(num_keys)]
    columns = {key: [random.choice([None, 1, 2, 3, 4, 5]) for _ in range(count)] for key in keys}
    schema = pa.schema(dict.fromkeys(keys, pa.int64()))
    rows = list(zip(*columns.values(), strict=True))
    known = {
        row: number
        for number, row in enumerate(set(rows))
        if None not in row and random.random() < 0.7
    }
    values = {key: [row[place] for row in known] for place, key in enumerate(keys)}
    data = pa.table({key: pa.array(values[key], pa.int8()) for key in keys}).append_column(
        "x", pa.array(known.values(), pa.int64())
    )
    with tempfile.TemporaryDirectory() as folder:
        table = fm.MosaicTable.create(f"{folder}/t", pa.table(columns, schema=schema))
        table.add_columns(data, on=keys)
        assert table.read()["x"].to_pylist() == [known.get(row) for row in rows]


def test_keys_that_differ_by_the_number_of_values_only():
    """More combinations of keys than 64 bits can count."""
    columns = [pa.chunked_array([[10**6 * i + j for j in range(20_000)]]) for i in range(6)]
    keys = KeyValues(columns)
    assert keys.repeated() is None
    assert keys.find([column.slice(5, 3) for column in columns]).to_pylist() == [5, 6, 7]


@pytest.mark.parametrize("on", ["id", ["id", "name"]], ids=str)
def test_a_key_must_be_unique(on, table, path):
    before = data_files(path)
    values = pa.table({"id": [1, 2, 1], "name": ["a", "b", "a"], "x": [1, 2, 3]})
    with pytest.raises(ValueError, match=r"the key id = 1.* more than once"):
        table.add_columns(values, on=on)
    assert data_files(path) == before


@pytest.mark.parametrize(
    ("keys", "other"),
    [
        (pa.array([1, 2], pa.int64()), pa.array([2], pa.uint8())),
        (pa.array([1, 2], pa.uint64()), pa.array([2], pa.int32())),
        (pa.array(["a", "b"]), pa.array(["b"]).dictionary_encode()),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["b"])),
        (pa.array(["a", "b"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()),
        (pa.array(["a", "b"], pa.string_view()), pa.array(["b"], pa.large_string())),
        (pa.array([b"a", b"b"]), pa.array([b"b"], pa.binary(1))),
        (pa.array([True, False]), pa.array([False])),
        (pa.array([1.5, 2.5]), pa.array([2.5], pa.float32())),
        (pa.array([1, 2], pa.timestamp("us", "UTC")), pa.array([2], pa.timestamp("us", "UTC"))),
        (pa.array([1, 2], pa.duration("s")), pa.array([2], pa.duration("s"))),
        (pa.array([1, 2], pa.time64("us")), pa.array([2], pa.time64("us"))),
        (
            pa.array([datetime.date(1, 1, 1), datetime.date(2, 1, 1)]),
            pa.array([datetime.date(2, 1, 1)]),
        ),
        (
            pa.array([Decimal("1.1"), Decimal("2.2")], pa.decimal128(5, 1)),
            pa.array([Decimal("2.2")], pa.decimal128(7, 1)),
        ),
    ],
    ids=lambda array: str(array.type),
)
def test_keys_of_any_type(keys, other, path):
    table = fm.MosaicTable.create(path, pa.table({"k": keys, "l": [1, 2]}))
    table.add_columns(pa.table({"k": other, "x": ["found"]}), on="k")
    table.add_columns(pa.table({"k": other, "l": [2], "y": ["found"]}), on=["k", "l"])
    assert table.read()["x"].to_pylist() == [None, "found"]
    assert table.read()["y"].to_pylist() == [None, "found"]
    assert table.schema.field("k").type == keys.type


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{"a": 1}, None]),
        pa.array([[1], None]),
        pa.array(["a", None], pa.string_view()),
        pa.array([1, None], pa.duration("ns")),
        pa.array([1, None], pa.uint64()),
        pa.array(["a", None]).dictionary_encode(),
        pa.array(["a", None], pa.large_string()),
    ],
    ids=lambda array: str(array.type),
)
def test_values_of_any_type(values, table):
    table.add_columns(pa.table({"id": [1, 3], "x": values}), on="id")
    first = values[0].as_py()
    assert table.read()["x"].to_pylist() == [None, first, None, None, first]
    assert table.schema.field("x").type == values.type


def test_a_partition_column_is_a_key(path):
    data = pa.table({"day": ["mo", "tu", "mo"], "x": [1, 2, 3]})
    table = fm.MosaicTable.create(path, data, partitioning="day")
    table.add_columns(pa.table({"day": ["mo"], "note": ["first"]}), on="day")
    assert table.read(["x", "note"]).to_pylist() == [
        {"x": 1, "note": "first"},
        {"x": 3, "note": "first"},
        {"x": 2, "note": None},
    ]


def test_values_replace_columns(table):
    table.add_columns(pa.table({"id": [1], "name": ["A"]}), on="id", replace=True)
    assert table.read()["name"].to_pylist() == [None, "A", None, None, "A"]


@pytest.mark.parametrize(
    ("values", "on", "message"),
    [
        ({"id": [1], "x": [1]}, "key", "on=.*'key'"),
        ({"key": [1], "x": [1]}, "key", "'key'"),
        ({"id": [1], "x": [1]}, [], "on= must name at least one column"),
        ({"id": [1]}, "id", "there are no columns to add"),
        ({"id": [1], "name": ["x"]}, "id", "'name' already; pass replace=True"),
        ({"id": ["x"], "x": [1]}, "id", "'id'.*does not fit int64"),
        ({"id": [1.5], "x": [1]}, "id", "'id'.*does not fit int64"),
        ({"id": [[1]], "x": [1]}, "id", "'id'.*does not fit int64"),
    ],
    ids=str,
)
def test_values_that_cannot_be_joined(values, on, message, table, path):
    before = data_files(path)
    with pytest.raises((ValueError, KeyError), match=message):
        table.add_columns(pa.table(values), on=on)
    assert data_files(path) == before


def test_structs_are_no_keys(path):
    table = fm.MosaicTable.create(path, pa.table({"s": [{"a": 1}], "x": [1]}))
    with pytest.raises(ValueError, match=r"'s' has type struct.*cannot be a key"):
        table.add_columns(pa.table({"s": [{"a": 1}], "y": [1]}), on="s")


def test_no_values_at_all(table):
    table.add_columns(
        pd.DataFrame({"id": pd.Series([], dtype="int64"), "x": pd.Series([], dtype=float)}), on="id"
    )
    assert table.read()["x"].to_pylist() == [None] * 5
