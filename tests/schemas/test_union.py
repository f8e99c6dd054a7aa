"""The union of schemas: which types join, in which order columns come, what becomes of values."""

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from fastmosaic.errors import ColumnNotFoundError, SchemaMismatchError
from fastmosaic.format.file_schema import FileSchema
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.schemas.union import Fixed, Union

NO_PARTITIONS = pa.schema([])


def union_of(*schemas, partitions=NO_PARTITIONS):
    files = {
        FileSchema(SchemaBlock.from_arrow(schema, 100)): f"file{i}"
        for i, schema in enumerate(schemas)
    }
    return Union(files, partitions)


def list_of(type, nullable=True, name="item"):
    return pa.list_(pa.field(name, type, nullable))


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


def test_types_that_do_not_join_name_the_column_and_both_files():
    union = union_of(
        pa.schema({"fine": pa.int8()}), pa.schema({"c": pa.int8()}), pa.schema({"c": pa.string()})
    )
    with pytest.raises(SchemaMismatchError, match=r"'c' is int8 in file1 and string in file2"):
        union.field("c")
    with pytest.raises(SchemaMismatchError, match="no common type; pass schema="):
        union.to_arrow()
    assert union.field("fine").type == pa.int8()


def test_a_conflict_with_a_widened_type_names_a_file_that_has_the_column():
    union = union_of(
        pa.schema({"c": pa.int8()}), pa.schema({"c": pa.int32()}), pa.schema({"c": pa.string()})
    )
    with pytest.raises(SchemaMismatchError, match=r"'c'.*file2"):
        union.field("c")


def test_columns_that_no_file_has_follow_those_of_files():
    strict = pa.field("a", pa.int8(), nullable=False)
    absent = FileSchema(SchemaBlock.from_arrow(pa.schema({"b": pa.string(), "c": pa.date32()}), 1))
    file = FileSchema(SchemaBlock.from_arrow(pa.schema([strict]), 1))
    union = Union({file: "file"}, pa.schema({"key": pa.string()}), absent)
    assert union.names() == union.paths() == ["a", "b", "c", "key"]
    assert union.field("a") == strict  # not null, because the file has it
    assert union.field("c") == pa.field("c", pa.date32())
    assert union.to_arrow().names == union.names()
    assert union.has("b")
    assert not union.has("d")
    assert union.occurring("b + key") == ["b", "key"]
    with pytest.raises(ColumnNotFoundError, match="'bb'"):
        union.field("bb")


schemas = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(INTEGERS), max_size=5),
    min_size=1,
    max_size=4,
)


@given(schemas)
def test_the_union_of_random_schemas(dictionaries):
    union = union_of(*map(pa.schema, dictionaries), partitions=pa.schema({"key": pa.string()}))
    expected = {}  # in the order of their first appearance
    for dictionary in dictionaries:
        for name, type in dictionary.items():
            held = expected.get(name, type)
            expected[name] = max(held, type, key=INTEGERS.index)
    assert union.names() == [*expected, "key"]
    assert union.to_arrow().names == [*expected, "key"]
    assert {field.name: field.type for field in union.to_arrow()} == {
        **expected,
        "key": pa.string(),
    }
    assert set(union.occurring("a c key")) == {name for name in expected if name in "ac"} | {
        *(name for name in expected if name in "key"),
        "key",
    }


def test_columns_come_in_the_order_of_their_first_file():
    union = union_of(
        pa.schema({"z": pa.int8(), "a": pa.int8()}),
        pa.schema({"y": pa.int8(), "a": pa.int16(), "b": pa.int8(), "z": pa.int8()}),
        partitions=pa.schema({"day": pa.date32(), "c": pa.int32()}),
    )
    assert union.to_arrow().names == ["z", "a", "y", "b", "day", "c"]
    assert union.field("a").type == pa.int16()


def test_one_block_has_its_own_order():
    schema = pa.schema({"z": pa.int8(), "a": pa.int8()})
    assert union_of(schema).to_arrow() == schema
    partitioned = union_of(schema, partitions=pa.schema({"k": pa.int32()}))
    assert partitioned.to_arrow().names == ["z", "a", "k"]


def test_a_column_is_not_null_only_where_every_file_has_it_so():
    required = pa.schema([pa.field("x", pa.int8(), False), pa.field("y", pa.int8(), False)])
    without = pa.schema([pa.field("x", pa.int16(), False)])
    optional = pa.schema([pa.field("x", pa.int8()), pa.field("y", pa.int8(), False)])
    both = union_of(required, without).to_arrow()
    assert [field.nullable for field in both] == [False, True]
    assert [field.nullable for field in union_of(required, optional).to_arrow()] == [True, False]


def test_elements_of_another_name_are_no_conflict():
    named = [pa.schema({"c": list_of(pa.int8(), name=name)}) for name in ("item", "element")]
    assert union_of(*named).field("c").type == list_of(pa.int8())


def test_unknown_columns():
    union = union_of(pa.schema({"price": pa.int8()}), pa.schema({"weight": pa.int8()}))
    with pytest.raises(ColumnNotFoundError, match="'wieght'; did you mean 'weight'"):
        union.field("wieght")
    fixed = Fixed(pa.schema({"price": pa.int8()}))
    with pytest.raises(ColumnNotFoundError, match="'prize'; did you mean 'price'"):
        fixed.field("prize")


def test_a_fixed_schema_has_each_column_once():
    with pytest.raises(ValueError, match="contains column 'a' more than once"):
        Fixed(pa.schema([("a", pa.int8()), ("a", pa.int8())]))
