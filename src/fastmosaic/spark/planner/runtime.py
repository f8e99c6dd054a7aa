"""Which columns may filter a scan at run time, with values from the other side of a join.

Spark computes such values before it runs the scan, which must wait for them. So only those columns
are offered whose values can skip row groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...dataset.fileset import FileSet
from ...dataset.joined_files import ReadableFile
from ...dataset.tasks import Split, SplitScan
from .aggregates import known_bounds, order

__all__ = ["runtime_columns"]

# Looking at the bounds of more row groups and columns than this takes too long.
MAX_BOUNDS: Final = 20_000


def runtime_columns(files: FileSet, scan: SplitScan, splits: Sequence[Split]) -> list[str]:
    """Return the columns of a scan whose values can skip some of its row groups."""
    keys = set(files.partitions.names)
    parts = [part for split in splits for part in split.parts]
    count = sum(len(part.groups) for part in parts)
    if count < 2:
        return []
    if count * len(scan.schema) > MAX_BOUNDS:
        return [name for name in scan.schema.names if name in keys]
    groups = [(scan.file_of(part), group) for part in parts for group in part.groups]
    return [
        name for name in scan.schema.names if name in keys or _are_disjoint(files, name, groups)
    ]


def _are_disjoint(files: FileSet, name: str, groups: Sequence[tuple[ReadableFile, int]]) -> bool:
    """Return whether there are two row groups that cannot contain the same value of a column."""
    type = files.columns.field(name).type
    highest_low: Any = None
    lowest_high: Any = None
    for file, group in groups:
        known = known_bounds(files, (name,), type, file, group)
        if known is None or known[1] is None or known[2] is None:
            return False
        low, high = order(known[1]), order(known[2])
        highest_low = low if highest_low is None else max(low, highest_low)
        lowest_high = high if lowest_high is None else min(high, lowest_high)
    return highest_low is not None and bool(highest_low > lowest_high)
