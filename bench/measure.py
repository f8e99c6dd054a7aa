"""The measurements: every contender writes every table, then all read it, by turns."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from . import own, worker
from .contenders import Contender
from .floor import columns_floor, whole_floor
from .plan import FIRST, OPEN, WRITE_OPEN, Case, Plan, Query
from .results import FLOOR, MEMORY, OURS, SIZE, WRITE, Missing, Results
from .worker import Worker, Written

Log = Callable[[str], None]


def run(
    plan: Plan, contenders: Sequence[Contender], folder: Path, log: Log, bench: str = "files"
) -> Results:
    """The results of all measurements; files go into `folder` and are removed again."""
    results = plan.results(bench, contenders)
    with ExitStack() as stack:
        workers = {contender: stack.enter_context(Worker(contender)) for contender in contenders}
        for case in plan.cases:
            log(f"{case}: making the table")
            table = case.make()
            measurement = _Measurement(results, plan, case, workers, folder, log)
            measurement.save(table)
            queries = case.queries(table)
            del table
            measurement.write()
            measurement.read(queries)
            if case.only is None and OURS in results.names:
                measurement.own(queries[OPEN].columns[0])
            for path in folder.iterdir():
                path.unlink()
    return results


def import_seconds(runs: int) -> float:
    """The time of `import fastmosaic` after `import pyarrow`, in processes of their own.

    From compiled bytecode, as an installed package has it; the first run makes it.
    """
    code = (
        "import pyarrow, time; start = time.perf_counter(); import fastmosaic; "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return min(
            float(
                subprocess.run(
                    command, check=True, capture_output=True, text=True, env=environment
                ).stdout
            )
            for _ in range(runs + 1)
        )


@dataclass
class _Measurement:
    """Of one case."""

    results: Results
    plan: Plan
    case: Case
    workers: dict[Contender, Worker]
    folder: Path
    log: Log

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
        """Let every contender write the table, in rounds."""
        todo = []
        for contender in self.workers:
            if (self.case, contender.name) in self.plan.left_out:
                self.add(WRITE, contender.name, Missing("left out of this run: too slow"))
            else:
                todo.append(contender)
        for _ in range(self.plan.rounds):
            todo = [contender for contender in todo if self._write(contender)]

    def _write(self, contender: Contender) -> bool:
        """Write the table; whether that was so fast that once more is worth while.

        If memory is measured, in a process of its own.
        """
        name = contender.name
        self.log(f"{self.case}: {name}: {WRITE}")
        budget = self.plan.round_seconds
        if self.case.only:
            written = self._write_in(self.workers[contender], name, budget)
        else:
            with Worker(contender) as process:
                written = self._write_in(process, name, budget)
        if isinstance(written, Missing):
            self.add(WRITE, name, written)
            return False
        self.add(WRITE, name, written.seconds)
        if name == OURS and self.plan.open_file:
            args = self.table_path, f"{self.path(name)}.open", budget
            seconds = self.workers[contender].call(
                worker.write_open, *args, seconds=self.plan.limit
            )
            self.add(WRITE_OPEN, name, seconds)
        self.add(SIZE, name, written.size)
        if not self.case.only:
            self.add(MEMORY, name, written.peak_bytes)
        return written.seconds < self.plan.write_seconds

    def _write_in(self, process: Worker, name: str, budget: float) -> Written | Missing:
        args = self.table_path, self.path(name), self.case.group_rows, budget
        return process.call(worker.write, *args, seconds=self.plan.limit)

    def read(self, queries: dict[str, Query]) -> None:
        """Let all who wrote the table run the queries, by turns."""
        readers = [
            contender
            for contender in self.workers
            if self.results.get(self.case, WRITE, contender.name) is not None
        ]
        for measure, query in queries.items():
            if measure == FIRST:
                for _ in range(self.plan.first_turns):
                    self._first_turn(readers, query)
            else:
                self._by_turns(readers, measure, query)

    def own(self, column: str) -> None:
        """Measure what is asked of fastmosaic alone."""
        self.log(f"{self.case}: {OURS}: new schemas, statistics")
        ours = next(contender for contender in self.workers if contender.name == OURS)
        own.measure(ours, self.table_path, self.folder, column, self.add)

    def _first_turn(self, readers: Sequence[Contender], query: Query) -> None:
        for contender in readers:
            self.log(f"{self.case}: {contender.name}: {FIRST}")
            with Worker(contender) as process:
                args = self.path(contender.name), query
                result = process.call(worker.first_read, *args, seconds=self.plan.limit)
            self.add(FIRST, contender.name, result)

    def _by_turns(self, readers: Sequence[Contender], measure: str, query: Query) -> None:
        """Check what everyone returns, which is the warm-up, too; then measure, by turns."""
        spent = {reader: 0.0 for reader in readers if self._check(reader, measure, query)}
        floor = self._floor(query) if OURS in [reader.name for reader in spent] else None
        for _ in range(self.plan.turns):
            for reader, seconds in spent.items():
                if seconds < self.plan.read_seconds:
                    spent[reader] += self._turn(reader, measure, query)
            if floor:
                self.add(measure, FLOOR, worker.best_time(floor, self.plan.turn_seconds))

    def _check(self, reader: Contender, measure: str, query: Query) -> bool:
        self.log(f"{self.case}: {reader.name}: {measure}")
        args = self.table_path, self.path(reader.name), query
        checked = self.workers[reader].call(worker.check, *args, seconds=self.plan.limit)
        if isinstance(checked, Missing):
            self.add(measure, reader.name, checked)
            return False
        self.results.checked(reader.name, checked.casts)
        return True

    def _turn(self, reader: Contender, measure: str, query: Query) -> float:
        args = self.path(reader.name), query, self.plan.turn_seconds
        result = self.workers[reader].call(worker.read, *args, seconds=self.plan.limit)
        self.add(measure, reader.name, result)
        return float("inf") if isinstance(result, Missing) else result

    def _floor(self, query: Query) -> Callable[[], None]:
        path = self.path(OURS)
        if query.columns is None:
            return whole_floor(path)
        return columns_floor(path, query.columns, query.where)
