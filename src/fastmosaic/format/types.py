"""Arrow types, their type descriptors in the schema block, and how single values are encoded.

A descriptor is `u8 type id`, `u8 nullable`, then the parameters of the type:

    CHAR VARCHAR BINARY VARBINARY   uv length
    DECIMAL                         uv precision, uv scale (a signed byte, extended to 32 bits)
    TIME TIMESTAMP                  uv precision
    TIMESTAMP_LTZ                   uv precision, str time zone
    ARRAY ARRAY_BLOCK               str element name, element descriptor
    MAP                             str entries name, str key name, key descriptor,
                                    str value name, value descriptor
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import CorruptFileError, UnsupportedError
from .wire import MAX_VARINT, Cursor, put_bytes, put_varint

# Deeper than any real table, and within the recursion limits of Python and Arrow.
MAX_DEPTH: Final = 64


class TypeId(IntEnum):
    BOOLEAN = 0
    TINYINT = 1
    SMALLINT = 2
    INTEGER = 3
    BIGINT = 4
    FLOAT = 5
    DOUBLE = 6
    DATE = 7
    CHAR = 8
    VARCHAR = 9
    STRING = 10
    BINARY = 11
    VARBINARY = 12
    BYTES = 13
    DECIMAL = 14
    TIME = 15
    TIMESTAMP = 16
    TIMESTAMP_LTZ = 17
    ARRAY = 18
    MAP = 19
    ARRAY_BLOCK = 0xE0  # an ARRAY of scalars, stored as one array data block


# A type of a later version of the format, named in errors only.
STRUCT: Final = 20


class Kind(IntEnum):
    """How one value is stored: first in a file (numbers are big-endian), then in Arrow's buffers."""

    BOOL = 0  # one byte; one bit
    INT8 = 1
    INT16 = 2
    INT32 = 3  # also FLOAT and DATE, as their bits
    TIME = 4  # int32, a time of day in milliseconds
    INT64 = 5  # also DOUBLE, and timestamps up to microseconds
    TIMESTAMP_NS = 6  # int64 ms, int32 ns within the ms; int64 ns
    DECIMAL64 = 7  # int64; 16 bytes, little-endian
    DECIMAL128 = 8  # uv length, that many bytes; 16 bytes, little-endian
    BINARY = 9  # uv length, that many bytes; 32-bit offsets and bytes
    STRING = 10  # like BINARY, but UTF-8
    NESTED = 11  # ARRAY and MAP: several flat columns, see nested.py
    ARRAY_BLOCK = 12  # all rows in one array data block, see list_blocks.py


# Bytes of one value in a file; 0 if the value has its own length in front.
WIDTH: Final = (1, 1, 2, 4, 4, 8, 12, 8, 0, 0, 0)

# Bytes of one value in Arrow's buffers: 0 for a boolean, which is a bit, and only the offset for
# what varies in size.
ARROW_WIDTH: Final = (0, 1, 2, 4, 4, 8, 8, 16, 16, 4, 4, 4, 4)

_KIND_OF: Final = {
    TypeId.BOOLEAN: Kind.BOOL,
    TypeId.TINYINT: Kind.INT8,
    TypeId.SMALLINT: Kind.INT16,
    TypeId.INTEGER: Kind.INT32,
    TypeId.BIGINT: Kind.INT64,
    TypeId.FLOAT: Kind.INT32,
    TypeId.DOUBLE: Kind.INT64,
    TypeId.DATE: Kind.INT32,
    TypeId.CHAR: Kind.STRING,
    TypeId.VARCHAR: Kind.STRING,
    TypeId.STRING: Kind.STRING,
    TypeId.BINARY: Kind.BINARY,
    TypeId.VARBINARY: Kind.BINARY,
    TypeId.BYTES: Kind.BINARY,
    TypeId.DECIMAL: Kind.DECIMAL64,  # up to 18 digits
    TypeId.TIME: Kind.TIME,
    TypeId.TIMESTAMP: Kind.INT64,  # up to microseconds
    TypeId.TIMESTAMP_LTZ: Kind.INT64,
    TypeId.ARRAY: Kind.NESTED,
    TypeId.MAP: Kind.NESTED,
    TypeId.ARRAY_BLOCK: Kind.ARRAY_BLOCK,
}
# The same by type id, for the kernel; 0xFF for unknown types.
KIND_OF_TYPE: Final = bytes(_KIND_OF.get(number, 0xFF) for number in range(256))  # type: ignore[call-overload]

