"""concat: files found by path, merged into one."""

import io
import os
import resource

import pyarrow as pa
import pytest
from pyarrow import fs

import fastmosaic as fm

TABLE = pa.table({"id": range(300), "text": [f"text {n}" for n in range(300)]})


@pytest.fixture
def folder(tmp_path):
    """A directory with three files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        fm.write_table(TABLE.slice(100 * number, 100), folder / f"{number}.mosaic")
    return folder


@pytest.mark.parametrize("kind", ["directory", "glob", "list"])
def test_a_directory_a_glob_and_a_list(folder, tmp_path, kind):
    paths = sorted(folder.iterdir())
    sources = {"directory": folder, "glob": f"{folder}/*.mosaic", "list": paths}[kind]
    target = tmp_path / "all.mosaic"
    report = fm.concat(sources, target, mode="copy")
    assert fm.read_table(target).equals(TABLE)
    assert (report.num_files, report.num_rows, report.num_copied) == (3, 300, 3)
    assert report.num_bytes == target.stat().st_size
    assert repr(report).startswith("<ConcatReport: 300 rows of 3 files, ")
    assert fm.verify(target).ok


def test_a_list_has_its_own_order(folder, tmp_path):
    fm.concat([folder / "2.mosaic", folder / "0.mosaic"], tmp_path / "all.mosaic")
    table = fm.read_table(tmp_path / "all.mosaic")
    assert table.equals(pa.concat_tables([TABLE.slice(200), TABLE.slice(0, 100)]))


def test_the_target_may_be_one_of_the_sources(folder):
    first, second, _ = sorted(folder.iterdir())
    for mode in ("copy", "rewrite"):
        fm.concat([first, second], first, mode=mode)
    expected = [TABLE.slice(0, 200), TABLE.slice(100, 100)]
    assert fm.read_table(first).equals(pa.concat_tables(expected))
    assert len(list(folder.iterdir())) == 3


def test_a_failure_leaves_the_target_as_it_was(folder):
    first, *_, last = sorted(folder.iterdir())
    data = bytearray(last.read_bytes())
    data[30] ^= 1
    last.write_bytes(data)
    before = first.read_bytes()
    for mode in ("auto", "copy", "rewrite"):
        with pytest.raises(fm.CorruptFileError) as caught:
            fm.concat(folder, first, mode=mode)
        assert caught.value.file == str(last)
    assert first.read_bytes() == before
    assert len(list(folder.iterdir())) == 3


def test_a_file_that_is_not_there_or_no_file(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"9\.mosaic"):
        fm.concat([folder / "0.mosaic", folder / "9.mosaic"], tmp_path / "all.mosaic")
    (folder / "9.mosaic").write_bytes(b"not a Mosaic file" * 10)
    with pytest.raises(fm.CorruptFileError, match=r"9\.mosaic"):
        fm.concat(folder, tmp_path / "all.mosaic")
    assert not (tmp_path / "all.mosaic").exists()


def test_progress_may_stop_it(folder, tmp_path):
    def stop(done, total):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fm.concat(folder, tmp_path / "all.mosaic", progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_partitions_are_not_lost(tmp_path):
    table = pa.table({"day": [1, 1, 2], "n": [1, 2, 3]})
    report = fm.write_dataset(table, tmp_path / "days", partitioning=["day"])
    target = tmp_path / "all.mosaic"
    with pytest.raises(ValueError, match="different partitions"):
        fm.concat(tmp_path / "days", target)
    with pytest.raises(ValueError, match="different partitions"):
        fm.concat([file.path for file in report.files], target)
    fm.concat(tmp_path / "days" / "day=1", target)
    assert fm.read_table(target).to_pydict() == {"n": [1, 2]}


def test_a_table_is_not_torn_apart(tmp_path):
    table = fm.MosaicTable.create(tmp_path / "table", TABLE)
    table.add_columns(lambda batch: {"more": batch["id"]}, inputs=["id"])
    with pytest.raises(ValueError, match="table is a table; merge its files with"):
        fm.concat(tmp_path / "table", tmp_path / "all.mosaic")


def test_more_files_than_may_be_open(folder, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = len(os.listdir("/proc/self/fd"))
    for number in range(3, 60):
        os.link(folder / "0.mosaic", folder / f"{number}.mosaic")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 20, hard))
    try:
        report = fm.concat(folder, tmp_path / "all.mosaic", mode="copy")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert report.num_files == 60


def test_a_file_object_and_a_filesystem(folder):
    sink = io.BytesIO()
    fm.concat(folder, sink)
    assert fm.read_table(sink.getvalue()).equals(TABLE)
    local = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    fm.concat(["0.mosaic", "1.mosaic"], "all.mosaic", filesystem=local)
    assert fm.read_table(folder / "all.mosaic").equals(TABLE.slice(0, 200))


def test_files_of_a_remote_filesystem(folder, memory):
    for path in folder.iterdir():
        memory.pipe_file(f"/data/{path.name}", path.read_bytes())
    fm.concat("memory://data/*.mosaic", "memory://all.mosaic", mode="copy")
    assert fm.read_table("memory://all.mosaic").equals(TABLE)


def test_an_unknown_option_is_refused_with_a_hint(folder, tmp_path):
    with pytest.raises(TypeError, match="did you mean 'row_group_bytes'"):
        fm.concat(folder, tmp_path / "all.mosaic", row_group_byte=1)
    with pytest.raises(ValueError, match="mode must be"):
        fm.concat(folder, tmp_path / "all.mosaic", mode="move")
