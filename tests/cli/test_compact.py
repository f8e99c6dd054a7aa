"""fastmosaic compact: a directory, a table, and errors in one line."""

import json

import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic.cli import main

TABLE = pa.table({"id": range(300)})


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "days"
    for start in range(0, 300, 100):
        fm.write_dataset(TABLE.slice(start, 100), path, existing="append")
    return path


def test_a_directory(capsys, folder):
    assert main(["compact", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(f"{folder}: 3 files to 1, 0 unchanged, ")
    assert fm.read_table(folder).equals(TABLE)
    assert main(["compact", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}: nothing to compact\n"


def test_json(capsys, folder):
    assert main(["compact", str(folder), "--json", "--mode", "copy"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["path"] == str(folder)
    assert (document["files_before"], document["num_copied"]) == (3, 3)


def test_a_table_gets_a_version(capsys, folder):
    fm.MosaicTable.create(folder)
    assert main(["compact", str(folder), "--target-size", "1m"]) == 0
    assert capsys.readouterr().out.startswith(f"{folder}: version 2, merged 3 files into 1, ")
    assert fm.MosaicTable(folder).read().equals(TABLE)
    assert main(["compact", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["committed"] is False


def test_errors_are_one_line(capsys, tmp_path):
    assert main(["compact", str(tmp_path / "nothing")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("fastmosaic: ")
    assert err.count("\n") == 1
