"""Mosaic files in Spark: reading with column pruning, writing, and jobs over files.

app         the jobs as an application for spark-submit
connection  the connection of a worker to the JVM, without pauses
gateway     a second gateway to Spark's JVM, for the objects that Spark's planner calls
jobs        add_columns, delete, fold, vacuum, convert, compact, concat, verify, profile
jvm         access to classes in Spark's JVM that are not public API
lake        catalog: the tables below a directory as tables of Spark SQL
mapped      read and write through mapInArrow, for Spark 3.5
origin      the hidden column that tells the file and the number of a row
planner     read: a DataFrame that Spark's planner prunes
schemas     convert between Spark schemas and Arrow schemas
sessions    session: start Spark so that its workers run this Python
source      the data source "mosaic", which Spark finds without an import; write
task        read splits inside Spark's tasks
versions    what differs between the versions of Spark
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from .jobs.columns import add_columns
    from .jobs.compact import compact
    from .jobs.concat import concat
    from .jobs.convert import convert
    from .jobs.delete import delete
    from .jobs.fold import fold
    from .jobs.profile import profile
    from .jobs.report import (
        AddColumnsReport,
        ColumnProfile,
        ConvertReport,
        DatasetVerifyReport,
        DeleteReport,
        Failure,
        ProfileReport,
        RewriteReport,
        TableVacuumReport,
        VerifiedFile,
    )
    from .jobs.vacuum import vacuum
    from .jobs.verify import verify
    from .lake.catalog import catalog
    from .planner.plan import ScanReport, scans
    from .planner.read import read
    from .sessions import session
    from .source.source import MosaicDataSource
    from .source.write import write

__all__ = [
    "AddColumnsReport",
    "ColumnProfile",
    "ConvertReport",
    "DatasetVerifyReport",
    "DeleteReport",
    "Failure",
    "MosaicDataSource",
    "ProfileReport",
    "RewriteReport",
    "ScanReport",
    "TableVacuumReport",
    "VerifiedFile",
    "add_columns",
    "catalog",
    "compact",
    "concat",
    "convert",
    "delete",
    "fold",
    "profile",
    "read",
    "scans",
    "session",
    "vacuum",
    "verify",
    "write",
]

# Spark's workers import modules of this package, and most of them need only a few.
_MODULES = {
    "MosaicDataSource": "source.source",
    "ScanReport": "planner.plan",
    "add_columns": "jobs.columns",
    "catalog": "lake.catalog",
    "compact": "jobs.compact",
    "concat": "jobs.concat",
    "convert": "jobs.convert",
    "delete": "jobs.delete",
    "fold": "jobs.fold",
    "profile": "jobs.profile",
    "read": "planner.read",
    "scans": "planner.plan",
    "session": "sessions",
    "vacuum": "jobs.vacuum",
    "verify": "jobs.verify",
    "write": "source.write",
}


def __getattr__(name: str) -> typing.Any:
    if name not in __all__:
        raise AttributeError(f"module 'fastmosaic.spark' has no attribute {name!r}")
    try:
        return getattr(
            importlib.import_module(f".{_MODULES.get(name, 'jobs.report')}", __name__), name
        )
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        raise ImportError(
            "fastmosaic.spark requires PySpark: pip install 'fastmosaic[spark]'"
        ) from error


def __dir__() -> list[str]:
    return __all__
