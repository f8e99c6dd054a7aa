"""Progress of long operations: a bar on a terminal, or calls of a function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The progress of an operation: how many of the files are done, and rows of them."""

    operation: str
    num_files: int
    total_files: int
    num_rows: int


Progress: TypeAlias = bool | Callable[[TableProgress], object]


@contextmanager
def reporting(
    operation: str, total_files: int, progress: Progress
) -> Iterator[Callable[[int], None]]:
    """Yield a function that is called with the number of rows of each file that is done.

    If `progress` is True, a bar is shown on stderr, if that is a terminal.
    """
    if callable(progress):
        call = progress
    elif progress and sys.stderr is not None and sys.stderr.isatty():
        with _bar(operation, total_files) as advance:
            yield lambda rows: advance()
        return
    else:

        def call(done: TableProgress) -> None:
            pass

    num_files = num_rows = 0

    def done(rows: int) -> None:
        nonlocal num_files, num_rows
        num_files, num_rows = num_files + 1, num_rows + rows
        call(TableProgress(operation, num_files, total_files, num_rows))

    yield done


@contextmanager
def _bar(operation: str, total_files: int) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress as RichProgress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("files"),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(operation, total=total_files)
        yield lambda: bar.advance(task)
