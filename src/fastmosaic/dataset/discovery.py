"""Which files a user means: by a path, a directory, a glob, or a list of these.

Names that start with a dot or an underscore are hidden, except directories like `_key=value`:
neither a directory nor a wildcard brings them up. What is there literally is never a glob.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, TypeVar

from ..query.selection import GLOB
from ..storage.location import URI, info_of, is_fsspec, is_hidden, kind_of, locate, os_error
from ..storage.retry import insist
from ..threads import REMOTE_THREADS, map_in_order
from .hive import parse, unquoted

# In a URI, `?name=value` is a query: pyarrow takes options of a filesystem there.
QUERY: Final = re.compile(r"\?[^/?=]+=.*", re.DOTALL)
WEB_QUERY: Final = re.compile(r"\?.*", re.DOTALL)
IPV6_HOST: Final = re.compile(r"[^/]*\[[^/\]]*:[^/\]]*\]")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Found:
    """A file, not yet opened.

    name        what the user would call it
    filesystem  of pyarrow or fsspec, or None for the local one
    path        the file there
    size        in bytes, if finding it told
    keys        of its hive partitions, as text
    """

    name: str
    filesystem: Any
    path: str
    size: int | None
    keys: Mapping[str, str | None]

    def __reduce__(self) -> Any:
        # Another process may be in another directory.
        path = os.path.abspath(self.path) if self.filesystem is None else self.path
        return Found, (self.name, self.filesystem, path, self.size, self.keys)


class Entry(NamedTuple):
    """A file below some directory: its path from there, its path, and its size if known."""

    relative: str
    path: str
    size: int | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look for files: for what is at `path`, or else what matches `pattern` below it.

    name   what the user gave
    head   as much of it as says `path`
    given  the path as far as the user gave it, whose directories may be partitions
    """

    name: str
    filesystem: Any
    path: str
    pattern: str
    head: str
    given: str


def is_many(source: Any, filesystem: Any) -> bool:
    """Whether `source` is a list, a glob or a directory, as far as can be told at once.

    That is a look at the local disk, and no request to a server: a remote directory is known by
    a slash at its end, or by the error of opening it.
    """
    if isinstance(source, list | tuple):
        return True
    if not _is_path(source):
        return False
    text = os.fspath(source)
    head, _, pattern = _take_apart(text, filesystem)
    if filesystem is None and not URI.match(text):
        try:
            return stat.S_ISDIR(os.stat(text).st_mode)
        except (OSError, ValueError):
            return bool(pattern)
    if not pattern:
        return head.endswith("/")
    place = _place_of(source, filesystem)
    return place.filesystem is not None or not os.path.exists(_join(place.path, pattern))


def discover(source: Any, filesystem: Any = None, *, partitioned: bool = True) -> list[Found]:
    """The files that `source` means: a path, a URI, a glob, a directory, or a list of them.

    Files of a directory or glob come sorted by path, those of a list in its order.
    """
    if not isinstance(source, list | tuple):
        if not _is_path(source) and not _is_open_file(source):
            raise TypeError(
                "files are found by a path, a URI, a glob or a list of them, "
                f"not by an object of type {type(source).__name__}"
            )
        return _look(_place_of(source, filesystem), partitioned, alone=True)
    if not source:
        raise ValueError("the list of files is empty")
    for element in source:
        if not _is_path(element) and not _is_open_file(element):
            raise TypeError(
                "a list of files is one of paths, and there is an object of type "
                f"{type(element).__name__} in it; open files and buffers one by one"
            )
    # In this thread: fsspec would make a filesystem for each.
    places = [_place_of(element, filesystem) for element in source]
    if all(place.filesystem is None for place in places):
        groups = [_look(place, partitioned, alone=False) for place in places]
    else:
        look = functools.partial(_look, partitioned=partitioned, alone=False)
        groups = list(map_in_order(look, places, purpose="files", threads=REMOTE_THREADS))
    return _without_repeats([file for group in groups for file in group])


def _look(place: Place, partitioned: bool, *, alone: bool) -> list[Found]:
    """The files of one place; `alone` says that it is not one of a list."""
    name, filesystem = place.name, place.filesystem
    there = _join(place.path, place.pattern)
    given = _join(place.given, place.pattern)
    kind, size = _attempt(place, lambda: _kind_of(filesystem, there))
    if kind == "file":
        folder = given.rpartition("/")[0]
        keys = parse(folder.split("/"), name) if partitioned and not alone else {}
        return [Found(name, filesystem, there, size, keys)]
    if kind == "directory":
        root, base, pattern = _join(place.head, place.pattern), there, []
        prefix = "" if alone else given
    elif place.pattern:
        root, base, pattern = place.head, place.path, [*filter(None, place.pattern.split("/"))]
        prefix = place.given
    else:
        raise os_error(errno.ENOENT, name)

    entries, others = _attempt(place, lambda: _entries(filesystem, base, pattern))
    if not entries:
        if pattern:
            raise FileNotFoundError(errno.ENOENT, "No file matches", name)
        hidden = " but hidden ones, whose names start with '.' or '_'" if others else ""
        raise FileNotFoundError(f"{name} holds no files{hidden}")
    is_web = _is_web(filesystem)
    found = []
    keys_in: dict[str, Mapping[str, str | None]] = {}
    for entry in sorted(entries, key=lambda entry: entry.path):
        file = entry.path if is_web else _join(root, entry.relative)
        folder = entry.relative.rpartition("/")[0]
        if folder not in keys_in:
            directories = [*prefix.split("/"), *folder.split("/")]
            keys_in[folder] = parse(directories, file) if partitioned else {}
        found.append(Found(file, filesystem, entry.path, entry.size, keys_in[folder]))
    return found


