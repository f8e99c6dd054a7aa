"""The cache of decompressed frames: what is read again is neither read nor decompressed."""

import pickle
import threading

import numpy as np
import pyarrow as pa
import pytest
from files import written
from hypothesis import given, strategies as st
from strategies import assert_same, tables, write_options

import fastmosaic as fm
from fastmosaic.file import fetch
from fastmosaic.file.frames import FrameCache
from fastmosaic.format import bucket

LAYOUTS = {"paged": {"page_size_threshold": 0}, "monolithic": {"page_size_threshold": 1 << 30}}
every_layout = pytest.mark.parametrize("options", LAYOUTS.values(), ids=LAYOUTS)


@pytest.fixture
def decompressed(monkeypatch):
    """Frames that are decompressed, and ranges that are read."""
    noted = []
    for name in ("decode_slot", "decompress_bucket"):
        original = getattr(bucket, name)

        def noting(*args, original=original, name=name):
            noted.append(name)
            return original(*args)

        monkeypatch.setattr(bucket, name, noting)
    read_ranges = fetch.read_ranges

    def reading(source, ranges, **options):
        noted.extend(["read"] * len(ranges))
        return read_ranges(source, ranges, **options)

    monkeypatch.setattr(fetch, "read_ranges", reading)
    return noted


def some_table(num_rows=2000):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            **{f"c{i}": rng.random(num_rows) for i in range(10)},
            "id": range(num_rows),
            "list": [[i] * (i % 3) for i in range(num_rows)],
            "null": pa.nulls(num_rows, pa.int32()),
        }
    )


@every_layout
def test_frames_are_decompressed_once(options, decompressed, tmp_path):
    table = some_table()
    path = tmp_path / "a.mosaic"
    fm.write_table(table, path, row_group_size=500, num_buckets=3, **options)
    for source in (fm.MosaicFile(path, cache="64m"), fm.MosaicDataset(tmp_path, cache="64m")):
        decompressed.clear()
        assert source.take([3, 700, 3]).equals(table.take([3, 700, 3]))
        assert decompressed
        decompressed.clear()
        assert source.take([499, 501, 0]).equals(table.take([499, 501, 0]))
        assert source.take([7], ["c3", "list"]).equals(table.select(["c3", "list"]).slice(7, 1))
        assert decompressed == []
        source.take([1500])
        assert decompressed


def test_without_a_cache_nothing_is_kept(decompressed):
    file = fm.MosaicFile(written(some_table(), **LAYOUTS["paged"]))
    for _ in range(2):
        decompressed.clear()
        file.take([3, 1700], ["list"])
        assert decompressed


@every_layout
def test_repeated_lookups_decompress_nothing(options, decompressed):
    table = some_table()
    for more in ({}, {"write_key_index": "id"}, {"write_statistics": ["id"]}):
        file = fm.MosaicFile(written(table, row_group_size=500, **options, **more), cache="64m")
        first = file.lookup([3, 1999])
        decompressed.clear()
        assert file.lookup([3, 1999]).equals(first)
        assert decompressed == []


def test_the_cache_is_bounded_and_drops_what_was_not_used_for_longest():
    cache = FrameCache(1000)
    for number in range(5):
        cache.keep(number, bytes(300), 300)
        cache.find([0])
    assert cache.size == 900
    assert [number for number in range(5) if cache.find([number]) is not None] == [0, 3, 4]
    cache.keep("large", b"", 1001)
    assert cache.find(["large"]) is None
    cache.keep(3, b"x", 100)
    assert cache.size == 700
    assert cache.find([3, 4]) == [b"x", bytes(300)]
    assert cache.find([3, "none"]) is None


def test_a_file_larger_than_its_cache():
    table = some_table()
    data = written(table, row_group_size=100, **LAYOUTS["paged"])
    file = fm.MosaicFile(data, cache=20_000)
    for number in (0, 1999, 500, 0, 1234):
        assert file.take([number]).equals(table.slice(number, 1))
        assert 0 < file._cache.size <= 20_000
    assert file.read().equals(table)
    assert [batch.num_rows for batch in file.iter_batches(700)]
    assert pickle.loads(pickle.dumps(file))._cache.limit == 20_000


@given(table=tables(min_columns=1, max_columns=5), options=write_options(), number=st.integers(0))
def test_results_are_the_same_with_a_cache(table, options, number):
    data = written(table, **options)
    file, plain = fm.MosaicFile(data, cache="1m"), fm.MosaicFile(data)
    for _ in range(2):
        assert_same(file.read(), plain.read())
        if table.num_rows:
            wanted = [number % table.num_rows, 0]
            assert_same(file.take(wanted), plain.take(wanted))


def test_threads_share_a_cache():
    table = some_table()
    file = fm.MosaicFile(written(table, row_group_size=100, **LAYOUTS["paged"]), cache=50_000)
    wrong = []

    def read(first):
        wrong.extend(
            number
            for number in range(first, 2000, 67)
            if not file.take([number, 5]).equals(table.take([number, 5]))
        )

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert file._cache.size <= 50_000


@pytest.mark.parametrize("cache", ["x", -1, True, 1.5])
def test_limits_that_are_refused(cache):
    with pytest.raises((TypeError, ValueError), match=r"cache|size"):
        fm.MosaicFile(written(some_table(10)), cache=cache)
