"""What the command prints: tables for people on a terminal, plain text in a pipe, or JSON."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import rich.console

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_BAR_WIDTH: Final = 20


class Column(NamedTuple):
    """A column of a table that is printed."""

    title: str
    right: bool = False  # numbers


class Console:
    """Where a command prints its answer, in the form that was asked for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.is_json: bool = getattr(arguments, "json", False)
        self.is_terminal = sys.stdout.isatty() and not self.is_json
        self._pages = self.is_terminal and not getattr(arguments, "no_pager", False)

    def document(self, value: Any) -> None:
        """The answer as JSON."""
        print(json.dumps(to_json(value), indent=2, ensure_ascii=False))

    def line(self, text: str = "") -> None:
        if self.is_terminal:
            self._rich().print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text)

    def facts(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Names and what they are, a line each."""
        rows = [(name, self.cell(value)) for name, value in pairs]
        width = max((len(name) for name, _ in rows), default=0)
        for name, value in rows:
            self.line(f"{name:<{width}}  {value}".rstrip())

    def table(
        self,
        columns: Sequence[str | Column],
        rows: Iterable[Sequence[Any]],
        *,
        title: str | None = None,
        footer: str | None = None,
    ) -> None:
        """Rows of values under titles; a long table is paged on a terminal."""
        heads = [Column(one) if isinstance(one, str) else one for one in columns]
        cells = [[self.cell(value) for value in row] for row in rows]
        if self.is_terminal:
            self._rich_table(heads, cells, title, footer)
            return
        # The title is for people: what is in a pipe has a line of heads, then rows.
        lines = [[head.title for head in heads], *cells]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for row in lines:
            aligned = (
                text.rjust(width) if head.right else text.ljust(width)
                for head, text, width in zip(heads, row, widths, strict=True)
            )
            print("  ".join(aligned).rstrip())

    def _rich_table(
        self,
        heads: Sequence[Column],
        cells: Sequence[Sequence[str]],
        title: str | None,
        footer: str | None,
    ) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
        for head in heads:
            # Names and figures stay whole: half of a name is no name.
            table.add_column(
                Text(head.title), justify="right" if head.right else "left", overflow="fold"
            )
        for row in cells:
            table.add_row(*map(Text, row))
        console = self._rich()
        with self.paging(len(cells) + 6):
            console.print(table)
            if footer:
                self.line(footer)

    @contextmanager
    def paging(self, num_lines: int) -> Iterator[None]:
        """Let what the block prints be paged, if it is longer than the terminal."""
        console = self._rich() if self._pages else None
        if console is None or num_lines <= console.height:
            yield
            return
        with console.pager(styles=False):
            yield

    def cell(self, value: Any) -> str:
        """A value as text: with separators of thousands for people, without for programs."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}" if self.is_terminal else str(value)
        return printable(str(value))

    def size(self, num_bytes: int) -> str:
        """A number of bytes, rounded for people."""
        return human_size(num_bytes) if self.is_terminal else str(num_bytes)

    def bar(self, share: float) -> str:
        """A bar for a share of one."""
        eighths = round(max(0.0, min(1.0, share)) * _BAR_WIDTH * 8)
        full, rest = divmod(eighths, 8)
        return "█" * full + ("", *"▏▎▍▌▋▊▉")[rest]

    @contextmanager
    def progress(self, verb: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A bar on stderr while the block runs, if that is a terminal; a function moves it on."""
        if not sys.stderr.isatty():
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
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=RichConsole(stderr=True),
            transient=True,
        ) as bar:
            task = bar.add_task(verb, total=total)
            yield lambda step: bar.advance(task, step)

    def _rich(self) -> rich.console.Console:
        from rich.console import Console as RichConsole

        if not hasattr(self, "_console"):
            self._console = RichConsole(highlight=False)
        return self._console


def human_size(num_bytes: int) -> str:
    """A number of bytes in the unit that makes it short: 3.4 MB."""
    value = float(num_bytes)
    for unit in _UNITS:
        if value < 999.5 or unit == _UNITS[-1]:
            break
        value /= 1000
    return (
        f"{num_bytes} B" if unit == "B" else f"{value:.{max(0, 3 - len(f'{value:.0f}'))}f} {unit}"
    )


def printable(text: str) -> str:
    """Text of a file for a terminal: control characters would take it over, and break lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def to_json(value: Any) -> Any:
    """A value with what JSON lacks as text: times, decimals, bytes in hex, NaN and infinities."""
    if isinstance(value, dict):
        return {str(key): to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
