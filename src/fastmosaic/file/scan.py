"""Read columns of row groups: plan the reads, read in at most two rounds, decode.

The first round reads monolithic buckets, paged buckets that are small or wanted as a whole, and the
directories of the other paged buckets. The second round reads the wanted slots. There are two
rounds at most, for any number of row groups.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from ..errors import CorruptFileError, MosaicError, Place, located
from ..format import bucket as buckets
from ..format.bucket import Batch, Directory, Layout, Pages
from ..format.index import Bucket
from ..format.metadata import FileMetaData
from ..format.nested import BucketColumns
from ..format.wire import MAX_BLOCK_BYTES, MAX_FRAME_EXPANSION, Compression, decompress
from ..query.rows import rows_without_columns
from ..storage.source import EMPTY, Source, read_ranges
from ..threads import map_in_order

# A paged bucket up to this size is read as a whole: one read is cheaper than one for the directory
# and more for the slots. A read costs microseconds on a local disk, and milliseconds elsewhere.
WHOLE_BUCKET_BYTES_LOCAL: Final = 64 << 10
WHOLE_BUCKET_BYTES_REMOTE: Final = 1 << 20
# With fewer compressed bytes, threads would wait for each other longer than they decode.
MIN_THREADED_BYTES: Final = 2 << 20
# Columns of a paged bucket that one thread decodes at a time.
MAX_TASK_COLUMNS: Final = 128


@dataclass(frozen=True, slots=True)
class _BucketPart:
    """The wanted columns of one bucket; the same in every row group."""

    number: int
    columns: BucketColumns
    places: list[int]  # of the columns in the result
    wanted: list[int]  # indices of the columns in the bucket
    flat: Sequence[int]  # the flat columns that store them

    def divided(self) -> list[_BucketPart]:
        """Return parts with fewer columns, so that several threads can work on them."""
        if len(self.wanted) <= MAX_TASK_COLUMNS:
            return [self]
        return [
            _part(
                self.number,
                self.columns,
                self.places[start : start + MAX_TASK_COLUMNS],
                self.wanted[start : start + MAX_TASK_COLUMNS],
            )
            for start in range(0, len(self.wanted), MAX_TASK_COLUMNS)
        ]


def _part(number: int, columns: BucketColumns, places: list[int], wanted: list[int]) -> _BucketPart:
    return _BucketPart(number, columns, places, wanted, buckets.flat_of(columns, wanted))


@dataclass(slots=True)
class _Task:
    """A part in one row group, and the bytes read for it."""

    group: int
    num_rows: int
    part: _BucketPart
    bucket: Bucket
    whole: bool  # whether the whole bucket is read, or only the wanted slots
    data: pa.Buffer | None = None  # the bucket, or its directory
    directory: Directory | None = None  # of a paged bucket
    slots: dict[int, pa.Buffer] | None = None  # by flat column

    @property
    def size(self) -> int:
        """The number of bytes to decompress, roughly."""
        if self.slots is not None:
            return sum(slot.size for slot in self.slots.values())
        return self.bucket.compressed_size * len(self.part.wanted) // self.part.columns.num_columns

    @property
    def place(self) -> Place:
        return {
            "row_group": self.group,
            "bucket": self.part.number,
            "offset": self.bucket.offset,
        }


class Scanner:
    """Reads columns of an open file."""

    def __init__(self, source: Source, metadata: FileMetaData, tail: pa.Buffer = EMPTY) -> None:
        self._source = source
        self._tail = tail  # the end of the file, as far as it was read already
        self._schema = metadata.schema_block
        self._metadata = metadata
        self._columns: dict[int, BucketColumns] = {}

    def read(
        self, positions: Sequence[int], schema: pa.Schema, groups: Sequence[int], use_threads: bool
    ) -> list[pa.RecordBatch]:
        """Read the columns at `positions`, with the Arrow `schema`, one record batch per row group."""
        with located(file=self._source.name):
            if not positions:
                return [rows_without_columns(self._metadata.rows_of(group)) for group in groups]
            parts = self._parts(positions)
            distinct = list(dict.fromkeys(groups))  # callers may repeat a row group
            tasks = [
                task
                for group in distinct
                if self._metadata.rows_of(group)
                for task in self._tasks(group, parts)
            ]
            self._fetch(tasks, use_threads)
            batches = self._decode(tasks, schema, distinct, use_threads)
            return [batches[group] for group in groups]

    def _parts(self, positions: Sequence[int]) -> list[_BucketPart]:
        places: dict[int, list[int]] = {}
        for place, position in enumerate(positions):
            places.setdefault(self._schema.bucket_of(position), []).append(place)
        parts = []
        for number in sorted(places):
            columns = self._columns.get(number)
            if columns is None:
                columns = self._columns[number] = BucketColumns(self._schema, number)
            first = columns.positions.start
            wanted = [positions[place] - first for place in places[number]]
            parts.append(_part(number, columns, places[number], wanted))
        return parts

    def _tasks(self, group: int, parts: Sequence[_BucketPart]) -> Iterator[_Task]:
        num_rows = self._metadata.rows_of(group)
        whole_bytes = (
            WHOLE_BUCKET_BYTES_LOCAL if self._source.is_local else WHOLE_BUCKET_BYTES_REMOTE
        )
        for part in parts:
            bucket = self._metadata.bucket(group, part.number)
            if bucket.layout == Layout.MONOLITHIC:
                yield _Task(group, num_rows, part, bucket, whole=True)
                continue
            # If at least half of the columns are wanted, the rest costs less than many reads.
            whole = (
                2 * len(part.wanted) >= part.columns.num_columns
                or bucket.compressed_size <= whole_bytes
            )
            for smaller in part.divided():
                yield _Task(group, num_rows, smaller, bucket, whole)

    def _fetch(self, tasks: Sequence[_Task], use_threads: bool) -> None:
        ranges = []
        for task in tasks:
            size = task.bucket.compressed_size
            if not task.whole:
                size = min(size, Directory.size(task.part.columns))
            ranges.append((task.bucket.offset, size))
        for task, data in zip(tasks, self._read(ranges, use_threads), strict=True):
            task.data = data
            if task.bucket.layout == Layout.PAGED:
                try:
                    task.directory = Directory.decode(
                        data, task.part.columns, task.num_rows, task.bucket.compressed_size
                    )
                except MosaicError as error:
                    error.locate(**task.place)
                    raise
        ranges = []
        partial = [task for task in tasks if not task.whole]
        for task in partial:
            assert task.directory is not None
            for flat in task.part.flat:
                start, end = task.directory.offsets[flat : flat + 2]
                ranges.append((task.bucket.offset + start, end - start))
        slots = iter(self._read(ranges, use_threads))
        for task in partial:
            task.slots = {flat: next(slots) for flat in task.part.flat}

    def _read(self, ranges: Sequence[tuple[int, int]], use_threads: bool) -> list[pa.Buffer]:
        """Return the bytes of `ranges`; only bytes before the tail are read."""
        tail_start = self._source.size - self._tail.size
        missing = [(at, min(size, tail_start - at)) for at, size in ranges if at < tail_start]
        read = iter(read_ranges(self._source, missing, use_threads=use_threads))
        buffers = []
        for at, size in ranges:
            if at >= tail_start:
                buffers.append(self._tail.slice(at - tail_start, size))
                continue
            buffer = next(read)
            if buffer.size < size:
                rest = self._tail.slice(0, size - buffer.size)
                buffer = pa.py_buffer(buffer.to_pybytes() + rest.to_pybytes())
            buffers.append(buffer)
        return buffers

    def _decode(
        self,
        tasks: Sequence[_Task],
        schema: pa.Schema,
        groups: Sequence[int],
        use_threads: bool,
    ) -> dict[int, pa.RecordBatch]:
        budget = _Budget(sum(map(self._metadata.bytes_of, groups)))
        batches = {group: Batch(len(schema)) for group in groups}

        def decode(task: _Task) -> None:
            part = task.part
            try:
                pages, numbers = self._pages(task)
                budget.spend(buckets.expansion(pages, numbers, part.columns, part.wanted))
                batch = batches[task.group]
                buckets.decode(pages, numbers, part.columns, part.wanted, batch, part.places)
            except MosaicError as error:
                error.locate(**task.place)
                raise

        threaded = (
            use_threads
            and len(tasks) > 1
            and sum(task.size for task in tasks) >= MIN_THREADED_BYTES
        )
        for _ in map_in_order(decode, tasks, threaded):
            pass
        required = [place for place, field in enumerate(schema) if not field.nullable]
        return {
            group: self._finish(group, batch, schema, required) for group, batch in batches.items()
        }

    def _finish(
        self, group: int, batch: Batch, schema: pa.Schema, required: Sequence[int]
    ) -> pa.RecordBatch:
        num_rows = self._metadata.rows_of(group)
        if num_rows == 0:
            return pa.RecordBatch.from_pylist([], schema=schema)
        for place in required:
            nulls = batch.null_count(place)
            if nulls:
                raise CorruptFileError(
                    f"there are {nulls} nulls, but the column is declared not null",
                    row_group=group,
                    column=schema.names[place],
                )
        return batch.finish(num_rows, schema)

    def _pages(self, task: _Task) -> tuple[Pages, Sequence[int]]:
        """Return pages, and the numbers of those that are wanted."""
        columns, flats = task.part.columns, task.part.flat
        if task.directory is None:
            data: Any = task.data
            if self._metadata.codec == Compression.ZSTD:
                data = decompress(data, task.bucket.uncompressed_size)
            pages = buckets.open_monolithic(data, columns, task.num_rows, max(flats) + 1)
            return pages, flats
        offsets = task.directory.offsets
        slots: list[Any] = [None] * len(flats)
        stored = [i for i, flat in enumerate(flats) if offsets[flat] < offsets[flat + 1]]
        if task.slots is not None:
            for i in stored:
                slots[i] = buckets.decode_slot(task.slots[flats[i]])
        else:
            spans = array("q")
            for i in stored:
                spans.extend(offsets[flats[i] : flats[i] + 2])
            for i, page in zip(stored, buckets.decode_slots(task.data, spans), strict=True):
                slots[i] = page
        pages = buckets.open_slots(slots, columns, flats, task.directory.rows)
        return pages, range(len(flats))


class _Budget:
    """A limit on how much memory the bytes of row groups may expand to.

    A constant column takes a few bytes for any number of rows. Without a limit, a small file could
    exhaust the memory.
    """

    def __init__(self, compressed_bytes: int) -> None:
        self._left = max(MAX_BLOCK_BYTES, compressed_bytes * MAX_FRAME_EXPANSION)

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise CorruptFileError(
                "constant columns or arrays would expand to far more memory than the size of the "
                "file suggests; if you trust the file, read fewer columns or row groups at a time"
            )
