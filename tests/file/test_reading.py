"""What is read from a source, when, and how long it lives."""

import gc
import io
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest
from files import written

import fastmosaic as fm
from fastmosaic.errors import located

TAIL = 64 * 1024
REMOTE_TAIL = 1024 * 1024


class RecordingSource:
    """Bytes that remember which of them were read, in the order in which reads began."""

    def __init__(self, data: bytes, is_local: bool = True) -> None:
        self.name = "recorded"
        self.size = len(data)
        self.is_local = is_local
        self.closed = False
        self.reads: list[tuple[int, int]] = []
        self._data = data
        self._lock = threading.Lock()

    def read_at(self, offset: int, length: int) -> pa.Buffer:
        assert not self.closed
        assert 0 <= offset <= offset + length <= self.size
        with self._lock:
            self.reads.append((offset, length))
        return pa.py_buffer(self._data[offset : offset + length])

    def close(self) -> None:
        self.closed = True

    @property
    def num_bytes(self) -> int:
        return sum(length for _, length in self.reads)


SMALL = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})


def wide_table(num_columns: int, num_rows: int) -> pa.Table:
    """Columns of random integers: nothing to compress."""
    values = np.random.default_rng(7).integers(0, 1 << 62, (num_columns, num_rows))
    return pa.table(list(values), names=[f"column_{i:04}" for i in range(num_columns)])


@pytest.fixture(scope="module")
def wide() -> pa.Table:
    return wide_table(300, 500)


@pytest.fixture(scope="module")
def wide_paged(wide) -> bytes:
    """Two row groups of 600 KB in one bucket, each column in a page of its own."""
    return written(wide, page_size_threshold=64, num_buckets=1, row_group_size=250)


@pytest.fixture(scope="module")
def wide_monolithic(wide) -> bytes:
    """Four row groups of ten buckets of 30 KB."""
    return written(wide, page_size_threshold=1 << 30, num_buckets=10, row_group_size=125)


# Which bytes -------------------------------------------------------------------------------


def test_a_small_file_is_read_in_one_read():
    data = written(SMALL)
    source = RecordingSource(data)
    assert fm.read_table(source).equals(SMALL)
    assert source.reads == [(0, len(data))]


def test_the_metadata_of_a_large_file_take_one_read_of_its_tail(wide_paged):
    source = RecordingSource(wide_paged)
    metadata = fm.read_metadata(source)
    assert metadata.num_rows == 500
    assert metadata.row_group(1).num_rows == 250
    assert source.reads == [(len(wide_paged) - TAIL, TAIL)]


def test_the_schema_takes_one_read_of_the_tail(wide_paged, wide):
    source = RecordingSource(wide_paged)
    assert fm.read_schema(source).equals(wide.schema)
    assert source.reads == [(len(wide_paged) - TAIL, TAIL)]


def test_metadata_larger_than_the_tail_take_one_read_more():
    names = [f"{i * 2_654_435_761 % (1 << 61):x}" * 3 for i in range(3000)]
    table = pa.table([pa.array([i]) for i in range(3000)], names=names)
    source = RecordingSource(written(table, compression="none"))
    assert fm.read_schema(source).equals(table.schema)
    assert len(source.reads) == 2
    assert source.num_bytes <= source.size


def test_opening_a_file_reads_no_data(wide_paged):
    source = RecordingSource(wide_paged)
    with fm.MosaicFile(source):
        assert source.num_bytes == TAIL


def test_one_column_of_pages_reads_only_its_pages(wide_paged, wide):
    source = RecordingSource(wide_paged)
    table = fm.read_table(source, columns=["column_0150"])
    assert table.equals(wide.select(["column_0150"]))
    # One column is 4 KB of 1.2 MB. Beside it: the tail, and directories of 4 bytes a column.
    assert source.num_bytes < TAIL + 10_000


