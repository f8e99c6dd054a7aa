"""Where things are: paths, URIs and filesystems, of pyarrow or fsspec."""

from __future__ import annotations

import io
import os
import re
from typing import Any, Final

import pyarrow as pa

URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:/")  # one letter is a Windows drive


def locate(thing: Any, filesystem: Any) -> tuple[str, Any, str] | None:
    """The name of a path for messages, its filesystem, and the path there; None if it is no path.

    The filesystem is one of pyarrow or fsspec, or None for the local one.
    """
    if hasattr(thing, "fs") and hasattr(thing, "path") and not hasattr(thing, "read"):
        if getattr(thing, "compression", None):
            raise ValueError(f"{thing.path} is to be compressed as a whole; open it without")
        return locate(thing.path, thing.fs)  # fsspec.OpenFile
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
    if is_fsspec(wrapped):  # by pyarrow.fs.FSSpecHandler
        filesystem = wrapped
    if is_fsspec(filesystem):
        path = filesystem._strip_protocol(path)
    elif not hasattr(filesystem, "open_input_file"):
        raise TypeError(
            "a filesystem is one of pyarrow or fsspec, or a URI, "
            f"not an object of type {type(filesystem).__name__}"
        )
    return name, None if kind_of(filesystem) == "local" else filesystem, path


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


def as_arrow(filesystem: Any) -> Any:
    """A filesystem with the members of pyarrow's."""
    from pyarrow import fs

    if filesystem is None:
        return fs.LocalFileSystem()
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)) if is_fsspec(filesystem) else filesystem


def is_fsspec(filesystem: Any) -> bool:
    return hasattr(filesystem, "cat_file") and hasattr(filesystem, "protocol")


def info_of(filesystem: Any, path: str) -> Any:
    """What fsspec says of a path."""
    try:
        return filesystem.info(path)
    except FileNotFoundError as error:
        # fsspec says so of every failure of an HTTP server; the cause tells which it was.
        cause = error.__cause__
        if cause is None or kind_of(filesystem) != "http" or getattr(cause, "status", 0) == 404:
            raise
        raise cause from None


def is_hidden(name: str, is_directory: bool) -> bool:
    """Whether a file or directory is no part of a data set; `_key=value` may be a partition."""
    return name.startswith((".", "_")) and not (
        is_directory and name.startswith("_") and "=" in name
    )


def is_directory(filesystem: Any, path: str) -> bool:
    if filesystem is None:
        return os.path.isdir(path)
    return bool(filesystem.get_file_info(path).type.name == "Directory")


def kind_of(filesystem: Any) -> str:
    """pyarrow's type_name of a filesystem, or fsspec's protocol."""
    if is_fsspec(filesystem):
        protocol = filesystem.protocol
        kind = str(protocol if isinstance(protocol, str) else protocol[0])
        return "local" if kind == "file" else kind
    return str(filesystem.type_name)


def check_binary(file: object) -> None:
    if isinstance(file, io.TextIOBase):
        raise TypeError("the file object is open as text; open it in binary mode")


def os_error(code: int, name: str) -> OSError:
    """FileNotFoundError or IsADirectoryError, as the system would raise it."""
    return OSError(code, os.strerror(code), name)
