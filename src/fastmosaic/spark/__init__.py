"""Mosaic files in Spark: reading pruned by the planner, writing, and jobs over files.

app        the jobs as an application for spark-submit
jobs       convert, compact, verify, profile
planner    read: a DataFrame that Spark's planner prunes
schemas    types of Spark and of Arrow
sessions   a Spark session whose workers have this Python
source     spark.read.format("mosaic"), df.write.format("mosaic"), which need no import
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from .jobs.compact import compact
    from .jobs.convert import convert
    from .jobs.profile import profile
    from .jobs.report import (
        ColumnProfile,
        CompactReport,
        ConvertReport,
        Failure,
        ProfileReport,
        VerifiedFile,
        VerifyReport,
    )
    from .jobs.verify import verify
    from .planner.read import ScanReport, read, scans
    from .sessions import session
    from .source.source import MosaicDataSource
    from .source.write import write

__all__ = [
    "ColumnProfile",
    "CompactReport",
    "ConvertReport",
    "Failure",
    "MosaicDataSource",
    "ProfileReport",
    "ScanReport",
    "VerifiedFile",
    "VerifyReport",
    "compact",
    "convert",
    "profile",
    "read",
    "scans",
    "session",
    "verify",
    "write",
]

# Spark's workers import modules of this package: they shall not wait for all of it.
_MODULES = {
    "MosaicDataSource": "source.source",
    "ScanReport": "planner.read",
    "compact": "jobs.compact",
    "convert": "jobs.convert",
    "profile": "jobs.profile",
    "read": "planner.read",
    "scans": "planner.read",
    "session": "sessions",
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
