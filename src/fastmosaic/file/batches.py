"""Data to write, as a stream of tables and record batches: from Arrow, data frames, databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from ..errors import UnsupportedError

# A batch of a dataset has some tens of megabytes, whatever the number of columns.
_SCAN_BYTES: Final = 32 << 20
_MIN_SCAN_ROWS: Final = 1024
_MAX_SCAN_ROWS: Final = 131072


def open_batches(
    data: Any, schema: pa.Schema | None = None
) -> tuple[pa.Schema, Iterator[pa.Table | pa.RecordBatch]]:
    """Return the schema of `data` and an iterator over its tables and record batches.

    `data` is a table, record batch, reader, dataset or scanner of pyarrow; anything with the Arrow
    stream interface, such as a data frame of pandas or Polars or a relation of DuckDB; or an
    iterable of tables and record batches, whose schema is that of the first one. An empty iterable
    has the given `schema`. Nothing is collected in memory.
    """
    # Classes of pyarrow.dataset are known by their methods: the module takes long to import.
    if hasattr(data, "scanner"):
        rows = _SCAN_BYTES // (8 * max(1, len(data.schema)))
        data = data.scanner(
            batch_size=min(max(rows, _MIN_SCAN_ROWS), _MAX_SCAN_ROWS),
            batch_readahead=1,
            fragment_readahead=1,
        )
    if hasattr(data, "projected_schema"):
        data = data.to_reader()
    if isinstance(data, pa.Table | pa.RecordBatch):
        return data.schema, iter([data])
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, pa.RecordBatchReader):
        data = _reader(data)
    if isinstance(data, pa.RecordBatchReader):
        return data.schema, iter(data)
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        raise TypeError(
            "cannot write an object of type "
            f"{type(data).__name__}: expected a table, record batch, reader or dataset of pyarrow, "
            "an object with the Arrow stream interface such as a data frame, or an iterable of "
            "tables and record batches"
        )
    items = map(_checked, data)
    first = next(items, None)
    if first is not None:
        return first.schema, chain([first], items)
    if schema is None:
        raise ValueError("the iterable is empty and has no schema; pass schema=")
    return schema, items


def _reader(data: Any) -> pa.RecordBatchReader:
    """Return the record batches of an object with the Arrow stream interface."""
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid as error:
        if "format string" not in str(error):
            raise
        raise UnsupportedError(
            f"the {type(data).__name__} has a column of a type that Arrow lacks ({error}); "
            "cast it first, for example integers of 128 bits to Decimal"
        ) from error


def _checked(item: Any) -> pa.Table | pa.RecordBatch:
    if not isinstance(item, pa.Table | pa.RecordBatch):
        raise TypeError(
            "an iterable to write must contain tables and record batches of pyarrow, "
            f"not an object of type {type(item).__name__}"
        )
    return item
