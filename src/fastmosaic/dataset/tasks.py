"""Divide a query among processes: what each reads, and what it needs to know for that.

A `SplitScan` is the same for all processes and is sent to each once; a `Split` is small. Together
they can read without opening a file again, because they contain its footer and row group index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from ..file.opening import SchemaCache
from ..format.file_schema import FileSchema
from ..format.footer import Footer
from ..format.metadata import FileMetaData
from ..query.query import Query
from ..query.rows import Rows
from ..schemas.fit import Fits
from .files import File, ReadOptions
from .fileset import FileSet
from .found import Found
from .joined_files import JoinedFile, ReadableFile
from .plan import FilePlan, windows

# Opening another file costs about as much as reading this many bytes.
OPEN_COST_BYTES: Final = 1 << 20
# Row groups of a split are read together until they reach this size.
TASK_WINDOW_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class FilePart:
    """Row groups of one file, for one process."""

    found: Found
    values: tuple[pa.Scalar, ...]
    file_size: int
    footer: Footer
    index: bytes
    schema: int  # the number of its schema in the scan
    groups: tuple[int, ...]
    rows: Rows | None = None  # the rows of the file that are selected; None for all
    beside: tuple[FilePart, ...] = ()  # of files of a table that have the same rows


@dataclass(frozen=True, slots=True)
class Split:
    """The row groups that one process reads."""

    parts: tuple[FilePart, ...]
    num_rows: int
    size: int  # bytes to read, roughly


class SplitScan:
    """Reads the columns of a query in any process; can be pickled."""

    def __init__(
        self,
        schema: pa.Schema,
        partitions: pa.Schema,
        schemas: Sequence[FileSchema],
        reading: ReadOptions,
    ) -> None:
        self.schema = schema
        self._partitions = partitions
        self._schemas = list(schemas)
        self._reading = reading

    def __reduce__(self) -> Any:
        return SplitScan, (self.schema, self._partitions, self._schemas, self._reading)

    def read(self, split: Split, *, use_threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, before a filter; memory stays bounded."""
        fits = Fits(self.schema, self._partitions)
        for part in split.parts:
            file = self.file_of(part)
            planned = FilePlan(file, list(part.groups), part.rows)
            for window in windows([planned], fits, TASK_WINDOW_BYTES):
                yield from file.batches(fits, window.groups, use_threads, rows=window.rows)

    def file_of(self, part: FilePart) -> ReadableFile:
        """Return the file of a part, or the files of a table that have the same rows."""
        columns = self._schemas[part.schema]
        state = FileMetaData(part.footer, columns.block, part.index), part.file_size
        file = File(part.found, part.values, SchemaCache(), self._reading, state, columns)
        if not part.beside:
            return file
        others = [self.file_of(one) for one in part.beside]
        parts = [one for one in (file, *others) if isinstance(one, File)]
        return JoinedFile(part.found, part.values, parts)


def share_out(
    files: FileSet, query: Query, *, max_bytes: int, min_splits: int = 1
) -> tuple[SplitScan, list[Split]]:
    """Divide the row groups that may match into splits, in order.

    A split reads up to `max_bytes` of the wanted columns, or less if that is needed for
    `min_splits` splits. Row groups are never divided. Filters and limits of the query only decide
    which row groups are read; whoever reads the splits must apply them to the rows.
    """
    fits = Fits(query.schema, files.partitions)
    schemas: dict[FileSchema, int] = {}
    wanted = [
        (planned, group, planned.file.read_bytes(fits, [group]))
        for planned in files.plan(query)
        for group in planned.groups
    ]
    total = sum(size for _, _, size in wanted)
    limit = max(OPEN_COST_BYTES, min(max_bytes, -(-total // max(1, min_splits))))
    splits: list[Split] = []
    held: list[tuple[FilePlan, list[int]]] = []
    size = cost = num_rows = 0

    def close() -> None:
        parts = tuple(_part(planned, groups, schemas) for planned, groups in held)
        splits.append(Split(parts, num_rows, size))

    for planned, group, group_size in wanted:
        is_new = not held or held[-1][0] is not planned
        more = group_size + (OPEN_COST_BYTES if is_new and held else 0)
        if held and cost + more > limit:
            close()
            held, size, cost, num_rows = [], 0, 0, 0
            is_new, more = True, group_size
        if is_new:
            held.append((planned, []))
        held[-1][1].append(group)
        size, cost = size + group_size, cost + more
        num_rows += planned.rows_of(group)
    if held:
        close()
    return SplitScan(query.schema, files.partitions, list(schemas), files.reading), splits


def _part(planned: FilePlan, groups: Sequence[int], schemas: dict[FileSchema, int]) -> FilePart:
    first, *others = (
        FilePart(
            file.found,
            file.values,
            file.size,
            file.metadata.footer,
            file.metadata.index,
            schemas.setdefault(file.columns, len(schemas)),
            tuple(groups),
            planned.rows,
        )
        for file in planned.file.parts
    )
    return replace(first, beside=tuple(others)) if others else first
