"""What can go wrong, by cause.

MosaicError
├── CorruptFileError      the bytes break the format             also ValueError
├── UnsupportedError      valid, but newer or wider than we are  also NotImplementedError
├── ColumnNotFoundError   a column was named that is not there   also KeyError
└── SchemaMismatchError   a batch does not fit the open writer   also ValueError

A failing disk or network stays the operating system's own exception, a wrong argument stays
`ValueError` or `TypeError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

__all__ = [
    "ColumnNotFoundError",
    "CorruptFileError",
    "MosaicError",
    "SchemaMismatchError",
    "UnsupportedError",
]


class MosaicError(Exception):
    """The base of every error that this package defines."""


class CorruptFileError(MosaicError, ValueError):
    """The bytes of a file break the format."""


class UnsupportedError(MosaicError, NotImplementedError):
    """A valid file or table, but with something that this package or the format does not have."""


class ColumnNotFoundError(MosaicError, KeyError):
    """A column was named that is not in the file."""

    # KeyError prints the repr of its argument; a message should read as a message.
    __str__ = Exception.__str__

    @classmethod
    def for_name(cls, name: str, names: Iterable[str]) -> ColumnNotFoundError:
        """The error for `name`, which is not one of `names`, with the closest few of them."""
        close = difflib.get_close_matches(name, islice(names, 100_000), n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        return cls(f"no column named {name!r}{hint}")


class SchemaMismatchError(MosaicError, ValueError):
    """A batch does not fit the schema that its writer was opened with."""
