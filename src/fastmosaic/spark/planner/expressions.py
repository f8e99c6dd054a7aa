"""Spark's predicates and aggregates, as the planner passes them, in the terms of this package."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from ...format.paths import Path
from ..jvm import EXPRESSIONS, SQL
from .aggregates import Aggregate
from .pushdown import COMPARISONS, Both, Either, Leaf, Neither, Pair, Predicate

__all__ = ["aggregates", "predicate"]

FIELD: Final = f"{EXPRESSIONS}.FieldReference"
LITERAL: Final = f"{EXPRESSIONS}.LiteralValue"
# The longest list of literals to convert: each one is a call into the JVM.
MAX_VALUES: Final = 500


def predicate(node: Any) -> Predicate | None:
    """Convert a predicate of Spark; None if it cannot be expressed in Arrow."""
    name = node.name()
    if name in ("AND", "OR", "NOT"):
        children = [predicate(child) for child in node.children()]
        if name == "NOT":
            return None if children[0] is None else Neither(children[0])
        return Both(*children) if name == "AND" else Either(*children)
    if name == "<>":
        same = _leaf("=", node)
        return None if same is None else Neither(same)
    return _leaf(name, node) if name in _OPERATORS else None


_OPERATORS: Final = COMPARISONS | {
    *("<=>", "IN", "IS_NULL", "IS_NOT_NULL", "STARTS_WITH", "ENDS_WITH", "CONTAINS")
}


def _leaf(name: str, node: Any) -> Leaf | Pair | None:
    """Convert a comparison of a column with values, or with another column."""
    children = list(node.children())
    path = _path(children[0]) if len(children) <= MAX_VALUES else None
    if path is None:
        return None
    kinds = [_class_name(operand) for operand in children[1:]]
    if kinds == [FIELD] and name in COMPARISONS:
        return Pair(name, path, tuple(children[1].fieldNames()))
    if any(kind != LITERAL for kind in kinds):
        return None
    return Leaf(name, path, tuple(_value(operand.value()) for operand in children[1:]))


def _path(node: Any) -> Path | None:
    """Return the path to a column, or to a field of a struct; None if the node is not such one."""
    return tuple(node.fieldNames()) if _class_name(node) == FIELD else None


def _class_name(node: Any) -> str:
    return str(node.getClass().getName())


def _value(value: Any) -> Any:
    """Convert a literal to Python. Dates and timestamps stay numbers of days and microseconds."""
    from py4j.java_gateway import JavaObject

    if not isinstance(value, JavaObject):
        return value
    if _class_name(value) == f"{SQL}.types.Decimal":
        return Decimal(value.toString())
    return value.toString()


def aggregates(aggregation: Any) -> Iterator[Aggregate | None]:
    """Convert an aggregation of Spark; None is what metadata cannot answer."""
    if len(aggregation.groupByExpressions()):
        yield None
        return
    for function in aggregation.aggregateExpressions():
        yield _aggregate(function)


def _aggregate(function: Any) -> Aggregate | None:
    name = str(function.getClass().getSimpleName())
    if name == "CountStar":
        return Aggregate("count", None)
    if name not in ("Count", "Min", "Max") or (name == "Count" and function.isDistinct()):
        return None
    path = _path(function.column())
    return None if path is None else Aggregate(name.lower(), path)
