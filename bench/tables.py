"""The tables that demo and benchmarks are run on; the same ones every time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_WORDS = [
    *("vehicle", "sensor", "telemetry", "engine", "battery", "pressure", "temperature", "feature"),
    *("market", "signal", "average", "minimum", "maximum", "rolling", "window", "status"),
]


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
