"""What a report says, measured with bounded memory: columns are read in portions.

Of very many values only some row groups are read, evenly spread; sizes are those of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from ..convert.inputs import Input
from ..convert.listed import ListedColumn, entries_of, measure
from ..dataset.fileset import FileSet
from ..dataset.leaves import leaf_columns, leaf_schema
from ..dataset.profile import DISTINCT_EXACT, ColumnProfile, Profiler, conclude
from ..dataset.table_files import DatasetFile
from ..errors import printable
from ..file.stored import Encoding
from ..schemas.fit import Fits, plain_schema
from .histograms import histograms

MAX_CELLS: Final = 200_000_000  # values that are read for statistics, unless all are asked for
_PORTION: Final = 2_000  # columns that are read together
_SAMPLE_ROWS: Final = 2_000  # of histograms
_SAMPLE_GROUPS: Final = 4  # row groups from which these come
_MAX_LISTED: Final = 500  # row groups, buckets and files that the page lists
_MAX_TEXT: Final = 24  # characters of a minimum or maximum
_MAX_NAME: Final = 200  # characters of a name

_ENCODINGS: Final = tuple(map(str, Encoding))
_Group = tuple[DatasetFile, int]


def measured(
    source: Input, title: str, advance: Callable[[int], None], *, max_cells: int | None = MAX_CELLS
) -> dict[str, Any]:
    """Return the content of a report about Mosaic files, as plain values for JSON.

    `advance` is called with the number of bytes that are done, twice for every byte of the files:
    sizes are measured before values are read. With `max_cells` None, all values are read.
    """
    files = source.fileset
    assert files is not None
    entries = entries_of(source)
    measure(entries, source, advance)
    stored = [entry for entry in entries if not entry.is_key]
    groups = [
        (file, group) for file in files.files for group in range(file.metadata.num_row_groups)
    ]
    chosen = _chosen(groups, len(stored), max_cells)
    num_rows = files.count_rows()
    read_rows = sum(file.metadata.rows_of(group) for file, group in chosen)
    profiles: dict[str, ColumnProfile] = {}
    drawn: dict[str, str] = {}
    # Neighbours by name are in the same bucket: a portion reads few buckets.
    names = sorted(entry.name for entry in stored)
    sampled = 0
    for start in range(0, len(names), _PORTION):
        portion = names[start : start + _PORTION]
        schema = files.query(portion, None).result
        profiler = Profiler(schema, files.partitions)
        for file, group in chosen:
            profiler.add(file, group, use_threads=True)
        for one in conclude(schema, [profiler.measures()]):
            profiles[one.column] = one
        sampled, digits = _histograms(files, schema, chosen)
        drawn |= digits
        advance(source.num_bytes * len(portion) // len(names))
    return {
        "title": printable(title),
        "rows": num_rows,
        "readRows": read_rows,
        "sampleRows": sampled,
        "bytes": source.num_bytes,
        "exact": DISTINCT_EXACT,
        "columns": _columns(stored, profiles, drawn),
        "keys": [printable(entry.name) for entry in entries if entry.is_key],
        **_layout(files),
    }


def _chosen(groups: Sequence[_Group], num_columns: int, max_cells: int | None) -> list[_Group]:
    """Return the row groups to read: all, or evenly spread ones with at most `max_cells` values."""
    cells = sum(file.metadata.rows_of(group) for file, group in groups) * num_columns
    if max_cells is None or cells <= max_cells or not groups:
        return list(groups)
    count = max(1, len(groups) * max_cells // cells)
    return [groups[(2 * number + 1) * len(groups) // (2 * count)] for number in range(count)]


def _histograms(
    files: FileSet, schema: pa.Schema, chosen: Sequence[_Group]
) -> tuple[int, dict[str, str]]:
    """Return the number of rows in the sample, and the histogram of each leaf in it."""
    plain = plain_schema(schema)
    fits = Fits(plain, files.partitions)
    names = frozenset(plain.names)
    step = max(1, -(-len(chosen) // _SAMPLE_GROUPS))
    picked = chosen[::step]
    rows = sum(file.metadata.rows_of(group) for file, group in picked)
    stride = max(1, -(-rows // _SAMPLE_ROWS))
    batches: list[pa.RecordBatch] = []
    for file, group in picked:
        for batch in file.resolved(names).batches(fits, [group], True):
            indices = pa.array(range(0, batch.num_rows, stride), pa.int64())
            batches.append(batch.take(indices) if stride > 1 else batch)
    table = pa.Table.from_batches(batches, plain)
    leaves = [leaf for column in table.columns for leaf in leaf_columns(column)]
    return table.num_rows, dict(zip(leaf_schema(plain).names, histograms(leaves), strict=True))


def _columns(
    entries: Sequence[ListedColumn], profiles: dict[str, ColumnProfile], drawn: dict[str, str]
) -> dict[str, Any]:
    """Return the leaves of all columns, as one list for each property: so they compress well."""
    leaves = [(leaf, size) for entry in entries for leaf, size in _sized(entry)]
    kept = [(profiles[leaf.name], size) for leaf, size in leaves if leaf.name in profiles]
    kinds = list(dict.fromkeys(one.type for one, _ in kept))
    places = {type: place for place, type in enumerate(kinds)}
    encodings = list(dict.fromkeys(_encodings(one) for one, _ in kept))
    numbers = {text: place for place, text in enumerate(encodings)}
    return {
        "name": [printable(one.column)[:_MAX_NAME] for one, _ in kept],
        "types": [printable(type)[:_MAX_NAME] for type in kinds],
        "type": [places[one.type] for one, _ in kept],
        "encodings": encodings,
        "encoding": [numbers[_encodings(one)] for one, _ in kept],
        "bytes": [size for _, size in kept],
        "nulls": [one.nulls for one, _ in kept],
        "distinct": [-1 if one.distinct is None else one.distinct for one, _ in kept],
        "min": [_bound(one.min) for one, _ in kept],
        "max": [_bound(one.max) for one, _ in kept],
        "histogram": "".join(drawn.get(one.column, "") for one, _ in kept),
    }


def _sized(entry: ListedColumn) -> Iterator[tuple[ListedColumn, int]]:
    """Yield the leaves of a column with their bytes; the first has also those of the structs."""
    leaves = list(entry.leaves())
    rest = (entry.size or 0) - sum(leaf.size or 0 for leaf in leaves)
    for number, leaf in enumerate(leaves):
        yield leaf, (leaf.size or 0) + (0 if number else rest)


def _encodings(one: ColumnProfile) -> str:
    return " ".join(name for name in _ENCODINGS if getattr(one, name))


def _bound(text: str | None) -> str | None:
    """Return a minimum or maximum as short text."""
    if text is None:
        return None
    if len(text) > 8 and "." in text:
        try:
            return f"{float(text):.5g}"
        except ValueError:
            pass
    return text if text.isprintable() and len(text) <= _MAX_TEXT else _cut(printable(text))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"


def _layout(files: FileSet) -> dict[str, Any]:
    """Return files, row groups and buckets: the first of them, and how many there are."""
    parts = [part for file in files.files for part in file.parts]
    row_groups: list[list[int]] = []
    buckets: Counter[int] = Counter()
    layouts: dict[int, set[str]] = {}
    for number, part in enumerate(parts):
        metadata = part.metadata
        for group in range(metadata.num_row_groups):
            if len(row_groups) < _MAX_LISTED:
                row_groups.append(
                    [number, group, metadata.rows_of(group), metadata.bytes_of(group)]
                )
            for index, bucket in metadata.bucket_places(group):
                buckets[index] += bucket.compressed_size
                layouts.setdefault(index, set()).add(bucket.layout.value)
    # Buckets of files with other schemas have other columns: only those of the first are counted.
    block = parts[0].metadata.schema_block if parts else None
    return {
        "files": [
            [
                printable(part.name),
                part.metadata.num_rows,
                part.size,
                part.metadata.compression,
                part.metadata.created_by and printable(part.metadata.created_by),
            ]
            for part in parts[:_MAX_LISTED]
        ],
        "numFiles": len(parts),
        "rowGroups": row_groups,
        "numRowGroups": sum(part.metadata.num_row_groups for part in parts),
        "buckets": [
            [
                index,
                " ".join(sorted(layouts[index])),
                len(block.bucket_columns(index)) if block and len(parts) == 1 else -1,
                size,
            ]
            for index, size in sorted(buckets.items())[:_MAX_LISTED]
        ],
        "numBuckets": len(buckets),
    }
