"""The language of --where: conditions as in SQL, made into Arrow expressions.

    condition  = and-part { "or" and-part }
    and-part   = not-part { "and" not-part }
    not-part   = { "not" } predicate
    predicate  = operand ( "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) operand
               | operand "is" [ "not" ] "null"
               | operand [ "not" ] "in" "(" operand { "," operand } ")"
               | operand [ "not" ] "between" operand "and" operand
               | operand [ "not" ] ( "like" | "ilike" ) text [ "escape" text ]
               | column | "true" | "false" | "null" | "(" condition ")"
    operand    = column | number | text | "true" | "false" | "null" | x'00ff' | "(" operand ")"
               | ( "date" | "time" | "timestamp" ) text
    column     = name | "any name" | `any name`

Null is neither true nor false, as in SQL: `not (x = 1)` leaves rows out in which x is null.
A value is taken for what the column is that it is compared with, and compared exactly: of an
int32, `x > 9.5` means `x > 9`, and `x = 10000000000` is never true. Only for floating point the
value is rounded, to the nearest number of the column's width. NaN is as in Arrow: not equal to
anything, neither less nor greater; `x <> x` finds it. Times without a zone are in UTC, of the
column as well as of the value; a date is the midnight at which it begins.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import pyarrow as pa
from pyarrow import types

from ..errors import ColumnNotFoundError
from .literals import Value, WhereError, clock, common_type, exact, family_of, moment, typed

if TYPE_CHECKING:
    from pyarrow.compute import Expression

# Deeper than anyone writes, shallower than Python's own recursion.
MAX_DEPTH: Final = 100
# Arrow's time to see which row groups may match grows with the square of the comparisons: a second.
MAX_COMPARISONS: Final = 1000

_TOKEN: Final = re.compile(
    r"""(?P<number> (?: \d+ \.? \d* | \. \d+ ) (?: [eE] [+-]? \d+ )? )
      | (?P<bytes> [xX] ' [^']* ' )
      | (?P<text> ' [^']* (?: '' [^']* )* ' )
      | (?P<quoted> " [^"]* (?: "" [^"]* )* " | ` [^`]* (?: `` [^`]* )* ` )
      | (?P<word> [^\W\d] [\w$]* (?: \. [\w$]+ )* )
      | (?P<operator> [=<>!~|&^*/%]+ )
      | (?P<mark> [(),+-] )""",
    re.VERBOSE,
)
_RESERVED: Final = frozenset(
    ("and", "or", "not", "in", "is", "null", "like", "ilike", "between", "true", "false")
)
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SAME: Final = {"==": "=", "<>": "!="}
_TURNED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

# ---- what a condition consists of


@dataclass(frozen=True, slots=True)
class Column:
    """A column, as it is named."""

    name: str
    at: int


Operand: TypeAlias = Column | Value


@dataclass(frozen=True, slots=True)
class Alone:
    """A column or a value that is a condition by itself."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Comparison:
    column: Column
    sign: str
    other: Operand


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column


@dataclass(frozen=True, slots=True)
class In:
    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Like:
    column: Column
    pattern: tuple[str | None, ...]  # characters; "" for any one, None for any number of them
    ignore_case: bool


@dataclass(frozen=True, slots=True)
class Not:
    part: Node


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Node, ...]


Node: TypeAlias = Alone | Comparison | IsNull | In | Like | Not | All | Some


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that is well formed."""

    names: tuple[str, ...]  # of the columns in it, as written
    root: Node
    quoted: frozenset[str]  # those of the names that are in quotes

    def expression(self, field: Callable[[str], pa.Field]) -> Expression:
        """True for the rows that are wanted, false or null for others.

        `field` gives a column by its name, or raises `ColumnNotFoundError`.
        """
        column_types = {}
        for name in self.names:
            try:
                column_types[name] = field(name).type
            except ColumnNotFoundError as error:
                if name in self.quoted:
                    error.message += "; text is in single quotes"
                raise
        return _Binder(column_types).when(self.root, True)


def parse(text: str) -> Condition:
    """The condition that is written in `text`.

    >>> parse("price > 9.5 and (kind = 'a' or kind is null)").names
    ('price', 'kind')
    """
    return _Parser(text).condition()


# ---- from text


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # a group of _TOKEN, "keyword", or "end"
    text: str
    at: int  # of its first character, from 1

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


def _tokens(text: str) -> list[_Token]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WhereError(error.start + 1, "not a character of UTF-8") from None
    found = []
    position = 0
    while (position := _skip_space(text, position)) < len(text):
        match = _TOKEN.match(text, position)
        at = position + 1
        if match is None:
            if text[position] in "'\"`":
                raise WhereError(at, f"the {text[position]} has no other that ends it")
            raise WhereError(at, f"{text[position]!r} means nothing here")
        kind, word = str(match.lastgroup), match[0]
        if kind == "word" and word.lower() in _RESERVED:
            kind, word = "keyword", word.lower()
        found.append(_Token(kind, word, at))
        position = match.end()
    return [*found, _Token("end", "", len(text) + 1)]


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


class _Parser:
    """Reads tokens from left to right; a method for each line of the grammar."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0
        self._num_comparisons = 0
        self._names: dict[str, None] = {}
        self._quoted: set[str] = set()

    def condition(self) -> Condition:
        root = self._some()
        if self._peek().kind != "end":
            self._expected("'and', 'or' or the end")
        return Condition(tuple(self._names), root, frozenset(self._quoted))

    def _some(self) -> Node:
        parts = [self._all()]
        while self._accept("or"):
            parts.append(self._all())
        return Some(tuple(parts)) if len(parts) > 1 else parts[0]

    def _all(self) -> Node:
        parts = [self._negation()]
        while self._accept("and"):
            parts.append(self._negation())
        return All(tuple(parts)) if len(parts) > 1 else parts[0]

    def _negation(self) -> Node:
        negative = False
        while self._accept("not"):
            negative = not negative
        part = self._predicate()
        return Not(part) if negative else part

    def _predicate(self) -> Node:
        start = self._peek()
        left = self._primary()
        token = self._peek()
        negative = self._accept("not")
        if token.kind == "operator":
            return self._comparison(self._operand_of(left, token))
        if not negative and self._accept("is"):
            is_not = self._accept("not")
            self._expect("null")
            is_null = IsNull(self._column_of(left, token))
            return Not(is_null) if is_not else is_null
        part: Node
        if self._accept("in"):
            part = self._in(self._operand_of(left, token))
        elif self._accept("between"):
            part = self._between(self._operand_of(left, token))
        elif self._sees("like", "ilike"):
            part = self._like(self._column_of(left, token), self._take().text == "ilike")
        elif negative:
            self._expected("'in', 'between' or 'like' after 'not'")
        elif isinstance(left, Alone) and not _can_stand_alone(left.operand):
            self._expected(f"a comparison after {start}")
        else:
            return left
        return Not(part) if negative else part

    def _operand_of(self, left: Node, token: _Token) -> Operand:
        if not isinstance(left, Alone):
            raise WhereError(token.at, f"{token} follows a condition, not a column or a value")
        return left.operand

    def _column_of(self, left: Node, token: _Token) -> Column:
        operand = self._operand_of(left, token)
        if not isinstance(operand, Column):
            raise WhereError(operand.at, f"expected a column before {token}, not {operand.text}")
        return operand

    def _primary(self) -> Node:
        if not self._sees("("):
            return Alone(self._operand())
        opening = self._open()
        inner = self._some()
        self._close(opening)
        return inner

    def _open(self) -> _Token:
        opening = self._take()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise WhereError(opening.at, f"parentheses are nested more than {MAX_DEPTH} deep")
        return opening

    def _close(self, opening: _Token) -> None:
        if not self._sees(")"):
            self._expected(f"')' for the '(' at character {opening.at}")
        self._take()
        self._depth -= 1

    def _comparison(self, left: Operand) -> Node:
        token = self._take()
        sign = _SAME.get(token.text, token.text)
        if sign not in _COMPARISONS:
            raise WhereError(
                token.at, f"there is no operator {token}; there are = != <> < <= > >= and words"
            )
        return self._compare(left, sign, self._operand(), token)

    def _count(self, token: _Token) -> None:
        self._num_comparisons += 1
        if self._num_comparisons > MAX_COMPARISONS:
            raise WhereError(
                token.at,
                f"more than {MAX_COMPARISONS} comparisons; 'in (...)' takes any number of values",
            )

    def _compare(self, left: Operand, sign: str, right: Operand, token: _Token) -> Node:
        self._count(token)
        if isinstance(left, Column):
            return Comparison(left, sign, right)
        if isinstance(right, Column):
            return Comparison(right, _TURNED[sign], left)
        for value in (left, right):
            if value.kind == "null":
                return Alone(value)
        raise WhereError(token.at, f"neither {left.text} nor {right.text} is a column")

    def _in(self, left: Operand) -> Node:
        if not self._sees("("):
            self._expected("'(' after 'in'")
        opening = self._open()
        operands = [self._operand()]
        while self._accept(","):
            operands.append(self._operand())
        self._close(opening)
        values = tuple(one for one in operands if isinstance(one, Value))
        if isinstance(left, Column) and len(values) == len(operands):
            return In(left, values)
        return Some(tuple(self._compare(left, "=", one, opening) for one in operands))

    def _between(self, middle: Operand) -> Node:
        token = self._peek()
        low = self._operand()
        self._expect("and")
        high = self._operand()
        return All(
            (self._compare(middle, ">=", low, token), self._compare(middle, "<=", high, token))
        )

    def _like(self, column: Column, ignore_case: bool) -> Node:
        self._count(self._peek())
        if self._sees("null"):
            return Comparison(column, "=", self._value("null", None, self._take()))
        pattern = self._text("a pattern in quotes, such as 'x%'")
        escape = None
        token = self._peek()
        if token.kind == "word" and token.text.lower() == "escape":
            self._take()
            token = self._peek()
            escape = _unquoted(self._text("a character in quotes").text)
            if len(escape) != 1:
                raise WhereError(token.at, f"the escape is one character, not {token.text}")
        return Like(column, _pattern(pattern, escape), ignore_case)

    def _operand(self) -> Operand:
        if self._sees("("):
            opening = self._open()
            inner = self._operand()
            self._close(opening)
            return inner
        if self._sees("+", "-"):
            sign = self._take()
            if self._peek().kind != "number":
                self._expected(f"a number after {sign}")
            return self._number(_Token("number", sign.text + self._take().text, sign.at))
        return self._simple_operand()

    def _simple_operand(self) -> Operand:
        token = self._peek()
        if token.kind == "end" or token.kind in ("mark", "operator"):
            self._expected("a column or a value")
        self._take()
        match token.kind:
            case "number":
                return self._number(token)
            case "text":
                return self._value("text", _unquoted(token.text), token)
            case "bytes":
                return self._value("bytes", _unhexed(token), token)
            case "keyword" if token.text in ("true", "false"):
                return self._value("bool", token.text == "true", token)
            case "keyword" if token.text == "null":
                return self._value("null", None, token)
            case "keyword":
                message = f"expected a column or a value, not {token}"
                raise WhereError(token.at, f'{message}; a column of that name is "{token.text}"')
            case "word" if self._peek().kind == "text" and token.text.lower() in _TYPED:
                kind, read = _TYPED[token.text.lower()]
                text = self._take()
                return self._value(kind, read(_unquoted(text.text), text.at), text)
        name = token.text
        if token.kind == "quoted":
            name = _unquoted(name)
            self._quoted.add(name)
        self._names[name] = None
        return Column(name, token.at)

    def _number(self, token: _Token) -> Value:
        return self._value("number", exact(token.text, token.at), token)

    def _value(self, kind: str, value: Any, token: _Token) -> Value:
        return Value(kind, value, token.text, token.at)

    def _text(self, what: str) -> _Token:
        if self._peek().kind != "text":
            self._expected(what)
        return self._take()

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _sees(self, *words: str) -> bool:
        token = self._peek()
        return token.text in words and token.kind in ("keyword", "mark")

    def _accept(self, word: str) -> bool:
        is_next = self._sees(word)
        self._next += is_next
        return is_next

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._expected(repr(word))

    def _expected(self, what: str) -> NoReturn:
        token = self._peek()
        raise WhereError(token.at, f"expected {what}, not {token}")


def _can_stand_alone(operand: Operand) -> bool:
    return isinstance(operand, Column) or operand.kind in ("bool", "null")


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote + quote, quote)


def _unhexed(token: _Token) -> bytes:
    try:
        return bytes.fromhex(token.text[2:-1])
    except ValueError:
        raise WhereError(
            token.at, f"{token.text} is not bytes in hexadecimal digits, such as x'00ff'"
        ) from None


_TYPED: Final[dict[str, tuple[str, Callable[[str, int], Fraction]]]] = {
    "date": ("moment", moment),
    "timestamp": ("moment", moment),
    "time": ("clock", clock),
}


def _pattern(token: _Token, escape: str | None) -> tuple[str | None, ...]:
    """The parts of a pattern, as in `Like`."""
    parts: list[str | None] = []
    characters = iter(_unquoted(token.text))
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise WhereError(token.at, f"the pattern {token.text} ends in its escape")
            parts.append(literal)
        else:
            parts.append({"%": None, "_": ""}.get(character, character))
    return tuple(parts)


# ---- to Arrow


class _Binder:
    """Makes expressions of conditions, for columns of known types."""

    def __init__(self, column_types: dict[str, pa.DataType]) -> None:
        import pyarrow.compute as pc

        self._pc = pc
        self._types = column_types
        self._never = pc.scalar(False)

    def when(self, node: Node, truth: bool) -> Expression:
        """True for the rows in which `node` is true or, without `truth`, false: never if null."""
        match node:
            case Not(part):
                return self.when(part, not truth)
            case All(parts) | Some(parts):
                joint = operator.and_ if isinstance(node, All) == truth else operator.or_
                return _balanced(joint, [self.when(part, truth) for part in parts])
            case Alone(Column() as column):
                expression, type = self._column(column)
                if not types.is_boolean(type):
                    raise WhereError(
                        column.at, f"column {column.name!r} is {type}, and alone no condition"
                    )
                return expression == pa.scalar(truth)
            case Alone(Value(value=value)):
                return self._pc.scalar(value is truth)
            case IsNull(column):
                expression, _ = self._column(column)
                return expression.is_null() if truth else expression.is_valid()
            case In(column, values):
                return self._in(column, values, truth)
            case Like():
                return self._like(node, truth)
            case Comparison(column, sign, Column() as other):
                return self._either(self._compare_columns(column, sign, other), truth)
            case Comparison(column, sign, Value() as literal):
                return self._compare(column, sign, literal, truth)

    def _column(self, column: Column) -> tuple[Any, pa.DataType]:
        type = self._types[column.name]
        expression = self._pc.field(column.name)
        # Not all of Arrow's functions know these.
        if types.is_dictionary(type):
            type = type.value_type
            expression = expression.cast(type)
        if types.is_fixed_size_binary(type):
            type = pa.binary()
            expression = expression.cast(type)
        return expression, type

    def _either(self, expression: Any, truth: bool) -> Expression:
        return expression if truth else ~expression

    def _unless_null(self, expression: Any, answer: bool) -> Expression:
        """True for rows with a value, or for none."""
        return expression.is_valid() if answer else self._never

    def _compare(self, column: Column, sign: str, value: Value, truth: bool) -> Expression:
        expression, type = self._column(column)
        if value.kind == "null" or types.is_null(type):
            return self._never
        bound, is_exact = typed(column.name, type, value)
        if is_exact:
            return self._either(_COMPARISONS[sign](expression, bound), truth)
        if sign in ("=", "!="):
            return self._unless_null(expression, (sign == "!=") == truth)
        # The value lies above `bound` and below the next: with either, the same rows are on a side.
        if bound is None:
            return self._unless_null(expression, (sign in (">", ">=")) == truth)
        sign = "<=" if sign in ("<", "<=") else ">"
        return self._either(_COMPARISONS[sign](expression, bound), truth)

    def _in(self, column: Column, values: Sequence[Value], truth: bool) -> Expression:
        expression, type = self._column(column)
        has_null = any(value.kind == "null" for value in values)
        if types.is_null(type) or (has_null and not truth):
            return self._never
        placed = [typed(column.name, type, value) for value in values if value.kind != "null"]
        scalars = [bound for bound, is_exact in placed if bound is not None and is_exact]
        if types.is_floating(type) and any(scalar.as_py() == 0 for scalar in scalars):
            # They are equal, but not here.
            scalars += [pa.scalar(0.0, type), pa.scalar(-0.0, type)]
        if not scalars:
            return self._unless_null(expression, not truth)
        found = expression.isin(pa.array(scalars, type))
        return found if truth else expression.is_valid() & ~found

    def _like(self, node: Like, truth: bool) -> Expression:
        expression, type = self._column(node.column)
        if types.is_null(type):
            return self._never
        if family_of(type) != "text":
            raise WhereError(
                node.column.at, f"column {node.column.name!r} is {type}; 'like' is for text"
            )
        wild = next((i for i, part in enumerate(node.pattern) if not part), len(node.pattern))
        start = "".join(part or "" for part in node.pattern[:wild])
        rest = node.pattern[wild:]
        # Comparisons let row groups be skipped, which a pattern does not.
        if not node.ignore_case and rest == ():
            return self._either(expression == pa.scalar(start, type), truth)
        is_like = self._pc.match_like(
            expression, _in_arrow(node.pattern), ignore_case=node.ignore_case
        )
        if node.ignore_case or not start:
            return self._either(is_like, truth)
        in_range = expression >= pa.scalar(start, type)
        end = _after(start)
        if end is not None:
            in_range = in_range & (expression < pa.scalar(end, type))
        if set(rest) == {None}:
            return self._either(in_range, truth)
        return in_range & is_like if truth else ~is_like

    def _compare_columns(self, column: Column, sign: str, other: Column) -> Any:
        left, left_type = self._column(column)
        right, right_type = self._column(other)
        if types.is_null(left_type) or types.is_null(right_type):
            return self._pc.scalar(pa.scalar(None, pa.bool_()))
        family = family_of(left_type)
        if family is None or family != family_of(right_type):
            raise WhereError(
                column.at,
                f"column {column.name!r} is {left_type}, which is not compared with "
                f"{other.name!r}, which is {right_type}",
            )
        if left_type != right_type:
            common = common_type(family, left_type, right_type)
            is_safe = not types.is_floating(common)
            left, right = (
                one if type == common else one.cast(common, safe=is_safe)
                for one, type in ((left, left_type), (right, right_type))
            )
        return _COMPARISONS[sign](left, right)


def _balanced(joint: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """The parts, joined in a tree as low as can be: Arrow recurses into it."""
    while len(parts) > 1:
        parts = [functools.reduce(joint, parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def _in_arrow(pattern: Sequence[str | None]) -> str:
    """A pattern as Arrow writes it, with backslashes."""
    written = {None: "%", "": "_", "%": "\\%", "_": "\\_", "\\": "\\\\"}
    return "".join(written.get(part, part or "") for part in pattern)


def _after(start: str) -> str | None:
    """The least text above all that begin with `start`; None if there is none."""
    for i in reversed(range(len(start))):
        following = ord(start[i]) + 1
        if following <= 0x10FFFF:
            # Between these are halves of characters, which UTF-8 does not have.
            return start[:i] + chr(0xE000 if following == 0xD800 else following)
    return None
