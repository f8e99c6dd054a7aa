"""The language of --where: what DuckDB says is true, and messages for what cannot be understood."""

import datetime
import math
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st

import fastmosaic as fm
from fastmosaic.dataset import fileset
from fastmosaic.errors import ColumnNotFoundError
from fastmosaic.query.where import MAX_COMPARISONS, MAX_DEPTH, WhereError, parse

UTC = datetime.UTC
DAYS = [datetime.date(1969, 12, 30), *(datetime.date(2024, 1, day) for day in (1, 2, 30, 31))]
MOMENTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000),
    datetime.datetime(2024, 1, 31),
    datetime.datetime(2024, 1, 31, 12, 0, 0, 500_000),
    datetime.datetime(2024, 1, 31, 12, 0, 1),
]
CLOCKS = [datetime.time(0), datetime.time(12), datetime.time(12, 0, 0, 500_000)]
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
    "kind": (pa.string(), TEXTS, "text"),
    "other name": (pa.string(), TEXTS, "text"),
    "raw": (pa.binary(), [b"", b"\0\xff", b"a", b"ab", b"\xff"], "bytes"),
    "ok": (pa.bool_(), [True, False], "bool"),
}  # fmt: skip
NUM_ROWS = 96


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
    return pa.table(columns)


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
    def field(name):
        if schema.get_field_index(name) < 0:
            raise ColumnNotFoundError.for_name(name, schema.names)
        return schema.field(name)

    return parse(text).expression(field)


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
        edges = [str(2**31), str(2**63), str(2**63 - 1), str(-(2**63) - 1), str(2**53 + 1)]
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
    if family == "bytes":
        return draw(st.sampled_from(["x''", "x'00ff'", "x'61'", "X'FF'", "'ab'"]))
    if family == "bool":
        return draw(st.sampled_from(["true", "FALSE"]))
    return quoted(draw(st.sampled_from([*TEXTS, "aa", "z"])))


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def family_of(name):
    return COLUMNS[name][2]


@st.composite
def predicates(draw):
    name = draw(st.sampled_from(sorted(COLUMNS)))
    family = family_of(name)
    column = f'"{name}"' if " " in name or draw(st.booleans()) else name
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
        other = draw(st.sampled_from(sorted(alike)))
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
    with pytest.raises(WhereError, match='character 5: NaN equals nothing; "x" <> "x" finds it'):
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
    with pytest.raises(
        ColumnNotFoundError, match="no column named 'abc'; text is in single quotes"
    ):
        condition('kind = "abc"')


