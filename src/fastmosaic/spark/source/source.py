"""The Spark data source "mosaic": `spark.read.format("mosaic")`, `df.write.format("mosaic")`.

It does not use the JVM directly, so it also works with Spark Connect. Spark's interface for Python
data sources has no column pruning: `select` of one column reads all columns that were loaded. The
option `columns` or a schema chooses which columns to load; `fastmosaic.spark.read` returns a
DataFrame that the planner prunes.

Spark calls these classes in different processes: one creates the source and asks for the schema,
another one plans, and others run the tasks. Objects that are pickled in between stay small.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ...dataset.fileset import FileSet
from ...dataset.tasks import Split
from ...errors import UnsupportedError
from ..schemas import from_spark, to_spark
from ..task import SplitReader
from ..versions import installed, stream_writer_class
from .commit import StreamWriteJob, TaskMessage, TaskOutput, WriteJob, check_directory
from .load import open_files, plan_load, selected_schema
from .options import LoadOptions, check_names, load_options, save_options, sources

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter, Filter

_StreamWriter: Any = stream_writer_class()


class MosaicDataSource(DataSource):
    """Mosaic files as a source and a sink, for batch queries and streams.

    `spark.read.format("mosaic").load(path)` reads a file, a directory, a glob or a list of them. See
    `LoadOptions` for the options; a schema chooses columns and types. A DataFrame keeps reading the
    files that existed when it was loaded.

    `df.write.format("mosaic").mode(mode).save(path)` writes a directory. See `SaveOptions` for the
    options. Spark supports only the modes "append" and "overwrite" and no `partitionBy` for Python
    sources: use the options `existing` and `partition_by`, or `fastmosaic.spark.write`, which
    supports all modes. All files appear when the job is complete, followed by `_SUCCESS`. Until
    then, and if the job fails, readers see the previous content.

    The option `staging=false` writes files to their final location, for object stores, where
    moving a file copies it. Files then appear one by one as tasks end. fastmosaic leaves them out
    of the dataset until the commit; other readers may see part of a job that is running or about to
    fail, and with "overwrite" both old and new files, so they should wait for `_SUCCESS`. The
    commit removes files that do not count. If the driver is killed, they remain until a later
    write or `fastmosaic clean` removes them. Speculative execution must be disabled.

    `writeStream` supports the output modes "append" and "complete" (Spark does not offer "update"
    to Python sources) and writes each batch exactly once if the query has a checkpoint.
    `readStream` returns the rows of new files. It does not notice files whose content changes, and
    it treats files written by `compact` as new.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._source = sources(options)  # first: the catalog of Spark adds other options
        check_names(options)
        self._files: FileSet | None = None  # once they are opened

    @classmethod
    def name(cls) -> str:
        return "mosaic"

    def schema(self) -> StructType:
        options = load_options(self.options)
        self._files = open_files(self._source, options)
        return to_spark(selected_schema(self._files, options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = load_options(self.options)
        # Do not keep the files: Spark sends the source along with every task.
        files, self._files = self._files, None
        if files is None:
            if options.columns is not None:
                raise ValueError(
                    "choose columns with the option columns or with a schema, not with both"
                )
            files = open_files(self._source, options, from_spark(schema))
        kind = _PushdownReader if options.pushdown and _is_pushing() else PlanningReader
        return kind(files, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = load_options(self.options)
        if not isinstance(self._source, str):
            raise ValueError("a stream reads one directory or glob, not a list of paths")  # noqa: TRY004
        self._files = None
        from .stream import StreamReader

        kind = StreamReader
        if installed().has_stream_limits:
            from .limited_stream import LimitedStreamReader as kind
        elif options.max_files_per_trigger is not None:
            raise UnsupportedError(
                f"the option max_files_per_trigger requires Spark 4.2; this is Spark {installed()}"
            )
        return kind(self._source, from_spark(schema), options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options = save_options(self.options)
        existing = options.existing or ("overwrite" if overwrite else "append")
        if overwrite and existing != "overwrite":
            raise ValueError(f'existing={existing!r} contradicts mode("overwrite")')
        output = TaskOutput(from_spark(schema), options)
        return JobWriter(WriteJob.begin(self._directory(), output, existing))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        options = save_options(self.options)
        if options.existing is not None or not options.staging:
            raise ValueError("the options existing and staging are not supported for streams")
        output = TaskOutput(from_spark(schema), options)
        return StreamWriter(StreamWriteJob(output, self._directory(), overwrite))

    def _directory(self) -> str:
        if not isinstance(self._source, str):
            raise ValueError("a dataset is written to one directory, not to a list of paths")  # noqa: TRY004
        check_directory(self._source)
        return self._source


# ---- reading


class PlanningReader(DataSourceReader):
    """Plans the splits. Unpickled in a task, it only reads them."""

    def __init__(self, files: FileSet, options: LoadOptions) -> None:
        self._files = files
        self._options = options
        self._pushed: Sequence[Filter] = ()

    @cached_property
    def _plan(self) -> tuple[SplitReader, list[Split]]:
        return plan_load(self._files, self._options, self._pushed)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(split) for split in self._plan[1]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._plan[0].read(partition.value)

    def __reduce__(self) -> tuple[type[_TaskReader], tuple[SplitReader]]:
        return _TaskReader, (self._plan[0],)


class _PushdownReader(PlanningReader):
    """Spark raises if this method exists while the session does not enable filter pushdown."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pushed = filters
        return filters  # they only skip row groups: Spark must still filter rows


class _TaskReader(DataSourceReader):
    def __init__(self, splits: SplitReader) -> None:
        self._splits = splits

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        # Without splits, Spark runs one task: 4.0 passes nothing to it, later versions a partition.
        return self._splits.read(None if partition is None else partition.value)


def _is_pushing() -> bool:
    """Whether Spark is pushing filters: the session enables it, and this process is for that."""
    return "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules


# ---- writing


class JobWriter(DataSourceArrowWriter):
    """Writes the files of a job; without a job it writes nothing."""

    def __init__(self, job: WriteJob | None) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return TaskMessage() if self._job is None else self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._job is not None:
            self._job.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._job is not None:
            self._job.abort()


class StreamWriter(_StreamWriter):
    def __init__(self, job: StreamWriteJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._job.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._job.abort(messages)
