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

from ...dataset.discovery import discover
from ...dataset.found import Found
from ...errors import UnsupportedError
from ...storage.secrets import redacted
from .load import open_files, plan_load
from .options import LoadOptions

FILES: Final = "files"


class StreamReader(DataSourceStreamReader):
    """Reads the files that are in one offset but not in the previous one."""

    def __init__(self, source: str, schema: pa.Schema, options: LoadOptions) -> None:
        self._source = source
        self._schema = schema
        self._options = options

    def initialOffset(self) -> dict[str, Any]:
        return {FILES: []}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # as before Spark 4.2
        return {FILES: self.present()}

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

    def present(self) -> list[str]:
        """Return the names of the files that there are now."""
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
