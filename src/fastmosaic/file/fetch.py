"""Which bytes of a file columns of row groups need, and reading them in rounds.

The first round reads monolithic buckets, paged buckets that are small or wanted as a whole, and the
directories of the other paged buckets. The second round reads the wanted slots. There are two
rounds for any number of row groups, unless their bytes exceed a window: then the bytes of the next
window are read while those of the one before it are decoded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ..errors import MosaicError, Place
from ..format import bucket as buckets
from ..format.bucket import Batch, BucketReader, Budget, Directory, Layout, MatrixRows
from ..format.columns import ColumnDecoder
from ..format.index import Bucket
from ..format.metadata import FileMetaData
from ..format.nested import BucketColumns
from ..format.wire import MIN_BLOCK_LIMIT, Compression
from ..memory import Memory
from ..query.rows import Rows
from ..storage.source import EMPTY, LOCAL_MAX_GAP, REMOTE_MAX_GAP, Source, read_ranges
from .frames import FrameCache

# A paged bucket up to this size is read as a whole: one read is cheaper than one for the directory
# and more for the slots. A read costs microseconds on a local disk, and milliseconds elsewhere.
WHOLE_BUCKET_BYTES_LOCAL: Final = 64 << 10
WHOLE_BUCKET_BYTES_REMOTE: Final = 1 << 20
# Compressed bytes that are held at a time. Requests to a remote file should overlap.
WINDOW_BYTES_LOCAL: Final = 16 << 20
WINDOW_BYTES_REMOTE: Final = 128 << 20
# The bytes before the tail, and those in it, are joined up to this size.
MAX_COPIED_BYTES: Final = 4 << 20
# Columns of a paged bucket that one thread decodes at a time, and their bytes in Arrow.
MAX_TASK_COLUMNS: Final = 128
MAX_TASK_BYTES: Final = 16 << 20

# Rows are decoded one by one if there are so many times more around them. Otherwise decoding all of
# them and taking some is faster.
GATHER_FACTOR: Final = 4

# What a frame in a cache takes besides its bytes, roughly.
FRAME_OVERHEAD: Final = 200

Integers: TypeAlias = "array[int] | memoryview[int]"  # of 32 bits

_FIRST: Final = array("i", [0])


@dataclass
class BucketPart:
    """The wanted columns of one bucket; the same in every row group."""

    number: int
    columns: BucketColumns
    positions: Integers  # of the columns in the file, ascending
    places: Integers  # of the columns in the result

    def __len__(self) -> int:
        return len(self.positions)

    @cached_property
    def wanted(self) -> list[int]:
        """The indices of the columns in the bucket."""
        first = self.columns.positions.start
        return [position - first for position in self.positions]

    @cached_property
    def flat(self) -> Sequence[int]:
        """The flat columns that store them."""
        return buckets.flat_of(self.columns, self.wanted)

    def between(self, start: int, stop: int) -> BucketPart:
        """Return some of the columns."""
        return BucketPart(
            self.number, self.columns, self.positions[start:stop], self.places[start:stop]
        )

    def divided(self, num_rows: int) -> list[BucketPart]:
        """Return parts with fewer columns: for several threads, and to decompress less at a time."""
        step = max(1, min(MAX_TASK_COLUMNS, MAX_TASK_BYTES // (8 * num_rows)))
        if len(self) <= step:
            return [self]
        return [self.between(start, start + step) for start in range(0, len(self), step)]


@dataclass(slots=True)  # a frozen one takes microseconds longer to make
class RowSpan:
    """Rows of a row group that are decoded: `count` rows from `start` on, or those of `gathered`."""

    group: int
    num_rows: int  # of the row group
    start: int
    count: int
    rows: Rows | None = None  # those of them that are wanted, if not all
    gathered: memoryview[int] | None = None  # start and stop of the ranges that are decoded

    @classmethod
    def of(cls, metadata: FileMetaData, group: int, rows: Rows | None = None) -> RowSpan:
        """Return the span of the rows of a row group that `rows` selects, by default all."""
        num_rows = metadata.rows_of(group)
        if rows is None:
            return cls(group, num_rows, 0, num_rows)
        own = rows.within(*metadata.row_edges[group : group + 2])
        if not len(own):
            return cls(group, num_rows, 0, 0)
        start, stop = own.ranges[0][0], own.ranges[-1][1]
        is_whole = len(own) == stop - start
        if not is_whole and is_sparse(len(own), stop - start):
            return cls(group, num_rows, 0, len(own), None, own.flat_ranges)
        inside = None if is_whole else own.within(start, stop)
        return cls(group, num_rows, start, stop - start, inside)

    @property
    def num_opened(self) -> int:
        """The number of rows that the decoder of a bucket has."""
        return self.num_rows if self.gathered is None else self.count

    @property
    def num_chosen(self) -> int:
        return self.count if self.rows is None else len(self.rows)

    def chosen(self, batch: pa.RecordBatch, first: int = 0) -> pa.RecordBatch:
        """Return the wanted rows of a batch, which begins with row `first` of the span."""
        if self.rows is None:
            return batch
        return self.rows.within(first, first + batch.num_rows).of_batch(batch)


def is_sparse(num_rows: int, span: int) -> bool:
    """Return whether so few of the rows of a span are wanted that only these are decoded."""
    return GATHER_FACTOR * num_rows <= span


@dataclass(slots=True)
class BucketTask:
    """A part of a bucket in one row group, and the bytes read for it."""

    span: RowSpan
    part: BucketPart
    bucket: Bucket
    whole: bool  # whether the whole bucket is read, or only the wanted slots
    data: pa.Buffer | None = None  # the bucket, or its directory
    directory: Directory | None = None  # of a paged bucket
    slots: dict[int, pa.Buffer] | None = None  # by flat column
    frames: list[Any] | None = None  # from the cache: the directory and its pages, or the bucket

    @property
    def size(self) -> int:
        """The number of compressed bytes of the columns, roughly."""
        if self.slots is not None:
            return sum(slot.size for slot in self.slots.values())
        return self.bucket.compressed_size * len(self.part) // self.part.columns.num_columns

    @property
    def work(self) -> int:
        """The number of bytes that decompressing goes through, if the index tells, or else `size`.

        A monolithic bucket is decompressed as a whole.
        """
        return self.bucket.uncompressed_size or self.size

    @property
    def place(self) -> Place:
        return {
            "row_group": self.span.group,
            "bucket": self.part.number,
            "offset": self.bucket.offset,
        }

    def after(self, number: int) -> BucketTask:
        """Return the task without the first `number` columns."""
        return replace(self, part=self.part.between(number, len(self.part)))

    def release(self) -> None:
        """Drop the bytes that were read."""
        self.data = self.directory = self.slots = self.frames = None


class Fetcher:
    """Plans and reads the bytes of columns, and decompresses them.

    `tail` is the end of the file, as far as it was read already. `strict` is whether decimals and
    times outside the range of their type are refused. With a `cache`, decompressed frames are kept
    in it, and those that it has are neither read nor decompressed.
    """

    def __init__(
        self,
        source: Source,
        metadata: FileMetaData,
        tail: pa.Buffer = EMPTY,
        strict: bool = True,
        cache: FrameCache | None = None,
    ) -> None:
        self._source = source
        self._cache = cache
        self._tail = tail
        self._schema = metadata.schema_block
        self._metadata = metadata
        self._strict = strict
        self._columns: dict[int, BucketColumns] = {}
        local = source.is_local
        self._gap = LOCAL_MAX_GAP if local else REMOTE_MAX_GAP
        self._small = WHOLE_BUCKET_BYTES_LOCAL if local else WHOLE_BUCKET_BYTES_REMOTE
        self._window = WINDOW_BYTES_LOCAL if local else WINDOW_BYTES_REMOTE

    def parts(self, positions: Sequence[int]) -> list[BucketPart]:
        """Return the columns at `positions` by bucket."""
        schema = self._schema
        ascending, places = _sorted(positions, schema.num_columns)
        parts = []
        start = 0
        while start < len(ascending):
            number = schema.bucket_of(ascending[start])
            columns = self._columns.get(number)
            if columns is None:
                columns = self._columns[number] = BucketColumns(schema, number)
            stop = bisect_left(ascending, columns.positions.stop, start)
            parts.append(BucketPart(number, columns, ascending[start:stop], places[start:stop]))
            start = stop
        return parts

    def tasks(self, span: RowSpan, parts: Sequence[BucketPart]) -> Iterator[BucketTask]:
        """Yield what is to be read of one row group."""
        if not span.count:
            return
        located = self._metadata.buckets_at(span.group, [part.number for part in parts])
        for part, bucket in zip(parts, located, strict=True):
            if bucket.layout == Layout.MONOLITHIC:
                yield BucketTask(span, part, bucket, whole=True)
                continue
            whole = bucket.compressed_size <= self._small or self._is_read_whole(part, bucket)
            for smaller in part.divided(span.num_rows):
                yield BucketTask(span, smaller, bucket, whole)

    def _is_read_whole(self, part: BucketPart, bucket: Bucket) -> bool:
        """Return whether reads of the wanted slots would be merged into one of most of the bucket.

        Then one read of all of it needs no directory before. Or at least half of the columns are
        wanted, and the rest costs less than many reads.
        """
        if bucket.compressed_size > self._window:
            return False
        num_columns = part.columns.num_columns
        span = part.positions[-1] - part.positions[0] + 1
        between = bucket.compressed_size * span // (num_columns * len(part))
        return 2 * len(part) >= num_columns or (2 * span >= num_columns and between <= self._gap)

    def fetched(self, tasks: Sequence[BucketTask], use_threads: bool) -> Iterator[BucketTask]:
        """Yield tasks after their bytes were read, window by window."""
        if len(tasks) == 1:
            self.fetch(tasks, use_threads)
            yield tasks[0]
            return
        for window in self._windows(tasks):
            self.fetch(window, use_threads)
            yield from window

    def _windows(self, tasks: Sequence[BucketTask]) -> Iterator[Sequence[BucketTask]]:
        first = size = 0
        bucket = None
        for i, task in enumerate(tasks):
            if task.whole and task.bucket is bucket:
                continue  # several tasks share the bytes of a bucket
            more = task.bucket.compressed_size if task.whole else task.size
            if i > first and size + more > self._window:
                yield tasks[first:i]
                first, size = i, 0
            size += more
            bucket = task.bucket
        yield tasks[first:]

    def fetch(self, tasks: Sequence[BucketTask], use_threads: bool) -> None:
        """Read the bytes of all tasks, in two rounds at most."""
        if self._cache is not None:
            for task in tasks:
                task.frames = self._cache.find(self._keys(task))
            tasks = [task for task in tasks if task.frames is None]
        ranges = []
        firsts: list[BucketTask] = []  # of each bucket; the others share what they read
        for task in tasks:
            if firsts and task.bucket is firsts[-1].bucket:
                continue
            size = task.bucket.compressed_size
            if not task.whole:
                size = min(size, Directory.size(task.part.columns))
            firsts.append(task)
            ranges.append((task.bucket.offset, size))
        for task, data in zip(firsts, self._read(ranges, use_threads), strict=True):
            task.data = data
            if task.bucket.layout == Layout.PAGED:
                try:
                    task.directory = Directory.decode(
                        data, task.part.columns, task.span.num_rows, task.bucket.compressed_size
                    )
                except MosaicError as error:
                    error.locate(**task.place)
                    raise
        shared = iter(firsts)
        first = next(shared, None)
        for task in tasks:
            if first is None or task.bucket is not first.bucket:
                first = next(shared)
            task.data, task.directory = first.data, first.directory
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
        """Return the bytes of `ranges`; bytes in the tail are not read again.

        The exception is a long range of a local file that ends in the tail: copying it would take
        longer, and twice its memory.
        """
        if not ranges:
            return []
        tail_start = self._source.size - self._tail.size
        longest = MAX_COPIED_BYTES if self._source.is_local else self._source.size
        missing = [
            (at, size if tail_start - at > longest else min(size, tail_start - at))
            for at, size in ranges
            if at < tail_start
        ]
        found = read_ranges(self._source, missing, use_threads=use_threads) if missing else []
        read = iter(found)
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

    def decode(
        self, task: BucketTask, sink: Batch | MatrixRows, memory: Memory, budget: Budget
    ) -> int:
        """Decode the columns of a task in one go, as far as nothing is unusual; return how many."""
        part, span = task.part, task.span
        columns = part.columns
        if not columns.is_flat or self._cache is not None:
            return 0
        reader = BucketReader(
            columns.kinds,
            columns.digits,
            part.positions,
            columns.positions.start,
            part.places,
            span.num_rows,
            span.start,
            span.count,
            self._strict,
            span.gathered,
        )
        if task.slots is not None:
            return reader.decode_slots(
                [task.slots[flat] for flat in part.wanted], MIN_BLOCK_LIMIT, sink, memory, budget
            )
        if task.directory is not None:
            return reader.decode_paged(
                task.data, task.directory.offsets, MIN_BLOCK_LIMIT, sink, memory, budget
            )
        size = task.bucket.uncompressed_size if self._metadata.codec == Compression.ZSTD else 0
        return reader.decode_monolithic(
            task.data, size, task.size, MIN_BLOCK_LIMIT, sink, memory, budget
        )

    def open(self, task: BucketTask) -> tuple[ColumnDecoder, int]:
        """Decompress the pages of a task; return their decoder, and the bytes that it keeps."""
        decoder, size = self._open(task)
        if task.span.gathered is not None:
            decoder.gather(task.span.gathered)
        return decoder, size

    def _open(self, task: BucketTask) -> tuple[ColumnDecoder, int]:
        columns, flats = task.part.columns, task.part.flat
        if task.bucket.layout == Layout.MONOLITHIC:
            (data,) = task.frames or (self._whole(task),)
            pages = buckets.open_monolithic(
                data, columns, task.span.num_rows, max(flats) + 1, strict=self._strict
            )
            decoder = ColumnDecoder(pages, flats, columns, task.part.wanted, self._strict)
            return decoder, task.bucket.uncompressed_size
        if task.frames is not None:
            directory, *slots = task.frames
        else:
            assert task.directory is not None
            directory, slots = task.directory, self._slots(task, task.directory)
            if self._cache is not None:
                sizes = [
                    8 * len(directory.offsets),
                    *(0 if one is None else len(one) for one in slots),
                ]
                for key, frame, size in zip(
                    self._keys(task), (directory, *slots), sizes, strict=True
                ):
                    self._cache.keep(key, frame, size + FRAME_OVERHEAD)
        pages = buckets.open_slots(slots, columns, flats, directory.rows, strict=self._strict)
        numbers = range(len(flats))
        decoder = ColumnDecoder(pages, numbers, columns, task.part.wanted, self._strict)
        return decoder, sum(len(slot) for slot in slots if slot is not None)

    def _keys(self, task: BucketTask) -> list[Hashable]:
        """Return what the frames of a task are called in the cache."""
        place = self._source.name, task.span.group, task.part.number
        if task.bucket.layout == Layout.MONOLITHIC:
            return [place]
        return [place, *((*place, flat) for flat in task.part.flat)]

    def _whole(self, task: BucketTask) -> Any:
        """Return a monolithic bucket, decompressed."""
        data: Any = task.data
        if self._metadata.codec == Compression.ZSTD:
            size, num_rows = task.bucket.uncompressed_size, task.span.num_rows
            data = buckets.decompress_bucket(data, size, task.part.columns, num_rows)
        if self._cache is not None:
            self._cache.keep(self._keys(task)[0], data, len(data) + FRAME_OVERHEAD)
        return data

    def _slots(self, task: BucketTask, directory: Directory) -> list[Any]:
        """Return the decompressed pages of a paged bucket; None if a slot is empty."""
        columns, flats = task.part.columns, task.part.flat
        offsets, rows = directory.offsets, directory.rows
        slots: list[Any] = []
        for flat in flats:
            if offsets[flat] == offsets[flat + 1]:
                slots.append(None)
                continue
            if task.slots is not None:
                slot = task.slots[flat]
            else:
                assert task.data is not None
                slot = task.data.slice(offsets[flat], offsets[flat + 1] - offsets[flat])
            slots.append(buckets.decode_slot(slot, columns, flat, rows[flat]))
        return slots


def _sorted(positions: Sequence[int], num_columns: int) -> tuple[Integers, Integers]:
    """Return the positions in ascending order, and where each of them is in `positions`."""
    if len(positions) == 1:
        return array("i", positions), _FIRST
    if not isinstance(positions, memoryview):
        positions = array("i", positions)
    return buckets.sort_positions(positions, num_columns)
