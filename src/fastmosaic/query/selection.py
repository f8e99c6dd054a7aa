"""Columns that a user names, one by one or by globs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from typing import Final

from ..errors import ColumnNotFoundError

GLOB: Final = re.compile(r"[*?[]")


def selected(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Those of `names` that patterns stand for, in the order of these, each once.

    A name that is there is never taken for a glob.
    """
    known = set(names)
    return list(dict.fromkeys(name for one in patterns for name in _matches(one, names, known)))


def _matches(pattern: str, names: Sequence[str], known: set[str]) -> Iterator[str]:
    if pattern in known:
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
    """Names with commas between them, as one argument of a command."""
    return [name.strip() for name in text.split(",") if name.strip()]
