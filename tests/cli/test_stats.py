"""stats, as typed: against what Arrow computes of the whole table."""

import json
import math
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.dataset.profile import DISTINCT_EXACT

ROWS = 3000
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "few": [f"v{i % 40}" for i in range(ROWS)],
        "many": [None if i % 3 == 0 else f"name {i}" for i in range(ROWS)],
        "float": [math.nan if i % 100 == 0 else i % 200 / 4 for i in range(ROWS)],
        "one": ["same"] * ROWS,
        "none": pa.nulls(ROWS, pa.int32()),
        "flag": [i % 2 == 0 for i in range(ROWS)],
        "day": pa.array([i % 20 for i in range(ROWS)], pa.date32()),
        "money": [Decimal(i % 50) / 100 for i in range(ROWS)],
        "raw": pa.array([bytes([i % 7, 255]) for i in range(ROWS)], pa.binary()),
        "list": [[i % 5] for i in range(ROWS)],
    }
)


@pytest.fixture
def run(capsys):
    def run(*words, status=0):
        assert main(["stats", *map(str, words)]) == status
        out, err = capsys.readouterr()
        if status:
            assert out == ""
            assert err.startswith("fastmosaic: ")
            assert err.count("\n") == 1
            return err
        assert err == ""
        return json.loads(out) if "--json" in words else out.splitlines()

    return run


@pytest.fixture
def directory(tmp_path):
    """Three files, of three row groups each, below a partition."""
    (tmp_path / "k=1").mkdir()
    for part in range(3):
        rows = TABLE.slice(part * 1000, 1000)
        fm.write_table(rows, tmp_path / "k=1" / f"{part}.mosaic", row_group_size=400)
    return tmp_path


def test_stats(run, directory):
    document = run(directory, "--json")
    assert (document["files"], document["rows"]) == (3, ROWS)
    columns = {one["column"]: one for one in document["columns"]}
    assert list(columns) == TABLE.column_names
    for name, column in columns.items():
        values = TABLE[name]
        assert (column["type"], column["nulls"]) == (str(values.type), values.null_count)
        assert sum(column["pages"].values()) == 9  # row groups
        if name == "list":
            assert column["distinct"] is column["min"] is column["max"] is None
            continue
        distinct = pc.count_distinct(values, mode="only_valid").as_py()
        if distinct <= DISTINCT_EXACT:
            assert (column["distinct"], column["is_estimate"]) == (distinct, False), name
        else:
            assert column["distinct"] == pytest.approx(distinct, rel=0.25), name
            assert column["distinct"] <= ROWS - values.null_count
            assert column["is_estimate"]
    bounds = {name: (column["min"], column["max"]) for name, column in columns.items()}
    assert bounds["id"] == (0, ROWS - 1)
    assert bounds["float"] == (0.25, 49.75)
    assert bounds["flag"] == (False, True)
    assert bounds["few"] == ("v0", "v9")
    assert bounds["day"] == ("1970-01-01", "1970-01-20")
    assert bounds["money"] == ("0.00", "0.49")
    assert bounds["raw"] == ("00ff", "06ff")
    assert bounds["none"] == (None, None)
    assert columns["one"]["pages"] == {"const": 9}
    assert columns["none"]["pages"] == {"all_null": 9}
    assert columns["few"]["pages"] == {"dict": 9}
    assert columns["id"]["pages"] == {"plain": 9}


def test_bytes_are_all_bytes_of_data(run, directory):
    document = run(directory, "--json")
    files = [fm.read_metadata(path) for path in directory.glob("k=1/*")]
    data = sum(file.row_group(i).total_compressed_size for file in files for i in range(3))
    assert sum(column["bytes"] for column in document["columns"]) == data


def test_stats_as_text(run, tmp_path):
    table = pa.table({"x": pa.array([3, None, 5], pa.int8()), "t": ["a", "b", "b"]})
    fm.write_table(table, tmp_path / "a.mosaic", compression="none", num_buckets=1)
    lines = [line.split() for line in run(tmp_path / "a.mosaic")]
    assert lines == [
        ["column", "type", "encoding", "bytes", "nulls", "distinct", "min", "max"],
        # Of 11 bytes: one of flags for either, x has a bitmap and 2 bytes, t three times 2.
        ["x", "int8", "plain", "4", "1", "2", "3", "5"],
        ["t", "string", "plain", "7", "0", "2", "a", "b"],
    ]


