"""Profiles of columns: their content and how they are stored.

Row groups are measured one by one, and measurements can be merged. Memory stays bounded: a column
keeps counts, its minimum and maximum, and a sketch of its distinct values.

A call of an Arrow function takes as long as dozens of values. The minimum and maximum of columns
with few rows are therefore computed for all columns of a type at once.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from ..file.stored import Encoding, stored_columns
from ..format.schema import SchemaBlock
from ..schemas.fit import Fits
from ..storage.source import Source, open_source
from .distinct import DistinctSketch, can_hash
from .files import File

# Up to this number, distinct values are counted exactly.
DISTINCT_EXACT: Final = 255

_ENCODINGS: Final = tuple(map(str, Encoding))
_SKETCH_SIZE: Final = DISTINCT_EXACT + 1
_MAX_HELD_BYTES: Final = 64 << 20  # of values that are measured together
_MAX_HELD_BOUNDS: Final = 16  # tables of bounds that are kept before they are merged
_FEW_ROWS: Final = 64  # of a column, up to which many columns are faster together than one by one


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """The profile of a column.

    column        name
    type          Arrow type, as text
    rows, nulls   number of rows, and how many of them are null
    distinct      number of distinct values: exact up to `DISTINCT_EXACT`, otherwise an estimate;
                  None for lists and maps
    min, max      smallest and largest value as text; None if there is none
    bytes         size of its pages in the files; of a monolithic bucket, its share
    plain, const, dict, all_null, array_block    number of pages by encoding
    """

    column: str
    type: str
    rows: int
    nulls: int
    distinct: int | None
    min: str | None
    max: str | None
    bytes: int
    plain: int
    const: int
    dict: int
    all_null: int
    array_block: int


class Measures(NamedTuple):
    """Measurements of some row groups, which can be sent to another process and merged.

    figures   a row for each column: nulls, bytes, pages by encoding, hashes of the sketch
    bounds    one row, with three lists for each type: numbers of columns, minimum, maximum
    """

    num_rows: int
    figures: pa.Table
    bounds: pa.Table


class Profiler:
    """Measures the columns of `schema` in row groups of files."""

    def __init__(self, schema: pa.Schema, partitions: pa.Schema) -> None:
        self._schema = schema
        self._fits = Fits(schema, partitions)
        self._places: dict[SchemaBlock, dict[int, int]] = {}
        self._num_rows = 0
        self._nulls = [0] * len(schema)
        self._bytes = [0] * len(schema)
        self._pages = {name: [0] * len(schema) for name in _ENCODINGS}
        self._sketches = [
            DistinctSketch(_SKETCH_SIZE) if can_hash(type) else None for type in schema.types
        ]
        self._bounds = [_Bounds(type, columns) for type, columns in _by_type(schema).items()]
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def add(self, file: File, group: int, *, use_threads: bool = False) -> None:
        """Measure a row group; every byte of it is read at most once."""
        places = self._places_in(file.metadata.schema_block)
        inner = open_source(file.found.path, file.found.filesystem, size=file.found.size)
        inner.name = file.name
        with _ReadOnce(inner) as source:
            # First the values: they are read in longer ranges.
            batches = file.read(self._fits, [group], use_threads, source=source)
            for stored in stored_columns(source, file.metadata, group, places):
                place = places[stored.position]
                self._bytes[place] += stored.stored_bytes
                self._pages[stored.encoding][place] += 1
        self._held += batches
        self._held_bytes += sum(batch.get_total_buffer_size() for batch in batches)
        if self._held_bytes >= _MAX_HELD_BYTES:
            self._add_held()

    def _places_in(self, block: SchemaBlock) -> dict[int, int]:
        """Return the columns that a file contains, by their positions in the file."""
        if block not in self._places:
            found = ((block.find(name), place) for place, name in enumerate(self._schema.names))
            self._places[block] = {position: place for position, place in found if position >= 0}
        return self._places[block]

    def _add_held(self) -> None:
        """Measure the values that are held."""
        table = pa.Table.from_batches(self._held, self._schema)
        self._num_rows += sum(batch.num_rows for batch in self._held)
        self._held, self._held_bytes = [], 0
        columns = table.columns
        for place, (values, sketch) in enumerate(zip(columns, self._sketches, strict=True)):
            self._nulls[place] += values.null_count
            if sketch is not None:
                sketch.add(values)
        for bounds in self._bounds:
            bounds.add(columns)

    def measures(self) -> Measures:
        """Return the measurements of all row groups."""
        self._add_held()
        hashes = [_NO_HASHES if one is None else one.hashes() for one in self._sketches]
        figures: dict[str, pa.Array] = {
            "nulls": _integers(self._nulls),
            "bytes": _integers(self._bytes),
            **{name: _integers(counts) for name, counts in self._pages.items()},
            "hashes": _lists(hashes),
        }
        bounds = {
            f"{name} {number}": _lists([column.combine_chunks()])
            for number, one in enumerate(self._bounds)
            for name, column in zip(_BOUNDS, one.merged().columns, strict=True)
        }
        return Measures(self._num_rows, pa.table(figures), pa.table(bounds))


def conclude(schema: pa.Schema, parts: Sequence[Measures]) -> tuple[ColumnProfile, ...]:
    """Return the profile of each column, from the measurements of all `parts`."""
    num_rows = sum(part.num_rows for part in parts)
    sums = {
        name: [sum(counts) for counts in zip(*(_listed(one, name) for one in parts), strict=True)]
        for name in ("nulls", "bytes", *_ENCODINGS)
    }
    lows, highs = _bounds_as_text(schema, parts)
    profiles = []
    for place, (field, distinct) in enumerate(zip(schema, _num_distinct(parts), strict=True)):
        nulls = sums["nulls"][place]
        profiles.append(
            ColumnProfile(
                column=field.name,
                type=str(field.type),
                rows=num_rows,
                nulls=nulls,
                # An estimate may be too large, but there are at most as many as values.
                distinct=min(distinct, num_rows - nulls) if can_hash(field.type) else None,
                min=lows[place],
                max=highs[place],
                bytes=sums["bytes"][place],
                **{name: sums[name][place] for name in _ENCODINGS},
            )
        )
    return tuple(profiles)


def _listed(part: Measures, name: str) -> list[int]:
    values: list[int] = part.figures.column(name).to_pylist()
    return values


# ---- distinct values


_NO_HASHES: Final = pa.nulls(0, pa.uint64())


def _lists(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return an array with a list for each of the arrays, which have one type."""
    ends = [0]
    for one in arrays:
        ends.append(ends[-1] + len(one))
    values = pa.concat_arrays(arrays) if arrays else _NO_HASHES
    return pa.LargeListArray.from_arrays(_integers(ends), values)


