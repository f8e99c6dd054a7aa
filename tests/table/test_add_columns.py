"""MosaicTable.add_columns: functions, expressions, replacing columns, and what is left on errors."""

import threading
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import base_file_of, column_file_of, data_files

import fastmosaic as fm
from fastmosaic.table import column_files

DATA = pa.table({"id": range(10), "a": [1.0, 2.0, None, 4.0, 5.0] * 2, "s": list("abcdefghij")})


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t")


@pytest.fixture
def table(path):
    """Three files: of 10 rows in row groups of 4, 4 and 2, of 3 rows, and of 1 row."""
    table = fm.MosaicTable.create(path, DATA, row_group_size=4)
    table.append(DATA.slice(0, 3))
    table.append(DATA.slice(9, 1))
    return table


IDS = [*range(10), 0, 1, 2, 9]


def doubled(batch):
    return pc.multiply(batch["id"], 2)


RESULTS = {
    "batch": lambda batch: pa.RecordBatch.from_arrays([doubled(batch)], names=["x"]),
    "table": lambda batch: pa.table({"x": doubled(batch)}),
    "chunks": lambda batch: pa.table({"x": pa.chunked_array([doubled(batch), []], pa.int64())}),
    "dictionary": lambda batch: {"x": doubled(batch)},
    "lists": lambda batch: {"x": [2 * one.as_py() for one in batch["id"]]},
    "pandas": lambda batch: batch.to_pandas().assign(x=lambda df: df["id"] * 2)[["x"]],
    "polars": lambda batch: pl.from_arrow(batch).select(x=pl.col("id") * 2),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_a_function_may_return_any_data(kind, table):
    change = table.add_columns(RESULTS[kind])
    assert (change.version, change.operation) == (4, "add columns")
    assert dict(change.summary) == {"columns": ["x"], "files": 3}
    assert table.schema.field("x").type == pa.int64()
    assert table.read()["x"].to_pylist() == [2 * one for one in IDS]


def test_expressions_are_computed(table, path):
    table.add_columns({"sum": pc.field("id") + pc.field("a"), "big": pc.field("id") > 5})
    found = fm.read_table(path)
    assert found["sum"].to_pylist()[:4] == [1.0, 3.0, None, 7.0]
    assert found["big"].to_pylist() == [one > 5 for one in IDS]
    table.add_columns({"more": pc.field("sum") * 2, "one": pc.scalar(1), "same": pc.field("s")})
    assert fm.read_table(path).to_pylist()[-1] == {
        "id": 9,
        "a": 5.0,
        "s": "j",
        "sum": 14.0,
        "big": True,
        "more": 28.0,
        "one": 1,
        "same": "j",
    }
    with pytest.raises(fm.ColumnNotFoundError, match="'absent'"):
        table.add_columns({"y": pc.field("absent")})


def test_no_base_file_changes(table, path):
    before = {name: Path(path, name).read_bytes() for name in table.files}
    table.add_columns({"x": pc.field("id")})
    assert {name: Path(path, name).read_bytes() for name in table.files} == before
    assert sum(name.startswith("_columns/") for name in data_files(path)) == 3


def test_row_groups_end_where_those_of_the_base_file_end(table, path):
    table.add_columns({"x": pc.field("id")}, row_group_size=1)
    for number in range(3):
        base, added = base_file_of(path, number), column_file_of(path, number)
        edges = [fm.MosaicFile(one).metadata.row_edges for one in (base, added)]
        assert edges[0] == edges[1]
    assert list(edges[0]) == [0, 1]


@pytest.mark.parametrize("inputs", [None, [], ["s"], ["s", "id"], ("a",)], ids=str)
def test_a_function_gets_its_inputs(inputs, table):
    seen = []
    turn = threading.Lock()

    def function(batch):
        with turn:
            seen.append((batch.schema.names, batch.num_rows))
        return {"x": list(range(batch.num_rows))}

    table.add_columns(function, inputs=inputs)
    names = ["id", "a", "s"] if inputs is None else list(inputs)
    assert seen[:3] == [(names, 4), (names, 4), (names, 2)]
    assert sorted(seen[3:], key=str) == [(names, 1), (names, 3)]
    assert table.read()["x"].to_pylist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 1, 2, 0]


