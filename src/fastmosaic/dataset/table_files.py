"""Files of a table: a base file and its column files, which are read as one.

Which file has which column is known from the version of the table and the schemas beside it. So a file
is opened only if a query needs one of its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ..errors import CorruptFileError
from ..file.opening import SchemaCache
from ..file.scan import Scanner
from ..format.annex import Base
from ..format.column_set import ColumnSet
from ..format.file_schema import FileSchema, Projection
from ..format.metadata import FileMetaData
from ..format.paths import Path
from ..format.user_schema import UserSchema
from ..schemas.joined import JoinedColumns
from ..storage.source import Source
from .files import DEFAULTS, File, FoundFile, ReadOptions
from .found import Found
from .joined_files import JoinedFile
from .snapshot import Snapshot, TableEntry
from .version import BaseFile, ColumnFile

# Columns of a file, with the types and metadata of the user.
UserColumns: TypeAlias = tuple[UserSchema | None, FileSchema]

# Column files are often so small that their metadata is read together with all values.
MAX_KEPT_BYTES: Final = 32 << 20


class Kept:
    """Room for small files that were read as a whole when they were opened."""

    def __init__(self) -> None:
        self._left = MAX_KEPT_BYTES

    def has_room(self, size: int) -> bool:
        """Return whether so many bytes more can be kept, and count them if so.

        Threads may count at the same time: the limit need not be exact.
        """
        if size > self._left:
            return False
        self._left -= size
        return True


class TableColumns:
    """The columns of the files of a table, known without opening these files."""

    def __init__(self, snapshot: Snapshot, schemas: SchemaCache, reading: ReadOptions) -> None:
        self.kept = Kept()
        self._snapshot = snapshot
        self.schemas = schemas
        self._reading = reading
        self._files: dict[str, File] = {}  # those with the schemas, by their digests
        self._dropped: dict[int, frozenset[str]] = {}
        self._made: dict[Any, JoinedColumns] = {}
        self._given: dict[tuple[JoinedColumns, tuple[str, ...]], list[UserColumns]] = {}
        self._needed: dict[tuple[JoinedColumns, frozenset[str]], tuple[int, ...]] = {}

    def schema_file(self, digest: str) -> File:
        """Return the file that has the columns of other files, but no rows."""
        if digest not in self._files:
            found = self._snapshot.schema_file(digest)
            self._files[digest] = File(found, (), self.schemas, self._reading)
        return self._files[digest]

    def of(self, file: BaseFile) -> JoinedColumns:
        """Return the columns of a base file and its column files, without those that do not count."""
        parts: Sequence[BaseFile | ColumnFile] = file.parts
        key = tuple((part.schema, self._dropped_since(part.added)) for part in parts)
        if not self._snapshot.version.files:  # the file is the schema, with partition columns
            keys = frozenset(self._snapshot.version.partitioning)
            key = tuple((digest, dropped | keys) for digest, dropped in key)
        if key not in self._made:
            newer: frozenset[str] = frozenset()
            columns: list[FileSchema] = []
            for digest, dropped in reversed(key):
                columns.append(self._without(digest, dropped | newer))
                if len(columns) < len(key):  # the base file comes last
                    newer |= self._names_of(digest, columns[-1])
            self._made[key] = JoinedColumns(columns[::-1])
        return self._made[key]

    def _names_of(self, digest: str, columns: FileSchema) -> frozenset[str]:
        """Return the names of columns for the user, and those under which they are stored if needed."""
        names = frozenset(columns.names())
        if self._reading.logical:
            return names
        user = self.schema_file(digest).metadata.columns
        return names | {one for one in user.names() if not names.isdisjoint(user.stored_names(one))}

    def user_schemas_of(self, file: BaseFile) -> list[UserColumns]:
        """Return the user's types and metadata of each part of a file, and its columns."""
        digests = tuple(part.schema for part in file.parts)
        columns = self.of(file)
        key = columns, digests
        if key not in self._given:
            self._given[key] = [
                (self.schema_file(digest).metadata.user_schema, own)
                for digest, own in zip(digests, columns.parts, strict=True)
            ]
        return self._given[key]

    def numbers_of(self, columns: JoinedColumns, names: frozenset[str]) -> tuple[int, ...]:
        """Return the numbers of the parts that have some of these columns; the first has rows, too."""
        key = columns, names
        if key not in self._needed:
            self._needed[key] = columns.numbers_of(names) or (0,)
        return self._needed[key]

    def _dropped_since(self, added: int) -> frozenset[str]:
        if added not in self._dropped:
            self._dropped[added] = self._snapshot.version.dropped_since(added)
        return self._dropped[added]

    def declared(self, keys: Iterable[str]) -> UserColumns | None:
        """Return the columns that the version declares, without `keys` and dropped ones.

        A table without files is read as a file with these columns; then there is nothing to return.
        """
        version = self._snapshot.version
        if version.schema is None or not version.files:
            return None
        dropped = self._dropped_since(version.schema_added)
        columns = self._without(version.schema, dropped | frozenset(keys))
        return self.schema_file(version.schema).metadata.user_schema, columns

    def _without(self, digest: str, names: frozenset[str]) -> FileSchema:
        """Return the columns of a file without some: as the user sees them, or as they are stored."""
        file = self.schema_file(digest)
        if self._reading.logical or not names:
            return file.columns.hiding(names)
        # A struct and a number of the same name are stored under different names.
        stored = map(file.metadata.columns.stored_names, names)
        return file.columns.hiding(names | frozenset(chain.from_iterable(stored)))


