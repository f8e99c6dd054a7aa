"""DataFrames whose files or session are gone fail with errors that say so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_faults import LIMIT
from spark_jvm import CONF

import fastmosaic as fm
import fastmosaic.spark as fs

pytest_plugins = ["spark_session"]

TABLE = pa.table({"id": range(100)})


def test_the_files_were_replaced(spark: SparkSession, tmp_path: Path) -> None:
    fm.write_dataset(TABLE, tmp_path / "data")
    df = fs.read(spark, tmp_path / "data")
    assert df.where("id > 49").agg({"id": "count"}).first()[0] == 50
    fm.write_dataset(TABLE.slice(0, 10), tmp_path / "data", existing="overwrite")
    with pytest.raises(PySparkException, match=r"was removed after the dataset was opened.*again"):
        df.agg({"id": "sum"}).collect()
    assert fs.read(spark, tmp_path / "data").agg({"id": "sum"}).first()[0] == 45


def test_a_file_has_another_size(spark: SparkSession, tmp_path: Path) -> None:
    fm.write_table(TABLE, tmp_path / "data.mosaic")
    df = fs.read(spark, tmp_path / "data.mosaic")
    fm.write_table(TABLE.slice(0, 10), tmp_path / "data.mosaic")
    with pytest.raises(PySparkException, match=r"bytes, but had .* open the dataset again"):
        df.agg({"id": "sum"}).collect()


def test_an_old_version_of_a_table_stays(spark: SparkSession, tmp_path: Path) -> None:
    table = fm.MosaicTable.create(tmp_path / "table", TABLE)
    df = fs.read(spark, tmp_path / "table")
    table.append(TABLE)
    table.compact()
    assert df.agg({"id": "count"}).first()[0] == 100
    assert fs.read(spark, tmp_path / "table").agg({"id": "count"}).first()[0] == 200


# In a process of its own: the other tests need their session.
STOPPED = """
import json, sys
import fastmosaic.spark as fs

conf = json.loads(sys.argv[2])
spark = fs.session("stopped", "local[1]", **conf)
df = fs.read(spark, sys.argv[1])
assert df.count() == 100
spark.stop()


def error_of(attempt):
    try:
        attempt()
    except Exception as error:
        return str(error)
    raise AssertionError("no error")


def check(*attempts):
    for attempt in attempts:
        assert "the Spark session of this DataFrame was stopped" in error_of(attempt)
    assert "this Spark session was stopped" in error_of(lambda: fs.read(spark, sys.argv[1]))


check(lambda: df.where("id > 3"))  # PySpark itself refuses most others while there is no session
other = fs.session("next", "local[1]", **conf)
check(lambda: df.where("id > 3"), lambda: df.select("id").collect())
assert fs.read(other, sys.argv[1]).where("id > 49").agg({"id": "count"}).first()[0] == 50
other.stop()
print("as expected")
"""


def test_the_session_was_stopped(tmp_path: Path) -> None:
    fm.write_table(TABLE, tmp_path / "data.mosaic")
    arguments = [str(tmp_path / "data.mosaic"), json.dumps(CONF)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STOPPED, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.stdout.endswith("as expected\n"), done.stderr[-3000:]
