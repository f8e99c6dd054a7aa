"""Import what Python workers of Spark need in the processes that Spark forks them from.

Python imports this module when it starts, if this folder is on its path. So not every worker imports
pyarrow, PySpark and fastmosaic again. The setting `spark.python.daemon.module` would do the same, but
only for workers of tasks, not for those that plan and commit what data sources read and write.
"""

import importlib
import sys
from contextlib import suppress

MODULES = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "fastmosaic.spark.jobs.convert",
    "fastmosaic.spark.jobs.verify",
    "fastmosaic.spark.source.source",
)

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    for name in MODULES:
        with suppress(ImportError):  # one test has workers without this package
            importlib.import_module(name)
