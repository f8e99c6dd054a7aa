"""MosaicDataset: many files as one pyarrow dataset, for Arrow, DuckDB and Polars.

DuckDB and Polars support `pyarrow.dataset.Dataset` and pass columns and a filter to its scanner.
Members that need a C++ dataset are overridden, because there is none behind this class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds

from ..display.summary import Summary
from ..display.text import counted, human_size
from ..errors import UnsupportedError
from ..format.paths import leaves
from ..memory import MemoryLimit
from ..query.filters import project
from ..query.keys import Lookup, Missing
from ..query.query import fields_of
from ..query.rows import one_batch, row_numbers, sampled, take_rows
from .fileset import FileSet, Partitioning


class MosaicDataset(ds.Dataset):
    """Mosaic files, read as one table.

    Opening lists the files and reads the end of each. A query then reads only the columns that it
    needs, in the row groups and partitions that can match. No file stays open. The class is a
    `pyarrow.dataset.Dataset`, so DuckDB and Polars push projections and filters down into it.

    Parameters
    ----------
    source : path, URI or list of them
        A directory, which is searched recursively, a glob (`data/2024-*/*.mosaic`), a file, or a
        list of these. Names that begin with `.` or `_` are ignored.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the paths; by default the local one, or that of the URI.
    schema : pyarrow.Schema, optional
        The columns and types of the dataset. Columns that a file lacks are null there. Columns of
        another type are cast, which is an error if it would lose information. Files are opened
        only when a query needs them. By default, the schema is the union of all files.
    partitioning : "hive", pyarrow.Schema or None, default "hive"
        How to interpret directories called `key=value`. With "hive", each key is a column: of
        integers or dates if all values are, otherwise of strings. A schema chooses the types. None
        ignores the keys.
    unify : bool, default True
        Allow files with different schemas. In their union, columns that a file lacks are null
        there, and numbers, decimals and times get a type that holds all values. If False, different
        schemas are an error.
    memory_limit, strict, logical, cache
        As in `MosaicFile`; all files share the cache. The limit holds for the table that `read` returns, or for each batch.
    follow_links : bool, default False
        Follow links in a local directory that lead out of it. By default they are an error. Links
        to files and directories inside of it are always followed, and `source` may be a link.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, pyarrow.compute as pc, fastmosaic as fm
    >>> with tempfile.TemporaryDirectory() as path:
    ...     fm.write_table(pa.table({"id": [1, 2]}), f"{path}/a.mosaic")
    ...     fm.write_table(pa.table({"id": [3], "name": ["c"]}), f"{path}/b.mosaic")
    ...     dataset = fm.MosaicDataset(path)
    ...     dataset.count_rows(), dataset.to_table(filter=pc.field("id") > 1).to_pylist()
    (3, [{'id': 2, 'name': None}, {'id': 3, 'name': 'c'}])
    """

    def __init__(
        self,
        source: Any,
        *,
        filesystem: object = None,
        schema: pa.Schema | None = None,
        partitioning: Partitioning = "hive",
        unify: bool = True,
        memory_limit: MemoryLimit = None,
        strict: bool = True,
        follow_links: bool = False,
        logical: bool = True,
        cache: MemoryLimit = None,
    ) -> None:
        self._files = FileSet(
            source,
            filesystem=filesystem,
            schema=schema,
            partitioning=partitioning,
            unify=unify,
            memory_limit=memory_limit,
            strict=strict,
            follow_links=follow_links,
            logical=logical,
            cache=cache,
        )

    def __reduce__(self) -> tuple[Any, tuple[FileSet]]:
        return _from_files, (self._files,)

    def __repr__(self) -> str:
        return self._summary().to_text()

    def _repr_html_(self) -> str:
        return self._summary().to_html()

    def _summary(self) -> Summary:
        files = self._files
        rows, size = files.known_rows(), files.known_bytes()
        num_columns = len(files.columns.names())
        facts = [
            counted(len(files.files), "file"),
            *([] if rows is None else [counted(rows, "row")]),
            counted(num_columns, "column"),
            *([] if size is None else [human_size(size)]),
        ]
        keys = files.partitions.names
        notes = [
            *(["rows: not counted yet"] if rows is None else []),
            *([f"partitioned by {', '.join(keys)}"] if keys else []),
        ]
        return Summary("MosaicDataset", facts, notes=notes, schema=lambda: files.schema)

    def file_set(self) -> FileSet:
        """Return the files, for other modules of this package."""
        return self._files

    @property
    def schema(self) -> pa.Schema:
        """All columns: those of the files, then the partition columns."""
        return self._files.schema

    @property
    def files(self) -> list[str]:
        """Paths or URIs of the files, in the order in which they are read.

        Credentials in a URI are hidden.
        """
        return [file.name for file in self._files.files]

    def read(
        self,
        columns: Sequence[str] | None = None,
        *,
        filters: Any = None,
        use_threads: bool = True,
    ) -> pa.Table:
        """Read the dataset into a table; the parameters are those of `MosaicFile.read`."""
        return self._files.read(columns, filters, use_threads)

    def iter_batches(
        self,
        batch_size: int = 65536,
        *,
        columns: Sequence[str] | None = None,
        filters: Any = None,
        use_threads: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """Read the dataset in record batches of at most `batch_size` rows, with bounded memory."""
        _check_size(batch_size)
        return self._files.iter_batches(
            self._files.query(columns, filters), batch_size, use_threads
        )

    # ---- the members of pyarrow.dataset.Dataset, with the names of its parameters

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,
        batch_size: int = 131072,
        *,
        use_threads: bool = True,
        **options: Any,
    ) -> DatasetScanner:
        """Create a scanner of `columns`, names or expressions, for the rows that match `filter`.

        Nothing is read before the scanner is asked for rows.
        """
        _check(options)
        _check_size(batch_size)
        query = self._files.query(self._names(columns), filter)
        is_computed = isinstance(columns, Mapping)
        if is_computed:
            query = replace(
                query, attached=None
            )  # Arrow supports few extension types in expressions

        def batches() -> Iterator[pa.RecordBatch]:
            found = self._files.iter_batches(query, batch_size, use_threads)
            return (project(batch, columns) for batch in found) if is_computed else found

        schema = query.result
        if is_computed:
            schema = project(one_batch(schema.empty_table()), columns).schema
        return DatasetScanner(schema, batches)

    def _names(self, columns: Sequence[str] | Mapping[str, Any] | None) -> Sequence[str] | None:
        """Return the columns to read for `columns`, which may be expressions."""
        if not isinstance(columns, Mapping):
            return columns
        return [
            ".".join(path)
            for expression in columns.values()
            for field in fields_of(self._files.columns, expression, is_filter=False)
            for path, _ in leaves(field)
        ]

    def to_table(
        self,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,
        *,
        use_threads: bool = True,
        **options: Any,
    ) -> pa.Table:
        """Read the rows that match `filter` into a table."""
        _check(options)
        if isinstance(columns, Mapping):
            return self.scanner(columns, filter, use_threads=use_threads).to_table()
        return self._files.read(columns, filter, use_threads)

    def count_rows(self, filter: Any = None, *, use_threads: bool = True, **options: Any) -> int:
        """Count the rows that match `filter`; without a filter, no data is read."""
        _check(options)
        return self._files.count_rows(filter, use_threads)

    def head(
        self,
        num_rows: int,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,
        *,
        use_threads: bool = True,
        **options: Any,
    ) -> pa.Table:
        """Read the first rows that match `filter` into a table."""
        _check(options)
        if isinstance(columns, Mapping):
            return self.scanner(columns, filter, use_threads=use_threads).head(num_rows)
        return self._files.head(num_rows, self._files.query(columns, filter), use_threads)

    def take(
        self,
        indices: Any,
        columns: Sequence[str] | Mapping[str, Any] | None = None,
        filter: Any = None,
        *,
        use_threads: bool = True,
        **options: Any,
    ) -> pa.Table:
        """Read rows by number, counted among those that match `filter`, in the given order.

        Without a filter, only these rows are decoded, and row groups without any are not read.

        Parameters
        ----------
        indices : list of int, numpy array or pyarrow.Array
            Row numbers, counted over all files from 0, in any order; duplicates are allowed. A
            number that is negative or not less than the number of rows raises IndexError.
        columns : list of str, or dict of str to pyarrow.compute.Expression, optional
            As in `scanner`; by default all columns.
        filter : pyarrow.compute.Expression or list of tuples, optional
            Count only the rows that match; they are all read.
        use_threads : bool, default True
            Read and decode in several threads.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, fastmosaic as fm
        >>> with tempfile.TemporaryDirectory() as path:
        ...     fm.write_table(pa.table({"id": [1, 2]}), f"{path}/a.mosaic")
        ...     fm.write_table(pa.table({"id": [3, 4]}), f"{path}/b.mosaic")
        ...     fm.MosaicDataset(path).take([3, 0, 3]).column("id").to_pylist()
        [4, 1, 4]
        """
        _check(options)
        if isinstance(columns, Mapping):
            if filter is not None:
                whole = self.to_table(columns, filter, use_threads=use_threads)
                return take_rows(whole, row_numbers(indices))
            query = replace(self._files.query(self._names(columns)), attached=None)
            found = one_batch(self._files.take(indices, query, use_threads))
            return pa.Table.from_batches([project(found, columns)])
        return self._files.take(indices, self._files.query(columns, filter), use_threads)

    def sample(
        self,
        n: int,
        *,
        seed: int | None = None,
        columns: Sequence[str] | None = None,
        use_threads: bool = True,
    ) -> pa.Table:
        """Read `n` different rows, chosen at random with equal chances, in the order of the dataset.

        The same `seed` returns the same rows, in every process and for any number of threads.
        Only these rows are decoded. More rows than exist raise ValueError.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, fastmosaic as fm
        >>> with tempfile.TemporaryDirectory() as path:
        ...     fm.write_table(pa.table({"id": range(100)}), f"{path}/a.mosaic")
        ...     fm.MosaicDataset(path).sample(3, seed=0).column("id").to_pylist()
        [49, 53, 97]
        """
        numbers = sampled(self._files.count_rows(), n, seed)
        return self._files.take(numbers, self._files.query(columns), use_threads)

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
        >>> import tempfile, pyarrow as pa, fastmosaic as fm
        >>> with tempfile.TemporaryDirectory() as path:
        ...     fm.write_table(pa.table({"id": [1, 2]}), f"{path}/a.mosaic")
        ...     fm.write_table(pa.table({"id": [3], "name": ["c"]}), f"{path}/b.mosaic")
        ...     fm.MosaicDataset(path).lookup([3, 1]).to_pylist()
        [{'id': 3, 'name': 'c'}, {'id': 1, 'name': None}]
        """
        query = self._files.query(columns)
        wanted = Lookup(self._files.columns, keys, key, missing)
        self._files.find(wanted, use_threads)
        return wanted.finish(
            query, lambda numbers, plain: self._files.take(numbers, plain, use_threads)
        )

    # The inherited versions use a C++ dataset and would crash the interpreter.

    def _unsupported(self, *args: object, **options: object) -> NoReturn:
        raise UnsupportedError(
            "a MosaicDataset only supports scans; read it with to_table(), or create a pyarrow "
            "dataset with pyarrow.dataset.dataset(dataset.to_table())"
        )

    get_fragments = filter = replace_schema = sort_by = join = join_asof = _unsupported
    _get_fragments = _scanner_options = _unsupported
    partition_expression = property(_unsupported)