_SIMPLE: Final = {
    TypeId.BOOLEAN: pa.bool_(),
    TypeId.TINYINT: pa.int8(),
    TypeId.SMALLINT: pa.int16(),
    TypeId.INTEGER: pa.int32(),
    TypeId.BIGINT: pa.int64(),
    TypeId.FLOAT: pa.float32(),
    TypeId.DOUBLE: pa.float64(),
    TypeId.DATE: pa.date32(),
    TypeId.STRING: pa.string(),
    TypeId.BYTES: pa.binary(),
}
_ID_OF: Final = {arrow.id: type_id for type_id, arrow in _SIMPLE.items()}  # by Arrow's own id

_TIMESTAMP_PRECISION: Final = {"ms": 3, "us": 6, "ns": 9}


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column, or of the elements, keys or values inside a column."""

    arrow: pa.DataType
    nullable: bool
    kind: Kind
    children: tuple[ColumnType, ...]  # (element,) of ARRAY and ARRAY_BLOCK, (key, value) of MAP
    descriptor: bytes

    @classmethod
    def from_arrow(cls, field: pa.Field, array_blocks: bool = False) -> ColumnType:
        """Return the type of `field`, whose Arrow type must be a stored one (see `stored_type`).

        With `array_blocks`, lists of scalars become ARRAY_BLOCK.
        """
        arrow, nullable = field.type, field.nullable
        simple = _SIMPLE_TYPES.get((arrow.id, nullable))
        if simple is not None:
            return simple
        out = bytearray()
        _put_descriptor(out, arrow, nullable)
        column_type = _decode(bytes(out))
        if array_blocks and _is_of_scalars(column_type):
            out[0] = TypeId.ARRAY_BLOCK
            column_type = _decode(bytes(out))
        return column_type

    @classmethod
    def decode(cls, descriptor: bytes) -> ColumnType:
        return _decode(descriptor)

    @property
    def has_statistics(self) -> bool:
        """Whether the format stores minimum and maximum of such a column."""
        return self.has_bounds and self.kind != Kind.DECIMAL128

    @property
    def has_bounds(self) -> bool:
        """Whether a minimum and a maximum can be read.

        The reference implementation reads those of large decimals, but never writes them.
        """
        return self.kind not in (Kind.BINARY, Kind.NESTED, Kind.ARRAY_BLOCK)


def _is_of_scalars(column_type: ColumnType) -> bool:
    """Return whether it is an ARRAY whose elements are neither lists nor maps."""
    return arrow_types.is_list(column_type.arrow) and not column_type.children[0].children


def _put_descriptor(out: bytearray, arrow: pa.DataType, nullable: bool) -> None:
    def put(type_id: TypeId) -> None:
        out.append(type_id)
        out.append(nullable)

    if arrow.id in _ID_OF:
        put(_ID_OF[arrow.id])
    elif arrow_types.is_decimal128(arrow):
        put(TypeId.DECIMAL)
        put_varint(out, arrow.precision)
        put_varint(out, arrow.scale & MAX_VARINT)
    elif arrow == pa.time32("ms"):
        put(TypeId.TIME)
        put_varint(out, 3)
    elif arrow_types.is_timestamp(arrow) and arrow.unit in _TIMESTAMP_PRECISION:
        put(TypeId.TIMESTAMP if arrow.tz is None else TypeId.TIMESTAMP_LTZ)
        put_varint(out, _TIMESTAMP_PRECISION[arrow.unit])
        if arrow.tz is not None:
            put_bytes(out, arrow.tz.encode())
    elif arrow_types.is_list(arrow):
        put(TypeId.ARRAY)
        put_bytes(out, arrow.value_field.name.encode())
        _put_descriptor(out, arrow.value_type, arrow.value_field.nullable)
    elif arrow_types.is_map(arrow):
        put(TypeId.MAP)
        put_bytes(out, arrow.field(0).name.encode())
        put_bytes(out, arrow.key_field.name.encode())
        _put_descriptor(out, arrow.key_type, arrow.key_field.nullable)
        put_bytes(out, arrow.item_field.name.encode())
        _put_descriptor(out, arrow.item_type, arrow.item_field.nullable)
    else:
        raise UnsupportedError(f"the format has no type for {arrow}")


@lru_cache(maxsize=4096)
def _decode(descriptor: bytes) -> ColumnType:
    cursor = Cursor(descriptor)
    column_type = _take_descriptor(cursor, descriptor, 0)
    if cursor.remaining:
        raise CorruptFileError(f"{cursor.remaining} bytes follow a type descriptor")
    return column_type


def _take_descriptor(cursor: Cursor, whole: bytes, depth: int) -> ColumnType:
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"a type is nested more than {MAX_DEPTH} deep")
    start = cursor.pos
    number, nullable = cursor.take(2)
    try:
        type_id = TypeId(number)
    except ValueError:
        fact = f"unknown type {number}"
        if number == STRUCT:
            fact = f"type {number} is STRUCT, of a later Mosaic version,"
        raise UnsupportedError(f"{fact} at offset {start}") from None
    children: tuple[ColumnType, ...] = ()
    kind = _KIND_OF[type_id]

    match type_id:
        case TypeId.CHAR | TypeId.VARCHAR:
            cursor.varint()
            arrow = pa.string()
        case TypeId.BINARY | TypeId.VARBINARY:
            cursor.varint()
            arrow = pa.binary()
        case TypeId.DECIMAL:
            precision, scale = cursor.varint() & 0xFF, cursor.varint() & 0xFF
            if not 1 <= precision <= 38:
                raise CorruptFileError(f"decimal precision {precision} is not in 1..38")
            arrow = pa.decimal128(precision, scale - 256 if scale > 127 else scale)
            if precision > 18:
                kind = Kind.DECIMAL128
        case TypeId.TIME:
            cursor.varint()
            arrow = pa.time32("ms")
        case TypeId.TIMESTAMP | TypeId.TIMESTAMP_LTZ:
            precision = cursor.varint()
            zone = cursor.text() if type_id == TypeId.TIMESTAMP_LTZ else None
            unit = "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
            arrow = pa.timestamp(unit, zone)
            if precision > 6:
                kind = Kind.TIMESTAMP_NS
        case TypeId.ARRAY | TypeId.ARRAY_BLOCK:
            name = cursor.text()
            element = _take_descriptor(cursor, whole, depth + 1)
            if type_id == TypeId.ARRAY_BLOCK and element.children:
                raise CorruptFileError(
                    f"the array data block at offset {start} contains lists or maps"
                )
            if type_id == TypeId.ARRAY_BLOCK and depth:
                raise UnsupportedError(
                    f"the array data block at offset {start} is inside another type"
                )
            arrow = pa.list_(pa.field(name, element.arrow, element.nullable))
            children = (element,)
        case TypeId.MAP:
            cursor.text()  # the name of the entries, which Arrow cannot represent
            key_name = cursor.text()
            key = _take_descriptor(cursor, whole, depth + 1)
            value_name = cursor.text()
            value = _take_descriptor(cursor, whole, depth + 1)
            if key.kind == Kind.NESTED:
                raise CorruptFileError(f"the key of the map at offset {start} is a list or map")
            arrow = pa.map_(
                pa.field(key_name, key.arrow, nullable=False),
                pa.field(value_name, value.arrow, value.nullable),
            )
            children = (key, value)
        case _:
            arrow = _SIMPLE[type_id]
    return ColumnType(arrow, bool(nullable), kind, children, whole[start : cursor.pos])


# The types without parameters, which most of ten thousand columns have.
_SIMPLE_TYPES: Final = {
    (arrow.id, nullable): _decode(bytes([type_id, nullable]))
    for type_id, arrow in _SIMPLE.items()
    for nullable in (False, True)
}


def is_simple(arrow: pa.DataType) -> bool:
    """Return whether the format stores exactly this type, and it has no parameters."""
    return arrow.id in _ID_OF


def plain_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type in which values of `arrow` are read, filtered and united.

    It represents every value of `arrow`, but not how Arrow holds it in memory: whether values are in
    a dictionary, in views, or in large or small offsets. Raise `UnsupportedError` if there is none.

    >>> plain_type(pa.dictionary(pa.int8(), pa.large_string()))
    DataType(string)
    """
    return _plain(arrow, 0)


