"""What is measured: the tables, the queries, and how much patience there is."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from . import machine, packaged, shapes, tables, unseen
from .contenders import Contender
from .results import WHOLE, Results

IMPORT = "import fastmosaic"  # a case of its own, without a table

# Measures of reading.
OPEN = "open + 1"
FIRST = "open + 1, first in a process"
TEN, TEN_ADJACENT = "open + 10 scattered", "open + 10 adjacent"
HUNDRED, HUNDRED_ADJACENT = "open + 100 scattered", "open + 100 adjacent"
FILTER = "filter, 10 columns"

# Measures of fastmosaic alone.
WRITE_OPEN = "write to an open file"  # which is not synced to disk, as the others do not sync
NEW_SCHEMA = "open + 1, schema not seen before"
ALL_STATISTICS = "all statistics"
WITHOUT_STATISTICS = "write without statistics, by turns"
WITH_STATISTICS = "write with statistics of all columns"


_MAKERS = tables.KINDS | shapes.KINDS | unseen.KINDS | packaged.KINDS


@dataclass(frozen=True)
class Query:
    """Columns to read, None for all; `where` is a column and the value that it must have."""

    columns: tuple[str, ...] | None
    where: tuple[str, int] | None = None

    def run(self, contender: Contender, path: str) -> pa.Table:
        if self.columns is None:
            return contender.read_all(path)
        if self.where is None:
            return contender.read(path, list(self.columns))
        return contender.filter(path, list(self.columns), *self.where)

    def expected(self, table: pa.Table) -> pa.Table:
        if self.where is not None:
            table = table.filter(pc.field(self.where[0]) == self.where[1])
        return table if self.columns is None else table.select(self.columns)


@dataclass(frozen=True)
class Case:
    """A table, and what to measure of it: everything, or one query.

    With `group_rows` it gets a column of row numbers with statistics, and row groups.
    """

    kind: str
    columns: int
    rows: int
    only: str | None = None
    group_rows: int = 0
    part: str = ""  # of the plan, for sums

    def __str__(self) -> str:
        groups = f" in row groups of {self.group_rows:,}" if self.group_rows else ""
        return f"{self.kind}, {self.columns:,} columns, {self.rows:,} rows{groups}"

    def make(self) -> pa.Table:
        table = _MAKERS[self.kind](self.columns, self.rows)
        return tables.numbered(table) if self.group_rows else table

    def queries(self, table: pa.Table) -> dict[str, Query]:
        """The queries by measure: scattered columns are drawn, adjacent ones in table order."""
        names = [name for name in table.column_names if name != tables.ROW_NUMBER]
        drawn = random.Random(len(names)).sample(names, len(names))
        # One column alone should not happen to be one without values.
        one = (next(name for name in drawn if table[name].null_count < table.num_rows),)
        queries = {OPEN: Query(one), FIRST: Query(one)}
        for count, scattered, adjacent in (
            (10, TEN, TEN_ADJACENT),
            (100, HUNDRED, HUNDRED_ADJACENT),
        ):
            start = max(0, len(names) - count) // 2
            queries[scattered] = Query(tuple(drawn[:count]))
            queries[adjacent] = Query(tuple(names[start : start + count]))
        queries[WHOLE] = Query(None)
        if self.group_rows:
            queries[FILTER] = Query(tuple(drawn[:10]), (tables.ROW_NUMBER, self.rows // 2))
        return {name: query for name, query in queries.items() if self.only in (None, name)}


@dataclass(frozen=True)
class Plan:
    """What to measure, and how often."""

    cases: tuple[Case, ...]
    rounds: int  # in which each contender writes, in a process of its own
    turns: int  # that each contender gets to read
    first_turns: int  # the same for FIRST
    turn_seconds: float  # that a turn lasts at least, by repetition
    round_seconds: float  # that a round of writing lasts at least, by repetition
    write_seconds: float  # a contender that needs so long to write gets one round only
    read_seconds: float  # once a contender has spent so long on a query, it gets no more turns
    limit: float  # seconds after which a contender is stopped
    left_out: Sequence[tuple[Case, str]] = ()  # contenders too slow for this plan
    open_file: bool = False  # also measure WRITE_OPEN

    def results(self, bench: str, contenders: Sequence[Contender]) -> Results:
        """Results of this plan, none of them measured yet."""
        names = [contender.name for contender in contenders]
        return Results(bench, names, asdict(self), machine.about())

    @classmethod
    def of(cls, results: Results) -> Self:
        """The plan that some results are of."""
        options: dict[str, Any] = {
            **results.options,
            "cases": tuple(Case(**case) for case in results.options["cases"]),
            "left_out": tuple((Case(**case), name) for case, name in results.options["left_out"]),
        }
        return cls(**options)

    def find(self, kind: str, columns: int, rows: int) -> Case | None:
        """The case with such a table, other than the one in row groups."""
        for case in self.cases:
            if (case.kind, case.columns, case.rows, case.group_rows) == (kind, columns, rows, 0):
                return case
        return None

    def growth(self, along: Literal["columns", "rows"]) -> list[Case]:
        """The cases of "wide" that differ in nothing but their columns, or rows; smallest first."""
        other = "rows" if along == "columns" else "columns"
        cases = [case for case in self.cases if case.kind == "wide" and not case.group_rows]
        counts = Counter(getattr(case, other) for case in cases)
        if not counts:
            return []
        common = counts.most_common(1)[0][0]
        found = [case for case in cases if getattr(case, other) == common]
        return sorted(found, key=lambda case: getattr(case, along))


FULL = Plan(
    cases=(
        Case("wide", 10_000, 10),
        Case("wide", 10_000, 500),
        Case("wide", 10_000, 4_500),
        Case("sensor", 30_000, 1_500),
        Case("wide", 10_000, 4_500, only=FILTER, group_rows=500),
        Case("wide", 1_000, 10, only=OPEN),
        Case("wide", 100_000, 10, only=OPEN),
    ),
    rounds=3,
    turns=7,
    first_turns=5,
    turn_seconds=0.05,
    round_seconds=2,
    write_seconds=6,
    read_seconds=10,
    limit=300,
)

_MEDIUM = Case("wide", 10_000, 500)
QUICK = Plan(
    cases=(
        Case("wide", 10_000, 10),
        _MEDIUM,
        Case("wide", 1_000, 500, only=FILTER, group_rows=50),
        Case("wide", 1_000, 10, only=OPEN),
    ),
    rounds=1,
    turns=2,
    first_turns=0,
    turn_seconds=0.02,
    round_seconds=1,
    write_seconds=1,
    read_seconds=0.5,
    limit=30,
    left_out=[(_MEDIUM, "Vortex")],
)
