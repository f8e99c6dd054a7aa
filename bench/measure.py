"""The measurements: every contender writes every table, then all read it, by turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from . import worker
from .contenders import OURS, Contender
from .floor import columns_floor, whole_floor
from .plan import FIRST, MEMORY, SIZE, WRITE, Case, Plan, Query
from .results import FLOOR, Missing, Results
from .worker import Worker

Log = Callable[[str], None]


def run(plan: Plan, contenders: Sequence[Contender], folder: Path, log: Log) -> Results:
    """The results of all measurements; files go into `folder` and are removed again."""
    results = Results(plan, tuple(contenders))
    log("import")
    results.import_seconds = import_seconds(plan.turns)
    for case in plan.cases:
        log(f"{case}: making the table")
        table = case.make()
        measurement = _Measurement(results, case, folder, log)
        measurement.save(table)
        queries = case.queries(table)
        del table
        measurement.write()
        measurement.read(queries)
        for path in folder.iterdir():
            path.unlink()
    return results


def import_seconds(runs: int) -> float:
    """The time of `import fastmosaic` after `import pyarrow`, in processes of their own."""
    code = (
        "import pyarrow, time; start = time.perf_counter(); import fastmosaic; "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code]
    return min(
        float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(1 + runs)
    )


@dataclass
class _Measurement:
    """Of one case."""

    results: Results
    case: Case
    folder: Path
    log: Log

    @property
    def plan(self) -> Plan:
        return self.results.plan

    @property
    def table_path(self) -> str:
        return str(self.folder / "table.arrow")

    def path(self, name: str) -> str:
        return str(self.folder / f"file.{name}")

    def save(self, table: pa.Table) -> None:
        """Put the table where the workers find it."""
        with pa.OSFile(self.table_path, "wb") as file, pa.ipc.new_file(file, table.schema) as out:
            out.write_table(table)

    def add(self, measure: str, name: str, value: float | Missing) -> None:
        self.results.add(self.case, measure, name, value)

    def write(self) -> None:
        """Let every contender write the table, in rounds, each time in a new process."""
        todo = [
            contender
            for contender in self.results.contenders
            if (self.case, contender.name) not in self.plan.left_out
        ]
        for contender in self.results.contenders:
            if contender not in todo:
                self.add(WRITE, contender.name, Missing("left out, it takes too long"))
        for _ in range(1 if self.case.only else self.plan.rounds):
            todo = [contender for contender in todo if self._write(contender)]

    def _write(self, contender: Contender) -> bool:
        """Write the table once; whether it was so fast that once more is worth while."""
        name = contender.name
        self.log(f"{self.case}: {name}: write")
        budget = 0 if self.case.only else self.plan.write_seconds / self.plan.rounds
        with Worker(contender) as process:
            written = process.call(
                *(worker.write, self.table_path, self.path(name), self.case.group_rows, budget),
                seconds=self.plan.limit,
            )
        if isinstance(written, Missing):
            self.add(WRITE, name, written)
            return False
        self.add(WRITE, name, written.seconds)
        self.add(MEMORY, name, written.peak_bytes)
        self.add(SIZE, name, written.size)
        return written.seconds < self.plan.write_seconds

    def read(self, queries: dict[str, Query]) -> None:
        """Let all who wrote the table run the queries, by turns."""
        readers = [
            contender
            for contender in self.results.contenders
            if self.results.get(self.case, WRITE, contender.name) is not None
        ]
        with ExitStack() as stack:
            workers = {
                contender.name: stack.enter_context(Worker(contender)) for contender in readers
            }
            for measure, query in queries.items():
                if measure == FIRST:
                    for _ in range(self.plan.first_turns):
                        self._first_turn(readers, query)
                else:
                    self._by_turns(workers, measure, query)

    def _first_turn(self, readers: Sequence[Contender], query: Query) -> None:
        for contender in readers:
            self.log(f"{self.case}: {contender.name}: {FIRST}")
            with Worker(contender) as process:
                path = self.path(contender.name)
                result = process.call(worker.first_read, path, query, seconds=self.plan.limit)
            self.add(FIRST, contender.name, result)

    def _by_turns(self, workers: dict[str, Worker], measure: str, query: Query) -> None:
        """Check what everyone returns, which is the warm-up, too; then measure, by turns."""
        spent = {name: 0.0 for name in workers if self._check(name, workers[name], measure, query)}
        floor = self._floor(query) if OURS in spent else None
        for _ in range(self.plan.turns):
            for name, so_far in spent.items():
                if so_far < self.plan.read_seconds:
                    spent[name] += self._turn(name, workers[name], measure, query)
            if floor:
                self.add(measure, FLOOR, worker.best_time(floor, self.plan.turn_seconds))

    def _check(self, name: str, process: Worker, measure: str, query: Query) -> bool:
        self.log(f"{self.case}: {name}: {measure}")
        checked = process.call(
            *(worker.check, self.table_path, self.path(name), query), seconds=self.plan.limit
        )
        if isinstance(checked, Missing):
            self.add(measure, name, checked)
            return False
        self.results.casts.setdefault(name, set()).update(checked.casts)
        self.results.checked[name] = self.results.checked.get(name, 0) + 1
        return True

    def _turn(self, name: str, process: Worker, measure: str, query: Query) -> float:
        result = process.call(
            *(worker.read, self.path(name), query, self.plan.turn_seconds),
            seconds=self.plan.limit,
        )
        self.add(measure, name, result)
        return float("inf") if isinstance(result, Missing) else result

    def _floor(self, query: Query) -> Callable[[], None]:
        path = self.path(OURS)
        if query.columns is None:
            return whole_floor(path)
        return columns_floor(path, query.columns, query.where)
