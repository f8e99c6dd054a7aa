"""Storage: byte ranges in, and outputs that appear whole or not at all."""

import errno
import gc
import io
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import fsspec
import pyarrow as pa
import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given, strategies as st

from fastmosaic.storage import retry, sink, source as source_module
from fastmosaic.storage.sink import open_sink
from fastmosaic.storage.source import (
    SeekableSource,
    Source,
    coalesce,
    open_source,
    read_ranges,
)

DATA = bytes(range(256)) * 40


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    return path


class RecordingSource:
    """A source that notes what is read of it."""

    name = "<recorded>"

    def __init__(self, data, *, is_local=True):
        self.data = data
        self.size = len(data)
        self.is_local = is_local
        self.calls = []

    def read_at(self, offset, length):
        self.calls.append((offset, length))
        return pa.py_buffer(self.data[offset : offset + length])

    def close(self):
        pass


class Trickle(io.BytesIO):
    """A file that gives at most 100 bytes a read."""

    def read(self, size=-1):
        return super().read(min(size, 100))


class Failing(io.BytesIO):
    """A file whose disk fails."""

    def read(self, size=-1):
        raise OSError(5, "the disk is on fire")

    def write(self, data):
        raise OSError(5, "the disk is on fire")


# --- open_source


def reads_data(source):
    with source:
        assert source.size == len(DATA)
        assert source.read_at(0, len(DATA)).equals(pa.py_buffer(DATA))
        assert source.read_at(250, 10).to_pybytes() == DATA[250:260]
        assert source.read_at(len(DATA), 0).size == 0
    return True


def test_a_path_is_read(path):
    source = open_source(str(path))
    assert source.name == str(path)
    assert source.is_local
    assert reads_data(source)


def test_long_reads_of_a_path(tmp_path):
    data = DATA * 100
    (tmp_path / "long").write_bytes(data)
    with open_source(tmp_path / "long") as source:
        for offset, length in [(0, len(data)), (1, 1 << 16), (255, (1 << 16) + 1), (7, 500_000)]:
            assert source.read_at(offset, length).to_pybytes() == data[offset : offset + length]
        with pytest.raises(OSError, match=f"ends at byte {len(data)}, but 100000 bytes"):
            source.read_at(len(data) - 99_999, 100_000)


def test_a_path_is_closed_when_nobody_uses_it(path):
    gc.collect()  # files of other tests
    before = os.listdir("/proc/self/fd")
    source = open_source(path)
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    del source
    gc.collect()
    assert os.listdir("/proc/self/fd") == before


def test_a_short_read_of_a_path_needs_no_memory_of_arrow(path):
    before = pa.default_memory_pool().num_allocations()
    with open_source(path) as source:
        assert source.read_at(0, len(DATA)).size == len(DATA)
    assert pa.default_memory_pool().num_allocations() == before


def test_a_path_object_is_read(path):
    assert reads_data(open_source(path))


def test_a_relative_path_is_read(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    assert reads_data(open_source("data.bin"))


@pytest.mark.parametrize("name", ["a:b", "c:\\d", "s3:x", "ü b", "a%20b", "#", "x" * 200])
def test_an_odd_name_is_a_path(name, tmp_path):
    (tmp_path / name).write_bytes(DATA)
    assert reads_data(open_source(tmp_path / name))


def test_a_local_name_like_a_uri_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:").mkdir()
    (tmp_path / "s3:" / "key").write_bytes(DATA)
    assert reads_data(open_source("s3://key"))


def test_a_name_that_is_not_unicode_is_a_path(tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    try:
        open(name, "wb").close()
    except OSError:
        pytest.skip("the filesystem takes only Unicode")
    assert open_source(name).size == 0


def test_a_file_uri_is_read(tmp_path):
    (tmp_path / "a b").write_bytes(DATA)
    source = open_source(f"file://{tmp_path}/a%20b")
    assert source.is_local
    assert source.name.startswith("file://")
    assert reads_data(source)


def test_a_uri_that_only_fsspec_knows_is_read(memory):
    memory.pipe_file("/dir/data", DATA)
    source = open_source("memory://dir/data")
    assert source.name == "memory://dir/data"
    assert source.is_local
    assert reads_data(source)


def test_a_uri_that_nobody_knows_is_refused():
    with pytest.raises(ValueError, match="nonsense"):
        open_source("nonsense://x")


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, memoryview, pa.py_buffer], ids=lambda wrap: wrap.__name__
)
def test_a_buffer_is_read(wrap):
    source = open_source(wrap(DATA))
    assert source.name == "<buffer>"
    assert source.is_local
    assert reads_data(source)


