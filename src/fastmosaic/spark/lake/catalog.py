"""`catalog`: make the tables below a directory tables of Spark SQL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...errors import UnsupportedError
from ..sessions import check, has_jvm
from ..source.options import as_texts
from ..versions import SparkVersion
from .jvm import CatalogJvm
from .lake import Lake
from .proxies import CatalogProxy
from .writes import writer_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["catalog"]


def catalog(
    spark: SparkSession,
    name: str,
    path: str | os.PathLike[str],
    *,
    filesystem: Any = None,
    single_writer: bool = False,
    **options: Any,
) -> None:
    """Make the tables below a directory tables of Spark SQL: `select * from name.table`.

    Directories with Mosaic files are tables, and directories above them are namespaces. Queries read
    only the columns, files and row groups that they need. Tables that SQL creates are Mosaic tables
    (`MosaicTable`): each statement that changes one makes a version, or fails and changes nothing,
    and each query reads one version. Directories without versions can be read, not changed;
    `MosaicTable.create(path)` makes one a table.

    The catalog is part of this session. Other sessions of the application, such as
    `spark.newSession()`, need a call of their own.

    Parameters
    ----------
    spark : SparkSession
    name : str
        The name of the catalog in SQL.
    path : path or URI
        The directory. It must have the same path on the workers.
    filesystem : pyarrow or fsspec filesystem, optional
        Filesystem of the path. It is pickled and sent to the workers.
    single_writer : bool, default False
        As for `MosaicTable`.
    **options
        Options of `MosaicWriter`, and `max_rows_per_file` and `max_bytes_per_file`, for all that is
        written through the catalog, for example `write_statistics=True`. Options of a single write
        come first.

    Examples
    --------
    ::

        fastmosaic.spark.catalog(spark, "lake", "/data/lake", write_statistics=True)
        spark.sql("create table lake.prices (day date, item string, price double) partitioned by (day)")
        spark.sql("insert into lake.prices values (date'2026-11-18', 'x', 9.5)")
        spark.sql("select avg(price) from lake.prices where day = '2026-11-18'").show()
    """
    check(spark)
    if not has_jvm(spark):
        raise UnsupportedError(
            "a catalog needs Spark's JVM, which Spark Connect does not expose: call catalog in the "
            "application that runs the Connect server"
        )
    if not SparkVersion.of(spark.version).is_planned:
        raise UnsupportedError(f"catalog does not support Spark {spark.version}")
    if not name or name == "spark_catalog":
        raise ValueError(f"{name!r} cannot be the name of a catalog")
    given = writer_options(as_texts(options))
    lake = Lake.of(path, filesystem, single_writer)
    jvm = CatalogJvm(spark)
    jvm.install(name, CatalogProxy(jvm, name, lake, given))
