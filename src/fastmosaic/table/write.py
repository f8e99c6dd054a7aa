"""Write rows by many processes: tasks write base files, and one process commits them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ..dataset.version import VERSIONS, BaseFile
from ..file.options import WriteOptions
from ..storage.listing import entries_below
from ..storage.retry import insist
from ..storage.target import new_prefix
from .changes import Append, Change, State
from .commit import TableChange, commit_change
from .create import begin_new, check_columns, finish_new
from .overwrite import Overwrite, Region, ReplaceTable
from .rows import RowWriter
from .store import TableStore


class TableWrite(ABC):
    """A write by many processes, which ends with either `commit` or `abort`.

    rows    writes base files; it is sent to the processes. Files become part of the table if they are
            given to `commit`. Others, of processes that were killed, are named by no version
    prefix  the beginning of the names of all files of this write
    """

    rows: RowWriter
    prefix: str

    @abstractmethod
    def commit(self, files: Sequence[BaseFile]) -> TableChange | None:
        """Make a version with these files; return what was done to a table that existed before.

        Raises ConflictError, and removes the files, if another writer has changed the same rows.
        """

    def abort(self) -> None:
        """Remove the files that were written, as far as possible: vacuum removes the rest."""
        store = self.rows.store
        with suppress(OSError):
            entries = insist(
                store.name, lambda: list(entries_below(store.filesystem, store.path, _is_data))
            )
            store.discard(
                one.relative
                for one in entries
                if one.relative.rpartition("/")[2].startswith(self.prefix)
            )


def _is_data(relative: str) -> bool:
    return relative != VERSIONS


@dataclass
class ChangeWrite(TableWrite):
    """A write to a table: it appends rows, or overwrites those of a region.

    state  the version that the write was prepared for
    """

    rows: RowWriter
    state: State
    region: Region | None
    prefix: str

    @classmethod
    def begin(
        cls,
        store: TableStore,
        state: State,
        schema: pa.Schema,
        region: Region | None,
        options: dict[str, Any],
    ) -> ChangeWrite:
        """Begin to write rows with the columns `schema`; `options` are those of `DatasetWriter`."""
        store.check_writable()
        rows = RowWriter.of(
            store, schema, state.digests, state.number, state.version.partitioning, **options
        )
        return cls(rows, state, region, new_prefix())

    def commit(self, files: Sequence[BaseFile]) -> TableChange:
        store = self.rows.store
        if self.region is None:
            return commit_change(store, Append(files), self.state)[1]
        change = overwriting(store, self.state, self.region, files)
        return commit_change(store, change, self.state)[1]


def overwriting(
    store: TableStore,
    state: State,
    region: Region,
    files: Sequence[BaseFile],
    options: WriteOptions | None = None,
) -> Change:
    """Return the change that replaces the rows of a region; if this fails, no file is left."""
    try:
        with store.new_files() as open_file:
            return Overwrite.of(store, state, region, files, open_file, options or {})
    except BaseException:
        store.discard(one.path for one in files)
        raise


@dataclass
class NewTableWrite(TableWrite):
    """The write of a new table with its first rows: nobody sees the table before `commit`.

    `abort` leaves the mark of a table that is being created, because processes that are still running
    may write files that would be taken for a dataset otherwise.
    """

    rows: RowWriter
    state: State
    prefix: str

    @classmethod
    def begin(
        cls,
        store: TableStore,
        schema: pa.Schema,
        partitioning: Sequence[str],
        options: dict[str, Any],
    ) -> NewTableWrite:
        """Begin to make a table with the columns `schema`."""
        store.check_writable()
        state = begin_new(store, schema, partitioning)
        rows = RowWriter.of(store, schema, state.digests, 0, partitioning, **options)
        return cls(rows, state, new_prefix())

    def commit(self, files: Sequence[BaseFile]) -> None:
        finish_new(self.rows.store, self.state, files)


@dataclass
class ReplaceWrite(TableWrite):
    """A write that replaces a table: its rows, columns and partition columns. Versions stay."""

    rows: RowWriter
    state: State
    schema: pa.Schema
    prefix: str

    @classmethod
    def begin(
        cls,
        store: TableStore,
        state: State,
        schema: pa.Schema,
        partitioning: Sequence[str],
        options: dict[str, Any],
    ) -> ReplaceWrite:
        """Begin to replace the table at the version `state` by one with the columns `schema`."""
        store.check_writable()
        check_columns(schema, partitioning)
        rows = RowWriter.of(store, schema, state.digests, state.number, partitioning, **options)
        return cls(rows, state, schema, new_prefix())

    def commit(self, files: Sequence[BaseFile]) -> TableChange:
        store = self.rows.store
        change = ReplaceTable(files, self.schema, self.rows.partitioning, store.put_schema)
        return commit_change(store, change, self.state)[1]
