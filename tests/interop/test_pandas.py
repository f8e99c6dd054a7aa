"""Frames of pandas come back as they were, with their index."""

import datetime
import decimal
import io
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from pandas.testing import assert_frame_equal

import fastmosaic as fm


def written(df, **options):
    sink = io.BytesIO()
    fm.write_pandas(df, sink, **options)
    return sink.getvalue()


def assert_same(actual, expected):
    # A frequency is no part of what Arrow keeps of an index.
    assert_frame_equal(
        actual, expected, check_freq=False, check_column_type=len(expected.columns) > 0
    )
    assert type(actual.index) is type(expected.index)


ABC = ["a", "b", "c"]
FLOATS = ("float16", "float32", "float64")
UNITS = ("s", "ms", "us", "ns")
FRAMES = {
    "no index": pd.DataFrame({"x": [1, 2, 3], "y": ABC}),
    "range": pd.DataFrame({"x": [1, 2, 3]}, index=pd.RangeIndex(10, 16, 2)),
    "range going down": pd.DataFrame({"x": [1, 2, 3]}, index=pd.RangeIndex(3, 0, -1, name="left")),
    "strings": pd.DataFrame({"x": [1, 2, 3]}, index=ABC),
    "named": pd.DataFrame({"x": [1, 2, 3]}, index=pd.Index(ABC, name="key")),
    "named as a column": pd.DataFrame({"x": [1, 2, 3]}, index=pd.Index(ABC, name="x")),
    "equal labels": pd.DataFrame({"x": [1, 2, 3]}, index=[7, 7, 7]),
    "two levels": pd.DataFrame(
        {"x": [1, 2, 3]},
        index=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["k", "n"]),
    ),
    "levels without names": pd.DataFrame(
        {"x": [1, 2, 3]}, index=pd.MultiIndex.from_arrays([ABC, [1.5, None, 2.5]])
    ),
    "times": pd.DataFrame({"x": [1, 2, 3]}, index=pd.date_range("2026-03-01", periods=3)),
    "times of a zone": pd.DataFrame(
        {"x": range(5)},
        index=pd.date_range("2026-03-29", periods=5, freq="h", tz="Europe/Berlin", name="at"),
    ),
    "categories as index": pd.DataFrame(
        {"x": [1, 2, 3]}, index=pd.CategoricalIndex(ABC, categories=["c", "b", "z", "a"])
    ),
    "categories in levels": pd.DataFrame(
        {"x": [1, 2, 3]},
        index=pd.MultiIndex.from_arrays(
            [
                pd.Categorical(["a", "b", "a"], categories=["z", "b", "a"], ordered=True),
                pd.cut([1, 5, 9], 3),
            ],
            names=["k", None],
        ),
    ),
    **{
        f"an index of {index.dtype}": pd.DataFrame({"x": [1, 2, 3]}, index=index)
        for index in [
            pd.to_timedelta([1, None, 3], unit="s"),
            pd.IntervalIndex.from_breaks([0, 1, 2, 3], closed="left", name="i"),
            pd.IntervalIndex.from_breaks(pd.date_range("2026", periods=4, tz="UTC")),
            pd.period_range("2026-01", periods=3, freq="Q"),
            pd.Index([1, 2, 2**64 - 1], dtype="uint64"),
            pd.Index([1, 2, 3], dtype="uint8"),
            pd.Index([1, None, 3], dtype="Int64"),
            pd.Index(["a", None, "b"], dtype="string"),
            pd.Index([1, None, 3], dtype="int64[pyarrow]"),
            pd.Index(ABC, dtype=pd.ArrowDtype(pa.string())),
            pd.Index([datetime.time(1), datetime.time(2), None]),
        ]
    },
    "column names that are numbers": pd.DataFrame([[1, "a"], [2, "b"]], columns=[20, 3]),
    "a name of the columns": pd.DataFrame([[1, 2]], columns=pd.Index(["x", "y"], name="kind")),
    "columns of two levels": pd.DataFrame(
        [[1, 2]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["p", "q"])
    ),
    "columns that are times": pd.DataFrame(
        [[1, 2]], columns=pd.DatetimeIndex(["2026-03-01", "2026-04-02"])
    ),
    "categories": pd.DataFrame(
        {
            "plain": pd.Categorical(["b", None, "a"]),
            "ordered": pd.Categorical(ABC, categories=["c", "a", "z", "b"], ordered=True),
            "numbers": pd.Categorical([30, 10, None], categories=[30, 20, 10]),
            "none": pd.Categorical([None, None, None], categories=["x"]),
            "no categories": pd.Categorical([None, None, None]),
            "times": pd.Categorical(pd.to_datetime(["2026-01-02", "2026-01-01", None])),
            "dates": pd.Categorical([datetime.date(2026, 1, 2), None, datetime.date(2026, 1, 1)]),
            "floats": pd.Categorical([1.5, None, 0.5], categories=[1.5, 0.5, -1.0]),
            "flags": pd.Categorical([True, None, False]),
            "unsigned": pd.Categorical(np.array([2**64 - 1, 0, 1], "uint64")),
            "durations": pd.Categorical(pd.to_timedelta([2, 1, None])),
            "many": pd.Categorical.from_codes([0, 199, -1], [f"k{i}" for i in range(200)]),
        }
    ),
    "categories of other dtypes": pd.DataFrame(
        {
            "zone": pd.Categorical(pd.date_range("2026", periods=3, tz="Europe/Berlin")),
            "intervals": pd.cut([1, 5, 9], 3),
            "periods": pd.Categorical(pd.period_range("2026", periods=3, freq="M")),
            "nullable": pd.Categorical(pd.array([2, 1, None], dtype="Int64")),
            "string": pd.Categorical(pd.array(["b", "a", None], dtype="string")),
            "object": pd.Categorical(ABC, categories=pd.Index(["c", "b", "a"], dtype=object)),
            "arrow": pd.Categorical(pd.array(ABC, dtype=pd.ArrowDtype(pa.string()))),
        }
    ),
    "categories without rows": pd.DataFrame({"k": pd.Categorical([], categories=["b", "a"])}),
    "missing values": pd.DataFrame(
        {
            "int": pd.array([1, None, 3], dtype="Int64"),
            "uint": pd.array([1, None, 3], dtype="UInt8"),
            "uint64": pd.array([1, None, 2**64 - 1], dtype="UInt64"),
            "float": pd.array([1.5, None, 3], dtype="Float32"),
            "bool": pd.array([True, None, False], dtype="boolean"),
            "string": pd.array(["a", None, ""], dtype="string"),
            "str": pd.array(["a", None, ""], dtype="str"),
        }
    ),
    "numbers": pd.DataFrame(
        {name: np.array([0, 1, 100], name) for name in ("int8", "int16", "int32", "int64")}
        | {name: np.array([0, 1, 200], name) for name in ("uint8", "uint16", "uint32")}
        | {"uint64": np.array([0, 1, 2**64 - 1], "uint64")}
        | {name: np.array([0.1, np.nan, np.inf], name) for name in FLOATS}
        | {"bool": np.array([True, False, True])}
    ),
    "units of time": pd.DataFrame(
        {unit: np.array([0, 1, -1], f"datetime64[{unit}]") for unit in UNITS}
    ),
    "durations": pd.DataFrame(
        {unit: np.array([1, "NaT", -(2**40)], f"timedelta64[{unit}]") for unit in UNITS}
    ),
    "times of zones": pd.DataFrame(
        {
            "utc": pd.to_datetime(["2026-01-01", None, "2026-07-01"]).tz_localize("UTC"),
            "fixed": pd.to_datetime(["2026-01-01", None, "2026-07-01"]).tz_localize("+05:30"),
        }
    ),
    "objects": pd.DataFrame(
        {
            "lists": [[1, 2], None, []],
            "bytes": [b"a", None, b""],
            "dates": [datetime.date(2026, 1, 1), None, datetime.date(1969, 1, 1)],
            "decimals": [decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")],
            "times": [datetime.time(1, 2, 3, 4), None, datetime.time(23)],
            "none": [None, None, None],
        }
    ),
    "dicts": pd.DataFrame(
        {
            "flat": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
            "deep": [{"a": {"b": [1, 2]}}, {"a": None}, None],
            "lists": [[{"a": 1.5}, None], None, []],
        }
    ),
    "periods": pd.DataFrame({"x": pd.PeriodIndex(["2026-01", None, "2026-03"], freq="M")}),
    "intervals": pd.DataFrame(
        {
            "integers": pd.arrays.IntervalArray.from_breaks([0, 1, 2, 3], closed="both"),
            "floats": pd.arrays.IntervalArray.from_tuples([(0.5, 1), None, (2, 3)]),
            "times": pd.interval_range(pd.Timestamp("2026", tz="UTC"), periods=3),
            "durations": pd.interval_range(pd.Timedelta(0), periods=3),
        }
    ),
    "arrow": pd.DataFrame(
        {
            str(type): pd.Series(pa.array(values, type), dtype=pd.ArrowDtype(type))
            for type, values in [
                (pa.int64(), [1, None]),
                (pa.uint16(), [1, None]),
                (pa.string(), ["a", None]),
                (pa.large_string(), ["a", None]),
                (pa.bool_(), [True, None]),
                (pa.timestamp("ms", "UTC"), [1, None]),
                (pa.decimal128(10, 2), [decimal.Decimal("1.25"), None]),
                (pa.list_(pa.int32()), [[1, None], None]),
                (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None]),
                (pa.dictionary(pa.int32(), pa.string()), ["a", None]),
                (pa.dictionary(pa.int8(), pa.large_string(), ordered=True), ["a", None]),
                (pa.struct({"a": pa.uint8(), "b": pa.list_(pa.string())}), [{"a": 1}, None]),
                (pa.list_(pa.struct({"a": pa.uint64()})), [[{"a": 2**64 - 1}, None], None]),
                (pa.map_(pa.string(), pa.struct({"a": pa.int8()})), [[("k", {"a": 1})], None]),
                (pa.list_(pa.float32(), 2), [[0.5, None], None]),
                (pa.large_list(pa.int8()), [[1], None]),
                (pa.duration("us"), [1, None]),
                (pa.time64("ns"), [1, None]),
                (pa.time32("s"), [1, None]),
                (pa.date64(), [datetime.date(2026, 1, 1), None]),
                (pa.float16(), [1.5, None]),
                (pa.uint64(), [2**64 - 1, None]),
                (pa.binary(2), [b"ab", None]),
                (pa.decimal256(50, 2), [decimal.Decimal("1.25"), None]),
                (pa.null(), [None, None]),
            ]
        },
        index=["p", "q"],
    ),
    "arrow among others": pd.DataFrame(
        {
            "a": [1, 2],
            "b": pd.array(["x", None], dtype=pd.ArrowDtype(pa.string())),
            "c": ["x", "y"],
            "d": pd.array([1, None], dtype=pd.ArrowDtype(pa.int64())),
        }
    ),
    "no rows": pd.DataFrame({"x": np.array([], "int64"), "y": pd.Categorical([])}),
    "no columns": pd.DataFrame(index=pd.RangeIndex(3)),
    "nothing but an index": pd.DataFrame(index=["a", "b"]),
    "nothing": pd.DataFrame(),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_comes_back(name):
    df = FRAMES[name]
    assert_same(fm.read_pandas(written(df)), df)


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", None], pa.string_view()),
        pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
        pa.RunEndEncodedArray.from_arrays([1, 2], ["a", None]),
    ],
    ids=lambda values: str(values.type),
)
def test_types_of_arrow_that_pandas_cannot_compare(values):
    series = pd.Series(pd.arrays.ArrowExtensionArray(values), dtype=pd.ArrowDtype(values.type))
    back = fm.read_pandas(written(pd.DataFrame({"x": series})))
    assert pa.chunked_array(back["x"].array.__arrow_array__()).equals(pa.chunked_array([values]))


