"""Many files as one table: open them, read, count and take rows.

Opening reads the end of every file once. Then it is known which row groups may match a filter, how
many rows there are, and where the bytes of a column are. If the schema is given, a file is opened
when a query needs it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar

import pyarrow as pa

from ..errors import SchemaMismatchError
from ..file.dictionaries import ManyDictionaries
from ..file.frames import FrameCache
from ..file.opening import SchemaCache
from ..file.scan import MIN_THREADED_BYTES
from ..format.column_set import ColumnSet
from ..format.user_schema import Attached, agreed
from ..memory import Memory, MemoryLimit, checked_limit
from ..query.keys import Lookup
from ..query.query import Query
from ..query.rows import (
    RowCounter,
    Rows,
    concatenated,
    one_batch,
    row_numbers,
    rows_without_columns,
    take_rows,
)
from ..schemas.fit import Fits
from ..schemas.union import Fixed, Union
from ..schemas.widen import check_same
from ..threads import REMOTE_THREADS, map_in_order, num_threads
from .discovery import discover
from .files import File, ReadOptions, read_all_metadata, readable
from .found import Found
from .hive import resolve
from .joined_files import ReadableFile
from .plan import FilePlan, Window, matching_files, plan, windows
from .table_files import (
    DatasetFile,
    TableColumns,
    TableFile,
    UserColumns,
    absent_columns,
    declared_keys,
)

# Memory for row groups that are read together, over all threads.
MAX_HELD_BYTES: Final = 64 << 20
# Small batches are joined up to this size: copying them costs less than handling each one.
MAX_JOINED_BYTES: Final = 2 << 20

# A row group of more rows than these may have equal rows: a sample of them tells whether to read it.
MAX_UNKNOWN_ROWS: Final = 1 << 22

Result = TypeVar("Result")
Partitioning: TypeAlias = Literal["hive"] | pa.Schema | None


class FileSet:
    """Files that are read as one table.

    The parameters are those of `MosaicDataset`. With `skip_corrupt`, files that cannot be opened
    are left out, with a warning.
    """

    def __init__(
        self,
        source: Any,
        *,
        filesystem: Any = None,
        schema: pa.Schema | None = None,
        partitioning: Partitioning = "hive",
        unify: bool = True,
        skip_corrupt: bool = False,
        memory_limit: MemoryLimit = None,
        strict: bool = True,
        follow_links: bool = False,
        logical: bool = True,
        cache: MemoryLimit = None,
    ) -> None:
        if partitioning not in ("hive", None) and not isinstance(partitioning, pa.Schema):
            raise ValueError(
                "partitioning must be 'hive', a pyarrow.Schema of the keys, or None, "
                f"not {partitioning!r}"
            )
        if schema is not None and not isinstance(schema, pa.Schema):
            raise TypeError(f"schema must be a pyarrow.Schema, not {type(schema).__name__}")
        found = discover(
            source,
            filesystem,
            partitioned=partitioning is not None,
            follow_links=follow_links,
        )
        keys = [(one.name, one.keys) for one in found]
        declared = partitioning if isinstance(partitioning, pa.Schema) else None
        types = declared or declared_keys(found) if schema is None else schema
        self.partitions, values = resolve(keys, types)
        for name in () if declared is None else declared.names:
            if not all(name in one.keys for one in found):
                raise ValueError(f"partitioning: no directory is called {name}=...")
        schemas = SchemaCache()
        limit = None if memory_limit is None else checked_limit(memory_limit)
        self.reading = ReadOptions(limit, strict, logical, FrameCache.of(cache))
        tables: dict[int, TableColumns] = {}

        def made(one: Found, values: tuple[pa.Scalar, ...]) -> DatasetFile:
            if one.entry is None:
                return File(one, values, schemas, self.reading)
            table = one.entry.snapshot
            if id(table) not in tables:
                tables[id(table)] = TableColumns(table, schemas, self.reading)
            return TableFile(one, values, schemas, self.reading, tables[id(table)])

        self.files: list[DatasetFile] = list(map(made, found, values))
        if skip_corrupt:
            self.files = readable(self.files)
        self._schemas: dict[ColumnSet, str] = {}  # each with the name of a file that has it
        self.columns: ColumnSet
        self.attached: Attached | None = None
        if schema is not None:
            self.columns = Fixed(schema)
        else:
            self._learn(self.files)
            if not unify:
                check_same(
                    [(columns.to_arrow(), name) for columns, name in self._schemas.items()],
                    exact=True,
                    advice="pass unify=True to read their union",
                )
            if not logical:  # columns as they are stored in files
                self.columns = Union(self._schemas, self.partitions)
            else:
                absent = absent_columns(tables.values(), self._schemas, self.partitions)
                self.columns = Union(self._schemas, self.partitions, absent and absent[1])
                self.attached = self._agreed([] if absent is None else [absent])

    @property
    def schema(self) -> pa.Schema:
        """All columns, with the user's types and metadata."""
        schema = self.columns.to_arrow()
        return schema if self.attached is None else self.attached.schema(schema)

    @property
    def is_lazy(self) -> bool:
        """Whether files are opened only when a query needs them."""
        return isinstance(self.columns, Fixed) or any(
            isinstance(file, TableFile) for file in self.files
        )

    def _open(self, files: Sequence[ReadableFile]) -> None:
        """Read the metadata of `files`."""
        for _ in read_all_metadata(files):
            pass
        self._learn([file for file in files if isinstance(file, File)])

    def _learn(self, files: Sequence[DatasetFile]) -> None:
        """Read the columns of `files`: those of a table are known without opening them."""
        if any(isinstance(file, File) and not file.is_open for file in files):
            self._open([file for file in files if isinstance(file, File)])
        for file in files:
            if file.columns not in self._schemas:
                self._check_keys(file)
                self._schemas[file.columns] = file.name

    def _agreed(self, absent: Sequence[UserColumns]) -> Attached | None:
        """Return the user's types and metadata that all files agree on.

        `absent` are columns that no file has.
        """
        distinct = {id(one): one for one in (file.user_schemas for file in self.files)}
        every = itertools.chain.from_iterable(distinct.values())
        attached = agreed([*every, *absent], self.partitions.names)
        if attached is None or not any(file.may_have_dictionaries for file in self.files):
            return attached
        return attached.with_dictionaries(ManyDictionaries(self.files))

    def _check_keys(self, file: DatasetFile) -> None:
        for name in self.partitions.names:
            if file.columns.find(name) is not None:
                raise SchemaMismatchError(
                    "the column is in the file and also a key in its path, "
                    f"{name}={file.found.keys[name]}; pass partitioning=None to read the one in "
                    "the file",
                    file=file.name,
                    column=name,
                )

    # ---- what to read

    def query(
        self,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        *,
        rows: Rows | None = None,
        limit: int | None = None,
    ) -> Query:
        """Check what a caller asks for; the parameters are those of `Query.of`."""
        return Query.of(
            self.columns, columns, filters, attached=self.attached, rows=rows, limit=limit
        )

    def known_rows(self) -> int | None:
        """Return the number of rows, or None if a file would have to be opened."""
        if not all(isinstance(file, TableFile) or file.is_open for file in self.files):
            return None
        return sum(file.num_rows for file in self.files)

    def known_bytes(self) -> int | None:
        """Return the size of all files, or None if a file would have to be opened."""
        total = 0
        for file in self.files:
            is_known = isinstance(file, TableFile) or file.is_open
            size = file.size if is_known else file.found.size
            if size is None:
                return None
            total += size
        return total

    def only(self, files: Sequence[DatasetFile]) -> FileSet:
        """Return some of the files, with the columns and types of all."""
        made = copy(self)
        made.files = list(files)
        return made

    def column_names(self) -> list[str]:
        """Return the names of the columns that files have, without partition columns."""
        every = dict.fromkeys(file.columns for file in self.files)
        return list(dict.fromkeys(itertools.chain.from_iterable(one.names() for one in every)))

    def is_of_partitions(self, query: Query) -> bool:
        """Return whether the filter of a query is about partition columns alone."""
        keys = set(self.partitions.names)
        return bool(query.needed) and all(field.name in keys for field in query.needed)

    def may_skip(self) -> bool:
        """Return whether any filter could skip a file or a row group."""
        if self.is_lazy or len(self.partitions) or len(self._schemas) > 1:
            return True  # a column that a file lacks is null there
        known = [file.metadata for file in self.files]
        return any(
            one.has_statistics(group) or one.rows_of(group) > MAX_UNKNOWN_ROWS
            for one in known
            for group in range(one.num_row_groups)
        )

    def matching_files(self, query: Query) -> list[DatasetFile]:
        """Return the files whose partition may match the filter of a query, without opening any."""
        return matching_files(query, self.files, self.partitions)

    def plan(self, query: Query) -> list[FilePlan]:
        """Return the files and row groups that may contain rows of a query, in order."""
        return plan(query, self.files, self.partitions, self._open)

    # ---- reading

    def read(
        self, columns: Sequence[str] | None = None, filters: Any = None, use_threads: bool = True
    ) -> pa.Table:
        """Read all rows that match `filters` into a table."""
        return self.read_query(self.query(columns, filters), use_threads)

    def read_query(self, query: Query, use_threads: bool = True) -> pa.Table:
        """Read the rows of a query into a table."""
        if query.limit is not None and query.expression is not None:
            return self._first_matches(query, query.limit, use_threads)
        memory = Memory(self.reading.memory_limit)
        if query.expression is not None:
            batches = self._joined_row_groups(query, use_threads, memory=memory)
            return query.finish_each(batches, memory)
        fits = Fits(query.schema, self.partitions)
        whole = [
            Window(one.file, one.groups, one.rows, one.file.read_bytes(fits, one.groups))
            for one in self.plan(query)
        ]

        def read(window: Window, within: bool) -> list[pa.RecordBatch]:
            return window.file.read(fits, window.groups, within, memory, window.rows)

        held = [batch for batches in each_window(read, whole, use_threads) for batch in batches]
        table = query.finish(held)
        return table if query.limit is None else _at_most(query.limit, table)

    def _first_matches(self, query: Query, limit: int, use_threads: bool) -> pa.Table:
        """Read windows one after another, until there are `limit` matches."""
        tables = [query.finish([])]
        batches = self._row_groups(query, use_threads, limit, ahead=False)
        while limit > 0 and (batch := next(batches, None)) is not None:
            tables.append(_at_most(limit, query.finish([batch])))
            limit -= tables[-1].num_rows
        return concatenated(tables)

    def iter_batches(
        self,
        query: Query,
        batch_size: int,
        use_threads: bool = True,
        *,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `batch_size`; memory stays bounded.

        `progress` is called with the number of rows that were read, before a filter.
        """
        left = query.limit
        for batch in self._joined_row_groups(query, use_threads, batch_size):
            if progress is not None:
                progress(batch.num_rows)
            found = query.finish_batch(batch)
            if left is not None:
                found = found.slice(0, min(left, found.num_rows))
                left -= found.num_rows
            for start in range(0, found.num_rows, batch_size):
                yield found.slice(start, batch_size)
            if left == 0:
                return

    def head(self, num_rows: int, query: Query, use_threads: bool = True) -> pa.Table:
        """Read the first rows of a query; row groups behind them are not read."""
        return self.read_query(replace(query, limit=max(0, num_rows)), use_threads)

    def take(self, indices: Any, query: Query, use_threads: bool = True) -> pa.Table:
        """Read rows by number, counted among those that match the filter, in the given order.

        Without a filter, only these rows are decoded, and row groups without any are not read.
        """
        numbers = row_numbers(indices)
        if query.expression is None:
            return query.take(numbers, lambda one: self.read_query(one, use_threads))
        # Arrow takes rows of all plain types, but not of all types that users have.
        plain = replace(query, attached=None)
        table = take_rows(self.read_query(plain, use_threads), numbers)
        return table if query.attached is None else query.attached.put_on(table)

    def find(self, wanted: Lookup, use_threads: bool = True) -> None:
        """Find the rows of keys, in files and row groups that may contain them."""
        query = self.query(wanted.names, wanted.expression)
        fits = Fits(query.schema, self.partitions)
        self._open([file for file in self.files if isinstance(file, File)])
        first = 0
        for file in self.files:
            for one in self.only([file]).plan(query):
                if wanted.is_done:
                    return
                self._find_in(one, first, wanted, fits, use_threads)
            first += file.num_rows

    def _find_in(
        self, one: FilePlan, first: int, wanted: Lookup, fits: Fits, use_threads: bool
    ) -> None:
        """Find the rows of keys in a file, whose first row is number `first`."""
        edges = one.file.metadata.row_edges
        found = one.file.part_with(wanted.names[0]).key_rows(wanted)
        if found is None:
            numbers = RowCounter(edges, one.groups, first)
            for batch in one.file.batches(fits, one.groups, use_threads):
                wanted.add(numbers.next(batch.num_rows), batch)
            return
        rows = Rows.numbered(found)
        memory = Memory(self.reading.memory_limit)
        for group in one.groups:
            own = rows.within(edges[group], edges[group + 1])
            if len(own):
                start = first + edges[group]
                listed = [start + number for a, b in own.ranges for number in range(a, b)]
                batches = one.file.read(fits, [group], use_threads, memory, rows)
                wanted.add(listed, one_batch(pa.Table.from_batches(batches)))

    def count_rows(self, filters: Any = None, use_threads: bool = True) -> int:
        """Count the rows that match; without a filter, only metadata is read."""
        if filters is None:
            self._open([file for file in self.files if isinstance(file, File)])
            return sum(file.num_rows for file in self.files)
        query = self.query([], filters)
        if self.is_of_partitions(query):
            matching = self.matching_files(query)
            self._open([file for file in matching if isinstance(file, File)])
            return sum(file.num_rows for file in matching)
        batches = self._joined_row_groups(query, use_threads)
        total = found = 0
        last: pa.RecordBatch | None = None
        for batch in batches:
            if batch is not last:  # a batch of equal rows may come many times
                found, last = query.finish_batch(batch).num_rows, batch
            total += found
        return total

    def _joined_row_groups(
        self, query: Query, use_threads: bool, batch_rows: int = 1, memory: Memory | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield row groups, small ones joined: the steps that follow have a cost per batch."""
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in self._row_groups(query, use_threads, batch_rows, memory):
            # A batch of nulls has few bytes for any number of rows.
            batch_bytes = max(batch.get_total_buffer_size(), batch.num_rows)
            if held and size + batch_bytes > MAX_JOINED_BYTES:
                yield _joined(held)
                held, size = [], 0
            held.append(batch)
            size += batch_bytes
        if held:
            yield _joined(held)

    def _row_groups(
        self,
        query: Query,
        use_threads: bool,
        batch_rows: int,
        memory: Memory | None = None,
        *,
        ahead: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Yield row groups as batches; only with `ahead`, more are read than were asked for.

        A large row group is divided into batches of a multiple of `batch_rows` rows. `memory` is that
        of the result, if it keeps all rows that match.
        """
        accepts = partial(query.accepts, memory=memory)
        fits = Fits(query.schema, self.partitions)
        plans = self.plan(query)
        local = all(one.file.is_local for one in plans)
        limit = MAX_HELD_BYTES // (num_threads() if local else REMOTE_THREADS)

        def read(window: Window, within: bool) -> Iterable[pa.RecordBatch]:
            return window.file.batches(
                fits, window.groups, within, batch_rows, window.rows, accepts=accepts
            )

        divided = list(windows(plans, fits, limit))
        for batches in each_window(read, divided, use_threads, ahead=ahead):
            yield from batches


def each_window(
    read: Callable[[Window, bool], Result],
    divided: Sequence[Window],
    use_threads: bool,
    *,
    ahead: bool = True,
) -> Iterator[Result]:
    """Read each window, in order, with threads across windows or within each."""
    threads = num_threads()
    if not ahead:
        across, within = False, use_threads
    elif not all(window.file.is_local for window in divided):
        # Most of the time is spent waiting for the network, so many requests run at once.
        across, within, threads = use_threads, use_threads, REMOTE_THREADS
    elif len(divided) < 2 * threads:
        across, within = False, use_threads
    else:
        across = use_threads and sum(one.size for one in divided) >= MIN_THREADED_BYTES
        within = False
    return map_in_order(
        lambda window: read(window, within), divided, across, purpose="files", threads=threads
    )


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    if not batches[0].num_columns:
        return rows_without_columns(sum(batch.num_rows for batch in batches))
    return pa.concat_batches(batches)


def _at_most(num_rows: int, table: pa.Table) -> pa.Table:
    # Slicing a table without columns returns as many rows as are asked for.
    return table.slice(0, min(num_rows, table.num_rows))
