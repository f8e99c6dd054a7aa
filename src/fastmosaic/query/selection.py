"""Columns that a caller selects by name or by glob."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import cached_property
from typing import Final, Protocol

from ..errors import ColumnNotFoundError
from ..format.names import similar_names

GLOB: Final = re.compile(r"[*?[]")


class Choices(Protocol):
    """The columns that can be selected. A `ColumnSet` never lists all of them to find one."""

    def has(self, name: str) -> bool: ...

    def paths(self) -> Sequence[str]: ...

    def similar(self, name: str) -> Iterable[str]: ...


class NameList:
    """A list of names to select from."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    @cached_property
    def _known(self) -> set[str]:
        return set(self._names)

    def has(self, name: str) -> bool:
        return name in self._known

    def paths(self) -> Sequence[str]:
        return self._names

    def similar(self, name: str) -> list[str]:
        return similar_names(name, self._names)


def selected(patterns: Iterable[str], choices: Choices) -> list[str]:
    """Return the names that the patterns select, in the order of the patterns, each once.

    A pattern that is an existing name selects that column, even if it contains `*`, `?` or `[`.
    """
    asked = list(patterns)
    for name in asked:
        if not GLOB.search(name) and not choices.has(name):
            raise ColumnNotFoundError.for_name(name, choices.similar(name))
    return expanded(asked, choices)


def expanded(columns: Iterable[str], choices: Choices) -> list[str]:
    """Return `columns`, each once, with the columns that globs match in place of the globs.

    Names without glob characters are not checked.
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
    names: Sequence[str] | None = None
    for name in asked:
        if not GLOB.search(name) or choices.has(name):
            found[name] = None
            continue
        if names is None:
            names = choices.paths()
        matches = _matches(name, names)
        if not matches:
            literal = GLOB.sub("", name)
            raise ColumnNotFoundError.for_pattern(name, literal, choices.similar(literal))
        found.update(dict.fromkeys(matches))
    return list(found)


def _matches(pattern: str, names: Sequence[str]) -> list[str]:
    """Return the names that a glob matches."""
    # Looking for a literal part first is several times faster.
    literal = max(re.split(r"[*?]", pattern.partition("[")[0]), key=len)
    matches = re.compile(translate(pattern)).match
    return [name for name in names if literal in name and matches(name)]


def split_names(text: str) -> list[str]:
    """Split names that are separated by commas, as in one argument of a command."""
    return [name.strip() for name in text.split(",") if name.strip()]
