"""Results of benchmarks as data: files, comparisons, and the pages that are made from them."""

import json
import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import (
    compare,
    datasets,
    epoch,
    kinds,
    kinds_page,
    living,
    living_page,
    loaders,
    measure,
    overview,
    packaged,
    render,
    shapes,
    threads,
    tpch,
    training,
    training_page,
    unseen,
)
from bench.columns import digits, runs
from bench.contenders import CONTENDERS
from bench.packaged import Packaged
from bench.plan import HUNDRED, OPEN, WRITE_OPEN, Case, Plan
from bench.results import (
    FLOOR,
    OURS,
    PROCESSOR,
    PUBLISHED,
    SHARE,
    SIZE,
    TIME,
    WHOLE,
    WRITE,
    Missing,
    Results,
)
from bench.targets import Target
from bench.worker import Worker

ABOUT = {
    "date": "2026-11-18",
    "commit": "0123456789ab",
    "machine": {"Cores": "2"},
    "versions": {"fastmosaic": "0.1.0"},
}


def results_of(values: dict[tuple[str, str, str], float], bench: str = "kinds") -> Results:
    names = list(dict.fromkeys(name for _, _, name in values))
    return Results(bench, names, {}, ABOUT, dict(values))


BEFORE = {
    ("a", WRITE, OURS): 0.5,
    ("b", WRITE, OURS): 0.2,
    ("a", SIZE, OURS): 1000,
    ("b", SIZE, OURS): 4000,
    ("a", WRITE, "ORC"): 1.0,
    ("b", WRITE, "ORC"): 1.0,
    ("gone", WRITE, OURS): 1.0,
}
AFTER = {
    ("a", WRITE, OURS): 1.0,  # 2
    ("b", WRITE, OURS): 0.1,  # 0.5
    ("a", SIZE, OURS): 900,  # 0.9
    ("b", SIZE, OURS): 4000,  # 1
    ("a", WRITE, "ORC"): 1.5,
    ("b", WRITE, "ORC"): 1.5,
    ("new", WRITE, OURS): 1.0,
}


# ---- files of results


def test_results_come_back_from_their_file(tmp_path: Path) -> None:
    results = results_of(BEFORE)
    results.options = {"cases": [{"kind": "a", "columns": 1}], "turns": 3}
    results.add("a", WHOLE, "Lance", Missing("no such type", wrong=True))
    results.checked("ORC", ["string_view to string"])
    path = results.save(tmp_path / "new")
    assert path.name == "kinds.json"
    assert Results.load(path) == results


def test_a_file_of_results_is_readable(tmp_path: Path) -> None:
    path = results_of(BEFORE).save(tmp_path)
    content = json.loads(path.read_text())
    assert content["values"]["a"] == {WRITE: {OURS: 0.5, "ORC": 1.0}, SIZE: {OURS: 1000}}
    assert content["units"] == {WRITE: "s", SIZE: "bytes"}
    assert content["commit"] == ABOUT["commit"]
    # One line for each case and measure, so that a change shows what changed.
    assert f'    "{SIZE}": {{"fastmosaic": 4000}}' in path.read_text()


def test_numbers_keep_six_digits(tmp_path: Path) -> None:
    path = results_of({("a", TIME, OURS): 0.123456789}).save(tmp_path)
    assert Results.load(path).get("a", TIME, OURS) == 0.123457


def test_the_best_result_stays() -> None:
    results = results_of({})
    for value in (3, 2, 4):
        results.add("a", WRITE, OURS, value)
    assert results.get("a", WRITE, OURS) == 2


def test_the_environment_is_noted() -> None:
    about = Plan((), 1, 1, 0, 0, 0, 0, 0, 0).results("files", CONTENDERS).about
    assert about["versions"]["pyarrow"] == pa.__version__
    assert set(about["machine"]) == {"Processor", "Cores", "Memory", "System", "Python"}


# ---- comparing


