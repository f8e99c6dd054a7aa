"""The targets, as ratios within one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .plan import (
    ALL_STATISTICS,
    FIRST,
    HUNDRED,
    IMPORT,
    NEW_SCHEMA,
    OPEN,
    TEN,
    WITH_STATISTICS,
    WITHOUT_STATISTICS,
    Case,
    Plan,
)
from .results import FLOOR, OURS, REFERENCE, SIZE, TIME, WHOLE, WRITE, Results


@dataclass(frozen=True)
class Target:
    """What should be, and what is."""

    text: str
    measured: float | None  # None if the run did not include it
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        if self.at_least is not None:
            return self.measured >= self.at_least
        assert self.at_most is not None
        return self.measured <= self.at_most

    @property
    def verdict(self) -> str:
        return {True: "met", False: "NOT met", None: "not measured"}[self.met]


def at_least(results: Results, case: str, peer: str, times: float) -> Target:
    """That a case is so many times faster than with a peer."""
    measured = results.ratio(case, TIME, peer, OURS)
    text = f"{case}: at least {times} times faster than {peer}"
    return Target(text, measured, at_least=times, note="times")


def at_most(
    results: Results, case: str, measure: str, peer: str, times: float, what: str
) -> Target:
    """That a case needs at most so many times what a peer needs."""
    measured = results.ratio(case, measure, OURS, peer)
    return Target(f"{what}: at most {times} times {peer}", measured, at_most=times, note="times")


def targets(results: Results) -> list[Target]:
    """All targets, in the order of their list."""
    compare = _Comparison(results, Plan.of(results))
    found = [
        *compare.faster(OPEN, 500, reference=25, peers=8),
        compare.floor(OPEN, 500, 5),
        *compare.faster(TEN, 4_500, reference=30, peers=4),
        *compare.faster(HUNDRED, 4_500, reference=40, peers=2),
        *compare.faster(WHOLE, 4_500, reference=3, peers=1),
    ]
    for rows, times in ((10, 10), (500, 3), (4_500, 3)):
        found.append(compare.reference(WRITE, compare.wide(rows), rows, times))
    for case in compare.plan.cases:
        if case.only is None:
            found += [compare.other(WRITE, case, name) for name in ("Parquet", "ORC")]
    for rows in (10, 500, 4_500):
        found += compare.smaller(rows)
    found += compare.growth()
    found += [
        compare.floor(WHOLE, rows, times) for rows, times in ((10, 5), (500, 2), (4_500, 1.15))
    ]
    for rows in (10, 500, 4_500):
        found += compare.own(rows)
    seconds = results.get(IMPORT, TIME, OURS)
    text = "`import fastmosaic` adds at most 30 ms to `import pyarrow`"
    found.append(Target(text, seconds and seconds * 1000, at_most=30, note="ms"))
    return found


@dataclass(frozen=True)
class _Comparison:
    results: Results
    plan: Plan

    def wide(self, rows: int) -> Case | None:
        return self.plan.find("wide", 10_000, rows)

    def faster(
        self, measure: str, rows: int, *, reference: float, peers: float
    ) -> Iterator[Target]:
        case = self.wide(rows)
        yield self.reference(measure, case, rows, reference)
        best, note = self._best(case, measure)
        ours = self.results.get(case, measure, OURS)
        times = f"at least {peers} times " if peers > 1 else ""
        yield Target(
            f"{measure}, {rows:,} rows: {times}faster than every peer",
            best / ours if best and ours else None,
            at_least=peers,
            note=note,
        )

    def _best(self, case: Case | None, measure: str) -> tuple[float | None, str]:
        """The result of the best peer, and who that is and who is not among them."""
        best = self.results.best_peer(case, measure)
        if best is None:
            return None, ""
        absent = [name for name in self.results.names if not self.results.get(case, measure, name)]
        note = f"times; next is {best[0]}"
        return best[1], note + (f"; without {', '.join(absent)}" if absent else "")

    def reference(self, measure: str, case: Case | None, rows: int, times: float) -> Target:
        return Target(
            f"{measure}, {rows:,} rows: at least {times} times faster than {REFERENCE}",
            self.results.ratio(case, measure, REFERENCE, OURS),
            at_least=times,
            note="times",
        )

    def floor(self, measure: str, rows: int, times: float) -> Target:
        return Target(
            f"{measure}, {rows:,} rows: at most {times} times the physical floor",
            self.results.ratio(self.wide(rows), measure, OURS, FLOOR),
            at_most=times,
            note="times",
        )

    def other(self, measure: str, case: Case, name: str) -> Target:
        return Target(
            f"{measure}, {case.kind}, {case.rows:,} rows: faster than {name}",
            self.results.ratio(case, measure, name, OURS),
            at_least=1,
            note="times",
        )

    def smaller(self, rows: int) -> Iterator[Target]:
        case = self.wide(rows)
        yield Target(
            f"{SIZE}, {rows:,} rows: at most that of {REFERENCE}",
            self.results.ratio(case, SIZE, OURS, REFERENCE),
            at_most=1,
            note="times",
        )
        best, note = self._best(case, SIZE)
        ours = self.results.get(case, SIZE, OURS)
        yield Target(
            f"{SIZE}, {rows:,} rows: the smallest of all",
            ours / best if best and ours else None,
            at_most=1,
            note=note,
        )

    def own(self, rows: int) -> Iterator[Target]:
        """Targets without contenders."""
        case = self.wide(rows)
        yield self._milliseconds(FIRST, rows, 1)
        yield self.floor(NEW_SCHEMA, rows, 3)
        yield self._milliseconds(ALL_STATISTICS, rows, 20)
        with_all, without = (
            self.results.get(case, measure, OURS)
            for measure in (WITH_STATISTICS, WITHOUT_STATISTICS)
        )
        yield Target(
            f"{WITH_STATISTICS}, {rows:,} rows: at most 1.15 times as long as without",
            with_all / without if with_all and without else None,
            at_most=1.15,
            note="times",
        )

    def _milliseconds(self, measure: str, rows: int, most: float) -> Target:
        seconds = self.results.get(self.wide(rows), measure, OURS)
        text = f"{measure}, {rows:,} rows: at most {most} ms"
        return Target(text, seconds and 1000 * seconds, at_most=most, note="ms")

    def growth(self) -> Iterator[Target]:
        many = self.plan.find("wide", 100_000, 10)
        few = self.results.get(self.wide(10), OPEN, OURS)
        ours = self.results.get(many, OPEN, OURS)
        yield Target(
            f"{OPEN} of 100,000 columns: at most 12 times as long as of 10,000",
            ours / few if ours and few else None,
            at_most=12,
            note="times",
        )
        yield Target(
            f"{OPEN} of 100,000 columns: less than a tenth of {REFERENCE}",
            self.results.ratio(many, OPEN, OURS, REFERENCE),
            at_most=0.1,
            note="times",
        )
