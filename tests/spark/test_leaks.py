"""Many queries in one session leave nothing behind: threads, descriptors, objects of py4j, memory."""

import json
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from spark_faults import LIMIT
from spark_jvm import CONF, PATH

import fastmosaic as fm

# In a process of its own, so that other tests leave nothing behind in it.
PROGRAM = """
import gc, json, os, sys, threading, time

import fastmosaic.spark as fs
from fastmosaic.spark import gateway

table, other, target, checkpoint, conf, more, queries = sys.argv[1:]
more = json.loads(more)
gateway.KEEP_SECONDS = 0.5
spark = fs.session("leaks", "local[2]", **json.loads(conf))
df = fs.read(spark, table)


def query(number):
    rows = df.filter(f"id >= {number}")
    match number % 4:
        case 0:  # threads of the executor of shuffles
            found = sum(row["count"] for row in rows.groupBy("key").count().collect())
        case 1:  # those of broadcasts and subqueries, and a filter at run time
            found = rows.join(fs.read(spark, other), "key").count()
        case 2:  # one that serves Arrow
            found = len(rows.toPandas())
        case _:  # nothing but metadata, and the planner
            found = fs.read(spark, table).count() - number
    assert found == 1000 - number, (number, found)


def run(count):
    failed = []

    def some(numbers):
        try:
            for number in numbers:
                query(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=some, args=(range(i, count, 4),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def state(before):
    # The least that there is in some seconds: streams run meanwhile. What is left behind stays,
    # so on a busy machine it does no harm to wait longer for what is not.
    least = counts()
    for turn in range(40):
        if turn >= 5 and all(least[what] <= before[what] + more[what] for what in more):
            break
        least = {what: min(least[what], found) for what, found in counts().items()}
    return least


def counts():
    callbacks = gateway.CallbackGateway.of(spark)
    spark._jvm.java.lang.System.gc()
    time.sleep(0.7)
    gc.collect()
    callbacks.java_class("java.lang.Object")()  # dropped objects go when others are dropped
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return {
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "proxies": len(callbacks.gateway.gateway_property.pool),
        "objects": callbacks._objects.getBindings().size(),
        "kilobytes": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
    }


def batch(rows, number):
    assert fs.read(spark, table).filter("id < 10").agg({"key": "max"}).collect()[0][0] is not None
    rows.collect()


rate = spark.readStream.format("rate").load()
streams = [
    rate.writeStream.foreachBatch(batch).trigger(processingTime="2 seconds").start(),
    rate.writeStream.format("mosaic").option("checkpointLocation", checkpoint)
    .trigger(processingTime="2 seconds").start(target),
]
states = []
for _ in range(3):
    run(int(queries))
    states.append(state(states[-1] if states else dict.fromkeys(more, float("inf"))))
    assert all(stream.isActive for stream in streams), [stream.exception() for stream in streams]
assert all(stream.lastProgress["batchId"] > 1 for stream in streams)
for stream in streams:
    stream.stop()
print(json.dumps(states))
"""


# Between two states are a third of the queries: one more of anything for each is too much.
MORE = {"threads": 8, "descriptors": 16, "proxies": 30, "objects": 36, "kilobytes": 6000}


@pytest.mark.parametrize("queries", [120, pytest.param(300, marks=pytest.mark.exhaustive)])
def test_queries_from_four_threads_leave_nothing_behind(tmp_path, queries):
    ids = range(1000)
    table = pa.table({"id": ids, "key": [i % 2 for i in ids]})
    fm.write_dataset(table, tmp_path / "table", partitioning=["key"])
    fm.write_table(pa.table({"key": pa.array(range(2), pa.int32())}), tmp_path / "other.mosaic")
    names = ("table", "other.mosaic", "target", "checkpoint")
    arguments = [*(str(tmp_path / name) for name in names), json.dumps(CONF), json.dumps(MORE)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments, str(queries // 3)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        env={**os.environ, "PYTHONPATH": PATH},
    )
    assert done.returncode == 0, done.stderr[-5000:]
    _, before, last = states = json.loads(done.stdout.splitlines()[-1])  # the first ones warm up
    assert {what for what in MORE if last[what] > before[what] + MORE[what]} == set(), states
