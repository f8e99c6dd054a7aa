"""Write files of several formats batch by batch; a file appears when it is complete."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

import pyarrow as pa
from pyarrow import types

from ..errors import UnsupportedError
from ..file.writer import MosaicWriter
from ..format.types import storage_type
from ..schemas.fit import unsupported
from ..storage.sink import Sink, open_sink
from .read import COMPRESSED, TEXT

_JOINED_BYTES: Final = 64 << 20  # in a row group of formats that make one of each batch
_JSON_ROWS: Final = 1024  # converted to Python objects at a time

# Types that a format lacks, or that are not read back from it as they were.
_BYTES: Final = (
    types.is_binary,
    types.is_large_binary,
    types.is_fixed_size_binary,
    types.is_binary_view,
)
_LACKING: Final = {
    "arrow": (types.is_dictionary,),  # a file has only one for all batches
    "parquet": (types.is_interval,),
    "orc": (
        types.is_unsigned_integer,
        types.is_float16,
        types.is_time,
        types.is_duration,
        types.is_interval,
        types.is_decimal32,
        types.is_decimal64,
        types.is_decimal256,
        types.is_dictionary,
        types.is_string_view,
        types.is_binary_view,
        types.is_null,
    ),
    "csv": (*_BYTES, types.is_nested, types.is_string_view, types.is_interval),
    "json": (*_BYTES, types.is_interval),
}


class Target(Protocol):
    """A file that is being written."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def size(self) -> int:
        """Return the approximate size of the file if it were closed now."""

    def close(self) -> int:
        """Complete the file and return its size."""

    def abandon(self) -> None: ...


def open_target(
    format: str, where: Any, filesystem: Any, schema: pa.Schema, options: Mapping[str, Any]
) -> Target:
    """Open a file for batches of `schema`; text is compressed if the name ends with e.g. .gz.

    Options are those of `MosaicWriter` or of pyarrow's writers; "stream" writes an Arrow stream
    instead of a file.
    """
    if format == "mosaic":
        return _MosaicTarget(MosaicWriter(where, schema, filesystem=filesystem, **options))
    return _ArrowTarget(format, where, filesystem, schema, options)


def check_options(format: str, schema: pa.Schema, options: Mapping[str, Any]) -> None:
    """Raise if the schema or the options do not allow a file to be written."""
    refused = [
        f"column {field.name!r}: {format} does not support {field.type}"
        for field in schema
        if _lacks(format, field.type)
    ]
    if refused:
        raise unsupported(refused)
    try:
        open_target(format, pa.BufferOutputStream(), None, schema, options).abandon()
    except TypeError as error:
        raise ValueError(f"options of {format}: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{format}: {error}") from error
    except pa.ArrowException as error:
        raise ValueError(f"{format}: {error}") from error


