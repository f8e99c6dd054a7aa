"""Compute new columns, file by file: column files beside base files.

A column file has the rows of its base file, in the same row groups. Only the columns that the values are
computed from are read, and memory holds a part of a row group of these and a row group of the new columns,
for each file that is worked on at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, Final, Unpack

import pyarrow as pa
import pyarrow.compute as pc

from ..dataset.fileset import FileSet
from ..dataset.table_files import DatasetFile
from ..dataset.version import ColumnFile
from ..errors import ColumnNotFoundError, SchemaMismatchError, UnsupportedError, located
from ..file.batches import open_batches
from ..file.options import WriteOptions
from ..file.writer import MosaicWriter
from ..format.annex import Base
from ..format.plain_arrays import to_plain
from ..format.types import plain_type
from ..query.filters import project
from ..query.query import Query, fields_of
from ..query.rows import one_batch
from ..schemas.fit import Fits
from ..storage.sink import Sink
from ..threads import map_in_order
from .changes import AddColumns, State
from .progress import Progress, reporting
from .store import TableStore

# A function gets batches of at most so many rows.
_BATCH_ROWS: Final = 131072
# Row groups end where those of the base file end, however large they are.
_NO_LIMIT: Final = 1 << 62


class NewColumns(ABC):
    """Computes new columns of a table from others.

    inputs  names of the columns that they are computed from; None for all
    schema  the new columns; None until the first of them were computed
    """

    inputs: Sequence[str] | None
    schema: pa.Schema | None

    @abstractmethod
    def compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the new columns for the rows of a batch of the inputs."""


class FunctionColumns(NewColumns):
    """Columns that a function of the user computes."""

    def __init__(
        self,
        function: Callable[[pa.RecordBatch], Any],
        inputs: Sequence[str] | None,
        schema: pa.Schema | None,
    ) -> None:
        self.inputs = inputs
        self.schema = schema
        self._function = function

    def compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = _as_batch(self._function(batch))
        if found.num_rows != batch.num_rows:
            raise ValueError(
                f"the function returned {found.num_rows} rows for a batch of {batch.num_rows}; "
                "it must return one row for each, in the same order"
            )
        return found if self.schema is None else _conformed(found, self.schema)


def _as_batch(result: Any) -> pa.RecordBatch:
    """Return what a function returned as a record batch."""
    if isinstance(result, pa.RecordBatch):
        return result
    if isinstance(result, Mapping):
        return pa.RecordBatch.from_pydict(dict(result))
    try:
        table = result if isinstance(result, pa.Table) else pa.table(result)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "the function must return a record batch, a table, a data frame or a dictionary of "
            f"columns, not an object of type {type(result).__name__}"
        ) from error
    return one_batch(table)


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns and types of `schema`."""
    if batch.schema.equals(schema):
        return batch
    if sorted(batch.schema.names) != sorted(schema.names):
        raise SchemaMismatchError(
            f"the function returned the columns {', '.join(map(repr, batch.schema.names))}, "
            f"but {', '.join(map(repr, schema.names))} were expected"
        )
    arrays = []
    for field in schema:
        try:
            arrays.append(batch.column(field.name).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatchError(
                f"the values do not fit {field.type}: {error}", column=field.name
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return columns that may be null: rows that are appended may lack them."""
    return pa.schema([field.with_nullable(True) for field in schema], schema.metadata)


class ExpressionColumns(NewColumns):
    """Columns that Arrow computes."""

    def __init__(self, expressions: Mapping[str, Any], files: FileSet) -> None:
        self._expressions = {
            name: value if isinstance(value, pc.Expression) else pc.scalar(value)
            for name, value in expressions.items()
        }
        needed = {
            field.name: None
            for expression in self._expressions.values()
            for field in fields_of(files.columns, expression, is_filter=False)
        }
        self.inputs = list(needed)
        empty = files.query(self.inputs).result.empty_table()
        self.schema = _nullable(self.compute(one_batch(empty)).schema)

    def compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return project(batch, self._expressions)
        except pa.ArrowInvalid:
            for name, expression in self._expressions.items():
                self._check(batch, name, expression)
            raise

    def _check(self, batch: pa.RecordBatch, name: str, expression: pc.Expression) -> None:
        """Raise ValueError if it is this column that cannot be computed."""
        try:
            project(batch, {name: expression})
        except pa.ArrowInvalid as error:
            raise ValueError(f"column {name!r} cannot be computed: {error}") from error