def test_a_buffer_is_not_copied():
    buffer = pa.py_buffer(DATA)
    assert open_source(buffer).read_at(5, 10).address == buffer.address + 5


def test_a_file_object_is_read_and_stays_open(path):
    with open(path, "rb") as file:
        source = open_source(file)
        assert source.name == "<file object>"
        assert source.is_local
        assert reads_data(source)
        assert not file.closed


def test_a_file_object_of_fsspec_is_read_and_stays_open(path):
    with LocalFileSystem().open(str(path)) as file:
        assert reads_data(open_source(file))
        assert not file.closed


def test_an_unknown_file_object_is_taken_for_remote():
    class File:
        read, seek, tell = io.BytesIO(DATA).read, io.BytesIO(DATA).seek, lambda self: len(DATA)

    assert not open_source(File()).is_local


def test_an_arrow_file_is_read_and_stays_open(path):
    with pa.OSFile(str(path)) as file:
        source = open_source(file)
        assert source.is_local
        assert reads_data(source)
        assert not file.closed


def test_an_open_file_of_fsspec_is_read(memory):
    memory.pipe_file("/data", DATA)
    assert reads_data(open_source(fsspec.open("memory://data")))


def test_a_compressed_open_file_is_refused():
    with pytest.raises(ValueError, match="open it without compression="):
        open_source(fsspec.open("memory://data", compression="gzip"))


def test_a_filesystem_of_pyarrow_is_read(path):
    filesystem = pa.fs.SubTreeFileSystem(str(path.parent), pa.fs.LocalFileSystem())
    source = open_source("data.bin", filesystem)
    assert source.is_local
    assert reads_data(source)


def test_a_nested_subtree_is_read():
    mock = pa.fs._MockFileSystem()
    mock.create_dir("a/b")
    with mock.open_output_stream("a/b/data") as stream:
        stream.write(DATA)
    inner = pa.fs.SubTreeFileSystem("b", pa.fs.SubTreeFileSystem("a", mock))
    assert reads_data(open_source("data", inner))


def test_the_local_filesystem_is_read(path):
    assert reads_data(open_source(str(path), pa.fs.LocalFileSystem()))


def test_the_local_filesystem_of_fsspec_is_read(path):
    assert reads_data(open_source(str(path), LocalFileSystem()))


def test_a_filesystem_of_fsspec_is_read(memory):
    memory.pipe_file("/data", DATA)
    assert reads_data(open_source("/data", memory))


def test_a_filesystem_of_fsspec_in_one_of_pyarrow_is_read(memory):
    memory.pipe_file("/data", DATA)
    wrapped = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(memory))
    assert reads_data(open_source("/data", wrapped))


def test_a_filesystem_may_be_a_uri(path, memory):
    assert reads_data(open_source("data.bin", f"file://{path.parent}"))
    memory.pipe_file("/dir/data", DATA)
    assert reads_data(open_source("data", "memory://dir"))


