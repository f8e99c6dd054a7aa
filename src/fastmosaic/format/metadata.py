"""Metadata of a file, as `read_metadata` returns it: row groups, buckets and statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

from ..display.summary import Summary
from ..display.text import counted, human_size
from ..errors import CorruptFileError, MosaicError
from . import user_schema
from .annex import Annex, BlockChecksums, Checksums, KeySection
from .bucket import Layout
from .column_statistics import ColumnStatistics, GroupStatistics, as_python
from .file_schema import FileSchema
from .footer import Flag, Footer
from .index import Bucket, RowGroupIndex, Statistic
from .schema import SchemaBlock
from .types import ARROW_WIDTH, ColumnType, Kind, decode_value
from .user_schema import Attached, UserSchema
from .wire import Compression, Cursor

PAGED_EXPANSION: Final = 4  # of pages by decompression, if nothing else is known


@dataclass(frozen=True, slots=True)
class BucketMetaData:
    """Location, size and layout of one bucket."""

    index: int
    layout: str
    offset: int
    compressed_size: int
    uncompressed_size: int | None  # None if paged: the index does not contain it
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
    """Number of rows, buckets and statistics of one row group.

    `statistics` maps names of columns to their statistics. The statistics of one column are decoded
    alone; iterating decodes those of all columns, once.

    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [1, 2], "at": [5, 4]}), sink, write_statistics=True)
    >>> statistics = fm.read_metadata(sink.getvalue()).row_group(0).statistics
    >>> statistics["id"].max
    2
    >>> {name: (one.min, one.max) for name, one in statistics.items()}
    {'at': (4, 5), 'id': (1, 2)}
    """

    num_rows: int
    num_columns: int
    buckets: tuple[BucketMetaData, ...]
    statistics: Mapping[str, ColumnStatistics]

    @property
    def total_compressed_size(self) -> int:
        """Size of all buckets in the file, in bytes."""
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
    """Metadata of a file: rows, columns, row groups, and the location of its buckets.

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
                "the file contains array data blocks, but the footer has no flag for them"
            )
        self._row_groups = RowGroupIndex(index, footer, schema.kinds)

    def __reduce__(self) -> Any:
        return FileMetaData, (self.footer, self._schema, self.index, self.annex)

    @property
    def num_rows(self) -> int:
        return self._row_groups.num_rows

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
        """Name and version of the program that wrote the file; None if the file does not say."""
        return None if self.annex is None else self.annex.writer

    @property
    def checksums(self) -> tuple[Checksums, BlockChecksums] | None:
        """Those of row group index and footer, and of all blocks; None if the file has not both."""
        annex = self.annex
        if annex is None or annex.checksums is None or annex.blocks is None:
            return None
        return annex.checksums, annex.blocks

    @property
    def has_user_schema(self) -> bool:
        """Whether the annex says anything about the schema."""
        annex = self.annex
        return annex is not None and (annex.attached is not None or annex.common is not None)

    @property
    def user_schema(self) -> UserSchema | None:
        """What the annex says about the schema; None if it says nothing."""
        if self.annex is None or not self.has_user_schema:
            if self.footer.restores_types:
                raise CorruptFileError(
                    "the footer says that the annex restores types, but it does not", part="annex"
                )
            return None
        return UserSchema(self.annex.attached, self.annex.common, self.footer.restores_types)

    @cached_property
    def attached(self) -> Attached | None:
        """Types and metadata of the user; None if there are none."""
        given = self.user_schema
        return None if given is None else user_schema.decode(*given)

    @cached_property
    def columns(self) -> FileSchema:
        """The columns as the user sees them."""
        return FileSchema(self._schema, self.attached if self.footer.restores_types else None)

    @property
    def dictionaries(self) -> tuple[int, int] | None:
        """Offset and size of the dictionaries of the user, a file of its own inside this one."""
        if self.annex is None or self.annex.dictionaries is None:
            return None
        end = self.footer.schema_offset - self.annex.size
        size = self.annex.dictionaries
        if size > end:
            raise CorruptFileError(
                f"the dictionaries have {size} bytes, but there are only {end} before the annex",
                part="annex",
            )
        return end - size, size

    @property
    def key_index(self) -> tuple[int, KeySection] | None:
        """Offset of the key index in the file, and what is known about it; None without one."""
        if self.annex is None or self.annex.keys is None:
            return None
        end = self.footer.schema_offset - self.annex.size
        if self.dictionaries is not None:
            end = self.dictionaries[0]
        size = self.annex.keys.size
        if size > end:
            raise CorruptFileError(
                f"the key index has {size} bytes, but there are only {end} before its end",
                part="annex",
            )
        return end - size, self.annex.keys

    @property
    def schema_block(self) -> SchemaBlock:
        return self._schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the columns in the order in which they were written."""
        schema = self.columns.to_arrow()
        return schema if self.attached is None else self.attached.schema(schema)

    def row_group(self, i: int) -> RowGroupMetaData:
        """Return the metadata of row group `i`."""
        self.check_row_group(i)
        statistics = GroupStatistics(self, i)
        return RowGroupMetaData(self.rows_of(i), self.num_columns, self.buckets(i), statistics)

    def buckets(self, group: int) -> tuple[BucketMetaData, ...]:
        """Return the buckets of a row group, in the order of the index."""
        return tuple(
            BucketMetaData(
                number,
                bucket.layout.value,
                bucket.offset,
                bucket.compressed_size,
                bucket.uncompressed_size or None,
                self._schema,
            )
            for number, bucket in self.bucket_places(group)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values."""
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
        return self._summary().to_text()

    def _repr_html_(self) -> str:
        return self._summary().to_html()

    def _summary(self) -> Summary:
        facts = [
            counted(self.num_rows, "row"),
            self.counted_columns(),
            counted(self.num_row_groups, "row group"),
            counted(self.num_buckets, "bucket"),
            self.compression,
        ]
        return Summary("FileMetaData", facts, notes=self.notes(), schema=lambda: self.schema)

    def counted_columns(self) -> str:
        """Return the number of columns for people: as the user sees them, and as they are stored."""
        stored = self.num_columns
        try:
            shown = len(self.columns.names()) if self.footer.restores_types else stored
        except MosaicError:  # the file is damaged; reading says so
            shown = stored
        text = counted(shown, "column")
        return text if shown == stored else f"{text} ({stored:,} stored)"

    def notes(self) -> list[str]:
        """Return facts of less importance for people."""
        data = sum(map(self.bytes_of, range(self.num_row_groups)))
        writer = self.created_by
        return [f"{human_size(data)} of data", *([] if writer is None else [f"by {writer}"])]

    def check_row_group(self, group: int) -> None:
        """Raise `IndexError` if the file has no row group with this number."""
        if not 0 <= group < self.num_row_groups:
            raise IndexError(
                f"row group {group} does not exist: the file has {self.num_row_groups}"
            )

    def rows_of(self, group: int) -> int:
        return self._row_groups.rows_of(group)

    @cached_property
    def row_edges(self) -> list[int]:
        """The number of the first row of each row group, then the number of rows."""
        return list(accumulate(map(self.rows_of, range(self.num_row_groups)), initial=0))

    def row_bytes(self, positions: Iterable[int]) -> int:
        """Return the bytes of a row of the columns at `positions` in Arrow, without text and lists."""
        counts = Counter(map(self._schema.kinds.__getitem__, positions))
        return sum(ARROW_WIDTH[kind] * count for kind, count in counts.items())

    def bytes_of(self, group: int) -> int:
        """Return the compressed size of all buckets of a row group."""
        return self._row_groups.bytes_of(group)

    def decompressed_bytes_of(self, group: int) -> int:
        """Estimate the size of all buckets of a row group before compression."""
        return self._row_groups.decompressed_bytes_of(group, PAGED_EXPANSION)

    def moved(self, group: int, offset: int) -> bytes:
        """Return the index entry of a row group whose buckets were moved to `offset`."""
        return self._row_groups.moved(group, offset)

    def projected_bytes(self, group: int, positions: Iterable[int]) -> int:
        """Estimate how many bytes of a row group must be read for the columns at `positions`."""
        total = 0
        for bucket, share in self._shares(group, positions):
            whole = bucket.layout == Layout.MONOLITHIC
            total += bucket.compressed_size if whole else int(bucket.compressed_size * share)
        return total

    def decompressed_bytes(self, group: int, positions: Iterable[int]) -> int:
        """Estimate how many bytes of a row group the columns at `positions` have decompressed.

        The index does not contain the size of a paged bucket.
        """
        return sum(
            int((bucket.uncompressed_size or bucket.compressed_size * PAGED_EXPANSION) * share)
            for bucket, share in self._shares(group, positions)
        )

    def _shares(self, group: int, positions: Iterable[int]) -> Iterator[tuple[Bucket, float]]:
        """Yield the buckets of the columns at `positions`, and the share of their columns."""
        wanted = Counter(map(self._schema.bucket_of, positions))
        buckets = self.buckets_at(group, [*wanted])
        for bucket, (number, count) in zip(buckets, wanted.items(), strict=True):
            yield bucket, count / len(self._schema.bucket_columns(number))

    def bucket_places(self, group: int) -> Iterator[tuple[int, Bucket]]:
        """Yield number and location of the buckets of a row group, in the order of the index."""
        return self._row_groups.buckets(group)

    def bucket(self, group: int, number: int) -> Bucket:
        """Return the location of bucket `number` of a row group."""
        (bucket,) = self.buckets_at(group, [number])
        return bucket

    def buckets_at(self, group: int, numbers: Sequence[int]) -> list[Bucket]:
        """Return the locations of some buckets of a row group."""
        found = self._row_groups.located(group, numbers)
        if self.footer.compression != Compression.ZSTD:
            for number, bucket in zip(numbers, found, strict=True):
                if bucket.layout == Layout.PAGED:
                    raise CorruptFileError(
                        "the bucket is paged, but the file is not compressed",
                        row_group=group,
                        bucket=number,
                    )
        return found

    def statistics(self, group: int, positions: Iterable[int] | None = None) -> Iterator[Statistic]:
        """Yield the statistics of a row group, of the columns at `positions` or of all."""
        return self._row_groups.statistics(group, positions)

    def bounds(self, statistic: Statistic) -> tuple[pa.Scalar | None, pa.Scalar | None]:
        """Return minimum and maximum as Arrow scalars."""
        column_type = self._schema.column_type(statistic.position)
        return (
            _bound(column_type, statistic.minimum),
            _bound(column_type, statistic.maximum),
        )

    def restored_bounds(self, statistic: Statistic) -> tuple[pa.Scalar | None, pa.Scalar | None]:
        """Return minimum and maximum of a column with the type that the user sees."""
        return self.columns.restored(statistic.position, *self.bounds(statistic))

    def column_statistics(self, group: int) -> dict[str, ColumnStatistics]:
        """Return all statistics of a row group by name."""
        wanted = bytearray(b"\1") * self.num_columns
        for position in self.columns.converted_positions():
            wanted[position] = 2
        found = self._row_groups.python_statistics(group, self._schema, wanted)
        for row in found.rest:
            bounds = self.restored_bounds(
                Statistic(
                    found.positions[row],
                    found.null_counts[row],
                    found.minima[row],
                    found.maxima[row],
                )
            )
            found.minima[row], found.maxima[row] = map(as_python, bounds)
        made = map(ColumnStatistics, found.null_counts, found.minima, found.maxima)
        return dict(zip(self._schema.names(found.positions), made, strict=True))

    def has_statistics(self, group: int) -> bool:
        """Return whether any column has statistics in a row group."""
        return self._row_groups.has_statistics(group)

    def columns_with_statistics(self, group: int) -> set[int]:
        """Return the positions of the columns that have statistics in a row group."""
        return self._row_groups.columns_with_statistics(group)


def _bound(column_type: ColumnType, data: bytes | None) -> pa.Scalar | None:
    if data is None or not column_type.has_bounds:
        return None
    if column_type.kind in (Kind.STRING, Kind.DECIMAL128):
        data = Cursor(data).bytes()
    return decode_value(column_type, data)
