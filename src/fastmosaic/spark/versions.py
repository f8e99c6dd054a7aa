"""What differs between the versions of Spark. Other modules ask here and compare no versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..errors import UnsupportedError

__all__ = ["SparkVersion", "installed"]

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

    @property
    def reports_registered_sources(self) -> bool:
        """Whether registering a source that Spark found by itself is an error."""
        return self < SparkVersion(4, 1)


def installed() -> SparkVersion:
    """Return the version of PySpark in this process."""
    try:
        import pyspark
    except ImportError:
        raise ImportError("PySpark is not installed: pip install 'fastmosaic[spark]'") from None
    return SparkVersion.of(pyspark.__version__)
