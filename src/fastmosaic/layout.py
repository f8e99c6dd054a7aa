"""What the writer decides by cost: monolithic or paged buckets, where row groups end."""

from __future__ import annotations

from typing import Final

from .format._encode import EncodedPages

# A page this large is worth a slot of its own; see docs/layout.md for the measurements.
DEFAULT_PAGE_SIZE_THRESHOLD: Final = 2048
# A row group smaller than this costs more in headers than it holds: a batch is not cut finer.
MIN_ROW_GROUP_ROWS: Final = 64
# Rows are buffered as Arrow arrays, where a null takes as much room as a value. A row group ends
# when its buffers take this many times the bytes asked for, lest sparse columns pile up.
MAX_ARROW_BYTES_FACTOR: Final = 2
MIN_ARROW_BYTES: Final = 16 << 20


def is_paged(pages: EncodedPages, header_bytes: int, threshold: int) -> bool:
    """Whether a bucket is worth a page for each column: the reference's rule.

    Both the whole bucket and its mean page must reach the threshold; columns of nulls, and
    constants without nulls, do not count as pages.
    """
    monolithic_bytes, num_pages, page_bytes = pages.sizes()
    return (
        num_pages > 0
        and monolithic_bytes + header_bytes >= threshold
        and page_bytes // num_pages >= threshold
    )


def num_pieces(num_rows: int, size: int, row_group_bytes: int) -> int:
    """How many pieces of equal length a batch of `size` bytes is cut into."""
    pieces = -(-size // max(row_group_bytes, 1))
    return max(1, min(pieces, num_rows // MIN_ROW_GROUP_ROWS))


def is_full(buffered: int, arrow_bytes: int, row_group_bytes: int) -> bool:
    """Whether the rows buffered so far are a row group."""
    limit = max(MAX_ARROW_BYTES_FACTOR * row_group_bytes, MIN_ARROW_BYTES)
    return buffered >= row_group_bytes or arrow_bytes >= limit
