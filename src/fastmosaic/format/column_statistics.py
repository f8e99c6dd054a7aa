"""Statistics of columns as Python values, decoded when they are asked for."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from .metadata import FileMetaData


class ColumnStatistics(NamedTuple):
    """Statistics of one column in one row group, as Python values.

    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [3, None, 2]}), sink, write_statistics=["id"])
    >>> null_count, low, high = fm.read_metadata(sink.getvalue()).row_group(0).statistics["id"]
    >>> null_count, low, high
    (1, 2, 3)
    """

    null_count: int
    min: Any = None
    max: Any = None

    @property
    def has_min_max(self) -> bool:
        return self.min is not None

    def to_dict(self) -> dict[str, Any]:
        return {
            "null_count": self.null_count,
            "has_min_max": self.has_min_max,
            "min": self.min,
            "max": self.max,
        }


class GroupStatistics(Mapping[str, ColumnStatistics]):
    """The statistics of a row group by column name, read only.

    One column is decoded alone. Iterating decodes all columns, once.
    """

    def __init__(self, metadata: FileMetaData, group: int) -> None:
        self._metadata = metadata
        self._group = group

    def __getitem__(self, name: str) -> ColumnStatistics:
        if "_all" in self.__dict__:
            return self._all[name]
        position = self._metadata.schema_block.find(name)
        found = None
        if position >= 0:
            for found in self._metadata.statistics(self._group, (position,)):  # noqa: B007
                pass  # of several, the last one counts
        if found is None:
            raise KeyError(name)
        low, high = self._metadata.restored_bounds(found)
        return ColumnStatistics(found.null_count, as_python(low), as_python(high))

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._metadata.columns_with_statistics(self._group))

    def items(self) -> ItemsView[str, ColumnStatistics]:
        return self._all.items()

    def values(self) -> ValuesView[ColumnStatistics]:
        return self._all.values()

    @cached_property
    def _all(self) -> dict[str, ColumnStatistics]:
        return self._metadata.column_statistics(self._group)

    def __reduce__(self) -> Any:
        return GroupStatistics, (self._metadata, self._group)

    def __repr__(self) -> str:
        return repr(self._all)


def as_python(scalar: pa.Scalar | None) -> Any:
    """Return the Python value, or the scalar itself where Python cannot represent it."""
    if scalar is None:
        return None
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, KeyError):
        return scalar  # nanoseconds without pandas, years beyond 9999, an unknown time zone
