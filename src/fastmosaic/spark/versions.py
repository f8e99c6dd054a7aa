"""What differs between the versions of Spark. Other modules ask here and compare no versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource

__all__ = [
    "SparkVersion",
    "commit_message_class",
    "installed",
    "register",
    "stream_writer_class",
    "time_type",
]

OLDEST: Final = (3, 5)
# Versions whose planner was tested with this package.
PLANNED: Final = ((4, 0), (4, 1), (4, 2), (4, 3))


@dataclass(frozen=True, slots=True, order=True)
class SparkVersion:
    """A version of Spark, without its patch release."""

    major: int
    minor: int

    @classmethod
    def of(cls, text: str) -> SparkVersion:
        """Parse a version such as "4.3.0"."""
        major, minor = text.split(".")[:2]
        return cls(int(major), int(minor))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def check(self) -> None:
        """Raise if this package does not support the version at all."""
        if (self.major, self.minor) < OLDEST:
            raise UnsupportedError(
                f"PySpark {self} is too old: fastmosaic requires PySpark "
                f"{'.'.join(map(str, OLDEST))} or later: pip install --upgrade 'fastmosaic[spark]'"
            )

    @property
    def has_data_sources(self) -> bool:
        """Whether data sources can be written in Python."""
        return self >= SparkVersion(4, 0)

    @property
    def is_planned(self) -> bool:
        """Whether this package knows the planner of this version."""
        return (self.major, self.minor) in PLANNED

    @property
    def has_stream_limits(self) -> bool:
        """Whether a stream that is written in Python can limit its batches."""
        return self >= SparkVersion(4, 2)

    @property
    def counts_without_columns(self) -> bool:
        """Whether a scan of no columns returns rows."""
        return self >= SparkVersion(4, 1)

    def relation_arguments(self, none: Any) -> tuple[Any, ...]:
        """Return the last arguments of a DataSourceV2Relation: since 4.1, a version to travel to."""
        return () if self < SparkVersion(4, 1) else (none,)

    def factory_arguments(self, none: Any) -> tuple[Any, ...]:
        """Return the last arguments of the factories of readers and writers: classes of the worker."""
        return (none,) if self < SparkVersion(4, 1) else (none, none)

    @property
    def sends_schema(self) -> bool:
        """Whether the functions of tasks come with the schema of their batches."""
        return self < SparkVersion(4, 2)


def installed() -> SparkVersion:
    """Return the version of PySpark in this process."""
    try:
        import pyspark
    except ImportError:
        raise ImportError("PySpark is not installed: pip install 'fastmosaic[spark]'") from None
    return SparkVersion.of(pyspark.__version__)


def time_type() -> type[Any] | None:
    """Return Spark's type for times of day, which versions before 4.1 do not have."""
    from pyspark.sql import types

    return getattr(types, "TimeType", None)


def commit_message_class() -> Any:
    """Return the class of messages from the tasks that write; Spark 3.5 has none."""
    if not installed().has_data_sources:
        return object
    from pyspark.sql.datasource import WriterCommitMessage

    return WriterCommitMessage


def stream_writer_class() -> Any:
    """Return the class of writers that get the rows of a stream as Arrow batches.

    Spark 4.0 has none, but accepts the one for writers of batch jobs.
    """
    from pyspark.sql import datasource

    return getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceArrowWriter)


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source, also if Spark 4.0 has found it by itself and would refuse it."""
    from pyspark.errors import AnalysisException

    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
