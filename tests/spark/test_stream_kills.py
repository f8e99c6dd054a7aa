"""Streams whose driver is killed within a commit: each row is written once, at each point."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from servers import HOST, FaultyStore, Headers, Server, no_settings, s3_api
from spark_stream import Query, kill

import fastmosaic as fm

BUCKET = "bucket"

Files = Callable[[], list[str]]


def is_visible(file: str) -> bool:
    return file.endswith(".mosaic") and "_staging" not in file


def check(query: Query, files: Files, seen: set[str], *, whole: bool) -> None:
    """All batches are there once, or the newest one in part; no file that was seen has gone."""
    there = {file for file in files() if is_visible(file)}
    assert seen <= there
    seen |= there
    counts = Counter[int]()
    if there:
        counts.update(fm.read_table(query.target, columns=["id"]).column("id").to_pylist())
    assert set(counts.values()) <= {1}, (counts, files())
    newest = {10 * (query.batches - 1) + i for i in range(4)}
    older = {10 * batch + i for batch in range(query.batches - 1) for i in range(4)}
    assert set(counts) - newest == older
    if whole:
        assert newest <= set(counts)
        others = [file for file in files() if not is_visible(file)]
        assert [re.sub(r"_commits/[-0-9a-f]{36}/", "", file) for file in others] == [
            str(query.batches - 1)
        ]


# ---- local


@pytest.fixture
def local(tmp_path: Path) -> tuple[Query, Files]:
    target = tmp_path / "t"

    def files() -> list[str]:
        return [str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()]

    return Query(tmp_path, str(target)), files


@pytest.mark.parametrize(
    "points",
    [
        ["move 2"],
        pytest.param(["end"], marks=pytest.mark.exhaustive),
        pytest.param([str(number) for number in range(1, 60)], marks=pytest.mark.exhaustive),
    ],
    ids=["within", "end", "all"],
)
def test_local(local: tuple[Query, Files], points: list[str]) -> None:
    """Each run completes the batch whose commit was killed, and is killed in that of the next."""
    query, files = local
    seen: set[str] = set()
    killed = 0
    for point in points:
        query.add()
        is_killed = query.run(point)
        check(query, files, seen, whole=not is_killed)
        if not is_killed:  # the commit has fewer operations
            break
        killed += 1
    assert not query.run()
    check(query, files, seen, whole=True)
    assert killed == len(points) or killed >= 15
    print(f"{killed} kills, {query.batches} batches, {len(query.operations())} operations")


@pytest.mark.exhaustive
def test_killed_again_when_it_completes_a_commit(local: tuple[Query, Files]) -> None:
    query, files = local
    seen: set[str] = set()
    query.add()
    assert query.run("move 2")
    for number in range(1, 60):
        is_killed = query.run(str(number))
        check(query, files, seen, whole=not is_killed)
        if not is_killed:
            break
        if number % 3 == 0:  # from the state before again
            query.add()
            assert query.run("move 2")
    assert 5 < number < 59


# ---- S3


class KillingStore(FaultyStore):
    """Kills the driver at a request of a commit that changes something: before it, or after."""

    point = 0
    after = False

    def heal(self) -> None:
        super().heal()
        self.processes: tuple[int, ...] = ()
        self.changes = 0
        self.is_dead = False

    def __call__(
        self, method: str, path: str, headers: Headers, body: bytes
    ) -> tuple[int, Headers, bytes]:
        if path.startswith("/commit/"):
            self.processes = tuple(map(int, path.split("/")[2:]))
            return 200, {"Content-Length": "0"}, b""
        with self.lock:
            if self.is_dead:
                raise ConnectionError
            if self.processes and method in {"PUT", "POST", "DELETE"}:
                self.changes += 1
                if self.changes == self.point:
                    if self.after:
                        self.moto(method, path, headers, body)
                    kill(*self.processes)
                    self.is_dead = True
                    raise ConnectionError
            return self.moto(method, path, headers, body)


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[tuple[Query, Files, KillingStore, str]]:
    with no_settings() as patch, s3_api() as port:
        patch.setenv("NO_PROXY", HOST)
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        store = KillingStore(port, BUCKET)
        with Server(store).running() as server:
            endpoint = quote(server.address)
            uri = f"s3://{BUCKET}/t?scheme=http&endpoint_override={endpoint}&region=us-east-1"

            def files() -> list[str]:
                return [key.removeprefix("t/") for key in store.names()]

            yield Query(tmp_path, uri), files, store, f"http://{server.address}"


def test_a_store_is_empty() -> None:
    """Otherwise rows of another test in this process would be there once more."""
    with s3_api() as port:
        FaultyStore(port, BUCKET).put_all({"t/p=0/part-1.mosaic": b"of another test"})
    with s3_api() as port:
        assert KillingStore(port, BUCKET).names() == []


@pytest.mark.parametrize(
    "points",
    [
        pytest.param([(4, True)], marks=pytest.mark.exhaustive),
        pytest.param(
            [(number, after) for number in range(1, 60) for after in (False, True)],
            marks=pytest.mark.exhaustive,
        ),
    ],
    ids=["some", "all"],
)
def test_s3(s3: tuple[Query, Files, KillingStore, str], points: list[tuple[int, bool]]) -> None:
    """A move is a copy: the driver is killed before each request, and after it was done."""
    query, files, store, server = s3
    seen: set[str] = set()
    killed = 0
    for store.point, store.after in points:
        store.heal()
        query.add()
        is_killed = query.run(server=server)
        assert is_killed == store.is_dead
        store.is_dead = False
        check(query, files, seen, whole=not is_killed)
        if not is_killed:
            break
        killed += 1
    store.heal()
    store.point = 0
    query.add()
    assert query.run("end", server=server)
    check(query, files, seen, whole=False)
    store.heal()
    assert not query.run(server=server)
    check(query, files, seen, whole=True)
    assert killed == len(points) or killed >= 10
    print(f"{killed + 1} kills, {query.batches} batches, {store.changes} requests")
