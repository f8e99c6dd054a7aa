"""The columns of many files as one schema: the union, with types that hold every value.

A column that some files lack is null there. Integers widen, and so do floats, decimals and the
precision of times; types that no type of the format joins are a conflict. A data set may
have thousands of files and ten thousand columns, so a column is looked up when it is asked for, in
each distinct schema block; all of them only for the whole schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from functools import cached_property
from itertools import chain
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import types

from ..errors import ColumnNotFoundError, SchemaMismatchError
from ..format.names import Names
from ..format.schema import SchemaBlock

_UNITS: Final = ("s", "ms", "us", "ns")
_MAX_DECIMAL_DIGITS: Final = 38


def widened(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The narrowest type that holds all values of both, or None."""
    if one == other:
        return one
    for is_kind in (types.is_signed_integer, types.is_floating):
        if is_kind(one) and is_kind(other):
            return max(one, other, key=lambda type: type.bit_width)
    if types.is_decimal128(one) and types.is_decimal128(other):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pa.decimal128(digits, scale) if digits <= _MAX_DECIMAL_DIGITS else None
    if types.is_timestamp(one) and types.is_timestamp(other) and one.tz == other.tz:
        return max(one, other, key=lambda type: _UNITS.index(type.unit))
    if types.is_time32(one) and types.is_time32(other):
        return max(one, other, key=lambda type: _UNITS.index(type.unit))
    if types.is_list(one) and types.is_list(other):
        item = _widened_field(one.value_field, other.value_field)
        return None if item is None else pa.list_(item)
    if types.is_map(one) and types.is_map(other):
        key = _widened_field(one.key_field, other.key_field)
        item = _widened_field(one.item_field, other.item_field)
        return None if key is None or item is None else pa.map_(key, item)
    return None


def _widened_field(one: pa.Field, other: pa.Field) -> pa.Field | None:
    type = widened(one.type, other.type)
    return None if type is None else pa.field(one.name, type, one.nullable or other.nullable)


class Columns(Protocol):
    """The columns of a data set, whether of its files or as its user wants them."""

    def field(self, name: str) -> pa.Field:
        """The field called `name`; ColumnNotFoundError if there is none."""

    def occurring(self, text: str) -> list[str]:
        """The names that are somewhere in `text`."""

    def names(self) -> list[str]: ...

    def to_arrow(self) -> pa.Schema: ...


class Union:
    """The columns of schema blocks, and of partitions after them."""

    def __init__(self, blocks: Mapping[SchemaBlock, str], partitions: pa.Schema) -> None:
        """`blocks` are distinct; each with the name of a file that has it."""
        self._blocks = dict(blocks)
        self._partitions = partitions
        self._fields: dict[str, pa.Field] = {}

    def field(self, name: str) -> pa.Field:
        found = self._fields.get(name)
        if found is None:
            index = self._partitions.get_field_index(name)
            found = self._partitions.field(index) if index >= 0 else self._find(name)
            if found is None:
                raise ColumnNotFoundError.for_name(name, self.names())
            self._fields[name] = found
        return found

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
                union = union.with_type(_joined(name, union.type, first, field.type, file))
        return None if union is None else union.with_nullable(nullable)

    def occurring(self, text: str) -> list[str]:
        found = dict.fromkeys(
            block.name(position) for block in self._blocks for position in block.occurring(text)
        )
        return [*found, *(name for name in self._partitions.names if name in text)]

    def names(self) -> list[str]:
        found = dict.fromkeys(chain.from_iterable(block.names() for block in self._blocks))
        return [*found, *self._partitions.names]

    def to_arrow(self) -> pa.Schema:
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        if len(self._blocks) == 1:
            (block,) = self._blocks
            columns = block.to_arrow()
            return pa.schema([*columns, *self._partitions]) if self._partitions else columns
        return pa.schema([self.field(name) for name in self.names()])


def _joined(
    name: str, one: pa.DataType, one_file: str, other: pa.DataType, other_file: str
) -> pa.DataType:
    type = widened(one, other)
    if type is None:
        raise SchemaMismatchError(
            f"column {name!r} is {one} in {one_file} and {other} in {other_file}, which no type "
            "joins; schema= can say which it shall be"
        )
    return type


