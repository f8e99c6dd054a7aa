"""`_metadata`: the file that a row is from, and its number in it, as for Spark's own formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import fastmosaic as fm
import fastmosaic.spark as fs

pytest_plugins = ["spark_session"]

ROWS = 200


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in the same places as Mosaic and Parquet files, whose names differ in the suffix."""
    path = tmp_path_factory.mktemp("where from")  # with a character that URIs encode
    table = pa.table({"id": range(ROWS), "text": [f"text {i}" for i in range(ROWS)]})
    for day in range(2):
        rows = table.slice(day * 100, 100)
        for kind in ("mosaic", "parquet"):
            (path / kind / f"day={day}").mkdir(parents=True)
        name = f"day={day}/part"
        fm.write_table(
            rows, path / f"mosaic/{name}.mosaic", row_group_size=30, write_statistics=["id"]
        )
        pq.write_table(rows, path / f"parquet/{name}.parquet", row_group_size=30)
    return path


@pytest.fixture
def both(spark: SparkSession, directory: Path) -> tuple[DataFrame, DataFrame]:
    return (
        fs.read(spark, directory / "mosaic"),
        spark.read.parquet(str(directory / "parquet")),
    )


QUERIES = [
    lambda df: df.where("id >= 70 and id < 130").select("id", "_metadata.row_index", "day"),
    lambda df: df.groupBy("_metadata.file_path").count(),
    lambda df: df.where("_metadata.row_index = 45").select("id", "text"),
    lambda df: df.selectExpr("count(distinct _metadata.file_name)", "max(_metadata.row_index)"),
    lambda df: df.selectExpr("_metadata.row_index as n", "id").join(df.where("day = 1"), "id"),
    lambda df: df.selectExpr("_metadata.row_index as n", "id").join(
        df.selectExpr("cast(day as bigint) n").distinct(), "n"
    ),
]


def shown(row: Row) -> str:
    """Return a row as text, without what differs: suffixes, and how versions of Spark begin URIs."""
    return str(row).replace("mosaic", "parquet").replace("file:///", "file:/")


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
def test_answers_are_those_of_parquet(
    both: tuple[DataFrame, DataFrame], query: Callable[[DataFrame], DataFrame]
) -> None:
    ours, theirs = (sorted(map(shown, query(df).collect())) for df in both)
    assert ours
    assert ours == theirs


def test_it_is_hidden_and_costs_nothing(both: tuple[DataFrame, DataFrame]) -> None:
    ours, _ = both
    assert ours.columns == ["id", "text", "day"]
    ours.select("_metadata.row_index").collect()
    assert fs.scans()[-1].num_bytes == 0


def test_sizes_of_files(both: tuple[DataFrame, DataFrame], directory: Path) -> None:
    ours, _ = both
    found = {row.file_size for row in ours.select("_metadata.file_size").distinct().collect()}
    assert found == {file.stat().st_size for file in directory.rglob("*.mosaic")}


def test_row_groups_are_still_skipped(both: tuple[DataFrame, DataFrame]) -> None:
    ours, _ = both
    rows = ours.where("id = 95").select("_metadata.row_index").collect()
    assert [row.row_index for row in rows] == [95]
    assert fs.scans()[-1].row_groups == 1


def test_a_column_of_that_name_wins(spark: SparkSession, tmp_path: Path) -> None:
    fm.write_table(pa.table({"_metadata": ["mine"]}), tmp_path / "own.mosaic")
    assert fs.read(spark, tmp_path / "own.mosaic").select("_metadata").first()[0] == "mine"


def test_rows_of_a_table_with_added_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = fm.MosaicTable.create(tmp_path / "table", pa.table({"id": range(10)}))
    table.add_columns({"twice": pc.field("id") * 2})
    rows = fs.read(spark, tmp_path / "table").selectExpr("twice", "_metadata.row_index").collect()
    assert [row.twice for row in rows] == [2 * row.row_index for row in rows]
