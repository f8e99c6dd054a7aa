"""MosaicTable.drop_columns: files keep the columns, but readers do not see them."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import data_files

import fastmosaic as fm


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t")


@pytest.fixture
def table(path):
    data = pa.table({"day": ["mo", "tu"], "id": [1, 2], "a": [1, 2], "s": [{"x": 1}, {"x": 2}]})
    table = fm.MosaicTable.create(path, data, partitioning="day")
    table.add_columns({"b": pc.field("a") * 2, "c": pc.field("a") * 3})
    return table


def names(path):
    return fm.read_table(path).schema.names


def test_columns_of_base_files_and_column_files_are_dropped(table, path):
    before = data_files(path)
    change = table.drop_columns(["a", "b"])
    assert dict(change.summary) == {"columns": ["a", "b"]}
    assert names(path) == ["id", "s", "c", "day"]
    assert table.read(["c"])["c"].to_pylist() == [3, 6]
    for name in ("a", "b"):
        with pytest.raises(fm.ColumnNotFoundError, match=f"'{name}'"):
            fm.read_table(path, columns=[name])
        with pytest.raises(fm.ColumnNotFoundError, match=f"'{name}'"):
            fm.read_table(path, filters=[(name, "=", 1)])
    assert data_files(path) == before
    table.drop_columns("c")  # now the column files provide nothing
    assert [file.columns for file in table._snapshot.version.files] == [(), ()]
    assert fm.read_table(path).to_pylist() == [
        {"id": 1, "s": {"x": 1}, "day": "mo"},
        {"id": 2, "s": {"x": 2}, "day": "tu"},
    ]


def test_structs_are_dropped_as_a_whole(table, path):
    table.drop_columns("s")
    assert names(path) == ["id", "a", "b", "c", "day"]
    assert fm.read_table(path, logical=False).schema.names == ["id", "a", "b", "c", "day"]
    with pytest.raises(fm.ColumnNotFoundError):
        fm.read_table(path, columns=["s.x"])


def test_appended_files_without_and_with_the_name(table, path):
    table.drop_columns("a")
    with pytest.raises(fm.SchemaMismatchError, match="does not contain this column"):
        table.append(pa.table({"day": ["we"], "id": [3], "a": [3]}))
    table.append(pa.table({"day": ["we"], "id": [3]}))
    assert "a" not in names(path)
    table.add_columns({"a": pc.field("id").cast(pa.string())})
    table.append(pa.table({"day": ["we"], "id": [4], "a": ["four"]}))
    assert fm.read_table(path, columns=["id", "a"]).to_pydict() == {
        "id": [1, 2, 3, 4],
        "a": ["1", "2", "3", "four"],
    }
    table.drop_columns("a")
    assert "a" not in names(path)
    assert fm.MosaicTable(path, table.version - 1).schema.field("a").type == pa.string()
    assert fm.MosaicTable(path, 1).schema.field("a").type == pa.int64()


def test_what_cannot_be_dropped(table):
    version = table.version
    with pytest.raises(fm.ColumnNotFoundError, match="'absent'"):
        table.drop_columns(["id", "absent"])
    with pytest.raises(ValueError, match="'day' is a partition column, which cannot be dropped"):
        table.drop_columns("day")
    with pytest.raises(ValueError, match="not all of them can be dropped"):
        table.drop_columns(["id", "a", "s", "b", "c"])
    assert table.refresh().version == version


def test_a_name_twice_is_dropped_once(table):
    assert dict(table.drop_columns(["a", "a"]).summary) == {"columns": ["a"]}
    change = table.drop_columns([])
    assert not change.committed


@pytest.mark.parametrize("act", ["compact", "fold", "delete"])
def test_dropped_columns_do_not_come_back(act, table, path):
    table.drop_columns(["a", "b"])
    table.append(pa.table({"day": ["mo", "tu"], "id": [3, 4], "c": [0, 0]}))
    before = fm.read_table(path).sort_by("id").to_pylist()
    if act == "delete":
        table.append(pa.table({"day": ["mo"], "id": [5]}))
        table.delete([("id", "=", 5)])
        table.delete([("id", "<", 0)])
    else:
        getattr(table, act)()
    assert fm.read_table(path).sort_by("id").to_pylist() == before
    if act != "delete":
        for name in table.files:
            assert not {"a", "b"} & set(fm.read_schema(f"{path}/{name}").names)
