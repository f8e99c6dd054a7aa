"""DuckDB and Polars over the tables of TPC-H, as Mosaic and as Parquet.

Both run the texts of all 22 queries: Polars through `polars.SQLContext`. DuckDB reads Mosaic through a registered
`MosaicDataset`, and Polars through `scan_polars`. Parquet is read by the engine itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import fastmosaic as fm

from .results import OURS
from .tpch_data import PARQUET, Ask
from .tpch_queries import TABLES


@contextmanager
def on_duckdb(mosaic: Path, parquet: Path) -> Iterator[dict[str, Ask]]:
    """Provide functions that run a query over each format, each in a connection of its own."""
    import duckdb

    with closing(duckdb.connect()) as ours, closing(duckdb.connect()) as theirs:
        for name in TABLES:
            ours.register(name, fm.MosaicDataset(mosaic / f"{name}.mosaic"))
            theirs.read_parquet(str(parquet / f"{name}.parquet")).create_view(name)
        yield {
            OURS: lambda query: ours.execute(query).fetchall(),
            PARQUET: lambda query: theirs.execute(query).fetchall(),
        }


@contextmanager
def on_polars(mosaic: Path, parquet: Path) -> Iterator[dict[str, Ask]]:
    """Provide functions that run a query over each format."""
    import polars as pl

    ours = pl.SQLContext({name: fm.scan_polars(mosaic / f"{name}.mosaic") for name in TABLES})
    theirs = pl.SQLContext({name: pl.scan_parquet(parquet / f"{name}.parquet") for name in TABLES})
    yield {
        OURS: lambda query: ours.execute(query).collect().rows(),
        PARQUET: lambda query: theirs.execute(query).collect().rows(),
    }
