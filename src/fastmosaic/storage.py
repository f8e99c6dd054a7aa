"""Bytes in and out: open what a user names, read byte ranges of it; write it whole or not at all.

open_source   a path, URI, file or buffer as a `Source`, read by offset from any thread
coalesce      ranges close together as fewer, longer ones: the plan, without I/O
read_ranges   the bytes of many ranges, by such a plan
open_sink     a `Sink`, whose output appears when it is committed, and leaves no trace if it is not
"""

from __future__ import annotations

import errno
import functools
import io
import os
import re
import secrets
import tempfile
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Self

import pyarrow as pa

__all__ = ["Sink", "Source", "coalesce", "open_sink", "open_source", "read_ranges"]

# A local read costs a few microseconds, in which some 16 KiB could be copied instead. Merged reads
# stay short, as they are shared out to the cores and live as long as one of their slices.
LOCAL_MAX_GAP: Final = 16 << 10
LOCAL_MAX_BYTES: Final = 8 << 20
# A remote read costs tens of milliseconds, in which 1 MiB could be sent; the reference's limits.
REMOTE_MAX_GAP: Final = 1 << 20
REMOTE_MAX_BYTES: Final = 32 << 20

REMOTE_THREADS: Final = 16
# Below this, starting threads costs more than the copying they share.
LOCAL_PARALLEL_BYTES: Final = 4 << 20

WRITE_BUFFER_BYTES: Final = 1 << 20

# By pyarrow's type_name. There an object appears when its upload ends, and nothing can be renamed.
OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})

URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:/")  # one letter is a Windows drive

EMPTY: Final = pa.py_buffer(b"")


class Source:
    """Something to read from, by offset and from any thread.

    The reader takes anything with `name`, `size`, `is_local`, `read_at` and `close`.

    `is_local` says that a read costs little; otherwise round trips are the cost.
    """

    def __init__(
        self,
        name: str,
        size: int,
        *,
        is_local: bool,
        read: Callable[[int, int], pa.Buffer],
        close: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self.size = size
        self.is_local = is_local
        self.closed = False
        self._read = read
        self._close = close

    def read_at(self, offset: int, length: int) -> pa.Buffer:
        """Exactly `length` bytes from `offset` on."""
        if self.closed:
            raise ValueError(f"{self.name} is closed")
        if offset < 0 or length < 0:
            raise ValueError(f"{length} bytes at offset {offset}: neither may be negative")
        parts: list[pa.Buffer] = []
        count = 0
        while count < length:
            part = self._read(offset + count, length - count)
            if part.size == 0:
                raise OSError(
                    f"{self.name} ends at byte {offset + count}, within the {length} bytes from "
                    f"{offset} on; it had {self.size} bytes when it was opened"
                )
            parts.append(part)
            count += part.size
        return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))

    def close(self) -> None:
        """Close what was opened for this source; a caller's own file stays open."""
        if not self.closed:
            self.closed = True
            if self._close is not None:
                self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def open_source(source: Any, filesystem: Any = None) -> Source:
    """A path, URI, file object or buffer, open for reading.

    With `filesystem`, of pyarrow or fsspec or as a URI, `source` is a path in it. Anything that
    has `read_at` and `size` as a `Source` does comes back as it is.
    """
    if (found := _locate(source, filesystem)) is not None:
        return _open_path(*found)
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
        "a source is a path, a URI, a binary file object or a buffer, "
        f"not an object of type {type(source).__name__}"
    )


def _open_path(name: str, filesystem: Any, path: str) -> Source:
    if _is_fsspec(filesystem):
        info = filesystem.info(path)
        if info["type"] == "directory":
            raise _os_error(errno.EISDIR, name)

        # Not a file object: those of fsspec read ahead, and have one position for all threads.
        def read(offset: int, length: int) -> pa.Buffer:
            return pa.py_buffer(filesystem.cat_file(path, start=offset, end=offset + length))

        return Source(name, info["size"], is_local=_kind(filesystem) == "memory", read=read)
    try:
        if filesystem is None:
            file = pa.OSFile(os.fsencode(path))
        else:
            file = filesystem.open_input_file(path)
    except OSError as error:
        if _is_directory(filesystem, path):
            raise _os_error(errno.EISDIR, name) from error
        if isinstance(error, FileNotFoundError):
            raise _os_error(errno.ENOENT, name) from error
        raise
    is_local = filesystem is None or _kind(filesystem) in {"local", "mock"}
    return _native_source(name, file, is_local=is_local, close=file.close)


def _native_source(
    name: str, file: pa.NativeFile, *, is_local: bool, close: Callable[[], object] | None = None
) -> Source:
    # Not file.read_at: its bytes come from the system, page by page; these from Arrow's pool,
    # which keeps its pages. 90 MB took 50 ms and 8 ms.
    return Source(
        name,
        file.size(),
        is_local=is_local,
        read=lambda offset, length: file.get_stream(offset, length).read_buffer(length),
        close=close,
    )


