"""The functions of formulas, with the meaning that they have in DuckDB."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .literals import Value, shown_type
from .terms import FormulaError, Part, Term, constant, fitted, natural, type_named, unified


class Function(NamedTuple):
    """A function: how many arguments it has, and what it makes of them.

    family  of its arguments, if it checks them no further
    """

    make: Callable[[Sequence[Part], int], Term]
    least: int = 1
    most: int | None = 1
    family: str | None = None


def call(name: str, arguments: Sequence[Part], at: int) -> Term:
    """Return what a function makes of its arguments."""
    function = FUNCTIONS.get(name)
    if function is None:
        close = difflib.get_close_matches(name, FUNCTIONS, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(FUNCTIONS))}"
        raise FormulaError(at, f"unknown function {name}; {hint}")
    count = len(arguments)
    if count < function.least or (function.most is not None and count > function.most):
        raise FormulaError(at, f"{name} has {_counted(function)}, not {count}")
    if function.family is not None:
        for one in map(natural, arguments):
            if one.family not in (None, function.family):
                raise FormulaError(
                    one.at, f"{name} requires a {function.family}, and {one.label} is {one.type}"
                )
    return function.make(arguments, at)._replace(at=at, label=f"{name}(...)")


def _counted(function: Function) -> str:
    least, most = function.least, function.most
    if most is None:
        return f"at least {least} argument{'s' if least > 1 else ''}"
    shown = str(least) if least == most else f"{least} to {most}"
    return f"{shown} argument{'s' if most > 1 else ''}"


# ---- numbers


def as_float(part: Part) -> Term:
    """Return a number as float if it is one, else as double."""
    term = natural(part)
    return term if types.is_floating(term.type) else fitted(term, pa.float64())


def _to_whole(function: Callable[..., Any]) -> Callable[[Sequence[Part], int], Term]:
    def make(arguments: Sequence[Part], at: int) -> Term:
        term = as_float(arguments[0])
        return term._replace(expression=function(term.expression))

    return make


def _of_doubles(function: Callable[..., Any]) -> Callable[[Sequence[Part], int], Term]:
    def make(arguments: Sequence[Part], at: int) -> Term:
        terms = [fitted(as_float(one), pa.float64()) for one in arguments]
        return terms[0]._replace(expression=function(*(one.expression for one in terms)))

    return make


def _abs(arguments: Sequence[Part], at: int) -> Term:
    term = natural(arguments[0])
    return term._replace(expression=pc.abs_checked(term.expression))


def _round(arguments: Sequence[Part], at: int) -> Term:
    term = natural(arguments[0])
    digits = _whole(arguments[1], "round") if len(arguments) > 1 else 0
    if types.is_integer(term.type) and digits >= 0:
        return term
    rounded = pc.round(term.expression, ndigits=digits, round_mode="half_towards_infinity")
    return term._replace(expression=rounded).cast(term.type)


def _whole(part: Part, name: str) -> int:
    """Return an argument that must be written as a whole number."""
    if isinstance(part, Value) and part.kind == "number" and part.value.denominator == 1:
        return int(part.value)
    shown = part.text if isinstance(part, Value) else part.label
    raise FormulaError(part.at, f"{name} requires a whole number, not {shown}")


def _is_nan(arguments: Sequence[Part], at: int) -> Term:
    term = as_float(arguments[0])
    return Term(pc.is_nan(term.expression), pa.bool_(), at, "")


# ---- choices


def _of_common(function: Callable[..., Any]) -> Callable[[Sequence[Part], int], Term]:
    def make(arguments: Sequence[Part], at: int) -> Term:
        terms = unified(arguments)
        return terms[0]._replace(expression=function(*(one.expression for one in terms)))

    return make


def _if(arguments: Sequence[Part], at: int) -> Term:
    condition, *values = arguments
    return choose([(condition, values[0])], values[1])


def _null_if(arguments: Sequence[Part], at: int) -> Term:
    one, other = unified(arguments)
    null = constant(None, one.type, at, "").expression
    is_same = pc.coalesce(one.expression == other.expression, pc.scalar(False))
    return one._replace(expression=pc.if_else(is_same, null, one.expression))


def choose(branches: Sequence[tuple[Part, Part]], otherwise: Part) -> Term:
    """Return the value of the first condition that is true."""
    *values, last = unified([*(value for _, value in branches), otherwise])
    result = last.expression
    for (condition, _), value in reversed(list(zip(branches, values, strict=True))):
        is_true = pc.coalesce(as_condition(condition).expression, pc.scalar(False))
        result = pc.if_else(is_true, value.expression, result)
    return last._replace(expression=result)


def as_condition(part: Part) -> Term:
    """Return a part that must be a condition."""
    term = natural(part)
    if term.family == "bool":
        return term
    if types.is_null(term.type):
        return constant(None, pa.bool_(), term.at, term.label)
    raise FormulaError(
        term.at, f"{term.label} is {shown_type(term.type)}; a condition must be boolean"
    )


# ---- text


def _of_text(
    function: Callable[..., Any], result: pa.DataType | None = None
) -> Callable[[Sequence[Part], int], Term]:
    def make(arguments: Sequence[Part], at: int) -> Term:
        terms = [fitted(one, pa.string()) for one in unified(arguments)]
        made = function(*(one.expression for one in terms))
        return Term(made if result is None else made.cast(result), result or pa.string(), at, "")

    return make


def _substring(arguments: Sequence[Part], at: int) -> Term:
    text, *numbers = arguments
    start = _whole(numbers[0], "substring")
    if start < 1:
        raise FormulaError(numbers[0].at, "substring counts characters from 1")
    count = _whole(numbers[1], "substring") if len(numbers) > 1 else None
    term = fitted(natural(text), pa.string())
    stop = None if count is None else start - 1 + max(0, count)
    sliced = pc.utf8_slice_codeunits(term.expression, start - 1, stop)
    return term._replace(expression=sliced)


def joined_texts(parts: Sequence[Part], *, skips_nulls: bool) -> Term:
    """Return texts one after the other."""
    for one in map(natural, parts):
        if one.family not in (None, "text"):
            raise FormulaError(
                one.at, f"{one.label} is {shown_type(one.type)}, not text; use cast(... as varchar)"
            )
    terms = [fitted(one, pa.string()) for one in parts]
    made = pc.binary_join_element_wise(
        *(one.expression for one in terms),
        pc.scalar(""),
        null_handling="skip" if skips_nulls else "emit_null",
    )
    return terms[0]._replace(expression=made)


# ---- times


def _part_of_time(function: Callable[..., Any]) -> Callable[[Sequence[Part], int], Term]:
    def make(arguments: Sequence[Part], at: int) -> Term:
        term = natural(arguments[0])
        if types.is_date(term.type):
            term = term.cast(pa.timestamp("ms"))
        return Term(function(term.expression), pa.int64(), at, "")

    return make


# ---- casts


def cast(part: Part, name: str, at: int) -> Term:
    """Return a value with another type. Fractions are rounded; what does not fit is an error."""
    kind = type_named(name, at)
    term = natural(part)
    if types.is_floating(term.type) and types.is_integer(kind):
        rounded = pc.round(term.expression, round_mode="half_to_even")
        term = term._replace(expression=rounded)
    return fitted(term, kind)._replace(label="cast(...)")


FUNCTIONS: Final = {
    "abs": Function(_abs, family="number"),
    "ceil": Function(_to_whole(pc.ceil), family="number"),
    "ceiling": Function(_to_whole(pc.ceil), family="number"),
    "coalesce": Function(_of_common(pc.coalesce), 1, None),
    "concat": Function(lambda parts, at: joined_texts(parts, skips_nulls=True), 1, None),
    "cos": Function(_of_doubles(pc.cos), family="number"),
    "day": Function(_part_of_time(pc.day), family="moment"),
    "exp": Function(_of_doubles(pc.exp), family="number"),
    "floor": Function(_to_whole(pc.floor), family="number"),
    "greatest": Function(_of_common(pc.max_element_wise), 1, None),
    "hour": Function(_part_of_time(pc.hour), family="moment"),
    "if": Function(_if, 3, 3),
    "ifnull": Function(_of_common(pc.coalesce), 2, 2),
    "isnan": Function(_is_nan, family="number"),
    "least": Function(_of_common(pc.min_element_wise), 1, None),
    "length": Function(_of_text(pc.utf8_length, pa.int64()), family="text"),
    "ln": Function(_of_doubles(pc.ln), family="number"),
    "log": Function(_of_doubles(pc.log10), family="number"),
    "log10": Function(_of_doubles(pc.log10), family="number"),
    "log2": Function(_of_doubles(pc.log2), family="number"),
    "lower": Function(_of_text(pc.utf8_lower), family="text"),
    "ltrim": Function(_of_text(pc.utf8_ltrim_whitespace), family="text"),
    "minute": Function(_part_of_time(pc.minute), family="moment"),
    "month": Function(_part_of_time(pc.month), family="moment"),
    "nullif": Function(_null_if, 2, 2),
    "pow": Function(_of_doubles(pc.power), 2, 2, "number"),
    "power": Function(_of_doubles(pc.power), 2, 2, "number"),
    "round": Function(_round, 1, 2, "number"),
    "rtrim": Function(_of_text(pc.utf8_rtrim_whitespace), family="text"),
    "second": Function(_part_of_time(pc.second), family="moment"),
    "sin": Function(_of_doubles(pc.sin), family="number"),
    "sqrt": Function(_of_doubles(pc.sqrt), family="number"),
    "substring": Function(_substring, 2, 3),
    "tan": Function(_of_doubles(pc.tan), family="number"),
    "trim": Function(_of_text(pc.utf8_trim_whitespace), family="text"),
    "upper": Function(_of_text(pc.utf8_upper), family="text"),
    "year": Function(_part_of_time(pc.year), family="moment"),
}
