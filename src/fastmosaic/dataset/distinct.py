"""Estimates how many distinct values a column has, with a small sketch that can be merged.

A sketch contains the smallest hashes of the values. While there are fewer hashes than it can
hold, their number is exact. After that, the largest of them tells how densely hashes are spread,
and the number of distinct values follows from that. The relative error is about one divided by the
square root of the size: 1/16 for 256 hashes.

Hashes are the same in every process, so sketches of different processes can be merged.
"""

from __future__ import annotations

import pyarrow as pa

from ..format.hashes import SmallestHashes, can_hash

__all__ = ["DistinctSketch", "can_hash"]


class DistinctSketch:
    """Estimates the number of distinct values among those that are added.

    Parameters
    ----------
    size : int
        The number of hashes to keep. Up to `size - 1` distinct values are counted exactly.

    >>> sketch = DistinctSketch(256)
    >>> sketch.add(pa.chunked_array([["a", "b"], [None, "a"]]))
    >>> sketch.estimate()
    2
    """

    __slots__ = ("_hashes",)

    def __init__(self, size: int) -> None:
        self._hashes = SmallestHashes(size)

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Add values; nulls do not count."""
        self._hashes.add(values)

    def merge(self, hashes: pa.Array) -> None:
        """Add the `hashes` of another sketch."""
        self._hashes.merge(hashes)

    def hashes(self) -> pa.Array:
        """Return the contents of the sketch, for `merge`: a uint64 array."""
        return self._hashes.hashes()

    def estimate(self) -> int:
        """Return the number of distinct values."""
        hashes, size = self._hashes.hashes(), self._hashes.size
        if len(hashes) < size:
            return len(hashes)
        return round((size - 1) * 2**64 / (hashes[-1].as_py() + 1))
