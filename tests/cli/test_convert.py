"""fastmosaic convert: every format into every other, as other programs read them."""

import datetime
import decimal
import gzip
import io
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import duckdb
import mosaic
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import write_lines, write_stream
from pyarrow import csv, feather, ipc, orc
from terminal import command, environment, on_terminal, peak_memory, plain

import fastmosaic as fm
from fastmosaic.cli import main

TABLE = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int32()),
        "price": [9.5, None, -0.25, 1e300],
        "name": ["a", "", None, 'quo"te, comma\nand ünicode'],
        "flag": [True, False, None, True],
        "day": [datetime.date(2020, 1, 31), None, datetime.date(1900, 1, 1), datetime.date.max],
        "at": pa.array(
            [datetime.datetime(2020, 1, 1, 12, 30, 15, 123456), None] * 2, pa.timestamp("us")
        ),
        "sum": pa.array([decimal.Decimal("1.25"), None] * 2, pa.decimal128(10, 2)),
    }
)
# What text does not tell by itself.
TYPES = ("--type", "id=int32", "--type", "sum=decimal(10,2)", "--type", "at=timestamp[us]")


def write_by_paimon(table, path):
    with open(path, "wb") as file:
        mosaic.write_table(table, file, mosaic.WriterOptions())


def read_by_paimon(path):
    data = path.read_bytes()
    reader = mosaic.MosaicReader.from_input_file(
        lambda offset, length: data[offset : offset + length], len(data)
    )
    with reader:
        return reader.read_all()


def read_lines(path):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    text = pa.Table.from_pylist(
        [{**row, **{key: str(row[key]) for key in row if row[key] is not None}} for row in rows],
        schema=pa.schema([pa.field(name, pa.string()) for name in rows[0]]),
    )
    text = text.set_column(3, "flag", pa.array([row["flag"] for row in rows]))
    return text.cast(TABLE.schema)


