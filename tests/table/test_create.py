"""MosaicTable.create: new tables, with and without rows, and directories that become tables."""

import io
import os
from pathlib import Path

import mosaic
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import everything

import fastmosaic as fm

DATA = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})


def write_theirs(table: pa.Table, path: Path) -> None:
    """Write a file with the Apache implementation, which knows no annex."""
    sink = io.BytesIO()
    mosaic.write_table(table, sink, mosaic.WriterOptions())
    path.write_bytes(sink.getvalue())


def test_a_schema_makes_an_empty_table(tmp_path):
    schema = pa.schema({"day": pa.date32(), "x": pa.int32(), "s": pa.struct({"y": pa.uint64()})})
    table = fm.MosaicTable.create(tmp_path / "t", schema, partitioning="day")
    assert (table.version, table.num_rows, table.files) == (1, 0, [])
    assert repr(table) == f"<MosaicTable {tmp_path / 't'}: version 1, 0 rows in 0 files>"
    assert table.schema.equals(pa.schema([schema.field(name) for name in ("x", "s", "day")]))
    assert fm.read_table(tmp_path / "t").schema == table.schema
    assert fm.MosaicDataset(tmp_path / "t").count_rows() == 0
    assert everything(tmp_path / "t").isdisjoint({"_mosaic/creating"})
    with pytest.raises(ValueError, match="'day' is a partition column, which cannot be dropped"):
        table.drop_columns("day")
    with pytest.raises(fm.SchemaMismatchError, match="the data lacks the partition column"):
        table.append(pa.table({"x": pa.array([1], pa.int32())}))
    with pytest.raises(ValueError, match="has no rows to add columns to; append rows first"):
        table.add_columns({"z": pc.field("x")})
    table.drop_columns("x")
    assert table.schema.names == ["s", "day"]


@pytest.mark.parametrize(
    "data",
    [DATA, DATA.to_batches()[0], DATA.to_reader(), DATA.to_batches(), DATA.to_pandas()],
    ids=["table", "batch", "reader", "batches", "pandas"],
)
def test_data_become_the_first_rows(data, tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", data)
    assert table.read().to_pydict() == DATA.to_pydict()
    (info,) = table.history()
    assert (info.version, info.operation, info.num_rows, info.num_files) == (1, "create", 3, 1)
    assert info.summary == {"files": 1, "rows": 3}


def test_data_without_rows_make_an_empty_table(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "t", DATA.slice(0, 0))
    assert table.files == []
    assert table.schema == DATA.schema
    table.append(DATA)
    assert table.read() == DATA


def test_partition_columns_become_directories(tmp_path):
    data = DATA.append_column("x", [[1, 2, 3]])
    table = fm.MosaicTable.create(tmp_path / "t", data, partitioning=["name", "id"])
    folders = [os.path.dirname(path) for path in table.files]
    assert folders == ["name=__HIVE_DEFAULT_PARTITION__/id=2", "name=a/id=1", "name=c/id=3"]


def test_a_table_keeps_the_types_of_partition_columns(tmp_path):
    data = pa.table({"key": pa.array(["1", "2"]), "x": [1, 2]})
    table = fm.MosaicTable.create(tmp_path / "t", data, partitioning="key")
    assert table.schema.field("key").type == pa.string()  # though they look like numbers
    assert fm.read_table(tmp_path / "t").to_pydict() == {"x": [1, 2], "key": ["1", "2"]}


def test_columns_that_no_file_has_belong_to_the_table(tmp_path):
    schema = pa.schema(
        [
            pa.field("a", pa.int64()),
            pa.field("b", pa.string()),
            pa.field("c", pa.duration("s")),
            pa.field("d", pa.dictionary(pa.int8(), pa.string())),
        ],
        {"made": "by hand"},
    )
    table = fm.MosaicTable.create(tmp_path / "t", schema)
    table.append(pa.table({"a": [1]}))
    assert table.schema.equals(schema, check_metadata=True)
    assert table.read().to_pylist() == [{"a": 1, "b": None, "c": None, "d": None}]
    assert table.read(["b"], filters=[("b", "=", "x")]).num_rows == 0
    table.append(pa.table({"a": [2], "b": ["x"]}))
    table.drop_columns(["c"])
    assert table.schema.names == ["a", "b", "d"]
    table.add_columns({"b": pc.field("a") * 2}, replace=True)
    assert table.schema.field("b").type == pa.int64()
    assert table.read().to_pylist() == [{"a": 1, "b": 2, "d": None}, {"a": 2, "b": 4, "d": None}]
    table.add_columns({"d": pc.field("a"), "c": pc.field("a")}, replace=True)
    assert table.read().to_pylist()[1] == {"a": 2, "b": 4, "d": 2, "c": 2}


# ---- directories that become tables


def test_files_of_a_directory_become_version_1(tmp_path):
    for number in range(3):
        fm.write_table(pa.table({"id": [number, number + 10]}), tmp_path / f"{number}.mosaic")
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)}
    table = fm.MosaicTable.create(tmp_path)
    assert table.files == ["0.mosaic", "1.mosaic", "2.mosaic"]
    assert table.history()[0].summary == {"files": 3, "rows": 6}
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    assert fm.read_table(tmp_path)["id"].to_pylist() == [0, 10, 1, 11, 2, 12]
    (tmp_path / "3.mosaic").write_bytes(before["0.mosaic"])  # it is not in any version
    assert fm.read_table(tmp_path).num_rows == 6


