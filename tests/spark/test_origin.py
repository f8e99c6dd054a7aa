"""`_metadata`: the file that a row is from, and its number in it, as for Spark's own formats."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

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
    "select id, _metadata.row_index, day from t where id >= 70 and id < 130 order by id",
    "select _metadata.file_path, count(*) from t group by 1 order by 1",
    "select id, text from t where _metadata.row_index = 45 order by id",
    "select count(distinct _metadata.file_name), max(_metadata.row_index) from t",
    "select a.id from t a join t b on a.id = b.id and a._metadata.row_index = b._metadata.row_index "
    "where b.day = 1 order by 1",
    "select id from t where _metadata.row_index in (select day from t) order by id",
]


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_parquet(both: tuple[DataFrame, DataFrame], query: str) -> None:
    answers = []
    for df in both:
        df.createOrReplaceTempView("t")
        rows = df.sparkSession.sql(query).collect()
        answers.append([str(row).replace("mosaic", "parquet") for row in rows])
    assert answers[0]
    assert answers[0] == answers[1]


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
