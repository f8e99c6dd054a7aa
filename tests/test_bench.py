"""The benchmarks run, on a small table: all measures are there, and wrong values are noticed."""

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import fastmosaic as fm
from bench import arrays, floor, measure, report, size, tables, tuning
from bench.contenders import CONTENDERS, Contender, Feather
from bench.plan import (
    ALL_STATISTICS,
    FILTER,
    FIRST,
    HUNDRED,
    HUNDRED_ADJACENT,
    NEW_SCHEMA,
    OPEN,
    TEN,
    TEN_ADJACENT,
    WITH_STATISTICS,
    WITHOUT_STATISTICS,
    Case,
    Plan,
)
from bench.results import (
    FLOOR,
    MEMORY,
    OURS,
    REFERENCE,
    SIZE,
    WHOLE,
    WRITE,
    Missing,
    Results,
)
from bench.targets import targets
from bench.worker import Worker, compare

SMALL = Case("wide", 30, 20)
SENSOR = Case("sensor", 30, 20, only=OPEN)
GROUPS = Case("wide", 30, 20, only=FILTER, group_rows=5)
NARROW = Case("wide", 10, 20, only=OPEN)
PLAN = Plan(
    cases=(SMALL, SENSOR, GROUPS, NARROW),
    rounds=1,
    turns=1,
    first_turns=0,
    turn_seconds=0.001,
    round_seconds=0.01,
    write_seconds=1,
    read_seconds=1,
    limit=60,
    left_out=[(SENSOR, "ORC")],
)


class Forgetful(Feather):
    """Returns the rows, but the last one twice instead of the first."""

    name = "Forgetful"

    def read(self, path: str, columns: list[str] | None) -> pa.Table:
        table = super().read(path, columns)
        return pa.concat_tables([table.slice(1), table.slice(table.num_rows - 1)])