def read_csv(path):
    options = csv.ConvertOptions(
        column_types=dict(zip(TABLE.schema.names, TABLE.schema.types, strict=True)),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parsing = csv.ParseOptions(newlines_in_values=True)
    return csv.read_csv(path, convert_options=options, parse_options=parsing)


# Each with how others write it, and read it.
FORMATS = {
    "mosaic": (write_by_paimon, read_by_paimon),
    "parquet": (pq.write_table, pq.read_table),
    "orc": (orc.write_table, orc.read_table),
    "feather": (feather.write_feather, feather.read_table),
    "arrows": (write_stream, lambda path: ipc.open_stream(path).read_all()),
    "csv": (csv.write_csv, read_csv),
    "jsonl": (write_lines, read_lines),
}


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_every_format_to_every_other(tmp_path, source, target):
    given, result = tmp_path / f"in.{source}", tmp_path / f"out.{target}"
    FORMATS[source][0](TABLE, given)
    assert main(["convert", str(given), str(result), *TYPES, "--type", "day=date32"]) == 0
    found = FORMATS[target][1](result)
    if source == "orc" or target == "orc":  # whose times are of nanoseconds
        assert found.schema.field("at").type == pa.timestamp("ns" if target == "orc" else "us")
        found = found.cast(TABLE.schema)
    assert found.schema.remove_metadata() == TABLE.schema
    assert found.to_pylist() == TABLE.to_pylist()


@pytest.fixture
def table(tmp_path):
    """A Parquet file of a thousand rows, in four row groups."""
    rng = np.random.default_rng(7)
    table = pa.table(
        {
            "id": np.arange(1000),
            "kind": np.array(["a", "b", "c"])[rng.integers(0, 3, 1000)],
            "price": np.round(rng.normal(size=1000), 3),
            "temp_1": rng.integers(0, 5, 1000),
            "temp_2": rng.integers(0, 5, 1000),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=250)
    return table


def test_other_readers(tmp_path, table):
    for name in ("out.parquet", "out.csv", "out.jsonl"):
        assert main(["convert", str(tmp_path / "in.parquet"), str(tmp_path / name)]) == 0
        (found,) = duckdb.sql(
            f"select count(*), sum(id), sum(price), count(distinct kind) from '{tmp_path / name}'"
        ).fetchall()
        assert found == (1000, 499500, pytest.approx(sum(table["price"].to_pylist())), 3)
    frame = table.to_pandas()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out.csv"), frame)
    pd.testing.assert_frame_equal(pd.read_json(tmp_path / "out.jsonl", lines=True), frame)


def test_columns_and_rows(tmp_path, table, capsys):
    words = [str(tmp_path / "in.parquet"), str(tmp_path / "out.mosaic")]
    options = ["-c", "temp_*,id", "--where", "kind = 'a' and id < 500", "--json"]
    assert main(["convert", *words, *options]) == 0
    kept = [
        (row["temp_1"], row["temp_2"], row["id"])
        for row in table.to_pylist()
        if row["kind"] == "a" and row["id"] < 500
    ]
    found = read_by_paimon(tmp_path / "out.mosaic")
    assert found.column_names == ["temp_1", "temp_2", "id"]
    assert [tuple(row.values()) for row in found.to_pylist()] == kept
    report = json.loads(capsys.readouterr().out)
    assert (report["rows"], report["columns"]) == (len(kept), 3)
    assert report["bytes_in"] == (tmp_path / "in.parquet").stat().st_size
    assert report["bytes_out"] == (tmp_path / "out.mosaic").stat().st_size


def test_what_it_says(tmp_path, table, capsys):
    assert main(["convert", str(tmp_path / "in.parquet"), str(tmp_path / "out.mosaic")]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'out.mosaic'}: 1000 rows, 5 columns, ")
    assert " → " in out
    assert out.count("\n") == 1
    assert not err


def test_a_bar_on_a_terminal(tmp_path, table):
    source, target = tmp_path / "in.parquet", tmp_path / "out.mosaic"
    status, text = on_terminal("convert", source, target, columns=200)
    assert status == 0
    lines = plain(text).splitlines()
    assert any("converting" in line and "━" in line for line in lines)
    assert "1,000 rows, 5 columns" in lines[-1]


# ---- options


def test_options_of_the_writer(tmp_path, table):
    target = tmp_path / "out.mosaic"
    options = ["--row-group-size", "300", "--buckets", "2", "--stats", "temp_*", "--no-annex"]
    assert main(["convert", str(tmp_path / "in.parquet"), str(target), *options]) == 0
    metadata = fm.read_metadata(target)
    assert [metadata.row_group(i).num_rows for i in range(4)] == [300, 300, 300, 100]
    assert len(metadata.row_group(0).buckets) == 2
    assert set(metadata.row_group(0).statistics) == {"temp_1", "temp_2"}
    assert metadata.annex is None
    assert main(["convert", str(target), str(target), "--overwrite", "--stats", "all"]) == 0
    assert len(fm.read_metadata(target).row_group(0).statistics) == 5
    assert read_by_paimon(target) == table


def test_compression(tmp_path, table):
    source = str(tmp_path / "in.parquet")
    sizes = {}
    for name in ("parquet", "orc", "arrow", "mosaic"):
        for codec in ("none", "zstd"):
            target = tmp_path / f"{codec}.{name}"
            assert main(["convert", source, str(target), "--compression", codec]) == 0
            sizes[name, codec] = target.stat().st_size
        assert sizes[name, "zstd"] < sizes[name, "none"]
    target = tmp_path / "level.arrow"
    options = ["--compression", "zstd", "--level", "15"]
    assert main(["convert", source, str(target), *options]) == 0
    assert feather.read_table(target) == table
    column = pq.read_metadata(tmp_path / "none.parquet").row_group(0).column(0)
    assert column.compression == "UNCOMPRESSED"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x.parquet", "--buckets", "3"], "--buckets is an option of mosaic, not of parquet"),
        (
            ["x.csv", "--compression", "zstd"],
            "--compression is an option of mosaic and parquet and orc and arrow, not of csv",
        ),
        (["x.parquet", "--compression", "nope"], "Unsupported compression: nope"),
        (["x.mosaic", "--compression", "lz4"], "compression"),
        (["x.mosaic", "--stats", "prize"], "no column named 'prize'; did you mean 'price'"),
        (["x.mosaic", "-c", "tmp_*"], "no column matches 'tmp_*'"),
        (["x.unknown"], "use --to with one of mosaic, parquet"),
        (["nowhere/x.mosaic"], "nowhere: No such file or directory"),
        (["-"], "cannot determine the format from the name"),
        (["-", "--to", "parquet"], "parquet cannot be written to standard output"),
        (["-", "--to", "csv", "--json"], "--json cannot be used"),
        (["x.parquet", "--file-rows", "10"], "only Mosaic is written as a directory"),
    ],
)
def test_options_that_do_not_fit(tmp_path, table, capsys, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["convert", "in.parquet", *words]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert err.count("\n") == 1
    assert not out
    assert os.listdir(tmp_path) == ["in.parquet"]


def test_words_that_do_not_fit(tmp_path, capsys):
    for words in (
        ["--type", "price"],
        ["--type", "price=duble"],
        ["--delimiter", "ab"],
        ["--row-group-size", "0"],
        ["--row-group-bytes", "64x"],
        ["--array-layout", "rows"],
        ["--level", "99"],
        ["--to", "parket"],
    ):
        with pytest.raises(SystemExit) as caught:
            main(["convert", "a.csv", "b.mosaic", *words])
        assert caught.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_types_are_cast_without_loss(tmp_path, capsys):
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.uint64())}), tmp_path / "in.parquet")
    words = ["convert", str(tmp_path / "in.parquet"), str(tmp_path / "out.mosaic")]
    assert main([*words, "--type", "i*=int8"]) == 0
    assert read_by_paimon(tmp_path / "out.mosaic") == pa.table({"id": pa.array([1, 2], pa.int8())})
    pq.write_table(pa.table({"id": pa.array([1, 1 << 60])}), tmp_path / "in.parquet")
    assert main([*words, "--overwrite", "--type", "id=int8"]) == 2
    assert "column 'id': cannot convert int64 to int8 without loss" in capsys.readouterr().err
    # The format stores uint8 as int16, which has room for other values.
    pq.write_table(pa.table({"id": [1, 300]}), tmp_path / "in.parquet")
    assert main([*words, "--overwrite", "--type", "id=uint8"]) == 2
    assert "column 'id': cannot convert int64 to uint8 without loss" in capsys.readouterr().err
    assert read_by_paimon(tmp_path / "out.mosaic").num_rows == 2


