"""How the tasks of a Spark job write one data set, of which all appears, or nothing.

A `Job` begins in the process that plans the write and is pickled from there: to the tasks, each of
which writes files of its own below the staging directory and says which; and to the process that
ends it, by making exactly these visible, or none. What a task has written that failed, was killed,
or came second is in no message, and goes with the staging directory.

A stream has no such beginning. Its tasks know the query and the batch from Spark, so that the
staging directory follows from the query, and a batch that was committed is known by a file in
`_commits`, which appears together with the files of the batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from ...dataset.fileset import FileSet
from ...dataset.write import write_dataset
from ...errors import SchemaMismatchError, UnsupportedError
from ...schemas.fit import stored_schema
from ...schemas.widen import widened
from ...storage.location import locate
from ...storage.sink import open_sink
from ...storage.staging import Direct, Staging, files_below, storage_of
from .options import WriteOptions

SUCCESS: Final = "_SUCCESS"
COMMITS: Final = "_commits"

# Local properties of a stream's tasks.
QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    """What a task has written: paths below the directory."""

    files: tuple[str, ...] = ()
    query: str = ""  # if it is a stream's


@dataclass(frozen=True, kw_only=True)
class _Shared(Staging):
    """The place of a job, for one of those who write there: whoever ends the job clears up.

    A task may outlive its job, if that fails or another attempt was faster. What it writes after
    the end it has to remove itself.
    """

    job: Staging
    given: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, job: Staging, name: str) -> _Shared:
        values = {one.name: getattr(job, one.name) for one in fields(job)}
        values["prefix"] += f"-{name}"
        return cls(**values, job=job)

    def path(self, file: str) -> str:
        self._check()
        path = self.job.path(file)
        self.given.append(path)
        return path

    def commit(self, files: Iterable[str]) -> None:
        self._check()

    def abandon(self) -> None:
        if self.job.is_ended():
            storage = storage_of(self.filesystem)
            for path in self.given:
                with suppress(OSError):
                    storage.delete_file(path)

    def _check(self) -> None:
        if self.job.is_ended():
            raise OSError(f"the write to {self.name} has ended without this task")


@dataclass(frozen=True)
class Output:
    """What the files of a write are like."""

    schema: pa.Schema
    options: WriteOptions

    def write(self, batches: Iterable[pa.RecordBatch], staging: Staging) -> tuple[str, ...]:
        """Write batches as files; their paths below the directory."""
        report = write_dataset(
            (self._fit(batch) for batch in batches),
            staging,
            schema=self.schema,
            use_threads=False,
            **self.options.of_files(),
        )
        start = len(staging.name.rstrip("/")) + 1
        return tuple(file.path[start:] for file in report.files)

    def write_task(self, batches: Iterator[pa.RecordBatch], staging: Staging) -> tuple[str, ...]:
        """Write the rows of a task; none is no file."""
        context = TaskContext.get()
        assert context is not None
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return ()
        name = f"{context.partitionId():05d}-{context.taskAttemptId()}"
        return self.write(chain([first], batches), _Shared.of(staging, name))

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the types of the schema where Spark has others: zones, and times of day."""
        arrays = []
        for one, array in zip(self.schema, batch.columns, strict=True):
            try:
                arrays.append(array if array.type == one.type else array.cast(one.type))
            except pa.ArrowInvalid as error:
                raise UnsupportedError(
                    f"column {one.name!r}: the format has {one.type} for {array.type}: {error}"
                ) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


# ---- a batch job


