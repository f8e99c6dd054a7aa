"""MosaicFile: an open file, and reading columns, row groups and rows of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow as pa

from ..display.summary import Summary
from ..display.text import counted, human_size
from ..errors import located
from ..format.file_schema import FileSchema
from ..format.fixed_sizes import portions
from ..format.metadata import FileMetaData
from ..format.user_schema import Attached
from ..memory import Memory, MemoryLimit, checked_limit
from ..query.query import Query
from ..query.rows import RowCounter, Rows, one_batch, row_numbers, sampled
from ..storage.location import locate
from ..storage.source import Source, open_source
from .dictionaries import FileDictionaries
from .fill import FilledColumns, GroupRows, fill_matrix
from .frames import FrameCache
from .opening import read_end
from .scan import Accepts, Scanner, ScanRequest

if TYPE_CHECKING:
    from ..query.keys import Lookup, Missing
    from .key_index import KeyIndex

Readable: TypeAlias = (
    str | os.PathLike[str] | IO[bytes] | bytes | pa.NativeFile | pa.Buffer | Source
)


class MosaicFile:
    """A Mosaic file, open for reading.

    Opening reads only the end of the file; columns are decoded when they are read. A file can be
    read from several threads at once. It can be pickled if it was opened by path, by URI or from
    bytes; unpickling opens it again.

    Parameters
    ----------
    source : path, URI, binary file object, buffer or bytes
        The file to read.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `source`; by default the local one, or that of the URI.
    memory_limit : int or str, optional
        Maximum memory of a result, in bytes or as text such as "8g": of the table that `read`
        returns, or of each batch of `iter_batches`. A larger result raises `MemoryLimitError`
        before its memory is allocated. The default is the environment variable
        FASTMOSAIC_MEMORY_LIMIT, or else half of the memory of the machine or container.
    strict : bool, default True
        Refuse decimals with more digits than their type has, and times outside the day. If False,
        they are returned as they are stored, and `validate(full=True)` of the result fails.
    logical : bool, default True
        Restore the types that were written. If False, read the columns that the file stores, as
        other readers show them: a struct as one column for each field, a duration as an integer.
    cache : int or str, optional
        Keep decompressed data in memory, up to this many bytes or e.g. "64m", for rows that are
        read again by `take` and `lookup`. By default nothing is kept.

    Examples
    --------
    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), sink)
    >>> with fm.MosaicFile(sink.getvalue()) as file:
    ...     file.schema.names, file.num_row_groups, file.read(columns=["name"]).num_rows
    (['id', 'name'], 1, 2)
    """

    def __init__(
        self,
        source: Readable,
        *,
        filesystem: object = None,
        memory_limit: MemoryLimit = None,
        strict: bool = True,
        logical: bool = True,
        cache: MemoryLimit = None,
    ) -> None:
        self._closed = True
        self._cache = FrameCache.of(cache)
        self._memory_limit = None if memory_limit is None else checked_limit(memory_limit)
        self._strict = strict
        self._logical = logical
        self._origin = source, filesystem
        self._source = open_source(source, filesystem)
        try:
            self._metadata, tail = read_end(self._source)
        except BaseException:
            self._source.close()
            raise
        if logical and self._metadata.footer.restores_types:
            with located(file=self._source.name):
                self._columns = self._metadata.columns
        else:
            self._columns = FileSchema(self._metadata.schema_block)
        self._scanner = Scanner(self._source, self._metadata, tail, strict, self._cache)
        self._key_indexes: dict[tuple[str, ...], KeyIndex | None] = {}
        self._closed = False

    @property
    def name(self) -> str:
        """Path or URI of the file, without credentials; a placeholder for other objects."""
        return self._source.name

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the columns in the order in which they were written."""
        with located(file=self._source.name):
            return self._metadata.schema if self._logical else self._columns.to_arrow()

    @property
    def metadata(self) -> FileMetaData:
        """Rows, columns, row groups, buckets and statistics of the file."""
        return self._metadata

    @property
    def num_row_groups(self) -> int:
        return self._metadata.num_row_groups

    @property
    def closed(self) -> bool:
        return self._closed

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        filters: Any = None,
        row_groups: Sequence[int] | None = None,
        use_threads: bool = True,
    ) -> pa.Table:
        """Read the file, or some of its row groups, into a table.

        Parameters
        ----------
        columns : list of str, optional
            Names of columns, paths of fields inside structs such as `info.name`, or globs such as
            `price_*` of either, in this order. A field is returned as the struct with only this
            field. The name of an existing column is never treated as a path or a glob. By default,
            all columns are read.
        filters : pyarrow.compute.Expression or list of tuples or list of lists of tuples, optional
            Which rows to read, as in `pyarrow.parquet.read_table`. Row groups whose statistics
            show that no row can match are skipped.
        row_groups : list of int, optional
            Numbers of the row groups to read, in this order; by default all.
        use_threads : bool, default True
            Read and decode in several threads.

        Examples
        --------
        >>> import pyarrow as pa, fastmosaic as fm
        >>> sink = pa.BufferOutputStream()
        >>> fm.write_table(pa.table({"id": [1, 2, 3], "price": [9.0, 10.0, 11.0]}), sink)
        >>> file = fm.MosaicFile(sink.getvalue())
        >>> file.read(columns=["id"], filters=[("price", ">", 9.5)]).column("id").to_pylist()
        [2, 3]
        """
        return self._read(self._query(columns, filters), row_groups, use_threads)

    def _read(
        self, query: Query, row_groups: Sequence[int] | None = None, use_threads: bool = True
    ) -> pa.Table:
        """Read the rows of a query into a table."""
        groups = self._groups(query, row_groups)

        def expected() -> int:
            positions = self._columns.projection(query.schema).positions
            row_bytes = self._metadata.row_bytes(positions)
            return row_bytes * sum(map(self._metadata.rows_of, groups))

        is_all = query.expression is None and query.rows is None
        memory = Memory(self._memory_limit, expected=expected if is_all else lambda: 0)
        with located(file=self._source.name):
            if query.expression is None:
                request = self._request(query, use_threads)
                return query.finish(self._scanner.read(request, groups, memory), memory)
            request = self._request(query, use_threads, partial(query.accepts, memory=memory))
            return query.finish_each(self._scanner.batches(request, groups, 1), memory)

    def take(
        self, indices: Any, columns: Sequence[str] | None = None, *, use_threads: bool = True
    ) -> pa.Table:
        """Read rows by number, in the given order.

        Only these rows are decoded, and row groups without any of them are not read.

        Parameters
        ----------
        indices : list of int, numpy array or pyarrow.Array
            Row numbers, counted from 0, in any order; duplicates are allowed. A number that is
            negative or not less than the number of rows raises IndexError.
        columns, use_threads
            As in `read`.

        Examples
        --------
        >>> import pyarrow as pa, fastmosaic as fm
        >>> sink = pa.BufferOutputStream()
        >>> fm.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), sink)
        >>> fm.MosaicFile(sink.getvalue()).take([2, 0, 2], ["name"]).column("name").to_pylist()
        ['c', 'a', 'c']
        """
        query = self._query(columns, None)
        return query.take(row_numbers(indices), lambda one: self._read(one, None, use_threads))

    def sample(
        self,
        n: int,
        *,
        seed: int | None = None,
        columns: Sequence[str] | None = None,
        use_threads: bool = True,
    ) -> pa.Table:
        """Read `n` different rows, chosen at random with equal chances, in the order of the file.

        The same `seed` returns the same rows, in every process and for any number of threads.
        Only these rows are decoded. More rows than exist raise ValueError.

        Examples
        --------
        >>> import pyarrow as pa, fastmosaic as fm
        >>> sink = pa.BufferOutputStream()
        >>> fm.write_table(pa.table({"id": range(100)}), sink)
        >>> fm.MosaicFile(sink.getvalue()).sample(3, seed=0).column("id").to_pylist()
        [49, 53, 97]
        """
        numbers = sampled(self._metadata.num_rows, n, seed)
        return self.take(numbers, columns, use_threads=use_threads)

    def lookup(
        self,
        keys: Any,
        *,
        key: str | Sequence[str] = "id",
        columns: Sequence[str] | None = None,
        missing: Missing = "null",
        use_threads: bool = True,
    ) -> pa.Table:
        """Read the rows that have some keys, in the order of the keys; see `lookup`.

        Examples
        --------
        >>> import pyarrow as pa, fastmosaic as fm
        >>> sink = pa.BufferOutputStream()
        >>> fm.write_table(pa.table({"id": [10, 20, 30], "name": ["a", "b", "c"]}), sink)
        >>> fm.MosaicFile(sink.getvalue()).lookup([30, 7, 10], columns=["name"])["name"].to_pylist()
        ['c', None, 'a']
        """
        from ..query.keys import Lookup  # on use, because it takes longer than reading a column

        query = self._query(columns, None)
        with located(file=self._source.name):
            wanted = Lookup(self._columns, keys, key, missing)
            self._find(wanted, use_threads)

            def take(numbers: pa.Int64Array, plain: Query) -> pa.Table:
                return plain.take(numbers, lambda one: self._read(one, None, use_threads))

            return wanted.finish(query, take)

    def _find(self, wanted: Lookup, use_threads: bool) -> None:
        """Find the rows of keys, in row groups that may contain them."""
        if wanted.is_done:
            return
        if self._logical and (index := self._key_index(wanted.names)) is not None:
            rows = index.rows_of(wanted.complete, self._source)
            query = Query.of(self._columns, wanted.names, rows=Rows.numbered(rows))
            wanted.add(rows, one_batch(self._read(query, None, use_threads)))
            return
        query = Query.of(self._columns, wanted.names, wanted.expression)
        groups = self._groups(query, None)
        request = self._request(query, use_threads, lambda _, __: True)
        numbers = RowCounter(self._metadata.row_edges, groups)
        for batch in self._scanner.batches(request, groups, 1):
            wanted.add(numbers.next(batch.num_rows), batch)
            if wanted.is_done:
                return

    def _key_index(self, names: Sequence[str]) -> KeyIndex | None:
        """Return the key index of the file, if it has one for these columns."""
        if self._metadata.key_index is None:
            return None
        from .key_index import KeyIndex

        if tuple(names) not in self._key_indexes:
            self._key_indexes[tuple(names)] = KeyIndex.of(self._metadata, names)
        return self._key_indexes[tuple(names)]

    def read_row_group(
        self, i: int, columns: Sequence[str] | None = None, *, use_threads: bool = True
    ) -> pa.Table:
        """Read one row group into a table."""
        return self.read(columns, row_groups=[i], use_threads=use_threads)

    def read_row_groups(
        self,
        row_groups: Sequence[int],
        columns: Sequence[str] | None = None,
        *,
        use_threads: bool = True,
    ) -> pa.Table:
        """Read some row groups, in the given order, into a table."""
        return self.read(columns, row_groups=row_groups, use_threads=use_threads)

    def iter_batches(
        self,
        batch_size: int = 65536,
        *,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        row_groups: Sequence[int] | None = None,
        use_threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Read the file in record batches of at most `batch_size` rows, with bounded memory.

        Row groups of any size can be read: a large one is decoded a portion at a time. The other parameters are those of `read`.

        Examples
        --------
        >>> import pyarrow as pa, fastmosaic as fm
        >>> sink = pa.BufferOutputStream()
        >>> fm.write_table(pa.table({"id": range(10)}), sink)
        >>> [batch.num_rows for batch in fm.MosaicFile(sink.getvalue()).iter_batches(4)]
        [4, 4, 2]
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, not {batch_size}")
        query = self._query(columns, filters)
        return self._iter_batches(query, self._groups(query, row_groups), batch_size, use_threads)

    def _iter_batches(
        self, query: Query, groups: Sequence[int], batch_size: int, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        request = self._request(query, use_threads)
        for rows in self._scanner.batches(request, groups, batch_size):
            for part in portions(rows, query.result, batch_size):
                with located(file=self._source.name):
                    batch = query.finish_batch(part)
                for start in range(0, batch.num_rows, batch_size):
                    yield batch.slice(start, batch_size)

    def plain_batches(
        self, schema: pa.Schema, groups: Sequence[int], use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of row groups with plain types."""
        request = ScanRequest(
            self._columns.projection(schema), use_threads, memory_limit=self._memory_limit
        )
        return self._scanner.batches(request, groups, 1)

    def fill(
        self,
        request: FilledColumns,
        groups: Sequence[GroupRows],
        use_threads: bool,
        memory: Memory,
    ) -> None:
        """Decode rows of row groups into a matrix, for `read_matrix`."""
        self._check_open()
        fill_matrix(self._scanner, request, groups, use_threads, memory)

    def close(self) -> None:
        """Close the file. A file object that the caller passed stays open."""
        if not self._closed:
            self._closed = True
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., MosaicFile], tuple[object, ...]]:
        if self._closed:
            raise ValueError("cannot pickle a closed MosaicFile")
        source, filesystem = self._origin
        if (found := locate(source, filesystem)) is not None:
            if found[1] is None:  # another process may have another working directory
                source, filesystem = os.path.abspath(found[2]), None
        elif isinstance(source, memoryview):
            source = bytes(source)
        elif not isinstance(source, bytes | bytearray | pa.Buffer):
            raise TypeError(
                f"cannot pickle a MosaicFile opened from an object of type {type(source).__name__}; "
                "open it by path, by URI or from bytes"
            )
        limit = None if self._cache is None else self._cache.limit
        return _open, (source, filesystem, self._memory_limit, self._strict, self._logical, limit)

    def __repr__(self) -> str:
        return self._summary().to_text()

    def _repr_html_(self) -> str:
        return self._summary().to_html()

    def _summary(self) -> Summary:
        metadata = self._metadata
        is_stored = not self._logical
        facts = [
            counted(metadata.num_rows, "row"),
            counted(metadata.num_columns, "column") if is_stored else metadata.counted_columns(),
            human_size(self._source.size),
            counted(metadata.num_row_groups, "row group"),
            *(["closed"] if self._closed else []),
        ]
        notes = [counted(metadata.num_buckets, "bucket"), metadata.compression, *metadata.notes()]
        return Summary("MosaicFile", facts, self._source.name, notes, lambda: self.schema)

    # ---- what to read

    def _query(self, columns: Sequence[str] | None, filters: Any) -> Query:
        self._check_open()
        with located(file=self._source.name):
            # Most files have none, and looking for it takes microseconds.
            attached = self._attached if self._metadata.has_user_schema else None
            return Query.of(self._columns, columns, filters, attached=attached)

    @cached_property
    def _attached(self) -> Attached | None:
        """Types and metadata to put on results."""
        attached = self._metadata.attached if self._logical else None
        if attached is None or self._metadata.dictionaries is None:
            return attached
        return attached.with_dictionaries(self.dictionaries)

    @cached_property
    def dictionaries(self) -> FileDictionaries | None:
        """The dictionaries of the user in the file."""
        if self._metadata.dictionaries is None:
            return None
        return FileDictionaries(self._source, self._metadata)

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Provide the bytes of the file."""
        self._check_open()
        yield self._source

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the file is closed")

    def _groups(self, query: Query, row_groups: Sequence[int] | None) -> list[int]:
        """Return the row groups, of those that are asked for, that may contain rows of `query`."""
        groups = list(range(self.num_row_groups)) if row_groups is None else list(row_groups)
        for group in groups:
            self._metadata.check_row_group(group)
        if query.rows is not None:
            query.rows.check(self._metadata.num_rows)
            edges = self._metadata.row_edges
            groups = [
                group for group in groups if len(query.rows.within(*edges[group : group + 2]))
            ]
        if query.expression is None:
            return groups
        known = [query.statistics(self._metadata, self._columns, group) for group in groups]
        return [groups[i] for i in query.matching(known)]

    def _request(
        self, query: Query, use_threads: bool, accepts: Accepts | None = None
    ) -> ScanRequest:
        """Return what the scanner reads for a query; a filter is not applied yet."""
        return ScanRequest(
            self._columns.projection(query.schema),
            use_threads,
            query.rows,
            self._memory_limit,
            accepts or query.accepts,
        )


def _open(
    source: Readable,
    filesystem: object,
    memory_limit: MemoryLimit,
    strict: bool,
    logical: bool,
    cache: int | None,
) -> MosaicFile:
    return MosaicFile(
        source,
        filesystem=filesystem,
        memory_limit=memory_limit,
        strict=strict,
        logical=logical,
        cache=cache,
    )
