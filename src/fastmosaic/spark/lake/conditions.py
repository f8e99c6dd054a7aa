"""Conditions of DELETE and OVERWRITE as Arrow expressions that match exactly the rows that Spark means.

Filters that only skip row groups may match more rows than Spark does (`planner.pushdown`). A row that
is deleted must be one that Spark would delete: NaN is equal to itself and greater than all other
values, and a comparison with null is null, also in a list and after NOT.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from ..planner.pushdown import Both, Either, Leaf, Neither, Predicate, literal, type_at

if TYPE_CHECKING:
    from pyarrow.compute import Expression

__all__ = ["exact_expression"]

_COMPARISONS = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def exact_expression(
    predicates: Iterable[Predicate | None], field: Callable[[str], pa.Field]
) -> Expression | None:
    """Return an expression that is true for the rows that match all predicates.

    `field(name)` returns a column of the table. The result is None if there is no such expression.
    """
    every = [_convert(one, field) for one in predicates]
    known = [one for one in every if one is not None]
    if not every or len(known) < len(every):
        return None
    return functools.reduce(operator.and_, known)


def _convert(predicate: Predicate | None, field: Callable[[str], pa.Field]) -> Expression | None:
    match predicate:
        case Both(left, right) | Either(left, right):
            one, other = _convert(left, field), _convert(right, field)
            if one is None or other is None:
                return None
            return one & other if isinstance(predicate, Both) else one | other
        case Neither(child):
            expression = _convert(child, field)
            return None if expression is None else ~expression
        case Leaf():
            type = type_at(predicate.path, field)
            return None if type is None else _leaf(predicate, type)
        case _:
            return None


def _leaf(leaf: Leaf, type: pa.DataType) -> Expression | None:
    import pyarrow.compute as pc

    column = pc.field(*leaf.path)
    if leaf.operator == "IS_NULL" or (leaf.operator == "<=>" and leaf.values == (None,)):
        return column.is_null()
    if leaf.operator == "IS_NOT_NULL":
        return column.is_valid()
    if leaf.operator == "STARTS_WITH":
        return pc.starts_with(column, leaf.values[0]) if types.is_string(type) else None
    given = [value for value in leaf.values if value is not None]
    scalars = [literal(value, type) for value in given]
    if not scalars or any(one is None for one in scalars):
        return None
    if leaf.operator == "IN" and len(given) < len(leaf.values):
        others = _leaf(Leaf("IN", leaf.path, tuple(given)), type)
        # A value that is not equal to the others may be equal to the null.
        return None if others is None else others | pc.scalar(pa.scalar(None, pa.bool_()))
    if leaf.operator == "<=>":
        return (column == scalars[0]) & column.is_valid()
    if leaf.operator == "IN":
        if types.is_floating(type):  # zeros of both signs are equal
            return functools.reduce(operator.or_, (column == one for one in scalars))
        # Arrow's `isin` is false for a null, where SQL has null.
        return column.isin(pa.array(scalars, type)) | (column == scalars[0])
    compare: Any = _COMPARISONS[leaf.operator]
    found: Expression = compare(column, scalars[0])
    if leaf.operator in (">", ">=") and types.is_floating(type):
        return found | pc.is_nan(column)
    return found
