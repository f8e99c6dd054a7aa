"""Spark's predicates and aggregates, as the planner passes them, in the terms of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...format.paths import Path
from ..jvm import EXPRESSIONS
from .aggregates import Aggregate
from .pushdown import COMPARISONS, Both, Either, Leaf, Neither, Pair, Predicate

__all__ = ["aggregates", "predicates"]


def predicates(described: Sequence[Any]) -> list[Predicate | None]:
    """Convert predicates of Spark from `Jvm.described`; None where Arrow cannot express one."""
    return [_predicate(one) for one in described]


def _predicate(node: Any) -> Predicate | None:
    kind, *parts = node
    if kind != "predicate":
        return None
    name, operands = parts
    if name in ("AND", "OR", "NOT"):
        children = [_predicate(child) for child in operands]
        if name == "NOT":
            return None if children[0] is None else Neither(children[0])
        return Both(*children) if name == "AND" else Either(*children)
    if name == "<>":
        same = _leaf("=", operands)
        return None if same is None else Neither(same)
    return _leaf(name, operands) if name in _OPERATORS else None


_OPERATORS: Final = COMPARISONS | {
    *("<=>", "IN", "IS_NULL", "IS_NOT_NULL", "STARTS_WITH", "ENDS_WITH", "CONTAINS")
}


def _leaf(name: str, operands: Sequence[Any]) -> Leaf | Pair | None:
    """Convert a comparison of a column with values, or with another column.

    Dates and timestamps stay numbers of days and microseconds.
    """
    (kind, *path), *others = operands
    if kind != "field":
        return None
    if name in COMPARISONS and [other[0] for other in others] == ["field"]:
        return Pair(name, tuple(path[0]), tuple(others[0][1]))
    if any(other[0] != "literal" for other in others):
        return None
    return Leaf(name, tuple(path[0]), tuple(value for _, value in others))


def aggregates(aggregation: Any) -> list[Aggregate] | None:
    """Convert an aggregation of Spark; None if metadata cannot answer it."""
    if len(aggregation.groupByExpressions()):
        return None
    found = []
    for function in aggregation.aggregateExpressions():
        name = str(function.getClass().getSimpleName())
        if name == "CountStar":
            found.append(Aggregate("count", None))
            continue
        if name not in ("Count", "Min", "Max") or (name == "Count" and function.isDistinct()):
            return None
        path = _path(function.column())
        if path is None:
            return None
        found.append(Aggregate(name.lower(), path))
    return found


def _path(node: Any) -> Path | None:
    """Return the path to a column, or to a field of a struct; None if the node is not such one."""
    is_field = str(node.getClass().getName()) == f"{EXPRESSIONS}.FieldReference"
    return tuple(node.fieldNames()) if is_field else None
