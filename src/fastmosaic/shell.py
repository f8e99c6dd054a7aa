"""What commands of a shell have in common: exit statuses, errors in one line, how sizes are typed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any, Final

OK: Final = 0
NO: Final = 1  # the answer is no: files differ, one is damaged
ERROR: Final = 2  # what was asked for could not be done
INTERRUPTED: Final = 128 + 2  # as a shell says of SIGINT
BROKEN_PIPE: Final = 128 + 13  # and of SIGPIPE

_SIZES: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def reported(act: Callable[[Any], int], arguments: argparse.Namespace) -> int:
    """What `act` returns; if it raises, one line on stderr and the status for it."""
    try:
        status = act(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read it has enough, as in `| head`. The end of Python would flush, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - whatever it is, a shell gets one line
        complain(message_of(error))
        return ERROR
    return status


def complain(text: str) -> None:
    """One line on stderr."""
    print(f"fastmosaic: {text}", file=sys.stderr)


def message_of(error: Exception) -> str:
    """What an error says, in one line."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def names(text: str) -> list[str]:
    """An argument that is several names, with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


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
