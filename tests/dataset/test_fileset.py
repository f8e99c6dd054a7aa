"""Many files as one table: which files and row groups are read, and what comes of them."""

import datetime
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pytest
import strategies
from hypothesis import given, settings, strategies as st

import fastmosaic as fm
from fastmosaic import MosaicDataset
from fastmosaic.dataset import files as one_file, fileset
from fastmosaic.errors import ColumnNotFoundError, CorruptFileError, SchemaMismatchError
from fastmosaic.file import opening
from fastmosaic.file.fetch import Fetcher
from fastmosaic.format import schema as schemas

NAN = float("nan")


def write(root, files, **options):
    """Tables by their relative path."""
    for name, table in files.items():
        path = Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        fm.write_table(table, path, **{"write_statistics": True, **options})
    return str(root)


def ints(*values, type=None):
    return pa.array(values, type or pa.int64())


@pytest.fixture
def opened(monkeypatch):
    """The names of the files that were opened, one for each time."""
    names = []
    original = one_file.open_source

    def recorded(path, *args, **options):
        names.append(os.path.basename(path))
        return original(path, *args, **options)

    monkeypatch.setattr(one_file, "open_source", recorded)
    return names


@pytest.fixture
def scanned(monkeypatch):
    """File, columns and row groups of each read of data."""
    reads = []
    original = one_file.Scanner

    class Recording(original):
        def read(self, request, groups, memory):
            name = os.path.basename(self.name)
            reads.extend(
                (name, column, group)
                for column in request.projection.schema.names
                for group in groups
            )
            return super().read(request, groups, memory)

    monkeypatch.setattr(one_file, "Scanner", Recording)
    return reads


# --- columns of files that differ


def test_a_missing_column_is_null(tmp_path):
    write(
        tmp_path,
        {
            "a": pa.table({"x": [1, 2]}),
            "b": pa.table({"y": ["q"], "tags": pa.array([[1, 2]], pa.list_(pa.int8()))}),
        },
    )
    assert fm.read_table(tmp_path).to_pylist() == [
        {"x": 1, "y": None, "tags": None},
        {"x": 2, "y": None, "tags": None},
        {"x": None, "y": "q", "tags": [1, 2]},
    ]


def test_types_widen(tmp_path):
    write(
        tmp_path,
        {
            "a": pa.table(
                {
                    "i": ints(-5, type=pa.int8()),
                    "f": pa.array([0.5], pa.float32()),
                    "d": pa.array([Decimal("1.25")], pa.decimal128(3, 2)),
                    "t": pa.array([1], pa.timestamp("ms", "UTC")),
                    "l": pa.array([[1, None]], pa.list_(pa.int8())),
                    "m": pa.array([[(1, 2)]], pa.map_(pa.int8(), pa.int8())),
                }
            ),
            "b": pa.table(
                {
                    "i": ints(2**40),
                    "f": pa.array([1e300]),
                    "d": pa.array([Decimal("123456.7")], pa.decimal128(7, 1)),
                    "t": pa.array([7], pa.timestamp("us", "UTC")),
                    "l": pa.array([[2**40]], pa.list_(pa.int64())),
                    "m": pa.array([[(2**20, 2**40)]], pa.map_(pa.int32(), pa.int64())),
                }
            ),
        },
    )
    table = fm.read_table(tmp_path)
    assert [str(type) for type in table.schema.types[:4]] == [
        "int64",
        "double",
        "decimal128(8, 2)",
        "timestamp[us, tz=UTC]",
    ]
    assert table["i"].to_pylist() == [-5, 2**40]
    assert table["f"].to_pylist() == [0.5, 1e300]
    assert table["d"].to_pylist() == [Decimal("1.25"), Decimal("123456.70")]
    assert table["t"].cast(pa.int64()).to_pylist() == [1000, 7]
    assert table["l"].to_pylist() == [[1, None], [2**40]]
    assert table["m"].to_pylist() == [[(1, 2)], [(2**20, 2**40)]]


def test_elements_of_another_name(tmp_path):
    for name in ("item", "element"):
        type = pa.list_(pa.field(name, pa.int8()))
        write(tmp_path, {name: pa.table({"x": pa.array([[1], [2, 3]], type), "n": [1, 2]})})
    dataset = MosaicDataset(tmp_path)
    expected = [[1], [2, 3]] * 2
    for table in (
        dataset.read(),
        dataset.read(filters=[("n", ">", 0)]),
        pa.Table.from_batches(dataset.iter_batches()),
        dataset.scanner().to_table(),
    ):
        table.validate(full=True)
        assert table.combine_chunks()["x"].to_pylist() == expected
        fm.write_table(table, tmp_path / "_copy")
        assert fm.read_table(tmp_path / "_copy")["x"].to_pylist() == expected


def test_a_conflict_names_the_column_and_both_files(tmp_path):
    root = write(tmp_path, {"a": pa.table({"x": [1], "y": [1]}), "b": pa.table({"x": ["1"]})})
    with pytest.raises(SchemaMismatchError, match=rf"'x' is int64 in {root}/a and string in .*/b"):
        fm.read_table(root)
    assert fm.read_table(root, columns=["y"])["y"].to_pylist() == [1, None]
    assert fm.read_table(root, schema=pa.schema({"x": pa.string()}))["x"].to_pylist() == ["1", "1"]
    assert fm.read_table(root, schema=pa.schema({"x": pa.int8()}))["x"].to_pylist() == [1, 1]


def test_a_conflict_of_a_column_that_is_not_needed_is_no_error(tmp_path):
    write(tmp_path, {"a": pa.table({"x": [1], "xyz": [1]}), "b": pa.table({"x": ["1"]})})
    dataset = MosaicDataset(tmp_path)
    assert dataset.read(["xyz"], filters=pc.field("xyz") > 0).num_rows == 1
    for condition in (
        pc.field("x") > 0,
        ~pc.field("x"),
        pc.field("x").isin(["1"]),
        pc.field("x").is_null(),
        (pc.field("xyz") > 0) & (pc.field("x") == "1"),
    ):
        with pytest.raises(SchemaMismatchError, match="'x' is int64 in"):
            dataset.read(["xyz"], filters=condition)


def test_a_time_beyond_the_finer_unit_is_an_error_of_its_file(tmp_path):
    far = pa.array([10**17], pa.timestamp("ms"))
    near = pa.array([5], pa.timestamp("ns"))
    write(tmp_path, {"a": pa.table({"t": near}), "b": pa.table({"t": far})})
    dataset = MosaicDataset(tmp_path)
    for condition in (None, pc.field("t") < pa.scalar(9, pa.timestamp("ns"))):
        with pytest.raises(SchemaMismatchError, match=r"/b: column 't'.*without loss"):
            dataset.read(filters=condition)