def test_one_column_reads_only_its_bucket(wide_monolithic, wide):
    source = RecordingSource(wide_monolithic)
    table = fm.read_table(source, columns=["column_0000"])
    assert table.equals(wide.select(["column_0000"]))
    metadata = fm.read_metadata(wide_monolithic)
    needed = [metadata.row_group(i).buckets[0] for i in range(4)]
    assert all("column_0000" in bucket.columns for bucket in needed)
    for bucket in needed:
        end = bucket.offset + bucket.compressed_size
        assert any(
            start <= bucket.offset and end <= start + length for start, length in source.reads
        )
    assert source.num_bytes <= TAIL + sum(bucket.compressed_size for bucket in needed)


def test_nothing_is_read_twice(wide_paged):
    source = RecordingSource(wide_paged)
    fm.read_table(source)
    ranges = sorted(source.reads)
    assert all(start + length <= following for (start, length), (following, _) in pairwise(ranges))


def test_no_columns_read_no_data(wide_paged):
    source = RecordingSource(wide_paged)
    assert fm.read_table(source, columns=[]).num_rows == 500
    assert source.num_bytes == TAIL


def test_no_row_groups_read_no_data(wide_paged, wide):
    source = RecordingSource(wide_paged)
    assert fm.read_table(source, row_groups=[]).equals(wide.slice(0, 0))
    assert source.num_bytes == TAIL


def test_only_the_row_groups_asked_for_are_read(wide_monolithic):
    source = RecordingSource(wide_monolithic)
    with fm.MosaicFile(source) as file:
        size = file.metadata.row_group(1).total_compressed_size
        first = file.metadata.row_group(1).buckets[0].offset
        file.read_row_group(1)
    tail, *rest = source.reads
    assert tail == (len(wide_monolithic) - TAIL, TAIL)
    assert min(offset for offset, _ in rest) == first
    assert sum(length for _, length in rest) == size


def test_row_groups_that_cannot_match_are_not_read():
    table = pa.table(
        {"a": range(40_000), "b": [f"text {i * 7919 % 100_003}" for i in range(40_000)]}
    )
    data = written(table, row_group_size=10_000, write_statistics=["a"], compression="none")
    source = RecordingSource(data)
    actual = fm.read_table(source, filters=[("a", ">=", 15_000), ("a", "<", 15_003)])
    assert actual.equals(table.slice(15_000, 3))
    group = fm.read_metadata(data).row_group(1)
    assert source.num_bytes == TAIL + group.total_compressed_size


def test_a_filter_that_no_row_group_can_match_reads_no_data():
    table = pa.table({"a": range(40_000), "b": [str(i) for i in range(40_000)]})
    source = RecordingSource(written(table, write_statistics=True))
    assert fm.read_table(source, filters=[("a", ">", 40_000)]).equals(table.slice(0, 0))
    assert source.num_bytes == TAIL


# Rounds: reads that wait for the result of others ------------------------------------------


def rounds(reads: list[tuple[int, int]]) -> int:
    """Reads of one round are issued in the order of the file: a step back begins a new round."""
    return 1 + sum(after[0] < before[0] for before, after in pairwise(reads)) if reads else 0


@pytest.fixture(scope="module")
def large() -> pa.Table:
    return wide_table(300, 4000)


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("row_group_size", [40, 500, 4000])
def test_any_number_of_row_groups_takes_at_most_two_rounds(large, row_group_size, is_local):
    data = written(large, page_size_threshold=8, num_buckets=1, row_group_size=row_group_size)
    source = RecordingSource(data, is_local)
    columns = ["column_0001", "column_0120", "column_0299"]
    table = fm.read_table(source, columns=columns, use_threads=False)
    assert table.equals(large.select(columns))
    tail, *rest = source.reads
    size = TAIL if is_local else REMOTE_TAIL
    assert tail == (len(data) - size, size)
    assert rounds(rest) <= 2


