"""The common type of two types, and the common schema of many files."""

import itertools

import pyarrow as pa
import pytest
import strategies
from hypothesis import given, strategies as st

from fastmosaic.errors import SchemaMismatchError
from fastmosaic.schemas.widen import check_same, unite, widened


def list_of(type, nullable=True, name="item"):
    return pa.list_(pa.field(name, type, nullable))


def map_of(key, value, nullable=True):
    return pa.map_(pa.field("key", key, False), pa.field("value", value, nullable))


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]

JOINS = [
    *((one, other, other) for one, other in itertools.combinations_with_replacement(INTEGERS, 2)),
    (pa.float32(), pa.float64(), pa.float64()),
    (pa.int8(), pa.float32(), pa.float32()),
    (pa.int16(), pa.float32(), pa.float32()),
    (pa.int32(), pa.float32(), pa.float64()),
    (pa.int64(), pa.float32(), pa.float64()),
    *((integer, pa.float64(), pa.float64()) for integer in INTEGERS),
    (list_of(pa.int64()), list_of(pa.float64()), list_of(pa.float64())),
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
    *(
        pair
        for pair in itertools.combinations(ALONE, 2)
        if not set(pair) <= {pa.int64(), pa.float32(), pa.float64()}
    ),
    (pa.decimal128(38, 0), pa.decimal128(38, 1)),
    (pa.decimal128(30, 0), pa.decimal128(9, 9)),
]


@given(one=strategies.types(2), other=strategies.types(2), third=strategies.types(2))
def test_widening_does_not_depend_on_order(one, other, third):
    def join(left, right):
        return None if left is None or right is None else widened(left, right)

    assert join(one, one) == one
    assert join(one, other) == join(other, one)
    assert join(join(one, other), third) == join(one, join(other, third))


WIDENING = st.one_of(
    st.sampled_from([*INTEGERS, pa.float32(), pa.float64()]),
    st.builds(pa.decimal128, st.integers(1, 19), st.integers(-5, 19)),
)


@given(st.lists(WIDENING, min_size=3, max_size=3))
def test_widening_does_not_depend_on_order_where_types_are_alike(types):
    results = set()
    for one, other, third in itertools.permutations(types):
        both = widened(one, other)
        results.add(None if both is None else widened(both, third))
    assert len(results) == 1


@pytest.mark.parametrize(("one", "other"), CONFLICTS, ids=str)
def test_types_without_a_common_type(one, other):
    assert widened(one, other) is None
    assert widened(other, one) is None
    with pytest.raises(
        SchemaMismatchError, match="there is no common type; pass schema="
    ) as caught:
        unite([(pa.schema({"c": one}), "file1"), (pa.schema({"c": other}), "file2")])
    assert f"'c' is {one} in file1 and {other} in file2" in str(caught.value)


def test_schemas_that_unite():
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


def test_the_advice_is_the_callers():
    schemas = [(pa.schema({"x": pa.int64()}), "a"), (pa.schema({"x": pa.string()}), "b")]
    with pytest.raises(SchemaMismatchError, match=r"'x' is int64 in a and string in b.*; try it"):
        unite(schemas, advice="try it")


def test_schemas_that_should_be_the_same():
    one = pa.schema({"a": pa.int8(), "b": pa.int8()})
    check_same([(one, "x"), (one, "y")])
    for other, message in (
        (pa.schema({"a": pa.int8()}), "x has a column 'b', y does not"),
        (pa.schema({"a": pa.int8(), "b": pa.int8(), "c": pa.int8()}), "y has a column 'c'"),
        (pa.schema({"a": pa.int16(), "b": pa.int8()}), "'a' is int8 in x and int16 in y"),
    ):
        with pytest.raises(SchemaMismatchError, match=message):
            check_same([(one, "x"), (other, "y")])


DIFFERENCES = {
    "file0 has a column 'b', file1 does not": {"a": pa.int8()},
    "file1 has a column 'c', file0 does not": {"a": pa.int8(), "b": pa.int8(), "c": pa.int8()},
    "column 'b' is int8 in file0 and string in file1": {"a": pa.int8(), "b": pa.string()},
    "the same columns in a different order": {"b": pa.int8(), "a": pa.int8()},
}


@pytest.mark.parametrize("message", DIFFERENCES)
def test_unequal_schemas_say_what_differs(message):
    columns = [{"a": pa.int8(), "b": pa.int8()}, DIFFERENCES[message]]
    schemas = [(pa.schema(one), f"file{i}") for i, one in enumerate(columns)]
    with pytest.raises(SchemaMismatchError, match=f"{message}; do this"):
        check_same(schemas, exact=True, advice="do this")


def test_schemas_that_differ_in_null():
    schemas = [
        (pa.schema([pa.field("a", pa.int8(), nullable)]), str(nullable))
        for nullable in (True, False)
    ]
    check_same(schemas)
    with pytest.raises(SchemaMismatchError, match="'a' is int8 in True and int8 not null in False"):
        check_same(schemas, exact=True)
