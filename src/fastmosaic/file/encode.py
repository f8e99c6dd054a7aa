"""Encoding batches as a row group: which arrays go to which bucket, and how each is laid out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from ..errors import ColumnNotFoundError, MosaicError, UnsupportedError
from ..format import list_blocks as arrays
from ..format.bucket import (
    ArrowColumns,
    CollectedColumns,
    ColumnFault,
    EncodedPages,
    check_columns,
    compress_monolithic,
    encode_monolithic,
    encode_paged,
    encode_pages,
    monolithic_header,
)
from ..format.nested import BucketColumns, flatten
from ..format.schema import SchemaBlock
from ..format.shred import Shredder
from ..format.types import Kind, TypeId
from ..format.wire import Compression
from ..threads import map_in_order
from . import layout
from .options import WriteOptions
from .row_group import FinishedBucket, FinishedRowGroup

# Below this many bytes of values, threads would spend more time waiting than encoding.
_MIN_THREADED_BYTES: Final = 4 << 20
# The limits of dictionaries of the Apache writer, if only one of them is given.
_MAX_DICT_ENTRIES: Final = 255
_MAX_DICT_BYTES: Final = 32768
# Arrays of a column of array data blocks that are joined.
_MAX_BLOCK_ARRAYS: Final = 32

# What is asked for of a flat column: flags of the kernel.
_DICTIONARY: Final = 1
_FLOAT: Final = 2
_STATISTICS: Final = 4
_WITHOUT_STATISTICS: Final = (Kind.BINARY, Kind.DECIMAL128, Kind.NESTED, Kind.ARRAY_BLOCK)


def has_statistics(kind: int) -> bool:
    """Return whether columns of a `Kind` have statistics.

    Decimals that store uint64 have some, although other decimals of that kind do not.
    """
    return kind not in _WITHOUT_STATISTICS


@dataclass(frozen=True, slots=True)
class _BucketPlan:
    """The flat columns of a bucket, and where to find them."""

    columns: BucketColumns
    owners: list[int]  # the sorted position of the column that each flat column belongs to
    arrays: list[int]  # the index of its array in a batch
    flags: bytes


@dataclass(frozen=True, slots=True)
class FlatBatch:
    """A batch, and its flat columns for the kernel."""

    batch: pa.RecordBatch
    columns: ArrowColumns
    num_bytes: int  # of its values before encoding, which limit the size of a row group
    arrow_bytes: int  # memory that it occupies

    @property
    def num_rows(self) -> int:
        return int(self.batch.num_rows)


class CollectedRows:
    """Rows of small batches, collected so that the batches can be released."""

    def __init__(self, kinds: bytes) -> None:
        self.columns = CollectedColumns(kinds)
        self.blocks: dict[int, list[pa.Array]] = {}  # of array data blocks, by sorted position

    @property
    def num_rows(self) -> int:
        return self.columns.num_rows

    def put_block(self, position: int, array: pa.Array) -> None:
        """Append the lists of a column that becomes an array data block."""
        found = self.blocks.setdefault(position, [])
        found.append(array)
        if len(found) > _MAX_BLOCK_ARRAYS:
            found[:] = [pa.concat_arrays(found)]


class RowGroupEncoder:
    """Encode batches of the columns of `schema` as row groups.

    `options` are complete, as `options.completed` returns them.
    """

    def __init__(
        self, schema: SchemaBlock, options: WriteOptions, shredder: Shredder | None = None
    ) -> None:
        self._schema = schema
        self._shredder = shredder
        self.compression = (
            Compression.ZSTD if options["compression"] == "zstd" else Compression.NONE
        )
        self._level = options["compression_level"]
        self._checksum = options["checksum"]
        self._page_size_threshold = options["page_size_threshold"]
        limits = options["max_dict_entries"], options["max_dict_total_bytes"]
        self._max_dict_entries: int | None = None  # by cost
        self._max_dict_bytes = _MAX_DICT_BYTES if limits[1] is None else limits[1]
        # Without compression, what decides is the size of pages as they are.
        if limits != (None, None) or self.compression == Compression.NONE:
            self._max_dict_entries = _MAX_DICT_ENTRIES if limits[0] is None else limits[0]
        self._use_threads = options["use_threads"]
        self._plan(self._flags(options))

    def _flags(self, options: WriteOptions) -> bytes:
        """Return what is asked for of each column, by sorted position."""
        schema = self._schema
        floats = bytes(
            _FLOAT if type_id in (TypeId.FLOAT, TypeId.DOUBLE) else 0 for type_id in range(256)
        )
        flags = bytearray(schema.type_ids.translate(floats))
        for position in self._positions("use_dictionary", options["use_dictionary"]):
            flags[position] |= _DICTIONARY
        for position in self._with_statistics(options["write_statistics"]):
            flags[position] |= _STATISTICS
        return bytes(flags)

    def _with_statistics(self, chosen: bool | Sequence[str]) -> list[int]:
        """Return the positions of the columns that get statistics."""
        schema = self._schema
        unsigned = set() if self._shredder is None else self._shredder.unsigned

        def is_supported(position: int) -> bool:
            kind = schema.kinds[position]
            return has_statistics(kind) or (
                kind == Kind.DECIMAL128 and schema.name(position) in unsigned
            )

        if isinstance(chosen, bool):
            every = range(schema.num_columns) if chosen else ()
            return [position for position in every if is_supported(position)]
        positions: list[int] = []
        for name in chosen:
            found = self._positions("write_statistics", [name])
            positions += filter(is_supported, found)
            if not any(map(is_supported, found)):
                column_type = schema.column_type(found[0])
                raise UnsupportedError(
                    f"write_statistics: column {schema.name(found[0])!r} has type "
                    f"{column_type.arrow}, which does not support statistics"
                )
        return positions

    def _positions(self, option: str, names: bool | Sequence[str]) -> list[int]:
        """Return the sorted positions of the columns that an option selects."""
        if isinstance(names, bool):
            return list(range(self._schema.num_columns)) if names else []
        positions: list[int] = []
        for name in names:
            stored = [name] if self._shredder is None else self._shredder.stored_names(name)
            if not stored or self._schema.find(stored[0]) < 0:
                raise ColumnNotFoundError.for_name(name, self._schema.similar(name), option=option)
            positions += map(self._schema.find, stored)
        return sorted(positions)

    def _plan(self, flags: bytes) -> None:
        """Find out which arrays of a batch are which flat columns of which bucket."""
        block = self._schema
        index_of = [0] * block.num_columns  # sorted position -> index in a batch
        for index, position in enumerate(block.order):
            index_of[position] = index
        self._index_of = index_of
        kinds = bytearray(block.kinds[position] for position in block.order)
        digits = bytearray(len(kinds))
        elements: dict[int, int] = {}  # of array data blocks: index in a batch -> kind
        self._nested: list[int] = []  # sorted positions, in the order their children are appended
        self._plans: list[_BucketPlan] = []
        self._bitmap_bytes = 0  # of a row, over all buckets, as the reference counts them
        for number in range(block.num_buckets):
            columns = BucketColumns(block, number)
            owners = list(columns.positions)
            arrays = [index_of[position] for position in owners]
            own = bytearray(flags[columns.positions.start : columns.positions.stop])
            for node in columns.nested():
                position = columns.positions[node.flat]
                self._nested.append(position)
                for child in node.walk()[1:]:
                    owners.append(position)
                    arrays.append(len(kinds))
                    kinds.append(columns.kinds[child.flat])
                    is_float = pa.types.is_floating(child.arrow)
                    own.append(flags[position] & _DICTIONARY | (_FLOAT if is_float else 0))
            for flat in columns.blocks:
                # Their elements are not flat columns, but count towards the size of a row group.
                self._nested.append(columns.positions[flat])
                elements[len(kinds)] = columns.node(flat).type.children[0].kind
                kinds.append(Kind.ARRAY_BLOCK)
            digits += bytes(len(kinds) - len(digits))
            if any(columns.digits):
                for flat, index in enumerate(arrays):
                    digits[index] = columns.digits[flat]
            self._plans.append(_BucketPlan(columns, owners, arrays, bytes(own)))
            self._bitmap_bytes += -(-columns.num_columns // 8)
        lengths = bytes([Kind.INT32])
        self._flat_kinds = bytes(kinds).replace(bytes([Kind.NESTED]), lengths)
        sized = bytearray(self._flat_kinds.replace(bytes([Kind.ARRAY_BLOCK]), lengths))
        for index, kind in elements.items():
            sized[index] = kind
        self._sized_kinds = bytes(sized)
        self._digits = bytes(digits)

    def flat(self, batch: pa.RecordBatch) -> FlatBatch:
        """Return the flat columns of a batch. They occupy memory of their own."""
        columns = ArrowColumns(batch)
        for position in self._nested:
            index = self._index_of[position]
            lengths, *children = flatten(batch.column(index), self._schema.column_type(position))
            columns.put(index, lengths)
            for child in children:
                columns.append(child)
        plain, arrow_bytes = columns.sizes(self._sized_kinds)
        return FlatBatch(batch, columns, plain + batch.num_rows * self._bitmap_bytes, arrow_bytes)

    def collect(self, batch: FlatBatch, rows: CollectedRows | None) -> CollectedRows:
        """Append the rows of a batch to `rows`, or to new ones, and return them."""
        if rows is None:
            rows = CollectedRows(self._flat_kinds)
        try:
            check_columns(batch.columns, self._flat_kinds, self._digits)
        except ColumnFault as fault:
            raise self._column_error(fault, self._owner(fault.column)) from None
        rows.columns.append(batch.columns, batch.num_rows)
        for plan in self._plans:
            for flat in plan.columns.blocks:
                position = plan.owners[flat]
                rows.put_block(position, batch.batch.column(self._index_of[position]))
        return rows

    def _owner(self, index: int) -> int:
        """Return the sorted position of the column that an array of a batch belongs to."""
        return next(
            plan.owners[plan.arrays.index(index)] for plan in self._plans if index in plan.arrays
        )

    def _column_error(self, fault: ColumnFault, position: int) -> ValueError:
        return ValueError(f"column {self._schema.name(position)!r}: {fault}")

    def encode(self, batches: Sequence[FlatBatch]) -> FinishedRowGroup:
        """Encode batches as one row group."""

        def chunks(position: int) -> list[pa.Array]:
            index = self._index_of[position]
            return [batch.batch.column(index) for batch in batches]

        columns = [batch.columns for batch in batches]
        num_rows = sum(batch.num_rows for batch in batches)
        num_bytes = sum(batch.num_bytes for batch in batches)
        return self._row_group(num_rows, columns, chunks, num_bytes)

    def encode_collected(self, rows: CollectedRows, num_bytes: int) -> FinishedRowGroup:
        """Encode collected rows, which have `num_bytes` bytes of values, as one row group."""
        return self._row_group(rows.num_rows, rows.columns, rows.blocks.__getitem__, num_bytes)

    def _row_group(
        self,
        num_rows: int,
        columns: list[ArrowColumns] | CollectedColumns,
        chunks: Callable[[int], list[pa.Array]],
        num_bytes: int,
    ) -> FinishedRowGroup:
        """Return a row group whose buckets are encoded when they are asked for.

        `chunks` returns the arrays of a column that is stored as array data blocks.
        """
        work = partial(self._encode_bucket, columns, chunks)
        threaded = self._use_threads and num_bytes >= _MIN_THREADED_BYTES
        plans = self._plans if self._schema.num_columns else []
        buckets = map_in_order(work, plans, threaded)
        return FinishedRowGroup(num_rows, buckets)

    def _encode_bucket(
        self,
        columns: list[ArrowColumns] | CollectedColumns,
        chunks: Callable[[int], list[pa.Array]],
        plan: _BucketPlan,
    ) -> FinishedBucket:
        num_columns = plan.columns.num_columns
        try:
            pages = encode_pages(
                columns,
                plan.arrays,
                plan.columns.kinds,
                plan.columns.digits,
                plan.flags,
                self._max_dict_entries,
                self._max_dict_bytes,
                self._level,
                self._checksum,
            )
        except ColumnFault as fault:
            raise self._column_error(fault, plan.owners[fault.column]) from None
        for flat in plan.columns.blocks:
            block = self._encode_block(chunks(plan.owners[flat]), plan.owners[flat])
            if block is not None:
                pages.put_block(flat, block)
        data, uncompressed_size, plain_size = self._layout(pages, num_columns)
        statistics, count = pages.statistics(plan.columns.positions.start, num_columns)
        return FinishedBucket(data, uncompressed_size, plain_size, count, statistics)

    def _layout(self, pages: EncodedPages, num_columns: int) -> tuple[bytes, int, int]:
        """Return a bucket, its uncompressed size in the index, and its size before compression."""
        if self.compression == Compression.NONE:
            data = encode_monolithic(pages, num_columns)
            return data, len(data), len(data)
        header_bytes = len(monolithic_header(pages, num_columns))
        choice = layout.choose(pages, header_bytes, self._page_size_threshold)
        if choice != layout.Choice.MONOLITHIC:
            paged = encode_paged(pages, num_columns)
        if choice != layout.Choice.PAGED:
            compressed, size = compress_monolithic(pages, num_columns)
            if choice == layout.Choice.MONOLITHIC or not layout.is_paged_better(
                len(paged), len(compressed), size
            ):
                return compressed, size, size
        return paged, 0, pages.sizes()[2]

    def _encode_block(self, chunks: list[pa.Array], position: int) -> bytes | None:
        """Return the array data block of a column; None if every value is null."""
        try:
            return arrays.encode(chunks, self._schema.column_type(position))
        except MosaicError as error:
            error.locate(column=self._schema.name(position))
            raise
        except ValueError as error:
            raise ValueError(f"column {self._schema.name(position)!r}: {error}") from error
