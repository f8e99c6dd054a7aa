"""Access to classes in Spark's JVM that are not public API: their names and constructors.

The interfaces that `planner.proxies` implements are public. `versions` knows what differs between the
versions of Spark.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyarrow import types

from ..errors import ConflictError
from .gateway import CallbackGateway
from .schemas import to_spark
from .versions import SparkVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SQL: Final = "org.apache.spark.sql"
READ: Final = f"{SQL}.connector.read"
EXPRESSIONS: Final = f"{SQL}.connector.expressions"
PYTHON: Final = f"{SQL}.execution.datasources.v2.python"


def _once(method: Callable[[Jvm], Any]) -> Callable[[Jvm], Any]:
    """Keep the constant that a method returns: Spark asks for it many times in each query."""

    @wraps(method)
    def constant(self: Jvm) -> Any:
        if method.__name__ not in self._constants:
            self._constants[method.__name__] = method(self)
        return self._constants[method.__name__]

    return constant


class Jvm:
    """The JVM of a Spark session, reached through a gateway for callbacks."""

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.sql.udf import _wrap_function

        context = spark.sparkContext
        self.spark = spark
        self.version = SparkVersion.of(spark.version)
        self.gateway = CallbackGateway.of(spark)
        self.session = self.gateway.adopt(spark._jsparkSession)
        self._constants: dict[str, Any] = {}
        self.none = self._class("scala.Option").empty()
        # It only carries the environment of the workers: their Python and its packages.
        self._source = self._class(f"{PYTHON}.UserDefinedPythonDataSource")(
            self.gateway.adopt(_wrap_function(context, len))
        )

    def _class(self, name: str) -> Any:
        return self.gateway.java_class(name)

    def array(self, name: str, items: Sequence[Any]) -> Any:
        array = self.gateway.gateway.new_array(self._class(name), len(items))
        put = self._class("java.lang.reflect.Array").set  # py4j's own does not take Python objects
        for index, item in enumerate(items):
            put(array, index, item)
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
            *self.version.relation_arguments(self.none),
        )
        frame = self._class(f"{SQL}.classic.Dataset").ofRows(self.session, plan)
        return DataFrame(self.gateway.release(frame), self.spark)

    def split_sizes(self) -> tuple[int, int]:
        """Return the maximum bytes of a split and the minimum number of splits."""
        max_bytes = self.session.sessionState().conf().filesMaxPartitionBytes()
        return max_bytes, self.session.sparkContext().defaultParallelism()

    def check_running(self) -> None:
        """Raise if the session was stopped."""
        if self.session.sparkContext().isStopped():
            raise ValueError(
                "the Spark session of this DataFrame was stopped; start another session and create "
                "the DataFrame again"
            )

    # ---- exceptions

    def error(self, error: Exception) -> Exception:
        """Return the exception of the JVM for one of Python, ready to be raised by a proxy."""
        return Py4JJavaError("", self.java_error(error))

    def java_error(self, error: Exception) -> Any:
        """Return an exception of the JVM, of a class that PySpark shows without the JVM's stack."""
        message = "\n".join([str(error), *getattr(error, "__notes__", ())])
        if isinstance(error, ConflictError):
            return self._spark_error(message)
        if isinstance(error, NotImplementedError):
            return self._class("java.lang.UnsupportedOperationException")(message)
        if isinstance(error, ValueError | TypeError | FileNotFoundError | KeyError):
            return self._class("java.lang.IllegalArgumentException")(message)
        return self._spark_error(f"{type(error).__name__}: {message}")

    def _spark_error(self, message: str) -> Any:
        """Return a SparkRuntimeException.

        Its condition is the one that all versions of Spark have whose message is just what is passed.
        """
        parameters = self._class("java.util.HashMap")()
        parameters.put("errorMessage", message)
        return self._class("org.apache.spark.SparkRuntimeException")(
            "_LEGACY_ERROR_USER_RAISED_EXCEPTION",
            self._class("org.apache.spark.api.python.PythonUtils").toScalaMap(parameters),
            None,
            self.array("org.apache.spark.QueryContext", []),
            "",
        )

    # ---- return values of the proxies

    def stock_table(self, struct: Any) -> Any:
        provider = self._class(f"{PYTHON}.PythonDataSourceV2")()
        return self._class(f"{PYTHON}.PythonTable")(provider, "mosaic", struct)

    @_once
    def batch_read(self) -> Any:
        capability = self._class(f"{SQL}.connector.catalog.TableCapability").BATCH_READ
        return self._class("java.util.Collections").singleton(capability)

    @_once
    def by_rows(self) -> Any:
        return self._class(f"{READ}.Scan$ColumnarSupportMode").valueOf("UNSUPPORTED")

    @_once
    def metrics(self) -> Any:
        """Return Spark's own metrics of Python workers: data sent and received."""
        return self._source.createPythonMetrics()

    @_once
    def no_driver_metrics(self) -> Any:
        return self.array(f"{SQL}.connector.metric.CustomTaskMetric", [])

    @_once
    def no_custom_metrics(self) -> Any:
        return self.array(f"{SQL}.connector.metric.CustomMetric", [])

    def optional_long(self, value: int) -> Any:
        return self._class("java.util.OptionalLong").of(value)

    @_once
    def empty_map(self) -> Any:
        return self._class("java.util.Collections").emptyMap()

    def columns(self, names: Sequence[str]) -> Any:
        """Return references to columns."""
        column = self._class(f"{EXPRESSIONS}.Expressions").column
        quoted = (name.replace("`", "``") for name in names)
        return self.array(f"{EXPRESSIONS}.NamedReference", [column(f"`{name}`") for name in quoted])

    @_once
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

    def reader_factory(self, function: Callable[..., Any], schema: pa.Schema, struct: Any) -> Any:
        """Return what creates readers in tasks: `function` returns batches of `schema`."""
        described = to_spark(schema) if self.version.sends_schema else None
        return self._class(f"{PYTHON}.PythonPartitionReaderFactory")(
            self._source,
            bytearray(pickle.dumps((function, described))),
            struct,
            *self.version.factory_arguments(self.none),
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


class Guarded:
    """A base of proxies: exceptions of their public methods reach Spark as those of the JVM."""

    jvm: Jvm

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, member in list(vars(cls).items()):
            if callable(member) and not name.startswith("_") and not isinstance(member, type):
                setattr(cls, name, _guarded(member))


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Any, *given: Any) -> Any:
        try:
            return method(self, *given)
        except Py4JJavaError:
            raise
        except Exception as error:
            raise self.jvm.error(error) from error

    return call