def _integers(values: Iterable[int]) -> pa.Array:
    """Return an int64 array. Unlike `pa.array`, this does not import pandas if it is installed."""
    data = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(data), [None, pa.py_buffer(data)])


def _num_distinct(parts: Sequence[Measures]) -> list[int]:
    """Return the number of distinct values of each column."""
    hashes = [part.figures.column("hashes").combine_chunks() for part in parts]
    if len(hashes) == 1:  # the usual case needs no sketches unless they are full
        lengths = hashes[0].value_lengths().to_pylist()
    else:
        lengths = [_SKETCH_SIZE] * (len(hashes[0]) if hashes else 0)
    found = []
    for place, length in enumerate(lengths):
        if length < _SKETCH_SIZE:
            found.append(length)
            continue
        sketch = DistinctSketch(_SKETCH_SIZE)
        for lists in hashes:
            sketch.merge(lists[place].values)
        found.append(sketch.estimate())
    return found


# ---- bounds


_BOUNDS: Final = ("column", "min", "max")


def _by_type(schema: pa.Schema) -> dict[pa.DataType, list[int]]:
    """Return the numbers of the columns that have an order, by type."""
    found: dict[pa.DataType, list[int]] = {}
    for place, type in enumerate(schema.types):
        if can_hash(type):
            found.setdefault(type, []).append(place)
    return found


class _Bounds:
    """Minimum and maximum of the columns of a type."""

    def __init__(self, type: pa.DataType, columns: Sequence[int]) -> None:
        self._type = type
        self._columns = _integers(columns)
        self._places = columns
        self._tables: list[pa.Table] = []

    def add(self, columns: Sequence[pa.ChunkedArray]) -> None:
        """Add values of all columns of the table."""
        own = [columns[place] for place in self._places]
        add = self._add_together if len(own[0]) <= _FEW_ROWS else self._add_each
        self._tables.append(add(own))
        if len(self._tables) > _MAX_HELD_BOUNDS:
            self._tables = [self.merged()]

    def _add_together(self, columns: Sequence[pa.ChunkedArray]) -> pa.Table:
        import pyarrow.compute as pc

        chunks = [chunk for column in columns for chunk in column.chunks]
        values = pa.concat_arrays(chunks) if chunks else pa.nulls(0, self._type)
        num_rows = len(columns[0])
        ends = _integers(range(0, len(values) + 1, num_rows) if num_rows else [0])
        rows = pc.list_parent_indices(pa.LargeListArray.from_arrays(ends, values))
        return _merged(_bounds_table(self._columns.take(rows), values, values))

    def _add_each(self, columns: Sequence[pa.ChunkedArray]) -> pa.Table:
        import pyarrow.compute as pc

        found = [pc.min_max(_without_nan(column)) for column in columns]
        lows, highs = (
            pa.concat_arrays([pa.repeat(one[name], 1) for one in found]) for name in ("min", "max")
        )
        return _bounds_table(self._columns, lows, highs)

    def merged(self) -> pa.Table:
        """Return the numbers of columns, their minimum and their maximum."""
        if not self._tables:
            empty = pa.nulls(0, self._type)
            return _bounds_table(self._columns[:0], empty, empty)
        return (
            self._tables[0] if len(self._tables) == 1 else _merged(pa.concat_tables(self._tables))
        )