# --- schema=


def test_a_given_schema_casts(tmp_path):
    write(
        tmp_path,
        {
            "a": pa.table({"x": [1], "s": ["p"], "extra": ["e"]}),
            "b": pa.table({"x": ["22"], "s": ["q"]}),
        },
    )
    schema = pa.schema(
        {
            "new": pa.list_(pa.int8()),
            "s": pa.dictionary(pa.int32(), pa.string()),
            "x": pa.large_string(),
        }
    )
    dataset = MosaicDataset(tmp_path, schema=schema)
    assert dataset.schema == schema
    expected = [{"new": None, "s": "p", "x": "1"}, {"new": None, "s": "q", "x": "22"}]
    assert dataset.read().to_pylist() == expected
    assert [row for batch in dataset.iter_batches() for row in batch.to_pylist()] == expected
    for condition in (pc.field("s") == "q", pc.field("x") > "2"):
        assert dataset.scanner(filter=condition).to_table().to_pylist() == expected[1:]
        assert dataset.read(filters=condition).to_pylist() == expected[1:]
    with pytest.raises(ColumnNotFoundError, match="extra"):
        dataset.read(["extra"])
    with pytest.raises(ColumnNotFoundError, match="extra"):
        dataset.read(filters=[("extra", "==", "e")])


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (ints(1, 300), pa.int8()),
        (pa.array([1.5]), pa.int64()),
        (pa.array(["one"]), pa.int64()),
        (pa.array([1001], pa.timestamp("us")), pa.timestamp("ms")),
        (pa.array([Decimal("1.25")], pa.decimal128(3, 2)), pa.decimal128(3, 1)),
        (pa.array([[300]], pa.list_(pa.int64())), pa.list_(pa.int8())),
        (pa.array([[1]], pa.list_(pa.int64())), pa.int8()),
        (pa.array([True]), pa.date32()),
    ],
    ids=str,
)
def test_a_cast_that_loses_names_the_file_and_the_column(tmp_path, values, type):
    root = write(tmp_path, {"a": pa.table({"other": [1]}), "b": pa.table({"x": values})})
    dataset = MosaicDataset(root, schema=pa.schema({"x": type, "other": pa.int8()}))
    for read in (
        dataset.read,
        lambda: list(dataset.iter_batches()),
        lambda: dataset.scanner().to_table(),
        lambda: dataset.head(5),
    ):
        with pytest.raises(SchemaMismatchError, match=rf"{root}/b: column 'x'"):
            read()
    assert dataset.read(["other"]).num_rows == 1 + len(values)


def test_a_given_schema_that_narrows_without_loss(tmp_path):
    write(tmp_path, {"a": pa.table({"x": [1, None, 3]})}, row_group_size=1)
    dataset = MosaicDataset(tmp_path, schema=pa.schema({"x": pa.int8()}))
    assert dataset.read(filters=[("x", ">", 1)])["x"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("stored", "type", "values"),
    [
        (pa.int64(), pa.int64(), [1, None]),
        (pa.list_(pa.int8()), pa.list_(pa.field("item", pa.int8(), False)), [[1], [2, None]]),
        (
            pa.map_(pa.string(), pa.int8()),
            pa.map_(pa.string(), pa.field("value", pa.int8(), False)),
            [[("a", None)]],
        ),
        (
            pa.list_(pa.list_(pa.int8())),
            pa.large_list(pa.field("item", pa.list_(pa.field("item", pa.int8(), False)))),
            [[[1], None], [[None]]],
        ),
    ],
    ids=["column", "element", "value", "nested"],
)
def test_nulls_where_the_given_schema_has_none(tmp_path, stored, type, values):
    write(tmp_path, {"a": pa.table({"x": pa.array(values, stored), "y": [1] * len(values)})})
    dataset = MosaicDataset(
        tmp_path, schema=pa.schema([pa.field("x", type, False), pa.field("y", pa.int8(), False)])
    )
    with pytest.raises(SchemaMismatchError, match="/a: column 'x'"):
        dataset.read()
    assert not dataset.read(["y"]).schema.field("y").nullable


def test_a_missing_column_where_the_given_schema_has_no_null(tmp_path):
    write(tmp_path, {"a": pa.table({"y": [1]})})
    dataset = MosaicDataset(tmp_path, schema=pa.schema([pa.field("x", pa.int8(), False)]))
    with pytest.raises(SchemaMismatchError, match="/a: column 'x': contains a null"):
        dataset.read()


def test_a_given_schema_decides_on_partitions(tmp_path):
    write(tmp_path, {f"k=0{i}/day=2024-01-0{i}/f": pa.table({"x": [i]}) for i in (1, 2)})
    typed = pa.schema({"day": pa.timestamp("ms"), "x": pa.int64(), "k": pa.int8()})
    assert fm.read_table(tmp_path, schema=typed, filters=[("k", "==", 2)]).to_pylist() == [
        {"day": datetime.datetime(2024, 1, 2), "x": 2, "k": 2}
    ]
    without = MosaicDataset(tmp_path, schema=pa.schema({"x": pa.int64()}))
    assert without.read().column_names == ["x"]
    with pytest.raises(ColumnNotFoundError, match="'k'"):
        without.read(filters=[("k", "==", 2)])
    required = pa.schema([pa.field("k", pa.string(), False)])
    assert fm.read_table(tmp_path, schema=required)["k"].to_pylist() == ["01", "02"]
    write(tmp_path, {"k=__HIVE_DEFAULT_PARTITION__/day=2024-01-03/f": pa.table({"x": [3]})})
    with pytest.raises(SchemaMismatchError, match="column 'k': contains a null"):
        fm.read_table(tmp_path, schema=required)


def test_with_a_schema_only_the_files_needed_are_opened(tmp_path, opened):
    write(tmp_path, {f"k={i}/f{i}": pa.table({"x": [i, i]}) for i in range(5)})
    dataset = MosaicDataset(tmp_path, schema=pa.schema({"x": pa.int64(), "k": pa.int32()}))
    assert opened == []
    assert dataset.read(filters=[("k", "==", 3)])["x"].to_pylist() == [3, 3]
    assert set(opened) == {"f3"}
    opened.clear()
    assert dataset.head(3)["x"].to_pylist() == [0, 0, 1]
    assert set(opened) == {"f0", "f1"}
    opened.clear()
    assert dataset.head(0).num_rows == 0
    assert dataset.read(filters=[("k", ">", 100)]).num_rows == 0
    assert dataset.count_rows([("k", ">", 100)]) == 0
    assert opened == []
    assert dataset.count_rows() == 10
    assert Counter(opened) == {"f2": 1, "f4": 1}  # the others said how many rows they have


