"""Pipes, read so that Ctrl-C is not kept waiting."""

from __future__ import annotations

import io
import os
import select
import signal
import stat
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

STANDARD: Final = "-"  # input or output, as other commands call it

_BUFFER_BYTES: Final = 1 << 20
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def is_pipe(path: str) -> bool:
    """Whether it can be read but once: standard input, a pipe, a device."""
    if path == STANDARD:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


class Pipe(io.RawIOBase):
    """A pipe that ends when the process is told to, or when nobody wants more of it.

    Arrow reads it in a thread of its own and the main thread waits for that, so that Python would
    not come to act on a signal. But it writes the number of each to a file that can be waited for.
    """

    def __init__(self, path: str) -> None:
        # Arrow's own handling of Ctrl-C waits until what it reads next has come.
        pa.enable_signal_handlers(False)
        self._handle = os.dup(0) if path == STANDARD else os.open(path, os.O_RDONLY)
        self._is_ended = False
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def to_arrow(self) -> Any:
        """It as a file of Arrow's, whose blocks are filled."""
        return pa.PythonFile(io.BufferedReader(self, _BUFFER_BYTES), mode="r")

    def end(self) -> None:
        """Let there be no more bytes, for one who waits for them, too."""
        self._is_ended = True
        with suppress(BlockingIOError):
            os.write(self._wake, b"\0")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._is_ended:
            ready, _, _ = select.select([self._handle, self._woken], [], [])
            if self._woken in ready:
                self._is_ended |= not _ENDING.isdisjoint(os.read(self._woken, 64))
            elif self._handle in ready:
                return os.readv(self._handle, [buffer])
        return 0

    def close(self) -> None:
        if not self.closed:
            signal.set_wakeup_fd(self._before)
            for handle in (self._handle, self._woken, self._wake):
                os.close(handle)
        super().close()
