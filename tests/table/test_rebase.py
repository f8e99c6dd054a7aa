"""Two writers of one table: the second one's change is applied to the first one's version, or conflicts.

In each test, the work of the first writer is done, and before it commits another writer does: either just
before it looks for the newest version, or just before it creates the next one.
"""

import os

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from races import meanwhile, named, names_on_disk

import fastmosaic as fm
from fastmosaic.dataset.version import COLUMNS
from fastmosaic.table import commit as commit_module
from fastmosaic.table.store import TableStore


@pytest.fixture
def path(tmp_path):
    """A table of two files: version 2."""
    table = fm.MosaicTable.create(tmp_path / "t", rows(1, 2))
    table.append(rows(3, 4))
    return str(tmp_path / "t")


@pytest.fixture(params=["early", "late"])
def moment(request):
    return request.param


def rows(*ids):
    return pa.table({"id": list(ids), "a": [10 * one for one in ids]})


def read(path):
    return fm.read_table(path).to_pydict()


def other(path):
    return fm.MosaicTable(path)


def conflict(path, change, moment, action, file=None, column=None):
    """Expect a conflict; nothing of the change stays."""
    with (
        meanwhile(moment, action),
        pytest.raises(fm.ConflictError, match="nothing was committed") as caught,
    ):
        change()
    assert caught.value.column == column
    assert caught.value.file == (path if file is None else f"{path}/{file}")
    assert names_on_disk(path) == named(path)


# ---- both succeed


def test_append_and_append(path, moment):
    table = other(path)
    with meanwhile(moment, lambda: other(path).append(rows(5))):
        done = table.append(rows(6, 7))
    assert (done.version, done.rebased, done.summary) == (4, 1, {"rows": 2, "files": 1})
    assert table.version == 4
    assert read(path)["id"] == [1, 2, 3, 4, 5, 6, 7]
    assert fm.MosaicTable(path, 3).read()["id"].to_pylist() == [1, 2, 3, 4, 5]


def test_append_and_add(path, moment):
    table = other(path)
    with meanwhile(moment, lambda: other(path).add_columns({"b": pc.field("a") + 1})):
        table.append(rows(5))
    assert read(path)["b"] == [11, 21, 31, 41, None]


def test_add_and_append(path, moment):
    """The work is not done again, and the result tells how many files it has not seen."""
    calls = []

    def double(batch):
        calls.append(batch.num_rows)
        return {"b": pc.multiply(batch["a"], 2)}

    def appends():
        for number in (5, 6, 7):
            other(path).append(rows(number))

    with meanwhile(moment, appends):
        done = other(path).add_columns(double, inputs=["a"])
    assert calls == [2, 2]
    assert done.rebased == 3
    assert done.summary == {"columns": ["b"], "files": 2, "files_without_values": 3}
    assert fm.MosaicTable(path).history()[-1].summary == done.summary
    assert read(path)["b"] == [20, 40, 60, 80, None, None, None]


def test_a_change_that_loses_several_races(path, monkeypatch):
    """It is applied again and again; other writers come first four times."""
    monkeypatch.setattr(commit_module, "_FIRST_PAUSE", 0.001)
    add = TableStore.add
    left = [5, 6, 7, 8]
    calls = []

    def late(store, version):
        if left and version.operation == "add columns":
            other(path).append(rows(left.pop(0)))
        add(store, version)

    def double(batch):
        calls.append(batch)
        return {"b": pc.multiply(batch["a"], 2)}

    monkeypatch.setattr(TableStore, "add", late)
    done = other(path).add_columns(double)
    assert (done.rebased, done.summary["files_without_values"], len(calls)) == (4, 4, 2)
    assert read(path)["b"] == [20, 40, 60, 80, None, None, None, None]


def test_add_different_columns(path, moment):
    with meanwhile(moment, lambda: other(path).add_columns({"b": pc.field("a") + 1})):
        other(path).add_columns({"c": pc.field("a") + 2})
    assert read(path) == {
        "id": [1, 2, 3, 4],
        "a": [10, 20, 30, 40],
        "b": [11, 21, 31, 41],
        "c": [12, 22, 32, 42],
    }


def test_replace_and_then_drop(path, moment):
    def replaces():
        other(path).add_columns({"a": pc.field("a") * 0}, replace=True)

    with meanwhile(moment, replaces):
        other(path).drop_columns("a")
    assert read(path) == {"id": [1, 2, 3, 4]}
    assert fm.MosaicTable(path, 3).read()["a"].to_pylist() == [0, 0, 0, 0]