# --- what cannot be understood


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 1, "expected a column or a value, not the end"),
        ("price > ", 9, "expected a column or a value, not the end"),
        ("price >", 8, "expected a column or a value, not the end"),
        ("> 5", 1, "expected a column or a value, not '>'"),
        ("price => 5", 7, "there is no operator '=>'"),
        ("price =! 5", 7, "there is no operator '=!'"),
        ("price && 5", 7, "there is no operator '&&'"),
        ("price * 2 > 5", 7, "there is no operator '*'"),
        ("price > 5 + 2", 11, "expected 'and', 'or' or the end, not '+'"),
        ("price > 5 5", 11, "expected 'and', 'or' or the end, not '5'"),
        ("price > 9abc", 10, "expected 'and', 'or' or the end, not 'abc'"),
        ("price > 1.2.3", 12, "expected 'and', 'or' or the end, not '.3'"),
        ("0 < price < 5", 11, "expected 'and', 'or' or the end, not '<'"),
        ("price price", 7, "expected 'and', 'or' or the end, not 'price'"),
        ("price; drop", 6, "';' means nothing here"),
        ("price # 5", 7, "'#' means nothing here"),
        ("(price > 5", 11, "expected ')' for the '(' at character 1, not the end"),
        ("ok and ((i > 5) or i < 1", 25, "expected ')' for the '(' at character 8, not the end"),
        ("price > 5)", 10, "expected 'and', 'or' or the end, not ')'"),
        ("()", 2, "expected a column or a value, not ')'"),
        ("kind = 'abc", 8, "the ' has no other that ends it"),
        ("kind = 'it's'", 13, "the ' has no other that ends it"),
        ('"price > 5', 1, 'the " has no other that ends it'),
        ("not", 4, "expected a column or a value, not the end"),
        ("and", 1, "expected a column or a value, not 'and'; a column of that name is \"and\""),
        ("ok and", 7, "expected a column or a value, not the end"),
        ("ok or or ok", 7, "expected a column or a value, not 'or'"),
        ("price in ()", 11, "expected a column or a value, not ')'"),
        ("price in 5", 10, "expected '(' after 'in', not '5'"),
        ("price in (1,", 13, "expected a column or a value, not the end"),
        ("price in (1 2)", 13, "expected ')' for the '(' at character 10, not '2'"),
        ("price between 1", 16, "expected 'and', not the end"),
        ("price between 1 or 2", 17, "expected 'and', not 'or'"),
        ("price is 5", 10, "expected 'null', not '5'"),
        ("price is not", 13, "expected 'null', not the end"),
        ("price not 5", 11, "expected 'in', 'between' or 'like' after 'not', not '5'"),
        ("price not is null", 11, "expected 'in', 'between' or 'like' after 'not', not 'is'"),
        ("kind like 5", 11, "expected a pattern in quotes, such as 'x%', not '5'"),
        ("kind like 'a' escape", 21, "expected a character in quotes, not the end"),
        ("kind like 'a' escape 'ab'", 22, "the escape is one character, not 'ab'"),
        ("kind like 'ab!' escape '!'", 11, "the pattern 'ab!' ends in its escape"),
        ("'a' like 'a'", 1, "expected a column before 'like', not 'a'"),
        ("5 is null", 1, "expected a column before 'is', not 5"),
        ("(i > 5) > 5", 9, "'>' follows a condition, not a column or a value"),
        ("(i > 5) is null", 9, "'is' follows a condition, not a column or a value"),
        ("1 = 1", 3, "neither 1 nor 1 is a column"),
        ("5", 2, "expected a comparison after '5', not the end"),
        ("ok or 'a'", 10, "expected a comparison after \"'a'\", not the end"),
        ("price > -'a'", 10, "expected a number after '-', not \"'a'\""),
        ("price > - -5", 11, "expected a number after '-', not '-'"),
        ("raw = x'0'", 7, "x'0' is not bytes in hexadecimal digits, such as x'00ff'"),
        ("raw = x'zz'", 7, "x'zz' is not bytes in hexadecimal digits"),
        ("day = date '2024-02-30'", 12, "'2024-02-30' is no date or timestamp, such as '2024-01-31'"),
        ("made > timestamp '12:00'", 18, "'12:00' is no date or timestamp"),
        ("clock > time '24:00'", 14, "'24:00' is no time, such as '12:00'"),
        ("i > " + "9" * 1001, 5, "a number of more than 1000 characters"),
        ("kind = '\udcff'", 9, "not a character of UTF-8"),
    ],
)  # fmt: skip
def test_malformed(text, at, message):
    with pytest.raises(WhereError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"condition, character {at}: {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("i = 'abc'", 5, "column 'i' is int32, and 'abc' is no number"),
        ("i = '0x1'", 5, "column 'i' is int32, and '0x1' is no number"),
        ("i = 'inf'", 5, "column 'i' is int32, and 'inf' is no number"),
        ("i = true", 5, "column 'i' is int32, which is not compared with true"),
        ("kind = 5", 8, "column 'kind' is string, which is not compared with 5"),
        ("5 = kind", 1, "column 'kind' is string, which is not compared with 5"),
        ("kind in ('a', 5)", 15, "column 'kind' is string, which is not compared with 5"),
        ("kind between 1 and 2", 14, "column 'kind' is string, which is not compared with 1"),
        ("kind = x'00'", 8, "column 'kind' is string, which is not compared with x'00'"),
        ("kind = date '2024-01-31'", 13, "column 'kind' is string, which is not compared with"),
        ("ok = 1", 6, "column 'ok' is bool, which is not compared with 1"),
        ("ok = 'true'", 6, "column 'ok' is bool, which is not compared with 'true'"),
        ("day = 20240131", 7, "column 'day' is date32[day], which is not compared with 20240131"),
        ("day = 'tomorrow'", 7, "'tomorrow' is no date or timestamp, such as '2024-01-31'"),
        ("made >= '2024-01-31 25:00'", 9, "'2024-01-31 25:00' is no date or timestamp"),
        ("seen >= '2024-01-31 12:00+99'", 9, "'2024-01-31 12:00+99' is no date or timestamp"),
        ("clock = 'noon'", 9, "'noon' is no time, such as '12:00'"),
        ("clock = '2024-01-31'", 9, "'2024-01-31' is no time"),
        ("i and ok", 1, "column 'i' is int32, and alone no condition"),
        ("not kind", 5, "column 'kind' is string, and alone no condition"),
        ("i like '1%'", 1, "column 'i' is int32; 'like' is for text"),
        ("i = kind", 1, "column 'i' is int32, which is not compared with 'kind', which is string"),
        ("day = clock", 1, "column 'day' is date32[day], which is not compared with 'clock'"),
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
        with pytest.raises(WhereError, match="column 'x' is"):
            condition(text, schema)
    empty = schema.empty_table()
    assert empty.filter(condition("x is null or x is not null", schema)).num_rows == 0


# --- what is long or deep


def test_parentheses_are_nested_so_deep_and_no_deeper(path):
    text = "(" * MAX_DEPTH + "i > 9.5" + ")" * MAX_DEPTH
    assert rows(text, path) == rows("i > 9.5", path)
    for deep in ("(" * 10_000, "i > " + "(" * 10_000, "i in " + "(" * 10_000, "not (" * 10_000):
        with pytest.raises(WhereError, match=f"nested more than {MAX_DEPTH} deep"):
            parse(deep)


def test_alternations_of_the_greatest_depth(path, duck):
    text = "i = 1"
    for step in range(MAX_DEPTH - 1):
        text = f"(tiny > {step} {'or' if step % 2 else 'and not'} {text})"
    assert rows(text, path) == rows_of_duckdb(text, duck)


def test_many_negations(path):
    assert rows("not " * 10_001 + "ok", path) == rows("not ok", path)


@pytest.mark.parametrize("word", ["or", "and"])
def test_chains_are_so_long_and_no_longer(word, path, duck):
    sign = "=" if word == "or" else "<>"
    text = f" {word} ".join(f"i {sign} {number}" for number in range(MAX_COMPARISONS))
    assert rows(text, path) == rows_of_duckdb(text, duck)
    with pytest.raises(WhereError, match=r"more than 1000 comparisons; 'in .* takes any number"):
        parse(f" {word} ".join(f"i {sign} {number}" for number in range(10_000)))
    with pytest.raises(WhereError, match="more than 1000 comparisons"):
        parse(" or ".join(["kind like '%a'"] * 1001))


def test_a_long_list_of_values(path, duck):
    listed = ", ".join(map(str, range(100_000)))
    assert rows(f"i in ({listed})", path) == rows_of_duckdb("i >= 0 and i < 100000", duck)


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
    ],
)
def test_row_groups_are_skipped(text, groups, tmp_path):
    table = pa.table(
        {
            "x": pa.array(range(100), pa.int32()),
            "s": [f"s{number:02}" for number in range(100)],
            "d": pa.array(range(100), pa.date32()),
            "ok": [number >= 50 for number in range(100)],
        }
    )
    fm.write_table(table, tmp_path / "f", row_group_size=10, write_statistics=True)
    files = fileset.FileSet(tmp_path / "f")
    query = files.query(["x"], condition(text, table.schema))
    assert sum(len(one.groups) for one in files.plan(query)) == groups
