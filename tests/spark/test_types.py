"""Structs and the types that Spark lacks: as Spark reads them from Parquet, and pruned by its planner."""

from __future__ import annotations

import datetime
import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pytest
from pyarrow import feather, orc, parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F, types as T

import fastmosaic as fm
import fastmosaic.spark as fs
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.spark.planner.plan import ScanPlanner, ScanReport, scans
from fastmosaic.spark.planner.pushdown import Both, Leaf, to_expression
from fastmosaic.spark.schemas import (
    arrow_for_spark,
    cast_for_spark,
    from_spark,
    to_spark,
    with_fields_of,
)
from fastmosaic.spark.source.load import open_files, plan_load
from fastmosaic.spark.source.options import load_options
from fastmosaic.spark.versions import SparkVersion, installed
from fastmosaic.storage.source import Source

pytest_plugins = ["spark_session"]

FINE = installed() >= SparkVersion(4, 3)  # earlier versions have no times with nanoseconds
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

TIMES = "spark.sql.timeType.enabled"
DAY = datetime.timedelta(days=1)


@pytest.fixture
def times(spark: SparkSession) -> Iterator[None]:
    """Enables Spark's type for times of day."""
    spark.conf.set(TIMES, "true")
    yield
    spark.conf.unset(TIMES)


def texts(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


# ---- types


def scalars() -> pa.Table:
    """Types that Spark lacks, and how it reads them from Parquet."""
    return pa.table(
        {
            "u8": pa.array([0, 255, None], pa.uint8()),
            "u16": pa.array([0, 2**16 - 1, None], pa.uint16()),
            "u32": pa.array([0, 2**32 - 1, None], pa.uint32()),
            "u64": pa.array([0, 2**64 - 1, None], pa.uint64()),
            "seconds": pa.array([5, -1, None], pa.duration("s")),
            "millis": pa.array([5, -1, None], pa.duration("ms")),
            "micros": pa.array([5, -1, None], pa.duration("us")),
            "nanos": pa.array([5, -1, None], pa.duration("ns")),
            "time": pa.array([1, 86_399_999_999, None], pa.time64("us")),
            **(
                {"fine": pa.array([1000, 86_399_999_999_999, None], pa.time64("ns"))}
                if FINE
                else {}
            ),
            "fixed": pa.array([b"abc", b"def", None], pa.binary(3)),
            "pair": pa.array([[1, 2], [3, None], None], pa.list_(pa.int32(), 2)),
            "kind": pa.array(["a", "b", None]).dictionary_encode(),
            "view": pa.array(["a", "b", None], pa.string_view()),
            "large": pa.array([["a"], [], None], pa.large_list(pa.large_string())),
            "small": pa.array([1, 2, None], pa.decimal32(5, 2)),
            "date": pa.array([datetime.date(1960, 1, 1), None, None], pa.date64()),
            "at": pa.array([1, 2, None], pa.timestamp("s", "Europe/Rome")),
        }
    )


def nested(table: pa.Table) -> pa.Table:
    """The columns of a table as fields of a struct, with nulls at each level, and inside a list."""
    columns = [column.combine_chunks() for column in table.columns]
    valid = pc.not_equal(pa.array(range(len(table))), 1)
    struct = pa.StructArray.from_arrays(columns, table.column_names, mask=pc.invert(valid))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), struct)
    keys = pa.array(["x", "y", "z"])
    maps = pa.MapArray.from_arrays(pa.array([0, 0, 1, 3], pa.int32()), keys, struct)
    deep = pa.StructArray.from_arrays([struct, lists], ["one", "many"])
    return pa.table({"struct": struct, "list": lists, "map": maps, "deep": deep})


