"""Tables on terminals, drawn by rich: they fit the width, and each row is one line.

Names and text that do not fit are shortened with an ellipsis. If a table would have to shorten
them to less than a few characters, it becomes a list of its values instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.cells import set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

from .aligned import Column, width

_MIN_WIDTH: Final = 10  # of text that is shortened
# Widths of text that are tried until names, which are more important, fit beside it.
_WIDTHS: Final = (1 << 20, 40, 30, 20, 15, _MIN_WIDTH)


def draw(
    console: Console, heads: Sequence[Column], rows: Sequence[Sequence[str]], ellipsis: str
) -> None:
    """Print `rows` under `heads`, or as a list if the terminal is too narrow for a table."""
    for limit in _WIDTHS:
        table = _table(heads, rows, ellipsis, limit)
        least, most = Measurement.get(console, _unlimited(console), table)
        if most <= console.width:
            break
    console.print(table if least <= console.width else _list(heads, rows, ellipsis))


def fits(console: Console, heads: Sequence[Column], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table of `rows` fits the terminal without being shortened."""
    table = _table(heads, rows, "", _WIDTHS[0])
    return Measurement.get(console, _unlimited(console), table).maximum <= console.width


def _unlimited(console: Console) -> ConsoleOptions:
    return console.options.update(width=_WIDTHS[0])


def shortened(text: str, limit: int, ellipsis: str, in_middle: bool = False) -> str:
    """Shorten `text` to at most `limit` columns of a terminal."""
    if width(text) <= limit:
        return text
    room = max(0, limit - len(ellipsis))
    end = ""
    if in_middle:
        end = text[len(text) - room // 2 :]
        while width(end) > room // 2:
            end = end[1:]
    return set_cell_size(text, room - width(end)).rstrip() + ellipsis[:limit] + end


class _Values:
    """Values of a column, one per line; rich chooses the width.

    That is faster than a row of a rich table for each line: there may be ten thousand.
    """

    def __init__(
        self,
        texts: Sequence[str],
        ellipsis: str,
        *,
        in_middle: Iterable[bool],
        right: bool = False,
        whole: bool = False,
        limit: int = _WIDTHS[0],
    ) -> None:
        self._texts = texts
        self._ellipsis = ellipsis
        self._in_middle = in_middle
        self._right = right
        self._whole = whole
        self._width = min(limit, max(map(width, texts), default=0))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        least = self._width if self._whole else min(self._width, _MIN_WIDTH)
        return Measurement(least, self._width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width
        for text, in_middle in zip(self._texts, self._in_middle, strict=False):
            short = shortened(text, room, self._ellipsis, in_middle)
            blank = " " * (room - width(short)) if self._right else ""
            yield Segment(blank + short)
            yield Segment.line()


def _table(
    heads: Sequence[Column], rows: Sequence[Sequence[str]], ellipsis: str, limit: int
) -> Table:
    """Arrange rows in a table in which text that is not a name is at most `limit` wide.

    Titles get a line for each of their words, unless there is no limit.
    """
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), expand=False
    )
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(heads)
    parts = []
    for head, texts in zip(heads, columns, strict=True):
        titles = [head.title] if limit == _WIDTHS[0] or head.is_name else head.title.split(" ")
        title, values = (
            _Values(
                lines,
                ellipsis,
                in_middle=[head.is_name] * len(lines),
                right=head.right,
                whole=head.whole,
                limit=_WIDTHS[0] if head.whole or head.is_name else limit,
            )
            for lines in (titles, texts)
        )
        table.add_column(title, no_wrap=head.whole)
        parts.append(values)
    if rows:
        table.add_row(*parts)
    return table


def _list(heads: Sequence[Column], rows: Sequence[Sequence[str]], ellipsis: str) -> Table:
    """Arrange every row as lines of a title and a value, with an empty line after each row."""
    titles = [*(head.title for head in heads), ""]
    values = [text for row in rows for text in (*row, "")]
    in_middle = [*(head.is_name for head in heads), False] * len(rows)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row(
        _Values(titles * len(rows), ellipsis, in_middle=in_middle, whole=True),
        _Values(values, ellipsis, in_middle=in_middle),
    )
    return table
