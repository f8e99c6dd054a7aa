"""Spark Connect: the planner is in another process, and the data source works all the same."""

import json
import socket
import subprocess
import sys

import pyarrow as pa
import pytest
from spark_faults import LIMIT
from spark_jvm import CONF

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


# An application that hosts the server, and offers a table to clients.
HOST = """
import json, sys
import fastmosaic.spark as fs

path, conf = sys.argv[1:]
spark = fs.session("host", "local[1]", **json.loads(conf))
fs.read(spark, path).createOrReplaceGlobalTempView("wide")
print("ready", flush=True)
for _ in sys.stdin:  # a line for each question
    scan = fs.scans()[-1]
    print(json.dumps([scan.columns, scan.total_columns, scan.row_groups]), flush=True)
"""

CLIENT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(f"sc://127.0.0.1:{sys.argv[1]}").getOrCreate()
assert "connect" in type(spark).__module__
print(spark.sql(sys.argv[2]).collect()[0][0])
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_the_host_of_the_server_offers_pruned_tables(tmp_path):
    """The planner is that of the host, so clients read only the columns that they ask for."""
    columns = {f"c{i:03d}": [i, i + 1, i + 2] for i in range(200)}
    fm.write_table(pa.table(columns), tmp_path / "wide.mosaic")
    port = free_port()
    conf = {
        **CONF,
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
    }
    host = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            HOST,
            str(tmp_path / "wide.mosaic"),
            json.dumps(conf),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with host:
        try:
            assert host.stdout.readline() == "ready\n"
            query = "select sum(c007) from global_temp.wide where c100 > 100"
            client = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", CLIENT, str(port), query],
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
            assert client.stdout == "17\n", client.stderr[-3000:]
            host.stdin.write("scan\n")
            host.stdin.flush()
            assert json.loads(host.stdout.readline()) == [2, 200, 1]
        finally:
            host.kill()
