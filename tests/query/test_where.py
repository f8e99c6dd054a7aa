"""The language of --where: what DuckDB says is true, and messages for what cannot be understood."""

import datetime
import math
import sys
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

import fastmosaic as fm
from fastmosaic.dataset import fileset
from fastmosaic.errors import ColumnNotFoundError
from fastmosaic.query.literals import WhereError
from fastmosaic.query.syntax import MAX_DEPTH
from fastmosaic.query.where import MAX_COMPARISONS, parse
from fastmosaic.schemas.union import Fixed

UTC = datetime.UTC
DAYS = [datetime.date(1969, 12, 30), *(datetime.date(2024, 1, day) for day in (1, 2, 30, 31))]
MOMENTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    datetime.datetime(2024, 1, 31),
    datetime.datetime(2024, 1, 31, 12, 0, 0, 500_000),
    datetime.datetime(2024, 1, 31, 12, 0, 1),
]
CLOCKS = [datetime.time(0), datetime.time(12), datetime.time(12, 0, 0, 500_000)]
SPANS = [
    datetime.timedelta(days=-1, seconds=-1),
    datetime.timedelta(0),
    datetime.timedelta(minutes=90),
    datetime.timedelta(days=1, hours=2, minutes=3, seconds=4, milliseconds=500),
]
TEXTS = ["", "a", "ab", "a%b", "a_b", "a\\b", "b", "x", "xyz", "x\ny", "it's", "ü", "\U0010ffff"]

# Of each column: its type, its values, and what it is compared with.
COLUMNS = {
    "i": (pa.int32(), [-(2**31), -2, -1, 0, 1, 9, 10, 2**31 - 1], "number"),
    "j": (pa.int64(), [-(2**63), -1, 0, 1, 9, 10, 2**53 + 1, 2**63 - 1], "number"),
    "tiny": (pa.int8(), [-128, -1, 0, 1, 9, 127], "number"),
    "f": (pa.float32(), [-math.inf, -1.5, -0.0, 0.0, 0.1, 9.5, 3.0e38, math.inf], "number"),
    "g": (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 0.1, 9.5, 1.5e308, math.inf], "number"),
    "price": (pa.decimal128(9, 2), list(map(Decimal, ("-9999999.99", "-0.01", "0", "9.50"))), "number"),
    "sum": (pa.decimal128(38, 4), list(map(Decimal, ("-1e30", "0.0001", "9.5", "1e33"))), "number"),
    "day": (pa.date32(), DAYS, "moment"),
    "made": (pa.timestamp("ms"), MOMENTS, "moment"),
    "seen": (pa.timestamp("us", "Europe/Berlin"), [one.replace(tzinfo=UTC) for one in MOMENTS], "moment"),
    "nano": (pa.timestamp("ns"), MOMENTS, "moment"),
    "clock": (pa.time32("ms"), CLOCKS, "clock"),
    "fine": (pa.time64("us"), CLOCKS, "clock"),
    "big": (pa.uint64(), [0, 1, 9, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], "number"),
    "took": (pa.duration("us"), SPANS, "duration"),
    "kind": (pa.string(), TEXTS, "text"),
    "other name": (pa.string(), TEXTS, "text"),
    "raw": (pa.binary(), [b"", b"\0\xff", b"a", b"ab", b"\xff"], "bytes"),
    "ok": (pa.bool_(), [True, False], "bool"),
}  # fmt: skip
NUM_ROWS = 96
# Fields of a struct, each with the column whose values it has.
FIELDS = {"info.i": "i", "info.took": "took", "info.at.kind": "kind", "info.at.big": "big"}


def many_types() -> pa.Table:
    """Values in runs, so that row groups differ in their bounds; every seventh or so is null."""
    columns = {"row": pa.array(range(NUM_ROWS))}
    for position, (name, (type, values, _)) in enumerate(COLUMNS.items()):
        run = NUM_ROWS // (len(values) * (1 + position % 3)) or 1
        columns[name] = pa.array(
            [
                None
                if (row + position) % (5 + position % 4) == 0
                else values[row // run % len(values)]
                for row in range(NUM_ROWS)
            ],
            type,
        )
    at = struct_of({name: columns[name] for name in ("kind", "big")}, 11)
    info = struct_of({"i": columns["i"], "took": columns["took"], "at": at}, 13)
    return pa.table({**columns, "info": info})


def struct_of(fields, step) -> pa.Array:
    """A struct that is null in some rows."""
    mask = pa.array([row % step == 3 for row in range(NUM_ROWS)])
    return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=mask)


