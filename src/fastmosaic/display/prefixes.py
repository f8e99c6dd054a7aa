"""Grouping thousands of names by common prefixes or suffixes.

Names are split into words at separators, between letters and digits, and where lower case letters
end. A group is divided by the next word as long as it contains a good part of all names and the
parts are neither too many nor too small. Names that are in no part remain together as the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

_LETTERS: Final = r"\d+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+"  # 12, HTTP, Server or server, über
_WORD: Final = re.compile(rf"{_LETTERS}|[\W_]+")
_STEP: Final = re.compile(rf"[\W_]*(?:{_LETTERS})?[\W_]*")
_MIN_SHARE: Final = 0.1  # smaller groups are not divided; a share of all names
_MIN_COVERED: Final = 0.25  # share of the names of a group that its parts must contain
_MAX_GROUPS: Final = 100
_MAX_SMALL: Final = 200  # a part must contain at least 1 of every 200 names


@dataclass(frozen=True, slots=True)
class Group:
    """Names that start or end with the same text.

    fixed      the common text
    at_end     whether the names end with it
    is_rest    whether some names with this text are in groups of their own
    members    indices of the names
    """

    fixed: str
    at_end: bool
    is_rest: bool
    members: list[int]

    @property
    def pattern(self) -> str:
        """A glob that matches the names; the pattern of a rest also matches other groups."""
        return f"*{self.fixed}" if self.at_end else f"{self.fixed}*"

    @property
    def label(self) -> str:
        """What people see: the pattern, unless it also matches other groups."""
        if not self.is_rest:
            return self.pattern
        return f"other {self.pattern}" if self.fixed else "others"

    def varying(self, name: str) -> str:
        """Return the part of `name` that differs within the group."""
        return name.removesuffix(self.fixed) if self.at_end else name.removeprefix(self.fixed)


def grouped(names: Sequence[str]) -> list[Group]:
    """Group names by common prefixes, or by suffixes if prefixes do not divide them."""
    words = [_WORD.findall(name) for name in names]
    by_prefix = _divided(words, at_end=False)
    if len(by_prefix) > 1:
        return by_prefix
    by_suffix = _divided([list(reversed(one)) for one in words], at_end=True)
    return by_suffix if len(by_suffix) > 1 else by_prefix


def next_words(prefix: str, names: Sequence[str]) -> list[str]:
    """Return the possible continuations of `prefix`, up to the first word in which names differ."""
    return list(continued(prefix, names))


def continued(prefix: str, names: Sequence[str]) -> dict[str, list[int]]:
    """Group names that start with `prefix` by its continuations; return their indices.

    >>> continued("", ["temp_max", "temp_min", "id"])
    {'temp_': [0, 1], 'id': [2]}
    """
    ends = [len(prefix)] * len(names)
    while True:
        further = [
            _STEP.match(name, end).end()  # type: ignore[union-attr]  # it matches the empty string
            for name, end in zip(names, ends, strict=True)
        ]
        ways: dict[str, list[int]] = {}
        for index, (name, end) in enumerate(zip(names, further, strict=True)):
            ways.setdefault(name[:end], []).append(index)
        if len(ways) > 1 or further == ends:
            return ways
        ends = further


def _divided(words: Sequence[Sequence[str]], at_end: bool) -> list[Group]:
    total = len(words)
    smallest = max(2, total // _MAX_SMALL)
    done: list[tuple[int, bool, list[int]]] = []  # number of common words, whether a rest, members
    pending = [(_num_common(words, range(total), 0), list(range(total)))]
    while pending:
        pending.sort(key=lambda node: len(node[1]))
        depth, members = pending.pop()
        parts: dict[str | None, list[int]] = {}
        if len(members) > total * _MIN_SHARE:
            for index in members:
                word = words[index][depth] if depth < len(words[index]) else None
                parts.setdefault(word, []).append(index)
        kept = [part for part in parts.values() if len(part) >= smallest]
        num_groups = len(done) + len(pending) + len(kept) + 1
        if not _MIN_COVERED * len(members) <= sum(map(len, kept)) or num_groups > _MAX_GROUPS:
            kept = []
        pending += [(_num_common(words, part, depth + 1), part) for part in kept]
        taken = {index for part in kept for index in part}
        rest = [index for index in members if index not in taken]
        if rest:
            done.append((depth, bool(kept), rest))
    return [
        Group(_joined(words[members[0]][:depth], at_end), at_end, is_rest, members)
        for depth, is_rest, members in done
    ]


def _num_common(words: Sequence[Sequence[str]], members: Sequence[int], depth: int) -> int:
    """Count the words that all members start with; the first `depth` are known to be equal."""
    if not members:
        return 0
    first, *others = members
    common = len(words[first])
    for index in others:
        pairs = zip(words[first][depth:common], words[index][depth:], strict=False)
        common = depth + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        if common == depth:
            break
    return common


def _joined(words: Sequence[str], at_end: bool) -> str:
    return "".join(reversed(words) if at_end else words)