def test_drop_and_drop(path, moment):
    other(path).add_columns({"b": pc.field("a"), "c": pc.field("a")})
    with meanwhile(moment, lambda: other(path).drop_columns(["b", "c"])):
        done = other(path).drop_columns(["a", "b"])
    assert (done.committed, done.summary) == (True, {"columns": ["a"]})
    assert read(path) == {"id": [1, 2, 3, 4]}
    assert fm.MosaicTable(path).version == 5


def test_drop_the_same_column(path, moment):
    with meanwhile(moment, lambda: other(path).drop_columns("a")):
        done = other(path).drop_columns("a")
    assert (done.committed, done.version) == (False, 3)
    assert fm.MosaicTable(path).version == 3
    assert read(path) == {"id": [1, 2, 3, 4]}


def test_drop_and_append(path, moment):
    """The new rows lose the column, too, for good."""
    with meanwhile(moment, lambda: other(path).drop_columns("a")):
        other(path).append(rows(5))
    assert read(path) == {"id": [1, 2, 3, 4, 5]}
    other(path).add_columns({"a": pc.field("id")})
    other(path).append(rows(6))
    assert read(path)["a"] == [1, 2, 3, 4, 5, 60]


def test_delete_and_append(path, moment):
    """The appended rows stay, even if they match."""
    with meanwhile(moment, lambda: other(path).append(rows(2))):
        other(path).delete([("id", "in", [2, 3, 4])])
    assert read(path)["id"] == [1, 2]
    assert len(fm.MosaicTable(path).files) == 2


@pytest.mark.parametrize("mode", ["copy", "rewrite"])
def test_compact_and_append(path, moment, mode):
    with meanwhile(moment, lambda: other(path).append(rows(5))):
        done = other(path).compact(mode=mode)
    copied = 2 if mode == "copy" else 0
    assert done.summary == {"files_before": 2, "files_after": 1, "row_groups_copied": copied}
    assert read(path)["id"] == [1, 2, 3, 4, 5]
    assert len(fm.MosaicTable(path).files) == 2


def test_append_and_compact(path, moment):
    with meanwhile(moment, lambda: other(path).compact()):
        other(path).append(rows(5))
    assert read(path)["id"] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("mode", ["copy", "rewrite"])
def test_compact_and_drop(path, moment, mode):
    """The new file has the column, which does not count there either."""
    with meanwhile(moment, lambda: other(path).drop_columns("a")):
        other(path).compact(mode=mode)
    assert read(path) == {"id": [1, 2, 3, 4]}
    assert len(fm.MosaicTable(path).files) == 1


# ---- one gives way


def test_compact_gives_way_to_add(path, moment):
    with meanwhile(moment, lambda: other(path).add_columns({"b": pc.field("a")})):
        done = other(path).compact()
    assert (done.committed, done.version) == (False, 3)
    assert read(path)["b"] == [10, 20, 30, 40]
    assert names_on_disk(path) == named(path)  # what it has written is gone


def test_compact_gives_way_where_it_must(tmp_path, moment):
    path = str(tmp_path / "t")
    days = pa.table({"day": ["mo", "tu"], "id": [1, 2]})
    fm.MosaicTable.create(path, days, partitioning="day").append(days)
    with meanwhile(moment, lambda: other(path).delete([("day", "=", "mo"), ("id", "=", 1)])):
        done = other(path).compact()
    assert (done.summary["files_before"], done.summary["files_after"]) == (2, 1)
    assert done.summary["left_to_other_writers"] == 1
    assert read(path) == {"id": [2, 2], "day": ["tu", "tu"]}
    assert names_on_disk(path) == named(path)


def test_add_after_compact_is_a_conflict(path, moment):
    file = other(path).files[0]
    add = lambda: other(path).add_columns({"b": pc.field("a")})
    conflict(path, add, moment, lambda: other(path).compact(), file)


def test_fold_gives_way_to_add(path, moment):
    other(path).add_columns({"b": pc.field("a")})
    with meanwhile(moment, lambda: other(path).add_columns({"c": pc.field("a")})):
        done = other(path).fold()
    assert not done.committed
    assert read(path)["c"] == read(path)["b"] == [10, 20, 30, 40]
    assert names_on_disk(path) == named(path)


def test_add_after_fold_is_a_conflict(path, moment):
    other(path).add_columns({"b": pc.field("a")})
    file = other(path).files[0]
    add = lambda: other(path).add_columns({"c": pc.field("a")})
    conflict(path, add, moment, lambda: other(path).fold(), file)


def test_compact_gives_way_to_restore_of_a_dropped_column(path, moment):
    """The files are the same before and after, but not the columns that count."""
    other(path).drop_columns("a")
    with meanwhile(moment, lambda: other(path).restore(2)):
        done = other(path).compact()
    assert not done.committed
    assert read(path) == {"id": [1, 2, 3, 4], "a": [10, 20, 30, 40]}


