"""Blocks of a dataset for training: row groups that are read as rows of matrices."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..dataset.fileset import FileSet
from ..dataset.joined_files import ReadableFile
from ..errors import SchemaMismatchError
from ..memory import Memory
from ..query.query import Query
from ..query.rows import Rows
from ..schemas.fit import Fits
from . import numbers
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
        for field in self._query.result:
            numbers.check_type(field, False)
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
    def _query(self) -> Query:
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
        np = numbers.import_numpy()
        file, group = self._blocks[piece.block]
        for part in file.parts:
            self._check_unchanged(part.name, part.found.path)
        first = file.metadata.row_edges[group]
        rows = Rows([(first + piece.start, first + piece.stop)])
        fits = Fits(self._query.schema, self._files.partitions)
        memory = Memory(self._files.reading.memory_limit)
        table = self._query.finish(file.read(fits, [group], use_threads, memory, rows))
        for matrix, target in zip(self._matrices, out, strict=True):
            # Column by column, then all at once: a write to every row for each column is slower.
            columns = np.empty(target.shape[::-1], target.dtype)
            for name, column in zip(matrix.names, columns, strict=True):
                _put(table.column(name), name, matrix.nulls, column)
            target[:] = columns.T

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


def _put(column: pa.ChunkedArray, name: str, nulls: str | float, out: Any) -> None:
    """Write the values of a column into a column of a matrix, by the rule of `read_matrix`."""
    column = numbers.decoded(column)
    if column.null_count and (nulls == "raise" or (nulls == "nan" and out.dtype.kind != "f")):
        raise SchemaMismatchError("the column contains nulls; pass nulls= a number", column=name)
    first = 0
    for chunk in column.chunks:
        own = out[first : first + len(chunk)]
        first += len(chunk)
        try:
            values, are_null = numbers.numbers_of(chunk, out.dtype)
            own[:] = numbers.converted(values, out.dtype)
        except ValueError as error:
            raise SchemaMismatchError(f"the column {error}", column=name) from error
        if are_null is not None:
            own[are_null] = float("nan") if nulls == "nan" else nulls
