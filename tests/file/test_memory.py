"""Memory: how much reading takes, and limits that callers set."""

import gc
import json
import os
import pickle
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from reference import uv

import fastmosaic as fm
from fastmosaic.dataset.arrow import MosaicDataset
from fastmosaic.memory import Memory, default_limit, parse_size

SMALL_PARTS = 1 << 20  # bytes of a reading process that do not grow with the result


def written(table: pa.Table, **options) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    fm.write_table(table, sink, **options)
    return sink.getvalue()


@pytest.fixture(scope="module")
def peaks(tmp_path_factory):
    """Peak of memory, size of the result and of the decompressed block, for each kind of column."""
    # The system's allocator returns large blocks to the system as soon as they are freed.
    system = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_MMAP_THRESHOLD_": "65536"}
    directory = str(tmp_path_factory.mktemp("memory"))
    child = subprocess.run(
        [sys.executable, Path(__file__).with_name("memory_cases.py"), directory],
        env={**os.environ, **system},
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(child.stdout)


@pytest.mark.xdist_group("memory")
def test_reading_takes_little_more_memory_than_its_result(peaks):
    assert len(peaks) > 150
    too_much = {
        name: case
        for name, case in peaks.items()
        if case["peak"] > 1.3 * case["result"] + case["block"] + SMALL_PARTS
    }
    assert too_much == {}


@pytest.mark.xdist_group("memory")
def test_columns_of_nulls_take_no_memory(peaks):
    nulls = [case for name, case in peaks.items() if "all null" in name]
    assert len(nulls) > 20
    assert all(case["peak"] <= SMALL_PARTS for case in nulls)


@pytest.mark.parametrize("group_rows", [200_000, 20_000], ids=["large pages", "small pages"])
def test_one_column_of_a_large_file_takes_its_pages_only(tmp_path, group_rows):
    rows, num_columns = 200_000, 30
    rng = random.Random(1)
    table = pa.table(
        {
            f"c{i:02d}": pa.Array.from_buffers(
                pa.int64(), rows, [None, pa.py_buffer(rng.randbytes(8 * rows))]
            )
            for i in range(num_columns)
        }
    )
    path = tmp_path / "large.mosaic"
    fm.write_table(table, path, num_buckets=1, page_size_threshold=0, row_group_size=group_rows)
    page = stored = 8 * rows  # noise is not compressed
    pool = pa.default_memory_pool()
    with fm.MosaicFile(path) as file:
        file.read(["c03"], use_threads=False)
        gc.collect()
        allocated = pool.bytes_allocated()
        tracemalloc.start()
        try:
            column = file.read(["c03"], use_threads=False)["c03"]
            _, held = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert column.equals(table["c03"])
    assert held <= page + stored + SMALL_PARTS // 2
    assert pool.bytes_allocated() - allocated <= 1.01 * column.nbytes


# ---- limits

NUMBERS = pa.table({"a": range(10_000), "b": [7] * 10_000, "s": ["text"] * 10_000})


def test_a_result_beyond_the_limit_is_refused_with_its_size():
    data = written(NUMBERS, row_group_size=1000)
    with pytest.raises(fm.MemoryLimitError) as caught:
        fm.read_table(data, memory_limit=100_000)
    assert caught.value.limit == 100_000
    assert caught.value.size >= 160_000  # two columns of 8 bytes; without the text
    assert "iter_batches" in str(caught.value)
    assert isinstance(caught.value, fm.MosaicError | MemoryError)
    assert not isinstance(caught.value, fm.CorruptFileError)


@pytest.mark.parametrize("read", [fm.read_table, fm.read_pandas])
def test_the_limit_counts_what_is_read(read):
    data = written(NUMBERS, row_group_size=1000)
    with pytest.raises(fm.MemoryLimitError):
        read(data, columns=["a", "b"], memory_limit="150k")
    assert len(read(data, columns=["a"], memory_limit="150k")) == 10_000
    one = read(data, columns=["a", "b"], filters=[("a", "=", 9)], memory_limit="150k")
    assert len(one) == 1


def test_columns_of_nulls_share_their_memory():
    names = [f"c{i}" for i in range(100)]
    data = written(pa.table({name: pa.nulls(10_000, pa.int64()) for name in names}))
    assert fm.read_table(data, memory_limit=200_000).num_columns == 100


def test_a_constant_of_any_number_of_rows_is_read_in_batches():
    # 2**32 - 1 rows in 66 bytes
    path = Path(__file__).parents[1] / "hostile" / "bool_const.mosaic"
    batches = fm.MosaicFile(path, memory_limit="1m").iter_batches(1000)
    assert [next(batches).num_rows for _ in range(5)] == [1000] * 5


def test_a_batch_beyond_the_limit_is_refused():
    data = written(pa.table({"s": ["x" * 1000] * 5000}))
    file = fm.MosaicFile(data, memory_limit="1m")
    assert sum(batch.num_rows for batch in file.iter_batches(500)) == 5000
    with pytest.raises(fm.MemoryLimitError):
        next(file.iter_batches(5000))


@pytest.mark.parametrize("batch_size", [1, 999, 1000, 4096, 70_000])
def test_a_large_row_group_is_read_in_portions(batch_size, monkeypatch):
    monkeypatch.setattr("fastmosaic.file.scan.WHOLE_GROUP_BYTES", 1)
    monkeypatch.setattr("fastmosaic.file.scan.PORTION_BYTES", 20_000)
    rows = 3000 if batch_size == 1 else 70_001
    table = pa.table(
        {
            "n": pa.array([None if i % 7 == 3 else i for i in range(rows)]),
            "s": pa.array([None if i % 5 == 2 else str(i) * (i % 4) for i in range(rows)]),
            "k": ["same"] * rows,
            "l": pa.array([None if i % 11 == 1 else [i] * (i % 3) for i in range(rows)]),
            "m": pa.array([[("a", [i])] * (i % 2) for i in range(rows)], pa.map_(pa.string(), pa.list_(pa.int64()))),
        }
    )  # fmt: skip
    for options in (
        {},
        {"array_layout": "block"},
        {"page_size_threshold": 0},
        {"compression": "none"},
    ):
        data = written(table, row_group_bytes=1 << 40, **options)
        file = fm.MosaicFile(data)
        assert file.num_row_groups == 1
        batches = list(file.iter_batches(batch_size))
        assert {batch.num_rows for batch in batches[:-1]} <= {batch_size}
        assert pa.Table.from_batches(batches).equals(table)
        kept = pa.Table.from_batches(file.iter_batches(batch_size, filters=pc.field("n") > 2500))
        assert kept.equals(table.filter(pc.field("n") > 2500))


def test_pages_that_are_not_kept_are_read_again(monkeypatch):
    monkeypatch.setattr("fastmosaic.file.scan.WHOLE_GROUP_BYTES", 1)
    monkeypatch.setattr("fastmosaic.file.scan.PORTION_BYTES", 1000)
    monkeypatch.setattr("fastmosaic.file.scan.KEPT_BYTES", 30_000)
    table = pa.table({f"c{i}": pa.array([f"{i} {k}" for k in range(2000)]) for i in range(8)})
    for options in ({}, {"page_size_threshold": 0}):
        data = written(table, num_buckets=4, row_group_bytes=1 << 40, **options)
        batches = list(fm.MosaicFile(data, memory_limit=50_000).iter_batches(300))
        assert pa.Table.from_batches(batches).equals(table)


def test_datasets_have_the_same_limits(tmp_path, monkeypatch):
    for i in range(3):
        fm.write_table(NUMBERS, tmp_path / f"{i}.mosaic", row_group_size=2000)
    with pytest.raises(fm.MemoryLimitError):
        fm.read_table(tmp_path, memory_limit="500k")
    dataset = MosaicDataset(tmp_path, memory_limit="500k")
    with pytest.raises(fm.MemoryLimitError):
        dataset.to_table()
    assert sum(batch.num_rows for batch in dataset.iter_batches(1000)) == 30_000
    assert dataset.to_table(filter=pc.field("a") < 10).num_rows == 30
    assert dataset.count_rows(pc.field("a") < 10) == 30
    again = pickle.loads(pickle.dumps(dataset))
    with pytest.raises(fm.MemoryLimitError):
        again.to_table()
    monkeypatch.setattr("fastmosaic.file.scan.WHOLE_GROUP_BYTES", 1)
    monkeypatch.setattr("fastmosaic.file.scan.PORTION_BYTES", 1000)
    assert pa.Table.from_batches(dataset.iter_batches(700)).equals(
        pa.concat_tables([NUMBERS] * 3).combine_chunks()
    )


def test_the_first_rows_of_a_large_row_group_are_decoded_alone():
    path = Path(__file__).parents[1] / "hostile" / "const100M.mosaic"  # 400 MB in a row group
    assert MosaicDataset(path, memory_limit="1m").head(5).num_rows == 5
    taken = MosaicDataset(path, memory_limit="1m").take([99_999_999, 3])
    assert taken.num_rows == 2


def test_a_pickled_file_keeps_its_limit(tmp_path):
    fm.write_table(NUMBERS, tmp_path / "a.mosaic")
    with fm.MosaicFile(tmp_path / "a.mosaic", memory_limit=1000) as file:
        again = pickle.loads(pickle.dumps(file))
    with again, pytest.raises(fm.MemoryLimitError):
        again.read()


def test_the_environment_sets_the_default(monkeypatch):
    data = written(pa.table({"a": pa.array([7] * 10_000_000)}))
    assert fm.read_table(data).num_rows == 10_000_000
    monkeypatch.setenv("FASTMOSAIC_MEMORY_LIMIT", "70m")
    with pytest.raises(fm.MemoryLimitError):
        fm.read_table(data)
    assert fm.read_table(data, memory_limit="100m").num_rows == 10_000_000
    monkeypatch.setenv("FASTMOSAIC_MEMORY_LIMIT", "much")
    with pytest.raises(ValueError, match="environment variable FASTMOSAIC_MEMORY_LIMIT: invalid"):
        fm.read_table(data)


def test_the_default_is_half_of_the_memory(monkeypatch):
    monkeypatch.delenv("FASTMOSAIC_MEMORY_LIMIT", raising=False)
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < default_limit() <= physical // 2


@pytest.mark.parametrize(("limit", "error"), [(-1, ValueError), (True, TypeError), (1.5, TypeError), ("x", ValueError)])  # fmt: skip
def test_an_invalid_limit_is_refused(limit, error):
    data = written(NUMBERS)
    with pytest.raises(error):
        fm.read_table(data, memory_limit=limit)


def test_sizes_as_text():
    assert [parse_size(text) for text in ("1000", "64k", "2M", "1gb")] == [
        1000, 64 << 10, 2 << 20, 1 << 30
    ]  # fmt: skip


def test_a_part_is_given_back():
    memory = Memory(100)
    part = memory.part()
    part.take(80)
    part.give_back()
    memory.take(90)
    with pytest.raises(
        fm.MemoryLimitError, match="at least 120 bytes of memory, but the limit is 100"
    ):
        memory.part().take(30)


# ---- text beyond Arrow's offsets


def test_a_text_column_of_more_than_two_gigabytes_is_read_in_several_batches():
    few = (Path(__file__).parents[1] / "hostile" / "conststr.mosaic").read_bytes()
    assert few.count(uv(35_000)) == 1
    many = few.replace(uv(35_000), uv(40_000))  # rows with 60,000 bytes each
    with pytest.raises(fm.MemoryLimitError) as caught:
        fm.read_table(many, memory_limit="2g")
    assert caught.value.size > 2_400_000_000
    column = fm.read_table(many, memory_limit="3g").column("a")
    assert len(column) == 40_000
    assert column.num_chunks > 1
    assert pc.all(pc.equal(pc.binary_length(column), 60_000)).as_py()
