"""Thousands of names, grouped by common prefixes or suffixes."""

import itertools

import pytest

from fastmosaic.display.prefixes import grouped, next_words

SHARES = list(itertools.product("ABCDEFGH", repeat=3))


def patterns(names):
    groups = grouped(names)
    assert sorted(index for group in groups for index in group.members) == list(range(len(names)))
    for group in groups:
        start, _, end = group.pattern.partition("*")
        for index in group.members:
            assert names[index].startswith(start)
            assert names[index].endswith(end)
    return {
        ("other " if group.is_rest else "") + group.pattern: len(group.members) for group in groups
    }


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([f"f_{i:05d}" for i in range(5000)], {"f_*": 5000}),
        ([f"col{i}" for i in range(3000)], {"col*": 3000}),
        (["id", "day", *(f"f_{i}" for i in range(98))], {"f_*": 98, "other *": 2}),
        (
            [
                f"vehicle.{part}.{what}_{i}"
                for part in ("engine", "brake")
                for what in ("temp", "load")
                for i in range(50)
            ],
            {
                "vehicle.engine.temp_*": 50,
                "vehicle.engine.load_*": 50,
                "vehicle.brake.temp_*": 50,
                "vehicle.brake.load_*": 50,
            },
        ),
        (
            [f"price_{what}_{year}" for what in ("open", "close") for year in range(2010, 2025)],
            {"price_open_*": 15, "price_close_*": 15},
        ),
        (
            [f"{part}{what}{i}" for part in ("engine", "gearBox") for what in ("Temp", "Load") for i in range(9)],
            {"engineTemp*": 9, "engineLoad*": 9, "gearBoxTemp*": 9, "gearBoxLoad*": 9},
        ),
        # Each of 512 shares has few columns, but all shares have the same ones.
        (
            [f"{''.join(share)}_{what}" for share in SHARES for what in ("open", "close", "vwap")],
            {"*_open": 512, "*_close": 512, "*_vwap": 512},
        ),
        ([f"温度_{i}" for i in range(40)] + [f"圧力_{i}" for i in range(40)], {"温度_*": 40, "圧力_*": 40}),
        (["l_orderkey", "l_partkey", "l_tax"], {"l_*": 3}),
        (["only"], {"only*": 1}),
        ([], {}),
    ],
)  # fmt: skip
def test_groups_of_names(names, expected):
    assert patterns(names) == expected


def test_groups_of_many_kinds_are_few():
    """500 parts of 200 columns are more groups than anyone reads."""
    names = [f"part{part}_{i}" for part in range(500) for i in range(200)]
    assert len(patterns(names)) <= 100


@pytest.mark.parametrize(
    ("prefix", "names", "expected"),
    [
        ("", ["a_x_1", "a_y_2", "b_1"], ["a_", "b_"]),
        ("a_", ["a_x_1", "a_x_2", "a_y_2"], ["a_x_", "a_y_"]),
        ("a", ["a_x_1", "a_x_2"], ["a_x_1", "a_x_2"]),
        ("sen", ["sensor_a", "sensor_b", "sentinel"], ["sensor_", "sentinel"]),
        ("", ["engineTemp1", "engineLoad1"], ["engineTemp", "engineLoad"]),
        ("ab", ["ab"], ["ab"]),
    ],
)
def test_the_next_words_of_names(prefix, names, expected):
    assert next_words(prefix, names) == expected
