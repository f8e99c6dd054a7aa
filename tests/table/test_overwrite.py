"""Rows are replaced by new ones, all of them or some, and columns are added without values."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from races import meanwhile, named, names_on_disk

import fastmosaic as fm

ROWS = pa.table({"day": ["mo", "mo", "tu", None], "id": [1, 2, 3, 4], "a": [1.0, 2.0, 3.0, 4.0]})


@pytest.fixture
def path(tmp_path):
    fm.MosaicTable.create(tmp_path / "t", ROWS, partitioning="day")
    return str(tmp_path / "t")


@pytest.fixture(params=["early", "late"])
def moment(request):
    return request.param


def row(day, number):
    return pa.table({"day": pa.array([day], pa.string()), "id": [number]})


def ids(path, version=None):
    return sorted(fm.MosaicTable(path, version).read(["id"])["id"].to_pylist())


def conflict(path, change, moment, action, file):
    with (
        meanwhile(moment, action),
        pytest.raises(fm.ConflictError, match="nothing was committed") as caught,
    ):
        change()
    assert file in (caught.value.file or "")
    assert names_on_disk(path) == named(path)


# ---- what is replaced


def test_all_rows(path):
    change = fm.MosaicTable(path).overwrite(row("we", 9))
    assert change.summary == {"rows": 1, "files": 1, "files_replaced": 3}
    assert ids(path) == [9]
    assert ids(path, 1) == [1, 2, 3, 4]


def test_all_rows_by_none(path):
    table = fm.MosaicTable(path)
    table.add_columns({"b": pc.field("id") * 2})
    table.overwrite(ROWS.slice(0, 0))
    assert table.schema.names == ["id", "a", "b", "day"]
    assert table.num_rows == 0
    assert not table.files
    table.append(pa.table({"day": ["mo"], "b": [7]}))
    assert table.read(["b", "day"]).to_pylist() == [{"b": 7, "day": "mo"}]


def test_partitions_of_the_new_rows(path):
    table = fm.MosaicTable(path)
    table.overwrite(pa.concat_tables([row("mo", 8), row("we", 9)]), partitions="dynamic")
    assert ids(path) == [3, 4, 8, 9]
    table.overwrite(row(None, 7), partitions="dynamic")
    assert ids(path) == [3, 7, 8, 9]
    assert not table.overwrite(row("mo", 1).slice(0, 0), partitions="dynamic").committed


def test_rows_that_match(path):
    table = fm.MosaicTable(path)
    table.overwrite(row("mo", 9), filters=[("id", ">=", 2), ("id", "<", 4)])
    assert ids(path) == [1, 4, 9]
    change = table.overwrite(row("mo", 5), filters=pc.field("day") == "mo")
    assert ids(path) == [4, 5]
    assert change.summary["files_replaced"] == 2


def test_filters_and_partitions_are_an_error(path):
    with pytest.raises(ValueError, match="not with both"):
        fm.MosaicTable(path).overwrite(ROWS, filters=[("id", "=", 1)], partitions="dynamic")
    with pytest.raises(ValueError, match="'dynamic' or None"):
        fm.MosaicTable(path).overwrite(ROWS, partitions="static")


def test_wrong_rows_leave_nothing(path):
    before = names_on_disk(path)
    for data in (pa.table({"id": [1]}), pa.table({"day": ["mo"], "other": [1]})):
        with pytest.raises(fm.SchemaMismatchError):
            fm.MosaicTable(path).overwrite(data)
    with pytest.raises(fm.ColumnNotFoundError):
        fm.MosaicTable(path).overwrite(row("mo", 9), filters=[("missing", "=", 1)])
    assert names_on_disk(path) == before


# ---- other writers


def test_rows_added_meanwhile_are_a_conflict(path, moment):
    def append():
        fm.MosaicTable(path).append(row("tu", 100))

    table = fm.MosaicTable(path)
    conflict(path, lambda: table.overwrite(row("we", 9)), moment, append, "day=tu/")
    conflict(
        path, lambda: table.overwrite(row("tu", 9), partitions="dynamic"), moment, append, "day=tu/"
    )
    matching = [("id", ">", 50)]
    conflict(
        path, lambda: table.overwrite(row("we", 9), filters=matching), moment, append, "day=tu/"
    )


def test_rows_added_elsewhere_stay(path, moment):
    table = fm.MosaicTable(path)
    with meanwhile(moment, lambda: fm.MosaicTable(path).append(row("tu", 100))):
        change = table.overwrite(row("mo", 9), partitions="dynamic")
    assert change.rebased == 1
    assert ids(path) == [3, 4, 9, 100]
    with meanwhile(moment, lambda: fm.MosaicTable(path).append(row("we", 101))):
        table.overwrite(row("tu", 10), filters=[("day", "=", "tu")])
    assert ids(path) == [4, 9, 10, 101]
    with meanwhile(moment, lambda: fm.MosaicTable(path).append(row("we", 102))):
        table.overwrite(row("tu", 11), filters=[("id", "<", 50)])
    assert ids(path) == [11, 101, 102]


def test_rows_changed_meanwhile_are_a_conflict(path, moment):
    table = fm.MosaicTable(path)
    for action in (
        lambda: fm.MosaicTable(path).delete([("id", "=", 1)]),
        lambda: fm.MosaicTable(path).add_columns({"b": 1}),
    ):
        conflict(
            path, lambda: table.overwrite(row("mo", 9), partitions="dynamic"), moment, action, "mo/"
        )


def test_columns_added_and_dropped_meanwhile(path, moment):
    table = fm.MosaicTable(path)
    table.overwrite(row("mo", 1))
    with meanwhile(moment, lambda: fm.MosaicTable(path).add_columns(pa.schema({"b": "int8"}))):
        table.overwrite(row("tu", 2), partitions="dynamic")
    assert set(table.schema.names) == {"id", "a", "b", "day"}
    with meanwhile(moment, lambda: fm.MosaicTable(path).drop_columns("a")):
        table.overwrite(ROWS.slice(3, 1), partitions="dynamic")
    assert set(table.schema.names) == {"id", "b", "day"}
    assert ids(path) == [1, 2, 4]


# ---- columns without values


def test_a_column_without_values_touches_no_file(path):
    table = fm.MosaicTable(path)
    before = names_on_disk(path)
    schema = pa.schema({"b": pa.string(), "c": pa.struct({"x": pa.int32()})})
    change = table.add_columns(schema)
    assert change.summary == {"columns": ["b", "c"]}
    assert names_on_disk(path) == before
    assert table.schema.field("c").type == schema.field("c").type
    assert table.read(["b", "c"]).to_pylist() == [{"b": None, "c": None}] * 4
    table.append(pa.table({"day": ["mo"], "c": [{"x": 5}]}))
    assert table.read(["c"], filters=[("c.x", "=", 5)]).num_rows == 1
    with pytest.raises(ValueError, match="already"):
        table.add_columns(pa.schema({"b": "int8"}))


def test_a_dropped_column_comes_back_empty_and_with_another_type(path):
    table = fm.MosaicTable(path)
    table.drop_columns("a")
    table.add_columns(pa.schema({"a": pa.string()}))
    assert table.read(["a"])["a"].to_pylist() == [None] * 4
    table.append(pa.table({"day": ["mo"], "a": ["x"]}))
    assert sorted(table.read(["a"])["a"].drop_null().to_pylist()) == ["x"]
    table.drop_columns("a")
    assert "a" not in table.schema.names
    table.restore(3)
    assert table.schema.field("a").type == pa.string()
    table.compact()
    table.fold()
    table.vacuum(0)
    assert fm.MosaicTable(path).read(["a"])["a"].to_pylist() == [None] * 4


def test_an_empty_table_gets_columns(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", pa.schema({"id": "int64"}))
    table.add_columns(pa.schema({"b": "int8"}))
    assert table.schema.names == ["id", "b"]


def test_columns_that_cannot_be_added_without_values(path):
    table = fm.MosaicTable(path)
    for schema, told in (
        (pa.schema([pa.field("b", pa.int8(), nullable=False)]), "must be nullable"),
        (pa.schema([("b", pa.int8()), ("b", pa.int8())]), "twice"),
        (pa.schema([]), "no columns"),
        (pa.schema({"day": pa.int8()}), "partition column"),
    ):
        with pytest.raises(ValueError, match=told):
            table.add_columns(schema)
    with pytest.raises(fm.UnsupportedError):
        table.add_columns(pa.schema({"b": pa.dense_union([pa.field("x", pa.int8())])}))
    assert table.version == 1


def test_two_writers_add_columns_without_values(path, moment):
    table = fm.MosaicTable(path)

    def add(name):
        fm.MosaicTable(path).add_columns(pa.schema({name: "int8"}))

    with meanwhile(moment, lambda: add("b")):
        table.add_columns(pa.schema({"c": "int8"}))
    assert set(table.schema.names) == {"id", "a", "b", "c", "day"}
    conflict(
        path, lambda: table.add_columns(pa.schema({"d": "int8"})), moment, lambda: add("d"), "t"
    )


def test_appended_rows_lack_a_column_that_was_added_meanwhile(path, moment):
    table = fm.MosaicTable(path)
    with meanwhile(moment, lambda: fm.MosaicTable(path).add_columns(pa.schema({"b": "int8"}))):
        table.append(row("mo", 9))
    assert table.read(["b"])["b"].null_count == 5
