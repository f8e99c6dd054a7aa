"""Sizes, counts and types as short text."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyarrow import types

_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


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


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "file"), counted(12_000, "row")
    ('1 file', '12,000 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def short_type(type: pa.DataType) -> str:
    """Return the text of a type without the fields of its structs, such as `list<struct>`."""
    text = str(type)
    if "struct<" not in text or isinstance(type, pa.BaseExtensionType):
        return text
    if types.is_struct(type):
        return "struct"
    if types.is_map(type):
        return f"map<{short_type(type.key_type)}, {short_type(type.item_type)}>"
    if not hasattr(type, "value_type"):
        return text
    size = f"[{type.list_size}]" if types.is_fixed_size_list(type) else ""
    return f"{text.partition('<')[0]}<{short_type(type.value_type)}>{size}"