@dataclass(frozen=True)
class Job:
    """A write in many tasks, which ends in exactly one of `commit` and `abort`."""

    output: Output
    staging: Staging
    without_rows: tuple[str, ...]  # files to show if no task has rows

    @classmethod
    def begin(cls, path: str, output: Output, existing: str) -> Job | None:
        """Check all that can be checked before there are rows; None if nothing is to be written.

        The file without rows tells that the options are right, and the columns of a table that is
        empty.
        """
        found = False
        if existing == "append":
            found = check_fits(path, output)
        place = Staging if output.options.staging else Direct
        try:
            staging = place.begin(path, None, "error" if existing == "ignore" else existing)
        except FileExistsError:
            if existing != "ignore":
                raise
            return None
        try:
            files = output.write([], _Shared.of(staging, "none"))
        except BaseException:
            staging.abandon()
            raise
        return cls(output, staging, () if found else files)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        return Written(self.output.write_task(batches, self.staging))

    def commit(self, messages: Iterable[Any]) -> None:
        files = [file for message in messages for file in message.files]
        self.staging.commit(files or self.without_rows)
        open_sink(f"{self.staging.base_dir}/{SUCCESS}", self.staging.filesystem).commit()

    def abort(self) -> None:
        self.staging.abandon()


def check_fits(path: str, output: Output) -> bool:
    """Raise if files in `path` would not go with those to be written; whether there are any."""
    try:
        files = FileSet(path)
    except FileNotFoundError:
        return False
    keys, wanted = files.partitions.names, output.options.partition_by or []
    if keys != wanted:
        raise SchemaMismatchError(
            f"{path} is partitioned by {', '.join(keys) or 'nothing'}, "
            f"and partition_by is {', '.join(wanted) or 'nothing'}"
        )
    names = set(files.columns.names()).difference(keys)
    for one in stored_schema(output.schema):
        if one.name in names:
            there = files.columns.field(one.name).type
            if widened(there, one.type) is None:
                raise SchemaMismatchError(
                    f"column {one.name!r} is {there} in {path} and {one.type} in the DataFrame, "
                    "which no type joins"
                )
    return True


# ---- a stream


@dataclass(frozen=True)
class StreamJob:
    """The writes of a streaming query, one for each batch.

    A batch that Spark gives again, after a failure or a restart from the checkpoint, is not written
    again if it was committed; and if a commit was interrupted, what it had made visible is taken
    back first.
    """

    output: Output
    path: str
    overwrites: bool

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty(QUERY)
        if not query:
            raise UnsupportedError(f"this Spark does not tell the tasks of a stream their {QUERY}")
        staging = self._staging(query)
        if staging.filesystem is None:
            os.makedirs(staging.root, exist_ok=True)
        return Written(self.output.write_task(batches, staging), query)

    def commit(self, messages: Iterable[Any], batch: int) -> None:
        done = list(messages)
        if not done:
            return
        query = done[0].query
        files = [file for message in done for file in message.files]
        if self.overwrites:
            staging = self._staging(query)
            staging.commit(files or self.output.write([], _Shared.of(staging, "none")))
            return
        staging = Staging.begin(self.path, None, "append", identity=query)
        log = f"{COMMITS}/{query}"
        storage = storage_of(staging.filesystem)
        committed = [int(name) for name in files_below(storage, f"{staging.base_dir}/{log}")]
        if not files or batch <= max(committed, default=-1):
            staging.abandon()
            return
        entry = f"{log}/{batch}"
        open_sink(staging.path(entry), staging.filesystem).commit()
        staging.commit([*files, entry])
        for number in committed:
            storage.delete_file(f"{staging.base_dir}/{log}/{number}")

    def abort(self, messages: Iterable[Any]) -> None:
        """Remove what was written, if a message tells the query; otherwise the next commit does."""
        for query in {message.query for message in messages if message is not None}:
            self._staging(query).abandon()

    def _staging(self, query: str) -> Staging:
        """The directory inside, as `Staging.begin` with the query's identity has it."""
        found = locate(self.path, None)
        assert found is not None
        name, filesystem, path = found
        path = os.path.realpath(path) if filesystem is None else path.rstrip("/")
        existing = "overwrite" if self.overwrites else "append"
        root = f"{path}/_staging-{query}"
        return Staging(name, path, filesystem, root, existing, replaces=False, made=())
