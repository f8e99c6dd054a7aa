"""Options, row groups, conversions, errors, and what is left on disk when writing fails."""

import contextlib
import datetime
import decimal
import io
import os
import weakref
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pytest
import reference
from files import written

import fastmosaic as fm

SMALL = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})


def group_rows(data: bytes) -> list[int]:
    metadata = fm.read_metadata(data)
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


# Row groups --------------------------------------------------------------------------------


def test_a_row_group_has_at_most_row_group_size_rows():
    table = pa.table({"a": range(100)})
    assert group_rows(written(table, row_group_size=30)) == [30, 30, 30, 10]


def test_small_batches_fill_a_row_group_of_row_group_size_rows():
    table = pa.table({"a": range(100)})
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, table.schema, row_group_size=40) as writer:
        for batch in table.to_batches(max_chunksize=7):
            writer.write_batch(batch)
    assert group_rows(sink.getvalue()) == [40, 40, 20]
    assert fm.read_table(sink.getvalue()).equals(table)


def test_batches_are_not_cut_where_the_bytes_are_reached():
    # 8 bytes a value and 1 for the bitmap: 9 a row, 90 a batch.
    table = pa.table({"a": range(60)})
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, table.schema, row_group_bytes=100) as writer:
        for batch in table.to_batches(max_chunksize=10):
            writer.write_batch(batch)
    assert group_rows(sink.getvalue()) == [20, 20, 20]


def test_a_batch_that_reaches_the_bytes_exactly_ends_the_row_group():
    table = pa.table({"a": range(60)})
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, table.schema, row_group_bytes=180) as writer:
        for batch in table.to_batches(max_chunksize=10):
            writer.write_batch(batch)
    assert group_rows(sink.getvalue()) == [20, 20, 20]


def test_a_large_batch_is_cut_by_bytes():
    table = pa.table({"a": range(10_000)})
    data = written(table, row_group_bytes=9 * 1000)
    rows = group_rows(data)
    assert len(rows) >= 10
    assert all(500 <= n <= 1100 for n in rows[:-1])
    assert fm.read_table(data).equals(table)


def test_a_batch_is_not_cut_into_pieces_of_less_than_64_rows():
    table = pa.table({"a": range(1000)})
    data = written(table, row_group_bytes=1)
    assert min(group_rows(data)) >= 64
    assert fm.read_table(data).equals(table)


def test_an_empty_batch_makes_no_row_group():
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, SMALL.schema, row_group_bytes=1) as writer:
        writer.write(SMALL.slice(0, 0))
        writer.write(SMALL)
        writer.write(SMALL.slice(0, 0))
    assert group_rows(sink.getvalue()) == [3]


def test_the_writer_counts_row_groups():
    with fm.MosaicWriter(io.BytesIO(), SMALL.schema, row_group_size=3) as writer:
        assert writer.num_row_groups == 0
        writer.write(SMALL)
        writer.write(SMALL)
        assert writer.num_row_groups == 2
        assert writer.schema.equals(SMALL.schema)


def test_a_stream_of_nothing_but_nulls_flushes():
    schema = pa.schema([(f"column_{i:05}", pa.string()) for i in range(10_000)])
    batch = pa.record_batch([pa.nulls(200, pa.string())] * 10_000, schema=schema)
    with fm.MosaicWriter(io.BytesIO(), schema, row_group_bytes=2_000_000) as writer:
        for _ in range(8):
            # 100 buckets of 100 columns: 1,300 bytes of bitmaps a row.
            writer.write_batch(batch)
        assert writer.num_row_groups >= 1


def test_a_sparse_stream_flushes():
    # One value in a thousand, in turns: hardly any bytes but those of the bitmaps.
    names = [f"column_{i:04}" for i in range(1000)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    rows = 100
    with fm.MosaicWriter(io.BytesIO(), schema, row_group_bytes=100_000) as writer:
        for k in range(10):
            columns = [
                pa.array([k], pa.int64()).take(pa.array([0] + [None] * (rows - 1)))
                if i % 10 == k
                else pa.nulls(rows, pa.int64())
                for i in range(1000)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))
        assert writer.num_row_groups >= 1


def test_many_tiny_batches_take_no_more_memory_than_their_row_group():
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    batch = pa.record_batch({"a": range(10), "b": ["some text"] * 10}, schema)
    before = pa.total_allocated_bytes()
    peak = 0
    with fm.MosaicWriter(io.BytesIO(), schema, row_group_bytes=100_000) as writer:
        for _ in range(5000):
            writer.write_batch(batch)
            peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < 10_000_000


