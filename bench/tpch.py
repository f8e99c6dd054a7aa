"""`python -m bench.tpch`: the 22 queries of TPC-H on narrow tables, over Mosaic and over Parquet.

Writes bench/results/tpch.json and its page. Each engine runs a query over both formats in turns; the best time
counts, and only if the answers are equal. Engines are warm: all queries have run before they are timed.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from . import machine, render, report
from .results import OURS, TIME, Results
from .spark import start
from .targets import Target
from .tpch_data import PARQUET, Ask, difference, write_tables
from .tpch_local import on_duckdb, on_polars
from .tpch_queries import TABLES, queries
from .worker import timed


@dataclass(frozen=True)
class Plan:
    """The sizes of a run."""

    scale: float = 0.1
    warm_ups: int = 3
    turns: int = 7


FULL: Final = Plan()
QUICK: Final = Plan(scale=0.01, warm_ups=1, turns=2)


@contextmanager
def on_spark(mosaic: Path, parquet: Path) -> Iterator[dict[str, Ask]]:
    """Provide functions that run a query over each format, in one session of Spark."""
    from fastmosaic.spark import read

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        spark = start(Path(folder))
        sessions = {OURS: spark, PARQUET: spark.newSession()}
        for name in TABLES:
            table = read(sessions[OURS], mosaic / f"{name}.mosaic")
            table.createOrReplaceTempView(name)
            table = sessions[PARQUET].read.parquet(str(parquet / f"{name}.parquet"))
            table.createOrReplaceTempView(name)

        def asking(name: str) -> Ask:
            return lambda query: sessions[name].sql(query).collect()

        try:
            yield {name: asking(name) for name in sessions}
        finally:
            spark.stop()


@dataclass(frozen=True)
class Engine:
    """What runs the queries, and the time over Mosaic that is aimed at, relative to Parquet."""

    title: str
    open: Callable[[Path, Path], Any]  # a context manager of functions by format
    at_most: float


ENGINES: Final = (
    Engine("Spark", on_spark, 1.2),
    Engine("DuckDB", on_duckdb, 2),
    Engine("Polars", on_polars, 2),
)


def measure(
    results: Results, plan: Plan, engine: Engine, folders: tuple[Path, Path], only: Sequence[str]
) -> None:
    """Add the times of an engine; raise SystemExit if an answer over Mosaic is another one.

    All queries take part in each turn: a warm engine has compiled the code of all of them.
    """
    asked_for = {
        title: query for title, query in queries(plan.scale).items() if not only or title in only
    }
    with engine.open(*folders) as formats:
        for turn in range(-plan.warm_ups, plan.turns):
            print(f"{engine.title}, turn {turn + 1} of {plan.turns}", file=sys.stderr, flush=True)
            for title, query in asked_for.items():
                case = f"{engine.title}, {title}"
                answers = {}
                for name, ask in formats.items():
                    seconds, answers[name] = timed(partial(ask, query))
                    if turn >= 0:
                        results.add(case, TIME, name, seconds)
                if turn == -plan.warm_ups:
                    compare(case, answers)


def compare(case: str, answers: dict[str, Sequence[Sequence[Any]]]) -> None:
    """Raise SystemExit if an answer differs from that over Parquet."""
    for name, answer in answers.items():
        found = difference(answer, answers[PARQUET])
        if found:
            raise SystemExit(f"{case}: {name} returns a different answer: {found}")


def geometric_mean(results: Results, engine: str) -> float | None:
    """The mean ratio of Mosaic's times to Parquet's; None if the engine was not measured."""
    ratios = [
        results.ratio(case, TIME, OURS, PARQUET)
        for case in results.cases
        if case.startswith(f"{engine}, ")
    ]
    known = [math.log(ratio) for ratio in ratios if ratio is not None]
    return math.exp(sum(known) / len(known)) if known else None


def targets(results: Results) -> list[Target]:
    return [
        Target(
            f"{engine.title}: at most {engine.at_most:g} times the time over Parquet, in the geometric mean",
            geometric_mean(results, engine.title),
            at_most=engine.at_most,
        )
        for engine in ENGINES
    ]


# ---- the page


def write(results: Results, folder: Path) -> Path:
    """Write tpch.md into a folder, and return its path."""
    path = folder / "tpch.md"
    path.write_text(markdown(results), encoding="utf-8")
    return path


def markdown(results: Results) -> str:
    options = results.options
    lines = [
        "# TPC-H benchmarks",
        "",
        f"The 22 queries of TPC-H at scale {options['scale']:g}: eight narrow tables, one file each, written by `fastmosaic.write_table`",
        "and by `pyarrow.parquet.write_table` with zstd. Mosaic is made for wide tables; this page shows what it",
        "costs on narrow ones. `make bench` reproduces every number on this page.",
        "",
        "Milliseconds, the best of several runs in a warm process, with files in the page cache. Engines run a query",
        "over both formats in turns, and their answers are compared.",
        "",
        "| | over Mosaic | over Parquet | ratio |",
        "|---|---:|---:|---:|",
    ]
    for case in results.cases:
        ours, parquet = (results.get(case, TIME, name) for name in (OURS, PARQUET))
        if ours is not None and parquet is not None:
            lines.append(
                f"| {case} | {1000 * ours:,.0f} | {1000 * parquet:,.0f} | {ours / parquet:.2f} |"
            )
    for engine in ENGINES:
        mean = geometric_mean(results, engine.title)
        if mean is not None:
            lines.append(f"| {engine.title}, geometric mean | | | **{mean:.2f}** |")
    found = targets(results)
    lines += [
        "",
        "## Conditions",
        "",
        report.fact_list(results),
        "",
        "## Targets",
        "",
        "| | | measured |",
        "|---|---|---:|",
        *(
            f"| {one.text} | {one.verdict} | {'-' if one.measured is None else f'{one.measured:.2f}'} |"
            for one in found
        ),
        "",
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tpch", description=__doc__)
    render.add_arguments(parser, quick="a smaller scale and fewer turns")
    parser.add_argument("--only", nargs="*", default=[], metavar="Q1", help="only these queries")
    args = parser.parse_args(argv)
    plan = QUICK if args.quick else FULL
    results = Results("tpch", [OURS, PARQUET], asdict(plan), machine.about())
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        folders = write_tables(Path(folder), plan.scale)
        for engine in ENGINES:
            measure(results, plan, engine, folders, args.only)
    print(markdown(results))
    render.publish(results, args.out, complete=not args.quick and not args.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
