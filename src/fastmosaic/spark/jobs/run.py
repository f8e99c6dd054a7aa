"""Run Python functions on work items as Spark tasks.

Items and results are small. The tables that the functions read and write never pass through the JVM.
"""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...errors import CorruptFileError, MosaicError, UnsupportedError
from ...storage.secrets import redacted_text
from .records import Records, Result
from .report import Failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS: Final = 0.25


class BadFile(Exception):
    """A file has invalid content, so trying again will not help."""

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
    """Turn errors about the content of `file` into a BadFile."""
    try:
        yield
    except MosaicError as error:
        raise BadFile(file, error) from error
    except (pa.ArrowException, ValueError, NotImplementedError) as error:
        raise BadFile(file, CorruptFileError(str(error))) from error
    except OSError as error:
        # Arrow raises an OSError without a number for invalid bytes.
        if error.errno is not None:
            raise
        raise BadFile(file, CorruptFileError(str(error))) from error


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a task returns: a result, a bad file, or the error of its last attempt."""

    number: int
    result: Result | None = None
    blame: tuple[str, MosaicError] | None = None
    error: str | None = None


def run(
    spark: SparkSession,
    verb: str,
    items: Mapping[int, Any],
    work: Callable[[Any], Result],
    *,
    records: Records | None = None,
    done: int = 0,
) -> dict[int, Result]:
    """Call `work` for each item in a task of its own, and return the results by number.

    A task may run more than once: `work` must choose new names for the files it writes, and only
    files named in the results count. If `work` raises BadFile, it is raised here, and items that
    have not started are skipped. `done` is the number of items finished by an earlier run.
    """
    if not items:
        return {}
    if records is not None:
        records.prepare()
    tasks = context_of(spark).parallelize(list(items.items()), len(items))
    tries = partial(attempt, work, records, max_attempts(spark))
    return collect(spark, verb, tasks.map(tries).collect, len(items), done)


def collect(
    spark: SparkSession,
    verb: str,
    outcomes_of: Callable[[], list[Outcome]],
    count: int,
    done: int = 0,
) -> dict[int, Result]:
    """Return the results of `count` tasks, whose outcomes a job of Spark collects; raise as `run`."""
    context = context_of(spark)
    group = f"fastmosaic-{uuid.uuid4().hex}"
    context.setJobGroup(group, f"fastmosaic {verb}", interruptOnCancel=True)
    try:
        with _progress(context, group, verb, count, done):
            outcomes = outcomes_of()
    except BaseException as error:
        with suppress(Exception):
            context.cancelJobGroup(group)
        message = _java_message(error)
        if message is None:
            raise
        raise RuntimeError(f"{verb}: a task failed repeatedly: {message}") from error
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    for outcome in outcomes:
        if outcome.blame is not None:
            raise BadFile(*outcome.blame)
    for outcome in outcomes:
        if outcome.error is not None:
            raise RuntimeError(f"{verb}: a task failed repeatedly: {outcome.error}")
    return {one.number: one.result for one in outcomes if one.result is not None}


def attempt(
    work: Callable[[Any], Result],
    records: Records | None,
    attempts: int,
    numbered: tuple[int, Any],
) -> Outcome:
    """Work on an item in a task. Only the last attempt returns its error: Spark repeats those that raise."""
    from pyspark import TaskContext

    number, item = numbered
    if records is not None and records.is_stopped():
        return Outcome(number)
    try:
        result = work(item)
    except BadFile as error:
        if records is not None:
            records.stop()
        return Outcome(number, blame=(error.file, error.error))
    except Exception as error:
        context = TaskContext.get()
        if context is None or context.attemptNumber() + 1 < attempts:
            raise
        if records is not None:
            records.stop()
        return Outcome(number, error=redacted_text(f"{type(error).__name__}: {error}"))
    if records is not None:
        records.save(number, result)
    return Outcome(number, result)


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that run at the same time."""
    return int(context_of(spark).defaultParallelism)


def max_attempts(spark: SparkSession) -> int:
    """Return how often Spark tries a task."""
    return int(context_of(spark)._jsc.sc().taskScheduler().maxTaskFailures())


def context_of(spark: SparkSession) -> Any:
    """Return the context of a session; raise UnsupportedError if it has none."""
    try:
        return spark.sparkContext
    except Exception as error:
        raise UnsupportedError(
            "jobs over files need a SparkContext, which Spark Connect does not have"
        ) from error


def _java_message(error: BaseException) -> str | None:
    """Return why the JVM gave a job up, for example because a worker crashed."""
    from py4j.protocol import Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return None
    reason = error.java_exception
    return redacted_text(str((reason.getCause() or reason).getMessage()))


@contextmanager
def _progress(context: Any, group: str, verb: str, count: int, done: int) -> Iterator[None]:
    """Show a progress bar while the block runs, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from pyspark import InheritableThread
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    finished = threading.Event()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True))
    task = bar.add_task(verb, total=count + done, completed=done)

    def poll() -> None:
        tracker = context.statusTracker()
        while not finished.wait(_POLL_SECONDS):
            completed = done
            for job in tracker.getJobIdsForGroup(group):
                stages = tracker.getJobInfo(job)
                for stage in stages.stageIds if stages else ():
                    info = tracker.getStageInfo(stage)
                    completed += info.numCompletedTasks if info else 0
            bar.update(task, completed=completed)

    thread = InheritableThread(target=poll, daemon=True)
    with bar:
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()
        bar.update(task, completed=count + done)  # now nothing else moves the bar
