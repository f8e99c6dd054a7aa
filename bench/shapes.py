"""Kinds of columns that the writer's choices were tuned on, by their name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import (
    DAY_MS,
    DECEMBER_2025,
    START_MS,
    Column,
    Maker,
    Rng,
    characters,
    digits,
    joined,
    pick,
    ranks,
    rising,
    runs,
    table_of,
    texts,
    uuids,
    walk,
    with_nulls,
)

_WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
_NAMES = [f"{a}{b}" for a in ("north", "south", "east", "west", "old", "new") for b in _WORDS]
_COUNTRIES = [f"{chr(65 + i // 26)}{chr(65 + i % 26)}" for i in range(200)]
_LEVELS = ["INFO", "WARN", "ERROR", "DEBUG"]
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _milliseconds(values: np.ndarray) -> pa.Array:
    return pa.array(values, pa.timestamp("ms"))


def _iso(rng: Rng, count: int) -> pa.Array:
    seconds = START_MS // 1000 + rising(rng, 60, count)
    return pc.strftime(pa.array(seconds, pa.timestamp("s")), format="%Y-%m-%dT%H:%M:%SZ")


def _decimal(values: np.ndarray, precision: int, scale: int) -> pa.Array:
    """Whole numbers as the digits of a decimal: 128 bits, of which these are the lower half."""
    data = pa.py_buffer(np.column_stack([values, values >> 63]))
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(values), [None, data])


def _markov(rng: Rng, states: int, count: int) -> np.ndarray:
    """Steps of -1, 0 or 1 around a circle."""
    return np.cumsum(rng.choice([-1, 0, 1], count)) % states


# The rows of the table in which numeric columns were first seen to be large.
COMMON: dict[str, Column] = {
    "float32, 2 decimals": lambda rng, n: rng.normal(size=n).round(2).astype(np.float32),
    "float64, 3 decimals": lambda rng, n: rng.normal(0, 5, n).round(3),
    "float64 walk, 2 decimals": lambda rng, n: walk(rng, 0.05, n, 100).round(2),
    "float64, full entropy": lambda rng, n: rng.normal(size=n),
    "int32 in 0..1000": lambda rng, n: rng.integers(0, 1_001, n, np.int32),
    "int64 counter": lambda rng, n: rising(rng, 10, n),
    "timestamps, ms, rising": lambda rng, n: _milliseconds(rising(rng, 200, n, START_MS)),
    "strings, 1,000 categories": lambda rng, n: joined("category_", rng.integers(0, 1_000, n)),
    "strings, Zipf over 5,000": lambda rng, n: joined("v", ranks(rng, 5_000, n, 1.35)),
}

# Further ones, of many types.
MORE: dict[str, Column] = {
    "float32, 1 decimal": lambda rng, n: rng.uniform(0, 500, n).round(1).astype(np.float32),
    "float32, 4 significant digits": lambda rng, n: np.array(
        [float(f"{x:.3e}") for x in rng.lognormal(3, 2, n)], np.float32
    ),
    "float32, full entropy": lambda rng, n: rng.normal(size=n).astype(np.float32),
    "float32 sensor walk, 1 decimal": lambda rng, n: (
        walk(rng, 0.05, n, 20).round(1).astype(np.float32)
    ),
    "float64 sensor walk, raw": lambda rng, n: walk(rng, 0.05, n, 20),
    "float64 prices": lambda rng, n: np.round(rng.lognormal(3, 0.8, n), 2),
    "float64 price list": lambda rng, n: rng.uniform(1, 5_000, 2_000).round(2)[
        rng.integers(0, 2_000, n)
    ],
    "float64, 3 decimals, mostly 0": lambda rng, n: np.where(
        rng.random(n) < 0.85, 0, rng.uniform(0, 1_000, n).round(3)
    ),
    "float64 gauge, 2 decimals": lambda rng, n: (
        60 + 15 * np.sin(np.arange(n) / 300 + rng.uniform(0, 6)) + rng.normal(0, 0.3, n)
    ).round(2),
    "float64 latitude and longitude, 5 decimals": lambda rng, n: rng.uniform(-90, 90, n).round(5),
    "int16": lambda rng, n: rng.integers(-600, 600, n).astype(np.int16),
    "int64 sorted ids": lambda rng, n: np.sort(rng.integers(0, 1 << 40, n)),
    "int64 descending": lambda rng, n: (1 << 42) - rising(rng, 1 << 18, n),
    "int64 counter with resets": lambda rng, n: rising(rng, 100, n) % 40_000,
    "int64 row ids": lambda rng, n: np.arange(n) + int(rng.integers(0, 1 << 30)),
    "int64 hashes, 5,000 distinct": lambda rng, n: rng.integers(0, 1 << 62, 5_000)[
        rng.integers(0, 5_000, n)
    ],
    "int64, 100 distinct": lambda rng, n: rng.integers(0, 1 << 50, 100)[rng.integers(0, 100, n)],
    "int64, Zipf over 1,000": lambda rng, n: ranks(rng, 1_000, n) * 1_000_003,
    "int32, 5 distinct": lambda rng, n: rng.integers(0, 5, n, np.int32),
    "int32, one dominant value": lambda rng, n: np.where(
        rng.random(n) < 0.7, 0, rng.integers(0, 100, n)
    ).astype(np.int32),
    "int32, mostly 0": lambda rng, n: np.where(
        rng.random(n) < 0.75, 0, rng.integers(0, 1 << 20, n)
    ).astype(np.int32),
    "int32, geometric": lambda rng, n: rng.geometric(0.25, n).astype(np.int32),
    "int32 in 0..1,000,000": lambda rng, n: rng.integers(0, 1_000_001, n, np.int32),
    "int32, 20,000 distinct": lambda rng, n: rng.integers(0, 20_000, n, np.int32),
    "int32 sorted keys": lambda rng, n: np.sort(rng.integers(0, n // 2, n)).astype(np.int32),
    "int32 periodic, 24": lambda rng, n: (np.arange(n) % 24).astype(np.int32),
    "int32 Markov chain, 12 states": lambda rng, n: _markov(rng, 12, n).astype(np.int32),
    "int32 in runs of 2, 20 distinct": lambda rng, n: runs(
        rng, 2, n, lambda k: rng.integers(0, 20, k, np.int32)
    ),
    "int32 in runs of 5": lambda rng, n: runs(
        rng, 5, n, lambda k: rng.integers(0, 50, k, np.int32)
    ),
    "int32 in runs of 10, 4 distinct": lambda rng, n: runs(
        rng, 10, n, lambda k: rng.integers(0, 4, k, np.int32)
    ),
    "int64 in runs of 20, all distinct": lambda rng, n: runs(
        rng, 20, n, lambda k: rng.integers(0, 1 << 40, k)
    ),
    "int64 in runs of 4, 300 distinct": lambda rng, n: runs(
        rng, 4, n, lambda k: rng.integers(0, 300, k)
    ),
    "int32 in runs of 50": lambda rng, n: runs(
        rng, 50, n, lambda k: rng.integers(0, 60, k, np.int32)
    ),
    "strings in runs of 100, 1,000 distinct": lambda rng, n: joined(
        "batch-", runs(rng, 100, n, lambda k: rng.integers(0, 1_000, k))
    ),
    "strings in runs of 500": lambda rng, n: joined(
        "host-", runs(rng, 500, n, lambda k: rng.integers(0, 60, k))
    ),
    "log levels in runs, one dominant": lambda rng, n: pa.array(_LEVELS).take(
        pa.array(runs(rng, 6, n, lambda k: rng.choice(4, k, p=[0.85, 0.08, 0.02, 0.05])))
    ),
    "bool, half true": lambda rng, n: rng.random(n) < 0.5,
    "bool, 2 % true": lambda rng, n: rng.random(n) < 0.02,
    "decimal(12, 2)": lambda rng, n: _decimal(rng.integers(0, 1_000_000, n), 12, 2),
    "decimal(30, 4)": lambda rng, n: _decimal(rng.integers(0, 1 << 40, n), 30, 4),
    "dates": lambda rng, n: pa.array(
        (DECEMBER_2025 - rng.integers(0, 1_500, n)).astype(np.int32), pa.date32()
    ),
    "dates, sorted": lambda rng, n: pa.array(
        np.sort(DECEMBER_2025 - rng.integers(0, 1_500, n)).astype(np.int32), pa.date32()
    ),
    "dates, monthly in runs": lambda rng, n: pa.array(
        (DECEMBER_2025 - 3_000 + np.arange(n) // 60 * 30).astype(np.int32), pa.date32()
    ),
    "timestamps, µs, irregular": lambda rng, n: pa.array(
        START_MS * 1_000 + np.cumsum(rng.exponential(1e6, n)).astype(np.int64), pa.timestamp("us")
    ),
    "timestamps, ns": lambda rng, n: pa.array(
        START_MS * 1_000_000 + np.cumsum(rng.exponential(1e9, n)).astype(np.int64),
        pa.timestamp("ns"),
    ),
    "timestamps, ms, out of order": lambda rng, n: _milliseconds(
        rising(rng, 2_000, n, START_MS) + rng.integers(-5_000, 5_000, n)
    ),
    "timestamps, ms, within a day": lambda rng, n: _milliseconds(
        START_MS + rng.integers(0, DAY_MS, n)
    ),
    "strings, sparse": lambda rng, n: with_nulls(rng, joined("n", ranks(rng, 900, n)), 0.9),
    "strings, enum of 8": lambda rng, n: pick(rng, [f"STATE_{w.upper()}" for w in _WORDS[:8]], n),
    "strings, countries": lambda rng, n: pa.array(_COUNTRIES).take(
        pa.array(ranks(rng, len(_COUNTRIES), n, 1.3))
    ),
    "strings, city names": lambda rng, n: joined(
        pa.array(_NAMES).take(pa.array(ranks(rng, len(_NAMES), n))), "ville-", ranks(rng, 60, n)
    ),
    "strings, short": lambda rng, n: joined(rng.integers(0, 1 << 24, n)),
    "strings, hex": lambda rng, n: texts(characters(rng, b"0123456789abcdef", 12, n)),
    "strings, codes": lambda rng, n: joined(
        texts(characters(rng, _LETTERS, 2, n)),
        digits(rng.integers(0, 100, n), 2),
        "-",
        digits(rng.integers(0, 100, n), 2),
    ),
    "strings, user ids": lambda rng, n: joined("user-", digits(rng.integers(0, 1_000_000, n), 6)),
    "strings, URLs": lambda rng, n: joined(
        "https://www.example.com/",
        pick(rng, _WORDS, n),
        "/",
        pick(rng, _NAMES, n),
        "?id=",
        rng.integers(0, 1 << 24, n),
    ),
    "strings, UUIDs": lambda rng, n: uuids(rng, n),
    "strings, 3,000 UUIDs": lambda rng, n: uuids(rng, 3_000).take(
        pa.array(rng.integers(0, 3_000, n))
    ),
    "strings, JSON": lambda rng, n: joined(
        '{"id": ',
        rng.integers(0, 1 << 30, n),
        ', "name": "',
        pick(rng, _NAMES, n),
        '", "score": ',
        digits(rng.integers(0, 100_000, n), 5),
        "}",
    ),
    "strings, ISO timestamps, rising": _iso,
    "strings, IP addresses": lambda rng, n: joined(
        "10.",
        rng.integers(0, 256, n),
        ".",
        rng.integers(0, 256, n),
        ".",
        rng.integers(0, 256, n),
    ),
}

KINDS: dict[str, Maker] = {name: table_of(make) for name, make in (COMMON | MORE).items()}
