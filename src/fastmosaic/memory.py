"""Memory for results: how much a caller allows, and zeros that columns share."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Final, TypeAlias

import pyarrow as pa

from .errors import MemoryLimitError

VARIABLE: Final = "FASTMOSAIC_MEMORY_LIMIT"

MemoryLimit: TypeAlias = int | str | None

# Results up to this size are always allowed by default, so that small reads need not find out how
# much memory there is.
_SMALL: Final = 64 << 20
# Zeros of up to this size come from Arrow's pool, larger ones from the system, which provides
# pages of zeros only when they are touched.
_POOLED_ZEROS: Final = 1 << 20
_MIN_ZEROS: Final = 4096

# One for all: it is held for less time than making one takes.
_turn: Final = threading.Lock()

_FACTORS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class Memory:
    """The memory that the result of one call may take. It can be used from several threads.

    Parameters
    ----------
    limit : int or str, optional
        Bytes, or text such as "8g". The default is the environment variable
        FASTMOSAIC_MEMORY_LIMIT, or else half of the memory of the machine or container.
    expected : callable, optional
        Returns the size that the whole result will have, roughly, for the message of an error.
    whole : Memory, optional
        The memory that this is a part of; see `part`.
    """

    def __init__(
        self,
        limit: MemoryLimit = None,
        *,
        expected: Callable[[], int] = lambda: 0,
        whole: Memory | None = None,
    ) -> None:
        self._limit: int | None = None
        if limit is not None:
            self._limit = checked_limit(limit)
        elif whole is None and VARIABLE in os.environ:
            self._limit = default_limit()
        self._expected = expected
        self._whole = whole
        self._zeros: pa.Buffer | None = None
        self.taken = 0

    def part(self) -> Memory:
        """Return the memory of a part of the result, which can be given back."""
        return Memory(whole=self)

    @property
    def limit(self) -> int:
        """The number of bytes that the result may have."""
        if self._whole is not None:
            return self._whole.limit
        if self._limit is None:
            self._limit = default_limit()
        return self._limit

    def take(self, size: int) -> None:
        """Note that the result takes `size` bytes more; raise MemoryLimitError if that is too much."""
        with _turn:
            self.taken += size
        if self._whole is not None:
            self._whole.take(size)
        elif (self._limit is not None or self.taken > _SMALL) and self.taken > self.limit:
            raise MemoryLimitError.for_result(max(self.taken, self._expected()), self.limit)

    def check(self, size: int) -> None:
        """Raise MemoryLimitError if there is no room for `size` bytes more."""
        if self.taken + size > self.limit:
            raise MemoryLimitError.for_result(self.taken + size, self.limit)

    def give_back(self) -> None:
        """Note that this part is not in the result after all."""
        assert self._whole is not None
        with _turn:
            self._whole.taken -= self.taken
        self.taken = 0

    def zeros(self, size: int) -> pa.Buffer:
        """Return a buffer of at least `size` zeros, which all columns of the result share."""
        if self._whole is not None:
            return self._whole.zeros(size)
        if self._zeros is None or self._zeros.size < size:
            self.take(size)
            self._zeros = _make_zeros(max(size, _MIN_ZEROS))
        return self._zeros


def _make_zeros(size: int) -> pa.Buffer:
    if size <= _POOLED_ZEROS:
        return pa.py_buffer(bytes(size))
    import mmap

    return pa.py_buffer(mmap.mmap(-1, size))


def checked_limit(limit: int | str, name: str = "memory_limit") -> int:
    """Return a limit as a number of bytes; `name` is that of the parameter."""
    size = parse_size(limit) if isinstance(limit, str) else limit
    if isinstance(size, bool) or not isinstance(size, int):
        raise TypeError(f"{name} must be a number of bytes or a size such as '8g', not {limit!r}")
    if size < 0:
        raise ValueError(f"{name} must be at least 0, not {size}")
    return size


@contextmanager
def default_limited(limit: int | None) -> Iterator[None]:
    """Make `limit` the default in this process and those that it starts, unless it is None."""
    before = os.environ.get(VARIABLE)
    if limit is not None:
        os.environ[VARIABLE] = str(limit)
    try:
        yield
    finally:
        if before is not None:
            os.environ[VARIABLE] = before
        elif limit is not None:
            del os.environ[VARIABLE]


def default_limit() -> int:
    """Return the limit if the caller did not set one."""
    text = os.environ.get(VARIABLE)
    if not text:
        return _machine_memory() // 2
    try:
        return checked_limit(text)
    except ValueError as error:
        raise ValueError(f"environment variable {VARIABLE}: {error}") from None


@cache
def _machine_memory() -> int:
    """Return the memory that this process can use: of the machine, its container, or its limit."""
    sizes = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError), open(path) as file:  # "max": there is no limit
            sizes.append(int(file.read()))
    with suppress(ImportError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            sizes.append(limit)
    return min(sizes)


def parse_size(text: str) -> int:
    """Return a number of bytes: a number, or one with a unit such as 64k, 64m or 1g.

    >>> parse_size("64m")
    67108864
    """
    low = text.strip().lower().removesuffix("b")
    factor = _FACTORS.get(low[-1:], 1)
    try:
        return int(low[:-1] if factor > 1 else low) * factor
    except ValueError:
        raise ValueError(f"invalid size {text!r}: expected e.g. 1000000 or 64m") from None
