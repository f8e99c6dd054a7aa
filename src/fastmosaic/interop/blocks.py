"""Blocks of a dataset for training: row groups that are read as rows of matrices."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ..dataset.fileset import FileSet
from ..dataset.joined_files import ReadableFile
from ..errors import SchemaMismatchError
from ..memory import Memory
from ..query.rows import Rows
from ..schemas.fit import Fits
from .order import Piece

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class MatrixColumns:
    """Columns that are read into one matrix; dtype and nulls are those of `read_matrix`."""

    names: Sequence[str]
    dtype: str
    nulls: str | float


class MatrixBlocks:
    """The row groups of a dataset, which are read into matrices.

    An instance can be sent to another process. It keeps no file open.
    """

    def __init__(self, files: FileSet, matrices: Sequence[MatrixColumns]) -> None:
        self._files = files
        self._matrices = matrices
        # What the files were when they were opened: they are compared with it before each read.
        self._stamps = {
            part.found.path: _stamp(part.found.path)
            for file, _ in self._blocks
            for part in file.parts
            if part.is_local
        }

    def __getstate__(self) -> dict[str, Any]:
        return {name: self.__dict__[name] for name in ("_files", "_matrices", "_stamps")}

    @cached_property
    def _query(self) -> Any:
        names = [name for matrix in self._matrices for name in matrix.names]
        return self._files.query(list(dict.fromkeys(names)))

    @cached_property
    def _blocks(self) -> list[tuple[ReadableFile, int]]:
        return [(one.file, group) for one in self._files.plan(self._query) for group in one.groups]

    @cached_property
    def sizes(self) -> list[int]:
        """The number of rows of each block."""
        return [file.metadata.rows_of(group) for file, group in self._blocks]

    @cached_property
    def identity(self) -> str:
        """A text that tells the data from other data."""
        files = dict.fromkeys(file for file, _ in self._blocks)
        parts = [part for file in files for part in file.parts]
        return repr([(part.size, zlib.crc32(part.metadata.index)) for part in parts])

    def read(
        self, piece: Piece, out: Sequence[npt.NDArray[np.generic]], use_threads: bool = True
    ) -> None:
        """Read rows of a block into the rows of matrices."""
        file, group = self._blocks[piece.block]
        for part in file.parts:
            self._check_unchanged(part.name, part.found.path)
        first = file.metadata.row_edges[group]
        rows = Rows([(first + piece.start, first + piece.stop)])
        fits = Fits(self._query.schema, self._files.partitions)
        memory = Memory(self._files.reading.memory_limit)
        table = self._query.finish(file.read(fits, [group], use_threads, memory, rows))
        for matrix, target in zip(self._matrices, out, strict=True):
            for number, name in enumerate(matrix.names):
                target[:, number] = _values(table.column(name), name, matrix)

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


def _values(column: pa.ChunkedArray, name: str, matrix: MatrixColumns) -> Any:
    """Return the values of a column as they are in a matrix."""
    type = column.type
    if not (pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_boolean(type)):
        raise SchemaMismatchError(f"{type} is not a number", column=name)
    if column.null_count:
        if matrix.nulls == "raise":
            raise ValueError(f"column {name!r} contains nulls; pass nulls= a number or 'nan'")
        if matrix.nulls != "nan":
            column = pc.fill_null(column, pa.scalar(matrix.nulls).cast(type))
    return column.to_numpy()
