"""Where the bytes are: the size of each column, and of buckets and prefixes.

Sizes are those of compressed bytes in the files. They are measured when the page asks for them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..convert import read as formats
from ..convert.inputs import Input
from ..convert.listed import entries_of, measure
from ..dataset.files import File
from ..errors import UnsupportedError, printable
from .errors import RequestError

if TYPE_CHECKING:
    from .columns import ColumnIndex

_MAX_AREAS: Final = 200  # of a treemap; smaller ones are drawn together

Values = Sequence[int | None]  # by position; None where it is not known


class ColumnSizes:
    """The bytes and the nulls of each column of an input, as far as metadata contains them."""

    def __init__(self, files: Input, go_on: Callable[[], None] = lambda: None) -> None:
        """`go_on` is called after each step, and raises if there should be no further one."""
        self._input = files
        self._go_on = go_on
        self._lock = threading.Lock()
        self.known_sizes: Values | None = None
        self.known_nulls: Values | None = None

    @property
    def are_available(self) -> bool:
        """Whether the format tells where the bytes are."""
        return self._input.format in ("mosaic", "parquet")

    @property
    def have_nulls(self) -> bool:
        """Whether metadata may contain numbers of nulls."""
        if self._input.format == "parquet":
            return True
        return any(
            file.is_open and file.metadata.num_row_groups and file.metadata.has_statistics(0)
            for file in self._files()
        )

    def sizes(self) -> Values:
        """Return the bytes of each column in all files."""
        with self._lock:
            if self.known_sizes is None:
                self.known_sizes = self._measured()
            return self.known_sizes

    def nulls(self) -> Values:
        """Return the number of nulls of each column."""
        with self._lock:
            if self.known_nulls is None:
                if not self.have_nulls:
                    raise UnsupportedError("the files contain no statistics with numbers of nulls")
                self.known_nulls = self._counted()
            return self.known_nulls

    def _files(self) -> list[File]:
        fileset = self._input.fileset
        return [one for one in (fileset.files if fileset else ()) if isinstance(one, File)]

    def _measured(self) -> Values:
        if self._input.format == "parquet":
            return self._of_parquet(lambda chunk: chunk.total_compressed_size)
        entries = entries_of(self._input)
        measure(entries, self._input, lambda step: self._go_on())
        return [entry.size for entry in entries]

    def _counted(self) -> Values:
        if self._input.format == "parquet":
            return self._of_parquet(
                lambda chunk: chunk.statistics.null_count if chunk.statistics else None
            )
        names = self._input.names()
        totals: dict[str, int | None] = dict.fromkeys(names, 0)
        for file in self._files():
            metadata = file.metadata
            for group in range(metadata.num_row_groups):
                found = metadata.column_statistics(group)
                rows = metadata.rows_of(group)
                for name, total in totals.items():
                    if total is None:
                        continue
                    if name in found:
                        totals[name] = total + found[name].null_count
                    else:  # no statistics, or the file lacks the column
                        absent = file.columns.find(name) is None
                        totals[name] = total + rows if absent else None
        return [totals[name] for name in names]

    def _of_parquet(self, value_of: Any) -> Values:
        """Sum a figure of the column chunks of Parquet files; a nested column has several."""
        totals: dict[str, int | None] = dict.fromkeys(self._input.names(), 0)
        for one in self._input.files:
            for name, chunk in formats.parquet_chunks(one):
                value, total = value_of(chunk), totals.get(name)
                totals[name] = None if value is None or total is None else total + value
        return [totals[name] for name in self._input.names()]


# ---- treemaps


def areas_of_prefix(columns: ColumnIndex, sizes: ColumnSizes, prefix: str) -> dict[str, Any]:
    """Return the bytes of the groups below a prefix, the largest first."""
    values = sizes.sizes()
    areas = []
    for way, positions in columns.branches(prefix):
        size = sum(values[position] or 0 for position in positions)
        if len(positions) == 1:
            areas.append(_column_area(columns, positions[0], size))
        else:
            areas.append(
                {"name": printable(way), "at": way, "columns": len(positions), "bytes": size}
            )
    return _largest(areas)


def areas_of_buckets(
    files: Input, columns: ColumnIndex, sizes: ColumnSizes, bucket: str
) -> dict[str, Any]:
    """Return the bytes of all buckets, or of the columns of one bucket, the largest first."""
    if files.fileset is None:
        raise UnsupportedError(f"only Mosaic files have buckets, and the format is {files.format}")
    if not bucket:
        total: Counter[int] = Counter()
        members: Counter[int] = Counter()
        for part in _parts(files):
            metadata = part.metadata
            for group in range(metadata.num_row_groups):
                for number, place in metadata.bucket_places(group):
                    total[number] += place.compressed_size
            for number in range(metadata.num_buckets):
                num_columns = len(metadata.schema_block.bucket_columns(number))
                members[number] = max(members[number], num_columns)
        return _largest(
            [
                {"name": f"bucket {number}", "at": str(number), "columns": members[number]}
                | {"bytes": size}
                for number, size in total.items()
            ]
        )
    if not (bucket.isascii() and bucket.isdigit()):
        raise RequestError(f"invalid bucket {bucket!r}")
    values = sizes.sizes()
    positions = {name: position for position, name in enumerate(files.names())}
    inside: dict[int, None] = {}
    for part in _parts(files):
        block = part.metadata.schema_block
        if int(bucket) < part.metadata.num_buckets:
            for stored in block.bucket_columns(int(bucket)):
                name = block.name(stored)
                first = name.partition(".")[0]  # of a field of a struct
                position = positions.get(name, positions.get(first))
                if position is not None:
                    inside[position] = None
    return _largest([_column_area(columns, one, values[one] or 0) for one in inside])


def _parts(files: Input) -> Iterator[File]:
    for file in files.fileset.files if files.fileset else ():
        yield from file.parts


def _column_area(columns: ColumnIndex, position: int, size: int) -> dict[str, Any]:
    entry = columns.entry(position)
    return {"name": entry["name"], "id": position, "type": entry["type"], "bytes": size}


def _largest(areas: list[dict[str, Any]]) -> dict[str, Any]:
    """Sort areas by size; the smallest become one if there are too many to draw."""
    areas.sort(key=lambda area: -area["bytes"])
    rest = areas[_MAX_AREAS:]
    found = {"bytes": sum(area["bytes"] for area in areas), "areas": areas[:_MAX_AREAS]}
    if rest:
        size = sum(area["bytes"] for area in rest)
        found["rest"] = {"groups": len(rest), "bytes": size}
    return found
