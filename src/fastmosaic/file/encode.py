"""Encoding batches as a row group: which arrays go to which bucket, and how each is laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow as pa

from ..errors import ColumnNotFoundError, MosaicError, UnsupportedError
from ..format import list_blocks as arrays
from ..format.bucket import (
    ArrowColumns,
    ColumnFault,
    encode_monolithic,
    encode_paged,
    encode_pages,
    monolithic_header,
)
from ..format.index import Statistic
from ..format.nested import BucketColumns, flatten
from ..format.schema import SchemaBlock
from ..format.shred import Shredder
from ..format.statistics import measure
from ..format.types import Kind
from ..format.wire import Compression, compress
from ..threads import map_in_order
from . import layout
from .options import WriteOptions
from .row_group import FinishedBucket, FinishedRowGroup

DEFAULT_LEVEL: Final = 1
# Below this many bytes of values, threads would spend more time waiting than encoding.
_MIN_THREADED_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class _BucketPlan:
    """The flat columns of a bucket, and where to find them."""

    columns: BucketColumns
    owners: list[int]  # the sorted position of the column that each flat column belongs to
    arrays: list[int]  # the index of its array in a batch
    dictionary: bytes  # whether it may be dictionary-encoded


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
        level = options["compression_level"]
        self._level = DEFAULT_LEVEL if level is None else level
        self._checksum = options["checksum"]
        self._page_size_threshold = options["page_size_threshold"]
        self._max_dict_entries = options["max_dict_entries"]
        self._max_dict_bytes = options["max_dict_total_bytes"]
        self._use_threads = options["use_threads"]
        self._statistics = self._with_statistics(options["write_statistics"])
        self._plan(set(self._positions("use_dictionary", options["use_dictionary"])))

    def _with_statistics(self, chosen: bool | Sequence[str]) -> list[int]:
        """Return the sorted positions of the columns that get statistics."""
        unsigned = set() if self._shredder is None else self._shredder.unsigned

        def has_statistics(position: int) -> bool:
            if self._schema.column_type(position).has_statistics:
                return True
            return self._schema.name(position) in unsigned

        if isinstance(chosen, bool):
            every = range(self._schema.num_columns) if chosen else ()
            return [position for position in every if has_statistics(position)]
        positions: list[int] = []
        for name in chosen:
            found = self._positions("write_statistics", [name])
            positions += filter(has_statistics, found)
            if not any(map(has_statistics, found)):
                column_type = self._schema.column_type(found[0])
                raise UnsupportedError(
                    f"write_statistics: column {self._schema.name(found[0])!r} has type "
                    f"{column_type.arrow}, which does not support statistics"
                )
        return sorted(positions)

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

    def _plan(self, dictionary: set[int]) -> None:
        """Find out which arrays of a batch are which flat columns of which bucket."""
        block = self._schema
        index_of = [0] * block.num_columns  # sorted position -> index in a batch
        for index, position in enumerate(block.order):
            index_of[position] = index
        self._index_of = index_of
        kinds = bytearray(block.kinds[position] for position in block.order)
        self._nested: list[int] = []  # sorted positions, in the order their children are appended
        self._plans: list[_BucketPlan] = []
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
                # Their elements are not flat columns, but count towards the size of a row group.
                self._nested.append(columns.positions[flat])
                kinds.append(columns.node(flat).type.children[0].kind)
            allowed = bytes(position in dictionary for position in owners)
            self._plans.append(_BucketPlan(columns, owners, arrays, allowed))
            self._bitmap_bytes += -(-columns.num_columns // 8)
        lengths = bytes([Kind.NESTED, Kind.ARRAY_BLOCK])
        self._kinds = bytes(kinds).translate(bytes.maketrans(lengths, bytes([Kind.INT32] * 2)))

    def sizes(self, batch: pa.RecordBatch) -> tuple[int, int]:
        """Return the bytes that the values of a batch count for, and the bytes it occupies."""
        plain, arrow_bytes = self._columns(batch).sizes(self._kinds)
        return plain + batch.num_rows * self._bitmap_bytes, arrow_bytes

    def encode(self, batches: Sequence[pa.RecordBatch], num_bytes: int) -> FinishedRowGroup:
        """Encode batches, which have `num_bytes` bytes of values, as one row group."""
        return FinishedRowGroup(
            self._schema,
            self.compression,
            sum(batch.num_rows for batch in batches),
            self._buckets(batches, num_bytes),
            tuple(self._measure(batches, position) for position in self._statistics),
        )

    def _buckets(
        self, batches: Sequence[pa.RecordBatch], num_bytes: int
    ) -> Iterator[FinishedBucket]:
        """Yield encoded buckets, in order, while others are being encoded."""
        if self._schema.num_columns:
            columns = [self._columns(batch) for batch in batches]
            threaded = self._use_threads and num_bytes >= _MIN_THREADED_BYTES
            work = partial(self._encode_bucket, batches, columns)
            yield from map_in_order(work, self._plans, threaded)

    def _columns(self, batch: pa.RecordBatch) -> ArrowColumns:
        """Return the flat columns of a batch for the kernel. They occupy memory of their own."""
        columns = ArrowColumns(batch)
        for position in self._nested:
            index = self._index_of[position]
            lengths, *children = flatten(batch.column(index), self._schema.column_type(position))
            columns.put(index, lengths)
            for child in children:
                columns.append(child)
        return columns

    def _encode_bucket(
        self, batches: Sequence[pa.RecordBatch], columns: list[ArrowColumns], plan: _BucketPlan
    ) -> FinishedBucket:
        num_columns = plan.columns.num_columns
        try:
            pages = encode_pages(
                columns,
                plan.arrays,
                plan.columns.kinds,
                plan.columns.digits,
                plan.dictionary,
                self._max_dict_entries,
                self._max_dict_bytes,
            )
        except ColumnFault as fault:
            name = self._schema.name(plan.owners[fault.column])
            raise ValueError(f"column {name!r}: {fault}") from None
        for flat in plan.columns.blocks:
            block = self._encode_block(batches, plan.owners[flat])
            if block is not None:
                pages.put_block(flat, block)
        if self.compression == Compression.NONE:
            data = encode_monolithic(pages, num_columns)
            return FinishedBucket(data, len(data), len(data))
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
                return FinishedBucket(compressed, len(data), len(data))
        return FinishedBucket(paged, 0, pages.sizes()[2])

    def _encode_block(self, batches: Sequence[pa.RecordBatch], position: int) -> bytes | None:
        """Return the array data block of a column; None if every value is null."""
        chunks = self._chunks(batches, position)
        try:
            return arrays.encode(chunks, self._schema.column_type(position))
        except MosaicError as error:
            error.locate(column=self._schema.name(position))
            raise
        except ValueError as error:
            raise ValueError(f"column {self._schema.name(position)!r}: {error}") from error

    def _measure(self, batches: Sequence[pa.RecordBatch], position: int) -> Statistic:
        column = pa.chunked_array(self._chunks(batches, position))
        return measure(position, self._schema.column_type(position), column)

    def _chunks(self, batches: Sequence[pa.RecordBatch], position: int) -> list[pa.Array]:
        """Return the arrays of a column, one for each batch."""
        index = self._index_of[position]
        return [batch.column(index) for batch in batches]