def _place_of(source: Any, filesystem: Any) -> Place:
    if _is_open_file(source):
        name, actual, path = _locate(source, filesystem)
        return Place(name, actual, path, "", name, path)
    name = os.fspath(source)
    head, query, pattern = _take_apart(name, filesystem)
    _, actual, path = _locate(head + query, filesystem)
    # The path of a URI is without its escapes, but may get a prefix from a given filesystem.
    given = unquoted(head) if _is_web(actual) else head if filesystem is not None else path
    return Place(name, actual, path, pattern, head, given)


def _is_path(thing: Any) -> bool:
    return isinstance(thing, str | os.PathLike) and not hasattr(thing, "read")


def _is_open_file(thing: Any) -> bool:
    """Whether it is an OpenFile of fsspec: a path and its filesystem, not yet open."""
    return hasattr(thing, "fs") and hasattr(thing, "path") and not hasattr(thing, "read")


def _locate(thing: Any, filesystem: Any) -> tuple[str, Any, str]:
    found = locate(thing, filesystem)
    assert found is not None  # it is a path
    return found


def _is_web(filesystem: Any) -> bool:
    return filesystem is not None and kind_of(filesystem) == "http"


def _take_apart(text: str, filesystem: Any) -> tuple[str, str, str]:
    """The directory before the first wildcard, the query of a URI, and the pattern below.

    Without a wildcard, the first of them is all, and there is no pattern.
    """
    start = 0
    query = ""
    if filesystem is None and (scheme := URI.match(text)):
        if found := (WEB_QUERY if text.startswith("http") else QUERY).search(text):
            text, query = text[: found.start()], found.group()
        if host := IPV6_HOST.match(text, scheme.end()):
            start = host.end()
    elif filesystem is None:
        text = text.replace(os.sep, "/")
    if magic := GLOB.search(text, start):
        end = text.rfind("/", 0, magic.start()) + 1
        return text[:end], query, text[end:]
    return text, query, ""


def _join(directory: str, relative: str) -> str:
    if not directory or not relative or directory.endswith("/"):
        return directory + relative
    return f"{directory}/{relative}"


def _attempt(place: Place, look: Callable[[], Result]) -> Result:
    return look() if place.filesystem is None else insist(place.name, look)


def _kind_of(filesystem: Any, path: str) -> tuple[str, int | None]:
    """Whether there is a "file" or a "directory" or "nothing", and its size if that is told."""
    if filesystem is None:
        try:
            status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return "nothing", None
        # A pipe counts as a file here: the user named it.
        return ("directory", None) if stat.S_ISDIR(status.st_mode) else ("file", status.st_size)
    if is_fsspec(filesystem):
        filesystem.invalidate_cache(path)
        try:
            info = info_of(filesystem, path)
        except (FileNotFoundError, NotADirectoryError):
            return "nothing", None
        # A web server has no directories, but pages that list them.
        if info["type"] == "directory" or info.get("mimetype") == "text/html":
            return "directory", None
        return "file", info.get("size")
    info = filesystem.get_file_info(path)
    kinds = {"File": "file", "Directory": "directory", "NotFound": "nothing"}
    if info.type.name not in kinds:
        raise ValueError(f"{path} is neither a file nor a directory")
    return kinds[info.type.name], info.size


def _entries(filesystem: Any, base: str, pattern: Sequence[str]) -> tuple[list[Entry], bool]:
    """Files below `base` that `pattern` takes, and whether there is something else."""
    entries = []
    others = False
    if filesystem is None:
        listing = _walk(base, pattern)
    elif not is_fsspec(filesystem):
        listing = _select(filesystem, base)
    elif _lists_at_once(filesystem):
        listing = _find(filesystem, base)
    else:
        listing = _crawl(filesystem, base, pattern)
    for entry in listing:
        if entry is not None and _takes(pattern, entry.relative.split("/")):
            entries.append(entry)
        else:
            others = True
    return entries, others


