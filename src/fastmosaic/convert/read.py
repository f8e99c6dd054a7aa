"""Read files of several formats as streams of batches.

Formats that have groups (row groups, stripes, record batches) are read group by group, so that only a
few of them, or a part of one, are in memory at a time.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from ..dataset.found import Found
from ..file.reader import MosaicFile
from ..format.footer import FILE_MAGIC
from ..storage.location import as_arrow
from ..storage.source import SeekableSource, open_source
from .text import DEFAULT_DIALECT, Dialect, open_text, read_schema, rows

SUFFIXES: Final = {
    "mosaic": (".mosaic",),
    "parquet": (".parquet", ".pq", ".parq"),
    "orc": (".orc",),
    "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
    "csv": (".csv",),
    "json": (".jsonl", ".ndjson", ".json"),
}
TEXT: Final = frozenset({"csv", "json"})
COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4")
# The approximate size of a file in Mosaic, relative to its size in another format.
RATIOS: Final = {
    "mosaic": 1.0,
    "parquet": 0.9,
    "orc": 1.0,
    "arrow": 0.4,
    "csv": 0.3,
    "json": 0.15,
}

_BATCH_BYTES: Final = 32 << 20
_MIN_BATCH_ROWS: Final = 64
_MAX_BATCH_ROWS: Final = 131072


def format_of(name: str) -> str | None:
    """Return the format of a file by the suffix of its name."""
    low = name.lower()
    bare = low.removesuffix(next((end for end in COMPRESSED if low.endswith(end)), ""))
    for format, suffixes in SUFFIXES.items():
        if (bare if format in TEXT else low).endswith(suffixes):
            return format
    return None


def check_format(option: str, format: str) -> None:
    if format not in SUFFIXES:
        close = difflib.get_close_matches(format, SUFFIXES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(
            f"invalid {option} {format!r} (expected one of {', '.join(SUFFIXES)}){hint}"
        )


def format_by_content(found: Found) -> str | None:
    """Return the format of a file by its first and last bytes, or None, as for text."""
    with _opened(found) as source:
        size = source.size()
        start = source.read_at(min(size, 8), 0)
        end = source.read_at(min(size, 8), max(0, size - 8))
    if end.endswith(FILE_MAGIC):
        return "mosaic"
    marks = {b"PAR1": "parquet", b"ORC": "orc", b"ARROW1": "arrow"}
    return next((format for mark, format in marks.items() if start.startswith(mark)), None)


def inspect(found: Found, format: str, size: int) -> tuple[pa.Schema, list[int] | None]:
    """Return the schema of a file and the approximate sizes of its groups, None if it has none.

    Types in text are inferred from its first block.
    """
    if format == "mosaic":
        with _mosaic(found) as file:
            metadata = file.metadata
            return file.schema, [metadata.bytes_of(i) for i in range(metadata.num_row_groups)]
    if format in TEXT:

        @contextmanager
        def stream() -> Iterator[Any]:
            with open_stream(found) as (opened, _):
                yield opened

        return read_schema(stream, format, lambda names: {}, whole=False), None
    with _opened(found) as source:
        if format == "parquet":
            import pyarrow.parquet as pq

            parquet = pq.ParquetFile(source)
            groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
            return parquet.schema_arrow, _shares(size, [group.total_byte_size for group in groups])
        if format == "orc":
            from pyarrow import orc

            file = orc.ORCFile(source)
            return file.schema, _shares(size, [1] * file.nstripes)
        reader = open_arrow(source)
        if isinstance(reader, pa.RecordBatchReader):
            return reader.schema, None
        return reader.schema, _shares(size, [1] * reader.num_record_batches)


def count_rows(found: Found, format: str) -> int | None:
    """Return the number of rows of a file if its metadata contains it, else None."""
    if format not in ("parquet", "orc"):
        return None
    with _opened(found) as source:
        if format == "parquet":
            import pyarrow.parquet as pq

            return int(pq.read_metadata(source).num_rows)
        from pyarrow import orc

        return int(orc.ORCFile(source).nrows)


def group_rows(found: Found, format: str) -> list[int] | None:
    """Return the number of rows in each group of a file if its metadata contains it, else None."""
    if format != "parquet":
        return None
    import pyarrow.parquet as pq

    with _opened(found) as source:
        metadata = pq.read_metadata(source)
        return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def parquet_chunks(found: Found) -> Iterator[tuple[str, Any]]:
    """Yield pyarrow's metadata of all column chunks of a Parquet file, with names of columns."""
    import pyarrow.parquet as pq

    with _opened(found) as source:
        file = pq.ParquetFile(source)
        names = iter(file.schema_arrow.names)
        owners: list[str] = []  # of leaves, which have the order of their columns
        name = next(names, "")
        for leaf in range(file.metadata.num_columns):
            path = file.schema.column(leaf).path
            while path != name and not path.startswith(f"{name}."):
                name = next(names)
            owners.append(name)
        for group in map(file.metadata.row_group, range(file.metadata.num_row_groups)):
            for leaf, owner in enumerate(owners):
                yield owner, group.column(leaf)


