"""The process that Spark forks the Python workers of tests from.

It imports what most workers need, so that not each of them does. The setting
`spark.python.daemon.module` names it.
"""

import importlib
from contextlib import suppress

from pyspark.daemon import manager

MODULES = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "fastmosaic.spark.jobs.convert",
    "fastmosaic.spark.jobs.verify",
    "fastmosaic.spark.source.source",
)

if __name__ == "__main__":
    for name in MODULES:
        with suppress(ImportError):  # one test has workers without this package
            importlib.import_module(name)
    manager()
