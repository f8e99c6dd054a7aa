"""verify: every file of a data set checked, by Spark tasks."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ...dataset.discovery import discover
from ...file.verify import verify as verify_file
from .report import VerifiedFile, VerifyReport
from .run import Listed, Records, Result, identity, list_files, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify(
    spark: SparkSession,
    path: Any,
    *,
    deep: bool = True,
    records: Any = None,
    filesystem: Any = None,
) -> VerifyReport:
    """Check Mosaic files; what was found of each.

    A damaged file is reported and not raised.

    Parameters
    ----------
    spark : SparkSession
        Not one of Spark Connect.
    path : path, URI, glob, directory, or a list of them
    deep : bool
        Whether all values are decoded, and compared with what the metadata say of them; otherwise
        only the metadata are read.
    records : path or URI of a directory, optional
        Where to note which files were checked, until all are: a call after a crash goes on then.
    filesystem : pyarrow or fsspec filesystem, optional
        Where the path is.
    """
    started = time.monotonic()
    listed = list_files(discover(path, filesystem))
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
    return VerifyReport(files, time.monotonic() - started, resumed)


def _verify(deep: bool, item: Listed) -> Result:
    """Runs in a task."""
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
