"""The Spark session that all tests share, in one process of pytest-xdist.

A test module that uses the fixture `spark` has the line

pytest_plugins = ["spark_session"]
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from spark_jvm import CONF, PATH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests that use the session into one group, so that only one process starts it.

    Leave out tests of what the installed version of Spark does not have.
    """
    from fastmosaic.spark.versions import SparkVersion, installed

    absent = [
        item
        for item in items
        for mark in item.iter_markers("since")
        if installed() < SparkVersion.of(mark.args[0])
    ]
    if absent:
        config.hook.pytest_deselected(items=absent)
        items[:] = [item for item in items if item not in absent]
    for item in items:
        if isinstance(item, pytest.Function) and "spark" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores that tries tasks three times; its files are in a temporary directory."""
    from fastmosaic.spark.sessions import session

    paths = [PATH, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    directory = tmp_path_factory.mktemp("spark")
    conf = {
        **CONF,
        "spark.local.dir": str(directory / "local"),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    spark = session("tests", "local[2,3]", **conf)
    yield spark
    spark.stop()
