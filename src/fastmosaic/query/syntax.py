"""The syntax of --where: sqlglot parses conditions, restricted to the part of SQL that has a meaning here.

sqlglot reads the SQL of many databases and is lenient: it completes or ignores what it does not expect.
So its tokenizer knows only the words of this language, everything else is refused by its position, and
its parser sees each column and each value as a number: the index of an `Operand`. What a word or a value
looks like can then not change how the rest of the condition is understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

from sqlglot import Token, Tokenizer, TokenType, exp, parser
from sqlglot.errors import ParseError, TokenError

from .durations import is_unit
from .literals import Value, WhereError, clock, duration, exact, moment

# Beyond this depth, sqlglot would exceed Python's recursion limit.
MAX_DEPTH: Final = 25


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a column in a condition, or the path to a field of a struct."""

    name: str
    at: int  # the position of its first character, from 1
    is_quoted: bool
    follows_operator: bool  # so that it may have been meant as a value


Operand: TypeAlias = Name | Value

_COMPARISONS: Final = frozenset(
    {TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE}
)
_WORDS: Final = frozenset(
    {
        TokenType.AND,
        TokenType.OR,
        TokenType.NOT,
        TokenType.IN,
        TokenType.IS,
        TokenType.LIKE,
        TokenType.ILIKE,
        TokenType.BETWEEN,
        TokenType.L_PAREN,
        TokenType.R_PAREN,
        TokenType.COMMA,
    }
)
_AFTER_OPERANDS: Final = frozenset(
    {TokenType.AND, TokenType.OR, TokenType.IS, TokenType.R_PAREN, TokenType.COMMA}
)
_AFTER_NOT: Final = frozenset({TokenType.IN, TokenType.BETWEEN, TokenType.LIKE, TokenType.ILIKE})
_TYPED: Final[dict[str, tuple[str, Callable[[str, int], Fraction]]]] = {
    "date": ("moment", moment),
    "timestamp": ("moment", moment),
    "time": ("clock", clock),
    "interval": ("duration", duration),
}
_NAME: Final = re.compile(r"[^\W\d][\w$]*(?:\.[\w$]+)*")
_QUOTED: Final = re.compile(r"""(['"`])(?:(?!\1).|\1\1)*+(\1)?""", re.DOTALL)
VALUE: Final = "a column or a value"
_NAMES: Final = (TokenType.VAR, TokenType.IDENTIFIER)


class ConditionTokenizer(Tokenizer):
    QUOTES = ["'"]  # noqa: RUF012 - sqlglot's own attributes
    IDENTIFIERS = ['"', "`"]  # noqa: RUF012
    STRING_ESCAPES = ["'"]  # noqa: RUF012
    BYTE_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012
    BIT_STRINGS = []  # noqa: RUF012
    HEX_STRINGS = []  # noqa: RUF012
    COMMENTS = []  # noqa: RUF012
    COMMANDS = set()  # noqa: RUF012
    VAR_SINGLE_TOKENS = {"$", "."}  # noqa: RUF012
    KEYWORDS = {  # noqa: RUF012
        "AND": TokenType.AND,
        "OR": TokenType.OR,
        "NOT": TokenType.NOT,
        "IN": TokenType.IN,
        "IS": TokenType.IS,
        "NULL": TokenType.NULL,
        "LIKE": TokenType.LIKE,
        "ILIKE": TokenType.ILIKE,
        "BETWEEN": TokenType.BETWEEN,
        "TRUE": TokenType.TRUE,
        "FALSE": TokenType.FALSE,
        "==": TokenType.EQ,
        "!=": TokenType.NEQ,
        "<>": TokenType.NEQ,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
    }


class _UnexpectedError(ParseError):
    """The parser expected something else than the token, or the end if there is none."""

    def __init__(self, expected: str, token: Token | None) -> None:
        super().__init__(expected, errors=[{"description": expected}])
        self.expected = expected
        self.token = token


