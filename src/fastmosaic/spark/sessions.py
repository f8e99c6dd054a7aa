"""Start Spark, and check that it can run this package: Java, versions, the Python of the workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check", "has_jvm", "session"]

MIN_JAVA: Final = 17
MIN_SPARK: Final = (4, 1)

_checked: set[str] = set()  # by the id of the application


def session(app_name: str = "fastmosaic", master: str | None = None, **conf: Any) -> SparkSession:
    """A Spark session whose workers run this Python; the one that runs already, if there is one.

    `conf` are settings of Spark, as in `session(**{"spark.driver.memory": "4g"})`. Without a
    `master`, Spark's own default holds: that of spark-submit, otherwise all cores of this machine.
    """
    _check_version()
    if "SPARK_REMOTE" not in os.environ:
        check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    check(spark)
    return spark


def check(spark: SparkSession) -> None:
    """Raise unless the workers of a session can run this package; looked up once a session."""
    _check_version()
    if not has_jvm(spark):
        return  # the server has its own Python, which it tells by itself
    context = spark.sparkContext
    if context.applicationId in _checked:
        return
    python = str(context.pythonExec)
    if not (str(context.master).startswith("local") and _is_this(python)):
        _check_workers(spark, python)
    _checked.add(str(context.applicationId))


def has_jvm(spark: SparkSession) -> bool:
    """Whether Spark's planner runs next to this process; with Spark Connect it does not."""
    return hasattr(spark, "_jvm")


def _check_version() -> None:
    try:
        import pyspark
    except ImportError:
        raise ImportError("PySpark is not installed: pip install 'fastmosaic[spark]'") from None
    if tuple(map(int, pyspark.__version__.split(".")[:2])) < MIN_SPARK:
        raise UnsupportedError(
            f"PySpark {pyspark.__version__} is too old: fastmosaic requires PySpark "
            f"{'.'.join(map(str, MIN_SPARK))} or later: pip install --upgrade 'fastmosaic[spark]'"
        )


def check_java() -> None:
    """Raise unless there is a Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    install = f"install a JDK {MIN_JAVA} (openjdk-{MIN_JAVA}-jre-headless, or conda's openjdk)"
    if java is None:
        place = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise RuntimeError(f"Spark needs Java {MIN_JAVA}, and there is none {place}: {install}")
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is not None and int(version[1]) < MIN_JAVA:
        raise RuntimeError(
            f"Spark needs Java {MIN_JAVA}, and {java} is Java {version[1]}: {install}"
        )


def _is_this(python: str) -> bool:
    # Not resolved: the Python of a virtual environment is a link to one without its packages.
    found = shutil.which(python)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)


def _probe(_: Any) -> None:
    """Nothing: a worker that can run it has imported this package."""


def _check_workers(spark: SparkSession, python: str) -> None:
    advice = (
        f"set PYSPARK_PYTHON={sys.executable} before the session starts, or install fastmosaic "
        "for the Python of the workers; fastmosaic.spark.session(...) sets it"
    )
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    context = spark.sparkContext
    try:
        context.parallelize([0], 1).map(_probe).collect()
    except Exception as error:
        text = str(error)
        if "PYTHON_VERSION_MISMATCH" in text:
            reason = f"the workers' Python ({python}) is not {ours}, as the driver's is"
        elif "No module named 'fastmosaic" in text:
            reason = f"the workers' Python ({python}) has no package fastmosaic"
        elif "Cannot run program" in text:
            reason = f"the workers have no program {python}"
        else:
            raise
        raise RuntimeError(f"{reason}: {advice}") from error
