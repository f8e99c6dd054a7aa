"""What commands of a shell have in common: exit statuses, errors in one line, how sizes are typed."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable
from typing import Any, Final

OK: Final = 0
NO: Final = 1  # the answer is no: files differ, one is damaged
ERROR: Final = 2  # what was asked for could not be done
INTERRUPTED: Final = 128 + 2  # as a shell says of SIGINT
BROKEN_PIPE: Final = 128 + 13  # and of SIGPIPE

DEBUG: Final = "FASTMOSAIC_DEBUG"  # if set, an error comes with its traceback

_SIZES: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def reported(act: Callable[[Any], int], arguments: argparse.Namespace) -> int:
    """What `act` returns; if it raises, one line on stderr and the status for it."""
    if sys.stdout is None:
        complain("standard output is closed")
        return ERROR
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that the terminal has no letters for is no reason to say nothing.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = act(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # whoever read it has enough, as in `| head`
        _abandon_output()
        return BROKEN_PIPE
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        try:
            sys.stdout.flush()
        except OSError:
            _abandon_output()
        complain(message_of(error))
        return ERROR
    return status


def _abandon_output() -> None:
    """Let what was not yet written go nowhere; the end of Python would try, and fail, again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(text: str) -> None:
    """One line on stderr."""
    if sys.stderr is not None:
        print(f"fastmosaic: {printable(text)}", file=sys.stderr)


def message_of(error: Exception) -> str:
    """What an error says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = " ".join(str(error).split())
    kind = type(error)
    is_told = isinstance(error, OSError | ValueError | NotImplementedError)
    if not text or (kind.__module__ == "builtins" and not is_told):
        # Nobody wrote this message for users: it is a mistake of the program, or no memory.
        return f"{kind.__name__}: {text}" if text else kind.__name__
    return text


def printable(text: str) -> str:
    """Text of a file for a terminal: control characters would take it over, and break lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def size(text: str) -> int:
    """An argument in bytes, or with a letter for kilo, mega or giga: 64m."""
    low = text.lower().removesuffix("b")
    factor = _SIZES.get(low[-1:], 1)
    try:
        value = int(low[:-1] if factor > 1 else low) * factor
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 1000000 or 64m")
    return value
