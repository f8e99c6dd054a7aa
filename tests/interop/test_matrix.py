"""read_matrix: values by the rule of each type, nulls, orders, rows, and errors that name the column.

Expected values come from Python's own objects, one by one, not from the code that converts arrays.
"""

import datetime as dt
import decimal
import itertools
import math
import os

import numpy as np
import pyarrow as pa
import pytest
from files import ALWAYS, NEVER, gathering
from hypothesis import given, settings, strategies as st
from pyarrow import types
from servers import no_settings, s3_uris

import fastmosaic as fm
from fastmosaic.file.fetch import Fetcher
from fastmosaic.file.reader import MosaicFile

EPOCH = dt.date(1970, 1, 1)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
FLOATS = ["float32", "float64"]

# Values of each type that numbers can be made of; integers are such that float32 represents them.
VALUES = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 0, 127],
    pa.int16(): [-5, 1000],
    pa.int32(): [2**24, -7],
    pa.int64(): [-(2**40), 3],
    pa.uint8(): [255, 0],
    pa.uint16(): [65535, 1],
    pa.uint32(): [2**31, 9],
    pa.uint64(): [2**63, 9],
    pa.float16(): [1.5, -0.25],
    pa.float32(): [1.5, -0.25, math.inf, math.nan],
    pa.float64(): [0.1, -2.5, math.nan, -math.inf],
    pa.decimal128(9, 2): [decimal.Decimal("1.25"), decimal.Decimal("-7.50")],
    pa.decimal128(30, 3): [decimal.Decimal("12345678.125"), decimal.Decimal(-1)],
    pa.date32(): [dt.date(2026, 3, 1), dt.date(1969, 12, 31)],
    pa.date64(): [dt.date(2026, 3, 1), dt.date(1969, 12, 31)],
    pa.time32("s"): [dt.time(1, 2, 3)],
    pa.time32("ms"): [dt.time(1, 2, 3, 4000), dt.time(0)],
    pa.time64("us"): [dt.time(1, 2, 3, 4)],
    pa.timestamp("s"): [dt.datetime(2026, 3, 1)],
    pa.timestamp("ms", "UTC"): [dt.datetime(2026, 3, 1, 4, 5, tzinfo=dt.UTC)],
    pa.timestamp("us"): [dt.datetime(2026, 3, 1, 4, 5, 6, 7)],
    pa.timestamp("ns"): [dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(1969, 12, 31)],
    pa.duration("ms"): [dt.timedelta(seconds=-3), dt.timedelta(milliseconds=1)],
    pa.dictionary(pa.int8(), pa.float64()): [0.5, 7.0],
    pa.run_end_encoded(pa.int32(), pa.int64()): [5, 6],
    pa.bool8(): [True, False],
    pa.null(): [None],
}