def test_directories_with_keys_become_partitions(tmp_path):
    fm.write_dataset(pa.table({"d": [1, 1, 2], "x": [1, 2, 3]}), tmp_path, partitioning="d")
    table = fm.MosaicTable.create(tmp_path)
    table.append(pa.table({"d": [3], "x": [4]}))
    assert fm.read_table(tmp_path, filters=[("d", ">", 1)])["x"].to_pylist() == [3, 4]
    with pytest.raises(fm.SchemaMismatchError, match="the data lacks the partition column"):
        table.append(pa.table({"x": [5]}))


def test_files_of_others_and_without_annex_are_adopted(tmp_path):
    write_theirs(DATA, tmp_path / "a.mosaic")
    fm.write_table(DATA, tmp_path / "b.mosaic", annex=False)
    fm.write_table(DATA.append_column("x", [[1, 2, 3]]), tmp_path / "c.mosaic", num_buckets=2)
    table = fm.MosaicTable.create(tmp_path)
    table.add_columns({"double": pc.field("id") * 2})
    table.add_columns({"id": pc.field("id") * 10}, replace=True)
    expected = [
        {"id": 10 * i, "name": name, "x": x, "double": 2 * i}
        for x in ([None] * 3, [None] * 3, [1, 2, 3])
        for i, name, x in zip((1, 2, 3), ("a", None, "c"), x, strict=True)
    ]
    assert fm.read_table(tmp_path).to_pylist() == expected
    table.compact()
    assert fm.read_table(tmp_path).to_pylist() == expected
    assert fm.read_table(tmp_path / "b.mosaic") == DATA


@pytest.mark.parametrize("folder", ["at=12:00", "a b", "ä=ö", "x=%2F", "ab:c"])
def test_any_name_of_a_directory_is_adopted(folder, tmp_path):
    (tmp_path / folder).mkdir()
    fm.write_table(DATA, tmp_path / folder / "x:y.mosaic")
    before = fm.read_table(tmp_path)
    fm.MosaicTable.create(tmp_path)
    assert fm.read_table(tmp_path) == before


@pytest.mark.parametrize("name", ["a\\b.mosaic", "C:x.mosaic"])
def test_names_that_are_not_the_same_everywhere_are_refused(name, tmp_path):
    fm.write_table(DATA, tmp_path / name)
    with pytest.raises(ValueError, match=r"cannot be that of a file of a table"):
        fm.MosaicTable.create(tmp_path)
    assert everything(tmp_path) == {name}


# ---- refusals


def test_a_table_is_not_created_twice(tmp_path):
    fm.MosaicTable.create(tmp_path / "t", DATA)
    for data in (DATA, DATA.schema, None):
        with pytest.raises(FileExistsError, match="is a table already; open it with MosaicTable"):
            fm.MosaicTable.create(tmp_path / "t", data)


def test_files_and_data_are_refused(tmp_path):
    fm.write_table(DATA, tmp_path / "a.mosaic")
    for data in (DATA, DATA.schema):
        with pytest.raises(FileExistsError, match="then append the data"):
            fm.MosaicTable.create(tmp_path, data)
    assert everything(tmp_path) == {"a.mosaic"}


def test_nothing_at_all_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ValueError, match="contains no files; pass a schema or data"):
            fm.MosaicTable.create(path)
    assert everything(tmp_path) == set()


