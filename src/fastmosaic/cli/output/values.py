"""Values as text and as JSON."""

from __future__ import annotations

import json
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from ...query.durations import parse_duration

_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


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


def parsed(text: str | None, type: pa.DataType) -> bool | int | float | str | None:
    """Convert the text of a number, boolean or duration back to its JSON value.

    Other text is unchanged.
    """
    if text is None:
        return None
    if types.is_integer(type):
        return int(text)
    if types.is_duration(type):
        return int(parse_duration(text) * _PER_SECOND[type.unit])
    if types.is_floating(type):
        return float(text)
    return text == "true" if types.is_boolean(type) else text
