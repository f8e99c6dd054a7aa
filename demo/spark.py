"""A 10,000-column Parquet data set converted with Spark, and queried in SQL next to the original."""

from __future__ import annotations

import os
import re
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.tables import ROW_NUMBER, numbered
from bench.worker import timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUM_FILES = 4
FORMATS = ("Mosaic", "Parquet")
_SCAN = re.compile(r"(File|Batch)Scan .*")


def show(table: pa.Table) -> None:
    """All of it, or one line that says why there is no Spark here."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            spark = _start(Path(folder))
        except (ImportError, RuntimeError) as error:
            print(f"Spark's part is left out: {error}")
            return
        try:
            _show(spark, numbered(table), Path(folder))
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
    print("Starting Spark ...")
    with _quiet():
        return session("fastmosaic demo", "local[*]", **conf)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what Java says as it starts: it writes to the descriptor, and keeps that one."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _show(spark: SparkSession, table: pa.Table, folder: Path) -> None:
    from fastmosaic.spark import convert, read, scans

    table = table.rename_columns({_repeating(table): "category", table.column_names[10]: "number"})
    parquet, mosaic = folder / "parquet", folder / "mosaic"
    parquet.mkdir()
    size = -(-table.num_rows // NUM_FILES)
    for number in range(NUM_FILES):
        part = table.slice(number * size, size)
        pq.write_table(part, parquet / f"{number}.parquet", compression="zstd")
    report = convert(spark, parquet, mosaic, write_statistics=[ROW_NUMBER], row_group_size=size)
    print(f"Converted with Spark, Parquet to Mosaic: {report}\n")

    read(spark, mosaic).createOrReplaceTempView("mosaic")
    spark.read.parquet(str(parquet)).createOrReplaceTempView("parquet")
    query = (
        "SELECT category, count(*), sum(number)\nFROM {}\n"
        f"WHERE {ROW_NUMBER} >= {size * (NUM_FILES - 1)}\nGROUP BY category ORDER BY category"
    )
    print(query.format("mosaic -- and once more FROM parquet"), end="\n\n")

    answers, rows = [], []
    for name in FORMATS:
        text = query.format(name.lower())
        df = spark.sql(text)
        before = _bytes_read(spark)
        answers.append(df.collect())
        num_bytes = scans()[-1].num_bytes if name == "Mosaic" else _bytes_read(spark) - before
        seconds = min(timed(lambda: spark.sql(text).collect())[0] for _ in range(3))  # noqa: B023
        rows.append((name, seconds, num_bytes, _scan(df)))
    assert answers[0] == answers[1]
    for row in answers[0]:
        print("  ".join(f"{value!s:>14}" for value in row))

    print(f"\n{'':10}{'best of 3':>12}{'bytes read':>14}")
    for name, seconds, num_bytes, _ in rows:
        print(f"{name:10}{seconds:10.2f} s{num_bytes:14,}")
    print("\nWhat the plans say of their scans:")
    for name, *_, scan in rows:
        print(textwrap.fill(scan, 100, initial_indent=f"{name:10}", subsequent_indent=" " * 10))
    print(
        "\nBoth gave the same rows. The bytes of Mosaic are those of the columns: the ends of its "
        "files\nwere read once, when it was loaded; Spark reads those of Parquet with every query."
    )


def _repeating(table: pa.Table) -> str:
    """The name of a text column with a few values."""
    for name in table.column_names:
        column = table[name]
        if pa.types.is_string(column.type) and 1 < len(column.unique()) <= 5:
            return name
    raise ValueError("there is none")


def _bytes_read(spark: SparkSession) -> int:
    """By all tasks so far, of files that the JVM reads."""
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().executorList(True).head().totalInputBytes())


def _scan(df: DataFrame) -> str:
    """The line of the plan that scans files."""
    plan: str = df._jdf.queryExecution().executedPlan().toString()
    return next(found[0] for line in plan.splitlines() if (found := _SCAN.search(line)))
