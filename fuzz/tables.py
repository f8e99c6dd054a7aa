"""Random tables and writer options from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import strategies
import user_types

NAMES = [
    *("a", "b", "ab", "é", "è", "漢", "漢語", "😀", " ", "\t", "\\", "%", "\x7f", "\x80", "\uffff"),
    *("n" * 127, "n" * 128, "n" * 300, "*", "a,b", "a.b", "\x1b[31m", "\u202e"),
    *(f"sensor_{side}_pressure_{i:03}" for side in ("left", "right") for i in range(12)),
]


def table(rng: Random, max_rows: int = 300) -> pa.Table:
    """Return a table of any types and shapes, of sliced arrays in uneven chunks."""
    num_rows = rng.choice([0, 1, 2, 3, 7, 8, 9, 20, 63, 64, 65, 130, max_rows])
    names = rng.sample(NAMES, rng.choice([0, 1, 1, 2, 3, 5, 9, 30]))
    if not names:
        return strategies.without_columns(num_rows)
    drawn = np.random.default_rng(rng.getrandbits(64))
    fields, columns = [], []
    for name in names:
        arrow = rng.choice(strategies.ALL_TYPES)
        metadata = rng.choice([None, None, None, {"comment": "é"}])
        field = pa.field(name, arrow, rng.random() < 0.7, metadata)
        array = strategies.dealt(field, num_rows, rng.choice(strategies.SHAPES), drawn)
        cuts = [rng.randrange(num_rows + 1) for _ in range(rng.randrange(4))]
        fields.append(field)
        columns.append(strategies.chunked(array, cuts))
    metadata = rng.choice([None, None, {"pandas": "{}", "b": "\udcff".encode(errors="replace")}])
    return pa.table(columns, schema=pa.schema(fields, metadata))


def user_table(rng: Random, max_rows: int = 40) -> pa.Table:
    """Return a table of types that only the annex restores, nested in each other."""
    names = rng.sample(NAMES, rng.choice([1, 1, 2, 3, 20]))
    pool = rng.choice([user_types.LEAVES, user_types.NESTED, user_types.NESTED])
    arrows = [rng.choice(pool) for _ in names]
    return user_types.user_table(names, arrows, rng.choice([0, 1, 2, 9, max_rows]), rng)


CHOICES: dict[str, list[Any]] = {
    "compression": ["zstd", "none"],
    "compression_level": [-1, 1, 9],
    "write_statistics": [False, True],
    "use_dictionary": [False, True],
    "row_group_size": [None, 1, 7, 64],
    "row_group_bytes": [1, 100, 5_000, 1 << 28],
    "num_buckets": [1, 2, 3, 40, 1000],
    "array_layout": ["columns", "block"],
    "max_dict_entries": [0, 1, 2, 255, 1000],
    "max_dict_total_bytes": [0, 10, 32768],
    "page_size_threshold": [None, 0, 1, 64],
    "checksum": [False, True],
    "annex": [False, True],
    "use_threads": [False, True],
}


def options(rng: Random) -> dict[str, Any]:
    """Return options of `write_table`, about half of them."""
    return {name: rng.choice(values) for name, values in CHOICES.items() if rng.random() < 0.5}


def their_options(rng: Random) -> dict[str, Any]:
    """Return options of the Apache writer."""
    choices = {
        "compression": [0, 1],
        "num_buckets": [1, 2, 7, 1000],
        "row_group_max_size": [1, 500, 1 << 28],
        "max_dict_total_bytes": [0, 10, 32768],
        "max_dict_entries": [0, 2, 255, 1000],
        "page_size_threshold": [0, 1, 64, 32768],
    }
    return {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.5}
