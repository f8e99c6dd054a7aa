"""`add_columns`: compute new columns of a table in Spark tasks, one for each base file."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace as replaced
from typing import TYPE_CHECKING, Any, Final, Unpack

import pyarrow as pa

from ...dataset.files import File
from ...dataset.fileset import FileSet
from ...dataset.table_files import DatasetFile
from ...errors import MosaicError
from ...file.opening import SchemaCache
from ...file.options import WriteOptions, accepts_options, check_names
from ...table.changes import State
from ...table.column_files import (
    ColumnWriter,
    WrittenColumns,
    added,
    first_with_rows,
)
from ...table.columns import FunctionColumns, check_new
from ...table.rewrite import entry_of
from .fingerprint import fingerprint
from .records import Result
from .report import AddColumnsReport
from .run import BadFile
from .sql_columns import SqlColumns, result_of
from .table_job import TableJob, change_of, number_of, with_threads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@accepts_options
def add_columns(
    spark: SparkSession,
    table: Any,
    values: Callable[[pa.RecordBatch], Any] | Mapping[str, str],
    *,
    inputs: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    replace: bool = False,
    resume: bool = True,
    **options: Unpack[WriteOptions],
) -> AddColumnsReport:
    """Add columns to all rows of a table, without rewriting the files that are there.

    One task for each base file reads the inputs, and no other column, and writes a column file beside it.
    The driver commits all of them as one new version. Rows that others append meanwhile have nulls in the
    new columns; the report says in how many files. If another writer has changed the same columns, or
    replaced one of the files, `ConflictError` is raised and nothing is committed.

    To resume a run that was killed or has failed, repeat the call: finished files are not computed again. It is the same
    call if the table, the function or the expressions, and all arguments are the same. A function is
    compared by its code, the values that it uses, and the source of the modules that it is from; if other
    code has changed that it calls, pass `resume=False`.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    table : path, URI, or MosaicTable
        On a cluster, it must be on shared storage.
    values : function, or dict of str
        A function of a record batch of `inputs` that returns a record batch, a table, a data frame or a
        dictionary with the new columns of the same rows. Spark sends it to the workers, so it may be a
        lambda or refer to local variables. Or a dictionary of names and expressions in Spark SQL, such as
        `{"ratio": "a / b"}`. Spark evaluates these, with all of its functions and with the settings of
        the session, so that `1 / 2` is 0.5 and `1 / 0` is an error, or null if `spark.sql.ansi.enabled`
        is false. Only the columns that they name pass through the JVM.
    inputs : list of str, optional
        The columns that the function gets; by default all. For expressions, they are known.
    schema : pyarrow.Schema, optional
        The columns that the function returns. By default, the first file is computed alone, to know their
        types.
    replace : bool, default False
        Replace columns that exist. Otherwise they are an error.
    resume : bool, default True
        Reuse the finished work of a run that was killed.
    **options
        The options of `MosaicWriter`, which writes the column files.

    Returns
    -------
    AddColumnsReport

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.compute as pc, fastmosaic as fm
    >>> import fastmosaic.spark as fs
    >>> spark = fs.session()
    >>> with tempfile.TemporaryDirectory() as path:
    ...     table = fm.MosaicTable.create(path, pa.table({"a": [1, 2], "b": [4, 8]}))
    ...     report = fs.add_columns(spark, table, {"ratio": "a / b"})
    ...     report = fs.add_columns(
    ...         spark, table, lambda batch: {"sum": pc.add(batch["a"], batch["b"])}, inputs=["a", "b"]
    ...     )
    ...     report.version, table.read().to_pylist()[1]
    (3, {'a': 2, 'b': 8, 'ratio': 0.25, 'sum': 10})
    """
    started = time.monotonic()
    check_names(options, add_columns)
    changing = change_of(table)
    state = changing.state
    files = FileSet(state.snapshot)
    if not state.version.files:
        raise ValueError(f"{state.snapshot.name} has no rows to add columns to; append rows first")
    new = _new_columns(spark, values, inputs, schema, files)
    writer = ColumnWriter.of(changing.store, files, new.inputs, options)
    choices = new.identity, inputs, schema, sorted(options.items())
    job = TableJob.begin(changing, "columns", *choices, resume=resume)
    chosen: Any = with_threads(spark, options, len(files.files))
    writer = replaced(writer, job=job.number, options=chosen)
    change = None
    if results := job.committed():
        resumed = len(results)
        _know(new, job, results)
        job.end()
    else:
        if new.schema is not None:
            with job.discarding():
                check_new(new.schema.names, files, replace)
        types = str(writer.query.schema)
        items = {_number(state, writer, types, file): file for file in first_with_rows(files.files)}
        results = job.finished(items)
        resumed = len(results)
        work = _ColumnTasks(job, spark, writer, new)
        results = work.run(items, results, lambda names: check_new(names, files, replace))
        written = [WrittenColumns(*result["written"]) for result in results.values()]
        change = job.commit(added(job.store, state, written, new.schema, options))
    assert new.schema is not None
    return AddColumnsReport(
        columns=tuple(new.schema.names),
        rows=sum(WrittenColumns(*one["written"]).rows for one in results.values()),
        files=len(results),
        bytes_out=sum(size for one in results.values() for _, size in one["files"]),
        seconds=time.monotonic() - started,
        resumed=resumed,
        version=state.number if change is None else change.version,
        files_without_values=0 if change is None else change.summary.get("files_without_values", 0),
    )


def _new_columns(
    spark: SparkSession,
    values: Any,
    inputs: Sequence[str] | None,
    schema: pa.Schema | None,
    files: FileSet,
) -> SentFunction | SqlColumns:
    if isinstance(values, Mapping):
        if inputs is not None or schema is not None:
            raise ValueError(
                "inputs= and schema= are for functions: expressions name their inputs, and "
                "cast(... as type) sets the type of one"
            )
        return SqlColumns.of(spark, values, files)
    if callable(values):
        return SentFunction(values, inputs, schema)
    raise TypeError(
        "expected a function, or a dictionary of names and SQL expressions, "
        f"not an object of type {type(values).__name__}"
    )


# The place of the user's function in a traceback: two calls come before it.
_CALLED: Final = 2


class FunctionFailed(Exception):
    """A function of the user has raised an exception."""


class SentFunction(FunctionColumns):
    """A function of the user that runs in tasks. Its errors tell where they were raised."""

    @property
    def identity(self) -> str:
        return fingerprint(self._function)

    def compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return super().compute(batch)
        except (MosaicError, OSError):
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            where = frames[min(_CALLED, len(frames) - 1)]
            raise FunctionFailed(
                f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno}, "
                f"in {where.name})"
            ) from error


# ---- items


def _number(state: State, writer: ColumnWriter, types: str, file: DatasetFile) -> int:
    """Return the number of the work for a file: the same if its inputs, of `types`, are the same."""
    entry = entry_of(file)
    names = set(writer.query.schema.names) - {*writer.partitions.names}
    parts = {state.provider(entry, name) for name in names} - {None}
    return number_of(entry.path, entry.size, sorted(map(str, parts)), types)


def _know(new: SentFunction | SqlColumns, job: TableJob, results: Mapping[int, Result]) -> None:
    """Learn the types of the columns that a function returns from a file that was written."""
    if new.schema is None and results:
        ((path, _),) = next(iter(results.values()))["files"]
        new.schema = File(job.store.found(path), (), SchemaCache()).metadata.schema


# ---- running


@dataclass(frozen=True, slots=True)
class _ColumnTasks:
    """The work of all tasks of a job."""

    job: TableJob
    spark: SparkSession
    writer: ColumnWriter
    new: SentFunction | SqlColumns

    def run(
        self,
        items: Mapping[int, DatasetFile],
        results: dict[int, Result],
        check: Callable[[Sequence[str]], None],
    ) -> dict[int, Result]:
        """Return the results of all items; `results` are those of an earlier run."""
        _know(self.new, self.job, results)
        if self.new.schema is None:
            # One file alone: it tells the types.
            number = next(iter(items))
            results = results | self._run({number: items[number]}, 0)
            _know(self.new, self.job, results)
            assert self.new.schema is not None
            try:
                check(self.new.schema.names)
            except ValueError:
                self.job.discard()
                raise
        todo = {number: item for number, item in items.items() if number not in results}
        results = results | self._run(todo, len(results))
        return {number: results[number] for number in items}

    def _run(self, items: Mapping[int, DatasetFile], done: int) -> dict[int, Result]:
        sent = self.writer.sent()
        if isinstance(self.new, SqlColumns):
            return self.new.run(self.spark, self.job, items, sent, done)
        return self.job.run(self.spark, "add columns", items, WriteColumns(sent, self.new), done)


@dataclass(frozen=True, slots=True)
class WriteColumns:
    """Computes the columns of a file, and writes them. Runs in a task."""

    writer: ColumnWriter
    new: SentFunction

    def __call__(self, file: DatasetFile) -> Result:
        try:
            with self.writer.store.new_files() as open_file:
                return result_of(self.writer.write(file, self.new, open_file))
        except MosaicError as error:
            raise BadFile(file.name, error) from error
        except FunctionFailed as error:
            raise FunctionFailed(f"{file.name}: {error}") from error
