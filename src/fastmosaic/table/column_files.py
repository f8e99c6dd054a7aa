"""Column files: new columns of base files, written beside them.

A column file has the rows of its base file, in the same row groups. Only the columns that the values are
computed from are read, and memory holds a part of a row group of these and a row group of the new columns,
for each file that is worked on at the same time. Other processes can write some of the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, TypeAlias, Unpack

import pyarrow as pa

from ..dataset.fileset import FileSet
from ..dataset.joined_files import ReadableFile
from ..dataset.table_files import DatasetFile
from ..dataset.version import BaseFile, ColumnFile
from ..errors import UnsupportedError, located
from ..file.dictionaries import ManyDictionaries
from ..file.options import WriteOptions
from ..file.writer import MosaicWriter
from ..format.annex import Base
from ..query.query import Query
from ..schemas.fit import Fits
from ..storage.sink import Sink
from ..threads import map_in_order
from .changes import AddColumns, State
from .columns import NewColumns, nullable
from .progress import Progress, reporting
from .store import TableStore

# A function gets batches of at most so many rows.
BATCH_ROWS: Final = 131072
# Row groups end where those of the base file end, however large they are.
_NO_LIMIT: Final = 1 << 62

OpenFile: TypeAlias = Callable[[str], Sink]  # of `TableStore.new_files`
Check: TypeAlias = Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """A column file that is complete, but not yet part of the table."""

    base: str  # the path of the base file
    digest: str  # of the base file, as in the annex of the column file
    rows: int
    path: str
    size: int


def added(
    store: TableStore,
    state: State,
    written: Iterable[WrittenColumns],
    schema: pa.Schema | None,
    options: WriteOptions,
) -> AddColumns:
    """Return the change that adds column files with the columns `schema`, which are stored."""
    every = list(written)
    names: list[str] = []
    digest = ""
    if schema is not None:
        names = schema.names
        digest = store.put_schema(schema, state.digests, options)
    files = {one.base: ColumnFile(one.path, one.size, digest, state.number) for one in every}
    return AddColumns(files, {one.base: one.digest for one in every}, names)


@dataclass(frozen=True, slots=True)
class ColumnWriter:
    """Writes column files. It can be sent to another process, as `sent` returns it.

    store       the directory of the table
    query       the columns that the new ones are computed from
    partitions  the partition columns of the table
    options     of the writer of the column files
    job         in the names of the files, see `TableStore.new_column_path`
    is_sent     whether this is another process, which knows nothing about other files
    """

    store: TableStore
    query: Query
    partitions: pa.Schema
    options: WriteOptions
    job: str | None = None
    is_sent: bool = False

    @classmethod
    def of(
        cls,
        store: TableStore,
        files: FileSet,
        inputs: Sequence[str] | None,
        options: WriteOptions,
    ) -> ColumnWriter:
        return cls(store, files.query(inputs), files.partitions, options)

    def sent(self) -> ColumnWriter:
        """Return the writer without what it knows about all files of the table."""
        attached = self.query.attached
        if attached is not None:
            attached = attached.with_dictionaries(None)
        query = replace(self.query, attached=attached)
        return replace(self, query=query, is_sent=True)

    def source(self, file: DatasetFile) -> ReadableFile:
        """Return what to read for the inputs; raise UnsupportedError if it cannot be aligned with."""
        source = file.resolved(frozenset(self.query.schema.names) - {*self.partitions.names})
        if any(start == end for start, end in pairwise(source.metadata.row_edges)):
            raise UnsupportedError(
                "a row group has no rows; compact the table before adding columns"
            )
        return source

    def batches(self, file: DatasetFile) -> Iterator[pa.RecordBatch]:
        """Yield the inputs of all rows of a file, in order; no batch is of two row groups."""
        source = self.source(file)
        fits = Fits(self.query.schema, self.partitions)
        query = self.query
        if self.is_sent and query.attached is not None:
            own = query.attached.with_dictionaries(ManyDictionaries([file]))
            query = replace(query, attached=own)
        for group in range(len(source.metadata.row_edges) - 1):
            for batch in source.batches(fits, [group], False, BATCH_ROWS):
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    yield query.finish_batch(batch.slice(start, BATCH_ROWS))

    def target(self, file: DatasetFile, open_file: OpenFile) -> ColumnTarget:
        """Begin to write the column file of a base file."""
        return ColumnTarget(self, file, self.source(file).metadata.row_edges, open_file)

    def write(
        self, file: DatasetFile, new: NewColumns, open_file: OpenFile, check: Check | None = None
    ) -> WrittenColumns:
        """Compute new columns of a file, and write them.

        If the types are not known before, `check` is called with their names, and may raise.
        """
        target = self.target(file, open_file)
        try:
            for batch in self.batches(file):
                found = new.compute(batch)
                if new.schema is None:
                    if check is not None:
                        check(found.schema.names)
                    new.schema = nullable(found.schema)
                target.put(found, new.schema)
            return target.finish(new.schema)
        except BaseException:
            target.abandon()
            raise


class ColumnTarget:
    """A column file that is being written."""

    def __init__(
        self, writer: ColumnWriter, file: DatasetFile, edges: Sequence[int], open_file: OpenFile
    ) -> None:
        self._given = writer
        self._entry = _entry_of(file)
        self._base = self._base_of(file)
        self._ends = list(edges[1:])  # of row groups
        self._open_file = open_file
        self._path = writer.store.new_column_path(writer.job)
        self._writer: MosaicWriter | None = None
        self._group = 0
        self.num_rows = 0  # that were written

    def put(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        """Write the new columns of the next rows; those of two row groups are divided."""
        if self._writer is None:
            self._writer = self._opened(schema)
        if self.num_rows + batch.num_rows > self._entry.rows:
            raise self._wrong_rows(self.num_rows + batch.num_rows)
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, self._ends[self._group] - self.num_rows)
            self._writer.write_batch(part)
            start += part.num_rows
            self.num_rows += part.num_rows
            if self.num_rows == self._ends[self._group]:
                self._writer.flush()
                self._group += 1

    def finish(self, schema: pa.Schema | None) -> WrittenColumns:
        """Complete the file; `schema` are its columns, if there are no rows."""
        if self.num_rows != self._entry.rows:
            raise self._wrong_rows(self.num_rows)
        if self._writer is None:
            if schema is None:
                raise ValueError("there are no rows to compute columns from; pass schema=")
            self._writer = self._opened(schema)
        self._writer.close()
        return WrittenColumns(
            self._entry.path,
            self._base.digest.hex(),
            self._entry.rows,
            self._path,
            self._writer.num_bytes,
        )

    def abandon(self) -> None:
        """Leave no file."""
        if self._writer is not None:
            self._writer.abandon()

    def _wrong_rows(self, count: int) -> ValueError:
        shown = f"{'at least ' if count > self._entry.rows else ''}{count}"
        return ValueError(
            f"there are new values for {shown} rows, but the file has {self._entry.rows}; "
            "there must be one for each row, in the same order"
        )

    def _base_of(self, file: DatasetFile) -> Base:
        known = self._entry
        if known.digest is not None:
            return Base(known.rows, known.size, bytes.fromhex(known.digest))
        return file.parts[0].identity()

    def _opened(self, schema: pa.Schema) -> MosaicWriter:
        options: WriteOptions = {**self._given.options, "row_group_bytes": _NO_LIMIT}
        options |= {"row_group_size": None, "annex": True}
        writer = MosaicWriter(self._open_file(self._path), schema, **options)
        writer.belong_to(self._base)
        return writer


def write_column_files(
    store: TableStore,
    state: State,
    files: FileSet,
    new: NewColumns,
    check: Check,
    *,
    progress: Progress = False,
    **options: Unpack[WriteOptions],
) -> AddColumns:
    """Write a column file for each base file; return the change that adds them.

    `files` are those of the table at the version `state`. `check` raises if columns of these names cannot
    be added. If this fails, no file is left.
    """
    made: list[WrittenColumns] = []
    writer = ColumnWriter.of(store, files, new.inputs, options)
    order = first_with_rows(files.files)
    if new.schema is not None:
        check(new.schema.names)
    with (
        store.new_files() as open_file,
        reporting("add columns", len(order), progress) as done,
    ):

        def write(file: DatasetFile) -> WrittenColumns:
            with located(file=file.name):
                return writer.write(file, new, open_file, check)

        for some, use_threads in ((order[:1], False), (order[1:], True)):
            with closing(map_in_order(write, some, use_threads, purpose="columns")) as every:
                for one in every:
                    made.append(one)
                    done(one.rows)
        return added(store, state, made, new.schema, options)


def first_with_rows(files: Sequence[DatasetFile]) -> list[DatasetFile]:
    """Return files in an order so that the first one can tell the types of new columns."""
    return sorted(files, key=lambda file: file.num_rows == 0)


def _entry_of(file: DatasetFile) -> BaseFile:
    assert file.found.entry is not None
    return file.found.entry.file
