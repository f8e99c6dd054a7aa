"""The writer's decisions, at their exact thresholds."""

import pyarrow as pa
import pytest
import reference
from hypothesis import given, strategies as st
from strategies import scalar_types, tables

from fastmosaic.file.layout import (
    MAX_MEMORY_FACTOR,
    MIN_MEMORY,
    MIN_PAGED_BUCKET_BYTES,
    MIN_ROW_GROUP_ROWS,
    SURE_PAGE_BYTES,
    Choice,
    choose,
    is_full,
    is_paged_better,
    row_group_ends,
)
from fastmosaic.format._collect import ArrowColumns
from fastmosaic.format._encode import encode
from fastmosaic.format.types import ColumnType


def encoded(table):
    kinds = bytes(ColumnType.from_arrow(field).kind for field in table.schema)
    count = table.num_columns
    return encode(
        list(map(ArrowColumns, table.to_batches())),
        range(count),
        kinds,
        bytes(getattr(field.type, "precision", 0) for field in table.schema),
        bytes(count),
        0,
        0,
    )


def numbers(count):
    """`count` different numbers of eight bytes."""
    return pa.array(range(count), pa.int64())


def is_paged(pages, header_bytes, threshold):
    """By the rule of the reference, which tries nothing."""
    choice = choose(pages, header_bytes, threshold)
    assert choice != Choice.TRY_BOTH
    return choice == Choice.PAGED


# Monolithic or paged, by the rule of the reference


@given(
    tables(min_rows=1, min_columns=1, max_columns=8, column_types=scalar_types()),
    st.integers(0, 200),
    st.sampled_from([0, 1, 30, 100, 1000]),
)
def test_a_bucket_is_paged_by_the_rule_of_the_oracle(table, header_bytes, threshold):
    pages = []
    for column in table.columns:
        rows = reference.serialize(column.combine_chunks())
        pages.append(reference.encode_page(rows, reference.choose_encoding(rows, 0, 0, True)))
    size = header_bytes + len(reference.encode_monolithic(pages, len(pages)))
    expected = reference.is_paged(pages, size, threshold)
    assert is_paged(encoded(table), header_bytes, threshold) == expected


def test_the_mean_page_reaches_the_threshold():
    pages = encoded(pa.table({"x": numbers(100), "y": pa.array([1] * 99 + [2], pa.int8())}))
    assert pages.sizes() == (902, 2, 900)
    assert is_paged(pages, 0, 450)
    assert not is_paged(pages, 0, 451)
    odd = encoded(pa.table({"x": pa.array(["a", "bc"]), "y": pa.array([1, 2], pa.int8())}))
    assert odd.sizes()[1:] == (2, 7)
    assert is_paged(odd, 0, 3)  # rounded down
    assert not is_paged(odd, 0, 4)


def test_the_whole_bucket_reaches_the_threshold():
    pages = encoded(pa.table({"x": numbers(100)}))
    assert pages.sizes() == (802, 1, 800)
    assert is_paged(pages, 0, 800)
    assert not is_paged(pages, 1000, 801)


def test_what_has_no_page_does_not_count():
    constant, nulls = pa.array([7] * 100, pa.int64()), pa.nulls(100, pa.int64())
    assert not is_paged(encoded(pa.table({"x": constant, "y": nulls})), 0, 0)
    pages = encoded(pa.table({"x": constant, "y": nulls, "z": numbers(100)}))
    assert is_paged(pages, 0, 800)
    # A constant with nulls does: by its bitmap.
    half = pa.array([7, None] * 50, pa.int64())
    assert is_paged(encoded(pa.table({"x": half})), 0, 13)
    assert not is_paged(encoded(pa.table({"x": half})), 0, 14)


# Monolithic or paged, by cost


@pytest.mark.parametrize(
    ("bucket_bytes", "num_columns", "choice"),
    [
        (MIN_PAGED_BUCKET_BYTES - 1, 1, Choice.MONOLITHIC),
        (MIN_PAGED_BUCKET_BYTES, 1, Choice.MONOLITHIC),  # nothing else would be decompressed
        (MIN_PAGED_BUCKET_BYTES, 2, Choice.PAGED),
        (MIN_PAGED_BUCKET_BYTES, 8, Choice.TRY_BOTH),
        (MIN_PAGED_BUCKET_BYTES - 1, 8, Choice.TRY_BOTH),  # few columns, long pages
        (MIN_PAGED_BUCKET_BYTES - 1, 40, Choice.MONOLITHIC),
        (MIN_PAGED_BUCKET_BYTES, 40, Choice.TRY_BOTH),
    ],
)
def test_by_default_size_decides_or_both_are_tried(bucket_bytes, num_columns, choice):
    rows = MIN_PAGED_BUCKET_BYTES // 8 // num_columns - 8
    pages = encoded(pa.table({str(i): numbers(rows) for i in range(num_columns)}))
    header_bytes = bucket_bytes - pages.sizes()[0]
    assert header_bytes >= 0
    assert choose(pages, header_bytes, None) == choice


