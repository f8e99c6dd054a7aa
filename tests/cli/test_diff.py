"""fastmosaic diff: what is the same, and where it is not."""

import datetime
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, feather, orc
from terminal import on_terminal, plain

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.convert.compare import aligned, common_type, differing

TABLE = pa.table(
    {
        "id": range(1000),
        "x": [i / 8 for i in range(1000)],
        "word": [f"w{i % 7}" for i in range(1000)],
    }
)


def changed(table, name, row, value):
    values = table[name].to_pylist()
    values[row] = value
    index = table.schema.get_field_index(name)
    return table.set_column(index, name, pa.array(values, table.schema.field(name).type))


@pytest.fixture
def diff(tmp_path, capsys):
    """Compare two tables, in files of Parquet and Mosaic; the status and the JSON or text."""

    def run(one, other, *options):
        pq.write_table(one, tmp_path / "a.parquet", row_group_size=300)
        fm.write_table(other, tmp_path / "b.mosaic", row_group_size=70)
        status = main(["diff", str(tmp_path / "a.parquet"), str(tmp_path / "b.mosaic"), *options])
        out, err = capsys.readouterr()
        assert not err
        return status, json.loads(out) if "--json" in options else out

    return run


def test_the_same_in_every_format(tmp_path, capsys):
    fm.write_table(TABLE, tmp_path / "t.mosaic")
    orc.write_table(TABLE, tmp_path / "t.orc")
    feather.write_feather(TABLE, tmp_path / "t.feather", chunksize=110)
    csv.write_csv(TABLE, tmp_path / "t.csv")
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, TABLE.to_pylist())))
    for name in ("t.orc", "t.feather", "t.csv", "t.jsonl", "t.mosaic"):
        assert main(["diff", str(tmp_path / name), str(tmp_path / "t.mosaic")]) == 0
        assert capsys.readouterr().out == "no differences in 1000 rows and 3 columns\n"


def test_a_directory_and_a_file(tmp_path):
    fm.write_dataset(TABLE, tmp_path / "many", max_rows_per_file=300)
    pq.write_table(TABLE, tmp_path / "one.parquet")
    assert main(["diff", str(tmp_path / "many"), str(tmp_path / "one.parquet")]) == 0


def test_values(diff):
    other = changed(changed(TABLE, "x", 5, None), "word", 999, "other")
    for row in (400, 500, 600, 700):
        other = changed(other, "x", row, -1.5)
    status, found = diff(TABLE, other, "--json")
    assert status == 1
    assert found["same"] is False
    assert found["schema"]["types"] == {}
    assert found["contents"] == {
        "rows": {"a": 1000, "b": 1000},
        "columns": {
            "x": {
                "rows": 5,
                "first": [
                    {"row": 5, "a": 0.625, "b": None},
                    {"row": 400, "a": 50.0, "b": -1.5},
                    {"row": 500, "a": 62.5, "b": -1.5},
                ],
            },
            "word": {"rows": 1, "first": [{"row": 999, "a": "w5", "b": "other"}]},
        },
    }
    assert diff(TABLE, other, "-c", "id")[0] == 0
    assert diff(TABLE, other, "-c", "w*")[0] == 1
    assert diff(TABLE, other, "--schema")[0] == 0
    assert diff(TABLE, other, "-q") == (1, "")
    assert diff(TABLE, TABLE, "-q") == (0, "")


def test_values_as_text(diff, tmp_path):
    status, text = diff(TABLE, changed(TABLE, "word", 3, "a\x1b[31m\n" + "z" * 100))
    assert status == 1
    lines = text.splitlines()
    assert lines[0] == "values: differences in 1 column"
    assert lines[1].split() == [
        "column",
        "rows",
        "row",
        str(tmp_path / "a.parquet"),
        str(tmp_path / "b.mosaic"),
    ]
    assert lines[2].split()[:4] == ["word", "1", "3", "'w3'"]
    assert "\x1b" not in text
    assert lines[2].endswith("zzz...")
    assert len(lines) == 3


def test_numbers_of_rows(diff):
    status, found = diff(TABLE, TABLE.slice(0, 700), "--json")
    assert status == 1
    assert found["contents"] == {"rows": {"a": 1000, "b": 700}, "columns": {}}
    status, text = diff(TABLE.slice(0, 0), TABLE)
    assert status == 1
    assert text.startswith("rows: 0 in ")
    assert diff(TABLE.slice(0, 0), TABLE.slice(0, 0))[0] == 0


def test_columns(diff):
    one = pa.table({"a": [1], "b": [2], "c": ["x"], "d": [True]})
    other = pa.table({"c": [1.5], "a": pa.array([1], pa.int32()), "e": [1], "b": [2]})
    status, found = diff(one, other, "--json")
    assert status == 1
    assert found["schema"] == {
        "only_in_a": {"d": "bool"},
        "only_in_b": {"e": "int64"},
        "types": {"a": ["int64", "int32"], "c": ["string", "double"]},
        "order": ["a", "c"],
        "metadata": [],
        "not_compared": ["c"],
    }
    assert found["contents"]["columns"] == {}
    status, text = diff(one, other, "--schema")
    assert status == 1
    assert "columns: 1 only in " in text
    assert "values not compared, because there is no common type: c" in text


