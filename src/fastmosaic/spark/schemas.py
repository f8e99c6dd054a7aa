"""Convert between Arrow schemas and Spark schemas.

A type that Spark lacks becomes the type that Spark chooses when it reads it from Parquet: unsigned
integers become wider signed ones, uint64 becomes decimal(20, 0), and a duration becomes a bigint that
counts its units. Where Spark cannot read a type from Parquet, it becomes one with the same values:
float16 is a float, and a time of day in milliseconds is a time(3).

Intervals of days and seconds are stored as durations. Metadata of their fields tells them apart from
other durations, so that they are intervals again when they are read.

`arrow_for_spark` returns the Arrow schema of the batches that Spark accepts. Timestamps have
microseconds there and, if they have a time zone, UTC; times of day have nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types

from ..errors import UnsupportedError
from ..format.plain_arrays import to_plain
from ..format.types import UINT64, is_list, is_simple, plain_type
from .versions import installed, time_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

__all__ = [
    "arrow_for_spark",
    "cast_for_spark",
    "cast_from_spark",
    "column_with_time",
    "from_spark",
    "to_spark",
    "with_fields_of",
]

TIMESTAMP: Final = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ: Final = pa.timestamp("us")
INTERVAL: Final = pa.duration("us")
TIME: Final = pa.time64("ns")
MAX_DECIMAL_DIGITS: Final = 38

# Metadata of fields that are intervals in Spark.
_IS_INTERVAL: Final = {b"SPARK:type": b"interval day to second"}
# Digits of a second in Spark's times of day, and the Arrow types that store them.
_TIME_TYPES: Final = {3: pa.time32("ms"), 6: pa.time64("us"), 9: pa.time64("ns")}
_TIME_DIGITS: Final = {type: digits for digits, type in _TIME_TYPES.items()}


# ---- from Arrow to Spark


def to_spark(schema: pa.Schema) -> StructType:
    """Convert the Arrow schema of a file to a Spark schema."""
    from pyspark.sql.types import StructField, StructType

    made: dict[pa.DataType, DataType] = {}
    fields = []
    for field in _spark_schema(schema):
        type = made.get(field.type)
        if type is None:
            type = made[field.type] = _spark_type(field.type)
        fields.append(StructField(field.name, type, field.nullable))
    return StructType(fields)


def arrow_for_spark(schema: pa.Schema) -> pa.Schema:
    """Return `schema` with the Arrow types in which Spark accepts its columns."""
    return _spark_schema(schema, _exchanged)


def column_with_time(schema: pa.Schema) -> str | None:
    """Return the name of a column that contains a time of day, or None."""
    for index, type in enumerate(schema.types):
        if not is_simple(type) and _contains_time(plain_type(type)):
            return str(schema.field(index).name)
    return None


def with_fields_of(schema: pa.Schema, struct: dict[str, Any]) -> pa.Schema:
    """Return `schema` with only the columns, and fields of structs, of a part of its Spark schema.

    `struct` is the JSON form of a StructType.
    """
    return pa.schema(_parts(schema, struct))


def _parts(fields: pa.Schema | pa.StructType, struct: dict[str, Any]) -> list[pa.Field]:
    wanted = ((fields.field(one["name"]), one["type"]) for one in struct["fields"])
    return [_part(field, type) for field, type in wanted]


def _part(field: pa.Field, type: Any) -> pa.Field:
    """Return a field with only the fields of the JSON form of a type."""
    arrow = field.type
    if types.is_struct(arrow):
        return field.with_type(pa.struct(_parts(arrow, type)))
    if types.is_map(arrow):
        key, item = (
            _part(arrow.key_field, type["keyType"]),
            _part(arrow.item_field, type["valueType"]),
        )
        return field.with_type(pa.map_(key, item))
    if types.is_list(arrow):
        return field.with_type(pa.list_(_part(arrow.value_field, type["elementType"])))
    return field


def cast_for_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to `schema`, the result of `arrow_for_spark` for the schema of the batch."""
    if batch.schema.equals(schema) or not batch.num_columns:
        return batch
    return _cast(batch, schema, "convert {} to Spark's {}")


def _spark_schema(
    schema: pa.Schema, finish: Callable[[pa.DataType], pa.DataType] | None = None
) -> pa.Schema:
    """Return `schema` with an Arrow type for each of Spark's types, after `finish`.

    These are the types of `arrow_for_spark`, except that times of day have the unit of the file.
    """
    made: dict[pa.DataType, pa.DataType] = {}  # of types whose metadata does not matter
    fields = []
    for field in schema:
        given = field.type
        type = given if is_simple(given) else made.get(given)
        if type is None:
            try:
                type = _known(field)
            except UnsupportedError as error:
                error.locate(column=field.name)
                raise
            type = type if finish is None else finish(type)
            if not (types.is_nested(given) or types.is_duration(given)):
                made[given] = type
        fields.append(pa.field(field.name, type, field.nullable))
    return pa.schema(fields)


def _known(field: pa.Field) -> pa.DataType:
    """Return the type of Spark that a field has, as an Arrow type."""
    arrow = field.type
    if isinstance(arrow, pa.BaseExtensionType):
        return _known(field.with_type(arrow.storage_type))
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return _known(field.with_type(arrow.value_type))
    if types.is_struct(arrow):
        return pa.struct([_inside(child.name, child) for child in arrow])
    if types.is_map(arrow):
        return pa.map_(_inside("key", arrow.key_field), _inside("value", arrow.item_field))
    if is_list(arrow):
        return pa.list_(_inside("element", arrow.value_field))
    return _known_scalar(plain_type(arrow), is_interval=_is_interval(field))


