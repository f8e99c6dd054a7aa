"""Overwrite rows: new files take the place of rows of a table, or of the table with its columns.

An overwrite replaces the rows of the version that its writer had read. If another writer has changed
files with such rows, or has added files that may have some, it is a conflict: nobody knows whether these
rows should be replaced, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ..dataset.fileset import FileSet
from ..dataset.hive import parse
from ..dataset.version import BaseFile, ColumnFile, Version
from ..file.options import WriteOptions
from ..storage.sink import Sink
from .changes import Append, Change, Rewritten, State, check_same, check_unchanged, needed_drops
from .declare import PutSchema, columns_in_order, declaring
from .rewrite import Rewriter, entry_of
from .store import TableStore


class Region(ABC):
    """The rows that an overwrite replaces."""

    @abstractmethod
    def replaced(self, rewriter: Rewriter, new: Sequence[BaseFile]) -> Sequence[Rewritten]:
        """Return the files that have such rows, each with the one that has its other rows.

        `new` are the files with the new rows.
        """

    @abstractmethod
    def reached(
        self, now: State, late: Sequence[BaseFile], new: Sequence[BaseFile]
    ) -> Sequence[BaseFile]:
        """Return those of the files `late`, which others have added, that may have such rows."""


class AllRows(Region):
    """All rows of a table."""

    def replaced(self, rewriter: Rewriter, new: Sequence[BaseFile]) -> Sequence[Rewritten]:
        return [Rewritten((file.path,), None) for file in rewriter.state.version.files]

    def reached(
        self, now: State, late: Sequence[BaseFile], new: Sequence[BaseFile]
    ) -> Sequence[BaseFile]:
        return late


class SamePartitions(Region):
    """The rows of all partitions that new rows have; all rows if the table has no partitions."""

    def replaced(self, rewriter: Rewriter, new: Sequence[BaseFile]) -> Sequence[Rewritten]:
        files = self.reached(rewriter.state, rewriter.state.version.files, new)
        return [Rewritten((file.path,), None) for file in files]

    def reached(
        self, now: State, late: Sequence[BaseFile], new: Sequence[BaseFile]
    ) -> Sequence[BaseFile]:
        if not late or not new:
            return ()
        wanted = {_partition(file) for file in new}
        return [file for file in late if _partition(file) in wanted]


def _partition(file: BaseFile) -> tuple[tuple[str, str | None], ...]:
    """Return the keys and values of the directories of a file."""
    return tuple(parse(file.path.split("/")[:-1], file.path).items())


@dataclass(frozen=True)
class MatchingRows(Region):
    """Rows that match a filter, in any form that `MosaicFile.read` accepts."""

    filters: Any

    def replaced(self, rewriter: Rewriter, new: Sequence[BaseFile]) -> Sequence[Rewritten]:
        return rewriter.delete(self.filters).groups

    def reached(
        self, now: State, late: Sequence[BaseFile], new: Sequence[BaseFile]
    ) -> Sequence[BaseFile]:
        if not late:
            return ()
        files = FileSet(now.snapshot)
        paths = {file.path for file in late}
        added = files.only([one for one in files.files if entry_of(one).path in paths])
        return [entry_of(one) for one in added.files if added.only([one]).count_rows(self.filters)]


@dataclass
class Overwrite(Change):
    """Replace the rows of a region by new ones. All columns stay, also if no row is left.

    groups   the files that had rows of the region
    files    base files with the new rows
    """

    operation = "overwrite"
    region: Region
    groups: Sequence[Rewritten]
    files: Sequence[BaseFile]
    put: PutSchema
    summary: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        store: TableStore,
        state: State,
        region: Region,
        files: Sequence[BaseFile],
        open_file: Callable[[str], Sink],
        options: WriteOptions,
    ) -> Overwrite:
        """Find the files to replace, and rewrite those that keep some of their rows."""
        rewriter = Rewriter(store, state, FileSet(state.snapshot), options, open_file)
        return cls(region, region.replaced(rewriter, files), files, store.put_schema)

    def apply(self, read: State, now: State) -> Version | None:
        late = [one for one in now.version.files if one.path not in read.by_path]
        for one in self.region.reached(now, late, self.files):
            raise now.conflict("another writer has added rows that would be replaced", one.path)
        for path in (path for group in self.groups for path in group.old):
            check_unchanged(read, now, path)
        if not self.groups and not self.files:
            return None
        new = {path: group.new for group in self.groups for path in group.old}
        kept = [new.get(one.path, one) for one in now.version.files]
        # Columns that only these files had must stay.
        made = declaring(now, columns_in_order(now), self.put)
        made = made.replaced(files=tuple(one for one in kept if one is not None))
        version = Append(self.files).apply(read, made) or made.version
        self.summary = {
            "rows": sum(one.rows for one in self.files),
            "files": len(self.files),
            "files_replaced": len(new),
        }
        return replace(version, dropped=needed_drops(version))

    def new_files(self) -> Sequence[BaseFile | ColumnFile]:
        return [*self.files, *(group.new for group in self.groups if group.new is not None)]


@dataclass
class ReplaceTable(Change):
    """Replace all rows, columns and partition columns.

    files         base files with the new rows
    schema        the columns
    partitioning  names of those that are directories
    """

    operation = "replace"
    files: Sequence[BaseFile]
    schema: pa.Schema
    partitioning: Sequence[str]
    put: PutSchema
    summary: dict[str, Any] = field(default_factory=dict)

    def apply(self, read: State, now: State) -> Version | None:
        check_same(read, now)
        self.summary = {"rows": sum(one.rows for one in self.files), "files": len(self.files)}
        made = now.replaced(
            files=tuple(self.files), dropped={}, partitioning=tuple(self.partitioning)
        )
        return declaring(made, self.schema, self.put).version

    def new_files(self) -> Sequence[BaseFile | ColumnFile]:
        return self.files
