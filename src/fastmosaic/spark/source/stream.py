"""Mosaic files as the source of a stream: those that have appeared in a directory.

An offset is the list of all files that were read. It grows with the directory, but nothing shorter
would do: files that are moved in, as every commit does, may be older than those before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from ...dataset.discovery import discover
from .load import opened, planned
from .options import ReadOptions

FILES: Final = "files"


class MosaicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that an offset has and the one before it has not."""

    def __init__(self, source: str, schema: pa.Schema, options: ReadOptions) -> None:
        self._source = source
        self._schema = schema
        self._options = options
        self._last: list[str] | None = None  # files of a stream that is to end with them

    def initialOffset(self) -> dict[str, Any]:
        return {FILES: []}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_files_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._present()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        seen = set(start[FILES])
        present = self._present() if self._last is None else self._last
        new = [file for file in present if file not in seen]
        if isinstance(limit, ReadMaxFiles):
            new = new[: limit.max_files]
        return {FILES: sorted(seen.union(new))}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        new = sorted(set(end[FILES]).difference(start[FILES]))
        if not new:
            return []
        files = opened(new, self._options, self._schema)
        columns, splits = planned(files, self._options)
        return [InputPartition((columns, split)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        columns, split = partition.value
        return columns.read(split)

    def _present(self) -> list[str]:
        try:
            found = discover(self._source)
        except FileNotFoundError:
            return []
        return sorted(one.name for one in found)
