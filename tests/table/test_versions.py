"""Versions of a table: history, reading and restoring earlier ones, vacuum."""

import datetime
import os
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import data_files, everything, named

import fastmosaic as fm


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "t")


@pytest.fixture
def table(path):
    """Five versions: create, append, add columns, drop columns, delete."""
    table = fm.MosaicTable.create(path, pa.table({"id": [1, 2], "a": [1, 2]}))
    table.append(pa.table({"id": [3]}))
    table.add_columns({"b": pc.field("id") * 10})
    table.drop_columns("a")
    table.delete([("id", "=", 3)])
    return table


STATES = {
    1: [{"id": 1, "a": 1}, {"id": 2, "a": 2}],
    2: [{"id": 1, "a": 1}, {"id": 2, "a": 2}, {"id": 3, "a": None}],
    3: [{"id": 1, "a": 1, "b": 10}, {"id": 2, "a": 2, "b": 20}, {"id": 3, "a": None, "b": 30}],
    4: [{"id": 1, "b": 10}, {"id": 2, "b": 20}, {"id": 3, "b": 30}],
    5: [{"id": 1, "b": 10}, {"id": 2, "b": 20}],
}


def test_history_lists_all_versions(table):
    found = table.history()
    assert [one.version for one in found] == [1, 2, 3, 4, 5]
    assert [one.operation for one in found] == [
        "create",
        "append",
        "add columns",
        "drop columns",
        "delete",
    ]
    assert [one.num_rows for one in found] == [2, 3, 3, 3, 2]
    assert [one.num_files for one in found] == [1, 2, 2, 2, 1]
    assert found[4].summary == {"rows": 1, "files_before": 1, "files_after": 0}
    times = [one.time for one in found]
    assert times == sorted(times)
    assert all(one.tzinfo is datetime.UTC for one in times)


@pytest.mark.parametrize("number", STATES)
def test_every_version_is_read(number, table, path):
    earlier = fm.MosaicTable(path, number)
    assert earlier.version == number
    assert earlier.read().to_pylist() == STATES[number]
    assert earlier.dataset().to_table().to_pylist() == STATES[number]
    assert earlier.schema.names == list(STATES[number][0])
    assert earlier.num_rows == len(STATES[number])


@pytest.mark.parametrize("number", [0, 6, 99, -1, 2**63, 10**30])
def test_versions_that_do_not_exist(number, table, path):
    with pytest.raises(
        FileNotFoundError,
        match=f"has no version {number}: the oldest one is 1 and the newest one is 5",
    ):
        fm.MosaicTable(path, number)
    with pytest.raises(FileNotFoundError, match=f"has no version {number}"):
        table.restore(number)


def test_an_earlier_version_is_not_changed(table, path):
    pinned = fm.MosaicTable(path, 2)
    before = everything(path)
    for change in (
        lambda: pinned.append(pa.table({"id": [9]})),
        lambda: pinned.add_columns({"z": pc.field("id")}),
        lambda: pinned.drop_columns("id"),
        lambda: pinned.delete([("id", "=", 1)]),
        pinned.compact,
        pinned.fold,
        pinned.vacuum,
        lambda: pinned.restore(1),
    ):
        with pytest.raises(
            ValueError, match=r"open at version 2, which cannot be changed.*restore\(2\)"
        ):
            change()
    assert everything(path) == before
    assert repr(pinned).endswith(": version 2, 3 rows in 2 files>")
    pinned.refresh()
    assert pinned.version == 5
    pinned.append(pa.table({"id": [9]}))


def test_a_table_does_not_move_by_itself(table, path):
    other = fm.MosaicTable(path)
    dataset = fm.MosaicDataset(path)
    table.append(pa.table({"id": [9]}))
    assert other.read().to_pylist() == STATES[5]
    assert dataset.to_table().to_pylist() == STATES[5]
    assert other.refresh() is other
    assert other.num_rows == 3
    # A change applies to the newest version, whatever the object has read.
    third = fm.MosaicTable(path)
    table.append(pa.table({"id": [10]}))
    third.append(pa.table({"id": [11]}))
    assert third.read()["id"].to_pylist() == [1, 2, 9, 10, 11]


