"""`python -m bench.kinds`: files with columns of one kind, feature tables and real tables.

Measures size, time to write and time to read, and writes bench/results/kinds.json and its page.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .plan import Case, Plan
from .results import WHOLE

COMMON = "common columns"
MORE = "more columns"
HELD_OUT = "held-out columns"
WIDE = "wide tables"
REAL = "real tables"
SMALL = "small real tables"
SMALL_ROWS = 1_000


def plan(quick: bool = False) -> Plan:
    """All kinds; or a part of them, with fewer columns and rows."""
    from . import packaged, shapes, unseen

    common, more = ((10, 4_000), (10, 4_000)) if quick else ((60, 20_000), (40, 15_000))
    cases = [
        *_cases(shapes.COMMON, COMMON, *common),
        *_cases(list(shapes.MORE)[:: 12 if quick else 1], MORE, *more),
        *_cases(list(unseen.UNSEEN)[:: 8 if quick else 1], HELD_OUT, *more),
    ]
    if quick:
        cases += _cases(["features"], WIDE, 200, 2_000)
        cases += _real_cases(["scikit-learn: digits", "scikit-learn: iris", "gapminder"])
        times = {"rounds": 1, "turns": 1, "turn_seconds": 0.01, "round_seconds": 0.02}
    else:
        cases += _cases(["features", "float32, 2 decimals"], WIDE, 5_000, 20_000)
        cases += _real_cases(packaged.TABLES)
        times = {"rounds": 2, "turns": 3, "turn_seconds": 0.03, "round_seconds": 0.1}
    # The real tables in the order of their parts.
    cases.sort(key=lambda case: case.part == SMALL)
    return Plan(
        tuple(cases),
        first_turns=0,
        write_seconds=6,
        read_seconds=1.5,
        limit=600,
        open_file=True,
        **times,
    )


def _cases(kinds: Iterable[str], part: str, columns: int, rows: int) -> Iterator[Case]:
    return (Case(kind, columns, rows, only=WHOLE, part=part) for kind in kinds)


def _real_cases(names: Iterable[str]) -> Iterator[Case]:
    from .packaged import TABLES

    for name in names:
        columns, rows = TABLES[name].read().shape[::-1]
        part = SMALL if rows < SMALL_ROWS else REAL
        yield Case(name, columns, rows, only=WHOLE, part=part)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 1 if someone returned wrong values."""
    # Here, because each worker process imports this module first.
    from . import kinds_page, measure, render
    from .contenders import CONTENDERS

    parser = argparse.ArgumentParser(prog="python -m bench.kinds", description=__doc__)
    render.add_arguments(parser, quick="some kinds, small, within a minute")
    parser.add_argument("--only", metavar="TEXT", help="kinds whose name contains this")
    args = parser.parse_args(argv)
    start = time.monotonic()

    def log(line: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {line}", file=sys.stderr, flush=True)

    chosen = plan(args.quick)
    if args.only:
        cases = tuple(case for case in chosen.cases if args.only in f"{case.part}: {case}")
        chosen = Plan(**{**vars(chosen), "cases": cases})
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        results = measure.run(chosen, CONTENDERS, Path(folder), log, "kinds")
    log("done")
    print(kinds_page.text(results))
    render.publish(results, args.out, complete=not args.quick and not args.only)
    return 1 if results.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
