"""A catalog in the Spark session of the tests: the fixture `lake`, and short forms to use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import fastmosaic.spark as fs


class SqlLake:
    """A catalog called `lake`, in a directory of its own."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self.spark = spark
        self.path = path
        fs.catalog(spark, "lake", path)

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one, sorted."""
        rows: list[Any] = []
        for statement in statements:
            rows = self.spark.sql(statement).collect()
        return sorted((tuple(row) for row in rows), key=str)

    def error(self, statement: str) -> str | None:
        """Run a statement that fails; return Spark's class of the error."""
        with pytest.raises(PySparkException) as caught:
            self.sql(statement)
        return caught.value.getCondition()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[SqlLake]:
    (tmp_path / "lake").mkdir()
    yield SqlLake(spark, tmp_path / "lake")
    spark.catalog.setCurrentCatalog("spark_catalog")
