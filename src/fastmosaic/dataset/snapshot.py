"""Snapshot: a table at one of its versions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

from ..errors import MosaicError
from ..storage.listing import entries_below, join
from ..storage.location import is_web
from ..storage.retry import insist
from ..storage.source import open_source
from .found import Found
from .hive import parse
from .version import (
    CREATING,
    MAX_BYTES,
    VERSIONS,
    BaseFile,
    Version,
    schema_name,
    version_name,
    version_number,
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at one of its versions: nothing that is committed later changes it.

    name        the directory of the table for messages, without credentials
    filesystem  a filesystem of pyarrow or fsspec, or None for the local one
    path        the directory in the filesystem
    """

    name: str
    filesystem: Any
    path: str = field(repr=False)
    version: Version = field(repr=False)

    def __reduce__(self) -> Any:
        # Another process may have another working directory.
        path = os.path.abspath(self.path) if self.filesystem is None else self.path
        return Snapshot, (self.name, self.filesystem, path, self.version)

    @classmethod
    def of(
        cls, name: str, filesystem: Any, path: str, number: int | None = None
    ) -> Snapshot | None:
        """Return a table at a version, by default the newest; None if the directory is no table."""
        if is_web(filesystem):
            return None
        names = list_objects(name, filesystem, path)
        while numbers := numbers_of(names):
            if number is not None and number not in numbers:
                raise no_version(name, number, numbers)
            wanted = numbers[-1] if number is None else number
            try:
                return cls(name, filesystem, path, read_version(name, filesystem, path, wanted))
            except FileNotFoundError:
                names = list_objects(name, filesystem, path)
                if numbers_of(names) == numbers:
                    raise
                # It was removed as an old one meanwhile.
        if CREATING in names:
            raise FileNotFoundError(
                f"{name} is not a table yet: its first version is being written, or its writer was "
                "killed; then create it again"
            )
        return None

    def found(self) -> list[Found]:
        """Return the files of the table.

        A table without files is its schema: a file that has the columns, but no rows.
        """
        if not self.version.files and self.version.schema is not None:
            digest = self.version.schema
            file = BaseFile(schema_name(digest), 0, 0, digest, self.version.schema_added)
            keys = dict.fromkeys(self.version.partitioning)
            return [replace(self.schema_file(digest), keys=keys, entry=TableEntry(self, file))]
        return [
            Found(
                join(self.name, file.path),
                self.filesystem,
                join(self.path, file.path),
                file.size,
                parse(file.path.split("/")[:-1], join(self.name, file.path)),
                TableEntry(self, file),
            )
            for file in self.version.files
        ]

    def part(self, path: str, size: int | None) -> Found:
        """Return a file of the table by its path, as a file of its own."""
        return Found(join(self.name, path), self.filesystem, join(self.path, path), size, {})

    def schema_file(self, digest: str) -> Found:
        """Return the file without rows that has the columns of other files."""
        return self.part(schema_name(digest), None)


class TableEntry(NamedTuple):
    """A base file and the table that it belongs to."""

    snapshot: Snapshot
    file: BaseFile


def no_version(name: str, number: int, numbers: Sequence[int]) -> FileNotFoundError:
    """Return the error about a version that a table does not have; it has `numbers`."""
    return FileNotFoundError(
        f"{name} has no version {number}: the oldest one is {numbers[0]} and the newest one is "
        f"{numbers[-1]}"
    )


def files_on_disk(found: Iterable[Found]) -> list[Found]:
    """Return each file by itself: after a base file of a table, its column files."""
    every: list[Found] = []
    for one in found:
        if one.entry is None:
            every.append(one)
        else:
            table, file = one.entry
            # The schema of a table without files stands for a file, of whatever size.
            every += (table.part(part.path, part.size or None) for part in file.parts)
    return every


def list_versions(name: str, filesystem: Any, path: str) -> list[int]:
    """Return the numbers of the versions that a table has, ascending; none if it is no table."""
    return numbers_of(list_objects(name, filesystem, path))


def numbers_of(names: Iterable[str]) -> list[int]:
    """Return the numbers of the versions among the names of objects, ascending."""
    numbers = map(version_number, names)
    return sorted(number for number in numbers if number is not None)


def list_objects(name: str, filesystem: Any, path: str) -> list[str]:
    """Return the names of all objects in the directory of versions; none if there is no such one."""
    directory = join(path, VERSIONS)
    if filesystem is None:
        try:
            return os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
    entries = insist(name, lambda: list(entries_below(filesystem, directory)))
    return [entry.relative for entry in entries]


def read_version(name: str, filesystem: Any, path: str, number: int) -> Version:
    """Read a version of a table; raise FileNotFoundError if there is none."""
    object_name = join(name, version_name(number))
    with open_source(join(path, version_name(number)), filesystem) as source:
        source.name = object_name
        data: pa.Buffer = source.read_at(0, min(source.size, MAX_BYTES + 1))
    try:
        return Version.decode(data, number)
    except MosaicError as error:
        error.locate(file=object_name)
        raise
