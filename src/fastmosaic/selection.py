"""Columns that a user names, one by one or by globs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate

from .discovery import MAGIC
from .errors import ColumnNotFoundError


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
    if not MAGIC.search(pattern):
        raise ColumnNotFoundError.for_name(pattern, names)
    matches = re.compile(translate(pattern)).match
    found = [name for name in names if matches(name)]
    if not found:
        literal = ColumnNotFoundError.for_name(MAGIC.sub("", pattern), names)
        _, semicolon, hint = str(literal).partition(";")
        raise ColumnNotFoundError(f"no column matches {pattern!r}{semicolon}{hint}")
    yield from found
