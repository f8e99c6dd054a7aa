"""docs/kinds.md: size and speed by kind of column."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from . import plots, report
from .kinds import SMALL_ROWS
from .plan import WRITE_OPEN, Case, Plan
from .report import Grid, figure
from .results import OURS, REFERENCE, SIZE, WHOLE, WRITE, Results
from .targets import Target

PARQUET = ("Parquet", "Parquet, no dictionary")
SMALLER = "Parquet, the smaller"
MOST = 1.03  # times the smaller Parquet file

# What is compared, by the head of its column.
MEASURES = {SIZE: "size", WRITE: "write", WRITE_OPEN: "write, no sync", WHOLE: "read"}


@dataclass(frozen=True)
class Kinds:
    """The results of one part, or of all of them."""

    results: Results
    cases: Sequence[Case]

    def parts(self) -> Iterator[tuple[str, Kinds]]:
        for part in dict.fromkeys(case.part for case in self.cases):
            yield part, Kinds(self.results, [case for case in self.cases if case.part == part])

    @property
    def names(self) -> list[str]:
        """The contenders, with one Parquet: the one whose file is smaller, case by case."""
        names = [name for name in self.results.names if name not in PARQUET]
        at = names.index("ORC") if "ORC" in names else len(names)
        return [*names[:at], SMALLER, *names[at:]]

    def get(self, case: Case, measure: str, name: str) -> float | None:
        """A result; of the smaller Parquet, that of the file which is smaller."""
        if name == SMALLER:
            sizes = self.results.of(case, SIZE)
            written = [one for one in PARQUET if one in sizes]
            if not written:
                return None
            name = min(written, key=sizes.__getitem__)
        return self.results.get(case, measure, name)

    def ratio(self, case: Case, measure: str, name: str) -> float | None:
        """Ours, in units of another's; infinite if only the other could do it."""
        ours = self.get(case, measure, OURS)
        theirs = self.get(case, WRITE if measure == WRITE_OPEN else measure, name)
        if not theirs:
            return None
        return math.inf if ours is None else ours / theirs

    def ratios(self, measure: str, name: str) -> dict[Case, float]:
        found = {case: self.ratio(case, measure, name) for case in self.cases}
        return {case: ratio for case, ratio in found.items() if ratio is not None}

    def sums(self, measure: str, name: str) -> tuple[float, float, int]:
        """Ours, another's, and the number of cases: those that both have."""
        pairs = [
            (ours, theirs)
            for case in self.cases
            if (ours := self.get(case, measure, OURS)) is not None
            and (theirs := self.get(case, measure, name)) is not None
        ]
        return sum(ours for ours, _ in pairs), sum(theirs for _, theirs in pairs), len(pairs)


def of(results: Results) -> Kinds:
    return Kinds(results, Plan.of(results).cases)


# ---- tables


def part_grid(kinds: Kinds, title: str) -> Grid:
    """Sizes of all contenders for each kind, and how we compare with Parquet."""
    rows = []
    for case in kinds.cases:
        sizes = [kinds.results.get(case, SIZE, name) for name in kinds.results.names]
        ratios = [kinds.ratio(case, measure, SMALLER) for measure in MEASURES]
        rows.append([_label(case, kinds), *map(_kilobytes, sizes), *map(_ratio, ratios)])
    notes = [
        f"{name}, {case.kind}, {measure}: {missing.reason}"
        for (at, measure, name), missing in kinds.results.missing.items()
        for case in kinds.cases
        if str(case) == at
    ]
    header = ["kB", *kinds.results.names, *MEASURES.values()]
    return Grid(title, header, rows, notes)


def _label(case: Case, kinds: Kinds) -> str:
    """The name of a kind, with its shape where that differs from the others."""
    shapes = {(one.columns, one.rows) for one in kinds.cases}
    return case.kind if len(shapes) == 1 else f"{case.kind} ({case.columns:,} x {case.rows:,})"


