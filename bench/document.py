"""docs/benchmarks.md: the report with plots, and how it came about."""

from __future__ import annotations

from pathlib import Path

from . import plots, report
from .plan import Plan
from .results import Results


def write(results: Results, folder: Path) -> Path:
    """Write benchmarks.md and the plots into a folder, and return the path of the page."""
    pictures = plots.draw(results, folder / "benchmarks")
    path = folder / "benchmarks.md"
    text = markdown(results, [picture.relative_to(folder) for picture in pictures])
    path.write_text(text, encoding="utf-8")
    return path


def markdown(results: Results, pictures: list[Path]) -> str:
    """The text of the page."""
    plan = Plan.of(results)
    images = "\n\n".join(f"![{plots.TITLES[path.stem]}]({path.as_posix()})" for path in pictures)
    cases = "\n".join(report.case_grid(results, case).markdown() for case in plan.cases)
    growth = "\n".join(grid.markdown() for grid in report.growth_grids(results))
    remarks = "\n".join(f"- {line}" for line in report.remarks(results))
    summary = report.summary_grid(results)
    return f"""---
hide:
  - toc
---

# Benchmarks

fastmosaic compared with Apache's own implementation of Mosaic and with five other formats, measured
side by side in one run on one machine. Absolute times depend on the machine, so compare the ratios.
`make bench` reproduces every number on this page.

{summary.markdown().split(chr(10), 2)[2] if summary else ""}
{images}

## Results

{report.LEGEND}
A dash means that there is no result. If a result is missing because a contender failed, a note below
the table says why.

{cases}
{growth}
## Data

- **wide**: column names of about 80 bytes; 90 % of the columns are strings and 10 % are int32. Of the
  string columns, 40 % have few distinct values, 20 % are null in nine out of ten rows, 10 % are entirely
  null, 10 % are constant and 20 % have only distinct values.
- **sensor**: 80 % of the columns are int8, the rest are int16, int32 and float64. 60 % of the values are
  null, and 18 % of the columns are entirely null.
- *Scattered* columns are chosen at random. *Adjacent* columns are neighbours in the table. Mosaic sorts
  columns by name: in "sensor" that is also the order of the table, in "wide" it is not.
- The filter selects one row by its number from a file with several row groups.

## Method

{_method(plan)}
{remarks}

{report.contender_grid(results).markdown()}
{report.fact_list(results)}

## Running the benchmarks

```
make bench                           # everything; rewrites this page
python -m bench --quick              # a subset, in about two minutes; prints the results only
python -m bench --only fastmosaic,parquet --out /tmp/somewhere
```

`make bench-size` measures files of several gigabytes, a million columns, and many row groups and files; see
[Benchmarks at size](size.md).

{report.file_targets(results).markdown("##")}"""


def _method(plan: Plan) -> str:
    return f"""\
- Times are the best of several runs with a warm page cache and garbage collection turned off. A read
  includes opening the file and ends with a `pyarrow.Table`.
- Each contender reads in its own process. The contenders take turns, {plan.turns} each, so that noise
  affects all of them; in each turn a query is repeated for {plan.turn_seconds * 1000:.0f} ms. A contender
  that has spent {plan.read_seconds:.0f} s on a query gets no more turns.
- "First in a process" is the first read of the file by a process that has already read another file. It
  shows how much a library gains from caching schemas.
- "Schema not seen before" is a read in a process that has read files, but none with these column names.
- Writing with and without statistics of all columns takes turns in one process. "All statistics" opens a
  file and looks at the null count, minimum and maximum of every column.
- Each table is written by new processes, {plan.rounds} per contender unless one takes more than
  {plan.write_seconds:.0f} s. Peak memory is the memory that the first write needs in addition to imports
  and the table.
- A contender is stopped after {plan.limit:.0f} s, or when it uses three quarters of the free memory.
- The floor is the least work that any reader of the file must do: open it, read its end, read the
  directory and the slot of each column (or the monolithic bucket) and decompress them; for the whole
  table, all blocks on all cores. It includes Python calls, but no decoding."""
