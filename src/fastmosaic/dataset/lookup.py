"""lookup: rows of files, directories and tables by key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..file.reader import MosaicFile
from ..query.keys import Missing
from .arrow import MosaicDataset
from .discovery import is_many


def lookup(
    source: Any,
    keys: Any,
    *,
    key: str | Sequence[str] = "id",
    columns: Sequence[str] | None = None,
    missing: Missing = "null",
    filesystem: object = None,
    use_threads: bool = True,
) -> pa.Table:
    """Read the rows that have some keys, in the order of the keys.

    Row groups whose statistics exclude all keys are skipped, so a file that is sorted by the key and
    written with `write_statistics=[key]` is searched fast. Then the key columns are read, and of the
    other columns only the rows that were found.

    A key that occurs twice in `keys` returns its row twice. If several rows have the same key, the
    first one is returned. A null is not a key: it is always missing.

    Parameters
    ----------
    source : path, URI, list of them, MosaicFile or MosaicDataset
        A file, a directory, a glob, a table, or a list of files. To look up keys often, open a
        `MosaicFile` or a `MosaicDataset` once and pass it, or call its method `lookup`.
    keys : list, array, table, data frame or dict of columns
        Values of the key column. If there are several, a table or a dict with these columns, or a
        list of tuples. Keys that do not fit the type of the column raise `SchemaMismatchError`.
    key : str or list of str, default "id"
        The column or columns of the key.
    columns : list of str, optional
        The columns to return, as in `read_table`; by default all.
    missing : {"null", "raise", "skip"}, default "null"
        What to do about keys that no row has: return a row of nulls, raise KeyError, or leave them
        out.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the path `source`.
    use_threads : bool, default True
        Read and decode in several threads.

    Examples
    --------
    >>> import tempfile, pyarrow as pa, fastmosaic as fm
    >>> with tempfile.TemporaryDirectory() as path:
    ...     table = pa.table({"id": [10, 20, 30], "name": ["a", "b", "c"]})
    ...     fm.write_table(table, f"{path}/a.mosaic", write_statistics=["id"])
    ...     fm.lookup(path, [30, 10], columns=["name"]).column("name").to_pylist()
    ['c', 'a']
    """
    if isinstance(source, MosaicFile | MosaicDataset):
        return source.lookup(
            keys, key=key, columns=columns, missing=missing, use_threads=use_threads
        )
    is_path = isinstance(source, str | os.PathLike)
    if not isinstance(source, list | tuple) and not (
        is_path and (is_many(source, filesystem) or os.path.isdir(source))
    ):
        try:
            file = MosaicFile(source, filesystem=filesystem)
        except IsADirectoryError:
            pass
        else:
            with file:
                return file.lookup(
                    keys, key=key, columns=columns, missing=missing, use_threads=use_threads
                )
    return MosaicDataset(source, filesystem=filesystem).lookup(
        keys, key=key, columns=columns, missing=missing, use_threads=use_threads
    )
