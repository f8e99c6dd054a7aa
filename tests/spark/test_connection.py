"""The connection of a worker: the JVM need not wait for it before it sends the rows of a task."""

import importlib
import pickle
import socket
import sys

import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.spark.connection import QUICKACK, worker_connection
from fastmosaic.spark.lake.task import TaskWriter
from fastmosaic.spark.planner.plan import ScanPlanner
from fastmosaic.spark.source.source import MosaicDataSource

pytest_plugins = ["spark_session"]

TABLE = pa.table({"id": [1, 2, 3]})


@pytest.fixture
def path(tmp_path):
    fm.write_table(TABLE, tmp_path / "a.mosaic")
    return str(tmp_path / "a.mosaic")


def planned_reader(path):
    planner = ScanPlanner(FileSet(path), TABLE.schema, "t", lambda: (1 << 20, 1))
    return planner.plan(None, [], None).reader()


def source_reader(path):
    source = MosaicDataSource({"path": path})
    return source.reader(source.schema())


def writer(path):
    return TaskWriter(None, TABLE.schema, "a")


@pytest.fixture
def connected():
    """Both ends of a connection that has sent and received, so that acknowledgements wait."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as jvm,
        server.accept()[0] as here,
    ):
        for _ in range(3):
            jvm.sendall(b"task")
            here.recv(4)
            here.sendall(b"rows")
            jvm.recv(4)
        yield here


def worker(sock, pickled):
    """As in PySpark's daemon, tasks run below a function with this name and this variable."""
    return pickle.loads(pickled)


def options(connection):
    names = [socket.TCP_NODELAY] if QUICKACK is None else [socket.TCP_NODELAY, QUICKACK]
    return [connection.getsockopt(socket.IPPROTO_TCP, name) != 0 for name in names]


@pytest.mark.parametrize("make", [planned_reader, source_reader, writer])
def test_tasks_acknowledge_at_once(connected, path, make):
    importlib.import_module("pyspark.worker")
    pickled = pickle.dumps(make(path))
    assert not any(options(connected))
    worker(connected, pickled)
    assert all(options(connected))


def test_other_processes_keep_their_connections(connected, path, monkeypatch):
    monkeypatch.delitem(sys.modules, "pyspark.worker", raising=False)
    worker(connected, pickle.dumps(planned_reader(path)))
    assert not any(options(connected))


def test_workers_of_spark_have_the_connection(spark):
    """PySpark's own code has the variable where it is looked for."""
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: worker_connection() is not None)
    assert found.collect() == [True]
