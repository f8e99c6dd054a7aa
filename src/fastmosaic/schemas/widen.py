"""Types that hold the values of two types, and schemas that hold those of many files.

A column may have different types in different files. `widened` is the one rule for the type that it
gets in their union:

- integers become the widest integer, floats the widest float;
- int8 and int16 with float32 become float32; every other integer with a float becomes float64;
- decimals get enough digits before and after the point, up to 38 digits;
- uint64 with a signed integer becomes a decimal;
- timestamps of one time zone, times and durations get the finest unit;
- elements of lists, keys and values of maps and fields of structs follow the same rules, and a struct
  gets the fields of both.

Every conversion is exact, except that float64 cannot represent all integers beyond 2^53. Reading
such an integer as float64 raises an error instead of rounding it. All other pairs of types conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
from pyarrow import types

from ..errors import SchemaMismatchError, UnsupportedError
from ..format.types import plain_type

ADVICE: Final = "pass schema= to choose another type"

_UNITS: Final = ("s", "ms", "us", "ns")
_MAX_DECIMAL_DIGITS: Final = 38


def widened(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type of the format that holds the values of both types, or None.

    >>> widened(pa.int16(), pa.int64())
    DataType(int64)
    >>> widened(pa.int64(), pa.float64())
    DataType(double)
    >>> widened(pa.int64(), pa.string()) is None
    True
    """
    if one == other:
        return one
    for is_kind in (types.is_signed_integer, types.is_floating):
        if is_kind(one) and is_kind(other):
            return max(one, other, key=lambda type: type.bit_width)
    for integer, floating in ((one, other), (other, one)):
        if types.is_signed_integer(integer) and types.is_floating(floating):
            return floating if integer.bit_width <= 16 else pa.float64()
    if types.is_decimal128(one) and types.is_decimal128(other):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pa.decimal128(digits, scale) if digits <= _MAX_DECIMAL_DIGITS else None
    if types.is_timestamp(one) and types.is_timestamp(other) and one.tz == other.tz:
        return max(one, other, key=lambda type: _UNITS.index(type.unit))
    for is_kind in (types.is_time, types.is_duration):
        if is_kind(one) and is_kind(other):
            return max(one, other, key=lambda type: _UNITS.index(type.unit))
    for unsigned, integer in ((one, other), (other, one)):
        if types.is_uint64(unsigned) and types.is_signed_integer(integer):
            return pa.decimal128(20, 0)
        if types.is_uint64(unsigned) and types.is_floating(integer):
            return pa.float64()
    if types.is_struct(one) and types.is_struct(other):
        return _widened_struct(one, other)
    if types.is_list(one) and types.is_list(other):
        item = _widened_field(one.value_field, other.value_field)
        return None if item is None else pa.list_(item)
    if types.is_map(one) and types.is_map(other):
        key = _widened_field(one.key_field, other.key_field)
        item = _widened_field(one.item_field, other.item_field)
        return None if key is None or item is None else pa.map_(key, item)
    return None


def _widened_struct(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return a struct with the fields of both; one that the other lacks is nullable."""
    fields: list[pa.Field] = []
    for field in one:
        index = other.get_field_index(field.name)
        both = field.with_nullable(True) if index < 0 else _widened_field(field, other.field(index))
        if both is None:
            return None
        fields.append(both)
    fields += [field.with_nullable(True) for field in other if one.get_field_index(field.name) < 0]
    return pa.struct(fields)


def _widened_field(one: pa.Field, other: pa.Field) -> pa.Field | None:
    type = widened(one.type, other.type)
    return None if type is None else pa.field(one.name, type, one.nullable or other.nullable)


def joined(
    name: str,
    one: tuple[pa.DataType, str],
    other: tuple[pa.DataType, str],
    advice: str = ADVICE,
) -> pa.DataType:
    """Return the common type of a column that two files have; each type comes with its file.

    Types that the format lacks, such as uint8, count as the types that store them. The types must
    differ. `SchemaMismatchError` names both files if there is no common type.
    """
    type = widened(one[0], other[0])
    if type is None:
        with suppress(UnsupportedError):
            type = widened(plain_type(one[0]), plain_type(other[0]))
    if type is None:
        raise SchemaMismatchError(
            f"column {name!r} is {one[0]} in {one[1]} and {other[0]} in {other[1]}, "
            f"and there is no common type{ending(advice)}"
        )
    return type


def ending(advice: str) -> str:
    """Return the end of an error message that says what to do."""
    return f"; {advice}" if advice else ""


def unite(schemas: Sequence[tuple[pa.Schema, str]], *, advice: str = ADVICE) -> pa.Schema:
    """Return a schema with the columns of all schemas, each of which comes with its file.

    A column that some files lack is nullable. A column of type null takes its type from the other
    files.
    """
    fields: dict[str, pa.Field] = {}
    files: dict[str, str] = {}
    counts: dict[str, int] = {}
    for schema, file in schemas:
        for field in schema:
            name = field.name
            counts[name] = counts.get(name, 0) + 1
            known = fields.get(name)
            if known is None or types.is_null(known.type):
                nullable = field.nullable or known is not None
                fields[name], files[name] = field.with_nullable(nullable), file
                continue
            if not types.is_null(field.type) and field.type != known.type:
                pair = (known.type, files[name]), (field.type, file)
                known = known.with_type(joined(name, *pair, advice))
            fields[name] = known.with_nullable(known.nullable or field.nullable)
    missing = {name for name, count in counts.items() if count < len(schemas)}
    return pa.schema(
        [field.with_nullable(True) if name in missing else field for name, field in fields.items()]
    )


def check_same(
    schemas: Sequence[tuple[pa.Schema, str]], *, exact: bool = False, advice: str = ""
) -> None:
    """Raise `SchemaMismatchError` unless all schemas have the same columns with the same types.

    Each schema comes with its file. With `exact`, the order of columns and nullability count, too.
    """
    first, first_file = schemas[0]
    for schema, file in schemas[1:]:
        difference = _difference(first, schema, first_file, file, exact)
        if difference is not None:
            raise SchemaMismatchError(f"{difference}{ending(advice)}")


def _difference(
    one: pa.Schema, other: pa.Schema, one_file: str, other_file: str, exact: bool
) -> str | None:
    if one.equals(other):
        return None
    for field in one:
        index = other.get_field_index(field.name)
        if index < 0:
            return f"{one_file} has a column {field.name!r}, {other_file} does not"
        here, there = (_described(each, exact) for each in (field, other.field(index)))
        if here != there:
            return f"column {field.name!r} is {here} in {one_file} and {there} in {other_file}"
    for name in other.names:
        if one.get_field_index(name) < 0:
            return f"{other_file} has a column {name!r}, {one_file} does not"
    if exact and one.names != other.names:
        return f"{one_file} and {other_file} have the same columns in a different order"
    return None


def _described(field: pa.Field, exact: bool) -> str:
    return f"{field.type}{' not null' if exact and not field.nullable else ''}"
