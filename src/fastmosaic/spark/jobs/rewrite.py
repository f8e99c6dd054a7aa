"""Work items that read files and write new ones, as `convert`, `compact` and `concat` do."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from ...convert import read as formats
from ...convert.write import Target, open_target
from ...dataset.concat import open_sources
from ...dataset.found import Found
from ...errors import MosaicError
from ...file.concat import Mode, concatenate
from ...format.user_schema import Attached
from ...schemas.fit import Fits, plain_schema
from ...storage.debris import stagings_of
from ...storage.remote import storage_of
from ...storage.staging import Staging
from .records import Records, Result
from .run import BadFile, blaming, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SortKeys: TypeAlias = tuple[tuple[str, str], ...]

# A file may exceed its target size by this factor if that saves a small file after it.
_TOLERANCE: Final = 1.6
# Expected size of rows in a file, relative to memory, until the first file is written.
_SORTED_RATIO: Final = 0.3


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A source file, or some of its row groups, and its approximate size in bytes."""

    found: Found
    format: str
    groups: tuple[int, ...] | None
    size: int


@dataclass(frozen=True, slots=True)
class RewriteItem:
    """Parts that one task writes to files of one directory."""

    number: int
    directory: str  # below the directory of the dataset
    parts: tuple[SourcePart, ...]


@dataclass(frozen=True)
class Rewrite:
    """The work of all tasks of a job; it is sent to each of them."""

    staging: Staging
    schema: pa.Schema
    target_format: str
    target_bytes: int
    sort_by: SortKeys
    drops: bool  # whether to drop columns that are not in the schema
    skips: bool  # whether to skip bad files
    options: Mapping[str, Any]
    excluded: frozenset[str] = frozenset()  # names of files

    def run(self, item: RewriteItem) -> Result:
        """Write the files of an item. After skipping a bad file it starts again. Runs in a task."""
        excluded = set(self.excluded)
        failures: list[tuple[str, str]] = []
        while True:
            parts = [part for part in item.parts if part.found.name not in excluded]
            output = _TargetFiles(self, item)
            try:
                for part in parts:
                    with blaming(part.found.name):
                        for batch in self._batches(part):
                            output.write(batch)
                output.finish(is_needed=bool(parts))
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

    def fits_one_file(self, item: RewriteItem) -> bool:
        """Return whether the rows of an item go to one file, which may exceed its target size."""
        return sum(map(_estimate, item.parts)) <= self.target_bytes * _TOLERANCE

    def new_file(self, item: RewriteItem, number: int, attempt: str) -> str:
        """Return the path of a new file below the directory; each `attempt` has its own files."""
        suffix = formats.SUFFIXES[self.target_format][0]
        name = f"{self.staging.prefix}-{item.number:05d}-{number:03d}-{attempt}{suffix}"
        return f"{item.directory}/{name}" if item.directory else name

    def _batches(self, part: SourcePart) -> Iterator[pa.RecordBatch]:
        fits = Fits(self.schema, drop=self.drops)
        # Text is read with plain types, which its parsers know.
        schema = plain_schema(self.schema)
        for batch in formats.batches(part.found, part.format, part.groups, schema):
            yield from fits(batch)


@dataclass(frozen=True)
class Merging(Rewrite):
    """Rewrites Mosaic files, and copies row groups where that is possible."""

    mode: Mode = "auto"

    @classmethod
    def of(
        cls,
        staging: Staging,
        schema: pa.Schema,
        target_bytes: int,
        mode: Mode,
        options: Mapping[str, Any],
    ) -> Merging:
        """Return the work of merging files into ones of about `target_bytes`."""
        args = staging, schema, "mosaic", target_bytes, ()
        return cls(*args, drops=False, skips=False, options=options, mode=mode)

    def run(self, item: RewriteItem) -> Result:
        """Merge the files of an item. Runs in a task."""
        if self.mode == "rewrite" or not (self.mode == "copy" or self.fits_one_file(item)):
            return super().run(item)
        file = self.new_file(item, 0, uuid.uuid4().hex)
        try:
            report = concatenate(
                open_sources([part.found for part in item.parts]),
                self.staging.open(file),
                schema=self.schema,
                mode=self.mode,
                **self.options,
            )
        except MosaicError as error:
            raise BadFile(error.file or file, error) from error
        return {
            "files": [(file, report.num_rows, report.num_bytes)],
            "copied": report.num_copied,
            "failures": [],
            "excluded": [],
        }


