"""Changes: what operations do to a version of a table.

A change was prepared for the version that its writer had read. Until it is committed, other writers may
commit theirs. It is then applied to the newest version, without doing its work again, or raises a
ConflictError if another writer has changed the same thing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from ..dataset.files import DEFAULTS
from ..dataset.fileset import FileSet
from ..dataset.snapshot import Snapshot
from ..dataset.table_files import TableColumns
from ..dataset.version import BaseFile, ColumnFile, Version
from ..errors import ConflictError, SchemaMismatchError
from ..file.opening import SchemaCache
from ..schemas.widen import joined
from ..storage.listing import join


class State:
    """A version of a table, and which file has which column."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.version = snapshot.version
        self.columns = TableColumns(snapshot, SchemaCache(), DEFAULTS)

    @property
    def number(self) -> int:
        return self.version.number

    @cached_property
    def by_path(self) -> Mapping[str, BaseFile]:
        return {file.path: file for file in self.version.files}

    @cached_property
    def digests(self) -> set[str]:
        """The digests of all columns that the version refers to."""
        every = {part.schema for file in self.version.files for part in file.parts}
        return every if self.version.schema is None else every | {self.version.schema}

    def provider(self, file: BaseFile, name: str) -> str | None:
        """Return the path of the file that has a column of a base file, or None."""
        number = self.columns.of(file).number_of(name)
        return None if number is None else file.parts[number].path

    def counts_as(self, read: State, file: BaseFile) -> bool:
        """Return whether the same columns of a file count as in version `read`.

        Those that were dropped later do not matter: they will not count in a file of a writer that has
        read that version. But others may have returned to a version where a column was dropped, or
        was not.
        """
        later = self.version.dropped_since(read.number)
        for part in file.parts:
            before = read.version.dropped_since(part.added)
            if not before <= self.version.dropped_since(part.added) <= before | later:
                return False
        return True

    def without_unused(self, file: BaseFile) -> BaseFile:
        """Return a base file without column files that no longer provide any column."""
        parts = zip(file.columns, self.columns.of(file).parts[1:], strict=True)
        used = tuple(one for one, columns in parts if columns.names())
        return file if len(used) == len(file.columns) else replace(file, columns=used)

    def replaced(self, **changes: Any) -> State:
        """Return the state with other fields of the version."""
        return State(replace(self.snapshot, version=replace(self.version, **changes)))

    def conflict(self, fact: str, path: str, column: str | None = None) -> ConflictError:
        return ConflictError(
            f"{fact}; nothing was committed", file=join(self.snapshot.name, path), column=column
        )


class Change(ABC):
    """A change of a table.

    operation   its name in the history
    summary     numbers and names about it, for people; complete when it was applied
    """

    operation: str
    summary: dict[str, Any]

    @abstractmethod
    def apply(self, read: State, now: State) -> Version | None:
        """Return the version `now` with this change, or None if there is nothing to do.

        `read` is the version that the change was prepared for.
        """

    def new_files(self) -> Sequence[BaseFile | ColumnFile]:
        """Return the files that were written for the change."""
        return ()


