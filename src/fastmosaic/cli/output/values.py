"""Values as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


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


def json_text(value: Any, *, indent: int | None = None, only_ascii: bool = False) -> str:
    """Format a value as JSON, with escapes for all characters that `printable` escapes.

    A reader of the JSON sees the same text as without them.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=only_ascii)
    # JSON has line ends between its values only; all else that is escaped is within strings.
    return "\n".join(map(_json_escaped, text.split("\n")))


def _json_escaped(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line)


def json_values(array: pa.Array) -> list[Any]:
    """Convert an Arrow array to values that JSON can represent.

    Dates and times are written as in ISO 8601, in UTC if they have a time zone. Bytes become
    hexadecimal digits and maps become objects.
    """
    type = array.type
    if isinstance(type, pa.BaseExtensionType):
        return json_values(array.storage)
    if types.is_dictionary(type):
        return json_values(array.dictionary_decode())
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
        array = array.cast(pa.int64())  # Python's timedelta has no nanoseconds
    values = array.to_pylist()
    is_json = types.is_integer(type) or types.is_boolean(type) or types.is_string(type)
    return values if is_json else list(map(to_json, values))


def texts(array: pa.Array) -> list[str | None]:
    """Convert an Arrow array to text; lists and maps become JSON."""
    if types.is_string(array.type):
        return array.to_pylist()
    if types.is_integer(array.type) or types.is_boolean(array.type):
        return array.cast(pa.string()).to_pylist()
    return [_text(value) for value in json_values(array)]


def parsed(text: str | None, type: pa.DataType) -> bool | int | float | str | None:
    """Convert the text of a number or boolean back to its JSON value; other text is unchanged."""
    if text is None:
        return None
    if types.is_integer(type):
        return int(text)
    if types.is_floating(type):
        return float(text)
    return text == "true" if types.is_boolean(type) else text


def human_size(num_bytes: int) -> str:
    """Format a number of bytes with three digits and a unit: 3.40 MB."""
    value = float(num_bytes)
    for unit in _UNITS:
        if value < 999.5 or unit == _UNITS[-1]:
            break
        value /= 1000
    return (
        f"{num_bytes} B" if unit == "B" else f"{value:.{max(0, 3 - len(f'{value:.0f}'))}f} {unit}"
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _floats(array: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    if types.is_float32(array.type):
        # The shortest text of a float32 is shorter than that of the same number as a float64.
        values = [text and float(text) for text in array.cast(pa.string()).to_pylist()]
    else:
        values = array.to_pylist()
    is_json = pc.all(pc.is_finite(array), min_count=0).as_py()
    return values if is_json else list(map(to_json, values))


def _iso(array: pa.Array) -> list[str | None]:
    """Format times with Arrow: Python's have no nanoseconds, and no years after 9999."""
    import pyarrow.compute as pc

    type = array.type
    if types.is_timestamp(type) and type.tz is not None:
        array = array.cast(pa.timestamp(type.unit, "UTC"))
    written = pc.replace_substring_regex(array.cast(pa.string()), r"\.0+(Z?)$", r"\1")
    # Arrow describes a time that is out of range in words, which this leaves alone.
    return pc.replace_substring_regex(written, r"^(-?\d+-\d\d-\d\d) ", r"\1T").to_pylist()


def _lists(array: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    if types.is_map(array.type):
        array = array.cast(pa.list_(array.type.field(0)))
    values = iter(json_values(array.flatten()))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else list(islice(values, length)) for length in lengths]


def _object(entries: Sequence[dict[str, Any]]) -> Any:
    """Convert a map to an object, or to a list of pairs if a key occurs twice."""
    pairs = [tuple(entry.values()) for entry in entries]
    found = {str(_text(key)): value for key, value in pairs}
    return found if len(found) == len(pairs) else [list(pair) for pair in pairs]


def _structs(array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    columns = [json_values(column) for column in array.flatten()]
    rows = zip(*columns, strict=True) if columns else [()] * len(array)
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, array.is_valid().to_pylist(), strict=True)
    ]