@pytest.mark.since("4.1")
@pytest.mark.usefixtures("times")
@pytest.mark.parametrize("make", [scalars, lambda: nested(scalars().drop(["view"]))])
def test_types_are_those_of_parquet(spark: SparkSession, tmp_path: Path, make: Any) -> None:
    table = make()
    pq.write_table(table, tmp_path / "a.parquet")
    fm.write_table(table, tmp_path / "a.mosaic")
    theirs = spark.read.parquet(str(tmp_path / "a.parquet"))
    expected = texts(theirs)
    for ours in (
        fs.read(spark, tmp_path / "a.mosaic"),
        spark.read.format("mosaic").load(str(tmp_path / "a.mosaic")),
    ):
        assert ours.schema == theirs.schema
        assert texts(ours) == expected


@pytest.mark.since("4.1")
@pytest.mark.usefixtures("times")
def test_types_that_spark_cannot_read_from_parquet(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table(
        {
            "half": pa.array([np.float16(1.5), None], pa.float16()),
            "time": pa.array([1, 86_399_999], pa.time32("ms")),
            "nothing": pa.nulls(2),
        }
    )
    fm.write_table(table, tmp_path / "a.mosaic")
    df = fs.read(spark, tmp_path)
    assert df.dtypes == [("half", "float"), ("time", "time(3)"), ("nothing", "string")]
    assert [list(row) for row in df.collect()] == [
        [1.5, datetime.time(0, 0, 0, 1000), None],
        [None, datetime.time(23, 59, 59, 999_000), None],
    ]
    for name in ("half", "time"):
        pq.write_table(table.select([name]), tmp_path / "a.parquet")
        with pytest.raises(PySparkException, match="PARQUET_TYPE_ILLEGAL"):
            spark.read.parquet(str(tmp_path / "a.parquet"))


@pytest.mark.since("4.1")
@pytest.mark.parametrize(
    ("type", "message"),
    [
        (pa.month_day_nano_interval(), "Spark does not support month_day_nano_interval"),
        (pa.decimal256(50, 2), "it has more than 38 digits"),
        (pa.decimal128(5, -2), "its scale is negative"),
        (pa.time64("us"), "set spark.sql.timeType.enabled to true"),
    ],
)
def test_types_that_spark_cannot_read(
    spark: SparkSession, tmp_path: Path, type: pa.DataType, message: str
) -> None:
    inside = pa.struct([("ok", pa.int64()), ("odd", pa.list_(type))])
    table = pa.table({"s": pa.array([{"ok": 1, "odd": []}], inside)})
    fm.write_table(table, tmp_path / "a.mosaic")
    with pytest.raises(fm.UnsupportedError, match=f"column 's': .*{message}") as refused:
        fs.read(spark, tmp_path)
    assert refused.value.__notes__ == ["use columns= to leave the column out"]
    assert fs.read(spark, tmp_path, columns=["s.ok"]).collect()[0].s.ok == 1


@pytest.mark.since("4.1")
def test_schemas_there_and_back() -> None:
    inside = T.StructType().add("a", T.IntegerType()).add("b", T.ArrayType(T.StringType()))
    schema = T.StructType(
        [
            T.StructField("s", inside),
            T.StructField("span", T.DayTimeIntervalType(), nullable=False),
            T.StructField("spans", T.ArrayType(T.DayTimeIntervalType(), containsNull=False)),
            T.StructField(
                "deep",
                T.MapType(
                    T.ArrayType(T.LongType()), T.StructType().add("i", T.DayTimeIntervalType(0, 0))
                ),
            ),
            T.StructField(
                "times", T.StructType().add("ms", T.TimeType(3)).add("ns", T.TimeType(9))
            ),
        ]
    )
    arrow = from_spark(schema)
    day = T.DayTimeIntervalType()
    deep = T.MapType(T.ArrayType(T.LongType()), T.StructType().add("i", day))
    assert to_spark(arrow) == T.StructType(
        [T.StructField("deep", deep) if field.name == "deep" else field for field in schema]
    )
    assert arrow.field("span").type == pa.duration("us")
    exchanged = arrow_for_spark(arrow)
    assert exchanged.field("spans").type.value_type == pa.duration("us")
    assert {exchanged.field("times").type.field(i).type for i in range(2)} == {pa.time64("ns")}
    # Without the mark of an interval, it is a number.
    assert to_spark(arrow.set(1, arrow.field("span").remove_metadata()))["span"].dataType == (
        T.LongType()
    )


def test_casts_inside_structs() -> None:
    type = pa.struct([("u", pa.uint64()), ("d", pa.list_(pa.duration("s")))])
    batch = pa.record_batch({"s": pa.array([{"u": 2**64 - 1, "d": [1, None]}, None], type)})
    cast = cast_for_spark(batch, arrow_for_spark(batch.schema))
    assert cast.to_pylist() == [{"s": {"u": 2**64 - 1, "d": [1, None]}}, {"s": None}]
    assert cast.schema.field("s").type == pa.struct(
        [("u", pa.decimal128(20, 0)), ("d", pa.list_(pa.field("element", pa.int64())))]
    )


def test_the_part_of_a_schema_that_spark_asks_for() -> None:
    item = pa.struct([("x", pa.int32()), ("y", pa.string())])
    schema = pa.schema(
        [("a", pa.int64()), ("s", item), ("l", pa.list_(item)), ("m", pa.map_(pa.string(), item))]
    )
    x = T.StructType().add("x", T.IntegerType())
    part = T.StructType().add("m", T.MapType(T.StringType(), x)).add("l", T.ArrayType(x))
    only = pa.struct([("x", pa.int32())])
    assert with_fields_of(schema, part.add("s", x).jsonValue()) == pa.schema(
        [("m", pa.map_(pa.string(), only)), ("l", pa.list_(only)), ("s", only)]
    )


# ---- pruning


ROWS = 100
INFO = pa.struct(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("at", pa.struct([("city", pa.string()), ("zip", pa.uint32())])),
        ("noise", pa.binary()),
    ]
)
ITEM = pa.struct([("x", pa.int32()), ("y", pa.string())])


