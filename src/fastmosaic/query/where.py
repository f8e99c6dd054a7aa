"""The language of --where: conditions as in SQL, converted to Arrow expressions.

A condition consists of

- comparisons of columns with values or with each other: = == != <> < <= > >=
- x [not] in (value, ...), x [not] between low and high
- x [not] like 'pattern' [escape 'character'], and ilike, which ignores case
- x is [not] null
- boolean columns, true, false, null
- and, or, not, parentheses.

Columns are written as name, "any name" or `any name`, and fields of structs as info.name. Values are
numbers, 'text', true, false, null, x'00ff', date '2024-01-31', time '12:00', timestamp
'2024-01-31 12:00:00' and interval '90 minutes'. Everything else of SQL is an error: functions, arithmetic,
comments, subqueries.

Null is neither true nor false, as in SQL: `not (x = 1)` does not match rows in which x is null. A value
is converted to the type of the column that it is compared with, and compared exactly: if x is int32,
`x > 9.5` means `x > 9`, and `x = 10000000000` is never true. Only floating point values are rounded, to the
nearest number of the column's width. NaN follows Arrow: it is not equal to, less than or greater than
anything; `x <> x` finds it. Times without a zone are in UTC, in columns as well as in values; a date stands
for the midnight at which it begins.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import types

from ..errors import ColumnNotFoundError
from .literals import Value, WhereError, common_type, family_of, shown_type, typed

if TYPE_CHECKING:
    from pyarrow.compute import Expression

    from ..format.column_set import ColumnSet
    from ..format.paths import Path
    from .syntax import Name, Operand

# Arrow's time to find the row groups that may match grows with the square of the comparisons: one
# second for this many.
MAX_COMPARISONS: Final = 1000

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq,
    "neq": operator.ne,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}
_TURNED: Final = {"eq": "eq", "neq": "neq", "lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}

# A character of a pattern; "" for any one character, None for any number of them.
_Part = str | None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that was parsed."""

    names: tuple[str, ...]  # of its columns, or paths of fields, in the order of their first use
    tree: Any  # of sqlglot; its columns are indices of the operands
    operands: Sequence[Any]  # names, values, and what else the language has

    def expression(self, columns: ColumnSet) -> Expression:
        """Return an Arrow expression that is true for matching rows, false or null for others."""
        return _Binder(self.operands, self.located(columns)).when(self.tree, True)

    def columns(self, columns: ColumnSet) -> list[str]:
        """Return the names of the columns that the condition refers to, each once."""
        return list(dict.fromkeys(path[0] for path, _ in self.located(columns).values()))

    def located(self, columns: ColumnSet) -> dict[str, tuple[Path, pa.DataType]]:
        """Return the path and the type that each name stands for."""
        found = {}
        for name in self.names:
            try:
                # There is no path to a missing column, and asking for it raises an error.
                path = columns.path(name) or (name,)
                found[name] = path, self._type(columns.field(path[0]), path, name)
            except ColumnNotFoundError as error:
                error.message += self._hint(name, error.suggestions)
                raise
        return found

    def _type(self, field: pa.Field, path: Path, name: str) -> pa.DataType:
        """Return the type of the field at a path, which must be inside structs only."""
        for part in path[1:]:
            if not types.is_struct(field.type):
                raise WhereError(
                    next(one.at for one in self.operands if getattr(one, "name", None) == name),
                    f"{name!r} is inside a list or map, and has many values in a row; "
                    "conditions support columns and fields of structs",
                )
            field = field.type.field(part)
        return field.type

    def _hint(self, name: str, suggestions: Sequence[str]) -> str:
        """Return what to add to an error if an unknown column may have been meant as text."""
        if not any(
            one.is_quoted or one.follows_operator
            for one in self.operands
            if getattr(one, "name", None) == name
        ):
            return ""
        separator = "" if suggestions else ";"  # a question mark ends the suggestions
        return f"{separator} if you mean the text {name!r}, write it in single quotes"


