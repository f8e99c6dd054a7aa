"""Mosaic files that a command looks into, one by one."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ..dataset.discovery import discover
from ..dataset.fileset import File, Schemas
from ..storage.source import Source, open_source
from .arguments import Commands, add_command, add_json, add_pager, add_paths
from .output.console import Console


def add_file_command(
    commands: Commands, name: str, summary: str, description: str, examples: Sequence[str]
) -> argparse.ArgumentParser:
    """A command that takes Mosaic files."""
    parser = add_command(commands, name, summary, description, examples)
    add_paths(parser)
    add_json(parser)
    add_pager(parser)
    return parser


def add_row_group(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--row-group", type=int, metavar="N", help="only this row group")


def find_files(arguments: argparse.Namespace) -> list[File]:
    """The files that a user means; each is opened when it is asked for something."""
    paths = arguments.paths
    schemas = Schemas()
    found = discover(paths[0] if len(paths) == 1 else list(paths), partitioned=False)
    return [File(one, (), schemas) for one in found]


@contextmanager
def opened(file: File) -> Iterator[Source]:
    """The bytes of a file."""
    with open_source(file.found.path, file.found.filesystem, size=file.found.size) as source:
        source.name = file.name
        yield source


def row_groups(file: File, wanted: int | None) -> Sequence[int]:
    """The row group that is wanted, or all."""
    if wanted is None:
        return range(file.metadata.num_row_groups)
    try:
        file.metadata.check_row_group(wanted)
    except IndexError as error:
        raise ValueError(f"{file.name}: {error}") from None
    return [wanted]


class Names:
    """What to call files in a table: on a terminal, without the directory they have in common."""

    def __init__(self, console: Console, files: Sequence[File]) -> None:
        names = [file.name for file in files]
        common = ""
        if console.is_terminal:
            # By characters, then cut at a slash: names may be URIs, absolute and relative paths.
            common = os.path.commonprefix(names).rpartition("/")[0]  # noqa: RUF071
        self.are_shown = len(names) > 1
        self.title = f"in {common}" if common and self.are_shown else None
        self._skip = len(common) + 1 if common else 0

    def head(self) -> list[str]:
        """The title of their column, if there are several."""
        return ["file"] if self.are_shown else []

    def cell(self, name: str) -> list[str]:
        return [name[self._skip :]] if self.are_shown else []
