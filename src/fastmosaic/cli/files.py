"""Mosaic files that a command inspects one by one."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ..convert.read import format_by_content, format_of
from ..dataset.discovery import discover
from ..dataset.files import File, ReadOptions
from ..dataset.fileset import FileSet
from ..dataset.found import Found
from ..dataset.snapshot import files_on_disk
from ..errors import UnsupportedError
from ..file.opening import SchemaCache
from ..storage.source import Source, open_source
from .arguments import CommandParser, Commands, add_command, add_json, add_pager, add_paths
from .output.aligned import Column
from .output.console import Console

# Columns as the files store them.
_STORED: Final = ReadOptions(logical=False)


def add_file_command(
    commands: Commands, name: str, summary: str, description: str, examples: Sequence[str]
) -> CommandParser:
    """Register a command that reads Mosaic files."""
    parser = add_command(commands, name, summary, description, examples)
    add_paths(parser, "Mosaic files, directories, globs or URIs")
    add_json(parser)
    add_pager(parser)
    return parser


def add_row_group(parser: argparse.ArgumentParser) -> None:
    """Add `--row-group`."""
    parser.add_argument("--row-group", type=int, metavar="N", help="only this row group")


def find_files(arguments: argparse.Namespace) -> list[File]:
    """Find the Mosaic files that the arguments name; each is opened when it is first used.

    Those of a table are the base files of its newest version, each followed by its column files.
    """
    schemas = SchemaCache()
    return [File(one, (), schemas, _STORED) for one in files_on_disk(_found(arguments))]


def find_counted(arguments: argparse.Namespace) -> list[File]:
    """Find the same files, of whose columns those are hidden that a table has dropped or replaced."""
    files = FileSet(_found(arguments), logical=_STORED.logical).files
    return [part for file in files for part in file.parts]


def _found(arguments: argparse.Namespace) -> list[Found]:
    found = discover(
        as_given(arguments.paths), partitioned=False, follow_links=arguments.follow_links
    )
    check_mosaic(found)
    return found


def as_given(paths: Sequence[str]) -> str | list[str]:
    """Return a single path by itself: a directory is listed only if it is the only path."""
    return paths[0] if len(paths) == 1 else list(paths)


def check_mosaic(files: Iterable[Found]) -> None:
    """Raise an error that says what to do if a file has another format."""
    for one in files:
        if problem := other_format(one):
            raise UnsupportedError(problem)


def other_format(file: Found) -> str | None:
    """Return what to do with a file that is not a Mosaic file but of a known format, or None.

    Only a file whose name does not end in `.mosaic` is opened for this.
    """
    format = format_of(file.name)
    if format is None and not file.name.endswith(".mosaic"):
        try:
            format = format_by_content(file)
        except OSError:  # the command reports it
            return None
    if format in (None, "mosaic"):
        return None
    title = {"csv": "a CSV", "json": "a JSON", "arrow": "an Arrow", "orc": "an ORC"}
    target = f"{os.path.splitext(file.name)[0]}.mosaic"
    return (
        f"{file.name} is {title.get(str(format), 'a Parquet')} file, and this command reads Mosaic "
        f"files only; convert it first: fastmosaic convert {shlex.join([file.name, target])}"
    )


@contextmanager
def opened(file: File) -> Iterator[Source]:
    """Open the bytes of a file."""
    with open_source(file.found.path, file.found.filesystem, size=file.found.size) as source:
        source.name = file.name
        yield source


def row_groups(file: File, wanted: int | None) -> Sequence[int]:
    """Return the row group that is wanted, or all of the file."""
    if wanted is None:
        return range(file.metadata.num_row_groups)
    try:
        file.metadata.check_row_group(wanted)
    except IndexError as error:
        raise ValueError(f"{file.name}: {error}") from None
    return [wanted]


def print_by_file(
    console: Console,
    files: Sequence[File],
    columns: Sequence[str | Column],
    rows: Iterable[tuple[str, Sequence[Any]]],
    footer: str | None = None,
) -> None:
    """Print rows, each with the name of its file: one table, or a table per file on a terminal."""
    if len(files) == 1 or not console.is_terminal:
        head = ["file"] if len(files) > 1 else []
        shown = [[*([file] if head else []), *row] for file, row in rows]
        console.table([*head, *columns], shown, footer=footer)
        return
    by_file: dict[str, list[Sequence[Any]]] = {}
    for file, row in rows:
        by_file.setdefault(file, []).append(row)
    with console.paging():
        for file, lines in by_file.items():
            console.table(columns, lines, title=file)
            console.line()
        if footer:
            console.line(footer)


class FileLabels:
    """The names of files in a table; on a terminal, without the directory they share."""

    def __init__(self, console: Console, files: Sequence[File]) -> None:
        names = [file.name for file in files]
        common = ""
        if console.is_terminal:
            # By characters, then cut at a slash: names may be URIs, absolute and relative paths.
            common = os.path.commonprefix(names).rpartition("/")[0]  # noqa: RUF071
        self._are_shown = len(names) > 1
        self.title = f"in {common}" if common and self._are_shown else None
        self._skip = len(common) + 1 if common else 0

    def head(self) -> list[Column]:
        """Return the column of names, if there are several files."""
        return [Column.name("file")] if self._are_shown else []

    def cell(self, file: str) -> list[str]:
        """Return the name of a file for that column."""
        return [file[self._skip :]] if self._are_shown else []
