"""What reading costs, counted: Arrow fields made, blocks decompressed, schemas decoded, bytes read."""

import gc
import io
import sys
import tracemalloc

import pyarrow as pa
import pytest

import fastmosaic as fm
from fastmosaic.file import fetch, opening, scan
from fastmosaic.format import _decode, bucket

NUM_COLUMNS = 1000


@pytest.fixture(scope="module")
def paged():
    """Pages of 8 KB, 10 columns a bucket, two row groups, statistics on one column."""
    values = pa.array(range(2000), pa.int64())
    table = pa.table({f"column_{i:04d}": values for i in range(NUM_COLUMNS)})
    sink = io.BytesIO()
    fm.write_table(
        table,
        sink,
        row_group_size=1000,
        page_size_threshold=0,
        write_statistics=["column_0007"],
    )
    return sink.getvalue()


class Counter:
    """Counts the calls of a function."""

    def __init__(self, monkeypatch, owner, name, weight=lambda *args, **kwargs: 1):
        self.count = 0
        original = getattr(owner, name)

        def counted(*args, **kwargs):
            self.count += weight(*args, **kwargs)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)


@pytest.fixture
def fields(monkeypatch):
    return Counter(monkeypatch, pa, "field")


@pytest.fixture
def blocks(monkeypatch):
    """Blocks decompressed, one by one or all pages of a part of a bucket."""
    counters = [
        Counter(monkeypatch, bucket, "decompress"),
        Counter(monkeypatch, opening, "decompress"),
        Counter(monkeypatch, fetch.Fetcher, "decode", lambda _, task, *__: len(task.part)),
    ]
    return lambda: sum(counter.count for counter in counters)


def test_only_the_fields_asked_for_are_made(paged, fields):
    fm.read_table(paged, columns=["column_0003", "column_0500"])
    assert fields.count == 2


def test_a_row_group_and_batches_make_no_more_fields(paged, fields):
    with fm.MosaicFile(paged) as file:
        file.read_row_group(1, columns=["column_0003"])
        assert fields.count == 1
        list(file.iter_batches(columns=["column_0003"]))
        assert fields.count == 1  # an open file keeps the columns of its last reads


def test_a_filter_makes_fields_of_its_own_columns_only(paged, fields):
    table = fm.read_table(paged, columns=["column_0003"], filters=[("column_0007", ">", 1990)])
    assert table.num_rows == 9
    assert fields.count < 12


def test_the_whole_schema_is_made_once(paged, fields):
    with fm.MosaicFile(paged) as file:
        assert fields.count == 0
        schema = file.schema
        assert len(schema) == NUM_COLUMNS
        file.read()
        assert file.schema is schema
    assert fields.count <= NUM_COLUMNS


def test_only_the_pages_asked_for_are_decompressed(paged, blocks):
    opening.SCHEMAS.clear()
    fm.read_table(paged, columns=["column_0003"])
    assert blocks() == 1 + 2  # the schema block, and a page in each row group


def test_row_groups_that_cannot_match_are_not_decompressed(paged, blocks):
    with fm.MosaicFile(paged) as file:
        before = blocks()
        table = file.read(["column_0003"], filters=[("column_0007", "<", 5)])
        assert table.num_rows == 5
        assert blocks() - before == 2  # the column and the filter's, in the first row group


def test_files_of_one_schema_decode_it_once(paged, monkeypatch):
    decoded = Counter(monkeypatch, opening.SchemaBlock, "decode")
    other = io.BytesIO()
    table = fm.read_table(paged).slice(5, 3)
    fm.write_table(table, other)
    opening.SCHEMAS.clear()
    before = decoded.count
    for _ in range(3):
        fm.MosaicFile(other.getvalue())
        assert fm.read_table(other.getvalue(), columns=["column_0001"]).num_rows == 3
    assert decoded.count == before + 1


def test_a_broken_schema_is_refused_each_time():
    sink = io.BytesIO()
    fm.write_table(pa.table({"a": [1]}), sink, compression="none")
    data = bytearray(sink.getvalue())
    data[data.index(b"\0\1a") + 1] = 99  # a name longer than the block
    for _ in range(2):
        with pytest.raises(fm.CorruptFileError, match="schema block"):
            fm.MosaicFile(bytes(data))