class JoinedValues(NewColumns):
    """Columns whose values are looked up by key; rows without a value get null."""

    def __init__(self, data: Any, keys: Sequence[str], files: FileSet) -> None:
        schema, items = open_batches(data)
        if not keys:
            raise ValueError("on= must name at least one column")
        for name in keys:
            if name not in schema.names:
                raise ColumnNotFoundError.for_name(name, schema.names, option="on=")
        tables = [
            item if isinstance(item, pa.Table) else pa.Table.from_batches([item]) for item in items
        ]
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        types = files.query(list(keys)).result
        self.inputs = list(keys)
        self._keys = _Keys([_fitted(table, types.field(name)) for name in keys])
        self._check_unique(table)
        values = table.drop_columns(list(keys))
        self.schema = _nullable(values.schema)
        self._values = pa.Table.from_arrays(
            [_takeable(column) for column in values.columns], names=values.schema.names
        )

    def _check_unique(self, table: pa.Table) -> None:
        row = self._keys.repeated()
        if row is not None:
            shown = ", ".join(f"{name} = {table.column(name)[row]}" for name in self.inputs or ())
            raise ValueError(
                f"the data has the key {shown} more than once; there must be one value for each row"
            )

    def compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_plain(pa.chunked_array([batch.column(name)])) for name in self.inputs or ()]
        return one_batch(self._values.take(self._keys.find(columns)))


