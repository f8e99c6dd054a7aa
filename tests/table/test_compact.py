"""MosaicTable.compact and fold: fewer files with the same rows, in the same order."""

import os
from pathlib import Path

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
    """Four files of 100 rows."""
    table = fm.MosaicTable.create(path, rows(0))
    for number in range(1, 4):
        table.append(rows(number))
    return table


def rows(number):
    ids = range(100 * number, 100 * number + 100)
    return pa.table({"id": ids, "a": [one % 7 for one in ids], "s": [f"text {one}" for one in ids]})


def buckets(path):
    """Return the bytes of the buckets of a file."""
    file = fm.MosaicFile(path)
    data = Path(path).read_bytes()
    return [
        data[one.offset : one.offset + one.compressed_size]
        for group in range(file.metadata.num_row_groups)
        for one in file.metadata.buckets(group)
    ]


def test_files_are_merged_in_order(table, path):
    before = fm.read_table(path)
    change = table.compact()
    assert (change.operation, change.version) == ("compact", 5)
    # The row groups are small, so they are joined.
    assert dict(change.summary) == {"files_before": 4, "files_after": 1, "row_groups_copied": 0}
    assert len(table.files) == 1
    assert fm.read_table(path) == before
    assert fm.MosaicFile(base_file_of(path)).metadata.num_row_groups == 1  # small ones are joined
    assert not table.compact().committed
    assert fm.MosaicTable(path, 4).read() == before


def test_row_groups_are_copied(table, path):
    expected = [bucket for name in table.files for bucket in buckets(f"{path}/{name}")]
    before = fm.read_table(path)
    table.compact(mode="copy")
    assert buckets(base_file_of(path)) == expected
    assert fm.MosaicFile(base_file_of(path)).metadata.num_row_groups == 4
    assert fm.read_table(path) == before
    assert fm.verify(base_file_of(path)).ok


def test_large_row_groups_are_copied_by_default(path):
    table = fm.MosaicTable.create(path, rows(0), row_group_bytes=2000)
    table.append(rows(1), row_group_bytes=2000)
    expected = [bucket for name in table.files for bucket in buckets(f"{path}/{name}")]
    table.compact(row_group_bytes=2000)
    assert buckets(base_file_of(path)) == expected


def test_all_is_rewritten_if_asked(table, path):
    before = fm.read_table(path)
    table.compact(mode="rewrite", row_group_size=150, compression="none")
    metadata = fm.MosaicFile(base_file_of(path)).metadata
    assert (metadata.num_row_groups, metadata.compression) == (3, "none")
    assert fm.read_table(path) == before


def test_files_are_merged_up_to_a_size(table, path):
    size = os.path.getsize(f"{path}/{table.files[0]}")
    before = fm.read_table(path)
    table.compact(target_bytes=int(size * 2.5))
    assert len(table.files) == 2
    assert fm.read_table(path) == before
    assert not table.compact(target_bytes=1).committed
    with pytest.raises(ValueError, match="target_bytes must be at least 1"):
        table.compact(target_bytes=0)
    with pytest.raises(ValueError, match="mode must be"):
        table.compact(mode="fast")


def test_large_files_stay_between_small_ones(path):
    table = fm.MosaicTable.create(path, rows(0).slice(0, 1))
    table.append(rows(0).slice(1, 1))
    table.append(rows(1))
    table.append(rows(2).slice(0, 1))
    table.append(rows(2).slice(1, 1))
    large = table.files[2]
    before = fm.read_table(path)
    table.compact(target_bytes=os.path.getsize(f"{path}/{large}"))
    assert len(table.files) == 3
    assert table.files[1] == large
    assert fm.read_table(path) == before


def test_partitions_stay_separate(path):
    table = fm.MosaicTable.create(
        path, pa.table({"day": ["mo", "tu"], "x": [1, 2]}), partitioning="day"
    )
    table.append(pa.table({"day": ["tu", "mo", "we"], "x": [3, 4, 5]}))
    table.compact()
    assert [name.split("/")[0] for name in table.files] == ["day=mo", "day=tu", "day=we"]
    assert fm.read_table(path).to_pydict() == {
        "x": [1, 4, 2, 3, 5],
        "day": ["mo", "mo", "tu", "tu", "we"],
    }


@pytest.mark.parametrize("act", ["compact", "fold"])
def test_column_files_are_folded_in(act, table, path):
    table.add_columns({"b": pc.field("id") * 2, "c": pc.field("s")})
    table.add_columns({"a": pc.field("a") + 0.5}, replace=True)
    table.append(pa.table({"id": [400], "a": [0.25]}))
    before = fm.read_table(path)
    change = getattr(table, act)()
    assert change.summary["files_before"] == (5 if act == "compact" else 4)
    assert len(table.files) == (1 if act == "compact" else 5)
    assert not any(file.columns for file in table._snapshot.version.files)
    after = fm.read_table(path)
    assert after.select(before.schema.names) == before
    assert after.schema.names == ["id", "a", "s", "b", "c"]
    assert fm.read_schema(base_file_of(path)).names == ["id", "a", "s", "b", "c"]
    if act == "fold":
        assert not table.fold().committed