# What Parquet, or pyarrow on the way from it, does not keep.
BEYOND_PARQUET = {
    "an index of Int64",
    "an index of int64[pyarrow]",
    "an index of string",
    "an index of string[pyarrow]",
    "arrow",
    "arrow among others",
    "categories",
    "categories in levels",
    "categories of other dtypes",
    "categories without rows",
    "durations",
    "no columns",
    "no rows",
    "units of time",
}


@pytest.mark.parametrize("name", sorted(FRAMES.keys() - BEYOND_PARQUET))
def test_a_frame_is_what_it_is_by_way_of_parquet(name):
    sink = io.BytesIO()
    FRAMES[name].to_parquet(sink)
    assert_same(fm.read_pandas(written(FRAMES[name])), pd.read_parquet(sink))


@pytest.mark.parametrize(
    "name", ["range", "strings", "named as a column", "two levels", "times of a zone", "arrow"]
)
def test_a_table_of_arrow_has_the_index_too(name):
    df = FRAMES[name]
    index = fm.read_table(written(df)).to_pandas().index
    assert index.equals(df.index)
    assert index.names == df.index.names


@pytest.mark.parametrize("name", ["categories", "numbers", "durations", "intervals", "dicts"])
def test_a_table_of_arrow_becomes_the_frame_too(name):
    # Arrow restores these dtypes from the types in the file.
    assert_same(fm.read_table(written(FRAMES[name])).to_pandas(), FRAMES[name])


