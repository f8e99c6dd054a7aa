"""Formulas: how a new column of a table is computed from others, as in SQL.

A formula consists of

- arithmetic: + - * / %, and || for text
- conditions as in --where, also of computed values
- case when x > 0 then 'a' else 'b' end, case kind when 'a' then 1 end
- cast(x as double), and functions such as coalesce, round and lower.

The meaning is that of DuckDB. `/` is a division of floating point numbers, also of integers: `1 / 2` is 0.5,
and `1 / 0` is infinity. Otherwise integers are computed as int64, and an overflow is an error, as is `%` by
zero. Numbers with a fraction are double, or float beside a column of type float. Null makes the result null,
except in conditions, case, coalesce, concat, least and greatest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from .functions import as_condition, as_float, call, cast, choose, joined_texts
from .literals import Value, WhereError, common_type, shown_type, typed
from .terms import FormulaError, Part, Term, constant, fitted, is_like, natural
from .where import Condition, arrow_pattern, balanced, chain_of, comparable, parts_of

if TYPE_CHECKING:
    from pyarrow.compute import Expression

    from ..format.column_set import ColumnSet
    from ..format.paths import Path

_ARITHMETIC: Final[dict[str, tuple[str, Callable[[Any, Any], Any]]]] = {
    "add": ("+", pc.add_checked),
    "sub": ("-", pc.subtract_checked),
    "mul": ("*", pc.multiply_checked),
    "div": ("/", pc.divide),
    "mod": ("%", lambda a, b: pc.subtract(a, pc.multiply(pc.divide_checked(a, b), b))),
}
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "eq": operator.eq,
    "neq": operator.ne,
    "lt": operator.lt,
    "lte": operator.le,
    "gt": operator.gt,
    "gte": operator.ge,
}
_TURNED: Final = {"eq": "eq", "neq": "neq", "lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}


@dataclass(frozen=True, slots=True)
class Formula(Condition):
    """A formula that was parsed."""

    def expression(self, columns: ColumnSet) -> Expression:
        """Return an Arrow expression for the values."""
        with _as_formula():
            binder = _FormulaBinder(self.operands, self.located(columns), columns)
            term = natural(binder.term(self.tree))
            binder.type_of(term)
            return term.expression


def parse(text: str) -> Formula:
    """Parse a formula.

    >>> parse("round(price * 1.19, 2)").names
    ('price',)
    """
    from . import formula_syntax

    with _as_formula():
        return _made(*formula_syntax.parse(text))


def parse_assignment(text: str) -> tuple[str, Formula]:
    """Parse the name of a column and a formula.

    >>> parse_assignment("ratio = a / b")[0]
    'ratio'
    """
    from . import formula_syntax

    with _as_formula():
        name, tree, operands = formula_syntax.parse_assignment(text)
        return name, _made(tree, operands, start=1)


def _made(tree: Any, operands: Sequence[Any], start: int = 0) -> Formula:
    from .syntax import Name

    names = dict.fromkeys(one.name for one in operands[start:] if isinstance(one, Name))
    return Formula(tuple(names), tree, operands)


@contextmanager
def _as_formula() -> Iterator[None]:
    """Let errors of the language of conditions speak of a formula."""
    try:
        yield
    except WhereError as error:
        if isinstance(error, FormulaError):
            raise
        raise FormulaError(error.at, error.message) from None
    except RecursionError:
        raise FormulaError(1, "the formula is nested too deeply") from None


class _FormulaBinder:
    """Converts the trees of formulas to Arrow expressions, for columns of known types."""

    def __init__(
        self,
        operands: Sequence[Any],
        located: dict[str, tuple[Path, pa.DataType]],
        columns: ColumnSet,
    ) -> None:
        self._operands = operands
        self._columns = located
        self._schema = columns.select(list(located))

    def term(self, node: Any) -> Part:
        """Return what a node of the tree stands for."""
        node = node.unnest()  # from parentheses
        key = node.key
        if node.args.get("negate"):  # x not in ..., depending on the version of sqlglot
            inner = node.copy()
            inner.set("negate", None)
            return self._not(inner)
        if key in _ARITHMETIC or key == "dpipe":
            return self._arithmetic(node)
        if key in _COMPARISONS:
            return self._compare(self.term(node.this), key, self.term(node.expression))
        match key:
            case "column":
                return self._operand(node)
            case "neg":
                return self._negative(self.term(node.this))
            case "anonymous":
                return self._function(node)
            case "case":
                return self._case(node)
            case "not":
                return self._not(node.this)
            case "and" | "or":
                joint = operator.and_ if key == "and" else operator.or_
                parts = [as_condition(self.term(part)) for part in chain_of(node)]
                made = balanced(joint, [part.expression for part in parts])
                return self._condition(made, parts[0].at)
            case "is" if node.expression.key == "null":
                term = natural(self.term(node.this))
                return self._condition(term.expression.is_null(), term.at)
            case "in" if node.expressions:
                return self._in(node)
            case "between":
                return self._between(node)
            case "like" | "ilike" | "escape":
                return self._like(node)
        raise FormulaError(self._at(node), "this syntax is not supported in a formula")

    def _at(self, node: Any) -> int:
        """Return the position of the first operand of a node."""
        found = [self._operands[int(one.name)].at for one in node.walk() if one.key == "identifier"]
        return min(found, default=1)

    def _operand(self, node: Any) -> Part:
        operand = self._operands[int(node.name)]
        if isinstance(operand, Value):
            return operand
        expression, type = comparable(*self._columns[operand.name])
        return Term(expression, type, operand.at, f"column {operand.name!r}")

    def _condition(self, expression: Any, at: int) -> Term:
        return Term(expression, pa.bool_(), at, "a condition")

    # ---- values

    def _function(self, node: Any) -> Term:
        word = self._operands[int(node.this[1:])]
        if word.text == "cast":
            part, type = node.expressions
            name = self._operands[int(type.name)]
            return cast(self.term(part), name.text, name.at)
        return call(word.text, [self.term(one) for one in node.expressions], word.at)

    def _case(self, node: Any) -> Term:
        subject = node.this and self.term(node.this)
        branches: list[tuple[Part, Part]] = []
        for one in node.args["ifs"]:
            condition = self.term(one.this)
            if subject is not None:
                condition = self._compare(subject, "eq", condition)
            branches.append((condition, self.term(one.args["true"])))
        default = node.args.get("default")
        null = Value("null", None, "null", self._at(node))
        return choose(branches, null if default is None else self.term(default))

    def _negative(self, part: Part) -> Term:
        term = natural(part)
        if term.family not in ("number", "duration"):
            raise FormulaError(term.at, f"{term.label} is {shown_type(term.type)}, not a number")
        if types.is_unsigned_integer(term.type):
            term = term.cast(pa.int64())
        return term._replace(expression=pc.negate_checked(term.expression))

    def _arithmetic(self, node: Any) -> Part:
        spine = []  # a sum of many terms is a tree as deep as it is long
        while node.key in _ARITHMETIC or node.key == "dpipe":
            spine.append(node)
            node = node.this
        result = self.term(node)
        for one in reversed(spine):
            other = self.term(one.expression)
            if one.key == "dpipe":
                result = joined_texts([result, other], skips_nulls=False)
            else:
                result = self._computed(one.key, result, other)
        return result

    def _computed(self, key: str, left: Part, right: Part) -> Term:
        sign, function = _ARITHMETIC[key]
        one, other = natural(left), natural(right)
        families = {one.family, other.family} - {None}
        if families <= {"number"}:
            terms = self._numbers(key, left, right)
        elif key in ("add", "sub") and families <= {"moment", "duration"}:
            return self._times(key, one, other)
        else:
            raise FormulaError(
                one.at,
                f"cannot compute {_described(left)} {sign} {_described(right)}",
            )
        made = function(*(term.expression for term in terms))
        result = Term(made, terms[0].type, one.at, f"{_described(left)} {sign} {_described(right)}")
        if any(types.is_decimal(term.type) for term in terms):
            result = result._replace(type=self.type_of(result))
        return result._replace(label="the result")

    def _numbers(self, key: str, left: Part, right: Part) -> Sequence[Term]:
        """Return numbers with the type in which they are computed."""
        parts = (left, right)
        terms = [part for part in parts if isinstance(part, Term)] or list(map(natural, parts))
        kinds = [term.type for term in terms if not types.is_null(term.type)] or [pa.int64()]
        is_whole = all(
            types.is_integer(term.type) or types.is_null(term.type) for term in map(natural, parts)
        )
        if key == "mod" and not is_whole:
            raise FormulaError(terms[0].at, f"% requires integers, not {_described(terms[0])}")
        if key == "div" or any(map(types.is_floating, kinds)):
            narrow = all(kind == pa.float32() for kind in kinds)
            common = pa.float32() if narrow else pa.float64()
        elif is_whole:
            common = pa.int64()
        elif any(map(types.is_decimal, kinds)):
            return [self._decimal(part) for part in parts]
        else:
            common = pa.float64()
        return [_number(part, common) for part in parts]

    def _decimal(self, part: Part) -> Term:
        """Return an operand of a computation with decimals."""
        if isinstance(part, Value) and part.kind == "number":
            scalar = pa.scalar(_exact_decimal(part))
            return Term(pc.scalar(scalar), scalar.type, part.at, part.text)
        return natural(part)

    def type_of(self, term: Term) -> pa.DataType:
        """Return the type of the values of a term; raise FormulaError if Arrow cannot compute them."""
        from pyarrow.dataset import InMemoryDataset

        try:
            scanner = InMemoryDataset(self._schema.empty_table()).scanner(
                columns={"x": term.expression}
            )
            return scanner.projected_schema.field(0).type
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise FormulaError(term.at, f"{term.label} cannot be computed: {error}") from error

    def _times(self, key: str, one: Term, other: Term) -> Term:
        function = _ARITHMETIC[key][1]
        if one.family == other.family == "moment":
            if key == "add":
                raise FormulaError(one.at, f"cannot compute {one.shown} + {other.shown}")
            common = common_type("moment", one.type, other.type)
            one, other = one.cast(common), other.cast(common)
            return Term(
                function(one.expression, other.expression),
                pa.duration(common.unit),
                one.at,
                "the result",
            )
        if one.family == "duration" and other.family == "moment" and key == "add":
            one, other = other, one
        if other.family == "moment":
            raise FormulaError(one.at, f"cannot compute {one.shown} - {other.shown}")
        if one.family == "moment" and types.is_date(one.type):
            one = one.cast(pa.timestamp("us"))
        result = one.type
        if one.family is not None and other.family is not None:
            unit = max(one.type.unit, other.type.unit, key=("s", "ms", "us", "ns").index)
            other = other.cast(pa.duration(unit))
            result = (
                pa.duration(unit) if one.family == "duration" else pa.timestamp(unit, one.type.tz)
            )
            one = one.cast(result)
        return Term(function(one.expression, other.expression), result, one.at, "the result")

    # ---- conditions

    def _not(self, node: Any) -> Term:
        term = as_condition(self.term(node))
        return self._condition(~term.expression, term.at)

    def _compare(self, left: Part, sign: str, right: Part) -> Term:
        if isinstance(left, Value) and isinstance(right, Term):
            return self._compare(right, _TURNED[sign], left)
        if isinstance(left, Term) and isinstance(right, Value) and left.family is not None:
            return self._compare_value(left, sign, right)
        one, other = natural(left), natural(right)
        if one.family is None or other.family is None:
            return constant(None, pa.bool_(), one.at, "a condition")
        if one.family != other.family:
            raise FormulaError(one.at, f"cannot compare {one.shown} with {other.shown}")
        if one.type != other.type:
            common = common_type(one.family, one.type, other.type)
            one, other = fitted(one, common), fitted(other, common)
        return self._condition(_COMPARISONS[sign](one.expression, other.expression), one.at)

    def _compare_value(self, term: Term, sign: str, value: Value) -> Term:
        if value.kind == "null":
            return constant(None, pa.bool_(), term.at, "a condition")
        if not is_like(value, term.family):
            raise FormulaError(value.at, f"cannot compare {term.shown} with {value.text}")
        bound, is_exact = typed(term.label, term.type, value)
        if is_exact:
            return self._condition(_COMPARISONS[sign](term.expression, bound), term.at)
        if bound is not None and sign not in ("eq", "neq"):
            # No value of the type lies between `bound` and the value, so that `bound` can replace it.
            sign = "lte" if sign in ("lt", "lte") else "gt"
            return self._condition(_COMPARISONS[sign](term.expression, bound), term.at)
        answer = sign in (("neq",) if sign in ("eq", "neq") else ("gt", "gte"))
        null = constant(None, pa.bool_(), term.at, "").expression
        made = pc.if_else(term.expression.is_valid(), pc.scalar(answer), null)
        return self._condition(made, term.at)

    def _in(self, node: Any) -> Term:
        left = self.term(node.this)
        found = [self._compare(left, "eq", self.term(one)) for one in node.expressions]
        made = balanced(operator.or_, [one.expression for one in found])
        return self._condition(made, left.at)

    def _between(self, node: Any) -> Term:
        middle, low, high = (self.term(node.args[part]) for part in ("this", "low", "high"))
        above, below = self._compare(middle, "gte", low), self._compare(middle, "lte", high)
        return self._condition(above.expression & below.expression, middle.at)

    def _like(self, node: Any) -> Term:
        escape = None
        if node.key == "escape":
            escape = node.expression.name
            node = node.this
        is_negated = bool(node.args.get("negate"))
        if node.key not in ("like", "ilike"):
            raise FormulaError(self._at(node), "this syntax is not supported in a formula")
        term, pattern = natural(self.term(node.this)), self.term(node.expression)
        if not isinstance(pattern, Value) or pattern.kind != "text":
            raise FormulaError(pattern.at, "expected a pattern in quotes, such as 'x%'")
        if term.family != "text":
            raise FormulaError(
                term.at, f"{term.label} is {shown_type(term.type)}; 'like' requires text"
            )
        written = arrow_pattern(parts_of(pattern, escape))
        made = pc.match_like(term.expression, written, ignore_case=node.key == "ilike")
        return self._condition(~made if is_negated else made, term.at)


def _number(part: Part, type: pa.DataType) -> Term:
    """Return a number with the type in which it is computed."""
    if isinstance(part, Value) or types.is_null(part.type) or types.is_integer(type):
        return fitted(part, type)
    return fitted(as_float(part), type)


def _exact_decimal(value: Value) -> Any:
    from decimal import Decimal

    return Decimal(value.text)


def _described(part: Part) -> str:
    return part.shown if isinstance(part, Term) else part.text
