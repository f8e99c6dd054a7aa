"""Text in columns: what takes how much room, and lines that do not get too long."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_GAP: Final = 2  # spaces between columns
_MIN_FOLDED: Final = 20  # columns of a terminal: narrower text is unreadable


class Column(NamedTuple):
    """A column of a table that is printed."""

    title: str
    right: bool = False  # numbers
    crop: bool = False  # on a terminal, to the room that is left


def aligned(
    heads: Sequence[Column],
    cells: Sequence[Sequence[str]],
    header: bool = True,
    limit: int | None = None,
) -> Iterator[str]:
    """Rows as lines of columns that are as wide as need be.

    If lines would be longer than `limit`, the widest column of text is folded.
    """
    rows = [[head.title for head in heads], *cells] if header else cells
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    excess = 0 if limit is None else sum(widths) + _GAP * (len(widths) - 1) - limit
    texts = [index for index, head in enumerate(heads) if not head.right]
    widest = max(texts, key=widths.__getitem__, default=None) if excess > 0 else None
    if widest is not None:
        widths[widest] = max(_MIN_FOLDED, widths[widest] - excess)
    for row in rows:
        lines = [row]
        if widest is not None and width(row[widest]) > widths[widest]:
            pieces = _folded(row[widest], widths[widest])
            blank = [""] * len(row)
            lines = [
                [
                    *(blank if number else row)[:widest],
                    piece,
                    *(blank if number else row)[widest + 1 :],
                ]
                for number, piece in enumerate(pieces)
            ]
        for line in lines:
            parts = []
            for head, text, wide in zip(heads, line, widths, strict=True):
                gap = " " * (wide - width(text))
                parts.append(gap + text if head.right else text + gap)
            yield (" " * _GAP).join(parts).rstrip()


def _folded(text: str, limit: int) -> list[str]:
    """A text in pieces that take up to `limit` columns of a terminal."""
    pieces = [""]
    room = limit
    for c in text:
        wide = width(c)
        if wide > room:
            pieces.append("")
            room = limit
        pieces[-1] += c
        room -= wide
    return pieces


def width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(c) in ("Mn", "Me")  # on the letter before it
        else 2
        if unicodedata.east_asian_width(c) in "WF"
        else 1
        for c in text
    )