def test_compact_gives_way_to_restore_of_a_drop(path, moment):
    """The column was dropped before the version that compaction has read, which did not have that."""
    other(path).drop_columns("a")
    other(path).restore(2)
    with meanwhile(moment, lambda: other(path).restore(3)):
        done = other(path).compact()
    assert not done.committed
    assert read(path) == {"id": [1, 2, 3, 4]}


# ---- conflicts


@pytest.mark.parametrize("first", [0, 1])
def test_the_same_column(path, moment, first):
    table = other(path)
    add = [lambda n=n: other(path).add_columns({"b": pc.field("a") + n}) for n in (0, 1)]
    conflict(path, add[1 - first], moment, add[first], table.files[0], "b")
    assert read(path)["b"] == [one + first for one in (10, 20, 30, 40)]


def test_a_column_that_was_added_and_dropped(path, moment):
    """The new one would be hidden with the one that was dropped."""

    def add_and_drop():
        other(path).add_columns({"b": pc.field("a")})
        other(path).drop_columns("b")

    add = lambda: other(path).add_columns({"b": pc.field("a")})
    conflict(path, add, moment, add_and_drop, other(path).files[0], "b")


def test_replace_the_same_column(path, moment):
    by = [
        lambda n=n: other(path).add_columns({"a": pc.field("a") + n}, replace=True) for n in (1, 2)
    ]
    conflict(path, by[0], moment, by[1], other(path).files[0], "a")
    assert read(path)["a"] == [12, 22, 32, 42]


def test_drop_and_then_replace(path, moment):
    replaces = lambda: other(path).add_columns({"a": pc.field("id")}, replace=True)
    drops = lambda: other(path).drop_columns("a")
    conflict(path, replaces, moment, drops, other(path).files[0], "a")
    assert read(path) == {"id": [1, 2, 3, 4]}


@pytest.mark.parametrize("partitioning", [None, "day"])
def test_no_column_is_left(tmp_path, moment, partitioning):
    path = str(tmp_path / "t")
    data = rows(1, 2, 3, 4)
    if partitioning:
        data = data.append_column("day", [["mo"] * 4])
    fm.MosaicTable.create(path, data, partitioning=partitioning)
    drops = lambda: other(path).drop_columns("id")
    conflict(path, drops, moment, lambda: other(path).drop_columns("a"), None, "id")
    assert read(path)["id"] == [1, 2, 3, 4]


def test_delete_and_add(path, moment):
    deletes = lambda: other(path).delete([("id", "=", 2)])
    adds = lambda: other(path).add_columns({"b": pc.field("a")})
    conflict(path, deletes, moment, adds, other(path).files[0], "b")
    assert read(path)["b"] == [10, 20, 30, 40]


def test_add_and_delete(path, moment):
    deletes = lambda: other(path).delete([("id", "=", 3)])
    adds = lambda: other(path).add_columns({"b": pc.field("a")})
    conflict(path, adds, moment, deletes, other(path).files[1])
    assert read(path) == {"id": [1, 2, 4], "a": [10, 20, 40]}


def test_delete_and_delete(path, moment):
    deletes = [lambda n=n: other(path).delete([("id", "=", n)]) for n in (1, 2, 3)]
    conflict(path, deletes[0], moment, deletes[1], other(path).files[0])
    with meanwhile(moment, deletes[2]):
        deletes[0]()
    assert read(path)["id"] == [4]


@pytest.mark.parametrize("change", ["append", "add", "drop", "compact", "vacuum"])
def test_restore_after_anything(path, moment, change):
    changes = {
        "append": lambda: other(path).append(rows(5)),
        "add": lambda: other(path).add_columns({"b": pc.field("a")}),
        "drop": lambda: other(path).drop_columns("a"),
        "compact": lambda: other(path).compact(),
        "vacuum": lambda: other(path).vacuum(0),
    }
    conflict(path, lambda: other(path).restore(1), moment, changes[change])
    assert read(path)["id"] == [1, 2, 3, 4, 5][: 5 if change == "append" else 4]


def test_append_after_restore(path, moment):
    with meanwhile(moment, lambda: other(path).restore(1)):
        other(path).append(rows(5))
    assert read(path)["id"] == [1, 2, 5]


def test_append_of_a_column_that_restore_has_removed(path, moment):
    other(path).add_columns({"b": pc.field("a")})
    data = rows(5).append_column("b", [[50]])
    with (
        meanwhile(moment, lambda: other(path).restore(2)),
        pytest.raises(fm.ConflictError, match="removed the column") as caught,
    ):
        other(path).append(data)
    assert caught.value.column == "b"
    assert read(path) == {"id": [1, 2, 3, 4], "a": [10, 20, 30, 40]}
    assert names_on_disk(path) == named(path)