def test_periods_and_intervals_are_known_to_a_new_process(tmp_path):
    df = FRAMES["periods"].assign(i=FRAMES["intervals"]["times"])
    fm.write_pandas(df, tmp_path / "a.mosaic")
    code = "import sys, fastmosaic; print(*fastmosaic.read_pandas(sys.argv[1]).dtypes, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.mosaic"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.splitlines() == list(map(str, df.dtypes))


@given(
    st.lists(st.tuples(st.integers(0, 9), st.none() | st.floats(-1e9, 1e9)), min_size=1),
    st.sampled_from(["plain", "named", "levels", "range"]),
    st.sampled_from([None, True, False]),
)
def test_any_index_comes_back(rows, kind, index):
    df = pd.DataFrame(rows, columns=["x", "y"]).astype({"y": "Float64"})
    match kind:
        case "plain":
            df.index = pd.Index([f"row {i % 3}" for i in range(len(df))])
        case "named":
            df = df.set_index(pd.Index(df["y"].astype("float64"), name="z"))
        case "levels":
            df = df.set_index([pd.Index(df["x"], name="k"), pd.Index(range(len(df)), name="n")])
        case "range":
            df.index = pd.RangeIndex(5, 5 + 3 * len(df), 3)
    back = fm.read_pandas(written(df, index=index))
    if index is False:
        assert_same(back, df.reset_index(drop=True))
    elif index and kind == "range":
        assert_frame_equal(back, df.set_axis(pd.Index(list(df.index))))
    else:
        assert_same(back, df)


