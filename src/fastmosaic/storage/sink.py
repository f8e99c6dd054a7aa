"""Output files, which appear under their name when they are complete, or not at all."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pyarrow as pa

from .debris import is_lockable, keeps, spool, sweep, temporary_name
from .location import check_binary, is_directory, is_fsspec, kind_of, locate, os_error
from .replace import keep_status, resolved, sync
from .retry import insist
from .secrets import redacted

WRITE_BUFFER_BYTES: Final = 1 << 20

# By pyarrow's type_name. Objects appear when their upload ends, and cannot be renamed.
OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})
# Also by fsspec's protocol. There a directory is only a part of a name.
WITHOUT_DIRECTORIES: Final = OBJECT_STORES | {"gs"}


class Sink:
    """An output file, written from the first byte to the last.

    It ends with `commit` or `abandon`. A sink that is garbage collected is abandoned.
    """

    def __init__(
        self,
        name: str,
        open_file: Callable[[], Any],
        *,
        publish: Callable[[Any], object],
        discard: Callable[[], object] = lambda: None,
        is_own: bool = True,
    ) -> None:
        """`commit` calls `publish` with the file; `abandon` closes it, if `is_own`, and calls `discard`."""
        self.name = name
        self._size = 0
        self._publish = publish
        self._is_own = is_own
        opened: list[Any] = []
        # Before the file exists, because an interrupt may come at any time.
        self._discard = weakref.finalize(self, _undo, opened if is_own else [], discard)
        self._file = open_file()
        opened.append(self._file)

    def write(self, data: Any) -> None:
        """Append bytes or any other buffer."""
        self._check_open()
        rest = memoryview(data).cast("B")
        self._size += rest.nbytes
        while rest.nbytes:
            with self._naming():
                written = self._file.write(rest)
            if written is None or written == rest.nbytes:  # None: it does not say
                return
            if written == 0:
                raise OSError(f"{self.name} accepts no more bytes")
            rest = rest[written:]

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._size

    def commit(self) -> None:
        """Make the output appear under its name, and replace a file of that name."""
        self._check_open()
        try:
            with self._naming():
                self._publish(self._file)
        except BaseException:
            self.abandon()
            raise
        self._discard.detach()

    def abandon(self) -> None:
        """Discard the output, and keep a file of that name. Does nothing after `commit`.

        Bytes that were written to a file object of the caller stay there, incomplete.
        """
        self._discard()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Name the file in errors of the system, such as that of a full disk, which do not."""
        try:
            yield
        except OSError as error:
            if self._is_own and error.strerror is not None and error.filename is None:
                error.filename = self.name
            raise

    def _check_open(self) -> None:
        if not self._discard.alive:
            raise ValueError(f"{self.name} was committed or abandoned already")


def open_sink(where: Any, filesystem: Any = None, *, is_staged: bool = False) -> Sink:
    """Open a path, URI or writable file object for writing; a `Sink` is returned as it is.

    For a path, a temporary file next to it is written and renamed by `commit`; in an object store,
    `commit` uploads the whole object. With `is_staged`, the path is written without a temporary
    name, because nobody looks there yet. A file object of the caller is written to directly, and
    is not closed.
    """
    if isinstance(where, Sink):
        return where
    if (found := locate(where, filesystem)) is not None:
        name, place, path = found
        if place is None:
            return _staged_sink(name, path) if is_staged else local_sink(name, path)
        if is_fsspec(place):
            return _uploaded_sink(name, lambda spool: place.put_file(spool, path))
        if kind_of(place) in OBJECT_STORES:
            return _uploaded_sink(name, lambda spool: _upload(spool, place, path))
        return _renamed_sink(name, place, path, is_staged)
    if not hasattr(where, "write"):
        raise TypeError(
            "expected a path, a URI or a writable binary file object to write to, "
            f"not an object of type {type(where).__name__}"
        )
    check_binary(where)
    flush = getattr(where, "flush", lambda: None)
    return Sink("<file object>", lambda: where, publish=lambda _: flush(), is_own=False)


