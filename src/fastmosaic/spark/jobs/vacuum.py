"""`vacuum`: remove old versions of a table, and files that no version names, in Spark tasks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...table.store import TableStore
from ...table.vacuum import DEFAULT_AGE, remove_files
from .records import Result
from .report import TableVacuumReport
from .run import run
from .table_job import change_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILES_PER_TASK: Final = 1000


def vacuum(
    spark: SparkSession,
    table: Any,
    older_than: timedelta | float = DEFAULT_AGE,
    *,
    keep_versions: int = 1,
    dry_run: bool = False,
) -> TableVacuumReport:
    """Remove versions of a table that are too old, and files that no version names.

    The driver lists the table and removes versions; tasks remove the files, if there are thousands. The
    files of jobs that are running, or that can be resumed, stay.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    table : path, URI, or MosaicTable
        On a cluster, it must be on shared storage.
    older_than, keep_versions, dry_run
        As for `MosaicTable.vacuum`.

    Returns
    -------
    TableVacuumReport
    """
    started = time.monotonic()

    def remove(store: TableStore, paths: Sequence[str]) -> None:
        if len(paths) <= _FILES_PER_TASK:  # which takes less time than to start tasks
            remove_files(store, paths)
            return
        chunks = [
            paths[start : start + _FILES_PER_TASK]
            for start in range(0, len(paths), _FILES_PER_TASK)
        ]
        run(spark, "vacuum", dict(enumerate(chunks)), partial(_remove, store))

    report = change_of(table).vacuum(older_than, keep_versions, dry_run, remove)
    return TableVacuumReport(
        report.version,
        report.versions,
        report.files,
        report.num_bytes,
        time.monotonic() - started,
        dry_run,
    )


def _remove(store: TableStore, paths: Sequence[str]) -> Result:
    """Remove files. Runs in a task."""
    remove_files(store, paths)
    return {}
