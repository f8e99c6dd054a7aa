"""The Spark benchmarks: every contest is run, wrong answers are noticed, targets are judged."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))

import fastmosaic as fm
from bench import spark as bench
from bench.spark import (
    CONTENDERS,
    CONVERT,
    PARQUET,
    PLANNER,
    ROWS_TO_MOSAIC,
    ROWS_TO_PARQUET,
    Contest,
    Plan,
)

pytest_plugins = ["spark_session"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

PLAN = Plan(columns=30, rows=20, selected=(3,), written=12, turns=1, long_turns=1, sessions=1)
THREE = "3 of 30 columns, aggregated"


def test_the_data_is_the_same_in_each_format(tmp_path: Path) -> None:
    bench.write_data(PLAN, tmp_path)
    table = bench.table_of(PLAN)
    assert (table.num_columns, table.num_rows) == (30, 20)
    for name, count in (("whole", 1), ("parts", 4)):
        for suffix, read in (
            ("mosaic", fm.read_table),
            ("parquet", pq.read_table),
            ("orc", orc.read_table),
        ):
            files = sorted((tmp_path / name / suffix).iterdir())
            assert len(files) == count
            assert pa.concat_tables([read(str(file)) for file in files]).equals(table)


def test_columns_are_scattered() -> None:
    names = [str(i) for i in range(1000)]
    assert bench.chosen(names, 1) == ["500"]
    assert bench.chosen(names, 4) == ["125", "375", "625", "875"]


@pytest.mark.exhaustive
def test_every_contest_is_run(spark: SparkSession, tmp_path: Path) -> None:
    bench.write_data(PLAN, tmp_path)
    results = {one.title: bench.best_times(one) for one in bench.contests(spark, PLAN, tmp_path)}

    reading = ["load", THREE, "10 columns, rows of one file of 4", "count"]
    assert list(results)[:5] == [*reading, "all columns, hashed"]
    for title in list(results)[:5]:
        assert tuple(results[title]) == CONTENDERS
    assert [len(times) for times in list(results.values())[5:]] == [3, 3]
    # A contender that was not measured has an infinite time.
    assert all(math.isfinite(one) for times in results.values() for one in times.values())
    measured = bench.results_of(
        results, PLAN, bench.sizes(tmp_path), java_version := bench.java_version(spark)
    )
    assert len(bench.targets(measured)) == 8  # each contest, and two of `convert`

    page = bench.markdown(measured)
    assert f"pyspark {spark.version}" in page
    assert f"Java {java_version}" in page
    for title in results:
        assert f"| {title} |" in page


def test_other_answers_are_noticed() -> None:
    with pytest.raises(SystemExit, match="count: theirs returns a different answer"):
        bench.best_times(Contest("count", {"ours": lambda: 20, "theirs": lambda: 19}, turns=1))


def test_other_rows_in_files_are_noticed(tmp_path: Path) -> None:
    bench.write_data(PLAN, tmp_path)
    mosaic, parquet = (tmp_path / "whole" / suffix for suffix in ("mosaic", "parquet"))
    works = {"ours": lambda: mosaic, "theirs": lambda: parquet}
    assert set(bench.best_times(Contest("write", works, turns=2))) == set(works)

    pq.write_table(bench.table_of(replace(PLAN, rows=19)), parquet / "0.parquet")
    with pytest.raises(SystemExit, match="write: theirs returns a different answer"):
        bench.best_times(Contest("write", works, turns=2))


def test_targets_are_judged() -> None:
    times = {
        "load": {PLANNER: 1.0, PARQUET: 1.0},
        THREE: {PLANNER: 1.5, PARQUET: 1.0},
        "convert": {CONVERT: 2.0, ROWS_TO_MOSAIC: 9.8, ROWS_TO_PARQUET: 4.0},
    }
    results = bench.results_of(times, PLAN, {"mosaic": 12_300_000}, "17")
    judged = [(one.measured, one.met) for one in bench.targets(results)]
    assert judged == [(1.0, True), (1.5, False), (0.5, True), (4.9, False)]
    page = bench.markdown(results)
    assert "- mosaic: 12.3 MB" in page
    assert "| NOT met | 4.90 |" in page
    assert f"| load | {PARQUET} | 1.00 | 1.00 |" in page


@pytest.mark.exhaustive
def test_a_cold_time_is_of_a_new_session(tmp_path: Path) -> None:
    bench.write_data(PLAN, tmp_path)
    table = bench.table_of(PLAN)
    [number] = bench.chosen(table.column_names, 1)
    loading, querying, answer = bench.in_new_process(
        bench.first_query, PLANNER, ["row_number", number], tmp_path
    )
    assert loading > 0
    assert querying > 0
    largest = max(value for value in table[number].to_pylist() if value is not None)
    assert answer == [(19, largest)]
