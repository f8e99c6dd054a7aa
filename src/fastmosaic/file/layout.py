"""Layout by cost: which buckets are monolithic or paged, and where row groups end."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from ..format.bucket import EncodedPages
from ..format.wire import MAX_BLOCK_BYTES

# Monolithic or paged: see docs/layout.md for the measurements behind these.
#
# A smaller bucket is decompressed in less time than a second read takes, and its pages would be too
# short to compress well.
MIN_PAGED_BUCKET_BYTES: Final = 64 << 10
# Unless its pages have this size: then few columns have a bucket of their own.
MIN_TRIED_PAGE_BYTES: Final = 2 << 10
# Pages of this size compress as well separately as together, so both need not be tried.
SURE_PAGE_BYTES: Final = 16 << 10
# In between, both layouts are tried. A paged bucket may be larger, because a reader of one column
# decompresses less: by an eighth for each MiB that it saves, and by an eighth at most.
WORTH_OF_A_MIB: Final = 1 / 8
MAX_WORTH: Final = 1 / 8
# The headers of a smaller row group cost more than its values, so batches are not split further.
MIN_ROW_GROUP_ROWS: Final = 64
# Rows that wait may take more memory than their size. A row group ends when they take this multiple
# of its size, but not before they take so many bytes.
MAX_MEMORY_FACTOR: Final = 1.4
MIN_MEMORY: Final = 16 << 20


class Choice(Enum):
    """How to lay out a bucket."""

    MONOLITHIC = auto()
    PAGED = auto()
    TRY_BOTH = auto()


def choose(pages: EncodedPages, header_bytes: int, threshold: int | None) -> Choice:
    """Return the layout of a bucket; with a threshold, by the rule of the Apache writer.

    That rule requires both the whole bucket and its mean page to reach the threshold. Columns that
    are all null, or constant without nulls, do not count as pages.
    """
    bucket_bytes, num_pages, page_bytes = pages.sizes()
    bucket_bytes += header_bytes
    if num_pages == 0:
        return Choice.MONOLITHIC
    mean_page_bytes = page_bytes // num_pages
    if threshold is not None:
        if bucket_bytes >= threshold and mean_page_bytes >= threshold:
            return Choice.PAGED
        return Choice.MONOLITHIC
    if bucket_bytes < MIN_PAGED_BUCKET_BYTES and mean_page_bytes < MIN_TRIED_PAGE_BYTES:
        return Choice.MONOLITHIC
    if num_pages == 1 and bucket_bytes <= MAX_BLOCK_BYTES:
        return Choice.MONOLITHIC  # nothing else would have to be decompressed
    if mean_page_bytes >= SURE_PAGE_BYTES or bucket_bytes > MAX_BLOCK_BYTES:
        return Choice.PAGED
    return Choice.TRY_BOTH


def is_paged_better(paged: int, monolithic: int, uncompressed: int) -> bool:
    """Return whether a paged bucket is worth its size, which may be larger."""
    worth = min(uncompressed / (1 << 20) * WORTH_OF_A_MIB, MAX_WORTH)
    return paged <= monolithic * (1 + worth)


def row_group_ends(
    num_rows: int, size: int, pending: int, row_group_bytes: int, fills: bool
) -> list[int]:
    """Return where to split a batch of `size` bytes, each time after so many rows, and its end.

    Each part fills a row group. With `fills`, the first one only fills the row group that has
    `pending` bytes.
    """
    limit = max(row_group_bytes, 1)
    if fills and pending + size > limit:
        first = max(MIN_ROW_GROUP_ROWS, num_rows * (limit - pending) // size)
        return [first, num_rows] if num_rows - first >= MIN_ROW_GROUP_ROWS else [num_rows]
    parts = max(1, min(size // limit, num_rows // MIN_ROW_GROUP_ROWS))
    return [num_rows * i // parts for i in range(1, parts + 1)]


def is_full(num_bytes: int, memory: int, row_group_bytes: int) -> bool:
    """Return whether pending rows fill a row group."""
    limit = max(int(MAX_MEMORY_FACTOR * row_group_bytes), MIN_MEMORY)
    return num_bytes >= row_group_bytes or memory >= limit
