"""The columns of files one by one, including columns on which files disagree.

A struct, and a list or map that contains structs, is a tree of fields.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field as dataclass_field, replace
from typing import Any

import pyarrow as pa
from pyarrow import types

from ..dataset.files import File
from ..dataset.fileset import FileSet
from ..dataset.leaves import fields_of
from ..display.text import short_type
from ..errors import SchemaMismatchError, UnsupportedError
from ..file.stored import stored_bytes
from ..format.column_set import ColumnSet
from ..format.shred import ELEMENT_NULL, NULL
from ..schemas.widen import widened
from ..storage.source import open_source
from .inputs import Input


@dataclass(slots=True)
class ListedColumn:
    """A column of the files, or a field inside a column.

    position    of the column
    name        of the column, or the path of the field
    label       the last part of the name
    type        Arrow type as text, without the fields inside
    num_files   number of files that contain it, if known
    is_key      whether it is a partition key, which is stored in the names of directories
    conflict    types that have no common type
    fields      of structs inside
    is_context  whether it is listed only because of fields that were chosen
    own_size    bytes in all files, without those of its fields, once they are measured
    """

    position: int
    name: str
    label: str
    type: str
    nullable: bool
    num_files: int | None = None
    is_key: bool = False
    conflict: tuple[str, ...] = ()
    fields: list[ListedColumn] = dataclass_field(default_factory=list)
    is_context: bool = False
    own_size: int | None = None

    @classmethod
    def of(cls, position: int, field: pa.Field, parent: str = "") -> ListedColumn:
        label, type = field.name, field.type
        name = f"{parent}{label}"
        inside = fields_of(type)
        if not inside:
            return cls(position, name, label, str(type), field.nullable)
        fields = [cls.of(position, inner, f"{name}.") for inner in inside]
        return cls(position, name, label, short_type(type), field.nullable, fields=fields)

    @property
    def full_type(self) -> str:
        """The type with its nullability, or the conflict."""
        if self.conflict:
            return f"conflict: {' or '.join(self.conflict)}"
        return self.type if self.nullable else f"{self.type} not null"

    @property
    def size(self) -> int | None:
        """The bytes in all files, once they are measured."""
        if self.own_size is None:
            return None
        return self.own_size + sum(field.size or 0 for field in self.fields)

    def walk(self) -> Iterator[ListedColumn]:
        """Yield the column and all fields inside, in order."""
        yield self
        for field in self.fields:
            yield from field.walk()

    def leaves(self) -> Iterator[ListedColumn]:
        """Yield the column itself, or the fields inside that have no further fields."""
        return (one for one in self.walk() if not one.fields)

    def chosen(self, is_wanted: Callable[[str], object]) -> ListedColumn | None:
        """Return the column with only those fields that are wanted; None if nothing is."""
        if is_wanted(self.name):
            return self
        found = (field.chosen(is_wanted) for field in self.fields)
        fields = [field for field in found if field is not None]
        return replace(self, fields=fields, is_context=True) if fields else None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry for JSON."""
        return {"position": self.position, **self._to_dict()}

    def _to_dict(self) -> dict[str, Any]:
        return {
            "name": self.label,
            **({"path": self.name} if self.label != self.name else {}),
            "type": None if self.conflict else self.type,
            "nullable": self.nullable,
            **({} if self.num_files is None else {"num_files": self.num_files}),
            **({"partition": True} if self.is_key else {}),
            **({"conflict": self.conflict} if self.conflict else {}),
            **({} if self.size is None else {"size": self.size}),
            **({"fields": [field._to_dict() for field in self.fields]} if self.fields else {}),
        }


# ---- types


def num_leaves(type: pa.DataType) -> int:
    """Return the number of fields in a type that have no further fields."""
    return sum(num_leaves(field.type) for field in fields_of(type)) or 1


# ---- the columns of files


def entries_of(files: Input) -> list[ListedColumn]:
    """Return the columns of all files, in order."""
    fileset = files.fileset
    if fileset is None:
        return list(map(ListedColumn.of, range(len(files.schema)), files.schema))
    counted = Counter(file.columns for file in fileset.files)
    try:
        fields = fileset.schema
    except SchemaMismatchError:
        entries = [_entry_of(fileset, counted, *pair) for pair in enumerate(files.names())]
    else:
        entries = list(map(ListedColumn.of, range(len(fields)), fields))
    counts: Counter[str] = Counter()
    for columns, count in counted.items() if len(counted) > 1 else ():
        counts.update(dict.fromkeys(_names_in(columns, entries), count))
    keys = set(fileset.partitions.names)
    for entry in entries:
        for one in entry.walk():
            one.is_key = one.name in keys
            one.num_files = counts.get(one.name, len(fileset.files))
    return entries