def number(value, type):
    """The number of a Python value of an Arrow type, exactly; None for a null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, dt.datetime):
        naive = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
        return naive // dt.timedelta(microseconds=1) * UNITS[type.unit] // 10**6
    if isinstance(value, dt.date):
        return (value - EPOCH).days
    if isinstance(value, dt.time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return (seconds * 10**6 + value.microsecond) * UNITS[type.unit] // 10**6
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1) * UNITS[type.unit] // 10**6
    return value


def expected(table, dtype, null=math.nan):
    """The matrix of a table, value by value."""
    made = np.empty((table.num_rows, table.num_columns), dtype)
    for place, column in enumerate(table.columns):
        for row, value in enumerate(column):
            found = number(value.as_py(), column.type)
            made[row, place] = null if found is None else found
    return made


def written(table, **options):
    sink = pa.BufferOutputStream()
    fm.write_table(table, sink, **options)
    return sink.getvalue()


def dealt(values, num_rows, has_nulls, start=0, are_equal=False):
    """Some rows of the values, in turn, or all of them the first."""
    turn = itertools.cycle(values[:1] if are_equal else values)
    return [None if has_nulls and (row + start) % 3 == 0 else next(turn) for row in range(num_rows)]


def all_types(num_rows=50, has_nulls=True):
    columns = {}
    for number_, (type, values) in enumerate(VALUES.items()):
        for are_equal in (False, True):
            rows = dealt(values, num_rows, has_nulls or type == pa.null(), number_, are_equal)
            plain = type.value_type if types.is_dictionary(type) else type
            if types.is_run_end_encoded(type):
                made = pa.array(rows, type.value_type)
                made = pa.compute.run_end_encode(made, run_end_type=type.run_end_type)
            elif types.is_dictionary(type):
                made = pa.array(rows, plain).dictionary_encode().cast(type)
            elif type == pa.bool8():
                made = pa.ExtensionArray.from_storage(
                    type, pa.array(rows, pa.bool_()).cast(pa.int8())
                )
            else:
                made = pa.array(rows, type)
            columns[f"{number_}:{type}:{are_equal}"] = made
    return pa.table(columns)


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{}, {"num_buckets": 3, "row_group_size": 13}])
def test_values_of_all_types(dtype, order, options):
    table = all_types()
    data = written(table, **options)
    made = fm.read_matrix(data, dtype=dtype, order=order)
    assert made.dtype == dtype
    assert made.flags[f"{order}_CONTIGUOUS"]
    np.testing.assert_array_equal(made, expected(table, dtype))


# ---- many values, encodings and layouts, against a reference

NUMBERS = [type for type in VALUES if type != pa.null() and type.id not in (31, 38)]
DIRECT = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.time32("ms"), pa.timestamp("ms"), pa.timestamp("ns")),
]


def random_column(rng, type, num_rows, distinct, nulls):
    """A column of few or many distinct numbers, of which a share is null."""
    if type == pa.bool_():
        values = rng.random(num_rows) < 0.3
    elif types.is_floating(type):
        values = rng.choice(rng.standard_normal(distinct), num_rows)
    else:
        values = rng.choice(rng.integers(0, 127, distinct), num_rows)
    mask = rng.random(num_rows) < nulls
    plain = pa.array(values, mask=mask)
    if types.is_temporal(type):
        return plain.cast(pa.int32() if type.bit_width == 32 else pa.int64()).cast(type)
    return plain.cast(type)


def reference(table, dtype, null):
    """The matrix by way of pandas: numbers, after dates and times became the numbers they are."""
    columns = []
    for column in table.columns:
        if types.is_temporal(column.type):
            column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
        values = column.to_pandas().to_numpy(dtype="float64", na_value=np.nan)
        values = np.where(column.is_null().to_numpy(), null, values)
        columns.append(values.astype(dtype))
    return np.stack(columns, 1) if columns else np.empty((table.num_rows, 0), dtype)


@st.composite
def layouts(draw):
    options = {
        "num_buckets": draw(st.sampled_from([1, 4])),
        "row_group_size": draw(st.sampled_from([100, 2048, 3000, 10_000])),
        "compression": draw(st.sampled_from(["zstd", "none"])),
    }
    if options["compression"] == "zstd":
        options["page_size_threshold"] = draw(st.sampled_from([0, 1 << 30, None]))
    return options


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.lists(st.sampled_from(DIRECT), min_size=1, max_size=6),
    num_rows=st.sampled_from([0, 1, 63, 64, 500, 5000]),
    distinct=st.sampled_from([1, 2, 7, 3000]),
    nulls=st.sampled_from([0, 0.1, 1]),
    order=st.sampled_from(["F", "C"]),
    dtype=st.sampled_from(["float32", "float64", "float16", "int64", "uint8"]),
    choice=st.sampled_from(["all", "rows", "filter", "both"]),
    factor=st.sampled_from([ALWAYS, NEVER]),
    options=layouts(),
)
def test_matrices_equal_what_pandas_has(
    seed, kinds, num_rows, distinct, nulls, order, dtype, choice, factor, options
):
    if dtype in ("int64", "uint8"):
        kinds = [type for type in kinds if not types.is_floating(type)] or [pa.int32()]
    rng = np.random.default_rng(seed)
    table = pa.table(
        {
            "key": pa.array(rng.integers(0, 4, num_rows)),
            **{
                f"{i}": random_column(rng, type, num_rows, distinct, nulls)
                for i, type in enumerate(kinds)
            },
        }
    )
    data = written(table, **options)
    names = [*map(str, range(len(kinds)))][::-1]
    filters = [("key", "<", 2)] if choice in ("filter", "both") else None
    want = fm.read_table(data, columns=names, filters=filters)
    rows = None
    if choice in ("rows", "both"):
        rows = rng.integers(0, want.num_rows, 300) if want.num_rows else np.empty(0, int)
        want = want.take(rows)
    given = {"dtype": dtype, "order": order, "filters": filters, "rows": rows}
    with gathering(factor):
        made = fm.read_matrix(data, names, nulls=3, **given)
        masked, mask = fm.read_matrix(data, names, nulls="mask", **given)
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, reference(want, dtype, 3))
    np.testing.assert_array_equal(masked, reference(want, dtype, 0))
    nulls_of = [column.is_null().to_numpy() for column in want.columns]
    np.testing.assert_array_equal(mask, np.stack(nulls_of, 1) if names else mask)
    assert mask.dtype == bool


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_numbers_are_rounded_as_numpy_does(dtype):
    rng = np.random.default_rng(5)
    size = np.ldexp(rng.standard_normal(20_000), rng.integers(-28, 15, 20_000))
    exact = np.arange(1, 2048, dtype="float64") * 2.0**-25  # subnormals, and ties
    values = np.concatenate([size, exact, [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.0]])
    large = rng.integers(-(2**62), 2**62, len(values))
    table = pa.table({"x": values, "n": large if dtype == "float32" else large >> 50})
    made = fm.read_matrix(written(table), dtype=dtype)
    np.testing.assert_array_equal(made[:, 0], values.astype(dtype))
    np.testing.assert_array_equal(np.signbit(made[:, 0]), np.signbit(values))
    np.testing.assert_array_equal(made[:, 1], table["n"].to_numpy().astype(dtype))


# ---- many files


def test_columns_of_many_files(tmp_path):
    parts = [
        pa.table({"a": pa.array([1, 2], pa.int32()), "b": [0.5, None], "late": [True, False]}),
        pa.table({"b": [7.0], "a": pa.array([3], pa.int32())}),
        pa.table({"a": pa.array([2**40], pa.int64()), "b": [8.0], "c": pa.array([1], pa.int8())}),
    ]
    for day, part in enumerate(parts):
        (tmp_path / f"day={day}").mkdir()
        fm.write_table(part, tmp_path / f"day={day}" / "x.mosaic")
    table = fm.read_table(tmp_path, columns=["day", "a", "b", "late", "c"])
    made = fm.read_matrix(tmp_path, table.column_names, dtype="float64")
    np.testing.assert_array_equal(made, expected(table, "float64"))
    some = fm.read_matrix(str(tmp_path / "*" / "*.mosaic"), ["b"], filters=[("a", ">", 1)])
    np.testing.assert_array_equal(some[:, 0], np.float32([np.nan, 7, 8]))
    listed = [tmp_path / f"day={day}" / "x.mosaic" for day in (2, 0)]
    np.testing.assert_array_equal(fm.read_matrix(listed, ["b"], rows=[2, 0, 0])[1:], [[8], [8]])
    dataset = fm.MosaicDataset(tmp_path)
    np.testing.assert_array_equal(fm.read_matrix(dataset, ["?"]).shape, (4, 3))


def test_many_files_at_once(tmp_path):
    rng = np.random.default_rng(1)
    wide = rng.standard_normal((20, 300, 40)).astype("float32")
    for number_, values in enumerate(wide):
        table = pa.table({f"f{i:02}": values[:, i] for i in range(40)})
        fm.write_table(table, tmp_path / f"{number_:02}.mosaic", num_buckets=4)
    names = [f"f{i:02}" for i in rng.permutation(40)[:25]]
    want = np.concatenate(wide)[:, [int(name[1:]) for name in names]]
    for order in "FC":
        np.testing.assert_array_equal(fm.read_matrix(tmp_path, names, order=order), want)


def test_columns_that_were_added_to_a_table(tmp_path):
    table = fm.MosaicTable.create(
        tmp_path / "t", pa.schema([("id", pa.int64()), ("x", pa.float32())])
    )
    for start in (0, 10):
        rows = pa.table({"id": range(start, start + 10), "x": np.arange(10, dtype="float32")})
        table.append(rows)
    table.add_columns({"y": pa.compute.multiply(pa.compute.field("x"), 2.0)})
    made = fm.read_matrix(tmp_path / "t", ["y", "id", "x"], dtype="float64")
    want = fm.read_table(tmp_path / "t", columns=["y", "id", "x"])
    np.testing.assert_array_equal(made, expected(want, "float64"))
    assert made[12, 0] == 4
    made = fm.read_matrix(tmp_path / "t", ["y"], filters=[("x", "=", 3)], order="C")
    np.testing.assert_array_equal(made, [[6], [6]])


# ---- where it goes


def test_out(tmp_path):
    data = written(pa.table({"a": [1.0, 2.0, None], "b": [4, 5, 6]}))
    want = np.float32([[1, 4], [2, 5], [np.nan, 6]])
    large = np.full((6, 9), -1, "float32")
    places = [
        np.empty((3, 2), "float32", order="F"),
        np.empty((3, 2), "float32", order="C"),
        np.memmap(tmp_path / "m", "float32", "w+", shape=(3, 2)),
        large[::2, 1::4][:, :2],
        large[::-2, ::-4][:, :2],
    ]
    for out in places:
        assert fm.read_matrix(data, out=out) is out
        np.testing.assert_array_equal(out, want)
    frozen = np.empty((3, 2), "float32")
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="out is read-only"):
        fm.read_matrix(data, out=frozen)
    with pytest.raises(
        ValueError, match=r"out has shape \(2, 3\) and dtype float32, but the result"
    ):
        fm.read_matrix(data, out=np.empty((2, 3), "float32"))
    with pytest.raises(ValueError, match="dtype float64, but the result has shape"):
        fm.read_matrix(data, out=np.empty((3, 2), "float64"))
    with pytest.raises(TypeError, match=r"out must be a numpy\.ndarray, not list"):
        fm.read_matrix(data, out=[])


@pytest.mark.parametrize("order", ["F", "C"])
def test_numbers_beside_the_matrix_are_not_touched(order):
    table = pa.table({"a": pa.array([1, None, 3], pa.int8()), "b": [1.0, 2.0, 3.0]})
    whole = np.full((5, 4), -1, "float32", order=order)
    fm.read_matrix(written(table), out=whole[1:4, 1:3])
    np.testing.assert_array_equal(whole[1:4, 1:3], [[1, 1], [np.nan, 2], [3, 3]])
    whole[1:4, 1:3] = -1
    assert (whole == -1).all()


# ---- errors


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize(
    ("values", "dtype", "nulls", "problem"),
    [
        (pa.array([1, 300]), "int8", "nan", "contains 300, which int8 cannot represent"),
        (pa.array([1, -1]), "uint64", "nan", "contains -1, which uint64 cannot represent"),
        (pa.array([1.5]), "int32", "nan", r"contains 1\.5, which int32 cannot represent"),
        (pa.array([math.nan]), "int32", "nan", "contains nan, which int32 cannot represent"),
        (pa.array([2.0**63]), "int64", "nan", "which int64 cannot represent"),
        (pa.array([65520.0]), "float16", "nan", r"contains 65520\.0, which float16 cannot"),
        (pa.array([1e39]), "float32", "nan", r"contains 1e\+39, which float32 cannot represent"),
        (pa.array([1, None]), "int32", "nan", "contains nulls; int32 has no NaN, so pass a number"),
        (pa.array([1.0, None]), "float32", "raise", "contains nulls"),
        (pa.nulls(2, pa.int8()), "float32", "raise", "contains nulls"),
        (pa.array([decimal.Decimal("1.5")]), "int64", "nan", "decimals that are not integers"),
        (pa.array(["x"]), "float32", "nan", "the column is string, which is not a number"),
        (pa.array([[1]]), "float32", "nan", r"the column is list<.*>, which is not a number"),
        (pa.array([{"x": 1}]), "float32", "nan", "which is not a number; leave it out"),
    ],
)
def test_errors_name_the_column(values, dtype, nulls, problem, order):
    table = pa.table({"fine": [True] * len(values), "wrong one": values})
    with pytest.raises(fm.MosaicError, match=problem) as raised:
        fm.read_matrix(written(table), dtype=dtype, nulls=nulls, order=order)
    assert raised.value.column == "wrong one"
    assert fm.read_matrix(written(table), ["fine"], dtype=dtype, nulls=nulls).shape[1] == 1


def test_rows_that_are_not_wanted_may_be_out_of_range():
    table = pa.table({"a": [1, 300, 2, None], "b": [1, 2, 3, 4]})
    data = written(table)
    made = fm.read_matrix(data, dtype="int8", rows=[2, 0])
    np.testing.assert_array_equal(made, [[2, 3], [1, 1]])
    made = fm.read_matrix(data, dtype="int8", filters=[("b", "in", [1, 3])])
    np.testing.assert_array_equal(made, [[1, 1], [2, 3]])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"dtype": "complex64"}, "dtype must be one of float16"),
        ({"dtype": ">f4"}, "dtype must be one of float16"),
        ({"order": "A"}, "order must be 'F' or 'C'"),
        ({"nulls": "drop"}, "nulls must be 'nan', 'raise', 'mask' or a number"),
        ({"nulls": 300, "dtype": "int8"}, "nulls=300 is not a number that int8 can represent"),
        ({"rows": [0.5]}, "rows must be a sequence of row numbers"),
        ({"categories": {"z": []}}, "categories: column 'z' is not read"),
    ],
)
def test_what_cannot_be_asked_for(options, problem):
    with pytest.raises(ValueError, match=problem):
        fm.read_matrix(written(pa.table({"a": [1]})), **options)


def test_rows_that_do_not_exist():
    data = written(pa.table({"a": [1, 2]}))
    for row in (-1, 2):
        with pytest.raises(IndexError, match=f"row {row} of 2"):
            fm.read_matrix(data, rows=[0, row])
    with pytest.raises(IndexError, match=f"row {2**63} is out of range"):
        fm.read_matrix(data, rows=np.array([2**63], "uint64"))
    assert fm.read_matrix(data, rows=[]).shape == (0, 1)


def test_columns_that_do_not_exist():
    with pytest.raises(fm.ColumnNotFoundError):
        fm.read_matrix(written(pa.table({"a": [1]})), ["b"])


def test_only_the_wanted_rows_are_decoded(monkeypatch):
    decoded = []
    fetch = Fetcher.decode

    def decode(self, task, *others):
        decoded.append(task.span.count)
        return fetch(self, task, *others)

    monkeypatch.setattr(Fetcher, "decode", decode)
    table = pa.table({"a": range(20_000), "b": np.arange(20_000) / 2})
    data = written(table, row_group_size=10_000)
    made = fm.read_matrix(data, rows=[12_000, 5, 19_999, 12_000], dtype="float64")
    np.testing.assert_array_equal(made, [[i, i / 2] for i in (12_000, 5, 19_999, 12_000)])
    assert set(decoded) == {1, 2}
    decoded.clear()
    made = fm.read_matrix(data, ["b"], filters=[("a", "in", [7, 9_000, 11_111])])
    np.testing.assert_array_equal(made, [[3.5], [4500], [5555.5]])
    assert min(decoded) == 1


def test_a_matrix_of_a_file_with_a_cache(monkeypatch):
    table = pa.table({"a": range(3000), "b": np.arange(3000) / 2})
    with fm.MosaicFile(written(table), cache="1m") as file:
        for rows in (None, [5, 2, 2]):
            want = table if rows is None else table.take(rows)
            made = fm.read_matrix(file, rows=rows)
            np.testing.assert_array_equal(made, reference(want, "float32", 0))


def test_matrices_and_rows_of_remote_files():
    table = pa.table({"id": range(500), "a": np.arange(500) / 4, "s": ["x"] * 500})
    with no_settings(), s3_uris("SECRET") as uri_of:
        for number in range(2):
            fm.write_table(
                table.slice(250 * number, 250), uri_of(f"d/{number}.mosaic"), write_key_index="id"
            )
        folder = uri_of("d")
        want = np.float32([[i / 4, i] for i in range(500)])
        np.testing.assert_array_equal(fm.read_matrix(folder, ["a", "id"]), want)
        made = fm.read_matrix(folder, ["a", "id"], rows=[400, 3], order="C")
        np.testing.assert_array_equal(made, want[[400, 3]])
        made = fm.read_matrix(uri_of("d/1.mosaic"), ["id"], filters=[("a", ">", 124)])
        assert made.ravel().tolist() == [497, 498, 499]
        assert fm.lookup(folder, [300, 7], columns=["a"]).column("a").to_pylist() == [75, 1.75]
        found = fm.lookup(uri_of("d/0.mosaic"), [7, 300], missing="skip")
        assert found.to_pylist() == [{"id": 7, "a": 1.75, "s": "x"}]
        dataset = fm.MosaicDataset(folder)
        assert dataset.take([499, 0], columns=["id"]).column("id").to_pylist() == [499, 0]
        sample = dataset.sample(20, seed=3).column("id").to_pylist()
        assert sample == fm.MosaicDataset(folder).sample(20, seed=3)["id"].to_pylist()
        assert len(set(sample)) == 20


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    path = tmp_path / "a.mosaic"
    rng = np.random.default_rng(0)
    fm.write_table(pa.table({f"c{i}": rng.random(5000) for i in range(40)}), path)
    with fm.MosaicFile(path) as file:
        os.truncate(path, path.stat().st_size // 2)
        for read in (fm.read_matrix, MosaicFile.read, lambda one: one.take([4999])):
            with pytest.raises((fm.MosaicError, OSError), match=r"a\.mosaic"):
                read(file)


@pytest.mark.parametrize("cache", [None, "1m"])
def test_a_file_of_a_dataset_that_is_replaced_by_one_of_the_same_size(tmp_path, cache):
    """Otherwise a column from the cache would stand beside one of the new file."""
    path = tmp_path / "a.mosaic"

    def write(first):
        table = pa.table({"a": np.arange(first, first + 50), "b": np.arange(50) + first})
        fm.write_table(table, tmp_path / "new", compression="none")
        os.replace(tmp_path / "new", path)
        return path.stat().st_size

    size = write(100)
    dataset = fm.MosaicDataset(tmp_path, cache=cache)
    assert dataset.take([3], columns=["a"]).to_pylist() == [{"a": 103}]
    assert write(200) == size
    for read in (
        lambda: fm.read_matrix(dataset),
        lambda: dataset.take([3]),
        lambda: dataset.lookup([103], key="a"),
        lambda: dataset.to_table(),
    ):
        with pytest.raises(OSError, match=r"a\.mosaic was replaced or written after the dataset"):
            read()
    assert fm.MosaicDataset(tmp_path).take([3]).to_pylist() == [{"a": 203, "b": 203}]


def test_categories():
    strings = pa.array(["b", None, "a", "b"])
    table = pa.table({"s": strings, "d": strings.dictionary_encode(), "n": [1, 2, 3, 4]})
    data = written(table, row_group_size=2)
    made = fm.read_matrix(data, dtype="int16", nulls=-1, categories=True)
    np.testing.assert_array_equal(made, [[1, 1, 1], [-1, -1, 2], [0, 0, 3], [1, 1, 4]])
    known = {"s": ["x", "b"], "d": ["a", "b"]}
    made = fm.read_matrix(data, dtype="int16", nulls=-1, categories=known)
    np.testing.assert_array_equal(made, [[1, 1, 1], [-1, -1, 2], [-1, 0, 3], [1, 1, 4]])
    with pytest.raises(fm.SchemaMismatchError, match="only columns of strings or bytes"):
        fm.read_matrix(data, ["n"], categories={"n": []})


def test_the_matrix_counts_for_the_limit_of_memory():
    data = written(pa.table({"a": pa.array([7] * 100_000, pa.int8())}))
    assert fm.read_matrix(data, memory_limit=400_000).shape == (100_000, 1)
    with pytest.raises(fm.MemoryLimitError):
        fm.read_matrix(data, memory_limit=399_999)
    with pytest.raises(fm.MemoryLimitError):
        fm.read_matrix(data, memory_limit=400_000, nulls="mask")
    out = np.empty((100_000, 1), "float32")
    fm.read_matrix(data, memory_limit=1, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("options", [{}, {"page_size_threshold": 0}, {"compression": "none"}])
def test_damaged_files_raise_as_tables_do(options):
    rng = np.random.default_rng(3)
    table = pa.table({f"c{i}": rng.integers(0, 99, 400) for i in range(8)})
    data = bytearray(written(table, checksum=False, annex=False, **options))
    outcomes = set()
    for at in range(0, len(data), 7):
        forged = bytes(data[:at]) + bytes([data[at] ^ 0x5A]) + bytes(data[at + 1 :])
        results = []
        for read in (fm.read_table, lambda one: fm.read_matrix(one, dtype="int64")):
            try:
                results.append(read(forged))
            except fm.MosaicError as error:
                results.append(type(error))
        outcomes.add(isinstance(results[0], type))
        if isinstance(results[0], type):
            assert results[0] is results[1]
        elif not isinstance(results[1], type):
            want = np.stack([column.to_numpy() for column in results[0].columns], 1)
            np.testing.assert_array_equal(results[1], want)
        else:  # a type that is not a number any more, for example
            assert results[1] in (fm.SchemaMismatchError, fm.UnsupportedError)
    assert outcomes == {True, False}
