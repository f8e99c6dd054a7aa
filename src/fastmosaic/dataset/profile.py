"""What columns hold, and how they are stored: measured row group by row group, and merged.

Memory stays bounded: a column keeps its counts, its bounds and a sketch of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from ..file.stored import Encoding, StoredColumn, stored_columns
from ..format.schema import SchemaBlock
from ..schemas.fit import Fits
from ..storage.source import open_source
from .distinct import DistinctSketch, can_hash
from .files import File

# Up to so many different values are counted exactly.
DISTINCT_EXACT: Final = 255

_SKETCH_SIZE: Final = DISTINCT_EXACT + 1
_MAX_HELD_BYTES: Final = 64 << 20  # of values that are measured together
_MAX_HELD_BOUNDS: Final = 16  # before they become one
_FIGURES: Final = pa.schema(
    [(name, pa.int64()) for name in ("nulls", "bytes", *Encoding)]
    + [("hashes", pa.list_(pa.uint64()))]
)


@dataclass(frozen=True, slots=True)
class ColumnProfile:
    """What is known of a column. Bounds are text; None where there are none.

    `distinct` is exact up to `DISTINCT_EXACT` values and an estimate above; None for lists and
    maps. `bytes` are those of its own pages, and its share of buckets that are compressed as one.
    """

    column: str
    type: str
    rows: int
    nulls: int
    distinct: int | None
    min: str | None
    max: str | None
    bytes: int
    plain: int  # pages by their encoding
    const: int
    dict: int
    all_null: int
    array_block: int


class Measures(NamedTuple):
    """What was measured of some row groups: it can be sent, and merged with others."""

    num_rows: int
    figures: pa.Table  # a row for each column
    bounds: pa.Table  # a column for each: minimum, maximum


class Profiler:
    """Measures the columns of `schema` in row groups of files."""

    def __init__(self, schema: pa.Schema, partitions: pa.Schema) -> None:
        self._schema = schema
        self._columns = [_Column(field) for field in schema]
        self._fits = Fits(schema, partitions)
        self._places: dict[SchemaBlock, dict[int, int]] = {}
        self._num_rows = 0
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    def add(self, file: File, group: int, *, use_threads: bool = False) -> None:
        """Take in a row group."""
        places = self._places_in(file.metadata.schema_block)
        with open_source(file.found.path, file.found.filesystem, size=file.found.size) as source:
            source.name = file.name
            for stored in stored_columns(source, file.metadata, group, places):
                self._columns[places[stored.position]].add_stored(stored)
        for batch in file.read(self._fits, [group], use_threads):
            self._held.append(batch)
            self._held_bytes += batch.get_total_buffer_size()
        if self._held_bytes >= _MAX_HELD_BYTES:
            self._add_held()

    def _places_in(self, block: SchemaBlock) -> dict[int, int]:
        """Which of the columns a file has, by their positions there."""
        if block not in self._places:
            found = ((block.find(name), place) for place, name in enumerate(self._schema.names))
            self._places[block] = {position: place for position, place in found if position >= 0}
        return self._places[block]

    def _add_held(self) -> None:
        """Measure the values that are held: for each column that has a price, however few."""
        table = pa.Table.from_batches(self._held, self._schema)
        self._num_rows += sum(batch.num_rows for batch in self._held)
        self._held, self._held_bytes = [], 0
        for column, values in zip(self._columns, table.columns, strict=True):
            column.add_values(values)

    def measures(self) -> Measures:
        """What was measured of all that was taken in."""
        self._add_held()
        figures = pa.Table.from_pylist([column.figures() for column in self._columns], _FIGURES)
        extremes = [column.bounds() for column in self._columns]
        return Measures(
            self._num_rows,
            figures,
            pa.Table.from_arrays(extremes, schema=_bounds_schema(self._schema)),
        )


class _Column:
    """What was seen of a column."""

    def __init__(self, field: pa.Field) -> None:
        self._type = field.type
        self._has_order = can_hash(field.type)
        self._nulls = 0
        self._bytes = 0
        self._pages: dict[str, int] = dict.fromkeys(Encoding, 0)
        self._sketch = DistinctSketch(_SKETCH_SIZE)
        self._extremes: list[pa.Array] = []

    def add_stored(self, column: StoredColumn) -> None:
        self._bytes += column.stored_bytes
        self._pages[column.encoding] += 1

    def add_values(self, values: pa.ChunkedArray) -> None:
        """Count nulls, keep the bounds, and add the values to the sketch."""
        self._nulls += values.null_count
        if not self._has_order or values.null_count == len(values):
            return
        self._sketch.add(values)
        ordered = _without_nan(values)
        if len(ordered) > ordered.null_count:
            self._extremes.append(_min_max(ordered))
        if len(self._extremes) > _MAX_HELD_BOUNDS:
            self._extremes = [self.bounds()]

    def figures(self) -> dict[str, object]:
        hashes = self._sketch.hashes().to_pylist()
        return {"nulls": self._nulls, "bytes": self._bytes, **self._pages, "hashes": hashes}

    def bounds(self) -> pa.Array:
        if not self._has_order:
            return pa.nulls(2)
        if not self._extremes:
            return pa.nulls(2, self._type)
        return _min_max(pa.concat_arrays(self._extremes))


def conclude(schema: pa.Schema, parts: Sequence[Measures]) -> tuple[ColumnProfile, ...]:
    """The profile of each column, by all that was measured."""
    figures = [part.figures.to_pylist() for part in parts]
    num_rows = sum(part.num_rows for part in parts)
    profiles = []
    for index, field in enumerate(schema):
        own = [one[index] for one in figures]
        sketch = DistinctSketch(_SKETCH_SIZE)
        for one in own:
            sketch.merge(pa.array(one["hashes"], pa.uint64()))
        nulls = sum(one["nulls"] for one in own)
        is_nested = pa.types.is_nested(field.type)
        # An estimate may be too large; there are not more different values than values.
        distinct = min(sketch.estimate(), num_rows - nulls)
        low, high = None, None
        if not is_nested:
            low, high = _texts([part.bounds.column(index) for part in parts])
        profiles.append(
            ColumnProfile(
                column=field.name,
                type=str(field.type),
                rows=num_rows,
                nulls=nulls,
                distinct=None if is_nested else distinct,
                min=low,
                max=high,
                bytes=sum(one["bytes"] for one in own),
                **{str(name): sum(one[name] for one in own) for name in Encoding},
            )
        )
    return tuple(profiles)


def _without_nan(values: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    is_float = pa.types.is_floating(values.type)
    return values.filter(pc.invert(pc.is_nan(values))) if is_float else values


def _min_max(values: pa.Array) -> pa.Array:
    """Minimum and maximum, one after the other."""
    import pyarrow.compute as pc

    extremes = pc.min_max(values)
    return pa.array([extremes["min"], extremes["max"]], values.type)


def _texts(bounds: Sequence[pa.ChunkedArray]) -> tuple[str | None, str | None]:
    """Minimum and maximum of all as text."""
    values = pa.chunked_array([chunk for one in bounds for chunk in one.chunks])
    values = values.drop_null() if bounds else values
    if not len(values):
        return None, None
    low, high = texts(_min_max(values))
    return low, high


def texts(values: pa.Array) -> list[str]:
    """Values that are not null as text; binary ones in hex."""
    if pa.types.is_binary(values.type):
        return [value.hex() for value in values.to_pylist()]
    try:
        found: list[str] = values.cast(pa.string()).to_pylist()
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(values.type):
            raise
        # The time zone is none that is known here: as UTC.
        naive = values.view(pa.timestamp(values.type.unit))
        found = [f"{text}Z" for text in naive.cast(pa.string()).to_pylist()]
    return found


def from_text(text: str | None, arrow: pa.DataType) -> bool | int | float | str | None:
    """A number or truth value by its text; other values stay text."""
    if text is None:
        return None
    if pa.types.is_integer(arrow):
        return int(text)
    if pa.types.is_floating(arrow):
        return float(text)
    return text == "true" if pa.types.is_boolean(arrow) else text


def _bounds_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [(f.name, pa.null() if pa.types.is_nested(f.type) else f.type) for f in schema]
    )
