"""The row group index: where the buckets of each row group are, and their statistics.

For each row group, the index contains

    uv num_rows, uv num_buckets
    for each bucket:      uv bucket, u64be offset, uv compressed size, uv uncompressed size
                          (the latter is 0 if the bucket is paged)
    uv num_statistics
    for each statistic:   uv column (its sorted position), uv null count,
                          and unless all rows are null: minimum, maximum
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ..errors import CorruptFileError
from . import _index
from .bucket import Layout
from .footer import Footer
from .schema import SchemaBlock
from .wire import put_varint

# Numbers per row in the tables that the kernel returns.
_GROUP: Final = 6
_ENTRY: Final = 4
_STATISTIC: Final = 5


class Bucket(NamedTuple):
    """The location of one bucket of a row group."""

    offset: int
    compressed_size: int
    uncompressed_size: int  # 0 if paged

    @property
    def layout(self) -> Layout:
        return Layout.MONOLITHIC if self.uncompressed_size else Layout.PAGED


class Statistic(NamedTuple):
    """The encoded statistics of a column in a row group; no bounds if all rows are null."""

    position: int
    null_count: int
    minimum: bytes | None
    maximum: bytes | None


class _GroupEntry(NamedTuple):
    """A row group in the tables of the kernel."""

    num_rows: int
    first: int  # the number of its first bucket entry
    num_entries: int
    ascends: int  # whether the numbers of its buckets do
    statistics: int  # where they begin in the index
    end: int  # of its statistics


class PythonStatistics(NamedTuple):
    """Statistics of some columns in a row group, by row.

    rest   the rows whose bounds are as stored, because Python has other types for them
    """

    positions: list[int]
    null_counts: list[int]
    minima: list[Any]
    maxima: list[Any]
    rest: list[int]


def encode_row_group(
    num_rows: int, buckets: Sequence[Bucket], num_statistics: int, statistics: bytes
) -> bytes:
    """Encode the index entry of one row group; `buckets` are in the order of their numbers.

    `statistics` are encoded, as `encode_statistics` does.
    """
    out = _encoded_entries(num_rows, enumerate(buckets), len(buckets))
    put_varint(out, num_statistics)
    out += statistics
    return bytes(out)


def _encoded_entries(
    num_rows: int, buckets: Iterable[tuple[int, Bucket]], num_buckets: int
) -> bytearray:
    """Encode the part of the entry of a row group that precedes its statistics."""
    out = bytearray()
    put_varint(out, num_rows)
    put_varint(out, num_buckets)
    for number, bucket in buckets:
        put_varint(out, number)
        out += bucket.offset.to_bytes(8, "big")
        put_varint(out, bucket.compressed_size)
        put_varint(out, bucket.uncompressed_size)
    return out


def encode_statistics(statistics: Iterable[Statistic]) -> bytes:
    """Encode statistics as they are in the index entry of a row group."""
    out = bytearray()
    for statistic in statistics:
        put_varint(out, statistic.position)
        put_varint(out, statistic.null_count)
        if statistic.minimum is not None and statistic.maximum is not None:
            out += statistic.minimum
            out += statistic.maximum
    return bytes(out)


class RowGroupIndex:
    """The decoded index. Row groups are decoded one at a time, when they are asked for.

    Parameters
    ----------
    data : bytes
        The index as stored.
    footer : Footer
        The footer of the same file; every bucket must lie before its `schema_offset`.
    kinds : bytes
        The `Kind` of each column, by sorted position.
    """

    __slots__ = ("_data", "_entries", "_groups", "_kinds", "_num_buckets")

    def __init__(self, data: bytes, footer: Footer, kinds: bytes) -> None:
        try:
            groups, entries = _index.walk_index(
                data, footer.num_row_groups, footer.num_buckets, kinds, footer.schema_offset
            )
        except ValueError as error:
            raise CorruptFileError(str(error)) from error
        self._data = data
        self._kinds = kinds
        self._num_buckets = footer.num_buckets
        self._groups = memoryview(groups).cast("q")
        self._entries = memoryview(entries).cast("q")
        for group in range(footer.num_row_groups):
            if not self._group(group).ascends:
                numbers = self.bucket_numbers(group)
                if len(set(numbers)) < len(numbers):
                    raise CorruptFileError("a bucket is listed twice", row_group=group)

    def _group(self, group: int) -> _GroupEntry:
        return _GroupEntry(*self._groups[_GROUP * group : _GROUP * (group + 1)].tolist())

    @property
    def num_rows(self) -> int:
        """Rows of all row groups."""
        return sum(self._groups[::_GROUP].tolist())

    def rows_of(self, group: int) -> int:
        return self._groups[_GROUP * group]

    def bytes_of(self, group: int) -> int:
        """Return the compressed size of all buckets of a row group."""
        return sum(self._column(group, 2))

    def decompressed_bytes_of(self, group: int, expansion: int) -> int:
        """Return the size of all buckets of a row group before compression.

        That of a paged bucket is unknown; it is taken to be `expansion` times its compressed size.
        """
        sizes = zip(self._column(group, 2), self._column(group, 3), strict=True)
        return sum(bulk or expansion * size for size, bulk in sizes)

    def bucket_numbers(self, group: int) -> list[int]:
        """Return the bucket numbers that a row group lists, in the order of the index."""
        return self._column(group, 0)

    def _column(self, group: int, number: int) -> list[int]:
        """Return one number of each bucket entry of a row group."""
        found = self._group(group)
        start, end = _ENTRY * found.first, _ENTRY * (found.first + found.num_entries)
        return self._entries[start + number : end : _ENTRY].tolist()

    def buckets(self, group: int) -> Iterator[tuple[int, Bucket]]:
        """Yield number and location of the buckets of a row group, in the order of the index."""
        columns = (self._column(group, number) for number in range(_ENTRY))
        for number, *location in zip(*columns, strict=True):
            yield number, Bucket(*location)

    def moved(self, group: int, offset: int) -> bytes:
        """Return the index entry of a row group whose buckets were moved.

        They follow each other from `offset` on, in the order of the index.
        """
        found = self._group(group)
        starts = accumulate(self._column(group, 2), initial=offset)
        buckets = (
            (number, bucket._replace(offset=start))
            for start, (number, bucket) in zip(starts, self.buckets(group), strict=False)
        )
        out = _encoded_entries(found.num_rows, buckets, found.num_entries)
        return bytes(out) + self._data[found.statistics : found.end]

    def bucket(self, group: int, number: int) -> Bucket:
        """Return the location of bucket `number` of a row group."""
        found = self._group(group)
        entry = found.first + number
        if not found.ascends or found.num_entries != self._num_buckets:
            numbers = self.bucket_numbers(group)
            if number not in numbers:
                raise CorruptFileError(
                    "the bucket is missing from the row group index", row_group=group, bucket=number
                )
            entry = found.first + numbers.index(number)
        return Bucket(*self._entries[_ENTRY * entry + 1 : _ENTRY * (entry + 1)].tolist())

    def located(self, group: int, numbers: Sequence[int]) -> list[Bucket]:
        """Return the locations of some buckets of a row group, faster than `bucket` for many."""
        found = self._group(group)
        if 2 * len(numbers) < found.num_entries:
            return [self.bucket(group, number) for number in numbers]
        known = dict(self.buckets(group))
        return [known.get(number) or self.bucket(group, number) for number in numbers]

    def statistics(self, group: int, positions: Iterable[int] | None = None) -> Iterator[Statistic]:
        """Yield the statistics of a row group, of the columns at `positions` or of all."""
        found = self._group(group)
        num_rows = found.num_rows
        wanted = None if positions is None else self._flags(positions)
        table = memoryview(
            _index.walk_statistics(self._data, found.statistics, num_rows, self._kinds, wanted)
        ).cast("q")
        for first in range(0, len(table), _STATISTIC):
            position, null_count, low, high, end = table[first : first + _STATISTIC].tolist()
            bounds: tuple[bytes | None, bytes | None] = (None, None)
            if null_count < num_rows:
                bounds = (self._data[low:high], self._data[high:end])
            yield Statistic(position, null_count, *bounds)

    def has_statistics(self, group: int) -> bool:
        """Return whether any column has statistics in a row group."""
        return bool(self._data[self._group(group).statistics])  # their number

    def columns_with_statistics(self, group: int) -> set[int]:
        """Return the columns that have statistics in a row group."""
        found = self._group(group)
        table = _index.walk_statistics(self._data, found.statistics, found.num_rows, self._kinds)
        return set(memoryview(table).cast("q")[::_STATISTIC].tolist())

    def python_statistics(
        self, group: int, schema: SchemaBlock, wanted: bytes | bytearray
    ) -> PythonStatistics:
        """Return statistics of a row group as Python values, made in one pass.

        `wanted` says for each column of `schema` whether to skip its statistics (0), to make Python
        values (1), or to return the bytes that are stored (2).
        """
        found = self._group(group)
        try:
            return PythonStatistics(
                *_index.python_statistics(
                    self._data,
                    found.statistics,
                    found.num_rows,
                    self._kinds,
                    schema.encode(),
                    schema.type_starts,
                    wanted,
                    _zone_of,
                )
            )
        except UnicodeDecodeError as error:
            raise CorruptFileError("a string in the statistics is not UTF-8") from error

    def _flags(self, positions: Iterable[int]) -> bytearray:
        """Return a byte for each column: whether it is one of `positions`."""
        flags = bytearray(len(self._kinds))
        for position in positions:
            flags[position] = True
        return flags


@lru_cache(maxsize=256)
def _zone_of(name: bytes) -> tzinfo | None:
    """Return the time zone that Arrow uses for a name, or None."""
    try:
        zone: tzinfo = pa.lib.string_to_tzinfo(name.decode())
    except (ValueError, KeyError):  # also of zoneinfo
        return None
    return zone
