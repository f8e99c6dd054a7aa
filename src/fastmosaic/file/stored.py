"""What a file stores, without decoding the values: pages, their sizes, sections of the annex.

A page in a paged bucket has bytes of its own in the file: its slot and its part of the directory.
The pages of a monolithic bucket are compressed together; each is assigned a share of the compressed
bytes, in proportion to its uncompressed size. In both cases the bytes of all pages add up to the
size of the bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import CorruptFileError, Place, located
from ..format import bucket as buckets, list_blocks
from ..format.annex import Annex
from ..format.bucket import Directory, Layout, PageFault, Pages
from ..format.index import Bucket
from ..format.metadata import FileMetaData
from ..format.nested import BucketColumns, Node
from ..format.schema import SchemaBlock
from ..format.types import Kind
from ..format.wire import MAX_VARINT_BYTES, Compression, Cursor
from ..memory import Memory
from ..storage.source import Source, read_ranges


class Encoding(StrEnum):
    """How a page encodes its values."""

    PLAIN = "plain"
    CONST = "const"
    DICT = "dict"
    ALL_NULL = "all_null"
    ARRAY_BLOCK = "array_block"  # PLAIN in the file, of a column of this type


_BY_NUMBER: Final = (Encoding.PLAIN, Encoding.CONST, Encoding.DICT, Encoding.ALL_NULL)


@dataclass(frozen=True, slots=True)
class Page:
    """One flat column in a row group. It keeps the bytes of its bucket or slot in memory.

    path          the column; inside a list or map, followed by the names of the fields
    type          of the values; `lengths` for a list or map, whose elements have their own pages
    stored_bytes  size in the file
    size          uncompressed size: dictionary, null bitmap and data; plus 2 in a paged bucket
    num_entries   number of dictionary entries; 1 for a constant
    entry_bytes   uncompressed size of the dictionary entries or the constant
    """

    path: str
    type: str
    encoding: Encoding
    num_rows: int
    null_count: int
    stored_bytes: int
    size: int
    num_entries: int
    entry_bytes: int
    _pages: Pages
    _number: int  # of this page among `_pages`
    _node: Node

    def entries(self) -> pa.Array:
        """Return the dictionary entries in their order, or the constant."""
        if not self.num_entries:
            return pa.nulls(0, self._node.arrow)
        try:
            return self._pages.entries(self._number, self._node.arrow, Memory())
        except PageFault as fault:
            raise CorruptFileError(str(fault), column=self.path) from fault

    def counts(self) -> list[int]:
        """Return how many rows have each of the entries."""
        try:
            return self._pages.entry_counts(self._number)
        except PageFault as fault:
            raise CorruptFileError(str(fault), column=self.path) from fault


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column in a row group: its page, followed by the pages of the columns inside it."""

    position: int
    bucket: int
    layout: Layout  # of the bucket; if monolithic, `stored_bytes` are shares
    pages: tuple[Page, ...]

    @property
    def stored_bytes(self) -> int:
        return sum(page.stored_bytes for page in self.pages)

    @property
    def encoding(self) -> Encoding:
        return self.pages[0].encoding


def stored_columns(
    source: Source, metadata: FileMetaData, group: int, positions: Iterable[int] | None = None
) -> Iterator[StoredColumn]:
    """Yield the columns at `positions`, or all columns, as a row group stores them, sorted."""
    with located(file=source.name):
        opened = _open(source, metadata, group, positions)
        slots = iter(read_ranges(source, [span for one in opened for span in one.slots]))
        for one in opened:
            with located(**one.wanted.place):
                yield from one.stored([next(slots) for _ in one.slots])


def stored_bytes(
    source: Source, metadata: FileMetaData, group: int, positions: Iterable[int] | None = None
) -> dict[int, int]:
    """Return the bytes of the columns in a row group, by position.

    Only the directory of a paged bucket is read, but a monolithic one is read completely.
    """
    sizes: dict[int, int] = {}
    with located(file=source.name):
        for one in _open(source, metadata, group, positions):
            with located(**one.wanted.place):
                sizes |= one.bytes_of_columns()
    return sizes


