"""Rows by number: selections of rows, and batches that have rows but no columns."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from operator import lt
from random import Random
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as arrow_types

from ..format.bucket import Batch

__all__ = [
    "RowCounter",
    "Rows",
    "concatenated",
    "one_batch",
    "picked",
    "row_numbers",
    "rows_without_columns",
    "sampled",
    "table_without_columns",
    "take_rows",
]

_NO_COLUMNS: Final = pa.schema([])


class Rows:
    """A selection of rows: ascending, disjoint ranges of row numbers.

    Parameters
    ----------
    ranges : iterable of (start, stop)
        In any order; they may overlap. Empty ranges are dropped.
    """

    __slots__ = ("_before", "_starts", "_stops")

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in sorted(ranges):
            if start >= stop:
                continue
            if self._stops and start <= self._stops[-1]:
                self._stops[-1] = max(self._stops[-1], stop)
            else:
                self._starts.append(start)
                self._stops.append(stop)
        sizes = (stop - start for start, stop in self.ranges)
        self._before = list(accumulate(sizes, initial=0))  # rows selected before each range

    @classmethod
    def numbered(cls, numbers: Iterable[int]) -> Rows:
        """Return the selection of single rows."""
        return cls((number, number + 1) for number in numbers)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return list(zip(self._starts, self._stops, strict=True))

    @property
    def flat_ranges(self) -> memoryview[int]:
        """Start and stop of each range, one after another, as the kernels read them."""
        numbers = array("q", chain.from_iterable(zip(self._starts, self._stops, strict=True)))
        return memoryview(numbers)

    def __len__(self) -> int:
        """Return the number of selected rows."""
        return self._before[-1]

    def __reduce__(self) -> tuple[type[Rows], tuple[list[tuple[int, int]]]]:
        return Rows, (self.ranges,)

    def __repr__(self) -> str:
        return f"Rows({self.ranges})"

    def check(self, num_rows: int) -> None:
        """Raise IndexError if a selected row does not exist in a table of `num_rows` rows."""
        if self._starts and self._starts[0] < 0:
            raise IndexError(f"row {self._starts[0]} of {num_rows}")
        if self._stops and self._stops[-1] > num_rows:
            raise IndexError(f"row {max(num_rows, self._starts[-1])} of {num_rows}")

    def within(self, start: int, stop: int) -> Rows:
        """Return the selection among rows `start` to `stop`, which are counted from zero again."""
        first = bisect_right(self._stops, start)
        after = bisect_left(self._starts, stop)
        return Rows(
            (max(begin, start) - start, min(end, stop) - start)
            for begin, end in zip(self._starts[first:after], self._stops[first:after], strict=True)
        )

    def moved(self, by: int) -> Rows:
        """Return the selection of rows whose numbers are larger by `by`."""
        return Rows((start + by, stop + by) for start, stop in self.ranges)

    def numbered_between(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the ranges of the selected rows from place `start` to `stop` among these."""
        return [
            (begin + max(0, start - before), min(end, begin + stop - before))
            for (begin, end), before in zip(self.ranges, self._before, strict=False)
            if before < stop and before + end - begin > start
        ]

    def of_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the selected rows of a batch."""
        if len(self) == batch.num_rows:
            return batch
        if len(self._starts) == 1:
            return batch.slice(self._starts[0], len(self))
        if not batch.num_columns:
            return rows_without_columns(len(self))
        numbers = chain.from_iterable(range(start, stop) for start, stop in self.ranges)
        return batch.take(pa.array(numbers, pa.int64()))


class RowCounter:
    """The numbers of rows of some row groups, which are read one after another in batches."""

    def __init__(self, edges: Sequence[int], groups: Iterable[int], first: int = 0) -> None:
        self._spans = ((first + edges[group], first + edges[group + 1]) for group in groups)
        self._at = self._stop = 0

    def next(self, count: int) -> range:
        """Return the numbers of the rows of the next batch, which is in one row group."""
        while count and self._at == self._stop:
            self._at, self._stop = next(self._spans)
        self._at += count
        return range(self._at - count, self._at)


def rows_without_columns(num_rows: int) -> pa.RecordBatch:
    """Return a record batch with `num_rows` rows and no columns."""
    return Batch(0).finish(num_rows, _NO_COLUMNS)  # Arrow's own ways take a bit for each row


def table_without_columns(num_rows: int) -> pa.Table:
    """Return a table with `num_rows` rows and no columns."""
    return pa.Table.from_batches([rows_without_columns(num_rows)])


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of one table or more, with their number even if they have no columns."""
    if len(tables) == 1:
        return tables[0]
    if not tables[0].num_columns:
        return table_without_columns(sum(table.num_rows for table in tables))
    return pa.concat_tables(tables)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one record batch, with its rows even if it has no columns."""
    if not table.num_columns:
        return rows_without_columns(table.num_rows)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def row_numbers(indices: Any) -> pa.Int64Array:
    """Return row numbers, which a caller passed in any form, as an array without nulls."""
    array = indices if isinstance(indices, pa.Array | pa.ChunkedArray) else pa.array(indices)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not len(array):
        return pa.array([], pa.int64())
    if array.null_count:
        raise ValueError("row numbers must not be null")
    if not arrow_types.is_integer(array.type):
        raise TypeError(f"row numbers must be integers, not {array.type}")
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid:
        raise IndexError(f"row {max(array.to_pylist())} is out of range") from None


def picked(numbers: pa.Int64Array) -> tuple[Rows, pa.Array | None]:
    """Return the selection of rows, and where each of `numbers` is among the selected rows.

    The places are None if the numbers are ascending without duplicates.
    """
    listed = numbers.to_pylist()
    if all(map(lt, listed, listed[1:])):
        return Rows.numbered(listed), None
    import pyarrow.compute as pc  # on use, because it takes longer than reading a column

    distinct = pc.unique(numbers)
    distinct = distinct.take(pc.array_sort_indices(distinct))
    return Rows.numbered(distinct.to_pylist()), pc.index_in(numbers, distinct)


def sampled(num_rows: int, n: int, seed: int | None) -> pa.Int64Array:
    """Return `n` distinct numbers of `num_rows` rows, ascending; the same for the same seed."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"n must be a number of rows, not {n!r}")
    if not 0 <= n <= num_rows:
        raise ValueError(f"cannot sample {n} of {num_rows} rows")
    return pa.array(sorted(Random(seed).sample(range(num_rows), n)), pa.int64())


def take_rows(table: pa.Table, numbers: pa.Int64Array) -> pa.Table:
    """Return rows of a table by number, in the given order."""
    Rows.numbered(numbers.to_pylist()).check(table.num_rows)
    if not table.num_columns:
        return table_without_columns(len(numbers))
    return table.take(numbers)
