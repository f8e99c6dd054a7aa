"""Python objects in the driver that Spark's planner talks to, through the interfaces of its connectors.

What they answer with are stock objects of Spark, numbers and text; tasks run stock code. The names
of methods are those of the interfaces, and methods that have a default there must be here, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from .aggregates import Aggregate
from .jvm import READ, SQL, Jvm, aggregates, predicate
from .pushdown import Predicate


class Planned(Protocol):
    """A planned scan, without anything of the JVM."""

    schema: pa.Schema  # of the batches that tasks give
    num_rows: int
    size: int

    @property
    def key(self) -> str:
        """The same for scans of the same."""

    @property
    def description(self) -> str: ...

    def command(self) -> Callable[..., Any]:
        """The function that tasks run, on batches with a split each."""

    def splits(self) -> Sequence[Any]: ...


class Relation(Protocol):
    """A table, without anything of the JVM."""

    name: str
    key: str

    def plan(
        self, names: Sequence[str] | None, predicates: Sequence[Predicate | None], limit: int | None
    ) -> Planned: ...

    def aggregate(self, aggregates: Sequence[Aggregate]) -> list[pa.Scalar] | None:
        """The values by metadata alone, as Spark has them; None if it does not tell."""

    def report_metadata(self) -> None:
        """Note a scan that metadata answers."""


class Proxy:
    """An object that the JVM compares by its key.

    Spark reuses exchanges and cached tables where scans are equal. What it compares with arrives
    as an object of the JVM, of which only the text is sure to come back here.
    """

    key: str

    def toString(self) -> str:
        return f"{type(self).__name__} {self.key}"

    def hashCode(self) -> int:
        return int.from_bytes(bytes.fromhex(self.key[:8]), "big", signed=True)

    def equals(self, other: Any) -> bool:
        if isinstance(other, Proxy):
            return other.toString() == self.toString()
        return other is not None and str(other.toString()) == self.toString()


class Table(Proxy):
    class Java:
        implements: ClassVar = [
            f"{SQL}.connector.catalog.Table",
            f"{SQL}.connector.catalog.SupportsRead",
        ]

    def __init__(self, jvm: Jvm, relation: Relation, struct: Any) -> None:
        self._jvm = jvm
        self._relation = relation
        self._struct = struct
        self._stock = jvm.stock_table(struct)
        self.key = relation.key

    def name(self) -> str:
        return self._relation.name

    def schema(self) -> Any:
        return self._struct

    def capabilities(self) -> Any:
        return self._jvm.batch_read()

    def newScanBuilder(self, options: Any) -> ScanBuilder:
        return ScanBuilder(self._jvm, self._relation, self._struct)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)  # what the interface has defaults for


class ScanBuilder:
    class Java:
        implements: ClassVar = [
            f"{READ}.ScanBuilder",
            f"{READ}.SupportsPushDownV2Filters",
            f"{READ}.SupportsPushDownRequiredColumns",
            f"{READ}.SupportsPushDownLimit",
            f"{READ}.SupportsPushDownAggregates",
        ]

    def __init__(self, jvm: Jvm, relation: Relation, struct: Any) -> None:
        self._jvm = jvm
        self._relation = relation
        self._struct = struct
        self._names: list[str] | None = None
        self._predicates: list[Predicate | None] = []
        self._limit: int | None = None
        self._asked: list[Aggregate] | None = None
        self._values: list[pa.Scalar] | None = None

    def pushPredicates(self, predicates: Any) -> Any:
        self._predicates = [predicate(one) for one in predicates]
        return predicates  # statistics skip row groups; rows are for Spark to filter

    def pushedPredicates(self) -> Any:
        return self._jvm.no_predicates()

    def supportsIterativePushdown(self) -> bool:
        return False

    def pruneColumns(self, struct: Any) -> None:
        self._struct = struct
        self._names = [field["name"] for field in json.loads(struct.json())["fields"]]

    def pushLimit(self, limit: int) -> bool:
        self._limit = limit
        return True

    def isPartiallyPushed(self) -> bool:
        return True

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        self._asked = aggregates(aggregation)
        self._values = None if self._asked is None else self._relation.aggregate(self._asked)
        return self._values is not None

    def pushAggregation(self, aggregation: Any) -> bool:
        return self.supportCompletePushDown(aggregation)

    def build(self) -> Proxy:
        if self._asked is not None and self._values is not None:
            self._relation.report_metadata()
            return LocalScan(self._jvm, self._relation, self._asked, self._values)
        planned = self._relation.plan(self._names, self._predicates, self._limit)
        return Scan(self._jvm, planned, self._struct)


class Scan(Proxy):
    class Java:
        implements: ClassVar = [f"{READ}.Scan", f"{READ}.SupportsReportStatistics"]

    def __init__(self, jvm: Jvm, planned: Planned, struct: Any) -> None:
        self._jvm = jvm
        self._planned = planned
        self._struct = struct
        self.key = planned.key

    def readSchema(self) -> Any:
        return self._struct

    def description(self) -> str:
        return self._planned.description

    def toBatch(self) -> Batch:
        return Batch(self._jvm, self._planned, self._struct)

    def columnarSupportMode(self) -> Any:
        return self._jvm.by_rows()

    def supportedCustomMetrics(self) -> Any:
        return self._jvm.metrics()

    def reportDriverMetrics(self) -> Any:
        return self._jvm.no_driver_metrics()

    def estimateStatistics(self) -> Statistics:
        return Statistics(self._jvm, self._planned)

    def estimateSizeInBytes(self) -> Any:
        return self._jvm.optional_long(self._planned.size)

    def reflectsFullyPushedDownFilters(self) -> bool:
        return False


class Batch(Proxy):
    class Java:
        implements: ClassVar = [f"{READ}.Batch"]

    def __init__(self, jvm: Jvm, planned: Planned, struct: Any) -> None:
        self._jvm = jvm
        self._planned = planned
        self._struct = struct
        self.key = planned.key

    def planInputPartitions(self) -> Any:
        return self._jvm.partitions(self._planned.splits())

    def createReaderFactory(self) -> Any:
        return self._jvm.reader_factory(self._planned.command(), self._struct)


class Statistics:
    class Java:
        implements: ClassVar = [f"{READ}.Statistics"]

    def __init__(self, jvm: Jvm, planned: Planned) -> None:
        self._jvm = jvm
        self._planned = planned

    def sizeInBytes(self) -> Any:
        return self._jvm.optional_long(self._planned.size)

    def numRows(self) -> Any:
        return self._jvm.optional_long(self._planned.num_rows)

    def columnStats(self) -> Any:
        return self._jvm.empty_map()


class LocalScan(Proxy):
    """The answer to aggregates, from metadata: no task runs."""

    class Java:
        implements: ClassVar = [f"{READ}.LocalScan"]

    def __init__(
        self,
        jvm: Jvm,
        relation: Relation,
        asked: Sequence[Aggregate],
        values: Sequence[pa.Scalar],
    ) -> None:
        self._jvm = jvm
        self._values = values
        self._names = [str(one) for one in asked]
        fields = [
            pa.field(name, value.type) for name, value in zip(self._names, values, strict=True)
        ]
        self._struct = jvm.struct(pa.schema(fields))
        whole = f"{relation.key} {self._names}"
        self.key = hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()

    def readSchema(self) -> Any:
        return self._struct

    def description(self) -> str:
        return f"mosaic metadata: {', '.join(self._names)}"

    def rows(self) -> Any:
        return self._jvm.array(
            f"{SQL}.catalyst.InternalRow", [self._jvm.row(self._struct, self._values)]
        )

    def columnarSupportMode(self) -> Any:
        return self._jvm.by_rows()

    def supportedCustomMetrics(self) -> Any:
        return self._jvm.array(f"{SQL}.connector.metric.CustomMetric", [])

    def reportDriverMetrics(self) -> Any:
        return self._jvm.no_driver_metrics()
