"""List and map columns, and the flat columns they are stored as.

A bucket stores one flat column for each of its columns, followed by the children of nested ones.
The flat column of a list or map contains the lengths; its elements (keys, then values) are
children, numbered depth first:

    id int32, m map<string, list<int32>>, tags list<string>
    0 id  1 m lengths  2 tags lengths  3 m key  4 m value lengths  5 m value element  6 tags element

A null list has a null length. Null and empty lists have no elements; values that Arrow may have
under a null list are not stored. An array data block is a single flat column: see list_blocks.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import SchemaMismatchError
from . import _decode
from .plain_arrays import map_as_list
from .schema import SchemaBlock
from .types import WIDTH, ColumnType, Kind
from .wire import MAX_VARINT_BYTES

_LENGTHS: Final = pa.int32()
_MAX_DECIMAL_BYTES: Final = MAX_VARINT_BYTES + 16  # its length, and the number
_DECIMALS: Final = (Kind.DECIMAL64, Kind.DECIMAL128)
_SIMPLE: Final = bytes(sorted({*Kind} - {Kind.NESTED, Kind.ARRAY_BLOCK, *_DECIMALS}))
_NESTED: Final = bytes([Kind.NESTED])
_INT32: Final = bytes([Kind.INT32])


@dataclass(frozen=True, slots=True)
class Node:
    """A column, or a child inside it, and the flat column that stores it."""

    type: ColumnType
    flat: int
    children: tuple[Node, ...]

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of the flat column."""
        return _LENGTHS if self.children else self.type.arrow

    def walk(self) -> list[Node]:
        """Return this node and all nodes below it, in the order of their flat columns."""
        return [self, *(node for child in self.children for node in child.walk())]


class BucketColumns:
    """The columns of a bucket, and their flat columns."""

    __slots__ = ("_nodes", "_schema", "blocks", "digits", "kinds", "num_children", "positions")

    def __init__(self, schema: SchemaBlock, bucket: int) -> None:
        self._schema = schema
        self.positions = schema.bucket_columns(bucket)
        kinds = schema.kinds[self.positions.start : self.positions.stop]
        self.blocks: list[int] = []  # columns that are array data blocks
        self._nodes: dict[int, Node] = {}
        self.num_children = 0
        self.kinds = kinds
        self.digits = bytes(len(kinds))  # the precision of each flat column that is a decimal
        if kinds.translate(None, _SIMPLE):  # most buckets have no other columns
            self._find_others(schema, kinds)

    def _find_others(self, schema: SchemaBlock, kinds: bytes) -> None:
        """Find nested columns, array data blocks and decimals."""
        self.blocks = list(_indices(kinds, Kind.ARRAY_BLOCK))
        children: list[ColumnType] = []
        for index in _indices(kinds, Kind.NESTED):
            column_type = schema.column_type(self.positions[index])
            self._nodes[index] = _number(column_type, index, len(kinds), children)
        self.num_children = len(children)
        self.kinds = kinds.replace(_NESTED, _INT32) + bytes(
            Kind.INT32 if child.children else child.kind for child in children
        )
        self.digits = self._find_digits(children)

    def _find_digits(self, children: Sequence[ColumnType]) -> bytes:
        digits = bytearray(len(self.kinds))
        for kind in _DECIMALS:
            for flat in _indices(self.kinds, kind):
                child = flat - self.num_columns
                column_type = (
                    self._schema.column_type(self.positions[flat]) if child < 0 else children[child]
                )
                digits[flat] = column_type.arrow.precision
        return bytes(digits)

    @property
    def is_flat(self) -> bool:
        """Whether every column is stored as single values."""
        return not self.num_children and not self.blocks

    @property
    def num_columns(self) -> int:
        return len(self.positions)

    def max_bytes(self, num_rows: int) -> int | None:
        """Return the largest size of a monolithic bucket; None if the values have no largest size."""
        if self.num_children:
            return None  # the bucket itself says how many rows they have
        sizes = [
            self.kinds.count(kind) * size
            for kind in set(self.kinds)
            if (size := max_page_bytes(kind, num_rows)) is not None
        ]
        return sum(sizes) if len(sizes) == len(set(self.kinds)) else None

    @property
    def num_flat(self) -> int:
        return len(self.kinds)

    def name(self, flat: int) -> str:
        """Return the name of the column that a flat column belongs to."""
        owner = flat
        for index, node in self._nodes.items():
            if any(child.flat == flat for child in node.walk()):
                owner = index
        return self._schema.name(self.positions[owner])

    def node(self, index: int) -> Node:
        """Return the node of the `index`-th column of the bucket."""
        node = self._nodes.get(index)
        if node is None:
            return Node(self._schema.column_type(self.positions[index]), index, ())
        return node

    def nested(self) -> Sequence[Node]:
        """Return the nodes of the list and map columns, in order."""
        return list(self._nodes.values())


