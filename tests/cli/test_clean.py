"""fastmosaic clean: what it removes, what it keeps, and what it says."""

import json
import os
import re
import time

import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.storage.moves import begin_moves
from fastmosaic.storage.staging import Staging

TABLE = pa.table({"id": [1, 2, 3]})
HEX = "0123456789abcdef"


@pytest.fixture
def left(tmp_path):
    """A dataset with what a killed writer and a job of Spark left there."""
    base = tmp_path / "data"
    fm.write_dataset(TABLE, base)
    job = Staging.begin(base, None, "append", is_shared=True)
    job.open("k=1/a.mosaic").commit()
    (base / f".a.mosaic.{HEX}.fastmosaic-locked").write_bytes(b"1234567")
    (tmp_path / f".data.write-{HEX * 2}.fastmosaic-staging").mkdir()
    return base


def names(root):
    return sorted(os.listdir(root))


def test_what_has_no_writer_is_removed(capsys, left):
    writer = fm.MosaicWriter(left / "open.mosaic", TABLE.schema)
    # It has removed this file: someone else is killed now.
    (left / f".a.mosaic.{HEX}.fastmosaic-locked").write_bytes(b"1234567")
    assert main(["clean", str(left)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert not err
    assert re.fullmatch(
        rf"{left.parent}/\.data\.write-{HEX * 2}\.fastmosaic-staging: removed, staging directory, "
        r"0 bytes, written \d+ seconds? ago",
        lines[0],
    )
    assert re.fullmatch(
        rf"{left}/\.a\.mosaic\.{HEX}\.fastmosaic-locked: removed, temporary file, 7 bytes, "
        r"written \d+ seconds? ago",
        lines[1],
    )
    assert "open.mosaic" in lines[2]
    assert ": kept because a process is writing it, temporary file" in lines[2]
    assert ": kept because a process may be writing it, staging directory" in lines[3]
    assert lines[4] == "removed 2 items, 7 bytes"
    writer.write(TABLE)
    writer.close()
    assert fm.read_table(left / "open.mosaic") == TABLE


def test_age_decides_where_there_is_no_lock(capsys, left):
    (staging,) = left.glob("_staging-job-*")
    then = time.time() - 2 * 3600
    for path in (*staging.rglob("*"), staging):
        os.utime(path, (then, then))
    assert main(["clean", str(left), "--older-than", "3h"]) == 0
    assert (
        "kept because a process may be writing it, staging directory, 0 bytes, written 2 hours"
        in (capsys.readouterr().out)
    )
    assert main(["clean", str(left), "--older-than", "90m"]) == 0
    assert "removed, staging directory" in capsys.readouterr().out
    assert all(name.endswith(".mosaic") for name in names(left))


def test_a_commit_that_was_interrupted_stays(capsys, left):
    (staging,) = left.glob("_staging-job-*")
    begin_moves(None, str(staging), ["k=1/a.mosaic"])
    assert main(["clean", str(left), "--older-than", "0"]) == 0
    assert (
        f"{staging}: kept because only its stream or job, started again, can complete its commit, "
        "staging directory"
    ) in capsys.readouterr().out
    assert (staging / "k=1/a.mosaic").exists()


def test_a_dry_run_removes_nothing(capsys, left):
    before = names(left)
    assert main(["clean", "--dry-run", "--older-than", "0", str(left)]) == 0
    out = capsys.readouterr().out
    assert out.count(": would be removed, ") == 3
    assert out.endswith("would remove 3 items, 7 bytes\n")
    assert names(left) == before


def test_json(capsys, left):
    assert main(["clean", "--json", "--dry-run", str(left)]) == 0
    dry = json.loads(capsys.readouterr().out)
    assert (dry["dry_run"], dry["removed"], dry["bytes"]) == (True, 0, 7)
    assert main(["clean", "--json", str(left)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["dry_run"], document["removed"], document["bytes"]) == (False, 2, 7)
    assert [one["state"] for one in document["found"]] == ["removed", "removed", "recent"]
    assert [one["kind"] for one in document["found"]] == [
        *("staging directory", "temporary file", "staging directory"),
    ]
    assert all(one["modified"].endswith("+00:00") for one in document["found"])


def test_paths_of_files_and_of_what_never_appeared(capsys, tmp_path):
    for name in ("a.mosaic", "b.mosaic"):
        (tmp_path / f".{name}.{HEX}.fastmosaic-locked").write_bytes(b"")
    assert main(["clean", str(tmp_path / "a.mosaic")]) == 0
    assert names(tmp_path) == [f".b.mosaic.{HEX}.fastmosaic-locked"]
    (tmp_path / "b.mosaic").write_bytes(b"")
    assert main(["clean", str(tmp_path / "b.mosaic")]) == 0
    assert names(tmp_path) == ["b.mosaic"]
    capsys.readouterr()
    assert main(["clean", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"fastmosaic: {tmp_path}/none: No such file or directory\n"


def test_other_storage(capsys):
    base = "memory://clean-test/data"
    fm.write_dataset(TABLE, base)
    Staging.begin(base, None, "append").open("a.mosaic").commit()
    assert main(["clean", base]) == 0
    assert "kept because a process may be writing it" in capsys.readouterr().out
    assert main(["clean", base, "--older-than", "0"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert re.match(rf"{base}/_staging-job-[0-9a-f]{{32}}: removed, staging directory, ", first)
    assert last == "removed 1 item, 0 bytes"
    assert fm.read_table(base) == TABLE


@pytest.mark.parametrize("age", ["", "1", "d", "-1d", "1y", "nand", "infd", "1e999d"])
def test_ages_that_are_none(capsys, age, tmp_path):
    with pytest.raises(SystemExit):
        main(["clean", f"--older-than={age}", str(tmp_path)])
    assert "invalid age" in capsys.readouterr().err


def test_what_cannot_be_removed_is_an_error(capsys, left, monkeypatch):
    def refuse(path, **options):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    assert main(["clean", str(left)]) == 2
    out, err = capsys.readouterr()
    assert err.count("Permission denied") == 1
    assert "removed 1 item" in out
