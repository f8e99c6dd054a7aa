"""Many files as one table: which files and row groups a query needs, and reading them.

Opening reads the end of every file, once: then it is known which row groups may match a filter,
how many rows there are, and where the bytes of a column are. Files of one schema share its decoded
block. Where the schema is given, a file is opened when a query needs it.
"""

from __future__ import annotations

import threading
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field as dataclass_field
from itertools import accumulate
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from ..errors import CorruptFileError, MosaicError, SchemaMismatchError, UnsupportedError
from ..file.opening import decode_schema, read_end
from ..file.reader import WINDOW_BYTES, one_batch, unique
from ..file.scan import MIN_THREADED_BYTES, Scanner, rows_without_columns
from ..format.metadata import FileMetaData
from ..format.schema import SchemaBlock
from ..format.user_schema import Attached, agreed
from ..format.wire import Compression
from ..query import filters as filtering
from ..schemas.fit import Fits
from ..schemas.union import DatasetSchema, Fixed, Union
from ..schemas.widen import check_same, widened
from ..storage.source import Source, open_source
from ..threads import REMOTE_THREADS, map_in_order, num_threads
from .discovery import Found, discover
from .hive import resolve

# Batches are joined up to so many bytes: copying them takes less than handing them on one by one.
MAX_JOINED_BYTES: Final = 2 << 20

Partitioning: TypeAlias = Literal["hive"] | pa.Schema | None


class Schemas:
    """Schema blocks by their bytes: each is decoded once, whatever number of files has it."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[bytes, Compression], SchemaBlock] = {}
        self._turn = threading.Lock()

    def decode(self, block: bytes, compression: Compression) -> SchemaBlock:
        key = (block, compression)
        with self._turn:
            if key not in self._blocks:
                self._blocks[key] = decode_schema(block, compression)
            return self._blocks[key]

    def __reduce__(self) -> tuple[type[Schemas], tuple[()]]:
        return Schemas, ()  # what was decoded goes with the files


class File:
    """A file of a data set, and what it says of itself once that was read."""

    __slots__ = ("_metadata", "_schemas", "_size", "_source", "found", "values")

    def __init__(
        self, found: Found, values: tuple[pa.Scalar, ...], schemas: Schemas, state: Any = (None, 0)
    ) -> None:
        self.found = found
        self.values = values  # of its partitions
        self._schemas = schemas
        self._metadata: FileMetaData | None
        self._metadata, self._size = state
        self._source: Source | None = None

    def __reduce__(self) -> Any:
        return File, (self.found, self.values, self._schemas, (self._metadata, self._size))

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def is_local(self) -> bool:
        return self.found.filesystem is None

    @property
    def metadata(self) -> FileMetaData:
        if self._metadata is None:
            source = self._open()
            try:
                self._metadata, _ = read_end(source, self._schemas.decode)
                self._size = source.size
            finally:
                self._release(source)
        return self._metadata

    @property
    def size(self) -> int:
        """Its bytes, when it was opened."""
        return self._size

    def scan(self, fits: Fits, groups: Sequence[int], use_threads: bool) -> list[pa.RecordBatch]:
        """Columns of row groups, as batches of the data set."""
        metadata = self.metadata
        fit = fits.of_block(metadata.schema_block)
        source = self._open()
        try:
            if source.size != self._size:
                raise OSError(
                    f"{self.name} has {source.size} bytes, but had {self._size} when the data set "
                    "was opened; open it again"
                )
            batches = Scanner(source, metadata).read(fit.positions, fit.source, groups, use_threads)
        finally:
            self._release(source)
        return [part for batch in batches for part in fit(batch, self.values, self.name)]

    def _open(self) -> Source:
        if self._source is not None:
            return self._source
        source = open_source(self.found.path, self.found.filesystem, size=self.found.size)
        source.name = self.name
        return source

    def _release(self, source: Source) -> None:
        # Local files are cheap to open, and a process may have but so many open. Elsewhere opening
        # takes a request, and nothing is held.
        if source.is_local:
            source.close()
        else:
            self._source = source


@dataclass(frozen=True, slots=True)
class Query:
    """What a user asks of a data set."""

    schema: pa.Schema  # the columns wanted, then those that only the filter needs
    names: list[str]  # of the columns wanted
    expression: Any = None
    needed: tuple[pa.Field, ...] = ()  # by the filter
    attached: Attached | None = None
    _bounded: dict[SchemaBlock, dict[int, pa.Field]] = dataclass_field(
        default_factory=dict, repr=False
    )

    def bounded(self, block: SchemaBlock) -> dict[int, pa.Field]:
        """The filter's columns whose bounds in a file are bounds in the data set, by position.

        That is where values keep their order as they are cast.
        """
        if block not in self._bounded:
            found = ((block.find(field.name), field) for field in self.needed)
            self._bounded[block] = {
                position: field
                for position, field in found
                if position >= 0 and widened(block.field(position).type, field.type) == field.type
            }
        return self._bounded[block]

    def finish(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        """The rows of batches that match."""
        table = pa.Table.from_batches(batches, schema=self.schema)
        if self.expression is not None:
            table = filtering.filter_table(table, self.expression).select(self.names)
        return table if self.attached is None else self.attached.put_on(table)

    def finish_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that match."""
        if self.expression is not None:
            return one_batch(self.finish([batch]))
        return batch if self.attached is None else self.attached.put_on(batch)

    @property
    def result(self) -> pa.Schema:
        """What comes of it."""
        schema = pa.schema([self.schema.field(name) for name in self.names])
        return schema if self.attached is None else self.attached.schema(schema)


