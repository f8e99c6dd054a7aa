"""The 22 queries of TPC-H: Spark over Mosaic files and DuckDB over Parquet files answer the same."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.tpch_data import difference, write_tables
from bench.tpch_queries import TABLES, queries
from fastmosaic.spark import read, scans

pytest_plugins = ["spark_session"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

SCALE = 0.01
QUERIES = queries(SCALE)


@pytest.fixture(scope="module")
def parquet(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with views of the Parquet files; the session of Spark has the same views of Mosaic files."""
    mosaic, parquet = write_tables(tmp_path_factory.mktemp("tpch"), SCALE)
    with duckdb.connect() as connection:
        for name in TABLES:
            read(spark, mosaic / f"{name}.mosaic").createOrReplaceTempView(name)
            connection.execute(f"create view {name} as from '{parquet / name}.parquet'")
        yield connection
    for name in TABLES:
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("name", QUERIES)
def test_the_answer_is_that_of_duckdb(
    name: str, spark: SparkSession, parquet: duckdb.DuckDBPyConnection
) -> None:
    expected = parquet.execute(QUERIES[name]).fetchall()
    assert expected
    assert difference(spark.sql(QUERIES[name]).collect(), expected) == ""
    assert scans()[-1].name.endswith(".mosaic")  # Spark's planner pruned columns
