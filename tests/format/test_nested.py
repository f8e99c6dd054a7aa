"""List and map columns to flat columns and back: numbering, hidden values, damaged lengths."""

import pyarrow as pa
import pytest
import reference
from hypothesis import given, strategies as st
from reference import PLAIN
from strategies import array_of, list_types, map_types, tables, types

from fastmosaic.errors import CorruptFileError, SchemaMismatchError
from fastmosaic.format._decode import Batch, Pages
from fastmosaic.format.columns import ColumnDecoder
from fastmosaic.format.nested import BucketColumns, check_nulls, flatten
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.format.types import ColumnType, Kind
from fastmosaic.memory import Memory

nested_types = st.one_of(list_types(types(2)), map_types(types(2)))


def bucket_of(*fields):
    """Return the columns of a bucket, sorted by name."""
    return BucketColumns(SchemaBlock.from_arrow(pa.schema(fields), 1), 0)


def assembled(field, columns):
    """Assemble the array of a field from flat columns of the oracle."""
    columns_of = bucket_of(field.with_name("x").with_nullable(True))
    pages = [reference.encode_page(column, PLAIN) for column in columns]
    slots = [bytes([PLAIN, page.nulls != b""]) + page.nulls + page.data for page in pages]
    slots = [slot if any(column) else None for slot, column in zip(slots, columns, strict=True)]
    return decoded(slots, columns_of, [len(column) for column in columns])


def decoded(slots, columns, rows):
    """Decode the only column of a bucket from its slots, and check the same rows."""
    pages = [Pages.from_slots(slots, columns.kinds, columns.digits, rows, True) for _ in range(2)]
    decoder, checker = (ColumnDecoder(each, range(len(rows)), columns, [0]) for each in pages)
    batch = Batch(1)
    nulls = refusal = None
    try:
        nulls = checker.check(rows[0])
    except (CorruptFileError, OverflowError) as error:
        refusal = type(error), error.args
    try:
        decoder.decode(rows[0], batch, [0], Memory())
    except (CorruptFileError, OverflowError) as error:
        assert refusal == (type(error), error.args)  # noqa: PT017 - what was raised before
        raise
    schema = pa.schema([("x", columns.node(0).type.arrow)])
    column = batch.finish(rows[0], schema).column(0)
    assert nulls == column.null_count
    return column


def numbers(*values):
    """Return an int32 column in the oracle's form; None is null."""
    return reference.serialize(pa.array(values, pa.int32()))


# Numbering


