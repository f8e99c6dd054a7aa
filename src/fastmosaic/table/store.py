"""The objects of a table in its directory: versions, schemas and data files."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from ..dataset.found import Found
from ..dataset.snapshot import (
    Snapshot,
    list_objects,
    list_versions,
    numbers_of,
    read_version,
)
from ..dataset.version import (
    COLUMNS,
    CREATING,
    VERSIONS,
    BaseFile,
    ColumnFile,
    Version,
    schema_name,
    version_name,
)
from ..errors import ConflictError
from ..file.options import WriteOptions
from ..file.writer import MosaicWriter
from ..storage.create import check_creatable, create
from ..storage.listing import join, look
from ..storage.location import as_arrow, is_web, kind_of, locate, os_error
from ..storage.replace import make_directories, sync
from ..storage.retry import insist
from ..storage.sink import WITHOUT_DIRECTORIES, Sink, open_sink
from ..storage.target import SUFFIX, new_prefix
from ..threads import REMOTE_THREADS, map_in_order

_OF_JOB: Final = re.compile(r"part-[0-9]{20}-([0-9a-f]{16})-[0-9a-f]{16}\.mosaic")


@dataclass(frozen=True, slots=True)
class TableStore:
    """The directory of a table.

    name           the directory for messages, without credentials
    filesystem     a filesystem of pyarrow or fsspec, or None for the local one
    path           the directory in the filesystem
    single_writer  whether the caller knows that nobody else changes the table
    """

    name: str
    filesystem: Any
    path: str = field(repr=False)
    single_writer: bool = False

    @classmethod
    def of(cls, path: Any, filesystem: Any, single_writer: bool) -> TableStore:
        found = locate(path, filesystem)
        if found is None:
            raise TypeError(
                f"expected the path or URI of a table, not an object of type {type(path).__name__}"
            )
        name, place, inside = found
        if is_web(place):
            raise ValueError(f"{name}: a table on a web server cannot be changed, only read")
        inside = os.path.abspath(inside) if place is None else inside.rstrip("/")
        return cls(name.rstrip("/") or name, place, inside, single_writer)

    # ---- versions

    def versions(self) -> list[int]:
        """Return the numbers of all versions, ascending."""
        return list_versions(self.name, self.filesystem, self.path)

    def snapshot(self, number: int | None = None) -> Snapshot:
        """Return the table at a version, by default the newest one."""
        found = Snapshot.of(self.name, self.filesystem, self.path, number)
        if found is None:
            raise self._missing()
        return found

    def at(self, version: Version) -> Snapshot:
        """Return the table at a version that is known."""
        return Snapshot(self.name, self.filesystem, self.path, version)

    def read(self, number: int) -> Version:
        """Read a version; raise FileNotFoundError if there is none."""
        return read_version(self.name, self.filesystem, self.path, number)

    def _missing(self) -> OSError:
        if look(self.filesystem, self.path)[0] == "nothing":
            return os_error(errno.ENOENT, self.name)
        return FileNotFoundError(
            f"{self.name} is not a table; make it one with MosaicTable.create or `fastmosaic table create`"
        )

    def check_writable(self) -> None:
        """Raise UnsupportedError if two writers could create the same version of this table."""
        if not self.single_writer:
            check_creatable(self.name, self.filesystem, join(self.path, VERSIONS))

    def add(self, version: Version) -> None:
        """Create the object of a version; raise FileExistsError if there is one of this number."""
        name = version_name(version.number)
        create(
            join(self.name, name),
            self.filesystem,
            join(self.path, name),
            version.encode(),
            single_writer=self.single_writer,
        )

    def begin_creation(self) -> None:
        """Mark a new table: until it has a version, nobody must take its files for a dataset."""
        sink = self.open_file(f"{VERSIONS}/{CREATING}")
        sink.commit()

    def end_creation(self) -> None:
        """Remove the mark of a new table."""
        self.remove(f"{VERSIONS}/{CREATING}")

    def is_creating(self) -> bool:
        """Return whether a new table has no version yet."""
        names = list_objects(self.name, self.filesystem, self.path)
        return CREATING in names and not numbers_of(names)

    # ---- schemas

    def put_schema(
        self, schema: pa.Schema, known: AbstractSet[str], options: WriteOptions | None = None
    ) -> str:
        """Store columns, unless their digest is `known`, and return it.

        They are stored as files with these `options` store them, so that opening such a file does not
        have to compare them one by one.
        """
        sink = pa.BufferOutputStream()
        kept = ("num_buckets", "array_layout", "compression", "compression_level")
        chosen: Any = {name: value for name, value in (options or {}).items() if name in kept}
        MosaicWriter(sink, schema, **chosen).close()
        data = sink.getvalue()
        digest = hashlib.blake2b(data, digest_size=16, usedforsecurity=False).hexdigest()
        if digest not in known:
            with_name = self.open_file(schema_name(digest))
            with_name.write(data)
            with_name.commit()
        return digest

    # ---- data files

    def new_column_path(self, job: str | None = None) -> str:
        """Return a new path for a column file, see `new_path`."""
        return self.new_path(COLUMNS, job)

    def new_path(self, folder: str, job: str | None = None) -> str:
        """Return a new path for a file in a folder of the table.

        `job` is the number of a job of many processes, in hexadecimal digits: until it has ended,
        `vacuum` does not remove its files.
        """
        parts = (new_prefix(), *([] if job is None else [job]), os.urandom(8).hex())
        return join(folder, f"{'-'.join(parts)}{SUFFIX}")

    def found(self, path: str) -> Found:
        """Return a file by its path, as a file of its own."""
        return Found(join(self.name, path), self.filesystem, join(self.path, path), None, {})

    def open_file(self, path: str) -> Sink:
        """Open a new file for writing, which appears when it is complete."""
        try:
            sink = self._open(path)
        except FileNotFoundError:
            sink = self._open(path)  # a vacuum has removed the directory, which was empty
        sink.name = join(self.name, path)
        return sink

    @contextmanager
    def new_files(self) -> Iterator[Callable[[str], Sink]]:
        """Provide `open_file`; if the block raises, the files that were opened with it are removed."""
        paths: list[str] = []

        def open_file(path: str) -> Sink:
            paths.append(path)
            return self.open_file(path)

        try:
            yield open_file
        except BaseException:
            self.discard(paths)
            raise

    def _open(self, path: str) -> Sink:
        self._make_directory(path.rpartition("/")[0])
        return open_sink(join(self.path, path), self.filesystem)

    def _make_directory(self, relative: str) -> None:
        directory = join(self.path, relative) if relative else self.path
        if self.filesystem is None:
            for made in make_directories(directory):
                sync(os.path.dirname(made))
        elif kind_of(self.filesystem) not in WITHOUT_DIRECTORIES:
            insist(self.name, lambda: as_arrow(self.filesystem).create_dir(directory))

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        place = join(self.path, path)
        try:
            if self.filesystem is None:
                os.unlink(place)
            else:
                storage = as_arrow(self.filesystem)
                insist(join(self.name, path), lambda: storage.delete_file(place))
        except FileNotFoundError:
            pass

    def discard(self, paths: Iterable[str]) -> None:
        """Remove files of an operation that has failed, as far as possible: vacuum removes the rest."""
        for path in paths:
            with suppress(OSError):
                self.remove(path)

    def settle(self, files: Sequence[BaseFile | ColumnFile], known: AbstractSet[str]) -> None:
        """Make sure that files that are about to be committed are there, and stay there.

        Raise ConflictError if one is missing: a vacuum that takes a long operation for one that was
        killed may have removed it. Columns whose digests are `known` need not be looked for.
        """
        expected: dict[str, int | None] = {one.path: one.size for one in files}
        expected |= {schema_name(one.schema): None for one in files if one.schema not in known}
        for path in self.missing(expected):
            raise ConflictError(
                "the file was removed before it was committed; call vacuum with an older_than= "
                "that is longer than the longest operation",
                file=join(self.name, path),
            )
        if self.filesystem is None:
            self._sync_directories(expected)

    def missing(self, expected: Mapping[str, int | None]) -> list[str]:
        """Return the paths at which there is no file, or one of another size than expected."""

        def found(path: str) -> tuple[str, int | None]:
            return insist(
                join(self.name, path), lambda: look(self.filesystem, join(self.path, path))
            )

        remote = self.filesystem is not None
        every = map_in_order(found, expected, remote, purpose="files", threads=REMOTE_THREADS)
        return [
            path
            for (path, size), (kind, actual) in zip(expected.items(), every, strict=True)
            if kind != "file" or size not in (actual, None)
        ]

    def _sync_directories(self, paths: Iterable[str]) -> None:
        """Make sure that the directories of files survive a power failure, whoever has made them."""
        above: set[str] = set()
        for path in paths:
            folder = path.rpartition("/")[0]
            while folder and (folder := folder.rpartition("/")[0]) not in above:
                above.add(folder)
        for folder in above:
            sync(join(self.path, folder))


def job_of(path: str) -> str | None:
    """Return the number of the job that has written a file, see `TableStore.new_path`; None if none has."""
    found = _OF_JOB.fullmatch(path.rpartition("/")[2])
    return None if found is None else found[1]
