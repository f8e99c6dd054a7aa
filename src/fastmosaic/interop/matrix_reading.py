"""Columns of files on their way into a matrix.

Columns of numbers are decoded straight into it. Columns that are stored in another way, or whose type
differs between files, are read as Arrow arrays first; so are the columns of a filter.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from ..dataset.fileset import FileSet, each_window
from ..dataset.joined_files import ReadableFile
from ..dataset.plan import Window
from ..file.fill import FilledColumns, GroupRows
from ..file.reader import MosaicFile
from ..format.bucket import Matrix
from ..format.file_schema import FileSchema
from ..memory import Memory
from ..query.filters import mask_of
from ..query.query import Query
from ..schemas.fit import Fits
from . import numbers
from .matrix_rows import GroupMatches, SelectedRows, selected
from .matrix_target import MatrixTarget
from .numbers import Categories, import_numpy

_Fill: TypeAlias = Callable[[FilledColumns, Sequence[GroupRows], bool, Memory], None]

# What the kernel decodes: plain types, and the place of their numbers in `_matrix.SOURCES`.
_BOOL, _INT8, _INT16, _INT32, _INT64, _FLOAT32, _FLOAT64 = range(7)
_SOURCES: Final = {
    pa.bool_(): _BOOL,
    pa.int8(): _INT8,
    pa.int16(): _INT16,
    pa.int32(): _INT32,
    pa.int64(): _INT64,
    pa.float32(): _FLOAT32,
    pa.float64(): _FLOAT64,
    pa.date32(): _INT32,
    pa.time32("ms"): _INT32,
}
# Those without parameters, by Arrow's number of the type: the hash of a type takes longer.
_SIMPLE: Final = {type.id: source for type, source in _SOURCES.items() if type != pa.time32("ms")}


def source_of(plain: pa.DataType, user: pa.DataType) -> int | None:
    """Return the type of numbers that are stored, if they are those of the user's type."""
    if types.is_timestamp(plain) and plain.unit != "s":
        return _INT64 if user == plain else None
    source = _SOURCES.get(plain)
    same = user == plain or (
        types.is_unsigned_integer(user) or types.is_float16(user) or types.is_date64(user)
    )
    return source if same else None


class _FoundColumns:
    """Where the columns of a matrix are in the columns of a file."""

    def __init__(self) -> None:
        self.positions = array("i")
        self.columns = array("i")
        self.sources = bytearray()
        self.others: list[int] = []  # columns of the matrix that have another type in the file

    def add(self, position: int, column: int, source: int) -> None:
        self.positions.append(position)
        self.columns.append(column)
        self.sources.append(source)


@dataclass
class _Filling:
    """A matrix that is filled, from any thread.

    others    columns that the kernel does not decode
    requests  what it decodes of the files that share a schema
    """

    matrix: Matrix
    target: MatrixTarget
    others: frozenset[int]
    requests: dict[FileSchema, FilledColumns] = field(default_factory=dict)


