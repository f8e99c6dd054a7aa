"""The union of schemas: which types join, in which order columns come, what becomes of values."""

import itertools

import pyarrow as pa
import pytest
import strategies
from hypothesis import given, strategies as st

from fastmosaic.errors import ColumnNotFoundError, SchemaMismatchError
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.schemas.union import Fitting, Fixed, Union, check_equal, widened

NO_PARTITIONS = pa.schema([])


def union_of(*schemas, partitions=NO_PARTITIONS):
    blocks = {SchemaBlock.from_arrow(schema, 100): f"file{i}" for i, schema in enumerate(schemas)}
    return Union(blocks, partitions)


def list_of(type, nullable=True, name="item"):
    return pa.list_(pa.field(name, type, nullable))


def map_of(key, value, nullable=True):
    return pa.map_(pa.field("key", key, False), pa.field("value", value, nullable))


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]

JOINS = [
    *((one, other, other) for one, other in itertools.combinations_with_replacement(INTEGERS, 2)),
    (pa.float32(), pa.float64(), pa.float64()),
    (pa.decimal128(5, 2), pa.decimal128(9, 2), pa.decimal128(9, 2)),
    (pa.decimal128(5, 2), pa.decimal128(5, 4), pa.decimal128(7, 4)),
    (pa.decimal128(5, -3), pa.decimal128(2, 1), pa.decimal128(9, 1)),
    (pa.decimal128(38, 0), pa.decimal128(1, 0), pa.decimal128(38, 0)),
    (pa.decimal128(30, 0), pa.decimal128(8, 8), pa.decimal128(38, 8)),
    (pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us")),
    (pa.timestamp("ms"), pa.timestamp("ns"), pa.timestamp("ns")),
    (pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ns")),
    (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    (pa.time32("s"), pa.time32("ms"), pa.time32("ms")),
    (list_of(pa.int8()), list_of(pa.int64()), list_of(pa.int64())),
    (list_of(pa.int8(), False), list_of(pa.int8()), list_of(pa.int8())),
    (
        list_of(list_of(pa.float32())),
        list_of(list_of(pa.float64(), False), False),
        list_of(list_of(pa.float64())),
    ),
    (
        map_of(pa.int8(), pa.timestamp("ms"), False),
        map_of(pa.int32(), pa.timestamp("ns")),
        map_of(pa.int32(), pa.timestamp("ns")),
    ),
    (
        map_of(pa.string(), list_of(pa.int8())),
        map_of(pa.string(), list_of(pa.int16())),
        map_of(pa.string(), list_of(pa.int16())),
    ),
]


@pytest.mark.parametrize(("one", "other", "expected"), JOINS, ids=str)
def test_types_that_join(one, other, expected):
    assert widened(one, other) == expected
    assert widened(other, one) == expected


ALONE = [
    pa.bool_(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(9, 2),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time32("ms"),
    pa.timestamp("ms"),
    pa.timestamp("ms", "UTC"),
    pa.timestamp("ms", "Europe/Berlin"),
    list_of(pa.int64()),
    list_of(pa.string()),
    map_of(pa.string(), pa.int64()),
    map_of(pa.string(), pa.string()),
    map_of(pa.int64(), pa.int64()),
]
CONFLICTS = [
    *(pair for pair in itertools.combinations(ALONE, 2) if pair != (pa.float32(), pa.float64())),
    (pa.decimal128(38, 0), pa.decimal128(38, 1)),
    (pa.decimal128(30, 0), pa.decimal128(9, 9)),
]


@pytest.mark.parametrize(("one", "other"), CONFLICTS, ids=str)
def test_types_that_do_not_join_name_the_column_and_both_files(one, other):
    assert widened(one, other) is None
    assert widened(other, one) is None
    union = union_of(pa.schema({"fine": pa.int8()}), pa.schema({"c": one}), pa.schema({"c": other}))
    with pytest.raises(SchemaMismatchError) as caught:
        union.field("c")
    for part in ("'c'", "file1", "file2", str(one), str(other), "schema="):
        assert part in str(caught.value)
    assert "file0" not in str(caught.value)
    with pytest.raises(SchemaMismatchError):
        union.to_arrow()
    assert union.field("fine").type == pa.int8()


def test_a_conflict_with_a_widened_type_names_a_file_that_has_the_column():
    union = union_of(
        pa.schema({"c": pa.int8()}), pa.schema({"c": pa.int32()}), pa.schema({"c": pa.string()})
    )
    with pytest.raises(SchemaMismatchError, match=r"'c'.*file2"):
        union.field("c")


@given(one=strategies.types(2), other=strategies.types(2), third=strategies.types(2))
def test_widening_does_not_depend_on_order(one, other, third):
    def join(left, right):
        return None if left is None or right is None else widened(left, right)

    assert join(one, one) == one
    assert join(one, other) == join(other, one)
    assert join(join(one, other), third) == join(one, join(other, third))


WIDENING = st.one_of(
    st.sampled_from(INTEGERS),
    st.sampled_from([pa.float32(), pa.float64()]),
    st.builds(pa.decimal128, st.integers(1, 19), st.integers(-5, 19)),
)


@given(st.lists(WIDENING, min_size=3, max_size=3))
def test_widening_does_not_depend_on_order_where_types_are_alike(types):
    results = set()
    for one, other, third in itertools.permutations(types):
        both = widened(one, other)
        results.add(None if both is None else widened(both, third))
    assert len(results) == 1


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
            "float": st.sampled_from([pa.float32(), pa.float64()]),
            "decimal": st.builds(pa.decimal128, st.integers(1, 19), st.integers(-5, 19)),
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
    union = union_of(*schemas)
    target = union.to_arrow()
    assert target.field("c").nullable == any(field.nullable for field, _ in columns)
    for schema, (field, array) in zip(schemas, columns, strict=True):
        block = SchemaBlock.from_arrow(schema, 100)
        fitting = Fitting(block, target, NO_PARTITIONS)
        fitted = fitting.fit(pa.record_batch([array], schema=schema), (), "file")
        fitted.validate(full=True)
        assert fitted.schema == target
        if field.type == target.field("c").type:
            expected = pa.Table.from_arrays([array], schema=target)
            strategies.assert_same(pa.Table.from_batches([fitted]), expected)
        elif not pa.types.is_temporal(field.type):  # whose limits Python has its own idea of
            left, right = fitted.column(0).to_pylist(), array.to_pylist()
            assert repr(left) == repr(right) or left == right


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
    with pytest.raises(ValueError, match="two columns of one name"):
        Fixed(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


DIFFERENCES = {
    "file0 has a column 'b', file1 has none": {"a": pa.int8()},
    "file1 has a column 'c', file0 has none": {"a": pa.int8(), "b": pa.int8(), "c": pa.int8()},
    "column 'b' is int8 in file0 and string in file1": {"a": pa.int8(), "b": pa.string()},
    "the same columns in another order": {"b": pa.int8(), "a": pa.int8()},
}


@pytest.mark.parametrize("message", DIFFERENCES)
def test_unequal_schemas_say_what_differs(message):
    blocks = {
        SchemaBlock.from_arrow(pa.schema(columns), 100): f"file{i}"
        for i, columns in enumerate([{"a": pa.int8(), "b": pa.int8()}, DIFFERENCES[message]])
    }
    with pytest.raises(SchemaMismatchError, match=f"{message}.*unify=True"):
        check_equal(blocks)


def test_schemas_that_differ_in_null():
    blocks = {
        SchemaBlock.from_arrow(pa.schema([pa.field("a", pa.int8(), nullable)]), 100): str(nullable)
        for nullable in (True, False)
    }
    with pytest.raises(SchemaMismatchError, match="'a' is int8 in True and int8 not null in False"):
        check_equal(blocks)


def test_buckets_make_no_schema_unequal():
    schema = pa.schema({"a": pa.int8(), "b": pa.int8()})
    check_equal({SchemaBlock.from_arrow(schema, n): str(n) for n in (1, 2)})