def test_slots_of_all_row_groups_are_read_after_all_directories(large):
    # Eight buckets of 1.2 MB, too large to be read whole for three columns.
    data = written(large, page_size_threshold=8, num_buckets=1, row_group_size=500)
    source = RecordingSource(data)
    fm.read_table(source, columns=["column_0001", "column_0299"], use_threads=False)
    _tail, *rest = source.reads
    assert rounds(rest) == 2
    assert source.num_bytes < TAIL + 300_000


def test_reads_that_are_near_each_other_are_one(wide):
    data = written(wide, compression="none", num_buckets=300, row_group_size=5)
    source = RecordingSource(data)
    columns = wide.column_names[::2]
    assert fm.read_table(source, columns=columns).equals(wide.select(columns))
    # 15,000 buckets of 40 bytes, every second one: a megabyte, not worth a second request.
    assert len(source.reads) <= 3


@pytest.mark.parametrize("use_threads", [True, False])
def test_threads_do_not_change_what_is_read(wide_paged, use_threads):
    source = RecordingSource(wide_paged)
    fm.read_table(source, columns=["column_0007", "column_0270"], use_threads=use_threads)
    other = RecordingSource(wide_paged)
    fm.read_table(other, columns=["column_0007", "column_0270"], use_threads=not use_threads)
    assert sorted(source.reads) == sorted(other.reads)


def test_one_file_is_read_from_many_threads(tmp_path, wide, wide_paged):
    (tmp_path / "wide.mosaic").write_bytes(wide_paged)
    with (
        fm.MosaicFile(tmp_path / "wide.mosaic") as file,
        ThreadPoolExecutor(8) as pool,
    ):
        names = [f"column_{i:04}" for i in range(0, 300, 3)]
        tables = list(pool.map(lambda name: file.read([name]), names))
    assert all(table.equals(wide.select([name])) for name, table in zip(names, tables, strict=True))


# How long values live ----------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_values_outlive_later_reads_and_the_file(tmp_path, compression):
    table = pa.table(
        {
            "text": [f"some text {i}" for i in range(5000)],
            "raw": pa.array([bytes([i % 256]) * 9 for i in range(5000)], pa.binary()),
            "few": ["red", "green", "blue", None] * 1250,
            "same": ["always"] * 5000,
            "lists": [[f"{i}", "x"] for i in range(5000)],
        }
    )
    path = tmp_path / "t.mosaic"
    fm.write_table(table, path, row_group_size=500, compression=compression)
    file = fm.MosaicFile(path)
    groups = [file.read_row_group(i) for i in range(file.num_row_groups)]
    whole = file.read()
    file.close()
    del file
    path.unlink()
    gc.collect()
    assert pa.concat_tables(groups).equals(table)
    assert whole.equals(table)
    pa.concat_tables(groups).validate(full=True)


def test_batches_outlive_the_iteration():
    table = pa.table({"text": [f"some text {i}" for i in range(5000)]})
    with fm.MosaicFile(written(table, row_group_size=500)) as file:
        batches = list(file.iter_batches(batch_size=70))
    gc.collect()
    assert pa.Table.from_batches(batches).equals(table)


def test_values_do_not_depend_on_the_bytes_they_came_from():
    table = pa.table({"text": [f"some text {i}" for i in range(100)]})
    data = bytearray(written(table, compression="none"))
    actual = fm.read_table(io.BytesIO(data))
    data[:] = bytes(len(data))
    assert actual.equals(table)


def test_the_schema_and_metadata_outlive_the_file(tmp_path):
    fm.write_table(SMALL, tmp_path / "t.mosaic", write_statistics=True)
    with fm.MosaicFile(tmp_path / "t.mosaic") as file:
        schema, metadata = file.schema, file.metadata
    gc.collect()
    assert schema.equals(SMALL.schema)
    assert metadata.row_group(0).statistics["a"].max == 3


# Sources -----------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path) -> Path:
    target = tmp_path / "small file é.mosaic"
    fm.write_table(SMALL, target)
    return target


