"""Spark's filters as Arrow expressions, to skip files and row groups.

Such an expression may be true for rows that Spark then drops, but never false for one that Spark
keeps. Spark has NaN equal to itself and greater than everything, and statistics leave NaN out:
that a float is greater than something excludes nothing. What cannot be said in Arrow is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types

if TYPE_CHECKING:
    from pyarrow.compute import Expression
    from pyspark.sql.datasource import Filter

__all__ = ["Both", "Either", "Leaf", "Neither", "Predicate", "from_datasource", "to_expression"]

COMPARISONS: Final = frozenset({"=", "<", "<=", ">", ">="})
EPOCH: Final = datetime(1970, 1, 1)
LAST_CHARACTER: Final = 0x10FFFF
SURROGATES: Final = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column and values, in Spark's inner form: days, microseconds, otherwise as in Python.

    The operators: those of `COMPARISONS`, `<=>`, IN, IS_NULL, IS_NOT_NULL, STARTS_WITH.
    """

    operator: str
    column: str
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        values = [_shown(value) for value in self.values[:10]]
        more = ["..."] if len(self.values) > 10 else []
        match self.operator:
            case "IS_NULL" | "IS_NOT_NULL":
                return f"{self.column} {self.operator.replace('_', ' ')}"
            case "IN":
                return f"{self.column} IN ({', '.join(values + more)})"
            case "STARTS_WITH":
                return f"{self.column} STARTS WITH {values[0]}"
        return f"{self.column} {self.operator} {values[0]}"


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


Predicate: TypeAlias = Leaf | Both | Either | Neither


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _text(predicate: Predicate | None) -> str:
    return "?" if predicate is None else str(predicate)


def to_expression(
    predicates: Iterable[Predicate | None], field: Callable[[str], pa.Field]
) -> tuple[Expression | None, tuple[pa.Field, ...]]:
    """An expression that is true wherever all `predicates` are, and the columns it names.

    `field(name)` gives a column of the table. None is a predicate that nothing is known of.
    """
    needed: dict[str, pa.Field] = {}
    whole: Expression | None = None
    for predicate in predicates:
        whole = _and(whole, _convert(predicate, field, needed))
    return whole, () if whole is None else tuple(needed.values())


def _convert(
    predicate: Predicate | None, field: Callable[[str], pa.Field], needed: dict[str, pa.Field]
) -> Expression | None:
    match predicate:
        case Both(left, right):
            return _and(_convert(left, field, needed), _convert(right, field, needed))
        case Either(left, right):
            found: dict[str, pa.Field] = {}
            one, other = _convert(left, field, found), _convert(right, field, found)
            if one is None or other is None:
                return None
            needed |= found
            return one | other
        case Neither(Leaf() as leaf):
            expression = _negated(leaf, field(leaf.column))
        case Leaf() as leaf:
            expression = _leaf(leaf, field(leaf.column))
        case _:
            return None
    if expression is not None:
        needed[leaf.column] = field(leaf.column)
    return expression


def _and(one: Expression | None, other: Expression | None) -> Expression | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _leaf(leaf: Leaf, field: pa.Field) -> Expression | None:
    import pyarrow.compute as pc

    column = pc.field(field.name)
    if leaf.operator == "IS_NULL":
        return column.is_null()
    if leaf.operator == "IS_NOT_NULL":
        return column.is_valid()
    if leaf.operator == "<=>" and leaf.values == (None,):
        return column.is_null()
    if leaf.operator == "STARTS_WITH":
        return _starts_with(leaf.values[0], field)
    # In SQL, a comparison with null is true for no row; it adds nothing to a list.
    scalars = []
    for value in leaf.values:
        scalar = None if value is None else _scalar(value, field.type)
        if scalar is not None:
            scalars.append(scalar)
        elif value is not None:
            return None
    if not scalars:
        return None
    if leaf.operator == "IN":
        return column.isin(pa.array(scalars, field.type))
    return _compare(column, leaf.operator, scalars[0], field)


def _compare(
    column: Expression, operator: str, scalar: pa.Scalar, field: pa.Field
) -> Expression | None:
    match operator:
        case "=" | "<=>":
            return column == scalar
        case "<":
            return column < scalar
        case "<=":
            return column <= scalar
        case ">" | ">=" if types.is_floating(field.type):
            return None  # NaN is greater
        case ">":
            return column > scalar
        case ">=":
            return column >= scalar
    return None


def _negated(leaf: Leaf, field: pa.Field) -> Expression | None:
    import pyarrow.compute as pc

    column = pc.field(field.name)
    if leaf.operator == "IS_NULL" or (leaf.operator == "<=>" and leaf.values == (None,)):
        return column.is_valid()
    if leaf.operator == "IS_NOT_NULL":
        return column.is_null()
    if types.is_floating(field.type) or None in leaf.values:
        return None
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}.get(leaf.operator)
    if opposite is not None:
        return _leaf(Leaf(opposite, leaf.column, leaf.values), field)
    match leaf.operator:
        case "=":
            same = _leaf(leaf, field)
            return None if same is None else ~same
        case "IN":
            same = _leaf(leaf, field)
            return None if same is None else ~same
    return None  # NOT <=> is true for null, too


def _starts_with(prefix: str, field: pa.Field) -> Expression | None:
    """As a range: the bytes of strings sort as their characters do."""
    import pyarrow.compute as pc

    if not types.is_string(field.type):
        return None
    column = pc.field(field.name)
    stem = prefix.rstrip(chr(LAST_CHARACTER))
    if not stem:
        return column.is_valid()
    following = ord(stem[-1]) + 1
    if following in SURROGATES:
        following = SURROGATES.stop
    return (column >= prefix) & (column < stem[:-1] + chr(following))


def _scalar(value: Any, type: pa.DataType) -> pa.Scalar | None:
    """A value of Spark as one of a column; None where the column has no such value."""
    if isinstance(value, float) and math.isnan(value):
        return None
    try:
        if types.is_timestamp(type):
            micros = pa.scalar(value, pa.int64()).cast(pa.timestamp("us", type.tz))
            return micros.cast(type)
        if types.is_date32(type):
            return pa.scalar(value, pa.int32()).cast(type)
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


# ---- the filters of Spark's Python data sources


def from_datasource(filter: Filter) -> Predicate | None:
    """What one of the filters of `pyspark.sql.datasource` says; None if Arrow cannot say it."""
    from pyspark.sql import datasource as spark

    if isinstance(filter, spark.Not):
        child = from_datasource(filter.child)
        return None if child is None else Neither(child)
    path: tuple[str, ...] = getattr(filter, "attribute", ())
    if len(path) != 1:
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
    }
    operator = operators.get(type(filter))
    if operator is None:
        return None
    if operator in ("IS_NULL", "IS_NOT_NULL"):
        return Leaf(operator, path[0])
    value = filter.value  # type: ignore[attr-defined]  # all but those two have one
    values = value if operator == "IN" else (value,)
    return Leaf(operator, path[0], tuple(map(_inner, values)))


def _inner(value: Any) -> Any:
    """A Python value in Spark's inner form."""
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return (value - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - EPOCH.date()).days
    return value
