"""Values in a condition, and what they are in the type of a column."""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyarrow import types

from .durations import parse_duration

MAX_DIGITS: Final = 1000
_MAX_SHOWN: Final = 80
_MOMENT: Final = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)"
    r"(?:[T ](\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?)?"
    r"\s*(?:(Z|UTC)|([+-])(\d\d)(?::?(\d\d))?)?",
    re.ASCII | re.IGNORECASE,
)
_CLOCK: Final = re.compile(r"(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_INFINITY: Final = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_CALENDAR: Final = re.compile(r"month|year", re.IGNORECASE)
_DAY: Final = 86_400
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class WhereError(ValueError):
    """A condition with invalid syntax, or with values that do not fit their columns."""

    what: ClassVar = "condition"

    def __init__(self, at: int, message: str) -> None:
        super().__init__(f"{self.what}, character {at}: {message}")
        self.at = at
        self.message = message


@dataclass(frozen=True, slots=True)
class Value:
    """A value as written; its type depends on the column that it is compared with."""

    kind: str  # number, text, bool, null, bytes, moment, clock or duration
    value: Any  # seconds of a moment since 1970, of a clock since midnight, or of a duration
    text: str
    at: int


# ---- from text


def exact(text: str, at: int) -> Fraction:
    """Return a number exactly; one that is far beyond the range of all types is brought closer."""
    if len(text) > MAX_DIGITS:
        raise WhereError(at, f"the number has more than {MAX_DIGITS} characters")
    if not _NUMBER.fullmatch(text):
        raise WhereError(at, f"invalid number {text!r}")
    number = Decimal(text)
    if number and abs(number.adjusted()) > MAX_DIGITS:
        beyond = Fraction(10) ** (MAX_DIGITS if number.adjusted() > 0 else -MAX_DIGITS)
        return beyond if number > 0 else -beyond
    return Fraction(number)


def moment(text: str, at: int) -> Fraction:
    """Return the seconds from 1970 to a date, or to a date and time."""
    match = _MOMENT.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)  # noqa: TRY301 - as of a day that no month has
        year, month, day, hour, minute, second, _, sign, zone_hour, zone_minute = match.groups()
        days = datetime.date(int(year), int(month), int(day)).toordinal() - _EPOCH
        seconds = _seconds(hour or "0", minute or "0", second)
        zone = _seconds(zone_hour or "0", zone_minute or "0", None)
    except ValueError:
        raise WhereError(
            at,
            f"invalid date or timestamp {text!r} "
            "(expected e.g. '2024-01-31' or '2024-01-31 12:00:00Z')",
        ) from None
    return days * _DAY + seconds - (zone if sign == "+" else -zone)


def clock(text: str, at: int) -> Fraction:
    """Return the seconds from midnight to a time of day."""
    match = _CLOCK.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError(text)  # noqa: TRY301 - as of an hour that no day has
        return _seconds(*match.groups())
    except ValueError:
        raise WhereError(
            at, f"invalid time {text!r} (expected e.g. '12:00' or '12:00:00.5')"
        ) from None


def duration(text: str, at: int) -> Fraction:
    """Return the seconds of a duration."""
    if len(text) > MAX_DIGITS:
        raise WhereError(at, f"the duration has more than {MAX_DIGITS} characters")
    try:
        return parse_duration(text)
    except ValueError:
        hint = ""
        if _CALENDAR.search(text):
            hint = "; months and years differ in length: use days"
        raise WhereError(
            at,
            f"invalid duration {text!r} (expected e.g. '90 minutes' or '1 day 02:00:00'){hint}",
        ) from None


def _seconds(hour: str, minute: str, second: str | None) -> Fraction:
    exact = Fraction(second or 0)
    if int(hour) > 23 or int(minute) > 59 or exact >= 60:
        raise ValueError(hour)
    return int(hour) * 3600 + int(minute) * 60 + exact


# ---- to the type of a column


def family_of(type: pa.DataType) -> str | None:
    """Return the kind of values that a column of the type can be compared with."""
    for family, tests in _FAMILIES.items():
        if any(test(type) for test in tests):
            return family
    return None


_FAMILIES: Final[dict[str, tuple[Callable[[pa.DataType], bool], ...]]] = {
    "number": (types.is_integer, types.is_floating, types.is_decimal),
    "text": (types.is_string, types.is_large_string, types.is_string_view),
    "bytes": (types.is_binary, types.is_large_binary, types.is_binary_view),
    "bool": (types.is_boolean,),
    "moment": (types.is_date, types.is_timestamp),
    "clock": (types.is_time,),
    "duration": (types.is_duration,),
}


