"""The page of bench.living: what was measured, and its targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from . import report
from .report import Grid, case_list, figure
from .results import OURS, SIZE, TIME, Results
from .targets import Target, at_least, at_most

# Cases.
ADD = "add 1 column"
ADD_NARROWER = "add 1 column, fewer columns"
COMMIT = "commit, {:,} columns"
READS = (
    "1 column of the base files",
    "1 added column",
    "1 column of the base files, 1 added column",
    "added columns, one of each column file",
)
OPEN_ONE = "open, read 1 column of 1 file"
CONCAT = "merge all files"

# What fastmosaic's tables are compared with.
REWRITING = "fastmosaic, decoding and encoding all files"
PARQUET = "pyarrow, rewriting Parquet"
LANCE = "Lance, add_columns"
COLUMN = "the values of that column"
FOLDED = "fastmosaic, all columns in one file"
FILE = "fastmosaic, the file alone"
SCHEMA_MESSAGE = "an Arrow IPC schema of these columns"
CAT = "cat, then sync"


def target_list(results: Results) -> list[Target]:
    """The targets of tables."""
    few, many = (COMMIT.format(columns) for columns in results.options["commits"])
    commits = [results.get(case, TIME, OURS) for case in (few, many)]
    return [
        at_most(results, ADD, SIZE, COLUMN, 2, "bytes written to add a column"),
        at_least(results, ADD, REWRITING, 50),
        at_least(results, ADD, PARQUET, 50),
        at_least(results, ADD_NARROWER, LANCE, 10),
        Target(
            f"{many}: at most 1.25 times as long as {few}",
            commits[1] / commits[0] if commits[0] and commits[1] else None,
            at_most=1.25,
            note="times",
        ),
        *(at_most(results, case, TIME, FOLDED, 1.5, f"read {case}") for case in READS),
        at_most(results, CONCAT, TIME, CAT, 2, CONCAT),
        at_least(results, CONCAT, REWRITING, 15),
    ]


def grids(results: Results) -> Iterator[Grid]:
    plan = results.options
    size = f"{plan['files']} files of {plan['columns']:,} columns and {plan['rows']} rows"
    yield case_list(results, f"Adding a column to {size}", (ADD,))
    yield case_list(results, "Adding a column: bytes written", (ADD,), SIZE)
    fewer = f"{plan['lance_files']} files of {plan['lance_columns']:,} columns"
    yield case_list(results, f"Adding a column to {fewer} and {plan['rows']} rows", (ADD_NARROWER,))
    commits = tuple(COMMIT.format(columns) for columns in plan["commits"])
    yield case_list(results, "Committing a version without new files", commits)
    yield replace(
        case_list(results, f"Reading {size}, each with {plan['column_files']} column files", READS),
        notes=list(_cost_of_files(results)),
    )
    yield case_list(results, f"Opening a table of {plan['columns']:,} columns", (OPEN_ONE,))
    yield case_list(results, f"Merging {size}", (CONCAT,))


def _cost_of_files(results: Results) -> Iterator[str]:
    """What it costs to read the same values from more files."""
    ours, folded = (results.get(READS[-1], TIME, name) for name in (OURS, FOLDED))
    more = results.options["files"] * (results.options["column_files"] - 1)
    if ours and folded and more:
        cost = figure(1e6 * (ours - folded) / more)
        yield f"Opening one more column file and reading a column of it takes {cost} µs."


def write(results: Results, folder: Path) -> Path:
    """Write table-benchmarks.md into a folder, and return its path."""
    path = folder / "table-benchmarks.md"
    path.write_text(markdown(results), encoding="utf-8")
    return path


def markdown(results: Results) -> str:
    plan = results.options
    tables = "\n".join(one.markdown("##") for one in grids(results))
    targets = report.target_grid("Targets", target_list(results)).markdown("##")
    return f"""---
hide:
  - toc
---

# Table benchmarks

What it costs to change a table, and to read one that was changed: `MosaicTable` and `concat` beside rewriting
the files, Lance, and copying bytes. `make bench-tables` reproduces every number on this page.

{tables}
{targets}
## Method

- Times are the best of several turns, with a warm page cache, on a local disk. Files of fastmosaic are synced
  before a version names them; pyarrow does not sync.
- The new column is the sum of two columns of type int32. *{COLUMN}* are the bytes of its compressed values;
  *bytes written* are all files and objects that the operation has added.
- Decoding and encoding, and rewriting Parquet, was measured with {plan["rewritten"]} of the {plan["files"]} files. The page shows this time
  multiplied by {plan["files"] / plan["rewritten"]:g}.
- A commit is measured as `restore`, which makes a version and writes no other file. Syncing takes most of the time.
- *{FOLDED}* is the same table with the added columns in its base files.
- Lance gets the same rows in as many fragments.

{report.fact_list(results)}
"""
