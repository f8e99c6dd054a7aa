"""DuckDB and Polars over a data set: the same rows, with columns and filters pushed down."""

import datetime
import subprocess
import sys
from decimal import Decimal

import duckdb
import polars
import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic import MosaicDataset
from fastmosaic.dataset import files as one_file

NAN = float("nan")
DAYS = [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)]
TIMES = [datetime.datetime(2024, 1, 1, hour, 0, 0, 7000) for hour in (1, 2, 3, 4)]


def part(shift, integer=pa.int64(), stamp="us"):  # noqa: B008
    """Eight rows, the last of nulls; `shift` apart from other parts."""
    return pa.table(
        {
            "i": pa.array([shift + i for i in range(7)] + [None], integer),
            "f": pa.array([-1.5, 0.0, 1.5, NAN, float("inf"), shift + 0.25, 2.0, None]),
            "s": [f"s{shift}", "", "ü", "b", "c", "d", "e", None],
            "d": pa.array(
                [Decimal(shift) + Decimal(cents) / 100 for cents in range(0, 175, 25)] + [None],
                pa.decimal128(9, 2),
            ),
            "t": pa.array([TIMES[i % 4] for i in range(7)] + [None], pa.timestamp(stamp)),
            "day": pa.array([DAYS[i % 4] for i in range(7)] + [None]),
            "b": [True, False, None, True, False, None, True, None],
            "l": pa.array([[i, None] for i in range(7)] + [None], pa.list_(pa.int32())),
        }
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Two partitions of two files, with two row groups each."""
    root = tmp_path_factory.mktemp("duckdb")
    for number in range(4):
        directory = root / f"k={number // 2}"
        directory.mkdir(exist_ok=True)
        integer, stamp = (pa.int32(), "ms") if number % 2 else (pa.int64(), "us")
        fm.write_table(
            part(100 * number, integer, stamp),
            directory / f"f{number}",
            row_group_size=4,
            write_statistics=["i", "f", "s", "d", "t", "day"],
        )
    return root


@pytest.fixture
def dataset(root):
    return MosaicDataset(root)


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def over(connection):
    """What a query over a data set, called `data`, returns."""

    def fetch(dataset, query):
        connection.register("data", dataset)
        try:
            return connection.sql(query).fetchall()
        finally:
            connection.unregister("data")

    return fetch


@pytest.fixture(scope="module")
def plain():
    """A connection with the same rows in a table of its own: nothing is pushed down."""
    rows = pa.concat_tables(
        [
            part(100 * number).append_column("k", pa.array([number // 2] * 8, pa.int32()))
            for number in range(4)
        ]
    )
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        connection.execute("create table data as select * from rows")
        yield connection


@pytest.fixture
def reads(monkeypatch):
    """File, column and row group of each read."""
    found = []
    original = one_file.Scanner

    class Recording(original):
        def read(self, request, groups, memory):
            name = self.name.rpartition("/")[2]
            found.extend(
                (name, column, group)
                for column in request.projection.schema.names
                for group in groups
            )
            return super().read(request, groups, memory)

    monkeypatch.setattr(one_file, "Scanner", Recording)
    return found


WHERE = [
    "i > 201",
    "i = 3",
    "i <> 3",
    "i is null",
    "i is not null",
    "i between 100 and 102",
    "i in (1, 205, 9999)",
    "i not in (1, 2)",
    "i + 1 = 3",
    "i > 5 or f > 100",
    "f > 0",
    "f < 1.5",
    "f = 'nan'",
    "f >= 'nan'",
    "f < 'nan'",
    "f <> 1.5",
    "not (f > 0)",
    "isnan(f)",
    "f in (0.0, 'nan')",
    "f = 'infinity'",
    "s = 'ü'",
    "s in ('b', 's100')",
    "s like 's%'",
    "s > 'c'",
    "d = 100.50",
    "d > 101.24 and d < 202",
    "t = '2024-01-01 02:00:00.007'",
    "t > '2024-01-01 02:00:00'",
    "day >= '2024-01-03'",
    "day = date '2024-01-02'",
    "b",
    "not b",
    "b is null",
    "k = 1",
    "k = 1 and i > 300",
    "k = 0 or i > 300",
    "k > 7",
    "k is null",
    "len(l) = 2 and l[1] > 4",
]


@pytest.mark.parametrize("where", WHERE)
def test_duckdb_finds_the_same_rows(over, dataset, plain, where):
    query = f"select * from data where {where}"
    expected = plain.sql(query).fetchall()
    assert repr(over(dataset, query)) == repr(expected)
    counted = over(dataset, f"select count(*), count(i), count(k) from data where {where}")
    assert counted[0][0] == len(expected)


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from data",
        "select sum(i), min(d), max(t), min(day), max(s), avg(i) from data where k = 1",
        "select k, count(*), sum(d) from data group by k order by k",
        "select a.i, b.s from data a join data b on a.i = b.i and b.k = 0 order by a.i, b.s",
        "select s, i from data order by i desc nulls last, s limit 3",
        "select distinct k from data order by k",
        "select i from data where i in (select max(i) from data)",
        "select unnest(l) as e from data where i = 4",
        "select typeof(columns(*)) from data limit 1",
    ],
)
def test_duckdb_gives_the_same_answers(over, dataset, plain, query):
    assert over(dataset, query) == plain.sql(query).fetchall()


def test_duckdb_finds_a_dataset_by_its_variable(dataset):
    assert duckdb.sql("select count(*), max(i) from dataset where k = 1").fetchall() == [(16, 306)]


def test_duckdb_reads_a_limit(over, dataset):
    assert len(over(dataset, "select i from data limit 5")) == 5
    assert len(over(dataset, "select * from data limit 1000")) == 32


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select s from data where i = 205", {("f2", "s", 1), ("f2", "i", 1)}),
        ("select d from data where i > 304", {("f3", "d", 1), ("f3", "i", 1)}),
        (
            "select s from data where k = 1 and s = 's300'",
            {("f2", "s", 0), ("f3", "s", 0)},  # from "" to "ü"; the others from "c" to "e"
        ),
        ("select k from data", set()),
        ("select i from data where k = 9", set()),
        ("select i from data where i > 1000000", set()),
        ("select b from data where day > date '2030-01-01'", set()),
        ("select b from data where d > 5000", set()),
        ("select b from data where t < timestamp '2020-01-01'", set()),
    ],
)
def test_duckdb_pushes_columns_and_filters_down(over, dataset, reads, query, expected):
    over(dataset, query)
    assert set(reads) == expected


def test_duckdb_counts_by_one_column(over, dataset, reads):
    assert over(dataset, "select count(*) from data") == [(32,)]
    assert len({column for _, column, _ in reads}) <= 1
    reads.clear()
    assert over(dataset, "select count(*) from data where k = 1") == [(16,)]
    assert {file for file, _, _ in reads} <= {"f2", "f3"}
    assert len({column for _, column, _ in reads}) <= 1


# --- types

# By type, an expression over i = 0, 1, 2.
TYPES = {
    "STRUCT(a BIGINT, b VARCHAR)": "case when i = 1 then null else {'a': i, 'b': 'x' || i} end",
    "STRUCT(a STRUCT(b BIGINT[]))": "{'a': case when i = 1 then null else {'b': [i, null]} end}",
    "STRUCT(a BIGINT)[]": "case i when 0 then [] when 1 then null else [{'a': i}, null] end",
    "MAP(BIGINT, STRUCT(a BIGINT))": "map([i, i + 10], [{'a': i}, null])",
    "MAP(STRUCT(a BIGINT), BIGINT)": "map([{'a': i}], [i])",
    "BIGINT[2]": "case when i = 1 then null else [i, null]::bigint[2] end",
    "STRUCT(a BIGINT)[2]": "[{'a': i}, null]::struct(a bigint)[2]",
    "UTINYINT": "(255 - i)::utinyint",
    "USMALLINT": "(65535 - i)::usmallint",
    "UINTEGER": "(4294967295 - i)::uinteger",
    "UBIGINT": "(18446744073709551615 - i)::ubigint",
    "INTERVAL": "case when i = 1 then null else to_months(i::int) + to_microseconds(5) end",
    "TIME": "time '01:02:03.000004' + to_seconds(i)",
    "TIME_NS": "'01:02:03.000000004'::time_ns",
    "TIMESTAMP_NS": "timestamp_ns '2024-01-01 00:00:00.000000001'",
    "DECIMAL(18,2)": "(i / 4)::decimal(18, 2)",
    "BLOB": "'ab'::blob",
}
# Types that Arrow lacks, which DuckDB marks on request.
LOSSLESS = {
    "HUGEINT": "170141183460469231731687303715884105727 - i",
    "UHUGEINT": "i::uhugeint",
    "UUID": "'00000000-0000-0000-0000-00000000000f'::uuid",
    "BIT": "'0101'::bit",
    "JSON": """'{"a": 1}'::json""",
    "TIME WITH TIME ZONE": "timetz '01:02:03+05'",
}


@pytest.mark.parametrize(("type", "expression"), [*TYPES.items(), *LOSSLESS.items()])
def test_duckdb_types_come_back(over, tmp_path, connection, type, expression):
    connection.execute(f"set arrow_lossless_conversion = {type in LOSSLESS}")
    result = connection.sql(f"select {expression} as c, i from range(3) t(i)")
    assert str(result.types[0]) == type
    fm.write_table(result, tmp_path / "a.mosaic", row_group_size=2)
    dataset = MosaicDataset(tmp_path)
    assert over(dataset, "select * from data") == result.fetchall()
    assert over(dataset, "select distinct typeof(c) from data") == [(type,)]


def test_duckdb_enums_and_large_integers_as_arrow_has_them(over, tmp_path, connection):
    connection.execute("set arrow_lossless_conversion = false")
    result = connection.sql(
        "select 'b'::enum('c', 'b', 'a') as e, ['a']::enum('b', 'a')[] as l, 7::hugeint as h"
    )
    fm.write_table(result, tmp_path / "a.mosaic")
    # The file has the dictionary; DuckDB reads all dictionaries as VARCHAR.
    kept = fm.read_table(tmp_path / "a.mosaic")["e"].chunk(0).dictionary
    assert kept.to_pylist() == ["c", "b", "a"]
    dataset = MosaicDataset(tmp_path)
    assert over(dataset, "select e, l, h from data") == [("b", ["a"], Decimal(7))]
    assert over(dataset, "select typeof(e), typeof(h) from data") == [("VARCHAR", "DECIMAL(38,0)")]


def test_duckdb_unions_are_an_error(tmp_path, connection):
    with pytest.raises(fm.UnsupportedError, match=r"column 'u'.*union"):
        fm.write_table(connection.sql("select union_value(a := 1) as u"), tmp_path / "a.mosaic")


NESTED = """
select
    i,
    case when i % 7 = 3 then null else
        {'x': i, 'name': 'n' || (i % 5), 'deep': {'y': case when i % 4 > 0 then i // 2 end}} end as info,
    [{'a': i}, {'a': -i}] as items,
    map(['k' || i % 3], [{'v': i}]) as m,
    (18446744073709551600 + i % 16)::ubigint as u,
    (200 + i % 50)::utinyint as tiny,
    time '00:00:00' + to_milliseconds(i * 1000 + i) as t,
    to_days(i::int) as span,
    (['sad', 'ok', 'happy'])[i % 3 + 1]::enum('sad', 'ok', 'happy') as mood
from range(100) t(i)
"""


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    """A data set of nested rows in ten row groups, and a connection with the same rows."""
    root = tmp_path_factory.mktemp("nested")
    with duckdb.connect() as connection:
        fm.write_table(connection.sql(NESTED), root / "a", row_group_size=10, write_statistics=True)
        connection.execute(f"create table data as {NESTED}")
        connection.execute("alter table data alter mood type varchar")
        yield MosaicDataset(root), connection


@pytest.mark.parametrize(
    ("where", "groups"),
    [
        ("info.x > 95", {9}),
        ("info.x = 40 or info.x = 11", {1, 4}),
        ("info.x in (40, 41)", None),
        ("info.x between 18 and 22", {1, 2}),
        ("info.name = 'n3' and i < 20", {0, 1}),
        ("info.deep.y > 47", {9}),
        ("info.deep.y is null", None),
        ("info.x is null", None),
        ("info is null", None),
        ("info is not null and i = 4", {0}),
        ("info['x'] = 5", None),
        ("not (info.x > 5)", {0}),
        ("info.x <> 40", None),
        ("items[1].a > 90", None),
        ("m['k1'].v > 90", None),
        ("u = 18446744073709551615 and i > 80", {9}),
        ("u >= 18446744073709551610 and i > 70 and i < 90", {7}),
        ("tiny > 245", {4, 9}),
        ("t > time '00:01:35'", {9}),
        ("t = time '00:00:03.003'", {0}),
        ("span > interval 95 days", None),
        ("mood = 'ok' and i > 90", {9}),
        ("mood in ('sad', 'happy')", None),
        ("mood > 'ok'", None),
    ],
)
def test_duckdb_filters_nested_rows(over, nested, reads, where, groups):
    dataset, plain = nested
    query = f"select * from data where {where}"
    expected = plain.sql(query).fetchall()
    assert 0 < len(expected) < 100
    assert over(dataset, query) == expected
    if groups is not None:
        assert {group for _, _, group in reads} == groups
    counted = f"select count(*), sum(info.x), max(info.deep.y) from data where {where}"
    assert over(dataset, counted) == plain.sql(counted).fetchall()


def test_errors_arrive_in_duckdb(over, tmp_path):
    for name in "ab":
        fm.write_table(pa.table({"x": [1]}), tmp_path / name)
    dataset = MosaicDataset(tmp_path)
    (tmp_path / "b").unlink()
    with pytest.raises(duckdb.Error, match=f"{tmp_path}/b"):
        over(dataset, "select * from data")


@pytest.mark.parametrize(
    "program",
    [
        "import duckdb; duckdb.sql('select * from dataset limit 1').fetchall()",
        "import polars; polars.scan_pyarrow_dataset(dataset).head(1).collect()",
    ],
)
def test_a_scan_that_ends_early_does_not_hold_the_interpreter(tmp_path, program):
    for i in range(20):
        fm.write_table(pa.table({"x": range(20_000)}), tmp_path / f"f{i:02d}")
    text = f"""
import sys
import fastmosaic as fm
dataset = fm.MosaicDataset(sys.argv[1])
{program}
"""
    done = subprocess.run(
        [sys.executable, "-c", text, str(tmp_path)], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


# --- Polars


def test_polars_gives_the_same_rows(dataset):
    frame = polars.scan_pyarrow_dataset(dataset)
    table = polars.from_arrow(dataset.read())
    for predicate in (
        polars.col("i") > 201,
        (polars.col("k") == 1) & (polars.col("i") < 204),
        polars.col("s").is_in(["b", "s100"]),
        polars.col("i").is_null(),
        polars.col("d") > Decimal("101.24"),
        polars.col("day") >= DAYS[2],
        polars.col("t") == TIMES[1],
        polars.col("b"),
        polars.col("i") + 1 == 4,
    ):
        found = frame.filter(predicate).select("s", "i", "d", "k").collect()
        expected = table.filter(predicate).select("s", "i", "d", "k")
        assert found.equals(expected)
        assert 0 < expected.height < 32
    assert frame.collect().height == 32
    assert frame.select("s").head(3).collect().equals(table.select("s").head(3))
    assert frame.select(polars.len()).collect().item() == 32


def test_polars_pushes_columns_and_filters_down(dataset, reads):
    frame = polars.scan_pyarrow_dataset(dataset)
    found = frame.filter((polars.col("i") > 204) & (polars.col("k") == 1)).select("s").collect()
    assert found["s"].to_list() == ["d", "e", *part(300)["s"].to_pylist()[:7]]
    assert set(reads) == {
        (file, column, group)
        for file, group in [("f2", 1), ("f3", 0), ("f3", 1)]
        for column in ("s", "i")
    }
