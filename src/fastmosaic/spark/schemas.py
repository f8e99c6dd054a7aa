"""Convert between Arrow schemas and Spark schemas.

Spark has fewer types than Arrow: timestamps have microseconds and, if they have a time zone, UTC;
times of day are exchanged in nanoseconds. `arrow_for_spark` returns the Arrow schema of batches that
Spark accepts.
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
    """Convert the Arrow schema of a file to a Spark schema."""
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
    """Convert a type returned by `arrow_for_spark`."""
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
    """Return `schema` with the Arrow types that Spark accepts."""
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
    """Return the type that Spark accepts for `arrow`, which is a type of the format."""
    if types.is_timestamp(arrow):
        return TIMESTAMP_NTZ if arrow.tz is None else TIMESTAMP
    if types.is_time(arrow):
        return pa.time64("ns")
    if types.is_list(arrow):
        return pa.list_(_inside("element", arrow.value_field))
    if types.is_map(arrow):
        return pa.map_(_inside("key", arrow.key_field), _inside("value", arrow.item_field))
    if types.is_decimal(arrow) and arrow.scale < 0:
        raise UnsupportedError(f"Spark does not support {arrow}: its scale is negative")
    return arrow


def _inside(name: str, field: pa.Field) -> pa.Field:
    return pa.field(name, _arrow_type(field.type), field.nullable)


def cast_for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to `schema`, the result of `arrow_for_spark` for the schema of the batch."""
    if batch.schema.equals(schema):
        return batch
    arrays = []
    for field, array in zip(schema, batch.columns, strict=True):
        try:
            arrays.append(array.cast(field.type))
        except pa.ArrowInvalid as error:
            raise UnsupportedError(
                f"cannot convert {array.type} to Spark's {field.type}: {error}", column=field.name
            ) from error
    if not arrays:
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def from_spark(struct: StructType) -> pa.Schema:
    """Convert a Spark schema to the Arrow schema of a file."""
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
        return pa.time32("ms")  # casting raises if a value needs more precision
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
            f"type {_shown(type)} is not supported; {_advice(type)}", column=column
        )
    return arrow


def _shown(type: DataType) -> str:
    text = type.simpleString()
    return text if len(text) <= 100 else f"{text[:100]}..."


def _advice(type: DataType) -> str:
    match type.typeName():
        case "struct":
            return "use select('a.*') to turn each field into a column"
        case "map":
            return "keys of maps cannot be lists or maps"
        case "variant":
            return "convert it to a string with to_json"
        case _:
            return "cast the column to a supported type"
