"""One schema for the files of a dataset: the union of theirs, or one that the user chose.

A column that some files lack is null there; columns of different types get the type that
`widen.widened` chooses. A dataset may have thousands of files with ten thousand columns, so a column is
looked up when it is needed, once in each distinct schema. Only `to_arrow` visits all columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import chain

import pyarrow as pa

from ..format.column_set import ColumnSet
from ..format.names import Names, similar_names
from .widen import joined


class Union(ColumnSet):
    """The columns of all files, followed by the partition columns."""

    def __init__(
        self,
        files: Mapping[ColumnSet, str],
        partitions: pa.Schema,
        absent: ColumnSet | None = None,
    ) -> None:
        """`files` maps each distinct schema to the name of a file that has it.

        `absent` are columns that exist, though no file has them.
        """
        self._files = dict(files)
        self._absent = absent
        self._every = [*self._files, *([] if absent is None else [absent])]
        self._partitions = partitions
        self._fields: dict[str, pa.Field | None] = {}

    def find(self, name: str) -> pa.Field | None:
        if name not in self._fields:
            index = self._partitions.get_field_index(name)
            self._fields[name] = self._partitions.field(index) if index >= 0 else self._found(name)
        return self._fields[name]

    def _found(self, name: str) -> pa.Field | None:
        union: pa.Field | None = None
        first = ""
        nullable = False
        for columns, file in self._files.items():
            field = columns.find(name)
            if field is None:
                nullable = True
                continue
            nullable |= field.nullable
            if union is None:
                union, first = field, file
            elif union.type != field.type:
                union = union.with_type(joined(name, (union.type, first), (field.type, file)))
        if union is None and self._absent is not None:
            union, nullable = self._absent.find(name), True
        return None if union is None else union.with_nullable(nullable)

    def has(self, name: str) -> bool:
        # Without a common type: a column exists even if its types conflict.
        return name in self._partitions.names or any(one.has(name) for one in self._every)

    def occurring(self, text: str) -> list[str]:
        found = dict.fromkeys(
            chain.from_iterable(columns.occurring(text) for columns in self._every)
        )
        return [*found, *(name for name in self._partitions.names if name in text)]

    def names(self) -> list[str]:
        lists = [columns.names() for columns in self._every]
        # The names of one file are unique.
        found = lists[0] if len(lists) == 1 else dict.fromkeys(chain.from_iterable(lists))
        return [*found, *self._partitions.names]

    def paths(self) -> list[str]:
        lists = [columns.paths() for columns in self._every]
        return [*dict.fromkeys(chain.from_iterable(lists)), *self._partitions.names]

    def similar(self, name: str) -> list[str]:
        found = dict.fromkeys(chain.from_iterable(one.similar(name) for one in self._every))
        return [*found, *similar_names(name, self._partitions.names)]

    def to_arrow(self) -> pa.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        if len(self._every) == 1:
            (file,) = self._every
            columns = file.to_arrow()
            return pa.schema([*columns, *self._partitions]) if self._partitions else columns
        return pa.schema([self.field(name) for name in self.names()])


class Fixed(ColumnSet):
    """The columns of a schema that the user passed as `schema=`."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = schema.names  # pyarrow makes a new list each time
        if len(set(self._names)) < len(schema):
            twice = Counter(self._names).most_common(1)[0][0]
            raise ValueError(f"schema= contains column {twice!r} more than once")
        self._schema = schema

    def __reduce__(self) -> tuple[type[Fixed], tuple[pa.Schema]]:
        return Fixed, (self._schema,)

    def find(self, name: str) -> pa.Field | None:
        index = self._schema.get_field_index(name)
        return None if index < 0 else self._schema.field(index)

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