# ---- some columns


@pytest.mark.parametrize("name", ["named", "two levels", "times of a zone", "categories as index"])
def test_the_index_is_read_with_some_columns(name):
    df = FRAMES[name].assign(y="b", z=[[i] for i in range(len(FRAMES[name]))])
    data = written(df)
    assert_same(fm.read_pandas(data, columns=["z", "x"]), df[["z", "x"]])
    assert_same(fm.read_pandas(data, columns=[]), df[[]])


def test_a_range_stays_with_some_columns_and_with_none():
    df = FRAMES["range"].assign(y=["p", "q", "r"])
    assert_same(fm.read_pandas(written(df), columns=["y"]), df[["y"]])
    assert list(fm.read_pandas(written(df), columns=[]).index) == [10, 12, 14]


def test_columns_are_named_as_in_pandas():
    data = written(pd.DataFrame([[1, "a"], [2, "b"]], columns=[20, 3]))
    assert_same(fm.read_pandas(data, columns=[3]), pd.DataFrame({3: ["a", "b"]}))
    two = FRAMES["columns of two levels"]
    assert_same(fm.read_pandas(written(two), columns=[("b", 2)]), two[[("b", 2)]])


def test_fields_of_dicts():
    df = pd.DataFrame({"info": [{"a": 1, "b": "x"}, None], "y": [1, 2]}, index=["p", "q"])
    data = written(df)
    expected = pd.DataFrame({"info": [{"b": "x"}, None]}, index=df.index)
    assert_same(fm.read_pandas(data, columns=["info.b"]), expected)
    assert_same(fm.read_pandas(data, columns=["y"], filters=[("info.a", ">", 0)]), df[["y"]][:1])


def test_an_unknown_column():
    data = written(FRAMES["named"])
    with pytest.raises(fm.ColumnNotFoundError, match="'price'"):
        fm.read_pandas(data, columns=["price"])
    with pytest.raises(TypeError, match=r"\['x'\]"):
        fm.read_pandas(data, columns="x")


def test_an_index_column_that_is_gone():
    table = fm.read_table(written(FRAMES["two levels"])).drop_columns(["n"])
    sink = io.BytesIO()
    fm.write_table(table, sink)
    expected = FRAMES["two levels"].droplevel("n")
    assert_same(fm.read_pandas(sink.getvalue(), columns=["x"]), expected)
    assert_same(fm.read_pandas(sink.getvalue()), expected)


# ---- some rows


