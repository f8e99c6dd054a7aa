"""The plain data source: loading by Spark's own means, what it reads, and what it says of mistakes."""

import datetime
import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import fastmosaic as fm
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.query.selection import NameList, selected
from fastmosaic.spark.source.load import open_files, plan_load
from fastmosaic.spark.source.options import load_options
from fastmosaic.spark.source.source import MosaicDataSource

pytest_plugins = ["spark_session"]
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


@pytest.fixture
def load(spark):
    """Loads a path with options."""
    return lambda path, **options: spark.read.format("mosaic").options(**options).load(path)


@pytest.fixture
def wide(tmp_path):
    """300 columns, in ten row groups of ten rows, with statistics of one."""
    table = pa.table(
        {"id": pa.array(range(100), pa.int64())}
        | {f"sensor_{n:03d}": pa.array([row * n / 7 for row in range(100)]) for n in range(300)}
    )
    path = tmp_path / "wide.mosaic"
    fm.write_table(table, path, row_group_size=10, write_statistics=["id"])
    return str(path)


def size_of(path, **options):
    """The bytes that tasks read, by the plan."""
    parsed = load_options({"path": path, **options})
    return sum(split.size for split in plan_load(open_files(path, parsed), parsed)[1])


def test_spark_finds_the_source_by_itself(load, wide):
    df = load(wide)
    assert len(df.columns) == 301
    assert df.select("id").agg(F.sum("id")).collect()[0][0] == sum(range(100))


@pytest.mark.since("4.1")
def test_the_source_can_be_registered(spark, wide):
    spark.dataSource.register(MosaicDataSource)
    assert spark.read.format("mosaic").load(wide).count() == 100


def test_columns_by_name_and_pattern(load, wide):
    df = load(wide, columns="sensor_00*, id")
    assert df.columns == [*(f"sensor_{n:03d}" for n in range(10)), "id"]
    assert df.agg(F.sum("sensor_007")).collect()[0][0] == pytest.approx(sum(range(100)))
    assert load(wide, columns='["id"]').columns == ["id"]
    with pytest.raises(PySparkException, match="no column matches 'sensr_"):
        load(wide, columns="sensr_*")
    with pytest.raises(PySparkException, match="no column named 'sensor_30'; did you mean"):
        load(wide, columns="sensor_30")


def test_only_columns_that_are_loaded_are_read(wide):
    everything = size_of(wide)
    assert size_of(wide, columns="sensor_123") < everything / 50
    assert size_of(wide, columns="id", filters='[["id", "<", 10]]') < size_of(wide, columns="id")


def test_a_name_is_taken_as_it_is_before_it_is_a_pattern():
    assert selected(["a[1]", "b*"], NameList(["a1", "a[1]", "b1", "b*"])) == ["a[1]", "b*"]
    assert selected(["b*", "b1"], NameList(["b1", "b2"])) == ["b1", "b2"]


def test_a_schema_chooses_columns_and_types(spark, wide):
    reader = spark.read.format("mosaic").schema("sensor_001 double, id int, missing string")
    df = reader.load(wide)
    assert df.filter("id = 7").collect() == [(1.0, 7, None)]
    with pytest.raises(
        PySparkException, match="with the option columns or with a schema, not with both"
    ):
        reader.option("columns", "id").load(wide).count()


def test_filters_leave_rows_out(spark, load, tmp_path):
    table = pa.table(
        {
            "x": [1, 2, 3, 4],
            "day": [datetime.date(2024, 1, n) for n in range(1, 5)],
            "at": pa.array(
                [datetime.datetime(2024, 1, n) for n in range(1, 5)], pa.timestamp("us")
            ),
            "price": pa.array([Decimal(n) / 4 for n in range(4)], pa.decimal128(9, 2)),
        }
    )
    fm.write_table(table, tmp_path / "a.mosaic")
    for filters, expected in [
        ([["x", ">", 2]], [3, 4]),
        ([["x", "in", [1, 4]], ["day", "<", "2024-01-02"]], [1]),
        ([[["at", "=", "2024-01-03 00:00:00"]], [["price", "<=", "0.25"]]], [1, 2, 3]),
    ]:
        df = load(str(tmp_path), filters=json.dumps(filters), columns="x")
        assert [row.x for row in df.collect()] == expected
    for filters, message in [
        ("x > 2", "option filters="),
        ('[["y", ">", 2]]', "no column named 'y'"),
        ('[["day", ">", "soon"]]', "'soon' is not a valid date32"),
        ('[["x", "~", 2]]', "~"),
    ]:
        with pytest.raises(PySparkException, match=message):
            load(str(tmp_path), filters=filters).count()