def test_append_of_another_type(path, moment):
    def replaces():
        other(path).add_columns({"a": pc.field("a").cast("string")}, replace=True)

    with (
        meanwhile(moment, replaces),
        pytest.raises(fm.ConflictError, match="changed the type of the column to string") as caught,
    ):
        other(path).append(rows(5))
    assert caught.value.column == "a"
    assert caught.value.file.startswith(f"{path}/part-")
    assert read(path)["a"] == ["10", "20", "30", "40"]
    assert names_on_disk(path) == named(path)


# ---- vacuum


def test_vacuum_while_others_restore(path):
    """The version to return to is gone for the next reader, but this one has read it."""
    other(path).delete([("id", "<", 3)])
    state = other(path)._store.snapshot(2)
    with meanwhile("late", lambda: _commit_restore(path, state)):
        report = other(path).vacuum(0)
    assert report.versions == (1, 2)
    assert report.files == ()
    assert read(path)["id"] == [1, 2, 3, 4]


def _commit_restore(path, earlier):
    table = other(path)
    store = table._store
    with pytest.MonkeyPatch.context() as patch:
        snapshot = TableStore.snapshot
        patch.setattr(
            TableStore,
            "snapshot",
            lambda self, number=None: earlier if number else snapshot(self),
        )
        assert store.versions() == [3]
        table.restore(2)


def test_vacuum_while_others_append(path, moment):
    """The new file is younger than the vacuum; the old ones have another version that names them."""
    other(path).compact()
    with meanwhile(moment, lambda: other(path).append(rows(5))):
        report = other(path).vacuum(0)
    assert len(report.files) == 2
    assert read(path)["id"] == [1, 2, 3, 4, 5]
    assert names_on_disk(path) == named(path)


def test_a_version_is_as_old_as_its_successor(path):
    """Whoever has read the newest version has time to end, however old that version is."""
    long_ago = os.stat(path).st_mtime - 100 * 24 * 3600
    store = other(path)._store
    for name in names_on_disk(path):
        os.utime(os.path.join(path, name), (long_ago, long_ago))
    _make_old(path, 2)
    table = other(path)
    other(path).compact()
    report = other(path).vacuum(24 * 3600)
    assert (report.versions, report.files) == ((1,), ())
    assert table.read()["id"].to_pylist() == [1, 2, 3, 4]
    assert store.versions() == [2, 3, 4]


def _make_old(path, number):
    """Write a version again that was made a hundred days ago, and all before it."""
    from dataclasses import replace
    from datetime import timedelta

    from fastmosaic.dataset.version import version_name

    store = other(path)._store
    for one in range(1, number + 1):
        version = store.read(one)
        store.remove(version_name(one))
        store.add(replace(version, time=version.time - timedelta(days=100)))


def test_a_version_that_vacuum_removes_is_not_made_again(path):
    """A change that was prepared for version 2 does not become version 3, which is gone."""

    def others():
        other(path).append(rows(5))
        other(path).append(rows(6))
        assert other(path).vacuum(0).versions == (1, 2, 3)

    with meanwhile("early", others):
        done = other(path).drop_columns("a")
    assert done.version == 6
    assert read(path) == {"id": [1, 2, 3, 4, 5, 6]}


@pytest.mark.parametrize("kind", ["append", "add"])
def test_vacuum_removes_files_before_they_are_committed(path, kind):
    table = other(path)
    change = {
        "append": lambda: table.append(rows(5)),
        "add": lambda: table.add_columns({"b": pc.field("a")}),
    }[kind]
    with (
        meanwhile("early", lambda: other(path).vacuum(0)),
        pytest.raises(fm.ConflictError, match="longer than the longest operation") as caught,
    ):
        change()
    assert caught.value.file.startswith(f"{path}/{COLUMNS if kind == 'add' else 'part'}")
    assert read(path) == {"id": [1, 2, 3, 4], "a": [10, 20, 30, 40]}


def test_columns_that_vacuum_removes_are_noticed(path):
    """The new columns are those of no version, but an old file with them was there."""
    other(path).add_columns({"b": pc.field("a")})
    other(path).fold()
    other(path).vacuum(0)

    def removes():
        schemas = set(os.listdir(f"{path}/_mosaic")) - before
        (new,) = (name for name in schemas if name.startswith("schema-"))
        os.unlink(f"{path}/_mosaic/{new}")

    before = set(os.listdir(f"{path}/_mosaic"))
    with (
        meanwhile("early", removes),
        pytest.raises(fm.ConflictError, match="removed before it was committed"),
    ):
        other(path).add_columns({"c": pc.field("a")})
    assert read(path)["b"] == [10, 20, 30, 40]
