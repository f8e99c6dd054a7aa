"""What is stored, without decoding it: the pages of columns, their bytes, the sections of the annex.

A page of a paged bucket has bytes of its own: its slot, and its part of the directory. Those of a
monolithic bucket are compressed together; a page has a share of them, in proportion to its bytes
before. Either way, the bytes of all pages are those of the bucket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import CorruptFileError, Place, located
from ..format import _decode, bucket as buckets, list_blocks as arrays
from ..format.annex import Annex
from ..format.bucket import Directory, Layout
from ..format.index import Bucket
from ..format.metadata import FileMetaData
from ..format.nested import BucketColumns, Node
from ..format.schema import SchemaBlock
from ..format.types import WIDTH, Kind
from ..format.wire import Compression, Cursor, decompress, put_varint
from ..storage.source import Source, read_ranges


class Encoding(StrEnum):
    """How a page holds its values."""

    PLAIN = "plain"
    CONST = "const"
    DICT = "dict"
    ALL_NULL = "all_null"
    ARRAY_BLOCK = "array_block"  # in the file it is PLAIN, of a column of that type


_BY_NUMBER: Final = (Encoding.PLAIN, Encoding.CONST, Encoding.DICT, Encoding.ALL_NULL)

_MAX_VARINT_BYTES: Final = 5


@dataclass(frozen=True, slots=True)
class Page:
    """A flat column in a row group. It holds on to the bytes of its page.

    path          the column, then for what is inside a list or map the names of the fields
    type          of the values; `lengths` for a list or map, whose elements are pages of their own
    stored_bytes  in the file
    size          before compression: value or entries, null bitmap, data; in a paged bucket two more
    num_entries   of a dictionary; 1 of a constant
    values        the entries, or the constant
    """

    path: str
    type: str
    encoding: Encoding
    num_rows: int
    null_count: int
    stored_bytes: int
    size: int
    num_entries: int
    values: memoryview
    _data: memoryview
    _node: Node

    def entries(self) -> pa.Array:
        """The entries of the dictionary in their order, or the constant."""
        plain = bytes(2) + self.values
        kind = Kind.INT32 if self._node.children else self._node.type.kind
        return self._decoded(plain, kind, self.num_entries, self._node.arrow)

    def counts(self) -> list[int]:
        """How many rows have each of the entries."""
        num_values = self.num_rows - self.null_count
        if self.num_entries < 2:
            return [num_values] * self.num_entries
        # As a dictionary of numbers, so that the kernel unpacks the indices.
        page = bytearray([_BY_NUMBER.index(Encoding.DICT), 0])
        put_varint(page, self.num_entries)
        page += struct.pack(f">{self.num_entries}i", *range(self.num_entries)) + self._data
        counts = [0] * self.num_entries
        for pair in self._decoded(page, Kind.INT32, num_values, pa.int32()).value_counts():
            counts[pair["values"].as_py()] = pair["counts"].as_py()
        return counts

    def _decoded(
        self, page: bytes | bytearray, kind: Kind, num_rows: int, arrow: pa.DataType
    ) -> pa.Array:
        try:
            (array,) = _decode.Pages.from_slots([page], bytes([kind]), [num_rows]).decode(
                [0], [arrow]
            )
        except _decode.PageFault as fault:
            raise CorruptFileError(f"{self.path}: {fault}") from fault
        return array


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column in a row group: its page, then those of what is inside of it."""

    position: int
    bucket: int
    layout: Layout  # of the bucket: if it is monolithic, bytes in the file are shares
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
    """The columns at `positions`, by default all, as a row group stores them; in sorted order."""
    with located(file=source.name):
        opened = _open(source, metadata, group, positions)
        slots = iter(read_ranges(source, [span for one in opened for span in one.slots]))
        for one in opened:
            with located(**one.wanted.place):
                yield from one.stored([next(slots) for _ in one.slots])


def stored_bytes(
    source: Source, metadata: FileMetaData, group: int, positions: Iterable[int] | None = None
) -> dict[int, int]:
    """Bytes of the columns in a row group, by position; of paged buckets only the front is read."""
    sizes: dict[int, int] = {}
    with located(file=source.name):
        for one in _open(source, metadata, group, positions):
            with located(**one.wanted.place):
                sizes |= one.bytes_of_columns()
    return sizes


def paged_sizes(source: Source, metadata: FileMetaData, group: int) -> dict[int, int]:
    """Bytes before compression of the pages of each paged bucket, by number."""
    block = metadata.schema_block
    numbers = [one.index for one in metadata.buckets(group) if one.layout == Layout.PAGED]
    positions = [position for number in numbers for position in block.bucket_columns(number)]
    sizes: dict[int, int] = {}
    with located(file=source.name):
        opened = _open(source, metadata, group, positions)
        fronts = [
            (offset, min(size, _MAX_VARINT_BYTES)) for one in opened for offset, size in one.slots
        ]
        read = iter(read_ranges(source, fronts))
        for one in opened:
            with located(**one.wanted.place):
                slots = [next(read) for _ in one.slots]
                sizes[one.wanted.number] = sum(Cursor(slot).varint() for slot in slots if slot.size)
    return sizes


