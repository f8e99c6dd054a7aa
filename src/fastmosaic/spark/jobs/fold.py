"""`fold`: rewrite files of a table together with their column files, in Spark tasks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Unpack

from ...file.options import WriteOptions, accepts_options, check_names
from .report import FoldReport
from .table_rewrite import rewrite_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@accepts_options
def fold(
    spark: SparkSession,
    table: Any,
    *,
    resume: bool = True,
    **options: Unpack[WriteOptions],
) -> FoldReport:
    """Rewrite each base file of a table that has column files, or columns that were dropped.

    One task for each such file writes a file with all columns. The driver commits all of them as one new
    version. Files that another writer changes meanwhile stay as they are. To resume a run that was killed or
    has failed, repeat the call.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    table : path, URI, or MosaicTable
        On a cluster, it must be on shared storage.
    resume : bool, default True
        Reuse the finished work of a run that was killed.
    **options
        The options of `MosaicWriter`. By default, those with which the files were written.

    Returns
    -------
    FoldReport
    """
    started = time.monotonic()
    check_names(options, fold)
    done = rewrite_table(
        spark,
        table,
        "fold",
        lambda rewriter: [[file] for file in rewriter.foldable()],
        mode=None,
        resume=resume,
        options={**options},
    )
    return FoldReport(
        rows=done.rows,
        files=done.files_out,
        files_kept=done.files_kept,
        bytes_in=done.bytes_in,
        bytes_out=done.bytes_out,
        seconds=time.monotonic() - started,
        resumed=done.resumed,
        version=done.version,
        left_to_other_writers=done.left_to_other_writers,
    )
