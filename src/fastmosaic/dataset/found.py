"""Found: a file that was found and is not open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .snapshot import TableEntry


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was found and is not open.

    name        its name for the user, without credentials; two files may have the same name
    filesystem  a filesystem of pyarrow or fsspec, or None for the local one
    path        its path in the filesystem, which tells it from others
    size        its size in bytes, or None if the listing did not tell
    keys        the keys and values of its Hive partitions, as text
    entry       what a table knows about the file, if it is one of a table
    """

    name: str
    filesystem: Any
    path: str = field(repr=False)  # of a web server, it is a URL, which may contain credentials
    size: int | None
    keys: Mapping[str, str | None]
    entry: TableEntry | None = field(default=None, repr=False, compare=False)

    @property
    def place(self) -> tuple[str, str]:
        """What tells the file from others of a dataset, whose names may be the same."""
        return self.name, self.path

    def __reduce__(self) -> Any:
        # Another process may have another working directory.
        path = os.path.abspath(self.path) if self.filesystem is None else self.path
        return Found, (self.name, self.filesystem, path, self.size, self.keys, self.entry)
