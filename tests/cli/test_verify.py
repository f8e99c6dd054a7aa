"""fastmosaic verify: sound, damaged, or not to be read."""

import json
import random

import pyarrow as pa
import pytest
from terminal import on_terminal, plain

import fastmosaic as fm
from fastmosaic.cli import main


@pytest.fixture
def sound(tmp_path):
    path = tmp_path / "data" / "sound.mosaic"
    path.parent.mkdir()
    table = pa.table({f"c{i}": [f"value {i} {row}" for row in range(50)] for i in range(30)})
    fm.write_table(table, path, num_buckets=3)
    return path


@pytest.fixture
def damaged(sound):
    """A copy with one byte of data changed; the end of the file is as it was."""
    data = bytearray(sound.read_bytes())
    data[200] ^= 1
    path = sound.with_name("damaged.mosaic")
    path.write_bytes(data)
    return path


def test_a_sound_file(capsys, sound):
    assert main(["verify", str(sound)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{sound}: ok, 50 rows, {sound.stat().st_size} bytes\n"
    assert not err


def test_a_damaged_file(capsys, damaged):
    assert main(["verify", str(damaged)]) == 1
    first, *problems = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{damaged}: damaged, ")
    assert problems
    assert problems[0].startswith("  row group 0, bucket 0, ")


def test_only_the_end_of_the_file(capsys, damaged):
    assert main(["verify", "--shallow", str(damaged)]) == 0
    assert "ok" in capsys.readouterr().out


def test_all_that_is_known(capsys, sound):
    assert main(["verify", "-v", str(sound)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  checked: data: 3 buckets without gaps, which decode to 50 rows" in lines
    assert main(["verify", "-v", "--shallow", str(sound)]) == 0
    assert "  not checked: data: " in capsys.readouterr().out


def test_few_of_many_problems_are_told(capsys, tmp_path):
    """Each of 60 columns is a slot of its own; a byte of each is changed."""
    path = tmp_path / "many.mosaic"
    noise = random.Random(1).randbytes
    table = pa.table({f"c{i:02d}": [noise(200) for _ in range(20)] for i in range(60)})
    fm.write_table(table, path, num_buckets=1, page_size_threshold=1)
    data = bytearray(path.read_bytes())
    for place in range(2000, 4000 * 60, 4000):
        data[place] ^= 1
    path.write_bytes(data)
    assert main(["verify", str(path)]) == 1
    first, *problems, last = capsys.readouterr().out.splitlines()
    count = int(first.split()[-2])
    assert count > 50
    assert len(problems) == 10
    assert last == f"  and {count - 10} more; use -v to print all"
    assert main(["verify", "-v", str(path)]) == 1
    assert capsys.readouterr().out.count("\n  row group 0") == count


def test_the_other_files_are_still_checked(capsys, sound, damaged):
    folder = sound.parent
    (folder / "a.txt").write_text("no Mosaic file")
    (folder / "_hidden").write_text("left out")
    assert main(["verify", str(folder)]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [line.partition(": ")[2][:7] for line in lines] == [
        "damaged",
        "damaged",
        "ok, 50 ",
        "1 ok, 2",
    ]
    assert lines[-1] == "3 files: 1 ok, 2 damaged"


def test_files_that_are_not_there(capsys, sound, damaged, tmp_path):
    (tmp_path / "empty").mkdir()
    paths = [str(tmp_path / "nope"), str(sound.parent / "*.mosaic"), str(tmp_path / "empty")]
    assert main(["verify", *paths]) == 2
    out, err = capsys.readouterr()
    assert f"fastmosaic: {paths[0]}: No such file or directory\n" in err
    assert f"fastmosaic: {paths[2]} contains no files\n" in err
    assert out.endswith("4 files: 1 ok, 1 damaged, 2 not checked\n")


def test_a_file_that_is_named_twice_is_checked_once(capsys, sound):
    assert main(["verify", str(sound), str(sound.parent)]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_json(capsys, sound, damaged, tmp_path):
    nope = str(tmp_path / "nope")
    assert main(["verify", "--json", str(sound), str(damaged), nope]) == 2
    out, err = capsys.readouterr()
    one, other, third = json.loads(out)["files"]
    assert (one["file"], one["ok"], one["problems"]) == (str(sound), True, [])
    assert (one["num_rows"], one["num_bytes"]) == (50, sound.stat().st_size)
    assert other["ok"] is False
    assert other["problems"][0]["row_group"] == 0
    assert third == {"file": nope, "ok": None, "error": f"{nope}: No such file or directory"}
    assert not err


def test_on_a_terminal(sound, damaged):
    status, printed = on_terminal("verify", sound.parent, columns=200)
    assert status == 1
    assert "verifying" in printed
    lines = plain(printed).splitlines()
    assert f"{sound}: ok, 50 rows" in plain(printed)
    assert lines[-1] == "2 files: 1 ok, 1 damaged"