def test_types_that_mosaic_stores_alike_are_the_same(diff):
    one = pa.table(
        {
            "text": pa.array(["x", None], pa.large_string()),
            "kind": pa.array(["a", "a"]).dictionary_encode(),
            "small": pa.array([1, 255], pa.uint8()),
        }
    )
    assert diff(one, one)[0] == 0
    assert diff(one, one, "--strict")[0] == 0
    other = pa.table(
        {
            "text": pa.array(["x", None]),
            "kind": pa.array(["a", "a"]),
            "small": pa.array([1, 255], pa.int16()),
        }
    )
    assert diff(one, other)[0] == 0
    status, found = diff(one, other, "--strict", "--json")
    assert status == 1
    assert found["schema"]["types"]["text"] == ["large_string", "string"]
    assert found["schema"]["types"]["small"] == ["uint8", "int16"]
    assert found["contents"]["columns"] == {}


def test_metadata_and_nullability(diff):
    field = pa.field("id", pa.int64(), nullable=False)
    one = pa.table({"id": [1]}, pa.schema([field], {"note": "x"}))
    other = pa.table({"id": [1]}, metadata={"note": "y"})
    status, text = diff(one, other)
    assert status == 0
    assert "metadata of the schema differs: note" in text
    assert "nullability of columns differs: id" in text
    assert diff(one, other, "--strict")[0] == 1


def test_values_that_are_equal(diff):
    one = pa.table({"x": [math.nan, 0.0, None], "l": [[math.nan], None, [0.0]]})
    other = pa.table({"x": [math.nan, -0.0, None], "l": [[math.nan], None, [-0.0]]})
    assert diff(one, other)[0] == 0
    status, found = diff(one, changed(one, "l", 1, []), "--json")
    assert status == 1
    assert found["contents"]["columns"]["l"]["first"] == [{"row": 1, "a": None, "b": []}]


def test_thousands_of_columns(diff):
    one = pa.table({f"c{i:05d}": [i] for i in range(2000)})
    other = pa.table({f"c{i:05d}": [i + 1] for i in range(2000)})
    status, text = diff(one, other)
    assert status == 1
    lines = text.splitlines()
    assert lines[0] == "values: differences in 2000 columns"
    assert lines[-1] == "and 1980 more lines; use --json to print all"
    assert len(lines) == 23
    assert len(diff(one, other, "--json")[1]["contents"]["columns"]) == 2000


def test_on_a_terminal(tmp_path):
    fm.write_table(TABLE, tmp_path / "a.mosaic")
    fm.write_table(changed(TABLE, "x", 1, 5.0), tmp_path / "b.mosaic")
    status, text = on_terminal("diff", tmp_path / "a.mosaic", tmp_path / "a.mosaic", columns=100)
    assert status == 0
    assert plain(text).splitlines()[-1] == "no differences in 1,000 rows and 3 columns"
    status, text = on_terminal("diff", tmp_path / "a.mosaic", tmp_path / "b.mosaic", columns=100)
    assert status == 1
    assert "0.125" in plain(text)


def test_trouble(tmp_path, capsys):
    fm.write_table(TABLE, tmp_path / "a.mosaic")
    for words in (
        [str(tmp_path / "a.mosaic"), str(tmp_path / "nope.mosaic")],
        [str(tmp_path / "a.mosaic"), str(tmp_path / "a.mosaic"), "-c", "words"],
    ):
        assert main(["diff", *words]) == 2
        out, err = capsys.readouterr()
        assert not out
        assert err.count("\n") == 1


# ---- the parts


def test_batches_are_cut_to_the_same_rows():
    def batches(*sizes):
        start = 0
        for size in sizes:
            yield pa.record_batch({"x": np.arange(start, start + size)})
            start += size

    pairs = list(aligned(batches(3, 0, 4, 5), batches(5, 2, 9)))
    assert [start for start, _, _ in pairs] == [0, 3, 5, 7]
    assert sum(one.num_rows for _, one, _ in pairs) == 12
    for start, one, other in pairs:
        assert one.equals(other)
        assert one["x"][0].as_py() == start


def test_rows_that_differ():
    when = datetime.datetime(2020, 1, 1)
    for one, other, rows in (
        ([1, None, 3], [1, 2, None], [1, 2]),
        (["a", "b"], ["a", "c"], [1]),
        ([math.nan, math.nan, 1.0], [math.nan, 1.0, math.nan], [1, 2]),
        ([when, None], [when, None], []),
        ([b"x", b""], [b"x", None], [1]),
        ([{"a": math.nan}, {"a": 1.0}], [{"a": math.nan}, {"a": 2.0}], [1]),
        ([True, False], [True, True], [1]),
    ):
        assert differing(pa.array(one), pa.array(other, pa.array(one).type)) == rows


@pytest.mark.parametrize(
    ("one", "other", "type"),
    [
        (pa.int8(), pa.int64(), pa.int64()),
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.uint8(), pa.int16(), pa.int16()),
        (pa.null(), pa.string(), pa.string()),
        (pa.date32(), pa.timestamp("ms"), pa.timestamp("ms")),
        (pa.timestamp("ms"), pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("ms"), pa.timestamp("ms", "UTC"), None),
        (pa.string(), pa.int8(), None),
        (pa.struct({"a": pa.int8()}), pa.struct({"a": pa.int16()}), pa.struct({"a": pa.int16()})),
        (pa.struct({"a": pa.int8()}), pa.struct({"a": pa.string()}), None),
        (pa.float16(), pa.float16(), pa.float32()),
        (pa.uint64(), pa.decimal128(20, 0), pa.decimal256(76, 0)),
        (pa.duration("s"), pa.duration("ns"), pa.duration("ns")),
        (pa.duration("s"), pa.int64(), None),
        (pa.time32("s"), pa.time64("ns"), pa.time64("ns")),
        (pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.string()),
    ],
)
def test_types_to_compare_as(one, other, type):
    assert common_type(one, other) == type
    assert common_type(other, one) == type
