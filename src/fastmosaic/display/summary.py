"""A short description of an object with columns, as text and as HTML.

It is made of what the object knows already, so that showing it reads nothing. The HTML is a few lines
for any number of columns. It has no scripts and no colours of its own, so it suits the dark and the
light theme of a notebook.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from random import Random
from typing import Final

import pyarrow as pa

from ..errors import printable
from .prefixes import grouped
from .text import counted, short_type

_MAX_COLUMNS: Final = 12  # that are listed one by one
_MAX_LINES: Final = 8  # of types and of prefixes, if there are more columns
_MAX_SAMPLE: Final = 1_000  # names from which prefixes are chosen
_MAX_TEXT: Final = 60  # characters of a name or type
_MAX_PATH: Final = 200  # characters of a path
_MAX_ERROR: Final = 1_000

_LEFT: Final = "text-align:left;padding:1px 1.5em 1px 0"
_RIGHT: Final = "text-align:right;padding:1px 0;font-variant-numeric:tabular-nums"
# Inherited colours: text that is less important is a little transparent.
_SOFT: Final = "opacity:.8;font-weight:normal"


@dataclass(frozen=True, slots=True)
class Summary:
    """A short description of an object.

    kind    its class
    facts   such as "3 rows", the most important first
    name    its path or URI, without credentials
    notes   other facts, which only HTML shows
    schema  returns its columns, without reading; None if they are not known
    """

    kind: str
    facts: Sequence[str]
    name: str = ""
    notes: Sequence[str] = ()
    schema: Callable[[], pa.Schema] | None = None

    def to_text(self) -> str:
        """Return one line, as `repr` does."""
        name = f" {printable(self.name)}" if self.name else ""
        return f"<{self.kind}{name}: {', '.join(self.facts)}>"

    def to_html(self) -> str:
        """Return some lines of HTML for a notebook."""
        name = f" <code>{_shown(self.name, _MAX_PATH)}</code>" if self.name else ""
        facts = " · ".join(_shown(fact, _MAX_PATH) for fact in (*self.facts, *self.notes))
        return (
            f"<div><div><b>{self.kind}</b>{name}</div>"
            f'<div style="{_SOFT}">{facts}</div>{self._columns()}</div>'
        )

    def _columns(self) -> str:
        try:
            schema = None if self.schema is None else self.schema()
        except Exception as error:  # noqa: BLE001  # a notebook shows objects that are unusable, too
            return f'<div style="{_SOFT}">columns: {_shown(str(error), _MAX_ERROR)}</div>'
        if schema is None or not len(schema):
            return ""
        if len(schema) <= _MAX_COLUMNS:
            types = [(field.name, _type_of(field)) for field in schema]
            return _table(("column", "type"), types, _LEFT)
        by_type = Counter(schema.types)
        # Several types may have the same short text.
        texts: Counter[str] = Counter()
        for type, count in by_type.items():
            texts[short_type(type)] += count
        tables = [
            _table(("type", "columns"), _numbered(texts.most_common(), "type"), _RIGHT),
            _table(("name", "columns"), _numbered(prefixes_of(schema.names), "prefix"), _RIGHT),
        ]
        return (
            '<div style="display:flex;flex-wrap:wrap;align-items:flex-start;gap:0 3em">'
            f"{''.join(tables)}</div>"
        )


def prefixes_of(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return the main prefixes or suffixes of names, and how many names have each.

    They are chosen from a sample of the names, because that takes long, and counted in all names. A
    name counts for the longest one that it has.

    >>> names = [f"temp_{i}" for i in range(5000)] + [f"load_{i}" for i in range(3000)]
    >>> prefixes_of(names)
    [('temp_*', 5000), ('load_*', 3000)]
    """
    # At random, as names often repeat with a period.
    sample = Random(0).sample(names, _MAX_SAMPLE) if len(names) > _MAX_SAMPLE else names
    groups = grouped(sample)
    at_end = groups[0].at_end
    ordered = sorted(name[::-1] for name in names) if at_end else sorted(names)
    found: list[tuple[str, int]] = []
    counts: dict[str, int] = {}
    for group in sorted(groups, key=lambda one: len(one.fixed), reverse=True):
        fixed = group.fixed[::-1] if at_end else group.fixed
        if fixed in counts:
            continue
        size = len(fixed)
        first = bisect_left(ordered, fixed)
        last = bisect_right(ordered, fixed, key=lambda name: name[:size])
        inside = sum(count for other, count in counts.items() if other.startswith(fixed))
        counts[fixed] = last - first - inside
        found.append((group.label, counts[fixed]))
    if "" not in counts and len(ordered) > sum(counts.values()):  # names outside of the sample
        found.append(("others", len(ordered) - sum(counts.values())))
    return sorted(found, key=lambda one: -one[1])


def _numbered(lines: Iterable[tuple[str, int]], noun: str) -> list[tuple[str, str]]:
    """Return the first lines, and one for all others."""
    every = list(lines)
    kept = every if len(every) <= _MAX_LINES else every[: _MAX_LINES - 1]
    shown = [(text, f"{count:,}") for text, count in kept]
    if len(kept) < len(every):
        rest = every[len(kept) :]
        noun = counted(len(rest), noun) if noun == "type" else f"{len(rest):,} other prefixes"
        shown.append((noun, f"{sum(count for _, count in rest):,}"))
    return shown


def _type_of(field: pa.Field) -> str:
    text = short_type(field.type)
    return text if field.nullable else f"{text} not null"


def _table(heads: tuple[str, str], rows: Iterable[tuple[str, str]], last: str) -> str:
    lines = [
        f'<tr><td style="{_LEFT}">{_shown(one, _MAX_TEXT)}</td>'
        f'<td style="{last}">{_shown(other, _MAX_TEXT)}</td></tr>'
        for one, other in rows
    ]
    return (
        '<table style="border-collapse:collapse;margin:.5em 0"><thead><tr>'
        f'<th scope="col" style="{_LEFT};{_SOFT}">{heads[0]}</th>'
        f'<th scope="col" style="{last};{_SOFT}">{heads[1]}</th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _shown(text: str, limit: int) -> str:
    """Return text as HTML; names of files and columns may contain anything."""
    cut = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return f"<bdi>{escape(printable(cut))}</bdi>" if cut else "<i>(empty)</i>"