def sum_grid(kinds: Kinds) -> Grid:
    """The sum of the sizes in each part, and how much larger those of the others are."""
    rows = []
    for part, some in [*kinds.parts(), ("all", kinds)]:
        cells = []
        for name in kinds.names:
            ours, theirs, count = some.sums(SIZE, name)
            lacking = len(some.cases) - count
            note = f" ({lacking} missing)" if lacking and count else ""
            ratio = "" if name == OURS or not count else f", {theirs / ours:.2f} x"
            cells.append(f"{figure(theirs / 1e6)}{ratio}{note}" if count else "-")
        rows.append([part, *cells])
    return Grid("Sums, MB, and relative to fastmosaic", ["", *kinds.names], rows)


def speed_grid(kinds: Kinds) -> Grid:
    """Geometric means of our times relative to those of the others."""
    rows = []
    for part, some in [*kinds.parts(), ("all", kinds)]:
        for measure, verb in MEASURES.items():
            found = [some.ratios(measure, name) for name in kinds.names if name != OURS]
            means = [geometric_mean(ratios.values()) if ratios else None for ratios in found]
            rows.append([f"{part}: {verb}", *map(_ratio, means)])
    others = [name for name in kinds.names if name != OURS]
    return Grid("fastmosaic relative to the others, geometric means", ["", *others], rows)


def larger_grid(kinds: Kinds) -> Grid:
    """The kinds for which another format has a smaller file, the largest difference first."""
    found = []
    for case in kinds.cases:
        ours = kinds.get(case, SIZE, OURS)
        best = kinds.results.best_peer(case, SIZE)
        if best and ours and ours > best[1]:
            orc = kinds.ratio(case, SIZE, "ORC")
            found.append((ours / best[1], case, best[0], orc))
    found.sort(key=lambda one: one[0], reverse=True)
    rows = [[case.kind, case.part, name, _ratio(x), _ratio(orc)] for x, case, name, orc in found]
    header = ["", "", "the smallest", "fastmosaic / smallest", "fastmosaic / ORC"]
    return Grid("Where another format is smaller", header, rows, left=(0, 1, 2))


def _kilobytes(size: float | None) -> str:
    return (
        "-" if size is None else f"{size / 1000:,.0f}" if size >= 10_000 else f"{size / 1000:.1f}"
    )


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


# ---- targets


def targets(kinds: Kinds) -> list[Target]:
    """For each part: the size of each file, their sum, and the time of each write."""
    found = []
    for part, some in kinds.parts():
        found.append(_worst(f"{part}: each file at most {MOST} times", some, SIZE, SMALLER, MOST))
        found.append(_smallest_sum(part, some))
        found += [
            _worst(f"{part}: each file written faster{sync} than", some, measure, name, 1)
            for measure, sync in ((WRITE, ""), (WRITE_OPEN, ", not synced,"))
            for name in PARQUET
        ]
    return [*found, _smallest_sum("all", kinds)]


def _worst(text: str, kinds: Kinds, measure: str, name: str, most: float) -> Target:
    ratios = kinds.ratios(measure, name)
    worst = max(ratios, key=ratios.__getitem__, default=None)
    missed = sum(ratio > most for ratio in ratios.values())
    note = f"{worst.kind}; missed by {missed} of {len(ratios)}" if worst else ""
    return Target(f"{text} {name}", ratios[worst] if worst else None, at_most=most, note=note)


def _smallest_sum(part: str, kinds: Kinds) -> Target:
    ratios = {
        name: sums[0] / sums[1]
        for name in kinds.names
        if name not in (OURS, REFERENCE) and (sums := kinds.sums(SIZE, name))[2]
    }
    worst = max(ratios, key=ratios.__getitem__, default=None)
    text = f"{part}: the sum of all files smaller than that of every other format"
    return Target(text, ratios[worst] if worst else None, at_most=1, note=f"next is {worst}")


# ---- the page


def text(results: Results) -> str:
    """The report for the terminal."""
    kinds = of(results)
    grids = [part_grid(some, part) for part, some in kinds.parts()]
    grids += [sum_grid(kinds), speed_grid(kinds), larger_grid(kinds)]
    grids += [report.target_grid("Targets", targets(kinds))]
    return "\n".join([*(grid.text() for grid in grids), *report.remarks(results), ""])


