"""`python -m bench.threads`: whole reads and writes with one and two threads.

Also measures for what share of the time Python's global interpreter lock (GIL) is held: py-spy
looks at the process from outside, 500 times a second, without stopping it. Writes
bench/results/threads.json and its page.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import fastmosaic as fm

from . import machine, render, report
from .contenders import Contender, FastMosaic
from .plan import Case
from .report import Grid, figure
from .results import OURS, SHARE, WHOLE, WRITE, Missing, Results
from .worker import Worker, best_times, load

OPERATIONS = (WHOLE, WRITE)
THREADS = (1, 2)
RATE = 500  # samples a second
MANY = (8, 32)  # threads to estimate


@dataclass(frozen=True)
class Plan:
    """The sizes of a run."""

    columns: int = 10_000
    kinds: tuple[str, ...] = ("wide", "float32, 2 decimals")
    rows: tuple[int, ...] = (10, 500, 4_500)
    turns: int = 7  # at least
    seconds: float = 4  # that the turns take at least
    sampled_seconds: float = 4

    @property
    def cases(self) -> list[Case]:
        return [Case(kind, self.columns, rows) for kind in self.kinds for rows in self.rows]


FULL = Plan()
QUICK = Plan(rows=(500,), turns=3, seconds=1, sampled_seconds=1)


# ---- measuring


def with_threads(operation: str, threads: int) -> str:
    """The name of a measure."""
    return f"{operation}, {threads} thread{'s' if threads > 1 else ''}"


def share_of(operation: str, threads: int) -> str:
    return f"{with_threads(operation, threads)}: {SHARE}"


def work_of(operation: str, threads: int, table: pa.Table, path: str) -> Callable[[], Any]:
    """Read a file, or write a table to nowhere: the disk is not what is measured."""
    options = {"use_threads": threads > 1}
    if operation == WRITE:
        return lambda: fm.write_table(table, os.devnull, **options)
    return lambda: fm.read_table(path, **options)


def use_two_cores() -> None:
    """Let this process have two cores at most, and fastmosaic so many threads."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])


def times(_: Contender, table_path: str, path: str, turns: int, seconds: float) -> dict[str, float]:
    """The best time of each operation with each number of threads, by turns."""
    use_two_cores()
    table = load(table_path)
    works = {
        with_threads(operation, threads): work_of(operation, threads, table, path)
        for operation in OPERATIONS
        for threads in THREADS
    }
    return best_times(works, turns, seconds)


