"""Python objects that implement Spark's interfaces of tables that can be changed.

They only translate: `tables` knows what a change is. See `planner.proxies` for the rules.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ...schemas.fit import plain_schema
from ...table.overwrite import AllRows, MatchingRows, Region, SamePartitions
from ...table.write import TableWrite
from ..jobs.delete import delete
from ..jvm import Guarded
from ..planner.expressions import predicate
from ..planner.plan import ScanPlanner
from ..planner.proxies import Proxy, TableProxy
from ..schemas import arrow_for_spark, column_with_time, to_spark
from ..source.options import save_options
from .conditions import exact_expression
from .jvm import CATALOG, WRITE, CatalogJvm
from .tables import LakeTable, StagedLakeTable
from .task import TaskWriter


class LakeTableProxy(TableProxy):
    """A table of a lake at a version: it can be read, and its newest version be changed."""

    jvm: CatalogJvm

    class Java:
        implements: ClassVar = [
            *TableProxy.Java.implements,
            f"{CATALOG}.SupportsWrite",
            f"{CATALOG}.SupportsDeleteV2",
        ]

    def __init__(self, jvm: CatalogJvm, table: LakeTable, options: Mapping[str, Any]) -> None:
        self.jvm = jvm
        self._table = table
        self._options = options
        wanted = arrow_for_spark(table.schema)
        planner = ScanPlanner(table.files, wanted, table.label, jvm.split_sizes)
        super().__init__(jvm, planner, struct_of(jvm, table))

    def capabilities(self) -> Any:
        self.jvm.check_running()
        return self.jvm.table_capabilities()

    def partitioning(self) -> Any:
        return self.jvm.transforms(self._table.partitioning)

    def properties(self) -> Any:
        return self.jvm.map(self._table.properties)

    def newWriteBuilder(self, info: Any) -> WriteBuilderProxy:
        self._table.check_changeable()
        return WriteBuilderProxy(self.jvm, self._table, self._options, info)

    def canDeleteWhere(self, predicates: Any) -> bool:
        self._table.check_changeable()
        return self._condition(predicates) is not None

    def deleteWhere(self, predicates: Any, options: Any = None) -> None:
        condition = self._condition(predicates)
        if condition is True:
            self._delete_all()
        elif condition is not False:
            delete(self.jvm.spark, self._table.change(), condition)

    def _condition(self, predicates: Any) -> Any:
        return condition_of(self._table, predicates)

    def truncateTable(self, options: Any = None) -> bool:
        self._delete_all()
        return True

    def _delete_all(self) -> None:
        table = self._table.change()
        table.overwrite(table.schema.empty_table())

    def supportedCustomMetrics(self) -> Any:
        return self.jvm.no_custom_metrics()

    def reportDriverMetrics(self) -> Any:
        return self.jvm.no_driver_metrics()


class StagedTableProxy(Proxy):
    """A table that is created or replaced when its rows are written."""

    jvm: CatalogJvm

    class Java:
        implements: ClassVar = [f"{CATALOG}.StagedTable", f"{CATALOG}.SupportsWrite"]

    def __init__(self, jvm: CatalogJvm, table: StagedLakeTable) -> None:
        self.jvm = jvm
        self._table = table
        self._struct = struct_of(jvm, table)
        self._stock = jvm.stock_table(self._struct)
        self.key = f"{id(self):016x}"

    def name(self) -> str:
        return self._table.label

    def schema(self) -> Any:
        return self._struct

    def capabilities(self) -> Any:
        return self.jvm.table_capabilities()

    def partitioning(self) -> Any:
        return self.jvm.transforms(self._table.partitioning)

    def newWriteBuilder(self, info: Any) -> WriteBuilderProxy:
        return WriteBuilderProxy(self.jvm, self._table, self._table.options, info)

    def commitStagedChanges(self) -> None:
        self._table.commit()

    def abortStagedChanges(self) -> None:
        self._table.abort()

    def reportDriverMetrics(self) -> Any:
        return self.jvm.no_driver_metrics()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)  # methods with a default in the interface


class WriteBuilderProxy(Guarded):
    jvm: CatalogJvm

    class Java:
        implements: ClassVar = [
            f"{WRITE}.SupportsOverwriteV2",
            f"{WRITE}.SupportsDynamicOverwrite",
        ]

    def __init__(
        self,
        jvm: CatalogJvm,
        table: LakeTable | StagedLakeTable,
        options: Mapping[str, Any],
        info: Any,
    ) -> None:
        self.jvm = jvm
        self._table = table
        self._region: Region | None = None
        self._struct = info.schema()
        given = info.options()
        texts = {str(key): str(given.get(key)) for key in given.keySet()}
        self._options = {**options, **writer_options(texts)}

    def truncate(self) -> WriteBuilderProxy:
        self._region = AllRows()
        return self

    def canOverwrite(self, predicates: Any) -> bool:
        return condition_of(self._table, predicates) is not None

    def overwrite(self, predicates: Any) -> WriteBuilderProxy:
        condition = condition_of(self._table, predicates)
        if condition is not False:
            self._region = AllRows() if condition is True else MatchingRows(condition)
        return self

    def overwriteDynamicPartitions(self) -> WriteBuilderProxy:
        self._region = SamePartitions()
        return self

    def build(self) -> WriteProxy:
        return WriteProxy(self.jvm, self._table, self._begin, self._struct)

    def _begin(self) -> TableWrite:
        return self._table.begin_write(self._region, self._options)


class WriteProxy(Proxy):
    jvm: CatalogJvm

    class Java:
        implements: ClassVar = [f"{WRITE}.Write"]

    def __init__(
        self,
        jvm: CatalogJvm,
        table: LakeTable | StagedLakeTable,
        begin: Callable[[], TableWrite],
        struct: Any,
    ) -> None:
        self.jvm = jvm
        self._table = table
        self._begin = begin
        self._struct = struct
        self.key = f"{id(self):016x}"

    def description(self) -> str:
        return f"mosaic {self._table.label}"

    def toBatch(self) -> BatchWriteProxy:
        # Not before: EXPLAIN only plans a write.
        return BatchWriteProxy(self.jvm, self._begin(), self._struct)

    def supportedCustomMetrics(self) -> Any:
        return self.jvm.metrics()

    def reportDriverMetrics(self) -> Any:
        return self.jvm.no_driver_metrics()


class BatchWriteProxy(Proxy):
    jvm: CatalogJvm

    class Java:
        implements: ClassVar = [f"{WRITE}.BatchWrite"]

    def __init__(self, jvm: CatalogJvm, write: TableWrite, struct: Any) -> None:
        self.jvm = jvm
        self._write = write
        self._struct = struct
        self.key = f"{id(self):016x}"

    def createBatchWriterFactory(self, info: Any) -> Any:
        rows = self._write.rows
        function = TaskWriter(rows, plain_schema(rows.schema), self._write.prefix)
        return self.jvm.writer_factory(function, self._struct)

    def useCommitCoordinator(self) -> bool:
        return True

    def onDataWriterCommit(self, message: Any) -> None:
        pass

    def commit(self, messages: Any, summary: Any = None) -> None:
        found = [pickle.loads(bytes(one.pickledMessage())) for one in messages]
        self._write.commit([file for files in found for file in files])

    def abort(self, messages: Any) -> None:
        self._write.abort()


def condition_of(table: LakeTable | StagedLakeTable, predicates: Any) -> Any:
    """Return the rows that predicates mean as an Arrow expression; None if there is none.

    True means all rows, and False none.
    """
    names = [str(one.name()) for one in predicates]
    if "ALWAYS_FALSE" in names:
        return False
    if all(name == "ALWAYS_TRUE" for name in names):
        return True
    if not isinstance(table, LakeTable):
        return None
    return exact_expression(map(predicate, predicates), table.files.columns.field)


def struct_of(jvm: CatalogJvm, table: LakeTable | StagedLakeTable) -> Any:
    """Return the columns of a table as a StructType."""
    if column_with_time(table.schema) is not None:
        return jvm.struct_of(to_spark(table.schema))
    return jvm.struct(arrow_for_spark(table.schema))


def writer_options(texts: Mapping[str, str]) -> dict[str, Any]:
    """Parse the options of a write, as arguments of `DatasetWriter`."""
    options = save_options(texts)
    if options.existing is not None or options.partition_by is not None or not options.staging:
        raise ValueError("existing, partition_by and staging are not options of a table")
    found = options.of_dataset()
    del found["partitioning"]
    return found
