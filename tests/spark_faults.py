"""Faults that tests inject into Spark tasks. Workers import this module, too.

wait_for    waits for a condition, as long as a busy machine may need
Obstacle    something that the tasks of a job meet at one point, which the test controls
Obstructed  the local files, with an obstacle before one of them
Faulty      the local files, of which some cannot be read, or kill the process that reads them
Counted     the local files; how many bytes tasks read of each is noted
"""

from __future__ import annotations

import errno
import os
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fsspec.implementations.local import LocalFileSystem

LIMIT = 900.0  # seconds: only a test that hangs gets there

LOOKING = "fastmosaic inspect"  # the job before that of `convert`

Value = TypeVar("Value")


def wait_for(what: str, condition: Callable[[], Value | None]) -> Value:
    """What `condition` returns, as soon as that is true."""
    end = time.monotonic() + LIMIT
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {LIMIT:.0f} s for {what}")
        time.sleep(0.02)
    return value


@dataclass(frozen=True)
class Obstacle:
    """What attempts at a task meet: each leaves a file in a directory, and goes by the kind.

    all     wait until the test opens it
    first   only the first attempt waits; others pass once it is there
    fails   the first two attempts fail
    """

    directory: str
    kind: str

    def meet(self) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None or context.getLocalProperty("spark.job.description") == LOOKING:
            return
        attempt = context.attemptNumber()
        Path(self.directory, f"{attempt}-{os.getpid()}").touch()
        if self.kind == "fails":
            if attempt < 2:
                raise OSError(errno.EIO, f"attempt {attempt} fails")
        elif self.kind == "all" or attempt == 0:
            wait_for("the test", Path(self.directory, "open").exists)
        else:
            wait_for("the first attempt", lambda: self.arrivals()[0][0] == 0)

    def open(self) -> None:
        Path(self.directory, "open").touch()

    def arrivals(self) -> list[tuple[int, int]]:
        """The number of the attempt and the process, for each that came so far."""
        names = [name.split("-") for name in os.listdir(self.directory) if name != "open"]
        return sorted((int(attempt), int(pid)) for attempt, pid in names)


class Obstructed(LocalFileSystem):
    """The local files, for tasks with an obstacle before those of one name."""

    protocol = "obstructed"

    def __init__(self, name: str, directory: str, kind: str, **options: Any) -> None:
        super().__init__(**options)
        self._name = name
        self._obstacle = Obstacle(directory, kind)

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if os.path.basename(path) == self._name:
            self._obstacle.meet()
        return super()._open(path, mode, **options)


class Faulty(LocalFileSystem):
    """The local files, of which tasks cannot read some at first.

    `faults` is the number of failures by the name of a file; a negative one kills the process
    instead. Each failure leaves a file in the directory `notes`.
    """

    protocol = "faulty"
    cachable = False

    def __init__(self, faults: dict[str, int], notes: str, **options: Any) -> None:
        super().__init__(**options)
        self.faults = faults
        self.notes = notes

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        from pyspark import TaskContext

        name = os.path.basename(path)
        context = TaskContext.get()
        if context is not None and context.getLocalProperty("spark.job.description") != LOOKING:
            failures = len(list(Path(self.notes).glob(f"{name}-*")))
            if failures < abs(self.faults.get(name, 0)):
                Path(self.notes, f"{name}-{uuid.uuid4().hex}").touch()
                if self.faults[name] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.EIO, "the disk is on fire", path)
        return super()._open(path, mode, **options)


class Counted(LocalFileSystem):
    """The local files; the numbers of bytes that tasks read of each are in the directory `notes`."""

    protocol = "counted"
    cachable = False

    def __init__(self, notes: str, **options: Any) -> None:
        super().__init__(**options)
        self.notes = notes

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        from pyspark import TaskContext

        file = super()._open(path, mode, **options)
        if mode != "rb" or TaskContext.get() is None:
            return file
        read, note = file.read, Path(self.notes, f"{os.path.basename(path)}-{uuid.uuid4().hex}")

        def counted(*arguments: Any) -> Any:
            data = read(*arguments)
            with open(note, "a") as out:
                out.write(f"{len(data)}\n")
            return data

        file.read = counted
        return file

    def bytes_of(self, name: str) -> int:
        """How many bytes tasks have read of the files of a name."""
        notes = Path(self.notes).glob(f"{name}-*")
        return sum(int(line) for note in notes for line in note.read_text().split())
