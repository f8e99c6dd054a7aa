"""Minimum and maximum of many columns.

A call of an Arrow function takes as long as dozens of values. Columns with few rows are therefore
measured together: all columns of a type at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa

from ..query.durations import duration_texts
from .distinct import can_hash

_MAX_HELD: Final = 16  # tables that are kept before they are merged
_FEW_ROWS: Final = 64  # of a column, up to which many columns are faster together than one by one
_NAMES: Final = ("column", "min", "max")


class Bounds:
    """Minimum and maximum of the columns of `schema` whose values have an order.

    These are all except lists, maps, structs and intervals.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._types = [_BoundsOfType(*one) for one in _by_type(schema).items()]

    def add(self, columns: Sequence[pa.ChunkedArray]) -> None:
        """Add values of all columns."""
        for one in self._types:
            one.add(columns)

    def to_table(self) -> pa.Table:
        """Return one row with three lists for each type: numbers of columns, minimum, maximum."""
        return pa.table(
            {
                f"{name} {number}": lists([column.combine_chunks()])
                for number, one in enumerate(self._types)
                for name, column in zip(_NAMES, one.merged().columns, strict=True)
            }
        )


def as_text(
    schema: pa.Schema, parts: Sequence[pa.Table]
) -> tuple[list[str | None], list[str | None]]:
    """Return the minimum and the maximum of each column as text, from several `to_table`."""
    lows: list[str | None] = [None] * len(schema)
    highs: list[str | None] = [None] * len(schema)
    for number in range(len(_by_type(schema)) if parts else 0):
        tables = [
            _table(*(part.column(f"{name} {number}").combine_chunks().values for name in _NAMES))
            for part in parts
        ]
        bounds = tables[0] if len(tables) == 1 else _merged(pa.concat_tables(tables))
        bounds = bounds.filter(bounds.column("min").is_valid())
        places = bounds.column("column").to_pylist()
        for name, found in (("min", lows), ("max", highs)):
            values = bounds.column(name).combine_chunks()
            for place, text in zip(places, _texts(values), strict=True):
                found[place] = text
    return lows, highs


def integers(values: Iterable[int]) -> pa.Array:
    """Return an int64 array. Unlike `pa.array`, this does not import pandas if it is installed."""
    data = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(data), [None, pa.py_buffer(data)])


def lists(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return an array with a list for each of the arrays, which have one type."""
    ends = [0]
    for one in arrays:
        ends.append(ends[-1] + len(one))
    values = pa.concat_arrays(arrays) if arrays else pa.nulls(0, pa.uint64())
    return pa.LargeListArray.from_arrays(integers(ends), values)


def _by_type(schema: pa.Schema) -> dict[pa.DataType, list[int]]:
    """Return the numbers of the columns that have an order, by type."""
    found: dict[pa.DataType, list[int]] = {}
    for place, type in enumerate(schema.types):
        if can_hash(type) and not pa.types.is_interval(type):
            found.setdefault(type, []).append(place)
    return found


class _BoundsOfType:
    """Minimum and maximum of the columns of a type."""

    def __init__(self, type: pa.DataType, columns: Sequence[int]) -> None:
        self._type = type
        self._columns = integers(columns)
        self._places = columns
        self._tables: list[pa.Table] = []

    def add(self, columns: Sequence[pa.ChunkedArray]) -> None:
        """Add values of all columns of the table."""
        own = [columns[place] for place in self._places]
        add = self._add_together if len(own[0]) <= _FEW_ROWS else self._add_each
        self._tables.append(add(own))
        if len(self._tables) > _MAX_HELD:
            self._tables = [self.merged()]

    def _add_together(self, columns: Sequence[pa.ChunkedArray]) -> pa.Table:
        import pyarrow.compute as pc

        chunks = [chunk for column in columns for chunk in column.chunks]
        values = pa.concat_arrays(chunks) if chunks else pa.nulls(0, self._type)
        num_rows = len(columns[0])
        ends = integers(range(0, len(values) + 1, num_rows) if num_rows else [0])
        rows = pc.list_parent_indices(pa.LargeListArray.from_arrays(ends, values))
        return _merged(_table(self._columns.take(rows), values, values))

    def _add_each(self, columns: Sequence[pa.ChunkedArray]) -> pa.Table:
        import pyarrow.compute as pc

        if pa.types.is_duration(self._type):  # of which Arrow cannot find them
            columns = [column.cast(pa.int64()) for column in columns]
        found = [pc.min_max(_without_nan(column)) for column in columns]
        lows, highs = (
            pa.concat_arrays([pa.repeat(one[name], 1) for one in found]).cast(self._type)
            for name in ("min", "max")
        )
        return _table(self._columns, lows, highs)

    def merged(self) -> pa.Table:
        """Return the numbers of columns, their minimum and their maximum."""
        if not self._tables:
            empty = pa.nulls(0, self._type)
            return _table(self._columns[:0], empty, empty)
        return (
            self._tables[0] if len(self._tables) == 1 else _merged(pa.concat_tables(self._tables))
        )


def _table(columns: pa.Array, lows: pa.Array, highs: pa.Array) -> pa.Table:
    return pa.Table.from_arrays([columns, lows, highs], list(_NAMES))


def _merged(bounds: pa.Table) -> pa.Table:
    """Merge the rows of each column; there is none for a column of nulls and NaN only."""
    lows = _firsts(bounds.column("column"), bounds.column("min"), "ascending")
    highs = _firsts(bounds.column("column"), bounds.column("max"), "descending")
    return _table(lows.column("column"), lows.column("value"), highs.column("value"))


def _firsts(columns: pa.ChunkedArray, values: pa.ChunkedArray, order: str) -> pa.Table:
    """Return the first value of each column, in the given order."""
    import pyarrow.compute as pc

    # Sorting takes only functions that are loaded already; Table.group_by loads pyarrow.dataset.
    table = pa.Table.from_arrays([columns, _without_nan(values)], ["column", "value"])
    table = table.filter(table.column("value").is_valid()).combine_chunks()
    keys = [("column", "ascending"), ("value", order)]
    table = table.take(pc.sort_indices(table, sort_keys=keys))
    numbers = table.column("column").combine_chunks()
    before = pa.concat_arrays([integers([-1]), numbers])[: len(numbers)]
    return table.filter(pc.not_equal(numbers, before))


def _without_nan(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace NaN by null."""
    if not pa.types.is_floating(values.type):
        return values
    import pyarrow.compute as pc

    return pc.if_else(pc.is_nan(values), pa.nulls(1, values.type)[0], values)


def _texts(values: pa.Array) -> list[str]:
    """Convert values, none of which is null, to text; binary ones to hexadecimal digits."""
    if pa.types.is_binary(values.type):
        return [value.hex() for value in values.to_pylist()]
    if pa.types.is_duration(values.type):
        return [text or "" for text in duration_texts(values)]
    try:
        found: list[str] = values.cast(pa.string()).to_pylist()
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(values.type):
            raise
        # The time zone is unknown here: print UTC.
        naive = values.view(pa.timestamp(values.type.unit))
        found = [f"{text}Z" for text in naive.cast(pa.string()).to_pylist()]
    return found
