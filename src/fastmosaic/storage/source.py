"""Input files, read by byte ranges from any thread.

open_source   open a path, URI, file or buffer as a `Source`
SeekableSource  a `Source` as a file object, for readers of other formats
coalesce      merge ranges that are close together: the plan, without I/O
read_ranges   read many ranges with such a plan
"""

from __future__ import annotations

import errno
import functools
import io
import os
import stat
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, Self

import pyarrow as pa

from ..threads import REMOTE_THREADS, map_in_order, num_threads, pool
from .location import check_binary, info_of, is_directory, is_fsspec, kind_of, locate, os_error
from .retry import insist
from .secrets import without_secrets

# A local read costs a few microseconds, the time to copy about 16 KiB. Merged reads stay short,
# because cores share them and each occupies memory as long as one of its slices is used.
LOCAL_MAX_GAP: Final = 16 << 10
LOCAL_MAX_BYTES: Final = 8 << 20
# A remote read costs tens of milliseconds, the time to send about 1 MiB: the reference's limits.
REMOTE_MAX_GAP: Final = 1 << 20
REMOTE_MAX_BYTES: Final = 32 << 20

# Below this, threads cost more than the copying that they share.
LOCAL_PARALLEL_BYTES: Final = 4 << 20
# Each thread reads so many shares of the ranges, so that all threads end at about the same time.
LOCAL_SHARES: Final = 4

# Up to this size, memory for a read comes from the C library, which has it at hand.
SMALL_READ_BYTES: Final = 256 << 10

# Of a long read by `SeekableSource`.
_REQUEST_BYTES: Final = 8 << 20

EMPTY: Final = pa.py_buffer(b"")


class Source:
    """An input file, read by offset from any thread.

    The reader accepts any object with `name`, `size`, `is_local`, `read_at` and `close`.
    `is_local` says that a read is cheap; otherwise each read costs a round trip.
    """

    def __init__(
        self,
        name: str,
        size: int,
        *,
        is_local: bool,
        read: Callable[[int, int], pa.Buffer],
        close: Callable[[], object] | None = None,
        version: object = None,
    ) -> None:
        self.name = name
        self.size = size
        self.version = version  # changes if a local file is replaced or written
        self.is_local = is_local
        self.closed = False
        self._read = read
        self._close = close

    def read_at(self, offset: int, length: int) -> pa.Buffer:
        """Read exactly `length` bytes, beginning at `offset`."""
        if self.closed:
            raise ValueError(f"{self.name} is closed")
        if offset < 0 or length < 0:
            raise ValueError(
                f"cannot read {length} bytes at offset {offset}: both must be at least 0"
            )
        parts: list[pa.Buffer] = []
        count = 0
        while count < length:
            part = self._read_part(offset + count, length - count)
            if part.size > length - count:
                raise OSError(
                    f"{self.name}: expected {length - count} bytes, got {part.size}; "
                    "its server or filesystem does not support byte ranges"
                )
            if part.size == 0:
                raise OSError(
                    f"{self.name} ends at byte {offset + count}, but {length} bytes at offset "
                    f"{offset} were expected; it had {self.size} bytes when it was opened"
                )
            parts.append(part)
            count += part.size
        return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))

    def _read_part(self, offset: int, length: int) -> pa.Buffer:
        if self.is_local:
            return self._read(offset, length)
        return insist(self.name, lambda: self._read(offset, length))

    def close(self) -> None:
        """Close the file, unless it is a file object of the caller."""
        if not self.closed:
            self.closed = True
            if self._close is not None:
                self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class LocalFile:
    """A file of the operating system, read by offset from any thread.

    Not `pyarrow.OSFile`: setting up the first one of a process, and Arrow's memory pool for the
    first read, takes longer than all the rest of opening a file.
    """

    __slots__ = ("_descriptor", "size", "version")

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self._descriptor = os.open(path, os.O_RDONLY)
        status = os.fstat(self._descriptor)
        if stat.S_ISDIR(status.st_mode):
            self.close()
            raise os_error(errno.EISDIR, path)
        self.size = status.st_size
        self.version = status.st_ino, status.st_mtime_ns

    def read_at(self, offset: int, length: int) -> pa.Buffer:
        """Read up to `length` bytes, fewer only at the end of the file or if it is very long."""
        if length <= SMALL_READ_BYTES:
            return pa.py_buffer(os.pread(self._descriptor, length, offset))
        # Arrow's pool keeps its pages, which the system would have to clear again for each read:
        # 90 MB took 8 ms instead of 50 ms.
        buffer = pa.allocate_buffer(length)
        count = os.preadv(self._descriptor, [memoryview(buffer)], offset)
        return buffer.slice(0, count)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close