def batches(
    found: Found,
    format: str,
    groups: Sequence[int] | None,
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None = None,
    dialect: Dialect = DEFAULT_DIALECT,
    use_threads: bool = False,
    advance: Callable[[int], object] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some groups of a file, or of all.

    `schema` contains the types as which text is read. `columns` selects columns; `schema` must then
    contain all columns of a CSV file in its order, and batches may contain others, too. `advance` is
    called with the number of bytes of the file that were processed since the last call.
    """
    if format == "mosaic":
        with _mosaic(found) as file:
            for group in range(file.num_row_groups) if groups is None else groups:
                yield from file.iter_batches(
                    batch_size=_MAX_BATCH_ROWS,
                    row_groups=[group],
                    columns=columns,
                    use_threads=use_threads,
                )
    elif format in TEXT:
        yield from _text_batches(found, format, schema, columns, dialect, advance)
    else:
        with _opened(found) as source:
            for batch, done in _binary_batches(source, format, groups, columns, use_threads):
                yield batch
                if advance is not None:
                    advance(done)


def _text_batches(
    found: Found,
    format: str,
    schema: pa.Schema,
    columns: Sequence[str] | None,
    dialect: Dialect,
    advance: Callable[[int], object] | None,
) -> Iterator[pa.RecordBatch]:
    before = 0
    if format == "csv" and columns is not None and not columns:
        # No columns would stand for all; of this one, only the number of rows matters.
        columns = schema.names[:1]
        schema = pa.schema([pa.field(name, pa.string()) for name in schema.names])
    with (
        open_stream(found) as (stream, tell),
        open_text(stream, format, schema, columns, dialect) as reader,
    ):
        for batch in rows(reader, reader.schema.names if columns is None else schema.names):
            yield batch
            if advance is not None:
                position = tell()
                advance(position - before)
                before = position


def _binary_batches(
    source: Any,
    format: str,
    groups: Sequence[int] | None,
    columns: Sequence[str] | None,
    use_threads: bool,
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield batches, each with the approximate number of bytes that it takes in the file."""
    file_bytes = source.size()
    if format == "parquet":
        import pyarrow.parquet as pq

        # pyarrow's reading ahead of a whole row group would need too much memory.
        parquet = pq.ParquetFile(source, pre_buffer=False)
        chosen = list(range(parquet.num_row_groups)) if groups is None else list(groups)
        infos = [parquet.metadata.row_group(i) for i in chosen]
        num_rows = max(1, sum(info.num_rows for info in infos))
        schema = parquet.schema_arrow
        # Values that a dictionary makes small in the file may be large in memory.
        encoded = sum(info.total_byte_size for info in infos) / num_rows
        row_bytes = max(encoded, sum(map(_value_bytes, schema.types)))
        if columns is not None:
            row_bytes *= len(columns) / max(1, len(schema))
        size = min(max(int(_BATCH_BYTES / max(1, row_bytes)), _MIN_BATCH_ROWS), _MAX_BATCH_ROWS)
        names = None if columns is None else list(columns)
        for batch in parquet.iter_batches(size, chosen, names, use_threads=use_threads):
            yield batch, file_bytes * batch.num_rows // num_rows
    elif format == "orc":
        from pyarrow import orc

        file = orc.ORCFile(source)
        names = None if columns is None else [n for n in columns if n in file.schema.names]
        if names == []:
            names = file.schema.names[:1]  # without columns, there would be no rows
        for stripe in range(file.nstripes) if groups is None else groups:
            yield file.read_stripe(stripe, names), file_bytes // file.nstripes
    else:
        reader = open_arrow(source, columns)
        if isinstance(reader, pa.RecordBatchReader):
            before = 0
            for batch in reader:
                position = source.tell()
                yield batch, position - before
                before = position
        else:
            for index in range(reader.num_record_batches) if groups is None else groups:
                yield reader.get_batch(index), file_bytes // reader.num_record_batches


def _value_bytes(type: pa.DataType) -> float:
    """Return the minimum size of a value in memory, in bytes."""
    try:
        return float(type.bit_width) / 8
    except ValueError:  # it has no fixed width
        return 4.0


def _shares(size: int, weights: Sequence[int]) -> list[int]:
    total = max(1, sum(weights))
    return [size * weight // total for weight in weights]


@contextmanager
def _mosaic(found: Found) -> Iterator[MosaicFile]:
    with MosaicFile(found.path, filesystem=found.filesystem) as file:
        yield file


@contextmanager
def _opened(found: Found) -> Iterator[Any]:
    if found.filesystem is None:
        with as_arrow(None).open_input_file(found.path) as file:
            yield file
        return
    source = open_source(found.path, found.filesystem)
    with pa.PythonFile(SeekableSource(source), mode="r") as file:
        yield file


@contextmanager
def open_stream(found: Found) -> Iterator[tuple[Any, Callable[[], int]]]:
    """Open a text file; also return a function that returns how many of its bytes were read."""
    with _opened(found) as raw:
        if found.path.lower().endswith(COMPRESSED):
            with pa.CompressedInputStream(raw, pa.Codec.detect(found.path.lower()).name) as text:
                yield text, raw.tell
        else:
            yield raw, raw.tell


def open_arrow(source: Any, columns: Sequence[str] | None = None) -> Any:
    """Open an Arrow file or an Arrow stream."""
    from pyarrow import ipc

    try:
        reader = ipc.open_file(source)
        opens = ipc.open_file
    except pa.ArrowInvalid:
        source.seek(0)
        try:
            reader = ipc.open_stream(source)
            opens = ipc.open_stream
        except pa.ArrowInvalid:
            raise pa.ArrowInvalid("neither an Arrow file nor an Arrow stream") from None
    if columns is None:
        return reader
    wanted = set(columns)
    fields = [i for i, name in enumerate(reader.schema.names) if name in wanted]
    source.seek(0)
    return opens(source, options=ipc.IpcReadOptions(included_fields=fields))
