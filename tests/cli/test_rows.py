"""head, cat and count: the rows of files, in a pipe, on a terminal and as JSON."""

import csv
import datetime
import io
import json
import math
import os
import re
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet
import pytest
from terminal import on_terminal, peak_memory

import fastmosaic as fm
from fastmosaic.cli import main
from fastmosaic.convert.values import json_values, texts

COMMAND = [sys.executable, "-m", "fastmosaic"]
NOON = datetime.datetime(2024, 1, 31, 12)


def sales(num_rows=30, first=0):
    """Rows of several types; every third has nulls."""
    ids = range(first, first + num_rows)
    return pa.table(
        {
            "id": pa.array(ids, pa.int32()),
            "price": pa.array(
                [None if i % 3 == 2 else Decimal(i) / 4 for i in ids], pa.decimal128(9, 2)
            ),
            "kind": [None if i % 3 == 2 else "ab"[i % 2] for i in ids],
            "at": pa.array([NOON + datetime.timedelta(hours=i) for i in ids], pa.timestamp("ms")),
            "tags": pa.array([[i, None] if i % 3 else None for i in ids], pa.list_(pa.int32())),
        }
    )


@pytest.fixture
def path(tmp_path):
    """Three row groups of ten rows."""
    path = tmp_path / "sales.mosaic"
    fm.write_table(sales(), path, row_group_size=10, write_statistics=True)
    return str(path)


@pytest.fixture
def wide(tmp_path):
    path = tmp_path / "wide.mosaic"
    columns = {f"sensor_{i:04}": pa.array([i + 0.5, None, -i / 4]) for i in range(1000)}
    fm.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture
