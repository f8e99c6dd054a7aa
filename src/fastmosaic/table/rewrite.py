"""Rewrite files: delete rows, merge small files, fold column files into base files.

New files take the place of old ones in the next version. The old ones stay until `vacuum` removes them, so
that earlier versions can be read. Other processes can write some of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set as AbstractSet
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, TypeVar

import pyarrow as pa

from ..dataset.files import File
from ..dataset.fileset import FileSet
from ..dataset.table_files import DatasetFile
from ..dataset.version import BaseFile
from ..file.concat import Mode, concatenate, kept_options
from ..file.opening import SchemaCache
from ..file.options import WriteOptions
from ..file.writer import MosaicWriter
from ..schemas.fit import plain_schema
from ..threads import map_in_order
from .changes import ReplaceFiles, Rewritten, State
from .column_files import OpenFile
from .progress import Progress, reporting
from .store import TableStore

# Files of at least this share of the target size are not merged with others.
_SMALL_FILE: Final = 0.75
_BATCH_ROWS: Final = 65536

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Deletion:
    """Rows to delete.

    rows      an expression that they match
    files     those that may contain such rows
    is_whole  whether all rows of these files match, because the expression is about their partitions
    """

    rows: Any
    files: Sequence[DatasetFile]
    is_whole: bool

    def whole(self) -> list[Deleted]:
        """Delete the files, which need not be opened."""
        return [
            Deleted(file.num_rows, Rewritten((entry_of(file).path,), None)) for file in self.files
        ]


@dataclass(frozen=True, slots=True)
class Deleted:
    """How many rows of a file were deleted, and what takes its place; None if it stays."""

    rows: int
    group: Rewritten | None


@dataclass(frozen=True, slots=True)
class BaseWriter:
    """Writes base files that take the place of others. It can be sent to another process.

    store    the directory of the table
    number   of the version whose files are rewritten
    known    digests of columns that are stored already
    options  of the writer of the files
    job      in the names of the files, see `TableStore.new_path`
    """

    store: TableStore
    number: int
    known: AbstractSet[str]
    options: WriteOptions
    job: str | None = None

    def fold(self, file: DatasetFile, open_file: OpenFile) -> Rewritten:
        """Write a file together with its column files, without columns that were dropped."""
        return Rewritten((entry_of(file).path,), self.write(_alone([file]), open_file))

    def merge(self, group: Sequence[DatasetFile], mode: Mode, open_file: OpenFile) -> Rewritten:
        """Write one file in place of some, by copying row groups if that is possible."""
        paths = tuple(entry_of(file).path for file in group)
        can_copy = mode != "rewrite" and _is_copyable(group)
        if mode == "copy" and not can_copy:
            raise ValueError(
                f"{group[0].name}: its column files, or columns that were dropped, cannot be "
                'copied; use mode="auto"'
            )
        if not can_copy:
            return Rewritten(paths, self.write(_alone(group), open_file), 0)
        path = self._new_path(group[0])
        sources: list[File] = [file.parts[0] for file in group]
        report = concatenate(sources, open_file(path), mode=mode, **self.options)
        added = min(entry_of(file).added for file in group)
        return Rewritten(paths, self.describe(path, added), report.num_copied)

    def delete(self, alone: FileSet, rows: Any, open_file: OpenFile) -> Deleted:
        """Write a file without the rows that an expression matches; rows for which it is null stay."""
        (file,) = alone.files
        path = (entry_of(file).path,)
        count = alone.count_rows(rows)
        if count == 0:
            return Deleted(0, None)
        if count == file.num_rows:
            return Deleted(count, Rewritten(path, None))
        new = self.write(alone, open_file, ~rows | rows.is_null())
        return Deleted(count, Rewritten(path, new))

    def write(self, files: FileSet, open_file: OpenFile, kept: Any = None) -> BaseFile:
        """Write the columns that files provide, of all rows or those that are `kept`."""
        sources = [part for file in files.files for part in file.parts]
        schema = _schema_of(files, {name for file in files.files for name in file.columns.names()})
        options: WriteOptions = {**kept_options(sources, plain_schema(schema)), **self.options}
        path = self._new_path(files.files[0])
        query = files.query(schema.names, kept)
        with MosaicWriter(open_file(path), schema, **options) as writer:
            for batch in files.iter_batches(query, _BATCH_ROWS):
                writer.write_batch(batch)
        return self.describe(path, self.number)

    def write_empty(self, files: FileSet, file: DatasetFile, open_file: OpenFile) -> BaseFile:
        """Write a file without rows, in the folder of `file`, that has all columns of `files`."""
        path = self._new_path(file)
        schema = _schema_of(files, set(files.column_names()))
        MosaicWriter(open_file(path), schema, **self.options).close()
        return self.describe(path, self.number)

    def describe(self, path: str, added: int) -> BaseFile:
        """Return the entry of a file that was written, and store its columns."""
        file = File(self.store.found(path), (), SchemaCache())
        metadata = file.metadata
        options: WriteOptions = {
            "num_buckets": metadata.num_buckets,
            "compression": metadata.compression,
            "array_layout": metadata.schema_block.array_layout,
        }
        digest = self.store.put_schema(metadata.schema, self.known, options)
        return BaseFile(path, file.size, metadata.num_rows, digest, added)

    def _new_path(self, file: DatasetFile) -> str:
        return self.store.new_path(_folder(file), self.job)


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites files of a table at a version."""

    store: TableStore
    state: State
    files: FileSet
    options: WriteOptions
    open_file: OpenFile

    def writer(self, job: str | None = None) -> BaseWriter:
        """Return what writes the new files, here or in another process."""
        known = frozenset(self.state.digests)
        return BaseWriter(self.store, self.state.number, known, self.options, job)

    def delete(self, filters: Any, progress: Progress = False) -> ReplaceFiles:
        """Write files without the rows that match; return the change."""
        deletion = self.deletion(filters)
        writer = self.writer()

        def deleted(file: DatasetFile) -> Deleted:
            return writer.delete(self.files.only([file]), deletion.rows, self.open_file)

        if deletion.is_whole:
            return self.without(deletion.whole())
        done: list[Deleted] = []
        with (
            reporting("delete", len(deletion.files), progress) as report,
            closing(self._each(deleted, deletion.files)) as every,
        ):
            for file, one in zip(deletion.files, every, strict=True):
                done.append(one)
                report(file.num_rows)
        return self.without(done)

    def deletion(self, filters: Any) -> Deletion:
        """Find the files that may contain rows that match."""
        query = self.files.query([], filters)
        candidates = self.files.matching_files(query)
        is_whole = self.files.is_of_partitions(query)
        if not is_whole:
            planned = {plan.file.found.place for plan in self.files.plan(query)}
            candidates = [
                file
                for file in candidates
                if any(part.found.place in planned for part in (file, *file.parts))
            ]
        return Deletion(query.expression, candidates, is_whole)

    def without(self, done: Iterable[Deleted]) -> ReplaceFiles:
        """Return the change that deletes rows of files."""
        every = list(done)
        groups = [one.group for one in every if one.group is not None]
        self._keep_columns(groups)
        return ReplaceFiles("delete", groups, False, {"rows": sum(one.rows for one in every)})

    def _keep_columns(self, groups: list[Rewritten]) -> None:
        """Replace a file that goes by one without rows, if no other file has some of its columns."""
        gone = {group.old[0] for group in groups if group.new is None}
        left = self.files.only([one for one in self.files.files if entry_of(one).path not in gone])
        if gone and set(left.column_names()) < set(self.files.column_names()):
            number = next(i for i, group in enumerate(groups) if group.new is None)
            (path,) = groups[number].old
            (file,) = (one for one in self.files.files if entry_of(one).path == path)
            empty = self.writer().write_empty(self.files, file, self.open_file)
            groups[number] = Rewritten((path,), empty)

    def fold(self, progress: Progress = False) -> ReplaceFiles:
        """Write a base file in place of each that has column files or dropped columns."""
        writer = self.writer()

        def rewritten(file: DatasetFile) -> Rewritten:
            return writer.fold(file, self.open_file)

        files = self.foldable()
        return self._rewrite("fold", files, rewritten, lambda file: file.num_rows, progress)

    def foldable(self) -> list[DatasetFile]:
        """Return the files that have column files or dropped columns."""
        return [file for file in self.files.files if entry_of(file).columns or self._hides(file)]

    def _hides(self, file: DatasetFile) -> bool:
        """Return whether the base file has columns that were dropped."""
        columns = self.state.columns.schema_file(entry_of(file).schema).columns
        return any(columns.find(name) is not None for name in dropped_from(file))

    def compact(self, target_bytes: int, mode: Mode, progress: Progress = False) -> ReplaceFiles:
        """Merge neighbouring small files of each partition; return the change."""
        writer = self.writer()

        def rewritten(group: Sequence[DatasetFile]) -> Rewritten:
            return writer.merge(group, mode, self.open_file)

        def rows_of(group: Sequence[DatasetFile]) -> int:
            return sum(file.num_rows for file in group)

        groups = self.mergeable(target_bytes)
        return self._rewrite("compact", groups, rewritten, rows_of, progress)

    def _rewrite(
        self,
        operation: str,
        items: Sequence[Any],
        rewritten: Callable[[Any], Rewritten],
        rows_of: Callable[[Any], int],
        progress: Progress,
    ) -> ReplaceFiles:
        groups: list[Rewritten] = []
        with (
            reporting(operation, len(items), progress) as done,
            closing(self._each(rewritten, items)) as every,
        ):
            for item, group in zip(items, every, strict=True):
                groups.append(group)
                done(rows_of(item))
        return ReplaceFiles(operation, groups, True)

    def mergeable(self, target_bytes: int) -> list[list[DatasetFile]]:
        """Return runs of small files of one partition, each up to about `target_bytes`."""
        if target_bytes < 1:
            raise ValueError(f"target_bytes must be at least 1, not {target_bytes}")
        runs: list[list[DatasetFile]] = []
        by_folder: dict[str, list[DatasetFile]] = {}
        for file in self.files.files:
            by_folder.setdefault(_folder(file), []).append(file)
        for files in by_folder.values():
            for is_small, run in groupby(
                files, lambda file: file.size < target_bytes * _SMALL_FILE
            ):
                if is_small:
                    runs += _packed(list(run), target_bytes)
        return runs

    def _each(
        self, work: Callable[[Any], Result], items: Sequence[Any]
    ) -> Generator[Result, None, None]:
        return map_in_order(work, items, len(items) > 1, purpose="columns")


