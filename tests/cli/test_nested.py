"""Commands on files with structs, and with types that the format stores as others."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from terminal import on_terminal, plain

import fastmosaic as fm
from fastmosaic.cli import main

PLACE = pa.struct([("city", pa.string()), pa.field("zip", pa.string(), nullable=False)])
INFO = pa.struct([("name", pa.string()), ("age", pa.uint8()), ("at", PLACE)])
ITEMS = pa.list_(pa.struct([("x", pa.int32()), ("y", pa.string())]))
TABLE = pa.table(
    {
        "id": [1, 2, 3, 4],
        "info": pa.array(
            [
                {"name": "Ann", "age": 31, "at": {"city": "Oslo", "zip": "0150"}},
                {"name": "Bob", "age": None, "at": None},
                None,
                {"name": None, "age": 5, "at": {"city": None, "zip": "1"}},
            ],
            INFO,
        ),
        "items": pa.array([[{"x": 1, "y": "a"}, None], [], None, [{"x": None, "y": "b"}]], ITEMS),
        "m": pa.array(
            [[("k", {"v": 1})], [], None, [("a", None)]],
            pa.map_(pa.string(), pa.struct([("v", pa.int64())])),
        ),
        "took": pa.array([0, 93_784_500, None, -90_061_500], pa.duration("ms")),
        "big": pa.array([0, 2**63, None, 2**64 - 1], pa.uint64()),
        "half": pa.array([0.1, 1.5, None, 65504.0], pa.float16()),
        "kind": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "vec": pa.array([[1, 2], [3, 4], None, [5, 6]], pa.list_(pa.int8(), 2)),
        "gap": pa.array([(1, 2, 3), (0, 0, 0), None, (-1, 5, 10**9)], pa.month_day_nano_interval()),
        "at": pa.array([0, 1, None, 86_399_999_999_999], pa.time64("ns")),
    }
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("nested") / "t.mosaic"
    fm.write_table(TABLE, path, row_group_size=3, write_statistics=True)
    return str(path)


@pytest.fixture
def run(capsys):
    def run(*words, status=0):
        assert main([str(word) for word in words]) == status
        out, err = capsys.readouterr()
        if status == 2:
            assert out == ""
            assert err.startswith("fastmosaic: ")
            assert err.count("\n") == 1
            return err.removeprefix("fastmosaic: ").rstrip("\n")
        assert err == ""
        return json.loads(out) if "--json" in words else out.splitlines()

    return run


# ---- schema


def test_a_pipe_gets_a_line_for_each_field(run, path):
    assert run("schema", path) == [
        " 0  int64                                                id",
        " 1  struct                                               info",
        " 1  string                                               info.name",
        " 1  uint8                                                info.age",
        " 1  struct                                               info.at",
        " 1  string                                               info.at.city",
        " 1  string not null                                      info.at.zip",
        " 2  list<struct>                                         items",
        " 2  int32                                                items.x",
        " 2  string                                               items.y",
        " 3  map<string, struct>                                  m",
        " 3  string not null                                      m.key",
        " 3  struct                                               m.value",
        " 3  int64                                                m.value.v",
        " 4  duration[ms]                                         took",
        " 5  uint64                                               big",
        " 6  halffloat                                            half",
        " 7  dictionary<values=string, indices=int32, ordered=0>  kind",
        " 8  fixed_size_list<item: int8>[2]                       vec",
        " 9  month_day_nano_interval                              gap",
        "10  time64[ns]                                           at",
    ]


def test_a_terminal_shows_a_tree(path):
    status, printed = on_terminal("schema", path, "-c", "id,info,m")
    assert status == 0
    assert [line.rstrip() for line in plain(printed).splitlines()][2:] == [
        "0  int64                id",
        "1  struct               info",
        "   string               ├─ name",
        "   uint8                ├─ age",
        "   struct               └─ at",
        "   string                  ├─ city",
        "   string not null         └─ zip",
        "3  map<string, struct>  m",
        "   string not null      ├─ key",
        "   struct               └─ value",
        "   int64                   └─ v",
        "",
        "3 of 11 columns with 6 fields, 4 rows",
    ]


def test_a_terminal_without_lines(path):
    _, printed = on_terminal("schema", path, "-c", "info.at", env={"PYTHONIOENCODING": "ascii"})
    lines = [line.rstrip().rpartition("  ")[2] for line in plain(printed).splitlines()]
    assert lines[2:6] == ["|info", "|`- at", "|- city", "`- zip"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-c", "info.at"], ["info.at", "info.at.city", "info.at.zip"]),
        (["-c", "info.*"], ["info.name", "info.age", "info.at.city", "info.at.zip"]),
        (["-c", "items.y,id"], ["id", "items.y"]),
        (["--grep", "zip|^took$"], ["info.at.zip", "took"]),
        (["--grep", "^items$"], ["items", "items.x", "items.y"]),
        (["--grep", "^M", "-i"], ["m", "m.key", "m.value", "m.value.v"]),
        (["-c", "info", "--sort", "name"], ["info", "info.age", "info.at", "info.at.city", "info.at.zip", "info.name"]),
        (["--reverse", "--limit", "2"], ["at", "gap"]),
    ],
)  # fmt: skip
def test_fields_that_are_chosen(run, path, words, expected):
    assert [line.split()[-1] for line in run("schema", path, *words)] == expected


def test_a_terminal_shows_what_the_fields_belong_to(path):
    _, printed = on_terminal("schema", path, "--grep", "city")
    assert [line.split() for line in plain(printed).splitlines()][2:5] == [
        ["1", "struct", "info"],
        ["struct", "└─", "at"],
        ["string", "└─", "city"],
    ]


def test_json_is_nested(run, path):
    document = run("schema", path, "-c", "info", "--sizes", "--json")
    assert document["num_columns"] == 11
    (info,) = document["columns"]
    assert (info["position"], info["name"], info["type"]) == (1, "info", "struct")
    name, age, at = info["fields"]
    assert "path" not in info
    assert "fields" not in name
    assert (age["name"], age["path"], age["type"]) == ("age", "info.age", "uint8")
    assert [one["path"] for one in at["fields"]] == ["info.at.city", "info.at.zip"]
    assert [one["nullable"] for one in at["fields"]] == [True, False]


def test_sizes_add_up(run, path):
    stored = {one["column"]: one["bytes"] for one in run("column-size", path, "--json")["columns"]}
    columns = {one["name"]: one for one in run("schema", path, "--sizes", "--json")["columns"]}
    assert sum(one["size"] for one in columns.values()) == sum(stored.values())
    info = columns["info"]
    assert info["size"] == sum(size for name, size in stored.items() if name.startswith("info."))
    assert [one["size"] for one in info["fields"][:2]] == [stored["info.name"], stored["info.age"]]
    at = info["fields"][2]
    assert at["size"] == sum(size for name, size in stored.items() if name.startswith("info.at."))
    (chosen,) = run("schema", path, "-c", "info.age", "--sizes", "--json")["columns"]
    assert chosen["size"] == stored["info.age"] + stored["info.__null__"]
    lines = run("schema", path, "-c", "info", "--sort", "size")
    assert lines[1].split()[-1] == "info.at"


def test_a_map_with_lists_as_keys_has_a_size(run, tmp_path):
    keys = pa.map_(pa.list_(pa.int8()), pa.int8())
    table = pa.table(
        {"m": pa.array([[([1], 2)]], keys), "e": pa.array([{}, None][:1], pa.struct([]))}
    )
    fm.write_table(table, tmp_path / "f")
    columns = run("schema", tmp_path / "f", "--sizes", "--json")["columns"]
    assert [one["type"] for one in columns] == ["map<list<item: int8>, int8>", "struct<>"]
    assert (
        sum(one["size"] for one in columns)
        == run("meta", tmp_path / "f", "--json")["files"][0]["data_bytes"]
    )


def test_types_and_summaries_count_fields(run, path):
    types = {one["type"]: one for one in run("schema", path, "--types", "--json")["types"]}
    assert types["string"]["num_columns"] == 3
    assert types["string"]["examples"] == ["info.name", "info.at.city", "items.y"]
    assert "struct" not in types
    names = [one["names"] for one in run("schema", path, "--summary", "--json")["groups"]]
    assert "info.at.*" in names


def test_many_fields_are_summarized(tmp_path):
    fields = [(f"{kind}_{i:03d}", pa.int8()) for kind in ("temp", "load") for i in range(200)]
    table = pa.table({"s": pa.array([None], pa.struct(fields))})
    fm.write_table(table, tmp_path / "f")
    _, printed = on_terminal("schema", tmp_path / "f")
    lines = plain(printed).splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["200", "s.load_*"], ["200", "s.temp_*"]]
    assert "1 column with 400 fields in 2 groups, 1 row;" in lines[5]


@pytest.mark.parametrize("columns", [40, 80])
def test_deep_fields_fit_the_terminal(tmp_path, columns):
    type, value = pa.int8(), 1
    for level in reversed(range(40)):
        type, value = pa.struct([(f"level_{level}", type)]), {f"level_{level}": value}
    fm.write_table(pa.table({"deep": pa.array([value], type)}), tmp_path / "f")
    status, printed = on_terminal("schema", tmp_path / "f", "--list", columns=columns, lines=60)
    lines = [line.rstrip() for line in plain(printed).splitlines()]
    assert status == 0
    assert max(map(len, lines)) <= columns
    assert lines[-3].split()[0] == "int8"
    assert lines[-3].endswith("level_39")


def test_names_of_fields_cannot_take_over(run, tmp_path):
    table = pa.table({"s": pa.array([{"a\x1b[31m\nb": 1}])})
    fm.write_table(table, tmp_path / "f")
    assert run("schema", tmp_path / "f") == ["0  struct  s", r"0  int64   s.a\x1b[31m\nb"]
    _, printed = on_terminal("schema", tmp_path / "f")
    assert r"└─ a\x1b[31m\nb" in plain(printed)


def test_files_with_different_structs(run, tmp_path):
    for number, value in enumerate(({"x": 1, "y": "a"}, {"x": 2, "z": {"w": 1.5}}, {"x": 3})):
        fm.write_table(pa.table({"s": [value]}), tmp_path / f"{number}.mosaic")
    fm.write_table(pa.table({"t": [1]}), tmp_path / "9.mosaic")
    assert run("schema", tmp_path) == [
        "0  struct (in 3 of 4 files)  s",
        "0  int64                     s.x",
        "0  string (in 1 of 4 files)  s.y",
        "0  struct (in 1 of 4 files)  s.z",
        "0  double                    s.z.w",
        "1  int64 (in 1 of 4 files)   t",
    ]
    (s, _) = run("schema", tmp_path, "--json")["columns"]
    assert [one["num_files"] for one in s["fields"]] == [3, 1, 1]
    fm.write_table(pa.table({"s": [{"x": "text", "y": "b"}]}), tmp_path / "9.mosaic")
    assert run("schema", tmp_path, "-c", "s") == [
        "0  struct                     s",
        "0  conflict: int64 or string  s.x",
        "0  string (in 2 of 4 files)   s.y",
        "0  struct (in 1 of 4 files)   s.z",
        "0  double                     s.z.w",
    ]
    fm.write_table(pa.table({"s": [[1]]}), tmp_path / "9.mosaic")
    assert run("schema", tmp_path) == ["0  conflict: struct or list<item: int64>  s"]


def test_stored_columns(run, path):
    assert run("schema", path, "--stored", "-c", "info*,took,big") == [
        " 1  bool not null      info.__null__",
        " 2  string             info.name",
        " 3  int16              info.age",
        " 4  bool not null      info.at.__null__",
        " 5  string             info.at.city",
        " 6  string             info.at.zip",
        "13  int64              took",
        "14  decimal128(20, 0)  big",
    ]
    rows = run("head", path, "--stored", "-c", "info.__null__,took")
    assert [line.split() for line in rows[1:]] == [
        ["false", "0"], ["false", "93784500"], ["true", "null"], ["false", "-90061500"],
    ]  # fmt: skip
    assert run("cat", path, "--stored", "-c", "big", "--limit", "2") == [
        "big",
        "0",
        "9223372036854775808",
    ]


def test_only_mosaic_files_store_columns(run, tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    message = run("head", tmp_path / "t.parquet", "--stored", status=2)
    assert "--stored requires Mosaic files, and the format is parquet" in message


def test_other_formats_are_trees_too(run, tmp_path):
    pq.write_table(TABLE.select(["info", "items"]), tmp_path / "t.parquet")
    (tmp_path / "t.jsonl").write_text('{"a": {"b": 1, "c": [{"d": "2024-01-31"}]}}\n')
    assert [line.split()[-1] for line in run("schema", tmp_path / "t.parquet", "-c", "info.at,items")] == [
        "info.at", "info.at.city", "info.at.zip", "items", "items.x", "items.y",
    ]  # fmt: skip
    assert run("schema", tmp_path / "t.jsonl") == [
        "0  struct        a",
        "0  int64         a.b",
        "0  list<struct>  a.c",
        "0  date32[day]   a.c.d",
    ]


# ---- rows


def test_head(run, path):
    lines = run("head", path, "-c", "id,info,items,m,took")
    assert [" ".join(line.split()) for line in lines[1:]] == [
        '1 {name: "Ann", age: 31, at: {city: "Oslo", zip: "0150"}} [{x: 1, y: "a"}, null] {k: {v: 1}} 00:00:00',
        '2 {name: "Bob", age: null, at: null} [] {} 1 day 02:03:04.5',
        "3 null null null null",
        '4 {name: null, age: 5, at: {city: null, zip: "1"}} [{x: null, y: "b"}] {a: null} -1 day -01:01:01.5',
    ]
    lines = run("head", path, "-c", "big,half,kind,vec,gap,at")
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "0 0.1 a [1, 2] 1 month 2 days 00:00:00.000000003 00:00:00",
        "9223372036854775808 1.5 b [3, 4] 00:00:00 00:00:00.000000001",
        "null null null null null null",
        "18446744073709551615 65504.0 a [5, 6] -1 month 5 days 00:00:01 23:59:59.999999999",
    ]


def test_fields_of_one_column_are_a_column(run, path):
    lines = run("head", path, "-n", "1", "-c", "info.at.zip,items.x,info.name")
    assert [" ".join(line.split()) for line in lines] == [
        "info items", '{name: "Ann", at: {zip: "0150"}} [{x: 1}, null]',
    ]  # fmt: skip
    rows = run("cat", path, "-c", "info.at.zip,info.name", "--limit", "2")
    assert list(csv.reader(rows)) == [
        ["info"],
        ['{"name": "Ann", "at": {"zip": "0150"}}'],
        ['{"name": "Bob", "at": null}'],
    ]
    assert run("head", path, "-n", "1", "-c", "id,info.*", "--json") == [
        {"id": 1, "info": {"name": "Ann", "age": 31, "at": {"city": "Oslo", "zip": "0150"}}}
    ]


def test_json_has_all_values(run, path, capsys):
    first, *_, last = run("head", path, "--json")
    assert first["items"] == [{"x": 1, "y": "a"}, None]
    assert first["m"] == {"k": {"v": 1}}
    assert last["took"] == -90_061_500
    assert last["big"] == 2**64 - 1
    assert first["half"] == 0.1
    assert last["gap"] == {"months": -1, "days": 5, "nanoseconds": 10**9}
    assert main(["cat", "--json", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == run("head", path, "--json")


def test_csv_of_all_types_can_be_parsed(run, path):
    header, *rows = csv.reader(io.StringIO("\n".join(run("cat", path))))
    assert header == TABLE.column_names
    assert {len(row) for row in rows} == {len(header)}
    assert json.loads(rows[0][1])["at"] == {"city": "Oslo", "zip": "0150"}
    assert rows[0][header.index("gap")] == "1 month 2 days 00:00:00.000000003"
    assert rows[2][1:] == [""] * 10


def test_the_type_of_a_struct_is_short_on_a_terminal(path):
    _, printed = on_terminal("head", path)
    lines = [line.split()[:2] for line in plain(printed).splitlines()]
    assert ["info", "struct"] in lines
    assert ["items", "list<struct>"] in lines


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("info.name = 'Ann'", [1]),
        ('"info"."at".zip is null', [2, 3]),
        ('"info.age" > 4.5', [1, 4]),
        ("info is null", [3]),
        ("took > interval '1 day'", [2]),
        ("took <= '-1 day -01:01:01.5'", [4]),
        ("big >= 9223372036854775808", [2, 4]),
        ("half = 1.5 or half > 65000", [2, 4]),
        ("kind in ('a', 'c') and at < '12:00'", [1]),
        ("at > time '00:00:00'", [2, 4]),
        ("gap is null", [3]),
    ],
)
def test_conditions(run, path, tmp_path, condition, ids):
    pq.write_table(TABLE.drop_columns(["gap"]), tmp_path / "t.parquet")
    for source in (path, tmp_path / "t.parquet"):
        if "gap" in condition and source != path:
            continue
        rows = run("cat", source, "-c", "id", "--where", condition)
        assert list(map(int, rows[1:])) == ids
        assert run("count", source, "--where", condition) == [str(len(ids))]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("info.nam = 'x'", "no column named 'info.nam'; did you mean 'info.name'"),
        ("info = 1", "cannot compare column 'info' of type struct<"),
        ("info = 1", "with 1; compare one of its fields, e.g. info.name"),
        ("items.x = 1", "'items.x' is inside a list or map"),
        ("m.value.v = 1", "'m.value.v' is inside a list or map"),
        ("took > 5", "write a duration, e.g. interval '90 minutes'"),
        ("gap = interval '1 day'", "cannot compare column 'gap' of type month_day_nano_interval"),
    ],
)
def test_conditions_that_are_wrong(run, path, condition, message):
    assert message in run("count", path, "--where", condition, status=2)


# ---- stats


def test_stats_by_leaf(run, path):
    document = run("stats", path, "--json")
    columns = {one["column"]: one for one in document["columns"]}
    assert list(columns) == [
        *("id", "info.name", "info.age", "info.at.city", "info.at.zip", "items.x", "items.y"),
        *("m.key", "m.value.v", "took", "big", "half", "kind", "vec", "gap", "at"),
    ]
    assert {name: one["nulls"] for name, one in columns.items() if name.startswith("info")} == {
        "info.name": 2, "info.age": 2, "info.at.city": 3, "info.at.zip": 2,
    }  # fmt: skip
    found = {name: (one["type"], one["min"], one["max"]) for name, one in columns.items()}
    assert found["info.age"] == ("uint8", 5, 31)
    assert found["took"] == ("duration[ms]", -90_061_500, 93_784_500)
    assert found["big"] == ("uint64", 0, 2**64 - 1)
    assert found["at"] == ("time64[ns]", "00:00:00.000000000", "23:59:59.999999999")
    assert found["items.x"] == ("list<item: int32>", None, None)
    assert found["m.value.v"] == ("list<item: int64>", None, None)
    assert found["gap"] == ("month_day_nano_interval", None, None)
    assert (columns["gap"]["distinct"], columns["items.x"]["distinct"]) == (3, None)
    (meta,) = run("meta", path, "--json")["files"]
    assert sum(one["bytes"] for one in columns.values()) == meta["data_bytes"]


def test_stats_as_a_table(run, path):
    lines = {line.split()[0]: line for line in run("stats", path, "-c", "took,info.at.zip,kind")}
    assert lines["took"].split()[-6:] == ["-1", "day", "-01:01:01.5", "1", "day", "02:03:04.5"]
    assert lines["info.at.zip"].split()[1] == "string"
    assert list(lines)[1:] == ["took", "info.at.zip", "kind"]
    assert run("stats", path, "--stored", "-c", "info.__null__")[1].split()[-2:] == [
        "false",
        "true",
    ]
    _, printed = on_terminal("stats", path, "-c", "info")
    assert "4 columns and fields, 4 rows" in plain(printed)


def test_columns_that_say_where_a_struct_is_null(run, path):
    stored = {one["column"]: one["bytes"] for one in run("column-size", path, "--json")["columns"]}
    (age, zip) = run("stats", path, "-c", "info.age,info.at.zip", "--json")["columns"]
    assert age["bytes"] == stored["info.age"] + stored["info.__null__"]
    assert zip["bytes"] == stored["info.at.zip"] + stored["info.at.__null__"]
    assert sum(age["pages"].values()) == 2  # one for each row group


# ---- the structure of files


def test_meta_and_footer(run, path):
    (meta,) = run("meta", path, "--json")["files"]
    assert (meta["columns"], meta["stored_columns"]) == (11, 20)
    parts = ("data_bytes", "schema_bytes", "index_bytes", "annex_bytes", "dictionary_bytes")
    assert sum(meta[part] for part in parts) + 32 == meta["size"]
    lines = run("meta", path)
    assert ["stored", "columns", "20"] in [line.split() for line in lines]
    (footer,) = run("footer", path, "--json")
    assert footer["flags"] == ["annex", "types"]
    sections = {one["kind"]: (one["section"], one["text"]) for one in footer["annex"]["sections"]}
    assert sections[2] == ("schema", "types and metadata of the schema")
    assert sections[6] == ("dictionaries", f"{meta['dictionary_bytes']} bytes before the annex")


def test_pages_of_a_struct(run, path):
    names = [
        one["column"] for one in run("pages", path, "-c", "info.at", "--row-group", "0", "--json")
    ]
    assert names == ["info.at.__null__", "info.at.city", "info.at.zip"]
    assert [line.split()[0] for line in run("column-size", path, "-c", "items", "--sort", "name")[1:]] == [
        "items.__struct_null__", "items.x", "items.y",
    ]  # fmt: skip
    assert "no column named 'inf'" in run("pages", path, "-c", "inf", status=2)
    assert run("dictionary", path, "-c", "kind")[-1].split()[-1] == "a"
    assert len(run("buckets", path, "--row-group", "0")) > 1
    assert run("verify", path)[0].startswith(f"{path}: ok, 4 rows")


# ---- diff


def test_differences_in_structs(run, path, tmp_path):
    info = TABLE["info"].to_pylist()
    info[0]["at"]["city"] = "Bergen"
    fields = [("name", pa.large_string()), ("age", pa.int64()), ("at", PLACE), ("new", pa.int8())]
    other = TABLE.set_column(1, "info", pa.array(info, pa.struct(fields)))
    other = other.set_column(4, "took", pa.array([0, 1, None, 2], pa.duration("ms")))
    fm.write_table(other, tmp_path / "o.mosaic")
    lines = [" ".join(line.split()) for line in run("diff", path, tmp_path / "o.mosaic", status=1)]
    assert "info.age uint8 int64" in lines
    assert "info.new int8" in lines
    assert not any(line.startswith("info.name") for line in lines)
    assert any('zip: "0150"}' in line and "Bergen" in line for line in lines)
    assert any("'1 day 02:03:04.5' '00:00:00.001'" in line for line in lines)
    assert run("diff", path, tmp_path / "o.mosaic", "-c", "info.name,items.*") == [
        "no differences in 4 rows and 2 columns"
    ]
    found = run("diff", path, tmp_path / "o.mosaic", "-c", "info.at.city", "--json", status=1)
    assert found["contents"]["columns"]["info"]["first"] == [
        {"row": 0, "a": {"at": {"city": "Oslo"}}, "b": {"at": {"city": "Bergen"}}}
    ]
    strict = run("diff", path, tmp_path / "o.mosaic", "--strict", "--schema", status=1)
    assert "info.name string large_string" in [" ".join(line.split()) for line in strict]


def test_the_same_table(run, path, tmp_path):
    pq.write_table(TABLE.drop_columns(["gap"]), tmp_path / "t.parquet")
    names = ",".join(name for name in TABLE.column_names if name != "gap")
    assert run("diff", path, path) == ["no differences in 4 rows and 11 columns"]
    assert run("diff", path, tmp_path / "t.parquet", "-c", names, "--strict") == [
        "no differences in 4 rows and 10 columns"
    ]


def test_nulls_inside_are_compared_only_if_strict(run, tmp_path):
    for name, nullable in (("a", True), ("b", False)):
        field = pa.field("x", pa.int8(), nullable=nullable)
        table = pa.table({"s": pa.array([{"x": 1}], pa.struct([field]))})
        fm.write_table(table, tmp_path / f"{name}.mosaic")
    files = [tmp_path / "a.mosaic", tmp_path / "b.mosaic"]
    assert run("diff", *files) == ["no differences in 1 row and 1 column"]
    lines = run("diff", *files, "--strict", status=1)
    assert lines[2].split() == ["s.x", "int8", "int8", "not", "null"]
