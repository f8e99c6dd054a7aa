"""The end of a file: row group index, statistics, footer; and what `read_metadata` returns.

The index holds, for each row group:

    uv num_rows, uv num_buckets
    for each bucket:      uv bucket, u64be offset, uv compressed size, uv uncompressed size
                          (the latter 0 if the bucket is paged)
    uv num_statistics
    for each of these:    uv column (by sorted position), uv null count,
                          and unless all rows are null: minimum, maximum
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from functools import cached_property
from typing import Any, ClassVar, Final, NamedTuple

import pyarrow as pa

from ..errors import CorruptFileError, UnsupportedError
from . import _index, user_schema as attached
from .annex import Annex
from .bucket import Layout
from .schema import SchemaBlock
from .types import ColumnType, Kind, decode_value
from .user_schema import Attached
from .wire import Compression, Cursor, put_varint

MAGIC: Final = b"MOSA"


class Flag(IntFlag):
    """Features of a file beyond version 1, in the footer."""

    ANNEX = 0x0001  # an annex ends where the schema block begins
    ARRAY_BLOCKS = 0x0100  # columns are stored as array data blocks


# A reader that does not know one of these cannot read the file.
INCOMPATIBLE: Final = 0xFF00
KNOWN_INCOMPATIBLE: Final = int(Flag.ARRAY_BLOCKS)

_GROUP: Final = 5  # columns of the tables that the kernel gives
_ENTRY: Final = 4
_STATISTIC: Final = 5


@dataclass(frozen=True, slots=True)
class Footer:
    """The last 32 bytes of a file, all integers big-endian.

    offset  size  field
         0     8  index_offset     first byte of the row group index
         8     8  schema_offset    first byte of the schema block
        16     4  num_buckets
        20     4  num_row_groups
        24     1  compression      0 none, 1 zstd
        25     1  version          1; 2 if a flag of the upper byte is set
        26     2  flags            the lower byte may be ignored, the upper one not
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
        return self.LAYOUT.pack(
            self.index_offset,
            self.schema_offset,
            self.num_buckets,
            self.num_row_groups,
            self.compression,
            self.version,
            self.flags,
            MAGIC,
        )

    @property
    def version(self) -> int:
        return 2 if self.flags & INCOMPATIBLE else 1

    @property
    def has_annex(self) -> bool:
        return bool(self.flags & Flag.ANNEX)

    @classmethod
    def decode(cls, tail: bytes | pa.Buffer, file_size: int) -> Footer:
        """The footer at the end of `tail`, of a file of `file_size` bytes."""
        if len(tail) < cls.SIZE:
            raise CorruptFileError(f"not a Mosaic file: {file_size} bytes are too few for one")
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
        if magic != MAGIC:
            raise CorruptFileError("not a Mosaic file: it does not end in 'MOSA'")
        if version not in (1, 2):
            raise UnsupportedError(
                f"file format version {version} at offset {file_size - 7}; "
                "this package reads 1 and 2"
            )
        if (version == 2) != bool(flags & INCOMPATIBLE):
            raise CorruptFileError(
                f"the footer says version {version} and has the flags {flags:#06x}; "
                "those of the upper byte are for version 2"
            )
        unknown = [bit for bit in range(8, 16) if flags & ~KNOWN_INCOMPATIBLE & 1 << bit]
        if unknown:
            raise UnsupportedError(
                f"the file needs a feature that this package does not know: bit {unknown[0]} "
                f"({1 << unknown[0]:#06x}) of the flags at offset {file_size - 6}"
            )
        if compression not in (Compression.NONE, Compression.ZSTD):
            raise UnsupportedError(
                f"compression {compression} at offset {file_size - 8} is neither none nor zstd"
            )
        # The schema block begins with its length, in 4 bytes.
        if not schema_offset + 4 <= index_offset <= file_size - cls.SIZE:
            raise CorruptFileError(
                f"the footer places schema and index at {schema_offset} and {index_offset}, "
                f"in a file of {file_size} bytes"
            )
        return cls(
            index_offset,
            schema_offset,
            num_buckets,
            num_row_groups,
            Compression(compression),
            flags,
        )


class Bucket(NamedTuple):
    """Where a bucket of a row group is."""

    offset: int
    compressed_size: int
    uncompressed_size: int  # 0 if paged

    @property
    def layout(self) -> Layout:
        return Layout.MONOLITHIC if self.uncompressed_size else Layout.PAGED


class Statistic(NamedTuple):
    """What is known of a column in a row group; bounds None where all rows are null."""

    position: int
    null_count: int
    minimum: bytes | None
    maximum: bytes | None


