"""One file of a dataset: its metadata, read once, and reading row groups of it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from ..errors import CorruptFileError, MosaicError, UnsupportedError
from ..file.dictionaries import FileDictionaries
from ..file.fill import FilledColumns, GroupRows, fill_matrix
from ..file.frames import FrameCache
from ..file.key_index import KeyIndex
from ..file.opening import SchemaCache, read_end
from ..file.scan import Accepts, Scanner, ScanRequest
from ..format.annex import Base
from ..format.file_schema import FileSchema, Projection
from ..format.metadata import FileMetaData
from ..format.user_schema import UserSchema
from ..memory import Memory
from ..query.filters import Statistics
from ..query.keys import Lookup
from ..query.query import Query
from ..query.rows import Rows
from ..schemas.fit import Fit, Fits
from ..storage.source import EMPTY, Source, open_source
from ..threads import REMOTE_THREADS, map_in_order
from .found import Found


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How the files of a dataset are read; the fields are parameters of `MosaicDataset`."""

    memory_limit: int | None = None
    strict: bool = True
    logical: bool = True
    cache: FrameCache | None = None


DEFAULTS: Final = ReadOptions()

# Identities of files by their checksums, which are at hand: the identity of a file of 10,000 columns is
# the hash of 100 KB, which takes longer than all the rest of opening it.
_IDENTITIES: Final[dict[Any, Base]] = {}
MAX_IDENTITIES: Final = 1 << 16


class FoundFile:
    """A file of a dataset: where it is, and the values of its partition columns."""

    __slots__ = ("found", "values")

    def __init__(self, found: Found, values: tuple[pa.Scalar, ...]) -> None:
        self.found = found
        self.values = values

    @property
    def name(self) -> str:
        return self.found.name

    @property
    def is_local(self) -> bool:
        return self.found.filesystem is None


