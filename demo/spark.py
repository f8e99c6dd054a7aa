"""A 10,000-column Parquet data set converted with Spark, and queried in SQL next to the original."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.tables import numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NUM_FILES = 4
WIDTH = 100
FORMATS = ("Mosaic", "Parquet")


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
    from fastmosaic.spark.session import session

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
    from demo.__main__ import timed
    from fastmosaic.spark import convert, read

    parquet, mosaic = folder / "parquet", folder / "mosaic"
    parquet.mkdir()
    size = -(-table.num_rows // NUM_FILES)
    for number in range(NUM_FILES):
        part = table.slice(number * size, size)
        pq.write_table(part, parquet / f"{number}.parquet", compression="zstd")
    report = convert(spark, parquet, mosaic, write_statistics=["row_number"])
    print(f"Converted with Spark from {NUM_FILES} Parquet files: {report}\n")

    read(spark, mosaic).createOrReplaceTempView("mosaic")
    spark.read.parquet(str(parquet)).createOrReplaceTempView("parquet")
    number, category = table.column_names[10], _repeating(table)
    query = (
        f"SELECT {category}, count(*), sum({number})\nFROM {{}}\nWHERE row_number >= {size}\n"
        f"GROUP BY {category} ORDER BY {category}"
    )
    print(query.format("mosaic | parquet"), end="\n\n")

    answers, rows = [], []
    for name in FORMATS:
        df = spark.sql(query.format(name.lower()))
        before = _bytes_read(spark)
        first_ms, answer = timed(df.collect, runs=1)
        bytes_read = _planned_bytes() if name == "Mosaic" else _bytes_read(spark) - before
        best_ms, _ = timed(lambda: spark.sql(query.format(name.lower())).collect())  # noqa: B023
        answers.append(answer)
        rows.append((name, first_ms, best_ms, bytes_read, _scan(df)))
    assert answers[0] == answers[1]

    print(f"{'':10}{'first time':>14}{'then':>12}{'bytes read':>14}")
    for name, first_ms, best_ms, bytes_read, _ in rows:
        print(f"{name:10}{first_ms:11.0f} ms{best_ms:9.0f} ms{bytes_read:14,}")
    print("\nWhat the plans say of their scans:")
    for name, *_, scan in rows:
        print(f"{name:10}{scan}")
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
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    context.listenerBus().waitUntilEmpty()
    return int(context.statusStore().executorList(True).head().totalInputBytes())


def _planned_bytes() -> int:
    from fastmosaic.spark import scans

    return scans()[-1].num_bytes


def _scan(df: DataFrame) -> str:
    """The line of the plan that scans files, cut to the width of a terminal."""
    plan: str = df._jdf.queryExecution().executedPlan().toString()
    [line] = {line for line in plan.splitlines() if re.search(r"FileScan|[Bb]atchScan", line)}
    return line