def local_sink(name: str, path: str, move: Callable[[str, str], object] | None = None) -> Sink:
    """Open a local path for writing; `commit` moves the temporary file there, by os.replace."""
    target = resolved(path, name)  # a link stays a link
    directory, base = os.path.split(target)
    if os.path.isdir(target) or path.endswith(os.sep):
        raise os_error(errno.EISDIR, name)
    if not os.path.isdir(directory):
        raise os_error(errno.ENOENT, redacted(directory))
    if os.path.exists(target) and not os.path.isfile(target):
        return Sink(name, lambda: open(target, "wb"), publish=lambda device: device.close())
    sweep(None, directory)
    is_locked = is_lockable(directory)
    temporary = os.path.join(directory, temporary_name(base, is_locked=is_locked))

    def opener(file: str, flags: int) -> int:
        # Nobody may read the new file who may not read the old one.
        return os.open(file, flags, 0o600 if os.path.exists(target) else 0o666)

    def open_file() -> Any:
        while True:
            file = open(temporary, "xb", buffering=WRITE_BUFFER_BYTES, opener=opener)  # noqa: SIM115
            if not is_locked or keeps(temporary, file.fileno()):
                return file
            file.close()

    def publish(file: Any) -> None:
        file.flush()
        with suppress(FileNotFoundError):
            keep_status(target, file.fileno())
        os.fsync(file.fileno())
        if not is_locked:
            file.close()
        (move or os.replace)(temporary, target)  # before the lock is released
        file.close()
        sync(directory)

    return Sink(
        name,
        open_file,
        publish=publish,
        discard=lambda: os.unlink(temporary),
    )


def _staged_sink(name: str, path: str) -> Sink:
    if os.path.lexists(path):
        raise os_error(errno.EEXIST, name)

    def publish(file: Any) -> None:
        file.flush()
        os.fsync(file.fileno())
        file.close()

    return Sink(
        name,
        lambda: open(path, "xb", buffering=WRITE_BUFFER_BYTES),
        publish=publish,
        discard=lambda: os.unlink(path),
    )


def _renamed_sink(name: str, filesystem: Any, path: str, is_staged: bool) -> Sink:
    if is_staged:
        return Sink(
            name,
            lambda: filesystem.open_output_stream(path),
            publish=lambda file: file.close(),
            discard=lambda: filesystem.delete_file(path),
        )
    parent, _, base = path.rpartition("/")
    if not base or is_directory(filesystem, path):
        raise os_error(errno.EISDIR, name)
    if parent and not is_directory(filesystem, parent):
        raise os_error(errno.ENOENT, redacted(parent))
    sweep(filesystem, parent)
    temporary = path.removesuffix(base) + temporary_name(base, is_locked=False)

    def publish(file: Any) -> None:
        file.close()
        filesystem.move(temporary, path)

    return Sink(
        name,
        lambda: filesystem.open_output_stream(temporary),
        publish=publish,
        discard=lambda: filesystem.delete_file(temporary),
    )


def _uploaded_sink(name: str, upload: Callable[[str], object]) -> Sink:
    def publish(file: Any) -> None:
        file.flush()
        insist(name, lambda: upload(file.name))
        file.close()

    # pyarrow and fsspec cannot undo an upload that has begun, so it begins in `commit`.
    return Sink(name, spool, publish=publish)


def _upload(spool: str, filesystem: Any, path: str) -> None:
    with pa.memory_map(spool) as file:
        data = file.read_buffer()
    stream = filesystem.open_output_stream(path)
    try:
        stream.write(data)
    except BaseException:
        # If the stream can be closed after a failed write, an incomplete object appears.
        with suppress(OSError):
            stream.close()
            filesystem.delete_file(path)
        raise
    stream.close()


def _undo(opened: list[Any], discard: Callable[[], object]) -> None:
    """Close and discard, even if one of them fails: closing a file may fail on a full disk."""
    for step in (*(file.close for file in opened), discard):
        with suppress(OSError):
            step()