def common_type(family: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return a type that has the values of both; only floats are rounded."""
    both = (one, other)
    if family == "number":
        if any(map(types.is_floating, both)):
            return pa.float64()
        if all(map(types.is_integer, both)) and pa.uint64() not in both:
            return pa.int64()
        scales = [type.scale for type in both if types.is_decimal(type)]
        return pa.decimal256(76, max([0, *scales]))
    if family == "moment":
        units = [type.unit for type in both if types.is_timestamp(type)]
        return pa.timestamp(max(units, key=list(_UNITS).index, default="ms"))
    if family == "clock":
        return pa.time64("ns")
    if family == "duration":
        return max(both, key=lambda type: list(_UNITS).index(type.unit))
    return pa.large_string() if family == "text" else pa.large_binary()


def typed(name: str, type: pa.DataType, value: Value) -> tuple[pa.Scalar | None, bool]:
    """Return the greatest value of the type that is not above `value`, and whether both are equal.

    Return None if all values of the type are above.
    """
    family = family_of(type)
    if value.kind != family and not (value.kind == "text" and family not in (None, "bool")):
        raise WhereError(
            value.at,
            f"cannot compare column {name!r} of type {shown_type(type)} with {value.text}"
            f"{_advice(name, type)}",
        )
    if family == "number":
        return _typed_number(name, type, value)
    if family == "moment":
        seconds = moment(value.value, value.at) if value.kind == "text" else value.value
        if types.is_date32(type):
            return _stepped(pa.int32(), type, seconds / _DAY)
        return _stepped(pa.int64(), type, seconds * _UNITS[getattr(type, "unit", "ms")])
    if family == "clock":
        seconds = clock(value.value, value.at) if value.kind == "text" else value.value
        storage = pa.int32() if types.is_time32(type) else pa.int64()
        return _stepped(storage, type, seconds * _UNITS[type.unit])
    if family == "duration":
        seconds = duration(value.value, value.at) if value.kind == "text" else value.value
        return _stepped(pa.int64(), type, seconds * _UNITS[type.unit])
    if family == "bytes" and value.kind == "text":
        return pa.scalar(value.value.encode(), type), True
    return pa.scalar(value.value, type), True


def shown_type(type: pa.DataType) -> str:
    """Return the name of a type for a message; structs may have thousands of fields."""
    text = str(type)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def _advice(name: str, type: pa.DataType) -> str:
    """Return what to write in place of a comparison that is not possible."""
    if types.is_duration(type):
        return "; write a duration, e.g. interval '90 minutes'"
    if types.is_struct(type) and len(type):
        return f"; compare one of its fields, e.g. {name}.{type.field(0).name}"
    return ""


def _typed_number(name: str, type: pa.DataType, value: Value) -> tuple[pa.Scalar | None, bool]:
    number = value.value
    if value.kind == "text":
        text = number.strip()
        if types.is_floating(type) and _INFINITY.fullmatch(text):
            return pa.scalar(float(text), type), True
        if types.is_floating(type) and text.lower().strip("+-") == "nan":
            raise WhereError(
                value.at, f'NaN is not equal to anything; use "{name}" <> "{name}" to find it'
            )
        if not _NUMBER.fullmatch(text):
            raise WhereError(
                value.at, f"column {name!r} is {type}, and {value.text} is not a valid number"
            )
        number = exact(text, value.at)
    if types.is_floating(type):
        return _rounded(type, number)
    if types.is_integer(type):
        return _stepped(type, type, number)
    steps = number * Fraction(10) ** type.scale
    most = 10**type.precision - 1
    if steps < -most:
        return None, False
    whole = min(steps.numerator // steps.denominator, most)
    return pa.scalar(Decimal(f"{whole}e{-type.scale}"), type), whole == steps


def _stepped(
    storage: pa.DataType, type: pa.DataType, steps: Fraction
) -> tuple[pa.Scalar | None, bool]:
    """Do the same as `typed` for a type that counts steps in an integer."""
    is_signed = types.is_signed_integer(storage)
    least = -(1 << (storage.bit_width - 1)) if is_signed else 0
    most = least + (1 << storage.bit_width) - 1
    if steps < least:
        return None, False
    whole = min(steps.numerator // steps.denominator, most)
    return pa.array([whole], storage).view(type)[0], whole == steps


_GREATEST: Final = {"<f": b"\xff\xff\x7f\x7f", "<d": b"\xff" * 6 + b"\xef\x7f"}


def _rounded(type: pa.DataType, number: Fraction) -> tuple[pa.Scalar, bool]:
    """Do the same as `typed` for floats: the nearest one stands for the value."""
    letter = "<f" if types.is_float32(type) else "<d"
    try:
        (nearest,) = struct.unpack(letter, struct.pack(letter, float(number)))
    except OverflowError:
        if number < 0:
            return pa.scalar(-math.inf, type), False
        (greatest,) = struct.unpack(letter, _GREATEST[letter])
        return pa.scalar(greatest, type), False
    return pa.scalar(nearest, type), True