@pytest.mark.parametrize("number", STATES)
def test_every_version_is_restored(number, table, path):
    change = table.restore(number)
    if number == 5:
        assert (change.committed, change.version) == (False, 5)
    else:
        assert (change.version, dict(change.summary)) == (6, {"version": number})
    assert fm.read_table(path).to_pylist() == STATES[number]
    for earlier, state in STATES.items():
        assert fm.MosaicTable(path, earlier).read().to_pylist() == state
    table.append(pa.table({"id": [4]}))
    table.add_columns({"c": pc.field("id")})
    assert fm.read_table(path)["c"].to_pylist()[-1] == 4


def test_an_open_table_looks_the_same_when_others_restore(table, path):
    reader = fm.MosaicTable(path).dataset()
    table.restore(1)
    table.restore(5)
    assert reader.to_table().to_pylist() == STATES[5] == fm.read_table(path).to_pylist()


# ---- vacuum


def test_vacuum_leaves_what_kept_versions_name(table, path):
    before = everything(path)
    old = data_files(path) - fm.MosaicTable(path)._snapshot.version.paths
    report = table.vacuum(0)
    assert report.versions == (1, 2, 3, 4)
    assert report.version == table.version == 6
    assert set(report.files) >= old
    assert repr(report).startswith("<VacuumReport: 4 versions and ")
    assert everything(path) == named(path)
    assert [one.operation for one in table.history()] == ["delete", "vacuum"]
    assert fm.read_table(path).to_pylist() == STATES[5]
    assert report.num_bytes > 0
    assert everything(path) < before | {f"_mosaic/{6:020d}.json.zst"}
    with pytest.raises(
        FileNotFoundError, match="has no version 3: the oldest one is 5 and the newest one is 6"
    ):
        fm.MosaicTable(path, 3)
    # Nothing is left to remove but the version before the mark.
    assert table.vacuum(0, keep_versions=2).files == ()


def test_a_dry_run_removes_nothing(table, path):
    before = everything(path)
    dry = table.vacuum(0, dry_run=True)
    assert everything(path) == before
    assert table.version == 5
    report = table.vacuum(0)
    assert (report.versions, set(report.files), report.num_bytes) == (
        dry.versions,
        set(dry.files),
        dry.num_bytes,
    )


@pytest.mark.parametrize("keep", [1, 2, 3, 5, 9])
def test_vacuum_keeps_as_many_versions_as_asked(keep, table, path):
    report = table.vacuum(0, keep_versions=keep)
    assert list(report.versions) == list(range(1, 6 - keep))
    for number in range(max(1, 6 - keep), 6):
        assert fm.MosaicTable(path, number).read().to_pylist() == STATES[number]
    assert everything(path) == named(path)


def test_vacuum_keeps_what_is_young(table, path):
    before = everything(path)
    for age in (3600, datetime.timedelta(days=7)):
        report = table.vacuum(age)
        assert (report.versions, report.files) == ((), ())
    table.vacuum()
    assert everything(path) == before


def test_vacuum_removes_files_that_no_version_names(table, path):
    fm.write_table(pa.table({"x": [1]}), f"{path}/left-over.mosaic")
    fm.write_table(pa.table({"x": [1]}), f"{path}/_columns/left-over.mosaic")
    young = f"{path}/_columns/young.mosaic"
    fm.write_table(pa.table({"x": [1]}), young)
    hour = time.time() - 3600
    for name in everything(path):
        if not name.endswith("young.mosaic"):
            os.utime(f"{path}/{name}", (hour, hour))
    report = table.vacuum(1800, keep_versions=5)
    assert set(report.files) == {"left-over.mosaic", "_columns/left-over.mosaic"}
    assert os.path.exists(young)
    assert fm.read_table(path).to_pylist() == STATES[5]
    with open(f"{path}/README.md", "w") as readme:
        readme.write("not ours")
    table.vacuum(0)
    assert everything(path) == named(path) | {"README.md"}


def test_vacuum_refuses_nonsense(table):
    with pytest.raises(ValueError, match="older_than must not be negative"):
        table.vacuum(-1)
    with pytest.raises(ValueError, match="keep_versions must be at least 1"):
        table.vacuum(0, keep_versions=0)


def test_a_version_that_vacuum_removed_is_missed_by_name(table, path):
    earlier = fm.MosaicTable(path, 3)
    dataset = earlier.dataset()
    table.compact(mode="rewrite")
    table.append(pa.table({"id": [9]}))
    table.compact()
    table.vacuum(0)
    for read in (earlier.read, dataset.to_table):
        with pytest.raises(FileNotFoundError, match=r"\.mosaic"):
            read()