class AnnexSection(NamedTuple):
    """A section of an annex: where its content is in the file."""

    kind: int
    offset: int
    size: int


def annex_sections(source: Source, metadata: FileMetaData) -> list[AnnexSection]:
    """The sections of the annex, also those of unknown kinds."""
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
    """The buckets of the columns at `positions`; of the paged ones, the front is read."""
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
    """The wanted columns of a bucket."""

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
        """Where to read first: the directory of a paged bucket, all of another one."""
        size = self.bucket.compressed_size
        if self.bucket.layout == Layout.PAGED:
            size = min(size, Directory.size(self.columns))
        return self.bucket.offset, size

    @property
    def nodes(self) -> list[Node]:
        return [node for root in self._roots.values() for node in root.walk()]

    def sums(self, flat_bytes: Sequence[int]) -> dict[int, int]:
        """Bytes of each column, by those of its flat columns."""
        return {
            position: sum(flat_bytes[node.flat] for node in root.walk())
            for position, root in self._roots.items()
        }

    def pages(self, parts: Sequence[_Parts], flat_bytes: Sequence[int]) -> Iterator[StoredColumn]:
        """The columns, by what their `nodes` are stored as."""
        rest = iter(parts)
        for position, root in self._roots.items():
            paths = _paths(self._schema.name(position), root)
            pages = [
                next(rest).page(path, node, flat_bytes[node.flat])
                for path, node in zip(paths, root.walk(), strict=True)
            ]
            yield StoredColumn(position, self.number, self.bucket.layout, tuple(pages))


