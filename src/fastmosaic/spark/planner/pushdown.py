"""Convert Spark's filters to Arrow expressions that skip files, row groups and rows.

An expression may match rows that Spark drops later, but it must match every row that Spark keeps.
In Spark, NaN equals itself and is greater than every other value, while statistics leave NaN out:
a filter such as `x > 5` on floats cannot skip row groups, and when it skips rows it keeps those
with NaN. Filters without an Arrow equivalent are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

from ...format.paths import Path, pruned

if TYPE_CHECKING:
    from pyarrow.compute import Expression
    from pyspark.sql.datasource import Filter

__all__ = [
    "Both",
    "Either",
    "Leaf",
    "Neither",
    "Pair",
    "Predicate",
    "from_datasource",
    "literal",
    "to_expression",
    "to_row_filter",
    "type_at",
]

COMPARISONS: Final = frozenset({"=", "<", "<=", ">", ">="})
EPOCH: Final = datetime(1970, 1, 1)
LAST_CHARACTER: Final = 0x10FFFF
SURROGATES: Final = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A condition on one column, or on one field of a struct.

    `operator` is one of `COMPARISONS`, `<=>`, IN, IS_NULL, IS_NOT_NULL, STARTS_WITH, ENDS_WITH,
    CONTAINS. Dates are days and timestamps are microseconds since 1970, times of day are nanoseconds
    since midnight, and intervals are microseconds; other values are Python values.
    """

    operator: str
    path: Path
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        name = ".".join(self.path)
        values = [_shown(value) for value in self.values[:10]]
        more = ["..."] if len(self.values) > 10 else []
        match self.operator:
            case "IS_NULL" | "IS_NOT_NULL":
                return f"{name} {self.operator.replace('_', ' ')}"
            case "IN":
                return f"{name} IN ({', '.join(values + more)})"
        return f"{name} {self.operator.replace('_', ' ')} {values[0]}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A comparison of two columns of the same type; `operator` is one of `COMPARISONS`."""

    operator: str
    left: Path
    right: Path

    def __str__(self) -> str:
        return f"{'.'.join(self.left)} {self.operator} {'.'.join(self.right)}"


@dataclass(frozen=True, slots=True)
class Both:
    left: Predicate | None
    right: Predicate | None

    def __str__(self) -> str:
        return f"({_text(self.left)} AND {_text(self.right)})"


@dataclass(frozen=True, slots=True)
class Either:
    left: Predicate | None
    right: Predicate | None

    def __str__(self) -> str:
        return f"({_text(self.left)} OR {_text(self.right)})"


@dataclass(frozen=True, slots=True)
class Neither:
    """The negation."""

    child: Predicate | None

    def __str__(self) -> str:
        return f"NOT {_text(self.child)}"


Predicate: TypeAlias = Leaf | Pair | Both | Either | Neither


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _text(predicate: Predicate | None) -> str:
    return "?" if predicate is None else str(predicate)


def to_expression(
    predicates: Iterable[Predicate | None], field: Callable[[str], pa.Field]
) -> tuple[Expression | None, tuple[pa.Field, ...]]:
    """Return an expression that matches whenever all `predicates` do, and the columns it uses.

    The expression is for statistics, which do not count NaN. `field(name)` returns a column of the
    table. None stands for a predicate that is not supported. Structs have only those fields that the
    expression uses.
    """
    return _Conversion(field, of_rows=False).all_of(predicates)


def to_row_filter(
    predicates: Iterable[Predicate | None], field: Callable[[str], pa.Field]
) -> tuple[Expression | None, tuple[pa.Field, ...]]:
    """Return an expression for rows, as `to_expression` does for statistics.

    The columns are those that Spark receives: two values are equal if they are equal in Spark.
    """
    return _Conversion(field, of_rows=True).all_of(predicates)