def max_page_bytes(kind: int, num_rows: int) -> int | None:
    """Return the largest size of a page; None if the values have no largest size."""
    if kind >= Kind.BINARY:
        return None
    width = WIDTH[kind] or _MAX_DECIMAL_BYTES
    entries = max(num_rows, _decode.MAX_IDLE_ENTRIES)
    # Flags and number of entries, null bitmap, entries, then values or indices of up to 32 bits.
    return 8 + (num_rows + 7) // 8 + entries * width + num_rows * max(4, width)


def _indices(kinds: bytes, kind: Kind) -> Iterator[int]:
    """Yield where `kind` occurs in `kinds`; most of ten thousand columns have another one."""
    index = kinds.find(kind)
    while index >= 0:
        yield index
        index = kinds.find(kind, index + 1)


def _number(column_type: ColumnType, flat: int, first: int, children: list[ColumnType]) -> Node:
    """Return the node of a column, and append what is inside it to `children`."""
    nodes = []
    for child in column_type.children:
        number = first + len(children)
        children.append(child)
        nodes.append(_number(child, number, first, children))
    return Node(column_type, flat, tuple(nodes))


def flatten(array: pa.Array, column_type: ColumnType) -> list[pa.Array]:
    """Return the flat columns of a list or map array: its lengths, then its children."""
    if not column_type.children:
        return [array]
    flat = [_lengths(array)]
    for child, child_type in zip(_inner(array), column_type.children, strict=True):
        flat += flatten(child, child_type)
    return flat


def check_nulls(array: pa.Array, field: pa.Field) -> None:
    """Raise `SchemaMismatchError` if there is a null where the field allows none, at any depth."""
    if array.null_count and not field.nullable:
        nulls = "a null" if array.null_count == 1 else f"{array.null_count} nulls"
        raise SchemaMismatchError(f"contains {nulls} where the schema allows none")
    inside = _inside(field.type)
    if any(map(forbids_nulls, inside)):
        for child, inner in zip(_inner(array), inside, strict=True):
            check_nulls(child, inner)


def forbids_nulls(field: pa.Field) -> bool:
    """Whether the field, or something inside it, must not be null."""
    return not field.nullable or any(map(forbids_nulls, _inside(field.type)))


def _inside(arrow: pa.DataType) -> list[pa.Field]:
    """Return the fields of a struct, the elements of a list, or key and value of a map.

    Arrow itself ensures that no key of a map is null.
    """
    if not arrow_types.is_nested(arrow):
        return []
    if arrow_types.is_map(arrow):
        return [arrow.key_field.with_nullable(True), arrow.item_field]
    return list(arrow) if arrow_types.is_struct(arrow) else [arrow.value_field]


def _inner(array: pa.Array) -> list[pa.Array]:
    """Return the fields of structs that are not null, elements of lists, or keys and values."""
    if arrow_types.is_map(array.type):
        return map_as_list(array).flatten().flatten()
    if arrow_types.is_struct(array.type):
        return (array.drop_null() if array.null_count else array).flatten()
    return [array.flatten()]


def _lengths(array: pa.Array) -> pa.Array:
    if arrow_types.is_map(array.type):
        array = map_as_list(array)
    lengths = array.value_lengths()
    return lengths if lengths.type == _LENGTHS else lengths.cast(_LENGTHS)
