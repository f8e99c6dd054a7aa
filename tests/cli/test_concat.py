"""fastmosaic concat: files merged into one, and errors in one line."""

import json

import numpy as np
import pyarrow as pa
import pytest
from terminal import on_terminal, peak_memory, plain

import fastmosaic as fm
from fastmosaic.cli import main

TABLE = pa.table({"id": range(3000), "text": [f"text {n}" for n in range(3000)]})


@pytest.fixture
def parts(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in range(3):
        fm.write_table(TABLE.slice(1000 * number, 1000), folder / f"{number}.mosaic")
    return folder


def failed(capsys, *words):
    """Run a command that fails, and return its message."""
    assert main(["concat", *map(str, words)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("fastmosaic: ")
    assert err.count("\n") == 1
    return err


def test_files_are_merged(capsys, parts, tmp_path):
    target = tmp_path / "all.mosaic"
    paths = sorted(map(str, parts.iterdir()))
    assert main(["concat", *paths, str(target), "--mode", "copy"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{target}: 3000 rows of 3 files, ")
    assert "row groups: 3 copied, 0 rewritten, " in out
    assert not err
    assert fm.read_table(target).equals(TABLE)


@pytest.mark.parametrize("pattern", ["", "/*.mosaic"])
def test_json(capsys, parts, tmp_path, pattern):
    target = tmp_path / "all.mosaic"
    words = ["--row-group-size", "2000", "--buckets", "1", "--json"]
    assert main(["concat", f"{parts}{pattern}", str(target), *words]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.pop("seconds") >= 0
    assert report == {
        "target": str(target),
        "num_files": 3,
        "num_rows": 3000,
        "num_bytes": target.stat().st_size,
        "num_row_groups": 2,
        "num_copied": 0,
        "num_rewritten": 3,
    }
    assert fm.read_metadata(target).num_buckets == 1


def test_an_existing_file_is_replaced_only_on_request(capsys, parts):
    target = parts / "0.mosaic"
    words = [parts / "1.mosaic", parts / "2.mosaic", target]
    assert "0.mosaic exists; use --overwrite to replace it" in failed(capsys, *words)
    assert fm.read_table(target).num_rows == 1000
    assert main(["concat", *map(str, words), "--overwrite"]) == 0
    assert fm.read_table(target).equals(TABLE.slice(1000))


def test_files_that_differ(capsys, parts, tmp_path):
    fm.write_table(TABLE.select(["id"]), parts / "3.mosaic")
    target = tmp_path / "all.mosaic"
    message = failed(capsys, parts, target, "--mode", "copy")
    assert "3.mosaic" in message
    assert "column 'text'" in message
    assert "--mode auto" in message
    assert not target.exists()
    assert main(["concat", str(parts), str(target)]) == 0
    assert fm.read_table(target)["id"].to_pylist() == [*range(3000), *range(3000)]


def test_a_damaged_file(capsys, parts, tmp_path):
    path = parts / "1.mosaic"
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)
    message = failed(capsys, parts, tmp_path / "all.mosaic", "--mode", "copy")
    assert f"{path}: row group 0: the checksum of its buckets" in message
    assert sorted(one.name for one in tmp_path.iterdir()) == ["parts"]


def test_another_format_and_a_missing_file(capsys, parts, tmp_path):
    (parts / "4.csv").write_text("id,text\n1,x\n")
    target = tmp_path / "all.mosaic"
    assert "is a CSV file" in failed(capsys, parts, target)
    assert "No such file" in failed(capsys, parts / "0.mosaic", parts / "9.mosaic", target)
    assert "Is a directory" in failed(capsys, parts / "0.mosaic", tmp_path)


def test_progress_on_a_terminal(parts, tmp_path):
    target = tmp_path / "all.mosaic"
    status, shown = on_terminal("concat", parts, target, "--mode", "copy", columns=300)
    assert status == 0
    assert "3,000 rows of 3 files" in plain(shown)
    sizes = [fm.read_metadata(path).bytes_of(0) for path in parts.iterdir()]
    assert f"{sum(sizes) / 1000:.1f}/{sum(sizes) / 1000:.1f} kB" in plain(shown)
    assert fm.read_table(target).equals(TABLE)


def test_copying_needs_little_memory(tmp_path):
    """A bucket of 128 MB is not held in memory."""
    numbers = pa.table({"n": np.random.default_rng(1).integers(0, 1 << 62, 16 << 20)})
    peaks = []
    for name, table in (("small", numbers.slice(0, 1000)), ("large", numbers)):
        path = tmp_path / f"{name}.mosaic"
        fm.write_table(table, path, compression="none", row_group_bytes=1 << 30)
        peaks.append(peak_memory("concat", path, tmp_path / "copy.mosaic", "--overwrite"))
    assert fm.read_metadata(tmp_path / "copy.mosaic").bytes_of(0) > 128 << 20
    assert peaks[1] - peaks[0] < 16 << 20
