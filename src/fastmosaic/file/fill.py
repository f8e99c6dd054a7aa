"""Decode columns of numbers straight into a matrix.

The kernel leaves what is unusual: damaged pages, large ones, numbers that do not fit. These columns are
decoded to Arrow arrays, and the caller puts them into the matrix, or raises an error about them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from ..errors import CorruptFileError, MosaicError, located
from ..format.bucket import Batch, Budget, Matrix, MatrixRows
from ..memory import Memory
from .fetch import BucketPart, BucketTask, RowSpan
from .scan import PORTION_BYTES, Scanner, decoder_of, for_each_task


@dataclass(slots=True)
class GroupRows:
    """Rows of a row group, and where they go in a matrix.

    start, count     the rows of the row group that are decoded
    row              where the first of them goes
    chosen, targets  those of them that are wanted, ascending, and where each goes, counted from `row`;
                     None for all. Both are arrays of 64-bit integers.
    gathered         start and stop of each range of rows that is decoded, if these are not one range;
                     then `start` is 0, and `chosen` counts the rows of all ranges
    """

    group: int
    start: int
    count: int
    row: int
    chosen: Any = None
    targets: Any = None
    gathered: memoryview[int] | None = None


# Writes an array into a column of the matrix; its first row is the given one of those that are decoded.
Put: TypeAlias = Callable[[int, pa.Array, GroupRows, int], None]


@dataclass(slots=True)
class FilledColumns:
    """Stored columns of files with the same schema, and where they go in a matrix.

    positions  of the columns in each file
    columns    of the matrix, as 32-bit integers
    sources    the type of the numbers of each column, a place in `_matrix.SOURCES`
    put        for columns that the kernel leaves
    parts      the columns by bucket, as found in the first of the files that share a schema
    """

    matrix: Matrix
    positions: array[int]
    columns: array[int]
    sources: bytes
    put: Put
    parts: list[BucketPart] | None = None


def fill_matrix(
    scanner: Scanner,
    request: FilledColumns,
    groups: Sequence[GroupRows],
    use_threads: bool,
    memory: Memory,
) -> None:
    """Decode rows of row groups into a matrix."""
    _Fill(scanner, request, groups, memory).run(use_threads)


class _Fill:
    def __init__(
        self,
        scanner: Scanner,
        request: FilledColumns,
        groups: Sequence[GroupRows],
        memory: Memory,
    ) -> None:
        self._name = scanner.name
        self._fetcher = scanner.fetcher
        self._request = request
        self._memory = memory
        self._schema = scanner.metadata.schema_block
        self._required = self._schema.required(request.positions)
        self._budget = Budget(0, 0)  # the memory of the result exists
        self._rows = {one.group: one for one in groups if one.count}
        self._spans = [
            RowSpan(
                one.group,
                scanner.metadata.rows_of(one.group),
                one.start,
                one.count,
                gathered=one.gathered,
            )
            for one in self._rows.values()
        ]
        self._sinks = {
            one.group: MatrixRows(
                request.matrix,
                request.columns,
                request.sources,
                self._required,
                one.row,
                one.count,
                one.chosen,
                one.targets,
            )
            for one in self._rows.values()
        }

    def run(self, use_threads: bool) -> None:
        with located(file=self._name):
            parts = self._request.parts
            if parts is None:
                parts = self._request.parts = self._fetcher.parts(self._request.positions)
            tasks = [task for span in self._spans for task in self._fetcher.tasks(span, parts)]
            for_each_task(self._fetcher, tasks, self._fill, use_threads)

    def _fill(self, task: BucketTask) -> None:
        sink = self._sinks[task.span.group]
        try:
            done = self._fetcher.decode(task, sink, self._memory, self._budget)
            if done < len(task.part):
                self._fill_rest(task.after(done))
        except MosaicError as error:
            error.locate(**task.place)
            raise
        task.release()

    def _fill_rest(self, task: BucketTask) -> None:
        """Decode columns to arrays, some rows at a time."""
        decoder = decoder_of(self._fetcher, task)
        span, places = task.span, task.part.places
        step = max(1, PORTION_BYTES * span.num_opened // max(1, decoder.bound()))
        schema = pa.schema(self._schema.fields(task.part.positions))
        required = bytes(self._required[place] for place in places)
        for first in range(0, span.count, step):
            count = min(step, span.count - first)
            batch = Batch(len(places))
            memory = self._memory.part()
            decoder.decode(count, batch, range(len(places)), memory)
            if found := batch.find_nulls(required):
                place, nulls = found
                raise CorruptFileError(
                    f"there are {nulls} nulls, but the column is declared not null",
                    column=schema.names[place],
                )
            rows = batch.finish(count, schema)
            for place, values in zip(places, rows.columns, strict=True):
                self._request.put(
                    self._request.columns[place], values, self._rows[span.group], first
                )
            del rows, batch
            memory.give_back()