def test_filtered_rows_keep_the_labels_that_are_stored():
    df = FRAMES["times of a zone"]
    data = written(df)
    assert_same(fm.read_pandas(data, filters=[("x", ">", 2)]), df[df["x"] > 2])
    at = df.index[3]
    assert_same(fm.read_pandas(data, filters=[("at", ">=", at)], columns=["x"]), df[at:])


@pytest.mark.parametrize(
    ("name", "filters", "kept"),
    [
        ("durations", [("ms", ">", pd.Timedelta(0))], [0]),
        ("numbers", [("uint64", "=", 2**64 - 1)], [2]),
        ("numbers", [("float16", "<", 1)], [0]),
        ("numbers", [("float16", "=", np.float16(0.1))], [0]),
        ("numbers", [("float16", "in", np.array([0.1], "float16"))], [0]),
        ("categories", [("ordered", "in", ["b", "z"])], [1]),
        ("categories", [("numbers", "<", 20)], [1]),
        ("objects", [("times", ">=", datetime.time(23))], [2]),
    ],
)
def test_filters_compare_values(name, filters, kept):
    df = FRAMES[name]
    back = fm.read_pandas(written(df, row_group_size=1, write_statistics=True), filters=filters)
    assert_same(back, df.iloc[kept].reset_index(drop=True))


def test_categories_stay_if_no_row_does():
    df = FRAMES["categories"]
    assert_same(fm.read_pandas(written(df), filters=[("plain", "=", "q")]), df[:0])


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_filtered_rows_of_a_range_count_from_0(limit):
    df = pd.DataFrame({"x": [1, 2, 3]}, index=pd.RangeIndex(10, 13, name="n"))
    back = fm.read_pandas(written(df), filters=[("x", "<=", limit)])
    assert_same(back, pd.DataFrame({"x": back["x"]}, index=pd.RangeIndex(limit, name="n")))
    assert back["x"].tolist() == [1, 2, 3][:limit]


# ---- many files


def test_the_index_of_many_files(tmp_path):
    days = pd.date_range("2026-03-01", periods=4, tz="UTC", name="day")
    df = pd.DataFrame({"x": range(4), "kind": pd.Categorical(list("abab"))}, days)
    fm.write_pandas(df[:2], tmp_path / "a.mosaic")
    fm.write_pandas(df[2:], tmp_path / "b.mosaic")
    assert_same(fm.read_pandas(tmp_path), df)
    assert_same(fm.read_pandas(str(tmp_path / "*.mosaic"), ["kind"]), df[["kind"]])
    assert_same(fm.read_pandas(tmp_path, filters=[("x", ">", 1)]), df[2:])


def test_ranges_of_many_files_count_from_0(tmp_path):
    for name, start in (("a", 100), ("b", 103)):
        df = pd.DataFrame({"x": [1, 2, 3]}, index=pd.RangeIndex(start, start + 3))
        fm.write_pandas(df, tmp_path / f"{name}.mosaic")
    assert_same(fm.read_pandas(tmp_path), pd.DataFrame({"x": [1, 2, 3, 1, 2, 3]}))
    # As many rows as one of them had.
    back = fm.read_pandas(tmp_path, filters=[("x", "<", 2)])
    assert_same(back, pd.DataFrame({"x": [1, 1]}))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        # The union. An order stays if it is that of one file, and the other one agrees.
        (pd.Categorical(["x", "y"]), pd.Categorical(["z", "y"]), pd.CategoricalDtype(list("xyz"))),
        (
            pd.Categorical(["x", "y"], ordered=True),
            pd.Categorical(["z", "y"], ordered=True),
            pd.CategoricalDtype(list("xyz")),
        ),
        (
            pd.Categorical(["x"], ["x", "y"], ordered=True),
            pd.Categorical(["z"], ["z", "x", "y"], ordered=True),
            pd.CategoricalDtype(list("zxy"), ordered=True),
        ),
        (
            pd.Categorical(["x"], ["x", "y"], ordered=True),
            pd.Categorical(["y"], ["y", "x"], ordered=True),
            pd.CategoricalDtype(list("xy")),
        ),
        (
            pd.Categorical(["x", "y"], ordered=True),
            pd.Categorical(["x", "y"]),
            pd.CategoricalDtype(list("xy")),
        ),
        # More than a byte can number, in one file and in both together.
        (
            pd.Categorical(range(200)),
            pd.Categorical([300]),
            pd.CategoricalDtype([*range(200), 300]),
        ),
        (
            pd.Categorical(range(100)),
            pd.Categorical(range(100, 200)),
            pd.CategoricalDtype([*range(200)]),
        ),
        (pd.Categorical(["x"]), ["y"], "str"),
        (pd.Categorical([1]), pd.Categorical([1.5]), "float64"),
    ],
)
def test_files_whose_categories_differ(tmp_path, one, other, expected):
    fm.write_pandas(pd.DataFrame({"k": one}), tmp_path / "a.mosaic")
    fm.write_pandas(pd.DataFrame({"k": other}), tmp_path / "b.mosaic")
    expected = pd.DataFrame({"k": pd.Series([*one, *other]).astype(expected)})
    assert_same(fm.read_pandas(tmp_path), expected)
    assert_same(fm.MosaicDataset(tmp_path).to_table().to_pandas(), expected)


