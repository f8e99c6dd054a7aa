"""The pages that the writer chooses by cost: which they are, and that everyone reads them."""

import io

import numpy as np
import pyarrow as pa
import pytest
import reference
from files import their_reader, written
from hypothesis import given, strategies as st
from strategies import assert_same, scalar_types, tables

import fastmosaic as fm
from fastmosaic.file.opening import read_end
from fastmosaic.file.stored import Encoding, stored_columns
from fastmosaic.file.verify import verify
from fastmosaic.storage.source import open_source

CONST, DICT, PLAIN = Encoding.CONST, Encoding.DICT, Encoding.PLAIN

rng = np.random.default_rng(5)


def distinct(count: int, num_rows: int) -> np.ndarray:
    """Numbers of which `count` are distinct, all equally frequent, in random order."""
    return rng.permutation(np.arange(num_rows) % count)


def page_of(data: bytes):
    """What is stored for the only column of a file."""
    source = open_source(data)
    (column,) = stored_columns(source, read_end(source)[0], 0)
    (page,) = column.pages
    return page


def check_readers(data: bytes, table: pa.Table) -> None:
    """Check that we, the Apache reader and the oracle read the table, and that verify is content."""
    assert_same(fm.read_table(data), table)
    with their_reader(data) as reader:
        batches = [reader.read_row_group(i) for i in range(reader.num_row_groups)]
    assert_same(pa.Table.from_batches(batches), table)
    assert verify(data).ok
    if table.num_rows <= 10_000:  # the oracle takes its time
        schema, batches = reference.decode_file(data)
        assert_same(pa.Table.from_batches(batches, schema), table)


def walk(num_rows: int) -> np.ndarray:
    return np.round(np.cumsum(rng.normal(0, 0.05, num_rows)) + 100, 2)


