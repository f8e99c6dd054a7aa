"""Files of several formats as streams of batches, in and out.

Reading is by groups where a format has them: row groups, stripes, record batches. A few of them, or
less than one, are in memory at a time.
"""

from __future__ import annotations

import difflib
import inspect as signatures
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import pyarrow as pa

from .discovery import Found
from .errors import UnsupportedError
from .location import as_arrow
from .reader import MosaicFile
from .writer import MosaicWriter

SUFFIXES: Final = {
    "mosaic": (".mosaic",),
    "parquet": (".parquet", ".pq", ".parq"),
    "orc": (".orc",),
    "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
    "csv": (".csv",),
    "json": (".jsonl", ".ndjson", ".json"),
}
TEXT: Final = frozenset({"csv", "json"})
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".lz4")
# What the bytes of a file come to in Mosaic, about.
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
_BLOCK_BYTES: Final = 16 << 20  # of text that is parsed at a time
_JOINED_BYTES: Final = 64 << 20  # of a row group in formats that make one of each batch


def format_of(name: str) -> str | None:
    """The format of a file by the end of its name."""
    low = name.lower()
    bare = low.removesuffix(next((end for end in _COMPRESSED if low.endswith(end)), ""))
    for format, suffixes in SUFFIXES.items():
        if (bare if format in TEXT else low).endswith(suffixes):
            return format
    return None


