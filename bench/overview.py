"""The table of the most important results, which README.md and docs/index.md show."""

from __future__ import annotations

import re
from pathlib import Path

from .plan import HUNDRED, OPEN, Plan
from .report import unit
from .results import OURS, SIZE, WHOLE, WRITE, Results

PAGES = ("README.md", "docs/index.md")
HEAD = "| 10,000 columns × 4,500 rows |"  # noqa: RUF001 - as people write it
ROWS = {
    OPEN: "open, read 1 column",
    HUNDRED: "open, read 100 columns",
    WHOLE: "read all columns",
    WRITE: "write",
    SIZE: "file size",
}
LEFT_OUT = ("ORC",)  # for want of room


def update(results: Results, root: Path) -> list[Path]:
    """Put the results of files into the pages, and return their paths."""
    case = Plan.of(results).find("wide", 10_000, 4_500)
    if case is None or results.get(case, OPEN, OURS) is None:
        raise ValueError(f"these results lack the table of {HEAD.strip('| ')}")
    paths = [root / page for page in PAGES]
    for path in paths:
        text = path.read_text(encoding="utf-8")
        old = re.search(rf"^{re.escape(HEAD)}.*\n(\|.*\n)+", text, re.MULTILINE)
        if old is None:
            raise ValueError(f"{path}: no table that begins with {HEAD!r}")
        text = text.replace(old.group(), table(results, str(case)))
        known = [figure(1000 * (results.get(case, OPEN, name) or 0)) for name in (OURS, "Parquet")]
        caption = f"{OURS} {known[0]} ms, Parquet {known[1]} ms]"
        text = re.sub(rf"{OURS} [\d.,]+ ms, Parquet [\d.,]+ ms\]", caption, text)
        path.write_text(text, encoding="utf-8")
    return paths


def table(results: Results, case: str) -> str:
    """The table in Markdown; the best of each row is bold."""
    names = [name for name in results.names if name not in LEFT_OUT]
    lines = [f"{HEAD} {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for measure, label in ROWS.items():
        name, scale = unit(measure)
        values = [results.get(case, measure, who) for who in names]
        best = min(value for value in values if value is not None)
        cells = [
            "-" if x is None else f"**{figure(x * scale)}**" if x == best else figure(x * scale)
            for x in values
        ]
        lines.append(f"| {label} ({name}) | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def figure(value: float) -> str:
    """A number with two digits, or more before the point."""
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.2g}" if value < 1 else f"{value:.1f}"
