"""docs/benchmarks.md: the report with plots, and how it came about."""

from __future__ import annotations

from pathlib import Path

from . import plots, report
from .plan import Plan
from .results import Results


def write(results: Results, folder: Path) -> Path:
    """Write benchmarks.md and the plots into a folder, and give the path of the former."""
    pictures = plots.draw(results, folder / "benchmarks")
    path = folder / "benchmarks.md"
    path.write_text(markdown(results, [picture.relative_to(folder) for picture in pictures]))
    return path


def markdown(results: Results, pictures: list[Path]) -> str:
    """The text of the page."""
    facts = "\n".join(f"- {key}: {value}" for key, value in report.environment().items())
    images = "\n\n".join(f"![{plots.TITLES[path.stem]}]({path.as_posix()})" for path in pictures)
    cases = "\n".join(report.case_grid(results, case).markdown() for case in results.plan.cases)
    growth = "\n".join(grid.markdown() for grid in report.growth_grids(results))
    remarks = "\n".join(f"- {line}" for line in report.remarks(results))
    return f"""# Benchmarks

One run, all contenders side by side, on the same tables and the same machine. Times depend on the
machine; the ratios are what to look at. This page is written by `make bench`.

{report.target_grid(results).markdown().replace("### ", "## ")}
{images}

## Results

{report.LEGEND} A dash: there is no result. Where that
is not by design, a line below the table says why.

{cases}
{growth}
## How it was measured

{_method(results.plan)}
{remarks}

## What was measured

- "wide" has names of about 80 bytes; 90 % of its columns are strings, 10 % int32. Of the strings,
  40 % have few distinct values, 20 % are null in nine rows of ten, 10 % are all null, 10 % constant,
  20 % all different.
- "sensor": 80 % of the columns are int8, the rest int16, int32 and float64; 60 % of the values are
  null, and 18 % of the columns all null.
- Scattered columns are drawn at random. Adjacent ones are neighbours in the table; in "wide" the
  order of the columns is not that of their names, by which Mosaic sorts them, in "sensor" it is.
- The filter asks for one row by its number, in a file with several row groups.

{report.contender_grid(results).markdown()}
{facts}

## To repeat it

```
make bench                           # everything, and this page
python -m bench --quick              # less of it, within two minutes; no page
python -m bench --only fastmosaic,parquet --out /tmp/somewhere
```
"""


def _method(plan: Plan) -> str:
    return f"""\
- Times are the best of several runs, with the page cache warm and garbage collection off. A read
  includes opening the file, and ends with a `pyarrow.Table`.
- Each contender reads in a process of its own. They take turns, {plan.turns} each, so that noise
  hits all of them; in a turn a query is repeated for {plan.turn_seconds * 1000:.0f} ms. Whoever has
  spent {plan.read_seconds:.0f} s on a query gets no further turn.
- "First in a process" is the first read of the file by a process that has read another one: it
  shows what a library gains by keeping schemas.
- Each table is written in new processes, {plan.rounds} each unless it takes more than
  {plan.write_seconds:.0f} s. Peak memory is what the first write takes beyond imports and the table.
- A contender is stopped after {plan.limit:.0f} s, or when it takes three quarters of the free memory.
- The floor opens the file of fastmosaic, reads the end, and for each column the directory of its
  bucket and its slot, or a monolithic bucket, and decompresses these; for the whole table, all
  blocks on all cores. Python calls included, nothing decoded."""
