"""All Arrow types at random, nested, sliced and chunked: three readers agree on what was written.

`annex_reference` is an independent implementation of the types in the annex, and `paimon-mosaic` is
the Apache implementation, which shows the stored columns.
"""

import io
import random

import annex_reference
import pyarrow as pa
import pytest
import reference
from files import their_reader, written
from hypothesis import given, strategies as st
from strategies import assert_same, write_options
from user_types import (
    LEAVES,
    NESTED,
    assert_same_table,
    column_cells,
    dictionary_cells,
    has_dictionaries,
    user_table,
    user_tables,
)

import fastmosaic as fm

OPTIONS = write_options().map(lambda options: {**options, "annex": True})


def stored_table(data: bytes) -> pa.Table:
    """The stored columns, as the oracle reads them."""
    schema, batches = reference.decode_file(data)
    return pa.Table.from_batches(batches, schema)


def assert_oracle_reads(data: bytes, table: pa.Table) -> None:
    found = annex_reference.decode_table(data)
    assert found.schema.equals(table.schema, check_metadata=True)
    assert found.columns == [column_cells(column) for column in table.columns]
    assert found.dictionaries == dictionary_cells(table)


@given(user_tables(), OPTIONS)
def test_what_is_written_is_read(table, options):
    data = written(table, **options)
    assert_same_table(fm.read_table(data), table)
    assert fm.verify(data).problems == ()


@given(user_tables(), OPTIONS)
def test_the_oracle_reads_what_was_written(table, options):
    assert_oracle_reads(written(table, **options), table)


@given(user_tables(), OPTIONS)
def test_all_readers_show_the_same_stored_columns(table, options):
    data = written(table, **options)
    stored = fm.read_table(data, logical=False)
    assert_same(stored, stored_table(data))
    with their_reader(data) as reader:
        assert_same(reader.read_all(), stored)


@given(user_tables(), st.data())
def test_some_columns_are_read_as_in_the_whole_table(table, data):
    file = written(table, row_group_size=7)
    names = data.draw(st.lists(st.sampled_from(table.column_names), unique=True, min_size=1))
    some = fm.read_table(file, columns=names)
    assert_same_table(some, table.select(names))
    batches = list(fm.MosaicFile(file).iter_batches(5, columns=names))
    if batches and not has_dictionaries(some.schema):
        assert_same_table(pa.Table.from_batches(batches), some)


@pytest.mark.parametrize("arrow", LEAVES, ids=str)
def test_every_type_alone(arrow):
    rng = random.Random(str(arrow))
    for count in (0, 1, 30):
        table = user_table(["a"], [arrow], count, rng)
        data = written(table, row_group_size=rng.choice([None, 7]))
        assert_same_table(fm.read_table(data), table)
        assert_oracle_reads(data, table)
        assert_same(fm.read_table(data, logical=False), stored_table(data))


def test_every_nested_type():
    rng = random.Random(5)
    for start in range(0, len(NESTED), 8):
        arrows = NESTED[start : start + 8]
        table = user_table([f"c{i}" for i in range(len(arrows))], arrows, 9, rng)
        data = written(table, num_buckets=3)
        assert_same_table(fm.read_table(data), table)
        assert_oracle_reads(data, table)


def test_types_that_many_columns_have_are_stored_once():
    rng = random.Random(7)
    arrows = [pa.string_view()] * 30 + [pa.string()] * 3 + [pa.uint8()] * 20 + [pa.int16()] * 30
    arrows += [pa.large_list(pa.int8())] * 17 + [pa.struct([("x", pa.string_view())])] * 20
    arrows += [pa.dictionary(pa.int8(), pa.large_string())] * 2 + [pa.large_string()] * 2
    names = [f"c{i:03}" for i in range(len(arrows))]
    table = user_table(names, arrows, 9, rng)
    data = written(table)
    assert annex_reference.COMMON in annex_reference.read_annex(data).sections
    assert_same_table(fm.read_table(data), table)
    assert_oracle_reads(data, table)
    some = [names[0], names[31], names[-1]]
    assert_same_table(fm.read_table(data, columns=some), table.select(some))
    assert fm.verify(data).problems == ()