def test_a_path_is_read(path):
    assert fm.read_table(path).equals(SMALL)
    assert fm.read_table(str(path)).equals(SMALL)


def test_a_relative_path_is_read(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    assert fm.read_table(path.name).equals(SMALL)


def test_a_file_uri_is_read(path):
    assert fm.read_table(path.as_uri()).equals(SMALL)


def test_an_open_file_is_read_and_left_open(path):
    with path.open("rb") as file:
        assert fm.read_table(file).equals(SMALL)
        assert not file.closed


def test_a_file_object_is_read_from_its_beginning(path):
    file = io.BytesIO(path.read_bytes())
    file.seek(5)
    assert fm.read_table(file).equals(SMALL)


def test_bytes_are_read(path):
    assert fm.read_table(path.read_bytes()).equals(SMALL)


def test_a_buffer_is_read(path):
    assert fm.read_table(pa.py_buffer(path.read_bytes())).equals(SMALL)


def test_a_pyarrow_file_is_read(path):
    with pa.OSFile(str(path)) as file:
        assert fm.read_table(file).equals(SMALL)


def test_a_pyarrow_filesystem_is_read(path):
    local = pa.fs.LocalFileSystem()
    assert fm.read_table(str(path), filesystem=local).equals(SMALL)
    with fm.MosaicFile(str(path), filesystem=local) as file:
        assert file.read().equals(SMALL)


def test_a_filesystem_of_fsspec_is_read_and_written():
    memory = fsspec.filesystem("memory")
    fm.write_table(SMALL, "/folder/small.mosaic", filesystem=memory)
    try:
        assert fm.read_table("/folder/small.mosaic", filesystem=memory).equals(SMALL)
        assert fm.read_schema("/folder/small.mosaic", filesystem=memory).equals(SMALL.schema)
        assert fm.read_metadata("/folder/small.mosaic", filesystem=memory).num_rows == 3
    finally:
        memory.rm("/folder", recursive=True)


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fm.MosaicFile(tmp_path / "nowhere.mosaic")


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(OSError, match=tmp_path.name):
        fm.MosaicFile(tmp_path)


def test_something_else_is_no_source():
    with pytest.raises(TypeError, match="int"):
        fm.read_table(7)


def test_a_source_is_closed_with_the_file():
    source = RecordingSource(written(SMALL))
    with fm.MosaicFile(source) as file:
        assert not file.closed
    assert file.closed


def test_a_closed_file_cannot_be_read():
    file = fm.MosaicFile(written(SMALL))
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.read()


# Columns and row groups --------------------------------------------------------------------


def test_columns_come_in_the_order_of_the_writer():
    table = pa.table({"z": [1], "a": [2], "m": [3]})
    assert fm.read_table(written(table)).column_names == ["z", "a", "m"]


def test_an_unknown_column_is_named_with_close_matches():
    data = written(pa.table({"price": [1], "weight": [2]}))
    with pytest.raises(fm.ColumnNotFoundError, match=r"'prize'.*'price'") as caught:
        fm.read_table(data, columns=["prize"])
    assert "weight" not in str(caught.value)


def test_an_unknown_column_of_a_wide_file_does_not_list_them_all(wide_paged):
    with pytest.raises(fm.ColumnNotFoundError, match="column_9999") as caught:
        fm.read_table(wide_paged, columns=["column_0001", "column_9999"])
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("method", ["read", "iter_batches"])
def test_an_unknown_column_is_refused_by_every_method(method):
    with (
        fm.MosaicFile(written(SMALL)) as file,
        pytest.raises(fm.ColumnNotFoundError, match="'nope'"),
    ):
        list(getattr(file, method)(columns=["nope"]))


def test_an_unknown_column_in_a_filter_is_refused():
    with pytest.raises(fm.ColumnNotFoundError, match="nope"):
        fm.read_table(written(SMALL), filters=[("nope", "==", 1)])


def test_columns_as_one_string_are_refused():
    with pytest.raises(TypeError, match="columns"):
        fm.read_table(written(SMALL), columns="ab")


@pytest.mark.parametrize("index", [1, -1, 100])
def test_a_row_group_out_of_range_is_an_index_error(index):
    with fm.MosaicFile(written(SMALL)) as file, pytest.raises(IndexError, match=str(index)):
        file.read_row_group(index)


def test_a_batch_of_no_rows_is_refused():
    with (
        fm.MosaicFile(written(SMALL)) as file,
        pytest.raises(ValueError, match="batch_size"),
    ):
        list(file.iter_batches(batch_size=0))


def test_batches_are_filtered():
    table = pa.table({"a": range(1000), "b": [i % 3 for i in range(1000)]})
    with fm.MosaicFile(written(table, row_group_size=100)) as file:
        batches = list(file.iter_batches(columns=["a"], filters=[("b", "==", 1)], batch_size=50))
    assert all(batch.num_rows <= 50 for batch in batches)
    expected = pa.table({"a": range(1, 1000, 3)})
    assert pa.Table.from_batches(batches, expected.schema).equals(expected)


def test_iteration_reads_nothing_before_the_first_batch_is_asked_for(wide_monolithic):
    source = RecordingSource(wide_monolithic)
    with fm.MosaicFile(source) as file:
        batches = file.iter_batches(batch_size=1000)
        assert source.num_bytes == TAIL
        assert next(batches).num_rows == 125
        assert source.num_bytes > TAIL


def test_filters_and_row_groups_go_together():
    table = pa.table({"a": range(100)})
    data = written(table, row_group_size=10)
    actual = fm.read_table(data, filters=[("a", ">=", 15)], row_groups=[0, 1, 9])
    assert actual["a"].to_pylist() == [*range(15, 20), *range(90, 100)]


# Metadata ----------------------------------------------------------------------------------


def test_metadata_describe_the_buckets():
    table = pa.table({"a": range(500), "b": range(500), "c": ["x"] * 500})
    metadata = fm.read_metadata(written(table, num_buckets=3, page_size_threshold=100))
    group = metadata.row_group(0)
    assert metadata.compression == "zstd"
    assert metadata.num_buckets == 3
    assert [list(bucket.columns) for bucket in group.buckets] == [["a"], ["b"], ["c"]]
    assert [bucket.layout for bucket in group.buckets] == ["paged", "paged", "monolithic"]
    assert group.buckets[2].uncompressed_size == 4
    assert group.buckets[0].offset == 0
    assert sum(bucket.compressed_size for bucket in group.buckets) == group.total_compressed_size


def test_metadata_of_a_row_group_out_of_range_are_an_index_error():
    with pytest.raises(IndexError, match="7"):
        fm.read_metadata(written(SMALL)).row_group(7)


def test_metadata_cannot_be_changed():
    metadata = fm.read_metadata(written(SMALL))
    with pytest.raises(AttributeError, match="num_rows"):
        metadata.num_rows = 5


def test_statistics_are_a_dictionary_too():
    data = written(SMALL, write_statistics=["a"])
    assert fm.read_metadata(data).row_group(0).statistics["a"].to_dict() == {
        "null_count": 0,
        "has_min_max": True,
        "min": 1,
        "max": 3,
    }


def test_batches_without_columns_have_rows():
    sink = io.BytesIO()
    fm.write_table(pa.table({"a": range(10)}), sink, row_group_size=4)
    with fm.MosaicFile(sink.getvalue()) as file:
        assert [batch.num_rows for batch in file.iter_batches(3, columns=[])] == [3, 1, 3, 1, 2]
        batches = file.iter_batches(3, columns=[], filters=[("a", ">", 2)])
        assert [batch.num_rows for batch in batches] == [1, 3, 1, 2]


def damaged_second_row_group() -> tuple[bytes, int]:
    """A file whose bucket 0 of row group 1 is damaged, and the offset of that bucket."""
    sink = pa.BufferOutputStream()
    fm.write_table(pa.table({"id": list(range(200))}), sink, row_group_size=100)
    data = bytearray(sink.getvalue())
    offset = fm.read_metadata(bytes(data)).row_group(1).buckets[0].offset
    data[offset + 10] ^= 1
    return bytes(data), offset


def test_an_error_has_its_place_in_fields(tmp_path):
    data, offset = damaged_second_row_group()
    path = tmp_path / "a.mosaic"
    path.write_bytes(data)
    with pytest.raises(fm.CorruptFileError) as caught:
        fm.read_table(path)
    error = caught.value
    assert (error.file, error.row_group, error.bucket, error.offset) == (str(path), 1, 0, offset)
    assert error.column is None
    assert str(error) == f"{path}: row group 1, bucket 0, offset {offset}: {error.message}"


def test_an_error_keeps_its_fields_when_pickled():
    data, _ = damaged_second_row_group()
    with pytest.raises(fm.CorruptFileError) as caught:
        fm.read_table(data)
    caught.value.add_note("a note")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is fm.CorruptFileError
    assert str(copy) == str(caught.value)
    assert vars(copy) == vars(caught.value)
    with pytest.raises(fm.ColumnNotFoundError) as missing:
        fm.read_table(two_columns(), columns=["pricee"])
    copy = pickle.loads(pickle.dumps(missing.value))
    assert (copy.name, copy.suggestions) == ("pricee", ("price",))
    assert str(copy).endswith("no column named 'pricee'; did you mean 'price'?")


def two_columns() -> pa.Buffer:
    sink = pa.BufferOutputStream()
    fm.write_table(pa.table({"id": [1], "price": [2.0]}), sink)
    return sink.getvalue()


def test_inner_places_win_and_outer_ones_fill_what_is_missing():
    with (
        pytest.raises(fm.MosaicError) as caught,
        located(file="outer", offset=1),
        located(row_group=2, offset=3),
    ):
        raise fm.UnsupportedError("unknown encoding", file="inner")
    assert str(caught.value) == "inner: row group 2, offset 3: unknown encoding"


# ---- pickling


@pytest.mark.parametrize("kind", ["path", "str", "bytes", "memoryview", "buffer", "uri", "memory"])
def test_a_file_can_be_pickled(tmp_path, monkeypatch, kind):
    data = two_columns()
    path = tmp_path / "a.mosaic"
    path.write_bytes(data)
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/pickled/a.mosaic", data.to_pybytes())
    monkeypatch.chdir(tmp_path)
    source, filesystem = {
        "path": (Path("a.mosaic"), None),
        "str": ("a.mosaic", None),
        "bytes": (data.to_pybytes(), None),
        "memoryview": (memoryview(data), None),
        "buffer": (data, None),
        "uri": (path.as_uri(), None),
        "memory": ("/pickled/a.mosaic", memory),
    }[kind]
    with fm.MosaicFile(source, filesystem=filesystem) as file:
        pickled = pickle.dumps(file)
    monkeypatch.chdir("/")
    with pickle.loads(pickled) as copy:
        assert copy.schema.names == ["id", "price"]
        assert copy.read(["price"]).to_pydict() == {"price": [2.0]}


def test_a_file_opened_from_a_file_object_cannot_be_pickled(tmp_path):
    path = tmp_path / "a.mosaic"
    path.write_bytes(two_columns())
    for opened in (path.open("rb"), pa.OSFile(str(path))):
        told = f"type {type(opened).__name__}; open it by path, by URI or from bytes"
        with opened, fm.MosaicFile(opened) as file, pytest.raises(TypeError, match=told):
            pickle.dumps(file)


def test_a_closed_file_cannot_be_pickled():
    with fm.MosaicFile(two_columns()) as file:
        pass
    with pytest.raises(ValueError, match="cannot pickle a closed MosaicFile"):
        pickle.dumps(file)
