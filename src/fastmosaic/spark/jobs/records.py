"""Listed files, and records of finished work items that let a later run resume a job."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...dataset.found import Found
from ...storage.location import locate
from ...storage.remote import storage_of
from ...storage.sink import open_sink
from ...storage.source import open_source

Result: TypeAlias = dict[str, Any]  # of a work item: what JSON can represent

_STOP: Final = "stop"


@dataclass(frozen=True, slots=True)
class Listed:
    """A file with its size and modification time, which tell whether it has changed."""

    found: Found
    size: int
    modified: int  # in nanoseconds


def list_files(found: Sequence[Found]) -> list[Listed]:
    listed = []
    for one in found:
        info = storage_of(one.filesystem).get_file_info(one.path)
        if info.type.name == "NotFound":
            raise FileNotFoundError(f"{one.name} does not exist any more")
        listed.append(Listed(one, info.size, info.mtime_ns or 0))
    return listed


def identity(verb: str, files: Sequence[Listed], *choices: object) -> str:
    """Return a name for a job that is the same for the same files and arguments."""
    listing = [(one.found.path, one.size, one.modified) for one in files]
    text = repr((listing, choices))
    return f"{verb}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True)
class Records:
    """Results of finished work items, as files in a directory that all processes can reach."""

    root: str
    filesystem: Any = None

    @classmethod
    def below(cls, directory: Any, name: str) -> Records:
        """Return the records of a job in a directory chosen by the user."""
        located = locate(directory, None)
        if located is None:
            raise TypeError(f"records must be a path or URI, not {type(directory).__name__}")
        return cls(f"{located[2]}/{name}", located[1])

    def prepare(self) -> None:
        """Create the directory. Tasks must not: one that outlives its job would restore it."""
        storage_of(self.filesystem).create_dir(self.root, recursive=True)

    def save(self, number: int, result: Result) -> None:
        sink = open_sink(f"{self.root}/{number:06d}.json", self.filesystem)
        sink.write(json.dumps(result).encode())
        sink.commit()

    def load(self) -> dict[int, Result]:
        from pyarrow import fs

        storage = storage_of(self.filesystem)
        infos = storage.get_file_info(fs.FileSelector(self.root, allow_not_found=True))
        if self.is_stopped():
            storage.delete_file(f"{self.root}/{_STOP}")
        results = {}
        for info in infos:
            if info.base_name.endswith(".json") and not info.base_name.startswith("."):
                with open_source(info.path, self.filesystem, size=info.size) as source:
                    data = source.read_at(0, source.size).to_pybytes()
                results[int(info.base_name.removesuffix(".json"))] = json.loads(data)
        return results

    def stop(self) -> None:
        """Tell tasks to skip items that have not started."""
        open_sink(f"{self.root}/{_STOP}", self.filesystem).commit()

    def is_stopped(self) -> bool:
        info = storage_of(self.filesystem).get_file_info(f"{self.root}/{_STOP}")
        return bool(info.type.name == "File")

    def clear(self) -> None:
        storage = storage_of(self.filesystem)
        if storage.get_file_info(self.root).type.name == "Directory":
            storage.delete_dir(self.root)