def test_no_filesystem_is_imported_for_a_local_path(path):
    code = (
        "import sys; from fastmosaic.storage.source import open_source;"
        "from fastmosaic.storage.sink import open_sink;"
        f"open_source({str(path)!r}).read_at(0, 1); open_sink({str(path)!r}).abandon();"
        "sys.exit('pyarrow.fs' in sys.modules or 'fsspec' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_source_comes_back_as_it_is():
    source = open_source(DATA)
    assert open_source(source) is source
    recording = RecordingSource(DATA)
    assert open_source(recording) is recording


def test_a_filesystem_without_a_path_is_refused():
    with pytest.raises(
        ValueError, match="filesystem= requires a path, not an object of type bytes"
    ):
        open_source(DATA, pa.fs.LocalFileSystem())


def test_a_filesystem_that_is_none_is_refused():
    with pytest.raises(TypeError, match="not an object of type int"):
        open_source("x", 5)


@pytest.mark.parametrize("source", [None, 5, ["a"]], ids=repr)
def test_a_source_of_another_type_is_refused(source):
    with pytest.raises(TypeError, match="expected a path, a URI"):
        open_source(source)


def test_a_text_file_is_refused():
    with pytest.raises(TypeError, match="binary mode"):
        open_source(io.StringIO("text"))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*missing"):
        open_source(tmp_path / "missing")


def test_a_missing_file_elsewhere_is_named(memory):
    with pytest.raises(FileNotFoundError, match="missing"):
        open_source("memory://missing")
    with pytest.raises(FileNotFoundError, match="missing"):
        open_source("missing", pa.fs._MockFileSystem())


def test_a_directory_is_said_to_be_one(tmp_path, memory):
    with pytest.raises(IsADirectoryError, match=f"Is a directory: '{tmp_path}'"):
        open_source(tmp_path)
    memory.pipe_file("/dir/data", DATA)
    with pytest.raises(IsADirectoryError, match="dir"):
        open_source("memory://dir")
    mock = pa.fs._MockFileSystem()
    mock.create_dir("dir")
    with pytest.raises(IsADirectoryError, match="dir"):
        open_source("dir", mock)


# --- Source


def test_short_reads_go_on():
    assert reads_data(open_source(Trickle(DATA)))


def test_short_reads_through_arrow_go_on():
    assert reads_data(open_source(pa.PythonFile(Trickle(DATA), mode="r")))


def test_a_file_that_got_shorter_is_an_os_error(path):
    with open_source(path) as source:
        os.truncate(path, 100)
        with pytest.raises(OSError, match=f"ends at byte 100, .* it had {len(DATA)} bytes"):
            source.read_at(50, 100)
        with pytest.raises(OSError, match="ends at byte 200"):
            source.read_at(200, 1)
        assert source.read_at(0, 100).to_pybytes() == DATA[:100]


class Unsteady:
    """A file elsewhere that fails a number of times, then reads."""

    def __init__(self, error, times=1):
        self.file = io.BytesIO(DATA)
        self.error = error
        self.times = times
        self.attempts = 0
        self.seek, self.tell = self.file.seek, self.file.tell

    def read(self, size):
        self.attempts += 1
        if self.attempts <= self.times:
            raise self.error
        return self.file.read(size)


class LibraryError(Exception):
    """An exception that no caller knows."""


@pytest.mark.parametrize("error", [OSError("busy"), LibraryError("busy"), TimeoutError()])
def test_a_failing_read_elsewhere_is_tried_again(error, monkeypatch):
    monkeypatch.setattr(retry, "RETRY_PAUSES", (0.0, 0.0))
    file = Unsteady(error, times=2)
    assert open_source(file).read_at(5, 10).to_pybytes() == DATA[5:15]
    assert file.attempts == 3


def test_a_read_that_keeps_failing_is_an_os_error(monkeypatch):
    monkeypatch.setattr(retry, "RETRY_PAUSES", (0.0, 0.0))
    file = Unsteady(LibraryError("busy"), times=100)
    with pytest.raises(OSError, match=r"^<file object>: busy$") as caught:
        open_source(file).read_at(5, 10)
    assert caught.value.__cause__ is file.error
    assert file.attempts == 3


def test_an_error_without_a_message_is_shown_by_its_type(monkeypatch):
    monkeypatch.setattr(retry, "RETRY_PAUSES", ())
    with pytest.raises(OSError, match=r"^<file object>: LibraryError\(\)$"):
        open_source(Unsteady(LibraryError())).read_at(5, 10)


@pytest.mark.parametrize(
    "error", [FileNotFoundError, PermissionError, IsADirectoryError, ValueError, TypeError]
)
def test_what_cannot_get_better_is_not_tried_again(error):
    file = Unsteady(error("no"))
    with pytest.raises(error):
        open_source(file).read_at(5, 10)
    assert file.attempts == 1


def test_what_failed_for_long_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(retry, "RETRY_WITHIN", 0.0)
    file = Unsteady(OSError("busy"))
    with pytest.raises(OSError, match="busy"):
        open_source(file).read_at(5, 10)
    assert file.attempts == 1


def test_a_failing_local_read_is_not_tried_again(path):
    class Counting(io.FileIO):
        attempts = 0

        def read(self, size=-1):
            self.attempts += 1
            raise OSError(5, "the disk is on fire")

    with Counting(path) as file:
        with pytest.raises(OSError, match="the disk is on fire"):
            open_source(file).read_at(5, 10)
        assert file.attempts == 1


def test_more_than_was_asked_for_is_an_os_error():
    class Generous(io.BytesIO):
        def read(self, size=-1):
            return super().read()

    with pytest.raises(OSError, match="expected 10 bytes, got 10235"):
        open_source(Generous(DATA)).read_at(5, 10)


@pytest.mark.parametrize("source", [DATA, io.BytesIO(DATA)], ids=["buffer", "file"])
def test_a_read_past_the_end_is_an_os_error(source):
    with pytest.raises(OSError, match=r"ends at byte|out of bounds"):
        open_source(source).read_at(len(DATA) + 1, 1)
    with pytest.raises(OSError, match=f"ends at byte {len(DATA)}"):
        open_source(source).read_at(len(DATA) - 1, 2)


def test_a_negative_range_is_refused():
    with pytest.raises(ValueError, match="both must be at least 0"):
        open_source(DATA).read_at(-1, 1)
    with pytest.raises(ValueError, match="both must be at least 0"):
        open_source(DATA).read_at(0, -1)


def test_a_closed_source_reads_no_more(path):
    source = open_source(path)
    source.close()
    source.close()
    assert source.closed
    with pytest.raises(ValueError, match="is closed"):
        source.read_at(0, 1)


@pytest.mark.parametrize("kind", ["path", "file", "fsspec"])
def test_many_threads_read_at_once(kind, path, memory):
    memory.pipe_file("/data", DATA)
    sources = {"path": path, "file": io.BytesIO(DATA), "fsspec": "memory://data"}
    with open_source(sources[kind]) as source, ThreadPoolExecutor(8) as pool:
        offsets = [i * 37 % (len(DATA) - 64) for i in range(500)]
        for offset, data in zip(
            offsets, pool.map(lambda offset: source.read_at(offset, 64), offsets), strict=True
        ):
            assert data.to_pybytes() == DATA[offset : offset + 64]


def test_opening_a_path_takes_few_calls(path):
    calls = []

    def note(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    with open_source(path) as source:
        source.read_at(0, 100)
    sys.setprofile(note)
    try:
        with open_source(path) as source:
            source.read_at(0, 100)
    finally:
        sys.setprofile(None)
    assert len(calls) < 40, calls


# --- coalesce


def test_neighbours_become_one():
    assert coalesce([(0, 10), (10, 5), (17, 3)], max_gap=2, max_bytes=100) == [(0, 20)]


def test_ranges_too_far_apart_stay_two():
    assert coalesce([(0, 10), (13, 5)], max_gap=2, max_bytes=100) == [(0, 10), (13, 5)]


def test_merged_ranges_stay_within_the_limit():
    assert coalesce([(0, 6), (6, 4), (10, 1)], max_gap=2, max_bytes=10) == [(0, 10), (10, 1)]


def test_a_range_over_the_limit_stays_whole():
    assert coalesce([(0, 50), (10, 5)], max_gap=2, max_bytes=10) == [(0, 50)]


def test_order_duplicates_and_empty_ranges_do_not_matter():
    ranges = [(20, 5), (0, 0), (0, 5), (20, 5), (2, 10), (99, 0)]
    assert coalesce(ranges, max_gap=0, max_bytes=100) == [(0, 12), (20, 5)]


def test_nothing_gives_nothing():
    assert coalesce([], max_gap=0, max_bytes=1) == []


RANGES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30)))


