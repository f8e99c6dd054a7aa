"""`compact`: join small files and row groups of a dataset in Spark tasks."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from ...convert.write import check_options
from ...dataset.compact import Compaction
from ...dataset.concat import open_sources
from ...errors import MosaicError
from ...file.concat import concatenate
from .convert import DEFAULT_TARGET_BYTES
from .records import Result, identity, list_files
from .report import CompactReport
from .rewrite import Rewrite, RewriteItem, SourcePart, clear_stale, finished, pack, records_of
from .run import BadFile, parallelism, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(
    spark: SparkSession,
    path: Any,
    *,
    target_bytes: int = DEFAULT_TARGET_BYTES,
    resume: bool = True,
    **options: Any,
) -> CompactReport:
    """Join small Mosaic files in a local directory into larger ones.

    Row groups are copied without decoding them where that is possible, as `fastmosaic.concat` does it.
    Small ones are joined. Files stay in their subdirectories. Files with at least half of `target_bytes` are not changed,
    unless their row groups are small. When all new files are complete, they replace the old ones
    in a single step. Files that were added meanwhile are kept. To resume a run that was killed,
    repeat the call.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    path : path of a directory
        It must not be the working directory or a mount point, because these cannot be replaced.
    target_bytes : int
        Approximate size of the new files. Default: 256 MiB.
    resume : bool
        If True (default), reuse the finished work of a run that was killed.
    **options
        Options of `MosaicWriter`. By default, the number of buckets, the compression and the
        columns with statistics do not change. Types, dictionaries and metadata do not change
        either, as far as the files agree on them.

    Returns
    -------
    CompactReport
    """
    started = time.monotonic()
    work = Compaction.of(path, target_bytes)
    listed = list_files([file.found for file in work.files.files])
    parts = {
        inside: [SourcePart(one.found, "mosaic", None, one.size) for one in own]
        for inside, own in work.small.items()
    }
    items = pack(parts, target_bytes)
    kept = len(work.files.files) - len(work.old)
    if not items:
        return CompactReport(0, 0, 0, kept, 0, 0, time.monotonic() - started, 0)
    schema = work.schema
    options = {
        **work.kept_options(),
        "use_threads": len(items) < parallelism(spark),
        **options,
    }
    check_options("mosaic", schema, options)
    staging = work.begin(identity("compact", listed, target_bytes, sorted(options.items())))
    records = records_of(staging)
    if not resume:
        records.clear()
    rewrite = _Merging(
        staging, schema, "mosaic", target_bytes, (), drops=False, skips=False, options=options
    )
    results = finished(staging, records, items)
    resumed = len(results)
    todo = {number: item for number, item in items.items() if number not in results}
    try:
        results |= run(spark, "compact", todo, rewrite.run, records=records, done=resumed)
    except BadFile as error:
        staging.abandon()
        raise error.to_error() from None
    written = [tuple(file) for result in results.values() for file in result["files"]]
    old_of = {
        file: items[number].parts[0].found.path
        for number, result in results.items()
        for file, *_ in result["files"]
    }
    work.end(staging, old_of, sum(rows for _, rows, _ in written))
    clear_stale(staging, "compact")
    return CompactReport(
        rows=sum(rows for _, rows, _ in written),
        files_in=len(work.old),
        files_out=len(written),
        files_kept=kept,
        bytes_in=sum(file.size for file in work.old),
        bytes_out=sum(size for _, _, size in written),
        seconds=time.monotonic() - started,
        resumed=resumed,
        row_groups_copied=sum(result.get("copied", 0) for result in results.values()),
    )


class _Merging(Rewrite):
    """Rewrites files, and copies row groups where that is possible."""

    def run(self, item: RewriteItem) -> Result:
        """Merge the files of an item. Runs in a task."""
        if not self.fits_one_file(item):
            return super().run(item)
        file = self.new_file(item, 0, uuid.uuid4().hex)
        try:
            report = concatenate(
                open_sources([part.found for part in item.parts]),
                self.staging.open(file),
                schema=self.schema,
                **self.options,
            )
        except MosaicError as error:
            raise BadFile(error.file or file, error) from error
        return {
            "files": [(file, report.num_rows, report.num_bytes)],
            "copied": report.num_copied,
            "failures": [],
            "excluded": [],
        }
