"""Terms of formulas: Arrow expressions of known types, and how they are brought to a common type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .literals import Value, WhereError, common_type, family_of, shown_type, typed

# The names of types in SQL; those of Arrow are known, too.
_SQL_TYPES: Final = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "utinyint": pa.uint8(),
    "usmallint": pa.uint16(),
    "uinteger": pa.uint32(),
    "ubigint": pa.uint64(),
    "real": pa.float32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "varchar": pa.string(),
    "text": pa.string(),
    "blob": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
}
_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
# Text stands for values of these kinds, as in conditions.
_FROM_TEXT: Final = frozenset({"moment", "clock", "duration"})


class FormulaError(WhereError):
    """A formula with invalid syntax, or with values that do not fit each other."""

    what: ClassVar = "formula"


class Term(NamedTuple):
    """A part of a formula that has a type."""

    expression: Any
    type: pa.DataType
    at: int
    label: str  # for messages

    @property
    def family(self) -> str | None:
        """The kind of values, as of literals; None if all are null."""
        return None if types.is_null(self.type) else family_of(self.type) or "other"

    @property
    def shown(self) -> str:
        return f"{self.label} of type {shown_type(self.type)}"

    def cast(self, type: pa.DataType, *, safe: bool = True) -> Term:
        if type == self.type:
            return self
        return self._replace(expression=self.expression.cast(type, safe=safe), type=type)


# The type of a value depends on what it is combined with.
Part: TypeAlias = Term | Value


def constant(value: Any, type: pa.DataType, at: int, label: str) -> Term:
    return Term(pc.scalar(pa.scalar(value, type)), type, at, label)


def natural(part: Part) -> Term:
    """Return a value with a type of its own: integers are int64, other numbers double."""
    if isinstance(part, Term):
        return part
    value, at, text = part.value, part.at, part.text
    match part.kind:
        case "number" if value.denominator == 1 and -(2**63) <= value < 2**63:
            return constant(int(value), pa.int64(), at, text)
        case "number":
            return fitted(part, pa.float64())
        case "moment" if text.lower().startswith("date"):
            return fitted(part, pa.date32())
        case "moment":
            return fitted(part, pa.timestamp("us"))
        case "clock":
            return fitted(part, pa.time64("us"))
        case "duration":
            return fitted(part, pa.duration("us"))
        case kind:
            return constant(value, _TYPES[kind], at, text)


_TYPES: Final = {
    "text": pa.string(),
    "bool": pa.bool_(),
    "bytes": pa.binary(),
    "null": pa.null(),
}


def fitted(part: Part, type: pa.DataType) -> Term:
    """Return a part with a type; raise FormulaError if that would change a value of the formula."""
    if isinstance(part, Term):
        if types.is_integer(part.type) and types.is_decimal(type):
            # Arrow requires room for the largest integer, not for those that there are.
            part = part.cast(pa.decimal256(76, type.scale))
        # The number of a float is the nearest one.
        return part.cast(type, safe=not types.is_floating(type))
    if part.kind == "null":
        return constant(None, type, part.at, part.text)
    scalar, is_exact = typed(part.text, type, part)
    if scalar is None or not is_exact:
        raise FormulaError(part.at, f"{part.text} is not a value of type {shown_type(type)}")
    return Term(pc.scalar(scalar), type, part.at, part.text)


def is_like(value: Value, family: str | None) -> bool:
    """Return whether a value of a formula can have a type of a family."""
    return value.kind in ("null", family) or (value.kind == "text" and family in _FROM_TEXT)


def unified(parts: Sequence[Part]) -> list[Term]:
    """Return parts with a common type; raise FormulaError if there is none."""
    terms = [one for one in parts if isinstance(one, Term) and one.family is not None]
    if not terms:
        plain = [natural(one) for one in parts]
        if all(one.family is None for one in plain):
            return plain
        return unified(plain)
    first = terms[0]
    for one in parts:
        is_same = one.family in (None, first.family) if isinstance(one, Term) else None
        if not (is_like(one, first.family) if isinstance(one, Value) else is_same):
            other = one.shown if isinstance(one, Term) else one.text
            raise FormulaError(one.at, f"{first.shown} and {other} have no common type")
    kind = _common(terms)
    values = [one for one in parts if isinstance(one, Value) and one.kind == "number"]
    if types.is_integer(kind) and values:
        kind = _with_values(kind, values)
    return [fitted(one, kind) for one in parts]


def _common(terms: Sequence[Term]) -> pa.DataType:
    kind = terms[0].type
    for one in terms[1:]:
        if one.type == kind:
            continue
        if one.family == "other" or any(map(types.is_decimal, (kind, one.type))):
            raise FormulaError(
                one.at,
                f"{terms[0].shown} and {one.shown} have no common type; cast one of them",
            )
        kind = common_type(one.family or "", kind, one.type)
    return pa.int64() if types.is_decimal(kind) else kind  # of int64 and uint64


def _with_values(kind: pa.DataType, values: Sequence[Value]) -> pa.DataType:
    """Return the type of integers and numbers of the formula."""
    if any(value.value.denominator != 1 for value in values):
        return pa.float64()
    placed = [typed(value.text, kind, value) for value in values]
    is_inside = all(bound is not None and is_exact for bound, is_exact in placed)
    return kind if is_inside else pa.int64()


def type_named(text: str, at: int) -> pa.DataType:
    """Return the type of a name of SQL or Arrow."""
    name = " ".join(text.lower().split())
    if found := _DECIMAL.fullmatch(name):
        try:
            return pa.decimal128(int(found[1]), int(found[2] or 0))
        except ValueError as error:
            raise FormulaError(at, str(error)) from error
    if name in _SQL_TYPES:
        return _SQL_TYPES[name]
    try:
        return pa.type_for_alias(name)
    except ValueError:
        raise FormulaError(
            at, f"unknown type {text!r} (expected e.g. bigint, double, varchar or decimal(10, 2))"
        ) from None