def test_a_long_mean_page_is_sure():
    wide = {str(i): numbers(SURE_PAGE_BYTES // 8) for i in range(5)}
    assert choose(encoded(pa.table(wide)), 0, None) == Choice.PAGED
    wide["0"] = pa.array([1] * (SURE_PAGE_BYTES // 8 - 1) + [2], pa.int32())
    assert choose(encoded(pa.table(wide)), 0, None) == Choice.TRY_BOTH


def test_without_pages_there_is_nothing_to_try():
    nulls = encoded(pa.table({"x": pa.nulls(100, pa.int64())}))
    assert choose(nulls, MIN_PAGED_BUCKET_BYTES, None) == Choice.MONOLITHIC


@pytest.mark.parametrize(
    ("paged", "monolithic", "uncompressed", "better"),
    [
        (1000, 1000, 0, True),
        (1001, 1000, 0, False),
        (1125, 1000, 1 << 20, True),
        (1126, 1000, 1 << 20, False),
        (1062, 1000, 1 << 19, True),
        (1063, 1000, 1 << 19, False),
        (1125, 1000, 1 << 30, True),
        (1126, 1000, 1 << 30, False),
    ],
)
def test_what_pages_may_cost(paged, monolithic, uncompressed, better):
    assert is_paged_better(paged, monolithic, uncompressed) == better


# Row groups


@pytest.mark.parametrize(
    ("num_rows", "size", "row_group_bytes", "ends"),
    [
        (1000, 0, 100, [1000]),
        (1000, 100, 100, [1000]),
        (1000, 199, 100, [1000]),
        (1000, 200, 100, [500, 1000]),
        (1000, 399, 100, [333, 666, 1000]),
        (2 * MIN_ROW_GROUP_ROWS - 1, 10**9, 1, [2 * MIN_ROW_GROUP_ROWS - 1]),
        (2 * MIN_ROW_GROUP_ROWS, 10**9, 0, [MIN_ROW_GROUP_ROWS, 2 * MIN_ROW_GROUP_ROWS]),
        (0, 0, 0, [0]),
    ],
)
def test_a_large_batch_is_split_into_parts_that_fill_row_groups(
    num_rows, size, row_group_bytes, ends
):
    assert row_group_ends(num_rows, size, 0, row_group_bytes, fills=False) == ends
    assert row_group_ends(num_rows, size, 50, row_group_bytes, fills=False) == ends


@pytest.mark.parametrize(
    ("num_rows", "size", "pending", "ends"),
    [
        (1000, 100, 0, [1000]),
        (1000, 100, 50, [500, 1000]),
        (1000, 100, 99, [MIN_ROW_GROUP_ROWS, 1000]),
        (1000, 1000, 0, [100, 1000]),
        (100, 100, 50, [100]),  # too few rows would be left
    ],
)
def test_collected_rows_are_filled_up(num_rows, size, pending, ends):
    assert row_group_ends(num_rows, size, pending, 100, fills=True) == ends


@pytest.mark.parametrize(
    ("num_bytes", "memory", "row_group_bytes", "full"),
    [
        (99, 0, 100, False),
        (100, 0, 100, True),
        (0, 0, 0, True),
        (0, MIN_MEMORY - 1, 100, False),
        (0, MIN_MEMORY, 100, True),
        (0, MIN_MEMORY, MIN_MEMORY, False),
        (0, int(MAX_MEMORY_FACTOR * MIN_MEMORY) - 1, MIN_MEMORY, False),
        (0, int(MAX_MEMORY_FACTOR * MIN_MEMORY), MIN_MEMORY, True),
    ],
)
def test_a_row_group_is_full(num_bytes, memory, row_group_bytes, full):
    assert is_full(num_bytes, memory, row_group_bytes) == full
