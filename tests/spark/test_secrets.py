"""Credentials in URIs work in Spark, and plans, reports, checkpoints and errors do not show them."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from servers import s3_uris

import fastmosaic as fm
from fastmosaic.spark.jobs.convert import convert
from fastmosaic.spark.jobs.profile import profile
from fastmosaic.spark.jobs.verify import verify
from fastmosaic.spark.planner.plan import scans
from fastmosaic.spark.planner.read import read
from fastmosaic.spark.source.source import MosaicDataSource
from fastmosaic.spark.source.write import write
from fastmosaic.spark.versions import register
from fastmosaic.storage.sink import open_sink

pytest_plugins = ["spark_session"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

SECRET = "wJalrXUtnFEMIK7MDENG"
TABLE = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def store() -> Iterator[Callable[[str], str]]:
    with s3_uris(SECRET) as uri_of:
        yield uri_of


def printed(act: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of whatever kind
        act()
    return "".join(traceback.format_exception(caught.value))


def test_plans_and_reports(
    spark: SparkSession, store: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    uri = store("plans")
    fm.write_dataset(TABLE, uri)
    ours = read(spark, uri)
    assert ours.filter("id > 1").count() == 2
    ours.explain(True)
    read(spark, [uri, store("plans/*")][:1]).explain("formatted")
    assert SECRET not in repr(scans()) + "".join(map(str, scans()))
    register(spark, MosaicDataSource)
    loaded = spark.read.format("mosaic").load(uri)
    assert loaded.count() == 3
    loaded.explain(True)
    loaded.explain("formatted")
    out = capsys.readouterr().out
    assert "s3://***@bucket/plans" in out
    assert SECRET not in out
    for act in (
        lambda: read(spark, store("none")),
        lambda: spark.read.format("mosaic").load(store("none")).count(),
        lambda: write(spark.range(3), uri),
        lambda: write(spark.range(3).selectExpr("'x' as id"), uri, mode="append"),
    ):
        assert SECRET not in printed(act)
    write(spark.range(3), uri, mode="append")
    assert fm.read_table(uri).num_rows == 6


def test_jobs(spark: SparkSession, store: Callable[[str], str]) -> None:
    uri = store("jobs/a")
    fm.write_dataset(TABLE, uri)
    sink = open_sink(store("jobs/a/bad.mosaic"))
    sink.write(b"not a Mosaic file")
    sink.commit()
    checked = verify(spark, uri)
    assert [file.ok for file in checked.files].count(False) == 1
    report = convert(spark, uri, store("jobs/b"), on_error="skip")
    assert report.rows == 3
    assert len(report.failures) == 1
    for one in (checked, report):
        assert SECRET not in repr(one) + str(one) + json.dumps(one.to_dict())
    assert SECRET not in printed(lambda: convert(spark, uri, store("jobs/c")))
    assert SECRET not in printed(lambda: profile(spark, uri))
    assert SECRET not in printed(lambda: convert(spark, store("none"), store("jobs/c")))


def test_checkpoints_of_streams(
    spark: SparkSession, store: Callable[[str], str], tmp_path: Path
) -> None:
    uri = store("stream")
    fm.write_dataset(TABLE, uri)
    register(spark, MosaicDataSource)
    for _ in range(2):  # the second time from the checkpoint, with more files
        query = (
            spark.readStream.format("mosaic")
            .schema("id long")
            .load(uri)
            .writeStream.format("mosaic")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(store("streamed"))
        )
        query.awaitTermination()
        assert SECRET not in str(query.lastProgress)
        fm.write_dataset(TABLE, uri, existing="append")
    assert fm.read_table(store("streamed")).num_rows == 6
    kept = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert any(b"***@bucket" in data for data in kept)
    assert not any(SECRET.encode() in data for data in kept)
