"""Arguments of commands that read text: its types, and how CSV is written."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import Final

import pyarrow as pa

from ..convert.text import Dialect
from .arguments import Options

_DECIMAL: Final = re.compile(r"decimal(?:128)?\((\d+),\s*(-?\d+)\)")
_ZONED: Final = re.compile(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([^\]]+)\]")
_NAMES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "float", "double", "string", "binary"),
    *("date32", "time32[s]", "time32[ms]", "timestamp[s]", "timestamp[ms]", "timestamp[us]"),
    *("timestamp[ns]", "timestamp[us, tz=UTC]", "decimal(10, 2)"),
)
_ESCAPES: Final = {"\\t": "\t", "tab": "\t"}


def add_types(parser: Options, help: str) -> None:
    parser.add_argument(
        "--type",
        dest="types",
        action="append",
        type=typed,
        default=[],
        metavar="NAMES=TYPE",
        help=help,
    )


def add_dialect(parser: Options) -> None:
    parser.add_argument(
        "--delimiter", type=delimiter, metavar="CHAR", help="between the values of CSV; tab is one"
    )
    parser.add_argument(
        "--no-header", action="store_true", help="CSV has no line of names; they are f0, f1, ..."
    )


def dialect(arguments: argparse.Namespace) -> Dialect:
    """How CSV is written that is read."""
    return Dialect(arguments.delimiter or ",", not arguments.no_header)


def delimiter(text: str) -> str:
    """An argument that is one character."""
    char = _ESCAPES.get(text, text)
    if len(char) != 1 or char in '"\r\n' or not char.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is no delimiter, such as ';' or tab")
    return char


def typed(text: str) -> tuple[str, pa.DataType]:
    """An argument like price=double: the name or glob of columns, and a type."""
    name, equals, type = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not like price=double")
    return name, arrow_type(type.strip())


def arrow_type(text: str) -> pa.DataType:
    """A type by the name that Arrow prints for it."""
    try:
        if found := _DECIMAL.fullmatch(text):
            return pa.decimal128(int(found[1]), int(found[2]))
        if found := _ZONED.fullmatch(text):
            return pa.timestamp(found[1], found[2])
        return pa.type_for_alias(text)
    except ValueError:
        close = difflib.get_close_matches(text, _NAMES, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"types are {', '.join(_NAMES)}"
        raise argparse.ArgumentTypeError(f"{text!r} is no type; {hint}") from None
