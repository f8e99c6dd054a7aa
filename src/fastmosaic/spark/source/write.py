"""write: a DataFrame as a data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

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
    """Write a DataFrame as a directory of Mosaic files, one or more for each of its partitions.

    All of them appear when the job is complete, and then the file `_SUCCESS`. If the job fails, the
    directory is as it was. Failed and repeated attempts at tasks leave nothing. In a directory that
    is appended to, or remote, files appear one after another.

    Parameters
    ----------
    df : DataFrame
        Without columns of types that the format lacks: structs, intervals, variants.
    path : path or URI
        The directory, as the workers find it too; it need not exist.
    mode : {"error", "append", "overwrite", "ignore"}
        What becomes of files that are there; with "ignore" they stay, and nothing is written. New
        files may have more columns, fewer, or wider ones than those that they are added to.
    partition_by : str or list of str, optional
        Columns whose values become directories, `key=value`, and are left out of the files. Each
        task writes its own file for each value that it meets; `df.repartition(*partition_by)`
        makes these few.
    max_rows_per_file, max_bytes_per_file : int, optional
        A file that has reached this size is followed by another.
    staging : bool
        False for object stores, where to move a file is to copy it: files are written where they
        will be, and appear as they are complete. See `MosaicDataSource`.
    **options
        As for `MosaicWriter`: compression, write_statistics, row_group_bytes and others.
    """
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}; it is one of {', '.join(MODES)}")
    session = df.sparkSession
    if not staging and session.conf.get("spark.speculation", "false") == "true":
        raise ValueError("staging=False and spark.speculation: two attempts would both be visible")
    texts = as_texts(
        {
            "partition_by": partition_by,
            "max_rows_per_file": max_rows_per_file,
            "max_bytes_per_file": max_bytes_per_file,
            "staging": staging,
            **options,
        }
    )
    if mode not in ("append", "overwrite"):
        # Spark refuses the others for sources in Python.
        texts["existing"] = "error" if mode == "errorifexists" else mode
        mode = "append"
    target = absolute(os.fspath(path))
    df.write.format("mosaic").mode(mode).options(**texts).save(target)
