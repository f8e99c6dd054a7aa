"""`python -m bench.compare A B`: results of two runs as ratios B / A, the largest increases first.

A and B are files of results, or directories of them. All results are the better the smaller, so
that a ratio above 1 is a regression. The column "others" is the mean of all other contenders: if
it is not about 1, the machine was slower or faster in the second run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from .results import OURS, REFERENCE, Results, unit

WIDTH = 80


@dataclass(frozen=True)
class Change:
    """A result in two runs."""

    bench: str
    case: str
    measure: str
    contender: str
    before: float
    after: float

    @property
    def name(self) -> str:
        by = "" if self.contender == OURS else f", {self.contender}"
        return f"{self.measure}: {self.case}{by}"

    @property
    def is_ours(self) -> bool:
        """Whether fastmosaic takes part, if only below Spark or DuckDB."""
        return "mosaic" in self.contender and self.contender != REFERENCE

    @property
    def ratio(self) -> float:
        if self.before == 0:
            return 1.0 if self.after == 0 else math.inf
        return self.after / self.before


@dataclass(frozen=True)
class Comparison:
    """The results that both runs have, and what only one of them has."""

    changes: list[Change]
    only_before: list[tuple[str, ...]]
    only_after: list[tuple[str, ...]]

    def of(self, contender: str | None = None, text: str = "") -> list[Change]:
        """Ours, or those of a contender, whose name contains a text; largest ratio first."""
        found = [
            change
            for change in self.changes
            if (change.contender == contender if contender else change.is_ours)
            and text in change.name
        ]
        return sorted(found, key=lambda change: change.ratio, reverse=True)


def load(path: Path) -> dict[str, Results]:
    """The results in a file or directory, by benchmark."""
    paths = sorted(path.glob("*.json")) if path.is_dir() else [path]
    found: dict[str, Results] = {}
    for one in paths:
        results = Results.load(one)
        if results.bench in found:
            raise ValueError(f"{path}: two files have results of the benchmark {results.bench!r}")
        found[results.bench] = results
    if not found:
        raise ValueError(f"{path}: no results; expected *.json")
    return found


def compare(before: dict[str, Results], after: dict[str, Results]) -> Comparison:
    """Compare the benchmarks that both runs have."""
    changes, only = [], ([], [])  # type: ignore[var-annotated]
    for bench in before.keys() & after.keys():
        old, new = before[bench].values, after[bench].values
        changes += [Change(bench, *key, old[key], new[key]) for key in old if key in new]
        only[0].extend((bench, *key) for key in old if key not in new)
        only[1].extend((bench, *key) for key in new if key not in old)
    if not changes:
        raise ValueError("the two runs have no results in common")
    return Comparison(changes, *only)


@dataclass(frozen=True)
class Summary:
    """Of one measure: how many results, and their ratios."""

    measure: str
    count: int
    mean: float  # geometric
    best: float
    worst: float
    others: float | None  # the mean of the other contenders


def summaries(comparison: Comparison, changes: Sequence[Change]) -> list[Summary]:
    """A summary of each measure, in the order of the results."""
    found = []
    chosen = set(changes)
    places = {(one.bench, one.case, one.measure) for one in changes}
    for measure in dict.fromkeys(one.measure for one in comparison.changes):
        ratios = [one.ratio for one in changes if one.measure == measure]
        if not ratios:
            continue
        others = [
            one.ratio
            for one in comparison.changes
            if (one.bench, one.case, measure) in places
            and one.measure == measure
            and one not in chosen
            and not one.is_ours
        ]
        mean, rest = _mean(ratios), _mean(others) if others else None
        found.append(Summary(measure, len(ratios), mean, min(ratios), max(ratios), rest))
    return found


def _mean(ratios: Iterable[float]) -> float:
    known = [ratio for ratio in ratios if 0 < ratio < math.inf]
    return geometric_mean(known) if known else math.nan


# ---- output


def text(before: Path, after: Path, comparison: Comparison, changes: list[Change], top: int) -> str:
    """The comparison for a terminal of 80 columns."""
    lines = [f"A  {_about(before)}", f"B  {_about(after)}", ""]
    lines.append(f"{'B / A':<34}{'n':>5}{'mean':>8}{'best':>8}{'worst':>8}{'others':>8}")
    for one in summaries(comparison, changes):
        others = "" if one.others is None else f"{one.others:.2f}"
        lines.append(
            f"{_cut(one.measure, 33):<34}{one.count:>5}{one.mean:>8.2f}{one.best:>8.2f}"
            f"{one.worst:>8.2f}{others:>8}"
        )
    shown = changes[:top] if top else changes
    lines += ["", f"{'B / A':>6}{'A':>10}{'B':>10}  largest first"]
    for change in shown:
        values = [_value(change.measure, value) for value in (change.before, change.after)]
        what = _cut(change.name, WIDTH - 28)
        lines.append(f"{change.ratio:>6.2f}{values[0]:>10}{values[1]:>10}  {what}")
    if len(shown) < len(changes):
        lines.append(f"       {len(changes) - len(shown)} more; --top 0 shows all")
    for run, only in (("A", comparison.only_before), ("B", comparison.only_after)):
        if only:
            lines += [
                "",
                f"Only in {run}: {len(only)} results, such as {_cut(', '.join(only[0]), 44)}",
            ]
    return "\n".join(lines)


def as_json(comparison: Comparison, changes: list[Change]) -> dict[str, Any]:
    return {
        "summary": [vars(summary) for summary in summaries(comparison, changes)],
        "changes": [vars(change) | {"ratio": change.ratio} for change in changes],
        "only_before": comparison.only_before,
        "only_after": comparison.only_after,
    }


def _about(path: Path) -> str:
    first = next(iter(load(path).values())).about
    where, what = str(path), f"{first.get('date', '')} {first.get('commit', '')}".strip()
    room = WIDTH - 5 - len(what)
    return f"{where if len(where) <= room else '…' + where[1 - room :]}  {what}"


def _value(measure: str, value: float) -> str:
    match unit(measure):
        case "bytes" if value < 1e6:
            return f"{value / 1e3:.4g} kB"
        case "bytes":
            return f"{value / 1e6:.4g} MB"
        case "s" if value < 1:
            return f"{value * 1e3:.3g} ms"
        case "s":
            return f"{value:.3g} s"
    return f"{value:.3g}"


def _cut(words: str, width: int) -> str:
    return words if len(words) <= width else words[: width - 1] + "…"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison; the exit status is 1 if a ratio is above the limit."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", type=Path, metavar="A", help="a file or directory of results")
    parser.add_argument("after", type=Path, metavar="B", help="another one")
    parser.add_argument("--contender", metavar="NAME", help=f"by default {OURS}")
    parser.add_argument("--only", default="", metavar="TEXT", help="measures or cases with it")
    parser.add_argument("--top", type=int, default=20, metavar="N", help="rows to show; 0 for all")
    parser.add_argument("--json", action="store_true", help="print JSON, with all results")
    parser.add_argument("--fail-above", type=float, metavar="RATIO", help="exit with status 1")
    args = parser.parse_args(argv)
    try:
        comparison = compare(load(args.before), load(args.after))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    changes = comparison.of(args.contender, args.only)
    if not changes:
        who = args.contender or OURS
        parser.error(f"no results of {who!r} in common that contain {args.only!r}")
    if args.json:
        print(json.dumps(as_json(comparison, changes), indent=1))
    else:
        print(text(args.before, args.after, comparison, changes, args.top))
    worse = [one for one in changes if args.fail_above and one.ratio > args.fail_above]
    if worse:
        summary = f"{len(worse)} of {len(changes)} ratios are above {args.fail_above:g}"
        print(f"\n{summary}", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
