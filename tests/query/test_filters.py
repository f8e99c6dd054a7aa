"""Filters: which columns they name, which row groups they may match."""

import datetime
import decimal
import math
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest
from hypothesis import assume, given, settings, strategies as st

from fastmosaic.errors import ColumnNotFoundError
from fastmosaic.query.filters import (
    Statistics,
    fields_of,
    filter_table,
    guarantee,
    matching,
    to_expression,
)

# --- to_expression


def test_an_expression_stays_as_it_is():
    expression = pc.field("a") > 1
    assert to_expression(expression).equals(expression)


def test_a_list_of_tuples_is_a_conjunction():
    expected = (pc.field("a") > 1) & (pc.field("b") == "x")
    assert to_expression([("a", ">", 1), ("b", "==", "x")]).equals(expected)


def test_a_list_of_lists_is_a_disjunction():
    expected = (pc.field("a") > 1) | (pc.field("b") == "x")
    assert to_expression([[("a", ">", 1)], [("b", "==", "x")]]).equals(expected)


@pytest.mark.parametrize(
    "filters", [[], [[]], "a > 1", 5, ("a", ">", 1), [("a",)], [("a", "~", 1)], [("a", "in", 5)]]
)
def test_malformed_filters_say_what_is_accepted(filters):
    with pytest.raises(ValueError, match=r"an Arrow expression, a list of .* tuples, or a list of"):
        to_expression(filters)


