"""Which files and row groups a query reads, and in what portions."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa

from ..query import filters as filtering
from ..query.query import Query
from ..query.rows import Rows
from ..schemas.fit import Fits
from .files import File
from .joined_files import ReadableFile
from .table_files import DatasetFile

__all__ = ["FilePlan", "Window", "matching_files", "plan", "windows"]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The row groups of one file that a query reads."""

    file: ReadableFile
    groups: list[int]
    rows: Rows | None = None  # the rows of the file that are selected; None for all

    @property
    def num_rows(self) -> int:
        """The number of rows to read, before a filter."""
        return sum(map(self.rows_of, self.groups))

    def rows_of(self, group: int) -> int:
        """Return the number of rows to read of a row group."""
        if self.rows is None:
            return self.file.metadata.rows_of(group)
        return len(self.rows.within(*self.file.metadata.row_edges[group : group + 2]))


@dataclass(frozen=True, slots=True)
class Window:
    """Row groups of a file that are read together, and about how many bytes that takes."""

    file: ReadableFile
    groups: list[int]
    rows: Rows | None
    size: int

    def row_numbers(self) -> pa.Array:
        """Return the numbers in the file of the rows to read, in order."""
        edges = self.file.metadata.row_edges
        numbers = array("q")
        for group in self.groups:
            start, stop = edges[group], edges[group + 1]
            if self.rows is None:
                numbers.extend(range(start, stop))
            else:
                for first, after in self.rows.within(start, stop).ranges:
                    numbers.extend(range(start + first, start + after))
        return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def plan(
    query: Query,
    files: Sequence[DatasetFile],
    partitions: pa.Schema,
    open_files: Callable[[Sequence[ReadableFile]], None],
) -> list[FilePlan]:
    """Return the files and row groups that may contain rows of a query, in order.

    `open_files` is called with files before their metadata is used. Without a filter, files behind
    the limit of the query are not opened; with one, files whose partition cannot match are not.
    """
    names = frozenset(query.schema.names).difference(partitions.names)
    if query.rows is not None:
        chosen = _with_rows(query.rows, files, names, open_files)
    elif query.limit is not None and query.expression is None:
        resolved = (file.resolved(names) for file in files)
        chosen = (FilePlan(file, _groups(file)) for file in _opened(resolved, open_files))
    else:
        matching = [file.resolved(names) for file in matching_files(query, files, partitions)]
        open_files(matching)
        chosen = (FilePlan(file, _groups(file)) for file in matching)
    if query.expression is not None:
        return _matching_groups(query, list(chosen), partitions)
    if query.limit is not None:
        return list(_first(chosen, query.limit))
    return [one for one in chosen if one.groups]


def _groups(file: ReadableFile) -> list[int]:
    return list(range(file.metadata.num_row_groups))


def _opened(
    files: Iterable[ReadableFile], open_files: Callable[[Sequence[ReadableFile]], None]
) -> Iterator[ReadableFile]:
    for file in files:
        open_files([file])
        yield file


def _with_rows(
    rows: Rows,
    files: Sequence[DatasetFile],
    names: frozenset[str],
    open_files: Callable[[Sequence[ReadableFile]], None],
) -> Iterator[FilePlan]:
    """Yield the row groups that contain selected rows."""
    # A table knows how many rows its files have.
    open_files([file for file in files if isinstance(file, File)])
    edges = list(accumulate((file.num_rows for file in files), initial=0))
    rows.check(edges[-1])
    for number, one in enumerate(files):
        own = rows.within(edges[number], edges[number + 1])
        if len(own):
            file = one.resolved(names)
            open_files([file])
            starts = file.metadata.row_edges
            groups = [
                group
                for group in _groups(file)
                if len(own.within(starts[group], starts[group + 1]))
            ]
            yield FilePlan(file, groups, own)


def _first(chosen: Iterable[FilePlan], num_rows: int) -> Iterator[FilePlan]:
    """Yield as many of the first row groups as contain `num_rows` rows."""
    if num_rows <= 0:
        return
    for one in chosen:
        groups = []
        rows = one.rows
        for group in one.groups:
            if num_rows > 0:
                groups.append(group)
                own = one.rows_of(group)
                if num_rows < own and rows is None:  # not all rows of the last row group
                    first = one.file.metadata.row_edges[group]
                    rows = Rows([(0, first + num_rows)])
                num_rows -= own
        if groups:
            yield FilePlan(one.file, groups, rows)
        if num_rows <= 0:
            return


def matching_files(
    query: Query, files: Sequence[DatasetFile], partitions: pa.Schema
) -> list[DatasetFile]:
    """Return the files whose partition may match, without opening any."""
    keys = [
        (index, field)
        for field in query.needed
        if (index := partitions.get_field_index(field.name)) >= 0
    ]
    if not keys:
        return list(files)
    of_files = [tuple(file.values[index] for index, _ in keys) for file in files]
    distinct = list(dict.fromkeys(of_files))
    if len(keys) == len(query.needed):
        columns = [
            pa.array(column, field.type)
            for column, (_, field) in zip(zip(*distinct, strict=True), keys, strict=True)
        ]
        table = pa.table(columns, pa.schema(query.needed))
        matching = filtering.matching_rows(table, query.expression)
    else:
        known = [
            [
                filtering.constant((field.name,), field.type, value, 1)
                for (_, field), value in zip(keys, values, strict=True)
            ]
            for values in distinct
        ]
        matching = query.matching(known)
    possible = {distinct[i] for i in matching}
    return [file for file, values in zip(files, of_files, strict=True) if values in possible]


def _matching_groups(
    query: Query, chosen: Sequence[FilePlan], partitions: pa.Schema
) -> list[FilePlan]:
    """Return the row groups that may match by their statistics."""
    if query.rows is None and all(field.name in partitions.names for field in query.needed):
        return [one for one in chosen if one.groups]  # the files were chosen by it
    names = partitions.names
    known = [
        one.file.statistics(query, group, constants)
        for one in chosen
        for constants in [dict(zip(names, one.file.values, strict=True))]
        for group in one.groups
    ]
    matching = set(query.matching(known))
    kept = []
    first = 0
    for one in chosen:
        groups = [group for i, group in enumerate(one.groups) if first + i in matching]
        first += len(one.groups)
        if groups:
            kept.append(FilePlan(one.file, groups, one.rows))
    return kept


def windows(plans: Iterable[FilePlan], fits: Fits, limit: int) -> Iterator[Window]:
    """Divide the row groups of each file into windows that end when they reach `limit` bytes."""
    for one in plans:
        groups: list[int] = []
        size = 0
        for group in one.groups:
            groups.append(group)
            size += one.file.read_bytes(fits, [group])
            if size >= limit:
                yield Window(one.file, groups, one.rows, size)
                groups, size = [], 0
        if groups:
            yield Window(one.file, groups, one.rows, size)
