"""Spark Connect: the planner is in another process, and the data source works all the same."""

import subprocess
import sys

import pyarrow as pa
import pytest
from spark_faults import LIMIT

import fastmosaic as fm

# In a process of its own: a session of Spark Connect does not go with another one.
PROGRAM = """
import os, sys, warnings

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from pyspark.sql import SparkSession

import fastmosaic.spark

path, target, other = sys.argv[1:]
spark = SparkSession.builder.remote("local[1]").getOrCreate()
assert "connect" in type(spark).__module__
loaded = spark.read.format("mosaic").option("columns", "id,name").load(path)
assert loaded.columns == ["id", "name"]
assert [tuple(row) for row in loaded.collect()] == [(1, "a"), (2, "b"), (3, None)]
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    read = fastmosaic.spark.read(spark, path, columns=["id"])
assert "choose the columns to load with columns=" in str(caught[-1].message), caught
assert read.where("id > 1").count() == 2
loaded.write.format("mosaic").mode("append").save(target)
fastmosaic.spark.write(loaded, other)
print("as expected")
"""


@pytest.mark.exhaustive
def test_reading_and_writing_under_spark_connect(tmp_path):
    table = pa.table({"id": [1, 2, 3], "name": ["a", "b", None], "price": [1.0, 2.0, 3.0]})
    fm.write_table(table, tmp_path / "data.mosaic")
    paths = [str(tmp_path / name) for name in ("data.mosaic", "target", "other")]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *paths],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.stdout.endswith("as expected\n"), done.stderr[-3000:]
    for path in paths[1:]:
        assert fm.read_table(path).sort_by("id").equals(table.select(["id", "name"]))
