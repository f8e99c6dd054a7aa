"""Find the files that a path, a directory, a glob or a list of these stands for.

Names that start with a dot or an underscore are hidden, except directories like `_key=value`:
neither a directory nor a wildcard includes them. A path that exists is never treated as a glob.
Links that lead out of the directory are followed only if the caller asks for it.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from ..query.selection import GLOB
from ..storage.debris import is_debris_name, unfinished_prefix
from ..storage.listing import Entry, entries_below, is_below, join, look, unquoted
from ..storage.location import URI, is_hidden, is_open_file, is_web, locate, os_error
from ..storage.retry import insist
from ..storage.secrets import redacted
from ..threads import REMOTE_THREADS, map_in_order
from .found import Found
from .hive import parse
from .snapshot import Snapshot

# In a URI, `?name=value` is a query, where pyarrow expects options of a filesystem.
QUERY: Final = re.compile(r"\?[^/?=]+=.*", re.DOTALL)
WEB_QUERY: Final = re.compile(r"\?.*", re.DOTALL)
IPV6_HOST: Final = re.compile(r"[^/]*\[[^/\]]*:[^/\]]*\]")

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class SearchPlace:
    """Where to search: for `path` itself, or else for what matches `pattern` below it.

    name   the text that the user gave, without credentials
    head   the part of it that stands for `path`
    given  the path without what a filesystem adds; its directories may be partitions
    """

    name: str
    filesystem: Any
    path: str = field(repr=False)
    pattern: str
    head: str
    given: str


def is_many(source: Any, filesystem: Any) -> bool:
    """Return whether `source` is a list, a glob or a directory, as far as is known without requests.

    Only the local disk is accessed. A remote directory is recognised by a slash at its end, or by
    the error when it is opened.
    """
    if isinstance(source, list | tuple | Snapshot):
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
    return place.filesystem is not None or not os.path.exists(join(place.path, pattern))


def discover(
    source: Any,
    filesystem: Any = None,
    *,
    partitioned: bool = True,
    follow_links: bool = False,
    version: int | None = None,
) -> list[Found]:
    """Return the files that `source` stands for: a path, URI, glob, directory, or list of them.

    Files of a directory or glob are sorted by path, those of a list keep its order. A link in a
    local directory to something outside of it raises ValueError, unless `follow_links`. A directory
    that is a table stands for the files of its newest version, in their order, or of `version`;
    what is not a table then raises ValueError.
    """
    if isinstance(source, Snapshot):
        return source.found()
    search = functools.partial(
        _search, partitioned=partitioned, follow_links=follow_links, version=version
    )
    if not isinstance(source, list | tuple):
        if not _is_path(source) and not is_open_file(source):
            raise TypeError(
                "expected a path, a URI, a glob or a list of them, "
                f"not an object of type {type(source).__name__}"
            )
        return search(_place_of(source, filesystem), alone=True)
    if not source:
        raise ValueError("the list of files is empty")
    if all(isinstance(element, Found) for element in source):
        return list(source)  # found before
    for element in source:
        if not _is_path(element) and not is_open_file(element):
            raise TypeError(
                "a list of files must contain paths, not an object of type "
                f"{type(element).__name__}; open files and buffers one by one"
            )
    # In this thread, because fsspec makes a filesystem for each thread.
    places = [_place_of(element, filesystem) for element in source]
    if all(place.filesystem is None for place in places):
        groups = [search(place, alone=False) for place in places]
    else:
        every = functools.partial(search, alone=False)
        groups = list(map_in_order(every, places, purpose="files", threads=REMOTE_THREADS))
    return _without_repeats([file for group in groups for file in group])


def _search(
    place: SearchPlace, *, partitioned: bool, follow_links: bool, version: int | None, alone: bool
) -> list[Found]:
    """Return the files of one place; `alone` says that it is not part of a list."""
    name, filesystem = place.name, place.filesystem
    there = join(place.path, place.pattern)
    given = join(place.given, place.pattern)
    kind, size = _attempt(place, lambda: look(filesystem, there))
    snapshot = None
    if kind == "directory":
        snapshot = Snapshot.of(name, filesystem, there, version)
    if snapshot is not None:
        return snapshot.found()
    if version is not None and kind != "nothing":
        raise ValueError(f"{name} is not a table, so it has no versions")
    if kind == "file":
        folder = given.rpartition("/")[0]
        keys = parse(folder.split("/"), name) if partitioned and not alone else {}
        return [Found(name, filesystem, there, size, keys)]
    if kind == "directory":
        root, base, pattern = join(place.head, place.pattern), there, []
        prefix = "" if alone else given
    elif place.pattern:
        root, base, pattern = place.head, place.path, [*filter(None, place.pattern.split("/"))]
        prefix = place.given
    else:
        raise os_error(errno.ENOENT, name)

    entries, others = _attempt(place, lambda: _entries(filesystem, base, pattern, follow_links))
    if not entries:
        if pattern:
            raise FileNotFoundError(errno.ENOENT, "No file matches", name)
        hidden = ", only hidden ones (their names start with '.' or '_')" if others else ""
        raise FileNotFoundError(f"{name} contains no files{hidden}")
    is_page = is_web(filesystem)
    found = []
    keys_in: dict[str, Mapping[str, str | None]] = {}
    for entry in sorted(entries, key=lambda entry: entry.path):
        file = redacted(entry.path) if is_page else join(root, entry.relative)
        folder = entry.relative.rpartition("/")[0]
        if folder not in keys_in:
            directories = [*prefix.split("/"), *folder.split("/")]
            keys_in[folder] = parse(directories, file) if partitioned else {}
        found.append(Found(file, filesystem, entry.path, entry.size, keys_in[folder]))
    return found


def _place_of(source: Any, filesystem: Any) -> SearchPlace:
    if is_open_file(source):
        name, actual, path = _locate(source, filesystem)
        return SearchPlace(name, actual, path, "", name, path)
    given = os.fspath(source)
    name = redacted(given)
    head, query, pattern = _take_apart(given, filesystem)
    _, actual, path = _locate(head + query, filesystem)
    head = redacted(head)
    # In the path of a URI escapes are resolved, but a given filesystem may add a prefix to it.
    given = unquoted(head) if is_web(actual) else head if filesystem is not None else path
    return SearchPlace(name, actual, path, pattern, head, given)


def _is_path(thing: Any) -> bool:
    return isinstance(thing, str | os.PathLike) and not hasattr(thing, "read")


def _locate(thing: Any, filesystem: Any) -> tuple[str, Any, str]:
    found = locate(thing, filesystem)
    assert found is not None  # it is a path
    return found


def _take_apart(text: str, filesystem: Any) -> tuple[str, str, str]:
    """Return the directory before the first wildcard, the query of a URI, and the pattern.

    Without a wildcard, the first is the whole path, and the pattern is empty.
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


