"""Profiles of columns: their content and how they are stored.

Row groups are measured one by one, and measurements can be merged. Memory stays bounded: a column
keeps counts, its minimum and maximum, and a sketch of its distinct values.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from ..file.stored import Encoding, stored_columns
from ..format.schema import SchemaBlock
from ..schemas.fit import Fits
from ..storage.source import Source, open_source
from .bounds import Bounds, as_text, integers, lists
from .distinct import DistinctSketch, can_hash
from .files import File

# Up to this number, distinct values are counted exactly.
DISTINCT_EXACT: Final = 255

_ENCODINGS: Final = tuple(map(str, Encoding))
_SKETCH_SIZE: Final = DISTINCT_EXACT + 1
_MAX_HELD_BYTES: Final = 64 << 20  # of values that are measured together


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
    bounds    minimum and maximum of the columns, see `Bounds.to_table`
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
        self._bounds = Bounds(schema)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def add(self, file: File, group: int, *, use_threads: bool = False) -> None:
        """Measure a row group; every byte of it is read at most once."""
        places = self._places_in(file.metadata.schema_block)
        inner = open_source(file.found.path, file.found.filesystem, size=file.found.size)
        inner.name = file.name
        with _ReadOnce(inner) as source:
            # First the values: they are read in longer ranges.
            for batch in file.batches(self._fits, [group], use_threads, source=source):
                self._held.append(batch)
                self._held_bytes += batch.get_total_buffer_size()
                if self._held_bytes >= _MAX_HELD_BYTES:
                    self._add_held()
            for stored in stored_columns(source, file.metadata, group, places):
                place = places[stored.position]
                self._bytes[place] += stored.stored_bytes
                self._pages[stored.encoding][place] += 1

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
        self._bounds.add(columns)

    def measures(self) -> Measures:
        """Return the measurements of all row groups."""
        self._add_held()
        hashes = [_NO_HASHES if one is None else one.hashes() for one in self._sketches]
        figures: dict[str, pa.Array] = {
            "nulls": integers(self._nulls),
            "bytes": integers(self._bytes),
            **{name: integers(counts) for name, counts in self._pages.items()},
            "hashes": lists(hashes),
        }
        return Measures(self._num_rows, pa.table(figures), self._bounds.to_table())


def conclude(schema: pa.Schema, parts: Sequence[Measures]) -> tuple[ColumnProfile, ...]:
    """Return the profile of each column, from the measurements of all `parts`."""
    num_rows = sum(part.num_rows for part in parts)
    sums = {
        name: [sum(counts) for counts in zip(*(_listed(one, name) for one in parts), strict=True)]
        for name in ("nulls", "bytes", *_ENCODINGS)
    }
    lows, highs = as_text(schema, [part.bounds for part in parts])
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
        for one in hashes:
            sketch.merge(one[place].values)
        found.append(sketch.estimate())
    return found


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
