"""The profile of one column, in portions: counts, bounds, a histogram or frequent values.

Memory stays bounded: whatever the number of rows, a profile keeps counts of some bins or values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types

from ..convert import read as formats
from ..convert.values import readable_texts
from ..dataset.bounds import Bounds, as_text
from ..dataset.distinct import DistinctSketch, can_hash
from ..errors import printable
from ..file.stored import stored_columns
from ..format.types import plain_type
from ..schemas.fit import Fits
from ..storage.source import open_source
from .cells import MAX_CELL
from .columns import kind_of

if TYPE_CHECKING:
    from .tables import ViewedTable

NUM_BINS: Final = 48
NUM_VALUES: Final = 20  # most frequent values that are shown

_SKETCH_SIZE: Final = 1024
_MAX_COUNTED: Final = 20_000  # values whose number is counted at the same time
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def profile_of(table: ViewedTable, position: int, where: str) -> Iterator[dict[str, Any]]:
    """Yield `{"progress": share}` several times, and then the profile of a column.

    It describes the rows that match the condition `where`, or all if it is empty.
    """
    name = table.columns.name(position)
    field = table.schema.field(position)
    measured = _Measured(field)
    total = max(1, table.input.num_bytes)
    done = 0

    def advance(step: int) -> None:
        nonlocal done
        done += step

    batches = table.input.batches([name], where or None, advance)
    with closing(batches):
        for batch in batches:
            measured.add(batch)
            yield {"progress": min(1.0, done / total)}
    yield {
        **table.columns.entry(position),
        "type": printable(str(field.type)),
        "nullable": field.nullable,
        **measured.to_dict(),
        **_stored_in(table, name),
    }


class _Measured:
    """What is known about the values that were added."""

    def __init__(self, field: pa.Field) -> None:
        plain = pa.schema([pa.field(field.name, _plain(field.type))])
        self._schema = plain
        self._fits = Fits(plain, drop=True, advice="")
        type = plain.field(0).type
        self._rows = self._nulls = self._empty = 0
        self._sketch = DistinctSketch(_SKETCH_SIZE) if can_hash(type) else None
        self._bounds = Bounds(plain)
        kind = kind_of(type)
        self._histogram = Histogram(type) if kind in ("number", "time") else None
        is_counted = self._histogram is None and can_hash(type)
        self._frequent = _Frequent() if is_counted else None

    def add(self, batch: pa.RecordBatch) -> None:
        for part in self._fits(batch):
            values = part.column(0)
            self._rows += len(values)
            self._nulls += values.null_count
            if self._sketch is not None:
                self._sketch.add(values)
                self._bounds.add([pa.chunked_array([values])])
            if self._histogram is not None:
                self._histogram.add(values)
            if self._frequent is not None:
                self._frequent.add(values)

    def to_dict(self) -> dict[str, Any]:
        lows, highs = as_text(self._schema, [self._bounds.to_table()])
        found: dict[str, Any] = {"rows": self._rows, "nulls": self._nulls}
        if self._sketch is not None:
            num_values = self._rows - self._nulls
            found["distinct"] = min(self._sketch.estimate(), num_values)
            found["distinct_is_exact"] = found["distinct"] < _SKETCH_SIZE
        found["min"], found["max"] = (_shown(one) for one in (lows[0], highs[0]))
        if self._histogram is not None:
            found["histogram"] = self._histogram.to_dict()
        if self._frequent is not None:
            found["values"] = self._frequent.to_list()
            found["values_are_exact"] = self._frequent.is_exact
        return found


def _plain(type: pa.DataType) -> pa.DataType:
    return type if types.is_null(type) else plain_type(type)


def _shown(text: str | None) -> str | None:
    if text is None or len(text) <= MAX_CELL:
        return None if text is None else printable(text)
    return printable(text[:MAX_CELL]) + "…"


class Histogram:
    """Counts numbers in bins of equal width, which is doubled when a number lies outside.

    >>> histogram = Histogram(pa.int64())
    >>> histogram.add(pa.array([1, 2, 2, None]))
    >>> histogram.to_dict()["counts"]
    [1, 2]
    """

    def __init__(self, type: pa.DataType) -> None:
        self._type = type
        self._is_whole = types.is_integer(type)
        self._counts: list[int] = []
        self._start = 0.0  # of the first bin
        self._width = 0.0
        self._not_finite = 0

    def add(self, values: pa.Array) -> None:
        import pyarrow.compute as pc

        numbers = _numbers(values.drop_null())
        finite = numbers.filter(pc.is_finite(numbers))
        self._not_finite += len(numbers) - len(finite)
        if not len(finite):
            return
        bounds = pc.min_max(finite)
        self._widen(bounds["min"].as_py(), bounds["max"].as_py())
        places = pc.divide(pc.subtract(finite, self._start), self._width)
        # A number at an edge may be rounded into the next bin, which does not exist.
        bins = pc.min_element_wise(pc.floor(places).cast(pa.int32()), len(self._counts) - 1)
        for one in pc.value_counts(bins).to_pylist():
            self._counts[max(0, one["values"])] += one["counts"]

    def _widen(self, low: float, high: float) -> None:
        """Make the bins include all numbers from `low` to `high`."""
        if not self._counts:
            span = high - low
            if not math.isfinite(span):  # 1e308 - -1e308
                low, high = low / 2, high / 2
                span = high - low
            width = span / (NUM_BINS - 1)
            self._width = float(max(1, math.ceil(width))) if self._is_whole else width
            self._width = self._width or abs(low) / NUM_BINS or 1.0
            self._start = low
            self._counts = [0] * NUM_BINS
        while low < self._start:
            self._start -= NUM_BINS * self._width
            self._counts = [0] * NUM_BINS + self._counts
            self._halve()
        while high >= self._start + NUM_BINS * self._width:
            self._counts += [0] * NUM_BINS
            self._halve()

    def _halve(self) -> None:
        """Make one bin of each two."""
        pairs = zip(self._counts[::2], self._counts[1::2], strict=True)
        self._counts = [sum(pair) for pair in pairs]
        self._width *= 2

    def to_dict(self) -> dict[str, Any]:
        """Return the bins from the first to the last that contains a number.

        Times are in seconds since 1970.
        """
        used = [place for place, count in enumerate(self._counts) if count]
        first, last = (used[0], used[-1]) if used else (0, -1)
        unit = _unit(self._type)
        return {
            "start": (self._start + first * self._width) / unit,
            "width": self._width / unit,
            "counts": self._counts[first : last + 1],
            "not_finite": self._not_finite,
            "is_time": types.is_timestamp(self._type) or types.is_date(self._type),
        }


def _numbers(values: pa.Array) -> pa.Array:
    type = values.type
    if types.is_date32(type) or types.is_time32(type):
        values = values.cast(pa.int32())
    elif types.is_temporal(type):
        values = values.cast(pa.int64())
    return values.cast(pa.float64(), safe=False)


def _unit(type: pa.DataType) -> float:
    """Return the number of units of a type in a second."""
    if types.is_date32(type):
        return 1 / 86400
    if types.is_date64(type):
        return 1000
    return _PER_SECOND[type.unit] if types.is_temporal(type) else 1


class _Frequent:
    """Counts values; if there are too many different ones, rare ones are forgotten."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.is_exact = True

    def add(self, values: pa.Array) -> None:
        import pyarrow.compute as pc

        counted = pc.value_counts(values.drop_null())
        if len(counted) > _MAX_COUNTED:
            counted = counted.take(
                pc.select_k_unstable(counted.field("counts"), _MAX_COUNTED, [("", "descending")])
            )
            self.is_exact = False
        texts = readable_texts(counted.field("values"))
        counts = counted.field("counts").to_pylist()
        for text, count in zip(texts, counts, strict=True):
            self._counts[(text or "")[: MAX_CELL + 1]] += count
        if len(self._counts) > _MAX_COUNTED:
            self._counts = Counter(dict(self._counts.most_common(_MAX_COUNTED // 2)))
            self.is_exact = False

    def to_list(self) -> list[list[Any]]:
        common = self._counts.most_common(NUM_VALUES)
        return [[_shown(text), count] for text, count in common]


# ---- how the column is stored


def _stored_in(table: ViewedTable, name: str) -> dict[str, Any]:
    """Return the bytes and the encodings of a column in the files."""
    if table.input.format == "parquet":
        return _stored_in_parquet(table, name)
    if table.input.fileset is None or name in table.input.fileset.partitions.names:
        return {}
    encodings: Counter[str] = Counter()
    buckets: dict[int, None] = {}
    compressed = size = 0
    for file in table.input.fileset.files:
        for part in file.parts:
            columns = part.columns
            if name in columns.hidden:
                continue
            block = part.metadata.schema_block
            found = [block.find(one) for one in (name, *columns.stored_names(name))]
            positions = sorted({one for one in found if one >= 0})
            if not positions:
                continue
            found_file = part.found
            source = open_source(found_file.path, found_file.filesystem, size=found_file.size)
            try:
                for group in range(part.metadata.num_row_groups):
                    for stored in stored_columns(source, part.metadata, group, positions):
                        encodings[stored.encoding] += 1
                        buckets[stored.bucket] = None
                        compressed += stored.stored_bytes
                        size += sum(page.size for page in stored.pages)
            finally:
                source.close()
    return {
        "bytes": compressed,
        "uncompressed_bytes": size,
        "share": compressed / max(1, table.input.num_bytes),
        "encodings": [[str(name), count] for name, count in encodings.most_common()],
        "buckets": list(buckets)[:10],
    }


def _stored_in_parquet(table: ViewedTable, name: str) -> dict[str, Any]:
    compressed = size = 0
    encodings: Counter[str] = Counter()
    for one in table.input.files:
        for owner, chunk in formats.parquet_chunks(one):
            if owner == name:
                compressed += chunk.total_compressed_size
                size += chunk.total_uncompressed_size
                encodings.update(_chosen(chunk.encodings))
    return {
        "bytes": compressed,
        "uncompressed_bytes": size,
        "share": compressed / max(1, table.input.num_bytes),
        "encodings": [[name, count] for name, count in encodings.most_common()],
    }


def _chosen(encodings: Sequence[str]) -> list[str]:
    """Return the encodings of a chunk without those of its levels."""
    chosen = [one for one in encodings if one not in ("RLE", "BIT_PACKED")]
    return chosen or list(encodings)
