"""Rows to files: a few open files, one for each partition, and bounded memory for waiting rows."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from ..file.writer import MosaicWriter
from ..schemas.fit import MAX_CONVERTED_BYTES
from ..storage.secrets import redacted
from .hive_split import Partition, Splitter

# Batches are split so that a file exceeds its maximum size by less than this fraction.
_OVERSHOOT: Final = 1 / 16
# The fraction of the rows in memory that are not split into partitions yet.
_GATHERED: Final = 1 / 4


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a dataset that was written."""

    path: str  # relative to the dataset; from `write_dataset`, a path that can be opened
    num_rows: int
    num_bytes: int
    partition: dict[str, Any]  # values of the partition columns

    def __repr__(self) -> str:
        # The path may be a URI with credentials: it can be opened.
        return (
            f"WrittenFile(path={redacted(self.path)!r}, num_rows={self.num_rows}, "
            f"num_bytes={self.num_bytes}, partition={self.partition!r})"
        )


@dataclass(slots=True)
class _Waiting:
    """Rows of a partition that wait in memory until they fill a row group or must be written."""

    partition: Partition
    batches: list[pa.RecordBatch] = field(default_factory=list)
    num_bytes: float = 0

    def copy(self) -> None:
        """Copy the rows, as one batch unless it would be too large for Arrow's offsets."""
        if self.num_bytes < MAX_CONVERTED_BYTES:
            self.batches = [pa.concat_batches(self.batches)]
        else:
            self.batches = [pa.concat_batches([batch]) for batch in self.batches]


@dataclass(slots=True)
class _OpenFile:
    path: str  # relative to the dataset
    partition: Partition
    writer: MosaicWriter
    num_rows: int = 0