def test_children_are_numbered_depth_first():
    columns = bucket_of(
        pa.field("id", pa.int32()),
        pa.field("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
        pa.field("tags", pa.list_(pa.string())),
    )
    assert (columns.num_columns, columns.num_flat, columns.num_children) == (3, 7, 4)
    assert list(columns.kinds) == [Kind.INT32] * 3 + [
        Kind.STRING,
        Kind.INT32,
        Kind.INT32,
        Kind.STRING,
    ]
    walks = [[node.flat for node in columns.node(i).walk()] for i in range(3)]
    assert walks == [[0], [1, 3, 4, 5], [2, 6]]
    assert [node.flat for node in columns.nested()] == [1, 2]
    lengths, key, value_lengths, element = columns.node(1).walk()
    assert [node.arrow for node in (lengths, key, value_lengths, element)] == [
        pa.int32(),
        pa.string(),
        pa.int32(),
        pa.int32(),
    ]


@given(st.lists(types(), min_size=1, max_size=6), st.integers(1, 3))
def test_flat_columns_are_those_of_the_oracle(arrows, num_buckets):
    fields = [pa.field(f"c{i}", arrow) for i, arrow in enumerate(arrows)]
    block = SchemaBlock.from_arrow(pa.schema(fields), num_buckets)
    for bucket in range(block.num_buckets):
        columns = BucketColumns(block, bucket)
        members = [fields[position].type for position in columns.positions]
        nodes = [columns.node(i) for i in range(columns.num_columns)]
        flat = sorted((node.flat, node.arrow) for root in nodes for node in root.walk())
        assert flat == list(enumerate(reference.flatten_types(members)))
        kinds = [ColumnType.from_arrow(pa.field("", arrow)).kind for _, arrow in flat]
        assert list(columns.kinds) == kinds


# Against the oracle


@given(tables(min_columns=1, max_columns=2, max_rows=65, column_types=nested_types))
def test_flat_columns_hold_what_the_oracle_says_and_give_it_back(table):
    for field, column in zip(table.schema, table.columns, strict=True):
        column_type = ColumnType.from_arrow(field)
        for array in column.chunks:
            flat = list(map(reference.serialize, flatten(array, column_type)))
            assert flat == reference.flatten_columns([array])
            back = assembled(field, flat)
            back.validate(full=True)
            assert reference.same_array(back, array)
            assert reference.same_array(back, reference.unflatten_columns(flat, [field.type])[0])


def test_hidden_values_are_not_stored():
    arrow = pa.list_(pa.list_(pa.int8()))
    array = array_of(arrow, [[[1], None, []], None, [[2, 3]]], hidden=[[8], None, [9]])
    array = pa.concat_arrays([array, array]).slice(1, 3)
    outer, inner, values = flatten(array, ColumnType.from_arrow(pa.field("", arrow)))
    assert outer.to_pylist() == [None, 1, 3]
    assert inner.to_pylist() == [2, 1, None, 0]
    assert values.to_pylist() == [2, 3, 1]


def test_maps_keep_their_order_and_duplicate_keys():
    field = pa.field("", pa.map_(pa.string(), pa.int8()))
    rows = [[("b", 1), ("a", None), ("b", 2)], [], None]
    array = pa.array(rows, field.type)
    lengths, keys, items = flatten(array, ColumnType.from_arrow(field))
    assert lengths.to_pylist() == [3, 0, None]
    assert keys.to_pylist() == ["b", "a", "b"]
    assert items.to_pylist() == [1, None, 2]
    assert assembled(field, reference.flatten_columns([array])).to_pylist() == rows


def test_surplus_children_do_not_count():
    field = pa.field("", pa.list_(pa.int32()))
    array = assembled(field, [numbers(1, None, 2), numbers(1, 2, 3, 4, 5)])
    array.validate(full=True)
    assert array.to_pylist() == [[1], None, [2, 3]]
    assert len(array.values) == 3


# Nulls where the schema has none

NOT_NULL = pa.list_(pa.field("item", pa.int32(), nullable=False))


def test_a_null_in_a_list_that_has_none_is_not_written():
    array = array_of(NOT_NULL, [[1, None], None, [None]])
    with pytest.raises(SchemaMismatchError, match="2 nulls where the schema allows none"):
        check_nulls(array, pa.field("", NOT_NULL))
    with pytest.raises(SchemaMismatchError, match="a null where the schema allows none"):
        check_nulls(array.slice(0, 2), pa.field("", pa.list_(pa.int32()), False))


def test_a_null_under_a_null_list_does_not_count():
    array = array_of(NOT_NULL, [[1], None], hidden=[None, None])
    lengths, values = flatten(array, ColumnType.from_arrow(pa.field("", NOT_NULL)))
    assert (lengths.to_pylist(), values.to_pylist()) == ([1, None], [1])


# Damage

LIST = pa.field("", pa.list_(pa.int32()))
MAP = pa.field("", pa.map_(pa.int32(), pa.int32()))


@pytest.mark.parametrize(
    ("field", "columns", "message"),
    [
        (LIST, [numbers(1, -1), numbers(1)], "a list has a negative length"),
        (LIST, [numbers(2**31 - 1), numbers(1)], "lists have more elements than are stored"),
        (LIST, [numbers(1, None, 2), numbers(1, 2)], "lists have more elements than are stored"),
        (MAP, [numbers(2), numbers(1, 2), numbers(1)], "lists have more elements than are stored"),
        (MAP, [numbers(2), numbers(1), numbers(1, 2)], "lists have more elements than are stored"),
        (MAP, [numbers(2), numbers(1, None), numbers(1, 2)], "1 keys of a map are null"),
        (
            pa.field("", NOT_NULL),
            [numbers(2), numbers(1, None)],
            "1 null elements, but they are declared not null",
        ),
        (
            pa.field("", pa.list_(pa.field("item", NOT_NULL, nullable=False))),
            [numbers(2), numbers(1, None), numbers(1)],
            "1 null elements, but they are declared not null",
        ),
        (
            pa.field("", pa.map_(pa.int32(), pa.field("value", pa.int32(), nullable=False))),
            [numbers(2), numbers(1, 2), numbers(1, None)],
            "1 null elements, but they are declared not null",
        ),
    ],
)
def test_flat_columns_that_do_not_fit_are_corrupt(field, columns, message):
    with pytest.raises(CorruptFileError, match=message):
        assembled(field, columns)


def test_a_null_beyond_the_last_element_does_not_count():
    assert assembled(MAP, [numbers(1), numbers(1, None), numbers(1, 2)]).to_pylist() == [[(1, 1)]]
    field = pa.field("", NOT_NULL)
    assert assembled(field, [numbers(1), numbers(1, None)]).to_pylist() == [[1]]


def test_a_null_key_is_corrupt_though_the_file_says_it_may_be():
    # Only a file can say so: Arrow has no type for it.
    body = reference.encode_schema(pa.schema([("x", MAP.type)]), 1)
    body = body.replace(b"key\3\0", b"key\3\1")
    columns = BucketColumns(SchemaBlock.decode(body), 0)
    assert columns.node(0).children[0].type.nullable
    with pytest.raises(CorruptFileError, match="2 keys of a map are null"):
        decoded([b"\1\0\0\0\0\1", None, None], columns, [2, 2, 2])
