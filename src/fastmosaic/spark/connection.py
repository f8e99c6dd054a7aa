"""The connection of a Python worker to Spark's JVM, without the pauses that TCP makes.

The JVM describes a task in one message and sends its rows in the next. It keeps the second one back until
the first is acknowledged (Nagle's algorithm), and Linux acknowledges it 40 ms later if the worker has
nothing to say meanwhile: for small scans, more than all the rest of a task.
"""

from __future__ import annotations

import socket
import sys
from types import FrameType
from typing import Any, Final

__all__ = ["PromptTask", "worker_connection"]

QUICKACK: Final = getattr(socket, "TCP_QUICKACK", None)  # only Linux has it


class PromptTask:
    """A base of the functions that tasks run: unpickled in a worker, they let the JVM send at once."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        connection = worker_connection()
        if connection is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if QUICKACK is not None:  # until the worker sends something
                connection.setsockopt(socket.IPPROTO_TCP, QUICKACK, 1)


def worker_connection() -> socket.socket | None:
    """Return the TCP connection of this worker, None in any other process.

    PySpark does not offer it to tasks: it is a variable of the function that runs them in all versions
    from 3.5 to 4.3.
    """
    frame: FrameType | None = sys._getframe() if "pyspark.worker" in sys.modules else None
    while frame is not None:
        if frame.f_code.co_name == "worker":
            found = frame.f_locals.get("sock")
            if isinstance(found, socket.socket) and found.family != getattr(
                socket, "AF_UNIX", None
            ):
                return found
        frame = frame.f_back
    return None
