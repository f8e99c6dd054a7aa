"""Files of any format as one table: one schema for all, and batches made to fit it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..errors import SchemaMismatchError, UnsupportedError
from ..format.types import storage_type
from .conform import MAX_CONVERTED_BYTES, Conformer, stored_schema
from .union import cast, widened


def unite(
    schemas: Sequence[tuple[pa.Schema, str]],
    *,
    is_text: bool = False,
    advice: str = "schema= can say which it shall be",
) -> pa.Schema:
    """The columns of all schemas, each of which has the name of a file with it.

    Types widen as in a data set of Mosaic files; in text, integers also to floats.
    """
    fields: dict[str, pa.Field] = {}
    files: dict[str, str] = {}
    counts: dict[str, int] = {}
    for schema, file in schemas:
        for field in schema:
            name = field.name
            counts[name] = counts.get(name, 0) + 1
            known = fields.get(name)
            if known is None or pa.types.is_null(known.type):
                nullable = field.nullable or known is not None
                fields[name], files[name] = field.with_nullable(nullable), file
                continue
            if not pa.types.is_null(field.type) and field.type != known.type:
                wide = _joined(known.type, field.type, is_text)
                if wide is None:
                    raise SchemaMismatchError(
                        f"column {name!r} is {known.type} in {files[name]} and {field.type} in "
                        f"{file}, which no type joins; {advice}"
                    )
                known = known.with_type(wide)
            fields[name] = known.with_nullable(known.nullable or field.nullable)
    missing = {name for name, count in counts.items() if count < len(schemas)}
    return pa.schema(
        [field.with_nullable(True) if name in missing else field for name, field in fields.items()]
    )


def _joined(one: pa.DataType, other: pa.DataType, is_text: bool) -> pa.DataType | None:
    """The narrowest type that holds all values of both, or None."""
    try:
        wide = widened(storage_type(one), storage_type(other))
    except UnsupportedError:
        return None
    if wide is None and is_text:
        kinds = {pa.types.is_integer(one), pa.types.is_integer(other)}
        floats = {pa.types.is_floating(one), pa.types.is_floating(other)}
        return pa.float64() if kinds == floats == {True, False} else None
    return wide


def check_same(schemas: Sequence[tuple[pa.Schema, str]]) -> None:
    """Raise unless all files have the same columns, of the same types."""
    first, first_file = schemas[0]
    for schema, file in schemas[1:]:
        for field in schema:
            index = first.get_field_index(field.name)
            if index < 0:
                raise _different(f"{file} has a column {field.name!r}, {first_file} has none")
            if first.field(index).type != field.type:
                raise _different(
                    f"column {field.name!r} is {first.field(index).type} in {first_file} and "
                    f"{field.type} in {file}"
                )
        for name in first.names:
            if schema.get_field_index(name) < 0:
                raise _different(f"{first_file} has a column {name!r}, {file} has none")


def _different(fact: str) -> SchemaMismatchError:
    return SchemaMismatchError(f"{fact}; with unify=True they are converted to one schema")


class Fitter:
    """Makes batches of `source` fit `target`: columns by name, nulls where there is none."""

    def __init__(self, source: pa.Schema, target: pa.Schema, drops: bool) -> None:
        """`drops` says whether columns that the target lacks are left out."""
        self._target = target
        self._same = source.equals(target)
        index_of = {name: index for index, name in enumerate(source.names)}
        # A column without any value may become one of any type.
        empty = {field.name for field in source if pa.types.is_null(field.type)}
        self._indices = [None if name in empty else index_of.get(name) for name in target.names]
        extra = index_of.keys() - set(target.names)
        if extra and not drops:
            raise SchemaMismatchError(
                f"column {min(extra)!r} is not among those that its beginning has; "
                "schema= can say which there are"
            )
        # Arrow casts the types of the format as they should be, but not dictionaries and views.
        self._stored = [
            index
            for field, index in zip(target, self._indices, strict=True)
            if index is not None
            and source.field(index).type != field.type
            and _is_storable(source.field(index).type)
        ]
        stored = stored_schema(pa.schema([source.field(index) for index in self._stored]))
        self._conformer = Conformer(stored)

    def fit(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._same:
            yield batch
        elif batch.num_rows > 1 and batch.nbytes > MAX_CONVERTED_BYTES:
            middle = batch.num_rows // 2
            yield from self.fit(batch.slice(0, middle))
            yield from self.fit(batch.slice(middle))
        else:
            yield self._fit(batch)

    def _fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        stored = {}
        if self._stored:
            (part,) = self._conformer.conform(batch.select(self._stored))
            stored = dict(zip(self._stored, part.columns, strict=True))
        arrays = []
        for target, index in zip(self._target, self._indices, strict=True):
            if index is None:
                array = pa.nulls(batch.num_rows, target.type)
            else:
                array = cast(stored.get(index, batch.column(index)), target)
            if array.null_count and not target.nullable:
                raise SchemaMismatchError(
                    f"column {target.name!r} has nulls, but schema= declares it not null"
                )
            arrays.append(array)
        if not arrays:
            return batch.select([])
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def _is_storable(type: pa.DataType) -> bool:
    try:
        storage_type(type)
    except UnsupportedError:
        return False
    return True


class Fitting:
    """Makes batches fit one schema, whichever theirs are."""

    def __init__(self, target: pa.Schema, drops: bool) -> None:
        self._target = target
        self._drops = drops
        self._source: pa.Schema | None = None
        self._fitter: Fitter

    def fit(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if self._source is None or not batch.schema.equals(self._source):
            self._source = batch.schema
            self._fitter = Fitter(self._source, self._target, self._drops)
        return self._fitter.fit(batch)
