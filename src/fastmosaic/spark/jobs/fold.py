"""`fold`: rewrite files of a table together with their column files, in Spark tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from ...file.options import WriteOptions, accepts_options, check_names
from .report import RewriteReport
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
) -> RewriteReport:
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
    RewriteReport
    """
    check_names(options, fold)
    return rewrite_table(
        spark,
        table,
        "fold",
        lambda rewriter: [[file] for file in rewriter.foldable()],
        mode=None,
        resume=resume,
        options={**options},
    )