def test_a_schema_must_be_one(tmp_path):
    write(tmp_path, {"a": pa.table({"x": [1]})})
    with pytest.raises(TypeError, match=r"schema must be a pyarrow\.Schema, not dict"):
        MosaicDataset(tmp_path, schema={"x": pa.int64()})
    with pytest.raises(ValueError, match="contains column 'x' more than once"):
        MosaicDataset(tmp_path, schema=pa.schema([("x", pa.int8()), ("x", pa.int8())]))


# --- unify=False


def test_equal_files_need_no_union(tmp_path):
    table = pa.table({"x": [1], "y": ["a"]})
    write(tmp_path, {"k=1/a": table})
    write(tmp_path, {"k=2/b": table}, num_buckets=1, compression=None)
    assert fm.read_table(tmp_path, unify=False).num_rows == 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"x": ints(1)}, "/a has a column 'y', .*/b does not"),
        ({"x": ints(1), "y": ints(1), "z": ints(1)}, "/b has a column 'z', .*/a does not"),
        ({"x": ints(1), "y": ints(1, type=pa.int8())}, "'y' is int64 in .*/a and int8 in .*/b"),
        ({"y": ints(1), "x": ints(1)}, "/a and .*/b have the same columns in a different order"),
    ],
)
def test_unequal_files_without_a_union(tmp_path, other, message):
    write(tmp_path, {"a": pa.table({"x": [1], "y": [1]}), "b": pa.table(other)})
    with pytest.raises(SchemaMismatchError, match=message):
        fm.read_table(tmp_path, columns=["x"], unify=False)
    assert fm.read_table(tmp_path, columns=["x"]).num_rows == 2


# --- partitions


def test_a_partition_that_is_also_in_a_file(tmp_path):
    root = write(tmp_path, {"k=1/a": pa.table({"x": [1]}), "k=2/b": pa.table({"k": [7]})})
    with pytest.raises(
        SchemaMismatchError, match=r"k=2/b: column 'k': the column is in the file.*k=2;"
    ):
        fm.read_table(root)
    dataset = MosaicDataset(root, schema=pa.schema({"k": pa.int64()}))
    with pytest.raises(SchemaMismatchError, match=r"k=2/b: column 'k': the column is in the file"):
        dataset.read()
    assert fm.read_table(root, partitioning=None).to_pylist() == [
        {"x": 1, "k": None},
        {"x": None, "k": 7},
    ]


def test_partitioning_gives_types(tmp_path):
    write(tmp_path, {f"k=0{i}/f": pa.table({"x": [i]}) for i in (1, 2)})
    assert fm.read_table(tmp_path)["k"].to_pylist() == ["01", "02"]
    typed = fm.read_table(tmp_path, partitioning=pa.schema({"k": pa.int16()}))
    assert typed["k"].equals(pa.chunked_array([ints(1, type=pa.int16()), ints(2, type=pa.int16())]))
    assert fm.read_table(tmp_path, partitioning=None).column_names == ["x"]
    with pytest.raises(ValueError, match="partitioning: no directory is called j="):
        fm.read_table(tmp_path, partitioning=pa.schema({"j": pa.int16()}))
    with pytest.raises(SchemaMismatchError, match=r"k=01/f: the value '01' of the partition 'k'"):
        fm.read_table(tmp_path, partitioning=pa.schema({"k": pa.date32()}))


@pytest.mark.parametrize("partitioning", ["directory", ["k"], {"k": pa.int8()}, True])
def test_partitioning_that_is_none(tmp_path, partitioning):
    write(tmp_path, {"k=1/f": pa.table({"x": [1]})})
    with pytest.raises(ValueError, match=r"partitioning must be 'hive', a pyarrow\.Schema"):
        MosaicDataset(tmp_path, partitioning=partitioning)


def test_a_null_partition(tmp_path, scanned):
    write(
        tmp_path,
        {
            "k=1/one": pa.table({"x": [1]}),
            "k=__HIVE_DEFAULT_PARTITION__/none": pa.table({"x": [2]}),
        },
    )
    dataset = MosaicDataset(tmp_path)
    for condition, expected in [
        (pc.field("k").is_null(), [(2, None)]),
        (pc.field("k").is_valid(), [(1, 1)]),
        (pc.field("k") == 1, [(1, 1)]),
        (pc.field("k") != 1, []),
        (~(pc.field("k") == 5), [(1, 1)]),
        (pc.field("k").is_null() | (pc.field("k") == 1), [(1, 1), (2, None)]),
    ]:
        scanned.clear()
        table = dataset.read(filters=condition)
        assert [(row["x"], row["k"]) for row in table.to_pylist()] == expected
        assert len(scanned) == len(expected)


def test_conflicting_partitions(tmp_path):
    write(tmp_path, {"k=1/k=2/f": pa.table({"x": [1]})})
    with pytest.raises(
        SchemaMismatchError, match=r"f: the partition 'k' has two values, '1' and '2'"
    ):
        fm.read_table(tmp_path)
    assert fm.read_table(tmp_path, partitioning=None).num_rows == 1


def test_files_with_other_partitions(tmp_path):
    write(tmp_path, {"k=1/f": pa.table({"x": [1]}), "f": pa.table({"x": [1]})})
    with pytest.raises(SchemaMismatchError, match=r"has a partition key 'k', but .* does not"):
        fm.read_table(tmp_path)


# --- what is read


def test_partitions_that_cannot_match_are_not_opened(tmp_path, opened, scanned):
    write(
        tmp_path,
        {f"k={k}/s={s}/{k}{s}": pa.table({"x": [k]}) for k in (1, 2, 3) for s in "ab"},
    )
    dataset = MosaicDataset(tmp_path)
    assert len(opened) == 6
    for condition, files in [
        (pc.field("k") == 2, {"2a", "2b"}),
        ((pc.field("k") > 1) & (pc.field("s") == "b"), {"2b", "3b"}),
        ((pc.field("k") == 1) | (pc.field("s") == "b"), {"1a", "1b", "2b", "3b"}),
        (pc.field("k").isin([1, 9]), {"1a", "1b"}),
        ((pc.field("k") == 3) & (pc.field("x") == 3), {"3a", "3b"}),
        ((pc.field("k") == 3) & (pc.field("x") == 1), set()),
        (pc.field("s").isin(["z"]), set()),
    ]:
        opened.clear()
        scanned.clear()
        assert dataset.read(["x"], filters=condition).num_rows == len(files)
        assert set(opened) == {name for name, _, _ in scanned} == files


