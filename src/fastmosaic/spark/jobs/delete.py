"""`delete`: delete rows of a table in Spark tasks, one for each file that contains some."""

from __future__ import annotations

import hashlib
import pickle
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from ...dataset.fileset import FileSet
from ...dataset.table_files import DatasetFile
from ...dataset.version import BaseFile
from ...errors import MosaicError
from ...file.options import WriteOptions, accepts_options, check_names
from ...table.changes import Rewritten
from ...table.rewrite import BaseWriter, Deleted, Rewriter, dropped_from, entry_of
from .records import Result
from .report import DeleteReport
from .run import BadFile
from .table_job import TableJob, change_of, number_of, with_threads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@accepts_options
def delete(
    spark: SparkSession,
    table: Any,
    filters: Any,
    *,
    resume: bool = True,
    **options: Unpack[WriteOptions],
) -> DeleteReport:
    """Delete the rows of a table that match `filters`.

    One task for each file that may contain such rows writes the file without them, and with its column files
    folded in. Files whose partition matches as a whole are not read. The driver commits all of them as one new
    version. If another writer has changed one of the files, `ConflictError` is raised and nothing is
    committed. Rows for which the condition is null stay. To resume a run that was killed or has failed, repeat
    the call.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    table : path, URI, or MosaicTable
        On a cluster, it must be on shared storage.
    filters : pyarrow.compute.Expression or list of tuples or list of lists of tuples
        Which rows to delete, as in `MosaicTable.delete`.
    resume : bool, default True
        Reuse the finished work of a run that was killed.
    **options
        The options of `MosaicWriter`. By default, those with which the files were written.

    Returns
    -------
    DeleteReport

    Examples
    --------
    >>> import tempfile, pyarrow as pa, fastmosaic as fm
    >>> import fastmosaic.spark as fs
    >>> spark = fs.session()
    >>> with tempfile.TemporaryDirectory() as path:
    ...     table = fm.MosaicTable.create(path, pa.table({"id": [1, 2, 3]}))
    ...     report = fs.delete(spark, table, [("id", "<", 3)])
    ...     report.rows, table.read().to_pylist()
    (2, [{'id': 3}])
    """
    started = time.monotonic()
    check_names(options, delete)
    if filters is None:
        raise ValueError("filters must say which rows to delete")
    changing = change_of(table)
    store, state = changing.store, changing.state
    files = FileSet(state.snapshot)
    with store.new_files() as open_file:
        rewriter = Rewriter(store, state, files, {}, open_file)
        deletion = rewriter.deletion(filters)
        rows = hashlib.sha256(pickle.dumps(deletion.rows)).hexdigest()
        job = TableJob.begin(changing, "delete", rows, sorted(options.items()), resume=resume)
        resumed = 0
        if deletion.is_whole:
            done = deletion.whole()
        else:
            threaded: Any = with_threads(spark, options, len(deletion.files))
            writer = Rewriter(store, state, files, threaded, open_file).writer(job.number)
            items = {_number(file): files.only([file]) for file in deletion.files}
            results = job.finished(items)
            resumed = len(results)
            todo = {number: item for number, item in items.items() if number not in results}
            results |= job.run(spark, "delete", todo, DeleteRows(writer, deletion.rows), resumed)
            done = [_deleted(results[number]) for number in items]
            for file in {one.schema: one for one in _new_files(done)}.values():
                # It stores the columns, which vacuum may have removed.
                writer.describe(file.path, file.added)
        change = rewriter.without(done)
    committed = job.commit(change)
    new = _new_files(done)
    return DeleteReport(
        rows=sum(one.rows for one in done),
        files_rewritten=len(new),
        files_removed=sum(one.group is not None for one in done) - len(new),
        bytes_out=sum(one.size for one in new),
        seconds=time.monotonic() - started,
        resumed=resumed,
        version=committed.version,
    )


def _number(file: DatasetFile) -> int:
    """Return the number of the work for a file: the same if the file and its columns are."""
    return number_of(entry_of(file), sorted(dropped_from(file)))


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """Writes a file without the rows that an expression matches. Runs in a task."""

    writer: BaseWriter
    rows: Any

    def __call__(self, alone: FileSet) -> Result:
        try:
            with self.writer.store.new_files() as open_file:
                done = self.writer.delete(alone, self.rows, open_file)
        except MosaicError as error:
            raise BadFile(error.file or alone.files[0].name, error) from error
        group = done.group
        new = None if group is None else group.new
        return {
            "rows": done.rows,
            "old": [] if group is None else group.old,
            "new": None if new is None else new.to_dict(),
            "files": [] if new is None else [(new.path, new.size)],
        }


def _deleted(result: Result) -> Deleted:
    if not result["old"]:
        return Deleted(0, None)
    new = None if result["new"] is None else BaseFile(**result["new"])
    return Deleted(result["rows"], Rewritten(tuple(result["old"]), new))


def _new_files(done: list[Deleted]) -> list[BaseFile]:
    return [one.group.new for one in done if one.group is not None and one.group.new is not None]
