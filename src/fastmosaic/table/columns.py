"""New columns: how their values are computed from others, or looked up by key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..dataset.fileset import FileSet
from ..errors import ColumnNotFoundError, SchemaMismatchError
from ..file.batches import open_batches
from ..format.plain_arrays import to_plain
from ..format.types import plain_type
from ..query.filters import project
from ..query.keys import KeyValues
from ..query.query import fields_of
from ..query.rows import one_batch


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


def nullable(schema: pa.Schema) -> pa.Schema:
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
        self.schema = nullable(self.compute(one_batch(empty)).schema)

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
        self._keys = KeyValues([_fitted(table, types.field(name)) for name in keys])
        self._check_unique(table)
        values = table.drop_columns(list(keys))
        self.schema = nullable(values.schema)
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
