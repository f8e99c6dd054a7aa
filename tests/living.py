"""Tables that change: what tests of them have in common."""

import os
from pathlib import Path
from typing import Any

import fastmosaic as fm


def everything(path: Any) -> set[str]:
    """Return the paths of all files below a directory, relative to it."""
    return {
        os.path.relpath(os.path.join(folder, name), path)
        for folder, _, names in os.walk(path)
        for name in names
    }


def data_files(path: Any) -> set[str]:
    """Return the paths of base files and column files."""
    return {one for one in everything(path) if not one.startswith("_mosaic/")}


def named(path: Any) -> set[str]:
    """Return the paths of all that the versions of a table name, and of the versions."""
    found = set()
    for info in fm.MosaicTable(path).history():
        version = fm.MosaicTable(path, info.version)._snapshot.version
        found |= version.paths | {f"_mosaic/{info.version:020d}.json.zst"}
    return found


def column_file_of(path: Any, number: int = 0, column: int = 0) -> Path:
    """Return the path of a column file of the base file `number`."""
    file = fm.MosaicTable(path)._snapshot.version.files[number]
    return Path(path, file.columns[column].path)


def base_file_of(path: Any, number: int = 0) -> Path:
    """Return the path of the base file `number`."""
    return Path(path, fm.MosaicTable(path).files[number])
