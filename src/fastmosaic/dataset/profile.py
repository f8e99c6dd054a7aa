"""Profiles of columns: their content and how they are stored.

A struct is profiled as its fields, each under its path. Row groups are measured one by one, and measurements can be merged. Memory stays bounded: a column
keeps counts, its minimum and maximum, and a sketch of its distinct values.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from ..file.stored import Encoding, stored_columns
from ..format.file_schema import FileSchema
from ..format.shred import ELEMENT_NULL, NULL
from ..schemas.fit import Fits, plain_schema
from ..storage.source import Source, open_source
from .bounds import Bounds, as_text, integers, lists
from .distinct import DistinctSketch, can_hash
from .files import File
from .leaves import leaf_columns, leaf_schema
from .table_files import DatasetFile

# Up to this number, distinct values are counted exactly.
DISTINCT_EXACT: Final = 255

_ENCODINGS: Final = tuple(map(str, Encoding))
_SKETCH_SIZE: Final = DISTINCT_EXACT + 1
_MAX_HELD_BYTES: Final = 64 << 20  # of values that are measured together


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """The profile of a column, or of a field of a struct.

    column        name; of a field, its path
    type          Arrow type, as text; of a field of structs in a list, the list of its values
    rows, nulls   number of rows, and how many of them are null: the field, or a struct around it
    distinct      number of distinct values: exact up to `DISTINCT_EXACT`, otherwise an estimate;
                  None for lists and maps
    min, max      smallest and largest value as text; None if there is none
    bytes         size of its pages in the files; of a monolithic bucket, its share. The first field
                  of a struct includes the pages that tell where the struct is null.
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


class _LeafPlace(NamedTuple):
    """To which leaf a stored column belongs, and whether it contains the values of the leaf."""

    leaf: int
    has_values: bool


class Profiler:
    """Measures the columns of `schema`, of plain types or the user's, in row groups of files."""

    def __init__(self, schema: pa.Schema, partitions: pa.Schema) -> None:
        self._schema = plain_schema(schema)
        leaves = leaf_schema(self._schema)
        self._leaf_names = leaves.names
        self._fits = Fits(self._schema, partitions)
        self._places: dict[FileSchema, dict[int, _LeafPlace]] = {}
        self._num_rows = 0
        self._nulls = [0] * len(leaves)
        self._bytes = [0] * len(leaves)
        self._pages = {name: [0] * len(leaves) for name in _ENCODINGS}
        self._sketches = [
            DistinctSketch(_SKETCH_SIZE) if can_hash(type) else None for type in leaves.types
        ]
        self._bounds = Bounds(leaves)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def add(self, file: DatasetFile, group: int, *, use_threads: bool = False) -> None:
        """Measure a row group; every byte of a file alone is read at most once."""
        one = file.resolved(frozenset(self._schema.names))
        if not isinstance(one, File):
            self._add_values(one.batches(self._fits, [group], use_threads))
            for part in one.parts:
                with _opened(part) as source:
                    self._add_stored(source, part, group)
            return
        with _ReadOnce(_opened(one)) as source:
            # First the values: they are read in longer ranges.
            self._add_values(one.batches(self._fits, [group], use_threads, source=source))
            self._add_stored(source, one, group)

    def _add_values(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._held.append(batch)
            self._held_bytes += batch.get_total_buffer_size()
            if self._held_bytes >= _MAX_HELD_BYTES:
                self._add_held()

    def _add_stored(self, source: Source, file: File, group: int) -> None:
        places = self._places_in(file.columns)
        for stored in stored_columns(source, file.metadata, group, places):
            place = places[stored.position]
            self._bytes[place.leaf] += stored.stored_bytes
            if place.has_values:
                self._pages[stored.encoding][place.leaf] += 1

    def _places_in(self, columns: FileSchema) -> dict[int, _LeafPlace]:
        """Return the leaves that a file contains, by the positions of its stored columns."""
        if columns not in self._places:
            leaves = {name: place for place, name in enumerate(self._leaf_names)}
            found: dict[int, _LeafPlace] = {}
            for column in self._schema.names:
                if column in columns.hidden:
                    continue
                position = columns.block.find(column)
                if column in leaves and position >= 0:
                    found[position] = _LeafPlace(leaves[column], True)
                    continue
                for name in columns.stored_names(column):
                    position = columns.block.find(name)
                    place = _place(name, leaves) if position >= 0 else None
                    if place is not None:
                        found[position] = place
            self._places[columns] = found
        return self._places[columns]

    def _add_held(self) -> None:
        """Measure the values that are held."""
        table = pa.Table.from_batches(self._held, self._schema)
        self._num_rows += sum(batch.num_rows for batch in self._held)
        self._held, self._held_bytes = [], 0
        columns = [leaf for column in table.columns for leaf in leaf_columns(column)]
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


def _place(stored: str, leaves: dict[str, int]) -> _LeafPlace | None:
    """Return the leaf to which a stored column belongs, or None."""
    if stored in leaves:
        return _LeafPlace(leaves[stored], True)
    around, _, last = stored.rpartition(".")
    if last in (NULL, ELEMENT_NULL):
        if around in leaves:  # a struct without fields
            return _LeafPlace(leaves[around], True)
        while around:  # a struct without fields may be all that a map has beside its keys
            inside = (place for name, place in leaves.items() if name.startswith(f"{around}."))
            first = next(inside, leaves.get(around))
            if first is not None:
                return _LeafPlace(first, False)
            around = around.rpartition(".")[0]
        return None
    while around and around not in leaves:  # a map with lists as keys has columns for both
        around = around.rpartition(".")[0]
    return _LeafPlace(leaves[around], True) if around else None


def conclude(schema: pa.Schema, parts: Sequence[Measures]) -> tuple[ColumnProfile, ...]:
    """Return the profile of each leaf, from the measurements of all `parts`.

    `schema` is the one that was measured; profiles have its types.
    """
    shown = leaf_schema(schema).types
    schema = leaf_schema(plain_schema(schema))
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
                type=str(shown[place]),
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


def _opened(file: File) -> Source:
    source = open_source(file.found.path, file.found.filesystem, size=file.found.size)
    source.name = file.name
    return source


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
