"""Durations as text, such as `1 day 02:03:04.5`: as commands print them and conditions accept them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import pyarrow as pa

_SECONDS: Final = {
    "nanosecond": Fraction(1, 10**9),
    "microsecond": Fraction(1, 10**6),
    "millisecond": Fraction(1, 1000),
    "second": Fraction(1),
    "minute": Fraction(60),
    "hour": Fraction(3600),
    "day": Fraction(86_400),
    "week": Fraction(7 * 86_400),
}
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_PART: Final = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)(?=\s|[+-]|\d|$)", re.ASCII | re.IGNORECASE)
_CLOCK: Final = re.compile(r"\s*([+-]?)(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?\s*", re.ASCII)


def parse_duration(text: str) -> Fraction:
    """Return a duration in seconds; raise ValueError if the text is not one.

    It consists of numbers with units, and of hours, minutes and seconds at the end.

    >>> parse_duration("1 day 02:03:04.5")
    Fraction(187569, 2)
    """
    total, at = Fraction(0), 0
    while found := _PART.match(text, at):
        total += Fraction(found[1]) * _seconds_in(found[2])
        at = found.end()
    if clock := _CLOCK.match(text, at):
        sign, hours, minutes, seconds = clock.groups()
        part = int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds or 0)
        total += -part if sign == "-" else part
        at = clock.end()
    if text[at:].strip() or not at:
        raise ValueError(f"invalid duration {text!r}")
    return total


def is_unit(word: str) -> bool:
    """Return whether a word is a unit of durations, in singular or plural."""
    return word.lower().removesuffix("s") in _SECONDS


def _seconds_in(unit: str) -> Fraction:
    seconds = _SECONDS.get(unit.lower().removesuffix("s"))
    if seconds is None:
        raise ValueError(f"unknown unit {unit!r}")
    return seconds


def duration_texts(array: pa.Array) -> list[str | None]:
    """Return the texts of an array of durations, each of which `parse_duration` accepts.

    >>> duration_texts(pa.array([93_784_500, -1000], pa.duration("ms")))
    ['1 day 02:03:04.5', '-00:00:01']
    """
    digits = _DIGITS[array.type.unit]
    counts: Sequence[int | None] = array.view(pa.int64()).to_pylist()
    return [None if count is None else _text(count, digits) for count in counts]


def interval_texts(array: pa.Array) -> list[str | None]:
    """Return the texts of an array of intervals of months, days and nanoseconds.

    >>> interval_texts(pa.array([(14, -1, 0)], pa.month_day_nano_interval()))
    ['14 months -1 day']
    """
    return [None if value is None else _interval_text(*value) for value in array.to_pylist()]


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    parts = [_counted(months, "month"), _counted(days, "day")]
    if nanoseconds or not (months or days):
        parts.append(_clock(nanoseconds, 9))
    return " ".join(filter(None, parts))


def _text(count: int, digits: int) -> str:
    """Return the text of a number of units, of which 10 ** `digits` are a second."""
    day = 86_400 * 10**digits
    days = abs(count) // day
    rest = abs(count) % day
    if count < 0:
        days, rest = -days, -rest
    parts = [_counted(days, "day"), _clock(rest, digits) if rest or not days else ""]
    return " ".join(filter(None, parts))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if abs(number) == 1 else 's'}" if number else ""


def _clock(count: int, digits: int) -> str:
    seconds, fraction = divmod(abs(count), 10**digits)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if fraction:
        text += f".{fraction:0{digits}}".rstrip("0")
    return f"-{text}" if count < 0 else text
