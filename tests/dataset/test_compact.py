"""fm.compact: small files of a directory become larger ones, in one step and without Spark."""

import os

import pyarrow as pa
import pytest

import fastmosaic as fm

TABLE = pa.table({"id": range(400), "text": [f"text {n}" for n in range(400)]})


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "days"
    for start in range(0, 400, 100):
        part = TABLE.slice(start, 100).append_column("day", pa.array(["mo"] * 50 + ["tu"] * 50))
        fm.write_dataset(part, path, partitioning="day", existing="append", write_statistics=["id"])
    return path


def files_of(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.mosaic"))


def test_files_of_each_partition_are_joined_and_rows_keep_their_order(folder):
    before = fm.read_table(folder)
    report = fm.compact(folder, mode="copy")
    assert fm.read_table(folder).equals(before)
    assert [path.partition("/")[0] for path in files_of(folder)] == ["day=mo", "day=tu"]
    assert (report.files_before, report.files_after, report.files_kept) == (8, 2, 0)
    assert (report.num_rows, report.num_copied, report.num_rewritten) == (400, 8, 0)
    assert report.bytes_after == sum((folder / path).stat().st_size for path in files_of(folder))
    for path in files_of(folder):
        assert fm.verify(folder / path).ok
        assert "id" in fm.read_metadata(folder / path).row_group(0).statistics


def test_small_row_groups_are_joined_unless_all_are_copied(folder):
    fm.compact(folder)
    groups = [fm.read_metadata(folder / path).num_row_groups for path in files_of(folder)]
    assert groups == [1, 1]
    assert fm.compact(folder).files_after == 0  # there is nothing left to do


def test_large_files_stay_as_they_are(folder):
    large = TABLE.append_column("noise", pa.array([os.urandom(5000) for _ in range(400)]))
    fm.write_table(large, folder / "day=mo" / "zz.mosaic")
    data = (folder / "day=mo" / "zz.mosaic").read_bytes()
    report = fm.compact(folder, target_bytes=1 << 20)
    assert report.files_kept == 1
    assert (folder / "day=mo" / "zz.mosaic").read_bytes() == data


def test_other_files_stay(folder):
    (folder / "_notes.txt").write_text("kept")
    fm.compact(folder)
    assert (folder / "_notes.txt").read_text() == "kept"


def test_files_with_other_columns_get_the_union(folder):
    fm.write_table(pa.table({"id": [1], "more": [2.5]}), folder / "day=mo" / "zz.mosaic")
    before = fm.read_table(folder)
    fm.compact(folder)
    assert fm.read_table(folder).equals(before)
    with pytest.raises(ValueError, match="mode"):
        fm.compact(folder, mode="all")


def test_a_damaged_file_changes_nothing(folder):
    victim = folder / files_of(folder)[3]
    data = bytearray(victim.read_bytes())
    data[10] ^= 255
    victim.write_bytes(data)
    before = files_of(folder)
    with pytest.raises(fm.CorruptFileError, match=victim.name):
        fm.compact(folder, mode="copy")
    assert files_of(folder) == before
    assert sorted(path.name for path in folder.parent.iterdir()) == ["days"]


def test_progress_counts_bytes(folder):
    calls = []
    total = sum((folder / path).stat().st_size for path in files_of(folder))
    fm.compact(folder, progress=lambda done, of: calls.append((done, of)))
    assert [of for _, of in calls] == [total, total]
    assert calls[-1][0] == total


def test_what_is_not_a_directory_of_files_is_refused(folder, tmp_path):
    with pytest.raises(FileNotFoundError):
        fm.compact(tmp_path / "nothing")
    with pytest.raises(NotADirectoryError):
        fm.compact(folder / files_of(folder)[0])
    with pytest.raises(ValueError, match="at least 1"):
        fm.compact(folder, target_bytes=0)
    fm.MosaicTable.create(folder)
    with pytest.raises(ValueError, match="is a table"):
        fm.compact(folder)
