"""Access to classes in Spark's JVM that are not public API: their names and constructors.

Everything that may change between versions of Spark is in this module; the interfaces that
`proxies` implements are public.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types

from ...format.paths import Path
from .aggregates import Aggregate
from .pushdown import Both, Either, Leaf, Neither, Predicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# Versions of Spark that this module was tested with.
KNOWN_VERSIONS: Final = ((4, 3),)

SQL: Final = "org.apache.spark.sql"
READ: Final = f"{SQL}.connector.read"
EXPRESSIONS: Final = f"{SQL}.connector.expressions"
PYTHON: Final = f"{SQL}.execution.datasources.v2.python"
FIELD: Final = f"{EXPRESSIONS}.FieldReference"
LITERAL: Final = f"{EXPRESSIONS}.LiteralValue"
# The longest list of literals to convert: each one is a call into the JVM.
MAX_VALUES: Final = 500


def is_known(version: str) -> bool:
    """Whether this module was tested with a version of Spark."""
    major, minor = version.split(".")[:2]
    return (int(major), int(minor)) in KNOWN_VERSIONS


class Jvm:
    """The JVM of a Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.java_gateway import ensure_callback_server_started
        from pyspark.sql.udf import _wrap_function

        context = spark.sparkContext
        self.spark = spark
        self.gateway: Any = context._gateway
        ensure_callback_server_started(self.gateway)  # type: ignore[no-untyped-call]
        self.none = self._class("scala.Option").empty()
        # It only carries the environment of the workers: their Python and its packages.
        self._source = self._class(f"{PYTHON}.UserDefinedPythonDataSource")(
            _wrap_function(context, len)
        )

    def _class(self, name: str) -> Any:
        from py4j.java_gateway import JavaClass

        # Attributes of py4j's view would need one call for each package of the name.
        return JavaClass(name, self.gateway._gateway_client)

    def array(self, name: str, items: Sequence[Any]) -> Any:
        array = self.gateway.new_array(self._class(name), len(items))
        for index, item in enumerate(items):
            array[index] = item
        return array

    def struct(self, schema: pa.Schema) -> Any:
        """Convert an Arrow schema from `arrow_for_spark` to a StructType, in one call."""
        schemas = self._class("org.apache.arrow.vector.types.pojo.Schema")
        message = bytearray(schema.serialize().to_pybytes())
        arrow = schemas.deserializeMessage(self._class("java.nio.ByteBuffer").wrap(message))
        return self._class(f"{SQL}.util.ArrowUtils").fromArrowSchema(arrow)

    def struct_of(self, schema: StructType) -> Any:
        """Convert a schema of PySpark, through JSON: types that Arrow does not have stay."""
        return self._class(f"{SQL}.types.DataType").fromJson(schema.json())

    def data_frame(self, table: Any, struct: Any) -> DataFrame:
        """Create a DataFrame on a table of the connector interface."""
        from pyspark.sql import DataFrame

        options = self._class(f"{SQL}.util.CaseInsensitiveStringMap").empty()
        plan = self._class(f"{SQL}.execution.datasources.v2.DataSourceV2Relation")(
            table,
            self._class(f"{SQL}.catalyst.types.DataTypeUtils").toAttributes(struct),
            self.none,
            self.none,
            options,
            self.none,
        )
        session = self.spark._jsparkSession
        return DataFrame(self._class(f"{SQL}.classic.Dataset").ofRows(session, plan), self.spark)

    def split_sizes(self) -> tuple[int, int]:
        """Return the maximum bytes of a split and the minimum number of splits."""
        conf = self.spark._jsparkSession.sessionState().conf()
        return conf.filesMaxPartitionBytes(), self.spark.sparkContext.defaultParallelism

    # ---- return values of the proxies

    def stock_table(self, struct: Any) -> Any:
        provider = self._class(f"{PYTHON}.PythonDataSourceV2")()
        return self._class(f"{PYTHON}.PythonTable")(provider, "mosaic", struct)

    def batch_read(self) -> Any:
        capability = self._class(f"{SQL}.connector.catalog.TableCapability").BATCH_READ
        return self._class("java.util.Collections").singleton(capability)

    def by_rows(self) -> Any:
        return self._class(f"{READ}.Scan$ColumnarSupportMode").valueOf("UNSUPPORTED")

    def metrics(self) -> Any:
        """Return Spark's own metrics of Python workers: data sent and received."""
        return self._source.createPythonMetrics()

    def no_driver_metrics(self) -> Any:
        return self.array(f"{SQL}.connector.metric.CustomTaskMetric", [])

    def optional_long(self, value: int) -> Any:
        return self._class("java.util.OptionalLong").of(value)

    def empty_map(self) -> Any:
        return self._class("java.util.Collections").emptyMap()

    def no_predicates(self) -> Any:
        return self.array(f"{EXPRESSIONS}.filter.Predicate", [])

    def partitions(self, splits: Sequence[Any]) -> Any:
        partition = self._class(f"{PYTHON}.PythonInputPartition")
        return self.array(
            f"{READ}.InputPartition",
            [
                partition(index, bytearray(pickle.dumps(split)))
                for index, split in enumerate(splits)
            ],
        )

    def reader_factory(self, function: Callable[..., Any], struct: Any) -> Any:
        command = bytearray(pickle.dumps((function, None)))
        return self._class(f"{PYTHON}.PythonPartitionReaderFactory")(
            self._source, command, struct, self.none, self.none
        )

    def row(self, struct: Any, values: Sequence[pa.Scalar]) -> Any:
        """Create an InternalRow."""
        row = self._class(f"{SQL}.catalyst.expressions.SpecificInternalRow")(struct)
        for index, scalar in enumerate(values):
            if scalar.is_valid:
                self._set(row, index, scalar)
            else:
                row.setNullAt(index)
        return row

    def _set(self, row: Any, index: int, scalar: pa.Scalar) -> None:
        if types.is_decimal(scalar.type):
            decimal = self._class(f"{SQL}.types.Decimal").apply(
                self._class("java.math.BigDecimal")(str(scalar.as_py())),
                scalar.type.precision,
                scalar.type.scale,
            )
            row.update(index, decimal)
        elif types.is_boolean(scalar.type):
            row.setBoolean(index, scalar.as_py())
        elif types.is_int8(scalar.type):
            row.setByte(index, scalar.as_py())
        elif types.is_int16(scalar.type):
            row.setShort(index, scalar.as_py())
        elif types.is_int32(scalar.type) or types.is_date32(scalar.type):
            row.setInt(index, scalar.cast(pa.int32()).as_py())
        else:
            row.setLong(index, scalar.cast(pa.int64()).as_py())


