"""The data source "mosaic" of Spark: `spark.read.format("mosaic")`, `df.write.format("mosaic")`.

It goes without anything of the JVM's, so it works with Spark Connect, too. What Spark's interface
for sources in Python does not have is that the planner prunes columns: `select` of one column reads
all that were loaded. Here the option `columns`, or a schema, says which to load;
`fastmosaic.spark.read` gives a DataFrame for which the planner does.

Spark calls these classes in processes of its own: one makes the source and asks for the schema,
another plans, others run the tasks. What is pickled in between is small: a task gets its split, and
the columns to read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from functools import cached_property

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from ...dataset.fileset import FileSet
from ...dataset.tasks import Split
from ...errors import UnsupportedError
from ..schemas import from_spark, to_spark
from .commit import Job, Output, StreamJob, Written
from .load import Columns, chosen, opened, planned
from .options import ReadOptions, check_names, read_options, sources, write_options


class MosaicDataSource(DataSource):
    """Mosaic files as a source, a sink, and both of streams.

    `spark.read.format("mosaic").load(path)` takes a file, a directory, a glob or a list of them;
    the options are those of `ReadOptions`, and a schema chooses columns and types. A DataFrame
    keeps to the files that were there when it was loaded.

    `df.write.format("mosaic").mode(mode).save(path)` writes a directory; the options are those of
    `WriteOptions`. Spark lets the mode be "append" or "overwrite", nothing else, and `partitionBy`
    be empty: the options `existing` and `partition_by` are for that, and `fastmosaic.spark.write`
    has all modes. All files of a job appear together with its end, then `_SUCCESS`. Until then,
    and if it fails, what was there can be read.

    With the option `staging=false` files are written where they will be, for object stores, where
    moving them would be to copy them. They appear one by one, as tasks end, so that a reader sees
    some of a job that still runs or is about to fail; and with "overwrite", both old and new ones.
    The end of the job removes those that do not count. If the driver is killed they stay, so a
    reader should wait for `_SUCCESS`; and speculation must be off.

    Streams: a directory as the sink of `writeStream`, in the output modes "append" and "complete"
    ("update" is not to be had in Python), gets each batch exactly once, if the query has a
    checkpoint. As a source of `readStream` it gives the files that are new; files that change
    under their name are not noticed, and those of `compact` would be taken for new.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        check_names(options)
        self._source = sources(options)
        self._files: FileSet | None = None  # if this process or an earlier one has opened them

    @classmethod
    def name(cls) -> str:
        return "mosaic"

    def schema(self) -> StructType:
        options = read_options(self.options)
        self._files = opened(self._source, options)
        return to_spark(chosen(self._files, options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options)
        # Not to be kept: Spark sends the source along with every task.
        files, self._files = self._files, None
        if files is None:
            if options.columns is not None:
                raise ValueError("columns are chosen by the option or by a schema, not by both")
            files = opened(self._source, options, from_spark(schema))
        kind = _PushingReader if options.pushdown and _is_pushing() else MosaicReader
        return kind(files, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = read_options(self.options)
        try:
            from .stream import MosaicStreamReader
        except ImportError as error:  # Spark 4.1 has no limits for a batch
            raise UnsupportedError(f"streams from Mosaic files take Spark 4.2: {error}") from error
        if not isinstance(self._source, str):
            raise ValueError("a stream reads one directory or glob")  # noqa: TRY004
        self._files = None
        return MosaicStreamReader(self._source, from_spark(schema), options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options = write_options(self.options)
        existing = options.existing or ("overwrite" if overwrite else "append")
        if overwrite and existing != "overwrite":
            raise ValueError(f'mode("overwrite") and existing={existing!r} contradict each other')
        return MosaicWriter(
            Job.begin(self._directory(), Output(from_spark(schema), options), existing)
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        options = write_options(self.options)
        if options.existing is not None or not options.staging:
            raise ValueError("a stream has its output mode, and a staging directory always")
        output = Output(from_spark(schema), options)
        return MosaicStreamWriter(StreamJob(output, self._directory(), overwrite))

    def _directory(self) -> str:
        if not isinstance(self._source, str):
            raise ValueError("a data set is written to one directory")  # noqa: TRY004
        return self._source


# ---- reading


class MosaicReader(DataSourceReader):
    """Plans the splits; pickled, it is what reads them."""

    def __init__(self, files: FileSet, options: ReadOptions) -> None:
        self._files = files
        self._options = options
        self._pushed: Sequence[Filter] = ()

    @cached_property
    def _plan(self) -> tuple[Columns, list[Split]]:
        return planned(self._files, self._options, self._pushed)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(split) for split in self._plan[1]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._plan[0].read(partition.value)

    def __reduce__(self) -> tuple[type[_TaskReader], tuple[Columns]]:
        return _TaskReader, (self._plan[0],)


class _PushingReader(MosaicReader):
    """Spark must not find the method where the session does not allow it."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._pushed = filters
        return filters  # statistics skip row groups, they do not filter rows


class _TaskReader(DataSourceReader):
    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._columns.read(partition.value)


def _is_pushing() -> bool:
    """Whether this is the process that pushes filters, which there is if the session allows it."""
    return "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules


# ---- writing


class MosaicWriter(DataSourceArrowWriter):
    """Writes a job; without one, nothing."""

    def __init__(self, job: Job | None) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written() if self._job is None else self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._job is not None:
            self._job.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._job is not None:
            self._job.abort()


class MosaicStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, job: StreamJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._job.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._job.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._job.abort(messages)
