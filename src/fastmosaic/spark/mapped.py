"""Read and write through `DataFrame.mapInArrow`, for Spark 3.5, which has no data sources in Python."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..dataset.fileset import FileSet
from ..dataset.tasks import share_out
from ..query.query import Query
from .schemas import from_spark, to_spark
from .source.commit import TaskOutput, WriteJob, check_directory
from .source.options import save_options
from .task import PlannedReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_mapped", "write_mapped"]

MAX_SPLIT_BYTES: Final = 32 << 20
MESSAGE: Final = "message"


def read_mapped(spark: SparkSession, files: FileSet, schema: pa.Schema) -> DataFrame:
    """Return a DataFrame of the columns of `schema`, which has types that Spark accepts."""
    context = spark.sparkContext
    scan, splits = share_out(
        files,
        Query(schema),
        max_bytes=MAX_SPLIT_BYTES,
        min_splits=context.defaultParallelism,
    )
    items = [(bytearray(pickle.dumps(split)),) for split in splits]
    rows = context.parallelize(items, max(1, len(items)))
    reader = PlannedReader(scan)
    return spark.createDataFrame(rows, "split binary").mapInArrow(reader.__call__, to_spark(schema))


def write_mapped(df: DataFrame, path: str, options: Mapping[str, str], existing: str) -> None:
    """Write a DataFrame as a dataset; `options` are those of the data source."""
    check_directory(path)
    output = TaskOutput(from_spark(df.schema), save_options(options))
    job = WriteJob.begin(path, output, existing)
    if job is None:
        return
    try:
        rows = df.mapInArrow(_Task(job).run, f"{MESSAGE} binary").collect()
    except BaseException:
        job.abort()
        raise
    job.commit(pickle.loads(row[MESSAGE]) for row in rows)


class _Task:
    """Writes the rows of a task, and returns its message."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        message: Any = pickle.dumps(self._job.write(batches))
        yield pa.RecordBatch.from_pydict({MESSAGE: [message]})
