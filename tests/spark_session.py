"""The Spark session that the tests share. A test module asks for it by

pytest_plugins = ["spark_session"]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE = Path(__file__).parent.parent / "src"

CONF = {
    "spark.driver.memory": "1g",
    # Tests are short: optimizing code costs more than it saves.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores that tries tasks three times; its files are in a temporary directory."""
    from fastmosaic.spark.sessions import session

    paths = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # the workers' too
    directory = tmp_path_factory.mktemp("spark")
    conf = {
        **CONF,
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    spark = session("tests", "local[2,3]", **conf)
    yield spark
    spark.stop()
