"""`python -m bench.spark`: wide tables in Spark, Mosaic against Parquet and ORC.

Writes bench/results/spark.json and its page. Cold times are of the first query in a session that has just been
started, in a process of its own, the best of some sessions; the others are the best of several turns, in which the contenders
take part one after another. A time counts only if all contenders gave the same answer.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

import fastmosaic as fm

from . import machine, render, report
from .results import SIZE, TIME, Results
from .tables import ROW_NUMBER, numbered, wide
from .targets import Target
from .worker import timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLANNER: Final = "fastmosaic, pruned by the planner"
PLAIN: Final = "fastmosaic, `columns` option"
PARQUET: Final = "Spark, Parquet"
ORC: Final = "Spark, ORC"
CONTENDERS: Final = (PLANNER, PLAIN, PARQUET, ORC)

CONVERT: Final = "`fastmosaic.spark.convert`"
ROWS_TO_MOSAIC: Final = '`spark.read.parquet(…).write.format("mosaic")`'
ROWS_TO_PARQUET: Final = "`spark.read.parquet(…).write.parquet`"


def _written_as(suffix: str) -> str:
    return f"df.write, {suffix}"


WRITE_MOSAIC: Final = _written_as("mosaic")
WRITE_PARQUET: Final = _written_as("parquet")

Work = Callable[[], Any]
Times = dict[str, float]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Plan:
    """The sizes of a run. A long contest takes at least half a minute for each contender."""

    columns: int = 10_000
    rows: int = 500
    parts: int = 4  # files of the dataset that is filtered
    selected: tuple[int, ...] = (1, 10, 100)
    written: int = 1_000  # columns
    turns: int = 5
    long_turns: int = 3
    sessions: int = 3  # of each contender, for cold times


FULL: Final = Plan()
QUICK: Final = Plan(columns=1_000, selected=(10,), written=200, turns=3, long_turns=1, sessions=1)


@dataclass(frozen=True)
class Contest:
    """A task and the functions that do it, by contender. The first contender is fastmosaic."""

    title: str
    works: dict[str, Work]
    turns: int


# ---- the data


def table_of(plan: Plan) -> pa.Table:
    return numbered(wide(plan.columns - 1, plan.rows))


def write_data(plan: Plan, folder: Path) -> None:
    """Write the same rows in each format: one file in `whole`, several files in `parts`."""
    table = table_of(plan)
    size = -(-plan.rows // plan.parts)
    parts = [table.slice(start, size) for start in range(0, plan.rows, size)]
    for name, tables in (("whole", [table]), ("parts", parts)):
        for suffix, write in _WRITERS.items():
            directory = folder / name / suffix
            directory.mkdir(parents=True)
            for number, part in enumerate(tables):
                write(part, str(directory / f"{number}.{suffix}"))


_WRITERS: Final[dict[str, Callable[[pa.Table, str], Any]]] = {
    "mosaic": lambda table, path: fm.write_table(table, path, write_statistics=[ROW_NUMBER]),
    "parquet": lambda table, path: pq.write_table(table, path, compression="zstd"),
    # Each file needs gigabytes of memory, which are not released.
    "orc": lambda table, path: in_new_process(_write_orc, table, path),
}


def _write_orc(table: pa.Table, path: str) -> None:
    orc.write_table(table, path, compression="zstd")


def sizes(folder: Path) -> dict[str, int]:
    """Return the size of the single file in each format."""
    files = {suffix: folder / "whole" / suffix / f"0.{suffix}" for suffix in _WRITERS}
    return {suffix: file.stat().st_size for suffix, file in files.items()}


def chosen(names: Sequence[str], count: int) -> list[str]:
    """Return `count` evenly spaced columns, without the row number."""
    return [names[(2 * i + 1) * len(names) // (2 * count)] for i in range(count)]


# ---- the contests


def start(folder: Path) -> SparkSession:
    """Start a session on all cores of this machine with its files in `folder`."""
    from fastmosaic.spark import session

    conf = {
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return session("bench", "local[*]", **conf)


def load(
    spark: SparkSession,
    contender: str,
    data: Path,
    columns: Sequence[str] | None = None,
    filters: list[Any] | None = None,
) -> DataFrame:
    """Load a dataset as a contender does; only one contender needs columns and filters."""
    from fastmosaic.spark import read

    if contender == PARQUET:
        return spark.read.parquet(str(data / "parquet"))
    if contender == ORC:
        return spark.read.orc(str(data / "orc"))
    if contender == PLANNER:
        return read(spark, data / "mosaic")
    reader = spark.read.format("mosaic")
    if columns is not None:
        reader = reader.option("columns", json.dumps(list(columns)))
    if filters is not None:
        reader = reader.option("filters", json.dumps(filters))
    return reader.load(str(data / "mosaic"))


def largest(df: DataFrame, columns: Sequence[str]) -> Any:
    from pyspark.sql import functions

    return df.agg(*(functions.max(name) for name in columns)).collect()


def hashed(df: DataFrame) -> Any:
    """Hash all values, so that every value is read. Spark's `noop` sink would skip some."""
    [[total]] = df.selectExpr("sum(hash(*))").collect()
    return total