def test_ratios_are_sorted_by_regression() -> None:
    comparison = compare.compare({"kinds": results_of(BEFORE)}, {"kinds": results_of(AFTER)})
    found = [(one.case, one.measure, one.ratio) for one in comparison.of(OURS)]
    assert found == [("a", WRITE, 2), ("b", SIZE, 1), ("a", SIZE, 0.9), ("b", WRITE, 0.5)]
    assert comparison.only_before == [("kinds", "gone", WRITE, OURS)]
    assert comparison.only_after == [("kinds", "new", WRITE, OURS)]


def test_summaries_are_geometric_means() -> None:
    comparison = compare.compare({"kinds": results_of(BEFORE)}, {"kinds": results_of(AFTER)})
    writes, sizes = compare.summaries(comparison, comparison.of(OURS))
    assert (writes.measure, writes.count) == (WRITE, 2)
    assert writes.mean == pytest.approx(1)  # of 2 and 0.5
    assert (writes.best, writes.worst) == (0.5, 2)
    assert writes.others == pytest.approx(1.5)  # ORC, in both cases
    assert sizes.mean == pytest.approx(math.sqrt(0.9))
    assert sizes.others is None


def test_a_text_selects_results() -> None:
    comparison = compare.compare({"kinds": results_of(BEFORE)}, {"kinds": results_of(AFTER)})
    assert [one.case for one in comparison.of(OURS, SIZE)] == ["b", "a"]
    assert [one.measure for one in comparison.of(OURS, ": a")] == [WRITE, SIZE]


def test_results_of_others_are_compared_on_request() -> None:
    spark = {("load", TIME, "fastmosaic, pruned by the planner"): 1.0, ("load", TIME, "Spark"): 2.0}
    before = {"kinds": results_of(BEFORE), "spark": results_of(spark, "spark")}
    after = {"kinds": results_of(AFTER), "spark": results_of(spark, "spark")}
    comparison = compare.compare(before, after)
    names = [one.name for one in comparison.of()]
    assert f"{TIME}: load, fastmosaic, pruned by the planner" in names
    assert len(names) == 5
    assert [one.ratio for one in comparison.of("ORC")] == [1.5, 1.5]


def test_nothing_becomes_something() -> None:
    change = compare.Change("kinds", "a", SIZE, OURS, 0, 5)
    assert change.ratio == math.inf
    assert compare.Change("kinds", "a", SIZE, OURS, 0, 0).ratio == 1