class _Conversion:
    """Converts predicates and collects the columns that the result uses."""

    def __init__(self, field: Callable[[str], pa.Field], *, of_rows: bool) -> None:
        self._field = field
        self._of_rows = of_rows

    def all_of(
        self, predicates: Iterable[Predicate | None]
    ) -> tuple[Expression | None, tuple[pa.Field, ...]]:
        needed: dict[Path, None] = {}
        whole: Expression | None = None
        for predicate in predicates:
            whole = _and(whole, self._convert(predicate, needed))
        if whole is None:
            return None, ()
        paths: dict[str, list[Path]] = {}
        for name, *inside in needed:
            paths.setdefault(name, []).append(tuple(inside))
        columns = ((self._field(name), inside) for name, inside in paths.items())
        return whole, tuple(one.with_type(pruned(one.type, inside)) for one, inside in columns)

    def _convert(self, predicate: Predicate | None, needed: dict[Path, None]) -> Expression | None:
        match predicate:
            case Both(left, right):
                return _and(self._convert(left, needed), self._convert(right, needed))
            case Either(left, right):
                found: dict[Path, None] = {}
                one, other = self._convert(left, found), self._convert(right, found)
                if one is None or other is None:
                    return None
                needed |= found
                return one | other
            case Neither(Pair(operator, left_path, right_path)) if operator in _OPPOSITES:
                return self._convert(Pair(_OPPOSITES[operator], left_path, right_path), needed)
            case Pair():
                return self._pair(predicate, needed)
            case Neither(Leaf() as leaf):
                convert = self._negated
            case Leaf() as leaf:
                convert = self._leaf
            case _:
                return None
        type = type_at(leaf.path, self._field)
        expression = None if type is None else convert(leaf, type)
        if expression is not None:
            needed[leaf.path] = None
        return expression

    def _pair(self, pair: Pair, needed: dict[Path, None]) -> Expression | None:
        import pyarrow.compute as pc

        type = type_at(pair.left, self._field)
        if not self._of_rows or type is None or type != type_at(pair.right, self._field):
            return None  # statistics of one column say nothing about another
        left, right = pc.field(*pair.left), pc.field(*pair.right)
        match pair.operator:
            case "=":
                expression = left == right
            case "<":
                expression = left < right
            case "<=":
                expression = left <= right
            case ">":
                expression = left > right
            case _:
                expression = left >= right
        if types.is_floating(type):  # for a superset it does not matter which one is NaN
            expression |= pc.is_nan(left) | pc.is_nan(right)
        needed |= dict.fromkeys((pair.left, pair.right))
        return expression

    def _leaf(self, leaf: Leaf, type: pa.DataType) -> Expression | None:
        import pyarrow.compute as pc

        column = pc.field(*leaf.path)
        match leaf.operator:
            case "IS_NULL":
                return column.is_null()
            case "IS_NOT_NULL":
                return column.is_valid()
            case "<=>" if leaf.values == (None,):
                return column.is_null()
            case "STARTS_WITH":
                return _starts_with(column, leaf.values[0], type)
            case "ENDS_WITH" | "CONTAINS" if not self._of_rows or not types.is_string(type):
                return None
            case "ENDS_WITH":
                return pc.ends_with(column, leaf.values[0])
            case "CONTAINS":
                return pc.match_substring(column, leaf.values[0])
        # In SQL, a comparison with null is never true, and a null in a list matches nothing.
        scalars = []
        for value in leaf.values:
            scalar = None if value is None else literal(value, type)
            if scalar is not None:
                scalars.append(scalar)
            elif value is not None:
                return None
        if not scalars:
            return None
        if leaf.operator == "IN":
            if types.is_floating(type):  # a set, unlike a comparison, tells -0.0 from 0.0
                scalars += [pa.scalar(zero, type) for zero in (0.0, -0.0) if zero in leaf.values]
            return column.isin(pa.array(scalars, type))
        return self._compare(column, leaf.operator, scalars[0])

    def _compare(self, column: Expression, operator: str, scalar: pa.Scalar) -> Expression | None:
        import pyarrow.compute as pc

        match operator:
            case "=" | "<=>":
                return column == scalar
            case "<":
                return column < scalar
            case "<=":
                return column <= scalar
            case ">" | ">=" if types.is_floating(scalar.type):  # NaN is greater
                if not self._of_rows:
                    return None
                greater = column > scalar if operator == ">" else column >= scalar
                return greater | pc.is_nan(column)
            case ">":
                return column > scalar
            case ">=":
                return column >= scalar
        return None

    def _negated(self, leaf: Leaf, type: pa.DataType) -> Expression | None:
        import pyarrow.compute as pc

        column = pc.field(*leaf.path)
        if leaf.operator == "IS_NULL" or (leaf.operator == "<=>" and leaf.values == (None,)):
            return column.is_valid()
        if leaf.operator == "IS_NOT_NULL":
            return column.is_null()
        if None in leaf.values or (types.is_floating(type) and not self._of_rows):
            return None
        opposite = _OPPOSITES.get(leaf.operator)
        if opposite is not None:
            return self._leaf(Leaf(opposite, leaf.path, leaf.values), type)
        if leaf.operator in ("=", "IN") or (
            self._of_rows and leaf.operator in ("STARTS_WITH", "ENDS_WITH", "CONTAINS")
        ):
            same = self._leaf(leaf, type)
            return None if same is None else ~same
        return None  # NOT <=> is also true for nulls


