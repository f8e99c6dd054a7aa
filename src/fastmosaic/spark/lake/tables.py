"""Tables of a lake, opened at a version: what SQL does to them. Without Spark's JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...dataset.fileset import FileSet
from ...errors import ConflictError, UnsupportedError
from ...storage.listing import join
from ...table.changes import State
from ...table.declare import columns_in_order
from ...table.overwrite import Region
from ...table.rows import RowWriter
from ...table.store import TableStore
from ...table.table import MosaicTable
from ...table.write import ChangeWrite, NewTableWrite, ReplaceWrite, TableWrite
from .lake import Kind, Lake, Namespace

if TYPE_CHECKING:
    from ...dataset.version import BaseFile

__all__ = ["HeldWrite", "LakeTable", "StagedLakeTable"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class LakeTable:
    """A table of a lake at one of its versions, or a dataset, which can only be read."""

    lake: Lake
    label: str  # its name in SQL
    path: str
    kind: Kind
    files: FileSet
    state: State | None  # None if it is a dataset

    @classmethod
    def open(
        cls,
        lake: Lake,
        label: str,
        namespace: Namespace,
        name: str,
        version: int | None = None,
        micros: int | None = None,
    ) -> LakeTable:
        """Open a table, by default at its newest version; `micros` is a time since 1970."""
        path, kind = lake.find(namespace, name)
        if kind != "table":
            if version is not None or micros is not None:
                raise UnsupportedError(f"{label} is a {kind} without versions, not a table")
            files = FileSet(path, filesystem=lake.filesystem)
            return cls(lake, label, path, kind, files, None)
        store = lake.store(namespace, name)
        if micros is not None:
            version = _version_at(store, EPOCH + timedelta(microseconds=micros))
        state = State(store.snapshot(version))
        return cls(lake, label, path, kind, FileSet(state.snapshot), state)

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns, in the order in which they were created."""
        return self.files.schema if self.state is None else columns_in_order(self.state, self.files)

    @property
    def partitioning(self) -> Sequence[str]:
        return self.files.partitions.names

    @property
    def properties(self) -> dict[str, str]:
        """What DESCRIBE EXTENDED shows."""
        place = self.path
        if self.lake.filesystem is not None:
            place = join(self.lake.name, self.path.removeprefix(self.lake.path).lstrip("/"))
        found = {"provider": "mosaic", "location": place, "kind": self.kind}
        found["is_managed_location"] = "true"
        if self.state is not None:
            version = self.state.version
            found |= {
                "version": str(version.number),
                "operation": version.operation,
                "committed": version.time.isoformat(),
                "files": str(len(version.files)),
                "rows": str(version.num_rows),
            }
        return found

    def check_changeable(self) -> None:
        """Raise UnsupportedError if it is a dataset."""
        if self.state is None:
            advice = (
                "make it a table with fastmosaic.MosaicTable.create(path)"
                if self.kind == "dataset"
                else "create a table as select from it"
            )
            raise UnsupportedError(
                f"{self.label} is a {self.kind} without versions, which cannot be changed; {advice}"
            )

    @property
    def _store(self) -> TableStore:
        self.check_changeable()
        assert self.state is not None
        snapshot = self.state.snapshot
        return TableStore(
            snapshot.name, snapshot.filesystem, snapshot.path, self.lake.single_writer
        )

    def change(self) -> MosaicTable:
        """Return the newest version of the table, to change it."""
        store = self._store
        return MosaicTable(
            store.path, filesystem=store.filesystem, single_writer=store.single_writer
        )

    def begin_write(self, region: Region | None, options: Mapping[str, Any]) -> TableWrite:
        """Begin to append rows, or to overwrite those of a region."""
        store = self._store
        assert self.state is not None
        return ChangeWrite.begin(store, self.state, self.schema, region, dict(options))


@dataclass
class StagedLakeTable:
    """A table that is created or replaced together with its first rows, in one step.

    replaced  the version that it replaces; None if the table is new
    """

    lake: Lake
    label: str
    store: TableStore
    schema: pa.Schema
    partitioning: Sequence[str]
    replaced: State | None
    options: Mapping[str, Any]
    _write: TableWrite | None = None
    _files: Sequence[BaseFile] = ()

    def begin_write(self, region: Region | None, options: Mapping[str, Any]) -> TableWrite:
        """Begin to write the rows; they become part of the table by `commit`."""
        self._write = self._begin(options)
        return HeldWrite(self._write.rows, self._write.prefix, self)

    def _begin(self, options: Mapping[str, Any]) -> TableWrite:
        given = dict(options)
        if self.replaced is None:
            return NewTableWrite.begin(self.store, self.schema, self.partitioning, given)
        return ReplaceWrite.begin(self.store, self.replaced, self.schema, self.partitioning, given)

    def hold(self, files: Sequence[BaseFile]) -> None:
        """Keep the files of the rows until `commit`."""
        self._files = files

    def commit(self) -> None:
        """Create or replace the table."""
        if self._write is None:
            self._write = self._begin(self.options)
        try:
            self._write.commit(self._files)
        except FileExistsError as error:
            raise ConflictError(str(error), file=self.store.name) from error

    def abort(self) -> None:
        """Remove what was written."""
        if self._write is not None:
            self._write.abort()


@dataclass
class HeldWrite(TableWrite):
    """The write of rows of a table that is not there yet."""

    rows: RowWriter
    prefix: str
    table: StagedLakeTable

    def commit(self, files: Sequence[BaseFile]) -> None:
        self.table.hold(files)

    def abort(self) -> None:
        self.table.abort()


def _version_at(store: TableStore, time: datetime) -> int:
    """Return the version that was the newest one at a time. Versions are sorted by time."""
    from bisect import bisect_right

    numbers = store.versions()
    place = bisect_right(numbers, time, key=lambda number: store.read(number).time)
    if place == 0:
        oldest = "" if not numbers else f": the oldest one is of {store.read(numbers[0]).time}"
        raise FileNotFoundError(f"{store.name} has no version that is as old as {time}{oldest}")
    return numbers[place - 1]
