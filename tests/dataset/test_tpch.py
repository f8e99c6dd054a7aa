"""The 22 queries of TPC-H: DuckDB and Polars over Mosaic answer as DuckDB does over Parquet."""

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.results import OURS
from bench.tpch_data import PARQUET, difference, write_tables
from bench.tpch_local import on_duckdb, on_polars
from bench.tpch_queries import queries

SCALE = 0.01
QUERIES = queries(SCALE)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Functions that run a query, by engine and format."""
    folders = write_tables(tmp_path_factory.mktemp("tpch") / "tables", SCALE)
    with ExitStack() as stack:
        yield {
            engine: stack.enter_context(start(*folders))
            for engine, start in {"DuckDB": on_duckdb, "Polars": on_polars}.items()
        }


@pytest.mark.parametrize("engine", ["DuckDB", "Polars"])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_those_over_parquet(asked, engine, name):
    expected = asked["DuckDB"][PARQUET](QUERIES[name])
    assert difference(asked[engine][OURS](QUERIES[name]), expected) == ""


def test_queries_find_rows(asked):
    found = [name for name in QUERIES if asked["DuckDB"][PARQUET](QUERIES[name])]
    assert len(found) >= 20, "too small a scale makes most comparisons void"
