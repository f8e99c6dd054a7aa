"""Tables as files: written and read in one line by tests of every room."""

import io
import json
from contextlib import contextmanager
from pathlib import Path

import mosaic
import pyarrow as pa
import pytest
from pyarrow import ipc

import fastmosaic as fm
from fastmosaic.file import fetch
from fastmosaic.format._collect import ArrowColumns
from fastmosaic.format.nested import flatten
from fastmosaic.format.types import ColumnType


def written(table: pa.Table, **options: object) -> bytes:
    """The bytes of a Mosaic file."""
    sink = io.BytesIO()
    fm.write_table(table, sink, **options)
    return sink.getvalue()


def their_reader(data: bytes) -> mosaic.MosaicReader:
    """The reader of the Apache implementation."""
    return mosaic.MosaicReader.from_input_file(
        lambda offset, length: data[offset : offset + length], len(data)
    )


def allocated_bytes() -> int:
    """What Arrow has allocated: from its own pool, and from the system's."""
    return pa.total_allocated_bytes() + pa.system_memory_pool().bytes_allocated()


def write_stream(table: pa.Table, path: Path) -> None:
    """An Arrow IPC stream."""
    with ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def write_lines(table: pa.Table, path: Path) -> None:
    """JSON lines."""
    rows = table.to_pylist()
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))


def flat_columns(table: pa.Table) -> list[ArrowColumns]:
    """The flat columns of the batches of a table, as the writer passes them to the kernel."""
    batches = []
    for batch in table.to_batches():
        arrays = ArrowColumns(batch)
        for i, field in enumerate(table.schema):
            lengths, *children = flatten(batch.column(i), ColumnType.from_arrow(field))
            arrays.put(i, lengths)
            for child in children:
                arrays.append(child)
        batches.append(arrays)
    return batches


# How many times as many rows there are around those that are decoded one by one.
NEVER = 1 << 40
ALWAYS = 1


@contextmanager
def gathering(factor):
    """Decode rows one by one if there are `factor` times as many around them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "GATHER_FACTOR", factor)
        yield
