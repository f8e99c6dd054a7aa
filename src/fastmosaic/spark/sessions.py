"""Start Spark, and check that it can run this package: Java, versions, the Python of the workers."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .versions import installed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check", "has_jvm", "session"]

MIN_JAVA: Final = 17
# Packages that the workers must be able to import.
PACKAGES: Final = ("fastmosaic", "pyarrow")

_checked: set[str] = set()  # ids of applications


def session(app_name: str = "fastmosaic", master: str | None = None, **conf: Any) -> SparkSession:
    """Return the running Spark session, or start one whose workers run this Python.

    Parameters
    ----------
    app_name : str
        Name of the application. Default: "fastmosaic".
    master : str, optional
        Address of the cluster, or for example "local[4]". Default: the one that spark-submit was
        given, otherwise all cores of this machine.
    **conf
        Settings of Spark, as in `session(**{"spark.driver.memory": "4g"})`.
    """
    installed().check()
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
    """Raise unless the workers of a session can run this package. Checked once per session."""
    installed().check()
    if not has_jvm(spark):
        return  # a Spark Connect server has its own Python and reports problems itself
    context = spark.sparkContext
    if context._jsc is None:
        raise RuntimeError(
            "this Spark session was stopped: start another one with fastmosaic.spark.session()"
        )
    if context.applicationId in _checked:
        return
    python = str(context.pythonExec)
    if not (str(context.master).startswith("local") and _is_this(python)):
        _check_workers(spark, python)
    _checked.add(str(context.applicationId))


def has_jvm(spark: SparkSession) -> bool:
    """Whether this process can reach Spark's JVM. With Spark Connect it cannot."""
    return hasattr(spark, "_jvm")


def check_java() -> None:
    """Raise unless a version of Java is installed that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    install = f"install a JDK {MIN_JAVA} (openjdk-{MIN_JAVA}-jre-headless, or conda's openjdk)"
    if java is None:
        place = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise RuntimeError(
            f"Spark requires Java {MIN_JAVA}, but there is no Java {place}: {install}"
        )
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is not None and int(version[1]) < MIN_JAVA:
        raise RuntimeError(
            f"Spark requires Java {MIN_JAVA}, but {java} is Java {version[1]}: {install}"
        )


def _is_this(python: str) -> bool:
    # Do not resolve links: the Python of a virtual environment links to one without its packages.
    found = shutil.which(python)
    return found is not None and os.path.abspath(found) == os.path.abspath(sys.executable)


def _check_workers(spark: SparkSession, python: str) -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PythonException

    advice = (
        f"set PYSPARK_PYTHON={sys.executable} before the session starts, or install fastmosaic "
        "for the Python of the workers; fastmosaic.spark.session(...) sets the variable"
    )
    # Functions of Python itself: one of this package would fail where the package is missing.
    packages = spark.sparkContext.parallelize(PACKAGES, 1)
    try:
        found = packages.map(importlib.util.find_spec).map(bool).collect()
    except PythonException as error:
        driver = f"{sys.version_info[0]}.{sys.version_info[1]}"
        raise RuntimeError(
            f"the workers' Python ({python}) cannot run tasks of this driver, which is Python "
            f"{driver}: {advice}"
        ) from error
    except Py4JJavaError as error:
        cause = error.java_exception.getCause()
        if cause is None or cause.getClass().getName() != "java.io.IOException":
            raise
        raise RuntimeError(f"the workers cannot start {python}: {advice}") from error
    missing = [name for name, is_there in zip(PACKAGES, found, strict=True) if not is_there]
    if missing:
        raise RuntimeError(f"the workers' Python ({python}) has no package {missing[0]}: {advice}")
