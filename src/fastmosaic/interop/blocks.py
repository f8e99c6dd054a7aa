"""Blocks of a dataset for training: row groups that are read as rows of matrices."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..dataset.fileset import FileSet
from ..dataset.joined_files import ReadableFile
from ..memory import Memory
from .matrix_reading import MatrixReading
from .matrix_rows import GroupMatches
from .matrix_target import MatrixTarget, Nulls
from .order import Piece

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class MatrixColumns:
    """Columns that are read into one matrix; dtype and nulls are those of `read_matrix`."""

    names: Sequence[str]
    dtype: str
    nulls: Nulls


class MatrixBlocks:
    """The row groups of a dataset, which are read into matrices; with a filter, those rows that match.

    An instance can be sent to another process. It keeps no file open.
    """

    def __init__(
        self, files: FileSet, matrices: Sequence[MatrixColumns], filters: Any = None
    ) -> None:
        self._files = files
        self._matrices = matrices
        self._filters = filters
        self._blocks: list[GroupMatches] = self._readings[0].groups(
            Memory(files.reading.memory_limit)
        )
        # What the files were when they were opened: they are compared with it before each read.
        self._stamps = {
            part.found.path: _stamp(part.found.path)
            for file in self._used
            for part in file.parts
            if part.is_local
        }

    def __getstate__(self) -> dict[str, Any]:
        made_anew = ("_readings",)
        return {name: one for name, one in self.__dict__.items() if name not in made_anew}

    @cached_property
    def _readings(self) -> list[MatrixReading]:
        """How each matrix is read. All have the same filter, and so the same files."""
        return [
            MatrixReading(self._files, matrix.names, self._filters, False, use_threads=True)
            for matrix in self._matrices
        ]

    @property
    def _used(self) -> list[ReadableFile]:
        """The files that have blocks."""
        return list(map(self._readings[0].file_of, dict.fromkeys(one.unit for one in self._blocks)))

    @cached_property
    def sizes(self) -> list[int]:
        """The number of rows of each block."""
        return [one.count for one in self._blocks]

    @cached_property
    def identity(self) -> str:
        """A text that tells the data from other data."""
        parts = [part for file in self._used for part in file.parts]
        found: list[Any] = [(part.size, zlib.crc32(part.metadata.index)) for part in parts]
        if self._filters is not None:
            matches = [one.matches for one in self._blocks]
            found.append([None if one is None else zlib.crc32(one) for one in matches])
        return repr(found)

    def read(
        self, piece: Piece, out: Sequence[npt.NDArray[np.generic]], use_threads: bool = True
    ) -> None:
        """Read rows of a block into the rows of matrices."""
        one = self._blocks[piece.block]
        for reading, matrix, target in zip(self._readings, self._matrices, out, strict=True):
            for part in reading.file_of(one.unit).parts:
                self._check_unchanged(part.name, part.found.path)
            into = MatrixTarget.of(target, None, matrix.nulls)
            reading.fill_part(one, piece.start, piece.stop, into, use_threads)

    def _check_unchanged(self, name: str, path: str) -> None:
        known = self._stamps.get(path)
        if known is not None and _stamp(path) != known:
            raise OSError(f"{name} was changed while the dataset was read; open the dataset again")


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Return what changes if a local file is replaced or written; None if it was removed."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