@given(RANGES, st.integers(0, 20), st.integers(1, 50))
def test_a_plan_covers_what_was_asked_and_keeps_its_limits(ranges, max_gap, max_bytes):
    merged = coalesce(ranges, max_gap=max_gap, max_bytes=max_bytes)
    assert merged == sorted(merged)
    wanted = [(offset, offset + length) for offset, length in ranges if length]
    for start, stop in wanted:
        assert any(offset <= start and stop <= offset + size for offset, size in merged)
    for offset, size in merged:
        inside = sorted(r for r in wanted if offset <= r[0] and r[1] <= offset + size)
        assert size <= max_bytes or (offset, offset + size) in inside
        end = inside[0][0]
        assert end == offset
        for start, stop in inside:
            assert start - end <= max_gap
            end = max(end, stop)
        assert end == offset + size


# --- read_ranges


@given(RANGES, st.booleans(), st.booleans())
def test_each_range_gets_its_bytes(ranges, is_local, use_threads):
    source = RecordingSource(DATA, is_local=is_local)
    buffers = read_ranges(source, ranges, use_threads=use_threads)
    assert [buffer.to_pybytes() for buffer in buffers] == [
        DATA[offset : offset + length] for offset, length in ranges
    ]


def test_near_ranges_are_read_at_once():
    source = RecordingSource(DATA)
    read_ranges(source, [(100, 10), (500, 10), (0, 10)])
    assert source.calls == [(0, 510)]