def parse(text: str) -> Condition:
    """Parse a condition.

    >>> parse("price > 9.5 and (kind = 'a' or kind is null)").names
    ('price', 'kind')
    """
    from . import syntax

    tree, operands = syntax.parse(text)
    names = dict.fromkeys(one.name for one in operands if isinstance(one, syntax.Name))
    return Condition(tuple(names), tree, operands)


class _Binder:
    """Converts the trees of conditions to Arrow expressions, for columns of known types."""

    def __init__(
        self, operands: Sequence[Operand], columns: dict[str, tuple[Path, pa.DataType]]
    ) -> None:
        import pyarrow.compute as pc

        self._pc = pc
        self._operands = operands
        self._columns = columns
        self._never = pc.scalar(False)
        self._num_comparisons = 0

    def when(self, node: Any, truth: bool) -> Expression:
        """Return an expression that is true where `node` is true or, without `truth`, false.

        It is not true where `node` is null.
        """
        node = node.unnest()  # from parentheses
        if node.args.get("negate"):  # x not in ..., depending on the version of sqlglot
            truth = not truth
        match node.key:
            case "not":
                return self.when(node.this, not truth)
            case "and" | "or":
                joint = operator.and_ if (node.key == "and") == truth else operator.or_
                return balanced(joint, [self.when(part, truth) for part in chain_of(node)])
            case "column":
                return self._alone(self._operand(node), truth)
            case "is":
                return self._is_null(node, truth)
            case "in":
                return self._in(node, truth)
            case "between":
                return self._between(node, truth)
            case "like" | "ilike" | "escape":
                return self._like(node, truth)
            case key if key in _COMPARISONS:
                self._check(node, "this", "expression")
                left, right = self._operand(node.this), self._operand(node.expression)
                return self._compare(left, key, right, truth)
            case _:
                raise self._refused(node)

    # ---- the tree

    def _check(self, node: Any, *known: str) -> None:
        """Raise if the parser found more in a node than is known here."""
        for name, value in node.args.items():
            if name not in (*known, "negate") and value not in (None, False, []):
                raise self._refused(node)

    def _refused(self, node: Any) -> WhereError:
        return WhereError(self._at(node), "this syntax is not supported in a condition")

    def _at(self, node: Any) -> int:
        """Return the position of the first operand of a node."""
        found = [self._operands[int(one.name)].at for one in node.walk() if one.key == "identifier"]
        return min(found, default=1)

    def _operand(self, node: Any) -> Operand:
        inner = node.unnest()
        if inner.key != "column":
            raise WhereError(self._at(inner), "expected a column or a value, not a condition")
        self._check(inner, "this")
        return self._operands[int(inner.name)]

    def _name(self, node: Any, word: str) -> Name:
        operand = self._operand(node)
        if isinstance(operand, Value):
            raise WhereError(operand.at, f"expected a column before {word!r}, not {operand.text}")
        return operand

    def _count(self, at: int) -> None:
        self._num_comparisons += 1
        if self._num_comparisons > MAX_COMPARISONS:
            raise WhereError(
                at,
                f"more than {MAX_COMPARISONS} comparisons; 'in (...)' accepts any number of values",
            )

    # ---- conditions

    def _alone(self, operand: Operand, truth: bool) -> Expression:
        if isinstance(operand, Value):
            if operand.kind not in ("bool", "null"):
                raise WhereError(operand.at, f"{operand.text} is not a condition; compare it")
            return self._pc.scalar(operand.value is truth)
        expression, type = self._column(operand)
        if not types.is_boolean(type):
            raise WhereError(
                operand.at,
                f"column {operand.name!r} is {shown_type(type)}; a condition must be boolean",
            )
        return expression == pa.scalar(truth)

    def _is_null(self, node: Any, truth: bool) -> Expression:
        self._check(node, "this", "expression")
        if node.expression.key != "null":
            raise self._refused(node)
        expression, _ = self._column(self._name(node.this, "is"))
        return expression.is_null() if truth else expression.is_valid()

    def _in(self, node: Any, truth: bool) -> Expression:
        if node.args.get("field") is not None:
            raise WhereError(self._at(node.args["field"]), "expected '(' after 'in'")
        self._check(node, "this", "expressions")
        left = self._operand(node.this)
        operands = [self._operand(one) for one in node.expressions]
        values = [one for one in operands if isinstance(one, Value)]
        if not operands:
            raise WhereError(left.at, "expected values in parentheses after 'in'")
        if not isinstance(left, Value) and len(values) == len(operands):
            return self._among(left, values, truth)
        joint = operator.or_ if truth else operator.and_
        return balanced(joint, [self._compare(left, "eq", one, truth) for one in operands])

    def _between(self, node: Any, truth: bool) -> Expression:
        self._check(node, "this", "low", "high")
        middle, low, high = (self._operand(node.args[part]) for part in ("this", "low", "high"))
        joint = operator.and_ if truth else operator.or_
        return joint(
            self._compare(middle, "gte", low, truth), self._compare(middle, "lte", high, truth)
        )

    def _like(self, node: Any, truth: bool) -> Expression:
        escape = None
        if node.key == "escape":
            self._check(node, "this", "expression")
            escape = node.expression.name
            node = node.this
            truth = truth != bool(node.args.get("negate"))
        if node.key not in ("like", "ilike"):
            raise self._refused(node)
        self._check(node, "this", "expression")
        name = self._name(node.this, node.key)
        self._count(name.at)
        pattern = self._operand(node.expression)
        if isinstance(pattern, Value) and pattern.kind == "null":
            self._column(name)
            return self._never
        if not isinstance(pattern, Value) or pattern.kind != "text":
            shown = pattern.text if isinstance(pattern, Value) else pattern.name
            raise WhereError(
                pattern.at, f"expected a pattern in quotes, such as 'x%', not {shown!r}"
            )
        return self._matches(name, parts_of(pattern, escape), node.key == "ilike", truth)

    def _compare(self, left: Operand, sign: str, right: Operand, truth: bool) -> Expression:
        self._count(left.at)
        if isinstance(left, Value):
            if not isinstance(right, Value):
                return self._compare_value(right, _TURNED[sign], left, truth)
            if "null" in (left.kind, right.kind):
                return self._never
            raise WhereError(left.at, f"neither {left.text} nor {right.text} is a column")
        if isinstance(right, Value):
            return self._compare_value(left, sign, right, truth)
        return self._either(self._compare_columns(left, sign, right), truth)

    # ---- in Arrow

    def _column(self, column: Name) -> tuple[Any, pa.DataType]:
        return comparable(*self._columns[column.name])

    def _either(self, expression: Any, truth: bool) -> Expression:
        return expression if truth else ~expression

    def _unless_null(self, expression: Any, answer: bool) -> Expression:
        """Return an expression that is true for all rows with a value, or for no row."""
        return expression.is_valid() if answer else self._never

    def _compare_value(self, column: Name, sign: str, value: Value, truth: bool) -> Expression:
        expression, type = self._column(column)
        if value.kind == "null" or types.is_null(type):
            return self._never
        bound, is_exact = typed(column.name, type, value)
        if is_exact:
            return self._either(_COMPARISONS[sign](expression, bound), truth)
        if sign in ("eq", "neq"):
            return self._unless_null(expression, (sign == "neq") == truth)
        # No value of the column lies between `bound` and the value, so that `bound` can replace it.
        if bound is None:
            return self._unless_null(expression, (sign in ("gt", "gte")) == truth)
        sign = "lte" if sign in ("lt", "lte") else "gt"
        return self._either(_COMPARISONS[sign](expression, bound), truth)

    def _among(self, column: Name, values: Sequence[Value], truth: bool) -> Expression:
        expression, type = self._column(column)
        has_null = any(value.kind == "null" for value in values)
        if types.is_null(type) or (has_null and not truth):
            return self._never
        placed = [typed(column.name, type, value) for value in values if value.kind != "null"]
        scalars = [bound for bound, is_exact in placed if bound is not None and is_exact]
        if types.is_floating(type) and any(scalar.as_py() == 0 for scalar in scalars):
            # Arrow finds them equal, but not in a list.
            scalars += [pa.scalar(0.0, type), pa.scalar(-0.0, type)]
        if not scalars:
            return self._unless_null(expression, not truth)
        found = expression.isin(pa.array(scalars, type))
        return found if truth else expression.is_valid() & ~found

    def _matches(
        self, column: Name, pattern: Sequence[_Part], ignore_case: bool, truth: bool
    ) -> Expression:
        expression, type = self._column(column)
        if types.is_null(type):
            return self._never
        if family_of(type) != "text":
            raise WhereError(
                column.at,
                f"column {column.name!r} is {shown_type(type)}; 'like' requires a text column",
            )
        wild = next((i for i, part in enumerate(pattern) if not part), len(pattern))
        start = "".join(part or "" for part in pattern[:wild])
        rest = pattern[wild:]
        # Comparisons allow row groups to be skipped, a pattern does not.
        if not ignore_case and not rest:
            return self._either(expression == pa.scalar(start, type), truth)
        is_like = self._pc.match_like(expression, arrow_pattern(pattern), ignore_case=ignore_case)
        if ignore_case or not start:
            return self._either(is_like, truth)
        in_range = expression >= pa.scalar(start, type)
        end = _after(start)
        if end is not None:
            in_range = in_range & (expression < pa.scalar(end, type))
        if set(rest) == {None}:
            return self._either(in_range, truth)
        return in_range & is_like if truth else ~is_like

    def _compare_columns(self, column: Name, sign: str, other: Name) -> Any:
        left, left_type = self._column(column)
        right, right_type = self._column(other)
        if types.is_null(left_type) or types.is_null(right_type):
            return self._pc.scalar(pa.scalar(None, pa.bool_()))
        family = family_of(left_type)
        if family is None or family != family_of(right_type):
            raise WhereError(
                column.at,
                f"cannot compare column {column.name!r} of type {shown_type(left_type)} with "
                f"column {other.name!r} of type {shown_type(right_type)}",
            )
        if left_type != right_type:
            common = common_type(family, left_type, right_type)
            is_safe = not types.is_floating(common)
            left, right = (
                one if type == common else one.cast(common, safe=is_safe)
                for one, type in ((left, left_type), (right, right_type))
            )
        return _COMPARISONS[sign](left, right)