def test_small_slices_do_not_keep_all_the_batches_they_come_from():
    schema = pa.schema([("a", pa.int64())])
    with fm.MosaicWriter(io.BytesIO(), schema) as writer:
        before = pa.total_allocated_bytes()
        for _ in range(200):
            large = pa.array(np.arange(100_000))
            writer.write_batch(pa.record_batch([large.cast(pa.int64())], schema=schema).slice(5, 1))
        assert pa.total_allocated_bytes() - before < 50 * 800_000


def test_small_batches_are_released_as_they_are_written():
    def batch(start):
        return pa.record_batch({"id": pa.array(range(start, start + 1000), pa.int64())})

    sink = io.BytesIO()
    with fm.MosaicWriter(sink, batch(0).schema) as writer:
        before = pa.total_allocated_bytes()
        held = []
        for start in range(0, 5000, 1000):
            writer.write(batch(start))
            held.append(pa.total_allocated_bytes() - before)
    assert held[0] > 0  # there may be no other one
    assert held[1:] == [0, 0, 0, 0]
    assert fm.read_table(sink)["id"].to_pylist() == list(range(5000))


# Options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "stored"), [("zstd", "zstd"), ("none", "none"), (None, "none")])
def test_the_compression_is_stored(given, stored):
    assert fm.read_metadata(written(SMALL, compression=given)).compression == stored


def test_a_higher_level_takes_fewer_bytes():
    table = pa.table({"a": [f"{i * i % 1009} items of {i % 37} in a box" for i in range(20_000)]})
    assert len(written(table, compression_level=19)) < len(written(table, compression_level=1))


def test_a_checksum_takes_four_bytes_a_frame():
    one = written(SMALL, num_buckets=1, page_size_threshold=32768)
    other = written(SMALL, num_buckets=1, page_size_threshold=32768, checksum=False)
    assert len(one) - len(other) == 8


@pytest.mark.parametrize(("requested", "stored"), [(1, 1), (2, 2), (3, 3), (100, 3), (10_000, 3)])
def test_there_are_no_more_buckets_than_columns(requested, stored):
    table = pa.table({"a": [1], "b": [2], "c": [3]})
    assert fm.read_metadata(written(table, num_buckets=requested)).num_buckets == stored


def test_the_threshold_decides_between_pages_and_whole_buckets():
    table = pa.table({"a": range(1000)})
    layouts = [
        fm.read_metadata(written(table, page_size_threshold=size)).row_group(0).buckets[0].layout
        for size in (0, 8000, 8001)
    ]
    assert layouts == ["paged", "paged", "monolithic"]


def test_without_compression_there_are_no_pages():
    data = written(pa.table({"a": range(1000)}), compression="none", page_size_threshold=0)
    assert fm.read_metadata(data).row_group(0).buckets[0].layout == "monolithic"


def encodings(data: bytes, num_columns: int) -> list[int]:
    """Those of an uncompressed file of one bucket without nested columns."""
    return reference.unpack_bits(data[: (2 * num_columns + 7) // 8], 2, num_columns)


def test_the_dictionary_is_chosen_by_column():
    table = pa.table({"a": ["red", "green"] * 50, "b": ["red", "green"] * 50})
    options = {"compression": "none", "num_buckets": 1}
    assert encodings(written(table, **options), 2) == [reference.DICT] * 2
    assert encodings(written(table, use_dictionary=["b"], **options), 2) == [
        reference.PLAIN,
        reference.DICT,
    ]
    assert encodings(written(table, use_dictionary=False, **options), 2) == [reference.PLAIN] * 2


def test_the_dictionary_has_at_most_max_dict_entries():
    table = pa.table({"a": [f"value {i % 10}" for i in range(500)]})
    options = {"compression": "none", "num_buckets": 1}
    assert encodings(written(table, max_dict_entries=10, **options), 1) == [reference.DICT]
    assert encodings(written(table, max_dict_entries=9, **options), 1) == [reference.PLAIN]


def test_the_dictionary_has_at_most_max_dict_total_bytes():
    table = pa.table({"a": [f"value {i % 10}" for i in range(500)]})
    options = {"compression": "none", "num_buckets": 1}
    # Ten entries of seven letters and a length.
    assert encodings(written(table, max_dict_total_bytes=80, **options), 1) == [reference.DICT]
    assert encodings(written(table, max_dict_total_bytes=79, **options), 1) == [reference.PLAIN]


def test_statistics_of_all_columns_leave_out_the_types_that_have_none():
    table = pa.table(
        {
            "a": [1],
            "b": pa.array([b"x"], pa.binary()),
            "c": pa.array([decimal.Decimal(1)], pa.decimal128(30, 0)),
            "d": [[1]],
        }
    )
    metadata = fm.read_metadata(written(table, write_statistics=True))
    assert set(metadata.row_group(0).statistics) == {"a"}


def test_statistics_of_some_columns():
    metadata = fm.read_metadata(written(SMALL, write_statistics=["b"]))
    statistics = metadata.row_group(0).statistics
    assert {n: (s.null_count, s.min, s.max) for n, s in statistics.items()} == {"b": (1, "x", "z")}


def test_statistics_of_an_unknown_column_are_refused():
    with pytest.raises(fm.ColumnNotFoundError, match="'nope'"):
        written(SMALL, write_statistics=["a", "nope"])


def test_statistics_of_a_type_without_them_are_refused():
    table = pa.table({"lists": [[1]]})
    with pytest.raises(fm.UnsupportedError, match="lists"):
        written(table, write_statistics=["lists"])


def test_a_dictionary_of_an_unknown_column_is_refused():
    with pytest.raises(fm.ColumnNotFoundError, match="'nope'"):
        written(SMALL, use_dictionary=["nope"])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("compression", "snappy"),
        ("compression", "zip"),
        ("compression_level", 1000),
        ("num_buckets", 0),
        ("num_buckets", -1),
        ("row_group_size", 0),
        ("row_group_size", -5),
        ("row_group_bytes", -1),
        ("max_dict_entries", -1),
        ("max_dict_total_bytes", -1),
        ("page_size_threshold", -1),
    ],
)
def test_an_option_out_of_range_is_refused_by_its_name(option, value):
    with pytest.raises(ValueError, match=option):
        fm.MosaicWriter(io.BytesIO(), SMALL.schema, **{option: value})