def test_a_local_gap_is_not_read():
    source = RecordingSource(bytes(1 << 20))
    read_ranges(source, [(0, 10), (1 << 19, 10)])
    assert source.calls == [(0, 10), (1 << 19, 10)]


def test_a_remote_gap_is_read_to_save_a_round_trip():
    source = RecordingSource(bytes(1 << 20), is_local=False)
    read_ranges(source, [(0, 10), (1 << 19, 10)])
    assert source.calls == [(0, (1 << 19) + 10)]


def test_no_ranges_are_no_read():
    source = RecordingSource(DATA)
    assert read_ranges(source, []) == []
    assert [buffer.size for buffer in read_ranges(source, [(5, 0), (99999999, 0)])] == [0, 0]
    assert source.calls == []


def test_slices_are_not_copied():
    source = open_source(pa.py_buffer(DATA))
    first, second = read_ranges(source, [(0, 10), (20, 10)])
    assert second.address - first.address == 20


class Meeting(RecordingSource):
    """A source whose reads wait until `count` of them run at once."""

    def __init__(self, data, count, *, is_local):
        super().__init__(data, is_local=is_local)
        self.barrier = threading.Barrier(count)

    def read_at(self, offset, length):
        self.barrier.wait(timeout=60)
        return super().read_at(offset, length)


def test_remote_reads_run_at_once():
    source = Meeting(bytes(40 << 20), 16, is_local=False)
    ranges = [(i * (2 << 20), 10) for i in range(16)]
    assert len(read_ranges(source, ranges)) == 16


