"""Output of commands: tables on a terminal, plain text in a pipe, or JSON."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ...convert.values import to_json
from ...display.text import human_size
from ...errors import printable
from .aligned import Column, aligned, width
from .values import json_text

if TYPE_CHECKING:
    import rich.console

_BAR_WIDTH: Final = 20
_BLOCKS: Final = "█▏▎▍▌▋▊▉"
_ELLIPSIS: Final = "…"
# Of a tree: in front of a field, of the last field, and of the fields below each of these.
_BRANCHES: Final = ("├─ ", "└─ ", "│  ", "   ")
_ASCII_BRANCHES: Final = ("|- ", "`- ", "|  ", "   ")


class Console:
    """Prints what a command found, in the form that its options ask for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.is_json: bool = getattr(arguments, "json", False)
        self.is_terminal = sys.stdout.isatty() and not self.is_json
        self._has_blocks = _can_print(_BLOCKS)
        self.ellipsis = _ELLIPSIS if _can_print(_ELLIPSIS) else "..."
        self.branches = _BRANCHES if _can_print("".join(_BRANCHES)) else _ASCII_BRANCHES
        is_wanted = not getattr(arguments, "no_pager", False)
        is_able = os.environ.get("TERM", "") not in ("", "dumb") and _has_pager()
        self._pages = self.is_terminal and is_wanted and is_able

    def document(self, value: Any) -> None:
        """Print `value` as JSON."""
        is_utf8 = _encoding().lower().replace("-", "") == "utf8"
        print(json_text(to_json(value), indent=2, only_ascii=not is_utf8))

    def line(self, text: str = "") -> None:
        """Print one line of text; on a terminal, wrap it between words."""
        safe = printable(text)
        if self.is_terminal:
            self._rich.print(safe, markup=False, emoji=False, highlight=False)
        else:
            print(safe)

    def facts(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Print names and their values, one pair per line."""
        rows = [(printable(name), self.cell(value)) for name, value in pairs]
        if not self.is_terminal:
            wide = max((len(name) for name, _ in rows), default=0)
            for name, value in rows:
                print(f"{name:<{wide}}  {value}".rstrip())
            return
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        table.add_column(overflow="ellipsis")
        for name, value in rows:
            table.add_row(Text(name), Text(value))
        self._rich.print(table)

    def table(
        self,
        columns: Sequence[str | Column],
        rows: Iterable[Sequence[Any]],
        *,
        title: str | None = None,
        footer: str | None = None,
        header: bool = True,
    ) -> None:
        """Print rows of values.

        On a terminal, the table has a title and a footer, fits the width, and is paged if it is
        long. In a pipe, there is one line of headings, unless `header` is false, and one line for
        each row.
        """
        heads = _columns(columns)
        cells = [[self.cell(value) for value in row] for row in rows]
        if not self.is_terminal:
            for line in aligned(heads, cells, header):
                print(line)
            return
        from .drawn import draw

        with self.paging():
            if title:
                self.line(title)
            draw(self._rich, heads, cells, self.ellipsis)
            if footer:
                self.line()
                for line in footer.split("\n"):
                    self.line(line)

    def fits(self, columns: Sequence[str | Column], rows: Sequence[Sequence[str]]) -> bool:
        """Return whether a table fits the terminal without shortening its values."""
        from .drawn import fits

        return fits(self._rich, _columns(columns), rows)

    @property
    def width(self) -> int:
        """The number of columns of the terminal."""
        return self._rich.width

    @property
    def height(self) -> int:
        """The number of lines of the terminal."""
        return self._rich.height

    @contextmanager
    def paging(self) -> Iterator[None]:
        """Page what the block prints if it is longer than the terminal."""
        if not self._pages:
            yield
            return
        console = self._rich
        self._pages = False  # a table inside of the block is not paged by itself
        try:
            with console.capture() as captured:
                yield
        finally:
            self._pages = True
        text = captured.get()
        if text.count("\n") < console.height:
            console.file.write(text)
            return
        from rich.pager import SystemPager

        sys.stdout.flush()
        SystemPager().show(text)

    def cell(self, value: Any) -> str:
        """Format a value; numbers get thousands separators on a terminal only."""
        if isinstance(value, str):
            return printable(value)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}" if self.is_terminal else str(value)
        return printable(str(value))

    def count(self, number: int, noun: str) -> str:
        """Format a number with its noun: 1 row, 2,000 rows."""
        return f"{self.cell(number)} {noun}{'' if number == 1 else 's'}"

    def shortened(self, text: str, limit: int, in_middle: bool = False) -> str:
        """Shorten `text` to `limit` characters on a terminal; in a pipe it stays as it is."""
        if not self.is_terminal or width(text) <= limit:
            return text
        from .drawn import shortened

        return shortened(text, limit, self.ellipsis, in_middle)

    def size(self, num_bytes: int) -> str:
        """Format a number of bytes; it is rounded on a terminal only."""
        return human_size(num_bytes) if self.is_terminal else str(num_bytes)

    def bar(self, share: float) -> str:
        """Draw a share of 1 as a bar."""
        eighths = round(max(0.0, min(1.0, share)) * _BAR_WIDTH * 8)
        if not self._has_blocks:
            return "#" * round(eighths / 8)
        full, rest = divmod(eighths, 8)
        return _BLOCKS[0] * full + (_BLOCKS[rest] if rest else "")

    @contextmanager
    def progress(self, verb: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Show a progress bar on stderr, if that is a terminal, while the block runs.

        Yields a function that advances the bar by a number of bytes. The block must not print to
        the terminal: its text would end up inside of the bar.
        """
        if sys.stderr is None or not sys.stderr.isatty():
            yield lambda step: None
            return
        from rich.console import Console as RichConsole
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=RichConsole(stderr=True),
            transient=True,
            redirect_stdout=False,  # rich would send it to stderr
        ) as bar:
            task = bar.add_task(verb, total=total)
            yield lambda step: bar.advance(task, step)

    @property
    def _rich(self) -> rich.console.Console:
        from rich.console import Console as RichConsole

        if not hasattr(self, "_console"):
            self._console = RichConsole(highlight=False)
        return self._console


def _columns(columns: Sequence[str | Column]) -> list[Column]:
    heads = (Column(one) if isinstance(one, str) else one for one in columns)
    return [head._replace(title=printable(head.title)) for head in heads]


def _encoding() -> str:
    return sys.stdout.encoding or "utf-8"  # a stream in memory has none


def _has_pager() -> bool:
    """Return False if PAGER is empty or names a program that does not exist."""
    pager = os.environ.get("PAGER")
    if pager is None:
        return True
    words = pager.split()
    return bool(words) and shutil.which(words[0]) is not None


def _can_print(text: str) -> bool:
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        return False
    return True


def in_steps(advance: Callable[[int], None]) -> Callable[[int, int], None]:
    """Return a function of how much is done, and of all, that advances a progress bar."""
    before = 0

    def show(done: int, _: int) -> None:
        nonlocal before
        advance(done - before)
        before = done

    return show