def test_an_option_that_is_out_of_range_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="num_buckets"):
        fm.MosaicWriter(tmp_path / "t.mosaic", SMALL.schema, num_buckets=-1)
    assert os.listdir(tmp_path) == []


def test_the_default_layout_is_not_larger_than_that_of_the_reference():
    table = pa.table({f"c{i:03}": [f"{i} {j % 50}" for j in range(2000)] for i in range(100)})
    assert len(written(table)) <= 1.05 * len(written(table, page_size_threshold=32768))


def test_the_estimated_size_is_near_the_size():
    table = pa.table({"a": [f"{i * 7919 % 10_007} and more" for i in range(50_000)]})
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, table.schema, row_group_size=5000) as writer:
        assert 0 < writer.estimated_file_size() <= 2048
        writer.write(table.slice(0, 48_000))
        estimated = writer.estimated_file_size()
    assert estimated == pytest.approx(len(sink.getvalue()), rel=0.1)


def test_the_estimated_size_without_compression_counts_each_byte():
    with fm.MosaicWriter(io.BytesIO(), SMALL.schema, compression="none") as writer:
        writer.write(SMALL)
        # Three integers of 8 bytes, two texts of one letter, a byte of bitmap a row and bucket.
        assert writer.estimated_file_size() == 24 + 4 + 6 + 1024


# All or nothing ----------------------------------------------------------------------------


class Interrupted(Exception):
    pass


def write_and_fail(where, **options) -> None:
    with fm.MosaicWriter(where, SMALL.schema, row_group_size=1, **options) as writer:
        writer.write(SMALL)
        raise Interrupted("here")


def test_a_file_appears_only_when_it_is_complete(tmp_path):
    path = tmp_path / "t.mosaic"
    writer = fm.MosaicWriter(path, SMALL.schema, row_group_size=1)
    writer.write(SMALL)
    assert not path.exists()
    writer.close()
    assert os.listdir(tmp_path) == ["t.mosaic"]
    assert fm.read_table(path).equals(SMALL)


def test_a_block_that_raises_leaves_no_file(tmp_path):
    path = tmp_path / "t.mosaic"
    with pytest.raises(Interrupted, match="here"):
        write_and_fail(path)
    assert os.listdir(tmp_path) == []


def test_a_block_that_raises_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.mosaic"
    fm.write_table(SMALL, path)
    with pytest.raises(Interrupted, match="here"):
        write_and_fail(path)
    assert os.listdir(tmp_path) == ["t.mosaic"]
    assert fm.read_table(path).equals(SMALL)


def test_a_block_that_raises_leaves_no_file_in_a_filesystem(tmp_path):
    local = pa.fs.SubTreeFileSystem(str(tmp_path), pa.fs.LocalFileSystem())
    with pytest.raises(Interrupted, match="here"):
        write_and_fail("t.mosaic", filesystem=local)
    assert not any(
        name.endswith("t.mosaic") and is_readable(tmp_path / name) for name in os.listdir(tmp_path)
    )


