"""fastmosaic schema: the columns of files, however many there are."""

import json
import random
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from terminal import command, environment, on_terminal, plain

import fastmosaic as fm
from fastmosaic.cli import main

ODD_NAME = "evil\x1b[31m\nname"


@pytest.fixture
def small(tmp_path):
    schema = pa.schema(
        [
            pa.field("zone", pa.string()),
            pa.field("id", pa.int64(), nullable=False),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("Price_max", pa.float64()),
            pa.field("price_min", pa.float64()),
        ]
    )
    rows = [{"zone": "a", "id": 1}, {"zone": "b", "id": 2}, {"id": 3}]
    path = tmp_path / "small.mosaic"
    fm.write_table(pa.Table.from_pylist(rows, schema), path)
    return str(path)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """3,001 columns: an id, and three kinds of sensors."""
    kinds = {"temp": pa.float64(), "press": pa.float64(), "state": pa.string()}
    fields = [pa.field("id", pa.int32())]
    fields += [
        pa.field(f"sensor_{kind}_{i:04d}", type)
        for kind, type in kinds.items()
        for i in range(1000)
    ]
    path = tmp_path_factory.mktemp("wide") / "wide.mosaic"
    fm.write_table(pa.Table.from_pylist([{"id": 1}, {"id": 2}], pa.schema(fields)), path)
    return str(path)


def run(capsys, *words):
    """The lines that the command prints; it must succeed."""
    assert main(["schema", *words]) == 0
    out, err = capsys.readouterr()
    assert not err
    return out.splitlines()


def document(capsys, *words):
    return json.loads("\n".join(run(capsys, *words, "--json")))


def names(lines):
    return [line.split()[-1] for line in lines]


def test_a_line_for_each_column(capsys, small):
    assert run(capsys, small) == [
        "0  string                 zone",
        "1  int64 not null         id",
        "2  timestamp[us, tz=UTC]  at",
        "3  double                 Price_max",
        "4  double                 price_min",
    ]


def test_json_says_it_all(capsys, small):
    told = document(capsys, small)
    columns = told.pop("columns")
    assert told == {"format": "mosaic", "num_files": 1, "num_rows": 3, "num_columns": 5}
    assert columns[1] == {
        "position": 1, "name": "id", "type": "int64", "nullable": False, "num_files": 1,
    }  # fmt: skip
    assert [column["name"] for column in columns] == ["zone", "id", "at", "Price_max", "price_min"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--grep", "price"], ["price_min"]),
        (["--grep", "^PRICE", "-i"], ["Price_max", "price_min"]),
        (["-g", "^.{2}$"], ["id", "at"]),
        (["-c", "price_min,zone"], ["zone", "price_min"]),
        (["-c", "*_m*", "-c", "id"], ["id", "Price_max", "price_min"]),
        (["-c", "*_m*", "--grep", "min"], ["price_min"]),
        (["--sort", "name"], ["Price_max", "at", "id", "price_min", "zone"]),
        (["--sort", "name", "--reverse"], ["zone", "price_min", "id", "at", "Price_max"]),
        (["--reverse", "--limit", "2"], ["price_min", "Price_max"]),
        (["--limit", "0"], []),
    ],
)
def test_which_columns_and_in_which_order(capsys, small, words, expected):
    assert names(run(capsys, small, *words)) == expected


def test_nothing_matches(capsys, small):
    assert main(["schema", small, "--grep", "nothing"]) == 1
    assert capsys.readouterr() == ("", "")


def test_sizes_are_those_of_the_file(capsys, tmp_path):
    """A column of random bytes takes them; a constant one next to nothing."""
    noise = random.Random(1).randbytes
    table = pa.table(
        {
            "same": ["x"] * 1000,
            "noise": [noise(100) for _ in range(1000)],
            "less": [noise(10) for _ in range(1000)],
        }
    )
    paths = [str(tmp_path / name) for name in ("a.mosaic", "b.mosaic")]
    for path in paths:
        fm.write_table(table, path, row_group_size=400)
    lines = run(capsys, paths[0], "--sort", "size")
    assert names(lines) == ["noise", "less", "same"]
    sizes = {
        column["name"]: column["size"]
        for column in document(capsys, paths[0], "--sizes")["columns"]
    }
    assert 100_000 <= sizes["noise"] < 105_000
    assert 10_000 <= sizes["less"] < 13_000
    assert sizes["same"] < 300
    both = {
        column["name"]: column["size"] for column in document(capsys, *paths, "--sizes")["columns"]
    }
    assert both == {name: 2 * size for name, size in sizes.items()}
    assert names(run(capsys, paths[0], "--sort", "size", "--reverse", "--limit", "1")) == ["same"]


def test_columns_by_type(capsys, wide):
    lines = run(capsys, wide, "--types")
    assert [line.split() for line in lines] == [
        ["columns", "type", "example"],
        ["2000", "double", "sensor_temp_0000"],
        ["1000", "string", "sensor_state_0000"],
        ["1", "int32", "id"],
    ]
    assert document(capsys, wide, "--types")["types"][2] == {
        "type": "int32", "num_columns": 1, "examples": ["id"],
    }  # fmt: skip