@dataclass
class Append(Change):
    """Add rows: new base files behind those that are there."""

    operation = "append"
    files: Sequence[BaseFile]
    summary: dict[str, Any] = field(default_factory=dict)

    def apply(self, read: State, now: State) -> Version | None:
        if not self.files:
            return None
        if now.version.partitioning != read.version.partitioning:
            raise now.conflict(
                "another writer has changed the partition columns of the table", self.files[0].path
            )
        self._check_columns(read, now)
        self._check_types(read, now)
        self.summary = {"rows": sum(one.rows for one in self.files), "files": len(self.files)}
        return replace(now.version, files=(*now.version.files, *self.files))

    def _check_columns(self, read: State, now: State) -> None:
        """Raise ConflictError if the table has lost a column that the new rows have.

        A column that was dropped meanwhile does not count in these rows either. But another writer may
        have returned to a version from before the column was there.
        """
        if read.digests <= now.digests and read.version.dropped == now.version.dropped:
            return
        present = set(FileSet(now.snapshot).columns.names())
        for file in {one.schema: one for one in self.files}.values():
            hidden = now.version.dropped_since(file.added)
            for name in now.columns.schema_file(file.schema).columns.names():
                if name not in present and name not in hidden:
                    raise now.conflict("another writer has removed the column", file.path, name)

    def _check_types(self, read: State, now: State) -> None:
        """Raise ConflictError if a column got another type, which the new rows do not have."""
        added = now.digests - read.digests - {one.schema for one in self.files}
        if not added:
            return
        for file in {one.schema: one for one in self.files}.values():
            own = read.columns.schema_file(file.schema).columns
            for digest in added:
                for theirs in now.columns.schema_file(digest).columns.to_arrow():
                    ours = own.find(theirs.name)
                    if ours is not None and ours.type != theirs.type:
                        self._check_joined(now, file, ours, theirs)

    def _check_joined(self, now: State, file: BaseFile, ours: pa.Field, theirs: pa.Field) -> None:
        try:
            joined(ours.name, (ours.type, file.path), (theirs.type, "the table"))
        except SchemaMismatchError as error:
            raise now.conflict(
                f"another writer changed the type of the column to {theirs.type}",
                file.path,
                ours.name,
            ) from error

    def new_files(self) -> Sequence[BaseFile | ColumnFile]:
        return self.files


@dataclass
class AddColumns(Change):
    """Add columns to base files: a column file for each.

    files    by the path of the base file
    digests  of the base files, as in the annex of the column files
    names    the columns
    """

    operation = "add columns"
    files: Mapping[str, ColumnFile]
    digests: Mapping[str, str]
    names: Sequence[str]
    summary: dict[str, Any] = field(default_factory=dict)

    def apply(self, read: State, now: State) -> Version | None:
        if not self.files:
            return None
        for path in self.files:
            self._check(read, now, path)
        made = now.replaced(files=tuple(map(self._added, now.version.files)))
        others = [one for one in now.version.files if one.path not in self.files]
        self.summary = {"columns": list(self.names), "files": len(self.files)}
        late = sum(one.path not in read.by_path for one in others)
        if late:
            # They were appended by others while the columns were computed.
            self.summary["files_without_values"] = late
        return replace(made.version, files=tuple(map(made.without_unused, made.version.files)))

    def _check(self, read: State, now: State, path: str) -> None:
        file = now.by_path.get(path)
        if file is None:
            raise now.conflict("another writer has replaced the file", path)
        for name in self.names:
            # A column that was added and dropped meanwhile would hide the new one.
            is_dropped = now.version.dropped.get(name, 0) > read.number
            if is_dropped or now.provider(file, name) != read.provider(read.by_path[path], name):
                raise now.conflict("another writer has changed the column", path, name)

    def _added(self, file: BaseFile) -> BaseFile:
        new = self.files.get(file.path)
        if new is None:
            return file
        return replace(file, digest=self.digests[file.path], columns=(*file.columns, new))

    def new_files(self) -> Sequence[BaseFile | ColumnFile]:
        return list(self.files.values())


