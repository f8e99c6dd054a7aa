"""Rows by key: the keys that a caller looks up, and which rows of a table have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as arrow_types

from ..errors import ColumnNotFoundError, SchemaMismatchError
from ..format.column_set import ColumnSet
from ..format.plain_arrays import to_plain
from ..format.types import plain_type
from .query import Query
from .rows import table_without_columns

Missing: TypeAlias = Literal["null", "raise", "skip"]

_MAX_SHOWN: Final = 5  # missing keys in the message of an error


class KeyValues:
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


class Lookup:
    """Keys to look up in a table, and the rows that were found for them.

    Parameters
    ----------
    table : ColumnSet
        The columns of the table.
    keys : array, list, table, data frame or dict of columns
        What to look up, in the order of the result.
    key : str or list of str
        The column or columns of the key.
    missing : "null", "raise" or "skip"
        What to do about keys that no row has.
    """

    def __init__(
        self, table: ColumnSet, keys: Any, key: str | Sequence[str], missing: Missing
    ) -> None:
        if missing not in get_args(Missing):
            raise ValueError(f"missing must be 'null', 'raise' or 'skip', not {missing!r}")
        self.names = [key] if isinstance(key, str) else list(key)
        if not self.names:
            raise ValueError("key= must name at least one column")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"key= names a column twice: {self.names}")
        self._missing = missing
        self._fields = [table.field(name) for name in self.names]
        columns = _columns(keys, self.names)
        self.columns = [
            _fitted(column, field) for column, field in zip(columns, self._fields, strict=True)
        ]
        self._values = KeyValues(self.columns)
        self._own = self._values.find(self.columns).to_pylist()  # the first key that is equal
        self._rows: dict[int, int] = {}  # the first row of each key that was found
        self._distinct = set(self._own) - {None}

    @property
    def is_done(self) -> bool:
        """Whether a row was found for every key."""
        return len(self._rows) == len(self._distinct)

    @property
    def expression(self) -> Any:
        """A filter that all wanted rows match, and maybe some more."""
        expression = None
        for name, column in zip(self.names, self.columns, strict=True):
            one = pc.field(name).isin(pc.drop_null(column.unique()))
            expression = one if expression is None else expression & one
        return expression

    @property
    def complete(self) -> list[pa.ChunkedArray]:
        """The columns of the keys without those keys that have a null, for hashing."""
        valid = self.columns[0].is_valid()
        for column in self.columns[1:]:
            valid = pc.and_(valid, column.is_valid())
        return [column.filter(valid) for column in self.columns]

    def fits(self, table: ColumnSet) -> bool:
        """Return whether the key columns of a file have the types that the keys have."""
        return all(
            (found := table.find(field.name)) is not None and found.type == field.type
            for field in self._fields
        )

    def add(self, numbers: Sequence[int], batch: pa.RecordBatch) -> None:
        """Look for the keys in the key columns of rows, given their numbers.

        Rows must be added in ascending order: the first row of a key is the one that counts.
        """
        columns = [
            pa.chunked_array([batch.column(name)], field.type)
            for name, field in zip(self.names, self._fields, strict=True)
        ]
        found = self._values.find(columns)
        places = pc.indices_nonzero(found.is_valid())
        for place, key in zip(places.to_pylist(), found.take(places).to_pylist(), strict=True):
            self._rows.setdefault(key, numbers[place])

    def finish(self, query: Query, take: Any) -> pa.Table:
        """Return the rows of the keys; `take` returns those of row numbers, for a query."""
        found = [None if own is None else self._rows.get(own) for own in self._own]
        lost = [place for place, row in enumerate(found) if row is None]
        if self._missing == "raise" and lost:
            raise KeyError(self._told(lost))
        numbers = sorted({row for row in found if row is not None})
        places = {row: place for place, row in enumerate(numbers)}
        wanted = [None if row is None else places[row] for row in found]
        if self._missing == "skip":
            wanted = [place for place in wanted if place is not None]
        # Arrow takes rows of all plain types, but not of all types that users have.
        table = take(pa.array(numbers, pa.int64()), replace(query, attached=None))
        if self._missing == "null":
            table = _nullable(table)
        if not table.num_columns:
            return table_without_columns(len(wanted))
        if wanted != list(range(len(numbers))):
            table = table.take(pa.array(wanted, pa.int64()))
        if query.attached is not None:
            table = query.attached.put_on(table)
        return _nullable(table) if self._missing == "null" else table

    def _told(self, lost: Sequence[int]) -> str:
        shown = "; ".join(
            ", ".join(
                f"{name} = {column[place]}"
                for name, column in zip(self.names, self.columns, strict=True)
            )
            for place in lost[:_MAX_SHOWN]
        )
        more = "; ..." if len(lost) > _MAX_SHOWN else ""
        return f"{len(lost)} of {len(self._own)} keys were not found: {shown}{more}"


def _nullable(table: pa.Table) -> pa.Table:
    """Return a table whose columns may have nulls."""
    fields = [field.with_nullable(True) for field in table.schema]
    return pa.Table.from_arrays(
        table.columns, schema=pa.schema(fields, metadata=table.schema.metadata)
    )


def _columns(keys: Any, names: Sequence[str]) -> list[Any]:
    """Return the columns of the keys, which a caller passed in any form."""
    if isinstance(keys, pa.RecordBatch) or (
        hasattr(keys, "__arrow_c_stream__")
        and not isinstance(keys, pa.ChunkedArray | pa.Table)
        and hasattr(keys, "columns")
    ):
        keys = pa.table(keys)
    if isinstance(keys, pa.Table | Mapping):
        known = keys.column_names if isinstance(keys, pa.Table) else list(keys)
        for name in names:
            if name not in known:
                raise ColumnNotFoundError.for_name(name, known, option="keys")
        columns = [keys[name] for name in names]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("the columns of keys have different lengths")
        return columns
    if len(names) == 1:
        return [keys]
    rows = keys if isinstance(keys, list | tuple) else list(keys)
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != len(names):
            raise ValueError(
                f"invalid key {row!r}: expected a tuple of {len(names)} values, for {names}"
            )
    return [[row[place] for row in rows] for place in range(len(names))]


def _family(arrow: pa.DataType) -> str:
    """Return the kind of values that may be compared with each other."""
    if arrow_types.is_integer(arrow):
        return "integer"
    if arrow_types.is_floating(arrow) or arrow_types.is_decimal(arrow):
        return "number"
    if arrow_types.is_temporal(arrow):
        return "time" if arrow_types.is_time(arrow) else "date"
    return (
        "text" if arrow_types.is_string(arrow) or arrow_types.is_large_string(arrow) else str(arrow)
    )


def _fitted(keys: Any, field: pa.Field) -> pa.ChunkedArray:
    """Return the keys in the type of their column."""
    if arrow_types.is_nested(field.type):
        raise SchemaMismatchError(f"type {field.type} cannot be a key", column=field.name)
    column = keys
    if not isinstance(keys, Iterable) or isinstance(keys, str | bytes):
        raise TypeError(f"keys must be a list or an array, not {keys!r}")
    try:
        if not isinstance(keys, pa.Array | pa.ChunkedArray):
            column = pa.array(keys)
        if isinstance(column, pa.Array):
            column = pa.chunked_array([column])
        plain = plain_type(column.type)
        column = pa.chunked_array([to_plain(chunk, plain) for chunk in column.chunks], plain)
        own, wanted = _family(plain), _family(field.type)
        if own == wanted or (own, wanted) == ("integer", "number") or not len(column):
            return column.cast(field.type)
        if column.null_count == len(column):
            return column.cast(field.type)
        reason = ""
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowTypeError,
        OverflowError,
    ) as error:
        reason = f": {error}"
    shown = column.type if isinstance(column, pa.Array | pa.ChunkedArray) else type(keys).__name__
    raise SchemaMismatchError(
        f"the keys have type {shown}, but the column has type {field.type}{reason}",
        column=field.name,
    )
