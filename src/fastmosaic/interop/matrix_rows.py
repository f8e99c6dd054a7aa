"""Which rows of row groups a matrix consists of, and where they go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..file.fetch import is_sparse
from ..file.fill import GroupRows
from ..query.rows import Rows
from .numbers import import_numpy


@dataclass(frozen=True, slots=True)
class GroupMatches:
    """A row group of a file, and those of its rows that match the filter, ascending; None for all."""

    unit: int  # the number of the file
    group: int
    num_rows: int
    matches: Any = None

    @property
    def count(self) -> int:
        return self.num_rows if self.matches is None else len(self.matches)

    def between(self, start: int, stop: int) -> GroupRows:
        """Return the rows from place `start` to `stop` among the matches; they go to the first rows."""
        if self.matches is None:
            return GroupRows(self.group, start, stop - start, 0)
        return _chosen_rows(self.group, 0, self.matches[start:stop])

    def numbers_between(self, start: int, stop: int) -> Rows:
        """Return the numbers of these rows in the row group."""
        if self.matches is None:
            return Rows([(start, stop)])
        return Rows.numbered(self.matches[start:stop].tolist())


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """Rows of the matrix: where each row group goes, by the number of its file, and their number."""

    num_rows: int
    groups: dict[int, list[GroupRows]]
    rows: Any = None  # their numbers among the rows that match, if not all


def selected(groups: Sequence[GroupMatches], rows: Any) -> SelectedRows:
    """Return where the rows of row groups go: all that match, or those of them numbered `rows`."""
    total = sum(one.count for one in groups)
    if rows is not None and len(rows):
        Rows.numbered([int(rows.min()), int(rows.max())]).check(total)
    made: dict[int, list[GroupRows]] = {}
    for unit, found in _every(groups) if rows is None else _numbered(groups, rows):
        if found.count:
            made.setdefault(unit, []).append(found)
    return SelectedRows(total if rows is None else len(rows), made, rows)


def _every(groups: Sequence[GroupMatches]) -> Iterator[tuple[int, GroupRows]]:
    before = 0
    for one in groups:
        found = one.between(0, one.count)
        found.row = before
        yield one.unit, found
        before += one.count


def _numbered(groups: Sequence[GroupMatches], rows: Any) -> Iterator[tuple[int, GroupRows]]:
    np = import_numpy()
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    before = 0
    for one in groups:
        first, after = np.searchsorted(ascending, [before, before + one.count])
        own = ascending[first:after] - before
        chosen = own if one.matches is None else one.matches[own]
        yield one.unit, _chosen_rows(one.group, 0, chosen, order[first:after])
        before += one.count


def _chosen_rows(group: int, row: int, chosen: Any, targets: Any = None) -> GroupRows:
    """Return rows by number, ascending, and where each goes; only these are decoded if they are few."""
    np = import_numpy()
    if not len(chosen):
        return GroupRows(group, 0, 0, row)
    targets = np.arange(len(chosen)) if targets is None else np.ascontiguousarray(targets)
    start, count = int(chosen[0]), int(chosen[-1] - chosen[0]) + 1
    distinct, places = np.unique(chosen, return_inverse=True)
    if is_sparse(len(distinct), count):
        ranges = Rows.numbered(distinct.tolist()).flat_ranges
        return GroupRows(group, 0, len(distinct), row, places, targets, ranges)
    return GroupRows(group, start, count, row, chosen - start, targets)
