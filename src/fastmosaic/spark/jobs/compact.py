"""`compact`: join small files of a dataset or a table in Spark tasks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ...convert.write import check_options
from ...dataset.compact import Compaction
from ...dataset.snapshot import list_versions
from ...file.concat import Mode, check_mode
from ...file.options import check_names
from ...storage.location import is_web, locate
from ...table.table import MosaicTable
from .convert import DEFAULT_TARGET_BYTES
from .records import identity, list_files
from .report import RewriteReport
from .rewrite import Merging, SourcePart, clear_stale, merge, pack
from .run import parallelism
from .table_rewrite import rewrite_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compact(
    spark: SparkSession,
    path: Any,
    *,
    target_bytes: int = DEFAULT_TARGET_BYTES,
    mode: Mode = "auto",
    resume: bool = True,
    **options: Any,
) -> RewriteReport:
    """Join small Mosaic files of a table, or of a local directory, into larger ones.

    Row groups are copied without decoding them where that is possible, as `fastmosaic.concat` does it.
    Small ones are joined. Files stay in their subdirectories, and their rows keep their order. To resume a
    run that was killed, repeat the call.

    The new files of a table become one new version, on any storage. Files that another writer changes
    meanwhile stay as they are. In a directory that is not a table, the new files replace the old ones in
    a single step; files with at least half of `target_bytes` are not changed, unless their row groups are
    small, and files that were added meanwhile are kept. Object stores cannot replace files in one step:
    there, make the directory a table with `MosaicTable.create`, or write larger files to another directory
    with `concat`.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    path : path, URI, or MosaicTable
        A table, or a local directory, which must not be the working directory or a mount point, because
        these cannot be replaced.
    target_bytes : int
        Approximate size of the new files. Default: 256 MiB.
    mode : {"auto", "copy", "rewrite"}, default "auto"
        As for `fastmosaic.concat`. Files with column files are always rewritten, which folds these in.
    resume : bool
        If True (default), reuse the finished work of a run that was killed.
    **options
        Options of `MosaicWriter`. By default, the number of buckets, the compression and the
        columns with statistics do not change. Types, dictionaries and metadata do not change
        either, as far as the files agree on them.

    Returns
    -------
    RewriteReport
    """
    started = time.monotonic()
    check_mode(mode)
    if isinstance(path, MosaicTable) or _is_table(path):
        check_names(options, compact)
        return rewrite_table(
            spark,
            path,
            "compact",
            lambda rewriter: rewriter.mergeable(target_bytes),
            mode=mode,
            choices=[target_bytes],
            resume=resume,
            options=options,
        )
    work = Compaction.of(path, target_bytes)
    listed = list_files([file.found for file in work.files.files])
    parts = {
        inside: [SourcePart(one.found, "mosaic", None, one.size) for one in own]
        for inside, own in work.small.items()
    }
    items = pack(parts, target_bytes)
    kept = len(work.files.files) - len(work.old)
    if not items:
        seconds = time.monotonic() - started
        return RewriteReport("compact", 0, 0, 0, 0, 0, seconds, 0, files_kept=kept)
    schema = work.schema
    options = {
        **work.kept_options(),
        "use_threads": len(items) < parallelism(spark),
        **options,
    }
    check_options("mosaic", schema, options)
    choices = (target_bytes, mode, sorted(options.items()))
    staging = work.begin(identity("compact", listed, *choices))
    merging = Merging.of(staging, schema, target_bytes, mode, options)
    results, resumed = merge(spark, "compact", staging, items, merging, resume)
    written = [tuple(file) for result in results.values() for file in result["files"]]
    old_of = {
        file: items[number].parts[0].found.path
        for number, result in results.items()
        for file, *_ in result["files"]
    }
    work.end(staging, old_of, sum(rows for _, rows, _ in written))
    clear_stale(staging, "compact")
    return RewriteReport(
        operation="compact",
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


def _is_table(path: Any) -> bool:
    found = locate(path, None)
    return found is not None and not is_web(found[1]) and bool(list_versions(*found))
