"""MosaicWriter: collects batches into row groups and writes a file that appears when complete."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from types import TracebackType
from typing import IO, Any, Final, Self, TypeAlias, Unpack

import pyarrow as pa

from ..errors import SchemaMismatchError
from ..format import user_schema
from ..format.annex import Annex, Base, BlockChecksums, Checksums
from ..format.footer import Flag, Footer
from ..format.index import Bucket, encode_row_group
from ..format.metadata import FileMetaData
from ..format.schema import SchemaBlock
from ..format.shred import Shredder
from ..format.types import Kind
from ..format.wire import Compression, compress, crc32c
from ..schemas.fit import Fits, NarrowCheck, plain_schema
from ..storage.sink import open_sink
from ..version import __version__
from . import layout
from .batches import open_batches
from .dictionaries import DictionaryCollector
from .encode import RowGroupEncoder
from .key_index import KeyCollector
from .options import WriteOptions, accepts_options, completed
from .pending import PendingRows
from .row_group import FinishedRowGroup, StoredRowGroup, difference

Writable: TypeAlias = str | os.PathLike[str] | IO[bytes] | pa.NativeFile

DEFAULT_SCHEMA_LEVEL: Final = 6

# The assumed compression ratio until the first row group has been written.
_INITIAL_RATIO: Final = 0.3


class MosaicWriter:
    """Write a Mosaic file, batch by batch.

    The file appears under its name only when `close` has succeeded. If an exception is raised
    inside a `with` block, no file appears, and an existing file of that name stays unchanged.

    Parameters
    ----------
    where : path, URI or writable binary file object
    schema : pyarrow.Schema
        All types of Arrow except unions. Types that the format does not have are stored as others
        that hold every value, and restored when the file is read: a struct as one column for each
        field, dictionaries as their values, durations as integers.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `where`.
    compression : {"zstd", "none", None}, default "zstd"
    compression_level : int, optional
        The zstd level: 1 is fast, 19 is small. By default, data is compressed about as fast as
        with level 1, with parameters that suit each kind of page, and column names with level 6.
    write_statistics : bool or list of str, default False
        The columns whose minimum, maximum and null count are stored for each row group, so that
        `filters` can skip row groups. True selects every column whose type supports statistics.
    use_dictionary : bool or list of str, default True
        The columns that may be dictionary-encoded, which is done where it saves space after
        compression.
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
    layout : {"auto", "serving"}, default "auto"
        What the file is made for. "serving" writes row groups of 4,096 rows and 10 buckets, and
        stores each column as a page, so that reading a few rows decompresses little. The file is
        larger. `row_group_size`, `num_buckets` and `page_size_threshold` override it.
    write_key_index : str or list of str, optional
        The column, or the columns, whose values `lookup` can find without reading the column. The
        index takes 12 bytes for each row. It requires the annex.
    use_threads : bool, default True
        Whether to encode buckets on all cores. The file is the same either way.
    page_size_threshold : int, optional
        Compatibility: the layout rule of the Apache writer, which uses 32,768. A bucket whose
        columns have at least this many bytes on average stores each column as a page, so that it
        can be read on its own. By default each bucket gets the layout that costs less on disk and
        in projected reads.
    max_dict_entries : int, optional
        Compatibility: the maximum number of distinct values in a dictionary. With this option or
        the next one, dictionaries are chosen by the rule of the Apache writer, which uses 255 and
        32,768 bytes.
    max_dict_total_bytes : int, optional
        Compatibility: the maximum number of bytes in a dictionary.
    checksum : bool, default True
        Compatibility: whether compressed blocks contain zstd checksums, which every reader
        verifies.
    annex : bool, default True
        Compatibility: whether the file has an annex, which other readers skip. It contains
        checksums of the index and the footer, schema and field metadata, the types that the format
        does not have, and the name of the writer.

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
        level = chosen["compression_level"]
        self._schema_level = DEFAULT_SCHEMA_LEVEL if level is None else level
        self._checksum = chosen["checksum"]
        self._annex = annex = chosen["annex"]
        self._max_rows = chosen["row_group_size"]
        self._row_group_bytes = chosen["row_group_bytes"]

        plain = plain_schema(schema, annex=annex)
        # If the schema is stored unchanged, no field has metadata: there is no need to look.
        self._is_plain = plain is schema
        self._fits = Fits(plain, exact=True, advice="")
        restored = pa.schema([]) if self._is_plain or not annex else schema
        self._check_narrow: NarrowCheck | None = NarrowCheck(restored)
        self._shred = Shredder(plain, is_stored=self._is_plain)
        self._stored = self._shred.schema
        self._dictionaries = DictionaryCollector(restored)
        self._block = SchemaBlock.from_arrow(
            self._stored, chosen["num_buckets"], chosen["array_layout"] == "block"
        )
        self._encoder = RowGroupEncoder(self._block, chosen, self._shred)
        self._compression = self._encoder.compression

        self._keys: KeyCollector | None = None
        if (names := chosen["write_key_index"]) is not None:
            if not annex:
                raise ValueError("write_key_index requires an annex; remove annex=False")
            self._keys = KeyCollector(names, plain)
        self._pending = PendingRows(self._encoder, self._row_group_bytes)
        self._row_groups: list[bytes] = []
        self._compared: tuple[SchemaBlock, Compression] | None = None  # with those of the file
        self._difference: str | None = None
        self._group_checksums: list[int] = []
        self._base: Base | None = None
        self._compressed_bytes = 0
        self._uncompressed_bytes = 0
        self._sink = open_sink(where, filesystem)
        self._closed = False

    def join_dataset(self, dictionaries: DictionaryCollector) -> None:
        """Expect batches of plain types, which the caller has checked.

        The file stores `dictionaries`, which it has in common with other files.
        """
        self._check_narrow = None
        if self._dictionaries:
            self._dictionaries = dictionaries

    def belong_to(self, base: Base) -> None:
        """Make this a column file of a table, with the rows and row groups of the file `base`."""
        self._base = base

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaMismatchError if data of `schema` cannot be written to the file."""
        self._fits.of(schema)

    def write(self, data: Any) -> None:
        """Write a table, a record batch or a stream of them, in the order that it has.

        Parameters
        ----------
        data : table, record batch, reader, dataset, scanner, data frame, or iterable
            A pyarrow object, anything with the Arrow stream interface (data frames of pandas and
            Polars, relations of DuckDB), or an iterable of tables and record batches. Data is
            streamed. Columns are matched by name.
        """
        self._check_open()
        schema, items = open_batches(data, self.schema)
        self.check(schema)
        for item in items:
            if isinstance(item, pa.RecordBatch):
                self.write_batch(item)
            else:
                self.write_table(item)

    def write_table(self, table: pa.Table) -> None:
        """Write the batches of a table."""
        self._check_open()
        self.check(table.schema)  # a table without rows has no batch
        if self._dictionaries:
            self._dictionaries.add_table(table)
        for batch in table.to_batches():
            self.write_batch(batch)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a record batch. Columns are matched by name."""
        self._check_open()
        self.check(batch.schema)
        if self._check_narrow is not None:
            self._check_narrow(batch)
        if self._dictionaries:
            self._dictionaries.add(batch)
        for part in list(self._fits(batch)):
            with self._abandoning():
                if self._keys is not None:
                    self._keys.add(part)
                for piece in self._pieces(self._shred(part)):
                    self._buffer(piece, piece.num_rows < part.num_rows)
                self._pending.settle()

    def _pieces(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Yield slices of `batch` that fill the current row group and later ones, by rows."""
        start = 0
        while start < batch.num_rows:
            length = batch.num_rows - start
            if self._max_rows is not None:
                length = min(length, self._max_rows - self._pending.num_rows)
            # A slice of all rows would be objects for each column.
            yield batch if length == batch.num_rows else batch.slice(start, length)
            start += length

    def _buffer(self, batch: pa.RecordBatch, is_part: bool) -> None:
        """Add a batch, or the parts of it that fill row groups; `is_part` as in `PendingRows`."""
        flat = self._encoder.flat(batch)
        pending, limit = self._pending, self._row_group_bytes
        ends = layout.row_group_ends(
            batch.num_rows, flat.num_bytes, pending.num_bytes, limit, pending.is_collected
        )
        if len(ends) > 1:
            for start, end in pairwise([0, *ends]):
                self._buffer(batch.slice(start, end - start), is_part=True)
            return
        pending.add(flat, is_part)
        if pending.num_rows == self._max_rows or layout.is_full(
            pending.num_bytes, pending.memory, limit
        ):
            self._flush()

    def flush(self) -> None:
        """Write the buffered rows as a row group, even if it is not full yet."""
        self._check_open()
        with self._abandoning():
            self._flush()

    def _flush(self) -> None:
        if self._pending.num_rows:
            self._append(self._pending.finished())
            self._pending.clear()

    def append_row_group(self, group: StoredRowGroup) -> None:
        """Append a row group of another file as it is, after the rows that were written so far.

        The file must have the same stored columns, types, number of buckets and compression;
        otherwise SchemaMismatchError is raised. Limits on the size of row groups do not apply, and
        the row group keeps the statistics that it has. Dictionaries of the user are not appended:
        `join_dataset` sets them.
        """
        self._check_open()
        if problem := self.unlike(group.metadata):
            raise SchemaMismatchError(problem)
        with self._abandoning():
            self._flush()
            self._row_groups.append(group.moved(self._sink.tell()))
            self._group_checksums.append(group.copy_to(self._sink))
            compressed, uncompressed = group.plain_sizes
            self._compressed_bytes += compressed
            self._uncompressed_bytes += uncompressed

    def unlike(self, metadata: FileMetaData) -> str | None:
        """Return why row groups of another file cannot be appended, or None if they can."""
        if self._keys is not None:
            return "a file with a key index needs the values of its key"
        key = metadata.schema_block, metadata.codec
        if key != self._compared:
            self._compared = key
            self._difference = difference(metadata, self._block, self._compression)
        return self._difference

    def _append(self, group: FinishedRowGroup) -> None:
        """Write the buckets of a row group, and note where they are."""
        places = []
        checksums = []
        statistics = []
        num_statistics = 0
        for bucket in group.buckets:
            data = bucket.data
            places.append(Bucket(self._sink.tell(), len(data), bucket.uncompressed_size))
            self._sink.write(data)
            if self._annex:
                checksums.append(crc32c(data))
            self._compressed_bytes += len(data)
            self._uncompressed_bytes += bucket.plain_size
            num_statistics += bucket.num_statistics
            statistics.append(bucket.statistics)
        self._row_groups.append(
            encode_row_group(group.num_rows, places, num_statistics, b"".join(statistics))
        )
        self._group_checksums.append(BlockChecksums.of_row_group(checksums))

    def estimated_file_size(self) -> int:
        """Return the estimated size of the file if it were closed now.

        The estimate uses the compression ratio of the row groups written so far.
        """
        if self._uncompressed_bytes:
            ratio = self._compressed_bytes / self._uncompressed_bytes
        else:
            ratio = 1.0 if self._compression == Compression.NONE else _INITIAL_RATIO
        return self._sink.tell() + int(self._pending.num_bytes * ratio) + 1024

    @property
    def num_bytes(self) -> int:
        """The number of bytes written so far; after `close`, the size of the file."""
        return self._sink.tell()

    @property
    def num_row_groups(self) -> int:
        """The number of row groups written so far."""
        return len(self._row_groups)

    @property
    def closed(self) -> bool:
        """Whether the writer was closed or abandoned."""
        return self._closed

    def close(self) -> None:
        """Write the remaining rows and complete the file. A second call does nothing."""
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
            schema = self.schema
            dictionaries = None
            keys = None
            if self._keys is not None:
                blocks = list(self._keys.blocks())
                keys = self._keys.section(blocks)
                for part in blocks:
                    self._sink.write(part)
            if self._dictionaries:
                schema = self._dictionaries.widened(schema)
                dictionaries = self._write_dictionaries(self._dictionaries.table())
            common = {} if self._is_plain else user_schema.common_types(schema)
            annex = Annex(
                Checksums(0, 0),
                None if self._is_plain else user_schema.encode(schema, common),
                f"fastmosaic {__version__}",
                BlockChecksums(crc32c(block), tuple(self._group_checksums)),
                dictionaries,
                user_schema.encode_common(common),
                self._base,
                keys,
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

    def _write_dictionaries(self, table: pa.Table | None) -> int | None:
        """Write the dictionaries of the user as a file of its own; return its size."""
        if table is None:
            return None
        sink = pa.BufferOutputStream()
        compression = self._compression.name.lower()
        with MosaicWriter(
            sink,
            table.schema,
            compression=compression,
            compression_level=self._schema_level,
            checksum=self._checksum,
        ) as writer:
            writer.write_table(table)
        data = sink.getvalue()
        self._sink.write(data)
        return int(data.size)

    def _flags(self) -> int:
        """Return the flags of the footer: the features that the file uses."""
        flags = Flag.ARRAY_BLOCKS if Kind.ARRAY_BLOCK in self._block.kinds else 0
        if not self._annex:
            return flags
        is_restored = not self._is_plain and user_schema.restores_types(self.schema)
        return flags | Flag.ANNEX | (Flag.TYPES if is_restored else 0)

    def abandon(self) -> None:
        """Discard the file: nothing appears under its name. Does nothing after `close`."""
        if not self._closed:
            self._closed = True
            self._pending.clear()
            self._sink.abandon()

    @contextmanager
    def _abandoning(self) -> Iterator[None]:
        """Abandon the file if the block raises: a part of it may have been written."""
        try:
            yield
        except BaseException:
            self.abandon()
            self._failed = True
            raise

    def _check_open(self) -> None:
        if self._failed:
            raise ValueError("the writer was aborted by an earlier error; nothing was written")
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
