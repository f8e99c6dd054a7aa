"""Paths, URIs and filesystems of pyarrow or fsspec."""

from __future__ import annotations

import io
import os
import re
from functools import cache
from typing import Any, Final

import pyarrow as pa

from .secrets import redacted, without_secrets

# The directory of the versions of a table. A directory that contains it is a table.
TABLE_MARK: Final = "_mosaic"
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:/")  # one letter is a Windows drive


def locate(thing: Any, filesystem: Any) -> tuple[str, Any, str] | None:
    """Return the name of a path for messages, its filesystem, and the path in that filesystem.

    The filesystem is one of pyarrow or fsspec, or None for the local one. The name shows no
    credentials, so it need not be a path that can be opened. The result is None if `thing` is not
    a path.
    """
    if is_open_file(thing):
        if getattr(thing, "compression", None):
            raise ValueError(
                f"{redacted(thing.path)}: compression of a whole file is not supported; "
                "open it without compression="
            )
        return locate(thing.path, thing.fs)  # fsspec.OpenFile
    if not isinstance(thing, str | os.PathLike) or hasattr(thing, "read"):
        if filesystem is not None:
            raise ValueError(
                f"filesystem= requires a path, not an object of type {type(thing).__name__}"
            )
        return None
    path = os.fspath(thing)
    name = redacted(path)
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
    if is_fsspec(wrapped):  # by pyarrow.fs.FSSpecHandler
        filesystem = wrapped
    if is_fsspec(filesystem):
        path = filesystem._strip_protocol(path)
    elif not hasattr(filesystem, "open_input_file"):
        raise TypeError(
            "filesystem must be a filesystem of pyarrow or fsspec, or a URI, "
            f"not an object of type {type(filesystem).__name__}"
        )
    return name, None if kind_of(filesystem) == "local" else filesystem, path


def is_open_file(thing: Any) -> bool:
    """Return whether it is an OpenFile of fsspec: a path with its filesystem, not open."""
    return hasattr(thing, "fs") and hasattr(thing, "path") and not hasattr(thing, "read")


def _from_uri(uri: str) -> tuple[Any, str]:
    try:
        return _open_uri(uri)
    except Exception as error:
        cleaned = without_secrets(error, uri)
        if cleaned is error:
            raise
        raise cleaned from None


def _open_uri(uri: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise ValueError(
                f"pyarrow does not support the URI {redacted(uri)!r}; install fsspec, which may"
            ) from error
        filesystem, path = url_to_fs(uri)
        in_filesystem = f"{uri.partition(':')[0]}://{path}"
        if not is_web(filesystem) and redacted(in_filesystem) != in_filesystem:
            raise ValueError(
                f"{redacted(uri)}: the filesystem of fsspec does not accept credentials in a URI; "
                "pass them to the filesystem, and that as filesystem="
            ) from None
        return filesystem, path
    return found


@cache
def _local() -> Any:
    from pyarrow import fs

    return fs.LocalFileSystem()


def as_arrow(filesystem: Any) -> Any:
    """Return a filesystem as one of pyarrow; None is the local one."""
    if filesystem is None:
        return _local()
    if not is_fsspec(filesystem):
        return filesystem
    from pyarrow.fs import PyFileSystem

    from .fsspec_handler import Handler

    return PyFileSystem(Handler(filesystem))


def is_fsspec(filesystem: Any) -> bool:
    """Return whether a filesystem is one of fsspec."""
    return hasattr(filesystem, "cat_file") and hasattr(filesystem, "protocol")


def info_of(filesystem: Any, path: str) -> Any:
    """Return the information that fsspec has about a path."""
    try:
        return filesystem.info(path)
    except FileNotFoundError as error:
        # fsspec raises this for every failure of an HTTP server; the cause is the real error.
        cause = error.__cause__
        if cause is None or kind_of(filesystem) != "http" or getattr(cause, "status", 0) == 404:
            raise
        raise cause from None


def is_hidden(name: str, is_directory: bool) -> bool:
    """Return whether a name is hidden, and not part of a dataset; `_key=value` may be a partition."""
    return name.startswith((".", "_")) and not (
        is_directory and name.startswith("_") and "=" in name
    )


def is_directory(filesystem: Any, path: str) -> bool:
    """Return whether a path is a directory; the filesystem is local (None) or one of pyarrow."""
    if filesystem is None:
        return os.path.isdir(path)
    return bool(filesystem.get_file_info(path).type.name == "Directory")


def kind_of(filesystem: Any) -> str:
    """Return the kind of a filesystem: pyarrow's type_name or fsspec's protocol."""
    if is_fsspec(filesystem):
        protocol = filesystem.protocol
        kind = str(protocol if isinstance(protocol, str) else protocol[0])
        return "local" if kind == "file" else kind
    return str(filesystem.type_name)


def is_web(filesystem: Any) -> bool:
    """Return whether a filesystem is a web server, where paths are URLs."""
    return filesystem is not None and kind_of(filesystem) == "http"


def check_binary(file: object) -> None:
    """Raise TypeError if a file object is open in text mode."""
    if isinstance(file, io.TextIOBase):
        raise TypeError("the file object is open in text mode; open it in binary mode")


def os_error(code: int, name: str) -> OSError:
    """Return the error that the operating system would raise, such as FileNotFoundError."""
    return OSError(code, os.strerror(code), name)
