"""Directory listings: the files below a directory, on any filesystem.

Local directories are read one by one. Filesystems of pyarrow, and object stores of fsspec, list a
whole tree with few requests. Other filesystems of fsspec list one directory per request. All
remote filesystems are asked by way of `pyarrow.fs.FileSelector`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from .location import as_arrow, is_fsspec, is_web, os_error
from .retry import insist
from .secrets import redacted

# How often links may lead to the same directory: those that lead to each other have no end otherwise.
_MAX_LINKS: Final = 100


class Entry(NamedTuple):
    """Something below a directory that is not a directory itself."""

    relative: str  # its path, relative to the directory
    path: str
    size: int | None  # None if the listing does not tell
    is_file: bool = True  # False for a pipe, a device or a broken link


def files_below(
    filesystem: Any, directory: str, enters: Callable[[str], bool] = lambda relative: True
) -> list[str]:
    """Return the paths of all files below a directory, relative to it.

    A directory that does not exist contains no files. See `entries_below` about `enters`. Requests
    that fail are repeated.
    """

    def attempt() -> list[str]:
        entries = entries_below(filesystem, directory, enters)
        return [entry.relative for entry in entries if entry.is_file]

    return attempt() if filesystem is None else insist(redacted(directory), attempt)


def entries_below(
    filesystem: Any,
    directory: str,
    enters: Callable[[str], bool] = lambda relative: True,
    follow: Callable[[str, str], object] | None = None,
) -> Iterator[Entry]:
    """Yield everything below a directory, except for the directories.

    `enters` is called with the relative path of a directory, or of a link, and returns whether to
    list what is below; where a whole tree is listed at once it is not called. A directory that
    does not exist contains nothing. Listings that a filesystem has cached are not used.

    With `follow`, links in local directories are followed, but not in circles; it is called with
    the path of each link before, and the path that it leads to, and may raise. Otherwise a link is
    a file, whatever it leads to.
    """
    if filesystem is None:
        return _walk(directory, enters, follow)
    if not is_fsspec(filesystem):
        return _select(as_arrow(filesystem), directory)
    from .fsspec_handler import lists_at_once

    if lists_at_once(filesystem):
        return _select(as_arrow(filesystem), directory)
    return _crawl(filesystem, directory, enters)


def look(filesystem: Any, path: str) -> tuple[str, int | None]:
    """Return "file", "directory" or "nothing" for a path, and its size if that is known."""
    if filesystem is None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return "nothing", None
        # A pipe counts as a file here, because the user named it.
        return ("directory", None) if stat.S_ISDIR(status.st_mode) else ("file", status.st_size)
    if is_fsspec(filesystem):
        filesystem.invalidate_cache(path)
    info = as_arrow(filesystem).get_file_info(path)
    kinds = {"File": "file", "Directory": "directory", "NotFound": "nothing"}
    if info.type.name not in kinds:
        raise ValueError(f"{path} is neither a file nor a directory")
    return kinds[info.type.name], info.size


def join(directory: str, relative: str) -> str:
    """Return the path of `relative` below `directory`; either may be empty."""
    if not directory or not relative or directory.endswith("/"):
        return directory + relative
    return f"{directory}/{relative}"


def is_below(path: str, directory: str) -> bool:
    """Return whether a local path is the directory or inside of it, both without links."""
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _walk(
    base: str, enters: Callable[[str], bool], follow: Callable[[str, str], object] | None
) -> Iterator[Entry]:
    """Yield what is in local directories."""
    visits: dict[str, int] = {}  # of directories, by links
    pending = [("", base, os.path.realpath(base), frozenset[str]())]
    while pending:
        relative, path, real, above = pending.pop()
        if real in above:  # a link leads back to a directory that is listed already
            continue
        try:
            scan = os.scandir(path or ".")
        except (FileNotFoundError, NotADirectoryError):
            if relative:
                raise
            return
        with scan:
            for item in scan:
                below = join(relative, item.name)
                inner = os.path.join(path, item.name)
                if item.is_file(follow_symlinks=False):
                    yield Entry(below, inner, None)
                # Looked at only if it is wanted: a link may be broken, or lead to itself.
                elif enters(below):
                    is_link = item.is_symlink()
                    if is_link and follow is None:
                        yield Entry(below, inner, None)
                        continue
                    target = join(real, item.name)
                    if is_link and follow is not None:
                        target = os.path.realpath(target)
                        follow(inner, target)
                    if item.is_dir():
                        if is_link:
                            visits[target] = visits.get(target, 0) + 1
                            if visits[target] > _MAX_LINKS:
                                raise os_error(errno.ELOOP, inner)
                        pending.append((below, inner, target, above | {real}))
                    else:
                        yield Entry(below, inner, None, item.is_file())


def _select(filesystem: Any, base: str) -> Iterator[Entry]:
    """Yield what is below a directory of a filesystem that lists a whole tree at once."""
    from pyarrow.fs import FileSelector, FileType

    try:
        infos = filesystem.get_file_info(FileSelector(base, recursive=True, allow_not_found=True))
    except NotADirectoryError:
        return
    for info in infos:
        relative = _relative(info.path, base)
        # Object stores may contain empty objects that stand for directories.
        if info.type != FileType.Directory and relative and not info.path.endswith("/"):
            yield Entry(relative, info.path, info.size, info.type == FileType.File)


def _crawl(filesystem: Any, base: str, enters: Callable[[str], bool]) -> Iterator[Entry]:
    """Yield what is in the directories of a filesystem that lists one directory at a time."""
    from pyarrow.fs import FileSelector, FileType

    storage = as_arrow(filesystem)
    is_page = is_web(filesystem)
    pending = [base]
    seen = {base.rstrip("/")}
    while pending:
        folder = pending.pop()
        try:
            infos = storage.get_file_info(FileSelector(folder))
        except (FileNotFoundError, NotADirectoryError):
            if folder != base:
                raise
            return
        for info in infos:
            relative = _relative(info.path, base).rstrip("/")
            if is_page:
                if "?" in relative or "#" in relative:  # links that sort the page
                    continue
                relative = unquoted(relative)
            if not relative or info.path.rstrip("/") in seen:
                continue
            if info.type != FileType.Directory:
                yield Entry(relative, info.path, info.size, info.type == FileType.File)
            elif enters(relative):
                seen.add(info.path.rstrip("/"))
                pending.append(info.path)


def unquoted(text: str, errors: str = "replace") -> str:
    """Return text in which escapes such as `%20` are replaced by their characters."""
    from urllib.parse import unquote  # imported on use, because it takes long

    return unquote(text, errors=errors)


def _relative(path: str, base: str) -> str:
    return path.removeprefix(base.rstrip("/")).lstrip("/")