class DatasetScanner:
    """A replacement for `pyarrow.dataset.Scanner` that reads only when its consumer asks for more.

    A scanner of Arrow reads ahead in threads of its own. They keep running after `limit 1` has its
    row, and if they ask Python for a batch while the interpreter exits, it hangs or crashes. This is
    not a subclass, because functions that use the C++ scanner behind it would fail.
    """

    def __init__(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._schema = schema
        self.to_batches = batches

    @property
    def projected_schema(self) -> pa.Schema:
        return self._schema

    dataset_schema = projected_schema

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self._schema, self.to_batches())

    def to_table(self) -> pa.Table:
        return self.to_reader().read_all()

    def count_rows(self) -> int:
        return sum(batch.num_rows for batch in self.to_batches())

    def head(self, num_rows: int) -> pa.Table:
        batches = []
        left = num_rows
        found = self.to_batches()
        while left > 0 and (batch := next(found, None)) is not None:
            batches.append(batch.slice(0, left))
            left -= batch.num_rows
        return pa.Table.from_batches(batches, schema=self._schema)

    def take(self, indices: Any) -> pa.Table:
        return take_rows(self.to_table(), row_numbers(indices))


# Options of pyarrow's scanners that only affect how its own formats are read.
_OPTIONS: Final = frozenset(
    {
        "batch_size",
        "batch_readahead",
        "fragment_readahead",
        "fragment_scan_options",
        "cache_metadata",
        "memory_pool",
    }
)


def _check(options: Mapping[str, Any]) -> None:
    for name in options.keys() - _OPTIONS:
        raise TypeError(f"unknown scan option {name!r}")


def _check_size(batch_size: int) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}")


def _from_files(files: FileSet) -> MosaicDataset:
    dataset = MosaicDataset.__new__(MosaicDataset)
    dataset._files = files
    return dataset