def _takes(pattern: Sequence[str], names: Sequence[str], *, is_directory: bool = False) -> bool:
    """Whether a pattern takes the file at `names`, or may take one below that directory.

    A pattern takes all that lies below what it matches, and `**` is any number of directories.
    """
    if not names:
        return is_directory or not pattern
    if not pattern:
        return not (
            any(is_hidden(name, True) for name in names[:-1]) or is_hidden(names[-1], is_directory)
        )
    first, *rest = names
    is_inner = is_directory or bool(rest)
    segment, *remaining = pattern
    if segment == "**":
        if _takes(remaining, names, is_directory=is_directory):
            return True
        is_taken = is_inner and not is_hidden(first, True)
        return is_taken and _takes(pattern, rest, is_directory=is_directory)
    if is_hidden(first, is_inner) and segment[0] != first[0]:
        return False
    return fnmatchcase(first, segment) and _takes(remaining, rest, is_directory=is_directory)


def _walk(base: str, pattern: Sequence[str]) -> Iterator[Entry | None]:
    """Local files; None stands for what the pattern does not take."""
    pending = [("", base, os.path.realpath(base), frozenset[str]())]
    while pending:
        relative, path, real, above = pending.pop()
        if real in above:  # a link led back: its files are listed already
            continue
        try:
            scan = os.scandir(path or ".")
        except (FileNotFoundError, NotADirectoryError):
            if relative or not pattern:
                raise
            return
        with scan:
            for item in scan:
                below = _join(relative, item.name)
                inner = os.path.join(path, item.name)
                if item.is_file(follow_symlinks=False):
                    yield Entry(below, inner, None)
                # What is wrong with a link matters only if it is wanted.
                elif not _takes(pattern, below.split("/"), is_directory=True):
                    yield None
                elif item.is_dir():
                    is_link = item.is_symlink()
                    target = os.path.realpath(inner) if is_link else _join(real, item.name)
                    pending.append((below, inner, target, above | {real}))
                elif item.is_file() or not _takes(pattern, below.split("/")):
                    yield Entry(below, inner, None)
                else:
                    os.stat(inner)  # raises for a broken link
                    raise ValueError(f"{inner} is neither a file nor a directory")


def _select(filesystem: Any, base: str) -> Iterator[Entry]:
    """Files of a filesystem of pyarrow, by one listing."""
    from pyarrow.fs import FileSelector

    try:
        listing = filesystem.get_file_info(FileSelector(base, recursive=True, allow_not_found=True))
    except NotADirectoryError:
        return
    for info in listing:
        if info.type.name != "Directory" and not info.path.endswith("/"):
            yield Entry(_relative(info.path, base), info.path, info.size)


def _lists_at_once(filesystem: Any) -> bool:
    """Whether a filesystem of fsspec has a listing of a whole tree, as object stores do.

    What fsspec does for the others skips directories that it fails to list.
    """
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    kind = type(filesystem)
    if isinstance(filesystem, AsyncFileSystem):
        return kind._find is not AsyncFileSystem._find
    return kind.find is not AbstractFileSystem.find


def _find(filesystem: Any, base: str) -> Iterator[Entry]:
    for path, info in filesystem.find(base, detail=True).items():
        relative = _relative(path, base)
        if relative and not path.endswith("/") and info.get("type") != "directory":
            yield Entry(relative, path, info.get("size"))


def _crawl(filesystem: Any, base: str, pattern: Sequence[str]) -> Iterator[Entry | None]:
    """Files of a filesystem of fsspec, by a listing of each directory."""
    is_web = _is_web(filesystem)
    pending = [base]
    seen = {base.rstrip("/")}
    while pending:
        folder = pending.pop()
        filesystem.invalidate_cache(folder)
        try:
            listing = filesystem.ls(folder, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            if folder != base or not pattern:
                raise
            return
        for info in listing:
            path = info["name"]
            relative = _relative(path, base).rstrip("/")
            if is_web:
                if "?" in relative or "#" in relative:  # links that sort the page
                    continue
                relative = unquoted(relative)
            if not relative or path.rstrip("/") in seen:
                continue
            if info["type"] != "directory":
                yield Entry(relative, path, info.get("size"))
            elif _takes(pattern, relative.split("/"), is_directory=True):
                seen.add(path.rstrip("/"))
                pending.append(path)
            else:
                yield None


def _relative(path: str, base: str) -> str:
    return path.removeprefix(base.rstrip("/")).lstrip("/")


def _without_repeats(files: list[Found]) -> list[Found]:
    """The same files, or an error if one is there twice; equal filesystems become one."""
    known: list[Any] = []
    equal: dict[int, int] = {}  # by identity: to compare filesystems takes longer
    seen: dict[tuple[int, str], str] = {}
    unique: list[Found] = []
    for file in files:
        identity = id(file.filesystem)
        if identity not in equal:
            if file.filesystem not in known:
                known.append(file.filesystem)
            equal[identity] = known.index(file.filesystem)
        number = equal[identity]
        if file.filesystem is None:
            path = os.path.abspath(file.path)
        else:
            path = unquoted(file.path) if _is_web(file.filesystem) else file.path
        first = seen.setdefault((number, path), file.name)
        if len(seen) == len(unique):
            alias = "" if first == file.name else f", also as {first}"
            raise ValueError(f"{file.name} is in the list twice{alias}")
        unique.append(replace(file, filesystem=known[number]))
    return unique