def contests(spark: SparkSession, plan: Plan, folder: Path) -> Iterator[Contest]:
    """Yield the contests with warm sessions."""
    whole, parts, names = folder / "whole", folder / "parts", table_of(plan).column_names

    def each(work: Callable[..., Any], *args: Any) -> dict[str, Work]:
        return {name: _call(work, name, *args) for name in CONTENDERS}

    def loaded(data: Path, *args: Any) -> dict[str, DataFrame]:
        return {name: load(spark, name, data, *args) for name in CONTENDERS}

    yield Contest("load", each(lambda name: load(spark, name, whole).columns), plan.turns)

    for count in plan.selected:
        columns = chosen(names, count)
        frames = loaded(whole, columns)
        title = f"{count} of {plan.columns:,} columns, aggregated"
        yield Contest(title, each(lambda name: largest(frames[name], columns)), plan.turns)  # noqa: B023

    last = plan.rows - plan.rows // plan.parts
    ten = [ROW_NUMBER, *chosen(names, 9)]
    filtered = loaded(parts, ten, [[ROW_NUMBER, ">=", last]])
    yield Contest(
        f"10 columns, rows of one file of {plan.parts}",
        each(lambda name: largest(filtered[name].where(f"{ROW_NUMBER} >= {last}"), ten)),
        plan.turns,
    )

    counted = loaded(whole, [ROW_NUMBER])
    yield Contest("count", each(lambda name: counted[name].count()), plan.turns)

    frames = loaded(whole)
    yield Contest("all columns, hashed", each(lambda name: hashed(frames[name])), plan.long_turns)

    yield _writing(spark, plan, whole, folder / "written")
    yield _converting(spark, whole / "parquet", folder / "converted")


def _writing(spark: SparkSession, plan: Plan, whole: Path, out: Path) -> Contest:
    columns = [ROW_NUMBER, *chosen(table_of(plan).column_names, plan.written - 1)]
    df = load(spark, PARQUET, whole).select(columns).cache()
    df.count()

    def write(suffix: str) -> Path:
        df.write.format(suffix).mode("overwrite").save(str(out / suffix))
        return out / suffix

    works = {_written_as(suffix): _call(write, suffix) for suffix in _WRITERS}
    return Contest(f"write {plan.written:,} columns of a cached DataFrame", works, plan.turns)


def _converting(spark: SparkSession, parquet: Path, out: Path) -> Contest:
    from fastmosaic.spark import convert

    def by_files() -> Path:
        target = out / "files" / "mosaic"
        convert(spark, parquet, target, existing="overwrite", resume=False)
        return target

    def by_rows(suffix: str) -> Path:
        target = out / "rows" / suffix
        spark.read.parquet(str(parquet)).write.format(suffix).mode("overwrite").save(str(target))
        return target

    works = {
        CONVERT: by_files,
        ROWS_TO_MOSAIC: _call(by_rows, "mosaic"),
        ROWS_TO_PARQUET: _call(by_rows, "parquet"),
    }
    return Contest("convert the Parquet file", works, turns=1)


def _call(work: Callable[..., Any], *args: Any) -> Work:
    return lambda: work(*args)


# ---- measuring


def best_times(contest: Contest) -> Times:
    """Return the best time of each contender in seconds. Raise if their answers differ."""
    best = dict.fromkeys(contest.works, float("inf"))
    for turn in range(contest.turns):
        ours: Any = None
        for place, (name, work) in enumerate(contest.works.items()):
            seconds, answer = timed(work)
            best[name] = min(best[name], seconds)
            if turn > 0:
                continue
            if place == 0:
                ours = _rows(answer)
            elif _rows(answer) != ours:
                raise SystemExit(f"{contest.title}: {name} returns a different answer")
    return best


def _rows(answer: Any) -> Any:
    """Return an answer that can be compared: for a directory, the rows of its files."""
    if not isinstance(answer, Path):
        return answer
    suffix = answer.name
    files = [str(file) for file in answer.glob(f"*.{suffix}")]
    read: Callable[[str], pa.Table] = {
        "mosaic": fm.read_table,
        "parquet": pq.read_table,
        "orc": orc.read_table,
    }[suffix]
    table = pa.concat_tables([read(file) for file in files]).sort_by(ROW_NUMBER)
    return table.replace_schema_metadata(None).combine_chunks()


def in_new_process(work: Callable[..., Result], *args: Any) -> Result:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(work, *args).result()


def first_query(contender: str, columns: Sequence[str], folder: Path) -> tuple[float, float, Any]:
    """Measure loading and a query in a new session; return both times and the answer."""
    spark = start(folder)
    loading, df = timed(lambda: load(spark, contender, folder / "whole", columns))
    querying, answer = timed(lambda: largest(df, columns))
    rows = [tuple(row) for row in answer]
    spark.stop()
    return loading, querying, rows


