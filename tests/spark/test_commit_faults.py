"""Commits in an object store of which any request fails, for a moment or for good.

Without Spark, so that each request of a commit can be tried, and with a client that does not repeat
requests by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pytest
from pyarrow import fs
from servers import FOREVER, HOST, FaultyStore, Server, no_settings, s3_api

import fastmosaic as fm
from fastmosaic.spark.source.commit import StreamWriteJob, TaskMessage, TaskOutput
from fastmosaic.spark.source.options import save_options
from fastmosaic.storage import location, retry
from fastmosaic.storage.direct import Direct
from fastmosaic.storage.staging import Staging

BUCKET = "bucket"
SCHEMA = pa.schema({"id": pa.int64()})
OUTPUT = TaskOutput(SCHEMA, save_options({}))
QUERY = "0b7c8f2e-6d1f-4c49-9f0e-5a5b0c1d2e3f"
ALL = pytest.mark.exhaustive
URI = f"s3://{BUCKET}/t"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with no_settings() as patch, s3_api() as port:
        patch.setenv("NO_PROXY", HOST)
        with Server(FaultyStore(port, BUCKET)).running() as running:
            yield running


@pytest.fixture
def store(server: Server, monkeypatch: pytest.MonkeyPatch) -> FaultyStore:
    """An empty bucket. URIs are opened with a client that does not try again."""
    filesystem = fs.S3FileSystem(
        access_key="key",
        secret_key="secret",
        endpoint_override=server.address,
        scheme="http",
        region="us-east-1",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
    monkeypatch.setattr(location, "_open_uri", lambda uri: (filesystem, uri.removeprefix("s3://")))
    monkeypatch.setattr(retry, "RETRY_PAUSES", (0.001, 0.001))
    backend: FaultyStore = server.backend
    backend.heal()
    backend.put_all({})
    return backend


def batch(*ids: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA)


def ids() -> list[int]:
    try:
        return sorted(fm.read_table(URI).column("id").to_pylist())
    except FileNotFoundError:
        return []


def hidden(store: FaultyStore) -> list[str]:
    """The objects that are not files of rows."""
    return [name for name in store.names() if not name.removeprefix("t/").startswith("part-")]


# ---- batch jobs


@dataclass
class Write:
    """What Spark does with a job of two tasks, of which one is tried twice."""

    place: type[Staging]
    existing: str
    staging: Staging | None = None

    def __call__(self) -> None:
        if self.place is Direct:
            self.staging = Direct.begin(URI, None, self.existing)
        else:
            self.staging = Staging.begin(URI, None, self.existing, is_shared=True)
        files = [OUTPUT.write([batch(i)], self.staging, f"task{i}") for i in (3, 4, 4)]
        self.staging.commit([*files[0], *files[2]])

    def abort(self) -> None:
        if self.staging is not None:
            self.staging.abandon()


WRITES = {
    "append": (Write(Staging, "append"), [1, 2, 3, 4]),
    "overwrite": (Write(Staging, "overwrite"), [3, 4]),
    "append directly": (Write(Direct, "append"), [1, 2, 3, 4]),
    "overwrite directly": (Write(Direct, "overwrite"), [3, 4]),
}


def prepare(store: FaultyStore) -> dict[str, bytes]:
    fm.write_dataset(pa.table({"id": [1]}), URI)
    fm.write_dataset(pa.table({"id": [2]}), URI, existing="append")
    return store.objects()


def requests_of(store: FaultyStore, act: Callable[[], object]) -> int:
    store.heal()
    act()
    return store.count


@pytest.mark.parametrize(
    ("fault", "step"),
    [("lost", 13), *(pytest.param(one, 1, marks=ALL) for one in ("503", "reset", "lost"))],
)
@pytest.mark.parametrize("name", WRITES)
def test_each_request_fails_twice(store: FaultyStore, name: str, fault: str, step: int) -> None:
    act, expected = WRITES[name]
    before = prepare(store)
    count = requests_of(store, act)
    assert ids() == expected
    for first in range(count, 0, -step):
        store.put_all(before)
        store.fail(fault, first, 2)
        act()
        store.heal()
        assert ids() == expected, first
        assert hidden(store) == [], first


@pytest.mark.parametrize("step", [13, pytest.param(1, marks=ALL)])
@pytest.mark.parametrize("name", WRITES)
def test_the_store_goes_down_for_good(store: FaultyStore, name: str, step: int) -> None:
    """From each request on: no rows are lost, and the same write works when it is back."""
    act, expected = WRITES[name]
    before = prepare(store)
    old = {"t/" + one.removeprefix("t/") for one in before}
    count = requests_of(store, act)
    outcomes = set()
    for first in range(count, 0, -step):
        store.put_all(before)
        store.fail("503", first, FOREVER)
        error = failure_of(act)
        again = failure_of(act.abort)
        store.heal()
        there = set(store.names())
        outcomes.add(old <= there)
        if error is None:  # only what is left of the staging could not be removed
            assert ids() == expected
        elif old <= there:
            assert again is not None or set(ids()) >= {1, 2}
        else:  # old files are gone, so the new ones are there
            assert set(ids()) >= {3, 4}
        if act.existing == "overwrite":
            act()
            assert ids() == [3, 4]
    assert outcomes == ({True, False} if act.existing == "overwrite" else {True})


def failure_of(act: Callable[[], object]) -> OSError | None:
    try:
        act()
    except OSError as error:
        return error
    return None


# ---- streams


@dataclass
class Stream:
    """What Spark does with the batches of a query, if it fails and is started again."""

    job: StreamWriteJob = field(default_factory=lambda: StreamWriteJob(OUTPUT, URI, False))
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def write(self, *ids: int) -> list[TaskMessage | None]:
        staging = self.job._staging(QUERY)
        names = (f"{next(self.numbers):05d}" for _ in ids)
        files = [OUTPUT.write([batch(one)], staging, name) for one, name in zip(ids, names)]  # noqa: B905
        return [TaskMessage(one, QUERY) for one in files]

    def commit(self, number: int, *ids: int) -> None:
        self.job.commit(self.write(*ids), number)


@pytest.mark.parametrize("fault", ["lost", pytest.param("503", marks=ALL)])
@pytest.mark.parametrize(
    ("is_aborted", "step"),
    [(None, 6), *(pytest.param(one, 1, marks=ALL) for one in (None, "down", "up"))],
)
def test_the_commit_of_a_stream_is_interrupted(
    store: FaultyStore, fault: str, is_aborted: str | None, step: int
) -> None:
    """At each request, for good: killed, or aborted while the store is down, or when it is back."""
    stream = Stream()
    stream.commit(0, 1, 2)
    before = store.objects()
    messages = stream.write(3, 4)
    count = requests_of(store, lambda: stream.job.commit(messages, 1))
    assert ids() == [1, 2, 3, 4]
    assert hidden(store) == [f"t/_commits/{QUERY}/1"]
    incomplete = 0
    for first in range(count, 0, -step):
        store.put_all(before)
        stream = Stream()
        messages = stream.write(3, 4)
        store.fail(fault, first, FOREVER)
        error = failure_of(partial(stream.job.commit, messages, 1))
        if is_aborted == "up":
            store.heal()
        if is_aborted and error is not None:
            failure_of(partial(stream.job.abort, messages))
        store.heal()
        seen = [name for name in store.names() if name.startswith("t/part-")]
        incomplete += len(seen) == 3
        if error is not None:  # Spark repeats the batch
            stream.commit(1, 3, 4)
        assert ids() == [1, 2, 3, 4], first
        assert set(seen) <= set(store.names()), first
        stream.commit(2, 5)
        assert ids() == [1, 2, 3, 4, 5], first
        assert hidden(store) == [f"t/_commits/{QUERY}/2"], first
    if step == 1 and fault == "503":
        assert incomplete or is_aborted == "up"


def test_what_a_commit_leaves_is_not_taken_for_an_interrupted_one(store: FaultyStore) -> None:
    """The store fails when the staging directory is removed, which the commit does not need."""
    stream = Stream()
    messages = stream.write(1, 2)
    count = requests_of(store, lambda: stream.job.commit(messages, 0))
    left: list[str] = []
    while not left:
        store.put_all({})
        messages = stream.write(1, 2)
        store.fail("503", count, FOREVER)
        stream.job.commit(messages, 0)
        store.heal()
        left = [name for name in store.names() if name.endswith("_moving")]
        count -= 1
    stream.commit(1, 3)
    assert ids() == [1, 2, 3]
    assert hidden(store) == [f"t/_commits/{QUERY}/1"]
