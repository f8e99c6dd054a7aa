"""verify: check structure, checksums, values and statistics of a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from ..errors import CorruptFileError, printable
from ..format.annex import Annex, BlockChecksums, KeySection
from ..format.fixed_sizes import check_sizes
from ..format.index import Bucket, Statistic
from ..format.metadata import FileMetaData
from ..format.types import plain_type
from ..format.user_arrays import Dictionaries
from ..format.user_schema import Attached
from ..format.wire import Compression, crc32c
from ..storage.source import Source, open_source, read_ranges
from ..threads import map_in_order
from .dictionaries import FileDictionaries, dictionaries_in, part_of
from .key_index import KeyCollector
from .opening import Opening
from .reader import Readable
from .scan import MIN_THREADED_BYTES, Scanner, ScanRequest
from .verify_bucket import BucketCheck, Frames, Notes, Problem

_SCHEMA_PREFIX: Final = 4  # bytes of the schema block before its frame


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of `verify` for one file."""

    file: str
    num_bytes: int
    num_rows: int
    num_row_groups: int
    problems: tuple[Problem, ...]
    checked: tuple[str, ...]  # what was checked
    unverified: tuple[str, ...]  # what could not be checked, and why

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def __str__(self) -> str:
        count = len(self.problems)
        state = "no problem" if self.ok else f"{count} problem{'s' if count > 1 else ''}"
        return "\n".join(
            [
                f"{printable(self.file)}: {state}",
                *(f"  problem: {problem}" for problem in self.problems),
                *(f"  checked: {text}" for text in self.checked),
                *(f"  not verified: {text}" for text in self.unverified),
            ]
        )


def verify(
    source: Readable,
    *,
    deep: bool = True,
    filesystem: object = None,
    use_threads: bool = True,
) -> VerifyReport:
    """Check a Mosaic file: structure, checksums, values and statistics.

    Problems are returned in the report, not raised, and the check goes on after a problem.

    Parameters
    ----------
    source : path, URI, binary file object, buffer or bytes
        The file to check.
    deep : bool, default True
        Read and decode all data, and compare it with its checksums and statistics. Otherwise, only
        the metadata at the end of the file is checked.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `source`.
    use_threads : bool, default True
        Read and decode in several threads.

    Returns
    -------
    VerifyReport

    Examples
    --------
    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [1, 2, 3]}), sink)
    >>> fm.verify(sink.getvalue()).ok
    True
    >>> damaged = bytearray(sink.getvalue())
    >>> damaged[12] ^= 1
    >>> print(fm.verify(bytes(damaged)).problems[0])
    row group 0, bucket 0, offset 0: zstd: Restored data doesn't match checksum
    """
    opened = open_source(source, filesystem)
    try:
        check = _Check(opened, use_threads)
        check.run(deep)
        return check.report()
    finally:
        opened.close()


