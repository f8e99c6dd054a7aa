"""Values of columns as JSON has them, and as texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import types

from .console import to_json


def plain(array: pa.Array) -> list[Any]:
    """Values as JSON has them; what it lacks is text.

    Times are as in ISO 8601, with zone in UTC; bytes are hexadecimal digits; a map is an object.
    """
    type = array.type
    if isinstance(type, pa.BaseExtensionType):
        return plain(array.storage)
    if types.is_dictionary(type):
        return plain(array.dictionary_decode())
    if types.is_map(type):
        return [None if pairs is None else _object(pairs) for pairs in _lists(array)]
    if types.is_struct(type):
        return _structs(array)
    if types.is_nested(type) and hasattr(type, "value_type"):
        return _lists(array)
    if types.is_floating(type):
        return _floats(array)
    if types.is_date(type) or types.is_time(type) or types.is_timestamp(type):
        return _iso(array)
    if types.is_decimal(type):
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    if types.is_duration(type):
        array = array.cast(pa.int64())  # Python's have no nanoseconds
    values = array.to_pylist()
    is_json = types.is_integer(type) or types.is_boolean(type) or types.is_string(type)
    return values if is_json else list(map(to_json, values))


def texts(array: pa.Array) -> list[str | None]:
    """Values as texts; lists and maps as JSON."""
    if types.is_string(array.type):
        return array.to_pylist()
    if types.is_integer(array.type) or types.is_boolean(array.type):
        return array.cast(pa.string()).to_pylist()
    return [_text(value) for value in plain(array)]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _floats(array: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    if types.is_float32(array.type):
        # The shortest text that stands for the number; as float64 it would be a longer one.
        values = [text and float(text) for text in array.cast(pa.string()).to_pylist()]
    else:
        values = array.to_pylist()
    is_json = pc.all(pc.is_finite(array), min_count=0).as_py()
    return values if is_json else list(map(to_json, values))


def _iso(array: pa.Array) -> list[str | None]:
    """Times by Arrow: Python's have no nanoseconds, and no years beyond 9999."""
    import pyarrow.compute as pc

    type = array.type
    if types.is_timestamp(type) and type.tz is not None:
        array = array.cast(pa.timestamp(type.unit, "UTC"))
    written = pc.replace_substring_regex(array.cast(pa.string()), r"\.0+(Z?)$", r"\1")
    # Not of a time that is too far away, for which Arrow has words.
    return pc.replace_substring_regex(written, r"^(-?\d+-\d\d-\d\d) ", r"\1T").to_pylist()


def _lists(array: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    if types.is_map(array.type):
        array = array.cast(pa.list_(array.type.field(0)))
    values = iter(plain(array.flatten()))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else list(islice(values, length)) for length in lengths]


def _object(entries: Sequence[dict[str, Any]]) -> Any:
    """A map, with keys as texts; one in which a key is there twice stays a list of pairs."""
    pairs = [tuple(entry.values()) for entry in entries]
    found = {str(_text(key)): value for key, value in pairs}
    return found if len(found) == len(pairs) else [list(pair) for pair in pairs]


def _structs(array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [plain(column) for column in array.flatten()]
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]
