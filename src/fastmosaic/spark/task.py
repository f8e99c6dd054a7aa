"""Read splits inside Spark's tasks. Workers import this module and never the planner."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from ..dataset.tasks import Split, SplitScan
from ..query.query import Query
from .connection import PromptTask
from .origin import ORIGIN, origin_of
from .schemas import cast_for_spark

__all__ = ["NumberedReader", "PlannedReader", "SplitReader"]

# A batch crosses to the JVM as a whole.
MAX_BATCH_BYTES: Final = 32 << 20
# The JVM converts a batch to rows while the next one is sent.
MAX_BATCH_ROWS: Final = 1 << 16


class PlannedReader(PromptTask):
    """The function that tasks of a planned scan run.

    Spark passes batches of pickled splits and receives the rows of these splits.
    """

    def __init__(self, scan: SplitScan) -> None:
        self._scan = scan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for value in batch.column(0):
                for one in self._scan.read(pickle.loads(value.as_buffer())):
                    yield from _cut(one, MAX_BATCH_ROWS)
        _exempt_modules()


class NumberedReader(PromptTask):
    """The function that tasks run if a query asks for the files and numbers of rows.

    `schema` contains the columns of the scan and the one that tells where rows are from.
    """

    def __init__(self, scan: SplitScan, schema: pa.Schema) -> None:
        self._scan = scan
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place = self._schema.get_field_index(ORIGIN.name)
        type = self._schema.field(place).type
        for batch in batches:
            for value in batch.column(0):
                split = pickle.loads(value.as_buffer())
                for part, numbers, rows in self._scan.read_numbered(split):
                    columns = list(rows.columns)
                    columns.insert(place, origin_of(part.found, part.file_size, numbers, type))
                    yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


class SplitReader(PromptTask):
    """Reads splits for the data source, applies the user's filters and casts to Spark's types."""

    def __init__(self, scan: SplitScan, query: Query, schema: pa.Schema) -> None:
        """`schema` contains the columns that Spark expects, as `arrow_for_spark` returns it."""
        self._scan = scan
        self._query = query
        self._schema = schema

    def read(self, split: Split | None) -> Iterator[pa.RecordBatch]:
        if split is None:  # without splits, Spark still runs one task
            return
        for batch in self._scan.read(split):
            for part in _cut(batch):
                if self._query.expression is None:
                    yield cast_for_spark(part, self._schema)
                else:
                    for kept in self._query.finish([part]).to_batches():
                        yield cast_for_spark(kept, self._schema)
        _exempt_modules()


_is_exempt = False


def _exempt_modules() -> None:
    """Exempt what is imported from garbage collection, once in each worker.

    Spark's workers look for garbage after each task, which takes tens of milliseconds if it includes
    all functions and classes of the modules that are loaded: longer than most tasks of short queries.
    """
    global _is_exempt
    if not _is_exempt and "pyspark.worker" in sys.modules:
        _is_exempt = True
        gc.freeze()


def _cut(batch: pa.RecordBatch, num_rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of at most about `MAX_BATCH_BYTES`, and `num_rows`."""
    parts = min(max(1, batch.num_rows), 1 + batch.nbytes // MAX_BATCH_BYTES)
    if num_rows is not None:
        parts = max(parts, -(-batch.num_rows // num_rows))
    size = -(-batch.num_rows // parts)
    if parts == 1:
        yield batch
    else:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)
