"""Write rows inside Spark's tasks. Workers import this module and nothing else of the catalog."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from ...dataset.version import BaseFile
from ...table.rows import RowWriter
from ..connection import PromptTask
from ..schemas import cast_from_spark

__all__ = ["TaskWriter"]


@dataclass(frozen=True)
class TaskWriter(PromptTask):
    """The function that tasks of a write run: it writes base files and returns their descriptions.

    Spark passes batches of rows and receives one batch, whose only value is the pickled message.
    """

    rows: RowWriter
    schema: pa.Schema  # of the files, with plain types, and the partition columns
    prefix: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        prefix = f"{self.prefix}-{context.partitionId():05d}-{context.taskAttemptId()}"
        files = self.write(batches, prefix)
        yield pa.record_batch({"message": pa.array([pickle.dumps(files)], pa.binary())})

    def write(self, batches: Iterator[pa.RecordBatch], prefix: str) -> list[BaseFile]:
        """Write the rows of a task. Without rows there is no file."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return []
        every = chain([first], batches)
        return self.rows.write((cast_from_spark(one, self.schema) for one in every), prefix)
