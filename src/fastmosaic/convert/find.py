"""Find the input files of a command, and their format."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa

from ..dataset.discovery import discover
from ..dataset.found import Found
from ..errors import CorruptFileError, MosaicError
from ..storage.debris import spool as open_spool
from ..storage.remote import storage_of
from . import read as formats

STANDARD: Final = "-"  # standard input or output

_SPOOL_BYTES: Final = 1 << 20  # copied at a time


class FoundFiles(NamedTuple):
    """Files of one format."""

    files: list[Found]
    format: str
    spool: Any  # the temporary file that holds the content of a pipe, deleted with this object


def find(
    paths: Sequence[str],
    format: str | None = None,
    *,
    follow_links: bool = False,
    version: int | None = None,
) -> FoundFiles:
    """Find files by paths, directories and globs; "-" is standard input.

    The content of a pipe is copied to a temporary file, because most formats are read from their
    ends and text is read twice. Without `format`, names and then content determine the format.
    `version` is the one of a table to read, by default the newest.
    """
    if format is not None:
        formats.check_format("format", format)
    spool = None
    if any(map(_is_pipe, paths)):
        if len(paths) > 1:
            raise ValueError("a pipe or standard input cannot be combined with other files")
        if version is not None:
            raise ValueError(f"{paths[0]} is not a table, so it has no versions")
        spool, found = _spooled(paths[0])
    else:
        source = paths[0] if len(paths) == 1 else list(paths)
        found = discover(source, follow_links=follow_links, version=version)
    try:
        return FoundFiles(found, _format_of(found) if format is None else format, spool)
    except BaseException:
        if spool is not None:
            spool.close()
        raise


def _is_pipe(path: str) -> bool:
    """Whether it can be read only once: standard input, a pipe, a device."""
    if path == STANDARD:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _spooled(path: str) -> tuple[Any, list[Found]]:
    """Copy the content of a pipe to a file that is deleted when it is no longer referenced."""
    is_standard = path == STANDARD
    # The suffix may tell the format and the compression.
    suffix = "" if is_standard else f"-{os.path.basename(path)}"
    spool = open_spool(suffix)
    with open(0 if is_standard else path, "rb", closefd=not is_standard) as pipe:
        shutil.copyfileobj(pipe, spool, _SPOOL_BYTES)
    spool.flush()
    name = "standard input" if is_standard else path
    return spool, [Found(name, None, spool.name, spool.tell(), {})]


def size_of(found: Found) -> int:
    """Return the size of a file in bytes."""
    if found.size is not None:
        return found.size
    if found.filesystem is None:
        return os.stat(found.path).st_size
    return int(storage_of(found.filesystem).get_file_info(found.path).size)


def _format_of(found: Sequence[Found]) -> str:
    kinds: dict[str | None, str] = {}  # each with the name of a file that has it
    for one in found:
        format = formats.format_of(one.name)
        if format is None:
            with naming_file(one.name):
                format = formats.format_by_content(one)
        kinds.setdefault(format, one.name)
    unknown = kinds.pop(None, None)
    if len(kinds) > 1:
        (one_format, one_name), (other_format, other_name), *_ = kinds.items()
        raise ValueError(
            f"all input files must have the same format, but {one_name} is {one_format} and "
            f"{other_name} is {other_format}"
        )
    if unknown is not None:
        others = "".join(f"; {name} is {format}" for format, name in kinds.items())
        raise ValueError(
            f"{unknown}: cannot determine the format from the name or the content{others}; "
            "use convert --from"
        )
    (format,) = kinds
    assert format is not None
    return format


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Make errors in the block name the file that is read."""
    try:
        yield
    except MosaicError as error:
        error.locate(file=name)
        raise
    except (pa.ArrowException, ValueError) as error:
        raise CorruptFileError(str(error), file=name) from error
    except OSError as error:
        # Arrow's errors about content have no number, those of the system do.
        if error.errno is not None:
            raise
        raise CorruptFileError(str(error), file=name) from error
