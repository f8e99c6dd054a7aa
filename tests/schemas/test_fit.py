"""Batches that are made to fit a schema."""

import pyarrow as pa
import pytest
import strategies
from hypothesis import given, strategies as st

from fastmosaic.errors import SchemaMismatchError, UnsupportedError
from fastmosaic.format.file_schema import FileSchema
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.schemas.fit import Fit, Fits, plain_schema
from fastmosaic.schemas.widen import unite

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


def list_of(type, nullable=True, name="item"):
    return pa.list_(pa.field(name, type, nullable))


def map_of(key, value, nullable=True):
    return pa.map_(pa.field("key", key, False), pa.field("value", value, nullable))


@st.composite
def columns_and_their_like(draw):
    """A column, and a column whose type may be wider or narrower."""
    kind = draw(st.sampled_from(["integer", "float", "decimal", "list", "map", "any"]))
    if kind == "any":
        type = draw(strategies.types(2))
        types = [type, type]
    else:
        like = {
            "integer": st.sampled_from(INTEGERS),
            "float": st.sampled_from(
                [pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64()]
            ),
            "decimal": st.builds(pa.decimal128, st.integers(1, 19), st.integers(-5, 14)),
            "list": st.builds(list_of, st.sampled_from(INTEGERS), st.booleans()),
            "map": st.builds(
                map_of, st.sampled_from(INTEGERS), st.sampled_from(INTEGERS), st.booleans()
            ),
        }[kind]
        types = [draw(like), draw(like)]
    fields = [pa.field("c", type, draw(st.booleans())) for type in types]
    return [
        (field, strategies.array_of(field.type, draw(st.lists(strategies.nullable(field)))))
        for field in fields
    ]


@given(columns_and_their_like())
def test_the_union_holds_every_value(columns):
    schemas = [pa.schema([field]) for field, _ in columns]
    target = unite([(schema, "file") for schema in schemas])
    assert target.field("c").nullable == any(field.nullable for field, _ in columns)
    for schema, (field, array) in zip(schemas, columns, strict=True):
        (fitted,) = Fit(schema, target)(pa.record_batch([array], schema=schema))
        fitted.validate(full=True)
        assert fitted.schema == target
        if field.type == target.field("c").type:
            expected = pa.Table.from_arrays([array], schema=target)
            strategies.assert_same(pa.Table.from_batches([fitted]), expected)
        elif not pa.types.is_temporal(field.type):  # whose limits Python has its own idea of
            left, right = fitted.column(0).to_pylist(), array.to_pylist()
            assert repr(left) == repr(right) or left == right


def fit(target, data, *, drop=False):
    return pa.Table.from_batches(list(Fits(target, drop=drop)(pa.record_batch(data))))


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
    with pytest.raises(
        SchemaMismatchError, match="'a': cannot convert uint64 to int8 without loss"
    ):
        fit(pa.schema({"a": pa.int8()}), {"a": pa.array([300], pa.uint64())})


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view()])
def test_dictionaries_of_views_are_decoded(view):
    indices = pa.array([1, None, 0], pa.uint32())
    array = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"], view))
    stored = plain_schema(pa.schema({"kind": array.type}))
    (fitted,) = Fit(pa.schema({"kind": array.type}), stored, exact=True)(
        pa.record_batch({"kind": array})
    )
    expected = pa.array(["b", None, "a"], pa.string() if view == pa.string_view() else pa.binary())
    assert fitted.column(0).equals(expected)


def test_columns_that_are_not_wanted():
    target = pa.schema({"a": pa.int64()})
    with pytest.raises(SchemaMismatchError, match="'b' is not in the schema"):
        fit(target, {"a": [1], "b": [2]})
    assert fit(target, {"a": [1], "b": [2]}, drop=True).to_pydict() == {"a": [1]}
    (rows,) = Fits(pa.schema([]), drop=True)(pa.record_batch({"a": [1, 2]}))
    assert rows.num_rows == 2


def test_nulls_where_there_are_none():
    target = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(
        SchemaMismatchError, match="'a': contains a null where the schema allows none"
    ):
        fit(target, {"a": pa.array([None], pa.int64())})


def test_a_batch_that_fits_is_not_touched():
    batch = pa.record_batch({"a": [1], "b": ["x"]})
    (same,) = Fits(batch.schema)(batch)
    assert same is batch


def test_partitions_and_files_by_their_columns():
    stored = pa.schema({"z": pa.int8(), "a": pa.int8(), "unused": pa.int8()})
    target = pa.schema({"key": pa.string(), "a": pa.int16(), "new": pa.bool_(), "z": pa.int8()})
    block = SchemaBlock.from_arrow(stored, 100)
    fits = Fits(target, pa.schema({"key": pa.string()}))
    fit = fits.of_file(FileSchema(block))
    assert fits.of_file(FileSchema(block)) is fit
    assert [block.name(position) for position in fit.projection.positions] == ["a", "z"]
    assert fit.source == pa.schema({"a": pa.int8(), "z": pa.int8()})
    batch = pa.record_batch({"a": [1, 2], "z": [3, None]}, schema=fit.source)
    (found,) = fit(batch, (pa.scalar("k"),), "file")
    assert found.schema == target
    assert found.to_pydict() == {
        "key": ["k", "k"],
        "a": [1, 2],
        "new": [None, None],
        "z": [3, None],
    }


@pytest.mark.parametrize(
    ("type", "largest", "smallest_beyond"),
    [(pa.float64(), 2**53, 2**53 + 1), (pa.float32(), 2**24, 2**24 + 1)],
    ids=str,
)
def test_integers_that_a_float_cannot_represent(type, largest, smallest_beyond):
    target = pa.schema({"x": type})
    fits = Fits(target)
    exact = pa.record_batch({"x": pa.array([largest, -largest, None], pa.int64())})
    (found,) = fits(exact)
    assert found.column(0).to_pylist() == [largest, -largest, None]
    beyond = pa.record_batch({"x": [1, smallest_beyond, None, -smallest_beyond]})
    bits = largest.bit_length() - 1
    message = (
        rf"^some/file: column 'x': cannot convert int64 to {type} without loss: "
        rf"2 integers are beyond ±2\^{bits}, where {type} is no longer exact; pass schema="
    )
    with pytest.raises(SchemaMismatchError, match=message):
        list(fits(beyond, (), "some/file"))


def test_all_columns_that_cannot_be_stored_are_listed():
    schema = pa.schema({"a": pa.uint64(), "fine": pa.int8(), "b": pa.float16()})
    with pytest.raises(UnsupportedError, match=r"^2 columns cannot be stored:") as caught:
        plain_schema(schema, annex=False)
    lines = str(caught.value).splitlines()[1:]
    assert [line.split(";")[0] for line in lines] == [
        "  column 'a': without an annex, the format has no type for uint64",
        "  column 'b': without an annex, the format has no type for halffloat",
    ]
    assert all("cast it to" in line for line in lines)


def test_one_column_that_cannot_be_stored():
    union = pa.dense_union([pa.field("x", pa.int8())])
    with pytest.raises(UnsupportedError, match=r"^column 'a': the format has no type for dense_un"):
        plain_schema(pa.schema({"a": union}))


def test_many_columns_that_cannot_be_stored_are_counted():
    schema = pa.schema({f"c{i}": pa.float16() for i in range(1000)})
    with pytest.raises(UnsupportedError, match=r"^1000 columns cannot be stored:") as caught:
        plain_schema(schema, annex=False)
    lines = str(caught.value).splitlines()
    assert len(lines) == 12
    assert "column 'c9'" in lines[10]
    assert lines[11] == "  and 990 more"
