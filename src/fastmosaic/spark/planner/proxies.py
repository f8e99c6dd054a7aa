"""Python objects in the driver that implement the interfaces of Spark's DataSource V2.

Spark's planner calls them through py4j. They return stock objects of Spark, numbers and strings, and
tasks run stock code. Methods have the names that the interfaces prescribe; a method with a default
in Java must exist here as well, because py4j does not call default methods.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from ..jvm import READ, SQL, Guarded, Jvm
from ..origin import ORIGIN
from .aggregates import Answers
from .expressions import aggregates, predicate
from .plan import PlannedScan, ScanPlanner
from .pushdown import Predicate


class Proxy(Guarded):
    """An object that the JVM compares by its key.

    Spark reuses exchanges and cached tables if their scans are equal. The other object of a
    comparison may arrive as a JVM object, so `equals` compares the text of both.
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


class TableProxy(Proxy):
    class Java:
        implements: ClassVar = [
            f"{SQL}.connector.catalog.Table",
            f"{SQL}.connector.catalog.SupportsRead",
            f"{SQL}.connector.catalog.SupportsMetadataColumns",
        ]

    def __init__(self, jvm: Jvm, planner: ScanPlanner, struct: Any) -> None:
        self.jvm = jvm
        self._planner = planner
        self._struct = struct
        self._stock = jvm.stock_table(struct)
        self.key = planner.key

    def name(self) -> str:
        return self._planner.name

    def schema(self) -> Any:
        return self._struct

    def capabilities(self) -> Any:
        self.jvm.check_running()  # Spark asks for them whenever it analyzes a query
        return self.jvm.batch_read()

    def metadataColumns(self) -> Any:
        columns = [OriginProxy(self.jvm)] if self._planner.has_origin else []
        return self.jvm.array(f"{SQL}.connector.catalog.MetadataColumn", columns)

    def canRenameConflictingMetadataColumns(self) -> bool:
        return False

    def newScanBuilder(self, options: Any) -> ScanBuilderProxy:
        return ScanBuilderProxy(self.jvm, self._planner, self._struct)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)  # methods with a default in the interface


class OriginProxy(Guarded):
    """The hidden column that tells where rows are from."""

    class Java:
        implements: ClassVar = [f"{SQL}.connector.catalog.MetadataColumn"]

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm
        self._struct = jvm.struct(pa.schema(list(ORIGIN.type)))

    def name(self) -> str:
        return ORIGIN.name

    def dataType(self) -> Any:
        return self._struct

    def isNullable(self) -> bool:
        return False

    def comment(self) -> None:
        return None

    def transform(self) -> None:
        return None

    def metadataInJSON(self) -> None:
        return None


class ScanBuilderProxy(Guarded):
    class Java:
        implements: ClassVar = [
            f"{READ}.ScanBuilder",
            f"{READ}.SupportsPushDownV2Filters",
            f"{READ}.SupportsPushDownRequiredColumns",
            f"{READ}.SupportsPushDownLimit",
            f"{READ}.SupportsPushDownAggregates",
        ]

    def __init__(self, jvm: Jvm, planner: ScanPlanner, struct: Any) -> None:
        self.jvm = jvm
        self._planner = planner
        self._struct = struct
        self._schema: pa.Schema | None = None
        self._predicates: list[Predicate | None] = []
        self._limit: int | None = None
        self._answers: Answers | None = None

    def pushPredicates(self, predicates: Any) -> Any:
        self._predicates = [predicate(one) for one in predicates]
        return predicates  # they only skip row groups: Spark must still filter rows

    def pushedPredicates(self) -> Any:
        return self.jvm.no_predicates()

    def supportsIterativePushdown(self) -> bool:
        return False

    def pruneColumns(self, struct: Any) -> None:
        self._struct = struct
        self._schema = self._planner.part_of(json.loads(struct.json()))
        if not len(self._schema) and not self.jvm.version.counts_without_columns:
            self._schema = self._planner.narrowest()
            self._struct = self.jvm.struct(self._schema)

    def pushLimit(self, limit: int) -> bool:
        self._limit = limit
        return True

    def isPartiallyPushed(self) -> bool:
        return True

    def supportCompletePushDown(self, aggregation: Any) -> bool:
        self._answers = self._planner.aggregate(aggregates(aggregation))
        return self._answers is not None

    def pushAggregation(self, aggregation: Any) -> bool:
        return self.supportCompletePushDown(aggregation)

    def build(self) -> Proxy:
        if self._answers is not None:
            self._planner.note_metadata_scan()
            return LocalScanProxy(self.jvm, self._planner, self._answers)
        return ScanProxy(self.jvm, self._plan, self._struct)

    def _plan(self, found: Sequence[Predicate | None]) -> PlannedScan:
        """Plan the scan, also with predicates that were found at run time."""
        return self._planner.plan(self._schema, [*self._predicates, *found], self._limit)


