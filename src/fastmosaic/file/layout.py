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
# Pages of this size compress as well separately as together, so both need not be tried.
SURE_PAGE_BYTES: Final = 16 << 10
# In between, both layouts are tried. A paged bucket may be larger, because a reader of one column
# decompresses less: by an eighth for each MiB that it saves, and by an eighth at most.
WORTH_OF_A_MIB: Final = 1 / 8
MAX_WORTH: Final = 1 / 8
# The headers of a smaller row group cost more than its values, so batches are not split further.
MIN_ROW_GROUP_ROWS: Final = 64
# Rows are buffered as Arrow arrays, where a null occupies as much memory as a value. To bound the
# memory for sparse columns, a row group ends when its arrays occupy this multiple of its size.
MAX_ARROW_BYTES_FACTOR: Final = 2
MIN_ARROW_BYTES: Final = 16 << 20


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
    if bucket_bytes < MIN_PAGED_BUCKET_BYTES:
        return Choice.MONOLITHIC
    if mean_page_bytes >= SURE_PAGE_BYTES or bucket_bytes > MAX_BLOCK_BYTES:
        return Choice.PAGED
    return Choice.TRY_BOTH


def is_paged_better(paged: int, monolithic: int, uncompressed: int) -> bool:
    """Return whether a paged bucket is worth its size, which may be larger."""
    worth = min(uncompressed / (1 << 20) * WORTH_OF_A_MIB, MAX_WORTH)
    return paged <= monolithic * (1 + worth)


def num_pieces(num_rows: int, size: int, row_group_bytes: int) -> int:
    """Return into how many slices of equal length a batch of `size` bytes is split."""
    pieces = -(-size // max(row_group_bytes, 1))
    return max(1, min(pieces, num_rows // MIN_ROW_GROUP_ROWS))


def is_full(buffered: int, arrow_bytes: int, row_group_bytes: int) -> bool:
    """Return whether the buffered rows fill a row group."""
    limit = max(MAX_ARROW_BYTES_FACTOR * row_group_bytes, MIN_ARROW_BYTES)
    return buffered >= row_group_bytes or arrow_bytes >= limit
