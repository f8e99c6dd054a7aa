"""Retries for transient failures of remote storage."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Final, TypeVar

from .location import os_error
from .secrets import redacted_text, without_secrets

Result = TypeVar("Result")

# Seconds to wait before each retry: a server was busy, or a connection was lost.
RETRY_PAUSES: Final = (0.1, 0.4)
# If a failure took longer, the filesystem itself has retried, as those for S3 do.
RETRY_WITHIN: Final = 5.0


def insist(name: str, attempt: Callable[[], Result]) -> Result:
    """Call `attempt`, retrying transient failures, and return its result.

    A failure that persists raises OSError with `name` in its message, whatever exception the
    library of the filesystem raises. Credentials in its messages are hidden.
    """
    start = time.monotonic()
    pauses = iter(RETRY_PAUSES)
    while True:
        try:
            return attempt()
        except (FileNotFoundError, PermissionError) as error:
            cleaned = without_secrets(error)
            if error.filename is not None:
                raise
            missing = isinstance(error, FileNotFoundError)
            raise os_error(errno.ENOENT if missing else errno.EACCES, name) from cleaned
        except (
            IsADirectoryError,
            ValueError,
            TypeError,
            NotImplementedError,
            MemoryError,
        ) as error:
            if (cleaned := without_secrets(error)) is error:
                raise
            raise cleaned from None
        except Exception as error:  # noqa: BLE001 - libraries raise their own
            pause = next(pauses, None)
            if pause is None or time.monotonic() - start > RETRY_WITHIN:
                failure = OSError(f"{name}: {redacted_text(str(error) or repr(error))}")
                # A number tells it from Arrow's errors about invalid bytes, which have none.
                failure.errno = getattr(error, "errno", None) or errno.EIO
                raise failure from without_secrets(error)
        time.sleep(pause)
