"""What was measured, by case, measure and contender."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from .contenders import OURS, REFERENCE, Contender
from .plan import Case, Plan

FLOOR = "floor"  # stands among the contenders


@dataclass(frozen=True)
class Missing:
    """Why there is no result."""

    reason: str
    wrong: bool = False  # the contender returned other values than were written


@dataclass
class Results:
    """Seconds or bytes, the best of all runs, and why some are missing."""

    plan: Plan
    contenders: tuple[Contender, ...]
    values: dict[tuple[Case, str, str], float] = field(default_factory=dict)
    missing: dict[tuple[Case, str, str], Missing] = field(default_factory=dict)
    comparisons: Counter[str] = field(default_factory=Counter)  # by contender
    casts: dict[str, set[str]] = field(default_factory=dict)  # that comparing took
    import_seconds: float | None = None

    def add(self, case: Case, measure: str, name: str, value: float | Missing) -> None:
        """Keep a result if it is the best so far, or why there is none."""
        key = case, measure, name
        if isinstance(value, Missing):
            self.missing[key] = value
        else:
            self.values[key] = min(value, self.values.get(key, value))

    def checked(self, name: str, casts: Iterable[str]) -> None:
        """Count a result that was compared, after some casts, with what was written."""
        self.comparisons[name] += 1
        self.casts.setdefault(name, set()).update(casts)

    @property
    def names(self) -> list[str]:
        """The contenders, by name."""
        return [contender.name for contender in self.contenders]

    @property
    def wrong(self) -> list[str]:
        """Who returned other values than were written, and where."""
        return [
            f"{name}, {case}, {measure}: {missing.reason}"
            for (case, measure, name), missing in self.missing.items()
            if missing.wrong
        ]

    def measures(self, case: Case) -> list[str]:
        """What was measured of a case."""
        return list(dict.fromkeys(measure for at, measure, _ in self.values if at == case))

    def find(self, kind: str, columns: int, rows: int) -> Case | None:
        """The case with such a table, other than the one in row groups."""
        for case in self.plan.cases:
            if (case.kind, case.columns, case.rows, case.group_rows) == (kind, columns, rows, 0):
                return case
        return None

    def growth(self, along: Literal["columns", "rows"]) -> list[Case]:
        """The cases of "wide" that differ in nothing but their columns, or rows; smallest first."""
        other = "rows" if along == "columns" else "columns"
        cases = [case for case in self.plan.cases if case.kind == "wide" and not case.group_rows]
        counts = Counter(getattr(case, other) for case in cases)
        if not counts:
            return []
        common = counts.most_common(1)[0][0]
        found = [case for case in cases if getattr(case, other) == common]
        return sorted(found, key=lambda case: getattr(case, along))

    def get(self, case: Case | None, measure: str, name: str) -> float | None:
        return None if case is None else self.values.get((case, measure, name))

    def best_peer(self, case: Case | None, measure: str) -> tuple[str, float] | None:
        """The best of the others, the reference aside, and its result."""
        found = {
            name: value
            for name in self.names
            if name not in (OURS, REFERENCE)
            and (value := self.get(case, measure, name)) is not None
        }
        return min(found.items(), key=lambda item: item[1], default=None)

    def ratio(self, case: Case | None, measure: str, over: str, under: str) -> float | None:
        """The result of `over`, in units of that of `under`."""
        above, below = self.get(case, measure, over), self.get(case, measure, under)
        return above / below if above is not None and below else None
