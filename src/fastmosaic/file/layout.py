"""What the writer decides by cost: monolithic or paged buckets, where row groups end."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from ..format.bucket import EncodedPages
from ..format.wire import MAX_BLOCK_BYTES

# Monolithic or paged: see docs/layout.md for the measurements behind these.
#
# A bucket smaller than this decompresses in less time than a second read takes, and pages of it
# would be too short to compress well.
MIN_PAGED_BUCKET_BYTES: Final = 64 << 10
# Pages this long compress as well alone as together: there is nothing to try.
SURE_PAGE_BYTES: Final = 16 << 10
# In between both layouts are tried. What a reader of one column need not decompress is worth some
# bytes on disk: an eighth for each MiB, and an eighth at most.
WORTH_OF_A_MIB: Final = 1 / 8
MAX_WORTH: Final = 1 / 8
# A row group smaller than this costs more in headers than it holds: a batch is not cut finer.
MIN_ROW_GROUP_ROWS: Final = 64
# Rows are buffered as Arrow arrays, where a null takes as much room as a value. A row group ends
# when its buffers take this many times the bytes asked for, lest sparse columns pile up.
MAX_ARROW_BYTES_FACTOR: Final = 2
MIN_ARROW_BYTES: Final = 16 << 20


class Choice(Enum):
    MONOLITHIC = auto()
    PAGED = auto()
    TRY_BOTH = auto()


def choose(pages: EncodedPages, header_bytes: int, threshold: int | None) -> Choice:
    """Which layout a bucket gets; with a threshold, by the rule of the reference.

    There both the whole bucket and its mean page must reach the threshold. Columns of nulls, and
    constants without nulls, do not count as pages.
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
    """Whether the bytes that a paged bucket takes, if they are more, are worth it."""
    worth = min(uncompressed / (1 << 20) * WORTH_OF_A_MIB, MAX_WORTH)
    return paged <= monolithic * (1 + worth)


def num_pieces(num_rows: int, size: int, row_group_bytes: int) -> int:
    """How many pieces of equal length a batch of `size` bytes is cut into."""
    pieces = -(-size // max(row_group_bytes, 1))
    return max(1, min(pieces, num_rows // MIN_ROW_GROUP_ROWS))


def is_full(buffered: int, arrow_bytes: int, row_group_bytes: int) -> bool:
    """Whether the rows buffered so far are a row group."""
    limit = max(MAX_ARROW_BYTES_FACTOR * row_group_bytes, MIN_ARROW_BYTES)
    return buffered >= row_group_bytes or arrow_bytes >= limit
