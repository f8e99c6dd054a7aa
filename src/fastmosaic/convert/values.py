"""Values of Arrow arrays as JSON, and as text that people read."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from ..format.plain_arrays import ListParts, list_parts, to_plain
from ..format.types import is_list, plain_type
from ..query.durations import duration_texts, interval_texts

Leaf: TypeAlias = Callable[[pa.Array], list[Any]]

_WORD: Final = re.compile(r"[^\W\d]\w*")
_INTERVAL: Final = ("months", "days", "nanoseconds")


def to_json(value: Any) -> Any:
    """Convert a Python value to one that JSON can represent.

    Dates, times and decimals become text, bytes become hexadecimal digits, and NaN and the
    infinities become `"NaN"`, `"Infinity"` and `"-Infinity"`.
    """
    if isinstance(value, dict):
        return {str(key): to_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if isinstance(value, bytes):
        return value.hex()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def json_leaves(array: pa.Array) -> list[Any]:
    """Convert an array without lists, maps or structs to values that JSON can represent.

    Dates and times are written as in ISO 8601, in UTC if they have a time zone. Durations are
    numbers of their unit, and intervals are objects. Bytes become hexadecimal digits.
    """
    type = array.type
    if types.is_floating(type):
        return _floats(array)
    if types.is_date(type) or types.is_time(type) or types.is_timestamp(type):
        return _iso(array)
    if types.is_decimal(type):
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    if types.is_duration(type):
        array = array.cast(pa.int64())  # Python's timedelta has no nanoseconds
    values = array.to_pylist()
    if types.is_interval(type):
        return [value and dict(zip(_INTERVAL, value, strict=True)) for value in values]
    is_json = types.is_integer(type) or types.is_boolean(type) or types.is_string(type)
    return values if is_json else list(map(to_json, values))


def readable_leaves(array: pa.Array) -> list[Any]:
    """Do the same as `json_leaves`, but write durations and intervals as text."""
    if types.is_duration(array.type):
        return duration_texts(array)
    return interval_texts(array) if types.is_interval(array.type) else json_leaves(array)


def json_object(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Convert a map to an object, or to a list of pairs if a key occurs twice."""
    found = {str(as_text(key)): value for key, value in pairs}
    return found if len(found) == len(pairs) else [list(pair) for pair in pairs]


def json_values(
    array: pa.Array,
    leaves: Leaf = json_leaves,
    object_of: Callable[[Sequence[tuple[Any, Any]]], Any] = json_object,
) -> list[Any]:
    """Convert an Arrow array to values that JSON can represent; structs and maps become objects.

    `leaves` converts arrays without lists, maps or structs, and `object_of` the pairs of a map.
    """
    type = array.type
    if isinstance(type, pa.UuidType):
        return [value and str(value) for value in array.to_pylist()]
    if isinstance(type, pa.BaseExtensionType):
        return json_values(array.storage, leaves, object_of)
    if types.is_dictionary(type):
        values = json_values(array.dictionary, leaves, object_of)
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    if types.is_run_end_encoded(type):
        return json_values(to_plain(array, plain_type(type)), leaves, object_of)
    if types.is_struct(type):
        children = [json_values(child, leaves, object_of) for child in array.flatten()]
        return _objects(array, children)
    if types.is_map(type):
        parts = list_parts(array)
        pair = (json_values(child, leaves, object_of) for child in parts.elements.flatten())
        lists = _lists(array, parts, list(zip(*pair, strict=True)))
        return [None if one is None else object_of(one) for one in lists]
    if is_list(type):
        parts = list_parts(array)
        return _lists(array, parts, json_values(parts.elements, leaves, object_of))
    return leaves(array)


def _objects(array: pa.Array, children: Sequence[Sequence[Any]]) -> list[Any]:
    names = [field.name for field in array.type]
    rows = zip(*children, strict=True) if children else [()] * len(array)
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]


def _lists(array: pa.Array, parts: ListParts, elements: Sequence[Any]) -> list[Any]:
    ends = pa.Array.from_buffers(pa.int32(), len(array) + 1, [None, parts.offsets]).to_pylist()
    return [
        list(elements[start:end]) if is_valid else None
        for (start, end), is_valid in zip(pairwise(ends), array.is_valid().to_pylist(), strict=True)
    ]


def texts(array: pa.Array) -> list[str | None]:
    """Convert an Arrow array to text; lists, maps and structs become JSON."""
    if types.is_string(array.type):
        return array.to_pylist()
    if types.is_integer(array.type) or types.is_boolean(array.type):
        return array.cast(pa.string()).to_pylist()
    if types.is_interval(array.type):
        return interval_texts(array)
    return list(map(as_text, json_values(array)))


def as_text(value: Any) -> str | None:
    """Return a value of JSON as text; text is not quoted."""
    if value is None or isinstance(value, str):
        return value
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def readable_texts(array: pa.Array) -> list[str | None]:
    """Convert an Arrow array to text for people: `1 day 02:00:00`, `{name: "x", age: 3}`."""
    if types.is_duration(array.type) or types.is_interval(array.type):
        return readable_leaves(array)
    if types.is_nested(array.type) or types.is_dictionary(array.type):
        values = json_values(array, readable_leaves)
        return [value if isinstance(value, str | None) else compact(value) for value in values]
    return texts(array)


def compact(value: Any) -> str:
    """Return a value of JSON without quotes around names that do not need them.

    >>> compact({"name": "x", "a-b": [1, None]})
    '{name: "x", "a-b": [1, null]}'
    """
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_name(name)}: {compact(one)}' for name, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(compact, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _name(name: str) -> str:
    return name if _WORD.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _floats(array: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    # The shortest text of a narrow float is shorter than that of the same number as a float64.
    if types.is_float32(array.type):
        values = [text and float(text) for text in array.cast(pa.string()).to_pylist()]
    elif types.is_float16(array.type):
        values = [None if value is None else _shortest(value) for value in array.to_pylist()]
    else:
        values = array.to_pylist()
    is_json = pc.all(pc.is_finite(array), min_count=0).as_py()
    return values if is_json else list(map(to_json, values))


def _shortest(value: float) -> float:
    """Return the number with the fewest digits that is `value` as a float16; integers stay exact."""
    if value.is_integer():
        return value
    for digits in range(1, 5):
        short = float(f"{value:.{digits}g}")
        try:
            if struct.pack("<e", short) == struct.pack("<e", value):
                return short
        except OverflowError:  # it was rounded to more than the greatest one
            continue
    return value


def _iso(array: pa.Array) -> list[str | None]:
    """Format times with Arrow: Python's have no nanoseconds, and no years after 9999."""
    import pyarrow.compute as pc

    type = array.type
    if types.is_timestamp(type) and type.tz is not None:
        array = array.cast(pa.timestamp(type.unit, "UTC"))
    written = pc.replace_substring_regex(array.cast(pa.string()), r"\.0+(Z?)$", r"\1")
    # Arrow describes a time that is out of range in words, which this leaves alone.
    return pc.replace_substring_regex(written, r"^(-?\d+-\d\d-\d\d) ", r"\1T").to_pylist()
