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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import CorruptFileError, SchemaMismatchError
from . import _decode
from .schema import SchemaBlock
from .types import ColumnType, Kind

_LENGTHS: Final = pa.int32()
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

    __slots__ = ("_nodes", "_schema", "blocks", "kinds", "num_children", "positions")

    def __init__(self, schema: SchemaBlock, bucket: int) -> None:
        self._schema = schema
        self.positions = schema.bucket_columns(bucket)
        kinds = schema.kinds[self.positions.start : self.positions.stop]
        self.blocks: list[int] = []  # columns that are array data blocks
        if Kind.ARRAY_BLOCK in kinds:
            self.blocks = [i for i, kind in enumerate(kinds) if kind == Kind.ARRAY_BLOCK]
        self._nodes: dict[int, Node] = {}
        children = bytearray()
        index = kinds.find(_NESTED)
        while index >= 0:
            column_type = schema.column_type(self.positions[index])
            self._nodes[index] = _number(column_type, index, len(kinds), children)
            index = kinds.find(_NESTED, index + 1)
        self.num_children = len(children)
        self.kinds = kinds.replace(_NESTED, _INT32) + bytes(children)

    @property
    def num_columns(self) -> int:
        return len(self.positions)

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


def _number(column_type: ColumnType, flat: int, first: int, children: bytearray) -> Node:
    nodes = []
    for child in column_type.children:
        number = first + len(children)
        children.append(Kind.INT32 if child.children else child.kind)
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
    inside = _inside(field)
    if inside is not None and forbids_nulls(inside):
        check_nulls(_inner(array)[-1], inside)


def forbids_nulls(field: pa.Field) -> bool:
    """Whether the field, or something inside it, must not be null."""
    inside = _inside(field)
    return not field.nullable or (inside is not None and forbids_nulls(inside))


def _inside(field: pa.Field) -> pa.Field | None:
    """The elements of a list, or the values of a map; Arrow ensures that no key is null."""
    type = field.type
    if not arrow_types.is_nested(type):
        return None
    return type.item_field if arrow_types.is_map(type) else getattr(type, "value_field", None)


def _inner(array: pa.Array) -> list[pa.Array]:
    """Return the elements of a list array, or the keys and the values of a map array."""
    if arrow_types.is_map(array.type):
        return _as_list(array).flatten().flatten()
    return [array.flatten()]


def _lengths(array: pa.Array) -> pa.Array:
    lengths = _as_list(array).value_lengths()
    return lengths if lengths.type == _LENGTHS else lengths.cast(_LENGTHS)


def _as_list(array: pa.Array) -> pa.Array:
    """Return a map array as a list of entries, because Arrow's list functions reject maps."""
    if not arrow_types.is_map(array.type):
        return array
    entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        pa.list_(entries.type),
        len(array),
        [validity, offsets],
        array.null_count,
        array.offset,
        [entries],
    )


def assemble(node: Node, flat: Mapping[int, pa.Array]) -> pa.Array:
    """Assemble the array of `node` from its flat columns."""
    if not node.children:
        array = flat[node.flat]
    else:
        lengths = flat[node.flat]
        validity, values = lengths.buffers()
        count = len(lengths)
        offsets = pa.allocate_buffer(4 * (count + 1))
        try:
            # A null has length zero in the decoded buffer, so the validity is not needed.
            total = _decode.offsets_of(
                memoryview(values)[: 4 * count].cast("i"), memoryview(offsets).cast("i")
            )
        except ValueError as error:
            raise CorruptFileError(str(error)) from error
        inner = [_elements(child, flat, total) for child in node.children]
        if arrow_types.is_map(node.type.arrow):
            fields = [node.type.arrow.key_field, node.type.arrow.item_field]
            if inner[0].null_count:
                raise CorruptFileError(f"{inner[0].null_count} keys of a map are null")
            inner = [pa.StructArray.from_arrays(inner, fields=fields)]
        array = pa.Array.from_buffers(
            node.type.arrow, count, [validity, offsets], lengths.null_count, 0, inner
        )
    return array


def _elements(node: Node, flat: Mapping[int, pa.Array], count: int) -> pa.Array:
    """Return the first `count` elements of lists; a file may store more that are not used."""
    array = assemble(node, flat)
    if len(array) < count:
        raise CorruptFileError(f"the lists have {count} elements, but {len(array)} are stored")
    array = array.slice(0, count)
    if array.null_count and not node.type.nullable:
        raise CorruptFileError(
            f"there are {array.null_count} null elements, but they are declared not null"
        )
    return array