def run(capsys):
    """Run the command: its status, and what it prints."""

    def run(*words):
        status = main([str(word) for word in words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def output(run):
    """Run the command, which is to succeed: what it prints."""

    def output(*words):
        status, out, err = run(*words)
        assert (status, err) == (0, "")
        return out

    return output


def lines_of(out):
    return [line.split() for line in out.splitlines()]


# --- head


def test_head_in_a_pipe_is_a_table(output, path):
    expected = """\
id  price  kind  at                   tags
 0   0.00  a     2024-01-31T12:00:00  null
 1   0.25  b     2024-01-31T13:00:00  [1, null]
 2   null  null  2024-01-31T14:00:00  [2, null]
"""
    assert output("head", "-n", 3, path) == expected


def test_head_has_ten_rows_unless_told(output, path):
    assert len(output("head", path).splitlines()) == 1 + 10
    assert len(output("head", path, "-n", 13).splitlines()) == 1 + 13
    assert len(output("head", path, "-n", 1000).splitlines()) == 1 + 30
    assert lines_of(output("head", path, "-n", 0)) == [["id", "price", "kind", "at", "tags"]]


def test_head_of_columns_in_the_order_given(output, path):
    assert lines_of(output("head", "-n", 1, path, "-c", "p*,id", "-c", "kind")) == [
        ["price", "id", "kind"],
        ["0.00", "0", "a"],
    ]


def test_head_where(output, path):
    found = output("head", path, "-c", "id", "--where", "price > 6.5 and kind in ('a', 'c')")
    assert found.split() == ["id", "28"]
    assert output("head", path, "-c", "id", "-w", "id > 100").split() == ["id"]
    across = output("head", path, "-n", 3, "-c", "id", "-w", "id > 8")
    assert across.split() == ["id", "9", "10", "11"]


def test_head_as_json(output, path):
    assert json.loads(output("head", "--json", "-n", 3, path)) == [
        {"id": 0, "price": "0.00", "kind": "a", "at": "2024-01-31T12:00:00", "tags": None},
        {"id": 1, "price": "0.25", "kind": "b", "at": "2024-01-31T13:00:00", "tags": [1, None]},
        {"id": 2, "price": None, "kind": None, "at": "2024-01-31T14:00:00", "tags": [2, None]},
    ]
    assert json.loads(output("head", "--json", "-n", 0, path)) == []


def test_head_of_very_many_columns_is_down_and_complete_in_a_pipe(output, wide):
    lines = lines_of(output("head", wide, "-n", 2))
    assert lines[0] == ["column", "type", "row", "1", "row", "2"]
    assert lines[1] == ["sensor_0000", "double", "0.5", "null"]
    assert lines[-1] == ["sensor_0999", "double", "999.5", "null"]
    assert len(lines) == 1 + 1000
    assert len(lines_of(output("head", wide, "-c", "sensor_00*"))[0]) == 100
    assert all(len(row) == 1000 for row in json.loads(output("head", wide, "--json")))


def test_long_values_are_cut_by_head_alone(output, tmp_path):
    long = "x" * 1000
    fm.write_table(pa.table({"s": [long], "l": [[long]]}), tmp_path / "f")
    out = output("head", tmp_path / "f")
    assert "x" * 59 + "…" in out
    assert max(map(len, out.splitlines())) <= 2 * 60 + 2
    assert json.loads(output("head", "--json", tmp_path / "f")) == [{"s": long, "l": [long]}]
    assert long in output("cat", tmp_path / "f")


def test_control_characters_do_not_reach_a_terminal(output, tmp_path):
    table = pa.table({"\x1b[2J": ["a\x1b[31m\r\nb", "\x07"]})
    fm.write_table(table, tmp_path / "f")
    out = output("head", tmp_path / "f")
    assert [line.rstrip() for line in out.splitlines()] == [
        "\\x1b[2J",
        "a\\x1b[31m\\r\\nb",
        "\\x07",
    ]


def damage(path, start, end):
    """Overwrite some of the bytes of a file."""
    data = bytearray(path.read_bytes())
    data[start:end] = b"\xaa" * (end - start)
    path.write_bytes(data)


@pytest.fixture
def damaged(tmp_path):
    """A file of which only the first of ten row groups can be read."""
    path = tmp_path / "damaged.mosaic"
    table = pa.table({"i": range(100), "s": [f"text {i * 7919}" for i in range(100)]})
    fm.write_table(table, path, row_group_size=10, write_statistics=["i"], num_buckets=1)
    metadata = fm.read_metadata(path)
    buckets = [metadata.row_group(group).buckets[0] for group in range(metadata.num_row_groups)]
    damage(path, buckets[1].offset, buckets[-1].offset + buckets[-1].compressed_size)
    return path


def test_head_reads_no_more_than_it_needs(run, damaged):
    status, out, _ = run("head", damaged)
    assert status == 0
    assert out.split()[-3:] == ["9", "text", str(9 * 7919)]
    assert run("head", "-n", 2, damaged, "--where", "i >= 8 and i < 10")[0] == 0
    status, out, err = run("head", "-n", 11, damaged)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "row group 1" in err


# --- cat


def test_cat_is_csv(output, path):
    assert output("cat", path, "--limit", 3) == (
        "id,price,kind,at,tags\n"
        "0,0.00,a,2024-01-31T12:00:00,\n"
        '1,0.25,b,2024-01-31T13:00:00,"[1, null]"\n'
        '2,,,2024-01-31T14:00:00,"[2, null]"\n'
    )


def test_cat_has_all_rows_that_match(output, path):
    assert output("cat", path, "-c", "id").split() == ["id", *map(str, range(30))]
    assert output("cat", path, "-c", "id", "--no-header").split() == list(map(str, range(30)))
    assert output("cat", path, "-c", "id", "--limit", 0) == "id\n"
    assert len(output("cat", path, "-c", "id", "--limit", 25).split()) == 26
    assert output("cat", path, "-c", "id,at", "-w", "at > '2024-02-01 16:30'") == (
        "id,at\n29,2024-02-01T17:00:00\n"
    )
    limited = output("cat", path, "--no-header", "-c", "id", "-w", "id > 8", "--limit", "3")
    assert limited.split() == ["9", "10", "11"]


def test_cat_as_json_is_a_line_a_row(output, path):
    lines = output("cat", path, "--json", "--where", "id >= 28").splitlines()
    assert list(map(json.loads, lines)) == [
        {"id": 28, "price": "7.00", "kind": "a", "at": "2024-02-01T16:00:00", "tags": [28, None]},
        {"id": 29, "price": None, "kind": None, "at": "2024-02-01T17:00:00", "tags": [29, None]},
    ]
    assert output("cat", path, "--json", "--limit", 0) == ""


def test_csv_is_read_back_by_others(output, tmp_path):
    awkward = ["", " a", "a,b", 'say "hi"', "two\nlines", "cr\rhere", "ü", None, "null", "1"]
    table = pa.table({"a,b": awkward, 'c"d': range(len(awkward))})
    fm.write_table(table, tmp_path / "f")
    text = output("cat", tmp_path / "f")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["a,b", 'c"d']
    assert [row[0] for row in rows] == [value or "" for value in awkward]
    options = pyarrow.csv.ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
    )
    read = pyarrow.csv.read_csv(
        io.BytesIO(text.encode()),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=options,
    )
    assert read["a,b"].to_pylist() == awkward


def test_a_wide_table_is_printed_whole(output, wide):
    header, *rows = csv.reader(io.StringIO(output("cat", wide)))
    assert header == [f"sensor_{i:04}" for i in range(1000)]
    assert rows[0] == [str(i + 0.5) for i in range(1000)]
    assert rows[1] == [""] * 1000


def test_cat_takes_little_memory(tmp_path):
    # As Python objects all at once, the values would take 300 MB.
    columns = {f"c{i}": pa.array(range(i, 40_000 + i)) for i in range(100)}
    fm.write_table(pa.table(columns), tmp_path / "f")
    assert peak_memory("cat", tmp_path / "f") - peak_memory("count", tmp_path / "f") < 200 << 20


def test_a_closed_pipe_ends_it_quietly(tmp_path):
    fm.write_table(pa.table({"i": range(200_000)}), tmp_path / "f", row_group_size=1000)
    with subprocess.Popen(
        [*COMMAND, "cat", tmp_path / "f"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"i\n"
        process.stdout.close()
        assert process.wait() == 128 + 13
        assert process.stderr.read() == b""


def test_rows_are_utf8_whatever_the_locale(tmp_path):
    fm.write_table(pa.table({"ü": ["日本"]}), tmp_path / "f")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for words, expected in ((["cat"], "ü\n日本\n"), (["cat", "--json"], '{"ü": "日本"}\n')):
        done = subprocess.run(
            [*COMMAND, *words, tmp_path / "f"], capture_output=True, env=environment, check=True
        )
        assert done.stdout.decode() == expected


# --- count


def test_count(output, path):
    assert output("count", path) == "30\n"
    assert output("count", path, "-w", "kind is null or id = 0") == "11\n"
    assert output("count", path, "-w", "id > 100") == "0\n"
    assert json.loads(output("count", path, "--json")) == {"rows": 30}
    assert json.loads(output("count", path, "--json", "--where", "kind = 'a'")) == {"rows": 10}


def test_count_needs_but_the_metadata(run, damaged):
    assert run("count", damaged) == (0, "100\n", "")
    assert run("count", damaged, "--where", "i < 5")[:2] == (0, "5\n")
    status, out, err = run("count", damaged, "--where", "s is not null")
    assert (status, out, err.count("\n")) == (2, "", 1)


# --- many files, and other formats


@pytest.fixture
def directory(tmp_path):
    root = tmp_path / "data"
    for year in (2023, 2024):
        (root / f"year={year}").mkdir(parents=True)
        fm.write_table(sales(10, first=year * 10), root / f"year={year}" / "f.mosaic")
    return root


def test_a_directory_is_one_table(output, directory):
    assert output("count", directory) == "20\n"
    assert output("count", directory, "-w", "year = 2024 and price is not null") == "6\n"
    assert output("cat", directory, "-c", "year,id", "-w", "id > 20248").splitlines() == [
        "year,id",
        "2024,20249",
    ]
    assert lines_of(output("head", directory, "-n", 1, "-c", "id,year"))[1] == ["20230", "2023"]
    assert len(output("head", directory, "-n", 15).splitlines()) == 16


def test_globs_and_several_paths(output, directory):
    assert output("count", directory / "*" / "f.mosaic") == "20\n"
    files = sorted(directory.rglob("*.mosaic"))
    assert output("count", *files) == "20\n"
    assert len(output("cat", *files, "-c", "id", "--no-header").split()) == 20


def write_csv(table, path):
    pyarrow.csv.write_csv(table, path)


def write_arrow(table, path):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        ("parquet", pyarrow.parquet.write_table),
        ("orc", pyarrow.orc.write_table),
        ("arrow", write_arrow),
        ("csv", write_csv),
    ],
)
def test_other_formats(output, tmp_path, suffix, write):
    file = tmp_path / f"sales.{suffix}"
    write(sales().select(["id", "kind"]), file)
    assert output("count", file) == "30\n"
    assert output("count", file, "-w", "id >= 20 and kind = 'b'") == "3\n"
    assert lines_of(output("head", file, "-n", 2)) == [["id", "kind"], ["0", "a"], ["1", "b"]]
    assert output("head", file, "-c", "kind", "-w", "id = 28").split() == ["kind", "a"]
    assert (
        output("cat", file, "--limit", 2, "-w", "id > 27 and kind is not null") == "id,kind\n28,a\n"
    )


# --- nothing, and mistakes


def test_files_without_rows(output, tmp_path):
    fm.write_table(sales(0), tmp_path / "f")
    assert lines_of(output("head", tmp_path / "f")) == [["id", "price", "kind", "at", "tags"]]
    assert output("cat", tmp_path / "f") == "id,price,kind,at,tags\n"
    assert output("cat", tmp_path / "f", "--json") == ""
    assert json.loads(output("head", tmp_path / "f", "--json")) == []
    assert output("count", tmp_path / "f", "-w", "id > 1") == "0\n"


def test_files_without_columns(output, run, tmp_path):
    fm.write_table(pa.table({"a": [1, 2, 3]}).select([]), tmp_path / "f")
    num_rows = fm.read_metadata(tmp_path / "f").num_rows
    assert output("count", tmp_path / "f") == f"{num_rows}\n"
    assert output("head", tmp_path / "f") == f"{num_rows} rows without columns\n"
    assert json.loads(output("head", tmp_path / "f", "--json")) == [{}] * num_rows
    assert output("cat", tmp_path / "f") == ""
    status, _, err = run("head", tmp_path / "f", "-c", "a")
    assert (status, err) == (2, "fastmosaic: no column named 'a'\n")


@pytest.mark.parametrize("command", ["head", "cat", "count"])
@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("prise > 5", "no column named 'prise'; did you mean 'price'?"),
        ("price > ", "condition, character 9: expected a column or a value, not the end"),
        ("kind = 5", "condition, character 8: cannot compare column 'kind' of type string with 5"),
        ("tags = 1", "condition, character 8: cannot compare column 'tags' of type list<"),
        ("at > 'noon'", "condition, character 6: invalid date or timestamp 'noon'"),
        ('kind = "a"', "no column named 'a'; did you mean 'at'? if you mean the text 'a', write it in single quotes"),
    ],
)  # fmt: skip
def test_malformed_conditions(run, path, command, condition, message):
    status, out, err = run(command, path, "--where", condition)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"fastmosaic: {message}")


