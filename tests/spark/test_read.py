"""`fastmosaic.spark.read` against Spark's own Parquet on the same rows, and what it reads of files."""

from __future__ import annotations

import datetime
import math
import os
import stat
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, datasource, functions as F, types as spark_types

import fastmosaic as fm
from fastmosaic.spark import sessions, versions
from fastmosaic.spark.planner.plan import ScanReport, scans
from fastmosaic.spark.planner.pushdown import (
    Both,
    Either,
    Leaf,
    Neither,
    from_datasource,
    to_expression,
)
from fastmosaic.spark.planner.read import read
from fastmosaic.spark.schemas import arrow_for_spark, cast_for_spark, from_spark, to_spark

pytest_plugins = ["spark_session"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

NAN, INFINITY = math.nan, math.inf
GROUP = 25  # rows
STATISTICS = [
    "id",
    "tiny",
    "small",
    "int",
    "float",
    "double",
    "flag",
    "text",
    "day",
    "moment",
    "local",
    "price",
    "odd.name",
]


def rows(start: int, count: int) -> pa.Table:
    """Rows in which each column has something to stumble over."""
    numbers = range(start, start + count)

    def every(step: int, values: list[Any], types: pa.DataType) -> pa.Array:
        return pa.array(
            [None if i % step == 0 else values[i % len(values)] for i in numbers], types
        )

    day = datetime.date(1969, 12, 20)
    noon = datetime.datetime(1999, 12, 31, 23, 59, 59, 999_999)
    moments = [noon + datetime.timedelta(hours=7 * i, microseconds=i) for i in numbers]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "tiny": every(7, [-128, 0, 127], pa.int8()),
            "small": every(5, [-32768, 1, 32767], pa.int16()),
            "int": pa.array([i // GROUP for i in numbers], pa.int32()),
            "float": every(11, [0.1, NAN, -INFINITY, 3.5, -0.0, 0.0], pa.float32()),
            # Row groups whose statistics say at most 30, and that have NaN all the same.
            "double": pa.array(
                [NAN if i % 50 == 30 else None if i % 9 == 0 else i / 10 for i in numbers],
                pa.float64(),
            ),
            "flag": every(3, [True, False], pa.bool_()),
            "text": every(6, ["", "a", "ab", "abc", "ä", "😀", "b"], pa.string()),
            "bytes": every(8, [b"", b"\0", b"\xff\xfe"], pa.binary()),
            "day": pa.array([day + datetime.timedelta(days=i) for i in numbers], pa.date32()),
            "moment": pa.array(moments, pa.timestamp("us", "UTC")),
            "local": pa.array(moments, pa.timestamp("us")),
            "price": pa.array([Decimal(i * 7 - 500) / 100 for i in numbers], pa.decimal128(10, 2)),
            "huge": pa.array([Decimal(10) ** 25 + i for i in numbers], pa.decimal128(30, 3)),
            "list": every(4, [[1, None, 3], [], [-1]], pa.list_(pa.int32())),
            "lists": every(5, [[["x"], [], None], []], pa.list_(pa.list_(pa.string()))),
            "map": every(10, [[("k", 1.5), ("l", None)], []], pa.map_(pa.string(), pa.float64())),
            "odd.name": pa.array([i % 10 for i in numbers], pa.int64()),
            "a space, `tick`": pa.array([f"{i % 3}" for i in numbers]),
        }
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files in hive partitions, 400 rows, each in both formats."""
    root = tmp_path_factory.mktemp("read")
    for number, (year, region) in enumerate([(2023, "n"), (2023, "s"), (2024, "n"), (2024, "s")]):
        table = rows(100 * number, 100)
        place = f"year={year}/region={region}"
        for kind in ("mosaic", "parquet"):
            (root / kind / place).mkdir(parents=True)
        fm.write_table(
            table,
            root / "mosaic" / place / "part.mosaic",
            row_group_size=GROUP,
            write_statistics=STATISTICS,
        )
        pq.write_table(table, root / "parquet" / place / "part.parquet", row_group_size=GROUP)
    return root


@pytest.fixture(scope="module")
def ours(spark: SparkSession, directory: Path) -> DataFrame:
    df = read(spark, directory / "mosaic")
    df.createOrReplaceTempView("ours")
    return df


@pytest.fixture(scope="module")
def theirs(spark: SparkSession, directory: Path) -> Iterator[DataFrame]:
    # With its filters pushed down, Parquet loses NaN: `x >= double('nan')` gives no row.
    pushdown = "spark.sql.parquet.filterPushdown"
    spark.conf.set(pushdown, "false")
    df = spark.read.parquet(str(directory / "parquet"))
    df.createOrReplaceTempView("theirs")
    yield df
    spark.conf.unset(pushdown)


def plain(df: DataFrame) -> list[str]:
    """The rows as text: NaN is like NaN there."""
    return [repr(row) for row in df.collect()]


def last() -> ScanReport:
    return scans()[-1]


def planned(df: DataFrame) -> ScanReport:
    """What Spark would read; no task runs."""
    df._jdf.queryExecution().optimizedPlan()
    return last()


# ---- the same answers as from Parquet

QUERIES = [
    "select * from t",
    "select * from t order by id limit 7",
    "select id from t order by id limit 3 offset 120",
    "select count(*), count(tiny), count(text), min(id), max(id) from t",
    "select min(tiny), max(small), min(int), max(day), min(moment), max(local) from t",
    "select min(price), max(price), min(huge), max(huge), min(flag), max(flag) from t",
    "select min(float), max(float), min(double), max(double) from t",
    "select min(text), max(text), min(bytes), max(region), min(year), count(region) from t",
    "select id from t where id > 390 or id < 3",
    "select id from t where id in (3, 77, 310, 9999)",
    "select id from t where id not in (3, 77) and id < 80",
    "select count(*) from t where tiny is not null and small is null",
    "select id from t where float >= double('nan')",
    "select id from t where not (double <= 39)",
    "select id from t where double in (1.1, double('nan'))",
    "select id from t where not flag",
    "select id from t where text like '😀%' or text >= 'ä'",
    "select id from t where day >= date'1970-01-01' and day < date'1970-02-01'",
    "select id from t where moment > timestamp'2000-02-01 00:00:00'",
    "select id from t where local < timestamp_ntz'2000-01-02 00:00:00.5'",
    "select id from t where price > -1.235 and price < 0.5",
    "select id from t where `odd.name` = 3 and `a space, ``tick``` = '1'",
    "select year, region, count(*) from t where region = 's' group by all",
    "select id from t where year = 1999",
    "select 1 from t",
    "select id, map['k'], get(get(lists, 0), 0) from t where map is not null",
    "select a.id, b.text from t a join t b on a.id = b.id + 1 where b.int = 3",
    "select id from t a where exists (select 1 from t b where b.int = a.id and b.flag)",
    "select (select max(id) from t), (select count(*) from t where flag)",
    "select id, row_number() over (partition by int order by id desc) from t where id < 60",
]
MORE_QUERIES = [
    "select id, text from t",
    "select count(*) from t",
    "select count(distinct text), sum(int) from t",
    "select id from t where id = 217",
    "select id from t where id between 99 and 101",
    "select id from t where not (id > 5)",
    "select id from t where id <> 5 and id <= 7",
    "select id from t where id in (3, null)",
    "select id from t where tiny is null",
    "select id from t where tiny <=> null and id < 50",
    "select id from t where float > 3",
    "select id from t where float = float('nan')",
    "select id from t where float = 0",
    "select id from t where float < -1",
    "select id from t where float <= float('nan')",
    "select id from t where float <> float('nan')",
    "select id from t where double > 39",
    "select id from t where double > 1000",
    "select id from t where double < 0.5",
    "select id from t where flag",
    "select id from t where text = ''",
    "select id from t where text like 'ab%'",
    "select id from t where text not like 'a%'",
    "select id from t where bytes = X'FFFE'",
    "select id from t where price = 2.00",
    "select id from t where huge > 10000000000000000000000390",
    "select id from t where cast(id as string) = '12'",
    "select id from t where year = 2024",
    "select year from t where year = 2023 and id > 150",
    "select count(*) from t where region like 'n%' and year in (2024, 2030)",
    "select sum(1) from t",
    "select id, explode(list) from t where id < 40",
    "select size(list), count(*) from t group by 1",
    "select a.int, sum(b.id) from t a left join t b on a.id = b.tiny group by a.int",
    "select id from t where id in (select int from t where flag)",
    "select id from t a where not exists (select 1 from t b where b.small = a.id)",
    "with c as (select int, sum(id) s from t group by int) select * from c a join c b using (int)",
    "select id from t where id < 5 union all select id from t where id > 395",
    "select int from t where id < 99 intersect select tiny from t",
    "select int, region, sum(id) from t group by rollup (int, region)",
    "select distinct int, flag from t",
    "select * from (select int, region, id from t) pivot (sum(id) for region in ('n', 's'))",
]


@pytest.mark.parametrize(
    "query",
    [*QUERIES, *(pytest.param(query, marks=pytest.mark.exhaustive) for query in MORE_QUERIES)],
)
def test_answers_are_those_of_parquet(
    spark: SparkSession, ours: DataFrame, theirs: DataFrame, query: str
) -> None:
    mine = plain(spark.sql(query.replace("from t", "from ours").replace("join t", "join ours")))
    other = plain(
        spark.sql(query.replace("from t", "from theirs").replace("join t", "join theirs"))
    )
    if "order by id limit" not in query:
        mine.sort()
        other.sort()
    assert mine == other


def test_the_schema_is_that_of_parquet(ours: DataFrame, theirs: DataFrame) -> None:
    assert ours.schema == theirs.schema


def test_data_frames_of_one_another(ours: DataFrame, theirs: DataFrame) -> None:
    for df in (ours, theirs):
        some = df.filter("id < 150").select("id", "int", "flag")
        assert some.count() == 150
        assert df.count() == 400  # a filter pushed for one query is not there in the next
        assert df.filter("id >= 150").count() == 250
        assert some.join(some.groupBy("int").agg(F.count("*")), "int").count() == 150
        assert some.toArrow().num_rows == 150
        assert some.rdd.map(lambda row: row.id).max() == 149
    assert ours.drop("map").exceptAll(theirs.drop("map")).count() == 0


def test_a_new_session_and_no_adaptive_execution(ours: DataFrame, spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.adaptive.enabled", "false")
    other.conf.set("spark.sql.cbo.enabled", "true")
    ours.createOrReplaceGlobalTempView("everyones")
    query = "select a.int, count(*) from global_temp.everyones a join global_temp.everyones b using (id)"
    assert len(other.sql(f"{query} group by a.int").collect()) == 16


def test_a_relative_path_is_that_of_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers may have been started in another directory."""
    spark.range(2).mapInArrow(lambda batches: batches, "id long").collect()  # now there are some
    monkeypatch.chdir(tmp_path)
    fm.write_table(pa.table({"id": [1, 2, 3]}), "here.mosaic")
    assert read(spark, "here.mosaic").agg(F.sum("id")).first()[0] == 6


def test_many_threads_at_once(ours: DataFrame) -> None:
    found: dict[int, int] = {}

    def ask(number: int) -> None:
        found[number] = ours.filter(f"id >= {50 * number}").agg(F.count("text")).collect()[0][0]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: sum(i % 6 != 0 for i in range(50 * n, 400)) for n in range(8)}


# ---- what is read


def test_only_the_columns_of_a_query_are_read(ours: DataFrame) -> None:
    two = planned(ours.select("id", "text").agg(F.max("text"), F.sum("id")))
    assert (two.columns, two.total_columns) == (2, 21)
    assert (two.row_groups, two.total_row_groups) == (16, 16)
    many = planned(ours.agg(*(F.max(F.col(f"`{name}`")) for name in ours.columns[:14])))
    assert many.columns == 14
    assert 0 < two.num_bytes < many.num_bytes


def test_row_groups_are_skipped_at_planning(ours: DataFrame) -> None:
    assert ours.filter("id between 130 and 140").select("text").count() == 11
    assert (last().files, last().row_groups, last().num_rows) == (1, 1, GROUP)
    assert last().columns == 1  # that of the filter
    assert last().filters == ("id IS NOT NULL", "id >= 130", "id <= 140")


@pytest.mark.parametrize(
    ("condition", "row_groups"),
    [
        ("id = 30", 1),
        ("id in (1, 399)", 2),
        ("id < 30 or id > 370", 4),
        ("id < 30 and cast(id as string) like '1%'", 2),
        ("id < 30 or cast(id as string) like '1%'", 16),
        ("not (id >= 30)", 2),
        ("int <> 3", 15),
        ("day < date'1969-12-30'", 1),
        ("moment < timestamp'2000-01-01 01:00:00'", 1),
        ("local < timestamp_ntz'2000-01-01 01:00:00'", 1),
        ("price < -4", 1),
        ("double < 1", 1),
        ("double > 1000", 16),  # NaN is greater, and no statistics have it
        ("text like '😁%'", 0),
        ("text is null and id < 20", 1),
        ("id is null", 0),
        ("year = 2024 and region = 'n'", 4),
        ("year > 2023 and id < 210", 1),
        ("year = 1999", 0),
    ],
)
def test_row_groups_that_can_match(ours: DataFrame, condition: str, row_groups: int) -> None:
    assert planned(ours.filter(condition).select("bytes")).row_groups == row_groups


def test_a_limit_reads_the_first_row_groups(ours: DataFrame) -> None:
    assert [row.id for row in ours.select("id").limit(30).collect()] == list(range(30))
    assert (last().row_groups, last().limit) == (2, 30)


def test_aggregates_from_metadata_run_no_task(ours: DataFrame) -> None:
    for asked in ("count(*)", "count(text)", "max(id)", "min(day)", "max(price)", "max(year)"):
        report = planned(ours.selectExpr(asked))
        assert (report.row_groups, report.num_bytes) == (0, 0), asked
    for asked in ("max(double)", "max(text)", "count(distinct id)", "count(bytes)", "max(id + 1)"):
        assert planned(ours.selectExpr(asked)).row_groups == 16, asked


def test_explain_shows_what_is_read(
    ours: DataFrame, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours.filter("id < 30").select("text").explain()
    plan = capsys.readouterr().out
    for part in (
        str(directory / "mosaic"),
        "columns 2 of 21",
        "files 1 of 4",
        "row groups 2 of 16",
    ):
        assert part in plan
    assert f"bytes {last().num_bytes}" in plan
    assert "filters [id IS NOT NULL, id < 30]" in plan
    ours.agg(F.max("id")).explain("formatted")
    assert "LocalTableScan" in capsys.readouterr().out


def test_small_tables_are_broadcast(
    spark: SparkSession, ours: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_broadcast(of: DataFrame) -> bool:
        of.join(spark.range(10_000_000), "id").explain()
        return "BroadcastHashJoin" in capsys.readouterr().out

    size = size_of(ours.select("id"))
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    try:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", 2 * size)
        assert is_broadcast(ours.select("id"))
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", size // 2)
        assert not is_broadcast(ours.select("id"))
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)


def size_of(df: DataFrame) -> int:
    """The size that Spark expects a DataFrame to have."""
    return int(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())


def test_sizes_are_expected_as_for_parquet(
    ours: DataFrame, theirs: DataFrame, directory: Path
) -> None:
    """So that the same join is planned in the same way; the files themselves differ in size."""
    every = [
        sum(path.stat().st_size for path in directory.rglob(f"*.{suffix}"))
        for suffix in ("mosaic", "parquet")
    ]
    for columns in (["id"], ["text", "price"], ["id", "year"]):
        sizes = [size_of(one.select(columns)) for one in (ours, theirs)]
        shares = [size / whole for size, whole in zip(sizes, every, strict=True)]
        assert 0 < shares[0] < 3 * shares[1], columns
    assert size_of(ours.select("id")) < size_of(ours.select("id", "text")) < size_of(ours)


def test_equal_scans_are_run_once(
    spark: SparkSession, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def sums() -> DataFrame:
        return read(spark, directory / "mosaic").groupBy("int").agg(F.sum("id").alias("s"))

    both = sums().union(sums().select("int", "s"))
    assert both.count() == 32
    both.collect()
    both.explain()
    assert "ReusedExchange" in capsys.readouterr().out


def test_a_cached_table_is_found_by_another_read(
    spark: SparkSession, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = read(spark, directory / "mosaic").select("id", "text").cache()
    try:
        assert cached.count() == 400
        again = read(spark, directory / "mosaic").select("id", "text")
        again.explain()
        assert "InMemoryTableScan" in capsys.readouterr().out
        assert again.filter("id < 10").count() == 10
        read(spark, directory / "mosaic").select("id", "day").explain()
        assert "InMemoryTableScan" not in capsys.readouterr().out
    finally:
        cached.unpersist()


def test_a_changed_file_is_another_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.mosaic"
    fm.write_table(pa.table({"x": [1, 2]}), path)
    before = read(spark, path)
    assert before.sameSemantics(read(spark, path))
    fm.write_table(pa.table({"x": [1, 3]}), path)
    os.utime(path, ns=(1, 1))
    assert not before.sameSemantics(read(spark, path))


def test_splits_are_sized_by_what_is_read(spark: SparkSession, tmp_path: Path) -> None:
    noise = os.urandom(8_000_000)
    table = pa.table(
        {
            "small": pa.array(range(8)),
            "large": pa.array([noise[i * 1_000_000 : (i + 1) * 1_000_000] for i in range(8)]),
        }
    )
    fm.write_table(table, tmp_path / "a.mosaic", row_group_size=1, num_buckets=2)
    df = read(spark, tmp_path / "a.mosaic")
    assert df.select("large").rdd.getNumPartitions() == 2  # as many as there are cores
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2m")
    try:
        assert df.select("large").rdd.getNumPartitions() == 4
        assert df.select("small").rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_tasks_read_no_footer(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.mosaic"
    fm.write_table(rows(0, 100), path, row_group_size=GROUP, write_statistics=["id"])
    df = read(spark, path)
    with path.open("r+b") as file:
        file.seek(-32, os.SEEK_END)
        file.write(bytes(32))
    assert df.filter("id > 60").agg(F.sum("id")).collect()[0][0] == sum(range(61, 100))
    with pytest.raises(fm.CorruptFileError, match="not a Mosaic file"):
        read(spark, path)


# ---- files


def test_columns_lists_and_globs(spark: SparkSession, directory: Path) -> None:
    one = directory / "mosaic" / "year=2023" / "region=n" / "part.mosaic"
    two = directory / "mosaic" / "year=2024" / "region=n" / "part.mosaic"
    assert read(spark, str(one)).count() == 100
    assert read(spark, [one, two]).count() == 200
    assert read(spark, str(directory / "mosaic" / "*" / "region=s")).count() == 200
    some = read(spark, one, columns=["text", "m*", "id"], partitioning=None)
    assert some.columns == ["text", "moment", "map", "id"]
    assert some.filter("id = 1").collect()[0].text == "a"
    with pytest.raises(
        fm.ColumnNotFoundError, match=r"no column named 'txet'; did you mean 'text'"
    ):
        read(spark, one, columns=["txet"])


def test_the_union_of_files_and_a_schema(spark: SparkSession, tmp_path: Path) -> None:
    fm.write_table(pa.table({"a": pa.array([1, 2], pa.int32())}), tmp_path / "1.mosaic")
    fm.write_table(
        pa.table({"a": pa.array([2**40]), "b": ["x"]}),
        tmp_path / "2.mosaic",
        write_statistics=True,
    )
    df = read(spark, tmp_path)
    assert df.dtypes == [("a", "bigint"), ("b", "string")]
    assert sorted(plain(df)) == [
        "Row(a=1, b=None)",
        f"Row(a={2**40}, b='x')",
        "Row(a=2, b=None)",
    ]
    assert df.filter("b is null").count() == 2
    assert plain(df.selectExpr("count(b)", "count(*)")) == ["Row(count(b)=1, count(1)=3)"]
    wanted = spark_types.StructType().add("b", "string").add("c", "double").add("a", "long")
    assert plain(read(spark, tmp_path / "2.mosaic", schema=wanted)) == [
        f"Row(b='x', c=None, a={2**40})"
    ]
    with pytest.raises(fm.SchemaMismatchError, match="unify=True"):
        read(spark, tmp_path, unify=False)


@pytest.mark.since("4.1")
def test_types_that_spark_has_in_other_units(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table(
        {
            "s": pa.array([1_700_000_000_000], pa.timestamp("ms", "Europe/Berlin")),
            "n": pa.array([1_700_000_000_000_000_000], pa.timestamp("ns")),
            "t": pa.array([43_200_500], pa.time32("ms")),
            "l": pa.array([[1_700_000_000_000]], pa.list_(pa.timestamp("ms"))),
        }
    )
    fm.write_table(table, tmp_path / "a.mosaic", write_statistics=["s", "n"])
    with pytest.raises(fm.UnsupportedError, match=r"column 't'.*spark\.sql\.timeType\.enabled"):
        read(spark, tmp_path)
    assert read(spark, tmp_path, columns=["n", "s"]).filter("n > s").count() == 0
    spark.conf.set("spark.sql.timeType.enabled", "true")
    df = read(spark, tmp_path)
    seconds = "2023-11-14 22:13:20"
    shown = df.selectExpr("string(s)", "string(n)", "string(t)", "string(l[0])").collect()[0]
    assert list(shown) == [seconds, seconds, "12:00:00.5", seconds]
    assert df.selectExpr("string(max(s))", "string(min(n))").collect()[0][:] == (seconds, seconds)
    assert df.filter(f"n = timestamp_ntz'{seconds}' and s <= timestamp'{seconds}'").count() == 1
    assert df.filter(f"n > timestamp_ntz'{seconds}'").count() == 0
    assert last().row_groups == 0
    spark.conf.unset("spark.sql.timeType.enabled")


def test_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    fm.write_table(rows(0, 0), tmp_path / "a.mosaic", write_statistics=True)
    df = read(spark, tmp_path)
    assert df.count() == 0
    assert df.collect() == []
    assert df.agg(F.max("id"), F.count("id")).collect()[0][:] == (None, 0)


# ---- what is wrong is said, by `read` if it can be known there


def test_bad_input_is_an_error_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read(spark, tmp_path / "nowhere")
    good = pa.table({"a": [1]})
    fm.write_table(good, tmp_path / "1.mosaic")
    fm.write_table(pa.table({"a": ["x"]}), tmp_path / "2.mosaic")
    with pytest.raises(fm.SchemaMismatchError, match=r"column 'a' is int64 in .*1\.mosaic"):
        read(spark, tmp_path)
    (tmp_path / "2.mosaic").write_bytes(b"no such thing" * 10)
    with pytest.raises(fm.CorruptFileError) as corrupt:
        read(spark, tmp_path)
    told = [str(corrupt.value), *getattr(corrupt.value, "__notes__", [])]
    assert any("2.mosaic" in part for part in told)
    odd = pa.table({"ok": [1], "odd": pa.array([Decimal("1e3")], pa.decimal128(5, -2))})
    fm.write_table(odd, tmp_path / "3.mosaic")
    with pytest.raises(fm.UnsupportedError, match="'odd'"):
        read(spark, tmp_path / "3.mosaic")
    assert read(spark, tmp_path / "3.mosaic", columns=["ok"]).collect()[0].ok == 1


def test_a_corrupt_block_is_named_by_the_task(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "damaged.mosaic"
    fm.write_table(pa.table({"x": [f"{i * 7919 % 1000}" for i in range(10_000)]}), path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 200)
    with pytest.raises(PySparkException, match=r"damaged\.mosaic"):
        read(spark, path).agg(F.max("x")).collect()


def test_nanoseconds_that_spark_has_not(spark: SparkSession, tmp_path: Path) -> None:
    fm.write_table(pa.table({"n": pa.array([1], pa.timestamp("ns"))}), tmp_path / "fine.mosaic")
    with pytest.raises(
        PySparkException, match=r"fine\.mosaic: column 'n': cannot convert timestamp\[ns\]"
    ):
        read(spark, tmp_path).collect()


def test_writing_to_it_is_refused(spark: SparkSession, ours: DataFrame) -> None:
    with pytest.raises(PySparkException, match="does not support append in batch mode"):
        spark.sql("insert into ours select * from ours")


# ---- without the planner


@pytest.fixture
def unknown_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(versions, "PLANNED", ((9, 9),))
    return


@pytest.mark.usefixtures("unknown_version")
def test_an_unknown_version_of_spark_reads_plainly(spark: SparkSession, directory: Path) -> None:
    with pytest.warns(UserWarning, match="does not know the planner of Spark 4"):
        df = read(spark, directory / "mosaic", columns=["id", "te*"])
    assert df.columns == ["id", "text"]
    assert df.filter("id < 30").count() == 30
    schema = pa.schema([("id", pa.int64()), ("year", pa.int32())])
    with pytest.warns(UserWarning, match="choose the columns to load with columns="):
        df = read(spark, [directory / "mosaic"], schema=schema, columns=["year"])
    assert sorted(row.year for row in df.distinct().collect()) == [2023, 2024]
    with (
        pytest.warns(UserWarning, match="planner"),
        pytest.raises(fm.UnsupportedError, match="pass a URI as path"),
    ):
        read(spark, directory, partitioning=schema)


# ---- the session


def test_the_session_that_runs_is_given_again(spark: SparkSession) -> None:
    assert sessions.session().sparkContext is spark.sparkContext


def test_no_java_and_old_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    sessions.check_java()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        RuntimeError, match="requires Java 17, but there is no Java on the PATH: install"
    ):
        sessions.check_java()
    script(tmp_path / "bin" / "java", "echo 'openjdk version \"11.0.2\"' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"requires Java 17, but .*java is Java 11: install"):
        sessions.check_java()
    script(tmp_path / "bin" / "java", "echo 'java version \"1.8.0_1\"' >&2")
    with pytest.raises(RuntimeError, match="is Java 8"):
        sessions.check_java()


def test_a_python_of_the_workers_that_will_not_do(
    spark: SparkSession, tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_checked", set())
    context = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", str(tmp_path / "nowhere"))
    with pytest.raises(
        RuntimeError, match=f"workers cannot start {tmp_path}.*PYSPARK_PYTHON={sys.executable}"
    ):
        read(spark, directory / "mosaic")
    # Two other environments: they have what Spark needs, but one has not this package.
    for name, hook in [("without", "import sys; sys.modules['fastmosaic'] = None"), ("with", "")]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(hook)
        script(
            tmp_path / name / "python",
            f'export PYTHONPATH={tmp_path / name}:$PYTHONPATH; exec {sys.executable} "$@"',
        )
    monkeypatch.setattr(context, "pythonExec", str(tmp_path / "without" / "python"))
    with pytest.raises(RuntimeError, match="has no package fastmosaic: set PYSPARK_PYTHON"):
        read(spark, directory / "mosaic")
    monkeypatch.setattr(context, "pythonExec", str(tmp_path / "with" / "python"))
    assert read(spark, directory / "mosaic").filter("id < 9").count() == 9


def script(path: Path, line: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


# ---- predicates and schemas, without Spark's JVM


def test_predicates_keep_every_row_that_spark_keeps() -> None:
    values = [None, NAN, -INFINITY, -1.0, -0.0, 0.0, 2.5, INFINITY]
    table = pa.table({"x": pa.array(values, pa.float64())})

    def order(value: float) -> tuple[bool, float]:
        return (True, 0.0) if math.isnan(value) else (False, value)

    def keeps(operator: str, value: float, other: float) -> bool:
        one, two = order(value), order(other)
        return {
            "=": one == two,
            "<": one < two,
            "<=": one <= two,
            ">": one > two,
            ">=": one >= two,
        }[operator]

    for operator in ("=", "<", "<=", ">", ">="):
        for other in values[1:]:
            for negated in (False, True):
                leaf = Leaf(operator, ("x",), (other,))
                expression, _ = to_expression([Neither(leaf) if negated else leaf], table.field)
                kept = table if expression is None else table.filter(expression)
                held = [repr(value) for value in kept["x"].to_pylist()]
                for value in values[1:]:
                    if keeps(operator, value, other) != negated:
                        assert repr(value) in held, (operator, other, negated)


def test_what_is_unknown_excludes_nothing() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.binary()), ("d", pa.date32())])
    known = Leaf("=", ("a",), (1,))

    def text(*predicates: Any) -> str | None:
        expression, fields = to_expression(predicates, schema.field)
        assert (expression is None) == (not fields)
        return None if expression is None else str(expression)

    alone = str(pc.field("a") == pa.scalar(1, pa.int32()))
    assert text() is None
    assert text(None) is None
    assert text(known, None) == alone
    assert text(Both(known, None)) == alone
    assert text(Either(known, None)) is None
    assert text(Neither(Both(known, None))) is None
    assert text(Leaf("=", ("b",), (b"x",))) is None
    assert text(Leaf("=", ("a",), (2**40,))) is None  # no value of the column
    assert text(Neither(Leaf("<=>", ("a",), (1,)))) is None  # it holds for null
    assert text(Neither(Leaf("IN", ("a",), (1, None)))) is None
    assert text(Leaf("IN", ("a",), (1, None))) is not None
    assert text(Leaf("<", ("d",), (3,))) == str(pc.field("d") < pa.scalar(3, pa.date32()))


@pytest.mark.parametrize(
    ("prefix", "inside", "outside"),
    [
        ("ab", ["ab", "abz", "ab\U0010ffff"], ["a", "aa\U0010ffff", "ac", "b"]),
        ("a\U0010ffff", ["a\U0010ffff", "a\U0010ffffa"], ["a", "b"]),
        ("\ud7ff", ["\ud7ff", "\ud7ffz"], ["\ue000", "\ud7fe"]),
        ("", ["", "z"], []),
    ],
)
def test_prefixes(prefix: str, inside: list[str], outside: list[str]) -> None:
    table = pa.table({"s": [*inside, *outside, None]})
    expression, _ = to_expression([Leaf("STARTS_WITH", ("s",), (prefix,))], table.field)
    assert table.filter(expression)["s"].to_pylist() == inside


@pytest.mark.since("4.1")
def test_the_filters_of_python_sources() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    moment = datetime.datetime(1970, 1, 1, 2, 0, 1, tzinfo=zone)
    cases = {
        datasource.EqualTo(("a",), datetime.date(1970, 1, 3)): Leaf("=", ("a",), (2,)),
        datasource.GreaterThan(("a",), moment): Leaf(">", ("a",), (1_000_000,)),
        datasource.In(("a",), (1, 2)): Leaf("IN", ("a",), (1, 2)),
        datasource.Not(datasource.IsNull(("a",))): Neither(Leaf("IS_NULL", ("a",))),
        datasource.StringStartsWith(("a",), "x"): Leaf("STARTS_WITH", ("a",), ("x",)),
        datasource.StringContains(("a",), "x"): Leaf("CONTAINS", ("a",), ("x",)),
        datasource.Not(datasource.StringEndsWith(("a",), "x")): Neither(
            Leaf("ENDS_WITH", ("a",), ("x",))
        ),
        datasource.LessThan(("a", "b"), datetime.time(0, 0, 1, 5)): Leaf(
            "<", ("a", "b"), (1_000_005_000,)
        ),
        datasource.EqualTo(("a",), datetime.timedelta(seconds=-1)): Leaf(
            "=", ("a",), (-1_000_000,)
        ),
    }
    for filter, predicate in cases.items():
        assert from_datasource(filter) == predicate


def test_schemas_there_and_back() -> None:
    table = rows(0, 5)
    schema = to_spark(table.schema)
    assert from_spark(schema).names == table.schema.names
    assert arrow_for_spark(from_spark(schema)).equals(arrow_for_spark(table.schema))
    nanos = pa.RecordBatch.from_pydict({"n": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(fm.UnsupportedError, match=r"column 'n': cannot convert timestamp\[ns\]"):
        cast_for_spark(nanos, arrow_for_spark(nanos.schema))


@pytest.mark.parametrize(
    ("type", "shown"),
    [
        (spark_types.VariantType(), "variant"),
        (spark_types.ArrayType(spark_types.YearMonthIntervalType()), "interval year to month"),
        (spark_types.StructType().add("b", spark_types.CalendarIntervalType()), "interval"),
    ],
)
def test_types_that_the_format_has_not(type: spark_types.DataType, shown: str) -> None:
    struct = spark_types.StructType([spark_types.StructField("a", type)])
    with pytest.raises(fm.UnsupportedError) as refused:
        from_spark(struct)
    assert str(refused.value).startswith(f"column 'a': type {shown} is not supported; ")
