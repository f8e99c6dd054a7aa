"""profile: what the columns of a data set hold, and how it is stored, by Spark tasks."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from ...dataset.fileset import File, FileSet
from ...dataset.profile import ColumnProfile, Measures, Profiler, conclude
from .report import ProfileReport
from .run import BadFile, Records, Result, blaming, identity, list_files, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Item: TypeAlias = list[tuple[File, list[int]]]  # files and their row groups

_MIN_ITEM_BYTES: Final = 16 << 20
_MAX_ITEMS: Final = 64  # their results are in the driver together


def profile(
    spark: SparkSession,
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    records: Any = None,
    filesystem: Any = None,
) -> ProfileReport:
    """What there is in each column of Mosaic files; its `dataframe(spark)` has a row for each.

    Parameters
    ----------
    spark : SparkSession
        Not one of Spark Connect.
    path : path, URI, glob, directory, or a list of them
    columns : list of str, optional
        By default all columns of the files.
    records : path or URI of a directory, optional
        Where to keep what was found, until all is: a call after a crash goes on then.
    filesystem : pyarrow or fsspec filesystem, optional
        Where the path is.
    """
    started = time.monotonic()
    files = FileSet(path, filesystem=filesystem)
    keys = set(files.partitions.names)
    if columns is None:
        columns = [name for name in files.columns.names() if name not in keys]
    elif named := keys.intersection(columns):
        raise ValueError(f"{min(named)!r} is a key of directories, not a column of the files")
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


def _share_out(files: FileSet, item_bytes: int) -> dict[int, Item]:
    """Row groups in order, about `item_bytes` of them in an item."""
    items: dict[int, Item] = {}
    held: Item = []
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


def _profile(schema: pa.Schema, partitions: pa.Schema, item: Item) -> Result:
    """Runs in a task."""
    profiler = Profiler(schema, partitions)
    for file, groups in item:
        with blaming(file.name):
            for group in groups:
                profiler.add(file, group)
    measures = profiler.measures()
    return {
        "rows": measures.num_rows,
        "probe": hash("fastmosaic"),
        "figures": _encode(measures.figures),
        "bounds": _encode(measures.bounds),
    }


def _merge(schema: pa.Schema, results: Sequence[Result]) -> tuple[ColumnProfile, ...]:
    if len({result["probe"] for result in results}) > 1:
        raise RuntimeError(
            "workers hash strings differently; PYTHONHASHSEED must be the same for all of them"
        )
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
