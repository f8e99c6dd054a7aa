"""The results as tables: plain text for the terminal, Markdown for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from . import results as units
from .contenders import CONTENDERS
from .plan import HUNDRED, OPEN, Case, Plan
from .results import FLOOR, OURS, REFERENCE, SIZE, TIME, WHOLE, WRITE, Results
from .targets import Target, targets

LEGEND = (
    f"ref/fm is {REFERENCE} divided by {OURS}: 2 means that {OURS} needs half as much. "
    f"peer/fm is the best of the other formats divided by {OURS}. fm/floor is {OURS} divided by the "
    "physical floor: reading and decompressing exactly the blocks that the query needs."
)


@dataclass(frozen=True)
class Grid:
    """A table to print; columns of text are `left`, figures at the right."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    left: Sequence[int] = (0,)

    def text(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.header))]
        printed = [
            "  ".join(
                cell.ljust(width) if i in self.left else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rule = "-" * max(map(len, printed))
        notes = [f"  {note}" for note in self.notes]
        return "\n".join([self.title, rule, printed[0], rule, *printed[1:], *notes]) + "\n"

    def markdown(self, heading: str = "###") -> str:
        rule = ["---" if i in self.left else "---:" for i in range(len(self.header))]
        lines = [self.header, rule, *self.rows]
        printed = ["| " + " | ".join(line) + " |" for line in lines]
        notes = ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join([f"{heading} {self.title}", "", *printed, *notes]) + "\n"


def figure(value: float | None) -> str:
    """A number with about three digits."""
    if value is None:
        return "-"
    for limit, digits in ((100, 0), (10, 1), (1, 2)):
        if value >= limit:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"


def _digits(value: float | None) -> str:
    """Like `figure`, but 1.004 does not look like 1."""
    return f"{value:.3f}" if value is not None and value < 10 else figure(value)


def unit(measure: str) -> tuple[str, float]:
    """The unit in which a measure is shown, and how many of it one second or byte is."""
    if units.unit(measure) == "bytes":
        return "MB", 1e-6
    return ("s", 1.0) if measure.startswith(WRITE) else ("ms", 1e3)


def case_grid(results: Results, case: Case) -> Grid:
    """All measures of a case, contenders side by side."""
    rows = []
    for measure in results.measures(case):
        name, scale = unit(measure)
        values = [results.get(case, measure, who) for who in [*results.names, FLOOR]]
        best = results.best_peer(case, measure)
        ours = results.get(case, measure, OURS)
        ratios = [
            results.ratio(case, measure, REFERENCE, OURS),
            best[1] / ours if best and ours else None,
            results.ratio(case, measure, OURS, FLOOR),
        ]
        cells = [None if value is None else value * scale for value in values] + ratios
        rows.append([f"{measure}, {name}", *map(figure, cells)])
    notes = [
        f"{who}, {measure}: {missing.reason}"
        for (at, measure, who), missing in results.missing.items()
        if at == str(case)
    ]
    header = ["", *results.names, FLOOR, "ref/fm", "peer/fm", "fm/floor"]
    return Grid(str(case), header, rows, notes)


def case_list(results: Results, title: str, cases: Sequence[str], measure: str = TIME) -> Grid:
    """Cases and their contenders, one below the other."""
    name, scale = ("kB", 1e-3) if measure == SIZE else ("ms", 1e3)
    rows = [
        [case, name, figure(scale * value), figure(value / results.of(case, measure)[OURS])]
        for case in cases
        for name, value in results.of(case, measure).items()
    ]
    return Grid(title, ["", "", name, f"relative to {OURS}"], rows, left=(0, 1))


SUMMARY = (OPEN, HUNDRED, WHOLE, WRITE, SIZE)


def summary_grid(results: Results) -> Grid | None:
    """The most important results: the largest table that everyone was measured with."""
    case = Plan.of(results).find("wide", 10_000, 4_500)
    if case is None:
        return None
    rows = []
    for measure in SUMMARY:
        name, scale = unit(measure)
        values = [results.get(case, measure, who) for who in results.names]
        cells = [None if value is None else value * scale for value in values]
        rows.append([f"{measure}, {name}", *map(figure, cells)])
    return Grid(str(case), [str(case), *results.names], rows)


def growth_grids(results: Results) -> Iterator[Grid]:
    """How reading grows with columns and with rows."""
    growths: dict[Literal["columns", "rows"], list[str]] = {
        "columns": [OPEN],
        "rows": [OPEN, HUNDRED, WHOLE],
    }
    for along, measures in growths.items():
        cases = Plan.of(results).growth(along)
        if len(cases) < 2:
            continue
        for measure in measures:
            name, scale = unit(measure)
            rows = []
            for who in [*results.names, FLOOR]:
                values = [results.get(case, measure, who) for case in cases]
                first, last = values[0], values[-1]
                growth = last / first if first and last else None
                cells = [None if value is None else value * scale for value in values]
                rows.append([who, *map(figure, [*cells, growth])])
            header = ["", *(f"{case.columns:,} x {case.rows:,}" for case in cases), "last/first"]
            yield Grid(f"Growth with {along}: {measure}, {name}", header, rows)


def target_grid(title: str, targets: Sequence[Target]) -> Grid:
    """Each target, what was measured, and whether it is met."""
    rows = [[one.text, one.verdict, _digits(one.measured), one.note] for one in targets]
    return Grid(title, ["", "", "measured", ""], rows, left=(0, 1, 3))


def file_targets(results: Results) -> Grid:
    title = 'Targets ("wide" with 10,000 columns unless stated otherwise)'
    return target_grid(title, targets(results))


def contender_grid(results: Results) -> Grid:
    """Versions, and how each contender is used."""
    versions = results.about["versions"]
    rows = [
        [c.name, f"{c.package} {versions.get(c.package, '')}", c.writes, c.reads, c.filters]
        for c in CONTENDERS
        if c.name in results.names
    ]
    return Grid(
        "Contenders", ["", "version", "writes by", "reads by", "filters"], rows, left=range(5)
    )


def remarks(results: Results) -> list[str]:
    """What was checked, what was cast for it, and what was wrong."""
    lines = [
        f"{sum(results.comparisons.values())} results were compared column by column with the table "
        "that was written" + (":" if results.wrong else "; all of them are equal.")
    ]
    lines += [f"WRONG: {line}" for line in results.wrong]
    for name, casts in results.casts.items():
        if casts:
            lines.append(
                f"{name} returns other types, which were cast before comparing: {', '.join(sorted(casts))}."
            )
    return lines


def text(results: Results) -> str:
    """The report for the terminal."""
    grids = [case_grid(results, case) for case in Plan.of(results).cases]
    grids += growth_grids(results)
    parts = ["; ".join(f"{key}: {value}" for key, value in facts(results).items())]
    parts += ["", *(grid.text() for grid in grids), LEGEND, *remarks(results), ""]
    return "\n".join([*parts, file_targets(results).text()])


def facts(results: Results) -> dict[str, str]:
    """When and where results were measured, and what was installed there."""
    about = results.about
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    commit = {"Commit": about["commit"]} if about["commit"] else {}
    return {"Date": about["date"], **commit, **about["machine"], "Versions": versions}


def fact_list(results: Results) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts(results).items())
