"""MosaicFile: an open file, and which of its columns, row groups and rows are wanted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Final, Self, TypeAlias

import pyarrow as pa

from ..errors import ColumnNotFoundError, located
from ..format.metadata import FileMetaData
from ..format.user_schema import Attached
from ..query import filters as filtering
from ..storage.source import Source, open_source
from .opening import read_end
from .scan import Scanner, rows_without_columns

Readable: TypeAlias = (
    str | os.PathLike[str] | IO[bytes] | bytes | pa.NativeFile | pa.Buffer | Source
)

# iter_batches reads row groups together until they come to this many bytes.
WINDOW_BYTES: Final = 64 << 20


class MosaicFile:
    """A Mosaic file, open for reading.

    Opening reads the end of the file; columns are decoded when they are asked for. A file can be
    read from several threads at once.

    Parameters
    ----------
    source : path, URI, binary file object, buffer or bytes
    filesystem : pyarrow or fsspec filesystem, optional
        Where the path `source` is.

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
    ) -> None:
        self._closed = True
        self._source = open_source(source, filesystem)
        try:
            self._metadata, tail = read_end(self._source)
        except BaseException:
            self._source.close()
            raise
        self._schema = self._metadata.schema_block
        self._scanner = Scanner(self._source, self._metadata, tail)
        self._closed = False

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, columns in the order of the writer."""
        return self._metadata.schema

    @property
    def metadata(self) -> FileMetaData:
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
        """The rows of the file, or of some of its row groups, as a table.

        Parameters
        ----------
        columns : list of str, optional
            The columns to read, in this order; by default all of them.
        filters : pyarrow.compute.Expression or list of tuples or list of lists of tuples
            Which rows to read, as in `pyarrow.parquet.read_table`. Row groups whose statistics
            show that no row can match are not read.
        row_groups : list of int, optional
        use_threads : bool

        Examples
        --------
        >>> import pyarrow as pa, fastmosaic as fm
        >>> sink = pa.BufferOutputStream()
        >>> fm.write_table(pa.table({"id": [1, 2, 3], "price": [9.0, 10.0, 11.0]}), sink)
        >>> file = fm.MosaicFile(sink.getvalue())
        >>> file.read(columns=["id"], filters=[("price", ">", 9.5)]).column("id").to_pylist()
        [2, 3]
        """
        query = self._query(columns, filters, row_groups)
        batches = self._scanner.read(query.positions, query.schema, query.groups, use_threads)
        return query.finish(pa.Table.from_batches(batches, schema=query.schema))

    def read_row_group(
        self, i: int, columns: Sequence[str] | None = None, *, use_threads: bool = True
    ) -> pa.Table:
        """The rows of one row group."""
        return self.read(columns, row_groups=[i], use_threads=use_threads)

    def read_row_groups(
        self,
        row_groups: Sequence[int],
        columns: Sequence[str] | None = None,
        *,
        use_threads: bool = True,
    ) -> pa.Table:
        """The rows of some row groups, in the order given."""
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
        """The rows as record batches of at most `batch_size` rows; memory stays bounded.

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
        query = self._query(columns, filters, row_groups)
        return self._iter_batches(query, batch_size, use_threads)

    def _iter_batches(
        self, query: _Query, batch_size: int, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        for window in self._windows(query.groups):
            for batch in self._scanner.read(query.positions, query.schema, window, use_threads):
                batch = query.finish_batch(batch)
                for start in range(0, batch.num_rows, batch_size):
                    yield batch.slice(start, batch_size)

    def _windows(self, groups: Iterable[int]) -> Iterator[list[int]]:
        window: list[int] = []
        size = 0
        for group in groups:
            window.append(group)
            size += self._metadata.bytes_of(group)
            if size >= WINDOW_BYTES:
                yield window
                window, size = [], 0
        if window:
            yield window

    def close(self) -> None:
        """Close the file; one that the caller opened stays open."""
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

    def __repr__(self) -> str:
        return f"<MosaicFile {self._source.name}: {self._metadata!r}>"

    # ---- what to read

    def _query(
        self, columns: Sequence[str] | None, filters: Any, row_groups: Sequence[int] | None
    ) -> _Query:
        if self._closed:
            raise ValueError("the file is closed")
        groups = list(range(self.num_row_groups)) if row_groups is None else list(row_groups)
        for group in groups:
            self._metadata.check_row_group(group)
        if columns is None:
            wanted = list(self._schema.order)
            schema = self._schema.to_arrow()
        else:
            wanted = [self._position(name) for name in unique(columns)]
            schema = pa.schema(self._schema.fields(wanted))
        with located(file=self._source.name):
            attached = self._metadata.attached
        if filters is None:
            return _Query(wanted, schema, groups, attached)
        expression = filtering.to_expression(filters)
        with located(file=self._source.name):
            names = filtering.columns_of(
                expression,
                self._names_in,
                lambda name: self._schema.field(self._position(name)),
                self._schema.names,
            )
        asked = [self._position(name) for name in names]
        extra = [position for position in asked if position not in set(wanted)]
        fields = [*schema, *self._schema.fields(extra)]
        kept = self._matching(expression, asked, groups)
        return _Query(wanted + extra, pa.schema(fields), kept, attached, expression, schema.names)

    def _position(self, name: str) -> int:
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a str, not by {type(name).__name__}")
        position = self._schema.find(name)
        if position < 0:
            names = self._schema.names()
            raise ColumnNotFoundError.for_name(name, names, file=self._source.name)
        return position

    def _names_in(self, text: str) -> list[str]:
        return [self._schema.name(position) for position in self._schema.occurring(text)]

    def _matching(self, expression: Any, positions: list[int], groups: list[int]) -> list[int]:
        """Those of `groups` that may hold a row for which `expression` is true."""
        known = []
        for group in groups:
            num_rows = self._metadata.rows_of(group)
            known.append(
                [
                    (
                        self._schema.field(statistic.position),
                        num_rows,
                        statistic.null_count,
                        *self._metadata.bounds(statistic),
                    )
                    for statistic in self._metadata.statistics(group, positions)
                ]
            )
        if not any(known):
            return groups
        schema = pa.schema(self._schema.fields(positions))
        return [groups[i] for i in filtering.matching(expression, known, schema)]


@dataclass(slots=True)
class _Query:
    """What to read, and what to do with it then."""

    positions: list[int]
    schema: pa.Schema
    groups: list[int]
    attached: Attached | None
    expression: Any = None
    names: list[str] | None = None  # of the columns that stay after filtering

    def finish(self, table: pa.Table) -> pa.Table:
        if self.expression is not None:
            table = filtering.filter_table(table, self.expression).select(self.names)
        return table if self.attached is None else self.attached.put_on(table)

    def finish_batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.expression is not None:
            return one_batch(self.finish(pa.Table.from_batches([batch], schema=self.schema)))
        return batch if self.attached is None else self.attached.put_on(batch)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """The rows of a table as a record batch; they are kept also where there is no column."""
    if not table.num_columns:
        return rows_without_columns(table.num_rows)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def unique(columns: Iterable[str]) -> list[str]:
    if isinstance(columns, str):
        raise TypeError(f"columns takes a list of names: [{columns!r}]")
    return list(dict.fromkeys(columns))
