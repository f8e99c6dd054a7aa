"""Write files of several formats batch by batch; a file appears when it is complete."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

import pyarrow as pa
from pyarrow import types

from ..errors import UnsupportedError
from ..file.dictionaries import DictionaryCollector, dictionaries_in
from ..file.writer import MosaicWriter
from ..format.plain_arrays import to_plain
from ..format.types import plain_type
from ..format.user_arrays import to_user
from ..memory import Memory
from ..schemas.fit import unsupported
from ..storage.sink import Sink, open_sink
from .read import COMPRESSED, TEXT
from .supported import refused
from .values import as_text, json_values

_JOINED_BYTES: Final = 64 << 20  # in a row group of formats that make one of each batch
_JSON_ROWS: Final = 1024  # converted to Python objects at a time


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
    if found := refused(format, schema):
        raise unsupported(found)
    try:
        open_target(format, pa.BufferOutputStream(), None, schema, options).abandon()
    except TypeError as error:
        raise ValueError(f"options of {format}: {error}") from error
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"{format}: {error}") from error
    except pa.ArrowException as error:
        raise ValueError(f"{format}: {error}") from error


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
        # An Arrow file has one dictionary for all batches, and other formats have none.
        self._dictionaries = _GrowingDictionaries(schema) if format == "arrow" else None
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
            if self._dictionaries is not None:
                table = self._dictionaries.put_on(table)
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


class _GrowingDictionaries:
    """Lets batches share the dictionaries of a file; new values are appended to them."""

    def __init__(self, schema: pa.Schema) -> None:
        self._collected = DictionaryCollector(schema)
        self._schema = schema

    def put_on(self, table: pa.Table) -> pa.Table:
        """Return a table with the same values, but dictionaries that contain all earlier ones."""
        if not self._collected:
            return table
        self._collected.add_table(table)
        columns = list(map(self._shared, self._schema, table.columns))
        return pa.Table.from_arrays(columns, schema=self._schema)

    def _shared(self, field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
        path = (field.name,)
        if not any(dictionaries_in(field.type, path)):
            return column
        plain = plain_type(field.type)
        try:
            arrays = [
                to_user(to_plain(chunk, plain), field.type, path, self._collected, Memory())
                for chunk in column.chunks
            ]
        except pa.ArrowInvalid as error:
            raise UnsupportedError(
                f"all rows together have more values than {field.type} can number",
                column=field.name,
            ) from error
        return pa.chunked_array(arrays, field.type)


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

    given = {"compression": "zstd", "emit_dictionary_deltas": True, **options}
    opens = ipc.new_stream if given.pop("stream", False) else ipc.new_file
    arrow = opens(stream, schema, options=ipc.IpcWriteOptions(**given))
    return lambda table: arrow.close() if table is None else arrow.write_table(table)


def _write_lines(stream: Any, table: pa.Table) -> None:
    """Write rows as JSON lines, which pyarrow reads but does not write."""
    for batch in table.to_batches(max_chunksize=_JSON_ROWS):
        names = batch.schema.names
        columns = [_values(column, name) for column, name in zip(batch.columns, names, strict=True)]
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
                    "JSON does not support NaN and infinity", column=name
                ) from None
            stream.write(line.encode() + b"\n")


def _values(array: pa.Array, column: str) -> list[Any]:
    try:
        return json_values(array, _leaves, _object)
    except _RepeatedKeyError:
        raise UnsupportedError(
            "a map contains a key more than once, which JSON does not support", column=column
        ) from None


def _leaves(array: pa.Array) -> list[Any]:
    """Return values as JSON lines have them; dates and times become text."""
    if types.is_temporal(array.type):
        # Python's types have no nanoseconds, and no years beyond 9999.
        array = array.cast(pa.int64() if types.is_duration(array.type) else pa.string())
    values: list[Any] = array.to_pylist()
    return values


def _object(pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    found = {str(as_text(key)): value for key, value in pairs}
    if len(found) < len(pairs):
        raise _RepeatedKeyError
    return found


class _RepeatedKeyError(Exception):
    """A map has a key more than once."""


def _is_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_is_nan, value.values()))
    if isinstance(value, list):
        return any(map(_is_nan, value))
    return isinstance(value, float) and not math.isfinite(value)
