"""MosaicTable.delete: files with matching rows are rewritten, others stay."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import base_file_of, data_files

import fastmosaic as fm


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t")


@pytest.fixture
def table(path):
    """Files of 6, 3 and 2 rows; the last one lacks column b."""
    table = fm.MosaicTable.create(
        path,
        pa.table({"id": range(6), "a": [1.0, None, 3.0, float("nan"), 5.0, 6.0]}),
        row_group_size=2,
    )
    table.append(pa.table({"id": [6, 7, 8], "a": [7.0, 8.0, None]}))
    table.add_columns(lambda batch: {"b": [one.as_py() % 3 for one in batch["id"]]}, inputs=["id"])
    table.append(pa.table({"id": [9, 10], "a": [10.0, 11.0]}))
    return table


def ids(path):
    return fm.read_table(path)["id"].to_pylist()


def test_rows_are_deleted(table, path):
    files = table.files
    change = table.delete([("id", "in", [1, 4])])
    assert dict(change.summary) == {"rows": 2, "files_before": 1, "files_after": 1}
    assert ids(path) == [0, 2, 3, 5, 6, 7, 8, 9, 10]
    assert table.files[1:] == files[1:]
    assert table.files[0] != files[0]
    assert fm.read_table(path)["b"].to_pylist() == [0, 2, 0, 2, 0, 1, 2, None, None]
    assert [len(one.columns) for one in table._snapshot.version.files] == [0, 1, 0]
    assert fm.MosaicTable(path, 4).read()["id"].to_pylist() == list(range(11))


def test_whole_files_go(table, path):
    change = table.delete(pc.field("id") < 6)
    assert dict(change.summary) == {"rows": 6, "files_before": 1, "files_after": 0}
    assert len(table.files) == 2
    assert ids(path) == [6, 7, 8, 9, 10]


def test_rows_where_the_condition_is_null_stay(table, path):
    table.delete([("a", ">", 4)])
    assert ids(path) == [0, 1, 2, 3, 8]  # null, and NaN, which is not greater
    table.delete(~(pc.field("a") > 4))
    assert ids(path) == [1, 8]
    table.delete(pc.field("a").is_null())
    assert ids(path) == []


def test_columns_that_files_lack_are_null(table, path):
    table.delete(pc.field("b").is_null())
    assert ids(path) == list(range(9))
    table.append(pa.table({"id": [20, 21]}))
    table.delete(pc.field("b").is_null() & (pc.field("id") == 20))
    assert ids(path) == [*range(9), 21]
    table.delete((pc.field("b") == 1) | (pc.field("id") == 21))
    assert ids(path) == [0, 2, 3, 5, 6, 8]


@pytest.mark.parametrize(
    "filters", [[("id", ">", 99)], pc.scalar(False), [("b", "=", 77)]], ids=str
)
def test_nothing_is_deleted_if_nothing_matches(filters, table, path):
    before = data_files(path)
    change = table.delete(filters)
    assert not change.committed
    assert table.version == 4
    assert data_files(path) == before


def test_everything_is_deleted_and_the_columns_stay(table, path):
    schema = table.schema
    change = table.delete(pc.scalar(True))
    assert change.summary["rows"] == 11
    assert (table.num_rows, fm.read_table(path).num_rows) == (0, 0)
    assert table.schema == schema
    table.append(pa.table({"id": [1], "a": [1.0], "b": [1]}))
    assert fm.read_table(path).to_pylist() == [{"id": 1, "a": 1.0, "b": 1}]
    table.compact()
    assert fm.read_table(path).to_pylist() == [{"id": 1, "a": 1.0, "b": 1}]


def test_columns_that_only_deleted_files_had_stay(table, path):
    table.delete(pc.field("id") < 9)
    assert table.schema.names == ["id", "a", "b"]
    assert fm.read_table(path).to_pylist() == [
        {"id": 9, "a": 10.0, "b": None},
        {"id": 10, "a": 11.0, "b": None},
    ]
    files = len(table.files)
    table.append(pa.table({"id": [11], "b": [1]}))
    table.delete(pc.field("id") == 9)
    assert len(table.files) == files + 1


def test_an_adopted_directory_loses_all_rows(tmp_path):
    fm.write_table(pa.table({"x": [1]}), tmp_path / "a.mosaic")
    table = fm.MosaicTable.create(tmp_path)
    table.delete([("x", "=", 1)])
    assert (table.num_rows, table.schema.names) == (0, ["x"])
    assert fm.read_table(tmp_path).num_rows == 0
    table.append(pa.table({"x": [2]}))
    assert fm.read_table(tmp_path)["x"].to_pylist() == [2]


def test_partitions_go_without_a_look_at_their_files(path):
    data = pa.table({"day": ["mo", "tu", "mo", None], "x": range(4)})
    table = fm.MosaicTable.create(path, data, partitioning="day")
    for number in range(3):
        base_file_of(path, number).write_bytes(b"unreadable")
    change = table.delete([("day", "=", "mo")])
    assert dict(change.summary) == {"rows": 2, "files_before": 1, "files_after": 0}
    assert fm.MosaicDataset(path).count_rows() == 2
    assert fm.MosaicDataset(path).count_rows(filter=[("day", "=", "tu")]) == 1
    table.delete(pc.field("day").is_null())
    assert table.num_rows == 1


def test_conditions_on_partitions_and_columns(path):
    data = pa.table({"day": ["mo", "tu", "mo", None], "x": range(4)})
    table = fm.MosaicTable.create(path, data, partitioning="day")
    table.delete((pc.field("day") == "mo") & (pc.field("x") > 1))
    table.delete([[("day", "=", "tu"), ("x", "=", 0)], [("x", "=", 3)]])
    assert table.read().to_pylist() == [{"x": 0, "day": "mo"}, {"x": 1, "day": "tu"}]


@pytest.mark.parametrize(
    "type",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.string_view(),
        pa.struct({"x": pa.uint64()}),
        pa.duration("ms"),
        pa.list_(pa.string()),
    ],
    ids=str,
)
def test_types_survive(type, path):
    values = {
        pa.struct({"x": pa.uint64()}): [{"x": 1}, None, {"x": 3}],
        pa.duration("ms"): [1, None, 3],
        pa.list_(pa.string()): [["a"], None, []],
    }.get(type, ["a", None, "b"])
    array = (
        pa.array(values, type.value_type).cast(type)
        if pa.types.is_dictionary(type)
        else pa.array(values, type)
    )
    table = fm.MosaicTable.create(path, pa.table({"id": range(3), "x": array}))
    table.append(pa.table({"id": [3], "x": array.slice(2)}))
    table.delete([("id", "=", 0)])
    found = fm.read_table(path)
    assert found.schema.field("x").type == type
    assert found["x"].to_pylist() == [None, array[2].as_py(), array[2].as_py()]


def test_files_of_other_types_match_as_in_the_table(tmp_path):
    fm.write_table(pa.table({"x": pa.array([1, 2], pa.int8())}), tmp_path / "a.mosaic")
    fm.write_table(pa.table({"x": pa.array([1, 2**40])}), tmp_path / "b.mosaic")
    table = fm.MosaicTable.create(tmp_path)
    table.delete([("x", ">", 2**33)])
    assert table.read()["x"].to_pylist() == [1, 2, 1]
    table.delete([("x", "<", 2)])
    assert table.read()["x"].to_pylist() == [2]


def test_what_cannot_be_a_condition(table, path):
    before = data_files(path)
    with pytest.raises(ValueError, match="filters must say which rows to delete"):
        table.delete(None)
    with pytest.raises(fm.ColumnNotFoundError, match="'absent'"):
        table.delete([("absent", "=", 1)])
    with pytest.raises(TypeError, match="no_such"):
        table.delete([("id", "=", 1)], no_such=1)
    assert data_files(path) == before


def test_progress_and_failure(table, path):
    seen = []
    before = data_files(path)

    def stop(progress):
        seen.append((progress.operation, progress.num_files, progress.total_files))
        if progress.num_files == 2:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        table.delete(pc.field("id").isin([1, 7, 9]), progress=stop)
    assert seen == [("delete", 1, 3), ("delete", 2, 3)]
    assert data_files(path) == before
    assert ids(path) == list(range(11))
