"""List columns that are stored as array data blocks: all lists of a row group in one block.

A block (see `array_block`) can have at most 65,535 elements per list, and ends with its CRC-32C.
The width of an element depends only on its type: decimals have 8 bytes up to 18 digits and 16
beyond, other types as many as in Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ..errors import UnsupportedError
from ..memory import Memory
from ._array import Block
from .array_block import (
    check_lists,
    decode_lists,
    element_bits,
    encode_lists,
    measure_lists,
    open_lists,
)
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


def opened(
    data: memoryview | None,
    column_type: ColumnType,
    num_rows: int,
    ranges: memoryview[int] | None = None,
) -> Block | None:
    """Check the counts of a block of `num_rows` lists; with `ranges`, keep only these rows.

    Return None if there is no block, because all lists are null.
    """
    if data is None:
        return None
    (element,) = column_type.children
    return open_lists(
        data,
        _bits(column_type),
        num_rows=num_rows,
        nullable=element.nullable,
        ranges=ranges,
    )


def decode(
    block: Block | None,
    column_type: ColumnType,
    num_rows: int,
    memory: Memory,
    *,
    strict: bool = True,
) -> pa.Array:
    """Decode the lists of a block; without a block, there are `num_rows` nulls."""
    if block is None:
        zeros = memory.zeros(4 * (num_rows + 1))
        elements = pa.array([], column_type.children[0].arrow)
        return pa.Array.from_buffers(
            column_type.arrow, num_rows, [zeros, zeros], num_rows, children=[elements]
        )
    return decode_lists(block, column_type.arrow, memory, strict=strict)


def check(block: Block, column_type: ColumnType, *, strict: bool = True) -> int:
    """Check a block as decoding it does, without the memory of the lists; return the null lists."""
    return check_lists(block, column_type.arrow.value_type, strict=strict)


def measure(block: Block | None, column_type: ColumnType, num_rows: int) -> tuple[int, int]:
    """Return what `decode` takes from a memory, and how many zeros it uses."""
    if block is None:
        return 0, 4 * (num_rows + 1)
    return measure_lists(block, column_type.arrow.value_type)


def size(data: memoryview | None, column_type: ColumnType, num_rows: int) -> int:
    """Return the memory of the lists of a block at most; `opened` checks its counts."""
    if data is None:
        return 4 * (num_rows + 1)
    count = Cursor(data).varint()
    bits = column_type.children[0].arrow.bit_width if _bits(column_type) else 32
    bitmaps = (num_rows + count) // 8 + 2
    return 4 * (num_rows + 2) + count * bits // 8 + bitmaps + len(data)


def _bits(column_type: ColumnType) -> int:
    """Return the bits of an element in a block."""
    (element,) = column_type.children
    if element.kind == Kind.DECIMAL64:
        return 64
    return element_bits(element.arrow)
