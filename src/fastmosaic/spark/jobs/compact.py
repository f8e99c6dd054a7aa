"""`compact`: join small files and row groups of a dataset in Spark tasks."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...convert.write import check_options
from ...dataset.concat import open_sources
from ...dataset.fileset import FileSet
from ...dataset.snapshot import list_versions
from ...dataset.table_files import DatasetFile
from ...errors import MosaicError, UnsupportedError
from ...file.concat import concatenate, kept_options
from ...schemas.fit import plain_schema
from ...storage.replace import keep_status
from ...storage.staging import Staging
from .convert import DEFAULT_TARGET_BYTES
from .records import Result, identity, list_files
from .report import CompactReport
from .rewrite import Rewrite, RewriteItem, SourcePart, clear_stale, finished, pack, records_of
from .run import BadFile, parallelism, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A file is small if it is smaller than this fraction of the target.
_SMALL_FILE: Final = 0.5
# Row groups are small if their average size is below this.
_SMALL_GROUP_BYTES: Final = 4 << 20


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
    if target_bytes < 1:
        raise ValueError(f"target_bytes must be at least 1, not {target_bytes}")
    if not os.path.isdir(path):
        if os.path.exists(path):
            raise NotADirectoryError(f"{path} is a file: pass a directory")
        raise FileNotFoundError(f"{path} does not exist: pass a local directory")
    base = os.path.realpath(path)
    if list_versions(base, None, base):
        raise ValueError(
            f"{base} is a table; compact it with fastmosaic.MosaicTable(path).compact()"
        )
    files = FileSet(base)
    for file in files.files:
        if os.path.realpath(file.found.path) != file.found.path:
            raise UnsupportedError(
                "compact does not replace links, and the file is one or is in a linked directory; "
                "move the link to a name that begins with _ or .",
                file=file.name,
            )
    listed = list_files([file.found for file in files.files])
    directories: dict[str, list[DatasetFile]] = {}
    for file in files.files:
        inside = os.path.relpath(os.path.dirname(file.found.path), base)
        directories.setdefault("" if inside == "." else inside, []).append(file)
    parts = {
        inside: [
            SourcePart(one.found, "mosaic", None, one.size) for one in _small(own, target_bytes)
        ]
        for inside, own in directories.items()
    }
    items = pack({inside: own for inside, own in parts.items() if own}, target_bytes)
    old = {part.found.path for own in parts.values() for part in own}
    kept = len(files.files) - len(old)
    if not items:
        return CompactReport(0, 0, 0, kept, 0, 0, time.monotonic() - started, 0)
    whole = files.schema
    keys = set(files.partitions.names)
    schema = pa.schema([field for field in whole if field.name not in keys], whole.metadata)
    rewritten = [file for file in files.files if file.found.path in old]
    options = {
        **kept_options([part for file in rewritten for part in file.parts], plain_schema(schema)),
        "use_threads": len(items) < parallelism(spark),
        **options,
    }
    check_options("mosaic", schema, options)
    name = identity("compact", listed, target_bytes, sorted(options.items()))
    staging = Staging.begin(base, None, "overwrite", identity=name)
    if not staging.replaces:
        staging.abandon()
        raise UnsupportedError(
            f"cannot replace {path} in one step: it is the working directory, a mount point, or in a "
            "directory without write permission"
        )
    records = records_of(staging)
    if not resume:
        records.clear()
    rewrite = _Compaction(
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
        for number, result in results.items():
            for written_path, *_ in result["files"]:
                keep_status(items[number].parts[0].found.path, f"{staging.root}/{written_path}")
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
        row_groups_copied=sum(result.get("copied", 0) for result in results.values()),
    )


class _Compaction(Rewrite):
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


def _small(files: Sequence[DatasetFile], target_bytes: int) -> list[DatasetFile]:
    """Return the files of a directory that are worth rewriting."""
    group_bytes = min(_SMALL_GROUP_BYTES, target_bytes // 4)
    crumbled = [
        file
        for file in files
        if file.metadata.num_row_groups > 1
        and file.size / file.metadata.num_row_groups < group_bytes
    ]
    small = [file for file in files if file.size < target_bytes * _SMALL_FILE]
    if len(small) == 1:
        small = []  # there is nothing to join it with
    chosen = {file.found.path for file in [*crumbled, *small]}
    return [file for file in files if file.found.path in chosen]


def _check_rows(rewritten: Iterable[DatasetFile], written: int) -> None:
    expected = sum(file.metadata.num_rows for file in rewritten)
    if expected != written:
        raise RuntimeError(
            f"expected to write {expected} rows, but wrote {written}; the old files are unchanged"
        )


def _keep(staging: Staging, old: set[str]) -> Iterable[str]:
    """Link all other files into the staging directory, or copy them if links do not work."""
    missing = {path for path in old if not os.path.exists(path)}
    if missing:
        raise FileNotFoundError(f"{min(missing)} was deleted while it was being rewritten")
    for directory, folders, names in os.walk(staging.base_dir):
        linked = [name for name in folders if os.path.islink(os.path.join(directory, name))]
        for name in (*names, *linked):
            path = os.path.join(directory, name)
            file = os.path.relpath(path, staging.base_dir)
            if path not in old:
                target = staging.path(file)
                if os.path.lexists(target):  # a run was killed at this point
                    os.unlink(target)
                if os.path.islink(path):
                    os.symlink(os.readlink(path), target)
                else:
                    _link(path, target)
                yield file


def _link(path: str, target: str) -> None:
    try:
        os.link(path, target)
    except OSError:
        shutil.copy2(path, target)