@pytest.mark.parametrize("command", ["head", "cat"])
def test_unknown_columns(run, path, command):
    status, out, err = run(command, path, "-c", "id,prise")
    assert (status, out) == (2, "")
    assert err == "fastmosaic: no column named 'prise'; did you mean 'price'?\n"
    status, out, err = run(command, path, "-c", "x*")
    assert (status, out) == (2, "")
    assert err.startswith("fastmosaic: no column matches 'x*'")


@pytest.mark.parametrize("command", ["head", "cat", "count"])
def test_files_that_are_not_there(run, tmp_path, command):
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("no table at all")
    for name in ("nope.mosaic", "empty", "text", "*.mosaic"):
        status, out, err = run(command, tmp_path / name)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert name.removesuffix(".mosaic") in err


@pytest.mark.parametrize(
    "words", [["head", "-n", "-1"], ["head", "-n", "x"], ["cat", "--limit", "1.5"]]
)
def test_numbers_of_rows(words, path, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*words, path])
    assert caught.value.code == 2
    assert "invalid number" in capsys.readouterr().err


# --- on a terminal


def shown(*words, columns=100, lines=24):
    """What the command prints on a terminal of that size, without its colours."""
    status, printed = on_terminal(*words, columns=columns, lines=lines, env={"PAGER": "cat"})
    assert status == 0
    return re.sub(r"\x1b\[[\d;]*m", "", printed)