def test_fields_are_cast(tmp_path):
    table = pa.table({"s": [{"x": 1, "took": 5}], "l": [[{"x": 1}, None]]})
    pq.write_table(table, tmp_path / "in.parquet")
    words = ["convert", str(tmp_path / "in.parquet"), str(tmp_path / "out.mosaic")]
    assert main([*words, "--type", "s.took=duration[s]", "--type", "*.x=int8"]) == 0
    assert fm.read_schema(tmp_path / "out.mosaic") == pa.schema(
        {
            "s": pa.struct({"x": pa.int8(), "took": pa.duration("s")}),
            "l": pa.list_(pa.struct({"x": pa.int8()})),
        }
    )


# ---- nested columns, and types that the format stores as others

PLACE = pa.struct([("city", pa.string()), pa.field("zip", pa.string(), nullable=False)])
INFO = pa.struct([("name", pa.string()), ("at", PLACE), ("tags", pa.list_(pa.string()))])
NESTED = pa.table(
    {
        "info": pa.array(
            [
                {"name": "Ann", "at": {"city": "Oslo", "zip": "1"}, "tags": ["a", None]},
                {"name": None, "at": None, "tags": []},
                None,
            ],
            INFO,
        ),
        "items": pa.array(
            [[{"x": 1, "y": "a"}, None], [], None],
            pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ),
        "map": pa.array(
            [[("k", {"v": 1.5})], [], None], pa.map_(pa.string(), pa.struct([("v", pa.float64())]))
        ),
    }
)
OTHERS = pa.table(
    {
        "took": pa.array([0, -1, None], pa.duration("us")),
        "big": pa.array([0, 2**64 - 1, None], pa.uint64()),
        "half": pa.array([0.5, -2, None], pa.float16()),
        "at": pa.array([0, 86_399_999_999_999, None], pa.time64("ns")),
        "kind": pa.array(["a", "b", None]).dictionary_encode(),
        "vec": pa.array([[1, 2], [3, 4], None], pa.list_(pa.float32(), 2)),
        "small": pa.array([0, 255, None], pa.uint8()),
        "none": pa.nulls(3),
        "in": pa.StructArray.from_arrays(
            [
                pa.array([1, None, 2], pa.duration("ns")),
                pa.array(["x", None, "y"]).dictionary_encode(),
                pa.array([1, None, 2**63], pa.uint64()),
            ],
            ["took", "kind", "big"],
        ),
    }
)


def both_ways(table, folder, suffix, *options):
    """A table in Mosaic, converted to another format, and back to Mosaic."""
    paths = [str(folder / name) for name in ("in.mosaic", f"out{suffix}", "back.mosaic")]
    fm.write_table(table, paths[0])
    assert main(["convert", paths[0], paths[1], *options]) == 0
    assert main(["convert", paths[1], paths[2]]) == 0
    return Path(paths[1]), fm.read_table(paths[2])


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize("table", [NESTED, OTHERS], ids=["nested", "others"])
def test_types_are_kept(tmp_path, suffix, table):
    table = table.replace_schema_metadata({"note": "x"})
    path, back = both_ways(table, tmp_path, suffix)
    assert back.equals(table)
    assert back.schema.equals(table.schema, check_metadata=suffix != ".parquet")
    found = pq.read_table(path) if suffix == ".parquet" else None
    assert found is None or (found.equals(table) and found.schema.metadata[b"note"] == b"x")


