"""Spark on 10,000 columns: convert a Parquet dataset, query both formats, and change a table with SQL."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from bench.tables import ROW_NUMBER
from bench.worker import timed
from fastmosaic import MosaicTable
from fastmosaic.spark import scans

from . import showing
from .comparing import FORMATS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

NUM_FILES = 4
TURNS = 3
_SCAN = re.compile(r"(File|Batch)Scan .*")


@dataclass(frozen=True)
class Answer:
    """The result of a query in one of the formats, and its cost."""

    rows: list[Row]
    seconds: float
    num_bytes: int
    scan: str  # its line in the query plan


def show(console: Console, table: pa.Table) -> None:
    """Run the Spark part, or print a sentence that says why Spark is not available.

    The table must have the columns `row_number`, `category` and `number`.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of PySpark, about the version of pandas
        try:
            with console.status("starting Spark"):
                spark = _start(Path(folder))
        except (ImportError, RuntimeError) as error:
            console.print(f"The Spark part was skipped: {error}")
            return
        try:
            _show(console, spark, table, Path(folder))
        finally:
            spark.stop()


def _start(folder: Path) -> SparkSession:
    from fastmosaic.spark import session

    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    with _quiet():
        return session("fastmosaic demo", "local[*]", **conf)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what Java prints when it starts: it writes to the file descriptor, not to sys.stderr."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _show(console: Console, spark: SparkSession, table: pa.Table, folder: Path) -> None:
    from fastmosaic.spark import convert, read

    parquet, lake = folder / "parquet", folder / "lake"
    mosaic = lake / "wide"
    size = -(-table.num_rows // NUM_FILES)
    with console.status(f"writing {NUM_FILES} Parquet files"):
        parquet.mkdir()
        for number in range(NUM_FILES):
            part = table.slice(number * size, size)
            pq.write_table(part, parquet / f"{number}.parquet", compression="zstd")
    report = convert(spark, parquet, mosaic, write_statistics=[ROW_NUMBER], row_group_size=size)
    console.print(f"Converted from Parquet to Mosaic with Spark: {report}\n")

    read(spark, mosaic).createOrReplaceTempView("mosaic")
    spark.read.parquet(str(parquet)).createOrReplaceTempView("parquet")
    query = (
        "SELECT category, count(*), sum(number)\nFROM {}\n"
        f"WHERE {ROW_NUMBER} >= {size * (NUM_FILES - 1)}\nGROUP BY category ORDER BY category"
    )
    _show_text(console, query.format("mosaic -- and then FROM parquet"))
    with console.status("running the query"):
        answers = {name: _ask(spark, name, query.format(name.lower())) for name in FORMATS}
    first, *others = (answer.rows for answer in answers.values())
    if any(rows != first for rows in others):
        raise AssertionError("the formats returned different rows")
    console.print(showing.rows(["category", "count(*)", "sum(number)"], _cells(first), right=True))
    _show_costs(console, answers)
    _show_lake(console, spark, lake, table.num_columns)


def _show_lake(console: Console, spark: SparkSession, lake: Path, num_columns: int) -> None:
    """Make the dataset a table of a SQL catalog, add columns to it, and query them."""
    from fastmosaic.spark import add_columns, catalog

    statements = [
        "CREATE TABLE lake.names (category string, name string)",
        "INSERT INTO lake.names SELECT DISTINCT category, upper(category) FROM lake.wide",
        "SELECT name, sum(share) FROM lake.wide JOIN lake.names USING (category) GROUP BY name",
        "SELECT count(*) FROM lake.wide VERSION AS OF 1",
    ]
    console.print("\nThe same dataset as a table of a SQL catalog, with columns that Spark adds:")
    _show_text(
        console,
        'catalog(spark, "lake", directory)\n'
        'add_columns(spark, "lake/wide", {"share": "number / 100", "double": "2 * number"})',
    )
    with console.status("adding columns"):
        MosaicTable.create(lake / "wide")
        catalog(spark, "lake", lake)
        report = add_columns(
            spark, lake / "wide", {"share": "number / 100", "double": "2 * number"}
        )
    console.print(f"{report}\n")
    for statement in statements:
        _show_text(console, f"{statement};")
        with console.status("running the statement"):
            df = spark.sql(statement)
            rows = df.collect()
        if rows:
            console.print(showing.rows(df.columns, _cells(rows), right=True))
    scan = next(one for one in reversed(scans()) if one.total_columns > num_columns)
    console.print(f"The join read {scan.columns} of {scan.total_columns:,} columns.")


def _show_costs(console: Console, answers: dict[str, Answer]) -> None:
    groups = {
        f"time, best of {TURNS}": {name: answer.seconds for name, answer in answers.items()},
        "bytes read": {name: answer.num_bytes / 1e3 for name, answer in answers.items()},
    }
    console.print(showing.bars(console, groups, dict(zip(groups, ("s", "kB"), strict=True))))
    console.print("The scans in the query plans:")
    for name, answer in answers.items():
        console.print(Padding(_scan_of(name, answer), (0, 2), expand=False))
    console.print(
        "\nBoth queries returned the same rows. The bytes of Mosaic are those of the columns only: its "
        "metadata was read once, when the dataset was loaded. Spark reads the metadata of Parquet "
        "with every query."
    )


def _ask(spark: SparkSession, name: str, query: str) -> Answer:
    df = spark.sql(query)
    before = _bytes_read(spark)
    rows = df.collect()
    num_bytes = scans()[-1].num_bytes if name == "Mosaic" else _bytes_read(spark) - before
    seconds = min(timed(lambda: spark.sql(query).collect())[0] for _ in range(TURNS))
    return Answer(rows, seconds, num_bytes, _scan(df))


def _scan_of(name: str, answer: Answer) -> Text:
    return Text.assemble((name, showing.COLOURS[name]), f": {answer.scan}")


def _cells(rows: list[Row]) -> list[list[str]]:
    return [
        [f"{value:,}" if isinstance(value, int) else str(value) for value in row] for row in rows
    ]


def _show_text(console: Console, text: str) -> None:
    console.print(Padding(Text(text), (0, 0, 0, 2)))


def _bytes_read(spark: SparkSession) -> int:
    """Return the bytes that the JVM has read from files so far."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().executorList(True).head().totalInputBytes())


def _scan(df: DataFrame) -> str:
    """Return the line of the query plan that scans files."""
    plan: str = df._jdf.queryExecution().executedPlan().toString()
    return next(found[0] for line in plan.splitlines() if (found := _SCAN.search(line)))
