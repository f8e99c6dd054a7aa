"""The footer: the last 32 bytes of a file, its version and its feature flags."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntFlag
from typing import ClassVar, Final

import pyarrow as pa

from ..errors import CorruptFileError, UnsupportedError
from .wire import Compression

FILE_MAGIC: Final = b"MOSA"

VERSION: Final = 1
# The version of a file that readers of version 1 would misread, because an incompatible flag is
# set. The format's own versions count up from 1; this one is far away from them.
EXTENDED_VERSION: Final = 0x81


class Flag(IntFlag):
    """A feature that a file uses beyond version 1 of the format."""

    ANNEX = 0x0001  # an annex ends where the schema block begins
    TYPES = 0x0002  # the annex restores types that the schema block does not have
    ARRAY_BLOCKS = 0x0100  # some columns are stored as array data blocks


# A reader must refuse a file with an unknown flag in this byte, and ignores unknown ones below it.
INCOMPATIBLE_FLAGS: Final = 0xFF00
_KNOWN_INCOMPATIBLE: Final = int(Flag.ARRAY_BLOCKS)
# Plain integers: the operators of an enumeration take a microsecond.
_ANNEX: Final = int(Flag.ANNEX)
_TYPES: Final = int(Flag.TYPES)


@dataclass(frozen=True, slots=True)
class Footer:
    """The last 32 bytes of a file. All integers are big-endian.

    offset  size  field
         0     8  index_offset     first byte of the row group index
         8     8  schema_offset    first byte of the schema block
        16     4  num_buckets
        20     4  num_row_groups
        24     1  compression      0 none, 1 zstd
        25     1  version          1, or 0x81 if an incompatible flag is set
        26     2  flags            lower byte: compatible, upper byte: incompatible
        28     4  magic            b"MOSA"
    """

    index_offset: int
    schema_offset: int
    num_buckets: int
    num_row_groups: int
    compression: Compression
    flags: int = 0

    LAYOUT: ClassVar = struct.Struct(">QQIIBBH4s")
    SIZE: ClassVar = LAYOUT.size

    def encode(self) -> bytes:
        """Return the 32 bytes of the footer."""
        return self.LAYOUT.pack(
            self.index_offset,
            self.schema_offset,
            self.num_buckets,
            self.num_row_groups,
            self.compression,
            self.version,
            self.flags,
            FILE_MAGIC,
        )

    @property
    def version(self) -> int:
        return EXTENDED_VERSION if self.flags & INCOMPATIBLE_FLAGS else VERSION

    @property
    def has_annex(self) -> bool:
        return bool(self.flags & _ANNEX)

    @property
    def restores_types(self) -> bool:
        return bool(self.flags & _TYPES)

    @classmethod
    def decode(cls, tail: bytes | pa.Buffer, file_size: int) -> Footer:
        """Decode the footer at the end of `tail`, the last bytes of a file of `file_size` bytes."""
        if len(tail) < cls.SIZE:
            raise CorruptFileError(
                f"not a Mosaic file: {file_size} bytes are too few, a footer has {cls.SIZE}"
            )
        (
            index_offset,
            schema_offset,
            num_buckets,
            num_row_groups,
            compression,
            version,
            flags,
            magic,
        ) = cls.LAYOUT.unpack(tail[-cls.SIZE :])
        if magic != FILE_MAGIC:
            raise CorruptFileError("not a Mosaic file: it does not end in 'MOSA'")
        _check_version(version, flags, file_size)
        if compression not in (Compression.NONE, Compression.ZSTD):
            raise UnsupportedError(
                f"unknown compression {compression} at offset {file_size - 8}; "
                "0 (none) and 1 (zstd) are supported"
            )
        # The schema block begins with its length, in 4 bytes.
        if not schema_offset + 4 <= index_offset <= file_size - cls.SIZE:
            raise CorruptFileError(
                f"the footer places the schema block at {schema_offset} and the row group index at "
                f"{index_offset}, which is impossible in a file of {file_size} bytes"
            )
        return cls(
            index_offset,
            schema_offset,
            num_buckets,
            num_row_groups,
            Compression(compression),
            flags,
        )


def _check_version(version: int, flags: int, file_size: int) -> None:
    if version not in (VERSION, EXTENDED_VERSION):
        reason = (
            "is newer than this library, which reads"
            if version
            else "does not exist; supported are"
        )
        raise UnsupportedError(
            f"file format version {version} at offset {file_size - 7} {reason} "
            f"versions {VERSION} and {EXTENDED_VERSION:#x}"
        )
    if (version == EXTENDED_VERSION) != bool(flags & INCOMPATIBLE_FLAGS):
        raise CorruptFileError(
            f"the footer contradicts itself: version {version:#x} with flags {flags:#06x}; "
            f"version {EXTENDED_VERSION:#x} requires a flag in the upper byte, "
            f"version {VERSION} forbids one"
        )
    unknown = flags & INCOMPATIBLE_FLAGS & ~_KNOWN_INCOMPATIBLE
    if unknown:
        lowest = unknown & -unknown
        raise UnsupportedError(
            "the file requires a feature that is newer than this library: bit "
            f"{lowest.bit_length() - 1} ({lowest:#06x}) of the flags at offset {file_size - 6}"
        )