def paged_sizes(source: Source, metadata: FileMetaData, group: int) -> dict[int, int]:
    """Return the uncompressed size of each paged bucket of a row group, by bucket number."""
    block = metadata.schema_block
    numbers = [one.index for one in metadata.buckets(group) if one.layout == Layout.PAGED]
    positions = [position for number in numbers for position in block.bucket_columns(number)]
    sizes: dict[int, int] = {}
    with located(file=source.name):
        opened = _open(source, metadata, group, positions)
        fronts = [
            (offset, min(size, MAX_VARINT_BYTES)) for one in opened for offset, size in one.slots
        ]
        read = iter(read_ranges(source, fronts))
        for one in opened:
            with located(**one.wanted.place):
                slots = [next(read) for _ in one.slots]
                sizes[one.wanted.number] = sum(Cursor(slot).varint() for slot in slots if slot.size)
    return sizes


class AnnexSection(NamedTuple):
    """A section of the annex, and where its content is in the file."""

    kind: int
    offset: int
    size: int


def annex_sections(source: Source, metadata: FileMetaData) -> list[AnnexSection]:
    """Return the sections of the annex, including those of unknown kinds."""
    if metadata.annex is None:
        return []
    size = metadata.annex.size - Annex.TRAILER.size
    start = metadata.footer.schema_offset - metadata.annex.size
    sections = []
    with located(file=source.name):
        cursor = Cursor(source.read_at(start, size), start)
        while cursor.remaining:
            kind, length = cursor.uint8(), cursor.varint()
            sections.append(AnnexSection(kind, start + cursor.pos, length))
            cursor.take(length)
    return sections


# ---- buckets


def _open(
    source: Source, metadata: FileMetaData, group: int, positions: Iterable[int] | None
) -> list[_Monolithic | _Paged]:
    """Read the buckets of the columns at `positions`; only the directory of paged ones."""
    block = metadata.schema_block
    by_bucket: dict[int, list[int]] = {}
    for position in range(block.num_columns) if positions is None else sorted(set(positions)):
        by_bucket.setdefault(block.bucket_of(position), []).append(position)
    wanted = [
        _Wanted(block, group, number, metadata.bucket(group, number), positions)
        for number, positions in by_bucket.items()
    ]
    opened: list[_Monolithic | _Paged] = []
    fronts = read_ranges(source, [one.front for one in wanted])
    for one, data in zip(wanted, fronts, strict=True):
        with located(**one.place):
            if one.bucket.layout == Layout.PAGED:
                opened.append(_Paged(one, metadata.rows_of(group), data))
            else:
                opened.append(_Monolithic(one, metadata.rows_of(group), data, metadata.codec))
    return opened


class _Wanted:
    """The requested columns of a bucket."""

    def __init__(
        self,
        schema: SchemaBlock,
        group: int,
        number: int,
        bucket: Bucket,
        positions: Sequence[int],
    ) -> None:
        self.bucket = bucket
        self.number = number
        self.place: Place = {"row_group": group, "bucket": number, "offset": bucket.offset}
        self.columns = BucketColumns(schema, number)
        self._schema = schema
        first = self.columns.positions.start
        self._roots = {position: self.columns.node(position - first) for position in positions}

    @property
    def front(self) -> tuple[int, int]:
        """Offset and size of the first read: the directory of a paged bucket, or all of it."""
        size = self.bucket.compressed_size
        if self.bucket.layout == Layout.PAGED:
            size = min(size, Directory.size(self.columns))
        return self.bucket.offset, size

    @property
    def flats(self) -> list[int]:
        """The flat columns of the requested columns."""
        return [node.flat for root in self._roots.values() for node in root.walk()]

    def sums(self, flat_bytes: Sequence[int]) -> dict[int, int]:
        """Return the bytes of each column, from those of its flat columns."""
        return {
            position: sum(flat_bytes[node.flat] for node in root.walk())
            for position, root in self._roots.items()
        }

    def stored(
        self, pages: Pages, numbers: Sequence[int], flat_bytes: Sequence[int]
    ) -> Iterator[StoredColumn]:
        """Yield the columns; `numbers` are those of the pages of `flats`."""
        rest = iter(numbers)
        for position, root in self._roots.items():
            paths = _paths(self._schema.name(position), root)
            yield StoredColumn(
                position,
                self.number,
                self.bucket.layout,
                tuple(
                    _page(pages, next(rest), path, node, flat_bytes[node.flat])
                    for path, node in zip(paths, root.walk(), strict=True)
                ),
            )