@pytest.mark.parametrize(
    ("limit", "status"),
    [([], 0), (["--fail-above", "2.1"], 0), (["--fail-above", "1.9"], 1)],
)
def test_the_exit_status_tells_a_regression(
    limit: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results_of(BEFORE).save(tmp_path / "before")
    after = results_of(AFTER).save(tmp_path / "after")
    assert compare.main([str(tmp_path / "before"), str(after), *limit]) == status
    printed = capsys.readouterr()
    assert "  2.00    500 ms       1 s  write: a\n" in printed.out
    assert "  0.90      1 kB    0.9 kB  file size: a\n" in printed.out
    assert ("1 of 4 ratios are above 1.9" in printed.err) == (status == 1)


def test_a_comparison_fits_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "a kind with a name that is longer than a line of a terminal can be, " * 3
    values = {(f"{long}{i}", f"{WRITE} {long}", OURS): float(i + 1) for i in range(30)}
    path = results_of(values).save(tmp_path / ("directory" * 12))
    assert compare.main([str(path), str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "       10 more; --top 0 shows all" in lines


def test_a_comparison_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (
        results_of(values).save(tmp_path / name)
        for name, values in (("before", BEFORE), ("after", AFTER))
    )
    assert compare.main([str(before), str(after), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [one["ratio"] for one in content["changes"]] == [2, 1, 0.9, 0.5]
    assert content["only_after"] == [["kinds", "new", WRITE, OURS]]


def test_a_comparison_needs_something_in_common(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = results_of(BEFORE).save(tmp_path / "one")
    other = results_of(BEFORE, bench="files").save(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    for path, message in (
        (other, "the two runs have no results in common"),
        (tmp_path / "empty", "no results; expected *.json"),
        (tmp_path / "none.json", "No such file"),
    ):
        with pytest.raises(SystemExit, match="2"):
            compare.main([str(one), str(path)])
        assert message in capsys.readouterr().err


# ---- kinds


def case(kind: str, part: str, columns: int = 2, rows: int = 30) -> Case:
    return Case(kind, columns, rows, only=WHOLE, part=part)


CASES = (case("a", "one"), case("b", "one"), case("c", "two"))
SIZES = {  # in kB
    OURS: (10, 22, 30),
    "Parquet": (20, 20, 40),
    "Parquet, no dictionary": (16, 30, 50),
    "ORC": (8, 40, None),
}


@pytest.fixture
def measured() -> Results:
    """Ours is 10/16, 22/20 and 30/40 of the smaller Parquet."""
    plan = Plan(CASES, 1, 1, 0, 0.1, 0.1, 1, 1, 60)
    contenders = [one for one in CONTENDERS if one.name in SIZES]
    results = plan.results("kinds", contenders)
    for name, sizes in SIZES.items():
        for at, size in zip(CASES, sizes, strict=True):
            if size is None:
                results.add(at, WRITE, name, Missing("no such type"))
                continue
            results.add(at, SIZE, name, size * 1000)
            results.add(at, WRITE, name, 2.0 if name == OURS else size / 10)
            results.add(at, WHOLE, name, 1.0)
            results.add(at, WRITE_OPEN, OURS, 1.4)
    return results


def test_the_smaller_parquet_counts(measured: Results) -> None:
    found = kinds_page.of(measured)
    ratios = found.ratios(SIZE, kinds_page.SMALLER)
    assert list(ratios.values()) == [10 / 16, 22 / 20, 30 / 40]
    # The time is that of the same file.
    assert found.get(CASES[0], WRITE, kinds_page.SMALLER) == 1.6
    assert found.get(CASES[1], WRITE, kinds_page.SMALLER) == 2.0


def test_sums_are_of_what_both_have(measured: Results) -> None:
    found = kinds_page.of(measured)
    assert found.sums(SIZE, kinds_page.SMALLER) == (62_000, 76_000, 3)
    assert found.sums(SIZE, "ORC") == (32_000, 48_000, 2)
    row = kinds_page.sum_grid(found).rows[-1]
    assert row == ["all", "0.062", "0.076, 1.23 x", "0.048, 1.50 x (1 missing)"]


def test_targets_of_kinds_are_judged(measured: Results) -> None:
    judged = {one.text: one for one in kinds_page.targets(kinds_page.of(measured))}

    def of(text: str) -> tuple[float | None, str, str]:
        one: Target = judged[text]
        return one.measured, one.verdict, one.note

    size = "each file at most 1.03 times Parquet, the smaller"
    assert of(f"one: {size}") == (1.1, "NOT met", "b; missed by 1 of 2")
    assert of(f"two: {size}") == (0.75, "met", "c; missed by 0 of 1")
    total = "the sum of all files smaller than that of every other format"
    assert of(f"one: {total}") == (32 / 36, "met", f"next is {kinds_page.SMALLER}")
    written = "each file written faster than Parquet"
    assert of(f"one: {written}") == (1.0, "met", "a; missed by 0 of 2")
    assert of(f"one: {written}, no dictionary") == (1.25, "NOT met", "a; missed by 1 of 2")
    unsynced = "each file written faster, not synced, than Parquet"
    assert of(f"one: {unsynced}, no dictionary") == (1.4 / 1.6, "met", "a; missed by 0 of 2")


def test_what_only_another_format_can_store_misses_the_target(measured: Results) -> None:
    del measured.values[str(CASES[2]), SIZE, OURS]
    (target,) = [
        one
        for one in kinds_page.targets(kinds_page.of(measured))
        if one.text.startswith("two: each file at")
    ]
    assert (target.measured, target.verdict) == (math.inf, "NOT met")


def test_it_is_said_where_another_format_is_smaller(measured: Results) -> None:
    rows = kinds_page.larger_grid(kinds_page.of(measured)).rows
    assert rows == [
        ["a", "one", "ORC", "1.25", "1.25"],
        ["b", "one", "Parquet", "1.10", "0.55"],
    ]


def test_a_page_of_kinds_is_made_from_its_file(measured: Results, tmp_path: Path) -> None:
    path = measured.save(tmp_path)
    assert render.main([str(path), "--out", str(tmp_path / "docs")]) == 0
    page = (tmp_path / "docs" / "kinds.md").read_text()
    assert "| a | 10 | 20 | 16 | 8.0 | 0.62 | 1.25 | 0.87 | 1.00 |" in page
    assert "- ORC, c, write: no such type" in page
    for name in ("kinds-size", "kinds-ratios"):
        assert f"](benchmarks/{name}.png)" in page
        assert (tmp_path / "docs" / "benchmarks" / f"{name}.png").stat().st_size > 5_000


def test_kinds_are_measured(tmp_path: Path) -> None:
    cases = (case("float32, 2 decimals", "one"), case("sparse float64 with NaN", "two"))
    plan = Plan(cases, 1, 1, 0, 0.001, 0.001, 1, 1, 60, open_file=True)
    contenders = [one for one in CONTENDERS if one.name in SIZES]
    results = measure.run(plan, contenders, tmp_path, lambda line: None, "kinds")
    assert results.bench == "kinds"
    assert not results.wrong
    assert results.of(cases[0], WRITE_OPEN).keys() == {OURS}
    assert {name: len(results.of(cases[1], SIZE)) for name in SIZES} == dict.fromkeys(SIZES, 4)
    assert "Targets" in kinds_page.text(results)


@pytest.mark.parametrize("name", [*shapes.KINDS, *unseen.KINDS])
def test_every_kind_is_made(name: str) -> None:
    make = {**shapes.KINDS, **unseen.KINDS}[name]
    table = make(2, 300)
    assert table.shape == (300, 2)
    assert table.equals(make(2, 300)) or "NaN" in name
    assert table[0].null_count < 300


def test_kinds_that_are_held_out_are_not_among_the_others() -> None:
    assert not unseen.KINDS.keys() & shapes.KINDS.keys()
    assert len(unseen.KINDS) >= 12


def test_runs_have_their_length() -> None:
    import numpy as np

    values = runs(np.random.default_rng(1), 5, 100_000, lambda k: np.arange(k))
    assert len(values) == 100_000
    assert np.diff(values).sum() == pytest.approx(20_000, rel=0.03)


def test_digits_have_leading_zeros() -> None:
    import numpy as np

    assert digits(np.array([7, 42, 123]), 3).to_pylist() == ["007", "042", "123"]


# ---- tables of packages


def test_tables_are_read_from_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip
    import tarfile
    import zipfile

    folder = tmp_path / "some_package_with_data"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError('packages are not imported')")
    text = ",name\n1,a\n,b\n3,NA\n"
    (folder / "a.csv").write_text(text)
    (folder / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("inner.csv", text)
    with tarfile.open(folder / "a.tar.gz", "w:gz") as archive:
        archive.add(folder / "a.csv", "deep/inner.csv")
    (folder / "a.json").write_text(
        '[{"row_name": 1, "name": "a"}, {"row_name": null, "name": "b"},'
        ' {"row_name": 3, "name": null}]'
    )
    monkeypatch.syspath_prepend(tmp_path)

    expected = pa.table({"row_name": [1, None, 3], "name": ["a", "b", None]})
    for path, member in (
        ("a.csv", ""),
        ("a.csv.gz", ""),
        ("a.zip", "inner.csv"),
        ("a.tar.gz", "deep/inner.csv"),
        ("a.json", ""),
    ):
        assert Packaged(folder.name, path, member).read().equals(expected), path

    table = Packaged(
        folder.name, "a.csv", reading={"skip_rows": 1, "autogenerate_column_names": True}
    )
    assert table.read().column_names == ["f0", "f1"]

    monkeypatch.setitem(packaged.TABLES, "mine", Packaged(folder.name, "a.csv"))
    (found,) = kinds._real_cases(["mine"])
    assert found == Case("mine", 2, 3, only=WHOLE, part=kinds.SMALL)
    with pytest.raises(ModuleNotFoundError, match="pip install --group bench"):
        Packaged("no_such_package_here", "a.csv").read()


# ---- threads


def test_amdahl() -> None:
    assert threads.speedup(0, 8) == 8
    assert threads.speedup(1, 8) == 1
    assert threads.speedup(0.5, 2) == pytest.approx(4 / 3)
    assert threads.speedup(0.1, 32) == pytest.approx(7.80, abs=0.01)


def test_threads_are_measured_and_estimated(tmp_path: Path) -> None:
    plan = threads.Plan(columns=20, kinds=("wide",), rows=(10,), turns=1, sampled_seconds=1)
    (at,) = plan.cases
    table = at.make()
    source, path = str(tmp_path / "table.arrow"), str(tmp_path / "file")
    with pa.OSFile(source, "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    threads.fm.write_table(table, path)
    with Worker(CONTENDERS[0]) as process:  # whose cores are limited
        found = process.call(threads.times, source, path, 1, 0, seconds=60)
    assert set(found) == {
        "whole table, 1 thread",
        "whole table, 2 threads",
        "write, 1 thread",
        "write, 2 threads",
    }

    results = Results("threads", [OURS], {"columns": 20, "turns": 1, "sampled_seconds": 1}, ABOUT)
    for measure_name, seconds in (("1 thread", 0.3), ("2 threads", 0.2)):
        results.add(at, f"{WHOLE}, {measure_name}", OURS, seconds)
    results.add(at, f"{WHOLE}, 1 thread: {SHARE}", OURS, 0.25)
    results.add(at, f"{WHOLE}, 2 threads: {SHARE}", OURS, Missing("py-spy: not permitted"))
    page = threads.markdown(results)
    # 1 / (0.25 + 0.75 / n)
    assert f"| {at} | 300 | 200 | 1.50 | 25% | - | 1.60 | 2.91 | 3.66 |" in page
    assert "py-spy: not permitted" in page


# ---- pages


def test_a_page_of_datasets_is_made_from_results(tmp_path: Path) -> None:
    times = {("open", TIME, OURS): 0.01, ("open", TIME, datasets.PARQUET): 0.25}
    results = results_of(times, bench="datasets")
    results.options = {"files": 200}
    page = render.write(results, tmp_path).read_text()
    assert "Reading 200 local files" in page
    assert f"| open | {datasets.PARQUET} | 250.0 | 25.00 |" in page
    assert "- Commit: 0123456789ab" in page


def test_a_page_of_tables_is_made_from_results(tmp_path: Path) -> None:
    times = {
        (living_page.ADD, TIME, OURS): 0.2,
        (living_page.ADD, TIME, living_page.REWRITING): 30.0,
        (living_page.ADD, SIZE, OURS): 180_000,
        (living_page.ADD, SIZE, living_page.COLUMN): 150_000,
        ("commit, 1,000 columns", TIME, OURS): 0.004,
        ("commit, 100,000 columns", TIME, OURS): 0.006,
        (living_page.CONCAT, TIME, OURS): 1.5,
        (living_page.CONCAT, TIME, living_page.CAT): 1.0,
    }
    results = results_of(times, bench="living")
    results.options = asdict(living.FULL)
    page = render.write(results, tmp_path).read_text()
    assert "Adding a column to 100 files of 10,000 columns and 500 rows" in page
    assert f"| add 1 column | {living_page.REWRITING} | 30,000 | 150 |" in page
    assert f"| add 1 column | {living_page.COLUMN} | 150 | 0.833 |" in page
    verdicts = [target.verdict for target in living_page.target_list(results)]
    # Bytes, rewriting, Parquet, Lance, commits, four reads, cat, decoding and encoding.
    assert verdicts[:5] == ["met", "met", "not measured", "not measured", "NOT met"]
    assert verdicts[5:] == ["not measured"] * 4 + ["met", "not measured"]


def test_tables_are_measured(tmp_path: Path) -> None:
    plan = living.Plan(2, 40, 10, 2, 1, 2, 40, (20, 40), 1, 0, 1)
    results = Results("living", [OURS], asdict(plan), ABOUT)
    (tmp_path / "data").mkdir()
    data = living.Data(tmp_path / "data", plan.files, plan.columns, plan.rows)
    living.measure_adding(results, plan, data)
    living.measure_reading(results, plan, data)
    living.measure_opening(results, plan, data)
    living.measure_merging(results, plan, data)
    living.measure_commits(results, plan, tmp_path)
    missing = [one.text for one in living_page.target_list(results) if one.measured is None]
    assert [text for text in missing if "Lance" not in text] == []
    stored = results.get(living_page.ADD, SIZE, living_page.COLUMN)
    written = results.get(living_page.ADD, SIZE, OURS)
    assert stored is not None
    assert written is not None
    assert 0 < stored < written


def test_a_page_of_training_is_made_from_results(tmp_path: Path) -> None:
    seconds = {
        (training_page.ONE, PROCESSOR, OURS): 0.02,
        (training_page.ONE, PROCESSOR, "Parquet"): 0.08,
        (training_page.ONE, PROCESSOR, "Feather"): 0.03,
        (training_page.ONE, PROCESSOR, FLOOR): 0.016,
        (training_page.EPOCH, PROCESSOR, OURS): 4.0,
        (training_page.EPOCH, PROCESSOR, training_page.LANCE_SHUFFLED): 16.0,
    }
    times = {(case, TIME, name): value / 2 for (case, _, name), value in seconds.items()}
    times |= {(training_page.ONE, SIZE, OURS): 66_000_000, **seconds}
    results = results_of(times, bench="training")
    results.options = {**asdict(training.FULL), "epoch": asdict(epoch.FULL)}
    results.add(
        training_page.EPOCH,
        TIME,
        training_page.HF,
        Missing("is left out: datasets is not installed"),
    )
    page = render.write(results, tmp_path).read_text()
    assert "Matrix: 500 of 5,000 columns" in page
    assert f"| {training_page.ONE} | Parquet | 40.0 | 80.0 | 4.00 |" in page
    assert "fastmosaic: 12,000 rows per second" in page
    assert "HF datasets, map style is left out: datasets is not installed." in page
    found = {one.text: one for one in training_page.target_list(results)}
    assert [one.verdict for one in found.values()].count("not measured") == len(found) - 3
    one = found[f"{training_page.ONE}: at least 3 times faster than every peer"]
    assert one.measured == pytest.approx(1.5)
    assert one.note == "times; next is Feather"
    assert [text for text, one in found.items() if one.met] == [
        f"{training_page.ONE}: at most 1.5 times floor",
        f"{training_page.EPOCH}: at least 3 times faster than {training_page.LANCE_SHUFFLED}",
    ]


def test_training_is_measured(tmp_path: Path) -> None:
    plan = training.Plan(20, 5, 30, 3, 10, 40, 4, 4, 2, 3, 1, 0)
    results = Results("training", [OURS], {**asdict(plan), "epoch": asdict(epoch.QUICK)}, ABOUT)
    kinds_of_loaders = (loaders.Mosaic, loaders.Parquet, loaders.Feather)
    for number, measure_one in enumerate(
        (training.measure_one_file, training.measure_many_files, training.measure_wide)
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        measure_one(results, plan, folder, kinds_of_loaders)
    for case in (training_page.MANY, training_page.TAKE, training_page.FIND, training_page.ROW):
        assert {"Parquet", "Feather", OURS} <= results.of(case, TIME).keys()
    missing = [one.text for one in training_page.target_list(results) if one.measured is None]
    assert [text for text in missing if "Lance" not in text and "epoch" not in text] == []


def test_other_values_in_training_are_noticed(tmp_path: Path) -> None:
    class Wrong(loaders.Feather):
        name = "Wrong"

        def read(self, names: Sequence[str]) -> pa.Table:
            return super().read(names[::-1]).rename_columns(list(names))

    table = training.floats(4, 10)
    made = [training.written(kind, tmp_path, iter([table])) for kind in (loaders.Mosaic, Wrong)]
    with pytest.raises(SystemExit, match="one: Wrong returned other values"):
        training.matrix_works("one", made, training.names_of(4))
    names = training.names_of(2)
    works = {one.name: lambda one=one: one.take([1, 2], names) for one in made}
    with pytest.raises(SystemExit, match="two: Wrong returned other values"):
        training.check_equal("two", works, names)


def test_the_pages_are_those_of_the_published_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only texts are compared. Pictures, which take long, have tests of their own."""
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **options: None)
    copy_overview(tmp_path)
    published = sorted(PUBLISHED.glob("*.json"))
    assert published
    for path in published:
        results = Results.load(path)
        pages = [render.write(results, tmp_path / "docs")]
        if results.bench == "files":
            pages += overview.update(results, tmp_path)
        for page in pages:
            committed = render.ROOT / page.relative_to(tmp_path)
            assert page.read_text() == committed.read_text(), "run `python -m bench.render`"


def copy_overview(folder: Path) -> None:
    (folder / "docs").mkdir()
    for page in overview.PAGES:
        shutil.copy(render.ROOT / page, folder / page)


def test_the_most_important_results_are_in_the_overview(tmp_path: Path) -> None:
    at = Case("wide", 10_000, 4_500)
    results = Plan((at,), 1, 1, 0, 0.1, 0.1, 1, 1, 60).results("files", CONTENDERS[:3])
    for measure_name, values in {
        OPEN: (0.000214, 0.0231, 0.0407),
        HUNDRED: (0.0063, 0.4201, 0.0058),
        WHOLE: (0.247, None, 1.1874),
        WRITE: (0.763, 3.39, 12.3),
        SIZE: (89_700_000, 97_100_000, 116_000_000),
    }.items():
        for name, value in zip(results.names, values, strict=True):
            if value is not None:
                results.add(at, measure_name, name, value)
    copy_overview(tmp_path)
    for path in overview.update(results, tmp_path):
        assert (
            "| 10,000 columns × 4,500 rows | fastmosaic | paimon-mosaic | Parquet |\n"  # noqa: RUF001
            "|---|---:|---:|---:|\n"
            "| open, read 1 column (ms) | **0.21** | 23 | 41 |\n"
            "| open, read 100 columns (ms) | 6.3 | 420 | **5.8** |\n"
            "| read all columns (ms) | **247** | - | 1,187 |\n"
            "| write (s) | **0.76** | 3.4 | 12 |\n"
            "| file size (MB) | **90** | 97 | 116 |\n\n"
        ) in path.read_text()
    assert "fastmosaic 0.21 ms, Parquet 41 ms]" in (tmp_path / "README.md").read_text()


def test_only_a_complete_run_changes_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "PUBLISHED", tmp_path / "published")
    monkeypatch.setattr(render, "DOCS", tmp_path / "docs")
    results = results_of({("open", TIME, OURS): 0.01}, bench="datasets")
    results.options = {"files": 200}
    render.publish(results, None, complete=False)
    assert not list(tmp_path.iterdir())
    render.publish(results, tmp_path / "out", complete=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "datasets.json",
        "datasets.md",
    ]
    render.publish(results, None, complete=True)
    assert (tmp_path / "published" / "datasets.json").exists()
    assert (tmp_path / "docs" / "datasets.md").exists()


def test_a_page_of_tpch_is_made_from_results(tmp_path: Path) -> None:
    times = {
        ("Spark, Q1", TIME, OURS): 0.2,
        ("Spark, Q1", TIME, tpch.PARQUET): 0.1,
        ("Spark, Q2", TIME, OURS): 0.4,
        ("Spark, Q2", TIME, tpch.PARQUET): 0.8,
    }
    results = results_of(times, bench="tpch")
    results.options = asdict(tpch.FULL)
    page = render.write(results, tmp_path).read_text()
    assert "| Spark, Q1 | 200 | 100 | 2.00 |" in page
    assert "| Spark, geometric mean | | | **1.00** |" in page  # of 2 and 1/2
    assert [target.verdict for target in tpch.targets(results)][:1] == ["met"]


def test_answers_of_tpch_are_compared() -> None:
    theirs = [(1, "a", 2.5), (2, "b", None)]
    ours = [(2, "b", None), (1, "a", Decimal("2.5000001"))]
    tpch.compare("Q1", {OURS: ours, tpch.PARQUET: theirs})
    with pytest.raises(SystemExit, match="Q1: fastmosaic returns a different answer"):
        tpch.compare("Q1", {OURS: ours[:1], tpch.PARQUET: theirs})
    with pytest.raises(SystemExit, match="different answer"):
        tpch.compare("Q1", {OURS: [(1, "a", 2.51), ours[0]], tpch.PARQUET: theirs})
