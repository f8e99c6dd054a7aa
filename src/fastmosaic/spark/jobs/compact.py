"""compact: small files and row groups of a data set made into large ones, by Spark tasks."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...convert.write import check_options
from ...dataset.fileset import File, FileSet
from ...errors import UnsupportedError
from ...storage.staging import Staging
from .convert import DEFAULT_TARGET_BYTES
from .report import CompactReport
from .rewrite import Piece, Rewrite, clear_stale, finished, pack, records_of
from .run import BadFile, identity, list_files, parallelism, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Smaller than this part of the target, a file is small.
_SMALL_FILE: Final = 0.5
# On average smaller than this, row groups are small.
_SMALL_GROUP_BYTES: Final = 4 << 20


def compact(
    spark: SparkSession,
    path: Any,
    *,
    target_bytes: int = DEFAULT_TARGET_BYTES,
    resume: bool = True,
    **options: Any,
) -> CompactReport:
    """Make large files of the small ones in a local directory of Mosaic files; what was done.

    Files stay within their directories. Those of half of `target_bytes` and more are left alone,
    unless their row groups are small. The directory changes in a single step, when all new files
    are complete: the new files are there and the old ones gone. Files that others added meanwhile
    are kept. A run that was killed is gone on with by the same call.

    Parameters
    ----------
    spark : SparkSession
        Not one of Spark Connect.
    path : path of a directory
        Not the working directory, nor a mount point: these cannot be replaced.
    target_bytes : int
        The size that files are to have, about.
    resume : bool
        False does everything anew.
    **options
        Those of `MosaicWriter`. The number of buckets, the compression and which columns have
        statistics are by default as they were.
    """
    started = time.monotonic()
    if target_bytes < 1:
        raise ValueError(f"target_bytes must be at least 1, not {target_bytes}")
    if not os.path.isdir(path):
        if os.path.exists(path):
            raise NotADirectoryError(f"{path} is a file; a directory is compacted")
        raise FileNotFoundError(f"there is no directory {path}; a local one can be compacted")
    base = os.path.realpath(path)
    files = FileSet(base)
    listed = list_files([file.found for file in files.files])
    directories: dict[str, list[File]] = {}
    for file in files.files:
        inside = os.path.relpath(os.path.dirname(file.found.path), base)
        directories.setdefault("" if inside == "." else inside, []).append(file)
    pieces = {
        inside: [Piece(one.found, "mosaic", None, one.size) for one in _small(own, target_bytes)]
        for inside, own in directories.items()
    }
    items = pack({inside: own for inside, own in pieces.items() if own}, target_bytes)
    old = {piece.found.path for own in pieces.values() for piece in own}
    kept = len(files.files) - len(old)
    if not items:
        return CompactReport(0, 0, 0, kept, 0, 0, time.monotonic() - started, 0)
    schema = pa.schema(
        [field for field in files.columns.to_arrow() if field.name not in files.partitions.names]
    )
    rewritten = [file for file in files.files if file.found.path in old]
    options = {
        "num_buckets": max(file.metadata.num_buckets for file in rewritten),
        "compression": rewritten[0].metadata.compression,
        "write_statistics": _with_statistics(files.files),
        "use_threads": len(items) < parallelism(spark),
        **options,
    }
    check_options("mosaic", schema, options)
    name = identity("compact", listed, target_bytes, sorted(options.items()))
    staging = Staging.begin(base, None, "overwrite", identity=name)
    if not staging.replaces:
        staging.abandon()
        raise UnsupportedError(
            f"{path} is the working directory, a mount point, or in a directory that may not be "
            "written to: it cannot be replaced in one step"
        )
    records = records_of(staging)
    if not resume:
        records.clear()
    rewrite = Rewrite(
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
    try:
        _check_rows(rewritten, sum(rows for _, rows, _ in written))
        others = list(_keep(staging, old))
    except BaseException:
        staging.abandon()
        raise
    staging.commit([*others, *(file for file, _, _ in written)])
    clear_stale(staging, "compact")
    return CompactReport(
        rows=sum(rows for _, rows, _ in written),
        files_in=len(old),
        files_out=len(written),
        files_kept=kept,
        bytes_in=sum(one.size for one in listed if one.found.path in old),
        bytes_out=sum(size for _, _, size in written),
        seconds=time.monotonic() - started,
        resumed=resumed,
    )


def _small(files: Sequence[File], target_bytes: int) -> list[File]:
    """Those of a directory that are worth to be written anew."""
    group_bytes = min(_SMALL_GROUP_BYTES, target_bytes // 4)
    crumbled = [
        file
        for file in files
        if file.metadata.num_row_groups > 1
        and file.size / file.metadata.num_row_groups < group_bytes
    ]
    small = [file for file in files if file.size < target_bytes * _SMALL_FILE]
    if len(small) == 1:
        small = []  # nothing to join it with
    chosen = {file.found.path for file in [*crumbled, *small]}
    return [file for file in files if file.found.path in chosen]


def _with_statistics(files: Iterable[File]) -> list[str]:
    """Columns that have statistics in some file."""
    names: dict[str, None] = {}
    for file in files:
        metadata = file.metadata
        if metadata.num_row_groups:
            for statistic in metadata.statistics(0):
                names[metadata.schema_block.name(statistic.position)] = None
    return sorted(names)


def _check_rows(rewritten: Iterable[File], written: int) -> None:
    expected = sum(file.metadata.num_rows for file in rewritten)
    if expected != written:
        raise RuntimeError(
            f"{expected} rows were to be written, {written} were; the old files are left alone"
        )


def _keep(staging: Staging, old: set[str]) -> Iterable[str]:
    """Put everything but the old files into the staging area too; without copying, if it goes."""
    missing = {path for path in old if not os.path.exists(path)}
    if missing:
        raise FileNotFoundError(f"{min(missing)} has gone while its rows were written anew")
    for directory, _, names in os.walk(staging.base_dir):
        for name in names:
            path = os.path.join(directory, name)
            file = os.path.relpath(path, staging.base_dir)
            if path not in old:
                target = staging.path(file)
                if os.path.exists(target):  # from a run that was killed here
                    os.unlink(target)
                try:
                    os.link(path, target)
                except OSError:
                    shutil.copy2(path, target)
                yield file
