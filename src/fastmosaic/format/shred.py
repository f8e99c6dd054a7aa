"""Columns of plain types, and the columns that a file stores for them.

A struct is stored as one column for each of its leaves, named like the path to the leaf. A struct
that may be null also has a column of booleans, which are true where it is null:

    info struct<name: string, at: struct<city: string> not null>
    info.__null__ boolean not null   info.at.city string   info.name string

Inside a list or map, the columns of a struct are lists of equal lengths, and the booleans are called
`__struct_null__` for the elements themselves:

    items list<struct<x: int32, y: int32>>
    items.__struct_null__ list<boolean not null>   items.x list<int32>   items.y list<int32>

A map that contains a struct is stored as the lists of its keys and its values, in columns that begin
with `name.key` and `name.value`. All columns are null where a struct or list around them is.

Durations and times of day finer than milliseconds are stored as int64, uint64 as decimals, and what
no type of the format can hold as bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import pyarrow as pa
from pyarrow import types

from ..errors import CorruptFileError
from .paths import flat_leaves
from .plain_arrays import ListParts, list_of, list_parts, map_of, struct_of
from .types import UINT64, is_raw, is_simple, stored_type

NULL: Final = "__null__"
ELEMENT_NULL: Final = "__struct_null__"

Stored: TypeAlias = Sequence["pa.Array | None"]


class Shape(Protocol):
    """How a column, or a field inside a column, is stored."""

    @property
    def fields(self) -> Sequence[pa.Field]:
        """The columns that store it."""

    @property
    def optional(self) -> frozenset[str]:
        """The names of the columns that may be missing in a file: then nothing is null."""

    def split(self, array: pa.Array) -> list[pa.Array]:
        """Return the arrays of the columns that store `array`."""

    def join(self, arrays: Stored, length: int, valid: pa.Array | None = None) -> pa.Array:
        """Return the array of `length` rows that the arrays store, one for each of `fields`.

        Arrays of optional columns may be None. Where `valid` is false, a struct around is null.
        """


def shape_of(field: pa.Field) -> Shape:
    """Return how a column of a plain type is stored."""
    return _shape(field, field.name, NULL, False)


def has_range(plain: pa.DataType) -> bool:
    """Return whether the columns that store a plain type may contain more values than it has."""
    if is_simple(plain):
        return False
    if types.is_nested(plain):
        return any(has_range(plain.field(i).type) for i in range(plain.num_fields))
    return bool(types.is_time64(plain) or (types.is_decimal(plain) and is_raw(plain)))


def names_size(field: pa.Field) -> int:
    """Return how long the names are together, at least, of the columns that store `field`."""
    return _names_size(field, len(field.name))


def _names_size(field: pa.Field, path: int) -> int:
    arrow = field.type
    if types.is_struct(arrow):
        if not len(arrow):
            return path
        return sum(_names_size(child, path + 1 + len(child.name)) for child in arrow)
    if types.is_map(arrow) and is_shredded(arrow):
        return _names_size(arrow.key_field, path) + _names_size(arrow.item_field, path)
    return _names_size(arrow.value_field, path) if types.is_list(arrow) else path


def is_shredded(plain: pa.DataType) -> bool:
    """Return whether a column of a plain type is stored as several columns, or under other names."""
    if types.is_list(plain):
        return is_shredded(plain.value_type)
    if types.is_map(plain):
        key, item = plain.key_type, plain.item_type
        return types.is_nested(key) or is_shredded(item)
    return bool(types.is_struct(plain))


def _shape(field: pa.Field, path: str, null: str, in_nullable: bool) -> Shape:
    """Return the shape of a field; `in_nullable` says whether a struct around it may be null."""
    if types.is_struct(field.type):
        return StructShape(path, field, null, in_nullable)
    if in_nullable:
        field = field.with_nullable(True)
    if not is_shredded(field.type):
        return LeafShape(path, field)
    return MapShape(path, field) if types.is_map(field.type) else ListShape(path, field)


class LeafShape:
    """A column without structs, which is stored as one column of the same name."""

    __slots__ = ("_plain", "_same", "fields")

    optional: Final[frozenset[str]] = frozenset()

    def __init__(self, path: str, field: pa.Field) -> None:
        self._plain = field.type
        stored = stored_type(field.type)
        self._same = stored == field.type
        self.fields: Sequence[pa.Field] = [pa.field(path, stored, field.nullable)]

    def split(self, array: pa.Array) -> list[pa.Array]:
        return [array if self._same else _converted(array, self.fields[0].type, _stored)]

    def join(self, arrays: Stored, length: int, valid: pa.Array | None = None) -> pa.Array:
        (array,) = arrays
        return array if self._same else _converted(array, self._plain, _restored)


class StructShape:
    """A struct: the columns of its fields, and which rows are null."""

    __slots__ = ("_children", "_names", "_nulls", "_plain", "fields", "optional")

    def __init__(self, path: str, field: pa.Field, null: str, in_nullable: bool) -> None:
        self._plain = field.type
        self._names = [f"{path}.{child.name}" for child in field.type]
        in_nullable = in_nullable or field.nullable
        self._children = [
            _shape(child, name, NULL, in_nullable)
            for child, name in zip(field.type, self._names, strict=True)
        ]
        self.fields = [one for child in self._children for one in child.fields]
        self.optional = frozenset().union(*(child.optional for child in self._children))
        # An empty struct has no other column that says how many lists it is in.
        self._nulls = field.nullable or not self._children
        if self._nulls:
            name = f"{path}.{null}"
            self.fields.insert(0, pa.field(name, pa.bool_(), nullable=False))
            self.optional |= {name} if self._children else set()

    def split(self, array: pa.Array) -> list[pa.Array]:
        arrays = [array.is_null()] if self._nulls else []
        for child, shape in zip(array.flatten(), self._children, strict=True):
            arrays += shape.split(child)
        return arrays

    def join(self, arrays: Stored, length: int, valid: pa.Array | None = None) -> pa.Array:
        import pyarrow.compute as pc

        nulls = arrays[0] if self._nulls else None
        if nulls is not None and nulls.true_count:
            own = pc.invert(nulls)
            valid = own if valid is None else pc.and_(own, valid)
        start = int(self._nulls)
        children = []
        for shape, field, name in zip(self._children, self._plain, self._names, strict=True):
            stop = start + len(shape.fields)
            child = shape.join(arrays[start:stop], length, valid)
            if not field.nullable and child.null_count:
                _check_nulls(child, valid, name)
            children.append(child)
            start = stop
        return struct_of(self._plain, length, valid, children)


class ListShape:
    """A list of something that contains structs."""

    __slots__ = ("_child", "_path", "_plain", "fields", "optional")

    def __init__(self, path: str, field: pa.Field) -> None:
        self._path = path
        self._plain = field.type
        self._child = _shape(field.type.value_field, path, ELEMENT_NULL, False)
        self.fields = _in_lists(self._child, field)
        self.optional = self._child.optional

    def split(self, array: pa.Array) -> list[pa.Array]:
        parts = list_parts(array)
        inner = self._child.split(parts.elements)
        return [
            list_of(field.type, parts, elements)
            for field, elements in zip(self.fields, inner, strict=True)
        ]

    def join(self, arrays: Stored, length: int, valid: pa.Array | None = None) -> pa.Array:
        parts, inner = _elements(arrays, self.fields)
        elements = self._child.join(inner, len(parts.elements))
        field = self._plain.value_field
        if not field.nullable and elements.null_count:
            _check_nulls(elements, None, self._path)
        return list_of(self._plain, parts, elements)


class MapShape:
    """A map that contains structs, or whose keys are lists: the lists of its keys and values."""

    __slots__ = ("_key", "_path", "_plain", "_value", "fields", "optional")

    def __init__(self, path: str, field: pa.Field) -> None:
        self._path = path
        self._plain = field.type
        self._key = _shape(field.type.key_field, f"{path}.key", ELEMENT_NULL, False)
        self._value = _shape(field.type.item_field, f"{path}.value", ELEMENT_NULL, False)
        self.fields = [*_in_lists(self._key, field), *_in_lists(self._value, field)]
        self.optional = self._key.optional | self._value.optional

    def split(self, array: pa.Array) -> list[pa.Array]:
        parts = list_parts(array)
        keys, items = parts.elements.flatten()
        inner = [*self._key.split(keys), *self._value.split(items)]
        return [
            list_of(field.type, parts, elements)
            for field, elements in zip(self.fields, inner, strict=True)
        ]

    def join(self, arrays: Stored, length: int, valid: pa.Array | None = None) -> pa.Array:
        parts, inner = _elements(arrays, self.fields)
        middle = len(self._key.fields)
        count = len(parts.elements)
        pair = [self._key.join(inner[:middle], count), self._value.join(inner[middle:], count)]
        fields = (self._plain.key_field, self._plain.item_field)
        for array, field in zip(pair, fields, strict=True):
            if not field.nullable and array.null_count:
                _check_nulls(array, None, f"{self._path}.{field.name}")
        return map_of(self._plain, parts, pair)


def _in_lists(child: Shape, field: pa.Field) -> list[pa.Field]:
    """Return the columns of `child` as lists."""
    item = "item" if types.is_map(field.type) else field.type.value_field.name
    return [
        pa.field(one.name, pa.list_(one.with_name(item)), field.nullable) for one in child.fields
    ]


def _elements(
    arrays: Stored, fields: Sequence[pa.Field]
) -> tuple[ListParts, list[pa.Array | None]]:
    """Return the lists that all arrays have in common, and the elements of each."""
    found = [
        (None if array is None else list_parts(array), field.name)
        for array, field in zip(arrays, fields, strict=True)
    ]
    common, first = next((parts, name) for parts, name in found if parts is not None)
    for parts, name in found:
        if parts is not None and parts is not common and not _same_lists(parts, common):
            raise CorruptFileError(
                f"its lists differ in length from those of {first!r}", column=name
            )
    return common, [None if parts is None else parts.elements for parts, _ in found]


def _same_lists(one: ListParts, other: ListParts) -> bool:
    size = 4 * (one.length + 1)
    if one.length != other.length or one.offsets.slice(0, size) != other.offsets.slice(0, size):
        return False
    return _bits(one).equals(_bits(other))


def _bits(parts: ListParts) -> pa.Array:
    """Return which lists are not null."""
    if parts.validity is None:
        return pa.repeat(pa.scalar(True), parts.length)
    return pa.Array.from_buffers(pa.bool_(), parts.length, [None, parts.validity])


def _check_nulls(array: pa.Array, valid: pa.Array | None, column: str) -> None:
    """Raise if `array` is null where the struct around it is not: its field is declared not null."""
    import pyarrow.compute as pc

    nulls = array.is_null()
    if valid is not None:
        nulls = pc.and_(nulls, valid)
    if nulls.true_count:
        raise CorruptFileError(
            f"there are {nulls.true_count} nulls, but the field is declared not null",
            column=column,
        )


# ---- values that are stored as values of another type


def _stored(array: pa.Array, stored: pa.DataType) -> pa.Array:
    if stored == UINT64:
        return array.cast(stored)
    if types.is_binary(stored):
        return array.view(pa.binary(array.type.bit_width // 8)).cast(stored)
    return array.view(stored)


def _restored(array: pa.Array, plain: pa.DataType) -> pa.Array:
    try:
        if is_raw(plain):
            return array.cast(pa.binary(plain.bit_width // 8)).view(plain)
        return array.cast(plain) if types.is_uint64(plain) else array.view(plain)
    except pa.ArrowInvalid as error:
        raise CorruptFileError(f"the values do not fit {plain}: {error}") from error


def _converted(
    array: pa.Array, target: pa.DataType, convert: Callable[[pa.Array, pa.DataType], pa.Array]
) -> pa.Array:
    """Return an array of another type, where `convert` converts what is not a list or map."""
    if array.type == target:
        return array
    if types.is_map(target):
        parts = list_parts(array)
        keys, items = parts.elements.flatten()
        inner = [
            _converted(keys, target.key_type, convert),
            _converted(items, target.item_type, convert),
        ]
        return map_of(target, parts, inner)
    if types.is_list(target):
        parts = list_parts(array)
        return list_of(target, parts, _converted(parts.elements, target.value_type, convert))
    return convert(array, target)


class Shredder:
    """Converts batches of plain types to batches of the columns that a file stores.

    If `is_stored`, the columns are known to be stored as they are.
    """

    def __init__(self, plain: pa.Schema, *, is_stored: bool = False) -> None:
        self._plain = plain
        self.schema = plain
        self._shapes: list[Shape | None] = []  # of each column, None if it is stored as it is
        if not is_stored:
            self._find_shapes()

    def _find_shapes(self) -> None:
        shapes = [None if is_simple(field.type) else shape_of(field) for field in self._plain]
        names = set(self._plain.names)
        fields: dict[str, pa.Field] = {}
        for shape, field in zip(shapes, self._plain, strict=True):
            for one in [field] if shape is None else shape.fields:
                if one.name in fields or (one.name != field.name and one.name in names):
                    raise ValueError(
                        f"duplicate column name {one.name!r}: names must be unique, also those of "
                        "the columns that store the fields of structs"
                    )
                fields[one.name] = one
        stored = pa.schema(fields.values())
        if not stored.equals(self._plain):
            self.schema, self._shapes = stored, shapes

    @property
    def unsigned(self) -> set[str]:
        """The names of the stored columns that are decimals because they store uint64."""
        return {
            ".".join(path)
            for shape, field in zip(self._shapes, self._plain, strict=bool(self._shapes))
            if shape is not None
            for path, leaf in flat_leaves(field)
            if types.is_uint64(leaf.type)
        }

    def stored_names(self, name: str) -> list[str]:
        """Return the names of the stored columns of a column, or of a field inside a struct."""
        if not self._shapes or self.schema.get_field_index(name) >= 0:
            return [name]
        return [stored for stored in self.schema.names if stored.startswith(f"{name}.")]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that store the columns of a batch."""
        if not self._shapes:
            return batch
        arrays: list[pa.Array] = []
        for shape, array in zip(self._shapes, batch.columns, strict=True):
            arrays += [array] if shape is None else shape.split(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
