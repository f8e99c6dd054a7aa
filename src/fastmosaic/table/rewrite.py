"""Rewrite files: delete rows, merge small files, fold column files into base files.

New files take the place of old ones in the next version. The old ones stay until `vacuum` removes them, so
that earlier versions can be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
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
from ..file.options import WriteOptions
from ..file.writer import MosaicWriter
from ..schemas.fit import plain_schema
from ..storage.listing import join
from ..storage.sink import Sink
from ..storage.staging import SUFFIX, new_prefix
from ..threads import map_in_order
from .changes import ReplaceFiles, Rewritten, State
from .progress import Progress, reporting
from .store import TableStore

# Files of at least this share of the target size are not merged with others.
_SMALL_FILE: Final = 0.75
_BATCH_ROWS: Final = 65536

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites files of a table at a version."""

    store: TableStore
    state: State
    files: FileSet
    options: WriteOptions
    open_file: Callable[[str], Sink]  # of `TableStore.new_files`

    def delete(self, filters: Any, progress: Progress = False) -> ReplaceFiles:
        """Write files without the rows that match; return the change."""
        query = self.files.query([], filters)
        kept = ~query.expression | query.expression.is_null()
        is_known = self.files.is_of_partitions(query)
        candidates = self.files.matching_files(query)
        if not is_known:
            planned = {plan.file.found.place for plan in self.files.plan(query)}
            candidates = [
                file
                for file in candidates
                if any(part.found.place in planned for part in (file, *file.parts))
            ]
        deleted = 0

        def rewritten(file: DatasetFile) -> tuple[Rewritten | None, int]:
            path = entry_of(file).path
            # A file whose rows all match, because of its partition, need not be opened.
            alone = self.files.only([file])
            count = file.num_rows if is_known else alone.count_rows(query.expression)
            if count == file.num_rows:
                return Rewritten((path,), None), count
            if count == 0:
                return None, 0
            return Rewritten((path,), self._written(alone, kept)), count

        groups: list[Rewritten] = []
        with reporting("delete", len(candidates), progress) as done:
            with closing(self._each(rewritten, candidates)) as every:
                for file, (group, count) in zip(candidates, every, strict=True):
                    if group is not None:
                        groups.append(group)
                    deleted += count
                    done(file.num_rows)
            self._keep_columns(groups)
        return ReplaceFiles("delete", groups, False, {"rows": deleted})

    def _keep_columns(self, groups: list[Rewritten]) -> None:
        """Replace a file that goes by one without rows, if no other file has some of its columns."""
        gone = {group.old[0] for group in groups if group.new is None}
        left = self.files.only([one for one in self.files.files if entry_of(one).path not in gone])
        if gone and set(left.column_names()) < set(self.files.column_names()):
            number = next(i for i, group in enumerate(groups) if group.new is None)
            (path,) = groups[number].old
            (file,) = (one for one in self.files.files if entry_of(one).path == path)
            groups[number] = Rewritten((path,), self._emptied(file))

    def fold(self, progress: Progress = False) -> ReplaceFiles:
        """Write a base file in place of each that has column files or dropped columns."""
        files = [file for file in self.files.files if entry_of(file).columns or self._hides(file)]

        def rewritten(file: DatasetFile) -> Rewritten:
            return Rewritten((entry_of(file).path,), self._written(self._alone([file])))

        return self._rewrite("fold", files, rewritten, lambda file: file.num_rows, progress)

    def _hides(self, file: DatasetFile) -> bool:
        """Return whether the base file has columns that were dropped."""
        entry = entry_of(file)
        columns = self.state.columns.schema_file(entry.schema).columns
        dropped = self.state.version.dropped_since(entry.added)
        return any(columns.find(name) is not None for name in dropped)

    def compact(self, target_bytes: int, mode: Mode, progress: Progress = False) -> ReplaceFiles:
        """Merge neighbouring small files of each partition; return the change."""
        groups = list(self._groups(target_bytes))

        def rewritten(group: Sequence[DatasetFile]) -> Rewritten:
            paths = tuple(entry_of(file).path for file in group)
            can_copy = mode != "rewrite" and self._is_copyable(group)
            if mode == "copy" and not can_copy:
                raise ValueError(
                    f"{group[0].name}: its column files, or columns that were dropped, cannot be "
                    'copied; use mode="auto"'
                )
            if can_copy:
                return Rewritten(paths, *self._copied(group, mode))
            return Rewritten(paths, self._written(self._alone(group)), 0)

        def rows_of(group: Sequence[DatasetFile]) -> int:
            return sum(file.num_rows for file in group)

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

    def _groups(self, target_bytes: int) -> Iterator[list[DatasetFile]]:
        """Yield runs of small files of one partition, each up to about `target_bytes`."""
        by_folder: dict[str, list[DatasetFile]] = {}
        for file in self.files.files:
            by_folder.setdefault(_folder(file), []).append(file)
        for files in by_folder.values():
            for is_small, run in groupby(
                files, lambda file: file.size < target_bytes * _SMALL_FILE
            ):
                if is_small:
                    yield from _packed(list(run), target_bytes)

    def _is_copyable(self, group: Sequence[DatasetFile]) -> bool:
        """Return whether the base files have all columns, and lack or hide the same ones."""
        version = self.state.version
        entries = [entry_of(file) for file in group]
        hidden = {version.dropped_since(entry.added) for entry in entries}
        if len(hidden) > 1 or any(entry.columns for entry in entries):
            return False
        # Columns that are hidden are copied, too, and may have different types in other files.
        return hidden == {frozenset()} or len({entry.schema for entry in entries}) == 1

    def _copied(self, group: Sequence[DatasetFile], mode: Mode) -> tuple[BaseFile, int]:
        """Merge files by copying row groups; return the new file, and how many were copied."""
        path = self._new_path(group[0])
        sources: list[File] = [file.parts[0] for file in group]
        report = concatenate(sources, self.open_file(path), mode=mode, **self.options)
        added = min(entry_of(file).added for file in group)
        return self._described(path, added), report.num_copied

    def _alone(self, group: Sequence[DatasetFile]) -> FileSet:
        """Return files with the columns and types that they have, whatever other files have."""
        return FileSet([file.found for file in group])

    def _written(self, files: FileSet, kept: Any = None) -> BaseFile:
        """Write the columns that files provide, of all rows or those that are `kept`."""
        sources = [part for file in files.files for part in file.parts]
        schema = self._schema_of(
            files, {name for file in files.files for name in file.columns.names()}
        )
        options: WriteOptions = {**kept_options(sources, plain_schema(schema)), **self.options}
        path = self._new_path(files.files[0])
        query = files.query(schema.names, kept)
        with MosaicWriter(self.open_file(path), schema, **options) as writer:
            for batch in files.iter_batches(query, _BATCH_ROWS):
                writer.write_batch(batch)
        return self._described(path, self.state.number)

    def _emptied(self, file: DatasetFile) -> BaseFile:
        """Write a file without rows that has all columns of the table."""
        path = self._new_path(file)
        schema = self._schema_of(self.files, set(self.files.column_names()))
        MosaicWriter(self.open_file(path), schema, **self.options).close()
        return self._described(path, self.state.number)

    def _schema_of(self, files: FileSet, names: set[str]) -> pa.Schema:
        """Return the columns called `names` as a file has them."""
        whole = files.schema
        return pa.schema([field for field in whole if field.name in names], whole.metadata)

    def _described(self, path: str, added: int) -> BaseFile:
        """Return the entry of a file that was written."""
        file = File(self.state.snapshot.part(path, None), (), self.state.columns.schemas)
        metadata = file.metadata
        options: WriteOptions = {
            "num_buckets": metadata.num_buckets,
            "compression": metadata.compression,
            "array_layout": metadata.schema_block.array_layout,
        }
        digest = self.store.put_schema(metadata.schema, self.state.digests, options)
        return BaseFile(path, file.size, metadata.num_rows, digest, added)

    def _new_path(self, file: DatasetFile) -> str:
        folder = _folder(file)
        return join(folder, f"{new_prefix()}-{os.urandom(8).hex()}{SUFFIX}")

    def _each(
        self, work: Callable[[Any], Result], items: Sequence[Any]
    ) -> Generator[Result, None, None]:
        return map_in_order(work, items, len(items) > 1, purpose="columns")


def entry_of(file: DatasetFile) -> BaseFile:
    """Return what a version says about a file of a table."""
    assert file.found.entry is not None
    return file.found.entry.file


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
