"""Rows by number: selections of rows, and batches that have rows but no columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Final

import pyarrow as pa

from ..format.bucket import Batch

__all__ = [
    "Rows",
    "concatenated",
    "one_batch",
    "rows_without_columns",
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

    def place(self, number: int) -> int:
        """Return the place of row `number`, which is selected, among the selected rows."""
        index = bisect_right(self._starts, number) - 1
        return self._before[index] + number - self._starts[index]

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


def take_rows(table: pa.Table, numbers: Sequence[int]) -> pa.Table:
    """Return rows of a table by number, in the given order."""
    Rows.numbered(numbers).check(table.num_rows)
    if not table.num_columns:
        return table_without_columns(len(numbers))
    return table.take(pa.array(numbers, pa.int64()))