def _plain(arrow: pa.DataType, depth: int) -> pa.DataType:
    if is_simple(arrow):
        return arrow
    if depth > MAX_DEPTH:
        raise UnsupportedError(f"a type is nested more than {MAX_DEPTH} deep")
    if isinstance(arrow, pa.BaseExtensionType):
        return _plain(arrow.storage_type, depth + 1)
    if arrow_types.is_dictionary(arrow) or arrow_types.is_run_end_encoded(arrow):
        return _plain(arrow.value_type, depth + 1)
    if arrow_types.is_struct(arrow):
        return pa.struct([_plain_field(field, depth) for field in arrow])
    if arrow_types.is_map(arrow):
        key, item = arrow.key_field, arrow.item_field
        return pa.map_(_plain_field(key, depth), _plain_field(item, depth))
    if is_list(arrow):
        return pa.list_(_plain_field(arrow.value_field, depth))
    for matches, plain in _PLAIN:
        if matches(arrow):
            return plain(arrow)
    if arrow_types.is_union(arrow):
        raise UnsupportedError(
            f"the format has no type for {arrow}; make each member a separate column"
        )
    return arrow


def _plain_field(field: pa.Field, depth: int) -> pa.Field:
    return field.with_type(_plain(field.type, depth + 1)).remove_metadata()


