"""Work on all cores: codec and kernels run without the GIL."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Item = TypeVar("Item")
Result = TypeVar("Result")

_pool: ThreadPoolExecutor | None = None


def num_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _forget_pool() -> None:
    global _pool
    _pool = None


# A child process inherits the pool, but not its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def map_in_order(
    work: Callable[[Item], Result], items: Iterable[Item], use_threads: bool = True
) -> Iterator[Result]:
    """The results of `work` on each item, in order; only a few are under way at once.

    When a piece of work fails, those that have not begun are cancelled, and those that have are
    waited for: nothing runs on after the error.
    """
    global _pool
    if not use_threads or num_threads() == 1:
        yield from map(work, items)
        return
    if _pool is None:
        from concurrent.futures import ThreadPoolExecutor

        _pool = ThreadPoolExecutor(num_threads(), thread_name_prefix="fastmosaic")
    ahead = 2 * num_threads()
    running: deque[Future[Result]] = deque()
    try:
        for item in items:
            running.append(_pool.submit(work, item))
            if len(running) > ahead:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            if not future.cancel():
                future.exception()