def test_files_without_a_column_leave_its_dtype(tmp_path):
    kinds = pd.Categorical(["b", "a"], categories=["b", "z", "a"])
    df = pd.DataFrame({"k": kinds, "u": np.array([1, 2], "uint8")}).convert_dtypes()
    fm.write_pandas(df[["u"]], tmp_path / "a.mosaic")
    fm.write_pandas(df, tmp_path / "b.mosaic")
    expected = pd.concat([df[["u"]], df], ignore_index=True).astype(df.dtypes)[["u", "k"]]
    assert_same(fm.read_pandas(tmp_path), expected)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "timedelta64[s]", "category"])
def test_files_of_few_and_many_columns(tmp_path, dtype):
    # A file lists types that many of its columns have only once.
    df = pd.DataFrame({f"c{i}": [1, 2] for i in range(40)}).astype(dtype)
    fm.write_pandas(df, tmp_path / "a.mosaic")
    fm.write_pandas(df[["c7", "c8"]], tmp_path / "b.mosaic")
    back = fm.read_pandas(tmp_path, ["c8", "c7"])
    assert_same(back, pd.concat([df[["c8", "c7"]]] * 2, ignore_index=True))
    assert_same(
        fm.read_pandas(tmp_path, ["c9"], filters=[("c9", "=", df["c9"][0])]), df[["c9"]][:1]
    )


def test_a_file_that_pandas_did_not_write(tmp_path):
    table = pa.table({"x": [1, None], "k": pa.array(["b", "a"]).dictionary_encode()})
    fm.write_table(table, tmp_path / "a.mosaic")
    kinds = pd.Categorical(["b", "a"], categories=["b", "a"])
    expected = pd.DataFrame({"x": [1.0, None], "k": kinds})
    assert_same(fm.read_pandas(tmp_path / "a.mosaic"), expected)


def test_a_range_among_the_levels_of_a_table_that_arrow_made():
    levels = [pd.Index(["a", "b"], name="k"), pd.RangeIndex(5, 7, name="n")]
    df = pd.DataFrame({"x": [1, 2]}).set_index(levels)
    table = pa.Table.from_pandas(df)
    assert table.column_names == ["x", "k"]
    sink = io.BytesIO()
    fm.write_table(table, sink)
    assert_same(fm.read_pandas(sink.getvalue()), df)
    back = fm.read_pandas(sink.getvalue(), filters=[("x", ">", 1)])
    assert_same(back, df[1:].droplevel("n"))


# What Arrow's own description of a frame does not say.
BEYOND_ARROW = {"arrow", "categories in levels", "categories of other dtypes", "no columns"}


@pytest.mark.parametrize("name", sorted(FRAMES.keys() - BEYOND_ARROW))
def test_a_table_that_arrow_made(name):
    df = FRAMES[name]
    sink = io.BytesIO()
    fm.write_table(pa.Table.from_pandas(df), sink)
    assert_same(fm.read_pandas(sink.getvalue()), df)


def test_categories_that_pandas_lacks_become_values():
    values = pa.array([{"a": 1}, {"a": 2}])
    kinds = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), values)
    sink = io.BytesIO()
    fm.write_table(pa.table({"k": kinds}), sink)
    assert_same(fm.read_pandas(sink.getvalue()), pd.DataFrame({"k": [{"a": 2}, None, {"a": 1}]}))


