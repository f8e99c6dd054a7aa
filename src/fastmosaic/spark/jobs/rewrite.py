"""Work items that read files and write others: what `convert` and `compact` have in common."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ...convert import read as formats
from ...convert.write import Target, open_target
from ...dataset.discovery import Found
from ...schemas.fit import Fits
from ...storage.location import as_arrow
from ...storage.staging import Staging
from .run import BadFile, Records, Result, blaming

SortKeys: TypeAlias = tuple[tuple[str, str], ...]

# A file may pass its size by so much if that is all there is: one that is too large is better than
# a small one after it.
_TOLERANCE: Final = 1.6
# What rows in memory come to in a file, until the first file has shown it.
_SORTED_RATIO: Final = 0.3


@dataclass(frozen=True, slots=True)
class Piece:
    """A file, or groups of one, and about how many bytes that is."""

    found: Found
    format: str
    groups: tuple[int, ...] | None
    size: int


@dataclass(frozen=True, slots=True)
class Item:
    """Pieces that one task makes into files of one directory."""

    number: int
    directory: str  # below that of the data set
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Rewrite:
    """What all tasks of a job do; sent to each."""

    staging: Staging
    schema: pa.Schema
    target_format: str
    target_bytes: int
    sort_by: SortKeys
    drops: bool  # whether columns that the schema lacks are left out
    skips: bool  # whether bad files are left out
    options: Mapping[str, Any]
    excluded: frozenset[str] = frozenset()  # names of files

    def run(self, item: Item) -> Result:
        """Runs in a task. If a file turns out bad, it begins anew without it."""
        excluded = set(self.excluded)
        failures: list[tuple[str, str]] = []
        while True:
            pieces = [piece for piece in item.pieces if piece.found.name not in excluded]
            output = _Output(self, item)
            try:
                for piece in pieces:
                    with blaming(piece.found.name):
                        for batch in self._batches(piece):
                            output.write(batch)
                output.finish(is_needed=bool(pieces))
            except BadFile as error:
                output.abandon()
                if not self.skips:
                    raise
                excluded.add(error.file)
                failures.append((error.file, error.problem))
            except BaseException:
                output.abandon()
                raise
            else:
                return {
                    "files": output.files,
                    "failures": failures,
                    "excluded": sorted(excluded),
                }

    def _batches(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        fits = Fits(self.schema, drop=self.drops)
        for batch in formats.batches(piece.found, piece.format, piece.groups, self.schema):
            yield from fits(batch)


class _Output:
    """The files that a task writes, one after another."""

    def __init__(self, rewrite: Rewrite, item: Item) -> None:
        self._rewrite = rewrite
        self._item = item
        self._attempt = uuid.uuid4().hex
        self._limit = rewrite.target_bytes
        if sum(map(estimate, item.pieces)) <= rewrite.target_bytes * _TOLERANCE:
            self._limit = int(rewrite.target_bytes * _TOLERANCE)
        self._target: Target | None = None
        self._file = ""
        self._rows = 0
        self._held: list[pa.RecordBatch] = []  # to be sorted
        self._held_bytes = 0
        self._ratio = _SORTED_RATIO
        self._factor = 1.0  # of a file's size to what it was expected to be
        self.files: list[tuple[str, int, int]] = []  # below the directory, rows, bytes

    def write(self, batch: pa.RecordBatch) -> None:
        for part in self._parts(batch):
            if self._rewrite.sort_by:
                self._held.append(part)
                self._held_bytes += part.nbytes
                if self._held_bytes * self._ratio >= self._limit:
                    self._close()
                continue
            self._put(part)
            assert self._target is not None
            if self._target.size() * self._factor >= self._limit:
                self._close()

    def finish(self, *, is_needed: bool) -> None:
        """Complete the last file; if `is_needed`, there is one, be it without rows."""
        if self._target is not None or self._held or (is_needed and not self.files):
            self._close()

    def abandon(self) -> None:
        if self._target is not None:
            self._target.abandon()

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batch, cut so that a file does not pass its size by much."""
        size = batch.nbytes
        count = max(1, min(batch.num_rows, 4 * size // max(1, self._rewrite.target_bytes)))
        ends = [batch.num_rows * i // count for i in range(count + 1)]
        for start, end in pairwise(ends):
            yield batch.slice(start, end - start)

    def _put(self, batch: pa.RecordBatch) -> None:
        if self._target is None:
            self._open()
        assert self._target is not None
        self._target.write(batch)
        self._rows += batch.num_rows

    def _open(self) -> None:
        rewrite = self._rewrite
        suffix = formats.SUFFIXES[rewrite.target_format][0]
        name = f"part-{self._item.number:05d}-{len(self.files):03d}-{self._attempt}{suffix}"
        self._file = f"{self._item.directory}/{name}" if self._item.directory else name
        self._target = open_target(
            rewrite.target_format,
            rewrite.staging.path(self._file),
            rewrite.staging.filesystem,
            rewrite.schema,
            rewrite.options,
        )

    def _close(self) -> None:
        held_bytes = self._held_bytes
        if self._held:
            table = pa.Table.from_batches(self._held).combine_chunks()
            self._held, self._held_bytes = [], 0
            for batch in table.sort_by(list(self._rewrite.sort_by)).to_batches():
                self._put(batch)
        if self._target is None:
            self._open()
        assert self._target is not None
        expected = self._target.size()
        size = self._target.close()
        self._factor = size / max(1, expected)
        if held_bytes:
            self._ratio = size / held_bytes
        self.files.append((self._file, self._rows, size))
        self._target = None
        self._rows = 0


def estimate(piece: Piece) -> float:
    """What a piece may come to in the target."""
    return piece.size * formats.RATIOS[piece.format]


def pack(directories: Mapping[str, Sequence[Piece]], target_bytes: int) -> dict[int, Item]:
    """Items that make a file of about `target_bytes` each: pieces in order, shared out evenly."""
    items: dict[int, Item] = {}
    for directory, pieces in directories.items():
        total = sum(map(estimate, pieces))
        bound = total / max(1, round(total / target_bytes))
        shares: dict[int, list[Piece]] = {}
        taken = 0.0
        for piece in pieces:
            size = estimate(piece)
            # It goes where the middle of it lies.
            shares.setdefault(int((taken + size / 2) // bound) if bound else 0, []).append(piece)
            taken += size
        for share in shares.values():
            items[len(items)] = Item(len(items), directory, tuple(_joined(share)))
    return items


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The same, but groups of one file that follow each other as one piece."""
    result: list[Piece] = []
    for piece in pieces:
        last = result[-1] if result else None
        if last is not None and last.found is piece.found and last.groups and piece.groups:
            groups = last.groups + piece.groups
            result[-1] = Piece(last.found, last.format, groups, last.size + piece.size)
        else:
            result.append(piece)
    return result


def records_of(staging: Staging) -> Records:
    """The results of finished items, which go when the staging area does."""
    return Records(f"{staging.root}/_done", staging.filesystem)


def finished(staging: Staging, records: Records, items: dict[int, Item]) -> dict[int, Result]:
    """Results of an earlier run whose files are all there."""
    storage = as_arrow(staging.filesystem)
    return {
        number: result
        for number, result in records.load().items()
        if number in items
        and all(
            storage.get_file_info(f"{staging.root}/{file}").size == size
            for file, _, size in result["files"]
        )
    }


def clear_stale(staging: Staging, verb: str) -> None:
    """Remove what runs with other choices, or of other files, had left for this directory."""
    if staging.filesystem is not None:
        return
    parent, base = os.path.split(staging.base_dir)
    places = ((parent, f".{base[:50]}.{verb}-"), (staging.base_dir, f"_staging-{verb}-"))
    for place, start in places:
        for name in os.listdir(place):
            if name.startswith(start):
                shutil.rmtree(os.path.join(place, name), ignore_errors=True)
