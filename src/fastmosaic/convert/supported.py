"""Which types a format supports, and the types that replace others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyarrow import types

from ..errors import UnsupportedError
from ..format.paths import Path
from ..format.types import UINT64, plain_type
from ..query.literals import shown_type
from .leaves import changed

# Types that a format lacks, or that are not read back from it as they were.
_Test = Callable[[pa.DataType], bool]
_BYTES: Final = (
    types.is_binary,
    types.is_large_binary,
    types.is_fixed_size_binary,
    types.is_binary_view,
)


def _is_extension(type: pa.DataType) -> bool:
    return isinstance(type, pa.BaseExtensionType)


def _is_empty(type: pa.DataType) -> bool:
    return bool(types.is_struct(type) and not len(type))


def _is_odd_dictionary(type: pa.DataType) -> bool:
    """Return whether it is a dictionary of other values than text and bytes."""
    simple = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return bool(
        types.is_dictionary(type) and not any(is_kind(type.value_type) for is_kind in simple)
    )


def _is_odd_decimal(type: pa.DataType) -> bool:
    return bool(types.is_decimal(type) and not 0 <= type.scale <= type.precision)


_LACKING: Final[dict[str, tuple[_Test, ...]]] = {
    "parquet": (
        types.is_interval,
        types.is_run_end_encoded,
        _is_empty,
        _is_odd_dictionary,
        _is_odd_decimal,
    ),
    "orc": (
        types.is_unsigned_integer,
        types.is_float16,
        types.is_time,
        types.is_duration,
        types.is_interval,
        types.is_decimal32,
        types.is_decimal64,
        types.is_decimal256,
        _is_odd_decimal,
        types.is_dictionary,
        types.is_string_view,
        types.is_binary_view,
        types.is_list_view,
        types.is_large_list_view,
        types.is_null,
        types.is_run_end_encoded,
        _is_extension,
    ),
    "csv": (
        *_BYTES,
        types.is_nested,
        types.is_string_view,
        types.is_interval,
        types.is_run_end_encoded,
        _is_extension,
    ),
    "json": (*_BYTES, types.is_interval),
}
# What to do about a type that a format lacks, and that no other type of it can hold.
_ADVICE: Final[tuple[tuple[_Test, str], ...]] = (
    (types.is_duration, "cast it to int64"),
    (types.is_time32, "cast it to int32"),
    (types.is_time64, "cast it to int64"),
    (types.is_nested, "JSON lines support it"),
)


def schema_for(format: str, schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file for `schema`: types that the format lacks become wider ones."""
    if format == "mosaic" or not any(_lacking(format, field.type) for field in schema):
        return schema
    fields = [field.with_type(_wider(format, field.type)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _wider(format: str, type: pa.DataType) -> pa.DataType:
    """Return a type of the format that holds the values of a type, or the type if there is none."""
    if not _lacking(format, type):
        return type
    try:
        plain = plain_type(type)
    except UnsupportedError:
        return type

    def wider(_: Path, inner: pa.DataType) -> pa.DataType:
        if types.is_uint64(inner) and _lacking(format, inner):
            return UINT64
        return _usual_decimal(inner) if _is_odd_decimal(inner) else inner

    made = changed(plain, wider)
    # What is missing inside is better told without types that could be replaced.
    return made if types.is_nested(made) or not _lacking(format, made) else type


def _usual_decimal(type: pa.DataType) -> pa.DataType:
    """Return a decimal type for the same values whose scale is from 0 to its precision."""
    scale = max(0, type.scale)
    digits = max(type.precision - type.scale, 0) + scale
    if digits > 76:
        return type
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def _lacking(format: str, type: pa.DataType, path: str = "") -> tuple[str, pa.DataType] | None:
    """Return the first type in `type` that a format lacks, and its path, or None."""
    if any(is_kind(type) for is_kind in _LACKING.get(format, ())):
        return path, type
    if types.is_dictionary(type) or types.is_run_end_encoded(type):
        return _lacking(format, type.value_type, path)
    if isinstance(type, pa.BaseExtensionType):
        is_text = isinstance(type, pa.UuidType) and format == "json"
        return None if is_text else _lacking(format, type.storage_type, path)
    for index in range(type.num_fields):
        field = type.field(index)
        inner = f"{path}.{field.name}" if types.is_struct(type) else path
        if found := _lacking(format, field.type, inner):
            return found
    return None


def refused(format: str, schema: pa.Schema) -> list[str]:
    """Return a text for each column that the format does not support."""
    found = []
    for field in schema:
        lacking = _lacking(format, field.type, field.name)
        if lacking is not None:
            path, type = lacking
            advice = next((f"; {text}" for is_kind, text in _ADVICE if is_kind(type)), "")
            found.append(f"column {path!r}: {format} does not support {shown_type(type)}{advice}")
    return found
