"""write_dataset: a directory of Mosaic files that appear together. DatasetWriter: the files alone."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self, Unpack

import pyarrow as pa

from ..file.batches import open_batches
from ..file.dictionaries import DictionaryCollector
from ..file.layout import MIN_MEMORY
from ..file.options import OPTIONS, WriteOptions, accepts_options, check_names
from ..file.writer import MosaicWriter, Writable
from ..schemas.fit import Fits, NarrowCheck, plain_schema
from ..storage.location import URI, is_open_file
from ..storage.staging import Staging
from ..storage.target import SUFFIX, check_existing, new_prefix
from .discovery import QUERY
from .hive_split import Splitter
from .open_files import OpenFiles, WrittenFile

DEFAULT_MAX_BYTES_PER_FILE: Final = 1 << 30
DEFAULT_MAX_OPEN_FILES: Final = 128


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
    """The progress of `write_dataset`."""

    num_rows: int  # received
    num_files: int  # opened
    num_bytes: int  # written to files


@accepts_options
def write_dataset(
    data: Any,
    base_dir: str | os.PathLike[str],
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
    """Write a table of any size as a directory of Mosaic files.

    The files appear together, when all of them are complete. After an exception, or if the process
    is killed, the directory is unchanged. A local directory that is new or overwritten changes in
    a single step. If files are appended, or the directory is remote, complete files are moved one
    by one, and old files are removed afterwards: a reader may see some of the new files before the
    others, and for a moment both new and old files.

    Data is streamed. Rows wait in memory for about one row group, which all partitions share.

    Files are read in the order of their names, which begin with the time of the write. So rows
    that are appended come after those that were there before, in each partition, and the rows of
    one write keep their order. Several processes may append to a directory at the same time.

    Parameters
    ----------
    data : table, record batch, reader, dataset, scanner, data frame, or iterable
        A pyarrow object, anything with the Arrow stream interface (data frames of pandas and
        Polars, relations of DuckDB), or an iterable of tables and record batches.
    base_dir : path or URI
        The directory. It need not exist.
    schema : pyarrow.Schema, optional
        The schema that the data must match. The default is that of the data, or of the first item
        of an iterable.
    partitioning : str or list of str, optional
        Columns whose values become directories, `key=value`. They are not stored in the files.
        Rows need not be sorted by them, but there are fewer files if they are.
    max_rows_per_file : int, optional
        The maximum number of rows in a file.
    max_bytes_per_file : int, optional
        A file that has reached this size is followed by another one. The default is 1 GiB. Row
        groups are not larger.
    max_open_files : int, default 128
        The maximum number of files that are written at once. If another one is needed, the file
        that was used least recently is closed; later rows of its partition go to a new file.
    existing : {"error", "append", "overwrite"}, default "error"
        What to do if the directory contains files. A directory that contains other files than
        Mosaic files is not overwritten.
    progress : callable, optional
        Called with a `WriteProgress` after each batch. If it raises, nothing is written.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `base_dir`.
    **options
        The options of `MosaicWriter`, which writes the files.

    Returns
    -------
    WriteReport

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
    first, items = open_batches(data, schema)

    def open_file(path: str) -> Writable:
        return staging.open(path)

    writer = DatasetWriter(
        open_file,
        first if schema is None else schema,
        partitioning=partitioning,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        max_open_files=max_open_files,
        **options,
    )
    writer.check(first)
    staging = Staging.begin(base_dir, filesystem, existing)
    writer.prefix = staging.prefix
    try:
        with writer:
            for item in items:
                writer.check(item.schema)  # an item without rows has no batch
                for batch in item.to_batches() if isinstance(item, pa.Table) else [item]:
                    writer.write_batch(batch)
                    if progress is not None:
                        progress(writer.progress())
            files = writer.finish()
        staging.commit(file.path for file in files)
    except BaseException:
        staging.abandon()
        raise
    written = tuple(replace(file, path=_path_below(base_dir, file.path)) for file in files)
    return WriteReport(written, time.monotonic() - started)


def _path_below(base_dir: Any, file: str) -> str:
    """Return a path of a file that can be opened; the options of a URI stay at its end."""
    base = base_dir.path if is_open_file(base_dir) else os.fspath(base_dir)
    query = QUERY.search(base) if URI.match(base) else None
    options = "" if query is None else query[0]
    return f"{base.removesuffix(options).rstrip('/')}/{file}{options}"


