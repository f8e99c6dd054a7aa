"""Spark asks Python few questions while it plans a query: each one waits for the other process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.java_gateway import GatewayConnection
from pyspark.sql import DataFrame, SparkSession

import fastmosaic as fm
import fastmosaic.spark as fs
from fastmosaic.spark.planner import proxies

pytest_plugins = ["spark_session"]

ASKED = (proxies.TableProxy, proxies.ScanBuilderProxy, proxies.ScanProxy, proxies.BatchProxy)
COLUMNS = [f"c{i}" for i in range(8)]
ROWS = 100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planning") / "t.mosaic"
    table = pa.table({"key": range(ROWS)} | {name: range(ROWS) for name in COLUMNS})
    fm.write_table(table, path, row_group_size=25, write_statistics=["key"])
    return path


@pytest.fixture
def table(spark: SparkSession, path: Path) -> DataFrame:
    return fs.read(spark, path)


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, str]]:
    """The Python objects that Spark asks, with the names of the methods."""
    asked: list[tuple[Any, str]] = []

    def noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *given: Any) -> Any:
            asked.append((self, name))
            return method(self, *given)

        return call

    for kind in ASKED:
        for name, method in list(vars(kind).items()):
            if callable(method) and not name.startswith("_") and not isinstance(method, type):
                monkeypatch.setattr(kind, name, noting(name, method))
    return asked


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Python sends to the JVM while it answers, but for objects that it has dropped."""
    sent: list[str] = []
    send = GatewayConnection.send_command

    def noting(self: GatewayConnection, command: str, *given: Any) -> Any:
        if not command.startswith("m\n"):
            sent.append(command)
        return send(self, command, *given)

    monkeypatch.setattr(GatewayConnection, "send_command", noting)
    return sent


def test_no_question_is_asked_twice(table: DataFrame, questions: list[tuple[Any, str]]) -> None:
    """Also if Spark describes the plan again after each stage of a query."""
    grouped = table.groupBy("c1").agg({"c2": "sum"})
    joined = table.where("c3 > 10").join(grouped, "c1").join(table.select("key", "c4"), "key")
    assert joined.orderBy("key").count() == ROWS - 11
    numbers = Counter((id(asked), name) for asked, name in questions)
    repeated = {name for (_, name), number in numbers.items() if number > 1}
    assert repeated <= {"capabilities", "newScanBuilder"}
    assert sum(name == "newScanBuilder" for _, name in questions) == 3
    assert len(questions) < 80


def test_all_predicates_take_one_call(table: DataFrame, calls: list[str]) -> None:
    def number_of_calls(condition: str) -> int:
        calls.clear()
        assert table.where(condition).select("key").collect() == [(7,)]
        return len(calls)

    both = "c0 = 7 and c1 = 7"
    many = " and ".join(f"{name} in (7, 8, {i}) and {name} < 8" for i, name in enumerate(COLUMNS))
    number_of_calls(both)  # the first query also asks for constants
    assert number_of_calls(many) == number_of_calls(both) < 40