def test_partition_columns_are_inputs_and_stay(tmp_path):
    data = pa.table({"day": ["mo", "tu", "mo"], "x": [1, 2, 3]})
    table = fm.MosaicTable.create(tmp_path / "t", data, partitioning="day")
    table.add_columns({"key": pc.field("day")})
    assert table.read(["x", "key"]).to_pylist() == [
        {"x": 1, "key": "mo"},
        {"x": 3, "key": "mo"},
        {"x": 2, "key": "tu"},
    ]
    for replace in (False, True):
        with pytest.raises(ValueError, match="'day' is a partition column"):
            table.add_columns({"day": pc.field("x")}, replace=replace)


def test_large_row_groups_come_in_portions(path, monkeypatch):
    monkeypatch.setattr(column_files, "BATCH_ROWS", 1000)
    count = 30_500
    table = fm.MosaicTable.create(path, pa.table({"id": range(count)}))
    sizes = []

    def function(batch):
        sizes.append(batch.num_rows)
        return {"x": pc.negate(batch["id"]), "first": [batch["id"][0].as_py()] * batch.num_rows}

    table.add_columns(function)
    assert max(sizes) == 1000
    assert sum(sizes) == count
    assert table.read()["x"].to_pylist() == [-one for one in range(count)]
    assert fm.MosaicFile(column_file_of(path)).metadata.num_row_groups == 1


NESTED = {
    "struct": pa.array([{"x": 1, "y": [1, 2]}, None, {"x": None, "y": None}]),
    "dictionary": pa.array(["u", None, "v"]).dictionary_encode(),
    "list": pa.array([["a"], None, []]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int8())),
    "view": pa.array(["a", None, "b"], pa.string_view()),
    "unsigned": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "took": pa.array([1, None, 2], pa.duration("s")),
    "null": pa.nulls(3),
}


def taken(values, numbers):
    """Take neighbouring rows, also of types of which Arrow cannot take any."""
    return values.slice(numbers[0].as_py(), len(numbers))


@pytest.mark.parametrize("name", NESTED)
def test_columns_of_any_type_are_added(name, path):
    table = fm.MosaicTable.create(path, pa.table({"id": [0, 1]}))
    table.append(pa.table({"id": [2]}))
    values = NESTED[name]
    table.add_columns(lambda batch: {"x": taken(values, batch["id"]), "y": batch["id"]})
    found = fm.read_table(path)
    assert found["x"].to_pylist() == values.to_pylist()
    assert found.schema.field("x").type == values.type
    table.append(pa.table({"id": [3], "x": values.slice(0, 1)}))
    assert fm.read_table(path)["x"].to_pylist() == [*values.to_pylist(), values[0].as_py()]
    table.fold()
    assert fm.read_table(path).schema.field("x").type == values.type
    assert fm.read_table(path)["x"].to_pylist() == [*values.to_pylist(), values[0].as_py()]


