"""A filesystem of pyarrow that repeats requests which fail, until the store answers.

A request whose answer was lost may have been done: what a second attempt does not find any more was
removed, or moved, by the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .location import as_arrow, is_fsspec
from .retry import insist
from .secrets import redacted


def storage_of(filesystem: Any) -> Any:
    """Return the filesystem as one of pyarrow, without what it has cached.

    If it is not the local one, which is None, it repeats requests that fail.
    """
    if filesystem is None:
        return as_arrow(None)
    if is_fsspec(filesystem):
        filesystem.invalidate_cache()  # other processes write to the same directories
    return Remote(as_arrow(filesystem))


class Remote:
    """The operations of a filesystem of pyarrow, each repeated if it fails."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def get_file_info(self, what: Any) -> Any:
        """Return information about a path, about each of a list, or about what a selector finds."""
        where = getattr(what, "base_dir", what)
        name = where if isinstance(where, str) else next(iter(where), "")
        return insist(redacted(name), lambda: self._filesystem.get_file_info(what))

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        insist(redacted(path), lambda: self._filesystem.create_dir(path, recursive=recursive))

    def delete_file(self, path: str) -> None:
        self._remove(path, lambda: self._filesystem.delete_file(path))

    def delete_dir(self, path: str) -> None:
        self._remove(path, lambda: self._filesystem.delete_dir(path))

    def move(self, source: str, target: str) -> None:
        """Move a file to a path where there is none, or a copy of it."""
        self._remove(source, lambda: self._filesystem.move(source, target), target)

    def _remove(self, path: str, act: Callable[[], object], target: str | None = None) -> None:
        """Call `act`, after which there is nothing at `path`, and a file at `target`."""
        attempts = 0

        def attempt() -> None:
            nonlocal attempts
            attempts += 1
            is_gone = attempts > 1 and self._is(path, "NotFound")
            if not (is_gone and (target is None or self._is(target, "File"))):
                act()

        insist(redacted(path), attempt)

    def _is(self, path: str, kind: str) -> bool:
        return bool(self._filesystem.get_file_info(path).type.name == kind)
