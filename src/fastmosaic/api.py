"""Functions that read or write a file in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from .file.batches import open_batches
from .file.options import WriteOptions, accepts_options, check_names
from .file.reader import MosaicFile, Readable
from .format.metadata import FileMetaData
from .memory import MemoryLimit

if TYPE_CHECKING:
    from .dataset.fileset import Partitioning
    from .file.writer import Writable


def read_table(
    source: Readable | Sequence[str | os.PathLike[str]],
    *,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    row_groups: Sequence[int] | None = None,
    schema: pa.Schema | None = None,
    partitioning: Partitioning = "hive",
    unify: bool = True,
    follow_links: bool = False,
    filesystem: object = None,
    use_threads: bool = True,
    memory_limit: MemoryLimit = None,
    strict: bool = True,
    logical: bool = True,
) -> pa.Table:
    """Read a Mosaic file, or many (a directory, a glob or a list of paths), into a table.

    See `MosaicFile.read` for `columns`, `filters` and `row_groups`, which requires a single file,
    `MosaicFile` for `memory_limit`, `strict` and `logical`, and `MosaicDataset` for `schema`, `partitioning`,
    `unify` and `follow_links`, which concern many files.

    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), sink)
    >>> fm.read_table(sink.getvalue(), columns=["name"], filters=[("id", ">", 1)]).to_pylist()
    [{'name': 'b'}, {'name': 'c'}]
    """
    if schema is None and not _is_many(source, filesystem):
        try:
            file = MosaicFile(
                source,
                filesystem=filesystem,
                memory_limit=memory_limit,
                strict=strict,
                logical=logical,
            )
        except IsADirectoryError:
            pass
        else:
            with file:
                return file.read(
                    columns, filters=filters, row_groups=row_groups, use_threads=use_threads
                )
    if row_groups is not None:
        raise ValueError("row_groups= requires a single file; use filters= for many files")
    from .dataset.fileset import FileSet

    files = FileSet(
        source,
        filesystem=filesystem,
        schema=schema,
        partitioning=partitioning,
        unify=unify,
        memory_limit=memory_limit,
        strict=strict,
        follow_links=follow_links,
        logical=logical,
    )
    return files.read(columns, filters, use_threads)


def _is_many(source: Any, filesystem: object) -> bool:
    """Return whether `source` is more than one file, as far as is known without requests."""
    if isinstance(source, str | os.PathLike):
        if filesystem is None and os.path.isfile(source):
            return False
    elif not isinstance(source, list | tuple):
        return False
    # Imported on use: it takes longer than reading a column.
    from .dataset.discovery import is_many

    return is_many(source, filesystem)


def read_schema(where: Readable, *, filesystem: object = None) -> pa.Schema:
    """Read the Arrow schema of a Mosaic file.

    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [1], "name": ["a"]}), sink)
    >>> fm.read_schema(sink.getvalue()).names
    ['id', 'name']
    """
    with MosaicFile(where, filesystem=filesystem) as file:
        return file.schema


def read_metadata(where: Readable, *, filesystem: object = None) -> FileMetaData:
    """Read the metadata of a Mosaic file: rows, columns, row groups, buckets and statistics.

    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [3, 1, 2]}), sink, write_statistics=["id"])
    >>> fm.read_metadata(sink.getvalue()).row_group(0).statistics["id"]
    ColumnStatistics(null_count=0, min=1, max=3)
    """
    with MosaicFile(where, filesystem=filesystem) as file:
        return file.metadata


@accepts_options
def write_table(
    table: Any,
    where: Writable,
    *,
    schema: pa.Schema | None = None,
    filesystem: object = None,
    **options: Unpack[WriteOptions],
) -> None:
    """Write a table as a Mosaic file.

    Parameters
    ----------
    table : table, record batch, reader, dataset, scanner, data frame, or iterable
        A pyarrow object, anything with the Arrow stream interface (data frames of pandas and
        Polars, relations of DuckDB), or an iterable of tables and record batches. Data is
        streamed, not collected in memory. `write_pandas` also keeps the index of a pandas data
        frame.
    where : path, URI or writable binary file object
    schema : pyarrow.Schema, optional
        The schema that the data must match. The default is that of the data, or of the first item
        of an iterable.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `where`.
    **options
        The options of `MosaicWriter`.

    Examples
    --------
    >>> import pyarrow as pa, fastmosaic as fm
    >>> sink = pa.BufferOutputStream()
    >>> fm.write_table(pa.table({"id": [1, 2]}), sink, compression="none", annex=False)
    >>> sink.getvalue().size
    78
    """
    from .file.writer import MosaicWriter  # programs that only read do not need it

    check_names(options, write_table)
    first, items = open_batches(table, schema)
    target = first if schema is None else schema
    with MosaicWriter(where, target, filesystem=filesystem, **options) as writer:
        writer.check(first)
        for item in items:
            writer.write(item)