def test_partitions_become_columns(tmp_path):
    df = pd.DataFrame({"x": [1, 2], "day": [7, 8]}, index=pd.Index(["a", "b"], name="key"))
    fm.write_dataset(pa.Table.from_pandas(df), tmp_path / "sales", partitioning=["day"])
    back = fm.read_pandas(tmp_path / "sales")
    assert_same(back, df.astype({"day": back["day"].dtype}))


# ---- options, and what cannot be


def test_types_mapper():
    df = FRAMES["missing values"]
    back = fm.read_pandas(written(df), types_mapper=pd.ArrowDtype)
    assert {type(dtype) for dtype in back.dtypes} == {pd.ArrowDtype}
    assert back["int"].tolist() == [1, pd.NA, 3]


def test_options_of_the_writer():
    df = pd.DataFrame({"x": range(10)})
    data = written(df, row_group_size=4, compression="none", use_threads=False)
    assert fm.read_metadata(data).num_row_groups == 3
    assert_same(fm.read_pandas(data, use_threads=False), df)


def test_without_an_annex_the_values_stay():
    df = FRAMES["named"]
    assert_same(fm.read_pandas(written(df, annex=False)), df.reset_index()[["x", "key"]])
    with pytest.raises(fm.UnsupportedError, match="column 's': without an annex"):
        written(FRAMES["durations"], annex=False)


@pytest.mark.parametrize(
    ("df", "error", "message"),
    [
        (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), fm.SchemaMismatchError, "'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), fm.SchemaMismatchError, "'1'"),
        *(
            (pd.DataFrame([[1, 2]], columns=labels), fm.UnsupportedError, "labels.*astype")
            for labels in (
                pd.Index([True, False]),
                pd.to_timedelta([1, 2]),
                pd.CategoricalIndex(["a", "b"]),
                pd.IntervalIndex.from_breaks([0, 1, 2]),
                pd.period_range("2026", periods=2),
                pd.MultiIndex.from_arrays([["a", "b"], pd.to_timedelta([1, 2])]),
            )
        ),
        (pd.Series([1]), TypeError, "Series"),
        (pa.table({"a": [1]}), TypeError, "Table"),
    ],
)
def test_a_frame_that_the_format_cannot_hold(tmp_path, df, error, message):
    with pytest.raises(error, match=message):
        fm.write_pandas(df, tmp_path / "a.mosaic")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "metadata",
    [
        {"pandas": "{"},
        {"pandas": "[]"},
        {"pandas": json.dumps({"columns": [{}], "index_columns": []})},
        {"pandas": json.dumps({"columns": [], "index_columns": [{"kind": "other"}]})},
        {"pandas": "[" * 100_000},
    ],
)
def test_descriptions_that_are_damaged(tmp_path, metadata):
    path = tmp_path / "a.mosaic"
    fm.write_table(pa.table({"x": [1]}).replace_schema_metadata(metadata), path)
    with pytest.raises(
        fm.CorruptFileError,
        match=r"a\.mosaic: pandas metadata: the description of the DataFrame is invalid",
    ):
        fm.read_pandas(path)


@pytest.mark.parametrize(
    "marks",
    [
        {"numpy_type": "geometry"},
        *({"categories": dtype} for dtype in ("geometry", "interval[int64, right]", "Int64", 7)),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["no index", "categories"])
def test_dtypes_that_nobody_knows_or_that_do_not_fit(name, marks):
    table = pa.Table.from_pandas(FRAMES[name])
    description = table.schema.pandas_metadata
    description["columns"][0] |= marks
    sink = io.BytesIO()
    fm.write_table(table.replace_schema_metadata({"pandas": json.dumps(description)}), sink)
    assert_same(fm.read_pandas(sink.getvalue()), FRAMES[name])


# ---- many columns


def test_the_description_is_short_however_many_columns():
    df = pd.DataFrame({f"sensor_{i}": [0.5, 1.5] for i in range(2000)}, index=["a", "b"])
    df = df.assign(label=["p", "q"], small=np.array([1, 2], "uint8"))
    data = written(df)
    assert sum(map(len, fm.read_schema(data).metadata.values())) < 2000
    assert fm.read_metadata(data).attached.given.names == ["small"]  # no strings
    assert_same(fm.read_pandas(data), df)
    assert_same(fm.read_pandas(data, ["small", "sensor_77"]), df[["small", "sensor_77"]])


def test_columns_stay_together_in_memory():
    df = pd.DataFrame(np.arange(3000.0).reshape(3, 1000)).rename(columns=str)
    assert fm.read_pandas(written(df))._mgr.nblocks == 1