def test_encodings_that_differ_by_row_group(run, tmp_path):
    values = ["same"] * 50 + [f"{i} is new" for i in range(50)]
    fm.write_table(pa.table({"x": values}), tmp_path / "a.mosaic", row_group_size=50)
    assert "plain:1 const:1" in run(tmp_path / "a.mosaic")[1]


def test_array_blocks(run, tmp_path):
    fm.write_table(TABLE.select(["list"]), tmp_path / "a.mosaic", array_layout="block")
    (column,) = run(tmp_path / "a.mosaic", "--json")["columns"]
    assert column["pages"] == {"array_block": 1}


def test_columns_and_their_order(run, directory):
    def names(*words):
        return [line.split()[0] for line in run(directory, *words)[1:]]

    assert names("-c", "f*,id") == ["few", "float", "flag", "id"]
    assert names("-c", "f*,id", "--sort", "name") == ["few", "flag", "float", "id"]
    assert names("--sort", "nulls", "--limit", "2") == ["none", "many"]
    assert names("--sort", "size", "--limit", "1", "-c", "many,none,one") == ["many"]
    by_distinct = names("--sort", "distinct")
    assert set(by_distinct[:2]) == {"id", "many"}
    assert by_distinct[-1] == "list"


def test_a_column_that_some_files_lack(run, tmp_path):
    fm.write_table(pa.table({"a": [1, 2]}), tmp_path / "x.mosaic")
    fm.write_table(pa.table({"a": [3], "b": ["t"]}), tmp_path / "y.mosaic")
    a, b = run(tmp_path, "--json")["columns"]
    assert (a["rows"], a["nulls"], a["distinct"]) == (3, 0, 3)
    assert (b["rows"], b["nulls"], b["distinct"]) == (3, 2, 1)


@pytest.mark.parametrize("table", [pa.table({"a": pa.array([], pa.int32())}), pa.table({})])
def test_nothing_there(run, tmp_path, table):
    fm.write_table(table, tmp_path / "a.mosaic")
    document = run(tmp_path / "a.mosaic", "--json")
    assert document["rows"] == 0
    assert [column["distinct"] for column in document["columns"]] == [0] * table.num_columns


def test_more_values_than_are_held_at_once(run, tmp_path, monkeypatch):
    """What is found in many portions is what is found in one."""
    count = 20_000
    table = pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "text": [None if i % 3 == 0 else f"{i} as text" for i in range(count)],
            "few": [i % 40 for i in range(count)],
        }
    )
    fm.write_table(table, tmp_path / "whole.mosaic")
    fm.write_table(table, tmp_path / "parts.mosaic", row_group_size=500)
    (whole, parts) = (
        run(tmp_path / f"{name}.mosaic", "--json")["columns"] for name in ("whole", "parts")
    )
    monkeypatch.setattr("fastmosaic.dataset.profile._MAX_HELD_BYTES", 1)
    portions = run(tmp_path / "parts.mosaic", "--json")["columns"]
    for name in ("column", "nulls", "distinct", "is_estimate", "min", "max"):
        found = [[column[name] for column in columns] for columns in (whole, parts, portions)]
        assert found[0] == found[1] == found[2], name
    assert whole[0]["distinct"] == pytest.approx(count, rel=0.25)
    assert whole[2]["distinct"] == 40


def test_errors(run, directory, tmp_path):
    assert "did you mean 'few'" in run(directory, "-c", "fwe", status=2)
    assert "no column" in run(directory, "-c", "k", status=2)  # a key of the directories
    path = directory / "k=1" / "1.mosaic"
    data = bytearray(path.read_bytes())
    data[5] ^= 0xFF
    path.write_bytes(data)
    assert "1.mosaic: row group 0, bucket 0" in run(directory, status=2)
    path.write_bytes(data[:-1])
    assert "1.mosaic: not a Mosaic file" in run(directory, status=2)
    assert "No such file" in run(tmp_path / "absent", status=2)