def test_large_local_reads_run_at_once(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    source = Meeting(bytes(20 << 20), 2, is_local=True)
    assert len(read_ranges(source, [(0, 6 << 20), (8 << 20, 6 << 20)])) == 2


def test_without_threads_reads_take_turns():
    threads = set()

    class Watched(RecordingSource):
        def read_at(self, offset, length):
            threads.add(threading.current_thread())
            return super().read_at(offset, length)

    source = Watched(bytes(8 << 20), is_local=False)
    read_ranges(source, [(i * (2 << 20), 10) for i in range(4)], use_threads=False)
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("use_threads", [True, False])
def test_a_failing_read_stays_the_systems_error_and_says_where(use_threads):
    source = open_source(pa.PythonFile(Failing(bytes(8 << 20)), mode="r"))
    with pytest.raises(OSError, match="the disk is on fire") as caught:
        read_ranges(source, [(0, 10), (4 << 20, 10)], use_threads=use_threads)
    assert caught.value.errno == 5
    assert caught.value.__notes__ == ["while reading 10 bytes at offset 0 of <file object>"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_a_forked_process_reads_with_threads_of_its_own():
    code = """if True:
        import os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: the point
        from fastmosaic.storage.source import open_source, read_ranges, Source
        import pyarrow as pa
        data = bytes(8 << 20)
        source = Source("x", len(data), is_local=False, read=pa.py_buffer(data).slice)
        ranges = [(0, 10), (4 << 20, 10)]
        read_ranges(source, ranges)
        child = os.fork()
        assert len(read_ranges(source, ranges)) == 2
        if child:
            assert os.waitpid(child, 0)[1] == 0
        else:
            os._exit(0)
    """
    subprocess.run([sys.executable, "-c", code], check=True)


# --- open_sink


def names(directory):
    return sorted(entry.name for entry in directory.iterdir())


def written(sink, data=b"new data"):
    sink.write(data)
    sink.commit()


def test_a_commit_makes_the_file_appear_whole(tmp_path):
    target = tmp_path / "out"
    sink = open_sink(target)
    sink.write(b"one ")
    sink.write(memoryview(b"two "))
    sink.write(pa.py_buffer(b"three"))
    assert sink.tell() == 13
    assert not target.exists()
    sink.commit()
    assert target.read_bytes() == b"one two three"
    assert names(tmp_path) == ["out"]


def test_a_relative_path_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(open_sink("out"))
    assert names(tmp_path) == ["out"]


def test_the_temporary_file_is_hidden_and_beside(tmp_path):
    sink = open_sink(tmp_path / "out")
    (name,) = names(tmp_path)
    assert name.startswith(".out.")
    assert name.endswith(".fastmosaic-locked")
    sink.abandon()


def test_a_long_name_is_written(tmp_path):
    name = "ü" * 127  # 254 of the 255 bytes that a name may have
    written(open_sink(tmp_path / name))
    assert names(tmp_path) == [name]


def test_permissions_are_those_of_any_new_file(tmp_path):
    (tmp_path / "usual").touch()
    written(open_sink(tmp_path / "out"))
    modes = {stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir()}
    assert len(modes) == 1


def test_the_old_file_stays_until_commit(path):
    sink = open_sink(path)
    sink.write(b"new data")
    assert path.read_bytes() == DATA
    sink.commit()
    assert path.read_bytes() == b"new data"


def test_an_abandoned_file_leaves_the_old_one(path):
    sink = open_sink(path)
    sink.write(b"new data")
    sink.abandon()
    sink.abandon()
    assert path.read_bytes() == DATA
    assert names(path.parent) == [path.name]


def test_an_abandoned_file_leaves_nothing(tmp_path):
    sink = open_sink(tmp_path / "out")
    sink.write(b"new data")
    sink.abandon()
    assert names(tmp_path) == []


def test_a_dropped_sink_leaves_nothing(tmp_path):
    sink = open_sink(tmp_path / "out")
    sink.write(b"new data")
    del sink
    gc.collect()
    assert names(tmp_path) == []


def test_a_sink_left_at_exit_leaves_nothing(tmp_path):
    code = (
        "from fastmosaic.storage.sink import open_sink;"
        f"sink = open_sink({str(tmp_path / 'out')!r}); sink.write(b'x'); raise SystemExit"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert names(tmp_path) == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_commit_leaves_the_old_file(path, monkeypatch, step):
    def fail(*args):
        raise OSError(28, "no space left")

    sink = open_sink(path)
    sink.write(b"new data")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="no space left"):
        sink.commit()
    assert path.read_bytes() == DATA
    assert names(path.parent) == [path.name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_told_once():
    sink = open_sink("/dev/full")
    sink.write(b"x")
    with pytest.raises(OSError, match="No space left"):
        sink.commit()
    sink.abandon()


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no null device")
def test_a_device_is_written_and_not_replaced():
    written(open_sink("/dev/null"))
    assert not os.path.isfile("/dev/null")


def test_after_the_end_a_sink_takes_nothing(tmp_path):
    sink = open_sink(tmp_path / "out")
    written(sink)
    with pytest.raises(ValueError, match="committed or abandoned already"):
        sink.write(b"more")
    with pytest.raises(ValueError, match="committed or abandoned already"):
        sink.commit()
    sink.abandon()
    assert (tmp_path / "out").read_bytes() == b"new data"


def test_a_link_stays_a_link(path):
    link = path.parent / "link"
    link.symlink_to(path)
    written(open_sink(link))
    assert link.is_symlink()
    assert path.read_bytes() == b"new data"


def test_a_missing_directory_is_named_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere'"):
        open_sink(tmp_path / "nowhere" / "out")


@pytest.mark.parametrize("name", ["dir", "dir/", "new/"])
def test_a_directory_is_refused_at_once(tmp_path, name):
    (tmp_path / "dir").mkdir()
    with pytest.raises(IsADirectoryError, match=name):
        open_sink(f"{tmp_path}/{name}")
    assert names(tmp_path) == ["dir"]


def test_a_file_uri_is_written(tmp_path):
    written(open_sink(f"file://{tmp_path}/a%20b"))
    assert names(tmp_path) == ["a b"]


@pytest.mark.parametrize(
    "filesystem",
    [pa.fs.LocalFileSystem(), LocalFileSystem(), "file:///"],
    ids=["pyarrow", "fsspec", "uri"],
)
def test_the_local_filesystem_is_written_as_a_path(path, filesystem):
    sink = open_sink(str(path), filesystem)
    sink.write(b"new data")
    assert path.read_bytes() == DATA
    sink.commit()
    assert path.read_bytes() == b"new data"
    assert names(path.parent) == [path.name]


def test_a_subtree_is_written(path):
    filesystem = pa.fs.SubTreeFileSystem(str(path.parent), pa.fs.LocalFileSystem())
    sink = open_sink(path.name, filesystem)
    sink.write(b"new data")
    assert path.read_bytes() == DATA
    sink.commit()
    assert path.read_bytes() == b"new data"
    assert names(path.parent) == [path.name]


def files(filesystem):
    """What a filesystem of pyarrow holds."""
    selector = pa.fs.FileSelector("", recursive=True)
    paths = [info.path for info in filesystem.get_file_info(selector) if info.is_file]
    return {path: filesystem.open_input_file(path).readall() for path in paths}


@pytest.fixture(params=["renamed", "uploaded"])
def mock(request, monkeypatch):
    """A filesystem that is not local, once as such and once as an object store."""
    if request.param == "uploaded":
        monkeypatch.setattr(sink, "OBJECT_STORES", {"mock"})
    filesystem = pa.fs._MockFileSystem()
    filesystem.create_dir("dir")
    with filesystem.open_output_stream("dir/old") as stream:
        stream.write(b"old data")
    return filesystem


def test_a_filesystem_is_written(mock):
    sink = open_sink("dir/new", mock)
    sink.write(b"new ")
    sink.write(b"data")
    assert "dir/new" not in files(mock)
    sink.commit()
    assert files(mock) == {"dir/old": b"old data", "dir/new": b"new data"}


def test_an_old_file_of_a_filesystem_is_replaced_by_commit(mock):
    written(open_sink("dir/old", mock))
    assert files(mock) == {"dir/old": b"new data"}


def test_a_file_at_the_root_of_a_filesystem_is_written(mock):
    written(open_sink("new", mock))
    assert files(mock)["new"] == b"new data"


@pytest.mark.parametrize("end", ["abandoned", "dropped"])
def test_a_filesystem_keeps_nothing_that_was_not_committed(mock, end):
    sink = open_sink("dir/old", mock)
    sink.write(b"new data")
    if end == "abandoned":
        sink.abandon()
    del sink
    gc.collect()
    assert files(mock) == {"dir/old": b"old data"}


def test_a_directory_of_a_filesystem_is_refused_at_once():
    filesystem = pa.fs._MockFileSystem()
    filesystem.create_dir("dir")
    with pytest.raises(IsADirectoryError, match="dir"):
        open_sink("dir", filesystem)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_sink("nowhere/out", filesystem)


def test_an_upload_that_fails_halfway_leaves_no_half_object(tmp_path, monkeypatch):
    class HalfHandler(pa.fs.FSSpecHandler):
        """Writes that fail after the first half, on streams that can then be closed."""

        def open_output_stream(self, path, metadata):
            class Half(io.RawIOBase):
                def writable(self):
                    return True

                def write(self, data):
                    with open(path, "wb") as file:
                        file.write(bytes(data)[: len(data) // 2])
                    raise OSError("connection lost")

            return pa.PythonFile(Half(), mode="w")

    handler = HalfHandler(LocalFileSystem())
    spool = tmp_path / "spool"
    spool.write_bytes(DATA)
    with pytest.raises(OSError, match="connection lost"):
        sink._upload(str(spool), pa.fs.PyFileSystem(handler), str(tmp_path / "out"))
    assert names(tmp_path) == ["spool"]


def test_a_filesystem_of_fsspec_is_written_by_commit(memory):
    sink = open_sink("memory://dir/out")
    sink.write(b"new data")
    assert memory.find("/") == []
    sink.commit()
    assert memory.cat_file("/dir/out") == b"new data"


def test_an_open_file_of_fsspec_is_written_by_commit(memory):
    sink = open_sink(fsspec.open("memory://out", "wb"))
    assert memory.find("/") == []
    written(sink)
    assert memory.cat_file("/out") == b"new data"


def test_a_filesystem_of_fsspec_keeps_nothing_that_was_abandoned(memory):
    memory.pipe_file("/out", b"old data")
    sink = open_sink("/out", memory)
    sink.write(b"new data")
    sink.abandon()
    assert memory.cat_file("/out") == b"old data"


def test_a_spool_is_removed(memory, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sink = open_sink("memory://out")
    assert len(names(tmp_path)) == 1
    written(sink)
    open_sink("memory://out").abandon()
    assert names(tmp_path) == []


def test_a_callers_file_is_written_and_stays_open():
    file = io.BytesIO()
    file.write(b"before ")
    sink = open_sink(file)
    assert sink.tell() == 0
    sink.write(b"after")
    assert sink.tell() == 5
    sink.commit()
    assert file.getvalue() == b"before after"


def test_a_callers_arrow_file_is_written_and_stays_open():
    stream = pa.BufferOutputStream()
    written(open_sink(stream))
    assert not stream.closed
    assert stream.getvalue().to_pybytes() == b"new data"


def test_a_callers_file_keeps_what_was_abandoned():
    file = io.BytesIO()
    sink = open_sink(file)
    sink.write(b"half")
    sink.abandon()
    assert not file.closed
    assert file.getvalue() == b"half"


def test_a_callers_file_with_a_path_is_not_replaced(tmp_path):
    with LocalFileSystem().open(str(tmp_path / "out"), "wb") as file:
        written(open_sink(file))
    assert (tmp_path / "out").read_bytes() == b"new data"


def test_a_callers_file_that_takes_little_at_a_time_gets_all():
    class Slow(io.BytesIO):
        def write(self, data):
            return super().write(data[:3])

    file = Slow()
    written(open_sink(file))
    assert file.getvalue() == b"new data"


def test_a_callers_file_that_takes_nothing_is_an_error():
    class Stuck(io.BytesIO):
        def write(self, data):
            return 0

    with pytest.raises(OSError, match="accepts no more bytes"):
        open_sink(Stuck()).write(b"x")


def test_a_callers_failing_file_stays_the_systems_error():
    with pytest.raises(OSError, match="the disk is on fire"):
        open_sink(Failing()).write(b"x")


@pytest.mark.parametrize("where", [None, 5, b"bytes"])
def test_a_sink_of_another_type_is_refused(where):
    with pytest.raises(TypeError, match="expected a path, a URI or a writable binary file object"):
        open_sink(where)


def test_a_text_file_is_not_written():
    with pytest.raises(TypeError, match="binary mode"):
        open_sink(io.StringIO())


def test_a_source_as_a_file_object(monkeypatch):
    """It reads what a file would, a long read by several requests, and the store may fail."""
    monkeypatch.setattr(source_module, "_REQUEST_BYTES", 7)
    monkeypatch.setattr(retry, "RETRY_PAUSES", (0.0, 0.0))
    data = bytes(range(100))
    requests = []

    def read(offset, length):
        requests.append((offset, length))
        if len(requests) % 3 == 0:
            raise ConnectionError
        return pa.py_buffer(data[offset : offset + length])

    source = Source("x", len(data), is_local=False, read=read)
    like = io.BytesIO(data)
    with SeekableSource(source) as file:
        for offset, whence, size in [
            (0, 0, 5),
            (3, 1, 40),
            (-20, 2, 100),
            (99, 0, -1),
            (120, 0, 3),
        ]:
            assert file.seek(offset, whence) == like.seek(offset, whence)
            assert file.read(size) == like.read(size)
            assert file.tell() == like.tell()
        assert max(length for _, length in requests) == 7
    assert source.closed
    whole = pa.PythonFile(SeekableSource(open_source(data)), mode="r")
    assert whole.read() == data


def test_a_failure_that_persists_has_a_number(monkeypatch):
    """So it is told from Arrow's errors about invalid bytes, which jobs blame on the file."""
    monkeypatch.setattr(retry, "RETRY_PAUSES", ())

    def fail():
        raise OSError("AWS Error NETWORK_CONNECTION")

    with pytest.raises(OSError, match="NETWORK_CONNECTION") as caught:
        retry.insist("x", fail)
    assert caught.value.errno == errno.EIO