def test_row_groups_that_cannot_match_are_not_read(tmp_path, scanned):
    write(
        tmp_path,
        {
            "k=1/small": pa.table({"x": ints(*range(20), type=pa.int8()), "p": ["s"] * 20}),
            "k=2/large": pa.table({"x": ints(*range(0, 2000, 100)), "p": ["l"] * 20}),
            "k=2/lacks": pa.table({"p": ["n"] * 20}),
        },
        row_group_size=5,
    )
    dataset = MosaicDataset(tmp_path)
    for condition, rows, groups in [
        (pc.field("x") < 4, 5, {("small", 0), ("large", 0)}),
        (pc.field("x") == 2**40, 0, set()),
        (pc.field("x") > 1500, 4, {("large", 3)}),
        ((pc.field("x") < 4) & (pc.field("k") == 1), 4, {("small", 0)}),
        ((pc.field("x") < 4) & (pc.field("k") == 2), 1, {("large", 0)}),
        (pc.field("x").is_null(), 20, {("lacks", i) for i in range(4)}),
        (pc.field("x").is_null() & (pc.field("k") == 1), 0, set()),
        (
            (pc.field("x") != 3) & (pc.field("k") == 2),
            20,
            {("large", i) for i in range(4)},
        ),
    ]:
        scanned.clear()
        assert dataset.read(["p"], filters=condition).num_rows == rows
        assert {(name, group) for name, _, group in scanned} == groups
        scanned.clear()
        assert dataset.scanner(["p"], condition).to_table().num_rows == rows
        assert {(name, group) for name, _, group in scanned} == groups
        assert dataset.count_rows(condition) == rows


def test_bounds_of_narrower_types_prune(tmp_path, scanned):
    """The file with the narrow type is judged by its bounds in the wide one."""
    days = [datetime.datetime(2024, 1, day) for day in (1, 2)]
    write(
        tmp_path,
        {
            "narrow": pa.table(
                {
                    "t": pa.array(days, pa.timestamp("ms")),
                    "d": pa.array([Decimal("1.5"), Decimal("2.5")], pa.decimal128(2, 1)),
                    "f": pa.array([0.1, 0.2], pa.float32()),
                }
            ),
            "wide": pa.table(
                {
                    "t": pa.array(days, pa.timestamp("ns")),
                    "d": pa.array([Decimal("1.500"), Decimal("2.500")], pa.decimal128(9, 3)),
                    "f": pa.array([0.1, 0.2]),
                }
            ),
        },
        row_group_size=1,
    )
    dataset = MosaicDataset(tmp_path)
    for condition in (
        pc.field("t") == pa.scalar(days[1], pa.timestamp("ns")),
        pc.field("d") > Decimal("2.4999"),
        pc.field("f") > 0.15,
    ):
        scanned.clear()
        assert dataset.read([], filters=condition).num_rows == 2
        assert {(name, group) for name, _, group in scanned} == {("narrow", 1), ("wide", 1)}
    # As a double, the float32 nearest to 0.2 is above 0.2.
    assert dataset.count_rows(pc.field("f") == 0.2) == 1
    assert dataset.count_rows(pc.field("f") > 0.2) == 1


def test_casts_that_do_not_keep_the_order_do_not_prune(tmp_path):
    # As strings 9 > 10, so bounds of the strings would exclude what matches as numbers.
    write(tmp_path, {"a": pa.table({"x": ["10", "9"], "n": [9, 10], "b": [0, 7]})})
    dataset = MosaicDataset(
        tmp_path, schema=pa.schema({"x": pa.int64(), "n": pa.string(), "b": pa.bool_()})
    )
    assert dataset.read(filters=[("x", ">", 9)])["x"].to_pylist() == [10]
    assert dataset.read(filters=[("x", "<", 10)])["x"].to_pylist() == [9]
    assert dataset.read(filters=[("n", "<", "2")])["n"].to_pylist() == ["10"]
    assert dataset.read(filters=[("n", ">", "8")])["n"].to_pylist() == ["9"]
    assert dataset.read(filters=[("b", "==", True)])["n"].to_pylist() == ["10"]


def test_nan_is_not_pruned_away(tmp_path):
    write(
        tmp_path,
        {
            "a": pa.table({"x": pa.array([1.0, NAN], pa.float32())}),
            "b": pa.table({"x": pa.array([NAN, 2.0])}),
            "c": pa.table({"x": pa.array([NAN, NAN])}),
        },
    )
    dataset = MosaicDataset(tmp_path)
    assert dataset.count_rows(pc.field("x") != 1.0) == 5
    assert dataset.count_rows(~(pc.field("x") <= 100)) == 4
    assert dataset.count_rows(pc.is_nan(pc.field("x"))) == 4
    assert dataset.count_rows(pc.field("x") > 0) == 2


def test_projection_reads_nothing_else(tmp_path, scanned, monkeypatch):
    pages = []
    decode = Fetcher.decode

    def counted(self, task, *args):
        pages.extend(task.part.positions)
        return decode(self, task, *args)

    monkeypatch.setattr(Fetcher, "decode", counted)
    values = pa.array(range(3000), pa.int64())
    table = pa.table({f"c{i:03d}": values for i in range(200)})
    write(tmp_path, {f"k=1/f{i}": table for i in range(3)}, page_size_threshold=0)
    dataset = MosaicDataset(tmp_path)
    scanned.clear()
    table = dataset.read(["c007", "k"], filters=[("c009", "<", 5)])
    assert table.num_rows == 15
    assert table.column_names == ["c007", "k"]
    assert {column for _, column, _ in scanned} == {"c007", "c009"}
    assert len(pages) == 2 * 3  # of each column in each file


def test_no_columns_keep_the_rows(tmp_path, scanned):
    write(tmp_path, {f"k={i}/f": pa.table({"x": range(7)}) for i in range(3)}, row_group_size=2)
    dataset = MosaicDataset(tmp_path)
    scanned.clear()
    assert dataset.read([]).shape == (21, 0)
    assert sum(batch.num_rows for batch in dataset.iter_batches(4, columns=[])) == 21
    assert dataset.scanner(columns=[]).to_table().num_rows == 21
    assert dataset.scanner(columns=[]).count_rows() == 21
    assert dataset.read(["k"]).num_rows == 21
    assert dataset.count_rows([("k", "!=", 1)]) == 14
    assert dataset.count_rows(pc.scalar(True)) == 21
    assert scanned == []


