"""Kinds of columns that are held out: the writer's choices must not be tuned on them.

Whoever changes how the writer chooses an encoding looks at the sum of these at the end, and at
nothing else here: they show what to expect of data that nobody has looked at.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import (
    START_MS,
    Column,
    Maker,
    Rng,
    digits,
    joined,
    pick,
    ranks,
    runs,
    table_of,
    walk,
    with_nulls,
)

_BROWSERS = ["Chrome/139.0.0.0 Safari/537.36", "Firefox/142.0", "Version/18.5 Safari/605.1.15"]
_SYSTEMS = [
    "Windows NT 10.0; Win64; x64",
    "Macintosh; Intel Mac OS X 10_15_7",
    "X11; Linux x86_64",
    "iPhone; CPU iPhone OS 18_5 like Mac OS X",
    "Linux; Android 15; K",
]
_TEMPLATES = ["GET /api/v2/orders/", "POST /api/v2/carts/", "GET /static/img/", "PUT /users/"]
_MARKS = ["electronics", "garden", "toys", "books", "grocery", "fashion", "sports", "health"]


def _addresses(rng: Rng, count: int) -> np.ndarray:
    """IPv4 addresses as numbers, from some hundred networks."""
    networks = rng.integers(0x0B000000, 0xDF000000, 300) & ~0xFF
    return networks[ranks(rng, 300, count)] + rng.integers(1, 255, count)


def _jittered_seconds(rng: Rng, count: int) -> np.ndarray:
    return START_MS // 1000 + np.arange(count) * 15 + rng.integers(-3, 4, count)


def _track(rng: Rng, count: int) -> np.ndarray:
    """One coordinate of a vehicle, in degrees with 6 decimals, that sometimes stands still."""
    moving = runs(rng, 120, count, lambda k: rng.random(k) < 0.6)
    return np.round(48.1 + np.cumsum(np.where(moving, rng.normal(2e-5, 5e-5, count), 0)), 6)


def _agents(rng: Rng, count: int) -> pa.Array:
    return joined(
        "Mozilla/5.0 (",
        pick(rng, _SYSTEMS, count, [5, 2, 1, 3, 3]),
        ") AppleWebKit/537.36 (KHTML, like Gecko) ",
        pick(rng, _BROWSERS, count, [6, 2, 2]),
    )


def _durations(rng: Rng, count: int) -> np.ndarray:
    """Milliseconds that requests took, with a long tail."""
    return rng.lognormal(4, 1.2, count).astype(np.int32)


def _order_book(rng: Rng, count: int) -> np.ndarray:
    """Prices on a grid of 0.25 that change seldom."""
    return np.round(4_500 + 0.25 * np.cumsum(rng.choice([-1, 0, 0, 0, 0, 1], count)), 2)


def _meter(rng: Rng, count: int) -> np.ndarray:
    """Watt-hours that a meter has counted: it stands at night."""
    hour = np.arange(count) // 4 % 24
    return 1_000_000 + np.cumsum(np.where((hour > 6) & (hour < 20), rng.poisson(180, count), 0))


def _quantised(rng: Rng, count: int) -> np.ndarray:
    noise = walk(rng, 6, count) + 900 * np.sin(np.arange(count) / 40)
    return np.clip(noise, -32_000, 32_000).astype(np.int16) // 4 * 4


UNSEEN: dict[str, Column] = {
    "IPv4 addresses as int64": _addresses,
    "epoch seconds with jitter": _jittered_seconds,
    "percentages, float64, 1 decimal": lambda rng, n: (100 * rng.beta(2, 5, n)).round(1),
    "z-scores, float32": lambda rng, n: (
        ((values := rng.poisson(40, n).astype(np.float32)) - values.mean()) / values.std()
    ),
    "one-hot, int8": lambda rng, n: (rng.integers(0, 12, n) == 0).astype(np.int8),
    "counts, Poisson, int32": lambda rng, n: rng.poisson(rng.uniform(0.5, 30), n).astype(np.int32),
    "embeddings, float32": lambda rng, n: np.tanh(rng.normal(0, 0.3, n)).astype(np.float32),
    "embeddings, float16": lambda rng, n: np.tanh(rng.normal(0, 0.3, n)).astype(np.float16),
    "amounts of money, float64": lambda rng, n: np.where(
        rng.random(n) < 0.6,
        np.floor(rng.lognormal(3, 1, n)) + 0.99,
        rng.lognormal(3, 1, n).round(2),
    ),
    "device ids": lambda rng, n: joined("dev-", digits(ranks(rng, 2_000, n, 0.5) * 37, 6), "-eu"),
    "user agents": _agents,
    "HTTP status codes, int16": lambda rng, n: rng.choice(
        np.array([200, 301, 304, 404, 500], np.int16), n, p=[0.86, 0.03, 0.05, 0.05, 0.01]
    ),
    "GPS track, float64, 6 decimals": _track,
    "quantised sensor, int16": _quantised,
    "sparse float64 with NaN": lambda rng, n: np.where(
        rng.random(n) < 0.8, np.nan, rng.gamma(2, 30, n).round(2)
    ),
    "flags with nulls": lambda rng, n: with_nulls(rng, rng.random(n) < 0.3, 0.25),
    "durations, ms, int32": _durations,
    "order book prices, float64": _order_book,
    "meter readings, int64": _meter,
    "request lines": lambda rng, n: joined(
        pick(rng, _TEMPLATES, n, [8, 2, 5, 1]), ranks(rng, 20_000, n, 0.8), " HTTP/1.1"
    ),
    "product categories with nulls": lambda rng, n: with_nulls(
        rng, joined(pick(rng, _MARKS, n), "/", ranks(rng, 12, n)), 0.15
    ),
    "ages, int8": lambda rng, n: np.clip(rng.normal(41, 17, n), 0, 104).astype(np.int8),
    "hours of the day, in order": lambda rng, n: np.sort(rng.integers(0, 24, n)).astype(np.int8),
    "share prices, float32": lambda rng, n: (
        (80 * np.exp(walk(rng, 0.004, n))).round(2).astype(np.float32)
    ),
    "probabilities, float64": lambda rng, n: 1 / (1 + np.exp(-rng.normal(-2, 1.5, n))),
    "bit masks, int32": lambda rng, n: np.bitwise_or(
        1 << rng.integers(0, 16, n), 1 << ranks(rng, 16, n)
    ).astype(np.int32),
    "foreign keys of 30,000": lambda rng, n: ranks(rng, 30_000, n, 0.7).astype(np.int64) + 100_000,
    "event times by session": lambda rng, n: pa.array(
        np.sort(START_MS + rng.integers(0, 1 << 31, n // 8 + 1)).repeat(8)[:n]
        + np.tile(np.arange(8) * 850, n // 8 + 1)[:n],
        pa.timestamp("ms"),
    ),
    "postal codes": lambda rng, n: digits(10_000 + ranks(rng, 6_000, n, 0.6) * 11, 5),
    "measured volumes, float32, 3 digits": lambda rng, n: np.array(
        [float(f"{x:.2e}") for x in rng.gamma(3, 20, n)], np.float32
    ),
    "booleans in runs": lambda rng, n: runs(rng, 40, n, lambda k: np.arange(k) % 2 == 0),
    "free text": lambda rng, n: pc.binary_join_element_wise(
        *(pick(rng, _MARKS + _BROWSERS, n) for _ in range(3)), joined(ranks(rng, 4_000, n)), " "
    ),
}

KINDS: dict[str, Maker] = {name: table_of(make) for name, make in UNSEEN.items()}