class PartFile(File):
    """A file on disk that provides some of the columns of a table.

    It must be the file that the table expects: of the size, with the rows and columns that its version
    says, and if it is a column file, made for its base file; if it has column files, the one that they
    were made for.
    """

    __slots__ = ("_expected", "_is_base", "_kept", "_schema", "_whole")

    def __init__(
        self,
        found: Found,
        values: tuple[pa.Scalar, ...],
        schemas: SchemaCache,
        reading: ReadOptions = DEFAULTS,
        state: Any = (None, 0),
        *,
        schema: FileSchema,
        expected: Base,
        is_base: bool,
        kept: Kept | None = None,
    ) -> None:
        super().__init__(found, values, schemas, reading, state)
        self._schema = schema
        self._expected = expected
        self._is_base = is_base
        self._kept = kept
        self._whole: pa.Buffer | None = None  # all bytes of the file, if there is room for them

    def __reduce__(self) -> Any:
        state = self._metadata, self._size
        given = self.found, self.values, self._schemas, self._reading, state
        return _part_file, (*given, self._schema, self._expected, self._is_base)

    def _check(self, metadata: FileMetaData, tail: pa.Buffer) -> None:
        rows = self._expected.num_rows
        if self.found.size not in (self.size, None):
            raise self._wrong(f"it has {self.size} bytes, not {self.found.size}")
        if metadata.num_rows != rows:
            raise self._wrong(f"it has {metadata.num_rows} rows, not {rows}")
        block, expected = metadata.schema_block, self._schema.block
        if not (
            block is expected  # as for all files that were written with the same options
            or block.encode() == expected.encode()
            or block.to_arrow().equals(expected.to_arrow())
        ):
            raise self._wrong("it has other columns")
        if self._is_base:
            # The digest of a file without column files is not known.
            if self._expected.digest and self._identity_of(metadata, tail) != self._expected:
                raise self._wrong("it is another file of the same size, rows and columns")
        else:
            base = None if metadata.annex is None else metadata.annex.base
            if base is None:
                raise self._wrong("it is not a column file")
            if base != self._expected:
                raise self._wrong("it is a column file of another base file")

    def _wrong(self, fact: str) -> CorruptFileError:
        return CorruptFileError(
            f"{fact}; this is not the file that the version of the table names", file=self.name
        )

    def _columns_of(self, metadata: FileMetaData) -> FileSchema:
        known = self._schema
        if metadata.schema_block is known.block and not metadata.footer.restores_types:
            return known  # those of all files that were written with the same options
        return super()._columns_of(metadata).hiding(known.hidden)

    def _keep(self, tail: pa.Buffer) -> None:
        if tail.size == self.size and self._kept is not None and self._kept.has_room(tail.size):
            self._whole = tail

    def _open(self) -> Source:
        whole = self._whole
        if whole is None:
            return super()._open()
        return Source(self.name, whole.size, is_local=True, read=whole.slice)

    def _scanning(self, source: Source | None = None) -> AbstractContextManager[Scanner]:
        whole = self._whole
        if whole is None or source is not None:
            return super()._scanning(source)
        return nullcontext(self._scanner(self._open(), whole))

    def projected_bytes(self, projection: Projection, groups: Iterable[int]) -> int:
        if self._whole is not None:
            return self._whole.size
        return super().projected_bytes(projection, groups)


def _part_file(
    found: Found,
    values: tuple[pa.Scalar, ...],
    schemas: SchemaCache,
    reading: ReadOptions,
    state: Any,
    schema: FileSchema,
    expected: Base,
    is_base: bool,
) -> PartFile:
    return PartFile(
        found, values, schemas, reading, state, schema=schema, expected=expected, is_base=is_base
    )


