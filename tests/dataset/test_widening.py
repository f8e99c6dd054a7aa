"""A column that has integers in some files and floats in others."""

import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import fastmosaic as fm
from fastmosaic.dataset.fileset import FileSet

FILES = {
    "a": pa.array([1, 2, None, 2**53], pa.int64()),
    "b": pa.array([1.5, math.nan, -0.0, None, 2.0**60], pa.float64()),
    "c": pa.array([-5, 0, 7], pa.int16()),
    "d": pa.array([0.25, math.inf], pa.float32()),
}
UNITED = pa.concat_arrays([array.cast(pa.float64()) for array in FILES.values()])


def write(directory, files, **options):
    for name, array in files.items():
        fm.write_table(pa.table({"x": array}), directory / f"{name}.mosaic", **options)
    return str(directory)


def same(found, expected):
    return list(map(repr, found.to_pylist())) == list(map(repr, expected.to_pylist()))


def test_integers_and_floats_are_read_as_double(tmp_path):
    root = write(tmp_path, FILES)
    assert fm.MosaicDataset(root).schema == pa.schema({"x": pa.float64()})
    assert same(fm.read_table(root)["x"], UNITED)


@pytest.mark.parametrize("row_group_size", [1, 2, None])
def test_filters_and_statistics_compare_in_the_common_type(tmp_path, row_group_size):
    root = write(tmp_path, FILES, write_statistics=True, row_group_size=row_group_size)
    table = pa.table({"x": UNITED})
    x = pc.field("x")
    values = [-5, -0.0, 0.25, 1, 1.5, 2, 7, 2.0**53, 2.0**60, math.inf, math.nan]
    for value in values:
        for condition in (x == value, x != value, x < value, x <= value, x > value, x >= value):
            for expression in (condition, ~condition):
                expected = table.filter(expression)["x"]
                assert same(fm.read_table(root, filters=expression)["x"], expected), expression
    assert same(fm.read_table(root, filters=x.is_null())["x"], table.filter(x.is_null())["x"])


def test_row_groups_of_integers_are_skipped_by_a_filter_on_floats(tmp_path):
    files = {"a": pa.array([1, 2, 10, 20], pa.int64()), "b": pa.array([0.5, 15.5])}
    root = write(tmp_path, files, write_statistics=True, row_group_size=2)
    fileset = FileSet(root)

    def groups(condition):
        plan = fileset.plan(fileset.query(None, condition))
        return [(one.file.name.rsplit("/")[-1], one.groups) for one in plan]

    assert groups(pc.field("x") > 9.5) == [("a.mosaic", [1]), ("b.mosaic", [0])]
    assert groups(pc.field("x") < 0.75) == [("b.mosaic", [0])]


def test_integers_that_double_cannot_represent_are_not_rounded(tmp_path):
    large = {
        "a": pa.array([1, 2**53 + 1, -(2**60), 3], pa.int64()),
        "b": pa.array([0.5]),
    }
    root = write(tmp_path, large, write_statistics=True)
    message = (
        r"a\.mosaic: column 'x': cannot convert int64 to double without loss: 2 integers are "
        r"beyond ±2\^53, where double is no longer exact; pass schema= to choose another type"
    )
    dataset = fm.MosaicDataset(root)
    with pytest.raises(fm.SchemaMismatchError, match=message):
        dataset.read()
    with pytest.raises(fm.SchemaMismatchError, match=message):
        dataset.read(filters=[("x", ">", 5)])
    as_text = fm.read_table(root, schema=pa.schema({"x": pa.string()}))
    assert as_text["x"].to_pylist() == ["1", str(2**53 + 1), str(-(2**60)), "3", "0.5"]


def test_large_integers_in_row_groups_that_are_not_read_do_no_harm(tmp_path):
    files = {"a": pa.array([1, 2, 2**60], pa.int64()), "b": pa.array([0.5])}
    root = write(tmp_path, files, row_group_size=1)
    assert fm.MosaicDataset(root).head(2)["x"].to_pylist() == [1.0, 2.0]
