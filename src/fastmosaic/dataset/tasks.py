"""Divide a query among processes: what each reads, and what it needs to know for that.

A `SplitScan` is the same for all processes and is sent to each once; a `Split` is small. Together
they can read without opening a file again, because they contain its footer and row group index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from .filtered import FilteredReader
from .found import Found
from .joined_files import JoinedFile, ReadableFile
from .plan import FilePlan, windows

# Opening another file costs about as much as reading this many bytes.
OPEN_COST_BYTES: Final = 1 << 20
# Row groups of a split are read together until they reach this size.
TASK_WINDOW_BYTES: Final = 16 << 20
# A row group is divided if its parts have at least this size in memory: each decompresses the pages anew.
MIN_PART_BYTES: Final = 4 << 20


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
    """Reads the columns of a query in any process; can be pickled.

    `kept` drops rows on the way that the caller would drop; by default, none are.
    """

    def __init__(
        self,
        schema: pa.Schema,
        partitions: pa.Schema,
        schemas: Sequence[FileSchema],
        reading: ReadOptions,
        kept: Query | None = None,
    ) -> None:
        self.schema = schema
        self._partitions = partitions
        self._schemas = list(schemas)
        self._reading = reading
        self._kept = kept

    def __reduce__(self) -> Any:
        return SplitScan, (
            self.schema,
            self._partitions,
            self._schemas,
            self._reading,
            self._kept,
        )

    def read(self, split: Split, *, use_threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, before a filter; memory stays bounded."""
        plans = [FilePlan(self.file_of(part), list(part.groups), part.rows) for part in split.parts]
        if self._kept is not None:
            reader = FilteredReader(self._kept, self._partitions, use_threads)
            for window in windows(plans, reader.fits, TASK_WINDOW_BYTES):
                yield from reader.read(window)
            return
        fits = Fits(self.schema, self._partitions)
        for window in windows(plans, fits, TASK_WINDOW_BYTES):
            yield from window.file.batches(fits, window.groups, use_threads, rows=window.rows)

    def read_numbered(self, split: Split) -> Iterator[tuple[FilePart, pa.Array, pa.RecordBatch]]:
        """Yield all rows of a split, with the file they are from and their numbers in it."""
        fits = Fits(self.schema, self._partitions)
        for part in split.parts:
            planned = FilePlan(self.file_of(part), list(part.groups), part.rows)
            for window in windows([planned], fits, TASK_WINDOW_BYTES):
                numbers = window.row_numbers()
                done = 0
                for batch in window.file.batches(fits, window.groups, False, rows=window.rows):
                    yield part, numbers.slice(done, batch.num_rows), batch
                    done += batch.num_rows

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
    files: FileSet,
    query: Query,
    *,
    max_bytes: int,
    min_splits: int = 1,
    row_bytes: int = 0,
    kept: Query | None = None,
) -> tuple[SplitScan, list[Split]]:
    """Divide the row groups that may match into splits, in order.

    A split reads up to `max_bytes` of the wanted columns, or less if that is needed for
    `min_splits` splits. Row groups are only divided if there are fewer of them than `min_splits`, and
    their rows, of `row_bytes` each in memory, are large. Filters and limits of the query only decide
    which row groups are read; whoever reads the splits must apply them to the rows. With `kept`, some
    of the rows that do not match that query are dropped by the reader.
    """
    fits = Fits(query.schema, files.partitions)
    schemas: dict[FileSchema, int] = {}
    wanted = [
        (planned, group, planned.file.read_bytes(fits, [group]))
        for planned in files.plan(query)
        for group in planned.groups
    ]
    scan_of = partial(SplitScan, query.schema, files.partitions, reading=files.reading, kept=kept)
    if 0 < len(wanted) < min_splits and row_bytes:
        parts = -(-min_splits // len(wanted))
        divided = [unit for one in wanted for unit in _divided(*one, parts, row_bytes)]
        if len(divided) > len(wanted):
            splits = [
                Split((_part(planned, planned.groups, schemas),), planned.num_rows, size)
                for planned, size in divided
            ]
            return scan_of(schemas=list(schemas)), splits
    total = sum(size for _, _, size in wanted)
    limit = max(OPEN_COST_BYTES, min(max_bytes, -(-total // max(1, min_splits))))
    splits = []
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
    return scan_of(schemas=list(schemas)), splits


def _divided(
    planned: FilePlan, group: int, size: int, parts: int, row_bytes: int
) -> Iterator[tuple[FilePlan, int]]:
    """Yield a row group in up to `parts` parts of its rows, which have `MIN_PART_BYTES` at least."""
    start, stop = planned.file.metadata.row_edges[group : group + 2]
    parts = min(parts, (stop - start) * row_bytes // MIN_PART_BYTES)
    if planned.rows is not None or parts < 2:
        yield FilePlan(planned.file, [group], planned.rows), size
        return
    step = -(-(stop - start) // parts)
    for first in range(start, stop, step):
        rows = Rows([(first, min(first + step, stop))])
        yield FilePlan(planned.file, [group], rows), size // parts


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