class File(FoundFile):
    """A file of a dataset, as it is on disk.

    Nothing is read before `metadata` is used. Local files are closed after each use.
    """

    __slots__ = (
        "_columns",
        "_dictionaries",
        "_metadata",
        "_reading",
        "_schemas",
        "_size",
        "_source",
        "_version",
    )

    def __init__(
        self,
        found: Found,
        values: tuple[pa.Scalar, ...],
        schemas: SchemaCache,
        reading: ReadOptions = DEFAULTS,
        state: Any = (None, 0),
        columns: FileSchema | None = None,
    ) -> None:
        super().__init__(found, values)
        self._schemas = schemas
        self._reading = reading
        self._metadata: FileMetaData | None
        self._metadata, self._size = state
        self._source: Source | None = None
        # In this process: another machine may have a copy of the file.
        self._version: object = None
        self._columns = columns
        self._dictionaries: FileDictionaries | None = None

    def __reduce__(self) -> Any:
        state = self._metadata, self._size
        return File, (self.found, self.values, self._schemas, self._reading, state)

    @property
    def metadata(self) -> FileMetaData:
        """The metadata of the file, read on first use."""
        if self._metadata is None:
            source = self._open()
            try:
                metadata, tail = read_end(source, self._schemas.decode)
                self._size = source.size
                self._version = _version_of(source)
            finally:
                self._release(source)
            self._check(metadata, tail)
            self._keep(tail)
            self._metadata = metadata
        return self._metadata

    def _check(self, metadata: FileMetaData, tail: pa.Buffer) -> None:
        """Raise CorruptFileError if this is not the file that a table expects.

        `tail` are the last bytes of the file.
        """

    def _keep(self, tail: pa.Buffer) -> None:
        """Keep the end of the file, which was read for its metadata, if that saves a read."""

    @property
    def columns(self) -> FileSchema:
        """The columns of the file: as the user sees them, or as they are stored."""
        if self._columns is None:
            self._columns = self._columns_of(self.metadata)
        return self._columns

    def _columns_of(self, metadata: FileMetaData) -> FileSchema:
        return metadata.columns if self._reading.logical else FileSchema(metadata.schema_block)

    @property
    def dictionaries(self) -> FileDictionaries | None:
        """The dictionaries of the user in the file."""
        if self._dictionaries is None and self.metadata.dictionaries is not None:
            source = Source(self.name, self.size, is_local=self.is_local, read=self._read_at)
            self._dictionaries = FileDictionaries(source, self.metadata)
        return self._dictionaries

    def key_rows(self, wanted: Lookup) -> list[int] | None:
        """Return the rows that may have some keys by the key index; None if it cannot tell."""
        if not self._reading.logical or self.metadata.key_index is None:
            return None
        if not wanted.fits(self.columns):
            return None
        index = KeyIndex.of(self.metadata, wanted.names)
        if index is None:
            return None
        with self.opened() as source:
            return index.rows_of(wanted.complete, source)

    def identity(self) -> Base:
        """Return what column files of a table refer to this file by."""
        return self._identity_of(self.metadata)

    def _identity_of(self, metadata: FileMetaData, tail: pa.Buffer | None = None) -> Base:
        key = self.size, metadata.footer, metadata.checksums
        known = _IDENTITIES.get(key)
        if known is None:
            known = self._computed_identity(metadata, tail)
            if metadata.checksums is not None:
                if len(_IDENTITIES) >= MAX_IDENTITIES:
                    _IDENTITIES.clear()
                _IDENTITIES[key] = known
        return known

    def _computed_identity(self, metadata: FileMetaData, tail: pa.Buffer | None) -> Base:
        start = metadata.footer.schema_offset
        if metadata.annex is not None:
            start -= metadata.annex.size
        size = self.size - start
        if tail is None or tail.size < size:
            tail = self._read_at(start, size)
        return Base.of(metadata.num_rows, self.size, memoryview(tail)[-size:])

    def _read_at(self, offset: int, length: int) -> pa.Buffer:
        """Read bytes of the file, which is not open."""
        source = self._open()
        try:
            return source.read_at(offset, length)
        finally:
            self._release(source)

    @property
    def size(self) -> int:
        """The size of the file in bytes when its metadata was read."""
        return self._size

    @property
    def is_open(self) -> bool:
        """Whether the metadata of the file was read."""
        return self._metadata is not None

    @property
    def num_rows(self) -> int:
        return self.metadata.num_rows

    @property
    def user_schemas(self) -> list[tuple[UserSchema | None, FileSchema]]:
        """The user's types and metadata, and the columns of the file."""
        return [(self.metadata.user_schema, self.columns)]

    @property
    def may_have_dictionaries(self) -> bool:
        return self.metadata.dictionaries is not None

    @property
    def parts(self) -> Sequence[File]:
        """The files on disk that this file consists of."""
        return (self,)

    def part_with(self, name: str) -> File:
        """Return the file on disk that has a column: this file."""
        return self

    def resolved(self, names: frozenset[str]) -> File:
        """Return what to read for columns called `names`: this file."""
        return self

    def statistics(
        self, query: Query, group: int, constants: Mapping[str, pa.Scalar]
    ) -> list[Statistics]:
        """Return what is known about the columns of the filter of a query in a row group."""
        return query.statistics(self.metadata, self.columns, group, constants)

    def read_bytes(self, fits: Fits, groups: Iterable[int]) -> int:
        """Return about how many bytes of row groups are read."""
        return self.projected_bytes(fits.of_file(self.columns).projection, groups)

    def projected_bytes(self, projection: Projection, groups: Iterable[int]) -> int:
        """Return about how many bytes of row groups are read for some columns."""
        positions = projection.positions
        return sum(self.metadata.projected_bytes(group, positions) for group in groups)

    def read(
        self,
        fits: Fits,
        groups: Sequence[int],
        use_threads: bool,
        memory: Memory,
        rows: Rows | None = None,
    ) -> list[pa.RecordBatch]:
        """Read row groups, or the rows of them that `rows` selects, as batches of the dataset."""
        fit = fits.of_file(self.columns)
        batches = self.read_stored(fit.projection, groups, use_threads, memory, rows)
        return [part for batch in batches for part in fit(batch, self.values, self.name)]

    def read_stored(
        self,
        projection: Projection,
        groups: Sequence[int],
        use_threads: bool,
        memory: Memory,
        rows: Rows | None = None,
    ) -> list[pa.RecordBatch]:
        """Read columns of row groups as the file has them."""
        with self._scanning() as scanner:
            return scanner.read(ScanRequest(projection, use_threads, rows), groups, memory)

    def fill(
        self,
        request: FilledColumns,
        groups: Sequence[GroupRows],
        use_threads: bool,
        memory: Memory,
    ) -> None:
        """Decode rows of row groups into a matrix."""
        with self._scanning() as scanner:
            fill_matrix(scanner, request, groups, use_threads, memory)

    def batches(
        self,
        fits: Fits,
        groups: Sequence[int],
        use_threads: bool,
        batch_rows: int = 1,
        rows: Rows | None = None,
        source: Source | None = None,
        accepts: Accepts | None = None,
    ) -> Iterable[pa.RecordBatch]:
        """Read row groups together if they are small, as a list of batches.

        Otherwise return an iterator over batches of some megabytes, and a multiple of `batch_rows`
        rows, with the dataset's limit for the memory of each. Large row groups of equal rows are left
        out unless the caller `accepts` them. A given `source` stays open.
        """
        fit = fits.of_file(self.columns)

        def accepts_fitted(sample: pa.RecordBatch, num_rows: int) -> bool:
            fitted = fit(sample, self.values, self.name)
            return accepts is None or any(accepts(part, num_rows) for part in fitted)

        found = self.stored_batches(
            fit.projection, groups, use_threads, batch_rows, rows, source, accepts_fitted
        )
        fitted = fitted_batches(found, fit, self.values, self.name)
        return list(fitted) if isinstance(found, list) else fitted

    def stored_batches(
        self,
        projection: Projection,
        groups: Sequence[int],
        use_threads: bool,
        batch_rows: int = 1,
        rows: Rows | None = None,
        source: Source | None = None,
        accepts: Accepts | None = None,
    ) -> Iterable[pa.RecordBatch]:
        """Read columns of row groups as the file has them, as `batches` does."""
        limit = self._reading.memory_limit
        request = ScanRequest(projection, use_threads, rows, limit)
        if accepts is not None:
            request.accepts = accepts
        with self._scanning(source) as scanner:
            found = scanner.whole(request, groups)
        if found is not None:
            return found

        def portions() -> Iterator[pa.RecordBatch]:
            with self._scanning(source) as scanner:
                yield from scanner.portions(request, groups, batch_rows)

        return portions()

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Provide the bytes of the file."""
        _ = self.metadata  # with its size
        source = self._open()
        try:
            self._check_size(source)
            yield source
        finally:
            self._release(source)

    def _check_size(self, source: Source) -> None:
        if source.size != self._size:
            raise OSError(
                f"{self.name} has {source.size} bytes, but had {self._size} when the dataset "
                "was opened; open the dataset again"
            )
        version = _version_of(source)
        if self._version is None:
            self._version = version
        elif version not in (None, self._version):
            raise OSError(
                f"{self.name} was replaced or written after the dataset was opened; open the "
                "dataset again"
            )

    def _scanning(self, source: Source | None = None) -> AbstractContextManager[Scanner]:
        """Provide a scanner of the open file."""
        return self._scanning_opened(source)

    @contextmanager
    def _scanning_opened(self, source: Source | None) -> Iterator[Scanner]:
        if source is not None:
            self._check_size(source)
        with self.opened() if source is None else nullcontext(source) as opened:
            yield self._scanner(opened)

    def _scanner(self, source: Source, tail: pa.Buffer = EMPTY) -> Scanner:
        return Scanner(source, self.metadata, tail, self._reading.strict, self._reading.cache)

    def _open(self) -> Source:
        if self._source is not None:
            return self._source
        try:
            source = open_source(self.found.path, self.found.filesystem, size=self.found.size)
        except FileNotFoundError as error:
            if self._metadata is None:
                raise
            raise FileNotFoundError(
                f"{self.name} was removed after the dataset was opened, for example because the "
                "dataset was overwritten or compacted; open the dataset again"
            ) from error
        source.name = self.name
        return source

    def _release(self, source: Source) -> None:
        # Local files are cheap to open, and the number of open files is limited. Opening a remote
        # file takes a request, and keeping it holds no resource.
        if source.is_local:
            source.close()
        else:
            self._source = source


def fitted_batches(
    batches: Iterable[pa.RecordBatch], fit: Fit, values: Sequence[pa.Scalar], name: str
) -> Iterator[pa.RecordBatch]:
    """Yield batches of the file `name` as batches of the dataset."""
    last: pa.RecordBatch | None = None
    for batch in batches:
        if batch is not last:  # a batch of equal rows may come many times
            fitted, last = list(fit(batch, values, name)), batch
        yield from fitted


class HasMetadata(Protocol):
    """A file that knows its metadata."""

    @property
    def is_local(self) -> bool:
        """Whether reading it takes no requests."""

    @property
    def metadata(self) -> FileMetaData:
        """Its metadata, read on first use."""


def read_all_metadata(files: Sequence[HasMetadata]) -> Iterator[FileMetaData]:
    """Read the metadata of files that are not open, many at once if they are remote."""
    remote = not all(file.is_local for file in files)
    return map_in_order(
        lambda file: file.metadata, files, remote, purpose="files", threads=REMOTE_THREADS
    )


class HasParts(Protocol):
    """A file of a dataset, which consists of one file on disk or of several."""

    @property
    def parts(self) -> Sequence[File]:
        """The files on disk."""


AnyFile = TypeVar("AnyFile", bound=HasParts)


def readable(files: Sequence[AnyFile]) -> list[AnyFile]:
    """Return the files that can be opened; a warning names the others."""
    kept: list[AnyFile] = []
    errors: list[MosaicError] = []
    for file in files:
        try:
            for part in file.parts:
                _ = part.metadata
        except (CorruptFileError, UnsupportedError) as error:
            errors.append(error)
        else:
            kept.append(file)
    if not kept:
        raise errors[0]
    if errors:
        some = "; ".join(map(str, errors[:5])) + ("; ..." if len(errors) > 5 else "")
        warnings.warn(f"skipped {len(errors)} unreadable files: {some}", stacklevel=4)
    return kept


def _version_of(source: Source) -> object:
    return getattr(source, "version", None)  # callers may pass other sources