def comparable(path: Path, type: pa.DataType) -> tuple[Any, pa.DataType]:
    """Return a column as an expression, and its type; not all functions support all types."""
    import pyarrow.compute as pc

    expression = pc.field(*path)
    if types.is_dictionary(type):
        type = type.value_type
        expression = expression.cast(type)
    if types.is_fixed_size_binary(type):
        type = pa.binary()
        expression = expression.cast(type)
    if types.is_float16(type):
        type = pa.float32()
        expression = expression.cast(type)
    return expression, type


def chain_of(node: Any) -> list[Any]:
    """Return the parts of a chain of "and" or "or", which is a tree as deep as it is long."""
    key = node.key
    parts = []
    while node.key == key:
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)]


def balanced(joint: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """Join parts to a tree that is as flat as possible, because Arrow recurses into it."""
    while len(parts) > 1:
        parts = [functools.reduce(joint, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def parts_of(value: Value, escape: str | None) -> tuple[_Part, ...]:
    """Return the parts of a pattern."""
    parts: list[_Part] = []
    characters = iter(value.value)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise WhereError(
                    value.at, f"the pattern {value.text} ends with its escape character"
                )
            parts.append(literal)
        else:
            parts.append({"%": None, "_": ""}.get(character, character))
    return tuple(parts)


def arrow_pattern(pattern: Sequence[_Part]) -> str:
    """Return a pattern in Arrow's syntax, which escapes with backslashes."""
    written = {None: "%", "": "_", "%": "\\%", "_": "\\_", "\\": "\\\\"}
    return "".join(written.get(part, part or "") for part in pattern)


def _after(start: str) -> str | None:
    """Return the least text above all texts that begin with `start`, or None if there is none."""
    for i in reversed(range(len(start))):
        following = ord(start[i]) + 1
        if following <= 0x10FFFF:
            # Surrogates, which UTF-8 does not have, are between these two.
            return start[:i] + chr(0xE000 if following == 0xD800 else following)
    return None
