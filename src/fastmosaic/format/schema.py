"""The schema block: columns, their buckets, and their original order."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

import pyarrow as pa

from ..errors import CorruptFileError, UnsupportedError
from . import _schema
from .names import MAX_NAMES_BYTES, MAX_RULES, NameEncoding, StoredNames, encode_columns
from .types import KIND_OF_TYPE, ColumnType, Kind
from .wire import Cursor, put_varint

_FEW: Final = 16  # columns, for which it does not pay to prepare all


class SchemaBlock:
    """The columns of a file, by their position when sorted by the bytes of their names.

    uv   number of columns N
    uv   number of buckets B
    u8   name encoding, and its rules: see names.py
    N x  name, type descriptor: see names.py and types.py
    N x  zz sorted position minus that of the previous column, in user order

    Columns are decoded when they are requested.
    """

    __slots__ = (
        "_arrow",
        "_body",
        "_names",
        "_order",
        "_starts",
        "_type_starts",
        "kinds",
        "num_buckets",
        "num_columns",
        "surplus",
    )

    num_columns: int
    num_buckets: int
    kinds: bytes  # the Kind of each column
    surplus: int  # bytes after the block, which nothing refers to

    def __init__(self, body: bytes) -> None:
        cursor = Cursor(body)
        self.num_columns = cursor.varint()
        self.num_buckets = cursor.varint()
        if self.num_buckets == 0:
            raise CorruptFileError("the schema block has no buckets")
        encoding = cursor.uint8()
        if encoding not in tuple(NameEncoding):
            raise UnsupportedError(f"unknown encoding of column names: {encoding}")
        rules = None
        if encoding == NameEncoding.PAIRS:
            num_rules = cursor.varint()
            if num_rules > MAX_RULES:
                raise CorruptFileError(f"{num_rules} byte-pair rules, more than {MAX_RULES}")
            rules = bytes(cursor.take(2 * num_rules))

        try:
            self._starts, self.kinds, longest, ascending = _schema.walk_columns(
                body, cursor.pos, self.num_columns, KIND_OF_TYPE, rules, MAX_NAMES_BYTES
            )
            self.surplus = _schema.check_order(body, self._starts[-1], self.num_columns)
        except NotImplementedError as error:
            raise UnsupportedError(f"schema block: {error}") from error
        except ValueError as error:
            raise CorruptFileError(f"schema block: {error}") from error
        self._names = StoredNames(body, self._starts, rules, longest, ascending)
        self._body = body
        self._type_starts: memoryview[int] | None = None
        self._order: memoryview[int] | None = None
        self._arrow: pa.Schema | None = None

    def __reduce__(self) -> tuple[Callable[[bytes], SchemaBlock], tuple[bytes]]:
        return SchemaBlock, (self._body,)

    @classmethod
    def from_arrow(
        cls, schema: pa.Schema, num_buckets: int, array_blocks: bool = False
    ) -> SchemaBlock:
        """Create the block for `schema`, with `num_buckets` but no empty buckets.

        With `array_blocks`, lists of scalars are stored as array data blocks.
        """
        names = [name.encode() for name in schema.names]
        descriptors = [_descriptor(field, array_blocks) for field in schema]
        ranking = sorted(range(len(names)), key=names.__getitem__)
        _check_names([names[i] for i in ranking])
        order = array("i", ranking)
        for position, i in enumerate(ranking):
            order[i] = position

        body = bytearray()
        put_varint(body, len(names))
        put_varint(body, max(1, min(num_buckets, len(names))))
        body += encode_columns([names[i] for i in ranking], [descriptors[i] for i in ranking])
        body += _schema.encode_order(order)
        return cls(bytes(body))

    @property
    def array_layout(self) -> str:
        """How lists of scalars are stored: "block" as array data blocks, or else "columns"."""
        return "block" if Kind.ARRAY_BLOCK in self.kinds else "columns"

    def encode(self) -> bytes:
        """Return the body of the block, before compression."""
        return self._body

    @classmethod
    def decode(cls, body: bytes) -> SchemaBlock:
        return cls(body)

    def has_columns_of(self, other: SchemaBlock) -> bool:
        """Return whether both have the same bytes, except for the order of columns.

        If False, names may be the same in another encoding.
        """
        if self is other:
            return True
        ends = self._starts[-1], other._starts[-1]
        return ends[0] == ends[1] and self._body[: ends[0]] == other._body[: ends[1]]

    @property
    def order(self) -> memoryview[int]:
        """The sorted position of each column, in user order."""
        if self._order is None:
            self._order = _schema.decode_order(self._body, self._starts[-1], self.num_columns)
        return self._order

    def find(self, name: str) -> int:
        """Return the position of the column called `name`, or -1."""
        return self._names.find(name)

    def name(self, position: int) -> str:
        return self._names[position]

    @property
    def type_starts(self) -> memoryview[int]:
        """Where in the body of the block the type descriptor of each column begins."""
        if self._type_starts is None:
            self._type_starts = _schema.type_starts(self._body, self._starts[:-1])
        return self._type_starts

    def descriptor(self, position: int) -> bytes:
        """Return the type descriptor of a column, faster than `column_type` for many of them."""
        return self._body[self.type_starts[position] : self._starts[position + 1]]

    def column_type(self, position: int) -> ColumnType:
        starts = self._starts[position : position + 2]
        (start,) = _schema.type_starts(self._body, starts[:1])
        return ColumnType.decode(self._body[start : starts[1]])

    @property
    def type_ids(self) -> bytes:
        """The `TypeId` of each column."""
        body = self._body
        return bytes([body[start] for start in self.type_starts])

    def field(self, position: int) -> pa.Field:
        column_type = self.column_type(position)
        return pa.field(self.name(position), column_type.arrow, column_type.nullable)

    def fields(self, positions: Sequence[int]) -> list[pa.Field]:
        """Return the fields at `positions`, faster than calling `field` for each."""
        if len(positions) < _FEW:
            return [self.field(position) for position in positions]
        body, starts, type_starts = self._body, self._starts, self.type_starts
        names = self._names.packed
        types: dict[bytes, ColumnType] = {}
        fields = []
        for position in positions:
            descriptor = body[type_starts[position] : starts[position + 1]]
            column_type = types.get(descriptor)
            if column_type is None:
                column_type = types[descriptor] = ColumnType.decode(descriptor)
            fields.append(pa.field(names[position], column_type.arrow, column_type.nullable))
        return fields

    def required(self, positions: array[int] | memoryview[int]) -> bytes:
        """Return a byte for each of the columns at `positions`: whether it must not be null."""
        return _schema.required(self._body, self._starts, positions)

    def bucket_of(self, position: int) -> int:
        return position * self.num_buckets // self.num_columns

    def bucket_columns(self, bucket: int) -> range:
        """Return the positions of the columns in `bucket`."""
        columns, buckets = self.num_columns, self.num_buckets
        return range(-(-bucket * columns // buckets), -(-(bucket + 1) * columns // buckets))

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema, in user order."""
        if self._arrow is None:
            self._arrow = pa.schema(self.fields(self.order))
        return self._arrow

    def names(self, positions: Iterable[int] | None = None) -> list[str]:
        """Return the names at `positions`, or all names in user order."""
        chosen = self.order if positions is None else array("i", positions)
        return self._names.packed.select(chosen)

    @property
    def names_size(self) -> int:
        """The number of bytes that all names have together."""
        return self._names.packed.size

    def similar(self, name: str) -> list[str]:
        """Return the names that are most similar to `name`, for suggestions."""
        return self._names.packed.similar(name)

    def occurring(self, text: str) -> list[int]:
        """Return the positions of the columns whose name occurs anywhere in `text`."""
        return self._names.packed.occurring(text)


def _descriptor(field: pa.Field, array_blocks: bool) -> bytes:
    try:
        return ColumnType.from_arrow(field, array_blocks).descriptor
    except UnsupportedError as error:
        error.locate(column=field.name)
        raise


def _check_names(names: list[bytes]) -> None:
    """Raise `ValueError` if these sorted names are not valid in the format."""
    if names and not names[0]:
        raise ValueError("a column has an empty name, which the format does not allow")
    for name, following in pairwise(names):
        if name == following:
            raise ValueError(f"duplicate column name {name.decode()!r}: names must be unique")
    for name in names:
        if b"\0" in name:
            raise ValueError(
                f"column name {name.decode()!r} contains a NUL character, where the reference "
                "implementation would truncate it"
            )
    if sum(map(len, names)) > MAX_NAMES_BYTES:
        raise ValueError(f"the column names take more than {MAX_NAMES_BYTES} bytes in total")