def test_parquet_to_mosaic_to_parquet(tmp_path):
    table = NESTED
    for name in OTHERS.column_names:
        table = table.append_column(name, OTHERS[name])
    names = ("in.parquet", "out.mosaic", "back.parquet")
    one, two, three = (str(tmp_path / name) for name in names)
    pq.write_table(table, one)
    assert main(["convert", one, two]) == 0
    assert main(["convert", two, three]) == 0
    assert pq.read_table(three).equals(pq.read_table(one), check_metadata=True)
    assert main(["diff", "--strict", one, two]) == 0


def test_orc_and_back(tmp_path):
    path, back = both_ways(NESTED, tmp_path, ".orc")
    nullable = pa.struct([("city", pa.string()), ("zip", pa.string())])
    fields = [INFO.field(0), ("at", nullable), INFO.field(2)]
    expected = NESTED.set_column(0, "info", NESTED["info"].cast(pa.struct(fields)))
    assert orc.read_table(path).equals(expected)
    assert back.equals(expected)
    assert main(["diff", str(tmp_path / "in.mosaic"), str(path)]) == 0


def test_types_that_orc_lacks(tmp_path, capsys):
    fm.write_table(OTHERS, tmp_path / "in.mosaic")
    words = ["convert", str(tmp_path / "in.mosaic"), str(tmp_path / "out.orc")]
    assert main(words) == 2
    error = capsys.readouterr().err
    for column in (
        "'took': orc does not support duration[us]",
        "'at': orc does not support time64",
    ):
        assert f"column {column}" in error
    assert "column 'in.took': orc does not support duration[ns]; cast it to int64" in error
    assert main([*words, "--type", "*took=int64", "--type", "at=int64"]) == 0
    found = orc.read_table(tmp_path / "out.orc")
    assert found.schema.field("big").type == pa.decimal128(20, 0)
    assert found["big"].to_pylist() == [0, 2**64 - 1, None]
    assert found["took"].to_pylist() == [0, -1, None]
    assert found["vec"].to_pylist() == [[1, 2], [3, 4], None]
    assert found["in"].to_pylist()[2] == {"took": 2, "kind": "y", "big": 2**63}


def test_json_and_back(tmp_path):
    lines = [
        {"id": 1, "info": {"day": "2024-01-31", "at": {"ok": True}}, "items": [{"x": 1.5}, None]},
        {"id": 2, "info": None, "items": []},
        {"id": 3, "info": {"day": None, "at": None}, "items": None},
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = ["convert", str(tmp_path / "in.jsonl"), str(tmp_path / "out.mosaic")]
    assert main(words) == 0
    assert fm.read_schema(tmp_path / "out.mosaic") == pa.schema(
        {
            "id": pa.int64(),
            "info": pa.struct({"day": pa.date32(), "at": pa.struct({"ok": pa.bool_()})}),
            "items": pa.list_(pa.struct({"x": pa.float64()})),
        }
    )
    assert main(["convert", str(tmp_path / "out.mosaic"), str(tmp_path / "back.jsonl")]) == 0
    back = [json.loads(line) for line in (tmp_path / "back.jsonl").read_text().splitlines()]
    assert back == lines
    assert main(["diff", str(tmp_path / "in.jsonl"), str(tmp_path / "out.mosaic")]) == 0


def test_csv_of_stored_columns(tmp_path, capsys):
    fm.write_table(NESTED.select(["info"]), tmp_path / "in.mosaic")
    words = ["convert", str(tmp_path / "in.mosaic"), str(tmp_path / "out.csv")]
    assert main(words) == 2
    assert "csv does not support struct<name: string" in capsys.readouterr().err
    assert main([*words, "--stored", "-c", "info.name,info.at.zip"]) == 0
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines == ['"info.name","info.at.zip"', '"Ann","1"', ",", ","]


def test_unions_are_refused(tmp_path, capsys):
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["a"])])
    with ipc.new_file(tmp_path / "in.arrow", pa.schema({"x": union.type})) as writer:
        writer.write_table(pa.table({"x": union}))
    assert main(["convert", str(tmp_path / "in.arrow"), str(tmp_path / "out.mosaic")]) == 2
    error = capsys.readouterr().err
    assert "column 'x': the format has no type for sparse_union" in error
    assert "make each member a separate column" in error
    assert os.listdir(tmp_path) == ["in.arrow"]