def _known_scalar(arrow: pa.DataType, *, is_interval: bool) -> pa.DataType:
    if types.is_timestamp(arrow):
        return TIMESTAMP_NTZ if arrow.tz is None else TIMESTAMP
    if types.is_duration(arrow):
        return INTERVAL if is_interval else pa.int64()
    if types.is_uint64(arrow):
        return UINT64
    if types.is_time(arrow) and time_type() is None:
        raise UnsupportedError(f"Spark {installed()} does not support {arrow}; Spark 4.1 does")
    if types.is_interval(arrow):
        raise UnsupportedError(f"Spark does not support {arrow}")
    if types.is_decimal(arrow) and arrow.scale < 0:
        raise UnsupportedError(f"Spark does not support {arrow}: its scale is negative")
    if types.is_decimal(arrow) and arrow.precision > MAX_DECIMAL_DIGITS:
        raise UnsupportedError(
            f"Spark does not support {arrow}: it has more than {MAX_DECIMAL_DIGITS} digits"
        )
    return arrow


def _is_interval(field: pa.Field) -> bool:
    given = field.metadata or {}
    return all(given.get(key) == value for key, value in _IS_INTERVAL.items())


def _inside(name: str, field: pa.Field) -> pa.Field:
    return pa.field(name, _known(field), field.nullable)


def _exchanged(arrow: pa.DataType) -> pa.DataType:
    """Return the type of values that are sent to Spark."""
    if types.is_time(arrow):
        return TIME
    if not (types.is_nested(arrow) and _contains_time(arrow)):
        return arrow
    if types.is_struct(arrow):
        return pa.struct([_with_exchanged(child) for child in arrow])
    if types.is_map(arrow):
        return pa.map_(_with_exchanged(arrow.key_field), _with_exchanged(arrow.item_field))
    return pa.list_(_with_exchanged(arrow.value_field))


def _with_exchanged(field: pa.Field) -> pa.Field:
    return field.with_type(_exchanged(field.type))


def _contains_time(arrow: pa.DataType) -> bool:
    if types.is_map(arrow):
        return _contains_time(arrow.key_type) or _contains_time(arrow.item_type)
    if types.is_nested(arrow):
        return any(_contains_time(arrow.field(i).type) for i in range(arrow.num_fields))
    return bool(types.is_time(arrow))


def _spark_type(arrow: pa.DataType) -> DataType:
    """Convert a type of `_spark_schema`."""
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
        INTERVAL: spark.DayTimeIntervalType,
        TIMESTAMP: spark.TimestampType,
        TIMESTAMP_NTZ: spark.TimestampNTZType,
    }
    if arrow in simple:
        return simple[arrow]()
    if types.is_time(arrow):
        time = time_type()
        assert time is not None  # `_known_scalar` has checked it
        return time(_TIME_DIGITS[arrow])
    if types.is_decimal(arrow):
        return spark.DecimalType(arrow.precision, arrow.scale)
    if types.is_struct(arrow):
        return spark.StructType(
            [
                spark.StructField(child.name, _spark_type(child.type), child.nullable)
                for child in arrow
            ]
        )
    if types.is_list(arrow):
        return spark.ArrayType(_spark_type(arrow.value_type), arrow.value_field.nullable)
    return spark.MapType(
        _spark_type(arrow.key_type), _spark_type(arrow.item_type), arrow.item_field.nullable
    )


# ---- from Spark to Arrow


def from_spark(struct: StructType) -> pa.Schema:
    """Convert a Spark schema to the Arrow schema of a file."""
    return pa.schema(
        [_field(field.name, field.dataType, field.nullable, field.name) for field in struct]
    )


def _field(name: str, type: DataType, nullable: bool, column: str) -> pa.Field:
    from pyspark.sql.types import DayTimeIntervalType

    metadata = _IS_INTERVAL if isinstance(type, DayTimeIntervalType) else None
    return pa.field(name, _from_spark(type, column), nullable, metadata)


def _from_spark(type: DataType, column: str) -> pa.DataType:
    """Convert a type, which may be inside the type of a column."""
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
    time = time_type()
    if time is not None and isinstance(type, time):
        return next(arrow for digits, arrow in _TIME_TYPES.items() if type.precision <= digits)
    if isinstance(type, spark.DayTimeIntervalType):
        return INTERVAL
    if isinstance(type, spark.StructType):
        return pa.struct(
            [_field(field.name, field.dataType, field.nullable, column) for field in type]
        )
    if isinstance(type, spark.ArrayType):
        return pa.list_(_field("element", type.elementType, type.containsNull, column))
    if isinstance(type, spark.MapType):
        key = _field("key", type.keyType, False, column)
        return pa.map_(key, _field("value", type.valueType, type.valueContainsNull, column))
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
        case "yearmonthinterval":
            return "convert it to a number of months"
        case "variant":
            return "convert it to a string with to_json"
        case _:
            return "cast the column to a supported type"


def cast_from_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch of Spark to `schema`, whose types are plain: Spark has other time zones."""
    return _cast(batch, schema, "store {} as {}")


def _cast(batch: pa.RecordBatch, schema: pa.Schema, failing: str) -> pa.RecordBatch:
    """Cast each column of a batch; `failing` says what cannot be done with two types."""
    arrays = []
    for field, array in zip(schema, batch.columns, strict=True):
        try:
            arrays.append(to_plain(array, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            what = failing.format(array.type, field.type)
            raise UnsupportedError(f"cannot {what}: {error}", column=field.name) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