class DatasetWriter:
    """Write batches as the files of a dataset, wherever the caller puts them.

    This is the part of `write_dataset` below staging: it splits rows by partition and opens a file
    after another. The caller decides where the files are, and when they become visible. At the end
    of a `with` block, files that `finish` has not completed are discarded.

    Parameters
    ----------
    open_file : callable
        Called with the path of a new file, relative to the dataset, such as `day=mo/part-….mosaic`.
        It returns what `MosaicWriter` accepts as `where`.
    schema : pyarrow.Schema
        The schema of the batches, with the partition columns.
    prefix : str, optional
        The beginning of the names of the files. By default `part-` and the present time, see
        `storage.target.new_prefix`.
    partitioning, max_rows_per_file, max_bytes_per_file, max_open_files, **options
        As for `write_dataset`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from fastmosaic.dataset.write import DatasetWriter
    >>> sinks = {}
    >>> def open_file(path):
    ...     return sinks.setdefault(path, pa.BufferOutputStream())
    >>> batch = pa.record_batch({"day": ["mo", "tu", "mo"], "price": [9.0, 10.0, 11.0]})
    >>> with DatasetWriter(open_file, batch.schema, prefix="x", partitioning="day") as writer:
    ...     writer.write_batch(batch)
    ...     files = writer.finish()
    >>> [(file.path[:16], file.num_rows) for file in files]
    [('day=mo/x-000000-', 2), ('day=tu/x-000001-', 1)]
    """

    def __init__(
        self,
        open_file: Callable[[str], Any],
        schema: pa.Schema,
        *,
        prefix: str | None = None,
        partitioning: str | Sequence[str] | None = None,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = DEFAULT_MAX_BYTES_PER_FILE,
        max_open_files: int = DEFAULT_MAX_OPEN_FILES,
        **options: Unpack[WriteOptions],
    ) -> None:
        for option, value in (
            ("max_rows_per_file", max_rows_per_file),
            ("max_bytes_per_file", max_bytes_per_file),
            ("max_open_files", max_open_files),
        ):
            if value is not None and value < 1:
                raise ValueError(f"{option} must be at least 1, not {value}")
        self.prefix = prefix or new_prefix()
        self._identity = os.urandom(8).hex()
        plain = plain_schema(schema, annex=options.get("annex", True))
        splitter = Splitter(plain, partitioning)
        of_files = splitter.schema
        # All files get the same dictionaries, as far as they are known when a file is complete.
        restored = pa.schema([]) if plain is schema else schema
        self._dictionaries = DictionaryCollector(restored)
        self._check_narrow = NarrowCheck(restored)
        if plain is not schema:  # it may have metadata and types that are not plain
            kept = set(of_files.names)
            of_files = pa.schema([field for field in schema if field.name in kept], schema.metadata)
        row_group_bytes = options.get("row_group_bytes", OPTIONS["row_group_bytes"].default)
        if max_bytes_per_file is not None:
            # The size of written row groups is known, that of buffered rows is an estimate.
            row_group_bytes = min(row_group_bytes, max_bytes_per_file)
            options["row_group_bytes"] = row_group_bytes

        def open_writer(path: str) -> MosaicWriter:
            writer = MosaicWriter(open_file(path), of_files, **options)
            writer.join_dataset(self._dictionaries)
            return writer

        # Invalid options raise an error before there is any file.
        MosaicWriter(pa.BufferOutputStream(), of_files, **options).abandon()
        self._fits = Fits(plain, exact=True, advice="")
        self._files = OpenFiles(
            splitter,
            open_writer,
            name=lambda number: f"{self.prefix}-{number:06d}-{self._identity}{SUFFIX}",
            max_rows=max_rows_per_file,
            max_bytes=max_bytes_per_file,
            max_open=max_open_files,
            max_waiting=max(row_group_bytes, MIN_MEMORY),
        )

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaMismatchError if batches of `schema` cannot be written."""
        self._fits.of(schema)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a record batch. Columns are matched by name."""
        fit = self._fits.of(batch.schema)
        self._check_narrow(batch)
        self._dictionaries.add(batch)
        for part in fit(batch):
            self._files.add(part)

    def progress(self) -> WriteProgress:
        """Return how much was written so far."""
        files = self._files
        return WriteProgress(files.num_rows, files.num_files, files.num_bytes)

    def finish(self) -> tuple[WrittenFile, ...]:
        """Complete the files and return them, sorted by path.

        If there were no rows, there is one file without rows, which has the schema.
        """
        self._files.finish()
        return tuple(sorted(self._files.written, key=lambda file: file.path))

    def abandon(self) -> None:
        """Discard the files that are not complete. Complete ones are the caller's to remove."""
        self._files.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abandon()