def _file_source(file: Any) -> Source:
    """A source over a Python file object, which has one position: reads take turns."""
    _check_binary(file)
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


def coalesce(
    ranges: Sequence[tuple[int, int]], *, max_gap: int, max_bytes: int
) -> list[tuple[int, int]]:
    """Ascending (offset, length) ranges that cover `ranges`, which may overlap, in any order.

    Neighbours at most `max_gap` bytes apart become one, up to `max_bytes`; a longer range stays
    whole. Empty ranges are left out.
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
    """The bytes of each (offset, length) range, in the order of `ranges`.

    They are slices of fewer, longer reads: each keeps the whole of its read in memory.
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
        buffers = list(_pool(os.cpu_count() or 1 if local else REMOTE_THREADS).map(read, merged))
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


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="fastmosaic-read")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads stay with the parent


class Sink:
    """Something to write to, from the first byte to the last.

    Ends in exactly one of `commit` and `abandon`; one that is dropped is abandoned.
    """

    def __init__(
        self,
        name: str,
        file: Any,
        *,
        publish: Callable[[], object],
        discard: Callable[[], object],
    ) -> None:
        self.name = name
        self._file = file
        self._size = 0
        self._publish = publish
        self._discard = weakref.finalize(self, discard)

    def write(self, data: Any) -> None:
        """Append bytes, or anything with a buffer."""
        self._check_open()
        rest = memoryview(data).cast("B")
        self._size += rest.nbytes
        while rest.nbytes:
            written = self._file.write(rest)
            if written is None or written == rest.nbytes:  # None: a file that does not count
                return
            if written == 0:
                raise OSError(f"{self.name} takes no more bytes")
            rest = rest[written:]

    def tell(self) -> int:
        """How many bytes were written."""
        return self._size

    def commit(self) -> None:
        """Make the output appear, in the place of what was there before."""
        self._check_open()
        try:
            self._publish()
        except BaseException:
            self.abandon()
            raise
        self._discard.detach()

    def abandon(self) -> None:
        """Leave what was there before, and nothing else; no-op after `commit`.

        What went to a caller's own file object stays there, without an end.
        """
        self._discard()

    def _check_open(self) -> None:
        if not self._discard.alive:
            raise ValueError(f"{self.name} was committed or abandoned before")


def open_sink(where: Any, filesystem: Any = None) -> Sink:
    """A path, URI or writable file object, open for writing.

    A path has a temporary file next to it until `commit`, an object store gets a single upload
    then. A caller's own file object is written to at once, and is not closed.
    """
    if (found := _locate(where, filesystem)) is not None:
        name, place, path = found
        if place is None:
            return _local_sink(name, path)
        if _is_fsspec(place):
            return _uploaded_sink(name, lambda spool: place.put_file(spool, path))
        if _kind(place) in OBJECT_STORES:
            return _uploaded_sink(name, lambda spool: _upload(spool, place, path))
        return _renamed_sink(name, place, path)
    if not hasattr(where, "write"):
        raise TypeError(
            "where to write is a path, a URI or a writable binary file object, "
            f"not an object of type {type(where).__name__}"
        )
    _check_binary(where)
    flush = getattr(where, "flush", lambda: None)
    return Sink("<file object>", where, publish=flush, discard=lambda: None)


def _local_sink(name: str, path: str) -> Sink:
    target = os.path.realpath(path)  # a link stays a link
    directory, base = os.path.split(target)
    if os.path.isdir(target) or path.endswith(os.sep):
        raise _os_error(errno.EISDIR, name)
    if not os.path.isdir(directory):
        raise _os_error(errno.ENOENT, directory)
    if os.path.exists(target) and not os.path.isfile(target):
        device = open(target, "wb")  # noqa: SIM115 - the sink closes it
        return Sink(name, device, publish=device.close, discard=_quietly(device.close))
    temporary = os.path.join(directory, _temporary(base))
    file = open(temporary, "xb", buffering=WRITE_BUFFER_BYTES)  # noqa: SIM115 - the sink closes it

    def publish() -> None:
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(temporary, target)
        # Some filesystems cannot sync a directory, and the file is in its place by now.
        with suppress(OSError):
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    discard = _quietly(file.close, lambda: os.unlink(temporary))
    return Sink(name, file, publish=publish, discard=discard)


