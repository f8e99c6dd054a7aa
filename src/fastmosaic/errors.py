"""The errors of this package, by cause, with the place in the file where they arose.

MosaicError
├── CorruptFileError      the bytes violate the format                   also ValueError
├── UnsupportedError      valid, but newer or wider than this package    also NotImplementedError
├── ColumnNotFoundError   there is no column with the requested name     also KeyError
├── SchemaMismatchError   schemas that are incompatible with each other  also ValueError
├── ConflictError         another writer changed the same part of a table
└── MemoryLimitError      the result would exceed the memory limit       also MemoryError

Failures of a disk or a network stay the operating system's own exceptions. Invalid arguments raise
`ValueError` or `TypeError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self, TypedDict, Unpack

__all__ = [
    "ColumnNotFoundError",
    "ConflictError",
    "CorruptFileError",
    "MemoryLimitError",
    "MosaicError",
    "SchemaMismatchError",
    "UnsupportedError",
]


def printable(text: str) -> str:
    """Escape the characters of a text that could take over or mislead a terminal.

    These are all that Unicode calls "other" or "separator", except the space: control characters,
    also those of bidirectional text, invisible ones, lone surrogates, private and unassigned
    characters, and all line ends.

    >>> printable("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Place(TypedDict, total=False):
    """Where an error arose; unknown fields are missing or None."""

    file: str | None
    part: str | None  # e.g. "footer", "schema block"
    row_group: int | None
    bucket: int | None
    column: str | None
    offset: int | None  # in the file


class MosaicError(Exception):
    """Base class of all errors that this package defines.

    Attributes
    ----------
    message : str
        What is wrong, without the place.
    file : str or None
        Path or URI of the file.
    part : str or None
        Part of the file outside of the data, such as "footer" or "schema block".
    row_group, bucket : int or None
        Numbers of the row group and the bucket.
    column : str or None
        Name of the column.
    offset : int or None
        Offset in the file, in bytes, of the block that is concerned.

    Fields are None if they are unknown or do not apply. `str()` prints those that are known, then
    the message, with escapes such as `\\x1b` for characters that could confuse a terminal.

    Examples
    --------
    >>> import fastmosaic as fm
    >>> error = fm.CorruptFileError("unknown encoding 9", file="a.mosaic", row_group=2, bucket=0)
    >>> error.row_group, str(error)
    (2, 'a.mosaic: row group 2, bucket 0: unknown encoding 9')
    """

    def __init__(self, message: str = "", **place: Unpack[Place]) -> None:
        super().__init__(message)
        self.file = place.get("file")
        self.part = place.get("part")
        self.row_group = place.get("row_group")
        self.bucket = place.get("bucket")
        self.column = place.get("column")
        self.offset = place.get("offset")

    @property
    def message(self) -> str:
        return self.args[0] if self.args else ""

    @message.setter
    def message(self, message: str) -> None:
        self.args = (message,)

    @property
    def detail(self) -> str:
        """The place and the message, without the file."""
        place = describe_place(self.part, self.row_group, self.bucket, self.column, self.offset)
        return f"{place}: {self.message}" if place else self.message

    def locate(self, **place: Unpack[Place]) -> Self:
        """Fill in fields that are not known yet."""
        for name, value in place.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def __str__(self) -> str:
        # A message may have several lines; a name in it, or of the file, must not add any.
        detail = "\n".join(map(printable, self.detail.split("\n")))
        return detail if self.file is None else f"{printable(self.file)}: {detail}"


def describe_place(
    part: str | None,
    row_group: int | None,
    bucket: int | None,
    column: str | None,
    offset: int | None,
) -> str:
    """Return the known parts of a place as text, e.g. `row group 1, bucket 0, offset 64`."""
    known = [
        part,
        None if row_group is None else f"row group {row_group}",
        None if bucket is None else f"bucket {bucket}",
        None if column is None else f"column {column!r}",
        None if offset is None else f"offset {offset}",
    ]
    return ", ".join(filter(None, known))


class located:
    """A context that fills in the place of the errors that its block raises."""

    # A class, because a generator takes three times as long, and every read has several contexts.
    __slots__ = ("_place",)

    def __init__(self, **place: Unpack[Place]) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, MosaicError):
            error.locate(**self._place)


class CorruptFileError(MosaicError, ValueError):
    """The bytes of a file violate the format."""


class UnsupportedError(MosaicError, NotImplementedError):
    """A file or table is valid, but uses something that this package or the format lacks."""


class ColumnNotFoundError(MosaicError, KeyError):
    """There is no column with the requested name.

    Attributes
    ----------
    name : str or None
        The name or pattern that was requested.
    suggestions : tuple of str
        Names of existing columns that are similar.
    """

    def __init__(
        self,
        message: str = "",
        *,
        name: str | None = None,
        suggestions: Sequence[str] = (),
        **place: Unpack[Place],
    ) -> None:
        super().__init__(message, **place)
        self.name = name
        self.suggestions = tuple(suggestions)

    @classmethod
    def for_name(
        cls,
        name: str,
        similar: Iterable[str],
        *,
        option: str | None = None,
        file: str | None = None,
    ) -> ColumnNotFoundError:
        """Create the error for `name`, with suggestions from `similar`, a few existing names.

        `option` is the option or parameter that requests the column, if the message should say so.
        """
        close = _close_matches(name, similar)
        prefix = "" if option is None else f"{option}: "
        message = f"{prefix}no column named {name!r}{_hint(close)}"
        return cls(message, name=name, suggestions=close, file=file)

    @classmethod
    def for_pattern(cls, pattern: str, literal: str, similar: Iterable[str]) -> ColumnNotFoundError:
        """Create the error for a glob that matches no column.

        `literal` is the glob without its special characters; suggestions from `similar`, a few
        existing names, are similar to it.
        """
        close = _close_matches(literal, similar)
        message = f"no column matches {pattern!r}{_hint(close)}"
        return cls(message, name=pattern, suggestions=close)


def _hint(suggestions: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(map(repr, suggestions))}?" if suggestions else ""


def _close_matches(name: str, names: Iterable[str]) -> list[str]:
    """Return up to three of `names` that are similar to `name`, ignoring case.

    Comparing names takes long: there should be no more than a few dozen.
    """
    import difflib

    original = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), original, n=3, cutoff=0.6)
    return [original[low] for low in close]


class SchemaMismatchError(MosaicError, ValueError):
    """Schemas are incompatible: of a batch and its writer, or of the files of a dataset."""


class ConflictError(MosaicError):
    """Another writer has changed the part of a table that this one was about to change.

    Nothing was committed. `file` and `column` name what both have changed.
    """


class MemoryLimitError(MosaicError, MemoryError):
    """The result of a call would take more memory than the caller allows.

    Attributes
    ----------
    size : int
        Bytes that the result would take, at least.
    limit : int
        Bytes that it may take.
    """

    size = 0
    limit = 0

    def locate(self, **place: Unpack[Place]) -> Self:
        """Fill in the file, not the part of it where the limit was reached."""
        return super().locate(file=place.get("file"))

    @classmethod
    def for_result(cls, size: int, limit: int) -> MemoryLimitError:
        """Create the error for a result of at least `size` bytes."""
        error = cls(
            f"the result would take at least {size:,} bytes of memory, but the limit is {limit:,}; "
            "read fewer columns or rows, read in batches with iter_batches, or raise the limit with "
            "memory_limit= (--memory-limit for commands) or FASTMOSAIC_MEMORY_LIMIT"
        )
        error.size, error.limit = size, limit
        return error
