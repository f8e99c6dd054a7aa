"""Selections of rows by number."""

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from fastmosaic.query.rows import Rows, one_batch, rows_without_columns, take_rows


@st.composite
def ranges(draw):
    edge = st.integers(0, 30)
    return draw(st.lists(st.tuples(edge, edge), max_size=6))


def numbers(rows):
    return [number for start, stop in rows.ranges for number in range(start, stop)]


@given(ranges())
def test_ranges_are_merged_in_order(given_ranges):
    rows = Rows(given_ranges)
    expected = sorted({number for start, stop in given_ranges for number in range(start, stop)})
    assert numbers(rows) == expected
    assert len(rows) == len(expected)
    flat = rows.flat_ranges.tolist()
    assert list(zip(flat[::2], flat[1::2], strict=True)) == rows.ranges
    assert numbers(pickle.loads(pickle.dumps(rows))) == expected


@given(ranges(), st.integers(0, 30), st.integers(0, 30))
def test_a_part_counts_from_its_own_start(given_ranges, start, stop):
    rows = Rows(given_ranges)
    expected = [number - start for number in numbers(rows) if start <= number < stop]
    assert numbers(rows.within(start, stop)) == expected


@given(ranges(), st.integers(0, 2))
def test_rows_of_a_batch(given_ranges, num_columns):
    batch = pa.record_batch({f"c{i}": list(range(30)) for i in range(num_columns)})
    if not num_columns:
        batch = rows_without_columns(30)
    rows = Rows(given_ranges)
    picked = rows.of_batch(batch)
    assert picked.num_rows == len(rows)
    assert all(column.to_pylist() == numbers(rows) for column in picked.columns)


@pytest.mark.parametrize(("wanted", "told"), [([-1], "row -1 of 5"), ([2, 5], "row 5 of 5")])
def test_rows_that_do_not_exist(wanted, told):
    with pytest.raises(IndexError, match=told):
        Rows.numbered(wanted).check(5)
    with pytest.raises(IndexError, match=told):
        take_rows(pa.table({"a": range(5)}), pa.array(wanted))
    Rows.numbered([0, 4]).check(5)
    Rows([]).check(0)


def test_rows_are_kept_without_columns():
    table = pa.table({"a": [1, 2, 3]}).select([])
    assert one_batch(table).num_rows == 3
    assert take_rows(table, pa.array([2, 0])).num_rows == 2