def test_new_columns_may_be_null(path):
    """Because rows that are appended may lack them."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = fm.MosaicTable.create(path, pa.table({"id": [1, 2]}, schema=schema))
    table.add_columns({"a": pc.field("id")})
    table.add_columns(lambda batch: batch.rename_columns(["b"]), inputs=["id"])
    strict = pa.schema([*schema, pa.field("c", pa.int64(), nullable=False)])
    table.add_columns(pa.table({"id": [2], "c": [5]}, schema=strict), on="id")
    assert [table.schema.field(name).nullable for name in ("id", "a", "b", "c")] == [
        False,
        *[True] * 3,
    ]
    table.append(pa.table({"id": [3]}))
    assert table.read().to_pylist() == [
        {"id": 1, "a": 1, "b": 1, "c": None},
        {"id": 2, "a": 2, "b": 2, "c": 5},
        {"id": 3, "a": None, "b": None, "c": None},
    ]


# ---- replacing


def test_columns_that_exist_are_replaced_only_if_asked(table):
    with pytest.raises(ValueError, match="has a column 'a' already; pass replace=True"):
        table.add_columns({"a": pc.field("id")})
    with pytest.raises(ValueError, match="has a column 'a' already; pass replace=True"):
        table.add_columns(lambda batch: {"b": batch["id"], "a": batch["id"]})
    assert table.refresh().version == 3


def test_columns_are_replaced_again_and_again(table, path):
    table.add_columns({"a": pc.field("a") * 10, "new": pc.field("id")}, replace=True)
    assert fm.read_table(path)["a"].to_pylist()[:4] == [10.0, 20.0, None, 40.0]
    table.add_columns({"new": pc.field("new") + 1, "a": pc.field("a") + 1}, replace=True)
    assert fm.read_table(path).select(["a", "new"]).to_pylist()[:2] == [
        {"a": 11.0, "new": 1},
        {"a": 21.0, "new": 2},
    ]
    # The first column files provide nothing any more, so the version does not name them.
    assert [len(file.columns) for file in table._snapshot.version.files] == [1, 1, 1]
    table.add_columns({"a": pc.field("s")}, replace=True)
    found = fm.read_table(path)
    assert found.schema.names == ["id", "a", "s", "new"]
    assert found["a"].to_pylist()[:3] == ["a", "b", "c"]
    assert found["new"].to_pylist()[:3] == [1, 2, 3]


def test_a_struct_takes_the_place_of_a_number_and_back(path):
    table = fm.MosaicTable.create(path, pa.table({"id": [1, 2], "s": [5, 6]}))
    struct = pa.array([{"x": 1}, None])
    table.add_columns(lambda batch: {"s": struct}, replace=True)
    assert fm.read_table(path)["s"].to_pylist() == [{"x": 1}, None]
    assert fm.read_table(path, columns=["s.x"])["s"].to_pylist() == [{"x": 1}, None]
    assert fm.read_table(path, logical=False).schema.names == ["id", "s.__null__", "s.x"]
    table.add_columns({"s": pc.field("id")}, replace=True)
    assert fm.read_table(path, logical=False).to_pydict() == {"id": [1, 2], "s": [1, 2]}
    table.add_columns({"s.x": pc.field("id") * 2})  # a column of its own
    assert fm.read_table(path).to_pydict() == {"id": [1, 2], "s": [1, 2], "s.x": [2, 4]}


def test_a_name_that_was_dropped_is_free(table, path):
    table.drop_columns(["a"])
    table.add_columns({"a": pc.field("s")})
    assert fm.read_table(path)["a"].to_pylist()[:2] == ["a", "b"]
    table.drop_columns(["a"])
    assert "a" not in fm.read_table(path).schema.names
    table.add_columns({"a": pc.field("id")})
    assert fm.read_table(path)["a"].to_pylist() == IDS


# ---- errors


def test_a_function_must_return_a_row_for_each(table, path):
    before = data_files(path)
    for function in (
        lambda batch: {"x": [1]},
        lambda batch: {"x": list(range(batch.num_rows + 1))},
        lambda batch: pa.table({}),
    ):
        with pytest.raises(ValueError, match=r"returned \d+ rows for a batch of 4"):
            table.add_columns(function)
    with pytest.raises(TypeError, match="not an object of type int"):
        table.add_columns(lambda batch: 5)
    with pytest.raises(TypeError, match="not an object of type int"):
        table.add_columns(5)
    with pytest.raises(ValueError, match="there are no columns to add"):
        table.add_columns({})
    assert data_files(path) == before


def test_the_schema_is_the_rule(table, path):
    schema = pa.schema({"x": pa.float32(), "y": pa.string()})

    def function(batch):
        return {"y": ["v"] * batch.num_rows, "x": batch["id"]}

    table.add_columns(function, inputs=["id"], schema=schema)
    assert [table.schema.field(name).type for name in ("x", "y")] == [pa.float32(), pa.string()]
    with pytest.raises(fm.SchemaMismatchError, match="returned the columns 'y', 'x', but 'x'"):
        table.add_columns(function, schema=pa.schema({"x": pa.int64()}), replace=True)
    with pytest.raises(fm.SchemaMismatchError, match=r"'x'.*do not fit int8"):
        table.add_columns(
            lambda batch: {"x": pc.add(batch["id"], 1000)},
            schema=pa.schema({"x": pa.int8()}),
            replace=True,
        )
    strict = pa.schema([pa.field("z", pa.int64(), nullable=False)])
    with pytest.raises(fm.SchemaMismatchError, match="'z'"):
        table.add_columns(lambda batch: {"z": [None] * batch.num_rows}, schema=strict)


def test_types_are_those_of_the_first_result(path):
    table = fm.MosaicTable.create(path, pa.table({"id": [1]}))
    table.append(pa.table({"id": [2]}))

    def function(batch):
        return {"x": batch["id"].cast(pa.int8() if batch["id"][0].as_py() == 2 else pa.int64())}

    table.add_columns(function)
    assert table.schema.field("x").type == pa.int64()

    def other(batch):
        return {"y": ["a"] if batch["id"][0].as_py() == 2 else [1]}

    with pytest.raises(fm.SchemaMismatchError, match=r"'y'.*do not fit int64"):
        table.add_columns(other)


@pytest.mark.parametrize("failing", [0, 5, 11])
def test_a_function_that_fails_leaves_nothing(failing, path):
    table = fm.MosaicTable.create(path, pa.table({"id": [0]}))
    for number in range(1, 12):
        table.append(pa.table({"id": [number]}))
    before = data_files(path)

    def function(batch):
        if batch["id"][0].as_py() == failing:
            raise RuntimeError("no")
        return {"x": batch["id"]}

    with pytest.raises(RuntimeError, match="no"):
        table.add_columns(function)
    assert data_files(path) == before

    def stop(progress):
        if progress.num_files > failing:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.add_columns({"x": pc.field("id")}, progress=stop)
    assert data_files(path) == before
    assert fm.MosaicTable(path).version == 12


def test_errors_name_the_file(table, path):
    with pytest.raises(fm.MosaicError, match=r"part-.*\.mosaic.*'x'"):
        table.add_columns(
            lambda batch: {"x": ["a"] * batch.num_rows}, schema=pa.schema({"x": pa.int64()})
        )


def test_progress_counts_files_and_rows(table):
    seen = []
    table.add_columns({"x": pc.field("id")}, progress=seen.append)
    assert [(one.num_files, one.total_files) for one in seen] == [(1, 3), (2, 3), (3, 3)]
    assert [one.num_rows for one in seen] == [10, 13, 14]
    assert {one.operation for one in seen} == {"add columns"}
    table.add_columns({"y": pc.field("id")}, progress=True)  # stderr is no terminal


def test_files_without_rows_get_columns_too(path):
    table = fm.MosaicTable.create(path, pa.table({"id": [1], "k": [1]}))
    table.add_columns({"b": pc.field("id")})
    table.append(pa.table({"id": [2], "k": [2]}))
    table.delete([("k", "=", 1)])  # leaves a file without rows, because of b
    table.add_columns(lambda batch: {"c": batch["id"]})
    assert table.read().to_pylist() == [{"id": 2, "k": 2, "b": None, "c": 2}]
    table.delete([("k", "=", 2)])
    with pytest.raises(ValueError, match="no rows to compute columns from; pass schema="):
        table.add_columns(lambda batch: {"d": batch["id"]})
    table.add_columns(lambda batch: {"d": batch["id"]}, schema=pa.schema({"d": pa.int8()}))
    table.append(pa.table({"d": [3]}))
    assert table.read().to_pylist() == [{"id": None, "k": None, "b": None, "c": None, "d": 3}]