def gil_share(
    operation: str, threads: int, table_path: str, path: str, seconds: float
) -> float | Missing:
    """The share of the time in which some thread holds the GIL, while a process does nothing else."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if spy is None:
        return Missing("py-spy is not installed")
    arguments = ["--loop", operation, str(threads), table_path, path]
    command = [sys.executable, "-m", "bench.threads", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it is ready
            return _sampled(spy, process.pid, seconds)
        finally:
            process.kill()


def _sampled(spy: str, pid: int, seconds: float) -> float | Missing:
    with tempfile.NamedTemporaryFile() as file:
        options = ["--gil", "--nonblocking", "--format", "raw", "--output", file.name]
        limits = ["--rate", str(RATE), "--duration", str(round(seconds)), "--pid", str(pid)]
        command = [spy, "record", *options, *limits]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            return Missing(f"py-spy: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        samples = sum(int(line.split()[-1]) for line in Path(file.name).read_text().splitlines())
    return samples / (RATE * round(seconds))


def loop(operation: str, threads: str, table_path: str, path: str) -> None:
    """Do the work again and again until this process is stopped."""
    use_two_cores()
    work = work_of(operation, int(threads), load(table_path), path)
    work()
    print("ready", flush=True)
    while True:
        work()


def run(plan: Plan, log: Callable[[str], None]) -> Results:
    results = Results("threads", [OURS], asdict(plan), machine.about())
    for case in plan.cases:
        log(str(case))
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            _measure(results, plan, case, Path(folder))
    return results


def _measure(results: Results, plan: Plan, case: Case, folder: Path) -> None:
    table = case.make()
    paths = str(folder / "table.arrow"), str(folder / "file.mosaic")
    with pa.OSFile(paths[0], "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    fm.write_table(table, paths[1])
    del table
    with Worker(FastMosaic()) as worker:
        found = worker.call(times, *paths, plan.turns, plan.seconds, seconds=600)
    if isinstance(found, Missing):
        raise SystemExit(f"{case}: {found.reason}")
    for measure, seconds in found.items():
        results.add(case, measure, OURS, seconds)
    for operation in OPERATIONS:
        for threads in THREADS:
            share = gil_share(operation, threads, *paths, plan.sampled_seconds)
            results.add(case, share_of(operation, threads), OURS, share)


# ---- the page


def speedup(share: float, threads: int) -> float:
    """The most that threads can gain if a share of the work is done by one at a time (Amdahl)."""
    return 1 / (share + (1 - share) / threads)


def grid(results: Results, operation: str, title: str) -> Grid:
    rows = []
    for case in results.cases:
        one, two = (results.get(case, with_threads(operation, n), OURS) for n in THREADS)
        shares = [results.get(case, share_of(operation, n), OURS) for n in THREADS]
        alone = shares[0]
        rows.append(
            [
                case,
                *(figure(None if seconds is None else 1000 * seconds) for seconds in (one, two)),
                figure(one / two if one and two else None),
                *("-" if share is None else f"{share:.0%}" for share in shares),
                *(
                    figure(None if alone is None else speedup(alone, n))
                    for n in (THREADS[1], *MANY)
                ),
            ]
        )
    header = ["", "1 thread, ms", "2 threads, ms", "speedup", "GIL, 1 thread", "GIL, 2 threads"]
    header += [f"bound, {n}" for n in (THREADS[1], *MANY)]
    notes = [
        f"{case}, {measure}: {missing.reason}"
        for (case, measure, _), missing in results.missing.items()
        if measure.startswith(operation)
    ]
    return Grid(title, header, rows, notes)


def grids(results: Results) -> list[Grid]:
    return [
        grid(results, WHOLE, "Reading the whole table"),
        grid(results, WRITE, "Writing"),
    ]


def write(results: Results, folder: Path) -> Path:
    """Write threads.md into a folder, and return its path."""
    path = folder / "threads.md"
    path.write_text(markdown(results), encoding="utf-8")
    return path


def markdown(results: Results) -> str:
    tables = "\n".join(one.markdown() for one in grids(results))
    return f"""---
hide:
  - toc
---

# Threads

fastmosaic compresses, decompresses, encodes and decodes on all cores. Python's global interpreter lock
(GIL) limits how far this scales, because work under the lock is done by one thread at a time. This page
shows whole reads and writes of {results.options["columns"]:,} columns with one and two threads, and the share of the time in
which a thread holds the lock. `make bench` reproduces every number on this page.

{tables}
- *speedup* is measured: the time of one thread divided by the time of two.
- *GIL* is the share of the time in which a thread holds the lock, while one operation follows the other.
- *bound* is an estimate, not a measurement: the most that 2, 8 and 32 threads could gain according to Amdahl's
  law, 1 / (s + (1 - s) / n), where s is the GIL share of one thread. Memory bandwidth, the disk and other work
  that cannot be divided may keep the real gain below it.

## Method

- Times are the best of at least {results.options["turns"]} turns in a process that has two cores. One thread means `use_threads=False`.
- Files are read from the page cache. Writing goes to the null device, so that the disk is not measured.
- [py-spy](https://pypi.org/project/py-spy/) samples the process from outside, {RATE} times a second for
  {results.options["sampled_seconds"]:g} s, without stopping it (`py-spy record --gil --nonblocking`). The share is the number of samples
  in which a thread held the lock, divided by the number of all samples.
{report.fact_list(results)}

```
make bench-threads
python -m bench.threads --quick
```
"""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.threads", description=__doc__)
    render.add_arguments(parser, quick="one number of rows, shorter")
    parser.add_argument("--loop", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.loop:
        loop(*args.loop)
    start = time.monotonic()

    def log(line: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {line}", file=sys.stderr, flush=True)

    results = run(QUICK if args.quick else FULL, log)
    log("done")
    for one in grids(results):
        print(one.text())
    render.publish(results, args.out, complete=not args.quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
