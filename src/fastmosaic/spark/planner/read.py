"""`read`: Mosaic files as a DataFrame whose columns, files and row groups Spark's planner prunes.

`read` opens each file once, in the driver. Planning a query then needs no I/O, and tasks receive the
metadata of their files together with their split.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...dataset.fileset import FileSet, Partitioning
from ...errors import UnsupportedError
from ...memory import MemoryLimit
from ...query.query import Query
from ...schemas.union import Fixed
from ...storage.secrets import redacted
from ..jvm import Jvm
from ..mapped import read_mapped
from ..schemas import arrow_for_spark, column_with_time, from_spark, to_spark
from ..sessions import check, has_jvm
from ..versions import SparkVersion, register
from .plan import ScanPlanner
from .proxies import TableProxy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["read"]


def read(
    spark: SparkSession,
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | StructType | None = None,
    partitioning: Partitioning = "hive",
    unify: bool = True,
    skip_corrupt: bool = False,
    follow_links: bool = False,
    filesystem: Any = None,
    memory_limit: MemoryLimit = None,
    strict: bool = True,
) -> DataFrame:
    """Read Mosaic files as a DataFrame that Spark's planner prunes.

    A query reads only the columns, files and row groups it needs. Spark also learns row counts and
    sizes. `count()` and, where statistics are exact, `min` and `max` of whole columns are answered
    from metadata. If Spark's planner is not available (Spark Connect, or a version of Spark that
    this package does not know), the function warns and falls back to
    `spark.read.format("mosaic")`, which reads all of `columns`.

    Parameters
    ----------
    spark : SparkSession
    path : path, URI or list of them
        A file, a directory (searched recursively), a glob, or a list of these.
    columns : list of str, optional
        Names, or patterns such as `sensor_*`, of the columns to include, or paths to fields of
        structs, such as `info.name`. Default: all columns.
    schema : pyarrow.Schema or StructType, optional
        Columns and types of the DataFrame. Default: the union of the schemas of all files.
    partitioning : "hive", pyarrow.Schema or None
        "hive" (default) turns directories named `key=value` into columns; a schema also sets their
        types; None ignores them.
    unify : bool
        If True (default), files may have different schemas; otherwise a difference is an error.
    skip_corrupt : bool
        If True, skip files that cannot be opened, with a warning that names them. Default: False.
    follow_links : bool
        If True, follow links in a local directory that lead out of it. Default: they are an error.
    filesystem : pyarrow or fsspec filesystem, optional
        Filesystem of the paths. It is pickled and sent to the workers.
    memory_limit : int or str, optional
        Maximum memory of a batch in a task, in bytes or as text such as "2g"; see `MosaicFile`.
    strict : bool
        If False, read decimals and times outside the range of their type. Default: True.

    Returns
    -------
    DataFrame
    """
    check(spark)
    if schema is not None and not isinstance(schema, pa.Schema):
        schema = from_spark(schema)
    version = SparkVersion.of(spark.version)
    if not version.has_data_sources and columns is None and schema is None:
        raise UnsupportedError(
            f"Spark {version} has no data sources in Python, so its planner cannot choose columns: "
            "pass the columns to read as columns=[...], or use Spark 4.0 or later"
        )
    reason = _why_not_planned(spark)
    if reason is not None:
        warnings.warn(
            f"{reason}, so columns are not pruned: choose the columns to load with columns=",
            stacklevel=2,
        )
        options: dict[str, Any] = {
            "unify": unify,
            "skip_corrupt": skip_corrupt,
            "strict": strict,
            "follow_links": follow_links,
        }
        if memory_limit is not None:
            options["memory_limit"] = memory_limit
        return _load(spark, path, columns, schema, partitioning, options, filesystem)
    files = FileSet(
        path,
        filesystem=filesystem,
        schema=schema,
        partitioning=partitioning,
        unify=unify,
        skip_corrupt=skip_corrupt,
        memory_limit=memory_limit,
        strict=strict,
        follow_links=follow_links,
    )
    chosen = files.query(columns).result
    try:
        wanted = arrow_for_spark(chosen)
        has_times = _has_times(spark, chosen)
    except UnsupportedError as error:
        error.add_note("use columns= to leave the column out")
        raise
    if not version.has_data_sources:
        return read_mapped(spark, files, wanted)
    jvm = Jvm(spark)
    # In Arrow, a time of day does not have the number of digits that Spark's type has.
    struct = jvm.struct_of(to_spark(chosen)) if has_times else jvm.struct(wanted)
    planner = ScanPlanner(files, wanted, _name(path), jvm.split_sizes)
    return jvm.data_frame(TableProxy(jvm, planner, struct), struct)


def _has_times(spark: SparkSession, schema: pa.Schema) -> bool:
    """Return whether there are times of day.

    Raise for these if Spark's TIME type is disabled: most queries would fail.
    """
    name = column_with_time(schema)
    setting = "spark.sql.timeType.enabled"
    if name is not None and spark.conf.get(setting, "false") != "true":
        raise UnsupportedError(f"set {setting} to true to use Spark's TIME type", column=name)
    return name is not None


def _why_not_planned(spark: SparkSession) -> str | None:
    if not has_jvm(spark):
        return "Spark Connect does not expose its planner"
    version = SparkVersion.of(spark.version)
    if version.has_data_sources and not version.is_planned:
        return f"fastmosaic does not know the planner of Spark {spark.version}"
    return None


def _load(
    spark: SparkSession,
    path: Any,
    columns: Sequence[str] | None,
    schema: pa.Schema | None,
    partitioning: Partitioning,
    options: Mapping[str, Any],
    filesystem: Any,
) -> DataFrame:
    """Use `spark.read.format("mosaic")`, whose options are strings."""
    from ..source.source import MosaicDataSource

    if filesystem is not None or isinstance(partitioning, pa.Schema):
        raise UnsupportedError(
            "filesystem= and a schema as partitioning= are not supported without Spark's planner: "
            "pass a URI as path, and the types of partition columns in schema="
        )
    register(spark, MosaicDataSource)
    reader = spark.read.format("mosaic").options(
        partitioning="none" if partitioning is None else partitioning,
        **{name: str(value) for name, value in options.items()},
    )
    if schema is not None:
        schema = Query.of(Fixed(schema), columns).schema
        reader = reader.schema(to_spark(schema))
    elif columns is not None:
        reader = reader.option("columns", json.dumps(list(columns)))
    paths = path if isinstance(path, list | tuple) else [path]
    return reader.load([os.fspath(one) for one in paths])


def _name(path: Any) -> str:
    if isinstance(path, list | tuple):
        return f"{_name(path[0])} and {len(path) - 1} more" if len(path) > 1 else _name(path[0])
    if not isinstance(path, str | os.PathLike):
        return type(path).__name__
    return redacted(os.fspath(path))
