"""`verify`: check every file of a dataset in Spark tasks."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ...dataset.discovery import discover
from ...file.verify import verify as verify_file
from .records import Listed, Records, Result, identity, list_files
from .report import DatasetVerifyReport, VerifiedFile
from .run import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify(
    spark: SparkSession,
    path: Any,
    *,
    deep: bool = True,
    records: Any = None,
    follow_links: bool = False,
    filesystem: Any = None,
) -> DatasetVerifyReport:
    """Check Mosaic files in Spark tasks and report the problems of each.

    A damaged file does not raise an error; it is in the report.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    path : path, URI, glob, directory, or a list of them
    deep : bool
        If True (default), decode all values and compare them with checksums and statistics. If
        False, read only the metadata.
    records : path or URI of a directory, optional
        Directory for records of the files that were checked. If the job is killed, repeat the call
        to resume it. The records are deleted when the job is complete.
    follow_links : bool
        If True, follow links in a local directory that lead out of it. Default: they are an error.
    filesystem : pyarrow or fsspec filesystem, optional
        Filesystem of the paths.

    Returns
    -------
    DatasetVerifyReport
    """
    started = time.monotonic()
    listed = list_files(discover(path, filesystem, follow_links=follow_links))
    items = dict(enumerate(listed))
    kept = None
    if records is not None:
        kept = Records.below(records, identity("verify", listed, deep))
    results = {} if kept is None else kept.load()
    resumed = len(results)
    todo = {number: item for number, item in items.items() if number not in results}
    results |= run(spark, "verify", todo, partial(_verify, deep), records=kept, done=resumed)
    if kept is not None:
        kept.clear()
    files = tuple(VerifiedFile(**results[number]) for number in items)
    return DatasetVerifyReport(files, time.monotonic() - started, resumed)


def _verify(deep: bool, item: Listed) -> Result:
    """Check one file. Runs in a task."""
    result: Result = {
        "file": item.found.name,
        "rows": 0,
        "row_groups": 0,
        "bytes": item.size,
        "problem": None,
    }
    try:
        report = verify_file(
            item.found.path, deep=deep, filesystem=item.found.filesystem, use_threads=False
        )
    except PermissionError as error:
        result["problem"] = str(error)
        return result
    result["rows"] = report.num_rows
    result["row_groups"] = report.num_row_groups
    if not report.ok:
        result["problem"] = "; ".join(map(str, report.problems))
    return result