def stored_type(plain: pa.DataType) -> pa.DataType:
    """Return the type that a column of a plain type without structs has in a file.

    >>> stored_type(pa.list_(pa.duration("us")))
    ListType(list<item: int64>)
    """
    if is_simple(plain):
        return plain
    if arrow_types.is_map(plain):
        return pa.map_(_stored_field(plain.key_field), _stored_field(plain.item_field))
    if arrow_types.is_list(plain):
        return pa.list_(_stored_field(plain.value_field))
    if arrow_types.is_duration(plain) or arrow_types.is_time64(plain):
        return pa.int64()
    if arrow_types.is_uint64(plain):
        return UINT64
    if is_raw(plain):
        return pa.binary()
    try:
        _put_descriptor(bytearray(), plain, True)
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; cast the column to a supported type") from None
    return plain


def _stored_field(field: pa.Field) -> pa.Field:
    return field.with_type(stored_type(field.type))


# How unsigned integers of 64 bits are stored: every reader shows the right values and statistics.
UINT64: Final = pa.decimal128(20, 0)


def is_raw(plain: pa.DataType) -> bool:
    """Return whether values are stored as the bytes that Arrow has in memory, little-endian."""
    return arrow_types.is_interval(plain) or (
        arrow_types.is_decimal(plain) and not _is_stored_decimal(plain)
    )


def is_narrow(arrow: pa.DataType) -> bool:
    """Return whether the plain type of `arrow` has values that `arrow` does not have."""
    if is_simple(arrow):
        return False
    if isinstance(arrow, pa.BaseExtensionType):
        return is_narrow(arrow.storage_type)
    if arrow_types.is_dictionary(arrow) or arrow_types.is_run_end_encoded(arrow):
        return is_narrow(arrow.value_type)
    if arrow_types.is_nested(arrow):
        inner = (arrow.field(number).type for number in range(arrow.num_fields))
        return arrow_types.is_fixed_size_list(arrow) or any(map(is_narrow, inner))
    return any(matches(arrow) for matches in _NARROW)


def needs_annex(arrow: pa.DataType) -> str | None:
    """Return a type in `arrow` that cannot be read back without the annex, and what to do.

    The types that are missing here are stored as others that hold the same values.
    """
    for matches, advice in _NEED_ANNEX:
        if matches(arrow):
            return f"{arrow}; {advice}"
    inner: list[pa.DataType] = []
    if isinstance(arrow, pa.BaseExtensionType):
        inner = [arrow.storage_type]
    elif arrow_types.is_dictionary(arrow):
        inner = [arrow.value_type]
    elif arrow_types.is_map(arrow):
        if arrow_types.is_nested(plain_type(arrow.key_type)):
            return f"{arrow}; the keys of a map must not be lists or maps"
        inner = [arrow.key_type, arrow.item_type]
    elif is_list(arrow):
        inner = [arrow.value_type]
    return next((found for one in inner if (found := needs_annex(one))), None)


def _plain_decimal(arrow: pa.DataType) -> pa.DataType:
    return pa.decimal128(arrow.precision, arrow.scale) if _is_stored_decimal(arrow) else arrow


def _is_stored_decimal(arrow: pa.DataType) -> bool:
    """Return whether the format has a type for a decimal."""
    return bool(arrow.precision <= 38 and -128 <= arrow.scale <= arrow.precision)


def is_view(arrow: pa.DataType) -> bool:
    """Return whether it is a list view."""
    return arrow_types.is_list_view(arrow) or arrow_types.is_large_list_view(arrow)