def _bounds_table(columns: pa.Array, lows: pa.Array, highs: pa.Array) -> pa.Table:
    return pa.Table.from_arrays([columns, lows, highs], list(_BOUNDS))


def _merged(bounds: pa.Table) -> pa.Table:
    """Merge the rows of each column; there is none for a column of nulls and NaN only."""
    lows = _firsts(bounds.column("column"), bounds.column("min"), "ascending")
    highs = _firsts(bounds.column("column"), bounds.column("max"), "descending")
    return _bounds_table(lows.column("column"), lows.column("value"), highs.column("value"))


def _firsts(columns: pa.ChunkedArray, values: pa.ChunkedArray, order: str) -> pa.Table:
    """Return the first value of each column, in the given order."""
    import pyarrow.compute as pc

    # Sorting takes only functions that are loaded already; Table.group_by loads pyarrow.dataset.
    table = pa.Table.from_arrays([columns, _without_nan(values)], ["column", "value"])
    table = table.filter(table.column("value").is_valid()).combine_chunks()
    keys = [("column", "ascending"), ("value", order)]
    table = table.take(pc.sort_indices(table, sort_keys=keys))
    numbers = table.column("column").combine_chunks()
    before = pa.concat_arrays([_integers([-1]), numbers])[: len(numbers)]
    return table.filter(pc.not_equal(numbers, before))


def _without_nan(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace NaN by null."""
    if not pa.types.is_floating(values.type):
        return values
    import pyarrow.compute as pc

    return pc.if_else(pc.is_nan(values), pa.nulls(1, values.type)[0], values)


def _bounds_as_text(
    schema: pa.Schema, parts: Sequence[Measures]
) -> tuple[list[str | None], list[str | None]]:
    """Return the minimum and the maximum of each column as text."""
    lows: list[str | None] = [None] * len(schema)
    highs: list[str | None] = [None] * len(schema)
    for number in range(len(_by_type(schema))):
        lists = [
            [part.bounds.column(f"{name} {number}").combine_chunks().values for name in _BOUNDS]
            for part in parts
        ]
        tables = [_bounds_table(*arrays) for arrays in lists]
        if not tables:
            continue
        bounds = tables[0] if len(tables) == 1 else _merged(pa.concat_tables(tables))
        bounds = bounds.filter(bounds.column("min").is_valid())
        places = bounds.column("column").to_pylist()
        for name, found in (("min", lows), ("max", highs)):
            values = bounds.column(name).combine_chunks()
            for place, text in zip(places, texts(values), strict=True):
                found[place] = text
    return lows, highs


# ---- reading


class _ReadOnce(Source):
    """A source that keeps what was read from it, and reads no byte twice."""

    def __init__(self, inner: Source) -> None:
        super().__init__(
            inner.name, inner.size, is_local=inner.is_local, read=inner.read_at, close=inner.close
        )
        self._inner = inner
        self._lock = threading.Lock()
        self._starts: list[int] = []  # of `_buffers`, sorted
        self._buffers: list[pa.Buffer] = []

    def read_at(self, offset: int, length: int) -> pa.Buffer:
        parts = []
        end = offset + length
        while offset < end:
            parts.append(self._part(offset, end - offset))
            offset += parts[-1].size
        return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))

    def _part(self, offset: int, length: int) -> pa.Buffer:
        """Return the first bytes of a range: as many as are kept, or as are not."""
        with self._lock:
            at = bisect_right(self._starts, offset)
            if at and offset < self._starts[at - 1] + self._buffers[at - 1].size:
                buffer, start = self._buffers[at - 1], offset - self._starts[at - 1]
                return buffer.slice(start, min(length, buffer.size - start))
            if at < len(self._starts):
                length = min(length, self._starts[at] - offset)
        buffer = self._inner.read_at(offset, length)
        with self._lock:
            at = bisect_right(self._starts, offset)
            self._starts.insert(at, offset)
            self._buffers.insert(at, buffer)
        return buffer


# ---- text


def texts(values: pa.Array) -> list[str]:
    """Convert values, none of which is null, to text; binary ones to hexadecimal digits."""
    if pa.types.is_binary(values.type):
        return [value.hex() for value in values.to_pylist()]
    try:
        found: list[str] = values.cast(pa.string()).to_pylist()
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(values.type):
            raise
        # The time zone is unknown here: print UTC.
        naive = values.view(pa.timestamp(values.type.unit))
        found = [f"{text}Z" for text in naive.cast(pa.string()).to_pylist()]
    return found