def open_source(source: Any, filesystem: Any = None, *, size: int | None = None) -> Source:
    """Open a path, URI, file object or buffer for reading.

    With `filesystem`, one of pyarrow or fsspec or a URI, `source` is a path in it. An object with
    `read_at` and `size`, like a `Source`, is returned as it is. A `size` that is known from a
    listing saves a request on filesystems of fsspec.
    """
    if (found := locate(source, filesystem)) is not None:
        return _open_path(*found, size)
    if isinstance(source, pa.NativeFile):
        kinds = (pa.OSFile, pa.MemoryMappedFile, pa.BufferReader)
        return _native_source("<file object>", source, is_local=isinstance(source, kinds))
    if isinstance(source, bytes | bytearray | memoryview | pa.Buffer):
        return _native_source("<buffer>", pa.BufferReader(source), is_local=True)
    if hasattr(source, "read_at") and hasattr(source, "size"):
        like_a_source: Source = source
        return like_a_source
    if hasattr(source, "read") and hasattr(source, "seek"):
        return _file_source(source)
    raise TypeError(
        "expected a path, a URI, a binary file object or a buffer to read from, "
        f"not an object of type {type(source).__name__}"
    )


def _open_path(name: str, filesystem: Any, path: str, size: int | None) -> Source:
    if is_fsspec(filesystem):
        return _fsspec_source(name, filesystem, path, size)
    is_local = filesystem is None or kind_of(filesystem) in {"local", "mock"}
    try:
        if filesystem is None:
            return _local_source(name, LocalFile(path))
        if is_local:
            file = filesystem.open_input_file(path)
        else:
            file = insist(name, lambda: filesystem.open_input_file(path))
    except OSError as error:
        cleaned = without_secrets(error, path)
        if _is_directory(filesystem, path):
            raise os_error(errno.EISDIR, name) from cleaned
        if isinstance(error, FileNotFoundError):
            raise os_error(errno.ENOENT, name) from cleaned
        raise
    return _native_source(name, file, is_local=is_local, close=file.close)


def _local_source(name: str, file: LocalFile) -> Source:
    return Source(
        name,
        file.size,
        is_local=True,
        read=file.read_at,
        close=file.close,
        version=file.version,
    )


def _is_directory(filesystem: Any, path: str) -> bool:
    try:
        return is_directory(filesystem, path)
    except OSError:  # the error before this one says more
        return False


def _fsspec_source(name: str, filesystem: Any, path: str, size: int | None) -> Source:
    if size is None:
        info = insist(name, lambda: info_of(filesystem, path))
        if info["type"] == "directory":
            raise os_error(errno.EISDIR, name)
        size = info["size"]
        if size is None:
            raise OSError(f"{name}: its server does not report the size of the file")

    # Not a file object: fsspec's read ahead, and have one position for all threads.
    def read(offset: int, length: int) -> pa.Buffer:
        return pa.py_buffer(filesystem.cat_file(path, start=offset, end=offset + length))

    return Source(name, size, is_local=kind_of(filesystem) == "memory", read=read)


def _native_source(
    name: str, file: pa.NativeFile, *, is_local: bool, close: Callable[[], object] | None = None
) -> Source:
    # Not file.read_at, which allocates memory from the system, page by page. Arrow's pool keeps
    # its pages: 90 MB took 8 ms instead of 50 ms.
    return Source(
        name,
        file.size(),
        is_local=is_local,
        read=lambda offset, length: file.get_stream(offset, length).read_buffer(length),
        close=close,
    )