class _Check(Notes):
    """The check of one file."""

    def __init__(self, source: Source, use_threads: bool) -> None:
        super().__init__()
        self.source = source
        self.use_threads = use_threads
        self.checked: list[str] = []
        self.unverified: list[str] = []
        self.metadata: FileMetaData | None = None
        self.attached: Attached | None = None
        self.frames = Frames()
        self.num_statistics = 0

    def report(self) -> VerifyReport:
        metadata = self.metadata
        return VerifyReport(
            self.source.name,
            self.source.size,
            0 if metadata is None else metadata.num_rows,
            0 if metadata is None else metadata.num_row_groups,
            tuple(self.problems),
            tuple(self.checked),
            tuple(self.unverified),
        )

    def run(self, deep: bool, is_inner: bool = False) -> None:
        opening = Opening(self.source)
        for place, step in opening.steps():
            with self.noting(**place):
                step()
        end, annex, self.metadata = opening.end, opening.annex, opening.metadata
        if end is None or self.metadata is None:
            return
        footer = end.footer
        is_sure = opening.is_checked or not opening.has_checksums
        if self.metadata.codec == Compression.ZSTD:
            self.frames.add(memoryview(end.schema).cast("B")[_SCHEMA_PREFIX:])
        with self.noting(part="annex", offset=footer.schema_offset):
            self.attached = self.metadata.attached
        self.checked.append(
            f"footer, schema block and row group index: {self.metadata.num_row_groups} row groups, "
            f"{self.metadata.num_columns} columns, {self.metadata.num_buckets} buckets"
        )
        if surplus := self.metadata.schema_block.surplus:
            self.problems.append(
                Problem(
                    f"{surplus} bytes after the columns do not belong to anything",
                    footer.schema_offset,
                    part="schema block",
                )
            )
        blocks = None if annex is None else annex.blocks
        if blocks is not None and len(blocks.row_groups) != footer.num_row_groups:
            self.problems.append(
                Problem(
                    f"the annex has checksums of {len(blocks.row_groups)} row groups, but the file "
                    f"has {footer.num_row_groups}",
                    footer.schema_offset,
                )
            )
            blocks = None
        if blocks is not None and crc32c(end.schema) != blocks.schema:
            self.problems.append(
                Problem("the schema block does not match its checksum", footer.schema_offset)
            )
        # The start of a damaged annex is unknown, and so is the end of the data.
        is_whole = annex is not None or not footer.has_annex
        data_end = footer.schema_offset - (0 if annex is None else annex.size)
        dictionaries: tuple[int, int] | None = None
        with self.noting(part="annex", offset=footer.schema_offset):
            dictionaries = self.metadata.dictionaries
        if dictionaries is not None:
            data_end, _ = dictionaries
            if is_inner:
                self.problems.append(Problem("there are dictionaries inside the dictionaries"))
                return
        keys = None
        with self.noting(part="annex", offset=footer.schema_offset):
            keys = self.metadata.key_index
        if keys is not None:
            data_end, _ = keys
        self._check_places(self.metadata, data_end if is_whole else None)
        if deep and is_sure:
            for group in range(self.metadata.num_row_groups):
                self._check_row_group(self.metadata, group, blocks)
        if dictionaries is not None and is_sure:
            self._check_dictionaries(*dictionaries, deep)
        if footer.restores_types and not self.problems:
            self._check_types(self.metadata, deep)
        if keys is not None and is_sure and deep and not self.problems:
            self._check_keys(self.metadata, *keys)
        if is_sure:
            self._conclude(self.metadata, annex, blocks, deep)
        else:
            self.unverified.append("data was not checked because the row group index is damaged")

    def _conclude(
        self,
        metadata: FileMetaData,
        annex: Annex | None,
        blocks: BlockChecksums | None,
        deep: bool,
    ) -> None:
        if annex is not None and annex.checksums is not None:
            self.checked.append("annex: checksums of itself, the row group index and the footer")
        else:
            self.unverified.append(
                "row group index and footer: there is no annex with their checksums, so a changed "
                "size, offset or bound can go unnoticed"
            )
        if not deep:
            self.unverified.append("data: not read because of deep=False")
            return
        num_buckets = sum(len(metadata.buckets(group)) for group in range(metadata.num_row_groups))
        self.checked.append(
            f"data: {num_buckets} buckets without gaps, which decode to {metadata.num_rows} rows"
        )
        self.checked.append(f"statistics: {self.num_statistics} compared with the values")
        if blocks is not None:
            self.checked.append("blocks: all bytes match the checksums in the annex")
            return
        without = self.frames.count - self.frames.checked
        if metadata.codec == Compression.NONE:
            self.unverified.append("values: blocks have no checksums without compression")
        elif without:
            self.unverified.append(
                f"values: {without} of {self.frames.count} blocks have no checksum"
            )
        else:
            self.checked.append(f"blocks: zstd checksums of {self.frames.count} blocks")
        self.unverified.append(
            "bytes that do not affect values, such as zstd headers: the annex has no block checksums"
        )

    def _check_places(self, metadata: FileMetaData, end: int | None) -> None:
        """Check that the buckets cover all bytes up to `end`, without gaps and overlaps."""
        places = []
        block = metadata.schema_block
        needed = set(map(block.bucket_of, range(block.num_columns)))
        for group in range(metadata.num_row_groups):
            listed = metadata.buckets(group)
            places += [(one.offset, one.compressed_size, group, one.index) for one in listed]
            if metadata.rows_of(group) and len(listed) < metadata.num_buckets:
                missing = needed - {one.index for one in listed}
                self.problems += [
                    Problem("the bucket is missing from the row group index", None, group, number)
                    for number in sorted(missing)
                ]
        reached = 0
        for offset, size, group, number in sorted(places):
            if offset < reached:
                self.problems.append(
                    Problem("the bucket overlaps the one before it", offset, group, number)
                )
            elif offset > reached:
                self._gap(reached, offset)
            reached = max(reached, offset + size)
        if end is not None and reached > end:
            self.problems.append(Problem(f"a bucket ends at {reached}, inside the annex", end))
        elif end is not None and reached < end:
            self._gap(reached, end)

    def _gap(self, start: int, end: int) -> None:
        self.problems.append(Problem(f"{end - start} bytes do not belong to any block", start))

    def _check_keys(self, metadata: FileMetaData, offset: int, section: KeySection) -> None:
        """Check that the key index is the one of the keys in the file."""
        with self.noting(part="key index", offset=offset):
            columns = metadata.columns
            for name in section.names:
                if columns.find(name) is None:
                    raise CorruptFileError("the column of the key does not exist", column=name)
            collector = KeyCollector(section.names, columns.select(section.names))
            request = ScanRequest(columns.projection(columns.select(section.names)))
            groups = range(metadata.num_row_groups)
            for batch in Scanner(self.source, metadata).batches(request, groups, 1):
                collector.add(batch)
            blocks = list(collector.blocks())
            at = offset
            for number, block in enumerate(blocks):
                if self.source.read_at(at, len(block)).to_pybytes() != block:
                    raise CorruptFileError(f"block {number} does not match the keys of the rows")
                at += len(block)
            if collector.section(blocks) != section:
                raise CorruptFileError("the section in the annex does not match the keys")
            self.checked.append(f"key index: {section.count} keys match those of the rows")

    # ---- types of the user

    def _check_dictionaries(self, offset: int, size: int, deep: bool) -> None:
        """Check the dictionaries, which are a file of its own."""
        inner = _Check(part_of(self.source, offset, size), self.use_threads)
        inner.run(deep, is_inner=True)
        self.problems += [
            replace(
                problem,
                offset=offset + (problem.offset or 0),
                part="dictionaries" if problem.part is None else f"dictionaries, {problem.part}",
            )
            for problem in inner.problems
        ]

    def _check_types(self, metadata: FileMetaData, deep: bool) -> None:
        """Check that the types in the annex fit the stored columns, and their values fit the types."""
        columns = metadata.columns
        listed = [] if self.attached is None else self.attached.given.names
        names: list[str] = []
        with self.noting(part="annex", offset=metadata.footer.schema_offset):
            names = columns.names()
            for name in (*names, *listed):
                columns.field(name)
        if self.problems or not deep or self.attached is None:
            return
        attached = self.attached
        if metadata.dictionaries is not None:
            attached = attached.with_dictionaries(FileDictionaries(self.source, metadata))
        restored: dict[int, list[str]] = {}  # by the bucket of their first stored column
        for name in names:
            field = columns.field(name)
            with self.noting(column=name):
                user = attached.field(field).type
                if user != field.type or columns.is_converted(name):
                    self._check_dictionaries_of(user, name, attached.dictionaries)
                    position = columns.projection(pa.schema([field])).positions[0]
                    bucket = metadata.schema_block.bucket_of(position)
                    restored.setdefault(bucket, []).append(name)
        scanner = Scanner(self.source, metadata)
        for together in restored.values():
            check = _Check(self.source, self.use_threads)
            check.restore(metadata, scanner, attached, together)
            if check.problems and len(together) > 1:  # which columns are concerned?
                for name in together:
                    self.restore(metadata, scanner, attached, [name])
            self.problems += check.problems if len(together) == 1 else []
        if restored:
            count = sum(map(len, restored.values()))
            self.checked.append(f"types: the values of {count} columns fit the types in the annex")

    def _check_dictionaries_of(
        self, user: pa.DataType, name: str, dictionaries: Dictionaries | None
    ) -> None:
        """Check that dictionaries contain values of the right type."""
        for path, type in dictionaries_in(user, (name,)):
            found = None if dictionaries is None else dictionaries.find(path)
            plain = plain_type(type.value_type)
            if found is not None and found.type != plain:
                raise CorruptFileError(
                    f"its values are stored as {found.type}, not as {plain}", part="dictionaries"
                )

    def restore(
        self, metadata: FileMetaData, scanner: Scanner, attached: Attached, names: list[str]
    ) -> None:
        """Restore the types of columns, and note what does not fit."""
        columns = metadata.columns
        with self.noting(column=names[0] if len(names) == 1 else None):
            schema = columns.select(names)
            request = ScanRequest(columns.projection(schema), self.use_threads)
            last: pa.RecordBatch | None = None
            # Null lists of a fixed size would take memory, and have nothing to check.
            loose = attached.without_sizes()
            for batch in scanner.batches(request, range(metadata.num_row_groups), 1):
                if batch is not last:  # a batch of equal rows may come many times
                    loose.put_on(batch)
                    for column, field in zip(batch.columns, attached.schema(schema), strict=True):
                        check_sizes(column, field.type)
                last = batch

    # ---- data

    def _check_row_group(
        self, metadata: FileMetaData, group: int, blocks: BlockChecksums | None
    ) -> None:
        listed = [
            (one.index, Bucket(one.offset, one.compressed_size, one.uncompressed_size or 0))
            for one in metadata.buckets(group)
        ]
        ranges = [(bucket.offset, bucket.compressed_size) for _, bucket in listed]
        data = read_ranges(self.source, ranges, use_threads=self.use_threads)
        before = len(self.problems)
        if metadata.rows_of(group):
            stated: dict[int, list[Statistic]] = {}
            with self.noting(offset=metadata.footer.index_offset, row_group=group):
                for statistic in metadata.statistics(group):
                    number = metadata.schema_block.bucket_of(statistic.position)
                    stated.setdefault(number, []).append(statistic)
            # Types that the annex restores are checked later.
            attached = None if metadata.footer.restores_types else self.attached
            checks = [
                BucketCheck(metadata, group, number, bucket, one, stated.get(number, ()), attached)
                for (number, bucket), one in zip(listed, data, strict=True)
            ]
            threaded = self.use_threads and sum(one.size for one in data) >= MIN_THREADED_BYTES
            for check in map_in_order(BucketCheck.run, checks, threaded):
                self.problems += check.problems
                self.frames.count += check.frames.count
                self.frames.checked += check.frames.checked
            self.num_statistics += sum(map(len, stated.values()))
        if blocks is None or len(self.problems) > before:
            return
        if BlockChecksums.of_row_group([crc32c(one) for one in data]) != blocks.row_groups[group]:
            self.problems.append(
                Problem(
                    "the buckets can be decoded, but their bytes do not match the checksum",
                    min((offset for offset, _ in ranges), default=None),
                    group,
                )
            )
