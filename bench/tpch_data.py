"""The tables of TPC-H as Mosaic and Parquet files, and answers of its queries that can be compared.

`tpchgen-cli` of PyPI generates the rows. Both formats get the same tables, with the defaults of their writers.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fastmosaic as fm

from .tpch_queries import TABLES

GENERATOR = "tpchgen-cli"
PARQUET = "Parquet"

# Returns the rows of a query.
Ask = Callable[[str], Sequence[Sequence[Any]]]


def write_tables(folder: Path, scale: float) -> tuple[Path, Path]:
    """Write all tables, e.g. `mosaic/orders.mosaic` and `parquet/orders.parquet`; return both folders."""
    mosaic, parquet = folder / "mosaic", folder / "parquet"
    mosaic.mkdir(parents=True)
    parquet.mkdir()
    with tempfile.TemporaryDirectory(dir=folder) as raw:
        generate(Path(raw), scale)
        for name in TABLES:
            table = plain(pq.read_table(Path(raw) / f"{name}.parquet"))
            fm.write_table(table, mosaic / f"{name}.mosaic")
            pq.write_table(table, parquet / f"{name}.parquet", compression="zstd")
    return mosaic, parquet


def generate(folder: Path, scale: float) -> None:
    """Write the Parquet files of the generator."""
    places = [sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]
    command = shutil.which(GENERATOR, path=os.pathsep.join(places))
    if command is None:
        raise SystemExit(
            f"{GENERATOR} is not installed: {sys.executable} -m pip install {GENERATOR}"
        )
    arguments = ["parquet", "--scale-factor", str(scale), "--output-dir", str(folder), "--quiet"]
    subprocess.run([command, *arguments], check=True)


def plain(table: pa.Table) -> pa.Table:
    """Return a table with strings as most writers have them, and without the generator's field numbers."""
    fields = [
        pa.field(
            field.name,
            pa.string() if pa.types.is_string_view(field.type) else field.type,
            field.nullable,
        )
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def difference(answer: Iterable[Sequence[Any]], expected: Iterable[Sequence[Any]]) -> str:
    """Return where two answers to a query differ, or "" if they are the same.

    Engines choose different types for sums and averages, round averages of decimals to six digits or more,
    and order rows with equal keys as they like.
    """
    one, other = (sorted(rows, key=_order) for rows in (answer, expected))
    if len(one) != len(other):
        return f"{len(one)} rows instead of {len(other)}"
    for have, want in zip(one, other, strict=True):
        if len(have) != len(want) or not all(map(_is_same, have, want)):
            return f"{tuple(have)} instead of {tuple(want)}"
    return ""


def _order(row: Sequence[Any]) -> list[str]:
    """Return a key by which to sort rows: values that are the same in all engines, then the others."""
    exact = [str(value) for value in row if not isinstance(value, float | Decimal)]
    return exact + [f"{value:.3g}" for value in row if isinstance(value, float | Decimal)]


def _is_same(have: Any, want: Any) -> bool:
    if isinstance(have, float | Decimal) and isinstance(want, float | Decimal):
        return math.isclose(have, want, rel_tol=1e-6, abs_tol=1e-6)
    return bool(have == want)