class ConditionParser(parser.Parser):
    def raise_error(self, message: str, token: Any = None) -> None:
        expected = VALUE
        if message == "Expecting )":
            expected = "')'"
        elif "Unexpected token" in message:
            expected = "'and', 'or' or the end"
        raise _UnexpectedError(expected, token or self._curr or None)

    def _between(self, this: Any) -> Any:
        low = self._parse_bitwise()
        if low is not None and not self._match(TokenType.AND):
            raise _UnexpectedError("'and'", self._curr or None)
        high = self._parse_bitwise()
        if low is None or high is None:
            raise _UnexpectedError(VALUE, self._curr or None)
        return exp.Between(this=this, low=low, high=high)

    RANGE_PARSERS = {  # noqa: RUF012
        **parser.Parser.RANGE_PARSERS,
        TokenType.BETWEEN: _between,
    }


def parse(text: str) -> tuple[Any, list[Operand]]:
    """Return the tree of a condition, whose columns are indices of the operands, and the operands."""
    tokens, operands = Reader(text).read()
    return tree_of(tokens, text, Reader.what), operands


def tree_of(tokens: list[Token], text: str, what: str) -> Any:
    """Return the tree that tokens form."""
    if not tokens:
        raise WhereError(1, f"the {what} is empty")
    try:
        (tree,) = ConditionParser().parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        cause = error.__cause__ if isinstance(error.__cause__, _UnexpectedError) else error
        assert isinstance(cause, _UnexpectedError)
        token = cause.token
        at = len(text) + 1 if token is None else token.start + 1
        raise WhereError(at, f"expected {cause.expected}, not {shown(text, token)}") from None
    except RecursionError:
        raise WhereError(1, f"the {what} is nested too deeply") from None
    return tree


def shown(text: str, token: Token | None) -> str:
    return "the end" if token is None else repr(text[token.start : token.end + 1])


def _tokens(text: str, tokenizer: type[Tokenizer]) -> list[Token]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WhereError(error.start + 1, "invalid character (not UTF-8)") from None
    for quoted in _QUOTED.finditer(text):
        if quoted[2] is None:
            raise WhereError(quoted.start() + 1, f"the quote {quoted[1]} is not closed")
    try:
        return list(tokenizer().tokenize(text))
    except TokenError as error:
        raise WhereError(1, str(error)) from error


