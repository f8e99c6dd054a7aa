"""fastmosaic table: what its commands do, print and refuse."""

import datetime as dt
import io
import json
import os
import re
import sys
import time

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from living import everything
from terminal import on_terminal, plain

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.cli.output.aligned import width
from fastmosaic.cli.output.changes import described
from fastmosaic.cli.output.console import Console
from fastmosaic.table.column_files import ColumnWriter

ROWS = pa.table(
    {"day": ["mo", "mo", "tu"], "id": [1, 2, 3], "a": [1.0, 2.0, None], "zip": ["01", "2", "3"]}
)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table called `t` in the current directory, of two partitions."""
    monkeypatch.chdir(tmp_path)
    return fm.MosaicTable.create("t", ROWS, partitioning="day")


def done(capsys, *words):
    """What a command that succeeds prints."""
    assert main([str(word) for word in words]) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def failed(capsys, *words):
    """The one line of a command that fails."""
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.startswith("fastmosaic: ")
    assert err.count("\n") == 1
    return err.removeprefix("fastmosaic: ").strip()


def rows(path="t"):
    return fm.read_table(path).to_pylist()


# ---- create, append


def test_create_from_any_format(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, "rows.parquet")
    words = ["table", "create", "t", "rows.parquet", "--partition-by", "day", "--stats", "id"]
    out = done(capsys, *words)
    assert re.fullmatch(r"t: version 1, created with 3 rows in 2 files, \d+\.\d\d s\n", out)
    assert fm.read_table("t").select(ROWS.column_names).equals(ROWS)
    metadata = fm.read_metadata(f"t/{fm.MosaicTable('t').files[0]}")
    assert metadata.row_group(0).statistics["id"].max == 2


def test_create_adopts_a_directory(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fm.write_dataset(ROWS, "plain", partitioning="day")
    before = everything("plain")
    assert "created with 3 rows in 2 files" in done(capsys, "table", "create", "plain")
    assert before < everything("plain")
    assert fm.MosaicTable("plain").num_rows == 3


def test_create_chooses_columns_and_rows(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, "rows.parquet")
    words = ["-c", "id,a", "--where", "id < 3", "--type", "id=int8"]
    done(capsys, "table", "create", "t", "rows.parquet", *words)
    assert fm.MosaicTable("t").schema.field("id").type == pa.int8()
    assert rows() == [{"id": 1, "a": 1.0}, {"id": 2, "a": 2.0}]


def test_append_reads_text_as_the_types_of_the_table(capsys, table):
    with open("more.csv", "w") as file:
        file.write("zip,id,day\n007,4,we\n")
    out = done(capsys, "table", "append", "t", "more.csv")
    assert out.startswith("t: version 2, appended 1 row in 1 file, ")
    assert rows()[3] == {"id": 4, "a": None, "zip": "007", "day": "we"}


def test_append_from_a_pipe(capsys, table, monkeypatch):
    reading, writing = os.pipe()
    os.write(writing, b'{"id": 5, "day": "th", "zip": "9"}\n')
    os.close(writing)
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        done(capsys, "table", "append", "t", "-", "--from", "json")
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)
    assert rows()[3]["zip"] == "9"


def test_append_a_table_at_a_version(capsys, table):
    table.delete([("id", ">", 1)])
    done(capsys, "table", "append", "t", "t", "--at", "1", "--file-rows", "1")
    assert [row["id"] for row in rows()] == [1, 1, 2, 3]
    assert len(fm.MosaicTable("t").files) == 4


def test_json_of_a_change(capsys, table):
    pq.write_table(ROWS, "rows.parquet")
    report = json.loads(done(capsys, "table", "append", "t", "rows.parquet", "--json"))
    assert report.pop("seconds") >= 0
    assert report == {
        "table": "t",
        "version": 2,
        "operation": "append",
        "summary": {"rows": 3, "files": 2},
        "committed": True,
        "rebased": 0,
    }


# ---- columns


def test_formulas_add_columns(capsys, table):
    words = ["half = a / 2", "kind = case when id > 1 then 'b' else 'a' end", '"odd name" = zip']
    out = done(capsys, "table", "add", "t", *words)
    assert out.startswith("t: version 2, added columns half, kind, odd name to 2 files, ")
    assert [(row["half"], row["kind"], row["odd name"]) for row in rows()] == [
        (0.5, "a", "01"),
        (1.0, "b", "2"),
        (None, "b", "3"),
    ]


def test_a_column_is_replaced_only_on_request(capsys, table):
    message = failed(capsys, "table", "add", "t", "a = 1")
    assert message == (
        "the table has a column 'a' already; pass replace=True (--replace) to replace it"
    )
    done(capsys, "table", "add", "t", "a = id * 10", "--replace")
    assert [row["a"] for row in rows()] == [10, 20, 30]


@pytest.mark.parametrize("option", ["--from", "--values"])
def test_values_joined_by_key(capsys, table, option):
    with open("names.csv", "w") as file:
        file.write("id,name\n1,one\n3,three\n9,nine\n")
    out = done(capsys, "table", "add", "t", option, "names.csv", "--on", "id", "--stats", "all")
    assert out.startswith("t: version 2, added column name to 2 files, ")
    assert [row["name"] for row in rows()] == ["one", None, "three"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], 'expected either formulas, e.g. "ratio = a / b", or --values and --on'),
        (["x = 1", "--values", "f.csv", "--on", "id"], "expected either formulas"),
        (["--values", "f.csv"], "--values and --on are used together"),
        (["x = 1", "--on", "id"], "--values and --on are used together"),
        (["x = 1", "x = 2"], "there are two formulas for column 'x'"),
        (["a / 2"], "formula, character 1: expected the name of the new column and '='"),
        (["x = aa + 1"], "no column named 'aa'; did you mean 'a'?"),
        (["x = zip * 2"], "formula, character 5: cannot compute column 'zip' of type string * 2"),
        (["x = id % 0"], "column 'x' cannot be computed: divide by zero"),
        (["day = 1", "--replace"], "'day' is a partition column, which cannot be replaced"),
        (["x = 1", "--stats", "y"], "no column named 'y'"),
        (["--values", "nowhere.csv", "--on", "id"], "nowhere.csv: No such file or directory"),
    ],
)
def test_columns_that_cannot_be_added(capsys, table, words, message):
    before = everything("t")
    assert message in failed(capsys, "table", "add", "t", *words)
    assert everything("t") == before


def test_drop_by_name_and_glob(capsys, table):
    out = done(capsys, "table", "drop", "t", "z*", "a")
    assert out.startswith("t: version 2, dropped columns zip, a, ")
    assert fm.MosaicTable("t").schema.names == ["id", "day"]
    assert "no column matches 'x*'" in failed(capsys, "table", "drop", "t", "x*")
    assert "no column named 'idd'; did you mean 'id'?" in failed(
        capsys, "table", "drop", "t", "idd"
    )
    assert "'day' is a partition column" in failed(capsys, "table", "drop", "t", "day")


# ---- rows and files


def test_delete(capsys, table):
    out = done(capsys, "table", "delete", "t", "--where", "zip = '01' or day = 'tu'")
    assert out.startswith("t: version 2, deleted 2 rows, ")
    assert [row["id"] for row in rows()] == [2]
    out = done(capsys, "table", "delete", "t", "--where", "id = 99")
    assert out == "t: nothing to do, still version 2\n"
    assert "no column named 'idd'" in failed(capsys, "table", "delete", "t", "--where", "idd = 1")


def test_compact_and_fold(capsys, table):
    for _ in range(3):
        table.append(ROWS.slice(2))
    table.add_columns({"b": pc.field("id") * 2})
    table.append(ROWS.slice(2))
    out = done(capsys, "table", "compact", "t", "--mode", "rewrite", "--level", "9")
    assert out.startswith("t: version 7, merged 5 files into 1, ")
    out = done(capsys, "table", "fold", "t")
    assert out.startswith("t: version 8, folded 1 file, ")
    assert done(capsys, "table", "fold", "t") == "t: nothing to do, still version 8\n"
    assert [row["b"] for row in rows()] == [2, 4, 6, 6, 6, 6, None]
    assert not done(capsys, "table", "compact", "t", "--target-size", "1k").startswith("fast")


def test_restore(capsys, table):
    table.drop_columns("a")
    out = done(capsys, "table", "restore", "t", "1")
    assert out.startswith("t: version 3, restored version 1, ")
    assert "a" in fm.MosaicTable("t").schema.names
    assert failed(capsys, "table", "restore", "t", "9") == (
        "t has no version 9: the oldest one is 1 and the newest one is 3"
    )


def test_vacuum(capsys, table):
    table.add_columns({"b": pc.field("id")})
    table.delete([("id", "<", 3)])
    out = done(capsys, "table", "vacuum", "t")
    assert out == "removed 0 versions and 0 files, 0 bytes\n"
    out = done(capsys, "table", "vacuum", "t", "--older-than", "0", "--dry-run", "--keep", "1")
    *paths, last = out.splitlines()
    assert all(os.path.exists(path) for path in paths)
    sizes = sum(map(os.path.getsize, paths))
    assert last == f"would remove 2 versions and {len(paths)} files, {sizes} bytes"
    report = json.loads(done(capsys, "table", "vacuum", "t", "--older-than", "0", "--json"))
    assert [f"t/{path}" for path in report.pop("files")] == paths
    assert report == {
        "table": "t",
        "version": 4,
        "dry_run": False,
        "versions": [1, 2],
        "bytes": sizes,
    }
    assert not any(os.path.exists(path) for path in paths)
    assert [row["b"] for row in rows()] == [3]


def test_vacuum_keeps_versions(capsys, table):
    table.drop_columns("a")
    table.drop_columns("zip")
    out = done(capsys, "table", "vacuum", "t", "--older-than", "0s", "--keep", "3")
    assert out.startswith("removed 0 versions")


# ---- log


def test_log(capsys, table, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        table.append(ROWS)
        table.add_columns({"b": pc.field("id")})
        head, *lines = done(capsys, "table", "log", "t").splitlines()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert head.split() == ["version", "time", "rows", "files", "change"]
    assert [line.split(None, 5)[0] for line in lines] == ["3", "2", "1"]
    assert [line.split(None, 5)[3:] for line in lines] == [
        ["6", "4", "added column b to 4 files"],
        ["6", "4", "appended 3 rows in 2 files"],
        ["3", "2", "created with 3 rows in 2 files"],
    ]
    zone = dt.timezone(dt.timedelta(hours=5, minutes=30))
    expected = table.history()[0].time.astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    assert expected in lines[2]


def test_json_of_the_log(capsys, table):
    table.drop_columns(["a", "zip"])
    found = json.loads(done(capsys, "table", "log", "t", "--json", "--limit", "1"))
    (version,) = found.pop("versions")
    assert found == {"table": "t"}
    assert dt.datetime.fromisoformat(version.pop("time")) == table.history()[1].time
    assert version == {
        "version": 2,
        "operation": "drop columns",
        "rows": 3,
        "files": 2,
        "summary": {"columns": ["a", "zip"]},
    }


def test_the_log_on_a_terminal(table):
    for number in range(4):
        table.add_columns({f"a_rather_long_name_of_a_column_{number}_{i}": 1 for i in range(9)})
    status, printed = on_terminal("table", "log", "t", "--limit", "3", env={"PAGER": "cat"})
    assert status == 0
    lines = plain(printed).splitlines()
    assert max(map(width, lines)) <= 80
    assert lines[0].split() == ["version", "time", "rows", "files", "change"]
    assert re.match(
        r"      5  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d     3      2  added 9 columns: ", lines[2]
    )
    assert all(line.rstrip().endswith("to 2 files") for line in lines[2:5])
    assert lines[-1] == "3 of 5 versions"


def test_progress_on_a_terminal(table):
    status, printed = on_terminal("table", "add", "t", "b = id + 1")
    assert status == 0
    assert "2/2" in printed
    last = plain(printed).splitlines()[-1].rpartition("\r")[2]
    assert last.startswith("t: version 2, added column b to 2 files")


@pytest.mark.parametrize(
    ("operation", "summary", "expected"),
    [
        ("create", {"rows": 2, "files": 1}, "created with 2 rows in 1 file"),
        ("create", {}, "created with 0 rows in 0 files"),
        (
            "add columns",
            {"columns": [*"abcdefg"], "files": 3},
            "added 7 columns: a, b, c, d, e, … to",
        ),
        (
            "add columns",
            {"columns": ["a"], "files": 3, "files_without_values": 2},
            "added column a to 3 files; 2 files appended meanwhile without values",
        ),
        (
            "compact",
            {
                "files_before": 9,
                "files_after": 2,
                "row_groups_copied": 1,
                "left_to_other_writers": 3,
            },
            "merged 9 files into 2, 1 row group copied; 3 groups of files left to other writers",
        ),
        ("vacuum", {"versions": 1}, "removed 1 version"),
        ("rename", {"x": [1, None], "y": {"z": "q"}}, 'rename, x: [1, null], y: {z: "q"}'),
        ("rename", {}, "rename"),
        # What is in a version was written by others.
        ("append", {"rows": "many", "files": None}, "appended 0 rows in 0 files"),
        ("drop columns", {"columns": {"a": 1}}, "dropped columns"),
        ("drop columns", {"columns": [1, None]}, "dropped columns 1, None"),
    ],
)
def test_changes_in_words(monkeypatch, operation, summary, expected):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert described(Console(None), operation, summary).startswith(expected)


# ---- errors of all commands

CHANGES = {
    "append": ["rows.parquet"],
    "add": ["x = 1"],
    "drop": ["a"],
    "delete": ["--where", "id = 1"],
    "compact": [],
    "fold": [],
    "vacuum": [],
    "restore": ["1"],
}


@pytest.mark.parametrize("name", [*CHANGES, "log"])
def test_what_is_not_a_table(capsys, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    pq.write_table(ROWS, "rows.parquet")
    fm.write_dataset(ROWS, "plain")
    words = CHANGES.get(name, [])
    assert failed(capsys, "table", name, "nowhere", *words) == (
        "nowhere: No such file or directory"
    )
    assert failed(capsys, "table", name, "plain", *words) == (
        "plain is not a table; make it one with MosaicTable.create or `fastmosaic table create`"
    )


def test_what_cannot_be_created(capsys, table):
    pq.write_table(ROWS, "rows.parquet")
    assert "t is a table already" in failed(capsys, "table", "create", "t")
    assert "t is a table already" in failed(capsys, "table", "create", "t", "rows.parquet")
    assert "new contains no files" in failed(capsys, "table", "create", "new")
    words = ["table", "create", "new", "rows.parquet", "--partition-by", "dya"]
    assert failed(capsys, *words) == "no column named 'dya'; did you mean 'day'?"
    assert not os.path.exists("new")


def test_a_column_that_the_table_lacks(capsys, table):
    pq.write_table(ROWS.append_column("more", [[1, 2, 3]]), "more.parquet")
    assert "column 'more'" in failed(capsys, "table", "append", "t", "more.parquet")


def test_a_conflict_is_one_line(capsys, table, monkeypatch):
    write = ColumnWriter.write
    others = iter([{"x": 2}])

    def late(self, *given):
        for values in others:
            fm.MosaicTable("t").add_columns(values)
        return write(self, *given)

    monkeypatch.setattr(ColumnWriter, "write", late)
    message = failed(capsys, "table", "add", "t", "x = 1")
    assert "column 'x'" in message
    assert "another writer" in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["apend", "t", "x"], "unknown command 'apend'; did you mean append?"),
        (["delete", "t"], "the following arguments are required: -w/--where"),
        (["restore", "t", "0"], "invalid number '0' (expected at least 1)"),
        (["vacuum", "t", "--older-than", "7"], "invalid age '7' (expected e.g. 90m, 12h or 7d)"),
        (["compact", "t", "--target-size", "x"], "invalid size 'x'"),
        (["append", "t", "x", "--single-writter"], "did you mean --single-writer?"),
    ],
)
def test_wrong_words(capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        main(["table", *words])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


# ---- names that must not reach a terminal

HOSTILE = "x\x1b]0;title\x07\u202e\u200b\n\x9b2J"


def test_hostile_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = f"t{HOSTILE.replace(chr(10), '')}"
    table = fm.MosaicTable.create(path, pa.table({"id": [1, 2], HOSTILE: ["a", HOSTILE]}))
    table.add_columns({f"new{HOSTILE}": 1})
    pq.write_table(pa.table({"id": [1], f"more{HOSTILE}": [1]}), "more.parquet")
    for words in (
        ["log", path],
        ["log", path, "--json"],
        ["add", path, f'"b{HOSTILE}" = id + 1'],
        ["add", path, f'"c" = "{HOSTILE}" + 1'],
        ["add", path, f"d = '{HOSTILE}' + 1"],
        ["add", path, f"d = nope{HOSTILE}"],
        ["append", path, "more.parquet"],
        ["drop", path, f"new{HOSTILE}"],
        ["drop", path, f"missing{HOSTILE}"],
        ["delete", path, "--where", f"id = 1 and \"{HOSTILE}\" = '{HOSTILE}'"],
        ["restore", path, "1"],
        ["vacuum", path, "--older-than", "0", "--dry-run"],
        ["vacuum", path, "--older-than", "0"],
        ["fold", f"no{path}"],
    ):
        _, printed = on_terminal("table", *words, env={"PAGER": "cat"})
        text = plain(printed).replace("\r", "")
        assert text
        assert not set(HOSTILE) & set(text) - {"x", *"]0;title2J\n"}, (words, text)
