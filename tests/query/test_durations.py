"""Durations as text: what is printed is read again, and what is no duration is refused."""

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from fastmosaic.query.durations import duration_texts, interval_texts, is_unit, parse_duration

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 minutes", 5400),
        ("1 minute", 60),
        ("1 week 1 DAY", 8 * 86400),
        ("1 day 02:03:04.5", 93784.5),
        ("-1 day -01:01:01.5", -90061.5),
        ("1.5 hours", 5400),
        ("3hours 5minutes", 3 * 3600 + 300),
        ("26:00", 26 * 3600),
        ("-0:01", -60),
        (" 250 milliseconds ", 0.25),
        ("0 seconds", 0),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "5", "day", "1 month", "2 years", "1:60", "1:00:60", "12", "1 day 5", "1 day x"),
        *("x 1 day", "1e3 seconds", "02:03:04 1 day", "1 s", "٣ days", "1 dayss"),
    ],
)
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match=r"^(invalid duration|unknown unit)"):
        parse_duration(text)


def test_units():
    assert is_unit("Days")
    assert is_unit("nanosecond")
    assert not is_unit("months")
    assert not is_unit("s")


@pytest.mark.parametrize(
    ("count", "unit", "text"),
    [
        (0, "s", "00:00:00"),
        (5_000_001, "us", "00:00:05.000001"),
        (93_784_500, "ms", "1 day 02:03:04.5"),
        (-90_061_500, "ms", "-1 day -01:01:01.5"),
        (400 * 86400, "s", "400 days"),
        (-1, "ns", "-00:00:00.000000001"),
        (-(2**63), "ns", "-106751 days -23:47:16.854775808"),
    ],
)
def test_texts(count, unit, text):
    assert duration_texts(pa.array([count, None], pa.duration(unit))) == [text, None]


@given(
    count=st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**6), 10**6),
    unit=st.sampled_from(sorted(PER_SECOND)),
)
def test_what_is_printed_can_be_read(count, unit):
    (text,) = duration_texts(pa.array([count], pa.duration(unit)))
    assert parse_duration(text) * PER_SECOND[unit] == count


def test_intervals():
    values = [(0, 0, 0), (1, 2, 3), (14, -1, 0), (0, 0, -90 * 10**9), (0, 0, 86_400 * 10**9), None]
    assert interval_texts(pa.array(values, pa.month_day_nano_interval())) == [
        "00:00:00",
        "1 month 2 days 00:00:00.000000003",
        "14 months -1 day",
        "-00:01:30",
        "24:00:00",
        None,
    ]
