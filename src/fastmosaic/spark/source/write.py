"""`write`: write a DataFrame as a dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..mapped import write_mapped
from ..versions import installed
from .options import absolute, as_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["write"]

MODES: Final = ("append", "overwrite", "error", "errorifexists", "ignore")


def write(
    df: DataFrame,
    path: str | os.PathLike[str],
    *,
    mode: str = "error",
    partition_by: str | Sequence[str] | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    staging: bool = True,
    **options: Any,
) -> None:
    """Write a DataFrame as a directory of Mosaic files, at least one for each partition with rows.

    The files appear when the job is complete, followed by the file `_SUCCESS`. If the job fails, the
    directory does not change. Failed and repeated task attempts leave no files behind. When
    appending, or in remote storage, the complete files appear one after another.

    Parameters
    ----------
    df : DataFrame
        Intervals of days and seconds are stored as durations. Intervals of years and months, and
        columns of type variant, are not supported.
    path : path or URI
        The directory to write. It must have the same path on the workers, and need not exist.
    mode : {"error", "append", "overwrite", "ignore"}
        What to do if the directory contains files. "error" (default) raises, "ignore" writes
        nothing. Appended files may have additional, missing or wider columns.
    partition_by : str or list of str, optional
        Partition by these columns (`key=value` directories); they are not stored in the files. Each
        task writes a file for each value it has; use `df.repartition(*partition_by)` to get fewer
        files.
    max_rows_per_file, max_bytes_per_file : int, optional
        Start a new file when the current one has reached this size. Default: no limit.
    staging : bool
        If True (default), write files to a staging directory and move them when the job is
        complete. Use False for object stores, where moving a file copies it: files then appear in
        the directory as they are completed. See `MosaicDataSource`.
    **options
        Options of `MosaicWriter`, for example `compression`, `write_statistics` or
        `row_group_bytes`.
    """
    if mode not in MODES:
        raise ValueError(f"invalid mode {mode!r}: expected one of {', '.join(MODES)}")
    session = df.sparkSession
    if not staging and session.conf.get("spark.speculation", "false") == "true":
        raise ValueError(
            "staging=False requires spark.speculation=false: files of both attempts would be visible"
        )
    texts = as_texts(
        {
            "partition_by": partition_by,
            "max_rows_per_file": max_rows_per_file,
            "max_bytes_per_file": max_bytes_per_file,
            "staging": staging,
            **options,
        }
    )
    target = absolute(os.fspath(path))
    if not installed().has_data_sources:
        write_mapped(df, target, texts, "error" if mode == "errorifexists" else mode)
        return
    if mode not in ("append", "overwrite"):
        # Spark does not support the other modes for Python data sources.
        texts["existing"] = "error" if mode == "errorifexists" else mode
        mode = "append"
    df.write.format("mosaic").mode(mode).options(**texts).save(target)