class Reader:
    """Checks the tokens of a condition and replaces columns and values by their indices."""

    what: ClassVar = "condition"  # for messages
    tokenizer: ClassVar[type[Tokenizer]] = ConditionTokenizer
    # What a column, a value, or a part in parentheses ends with.
    ends: ClassVar[tuple[TokenType, ...]] = (
        TokenType.IDENTIFIER,
        TokenType.R_PAREN,
        TokenType.NULL,
        TokenType.STRING,
    )

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text, self.tokenizer)
        self._next = 0
        self._out: list[Token] = []
        self._operands: list[Any] = []
        self._depth = 0

    def read(self) -> tuple[list[Token], list[Any]]:
        while self._next < len(self._tokens):
            self._step(self._tokens[self._next])
        if self._out and not self._follows_operand():
            self._expected(VALUE, None)
        return self._out, self._operands

    def _step(self, token: Token) -> None:
        if token.comments:
            raise WhereError(token.start + 1, f"comments are not supported in a {self.what}")
        match token.token_type:
            case TokenType.VAR | TokenType.IDENTIFIER:
                self._word(token)
            case TokenType.NUMBER | TokenType.DASH | TokenType.PLUS | TokenType.DOT:
                self._number(token)
            case TokenType.STRING:
                self._value("text", token.text, 1)
            case TokenType.BYTE_STRING:
                self._bytes(token)
            case TokenType.TRUE | TokenType.FALSE:
                self._value("bool", token.token_type == TokenType.TRUE, 1)
            case TokenType.NULL if not self._follows_is():
                self._value("null", None, 1)
            case TokenType.NOT if token.text == "!":
                self._refuse(token)
            case TokenType.NOT if self._is_doubled():
                self._out.pop()  # not not x: x
                self._next += 1
            case kind if kind in _COMPARISONS:
                self._comparison(token)
            case kind if kind in _WORDS or kind == TokenType.NULL:
                self._structure(token)
            case _:
                self._refuse(token)

    # ---- operands

    def _word(self, token: Token) -> None:
        word = token.text.lower()
        following = self._kind(1)
        is_quoted = token.token_type == TokenType.IDENTIFIER
        if not is_quoted and word in _TYPED and following == TokenType.STRING:
            self._typed(*_TYPED[word])
        elif not is_quoted and word == "interval" and following == TokenType.NUMBER:
            raise WhereError(
                token.start + 1, "write a duration in quotes, e.g. interval '90 minutes'"
            )
        elif not is_quoted and word == "escape" and self._kind(-1) == TokenType.STRING:
            self._escape(token)
        elif following == TokenType.L_PAREN:
            self._function(token)
        else:
            name, count = self._path(token)
            follows = self._follows_operator()
            self._operand(Name(name, token.start + 1, is_quoted, follows), count)

    def _function(self, token: Token) -> None:
        raise WhereError(
            token.start + 1, f"functions are not supported in a condition: {token.text}(...)"
        )

    def _typed(self, kind: str, read: Callable[[str, int], Fraction]) -> None:
        """Read a value after the name of its type, e.g. date '2024-01-31'."""
        token = self._tokens[self._next + 1]
        text, count = token.text, 2
        unit = self._token(2)
        if kind == "duration" and unit is not None and is_unit(unit.text):
            text, count = f"{text} {unit.text}", 3  # interval '90' minutes
        self._value(kind, read(text, token.start + 1), count, at=token.start + 1)

    def _path(self, token: Token) -> tuple[str, int]:
        """Return a name, whose parts may be quoted, as in info."first name", and its tokens."""
        path, count = "", 0
        while True:
            is_quoted = token.token_type == TokenType.IDENTIFIER
            has_next = token.text.endswith(".") and not is_quoted
            text = token.text.removesuffix(".") if has_next else token.text
            if not is_quoted and not _NAME.fullmatch(text):
                self._refuse(token)
            path += text
            count += 1
            if not has_next:
                if not self._is_next(count, token, (TokenType.DOT,)):
                    return path, count
                token = self._tokens[self._next + count]
                count += 1
            if not self._is_next(count, token, _NAMES):
                self._refuse(token)
            path += "."
            token = self._tokens[self._next + count]

    def _is_next(self, distance: int, token: Token, kinds: Container[TokenType]) -> bool:
        """Return whether a token of one of these kinds follows `token` without a space."""
        following = self._token(distance)
        return (
            following is not None
            and following.token_type in kinds
            and following.start == token.end + 1
        )

    def _number(self, token: Token) -> None:
        count = 1
        if token.token_type in (TokenType.DASH, TokenType.PLUS):
            if self._follows_operand():
                raise WhereError(token.start + 1, "arithmetic is not supported in a condition")
            count += 1
        count += self._kind(count - 1) == TokenType.DOT
        if self._kind(count - 1) != TokenType.NUMBER:
            self._expected(f"a number after {shown(self._text, token)}", self._token(count - 1))
        digits = "".join(one.text for one in self._tokens[self._next : self._next + count])
        self._value("number", exact(digits, token.start + 1), count, text=digits)

    def _bytes(self, token: Token) -> None:
        try:
            value = bytes.fromhex(token.text)
        except ValueError:
            raise WhereError(
                token.start + 1,
                f"x'{token.text}' does not consist of bytes in hexadecimal digits, such as x'00ff'",
            ) from None
        self._value("bytes", value, 1)

    def _value(
        self, kind: str, value: Any, count: int, *, at: int | None = None, text: str | None = None
    ) -> None:
        first, last = self._tokens[self._next], self._tokens[self._next + count - 1]
        shown = self._text[first.start : last.end + 1] if text is None else text
        self._operand(Value(kind, value, shown, first.start + 1 if at is None else at), count)

    def _operand(self, operand: Any, count: int) -> None:
        first, last = self._tokens[self._next], self._tokens[self._next + count - 1]
        text = str(len(self._operands))
        self._put(Token(TokenType.IDENTIFIER, text, start=first.start, end=last.end))
        self._operands.append(operand)
        self._next += count - 1

    # ---- everything between operands

    def _escape(self, token: Token) -> None:
        text = self._token(1)
        if text is None or text.token_type != TokenType.STRING:
            self._expected("a character in quotes after 'escape'", text)
        if len(text.text) != 1:
            raise WhereError(
                text.start + 1, f"escape must be one character, not {shown(self._text, text)}"
            )
        self._put(Token(TokenType.ESCAPE, token.text, start=token.start, end=token.end))
        self._put(text)

    def _comparison(self, token: Token) -> None:
        if self._out and self._out[-1].token_type in _COMPARISONS:
            start = self._out[-1].start
            raise WhereError(
                start + 1,
                f"unknown operator {self._text[start : token.end + 1]!r}; "
                "the operators are = != <> < <= > >=",
            )
        if not self._follows_operand():
            self._expected(VALUE, token)
        self._put(token)

    def _structure(self, token: Token) -> None:
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise WhereError(
                    token.start + 1, f"parentheses are nested more than {MAX_DEPTH} levels deep"
                )
        self._depth -= kind == TokenType.R_PAREN
        following = self._kind(1)
        if kind == TokenType.IS and TokenType.NULL not in (
            following,
            self._kind(2) if following == TokenType.NOT else None,
        ):
            self._expected("'null' or 'not null' after 'is'", self._token(1))
        if kind == TokenType.NOT and self._follows_operand() and following not in _AFTER_NOT:
            self._expected("'in', 'between' or 'like' after 'not'", self._token(1))
        # sqlglot notices some missing operands late, and others not at all, as after a comma.
        if kind in _AFTER_OPERANDS and not self._follows_operand():
            self._expected(VALUE, token)
        self._put(token)

    def _put(self, token: Token) -> None:
        self._out.append(token)
        self._next += 1

    # ---- looking around

    def _token(self, distance: int) -> Token | None:
        index = self._next + distance
        return self._tokens[index] if 0 <= index < len(self._tokens) else None

    def _kind(self, distance: int) -> TokenType | None:
        token = self._token(distance)
        return None if token is None else token.token_type

    def _follows_operand(self) -> bool:
        """Whether a column, a value, or a part in parentheses ends here."""
        return bool(self._out) and self._out[-1].token_type in self.ends

    def _follows_operator(self) -> bool:
        before = [token.token_type for token in self._out[-2:]]
        operators = {*_COMPARISONS, TokenType.COMMA, TokenType.BETWEEN}
        return before == [TokenType.IN, TokenType.L_PAREN] or not operators.isdisjoint(before[-1:])

    def _follows_is(self) -> bool:
        before = [token.token_type for token in self._out[-2:]]
        return before[-1:] == [TokenType.IS] or before == [TokenType.IS, TokenType.NOT]

    def _is_doubled(self) -> bool:
        """Whether a negation follows a negation of a whole part, so that they cancel out."""
        before = [token.token_type for token in self._out[-2:]]
        starts = (TokenType.AND, TokenType.OR, TokenType.L_PAREN)
        return before[-1:] == [TokenType.NOT] and (len(before) < 2 or before[0] in starts)

    def _expected(self, what: str, token: Token | None) -> NoReturn:
        at = len(self._text) + 1 if token is None else token.start + 1
        raise WhereError(at, f"expected {what}, not {shown(self._text, token)}")

    def _refuse(self, token: Token) -> NoReturn:
        raise WhereError(
            token.start + 1, f"{shown(self._text, token)} is not supported in a {self.what}"
        )
