"""Columns that Spark SQL computes, aligned with the rows of each base file.

A task reads the inputs of one file in Python, in order, with the number of each row. Spark evaluates the
expressions on these rows, without a shuffle, and hands them to Python again, which writes the column file.
The numbers of the rows are checked there. Columns that no expression names never enter the JVM.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from ...dataset.fileset import FileSet
from ...dataset.table_files import DatasetFile
from ...errors import MosaicError, UnsupportedError
from ...table.column_files import ColumnWriter, WrittenColumns
from ...table.columns import nullable
from ..schemas import arrow_for_spark, cast_for_spark, from_spark, to_spark
from .records import Records, Result
from .run import BadFile, attempt, collect, context_of, max_attempts
from .table_job import TableJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Beside the inputs and the new columns: the number of a row, and the item in the first row of a file.
_ROW: Final = "fastmosaic row"
_ITEM: Final = "fastmosaic item"
_BATCH_ROWS: Final = 16384
# Settings of a session on which values depend.
_SETTINGS: Final = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")


@dataclass(slots=True)
class SqlColumns:
    """Columns that expressions in Spark SQL compute.

    expressions  by the names of the columns
    inputs       names of the columns that they are computed from
    schema       the new columns
    identity     what the values depend on, except for the inputs
    """

    expressions: dict[str, str]
    inputs: list[str]
    schema: pa.Schema
    identity: str

    @classmethod
    def of(cls, spark: SparkSession, expressions: Mapping[str, str], files: FileSet) -> SqlColumns:
        """Analyze expressions. Spark's own errors are raised if they are wrong."""
        for name, text in expressions.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise TypeError(
                    f"column {name!r}: expected an expression in Spark SQL, such as 'a / b', "
                    f"not an object of type {type(text).__name__}"
                )
        if not expressions:
            raise ValueError("there are no columns to add")
        context_of(spark)  # which raises if there is none
        known = _supported(files.schema)
        rows = spark.createDataFrame([], to_spark(known))
        result = _select(rows, expressions)
        used = _inputs(rows, result)
        settings = [spark.version, *(spark.conf.get(one) for one in _SETTINGS)]
        return cls(
            dict(expressions),
            [name for name in known.names if name in used],
            nullable(from_spark(result.schema)),
            repr((list(expressions.items()), settings)),
        )

    def run(
        self,
        spark: SparkSession,
        job: TableJob,
        items: Mapping[int, DatasetFile],
        writer: ColumnWriter,
        done: int,
    ) -> dict[int, Result]:
        """Write the column files of `items` in tasks, and return their results."""
        if not items:
            return {}
        job.records.prepare()
        results = {
            number: _SqlTarget(writer, self.schema, iter(())).write(file)
            for number, file in items.items()
            if file.num_rows == 0
        }
        todo = [(pickle.dumps(item),) for item in items.items() if item[0] not in results]
        if not todo:
            return results
        columns = writer.query.result
        sent = nullable(arrow_for_spark(columns))
        sent = sent.append(pa.field(_ROW, pa.int64())).append(pa.field(_ITEM, pa.binary()))
        read = partial(_read, writer, sent)
        write = partial(_write, writer, self.schema, job.records, max_attempts(spark))
        tasks = context_of(spark).parallelize(todo, len(todo))
        rows = spark.createDataFrame(tasks, "item binary").mapInArrow(read, to_spark(sent))
        written = _select(rows, self.expressions, _ROW, _ITEM).mapInArrow(write, "outcome binary")

        def outcomes() -> list[Any]:
            return [pickle.loads(row[0]) for row in written.collect()]

        with job.discarding():
            return results | collect(spark, "add columns", outcomes, len(todo), done)


def _supported(schema: pa.Schema) -> pa.Schema:
    """Return the columns whose types Spark has."""
    try:
        arrow_for_spark(schema)
    except UnsupportedError:
        return pa.schema([field for field in schema if _is_supported(field)])
    return schema


def _is_supported(field: pa.Field) -> bool:
    try:
        arrow_for_spark(pa.schema([field]))
    except UnsupportedError:
        return False
    return True


def _select(rows: DataFrame, expressions: Mapping[str, str], *others: str) -> DataFrame:
    from pyspark.sql import functions

    new = [functions.expr(text).alias(name) for name, text in expressions.items()]
    return rows.select(*new, *(functions.col(f"`{name}`") for name in others))


def _inputs(rows: DataFrame, result: DataFrame) -> set[str]:
    """Return the names of the columns that expressions use; raise if they are not of one row each."""
    before, after = (one._jdf.queryExecution().analyzed() for one in (rows, result))
    is_of_rows = after.getClass().getSimpleName() == "Project" and after.child().getClass().equals(
        before.getClass()
    )
    if not is_of_rows:
        raise UnsupportedError(
            "an expression must compute one value from the columns of one row: aggregates, window "
            "functions and functions that return several rows, such as explode, are not possible"
        )
    names = set()
    references = after.references().iterator()
    while references.hasNext():
        names.add(str(references.next().name()))
    return names


# ---- in a task


def result_of(written: WrittenColumns) -> Result:
    """Return what a task tells about a column file."""
    return {"written": astuple(written), "files": [(written.path, written.size)]}


def _read(
    writer: ColumnWriter, schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the inputs of the files that are in `batches`, with the numbers of rows."""
    inputs = pa.schema(list(schema)[:-2])
    for item in (value.as_py() for batch in batches for value in batch.column(0)):
        _, file = pickle.loads(item)
        start = 0
        for batch in writer.batches(file):
            for offset in range(0, batch.num_rows, _BATCH_ROWS):
                part = cast_for_spark(batch.slice(offset, _BATCH_ROWS), inputs)
                count = min(_BATCH_ROWS, batch.num_rows - offset)
                rows = pa.array(np.arange(start, start + count, dtype=np.int64))
                items = pa.concat_arrays(
                    [
                        pa.array([None if start else item], pa.binary()),
                        pa.nulls(count - 1, pa.binary()),
                    ]
                )
                yield pa.RecordBatch.from_arrays([*part.columns, rows, items], schema=schema)
                start += count


def _write(
    writer: ColumnWriter,
    schema: pa.Schema,
    records: Records,
    attempts: int,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Write the column file of one file; `batches` are the new columns, with the numbers of rows."""
    first = next(batch for batch in batches if batch.num_rows)
    item = pickle.loads(first.column(_ITEM)[0].as_py())
    work = _SqlTarget(writer, schema, chain([first], batches)).write
    outcome = attempt(work, records, attempts, item)
    yield pa.RecordBatch.from_pydict({"outcome": [pickle.dumps(outcome)]})


@dataclass(frozen=True, slots=True)
class _SqlTarget:
    """Writes the column file of one file."""

    writer: ColumnWriter
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    def write(self, file: DatasetFile) -> Result:
        try:
            with self.writer.store.new_files() as open_file:
                target = self.writer.target(file, open_file)
                try:
                    for batch in self.batches:
                        self._check(batch, target.num_rows)
                        new = batch.select(self.schema.names)
                        target.put(cast_for_spark(new, self.schema), self.schema)
                    return result_of(target.finish(self.schema))
                except BaseException:
                    target.abandon()
                    raise
        except MosaicError as error:
            raise BadFile(file.name, error) from error

    def _check(self, batch: pa.RecordBatch, start: int) -> None:
        rows = batch.column(_ROW).to_numpy()
        if not np.array_equal(rows, np.arange(start, start + batch.num_rows)):
            raise UnsupportedError(
                "the expressions change the number or the order of rows; use a function instead"
            )
