"""The commit protocol: many tasks write one dataset, and either all of it appears or nothing.

A `WriteJob` is created by the process that plans the write. It is pickled and sent to the tasks,
each of which writes its own files below the staging directory and returns their names in a message.
It is also sent to the process that ends the job and makes exactly these files visible, or none.
Files of tasks that failed, were killed, or lost against a speculative attempt are in no message and
are removed with the staging directory.

A stream has no such planning step. Its tasks get the ids of the query and the batch from Spark: the
name of the staging directory contains the query, and a file in `_commits`, which appears together
with the files of a batch, tells that the batch was committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from ...dataset.fileset import FileSet
from ...dataset.write import DatasetWriter
from ...errors import SchemaMismatchError, UnsupportedError
from ...schemas.fit import plain_schema
from ...schemas.widen import widened
from ...storage.debris import staging_name
from ...storage.direct import Direct
from ...storage.listing import files_below
from ...storage.location import locate
from ...storage.remote import storage_of
from ...storage.secrets import redacted
from ...storage.sink import Sink, open_sink
from ...storage.staging import Staging
from ...storage.target import check_no_table, new_prefix
from ..schemas import cast_from_spark
from ..versions import commit_message_class
from .options import SaveOptions

SUCCESS: Final = "_SUCCESS"
COMMITS: Final = "_commits"

# Local properties that Spark sets for the tasks of a stream.
QUERY: Final = "sql.streaming.queryId"
BATCH: Final = "streaming.sql.batchId"


_CommitMessage: Any = commit_message_class()


@dataclass
class TaskMessage(_CommitMessage):
    """The files that a task wrote: paths below the directory."""

    files: tuple[str, ...] = ()
    query: str = ""  # the id of the stream


class _TaskFiles:
    """The files of one task, below the staging directory of its job.

    A task may outlive its job, if the job fails or another attempt was faster. It removes the
    files that it has written after the end.
    """

    def __init__(self, job: Staging) -> None:
        self._job = job
        self._paths: list[str] = []

    def open(self, file: str) -> Sink:
        self.check()
        self._paths.append(f"{self._job.root}/{file}")
        return self._job.open(file)

    def check(self) -> None:
        if self._job.is_ended():
            raise OSError(f"the write to {self._job.name} ended before this task")

    def abandon(self) -> None:
        if self._job.is_ended():
            storage = storage_of(self._job.filesystem)
            for path in self._paths:
                with suppress(OSError):
                    storage.delete_file(path)


@dataclass(frozen=True)
class TaskOutput:
    """Writes files with a schema and options."""

    schema: pa.Schema
    options: SaveOptions

    def write(
        self, batches: Iterable[pa.RecordBatch], staging: Staging, name: str
    ) -> tuple[str, ...]:
        """Write batches as files whose names contain `name`; return their paths."""
        files = _TaskFiles(staging)
        try:
            with DatasetWriter(
                files.open,
                self.schema,
                prefix=f"{staging.prefix}-{name}",
                use_threads=False,
                **self.options.of_dataset(),
            ) as writer:
                for batch in batches:
                    writer.write_batch(cast_from_spark(batch, self.schema))
                written = writer.finish()
            files.check()
        except BaseException:
            files.abandon()
            raise
        return tuple(file.path for file in written)

    def write_task(self, batches: Iterator[pa.RecordBatch], staging: Staging) -> tuple[str, ...]:
        """Write the rows of a task. Without rows there is no file."""
        context = TaskContext.get()
        assert context is not None
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return ()
        name = f"{context.partitionId():05d}-{context.taskAttemptId()}"
        return self.write(chain([first], batches), staging, name)


# ---- a batch job


@dataclass(frozen=True)
class WriteJob:
    """A write by many tasks, which ends with either `commit` or `abort`."""

    output: TaskOutput
    staging: Staging
    without_rows: tuple[str, ...]  # files to commit if no task has rows

    @classmethod
    def begin(cls, path: str, output: TaskOutput, existing: str) -> WriteJob | None:
        """Check everything that can be checked before there are rows, and start the job.

        Returns None if there is nothing to write. A file without rows is written to check the
        options; it is committed if no task has rows, so that the table keeps its columns.
        """
        found = False
        if existing == "append":
            found = check_fits(path, output)
        place = Staging if output.options.staging else Direct
        try:
            staging = place.begin(
                path, None, "error" if existing == "ignore" else existing, is_shared=True
            )
        except FileExistsError:
            if existing != "ignore":
                raise
            return None
        try:
            files = output.write([], staging, "none")
        except BaseException:
            staging.abandon()
            raise
        return cls(output, staging, () if found else files)

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        return TaskMessage(self.output.write_task(batches, self.staging))

    def commit(self, messages: Iterable[Any]) -> None:
        files = [file for message in messages for file in message.files]
        self.staging.commit(files or self.without_rows)
        open_sink(f"{self.staging.base_dir}/{SUCCESS}", self.staging.filesystem).commit()

    def abort(self) -> None:
        self.staging.abandon()


def check_directory(path: str) -> None:
    """Raise if `path` is a table, which is changed by its own operations only."""
    found = locate(path, None)
    assert found is not None  # it is text
    check_no_table(*found)


def check_fits(path: str, output: TaskOutput) -> bool:
    """Raise if files in `path` do not fit the new ones. Returns whether there are any."""
    try:
        files = FileSet(path)
    except FileNotFoundError:
        return False
    keys, wanted = files.partitions.names, output.options.partition_by or []
    if keys != wanted:
        raise SchemaMismatchError(
            f"{redacted(path)} is partitioned by {', '.join(keys) or 'nothing'}, "
            f"but partition_by is {', '.join(wanted) or 'nothing'}"
        )
    names = set(files.columns.names()).difference(keys)
    for one in plain_schema(output.schema):
        if one.name in names:
            there = files.columns.field(one.name).type
            if widened(there, one.type) is None:
                raise SchemaMismatchError(
                    f"column {one.name!r} is {there} in {redacted(path)} and {one.type} in "
                    "the DataFrame, and there is no common type: cast the column before writing"
                )
    return True


# ---- a stream


@dataclass(frozen=True)
class StreamWriteJob:
    """The writes of a streaming query, one for each batch.

    After a failure or a restart from the checkpoint, Spark may repeat a batch. It is not written
    again if it was committed. If its commit was interrupted, it is completed: files that readers may
    have seen already, such as another stream, do not disappear.
    """

    output: TaskOutput
    path: str
    overwrites: bool

    def write(self, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty(QUERY)
        if not query:
            raise UnsupportedError(
                f"this version of Spark does not set the property {QUERY} for the tasks of a stream"
            )
        staging = self._staging(query)
        if staging.filesystem is None:
            os.makedirs(staging.root, exist_ok=True)
        return TaskMessage(self.output.write_task(batches, staging), query)

    def commit(self, messages: Iterable[Any], batch: int) -> None:
        done = list(messages)
        if not done:
            return
        query = done[0].query
        files = [file for message in done for file in message.files]
        if self.overwrites:
            staging = self._staging(query)
            staging.commit(files or self.output.write([], staging, "none"))
            return
        self._staging(query).finish()
        staging = Staging.begin(self.path, None, "append", identity=query)
        log = f"{COMMITS}/{query}"
        storage = storage_of(staging.filesystem)
        committed = [
            int(name) for name in files_below(staging.filesystem, f"{staging.base_dir}/{log}")
        ]
        newest = max(committed, default=-1)
        if not files or batch <= newest:
            staging.abandon()
        else:
            entry = f"{log}/{batch}"
            with suppress(FileExistsError):  # an interrupted commit left it; the file is empty
                staging.open(entry).commit()
            staging.commit([*files, entry])
            newest = batch
        for number in committed:
            if number < newest:
                storage.delete_file(f"{staging.base_dir}/{log}/{number}")

    def abort(self, messages: Iterable[Any]) -> None:
        """Remove the files if a message has the query id; otherwise the next commit removes them.

        If the commit of this batch or of an earlier attempt at it has begun, it is completed.
        """
        for query in {message.query for message in messages if message is not None}:
            staging = self._staging(query)
            staging.finish()
            staging.abandon()

    def _staging(self, query: str) -> Staging:
        """Return the staging directory that `Staging.begin` uses for this query."""
        found = locate(self.path, None)
        assert found is not None
        name, filesystem, path = found
        path = os.path.realpath(path) if filesystem is None else path.rstrip("/")
        existing = "overwrite" if self.overwrites else "append"
        root = f"{path}/{staging_name(query)}"
        return Staging(name, path, filesystem, root, existing, False, (), new_prefix())
