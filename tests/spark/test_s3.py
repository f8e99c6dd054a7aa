"""S3 through Spark: reading, writing, converting, streams and tables, over a store that may fail."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from servers import FOREVER, HOST, FaultyStore, Server, no_settings, s3_api

import fastmosaic as fm
from fastmosaic.spark.jobs.convert import convert
from fastmosaic.spark.jobs.profile import profile
from fastmosaic.spark.jobs.verify import verify
from fastmosaic.spark.planner.plan import scans
from fastmosaic.spark.planner.read import read
from fastmosaic.spark.source.source import MosaicDataSource
from fastmosaic.spark.source.write import write
from fastmosaic.spark.versions import register

pytest_plugins = ["spark_session"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

ALL = pytest.mark.exhaustive
BUCKET = "bucket"
SECRET = "wJalrXUtnFEMIK7MDENGforTests"
ROW = 5  # requests that fail in a row
NAME = re.compile(
    r"(p=[01]/)?part-[-0-9a-f]+\.(mosaic|parquet)|_SUCCESS|_commits/[-0-9a-f]{36}/\d+"
)


@dataclass
class Store:
    """A bucket, through a server that can fail, and how to name its objects."""

    backend: FaultyStore
    address: str

    def uri(self, path: str) -> str:
        return (
            f"s3://AKIA:{SECRET}@{BUCKET}/{path}"
            f"?scheme=http&endpoint_override={quote(self.address)}&region=us-east-1"
        )

    def below(self, directory: str) -> list[str]:
        """The names of all objects below a directory."""
        prefix = f"{directory}/"
        names = self.backend.names()
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    def ids(self, directory: str) -> list[int]:
        """The rows that are there, and nothing is there that does not belong to them."""
        assert [name for name in self.below(directory) if not NAME.fullmatch(name)] == []
        return sorted(fm.read_table(self.uri(directory), columns=["id"]).column("id").to_pylist())


@pytest.fixture(scope="module")
def server() -> Iterator[Store]:
    with no_settings() as patch, s3_api() as port:
        patch.setenv("NO_PROXY", HOST)
        backend = FaultyStore(port, BUCKET)
        with Server(backend).running() as running:
            yield Store(backend, running.address)


@pytest.fixture
def store(server: Store) -> Iterator[Store]:
    server.backend.put_all({})
    yield server
    server.backend.heal()


@pytest.fixture
def mosaic(spark: SparkSession) -> SparkSession:
    register(spark, MosaicDataSource)
    return spark


def frame(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end, 1, 2).selectExpr("id", "cast(id % 2 as int) as p", "id * 2 as x")


def table(start: int, end: int) -> pa.Table:
    ids = list(range(start, end))
    columns = {"id": ids, "p": [one % 2 for one in ids], "x": [2 * one for one in ids]}
    return pa.table(columns, pa.schema({"id": pa.int64(), "p": pa.int32(), "x": pa.int64()}))


def stream(spark: SparkSession, source: str, target: str, checkpoint: Path) -> None:
    """Write the new rows of a directory to another one."""
    query = (
        spark.readStream.format("mosaic")
        .schema("id long, x long, p int")
        .load(source)
        .writeStream.format("mosaic")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(target)
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


# ---- a store that works


@pytest.mark.parametrize("staging", [True, False])
def test_modes(mosaic: SparkSession, store: Store, staging: bool) -> None:
    def save(start: int, end: int, mode: str) -> None:
        write(
            frame(mosaic, start, end),
            store.uri("t"),
            mode=mode,
            partition_by="p",
            staging=staging,
            write_statistics=["id"],
        )

    save(0, 4, "error")
    assert store.ids("t") == [0, 1, 2, 3]
    save(4, 6, "append")
    assert store.ids("t") == [0, 1, 2, 3, 4, 5]
    before = store.below("t")
    save(100, 101, "ignore")
    with pytest.raises(PySparkException, match="use existing='append'"):
        save(100, 101, "error")
    assert store.below("t") == before
    ours = read(mosaic, store.uri("t"))
    assert sorted(map(tuple, ours.where("id > 3").select("id", "x").collect())) == [(4, 8), (5, 10)]
    assert scans()[-1].columns == 2
    assert ours.where("p = 1").count() == 3
    loaded = mosaic.read.format("mosaic").option("columns", "id,p").load(store.uri("t"))
    assert sorted(map(tuple, loaded.collect())) == [(one, one % 2) for one in range(6)]
    save(7, 9, "overwrite")
    assert store.ids("t") == [7, 8]
    plain = mosaic.read.format("mosaic").load(store.uri("t"))
    plain.write.format("mosaic").mode("append").option("staging", staging).save(store.uri("copy"))
    assert store.ids("copy") == [7, 8]


def test_convert_verify_profile(spark: SparkSession, store: Store) -> None:
    for part in range(3):
        sink = io.BytesIO()
        pq.write_table(table(10 * part, 10 * part + 10), sink, row_group_size=4)
        name = f"in/part={part}/a.parquet"
        store.backend.put_all(store.backend.objects() | {name: sink.getvalue()})
    report = convert(spark, store.uri("in"), store.uri("t"), write_statistics=["id"])
    assert (report.rows, report.files_in, report.files_out) == (30, 3, 3)
    found = fm.read_table(store.uri("t")).sort_by("id")
    assert found.drop_columns("part").equals(table(0, 30))
    assert found.column("part").to_pylist() == [one // 10 for one in range(30)]
    assert all(name.startswith("part=") for name in store.below("t"))
    checked = verify(spark, store.uri("t"))
    assert checked.ok
    assert len(checked.files) == 3
    (one,) = profile(spark, store.uri("t"), columns=["id"]).columns
    assert (one.min, one.max, one.nulls) == ("0", "29", 0)
    back = convert(spark, store.uri("t"), store.uri("back"), target_format="parquet")
    assert back.rows == 30
    data = [
        pq.ParquetFile(io.BytesIO(store.backend.objects()[f"back/{name}"])).read()
        for name in store.below("back")
    ]
    assert pa.concat_tables(data).sort_by("id").column("id").to_pylist() == list(range(30))


def test_streams(mosaic: SparkSession, store: Store, tmp_path: Path) -> None:
    fm.write_dataset(table(0, 3), store.uri("in"))
    for end in (3, 5, 5):  # the last time without new rows
        stream(mosaic, store.uri("in"), store.uri("t"), tmp_path / "checkpoint")
        assert store.ids("t") == list(range(end))
        if end == 3:
            fm.write_dataset(table(3, 5), store.uri("in"), existing="append")


def test_tables(mosaic: SparkSession, store: Store) -> None:
    """Commits are conditional writes; a DataFrame reads the version that it was made for."""
    uri = store.uri("t")
    living = fm.MosaicTable.create(uri, table(0, 4), partitioning="p")
    first = read(mosaic, uri)
    living.append(table(4, 6))
    living.add_columns({"y": pc.field("x") + 1})
    living.delete([("id", "=", 0)])
    rows = [(one, 2 * one + 1) for one in range(1, 6)]
    assert sorted(map(tuple, read(mosaic, uri).select("id", "y").collect())) == rows
    assert scans()[-1].columns == 2
    loaded = mosaic.read.format("mosaic").load(uri)
    assert sorted(map(tuple, loaded.select("id", "y").collect())) == rows
    assert sorted(row.id for row in first.select("id").collect()) == [0, 1, 2, 3]
    before = store.below("t")
    with pytest.raises(PySparkException, match="is a table"):
        write(frame(mosaic, 6, 8), uri, mode="append")
    assert store.below("t") == before


# ---- a store that fails


@dataclass
class Work:
    """Something that is done in a bucket with rows 0 to 3 in `t`, and the rows that it leaves."""

    spark: SparkSession
    store: Store
    directory: Path
    count: int = 0  # of requests
    failed: int = 0

    def heal(self) -> None:
        backend = self.store.backend
        self.count, self.failed = backend.count, backend.failed
        backend.heal()

    def read(self) -> list[int]:
        frame = read(self.spark, self.store.uri("t"))
        assert sorted(row.x for row in frame.select("x").collect()) == [0, 2, 4, 6]
        ids = sorted(row.id for row in frame.where("id >= 0").collect())
        self.heal()
        return ids

    def append(self) -> list[int]:
        return self._write("append", True)

    def append_direct(self) -> list[int]:
        return self._write("append", False)

    def overwrite(self) -> list[int]:
        return self._write("overwrite", True)

    def overwrite_direct(self) -> list[int]:
        return self._write("overwrite", False)

    def _write(self, mode: str, staging: bool) -> list[int]:
        frame_ = frame(self.spark, 4, 8)
        write(frame_, self.store.uri("t"), mode=mode, partition_by="p", staging=staging)
        self.heal()
        return self.store.ids("t")

    def convert(self) -> list[int]:
        convert(self.spark, self.store.uri("parquet"), self.store.uri("new"))
        self.heal()
        return self.store.ids("new")

    def stream(self) -> list[int]:
        place = self.directory / str(len(list(self.directory.iterdir())))
        stream(self.spark, self.store.uri("t"), self.store.uri("new"), place)
        self.heal()
        return self.store.ids("new")


EXPECTED = {
    "read": [0, 1, 2, 3],
    "append": [0, 1, 2, 3, 4, 5, 6, 7],
    "append_direct": [0, 1, 2, 3, 4, 5, 6, 7],
    "overwrite": [4, 5, 6, 7],
    "overwrite_direct": [4, 5, 6, 7],
    "convert": [0, 1, 2, 3],
    "stream": [0, 1, 2, 3],
}


@pytest.fixture
def work(mosaic: SparkSession, store: Store, tmp_path: Path) -> Work:
    write(frame(mosaic, 0, 4), store.uri("t"), partition_by="p")
    sink = io.BytesIO()
    pq.write_table(table(0, 4), sink)
    objects = store.backend.objects()
    store.backend.put_all(objects | {"parquet/a.parquet": sink.getvalue()})
    return Work(mosaic, store, tmp_path)


def run(work: Work, name: str) -> list[int]:
    """Do something, and return the rows that it leaves."""
    found: list[int] = getattr(work, name)()
    return found


@pytest.mark.parametrize("fault", ["reset", pytest.param("503", marks=ALL)])
@pytest.mark.parametrize("name", EXPECTED)
def test_many_requests_fail(work: Work, name: str, fault: str) -> None:
    backend = work.store.backend
    backend.fail(fault, 3, FOREVER, every=7)
    assert run(work, name) == EXPECTED[name]


@pytest.mark.parametrize(
    ("fault", "points"),
    [
        ("503", 2),
        *(pytest.param(fault, 1000, marks=ALL) for fault in ("500", "503", "reset", "lost")),
        pytest.param("late", 3, marks=ALL),
    ],
)
@pytest.mark.parametrize("name", EXPECTED)
def test_requests_fail_in_a_row(work: Work, name: str, fault: str, points: int) -> None:
    """At a request, and those after it: more than the client of pyarrow repeats by itself."""
    backend = work.store.backend
    before = backend.objects()
    backend.heal()
    assert run(work, name) == EXPECTED[name]
    count = work.count
    for first in sorted({1 + count * i // points for i in range(points)}):
        backend.put_all(before)
        backend.fail(fault, first, 1 if fault == "late" else ROW)
        assert run(work, name) == EXPECTED[name], first
        assert work.failed > 0
    print(name, fault, count)