def test_columns_that_were_dropped_are_folded_away(table, path):
    table.append(pa.table({"id": [400]}))
    table.drop_columns("a")
    before = fm.read_table(path)
    change = table.fold()
    assert change.summary["files_before"] == 4  # the last one never had such a column
    assert fm.read_table(path) == before
    assert all("a" not in fm.read_schema(f"{path}/{name}").names for name in table.files)
    assert not table.fold().committed


def test_column_files_are_never_copied(table, path):
    table.add_columns({"b": pc.field("id")})
    before = data_files(path)
    with pytest.raises(ValueError, match='cannot be copied; use mode="auto"'):
        table.compact(mode="copy")
    assert data_files(path) == before


def test_files_with_other_columns_are_united(table, path):
    table.append(pa.table({"id": [400]}))
    table.append(pa.table({"s": ["only"]}))
    before = fm.read_table(path)
    with pytest.raises(fm.SchemaMismatchError):
        table.compact(mode="copy")
    table.compact()
    assert fm.read_table(path) == before


def test_files_that_hide_other_columns(table, path):
    """Some files have a column that was dropped, others do not, or have a new one of that name."""
    table.drop_columns("a")
    table.append(pa.table({"id": [400], "s": ["x"]}))
    before = fm.read_table(path)
    table.compact()
    assert fm.read_table(path) == before
    table.add_columns({"a": pc.field("s")})
    table.append(pa.table({"id": [401], "s": ["y"], "a": ["z"]}))
    before = fm.read_table(path)
    table.compact()
    assert fm.read_table(path) == before


@pytest.mark.parametrize("mode", ["auto", "rewrite"])
def test_hidden_columns_of_other_types(mode, path):
    table = fm.MosaicTable.create(path, pa.table({"k": [1], "x": [1]}))
    table.drop_columns("x")
    table.add_columns({"x": pc.field("k").cast(pa.string())})
    table.append(pa.table({"k": [2], "x": ["b"]}))
    table.drop_columns("x")  # both files have such a column, as a number and as text
    table.compact(mode=mode)
    assert fm.read_table(path).to_pydict() == {"k": [1, 2]}
    table.add_columns({"x": pc.field("k") > 1})
    assert fm.read_table(path).to_pydict() == {"k": [1, 2], "x": [False, True]}


def test_hidden_columns_that_are_copied_stay_hidden(table, path):
    table.drop_columns("a")
    table.compact(mode="copy")
    assert fm.read_table(path).schema.names == ["id", "s"]
    table.add_columns({"a": pc.field("s")})
    assert fm.read_table(path)["a"].to_pylist()[:2] == ["text 0", "text 1"]
    table.restore(4)
    assert fm.read_table(path)["a"].to_pylist()[:3] == [0, 1, 2]


def test_dictionaries_and_other_types_are_kept(path):
    def data(values):
        return pa.table(
            {
                "d": pa.array(values).dictionary_encode(),
                "u": pa.array([2**64 - 1, None], pa.uint64()),
                "t": pa.array([1, None], pa.duration("s")),
                "v": pa.array(values, pa.string_view()),
                "st": pa.array([{"x": 1}, None]),
            }
        )

    table = fm.MosaicTable.create(path, data(["a", "b"]))
    table.append(data(["c", "a"]))
    table.add_columns(lambda batch: {"e": batch["d"]}, inputs=["d"])
    before = fm.read_table(path)
    for act in (table.fold, table.compact):
        act()
        after = fm.read_table(path)
        assert after.to_pylist() == before.to_pylist()
        assert after.schema == before.schema


def test_progress_and_failure(table, path):
    seen = []
    table.compact(target_bytes=1 << 20, progress=seen.append)
    assert [(one.operation, one.num_files, one.total_files, one.num_rows) for one in seen] == [
        ("compact", 1, 1, 400)
    ]
    table.add_columns({"b": pc.field("id")})
    before = data_files(path)

    def stop(progress):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        table.fold(progress=stop)
    assert data_files(path) == before


def test_metadata_of_columns_are_kept(path):
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"unit": "m"})], {"from": "here"})
    table = fm.MosaicTable.create(path, pa.table({"a": [1]}, schema=schema))
    table.append(pa.table({"a": [2]}))
    table.add_columns({"b": pc.field("a")})
    for act in (table.fold, table.compact):
        act()
        found = fm.read_table(path).schema
        assert found.field("a").metadata == {b"unit": b"m"}
        assert found.metadata == {b"from": b"here"}