def schema_for(format: str, schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file for `schema`: types that the format lacks become wider ones."""
    if format == "mosaic" or not any(_lacks(format, field.type) for field in schema):
        return schema
    fields = []
    for field in schema:
        if _lacks(format, field.type):
            with suppress(UnsupportedError):
                stored = storage_type(field.type)
                field = field if _lacks(format, stored) else field.with_type(stored)
        fields.append(field)
    return pa.schema(fields, schema.metadata)


def _lacks(format: str, type: pa.DataType) -> bool:
    children = (type.field(i).type for i in range(type.num_fields))
    return any(is_kind(type) for is_kind in _LACKING.get(format, ())) or any(
        _lacks(format, child) for child in children
    )


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
    """A file of one of pyarrow's writers, which receive large batches."""

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
        self._sink = open_sink(where, filesystem)
        self._raw = _Raw(self._sink)
        try:
            self._stream = _stream(self._raw, self._sink.name, format)
            self._writer = _writer(format, self._stream, schema, options)
        except BaseException:
            self._sink.abandon()
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
            self._put(table.combine_chunks())

    def _put(self, table: pa.Table | None) -> None:
        """Write a table; None ends the file."""
        try:
            self._writer(table)
        finally:
            self._raw.check()

    def size(self) -> int:
        return self._sink.tell() + self._held_bytes // 2

    def close(self) -> int:
        try:
            self._flush()
            self._put(None)
            self._stream.close()
            self._raw.check()
        except BaseException:
            self.abandon()
            raise
        self._sink.commit()
        return self._sink.tell()

    def abandon(self) -> None:
        self._held = []
        self._raw.is_open = False
        with suppress(Exception):  # otherwise, it would end its file after it was removed
            self._writer(None)
            self._stream.close()
        self._sink.abandon()


class _Raw(io.RawIOBase):
    """A sink as a Python file that stores exceptions instead of raising them.

    An exception in a callback of the ORC writer, even of Ctrl-C, would end the process.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._error: BaseException | None = None
        self.is_open = True

    def check(self) -> None:
        """Raise the stored exception, if there is one."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self.is_open:
            try:
                self._sink.write(data)
            except BaseException as error:  # noqa: BLE001 - it is raised by `check`
                self._error = error
                self.is_open = False
        return size

    def tell(self) -> int:
        return self._sink.tell()


def _stream(raw: _Raw, name: str, format: str) -> Any:
    """Return an Arrow file that compresses text if the suffix of its name says so."""
    stream = pa.PythonFile(raw, mode="w")
    low = name.lower()
    if format in TEXT and low.endswith(COMPRESSED):
        return pa.CompressedOutputStream(stream, pa.Codec.detect(low).name)
    return stream


def _writer(
    format: str, stream: Any, schema: pa.Schema, options: Mapping[str, Any]
) -> Callable[[pa.Table | None], object]:
    """Return a function that writes a table, or ends the file if it is called with None."""
    if format == "parquet":
        import pyarrow.parquet as pq

        parquet = pq.ParquetWriter(stream, schema, **{"compression": "zstd", **options})
        return lambda table: parquet.close() if table is None else parquet.write_table(table)
    if format == "orc":
        from pyarrow import orc

        file = orc.ORCWriter(stream, **{"compression": "zstd", **options})
        # A file without rows gets its schema from a table without rows.
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
            raise TypeError(f"unknown option {min(options)!r}")
        return lambda table: None if table is None else _write_lines(stream, table)
    from pyarrow import ipc

    given = {"compression": "zstd", **options}
    opens = ipc.new_stream if given.pop("stream", False) else ipc.new_file
    arrow = opens(stream, schema, options=ipc.IpcWriteOptions(**given))
    return lambda table: arrow.close() if table is None else arrow.write_table(table)


def _write_lines(stream: Any, table: pa.Table) -> None:
    """Write rows as JSON lines, which pyarrow reads but does not write."""
    for batch in table.to_batches(max_chunksize=_JSON_ROWS):
        names = batch.schema.names
        columns = [_values(column) for column in batch.columns]
        for row in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
            try:
                line = json.dumps(
                    dict(zip(names, row, strict=True)),
                    default=str,
                    allow_nan=False,
                    ensure_ascii=False,
                )
            except ValueError:
                name = next(n for n, value in zip(names, row, strict=True) if _is_nan(value))
                raise UnsupportedError(
                    f"column {name!r}: JSON does not support NaN and infinity"
                ) from None
            stream.write(line.encode() + b"\n")


def _values(column: pa.Array) -> Iterator[Any]:
    """Return an iterator over values as JSON has them; dates and times become text."""
    if types.is_temporal(column.type):
        # Python's types have no nanoseconds, and no years beyond 9999.
        column = column.cast(pa.int64() if types.is_duration(column.type) else pa.string())
    return iter(column.to_pylist(maps_as_pydicts="strict"))


def _is_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_nan, value.values()))
    if isinstance(value, list):
        return any(map(_is_nan, value))
    return isinstance(value, float) and not math.isfinite(value)