@dataclass
class DropColumns(Change):
    """Drop columns: files keep them, but they no longer count."""

    operation = "drop columns"
    names: Sequence[str]
    summary: dict[str, Any] = field(default_factory=dict)

    def apply(self, read: State, now: State) -> Version | None:
        left = [name for name in self.names if not self._is_dropped(read, now, name)]
        if not left:
            return None
        self.summary = {"columns": left}
        dropped = dict(now.version.dropped) | dict.fromkeys(left, now.number + 1)
        made = now.replaced(dropped=dropped)
        if now.number != read.number:
            self._check_rest(made, left[0])
        return replace(made.version, files=tuple(map(made.without_unused, made.version.files)))

    def _check_rest(self, made: State, name: str) -> None:
        """Raise ConflictError if only partition columns are left."""
        files = FileSet(made.snapshot)
        if len(files.columns.names()) == len(files.partitions):
            raise ConflictError(
                "another writer has dropped the other columns; nothing was committed",
                file=made.snapshot.name,
                column=name,
            )

    def _is_dropped(self, read: State, now: State, name: str) -> bool:
        """Return whether another writer has dropped a column meanwhile."""
        return now.version.dropped.get(name, 0) > read.number


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Base files that a new one replaces, or nothing if no row is left."""

    old: tuple[str, ...]  # their paths
    new: BaseFile | None
    copied: int | None = None  # row groups that were copied as they are, if files were merged


@dataclass
class ReplaceFiles(Change):
    """Replace base files and their column files by new base files.

    operation  its name: files are rewritten for several reasons
    groups     the files
    gives_way  whether files that another writer has changed stay as they are: it is an error
               otherwise
    """

    operation: str
    groups: Sequence[Rewritten]
    gives_way: bool
    summary: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = dict(self.summary)

    def apply(self, read: State, now: State) -> Version | None:
        groups = [group for group in self.groups if self._is_possible(read, now, group)]
        if not groups:
            return None
        new: dict[str, BaseFile | None] = {}
        for group in groups:
            new |= dict.fromkeys(group.old) | {group.old[0]: group.new}
        files = (new.get(file.path, file) for file in now.version.files)
        self.summary = {
            **self._numbers,
            "files_before": len(new),
            "files_after": sum(group.new is not None for group in groups),
        }
        merged = [group.copied for group in groups if group.copied is not None]
        if merged:
            self.summary["row_groups_copied"] = sum(merged)
        if len(groups) < len(self.groups):
            self.summary["left_to_other_writers"] = len(self.groups) - len(groups)
        made = replace(now.version, files=tuple(one for one in files if one is not None))
        return replace(made, dropped=needed_drops(made))

    def _is_possible(self, read: State, now: State, group: Rewritten) -> bool:
        for path in group.old:
            if not self.gives_way:
                check_unchanged(read, now, path)
            elif not _is_unchanged(read, now, path):
                return False
        return True

    def new_files(self) -> Sequence[BaseFile | ColumnFile]:
        return [one.new for one in self.groups if one.new is not None]


def _is_unchanged(read: State, now: State, path: str) -> bool:
    """Return whether a file is as it was in version `read`."""
    file = read.by_path[path]
    return now.by_path.get(path) == file and now.counts_as(read, file)


def check_unchanged(read: State, now: State, path: str) -> None:
    """Raise ConflictError if another writer has changed or removed a file of version `read`."""
    if not _is_unchanged(read, now, path):
        raise now.conflict("another writer has changed the file", path, _added_column(now, path))


def _added_column(now: State, path: str) -> str | None:
    """Return a column that the newest column file of a base file has, to name it in an error."""
    file = now.by_path.get(path)
    if file is None or not file.columns:
        return None
    return next(iter(now.columns.of(file).parts[-1].names()), None)


def needed_drops(version: Version) -> dict[str, int]:
    """Return the dropped columns that files may still have."""
    oldest = min(_added(version), default=version.number)
    return {name: number for name, number in version.dropped.items() if oldest < number}


def _added(version: Version) -> Iterable[int]:
    if version.schema is not None:
        yield version.schema_added
    for file in version.files:
        yield from (part.added for part in file.parts)


def check_same(read: State, now: State) -> None:
    """Raise ConflictError if another writer has committed a version."""
    if now.number != read.number:
        raise ConflictError(
            f"another writer has committed version {now.number}; nothing was committed, "
            "open the table again",
            file=now.snapshot.name,
        )


@dataclass
class Restore(Change):
    """Return to the state of an earlier version."""

    operation = "restore"
    earlier: Version
    summary: dict[str, Any] = field(default_factory=dict)

    def apply(self, read: State, now: State) -> Version | None:
        check_same(read, now)
        self.summary = {"version": self.earlier.number}
        return replace(
            now.version,
            files=self.earlier.files,
            dropped=self.earlier.dropped,
            schema=self.earlier.schema,
            schema_added=self.earlier.schema_added,
            partitioning=self.earlier.partitioning,
        )


@dataclass
class Vacuum(Change):
    """Nothing but a mark: versions before it may lack files, so nobody returns to them.

    It is committed only if nobody else has committed a version since `read`.
    """

    operation = "vacuum"
    summary: dict[str, Any] = field(default_factory=dict)

    def apply(self, read: State, now: State) -> Version | None:
        check_same(read, now)
        return now.version