TABLE = many_types()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file in which statistics let row groups be skipped."""
    path = tmp_path_factory.mktemp("where") / "many.mosaic"
    fm.write_table(TABLE, path, row_group_size=8, write_statistics=True)
    return path


@pytest.fixture(scope="module")
def duck():
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("t", TABLE)
        yield connection


def condition(text, schema=TABLE.schema):
    return parse(text).expression(Fixed(schema))


def rows(text, source):
    table = fm.read_table(source, columns=["row"], filters=condition(text))
    return table["row"].to_pylist()


def rows_of_duckdb(text, duck):
    return [row for (row,) in duck.execute(f"select row from t where {text} order by 1").fetchall()]


def filtered(array, text):
    """The values of a column `x` for which a condition is true."""
    table = pa.table({"x": array})
    return table.filter(condition(text, table.schema))["x"].to_pylist()


# --- the same rows as DuckDB


@st.composite
def values(draw, family):
    """A value as it is written, sometimes null."""
    if draw(st.integers(0, 11)) == 0:
        return "null"
    if family == "number":
        # Up to 38 digits: beyond, DuckDB makes a float of it.
        digits = st.decimals(-(10**20), 10**20, places=3, allow_nan=False)
        known = [
            "0",
            "-1",
            "9",
            "9.5",
            "9.50",
            "9.505",
            "-0.01",
            "0.1",
            ".1",
            "10000000000",
            "127.5",
        ]
        edges = [
            str(2**31),
            str(2**63),
            str(2**64 - 1),
            str(2**64),
            str(2**63 - 1),
            str(-(2**63) - 1),
            str(2**53 + 1),
        ]
        return draw(st.sampled_from(known + edges) | digits.map("{:f}".format))
    if family == "moment":
        text = draw(
            st.sampled_from(["1969-12-31 23:59:59.999", "2024-01-31", "2024-01-31 12:00:00.5"])
        )
        if draw(st.booleans()):
            return f"timestamp '{text}'"
        return f"date '{text[:10]}'" if draw(st.booleans()) else f"'{text[:10]}'"
    if family == "clock":
        return draw(st.sampled_from(["", "time "])) + draw(
            st.sampled_from(["'00:00:00'", "'12:00:00'", "'12:00:00.5'", "'23:59:59.999'"])
        )
    if family == "duration":
        known = ["'-1 day -00:00:01'", "'90 minutes'", "'1 day 02:03:04.5'", "'0 seconds'"]
        return "interval " + draw(
            st.sampled_from([*known, "'2' hour", "'1.5 hours'", "'02:00:00'"])
        )
    if family == "bytes":
        return draw(st.sampled_from(["x''", "x'00ff'", "x'61'", "X'FF'", "'ab'"]))
    if family == "bool":
        return draw(st.sampled_from(["true", "FALSE"]))
    return quoted(draw(st.sampled_from([*TEXTS, "aa", "z"])))


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def family_of(name):
    return COLUMNS[FIELDS.get(name, name)][2]


@st.composite
def predicates(draw):
    name = draw(st.sampled_from(sorted([*COLUMNS, *FIELDS])))
    family = family_of(name)
    column = name
    if " " in name or draw(st.booleans()):
        column = ".".join(f'"{part}"' for part in name.split("."))
    value = values(family)
    negative = draw(st.sampled_from(["", "not "]))
    sign = draw(st.sampled_from(["=", "==", "!=", "<>", "<", "<=", ">", ">="]))
    form = draw(st.integers(0, 7))
    if form == 0:
        return f"{column} is {negative}null"
    if form == 1:
        listed = ", ".join(draw(st.lists(value, min_size=1, max_size=4)))
        return f"{column} {negative}in ({listed})"
    if form == 2:
        return f"{column} {negative}between {draw(value)} and {draw(value)}"
    if form == 3 and family == "text":
        parts = draw(
            st.lists(st.sampled_from(["%", "_", "a", "x", "b", "\\", "!%", "!_", "!!", "ü"]))
        )
        escape = " escape '!'" if any("!" in part for part in parts) else ""
        return f"{column} {negative}like {quoted(''.join(parts))}{escape}"
    if form == 4 and family == "bool":
        return column
    if form == 5 and family != "bool":
        # DuckDB rounds other mixtures.
        alike = {"i", "j", "tiny"} if name in ("i", "j", "tiny") else {name}
        alike |= {"day", "made", "nano"} if name in ("day", "made", "nano") else set()
        alike |= {"price", "sum"} if name in ("price", "sum") else set()
        alike |= {"kind", "other name"} if family == "text" else set()
        alike |= {field for field, column in FIELDS.items() if column in alike}
        other = draw(st.sampled_from(sorted(alike))).replace(".", '"."')
        return f'{column} {sign} "{other}"'
    if form == 6:
        return f"{draw(value)} {sign} {column}"
    return f"{column} {sign} {draw(value)}"


conditions = st.recursive(
    predicates() | st.sampled_from(["true", "false", "null"]),
    lambda inner: st.one_of(
        inner.map("not ({})".format),
        st.lists(inner, min_size=2, max_size=4).map(
            lambda all: " and ".join(f"({a})" for a in all)
        ),
        st.lists(inner, min_size=2, max_size=4).map(" or ".join),
        st.lists(inner, min_size=2, max_size=3).map(" AND ".join),
        inner.map("NOT {}".format),
    ),
    max_leaves=8,
)


@settings(max_examples=4 * settings.default.max_examples)
@given(text=conditions)
@example(text="i > 9.5")
@example(text="not i = 10000000000")
@example(text="not (kind like 'x%' or price between 0 and null)")
@example(text="kind like 'a\\%b' escape '\\' or kind like '%\U0010ffff%'")
def test_the_rows_are_those_of_duckdb(text, path, duck):
    assert rows(text, path) == rows_of_duckdb(text, duck)


# Those that the strategy draws rarely, or that other formats have.
@pytest.mark.parametrize(
    "text",
    [
        "not not not ok",
        "ok and not ok is null or i is not null and tiny > 0",
        "i in (j, 9, null)",
        "9 in (i, tiny)",
        "i between tiny and j",
        "0 between i and tiny",
        "(i) > (((9)))",
        "i>-2 and i<+2 and j>=- 1",
        "i > 1e1 or i < -1.5E+1",
        "kind like 'x%' and kind not like '%z'",
        "kind ilike 'X_Z' or kind ilike 'Ü'",
        "kind like '' or kind like '%%' and kind like '_'",
        "kind = 'it''s'",
        "`kind` = 'a' or `other name` = 'b'",
        "seen >= '2024-01-31 13:00:00+01:00'",
        "seen < timestamp '2024-01-31T12:00:00.5'",
        "made = '2024-01-31' or nano <= '2024-01-31 12:00:00.5'",
        "day < timestamp '2024-01-31 12:00:00'",
        "seen > made or made = nano or day < made",
        "f in (0, 0.1) and g not in (0, 9.5)",
        "f = 0.1 and f < 1e300 or g > -1e300",
        "g = 'inf' or f = '-Infinity'",
        "i = '9' or price = '9.5' or g > '1e3'",
        "raw = '' or raw in (x'00ff', null)",
        'info.i > 9.5 and "info"."at".kind is not null',
        "info.at.big > 9223372036854775807 or big = 9007199254740993",
        "info is null or info.at is not null and info.took < interval '1' hour",
        "took in (interval '90 minutes', interval '-1 day -00:00:01')",
        "took between interval '0 seconds' and interval '1 day'",
        "info.took = took and info.at.kind <> 'x'",
    ],
)
def test_what_else_is_as_in_duckdb(text, path, duck):
    found = rows(text, path)
    assert found == rows_of_duckdb(text, duck)
    assert 0 < len(found) < NUM_ROWS


@pytest.mark.parametrize(
    "text",
    [
        "kind not like null",
        "not (9 in (i, null))",
        "not kind ilike null",
        "i = null or i <> null or null < i",
        "not (i = null)",
        "5 = null or null = null",
        "i not in (1, null)",
        "not (i between null and null)",
        "null",
        "not null",
    ],
)
def test_null_is_never_true(text, path, duck):
    assert rows(text, path) == rows_of_duckdb(text, duck) == []


# --- values are of the column's type, exactly


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 9.5", [10]),
        ("x >= 9.5", [10]),
        ("x < 9.5", [-5, 9]),
        ("x <= -5.5", []),
        ("x < -4.5", [-5]),
        ("x = 9.5", []),
        ("x != 9.5", [-5, 9, 10]),
        ("not x = 9.5", [-5, 9, 10]),
        ("x = 9.0", [9]),
        ("x = 0.9e1", [9]),
        ("x = 10000000000", []),
        ("x < 10000000000", [-5, 9, 10]),
        ("x > 10000000000", []),
        ("not x > 10000000000", [-5, 9, 10]),
        ("x > -10000000000", [-5, 9, 10]),
        ("x <= -10000000000", []),
        ("x < 1e999999999", [-5, 9, 10]),
        ("x > 9e-999999999", [9, 10]),
        ("x > -9e999999999", [-5, 9, 10]),
        ("x in (9.5, 10, 10000000000)", [10]),
        ("x not in (9.5, 10000000000)", [-5, 9, 10]),
        ("x in (9.5)", []),
    ],
)
def test_integers(text, expected):
    assert filtered(pa.array([-5, 9, None, 10], pa.int32()), text) == expected


def test_unsigned_integers_do_not_wrap():
    values = pa.array([0, 255, None], pa.uint8())
    assert filtered(values, "x > -1") == [0, 255]
    assert filtered(values, "x < 256 and x >= 254.5") == [255]
    assert filtered(pa.array([2**64 - 1], pa.uint64()), "x = 18446744073709551615") == [2**64 - 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 9.5", ["9.50"]),
        ("x < 9.505", ["-1.00", "9.50"]),
        ("x > 9.505", ["9.51"]),
        ("x = 9.505", []),
        ("x >= 12345678901234567890123", []),
        ("x > -12345678901234567890123", ["-1.00", "9.50", "9.51"]),
        ("x = '9.5'", ["9.50"]),
    ],
)
def test_decimals(text, expected):
    values = [Decimal(-1), Decimal("9.50"), None, Decimal("9.51")]
    found = filtered(pa.array(values, pa.decimal128(9, 2)), text)
    assert list(map(str, found)) == expected


def test_decimals_of_38_digits_are_not_rounded():
    most = "99999999999999999999999999999999999999"
    less = most[:-1] + "8"
    values = pa.array([Decimal(less), Decimal(most)], pa.decimal128(38, 0))
    assert filtered(values, f"x = {most}") == [Decimal(most)]
    assert filtered(values, f"x < {less}.5") == [Decimal(less)]


def test_decimals_in_thousands():
    values = pa.array([Decimal(1000), Decimal(2000)], pa.decimal128(5, -3))
    assert filtered(values, "x > 1500") == [2000]
    assert filtered(values, "x = 2000") == [2000]


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()])
def test_floats_are_compared_with_the_nearest_float(type):
    values = pa.array([0.1, 0.5, math.inf, -math.inf, None], pa.float64()).cast(type)
    nearest = values[0].as_py()
    assert filtered(values, "x = 0.1") == [nearest]
    assert filtered(values, "x > 0.1") == [0.5, math.inf]
    assert filtered(values, "x < 1e400") == [nearest, 0.5, -math.inf]
    assert filtered(values, "x >= 1e400") == [math.inf]
    assert filtered(values, "x <= -1e400") == [-math.inf]
    assert filtered(values, "x = 1e400 or x in (1e400)") == []


def test_nan_is_as_in_arrow(tmp_path):
    table = pa.table({"row": range(6), "x": [1.0, math.nan, None, math.nan, 2.0, math.nan]})
    fm.write_table(table, tmp_path / "f", row_group_size=2, write_statistics=True)

    def found(text):
        expression = condition(text, table.schema)
        return fm.read_table(tmp_path / "f", filters=expression)["row"].to_pylist()

    assert found("x > 0") == [0, 4]
    assert found("not x > 0") == [1, 3, 5]
    assert found("x <> x") == [1, 3, 5]
    assert found("x <> 1") == [1, 3, 4, 5]
    assert found("x not in (1)") == [1, 3, 4, 5]
    with pytest.raises(
        WhereError, match='character 5: NaN is not equal to anything; use "x" <> "x"'
    ):
        condition("x = 'NaN'", table.schema)


@pytest.mark.parametrize(
    ("type", "literal"),
    [
        (pa.timestamp("s"), "2024-01-31 12:00:00"),
        (pa.timestamp("ms", "America/New_York"), "2024-01-31 07:00-05"),
        (pa.timestamp("us"), "2024-01-31T12:00:00.000000Z"),
        (pa.timestamp("ns", "UTC"), "2024-1-31 12:00 UTC"),
        (pa.timestamp("us", "+05:30"), "2024-01-31 17:30:00+0530"),
    ],
)
def test_the_zone_of_a_moment_is_utc_unless_it_has_one(type, literal):
    noon = 1_706_702_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[type.unit]
    values = pa.array([noon - 1, noon, noon + 1, None], pa.int64()).view(type)
    wanted = [values[1].as_py()]
    assert filtered(values, f"x = '{literal}'") == wanted
    assert filtered(values, f"x >= timestamp '{literal}' and x <= '{literal}'") == wanted


def test_moments_between_the_steps_of_a_column():
    values = pa.array([0, 1, 2], pa.timestamp("s"))
    first, second, third = values.to_pylist()
    assert filtered(values, "x > '1970-01-01 00:00:00.999999999'") == [second, third]
    assert filtered(values, "x <= '1970-01-01 00:00:01.000000000001'") == [first, second]
    assert filtered(values, "x = '1970-01-01 00:00:01.000000000001'") == []


def test_moments_beyond_the_range_of_a_column():
    values = pa.array([0, None], pa.timestamp("ns"))
    assert filtered(values, "x < '9999-12-31'") == [values[0].as_py()]
    assert filtered(values, "x > '0001-01-01'") == [values[0].as_py()]
    assert filtered(values, "x > '9999-12-31' or x = '0001-01-01'") == []


def test_dates_in_milliseconds():
    values = pa.array(DAYS, pa.date64())
    assert filtered(values, "x >= '2024-01-30'") == DAYS[-2:]
    assert filtered(values, "x = date '2024-01-02'") == [DAYS[2]]


@pytest.mark.parametrize(
    "type", [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
)
def test_times_of_day(type):
    values = pa.array([datetime.time(9), datetime.time(12, 30), None], type)
    assert filtered(values, "x > '9:00'") == [datetime.time(12, 30)]
    assert filtered(values, "x < time '12:29:59.9999'") == [datetime.time(9)]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", "ab", None, "b"], pa.large_string()),
        pa.array(["a", "ab", None, "b"]).dictionary_encode(),
    ],
    ids=["large", "dictionary"],
)
def test_text_of_other_formats(array):
    assert filtered(array, "x = 'a'") == ["a"]
    assert filtered(array, "x >= 'ab'") == ["ab", "b"]
    assert filtered(array, "x in ('b', 'c')") == ["b"]
    assert filtered(array, "x not in ('b', 'c')") == ["a", "ab"]
    assert filtered(array, "x like 'a_'") == ["ab"]
    assert filtered(array, "x not like 'a%'") == ["b"]


def test_bytes_of_one_length():
    values = pa.array([b"ab", b"cd", None], pa.binary(2))
    assert filtered(values, "x = x'6162'") == [b"ab"]
    assert filtered(values, "x > 'b'") == [b"cd"]
    assert filtered(values, "x not in (x'61', 'ab')") == [b"cd"]


def test_a_column_without_a_type_is_null():
    values = pa.nulls(2)
    assert filtered(values, "x is null") == [None, None]
    for text in ("x = 1", "not x = 1", "x in ('a')", "x not like 'a'", "x = x"):
        assert filtered(values, text) == []


@pytest.mark.parametrize(
    ("one", "other", "text"),
    [
        (pa.array([2**53 + 1]), pa.array([1.5]), "a > b"),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([-1]), "a > b"),
        (pa.array([2**62]), pa.array([Decimal("0.5")], pa.decimal128(38, 37)), "a > b"),
        (pa.array([Decimal(10**37)], pa.decimal128(38, 0)), pa.array([Decimal(1)], pa.decimal128(38, 37)), "a > b"),
        (pa.array([Decimal("1.50")]), pa.array([1.5]), "a = b"),
        (pa.array([1], pa.date32()), pa.array([86_400_000], pa.date64()), "a = b"),
        (pa.array([1], pa.date32()), pa.array([86_400], pa.timestamp("s", "Asia/Tokyo")), "a = b"),
        (pa.array([1], pa.timestamp("ms")), pa.array([999_999], pa.timestamp("ns", "UTC")), "a > b"),
        (pa.array([1], pa.time32("s")), pa.array([1_000_000], pa.time64("us")), "a = b"),
        (pa.array(["a"]), pa.array(["a"], pa.large_string()), "a = b"),
        (pa.array([b"a"]), pa.array([b"a"], pa.binary(1)), "a = b"),
        (pa.array(["a"]), pa.array(["a"]).dictionary_encode(), "a = b"),
    ],
)  # fmt: skip
def test_columns_of_different_types(one, other, text):
    table = pa.table({"a": one, "b": other})
    assert table.filter(condition(text, table.schema)).num_rows == 1
    assert table.filter(condition(f"not {text}", table.schema)).num_rows == 0


# --- names


def test_names_are_as_written():
    text = 'price > 1 and "a.b-c" = 1 or `say "hi"` = 2 or "x""y" in (Price) or a.b$1 = 1'
    assert parse(text).names == ("price", "a.b-c", 'say "hi"', 'x"y', "Price", "a.b$1")
    assert parse("price > 1 or price < 0 or ü_1 = 1").names == ("price", "ü_1")
    assert parse("true").names == ()


@pytest.mark.parametrize("name", ["date", "time", "timestamp", "escape", "x", "X1", "_"])
def test_words_that_are_columns_too(name):
    table = pa.table({name: pa.array([DAYS[0], DAYS[4], None])})
    expression = condition(f"{name} > '2024-01-01' and {name} < date '2030-01-01'", table.schema)
    assert table.filter(expression).num_rows == 1


def test_keywords_are_columns_in_quotes():
    table = pa.table({"in": [1, 2], "And": [True, True]})
    assert table.filter(condition('"in" IN (1) AnD "And"', table.schema)).num_rows == 1


def test_a_name_with_quotes_is_found(tmp_path):
    table = pa.table({'a"b.c-d': [1, 2, 3], "`": [1, 1, 1]})
    fm.write_table(table, tmp_path / "f", write_statistics=True)
    expression = condition('"a""b.c-d" >= 2 and ```` = 1', table.schema)
    assert fm.read_table(tmp_path / "f", filters=expression).num_rows == 2


def test_an_unknown_column_has_close_ones():
    with pytest.raises(
        ColumnNotFoundError, match=r"^no column named 'prise'; did you mean 'price'"
    ):
        condition("prise > 5")


@pytest.mark.parametrize(
    "text", ["kind = abc", 'kind = "abc"', "kind in ('x', abc)", "kind in (abc)"]
)
def test_an_unknown_column_that_may_be_text(text):
    hint = r"^no column named 'abc'; if you mean the text 'abc', write it in single quotes$"
    with pytest.raises(ColumnNotFoundError, match=hint):
        condition(text)
    close = r"'kin'; did you mean 'kind'\? if you mean the text 'kin', write it in single quotes$"
    with pytest.raises(ColumnNotFoundError, match=close):
        condition(text.replace("abc", "kin"))


def test_an_unknown_column_that_is_no_text():
    with pytest.raises(ColumnNotFoundError, match=r"^no column named 'abc'$"):
        condition("abc > 5")


@pytest.mark.parametrize(
    "name",
    ["case", "if", "any", "order", "group", "values", "interval", "select", "at", "left", "next"],
)
def test_words_of_sql_are_names(name):
    table = pa.table({name: [1, 2]})
    assert table.filter(condition(f"{name} > 1 and 1 < {name}", table.schema)).num_rows == 1


# --- what cannot be understood


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 1, "the condition is empty"),
        ("  ", 1, "the condition is empty"),
        ("price > ", 9, "expected a column or a value, not the end"),
        ("price >", 8, "expected a column or a value, not the end"),
        ("> 5", 1, "expected a column or a value, not '>'"),
        ("price => 5", 7, "unknown operator '=>'; the operators are = != <> < <= > >="),
        ("price =! 5", 8, "'!' is not supported in a condition"),
        ("price && 5", 7, "'&' is not supported in a condition"),
        ("price * 2 > 5", 7, "'*' is not supported in a condition"),
        ("price > 5 + 2", 11, "arithmetic is not supported in a condition"),
        ("price - 5 > 2", 7, "arithmetic is not supported in a condition"),
        ("price > 5 5", 11, "expected 'and', 'or' or the end, not '5'"),
        ("price > 9abc", 10, "expected 'and', 'or' or the end, not 'abc'"),
        ("price > 1.2.3", 12, "expected 'and', 'or' or the end, not '.3'"),
        ("price > 5e", 9, "invalid number '5e'"),
        ("price > 0x10", 10, "expected 'and', 'or' or the end, not 'x10'"),
        ("0 < price < 5", 1, "expected a column or a value, not a condition"),
        ("price price", 7, "expected 'and', 'or' or the end, not 'price'"),
        ("(price price)", 2, "this syntax is not supported in a condition"),
        ("price; drop", 6, "';' is not supported in a condition"),
        ("price > 5;", 10, "';' is not supported in a condition"),
        ("price # 5", 7, "'#' is not supported in a condition"),
        ("price > 5 -- 6", 11, "arithmetic is not supported in a condition"),
        ("price > 5 /* 6 */", 11, "'/' is not supported in a condition"),
        ("{# 6 #} price > 5", 9, "comments are not supported in a condition"),
        ("price > ?", 9, "'?' is not supported in a condition"),
        ("price[1] > 5", 6, "'[' is not supported in a condition"),
        ("price::int > 5", 6, "':' is not supported in a condition"),
        ("abs(price) > 5", 1, "functions are not supported in a condition: abs(...)"),
        ("price = any (1)", 9, "functions are not supported in a condition: any(...)"),
        ("price > date(5)", 9, "functions are not supported in a condition: date(...)"),
        ("exists (1)", 1, "functions are not supported in a condition: exists(...)"),
        ("price in (select 1)", 18, "expected ')', not '1'"),
        ("case when ok then ok end", 6, "expected 'and', 'or' or the end, not 'when'"),
        ("price is distinct from 5", 10, "expected 'null' or 'not null' after 'is', not 'distinct'"),
        ("price at time zone 'x' > 5", 7, "expected 'and', 'or' or the end, not 'at'"),
        ("price between symmetric 1 and 5", 25, "expected 'and', not '1'"),
        ("made > interval '1' day", 17, "cannot compare column 'made' of type timestamp[ms] with"),
        ("took > interval 1 day", 8, "write a duration in quotes, e.g. interval '90 minutes'"),
        ("took > interval '1 month'", 17, "invalid duration '1 month' (expected e.g. '90 minutes' or"),
        ("took > 'soon'", 8, "invalid duration 'soon' (expected e.g. '90 minutes' or '1 day 02:00:"),
        ("took > 5", 8, "cannot compare column 'took' of type duration[us] with 5; write a duration,"),
        ("info = 'x'", 8, "cannot compare column 'info' of type struct<i: int32, took: duration[us], at: s"),
        ("items.x = 1", 1, "'items.x' is inside a list or map, and has many values in a row; cond"),
        ('info. = 1', 1, "'info.' is not supported in a condition"),
        ('"info". = 1', 7, "'.' is not supported in a condition"),
        ("kind = 'a' 'b'", 12, "expected 'and', 'or' or the end, not \"'b'\""),
        ("kind = 'a' || 'b'", 12, "'|' is not supported in a condition"),
        ("(i, j) = (1, 2)", 2, "expected a column or a value, not a condition"),
        ("(price > 5", 11, "expected ')', not the end"),
        ("ok and ((i > 5) or i < 1", 25, "expected ')', not the end"),
        ("price > 5)", 10, "expected 'and', 'or' or the end, not ')'"),
        ("()", 2, "expected a column or a value, not ')'"),
        ("kind = 'abc", 8, "the quote ' is not closed"),
        ("kind = 'it's'", 13, "the quote ' is not closed"),
        ('"price > 5', 1, 'the quote " is not closed'),
        ("not", 4, "expected a column or a value, not the end"),
        ("and", 1, "expected a column or a value, not 'and'"),
        ("ok and", 7, "expected a column or a value, not the end"),
        ("ok or or ok", 7, "expected a column or a value, not 'or'"),
        ("price in ()", 11, "expected a column or a value, not ')'"),
        ("price in 5", 10, "expected '(' after 'in'"),
        ("price in (1,", 13, "expected a column or a value, not the end"),
        ("price in (1,)", 13, "expected a column or a value, not ')'"),
        ("price in (,1)", 11, "expected a column or a value, not ','"),
        ("price in (1 2)", 13, "expected ')', not '2'"),
        ("price between 1", 16, "expected 'and', not the end"),
        ("price between 1 2", 17, "expected 'and', not '2'"),
        ("price between 1 or 2", 17, "expected 'and', not 'or'"),
        ("price between 1 and", 20, "expected a column or a value, not the end"),
        ("price is 5", 10, "expected 'null' or 'not null' after 'is', not '5'"),
        ("price is true", 10, "expected 'null' or 'not null' after 'is', not 'true'"),
        ("price is not", 10, "expected 'null' or 'not null' after 'is', not 'not'"),
        ("price not 5", 11, "expected 'in', 'between' or 'like' after 'not', not '5'"),
        ("price not null", 11, "expected 'in', 'between' or 'like' after 'not', not 'null'"),
        ("kind like 5", 11, "expected a pattern in quotes, such as 'x%', not '5'"),
        ("kind like 'a' escape", 21, "expected a character in quotes after 'escape', not the end"),
        ("kind like 'a' escape 'ab'", 22, "escape must be one character, not \"'ab'\""),
        ("kind like 'ab!' escape '!'", 11, "the pattern 'ab!' ends with its escape character"),
        ("kind = 'a' escape '!'", 12, "expected 'and', 'or' or the end, not 'escape'"),
        ("'a' like 'a'", 1, "expected a column before 'like', not 'a'"),
        ("5 is null", 1, "expected a column before 'is', not 5"),
        ("(i > 5) > 5", 2, "expected a column or a value, not a condition"),
        ("(i > 5) is null", 2, "expected a column or a value, not a condition"),
        ("1 = 1", 1, "neither 1 nor 1 is a column"),
        ("5", 1, "5 is not a condition; compare it"),
        ("ok or 'a'", 7, "'a' is not a condition; compare it"),
        ("price > -'a'", 10, "expected a number after '-', not \"'a'\""),
        ("price > - -5", 11, "expected a number after '-', not '-'"),
        ("price > -price", 10, "expected a number after '-', not 'price'"),
        ("raw = x'0'", 7, "x'0' does not consist of bytes in hexadecimal digits, such as x'00ff'"),
        ("raw = x'zz'", 7, "x'zz' does not consist of bytes in hexadecimal digits"),
        ("day = date '2024-02-30'", 12, "invalid date or timestamp '2024-02-30' (expected e.g. '2024-01-31'"),
        ("made > timestamp '12:00'", 18, "invalid date or timestamp '12:00'"),
        ("clock > time '24:00'", 14, "invalid time '24:00' (expected e.g. '12:00'"),
        ("i > " + "9" * 1001, 5, "the number has more than 1000 characters"),
        ("kind = '\udcff'", 9, "invalid character (not UTF-8)"),
    ],
)  # fmt: skip
def test_malformed(text, at, message):
    schema = pa.schema(
        [
            *TABLE.schema,
            *((name, pa.bool_()) for name in ("select", "case", "distinct", "interval")),
            ("items", pa.list_(pa.struct([("x", pa.int32())]))),
        ]
    )
    with pytest.raises(WhereError) as caught:
        condition(text, schema.append(pa.field("symmetric", pa.int32())))
    assert str(caught.value).startswith(f"condition, character {at}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("i = 'abc'", 5, "column 'i' is int32, and 'abc' is not a valid number"),
        ("i = '0x1'", 5, "column 'i' is int32, and '0x1' is not a valid number"),
        ("i = 'inf'", 5, "column 'i' is int32, and 'inf' is not a valid number"),
        ("i = true", 5, "cannot compare column 'i' of type int32 with true"),
        ("kind = 5", 8, "cannot compare column 'kind' of type string with 5"),
        ("5 = kind", 1, "cannot compare column 'kind' of type string with 5"),
        ("kind in ('a', 5)", 15, "cannot compare column 'kind' of type string with 5"),
        ("kind between 1 and 2", 14, "cannot compare column 'kind' of type string with 1"),
        ("kind = x'00'", 8, "cannot compare column 'kind' of type string with x'00'"),
        ("kind = date '2024-01-31'", 13, "cannot compare column 'kind' of type string with"),
        ("ok = 1", 6, "cannot compare column 'ok' of type bool with 1"),
        ("ok = 'true'", 6, "cannot compare column 'ok' of type bool with 'true'"),
        ("day = 20240131", 7, "cannot compare column 'day' of type date32[day] with 20240131"),
        ("day = 'tomorrow'", 7, "invalid date or timestamp 'tomorrow'"),
        ("made >= '2024-01-31 25:00'", 9, "invalid date or timestamp '2024-01-31 25:00'"),
        ("seen >= '2024-01-31 12:00+99'", 9, "invalid date or timestamp '2024-01-31 12:00+99'"),
        ("clock = 'noon'", 9, "invalid time 'noon'"),
        ("clock = '2024-01-31'", 9, "invalid time '2024-01-31'"),
        ("i and ok", 1, "column 'i' is int32; a condition must be boolean"),
        ("not kind", 5, "column 'kind' is string; a condition must be boolean"),
        ("i like '1%'", 1, "column 'i' is int32; 'like' requires a text column"),
        ("i = kind", 1, "cannot compare column 'i' of type int32 with column 'kind' of type string"),
        ("day = clock", 1, "cannot compare column 'day' of type date32[day] with column 'clock'"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_their_column(text, at, message):
    with pytest.raises(WhereError) as caught:
        condition(text)
    assert str(caught.value).startswith(f"condition, character {at}: {message}")


@pytest.mark.parametrize(
    "type", [pa.list_(pa.int8()), pa.map_(pa.string(), pa.int8()), pa.struct([("a", pa.int8())])]
)
def test_nested_columns_are_null_or_not_and_nothing_else(type):
    schema = pa.schema([("x", type)])
    for text in ("x = 1", "x in ('a')", "x > null and x = 1", "x < x", "x like 'a'", "x"):
        with pytest.raises(WhereError, match=r"column 'x' (is|of type)"):
            condition(text, schema)
    empty = schema.empty_table()
    assert empty.filter(condition("x is null or x is not null", schema)).num_rows == 0


# --- what is long or deep


def test_parentheses_are_nested_so_deep_and_no_deeper(path):
    text = "not (" * MAX_DEPTH + "i > 9.5" + ")" * MAX_DEPTH
    assert rows(text, path) == rows("not (i > 9.5)" if MAX_DEPTH % 2 else "i > 9.5", path)
    for deep in ("(" * 10_000, "i > " + "(" * 10_000, "i in " + "(" * 10_000, "not (" * 10_000):
        with pytest.raises(WhereError, match=f"nested more than {MAX_DEPTH} levels deep"):
            parse(deep)


def test_a_stack_that_is_nearly_full_is_no_recursion_error():
    text = "(" * MAX_DEPTH + "i > 9.5" + ")" * MAX_DEPTH

    def parsed(frames):
        return parsed(frames - 1) if frames else parse(text)

    with pytest.raises(WhereError, match="nested too deeply"):
        parsed(sys.getrecursionlimit() - 300)


def test_alternations_of_the_greatest_depth(path, duck):
    text = "i = 1"
    for step in range(MAX_DEPTH):
        text = f"(tiny > {step} {'or' if step % 2 else 'and not'} {text})"
    assert rows(text, path) == rows_of_duckdb(text, duck)


def test_many_negations(path):
    assert rows("not " * 10_001 + "ok", path) == rows("not ok", path)
    assert rows("ok is null or not " + "not " * 10_000 + "ok", path) == rows(
        "ok is null or not ok", path
    )
    for text in ("ok is not not null", "i not not in (1)", "kind not not like 'a'"):
        with pytest.raises(WhereError, match=r"expected '(null|in)'"):
            condition(text)


@pytest.mark.parametrize("word", ["or", "and"])
def test_chains_are_so_long_and_no_longer(word, path, duck):
    sign = "=" if word == "or" else "<>"
    text = f" {word} ".join(f"i {sign} {number}" for number in range(MAX_COMPARISONS))
    assert rows(text, path) == rows_of_duckdb(text, duck)
    with pytest.raises(WhereError, match=r"more than 1000 comparisons; 'in .* any number"):
        condition(f" {word} ".join(f"i {sign} {number}" for number in range(5000)))
    with pytest.raises(WhereError, match="more than 1000 comparisons"):
        condition(" or ".join(["kind like '%a'"] * 1001))


def test_a_long_list_of_values(path, duck):
    listed = ", ".join(map(str, range(10_000)))
    assert rows(f"i in ({listed})", path) == rows_of_duckdb("i >= 0 and i < 10000", duck)


def test_a_long_text(path):
    assert rows(f"kind = '{'a' * 100_000}'", path) == []
    with pytest.raises(WhereError, match="the quote ' is not closed"):
        parse("kind = '" + "''" * 100_000)


# --- row groups are skipped


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("x > 69.5", 3),
        ("not x <= 69.5", 3),
        ("70 <= x", 3),
        ("x in (5, 15, 1e300)", 2),
        ("x between 5 and 15", 2),
        ("x < 10 and (s = 's00' or s is null)", 1),
        ("s like 's9%'", 1),
        ("s like 's9_'", 1),
        ("s like 's95'", 1),
        ("not (s not like 's9%')", 1),
        ("d >= '1970-03-02'", 4),
        ("ok", 5),
        ("not ok", 5),
        ("x = 1000", 0),
        ("x = 9.5 and s <> ''", 0),
        ("info.s like 's9%'", 1),
        ("info.in.x between 5 and 15", 2),
        ('"info"."in".x is null', 1),
        ("took > interval '69.5 milliseconds'", 3),
        ("took <= '9 milliseconds'", 1),
        ("big >= 9223372036854775898", 1),
        ("big < 9223372036854775808", 0),
        ("half > 69.5", 3),
        ("at < time '00:00:00.000000010'", 1),
        ("kind = 's42'", 1),
    ],
)
def test_row_groups_are_skipped(text, groups, tmp_path):
    table = pa.table(
        {
            "x": pa.array(range(100), pa.int32()),
            "s": [f"s{number:02}" for number in range(100)],
            "d": pa.array(range(100), pa.date32()),
            "ok": [number >= 50 for number in range(100)],
            "took": pa.array(range(100), pa.duration("ms")),
            "big": pa.array([2**63 + number for number in range(100)], pa.uint64()),
            "half": pa.array(range(100), pa.float16()),
            "at": pa.array(range(100), pa.time64("ns")),
        }
    )
    table = table.append_column("kind", table["s"].dictionary_encode())
    inner = pa.StructArray.from_arrays(
        [table["x"].combine_chunks()], ["x"], mask=pa.array([i < 3 for i in range(100)])
    )
    info = pa.StructArray.from_arrays([table["s"].combine_chunks(), inner], ["s", "in"])
    table = table.append_column("info", info)
    fm.write_table(table, tmp_path / "f", row_group_size=10, write_statistics=True)
    files = fileset.FileSet(tmp_path / "f")
    query = files.query(["x"], parse(text).expression(files.columns))
    assert sum(len(one.groups) for one in files.plan(query)) == groups
