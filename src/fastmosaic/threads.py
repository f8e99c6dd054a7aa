"""Work on all cores: codec and kernels run without the GIL."""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# Requests to a server that are under way at once: they take no core, but wait.
REMOTE_THREADS: Final = 16

Item = TypeVar("Item")
Result = TypeVar("Result")


def num_threads() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def pool(purpose: str, threads: int) -> ThreadPoolExecutor:
    """The threads for a purpose. Work may wait for work of another purpose, not of its own."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(threads, thread_name_prefix=f"fastmosaic-{purpose}")


# A child process inherits the pools, but not their threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.cache_clear)


def map_in_order(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    use_threads: bool = True,
    *,
    purpose: str = "decode",
    threads: int | None = None,
) -> Generator[Result, None, None]:
    """The results of `work` on each item, in order; only a few are under way at once.

    `threads` are as many as there are cores, unless the work is to wait for a network. When a
    piece of work fails, those that have not begun are cancelled, and those that have are waited
    for: nothing runs on after the error.
    """
    count = 1
    if use_threads:
        count = num_threads() if threads is None else threads
    if count == 1:
        yield from map(work, items)
        return
    workers = pool(purpose, count)
    running: deque[Future[Result]] = deque()
    try:
        for item in items:
            running.append(workers.submit(work, item))
            if len(running) > 2 * count:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            if not future.cancel():
                future.exception()
