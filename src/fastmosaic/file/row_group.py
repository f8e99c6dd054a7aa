"""Finished row groups: encoded bytes that a writer appends, from an encoder or from another file.

A row group does not depend on its place in a file: only the index knows offsets. So a row group of
one file can be appended to another one as it is, provided that both files have the same columns,
buckets and compression.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from ..errors import CorruptFileError, SchemaMismatchError
from ..format.annex import BlockChecksums
from ..format.index import Statistic, encode_statistics
from ..format.metadata import FileMetaData
from ..format.schema import SchemaBlock
from ..format.types import ColumnType, Kind
from ..format.user_arrays import Dictionaries
from ..format.wire import Compression, crc32c
from ..storage.source import Source, read_ranges
from .dictionaries import FileDictionaries


class FinishedBucket(NamedTuple):
    """The bytes of a bucket as they are in a file."""

    data: bytes | pa.Buffer
    uncompressed_size: int  # as the index states it: 0 if the bucket is paged
    plain_size: int | None  # before compression; None if it is unknown
    num_statistics: int = 0  # of its columns
    statistics: bytes = b""  # encoded as in the row group index


@dataclass(frozen=True, slots=True)
class FinishedRowGroup:
    """An encoded row group, ready to be appended to a file.

    schema, compression  of the file that it was encoded for or read from
    buckets              in the order of their numbers; an encoder yields them as they are ready,
                         so they can be iterated over only once
    """

    schema: SchemaBlock
    compression: Compression
    num_rows: int
    buckets: Iterable[FinishedBucket]
    dictionaries: Dictionaries | None = None  # of the user, in the file that it was read from

    def check_fits(self, schema: SchemaBlock, compression: Compression) -> None:
        """Raise SchemaMismatchError unless a file of this kind can contain the row group.

        The order of columns may differ, since row groups store columns by name.
        """
        if self.compression != compression:
            raise SchemaMismatchError(
                f"the row group has compression {self.compression.name.lower()!r}, "
                f"the file {compression.name.lower()!r}"
            )
        if self.schema is not schema:
            _check_same_columns(self.schema, schema)


def read_finished(source: Source, metadata: FileMetaData, group: int) -> FinishedRowGroup:
    """Read the bytes of row group number `group` without decoding them.

    If the annex of the file has checksums, the bytes are checked against them.
    """
    metadata.check_row_group(group)
    schema = metadata.schema_block
    places = metadata.buckets(group)
    ranges = [(place.offset, place.compressed_size) for place in places]
    buffers = read_ranges(source, ranges)
    if metadata.annex is not None and metadata.annex.blocks is not None:
        stated = metadata.annex.blocks.row_groups[group : group + 1]
        computed = BlockChecksums.of_row_group([crc32c(data) for data in buffers])
        if stated != (computed,):
            raise CorruptFileError(
                f"{source.name}: row group {group}: the checksum of its buckets is "
                f"{computed:08x}, which differs from the annex"
            )
    found = {place.index: data for place, data in zip(places, buffers, strict=True)}
    buckets = []
    statistics: list[list[Statistic]] = [[] for _ in range(schema.num_buckets)]
    for statistic in metadata.statistics(group):
        statistics[schema.bucket_of(statistic.position)].append(statistic)
    for number in range(schema.num_buckets if schema.num_columns else 0):
        size = metadata.bucket(group, number).uncompressed_size
        encoded = len(statistics[number]), encode_statistics(statistics[number])
        buckets.append(FinishedBucket(found[number], size, size or None, *encoded))
    return FinishedRowGroup(
        schema,
        metadata.codec,
        metadata.rows_of(group),
        buckets,
        FileDictionaries(source, metadata) if metadata.dictionaries is not None else None,
    )


def _check_same_columns(one: SchemaBlock, other: SchemaBlock) -> None:
    if one.encode() == other.encode():
        return
    for what, ours, theirs in (
        ("columns", one.num_columns, other.num_columns),
        ("buckets", one.num_buckets, other.num_buckets),
    ):
        if ours != theirs:
            raise SchemaMismatchError(f"the row group has {ours} {what}, the file {theirs}")
    for position in range(one.num_columns):
        name, expected = one.name(position), other.name(position)
        if name != expected:
            raise SchemaMismatchError(
                f"the row group has a column {name!r} where the file has {expected!r}"
            )
        stored, wanted = one.column_type(position), other.column_type(position)
        if stored.descriptor != wanted.descriptor:
            raise SchemaMismatchError(
                f"column {name!r} is {_described(stored)} in the row group "
                f"and {_described(wanted)} in the file"
            )


def _described(column_type: ColumnType) -> str:
    nullable = "" if column_type.nullable else " not null"
    layout = " stored as array blocks" if column_type.kind == Kind.ARRAY_BLOCK else ""
    return f"{column_type.arrow}{nullable}{layout}"