def cold_times(plan: Plan, folder: Path, log: Callable[[str], None]) -> dict[str, Times]:
    """Measure cold sessions: the best time to load, and the best time to load and query."""
    names = table_of(plan).column_names
    loading = dict.fromkeys(CONTENDERS, float("inf"))
    results = {"cold: load": loading}
    for count in plan.selected:
        title = f"cold: load, and {count} of {plan.columns:,} columns, aggregated"
        log(title)
        best = results[title] = dict.fromkeys(CONTENDERS, float("inf"))
        answers = {}
        for name in CONTENDERS * plan.sessions:
            first, query, answers[name] = in_new_process(
                first_query, name, chosen(names, count), folder
            )
            loading[name] = min(loading[name], first)
            best[name] = min(best[name], first + query)
        for name, answer in answers.items():
            if answer != answers[PLANNER]:
                raise SystemExit(f"{title}: {name} returns a different answer")
    return results


# ---- the page


FILE: Final = "one file"  # the case of its size


def results_of(times: dict[str, Times], plan: Plan, sizes: dict[str, int], java: str) -> Results:
    """Collect what was measured."""
    about = machine.about()
    about["versions"]["Java"] = java
    results = Results("spark", list(CONTENDERS), asdict(plan), about)
    for title, by_name in times.items():
        for name, seconds in by_name.items():
            results.add(title, TIME, name, seconds)
    for suffix, size in sizes.items():
        results.add(FILE, SIZE, suffix, size)
    return results


def targets(results: Results) -> list[Target]:
    """Return the targets and whether `results` meet them: nothing takes longer than with Parquet."""
    found = []
    for title in results.cases:
        times = results.of(title, TIME)
        for ours, peer in (
            (PLANNER, PARQUET),
            (WRITE_MOSAIC, WRITE_PARQUET),
            (CONVERT, ROWS_TO_PARQUET),
        ):
            if ours in times:
                text = f"{title}: at most the time of {peer}"
                found.append(Target(text, times[ours] / times[peer], at_most=1))
        if CONVERT in times:
            measured = times[ROWS_TO_MOSAIC] / times[CONVERT]
            text = f"{CONVERT}: at least 5 times faster than {ROWS_TO_MOSAIC}"
            found.append(Target(text, measured, at_least=5))
    return found


def write(results: Results, folder: Path) -> Path:
    """Write spark-benchmarks.md into a folder, and return its path."""
    path = folder / "spark-benchmarks.md"
    path.write_text(markdown(results), encoding="utf-8")
    return path


def markdown(results: Results) -> str:
    options = results.options
    rows = [
        f"| {title} | {name} | {seconds:.2f} | {seconds / next(iter(times.values())):.2f} |"
        for title in results.cases
        if (times := results.of(title, TIME))
        for name, seconds in times.items()
    ]
    lines = [
        "# Spark benchmarks",
        "",
        f"A table of {options['rows']:,} rows and {options['columns']:,} columns as Mosaic, Parquet and ORC files, read,",
        "written and converted with Spark. `make bench` reproduces every number on this page.",
        "",
        "## Results",
        "",
        "Seconds, and the ratio to fastmosaic. *Cold* is the first query of a new session, without the",
        f"time to start the session: the best of {options['sessions']}. All other times are warm: the best of several runs on a DataFrame",
        f"that is already loaded. It contains all columns, except for *{PLAIN}*, which loads only the",
        "columns of the query, because Spark does not prune the columns of Python data sources.",
        "",
        "| | contender | s | ratio |",
        "|---|---|---:|---:|",
        *rows,
        "",
        "## Conditions",
        "",
        f"One file on a local disk, in the page cache; {options['parts']} files where rows are filtered. One run.",
        "",
        report.fact_list(results),
        *(f"- {suffix}: {size / 1e6:.1f} MB" for suffix, size in results.of(FILE, SIZE).items()),
        "",
        "## Targets",
        "",
        "| | | measured |",
        "|---|---|---:|",
        *(f"| {one.text} | {one.verdict} | {one.measured:.2f} |" for one in targets(results)),
        "",
    ]
    return "\n".join(lines)


def java_version(spark: SparkSession) -> str:
    return spark._jvm.java.lang.System.getProperty("java.version")  # type: ignore[union-attr]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    render.add_arguments(parser, quick="fewer columns and turns")
    args = parser.parse_args(argv)
    plan = QUICK if args.quick else FULL
    begin = time.monotonic()

    def log(line: str) -> None:
        print(f"{time.monotonic() - begin:6.0f} s  {line}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        log("data")
        in_new_process(write_data, plan, folder)
        times = cold_times(plan, folder, log)
        spark = start(folder)
        for contest in contests(spark, plan, folder):
            log(contest.title)
            times[contest.title] = best_times(contest)
        results = results_of(times, plan, sizes(folder), java_version(spark))
        spark.stop()
    log("done")
    print(markdown(results))
    render.publish(results, args.out, complete=not args.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
