"""Convert Spark's filters to Arrow expressions that skip files and row groups.

An expression may match rows that Spark drops later, but it must match every row that Spark keeps.
In Spark, NaN equals itself and is greater than every other value, while statistics leave NaN out:
a filter such as `x > 5` on floats cannot skip anything. Filters without an Arrow equivalent are
ignored.
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

__all__ = ["Both", "Either", "Leaf", "Neither", "Predicate", "from_datasource", "to_expression"]

COMPARISONS: Final = frozenset({"=", "<", "<=", ">", ">="})
EPOCH: Final = datetime(1970, 1, 1)
LAST_CHARACTER: Final = 0x10FFFF
SURROGATES: Final = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A condition on one column, or on one field of a struct.

    `operator` is one of `COMPARISONS`, `<=>`, IN, IS_NULL, IS_NOT_NULL, STARTS_WITH. Dates are days
    and timestamps are microseconds since 1970, times of day are nanoseconds since midnight, and
    intervals are microseconds; other values are Python values.
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
            case "STARTS_WITH":
                return f"{name} STARTS WITH {values[0]}"
        return f"{name} {self.operator} {values[0]}"


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
    """Return an expression that matches whenever all `predicates` do, and the columns it uses.

    `field(name)` returns a column of the table. None stands for a predicate that is not supported.
    Structs have only those fields that the expression uses.
    """
    needed: dict[Path, None] = {}
    whole: Expression | None = None
    for predicate in predicates:
        whole = _and(whole, _convert(predicate, field, needed))
    if whole is None:
        return None, ()
    paths: dict[str, list[Path]] = {}
    for name, *inside in needed:
        paths.setdefault(name, []).append(tuple(inside))
    columns = ((field(name), inside) for name, inside in paths.items())
    return whole, tuple(one.with_type(pruned(one.type, inside)) for one, inside in columns)


def _convert(
    predicate: Predicate | None, field: Callable[[str], pa.Field], needed: dict[Path, None]
) -> Expression | None:
    match predicate:
        case Both(left, right):
            return _and(_convert(left, field, needed), _convert(right, field, needed))
        case Either(left, right):
            found: dict[Path, None] = {}
            one, other = _convert(left, field, found), _convert(right, field, found)
            if one is None or other is None:
                return None
            needed |= found
            return one | other
        case Neither(Leaf() as leaf):
            convert = _negated
        case Leaf() as leaf:
            convert = _leaf
        case _:
            return None
    type = _type_at(leaf.path, field)
    expression = None if type is None else convert(leaf, type)
    if expression is not None:
        needed[leaf.path] = None
    return expression


def _type_at(path: Path, field: Callable[[str], pa.Field]) -> pa.DataType | None:
    """Return the type of a column or of a field inside structs; None if it has no statistics."""
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


def _leaf(leaf: Leaf, type: pa.DataType) -> Expression | None:
    import pyarrow.compute as pc

    column = pc.field(*leaf.path)
    if leaf.operator == "IS_NULL":
        return column.is_null()
    if leaf.operator == "IS_NOT_NULL":
        return column.is_valid()
    if leaf.operator == "<=>" and leaf.values == (None,):
        return column.is_null()
    if leaf.operator == "STARTS_WITH":
        return _starts_with(column, leaf.values[0], type)
    # In SQL, a comparison with null is never true, and a null in a list matches nothing.
    scalars = []
    for value in leaf.values:
        scalar = None if value is None else _scalar(value, type)
        if scalar is not None:
            scalars.append(scalar)
        elif value is not None:
            return None
    if not scalars:
        return None
    if leaf.operator == "IN":
        return column.isin(pa.array(scalars, type))
    return _compare(column, leaf.operator, scalars[0])


def _compare(column: Expression, operator: str, scalar: pa.Scalar) -> Expression | None:
    match operator:
        case "=" | "<=>":
            return column == scalar
        case "<":
            return column < scalar
        case "<=":
            return column <= scalar
        case ">" | ">=" if types.is_floating(scalar.type):
            return None  # NaN is greater
        case ">":
            return column > scalar
        case ">=":
            return column >= scalar
    return None


def _negated(leaf: Leaf, type: pa.DataType) -> Expression | None:
    import pyarrow.compute as pc

    column = pc.field(*leaf.path)
    if leaf.operator == "IS_NULL" or (leaf.operator == "<=>" and leaf.values == (None,)):
        return column.is_valid()
    if leaf.operator == "IS_NOT_NULL":
        return column.is_null()
    if types.is_floating(type) or None in leaf.values:
        return None
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}.get(leaf.operator)
    if opposite is not None:
        return _leaf(Leaf(opposite, leaf.path, leaf.values), type)
    if leaf.operator in ("=", "IN"):
        same = _leaf(leaf, type)
        return None if same is None else ~same
    return None  # NOT <=> is also true for nulls


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


def _scalar(value: Any, type: pa.DataType) -> pa.Scalar | None:
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