def entry_of(file: DatasetFile) -> BaseFile:
    """Return what a version says about a file of a table."""
    assert file.found.entry is not None
    return file.found.entry.file


def _alone(group: Sequence[DatasetFile]) -> FileSet:
    """Return files with the columns and types that they have, whatever other files have."""
    return FileSet([file.found for file in group])


def _is_copyable(group: Sequence[DatasetFile]) -> bool:
    """Return whether the base files have all columns, and lack or hide the same ones."""
    entries = [entry_of(file) for file in group]
    hidden = {dropped_from(file) for file in group}
    if len(hidden) > 1 or any(entry.columns for entry in entries):
        return False
    # Columns that are hidden are copied, too, and may have different types in other files.
    return hidden == {frozenset()} or len({entry.schema for entry in entries}) == 1


def dropped_from(file: DatasetFile) -> frozenset[str]:
    """Return the columns that were dropped since a base file was written."""
    assert file.found.entry is not None
    snapshot, entry = file.found.entry
    return snapshot.version.dropped_since(entry.added)


def _schema_of(files: FileSet, names: set[str]) -> pa.Schema:
    """Return the columns called `names` as a file has them."""
    whole = files.schema
    return pa.schema([field for field in whole if field.name in names], whole.metadata)


def _folder(file: DatasetFile) -> str:
    return entry_of(file).path.rpartition("/")[0]


def _packed(files: Iterable[DatasetFile], target_bytes: int) -> Iterator[list[DatasetFile]]:
    """Divide neighbouring files into groups of at least two, up to about `target_bytes` each."""
    held: list[DatasetFile] = []
    size = 0
    for file in files:
        if held and size + file.size > target_bytes:
            if len(held) > 1:
                yield held
            held, size = [], 0
        held.append(file)
        size += file.size
    if len(held) > 1:
        yield held
