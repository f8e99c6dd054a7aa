"""Commands on tables: all columns, earlier versions with --at, every file of it, and refusals."""

import json
import os

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from living import base_file_of, column_file_of, everything, named

import fastmosaic as fm
from fastmosaic.cli import main

ROWS = pa.table({"day": ["mo", "mo", "tu"], "id": [1, 2, 3], "a": [1.0, 2.0, 3.0]})


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table `t`: 1 created, 2 appended, 3 column b added, 4 column a replaced, 5 b dropped."""
    monkeypatch.chdir(tmp_path)
    table = fm.MosaicTable.create("t", ROWS, partitioning="day")
    table.append(pa.table({"day": ["we"], "id": [4], "a": [4.0]}))
    table.add_columns({"b": pc.field("a") * 2})
    table.add_columns({"a": pc.field("a") + 100}, replace=True)
    table.drop_columns("b")
    return table


def run(capsys, *words, status=0):
    assert main([str(word) for word in words]) == status
    out, err = capsys.readouterr()
    assert not err
    return out


def failed(capsys, *words):
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    return err.removeprefix("fastmosaic: ").strip()


# ---- versions


@pytest.mark.parametrize(
    ("version", "names"),
    [
        ([], ["id", "a", "day"]),
        (["--at", "5"], ["id", "a", "day"]),
        (["--at", "4"], ["id", "b", "a", "day"]),
        (["--at", "1"], ["id", "a", "day"]),
    ],
)
def test_schema(capsys, table, version, names):
    found = json.loads(run(capsys, "schema", "t", "--json", *version))
    assert sorted(one["name"] for one in found["columns"]) == sorted(names)
    assert found["num_rows"] == (3 if version == ["--at", "1"] else 4)


def test_rows(capsys, table):
    assert json.loads(run(capsys, "head", "t", "-n", "1", "--json")) == [
        {"id": 1, "a": 101.0, "day": "mo"}
    ]
    assert json.loads(run(capsys, "head", "t", "-n", "1", "--json", "--at", "3")) == [
        {"id": 1, "a": 1.0, "b": 2.0, "day": "mo"}
    ]
    assert run(capsys, "cat", "t", "--at", "2", "-c", "a", "--no-header").split() == [
        *("1.0", "2.0", "3.0", "4.0"),
    ]
    assert run(capsys, "count", "t") == "4\n"
    assert run(capsys, "count", "t", "--at", "1") == "3\n"
    assert run(capsys, "count", "t", "--at", "3", "--where", "b > 4") == "2\n"


def test_stats(capsys, table):
    now = json.loads(run(capsys, "stats", "t", "--json"))
    assert {one["column"]: (one["min"], one["max"]) for one in now["columns"]} == {
        "id": (1, 4),
        "a": (101.0, 104.0),
    }
    then = json.loads(run(capsys, "stats", "t", "--json", "--at", "3", "-c", "b"))
    assert [(one["column"], one["min"], one["max"]) for one in then["columns"]] == [("b", 2.0, 8.0)]


def test_diff_of_two_versions(capsys, table):
    assert run(capsys, "diff", "t", "t") == "no differences in 4 rows and 3 columns\n"
    assert "no differences" in run(capsys, "diff", "t", "t", "--at", "2", "--other-at", "2")
    out = run(capsys, "diff", "t", "t", "--at", "3", status=1)
    assert out.startswith("columns: 1 only in t at 3, 0 only in t, 0 with different types")
    out = run(capsys, "diff", "t", "t", "--other-at", "1", "--json", status=1)
    assert json.loads(out)["contents"]["rows"] == {"a": 4, "b": 3}


def test_convert_a_version(capsys, table):
    run(capsys, "convert", "t", "then.parquet", "--at", "1")
    run(capsys, "convert", "t", "now.mosaic")
    assert "no differences in 3 rows" in run(capsys, "diff", "then.parquet", "t", "--other-at", "1")
    assert fm.read_table("now.mosaic").sort_by("id")["a"].to_pylist() == [101, 102, 103, 104]


@pytest.mark.parametrize("name", ["schema", "head", "cat", "count", "stats"])
def test_versions_that_are_not_there(capsys, table, name):
    fm.write_table(ROWS, "one.mosaic")
    assert failed(capsys, name, "t", "--at", "9") == (
        "t has no version 9: the oldest one is 1 and the newest one is 5"
    )
    assert failed(capsys, name, "one.mosaic", "--at", "1") == (
        "one.mosaic is not a table, so it has no versions"
    )
    assert failed(capsys, name, "t/day=mo", "--at", "1") == (
        "t/day=mo is not a table, so it has no versions"
    )
    assert failed(capsys, name, "nowhere", "--at", "1") == "nowhere: No such file or directory"


def test_an_earlier_version_is_readable_if_the_newest_is_not(capsys, table):
    with open("t/_mosaic/00000000000000000005.json.zst", "wb") as file:
        file.write(b"damaged")
    assert "the version is not compressed JSON" in failed(capsys, "count", "t")
    assert run(capsys, "count", "t", "--at", "4") == "4\n"


# ---- internals


@pytest.mark.parametrize("name", ["meta", "buckets", "pages"])
def test_internals_of_base_files_and_column_files(capsys, table, name):
    found = json.loads(run(capsys, name, "t", "--json"))
    if name == "meta":
        assert found["total"]["rows"] == 4
        found = found["files"]
    parts = [part for file in table._snapshot.version.files for part in file.parts]
    assert len(parts) == 6  # of b, nothing is left
    assert list(dict.fromkeys(one["file"] for one in found)) == [f"t/{one.path}" for one in parts]


def test_the_footer_of_a_column_file_names_its_base(capsys, table):
    (found,) = json.loads(run(capsys, "footer", column_file_of("t"), "--json"))
    (section,) = (one for one in found["annex"]["sections"] if one["section"] == "base")
    size = os.path.getsize(base_file_of("t"))
    digest = table._snapshot.version.files[0].digest
    assert section["text"] == f"rows 2, bytes {size}, digest {digest}"


def test_the_size_of_columns_that_count(capsys, table):
    found = json.loads(run(capsys, "column-size", "t", "--json"))
    sizes = {one["column"]: one["bytes"] for one in found["columns"]}
    measured = json.loads(run(capsys, "schema", "t", "--sizes", "--json"))
    assert sizes == {
        one["name"]: one["size"] for one in measured["columns"] if one["name"] != "day"
    }
    # The values of `a` in the base files are still there, but do not count.
    assert sum(sizes.values()) < found["data_bytes"]
    assert failed(capsys, "column-size", "t", "-c", "b") == "no column named 'b'"


def test_a_table_without_rows(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fm.MosaicTable.create("t", pa.schema({"id": pa.int64()}))
    assert run(capsys, "count", "t") == "0\n"
    for name in ("schema", "head", "cat", "stats", "meta", "footer", "buckets", "pages", "verify"):
        run(capsys, name, "t")


# ---- verify


def test_verify(capsys, table):
    found = json.loads(run(capsys, "verify", "t", "--json"))
    files = [one["file"] for one in found["files"]]
    assert set(files) == {f"t/{path}" for path in named("t")}
    assert len(files) == len(set(files))
    assert all(one["ok"] for one in found["files"])
    last = run(capsys, "verify", "t", "t").splitlines()[-1]
    assert last == f"{len(files)} files: {len(files)} ok"


def test_verify_names_what_is_damaged(capsys, table):
    path = column_file_of("t")
    path.write_bytes(column_file_of("t", 1).read_bytes())
    out = run(capsys, "verify", "t", status=1)
    assert f"{path}: damaged, " in out
    assert "this is not the file that the version of the table names" in out
    assert "1 damaged" in out.splitlines()[-1]


def test_verify_goes_on_after_a_damaged_version(capsys, table):
    for number in (3, 5):
        with open(f"t/_mosaic/{number:020d}.json.zst", "wb") as file:
            file.write(b"damaged")
    out = run(capsys, "verify", "t", status=1)
    assert out.count(": damaged, 1 problem") == 2
    assert f"{base_path(4)}: ok" in out


def base_path(version):
    return f"t/{fm.MosaicTable('t', version).files[0]}"


# ---- what leaves tables alone


def test_clean_leaves_what_versions_name(capsys, table):
    before = everything("t")
    assert run(capsys, "clean", "t", "--older-than", "0").startswith("removed 0 items")
    assert everything("t") == before == named("t")


ADVICE = "append rows with MosaicTable.append or `fastmosaic table append`"


@pytest.mark.parametrize("target", ["t", "t/", "t/day=mo/"])
@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_convert_refuses_a_table_as_target(capsys, table, target, more):
    fm.write_table(ROWS, "one.mosaic")
    before = everything("t")
    message = failed(capsys, "convert", "one.mosaic", target, *more)
    assert message == f"{target} is a table: {ADVICE}"
    assert everything("t") == before


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_concat_refuses_a_table_as_target(capsys, table, more):
    fm.write_table(ROWS, "one.mosaic")
    assert failed(capsys, "concat", "one.mosaic", "t", *more) == f"t is a table: {ADVICE}"


@pytest.mark.parametrize("existing", ["error", "append", "overwrite"])
def test_write_dataset_refuses_a_table(table, existing):
    before = everything("t")
    for target in ("t", "t/day=mo", os.path.abspath("t/day=new/x=1")):
        with pytest.raises(ValueError, match=f"is a table: {ADVICE}"):
            fm.write_dataset(ROWS, target, existing=existing)
    assert everything("t") == before
