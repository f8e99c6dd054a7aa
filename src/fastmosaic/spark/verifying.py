"""verify: every file of a data set checked, by Spark tasks."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..discovery import discover
from ..errors import CorruptFileError
from ..format.metadata import FileMetaData, Statistic
from ..format.statistics import measure
from ..reader import MosaicFile
from .jobs import BadFile, Listed, Records, Result, blaming, identity, list_files, run
from .report import VerifiedFile, VerifyReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify(
    spark: SparkSession,
    path: Any,
    *,
    deep: bool = True,
    records: Any = None,
    filesystem: Any = None,
) -> VerifyReport:
    """Check Mosaic files; what was found of each.

    A damaged file is reported and not raised.

    Parameters
    ----------
    spark : SparkSession
        Not one of Spark Connect.
    path : path, URI, glob, directory, or a list of them
    deep : bool
        Whether all values are decoded, and compared with what the metadata say of them; otherwise
        only the metadata are read.
    records : path or URI of a directory, optional
        Where to note which files were checked, until all are: a call after a crash goes on then.
    filesystem : pyarrow or fsspec filesystem, optional
        Where the path is.
    """
    started = time.monotonic()
    listed = list_files(discover(path, filesystem))
    items = dict(enumerate(listed))
    kept = None
    if records is not None:
        kept = Records.below(records, identity("verify", listed, deep))
    results = {} if kept is None else kept.load()
    resumed = len(results)
    todo = {number: item for number, item in items.items() if number not in results}
    results |= run(spark, "verify", todo, partial(_verify, deep), records=kept, done=resumed)
    if kept is not None:
        kept.clear()
    files = tuple(VerifiedFile(**results[number]) for number in items)
    return VerifyReport(files, time.monotonic() - started, resumed)


def _verify(deep: bool, item: Listed) -> Result:
    """Runs in a task."""
    result: Result = {
        "file": item.found.name,
        "rows": 0,
        "row_groups": 0,
        "bytes": item.size,
        "problem": None,
    }
    try:
        with (
            blaming(item.found.name),
            MosaicFile(item.found.path, filesystem=item.found.filesystem) as file,
        ):
            result["rows"] = file.metadata.num_rows
            result["row_groups"] = file.num_row_groups
            for group in range(file.num_row_groups):
                _check_places(file.metadata, group)
                if deep:
                    _check_values(file, group)
    except BadFile as error:
        result["problem"] = error.problem.removeprefix(f"{item.found.path}: ")
    except PermissionError as error:
        result["problem"] = str(error)
    return result


def _check_places(metadata: FileMetaData, group: int) -> None:
    end = metadata.footer.schema_offset
    for number in range(metadata.num_buckets if metadata.rows_of(group) else 0):
        bucket = metadata.bucket(group, number)
        if bucket.offset + bucket.compressed_size > end:
            raise CorruptFileError(
                f"row group {group}, bucket {number} at offset {bucket.offset} has "
                f"{bucket.compressed_size} bytes, but the schema begins at {end}"
            )


def _check_values(file: MosaicFile, group: int) -> None:
    metadata = file.metadata
    table = file.read_row_group(group, use_threads=False)
    table.validate(full=True)
    if table.num_rows != metadata.rows_of(group):
        raise CorruptFileError(
            f"row group {group} has {table.num_rows} rows, its metadata {metadata.rows_of(group)}"
        )
    block = metadata.schema_block
    for statistic in metadata.statistics(group):
        name = block.name(statistic.position)
        column = table.column(name)
        actual = measure(statistic.position, block.column_type(statistic.position), column)
        if actual == statistic:
            continue
        if statistic.null_count != actual.null_count:
            raise CorruptFileError(
                f"row group {group}: column {name!r} has {actual.null_count} nulls, its "
                f"statistics {statistic.null_count}"
            )
        if not _is_between(metadata, actual, statistic):
            raise CorruptFileError(
                f"row group {group}: column {name!r} has values outside of its statistics"
            )


def _is_between(metadata: FileMetaData, actual: Statistic, stated: Statistic) -> bool:
    """Whether the stated bounds hold for the actual ones, though they need not be as narrow."""
    import pyarrow.compute as pc

    low, high = metadata.bounds(actual)
    stated_low, stated_high = metadata.bounds(stated)
    if low is None or stated_low is None:
        return low is stated_low
    if pa.types.is_floating(low.type) and pc.is_nan(stated_low).as_py():
        return True  # by the format, NaN first says nothing of the rest
    return bool(
        pc.and_(pc.less_equal(stated_low, low), pc.greater_equal(stated_high, high)).as_py()
    )
