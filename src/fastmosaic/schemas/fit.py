"""Convert record batches from one schema to another.

Every batch that is written, read from a file of a dataset or converted from another format passes
through `Fit`: columns are matched by name, types are converted without loss, and nulls are checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import types

from ..errors import SchemaMismatchError, UnsupportedError
from ..format.file_schema import FileSchema, Projection
from ..format.nested import check_nulls, forbids_nulls
from ..format.plain_arrays import to_plain
from ..format.types import is_narrow, is_simple, needs_annex, plain_type
from ..format.user_arrays import to_user
from ..memory import Memory
from .joined import JoinedColumns, JoinedProjection
from .widen import ADVICE, ending

# Arrow's 32-bit offsets end at 2 GiB, so larger batches are converted in halves.
MAX_CONVERTED_BYTES: Final = 1 << 30

# Integers of at most so many bits are exact as floats of these types.
_EXACT_BITS: Final = {pa.float32(): 24, pa.float64(): 53}
_NO_PARTITIONS: Final = pa.schema([])
_MAX_LISTED: Final = 10


def plain_schema(schema: pa.Schema, *, annex: bool = True) -> pa.Schema:
    """Return the columns of `schema` with plain types, without metadata.

    `UnsupportedError` lists all columns whose types a file cannot store. Without an `annex`, these
    are also the types that only the annex can restore.
    """
    if all(is_simple(field.type) and field.metadata is None for field in schema):
        return schema.remove_metadata() if schema.metadata else schema
    fields = []
    refused: list[str] = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, plain_type(field.type), field.nullable))
            if not annex and (reason := needs_annex(field.type)):
                refused.append(
                    f"column {field.name!r}: without an annex, the format has no type for {reason}"
                )
        except UnsupportedError as error:
            refused.append(f"column {field.name!r}: {error}")
    if refused:
        raise unsupported(refused)
    return pa.schema(fields)


def unsupported(columns: Sequence[str]) -> UnsupportedError:
    """Return the error about columns that cannot be stored; each text names one and its problem."""
    if len(columns) == 1:
        return UnsupportedError(columns[0])
    more = len(columns) - _MAX_LISTED
    shown = [*columns[:_MAX_LISTED], *([f"and {more} more"] if more > 0 else [])]
    lines = "\n  ".join(shown)
    return UnsupportedError(f"{len(columns)} columns cannot be stored:\n  {lines}")


class Fit:
    """Converts batches of the schema `source` to batches of the schema `target`.

    Parameters
    ----------
    source, target : pyarrow.Schema
    partitions : pyarrow.Schema, optional
        Columns of `target` that have one value in all rows of a batch, passed with each batch.
    exact : bool, default False
        If True, both schemas must have the same columns, in any order, and the types of `target`
        must be the plain types of those of `source`: the rule of writers. Otherwise, columns and
        fields that `source` lacks become null, and types are cast as long as no value changes.
    drop : bool, default False
        Drop columns that `target` lacks instead of raising an error.
    advice : str
        What to do about a type, at the end of error messages.
    projection : Projection, optional
        How to read the columns of `source` from a file, for whoever reads that file.

    A batch whose schema is `target` already is returned as it is.
    """

    __slots__ = (
        "_advice",
        "_converted",
        "_error",
        "_from_partition",
        "_indices",
        "_may_overflow",
        "_missing",
        "_projection",
        "_same",
        "_strict",
        "source",
        "target",
    )

    def __init__(
        self,
        source: pa.Schema,
        target: pa.Schema,
        *,
        partitions: pa.Schema = _NO_PARTITIONS,
        exact: bool = False,
        drop: bool = False,
        advice: str = ADVICE,
        projection: Projection | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self._projection = projection
        self._advice = advice
        self._error = UnsupportedError if exact else SchemaMismatchError
        self._same = source.equals(target)
        # What a file declares not null has no nulls; any other batch may have some nevertheless.
        self._strict = _strict(target) if exact or not self._same else []
        if not self._same:
            self._plan(partitions, exact, drop)

    @property
    def projection(self) -> Projection:
        """How to read the columns of `source` from a file."""
        assert self._projection is not None
        return self._projection

    def _plan(self, partitions: pa.Schema, exact: bool, drop: bool) -> None:
        source, target = self.source, self.target
        index_of = {name: index for index, name in enumerate(source.names)}
        if exact:
            _check_names(source.names, target.names, index_of)
        elif not drop and (extra := index_of.keys() - set(target.names)):
            raise SchemaMismatchError(
                f"column {min(extra)!r} is not in the schema{ending(self._advice)}"
            )
        key_of = {name: index for index, name in enumerate(partitions.names)}
        self._indices: list[int] = []  # of the source's columns, -1 for others
        self._missing: list[tuple[int, pa.DataType]] = []  # each with its place in the target
        self._from_partition: list[tuple[int, int]] = []
        self._converted: list[tuple[int, pa.Field]] = []
        for place, field in enumerate(target):
            index = -1 if field.name in key_of else index_of.get(field.name, -1)
            given = None if index < 0 else source.field(index).type
            if field.name in key_of:
                self._from_partition.append((place, key_of[field.name]))
                if partitions.field(field.name).type != field.type:
                    self._converted.append((place, field))
            elif given is None or (types.is_null(given) and not exact):
                # A column without any value may have any type.
                index = -1
                self._missing.append((place, field.type))
            elif given != field.type:
                if exact:
                    _check_plain(given, field)
                self._converted.append((place, field))
            self._indices.append(index)
        self._may_overflow = any(_has_offsets(field.type) for _, field in self._converted)

    def __call__(
        self, batch: pa.RecordBatch, values: Sequence[pa.Scalar] = (), file: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batch, or its parts if it is very large, as batches of the target.

        `values` are those of the partitions; errors name the `file`, if there is one.
        """
        if self._same:
            self._check_nulls(batch.columns if self._strict else [], file)
            yield batch
        elif self._may_overflow and batch.num_rows > 1 and batch.nbytes > MAX_CONVERTED_BYTES:
            middle = batch.num_rows // 2
            yield from self(batch.slice(0, middle), values, file)
            yield from self(batch.slice(middle), values, file)
        else:
            yield self._convert(batch, values, file)

    def _convert(
        self, batch: pa.RecordBatch, values: Sequence[pa.Scalar], file: str
    ) -> pa.RecordBatch:
        if not self._indices:
            return batch.select([])
        columns = batch.columns
        arrays = [columns[index] if index >= 0 else None for index in self._indices]
        for place, type in self._missing:
            arrays[place] = pa.nulls(batch.num_rows, type)
        for place, key in self._from_partition:
            arrays[place] = pa.repeat(values[key], batch.num_rows)
        for place, field in self._converted:
            arrays[place] = self._cast(arrays[place], field, file)
        self._check_nulls(arrays, file)
        return pa.RecordBatch.from_arrays(arrays, schema=self.target)

    def _cast(self, array: pa.Array, field: pa.Field, file: str) -> pa.Array:
        try:
            return to_plain(array, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise self._error(
                f"cannot convert {array.type} to {field.type} without loss: "
                f"{_inexact(array, field.type) or error}{ending(self._advice)}",
                file=file or None,
                column=field.name,
            ) from error

    def _check_nulls(self, arrays: Sequence[pa.Array], file: str) -> None:
        for place, field in self._strict:
            try:
                check_nulls(arrays[place], field)
            except SchemaMismatchError as error:
                error.locate(file=file or None, column=field.name)
                raise


class NarrowCheck:
    """Checks batches for a writer whose schema has types with fewer values than their plain types.

    A batch that has the type itself needs no check: a column of type uint8 fits. If the batch has
    int16 instead, its values must be those of uint8, because the file is read as uint8.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._fields = [field for field in schema if is_narrow(field.type)]

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Raise SchemaMismatchError if a value does not fit."""
        for field in self._fields:
            array = batch.column(field.name)
            if array.type == field.type:
                continue
            try:
                plain = to_plain(array, plain_type(field.type))
                to_user(plain, field.type, (field.name,), None, Memory())
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaMismatchError(
                    f"values of type {array.type} do not fit the writer's {field.type}: {error}",
                    column=field.name,
                ) from error


class Fits:
    """The `Fit` of each schema that batches, or files, turn out to have.

    The parameters are those of `Fit`.
    """

    def __init__(
        self,
        target: pa.Schema,
        partitions: pa.Schema = _NO_PARTITIONS,
        *,
        exact: bool = False,
        drop: bool = False,
        advice: str = ADVICE,
    ) -> None:
        self._target = target
        self._partitions = partitions
        self._exact = exact
        self._drop = drop
        self._advice = advice
        self._last: Fit | None = None
        self._by_file: dict[FileSchema, Fit] = {}
        self._by_joined: dict[JoinedColumns, tuple[Fit, JoinedProjection]] = {}

    def of(self, source: pa.Schema) -> Fit:
        """Return the fit for batches of `source`; raise if they cannot fit."""
        if self._last is None or not source.equals(self._last.source):
            self._last = self._made(source)
        return self._last

    def of_file(self, columns: FileSchema) -> Fit:
        """Return the fit for files with these columns, and how to read those that are needed."""
        fit = self._by_file.get(columns)
        if fit is None:
            projection = columns.projection_of(self._wanted())
            fit = self._by_file[columns] = self._made(projection.schema, projection)
        return fit

    def of_joined(self, columns: JoinedColumns) -> tuple[Fit, JoinedProjection]:
        """Return the fit for files that have these columns together, and how to read them."""
        made = self._by_joined.get(columns)
        if made is None:
            projection = columns.joined_projection_of(self._wanted())
            made = self._by_joined[columns] = self._made(projection.schema), projection
        return made

    def _wanted(self) -> list[pa.Field]:
        keys = set(self._partitions.names)
        return [field for field in self._target if field.name not in keys]

    def _made(self, source: pa.Schema, projection: Projection | None = None) -> Fit:
        return Fit(
            source,
            self._target,
            partitions=self._partitions,
            exact=self._exact,
            drop=self._drop,
            advice=self._advice,
            projection=projection,
        )

    def __call__(
        self, batch: pa.RecordBatch, values: Sequence[pa.Scalar] = (), file: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batch as `Fit` does."""
        return self.of(batch.schema)(batch, values, file)


def _strict(target: pa.Schema) -> list[tuple[int, pa.Field]]:
    """Return the columns that must not be null, or must not contain nulls."""
    return [(place, field) for place, field in enumerate(target) if forbids_nulls(field)]


def _has_offsets(type: pa.DataType) -> bool:
    return bool(types.is_nested(type) or types.is_string(type) or types.is_binary(type))


def _check_names(names: Sequence[str], expected: Sequence[str], index_of: dict[str, int]) -> None:
    missing = [name for name in expected if name not in index_of]
    if missing:
        raise SchemaMismatchError(
            f"the data does not contain {_some(missing)} of the writer's schema"
        )
    known = set(expected)
    extra = [name for name in index_of if name not in known]
    if extra:
        raise SchemaMismatchError(f"the data contains {_some(extra)}, not in the writer's schema")
    if len(names) > len(index_of):
        twice = [name for index, name in enumerate(names) if index_of[name] != index]
        raise SchemaMismatchError(f"the data contains {_some(twice)} more than once")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5]))
    if len(names) > 5:
        return f"{len(names)} columns ({shown}, ...)"
    return f"column {shown}" if len(names) == 1 else f"columns {shown}"


def _check_plain(given: pa.DataType, field: pa.Field) -> None:
    try:
        plain = plain_type(given)
    except UnsupportedError as error:
        raise SchemaMismatchError(error.message, column=field.name) from None
    if plain != field.type:
        raise SchemaMismatchError(
            f"column {field.name!r} has type {given}, but the writer expects {field.type}"
        )


def _inexact(array: pa.Array, type: pa.DataType) -> str:
    """Describe the integers that a float type may not represent exactly, or return ""."""
    import pyarrow.compute as pc

    digits = _EXACT_BITS.get(type)
    if digits is None or not types.is_integer(array.type):
        return ""
    limit = 1 << digits
    if types.is_unsigned_integer(array.type):
        beyond = pc.greater(array, pa.scalar(limit, pa.uint64()))
    else:
        beyond = pc.or_(pc.greater(array, limit), pc.less(array, -limit))
    count = pc.sum(beyond).as_py() or 0
    integers = "1 integer is" if count == 1 else f"{count:,} integers are"
    return f"{integers} beyond ±2^{digits}, where {type} is no longer exact" if count else ""
