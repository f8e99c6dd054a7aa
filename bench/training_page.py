"""The page of bench.training: what was measured, and its targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from . import report
from .loaders import LOADERS
from .report import Grid, case_list, figure
from .results import FLOOR, OURS, PROCESSOR, SIZE, TIME, Results
from .targets import Target, at_least

# Cases.
ONE = "columns of one file as a matrix"
DECIMALS = "columns of one file as a matrix, all with two decimals"
MANY = "columns of many files as a matrix"
WHOLE_MATRIX = "all columns as a matrix"
TAKE = "rows by number"
FIND = "rows by key"
ROW = "1 row, some columns"
WHOLE_ROW = "1 row, all columns"
EPOCH = "shuffled epoch"

# What is compared, besides formats.
ROW_MAJOR = 'fastmosaic, order="C"'
TABLE = "fastmosaic, read_table"
SERVING = 'fastmosaic, layout="serving"'
CACHED = 'fastmosaic, layout="serving", cache'
WORKERS = "fastmosaic, 2 workers"
LANCE_SHUFFLED = "Lance, batches shuffled"
HF = "HF datasets, map style"
HF_STREAMING = "HF datasets, streaming"


def target_list(results: Results) -> list[Target]:
    """The targets of training and serving."""

    def most(case: str, name: str, peer: str, times: float) -> Target:
        what = case if name == OURS else f"{case}, {name}"
        return Target(
            f"{what}: at most {times:g} times {peer}",
            results.ratio(case, PROCESSOR, name, peer),
            at_most=times,
            note="times",
        )

    warm = results.get(ROW, TIME, CACHED)
    return [
        *(_faster_than_peers(results, case, 3) for case in (ONE, DECIMALS, MANY)),
        *(most(case, OURS, FLOOR, 1.5) for case in (ONE, DECIMALS)),
        *(most(WHOLE_MATRIX, name, TABLE, 1.3) for name in (OURS, ROW_MAJOR)),
        Target(f"{ROW}, {CACHED}: at most 2 ms", warm and 1000 * warm, at_most=2, note="ms"),
        *(
            Target(
                f"{WHOLE_ROW}, {name}: at least 20 times faster than Lance",
                results.ratio(WHOLE_ROW, PROCESSOR, "Lance", name),
                at_least=20,
                note="times",
            )
            for name in (SERVING, CACHED)
        ),
        *(at_least(results, EPOCH, name, 3) for name in (LANCE_SHUFFLED, HF)),
    ]


def _faster_than_peers(results: Results, case: str, times: float) -> Target:
    ours = results.get(case, PROCESSOR, OURS)
    peers = {one.name for one in LOADERS} - {OURS}
    found = [(value, name) for name, value in results.of(case, PROCESSOR).items() if name in peers]
    best = min(found, default=None)
    return Target(
        f"{case}: at least {times:g} times faster than every peer",
        best[0] / ours if best and ours else None,
        at_least=times,
        note=f"times; next is {best[1]}" if best else "",
    )


def times_grid(results: Results, title: str, cases: Sequence[str]) -> Grid:
    """The times of cases and their contenders."""
    rows = []
    for case in cases:
        processor = results.of(case, PROCESSOR)
        rows += [
            [
                case,
                name,
                figure(1e3 * seconds),
                figure(1e3 * processor[name]),
                figure(processor[name] / processor[OURS]),
            ]
            for name, seconds in results.of(case, TIME).items()
        ]
    header = ["", "", "ms", "ms of processor time", f"relative to {OURS}"]
    return Grid(title, header, rows, left=(0, 1))


def grids(results: Results) -> Iterator[Grid]:
    """The tables of what was measured."""
    return (one for one in _every_grid(results) if one.rows)


def _every_grid(results: Results) -> Iterator[Grid]:
    plan = results.options
    of_epoch = plan["epoch"]
    one = f"{plan['features']} of {plan['columns']:,} columns x {plan['rows']:,} rows, one file"
    yield times_grid(results, f"Matrix: {one}", (ONE, DECIMALS))
    many = f"{plan['columns']:,} columns, {plan['files']} files of {plan['file_rows']} rows"
    yield replace(
        times_grid(results, f"Matrix: {plan['features']} of {many}", (MANY,)),
        notes=_missing(results, MANY),
    )
    wide = f"{plan['wide']:,} columns x {plan['rows']:,} rows, one file"
    yield times_grid(results, f"Matrix: all of {wide}", (WHOLE_MATRIX,))
    yield replace(
        times_grid(results, f"Rows: {many}", (TAKE, FIND)),
        notes=[
            f"By number: {plan['taken']} rows x {plan['features']} columns.",
            f"By key: {plan['keys']} keys, {plan['key_columns']} columns.",
        ],
    )
    yield replace(
        times_grid(results, f"One row, from an open handle: {wide}", (ROW, WHOLE_ROW)),
        notes=[f"Some columns are {plan['row_columns']}. Each time another row is read."],
    )
    yield case_list(results, f"File sizes: {one}", (ONE, DECIMALS), SIZE)
    yield case_list(results, f"File sizes: {wide}", (ROW,), SIZE)
    epoch = f"{of_epoch['files'] * of_epoch['file_rows']:,} rows x {of_epoch['features']} features"
    yield replace(
        case_list(results, f"PyTorch: a shuffled epoch of {epoch}", (EPOCH,)),
        notes=[*_rates(results), *_missing(results, EPOCH)],
    )


def _missing(results: Results, case: str) -> list[str]:
    """Who did not take part, and why."""
    return [f"{key[2]} {one.reason}." for key, one in results.missing.items() if key[0] == case]


def _rates(results: Results) -> Iterator[str]:
    of_epoch = results.options["epoch"]
    for name, seconds in results.of(EPOCH, TIME).items():
        yield f"{name}: {figure(of_epoch['files'] * of_epoch['file_rows'] / seconds)} rows per second."


def write(results: Results, folder: Path) -> Path:
    """Write training-benchmarks.md into a folder, and return its path."""
    path = folder / "training-benchmarks.md"
    path.write_text(markdown(results), encoding="utf-8")
    return path


def markdown(results: Results) -> str:
    plan = results.options
    tables = "\n".join(one.markdown("##") for one in grids(results))
    targets = report.target_grid("Targets", target_list(results)).markdown("##")
    ways = "\n".join(
        f"| {one.name} | {one.writes} | {one.reads} | {one.takes} | {one.finds} |"
        for one in LOADERS
    )
    conditions = "".join(f"- {one}\n" for one in plan.get("conditions", ()))
    return f"""---
