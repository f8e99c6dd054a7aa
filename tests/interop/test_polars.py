"""scan_polars: Polars gets what it would get from the table, and reads no more than it needs."""

import datetime
import decimal
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

import fastmosaic as fm
from fastmosaic.interop.polars import _pruning

ENGINES = ["in-memory", "streaming"]
CLOSED = ["both", "left", "right", "none"]
c = pl.col


def written(directory: Path, table: pa.Table, name: str = "a.mosaic", **options) -> Path:
    path = directory / name
    fm.write_table(table, path, **{"write_statistics": True, **options})
    return path


def damage(path: Path, *, row_groups=None, columns=None) -> None:
    """Break row groups, or of all row groups the columns, so that reading them is an error."""
    data = bytearray(path.read_bytes())
    metadata = fm.read_metadata(path)
    for i in range(metadata.num_row_groups) if row_groups is None else row_groups:
        for bucket in metadata.row_group(i).buckets:
            if columns is None or set(bucket.columns) <= set(columns):
                end = bucket.offset + bucket.compressed_size
                data[bucket.offset : end] = b"\xff" * bucket.compressed_size
    path.write_bytes(data)


@pytest.fixture(params=ENGINES)
def collect(request):
    return lambda frame: frame.collect(engine=request.param)


@pytest.fixture(params=[True, False], ids=["statistics", "nothing is known"])
def statistics(request):
    """Whether files have statistics. Without them, filters are left to Polars."""
    return request.param


# --- results: the same as those of the table in memory

UTC = datetime.UTC
VALUES = {
    pa.bool_(): [False, True],
    pa.int8(): [-128, -1, 0, 1, 127],
    pa.int32(): [-(2**31), -1, 0, 1, 2**24 + 1, 2**31 - 1],
    pa.int64(): [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**63 - 1],
    pa.float32(): [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.0, 2.0**24, math.inf, math.nan],
    pa.float64(): [-math.inf, -1.5, -0.0, 0.0, 0.1, 5e-324, 2.0**53, math.inf, math.nan],
    pa.string(): ["", "\0", "Z", "a", "ab", "b", "ß", "z" * 40],
    pa.binary(): [b"", b"\0", b"a", b"ab", b"\xff", b"\xff" * 40],
    pa.date32(): [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)],
    pa.time32("ms"): [datetime.time(0), datetime.time(1, 2, 3, 4000), datetime.time(23, 59, 59)],
    pa.timestamp("ms"): [datetime.datetime(1969, 12, 31, 23), datetime.datetime(2024, 2, 29, 1)],
    pa.timestamp("us", "UTC"): [
        datetime.datetime(1969, 12, 31, 23, tzinfo=UTC),
        datetime.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
    ],
    pa.decimal128(9, 2): [decimal.Decimal(x) for x in ("-9999999.99", "0", "0.10", "1", "7.5")],
    pa.decimal128(38, 2): [decimal.Decimal(x) for x in ("-1e30", "0.01", "1", "9" * 36)],
    pa.uint8(): [0, 1, 128, 255],
    pa.uint64(): [0, 1, 2**53 + 1, 2**63, 2**64 - 1],
    pa.float16(): [-math.inf, -1.5, -0.0, 0.0, 1.0, 65504.0, math.inf, math.nan],
    pa.time64("us"): [datetime.time(0), datetime.time(1, 2, 3, 4), datetime.time(23, 59, 59)],
    pa.duration("ms"): [datetime.timedelta(days) for days in (-300, 0, 1, 20)],
    pa.duration("ns"): [datetime.timedelta(0, -1), datetime.timedelta(0), datetime.timedelta(1, 1)],
    pa.dictionary(pa.int32(), pa.string()): ["", "Z", "a", "b", "ß"],
}
NUMBERS = [
    -(2**63) - 1,
    -129,
    -1,
    0,
    1,
    128,
    2**53 + 1,
    2**63,
    2**70,
    -1.5,
    0.1,
    1.0,
    1e300,
    math.inf,
    math.nan,
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    num_rows = draw(st.integers(0, 12))
    columns = {}
    for i, kind in enumerate(kinds):
        value = st.one_of(st.sampled_from(VALUES[kind]), st.none())
        values = draw(st.lists(value, min_size=num_rows, max_size=num_rows))
        column = pa.array(values, kind)
        if draw(st.booleans()):
            missing = draw(st.lists(st.booleans(), min_size=num_rows, max_size=num_rows))
            column = in_struct(column, missing)
        columns[f"column {i}"] = column
    return pa.table(columns)


def in_struct(column: pa.Array, missing: list[bool]) -> pa.Array:
    """Return a column as the field of structs, of which some are missing."""
    mask = pa.array(missing, pa.bool_())
    return pa.StructArray.from_arrays([column], ["field"], mask=mask)


def conditions(table: pa.Table) -> st.SearchStrategy[pl.Expr]:
    """Predicates over one column, and their opposites."""

    @st.composite
    def of_one(draw: st.DrawFn) -> pl.Expr:
        name = draw(st.sampled_from(table.column_names))
        kind, column = table[name].type, c(name)
        if pa.types.is_struct(kind):
            if draw(st.booleans()):
                return column.is_null() if draw(st.booleans()) else column.is_not_null()
            kind, column = kind.field(0).type, column.struct.field("field")
        values = st.sampled_from(VALUES[kind])

        def literal(value: object = None) -> pl.Expr:
            value = draw(values) if value is None else value
            return pl.lit(value, pl.Schema(pa.schema([("", kind)]))[""])

        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if is_number and draw(st.booleans()):
            other = pl.lit(draw(st.sampled_from(NUMBERS)))
        else:
            other = literal()
        match draw(st.sampled_from(["<>", "null", "in", "between", "same", "alone", "unknown"])):
            case "<>":
                name = draw(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]))
                left, right = (column, other) if draw(st.booleans()) else (other, column)
                return getattr(left, name)(right)
            case "null":
                return column.is_null() if draw(st.booleans()) else column.is_not_null()
            case "in":
                some = draw(st.lists(st.one_of(values, st.none()), max_size=3))
                series = pl.Series("", pa.array(some, kind))
                return column.is_in(series.implode(), nulls_equal=draw(st.booleans()))
            case "between":
                closed = draw(st.sampled_from(CLOSED))
                return column.is_between(literal(), other, closed=closed)
            case "same":
                other = pl.lit(None) if draw(st.booleans()) else literal()
                return column.eq_missing(other) if draw(st.booleans()) else column.ne_missing(other)
            case "alone":
                return column if pa.types.is_boolean(kind) else column.is_null()
            case _:
                return column.is_null().cast(pl.Int8) == draw(st.integers(0, 1))

    return st.recursive(
        of_one(),
        lambda inner: st.one_of(
            inner.map(lambda one: ~one),
            st.builds(lambda one, other: one & other, inner, inner),
            st.builds(lambda one, other: one | other, inner, inner),
            st.builds(lambda one, other: one ^ other, inner, inner),
        ),
        max_leaves=5,
    )