def people(rows: int = ROWS) -> pa.Table:
    """Rows with structs that are null, that have nulls, and in lists and maps."""

    def info(i: int) -> dict[str, Any] | None:
        place = {"city": f"city {i}", "zip": i} if i % 3 else None
        name = f"name {i:03}" if i % 5 else None
        return {"id": i, "name": name, "at": place, "noise": os.urandom(100)} if i % 7 else None

    def items(i: int) -> list[Any] | None:
        made = [{"x": i + j, "y": f"item {i}.{j}"} if j != 2 else None for j in range(i % 4)]
        return made if i % 11 else None

    every = range(rows)
    return pa.table(
        {
            "id": pa.array(every, pa.int64()),
            "info": pa.array(map(info, every), INFO),
            "items": pa.array(map(items, every), pa.list_(ITEM)),
            "map": pa.array(
                [None if i % 9 == 0 else [("k", {"x": i, "y": f"{i}"})] for i in every],
                pa.map_(pa.string(), ITEM),
            ),
            "span": pa.array(every, pa.duration("ms")),
            "large": pa.array([2**64 - 1 - i for i in every], pa.uint64()),
        }
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in both formats, ten in each row group."""
    root = tmp_path_factory.mktemp("people")
    table = people()
    fm.write_table(table, root / "a.mosaic", row_group_size=10, write_statistics=True)
    pq.write_table(table, root / "a.parquet", row_group_size=10)
    return root


@pytest.fixture(scope="module")
def views(spark: SparkSession, directory: Path) -> None:
    fs.read(spark, directory / "a.mosaic").createOrReplaceTempView("ours")
    spark.read.parquet(str(directory / "a.parquet")).createOrReplaceTempView("theirs")


QUERIES = {
    # A query, and how many columns, fields and row groups of 6, 13 and 10 it reads.
    "select * from t": (6, 13, 10),
    "select info.name from t": (1, 1, 10),
    "select info.at.city, info.at.zip + 1 from t": (1, 2, 10),
    "select info.at from t": (1, 2, 10),
    "select items.x from t": (1, 1, 10),
    "select e.y from (select explode(items) e from t)": (1, 1, 10),
    "select map['k'].x, map_values(map).x from t": (1, 2, 10),
    "select info.id from t where info.name > 'name 090'": (1, 2, 1),
    "select id from t where info.id is null and id < 20": (2, 2, 2),
    "select id from t where info.at.zip between 13 and 15": (2, 2, 1),
    "select id from t where info.at.city in ('city 50', 'city 7')": (2, 2, 2),
    "select id from t where not (info.id > 12)": (2, 2, 2),
    "select id from t where info.name like 'name 02%' or info.id = 77": (2, 3, 2),
    "select id from t where info is null and id < 30": (2, 6, 3),
    "select id from t where get(items, 0).x = 1 and id < 10": (2, 2, 1),
    "select id from t where span > 95": (2, 2, 1),
    "select id from t where large >= 18446744073709551613": (2, 2, 1),
    "select max(info.id), min(info.at.zip), count(info.name), count(*) from t": (0, 0, 0),
    "select min(span), max(span), min(large), max(large) from t": (0, 0, 0),
    "select count(info), max(info), count(items) from t": (2, 7, 10),
    "select a.info.name, b.info.at.city from t a join t b on a.info.id = b.info.id + 1": (1, 2, 10),
}


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("query", QUERIES)
def test_queries_read_only_what_they_need(spark: SparkSession, query: str) -> None:
    def ask(view: str) -> list[str]:
        return texts(spark.sql(query.replace(" t", f" {view}").replace(f"{view}o", "to")))

    assert ask("ours") == ask("theirs")
    report = scans()[-1]
    assert (report.total_columns, report.total_fields, report.total_row_groups) == (6, 13, 10)
    read = (report.columns, report.fields, report.row_groups)
    if " join " in query:  # the other side was planned before
        assert max(read[1], scans()[-2].fields) == QUERIES[query][1]
    else:
        assert read == QUERIES[query]


@pytest.mark.usefixtures("views")
def test_explain_shows_fields(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.sql("select info.name from ours where info.id = 5").explain()
    plan = capsys.readouterr().out
    assert "columns 1 of 6, fields 2 of 13, files 1 of 1, row groups 1 of 10" in plan
    assert "filters [info.id IS NOT NULL, info.id = 5]" in plan


def test_a_field_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that a task reads, counted."""
    table = people(2000)
    fm.write_table(table, tmp_path / "a.mosaic", row_group_size=1000)
    planner = ScanPlanner(
        FileSet(tmp_path), arrow_for_spark(table.schema), "t", lambda: (1 << 30, 1)
    )
    read = Source.read_at
    sizes: list[int] = []

    def counting(source: Source, offset: int, length: int) -> pa.Buffer:
        sizes.append(length)
        return read(source, offset, length)

    monkeypatch.setattr(Source, "read_at", counting)

    def bytes_of(part: pa.Schema) -> tuple[int, ScanReport]:
        planned = planner.plan(part, [], None)
        sizes.clear()
        batch = pa.record_batch({"split": [pickle.dumps(one) for one in planned.splits]})
        assert sum(rows.num_rows for rows in planned.reader()(iter([batch]))) == 2000
        return sum(sizes), planned.report

    def part(name: str, type: pa.DataType) -> pa.Schema:
        return pa.schema([pa.field(name, type)])

    whole, _ = bytes_of(planner.schema.empty_table().select(["info"]).schema)
    name, report = bytes_of(part("info", pa.struct([INFO.field("name")])))
    flags, _ = bytes_of(part("info", pa.struct([])))
    assert whole > 2000 * 100 * 6 // 7  # the noise alone
    assert 0 < flags < name < whole / 20
    assert report.num_bytes < whole / 20
    assert (report.columns, report.fields, report.total_fields) == (1, 1, 13)
    items, _ = bytes_of(part("items", pa.list_(ITEM)))
    one, _ = bytes_of(part("items", pa.list_(pa.struct([ITEM.field("x")]))))
    assert one < items * 0.8


def test_filters_of_fields() -> None:
    schema = pa.schema([("info", INFO), ("u", pa.uint64()), ("d", pa.duration("ns"))])

    def text(*predicates: Any) -> tuple[str | None, pa.Schema]:
        expression, fields = to_expression(predicates, schema.field)
        return None if expression is None else str(expression), pa.schema(fields)

    name = Leaf("=", ("info", "name"), ("x",))
    zip = Leaf("<", ("info", "at", "zip"), (5,))
    assert str(name) == "info.name = 'x'"
    assert text(name, zip)[1] == pa.schema(
        [("info", pa.struct([INFO.field("name"), ("at", pa.struct([("zip", pa.uint32())]))]))]
    )
    for unknown in (
        Leaf("IS_NOT_NULL", ("info",)),  # there are no statistics of structs
        Leaf("=", ("info", "nobody"), (1,)),
        Leaf("=", ("u", "inside"), (1,)),
        Leaf("=", ("u",), (-1,)),
    ):
        assert text(unknown) == (None, pa.schema([]))
        assert text(Both(name, unknown)) == text(name)
    numbers = text(Leaf("=", ("u",), (2**64 - 1,)), Leaf(">", ("d",), (5,)))[0]
    assert numbers == str(
        (pc.field("u") == pa.scalar(2**64 - 1, pa.uint64()))
        & (pc.field("d") > pa.scalar(5, pa.duration("ns")))
    )


# ---- reading


def test_columns_and_schemas_with_structs(spark: SparkSession, directory: Path) -> None:
    path = str(directory / "a.mosaic")
    expected = [None if i % 7 == 0 else f"{i:03}" for i in range(ROWS)]

    def names(df: DataFrame) -> list[str | None]:
        assert df.dtypes == [("info", "struct<name:string>")]
        rows = [row.info for row in df.collect()]
        return [row and (row.name or "") for row in rows]

    chosen = [
        fs.read(spark, path, columns=["info.name"]),
        spark.read.format("mosaic").option("columns", "info.name").load(path),
        spark.read.format("mosaic").option("columns", "info.n*").load(path).drop("info.noise"),
    ]
    for df in chosen[:2]:
        assert names(df) == [
            None if number is None else f"name {number}" if int(number) % 5 else ""
            for number in expected
        ]
    assert chosen[2].dtypes == [("info", "struct<name:string,noise:binary>")]
    wanted = "info struct<more: double, at: struct<zip: double>>, items array<struct<x: long>>"
    for df in (
        fs.read(spark, path, schema=T._parse_datatype_string(wanted)),
        spark.read.format("mosaic").schema(wanted).load(path),
    ):
        row = df.collect()[5]
        assert (row.info.more, row.info.at.zip, row["items"][0].x) == (None, 5, 5)
        assert df.schema == T._parse_datatype_string(wanted)


def test_filters_of_the_data_source(spark: SparkSession, directory: Path) -> None:
    path = str(directory / "a.mosaic")
    for filters, expected in [
        ([["info.name", "=", "name 003"]], [3]),
        ([["info.at.zip", "in", [1, 50]], ["id", "<", 9]], [1]),
        ([["span", "<", 3]], [0, 1, 2]),
        ([["large", ">=", 2**64 - 2]], [0, 1]),
        ([["large", "in", [2**64 - 5]]], [4]),
    ]:
        options = {"path": path, "columns": "id", "filters": json.dumps(filters)}
        parsed = load_options(options)
        reader, splits = plan_load(open_files(path, parsed), parsed)
        found = [row["id"] for split in splits for b in reader.read(split) for row in b.to_pylist()]
        assert found == expected
        assert sum(len(part.groups) for split in splits for part in split.parts) == 1
    parsed = load_options(
        {"path": path, "columns": "info.at.city", "filters": '[["info.id", "<", 2]]'}
    )
    reader, splits = plan_load(open_files(path, parsed), parsed)
    (batch,) = reader.read(splits[0])
    assert batch.to_pylist() == [{"info": {"at": {"city": "city 1"}}}]
    with pytest.raises(PySparkException, match="'soon' is not a valid duration"):
        spark.read.format("mosaic").option("filters", '[["span", ">", "soon"]]').load(path).count()
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        df = spark.read.format("mosaic").options(columns="id, info.id", pushdown="true").load(path)
        pushed = df.filter("info.id between 12 and 14")
        assert [row.id for row in pushed.collect()] == [12, 13]
        assert pushed.rdd.getNumPartitions() == 1
    finally:
        spark.conf.unset(setting)


def test_files_with_different_structs(spark: SparkSession, tmp_path: Path) -> None:
    one = pa.struct([("a", pa.uint8()), ("old", pa.string())])
    two = pa.struct([("new", pa.duration("s")), ("a", pa.int64())])
    fm.write_table(
        pa.table({"s": pa.array([{"a": 1, "old": "x"}, None], one)}),
        tmp_path / "1.mosaic",
        write_statistics=True,
    )
    fm.write_table(
        pa.table({"s": pa.array([{"a": 2**40, "new": 5}], two)}),
        tmp_path / "2.mosaic",
        write_statistics=True,
    )
    df = fs.read(spark, tmp_path)
    assert df.dtypes == [("s", "struct<a:bigint,old:string,new:bigint>")]
    assert [row.s and tuple(row.s) for row in df.collect()] == [
        (1, "x", None),
        None,
        (2**40, None, 5),
    ]
    assert tuple(df.selectExpr("max(s.a)", "count(s.old)", "max(s.new)").collect()[0]) == (
        2**40,
        1,
        5,
    )
    assert scans()[-1].num_bytes == 0
    assert df.filter("s.new = 5").select("s.a").collect()[0].a == 2**40
    assert (scans()[-1].files, scans()[-1].fields) == (1, 2)


# ---- writing


def without_keys(df: DataFrame) -> DataFrame:
    """Keys that are lists as text: Python's keys cannot be lists."""
    return df.withColumn("by_array", F.expr("string(by_array)"))


def test_what_is_written_is_read(spark: SparkSession, tmp_path: Path) -> None:
    sql = """
        select id, if(id = 1, null, named_struct('a', int(id), 'b', named_struct('c', array('x', null)))) s,
            array(named_struct('x', id, 'at', timestamp'2024-07-01 00:00:00'), null) items,
            map('k', named_struct('x', 1.25BD), 'l', null) by_name,
            map(struct(id as k), array(1, null)) by_struct,
            struct(map(array(id), 'x') as m) by_array,
            interval '1 02:03:04.000005' day to second span,
            named_struct('inside', array(interval '1' second, null)) spans,
            array(struct()) nothing
        from range(3)
    """
    df = spark.sql(sql)
    path = tmp_path / "t"
    fs.write(df, path, write_statistics=["id", "span", "s"])
    df.write.format("mosaic").mode("append").save(str(path))
    expected = sorted(texts(without_keys(df)) * 2)
    table = fm.read_table(path)
    assert table.schema.field("span").type == pa.duration("us")
    assert table["span"][0].as_py() == datetime.timedelta(
        days=1, hours=2, minutes=3, seconds=4, microseconds=5
    )
    planned = fs.read(spark, path)
    for back in (
        planned,
        spark.read.format("mosaic").load(str(path)),
        fs.read(spark, path, schema=df.schema),
    ):
        assert [t.replace("interval second", "interval day to second") for _, t in df.dtypes] == [
            t for _, t in back.dtypes
        ]
        assert texts(without_keys(back)) == expected
    spans = planned.filter("span > interval '1' day and span < interval '2' day")
    assert spans.count() == 6
    assert planned.filter("span > interval '2' day").count() == 0
    assert (scans()[-1].row_groups, scans()[-1].total_row_groups) == (2, 4)  # only the appended
    with pytest.raises(PySparkException, match=r"column 's' is struct<.* no common type"):
        fs.write(spark.sql("select 1 as s"), path, mode="append")


@pytest.mark.since("4.1")
@pytest.mark.usefixtures("times")
def test_times_and_intervals_by_a_schema(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.sql(
        "select time'12:34:56.789001' t, "
        f"struct(cast(time'01:02:03' as time({9 if FINE else 6})) as n) s, "
        "interval '3' hour i"
    )
    fs.write(df, tmp_path / "t", write_statistics=["t"])
    back = fs.read(spark, tmp_path / "t")
    assert back.dtypes[:2] == df.dtypes[:2]
    assert back.collect() == df.collect()
    assert back.filter("t < time'12:34:56.789001'").count() == 0
    assert scans()[-1].row_groups == 0
    durations = pa.table({"i": pa.array([90], pa.duration("s"))})
    fm.write_table(durations, tmp_path / "a.mosaic")
    wanted = T.StructType().add("i", T.DayTimeIntervalType())
    for of_schema in (
        fs.read(spark, tmp_path / "a.mosaic", schema=wanted),
        spark.read.format("mosaic").schema(wanted).load(str(tmp_path / "a.mosaic")),
    ):
        assert of_schema.collect()[0].i == datetime.timedelta(seconds=90)
    assert fs.read(spark, tmp_path / "a.mosaic").collect()[0].i == 90


def test_streams_of_structs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    fm.write_table(people(5), tmp_path / "in" / "a.mosaic")
    schema = fs.read(spark, tmp_path / "in").schema
    query = (
        spark.readStream.format("mosaic")
        .schema(schema)
        .load(str(tmp_path / "in"))
        .writeStream.format("mosaic")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    assert texts(fs.read(spark, tmp_path / "out")) == texts(fs.read(spark, tmp_path / "in"))


# ---- jobs


def simple(table: pa.Table) -> pa.Table:
    """Without the types that ORC and JSON lack."""
    at = table["info"].combine_chunks()
    info = pa.StructArray.from_arrays(
        [at.field("id"), at.field("name"), at.field("at").field("city")],
        ["id", "name", "city"],
        mask=at.is_null(),
    )
    return pa.table({"id": table["id"], "info": info, "items": table["items"]})


def test_convert_there_and_back(spark: SparkSession, tmp_path: Path) -> None:
    whole = pa.concat_tables([people(), people()])
    plain = simple(whole.combine_chunks())
    sources = {"parquet": whole, "orc": plain, "json": plain, "arrow": whole}
    pq.write_table(whole, tmp_path / "a.parquet", row_group_size=50)
    orc.write_table(plain, tmp_path / "a.orc")
    with (tmp_path / "a.json").open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in plain.to_pylist())
    feather.write_feather(whole, tmp_path / "a.arrow")
    for format, table in sources.items():
        fs.convert(spark, tmp_path / f"a.{format}", tmp_path / f"{format}.mosaic")
        mosaic = fm.read_table(tmp_path / f"{format}.mosaic")
        assert mosaic.to_pylist() == table.to_pylist(), format
        if format in ("parquet", "arrow"):
            assert mosaic.schema == table.schema
        fs.convert(
            spark, tmp_path / f"{format}.mosaic", tmp_path / f"back-{format}", target_format=format
        )
        (back,) = (tmp_path / f"back-{format}").iterdir()
        read = {
            "parquet": pq.read_table,
            "orc": orc.read_table,
            "json": pyarrow.json.read_json,
            "arrow": feather.read_table,
        }[format]
        again = read(str(back))
        assert again.to_pylist() == table.to_pylist(), format
        if format == "parquet":
            assert again.schema == table.schema


def categories(values: list[str], every: list[str]) -> pa.DictionaryArray:
    numbers = pa.array([every.index(value) for value in values], pa.int8())
    return pa.DictionaryArray.from_arrays(numbers, every, ordered=True)


def test_compact_keeps_types_and_dictionaries(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.mkdir()
    every = ["low", "high", "never"]
    tables = []
    for number, values in enumerate([["low", "high"], ["high", "high"], ["low", "low"]]):
        table = people(2).append_column("level", categories(values, every))
        kind = pa.StructArray.from_arrays(
            [categories(values, every), pa.array([1, 2], pa.uint8())], ["level", "u"]
        )
        half = pa.array([np.float16(1), np.float16(number)], pa.float16())
        table = table.append_column("kind", kind).append_column("half", half)
        table = table.replace_schema_metadata({"made by": "a test"})
        tables.append(
            table.append_column("differs", pa.array([1, 2], [pa.int8(), pa.uint8()][number % 2]))
        )
        fm.write_table(
            tables[-1],
            path / f"{number}.mosaic",
            write_statistics=["info", "large", "span", "kind.u", "differs"],
        )
    before = fm.read_table(path)
    report = fs.compact(spark, path)
    assert (report.files_in, report.files_out) == (3, 1)
    (file,) = path.iterdir()
    after = fm.read_table(file)
    assert after.to_pylist() == before.to_pylist()
    assert after.drop(["differs"]).schema == tables[0].drop(["differs"]).schema
    assert after.schema.field("differs").type == pa.int16()
    assert after.schema.metadata == {b"made by": b"a test"}
    assert after["level"].chunk(0).dictionary.to_pylist() == every
    metadata = fm.read_metadata(file)
    with_statistics = {metadata.schema_block.name(s.position) for s in metadata.statistics(0)}
    assert {
        "info.id",
        "info.at.zip",
        "info.__null__",
        "large",
        "kind.u",
        "differs",
    } <= with_statistics
    found = fs.verify(spark, path)
    assert found.ok
    described = {one.column: one for one in fs.profile(spark, path).columns}
    assert described["large"].max == str(2**64 - 1)
    assert described["differs"].distinct == 2
    (field,) = fs.profile(spark, path, columns=["info.at.city"]).columns
    assert (field.column, field.nulls, field.max) == ("info.at.city", 3, "city 1")


def test_compact_types_without_statistics(spark: SparkSession, tmp_path: Path) -> None:
    """A union of two types may be a decimal that is too large for statistics."""
    (tmp_path / "t").mkdir()
    for number, type in enumerate([pa.uint64(), pa.int64()]):
        fm.write_table(
            pa.table({"x": pa.array([number], type)}),
            tmp_path / "t" / f"{number}.mosaic",
            write_statistics=True,
        )
    assert fs.compact(spark, tmp_path / "t").files_out == 1
    assert [int(value) for value in fm.read_table(tmp_path / "t")["x"].to_pylist()] == [0, 1]


def test_convert_sorts_by_values(spark: SparkSession, tmp_path: Path) -> None:
    every = ["b", "c", "a", "unused"]
    table = people(3).append_column("level", categories(["c", "b", "a"], every))
    feather.write_feather(table, tmp_path / "a.arrow")
    fs.convert(spark, tmp_path / "a.arrow", tmp_path / "out", sort_by="level")
    found = fm.read_table(tmp_path / "out")
    assert found["level"].to_pylist() == ["a", "b", "c"]
    assert found["level"].chunk(0).dictionary.to_pylist() == every
    assert found["info"].to_pylist() == [table["info"][i].as_py() for i in (2, 1, 0)]
    assert found.schema == table.schema
    wanted = pa.schema([("id", pa.uint8()), ("level", pa.string())])
    fs.convert(spark, tmp_path / "out", tmp_path / "some", schema=wanted)
    assert fm.read_table(tmp_path / "some").schema == wanted
    feather.write_feather(pa.table({"id": [300]}), tmp_path / "b.arrow")
    with pytest.raises(fm.SchemaMismatchError, match="cannot convert int64 to uint8"):
        fs.convert(spark, tmp_path / "b.arrow", tmp_path / "other", schema=wanted)
    for column in ("info", "items"):
        with pytest.raises(fm.UnsupportedError, match=f"cannot sort by column '{column}'"):
            fs.convert(spark, tmp_path / "out", tmp_path / "other", sort_by=column)
