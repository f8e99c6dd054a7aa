"""The tables that demo and benchmarks are run on; the same ones every time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import START_MS, Maker, ranks, rising, walk, with_nulls

_WORDS = [
    *("vehicle", "sensor", "telemetry", "engine", "battery", "pressure", "temperature", "feature"),
    *("market", "signal", "average", "minimum", "maximum", "rolling", "window", "status"),
]
ROW_NUMBER = "row_number"


def wide(num_columns: int, num_rows: int, seed: int = 7) -> pa.Table:
    """90 % strings and 10 % int32, with names of about 80 bytes.

    Of the strings, 40 % have few distinct values, 20 % are null in nine rows of ten, 10 % are
    all null, 10 % constant, and 20 % all different.
    """
    rng = np.random.default_rng(seed)
    texts = pa.array([f"{i:08x}{i * 2654435761 % 2**32:08x}" for i in range(100_000)])

    def column(i: int) -> pa.Array:
        if i % 10 == 9:
            return pa.array(rng.integers(0, 1 << 20, num_rows), pa.int32())
        kind = rng.random()
        if kind < 0.4:
            distinct = int(rng.choice([2, 5, 20, 100]))
            values = pa.array([f"category_{value}" for value in rng.integers(0, 1000, distinct)])
            return values.take(pa.array(rng.integers(0, distinct, num_rows)))
        if kind < 0.5:
            return pa.nulls(num_rows, pa.string())
        if kind < 0.6:
            return pa.array(["constant_value"] * num_rows, pa.string())
        values = texts.take(pa.array(rng.integers(0, len(texts), num_rows)))
        if kind < 0.8:
            return pc.if_else(pa.array(rng.random(num_rows) < 0.1), values, None)
        return values

    names = ["_".join(rng.choice(_WORDS, 9)) + f"_{i:06d}" for i in range(num_columns)]
    return pa.table([column(i) for i in range(num_columns)], names=names)


def sensor(num_columns: int, num_rows: int, seed: int = 7) -> pa.Table:
    """80 % int8, the rest int16, int32 and float64; 60 % of all values are null.

    18 % of the columns are all null. Names are sorted, so that neighbours in the table are
    neighbours in files that sort by name.
    """
    rng = np.random.default_rng(seed)
    silent = set(rng.choice(num_columns, round(num_columns * 0.18), replace=False).tolist())

    def values(i: int) -> tuple[pa.DataType, np.ndarray]:
        match i % 15:
            case 4:
                return pa.int16(), _walk(rng, num_rows, 2**15)
            case 9:
                return pa.int32(), np.cumsum(rng.integers(0, 100, num_rows))
            case 14:
                return pa.float64(), np.round(20 + rng.standard_normal(num_rows), 2)
            case place if place % 2:
                return pa.int8(), _walk(rng, num_rows, 2**7)
        return pa.int8(), rng.integers(0, rng.choice([2, 4, 16]), num_rows)

    def column(i: int) -> pa.Array:
        arrow, data = values(i)
        if i in silent:
            return pa.nulls(num_rows, arrow)
        # The columns that are not all null: 0.18 + 0.82 * 0.51 = 0.6.
        missing = rng.random(num_rows) < rng.uniform(0.22, 0.8)
        return pa.array(data, arrow, mask=missing)

    words = sorted(_WORDS)
    names = [f"{words[i * len(words) // num_columns]}_{i:06d}" for i in range(num_columns)]
    return pa.table([column(i) for i in range(num_columns)], names=names)


def _walk(rng: np.random.Generator, num_rows: int, limit: int) -> np.ndarray:
    """Values that change little from row to row, between -limit and limit."""
    steps = np.cumsum(rng.integers(-1, 2, num_rows)) + rng.integers(-limit // 2, limit // 2)
    return np.clip(steps, -limit, limit - 1)


def features(num_columns: int, num_rows: int, seed: int = 7) -> pa.Table:
    """What models are trained on: mostly numbers, with categories, flags and times.

    45 % float32, half of them with two decimals, 15 % float64, 15 % integers, 15 % strings of few
    or some thousand distinct values, 5 % booleans, 5 % timestamps. Half of the columns have
    nulls, in 2 % to 90 % of their rows.
    """
    rng = np.random.default_rng(seed)

    def category() -> pa.Array:
        distinct = int(rng.choice([3, 12, 80, 2_000]))
        names = pa.array([f"{rng.choice(_WORDS)}-{i}" for i in range(distinct)])
        return names.take(pa.array(ranks(rng, distinct, num_rows)))

    def values(i: int) -> Any:
        match i % 20:
            case 0 | 1 | 2 | 3 | 4:
                return rng.normal(rng.uniform(0, 100), 5, num_rows).round(2).astype(np.float32)
            case 5 | 6 | 7 | 8:
                return rng.normal(size=num_rows).astype(np.float32)
            case 9:
                return rng.lognormal(3, 1, num_rows).round(2)
            case 10:
                return walk(rng, 0.1, num_rows, 20).round(3)
            case 11:
                return rng.normal(size=num_rows)
            case 12:
                return rng.poisson(rng.uniform(0.2, 20), num_rows).astype(np.int32)
            case 13:
                return rng.integers(0, 1 << 20, num_rows, np.int32)
            case 14:
                return rising(rng, 50, num_rows)
            case 15 | 16 | 17:
                return category()
            case 18:
                return rng.random(num_rows) < rng.uniform(0.01, 0.5)
        return pa.array(rising(rng, 4_000, num_rows, START_MS), pa.timestamp("ms"))

    def column(i: int) -> pa.Array:
        made = values(i)
        if rng.random() < 0.5:
            return with_nulls(rng, made, float(rng.choice([0.02, 0.1, 0.3, 0.9])))
        return pa.array(made)

    names = ["_".join(rng.choice(_WORDS, 3)) + f"_{i:06d}" for i in range(num_columns)]
    return pa.table([column(i) for i in range(num_columns)], names=names)


def numbered(table: pa.Table) -> pa.Table:
    """The table with its row numbers as the first column."""
    return table.add_column(0, ROW_NUMBER, pa.array(np.arange(table.num_rows)))


KINDS: dict[str, Maker] = {"wide": wide, "sensor": sensor, "features": features}
