"""Tools to make columns of random values quickly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Rng: TypeAlias = np.random.Generator
Column: TypeAlias = Callable[[Rng, int], Any]  # makes so many values
Maker: TypeAlias = Callable[[int, int], pa.Table]  # makes a table of so many columns and rows

DAY_MS = 86_400_000
START_MS = 1_767_225_600_000  # 2026-01-01
DECEMBER_2025 = 20_423  # 2025-12-01, in days


def table_of(column: Column) -> Maker:
    """A function that makes a table in which every column is of one kind."""

    def make(num_columns: int, num_rows: int) -> pa.Table:
        rng = np.random.default_rng(num_columns * num_rows)
        columns = [pa.array(column(rng, num_rows)) for _ in range(num_columns)]
        return pa.table(columns, names=[f"column_{i:05d}" for i in range(num_columns)])

    return make


def pick(rng: Rng, values: Any, count: int, weights: Sequence[float] | None = None) -> pa.Array:
    """Values drawn with replacement."""
    total = None if weights is None else np.asarray(weights) / np.sum(weights)
    indices = rng.choice(len(values), count, p=total)
    return pa.array(values).take(pa.array(indices))


def ranks(rng: Rng, distinct: int, count: int, exponent: float = 1.0) -> np.ndarray:
    """Numbers from 0 on, the more seldom the larger (Zipf); their order is shuffled."""
    weights = 1 / np.arange(1, distinct + 1) ** exponent
    drawn = np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(count))
    return rng.permutation(distinct)[np.minimum(drawn, distinct - 1)]


def runs(rng: Rng, length: float, count: int, values: Callable[[int], Any]) -> np.ndarray:
    """Values that each repeat for a random number of rows, `length` on average."""
    lengths = rng.geometric(1 / length, count)
    needed = int(np.searchsorted(np.cumsum(lengths), count)) + 1
    return np.repeat(np.asarray(values(needed)), lengths[:needed])[:count]


def rising(rng: Rng, step: int, count: int, start: int = 0) -> np.ndarray:
    """A running sum of steps between 0 and `step`."""
    return start + np.cumsum(rng.integers(0, step + 1, count))


def walk(rng: Rng, deviation: float, count: int, start: float = 0.0) -> np.ndarray:
    return start + np.cumsum(rng.normal(0, deviation, count))


def with_nulls(rng: Rng, values: Any, share: float) -> pa.Array:
    """The values, but this share of them null."""
    array = pa.array(values)
    return pc.if_else(pa.array(rng.random(len(array)) < share), pa.scalar(None, array.type), array)


def joined(*parts: Any) -> pa.Array:
    """Texts put together row by row; a part is a text, or one value for each row."""
    columns = [
        part if isinstance(part, str) else pa.array(part).cast(pa.string()) for part in parts
    ]
    return pc.binary_join_element_wise(*columns, "")


def texts(characters: np.ndarray) -> pa.Array:
    """Strings of one length from their characters, a row of bytes each."""
    rows, width = characters.shape
    offsets = pa.array(np.arange(rows + 1) * width, pa.int32()).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(characters, np.uint8))
    return pa.StringArray.from_buffers(rows, offsets, data)


def digits(values: np.ndarray, width: int) -> pa.Array:
    """Numbers with leading zeros."""
    powers = 10 ** np.arange(width - 1, -1, -1)
    return texts(np.asarray(values)[:, None] // powers % 10 + ord("0"))


def characters(rng: Rng, alphabet: bytes, width: int, count: int) -> np.ndarray:
    """Random bytes from an alphabet, `width` in each row."""
    return rng.choice(np.frombuffer(alphabet, np.uint8), (count, width))


def uuids(rng: Rng, count: int) -> pa.Array:
    found = characters(rng, b"0123456789abcdef", 36, count)
    found[:, [8, 13, 18, 23]] = ord("-")
    found[:, 14] = ord("4")
    return texts(found)
