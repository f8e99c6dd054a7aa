"""Rows of the next row group: batches as they came, or rows collected from them."""

from __future__ import annotations

from typing import Final

from .encode import CollectedRows, FlatBatch, RowGroupEncoder
from .row_group import FinishedRowGroup

# An array costs hundreds of bytes, so batches with fewer rows cost much more than their values.
_MIN_KEPT_ROWS: Final = 1024
# Arrow takes as much memory for a null as for a value.
_MAX_KEPT_EXPANSION: Final = 1.25
# The last batch is kept for a while even so, because there may be no other one. But not if the rows
# take more memory than their size by this share of a row group.
_MAX_WASTE: Final = 1 / 4


class PendingRows:
    """The rows that wait until their row group is full.

    Large batches are kept as they are, without copying them. The rows of small and sparse ones, and
    of parts of larger ones, are collected, which takes no more memory than their values in a file.

    Parameters
    ----------
    encoder : RowGroupEncoder
    row_group_bytes : int
        The size of a row group.
    """

    def __init__(self, encoder: RowGroupEncoder, row_group_bytes: int) -> None:
        self._encoder = encoder
        self._max_waste = int(row_group_bytes * _MAX_WASTE)
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self._batches: list[FlatBatch] = []
        self._is_temporary = False  # whether the last batch is to be collected with the next one
        self._is_part = False  # whether the last batch keeps a larger one alive
        self._collected: CollectedRows | None = None
        self.num_rows = 0
        self.num_bytes = 0  # of the values before encoding

    @property
    def is_collected(self) -> bool:
        """Whether rows were collected, so that those of the next batch will be."""
        return self._collected is not None or self._is_temporary

    @property
    def memory(self) -> int:
        """The memory that the rows occupy."""
        collected = 0 if self._collected is None else self._collected.columns.memory
        return collected + sum(batch.arrow_bytes for batch in self._batches)

    def add(self, batch: FlatBatch, is_part: bool) -> None:
        """Add a batch; `is_part` tells whether it keeps a larger one alive."""
        if self._is_temporary:
            self._collect()
        self.num_rows += batch.num_rows
        self.num_bytes += batch.num_bytes
        self._batches.append(batch)
        self._is_part = is_part
        self._is_temporary = (
            is_part
            or self._collected is not None
            or batch.num_rows < _MIN_KEPT_ROWS
            or batch.arrow_bytes > batch.num_bytes * _MAX_KEPT_EXPANSION
        )

    def settle(self) -> None:
        """Release the last batch, unless it may be the only one and takes little memory."""
        is_first = self._collected is None and not self._is_part
        is_wasteful = self.memory - self.num_bytes > self._max_waste
        if self._is_temporary and (is_wasteful or not is_first):
            self._collect()

    def _collect(self) -> None:
        for batch in self._batches:
            self._collected = self._encoder.collect(batch, self._collected)
        self._batches = []
        self._is_temporary = False

    def finished(self) -> FinishedRowGroup:
        """Return the row group of all rows."""
        if self._collected is None:
            return self._encoder.encode(self._batches)
        self._collect()
        return self._encoder.encode_collected(self._collected, self.num_bytes)