def test_rows_without_columns_survive_filtering_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(fileset, "MAX_HELD_BYTES", 1)
    write(tmp_path, {f"f{i}": pa.table({"x": range(10)}) for i in range(5)}, row_group_size=3)
    dataset = MosaicDataset(tmp_path)
    assert dataset.read([], filters=[("x", ">", 4)]).num_rows == 25
    assert dataset.read(["x"], filters=[("x", ">", 4)]).num_rows == 25
    for num_rows, expected in [(0, 0), (12, 12), (25, 25), (99, 25)]:
        assert dataset.head(num_rows, columns=[], filter=pc.field("x") > 4).num_rows == expected
    assert dataset.head(99, columns=[]).num_rows == 50
    assert dataset.count_rows([("x", ">", 4)]) == 25


def test_batches_are_joined_up_to_a_size(tmp_path, monkeypatch):
    text = "x" * 1000
    table = pa.table({"s": [text] * 50})
    write(tmp_path, {f"f{i}": table for i in range(6)}, use_dictionary=False)
    dataset = MosaicDataset(tmp_path)
    assert [batch.num_rows for batch in dataset.iter_batches()] == [300]
    monkeypatch.setattr(fileset, "MAX_JOINED_BYTES", 120_000)
    assert [batch.num_rows for batch in dataset.iter_batches()] == [100, 100, 100]
    monkeypatch.setattr(fileset, "MAX_JOINED_BYTES", 1)
    assert [batch.num_rows for batch in dataset.iter_batches()] == [50] * 6
    assert [batch.num_rows for batch in dataset.iter_batches(30)] == [30, 20] * 6


def test_order_of_columns(tmp_path):
    write(tmp_path, {"k=1/f": pa.table({"a": [1], "b": [2], "c": [3]})})
    dataset = MosaicDataset(tmp_path)
    wanted = ["k", "c", "a", "c", "k"]
    assert dataset.read(wanted).column_names == ["k", "c", "a"]
    assert dataset.read(wanted, filters=[("b", ">", 0)]).column_names == ["k", "c", "a"]
    assert dataset.scanner(wanted, pc.field("b") > 0).to_table().column_names == ["k", "c", "a"]
    assert next(dataset.iter_batches(columns=wanted)).schema.names == ["k", "c", "a"]
    assert dataset.read().column_names == ["a", "b", "c", "k"]
    assert dataset.read(filters=[("k", "==", 1)]).column_names == ["a", "b", "c", "k"]


def test_columns_that_are_not_there(tmp_path):
    write(tmp_path, {"k=1/f": pa.table({"temperature": [1], "pressure": [1]})})
    dataset = MosaicDataset(tmp_path)
    for ask in (
        lambda: dataset.read(["presure"]),
        lambda: dataset.iter_batches(columns=["presure"]),
        lambda: dataset.scanner(["presure"]),
        lambda: dataset.read(filters=[("presure", "==", 1)]),
        lambda: dataset.count_rows(pc.field("presure") == 1),
        lambda: dataset.scanner({"p": pc.field("presure")}),
        lambda: fm.read_table(tmp_path, columns=["presure"]),
    ):
        with pytest.raises(ColumnNotFoundError, match="'presure'; did you mean 'pressure'"):
            ask()
    for columns in ("pressure", [1], [b"pressure"]):
        with pytest.raises(TypeError, match="column"):
            dataset.read(columns)
        with pytest.raises(TypeError, match="column"):
            dataset.scanner(columns)


# --- against Arrow

COLUMN_TYPES = {
    "i": [pa.int8(), pa.int32(), pa.int64()],
    "f": [pa.float32(), pa.float64()],
    "t": [pa.timestamp("ms"), pa.timestamp("us")],
    "s": [pa.string()],
    "b": [pa.bool_()],
    "d": [pa.decimal128(4, 2), pa.decimal128(9, 2), pa.decimal128(8, 4)],
}
VALUES = {
    "i": st.integers(-128, 127),
    "f": st.sampled_from([0.0, -0.0, 1.5, -2.5, NAN, float("inf"), 0.1]),
    "t": st.integers(-5, 5).map(
        lambda days: datetime.datetime(2024, 1, 10) + datetime.timedelta(days)
    ),
    "s": st.sampled_from(["", "a", "b", "ab", "ü"]),
    "b": st.booleans(),
    "d": st.integers(-9999, 9999).map(lambda cents: Decimal(cents).scaleb(-2)),
}


@st.composite
def file_sets(draw):
    """Tables with some of the columns, and how each is written."""
    files = []
    for _ in range(draw(st.integers(1, 4))):
        num_rows = draw(st.integers(0, 9))
        columns = {}
        for name in draw(st.lists(st.sampled_from(sorted(COLUMN_TYPES)), unique=True)):
            type = draw(st.sampled_from(COLUMN_TYPES[name]))
            pool = draw(st.lists(st.one_of(VALUES[name], st.none()), min_size=1, max_size=3))
            rng = random.Random(draw(st.integers(0, 99)))
            columns[name] = pa.array([rng.choice(pool) for _ in range(num_rows)], type)
        table = pa.table(columns) if columns else strategies.without_columns(num_rows)
        options = {
            "write_statistics": draw(st.booleans()),
            "row_group_size": draw(st.sampled_from([1, 2, 3, None])),
        }
        files.append((draw(st.sampled_from(["1", "2", "30", None])), table, options))
    return files


@st.composite
def cases(draw):
    files = draw(file_sets())
    names = [*sorted({name for _, table, _ in files for name in table.column_names}), "k"]

    def condition():
        name = draw(st.sampled_from(names))
        column = pc.field(name)
        values = VALUES.get(name, st.sampled_from([1, 2, 30, 31]))
        kind = draw(st.sampled_from(["null", "valid", "==", "!=", "<", ">=", "in", "not"]))
        value = draw(values)
        if kind == "null":
            return column.is_null()
        if kind == "valid":
            return column.is_valid()
        if kind == "in" and name in "isk":
            return column.isin([value, draw(values)])
        if kind == "not":
            return ~(column == value)
        if kind == "<" and name != "b":
            return column < value
        if kind == ">=" and name != "b":
            return column >= value
        return column != value if kind == "!=" else column == value

    expression = condition()
    for _ in range(draw(st.integers(0, 2))):
        other = condition()
        expression = expression & other if draw(st.booleans()) else expression | other
    columns = draw(st.one_of(st.none(), st.lists(st.sampled_from(names), unique=True)))
    return files, expression, columns