class OpenFiles:
    """The files of a dataset while it is written: few are open, and few rows wait in memory.

    Batches are gathered and then split by partition together, because each array has a cost,
    however few rows it has, and there are partitions times columns of them. The parts then wait.
    When too many rows wait, the largest partitions are written, so that each partition gets row
    groups as large as possible and a file is opened only for those.
    """

    def __init__(
        self,
        splitter: Splitter,
        open_writer: Callable[[str], MosaicWriter],
        *,
        name: Callable[[int], str],
        max_rows: int | None,
        max_bytes: int | None,
        max_open: int,
        max_waiting: int,
    ) -> None:
        """Call `open_writer` with the path of each new file; its name is `name(number)`."""
        self._splitter = splitter
        self._open_writer = open_writer
        self._name = name
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._max_open = max_open
        self._max_waiting = max_waiting
        self._max_gathered = min(max_waiting * _GATHERED, MAX_CONVERTED_BYTES / 2)
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0.0
        self._waiting: dict[str, _Waiting] = {}  # by directory
        self._waiting_bytes = 0.0
        self._held_bytes = 0.0  # upper bound for the batches that waiting rows are slices of
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()  # by directory, last used last
        self._closed_bytes = 0
        self.num_rows = 0
        self.num_files = 0
        self.written: list[WrittenFile] = []

    @property
    def num_bytes(self) -> int:
        """The number of bytes that were written to files."""
        return self._closed_bytes + sum(file.writer.num_bytes for file in self._open.values())

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch."""
        if not batch.num_rows:
            return
        self.num_rows += batch.num_rows
        num_bytes = batch.nbytes
        if not self._splitter.names:
            self._write(Partition("", {}), batch, num_bytes)
            return
        parts = min(batch.num_rows, 1 + int(num_bytes / self._max_gathered))
        ends = [batch.num_rows * number // parts for number in range(parts + 1)]
        for start, end in pairwise(ends):
            self._gathered.append(batch.slice(start, end - start))
            self._gathered_bytes += num_bytes / parts
            if self._gathered_bytes > self._max_gathered:
                self._split()

    def _split(self) -> None:
        """Split the gathered rows by partition, where they wait."""
        if not self._gathered:
            return
        batch = pa.concat_batches(self._gathered)
        row_bytes = self._gathered_bytes / batch.num_rows
        self._waiting_bytes += self._gathered_bytes
        self._held_bytes += self._gathered_bytes
        self._gathered, self._gathered_bytes = [], 0.0
        for partition, part in self._splitter.split(batch):
            waiting = self._waiting.setdefault(partition.directory, _Waiting(partition))
            waiting.batches.append(part)
            waiting.num_bytes += row_bytes * part.num_rows
        if self._waiting_bytes > self._max_waiting:
            self._relieve()
        if self._held_bytes > 2 * self._max_waiting:
            # A slice with the few rows of one partition keeps those of all others in memory.
            for waiting in self._waiting.values():
                waiting.copy()
            self._held_bytes = self._waiting_bytes

    def finish(self) -> None:
        """Complete all files; if there is none, write one without rows that has the schema."""
        self._split()
        for key in list(self._waiting):
            self._write_waiting(key)
            if key in self._open:
                self._close(key)
        while self._open:
            self._close(next(iter(self._open)))
        if not self.written:
            partition = self._splitter.null_partition()
            self._file(partition)
            self._close(partition.directory)

    def abandon(self) -> None:
        """Discard the files that are open."""
        for file in self._open.values():
            file.writer.abandon()

    def _relieve(self) -> None:
        """Write the largest partitions until at most half as many rows wait."""
        sizes = sorted(self._waiting, key=lambda key: self._waiting[key].num_bytes)
        while self._waiting_bytes > self._max_waiting / 2:
            key = sizes.pop()
            self._write_waiting(key)
            if key in self._open:
                self._open[key].writer.flush()

    def _write_waiting(self, key: str) -> None:
        waiting = self._waiting.pop(key)
        self._waiting_bytes -= waiting.num_bytes
        if len(waiting.batches) > 1:
            waiting.copy()
        num_rows = sum(batch.num_rows for batch in waiting.batches)
        for batch in waiting.batches:
            self._write(waiting.partition, batch, waiting.num_bytes / num_rows * batch.num_rows)

    def _write(self, partition: Partition, batch: pa.RecordBatch, num_bytes: float) -> None:
        """Write rows to the file of their partition, and to further files as each is full."""
        row_bytes = num_bytes / batch.num_rows
        while batch.num_rows:
            file = self._file(partition)
            count = self._room(file, batch.num_rows, row_bytes)
            file.writer.write_batch(batch if count == batch.num_rows else batch.slice(0, count))
            file.num_rows += count
            if self._is_full(file):
                self._close(partition.directory)
            batch = batch.slice(count)

    def _file(self, partition: Partition) -> _OpenFile:
        """Return the open file of a partition, or open one."""
        key = partition.directory
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        if len(self._open) == self._max_open:
            self._close(next(iter(self._open)))
        name = self._name(self.num_files)
        path = f"{key}/{name}" if key else name
        writer = self._open_writer(path)
        self.num_files += 1
        self._open[key] = _OpenFile(path, partition, writer)
        return self._open[key]

    def _room(self, file: _OpenFile, num_rows: int, row_bytes: float) -> int:
        """Return how many of `num_rows` rows to write before checking whether the file is full."""
        if self._max_rows is not None:
            num_rows = min(num_rows, self._max_rows - file.num_rows)
        if self._max_bytes is not None and row_bytes:
            left = self._max_bytes - file.writer.estimated_file_size()
            fitting = int(max(left, self._max_bytes * _OVERSHOOT) / row_bytes)
            num_rows = min(num_rows, max(1, fitting))
        return num_rows

    def _is_full(self, file: _OpenFile) -> bool:
        return file.num_rows == self._max_rows or (
            self._max_bytes is not None and file.writer.estimated_file_size() >= self._max_bytes
        )

    def _close(self, key: str) -> None:
        file = self._open[key]
        file.writer.close()
        num_bytes = file.writer.num_bytes
        self._closed_bytes += num_bytes
        self.written.append(WrittenFile(file.path, file.num_rows, num_bytes, file.partition.values))
        del self._open[key]
