"""profile: what the columns of a data set hold, and how it is stored, by Spark tasks."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from .. import sketches
from ..errors import CorruptFileError
from ..fileset import File, FileSet, Fittings
from ..format.bucket import Directory, Layout
from ..format.metadata import FileMetaData
from ..format.nested import BucketColumns
from ..format.wire import Compression, Cursor
from ..storage import Source, open_source
from .jobs import BadFile, Records, Result, blaming, identity, list_files, run
from .report import ColumnProfile, ProfileReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item: TypeAlias = list[tuple[File, list[int]]]  # files and their row groups

# Up to so many different values are counted exactly.
DISTINCT_EXACT: Final = 255

_ENCODINGS: Final = ("plain", "const", "dict", "all_null")  # by their number in a page
_SKETCH_SIZE: Final = DISTINCT_EXACT + 1
_MIN_ITEM_BYTES: Final = 16 << 20
_MAX_ITEMS: Final = 64  # their results are in the driver together
_FIGURES: Final = pa.schema(
    [(name, pa.int64()) for name in ("nulls", "bytes", *_ENCODINGS)]
    + [("hashes", pa.list_(pa.uint64()))]
)


def profile(
    spark: SparkSession,
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    records: Any = None,
    filesystem: Any = None,
) -> ProfileReport:
    """What there is in each column of Mosaic files; its `dataframe(spark)` has a row for each.

    Parameters
    ----------
    spark : SparkSession
        Not one of Spark Connect.
    path : path, URI, glob, directory, or a list of them
    columns : list of str, optional
        By default all columns of the files.
    records : path or URI of a directory, optional
        Where to keep what was found, until all is: a call after a crash goes on then.
    filesystem : pyarrow or fsspec filesystem, optional
        Where the path is.
    """
    started = time.monotonic()
    files = FileSet(path, filesystem=filesystem)
    keys = set(files.partitions.names)
    if columns is None:
        columns = [name for name in files.columns.names() if name not in keys]
    elif named := keys.intersection(columns):
        raise ValueError(f"{min(named)!r} is a key of directories, not a column of the files")
    query = files.query(columns, None)
    total = sum(file.size for file in files.files)
    items = _share_out(files, max(_MIN_ITEM_BYTES, total // _MAX_ITEMS))
    kept = None
    if records is not None:
        listed = list_files([file.found for file in files.files])
        kept = Records.below(records, identity("profile", listed, query.schema))
    results = {} if kept is None else kept.load()
    resumed = len(results)
    todo = {number: item for number, item in items.items() if number not in results}
    work = partial(_profile, query.schema, files.partitions)
    try:
        results |= run(spark, "profile", todo, work, records=kept, done=resumed)
    except BadFile as error:
        raise error.to_error() from None
    merged = _merge(query.schema, [results[number] for number in items])
    if kept is not None:
        kept.clear()
    return ProfileReport(
        columns=merged,
        rows=sum(result["rows"] for result in results.values()),
        files=len(files.files),
        bytes=total,
        seconds=time.monotonic() - started,
        resumed=resumed,
    )


def _share_out(files: FileSet, item_bytes: int) -> dict[int, Item]:
    """Row groups in order, about `item_bytes` of them in an item."""
    items: dict[int, Item] = {}
    held: Item = []
    size = 0
    for file in files.files:
        for group in range(file.metadata.num_row_groups):
            if not held or held[-1][0] is not file:
                held.append((file, []))
            held[-1][1].append(group)
            size += file.metadata.bytes_of(group)
            if size >= item_bytes:
                items[len(items)] = held
                held, size = [], 0
    if held:
        items[len(items)] = held
    return items


# ---- in a task


def _profile(schema: pa.Schema, partitions: pa.Schema, item: Item) -> Result:
    """Runs in a task."""
    columns = [_Column(field) for field in schema]
    fittings = Fittings(schema, partitions)
    num_rows = 0
    for file, groups in item:
        with blaming(file.name):
            positions = [file.metadata.schema_block.find(name) for name in schema.names]
            with open_source(file.found.path, file.found.filesystem) as source:
                for group in groups:
                    for position, stored in _stored(source, file.metadata, group, positions):
                        columns[position].add_stored(*stored)
            for group in groups:
                for batch in file.scan(fittings(file), [group], use_threads=False):
                    num_rows += batch.num_rows
                    _add(columns, batch)
    figures = pa.Table.from_pylist([column.figures() for column in columns], _FIGURES)
    extremes = [column.bounds() for column in columns]
    bounds = pa.Table.from_arrays(extremes, schema=_bounds_schema(schema))
    return {
        "rows": num_rows,
        "probe": hash("fastmosaic"),
        "figures": _encode(figures),
        "bounds": _encode(bounds),
    }


class _Column:
    """What a task has seen of a column."""

    def __init__(self, field: pa.Field) -> None:
        self.field = field
        self.has_order = not pa.types.is_nested(field.type)
        self.nulls = 0
        self.bytes = 0
        self.pages = dict.fromkeys(_ENCODINGS, 0)
        self.hashes = sketches.EMPTY
        self.extremes: list[pa.Array] = []

    def add_stored(self, size: int, encoding: str) -> None:
        self.bytes += size
        self.pages[encoding] += 1

    def add_values(self, array: pa.Array) -> pa.Array:
        """Count nulls and keep the bounds; a number for each distinct value."""
        self.nulls += array.null_count
        if not self.has_order:
            return sketches.EMPTY
        distinct = array.unique().drop_null()
        ordered = _without_nan(distinct)
        if len(ordered):
            self.extremes.append(_min_max(ordered))
        return sketches.words(distinct)

    def figures(self) -> dict[str, Any]:
        hashes = self.hashes.to_pylist()
        return {"nulls": self.nulls, "bytes": self.bytes, **self.pages, "hashes": hashes}

    def bounds(self) -> pa.Array:
        if not self.has_order:
            return pa.nulls(2)
        if not self.extremes:
            return pa.nulls(2, self.field.type)
        return _min_max(pa.concat_arrays(self.extremes))


def _add(columns: Sequence[_Column], batch: pa.RecordBatch) -> None:
    numbers = [column.add_values(batch.column(i)) for i, column in enumerate(columns)]
    # All columns at once: a call of Arrow costs more than a few hundred values.
    hashes = sketches.mixed(pa.concat_arrays(numbers))
    start = 0
    for column, own in zip(columns, numbers, strict=True):
        both = [column.hashes, hashes.slice(start, len(own))]
        column.hashes = sketches.smallest(both, _SKETCH_SIZE)
        start += len(own)


def _without_nan(values: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    is_float = pa.types.is_floating(values.type)
    return values.filter(pc.invert(pc.is_nan(values))) if is_float else values


def _min_max(values: pa.Array) -> pa.Array:
    """Minimum and maximum, one after the other."""
    import pyarrow.compute as pc

    extremes = pc.min_max(values)
    return pa.array([extremes["min"], extremes["max"]], values.type)


def _stored(
    source: Source, metadata: FileMetaData, group: int, positions: Sequence[int]
) -> Iterator[tuple[int, tuple[int, str]]]:
    """For each place in `positions`, what the column takes in a row group, and its encoding."""
    block = metadata.schema_block
    by_bucket: dict[int, list[int]] = {}
    for place, position in enumerate(positions):
        if position >= 0:
            by_bucket.setdefault(block.bucket_of(position), []).append(place)
    for number, places in by_bucket.items() if metadata.rows_of(group) else ():
        columns = BucketColumns(block, number)
        bucket = metadata.bucket(group, number)
        data = source.read_at(bucket.offset, bucket.compressed_size)
        first = columns.positions.start
        if bucket.layout == Layout.PAGED:
            rows = metadata.rows_of(group)
            offsets = Directory.decode(data, columns, rows, bucket.compressed_size).offsets
            for place in places:
                start, end = offsets[positions[place] - first : positions[place] - first + 2]
                yield place, (end - start, _paged_encoding(data.slice(start, end - start)))
        else:
            share = bucket.compressed_size // columns.num_columns
            flags = _flags(data, columns, metadata.codec)
            for place in places:
                flat = positions[place] - first
                yield place, (share, _ENCODINGS[flags[flat // 4] >> flat % 4 * 2 & 3])


def _paged_encoding(slot: pa.Buffer) -> str:
    if not slot.size:
        return "all_null"
    cursor = Cursor(slot)
    cursor.varint()
    return _ENCODINGS[_beginning(cursor.take(cursor.remaining), 1)[0]]


def _flags(data: pa.Buffer, columns: BucketColumns, codec: Compression) -> bytes:
    """The encodings of the flat columns of a monolithic bucket, four in a byte."""
    size = -(-columns.num_flat // 4)
    header = 10 + 5 * columns.num_children if columns.num_children else 0
    if codec == Compression.ZSTD:
        start = _beginning(data, header + size)
    else:
        start = data.slice(0, min(data.size, header + size)).to_pybytes()
    cursor = Cursor(start)
    for _ in range(2 + columns.num_children if columns.num_children else 0):
        cursor.varint()
    return bytes(cursor.take(size))


def _beginning(frame: Any, size: int) -> bytes:
    """The first bytes of what is compressed in a frame; the rest is not decompressed."""
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(frame) as reader:
            return reader.read(size)
    except zstandard.ZstdError as error:
        raise CorruptFileError(str(error)) from error


# ---- in the driver


def _merge(schema: pa.Schema, results: Sequence[Result]) -> tuple[ColumnProfile, ...]:
    if len({result["probe"] for result in results}) > 1:
        raise RuntimeError(
            "workers hash strings differently; PYTHONHASHSEED must be the same for all of them"
        )
    figures = [_decode(result["figures"]).to_pylist() for result in results]
    bounds = [_decode(result["bounds"]) for result in results]
    num_rows = sum(result["rows"] for result in results)
    profiles = []
    for index, field in enumerate(schema):
        own = [one[index] for one in figures]
        sketch = sketches.smallest(
            [sketches.EMPTY, *(pa.array(one["hashes"], pa.uint64()) for one in own)], _SKETCH_SIZE
        )
        is_nested = pa.types.is_nested(field.type)
        low, high = (None, None) if is_nested else _texts([one.column(index) for one in bounds])
        profiles.append(
            ColumnProfile(
                column=field.name,
                type=str(field.type),
                rows=num_rows,
                nulls=sum(one["nulls"] for one in own),
                distinct=None if is_nested else sketches.estimate(sketch, _SKETCH_SIZE),
                min=low,
                max=high,
                bytes=sum(one["bytes"] for one in own),
                **{name: sum(one[name] for one in own) for name in _ENCODINGS},
            )
        )
    return tuple(profiles)


def _texts(bounds: Sequence[pa.ChunkedArray]) -> tuple[str | None, str | None]:
    """Minimum and maximum of all as text."""
    values = pa.chunked_array([chunk for one in bounds for chunk in one.chunks])
    values = values.drop_null() if bounds else values
    if not len(values):
        return None, None
    extremes = _min_max(values)
    if pa.types.is_binary(extremes.type):
        low, high = (value.hex() for value in extremes.to_pylist())
    else:
        low, high = extremes.cast(pa.string()).to_pylist()
    return low, high


def _bounds_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [(f.name, pa.null() if pa.types.is_nested(f.type) else f.type) for f in schema]
    )


def _encode(table: pa.Table) -> str:
    from pyarrow import ipc

    sink = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _decode(text: str) -> pa.Table:
    from pyarrow import ipc

    return ipc.open_stream(base64.b64decode(text)).read_all()
