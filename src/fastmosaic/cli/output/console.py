"""What the command prints: tables for people on a terminal, plain text in a pipe, or JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from ..exit import printable
from .aligned import Column, aligned, width

if TYPE_CHECKING:
    import rich.console

__all__ = ["Column", "Console", "human_size", "printable", "to_json", "width"]

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_BAR_WIDTH: Final = 20
_BLOCKS: Final = "█▏▎▍▌▋▊▉"
_ELLIPSIS: Final = "…"
# rich takes 0.3 ms for a row; longer tables are aligned as in a pipe.
_MAX_RICH_ROWS: Final = 500
# A name or value that is longer would fill the screen; whole ones are in pipes and in JSON.
_MAX_CELL: Final = 400
# less ends at once if all is on the screen, shows colours, cuts long lines and leaves the text.
_LESS: Final = "FRSX"


class Console:
    """Where a command prints its answer, in the form that was asked for."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.is_json: bool = getattr(arguments, "json", False)
        self.is_terminal = sys.stdout.isatty() and not self.is_json
        self._pages = self.is_terminal and not getattr(arguments, "no_pager", False)
        self._has_blocks = _can_print(_BLOCKS)
        self.ellipsis = _ELLIPSIS if _can_print(_ELLIPSIS) else "..."

    def document(self, value: Any) -> None:
        """The answer as JSON."""
        # What UTF-8 lacks is halves of surrogate pairs, whose escapes are those of JSON.
        is_utf8 = _encoding().lower().replace("-", "") == "utf8"
        print(json.dumps(to_json(value), indent=2, ensure_ascii=not is_utf8))

    def line(self, text: str = "") -> None:
        safe = "\n".join(map(printable, text.split("\n")))
        if self.is_terminal:
            self._rich().print(safe, markup=False, emoji=False, highlight=False, soft_wrap=True)
        else:
            print(safe)

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
        header: bool = True,
    ) -> None:
        """Rows of values under titles; a long table is paged on a terminal.

        Title and footer are for people. What is in a pipe is a line of heads and a line a row, or
        without `header` only the latter.
        """
        heads = [Column(one) if isinstance(one, str) else one for one in columns]
        cells = [[self.cell(value) for value in row] for row in rows]
        if not self.is_terminal:
            for line in aligned(heads, cells, header):
                print(line)
            return
        cells = [[self._cropped(text) for text in row] for row in cells]
        with self.paging():
            if len(cells) <= _MAX_RICH_ROWS:
                self._rich_table(heads, cells, title)
            else:
                if title:
                    self.line(title)
                self.line("\n".join(aligned(heads, cells, limit=self._rich().width)))
            if footer:
                self.line(f"\n{footer}")

    def _rich_table(
        self, heads: Sequence[Column], cells: Sequence[Sequence[str]], title: str | None
    ) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(
            title=None if title is None else Text(printable(title)),
            box=box.SIMPLE_HEAD,
            title_justify="left",
            pad_edge=False,
            show_edge=False,
        )
        for head in heads:
            # Names and figures stay whole: half of a name is no name.
            table.add_column(
                Text(head.title),
                justify="right" if head.right else "left",
                overflow="fold",
                no_wrap=head.right,
            )
        cropping: Literal["ellipsis", "crop"] = "ellipsis" if _can_print(_ELLIPSIS) else "crop"
        for row in cells:
            table.add_row(
                *(
                    Text(text, no_wrap=head.crop, overflow=cropping if head.crop else "fold")
                    for head, text in zip(heads, row, strict=True)
                )
            )
        self._rich().print(table)

    @contextmanager
    def paging(self) -> Iterator[None]:
        """Let what the block prints be paged, if it is longer than the terminal."""
        command = _pager() if self._pages else []
        if not command:
            yield
            return
        console = self._rich()
        self._pages = False  # until all of it is there
        try:
            with console.capture() as captured:
                yield
        finally:
            self._pages = True
        text = captured.get()
        if text.count("\n") < console.height:
            console.file.write(text)
        else:
            _page(command, text)

    def cell(self, value: Any) -> str:
        """A value as text: with separators of thousands for people, without for programs."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return f"{value:,}" if self.is_terminal else str(value)
        return printable(str(value))

    def _cropped(self, text: str) -> str:
        return text if len(text) <= _MAX_CELL else text[:_MAX_CELL] + self.ellipsis

    def size(self, num_bytes: int) -> str:
        """A number of bytes, rounded for people."""
        return human_size(num_bytes) if self.is_terminal else str(num_bytes)

    def bar(self, share: float) -> str:
        """A bar for a share of one."""
        eighths = round(max(0.0, min(1.0, share)) * _BAR_WIDTH * 8)
        if not self._has_blocks:
            return "#" * round(eighths / 8)
        full, rest = divmod(eighths, 8)
        return _BLOCKS[0] * full + (_BLOCKS[rest] if rest else "")

    @contextmanager
    def progress(self, verb: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """A bar on stderr while the block runs, if that is a terminal; a function moves it on.

        Print before or after it: on a terminal, text in between would get into the bar.
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
            redirect_stdout=False,  # rich would print it on stderr
        ) as bar:
            task = bar.add_task(verb, total=total)
            yield lambda step: bar.advance(task, step)

    def _rich(self) -> rich.console.Console:
        from rich.console import Console as RichConsole

        if not hasattr(self, "_console"):
            self._console = RichConsole(highlight=False)
        return self._console


def _encoding() -> str:
    return sys.stdout.encoding or "utf-8"  # a stream in memory has none


def _can_print(text: str) -> bool:
    try:
        text.encode(_encoding())
    except UnicodeEncodeError:
        return False
    return True


def _pager() -> list[str]:
    """The command that pages, or nothing where none can."""
    if os.environ.get("TERM", "") in ("", "dumb"):
        return []
    command = shlex.split(os.environ.get("PAGER", "less"))
    return command if command and shutil.which(command[0]) else []


def _page(command: list[str], text: str) -> None:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env={"LESS": _LESS, **os.environ},
        encoding=_encoding(),
        errors="backslashreplace",
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError, KeyboardInterrupt), process.stdin:  # it was left before the end
        process.stdin.write(text)
    while True:
        # Ctrl-C is for the pager as well, which goes on: without waiting it would fight the shell.
        with suppress(KeyboardInterrupt):
            process.wait()
            return


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
