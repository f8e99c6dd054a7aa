"""Mosaic files in Spark: reading pruned by the planner, writing, and jobs over files.

read               a DataFrame of which Spark's planner prunes columns, row groups and partitions
write              a DataFrame as a directory of Mosaic files
convert, compact   jobs in which Python tasks move files, and no row enters the JVM
verify, profile    what is wrong with files; what is in their columns
session            a Spark session whose workers have this Python
scans              what the last queries planned to read

`spark.read.format("mosaic")` and `df.write.format("mosaic")` work without importing this.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from .compacting import compact
    from .converting import convert
    from .profiling import profile
    from .reading import ScanReport, read, scans
    from .report import (
        ColumnProfile,
        CompactReport,
        ConvertReport,
        Failure,
        ProfileReport,
        VerifiedFile,
        VerifyReport,
    )
    from .source import MosaicDataSource
    from .starting import session
    from .verifying import verify
    from .writing import write

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
    "MosaicDataSource": "source",
    "ScanReport": "reading",
    "compact": "compacting",
    "convert": "converting",
    "profile": "profiling",
    "read": "reading",
    "scans": "reading",
    "session": "starting",
    "verify": "verifying",
    "write": "writing",
}


def __getattr__(name: str) -> typing.Any:
    if name not in __all__:
        raise AttributeError(f"module 'fastmosaic.spark' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f".{_MODULES.get(name, 'report')}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        raise ImportError("fastmosaic.spark needs PySpark: pip install 'pyspark>=4.1'") from error


def __dir__() -> list[str]:
    return __all__