def test_fields_are_selected(tmp_path):
    pq.write_table(NESTED, tmp_path / "in.parquet")
    words = ["convert", str(tmp_path / "in.parquet"), str(tmp_path / "out.mosaic")]
    where = ["--where", "info.at.city = 'Oslo'"]
    assert main([*words, "-c", "info.name,items.x", *where, "--stats", "info.name"]) == 0
    assert fm.read_table(tmp_path / "out.mosaic").to_pylist() == [
        {"info": {"name": "Ann"}, "items": [{"x": 1}, None]}
    ]
    assert list(fm.read_metadata(tmp_path / "out.mosaic").row_group(0).statistics) == ["info.name"]


# ---- types that formats lack


def test_types_become_wider_ones(tmp_path):
    wide = pa.table(
        {
            "small": pa.array([1, 255], pa.uint8()),
            "text": pa.array(["x", "y"]).dictionary_encode(),
            "view": pa.array(["x", "y"], pa.string_view()),
            "nothing": pa.nulls(2),
        }
    )
    feather.write_feather(wide, tmp_path / "in.feather")
    expected = {"small": [1, 255], "text": ["x", "y"], "view": ["x", "y"], "nothing": [None, None]}
    for name in ("out.orc", "out.arrow", "out.parquet", "out.mosaic"):
        assert main(["convert", str(tmp_path / "in.feather"), str(tmp_path / name)]) == 0
    assert orc.read_table(tmp_path / "out.orc").to_pydict() == expected
    assert feather.read_table(tmp_path / "out.arrow").to_pydict() == expected
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == expected
    assert read_by_paimon(tmp_path / "out.mosaic").to_pydict() == expected


def test_dictionaries_of_many_batches(tmp_path):
    schema = pa.schema({"kind": pa.dictionary(pa.int32(), pa.string())})
    with ipc.new_stream(tmp_path / "in.arrows", schema) as writer:
        for word in ("a", "b"):
            writer.write_table(pa.table({"kind": pa.array([word]).dictionary_encode()}, schema))
    assert main(["convert", str(tmp_path / "in.arrows"), str(tmp_path / "out.arrow")]) == 0
    assert feather.read_table(tmp_path / "out.arrow").to_pydict() == {"kind": ["a", "b"]}


@pytest.mark.parametrize(
    ("column", "target", "message"),
    [
        (pa.array([[1]]), "out.csv", "column 'x': csv does not support list<"),
        (pa.array([b"\xff"]), "out.csv", "column 'x': csv does not support binary"),
        (
            pa.array([b"\xff"], pa.large_binary()),
            "out.json",
            "column 'x': json does not support large",
        ),
        (pa.array([float("nan")]), "out.json", "column 'x': JSON does not support NaN"),
        (pa.array([[float("inf")]]), "out.json", "column 'x': JSON does not support NaN"),
        (pa.array([1], pa.time32("s")), "out.orc", "column 'x': orc does not support time32"),
        (
            pa.array([{"a": 1}]),
            "out.csv",
            "column 'x': csv does not support struct<a: int64>; JSON",
        ),
    ],
)
def test_types_that_a_format_lacks(tmp_path, capsys, column, target, message):
    feather.write_feather(pa.table({"id": [1], "x": column}), tmp_path / "in.feather")
    words = ["convert", str(tmp_path / "in.feather"), str(tmp_path / target)]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "or -c to leave it out" in error
    assert error.count("\n") == 1
    assert os.listdir(tmp_path) == ["in.feather"]
    assert main([*words, "-c", "id"]) == 0


def test_times_are_texts_in_json_as_they_are(tmp_path):
    table = pa.table(
        {
            "ns": pa.array([1_577_836_800_123_456_789], pa.timestamp("ns", "UTC")),
            "time": pa.array([3_723_004], pa.time32("ms")),
            "far": pa.array([253402300800], pa.timestamp("s")),  # the year 10000
        }
    )
    feather.write_feather(table, tmp_path / "in.feather")
    assert main(["convert", str(tmp_path / "in.feather"), str(tmp_path / "out.json")]) == 0
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "ns": "2020-01-01 00:00:00.123456789Z",
        "time": "01:02:03.004",
        "far": "10000-01-01 00:00:00",
    }


# ---- text


def test_columns_that_are_empty_at_first(tmp_path, monkeypatch):
    monkeypatch.setattr("fastmosaic.convert.text.BLOCK_BYTES", 1000)
    lines = ["id,late,word,never"] + [f"{i},,," for i in range(500)]
    lines += ["500,1.5,,", "501,,x,"] + [f"{i},2,NA," for i in range(502, 1000)]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    assert main(["convert", str(tmp_path / "in.csv"), str(tmp_path / "out.parquet")]) == 0
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.schema.types == [pa.int64(), pa.float64(), pa.string(), pa.null()]
    assert found["id"].to_pylist() == list(range(1000))
    assert found["late"].to_pylist() == [None] * 500 + [1.5, None] + [2.0] * 498
    assert found["word"].to_pylist() == [None] * 501 + ["x"] + ["NA"] * 498


