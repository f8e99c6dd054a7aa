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
WIDE = rng.integers(0, 2**62, 50)
PAGES = {
    # name: values, encoding, number of entries (None: any)
    "few, equally frequent": (pa.array(distinct(8, ROWS)), DICT, 8),
    "few, one frequent": (pa.array(np.minimum(rng.geometric(0.5, ROWS), 6)), DICT, 9),
    "tens, skewed": (pa.array(np.minimum(rng.zipf(1.5, ROWS), 40)), DICT, 129),
    "short runs": (pa.array(np.repeat(distinct(50, ROWS // 3), 3)), PLAIN, None),
    "runs of wide values": (pa.array(np.repeat(WIDE[distinct(50, ROWS // 5)], 5)), DICT, 129),
    "a walk of int16": (pa.array(np.cumsum(rng.integers(-30, 31, ROWS)), pa.int16()), PLAIN, None),
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


RECURRING = {
    "times of 20 series": np.tile(10**12 + np.cumsum(rng.integers(0, 2000, 1000)), 20),
    "days of 20 series": np.tile(np.sort(rng.integers(15_000, 20_000, 1000)), 20).astype(np.int32),
    "two columns, joined": np.tile(np.arange(1000, dtype=np.int32), 20),
    "repeated blocks": np.tile(rng.integers(0, 2**40, 2000), 10),
    "a sum of decimal fractions": np.cumsum(rng.exponential(0.5, 20_000)).round(3),
    "sorted prices": np.sort(rng.lognormal(3, 0.8, 20_000).round(2)),
    "runs of numbers that come again": np.repeat(WIDE[rng.integers(0, 50, 10_000)], 2),
    "a walk of int16": np.cumsum(rng.integers(-3, 4, 20_000)).astype(np.int16),
    "rare flags": (rng.random(20_000) < 0.1).astype(np.int8),
    "mostly zero": np.where(rng.random(20_000) < 0.85, 0, rng.uniform(0, 1000, 20_000).round(3)),
}


@pytest.mark.parametrize("values", RECURRING.values(), ids=RECURRING)
def test_pages_are_not_larger_than_those_of_the_apache_rule(values):
    """Values of which one expects that they resemble the one before, or a dictionary suits them."""
    table = pa.table({"x": pa.array(values)})
    data = written(table)
    check_readers(data, table)
    assert len(data) <= 1.01 * len(written(table, max_dict_entries=255, compression_level=1))


# Values that resemble the one before


RISING = {
    "int8": lambda x: pa.array(x // 100 % 128, pa.int8()),
    "int16": lambda x: pa.array(x % 30_000, pa.int16()),
    "int32": lambda x: pa.array(x, pa.int32()),
    "int64": lambda x: pa.array(x + 10**12),
    "float64": lambda x: pa.array(x / 4),
    "timestamp[ns]": lambda x: pa.array(x * 1_000_003, pa.timestamp("ns")),
    "texts of one length": lambda x: pa.array([f"order {i:09d}" for i in x]),
}


@pytest.mark.parametrize("nulls", [0, 0.2], ids=["required", "with nulls"])
@pytest.mark.parametrize("make", RISING.values(), ids=RISING)
def test_pages_of_several_blocks(make, nulls):
    """zstd compresses 128 KiB at a time: blocks begin within values."""
    values = make(np.cumsum(rng.integers(0, 5, 150_001)))
    mask = pa.array(rng.random(len(values)) < nulls)
    table = pa.table({"x": pa.array(values.to_pylist(), values.type, mask=mask.to_numpy(False))})
    check_readers(written(table), table)


@pytest.mark.parametrize("make", RISING.values(), ids=RISING)
def test_a_block_of_nulls_comes_first(make):
    """zstd compresses it on its own, which changes what it repeats without saying so."""
    for length in range(2, 40, 3):
        mask = np.repeat(rng.random(40_000 // length) < 0.5, length)
        numbers = np.cumsum(rng.integers(0, 5, len(mask)))
        values = pa.array(make(numbers).to_pylist(), make(numbers[:1]).type, mask=mask)
        table = pa.table({"x": values})
        assert_same(fm.read_table(written(table)), table)


@given(
    st.sampled_from(list(RISING.values())),
    st.lists(st.sampled_from([0, 0, 1, 2, 255, 256, 65_536, -1, -300]), min_size=1, max_size=300),
)
def test_values_that_resemble_the_one_before_come_back(make, steps):
    table = pa.table({"x": make(np.abs(np.cumsum(steps)))})
    assert_same(fm.read_table(written(table)), table)


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