def test_the_module_imports_neither_dataset_nor_parquet():
    code = (
        "import fastmosaic.query.filters, sys;"
        "sys.exit(any('pyarrow.' + name in sys.modules for name in ('dataset', 'parquet')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- fields_of


def columns(expression, schema, *, similar=None):
    """The names that `fields_of` returns, with a file that has `schema`."""
    found = fields_of(
        expression,
        lambda text: [name for name in schema.names if name in text],
        schema.field,
        similar,
    )
    return [field.name for field in found]


NUMBERS = pa.schema([(name, pa.int64()) for name in ["a", "ab", "b", "c"]])


def test_a_filter_names_its_columns():
    assert columns((pc.field("a") > 1) | ~pc.field("c").isin([5]), NUMBERS) == ["a", "c"]


def test_a_name_within_another_name_is_not_taken():
    assert columns(pc.field("ab") > 1, NUMBERS) == ["ab"]


def test_a_name_within_a_function_name_is_not_taken():
    schema = pa.schema([("is", pa.int64()), ("a", pa.int64()), ("in", pa.int64())])
    assert columns(pc.field("a").isin([1]), schema) == ["a"]


def test_a_name_within_a_literal_is_not_taken():
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    assert columns(pc.field("a") == "b", schema) == ["a"]


def test_a_name_that_is_also_a_literal_is_taken_once():
    schema = pa.schema([("a", pa.string())])
    assert columns(pc.field("a") == "a", schema) == ["a"]


ODD_NAMES = [" ", "a b", "it's", 'say "x"', "f(x)", ") in ", "a, b", "ü", "列", "a\nb", "a.b", "1"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_found(name):
    schema = pa.schema([(other, pa.int64()) for other in ODD_NAMES])
    assert columns(pc.field(name) > 1, schema) == [name]


@given(st.lists(st.text(st.sampled_from('ab ("'), min_size=1), unique=True, min_size=1), st.data())
def test_exactly_the_columns_of_a_filter_are_found(names, data):
    used = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    schema = pa.schema([(name, pa.int64()) for name in names])
    expression = pc.field(used[0]) == 1
    for name in used[1:]:
        expression &= pc.field(name) > 2
    assert sorted(columns(expression, schema)) == sorted(used)


def test_a_filter_without_a_column_has_none():
    assert columns(pc.scalar(True), NUMBERS) == []


def test_a_filter_without_a_column_fits_a_file_without_columns():
    assert columns(pc.scalar(True), pa.schema([])) == []


def test_only_fields_with_a_name_in_the_filter_are_made():
    made = []

    def field(name):
        made.append(name)
        return pa.field(name, pa.int64())

    fields_of(pc.field("c123") > 1, lambda text: ["c12", "c123"], field)
    assert made == ["c12", "c123"]


class Counted:
    """Stands for a class of pyarrow.dataset, and counts its uses."""

    def __init__(self, monkeypatch, name):
        self.uses = 0
        self._class = getattr(pyarrow.dataset, name)
        monkeypatch.setattr(pyarrow.dataset, name, self)

    def __call__(self, *args):
        self.uses += 1
        return self._class(*args)

    def __getattr__(self, name):
        self.uses += 1
        return getattr(self._class, name)


def test_few_of_many_suspects_are_found_by_halving(monkeypatch):
    schema = pa.schema([(f"c{i}", pa.int64()) for i in range(2000)])
    scanners = Counted(monkeypatch, "Scanner")
    found = fields_of(
        (pc.field("c7") > 1) & (pc.field("c1999") > 1), lambda text: schema.names, schema.field
    )
    assert [field.name for field in found] == ["c7", "c1999"]
    assert scanners.uses < 2 * 2 * math.log2(2000) + 5


def test_a_missing_column_is_named_with_close_matches():
    schema = pa.schema([("price", pa.int64()), ("a", pa.int64())])
    with pytest.raises(ColumnNotFoundError, match=r"no column named 'prise'.*'price'") as caught:
        columns(
            (pc.field("a") > 0) & (pc.field("prise") > 1), schema, similar=lambda _: schema.names
        )
    assert "in the filter ((a > 0) and (prise > 1))" in caught.value.__notes__


@pytest.mark.parametrize("schema", [NUMBERS, pa.schema([])])
def test_a_missing_column_is_named_without_a_list_of_names(schema):
    with pytest.raises(ColumnNotFoundError, match=r"no column named 'prise'\n"):
        columns(pc.field("prise") > 1, schema)


def test_a_nested_reference_is_no_column():
    with pytest.raises(
        ValueError, match=r"does not match the types of its columns: No match for FieldRef.Nested"
    ):
        columns(pc.field("a", "b") > 1, NUMBERS)


def test_a_column_by_position_is_refused():
    with pytest.raises(ValueError, match="refers to a column by position"):
        columns((pc.field(0) > 1) & (pc.field("a") > 1), NUMBERS)


def test_a_literal_that_reads_like_a_position_is_fine():
    schema = pa.schema([("a", pa.string())])
    assert columns(pc.field("a") == "FieldPath(0)", schema) == ["a"]


@pytest.mark.parametrize(
    "expression", [pc.field("a") == "x", pc.field("a").isin(["x"]), pc.field("a") + 1]
)
def test_a_filter_of_the_wrong_type_is_not_a_missing_column(expression):
    with pytest.raises(ValueError, match="does not match the types of its columns") as caught:
        columns(expression, NUMBERS)
    assert not isinstance(caught.value, ColumnNotFoundError)


def test_a_long_filter_is_cut_in_a_message():
    with pytest.raises(ColumnNotFoundError, match="'z'") as caught:
        columns(pc.field("z").isin(["x" * 1000]), NUMBERS)
    assert len(caught.value.__notes__[0]) < 300


# --- guarantee and matching

x = pc.field("x")
UTC = datetime.UTC


def statistics(field, array):
    """What a writer of the format says of a column: see FORMAT.md, §11."""
    values = [value for value in array if value.is_valid]
    if not values:
        return Statistics((field.name,), field.type, len(array), array.null_count, None, None)
    minimum = maximum = values[0]
    for value in values[1:]:
        minimum = value if pc.less(value, minimum).as_py() else minimum
        maximum = value if pc.greater(value, maximum).as_py() else maximum
    return Statistics((field.name,), field.type, len(array), array.null_count, minimum, maximum)


def groups_of(*tables):
    return [
        [statistics(field, table[field.name].combine_chunks()) for field in table.schema]
        for table in tables
    ]


def kept(expression, *columns, type=None):
    """Which of the row groups, each with one column x, are kept."""
    tables = [pa.table({"x": pa.array(column, type)}) for column in columns]
    return matching(expression, groups_of(*tables), tables[0].schema)


def test_without_nulls_the_bounds_hold():
    says = guarantee(Statistics(("x",), pa.int64(), 5, 0, pa.scalar(1), pa.scalar(3)))
    assert says.equals((x >= 1) & (x <= 3))


def test_with_nulls_each_bound_holds_or_the_value_is_null():
    says = guarantee(Statistics(("x",), pa.int64(), 5, 2, pa.scalar(1), pa.scalar(3)))
    assert says.equals(((x >= 1) | x.is_null()) & ((x <= 3) | x.is_null()))


def test_one_value_is_an_equality():
    says = guarantee(Statistics(("x",), pa.string(), 5, 0, pa.scalar("a"), pa.scalar("a")))
    assert says.equals(x == "a")


def test_one_float_is_no_equality():
    says = guarantee(Statistics(("x",), pa.float64(), 5, 0, pa.scalar(0.0), pa.scalar(0.0)))
    assert says.equals((x >= 0.0) & (x <= 0.0))


def test_all_null_is_null():
    assert guarantee(Statistics(("x",), pa.int64(), 5, 5, None, None)).equals(x.is_null())


def test_nan_bounds_say_only_that_there_are_no_nulls():
    nan = pa.scalar(math.nan)
    assert guarantee(Statistics(("x",), pa.float64(), 5, 0, nan, nan)).equals(x.is_valid())


def test_nan_bounds_with_nulls_say_nothing():
    nan = pa.scalar(math.nan)
    assert guarantee(Statistics(("x",), pa.float64(), 5, 1, nan, nan)) is None


def test_a_minimum_above_the_maximum_says_nothing():
    assert guarantee(Statistics(("x",), pa.int64(), 5, 1, pa.scalar(3), pa.scalar(1))) is None


def day(number):
    return datetime.datetime(2024, 1, number)


# Of each type: five values in order. The row groups hold the second, and the third with a null.
ORDERED = {
    pa.int8(): [1, 2, 3, 4, 5],
    pa.int16(): [1, 2, 3, 4, 5],
    pa.int32(): [1, 2, 3, 4, 5],
    pa.int64(): [1, 2, 3, 4, 5],
    pa.float32(): [-1.5, -1.0, 0.5, 2.0, math.inf],
    pa.float64(): [-1.5, -1.0, 0.5, 2.0, math.inf],
    pa.date32(): [day(i).date() for i in range(1, 6)],
    pa.time32("ms"): [datetime.time(i) for i in range(1, 6)],
    pa.decimal128(10, 2): [decimal.Decimal(f"{i}.25") for i in range(1, 6)],
    pa.string(): ["", "a", "aa", "b", "ü"],
    **{pa.timestamp(unit): [day(i) for i in range(1, 6)] for unit in ["s", "ms", "us", "ns"]},
    **{
        pa.timestamp(unit, "UTC"): [day(i).replace(tzinfo=UTC) for i in range(1, 6)]
        for unit in ["ms", "us", "ns"]
    },
}


@pytest.mark.parametrize("type", ORDERED, ids=str)
def test_row_groups_are_skipped_by_comparison(type):
    values = [pa.scalar(value, type) for value in ORDERED[type]]
    below, low, high, above, _ = values
    first = [low.as_py(), low.as_py()]
    second = [high.as_py(), None, above.as_py()]

    def keeps(expression):
        return kept(expression, first, second, type=type)

    assert keeps(x == below) == []
    assert keeps(low == x) == [0]
    assert keeps(x < low) == []
    assert keeps(x <= low) == [0]
    assert keeps(x > high) == [1]
    assert keeps(x > above) == []
    assert keeps((x == low) | (x > above)) == [0]
    assert keeps((x == low) & (x == high)) == []
    assert keeps(x.isin(pa.array([above.as_py(), below.as_py()], type))) == [1]
    assert keeps(x.isin(pa.array([below.as_py()], type))) == []
    assert keeps(x.is_null()) == [1]
    assert keeps(~x.is_null()) == [0, 1]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_row_groups_are_skipped_by_a_datetime_of_another_unit(unit, zone):
    zoned = {"tzinfo": UTC if zone else None}
    columns = [[day(1)], [day(3), None]]
    value = day(2).replace(**zoned)
    assert kept(value < x, *columns, type=pa.timestamp(unit, zone)) == [1]
    assert kept(x.isin([value]), *columns, type=pa.timestamp(unit, zone)) == []


def test_row_groups_are_skipped_by_python_numbers():
    assert kept(x > 3, [1, 2], [3, 4], type=pa.int8()) == [1]
    assert kept(x > 300, [1, 2], [3, 4], type=pa.int8()) == []
    assert kept(x > 3.5, [1, 2], [3, 4], type=pa.int64()) == [1]
    assert kept(x == 3, [1.0, 2.0], [3.0, 4.0], type=pa.float32()) == [1]


def test_row_groups_are_skipped_by_a_flag():
    columns = [[True, True], [False], [True, False], [None]]
    assert kept(x, *columns) == [0, 2]
    assert kept(~x, *columns) == [1, 2]


def test_row_groups_of_one_value_are_skipped_by_inequality():
    assert kept(x != "a", ["a", "a"], ["a", None], ["a", "b"]) == [2]


def test_a_row_group_of_nulls_matches_only_null():
    assert kept(x > 1, [None, None], [2, None], type=pa.int64()) == [1]
    assert kept(x.is_null(), [None, None], [2, 3], type=pa.int64()) == [0]


def test_a_constant_filter_keeps_all_or_nothing():
    assert kept(pc.scalar(True), [1], [2]) == [0, 1]
    assert kept(pc.scalar(False), [1], [2]) == []


def test_row_groups_without_statistics_are_kept():
    field = pa.field("x", pa.int64())
    groups = [[], [Statistics(("x",), field.type, 1, 0, pa.scalar(1), pa.scalar(1))], []]
    assert matching(x > 5, groups, pa.schema([field])) == [0, 2]
    assert matching(x > 5, [[], []], pa.schema([field])) == [0, 1]
    assert matching(x > 5, [], pa.schema([field])) == []


def test_statistics_of_one_of_two_columns_are_enough():
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    groups = [[Statistics(("x",), pa.int64(), 1, 0, pa.scalar(i), pa.scalar(i))] for i in range(3)]
    assert matching((x > 1) & (pc.field("y") > 0), groups, schema) == [2]


@pytest.mark.parametrize(
    "expression",
    [
        x != 5.0,
        ~(x <= 5.0),
        ~(x == 5.0),
        ~x.isin([5.0]),
        x.isin([math.nan]),
        x.is_null(nan_is_null=True),
        pc.is_nan(x),
    ],
    ids=str,
)
@pytest.mark.parametrize("values", [[5.0, math.nan], [math.nan, 5.0], [5.0, None, math.nan]])
def test_a_row_group_with_a_nan_is_kept_for_it(expression, values):
    assert kept(expression, values, [6.0, 7.0])[:1] == [0]


def test_a_nan_is_no_reason_to_keep_where_it_cannot_match():
    assert kept(x > 5.0, [1.0, math.nan], [6.0]) == [1]


def test_other_columns_still_skip_where_a_nan_may_match():
    tables = [pa.table({"x": [5.0, 5.0], "y": [i, i + 1]}) for i in range(4)]
    keeps = matching((x != 5.0) & (pc.field("y") > 3), groups_of(*tables), tables[0].schema)
    assert keeps == [3]


def test_a_pattern_is_no_reason_to_keep_row_groups():
    tables = [pa.table({"x": [low, low + 0.5], "y": ["a", "b"]}) for low in (0.0, 1.0, 2.0)]
    expression = (x > 1.2) & pc.match_like(pc.field("y"), "%b")
    assert matching(expression, groups_of(*tables), tables[0].schema) == [1, 2]


def test_nans_in_two_columns_at_once_are_kept():
    table = pa.table({"x": [1.0, math.nan], "y": [1.0, math.nan]})
    expression = x.is_null(nan_is_null=True) & pc.field("y").is_null(nan_is_null=True)
    assert matching(expression, groups_of(table), table.schema) == [0]


# Arrow takes `x < nan` for true if x has a maximum, so the rows of the next three would be missed.
def test_a_nan_in_the_filter_skips_nothing():
    nan = pa.scalar(math.nan)
    assert kept(~(x < nan), [1.0, 2.0]) == [0]
    assert kept(~(x < nan), [1, 2]) == [0]


def test_a_nan_from_another_column_skips_nothing():
    table = pa.table({"x": [1, 2], "y": [1.0, math.nan]})
    expression = ~(x < pc.field("y")) & ~(pc.field("y") <= 5)
    assert matching(expression, groups_of(table), table.schema) == [0]


def test_a_nan_from_a_function_skips_nothing():
    table = pa.table({"y": [-1, -1], "x": [1, 2]})
    assert matching(~(x < pc.sqrt(pc.field("y"))), groups_of(table), table.schema) == [0]


def test_a_cast_that_rounds_skips_nothing():
    assert kept(x.cast(pa.float32()) == pa.scalar(0.1, pa.float32()), [0.1, 0.1]) == [0]


def test_zeros_of_either_sign_are_equal():
    assert kept(x == 0.0, [-0.0, -0.0], [0.0, 0.0]) == [0, 1]
    assert kept(x < 0.0, [-0.0, 0.0], [-1.0]) == [1]
    assert kept(x.isin([-0.0]), [0.0, -0.0]) == [0]
    assert kept(x.isin([0.0]), [-0.0, 0.0]) == [0]


def test_a_filter_that_fails_on_a_value_skips_nothing():
    assert kept(pc.divide(pc.scalar(1), x) == 1, [0, 0], [1, 1]) == [0, 1]


def test_column_names_like_functions_are_fine():
    table = pa.table({"sqrt(nan) <": [1, 2], "tenant": ["a", "b"]})
    expression = (pc.field("sqrt(nan) <") > 0) & (pc.field("tenant") > "b")
    assert matching(expression, groups_of(table), table.schema) == []


def test_a_thousand_row_groups_are_matched_together(monkeypatch):
    field = pa.field("x", pa.float64())
    groups = [
        [Statistics(("x",), field.type, 9, 1, pa.scalar(float(i)), pa.scalar(i + 5.0))]
        for i in range(1000)
    ]
    datasets = Counted(monkeypatch, "FileSystemDataset")
    assert matching(x == 500, groups, pa.schema([field])) == [495, 496, 497, 498, 499, 500]
    assert datasets.uses == 2  # whether a NaN could match, and all row groups


# Few values of each type, so that filters and statistics meet them.
VALUES = {
    **ORDERED,
    pa.bool_(): [False, True],
    pa.int8(): [-1, 0, 1],
    pa.int64(): [0, 1, 2**53, 2**53 + 1],
    pa.float32(): [-0.0, 0.0, 0.1, math.nan, math.inf],
    pa.float64(): [-0.0, 0.0, 0.1, math.nan, 2.0**53],
}
NUMERIC = [pa.int8(), pa.int64(), pa.float32(), pa.float64()]
TYPES = st.sampled_from(NUMERIC) | st.sampled_from(list(VALUES))


@st.composite
def predicates(draw, schema):
    """A test of one column, or of two."""
    field = draw(st.sampled_from(list(schema)))
    column = pc.field(field.name)
    kinds = ["compare", "compare", "compare", "isin", "is_null", "is_valid", "columns"]
    kind = draw(st.sampled_from(kinds + ["flag"] * pa.types.is_boolean(field.type)))
    if field.type in NUMERIC and draw(st.integers(0, 9)) == 0:
        column = column.cast(draw(st.sampled_from([pa.float32(), pa.float64(), pa.int64()])))
    literal_type = draw(st.sampled_from(NUMERIC)) if field.type in NUMERIC else field.type
    literals = st.sampled_from(VALUES[literal_type])
    operator = draw(st.sampled_from(["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"]))
    match kind:
        case "compare":
            return getattr(column, operator)(pa.scalar(draw(literals), literal_type))
        case "columns":
            return getattr(column, operator)(pc.field(draw(st.sampled_from(schema.names))))
        case "isin":
            values = draw(st.lists(st.none() | literals, max_size=4))
            skip_nulls = draw(st.booleans())
            options = pc.SetLookupOptions(pa.array(values, literal_type), skip_nulls=skip_nulls)
            return pc.Expression._call("is_in", [column], options)
        case "is_null":
            return column.is_null(nan_is_null=draw(st.booleans()))
        case "is_valid":
            return column.is_valid()
    return column


def expressions(schema):
    return st.recursive(
        predicates(schema),
        lambda inner: st.one_of(
            inner.map(lambda one: ~one),
            st.tuples(inner, inner).map(lambda both: both[0] & both[1]),
            st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
            st.tuples(inner, st.booleans()).map(lambda both: both[0] == both[1]),
        ),
        max_leaves=4,
    )


@st.composite
def tables_and_filters(draw):
    names = ["x", "y", "z"][: draw(st.integers(1, 3))]
    types = [draw(TYPES) for _ in names]
    schema = pa.schema(list(zip(names, types, strict=True)))
    tables = []
    for _ in range(draw(st.integers(1, 3))):
        num_rows = draw(st.integers(1, 3))
        columns = []
        for type in types:
            values = st.none() | st.sampled_from(VALUES[type])
            column = draw(st.lists(values, min_size=num_rows, max_size=num_rows))
            columns.append(pa.array(column, type))
        tables.append(pa.table(columns, schema=schema))
    return tables, draw(expressions(schema))


@given(tables_and_filters())
@settings(max_examples=8 * settings.default.max_examples)
def test_a_skipped_row_group_has_no_match(tables_and_filter):
    tables, expression = tables_and_filter
    try:
        counts = [filter_table(table, expression).num_rows for table in tables]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        assume(False)
    keeps = matching(expression, groups_of(*tables), tables[0].schema)
    assert [i for i, count in enumerate(counts) if count and i not in keeps] == []


# --- filter_table


def test_rows_are_filtered_in_order():
    table = pa.table({"x": [3, None, 1, 2]})
    assert filter_table(table, x > 1) == pa.table({"x": [3, 2]})


def test_a_table_without_columns_is_filtered():
    table = pa.table({"x": [1, 2, 3]}).select([])
    assert filter_table(table, pc.scalar(True)).num_rows == 3
    assert filter_table(table, pc.scalar(False)).num_rows == 0


def test_metadata_and_nullability_survive():
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False, metadata={"a": "b"})], {"c": "d"})
    filtered = filter_table(pa.table([[1, 2]], schema=schema), x > 1)
    assert filtered.schema.equals(schema, check_metadata=True)