def run(plan: Plan, contenders: Sequence[Contender], folder: Path) -> Results:
    return measure.run(plan, contenders, folder, lambda line: None)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param({OURS, "ORC"}, id="two contenders"),
        pytest.param(
            {OURS, REFERENCE, "Parquet", "ORC", "Feather"},
            id="all contenders",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_run_measures_everything(tmp_path: Path, names: set[str]) -> None:
    contenders = [c for c in CONTENDERS if c.name in names]
    assert len(contenders) == len(names)
    results = run(PLAN, contenders, tmp_path)

    reads = [OPEN, TEN, TEN_ADJACENT, HUNDRED, HUNDRED_ADJACENT, WHOLE]
    wanted = {(SMALL, measure) for measure in [WRITE, SIZE, MEMORY, *reads]}
    wanted |= {(GROUPS, FILTER), (NARROW, OPEN)}
    wanted = {(str(case), what) for case, what in wanted}
    for name in names:
        assert wanted <= {(case, what) for case, what, who in results.values if who == name}
    floor = {(case, what) for case, what, who in results.values if who == FLOOR}
    assert floor == {(str(SENSOR), OPEN), (str(SMALL), NEW_SCHEMA), *wanted} - {
        (str(SMALL), what) for what in (WRITE, SIZE, MEMORY)
    }
    own = {NEW_SCHEMA, ALL_STATISTICS, WITH_STATISTICS, WITHOUT_STATISTICS}
    assert {what for _, what, who in results.values if who == OURS} >= own
    assert not results.wrong
    assert results.comparisons == {c.name: 9 - (c.name == "ORC") for c in contenders}
    assert not list(tmp_path.iterdir())

    assert results.get(SENSOR, WRITE, "ORC") is None
    assert "ORC, write: left out" in report.case_grid(results, SENSOR).text()
    for case in PLAN.cases:
        grid = report.case_grid(results, case)
        assert grid.header[1:] == [*results.names, FLOOR, "ref/fm", "peer/fm", "fm/floor"]
        assert {len(row) for row in grid.rows} == {len(grid.header)}
        assert len(grid.text().splitlines()) == 4 + len(grid.rows) + len(grid.notes)


def test_wrong_values_are_noticed(tmp_path: Path) -> None:
    case = replace(SMALL, only=WHOLE)
    results = run(replace(PLAN, cases=(case,)), [Forgetful()], tmp_path)
    assert results.get(case, WHOLE, "Forgetful") is None
    assert "WRONG: Forgetful, wide, 30 columns, 20 rows, whole table: column" in report.text(
        results
    )


def test_the_first_read_of_a_process_is_measured(tmp_path: Path) -> None:
    case = replace(SMALL, only=FIRST)
    results = run(replace(PLAN, cases=(case,), first_turns=1), CONTENDERS[:1], tmp_path)
    assert results.measures(case) == [WRITE, SIZE, FIRST]


def test_import_is_measured() -> None:
    assert measure.import_seconds(runs=1) > 0


def test_growth_is_along_one_dimension() -> None:
    results = PLAN.results("files", CONTENDERS)
    for case, value in [(SMALL, 6), (NARROW, 2)]:
        results.add(case, OPEN, OURS, value)
    assert PLAN.growth("columns") == [NARROW, SMALL]
    (grid,) = report.growth_grids(results)
    assert grid.header == ["", "10 x 20", "30 x 20", "last/first"]
    assert grid.rows[0] == [OURS, "2,000", "6,000", "3.00"]


def test_targets_are_judged() -> None:
    results = PLAN.results("files", CONTENDERS)
    for name, value in [(OURS, 1), ("Parquet", 0.9), ("ORC", 3)]:
        results.add(SMALL, WRITE, name, value)
    verdicts = {target.text: target.verdict for target in targets(results)}
    assert verdicts["write, wide, 20 rows: faster than ORC"] == "met"
    assert verdicts["write, wide, 20 rows: faster than Parquet"] == "NOT met"
    assert verdicts["whole table, 4,500 rows: faster than every peer"] == "not measured"


def test_targets_of_fastmosaic_alone_are_judged() -> None:
    case = Case("wide", 10_000, 500)
    results = replace(PLAN, cases=(case,)).results("files", CONTENDERS)
    for measured, ours, least in [
        (WHOLE, 0.050, 0.020),
        (FIRST, 0.0009, None),
        (NEW_SCHEMA, 0.0006, 0.0003),
        (ALL_STATISTICS, 0.0205, None),
        (WITH_STATISTICS, 0.33, None),
        (WITHOUT_STATISTICS, 0.30, None),
    ]:
        results.add(case, measured, OURS, ours)
        if least:
            results.add(case, measured, FLOOR, least)
    judged = {one.text: (one.measured, one.verdict) for one in targets(results)}
    assert judged["whole table, 500 rows: at most 2 times the physical floor"] == (2.5, "NOT met")
    assert judged[f"{FIRST}, 500 rows: at most 1 ms"] == (0.9, "met")
    assert judged[f"{NEW_SCHEMA}, 500 rows: at most 3 times the physical floor"] == (2, "met")
    assert judged[f"{ALL_STATISTICS}, 500 rows: at most 20 ms"] == (20.5, "NOT met")
    assert judged[f"{WITH_STATISTICS}, 500 rows: at most 1.15 times as long as without"] == (
        pytest.approx(1.1),
        "met",
    )
    assert judged[f"{FIRST}, 10 rows: at most 1 ms"] == (None, "not measured")


def test_the_best_peer_is_neither_ours_nor_the_reference() -> None:
    results = PLAN.results("files", CONTENDERS)
    for name, value in [(OURS, 1), (REFERENCE, 2), ("Parquet", 4), ("ORC", 3)]:
        results.add(SMALL, WRITE, name, value)
    assert results.best_peer(SMALL, WRITE) == ("ORC", 3)


def test_the_best_result_stays() -> None:
    results = PLAN.results("files", CONTENDERS)
    for value in (3, 2, 4):
        results.add(SMALL, WRITE, OURS, value)
    assert results.get(SMALL, WRITE, OURS) == 2


def test_comparing_casts_and_says_so() -> None:
    written = pa.table({"a": ["x", None], "b": [1, 2]})
    views = pa.table({"b": [1, 2], "a": pa.array(["x", None], pa.string_view())})
    assert compare(views, written) == (("string_view to string",), "")


@pytest.mark.parametrize(
    ("result", "difference"),
    [
        ({"a": [1, 2]}, "column 'a' has other values"),
        ({"a": [1]}, "1 rows instead of 2"),
        ({"b": [1, None]}, "other columns than were asked for"),
    ],
)
def test_comparing_finds_differences(result: dict[str, list[int]], difference: str) -> None:
    assert difference in compare(pa.table(result), pa.table({"a": [1, None]}))[1]


def fail(_: Contender) -> None:
    raise ValueError("no such type\nand more")


def die(_: Contender) -> None:
    os._exit(3)


def sleep(_: Contender, seconds: float) -> None:
    time.sleep(seconds)


def test_a_worker_survives_what_contenders_do() -> None:
    with Worker(Feather()) as worker:
        assert worker.call(fail, seconds=60) == Missing("ValueError: no such type")
        assert worker.call(die, seconds=60) == Missing("the process died, exit code 3")
        assert worker.call(sleep, 60, seconds=0.1) == Missing("took more than 0.1 s")
        assert worker.call(sleep, 0, seconds=60) is None


@pytest.mark.parametrize("threshold", [1, 1 << 30], ids=["paged", "monolithic"])
def test_the_floor_reads_only_what_is_needed(
    threshold: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "file")
    fm.write_table(tables.wide(200, 500), path, num_buckets=10, page_size_threshold=threshold)
    bucket = fm.read_metadata(path).row_group(0).buckets[0]
    size = os.path.getsize(path)
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda *args: read.append(args[1:]) or pread(*args))

    work = floor.columns_floor(path, bucket.columns[3:4])
    read.clear()  # finding out where the blocks are
    work()
    assert read[-1] == (floor.TAIL_BYTES, size - floor.TAIL_BYTES)
    if threshold == 1:
        assert read[0] == (4 * 20, bucket.offset)
        assert sum(count for count, _ in read[:-1]) < bucket.compressed_size / 4
    else:
        assert read[:-1] == [(bucket.compressed_size, bucket.offset)]

    work = floor.whole_floor(path)
    read.clear()
    work()
    assert read == [(size, 0)]


