"""Files that are created whole, and only if there is none of that name.

Of any number of writers, threads or processes anywhere, exactly one creates the file. Local files
get their name by a link, objects by a conditional write. A write whose answer was lost is found
by its content, so the content should contain something that no other writer has.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import nullcontext, suppress
from typing import Any, Final

from ..errors import UnsupportedError
from .debris import temporary_name
from .location import is_fsspec, is_web, kind_of, os_error
from .replace import move_new
from .retry import insist
from .s3 import as_s3fs
from .sink import Sink, local_sink, open_sink

# Packages whose filesystems pass mode="create" of `pipe_file` on to the store. Those of others
# look for the file first, or ignore the mode.
_CONDITIONAL: Final = frozenset({"s3fs", "gcsfs", "adlfs"})
_MEMORY: Final = "fsspec.implementations.memory"
_ADVICE: Final = "pass single_writer=True if nobody else writes at the same time"

_memory_lock: Final = threading.Lock()  # its check and its write are two steps
_tried: Final[set[object]] = set()  # local devices and buckets that can create files


def create(
    name: str, filesystem: Any, path: str, data: bytes, *, single_writer: bool = False
) -> None:
    """Create `path` with the content `data`, in one step, unless it exists: then raise FileExistsError.

    `filesystem` and `path` are those of `locate`, and `name` appears in messages. If the file
    exists with the same content, it counts as created by this call. With `single_writer`, storage
    that cannot do this is accepted: then the file is looked for and written in two steps.

    Raises UnsupportedError if the storage cannot do this. After another OSError of a remote
    storage, the file may exist, now or later, because the request may still be on its way.

    >>> import tempfile
    >>> from fastmosaic.storage.create import create
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     create("a", None, f"{directory}/a", b"one")
    ...     create("a", None, f"{directory}/a", b"two")
    Traceback (most recent call last):
    FileExistsError: [Errno 17] File exists: 'a'
    """
    try:
        is_own = _create(name, filesystem, path, data)
    except UnsupportedError:
        if not single_writer or is_web(filesystem):
            raise
        is_own = _write_alone(name, filesystem, path, data)
    if not is_own:
        raise os_error(errno.EEXIST, name)


def check_creatable(name: str, filesystem: Any, directory: str) -> None:
    """Raise UnsupportedError if the storage cannot create a file only if it is absent.

    The directory need not exist. Local filesystems and object stores are tried with a temporary
    file, once for each device or bucket, because some servers ignore the condition.
    """
    if filesystem is None:
        _try_local(name, directory)
    else:
        _conditional(name, filesystem, directory)


def _create(name: str, filesystem: Any, path: str, data: bytes) -> bool:
    """Create a file; return whether it has this content, and is not that of another writer."""
    if filesystem is None:
        return _create_local(name, path, data)
    return _put(name, _conditional(name, filesystem, path.rpartition("/")[0]), path, data)


# ---- local


def _create_local(name: str, path: str, data: bytes) -> bool:
    if not os.path.lexists(path):
        try:
            _write(local_sink(name, path, move_new), data)
        except FileExistsError:
            pass
        except UnsupportedError as error:
            raise _unsupported(name, error.message) from error
        else:
            return True
    # A network filesystem may repeat a request after it has succeeded, which then fails.
    with suppress(OSError):
        return _content(None, path) == data
    return False


def _try_local(name: str, directory: str) -> None:
    folder = os.path.abspath(directory)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    device = os.stat(folder).st_dev
    if device not in _tried:
        path = os.path.join(folder, temporary_name("try", is_locked=False))
        _create_local(name, path, b"")
        os.unlink(path)
        _tried.add(device)


# ---- remote


def _conditional(name: str, filesystem: Any, directory: str) -> Any:
    """Return a filesystem of fsspec for the same files that can create files, after a trial."""
    if is_web(filesystem):
        raise UnsupportedError("files on a web server cannot be written", file=name)
    if not is_fsspec(filesystem) and kind_of(filesystem) == "s3":
        try:
            filesystem = as_s3fs(filesystem)
        except UnsupportedError as error:
            raise _unsupported(name, error.message) from error
    if not _has_condition(filesystem):
        raise _unsupported(
            name,
            f"the filesystem {type(filesystem).__name__} cannot create a file only if there is "
            "none of that name; some filesystems of fsspec can, such as those of s3fs and gcsfs",
        )
    bucket = hash(filesystem), directory.lstrip("/").partition("/")[0]
    if not _is_memory(filesystem) and bucket not in _tried:
        _try_remote(name, filesystem, directory)
        _tried.add(bucket)
    return filesystem


def _has_condition(filesystem: Any) -> bool:
    if not is_fsspec(filesystem):
        return False
    if _is_memory(filesystem):
        return True
    import inspect  # imported on use, because it takes long

    packages = {base.__module__.partition(".")[0] for base in type(filesystem).__mro__}
    has_mode = "mode" in inspect.signature(filesystem.pipe_file).parameters
    return has_mode and not packages.isdisjoint(_CONDITIONAL)


def _is_memory(filesystem: Any) -> bool:
    return any(base.__module__ == _MEMORY for base in type(filesystem).__mro__)


def _try_remote(name: str, filesystem: Any, directory: str) -> None:
    """Raise UnsupportedError if the store replaces an object that it should keep.

    Some servers ignore the condition, or refuse it, and so do old versions of botocore.
    """
    path = f"{directory}/{temporary_name('try', is_locked=False)}"
    try:
        is_kept = _put(name, filesystem, path, b"1") and not _put(name, filesystem, path, b"2")
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        is_kept = False
    finally:
        with suppress(Exception):  # the right to delete may be missing; it is debris
            filesystem.rm_file(path)
    if not is_kept:
        raise _unsupported(name, "the store does not support conditional writes")


def _put(name: str, filesystem: Any, path: str, data: bytes) -> bool:
    """Write an object if there is none; return whether it has this content."""

    def attempt() -> bool:
        try:
            with _memory_lock if _is_memory(filesystem) else nullcontext():
                filesystem.pipe_file(path, data, mode="create")
        except Exception:
            # Whatever went wrong: if there is an object now, it is ours or that of another writer.
            # An earlier attempt of ours, or of the client, may have succeeded without an answer.
            found = _content(filesystem, path)
            if found is None:
                raise
            return found == data
        return True

    return insist(name, attempt)


# ---- both


def _write_alone(name: str, filesystem: Any, path: str, data: bytes) -> bool:
    """Write a file if there is none, in two steps; return whether it has this content."""
    found = insist(name, lambda: _content(filesystem, path))
    if found is not None:
        return found == data
    _write(open_sink(path, filesystem), data)
    return True


def _write(sink: Sink, data: bytes) -> None:
    try:
        sink.write(data)
        sink.commit()
    finally:
        sink.abandon()


def _content(filesystem: Any, path: str) -> bytes | None:
    """Return the content of a file as it is now, or None if there is none."""
    try:
        if filesystem is None:
            with open(path, "rb") as file:
                return file.read()
        if is_fsspec(filesystem):
            filesystem.invalidate_cache()  # which may say that there is none
            return bytes(filesystem.cat_file(path))
        with filesystem.open_input_file(path) as file:
            return bytes(file.read())
    except FileNotFoundError:
        return None


def _unsupported(name: str, reason: str) -> UnsupportedError:
    return UnsupportedError(f"{reason}; {_ADVICE}", file=name)
