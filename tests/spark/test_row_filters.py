"""Filters drop rows in tasks, before these become rows of the JVM: never one that Spark would keep."""

from __future__ import annotations

import datetime
import math
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession, datasource

import fastmosaic as fm
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.spark.planner.plan import PlannedScan, ScanPlanner
from fastmosaic.spark.planner.pushdown import Leaf, Neither, Pair, to_expression, to_row_filter
from fastmosaic.spark.planner.read import read
from fastmosaic.spark.source.load import plan_load
from fastmosaic.spark.source.options import LoadOptions

pytest_plugins = ["spark_session"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

NAN, INFINITY = math.nan, math.inf
NUM_ROWS = 240
FLOATS = [NAN, -INFINITY, -1.5, -0.0, 0.0, 0.1, 2.5, INFINITY, None]
# Conditions for which tasks drop rows, and others of which tasks know at most that nulls do not match.
DROPS = [
    *(f"{name} {operator} 2" for name in ("tiny", "int", "long") for operator in ("<", "=", ">=")),
    *(f"double {operator} 0.1D" for operator in ("<", "<=", "=", ">=", ">")),
    *(f"NOT double {operator} 0.1D" for operator in ("<", "<=", "=", ">=", ">")),
    *(f"float {operator} float(2.5)" for operator in ("<", "=", ">")),
    *("double = 0.0D", "double > -0.0D", "double < -0.0D", "double in (0.0D, 2.5D)"),
    *("double in (-0.0D, 0.1D)", "double not in (0.1D, 2.5D)", "float in (float(0), float(-1.5))"),
    *(
        "double is null",
        "double is not null",
        "isnotnull(text)",
        "double <=> 2.5D",
        "long <=> null",
    ),
    *(
        "double < other",
        "double >= other",
        "double = other",
        "long < int_long",
        "NOT long < int_long",
    ),
    *(
        "day < date '1970-01-05'",
        "int <> 2",
        "day < next",
        "day in (date '1970-01-02')",
    ),
    *(
        "moment >= timestamp '2000-01-01 12:00:00.000001'",
        "local < timestamp_ntz '2000-01-01 12:00:00'",
    ),
    *(
        "price > 1.00",
        "price <= -1.25",
        "price in (0.04, 0.53)",
        "huge < 10000000000000000000000020.5",
    ),
    *(
        "text = 'ab'",
        "text > 'ab'",
        "text like 'ab%'",
        "text like '%b'",
        "text like '%b%'",
        "text = ''",
    ),
    *("text not like 'ab%'", "text not like '%b'", "text not like '%b%'", "text in ('ä', '😀')"),
    *("flag", "NOT flag", "flag = false", "unsigned > 3", "duration > 5"),
    *(
        "struct.x > 10",
        "struct.y = 'ab'",
        "struct.inner.z < 3",
        "struct.x is null",
        "struct.f >= 2.5D",
    ),
    *("double > 2 and text = 'a'", "double > 2 or text = 'a'", "NOT (double > 2 or text = 'a')"),
    *("key = 'b'", "key < 'b' and long > 20", "year = 2024 or long < 3"),
]
OTHERS = [
    *("double = double('nan')", "double < double('nan')", "double >= double('nan')"),
    *("double in (0.1D, double('nan'))", "bytes = X'00'", "text like '%a%b%'", "long % 2 = 0"),
    *("struct is null", "size(list) = 1", "NOT long <=> 3", "long + 1 > 5 or text = 'a'"),
]


def rows(start: int) -> pa.Table:
    numbers = range(start, start + NUM_ROWS // 2)

    def cycle(values: list[Any], type: pa.DataType) -> pa.Array:
        return pa.array([values[i % len(values)] for i in numbers], type)

    day = datetime.date(1970, 1, 1)
    noon = datetime.datetime(2000, 1, 1, 12)
    moments = [noon + datetime.timedelta(microseconds=i - 50) for i in numbers]
    texts = ["", "a", "ab", "abc", "ä", "😀", "bab", None]
    inner = [{"z": None if i % 5 == 0 else i} for i in numbers]
    structs = [
        None
        if i % 7 == 0
        else {"x": i, "y": texts[i % 8], "f": FLOATS[i % 9], "inner": inner[i - start]}
        for i in numbers
    ]
    struct = pa.struct(
        [
            ("x", pa.int64()),
            ("y", pa.string()),
            ("f", pa.float64()),
            ("inner", pa.struct([("z", pa.int32())])),
        ]
    )
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "tiny": cycle([-128, 2, None, 127], pa.int8()),
            "int": cycle([1, 2, None, 3], pa.int32()),
            "long": cycle([*range(29), None], pa.int64()),
            "int_long": cycle([3, None, 17], pa.int64()),
            "float": cycle(FLOATS, pa.float32()),
            "double": cycle(FLOATS, pa.float64()),
            "other": cycle([0.1, NAN, None, 2.5, -0.0], pa.float64()),
            "flag": cycle([True, False, None], pa.bool_()),
            "text": cycle(texts, pa.string()),
            "bytes": cycle([b"", b"\0", None], pa.binary()),
            "day": pa.array([day + datetime.timedelta(days=i) for i in numbers], pa.date32()),
            "next": cycle([day, None, datetime.date(1970, 3, 1)], pa.date32()),
            "moment": pa.array(moments, pa.timestamp("us", "UTC")),
            "local": pa.array(moments, pa.timestamp("us")),
            "price": pa.array([Decimal(7 * i - 500) / 100 for i in numbers], pa.decimal128(10, 2)),
            "huge": pa.array([Decimal(10) ** 25 + i for i in numbers], pa.decimal128(30, 3)),
            "unsigned": cycle([0, 4, 2**64 - 1, None], pa.uint64()),
            "duration": cycle([0, 9, None], pa.duration("s")),
            "struct": pa.array(structs, struct),
            "list": cycle([[1], [], None], pa.list_(pa.int32())),
        }
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files in partitions, with row groups of 40 rows and without statistics; Parquet beside them."""
    root = tmp_path_factory.mktemp("filters")
    for number, place in enumerate(("key=a/year=2023", "key=b/year=2024")):
        for kind in ("mosaic", "parquet"):
            (root / kind / place).mkdir(parents=True)
        table = rows(number * NUM_ROWS // 2)
        fm.write_table(
            table, root / "mosaic" / place / "0.mosaic", row_group_size=40, write_statistics=False
        )
        index = table.schema.get_field_index("duration")
        table = table.set_column(index, "duration", table["duration"].cast(pa.int64()))
        pq.write_table(table, root / "parquet" / place / "0.parquet")
    return root


@pytest.fixture(scope="module")
def ours(spark: SparkSession, directory: Path) -> DataFrame:
    return read(spark, directory / "mosaic")


@pytest.fixture(scope="module")
def chosen(spark: SparkSession, directory: Path) -> dict[str, set[int]]:
    """The rows that Spark keeps, by condition: it computes them for every row of Parquet."""
    conditions = [*DROPS, *OTHERS]
    df = spark.read.parquet(str(directory / "parquet")).selectExpr(
        "id", *(f"({one}) as c{i}" for i, one in enumerate(conditions))
    )
    answers = df.collect()
    assert len(answers) == NUM_ROWS
    return {one: {row.id for row in answers if row[f"c{i}"]} for i, one in enumerate(conditions)}


def planned_for(df: DataFrame, condition: str, monkeypatch: pytest.MonkeyPatch) -> PlannedScan:
    """The scan that Spark plans for a condition."""
    made: list[PlannedScan] = []
    plan = ScanPlanner.plan

    def noting(*arguments: Any) -> PlannedScan:
        made.append(plan(*arguments))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(ScanPlanner, "plan", noting)
        df.filter(condition).select("id", "list")._jdf.queryExecution().executedPlan()
    (planned,) = made
    return planned


def crossing(planned: PlannedScan) -> list[pa.RecordBatch]:
    """The batches that tasks of a scan send to the JVM."""
    splits = pa.record_batch({"split": [pickle.dumps(one) for one in planned.splits]})
    reader = pickle.loads(pickle.dumps(planned.reader()))
    return list(reader([splits]))


@pytest.mark.parametrize("condition", [*DROPS, *OTHERS])
def test_tasks_keep_every_row_that_spark_keeps(
    condition: str,
    ours: DataFrame,
    chosen: dict[str, set[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = planned_for(ours, condition, monkeypatch)
    batches = crossing(planned)
    assert all(batch.schema.equals(planned.schema) for batch in batches)
    kept = {number for batch in batches for number in batch["id"].to_pylist()}
    assert kept >= chosen[condition]
    if condition in DROPS:
        assert 0 < len(chosen[condition]) <= len(kept) < NUM_ROWS


def test_spark_returns_the_rows_that_it_keeps(ours: DataFrame, chosen: dict[str, set[int]]) -> None:
    for condition in ("double > -0.0D", "struct.x > 10", "text not like '%b'", "unsigned > 3"):
        found = ours.filter(condition).select("id").collect()
        assert {row.id for row in found} == chosen[condition]


def test_scans_with_different_filters_are_not_reused(ours: DataFrame) -> None:
    """Spark runs equal scans once; the lists differ where their text is shortened."""
    lists = [[*range(10), last, *range(13, 20)] for last in (11, 12)]
    sums = [
        ours.filter(f"long in ({', '.join(map(str, one))})").groupBy("flag").count()
        for one in lists
    ]
    counted = [{row["flag"]: row["count"] for row in one.collect()} for one in sums]
    both = sums[0].union(sums[1]).collect()
    assert sorted((str(row["flag"]), row["count"]) for row in both) == sorted(
        (str(flag), count) for one in counted for flag, count in one.items()
    )
    assert counted[0] != counted[1]


@pytest.mark.since("4.1")
def test_filters_of_the_data_source_drop_rows_too(tmp_path: Path) -> None:
    table = pa.table(
        {"x": range(100), "y": [1.0, NAN] * 50, "h": pa.array([0.1] * 100, pa.float16())}
    )
    fm.write_table(table, tmp_path / "a.mosaic", write_statistics=False)
    files = FileSet(tmp_path / "a.mosaic")
    options = LoadOptions(columns=["x"])
    for pushed, expected in (
        ([datasource.LessThan(("x",), 7)], range(7)),
        ([datasource.GreaterThan(("y",), 2.0)], range(1, 100, 2)),  # NaN is greater
        ([datasource.LessThan(("h",), 0.1)], range(100)),  # 0.1 is less if it has fewer digits
        ([datasource.StringContains(("x",), "7")], range(100)),
    ):
        reader, splits = plan_load(files, options, pushed)
        batches = [batch for split in splits for batch in reader.read(split)]
        assert [n for batch in batches for n in batch["x"].to_pylist()] == [*expected]


def test_the_text_of_predicates() -> None:
    assert str(Pair("<", ("a",), ("b", "c"))) == "a < b.c"
    assert str(Leaf("ENDS_WITH", ("a",), ("x",))) == "a ENDS WITH 'x'"
    assert str(Neither(Leaf("CONTAINS", ("a",), ("x",)))) == "NOT a CONTAINS 'x'"


def test_statistics_do_not_use_what_only_rows_tell() -> None:
    schema = pa.schema([("x", pa.float64()), ("y", pa.float64()), ("s", pa.string())])
    for one in (
        Leaf(">", ("x",), (1.0,)),
        Neither(Leaf("<", ("x",), (1.0,))),
        Leaf("CONTAINS", ("s",), ("a",)),
        Neither(Leaf("STARTS_WITH", ("s",), ("a",))),
        Pair("<", ("x",), ("y",)),
    ):
        assert to_expression([one], schema.field) == (None, ())
        expression, needed = to_row_filter([one], schema.field)
        assert expression is not None
        assert needed


def test_columns_of_different_types_are_not_compared() -> None:
    schema = pa.schema([("x", pa.int64()), ("y", pa.int32())])
    assert to_row_filter([Pair("<", ("x",), ("y",))], schema.field) == (None, ())
    assert to_row_filter([Neither(Pair("=", ("x",), ("x",)))], schema.field) == (None, ())