def test_head_on_a_terminal(path):
    lines = shown("head", "-n", 2, path).splitlines()
    assert lines[0].split() == ["id", "price", "kind", "at", "tags"]
    assert set(lines[1].strip()) == {"─"}
    assert lines[2].split() == ["0", "0.00", "a", "2024-01-31T12:00:00", "null"]
    assert lines[-1] == "2 of 30 rows"


def test_columns_are_down_if_they_do_not_fit(path):
    lines = shown("head", path, columns=44).splitlines()
    assert [line.split() for line in lines[:2]] == [["row"], ["column", "type", "1"]]
    assert lines[3].split() == ["id", "int32", "0"]
    assert " ".join(map(str.strip, lines[-3:])) == (
        "1 of 30 rows, 5 columns; use -c to choose columns, cat or --json to print complete rows"
    )
    assert max(map(len, lines)) <= 44


def test_very_many_rows_do_not_fit_either(tmp_path):
    fm.write_table(sales(20_000), tmp_path / "f")
    lines = shown("head", tmp_path / "f", "-n", 20_000, columns=50).splitlines()
    assert lines[2].split() == ["id", "int32", "0"]
    assert lines[-2].startswith("1 of 20,000 rows, 5 columns")


def test_of_a_wide_table_as_many_columns_as_fit(wide):
    out = shown("head", wide, lines=30)
    lines = out.splitlines()
    assert len(lines) < 30
    assert lines[2].split() == ["sensor_0000", "double", "0.5", "null", "0.0"]
    assert lines[-1].startswith("3 rows, 23 of 1,000 columns; use -c to choose columns")
    assert max(map(len, lines)) <= 100
    assert "sensor_0023" not in out


