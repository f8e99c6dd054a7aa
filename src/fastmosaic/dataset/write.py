"""write_dataset: a table in many files, which appear together."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, Final, Unpack

import pyarrow as pa

from ..file.layout import MIN_ARROW_BYTES
from ..file.options import OPTIONS, WriteOptions, accepts_options, check_names
from ..file.writer import MosaicWriter
from ..schemas.fit import MAX_CONVERTED_BYTES, Fits, stored_schema
from ..storage.staging import SUFFIX, Staging, check_existing
from .hive_split import Partition, Splitter

DEFAULT_MAX_BYTES_PER_FILE: Final = 1 << 30
DEFAULT_MAX_OPEN_FILES: Final = 128

# A batch is cut so that a file passes its size by less than this part of it.
_OVERSHOOT: Final = 1 / 16
# The part of the rows in memory that are not yet split into partitions.
_GATHERED: Final = 1 / 4
# Batches of a scan: some tens of megabytes, whatever the number of columns.
_SCAN_BYTES: Final = 32 << 20
_MIN_SCAN_ROWS: Final = 1024
_MAX_SCAN_ROWS: Final = 131072


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file of a data set that was written."""

    path: str  # as it can be opened: below the base_dir that was given
    num_rows: int
    num_bytes: int
    partition: dict[str, Any]  # values of the partition columns


@dataclass(frozen=True, slots=True)
class WriteReport:
    """What `write_dataset` has written."""

    files: tuple[WrittenFile, ...]
    seconds: float

    @property
    def num_rows(self) -> int:
        return sum(file.num_rows for file in self.files)

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)

    def __repr__(self) -> str:
        count = len(self.files)
        return (
            f"<WriteReport: {self.num_rows:,} rows in {count:,} file{'s' if count != 1 else ''}, "
            f"{self.num_bytes:,} bytes, {self.seconds:.2f} s>"
        )


@dataclass(frozen=True, slots=True)
class WriteProgress:
    """How far `write_dataset` has come."""

    num_rows: int  # taken
    num_files: int  # begun
    num_bytes: int  # that have left memory


