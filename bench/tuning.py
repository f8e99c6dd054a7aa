"""What the options of the writer are worth: sizes, times and bytes read, by their values.

python -m bench.tuning                     prints the tables of docs/tuning.md, in Markdown
python -m bench.tuning buckets pages       some of them
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastmosaic as fm
from bench.tables import ROW_NUMBER, numbered, sensor, wide
from bench.worker import no_gc

ROUNDS = 3  # of writing
TURNS = 10  # of reading
MIN_TURNS = 6  # of reads that take longer than a turn
TURN_SECONDS = 0.02
REMOTE_RUNS = 3
# An object store: what a request takes before the first byte, and then for each byte.
LATENCY = 0.02
SECONDS_PER_BYTE = 1 / 80e6
DEFAULT = "default"
BY_KEY = "10, row by sorted key"


@dataclass(frozen=True)
class Read:
    """Some columns of some rows; with `head`, only so many of the first."""

    columns: list[str] | None
    filters: Any = None
    head: int = 0

    def run(self, source: Any) -> pa.Table:
        with fm.MosaicFile(source) as file:
            if not self.head:
                return file.read(self.columns, filters=self.filters)
            batch = next(file.iter_batches(self.head, columns=self.columns))
            return pa.Table.from_batches([batch])

    def expected(self, table: pa.Table) -> pa.Table:
        if self.filters:
            table = table.filter(pq.filters_to_expression(self.filters))
        if self.head:
            table = table.slice(0, self.head)
        return table.select(self.columns) if self.columns else table


class Counting:
    """A file that counts its reads; if it is not local, each takes as long as on a store."""

    def __init__(self, path: Path, *, is_local: bool) -> None:
        self.name = str(path)
        self.size = path.stat().st_size
        self.is_local = is_local
        self.num_reads = self.num_bytes = 0
        self._file = os.open(path, os.O_RDONLY)

    def read_at(self, offset: int, length: int) -> pa.Buffer:
        self.num_reads += 1
        self.num_bytes += length
        if not self.is_local:
            time.sleep(LATENCY + length * SECONDS_PER_BYTE)
        return pa.py_buffer(os.pread(self._file, length, offset))

    def close(self) -> None:
        with suppress(OSError):
            os.close(self._file)


@dataclass(frozen=True)
class Experiment:
    """A table written with several values of an option, and what is read of it."""

    title: str
    option: str
    table: Callable[[], pa.Table]
    variants: dict[str, dict[str, Any]]
    reads: Callable[[pa.Table], dict[str, Read]]
    counted: str = ""  # the read whose bytes and time on a store are shown
    common: dict[str, Any] = field(default_factory=dict)  # options of all variants
    # That of the processor, for all threads: others who use the machine change it little.
    clock: Callable[[], float] = time.process_time


# ---- tables and reads: 10,000 columns in "wide", 2,000 in "sensor"


@lru_cache(maxsize=1)
def _wide(num_rows: int) -> pa.Table:
    return numbered(wide(10_000, num_rows))


@lru_cache(maxsize=1)
def _sensor(num_rows: int) -> pa.Table:
    return numbered(sensor(2_000, num_rows))


@lru_cache(maxsize=1)
def _texts() -> pa.Table:
    """Eight columns of strings of 10 kB, of which each is different."""
    rng = np.random.default_rng(5)
    words = [f"{number:x}" for number in rng.integers(0, 1 << 32, 5_000)]

    def text() -> str:
        return " ".join(rng.choice(words, 1_200))

    pool = [text() for _ in range(300)]
    columns = {
        f"text_{i}": [
            pool[place] + str(row) for row, place in enumerate(rng.integers(0, 300, 3_000))
        ]
        for i in range(8)
    }
    return pa.table(columns)


def _some(table: pa.Table, count: int) -> list[str]:
    names = table.column_names[1:]
    return [names[i] for i in np.random.default_rng(1).permutation(len(names))[:count]]


def _projections(table: pa.Table) -> dict[str, Read]:
    some = {f"open + {n}": Read(_some(table, n)) for n in (1, 10, 100)}
    return {**some, "all": Read(None)}


def _filtered(table: pa.Table) -> dict[str, Read]:
    ten = _some(table, 10)
    middle = table.num_rows // 2
    number = next(name for name in table.column_names[1:] if table[name].type == pa.int32())
    value = table[number][middle].as_py()
    return {
        "open + 1": Read(ten[:1]),
        "10 columns": Read(ten),
        BY_KEY: Read(ten, [(ROW_NUMBER, "=", middle)]),
        "10, row by unsorted": Read(ten, [(number, "=", value)]),
    }


def _first_rows(table: pa.Table) -> dict[str, Read]:
    name = table.column_names[:1]
    return {"10 rows of 1": Read(name, head=10), "open + 1": Read(name), "all": Read(None)}


# ---- experiments: values of an option, and what they are passed as

_BUCKETS: dict[str, dict[str, Any]] = {
    "10": {"num_buckets": 10},
    "50": {"num_buckets": 50},
    "100 (default)": {},
    "200": {"num_buckets": 200},
    "500": {"num_buckets": 500},
    "1,000": {"num_buckets": 1000},
}
_PAGES: dict[str, dict[str, Any]] = {
    "by cost (default)": {},
    "0, always paged": {"page_size_threshold": 0},
    "32,768, as Apache's": {"page_size_threshold": 32768},
}
_TABLES: dict[str, Callable[[], pa.Table]] = {
    "wide, 100 rows": partial(_wide, 100),
    "wide, 2,000 rows": partial(_wide, 2_000),
    "sensor, 5,000 rows": partial(_sensor, 5_000),
}


def _each(
    option: str, variants: dict[str, dict[str, Any]], tables: list[str], counted: str = ""
) -> list[Experiment]:
    return [
        Experiment(title, option, _TABLES[title], variants, _projections, counted)
        for title in tables
    ]


_FEW, _MANY, _SENSOR = _TABLES
EXPERIMENTS: dict[str, list[Experiment]] = {
    "buckets": _each("num_buckets", _BUCKETS, [_FEW, _MANY, _SENSOR], "open + 10"),
    "pages": _each("page_size_threshold", _PAGES, [_FEW, _MANY, _SENSOR], "open + 10"),
    "groups": [
        Experiment(
            _MANY,
            "row_group_size",
            _TABLES[_MANY],
            {
                "none, 1 row group (default)": {},
                "500, 4 row groups": {"row_group_size": 500},
                "100, 20 row groups": {"row_group_size": 100},
                "20, 100 row groups": {"row_group_size": 20},
            },
            lambda table: {**_projections(table), "one row": _filtered(table)[BY_KEY]},
            "open + 10",
            {"write_statistics": [ROW_NUMBER]},
        )
    ],
    "filter": [
        Experiment(
            "sensor, 50,000 rows",
            "row_group_size",
            partial(_sensor, 50_000),
            {
                "none, 1 row group (default)": {},
                "10,000, 5 row groups": {"row_group_size": 10_000},
                "2,000, 25 row groups": {"row_group_size": 2_000},
                "500, 100 row groups": {"row_group_size": 500},
            },
            lambda table: {
                "open + 10": _projections(table)["open + 10"],
                BY_KEY: _filtered(table)[BY_KEY],
            },
            BY_KEY,
            {"write_statistics": [ROW_NUMBER]},
        )
    ],
    "statistics": [
        Experiment(
            f"{_MANY}, 8 row groups",
            "write_statistics",
            _TABLES[_MANY],
            {
                "none (default)": {},
                "the sorted key": {"write_statistics": [ROW_NUMBER]},
                "all columns": {"write_statistics": True},
            },
            _filtered,
            BY_KEY,
            {"row_group_size": 250},
        )
    ],
    "encoding": _each(
        "encoding",
        {
            "level 1, dictionaries (default)": {},
            "`compression_level=3`": {"compression_level": 3},
            "`compression_level=9`": {"compression_level": 9},
            '`compression="none"`': {"compression": "none"},
            "`use_dictionary=False`": {"use_dictionary": False},
        },
        [_MANY, _SENSOR],
    ),
    "stream": [
        Experiment(
            "wide, 500 rows",
            "batches and row groups",
            partial(_wide, 500),
            {
                "500 rows at once (default)": {},
                "100 rows": {"batch_rows": 100},
                "10 rows": {"batch_rows": 10},
                "10 rows, row groups of 4 MiB": {"batch_rows": 10, "row_group_bytes": 4 << 20},
                "10 rows, each a row group": {"batch_rows": 10, "row_group_size": 10},
            },
            _projections,
            "open + 10",
        )
    ],
    "strings": [
        Experiment(
            "texts, 3,000 rows",
            "row_group_bytes",
            _texts,
            {
                "256 MiB (default)": {},
                "64 MiB": {"row_group_bytes": 64 << 20},
                "16 MiB": {"row_group_bytes": 16 << 20},
            },
            _first_rows,
            "10 rows of 1",
            clock=time.perf_counter,  # what differs is how many cores have work
        )
    ],
}


# ---- measuring


@dataclass
class Measured:
    """Of one variant: values by the head of their column, times in seconds."""

    size: int
    paged: float  # the share of the buckets
    times: dict[str, float]
    local: Counting | None = None
    remote: Counting | None = None
    remote_seconds: float = 0.0


def measure(experiment: Experiment, folder: Path) -> dict[str, Measured]:
    """The variants side by side: they take turns, so that noise hits all of them."""
    table = experiment.table()
    reads = experiment.reads(table)
    paths = {name: folder / f"{i}.mosaic" for i, name in enumerate(experiment.variants)}
    times: dict[str, dict[str, float]] = {name: {} for name in paths}

    def note(name: str, head: str, seconds: float) -> None:
        times[name][head] = min(times[name].get(head, seconds), seconds)

    for _ in range(ROUNDS):
        for name, options in experiment.variants.items():
            work = partial(_write, table, paths[name], **experiment.common, **options)
            note(name, "write", _best(work, experiment.clock))
    for head, read in reads.items():
        expected = read.expected(table)
        for name, path in paths.items():
            if not read.run(path).equals(expected):
                raise AssertionError(f"{experiment.title}, {name}: {head} gives another table")
        for turn in range(TURNS):
            # To and fro: what ran before leaves its traces.
            for name in list(paths)[:: -1 if turn % 2 else 1]:
                if turn < MIN_TURNS or times[name][head] < TURN_SECONDS:
                    work = partial(read.run, paths[name])
                    note(name, head, _best(work, experiment.clock, TURN_SECONDS))
    results = {}
    for name, path in paths.items():
        result = results[name] = Measured(path.stat().st_size, _paged(path), times[name])
        if experiment.counted:
            read = reads[experiment.counted]
            result.local = Counting(path, is_local=True)
            read.run(result.local)
            seconds = []
            for _ in range(REMOTE_RUNS):
                result.remote = Counting(path, is_local=False)
                seconds.append(_best(partial(read.run, result.remote), time.perf_counter))
            result.remote_seconds = min(seconds)
    return results


def _best(work: Callable[[], Any], clock: Callable[[], float], seconds: float = 0.0) -> float:
    """The best time of `work`, done at least once, and again until `seconds` are spent."""
    times: list[float] = []
    with no_gc():
        while not times or sum(times) < seconds:
            start = clock()
            work()
            times.append(clock() - start)
    return min(times)


def _write(table: pa.Table, path: Path, batch_rows: int | None = None, **options: Any) -> None:
    with fm.MosaicWriter(path, table.schema, **options) as writer:
        for batch in table.to_batches(batch_rows):
            writer.write(batch)


def _paged(path: Path) -> float:
    metadata = fm.read_metadata(path)
    layouts = [
        bucket.layout
        for group in map(metadata.row_group, range(metadata.num_row_groups))
        for bucket in group.buckets
    ]
    return layouts.count("paged") / len(layouts)


# ---- tables in Markdown


def markdown(experiment: Experiment, results: dict[str, Measured]) -> list[str]:
    """Two lines of heads, then one for each variant.

    The default is in its units, the others are multiples of it; counts are as they are.
    """
    base = next(result for name, result in results.items() if DEFAULT in name)
    heads = ["table", experiment.option, "size", *base.times]
    if experiment.counted:
        heads += ["bytes read", "remote: reads", "MB", "ms"]
    heads.append("paged")
    lines = [_line(heads), "|---|---" + "|---:" * (len(heads) - 2) + "|"]
    for name, result in results.items():
        cells = [experiment.title, name]
        if result is base:
            cells += [f"{result.size / 1e6:.3g} MB", *map(_time, result.times.values())]
        else:
            cells.append(f"{result.size / base.size:.2f}")
            cells += [f"{result.times[key] / base.times[key]:.2f}" for key in base.times]
        if result.local and result.remote:
            cells += [
                f"{result.local.num_bytes / 1e3:,.0f} kB",
                f"{result.remote.num_reads:,}",
                f"{result.remote.num_bytes / 1e6:.1f}",
                f"{result.remote_seconds * 1000:,.0f}",
            ]
        lines.append(_line([*cells, f"{result.paged:.0%}"]))
    return lines


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def main() -> None:
    for name in sys.argv[1:] or EXPERIMENTS:
        for i, experiment in enumerate(EXPERIMENTS[name]):
            with tempfile.TemporaryDirectory() as folder:
                results = measure(experiment, Path(folder))
            lines = markdown(experiment, results)
            print("\n".join(lines[2 if i else 0 :]), flush=True)
        print()


if __name__ == "__main__":
    main()
