"""The list of the files that a commit moves out of a staging directory, one by one.

It is there while they are moved. So if the process is killed meanwhile, the next one knows which files
may have appeared, and moves the others after them or takes them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .debris import MOVING
from .location import kind_of
from .remote import storage_of
from .sink import WITHOUT_DIRECTORIES, open_sink
from .source import open_source


def begin_moves(filesystem: Any, root: str, files: Sequence[str]) -> None:
    """Write the list, before the first file is moved out of `root`."""
    sink = open_sink(f"{root}/{MOVING}", filesystem)
    sink.write("\n".join(files).encode())
    sink.commit()


def read_moves(filesystem: Any, root: str) -> list[str] | None:
    """Return the files of moves that did not end, or None if there are none."""
    path = f"{root}/{MOVING}"
    if storage_of(filesystem).get_file_info(path).type.name != "File":
        return None
    with open_source(path, filesystem) as source:
        return source.read_at(0, source.size).to_pybytes().decode().split("\n")


def end_moves(filesystem: Any, root: str) -> None:
    """Remove the list: the moves are complete, or all files are back."""
    storage_of(filesystem).delete_file(f"{root}/{MOVING}")


def take_back(filesystem: Any, base_dir: str, root: str) -> None:
    """Undo moves that did not end."""
    files = read_moves(filesystem, root)
    if files is None:
        return
    storage = storage_of(filesystem)
    for file in files:
        if storage.get_file_info(f"{base_dir}/{file}").type.name == "File":
            if filesystem is None or kind_of(filesystem) not in WITHOUT_DIRECTORIES:
                storage.create_dir(f"{root}/{file}".rpartition("/")[0], recursive=True)
            storage.move(f"{base_dir}/{file}", f"{root}/{file}")
    end_moves(filesystem, root)