def write(results: Results, folder: Path) -> Path:
    """Write kinds.md and its pictures into a folder, and return the path of the page."""
    kinds = of(results)
    pictures = folder / "benchmarks"
    pictures.mkdir(parents=True, exist_ok=True)
    plots.draw_sums(_relative_sums(kinds), pictures / "kinds-size.png")
    plots.draw_dots(_dots(kinds), pictures / "kinds-ratios.png")
    path = folder / "kinds.md"
    path.write_text(markdown(results), encoding="utf-8")
    return path


def _relative_sums(kinds: Kinds) -> dict[str, float]:
    """The mean size of everyone's files, relative to ours: each file has the same weight."""
    means = {
        name: 1 / geometric_mean(ratios.values())
        for name in kinds.names
        if (ratios := kinds.ratios(SIZE, name))
    }
    return {name.replace(SMALLER, "Parquet"): mean for name, mean in means.items()}


def _dots(kinds: Kinds) -> dict[str, dict[str, list[float]]]:
    """By measure and part, our results relative to the smaller Parquet."""
    return {
        head: {
            part: [x for x in some.ratios(measure, SMALLER).values() if math.isfinite(x)]
            for part, some in kinds.parts()
        }
        for head, measure in (
            ("file size", SIZE),
            ("time to write", WRITE),
            ("time to write, not synced to disk", WRITE_OPEN),
            ("time to read all", WHOLE),
        )
    }


def markdown(results: Results) -> str:
    kinds = of(results)
    plan = Plan.of(results)
    parts = "\n".join(
        part_grid(some, part[0].upper() + part[1:]).markdown() for part, some in kinds.parts()
    )
    remarks = "\n".join(f"- {line}" for line in report.remarks(results))
    counts = ", ".join(f"{len(some.cases)} {part}" for part, some in kinds.parts())
    sets = f"{len(kinds.cases)} tables: {counts}"
    return f"""---
hide:
  - toc
---

# Benchmarks by kind of data

File sizes and speed for {sets}.
All formats were measured side by side in one run, with zstd and their defaults. Parquet is written twice, with
and without dictionaries; comparisons use *the smaller* of the two files. `make bench` reproduces every number
on this page.

![Size of the files, relative to fastmosaic](benchmarks/kinds-size.png)

![fastmosaic relative to Parquet: one dot for each table](benchmarks/kinds-ratios.png)

{sum_grid(kinds).markdown("##")}
Each sum and its ratio cover the tables that both formats can store.

{speed_grid(kinds).markdown("##")}
Below 1, fastmosaic is smaller or faster.

{larger_grid(kinds).markdown("##")}
{report.target_grid("Targets", targets(kinds)).markdown("##")}
To compare two runs, for example before and after a change, use `python -m bench.compare`.

## Results

Sizes are in kB. The last four columns are fastmosaic relative to the smaller Parquet file: size, time to
write, time to write to an open file, and time to read all columns. Below 1, fastmosaic is smaller or faster.

{parts}
## Data

- **Common columns** and **more columns**: tables in which all columns are of one kind. They were used to tune
  how fastmosaic chooses encodings.
- **Held-out columns** were not used for tuning, and show what to expect of other data.
- **features**: 45 % float32, 15 % float64, 15 % integers, 15 % strings, 5 % booleans and 5 % timestamps.
  Half of the columns contain nulls.
- **Real tables** are part of the Python packages that are named before the colon. *Small* ones have fewer
  than {SMALL_ROWS:,} rows; there, metadata is a large part of every file.

## Method

- Times are the best of several runs with a warm page cache. The contenders take turns: each writes
  {plan.rounds} times, repeated for at least {1000 * plan.round_seconds:.0f} ms, and reads {plan.turns} times, repeated
  for at least {1000 * plan.turn_seconds:.0f} ms.
- fastmosaic writes to a temporary file, syncs it to disk and renames it, so that a crash leaves either the
  whole file or none. The other formats do not sync. The times to *write* include this; *write, no sync* is
  `write_table` to an open file, which is neither synced nor renamed.
{remarks}
{report.fact_list(results)}

```
make bench-kinds                     # rewrites this page
python -m bench.kinds --quick        # a subset, in about a minute; prints the results only
```
"""
