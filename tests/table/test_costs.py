"""What operations on tables open, read and write: only what they need."""

import os
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import base_file_of, column_file_of

import fastmosaic as fm
from fastmosaic.dataset import files as one_file, snapshot as snapshots, table_files
from fastmosaic.storage import source as sources

NUM_FILES = 20


@pytest.fixture
def path(tmp_path):
    """Twenty days of 40 rows in four row groups, and a column file for each."""
    path = str(tmp_path / "t")
    count = 40 * NUM_FILES
    data = pa.table(
        {
            "day": [one // 40 for one in range(count)],
            "id": range(count),
            "a": [one % 40 for one in range(count)],
        }
    )
    options = {"row_group_size": 10, "write_statistics": True}
    table = fm.MosaicTable.create(path, data, partitioning="day", **options)
    table.add_columns({"b": pc.field("a") * 2}, write_statistics=True)
    return path


@pytest.fixture
def opened(monkeypatch):
    """How often files were opened, by kind; schemas are read once for each kind of file."""
    found = Counter()

    def kind(path):
        name = os.path.basename(path)
        if "_mosaic" in path:
            return "version" if name.endswith(".zst") else "schema"
        return "column file" if "_columns" in path else "base file"

    for module in (one_file, snapshots):
        original = module.open_source

        def recorded(path, *args, original=original, **options):
            found[kind(str(path))] += 1
            return original(path, *args, **options)

        monkeypatch.setattr(module, "open_source", recorded)
    return found


@pytest.fixture
def read_bytes(monkeypatch):
    """The number of bytes that are read of each file."""
    found = Counter()
    original = sources.Source.read_at

    def recorded(self, offset, length):
        found[os.path.basename(self.name)] += length
        return original(self, offset, length)

    monkeypatch.setattr(sources.Source, "read_at", recorded)
    return found


@pytest.fixture
def groups(monkeypatch):
    """The columns and row groups that are read."""
    found = []
    original = one_file.Scanner

    class Recording(original):
        def read(self, request, groups, memory):
            found.extend((name, one) for name in request.projection.schema.names for one in groups)
            return super().read(request, groups, memory)

        def whole(self, request, groups):
            found.extend((name, one) for name in request.projection.schema.names for one in groups)
            return super().whole(request, groups)

    for module in (one_file, table_files):
        monkeypatch.setattr(module, "Scanner", Recording)
    return found


def test_opening_reads_a_version_and_schemas(path, opened):
    dataset = fm.MosaicDataset(path)
    assert dataset.schema.names == ["id", "a", "b", "day"]
    assert dataset.count_rows() == 40 * NUM_FILES
    assert opened["version"] == 1
    assert opened["schema"] <= 4
    assert (opened["base file"], opened["column file"]) == (0, 0)


def test_a_partition_filter_opens_the_files_of_the_partition(path, opened):
    found = fm.read_table(path, columns=["id"], filters=[("day", "=", 7)])
    assert found.num_rows == 40
    assert opened["version"] == 1
    assert opened["base file"] == 1  # it is so small that its metadata comes with its rows
    assert opened["column file"] == 0


def test_counting_by_partition_opens_nothing(path, opened):
    assert fm.MosaicDataset(path).count_rows(filter=[("day", "in", [3, 4])]) == 80
    assert (opened["base file"], opened["column file"]) == (0, 0)


def test_an_added_column_does_not_open_base_files(path, opened):
    assert fm.read_table(path, columns=["b", "day"], filters=[("b", ">", 70)]).num_rows == 80
    assert opened["base file"] == 0
    assert opened["column file"] >= NUM_FILES


def test_a_base_column_does_not_open_column_files(path, opened):
    assert fm.read_table(path, columns=["a"]).num_rows == 40 * NUM_FILES
    assert opened["column file"] == 0


def test_heads_and_rows_by_number_open_the_files_they_need(path, opened):
    dataset = fm.MosaicDataset(path)
    assert dataset.head(50, columns=["id", "b"]).num_rows == 50
    assert opened["base file"] <= 4
    assert opened["column file"] <= 4
    opened.clear()
    assert dataset.take([799], columns=["b"])["b"].to_pylist() == [78]
    assert (opened["base file"], opened["column file"]) == (0, 1)


@pytest.mark.parametrize(("room", "times"), [(0, 2), (1 << 20, 1)])
def test_small_files_are_read_once_if_there_is_room_for_them(
    room, times, path, opened, monkeypatch
):
    monkeypatch.setattr(table_files, "MAX_KEPT_BYTES", room)
    found = fm.read_table(path, columns=["b"])
    assert found["b"].to_pylist() == [2 * (one % 40) for one in range(40 * NUM_FILES)]
    assert opened["column file"] == times * NUM_FILES


@pytest.mark.parametrize(
    ("filters", "columns", "wanted"),
    [
        ([("b", "=", 32)], ["id"], {("id", 1), ("b", 1)}),
        ([("a", "=", 32)], ["b"], {("a", 3), ("b", 3)}),
        ((pc.field("a") < 5) & (pc.field("b") < 5), ["a", "b"], {("a", 0), ("b", 0)}),
        ((pc.field("a") < 5) & (pc.field("b") > 70), ["id"], set()),
        ((pc.field("a") < 5) | (pc.field("b") > 70), ["b"], {(n, g) for n in "ab" for g in (0, 3)}),
        ([("b", ">", 1000)], None, set()),
    ],
    ids=["added", "replaced", "both", "neither", "either", "none"],
)
def test_statistics_of_all_files_skip_row_groups(filters, columns, wanted, path, groups):
    fm.read_table(path, columns=columns, filters=filters)
    assert set(groups) == wanted


def test_statistics_are_those_of_the_file_that_has_the_column(path, groups):
    """Not those of a column that was replaced."""
    table = fm.MosaicTable(path)
    table.add_columns({"a": pc.field("a") + 1000}, replace=True, write_statistics=True)
    groups.clear()
    assert fm.read_table(path, columns=["id"], filters=[("a", "=", 1032)]).num_rows == NUM_FILES
    assert set(groups) == {("id", 3), ("a", 3)}
    groups.clear()
    assert fm.read_table(path, columns=["id"], filters=[("a", "=", 32)]).num_rows == 0
    assert groups == []


def test_a_narrow_read_reads_few_bytes_of_wide_files(tmp_path, read_bytes):
    path = str(tmp_path / "t")
    wide = pa.table(
        {f"c{i:04}": [(i + 1) * (j + 1) ** 0.5 for j in range(200)] for i in range(400)}
    )
    table = fm.MosaicTable.create(path, wide, num_buckets=400)
    table.add_columns({"new": pc.field("c0007") * 2})
    base, added = base_file_of(path), column_file_of(path)
    read_bytes.clear()
    assert fm.read_table(path, columns=["new", "c0009"]).num_columns == 2
    end = 64 << 10  # the end of a file is read at once
    assert read_bytes[added.name] <= 2 * added.stat().st_size
    assert read_bytes[base.name] <= end + 2000 < base.stat().st_size * 0.6


def test_adding_a_column_reads_its_inputs_and_writes_it_alone(tmp_path, read_bytes):
    path = str(tmp_path / "t")
    wide = pa.table({f"c{i:04}": [float(i * j) for j in range(200)] for i in range(400)})
    table = fm.MosaicTable.create(path, wide, num_buckets=400)
    base = base_file_of(path)
    read_bytes.clear()
    table.add_columns({"new": pc.field("c0007") * 2})
    assert read_bytes[base.name] < base.stat().st_size / 2
    fm.write_table(table.read(["new"]), tmp_path / "alone.mosaic")
    alone = (tmp_path / "alone.mosaic").stat().st_size
    assert column_file_of(path).stat().st_size <= alone + 100


def test_the_size_of_a_version_does_not_depend_on_the_number_of_columns(tmp_path):
    def size(count):
        path = tmp_path / f"t{count}"
        table = fm.MosaicTable.create(path, pa.schema({f"c{i}": pa.int8() for i in range(count)}))
        for _ in range(3):
            table.append(pa.table({"c1": pa.array([1], pa.int8())}))
        table.add_columns({"x": pc.field("c1")})
        return (path / "_mosaic" / f"{table.version:020d}.json.zst").stat().st_size

    assert abs(size(10) - size(2000)) < 50


def test_a_change_reads_one_version(path, opened):
    table = fm.MosaicTable(path)
    opened.clear()
    table.append(pa.table({"day": [1], "id": [1], "a": [1]}))
    assert opened["version"] == 1
    assert (opened["base file"], opened["column file"]) == (0, 0)
    opened.clear()
    table.drop_columns("a")
    assert opened["version"] == 1
    assert (opened["base file"], opened["column file"]) == (0, 0)
    opened.clear()
    table.delete([("day", "=", 3)])
    assert (opened["base file"], opened["column file"]) == (0, 0)
