"""Tests of what works with Spark 3.5: other versions have their tests in tests/spark."""

import pyspark

if not pyspark.__version__.startswith("3.5."):
    collect_ignore_glob = ["test_*.py"]