class TableFile(FoundFile):
    """A base file of a table, with its column files. A query reads those that it needs."""

    def __init__(
        self,
        found: Found,
        values: tuple[pa.Scalar, ...],
        schemas: SchemaCache,
        reading: ReadOptions,
        columns: TableColumns,
    ) -> None:
        assert found.entry is not None
        super().__init__(found, values)
        self._entry: TableEntry = found.entry
        self._schemas = schemas
        self._reading = reading
        self._table = columns
        self._columns: JoinedColumns | None = None
        self._parts: dict[int, PartFile] = {}
        self._resolved: dict[tuple[int, ...], File | JoinedFile] = {}

    def __reduce__(self) -> Any:
        # Another process reads this file, and needs to know nothing about the others.
        (found,) = alone([self.found])
        return _table_file, (found, self.values, self._reading)

    @property
    def num_rows(self) -> int:
        return self._entry.file.rows

    @property
    def size(self) -> int:
        """The size of the base file and its column files in bytes."""
        return sum(part.size for part in self._entry.file.parts)

    @property
    def columns(self) -> JoinedColumns:
        if self._columns is None:
            self._columns = self._table.of(self._entry.file)
        return self._columns

    @property
    def metadata(self) -> FileMetaData:
        """The metadata of the base file."""
        return self._part(0).metadata

    @cached_property
    def _base(self) -> Base:
        """What column files must say about their base file."""
        file = self._entry.file
        digest = b"" if file.digest is None else bytes.fromhex(file.digest)
        return Base(file.rows, file.size, digest)

    @property
    def user_schemas(self) -> list[UserColumns]:
        """The user's types and metadata of each part, and its columns; many files share one list."""
        return self._table.user_schemas_of(self._entry.file)

    @property
    def may_have_dictionaries(self) -> bool:
        return True  # the file would have to be opened to know

    @property
    def dictionaries(self) -> TableDictionaries:
        return TableDictionaries(self)

    @property
    def parts(self) -> Sequence[File]:
        """The files on disk that provide columns: the base file, then column files."""
        return [self._part(number) for number in range(len(self._entry.file.parts))]

    def part_with(self, name: str) -> File:
        """Return the file that has a column; the base file if none has it."""
        return self._part(self.columns.number_of(name) or 0)

    def resolved(self, names: frozenset[str]) -> File | JoinedFile:
        """Return what to read for columns called `names`: the file or the files that have them."""
        numbers = self._table.numbers_of(self.columns, names)
        if numbers not in self._resolved:
            parts = [self._part(number) for number in numbers]
            one = parts[0] if len(parts) == 1 else JoinedFile(self.found, self.values, parts)
            self._resolved[numbers] = one
        return self._resolved[numbers]

    def _part(self, number: int) -> PartFile:
        if number not in self._parts:
            file = self._entry.file
            part = file.parts[number]
            # The schema of a table without files stands for a file, of whatever size.
            size = part.size or None
            self._parts[number] = PartFile(
                self._entry.snapshot.part(part.path, size),
                self.values,
                self._schemas,
                self._reading,
                schema=self.columns.parts[number],
                expected=self._base,
                is_base=number == 0,
                kept=self._table.kept,
            )
        return self._parts[number]


def _table_file(found: Found, values: tuple[pa.Scalar, ...], reading: ReadOptions) -> TableFile:
    assert found.entry is not None
    schemas = SchemaCache()
    columns = TableColumns(found.entry.snapshot, schemas, reading)
    return TableFile(found, values, schemas, reading, columns)


def alone(found: Sequence[Found]) -> list[Found]:
    """Return files of a table as those of one that has no others, so that they are small when sent."""
    entries = [one.entry for one in found if one.entry is not None]
    snapshot = entries[0].snapshot
    version = replace(snapshot.version, files=tuple(entry.file for entry in entries))
    small = replace(snapshot, version=version)
    return [
        replace(one, entry=TableEntry(small, entry.file))
        for one, entry in zip(found, entries, strict=True)
    ]


class TableDictionaries:
    """The dictionaries of a file of a table, each in the part that has its column."""

    def __init__(self, file: TableFile) -> None:
        self._file = file

    @property
    def is_local(self) -> bool:
        return self._file.is_local

    def find(self, path: Path) -> pa.Array | None:
        """Return the values of the dictionary at `path`, or None if there is none."""
        found = self._file.part_with(path[0]).dictionaries
        return None if found is None else found.find(path)

    def fitted(self, type: pa.DataType, path: Path) -> pa.DataType:
        """Return `type` with indices that are wide enough for the dictionary at `path`."""
        found = self._file.part_with(path[0]).dictionaries
        return type if found is None else found.fitted(type, path)


def declared_keys(found: Sequence[Found]) -> pa.Schema | None:
    """Return the types of the partition columns that a table was created with, if it is a table."""
    tables = {id(one.entry.snapshot): one.entry.snapshot for one in found if one.entry}
    if len(tables) != 1 or any(one.entry is None for one in found):
        return None
    (table,) = tables.values()
    if table.version.schema is None:
        return None
    columns = File(table.schema_file(table.version.schema), (), SchemaCache()).columns
    names = [name for name in table.version.partitioning if columns.find(name) is not None]
    return columns.select(names) if names else None


def absent_columns(
    tables: Iterable[TableColumns], files: Iterable[ColumnSet], partitions: pa.Schema
) -> UserColumns | None:
    """Return the columns that a table declares and that none of its files has, if any."""
    every = [one for one in files if isinstance(one, JoinedColumns)]
    declared = [found for table in tables if (found := table.declared(partitions.names))]
    if len(declared) != 1:  # several tables have only the columns of their files
        return None
    ((user_schema, columns),) = declared
    parts = [one.parts[0] for one in every]
    if any(one.block is columns.block and one.hidden <= columns.hidden for one in parts):
        return None  # as usual, without a look at each of them
    present = frozenset(chain.from_iterable(one.names() for one in every))
    if present.issuperset(columns.names()):
        return None
    return user_schema, columns.hiding(columns.hidden | present)


DatasetFile: TypeAlias = File | TableFile
