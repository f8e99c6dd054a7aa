"""Arrow schemas and Spark's.

Spark has fewer types: timestamps are in microseconds and, if they have a zone, in UTC; times of day
are in nanoseconds on their way through Arrow. `arrow_for_spark` gives the schema that batches must
have when Spark takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import types

from ..errors import UnsupportedError
from ..format.types import storage_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = ["arrow_for_spark", "cast_for_spark", "from_spark", "to_spark"]

TIMESTAMP: Final = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ: Final = pa.timestamp("us")


def to_spark(schema: pa.Schema) -> StructType:
    """The Spark schema of a table that has `schema` in a file."""
    from pyspark.sql.types import StructField, StructType

    made: dict[pa.DataType, DataType] = {}
    fields = []
    for field in arrow_for_spark(schema):
        type = made.get(field.type)
        if type is None:
            type = made[field.type] = _spark_type(field.type)
        fields.append(StructField(field.name, type, field.nullable))
    return StructType(fields)


def _spark_type(arrow: pa.DataType) -> DataType:
    """The Spark type of a type that `arrow_for_spark` gave."""
    from pyspark.sql import types as spark

    simple: dict[pa.DataType, Callable[[], DataType]] = {
        pa.bool_(): spark.BooleanType,
        pa.int8(): spark.ByteType,
        pa.int16(): spark.ShortType,
        pa.int32(): spark.IntegerType,
        pa.int64(): spark.LongType,
        pa.float32(): spark.FloatType,
        pa.float64(): spark.DoubleType,
        pa.date32(): spark.DateType,
        pa.string(): spark.StringType,
        pa.binary(): spark.BinaryType,
        pa.time64("ns"): spark.TimeType,
        TIMESTAMP: spark.TimestampType,
        TIMESTAMP_NTZ: spark.TimestampNTZType,
    }
    if arrow in simple:
        return simple[arrow]()
    if types.is_decimal128(arrow):
        return spark.DecimalType(arrow.precision, arrow.scale)
    if types.is_list(arrow):
        return spark.ArrayType(_spark_type(arrow.value_type), arrow.value_field.nullable)
    return spark.MapType(
        _spark_type(arrow.key_type), _spark_type(arrow.item_type), arrow.item_field.nullable
    )


def arrow_for_spark(schema: pa.Schema) -> pa.Schema:
    """`schema` with the types that Spark takes from Arrow."""
    made: dict[pa.DataType, pa.DataType] = {}
    fields = []
    for field in schema:
        type = made.get(field.type)
        if type is None:
            try:
                type = made[field.type] = _arrow_type(storage_type(field.type))
            except UnsupportedError as error:
                error.locate(column=field.name)
                raise
        fields.append(pa.field(field.name, type, field.nullable))
    return pa.schema(fields)


def _arrow_type(arrow: pa.DataType) -> pa.DataType:
    """The type that holds `arrow`, which is one of the format, in Spark."""
    if types.is_timestamp(arrow):
        return TIMESTAMP_NTZ if arrow.tz is None else TIMESTAMP
    if types.is_time(arrow):
        return pa.time64("ns")
    if types.is_list(arrow):
        return pa.list_(_inside("element", arrow.value_field))
    if types.is_map(arrow):
        return pa.map_(_inside("key", arrow.key_field), _inside("value", arrow.item_field))
    if types.is_decimal(arrow) and arrow.scale < 0:
        raise UnsupportedError(f"Spark has no type for {arrow}: its scale is negative")
    return arrow


def _inside(name: str, field: pa.Field) -> pa.Field:
    return pa.field(name, _arrow_type(field.type), field.nullable)


def cast_for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """`batch` with the types of `schema`, which is what `arrow_for_spark` made of its own."""
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field, array in zip(schema, batch.columns, strict=True):
        try:
            arrays.append(array.cast(field.type))
        except pa.ArrowInvalid as error:
            raise UnsupportedError(
                f"column {field.name!r} is {array.type}, which Spark has as {field.type}: {error}"
            ) from error
    if not arrays:
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def from_spark(struct: StructType) -> pa.Schema:
    """The Arrow schema of a file that holds rows of `struct`."""
    return pa.schema(
        [
            pa.field(field.name, _from_spark(field.dataType, field.name), field.nullable)
            for field in struct
        ]
    )


def _from_spark(type: DataType, column: str) -> pa.DataType:
    from pyspark.sql import types as spark

    simple: dict[str, pa.DataType] = {
        "boolean": pa.bool_(),
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "binary": pa.binary(),
        "timestamp": TIMESTAMP,
        "timestamp_ntz": TIMESTAMP_NTZ,
        "void": pa.null(),
    }
    if isinstance(type, spark.StringType):
        return pa.string()
    if isinstance(type, spark.DecimalType):
        return pa.decimal128(type.precision, type.scale)
    if isinstance(type, spark.TimeType):
        return pa.time32("ms")  # a cast tells where that is not enough
    if isinstance(type, spark.ArrayType):
        item = _from_spark(type.elementType, column)
        return pa.list_(pa.field("element", item, type.containsNull))
    if isinstance(type, spark.MapType) and not isinstance(
        type.keyType, spark.ArrayType | spark.MapType
    ):
        key = pa.field("key", _from_spark(type.keyType, column), nullable=False)
        value = _from_spark(type.valueType, column)
        return pa.map_(key, pa.field("value", value, type.valueContainsNull))
    arrow = simple.get(type.typeName())
    if arrow is None:
        raise UnsupportedError(
            f"column {column!r}: the format has no type for {_shown(type)}; {_advice(type)}"
        )
    return arrow


def _shown(type: DataType) -> str:
    text = type.simpleString()
    return text if len(text) <= 100 else f"{text[:100]}..."


def _advice(type: DataType) -> str:
    match type.typeName():
        case "struct":
            return "make each field a column of its own (select('a.*') does)"
        case "map":
            return "its maps have keys that are neither lists nor maps"
        case "variant":
            return "make it a string by to_json"
        case _:
            return "cast the column to one of its types"
