"""The columns of a bucket, encoded in one of two layouts.

Monolithic: the parts of all pages, grouped by part, and compressed as one block.

    uv num_columns, uv num_children, uv rows of each child      only if there are children
    2 bits per flat column  encoding, low bits first
    1 bit per flat column   has nulls
    values of the CONST columns
    entries of the DICT columns, each as uv count, values
    null bitmaps            bit 1 = null
    data                    PLAIN: values; DICT: packed indices

Paged: the pages one after another, each compressed separately; requires zstd.

    u16le num_children, u32le rows of each child                 only if there are children
    u32le size of each slot, 0 = ALL_NULL
    slots: uv page length, zstd frame of the page

A page is u8 encoding, u8 flags (bit 0: has nulls), then its value or entries, null bitmap, data.

The data of an array data block is uv length, block; it is PLAIN and has no bitmap.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import pyarrow as pa

from ..errors import CorruptFileError, UnsupportedError, located
from ._collect import ArrowColumns, CollectedColumns
from ._decode import (
    Batch,
    BucketReader,
    Budget,
    PageFault,
    Pages,
    slot_offsets,
    sort_positions,
)
from ._encode import ColumnFault, EncodedPages, check_columns, encode as encode_pages
from ._matrix import Matrix, MatrixRows
from .nested import BucketColumns, max_page_bytes
from .wire import (
    MIN_BLOCK_LIMIT,
    Cursor,
    check_block,
    decompress,
    decompress_front,
    is_suspicious,
    put_varint,
)

__all__ = [
    "ArrowColumns",
    "Batch",
    "BucketReader",
    "Budget",
    "CollectedColumns",
    "ColumnFault",
    "Directory",
    "EncodedPages",
    "Layout",
    "Matrix",
    "MatrixRows",
    "PageFault",
    "Pages",
    "check_columns",
    "compress_monolithic",
    "decode_slot",
    "decompress_bucket",
    "encode_monolithic",
    "encode_paged",
    "encode_pages",
    "flat_of",
    "monolithic_header",
    "open_monolithic",
    "open_slots",
    "sort_positions",
]


class Layout(StrEnum):
    MONOLITHIC = "monolithic"
    PAGED = "paged"


class Directory:
    """The front of a paged bucket: the rows of its children, and where the slots are."""

    __slots__ = ("_child_rows", "_num_columns", "_num_rows", "offsets")

    def __init__(
        self, num_rows: int, num_columns: int, child_rows: Sequence[int], offsets: memoryview[int]
    ) -> None:
        self._num_rows = num_rows
        self._num_columns = num_columns
        self._child_rows = child_rows
        self.offsets = offsets  # of each slot in the bucket, and the end of the last one

    @property
    def rows(self) -> list[int]:
        """The rows of each flat column."""
        return [self._num_rows] * self._num_columns + list(self._child_rows)

    @staticmethod
    def size(columns: BucketColumns) -> int:
        header = 2 + 4 * columns.num_children if columns.num_children else 0
        return header + 4 * columns.num_flat

    @staticmethod
    def header(child_rows: Sequence[int]) -> bytes:
        """Return what comes before the sizes of the slots."""
        if len(child_rows) > 0xFFFF:
            raise UnsupportedError(
                f"a bucket has {len(child_rows)} child columns, but a paged bucket can have at most "
                "65535; use more buckets"
            )
        packed = struct.pack(f"<H{len(child_rows)}I", len(child_rows), *child_rows)
        return packed if child_rows else b""

    @classmethod
    def decode(
        cls, data: pa.Buffer, columns: BucketColumns, num_rows: int, bucket_size: int
    ) -> Directory:
        size = cls.size(columns)
        if size > bucket_size:
            raise CorruptFileError(
                f"the paged bucket has {bucket_size} bytes, fewer than its directory of {size}"
            )
        cursor = Cursor(data)
        child_rows: Sequence[int] = ()
        if columns.num_children:
            (count,) = struct.unpack("<H", cursor.take(2))
            _check_children(count, columns)
            child_rows = struct.unpack(f"<{count}I", cursor.take(4 * count))
        offsets = slot_offsets(cursor.take(4 * columns.num_flat), size)
        if offsets[-1] != bucket_size:
            raise CorruptFileError(
                f"directory and slots of the paged bucket have {offsets[-1]} bytes, not {bucket_size}"
            )
        return cls(num_rows, columns.num_columns, child_rows, offsets)


def _check_children(count: int, columns: BucketColumns) -> None:
    if count != columns.num_children:
        raise CorruptFileError(
            f"the bucket declares {count} child columns, but the schema has {columns.num_children}"
        )


def decompress_bucket(data: pa.Buffer, size: int, columns: BucketColumns, num_rows: int) -> bytes:
    """Decompress a monolithic bucket that declares `size` bytes."""
    view = memoryview(data).cast("B")
    limit = columns.max_bytes(num_rows) if size > MIN_BLOCK_LIMIT else None
    if limit is not None and size > limit:
        raise CorruptFileError(
            f"the bucket declares {size} bytes, but its columns need {limit} at most"
        )
    if is_suspicious(len(view), size):
        _refuse_surplus(
            size,
            lambda: _open_monolithic(
                decompress_front(view), columns, num_rows, columns.num_flat, strict=False
            ),
        )
    return decompress(view, size)


def _refuse_surplus(size: int, open_front: Callable[[], Pages]) -> None:
    """Raise CorruptFileError if the pages end in the front of a block that declares `size` bytes."""
    try:
        open_front()
    except (PageFault, CorruptFileError):
        return  # they go on after the front, or are damaged
    raise CorruptFileError(f"a block declares {size} bytes, far more than its pages have")


def decode_slot(slot: pa.Buffer, columns: BucketColumns, flat: int, num_rows: int) -> bytes:
    """Decompress the page of flat column `flat` in a slot."""
    cursor = Cursor(slot)
    size = cursor.varint()
    frame = cursor.take(cursor.remaining)
    if size > MIN_BLOCK_LIMIT:
        _check_page(columns, flat, num_rows, frame, size)
    return decompress(frame, size)


def _check_page(
    columns: BucketColumns, flat: int, num_rows: int, frame: memoryview, size: int
) -> None:
    """Check the size that the page of a flat column declares, before it is decompressed."""
    limit = max_page_bytes(columns.kinds[flat], num_rows)
    if limit is not None and size > limit:
        raise CorruptFileError(
            f"a page declares {size} bytes, but {num_rows} rows need {limit} at most",
            column=columns.name(flat),
        )
    if is_suspicious(len(frame), size):
        with located(column=columns.name(flat)):
            _refuse_surplus(
                size,
                lambda: _open_slots(
                    [decompress_front(frame)], columns, [flat], {flat: num_rows}, strict=False
                ),
            )


def open_monolithic(
    data: bytes | pa.Buffer,
    columns: BucketColumns,
    num_rows: int,
    stop: int,
    *,
    strict: bool = True,
) -> Pages:
    """Find the pages of a monolithic bucket; only flat columns before `stop` can be decoded."""
    try:
        return _open_monolithic(data, columns, num_rows, stop, strict)
    except PageFault as fault:
        raise _corrupt(fault, columns, fault.column) from fault


def _open_monolithic(
    data: bytes | pa.Buffer, columns: BucketColumns, num_rows: int, stop: int, strict: bool
) -> Pages:
    rows = [num_rows] * columns.num_columns
    start = 0
    if columns.num_children:
        cursor = Cursor(data)
        cursor.varint()  # the number of columns, known from the schema
        count = cursor.varint()
        _check_children(count, columns)
        rows += [cursor.varint() for _ in range(count)]
        start = cursor.pos
    view = memoryview(data).cast("B")
    return Pages.from_monolithic(view, start, columns.kinds, columns.digits, rows, stop, strict)


def open_slots(
    slots: Sequence[Any],
    columns: BucketColumns,
    flats: Sequence[int],
    rows: Sequence[int],
    *,
    strict: bool = True,
) -> Pages:
    """Find the pages of the flat columns `flats` in decompressed slots; None if a slot is empty."""
    try:
        return _open_slots(slots, columns, flats, rows, strict)
    except PageFault as fault:
        raise _corrupt(fault, columns, flats[fault.column]) from fault


def _open_slots(
    slots: Sequence[Any],
    columns: BucketColumns,
    flats: Sequence[int],
    rows: Sequence[int] | Mapping[int, int],
    strict: bool,
) -> Pages:
    kinds = bytes([columns.kinds[flat] for flat in flats])
    digits = bytes([columns.digits[flat] for flat in flats])
    return Pages.from_slots(slots, kinds, digits, [rows[flat] for flat in flats], strict)


def _corrupt(fault: PageFault, columns: BucketColumns, flat: int) -> CorruptFileError:
    return CorruptFileError(str(fault), column=columns.name(flat))


def flat_of(columns: BucketColumns, wanted: Sequence[int]) -> Sequence[int]:
    """Return the flat columns that store the `wanted` columns of a bucket."""
    if not columns.num_children:
        return wanted
    return [node.flat for index in wanted for node in columns.node(index).walk()]


def monolithic_header(pages: EncodedPages, num_columns: int) -> bytes:
    """Return the front of a monolithic bucket: the rows of its children, if there are any."""
    header = bytearray()
    if pages.count > num_columns:
        put_varint(header, num_columns)
        put_varint(header, pages.count - num_columns)
        for flat in range(num_columns, pages.count):
            put_varint(header, pages.num_rows(flat))
    return bytes(header)


def encode_monolithic(pages: EncodedPages, num_columns: int) -> bytes:
    """Return a monolithic bucket, not compressed."""
    return pages.monolithic(monolithic_header(pages, num_columns))


def compress_monolithic(pages: EncodedPages, num_columns: int) -> tuple[bytes, int]:
    """Return a compressed monolithic bucket, and its size before compression."""
    header = monolithic_header(pages, num_columns)
    check_block(len(header) + pages.sizes()[0])
    return pages.compressed(header)


def encode_paged(pages: EncodedPages, num_columns: int) -> bytes:
    """Return a paged bucket with compressed slots."""
    child_rows = [pages.num_rows(flat) for flat in range(num_columns, pages.count)]
    check_block(pages.largest())
    return pages.paged(Directory.header(child_rows))
