"""`python -m bench.living`: tables that change, against rewriting, Lance and `cat`.

Measures MosaicTable and concat: adding a column to many wide files, commits, narrow reads of a table with
column files, opening, and merging files. Writes bench/results/living.json and its page. Every time is the
best of several turns, in which the contenders take part one after another.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import fastmosaic as fm

from . import machine, render
from .living_page import (
    ADD,
    ADD_NARROWER,
    CAT,
    COLUMN,
    COMMIT,
    CONCAT,
    FILE,
    FOLDED,
    LANCE,
    OPEN_ONE,
    PARQUET,
    READS,
    REWRITING,
    SCHEMA_MESSAGE,
    markdown,
    target_list,
)
from .report import target_grid
from .results import OURS, SIZE, TIME, Results
from .tables import ROW_NUMBER, numbered, wide
from .worker import best_times, no_gc, timed

Work = Callable[[], Any]
Log = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """The sizes of a run."""

    files: int = 100
    columns: int = 10_000
    rows: int = 500  # of each file
    column_files: int = 8  # of each base file
    rewritten: int = 10  # files that are rewritten; the time is multiplied, as if it were all
    lance_files: int = 4
    lance_columns: int = 5_000
    commits: tuple[int, int] = (1_000, 100_000)  # columns
    turns: int = 7
    seconds: float = 4  # that the turns of a read take at least
    copies: int = 3  # turns of merging all files


FULL = Plan()
QUICK = Plan(
    files=20,
    columns=2_000,
    rewritten=4,
    lance_columns=500,
    commits=(1_000, 20_000),
    turns=3,
    seconds=1,
    copies=2,
)


@dataclass(frozen=True)
class Sum:
    """A column to add, the sum of two others: neither constant nor random."""

    name: str
    first: str
    second: str

    @property
    def expression(self) -> dict[str, pc.Expression]:
        return {self.name: pc.field(self.first) + pc.field(self.second)}

    @property
    def sql(self) -> dict[str, str]:
        return {self.name: f"{self.first} + {self.second}"}

    def appended(self, table: pa.Table) -> pa.Table:
        """The table with the column."""
        return table.append_column(self.name, pc.add(table[self.first], table[self.second]))


class Data:
    """Wide files in a folder, and tables that are made from them."""

    def __init__(self, folder: Path, num_files: int, num_columns: int, num_rows: int) -> None:
        self.folder = folder
        self._wide = numbered(wide(num_columns - 1, num_rows))
        integers = [field.name for field in self._wide.schema if field.type == pa.int32()]
        self.names = self._wide.column_names
        self.sums = [
            Sum(f"added_{i}", integers[i], integers[-1 - i]) for i in range(len(integers) // 2)
        ]
        self.paths = [folder / f"{number:04d}.mosaic" for number in range(num_files)]
        for path, part in zip(self.paths, self.parts(), strict=True):
            fm.write_table(part, path)

    def parts(self) -> list[pa.Table]:
        """The rows of each file; row numbers go on from file to file."""
        count = self._wide.num_rows
        return [
            self._wide.set_column(0, ROW_NUMBER, pc.add(self._wide[ROW_NUMBER], number * count))
            for number in range(len(self.paths))
        ]

    def table(self, name: str, count: int | None = None) -> fm.MosaicTable:
        """A new table of the first files."""
        folder = self.folder / name
        folder.mkdir()
        for path in self.paths[:count]:
            os.link(path, folder / path.name)
        return fm.MosaicTable.create(folder)


# ---- adding a column


def measure_adding(results: Results, plan: Plan, data: Data) -> None:
    """Add a column to all files, and rewrite some of them with it."""
    table, new = data.table("adding"), data.sums[0]
    for _ in range(plan.turns):
        table.restore(1)
        before = sizes_below(data.folder / "adding")
        results.add(ADD, TIME, OURS, time_of(lambda: table.add_columns(new.expression)))
    written = sizes_below(data.folder / "adding").items() - before.items()
    results.add(ADD, SIZE, OURS, sum(size for _, size in written))
    paths = [path for path, _ in written if "_columns" in path.parts]
    results.add(ADD, SIZE, COLUMN, sum(map(bytes_of_columns, paths)))

    sources = data.paths[: plan.rewritten]
    parquet = [data.folder / f"{path.stem}.parquet" for path in sources]
    for path, part in zip(parquet, data.parts(), strict=False):
        pq.write_table(part, path, compression="zstd")
    scale = plan.files / plan.rewritten
    for _ in range(2):
        for name, paths, rewrite in (
            (REWRITING, sources, rewrite_mosaic),
            (PARQUET, parquet, rewrite_parquet),
        ):
            work = partial(rewrite, paths, new)
            results.add(ADD, TIME, name, scale * time_of(work))


def rewrite_mosaic(paths: Sequence[Path], new: Sum) -> None:
    for path in paths:
        fm.write_table(new.appended(fm.read_table(path)), path.with_suffix(".new"))


def rewrite_parquet(paths: Sequence[Path], new: Sum) -> None:
    for path in paths:
        table = new.appended(pq.read_table(path))
        pq.write_table(table, path.with_suffix(".new"), compression="zstd")


def sizes_below(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def bytes_of_columns(path: Path) -> int:
    """The bytes of a file that contain values, compressed."""
    metadata = fm.read_metadata(path)
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return sum(group.total_compressed_size for group in groups)


def measure_lance(results: Results, plan: Plan, folder: Path) -> None:
    """Add a column to a table of fewer columns, and to a Lance dataset with as many fragments."""
    import lance

    data = Data(folder, plan.lance_files, plan.lance_columns, plan.rows)
    new = data.sums[0]
    table, path = data.table("table"), folder / "lance"
    for part in data.parts():
        dataset = lance.write_dataset(part, path, mode="append" if path.exists() else "create")
    if len(dataset.get_fragments()) != plan.lance_files:
        raise SystemExit("the dataset of Lance has another number of fragments")
    first = dataset.version
    for _ in range(3):
        table.restore(1)
        results.add(ADD_NARROWER, TIME, OURS, time_of(lambda: table.add_columns(new.expression)))
        dataset = lance.dataset(path, version=first)
        dataset.restore()
        adding = lance.dataset(path)
        results.add(ADD_NARROWER, TIME, LANCE, time_of(lambda one=adding: one.add_columns(new.sql)))
    check_equal(
        table.read([new.name]), lance.dataset(path).to_table([new.name]), f"{LANCE}: other values"
    )


# ---- commits


def measure_commits(results: Results, plan: Plan, folder: Path) -> None:
    """Return to another version: a commit, and nothing else."""
    works: dict[str, Work] = {}
    for num_columns in plan.commits:
        names = [f"feature_{number:06d}" for number in range(num_columns)]
        rows = pa.table([pa.array([1, 2, 3], pa.int32())] * num_columns, names)
        table = fm.MosaicTable.create(folder / str(num_columns), rows)
        table.append(rows)
        works[COMMIT.format(num_columns)] = lambda table=table: table.restore(1 + table.version % 2)
    for case, seconds in best_times(works, 5 * plan.turns).items():
        results.add(case, TIME, OURS, seconds)


# ---- reading


def measure_reading(results: Results, plan: Plan, data: Data) -> None:
    """Read few columns of a table with column files, and of one whose files have all columns."""
    table, folded = data.table("divided"), data.folder / "folded"
    new = data.sums[: plan.column_files]
    for one in new:
        table.add_columns(one.expression)
    folded.mkdir()
    for path, part in zip(data.paths, data.parts(), strict=True):
        for one in new:
            part = one.appended(part)
        fm.write_table(part, folded / path.name)
    fm.MosaicTable.create(folded)
    base, added = data.names[len(data.names) // 2], [one.name for one in new]
    columns = dict(zip(READS, ([base], added[:1], [base, added[0]], added), strict=True))
    for case, names in columns.items():
        works = {
            OURS: lambda names=names: fm.read_table(data.folder / "divided", columns=names),
            FOLDED: lambda names=names: fm.read_table(folded, columns=names),
        }
        found, expected = (work() for work in works.values())
        check_equal(found, expected, f"{case}: other values")
        add_times(results, case, works, plan.turns, plan.seconds)


def measure_opening(results: Results, plan: Plan, data: Data) -> None:
    """Open a table of one file and read a column; and read all names as other formats store them."""
    data.table("one", 1)
    name = data.names[len(data.names) // 2]
    message = fm.read_schema(data.paths[0]).serialize()
    works: dict[str, Work] = {
        OURS: lambda: fm.read_table(data.folder / "one", columns=[name]),
        FILE: lambda: fm.read_table(data.paths[0], columns=[name]),
        SCHEMA_MESSAGE: lambda: pa.ipc.read_schema(message),
    }
    add_times(results, OPEN_ONE, works, plan.turns, plan.seconds)


# ---- merging files


def measure_merging(results: Results, plan: Plan, data: Data) -> None:
    """Merge all files by copying, with `cat`, and some of them by decoding and encoding."""
    merged = data.folder / "merged"

    def cat() -> None:
        with open(merged, "wb") as out:
            subprocess.run(["cat", *data.paths], stdout=out, check=True)
            os.fsync(out.fileno())

    works: dict[str, Work] = {OURS: lambda: fm.concat(data.paths, merged, mode="copy"), CAT: cat}
    for _ in range(plan.copies):
        for name, work in works.items():
            merged.unlink(missing_ok=True)
            results.add(CONCAT, TIME, name, time_of(work))
    merged.unlink()
    some = data.paths[: plan.rewritten]
    seconds = time_of(lambda: fm.concat(some, merged, mode="rewrite"))
    results.add(CONCAT, TIME, REWRITING, plan.files / plan.rewritten * seconds)
    merged.unlink()


# ---- a run


def time_of(work: Work) -> float:
    with no_gc():
        return timed(work)[0]


def add_times(
    results: Results, case: str, works: dict[str, Work], turns: int, seconds: float
) -> None:
    for name, best in best_times(works, turns, seconds).items():
        results.add(case, TIME, name, best)


def check_equal(found: pa.Table, expected: pa.Table, fact: str) -> None:
    if not found.equals(expected):
        raise SystemExit(fact)


def run(plan: Plan, log: Log) -> Results:
    """Measure everything."""
    results = Results("living", [], asdict(plan), machine.about())
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folders = {part: Path(name) / part for part in ("data", "lance", "commits")}
        for folder in folders.values():
            folder.mkdir()
        log("writing files")
        data = Data(folders["data"], plan.files, plan.columns, plan.rows)
        for title, measure in (
            ("adding a column", measure_adding),
            ("reading", measure_reading),
            ("opening", measure_opening),
            ("merging files", measure_merging),
        ):
            log(title)
            measure(results, plan, data)
        log("adding a column, Lance")
        measure_lance(results, plan, folders["lance"])
        log("commits")
        measure_commits(results, plan, folders["commits"])
    results.names = list(dict.fromkeys(name for _, _, name in results.values))
    return results


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.living", description=__doc__)
    render.add_arguments(parser, quick="fewer and narrower files")
    args = parser.parse_args(argv)
    plan = QUICK if args.quick else FULL
    results = run(plan, lambda line: print(line, file=sys.stderr, flush=True))
    print(markdown(results))
    print(target_grid("Targets", target_list(results)).text())
    render.publish(results, args.out, complete=not args.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