def test_columns_by_what_their_names_begin_with(capsys, wide):
    lines = run(capsys, wide, "--summary")
    assert [line.split()[:3] for line in lines] == [
        ["columns", "names", "types"],
        ["1000", "sensor_press_*", "double"],
        ["1000", "sensor_state_*", "string"],
        ["1000", "sensor_temp_*", "double"],
        ["1", "id", "int32"],
    ]
    groups = document(capsys, wide, "--summary", "--sizes", "--sort", "position")["groups"]
    assert [group["names"] for group in groups] == [
        "id", "sensor_temp_*", "sensor_press_*", "sensor_state_*",
    ]  # fmt: skip
    assert groups[3]["types"] == {"string": 1000}
    assert groups[3]["examples"] == [f"sensor_state_000{i}" for i in range(3)]
    assert all(group["size"] > 0 for group in groups)


def test_files_that_differ(capsys, tmp_path):
    for day, table in {
        1: pa.table({"id": pa.array([1], pa.int32()), "x": ["a"], "only": [1.5]}),
        2: pa.table({"id": pa.array([2], pa.int64()), "x": [1]}),
    }.items():
        (tmp_path / f"day={day}").mkdir()
        fm.write_table(table, tmp_path / f"day={day}" / "part.mosaic")
    assert run(capsys, str(tmp_path)) == [
        "0  int64                      id",
        "1  conflict: string or int64  x",
        "2  double (in 1 of 2 files)   only",
        "3  int32 (partition)          day",
    ]
    columns = document(capsys, str(tmp_path), "--sizes")["columns"]
    assert columns[1]["conflict"] == ["string", "int64"]
    assert columns[1]["type"] is None
    assert [column["num_files"] for column in columns] == [2, 2, 1, 2]
    assert "size" not in columns[3]
    one = run(capsys, str(tmp_path / "day=1"), "--grep", "x|only")
    assert one == ["1  string  x", "2  double  only"]


def test_other_formats(capsys, tmp_path):
    path = str(tmp_path / "table.parquet")
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), path)
    assert run(capsys, path) == ["0  int64   id", "1  string  name"]
    assert document(capsys, path)["num_rows"] == 2
    assert main(["schema", path, "--sizes"]) == 2
    assert "available for Mosaic files only, not for parquet" in capsys.readouterr().err


def test_names_cannot_take_over(capsys, tmp_path):
    path = str(tmp_path / "odd.mosaic")
    fm.write_table(pa.table({ODD_NAME: [1], "温度": [2]}), path)
    assert run(capsys, path) == [r"0  int64  evil\x1b[31m\nname", "1  int64  温度"]
    assert document(capsys, path)["columns"][0]["name"] == ODD_NAME


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--grep", "("], "invalid regular expression '(': missing ), unterminated subpattern"),
        (["--sort", "sise"], "invalid choice 'sise'; did you mean size?"),
        (["--limit", "-1"], "invalid number '-1' (expected e.g. 10)"),
        (["--types", "--summary"], "not allowed with argument --types"),
    ],
)
def test_wrong_options(capsys, small, words, message):
    with pytest.raises(SystemExit) as ended:
        main(["schema", small, *words])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert message in err


def test_a_column_that_is_not_there(capsys, small):
    assert main(["schema", small, "-c", "id,prise_min"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("fastmosaic: no column named 'prise_min'; did you mean 'price_min'")


def test_the_first_lines_in_a_pipe(wide):
    line = " ".join(command("schema", wide)) + " | head -n 2"
    done = subprocess.run(
        line, shell=True, capture_output=True, env=environment(), text=True, check=True
    )
    assert done.stdout == "   0  int32   id\n   1  double  sensor_temp_0000\n"
    assert not done.stderr


# ---- on a terminal


@pytest.mark.parametrize("columns", [80, 140])
def test_thousands_of_columns_are_summed_up(wide, columns):
    status, printed = on_terminal("schema", wide, columns=columns)
    lines = plain(printed).splitlines()
    assert status == 0
    assert max(map(len, lines)) <= columns
    assert lines[2].split()[:3] == ["1,000", "sensor_press_*", "double"]
    assert " ".join(line.strip() for line in lines[7:]) == (
        "3,001 columns in 4 groups, 2 rows; use --list to print all, -c or --grep to choose"
    )


@pytest.mark.parametrize(
    ("words", "count"), [(["--list"], 3001), (["--grep", "_00"], 300), (["-c", "*temp*"], 1000)]
)
def test_all_columns_that_were_asked_for_are_paged(wide, tmp_path, words, count):
    paged = tmp_path / "paged"
    status, _ = on_terminal("schema", wide, *words, env={"PAGER": f"tee {paged}"})
    assert status == 0
    lines = plain(paged.read_text()).splitlines()
    assert sum("sensor_" in line or line.rstrip().endswith(" id") for line in lines) == count


def test_few_columns_are_a_table(small):
    status, printed = on_terminal("schema", small)
    lines = [line.split() for line in plain(printed).splitlines()]
    assert status == 0
    assert lines[0] == ["#", "type", "name"]
    assert lines[3] == ["1", "int64", "not", "null", "id"]
    assert lines[-1] == ["5", "columns,", "3", "rows"]