class ScanProxy(Proxy):
    """A scan. Spark may filter it at run time, before it asks for the batch again."""

    class Java:
        implements: ClassVar = [
            f"{READ}.Scan",
            f"{READ}.SupportsReportStatistics",
            f"{READ}.SupportsRuntimeV2Filtering",
        ]

    def __init__(
        self,
        jvm: Jvm,
        plan: Callable[[Sequence[Predicate | None]], PlannedScan],
        struct: Any,
    ) -> None:
        self.jvm = jvm
        self._plan = plan
        self._planned = self._filtered = plan([])
        self._struct = struct
        self.key = self._planned.key

    def readSchema(self) -> Any:
        return self._struct

    def description(self) -> str:
        return str(self._planned.report)

    def toBatch(self) -> BatchProxy:
        return BatchProxy(self.jvm, self._filtered, self._struct)

    def filterAttributes(self) -> Any:
        return self.jvm.columns(self._planned.runtime_columns())

    def filter(self, predicates: Any) -> None:
        found = [predicate(one) for one in predicates]
        self._filtered = self._plan(found) if any(found) else self._planned

    def pushedPredicates(self) -> Any:
        return self.jvm.no_predicates()

    def supportsIterativePushdown(self) -> bool:
        return False

    def columnarSupportMode(self) -> Any:
        return self.jvm.by_rows()

    def supportedCustomMetrics(self) -> Any:
        return self.jvm.metrics()

    def reportDriverMetrics(self) -> Any:
        return self.jvm.no_driver_metrics()

    def estimateStatistics(self) -> StatisticsProxy:
        return StatisticsProxy(self.jvm, self._planned)

    def estimateSizeInBytes(self) -> Any:
        return self.jvm.optional_long(self._planned.size)

    def reflectsFullyPushedDownFilters(self) -> bool:
        return False


class BatchProxy(Proxy):
    class Java:
        implements: ClassVar = [f"{READ}.Batch"]

    def __init__(self, jvm: Jvm, planned: PlannedScan, struct: Any) -> None:
        self.jvm = jvm
        self._planned = planned
        self._struct = struct
        self.key = planned.key

    def planInputPartitions(self) -> Any:
        return self.jvm.partitions(self._planned.splits)

    def createReaderFactory(self) -> Any:
        return self.jvm.reader_factory(self._planned.reader(), self._planned.schema, self._struct)


class StatisticsProxy(Guarded):
    class Java:
        implements: ClassVar = [f"{READ}.Statistics"]

    def __init__(self, jvm: Jvm, planned: PlannedScan) -> None:
        self.jvm = jvm
        self._planned = planned

    def sizeInBytes(self) -> Any:
        return self.jvm.optional_long(self._planned.size)

    def numRows(self) -> Any:
        return self.jvm.optional_long(self._planned.num_rows)

    def columnStats(self) -> Any:
        return self.jvm.empty_map()


class LocalScanProxy(Proxy):
    """Aggregates that are answered from metadata, without a task."""

    class Java:
        implements: ClassVar = [f"{READ}.LocalScan"]

    def __init__(self, jvm: Jvm, planner: ScanPlanner, answers: Answers) -> None:
        self.jvm = jvm
        self._values = [value for _, value in answers]
        self._names = [str(aggregate) for aggregate, _ in answers]
        fields = [(name, value.type) for name, value in zip(self._names, self._values, strict=True)]
        self._struct = jvm.struct(pa.schema(fields))
        whole = f"{planner.key} {self._names}"
        self.key = hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()

    def readSchema(self) -> Any:
        return self._struct

    def description(self) -> str:
        return f"mosaic metadata: {', '.join(self._names)}"

    def rows(self) -> Any:
        return self.jvm.array(
            f"{SQL}.catalyst.InternalRow", [self.jvm.row(self._struct, self._values)]
        )

    def columnarSupportMode(self) -> Any:
        return self.jvm.by_rows()

    def supportedCustomMetrics(self) -> Any:
        return self.jvm.no_custom_metrics()

    def reportDriverMetrics(self) -> Any:
        return self.jvm.no_driver_metrics()