def is_list(arrow: pa.DataType) -> bool:
    """Return whether it is a list of any kind."""
    return (
        arrow_types.is_list(arrow)
        or arrow_types.is_large_list(arrow)
        or arrow_types.is_fixed_size_list(arrow)
        or is_view(arrow)
    )


def _is_text(arrow: pa.DataType) -> bool:
    return arrow_types.is_large_string(arrow) or arrow_types.is_string_view(arrow)


def _is_bytes(arrow: pa.DataType) -> bool:
    return (
        arrow_types.is_large_binary(arrow)
        or arrow_types.is_binary_view(arrow)
        or arrow_types.is_fixed_size_binary(arrow)
    )


_Test = Callable[[pa.DataType], bool]
_PLAIN: Final[list[tuple[_Test, Callable[[pa.DataType], pa.DataType]]]] = [
    (_is_text, lambda arrow: pa.string()),
    # Arrow considers a decimal to be a fixed_size_binary, so decimals come first.
    (arrow_types.is_decimal, _plain_decimal),
    (_is_bytes, lambda arrow: pa.binary()),
    # A column without values has no type; most of them turn out to be text later.
    (arrow_types.is_null, lambda arrow: pa.string()),
    (arrow_types.is_uint8, lambda arrow: pa.int16()),
    (arrow_types.is_uint16, lambda arrow: pa.int32()),
    (arrow_types.is_uint32, lambda arrow: pa.int64()),
    (arrow_types.is_float16, lambda arrow: pa.float32()),  # Arrow cannot compare float16
    (arrow_types.is_date64, lambda arrow: pa.date32()),
    (lambda arrow: arrow == pa.time32("s"), lambda arrow: pa.time32("ms")),
    (
        lambda arrow: arrow_types.is_timestamp(arrow) and arrow.unit == "s",
        lambda arrow: pa.timestamp("ms", arrow.tz),
    ),
]

_NARROW: Final[list[_Test]] = [
    arrow_types.is_null,
    arrow_types.is_unsigned_integer,
    arrow_types.is_float16,
    lambda arrow: arrow_types.is_fixed_size_binary(arrow) and not arrow_types.is_decimal(arrow),
    lambda arrow: getattr(arrow, "unit", None) == "s" and not arrow_types.is_duration(arrow),
]

_NEED_ANNEX: Final[list[tuple[_Test, str]]] = [
    (arrow_types.is_uint64, "cast it to int64, or to decimal128(20, 0) for larger values"),
    (arrow_types.is_struct, "make each field a separate column, for example with Table.flatten"),
    (arrow_types.is_float16, "cast it to float32"),
    (arrow_types.is_time64, "cast it to time32('ms') if milliseconds are sufficient, or to int64"),
    (arrow_types.is_duration, "cast it to int64"),
    (arrow_types.is_interval, "cast it to int64, or make each part a separate column"),
    (arrow_types.is_run_end_encoded, "decode it first with pyarrow.compute.run_end_decode"),
    (
        lambda arrow: arrow_types.is_decimal(arrow) and not _is_stored_decimal(arrow),
        "decimals can have at most 38 digits, and a scale from -128 to their number of digits",
    ),
]


def decode_value(column_type: ColumnType, data: bytes) -> pa.Scalar:
    """Decode a value of a type that has bounds; strings and large decimals come without length."""
    kind = column_type.kind
    if kind == Kind.BOOL:
        return pa.scalar(data != b"\0")
    if kind == Kind.STRING:
        try:
            return pa.scalar(data.decode())
        except UnicodeDecodeError as error:
            raise CorruptFileError("a string in the statistics is not UTF-8") from error
    if kind == Kind.TIMESTAMP_NS:
        nanos = int.from_bytes(data[8:], "big", signed=True)
        if not 0 <= nanos < 1_000_000:
            raise CorruptFileError(
                f"a timestamp in the statistics has {nanos} nanoseconds within a millisecond"
            )
        number = int.from_bytes(data[:8], "big", signed=True) * 1_000_000 + nanos
        if not -(2**63) <= number < 2**63:
            raise CorruptFileError("a timestamp in the statistics exceeds 64 bits of nanoseconds")
    else:
        number = int.from_bytes(data[: ARROW_WIDTH[kind]], "big", signed=True)
    raw = number.to_bytes(ARROW_WIDTH[kind], "little", signed=True)
    return pa.Array.from_buffers(column_type.arrow, 1, [None, pa.py_buffer(raw)])[0]
