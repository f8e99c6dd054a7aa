"""Filters at run time: a join skips files and row groups by the values of its other side."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import fastmosaic as fm
import fastmosaic.spark as fs

pytest_plugins = ["spark_session"]

ROWS, DAYS = 800, 8
ODD = "a `b`.c"  # a name that must be quoted


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in directories by day, each with four row groups of ids that rise; the same as Parquet."""
    path = tmp_path_factory.mktemp("runtime")
    ids = range(ROWS)
    table = pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            ODD: pa.array([i // 10 for i in ids], pa.int64()),
            "mixed": pa.array([i * 7 % 11 for i in ids], pa.int64()),
            "value": pa.array([float(i) for i in ids]),
            "day": pa.array([i * DAYS // ROWS for i in ids], pa.int32()),
        }
    )
    fm.write_dataset(
        table,
        path / "mosaic",
        partitioning=["day"],
        write_statistics=["id", ODD, "mixed"],
        row_group_size=25,
    )
    pq.write_to_dataset(table, path / "parquet", partition_cols=["day"])
    days = pa.table(
        {
            "day": pa.array([*range(DAYS), None], pa.int32()),
            "name": [*(f"day {i}" for i in range(DAYS)), "none"],
            "first": pa.array([i * 100 for i in range(DAYS + 1)], pa.int64()),
        }
    )
    fm.write_table(days, path / "days.mosaic")
    return path


@pytest.fixture
def views(spark: SparkSession, directory: Path) -> None:
    fs.read(spark, directory / "mosaic").createOrReplaceTempView("ours")
    spark.read.parquet(str(directory / "parquet")).createOrReplaceTempView("theirs")
    fs.read(spark, directory / "days.mosaic").createOrReplaceTempView("days")


def scan_of(spark: SparkSession, query: str) -> fs.ScanReport:
    """Run a query on both tables; return the last scan of ours."""
    answer = spark.sql(query).collect()
    last = [one for one in fs.scans() if one.total_columns == 5][-1]
    assert answer == spark.sql(query.replace("ours", "theirs")).collect()
    return last


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize(
    "query",
    [
        "select sum(value) from ours join days using (day) where name = 'day 3'",
        "select sum(value) from ours where day in (select day from days where name = 'day 3')",
        "select sum(value) from ours left semi join days on ours.day = days.day and name = 'day 3'",
    ],
)
def test_files_are_skipped(spark: SparkSession, query: str) -> None:
    scan = scan_of(spark, query)
    assert (scan.files, scan.total_files) == (1, DAYS)
    assert scan.num_rows == ROWS // DAYS


@pytest.mark.usefixtures("views")
def test_row_groups_are_skipped(spark: SparkSession) -> None:
    scan = scan_of(
        spark, "select count(value) from ours join days on id = first where name < 'day 2'"
    )
    assert (scan.row_groups, scan.total_row_groups) == (2, 32)
    odd = scan_of(
        spark,
        "select sum(value) from ours join days on ours.`a ``b``.c` = first where name = 'day 0'",
    )
    assert odd.row_groups == 1
    assert "IN (0)" in odd.filters[-1]


@pytest.mark.usefixtures("views")
def test_columns_that_skip_nothing_are_not_offered(spark: SparkSession) -> None:
    """Spark would wait for the other side of the join, for nothing."""
    query = "select sum(value) from ours join days on mixed = first where name = 'day 0'"
    scan = scan_of(spark, query)
    assert scan.row_groups == 32
    assert "dynamicpruning" not in explained(spark, query)


@pytest.mark.usefixtures("views")
def test_the_plan_shows_it(spark: SparkSession) -> None:
    plan = explained(spark, "select value from ours join days using (day) where name = 'day 3'")
    assert "RuntimeFilters: [dynamicpruningexpression(day" in plan
    assert "files 8 of 8" in plan  # what is known before it runs


def explained(spark: SparkSession, query: str) -> str:
    return str(spark.sql(query)._jdf.queryExecution().executedPlan().toString())


@pytest.mark.usefixtures("views")
def test_no_value_at_all(spark: SparkSession) -> None:
    scan = scan_of(spark, "select count(value) from ours join days using (day) where name = 'x'")
    assert scan.row_groups == 0 or scan.files == DAYS  # Spark may not run the scan at all


def test_filters_replace_each_other(spark: SparkSession, directory: Path, tmp_path: Path) -> None:
    """The other side changes between two runs of one DataFrame."""
    ours = fs.read(spark, directory / "mosaic")
    for day in (1, 5):
        other = pa.table({"day": pa.array([day], pa.int32())})
        pq.write_table(other, tmp_path / "day.parquet")
        chosen = spark.read.parquet(str(tmp_path / "day.parquet")).where("day >= 0")
        joined = ours.join(chosen, "day")
        for _ in range(2):
            assert {row.day for row in joined.collect()} == {day}
        assert joined.count() == ROWS // DAYS
