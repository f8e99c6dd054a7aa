"""Writes to tables of a catalog: all or nothing, conflicts, types, S3, and the DataFrame interfaces."""

import datetime
import decimal
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
import s3fs
from pyspark.errors import PySparkException, SparkRuntimeException
from pyspark.sql import functions as F, types
from races import meanwhile, named, names_on_disk
from servers import HOST, no_settings, s3_api
from spark_jvm import CONF

import fastmosaic as fm
import fastmosaic.spark as fs
from fastmosaic.table.store import TableStore

pytest_plugins = ["spark_session", "spark_lake"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


@pytest.fixture
def t(lake):
    fm.MosaicTable.create(
        lake.path / "t",
        pa.table({"id": [1, 2, 3, 4], "day": ["mo", "mo", "tu", None]}),
        partitioning="day",
    )
    return lake


def ids(lake, table="lake.t"):
    return [row[0] for row in lake.sql(f"select id from {table}")]


def rows_of(spark, *numbers):
    return spark.createDataFrame([(one, "mo") for one in numbers], "id bigint, day string")


# ---- DataFrames


def test_data_frame_writer_v2(lake):
    rows = rows_of(lake.spark, 1, 2)
    rows.writeTo("lake.t").partitionedBy(F.col("day")).create()
    with pytest.raises(PySparkException) as caught:
        rows.writeTo("lake.t").create()
    assert caught.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    rows_of(lake.spark, 3).writeTo("lake.t").append()
    assert ids(lake) == [1, 2, 3]
    rows_of(lake.spark, 4).writeTo("lake.t").overwrite(F.col("id") >= 2)
    assert ids(lake) == [1, 4]
    lake.spark.createDataFrame([(5, "tu")], "id bigint, day string").writeTo("lake.t").append()
    rows_of(lake.spark, 6).writeTo("lake.t").overwritePartitions()
    assert ids(lake) == [5, 6]
    rows.select("id").writeTo("lake.t").createOrReplace()
    assert lake.spark.table("lake.t").columns == ["id"]
    rows.writeTo("lake.t").replace()
    assert lake.sql("select * from lake.t") == [(1, "mo"), (2, "mo")]
    assert lake.sql("select * from lake.t version as of 5") == [(5, "tu"), (6, "mo")]
    with pytest.raises(PySparkException) as caught:
        rows.writeTo("lake.missing").replace()
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    with pytest.raises(PySparkException) as caught:
        rows.writeTo("lake.missing").append()
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_save_as_table_and_insert_into(lake):
    rows = rows_of(lake.spark, 1, 2)
    rows.write.partitionBy("day").saveAsTable("lake.t")
    with pytest.raises(PySparkException) as caught:
        rows.write.saveAsTable("lake.t")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    rows.write.mode("ignore").saveAsTable("lake.t")
    rows.write.mode("append").saveAsTable("lake.t")
    assert ids(lake) == [1, 1, 2, 2]
    rows.write.insertInto("lake.t", overwrite=True)
    rows_of(lake.spark, 3).write.insertInto("lake.t")
    assert ids(lake) == [1, 2, 3]
    rows.select("id").write.mode("overwrite").format("mosaic").saveAsTable("lake.t")
    assert lake.sql("select * from lake.t") == [(1,), (2,)]


def test_a_table_that_is_replaced_keeps_its_versions(lake):
    lake.sql(
        "create table lake.t (a int, b string) partitioned by (b)",
        "insert into lake.t values (1, 'x')",
        "create or replace table lake.t (b int, c string) partitioned by (c)",
    )
    assert lake.sql("select * from lake.t") == []
    lake.sql("insert into lake.t values (5, 'y')")
    assert lake.sql("select * from lake.t") == [(5, "y")]
    assert lake.sql("select * from lake.t version as of 2") == [(1, "x")]
    table = fm.MosaicTable(lake.path / "t")
    table.restore(2)
    assert lake.sql("select * from lake.t") == [(1, "x")]
    assert table.verify().ok


def test_the_order_of_columns_is_that_of_the_statement(lake):
    lake.sql(
        "create table lake.t partitioned by (k) as select 'x' as k, 1 as z, 'y' as a",
        "insert into lake.t values ('w', 2, 'b')",
        "alter table lake.t add columns (m int)",
        "insert into lake.t values ('v', 3, 'c', 4)",
    )
    assert lake.spark.table("lake.t").columns == ["k", "z", "a", "m"]
    expected = [("v", 3, "c", 4), ("w", 2, "b", None), ("x", 1, "y", None)]
    assert lake.sql("select * from lake.t") == expected


# ---- conditions

VALUES = """
    (1, 1.0d, float('NaN'), 'a', date'2026-01-01', timestamp'2026-01-01 00:00:00', 1.10, true),
    (2, double('NaN'), 2.0f, 'ab', date'2026-01-02', timestamp'2026-01-02 12:00:00', 2.20, false),
    (3, -0.0d, -0.0f, 'b', null, null, null, null),
    (4, null, null, null, date'1969-12-31', timestamp'1969-12-31 23:59:59.999999', -1.00, true),
    (5, double('Infinity'), 0.0f, 'ü', date'2026-01-01', timestamp'2026-06-01 00:00:00', 0.00, false)
"""
CONDITIONS = [
    "d > 0",
    "d >= double('Infinity')",
    "d < 1",
    "d <= 1",
    "d = 0.0d",
    "d = 1.0d",
    "d <> 1.0d",
    "not (d > 0)",
    "d in (0.0d, 1.0d)",
    "d not in (0.0d, 1.0d)",
    "f > 1.0f",
    "f <= 0.0f",
    "d <=> 1.0d",
    "not (d <=> 1.0d)",
    "d <=> null",
    "d is null",
    "d is not null",
    "s = 'a'",
    "s like 'a%'",
    "not (s like 'a%')",
    "s in ('a', 'b')",
    "s not in ('a', 'b')",
    "s in ('a', null)",
    "s not in ('a', null)",
    "s > 'a'",
    "day = date'2026-01-01'",
    "day < date'1970-01-01'",
    "at > timestamp'2026-01-01 00:00:00'",
    "n between 0 and 2",
    "not (n between 0 and 2)",
    "flag",
    "not flag",
    "id > 2 and (d > 0 or s is null)",
    "(id = 1 or s = 'b') and not (day is null)",
    "not (id = 1 and s = 'a')",
    "true",
    "false",
]


@pytest.mark.parametrize(
    "conditions",
    [CONDITIONS[::4], pytest.param(CONDITIONS, marks=pytest.mark.exhaustive)],
    ids=["some", "all"],
)
def test_delete_removes_the_rows_that_spark_selects(lake, conditions):
    """Each condition is tried on a version with all rows, which is restored after it."""
    columns = (
        "id int, d double, f float, s string, day date, at timestamp, n decimal(5, 2), flag boolean"
    )
    lake.sql(f"create table lake.t ({columns})", f"insert into lake.t values {VALUES}")
    table = fm.MosaicTable(lake.path / "t")
    full = table.version
    for condition in conditions:
        kept = lake.sql(f"select id from lake.t where not coalesce({condition}, false)")
        lake.sql(f"delete from lake.t where {condition}")
        assert lake.sql("select id from lake.t") == kept, condition
        table.restore(full)
    assert len(lake.sql("select * from lake.t")) == 5


@pytest.mark.since("4.1")  # Spark 4.0 requires a value for each column
def test_columns_without_a_value_are_null(t):
    t.sql("insert into lake.t (id) values (9)")
    assert t.sql("select * from lake.t where id = 9") == [(9, None)]


def test_delete_without_a_condition(t):
    t.sql("delete from lake.t")
    assert ids(t) == []
    assert t.spark.table("lake.t").columns == ["id", "day"]


# ---- all or nothing


def failing(spark, last):
    """Rows of two tasks, of which the second one fails after it has got rows."""
    boom = F.udf(lambda number: number if number < 9 else 1 // 0, "bigint")
    return spark.range(0, last, 1, 2).select(boom("id").alias("id"), F.lit("mo").alias("day"))


def test_a_failed_insert_leaves_nothing(t):
    for write in (
        lambda: failing(t.spark, 10).writeTo("lake.t").append(),
        lambda: failing(t.spark, 10).writeTo("lake.t").overwritePartitions(),
        lambda: failing(t.spark, 10).writeTo("lake.t").createOrReplace(),
    ):
        with pytest.raises(PySparkException, match="ZeroDivisionError"):
            write()
        assert ids(t) == [1, 2, 3, 4]
    assert fm.MosaicTable(t.path / "t").version == 1
    check_vacuum(t.path / "t")


def test_a_failed_create_leaves_nothing(lake):
    with pytest.raises(PySparkException, match="ZeroDivisionError"):
        failing(lake.spark, 10).writeTo("lake.t").create()
    assert lake.sql("show tables in lake") == []
    failing(lake.spark, 5).writeTo("lake.t").create()
    assert ids(lake) == [0, 1, 2, 3, 4]
    check_vacuum(lake.path / "t")


def test_a_namespace_with_a_table_that_was_never_complete(lake):
    lake.sql("create namespace lake.ns")
    with pytest.raises(PySparkException, match="ZeroDivisionError"):
        failing(lake.spark, 10).writeTo("lake.ns.t").create()
    lake.sql("drop namespace lake.ns")
    assert os.listdir(lake.path) == []


def check_vacuum(path):
    """Check that vacuum removes what tasks have left, some of which were cancelled and end later."""

    def is_clean():
        fm.MosaicTable(path).vacuum(0)
        return names_on_disk(path) == named(path)

    eventually(is_clean)


def eventually(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.1)
    assert condition()


def test_a_task_that_is_tried_again_adds_its_rows_once(t):
    def first_attempt_fails(number):
        from pyspark import TaskContext

        if TaskContext.get().attemptNumber() == 0 and number == 19:
            raise ValueError("the first attempt")
        return number

    once = F.udf(first_attempt_fails, "bigint")
    rows = t.spark.range(10, 20, 1, 2).select(once("id").alias("id"), F.lit("mo").alias("day"))
    rows.writeTo("lake.t").append()
    assert ids(t) == sorted([1, 2, 3, 4, *range(10, 20)], key=str)
    assert names_on_disk(t.path / "t") == named(t.path / "t")


INSERT = """
import json, sys, time
import fastmosaic.spark as fs
from pyspark.sql import functions as F
path, marker, conf = sys.argv[1:]
spark = fs.session("killed", "local[2]", **json.loads(conf))
fs.catalog(spark, "lake", path)
def slow(number):
    open(marker, "w").close()
    if number > 4:
        time.sleep(600)
    return number
rows = spark.range(0, 10, 1, 2).select(F.udf(slow, "bigint")("id").alias("id"), F.lit("mo").alias("day"))
rows.writeTo("lake.t").append()
"""


def test_a_killed_insert_is_not_visible(t, tmp_path):
    marker = tmp_path / "started"
    command = [sys.executable, "-c", INSERT, str(t.path), str(marker), json.dumps(CONF)]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        eventually(marker.exists)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert ids(t) == [1, 2, 3, 4]
    t.sql("insert into lake.t values (9, 'mo')")
    assert ids(t) == [1, 2, 3, 4, 9]
    check_vacuum(t.path / "t")


# ---- other writers


def test_concurrent_inserts_both_succeed(t):
    errors = []

    def insert(number):
        try:
            t.sql(f"insert into lake.t values ({number}, 'mo')")
        except PySparkException as error:
            errors.append(error)

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(10, 14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert ids(t) == sorted([1, 2, 3, 4, 10, 11, 12, 13], key=str)


def test_an_insert_is_added_to_what_others_have_committed(t):
    def others():
        table = fm.MosaicTable(t.path / "t")
        table.append(pa.table({"id": [50], "day": ["we"]}))
        table.add_columns(pa.schema({"n": "int32"}))

    with meanwhile("late", others):
        t.sql("insert into lake.t values (9, 'mo')")
    assert t.sql("select * from lake.t where id > 4") == [(50, "we", None), (9, "mo", None)]


@pytest.mark.parametrize(
    "statement",
    [
        "insert overwrite lake.t values (9, 'mo')",
        "insert overwrite lake.t partition (day = 'mo') values (9)",
        "delete from lake.t where id = 1",
        "create or replace table lake.t as select 1 as x",
    ],
)
def test_conflicts_reach_the_user(t, statement):
    def other():
        table = fm.MosaicTable(t.path / "t")
        table.delete([("id", "=", 2)])
        table.append(pa.table({"id": [50], "day": ["mo"]}))

    with meanwhile("late", other), pytest.raises(SparkRuntimeException) as caught:
        t.sql(statement)
    assert re.search(r"another writer has [^\n]*; nothing was committed", str(caught.value))
    assert "\tat " not in str(caught.value)  # the stack of the JVM
    assert ids(t) == [1, 3, 4, 50]
    assert names_on_disk(t.path / "t") == named(t.path / "t")


def test_a_table_that_another_process_creates_first(lake):
    def other():
        fm.MosaicTable.create(lake.path / "t", pa.table({"id": [7]}))

    add = TableStore.add
    with pytest.MonkeyPatch.context() as patch:
        pending = [other]
        patch.setattr(
            TableStore, "add", lambda *given: (pending and pending.pop()(), add(*given))[1]
        )
        with pytest.raises(Exception, match="another process has made it"):
            lake.sql("create table lake.t as select 1 as id")
    assert ids(lake) == [7]


def test_a_query_sees_one_version_while_others_commit(t):
    """Each version of the table has equal values in all rows: no query sees two."""
    path = t.path / "u"
    table = fm.MosaicTable.create(path, pa.table({"id": [0] * 8}))
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1
            table.overwrite(pa.table({"id": [number] * 8}), max_rows_per_file=2)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(8):
            assert t.sql("select count(distinct id), count(*) from lake.u where id >= 0") == [
                (1, 8)
            ]
    finally:
        stop.set()
        thread.join()


# ---- types

EVERYTHING = types.StructType(
    [
        types.StructField("b", types.BooleanType()),
        types.StructField("i8", types.ByteType()),
        types.StructField("i16", types.ShortType()),
        types.StructField("i32", types.IntegerType(), nullable=False),
        types.StructField("i64", types.LongType()),
        types.StructField("f32", types.FloatType()),
        types.StructField("f64", types.DoubleType()),
        types.StructField("s", types.StringType()),
        types.StructField("bin", types.BinaryType()),
        types.StructField("day", types.DateType()),
        types.StructField("at", types.TimestampType()),
        types.StructField("local", types.TimestampNTZType()),
        types.StructField("money", types.DecimalType(38, 10)),
        types.StructField("waited", types.DayTimeIntervalType()),
        types.StructField("list", types.ArrayType(types.IntegerType())),
        types.StructField("map", types.MapType(types.StringType(), types.LongType())),
        types.StructField(
            "nested",
            types.StructType(
                [
                    types.StructField("x", types.TimestampType()),
                    types.StructField("y", types.ArrayType(types.DayTimeIntervalType())),
                ]
            ),
        ),
    ]
)
AT = datetime.datetime(2026, 11, 18, 12, 30, 15, 123456)
ROW = (
    True,
    -128,
    32767,
    -(2**31),
    2**63 - 1,
    1.5,
    -0.1,
    "ü",
    b"\x00\xff",
    datetime.date(1969, 12, 31),
    AT,
    AT,
    decimal.Decimal("1234567890.0123456789"),
    datetime.timedelta(days=-3, microseconds=1),
    [1, None, 3],
    {"k": 5, "n": None},
    (AT, [datetime.timedelta(hours=1), None]),
)
EMPTY = tuple(0 if field.name == "i32" else None for field in EVERYTHING)


def test_all_types(lake):
    frame = lake.spark.createDataFrame([ROW, EMPTY], EVERYTHING)
    columns = ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}{'' if field.nullable else ' not null'}"
        for field in EVERYTHING
    )
    lake.sql(f"create table lake.t ({columns})")
    frame.writeTo("lake.t").append()
    frame.writeTo("lake.u").create()
    for name in ("lake.t", "lake.u"):
        found = lake.spark.table(name)
        assert [field.dataType for field in found.schema] == [one.dataType for one in EVERYTHING]
        assert found.orderBy("i32").collect() == frame.orderBy("i32").collect()
    assert not lake.spark.table("lake.t").schema["i32"].nullable
    with pytest.raises(PySparkException, match="CANNOT_FIND_DATA"):
        lake.sql("insert into lake.t (b) values (true)")
    lake.sql("insert overwrite lake.u select * from lake.t", "delete from lake.u where b is null")
    assert (
        lake.spark.table("lake.u").collect()
        == lake.spark.createDataFrame([ROW], EVERYTHING).collect()
    )


@pytest.mark.since("4.1")
def test_times_of_day(lake):
    lake.spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        lake.sql(
            "create table lake.t (at time(6))",
            "insert into lake.t values (time'12:30:15.123456'), (null)",
        )
        expected = [(None,), (datetime.time(12, 30, 15, 123456),)]
        assert lake.sql("select at from lake.t") == expected
    finally:
        lake.spark.conf.unset("spark.sql.timeType.enabled")


def test_types_that_spark_lacks(lake):
    rows = pa.table(
        {
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "u8": pa.array([255, 0], pa.uint8()),
            "names": pa.array(["a", "b"]).dictionary_encode(),
            "large": pa.array(["a", "b"], pa.large_string()),
            "waited": pa.array([1, 2], pa.duration("s")),
        }
    )
    table = fm.MosaicTable.create(lake.path / "t", rows)
    lake.sql("insert into lake.t select * from lake.t")
    assert table.refresh().read().sort_by("u8").slice(2).num_rows == 2
    assert table.schema.equals(rows.schema)
    with pytest.raises(PySparkException, match="u8"):
        lake.sql("insert into lake.t values (null, -1, null, null, null)")
    assert table.refresh().num_rows == 4


def test_partition_columns_of_all_types(lake):
    lake.sql(
        "create table lake.t (x int, i int, d date, b boolean, at timestamp, n decimal(5, 2)) "
        "partitioned by (i, d, b, at, n)"
    )
    row = "(1, 5, date'2026-01-01', true, timestamp'2026-01-01 12:00:00', 1.10)"
    lake.sql(f"insert into lake.t values {row}, (2, null, null, null, null, null)")
    query = """
        select x from lake.t where i = 5 and d = date'2026-01-01' and b
        and at = timestamp'2026-01-01 12:00:00' and n = 1.1
    """
    assert lake.sql(query) == [(1,)]
    lake.sql("delete from lake.t where n = 1.1")
    assert lake.sql("select x from lake.t where at is null and n is null") == [(2,)]
    with pytest.raises(PySparkException, match="empty string"):
        lake.sql(
            "create table lake.u (x int, s string) partitioned by (s)",
            "insert into lake.u values (1, '')",
        )


# ---- S3


@pytest.fixture
def bucket():
    with no_settings(), s3_api() as port:
        s3fs.S3FileSystem.clear_instance_cache()
        store = s3fs.S3FileSystem(
            key="key",
            secret="a-secret-of-forty-characters-for-tests-1",
            endpoint_url=f"http://{HOST}:{port}",
        )
        store.mkdir("sql-tables")  # other tests of this process leave their buckets
        yield store
        s3fs.S3FileSystem.clear_instance_cache()


def test_tables_on_s3(lake, bucket):
    fs.catalog(lake.spark, "lake", "sql-tables/lake", filesystem=bucket)
    assert lake.sql("show tables in lake") == []
    lake.sql(
        "create namespace lake.ns",
        "create table lake.ns.t (id int, day string) partitioned by (day)",
        "insert into lake.ns.t values (1, 'mo'), (2, 'tu')",
        "insert overwrite lake.ns.t partition (day = 'mo') values (3)",
        "delete from lake.ns.t where id = 2",
        "create table lake.ns.u as select * from lake.ns.t",
        "alter table lake.ns.u add columns (n int)",
    )
    assert lake.sql("show tables in lake.ns") == [("ns", "t", False), ("ns", "u", False)]
    assert lake.sql("select * from lake.ns.u") == [(3, "mo", None)]
    assert lake.sql("select id from lake.ns.t version as of 2") == [(1,), (2,)]
    with pytest.raises(PySparkException, match="cannot be renamed"):
        lake.sql("alter table lake.ns.t rename to ns.v")
    lake.sql("drop table lake.ns.t")
    assert lake.sql("show tables in lake.ns") == [("ns", "u", False)]
    assert not bucket.find("sql-tables/lake/ns/t")
    lake.sql("drop namespace lake.ns cascade")
    assert not bucket.find("sql-tables/lake")