def test_reading_and_writing_again_gives_the_same_file():
    rng = random.Random(6)
    for start in range(0, len(NESTED), 40):
        arrows = NESTED[start : start + 40]
        table = user_table([f"c{i}" for i in range(len(arrows))], arrows, 9, rng)
        data = written(table.combine_chunks() if not has_dictionaries(table.schema) else table)
        assert written(fm.read_table(data)) == data


def test_a_dictionary_that_contains_null_has_the_same_values():
    values = pa.array(["a", None, "b"])
    column = pa.DictionaryArray.from_arrays(pa.array([2, 1, None, 0], pa.int8()), values)
    table = fm.read_table(written(pa.table({"a": column})))
    assert table["a"].to_pylist() == ["b", None, None, "a"]
    assert table["a"].chunk(0).dictionary.to_pylist() == ["a", "b"]


def test_a_dictionary_that_contains_a_value_twice_has_the_same_values():
    values = pa.array(["a", "b", "a"])
    column = pa.DictionaryArray.from_arrays(pa.array([2, 1, 0], pa.int8()), values)
    table = fm.read_table(written(pa.table({"a": column})))
    assert table["a"].to_pylist() == ["a", "b", "a"]
    assert table["a"].chunk(0).dictionary.to_pylist() == ["a", "b"]


def test_indices_become_wider_if_dictionaries_of_batches_do_not_fit():
    parts = [
        pa.array([f"{letter}{i}" for i in range(100)]).dictionary_encode().cast(
            pa.dictionary(pa.int8(), pa.string())
        )
        for letter in "ab"
    ]  # fmt: skip
    table = fm.read_table(written(pa.table({"a": pa.chunked_array(parts)})))
    assert table.schema.field("a").type == pa.dictionary(pa.int16(), pa.string())
    assert column_cells(table["a"]) == [
        *annex_reference.cells(parts[0]),
        *annex_reference.cells(parts[1]),
    ]


def test_dictionaries_with_nan_keep_their_bits_in_lists_with_hidden_elements():
    # Arrow's concatenation of such dictionaries returns other values.
    bits = pa.array([0x7C01, 0x7C00, 0x7E00, 0xFE01], pa.uint16())
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, 1, 0], pa.int8()), bits.view(pa.float16())
    )
    mask = pa.array([False, True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 4, 6], pa.int32()), column, mask=mask)
    table = pa.table({"a": lists})
    assert_same_table(fm.read_table(written(table)), table)


@pytest.mark.parametrize(
    ("arrow", "name", "other"),
    [
        (pa.struct([("b", pa.int8())]), "a.b", pa.int8()),
        (pa.struct([("b", pa.int8())]), "a.b", pa.struct([("c", pa.int8())])),
        (pa.struct([("b", pa.int8())]), "a.b", pa.list_(pa.struct([]))),
        (pa.struct([("b", pa.int8())]), "a.__null__", pa.bool_()),
        (pa.map_(pa.string(), pa.struct([("b", pa.int8())])), "a.key", pa.string()),
        (pa.struct([("__null__", pa.int8())]), "b", pa.int8()),
        (pa.struct([("b", pa.int8()), ("b", pa.int8())]), "b", pa.int8()),
    ],
    ids=str,
)
def test_names_that_would_be_ambiguous_are_refused(arrow, name, other):
    for fields in ([("a", arrow), (name, other)], [(name, other), ("a", arrow)]):
        with pytest.raises(ValueError, match="duplicate column name"):
            fm.MosaicWriter(io.BytesIO(), pa.schema(fields))


def test_the_oracle_refuses_types_that_do_not_fit():
    with pytest.raises(ValueError, match="a union"):
        annex_reference.stored_type(pa.dense_union([pa.field("a", pa.int8())]))
