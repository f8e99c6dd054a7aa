"""Errors as JSON."""

from __future__ import annotations

from typing import Any

from ..errors import MosaicError, printable
from ..storage.secrets import redacted, redacted_text

_FIELDS = ("file", "part", "row_group", "bucket", "column", "offset")


class RequestError(ValueError):
    """The request of a client is invalid."""


class StoppedError(Exception):
    """The server stops: nobody waits for the answer any more."""


def error_to_dict(error: Exception) -> dict[str, Any]:
    """Return the kind, the message and the known fields of an error, without credentials."""
    found: dict[str, Any] = {"kind": type(error).__name__, "message": _message(error)}
    if isinstance(error, MosaicError):
        fields = {name: getattr(error, name) for name in _FIELDS}
        found |= {
            name: printable(redacted(value)) if isinstance(value, str) else value
            for name, value in fields.items()
            if value is not None
        }
    return found


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        name = f"{redacted(str(error.filename))}: " if error.filename else ""
        return printable(f"{name}{error.strerror}")
    text = error.message if isinstance(error, MosaicError) else str(error)
    lines = redacted_text(text).splitlines()
    return "\n".join(map(printable, lines)) or type(error).__name__
