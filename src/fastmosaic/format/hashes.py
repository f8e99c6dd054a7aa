"""Stable 64-bit hashes of Arrow values, which are the same in every process.

Equal values have equal hashes, regardless of how their arrays are sliced, chunked or
dictionary-encoded. Integers hash equally in all widths, and so do floats and decimals of the same
scale; strings hash like the same bytes. NaN is equal to itself, and -0.0 to 0.0. Nulls have no
hash.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import UnsupportedError
from . import _hash


class _Form(IntEnum):
    """How the kernel reads the values of an array."""

    BOOLEAN = 0
    SIGNED = 1
    UNSIGNED = 2
    FLOATING = 3
    DECIMAL = 4
    FIXED_BYTES = 5
    BYTES = 6


def can_hash(arrow: pa.DataType) -> bool:
    """Return whether values of this type have hashes: all but lists, maps and structs."""
    return not arrow_types.is_nested(arrow)


def hash_values(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the hashes of the values that are not null, as a uint64 array.

    >>> hash_values(pa.array([0, None, 1])).to_pylist()
    [0, 6238072747940578789]
    """
    data = b"".join(_hash.hash_array(chunk, *_form(chunk.type)) for chunk in _chunks(values))
    return _uint64(data)


class SmallestHashes:
    """The smallest distinct hashes of all values that were added, up to a number of `size`."""

    __slots__ = ("_kernel", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._kernel = _hash.SmallestHashes(size)

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Add the values that are not null."""
        for chunk in _chunks(values):
            self._kernel.add(chunk, *_form(chunk.type))

    def merge(self, hashes: pa.Array) -> None:
        """Add the `hashes` of another object, possibly of another process."""
        if len(hashes):
            whole = pa.concat_arrays([hashes])  # without an offset
            self._kernel.add_hashes(
                memoryview(whole.buffers()[1]).cast("B").cast("Q")[: len(hashes)]
            )

    def hashes(self) -> pa.Array:
        """Return the hashes as a sorted uint64 array."""
        return _uint64(self._kernel.hashes())


def _uint64(data: bytes) -> pa.Array:
    return pa.Array.from_buffers(pa.uint64(), len(data) // 8, [None, pa.py_buffer(data)])


def _chunks(values: pa.Array | pa.ChunkedArray) -> Iterable[Any]:
    """Return arrays of a type that the kernel can read."""
    arrow = values.type
    if isinstance(arrow, pa.BaseExtensionType):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        return [part for chunk in chunks for part in _chunks(chunk.storage)]
    if arrow_types.is_dictionary(arrow):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        return [part for chunk in chunks for part in _chunks(chunk.dictionary_decode())]
    if arrow_types.is_float16(arrow):
        values = values.cast(pa.float32())
    elif arrow_types.is_string_view(arrow) or arrow_types.is_binary_view(arrow):
        values = values.cast(pa.large_binary())
    elif arrow_types.is_null(arrow):
        return []
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]


@lru_cache(maxsize=256)
def _form(arrow: pa.DataType) -> tuple[_Form, int]:
    """Return the form of values of this type and their width in bytes."""
    if arrow_types.is_boolean(arrow):
        return _Form.BOOLEAN, 0
    if arrow_types.is_unsigned_integer(arrow):
        return _Form.UNSIGNED, arrow.bit_width // 8
    if arrow_types.is_integer(arrow) or (
        arrow_types.is_temporal(arrow) and not arrow_types.is_interval(arrow)
    ):
        return _Form.SIGNED, arrow.bit_width // 8
    if arrow_types.is_floating(arrow):
        return _Form.FLOATING, arrow.bit_width // 8
    if arrow_types.is_decimal(arrow):
        return _Form.DECIMAL, arrow.bit_width // 8
    if arrow_types.is_fixed_size_binary(arrow) or arrow_types.is_interval(arrow):
        return _Form.FIXED_BYTES, arrow.bit_width // 8
    if arrow_types.is_string(arrow) or arrow_types.is_binary(arrow):
        return _Form.BYTES, 4
    if arrow_types.is_large_string(arrow) or arrow_types.is_large_binary(arrow):
        return _Form.BYTES, 8
    raise UnsupportedError(f"values of type {arrow} cannot be hashed")
