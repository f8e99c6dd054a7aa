"""Formulas: the same values as DuckDB computes, and errors that name the column or the function."""

import datetime as dt
import decimal

import duckdb
import pyarrow as pa
import pytest

from fastmosaic.errors import ColumnNotFoundError
from fastmosaic.query.filters import project
from fastmosaic.query.formula import FormulaError, parse, parse_assignment
from fastmosaic.query.rows import one_batch
from fastmosaic.schemas.union import Fixed

TABLE = pa.table(
    {
        "a": pa.array([1, 2, None, -7, 0], pa.int32()),
        "b": [2.5, None, 1.0, -0.5, 0.0],
        "f": pa.array([1.5, 2.5, 3.5, None, 0], pa.float32()),
        "k": ["x", " y ", None, "X%", "zz"],
        "u": pa.array([1, 2, 3, 4, 5], pa.uint8()),
        "d": [dt.date(2024, 1, 31), dt.date(2024, 2, 29), None, dt.date(1999, 12, 31), dt.date.min],
        "ts": pa.array(
            [dt.datetime(2024, 1, 31, 12, 30, 15), None, *[dt.datetime(2000, 1, 1)] * 3],
            pa.timestamp("us"),
        ),
        "m": pa.array(
            [
                None if one is None else decimal.Decimal(one)
                for one in ("1.25", None, "-3.1", "0", "9")
            ],
            pa.decimal128(5, 2),
        ),
        "flag": [True, False, None, True, False],
        "s": [{"x": 1, "y": 2}, None, {"x": 3, "y": None}, {"x": 5, "y": 6}, {"x": 7, "y": 8}],
        "odd name": [1, 2, 3, 4, 5],
    }
)


def computed(text):
    expression = parse(text).expression(Fixed(TABLE.schema))
    return project(one_batch(TABLE), {"x": expression}).column(0)


@pytest.mark.parametrize(
    "text",
    [
        *("a + 1", "1 - a", "-a", "- (a + 1)", "+a", "a - -1", "a -1", "a * a - 3 * a + 2"),
        *("a / u", "a / 0", "1 / 2 * a", "a % u", "(a + 1) % u", "f * 2", "f / 3", "a + f"),
        *("b * b - a", "m + 1", "m * m", "m / 2", "m + 1.5", "m + b", "m - a", "s.x + s.y"),
        *("k || 'q'", "concat(k, 'q')", "k || k || '''s'", '"odd name" * 2', "`odd name` * 2"),
        "case when a > 0 then 'pos' when a < 0 then 'neg' end",
        "case k when 'x' then 1 when 'zz' then 2 else 0 end",
        "case when flag then case when a > 1 then 2 else 1 end else (case when true then 0 end) end",
        *("if(a > 0, a, b)", "coalesce(a, b, 0)", "coalesce(b, 7)", "ifnull(a, 3)", "nullif(a, 0)"),
        *("abs(a)", "abs(b)", "round(b)", "round(b * 10, -1)", "round(f, 1)", "round(a)"),
        *("round(m, 1) = 1.3", "floor(a)", "ceil(b)", "ceiling(f)", "sqrt(b)", "ln(b)", "log(b)"),
        *(
            "log10(b)",
            "log2(u)",
            "exp(a)",
            "pow(a, 2)",
            "power(2, a)",
            "sin(b)",
            "cos(a)",
            "tan(f)",
            "floor(f)",
            "sqrt(f)",
        ),
        *("least(a, b)", "greatest(a, u, 3)", "least(d, '2000-01-01')", "isnan(b / b)"),
        *("lower(k)", "upper(k)", "trim(k)", "ltrim(k)", "rtrim(k)", "length(k)"),
        *("substring(k, 1, 1)", "substring(k, 2)", "year(d)", "month(ts)", "day(d)", "hour(ts)"),
        *("minute(ts)", "second(ts)", "cast(b as int)", "cast(a as double)", "cast(a as varchar)"),
        *("cast(f as bigint)", "cast(m as double)", "cast(ts as date)", "cast(d as timestamp)"),
        *("cast('12' as int) + a", "cast(a as decimal(10, 2))", "cast(a + 1 as float) / 2"),
        *("a > 1.5", "a = 1.5", "a <> 1.5", "a < 10000000000", "1.5 < a", "a < b", "a = u"),
        *("a is null", "(a + b) is not null", "not flag", "not (a > 1)", "flag and a > 0"),
        *(
            "flag or a > 0",
            "a in (1, 2, null)",
            "a not in (1, 2)",
            "a in (u, 2)",
            "a + 1 in (2, 3)",
        ),
        *("k like 'X%'", "k ilike 'x%'", "k not like 'x'", "k like 'X#%' escape '#'"),
        *(
            "b between 0 and 2",
            "a not between 1 and 2",
            "d >= '2024-01-31'",
            "d > date '2024-01-01'",
        ),
        *(
            "ts - ts",
            "ts + interval '1 day'",
            "ts - interval '90 minutes'",
            "d + interval '1 hour'",
        ),
        *("interval '1 day' + ts", "1", "'text'", "null", "true", "a = null", "1 = 1", "null + a"),
        *("date '2024-01-31'", "timestamp '2024-01-31 12:00:00'", "a + u + a + u"),
    ],
)
def test_values_are_those_of_duckdb(text):
    rows = TABLE  # noqa: F841 - DuckDB finds it by its name
    expected = [row[0] for row in duckdb.sql(f"select {text} from rows").fetchall()]
    assert repr(computed(text).to_pylist()) == repr(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + 1", pa.int64()),
        ("u - 10", pa.int64()),  # DuckDB would overflow uint8
        ("a * 1.5", pa.float64()),  # a decimal in DuckDB
        ("f * 1.5", pa.float32()),
        ("a / 2", pa.float64()),
        ("a > 1", pa.bool_()),
        ("case when flag then 1 else 2.5 end", pa.float64()),
        ("d - d", pa.duration("ms")),  # a number of days in DuckDB
        ("coalesce(a, 0)", pa.int32()),
        ("coalesce(a, 10000000000)", pa.int64()),
    ],
)
def test_types(text, expected):
    assert computed(text).type == expected


