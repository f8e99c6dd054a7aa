"""Read the new files of a directory as a stream.

An offset is the list of all files that were read so far. It grows with the directory, but a
timestamp would not be enough: a commit moves files into the directory that may be older than files
that are already there. Spark saves offsets, so they contain no credentials.
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
from ...dataset.found import Found
from ...errors import UnsupportedError
from ...storage.secrets import redacted
from .load import open_files, plan_load
from .options import LoadOptions

FILES: Final = "files"


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files that are in one offset but not in the previous one."""

    def __init__(self, source: str, schema: pa.Schema, options: LoadOptions) -> None:
        self._source = source
        self._schema = schema
        self._options = options
        self._last: list[str] | None = None  # with the trigger availableNow: the files to read

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
        files = open_files(self._openable(new), self._options, self._schema)
        reader, splits = plan_load(files, self._options)
        return [InputPartition((reader, split)) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        reader, split = partition.value
        return reader.read(split)

    def _openable(self, names: list[str]) -> list[str] | list[Found]:
        """Return files that can be opened: names do not contain the credentials of the source."""
        if redacted(self._source) == self._source:
            return names
        present = {one.name: one for one in self._discover()}
        return [present[name] for name in names]

    def _present(self) -> list[str]:
        try:
            return sorted(one.name for one in self._discover())
        except FileNotFoundError:
            return []

    def _discover(self) -> list[Found]:
        found = discover(self._source, follow_links=self._options.follow_links)
        if any(one.entry is not None for one in found):
            raise UnsupportedError(
                f"{redacted(self._source)} is a table, whose files may be replaced; "
                "it cannot be read as a stream"
            )
        return found
