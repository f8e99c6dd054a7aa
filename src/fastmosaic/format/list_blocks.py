"""List columns that are stored as array data blocks: all lists of a row group in one block.

A block (see `array_block`) can have at most 65,535 elements per list, and ends with its CRC-32C.
The width of an element depends only on its type: decimals have 8 bytes up to 18 digits and 16
beyond, other types as many as in Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..errors import CorruptFileError, UnsupportedError
from .array_block import decode_lists, element_bits, encode_lists
from .types import ColumnType, Kind
from .wire import Cursor


def encode(chunks: Sequence[pa.Array], column_type: ColumnType) -> bytes | None:
    """Encode the lists in `chunks` as one block; return None if all of them are null."""
    if all(chunk.null_count == len(chunk) for chunk in chunks):
        return None
    try:
        lists = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(f"{error}; write smaller row groups") from error
    return encode_lists(lists, _bits(column_type))


def decode(block: memoryview, column_type: ColumnType, num_rows: int) -> pa.Array:
    """Decode a block of `num_rows` lists."""
    lists = decode_lists(block, column_type.arrow, _bits(column_type), num_rows=num_rows)
    (element,) = column_type.children
    if lists.values.null_count and not element.nullable:
        raise CorruptFileError(
            f"there are {lists.values.null_count} null elements, but they are declared not null"
        )
    return lists


def nulls(column_type: ColumnType, num_rows: int, zeros: pa.Buffer) -> pa.Array:
    """Return `num_rows` null lists, using buffers that all such columns share: `make_zeros`."""
    elements = pa.array([], column_type.children[0].arrow)
    return pa.Array.from_buffers(
        column_type.arrow, num_rows, [zeros, zeros], num_rows, children=[elements]
    )


def make_zeros(num_rows: int) -> pa.Buffer:
    return pa.nulls(num_rows + 1, pa.int32()).buffers()[1]


def expansion(block: memoryview, column_type: ColumnType, num_rows: int) -> int:
    """Return the memory of Arrow's lists beyond the size of the block: equal lengths and nulls."""
    count = Cursor(block).varint()  # `decode` checks that it matches the lengths
    bits = column_type.children[0].arrow.bit_width if _bits(column_type) else 32
    return max(0, 4 * num_rows + count * bits // 8 - len(block))


def _bits(column_type: ColumnType) -> int:
    """Return the bits of an element in a block."""
    (element,) = column_type.children
    if element.kind == Kind.DECIMAL64:
        return 64
    return element_bits(element.arrow)