def test_filters_that_spark_pushes_skip_row_groups(spark, load, wide):
    name = "spark.sql.python.filterPushdown.enabled"
    assert load(wide, columns="id", pushdown="true").filter("id < 15").count() == 15
    spark.conf.set(name, "true")
    try:
        df = load(wide, columns="id", pushdown="true")
        plan = df.filter("id < 15").select(F.spark_partition_id(), "id")
        assert sorted(row.id for row in plan.collect()) == list(range(15))
        assert df.filter("id < 15").count() == 15
        # Spark keeps what it pushed, so by default nothing is skipped: see `LoadOptions`.
        shared = load(wide, columns="id")
        assert (shared.filter("id < 15").count(), shared.count()) == (15, 100)
    finally:
        spark.conf.unset(name)


def test_many_files_and_partitions(load, tmp_path):
    for year, columns in ((2023, {"x": [1]}), (2024, {"x": [2.5], "y": ["b"]})):
        (tmp_path / f"year={year}").mkdir()
        kind = pa.float32() if year == 2023 else pa.float64()
        table = pa.table(columns | {"x": pa.array(columns["x"], kind)})
        fm.write_table(table, tmp_path / f"year={year}" / "a.mosaic")
    rows = {(row.x, row.y, row.year) for row in load(str(tmp_path)).collect()}
    assert rows == {(1.0, None, 2023), (2.5, "b", 2024)}
    assert load(str(tmp_path), partitioning="none").columns == ["x", "y"]
    assert load(f"{tmp_path}/year=2024/*.mosaic").count() == 1
    both = [f"{tmp_path}/year=2024", f"{tmp_path}/year=2023"]
    assert load(both).filter("year = 2023").count() == 1
    with pytest.raises(PySparkException, match="column 'x' is float"):
        load(str(tmp_path), unify="false")


def test_tasks_are_sized_by_what_they_read(load, tmp_path):
    texts = [os.urandom(1024).hex() for _ in range(4000)]
    table = pa.table({"id": list(range(4000)), "text": texts})
    fm.write_table(table, tmp_path / "a.mosaic", row_group_size=100)
    path = str(tmp_path / "a.mosaic")
    # Hexadecimal digits of random bytes take at least those bytes: 4 MB, and the numbers little.
    assert load(path, max_split_bytes=1 << 20).rdd.getNumPartitions() >= 4
    assert load(path, max_split_bytes=1 << 20, columns="id").rdd.getNumPartitions() == 1
    assert load(path, max_split_bytes=1 << 20).agg(F.sum("id")).collect()[0][0] == sum(range(4000))


def test_a_frame_keeps_to_the_files_that_it_found(load, tmp_path):
    fm.write_table(pa.table({"x": [1]}), tmp_path / "a.mosaic")
    df = load(str(tmp_path))
    assert df.count() == 1
    fm.write_table(pa.table({"x": ["no longer a number"]}), tmp_path / "b.mosaic")
    assert df.count() == 1


