"""concatenate: merge files into one, by copying row groups where that is possible.

Row groups of files with the same stored columns, buckets and compression are copied as bytes. Others
are decoded and encoded again, and so are runs of small ones, which are joined.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final, Literal, TypeAlias, Unpack, get_args

import pyarrow as pa

from ..errors import SchemaMismatchError, located
from ..format.file_schema import FileSchema, Projection
from ..format.metadata import FileMetaData
from ..format.schema import SchemaBlock
from ..format.shred import Shredder
from ..format.types import ColumnType
from ..format.wire import Compression
from ..schemas.fit import Fits
from ..storage.source import Source
from .encode import RowGroupEncoder, has_statistics
from .merged_columns import ConcatSource, MergedColumns
from .options import OPTIONS, WriteOptions, accepts_options, check_names, completed
from .row_group import StoredRowGroup
from .scan import Scanner, ScanRequest
from .writer import MosaicWriter, Writable

Mode: TypeAlias = Literal["auto", "copy", "rewrite"]
ConcatProgress: TypeAlias = Callable[[int, int], object]

# Row groups are copied if they have this share of the size of a new one.
_LARGE_SHARE: Final = 1 / 4
# Buckets that are decoded to find out how much smaller values are in a file.
_SAMPLED_BUCKETS: Final = 4
_ADVICE: Final = 'mode="auto" (--mode auto) rewrites what cannot be copied'


@dataclass(frozen=True, slots=True)
class ConcatReport:
    """What `concat` has done.

    num_files            files that were merged
    num_rows, num_bytes  of the new file
    num_row_groups       of the new file
    num_copied           row groups that were copied as they are
    num_rewritten        row groups that were decoded and encoded again
    """

    num_files: int
    num_rows: int
    num_bytes: int
    num_row_groups: int
    num_copied: int
    num_rewritten: int
    seconds: float

    def __repr__(self) -> str:
        return (
            f"<ConcatReport: {self.num_rows:,} rows of {self.num_files:,} "
            f"file{'s' if self.num_files != 1 else ''}, {self.num_bytes:,} bytes, row groups: "
            f"{self.num_copied:,} copied, {self.num_rewritten:,} rewritten, {self.seconds:.2f} s>"
        )


@accepts_options
def concatenate(
    files: Sequence[ConcatSource],
    where: Writable,
    *,
    schema: pa.Schema | None = None,
    mode: Mode = "auto",
    progress: ConcatProgress | None = None,
    filesystem: object = None,
    **options: Unpack[WriteOptions],
) -> ConcatReport:
    """Merge open files into one.

    Parameters
    ----------
    files : list of MosaicFile or dataset.files.File
    where : path, URI or writable binary file object
    schema, mode, progress, **options
        As for `concat`.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `where`.
    """
    started = time.monotonic()
    check_names(options, concatenate)
    check_mode(mode)
    if not files:
        raise ValueError("there are no files to concatenate")
    columns = MergedColumns(files, schema)
    if mode == "copy":
        columns.check_same(_ADVICE)
    given = kept_options(files, columns.plain) | options
    chosen = completed(given)
    with MosaicWriter(where, columns.schema, filesystem=filesystem, **given) as writer:
        writer.join_dataset(columns.collected())
        plan = _Plan(files, columns, writer, mode, chosen)
        work = _Work(files, columns, writer, progress, chosen["use_threads"])
        for step in list(plan.steps()):
            work.do(step)
    return ConcatReport(
        len(files),
        sum(file.metadata.num_rows for file in files),
        writer.num_bytes,
        writer.num_row_groups,
        work.num_copied,
        work.num_rewritten,
        time.monotonic() - started,
    )


def check_mode(mode: str) -> None:
    """Raise ValueError unless there is such a mode."""
    if mode not in get_args(Mode):
        raise ValueError(f"mode must be {', '.join(map(repr, get_args(Mode)))}, not {mode!r}")


def data_bytes(files: Sequence[ConcatSource]) -> int:
    """Return the size of all row groups of files, which `progress` counts."""
    return sum(
        file.metadata.bytes_of(group)
        for file in files
        for group in range(file.metadata.num_row_groups)
    )


def kept_options(files: Sequence[ConcatSource], schema: pa.Schema) -> WriteOptions:
    """Return the options with which a writer of the plain `schema` makes files like these.

    Buckets, compression and the layout of lists are those that most rows have.
    """
    kinds: Counter[tuple[int, str, str]] = Counter()
    for file in files:
        metadata = file.metadata
        layout = metadata.schema_block.array_layout
        num_buckets = metadata.num_buckets
        if num_buckets >= metadata.num_columns:  # there would be more if there were more columns
            num_buckets = max(num_buckets, OPTIONS["num_buckets"].default)
        kinds[num_buckets, metadata.compression, layout] += metadata.num_rows
    ((num_buckets, compression, layout), _) = kinds.most_common(1)[0]
    return WriteOptions(
        num_buckets=num_buckets,
        compression=compression,
        array_layout=layout,
        write_statistics=_with_statistics(files, schema),
    )


def _with_statistics(files: Sequence[ConcatSource], schema: pa.Schema) -> list[str]:
    """Return the stored columns that have statistics in at least one file, and still can."""
    found: dict[SchemaBlock, set[int]] = {}
    for file in files:
        metadata = file.metadata
        if metadata.num_row_groups:
            positions = metadata.columns_with_statistics(0)
            found.setdefault(metadata.schema_block, set()).update(positions)
    names = {name for block, positions in found.items() for name in block.names(positions)}
    if not names:
        return []
    shredder = Shredder(schema)
    unsigned = shredder.unsigned
    return [
        field.name
        for field in shredder.schema
        if field.name in names
        and (field.name in unsigned or has_statistics(ColumnType.from_arrow(field).kind))
    ]


@dataclass(frozen=True, slots=True)
class _Step:
    """Row groups of a file that are copied, or rewritten."""

    file: ConcatSource
    groups: list[int]
    copies: bool


class _Plan:
    """Decides which row groups are copied."""

    def __init__(
        self,
        files: Sequence[ConcatSource],
        columns: MergedColumns,
        writer: MosaicWriter,
        mode: Mode,
        options: WriteOptions,
    ) -> None:
        self._files = files
        self._columns = columns
        self._writer = writer
        self._mode = mode
        self._large_bytes = options["row_group_bytes"] * _LARGE_SHARE
        self._large_rows = (options["row_group_size"] or 0) * _LARGE_SHARE
        self._problems: dict[tuple[FileSchema, Compression], str | None] = {}
        self._ratios: dict[SchemaBlock, float] = {}

    def steps(self) -> Iterator[_Step]:
        """Yield what to do, in the order of rows."""
        for (_, copies), run in groupby(self._choices(), key=lambda one: (id(one[0]), one[2])):
            every = list(run)
            yield _Step(every[0][0], [group for _, group, _ in every], copies)

    def _choices(self) -> Iterator[tuple[ConcatSource, int, bool]]:
        """Yield each row group, and whether it is copied."""
        small: list[tuple[ConcatSource, int, bool]] = []  # a run, and whether each could be copied
        for file in self._files:
            fits = self._fits(file)
            for group in range(file.metadata.num_row_groups):
                if fits and (self._mode == "copy" or self._is_large(file, group)):
                    yield from _joined(small)
                    small = []
                    yield file, group, True
                else:
                    small.append((file, group, fits))
        yield from _joined(small)

    def _fits(self, file: ConcatSource) -> bool:
        """Return whether row groups of a file can be copied."""
        if self._mode == "rewrite":
            return False
        metadata = file.metadata
        key = self._columns.of(metadata), metadata.codec
        if key not in self._problems:
            self._problems[key] = self._writer.unlike(metadata) or self._other_types(metadata)
        problem = self._problems[key]
        if problem is not None and self._mode == "copy":
            raise SchemaMismatchError(f"{problem}; {_ADVICE}", file=file.name)
        return problem is None

    def _other_types(self, metadata: FileMetaData) -> str | None:
        return None if self._columns.are_of(metadata) else "it has other types than the new file"

    def _is_large(self, file: ConcatSource, group: int) -> bool:
        """Return whether a row group need not be joined with others."""
        metadata = file.metadata
        if self._large_rows and metadata.rows_of(group) >= self._large_rows:
            return True
        size = metadata.decompressed_bytes_of(group)
        if size >= self._large_bytes:
            return True
        block = metadata.schema_block
        if block not in self._ratios:
            with file.opened() as source, located(file=file.name):
                self._ratios[block] = expansion(source, metadata, group)
        return size * self._ratios[block] >= self._large_bytes


def _joined(
    small: list[tuple[ConcatSource, int, bool]],
) -> Iterator[tuple[ConcatSource, int, bool]]:
    """Yield the row groups of a run of small ones: a single one has nothing to be joined with."""
    is_copied = len(small) == 1 and small[0][2]
    for file, group, _ in small:
        yield file, group, is_copied


def expansion(source: Source, metadata: FileMetaData, group: int) -> float:
    """Return how much larger values of a row group are before encoding, as the writer counts them.

    Some of the buckets are decoded to find out.
    """
    block = metadata.schema_block
    step = -(-block.num_buckets // _SAMPLED_BUCKETS)
    buckets = range(0, block.num_buckets, step)
    positions = [at for bucket in buckets for at in block.bucket_columns(bucket)]
    encoded = metadata.decompressed_bytes(group, positions)
    if not encoded:
        return 1
    schema = pa.schema(block.fields(positions))
    encoder = RowGroupEncoder(SchemaBlock.from_arrow(schema, len(buckets)), completed({}))
    request = ScanRequest(Projection(schema, positions, schema))
    batches = Scanner(source, metadata).batches(request, [group], 1)
    return sum(encoder.flat(batch).num_bytes for batch in batches) / encoded


class _Work:
    """Takes the steps of a plan."""

    def __init__(
        self,
        files: Sequence[ConcatSource],
        columns: MergedColumns,
        writer: MosaicWriter,
        progress: ConcatProgress | None,
        use_threads: bool,
    ) -> None:
        self._columns = columns
        self._writer = writer
        self._use_threads = use_threads
        self._progress = progress
        self._done = 0
        self._total = data_bytes(files)
        self.num_copied = 0
        self.num_rewritten = 0

    @cached_property
    def _fits(self) -> Fits:
        return Fits(self._columns.plain, advice="")

    def do(self, step: _Step) -> None:
        with step.file.opened() as source, located(file=step.file.name):
            if step.copies:
                for group in step.groups:
                    self._writer.append_row_group(StoredRowGroup(source, step.file.metadata, group))
                    self._advance(step.file, group)
                self.num_copied += len(step.groups)
            else:
                self._rewrite(source, step)
                self.num_rewritten += len(step.groups)

    def _rewrite(self, source: Source, step: _Step) -> None:
        metadata = step.file.metadata
        fit = self._fits.of_file(self._columns.of(metadata))
        check = self._columns.check_of(metadata)
        scanner = Scanner(source, metadata)
        request = ScanRequest(fit.projection, self._use_threads)
        for group in step.groups:
            for batch in scanner.batches(request, [group], 1):
                for part in fit(batch, (), step.file.name):
                    check(part)
                    self._writer.write_batch(part)
            self._advance(step.file, group)

    def _advance(self, file: ConcatSource, group: int) -> None:
        self._done += file.metadata.bytes_of(group)
        if self._progress is not None:
            self._progress(self._done, self._total)
