"""Spark runs Python functions on work items: small things in, small things out.

The tables that the functions read and write never pass through the JVM. What an item came to is
kept in a file as well, so that a later run need not do it again.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from ...dataset.discovery import Found
from ...errors import CorruptFileError, MosaicError, UnsupportedError
from ...storage.location import as_arrow
from .report import Failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result: TypeAlias = dict[str, Any]  # what fits in JSON

_POLL_SECONDS: Final = 0.25
_BAR_WIDTH: Final = 30
_STOP: Final = "stop"


class BadFile(Exception):
    """A file has something wrong with it, and trying again will not help."""

    def __init__(self, file: str, error: MosaicError) -> None:
        super().__init__(file, error)
        self.file = file
        self.error = error.locate(file=file)

    @property
    def problem(self) -> str:
        return self.error.detail

    def to_error(self) -> MosaicError:
        return self.error

    def to_failure(self) -> Failure:
        return Failure(self.file, self.problem)


@contextmanager
def blaming(file: str) -> Iterator[None]:
    """Let errors of the block that are about the content of `file` be a BadFile."""
    try:
        yield
    except MosaicError as error:
        raise BadFile(file, error) from error
    except (pa.ArrowException, ValueError, NotImplementedError) as error:
        raise BadFile(file, CorruptFileError(str(error))) from error
    except OSError as error:
        # Arrow says so of damaged bytes; the system says what its error is.
        if error.errno is not None:
            raise
        raise BadFile(file, CorruptFileError(str(error))) from error


@dataclass(frozen=True, slots=True)
class Listed:
    """A file, and what tells whether it has changed."""

    found: Found
    size: int
    modified: int  # in nanoseconds


def list_files(found: Sequence[Found]) -> list[Listed]:
    listed = []
    for one in found:
        info = as_arrow(one.filesystem).get_file_info(one.path)
        if info.type.name == "NotFound":
            raise FileNotFoundError(f"{one.name} is gone")
        listed.append(Listed(one, info.size, info.mtime_ns or 0))
    return listed


def identity(verb: str, files: Sequence[Listed], *choices: object) -> str:
    """A name for a job, which is the same for the same files and choices."""
    listing = [(one.found.path, one.size, one.modified) for one in files]
    text = repr((listing, choices))
    return f"{verb}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Records:
    """Results of finished work items, as files in a directory that all processes can see."""

    root: str
    filesystem: Any = None

    @classmethod
    def below(cls, directory: Any, name: str) -> Records:
        """Those of a job in a directory of the user."""
        from ...storage.location import locate

        located = locate(directory, None)
        if located is None:
            raise TypeError(f"records= is a path or URI, not a {type(directory).__name__}")
        return cls(f"{located[2]}/{name}", located[1])

    def prepare(self) -> None:
        """Make the directory. Tasks do not: one that outlives its job would bring it back."""
        as_arrow(self.filesystem).create_dir(self.root, recursive=True)

    def save(self, number: int, result: Result) -> None:
        storage = as_arrow(self.filesystem)
        path = f"{self.root}/{number:06d}.json"
        aside = f"{self.root}/.{uuid.uuid4().hex}"
        with storage.open_output_stream(aside) as stream:
            stream.write(json.dumps(result).encode())
        storage.move(aside, path)

    def load(self) -> dict[int, Result]:
        from pyarrow import fs

        storage = as_arrow(self.filesystem)
        infos = storage.get_file_info(fs.FileSelector(self.root, allow_not_found=True))
        if self.is_stopped():
            storage.delete_file(f"{self.root}/{_STOP}")
        results = {}
        for info in infos:
            if info.base_name.endswith(".json") and not info.base_name.startswith("."):
                with storage.open_input_stream(info.path) as stream:
                    results[int(info.base_name.removesuffix(".json"))] = json.loads(stream.read())
        return results

    def stop(self) -> None:
        """Let items that have not begun be left undone."""
        as_arrow(self.filesystem).open_output_stream(f"{self.root}/{_STOP}").close()

    def is_stopped(self) -> bool:
        info = as_arrow(self.filesystem).get_file_info(f"{self.root}/{_STOP}")
        return bool(info.type.name == "File")

    def clear(self) -> None:
        storage = as_arrow(self.filesystem)
        if storage.get_file_info(self.root).type.name == "Directory":
            storage.delete_dir(self.root)


def run(
    spark: SparkSession,
    verb: str,
    items: Mapping[int, Any],
    work: Callable[[Any], Result],
    *,
    records: Records | None = None,
    done: int = 0,
) -> dict[int, Result]:
    """What `work` returns for each item, by number, from a task for each.

    A task may run more than once: `work` names what it writes anew each time, and only what the
    results name counts. A BadFile that it raises is raised here, and items not yet begun are left
    undone. `done` is the number of items finished before.
    """
    if not items:
        return {}
    if records is not None:
        records.prepare()
    context = _context(spark)
    group = f"fastmosaic-{uuid.uuid4().hex}"
    tasks = context.parallelize(list(items.items()), len(items)).map(
        partial(_attempt, work, records)
    )
    context.setJobGroup(group, f"fastmosaic {verb}", interruptOnCancel=True)
    try:
        with _progress(context, group, verb, len(items), done):
            outcomes = tasks.collect()
    except BaseException as error:
        with suppress(Exception):
            context.cancelJobGroup(group)
        message = _last_line(error)
        if message is None:
            raise
        raise RuntimeError(f"{verb}: a task failed, also when tried again: {message}") from error
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    for _, _, blame in outcomes:
        if blame is not None:
            raise BadFile(*blame)
    return {number: result for number, result, _ in outcomes}


def _attempt(
    work: Callable[[Any], Result], records: Records | None, numbered: tuple[int, Any]
) -> tuple[int, Result | None, tuple[Any, ...] | None]:
    """Runs in a task: the number of an item, its result, or what is wrong with a file."""
    number, item = numbered
    if records is not None and records.is_stopped():
        return number, None, None
    try:
        result = work(item)
    except BadFile as error:
        if records is not None:
            records.stop()
        return number, None, error.args
    if records is not None:
        records.save(number, result)
    return number, result, None


def parallelism(spark: SparkSession) -> int:
    return int(_context(spark).defaultParallelism)


def _context(spark: SparkSession) -> Any:
    try:
        return spark.sparkContext
    except Exception as error:
        raise UnsupportedError(
            "this session has no SparkContext (Spark Connect has none); jobs over files need one"
        ) from error


def _last_line(error: BaseException) -> str | None:
    """The message of the Python error that made a job fail, out of what the JVM says of it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if not isinstance(error, Py4JJavaError | PySparkException):
        return None
    _, traceback, text = str(error).rpartition("Traceback (most recent call last):\n")
    lines = text.splitlines()
    if traceback:  # what is raised stands at the margin, after lines that are indented
        lines = [line for line in lines if line[:1].strip()]
    return lines[0].strip()


@contextmanager
def _progress(context: Any, group: str, verb: str, count: int, done: int) -> Iterator[None]:
    """A bar on the terminal while the block runs; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield
        return
    from pyspark import InheritableThread

    finished = threading.Event()
    start = time.monotonic()

    def show(completed: int) -> None:
        total = count + done
        filled = _BAR_WIDTH * (completed + done) // total
        bar = "#" * filled + "-" * (_BAR_WIDTH - filled)
        seconds = time.monotonic() - start
        sys.stderr.write(f"\r{verb} [{bar}] {completed + done}/{total}  {seconds:.0f} s")
        sys.stderr.flush()

    def poll() -> None:
        tracker = context.statusTracker()
        while not finished.wait(_POLL_SECONDS):
            completed = 0
            for job in tracker.getJobIdsForGroup(group):
                stages = tracker.getJobInfo(job)
                for stage in stages.stageIds if stages else ():
                    info = tracker.getStageInfo(stage)
                    completed += info.numCompletedTasks if info else 0
            show(completed)

    show(0)
    thread = InheritableThread(target=poll, daemon=True)
    thread.start()
    try:
        yield
        show(count)
    finally:
        finished.set()
        thread.join()
        sys.stderr.write("\n")
        sys.stderr.flush()