@given(st.data())
def test_filters_keep_the_rows_that_polars_keeps(data):
    table = data.draw(tables())
    predicate = data.draw(conditions(table))
    expected = pl.DataFrame(table).filter(predicate)
    with tempfile.TemporaryDirectory() as directory:
        path = written(Path(directory), table, row_group_size=data.draw(st.integers(1, 4)))
        actual = fm.scan_polars(path).filter(predicate).collect()
    assert_frame_equal(actual, expected, check_exact=True)


DTYPES = {
    pl.Enum(["z", "b", "", "a"]): ["z", "b", "", "a"],
    pl.Categorical(): ["z", "b", "", "a"],
    pl.Categorical(pl.Categories("kinds", physical=pl.UInt8)): ["z", "a"],
}


IN_STRUCTS = [pa.bool_(), pa.float32(), pa.string(), pa.uint64(), pa.duration("ms"), *DTYPES]


@pytest.mark.parametrize(
    ("within", "kind"),
    [
        *(("a column", kind) for kind in (*VALUES, *DTYPES)),
        *(("a struct", kind) for kind in IN_STRUCTS),
        ("a struct in a struct", pa.int64()),
    ],
    ids=str,
)
def test_each_value_against_each_other(tmp_path, within, kind):
    values = (VALUES | DTYPES)[kind]
    if kind in DTYPES:
        table = pl.DataFrame({"a": pl.Series([None, *values], dtype=kind)}).to_arrow()
        others = [pl.lit(value) for value in values]
    else:
        table = pa.table({"a": pa.array([None, *values], kind)})
        others = []
    dtype = pl.DataFrame(table).schema["a"]
    others += [pl.lit(value, dtype) for value in values]
    if pa.types.is_integer(table.schema.types[0]) or pa.types.is_floating(table.schema.types[0]):
        others += map(pl.lit, NUMBERS)
    rows, a = pl.DataFrame(table), c("a")
    if within != "a column":
        rows, a = rows.select(pl.when(a.is_not_null()).then(pl.struct("a"))), a.struct.field("a")
    if within == "a struct in a struct":
        rows, a = rows.select(s=pl.struct("a", b=1)), c("s").struct.field("a").struct.field("a")
    frame = fm.scan_polars(written(tmp_path, rows, row_group_size=1))
    predicates = [a.is_null(), a.is_not_null()]
    for other in others:
        names = ("eq", "ne", "lt", "le", "gt", "ge", "eq_missing", "ne_missing")
        predicates += [getattr(a, name)(other) for name in names]
        predicates += [a.is_between(others[0], other, closed=how) for how in CLOSED]
    for value in values:
        for some in ([value], [value, None]):
            series = pl.Series("", some, dtype).implode()
            predicates += [a.is_in(series, nulls_equal=equal) for equal in (False, True)]
    for predicate in predicates + [~one for one in predicates]:
        actual = frame.filter(predicate).collect()
        assert_frame_equal(actual, rows.filter(predicate), check_exact=True)