_OPPOSITES: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def type_at(path: Path, field: Callable[[str], pa.Field]) -> pa.DataType | None:
    """Return the type of a column or of a field inside structs; None if it is a struct."""
    type = field(path[0]).type
    for name in path[1:]:
        if not types.is_struct(type) or type.get_field_index(name) < 0:
            return None
        type = type.field(name).type
    return None if types.is_struct(type) else type


def _and(one: Expression | None, other: Expression | None) -> Expression | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _starts_with(column: Expression, prefix: str, type: pa.DataType) -> Expression | None:
    """Express a prefix as a range: UTF-8 bytes sort like characters."""
    if not types.is_string(type):
        return None
    stem = prefix.rstrip(chr(LAST_CHARACTER))
    if not stem:
        return column.is_valid()
    following = ord(stem[-1]) + 1
    if following in SURROGATES:
        following = SURROGATES.stop
    return (column >= prefix) & (column < stem[:-1] + chr(following))


def literal(value: Any, type: pa.DataType) -> pa.Scalar | None:
    """Convert a value of Spark to the type of a column; None if the type cannot hold it."""
    if isinstance(value, float) and math.isnan(value):
        return None
    try:
        if types.is_timestamp(type):
            micros = pa.scalar(value, pa.int64()).cast(pa.timestamp("us", type.tz))
            return micros.cast(type)
        if types.is_date32(type):
            return pa.scalar(value, pa.int32()).cast(type)
        if types.is_time(type):
            return pa.scalar(value, pa.int64()).cast(pa.time64("ns")).cast(type)
        if types.is_duration(type):
            return pa.scalar(value, pa.int64()).cast(type)
        if types.is_float16(type):  # floats in Spark, with more digits
            half = pa.scalar(value, type)
            return half if float(half.as_py()) == value else None
        if types.is_uint64(type):  # decimals in Spark
            return pa.scalar(int(value), type) if value == int(value) else None
        if (
            types.is_boolean(type)
            or types.is_integer(type)
            or types.is_floating(type)
            or types.is_decimal(type)
            or types.is_string(type)
        ):
            return pa.scalar(value, type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return None


# ---- filters of Python data sources


def from_datasource(filter: Filter) -> Predicate | None:
    """Convert a filter of `pyspark.sql.datasource`; None if it is not supported."""
    from pyspark.sql import datasource as spark

    if isinstance(filter, spark.Not):
        child = from_datasource(filter.child)
        return None if child is None else Neither(child)
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if not path:
        return None
    operators = {
        spark.EqualTo: "=",
        spark.EqualNullSafe: "<=>",
        spark.GreaterThan: ">",
        spark.GreaterThanOrEqual: ">=",
        spark.LessThan: "<",
        spark.LessThanOrEqual: "<=",
        spark.In: "IN",
        spark.IsNull: "IS_NULL",
        spark.IsNotNull: "IS_NOT_NULL",
        spark.StringStartsWith: "STARTS_WITH",
        spark.StringEndsWith: "ENDS_WITH",
        spark.StringContains: "CONTAINS",
    }
    operator = operators.get(type(filter))
    if operator is None:
        return None
    if operator in ("IS_NULL", "IS_NOT_NULL"):
        return Leaf(operator, path)
    value = filter.value  # type: ignore[attr-defined]  # all but those two have one
    values = value if operator == "IN" else (value,)
    return Leaf(operator, path, tuple(map(_inner, values)))


def _inner(value: Any) -> Any:
    """Convert dates, times and intervals to numbers, as `Leaf` has them."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return (value - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - EPOCH.date()).days
    if isinstance(value, time):
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return (seconds * 1_000_000 + value.microsecond) * 1000
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return value
