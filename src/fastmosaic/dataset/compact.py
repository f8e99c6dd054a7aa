"""compact: join small files and row groups of a directory, by copying row groups where possible."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Unpack

import pyarrow as pa

from ..errors import UnsupportedError
from ..file.concat import ConcatReport, Mode, check_mode, concatenate, kept_options
from ..file.options import WriteOptions, accepts_options, check_names
from ..schemas.fit import plain_schema
from ..storage.location import locate
from ..storage.replace import keep_status
from ..storage.staging import Staging
from ..storage.target import SUFFIX
from ..threads import map_in_order
from .concat import open_sources
from .fileset import FileSet
from .snapshot import list_versions
from .table_files import DatasetFile

DEFAULT_COMPACT_BYTES: Final = 256 << 20
# A file is small if it is smaller than this fraction of the target.
_SMALL_FILE: Final = 0.5
# Row groups are small if their average size is below this.
_SMALL_GROUP_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """What `compact` has done."""

    num_rows: int  # that are in new files
    files_before: int
    files_after: int
    files_kept: int  # large enough, and not changed
    bytes_before: int
    bytes_after: int
    num_copied: int  # row groups that were copied as they are
    num_rewritten: int  # row groups that were decoded and encoded again
    seconds: float

    def __repr__(self) -> str:
        return (
            f"<CompactionReport: {self.files_before:,} to {self.files_after:,} files, "
            f"{self.files_kept:,} unchanged, {self.bytes_before:,} to {self.bytes_after:,} bytes, "
            f"row groups: {self.num_copied:,} copied, {self.num_rewritten:,} rewritten, "
            f"{self.seconds:.2f} s>"
        )


@dataclass(frozen=True, slots=True)
class Compaction:
    """What to compact in a local directory.

    base   the directory, without links
    files  all of its files
    small  those that are worth rewriting, by the subdirectory that they are in
    """

    base: str
    files: FileSet
    small: dict[str, list[DatasetFile]] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Any, target_bytes: int) -> Compaction:
        """Look for small files in a directory."""
        if target_bytes < 1:
            raise ValueError(f"target_bytes must be at least 1, not {target_bytes}")
        found = locate(path, None)
        if found is None:
            raise TypeError(
                f"expected the path of a directory, not an object of type {type(path).__name__}"
            )
        if found[1] is not None:
            raise UnsupportedError(
                f"{found[0]}: this storage cannot replace the files of a directory in one step, and "
                "readers would see rows twice, or not at all; make the directory a table with "
                "fastmosaic.MosaicTable.create(path), which can be compacted, or write larger "
                "files to another directory with fastmosaic.spark.concat"
            )
        path = found[2]
        if not os.path.isdir(path):
            if os.path.exists(path):
                raise NotADirectoryError(f"{path} is a file: pass a directory")
            raise FileNotFoundError(f"{path} does not exist: pass a directory")
        base = os.path.realpath(path)
        if list_versions(base, None, base):
            raise ValueError(
                f"{base} is a table; compact it with fastmosaic.MosaicTable(path).compact()"
            )
        files = FileSet(base)
        directories: dict[str, list[DatasetFile]] = {}
        for file in files.files:
            if os.path.realpath(file.found.path) != file.found.path:
                raise UnsupportedError(
                    "compact does not replace links, and the file is one or is in a linked "
                    "directory; move the link to a name that begins with _ or .",
                    file=file.name,
                )
            inside = os.path.relpath(os.path.dirname(file.found.path), base)
            directories.setdefault("" if inside == "." else inside, []).append(file)
        chosen = {inside: _small(own, target_bytes) for inside, own in directories.items()}
        return cls(base, files, {inside: own for inside, own in chosen.items() if own})

    @property
    def old(self) -> list[DatasetFile]:
        """The files that new ones replace."""
        return [file for own in self.small.values() for file in own]

    @property
    def schema(self) -> pa.Schema:
        """The columns of new files: those of all files, without partition columns."""
        whole = self.files.schema
        keys = set(self.files.partitions.names)
        return pa.schema([field for field in whole if field.name not in keys], whole.metadata)

    def kept_options(self) -> WriteOptions:
        """Return the options with which the files were written."""
        parts = [part for file in self.old for part in file.parts]
        return kept_options(parts, plain_schema(self.schema))

    def begin(self, identity: str | None = None) -> Staging:
        """Begin to write new files."""
        staging = Staging.begin(self.base, None, "overwrite", identity=identity)
        if not staging.replaces:
            staging.abandon()
            raise UnsupportedError(
                f"cannot replace {self.base} in one step: it is the working directory, a mount "
                "point, or in a directory without write permission"
            )
        return staging

    def end(self, staging: Staging, written: dict[str, str], num_rows: int) -> None:
        """Replace the old files in one step; all others stay.

        `written` are the new files, each with the path of an old one whose owner and permissions it
        gets, and `num_rows` their rows.
        """
        try:
            _check_rows(sum(file.num_rows for file in self.old), num_rows)
            others = list(_keep(staging, {file.found.path for file in self.old}))
            for path, old in written.items():
                keep_status(old, f"{staging.root}/{path}")
        except BaseException:
            staging.abandon()
            raise
        staging.commit([*others, *written])


@accepts_options
def compact(
    path: str | os.PathLike[str],
    *,
    target_bytes: int = DEFAULT_COMPACT_BYTES,
    mode: Mode = "auto",
    progress: Callable[[int, int], object] | None = None,
    **options: Unpack[WriteOptions],
) -> CompactionReport:
    """Join small Mosaic files in a local directory into larger ones.

    Row groups are copied without decoding them where that is possible, as `concat` does it, and small
    ones are joined. Files stay in their subdirectories, and their rows keep their order. Files with at
    least half of `target_bytes` are not changed, unless their row groups are small. When all new files
    are complete, they replace the old ones in a single step. Files that were added meanwhile are kept.

    Parameters
    ----------
    path : path of a directory
        It must not be the working directory or a mount point, because these cannot be replaced. For a
        table, use `MosaicTable.compact`.
    target_bytes : int
        Approximate size of the new files. Default: 256 MiB.
    mode : {"auto", "copy", "rewrite"}, default "auto"
        As for `concat`.
    progress : callable, optional
        Called after each new file with the number of bytes of old files that are done, and of all.
    **options
        The options of `MosaicWriter`. By default, the number of buckets, the compression and the
        columns with statistics do not change.

    Returns
    -------
    CompactionReport

    Examples
    --------
    >>> import tempfile, pyarrow as pa, fastmosaic as fm
    >>> with tempfile.TemporaryDirectory() as path:
    ...     for number in range(3):
    ...         report = fm.write_dataset(
    ...             pa.table({"id": [number]}), f"{path}/days", existing="append"
    ...         )
    ...     report = fm.compact(f"{path}/days")
    ...     report.files_before, report.files_after, fm.read_table(f"{path}/days")["id"].to_pylist()
    (3, 1, [0, 1, 2])
    """
    started = time.monotonic()
    check_names(options, compact)
    check_mode(mode)
    work = Compaction.of(path, target_bytes)
    kept = len(work.files.files) - len(work.old)
    if not work.small:
        return CompactionReport(0, 0, 0, kept, 0, 0, 0, 0, time.monotonic() - started)
    schema = work.schema
    chosen: WriteOptions = {**work.kept_options(), **options}
    staging = work.begin()
    groups = [
        (inside, group)
        for inside, own in work.small.items()
        for group in _packed(own, target_bytes)
    ]
    total = sum(file.size for file in work.old)

    def merge(item: tuple[str, Sequence[DatasetFile]]) -> tuple[str, ConcatReport]:
        inside, group = item
        name = f"{staging.prefix}-{uuid.uuid4().hex}{SUFFIX}"
        file = f"{inside}/{name}" if inside else name
        sources = open_sources([one.found for one in group])
        sink = staging.open(file)
        return file, concatenate(sources, sink, schema=schema, mode=mode, **chosen)

    written: dict[str, str] = {}
    reports: list[ConcatReport] = []
    done = 0
    try:
        every = map_in_order(merge, groups, len(groups) > 1, purpose="files")
        for (_, group), (file, report) in zip(groups, every, strict=True):
            written[file] = group[0].found.path
            reports.append(report)
            done += sum(one.size for one in group)
            if progress is not None:
                progress(done, total)
    except BaseException:
        staging.abandon()
        raise
    num_rows = sum(report.num_rows for report in reports)
    work.end(staging, written, num_rows)
    return CompactionReport(
        num_rows,
        len(work.old),
        len(written),
        kept,
        total,
        sum(report.num_bytes for report in reports),
        sum(report.num_copied for report in reports),
        sum(report.num_rewritten for report in reports),
        time.monotonic() - started,
    )


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


def _packed(files: Sequence[DatasetFile], target_bytes: int) -> list[list[DatasetFile]]:
    """Divide files, in order, into groups of about `target_bytes`."""
    groups: list[list[DatasetFile]] = []
    size = 0
    for file in files:
        if not groups or size + file.size > target_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += file.size
    return groups


def _check_rows(expected: int, written: int) -> None:
    if expected != written:
        raise RuntimeError(
            f"expected to write {expected} rows, but wrote {written}; the old files are unchanged"
        )


def _keep(staging: Staging, old: set[str]) -> Iterator[str]:
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