def test_a_long_sum():
    text = " + ".join(["a"] * 2000)
    assert computed(text).to_pylist() == [2000, 4000, None, -14000, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k + 1", "character 1: cannot compute column 'k' of type string + 1"),
        ("s + 1", "character 1: cannot compute column 's' of type struct<x: int64, y: int64> + 1"),
        ("k > 1", "character 5: cannot compare column 'k' of type string with 1"),
        ("a = k", "character 1: cannot compare column 'a' of type int32 with column 'k' of type"),
        ("rond(a)", "character 1: unknown function rond; did you mean round?"),
        ("xyz(a)", "character 1: unknown function xyz; there are abs, "),
        ("round(a, b)", "character 10: round requires a whole number, not column 'b'"),
        ("abs(k)", "character 5: abs requires a number, and column 'k' is string"),
        ("abs(a, b)", "character 1: abs has 1 argument, not 2"),
        ("if(flag, 1)", "character 1: if has 3 arguments, not 2"),
        ("substring(k)", "character 1: substring has 2 to 3 arguments, not 1"),
        ("b % 2", "character 1: % requires integers, not column 'b' of type double"),
        ("cast(a as foo)", "character 11: unknown type 'foo'"),
        ("cast(a)", "character 7: expected 'as' and a type, not ')'"),
        ("cast(a as )", "character 11: expected a type and ')', not ')'"),
        ("cast(s as int)", "cannot be computed: Unsupported cast from struct"),
        (
            "case when a then 1 end",
            "character 11: column 'a' is int32; a condition must be boolean",
        ),
        ("case when flag then a else 'x' end", "column 'a' of type int32 and 'x' have no common"),
        ("case when flag then m else a end", "have no common type; cast one of them"),
        ("case when flag then 1", "character 22: expected 'when', 'else' or 'end', not the end"),
        ("case when flag 1 end", "character 18: expected 'then', not 'end'"),
        ("case when (flag then 1 end)", "'then' is not supported in a formula"),
        ("a || k", "character 1: column 'a' is int32, not text; use cast(... as varchar)"),
        ("k like a", "character 8: expected a pattern in quotes"),
        ("a like 'x'", "character 1: column 'a' is int32; 'like' requires text"),
        ("-k", "character 2: column 'k' is string, not a number"),
        ("d + d", "cannot compute column 'd' of type date32[day] + column 'd'"),
        ("a +", "character 4: expected a column or a value, not the end"),
        ("* a", "character 1: expected a column or a value, not '*'"),
        ("a b", "character 3: expected "),
        ("(a", "character 3: expected ')', not the end"),
        ("a)", "character 2: expected the end, not ')'"),
        ("f() + 1", "character 3: expected a column or a value, not ')'"),
        ("a::int", "character 2: ':' is not supported in a formula"),
        ("a as b", "character 3: 'as' is not supported in a formula"),
        ("", "character 1: the formula is empty"),
        ("'open", "character 1: the quote ' is not closed"),
        ("(" * 100 + "a" + ")" * 100, "nested more than 25 levels deep"),
        ("-" * 3000 + "a", "the formula is nested too deeply"),
    ],
)
def test_errors_say_where_and_what(text, message):
    with pytest.raises(FormulaError) as caught:
        computed(text)
    assert str(caught.value).startswith("formula, character ")
    assert message in str(caught.value)
    assert "condition," not in str(caught.value)


def test_an_unknown_column():
    with pytest.raises(ColumnNotFoundError, match="no column named 'flagg'; did you mean 'flag'"):
        computed("flagg and a > 1")
    with pytest.raises(ColumnNotFoundError, match="if you mean the text 'x1', write it in single"):
        computed("k = x1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("9223372036854775807 + u", "overflow"),
        ("a % 0", "divide by zero"),
        ("cast(k as int)", "Failed to parse string"),
        ("cast(b * 1e300 as int)", "truncated"),
    ],
)
def test_values_that_cannot_be_computed(text, message):
    with pytest.raises(pa.ArrowInvalid, match=message):
        computed(text)


@pytest.mark.parametrize(
    ("text", "name", "names"),
    [
        ("ratio = a / b", "ratio", ("a", "b")),
        ('"my ratio"=a', "my ratio", ("a",)),
        ("a = a + 1", "a", ("a",)),
        ("same = a = b", "same", ("a", "b")),
        ("one = 1", "one", ()),
    ],
)
def test_assignments(text, name, names):
    found, formula = parse_assignment(text)
    assert (found, formula.names) == (name, names)


@pytest.mark.parametrize("text", ["a / b", "a", "1 = a", "= a", "a > 1", "'x' = a"])
def test_what_is_no_assignment(text):
    with pytest.raises(FormulaError, match="formula, character"):
        parse_assignment(text)


def test_an_assignment_without_a_formula():
    with pytest.raises(FormulaError, match="expected a column or a value, not the end"):
        parse_assignment("a =")