def _renamed_sink(name: str, filesystem: Any, path: str) -> Sink:
    parent, _, base = path.rpartition("/")
    if not base or _is_directory(filesystem, path):
        raise _os_error(errno.EISDIR, name)
    if parent and not _is_directory(filesystem, parent):
        raise _os_error(errno.ENOENT, parent)
    temporary = path.removesuffix(base) + _temporary(base)
    file = filesystem.open_output_stream(temporary)

    def publish() -> None:
        file.close()
        filesystem.move(temporary, path)

    discard = _quietly(file.close, lambda: filesystem.delete_file(temporary))
    return Sink(name, file, publish=publish, discard=discard)


def _uploaded_sink(name: str, upload: Callable[[str], object]) -> Sink:
    # An upload, once begun, cannot be taken back by way of pyarrow or fsspec: it begins in commit.
    spool = tempfile.NamedTemporaryFile(prefix="fastmosaic-")  # noqa: SIM115 - the sink closes it

    def publish() -> None:
        spool.flush()
        upload(spool.name)
        spool.close()

    return Sink(name, spool, publish=publish, discard=_quietly(spool.close))


def _upload(spool: str, filesystem: Any, path: str) -> None:
    with pa.memory_map(spool) as file:
        data = file.read_buffer()
    stream = filesystem.open_output_stream(path)
    try:
        stream.write(data)
    except BaseException:
        # If a stream can be closed after a failed write, half an object appears.
        with suppress(OSError):
            stream.close()
            filesystem.delete_file(path)
        raise
    stream.close()


def _locate(thing: Any, filesystem: Any) -> tuple[str, Any, str] | None:
    """The name of a path for messages, its filesystem, and the path there; None if it is no path.

    The filesystem is one of pyarrow or fsspec, or None for the local one.
    """
    if hasattr(thing, "fs") and hasattr(thing, "path") and not hasattr(thing, "read"):
        if getattr(thing, "compression", None):
            raise ValueError(f"{thing.path} is to be compressed as a whole; open it without")
        return _locate(thing.path, thing.fs)  # fsspec.OpenFile
    if not isinstance(thing, str | os.PathLike) or hasattr(thing, "read"):
        if filesystem is not None:
            raise ValueError(f"filesystem= is for a path, not for a {type(thing).__name__}")
        return None
    name = path = os.fspath(thing)
    if filesystem is None:
        if not URI.match(path) or os.path.exists(path):
            return name, None, path
        filesystem, path = _from_uri(path)
    elif isinstance(filesystem, str):
        filesystem, prefix = _from_uri(filesystem)
        path = f"{prefix.rstrip('/')}/{path}" if prefix else path
    while getattr(filesystem, "type_name", None) == "subtree":
        path = filesystem.base_path + path.lstrip("/")
        filesystem = filesystem.base_fs
    wrapped = getattr(getattr(filesystem, "handler", None), "fs", None)
    if _is_fsspec(wrapped):  # by pyarrow.fs.FSSpecHandler
        filesystem = wrapped
    if _is_fsspec(filesystem):
        path = filesystem._strip_protocol(path)
    elif not hasattr(filesystem, "open_input_file"):
        raise TypeError(
            "a filesystem is one of pyarrow or fsspec, or a URI, "
            f"not an object of type {type(filesystem).__name__}"
        )
    return name, None if _kind(filesystem) == "local" else filesystem, path


def _from_uri(uri: str) -> tuple[Any, str]:
    from pyarrow import fs

    found: tuple[Any, str]
    try:
        found = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ValueError(f"pyarrow knows no filesystem for {uri!r}; fsspec may") from error
        found = url_to_fs(uri)
    return found


def _is_fsspec(filesystem: Any) -> bool:
    return hasattr(filesystem, "cat_file") and hasattr(filesystem, "protocol")


def _is_directory(filesystem: Any, path: str) -> bool:
    if filesystem is None:
        return os.path.isdir(path)
    return bool(filesystem.get_file_info(path).type.name == "Directory")


def _kind(filesystem: Any) -> str:
    """pyarrow's type_name of a filesystem, or fsspec's protocol."""
    if _is_fsspec(filesystem):
        protocol = filesystem.protocol
        kind = str(protocol if isinstance(protocol, str) else protocol[0])
        return "local" if kind == "file" else kind
    return str(filesystem.type_name)


def _check_binary(file: object) -> None:
    if isinstance(file, io.TextIOBase):
        raise TypeError("the file object is open as text; open it in binary mode")


def _quietly(*steps: Callable[[], object]) -> Callable[[], None]:
    """All of `steps`, though one fails: closing a file may still find the disk full."""

    def run() -> None:
        for step in steps:
            with suppress(OSError):
                step()

    return run


def _temporary(name: str) -> str:
    return f".{name[:50]}.{secrets.token_hex(8)}.tmp"


def _os_error(code: int, name: str) -> OSError:
    """FileNotFoundError or IsADirectoryError, as the system would raise it."""
    return OSError(code, os.strerror(code), name)