class MatrixReading:
    """Columns and rows of a file, or of many, that a caller wants as a matrix."""

    def __init__(
        self,
        source: MosaicFile | FileSet,
        columns: Sequence[str] | None,
        filters: Any,
        categories: Categories,
        use_threads: bool,
    ) -> None:
        self._source = source
        self._filters = filters
        self._categories = categories
        self._use_threads = use_threads
        self._query: Query = (
            source.query(columns, filters)
            if isinstance(source, FileSet)
            else source._query(columns, filters)
        )
        self._wanted = self._query.wanted
        self._names: list[str] = self._wanted.names
        self.num_columns = len(self._names)
        self._sources = self._checked()
        self._found: dict[FileSchema, _FoundColumns] = {}

    def _checked(self) -> list[int | None]:
        """Check the types; return what the kernel decodes for each column."""
        known: dict[tuple[pa.DataType, pa.DataType], int | None] = {}
        result = self._query.result
        sources = []
        for place, (plain, user) in enumerate(zip(self._wanted.types, result.types, strict=True)):
            source = _SIMPLE.get(plain.id) if plain.id == user.id else None
            if source is None or isinstance(self._categories, Mapping):
                key = plain, user
                if key not in known or isinstance(self._categories, Mapping):
                    numbers.check_type(result.field(place), self._categories)
                    known[key] = source_of(*key)
                source = known[key]
            sources.append(source)
        if isinstance(self._source, FileSet):
            for name in self._source.partitions.names:
                if (place := self._wanted.get_field_index(name)) >= 0:
                    sources[place] = None
        if isinstance(self._categories, Mapping):
            for name in self._categories:
                if name not in self._names:
                    raise ValueError(f"categories: column {name!r} is not read")
        return sources

    # ---- which rows

    def select(self, rows: Any, memory: Memory) -> SelectedRows:
        """Return the rows that match the filter, or those of them that are numbered `rows`."""
        return selected(self.groups(memory), rows)

    @cached_property
    def units(self) -> list[tuple[MosaicFile | ReadableFile, list[int]]]:
        """Return the files, and the row groups that may match."""
        source = self._source
        if isinstance(source, MosaicFile):
            return [(source, source._groups(self._query, None))]
        return [(one.file, one.groups) for one in source.plan(self._query)]

    def file_of(self, unit: int) -> ReadableFile:
        """Return a file of a dataset."""
        file, _ = self.units[unit]
        assert not isinstance(file, MosaicFile)
        return file

    def groups(self, memory: Memory) -> list[GroupMatches]:
        """Return the row groups in order, with the rows that match."""
        groups = [
            GroupMatches(unit, group, file.metadata.rows_of(group))
            for unit, (file, own) in enumerate(self.units)
            for group in own
        ]
        if self._query.expression is None:
            return groups
        partitions = self._source.partitions if isinstance(self._source, FileSet) else pa.schema([])
        fits = Fits(pa.schema(self._query.needed), partitions)
        return [self._matching(one, fits, memory) for one in groups]

    def _matching(self, one: GroupMatches, fits: Fits, memory: Memory) -> GroupMatches:
        np = import_numpy()
        file, _ = self.units[one.unit]
        if isinstance(file, MosaicFile):
            schema = pa.schema(self._query.needed)
            batches: Iterable[pa.RecordBatch] = file.plain_batches(
                schema, [one.group], self._use_threads
            )
        else:
            batches = file.batches(fits, [one.group], self._use_threads)
        found = []
        before = 0
        for batch in batches:
            mask = mask_of(batch, self._query.expression)
            matches = np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)) + before
            memory.take(matches.nbytes)
            found.append(matches)
            before += batch.num_rows
        matches = np.concatenate(found) if found else np.empty(0, np.int64)
        return replace(one, matches=None if len(matches) == one.num_rows else matches)

    # ---- values

    def fill(self, selection: SelectedRows, target: MatrixTarget, memory: Memory) -> None:
        """Read the values of the selected rows into a matrix."""
        matrix = target.matrix()
        units = list(selection.groups)
        others = self._others(units)
        if others:
            names = [self._names[place] for place in others]
            self._put_others(others, self._table_of(names, selection.rows), target)

        filling = _Filling(matrix, target, frozenset(others))

        def fill_unit(unit: int, use_threads: bool) -> None:
            self._fill_unit(unit, selection.groups[unit], filling, use_threads, memory)

        if isinstance(self._source, MosaicFile):
            for unit in units:
                fill_unit(unit, self._use_threads)
            return
        unit_of: dict[int, int] = {}
        windows = []
        for unit in units:
            num_rows = sum(one.count for one in selection.groups[unit])
            size = num_rows * self.num_columns * target.out.itemsize
            windows.append(Window(self.file_of(unit), self.units[unit][1], None, size))
            unit_of[id(windows[-1])] = unit

        def fill_window(window: Window, within: bool) -> None:
            fill_unit(unit_of[id(window)], within)

        for _ in each_window(fill_window, windows, self._use_threads):
            pass

    def _table_of(self, names: list[str], rows: Any) -> pa.Table:
        """Read columns that the kernel does not decode; `rows` are counted among those that match."""
        source, use_threads = self._source, self._use_threads
        if rows is None:
            return source.read(names, filters=self._filters, use_threads=use_threads)
        if isinstance(source, FileSet):
            return source.take(rows, source.query(names, self._filters), use_threads)
        if self._filters is None:
            return source.take(rows, names, use_threads=use_threads)
        table = source.read(names, filters=self._filters, use_threads=use_threads)
        return table.take(pa.array(rows))

    def fill_part(
        self, one: GroupMatches, start: int, stop: int, target: MatrixTarget, use_threads: bool
    ) -> None:
        """Read the values of some of the rows of a row group that match, by their places."""
        assert isinstance(self._source, FileSet)
        memory = Memory(self._source.reading.memory_limit)
        others = self._others([one.unit])
        if others:
            query = self._source.query([self._names[place] for place in others])
            file = self.file_of(one.unit)
            first = file.metadata.row_edges[one.group]
            rows = one.numbers_between(start, stop).moved(first)
            fits = Fits(query.schema, self._source.partitions)
            read = file.read(fits, [one.group], use_threads, memory, rows)
            self._put_others(others, query.finish(read), target)
        filling = _Filling(target.matrix(), target, frozenset(others))
        self._fill_unit(one.unit, [one.between(start, stop)], filling, use_threads, memory)

    def _others(self, units: Iterable[int]) -> list[int]:
        """Return the columns that the kernel does not decode in all of some files."""
        others = {place for place, source in enumerate(self._sources) if source is None}
        for unit in units:
            for columns, _ in self._parts(unit):
                others.update(self._found_in(columns).others)
        return sorted(others)

    def _parts(self, unit: int) -> list[tuple[FileSchema, _Fill]]:
        """Return the columns of the files that a file consists of, and how to fill a matrix from each."""
        file, _ = self.units[unit]
        if isinstance(file, MosaicFile):
            return [(file._columns, file.fill)]
        return [(part.columns, part.fill) for part in file.parts]

    def _found_in(self, columns: FileSchema) -> _FoundColumns:
        found = self._found.get(columns)
        if found is None:
            found = self._found[columns] = self._find(columns)
        return found

    def _find(self, columns: FileSchema) -> _FoundColumns:
        """Find the columns of the matrix in a file."""
        found = _FoundColumns()
        if isinstance(self._source, MosaicFile):  # all columns are those of the file
            projection = columns.projection(self._wanted)
        else:
            projection = columns.projection_of(self._wanted)
        if projection.is_stored and projection.schema.equals(self._wanted):
            places = [place for place, source in enumerate(self._sources) if source is not None]
            for place in places:
                found.add(projection.positions[place], place, self._sources[place] or 0)
            return found
        for place, (wanted, source) in enumerate(zip(self._wanted, self._sources, strict=True)):
            own = None if source is None else columns.find(wanted.name)
            if own is None or source is None:
                continue
            position = columns.block.find(wanted.name)
            stored = None if position < 0 else columns.block.field(position).type
            if own.type == wanted.type == stored:
                found.add(position, place, source)
            else:
                found.others.append(place)
        return found

    def _fill_unit(
        self,
        unit: int,
        groups: Sequence[GroupRows],
        filling: _Filling,
        use_threads: bool,
        memory: Memory,
    ) -> None:
        """Decode the rows of a file into the matrix; columns that it does not have are null."""
        target = filling.target
        missing = set(range(self.num_columns)).difference(filling.others)
        for columns, fill in self._parts(unit):
            missing.difference_update(self._found_in(columns).columns)
            request = filling.requests.get(columns)
            if request is None:
                request = filling.requests[columns] = self._request(columns, filling)
            if request.sources:
                fill(request, groups, use_threads, memory)
        for place in sorted(missing):
            for rows in groups:
                at = slice(rows.row, rows.row + rows.count)
                target.put_nulls(
                    self._names[place],
                    place,
                    at if rows.targets is None else rows.row + rows.targets,
                )

    def _request(self, columns: FileSchema, filling: _Filling) -> FilledColumns:
        """Return the columns that the kernel decodes of files with these columns."""

        def put(place: int, values: pa.Array, rows: GroupRows, first: int) -> None:
            self._put(filling.target, place, values, rows, first)

        found = self._found_in(columns)
        kept = [i for i, place in enumerate(found.columns) if place not in filling.others]
        positions, places, sources = found.positions, found.columns, bytes(found.sources)
        if len(kept) < len(positions):
            positions = array("i", [positions[i] for i in kept])
            places = array("i", [places[i] for i in kept])
            sources = bytes(sources[i] for i in kept)
        return FilledColumns(filling.matrix, positions, places, sources, put)

    def _put(
        self, target: MatrixTarget, place: int, values: pa.Array, rows: GroupRows, first: int
    ) -> None:
        """Write an array that begins with row `first` of those that are decoded."""
        np = import_numpy()
        at: Any = slice(rows.row + first, rows.row + first + len(values))
        if rows.chosen is not None:
            start, stop = np.searchsorted(rows.chosen, [first, first + len(values)])
            values = values.take(pa.array(rows.chosen[start:stop] - first))
            at = rows.row + rows.targets[start:stop]
        target.put(values, self._names[place], place, at)

    def _put_others(self, places: Sequence[int], table: pa.Table, target: MatrixTarget) -> None:
        """Write columns that the kernel does not decode, which were read as a table."""
        for place in places:
            name = self._names[place]
            column = numbers.decoded(table.column(name))
            if not numbers.is_number(column.type):
                of_column = (
                    self._categories[name] if isinstance(self._categories, Mapping) else None
                )
                column = numbers.codes_of(column, of_column)
            row = 0
            for chunk in column.chunks:
                target.put(chunk, name, place, slice(row, row + len(chunk)))
                row += len(chunk)
