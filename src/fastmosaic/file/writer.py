"""MosaicWriter: batches in, row groups out, and a file that appears only when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from types import TracebackType
from typing import IO, Final, Self, TypeAlias, Unpack

import pyarrow as pa

from ..errors import ColumnNotFoundError, UnsupportedError
from ..format import list_blocks as arrays, user_schema as attached
from ..format._array import crc32c
from ..format._encode import ColumnFault, Columns, encode
from ..format.annex import Annex, BlockChecksums, Checksums
from ..format.bucket import encode_monolithic, encode_paged, monolithic_header
from ..format.metadata import Bucket, Flag, Footer, Statistic, encode_row_group
from ..format.nested import BucketColumns, flatten
from ..format.schema import SchemaBlock
from ..format.statistics import measure
from ..format.types import Kind
from ..format.wire import Compression, compress
from ..schemas.fit import Fits, stored_schema
from ..storage.sink import open_sink
from ..threads import map_in_order
from ..version import __version__
from . import layout
from .options import WriteOptions, accepts_options, completed

Writable: TypeAlias = str | os.PathLike[str] | IO[bytes] | pa.NativeFile

DEFAULT_LEVEL: Final = 1
DEFAULT_SCHEMA_LEVEL: Final = 6

# The guess of how far zstd shrinks data, until the first row group has shown it.
_INITIAL_RATIO: Final = 0.3
# Small batches are joined once they have so many arrays: in Arrow one costs hundreds of bytes, so
# ten thousand columns of a row each cost more than the rows.
_SMALL_BATCH_ROWS: Final = 1024
_MAX_SMALL_ARRAYS: Final = 100_000
_MAX_SMALL_BATCHES: Final = 32
# Bytes of values below which threads would wait for each other more than they encode.
_MIN_THREADED_BYTES: Final = 4 << 20


@dataclass(slots=True)
class _Pending:
    """A batch that waits for its row group to fill."""

    batch: pa.RecordBatch
    size: int  # of its values, as they count for the size of a row group
    arrow_bytes: int


@dataclass(frozen=True, slots=True)
class _BucketPlan:
    """The flat columns of a bucket, and where to find them."""

    columns: BucketColumns
    owners: list[int]  # the sorted position of the column that each belongs to
    arrays: list[int]  # the index of its array in a batch
    dictionary: bytes  # whether it may have one


class MosaicWriter:
    """Write a Mosaic file, batch by batch.

    The file appears under its name only when `close` has succeeded. If an exception is raised
    inside a `with` block, no file appears, and an existing file of that name stays unchanged.

    Parameters
    ----------
    where : path, URI or writable binary file object
    schema : pyarrow.Schema
        Types that the format does not have are stored as wider ones that hold every value: large
        strings, string views, large lists and list views as plain strings and lists, dictionaries
        as their values, unsigned integers as signed ones, columns of type null as strings.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `where`.
    compression : {"zstd", "none", None}, default "zstd"
    compression_level : int, optional
        The zstd level: 1 is fast, 19 is small. The default is 1 for data and 6 for column names,
        which are small compared with the data unless there are few rows.
    write_statistics : bool or list of str, default False
        The columns whose minimum, maximum and null count are stored for each row group, so that
        `filters` can skip row groups. True selects every column whose type supports statistics.
    use_dictionary : bool or list of str, default True
        The columns that may be dictionary-encoded, which is done where it saves space.
    row_group_size : int, optional
        The maximum number of rows in a row group. By default only `row_group_bytes` limits it.
    row_group_bytes : int, default 256 MiB
        The size of a row group, measured in bytes of values before encoding. Larger batches are
        split, but not into parts of fewer than 64 rows.
    num_buckets : int, default 100
        The number of buckets. Columns are sorted by name and divided into this many buckets. To
        read one column of a monolithic bucket, a reader decompresses the whole bucket.
    array_layout : {"columns", "block"}, default "columns"
        How lists of scalars are stored: as a column of lengths and a column of elements, or as an
        array data block, as in Kudu, of at most 65,535 elements per list. The Apache reader does
        not support blocks and rejects files that contain them.
    use_threads : bool, default True
        Whether to encode buckets on all cores. The file is the same either way.
    page_size_threshold : int, optional
        Compatibility: the layout rule of the Apache writer, which uses 32,768. A bucket whose
        columns have at least this many bytes on average stores each column as a page, so that it
        can be read on its own. By default each bucket gets the layout that costs less on disk and
        in projected reads.
    max_dict_entries : int, default 255
        Compatibility: the maximum number of distinct values in a dictionary.
    max_dict_total_bytes : int, default 32,768
        Compatibility: the maximum number of bytes in a dictionary.
    checksum : bool, default True
        Compatibility: whether compressed blocks contain zstd checksums, which every reader
        verifies.
    annex : bool, default True
        Compatibility: whether the file has an annex, which other readers skip. It contains
        checksums of the index and the footer, schema and field metadata, extension types and the
        name of the writer.

    Examples
    --------
    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> with fm.MosaicWriter(sink, pa.schema({"id": pa.int64()})) as writer:
    ...     writer.write(pa.record_batch({"id": [1, 2]}))
    ...     writer.write(pa.table({"id": [3]}))
    >>> fm.read_table(sink.getvalue()).column("id").to_pylist()
    [1, 2, 3]
    """

    @accepts_options
    def __init__(
        self,
        where: Writable,
        schema: pa.Schema,
        *,
        filesystem: object = None,
        **options: Unpack[WriteOptions],
    ) -> None:
        self._closed = True  # until everything below has succeeded
        self._failed = False
        self.schema = schema
        chosen = completed(options, MosaicWriter)
        is_compressed = chosen["compression"] == "zstd"
        self._compression = Compression.ZSTD if is_compressed else Compression.NONE
        level = chosen["compression_level"]
        self._level = DEFAULT_LEVEL if level is None else level
        self._schema_level = DEFAULT_SCHEMA_LEVEL if level is None else level
        self._checksum = chosen["checksum"]
        self._annex = annex = chosen["annex"]
        self._max_rows = chosen["row_group_size"]
        self._row_group_bytes = chosen["row_group_bytes"]
        self._page_size_threshold = chosen["page_size_threshold"]
        self._max_dict_entries = chosen["max_dict_entries"]
        self._max_dict_bytes = chosen["max_dict_total_bytes"]
        self._use_threads = chosen["use_threads"]

        self._stored = stored_schema(schema)
        # A schema that is stored as it is has nothing attached: ten thousand fields need no look.
        as_it_is = self._stored is schema
        self._attached = None if as_it_is or not annex else attached.encode(schema)
        self._fits = Fits(self._stored, exact=True, advice="")
        self._block = SchemaBlock.from_arrow(
            self._stored, chosen["num_buckets"], chosen["array_layout"] == "block"
        )
        write_statistics = chosen["write_statistics"]
        self._statistics = self._named("write_statistics", write_statistics)
        for position in self._statistics:
            column_type = self._block.column_type(position)
            if not column_type.has_statistics and write_statistics is not True:
                raise UnsupportedError(
                    f"write_statistics: column {self._block.name(position)!r} has type "
                    f"{column_type.arrow}, which has no statistics"
                )
        self._statistics = [
            p for p in self._statistics if self._block.column_type(p).has_statistics
        ]
        dictionary = set(self._named("use_dictionary", chosen["use_dictionary"]))
        self._plan(dictionary)

        self._pending: list[_Pending] = []
        self._buffered = 0
        self._arrow_bytes = 0
        self._pending_rows = 0
        self._row_groups: list[bytes] = []
        self._group_checksums: list[int] = []
        self._compressed_bytes = 0
        self._uncompressed_bytes = 0
        self._sink = open_sink(where, filesystem)
        self._closed = False

    def _named(self, option: str, names: bool | Sequence[str]) -> list[int]:
        """Sorted positions of the columns that an option names."""
        if isinstance(names, bool):
            return list(range(self._block.num_columns)) if names else []
        positions = []
        for name in names:
            position = self._block.find(name)
            if position < 0:
                error = ColumnNotFoundError.for_name(name, self._block.names())
                raise ColumnNotFoundError(f"{option}: {error}")
            positions.append(position)
        return sorted(positions)

    def _plan(self, dictionary: set[int]) -> None:
        """Which arrays of a batch are which flat columns of which bucket."""
        block = self._block
        index_of = [0] * block.num_columns  # sorted position -> index in a batch
        for index, position in enumerate(block.order):
            index_of[position] = index
        self._index_of = index_of
        kinds = bytearray(block.kinds[position] for position in block.order)
        self._nested: list[int] = []  # sorted positions, in the order their children are appended
        self._buckets: list[_BucketPlan] = []
        self._bitmap_bytes = 0  # of a row, over all buckets, as the reference counts them
        for number in range(block.num_buckets):
            columns = BucketColumns(block, number)
            owners = list(columns.positions)
            arrays = [index_of[position] for position in owners]
            for node in columns.nested():
                position = columns.positions[node.flat]
                self._nested.append(position)
                for child in node.walk()[1:]:
                    owners.append(position)
                    arrays.append(len(kinds))
                    kinds.append(columns.kinds[child.flat])
            for flat in columns.blocks:
                # Their elements are no flat column, but count for the size of a row group.
                self._nested.append(columns.positions[flat])
                kinds.append(columns.node(flat).type.children[0].kind)
            allowed = bytes(position in dictionary for position in owners)
            self._buckets.append(_BucketPlan(columns, owners, arrays, allowed))
            self._bitmap_bytes += -(-columns.num_columns // 8)
        lengths = bytes([Kind.NESTED, Kind.ARRAY_BLOCK])
        self._kinds = bytes(kinds).translate(bytes.maketrans(lengths, bytes([Kind.INT32] * 2)))

    def write(self, data: pa.Table | pa.RecordBatch) -> None:
        """Write a table or a record batch."""
        if isinstance(data, pa.RecordBatch):
            self.write_batch(data)
        elif isinstance(data, pa.Table):
            self.write_table(data)
        else:
            raise TypeError(
                f"expected a pyarrow Table or RecordBatch, got {type(data).__name__}; "
                "pyarrow.table(...) makes one"
            )

    def write_table(self, table: pa.Table) -> None:
        """Write the batches of a table."""
        self._check_open()
        self._fits.of(table.schema)  # there may be no batch that would not fit
        for batch in table.to_batches():
            self.write_batch(batch)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a record batch; its columns are matched by name."""
        self._check_open()
        for part in list(self._fits(batch)):
            with self._abandoning():
                for piece in self._pieces(part):
                    self._append(self._prepare(piece))

    def _pieces(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Slices of `batch` that fill the row group at hand and the ones after it, by rows."""
        start = 0
        while start < batch.num_rows:
            length = batch.num_rows - start
            if self._max_rows is not None:
                length = min(length, self._max_rows - self._pending_rows)
            yield batch.slice(start, length)
            start += length

    def _columns(self, batch: pa.RecordBatch) -> Columns:
        """The flat columns of a batch, in C; they take memory of their own, so not for long."""
        columns = Columns(batch)
        for position in self._nested:
            index = self._index_of[position]
            lengths, *children = flatten(batch.column(index), self._block.column_type(position))
            columns.put(index, lengths)
            for child in children:
                columns.append(child)
        return columns

    def _prepare(self, batch: pa.RecordBatch) -> _Pending:
        plain, arrow_bytes = self._columns(batch).sizes(self._kinds)
        return _Pending(batch, plain + batch.num_rows * self._bitmap_bytes, arrow_bytes)

    def _append(self, pending: _Pending) -> None:
        batch = pending.batch
        pieces = layout.num_pieces(batch.num_rows, pending.size, self._row_group_bytes)
        if pieces > 1:
            ends = [batch.num_rows * i // pieces for i in range(pieces + 1)]
            for start, end in pairwise(ends):
                self._append(self._prepare(batch.slice(start, end - start)))
            return
        self._pending.append(pending)
        self._buffered += pending.size
        self._arrow_bytes += pending.arrow_bytes
        self._pending_rows += batch.num_rows
        if self._pending_rows == self._max_rows or layout.is_full(
            self._buffered, self._arrow_bytes, self._row_group_bytes
        ):
            self._flush()
        else:
            self._join_small()

    def _join_small(self) -> None:
        """Make one batch of the small ones at the end, if they have become many."""
        count = 0
        for pending in reversed(self._pending):
            if pending.batch.num_rows >= _SMALL_BATCH_ROWS:
                break
            count += 1
        limit = min(_MAX_SMALL_BATCHES, _MAX_SMALL_ARRAYS // max(1, self._block.num_columns))
        if count < max(2, limit):
            return
        batches = [pending.batch for pending in self._pending[-count:]]
        if self._stored.names:
            table = pa.Table.from_batches(batches).combine_chunks()
            batches = table.to_batches()
        del self._pending[-count:]
        self._pending += [self._prepare(batch) for batch in batches]

    def flush(self) -> None:
        """End the row group at hand: write the rows that wait for it to fill."""
        self._check_open()
        with self._abandoning():
            self._flush()

    def _flush(self) -> None:
        """Write the row group at hand."""
        if not self._pending_rows:
            return
        batches = [self._columns(pending.batch) for pending in self._pending]
        buckets = []
        checksums = []
        jobs = self._buckets if self._stored.names else []
        threaded = self._use_threads and self._buffered >= _MIN_THREADED_BYTES
        for data, uncompressed, measured in map_in_order(
            partial(self._encode_bucket, batches), jobs, threaded
        ):
            buckets.append(Bucket(self._sink.tell(), len(data), uncompressed))
            self._sink.write(data)
            if self._annex:
                checksums.append(crc32c(data))
            self._compressed_bytes += len(data)
            self._uncompressed_bytes += measured
        statistics = [self._measure(position) for position in self._statistics]
        self._row_groups.append(encode_row_group(self._pending_rows, buckets, statistics))
        self._group_checksums.append(BlockChecksums.of_row_group(checksums))
        self._pending = []
        self._buffered = self._arrow_bytes = self._pending_rows = 0

    def _encode_bucket(self, batches: list[Columns], plan: _BucketPlan) -> tuple[bytes, int, int]:
        """The bytes of a bucket; its declared size, and the size that counts for the ratio."""
        num_columns = plan.columns.num_columns
        try:
            pages = encode(
                batches,
                plan.arrays,
                plan.columns.kinds,
                plan.dictionary,
                self._max_dict_entries,
                self._max_dict_bytes,
            )
        except ColumnFault as fault:
            name = self._block.name(plan.owners[fault.column])
            raise ValueError(f"column {name!r}: {fault}") from None
        for flat in plan.columns.blocks:
            block = self._encode_block(plan.owners[flat])
            if block is not None:
                pages.put_block(flat, block)
        if self._compression == Compression.NONE:
            data = encode_monolithic(pages, num_columns)
            return data, len(data), len(data)
        header_bytes = len(monolithic_header(pages, num_columns))
        choice = layout.choose(pages, header_bytes, self._page_size_threshold)
        if choice != layout.Choice.MONOLITHIC:
            paged = encode_paged(pages, num_columns, self._level, self._checksum)
        if choice != layout.Choice.PAGED:
            data = encode_monolithic(pages, num_columns)
            compressed = compress(data, self._level, self._checksum)
            if choice == layout.Choice.MONOLITHIC or not layout.is_paged_better(
                len(paged), len(compressed), len(data)
            ):
                return compressed, len(data), len(data)
        return paged, 0, pages.sizes()[2]

    def _encode_block(self, position: int) -> bytes | None:
        """The array data block of a column, unless it is null altogether."""
        try:
            return arrays.encode(self._chunks(position), self._block.column_type(position))
        except (UnsupportedError, ValueError) as error:
            error.args = (f"column {self._block.name(position)!r}: {error}",)
            raise

    def _measure(self, position: int) -> Statistic:
        column = pa.chunked_array(self._chunks(position))
        return measure(position, self._block.column_type(position), column)

    def _chunks(self, position: int) -> list[pa.Array]:
        """A column of the row group at hand."""
        index = self._index_of[position]
        return [pending.batch.column(index) for pending in self._pending]

    def estimated_file_size(self) -> int:
        """What the file would come to if it were closed now, by the ratio seen so far."""
        if self._uncompressed_bytes:
            ratio = self._compressed_bytes / self._uncompressed_bytes
        else:
            ratio = 1.0 if self._compression == Compression.NONE else _INITIAL_RATIO
        return self._sink.tell() + int(self._buffered * ratio) + 1024

    @property
    def num_bytes(self) -> int:
        """Bytes written so far; after `close`, the size of the file."""
        return self._sink.tell()

    @property
    def num_row_groups(self) -> int:
        """Row groups written so far."""
        return len(self._row_groups)

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Write what is left, then let the file appear. A second call does nothing."""
        if self._failed:
            self._check_open()
        if self._closed:
            return
        with self._abandoning():
            self._flush()
            body = self._block.encode()
            block = len(body).to_bytes(4, "big")
            if self._compression == Compression.ZSTD:
                body = compress(body, self._schema_level, self._checksum)
            block += body
            index = b"".join(self._row_groups)
            annex = Annex(
                Checksums(0, 0),
                self._attached,
                f"fastmosaic {__version__}",
                BlockChecksums(crc32c(block), tuple(self._group_checksums)),
            )
            schema_offset = self._sink.tell()
            if self._annex:
                schema_offset += len(annex.encode())
            footer = Footer(
                schema_offset + len(block),
                schema_offset,
                self._block.num_buckets,
                len(self._row_groups),
                self._compression,
                self._flags(),
            ).encode()
            if self._annex:
                annex = replace(annex, checksums=Checksums.of(index, footer))
                self._sink.write(annex.encode())
            for part in (block, index, footer):
                self._sink.write(part)
            self._sink.commit()
        self._closed = True

    def _flags(self) -> int:
        """The features of the file, for its footer."""
        blocks = Flag.ARRAY_BLOCKS if Kind.ARRAY_BLOCK in self._block.kinds else 0
        return blocks | (Flag.ANNEX if self._annex else 0)

    def abandon(self) -> None:
        """Give the file up: nothing appears under its name."""
        if not self._closed:
            self._closed = True
            self._pending = []
            self._sink.abandon()

    @contextmanager
    def _abandoning(self) -> Iterator[None]:
        """Give the file up if the block raises: it may have been written half."""
        try:
            yield
        except BaseException:
            self.abandon()
            self._failed = True
            raise

    def _check_open(self) -> None:
        if self._failed:
            raise ValueError("an error made the writer give its file up; nothing was written")
        if self._closed:
            raise ValueError("the writer is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()