@dataclass(frozen=True, slots=True)
class Piece:
    """Row groups of a file that are read together, and about how many bytes that takes."""

    file: File
    groups: list[int]
    size: int


class FileSet:
    """Files that are read as one table."""

    def __init__(
        self,
        source: Any,
        *,
        filesystem: Any = None,
        schema: pa.Schema | None = None,
        partitioning: Partitioning = "hive",
        unify: bool = True,
        skip_corrupt: bool = False,
    ) -> None:
        if partitioning not in ("hive", None) and not isinstance(partitioning, pa.Schema):
            raise ValueError(
                f"partitioning is 'hive', a pyarrow.Schema of its keys, or None; not {partitioning!r}"
            )
        if schema is not None and not isinstance(schema, pa.Schema):
            raise TypeError(f"schema is a pyarrow.Schema, not a {type(schema).__name__}")
        found = discover(source, filesystem, partitioned=partitioning is not None)
        keys = [(one.name, one.keys) for one in found]
        declared = partitioning if isinstance(partitioning, pa.Schema) else None
        self.partitions, values = resolve(keys, declared if schema is None else schema)
        for name in () if declared is None else declared.names:
            if not all(name in one.keys for one in found):
                raise ValueError(f"partitioning names {name!r}, which is in no directory's name")
        schemas = Schemas()
        self.files = [File(*pair, schemas) for pair in zip(found, values, strict=True)]
        if skip_corrupt:
            self.files = _readable(self.files)
        self._blocks: dict[SchemaBlock, str] = {}  # each with the name of a file that has it
        self.columns: DatasetSchema
        self.attached: Attached | None = None
        if schema is not None:
            self.columns = Fixed(schema)
        else:
            self._open(self.files)
            if not unify:
                schemas_and_files = [
                    (block.to_arrow(), name) for block, name in self._blocks.items()
                ]
                check_same(
                    schemas_and_files, exact=True, advice="pass unify=True to read their union"
                )
            self.columns = Union(self._blocks, self.partitions)
            self.attached = agreed(_message(file.metadata) for file in self.files)

    @property
    def schema(self) -> pa.Schema:
        """All columns, with what is attached to them."""
        schema = self.columns.to_arrow()
        return schema if self.attached is None else self.attached.schema(schema)

    def _open(self, files: Sequence[File]) -> None:
        """Read what `files` say of themselves."""
        remote = not all(file.is_local for file in files)
        every = map_in_order(
            lambda file: file.metadata, files, remote, purpose="files", threads=REMOTE_THREADS
        )
        for file, metadata in zip(files, every, strict=True):
            if metadata.schema_block not in self._blocks:
                self._check_keys(metadata.schema_block, file)
                self._blocks[metadata.schema_block] = file.name

    def _check_keys(self, block: SchemaBlock, file: File) -> None:
        for name in self.partitions.names:
            if block.find(name) >= 0:
                raise SchemaMismatchError(
                    f"the column is in the file and also a key in its path, "
                    f"{name}={file.found.keys[name]}; partitioning=None reads the one in the file",
                    file=file.name,
                    column=name,
                )

    # ---- what to read

    def query(self, columns: Sequence[str] | None, filters: Any) -> Query:
        """What `columns` and `filters` ask for, checked."""
        if columns is None:
            schema = self.columns.to_arrow()
        else:
            schema = pa.schema([self._field(name) for name in unique(columns)])
        if filters is None:
            return Query(schema, schema.names, attached=self.attached)
        expression = filtering.to_expression(filters)
        needed = tuple(map(self.columns.field, self.columns_of(expression)))
        names = schema.names
        known = set(names)
        extra = [field for field in needed if field.name not in known]
        return Query(pa.schema([*schema, *extra]), names, expression, needed, self.attached)

    def columns_of(self, expression: Any, *, is_filter: bool = True) -> list[str]:
        """Names of the columns that an expression refers to."""
        conflicts: list[SchemaMismatchError] = []

        def field(name: str) -> pa.Field:
            try:
                return self.columns.field(name)
            except SchemaMismatchError as error:  # of a column that may not be needed
                conflicts.append(error)
                return pa.field(name, pa.null())

        try:
            return filtering.columns_of(
                expression, self.columns.occurring, field, self.columns.names, is_filter=is_filter
            )
        except ValueError:
            if conflicts:
                raise conflicts[0] from None
            raise

    def _field(self, name: str) -> pa.Field:
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not by {type(name).__name__}")
        return self.columns.field(name)

    def plan(self, query: Query) -> list[tuple[File, list[int]]]:
        """The files and row groups that may hold rows of a query, in order."""
        files = self._matching_files(query)
        self._open(files)
        everything = [(file, list(range(file.metadata.num_row_groups))) for file in files]
        return self._matching_groups(query, everything)

    def _matching_files(self, query: Query) -> list[File]:
        """Those whose partition may match; a file that cannot is not opened for that."""
        keys = [
            (index, field)
            for field in query.needed
            if (index := self.partitions.get_field_index(field.name)) >= 0
        ]
        if not keys:
            return self.files
        of_files = [tuple(file.values[index] for index, _ in keys) for file in self.files]
        distinct = list(dict.fromkeys(of_files))
        if len(keys) == len(query.needed):
            columns = [
                pa.array(column, field.type)
                for column, (_, field) in zip(zip(*distinct, strict=True), keys, strict=True)
            ]
            matching = _matching_rows(pa.table(columns, pa.schema(query.needed)), query.expression)
        else:
            known = [
                [_constant(field, value, 1) for (_, field), value in zip(keys, values, strict=True)]
                for values in distinct
            ]
            matching = filtering.matching(query.expression, known, pa.schema(query.needed))
        possible = {distinct[i] for i in matching}
        return [
            file for file, values in zip(self.files, of_files, strict=True) if values in possible
        ]

    def _matching_groups(
        self, query: Query, everything: list[tuple[File, list[int]]]
    ) -> list[tuple[File, list[int]]]:
        if all(field.name in self.partitions.names for field in query.needed):
            return everything  # the files were chosen by it
        known = [
            self._statistics(query, file, group) for file, groups in everything for group in groups
        ]
        matching = set(filtering.matching(query.expression, known, pa.schema(query.needed)))
        kept = []
        first = 0
        for file, groups in everything:
            kept.append((file, [group for group in groups if first + group in matching]))
            first += len(groups)
        return [(file, groups) for file, groups in kept if groups]

    def _statistics(self, query: Query, file: File, group: int) -> list[filtering.Statistics]:
        """What is known of the filter's columns in a row group."""
        metadata = file.metadata
        num_rows = metadata.rows_of(group)
        known: list[filtering.Statistics] = []
        for field in query.needed:
            partition = self.partitions.get_field_index(field.name)
            if partition >= 0:
                known.append(_constant(field, file.values[partition], num_rows))
            elif metadata.schema_block.find(field.name) < 0:
                known.append(_constant(field, pa.scalar(None, field.type), num_rows))
        bounded = query.bounded(metadata.schema_block)
        for statistic in metadata.statistics(group, bounded) if bounded else ():
            field = bounded[statistic.position]
            try:
                bounds = [
                    bound if bound is None or bound.type == field.type else bound.cast(field.type)
                    for bound in metadata.bounds(statistic)
                ]
            except pa.ArrowInvalid:  # a time beyond the range of a finer unit: the rows will tell
                continue
            known.append((field, num_rows, statistic.null_count, *bounds))
        return known

    # ---- reading

    def read(
        self, columns: Sequence[str] | None = None, filters: Any = None, use_threads: bool = True
    ) -> pa.Table:
        query = self.query(columns, filters)
        return self._read(query, self.plan(query), use_threads)

    def _read(
        self, query: Query, plan: Iterable[tuple[File, list[int]]], use_threads: bool
    ) -> pa.Table:
        fits = self._fits(query)
        pieces = [Piece(file, groups, _size(file, fits, groups)) for file, groups in plan]
        tables: list[pa.Table] = []
        held: list[pa.RecordBatch] = []
        size = 0
        for piece, batches in zip(pieces, self._scan(fits, pieces, use_threads), strict=True):
            held += batches
            size += piece.size
            if query.expression is not None and size >= WINDOW_BYTES:
                tables.append(query.finish(held))
                held, size = [], 0
        tables.append(query.finish(held))
        return _concatenated(tables)

    def _joined_row_groups(self, query: Query, use_threads: bool) -> Iterator[pa.RecordBatch]:
        """Small ones are joined: what comes after this has a price for each batch."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in self._row_groups(query, use_threads):
            taken_up = batch.get_total_buffer_size()
            if held and size + taken_up > MAX_JOINED_BYTES:
                yield _joined(held)
                held, size = [], 0
            held.append(batch)
            size += taken_up
        if held:
            yield _joined(held)

    def _row_groups(self, query: Query, use_threads: bool) -> Iterator[pa.RecordBatch]:
        fits = self._fits(query)
        plan = self.plan(query)
        local = all(file.is_local for file, _ in plan)
        limit = WINDOW_BYTES // (num_threads() if local else REMOTE_THREADS)
        for batches in self._scan(fits, list(windows(plan, fits, limit)), use_threads):
            yield from batches

    def iter_batches(
        self, query: Query, batch_size: int, use_threads: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """The rows, in batches of at most `batch_size`; memory stays bounded."""
        for batch in self._joined_row_groups(query, use_threads):
            yield from _slices(query.finish_batch(batch), batch_size)

    def head(self, num_rows: int, query: Query, use_threads: bool = True) -> pa.Table:
        """The first rows; what comes after them is not read, or little of it."""
        if query.expression is None:
            table = self._read(query, self._first(num_rows), use_threads)
            return _at_most(num_rows, table)
        tables = [query.finish([])]
        left = num_rows
        batches = self._row_groups(query, use_threads=False)
        while left > 0 and (batch := next(batches, None)) is not None:
            tables.append(_at_most(left, query.finish([batch])))
            left -= tables[-1].num_rows
        return _concatenated(tables)

    def _first(self, num_rows: int) -> Iterator[tuple[File, list[int]]]:
        """The first row groups, as many as have so many rows; no other file is opened."""
        for file in self.files:
            if num_rows <= 0:
                return
            self._open([file])
            groups = []
            for group in range(file.metadata.num_row_groups):
                if num_rows > 0:
                    groups.append(group)
                    num_rows -= file.metadata.rows_of(group)
            yield file, groups

    def take(self, indices: Sequence[int], query: Query, use_threads: bool = True) -> pa.Table:
        """Rows by their number, in the order given; row groups without one are not read."""
        plan = [(file, group) for file, groups in self.plan(query) for group in groups]
        ends = list(accumulate(file.metadata.rows_of(group) for file, group in plan))
        _check_rows(indices, ends[-1] if ends else 0)
        owners = [bisect_right(ends, index) for index in indices]
        start: dict[int, int] = {}  # of row groups, in what is read
        count = 0
        for owner in sorted(set(owners)):
            start[owner] = count
            count += plan[owner][0].metadata.rows_of(plan[owner][1])
        table = self._read(query, [(plan[i][0], [plan[i][1]]) for i in start], use_threads)
        return taken(
            table,
            [
                start[owner] + index - (ends[owner - 1] if owner else 0)
                for owner, index in zip(owners, indices, strict=True)
            ],
        )

    def count_rows(self, filters: Any = None, use_threads: bool = True) -> int:
        """How many rows match; without a filter, by metadata alone."""
        if filters is None:
            self._open(self.files)
            return sum(file.metadata.num_rows for file in self.files)
        batches = self.iter_batches(self.query([], filters), 1 << 62, use_threads)
        return sum(batch.num_rows for batch in batches)

    def _fits(self, query: Query) -> Fits:
        return Fits(query.schema, self.partitions)

    def _scan(
        self, fits: Fits, pieces: Sequence[Piece], use_threads: bool
    ) -> Iterator[list[pa.RecordBatch]]:
        """The batches of each piece, in order."""
        threads = num_threads()
        if not all(piece.file.is_local for piece in pieces):
            # The network is waited for, by many at a time.
            across, within, threads = use_threads, use_threads, REMOTE_THREADS
        elif len(pieces) < 2 * threads:
            across, within = False, use_threads
        else:
            across = use_threads and sum(piece.size for piece in pieces) >= MIN_THREADED_BYTES
            within = False

        def scan(piece: Piece) -> list[pa.RecordBatch]:
            return piece.file.scan(fits, piece.groups, within)

        return map_in_order(scan, pieces, across, purpose="files", threads=threads)


def _readable(files: Sequence[File]) -> list[File]:
    """Those that can be opened; a warning names the others."""
    kept = []
    errors: list[MosaicError] = []
    for file in files:
        try:
            _ = file.metadata
        except (CorruptFileError, UnsupportedError) as error:
            errors.append(error)
        else:
            kept.append(file)
    if not kept:
        raise errors[0]
    if errors:
        some = "; ".join(map(str, errors[:5])) + ("; ..." if len(errors) > 5 else "")
        warnings.warn(f"{len(errors)} files are left out: {some}", stacklevel=4)
    return kept


def _message(metadata: FileMetaData) -> bytes | None:
    return None if metadata.annex is None else metadata.annex.attached


def _matching_rows(table: pa.Table, expression: Any) -> list[int]:
    """The numbers of the rows for which `expression` is true."""
    name = "#".join(table.column_names) + "#"  # which no column has
    numbered = table.append_column(name, pa.array(range(table.num_rows), pa.int64()))
    return filtering.filter_table(numbered, expression)[name].to_pylist()


def _constant(field: pa.Field, value: pa.Scalar, num_rows: int) -> filtering.Statistics:
    """The statistics of a column that has one value in all rows."""
    if value.is_valid:
        return field, num_rows, 0, value, value
    return field, num_rows, num_rows, None, None


def _size(file: File, fits: Fits, groups: Iterable[int]) -> int:
    positions = fits.of_block(file.metadata.schema_block).positions
    return sum(file.metadata.projected_bytes(group, positions) for group in groups)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not batches[0].num_columns:
        return rows_without_columns(sum(batch.num_rows for batch in batches))
    return pa.concat_batches(batches)


def windows(plan: Iterable[tuple[File, list[int]]], fits: Fits, limit: int) -> Iterator[Piece]:
    """Pieces of at least one row group, that end where they come to so many bytes."""
    for file, groups in plan:
        window: list[int] = []
        size = 0
        for group in groups:
            window.append(group)
            size += _size(file, fits, [group])
            if size >= limit:
                yield Piece(file, window, size)
                window, size = [], 0
        if window:
            yield Piece(file, window, size)


def _concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    if not tables[0].num_columns:
        return _table_without_columns(sum(table.num_rows for table in tables))
    return pa.concat_tables(tables)


def _at_most(num_rows: int, table: pa.Table) -> pa.Table:
    # A table without columns would get as many rows as are asked for.
    return table.slice(0, min(max(0, num_rows), table.num_rows))


def _slices(batch: pa.RecordBatch, num_rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, num_rows):
        yield batch.slice(start, num_rows)


def taken(table: pa.Table, indices: Sequence[int]) -> pa.Table:
    """Rows by their number."""
    _check_rows(indices, table.num_rows)
    if not table.num_columns:
        return _table_without_columns(len(indices))
    return table.take(pa.array(indices, pa.int64()))


def _table_without_columns(num_rows: int) -> pa.Table:
    return pa.Table.from_batches([rows_without_columns(num_rows)])


def _check_rows(indices: Iterable[int], num_rows: int) -> None:
    for index in indices:
        if not 0 <= index < num_rows:
            raise IndexError(f"row {index} of {num_rows}")
