"""Read the new files of a directory as a stream, with limits for its batches: since Spark 4.2."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from .options import LoadOptions
from .stream import FILES, StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """A stream whose batches have a maximum number of files."""

    def __init__(self, source: str, schema: pa.Schema, options: LoadOptions) -> None:
        super().__init__(source, schema, options)
        self._limit = options.max_files_per_trigger
        self._last: list[str] | None = None  # with the trigger availableNow: the files to read

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._limit is None else ReadMaxFiles(self._limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self.present()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # type: ignore[override]
        seen = set(start[FILES])
        present = self.present() if self._last is None else self._last
        new = [file for file in present if file not in seen]
        if isinstance(limit, ReadMaxFiles):
            new = new[: limit.max_files]
        return {FILES: sorted(seen.union(new))}