class _Keys:
    """The keys of some rows, of one column or several; rows with a null among them have no key."""

    def __init__(self, columns: Sequence[pa.ChunkedArray]) -> None:
        self._distinct = [column.unique() for column in columns]
        self._pairs: list[pa.Array] = []
        numbers = self._numbers(columns[0], 0)
        for place in range(1, len(columns)):
            pairs = self._paired(numbers, columns[place], place)
            self._pairs.append(pairs.unique())
            numbers = pc.index_in(pairs, self._pairs[-1], skip_nulls=True)
        self._found = numbers

    def _numbers(self, column: pa.ChunkedArray, place: int) -> pa.ChunkedArray:
        return pc.index_in(column, self._distinct[place], skip_nulls=True)

    def _paired(
        self, numbers: pa.ChunkedArray, column: pa.ChunkedArray, place: int
    ) -> pa.ChunkedArray:
        """Return one number for each pair of the keys so far and that of another column."""
        count = pa.scalar(len(self._distinct[place]), pa.int64())
        own = self._numbers(column, place)
        return pc.add(pc.multiply(numbers.cast(pa.int64()), count), own)

    def repeated(self) -> int | None:
        """Return a row whose key occurs before it, or None."""
        counts = pc.value_counts(pc.drop_null(self._found))
        twice = pc.index(pc.greater(counts.field("counts"), 1), True).as_py()
        if twice < 0:
            return None
        return int(pc.index(self._found, counts.field("values")[twice]).as_py())

    def find(self, columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        """Return the row of each key, or null."""
        numbers = self._numbers(columns[0], 0)
        for place, known in enumerate(self._pairs, 1):
            pairs = self._paired(numbers, columns[place], place)
            numbers = pc.index_in(pairs, known, skip_nulls=True)
        return pc.index_in(numbers, self._found, skip_nulls=True)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in a type that Arrow can compare, and take rows of."""
    type = plain_type(column.type)
    return pa.chunked_array([to_plain(chunk, type) for chunk in column.chunks], type)


def _takeable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values in a type of which Arrow can take rows."""
    return column if pa.types.is_dictionary(column.type) else _plain(column)


def _fitted(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """Return the keys of the data as they are compared with those of the table."""
    column = table.column(field.name)
    type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_nested(type):
        raise ValueError(f"column {field.name!r} has type {type}, which cannot be a key")
    try:
        return _plain(column.cast(type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"the keys have type {column.type}, which does not fit {field.type} of the table: "
            f"{error}",
            column=field.name,
        ) from error


def check_new(names: Sequence[str], files: FileSet, replace: bool) -> None:
    """Raise ValueError if columns cannot be added."""
    if not names:
        raise ValueError("there are no columns to add")
    for name in names:
        if name in files.partitions.names:
            raise ValueError(f"{name!r} is a partition column, which cannot be replaced")
        if not replace and files.columns.find(name) is not None:
            raise ValueError(
                f"the table has a column {name!r} already; pass replace=True (--replace) to replace it"
            )


def write_column_files(
    store: TableStore,
    state: State,
    files: FileSet,
    new: NewColumns,
    check: Callable[[Sequence[str]], None],
    *,
    progress: Progress = False,
    **options: Unpack[WriteOptions],
) -> AddColumns:
    """Write a column file for each base file; return the change that adds them.

    `files` are those of the table at the version `state`. `check` raises if columns of these names cannot
    be added. If this fails, no file is left.
    """
    query = files.query(new.inputs)
    made: dict[str, ColumnFile] = {}
    digests: dict[str, str] = {}
    # The first one alone, because it may tell the types. Files without rows do not.
    order = sorted(files.files, key=lambda file: file.num_rows == 0)
    if new.schema is not None:
        check(new.schema.names)
    with (
        store.new_files() as open_file,
        reporting("add columns", len(order), progress) as done,
    ):
        writer = _ColumnWriter(store, open_file, state, files, query, new, check, options)

        def write(file: DatasetFile) -> tuple[str, ColumnFile, str, int]:
            with located(file=file.name):
                return writer.write(file)

        for some, use_threads in ((order[:1], False), (order[1:], True)):
            with closing(map_in_order(write, some, use_threads, purpose="columns")) as every:
                for path, column_file, digest, rows in every:
                    made[path], digests[path] = column_file, digest
                    done(rows)
    names = [] if new.schema is None else new.schema.names
    return AddColumns(made, digests, names)


class _ColumnWriter:
    """Writes the column files of one operation."""

    def __init__(
        self,
        store: TableStore,
        open_file: Callable[[str], Sink],
        state: State,
        files: FileSet,
        query: Query,
        new: NewColumns,
        check: Callable[[Sequence[str]], None],
        options: WriteOptions,
    ) -> None:
        self._check = check
        self._store = store
        self._open_file = open_file
        self._state = state
        self._partitions = files.partitions
        self._query = query
        self._new = new
        self._options = options
        self._schema: str | None = None  # the digest of the new columns
        self.paths: list[str] = []  # of all files, also of those that threads have not ended

    def write(self, file: DatasetFile) -> tuple[str, ColumnFile, str, int]:
        """Write a column file; return the path of its base, itself, the base's digest and its rows."""
        entry = file.found.entry
        assert entry is not None
        base = self._base_of(file)
        source = file.resolved(frozenset(self._query.schema.names) - {*self._partitions.names})
        edges = source.metadata.row_edges
        if any(start == end for start, end in pairwise(edges)):
            raise UnsupportedError(
                "a row group has no rows; compact the table before adding columns"
            )
        fits = Fits(self._query.schema, self._partitions)
        path = self._store.new_column_path()
        self.paths.append(path)
        writer: MosaicWriter | None = None
        try:
            for group in range(len(edges) - 1):
                for batch in source.batches(fits, [group], False, _BATCH_ROWS):
                    for start in range(0, batch.num_rows, _BATCH_ROWS):
                        part = self._query.finish_batch(batch.slice(start, _BATCH_ROWS))
                        found = self._new.compute(part)
                        if writer is None:
                            writer = self._open(path, found.schema, base)
                        writer.write_batch(found)
                assert writer is not None
                writer.flush()
            if writer is None:  # there are no rows
                writer = self._open(path, self._new.schema, base)
            writer.close()
        except BaseException:
            if writer is not None:
                writer.abandon()
            raise
        if self._schema is None:
            self._schema = self._store.put_schema(writer.schema, self._state.digests, self._options)
        made = ColumnFile(path, writer.num_bytes, self._schema, self._state.number)
        return entry.file.path, made, base.digest.hex(), entry.file.rows

    def _base_of(self, file: DatasetFile) -> Base:
        entry = file.found.entry
        assert entry is not None
        known = entry.file
        if known.digest is not None:
            return Base(known.rows, known.size, bytes.fromhex(known.digest))
        return file.parts[0].identity()

    def _open(self, path: str, schema: pa.Schema | None, base: Base) -> MosaicWriter:
        if schema is None:
            raise ValueError("there are no rows to compute columns from; pass schema=")
        if self._new.schema is None:
            self._check(schema.names)
            self._new.schema = _nullable(schema)
        options: WriteOptions = {**self._options, "row_group_bytes": _NO_LIMIT}
        options |= {"row_group_size": None, "annex": True}
        writer = MosaicWriter(self._open_file(path), self._new.schema, **options)
        writer.belong_to(base)
        return writer
