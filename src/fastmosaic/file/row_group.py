"""Row groups as bytes: those that an encoder has finished, and those that are copied from a file.

A row group does not depend on its place in a file: only the index knows offsets. So a row group of
one file can be appended to another one as it is, provided that both files have the same columns,
buckets and compression.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from ..errors import CorruptFileError
from ..format.annex import BlockChecksums
from ..format.metadata import FileMetaData
from ..format.schema import SchemaBlock
from ..format.types import ColumnType, Kind
from ..format.wire import Compression, crc32c
from ..storage.sink import Sink
from ..storage.source import Source
from ..threads import REMOTE_THREADS, map_in_order

# Local bytes are written while they are in the cache of the processor. Shorter parts would go through
# the buffer of the output file.
_LOCAL_PART_BYTES: Final = 1 << 20
# Two for each thread wait in memory.
_REMOTE_PART_BYTES: Final = 4 << 20


class FinishedBucket(NamedTuple):
    """The bytes of a bucket as they are in a file."""

    data: bytes
    uncompressed_size: int  # as the index states it: 0 if the bucket is paged
    plain_size: int  # before compression
    num_statistics: int = 0  # of its columns
    statistics: bytes = b""  # encoded as in the row group index


@dataclass(frozen=True, slots=True)
class FinishedRowGroup:
    """A row group that was encoded for the file to which it is appended.

    The buckets are in the order of their numbers. The encoder yields them as they are ready, so they
    can be iterated over only once.
    """

    num_rows: int
    buckets: Iterable[FinishedBucket]


class StoredRowGroup:
    """A row group of an open file, which can be copied to another file without decoding it."""

    def __init__(self, source: Source, metadata: FileMetaData, group: int) -> None:
        metadata.check_row_group(group)
        self.metadata = metadata
        self._source = source
        self._group = group
        # In the order of the index, in which their checksums are combined.
        self._buckets = [bucket for _, bucket in metadata.bucket_places(group)]
        count = metadata.num_buckets if metadata.num_columns else 0
        if len(self._buckets) < count or metadata.codec == Compression.NONE:
            for number in range(count):  # raises if one is missing, or paged
                metadata.bucket(group, number)

    @property
    def plain_sizes(self) -> tuple[int, int]:
        """The sizes of the monolithic buckets after and before compression."""
        known = [one for one in self._buckets if one.uncompressed_size]
        return sum(one.compressed_size for one in known), sum(
            one.uncompressed_size for one in known
        )

    def moved(self, offset: int) -> bytes:
        """Return its entry in the row group index of a file to which it was copied at `offset`."""
        return self.metadata.moved(self._group, offset)

    def copy_to(self, sink: Sink) -> int:
        """Append the bytes of all buckets to a file, and return their checksum.

        If the annex has checksums and they differ, CorruptFileError is raised when everything has
        been written, so the file must be abandoned.
        """
        checksums: list[int] = []
        sizes = [bucket.compressed_size for bucket in self._buckets]
        left = crc = 0
        for part in self._parts():
            sink.write(part)
            rest = memoryview(part)
            while rest.nbytes:
                left = left or sizes[len(checksums)]
                crc = crc32c(rest[:left], crc)
                taken = min(left, rest.nbytes)
                left -= taken
                rest = rest[taken:]
                if not left:
                    checksums.append(crc)
                    crc = 0
        computed = BlockChecksums.of_row_group(checksums)
        self._check(computed)
        return computed

    def _parts(self) -> Iterator[pa.Buffer]:
        """Read the bytes of the buckets, in the order of the index."""
        source = self._source
        size = _LOCAL_PART_BYTES if source.is_local else _REMOTE_PART_BYTES
        ranges = (
            (offset + start, min(size, length - start))
            for offset, length in self._extents()
            for start in range(0, length, size)
        )
        return map_in_order(
            lambda extent: source.read_at(*extent),
            ranges,
            not source.is_local,
            purpose="copy",
            threads=REMOTE_THREADS,
        )

    def _extents(self) -> Iterator[tuple[int, int]]:
        """Yield offset and length of runs of buckets without gaps."""
        start = end = 0
        for bucket in self._buckets:
            if bucket.offset != end:
                if start < end:
                    yield start, end - start
                start = bucket.offset
            end = bucket.offset + bucket.compressed_size
        if start < end:
            yield start, end - start

    def _check(self, computed: int) -> None:
        annex = self.metadata.annex
        if annex is None or annex.blocks is None:
            return
        if annex.blocks.row_groups[self._group : self._group + 1] != (computed,):
            raise CorruptFileError(
                f"the checksum of its buckets is {computed:08x}, which differs from the annex",
                file=self._source.name,
                row_group=self._group,
            )


def difference(metadata: FileMetaData, schema: SchemaBlock, compression: Compression) -> str | None:
    """Return why a file with this schema and compression cannot contain row groups of another one.

    The order of columns may differ, since row groups store columns by name.
    """
    own = metadata.schema_block
    if metadata.codec != compression:
        return (
            f"its row groups have compression {metadata.compression!r}, those of the new file "
            f"{compression.name.lower()!r}"
        )
    if own.has_columns_of(schema):
        return None
    return _different_columns(own, schema)


def _different_columns(own: SchemaBlock, other: SchemaBlock) -> str | None:
    names, expected = (one.names(range(one.num_columns)) for one in (own, other))
    if names != expected:
        more = set(names) - set(expected)
        if more:
            return f"it has a column {min(more)!r}, which the new file lacks"
        missing = set(expected) - set(names)
        if missing:
            return f"it lacks the column {min(missing)!r} of the new file"
        return "its columns are not stored in the order of their names"
    for position, name in enumerate(names):
        if own.descriptor(position) != other.descriptor(position):
            stored, wanted = map(
                _described, (own.column_type(position), other.column_type(position))
            )
            return f"column {name!r} is {stored}, and {wanted} in the new file"
    if own.num_buckets != other.num_buckets:
        return (
            f"its row groups have {own.num_buckets} buckets, those of the new file "
            f"{other.num_buckets}"
        )
    return None


def _described(column_type: ColumnType) -> str:
    nullable = "" if column_type.nullable else " not null"
    layout = " stored as array blocks" if column_type.kind == Kind.ARRAY_BLOCK else ""
    return f"{column_type.arrow}{nullable}{layout}"
