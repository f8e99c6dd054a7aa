"""Exit statuses of the command, and errors in one line."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from ..errors import printable
from ..storage.secrets import redacted, redacted_text

OK: Final = 0
NO: Final = 1  # the answer is no: files differ, or a file is damaged
ERROR: Final = 2  # the command failed
INTERRUPTED: Final = 128 + 2  # as shells report SIGINT
BROKEN_PIPE: Final = 128 + 13  # as shells report SIGPIPE

DEBUG: Final = "FASTMOSAIC_DEBUG"  # set it to see the traceback of an error


def reported(act: Callable[[Any], int], arguments: argparse.Namespace) -> int:
    """Call `act` and return its exit status.

    If it raises, print the error as one line on stderr and return the status of that error.
    """
    if sys.stdout is None:
        complain("standard output is closed")
        return ERROR
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names may contain characters that the encoding of the terminal lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = act(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader has stopped reading, as in `| head`
        _discard_output()
        return BROKEN_PIPE
    except Exception as error:
        if os.environ.get(DEBUG):
            sys.excepthook = _print_traceback
            raise
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        complain(message_of(error))
        return ERROR
    return status


def _discard_output() -> None:
    """Discard unwritten output: Python would try to write it once more at exit, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """Print one line on stderr, without the credentials of URIs."""
    if sys.stderr is not None:
        print(f"fastmosaic: {printable(redacted_text(text))}", file=sys.stderr)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning, in place of `warnings.showwarning`."""
    complain(f"warning: {message}")


def _print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print a traceback, in place of `sys.excepthook`."""
    for text in traceback.format_exception(kind, error, trace):
        for line in text.rstrip("\n").split("\n"):
            print(printable(line), file=sys.stderr)


def message_of(error: Exception) -> str:
    """Return the message of an error as one line."""
    if isinstance(error, OSError) and error.strerror:
        name = f"{redacted(str(error.filename))}: " if error.filename else ""
        return f"{name}{error.strerror}"
    text = redacted_text(" ".join(str(error).split()))
    kind = type(error)
    is_for_users = isinstance(error, OSError | ValueError | NotImplementedError)
    if not text or (kind.__module__ == "builtins" and not is_for_users):
        # A bug, or too little memory: the message alone would explain nothing.
        return f"{kind.__name__}: {text}" if text else kind.__name__
    return text
