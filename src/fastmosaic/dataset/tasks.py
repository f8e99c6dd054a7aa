"""A query shared out to processes: what each reads, and all that it needs to know for that.

A `Scan` is the same for all and goes to each process once; a `Split` is small. Together they
read without opening a file anew: its footer and index travel with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from ..format.footer import Footer
from ..format.metadata import FileMetaData
from ..format.schema import SchemaBlock
from ..schemas.fit import Fits
from .discovery import Found
from .fileset import File, FileSet, Query, Schemas, windows

# Opening another file costs about as much as reading so many bytes of it.
OPEN_COST_BYTES: Final = 1 << 20
# Row groups of a split are read together up to so many bytes.
WINDOW_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """Row groups of one file. Its schema block is in the scan."""

    found: Found
    values: tuple[pa.Scalar, ...]
    file_size: int
    footer: Footer
    index: bytes
    block: int
    groups: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Split:
    """What one process reads."""

    parts: tuple[Part, ...]
    num_rows: int
    size: int  # about how many bytes are read


class Scan:
    """The columns of a query, in any process."""

    def __init__(
        self, schema: pa.Schema, partitions: pa.Schema, blocks: Sequence[SchemaBlock]
    ) -> None:
        self.schema = schema
        self._partitions = partitions
        self._blocks = list(blocks)

    def __reduce__(self) -> Any:
        return Scan, (self.schema, self._partitions, self._blocks)

    def read(self, split: Split, *, use_threads: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows of a split; memory stays bounded."""
        fits = Fits(self.schema, self._partitions)
        for part in split.parts:
            metadata = FileMetaData(part.footer, self._blocks[part.block], part.index)
            file = File(part.found, part.values, Schemas(), (metadata, part.file_size))
            for piece in windows([(file, list(part.groups))], fits, WINDOW_BYTES):
                yield from file.scan(fits, piece.groups, use_threads)


def share_out(
    files: FileSet, query: Query, *, max_bytes: int, min_splits: int = 1
) -> tuple[Scan, list[Split]]:
    """The row groups that may match, in order, as splits of up to `max_bytes` of wanted columns.

    They are smaller, if that makes as many as `min_splits`. A row group is never cut.
    """
    fits = Fits(query.schema, files.partitions)
    blocks: dict[SchemaBlock, int] = {}
    wanted = [
        (
            file,
            group,
            file.metadata.projected_bytes(
                group, fits.of_block(file.metadata.schema_block).positions
            ),
        )
        for file, groups in files.plan(query)
        for group in groups
    ]
    total = sum(size for _, _, size in wanted)
    limit = max(OPEN_COST_BYTES, min(max_bytes, -(-total // max(1, min_splits))))
    splits: list[Split] = []
    held: list[tuple[File, list[int]]] = []
    size = cost = num_rows = 0

    def close() -> None:
        parts = tuple(_part(file, groups, blocks) for file, groups in held)
        splits.append(Split(parts, num_rows, size))

    for file, group, group_size in wanted:
        is_new = not held or held[-1][0] is not file
        more = group_size + (OPEN_COST_BYTES if is_new and held else 0)
        if held and cost + more > limit:
            close()
            held, size, cost, num_rows = [], 0, 0, 0
            is_new, more = True, group_size
        if is_new:
            held.append((file, []))
        held[-1][1].append(group)
        size, cost = size + group_size, cost + more
        num_rows += file.metadata.rows_of(group)
    if held:
        close()
    return Scan(query.schema, files.partitions, list(blocks)), splits


def _part(file: File, groups: Sequence[int], blocks: dict[SchemaBlock, int]) -> Part:
    metadata = file.metadata
    block = blocks.setdefault(metadata.schema_block, len(blocks))
    return Part(
        file.found,
        file.values,
        file.size,
        metadata.footer,
        metadata.index,
        block,
        tuple(groups),
    )
