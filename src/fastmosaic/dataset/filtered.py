"""Read only the rows that may match a filter: its columns first, the others where rows match.

pyarrow.compute takes long to import, so it is imported on use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from ..format.plain_arrays import narrowed
from ..query.filters import mask_of
from ..query.query import Query
from ..query.rows import Rows, rows_without_columns
from ..schemas.fit import Fits
from .plan import FilePlan, Window

# The columns of the filter are read first if the others have at least so many times their bytes:
# where rows match, they are read again.
MIN_RATIO: Final = 4
# If at least this share of the rows match, copying them costs more than it saves.
MOST: Final = 0.9


class FilteredReader:
    """Reads the columns of a query, and drops rows that do not match its filter.

    For whoever filters the rows again: rows may be kept that do not match. An expression that fails
    on a batch, because of an overflow for example, drops nothing.
    """

    def __init__(self, query: Query, partitions: pa.Schema, use_threads: bool = False) -> None:
        self.fits = Fits(query.schema, partitions)
        self._query = query
        self._threads = use_threads
        own = pa.schema(query.needed)
        self._own = Fits(own, partitions)
        self._has_others = len(own) < len(query.schema)
        self._last: tuple[pa.RecordBatch, pa.RecordBatch] | None = None

    def read(self, window: Window) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a window that may match, with the columns wanted."""
        if self._has_others:
            own = window.file.read_bytes(self._own, window.groups)
            if window.size >= (1 + MIN_RATIO) * own:
                window = self._narrowed(window)
        if window.groups:
            for batch in window.file.batches(
                self.fits, window.groups, self._threads, rows=window.rows
            ):
                kept = self._finished(batch)
                if kept.num_rows:
                    yield kept

    def _finished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow.compute as pc

        if self._last is None or self._last[0] is not batch:  # equal rows may come many times
            found = self._matches(batch)
            if found is None:
                kept = batch
            else:
                share = (pc.sum(found).as_py() or 0) / max(1, batch.num_rows)
                kept = batch if share >= MOST else batch.filter(found)
            if not len(self._query.wanted):
                kept = rows_without_columns(kept.num_rows)
            elif self._query.narrow is not None:
                kept = narrowed(kept, self._query.narrow)
            self._last = batch, kept
        return self._last[1]

    def _matches(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return which rows match; None if that cannot be told."""
        own = batch.select([field.name for field in self._query.needed])
        try:
            return mask_of(own, self._query.expression)
        except pa.ArrowException:
            return None

    def _narrowed(self, window: Window) -> Window:
        """Return the row groups of a window that contain matches, from the first to the last match."""
        planned = FilePlan(window.file, window.groups, window.rows)
        edges = window.file.metadata.row_edges
        groups: list[int] = []
        ranges: list[tuple[int, int]] = []
        counts = ((group, planned.rows_of(group)) for group in window.groups)
        group = count = place = 0
        for batch in window.file.batches(self._own, window.groups, self._threads, rows=window.rows):
            while place == count and batch.num_rows:
                (group, count), place = next(counts), 0
            found = self._between(batch)
            if found is not None:
                if not groups or groups[-1] != group:
                    groups.append(group)
                ranges += self._numbers(window, edges[group], edges[group + 1], place, *found)
            place += batch.num_rows
        return Window(window.file, groups, Rows(ranges), window.size)

    def _between(self, batch: pa.RecordBatch) -> tuple[int, int] | None:
        """Return where the first match of a batch is, and where the last one ends; None without one."""
        import pyarrow.compute as pc

        found = self._matches(batch)
        if found is None:
            return 0, batch.num_rows
        numbers = pc.indices_nonzero(found)
        return (numbers[0].as_py(), numbers[-1].as_py() + 1) if len(numbers) else None

    def _numbers(
        self, window: Window, start: int, stop: int, place: int, first: int, end: int
    ) -> list[tuple[int, int]]:
        """Return the rows of the file from `first` to `end` after `place` selected rows of a row group."""
        if window.rows is None:
            return [(start + place + first, start + place + end)]
        selected = window.rows.within(start, stop)
        chosen = selected.numbered_between(place + first, place + end)
        return [(start + begin, start + after) for begin, after in chosen]
