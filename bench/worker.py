"""Processes in which contenders work, so that none can disturb, crash or outlast the others."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from . import machine
from .contenders import Contender
from .plan import Query
from .results import Missing
from .tables import ROW_NUMBER


@dataclass(frozen=True)
class Written:
    """What writing a file took, and its size in bytes."""

    seconds: float
    peak_bytes: int
    size: int


@dataclass(frozen=True)
class Checked:
    """A result is as written, after these casts."""

    casts: tuple[str, ...]


class Worker:
    """A process that works for one contender, on call; it starts anew if it had to be stopped."""

    def __init__(self, contender: Contender) -> None:
        self._contender = contender
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._contender, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def call(self, function: Callable[..., Any], *args: object, seconds: float) -> Any:
        """What `function(contender, *args)` returns there, or Missing."""
        deadline = time.monotonic() + seconds
        allowed = machine.available_bytes() * 3 // 4
        try:
            self._connection.send((function, args))
            while not self._connection.poll(0.2):
                if time.monotonic() > deadline:
                    return self._start_anew(f"took more than {seconds:g} s")
                if machine.resident_bytes(self._process.pid) > allowed:
                    return self._start_anew(f"took more than {allowed / 1e9:.0f} GB of memory")
            return self._connection.recv()
        except (EOFError, OSError):
            self._process.join()
            return self._start_anew(f"the process died, exit code {self._process.exitcode}")

    def _start_anew(self, reason: str) -> Missing:
        self.close()
        self._start()
        return Missing(reason)

    def close(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.join()
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(contender: Contender, connection: Connection) -> None:
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            function, args = connection.recv()
            try:
                result = function(contender, *args)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - panics of Rust are no Exceptions
                result = Missing(f"{type(error).__name__}: {_first_line(error)}")
            connection.send(result)


# ---- what workers do


def write(
    contender: Contender, table_path: str, path: str, group_rows: int, budget: float
) -> Written:
    """Write a table, again and again until `budget` seconds are spent: the best time.

    The peak is that of the first time, beyond the memory that the table and imports take.
    """
    options = (ROW_NUMBER, group_rows) if group_rows else ()
    _warm_up(contender, path)
    table = load(table_path)
    pa.default_memory_pool().release_unused()

    def work() -> None:
        contender.write(table, path, *options)

    with no_gc():
        base = machine.reset_peak()
        seconds, _ = timed(work)
        peak = machine.peak_bytes() - base
    if seconds < budget:
        seconds = min(seconds, best_time(work, budget - seconds))
    return Written(seconds, peak, os.path.getsize(path))


def write_open(contender: Contender, table_path: str, path: str, budget: float) -> float:
    """The best time to write to a file that is already open."""
    table = load(table_path)

    def work() -> None:
        with open(path, "wb") as file:
            contender.write(table, file)

    return best_time(work, budget)


def load(path: str) -> pa.Table:
    """A table in memory: a mapped one would count as it is touched."""
    with pa.OSFile(path) as file:
        return pa.ipc.open_file(file).read_all()


def check(contender: Contender, table_path: str, path: str, query: Query) -> Checked | Missing:
    """Run a query and compare the result with the table."""
    result = query.run(contender, path)
    with pa.memory_map(table_path) as file:
        expected = query.expected(pa.ipc.open_file(file).read_all())
        casts, difference = compare(result, expected)
    return Missing(difference, wrong=True) if difference else Checked(casts)


def read(contender: Contender, path: str, query: Query, turn_seconds: float) -> float:
    """The best time of a query, run again and again for `turn_seconds`."""
    return best_time(lambda: query.run(contender, path), turn_seconds)


def first_read(contender: Contender, path: str, query: Query) -> float:
    """The time of a query in a process that has read another file, but not this one."""
    _warm_up(contender, path)
    with no_gc():
        return timed(lambda: query.run(contender, path))[0]


def compare(result: pa.Table, expected: pa.Table) -> tuple[tuple[str, ...], str]:
    """The casts that make `result` equal to `expected`, and where they still differ, if so.

    The order of columns makes no difference.
    """
    if sorted(result.column_names) != sorted(expected.column_names):
        return (), "other columns than were asked for"
    if result.num_rows != expected.num_rows:
        return (), f"{result.num_rows} rows instead of {expected.num_rows}"
    casts = set()
    for name, want in zip(expected.column_names, expected.columns, strict=True):
        have = result[name]
        if have.type != want.type:
            casts.add(f"{have.type} to {want.type}")
            have = have.cast(want.type)
        if not _equal(have, want):
            return tuple(sorted(casts)), f"column {name!r} has other values than were written"
    return tuple(sorted(casts)), ""


def _equal(have: pa.ChunkedArray, want: pa.ChunkedArray) -> bool:
    """Whether all values are equal; to Arrow, NaN equals nothing."""
    if have.equals(want) or not pa.types.is_floating(want.type):
        return have.equals(want)
    numbers = [one.cast(pa.float64()) for one in (have, want)]
    nans, others = zip(
        *((pc.is_nan(x), pc.if_else(pc.is_nan(x), 0, x)) for x in numbers), strict=True
    )
    return nans[0].equals(nans[1]) and others[0].equals(others[1])


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """The seconds that `work` takes, and what it returns."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


@contextmanager
def no_gc() -> Iterator[None]:
    """Let no garbage be collected while something is timed."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def best_time(work: Callable[[], Any], turn_seconds: float) -> float:
    """The best time of `work`, done again and again for `turn_seconds`."""
    best, spent = float("inf"), 0.0
    with no_gc():
        while spent < turn_seconds:
            seconds = timed(work)[0]
            best, spent = min(best, seconds), spent + seconds
    return best


def best_times(
    works: dict[str, Callable[[], Any]], turns: int, seconds: float = 0.0
) -> dict[str, float]:
    """The best time of each; they take turns, so many at least and for so long."""
    best = dict.fromkeys(works, float("inf"))
    spent, turn = 0.0, 0
    with no_gc():
        while turn < turns or spent < seconds:
            for name, work in works.items():
                taken = timed(work)[0]
                best[name] = min(best[name], taken)
                spent += taken
            turn += 1
    return best


def _warm_up(contender: Contender, path: str) -> None:
    """Write and read a small file: the imports and thread pools that come with the first one."""
    small = f"{path}.small"
    contender.write(pa.table({"number": [1, 2], "text": ["a", None]}), small)
    contender.read(small, ["text"])
    os.remove(small)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200]