def encode_row_group(
    num_rows: int, buckets: Sequence[Bucket], statistics: Sequence[Statistic]
) -> bytes:
    """A row group's part of the index; `buckets` by number."""
    out = bytearray()
    put_varint(out, num_rows)
    put_varint(out, len(buckets))
    for number, bucket in enumerate(buckets):
        put_varint(out, number)
        out += bucket.offset.to_bytes(8, "big")
        put_varint(out, bucket.compressed_size)
        put_varint(out, bucket.uncompressed_size)
    put_varint(out, len(statistics))
    for statistic in statistics:
        put_varint(out, statistic.position)
        put_varint(out, statistic.null_count)
        if statistic.minimum is not None and statistic.maximum is not None:
            out += statistic.minimum
            out += statistic.maximum
    return bytes(out)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a row group says of one of its columns, as Python values."""

    null_count: int
    min: Any = None
    max: Any = None

    @property
    def has_min_max(self) -> bool:
        return self.min is not None

    def to_dict(self) -> dict[str, Any]:
        return {
            "null_count": self.null_count,
            "has_min_max": self.has_min_max,
            "min": self.min,
            "max": self.max,
        }


@dataclass(frozen=True, slots=True)
class BucketMetaData:
    """Where a bucket is, how large it is, and how it is laid out."""

    index: int
    layout: str
    offset: int
    compressed_size: int
    uncompressed_size: int | None  # None if paged: only its slots know
    _schema: SchemaBlock = field(repr=False, compare=False)

    @property
    def columns(self) -> list[str]:
        """Names of the columns in the bucket, sorted."""
        return [self._schema.name(position) for position in self._schema.bucket_columns(self.index)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "layout": self.layout,
            "offset": self.offset,
            "compressed_size": self.compressed_size,
            "uncompressed_size": self.uncompressed_size,
            "num_columns": len(self._schema.bucket_columns(self.index)),
        }


@dataclass(frozen=True, slots=True)
class RowGroupMetaData:
    """The rows of a row group, its buckets and statistics."""

    num_rows: int
    num_columns: int
    buckets: tuple[BucketMetaData, ...]
    statistics: dict[str, ColumnStatistics]

    @property
    def total_compressed_size(self) -> int:
        """Bytes of all buckets in the file."""
        return sum(bucket.compressed_size for bucket in self.buckets)

    def to_dict(self) -> dict[str, Any]:
        return {
            "num_rows": self.num_rows,
            "num_columns": self.num_columns,
            "total_compressed_size": self.total_compressed_size,
            "buckets": [bucket.to_dict() for bucket in self.buckets],
            "statistics": {name: item.to_dict() for name, item in self.statistics.items()},
        }


class FileMetaData:
    """What a file says of itself: rows, columns, row groups, where its buckets are.

    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [1, 2, 3]}), sink)
    >>> fm.read_metadata(sink.getvalue()).num_rows
    3
    """

    def __init__(
        self, footer: Footer, schema: SchemaBlock, index: bytes, annex: Annex | None = None
    ) -> None:
        self.footer = footer
        self.annex = annex
        self.index = index
        self._schema = schema
        if Kind.ARRAY_BLOCK in schema.kinds and not footer.flags & Flag.ARRAY_BLOCKS:
            raise CorruptFileError(
                "there are array data blocks, but the footer has no flag for them"
            )
        try:
            groups, entries = _index.walk_index(
                index, footer.num_row_groups, footer.num_buckets, schema.kinds, footer.schema_offset
            )
        except ValueError as error:
            raise CorruptFileError(str(error)) from error
        self._groups = memoryview(groups).cast("q")
        self._entries = memoryview(entries).cast("q")
        for group in range(footer.num_row_groups):
            _, first, count, ascending, _ = self._group(group)
            if not ascending:
                numbers = self._entries[_ENTRY * first : _ENTRY * (first + count) : _ENTRY].tolist()
                if len(set(numbers)) < count:
                    raise CorruptFileError("a bucket is listed twice", row_group=group)

    def __reduce__(self) -> Any:
        return FileMetaData, (self.footer, self._schema, self.index, self.annex)

    def _group(self, group: int) -> list[int]:
        return self._groups[_GROUP * group : _GROUP * (group + 1)].tolist()

    def _entry(self, entry: int) -> list[int]:
        return self._entries[_ENTRY * entry : _ENTRY * (entry + 1)].tolist()

    @property
    def num_rows(self) -> int:
        return sum(self._groups[::_GROUP].tolist())

    @property
    def num_columns(self) -> int:
        return self._schema.num_columns

    @property
    def num_row_groups(self) -> int:
        return self.footer.num_row_groups

    @property
    def num_buckets(self) -> int:
        return self.footer.num_buckets

    @property
    def compression(self) -> str:
        return self.codec.name.lower()

    @property
    def codec(self) -> Compression:
        return self.footer.compression

    @property
    def format_version(self) -> int:
        return self.footer.version

    @property
    def created_by(self) -> str | None:
        """The writer of the file, if it says."""
        return None if self.annex is None else self.annex.writer

    @cached_property
    def attached(self) -> Attached | None:
        """The metadata and extension types of the schema, if there are some."""
        if self.annex is None or self.annex.attached is None:
            return None
        return attached.decode(self.annex.attached)

    @property
    def schema_block(self) -> SchemaBlock:
        return self._schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema, columns in the order of the writer."""
        schema = self._schema.to_arrow()
        return schema if self.attached is None else self.attached.schema(schema)

    def row_group(self, i: int) -> RowGroupMetaData:
        """What the file says of its `i`-th row group."""
        self.check_row_group(i)
        statistics = {
            self._schema.name(statistic.position): self._column_statistics(statistic)
            for statistic in self.statistics(i)
        }
        return RowGroupMetaData(self.rows_of(i), self.num_columns, self.buckets(i), statistics)

    def buckets(self, group: int) -> tuple[BucketMetaData, ...]:
        """The buckets that a row group lists, in the order of the index."""
        _, first, count, _, _ = self._group(group)
        buckets = []
        for entry in range(first, first + count):
            number, offset, compressed, uncompressed = self._entry(entry)
            layout = Bucket(offset, compressed, uncompressed).layout.value
            buckets.append(
                BucketMetaData(
                    number, layout, offset, compressed, uncompressed or None, self._schema
                )
            )
        return tuple(buckets)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain Python values."""
        return {
            "num_rows": self.num_rows,
            "num_columns": self.num_columns,
            "num_row_groups": self.num_row_groups,
            "num_buckets": self.num_buckets,
            "compression": self.compression,
            "format_version": self.format_version,
            "row_groups": [self.row_group(i).to_dict() for i in range(self.num_row_groups)],
        }

    def __repr__(self) -> str:
        return (
            f"<FileMetaData: {self.num_rows} rows, {self.num_columns} columns, "
            f"{self.num_row_groups} row groups, {self.num_buckets} buckets, {self.compression}>"
        )

    def check_row_group(self, group: int) -> None:
        if not 0 <= group < self.num_row_groups:
            raise IndexError(f"row group {group} of a file that has {self.num_row_groups}")

    def rows_of(self, group: int) -> int:
        return self._groups[_GROUP * group]

    def bytes_of(self, group: int) -> int:
        """Bytes of all buckets of a row group."""
        _, first, count, _, _ = self._group(group)
        return sum(self._entries[_ENTRY * first + 2 : _ENTRY * (first + count) : _ENTRY].tolist())

    def projected_bytes(self, group: int, positions: Iterable[int]) -> int:
        """About how many bytes of a row group it takes to read the columns at `positions`."""
        total = 0
        for number, wanted in Counter(map(self._schema.bucket_of, positions)).items():
            bucket = self.bucket(group, number)
            total += (
                bucket.compressed_size
                if bucket.layout == Layout.MONOLITHIC
                else bucket.compressed_size * wanted // len(self._schema.bucket_columns(number))
            )
        return total

    def bucket(self, group: int, number: int) -> Bucket:
        """Where bucket `number` of a row group is."""
        _, first, count, ascending, _ = self._group(group)
        if ascending and count == self.num_buckets:
            entry = first + number
        else:
            numbers = self._entries[_ENTRY * first : _ENTRY * (first + count) : _ENTRY].tolist()
            if number not in numbers:
                raise CorruptFileError(
                    "the bucket is missing from the row group index", row_group=group, bucket=number
                )
            entry = first + numbers.index(number)
        bucket = Bucket(*self._entry(entry)[1:])
        if bucket.layout == Layout.PAGED and self.footer.compression != Compression.ZSTD:
            raise CorruptFileError(
                "the bucket is paged, but the file is not compressed",
                row_group=group,
                bucket=number,
            )
        return bucket

    def statistics(
        self, group: int, positions: Container[int] | None = None
    ) -> Iterator[Statistic]:
        """The statistics of a row group: of the columns at `positions`, or of all that have some."""
        num_rows, _, _, _, start = self._group(group)
        table = memoryview(
            _index.walk_statistics(self.index, start, num_rows, self._schema.kinds)
        ).cast("q")
        for row, position in enumerate(table[::_STATISTIC].tolist()):
            if positions is not None and position not in positions:
                continue
            first = _STATISTIC * row + 1
            null_count, low, high, end = table[first : first + _STATISTIC - 1].tolist()
            bounds: tuple[bytes | None, bytes | None] = (None, None)
            if null_count < num_rows:
                bounds = (self.index[low:high], self.index[high:end])
            yield Statistic(position, null_count, *bounds)

    def bounds(self, statistic: Statistic) -> tuple[pa.Scalar | None, pa.Scalar | None]:
        """Minimum and maximum as Arrow scalars."""
        column_type = self._schema.column_type(statistic.position)
        return (
            _bound(column_type, statistic.minimum),
            _bound(column_type, statistic.maximum),
        )

    def _column_statistics(self, statistic: Statistic) -> ColumnStatistics:
        minimum, maximum = self.bounds(statistic)
        return ColumnStatistics(statistic.null_count, _python(minimum), _python(maximum))


def _bound(column_type: ColumnType, data: bytes | None) -> pa.Scalar | None:
    if data is None or not column_type.has_statistics:
        return None
    if column_type.kind == Kind.STRING:
        data = Cursor(data).bytes()
    return decode_value(column_type, data)


def _python(scalar: pa.Scalar | None) -> Any:
    """The Python value, or the scalar itself where Python has no such value."""
    if scalar is None:
        return None
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, KeyError):
        return scalar  # nanoseconds without pandas, years beyond 9999, an unknown time zone
