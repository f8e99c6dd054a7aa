"""Columns that a caller selects by name or by glob."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Final

from ..errors import ColumnNotFoundError

GLOB: Final = re.compile(r"[*?[]")


def selected(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return those of `names` that the patterns select, in the order of the patterns, each once.

    A pattern that is an existing name selects that column, even if it contains `*`, `?` or `[`.
    """
    known = set(names)
    found = (name for one in patterns for name in _matches(one, names, known.__contains__))
    return list(dict.fromkeys(found))


def expanded(
    columns: Iterable[str], has: Callable[[str], bool], names: Callable[[], Sequence[str]]
) -> list[str]:
    """Return `columns`, each once, with the columns that globs match in place of the globs.

    `has(name)` tells whether a column exists. `names()` returns all names; it is called only if
    there is a glob. Names without glob characters are not checked.
    """
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, not a str: [{columns!r}]")
    asked = list(dict.fromkeys(columns))
    for name in asked:
        if not isinstance(name, str):
            raise TypeError(f"a column name must be a str, not {type(name).__name__}")
    if not GLOB.search("".join(asked)):
        return asked
    found: dict[str, None] = {}
    everything: Sequence[str] | None = None
    for name in asked:
        if not GLOB.search(name) or has(name):
            found[name] = None
            continue
        if everything is None:
            everything = names()
        found.update(dict.fromkeys(_matches(name, everything, has)))
    return list(found)


def _matches(pattern: str, names: Sequence[str], has: Callable[[str], bool]) -> Iterator[str]:
    if has(pattern):
        yield pattern
        return
    if not GLOB.search(pattern):
        raise ColumnNotFoundError.for_name(pattern, names)
    matches = re.compile(translate(pattern)).match
    found = [name for name in names if matches(name)]
    if not found:
        raise ColumnNotFoundError.for_pattern(pattern, GLOB.sub("", pattern), names)
    yield from found


def split_names(text: str) -> list[str]:
    """Split names that are separated by commas, as in one argument of a command."""
    return [name.strip() for name in text.split(",") if name.strip()]
