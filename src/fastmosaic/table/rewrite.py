"""Rewrite files: delete rows, merge small files, fold column files into base files.

New files take the place of old ones in the next version. The old ones stay until `vacuum` removes them, so
that earlier versions can be read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from ..dataset.files import File
from ..dataset.fileset import FileSet
from ..dataset.plan import matching_files
from ..dataset.table_files import DatasetFile
from ..dataset.version import BaseFile
from ..file.concat import Mode, concatenate, kept_options
from ..file.options import WriteOptions
from ..file.writer import MosaicWriter
from ..schemas.fit import plain_schema
from ..storage.staging import SUFFIX, new_prefix
from ..threads import map_in_order
from .changes import ReplaceFiles, Rewritten, State
from .progress import Progress, reporting
from .store import TableStore

# Files of at least this share of the target size are not merged with others.
_SMALL_FILE: Final = 0.75
_BATCH_ROWS: Final = 65536


@dataclass(frozen=True, slots=True)
class Rewriter:
    """Rewrites files of a table at a version."""

    store: TableStore
    state: State
    files: FileSet
    options: WriteOptions

    def delete(self, filters: Any, progress: Progress = False) -> ReplaceFiles:
        """Write files without the rows that match; return the change."""
        query = self.files.query([], filters)
        keys = set(self.files.partitions.names)
        # A file whose rows all match, because of its partition, need not be opened.
        is_known = all(field.name in keys for field in query.needed)
        candidates = matching_files(query, self.files.files, self.files.partitions)
        if not is_known:
            planned = {plan.file.found.place for plan in self.files.plan(query)}
            candidates = [
                file
                for file in candidates
                if any(one.found.place in planned for one in (file, *file.parts))
            ]
        kept = ~query.expression | query.expression.is_null()
        deleted = 0

        def rewritten(file: DatasetFile) -> tuple[Rewritten | None, int]:
            path = entry_of(file).path
            if is_known:
                return Rewritten((path,), None), file.num_rows
            alone = FileSet([file.found])
            count = alone.count_rows(query.expression)
            if count == 0:
                return None, 0
            if count == file.num_rows:
                return Rewritten((path,), None), count
            return Rewritten((path,), self._written([file], kept)), count

        groups: list[Rewritten] = []
        with self._removing(groups), reporting("delete", len(candidates), progress) as done:
            every = map_in_order(rewritten, candidates, len(candidates) > 1, purpose="columns")
            for file, (group, count) in zip(candidates, every, strict=True):
                if group is not None:
                    groups.append(group)
                deleted += count
                done(file.num_rows)
        return ReplaceFiles("delete", groups, False, {"rows": deleted})

    def fold(self, progress: Progress = False) -> ReplaceFiles:
        """Write a base file in place of each that has column files; return the change."""
        files = [file for file in self.files.files if entry_of(file).columns]

        def rewritten(file: DatasetFile) -> Rewritten:
            return Rewritten((entry_of(file).path,), self._written([file]))

        return self._rewrite("fold", files, rewritten, lambda file: file.num_rows, progress)

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
            return Rewritten(paths, self._written(group), 0)

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
        with self._removing(groups), reporting(operation, len(items), progress) as done:
            every = map_in_order(rewritten, items, len(items) > 1, purpose="columns")
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
        """Return whether the base files have all that counts, and nothing but that is dropped in all."""
        version = self.state.version
        entries = [entry_of(file) for file in group]
        hidden = {version.dropped_since(entry.added) for entry in entries}
        return len(hidden) == 1 and not any(entry.columns for entry in entries)

    def _copied(self, group: Sequence[DatasetFile], mode: Mode) -> tuple[BaseFile, int]:
        """Merge files by copying row groups; return the new file, and how many were copied."""
        path = self._new_path(group[0])
        sources: list[File] = [file.parts[0] for file in group]
        report = concatenate(sources, self.store.open_file(path), mode=mode, **self.options)
        added = min(entry_of(file).added for file in group)
        return self._described(path, added), report.num_copied

    def _written(self, group: Sequence[DatasetFile], kept: Any = None) -> BaseFile:
        """Write the columns that files provide, of all rows or those that are `kept`."""
        files = FileSet([file.found for file in group])
        keys = set(files.partitions.names)
        whole = files.schema
        schema = pa.schema([field for field in whole if field.name not in keys], whole.metadata)
        sources = [part for file in group for part in file.parts]
        options: WriteOptions = {**kept_options(sources, plain_schema(schema)), **self.options}
        path = self._new_path(group[0])
        query = files.query(schema.names, kept)
        with MosaicWriter(self.store.open_file(path), schema, **options) as writer:
            for batch in files.iter_batches(query, _BATCH_ROWS):
                writer.write_batch(batch)
        return self._described(path, self.state.number)

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
        name = f"{new_prefix()}-{os.urandom(8).hex()}{SUFFIX}"
        return f"{folder}/{name}" if folder else name

    @contextmanager
    def _removing(self, groups: Sequence[Rewritten]) -> Iterator[None]:
        """Remove the files that were written if the block raises."""
        try:
            yield
        except BaseException:
            for group in groups:
                if group.new is not None:
                    self.store.remove(group.new.path)
            raise


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