def _names_in(columns: ColumnSet, entries: Iterable[ListedColumn]) -> Iterator[str]:
    """Yield the names of the columns of a file, and the paths of all fields inside them."""
    yield from columns.names()
    for entry in entries:
        field = columns.find(entry.name) if entry.fields else None
        if field is not None:
            inside = ListedColumn.of(0, field).walk()
            yield from (one.name for one in inside if one.name != entry.name)


def _entry_of(
    fileset: FileSet, files: Iterable[ColumnSet], position: int, name: str
) -> ListedColumn:
    """Return a column, even if its types in the files have no common type."""
    try:
        field = fileset.columns.field(name)
    except SchemaMismatchError:
        found = (columns.find(name) for columns in files)
        return _conflict(position, [one for one in found if one is not None], "")
    if fileset.attached is not None:
        field = fileset.attached.field(field)
    return ListedColumn.of(position, field)


def _conflict(position: int, fields: Sequence[pa.Field], parent: str) -> ListedColumn:
    """Return a column, or a field, whose types in the files may have no common type."""
    first = fields[0]
    name = f"{parent}{first.name}"
    common: pa.DataType | None = first.type
    for field in fields[1:]:
        common = None if common is None else widened(common, field.type)
    nullable = any(field.nullable for field in fields)
    if common is not None:
        return ListedColumn.of(position, pa.field(first.name, common, nullable), parent)
    if not all(types.is_struct(field.type) for field in fields):
        conflict = tuple(dict.fromkeys(short_type(field.type) for field in fields))
        return ListedColumn(position, name, first.name, "", True, conflict=conflict)
    inside: dict[str, list[pa.Field]] = {}
    for field in fields:
        for one in field.type:
            inside.setdefault(one.name, []).append(one)
    listed = [_conflict(position, members, f"{name}.") for members in inside.values()]
    return ListedColumn(position, name, first.name, "struct", nullable, fields=listed)


# ---- sizes


def measure(entries: Sequence[ListedColumn], files: Input, advance: Callable[[int], None]) -> None:
    """Set the sizes of the columns; `advance` is called with the number of bytes that are done."""
    fileset = files.fileset
    if fileset is None:
        raise UnsupportedError(
            f"sizes of columns are available for Mosaic files only, not for {files.format}"
        )
    for entry in entries:
        for one in entry.walk():
            one.own_size = None if entry.is_key else 0
    for file in itertools.chain.from_iterable(one.parts for one in fileset.files):
        owners = _owners(file, entries)
        left = file.size
        source = open_source(file.found.path, file.found.filesystem, size=file.found.size)
        try:
            for group in range(file.metadata.num_row_groups):
                sizes = stored_bytes(source, file.metadata, group, owners)
                for position, size in sizes.items():
                    owner = owners[position]
                    owner.own_size = size + (owner.own_size or 0)
                left -= file.metadata.bytes_of(group)
                advance(file.metadata.bytes_of(group))
        finally:
            source.close()
        advance(left)


def _owners(file: File, entries: Iterable[ListedColumn]) -> dict[int, ListedColumn]:
    """Return the entries to which the stored columns of a file belong, by position."""
    block = file.metadata.schema_block
    owners: dict[int, ListedColumn] = {}
    for entry in entries:
        if entry.name in file.columns.hidden:
            continue
        if not entry.fields and block.find(entry.name) >= 0:  # most of ten thousand columns
            owners[block.find(entry.name)] = entry
            continue
        listed = {one.name: one for one in entry.walk()}
        for name in file.columns.stored_names(entry.name):
            owner = _owner(name, listed)
            position = block.find(name)
            if owner is not None and position >= 0:
                owners[position] = owner
    return owners


def _owner(stored: str, listed: dict[str, ListedColumn]) -> ListedColumn | None:
    """Return the field to which a stored column belongs, if it is listed.

    Columns that say where a struct is null belong to the struct.
    """
    path = stored
    while path not in listed:
        path, dot, _ = path.rpartition(".")
        if not dot:
            return None
    found = listed[path]
    rest = stored[len(path) + 1 :]
    return found if not found.fields or rest in (NULL, ELEMENT_NULL) else None
