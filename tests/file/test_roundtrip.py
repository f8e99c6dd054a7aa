"""Properties of writing and reading together, for any table and any options."""

import io
import random
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from files import written
from hypothesis import given, strategies as st
from strategies import (
    INTEGERS,
    array_of,
    assert_same,
    filtered_types,
    filters,
    fresh_value,
    tables,
    write_options,
)

import fastmosaic as fm


def read(data: bytes, **arguments) -> pa.Table:
    return fm.read_table(pa.py_buffer(data), **arguments)


@given(tables(), write_options())
def test_what_is_read_is_what_was_written(table, options):
    assert_same(read(written(table, **options)), table)


@given(tables(), write_options())
def test_a_second_round_trip_changes_nothing(table, options):
    once = read(written(table, **options))
    twice = read(written(once, **options))
    assert_same(twice, table)
    assert written(twice, **options) == written(once, **options)


@given(st.data(), tables(), write_options())
def test_columns_are_those_of_select_in_the_order_asked_for(data, table, options):
    some = data.draw(st.lists(st.sampled_from(table.column_names or [""]), unique=True))
    columns = some if table.num_columns else []
    assert_same(read(written(table, **options), columns=columns), table.select(columns))


@given(st.data(), tables(min_columns=1, max_columns=5, column_types=filtered_types()))
def test_filters_are_those_of_filter(data, table):
    options = data.draw(write_options())
    chosen = data.draw(filters(table))
    expression = chosen if isinstance(chosen, pc.Expression) else pq.filters_to_expression(chosen)
    actual = read(written(table, **options), filters=chosen)
    assert_same(actual, table.filter(expression))


@given(st.data(), tables(min_columns=2, max_columns=5, column_types=filtered_types()))
def test_a_filter_may_use_columns_that_are_not_read(data, table):
    columns = data.draw(st.lists(st.sampled_from(table.column_names), unique=True))
    chosen = data.draw(filters(table))
    expression = chosen if isinstance(chosen, pc.Expression) else pq.filters_to_expression(chosen)
    actual = read(written(table, write_statistics=True), columns=columns, filters=chosen)
    assert_same(actual, table.filter(expression).select(columns))


@given(tables(), write_options(), st.lists(st.floats(0, 1), max_size=6), st.randoms())
def test_any_split_of_the_writes_gives_the_same_rows(table, options, cuts, rng):
    ends = [0, *sorted(int(cut * table.num_rows) for cut in cuts), table.num_rows]
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, table.schema, **options) as writer:
        for start, end in pairwise(ends):
            piece = table.slice(start, end - start)
            if rng.random() < 0.5 and piece.num_columns:
                for batch in piece.to_batches():
                    writer.write(batch)
            else:
                writer.write(piece)
    assert_same(read(sink.getvalue()), table)


def large_table() -> pa.Table:
    """Some megabytes: enough that buckets are shared out to threads, and row groups are cut."""
    rng = random.Random(11)
    scalars = [
        pa.bool_(),
        *INTEGERS,
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.time32("ms"),
        pa.string(),
        pa.binary(),
        pa.decimal128(9, 2),
        pa.decimal128(38, 10),
        pa.timestamp("us"),
        pa.timestamp("ns", "UTC"),
    ]
    columns = {}
    for type in scalars:
        fresh = [fresh_value(type, rng) for _ in range(5000)]
        few = [rng.choice(fresh[:10]) for _ in range(5000)]
        sparse = [value if rng.random() < 0.05 else None for value in fresh]
        columns[f"{type} fresh"] = array_of(type, fresh)
        columns[f"{type} few"] = array_of(type, few)
        columns[f"{type} sparse"] = array_of(type, sparse)
        lists = [fresh[i : i + i % 4] if i % 9 else None for i in range(5000)]
        columns[f"{type} lists"] = array_of(pa.list_(type), lists)
    return pa.table(columns)


