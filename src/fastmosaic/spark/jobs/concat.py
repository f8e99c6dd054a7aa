"""`concat`: write the files of a dataset to another directory as fewer, larger ones, in Spark tasks."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...convert.write import check_options
from ...dataset.concat import check_no_table
from ...dataset.discovery import discover
from ...dataset.fileset import FileSet
from ...dataset.hive import directory
from ...file.concat import Mode, check_mode, kept_options
from ...schemas.fit import plain_schema
from ...storage.staging import Staging
from .convert import DEFAULT_TARGET_BYTES
from .records import Listed, identity, list_files
from .report import RewriteReport
from .rewrite import Merging, SourcePart, clear_stale, merge, pack
from .run import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def concat(
    spark: SparkSession,
    sources: Any,
    target: Any,
    *,
    target_file_bytes: int = DEFAULT_TARGET_BYTES,
    mode: Mode = "auto",
    existing: str = "error",
    resume: bool = True,
    follow_links: bool = False,
    filesystem: Any = None,
    **options: Any,
) -> RewriteReport:
    """Write Mosaic files to another directory as fewer, larger ones.

    One task for each new file copies row groups without decoding them where that is possible, as
    `fastmosaic.concat` does it for a single file. Small row groups are joined. `key=value` directories of
    the sources are kept, and rows keep their order. The new files appear together when all of them are
    complete, as with `write_dataset`, on any storage. To resume a run that was killed, repeat the call.

    To replace the files of a directory or a table by larger ones, use `compact`.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    sources : path, URI, glob, directory, or a list of them
        Mosaic files, which must not belong to a table.
    target : path or URI of a directory
    target_file_bytes : int
        Approximate size of the new files. Default: 256 MiB.
    mode : {"auto", "copy", "rewrite"}, default "auto"
        As for `fastmosaic.concat`.
    existing : {"error", "append", "overwrite"}
        What to do if `target` contains files. Default: "error".
    resume : bool
        If True (default), reuse the finished work of a run that was killed.
    follow_links : bool
        If True, follow links in local directories of `sources` that lead out of them. Default: they
        are an error.
    filesystem : pyarrow or fsspec filesystem, optional
        Filesystem of `sources`.
    **options
        Options of `MosaicWriter`, for row groups that are not copied. By default, the number of buckets,
        the compression and the columns with statistics are those of the sources.

    Returns
    -------
    RewriteReport
    """
    started = time.monotonic()
    check_mode(mode)
    if target_file_bytes < 1:
        raise ValueError(f"target_file_bytes must be at least 1, not {target_file_bytes}")
    found = discover(sources, filesystem, follow_links=follow_links)
    check_no_table(found)
    listed = list_files(found)
    files = FileSet(found)
    whole, keys = files.schema, set(files.partitions.names)
    schema = pa.schema([field for field in whole if field.name not in keys], whole.metadata)
    items = pack(_directories(listed), target_file_bytes)
    choices = (os.fspath(target), target_file_bytes, mode, existing, sorted(options.items()))
    name = identity("concat", listed, *choices)
    kept: dict[str, Any] = {
        **kept_options([one for file in files.files for one in file.parts], plain_schema(schema))
    }
    options = {**kept, "use_threads": len(items) < parallelism(spark), **options}
    check_options("mosaic", schema, options)
    staging = Staging.begin(target, None, existing, identity=name)
    merging = Merging.of(staging, schema, target_file_bytes, mode, options)
    results, resumed = merge(spark, "concat", staging, items, merging, resume)
    written = [tuple(file) for result in results.values() for file in result["files"]]
    staging.commit(file for file, _, _ in written)
    if existing != "append":
        clear_stale(staging, "concat")
    return RewriteReport(
        operation="concat",
        rows=sum(rows for _, rows, _ in written),
        files_in=len(listed),
        files_out=len(written),
        bytes_in=sum(one.size for one in listed),
        bytes_out=sum(size for _, _, size in written),
        seconds=time.monotonic() - started,
        resumed=resumed,
        row_groups_copied=sum(result.get("copied", 0) for result in results.values()),
    )


def _directories(listed: Sequence[Listed]) -> dict[str, list[SourcePart]]:
    """Return the files by the directories in which new ones are written."""
    parts: dict[str, list[SourcePart]] = {}
    for one in listed:
        keys = one.found.keys
        inside = directory(list(keys), [pa.scalar(text, pa.string()) for text in keys.values()])
        parts.setdefault(inside, []).append(SourcePart(one.found, "mosaic", None, one.size))
    return parts
