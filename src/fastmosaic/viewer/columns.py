"""Columns by name: search, order, selections, and a tree of common prefixes.

All of this happens on the server: a page asks for the columns that it shows.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import types

from ..display.prefixes import continued
from ..display.text import short_type
from ..errors import printable
from .errors import RequestError
from .sizes import ColumnSizes

MODES: Final = ("substring", "glob", "regex", "prefix", "exact")
SORTS: Final = ("position", "name", "size", "nulls")
MAX_PATTERN: Final = 1000  # characters
MAX_STEPS: Final = 300  # of a selection; each takes some milliseconds

_LETTERS: Final = {"s": "substring", "g": "glob", "r": "regex", "p": "prefix"}
_GLOB: Final = re.compile(r"\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


class ColumnIndex:
    """The columns of a schema; a column is known by its position."""

    def __init__(self, schema: pa.Schema, sizes: ColumnSizes) -> None:
        self._schema = schema
        self._sizes = sizes
        self._names: list[str] = schema.names
        # What was asked for last is asked for again with every step of scrolling.
        self.matching = functools.lru_cache(16)(self._matching)
        self.found = functools.lru_cache(16)(self._found)
        self.selected = functools.lru_cache(16)(self._selected)
        self._continued = functools.lru_cache(64)(self._continued_by)

    @functools.cached_property
    def _texts(self) -> pa.Array:
        return pa.array(self._names, pa.string())

    @property
    def has_nulls(self) -> bool:
        """Whether the metadata contains the number of nulls of columns."""
        return self._sizes.have_nulls

    def name(self, position: int) -> str:
        """Return the name of the column at a position, which a client has sent."""
        if not 0 <= position < len(self._names):
            raise RequestError(
                f"column {position} does not exist: there are {len(self._names)} columns"
            )
        return self._names[position]

    # ---- search

    def _matching(self, pattern: str, mode: str) -> Sequence[int]:
        """Return the positions of the columns whose names match, in order.

        Case is ignored, except for prefixes and exact names. Regular expressions are those of RE2, whose time is
        proportional to the length of the names, whatever the pattern.
        """
        import pyarrow.compute as pc

        if mode not in MODES:
            raise RequestError(f"unknown mode {mode!r} (expected {', '.join(MODES)})")
        if not pattern:
            return range(len(self._names))
        if len(pattern) > MAX_PATTERN:
            raise RequestError(f"the pattern is longer than {MAX_PATTERN} characters")
        try:
            if mode == "exact":
                mask = pc.equal(self._texts, pattern)
            elif mode == "prefix":
                mask = pc.starts_with(self._texts, pattern)
            elif mode == "substring":
                mask = pc.match_substring(self._texts, pattern, ignore_case=True)
            else:
                text = _translated(pattern) if mode == "glob" else pattern
                mask = pc.match_substring_regex(self._texts, text, ignore_case=True)
        except pa.ArrowInvalid as error:
            raise RequestError(f"invalid pattern: {_reason(error)}") from error
        found: list[int] = pc.indices_nonzero(mask).to_pylist()
        return found

    def _found(self, pattern: str, mode: str, sort: str, descending: bool) -> Sequence[int]:
        """Return the positions of the columns whose names match, sorted."""
        positions = self.matching(pattern, mode)
        if sort not in SORTS:
            raise RequestError(f"unknown order {sort!r} (expected {', '.join(SORTS)})")
        if sort == "position":
            return positions[::-1] if descending else positions
        if sort == "name":
            return sorted(positions, key=self._names.__getitem__, reverse=descending)
        values = self._sizes.sizes() if sort == "size" else self._sizes.nulls()
        known = [one for one in positions if values[one] is not None]
        known.sort(key=lambda one: values[one] or 0, reverse=descending)
        return known + [one for one in positions if values[one] is None]

    # ---- selections

    def _selected(self, steps: str) -> Sequence[int]:
        """Return the positions of the columns that a selection shows, in order.

        A selection consists of steps, separated by semicolons, and starts with all columns: `all`,
        `none`, `+s:temp` adds the columns that contain this text, `-g:temp_*` removes those that
        match this pattern, `+r:` is for regular expressions, `+p:` for prefixes, and `+i:0-9,12`
        for positions. Text has the escapes of URLs.
        """
        every: Sequence[int] = range(len(self._names))
        if not steps or steps == "all":
            return every
        split = steps.split(";")
        if len(split) > MAX_STEPS:
            raise RequestError(f"the selection has more than {MAX_STEPS} steps")
        chosen = set(every)
        for step in split:
            if step == "all":
                chosen = set(every)
            elif step == "none":
                chosen = set()
            elif step[:1] == "+":
                chosen |= self._of_step(step)
            elif step[:1] == "-":
                chosen -= self._of_step(step)
            elif step:
                raise RequestError(f"unknown step {step[:50]!r} of the selection")
        return sorted(chosen)

    def _of_step(self, step: str) -> set[int]:
        kind, colon, value = step[1:].partition(":")
        if not colon or kind not in (*_LETTERS, "i"):
            raise RequestError(f"unknown step {step[:50]!r} of the selection")
        if kind != "i":
            return set(self.matching(unquote(value), _LETTERS[kind]))
        found: set[int] = set()
        for part in value.split(","):
            first, last = _range_of(part)
            found.update(range(first, min(last, len(self._names) - 1) + 1))
        return found

    # ---- what the page lists

    def entries(self, positions: Sequence[int], selection: str) -> list[dict[str, Any]]:
        """Return what the page shows of columns; `at` is their place in the selection."""
        shown = self.selected(selection)
        sizes, nulls = self._sizes.known_sizes, self._sizes.known_nulls
        return [
            {
                **self.entry(position),
                "at": _place(shown, position),
                "size": None if sizes is None else sizes[position],
                "nulls": None if nulls is None else nulls[position],
            }
            for position in positions
        ]

    def entry(self, position: int) -> dict[str, Any]:
        """Return the name and the type of a column."""
        name = self.name(position)
        field = self._schema.field(position)
        found = {"id": position, "name": printable(name), "type": printable(_type_of(field))}
        if found["name"] != name:
            found["raw"] = name
        return found | {"kind": kind_of(field.type)}

    # ---- tree

    def _continued_by(self, prefix: str) -> list[tuple[str, list[int]]]:
        """Return the continuations of a prefix, and the positions of the columns of each."""
        inside = self.matching(prefix, "prefix")
        ways = continued(prefix, [self._names[position] for position in inside])
        return [(way, [inside[index] for index in indices]) for way, indices in ways.items()]

    def branches(self, prefix: str) -> list[tuple[str, list[int]]]:
        """Return the groups below a prefix, which may be columns alone, in order."""
        if len(prefix) > MAX_PATTERN:
            raise RequestError(f"the prefix is longer than {MAX_PATTERN} characters")
        found = self._continued(prefix)
        # Names that are equal to the prefix cannot be continued.
        return [] if len(found) == 1 and found[0][0] == prefix else found

    def tree(self, prefix: str, start: int, stop: int, selection: str) -> dict[str, Any]:
        """Return some groups below a prefix: columns, or prefixes with their number of columns."""
        branches = self.branches(prefix)
        shown = self.selected(selection)
        sizes = self._sizes.known_sizes
        items: list[dict[str, Any]] = []
        for way, positions in branches[start:stop]:
            if len(positions) == 1:
                items += self.entries(positions, selection)
                continue
            low, high = (_start_of(shown, end) for end in (positions[0], positions[-1] + 1))
            is_run = positions[-1] - positions[0] + 1 == len(positions)
            count = high - low if is_run else _num_common(shown, positions)
            item: dict[str, Any] = {"prefix": way, "name": printable(way)}
            item |= {"columns": len(positions), "shown": count}
            item["size"] = sizes and sum(sizes[one] or 0 for one in positions)
            items.append(item)
        return {"total": len(branches), "from": start, "items": items}


def kind_of(type: pa.DataType) -> str:
    """Return how values of a type are shown and counted: number, time, text, bool or other."""
    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type):
        return "number"
    if types.is_temporal(type) and not types.is_interval(type):
        return "time"
    if types.is_dictionary(type):
        return kind_of(type.value_type)
    if types.is_boolean(type):
        return "bool"
    is_text = types.is_string(type) or types.is_large_string(type) or types.is_string_view(type)
    return "text" if is_text else "other"


def _type_of(field: pa.Field) -> str:
    text = short_type(field.type)
    return text if field.nullable else f"{text} not null"


def _translated(glob: str) -> str:
    """Return a regular expression for names that match a glob completely."""
    parts = []
    for part in _GLOB.findall(glob):
        if part == "*":
            parts.append(".*")
        elif part == "?":
            parts.append(".")
        elif len(part) > 1:
            inside = part[1:-1].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
        else:
            parts.append(re.escape(part))
    return rf"(?s)\A{''.join(parts)}\z"


def _reason(error: Exception) -> str:
    return str(error).removeprefix("Invalid regular expression: ")


def _range_of(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (first.isascii() and first.isdigit()) or (dash and not last.isdigit()):
        raise RequestError(f"invalid positions {text[:50]!r} (expected e.g. 3 or 3-9)")
    return int(first), int(last if dash else first)


def _start_of(shown: Sequence[int], position: int) -> int:
    return bisect_left(shown, position)


def _place(shown: Sequence[int], position: int) -> int | None:
    place = _start_of(shown, position)
    return place if place < len(shown) and shown[place] == position else None


def _num_common(shown: Sequence[int], positions: Sequence[int]) -> int:
    if isinstance(shown, range):
        return len(positions)
    return len(set(shown).intersection(positions))
