"""Files with the same rows, such as a base file of a table and its column files, which are read as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import pyarrow as pa

from ..errors import CorruptFileError
from ..file.scan import Accepts
from ..format.metadata import FileMetaData
from ..memory import Memory
from ..query.filters import Statistics
from ..query.query import Query
from ..query.rows import Rows
from ..schemas.fit import Fits
from ..schemas.joined import JoinedColumns
from ..storage.source import Source
from .files import File, FoundFile, fitted_batches
from .found import Found


class JoinedFile(FoundFile):
    """Files with the same rows and row groups, read as one file with the columns of all."""

    def __init__(self, found: Found, values: tuple[pa.Scalar, ...], parts: Sequence[File]) -> None:
        super().__init__(found, values)
        self.parts = parts
        self._columns: JoinedColumns | None = None
        self._is_checked = False

    @property
    def columns(self) -> JoinedColumns:
        if self._columns is None:
            self._columns = JoinedColumns([part.columns for part in self.parts])
        return self._columns

    @property
    def metadata(self) -> FileMetaData:
        """The metadata of the first file, whose rows and row groups are those of all."""
        first = self.parts[0].metadata
        if not self._is_checked:
            for part in self.parts[1:]:
                if not _have_same_groups(part.metadata, first):
                    raise CorruptFileError(
                        f"its row groups are not those of {self.parts[0].name}", file=part.name
                    )
            self._is_checked = True
        return first

    def part_with(self, name: str) -> File:
        """Return the file that has a column; any file if none has it."""
        return self.parts[self.columns.number_of(name) or 0]

    def statistics(
        self, query: Query, group: int, constants: Mapping[str, pa.Scalar]
    ) -> list[Statistics]:
        """Return what is known about the columns of the filter of a query in a row group."""
        needed: list[list[pa.Field]] = [[] for _ in self.parts]
        for field in query.needed:
            needed[self.columns.number_of(field.name) or 0].append(field)
        known: list[Statistics] = []
        for part, fields in zip(self.parts, needed, strict=True):
            if fields:
                known += query.statistics(
                    part.metadata, part.columns, group, constants, tuple(fields)
                )
        return known

    def read_bytes(self, fits: Fits, groups: Iterable[int]) -> int:
        """Return about how many bytes of row groups are read."""
        _, projection = fits.of_joined(self.columns)
        every = list(groups)
        return sum(
            part.projected_bytes(own, every)
            for part, own in zip(self.parts, projection.parts, strict=True)
        )

    def read(
        self,
        fits: Fits,
        groups: Sequence[int],
        use_threads: bool,
        memory: Memory,
        rows: Rows | None = None,
    ) -> list[pa.RecordBatch]:
        """Read row groups, or the rows of them that `rows` selects, as batches of the dataset."""
        fit, projection = fits.of_joined(self.columns)
        found = [
            part.read_stored(own, groups, use_threads, memory, rows)
            for part, own in zip(self.parts, projection.parts, strict=True)
        ]
        return list(
            fitted_batches(side_by_side(found, projection.schema), fit, self.values, self.name)
        )

    def batches(
        self,
        fits: Fits,
        groups: Sequence[int],
        use_threads: bool,
        batch_rows: int = 1,
        rows: Rows | None = None,
        source: Source | None = None,
        accepts: Accepts | None = None,
    ) -> Iterable[pa.RecordBatch]:
        """Read row groups as `File.batches` does.

        Whether a caller accepts equal rows cannot be told by the columns of one file, so all are read.
        """
        fit, projection = fits.of_joined(self.columns)
        found = [
            part.stored_batches(own, groups, use_threads, batch_rows, rows)
            for part, own in zip(self.parts, projection.parts, strict=True)
        ]
        return fitted_batches(side_by_side(found, projection.schema), fit, self.values, self.name)


def _have_same_groups(one: FileMetaData, other: FileMetaData) -> bool:
    if one.num_row_groups == other.num_row_groups == 1:
        return one.rows_of(0) == other.rows_of(0)
    return one.row_edges == other.row_edges


def side_by_side(
    parts: Sequence[Iterable[pa.RecordBatch]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns of all parts, which have the same rows in other batches."""
    batches = [iter(part) for part in parts]
    none = pa.RecordBatch.from_pylist([], pa.schema([]))
    held = [none] * len(parts)
    while True:
        for number, batch in enumerate(held):
            while batch is not None and not batch.num_rows:
                batch = next(batches[number], None)
            held[number] = batch
        if any(batch is None for batch in held):
            break
        counts = {batch.num_rows for batch in held}
        count = min(counts)
        first = held if len(counts) == 1 else [batch.slice(0, count) for batch in held]
        columns = chain.from_iterable(batch.columns for batch in first)
        yield pa.RecordBatch.from_arrays(list(columns), schema=schema)
        held = [none if batch.num_rows == count else batch.slice(count) for batch in held]
    if any(batch is not None for batch in held):
        raise AssertionError("files with the same row groups have different numbers of rows")


ReadableFile: TypeAlias = File | JoinedFile
