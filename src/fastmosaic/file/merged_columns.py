"""The columns of a file that others are merged into: their union, and which files have them already."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

import pyarrow as pa

from ..errors import located
from ..format.column_set import ColumnSet
from ..format.file_schema import FileSchema
from ..format.metadata import FileMetaData
from ..format.paths import Path
from ..format.schema import SchemaBlock
from ..format.types import plain_type
from ..format.user_schema import Attached, agreed, map_dictionaries, restores_types
from ..schemas.fit import NarrowCheck, plain_schema
from ..schemas.union import Union
from ..schemas.widen import check_same
from ..storage.source import Source
from .dictionaries import DictionaryCollector, FileDictionaries, ManyDictionaries

_NOTHING: Final = Attached(pa.schema([]))


class ConcatSource(Protocol):
    """A file to copy from: a `MosaicFile`, or a file of a dataset."""

    @property
    def name(self) -> str: ...

    @property
    def metadata(self) -> FileMetaData: ...

    @property
    def dictionaries(self) -> FileDictionaries | None: ...

    def opened(self) -> AbstractContextManager[Source]:
        """Provide the bytes of the file."""


class MergedColumns:
    """The columns of the new file: of a given schema, or the union of the files."""

    def __init__(self, files: Sequence[ConcatSource], schema: pa.Schema | None) -> None:
        self._kinds: dict[SchemaBlock, list[FileMetaData]] = {}
        self._files: dict[ColumnSet, str] = {}  # distinct ones, each with the name of a file
        for file in files:
            with located(file=file.name):
                self._files.setdefault(self.of(file.metadata), file.name)
        self._dictionaries: ManyDictionaries | None = None
        if any(file.metadata.dictionaries is not None for file in files):
            self._dictionaries = ManyDictionaries(files)
        self.schema = self._united(files) if schema is None else schema
        self._is_given = schema is not None
        self.plain = plain_schema(self.schema)
        self._restores = restores_types(self.schema)

    def of(self, metadata: FileMetaData) -> FileSchema:
        """Return the columns of a file; files with the same types share them.

        Their metadata may differ: that of pandas contains the number of rows.
        """
        known = self._kinds.setdefault(metadata.schema_block, [])
        for other in known:
            if _has_types_of(metadata, other):
                return other.columns
        known.append(metadata)
        return metadata.columns

    def _united(self, files: Sequence[ConcatSource]) -> pa.Schema:
        schema = Union(self._files, pa.schema([])).to_arrow()
        attached = agreed((file.metadata.user_schema, file.metadata.columns) for file in files)
        if attached is None:
            return schema
        if self._dictionaries is not None:
            attached = attached.with_dictionaries(self._dictionaries)
        return attached.schema(schema)

    def collected(self) -> DictionaryCollector:
        """Return the dictionaries that the new file stores."""
        collector = DictionaryCollector(self.schema)
        if self._dictionaries is not None:
            collector.add_all(self._dictionaries)
        return collector

    def check_of(self, metadata: FileMetaData) -> NarrowCheck:
        """Return what checks that values of a file fit the types of the new file."""
        # Types on which files agree have the values of all of them.
        is_needed = self._is_given and not self.are_of(metadata)
        return NarrowCheck(self.schema if is_needed else pa.schema([]))

    def check_same(self, advice: str) -> None:
        """Raise SchemaMismatchError if files have other columns than the first one."""
        sorted_schemas = [
            (pa.schema(sorted(columns.to_arrow(), key=lambda field: field.name)), name)
            for columns, name in self._files.items()
        ]
        check_same(sorted_schemas, exact=True, advice=advice)

    def are_of(self, metadata: FileMetaData) -> bool:
        """Return whether values that a file stores mean the same in the new one.

        A number may count seconds here and milliseconds there.
        """
        if not self._restores and not metadata.footer.restores_types:
            return True
        attached, columns = metadata.attached or _NOTHING, self.of(metadata)
        for field in self.schema:
            plain = columns.find(field.name)
            if plain is None or plain.type != plain_type(field.type):
                return False
            if not _is_part(attached.field(plain).type, field.type, plain.type):
                return False
        return True


def _has_types_of(one: FileMetaData, other: FileMetaData) -> bool:
    """Return whether files with the same schema block also have the same types of the user."""
    if not one.footer.restores_types or not other.footer.restores_types:
        return one.footer.restores_types == other.footer.restores_types
    ours, theirs = one.attached, other.attached
    if ours is theirs or ours is None or theirs is None:
        return ours is theirs
    return ours.common == theirs.common and ours.given.equals(theirs.given)


def _is_part(own: pa.DataType, wanted: pa.DataType, plain: pa.DataType) -> bool:
    """Return whether values of a user's type fit another one with the same plain type."""
    if wanted == plain or _without_indices(own) == _without_indices(wanted):
        return True
    are_dictionaries = all(map(pa.types.is_dictionary, (own, wanted)))
    return are_dictionaries and _is_part(own.value_type, wanted.value_type, plain)


def _without_indices(type: pa.DataType) -> pa.DataType:
    """Return a type in which dictionaries differ only by the types of their values."""

    def change(dictionary: pa.DataType, _: Path) -> pa.DataType:
        return pa.dictionary(pa.int32(), dictionary.value_type)

    return map_dictionaries(type, change, ())
