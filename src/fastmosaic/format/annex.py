"""The annex: optional sections that version 1 of the format has no place for.

It lies between the last bucket and the schema block, where version 1 readers do not look. The
footer has a flag for it.

    sections, each u8 kind, uv length, that many bytes
    u32le   CRC-32C of the sections
    u32le   length of the annex, from its first section to the end of the magic
    4 bytes b"MOSX"

    kind
       1    u32le CRC-32C of the row group index, u32le CRC-32C of the footer without its magic
       2    an Arrow IPC schema message: see user_schema.py
       3    name and version of the writer, in UTF-8
       4    u32le CRC-32C of the schema block, then one u32le for each row group: the CRC-32C of the
            CRC-32Cs of its buckets, each u32le, in the order of the index
       5    of a column file of a table: u64le number of rows and u64le size of its base file, then
            16 bytes that identify that file: see `Base`
       6    uv length of the dictionaries, a Mosaic file that ends where the annex begins: see
            file/dictionaries.py
       7    an Arrow IPC schema message: see user_schema.py
       8    of a key index, which ends where the dictionaries or else the annex begins: uv number of
            columns of the key, each uv length and name in UTF-8, uv number of keys, then u64le first
            hash and u32le CRC-32C of each of its blocks: see file/key_index.py

zstd's own checksums cover the content of a frame, but some bits of its headers can change without
any effect on the values. Section 4 lets `verify` detect such changes; reading does not need it.

Sections of unknown kinds are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import ClassVar, Final

from ..errors import CorruptFileError
from .wire import Cursor, crc32c, put_bytes, put_varint

ANNEX_MAGIC: Final = b"MOSX"


class Section(IntEnum):
    CHECKSUMS = 1
    ATTACHED = 2
    WRITER = 3
    BLOCKS = 4
    BASE = 5
    DICTIONARIES = 6
    COMMON = 7
    KEYS = 8


@dataclass(frozen=True, slots=True)
class Checksums:
    """CRC-32C of the row group index, and of the footer without its magic."""

    index: int
    footer: int

    LAYOUT: ClassVar = struct.Struct("<II")

    @classmethod
    def of(cls, index: bytes, footer: bytes) -> Checksums:
        return cls(crc32c(index), crc32c(footer[:-4]))

    def check(self, index: bytes, footer: bytes) -> None:
        actual = Checksums.of(index, footer)
        for part, stated, computed in (
            ("footer", self.footer, actual.footer),
            ("row group index", self.index, actual.index),
        ):
            if stated != computed:
                raise CorruptFileError(
                    f"the checksum of the {part} is {computed:08x}, but the annex has {stated:08x}"
                )


@dataclass(frozen=True, slots=True)
class BlockChecksums:
    """CRC-32C of the schema block, and one for each row group."""

    schema: int
    row_groups: tuple[int, ...]

    @staticmethod
    def of_row_group(buckets: Sequence[int]) -> int:
        """Return the CRC-32C of a row group, given those of its buckets."""
        return crc32c(struct.pack(f"<{len(buckets)}I", *buckets))

    def encode(self) -> bytes:
        return struct.pack(f"<{1 + len(self.row_groups)}I", self.schema, *self.row_groups)

    @classmethod
    def decode(cls, body: bytes) -> BlockChecksums:
        if not body or len(body) % 4:
            raise CorruptFileError(
                f"the section with block checksums has {len(body)} bytes, not a multiple of 4"
            )
        schema, *row_groups = struct.unpack(f"<{len(body) // 4}I", body)
        return cls(schema, tuple(row_groups))


@dataclass(frozen=True, slots=True)
class Base:
    """The file that a column file belongs to: it has the same rows and row groups.

    digest  the BLAKE2b-128 of the base file from its annex, or from its schema block if it has no
            annex, to its end
    """

    num_rows: int
    size: int
    digest: bytes

    LAYOUT: ClassVar = struct.Struct("<QQ16s")  # sizes may exceed the 32 bits of a varint

    @classmethod
    def of(cls, num_rows: int, size: int, end: bytes | memoryview) -> Base:
        """Return the identity of a file of `size` bytes whose last bytes are `end`."""
        import hashlib  # on use, because it loads OpenSSL

        digest = hashlib.blake2b(end, digest_size=16, usedforsecurity=False)
        return cls(num_rows, size, digest.digest())

    def encode(self) -> bytes:
        return self.LAYOUT.pack(self.num_rows, self.size, self.digest)

    @classmethod
    def decode(cls, body: bytes) -> Base:
        if len(body) != cls.LAYOUT.size:
            raise CorruptFileError(
                f"the section about the base file has {len(body)} bytes, not {cls.LAYOUT.size}"
            )
        return cls(*cls.LAYOUT.unpack(body))


@dataclass(frozen=True, slots=True)
class KeySection:
    """A key index: the columns of the key, how many keys there are, and what its blocks contain."""

    names: tuple[str, ...]
    count: int
    blocks: tuple[tuple[int, int], ...]  # first hash and CRC-32C of each

    BLOCK_KEYS: ClassVar = 4096
    KEY_BYTES: ClassVar = 12
    LAYOUT: ClassVar = struct.Struct("<QI")

    @property
    def size(self) -> int:
        """The size of the key index, without this section."""
        return self.KEY_BYTES * self.count

    def encode(self) -> bytes:
        out = bytearray()
        put_varint(out, len(self.names))
        for name in self.names:
            put_bytes(out, name.encode())
        put_varint(out, self.count)
        return bytes(out) + b"".join(self.LAYOUT.pack(*block) for block in self.blocks)

    @classmethod
    def decode(cls, body: bytes) -> KeySection:
        cursor = Cursor(body)
        try:
            names = tuple(cursor.bytes().decode() for _ in range(cursor.varint()))
        except UnicodeDecodeError as error:
            raise CorruptFileError("a column of the key index is not UTF-8") from error
        count = cursor.varint()
        rest = cursor.take(cursor.remaining)
        num_blocks = -(-count // cls.BLOCK_KEYS)
        if not names or len(rest) != num_blocks * cls.LAYOUT.size:
            raise CorruptFileError(
                f"the section of the key index has {len(rest)} bytes for {num_blocks} blocks"
            )
        return cls(names, count, tuple(cls.LAYOUT.iter_unpack(rest)))


@dataclass(frozen=True, slots=True)
class Annex:
    """The known sections of an annex; None for each that is missing."""

    checksums: Checksums | None = None
    attached: bytes | None = None
    writer: str | None = None
    blocks: BlockChecksums | None = None
    dictionaries: int | None = None  # their size
    common: bytes | None = None
    base: Base | None = None
    keys: KeySection | None = None
    size: int = field(default=0, compare=False)  # in the file that it was read from

    TRAILER: ClassVar = struct.Struct("<II4s")  # CRC-32C, length, magic

    def encode(self) -> bytes:
        out = bytearray()
        if self.checksums is not None:
            body = Checksums.LAYOUT.pack(self.checksums.index, self.checksums.footer)
            _put_section(out, Section.CHECKSUMS, body)
        if self.attached is not None:
            _put_section(out, Section.ATTACHED, self.attached)
        if self.writer is not None:
            _put_section(out, Section.WRITER, self.writer.encode())
        if self.blocks is not None:
            _put_section(out, Section.BLOCKS, self.blocks.encode())
        if self.base is not None:
            _put_section(out, Section.BASE, self.base.encode())
        if self.dictionaries is not None:
            length = bytearray()
            put_varint(length, self.dictionaries)
            _put_section(out, Section.DICTIONARIES, bytes(length))
        if self.common is not None:
            _put_section(out, Section.COMMON, self.common)
        if self.keys is not None:
            _put_section(out, Section.KEYS, self.keys.encode())
        return bytes(out) + self.TRAILER.pack(
            crc32c(out), len(out) + self.TRAILER.size, ANNEX_MAGIC
        )

    @classmethod
    def size_in(cls, trailer: bytes) -> int:
        """Return the length of the annex that ends with `trailer`; 0 if that is not an annex."""
        if len(trailer) != cls.TRAILER.size:
            return 0
        _, size, magic = cls.TRAILER.unpack(trailer)
        return int(size) if magic == ANNEX_MAGIC else 0

    @classmethod
    def decode(cls, data: bytes, offset: int = 0) -> Annex:
        """Decode the annex `data`, which begins at `offset` in a file."""
        body = data[: -cls.TRAILER.size]
        stated, _, _ = cls.TRAILER.unpack(data[-cls.TRAILER.size :])
        computed = crc32c(body)
        if stated != computed:
            raise CorruptFileError(f"the checksum is {computed:08x}, but {stated:08x} is stored")
        found: dict[int, bytes] = {}
        cursor = Cursor(body, offset)
        while cursor.remaining:
            start = offset + cursor.pos
            kind = cursor.uint8()
            if kind in found:
                raise CorruptFileError(
                    f"there is a second section of kind {kind} at offset {start}"
                )
            found[kind] = cursor.bytes()
        return cls(
            _checksums(found.get(Section.CHECKSUMS)),
            found.get(Section.ATTACHED),
            _writer(found.get(Section.WRITER)),
            BlockChecksums.decode(found[Section.BLOCKS]) if Section.BLOCKS in found else None,
            _dictionaries(found.get(Section.DICTIONARIES)),
            found.get(Section.COMMON),
            Base.decode(found[Section.BASE]) if Section.BASE in found else None,
            KeySection.decode(found[Section.KEYS]) if Section.KEYS in found else None,
            len(data),
        )


def _put_section(out: bytearray, kind: Section, body: bytes) -> None:
    out.append(kind)
    put_bytes(out, body)


def _checksums(body: bytes | None) -> Checksums | None:
    if body is None:
        return None
    if len(body) != Checksums.LAYOUT.size:
        raise CorruptFileError(
            f"the section with checksums has {len(body)} bytes, not {Checksums.LAYOUT.size}"
        )
    return Checksums(*Checksums.LAYOUT.unpack(body))


def _dictionaries(body: bytes | None) -> int | None:
    if body is None:
        return None
    cursor = Cursor(body)
    size = cursor.varint()
    if cursor.remaining:
        raise CorruptFileError("the section with the size of the dictionaries is too long")
    return size


def _writer(body: bytes | None) -> str | None:
    try:
        return None if body is None else body.decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError("the name of the writer is not UTF-8") from error