def test_a_bucket_is_decoded_in_one_call(paged, monkeypatch):
    calls = Counter(monkeypatch, fetch.Fetcher, "decode")
    general = Counter(monkeypatch, fetch.Fetcher, "open")
    fm.read_table(paged, use_threads=False)
    assert calls.count == 2 * 100  # row groups, buckets
    assert general.count == 0


# An object takes 28 bytes or more, and the list or dict that refers to it 8.
OBJECT_BYTES = 36


def read_of(num_columns, **options):
    """Return a function that reads a file of some columns in one bucket, all of which is in the tail."""
    column = pa.array([1, None, 3], pa.int64())
    sink = io.BytesIO()
    table = pa.table({f"column_{i:04d}": column for i in range(num_columns)})
    fm.write_table(table, sink, num_buckets=1, **options)
    assert len(sink.getvalue()) < 60_000
    file = fm.MosaicFile(sink.getvalue())
    assert file.schema.equals(table.schema)  # Arrow's fields are made before
    return lambda: file.read(use_threads=False)


def calls_of(work):
    """Count the calls of Python functions, and of C functions by them."""
    count = 0

    def note(*_):
        nonlocal count
        count += 1

    work()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def held_by(work):
    """Return the bytes of Python objects that exist at the same time, at most, during a call."""
    work()
    gc.collect()
    tracemalloc.start()
    try:
        work()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("few", "many", "options"),
    [
        (100, 1000, {"page_size_threshold": 1 << 40}),
        (100, 1000, {"compression": "none"}),
        (20, 120, {"page_size_threshold": 0}),  # at most 128 columns are decoded at a time
    ],
    ids=["monolithic", "not compressed", "paged"],
)
def test_a_column_takes_no_python_object(few, many, options):
    less, more = read_of(few, **options), read_of(many, **options)
    assert calls_of(less) == calls_of(more)
    assert held_by(more) - held_by(less) < (many - few) * OBJECT_BYTES * 2 // 3


def test_small_columns_share_an_allocation(paged, monkeypatch):
    allocations = Counter(monkeypatch, _decode, "_allocate_buffer")
    table = fm.read_table(paged, use_threads=False)
    assert table.num_columns == NUM_COLUMNS
    assert allocations.count == 2 * 100  # of 80 KB for 10 columns of a bucket


def test_a_wide_bucket_is_read_once_and_shared(monkeypatch):
    values = pa.array(range(1000), pa.int64())
    sink = io.BytesIO()
    table = pa.table({f"c{i:03d}": values for i in range(300)})
    fm.write_table(table, sink, num_buckets=1, page_size_threshold=0)
    data = sink.getvalue()
    reads = []

    class Recorder:
        name, size, is_local = "<recorder>", len(data), True

        def read_at(self, offset, length):
            reads.append((offset, length))
            return pa.py_buffer(data[offset : offset + length])

        def close(self):
            pass

    assert fm.read_table(Recorder()).equals(table)
    assert len(reads) == 2  # the tail, and the rest
    assert sum(length for _, length in reads) == len(data)


class Handed:
    """Notes what is handed to threads, and does it without them."""

    def __init__(self, monkeypatch):
        self.threaded = False
        self.count = 0
        monkeypatch.setattr(scan, "map_in_order", self)

    def __call__(self, work, items, use_threads):
        self.threaded = use_threads
        self.count = 0
        for item in items:
            self.count += 1
            yield work(item)


def counters(num_columns, num_rows):
    """A file whose buckets are monolithic and smaller than a thread is worth."""
    counter = pa.array(range(num_rows), pa.int64())
    sink = io.BytesIO()
    fm.write_table(pa.table({f"c{i}": counter for i in range(num_columns)}), sink)
    buckets = fm.read_metadata(sink).row_group(0).buckets
    assert {bucket.layout for bucket in buckets} == {"monolithic"}
    assert sum(bucket.compressed_size for bucket in buckets) < scan.MIN_THREADED_BYTES
    return sink


def test_threads_are_used_by_what_is_decompressed(monkeypatch):
    handed = Handed(monkeypatch)
    fm.read_table(counters(4, 1_000))
    assert not handed.threaded
    fm.read_table(counters(4, 100_000))
    assert handed.threaded


def test_threads_get_small_buckets_in_groups(monkeypatch):
    handed = Handed(monkeypatch)
    monkeypatch.setattr(scan, "num_threads", lambda: 2)
    assert fm.read_table(counters(100, 5_000)).num_columns == 100
    assert handed.threaded
    assert handed.count <= 2 * scan.GROUPS_PER_THREAD
