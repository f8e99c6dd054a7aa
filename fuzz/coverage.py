"""Which edges of the kernels were taken: the Python side of coverage.c."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any


class Coverage:
    """The counters of the sanitized kernels; without such kernels there is nothing to see."""

    def __init__(self) -> None:
        library: Any = ctypes.CDLL(None)
        self._library = library if hasattr(library, "fuzz_collect") else None
        if self._library is None:
            return
        library.fuzz_path.restype = ctypes.c_char_p
        library.fuzz_edges.restype = ctypes.c_size_t
        library.fuzz_seen.restype = ctypes.POINTER(ctypes.c_uint8)
        library.fuzz_place.restype = ctypes.c_size_t
        library.fuzz_place.argtypes = [ctypes.c_int, ctypes.c_size_t]

    @property
    def is_on(self) -> bool:
        return self._library is not None

    def reset(self) -> None:
        """Forget the current execution."""
        if self._library is not None:
            self._library.fuzz_reset()

    def collect(self) -> int:
        """Return how many edges were taken for the first time, or more often than ever."""
        return self._library.fuzz_collect() if self._library is not None else 0

    def collect_edges(self) -> int:
        """Return how many edges were taken for the first time."""
        return self._library.fuzz_collect_edges() if self._library is not None else 0

    def seen(self) -> dict[str, bytes]:
        """Return for each kernel a byte for each edge, 0 if it was never taken."""
        if self._library is None:
            return {}
        return {
            name: ctypes.string_at(self._library.fuzz_seen(i), self._library.fuzz_edges(i))
            for i, name in enumerate(self._names())
        }

    def merge(self, seen: dict[str, bytes]) -> None:
        """Add what another process has seen."""
        for i, name in enumerate(self._names()):
            mine, other = self._library.fuzz_seen(i), seen.get(name, b"")
            for edge, bits in enumerate(other[: self._library.fuzz_edges(i)]):
                if bits:
                    mine[edge] |= bits

    def places(self) -> dict[str, list[int]]:
        """Return for each kernel the address of each edge."""
        return {
            name: [self._library.fuzz_place(i, edge) for edge in range(self._library.fuzz_edges(i))]
            for i, name in enumerate(self._names())
        }

    def _names(self) -> list[str]:
        if self._library is None:
            return []
        paths = [
            self._library.fuzz_path(i).decode() for i in range(self._library.fuzz_num_kernels())
        ]
        return [Path(path).name.partition(".")[0] for path in paths]
