"""Files of any format as one table."""

import pyarrow as pa
import pytest

from fastmosaic.errors import SchemaMismatchError
from fastmosaic.schemas.uniting import Fitting, check_same, unite


def test_types_that_join():
    one = pa.schema({"i": pa.int8(), "t": pa.large_string(), "n": pa.null(), "only": pa.bool_()})
    other = pa.schema({"n": pa.int16(), "i": pa.uint8(), "t": pa.string()})
    united = unite([(one, "a"), (other, "b")])
    assert united == pa.schema(
        {"i": pa.int16(), "t": pa.string(), "n": pa.int16(), "only": pa.bool_()}
    )


def test_a_type_that_all_have_stays_as_it_is():
    schema = pa.schema({"u": pa.uint64(), "s": pa.struct({"a": pa.int8()})})
    wider = schema.append(pa.field("x", pa.int8()))
    assert unite([(schema, "a"), (wider, "b")]) == wider


def test_a_column_that_a_file_lacks_may_be_null():
    field = pa.field("x", pa.int8(), nullable=False)
    assert not unite([(pa.schema([field]), "a")] * 2).field("x").nullable
    assert unite([(pa.schema([field]), "a"), (pa.schema([]), "b")]).field("x").nullable


def test_numbers_of_text():
    schemas = [(pa.schema({"x": pa.int64()}), "a"), (pa.schema({"x": pa.float64()}), "b")]
    with pytest.raises(SchemaMismatchError, match=r"'x' is int64 in a and double in b.*; try it"):
        unite(schemas, advice="try it")
    assert unite(schemas, is_text=True) == pa.schema({"x": pa.float64()})


def test_schemas_that_should_be_the_same():
    one = pa.schema({"a": pa.int8(), "b": pa.int8()})
    check_same([(one, "x"), (one, "y")])
    for other, message in (
        (pa.schema({"a": pa.int8()}), "x has a column 'b', y has none"),
        (pa.schema({"a": pa.int8(), "b": pa.int8(), "c": pa.int8()}), "y has a column 'c'"),
        (pa.schema({"a": pa.int16(), "b": pa.int8()}), "'a' is int8 in x and int16 in y"),
    ):
        with pytest.raises(SchemaMismatchError, match=message):
            check_same([(one, "x"), (other, "y")])


def fit(target, data, *, drops=False):
    return pa.Table.from_batches(list(Fitting(target, drops).fit(pa.record_batch(data))))


def test_batches_that_fit():
    target = pa.schema({"a": pa.int64(), "b": pa.string(), "c": pa.float64()})
    data = {
        "b": pa.array(["x", "y", "x"]).dictionary_encode(),
        "a": pa.array([1, 2, 3], pa.uint8()),
    }
    found = fit(target, data)
    assert found.schema == target
    assert found.to_pydict() == {"a": [1, 2, 3], "b": ["x", "y", "x"], "c": [None] * 3}


def test_types_that_mosaic_lacks_are_cast_too():
    found = fit(pa.schema({"a": pa.int32()}), {"a": pa.array([1, None], pa.uint64())})
    assert found.to_pydict() == {"a": [1, None]}
    with pytest.raises(SchemaMismatchError, match="'a' is uint64 and cannot be made int8 without"):
        fit(pa.schema({"a": pa.int8()}), {"a": pa.array([300], pa.uint64())})


def test_columns_that_are_not_wanted():
    target = pa.schema({"a": pa.int64()})
    with pytest.raises(SchemaMismatchError, match="'b' is not among"):
        fit(target, {"a": [1], "b": [2]})
    assert fit(target, {"a": [1], "b": [2]}, drops=True).to_pydict() == {"a": [1]}
    (rows,) = Fitting(pa.schema([]), drops=True).fit(pa.record_batch({"a": [1, 2]}))
    assert rows.num_rows == 2


def test_nulls_where_there_are_none():
    target = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match="'a' has nulls"):
        fit(target, {"a": pa.array([None], pa.int64())})