class Fixed:
    """The columns of a schema that the user gave."""

    def __init__(self, schema: pa.Schema) -> None:
        if len(set(schema.names)) < len(schema):
            raise ValueError("schema= has two columns of one name")
        self._schema = schema

    def __reduce__(self) -> tuple[type[Fixed], tuple[pa.Schema]]:
        return Fixed, (self._schema,)

    def field(self, name: str) -> pa.Field:
        index = self._schema.get_field_index(name)
        if index < 0:
            raise ColumnNotFoundError.for_name(name, self.names())
        return self._schema.field(index)

    @cached_property
    def _packed(self) -> Names:
        return Names.of(self._schema.names)

    def occurring(self, text: str) -> list[str]:
        return [self._packed[position] for position in self._packed.occurring(text)]

    def names(self) -> list[str]:
        return list(self._schema.names)

    def to_arrow(self) -> pa.Schema:
        return self._schema


def check_equal(blocks: Mapping[SchemaBlock, str]) -> None:
    """Raise unless all blocks stand for the same schema."""
    (first, first_file), *others = blocks.items()
    schema = first.to_arrow()
    for block, file in others:
        if not block.to_arrow().equals(schema):
            difference = _difference(schema, block.to_arrow(), first_file, file)
            raise SchemaMismatchError(f"{difference}; with unify=True the files are read as one")


def _difference(one: pa.Schema, other: pa.Schema, one_file: str, other_file: str) -> str:
    for name in one.names:
        index = other.get_field_index(name)
        if index < 0:
            return f"{one_file} has a column {name!r}, {other_file} has none"
        if one.field(name) != other.field(index):
            here, there = (
                f"{field.type}{'' if field.nullable else ' not null'}"
                for field in (one.field(name), other.field(index))
            )
            return f"column {name!r} is {here} in {one_file} and {there} in {other_file}"
    for name in other.names:
        if one.get_field_index(name) < 0:
            return f"{other_file} has a column {name!r}, {one_file} has none"
    return f"{one_file} and {other_file} have the same columns in another order"


class Origin(Enum):
    """Where a column of the data set comes from."""

    FILE = auto()
    PARTITION = auto()
    NOWHERE = auto()  # the file lacks it: null


class Fitting:
    """How columns of one schema block become columns of the data set."""

    __slots__ = ("_origins", "_same", "_target", "positions", "schema")

    def __init__(self, block: SchemaBlock, target: pa.Schema, partitions: pa.Schema) -> None:
        """`target` has the columns that are wanted; those of `partitions` are in no file."""
        self._target = target
        self.positions: list[int] = []  # of the columns to read from a file
        self._origins: list[tuple[Origin, int]] = []
        for name in target.names:
            partition = partitions.get_field_index(name)
            position = block.find(name)
            if partition >= 0:
                self._origins.append((Origin.PARTITION, partition))
            elif position >= 0:
                self._origins.append((Origin.FILE, len(self.positions)))
                self.positions.append(position)
            else:
                self._origins.append((Origin.NOWHERE, 0))
        self.schema = pa.schema(block.fields(self.positions))  # of these columns in a file
        self._same = self.schema.equals(target)

    def fit(
        self, batch: pa.RecordBatch, values: tuple[pa.Scalar, ...], file: str
    ) -> pa.RecordBatch:
        """A batch of `file` as a batch of the data set; `values` are those of its partitions."""
        if self._same:
            return batch
        arrays = []
        for field, (origin, index) in zip(self._target, self._origins, strict=True):
            if origin == Origin.PARTITION:
                array = pa.repeat(values[index], batch.num_rows)
            elif origin == Origin.FILE:
                array = cast(batch.column(index), field, f"{file}: ")
            else:
                array = pa.nulls(batch.num_rows, field.type)
            if _has_null(array, field):
                raise SchemaMismatchError(
                    f"{file}: column {field.name!r} has nulls where schema= allows none"
                )
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def _has_null(array: pa.Array, field: pa.Field) -> bool:
    """Whether there is a null where `field` has none; Arrow's casts let it pass."""
    if array.null_count and not field.nullable:
        return True
    if types.is_map(field.type):
        return _has_null(array.items, field.type.item_field)
    if hasattr(field.type, "value_field"):
        return _has_null(array.flatten(), field.type.value_field)
    return False


def cast(array: pa.Array, field: pa.Field, where: str = "") -> pa.Array:
    """The array as one of the field's type; `where` begins the message if that loses something."""
    if array.type == field.type:
        return array
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"{where}column {field.name!r} is {array.type} and cannot be made {field.type} "
            f"without loss: {error}"
        ) from error
