"""A Mosaic file in parts that can be changed, and how it is put together again.

`parse` decompresses all parts of a file. `assemble` compresses them and puts right all that depends
on them: frames, lengths, offsets, the footer, and the checksums of frames and of the annex. A
mutation that wants something wrong says so in a field of its own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from io import BytesIO

import reference
import zstandard
from reference import FOOTER, NONE, ZSTD

from fastmosaic.format.wire import crc32c

from . import tokens
from .tokens import Tokens

MAX_PART = 1 << 18  # a part that decompresses to more stays compressed
MAX_BUCKETS = 5000
MAGIC = b"MOSX"
INDEX_SUMS, TYPES, BLOCK_SUMS, DICTIONARIES, COMMON = 1, 2, 4, 6, 7  # sections of the annex
COMPUTED = (INDEX_SUMS, BLOCK_SUMS, DICTIONARIES)
HAS_TYPES = 2  # a flag of the footer

Section = tuple[int, Tokens | None]  # None: checksums and sizes that `assemble` computes


@dataclass
class Frame:
    """How a part is compressed, and what is wrong with it."""

    is_stored: bool = False  # the part is what the file has, compressed or not
    checksum: bool = False
    content_size: bool = True
    pieces: int = 1  # frames
    before: bytes = b""
    after: bytes = b""
    zeros: int = 0  # appended to the content
    cut: int = 0  # bytes missing at the end
    declared: int | None = None  # another size before compression

    def pack(self, content: bytes, compression: int) -> tuple[bytes, int]:
        """Return the bytes of the file, and the size before compression."""
        size = len(content) + self.zeros if self.declared is None else self.declared
        if self.is_stored:
            return content, size
        if compression != ZSTD:
            data = content + bytes(min(self.zeros, MAX_PART))
        elif self.zeros:
            data = with_zeros(content, self.zeros)
        else:
            step = max(1, -(-len(content) // self.pieces))
            parts = [content[i : i + step] for i in range(0, len(content), step)] or [b""]
            data = b"".join(_compressor(self.checksum, self.content_size)(one) for one in parts)
        data = self.before + data + self.after
        return data[: len(data) - self.cut] if self.cut else data, size


@dataclass
class Block:
    """A bucket in a row group."""

    number: int
    tokens: Tokens = field(default_factory=list)  # of a monolithic bucket
    slots: list[Tokens | None] | None = None  # of a paged bucket
    child_rows: list[int] = field(default_factory=list)
    frame: Frame = field(default_factory=Frame)
    moved: int = 0  # what is wrong with the offset
    grown: int = 0  # what is wrong with the size

    def pack(self, compression: int) -> tuple[bytes, int]:
        if self.slots is None:
            return self.frame.pack(tokens.encode(self.tokens), compression)
        slots = [b"" if slot is None else self._slot(slot) for slot in self.slots]
        counts = [count & 0xFFFFFFFF for count in self.child_rows]
        header = struct.pack(f"<H{len(counts)}I", len(counts), *counts) if counts else b""
        directory = struct.pack(f"<{len(slots)}I", *map(len, slots))
        return header + directory + b"".join(slots), self.frame.declared or 0

    def _slot(self, slot: Tokens) -> bytes:
        data, size = self.frame.pack(tokens.encode(slot), ZSTD)
        return data if self.frame.is_stored else reference.uv(size) + data


@dataclass
class Group:
    """A row group."""

    rows: int
    blocks: list[Block]
    statistics: Tokens
    listed: int | None = None  # another number of buckets


@dataclass
class File:
    compression: int
    version: int
    flags: int
    schema: Tokens
    frame: Frame  # of the schema block
    groups: list[Group]
    annex: list[Section] | None = None
    padding: bytes = b""  # after the last bucket
    dictionaries: File | None = None  # before the annex
    num_buckets: int | None = None  # another one than the schema block has
    num_groups: int | None = None
    moved: tuple[int, int] = (0, 0)  # what is wrong with the offsets of index and schema block
    annex_sum: int = 0  # what is wrong with the checksum of the annex
    tail: Tokens = field(default_factory=list)  # after the index

    def parts(self) -> list[Tokens]:
        """Return all lists of tokens, which a mutation may change."""
        found = [self.schema]
        for group in self.groups:
            found.append(group.statistics)
            for block in group.blocks:
                found += [block.tokens] if block.slots is None else filter(None, block.slots)
        found += [section for _, section in self.annex or () if section is not None]
        return found if self.dictionaries is None else found + self.dictionaries.parts()


def _compressor(checksum: bool, content_size: bool):
    made = zstandard.ZstdCompressor(
        level=1, write_checksum=checksum, write_content_size=content_size
    )
    return made.compress


def with_zeros(content: bytes, count: int) -> bytes:
    """Return a frame of `content` and `count` zeros, which take four bytes for each 128 kB."""
    size = len(content) + count
    step = 1 << 17  # the largest block of zstd
    parts = [content[i : i + step] for i in range(0, len(content), step)]
    blocks = [(0, len(part), part) for part in parts]
    blocks += [(1, min(step, count - i), b"\0") for i in range(0, count, step)]
    out = [b"\x28\xb5\x2f\xfd\xa0", (size & 0xFFFFFFFF).to_bytes(4, "little")]
    for i, (kind, length, data) in enumerate(blocks):
        header = length << 3 | kind << 1 | (i == len(blocks) - 1)
        out += [header.to_bytes(3, "little"), data]
    return b"".join(out)


# ---- parse


def decompressed(data: bytes) -> bytes:
    reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    try:
        content = reader.read(MAX_PART + 1)
    except zstandard.ZstdError as error:
        raise ValueError("broken frame") from error
    if len(content) > MAX_PART or not content:
        raise ValueError("too large, or not a frame")
    return content


def _frame(data: bytes) -> Frame:
    parameters = zstandard.get_frame_parameters(data)
    unknown = parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN
    return Frame(checksum=parameters.has_checksum, content_size=not unknown)


def parse(data: bytes) -> File:
    """Return the parts of a file; raise ValueError if there is no schema to go by."""
    reference.require(len(data) >= FOOTER.size, "too short")
    index_at, schema_at, num_buckets, num_groups, compression, version, flags, _ = FOOTER.unpack(
        data[-FOOTER.size :]
    )
    reference.require(schema_at + 4 <= index_at <= len(data) - FOOTER.size, "offsets")
    body, frame = data[schema_at + 4 : index_at], Frame()
    if compression == ZSTD:
        body, frame = decompressed(body), _frame(body)
    parts = tokens.parsed(body, tokens.schema)
    reference.require(tokens.size_of_names(parts) < MAX_PART, "long names")
    schema = reference.decode_schema(body)
    reference.require(schema.num_buckets <= MAX_BUCKETS, "too many buckets")
    types = reference.bucket_types(schema)
    file = File(compression, version, flags, parts, frame, [], num_buckets=None)
    if num_buckets != schema.num_buckets:
        file.num_buckets = num_buckets
    flat = [one.type for one in schema.fields]
    index = BytesIO(data[index_at : -FOOTER.size])
    end = 0
    for _ in range(min(num_groups, 64)):
        rows, listed = reference.read_uv(index), reference.read_uv(index)
        group = Group(rows, [], [("uv", 0)])
        reference.require(listed <= len(types), "buckets")
        for _ in range(listed):
            number, offset = reference.read_uv(index), int.from_bytes(reference.take(index, 8))
            size, raw = reference.read_uv(index), reference.read_uv(index)
            reference.require(number < len(types), "number of a bucket")
            stored = data[offset : offset + size]
            group.blocks.append(_block(number, stored, raw, types[number], rows, compression))
            end = max(end, offset + len(stored))
        start = index.tell()
        try:
            group.statistics = tokens.statistics(index, flat, rows)
        except tokens.BROKEN:
            index.seek(start)
            group.statistics = [("raw", index.read())]
        file.groups.append(group)
    file.tail = [("raw", rest)] if (rest := index.read()) else []
    if num_groups != len(file.groups):
        file.num_groups = num_groups
    _parse_annex(file, data, schema_at)
    return file


def _block(number: int, stored: bytes, raw: int, types: list, rows: int, compression: int) -> Block:
    physical = reference.flatten_types(types)
    try:
        if raw == 0:
            child_rows, pages = _split_paged(stored, len(physical), len(types))
            counts = [rows] * len(types) + child_rows
            slots = [
                tokens.parsed(one, tokens.page, arrow, count) if one else None
                for one, arrow, count in zip(pages, physical, counts, strict=True)
            ]
            return Block(number, [], slots, child_rows)
        content = decompressed(stored) if compression == ZSTD else stored
        frame = _frame(stored) if compression == ZSTD else Frame()
        if len(content) != raw:
            frame.declared = raw
        made = tokens.parsed(content, tokens.monolithic, physical, len(types), rows)
    except tokens.BROKEN:
        return Block(number, [("raw", stored)], frame=Frame(is_stored=True, declared=raw))
    return Block(number, made, frame=frame)


def _split_paged(
    stored: bytes, num_columns: int, num_primary: int
) -> tuple[list[int], list[bytes]]:
    """Do what `reference.split_paged` does, but decompress only small pages."""
    stream = BytesIO(stored)
    num_children = num_columns - num_primary
    if num_children:
        reference.require(reference.take(stream, 2) == struct.pack("<H", num_children), "children")
    counts = struct.unpack(f"<{num_children}I", reference.take(stream, 4 * num_children))
    sizes = struct.unpack(f"<{num_columns}I", reference.take(stream, 4 * num_columns))
    slots = [reference.take(stream, size) for size in sizes]
    reference.require(not stream.read(1), "bytes after the slots")
    pages = []
    for slot in slots:
        declared, at = reference.get_uv(slot, 0) if slot else (0, 0)
        content = decompressed(slot[at:]) if slot else b""
        reference.require(len(content) == declared, "size of a page")
        pages.append(content)
    return list(counts), pages


def _parse_annex(file: File, data: bytes, end: int) -> None:
    if data[end - 4 : end] != MAGIC:
        return
    size = int.from_bytes(data[end - 8 : end - 4], "little")
    stream = BytesIO(data[max(0, end - size) : end - 12])
    sections: list[Section] = []
    try:
        while kind := stream.read(1):
            body = reference.read_sized(stream)
            sections.append((kind[0], None if kind[0] in COMPUTED else [("raw", body)]))
            if kind[0] == DICTIONARIES:
                length, start = reference.get_uv(body, 0)[0], max(0, end - size)
                file.dictionaries = parse(data[max(0, start - length) : start])
    except tokens.BROKEN:
        return
    file.annex = sections


# ---- assemble


def assemble(file: File) -> bytes:
    """Return the bytes of a file, whose lengths, offsets and checksums are right."""
    out = bytearray()
    index = bytearray()
    sums = []
    for group in file.groups:
        listed = len(group.blocks) if group.listed is None else group.listed
        index += reference.uv(group.rows) + reference.uv(listed)
        crcs = b""
        for block in group.blocks:
            data, raw = block.pack(file.compression)
            offset, size = len(out) + block.moved, len(data) + block.grown
            index += reference.uv(block.number) + (offset % (1 << 64)).to_bytes(8)
            index += reference.uv(max(size, 0)) + reference.uv(max(raw, 0))
            crcs += crc32c(data).to_bytes(4, "little")
            out += data
        index += tokens.encode(group.statistics)
        sums.append(crc32c(crcs))
    index += tokens.encode(file.tail)
    out += file.padding
    inner = b"" if file.dictionaries is None else assemble(file.dictionaries)
    out += inner
    body, size = file.frame.pack(tokens.encode(file.schema), file.compression)
    schema = (size & 0xFFFFFFFF).to_bytes(4) + body
    if file.annex is not None:
        # The checksums of the footer need the length of the annex, and have themselves a fixed one.
        length = len(_annex(file, schema, sums, b"", b"", len(inner)))
        footer = _footer(file, len(out) + length, len(schema))
        out += _annex(file, schema, sums, bytes(index), footer, len(inner))
    footer = _footer(file, len(out), len(schema))
    return bytes(out) + schema + bytes(index) + footer


def _footer(file: File, schema_at: int, schema_size: int) -> bytes:
    num_buckets = file.num_buckets
    if num_buckets is None:
        kind, stored = file.schema[1] if len(file.schema) > 1 else ("", 0)
        num_buckets = stored if kind == "uv" else 1
    num_groups = len(file.groups) if file.num_groups is None else file.num_groups
    return FOOTER.pack(
        (schema_at + schema_size + file.moved[0]) % (1 << 64),
        (schema_at + file.moved[1]) % (1 << 64),
        num_buckets & 0xFFFFFFFF,
        num_groups & 0xFFFFFFFF,
        file.compression & 0xFF,
        file.version & 0xFF,
        file.flags & 0xFFFF,
        b"MOSA",
    )


def _annex(
    file: File, schema: bytes, sums: list[int], index: bytes, footer: bytes, inner: int
) -> bytes:
    out = b""
    for kind, section in file.annex or ():
        if section is not None:
            body = tokens.encode(section)
        elif kind == INDEX_SUMS:
            body = struct.pack("<II", crc32c(index), crc32c(footer[:-4]))
        elif kind == DICTIONARIES:
            body = reference.uv(inner)
        else:
            body = struct.pack(f"<{1 + len(sums)}I", crc32c(schema), *sums)
        out += bytes([kind]) + reference.sized(body)
    crc = crc32c(out) ^ file.annex_sum
    return out + struct.pack("<II", crc, len(out) + 12) + MAGIC


def recompressed(file: File) -> None:
    """Change the compression of a file; paged buckets stay as they are, which is then wrong."""
    file.compression = NONE if file.compression == ZSTD else ZSTD
