"""Rows that a filter drops are not read: only its columns, and nothing else of row groups without a match."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, strategies as st

import fastmosaic as fm
from fastmosaic.dataset.fileset import FileSet
from fastmosaic.dataset.tasks import Split, SplitScan, share_out
from fastmosaic.file import fetch
from fastmosaic.query.query import Query
from fastmosaic.query.rows import Rows

GROUP = 1000
WIDTH = 40
NAMES = [f"c{i}" for i in range(WIDTH)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five row groups; `x` is the row number, in no order within a group, without statistics."""
    path = tmp_path_factory.mktemp("filtered") / "a.mosaic"
    numbers = [group * GROUP + 7 * i % GROUP for group in range(5) for i in range(GROUP)]
    columns = {
        name: pa.array([(n * 31 + i) % 997 for n in numbers]) for i, name in enumerate(NAMES)
    }
    table = pa.table({"x": numbers, **columns})
    fm.write_table(table, path, row_group_size=GROUP, write_statistics=False, num_buckets=WIDTH)
    return path


def shared(
    path: Path, names: list[str], expression: pc.Expression, needed: list[str], **options: int
) -> tuple[SplitScan, list[Split]]:
    files = FileSet(path)
    schema = files.query(names).schema
    fields = tuple(files.columns.field(name) for name in needed)
    kept = Query.filtered(schema, expression, fields)
    return share_out(files, Query(schema), max_bytes=1 << 30, kept=kept, **options)


def read(scan: SplitScan, splits: list[Split]) -> tuple[pa.Table, int]:
    """The rows of all splits, and the bytes that were read for them."""
    read_bytes = 0
    original = fetch.read_ranges

    def counting(source: object, ranges: list[tuple[int, int]], **options: bool) -> list[pa.Buffer]:
        nonlocal read_bytes
        read_bytes += sum(size for _, size in ranges)
        return original(source, ranges, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "read_ranges", counting)
        batches = [batch for split in splits for batch in scan.read(split)]
    return pa.Table.from_batches(batches, scan.schema), read_bytes


def test_only_columns_of_the_filter_are_read_where_nothing_matches(path: Path) -> None:
    files = FileSet(path)
    _, filter_bytes = read(*share_out(files, files.query(["x"]), max_bytes=1 << 30))
    _, all_bytes = read(*share_out(files, files.query(), max_bytes=1 << 30))
    assert all_bytes > 20 * filter_bytes

    table, read_bytes = read(*shared(path, NAMES, pc.field("x") < 0, ["x"]))
    assert table.num_rows == 0
    assert read_bytes == filter_bytes

    last = pc.field("x") >= 4 * GROUP + 500
    table, read_bytes = read(*shared(path, NAMES, last, ["x"]))
    assert table.num_rows == GROUP - 500
    assert filter_bytes < read_bytes < filter_bytes + all_bytes / 4


def test_columns_of_the_filter_alone_are_not_returned(path: Path) -> None:
    expected = fm.read_table(path, columns=["c3"], filters=pc.field("x") < 5)
    for names in (["c3"], ["c3", *NAMES[4:]]):
        scan, splits = shared(path, names, pc.field("x") < 5, ["x"])
        table, _ = read(scan, splits)
        assert table.column_names == names
        assert table.select(["c3"]).equals(expected)
    scan, splits = shared(path, [], pc.field("x") < 5, ["x"])
    assert sum(batch.num_rows for split in splits for batch in scan.read(split)) == 5


def test_a_filter_that_fails_drops_nothing(path: Path) -> None:
    overflow = pc.add_checked(pc.field("x"), pa.scalar(2**63 - 1)) > 5
    table, _ = read(*shared(path, ["c1"], overflow, ["x"]))
    assert table.num_rows == 5 * GROUP
    table, _ = read(*shared(path, NAMES, overflow, ["x"]))
    assert table.num_rows == 5 * GROUP


def test_a_null_is_no_match(tmp_path: Path) -> None:
    table = pa.table({"x": pa.array([None, 1, None, 3])})
    fm.write_table(table, tmp_path / "a.mosaic")
    found, _ = read(*shared(tmp_path / "a.mosaic", ["x"], pc.field("x") > 1, ["x"]))
    assert found["x"].to_pylist() == [3]


@given(
    st.integers(0, 5 * GROUP),
    st.integers(1, 3 * GROUP),
    st.integers(1, 20),
    st.sampled_from([["x", "c1"], ["x", *NAMES], ["x"]]),
)
def test_no_row_that_matches_is_lost(
    path: Path, start: int, length: int, parts: int, names: list[str]
) -> None:
    expression = (pc.field("x") >= start) & (pc.field("x") < start + length)
    scan, splits = shared(path, names, expression, ["x"], min_splits=parts, row_bytes=1 << 20)
    table, _ = read(scan, splits)
    expected = fm.read_table(path, columns=names, filters=expression)
    assert table.filter(expression).equals(expected)
    # Only batches most of whose rows match have others.
    assert table.num_rows <= expected.num_rows / 0.9 + 1


# ---- row groups that are divided


def test_few_large_row_groups_are_divided(path: Path) -> None:
    expected = fm.read_table(path, columns=["x", "c1"])
    files = FileSet(path)
    query = files.query(["x", "c1"])
    for min_splits, row_bytes, num_splits in (
        (10, 8 << 10, 1),  # parts would be below the minimum
        (10, 9 << 10, 10),
        (12, 1 << 20, 15),
        (5, 1 << 20, 1),  # there are as many row groups; together they are small
        (20, 0, 1),
    ):
        scan, splits = share_out(
            files, query, max_bytes=1, min_splits=min_splits, row_bytes=row_bytes
        )
        assert len(splits) == num_splits
        batches = [batch for split in splits for batch in scan.read(split)]
        assert pa.Table.from_batches(batches).equals(expected)
        assert sum(split.num_rows for split in splits) == expected.num_rows


def test_selected_rows_by_place() -> None:
    rows = Rows([(10, 13), (20, 25), (40, 41)])
    assert rows.numbered_between(0, 9) == rows.ranges
    assert rows.numbered_between(1, 5) == [(11, 13), (20, 22)]
    assert rows.numbered_between(3, 3) == []
    assert rows.numbered_between(8, 9) == [(40, 41)]
    every = [number for start, stop in rows.ranges for number in range(start, stop)]
    for start in range(len(every)):
        for stop in range(start + 1, len(every) + 1):
            found = rows.numbered_between(start, stop)
            assert [n for one in found for n in range(*one)] == every[start:stop]
