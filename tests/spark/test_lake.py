"""Directories as namespaces and tables, without Spark's JVM: local ones, and those of a store."""

import os

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector

import fastmosaic as fm
from fastmosaic.dataset.version import CREATING, VERSIONS
from fastmosaic.spark.lake.lake import Lake, LakeError
from fastmosaic.storage.location import as_arrow

ROWS = pa.table({"day": ["mo", "tu"], "x": [1, 2]})


@pytest.fixture(params=["local", "remote"])
def lake(request, tmp_path, memory):
    if request.param == "local":
        (tmp_path / "lake").mkdir()
        return Lake.of(tmp_path / "lake")
    return Lake.of("/lake", memory)


def create(lake, *names, data=ROWS, **options):
    *namespace, name = names
    store = lake.store(tuple(namespace), name)
    return fm.MosaicTable.create(store.path, data, filesystem=store.filesystem, **options)


def write(lake, path, **options):
    fm.write_dataset(ROWS, f"{lake.path}/{path}", filesystem=lake.filesystem, **options)


def reason(call, *given):
    with pytest.raises(LakeError) as caught:
        call(*given)
    return caught.value.reason


def test_an_empty_lake(lake):
    assert lake.namespaces() == []
    assert lake.tables() == []
    assert lake.is_namespace(())
    assert lake.kind((), "t") is None
    assert not lake.drop((), "t")
    assert reason(lake.find, (), "t") == "no table"
    assert reason(lake.tables, ("a",)) == "no namespace"


def test_what_directories_are(lake):
    create(lake, "t", partitioning="day")
    write(lake, "plain")
    write(lake, "keys", partitioning="day")
    write(lake, "a/b/deep")
    fm.write_table(ROWS, f"{lake.path}/one.mosaic", filesystem=lake.filesystem)
    write(lake, "_hidden")
    assert lake.tables() == ["keys", "one", "plain", "t"]
    assert lake.namespaces() == [("a",)]
    assert lake.namespaces(("a",)) == [("a", "b")]
    assert lake.tables(("a", "b")) == ["deep"]
    kinds = {name: lake.kind((), name) for name in ("t", "plain", "keys", "one", "a", "_hidden")}
    assert kinds == {
        "t": "table",
        "plain": "dataset",
        "keys": "dataset",
        "one": "file",
        "a": None,
        "_hidden": None,
    }
    # Partitions and directories inside of tables are neither.
    assert not lake.is_namespace(("t",))
    assert not lake.is_namespace(("keys", "day=mo"))
    assert lake.kind(("t",), "day=mo") is None
    assert reason(lake.check_new, (), "t") == "table exists"
    assert reason(lake.check_new, (), "a") == "table exists"
    assert reason(lake.check_new, ("t",), "u") == "no namespace"


def test_files_in_a_namespace_that_was_created(lake):
    lake.create_namespace(("ns",), {"comment": "ü"})
    fm.write_table(ROWS, f"{lake.path}/ns/one.mosaic", filesystem=lake.filesystem)
    assert lake.namespaces() == [("ns",)]
    assert lake.tables(("ns",)) == ["one"]
    assert lake.properties(("ns",)) == {"comment": "ü"}
    assert lake.properties(()) == {}
    lake.set_properties(("ns",), {"k": "v"})
    assert lake.properties(("ns",)) == {"k": "v"}
    assert reason(lake.create_namespace, ("ns",), {}) == "namespace exists"
    assert reason(lake.create_namespace, ("ns", "one"), {}) == "namespace exists"
    assert reason(lake.drop_namespace, ("ns",), False) == "not empty"
    lake.drop_namespace(("ns",), True)
    assert lake.namespaces() == []


def test_a_namespace_with_other_files_is_not_dropped(lake):
    lake.create_namespace(("ns", "inner"), {})
    create(lake, "ns", "t")
    with lake_storage(lake).open_output_stream(f"{lake.path}/ns/notes.txt") as stream:
        stream.write(b"mine")
    with pytest.raises(ValueError, match=r"notes\.txt"):
        lake.drop_namespace(("ns",), True)
    assert lake_storage(lake).get_file_info(f"{lake.path}/ns/notes.txt").is_file


def lake_storage(lake):
    return as_arrow(lake.filesystem)


@pytest.mark.parametrize(
    "name", ["a.b", "a b", "a`b", "中", "a/b", "..", ".", "_x", "k=v", "%41", "x."]
)
def test_any_name(lake, name):
    lake.create_namespace((name,), {})
    create(lake, name, name)
    assert lake.namespaces() == [(name,)]
    assert lake.tables((name,)) == [name]
    path, kind = lake.find((name,), name)
    assert kind == "table"
    assert os.path.dirname(os.path.dirname(path)) == lake.path
    assert lake.drop((name,), name)
    lake.drop_namespace((name,), False)
    assert lake.namespaces() == []


def test_directories_that_others_have_named(lake):
    for name in ("a%20b", "100%", "it's"):
        write(lake, name)
    assert lake.tables() == ["100%", "a%20b", "it's"]
    for name in lake.tables():
        assert lake.kind((), name) == "dataset"


def test_a_table_without_a_version_is_none(lake):
    store = lake.store((), "t")
    store.begin_creation()
    assert lake.tables() == []
    assert lake.namespaces() == []
    create(lake, "t")
    assert lake.tables() == ["t"]


def test_drop_removes_everything(lake):
    create(lake, "t", partitioning="day").append(ROWS)
    write(lake, "plain", partitioning="day")
    fm.write_table(ROWS, f"{lake.path}/one.mosaic", filesystem=lake.filesystem)
    for name in ("t", "plain", "one"):
        assert lake.drop((), name)
    assert lake.tables() == []
    selector = FileSelector(lake.path, recursive=True, allow_not_found=True)
    assert not [one for one in lake_storage(lake).get_file_info(selector) if one.is_file]


def test_a_drop_that_was_killed_leaves_no_table(memory, monkeypatch):
    lake = Lake.of("/lake", memory)
    create(lake, "t", partitioning="day")
    removed = []
    remove = Lake._remove

    def killed(self, paths):
        paths = list(paths)
        if removed:
            raise KeyboardInterrupt
        removed.extend(paths)
        remove(self, paths)

    monkeypatch.setattr(Lake, "_remove", killed)
    with pytest.raises(KeyboardInterrupt):
        lake.drop((), "t")
    monkeypatch.undo()
    assert lake.tables() == []
    assert lake_storage(lake).get_file_info(f"{lake.path}/t/{VERSIONS}/{CREATING}").is_file
    table = create(lake, "t", data=pa.table({"other": [1]}))
    assert table.read().to_pydict() == {"other": [1]}


def test_rename(tmp_path):
    lake = Lake.of(tmp_path)
    create(lake, "t")
    lake.create_namespace(("ns",), {})
    lake.rename(((), "t"), (("ns",), "u=v"))
    assert lake.tables() == []
    assert lake.tables(("ns",)) == ["u=v"]
    create(lake, "t")
    assert reason(lake.rename, ((), "t"), (("ns",), "u=v")) == "table exists"
    assert reason(lake.rename, ((), "t"), (("no",), "u")) == "no namespace"
    assert reason(lake.rename, ((), "no"), ((), "u")) == "no table"


def test_rename_in_a_store_is_refused(memory):
    lake = Lake.of("/lake", memory)
    create(lake, "t")
    with pytest.raises(fm.UnsupportedError, match="as select"):
        lake.rename(((), "t"), ((), "u"))
