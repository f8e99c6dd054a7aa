"""concat: merge many files into one, by copying row groups where that is possible."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Unpack

import pyarrow as pa

from ..file.concat import ConcatProgress, ConcatReport, Mode, concatenate
from ..file.opening import SchemaCache
from ..file.options import WriteOptions, accepts_options, check_names
from ..file.writer import Writable
from .discovery import discover
from .files import File, read_all_metadata
from .found import Found


@accepts_options
def concat(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | Found],
    where: Writable,
    *,
    schema: pa.Schema | None = None,
    mode: Mode = "auto",
    progress: ConcatProgress | None = None,
    follow_links: bool = False,
    filesystem: object = None,
    **options: Unpack[WriteOptions],
) -> ConcatReport:
    """Merge Mosaic files into one file, with their rows in order.

    Row groups of files that store the same columns, with the same types, number of buckets and
    compression, are copied without decoding them, which is many times faster. They keep their
    statistics, and their checksums are verified. The order of columns may differ: that of the
    first file wins.

    Other files are read and written again with the union of all columns, as `MosaicDataset` has
    it. The same is done with runs of small row groups, which are joined to larger ones.

    The new file appears when it is complete. It may replace one of the sources.

    Parameters
    ----------
    sources : path, URI, directory, glob or list of them
        The files, in this order. Those of a directory or glob are sorted by path.
    where : path, URI or writable binary file object
    schema : pyarrow.Schema, optional
        The schema of the new file: columns that it lacks are left out, and values are cast if no
        value changes. The default is the union of all files.
    mode : {"auto", "copy", "rewrite"}, default "auto"
        With "copy", all row groups are copied, and files that differ raise `SchemaMismatchError`.
        With "rewrite", all row groups are decoded and encoded again. With "auto", row groups are
        copied if they have at least a quarter of the size of a new one, or no other one to be
        joined with.
    progress : callable, optional
        Called after each row group with the number of bytes of the sources that are done, and of
        all. If it raises, nothing is written.
    follow_links : bool, default False
        Follow links that lead out of a directory. By default they raise ValueError.
    filesystem : pyarrow or fsspec filesystem, optional
        The filesystem of the paths `sources` and `where`.
    **options
        The options of `MosaicWriter`, for row groups that are not copied. By default, the number of
        buckets, the compression, the layout of lists and the columns with statistics are those of
        the sources.

    Returns
    -------
    ConcatReport

    Examples
    --------
    >>> import os, tempfile, pyarrow as pa, fastmosaic as fm
    >>> with tempfile.TemporaryDirectory() as path:
    ...     for number in range(3):
    ...         fm.write_table(pa.table({"id": [number] * 1000}), f"{path}/{number}.mosaic")
    ...     report = fm.concat(f"{path}/*.mosaic", f"{path}/all.mosaic", mode="copy")
    ...     report.num_rows, report.num_copied, fm.read_table(f"{path}/all.mosaic").num_rows
    (3000, 3, 3000)
    """
    check_names(options, concat)
    return concatenate(
        open_sources(discover(sources, filesystem, follow_links=follow_links)),
        where,
        schema=schema,
        mode=mode,
        progress=progress,
        filesystem=filesystem,
        **options,
    )


def open_sources(found: Sequence[Found]) -> list[File]:
    """Read the metadata of files that are to be merged."""
    check_no_table(found)
    _check_partitions(found)
    schemas = SchemaCache()
    files = [File(one, (), schemas) for one in found]
    for _ in read_all_metadata(files):
        pass
    return files


def check_no_table(files: Sequence[Found]) -> None:
    """Raise ValueError if files belong to a table, whose columns may be in other files."""
    for file in files:
        if file.entry is not None:
            raise ValueError(
                f"{file.entry.snapshot.name} is a table; merge its files with "
                "fastmosaic.MosaicTable(path).compact(), or convert it to one file"
            )


def _check_partitions(files: Sequence[Found]) -> None:
    """Raise ValueError if files are in different partitions, whose keys only their paths have."""
    first = files[0]
    for file in files:
        if file.keys != first.keys:
            raise ValueError(
                f"{first.name} and {file.name} are in different partitions, and the files lack "
                "the values in their paths; merge each partition by itself, or convert the "
                "directory to one file to keep them as columns"
            )