def test_nanoseconds_that_spark_cannot_have_are_named(load, tmp_path):
    fm.write_table(pa.table({"t": pa.array([1], pa.timestamp("ns"))}), tmp_path / "a.mosaic")
    with pytest.raises(PySparkException, match="column 't': cannot convert timestamp"):
        load(str(tmp_path)).collect()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colums": "x"}, "unknown option 'colums'; did you mean 'columns'"),
        ({"maxSplitByte": "5"}, "did you mean 'max_split_bytes'"),
        ({"partition_by": "x"}, "option 'partition_by' is not an option for reading"),
        ({"unify": "perhaps"}, "option unify='perhaps': .*expected true or false"),
        ({"maxSplitBytes": "much"}, "option max_split_bytes='much'"),
        ({"partitioning": "directory"}, "expected one of hive, none"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        load_options(options)


def test_a_wrong_option_is_an_error_of_load(load, wide):
    with pytest.raises(PySparkException, match="unknown option 'colums'; did you mean 'columns'"):
        load(wide, colums="x")


def test_files_that_are_missing_or_bad_are_named(spark, load, tmp_path, wide):
    with pytest.raises(PySparkException, match=r"nowhere"):
        load(str(tmp_path / "nowhere"))
    with pytest.raises(PySparkException, match="missing path"):
        spark.read.format("mosaic").load()
    (tmp_path / "bad.mosaic").write_bytes(Path(wide).read_bytes()[:-9])
    with pytest.raises(PySparkException, match=r"bad\.mosaic"):
        load(str(tmp_path))


# ---- streams


@pytest.fixture
def follow(spark, tmp_path):
    """Reads the stream of a directory to its end; the rows of each batch."""

    def run(path, schema=None, **options):
        batches = []
        reader = spark.readStream.format("mosaic").options(**options)
        if schema is not None:
            reader = reader.schema(schema)
        query = (
            reader.load(str(path))
            .writeStream.foreachBatch(
                lambda df, _: batches.append(sorted(row.id for row in df.collect()))
            )
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return [batch for batch in batches if batch]

    return run


@pytest.mark.since("4.2")
def test_a_stream_reads_each_file_once(follow, tmp_path):
    path = tmp_path / "t"
    path.mkdir()
    for n in range(3):
        fm.write_table(pa.table({"id": [n]}), path / f"{n}.mosaic")
    assert follow(path, max_files_per_trigger=2) == [[0, 1], [2]]
    fm.write_table(pa.table({"id": [7], "more": [1]}), path / "00.mosaic")
    os.utime(path / "00.mosaic", (0, 0))  # it is older, and its name comes first, but it is new
    assert follow(path) == [[7]]
    assert follow(path) == []


def test_a_stream_without_limits_reads_all_new_files(tmp_path):
    from fastmosaic.spark.source.stream import StreamReader

    fm.write_table(pa.table({"id": [1]}), tmp_path / "a.mosaic")
    schema = FileSet(str(tmp_path)).columns.to_arrow()
    reader = StreamReader(str(tmp_path), schema, load_options({"path": ""}))
    first = reader.latestOffset()
    fm.write_table(pa.table({"id": [2]}), tmp_path / "b.mosaic")
    (one,) = reader.partitions(first, reader.latestOffset())
    assert [row for batch in reader.read(one) for row in batch.to_pylist()] == [{"id": 2}]


@pytest.mark.exhaustive
def test_a_stream_waits_for_its_directory(follow, tmp_path):
    path = tmp_path / "t"
    assert follow(path, schema="id long") == []
    (path / "k=1").mkdir(parents=True)
    fm.write_table(pa.table({"id": [1]}), path / "k=1" / "a.mosaic")
    assert follow(path, schema="id long") == [[1]]


@pytest.mark.since("4.2")
def test_offsets_are_of_files_that_are_there(tmp_path):
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles

    from fastmosaic.spark.source.limited_stream import LimitedStreamReader

    fm.write_table(pa.table({"id": [1]}), tmp_path / "a.mosaic")
    fm.write_table(pa.table({"id": [2]}), tmp_path / "b.mosaic")
    schema = FileSet(str(tmp_path)).columns.to_arrow()
    reader = LimitedStreamReader(str(tmp_path), schema, load_options({"path": ""}))
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxFiles(1))
    last = reader.latestOffset(first, ReadAllAvailable())
    (one,) = reader.partitions(first, last)
    assert [row for batch in reader.read(one) for row in batch.to_pylist()] == [{"id": 2}]
    assert list(reader.partitions(last, last)) == []
    assert reader.latestOffset(last, ReadAllAvailable()) == last


def test_the_memory_of_a_batch_is_limited(spark, tmp_path):
    path = str(tmp_path / "a.mosaic")
    fm.write_table(pa.table({"a": pa.array([7] * 1_000_000)}), path)
    loaded = spark.read.format("mosaic").option("memoryLimit", "1m").load(path)
    assert loaded.selectExpr("sum(a)").collect() == [(7_000_000,)]
    long = str(tmp_path / "long.mosaic")
    fm.write_table(pa.table({"s": ["x" * 100_000]}), long)
    with pytest.raises(PySparkException, match="the limit is 65,536"):
        spark.read.format("mosaic").option("memory_limit", "64k").load(long).collect()
