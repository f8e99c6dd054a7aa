"""What may fail on the way to a server, tried again."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Final, TypeVar

from .location import os_error

Result = TypeVar("Result")

# Seconds before what failed elsewhere is tried again: a server was busy, a connection was lost.
RETRY_PAUSES: Final = (0.1, 0.4)
# A failure that took so many seconds was tried again by the filesystem itself, as S3 ones do.
RETRY_WITHIN: Final = 5.0


def insist(name: str, attempt: Callable[[], Result]) -> Result:
    """What `attempt` returns, tried again where that may help; a failure that stays is an OSError.

    Libraries have exceptions of their own for what goes wrong on the way.
    """
    start = time.monotonic()
    pauses = iter(RETRY_PAUSES)
    while True:
        try:
            return attempt()
        except (FileNotFoundError, PermissionError) as error:
            if error.filename is not None:
                raise
            missing = isinstance(error, FileNotFoundError)
            raise os_error(errno.ENOENT if missing else errno.EACCES, name) from error
        except (IsADirectoryError, ValueError, TypeError, NotImplementedError, MemoryError):
            raise
        except Exception as error:
            pause = next(pauses, None)
            if pause is None or time.monotonic() - start > RETRY_WITHIN:
                failure = OSError(f"{name}: {str(error) or repr(error)}")
                failure.errno = getattr(error, "errno", None)
                raise failure from error
        time.sleep(pause)
