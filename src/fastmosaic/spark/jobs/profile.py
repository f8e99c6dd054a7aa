"""`profile`: describe the columns of a dataset and how they are stored, in Spark tasks."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from ...dataset.fileset import FileSet
from ...dataset.profile import ColumnProfile, Measures, Profiler, conclude
from ...dataset.table_files import DatasetFile
from .records import Records, Result, identity, list_files
from .report import ProfileReport
from .run import BadFile, blaming, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_RowGroups: TypeAlias = list[tuple[DatasetFile, list[int]]]  # files and numbers of their row groups

_MIN_ITEM_BYTES: Final = 16 << 20
_MAX_ITEMS: Final = 64  # the driver holds all of their results at once


def profile(
    spark: SparkSession,
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    records: Any = None,
    follow_links: bool = False,
    filesystem: Any = None,
) -> ProfileReport:
    """Describe the columns of Mosaic files: nulls, distinct values, bounds, sizes and encodings.

    Parameters
    ----------
    spark : SparkSession
        Spark Connect is not supported.
    path : path, URI, glob, directory, or a list of them
    columns : list of str, optional
        Columns to describe. Default: all columns of the files.
    records : path or URI of a directory, optional
        Directory for intermediate results. If the job is killed, repeat the call to resume it. The
        records are deleted when the job is complete.
    follow_links : bool
        If True, follow links in a local directory that lead out of it. Default: they are an error.
    filesystem : pyarrow or fsspec filesystem, optional
        Filesystem of the paths.

    Returns
    -------
    ProfileReport
        Its `dataframe(spark)` has a row for each column.
    """
    started = time.monotonic()
    files = FileSet(path, filesystem=filesystem, follow_links=follow_links)
    keys = set(files.partitions.names)
    if columns is None:
        columns = [name for name in files.columns.names() if name not in keys]
    elif named := keys.intersection(columns):
        raise ValueError(
            f"{min(named)!r} is a partition column (key=value directories), not a column of the files"
        )
    query = files.query(columns, None)
    total = sum(file.size for file in files.files)
    items = _share_out(files, max(_MIN_ITEM_BYTES, total // _MAX_ITEMS))
    kept = None
    if records is not None:
        listed = list_files([file.found for file in files.files])
        kept = Records.below(records, identity("profile", listed, query.schema))
    results = {} if kept is None else kept.load()
    resumed = len(results)
    todo = {number: item for number, item in items.items() if number not in results}
    work = partial(_profile, query.schema, files.partitions)
    try:
        results |= run(spark, "profile", todo, work, records=kept, done=resumed)
    except BadFile as error:
        raise error.to_error() from None
    merged = _merge(query.schema, [results[number] for number in items])
    if kept is not None:
        kept.clear()
    return ProfileReport(
        columns=merged,
        rows=sum(result["rows"] for result in results.values()),
        files=len(files.files),
        bytes=total,
        seconds=time.monotonic() - started,
        resumed=resumed,
    )


def _share_out(files: FileSet, item_bytes: int) -> dict[int, _RowGroups]:
    """Divide the row groups into items of about `item_bytes`."""
    items: dict[int, _RowGroups] = {}
    held: _RowGroups = []
    size = 0
    for file in files.files:
        for group in range(file.metadata.num_row_groups):
            if not held or held[-1][0] is not file:
                held.append((file, []))
            held[-1][1].append(group)
            size += file.metadata.bytes_of(group)
            if size >= item_bytes:
                items[len(items)] = held
                held, size = [], 0
    if held:
        items[len(items)] = held
    return items


def _profile(schema: pa.Schema, partitions: pa.Schema, item: _RowGroups) -> Result:
    """Measure the row groups of an item. Runs in a task."""
    profiler = Profiler(schema, partitions)
    for file, groups in item:
        with blaming(file.name):
            for group in groups:
                profiler.add(file, group)
    measures = profiler.measures()
    return {
        "rows": measures.num_rows,
        "figures": _encode(measures.figures),
        "bounds": _encode(measures.bounds),
    }


def _merge(schema: pa.Schema, results: Sequence[Result]) -> tuple[ColumnProfile, ...]:
    return conclude(
        schema,
        [
            Measures(result["rows"], _decode(result["figures"]), _decode(result["bounds"]))
            for result in results
        ],
    )


def _encode(table: pa.Table) -> str:
    from pyarrow import ipc

    sink = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _decode(text: str) -> pa.Table:
    from pyarrow import ipc

    return ipc.open_stream(base64.b64decode(text)).read_all()
