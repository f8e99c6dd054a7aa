"""Read columns of row groups: fetch the bytes, decode them.

`Scanner.read` decodes row groups as a whole. `Scanner.batches` decodes large row groups in portions
of their rows, in the memory of one portion and of the pages that it keeps decompressed.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import pyarrow as pa

from ..errors import CorruptFileError, MemoryLimitError, MosaicError, UnsupportedError, located
from ..format.bucket import Batch, Budget
from ..format.columns import ColumnDecoder
from ..format.file_schema import Projection
from ..format.metadata import FileMetaData
from ..memory import Memory
from ..query.rows import Rows, rows_without_columns
from ..storage.source import EMPTY, Source
from ..threads import map_in_order, num_threads
from .fetch import BucketTask, Fetcher, RowSpan
from .frames import FrameCache

# With fewer bytes to decompress, threads would wait for each other longer than they decode.
MIN_THREADED_BYTES: Final = 2 << 20
# Tasks are handed to threads in groups, because that takes time. With this many groups for each
# thread, threads that are done early wait little for the others. Larger groups would hold memory.
GROUPS_PER_THREAD: Final = 8
MAX_GROUP_BYTES: Final = 1 << 20
# Results of up to this size, and of up to so many times the bytes in the file, are decoded at once.
# What expands further is measured first, and decoded if all of it fits in the memory: a few bytes
# can stand for any number of equal rows.
EAGER_BYTES: Final = 128 << 20
EAGER_EXPANSION: Final = 256
# Batches: row groups are read together until they reach this size.
WINDOW_BYTES: Final = 64 << 20
# With fewer compressed bytes, it does not matter how many of them are wanted.
SMALL_GROUP_BYTES: Final = 1 << 20
# They are decoded as a whole up to this size, larger ones in portions.
WHOLE_GROUP_BYTES: Final = 128 << 20
# The size of a portion, unless the caller asks for more rows.
PORTION_BYTES: Final = 32 << 20
# Rows that stand for all rows of a row group if these are equal.
SAMPLE_ROWS: Final = 1024
# Decompressed pages that are kept from one portion to the next, or more if the memory limit is more
# than twice that. Others are decompressed again for each portion.
KEPT_BYTES: Final = 512 << 20


# Tells, by a sample of equal rows, whether the result contains so many of them.
Accepts: TypeAlias = Callable[[pa.RecordBatch, int], bool]


def _always(_: pa.RecordBatch, __: int) -> bool:
    return True


@dataclass(slots=True)
class ScanRequest:
    """What to read of row groups, and how.

    projection    the columns
    rows          the rows, by number in the file; None for all
    memory_limit  bytes that a batch may take, if batches are read; None for the default
    accepts       if batches are read, whether to read large row groups of equal rows
    """

    projection: Projection
    use_threads: bool = True
    rows: Rows | None = None
    memory_limit: int | None = None
    accepts: Accepts = _always

    @property
    def positions(self) -> Sequence[int]:
        """The positions of the stored columns in the file."""
        return self.projection.positions


class Scanner:
    """Reads columns of an open file.

    The parameters are those of `Fetcher`.
    """

    def __init__(
        self,
        source: Source,
        metadata: FileMetaData,
        tail: pa.Buffer = EMPTY,
        strict: bool = True,
        cache: FrameCache | None = None,
    ) -> None:
        self.name = source.name
        self.metadata = metadata
        self._strict = strict
        self.fetcher = Fetcher(source, metadata, tail, strict, cache)

    def read(
        self, request: ScanRequest, groups: Sequence[int], memory: Memory
    ) -> list[pa.RecordBatch]:
        """Read row groups as a whole.

        The result has one record batch for each row group, or several if one is too large for
        Arrow's offsets.
        """
        with located(file=self.name):
            distinct = dict.fromkeys(groups)
            spans = [RowSpan.of(self.metadata, group, request.rows) for group in distinct]
            if not len(request.projection.schema):
                batches = {span.group: [rows_without_columns(span.num_chosen)] for span in spans}
            else:
                batches = self._read(request, spans, memory)
            return [batch for group in groups for batch in batches[group]]

    def _read(
        self, request: ScanRequest, spans: Sequence[RowSpan], memory: Memory
    ) -> dict[int, list[pa.RecordBatch]]:
        parts = self.fetcher.parts(request.positions)
        tasks = [task for span in spans for task in self.fetcher.tasks(span, parts)]
        decoding = _Decoding(self.fetcher, spans, len(request.positions), memory)
        decoding.run(tasks, request.use_threads)
        required = self._required(request.projection)
        batches = {}
        for span in spans:
            if span.group in decoding.too_large:
                own = [task for task in tasks if task.span is span]
                batches[span.group] = self._read_large(request, span, own, memory)
            else:
                batch = self._finished(
                    span, decoding.batches[span.group], request.projection, required
                )
                batches[span.group] = [span.chosen(batch)]
        return batches

    def _read_large(
        self, request: ScanRequest, span: RowSpan, tasks: Sequence[BucketTask], memory: Memory
    ) -> list[pa.RecordBatch]:
        """Read a row group that is too large for one batch."""
        for task in self.fetcher.fetched(tasks, request.use_threads):
            with located(**task.place):
                _pay(memory, decoder_of(self.fetcher, task), span.count)
            task.release()

        def paid() -> Memory:
            return _Paid(whole=memory)

        return list(self._portions(request, span, tasks, paid, PORTION_BYTES, 1))

    def batches(
        self, request: ScanRequest, groups: Sequence[int], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Read row groups of any size.

        Small row groups are read together, and each is a batch. Large ones are read in batches of a
        multiple of `batch_rows` rows.
        """
        for window, size in self._windows(request, groups):
            batches: Iterable[pa.RecordBatch] | None = self.whole(request, window, size)
            yield from self.portions(request, window, batch_rows) if batches is None else batches

    def _windows(
        self, request: ScanRequest, groups: Sequence[int]
    ) -> Iterator[tuple[list[int], int]]:
        """Divide row groups into windows that end when they reach WINDOW_BYTES; yield their sizes."""
        size_of = self._sizes(request)
        window: list[int] = []
        size = 0
        for group in groups:
            window.append(group)
            size += size_of(group)
            if size >= WINDOW_BYTES:
                yield window, size
                window, size = [], 0
        if window:
            yield window, size

    def _sizes(self, request: ScanRequest) -> Callable[[int], int]:
        """Return a function that estimates the memory of a row group; it can be much larger."""
        metadata = self.metadata
        row_bytes = metadata.row_bytes(request.positions)

        def size_of(group: int) -> int:
            stored = metadata.bytes_of(group)
            if stored > SMALL_GROUP_BYTES:
                stored = metadata.decompressed_bytes(group, request.positions)
            return max(stored, row_bytes * metadata.rows_of(group))

        return size_of

    def whole(
        self, request: ScanRequest, groups: Sequence[int], size: int | None = None
    ) -> list[pa.RecordBatch] | None:
        """Read row groups together; return None if they are large. Their `size` may be known."""
        if size is None:
            size = sum(map(self._sizes(request), groups))
        if size > WHOLE_GROUP_BYTES:
            return None
        limit = WHOLE_GROUP_BYTES
        if request.memory_limit is not None:
            limit = min(limit, request.memory_limit)
        try:
            return self.read(request, groups, Memory(limit))
        except MemoryLimitError:
            return None

    def portions(
        self, request: ScanRequest, groups: Sequence[int], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """Read row groups in batches of a multiple of `batch_rows` rows."""

        def memory() -> Memory:
            return Memory(request.memory_limit)

        size = PORTION_BYTES
        if request.memory_limit is not None:
            size = min(size, request.memory_limit // 2)
        parts = self.fetcher.parts(request.positions)
        for group in groups:
            span = RowSpan.of(self.metadata, group, request.rows)
            if batch_rows >= span.count or not parts:
                yield from self.read(request, [group], memory())
                continue
            tasks = list(self.fetcher.tasks(span, parts))
            with located(file=self.name):
                yield from self._portions(request, span, tasks, memory, size, batch_rows)

    def _portions(
        self,
        request: ScanRequest,
        span: RowSpan,
        tasks: Sequence[BucketTask],
        memory: Callable[[], Memory],
        size: int,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        """Decode the tasks of a row group in portions, each within the limit of a new `memory`.

        A portion has a multiple of `batch_rows` rows, and about `size` bytes if it can. If all rows
        are equal, the portions are the same object.
        """
        projection, use_threads = request.projection, request.use_threads
        num_columns = len(projection.positions)
        opened = [_Opened(self.fetcher, task) for task in tasks]
        kept = bound = 0
        fetched = zip(opened, self.fetcher.fetched(tasks, use_threads), strict=True)
        measured = map_in_order(_Opened.measure, (one for one, _ in fetched), use_threads)
        for one, (stored, of_task) in zip(opened, measured, strict=True):
            kept += stored
            one.keep(kept <= KEPT_BYTES or kept <= memory().limit // 2)
            bound += of_task
        step = size * span.num_opened // max(1, bound)
        step = max(1, step // batch_rows) * batch_rows
        required = self._required(projection)
        done = 0
        is_constant = all(one.is_constant for one in opened)
        if span.count and is_constant and request.accepts is not _always:
            sample = replace(span, count=min(span.count, SAMPLE_ROWS), rows=None)
            batch = _portion(opened, sample, num_columns, use_threads, memory())
            rows = self._finished(sample, batch, projection, required)
            if not request.accepts(rows, span.num_chosen):
                return
        while done < span.count:
            portion = replace(
                span, start=span.start + done, count=min(step, span.count - done), rows=None
            )
            try:
                batch = _portion(opened, portion, num_columns, use_threads, memory())
            except OverflowError as error:
                if portion.count == 1:
                    raise UnsupportedError(
                        f"{error}, the limit of Arrow's offsets", row_group=span.group
                    ) from error
                step = portion.count // 2
                continue
            rows = self._finished(portion, batch, projection, required)
            if is_constant:
                for start in range(done, span.count, step):
                    yield span.chosen(_at_most(rows, span.count - start), start)
                return
            yield span.chosen(rows, done)
            done += portion.count

    def _required(self, projection: Projection) -> bytes:
        """Return a byte for each stored column: whether it must not be null."""
        positions = projection.positions
        if not isinstance(positions, memoryview):
            positions = array("i", positions)
        return self.metadata.schema_block.required(positions)

    def _finished(
        self, span: RowSpan, batch: Batch, projection: Projection, required: bytes
    ) -> pa.RecordBatch:
        """Return the record batch of a span whose columns are all decoded."""
        if span.count == 0:
            return pa.RecordBatch.from_pylist([], schema=projection.schema)
        if found := batch.find_nulls(required):
            place, nulls = found
            raise CorruptFileError(
                f"there are {nulls} nulls, but the column is declared not null",
                row_group=span.group,
                column=projection.stored.names[place],
            )
        rows = batch.finish(span.count, projection.stored)
        if projection.is_stored:
            return rows
        with located(row_group=span.group):
            return projection.join(rows, self._strict)


class _Decoding:
    """Decodes row groups as a whole."""

    def __init__(
        self, fetcher: Fetcher, spans: Sequence[RowSpan], num_columns: int, memory: Memory
    ) -> None:
        self._fetcher = fetcher
        self._memory = memory
        self._memories = {span.group: memory.part() for span in spans}
        self._later: list[BucketTask] = []
        self._budget = Budget(EAGER_BYTES, EAGER_EXPANSION)
        self.batches = {span.group: Batch(num_columns) for span in spans}
        self.too_large: set[int] = set()  # row groups that exceed Arrow's offsets

    def run(self, tasks: Sequence[BucketTask], use_threads: bool) -> None:
        for_each_task(self._fetcher, tasks, self._first, use_threads)
        if self._later:
            for _ in map_in_order(self._second, self._later, use_threads):
                pass
        for group in self.too_large:
            self._memories[group].give_back()

    def _first(self, task: BucketTask) -> None:
        """Decode a task, or only measure it if it expands much."""
        group = task.span.group
        batch, memory = self.batches[group], self._memories[group]
        try:
            done = self._fetcher.decode(task, batch, memory, self._budget)
            if done == len(task.part):
                task.release()
                return
            rest = task.after(done)
            task.release()
            decoder = decoder_of(self._fetcher, rest)
            if not self._budget.allows(decoder.bound(), rest.size):
                _pay(memory, decoder, task.span.count)
                self._later.append(rest)
                return
            rest.release()
            decoder.decode(task.span.count, batch, rest.part.places, memory)
        except OverflowError:
            self.too_large.add(group)
        except MosaicError as error:
            error.locate(**task.place)
            raise

    def _second(self, task: BucketTask) -> None:
        """Decode a task that was measured."""
        group = task.span.group
        if group in self.too_large:
            return
        decoder = decoder_of(self._fetcher, task)
        task.release()
        free = _Paid(whole=self._memory)
        try:
            decoder.decode(task.span.count, self.batches[group], task.part.places, free)
        except OverflowError:
            self.too_large.add(group)


def for_each_task(
    fetcher: Fetcher,
    tasks: Sequence[BucketTask],
    work: Callable[[BucketTask], None],
    use_threads: bool,
) -> None:
    """Fetch the bytes of tasks and do work on each, on all cores if that saves time."""
    amount = sum(task.work for task in tasks)
    threaded = use_threads and len(tasks) > 1 and amount >= MIN_THREADED_BYTES
    size = 0
    if threaded:
        size = min(MAX_GROUP_BYTES, amount // (GROUPS_PER_THREAD * num_threads()))

    def work_on(group: Sequence[BucketTask]) -> None:
        for task in group:
            work(task)

    groups = _grouped(fetcher.fetched(tasks, use_threads), size)
    for _ in map_in_order(work_on, groups, threaded):
        pass


def _grouped(tasks: Iterable[BucketTask], size: int) -> Iterator[list[BucketTask]]:
    """Yield groups of tasks that end when they have `size` bytes of work."""
    group: list[BucketTask] = []
    work = 0
    for task in tasks:
        group.append(task)
        work += task.work
        if work >= size:
            yield group
            group, work = [], 0
    if group:
        yield group


def _pay(memory: Memory, decoder: ColumnDecoder, count: int) -> None:
    """Take the memory for the next rows of a decoder, which cannot be used afterwards."""
    size, zeros = decoder.measure(count)
    memory.take(size)
    if zeros:
        memory.zeros(zeros)


class _Paid(Memory):
    """Memory that was taken before."""

    def take(self, size: int) -> None:
        pass


def decoder_of(fetcher: Fetcher, task: BucketTask) -> ColumnDecoder:
    """Return the decoder of a task, at the first row of its span."""
    decoder, _ = fetcher.open(task)
    if task.span.start:
        decoder.skip(task.span.start)
    return decoder


class _Opened:
    """A task whose rows are decoded in portions. Its pages may be kept from one to the next."""

    def __init__(self, fetcher: Fetcher, task: BucketTask) -> None:
        self._fetcher = fetcher
        self._task = task
        self._decoder: ColumnDecoder | None = None
        self._keeps = True
        self.is_constant = False

    def measure(self) -> tuple[int, int]:
        """Return the size of the pages, and the memory that all rows take at most."""
        with located(**self._task.place):
            self._decoder, size = self._open()
            self.is_constant = self._decoder.is_constant()
            return size, self._decoder.bound()

    def keep(self, keeps: bool) -> None:
        """Set whether the pages are kept."""
        self._keeps = keeps
        if not keeps:
            self._decoder = None

    def decode(self, span: RowSpan, batch: Batch, memory: Memory) -> None:
        with located(**self._task.place):
            decoder, self._decoder = self._decoder, None
            if decoder is None or decoder.row > span.start:
                decoder, _ = self._open()
            if decoder.row < span.start:
                decoder.skip(span.start - decoder.row)
            decoder.decode(span.count, batch, self._task.part.places, memory)
            if self._keeps:
                self._decoder = decoder

    def _open(self) -> tuple[ColumnDecoder, int]:
        if self._task.data is None and self._task.frames is None:
            self._fetcher.fetch([self._task], use_threads=False)
        opened = self._fetcher.open(self._task)
        self._task.release()
        return opened


def _portion(
    opened: Sequence[_Opened], span: RowSpan, num_columns: int, use_threads: bool, memory: Memory
) -> Batch:
    """Decode some rows of all tasks."""
    batch = Batch(num_columns)

    def decode(one: _Opened) -> None:
        one.decode(span, batch, memory)

    for _ in map_in_order(decode, opened, use_threads):
        pass
    return batch


def _at_most(batch: pa.RecordBatch, num_rows: int) -> pa.RecordBatch:
    return batch if batch.num_rows <= num_rows else batch.slice(0, num_rows)