def check_format(option: str, format: str) -> None:
    if format not in SUFFIXES:
        close = difflib.get_close_matches(format, SUFFIXES, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{option}={format!r} is none of {', '.join(SUFFIXES)}{hint}")


# ---- in


def inspect(found: Found, format: str, size: int) -> tuple[pa.Schema, list[int] | None]:
    """The schema of a file, and about how many bytes its groups have; None if it has none.

    Types in text are those of its beginning.
    """
    if format == "mosaic":
        with _mosaic(found) as file:
            metadata = file.metadata
            return file.schema, [metadata.bytes_of(i) for i in range(metadata.num_row_groups)]
    if format in TEXT:
        with _text(found, format, None) as reader:
            return reader.schema, None
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
        reader = _arrow(source)
        if isinstance(reader, pa.RecordBatchReader):
            return reader.schema, None
        return reader.schema, _shares(size, [1] * reader.num_record_batches)


def batches(
    found: Found, format: str, groups: Sequence[int] | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of some groups of a file, or of all; `schema` is what text is read as."""
    if format == "mosaic":
        with _mosaic(found) as file:
            for group in range(file.num_row_groups) if groups is None else groups:
                yield from file.iter_batches(
                    batch_size=_MAX_BATCH_ROWS, row_groups=[group], use_threads=False
                )
    elif format in TEXT:
        with _text(found, format, schema) as reader:
            yield from reader
    else:
        with _opened(found) as source:
            yield from _binary_batches(source, format, groups)


def _binary_batches(
    source: Any, format: str, groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    if format == "parquet":
        import pyarrow.parquet as pq

        # Its own threads, and reads of a whole row group ahead, are for one reader alone.
        parquet = pq.ParquetFile(source, pre_buffer=False)
        chosen = list(range(parquet.num_row_groups)) if groups is None else list(groups)
        infos = [parquet.metadata.row_group(i) for i in chosen]
        num_rows = sum(info.num_rows for info in infos)
        row_bytes = sum(info.total_byte_size for info in infos) / max(1, num_rows)
        size = min(max(int(_BATCH_BYTES / max(1, row_bytes)), _MIN_BATCH_ROWS), _MAX_BATCH_ROWS)
        yield from parquet.iter_batches(size, chosen, use_threads=False)
    elif format == "orc":
        from pyarrow import orc

        file = orc.ORCFile(source)
        for stripe in range(file.nstripes) if groups is None else groups:
            yield file.read_stripe(stripe)
    else:
        reader = _arrow(source)
        if isinstance(reader, pa.RecordBatchReader):
            yield from reader
        else:
            for index in range(reader.num_record_batches) if groups is None else groups:
                yield reader.get_batch(index)


def _shares(size: int, weights: Sequence[int]) -> list[int]:
    total = max(1, sum(weights))
    return [size * weight // total for weight in weights]


@contextmanager
def _mosaic(found: Found) -> Iterator[MosaicFile]:
    with MosaicFile(found.path, filesystem=found.filesystem) as file:
        yield file


@contextmanager
def _opened(found: Found) -> Iterator[Any]:
    with as_arrow(found.filesystem).open_input_file(found.path) as source:
        yield source


def _arrow(source: Any) -> Any:
    """A reader of an Arrow file, or of a stream."""
    from pyarrow import ipc

    try:
        return ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        try:
            return ipc.open_stream(source)
        except pa.ArrowInvalid:
            raise pa.ArrowInvalid("neither an Arrow file nor an Arrow stream") from None


@contextmanager
def _text(found: Found, format: str, schema: pa.Schema | None) -> Iterator[Any]:
    """A reader of CSV or JSON lines, whose columns have the types of `schema` if it is given."""
    with as_arrow(found.filesystem).open_input_stream(found.path) as source:
        if format == "csv":
            from pyarrow import csv

            # Nothing but an empty field without quotes is null: "NA" may be a name.
            types = None if schema is None else {field.name: field.type for field in schema}
            with csv.open_csv(
                source,
                read_options=csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
                convert_options=csv.ConvertOptions(
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            ) as reader:
                yield reader
        else:
            from pyarrow import json

            with json.open_json(
                source,
                read_options=json.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
                parse_options=json.ParseOptions(explicit_schema=schema),
            ) as reader:
                yield reader


# ---- out


class Target(Protocol):
    """A file that is being written."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def size(self) -> int:
        """What it would come to if it were closed now, about."""

    def close(self) -> int:
        """Complete it; its size."""

    def abandon(self) -> None: ...


def open_target(
    format: str, where: Any, filesystem: Any, schema: pa.Schema, options: Mapping[str, Any]
) -> Target:
    if format == "mosaic":
        return _MosaicTarget(MosaicWriter(where, schema, filesystem=filesystem, **options))
    return _ArrowTarget(format, where, filesystem, schema, options)


def check_options(format: str, schema: pa.Schema, options: Mapping[str, Any]) -> None:
    """Raise if no file could be written like this."""
    if format == "mosaic":
        known = set(signatures.signature(MosaicWriter).parameters) - {"where", "schema"}
        for name in options:
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise ValueError(f"the writer has no option {name!r}{hint}")
    elif format in TEXT:
        for field in schema:
            if _has_bytes(field.type) or (format == "csv" and pa.types.is_nested(field.type)):
                raise UnsupportedError(f"column {field.name!r}: {format} has no {field.type}")
    try:
        open_target(format, pa.BufferOutputStream(), None, schema, options).abandon()
    except TypeError as error:
        raise ValueError(f"options of {format}: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{format}: {error}") from error


def _has_bytes(type: pa.DataType) -> bool:
    children = (type.field(i).type for i in range(type.num_fields))
    return pa.types.is_binary(type) or any(map(_has_bytes, children))


class _MosaicTarget:
    def __init__(self, writer: MosaicWriter) -> None:
        self._writer = writer

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def size(self) -> int:
        return self._writer.estimated_file_size()

    def close(self) -> int:
        self._writer.close()
        return self._writer.num_bytes

    def abandon(self) -> None:
        self._writer.abandon()


class _ArrowTarget:
    """A file of one of pyarrow's writers, which get batches of a good size."""

    def __init__(
        self,
        format: str,
        where: Any,
        filesystem: Any,
        schema: pa.Schema,
        options: Mapping[str, Any],
    ) -> None:
        self._schema = schema
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._path = where if filesystem is None and isinstance(where, str) else None
        self._stream = (
            as_arrow(filesystem).open_output_stream(where) if isinstance(where, str) else where
        )
        try:
            self._writer = _writer(format, self._stream, schema, options)
        except BaseException:
            self._stream.close()
            raise

    def write(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes >= _JOINED_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held, self._schema)
            self._held, self._held_bytes = [], 0
            self._writer(table.combine_chunks())

    def size(self) -> int:
        return self._stream.tell() + self._held_bytes // 2

    def close(self) -> int:
        self._flush()
        self._writer(None)
        size = self._stream.tell()
        self._stream.close()
        if self._path is not None:
            with open(self._path, "rb") as file:
                os.fsync(file.fileno())
        return size

    def abandon(self) -> None:
        self._held = []
        with suppress(Exception):  # else it would end its file later, and find the stream closed
            self._writer(None)
        self._stream.close()


def _writer(
    format: str, stream: Any, schema: pa.Schema, options: Mapping[str, Any]
) -> Callable[[pa.Table | None], object]:
    """A function that writes a table, and ends the file if it gets None."""
    if format == "parquet":
        import pyarrow.parquet as pq

        parquet = pq.ParquetWriter(stream, schema, **{"compression": "zstd", **options})
        return lambda table: parquet.close() if table is None else parquet.write_table(table)
    if format == "orc":
        from pyarrow import orc

        file = orc.ORCWriter(stream, **{"compression": "zstd", **options})
        # A file without rows has its schema from a table without rows.
        state = {"empty": True}

        def write(table: pa.Table | None) -> None:
            if table is not None or state["empty"]:
                state["empty"] = False
                file.write(schema.empty_table() if table is None else table)
            if table is None:
                file.close()

        return write
    if format == "csv":
        from pyarrow import csv

        lines = csv.CSVWriter(stream, schema, write_options=csv.WriteOptions(**options))
        return lambda table: lines.close() if table is None else lines.write_table(table)
    if format == "json":
        if options:
            raise TypeError(f"there is no {min(options)!r}")
        return lambda table: None if table is None else _write_lines(stream, table)
    from pyarrow import ipc

    write_options = ipc.IpcWriteOptions(**{"compression": "zstd", **options})
    arrow = ipc.new_file(stream, schema, options=write_options)
    return lambda table: arrow.close() if table is None else arrow.write_table(table)


def _write_lines(stream: Any, table: pa.Table) -> None:
    """Rows as JSON, which pyarrow reads but does not write."""
    for batch in table.to_batches(max_chunksize=1024):
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            # NaN is an error: JSON has none, and null is something else.
            line = json.dumps(row, default=str, allow_nan=False, ensure_ascii=False)
            stream.write(line.encode() + b"\n")