# ---- predicates and aggregates, from the JVM


def predicate(node: Any) -> Predicate | None:
    """Convert a predicate of Spark; None if it cannot be expressed in Arrow."""
    name = node.name()
    if name in ("AND", "OR", "NOT"):
        children = [predicate(child) for child in node.children()]
        if name == "NOT":
            return None if children[0] is None else Neither(children[0])
        return Both(*children) if name == "AND" else Either(*children)
    if name not in _OPERATORS or len(node.children()) > MAX_VALUES:
        return None
    column, *operands = node.children()
    path = _path(column)
    if path is None or any(_class_name(operand) != LITERAL for operand in operands):
        return None
    return Leaf(name, path, tuple(_value(operand.value()) for operand in operands))


_OPERATORS: Final = frozenset(
    {"=", "<=>", "<", "<=", ">", ">=", "IN", "IS_NULL", "IS_NOT_NULL", "STARTS_WITH"}
)


def _path(node: Any) -> Path | None:
    """Return the path to a column, or to a field of a struct; None if the node is not such one."""
    return tuple(node.fieldNames()) if _class_name(node) == FIELD else None


def _class_name(node: Any) -> str:
    return str(node.getClass().getName())


def _value(value: Any) -> Any:
    """Convert a literal to Python. Dates and timestamps stay numbers of days and microseconds."""
    from py4j.java_gateway import JavaObject

    if not isinstance(value, JavaObject):
        return value
    if _class_name(value) == f"{SQL}.types.Decimal":
        return Decimal(value.toString())
    return value.toString()


def aggregates(aggregation: Any) -> list[Aggregate] | None:
    """Convert an aggregation of Spark; None if metadata cannot answer it."""
    if len(aggregation.groupByExpressions()):
        return None
    found = []
    for function in aggregation.aggregateExpressions():
        name = str(function.getClass().getSimpleName())
        if name == "CountStar":
            found.append(Aggregate("count", None))
            continue
        if name not in ("Count", "Min", "Max") or (name == "Count" and function.isDistinct()):
            return None
        path = _path(function.column())
        if path is None:
            return None
        found.append(Aggregate(name.lower(), path))
    return found