def test_a_later_value_of_another_type(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fastmosaic.convert.text.BLOCK_BYTES", 1000)
    (tmp_path / "in.csv").write_text("id,price\n" + "1,2\n" * 1000 + "1,2.5\n")
    words = ["convert", str(tmp_path / "in.csv"), str(tmp_path / "out.mosaic")]
    assert main(words) == 2
    message = capsys.readouterr().err
    assert "column 'price': read as int64, but there is '2.5' in row 1002" in message
    assert "--type 'price=" in message
    assert os.listdir(tmp_path) == ["in.csv"]
    assert main([*words, "--type", "price=double"]) == 0
    assert read_by_paimon(tmp_path / "out.mosaic")["price"].to_pylist() == [2.0] * 1000 + [2.5]


def test_fields_that_come_late(tmp_path, monkeypatch):
    monkeypatch.setattr("fastmosaic.convert.text.BLOCK_BYTES", 1000)
    rows = [{"id": i, "x": None} for i in range(500)]
    rows += [{"id": 500.5, "late": {"a": 1}}, {"x": [1], "late": {"b": "x"}}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["convert", str(tmp_path / "in.jsonl"), str(tmp_path / "out.parquet")]) == 0
    found = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(found) == 502
    assert found[499] == {"id": 499.0, "x": None, "late": None}
    assert found[500] == {"id": 500.5, "x": None, "late": {"a": 1, "b": None}}
    assert found[501] == {"id": None, "x": [1], "late": {"a": None, "b": "x"}}


def test_rows_of_csv_that_do_not_fit(tmp_path, capsys):
    (tmp_path / "in.csv").write_text("a,b\n1,2\n3\n")
    assert main(["convert", str(tmp_path / "in.csv"), str(tmp_path / "out.mosaic")]) == 2
    assert "in.csv: CSV parse error: Row #3: Expected 2 columns" in capsys.readouterr().err
    (tmp_path / "in.csv").write_text("")
    assert main(["convert", str(tmp_path / "in.csv"), str(tmp_path / "out.mosaic")]) == 2
    assert "in.csv: Empty CSV file" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["in.csv"]


def test_values_with_line_ends_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr("fastmosaic.convert.text.BLOCK_BYTES", 1000)
    words = [f"line\n{'x' * (i % 50)}" for i in range(500)]
    csv.write_csv(pa.table({"word": words}), tmp_path / "in.csv")
    assert main(["convert", str(tmp_path / "in.csv"), str(tmp_path / "out.mosaic")]) == 0
    assert read_by_paimon(tmp_path / "out.mosaic")["word"].to_pylist() == words


def test_dialects(tmp_path):
    (tmp_path / "in.csv").write_text("1;a\n2;b\n")
    options = ["--delimiter", ";", "--no-header"]
    assert main(["convert", str(tmp_path / "in.csv"), str(tmp_path / "x.arrow"), *options]) == 0
    found = feather.read_table(tmp_path / "x.arrow")
    assert found.to_pydict() == {"f0": [1, 2], "f1": ["a", "b"]}
    options = ["--delimiter", "tab", "--no-header"]
    assert main(["convert", str(tmp_path / "x.arrow"), str(tmp_path / "y.csv"), *options]) == 0
    assert (tmp_path / "y.csv").read_text() == '1\t"a"\n2\t"b"\n'


def test_compressed_text(tmp_path, table):
    target = tmp_path / "out.csv.gz"
    assert main(["convert", str(tmp_path / "in.parquet"), str(target)]) == 0
    assert csv.read_csv(io.BytesIO(gzip.decompress(target.read_bytes()))) == table
    assert main(["convert", str(target), str(tmp_path / "back.parquet")]) == 0
    assert pq.read_table(tmp_path / "back.parquet") == table


# ---- directories


def test_a_directory_of_files(tmp_path, table):
    target = tmp_path / "out"
    words = ["convert", str(tmp_path / "in.parquet"), f"{target}/"]
    assert main([*words, "--partition-by", "kind", "--file-rows", "100"]) == 0
    files = sorted(target.rglob("*.mosaic"))
    assert {file.parent.name for file in files} == {"kind=a", "kind=b", "kind=c"}
    ids = []
    for file in files:
        found = read_by_paimon(file)
        assert found.num_rows <= 100
        assert found.column_names == ["id", "price", "temp_1", "temp_2"]
        ids += found["id"].to_pylist()
    assert sorted(ids) == list(range(1000))
    # And back, with the keys.
    assert main(["convert", str(target), str(tmp_path / "back.parquet")]) == 0
    back = pq.read_table(tmp_path / "back.parquet").sort_by("id").select(table.column_names)
    assert back.to_pylist() == table.to_pylist()


def test_a_directory_is_not_replaced_by_mistake(tmp_path, table, capsys):
    target = tmp_path / "out"
    words = ["convert", str(tmp_path / "in.parquet"), f"{target}/"]
    assert main(words) == 0
    (before,) = os.listdir(target)
    assert main(words) == 2
    assert "contains files; use --overwrite to replace all of them" in capsys.readouterr().err
    # Not a directory that holds a file which is read, and maybe others.
    assert main(["convert", str(target / before), f"{target}/", "--overwrite"]) == 2
    assert "which contains the source file" in capsys.readouterr().err
    assert os.listdir(target) == [before]
    assert main([*words, "--overwrite"]) == 0
    (after,) = os.listdir(target)
    assert after != before


def test_a_directory_over_itself(tmp_path, table):
    target = tmp_path / "out"
    assert main(["convert", str(tmp_path / "in.parquet"), f"{target}/", "--file-rows", "300"]) == 0
    assert len(os.listdir(target)) == 4
    assert main(["convert", str(target), str(target), "--overwrite"]) == 0
    (file,) = target.iterdir()
    assert read_by_paimon(file) == table


def test_many_files_into_one(tmp_path, table):
    for number in range(3):
        pq.write_table(table.slice(number * 100, 100), tmp_path / f"part-{number}.parquet")
    words = [str(tmp_path / "part-2.parquet"), str(tmp_path / "part-[01].parquet")]
    assert main(["convert", *words, str(tmp_path / "out.mosaic")]) == 0
    ids = read_by_paimon(tmp_path / "out.mosaic")["id"].to_pylist()
    assert ids == [*range(200, 300), *range(200)]


# ---- whole, or not at all


TARGETS = ["out.mosaic", "out.parquet", "out.orc", "out.arrow", "out.csv", "out.json"]


@pytest.mark.parametrize("name", TARGETS)
def test_what_exists_stays(tmp_path, table, capsys, name):
    target = tmp_path / name
    target.write_text("precious")
    words = ["convert", str(tmp_path / "in.parquet"), str(target)]
    assert main(words) == 2
    assert (
        capsys.readouterr().err == f"fastmosaic: {target} exists; use --overwrite to replace it\n"
    )
    assert target.read_text() == "precious"
    assert main([*words, "--overwrite"]) == 0
    assert target.stat().st_size > 1000


@pytest.mark.parametrize("name", TARGETS)
def test_a_source_that_is_damaged_in_the_middle(tmp_path, capsys, name):
    table = pa.table({"id": np.arange(200_000), "x": np.random.default_rng(1).random(200_000)})
    source, target = tmp_path / "in.mosaic", tmp_path / name
    fm.write_table(table, source, row_group_size=10_000)
    data = bytearray(source.read_bytes())
    data[len(data) // 2] ^= 1
    source.write_bytes(data)
    target.write_text("precious")
    assert main(["convert", str(source), str(target), "--overwrite"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"fastmosaic: {source}: ")
    assert error.count("\n") == 1
    assert target.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["in.mosaic", name]


@pytest.mark.parametrize("name", TARGETS)
def test_a_file_over_itself(tmp_path, table, name):
    assert main(["convert", str(tmp_path / "in.parquet"), str(tmp_path / name)]) == 0
    assert main(["convert", str(tmp_path / name), str(tmp_path / name), "--overwrite"]) == 0
    assert main(["convert", str(tmp_path / name), str(tmp_path / "back.feather")]) == 0
    assert feather.read_table(tmp_path / "back.feather").to_pylist() == table.to_pylist()


@pytest.mark.parametrize("format", ["mosaic", "parquet", "orc", "arrow", "csv", "json"])
def test_a_full_disk(tmp_path, table, capsys, format):
    words = ["convert", str(tmp_path / "in.parquet"), "/dev/full", "--to", format]
    assert main(words) == 2
    assert capsys.readouterr().err == "fastmosaic: /dev/full: No space left on device\n"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file whose conversion takes seconds."""
    path = tmp_path_factory.mktemp("large") / "in.parquet"
    part = pa.table({"id": range(1_000_000), "x": np.arange(1_000_000) / 7})
    with pq.ParquetWriter(path, part.schema) as writer:
        for _ in range(20):
            writer.write_table(part)
    return path


def has_begun(target):
    """Whether there is a temporary file next to the target, or in a directory next to it."""
    beside = [one for one in target.parent.iterdir() if one.name.startswith(".")]
    return any(not one.is_dir() or any(one.iterdir()) for one in beside)


def run_signalled(source, target, number, *options):
    """The command, which gets a signal as soon as it has begun to write."""
    process = subprocess.Popen(
        command("convert", str(source), str(target), *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    with process:
        while not has_begun(target):
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        out, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.parametrize("name", TARGETS)
def test_ctrl_c(tmp_path, large, name):
    (tmp_path / name).write_text("precious")
    done = run_signalled(large, tmp_path / name, signal.SIGINT, "--overwrite")
    assert done == (130, "", "fastmosaic: interrupted\n")
    assert os.listdir(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "precious"


def test_ctrl_c_and_a_directory(tmp_path, large):
    (tmp_path / "out").mkdir()
    fm.write_table(pa.table({"precious": [1]}), tmp_path / "out" / "old.mosaic")
    options = ("--overwrite", "--file-rows", "100000")
    done = run_signalled(large, tmp_path / "out", signal.SIGINT, *options)
    assert done == (130, "", "fastmosaic: interrupted\n")
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(tmp_path / "out") == ["old.mosaic"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_end(tmp_path, large, number):
    done = run_signalled(large, tmp_path / "out.mosaic", number)
    assert done == (128 + number, "", "")
    assert os.listdir(tmp_path) == []


def is_waiting(pid):
    """Whether the main thread of a process sleeps: it waits for more of a pipe."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def test_ctrl_c_while_a_pipe_has_nothing(tmp_path):
    process = subprocess.Popen(
        command("convert", "-", str(tmp_path / "out.mosaic"), "--from", "csv"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment(), "TMPDIR": str(tmp_path)},
    )
    with process:
        process.stdin.write(b"id\n1\n")
        process.stdin.flush()
        # Python tries the directory with a file of another name.
        while not (list(tmp_path.glob("fastmosaic-*")) and is_waiting(process.pid)):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"fastmosaic: interrupted\n"
        assert process.wait() == 130
    assert os.listdir(tmp_path) == []


# ---- standard input and output


def test_from_and_to_pipes(tmp_path, table):
    source = tmp_path / "in.parquet"
    first = subprocess.Popen(
        command("convert", str(source), "-", "--to", "arrow"),
        stdout=subprocess.PIPE,
        env=environment(),
    )
    second = subprocess.run(
        command("convert", "-", "-", "--from", "arrow", "--to", "csv", "-w", "id < 3"),
        stdin=first.stdout,
        capture_output=True,
        env=environment(),
        check=True,
    )
    first.stdout.close()
    assert first.wait() == 0
    assert csv.read_csv(io.BytesIO(second.stdout)) == table.slice(0, 3)
    assert not second.stderr


def test_a_pipe_that_nobody_reads(tmp_path, table):
    process = subprocess.Popen(
        command("convert", str(tmp_path / "in.parquet"), "-", "--to", "csv"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


# ---- memory


def long_table() -> pa.Table:
    """40 MB in memory."""
    rng = np.random.default_rng(3)
    return pa.table({f"x{i}": rng.integers(0, 9, 1_000_000) for i in range(5)})


def wide_table() -> pa.Table:
    """40 MB in memory."""
    rng = np.random.default_rng(3)
    values = [pa.array(rng.integers(0, 9, 500) / 8) for _ in range(20)]
    return pa.table(
        [values[i % 20] for i in range(10_000)], [f"sensor_{i:05d}" for i in range(10_000)]
    )


@pytest.mark.parametrize(
    ("make", "parts", "target", "megabytes"),
    [
        (long_table, 10, "out.mosaic", 250),
        pytest.param(long_table, 30, "out.mosaic", 300, marks=pytest.mark.exhaustive),
        pytest.param(long_table, 30, "out.parquet", 600, marks=pytest.mark.exhaustive),
        pytest.param(wide_table, 25, "out.mosaic", 600, marks=pytest.mark.exhaustive),
    ],
)
def test_memory_stays_bounded(tmp_path, make, parts, target, megabytes):
    source = tmp_path / "in.parquet"
    part = make()
    assert parts * part.nbytes > 1.3 * (megabytes << 20)
    with pq.ParquetWriter(source, part.schema) as writer:
        for _ in range(parts):
            writer.write_table(part)
    options = ("--row-group-bytes", "16m") if "mosaic" in target else ()
    assert peak_memory("convert", source, tmp_path / target, *options) < megabytes << 20
