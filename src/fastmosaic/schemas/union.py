"""One schema for the files of a dataset: the union of theirs, or one that the user chose.

A column that some files lack is null there; columns of different types get the type that
`widen.widened` chooses. A dataset may have thousands of files with ten thousand columns, so a column is
looked up when it is needed, once in each distinct schema block. Only `to_arrow` visits all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Protocol

import pyarrow as pa

from ..errors import ColumnNotFoundError
from ..format.names import Names, similar_names
from ..format.schema import SchemaBlock
from .widen import joined


class DatasetSchema(Protocol):
    """The columns of a dataset."""

    def field(self, name: str) -> pa.Field:
        """Return the column called `name`, or raise `ColumnNotFoundError`."""

    def has(self, name: str) -> bool:
        """Tell whether there is a column called `name`."""

    def select(self, names: Sequence[str]) -> pa.Schema:
        """Return the columns called `names`, in this order, or raise `ColumnNotFoundError`."""

    def occurring(self, text: str) -> list[str]:
        """Return the names of columns that occur anywhere in `text`."""

    def names(self) -> list[str]:
        """Return the names of all columns, in order."""

    def similar(self, name: str) -> list[str]:
        """Return the names of columns that are most similar to `name`, for suggestions."""

    def to_arrow(self) -> pa.Schema:
        """Return all columns."""


class Union:
    """The columns of all schema blocks, followed by the partition columns."""

    def __init__(self, blocks: Mapping[SchemaBlock, str], partitions: pa.Schema) -> None:
        """`blocks` maps each distinct schema block to the name of a file that has it."""
        self._blocks = dict(blocks)
        self._partitions = partitions
        self._fields: dict[str, pa.Field] = {}

    def field(self, name: str) -> pa.Field:
        found = self._fields.get(name)
        if found is None:
            index = self._partitions.get_field_index(name)
            found = self._partitions.field(index) if index >= 0 else self._find(name)
            if found is None:
                raise ColumnNotFoundError.for_name(name, self.similar(name))
            self._fields[name] = found
        return found

    def has(self, name: str) -> bool:
        return name in self._partitions.names or any(
            block.find(name) >= 0 for block in self._blocks
        )

    def select(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.field(name) for name in names])

    def _find(self, name: str) -> pa.Field | None:
        union: pa.Field | None = None
        first = ""
        nullable = False
        for block, file in self._blocks.items():
            position = block.find(name)
            if position < 0:
                nullable = True
                continue
            field = block.field(position)
            nullable |= field.nullable
            if union is None:
                union, first = field, file
            elif union.type != field.type:
                union = union.with_type(joined(name, (union.type, first), (field.type, file)))
        return None if union is None else union.with_nullable(nullable)

    def occurring(self, text: str) -> list[str]:
        found = dict.fromkeys(
            block.name(position) for block in self._blocks for position in block.occurring(text)
        )
        return [*found, *(name for name in self._partitions.names if name in text)]

    def names(self) -> list[str]:
        lists = [block.names() for block in self._blocks]
        # The names of one block are unique.
        found = lists[0] if len(lists) == 1 else dict.fromkeys(chain.from_iterable(lists))
        return [*found, *self._partitions.names]

    def similar(self, name: str) -> list[str]:
        found = dict.fromkeys(chain.from_iterable(block.similar(name) for block in self._blocks))
        return [*found, *similar_names(name, self._partitions.names)]

    def to_arrow(self) -> pa.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        if len(self._blocks) == 1:
            (block,) = self._blocks
            columns = block.to_arrow()
            return pa.schema([*columns, *self._partitions]) if self._partitions else columns
        return pa.schema([self.field(name) for name in self.names()])


class Fixed:
    """The columns of a schema that the user passed as `schema=`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = schema.names  # pyarrow makes a new list each time
        if len(set(self._names)) < len(schema):
            twice = Counter(self._names).most_common(1)[0][0]
            raise ValueError(f"schema= contains column {twice!r} more than once")
        self._schema = schema

    def __reduce__(self) -> tuple[type[Fixed], tuple[pa.Schema]]:
        return Fixed, (self._schema,)

    def field(self, name: str) -> pa.Field:
        index = self._schema.get_field_index(name)
        if index < 0:
            raise ColumnNotFoundError.for_name(name, self.similar(name))
        return self._schema.field(index)

    def has(self, name: str) -> bool:
        return bool(self._schema.get_field_index(name) >= 0)

    def select(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.field(name) for name in names])

    @cached_property
    def _packed(self) -> Names:
        return Names.of(self._names)

    def occurring(self, text: str) -> list[str]:
        return [self._packed[position] for position in self._packed.occurring(text)]

    def names(self) -> list[str]:
        return list(self._names)

    def similar(self, name: str) -> list[str]:
        return similar_names(name, self._names)  # sorting them would take longer

    def to_arrow(self) -> pa.Schema:
        return self._schema