hide:
  - toc
---

# Training benchmarks

Feature matrices, single rows and epochs, beside Parquet, Feather, Lance and Vortex. `make bench-training` reproduces
every number on this page.

{tables}
{targets}
## Method

{conditions}- Times are the best of several turns, with a warm page cache, on a local disk. Ratios and targets are those of processor time,
  of all threads of the process, because the machine was shared; those of rows from the cache and of epochs are times.
- Features are float32. 60 % are measurements with two decimals; the others have random bits, which no format
  compresses. In *{DECIMALS}*, all have two decimals.
- Peers read columns, which are written into a NumPy array in column-major order one after another. All results are
  compared with each other before they are measured.
- *{FLOOR}* reads and decompresses the blocks that `read_matrix` needs, on all cores, and decodes nothing. It is about the
  least that any reader of these files needs.
- Keys are row numbers, so the files are sorted by them.
- Rows are read from a handle that is opened before. With `cache`, all frames are in it.
- The epoch reads {plan["epoch"]["features"]} of {plan["epoch"]["columns"]:,} columns, with two decimals, in batches of {plan["epoch"]["batch_size"]}. fastmosaic shuffles rows within a buffer of
  {plan["epoch"]["buffer_rows"]:,} rows; Lance shuffles batches and leaves neighbours together; HF datasets takes single rows from a file that it
  has mapped into memory, or shuffles a stream within the same buffer.

| format | writing | columns | rows by number | rows by key |
|---|---|---|---|---|
{ways}

{report.fact_list(results)}
"""
