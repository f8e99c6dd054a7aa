"""Histograms of many columns at once."""

import datetime
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from fastmosaic.report.histograms import NO_HISTOGRAM, NUM_BINS, histograms


def expected(values):
    """The digits, by the definition."""
    low, high = min(values), max(values)
    counts = [0] * NUM_BINS
    for value in values:
        place = (value - low) / (high - low) if high > low else 0.5
        counts[min(NUM_BINS - 1, int(place * NUM_BINS))] += 1
    return "".join(f"{-(-count * 15 // max(counts)):x}" for count in counts)


def test_many_columns_have_each_their_own():
    chance = random.Random(1)
    columns = [
        [chance.gauss(mean, 1 + mean) for _ in range(chance.randrange(1, 300))]
        for mean in range(50)
    ]
    found = histograms([pa.chunked_array([one[:7], one[7:]], pa.float64()) for one in columns])
    assert found == list(map(expected, columns))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 12], pa.int8()),
        pa.array([1, 12], pa.uint64()),
        pa.array([Decimal("0.1"), Decimal("1.2")]),
        pa.array([datetime.date(2020, 1, 1), datetime.date(2020, 1, 12)]),
        pa.array([datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 12)]),
        pa.array([datetime.time(1), datetime.time(12)], pa.time64("us")),
        pa.array([1000, 12000], pa.time32("ms")),
        pa.array([1, 12], pa.duration("s")),
        pa.array([False, True]),
        pa.array([float("nan"), 1.0, float("inf"), 12.0, float("-inf")], pa.float32()),
        pa.array([-1.7e308, 1.7e308]),
    ],
    ids=lambda values: str(values.type),
)
def test_types(values):
    assert histograms([pa.chunked_array([values])]) == ["f" + "0" * (NUM_BINS - 2) + "f"]


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["a", "b"]),
        pa.array([[1], [2]]),
        pa.array([None, None], pa.int32()),
        pa.array([], pa.int64()),
        pa.array([float("nan")]),
    ],
    ids=lambda values: str(values.type),
)
def test_nothing_to_draw(values):
    others = pa.chunked_array([pa.array([1, 12])])
    found = histograms([pa.chunked_array([values]), others])
    assert found == [NO_HISTOGRAM, "f" + "0" * (NUM_BINS - 2) + "f"]


def test_a_constant_is_in_the_middle():
    assert histograms([pa.chunked_array([[7, 7, 7]])]) == ["000000f00000"]