ROWS = 6000
ZIPF = np.minimum(rng.zipf(1.3, ROWS), 3000)
PAGES = {
    # name: values, encoding, number of entries (None: any)
    "few, equally frequent": (pa.array(distinct(8, ROWS)), DICT, 8),
    "few, one frequent": (pa.array(np.minimum(rng.geometric(0.5, ROWS), 6)), DICT, 9),
    "tens, skewed": (pa.array(np.minimum(rng.zipf(1.5, ROWS), 40)), DICT, 129),
    "runs": (pa.array(np.repeat(distinct(50, ROWS // 5), 5)), DICT, 129),
    "hundreds of floats": (pa.array(distinct(700, ROWS) / 8, pa.float32()), DICT, 700),
    "texts by frequency": (pa.array([f"name {i}" for i in ZIPF]), DICT, len(set(ZIPF))),
    "numbers by frequency": (pa.array(ZIPF * 7919), DICT, len(set(ZIPF))),
    "a walk": (pa.array(walk(ROWS)), DICT, None),
    "rising": (pa.array(np.cumsum(rng.integers(1, 1000, ROWS)) + 10**12), PLAIN, None),
    "falling": (pa.array(-np.cumsum(rng.integers(1, 1000, ROWS))), PLAIN, None),
    "a counter": (pa.array(np.cumsum(rng.integers(0, 9, ROWS))), PLAIN, None),
    "equal steps": (pa.array(np.arange(ROWS) * 3), PLAIN, None),
    "random bytes": (pa.array(rng.integers(-128, 128, ROWS), pa.int8()), PLAIN, None),
    "random floats": (pa.array(rng.random(ROWS)), PLAIN, None),
    "random texts": (pa.array([f"{i:016x}" for i in rng.integers(0, 2**62, ROWS)]), PLAIN, None),
    "resembling texts": (
        pa.array([f"https://example.org/{i}" for i in rng.integers(0, 10**9, ROWS)]),
        PLAIN,
        None,
    ),
    "constant": (pa.array([1.5] * ROWS), CONST, None),
}


@pytest.mark.parametrize("nulls", [False, True], ids=["required", "with nulls"])
@pytest.mark.parametrize(("values", "encoding", "entries"), PAGES.values(), ids=PAGES)
def test_pages_by_cost(values, encoding, entries, nulls):
    if nulls:
        values = pa.concat_arrays([values, pa.nulls(ROWS // 3, values.type)])
        values = values.take(pa.array(rng.permutation(len(values))))
        if encoding == PLAIN:
            encoding = None  # in another order, a dictionary may be better
    table = pa.table({"x": values})
    data = written(table)
    check_readers(data, table)
    page = page_of(data)
    if encoding is not None:
        assert page.encoding == encoding
    if entries is not None and not nulls:
        assert page.num_entries == entries


@pytest.mark.parametrize("bits", range(1, 17))
def test_indices_of_every_width(bits):
    count = 2 ** (bits - 1) + 1 if bits > 1 else 2
    table = pa.table({"x": pa.array(distinct(count, max(1000, 12 * count)) * 1_000_003)})
    data = written(table)
    assert page_of(data).encoding == DICT
    check_readers(data, table)


def test_the_largest_dictionary():
    table = pa.table({"x": pa.array(distinct(65_536, 600_000) * 1_000_003)})
    data = written(table)
    assert page_of(data).num_entries == 65_536
    check_readers(data, table)
    more = pa.table({"x": pa.array(distinct(65_537, 600_000) * 1_000_003)})
    assert page_of(written(more)).encoding == PLAIN


def test_entries_are_sorted_by_their_bytes_or_by_frequency():
    sorted_ones = page_of(written(pa.table({"x": pa.array(distinct(300, 3000) - 150)})))
    unsigned = [value % 2**64 for value in sorted_ones.entries().to_pylist()]
    assert unsigned == sorted(unsigned)
    counts = page_of(written(pa.table({"x": pa.array([f"name {i}" for i in ZIPF])}))).counts()
    assert list(counts) == sorted(counts, reverse=True)


def test_with_a_level_pages_are_chosen_but_not_tuned():
    table = pa.table({"x": pa.array(distinct(700, ROWS) / 8, pa.float32())})
    tuned, level = written(table), written(table, compression_level=1)
    assert page_of(level).num_entries == 700
    assert len(tuned) < len(level) < len(written(table, max_dict_entries=255))
    check_readers(level, table)


def test_dictionaries_are_left_out_if_asked_to():
    table = pa.table({"x": pa.array(distinct(700, ROWS))})
    assert page_of(written(table, use_dictionary=False)).encoding == PLAIN


def test_pages_are_smaller_than_those_of_the_apache_rule():
    n = 20_000
    shapes = {
        "float32, 2 decimals": (lambda: np.round(rng.normal(20, 3, n), 2).astype(np.float32), 0.7),
        "int64 counter": (lambda: np.cumsum(rng.integers(0, 100, n)), 0.95),
        "rising timestamps": (lambda: 10**12 + np.cumsum(rng.integers(0, 2000, n)), 0.75),
        "runs of 5": (lambda: np.repeat(rng.integers(0, 100, n // 5), 5), 0.5),
    }
    for name, (make, share) in shapes.items():
        table = pa.table({f"x{i}": pa.array(make()) for i in range(8)})
        before = written(table, max_dict_entries=255, compression_level=1)
        assert len(written(table)) < share * len(before), name


# Rows in small batches


@given(tables(min_rows=1, min_columns=1, column_types=scalar_types()), st.integers(1, 30))
def test_small_batches_result_in_the_same_file(table, batch_rows):
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, table.schema) as writer:
        for batch in table.to_batches(max_chunksize=batch_rows):
            writer.write_batch(batch)
    assert sink.getvalue() == written(table)


@given(tables(min_rows=1, min_columns=1), st.integers(1, 30), st.sampled_from(["columns", "block"]))
def test_small_batches_of_every_type_come_back(table, batch_rows, array_layout):
    sink = io.BytesIO()
    try:
        writer = fm.MosaicWriter(sink, table.schema, array_layout=array_layout)
    except fm.UnsupportedError:
        return
    with writer:
        for batch in table.to_batches(max_chunksize=batch_rows):
            writer.write_batch(batch)
    assert_same(fm.read_table(sink.getvalue()), table)


@pytest.mark.parametrize("batch_rows", [1, 7, 100, 3000])
def test_pending_rows_take_little_more_memory_than_a_row_group(batch_rows):
    """Numbers and short texts of which half are null, as Arrow takes memory for nulls."""
    num_rows, limit = 9000, 1 << 20
    present = rng.random(num_rows) < 0.5
    table = pa.table(
        {
            f"{kind}{i}": pa.array(values, mask=~present)
            for i in range(20)
            for kind, values in (
                ("number", rng.random(num_rows)),
                ("text", np.array([f"{n}" for n in rng.integers(0, 999, num_rows)], object)),
            )
        }
    )
    most = 0
    with fm.MosaicWriter(io.BytesIO(), table.schema, row_group_bytes=limit) as writer:
        for batch in table.to_batches(max_chunksize=batch_rows):
            writer.write_batch(batch)
            most = max(most, writer._pending.memory)
    assert writer.num_row_groups >= 2
    # Slabs of 1 MiB come on top, and one batch may wait for the next one.
    assert most <= 1.5 * limit + (1 << 20) + batch.nbytes