def test_partition_columns_must_exist(tmp_path):
    with pytest.raises(fm.ColumnNotFoundError, match=r"partitioning.*'nam'"):
        fm.MosaicTable.create(tmp_path / "t", DATA, partitioning="nam")
    for data in (DATA, DATA.schema):
        with pytest.raises(ValueError, match="partitioning contains all columns"):
            fm.MosaicTable.create(tmp_path / "t", data, partitioning=["id", "name"])
    fm.write_dataset(pa.table({"d": [1], "x": [1]}), tmp_path / "u", partitioning="d")
    with pytest.raises(ValueError, match=r"have the keys \['d'\]"):
        fm.MosaicTable.create(tmp_path / "u", partitioning="x")
    assert not (tmp_path / "t").exists()


def test_a_table_has_a_column(tmp_path):
    for data in (pa.schema({}), pa.table({})):
        with pytest.raises(ValueError, match="a table must have a column"):
            fm.MosaicTable.create(tmp_path / "t", data)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("key", [".k", "_k", "C:", "a=b", "k/x", "..", "_columns", "k\\x", " "])
def test_any_name_of_a_partition_column(key, tmp_path):
    values = ["a/b", "..", None, "C:\\x", "%", "\n", "__HIVE_DEFAULT_PARTITION__"]
    data = pa.table({key: values, "x": range(7)})
    table = fm.MosaicTable.create(tmp_path / "t", data, partitioning=key)
    table.append(data)
    assert fm.read_table(tmp_path / "t").sort_by("x")[key].to_pylist()[::2] == values
    assert fm.read_table(tmp_path / "t", filters=[(key, "=", "..")])["x"].to_pylist() == [1, 1]


def test_a_table_by_a_relative_path_and_a_uri(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = fm.MosaicTable.create("t/", pa.table({"a": [1]}))
    monkeypatch.chdir("/")
    table.append(pa.table({"a": [2]}))
    for path in (tmp_path / "t", f"{tmp_path}/t/", f"file://{tmp_path}/t"):
        assert fm.MosaicTable(path).read().to_pydict() == {"a": [1, 2]}
        assert fm.read_table(path).to_pydict() == {"a": [1, 2]}


def test_a_table_of_a_filesystem(memory):
    table = fm.MosaicTable.create("/x/t", DATA, filesystem=memory, single_writer=True)
    table.append(DATA)
    table.add_columns({"b": pc.field("id") * 2})
    table.delete([("id", "=", 1)])
    table.compact()
    table.vacuum(0)
    expected = [{"id": i, "name": name, "b": 2 * i} for i, name in [(2, None), (3, "c")] * 2]
    assert fm.read_table("/x/t", filesystem=memory).to_pylist() == expected
    assert fm.MosaicDataset("memory://x/t").to_table().to_pylist() == expected


def test_what_is_no_mosaic_file_is_refused(tmp_path):
    (tmp_path / "a.mosaic").write_bytes(b"not a Mosaic file, but long enough for a footer")
    with pytest.raises(fm.CorruptFileError, match=r"a\.mosaic"):
        fm.MosaicTable.create(tmp_path)


def test_options_and_types_are_checked_first(tmp_path):
    with pytest.raises(TypeError, match="no_such"):
        fm.MosaicTable.create(tmp_path / "t", DATA, no_such=1)
    with pytest.raises(TypeError, match="path or URI of a table"):
        fm.MosaicTable.create(io.BytesIO(), DATA)
    assert everything(tmp_path) == set()


def test_data_that_fail_leave_nothing_but_a_mark(tmp_path):
    def batches():
        yield DATA.to_batches()[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        fm.MosaicTable.create(tmp_path / "t", batches())
    assert {path for path in everything(tmp_path / "t") if "schema-" not in path} <= {
        "_mosaic/creating"
    }
    with pytest.raises(FileNotFoundError):
        fm.read_table(tmp_path / "t")
    assert fm.MosaicTable.create(tmp_path / "t", DATA).read() == DATA


def test_what_is_no_table_is_not_opened(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        fm.MosaicTable(tmp_path / "absent")
    fm.write_table(DATA, tmp_path / "a.mosaic")
    with pytest.raises(FileNotFoundError, match="not a table; make it one with MosaicTable"):
        fm.MosaicTable(tmp_path)
    with pytest.raises(FileNotFoundError):
        fm.MosaicTable(tmp_path / "a.mosaic")
