"""The syntax of formulas: that of conditions, with arithmetic, functions, case and cast.

As in conditions, sqlglot's parser sees columns, values, functions and types as numbers only. A cast is
a function of a value and a type, so that sqlglot does not interpret the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from sqlglot import Token, Tokenizer, TokenType

from .literals import WhereError
from .syntax import VALUE, ConditionTokenizer, Name, Operand, Reader, tree_of

_BINARY: Final = frozenset({TokenType.STAR, TokenType.SLASH, TokenType.MOD, TokenType.DPIPE})
_SIGNS: Final = frozenset({TokenType.DASH, TokenType.PLUS})
# The words of case, and the words that may come before each.
_CASE: Final = {
    TokenType.WHEN: frozenset({TokenType.CASE, TokenType.THEN}),
    TokenType.THEN: frozenset({TokenType.WHEN}),
    TokenType.ELSE: frozenset({TokenType.THEN}),
    TokenType.END: frozenset({TokenType.THEN, TokenType.ELSE}),
}
_NEXT: Final = {
    TokenType.CASE: "'when'",
    TokenType.WHEN: "'then'",
    TokenType.THEN: "'when', 'else' or 'end'",
    TokenType.ELSE: "'end'",
}
CAST: Final = "cast"


@dataclass(frozen=True, slots=True)
class Word:
    """The name of a function, or of a type."""

    text: str
    at: int


FormulaOperand: TypeAlias = Operand | Word


class _FormulaTokenizer(ConditionTokenizer):
    KEYWORDS: ClassVar = {
        **ConditionTokenizer.KEYWORDS,
        "CASE": TokenType.CASE,
        "WHEN": TokenType.WHEN,
        "THEN": TokenType.THEN,
        "ELSE": TokenType.ELSE,
        "END": TokenType.END,
        "AS": TokenType.ALIAS,
        "||": TokenType.DPIPE,
    }


def parse(text: str) -> tuple[Any, list[FormulaOperand]]:
    """Return the tree of a formula, and the operands that its identifiers are indices of."""
    tokens, operands = _FormulaReader(text).read()
    return tree_of(tokens, text, _FormulaReader.what), operands


def parse_assignment(text: str) -> tuple[str, Any, list[FormulaOperand]]:
    """Return the name of a column, and the tree and the operands of the formula after `=`."""
    tokens, operands = _FormulaReader(text).read()
    kinds = [token.token_type for token in tokens[:2]]
    if kinds != [TokenType.IDENTIFIER, TokenType.EQ] or not isinstance(operands[0], Name):
        raise WhereError(1, "expected the name of the new column and '=', e.g. ratio = a / b")
    return operands[0].name, tree_of(tokens[2:], text, _FormulaReader.what), operands


class _FormulaReader(Reader):
    what: ClassVar = "formula"
    tokenizer: ClassVar[type[Tokenizer]] = _FormulaTokenizer
    ends: ClassVar[tuple[TokenType, ...]] = (*Reader.ends, TokenType.END)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        # The last word of each case that is not complete, and parentheses around and inside of them.
        self._open: list[Any] = []

    def read(self) -> tuple[list[Token], list[Any]]:
        found = super().read()
        if self._open and self._open[-1] in _NEXT:
            self._expected(_NEXT[self._open[-1]], None)
        return found

    def _step(self, token: Token) -> None:
        kind = token.token_type
        if kind in _BINARY or (kind in _SIGNS and self._is_operator()):
            if not self._follows_operand() and kind not in _SIGNS:
                self._expected(VALUE, token)
            self._put(token)
        elif kind == TokenType.CASE:
            if self._follows_operand():
                self._expected("an operator", token)
            self._open.append(kind)
            self._put(token)
        elif kind in _CASE:
            self._case(token)
        elif kind == TokenType.ALIAS:
            self._type(token)
        else:
            super()._step(token)

    def _is_operator(self) -> bool:
        """Whether a sign stands between operands, or before anything but a number."""
        return self._follows_operand() or self._kind(1) not in (TokenType.NUMBER, TokenType.DOT)

    def _case(self, token: Token) -> None:
        kind = token.token_type
        last = self._open[-1] if self._open else None
        if last not in _CASE[kind]:
            if last not in _NEXT:
                self._refuse(token)
            self._expected(_NEXT[last], token)
        is_searched = kind == TokenType.WHEN and self._out[-1].token_type == TokenType.CASE
        if not (is_searched or self._follows_operand()):
            self._expected(VALUE, token)
        self._open.pop()
        if kind != TokenType.END:
            self._open.append(kind)
        self._put(token)

    def _structure(self, token: Token) -> None:
        if token.token_type == TokenType.L_PAREN:
            self._open.append("(")
        elif token.token_type == TokenType.R_PAREN:
            if not self._open or self._open[-1] not in ("(", CAST):
                self._expected(_NEXT[self._open[-1]] if self._open else "the end", token)
            if self._open.pop() == CAST:
                self._expected("'as' and a type", token)
        super()._structure(token)

    def _function(self, token: Token) -> None:
        if token.token_type == TokenType.IDENTIFIER:
            self._refuse(token)
        if self._follows_operand():
            self._expected("an operator", token)
        text = f"f{len(self._operands)}"
        self._operands.append(Word(token.text.lower(), token.start + 1))
        self._put(Token(TokenType.VAR, text, start=token.start, end=token.end))
        self._structure(self._tokens[self._next])
        if self._operands[-1].text == CAST:
            self._open[-1] = CAST

    def _type(self, token: Token) -> None:
        """Read the type of a cast, which becomes the second argument of a function."""
        if not self._open or self._open[-1] != CAST or not self._follows_operand():
            self._refuse(token)
        last = count = 1
        depth = 0
        while (following := self._token(count)) is not None:
            depth += (following.token_type == TokenType.L_PAREN) - (
                following.token_type == TokenType.R_PAREN
            )
            if depth < 0:
                break
            last = count
            count += 1
        first = self._token(1)
        if following is None or first is None or count == 1:
            self._expected("a type and ')'", following or first)
        end = self._tokens[self._next + last].end
        self._put(Token(TokenType.COMMA, ",", start=token.start, end=token.end))
        self._operand(Word(self._text[first.start : end + 1], first.start + 1), count - 1)
        self._open[-1] = "("
