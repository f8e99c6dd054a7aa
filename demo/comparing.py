"""Compare a table in two formats: file size, and the time to write it and to read columns."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from bench.contenders import Contender, FastMosaic, Parquet
from bench.worker import best_time

FORMATS: dict[str, Contender] = {"Mosaic": FastMosaic(), "Parquet": Parquet()}
COUNTS = (1, 10, 100)
TURNS = 3
TURN_SECONDS = 0.05
WRITE_SECONDS = 1.0


@dataclass
class Comparison:
    """Results by format: bytes, and the best times in seconds."""

    paths: dict[str, Path]
    sizes: dict[str, int] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)
    reads: dict[str, dict[str, float]] = field(default_factory=dict)  # by the columns that are read


def compare(table: pa.Table, folder: Path, step: Callable[[str], None]) -> Comparison:
    """Write the table in each format, then read it, taking turns so that noise affects both.

    Values that are read are compared with the table. `step` is called with the name of each step.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = Comparison({name: folder / f"wide.{name.lower()}" for name in FORMATS})
    for name, contender in FORMATS.items():
        step(f"write {name}")
        work = partial(contender.write, table, str(found.paths[name]))
        found.writes[name] = best_time(work, WRITE_SECONDS)
        found.sizes[name] = found.paths[name].stat().st_size
    for what, columns in _choices(table).items():
        step(what)
        found.reads[what] = _read(table, columns, found.paths)
    return found


def _choices(table: pa.Table) -> dict[str, list[str] | None]:
    """Choose the columns to read: some, at random, then all."""
    draw = random.Random(1)
    choices: dict[str, list[str] | None] = {}
    for count in COUNTS:
        some = draw.sample(table.column_names, count)
        choices[f"read {count} column{'s' if count > 1 else ''}"] = some
    return {**choices, f"read all {table.num_columns:,}": None}


def _read(table: pa.Table, columns: list[str] | None, paths: dict[str, Path]) -> dict[str, float]:
    expected = table if columns is None else table.select(columns)
    best = dict.fromkeys(FORMATS, float("inf"))
    for turn in range(TURNS):
        for name, contender in FORMATS.items():
            path = str(paths[name])
            if turn == 0 and not contender.read(path, columns).equals(expected):
                raise AssertionError(f"{name} returned a table that differs from the original")
            seconds = best_time(partial(contender.read, path, columns), TURN_SECONDS)
            best[name] = min(best[name], seconds)
    return best