@pytest.mark.parametrize("use_threads", [True, False])
@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("row_group_bytes", [200_000, 1 << 28])
def test_a_large_table_survives(compression, row_group_bytes, use_threads):
    table = large_table()
    data = written(
        table,
        compression=compression,
        row_group_bytes=row_group_bytes,
        num_buckets=7,
        use_threads=use_threads,
    )
    assert_same(read(data, use_threads=use_threads), table)
    some = table.column_names[::5]
    assert_same(read(data, columns=some, use_threads=use_threads), table.select(some))


@given(tables(), write_options())
def test_writing_twice_gives_the_same_bytes(table, options):
    once = written(table, **options)
    assert written(table, **options) == once


@given(tables())
def test_chunks_and_offsets_of_the_input_do_not_show_in_the_file(table):
    # take() copies the rows: no slices, no chunks, nothing hidden behind nulls.
    compact = (
        table.take(pa.array(range(table.num_rows), pa.int64())) if table.num_columns else table
    )
    assert written(table) == written(compact.combine_chunks())


@given(tables(), write_options())
def test_threads_change_neither_the_bytes_nor_the_table(table, options):
    options.pop("use_threads", None)
    one = written(table, use_threads=False, **options)
    assert one == written(table, use_threads=True, **options)
    assert_same(read(one, use_threads=False), table)
    assert_same(read(one, use_threads=True), table)


@given(tables(), write_options(), st.sampled_from([1, 7, 64, 65536]))
def test_the_batches_together_are_the_table(table, options, batch_size):
    with fm.MosaicFile(pa.py_buffer(written(table, **options))) as file:
        batches = list(file.iter_batches(batch_size=batch_size))
    assert all(0 < batch.num_rows <= batch_size for batch in batches)
    assert sum(batch.num_rows for batch in batches) == table.num_rows
    if batches and table.num_columns:
        assert_same(pa.Table.from_batches(batches), table)


@given(st.data(), tables(min_columns=1, max_columns=4))
def test_row_groups_are_read_in_the_order_asked_for(data, table):
    size = data.draw(st.sampled_from([1, 5, 64, 1000])) if table.num_rows < 100 else 64
    with fm.MosaicFile(pa.py_buffer(written(table, row_group_size=size))) as file:
        assert file.num_row_groups == -(-table.num_rows // size)
        indices = st.integers(0, max(0, file.num_row_groups - 1))
        chosen = data.draw(st.lists(indices, unique=True)) if file.num_row_groups else []
        groups = [table.slice(i * size, size) for i in chosen]
        expected = pa.concat_tables([table.schema.empty_table(), *groups])
        assert_same(file.read(row_groups=chosen), expected)
        assert_same(file.read_row_groups(chosen), expected)
        for i, group in zip(chosen, groups, strict=True):
            assert_same(file.read_row_group(i), group)


@given(tables(), write_options())
def test_metadata_tells_the_shape_of_the_table(table, options):
    metadata = fm.read_metadata(pa.py_buffer(written(table, **options)))
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    assert metadata.num_rows == table.num_rows == sum(group.num_rows for group in groups)
    assert metadata.num_columns == table.num_columns
    for group in groups:
        stored = [name for bucket in group.buckets for name in bucket.columns]
        assert sorted(stored) == sorted(table.column_names)


@given(tables(min_rows=1, min_columns=1, column_types=filtered_types()))
def test_statistics_bound_every_value(table):
    metadata = fm.read_metadata(pa.py_buffer(written(table, write_statistics=True)))
    (group,) = (metadata.row_group(i) for i in range(metadata.num_row_groups))
    assert set(group.statistics) == set(table.column_names)
    for name, statistics in group.statistics.items():
        column = table[name].combine_chunks()
        assert statistics.null_count == column.null_count
        assert statistics.has_min_max == (column.null_count < len(column))
        if pa.types.is_integer(column.type) and statistics.has_min_max:
            bounds = pc.min_max(column).as_py()
            assert (statistics.min, statistics.max) == (bounds["min"], bounds["max"])