def concatenated(files):
    """What Arrow makes of the files."""
    parts = []
    for partition, table, _ in files:
        key = pa.array([None if partition is None else int(partition)] * table.num_rows, pa.int32())
        if not table.num_columns:
            parts.append(pa.table({"k": key}))
        else:
            parts.append(table.append_column("k", key))
    whole = pa.concat_tables(parts, promote_options="permissive")
    names = dict.fromkeys(name for _, table, _ in files for name in table.column_names)
    return whole.select([*names, "k"])


def first(table, num_rows):
    return table.slice(0, min(num_rows, table.num_rows))  # without columns, Arrow makes rows up


def rows_of(table):
    return [repr(row) for row in table.to_pylist()] if table.num_columns else table.num_rows


@settings(max_examples=2 * settings.default.max_examples)
@given(cases())
def test_every_way_to_read_agrees_with_arrow(case):
    files, expression, columns = case
    with tempfile.TemporaryDirectory() as root:
        for number, (partition, table, options) in enumerate(files):
            key = "__HIVE_DEFAULT_PARTITION__" if partition is None else partition
            write(root, {f"n{number}/k={key}/f": table}, **options)
        # Without a value there is nothing to infer a type from.
        partitioning = pa.schema({"k": pa.int32()})
        dataset = MosaicDataset(root, partitioning=partitioning)
        whole = concatenated(files)
        assert dataset.schema.names == whole.column_names
        assert dataset.schema.types == whole.schema.types
        assert dataset.count_rows() == whole.num_rows
        filtered = whole.filter(expression)
        expected = filtered if columns is None else filtered.select(columns)
        same = rows_of(expected)
        assert rows_of(dataset.read(columns, filters=expression)) == same
        assert rows_of(dataset.read(columns, filters=expression, use_threads=False)) == same
        assert rows_of(dataset.to_table(columns, expression)) == same
        assert rows_of(dataset.scanner(columns, expression).to_table()) == same
        batches = list(dataset.iter_batches(2, columns=columns, filters=expression))
        assert all(1 <= batch.num_rows <= 2 for batch in batches)
        if columns != []:
            schema = dataset.read(columns).schema
            assert rows_of(pa.Table.from_batches(batches, schema=schema)) == same
        assert sum(batch.num_rows for batch in batches) == filtered.num_rows
        assert dataset.count_rows(expression) == filtered.num_rows
        assert rows_of(dataset.head(3, columns, expression)) == rows_of(first(expected, 3))
        unfiltered = whole if columns is None else whole.select(columns)
        assert rows_of(dataset.head(3, columns)) == rows_of(first(unfiltered, 3))
        if whole.num_rows:
            indices = [whole.num_rows - 1, 0, whole.num_rows // 2, 0]
            taken = whole.take(indices)
            expected_rows = rows_of(taken if columns is None else taken.select(columns))
            assert rows_of(dataset.take(indices, columns)) == expected_rows


# --- many files, many columns


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """1,000 files of one schema with 10,000 columns: the same file under many names."""
    root = tmp_path_factory.mktemp("wide")
    value = pa.array([1], pa.int8())
    table = pa.table({f"column_{i:05d}": value for i in range(10_000)})
    fm.write_table(table, root / "f0000", write_statistics=["column_00007"])
    for i in range(1, 1000):
        os.link(root / "f0000", root / f"f{i:04d}")
    return root


@pytest.fixture
def made(monkeypatch):
    """How often schema blocks are decoded, and fields made."""
    counts = Counter()
    decode, field = schemas.SchemaBlock.decode, pa.field

    def counted_decode(body):
        counts["blocks"] += 1
        return decode(body)

    def counted_field(*args, **options):
        counts["fields"] += 1
        return field(*args, **options)

    monkeypatch.setattr(opening.SchemaBlock, "decode", counted_decode)
    monkeypatch.setattr(pa, "field", counted_field)
    opening.SCHEMAS.clear()
    return counts


def test_one_schema_of_many_files_is_decoded_once(wide, made, opened):
    dataset = MosaicDataset(wide)
    assert made == {"blocks": 1}
    assert len(opened) == 1000
    assert dataset.count_rows() == 1000
    names = ["column_05000"]
    assert dataset.read(names, filters=[("column_00007", "==", 1)]).num_rows == 1000
    assert dataset.read(names, filters=[("column_00007", "==", 2)]).num_rows == 0
    assert made["blocks"] == 1
    assert made["fields"] < 50
    opened.clear()
    assert dataset.head(1, names).num_rows == 1
    assert dataset.take([500], names).num_rows == 1
    assert opened == ["f0000", "f0500"]


def test_one_file_of_many_is_read_alone(wide, made, opened, tmp_path):
    for i in range(3):
        (tmp_path / f"k={i}").mkdir()
        os.link(wide / "f0000", tmp_path / f"k={i}" / f"f{i}")
    dataset = MosaicDataset(tmp_path)
    opened.clear()
    assert dataset.read(["column_00001", "k"], filters=[("k", "==", 2)]).num_rows == 1
    assert opened == ["f2"]
    assert made["blocks"] == 1
    assert made["fields"] < 20


def test_a_filter_does_not_look_at_every_field_of_a_given_schema(wide, made, monkeypatch):
    schema = pa.schema([(f"column_{i:05d}", pa.int8()) for i in range(10_000)])
    dataset = MosaicDataset(wide / "f0000", schema=schema)
    made.clear()
    asked = []
    original = fileset.Fixed.field
    monkeypatch.setattr(
        fileset.Fixed, "field", lambda self, name: asked.append(name) or original(self, name)
    )
    assert dataset.read(["column_00001"], filters=[("column_09999", "==", 1)]).num_rows == 1
    assert set(asked) == {"column_00001", "column_09999"}
    assert made["fields"] < 20


def test_many_schemas_are_decoded_once_each(tmp_path, made):
    for turn in range(3):
        write(tmp_path, {f"{turn}{i:02d}": pa.table({f"c{i:02d}": [i]}) for i in range(20)})
    made.clear()
    dataset = MosaicDataset(tmp_path)
    assert made["blocks"] == 20
    assert dataset.read().num_columns == 20
    assert dataset.read(["c07"]).column(0).drop_null().to_pylist() == [7, 7, 7]
    assert made["blocks"] == 20


def test_few_files_are_open_at_a_time(wide):
    program = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
import fsspec
import pyarrow.fs
import fastmosaic as fm
for filesystem in (None, pyarrow.fs.LocalFileSystem(), fsspec.filesystem("file")):
    dataset = fm.MosaicDataset({str(wide)!r}, filesystem=filesystem)
    assert dataset.read(["column_00001"]).num_rows == 1000
    assert dataset.count_rows([("column_00002", "==", 1)]) == 1000
    assert sum(batch.num_rows for batch in dataset.iter_batches(columns=["column_00003"])) == 1000
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# --- threads


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_change_nothing(tmp_path, monkeypatch, threads):
    rng = random.Random(7)
    tables = {
        f"f{i:02d}": pa.table({"x": [rng.random() for _ in range(500)], "n": [i] * 500})
        for i in range(20)
    }
    write(tmp_path, tables, row_group_size=100)
    monkeypatch.setattr(fileset, "num_threads", lambda: threads)
    monkeypatch.setattr(fileset, "MIN_THREADED_BYTES", 0)
    dataset = MosaicDataset(tmp_path)
    expected = pa.concat_tables(tables.values())
    for use_threads in (True, False):
        assert dataset.read(use_threads=use_threads).equals(expected)
        batches = dataset.iter_batches(77, filters=[("x", "<", 0.5)], use_threads=use_threads)
        found = pa.Table.from_batches(batches)
        assert found.equals(expected.filter(pc.field("x") < 0.5))


class Slow(pafs.FSSpecHandler):
    """A filesystem far away: reads are counted, and wait until `together` of them are under way."""

    def __init__(self, together=None, fails=()):
        super().__init__(fsspec.filesystem("file"))
        self.fs = None  # or else it would be looked through, to the filesystem behind it
        self._local = pafs.LocalFileSystem()
        self.together = together and threading.Barrier(together)
        self.fails = fails
        self.turn = threading.Lock()
        self.waiting = self.most = self.reads = 0

    def get_type_name(self):
        return "slow"

    def get_file_info(self, paths):
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector):
        return self._local.get_file_info(selector)

    def normalize_path(self, path):
        return path

    def open_input_file(self, path):
        return pa.PythonFile(_SlowFile(self, path), mode="r")

    def read(self, path, offset, length):
        with self.turn:
            self.waiting += 1
            self.reads += 1
            self.most = max(self.most, self.waiting)
        if self.together:
            self.together.wait(timeout=60)
        with self.turn:
            self.waiting -= 1
        if path.endswith(tuple(self.fails)):
            raise PermissionError(13, "not today", path)
        return Path(path).read_bytes()[offset : offset + length]