def _page(pages: Pages, number: int, path: str, node: Node, stored: int) -> Page:
    encoding = _BY_NUMBER[pages.encoding(number)]
    num_rows, null_count = pages.num_rows(number), pages.null_count(number)
    if node.type.kind == Kind.ARRAY_BLOCK:
        block = list_blocks.opened(pages.block(number), node.type, num_rows)
        if block is not None:
            encoding = Encoding.ARRAY_BLOCK
            null_count = list_blocks.check(block, node.type)
    return Page(
        path,
        "lengths" if node.children else str(node.type.arrow),
        encoding,
        num_rows,
        null_count,
        stored,
        pages.size(number),
        pages.num_entries(number),
        pages.entry_bytes(number),
        pages,
        number,
        node,
    )


def _paths(name: str, node: Node) -> list[str]:
    """Return the path of a column, followed by those of the columns inside it."""
    arrow = node.type.arrow
    inside: list[str] = []
    if node.children:
        inside = (
            [arrow.key_field.name, arrow.item_field.name]
            if arrow_types.is_map(arrow)
            else [arrow.value_field.name]
        )
    return [
        name,
        *(
            path
            for inner, child in zip(inside, node.children, strict=True)
            for path in _paths(f"{name}.{inner}", child)
        ),
    ]


class _Monolithic:
    """A monolithic bucket, which is read and decompressed as a whole."""

    slots: Final = ()

    def __init__(self, wanted: _Wanted, num_rows: int, data: pa.Buffer, codec: Compression) -> None:
        self.wanted = wanted
        self._num_rows = num_rows
        self._data = data
        self._codec = codec

    def stored(self, _: Sequence[pa.Buffer]) -> Iterator[StoredColumn]:
        pages = self._pages()
        yield from self.wanted.stored(pages, self.wanted.flats, self._shares(pages))

    def bytes_of_columns(self) -> dict[int, int]:
        return self.wanted.sums(self._shares(self._pages()))

    def _shares(self, pages: Pages) -> list[int]:
        sizes = [pages.size(flat) for flat in range(pages.count)]
        if not any(sizes):
            sizes = [1] * pages.count  # the bucket contains only the flags of its columns
        total = self.wanted.bucket.compressed_size
        ends = list(accumulate(sizes, initial=0))
        return [
            total * end // ends[-1] - total * start // ends[-1] for start, end in pairwise(ends)
        ]

    def _pages(self) -> Pages:
        columns, count = self.wanted.columns, self.wanted.columns.num_flat
        if not self._num_rows:
            return buckets.open_slots([None] * count, columns, range(count), [0] * count)
        data = self._data
        if self._codec == Compression.ZSTD:
            size = self.wanted.bucket.uncompressed_size
            data = buckets.decompress_bucket(data, size, columns, self._num_rows)
        return buckets.open_monolithic(data, columns, self._num_rows, count)


class _Paged:
    """A paged bucket whose directory has been read."""

    def __init__(self, wanted: _Wanted, num_rows: int, front: pa.Buffer) -> None:
        self.wanted = wanted
        bucket = wanted.bucket
        self._directory = Directory.decode(front, wanted.columns, num_rows, bucket.compressed_size)
        offsets = self._directory.offsets
        self._flats = wanted.flats
        spans = [offsets[flat : flat + 2] for flat in self._flats]
        self.slots = [(bucket.offset + start, end - start) for start, end in spans]

    def stored(self, slots: Sequence[pa.Buffer]) -> Iterator[StoredColumn]:
        columns, rows = self.wanted.columns, self._directory.rows
        decoded = [
            buckets.decode_slot(slot, columns, flat, rows[flat]) if slot.size else None
            for slot, flat in zip(slots, self._flats, strict=True)
        ]
        pages = buckets.open_slots(decoded, columns, self._flats, rows)
        yield from self.wanted.stored(pages, range(pages.count), self._bytes())

    def bytes_of_columns(self) -> dict[int, int]:
        return self.wanted.sums(self._bytes())

    def _bytes(self) -> list[int]:
        """Return the size of each flat column: its slot, and its part of the directory."""
        columns = self.wanted.columns
        sizes = [4 + end - start for start, end in pairwise(self._directory.offsets)]
        for flat in range(columns.num_columns, columns.num_flat):
            sizes[flat] += 4
        if columns.num_children:
            sizes[columns.num_columns] += 2
        return sizes
