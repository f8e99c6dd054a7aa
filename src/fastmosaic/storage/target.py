"""A directory that files are written to: what it contains, and the names of new files."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from .listing import files_below
from .location import TABLE_MARK, is_hidden, os_error
from .remote import storage_of

EXISTING: Final = ("error", "append", "overwrite")
SUFFIX: Final = ".mosaic"

_PREFIX: Final = re.compile(r"part-([0-9]{20})-")


def check_existing(existing: str) -> None:
    """Raise ValueError unless `existing` is a known mode."""
    if existing not in EXISTING:
        raise ValueError(f"existing must be 'error', 'append' or 'overwrite', not {existing!r}")


def new_prefix(present: Iterable[str] = ()) -> str:
    """Return the start of the names of new files: `part-` and the present time in UTC.

    Files are read in the order of their names, so appended files come after earlier ones. If the
    clock is behind the newest of the files that are `present`, the number that follows theirs is
    used.
    """
    now = int(datetime.now(UTC).strftime("%Y%m%d%H%M%S%f"))
    numbers = [int(found[1]) for file in present if (found := _PREFIX.match(_base(file)))]
    return f"part-{max(now, 1 + max(numbers, default=0)):020d}"


def prefix_of(files: Iterable[str]) -> str | None:
    """Return the prefix that the names of `files` have in common; None if they have none."""
    return min(
        (found[0][:-1] for file in files if (found := _PREFIX.match(_base(file)))), default=None
    )


def _base(file: str) -> str:
    return file.rpartition("/")[2]


def is_visible(file: str) -> bool:
    """Return whether a path relative to a dataset is part of it, and not hidden."""
    *directories, name = file.split("/")
    return not (is_hidden(name, False) or any(is_hidden(one, True) for one in directories))


def visible_below(filesystem: Any, directory: str) -> list[str]:
    """Return the files below a directory that are not hidden, without looking into hidden ones.

    Staging directories of processes that were killed are hidden.
    """
    shown = files_below(
        filesystem, directory, lambda relative: not is_hidden(_base(relative), True)
    )
    return [file for file in shown if is_visible(file)]


def directories_of(file: str) -> list[str]:
    """Return the directories that a path leads through, outermost first."""
    names = file.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]


def check_no_table(name: str, filesystem: Any, path: str) -> None:
    """Raise ValueError if a directory is a table, or a partition of one.

    It could be written to, but the versions of the table would not name the new files, and would still
    name those that were replaced.
    """
    storage = storage_of(filesystem)
    while path:
        if storage.get_file_info(f"{path}/{TABLE_MARK}").type.name == "Directory":
            raise ValueError(
                f"{name} is a table: append rows with MosaicTable.append or `fastmosaic table append`"
            )
        path, _, folder = path.rpartition("/")
        if "=" not in folder:
            return


def check_contents(name: str, existing: str, files: Iterable[str], suffix: str) -> None:
    """Raise if the files of a directory do not allow to write to it."""
    visible = sorted(file for file in files if is_visible(file))
    if existing == "error" and visible:
        raise FileExistsError(
            f"{name} contains files, such as {visible[0]}; "
            "use existing='append' to add files or existing='overwrite' to replace them"
        )
    foreign = [file for file in visible if not file.endswith(suffix)]
    if existing == "overwrite" and foreign:
        raise ValueError(
            f"{name} was not overwritten because {foreign[0]} is not a {suffix} file; "
            "move that file, or write to another directory"
        )


def check_present(files: Iterable[str], present: Iterable[str]) -> None:
    missing = set(files).difference(present)
    if missing:
        raise os_error(errno.ENOENT, min(missing))