@accepts_options
def write_dataset(
    data: Any,
    base_dir: Any,
    *,
    schema: pa.Schema | None = None,
    partitioning: str | Sequence[str] | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = DEFAULT_MAX_BYTES_PER_FILE,
    max_open_files: int = DEFAULT_MAX_OPEN_FILES,
    existing: str = "error",
    progress: Callable[[WriteProgress], object] | None = None,
    filesystem: object = None,
    **options: Unpack[WriteOptions],
) -> WriteReport:
    """Write a table of any size as a directory of Mosaic files; what was written.

    The files appear together, when all are complete. After an exception, or if the process is
    killed, the directory is as it was. A local directory that is new or overwritten changes in a
    single step. Into one that is appended to, or remote, complete files are moved one after
    another, and old ones removed after that: a reader may see some of the new files before the
    others, and both new and old ones for a moment.

    Data is streamed: rows wait in memory for about one row group, which all partitions share. Rows
    of a partition keep their order.

    Parameters
    ----------
    data : table, record batch, reader, dataset, scanner, or iterable of tables and record batches
        Of pyarrow, or anything with the Arrow stream interface: data frames of pandas and polars,
        relations of DuckDB.
    base_dir : path or URI
        The directory; it need not exist. Or a `Staging` that was begun, which is then ended.
    schema : pyarrow.Schema, optional
        What the data must fit; by default that of the data, or of the first item of an iterable.
    partitioning : str or list of str, optional
        Columns whose values become directories, `key=value`, and are left out of the files. Rows
        need not be sorted by them, but files are fewer if they are.
    max_rows_per_file : int, optional
    max_bytes_per_file : int, optional
        A file that has reached this size is followed by another. Row groups are no larger.
    max_open_files : int
        How many files are written at once. One more closes the file that has waited longest for
        rows; later rows of its partition go to a new file.
    existing : {"error", "append", "overwrite"}
        What becomes of files that are in the directory. A directory with other than Mosaic files
        is not overwritten.
    progress : callable, optional
        Called with a `WriteProgress` after each batch. If it raises, nothing is written.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `base_dir`.
    **options
        The options of `MosaicWriter`, which writes the files.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, fastmosaic as fm
    >>> table = pa.table({"day": ["mo", "tu", "mo"], "price": [9.0, 10.0, 11.0]})
    >>> with tempfile.TemporaryDirectory() as path:
    ...     report = fm.write_dataset(table, path, partitioning="day")
    ...     [(file.partition, fm.read_table(file.path).to_pydict()) for file in report.files]
    [({'day': 'mo'}, {'price': [9.0, 11.0]}), ({'day': 'tu'}, {'price': [10.0]})]
    """
    started = time.monotonic()
    check_names(options, write_dataset)
    check_existing(existing)
    for option, value in (
        ("max_rows_per_file", max_rows_per_file),
        ("max_bytes_per_file", max_bytes_per_file),
        ("max_open_files", max_open_files),
    ):
        if value is not None and value < 1:
            raise ValueError(f"{option} must be at least 1, not {value}")
    first, items = _items(data, schema)
    given = first if schema is None else schema
    stored = stored_schema(given)
    splitter = Splitter(stored, partitioning)
    of_files = splitter.schema
    if stored is not given:  # it may have metadata and extension types
        kept = set(of_files.names)
        of_files = pa.schema([field for field in given if field.name in kept], given.metadata)
    row_group_bytes = options.get("row_group_bytes", OPTIONS["row_group_bytes"].default)
    if max_bytes_per_file is not None:
        # What a row group has come to is known, what rows will come to is a guess.
        row_group_bytes = min(row_group_bytes, max_bytes_per_file)
        options["row_group_bytes"] = row_group_bytes

    def open_writer(where: Any, place: Any = None) -> MosaicWriter:
        return MosaicWriter(where, of_files, filesystem=place, **options)

    open_writer(pa.BufferOutputStream()).abandon()  # wrong options raise before anything is made
    fits = Fits(stored, exact=True, advice="")
    fits.of(first)  # raises if the data cannot fit
    is_begun = isinstance(base_dir, Staging)
    staging = base_dir if is_begun else Staging.begin(base_dir, filesystem, existing)
    files = _Files(
        staging,
        splitter,
        open_writer,
        max_rows=max_rows_per_file,
        max_bytes=max_bytes_per_file,
        max_open=max_open_files,
        max_waiting=max(row_group_bytes, MIN_ARROW_BYTES),
    )
    try:
        for batch in _batches(items, fits):
            for part in fits(batch):
                files.add(part)
            if progress is not None:
                progress(files.progress())
        files.finish(splitter.null_partition())
        staging.commit(files.written)
    except BaseException:
        files.abandon()
        staging.abandon()
        raise
    written = tuple(file for _, file in sorted(files.written.items()))
    return WriteReport(written, time.monotonic() - started)


# ---- batches in


def _items(data: Any, schema: pa.Schema | None) -> tuple[pa.Schema, Iterable[Any]]:
    """The schema of the data, or of its first item; its tables and batches, which may differ."""
    # By what they can do: pyarrow.dataset takes long to import.
    if hasattr(data, "scanner"):
        rows = _SCAN_BYTES // (8 * max(1, len(data.schema)))
        data = data.scanner(
            batch_size=min(max(rows, _MIN_SCAN_ROWS), _MAX_SCAN_ROWS),
            batch_readahead=1,
            fragment_readahead=1,
        )
    if hasattr(data, "projected_schema"):
        data = data.to_reader()
    if isinstance(data, pa.Table | pa.RecordBatch):
        return data.schema, [data]
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.RecordBatchReader):
        data = pa.RecordBatchReader.from_stream(data)
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, data
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        raise TypeError(
            "data is a table, a record batch, a reader or dataset of pyarrow, a data frame, or an "
            f"iterable of tables and record batches, not an object of type {type(data).__name__}"
        )
    items = iter(data)
    first = next(items, None)
    if first is not None:
        return _checked(first).schema, chain([first], items)
    if schema is None:
        raise ValueError("an iterable without items needs schema=")
    return schema, []


def _batches(items: Iterable[Any], fits: Fits) -> Iterator[pa.RecordBatch]:
    for item in items:
        if not _checked(item).num_rows:
            fits.of(item.schema)  # there may be no batch that would not fit
        yield from item.to_batches() if isinstance(item, pa.Table) else [item]


def _checked(item: Any) -> Any:
    if not isinstance(item, pa.Table | pa.RecordBatch):
        raise TypeError(
            "an iterable of data has tables and record batches of pyarrow in it, "
            f"not an object of type {type(item).__name__}"
        )
    return item


# ---- partitions to files