def test_sensor_is_mostly_small_and_null() -> None:
    table = tables.sensor(500, 200)
    counts = Counter(table.schema.types)
    nulls = [column.null_count for column in table.columns]
    assert counts[pa.int8()] == 400
    assert set(counts) == {pa.int8(), pa.int16(), pa.int32(), pa.float64()}
    assert sum(count == 200 for count in nulls) == 90
    assert sum(nulls) / (500 * 200) == pytest.approx(0.6, abs=0.03)
    assert table.column_names == sorted(table.column_names)


def test_lists_are_measured_in_both_layouts(monkeypatch) -> None:
    for name, value in {"ROWS": 2000, "VECTORS": 10, "RUNS": 1}.items():
        monkeypatch.setattr(arrays, name, value)
    _, _, *lines = arrays.table_of_results().splitlines()
    assert [line.split(" | ")[2] for line in lines] == ["columns", "block"] * len(arrays.CASES)


def test_options_are_measured(tmp_path, monkeypatch):
    for name in ("ROUNDS", "TURNS", "REMOTE_RUNS"):
        monkeypatch.setattr(tuning, name, 1)
    monkeypatch.setattr(tuning, "TURN_SECONDS", 0.001)
    first = tuning.EXPERIMENTS["pages"][0]
    experiment = replace(
        first,
        table=lambda: tables.numbered(tables.wide(120, 20)),
        variants=dict(list(first.variants.items())[:2]),
    )
    results = tuning.measure(experiment, tmp_path)
    lines = tuning.markdown(experiment, results)
    assert len(lines) == 2 + len(experiment.variants)
    assert [line.count("|") for line in lines] == [lines[0].count("|")] * len(lines)


# ---- sizes


@pytest.mark.parametrize("case", size.CASES, ids=lambda case: case.name)
def test_every_step_of_a_large_case_works_at_a_small_size(case, tmp_path):
    scale = size.Scale().reduced(1000)
    ours = CONTENDERS[0]
    costs = {step: size.measure(ours, case.name, step, tmp_path, scale) for step in case.steps}
    for step, cost in costs.items():
        is_error = "Error: " in cost.says
        assert is_error == ("missing name" in step), cost
    text = size.markdown([(case, costs)])
    assert f"## {case.title}" in text
    assert all(f"| {step} |" in text for step in case.steps)


def test_a_step_that_fails_says_why(tmp_path):
    cost = size.measure(CONTENDERS[0], "groups", "open", tmp_path, size.Scale())
    assert "FileNotFoundError" in cost.says
    assert str(tmp_path) not in cost.says
