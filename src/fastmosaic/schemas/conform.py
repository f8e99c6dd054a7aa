"""Batches made to fit the schema of a file: columns by name, types that the format has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import SchemaMismatchError, UnsupportedError
from ..format.nested import check_nulls
from ..format.types import ColumnType, is_simple, is_view, storage_type

# Arrow's 32-bit offsets end at 2 GiB, so larger batches are converted in halves.
MAX_CONVERTED_BYTES: Final = 1 << 30


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the file that holds tables of `schema`, without metadata."""
    if all(is_simple(field.type) and field.metadata is None for field in schema):
        return schema.remove_metadata() if schema.metadata else schema
    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, storage_type(field.type), field.nullable))
        except UnsupportedError as error:
            raise UnsupportedError(f"column {field.name!r}: {error}") from None
    return pa.schema(fields)


class Conformer:
    """Makes batches fit the stored schema of a file, or says why they do not."""

    def __init__(self, stored: pa.Schema) -> None:
        self._stored = stored
        self._names = stored.names
        self._strict = [
            (index, ColumnType.from_arrow(field))
            for index, field in enumerate(stored)
            if not field.nullable or arrow_types.is_nested(field.type)
        ]

    def check(self, schema: pa.Schema) -> None:
        """Raise if batches of `schema` cannot fit."""
        if schema.equals(self._stored):
            return
        index_of = self._index(schema.names)
        for field in self._stored:
            _check_type(schema.field(index_of[field.name]).type, field)

    def conform(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """The batch, or its parts, with the columns, order and types of the file."""
        if batch.schema.equals(self._stored):
            self._check_nulls(batch)
            yield batch
        elif batch.num_rows > 1 and batch.nbytes > MAX_CONVERTED_BYTES:
            middle = batch.num_rows // 2
            yield from self.conform(batch.slice(0, middle))
            yield from self.conform(batch.slice(middle))
        else:
            batch = self._convert(batch)
            self._check_nulls(batch)
            yield batch

    def _convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        index_of = self._index(batch.schema.names)
        if not self._names:
            return batch
        arrays = []
        for field in self._stored:
            array = batch.column(index_of[field.name])
            arrays.append(array if array.type == field.type else _convert(array, field))
        return pa.RecordBatch.from_arrays(arrays, schema=self._stored)

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        for index, column_type in self._strict:
            try:
                check_nulls(batch.column(index), column_type)
            except SchemaMismatchError as error:
                raise SchemaMismatchError(f"column {self._names[index]!r}: {error}") from None

    def _index(self, names: Sequence[str]) -> dict[str, int]:
        """Where the columns are; the same names as the file's, each once, in any order."""
        index_of = {name: index for index, name in enumerate(names)}
        known = set(self._names)
        missing = [name for name in self._names if name not in index_of]
        if missing:
            raise SchemaMismatchError(f"the data lacks {_some(missing)}, which the writer expects")
        extra = [name for name in index_of if name not in known]
        if extra:
            raise SchemaMismatchError(f"the data has {_some(extra)}, which the writer has not")
        if len(names) > len(index_of):
            twice = [name for index, name in enumerate(names) if index_of[name] != index]
            raise SchemaMismatchError(f"the data has {_some(twice)} more than once")
        return index_of


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    if len(names) > 5:
        return f"{len(names)} columns ({shown}, ...)"
    return f"column {shown}" if len(names) == 1 else f"columns {shown}"


def _check_type(given: pa.DataType, field: pa.Field) -> None:
    try:
        stored = storage_type(given)
    except UnsupportedError as error:
        raise SchemaMismatchError(f"column {field.name!r}: {error}") from None
    if stored != field.type:
        raise SchemaMismatchError(
            f"column {field.name!r} has type {given}, but the writer expects {field.type}"
        )


def _convert(array: pa.Array, field: pa.Field) -> pa.Array:
    _check_type(array.type, field)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if is_view(array.type):
        array = _list_of_view(array)
    if arrow_types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UnsupportedError(
            f"column {field.name!r}: {array.type} cannot be made {field.type} without loss: {error}"
        ) from error


def _list_of_view(array: pa.Array) -> pa.Array:
    """A list view as a list; Arrow's own cast makes offsets that are too few."""
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, array.flatten(), mask=array.is_null())
