"""What can go wrong, by cause.

MosaicError
├── CorruptFileError      the bytes break the format             also ValueError
├── UnsupportedError      valid, but newer or wider than we are  also NotImplementedError
├── ColumnNotFoundError   a column was named that is not there   also KeyError
└── SchemaMismatchError   schemas that do not fit each other     also ValueError

A failing disk or network stays the operating system's own exception, a wrong argument stays
`ValueError` or `TypeError`.
"""

from __future__ import annotations

from collections.abc import Iterable

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
        close = _close_matches(name, names)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        return cls(f"no column named {name!r}{hint}")


def _close_matches(name: str, names: Iterable[str]) -> list[str]:
    """Up to three of `names` that `name` may have been meant for, whatever their case.

    Comparing with each of ten thousand names would take seconds. One that differs in up to three
    places has a quarter of `name` in it, so the comparison is with those that have most quarters,
    and of these with those that begin and end most alike.
    """
    import difflib
    import heapq

    folded = name.lower()
    size = max(1, len(folded) // 4)
    quarters = [
        folded[start : start + size] for start in range(0, min(len(folded), 4 * size), size)
    ]
    likeness = []
    for other in names:
        low = other.lower()
        shared = sum(part in low for part in quarters)
        if shared:
            alike = _num_alike(low, folded) + _num_alike(low[::-1], folded[::-1])
            likeness.append((shared, alike, -abs(len(low) - len(folded)), low, other))
    original = {low: other for *_, low, other in heapq.nlargest(50, likeness)}
    return [original[low] for low in difflib.get_close_matches(folded, original, n=3, cutoff=0.6)]


def _num_alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


class SchemaMismatchError(MosaicError, ValueError):
    """A batch does not fit its writer, or the files of a data set do not fit each other."""
