"""`python -m bench.training`: matrices, rows, keys and epochs, against Parquet, Feather, Lance and Vortex.

Measures read_matrix, take, lookup and, if PyTorch is installed, MosaicIterable. Writes
bench/results/training.json and its page. Every time is the best of several turns, in which the contenders
take part one after another. Most targets compare processor time, which other processes do not change much.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import fastmosaic as fm

from . import epoch, machine, render
from .floor import columns_floor
from .loaders import KEY, LOADERS, Loader, Mosaic, Rows
from .report import target_grid
from .results import FLOOR, OURS, PROCESSOR, SIZE, TIME, Missing, Results
from .training_page import (
    CACHED,
    DECIMALS,
    FIND,
    MANY,
    ONE,
    ROW,
    ROW_MAJOR,
    SERVING,
    TABLE,
    TAKE,
    WHOLE_MATRIX,
    WHOLE_ROW,
    markdown,
    target_list,
)
from .worker import no_gc, timed

Log = Callable[[str], None]
Loaders = Sequence[type[Loader]]


@dataclass(frozen=True)
class Plan:
    """The sizes of a run."""

    columns: int = 5_000
    features: int = 500
    rows: int = 4_500  # of the one file
    files: int = 60
    file_rows: int = 500
    wide: int = 10_000  # columns of the file that is read as a whole, and whose rows are served
    taken: int = 100  # rows
    keys: int = 100
    key_columns: int = 10
    row_columns: int = 100
    turns: int = 5
    seconds: float = 4  # that the turns of a case take at least


GOLDEN_RATIO = (5**0.5 - 1) / 2

FULL = Plan()
QUICK = Plan(columns=500, features=50, files=10, wide=1_000, turns=3, seconds=1)


def floats(
    num_columns: int, num_rows: int, seed: int = 7, first: int = 0, decimals: float = 0.6
) -> pa.Table:
    """A key, and float32 features: measurements with two decimals, and numbers with random bits.

    `decimals` is the share of the former, also among columns at equal distances.
    """
    rng = np.random.default_rng(seed)
    columns = [pa.array(np.arange(first, first + num_rows))]
    for number in range(num_columns):
        values = rng.normal(rng.uniform(0, 100), 5, num_rows)
        if number * GOLDEN_RATIO % 1 < decimals:
            values = values.round(2)
        columns.append(pa.array(values.astype(np.float32)))
    return pa.table(columns, [KEY, *names_of(num_columns)])


def names_of(num_columns: int) -> list[str]:
    return [f"feature_{number:05d}" for number in range(num_columns)]


def some(num_columns: int, count: int) -> list[str]:
    """Features that are spread over the columns."""
    return names_of(num_columns)[:: max(1, num_columns // count)][:count]


def written(kind: type[Loader], folder: Path, tables: Iterator[pa.Table]) -> Loader:
    loader = kind(folder / kind.name)
    loader.write(tables)
    return loader


# ---- matrices


def measure_one_file(results: Results, plan: Plan, folder: Path, loaders: Loaders) -> None:
    """Read some columns of a file as a matrix: of all features, and of those with two decimals only."""
    names = some(plan.columns, plan.features)
    for case, decimals in ((ONE, 0.6), (DECIMALS, 1.0)):
        below = folder / case
        made = [
            written(kind, below, iter([floats(plan.columns, plan.rows, decimals=decimals)]))
            for kind in loaders
        ]
        works = matrix_works(case, made, names)
        works[FLOOR] = columns_floor(made[0].paths[0], names, use_threads=True)
        add_times(results, case, works, plan)
        add_sizes(results, case, made)


def measure_many_files(results: Results, plan: Plan, folder: Path, loaders: Loaders) -> None:
    """Read columns, rows and keys of many files."""

    def tables() -> Iterator[pa.Table]:
        for number in range(plan.files):
            yield floats(plan.columns, plan.file_rows, number, number * plan.file_rows)

    made = [written(kind, folder, tables()) for kind in loaders if not kind.is_slow_to_write]
    for kind in loaders:
        if kind.is_slow_to_write:
            reason = f"takes minutes to write {plan.files} files of {plan.columns:,} columns"
            results.add(MANY, TIME, kind.name, Missing(reason))
    names = some(plan.columns, plan.features)
    add_times(results, MANY, matrix_works(MANY, made, names), plan)
    rng = random.Random(7)
    rows = sorted(rng.sample(range(plan.files * plan.file_rows), plan.taken))
    works = {one.name: lambda one=one: one.take(rows, names) for one in made}
    check_equal(TAKE, works, names)
    add_times(results, TAKE, works, plan)
    keys = rng.sample(range(plan.files * plan.file_rows), plan.keys)
    few = some(plan.columns, plan.key_columns)
    works = {one.name: lambda one=one: one.find(keys, few) for one in made}
    check_equal(FIND, works, few)
    add_times(results, FIND, works, plan)


def matrix_works(
    case: str, made: Sequence[Loader], names: Sequence[str]
) -> dict[str, Callable[[], Any]]:
    """How each of them reads a matrix, after a comparison of their results."""
    expected = made[0].matrix(names)
    for one in made[1:]:
        if not np.array_equal(one.matrix(names), expected):
            raise SystemExit(f"{case}: {one.name} returned other values")
    return {one.name: lambda one=one: one.matrix(names) for one in made}


def measure_wide(results: Results, plan: Plan, folder: Path, loaders: Loaders) -> None:
    """Read all columns of a wide file as a matrix, and single rows from an open handle."""
    table = floats(plan.wide, plan.rows)
    made = [written(kind, folder, iter([table])) for kind in loaders]
    names = names_of(plan.wide)
    path = made[0].paths[0]
    works: dict[str, Callable[[], Any]] = {
        OURS: lambda: fm.read_matrix(path, names),
        ROW_MAJOR: lambda: fm.read_matrix(path, names, order="C"),
        TABLE: lambda: fm.read_table(path, columns=names),
    }
    add_times(results, WHOLE_MATRIX, works, plan)

    serving = Mosaic(folder / SERVING)
    serving.serving = True
    serving.write(iter([table]))
    cached = Mosaic(serving.folder)
    cached.cache = "1g"
    opened = {one.name: one.opened() for one in made}
    opened[SERVING], opened[CACHED] = serving.opened(), cached.opened()
    for case, columns in ((ROW, some(plan.wide, plan.row_columns)), (WHOLE_ROW, names)):
        row = Turns(plan.rows)
        for read in opened.values():
            for first in range(0, plan.rows, 4096):
                read(first, columns)  # opens what is opened on use, and fills the cache
        works = {
            name: lambda read=read, columns=columns, row=row: read(row.next(), columns)
            for name, read in opened.items()
        }
        check_rows(case, opened, columns, table)
        add_times(results, case, works, plan)
    add_sizes(results, ROW, [*made])
    results.add(ROW, SIZE, SERVING, size_of(serving.folder))


class Turns:
    """Numbers of rows, another one each time."""

    def __init__(self, num_rows: int) -> None:
        self._random = random.Random(7)
        self._num_rows = num_rows

    def next(self) -> int:
        return self._random.randrange(self._num_rows)


def check_rows(case: str, opened: dict[str, Rows], names: Sequence[str], table: pa.Table) -> None:
    number = table.num_rows // 3
    expected = table.slice(number, 1).select(names).to_pylist()
    for name, read in opened.items():
        if read(number, names).select(names).to_pylist() != expected:
            raise SystemExit(f"{case}: {name} returned other values")


def check_equal(case: str, works: dict[str, Callable[[], pa.Table]], names: Sequence[str]) -> None:
    """Compare tables, whose rows may be in any order."""
    expected = None
    for name, work in works.items():
        table = work().select(names)
        found = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
        if expected is None:
            expected = found
        if found != expected:
            raise SystemExit(f"{case}: {name} returned other values")


# ---- a run


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def add_sizes(results: Results, case: str, made: Sequence[Loader]) -> None:
    for one in made:
        results.add(case, SIZE, one.name, size_of(one.folder))


def add_times(results: Results, case: str, works: dict[str, Callable[[], Any]], plan: Plan) -> None:
    """The best times of each; they take turns, so many at least and for so long."""
    spent, turn = 0.0, 0
    with no_gc():
        while turn < plan.turns or spent < plan.seconds:
            for name, work in works.items():
                before = time.process_time()
                seconds, _ = timed(work)
                results.add(case, TIME, name, seconds)
                results.add(case, PROCESSOR, name, time.process_time() - before)
                spent += seconds
            turn += 1


def run(plan: Plan, of_epoch: epoch.Plan, loaders: Loaders, log: Log) -> Results:
    """Measure everything."""
    options = {**asdict(plan), "epoch": asdict(of_epoch)}
    results = Results("training", [], options, machine.about())
    for title, measure in (
        ("one file", measure_one_file),
        ("many files", measure_many_files),
        ("a wide file", measure_wide),
    ):
        log(title)
        with tempfile.TemporaryDirectory(prefix="bench-") as name:
            measure(results, plan, Path(name), loaders)
    log("epochs")
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        epoch.measure(results, of_epoch, Path(name))
    results.names = list(dict.fromkeys(name for _, _, name in results.values if name != FLOOR))
    return results


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.training", description=__doc__)
    render.add_arguments(parser, quick="fewer and narrower files")
    args = parser.parse_args(argv)
    plan, of_epoch = (QUICK, epoch.QUICK) if args.quick else (FULL, epoch.FULL)
    results = run(plan, of_epoch, LOADERS, lambda line: print(line, file=sys.stderr, flush=True))
    print(markdown(results))
    print(target_grid("Targets", target_list(results)).text())
    render.publish(results, args.out, complete=not args.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