ROWS = pa.table(
    {
        "id": range(12),
        "x": [0.5, None, math.nan, 3.5] * 3,
        "name": [None if i % 5 == 4 else f"n{i:02}" for i in range(12)],
    }
)

QUERIES = {
    "everything": lambda frame: frame,
    "columns": lambda frame: frame.select("name", "id"),
    "head": lambda frame: frame.head(5),
    "head of nothing": lambda frame: frame.head(0),
    "head beyond the end": lambda frame: frame.head(100),
    "limit": lambda frame: frame.limit(4).select("name"),
    "slice": lambda frame: frame.slice(3, 4),
    "slice from the end": lambda frame: frame.slice(-5, 2),
    "tail": lambda frame: frame.tail(5),
    "head, filter": lambda frame: frame.head(5).filter(c("id") > 2),
    "filter, head": lambda frame: frame.filter(c("id") > 2).head(5),
    "filter, slice": lambda frame: frame.filter(c("id") > 2).slice(2, 3),
    "filter, tail": lambda frame: frame.filter(c("id") > 2).tail(2),
    "head, filter, head": lambda frame: frame.head(9).filter(c("id") > 2).head(3).select("name"),
    "two filters": lambda frame: frame.filter(c("id") > 2).filter(c("name").is_null()).select("x"),
    "filter by a mean": lambda frame: frame.filter(c("x") > c("x").mean()),
    "row index": lambda frame: frame.with_row_index().filter(c("index") > 3),
    "count": lambda frame: frame.select(pl.len()),
    "filter, count": lambda frame: frame.filter(c("id") > 2).select(pl.len()),
    "head, count": lambda frame: frame.head(5).select(pl.len()),
    "literal": lambda frame: frame.select(pl.lit(1)),
    "aggregates": lambda frame: frame.select(c("id").sum(), c("name").n_unique()),
    "sort": lambda frame: frame.sort("id", descending=True).head(2),
    "group": lambda frame: frame.group_by(c("id") % 3).agg(c("x").count()).sort("id"),
    "join": lambda frame: frame.join(frame.filter(c("id") < 4), on="id").sort("id"),
    "concat": lambda frame: pl.concat([frame.head(2), frame.tail(2)]),
    "sql": lambda frame: frame.sql("select name from self where id between 3 and 5 or x is null"),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_queries_give_what_they_give_on_the_table(tmp_path, collect, statistics, query):
    path = written(tmp_path, ROWS, row_group_size=3, write_statistics=statistics)
    expected = query(pl.DataFrame(ROWS).lazy()).collect()
    assert_frame_equal(collect(query(fm.scan_polars(path))), expected)


def test_a_large_head_comes_in_batches(tmp_path, collect):
    table = pa.table({"id": range(250_000)})
    path = written(tmp_path, table, row_group_size=10_000)
    head = fm.scan_polars(path).head(123_456)
    assert collect(head)["id"].to_list() == list(range(123_456))
    # Rows are counted before they are filtered.
    assert collect(head.filter(c("id") > 120_000))["id"].to_list() == list(range(120_001, 123_456))


@pytest.mark.parametrize("use_threads", [True, False])
def test_a_query_can_be_repeated(tmp_path, collect, use_threads):
    frame = fm.scan_polars(written(tmp_path, ROWS), use_threads=use_threads)
    assert_frame_equal(collect(frame), collect(frame))


def test_a_table_without_columns_keeps_its_rows(tmp_path, collect):
    path = written(tmp_path, ROWS.select([]), write_statistics=False)
    assert collect(fm.scan_polars(path)).shape == (12, 0)
    assert collect(fm.scan_polars(path).head(5)).shape == (5, 0)
    assert collect(fm.scan_polars(path).select(pl.len())).item() == 12


def test_rows_can_be_written_elsewhere(tmp_path):
    path = written(tmp_path, ROWS, row_group_size=3)
    fm.scan_polars(path).filter(c("id") >= 6).sink_parquet(tmp_path / "a.parquet")
    expected = pl.DataFrame(ROWS).filter(c("id") >= 6)
    assert_frame_equal(pl.read_parquet(tmp_path / "a.parquet"), expected)


# --- types

NESTED = {
    "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "map": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
}


def test_types_are_those_that_polars_makes_of_arrow(tmp_path, collect):
    flat = {str(kind): pa.array([*values[:2], None], kind) for kind, values in VALUES.items()}
    for unit in ("us", "ns"):
        moments = pa.array([-1, 0, None], pa.timestamp(unit))
        flat[unit] = moments
        flat[f"{unit}, Berlin"] = moments.cast(pa.timestamp(unit, "Europe/Berlin"))
    table = pa.table(flat | NESTED)
    expected = pl.from_arrow(table)
    frame = fm.scan_polars(written(tmp_path, table, write_statistics=False))
    assert frame.collect_schema() == expected.schema
    assert_frame_equal(collect(frame), expected, check_exact=True)


DAY = datetime.timedelta(1)
SERIES = [
    pl.Series(["b", None, "a"], dtype=pl.Enum(["c", "b", "a"])),
    pl.Series(["b", None, "a"], dtype=pl.Categorical),
    pl.Series(["b", None, "a"], dtype=pl.Categorical(pl.Categories("kinds", physical=pl.UInt8))),
    pl.Series([[1, 2], None, [3, None]], dtype=pl.Array(pl.Int32, 2)),
    pl.Series([[[1, 2], [3, 4]], None, [None, [5, 6]]], dtype=pl.Array(pl.UInt8, (2, 2))),
    pl.Series(
        [[{"a": 1}, {"a": 2}], None, [None, {"a": 3}]],
        dtype=pl.Array(pl.Struct({"a": pl.Int64}), 2),
    ),
    pl.Series([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    pl.Series([{"a": {"b": [1, None]}}, None, {"a": None}]),
    pl.Series([{"a": "x"}, None, {"a": None}], dtype=pl.Struct({"a": pl.Enum(["y", "x"])})),
    pl.Series([[{"a": 1}, None], None, []]),
    pl.Series([["a", "b"], None, []], dtype=pl.List(pl.Categorical)),
    pl.Series([["a", "b"], None, []], dtype=pl.List(pl.Enum(["b", "a"]))),
    pl.Series([[DAY], None, []]),
    pl.Series([datetime.time(1, 2, 3, 4), None, datetime.time(5)]),
    pl.Series([None, None, None]),
    pl.Series([[None], None, []], dtype=pl.List(pl.Null)),
    pl.Series([0, None, 2**64 - 1], dtype=pl.UInt64),
    pl.Series([0, None, 255], dtype=pl.UInt8),
    pl.Series([0.1, None, math.inf], dtype=pl.Float16),
    *(pl.Series([-DAY, None, DAY], dtype=pl.Duration(unit)) for unit in ("ms", "us", "ns")),
]


@pytest.mark.parametrize("series", SERIES, ids=lambda series: str(series.dtype))
def test_frames_come_back(tmp_path, collect, series):
    frame = pl.DataFrame({"x": series, "y": [1, 2, 3]})
    path = tmp_path / "a.mosaic"
    fm.write_table(frame, path, row_group_size=2)
    scan = fm.scan_polars(path)
    assert scan.collect_schema() == frame.schema
    assert_frame_equal(collect(scan), frame)
    assert_frame_equal(collect(scan.select("x").tail(1)), frame.select("x").tail(1))
    assert_frame_equal(pl.from_arrow(fm.read_table(path)), frame)
    fm.write_table(scan.collect(), tmp_path / "b.mosaic", row_group_size=2)
    assert (tmp_path / "b.mosaic").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128])
def test_a_type_that_arrow_lacks_is_an_error(tmp_path, dtype):
    frame = pl.DataFrame({"x": pl.Series([1], dtype=dtype)})
    with pytest.raises(fm.UnsupportedError, match=r"the DataFrame has a column.*cast it first"):
        fm.write_table(frame, tmp_path / "a.mosaic")
    fm.write_table(frame.cast(pl.Decimal(38, 0)), tmp_path / "a.mosaic")
    assert fm.scan_polars(tmp_path / "a.mosaic").collect().item() == 1


@pytest.mark.parametrize(
    ("one", "other", "dtype"),
    [
        (pl.Enum(["b", "a"]), pl.Enum(["b", "a"]), pl.Enum(["b", "a"])),
        (pl.Enum(["b", "a"]), pl.Enum(["c", "a"]), pl.String),
        (pl.Categorical, pl.Categorical, pl.Categorical),
        (pl.Categorical, pl.String, pl.String),
        (pl.UInt64, pl.UInt64, pl.UInt64),
        (pl.Duration("ms"), pl.Duration("us"), pl.Duration("us")),
        (pl.Struct({"a": pl.UInt8}), pl.Struct({"a": pl.UInt8}), pl.Struct({"a": pl.UInt8})),
        (
            pl.Struct({"a": pl.Int8}),
            pl.Struct({"a": pl.Int16, "b": pl.String}),
            pl.Struct({"a": pl.Int16, "b": pl.String}),
        ),
    ],
)
def test_files_of_different_dtypes(tmp_path, collect, one, other, dtype):
    values = {pl.UInt64: 7, pl.Duration: DAY, pl.Struct: {"a": 1}}
    value = values.get(dtype.base_type(), "a")
    for name, each in (("a", one), ("b", other)):
        fm.write_table(pl.DataFrame({"x": pl.Series([value, None], dtype=each)}), tmp_path / name)
    scan = fm.scan_polars(tmp_path)
    assert scan.collect_schema()["x"] == dtype
    expected = pl.Series([value, None, value, None], dtype=dtype)
    assert_frame_equal(collect(scan), pl.DataFrame({"x": expected}))
    assert_frame_equal(
        collect(scan.filter(c("x").is_null())), pl.DataFrame({"x": expected[[1, 3]]})
    )


@pytest.mark.parametrize("kind", [pa.timestamp("us", "+05:30"), pa.decimal128(5, -2)], ids=str)
def test_a_type_that_polars_lacks_is_an_error_that_names_the_column(tmp_path, kind):
    path = written(tmp_path, pa.table({"a": [1], "odd": pa.nulls(1, kind)}))
    with pytest.raises(
        fm.UnsupportedError, match=r"column 'odd': Polars has no type for (timestamp|decimal)"
    ):
        fm.scan_polars(path)


# --- what is read

ORDERED = pa.table(
    {
        "int8": pa.array(range(9), pa.int8()),
        "int64": range(100, 109),
        "float32": pa.array([i + 0.5 for i in range(9)], pa.float32()),
        "float64": [i + 0.5 for i in range(9)],
        "string": [f"{i}" for i in range(9)],
        "binary": [f"{i}".encode() for i in range(9)],
        "bool": [False] * 3 + [True] * 3 + [False] * 3,
        "null": pa.array([1] * 3 + [None] * 3 + [1] * 3, pa.int32()),
        "date": [datetime.date(2024, 1, 1 + i) for i in range(9)],
        "time": pa.array([datetime.time(i) for i in range(9)], pa.time32("ms")),
        "naive": [datetime.datetime(2024, 1, 1 + i) for i in range(9)],
        "aware": pa.array(
            [datetime.datetime(2024, 1, 1 + i, tzinfo=UTC) for i in range(9)],
            pa.timestamp("us", "UTC"),
        ),
        "decimal": pa.array([decimal.Decimal(i) / 2 for i in range(9)], pa.decimal128(9, 2)),
    }
)
MIDDLE = {
    "two comparisons": (c("int64") > 102) & (c("int64") < 106),
    "literals on the left": (pl.lit(102) < c("int64")) & (pl.lit(105) >= c("int64")),
    "equal": c("int64") == 104,
    "the same": c("int64").eq_missing(104),
    "not unequal": ~(c("int64") != 104),
    "not outside": ~((c("int64") < 103) | (c("int64") >= 106)),
    "or": (c("int64") == 104) | (c("string") == "5"),
    "between": c("int64").is_between(103, 105),
    "between, open": c("int64").is_between(102, 106, closed="none"),
    "in": c("int64").is_in([104, 105, None]),
    "in, few bits": c("int8").is_in([4, 5]),
    "in strings": c("string").is_in(["3", "5"]),
    "few bits": (c("int8") >= 3) & (c("int8") <= 5),
    "float": c("float64") == 4.5,
    "float, few bits": c("float32") == 3.5,
    "float, an integer": (c("float64") <= 6) & (c("int64") >= 103),
    "string": (c("string") >= "3") & (c("string") < "6"),
    "bool": c("bool"),
    "bool, equal": c("bool").eq(True),
    "not bool": ~~c("bool"),
    "null": c("null").is_null(),
    "the same null": c("null").eq_missing(None),
    "not valid": ~c("null").is_not_null(),
    "date": c("date") == datetime.date(2024, 1, 5),
    "time": c("time") == datetime.time(4),
    "naive": c("naive") == datetime.datetime(2024, 1, 5),
    "aware": c("aware") == datetime.datetime(2024, 1, 5, tzinfo=UTC),
    "decimal": c("decimal") == decimal.Decimal(2),
    "decimal, another scale": c("decimal") == decimal.Decimal("2.0000"),
    "and something unknown": (c("int64") == 104) & (c("string").str.len_chars() == 1),
}


LETTERS = list("xzybacnmo")
KINDS = pl.DataFrame(
    {
        "uint64": pl.Series([2**64 - 10 + i for i in range(9)], dtype=pl.UInt64),
        "uint8": pl.Series(range(200, 209), dtype=pl.UInt8),
        "float16": pl.Series(range(9), dtype=pl.Float16),
        "duration": [DAY * i for i in range(9)],
        "time": [datetime.time(0, 0, 0, i) for i in range(9)],
        "enum": pl.Series(LETTERS, dtype=pl.Enum(LETTERS)),
        "category": pl.Series(sorted(LETTERS), dtype=pl.Categorical),
        "info": [{"x": i, "flag": 2 < i < 6, "more": {"y": f"{i}"}} for i in range(9)],
        "some": [None] * 3 + [{"x": 1}] * 3 + [{"x": None}] * 3,
    }
).with_columns(c("info").struct.with_fields(kind=pl.Series(LETTERS, dtype=pl.Enum(LETTERS))))
INFO = c("info").struct
MIDDLE_OF_KINDS = {
    "uint64": (c("uint64") > 2**64 - 8) & (c("uint64") <= 2**64 - 5),
    "uint64 in": c("uint64").is_in([2**64 - 6]),
    "uint8": c("uint8").is_between(203, 205),
    "float16": c("float16") == 4,
    "duration": (c("duration") >= DAY * 3) & (c("duration") < DAY * 6),
    "duration, finer": c("duration") == pl.lit(DAY * 4, pl.Duration("ns")),
    "time of microseconds": c("time") == datetime.time(0, 0, 0, 5),
    "enum": c("enum") == "a",
    "enum in": c("enum").is_in(["b", "c"]),
    "enum, by position": (c("enum") > "y") & (c("enum") < "n"),
    "enum, not by position": ~(c("enum") <= "y") & ~(c("enum") >= "n"),
    "category": c("category") == "n",
    "category, a range": (c("category") > "c") & (c("category") < "x"),
    "field": (INFO.field("x") > 2) & (INFO.field("x") < 6),
    "flag": INFO.field("flag"),
    "field that is not null": c("some").struct.field("x").is_not_null(),
    "field of a field": INFO.field("more").struct.field("y") == "4",
    "enum in a struct": INFO.field("kind").is_between(pl.lit("b"), pl.lit("a")),
}


@pytest.mark.parametrize(
    ("rows", "predicate"),
    [
        *((ORDERED, predicate) for predicate in MIDDLE.values()),
        *((KINDS, predicate) for predicate in MIDDLE_OF_KINDS.values()),
    ],
    ids=[*MIDDLE, *MIDDLE_OF_KINDS],
)
def test_row_groups_that_cannot_match_are_not_read(tmp_path, rows, predicate):
    path = written(tmp_path, rows, row_group_size=3)
    expected = pl.DataFrame(rows).filter(predicate)
    assert 0 < len(expected) <= 3
    damage(path, row_groups=[0, 2])
    assert_frame_equal(fm.scan_polars(path).filter(predicate).collect(), expected)


@pytest.mark.parametrize("compare", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_the_opposite_of_a_comparison(compare):
    # Polars resolves a negation itself before it asks, as far as it can.
    table = pa.table({"a": ["a", "b", "c", None]})
    predicate = ~getattr(c("a"), compare)("b")
    expression = _pruning(predicate, table.schema, pl.Schema(table.schema))
    kept = table.filter(expression)["a"].to_pylist()
    assert kept == pl.DataFrame(table).filter(predicate)["a"].to_list()


UNKNOWN = {
    "or": (c("int64") == 104) | (c("string").str.len_chars() == 1),
    "not and": ~((c("int64") != 104) & (c("string").str.len_chars() == 2)),
    "alone": c("int64").is_null().cast(pl.Int8) == 0,
    # NaN is above all numbers, and statistics do not tell of it.
    "NaN": c("float64") > 100,
}


@pytest.mark.parametrize("predicate", UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_unknown_excludes_nothing(tmp_path, predicate):
    path = written(tmp_path, ORDERED, row_group_size=3)
    damage(path, row_groups=[2])
    with pytest.raises(fm.CorruptFileError, match="row group 2"):
        fm.scan_polars(path).filter(predicate).collect()


NARROW = {
    "one": lambda frame: frame.select("int64"),
    "two, computed": lambda frame: frame.select(c("int64") * 2, c("date").alias("day")).filter(
        c("day") > c.day
    ),
    "with a filter": lambda frame: frame.filter(c("date") > datetime.date(2024, 1, 4)).select(
        "int64"
    ),
    "with a limit": lambda frame: frame.head(3).select("date"),
}


@pytest.mark.parametrize("query", NARROW.values(), ids=NARROW)
def test_other_columns_are_not_read(tmp_path, collect, statistics, query):
    path = written(
        tmp_path,
        ORDERED,
        row_group_size=3,
        num_buckets=ORDERED.num_columns,
        write_statistics=statistics,
    )
    damage(path, columns=set(ORDERED.column_names) - {"int64", "date"})
    expected = query(pl.DataFrame(ORDERED).lazy()).collect()
    assert_frame_equal(collect(query(fm.scan_polars(path))), expected)


LIMITED = {
    "rows": lambda frame: frame.head(3),
    "a column": lambda frame: frame.head(1).select("date"),
    "with a filter": lambda frame: frame.head(3).filter(c("int64") > 100),
    "count": lambda frame: frame.head(3).select(pl.len()),
}


@pytest.mark.parametrize("query", LIMITED.values(), ids=LIMITED)
def test_rows_behind_the_limit_are_not_read(tmp_path, collect, statistics, query):
    path = written(tmp_path, ORDERED, row_group_size=3, write_statistics=statistics)
    damage(path, row_groups=[1, 2])
    expected = query(pl.DataFrame(ORDERED).lazy()).collect()
    assert_frame_equal(collect(query(fm.scan_polars(path))), expected)


def test_a_filter_that_can_skip_nothing_is_not_converted(tmp_path, monkeypatch):
    converted = []

    def pruning(predicate, *rest):
        converted.append(predicate.meta.root_names())
        return _pruning(predicate, *rest)

    monkeypatch.setattr("fastmosaic.interop.polars._pruning", pruning)
    expected = pl.DataFrame(ROWS).filter(c("id") > 4)
    path = written(tmp_path, ROWS, write_statistics=False)
    assert_frame_equal(fm.scan_polars(path).filter(c("id") > 4).collect(), expected)
    assert converted == []
    written(tmp_path, ROWS, write_statistics=["name"])
    assert_frame_equal(fm.scan_polars(path).filter(c("id") > 4).collect(), expected)
    assert converted == [["id"]]
    # Where there are two schemas, a file may lack a column.
    written(tmp_path, ROWS, write_statistics=False)
    written(tmp_path, ROWS.drop(["x"]), "b.mosaic", write_statistics=False)
    found = fm.scan_polars(tmp_path).filter(c("x") < 3).collect()
    assert found["id"].to_list() == [0, 4, 8]
    assert converted == [["id"], ["x"]]


def test_frames_have_at_most_as_many_rows_as_polars_asks_for(tmp_path, monkeypatch):
    sources = []
    monkeypatch.setattr(
        "polars.io.plugins.register_io_source", lambda source, **_: sources.append(source)
    )
    fm.scan_polars(written(tmp_path, ORDERED, row_group_size=3))
    for num_rows in (9, 7):
        sizes = [len(frame) for frame in sources[0](["date"], None, num_rows, 2)]
        assert max(sizes) == 2
        assert sum(sizes) == num_rows
    found = pl.concat(sources[0](["int64"], c("int64") >= 104, 7, 2))
    assert found["int64"].to_list() == [104, 105, 106]
    # Polars also asks for the columns of the predicate, but does not promise to.
    frame = pl.concat(sources[0](["date"], c("int64") > 106, None, None))
    assert frame.columns == ["date"]
    assert len(frame) == 2


def test_a_long_filter_is_still_a_filter(tmp_path):
    path = written(tmp_path, ORDERED, row_group_size=3)
    predicate = c("int64") == 100
    for i in range(600):
        predicate = predicate | (c("int64") == 1000 + i)
    assert fm.scan_polars(path).filter(predicate).collect()["int64"].to_list() == [100]


# --- many files


def test_files_and_partitions(tmp_path, collect):
    for year in (2023, 2024):
        directory = tmp_path / f"year={year}"
        directory.mkdir()
        written(directory, pa.table({"id": pa.array([year], pa.int32())}), "a.mosaic")
        written(directory, pa.table({"id": [year * 10], "name": ["b"]}), "b.mosaic")
    damage(tmp_path / "year=2023" / "a.mosaic")
    frame = fm.scan_polars(tmp_path).filter(c("year") == 2024)
    assert collect(frame).to_dict(as_series=False) == {
        "id": [2024, 20240],
        "name": [None, "b"],
        "year": [2024, 2024],
    }
    assert collect(frame.select("year"))["year"].to_list() == [2024, 2024]


def test_files_behind_the_limit_are_not_read(tmp_path, collect):
    for name in ("a.mosaic", "b.mosaic"):
        written(tmp_path, ROWS, name)
    damage(tmp_path / "b.mosaic")
    assert collect(fm.scan_polars(tmp_path).head(12))["id"].to_list() == list(range(12))


def test_a_schema_decides(tmp_path, collect):
    written(tmp_path, ROWS)
    schema = pa.schema([("id", pa.int64()), ("other", pa.string())])
    frame = collect(fm.scan_polars(tmp_path, schema=schema).head(2))
    assert frame.to_dict(as_series=False) == {"id": [0, 1], "other": [None, None]}


# --- errors


def test_a_missing_file_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.mosaic"):
        fm.scan_polars(tmp_path / "absent.mosaic")


def test_a_missing_column_is_an_error_of_polars(tmp_path, collect):
    frame = fm.scan_polars(written(tmp_path, ROWS))
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="nowhere"):
        collect(frame.select("nowhere"))
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="nowhere"):
        collect(frame.filter(c("nowhere") > 1))


def test_a_damaged_file_is_an_error_that_names_it(tmp_path, collect):
    path = written(tmp_path, ROWS, row_group_size=3)
    damage(path, row_groups=[2])
    with pytest.raises(fm.CorruptFileError, match=r"a\.mosaic.*row group 2"):
        collect(fm.scan_polars(path))


def test_polars_is_optional():
    code = (
        "import sys, fastmosaic\n"
        "assert 'polars' not in sys.modules\n"
        "sys.modules['polars'] = None\n"
        "try:\n"
        "    fastmosaic.scan_polars('a.mosaic')\n"
        "except ImportError as error:\n"
        "    assert 'fastmosaic[polars]' in str(error)\n"
        "else:\n"
        "    sys.exit(1)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
