"""Tables in pipes: lines of aligned columns, and what a column of a table is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_GAP: Final = "  "


class Column(NamedTuple):
    """A column of a table that is printed.

    title      its heading
    right      align its values on the right
    whole      on a terminal, never shorten its values
    is_name    shorten values in the middle: the start and the end of names tell them apart
    """

    title: str
    right: bool = False
    whole: bool = False
    is_name: bool = False

    @classmethod
    def number(cls, title: str) -> Column:
        """Return a column of numbers."""
        return cls(title, right=True, whole=True)

    @classmethod
    def name(cls, title: str) -> Column:
        """Return a column of names, of columns or files."""
        return cls(title, is_name=True)


def aligned(
    heads: Sequence[Column], cells: Sequence[Sequence[str]], header: bool = True
) -> Iterator[str]:
    """Align `cells` in columns that are as wide as their widest value; one line for each row."""
    rows = [[head.title for head in heads], *cells] if header else cells
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        parts = []
        for head, text, wide in zip(heads, row, widths, strict=True):
            num_chars = wide - width(text) + len(text)
            parts.append(text.rjust(num_chars) if head.right else text.ljust(num_chars))
        yield _GAP.join(parts).rstrip()


def width(text: str) -> int:
    """Return how many columns of a terminal `text` occupies."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
