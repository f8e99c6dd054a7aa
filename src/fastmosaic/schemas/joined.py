"""JoinedColumns: the columns of files that have the same rows, such as a base file and its column files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import pyarrow as pa

from ..format.column_set import ColumnSet
from ..format.file_schema import FileSchema, Projection
from ..format.paths import Path


class JoinedColumns(ColumnSet):
    """The columns of several files with the same rows.

    `parts` are the columns of each file. No two of them have a column in common: a column that one
    file has in the place of another is hidden there.
    """

    def __init__(self, parts: Sequence[FileSchema]) -> None:
        self.parts = tuple(parts)
        self._hash = hash(self.parts)  # of many files: they are looked up by their columns

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JoinedColumns) and self.parts == other.parts

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> Any:
        return JoinedColumns, (self.parts,)

    def number_of(self, name: str) -> int | None:
        """Return the number of the file that has a column, or None."""
        for number, part in enumerate(self.parts):
            if part.find(name) is not None:
                return number
        return None

    def find(self, name: str) -> pa.Field | None:
        for part in self.parts:
            if (field := part.find(name)) is not None:
                return field
        return None

    def has(self, name: str) -> bool:
        return any(part.has(name) for part in self.parts)

    def path(self, name: str) -> Path | None:
        if self.find(name) is not None:
            return (name,)
        found = (part.path(name) for part in self.parts)
        return next((path for path in found if path is not None), None)

    def occurring(self, text: str) -> list[str]:
        return list(chain.from_iterable(part.occurring(text) for part in self.parts))

    def names(self) -> list[str]:
        return self._names

    @cached_property
    def _names(self) -> list[str]:
        first, *others = self.parts
        later = dict.fromkeys(chain.from_iterable(part.names() for part in others))
        # A column with new values keeps its place.
        replaced = first.hiding(first.hidden - later.keys()) if later else first
        return list(dict.fromkeys([*replaced.names(), *later]))

    def similar(self, name: str) -> list[str]:
        return list(dict.fromkeys(chain.from_iterable(one.similar(name) for one in self.parts)))

    def to_arrow(self) -> pa.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema([self.field(name) for name in self._names])

    def numbers_of(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of the files that have some of these columns, ascending."""
        return tuple(
            number
            for number, part in enumerate(self.parts)
            if any(part.find(name) is not None for name in names)
        )

    def joined_projection_of(self, wanted: Iterable[pa.Field]) -> JoinedProjection:
        """Return how to read those of the wanted columns, and fields of structs, that exist."""
        fields = list(wanted)
        projections = tuple(part.projection_of(fields) for part in self.parts)
        every = chain.from_iterable(one.schema for one in projections)
        return JoinedProjection(pa.schema(list(every)), projections)


class JoinedProjection(NamedTuple):
    """Columns to read from several files: their schema, and how to read those of each file."""

    schema: pa.Schema
    parts: tuple[Projection, ...]