def is_readable(path: Path) -> bool:
    try:
        fm.read_table(path)
    except fm.CorruptFileError:
        return False
    return True


def test_an_abandoned_file_is_not_there(tmp_path):
    writer = fm.MosaicWriter(tmp_path / "t.mosaic", SMALL.schema)
    writer.write(SMALL)
    writer.abandon()
    writer.abandon()
    assert os.listdir(tmp_path) == []


def test_a_forgotten_writer_leaves_no_file(tmp_path):
    writer = fm.MosaicWriter(tmp_path / "t.mosaic", SMALL.schema, row_group_size=1)
    writer.write(SMALL)
    del writer
    assert "t.mosaic" not in os.listdir(tmp_path)


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_a_finished_writer_takes_no_more(end):
    writer = fm.MosaicWriter(io.BytesIO(), SMALL.schema)
    getattr(writer, end)()
    with pytest.raises(ValueError, match=r"closed|abandoned"):
        writer.write(SMALL)


def test_a_refused_batch_leaves_the_writer_usable(tmp_path):
    path = tmp_path / "t.mosaic"
    with fm.MosaicWriter(path, SMALL.schema) as writer:
        writer.write(SMALL)
        with pytest.raises(fm.SchemaMismatchError, match="'b'"):
            writer.write(SMALL.select(["a"]))
        writer.write(SMALL)
    assert fm.read_table(path).equals(pa.concat_tables([SMALL, SMALL]))