def test_the_columns_that_are_chosen_are_all_shown(wide):
    out = shown("head", wide, "-c", "sensor_000*", "-n", "1", columns=60)
    names = re.findall(r"sensor_\d{4}", out)
    assert names == [f"sensor_000{i}" for i in range(10)]


def test_on_a_terminal_control_characters_are_not_control(tmp_path):
    fm.write_table(pa.table({"s": ["a\x1b[5mb", "two\nlines"]}), tmp_path / "f")
    for word in ("head", "cat"):
        out = shown(word, tmp_path / "f")
        assert "a\\x1b[5mb" in out
        assert "two\\nlines" in out
        assert "\x1b[5m" not in out


def test_count_on_a_terminal(path, tmp_path):
    fm.write_table(pa.table({"i": range(1234)}), tmp_path / "f")
    assert shown("count", tmp_path / "f") == "1,234\n"


# --- values


MAP = pa.map_(pa.string(), pa.int32())


@pytest.mark.parametrize(
    ("array", "expected", "written"),
    [
        (pa.array([1, None, -2]), [1, None, -2], ["1", None, "-2"]),
        (pa.array([True, False, None]), [True, False, None], ["true", "false", None]),
        (pa.array([0.1, 1.0, 1e20, None]), [0.1, 1.0, 1e20, None], ["0.1", "1.0", "1e+20", None]),
        (
            pa.array([math.nan, math.inf, -math.inf]),
            ["NaN", "Infinity", "-Infinity"],
            ["NaN", "Infinity", "-Infinity"],
        ),
        (pa.array([0.1, 16777216, None], pa.float32()), [0.1, 16777216.0, None], ["0.1", "16777216.0", None]),
        (pa.array([math.nan], pa.float32()), ["NaN"], ["NaN"]),
        (pa.array(["", "a", None]), ["", "a", None], ["", "a", None]),
        (pa.array([b"\0\xff", None]), ["00ff", None], ["00ff", None]),
        (
            pa.array([Decimal("1E-10"), None], pa.decimal128(38, 10)),
            ["0.0000000001", None],
            ["0.0000000001", None],
        ),
        (pa.array([19753, None], pa.date32()), ["2024-01-31", None], ["2024-01-31", None]),
        (pa.array([43_200_500, 0], pa.time32("ms")), ["12:00:00.500", "00:00:00"], ["12:00:00.500", "00:00:00"]),
        (pa.array([1, None], pa.timestamp("ns")), ["1970-01-01T00:00:00.000000001", None], ["1970-01-01T00:00:00.000000001", None]),
        (pa.array([NOON], pa.timestamp("us", "Asia/Tokyo")), ["2024-01-31T12:00:00Z"], ["2024-01-31T12:00:00Z"]),
        (pa.array([2**62], pa.timestamp("us")), ["<value out of range: 4611686018427387904>"], ["<value out of range: 4611686018427387904>"]),
        (pa.array([1, None], pa.duration("ns")), [1, None], ["1", None]),
        (pa.array([[1, None], None, []]), [[1, None], None, []], ["[1, null]", None, "[]"]),
        (pa.array([[0], [1, 2], [3]]).slice(1, 1), [[1, 2]], ["[1, 2]"]),
        (pa.array([[[math.nan]], [None]]), [[["NaN"]], [None]], ['[["NaN"]]', "[null]"]),
        (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), [[1, 2], None], ["[1, 2]", None]),
        (pa.array([[("a", 1), ("b", None)], None, []], MAP), [{"a": 1, "b": None}, None, {}], ['{"a": 1, "b": null}', None, "{}"]),
        (pa.array([[("z", 0)], [("a", 1)]], MAP).slice(1), [{"a": 1}], ['{"a": 1}']),
        (pa.array([[("a", 1), ("a", 2)]], MAP), [[["a", 1], ["a", 2]]], ['[["a", 1], ["a", 2]]']),
        (
            pa.array([[(1, [NOON.date()])]], pa.map_(pa.int8(), pa.list_(pa.date32()))),
            [{"1": ["2024-01-31"]}],
            ['{"1": ["2024-01-31"]}'],
        ),
        (pa.array([{"a": 1, "b": "ü"}, None]), [{"a": 1, "b": "ü"}, None], ['{"a": 1, "b": "ü"}', None]),
        (pa.array(["a", None]).dictionary_encode(), ["a", None], ["a", None]),
        (pa.nulls(2), [None, None], [None, None]),
    ],
)  # fmt: skip
def test_values(array, expected, written):
    assert json_values(array) == expected
    assert texts(array) == written
    assert json.loads(json.dumps(json_values(array), allow_nan=False)) == expected


def test_the_memory_limit_is_an_option(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("FASTMOSAIC_MEMORY_LIMIT", raising=False)
    path = str(tmp_path / "a.mosaic")
    fm.write_table(pa.table({"s": ["x" * 2000] * 1000}), path)
    assert main(["count", path, "--where", "s = ''", "--memory-limit", "1m"]) == 0
    assert main(["head", "-n", "900", path, "--memory-limit", "1m"]) == 2
    error = capsys.readouterr().err
    assert "the result would take at least" in error
    assert "--memory-limit" in error
    assert "FASTMOSAIC_MEMORY_LIMIT" not in os.environ
    with pytest.raises(SystemExit):
        main(["head", path, "--memory-limit", "much"])