def merge(
    spark: SparkSession,
    verb: str,
    staging: Staging,
    items: dict[int, RewriteItem],
    work: Merging,
    resume: bool,
) -> tuple[dict[int, Result], int]:
    """Return the results of all items, and how many of them an earlier run had finished.

    If a file is bad, nothing of the staging is left.
    """
    records = records_of(staging)
    if not resume:
        records.clear()
    results = finished(staging, records, items)
    resumed = len(results)
    todo = {number: item for number, item in items.items() if number not in results}
    try:
        results |= run(spark, verb, todo, work.run, records=records, done=resumed)
    except BadFile as error:
        staging.abandon()
        raise error.to_error() from None
    return {number: results[number] for number in items}, resumed


class _TargetFiles:
    """The files that a task writes, one after another."""

    def __init__(self, rewrite: Rewrite, item: RewriteItem) -> None:
        self._rewrite = rewrite
        self._item = item
        self._attempt = uuid.uuid4().hex
        self._limit = rewrite.target_bytes
        if rewrite.fits_one_file(item):
            self._limit = int(rewrite.target_bytes * _TOLERANCE)
        self._target: Target | None = None
        self._file = ""
        self._rows = 0
        self._held: list[pa.RecordBatch] = []  # rows to sort
        self._held_bytes = 0
        self._ratio = _SORTED_RATIO
        self._factor = 1.0  # size of a file relative to its estimate
        self.files: list[tuple[str, int, int]] = []  # path below the directory, rows, bytes

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
        """Complete the last file. If `is_needed`, write at least one file, even without rows."""
        if self._target is not None or self._held or (is_needed and not self.files):
            self._close()

    def abandon(self) -> None:
        if self._target is not None:
            self._target.abandon()

    def _parts(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Cut a batch so that a file does not exceed its size by much."""
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
        self._file = rewrite.new_file(self._item, len(self.files), self._attempt)
        self._target = open_target(
            rewrite.target_format,
            rewrite.staging.open(self._file),
            None,
            rewrite.schema,
            rewrite.options,
        )

    def _sorted(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are held, in order.

        Arrow cannot sort or combine arrays of all types, so they are sorted with plain types.
        """
        held, self._held, self._held_bytes = self._held, [], 0
        schema = self._rewrite.schema
        fits = Fits(plain_schema(schema))
        plain = [part for batch in held for part in fits(batch)]
        table = pa.Table.from_batches(plain).combine_chunks().sort_by(list(self._rewrite.sort_by))
        if self._rewrite.target_format != "mosaic":
            attached = Attached(schema, restores=True)
            yield from map(attached.put_on, table.to_batches())
            return
        for batch in held:  # without rows, for their dictionaries
            yield batch.slice(0, 0)
        yield from table.to_batches()

    def _close(self) -> None:
        held_bytes = self._held_bytes
        if self._held:
            for batch in self._sorted():
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


def _estimate(part: SourcePart) -> float:
    """Estimate the size of a part in the target format."""
    return part.size * formats.RATIOS[part.format]


def pack(
    directories: Mapping[str, Sequence[SourcePart]], target_bytes: int
) -> dict[int, RewriteItem]:
    """Group parts, in order, into items that each write about `target_bytes`."""
    items: dict[int, RewriteItem] = {}
    for directory, parts in directories.items():
        total = sum(map(_estimate, parts))
        bound = total / max(1, round(total / target_bytes))
        shares: dict[int, list[SourcePart]] = {}
        taken = 0.0
        for part in parts:
            size = _estimate(part)
            # A part belongs to the share that contains its middle.
            shares.setdefault(int((taken + size / 2) // bound) if bound else 0, []).append(part)
            taken += size
        for share in shares.values():
            items[len(items)] = RewriteItem(len(items), directory, tuple(_joined(share)))
    return items


def _joined(parts: Sequence[SourcePart]) -> list[SourcePart]:
    """Merge adjacent row groups of the same file into one part."""
    result: list[SourcePart] = []
    for part in parts:
        last = result[-1] if result else None
        if last is not None and last.found is part.found and last.groups and part.groups:
            groups = last.groups + part.groups
            result[-1] = SourcePart(last.found, last.format, groups, last.size + part.size)
        else:
            result.append(part)
    return result


def records_of(staging: Staging) -> Records:
    """Return the records of finished items, which are in the staging directory."""
    return Records(f"{staging.root}/_done", staging.filesystem)


def finished(
    staging: Staging, records: Records, items: dict[int, RewriteItem]
) -> dict[int, Result]:
    """Return results of an earlier run whose files are complete."""
    storage = storage_of(staging.filesystem)
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
    """Remove staging directories that runs with other arguments or files have left behind."""
    if staging.filesystem is None:
        for path in stagings_of(staging.base_dir, verb):
            shutil.rmtree(path, ignore_errors=True)
