"""Spark 3.5, which has no data sources in Python: named columns are read, and jobs and `write` work."""

import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

import fastmosaic as fm
import fastmosaic.spark as fs

pytest_plugins = ["spark_session"]

NOON = datetime.datetime(2026, 3, 1, 12)


@pytest.fixture(scope="module")
def table():
    ids = range(1000)
    return pa.table(
        {
            "id": ids,
            "text": [None if i % 5 == 0 else f"text {i}" for i in ids],
            "at": pa.array([NOON] * 1000, pa.timestamp("us")),
            "when": pa.array([NOON] * 1000, pa.timestamp("us", "UTC")),
            "info": [{"a": i, "b": [i, None]} for i in ids],
            "key": pa.array([i % 4 for i in ids], pa.int32()),
        }
    )


@pytest.fixture(scope="module")
def directory(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows"
    fm.write_dataset(table, path, partitioning=["key"], max_rows_per_file=100)
    return path


def rows(df):
    return sorted((row.asDict(recursive=True) for row in df.collect()), key=lambda row: row["id"])


def test_named_columns_are_those_of_parquet(spark, table, directory, tmp_path):
    pq.write_table(table, tmp_path / "rows.parquet")
    df = fs.read(spark, directory, columns=table.schema.names)
    theirs = spark.read.parquet(str(tmp_path / "rows.parquet"))
    assert df.dtypes == theirs.dtypes
    assert rows(df) == rows(theirs)


def test_only_named_columns_are_read(spark, directory):
    df = fs.read(spark, directory, columns=["id", "info.a"])
    assert df.columns == ["id", "info"]
    assert df.where("id >= 500").count() == 500
    assert df.agg({"id": "sum"}).first()[0] == sum(range(1000))


def test_patterns_and_a_schema_name_columns(spark, directory):
    assert fs.read(spark, directory, columns=["te*"]).columns == ["text"]
    df = fs.read(spark, directory, schema=pa.schema([("id", pa.int32())]))
    assert df.dtypes == [("id", "int")]


def test_without_columns_the_error_says_what_to_do(spark, directory):
    with pytest.raises(fm.UnsupportedError, match=r"pass the columns to read as columns=\[...\]"):
        fs.read(spark, directory)


def test_views_and_joins(spark, directory):
    fs.read(spark, directory, columns=["id", "key"]).createOrReplaceTempView("rows")
    found = spark.sql("select count(*) from rows a join rows b on a.id = b.id where a.key = 1")
    assert found.first()[0] == 250


def test_the_modes_of_writing(spark, table, directory, tmp_path):
    df = fs.read(spark, directory, columns=table.schema.names)
    target = tmp_path / "copy"
    fs.write(df, target, partition_by="key", write_statistics=["id"])
    assert (target / "_SUCCESS").exists()
    with pytest.raises(FileExistsError):
        fs.write(df, target, partition_by="key")
    fs.write(df, target, partition_by="key", mode="ignore")
    same = fm.read_table(target).sort_by("id").select(table.schema.names)
    assert same.to_pylist() == table.to_pylist()
    fs.write(df, target, partition_by="key", mode="append")
    assert fm.read_table(target).num_rows == 2 * table.num_rows
    fs.write(df.where("id < 10"), target, partition_by="key", mode="overwrite")
    assert fm.read_table(target).num_rows == 10


def test_a_write_that_fails_leaves_nothing(spark, directory, tmp_path):
    from pyspark.sql import functions as F

    df = fs.read(spark, directory, columns=["id"])
    bad = df.select(F.when(F.col("id") == 999, F.raise_error(F.lit("stop"))).otherwise(F.col("id")))
    with pytest.raises(Py4JJavaError, match="stop"):
        fs.write(bad, tmp_path / "bad")
    assert not list(tmp_path.rglob("*.mosaic"))


def test_writing_into_a_table_is_refused(spark, directory, tmp_path):
    fm.MosaicTable.create(tmp_path / "table", pa.table({"id": [1]}))
    with pytest.raises(ValueError, match="is a table"):
        fs.write(fs.read(spark, directory, columns=["id"]), tmp_path / "table", mode="append")


def test_jobs(spark, table, tmp_path):
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    report = fs.convert(spark, tmp_path / "rows.parquet", tmp_path / "made")
    assert report.rows == 1000
    fm.write_table(table, tmp_path / "made" / "more.mosaic")
    assert fs.compact(spark, tmp_path / "made").files_in == 2
    assert fs.verify(spark, tmp_path / "made").ok
    assert fs.profile(spark, tmp_path / "made", columns=["id"]).columns[0].rows == 2000
    made = fm.MosaicTable.create(tmp_path / "table", table)
    fs.add_columns(spark, tmp_path / "table", {"twice": "id * 2"})
    assert made.refresh().read(["twice"]).column(0).to_pylist() == [2 * i for i in range(1000)]
