"""List columns that are stored as array data blocks: all lists of a row group in one piece.

A block (see `array_block`) has 65,535 elements a list at most, and ends with its CRC-32C. How wide
its elements are depends on their type alone: decimals take 8 bytes, or 16 beyond 18 digits, and
the others as many as in Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..errors import CorruptFileError, UnsupportedError
from .array_block import decode_lists, element_bits, encode_lists
from .types import ColumnType, Kind
from .wire import Cursor


def encode(chunks: Sequence[pa.Array], column_type: ColumnType) -> bytes | None:
    """The block of the lists in `chunks`, or None if each of them is null."""
    if all(chunk.null_count == len(chunk) for chunk in chunks):
        return None
    try:
        lists = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(f"{error}; write smaller row groups") from error
    return encode_lists(lists, _bits(column_type))


def decode(block: memoryview, column_type: ColumnType, num_rows: int) -> pa.Array:
    """The `num_rows` lists in a block."""
    lists = decode_lists(block, column_type.arrow, _bits(column_type), num_rows=num_rows)
    (element,) = column_type.children
    if lists.values.null_count and not element.nullable:
        raise CorruptFileError(
            f"{lists.values.null_count} null elements, but they are declared not null"
        )
    return lists


def nulls(column_type: ColumnType, num_rows: int, zeros: pa.Buffer) -> pa.Array:
    """So many null lists, which share the `zeros` of all such columns: see `make_zeros`."""
    elements = pa.array([], column_type.children[0].arrow)
    return pa.Array.from_buffers(
        column_type.arrow, num_rows, [zeros, zeros], num_rows, children=[elements]
    )


def make_zeros(num_rows: int) -> pa.Buffer:
    return pa.nulls(num_rows + 1, pa.int32()).buffers()[1]


def expansion(block: memoryview, column_type: ColumnType, num_rows: int) -> int:
    """Bytes of Arrow's lists beyond those of the block: of equal lengths, and of nulls."""
    count = Cursor(block).varint()  # which `decode` holds against the lengths
    bits = column_type.children[0].arrow.bit_width if _bits(column_type) else 32
    return max(0, 4 * num_rows + count * bits // 8 - len(block))


def _bits(column_type: ColumnType) -> int:
    """Bits of an element in a block."""
    (element,) = column_type.children
    if element.kind == Kind.DECIMAL64:
        return 64
    return element_bits(element.arrow)