@dataclass(slots=True)
class _Waiting:
    """Rows of a partition that wait in memory until they are a row group, or have to go."""

    partition: Partition
    batches: list[pa.RecordBatch] = field(default_factory=list)
    num_bytes: float = 0

    def copy(self) -> None:
        """Put the rows into memory of their own: one batch, unless Arrow's offsets would end."""
        if self.num_bytes < MAX_CONVERTED_BYTES:
            self.batches = [pa.concat_batches(self.batches)]
        else:
            self.batches = [pa.concat_batches([batch]) for batch in self.batches]


@dataclass(slots=True)
class _OpenFile:
    file: str  # below the directory
    partition: Partition
    writer: MosaicWriter
    num_rows: int = 0


class _Files:
    """The files of a data set that is being written: few are open, and little waits in memory.

    Batches are gathered and then taken apart together: an array costs, however few rows it has,
    and partitions times columns are many. Rows then wait in their partitions. When too many do,
    those of the largest are written; so each gets row groups as large as can be, and a file is
    opened only for them.
    """

    def __init__(
        self,
        staging: Staging,
        splitter: Splitter,
        open_writer: Callable[[str, Any], MosaicWriter],
        *,
        max_rows: int | None,
        max_bytes: int | None,
        max_open: int,
        max_waiting: int,
    ) -> None:
        self._staging = staging
        self._splitter = splitter
        self._open_writer = open_writer
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._max_open = max_open
        self._max_waiting = max_waiting
        self._max_gathered = min(max_waiting * _GATHERED, MAX_CONVERTED_BYTES / 2)
        self._identity = os.urandom(16).hex()
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0.0
        self._waiting: dict[str, _Waiting] = {}  # by directory
        self._waiting_bytes = 0.0
        self._held_bytes = 0.0  # at most, of the batches that waiting rows are slices of
        self._open: OrderedDict[str, _OpenFile] = OrderedDict()  # by directory, last used last
        self._num_rows = 0
        self.num_files = 0
        self.written: dict[str, WrittenFile] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch."""
        if not batch.num_rows:
            return
        self._num_rows += batch.num_rows
        num_bytes = batch.nbytes
        if not self._splitter.names:
            self._write(Partition("", {}), batch, num_bytes)
            return
        pieces = min(batch.num_rows, 1 + int(num_bytes / self._max_gathered))
        ends = [batch.num_rows * number // pieces for number in range(pieces + 1)]
        for start, end in pairwise(ends):
            self._gathered.append(batch.slice(start, end - start))
            self._gathered_bytes += num_bytes / pieces
            if self._gathered_bytes > self._max_gathered:
                self._split()

    def _split(self) -> None:
        """Let the rows that were gathered wait in their partitions."""
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
            # The few rows of one partition are a slice that keeps those of all others in memory.
            for waiting in self._waiting.values():
                waiting.copy()
            self._held_bytes = self._waiting_bytes

    def progress(self) -> WriteProgress:
        num_bytes = sum(file.num_bytes for file in self.written.values())
        num_bytes += sum(file.writer.num_bytes for file in self._open.values())
        return WriteProgress(self._num_rows, self.num_files, num_bytes)

    def finish(self, without_rows: Partition) -> None:
        """Complete all files; if there is none, one for the schema, without rows."""
        self._split()
        for key in list(self._waiting):
            self._write_waiting(key)
            if key in self._open:
                self._close(key)
        while self._open:
            self._close(next(iter(self._open)))
        if not self.written:
            self._file(without_rows)
            self._close(without_rows.directory)

    def abandon(self) -> None:
        for file in self._open.values():
            file.writer.abandon()

    def _relieve(self) -> None:
        """Write the largest partitions, until half of what may wait is left."""
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
        """Write rows to the file of their partition, and to more as each is full."""
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
        """The open file of a partition, or a new one."""
        key = partition.directory
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        if len(self._open) == self._max_open:
            self._close(next(iter(self._open)))
        name = f"{self._staging.prefix}-{self.num_files:05d}-{self._identity}{SUFFIX}"
        file = f"{key}/{name}" if key else name
        writer = self._open_writer(self._staging.path(file), self._staging.filesystem)
        self.num_files += 1
        self._open[key] = _OpenFile(file, partition, writer)
        return self._open[key]

    def _room(self, file: _OpenFile, num_rows: int, row_bytes: float) -> int:
        """How many of `num_rows` rows may go to the file before it has to be looked at again."""
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
        self.written[file.file] = WrittenFile(
            f"{self._staging.name.rstrip('/')}/{file.file}",
            file.num_rows,
            file.writer.num_bytes,
            file.partition.values,
        )
        del self._open[key]
