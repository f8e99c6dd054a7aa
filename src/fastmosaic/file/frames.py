"""FrameCache: decompressed frames of open files, the ones used last."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from ..memory import MemoryLimit, checked_limit


class FrameCache:
    """Decompressed frames, by file, row group, bucket and column. It can be used from several threads.

    Parameters
    ----------
    limit : int or str
        Bytes to keep, or text such as "64m". Frames that were not used for longest are dropped.
    """

    def __init__(self, limit: int | str) -> None:
        self.limit = checked_limit(limit, "cache")
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._kept: dict[Hashable, tuple[Any, int]] = {}  # those used last at the end
        self._turn = threading.Lock()

    @classmethod
    def of(cls, limit: MemoryLimit) -> FrameCache | None:
        """Return a cache, or None without a limit."""
        return None if limit is None else cls(limit)

    def __reduce__(self) -> tuple[type[FrameCache], tuple[int]]:
        return FrameCache, (self.limit,)  # another process has its own

    def find(self, keys: list[Hashable]) -> list[Any] | None:
        """Return what is kept for each of the keys, or None if some are missing."""
        with self._turn:
            found = [self._kept.pop(key, None) for key in keys]
            for key, one in zip(keys, found, strict=True):
                if one is not None:
                    self._kept[key] = one
            if any(one is None for one in found):
                self.misses += 1
                return None
            self.hits += 1
            return [one[0] for one in found if one is not None]

    def keep(self, key: Hashable, frame: Any, size: int) -> None:
        """Keep a frame of `size` bytes, unless it is larger than the whole cache."""
        if size > self.limit:
            return
        with self._turn:
            _, before = self._kept.pop(key, (None, 0))
            self._kept[key] = frame, size
            self.size += size - before
            while self.size > self.limit:
                oldest = next(iter(self._kept))
                self.size -= self._kept.pop(oldest)[1]