def _attempt(place: SearchPlace, request: Callable[[], Result]) -> Result:
    return request() if place.filesystem is None else insist(place.name, request)


def _entries(
    filesystem: Any, base: str, pattern: Sequence[str], follow_links: bool
) -> tuple[list[Entry], bool]:
    """Return the files below `base` that match `pattern`, and whether there is anything else."""
    real = os.path.realpath(base) if filesystem is None else ""
    entries: list[Entry] = []
    unfinished: list[tuple[str, str]] = []  # writes: their directory, and the prefix of their files
    others = False

    def enters(relative: str) -> bool:
        nonlocal others
        names = relative.split("/")
        if not is_debris_name(names[-1]) and _takes(pattern, names, is_directory=True):
            return True
        others = True
        return False

    def follow(link: str, target: str) -> None:
        if not (follow_links or is_below(target, real)) and os.path.lexists(target):
            raise ValueError(
                f"{link} is a link out of the directory, to {target}; "
                "use follow_links=True (--follow-links) to follow it"
            )

    for entry in entries_below(filesystem, base, enters, follow):
        names = entry.relative.split("/")
        if prefix := unfinished_prefix(names[-1]):
            unfinished.append((entry.relative.removesuffix(names[-1]), prefix))
        if any(map(is_debris_name, names)) or not _takes(pattern, names):
            others = True
            continue
        if not entry.is_file:
            if filesystem is None:
                os.stat(entry.path)  # raises for a broken link
            raise ValueError(f"{entry.path} is neither a file nor a directory")
        entries.append(entry)
    for folder, prefix in unfinished:
        entries = [
            entry
            for entry in entries
            if not (entry.relative.startswith(folder) and prefix in entry.relative)
        ]
    return entries, others


def _takes(pattern: Sequence[str], names: Sequence[str], *, is_directory: bool = False) -> bool:
    """Return whether a pattern matches the file at `names`, or can match one below that directory.

    A pattern matches everything below a directory that it matches, and `**` stands for any number
    of directories.
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


def _without_repeats(files: list[Found]) -> list[Found]:
    """Return the files with equal filesystems made one; raise ValueError if a file occurs twice."""
    known: list[Any] = []
    equal: dict[int, int] = {}  # by identity, because comparing filesystems takes longer
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
            path = unquoted(file.path) if is_web(file.filesystem) else file.path
        first = seen.setdefault((number, path), file.name)
        if len(seen) == len(unique):
            alias = "" if first == file.name else f", also as {first}"
            raise ValueError(f"{file.name} occurs twice in the list{alias}")
        unique.append(replace(file, filesystem=known[number]))
    return unique