class FullDisk(io.RawIOBase):
    """A file that takes so many bytes and no more."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity

    def writable(self) -> bool:
        return True

    def write(self, data) -> int:
        size = memoryview(data).nbytes
        self.capacity -= size
        if self.capacity < 0:
            raise OSError(28, "No space left on device")
        return size


@pytest.mark.parametrize("capacity", [0, 10, 100, 200])
def test_a_full_disk_is_the_error_of_the_system(capacity):
    table = pa.table({"a": [f"{i * 7919 % 10_007}" for i in range(1000)]})
    with pytest.raises(OSError, match="No space left"):
        fm.write_table(table, FullDisk(capacity), row_group_size=100)


def test_after_a_failed_write_the_writer_cannot_complete_the_file():
    sink = FullDisk(50)
    table = pa.table({"a": [f"{i * 7919 % 10_007}" for i in range(1000)]})
    writer = fm.MosaicWriter(sink, table.schema, row_group_size=100)
    with pytest.raises(OSError, match="No space left"):
        writer.write(table)
    sink.capacity = 1 << 30
    with pytest.raises(ValueError, match="aborted by an earlier error"):
        writer.write(table)
    assert sink.capacity == 1 << 30


def test_a_directory_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fm.write_table(SMALL, tmp_path / "nowhere" / "t.mosaic")


def test_a_file_is_as_readable_as_any_other_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    fm.write_table(SMALL, tmp_path / "t.mosaic")
    assert (tmp_path / "t.mosaic").stat().st_mode == (tmp_path / "plain").stat().st_mode


# What can be written -----------------------------------------------------------------------

SOURCES = {
    "table": lambda: SMALL,
    "batch": lambda: SMALL.to_batches()[0],
    "reader": lambda: SMALL.to_reader(1),
    "dataset": lambda: ds.dataset(SMALL),
    "scanner": lambda: ds.dataset(SMALL).scanner(batch_size=2),
    "polars": lambda: pl.from_arrow(SMALL),
    "pandas": lambda: SMALL.to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": lambda: duckdb.from_arrow(SMALL),
    "list of batches": lambda: SMALL.to_batches(max_chunksize=2),
    "generator of tables": lambda: (SMALL.slice(start, 1) for start in range(3)),
    "tables and batches": lambda: [SMALL.slice(0, 1), *SMALL.slice(1).to_batches()],
}


@pytest.mark.parametrize("source", SOURCES)
def test_write_table_accepts_what_write_dataset_accepts(source):
    assert fm.read_table(written(SOURCES[source]())).cast(SMALL.schema).equals(SMALL)


@pytest.mark.parametrize("source", SOURCES)
def test_a_writer_accepts_what_write_dataset_accepts(source):
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, SMALL.schema) as writer:
        writer.write(SOURCES[source]())
        writer.write(SMALL)
    assert fm.read_table(sink.getvalue()).equals(pa.concat_tables([SMALL, SMALL]))


def test_a_data_set_of_ours_is_written_as_one_file(tmp_path):
    fm.write_dataset(SMALL, tmp_path / "data", max_rows_per_file=1)
    fm.write_table(fm.MosaicDataset(tmp_path / "data"), tmp_path / "one.mosaic")
    assert fm.read_table(tmp_path / "one.mosaic").equals(SMALL)


def test_a_stream_is_not_collected():
    alive = []

    def batches():
        for number in range(50):
            batch = pa.record_batch({"a": np.full(10_000, number)})
            alive.append(weakref.ref(batch))
            yield batch
            del batch
            assert sum(reference() is not None for reference in alive) < 5

    data = written(batches(), row_group_size=10_000)
    assert group_rows(data) == [10_000] * 50
    assert len(alive) == 50


def test_a_schema_may_be_given():
    schema = pa.schema({"b": pa.string(), "a": pa.int64()})
    assert fm.read_table(written(SMALL, schema=schema)).schema.equals(schema)
    assert fm.read_table(written([], schema=schema)).equals(schema.empty_table())
    for data in (SMALL, SMALL.slice(0, 0), SMALL.to_reader(), [SMALL]):
        with pytest.raises(fm.SchemaMismatchError, match="'a'"):
            written(data, schema=pa.schema({"a": pa.int32(), "b": pa.string()}))


def test_nothing_needs_a_schema():
    with pytest.raises(ValueError, match="the iterable is empty and has no schema; pass schema="):
        written([])
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, SMALL.schema) as writer:
        writer.write([])
    assert fm.read_table(sink.getvalue()).equals(SMALL.slice(0, 0))


def test_later_items_must_match_the_first(tmp_path):
    with pytest.raises(fm.SchemaMismatchError, match="'b'"):
        fm.write_table([SMALL, SMALL.select(["a"])], tmp_path / "t.mosaic")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("data", [{"a": [1]}, "data.parquet", b"bytes", 3, None])
def test_something_else_cannot_be_written(data):
    with pytest.raises(TypeError, match=f"cannot write an object of type {type(data).__name__}"):
        fm.write_table(data, io.BytesIO())
    writer = fm.MosaicWriter(io.BytesIO(), SMALL.schema)
    with pytest.raises(TypeError, match=f"cannot write an object of type {type(data).__name__}"):
        writer.write(data)


def test_a_list_of_something_else_cannot_be_written():
    with (
        pytest.raises(TypeError, match=r"must contain tables and record batches.* type int"),
        fm.MosaicWriter(io.BytesIO(), SMALL.schema) as writer,
    ):
        writer.write([1, 2, 3])


# Conversions -------------------------------------------------------------------------------

TEXTS = ["red", None, "", "grün", "red", "blue"]
RAWS = [b"red", None, b"", b"\xff", b"red", b"blue"]
LISTS = [[1, 2], None, [], [3, None], [4, 5], [6, 7]]
PAIRS = [[1, 2], None, [0, None], [3, 4], [4, 5], [6, 7]]
NUMBERS = [0, 1, None, 7, 1, 255]
DAYS = [datetime.date(2020, 1, 2), None, datetime.date(1969, 12, 31)] * 2

CONVERTED = {
    "large_string": (pa.array(TEXTS, pa.large_string()), pa.string()),
    "string_view": (pa.array(TEXTS, pa.string_view()), pa.string()),
    "large_binary": (pa.array(RAWS, pa.large_binary()), pa.binary()),
    "binary_view": (pa.array(RAWS, pa.binary_view()), pa.binary()),
    "dictionary": (pa.array(TEXTS).dictionary_encode(), pa.string()),
    "dictionary of large_string": (
        pa.array(TEXTS, pa.large_string()).dictionary_encode(),
        pa.string(),
    ),
    "dictionary of int64": (pa.array(NUMBERS, pa.int64()).dictionary_encode(), pa.int64()),
    "dictionary of float": (
        pa.array([0.5, None, -0.0] * 2, pa.float64()).dictionary_encode(),
        pa.float64(),
    ),
    "dictionary with a null entry": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 0, 1]), ["a", None, "b"]),
        pa.string(),
    ),
    "fixed_size_binary": (pa.array([b"abc", None, b"\0\0\0"] * 2, pa.binary(3)), pa.binary()),
    "large_list": (pa.array(LISTS, pa.large_list(pa.int64())), pa.list_(pa.int64())),
    "list_view": (pa.array(LISTS, pa.list_view(pa.int64())), pa.list_(pa.int64())),
    "large_list_view": (pa.array(LISTS, pa.large_list_view(pa.int64())), pa.list_(pa.int64())),
    "fixed_size_list": (pa.array(PAIRS, pa.list_(pa.int32(), 2)), pa.list_(pa.int32())),
    "uint8": (pa.array(NUMBERS, pa.uint8()), pa.int16()),
    "uint16": (pa.array([65535, None, 0] * 2, pa.uint16()), pa.int32()),
    "uint32": (pa.array([(1 << 32) - 1, None, 0] * 2, pa.uint32()), pa.int64()),
    "null": (pa.nulls(6), pa.string()),
    "timestamp[s]": (pa.array([1, None, -1] * 2, pa.timestamp("s")), pa.timestamp("ms")),
    "timestamp[s, tz]": (
        pa.array([1, None, -1] * 2, pa.timestamp("s", "Europe/Berlin")),
        pa.timestamp("ms", "Europe/Berlin"),
    ),
    "time32[s]": (pa.array([1, None, 86399] * 2, pa.time32("s")), pa.time32("ms")),
    "date64": (pa.array(DAYS, pa.date64()), pa.date32()),
    "decimal32": (
        pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-9.99")] * 2, pa.decimal32(5, 2)),
        pa.decimal128(5, 2),
    ),
    "decimal64": (
        pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-9.9")] * 2, pa.decimal64(15, 2)),
        pa.decimal128(15, 2),
    ),
    "decimal256": (
        pa.array([decimal.Decimal(10) ** 37, None, decimal.Decimal(-1)] * 2, pa.decimal256(38, 0)),
        pa.decimal128(38, 0),
    ),
    "list of large_string": (
        pa.array([["a"], None, [], ["b", None]], pa.list_(pa.large_string())),
        pa.list_(pa.string()),
    ),
    "large_list of uint8": (
        pa.array([[1], None, [], [255, None]], pa.large_list(pa.uint8())),
        pa.list_(pa.int16()),
    ),
    "list of dictionary": (
        pa.ListArray.from_arrays([0, 2, 2, 3], pa.array(["a", "b", "a"]).dictionary_encode()),
        pa.list_(pa.string()),
    ),
    "list of null": (pa.array([[None], [], None], pa.list_(pa.null())), pa.list_(pa.string())),
    "map of large_string to fixed_size_list": (
        pa.array([[("a", [1, 2])], None, []], pa.map_(pa.large_string(), pa.list_(pa.uint16(), 2))),
        pa.map_(pa.string(), pa.list_(pa.int32())),
    ),
}


@pytest.mark.parametrize(("array", "stored"), CONVERTED.values(), ids=CONVERTED)
def test_a_type_that_the_format_lacks_is_converted_and_restored(array, stored):
    for part in (array, array.slice(1, 2)):
        table = pa.table({"a": part})
        data = written(table)
        for actual in (
            fm.read_table(data, logical=False),
            fm.read_table(written(table, annex=False)),
        ):
            assert actual.schema.field("a").type == stored
            assert actual["a"].to_pylist() == part.to_pylist()
        restored = fm.read_table(data)
        assert restored.schema.equals(table.schema)
        assert restored["a"].to_pylist() == part.to_pylist()


@pytest.mark.parametrize("type", [pa.large_string(), pa.string_view(), pa.string()], ids=str)
def test_batches_of_another_form_of_the_same_type_fit_the_writer(type):
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, pa.schema([("a", pa.string())])) as writer:
        writer.write(pa.table({"a": pa.array(TEXTS, type)}))
        writer.write(pa.table({"a": pa.array(TEXTS).dictionary_encode()}))
    assert fm.read_table(sink.getvalue())["a"].to_pylist() == TEXTS * 2


def test_an_extension_type_is_stored_as_its_storage():
    array = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None]))
    actual = fm.read_table(written(pa.table({"a": array})))
    assert actual["a"].to_pylist() == ['{"a": 1}', None]


def test_a_dictionary_that_differs_from_chunk_to_chunk_is_converted():
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    table = pa.table({"a": pa.chunked_array(chunks)})
    assert fm.read_table(written(table))["a"].to_pylist() == ["a", "b", "c", "a"]


def test_a_frame_of_pandas_is_written():
    frame = pd.DataFrame(
        {
            "text": ["x", None, "z"],
            "category": pd.Categorical(["a", "b", "a"]),
            "number": np.array([1, 2, 3], np.uint8),
            "when": pd.to_datetime(["2020-01-01T00:00:00.5", None, "2021-06-07T08:09:10.1"]),
            "flag": pd.array([True, None, False], "boolean"),
        }
    )
    table = pa.Table.from_pandas(frame)
    actual = fm.read_table(written(table))
    assert actual.to_pylist() == table.to_pylist()


def test_a_frame_of_polars_is_written():
    frame = pl.DataFrame(
        {
            "text": ["x", None, "z"],
            "category": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
            "number": pl.Series([1, 2, 255], dtype=pl.UInt8),
            "lists": [["a"], [], None],
            "pairs": pl.Series([[1, 2], [3, 4], None], dtype=pl.Array(pl.Int32, 2)),
            "day": [datetime.date(2020, 1, 2), None, datetime.date(1960, 1, 1)],
            "when": [datetime.datetime(2020, 1, 2, 3, 4, 5, 678), None, None],
            "money": pl.Series(["1.25", None, "-3.5"]).cast(pl.Decimal(10, 2)),
            "nothing": [None, None, None],
        }
    )
    table = frame.to_arrow()
    assert fm.read_table(written(table)).to_pylist() == table.to_pylist()


UNSUPPORTED = {
    "uint64": pa.array([1], pa.uint64()),
    "struct": pa.array([{"x": 1}]),
    "duration": pa.array([1], pa.duration("s")),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3])]),
    "union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    "run_end_encoded": pa.RunEndEncodedArray.from_arrays([1], ["x"]),
    "halffloat": pa.array([np.float16(1)], pa.float16()),
    "time64": pa.array([1], pa.time64("us")),
    "decimal256": pa.array([decimal.Decimal(1)], pa.decimal256(39, 0)),
    "list of uint64": pa.array([[1]], pa.list_(pa.uint64())),
    "map to struct": pa.array(
        [[("a", {"x": 1})]], pa.map_(pa.string(), pa.struct([("x", pa.int8())]))
    ),
}


@pytest.mark.parametrize(("name", "array"), UNSUPPORTED.items(), ids=UNSUPPORTED)
def test_a_type_that_needs_the_annex_is_named_with_its_column(tmp_path, name, array):
    table = pa.table({"fine": [1], "my column": array})
    with pytest.raises(fm.UnsupportedError, match=rf"'my column'.*{name.split()[-1]}"):
        fm.write_table(table, tmp_path / "t.mosaic", annex=False)
    assert os.listdir(tmp_path) == []
    assert (name == "union") or fm.read_table(written(table)).equals(table)


@pytest.mark.parametrize("name", ["uint64", "struct", "duration", "halffloat", "time64"])
def test_the_error_for_a_type_says_what_to_do(name):
    table = pa.table({"a": UNSUPPORTED[name]})
    with pytest.raises(fm.UnsupportedError, match=r"cast|convert|flatten|store|split"):
        written(table, annex=False)


def test_a_union_is_refused(tmp_path):
    table = pa.table({"fine": [1], "my column": UNSUPPORTED["union"]})
    with pytest.raises(fm.UnsupportedError, match=r"'my column'.*union.*make each member"):
        fm.write_table(table, tmp_path / "t.mosaic")
    assert os.listdir(tmp_path) == []


def test_a_map_whose_keys_are_lists_needs_the_annex():
    schema = pa.schema([("a", pa.map_(pa.list_(pa.int32()), pa.int32()))])
    with pytest.raises(fm.UnsupportedError, match="'a'"):
        fm.MosaicWriter(io.BytesIO(), schema, annex=False)


# Schemas that do not fit -------------------------------------------------------------------


def test_columns_are_matched_by_name():
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, SMALL.schema) as writer:
        writer.write(SMALL.select(["b", "a"]))
        writer.write_batch(SMALL.select(["b", "a"]).to_batches()[0])
    assert fm.read_table(sink.getvalue()).equals(pa.concat_tables([SMALL, SMALL]))


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (SMALL.select(["a"]), "'b'"),
        (SMALL.append_column("more", [[1, 2, 3]]), "'more'"),
        (SMALL.rename_columns(["a", "c"]), "'b'"),
        (SMALL.set_column(0, "a", [["x", "y", "z"]]), "'a'"),
        (SMALL.set_column(0, "a", [[1.5, 2.5, 3.5]]), "'a'"),
        (SMALL.append_column("a", [[1, 2, 3]]), "'a'"),
    ],
    ids=["missing", "extra", "renamed", "text for numbers", "floats for numbers", "twice"],
)
def test_a_table_that_does_not_fit_is_refused(table, told):
    writer = fm.MosaicWriter(io.BytesIO(), SMALL.schema)
    with pytest.raises(fm.SchemaMismatchError, match=told):
        writer.write(table)
    writer.abandon()


def test_a_mismatch_of_many_columns_does_not_list_them_all():
    wide = pa.table([[1]] * 5000, names=[f"column_{i:04}" for i in range(5000)])
    writer = fm.MosaicWriter(io.BytesIO(), wide.schema)
    with pytest.raises(fm.SchemaMismatchError, match="column_0000") as caught:
        writer.write(pa.table({"other": [1]}))
    assert len(str(caught.value)) < 1000
    writer.abandon()


@pytest.mark.parametrize(
    ("type", "other"),
    [
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.list_(pa.int32()), pa.list_(pa.string())),
        (pa.map_(pa.string(), pa.int32()), pa.map_(pa.string(), pa.string())),
    ],
    ids=str,
)
def test_types_are_compared_in_full(type, other):
    writer = fm.MosaicWriter(io.BytesIO(), pa.schema([("a", type)]))
    with pytest.raises(fm.SchemaMismatchError, match="'a'"):
        writer.write(pa.table({"a": pa.nulls(1, other)}))
    writer.abandon()


def test_a_table_without_rows_must_fit_too():
    writer = fm.MosaicWriter(io.BytesIO(), SMALL.schema)
    with pytest.raises(fm.SchemaMismatchError, match="'b'"):
        writer.write(SMALL.select(["a"]).slice(0, 0))
    writer.abandon()


@pytest.mark.parametrize("num_rows", [1, 3])
def test_nulls_in_a_column_without_nulls_are_refused(num_rows):
    schema = pa.schema([pa.field("a", pa.int32(), nullable=False)])
    writer = fm.MosaicWriter(io.BytesIO(), schema)
    with pytest.raises(fm.SchemaMismatchError, match=r"'a'.*null"):
        writer.write(pa.table({"a": pa.array([None] + [1] * (num_rows - 1), pa.int32())}))
    writer.abandon()


def test_nulls_in_the_elements_of_a_list_without_nulls_are_refused():
    schema = pa.schema([("a", pa.list_(pa.field("item", pa.int32(), nullable=False)))])
    writer = fm.MosaicWriter(io.BytesIO(), schema)
    with pytest.raises(fm.SchemaMismatchError, match=r"'a'.*null"):
        writer.write(pa.table({"a": pa.array([[1, None]], pa.list_(pa.int32()))}))
    writer.abandon()


def test_a_table_that_could_have_nulls_but_has_none_fits_a_column_without_nulls():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, schema) as writer:
        writer.write(pa.table({"a": [1, 2]}))
    assert fm.read_table(sink.getvalue()).schema.equals(schema)


def test_a_name_twice_is_refused_at_once(tmp_path):
    schema = pa.schema([("same", pa.int32()), ("same", pa.string())])
    with pytest.raises(ValueError, match=r"same"):
        fm.MosaicWriter(tmp_path / "t.mosaic", schema)
    assert os.listdir(tmp_path) == []


def test_an_empty_name_is_refused_at_once(tmp_path):
    schema = pa.schema([("a", pa.int32()), ("", pa.string())])
    with pytest.raises(ValueError, match=r"empty"):
        fm.MosaicWriter(tmp_path / "t.mosaic", schema)
    assert os.listdir(tmp_path) == []


def test_a_name_with_a_nul_character_is_refused_at_once():
    # The other implementation takes such a name for its beginning.
    with pytest.raises(ValueError, match="NUL"):
        fm.MosaicWriter(io.BytesIO(), pa.schema([("a\0b", pa.int32())]))


def test_a_decimal_of_more_digits_than_its_precision_is_not_cut():
    wide = (10**25).to_bytes(16, "little", signed=True)
    array = pa.Array.from_buffers(pa.decimal128(18, 0), 1, [None, pa.py_buffer(wide)])
    with pytest.raises((fm.SchemaMismatchError, ValueError), match=r"'a'"):
        written(pa.table({"a": array}))


def test_invalid_utf8_is_not_written():
    array = pa.array([b"\xff"], pa.binary()).view(pa.string())
    with pytest.raises(ValueError, match=r"'a'"):
        written(pa.table({"a": array}))


def test_an_error_that_is_caught_inside_the_block_is_not_lost(tmp_path):
    path = tmp_path / "out.mosaic"
    bad = pa.array([b"\xff"], pa.binary()).view(pa.string())
    with (
        pytest.raises(ValueError, match="nothing was written"),
        fm.MosaicWriter(path, pa.schema({"a": pa.string()}), row_group_size=1) as writer,
        contextlib.suppress(ValueError),
    ):
        writer.write(pa.table({"a": bad}))
    assert list(tmp_path.iterdir()) == []


def test_a_null_inside_a_list_that_allows_none_leaves_the_writer_usable():
    strict = pa.list_(pa.field("item", pa.int32(), nullable=False))
    sink = io.BytesIO()
    with fm.MosaicWriter(sink, pa.schema({"a": strict})) as writer:
        with pytest.raises(fm.SchemaMismatchError, match="'a': contains a null"):
            writer.write(pa.table({"a": pa.array([[1, None]], pa.list_(pa.int32())).cast(strict)}))
        writer.write(pa.table({"a": pa.array([[1, 2]], strict)}))
    assert fm.read_table(sink.getvalue())["a"].to_pylist() == [[1, 2]]
