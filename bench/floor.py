"""The physical floor: what the blocks cost that a reader of a Mosaic file cannot do without.

Opening the file, reading these blocks and decompressing them, and nothing else: no parsing, no
decoding, no Arrow. Where the blocks are is found out beforehand.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import zstandard

import fastmosaic as fm

# Readers do not know where the metadata begins, and ask for so much of the end.
TAIL_BYTES = 64 << 10
FOOTER = struct.Struct(">QQIIBBH4s")

Span = tuple[int, int]  # the first byte, and the one after the last


def columns_floor(
    path: str,
    columns: Sequence[str],
    where: tuple[str, int] | None = None,
    use_threads: bool = False,
) -> Callable[[], Any]:
    """The work for some columns: end of the file, schema, and of each column directory and slot.

    It returns the decompressed blocks, or with `use_threads` decompresses them on all cores.

    A column of a monolithic bucket takes the whole bucket. With `where`, a column and a value,
    that column is read as well, and only in row groups whose statistics allow the value.
    """
    blocks = _Blocks(path)
    blocks.add_metadata()
    metadata = fm.read_metadata(path)
    needed = {*columns, where[0]} if where else set(columns)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        known = group.statistics[where[0]] if where else None
        if where and known and not known.min <= where[1] <= known.max:
            continue
        for bucket in group.buckets:
            if wanted := needed.intersection(bucket.columns):
                blocks.add_bucket(bucket, wanted)
    return blocks.all_at_once() if use_threads else blocks.one_by_one()


def whole_floor(path: str) -> Callable[[], None]:
    """The work for the whole table: one read, then all blocks decompressed on all cores."""
    blocks = _Blocks(path)
    blocks.add_metadata()
    metadata = fm.read_metadata(path)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for bucket in group.buckets:
            blocks.add_bucket(bucket, bucket.columns)
    return blocks.all_at_once()


@dataclass
class _Blocks:
    """The bytes to read from a file, and the zstd frames in them."""

    path: str
    spans: list[Span] = field(default_factory=list)
    frames: list[Span] = field(default_factory=list)

    def add_metadata(self) -> None:
        """The end of the file, and in it the compressed schema."""
        size = os.path.getsize(self.path)
        index, schema, *_ = FOOTER.unpack(self._read((size - FOOTER.size, size)))
        self.spans.append((min(schema, max(0, size - TAIL_BYTES)), size))
        self.frames.append((schema + 4, index))  # after the length, in 4 bytes

    def add_bucket(self, bucket: Any, wanted: Collection[str]) -> None:
        """What some columns of a bucket need: all of it, or if it is paged their slots.

        A paged bucket begins with the size of each slot as u32le; 0 means that all is null.
        """
        start, end = bucket.offset, bucket.offset + bucket.compressed_size
        if bucket.layout == "monolithic":
            self.spans.append((start, end))
            self.frames.append((start, end))
            return
        names = bucket.columns
        directory = start, start + 4 * len(names)
        self.spans.append(directory)
        sizes = struct.unpack(f"<{len(names)}I", self._read(directory))
        offsets = accumulate(sizes, initial=directory[1])
        for name, (first, last) in zip(names, pairwise(offsets), strict=True):
            if name in wanted and first < last:
                self.spans.append((first, last))
                self.frames.append((first + _varint_size(self._read((first, first + 5))), last))

    def one_by_one(self) -> Callable[[], list[bytes]]:
        decompress = zstandard.ZstdDecompressor().decompress
        places = self._places()

        def work() -> list[bytes]:
            return [decompress(frame) for frame in self._load(places)]

        return work

    def all_at_once(self) -> Callable[[], None]:
        decompress = zstandard.ZstdDecompressor().multi_decompress_to_buffer
        places = self._places()

        def work() -> None:
            decompress(list(self._load(places)), threads=-1)

        return work

    def _places(self) -> list[tuple[int, int, int]]:
        """Each frame by the number of its span and its place there; spans that touch are merged."""
        merged: list[Span] = []
        for start, end in sorted(self.spans):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        self.spans = merged
        places = []
        number = 0
        for start, end in sorted(self.frames):
            while end > merged[number][1]:
                number += 1
            places.append((number, start - merged[number][0], end - merged[number][0]))
        return places

    def _load(self, places: list[tuple[int, int, int]]) -> Iterator[memoryview]:
        file = os.open(self.path, os.O_RDONLY)
        try:
            data = [memoryview(os.pread(file, end - start, start)) for start, end in self.spans]
        finally:
            os.close(file)
        return (data[number][start:end] for number, start, end in places)

    def _read(self, span: Span) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(span[0])
            return file.read(span[1] - span[0])


def _varint_size(data: bytes) -> int:
    return next(i for i, byte in enumerate(data, 1) if byte < 0x80)
