"""Print tables with bars, on a terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 100
MIN_BAR_WIDTH, MAX_BAR_WIDTH = 8, 36
BESIDE_BARS = 60  # width of the other columns of the table
# Blue and vermilion of Okabe and Ito, which colour-blind people can distinguish.
COLOURS = {"Mosaic": "#0072B2", "Parquet": "#D55E00"}


def make_console() -> Console:
    """Return a console as wide as the terminal, up to a width that is easy to read."""
    console = Console(highlight=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def bars(
    console: Console, groups: Mapping[str, Mapping[str, float]], units: Mapping[str, str]
) -> Table:
    """Return a table with a bar for each format; lengths are comparable within a group."""
    width = max(MIN_BAR_WIDTH, min(MAX_BAR_WIDTH, console.width - BESIDE_BARS))
    table = Table(box=box.SIMPLE, show_header=False)
    for is_number in (False, False, True, False, True):
        table.add_column(justify="right" if is_number else "left", no_wrap=True)
    for group, values in groups.items():
        least, most = min(values.values()), max(values.values())
        for i, (name, value) in enumerate(values.items()):
            table.add_row(
                group if i == 0 else "",
                Text(name, COLOURS[name]),
                f"{figure(value)} {units[group]}",
                Text(bar(value / most, width), COLOURS[name]),
                times(value / least) if value > least else "",
                end_section=i == len(values) - 1,
            )
    return table


def bar(share: float, width: int) -> str:
    """Draw a share of the full width as a bar, at least an eighth of a character long."""
    eighths = max(1, round(share * width * 8))
    full, rest = divmod(eighths, 8)
    return "█" * full + ("", *"▏▎▍▌▋▊▉")[rest]


def figure(value: float) -> str:
    """Format a number with three significant digits."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def times(ratio: float) -> str:
    """Format a ratio: 1.6 times, 170 times."""
    return f"{ratio:.2g} times" if ratio < 100 else f"{round(ratio, -1):,.0f} times"


def compared(values: Mapping[str, float], less: str, more: str) -> str:
    """Compare the first of two values with the second: 1.6 times smaller."""
    first, second = values.values()
    ratio, word = (second / first, less) if first <= second else (first / second, more)
    return f"{times(ratio)} {word}"


def rows(heads: Iterable[str], lines: Iterable[Iterable[str]], right: bool = False) -> Table:
    """Return a plain table; if `right`, all columns but the first are numbers."""
    table = Table(box=box.SIMPLE)
    for i, head in enumerate(heads):
        table.add_column(head, justify="right" if right and i else "left", overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    return table