class _SlowFile:
    closed = False

    def __init__(self, owner, path):
        self._owner, self._path = owner, path
        self._size = os.path.getsize(path)
        self._offset = 0

    def read(self, size):
        data = self._owner.read(self._path, self._offset, size)
        self._offset += len(data)
        return data

    def seek(self, offset, whence=os.SEEK_SET):
        self._offset = offset + {os.SEEK_SET: 0, os.SEEK_END: self._size}[whence]
        return self._offset

    def tell(self):
        return self._offset

    def close(self):
        self.closed = True


def test_waits_for_remote_files_overlap(tmp_path):
    write(tmp_path, {f"f{i:02d}": pa.table({"x": [i]}) for i in range(16)})
    handler = Slow(together=8)
    dataset = MosaicDataset(str(tmp_path), filesystem=pafs.PyFileSystem(handler))
    assert handler.reads == 16
    table = dataset.read(["x"])
    assert table["x"].to_pylist() == list(range(16))
    assert handler.reads == 32
    handler.together, handler.most = None, 0
    assert dataset.read(["x"], use_threads=False).equals(table)
    assert handler.most == 1


def test_an_error_in_one_file_stops_all_and_names_it(tmp_path):
    write(tmp_path, {f"f{i:03d}": pa.table({"x": range(100)}) for i in range(100)})
    handler = Slow()
    dataset = MosaicDataset(str(tmp_path), filesystem=pafs.PyFileSystem(handler))
    handler.fails = ("f003",)
    for read in (
        dataset.read,
        lambda: list(dataset.iter_batches()),
        lambda: dataset.scanner().to_table(),
        lambda: dataset.count_rows([("x", "==", 1)]),
    ):
        handler.reads = 0
        with pytest.raises(PermissionError, match="f003"):
            read()
        done = handler.reads
        assert done < 90
        assert handler.waiting == 0
        time.sleep(0.02)
        assert handler.reads == done
    handler.fails = ()
    assert dataset.read().num_rows == 10_000


def test_batches_that_nobody_wants_are_not_read(tmp_path):
    write(tmp_path, {f"f{i:03d}": pa.table({"x": range(100)}) for i in range(100)})
    handler = Slow()
    dataset = MosaicDataset(str(tmp_path), filesystem=pafs.PyFileSystem(handler))
    handler.reads = 0
    assert dataset.head(5, filter=pc.field("x") > 50).num_rows == 5
    assert handler.reads == 1
    assert dataset.head(5).num_rows == 5
    assert dataset.take([150, 10, 199]).num_rows == 3
    assert handler.reads == 1 + 1 + 2
    assert dataset.count_rows() == 10_000
    assert handler.reads == 4


# --- bad input


def test_empty_directories(tmp_path):
    with pytest.raises(FileNotFoundError, match="contains no files"):
        fm.read_table(tmp_path)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden").touch()
    with pytest.raises(FileNotFoundError, match="contains no files, only hidden ones"):
        MosaicDataset(tmp_path)
    with pytest.raises(FileNotFoundError, match="No file matches"):
        MosaicDataset(str(tmp_path / "*.mosaic"))
    with pytest.raises(ValueError, match="empty"):
        fm.read_table([])
    with pytest.raises(FileNotFoundError):
        MosaicDataset(tmp_path / "nowhere")


def parquet_file(path):
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"x": [1]}), path)


def corrupt_file(path):
    fm.write_table(pa.table({"x": [1]}), path)
    path.write_bytes(path.read_bytes()[:-1])


