"""Integers, strings, checksums and compressed blocks, as they are stored in a file.

`uv`   unsigned LEB128 of 32 bits: 7 bits a byte, low group first, high bit = more follow
`zz`   zigzag of a signed 64-bit integer, then LEB128
`str`  `uv` length, then that many bytes

All bytes of a file are read by `Cursor` or by a kernel, and both check bounds.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import pyarrow as pa

from ..errors import CorruptFileError, UnsupportedError
from . import _crc, _zstd

crc32c: Final = _crc.crc32c

MAX_VARINT: Final = 2**32 - 1
MAX_VARINT_BYTES: Final = 5
# The largest block that is compressed or decompressed: the same limit as in the reference.
MAX_BLOCK_BYTES: Final = 512 << 20
# A zstd block of type RLE encodes 128 KiB in 4 bytes; no frame expands by more than this factor.
MAX_FRAME_EXPANSION: Final = 65536
# A block may always declare this size.
MIN_BLOCK_LIMIT: Final = 1 << 20
# A larger block that expands by more than the factor is examined before it is decompressed.
SUSPICIOUS_BYTES: Final = 32 << 20
SUSPICIOUS_EXPANSION: Final = 256


class Compression(IntEnum):
    NONE = 0
    ZSTD = 1


def put_varint(out: bytearray, value: int) -> None:
    """Append `value` as an unsigned LEB128 integer."""
    if not 0 <= value <= MAX_VARINT:
        raise UnsupportedError(f"{value} is too large: the format stores this number in 32 bits")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_bytes(out: bytearray, data: bytes) -> None:
    """Append the length of `data`, followed by `data`."""
    put_varint(out, len(data))
    out += data


class Cursor:
    """Reads values from an untrusted buffer, from front to back."""

    __slots__ = ("_data", "base", "pos")

    def __init__(self, data: bytes | memoryview | pa.Buffer, base: int = 0) -> None:
        self._data = memoryview(data).cast("B")  # a pyarrow.Buffer has signed bytes
        self.pos = 0
        self.base = base  # offset of the buffer in the file, for messages

    @property
    def remaining(self) -> int:
        return len(self._data) - self.pos

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes, without copying them."""
        end = self.pos + size
        if end > len(self._data):
            raise CorruptFileError(
                f"needed {size} bytes at offset {self.base + self.pos}, "
                f"but {self.remaining} are left"
            )
        view = self._data[self.pos : end]
        self.pos = end
        return view

    def uint8(self) -> int:
        pos = self.pos
        if pos >= len(self._data):
            self.take(1)  # raises
        self.pos = pos + 1
        return self._data[pos]

    def varint(self) -> int:
        """Read an unsigned LEB128 integer of up to 32 bits."""
        value = self.uint8()
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in (7, 14, 21, 28):
            byte = self.uint8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > MAX_VARINT:
                    break
                return value
        raise CorruptFileError(f"the varint before offset {self.base + self.pos} exceeds 32 bits")

    def bytes(self) -> bytes:
        """Read a varint length, then that many bytes."""
        return bytes(self.take(self.varint()))

    def text(self) -> str:
        """Read a varint length, then that many bytes of UTF-8."""
        start = self.base + self.pos
        try:
            return self.bytes().decode()
        except UnicodeDecodeError as error:
            raise CorruptFileError(f"text at offset {start} is not UTF-8") from error


def compress(data: bytes | memoryview, level: int, checksum: bool) -> bytes:
    """Compress `data` to one zstd frame with its content size in the header."""
    check_block(len(data))
    return _zstd.compress(data, level, checksum)


def has_checksum(frame: bytes | memoryview) -> bool:
    """Return whether a zstd frame has a checksum; raise `CorruptFileError` if it is none."""
    try:
        return _zstd.frame_header(memoryview(frame).cast("B"))[1]
    except _zstd.ZstdError as error:
        raise CorruptFileError(f"zstd: {error}") from error


def check_block(size: int) -> None:
    """Raise UnsupportedError if a block is too large to be compressed."""
    if size > MAX_BLOCK_BYTES:
        raise UnsupportedError(
            f"a block of {size} bytes exceeds the format's limit of {MAX_BLOCK_BYTES}; "
            'write smaller row groups, or use compression="none"'
        )


def decompress(data: bytes | memoryview, size: int) -> bytes:
    """Decompress the zstd frame `data` to `size` bytes."""
    _check_declared(len(data), size)
    try:
        declared, _ = _zstd.frame_header(data)
        if declared not in (-1, size):  # -1: the frame does not say
            raise CorruptFileError(
                f"a zstd frame contains {declared} bytes, but {size} are declared"
            )
        return _zstd.decompress(data, size)
    except _zstd.ZstdError as error:
        raise CorruptFileError(f"zstd: {error}") from error


def is_suspicious(frame: int, size: int) -> bool:
    """Return whether a frame of `frame` bytes declares a large size that real data seldom has."""
    return size > SUSPICIOUS_BYTES and size > frame * SUSPICIOUS_EXPANSION


def decompress_front(data: bytes | memoryview) -> bytes:
    """Decompress the first bytes of a zstd frame, half as many as make it suspicious."""
    try:
        return _zstd.decompress_front(data, SUSPICIOUS_BYTES // 2)
    except _zstd.ZstdError as error:
        raise CorruptFileError(f"zstd: {error}") from error


def _check_declared(frame: int, size: int) -> None:
    limit = min(max(frame * MAX_FRAME_EXPANSION, MIN_BLOCK_LIMIT), MAX_BLOCK_BYTES)
    if size > limit:
        raise CorruptFileError(
            f"a block of {frame} bytes declares {size} bytes of content; the limit is {limit}"
        )