def _paths(name: str, node: Node) -> list[str]:
    """What to call a column, and all that is inside of it."""
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
    """A monolithic bucket, whose pages are found by walking all of it."""

    slots: Final = ()

    def __init__(self, wanted: _Wanted, num_rows: int, data: pa.Buffer, codec: Compression) -> None:
        self.wanted = wanted
        self._num_rows = num_rows
        self._data = data
        self._codec = codec

    def stored(self, _: Sequence[pa.Buffer]) -> Iterator[StoredColumn]:
        parts = self._parts()
        wanted = [parts[node.flat] for node in self.wanted.nodes]
        yield from self.wanted.pages(wanted, self._shares(parts))

    def bytes_of_columns(self) -> dict[int, int]:
        return self.wanted.sums(self._shares(self._parts()))

    def _shares(self, parts: Sequence[_Parts]) -> list[int]:
        sizes = [one.size for one in parts]
        if not any(sizes):
            sizes = [1] * len(parts)  # there are flags of the columns, and no more
        total = self.wanted.bucket.compressed_size
        ends = list(accumulate(sizes, initial=0))
        return [
            total * end // ends[-1] - total * start // ends[-1] for start, end in pairwise(ends)
        ]

    def _parts(self) -> list[_Parts]:
        columns, num_rows = self.wanted.columns, self._num_rows
        if not num_rows:
            return [_Parts(Encoding.ALL_NULL, 0) for _ in range(columns.num_flat)]
        data = self._data
        if self._codec == Compression.ZSTD:
            data = decompress(data, self.wanted.bucket.uncompressed_size)
        # After this, all lengths in it are known to be right.
        pages = buckets.open_monolithic(data, columns, num_rows, columns.num_flat)
        walker = _Walker(data)
        for _ in range(2 + columns.num_children if columns.num_children else 0):
            walker.varint()
        count = columns.num_flat
        encodings = walker.take((2 * count + 7) // 8)
        nulls = walker.take((count + 7) // 8)
        parts = []
        for flat, kind in enumerate(columns.kinds):
            encoding = _BY_NUMBER[encodings[flat // 4] >> flat % 4 * 2 & 3]
            has_nulls = bool(nulls[flat // 8] >> flat % 8 & 1)
            parts.append(_Parts(encoding, pages.num_rows(flat), Kind(kind), has_nulls))
        for turn in (Encoding.CONST, Encoding.DICT):
            for one in parts:
                if one.encoding == turn:
                    one.take_values(walker)
        for one in parts:
            one.take_nulls(walker)
        for one in parts:
            one.take_data(walker)
        return parts


class _Paged:
    """A paged bucket, of which the front is at hand."""

    def __init__(self, wanted: _Wanted, num_rows: int, front: pa.Buffer) -> None:
        self.wanted = wanted
        bucket = wanted.bucket
        self._directory = Directory.decode(front, wanted.columns, num_rows, bucket.compressed_size)
        offsets = self._directory.offsets
        self._flats = [node.flat for node in wanted.nodes]
        spans = [offsets[flat : flat + 2] for flat in self._flats]
        self.slots = [(bucket.offset + start, end - start) for start, end in spans]

    def stored(self, slots: Sequence[pa.Buffer]) -> Iterator[StoredColumn]:
        columns, rows = self.wanted.columns, self._directory.rows
        pages = [buckets.decode_slot(slot) if slot.size else None for slot in slots]
        buckets.open_slots(pages, columns, self._flats, rows)  # which checks them
        parts = []
        for flat, page in zip(self._flats, pages, strict=True):
            if page is None:
                parts.append(_Parts(Encoding.ALL_NULL, rows[flat]))
                continue
            walker = _Walker(page)
            encoding, flags = _BY_NUMBER[walker.uint8()], walker.uint8()
            one = _Parts(encoding, rows[flat], Kind(columns.kinds[flat]), bool(flags & 1))
            if encoding in (Encoding.CONST, Encoding.DICT):
                one.take_values(walker)
            one.take_nulls(walker)
            one.data = walker.take(walker.remaining)
            one.size = len(page)
            parts.append(one)
        yield from self.wanted.pages(parts, self._bytes())

    def bytes_of_columns(self) -> dict[int, int]:
        return self.wanted.sums(self._bytes())

    def _bytes(self) -> list[int]:
        """Of each flat column: its slot, and what is in front of the slots for it."""
        columns = self.wanted.columns
        sizes = [4 + end - start for start, end in pairwise(self._directory.offsets)]
        for flat in range(columns.num_columns, columns.num_flat):
            sizes[flat] += 4
        if columns.num_children:
            sizes[columns.num_columns] += 2
        return sizes


class _Parts:
    """The parts of a page, as far as they were taken from its bytes."""

    def __init__(
        self,
        encoding: Encoding,
        num_rows: int,
        kind: Kind = Kind.BOOL,
        has_nulls: bool = False,
    ) -> None:
        is_block = encoding == Encoding.PLAIN and kind == Kind.ARRAY_BLOCK
        self.encoding = Encoding.ARRAY_BLOCK if is_block else encoding
        self.num_rows = num_rows
        self.null_count = num_rows if encoding == Encoding.ALL_NULL else 0
        self.num_entries = 0
        self.values = self.data = memoryview(b"")
        self.size = 0
        self._kind = kind
        self._has_nulls = has_nulls

    def take_values(self, walker: _Walker) -> None:
        start = walker.pos
        self.num_entries = 1 if self.encoding == Encoding.CONST else walker.varint()
        self.values = walker.values(self._kind, self.num_entries)
        self.size += walker.pos - start

    def take_nulls(self, walker: _Walker) -> None:
        if not self._has_nulls or self.encoding == Encoding.ALL_NULL:
            return
        bitmap = walker.take((self.num_rows + 7) // 8)
        every_row = (1 << self.num_rows) - 1  # bits after that are spare
        self.null_count = (int.from_bytes(bitmap, "little") & every_row).bit_count()
        self.size += len(bitmap)

    def take_data(self, walker: _Walker) -> None:
        num_values = self.num_rows - self.null_count
        if self.encoding == Encoding.ARRAY_BLOCK:
            self.data = walker.values(Kind.BINARY, 1)
        elif self.encoding == Encoding.PLAIN:
            self.data = walker.values(self._kind, num_values)
        elif self.encoding == Encoding.DICT:
            width = max(0, self.num_entries - 1).bit_length()
            self.data = walker.take((num_values * width + 7) // 8)
        self.size += len(self.data)

    def page(self, path: str, node: Node, stored: int) -> Page:
        null_count = self.null_count
        if self.encoding == Encoding.ARRAY_BLOCK:
            block = Cursor(self.data)
            block.varint()
            lists = arrays.decode(block.take(block.remaining), node.type, self.num_rows)
            null_count = lists.null_count
        return Page(
            path,
            "lengths" if node.children else str(node.type.arrow),
            self.encoding,
            self.num_rows,
            null_count,
            stored,
            self.size,
            self.num_entries,
            self.values,
            self.data,
            node,
        )


class _Walker(Cursor):
    """Goes through values that a kernel has checked."""

    __slots__ = ()

    def values(self, kind: Kind, count: int) -> memoryview:
        """The next `count` values."""
        if WIDTH[kind]:
            return self.take(WIDTH[kind] * count)
        data, start = self._data, self.pos
        end = start
        for _ in range(count):
            size = data[end]
            if size < 0x80:
                end += 1 + size
            else:
                self.pos = end
                size = self.varint()
                end = self.pos + size
        self.pos = start
        return self.take(end - start)