FOREIGN = {
    "README.md": lambda path: path.write_text("Files of sales, one a day.\n" * 20),
    "b.parquet": parquet_file,
    "b.mosaic": corrupt_file,
    "empty": lambda path: path.touch(),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_and_corrupt_files_are_named(tmp_path, name):
    write(tmp_path, {"a": pa.table({"x": [1]}), "z": pa.table({"x": [1]})})
    FOREIGN[name](tmp_path / name)
    with pytest.raises(CorruptFileError, match=name):
        MosaicDataset(tmp_path)
    with pytest.raises(CorruptFileError, match=name):
        fm.read_table(tmp_path, columns=["x"])
    given_one = MosaicDataset(tmp_path, schema=pa.schema({"x": pa.int8()}))
    with pytest.raises(CorruptFileError, match=name):
        given_one.read()


def test_damage_within_a_file_is_found_where_it_is_read(tmp_path):
    write(tmp_path, {f: pa.table({"x": range(1000), "y": range(1000)}) for f in "abc"})
    data = bytearray((tmp_path / "b").read_bytes())
    data[10] ^= 255
    (tmp_path / "b").write_bytes(data)
    dataset = MosaicDataset(tmp_path)
    for read in (dataset.read, lambda: list(dataset.iter_batches()), dataset.to_table):
        with pytest.raises(CorruptFileError, match=r"/b: row group 0, bucket"):
            read()
    with pytest.raises(CorruptFileError, match=r"/b: row group 0, bucket"):
        dataset.scanner().to_table()


def test_files_that_cannot_be_read(tmp_path):
    write(tmp_path, {"a": pa.table({"x": [1]})})
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="broken"):
        MosaicDataset(tmp_path)
    (tmp_path / "broken").unlink()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="loop"):
        MosaicDataset(tmp_path)
    (tmp_path / "loop").unlink()
    (tmp_path / "below").symlink_to(tmp_path)  # its files are there already
    assert MosaicDataset(tmp_path).count_rows() == 1
    handler = Slow(fails=("a",))
    with pytest.raises(PermissionError, match=r"not today.*/a'"):
        MosaicDataset(str(tmp_path / "a"), filesystem=pafs.PyFileSystem(handler))


def test_files_that_change_are_noticed(tmp_path):
    write(tmp_path, {f: pa.table({"x": [1]}) for f in "abc"})
    dataset = MosaicDataset(tmp_path)
    write(tmp_path, {"b": pa.table({"x": range(100)})})
    for read in (dataset.read, dataset.scanner().to_table, lambda: list(dataset.iter_batches())):
        with pytest.raises(OSError, match=r"/b has \d+ bytes, but had \d+ when the dataset"):
            read()
    (tmp_path / "b").unlink()
    for read in (dataset.read, dataset.scanner().to_table, lambda: list(dataset.iter_batches())):
        with pytest.raises(FileNotFoundError, match="/b"):
            read()
    assert dataset.head(1).num_rows == 1  # of a, which is as it was


def test_row_groups_are_of_one_file(tmp_path):
    root = write(tmp_path, {f: pa.table({"x": [1]}) for f in "ab"})
    for source in (root, f"{root}/*", [f"{root}/a", f"{root}/b"]):
        with pytest.raises(ValueError, match="row_groups= requires a single file"):
            fm.read_table(source, row_groups=[0])
        assert fm.read_table(source).num_rows == 2
    assert fm.read_table(f"{root}/a", row_groups=[0]).num_rows == 1


def test_lists_keep_their_order(tmp_path):
    root = write(tmp_path, {f"k={f}/{f}": pa.table({"x": [f]}) for f in "abc"})
    files = [f"{root}/k={f}/{f}" for f in "cab"]
    table = fm.read_table(files)
    assert table.to_pylist() == [{"x": f, "k": f} for f in "cab"]
    with pytest.raises(ValueError, match="twice"):
        fm.read_table([files[0], files[0]])


def test_a_column_without_a_single_file(tmp_path):
    """Files without rows, without columns, and without row groups."""
    write(
        tmp_path,
        {
            "k=1/a": pa.table({"x": pa.array([], pa.int8())}),
            "k=2/b": strategies.without_columns(3),
            "k=3/c": strategies.without_columns(0),
        },
    )
    dataset = MosaicDataset(tmp_path)
    assert dataset.read().to_pylist() == [{"x": None, "k": 2}] * 3
    assert dataset.count_rows(pc.field("x").is_null()) == 3
    assert dataset.count_rows(pc.field("x").is_valid()) == 0
    assert dataset.take([2, 0]).num_rows == 2


def test_partitions_are_pruned_beside_a_function_of_another_column(tmp_path):
    names = {f"k={i}/f": pa.table({"s": ["a", "b"]}) for i in range(4)}
    write(tmp_path, names)
    files = fileset.FileSet(tmp_path)
    expression = (pc.field("k") == 2) & pc.starts_with(pc.field("s"), "a")
    (planned,) = files.plan(files.query(["s"], expression))
    assert planned.file.values[0].as_py() == 2
    assert files.read(["s"], expression).to_pydict() == {"s": ["a"]}


def test_a_function_of_a_partition_chooses_files_exactly(tmp_path):
    write(tmp_path, {f"k={i}/f": pa.table({"x": [i]}) for i in range(10)})
    files = fileset.FileSet(tmp_path)
    expression = pc.bit_wise_and(pc.field("k"), 3) == 3
    assert [one.file.values[0].as_py() for one in files.plan(files.query(["x"], expression))] == [
        3,
        7,
    ]


def test_files_that_cannot_be_opened_may_be_left_out(tmp_path):
    write(tmp_path, {"good": pa.table({"x": [1]})})
    (tmp_path / "notes.txt").write_text("a file of another kind")
    with pytest.raises(CorruptFileError, match="not a Mosaic file"):
        fileset.FileSet(tmp_path)
    with pytest.warns(UserWarning, match="skipped 1 unreadable files"):
        files = fileset.FileSet(tmp_path, skip_corrupt=True)
    assert files.read().to_pydict() == {"x": [1]}
    with pytest.raises(CorruptFileError, match="not a Mosaic file"):
        fileset.FileSet(tmp_path / "*.txt", skip_corrupt=True)


@pytest.mark.parametrize("use_threads", [True, False])
def test_head_with_a_filter_honours_use_threads(tmp_path, monkeypatch, use_threads):
    write(tmp_path, {"a": pa.table({"x": range(10)})}, row_group_size=2)
    asked = []
    original = one_file.Scanner

    class Recording(original):
        def read(self, request, groups, memory):
            asked.append(request.use_threads)
            return super().read(request, groups, memory)

    monkeypatch.setattr(one_file, "Scanner", Recording)
    dataset = MosaicDataset(tmp_path)
    found = dataset.head(2, ["x"], pc.field("x") > 3, use_threads=use_threads)
    assert found["x"].to_pylist() == [4, 5]
    assert asked == [use_threads]