def _file_source(file: Any) -> Source:
    """Return a source for a Python file object, which has one position, so reads take turns."""
    check_binary(file)
    turn = threading.Lock()

    def read(offset: int, length: int) -> pa.Buffer:
        with turn:
            file.seek(offset)
            return pa.py_buffer(file.read(length))

    try:
        is_local = isinstance(file, io.BytesIO) or file.fileno() >= 0
    except (AttributeError, OSError):
        is_local = False
    file.seek(0, os.SEEK_END)
    return Source("<file object>", file.tell(), is_local=is_local, read=read)


class SeekableSource(io.RawIOBase):
    """A source as a file object, for readers of other formats: reads that fail are repeated.

    A long read is several requests at once.
    """

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.size}
        self._position = start[whence] + offset
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._source.size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        end = self._position + length
        starts = range(self._position, end, _REQUEST_BYTES)
        parts = [(start, min(_REQUEST_BYTES, end - start)) for start in starts]
        self._position = end
        one_by_one = len(parts) < 2 or self._source.is_local
        buffers = map_in_order(
            lambda part: self._source.read_at(*part),
            parts,
            not one_by_one,
            purpose="read",
            threads=REMOTE_THREADS,
        )
        return b"".join(map(memoryview, buffers))

    def close(self) -> None:
        if not self.closed:
            self._source.close()
        super().close()


def coalesce(
    ranges: Sequence[tuple[int, int]], *, max_gap: int, max_bytes: int
) -> list[tuple[int, int]]:
    """Return ascending (offset, length) ranges that cover `ranges`.

    The given ranges may overlap, in any order. Ranges at most `max_gap` bytes apart are merged up
    to `max_bytes`; a longer range is not split. Empty ranges are dropped.
    """
    merged: list[tuple[int, int]] = []
    start = end = -1
    for offset, length in sorted(ranges, key=lambda one: (one[0], -one[1])):
        if length == 0:
            continue
        stop = offset + length
        if start >= 0 and (stop <= end or (offset - end <= max_gap and stop - start <= max_bytes)):
            end = max(end, stop)
            merged[-1] = (start, end - start)
        else:
            start, end = offset, stop
            merged.append((offset, length))
    return merged


def read_ranges(
    source: Source, ranges: Sequence[tuple[int, int]], *, use_threads: bool = True
) -> list[pa.Buffer]:
    """Read the bytes of each (offset, length) range, in the order of `ranges`.

    The results are slices of fewer, longer reads. Each keeps its whole read in memory.
    """
    local = source.is_local
    merged = coalesce(
        ranges,
        max_gap=LOCAL_MAX_GAP if local else REMOTE_MAX_GAP,
        max_bytes=LOCAL_MAX_BYTES if local else REMOTE_MAX_BYTES,
    )
    if local and sum(length for _, length in merged) < LOCAL_PARALLEL_BYTES:
        use_threads = False
    read = functools.partial(_read_noted, source)
    if use_threads and len(merged) > 1:
        threads = num_threads() if local else REMOTE_THREADS
        # To hand over one range takes longer than most local reads.
        size = -(-len(merged) // (LOCAL_SHARES * threads)) if local else 1
        shares = [merged[first : first + size] for first in range(0, len(merged), size)]
        found = pool("read", threads).map(lambda share: list(map(read, share)), shares)
        buffers = list(chain.from_iterable(found))
    else:
        buffers = list(map(read, merged))
    starts = [offset for offset, _ in merged]
    slices = []
    for offset, length in ranges:
        if length == 0:
            slices.append(EMPTY)
        else:
            at = bisect_right(starts, offset) - 1
            slices.append(buffers[at].slice(offset - starts[at], length))
    return slices


def _read_noted(source: Source, extent: tuple[int, int]) -> pa.Buffer:
    offset, length = extent
    try:
        return source.read_at(offset, length)
    except Exception as error:
        error.add_note(f"while reading {length} bytes at offset {offset} of {source.name}")
        raise
