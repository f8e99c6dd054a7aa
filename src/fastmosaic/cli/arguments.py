"""The argument parser, and options and argument types that commands share."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn, TypeAlias

import pyarrow as pa

from ..convert.text import Dialect
from ..format.column_set import ColumnSet
from ..memory import parse_size
from .exit import ERROR, complain

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"
Options: TypeAlias = "argparse._ActionsContainer"  # a parser, or a group of its options

_HELP_WIDTH: Final = 79
_MAX_COMPLETIONS: Final = 300
_DURATIONS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DECIMAL: Final = re.compile(r"decimal(?:128)?\((\d+),\s*(-?\d+)\)")
_ZONED: Final = re.compile(r"timestamp\[(s|ms|us|ns),\s*(?:tz=)?([^\]]+)\]")
_TYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("halffloat", "float", "double", "string", "binary", "date32", "time32[s]", "time32[ms]"),
    *("time64[us]", "time64[ns]", "timestamp[s]", "timestamp[ms]", "timestamp[us]"),
    *("timestamp[ns]", "timestamp[us, tz=UTC]", "duration[s]", "duration[ms]", "duration[us]"),
    *("duration[ns]", "decimal(10, 2)"),
)
_ESCAPES: Final = {"\\t": "\t", "tab": "\t"}


class CommandParser(argparse.ArgumentParser):
    """A parser that reports errors in one line and suggests the word that was probably meant."""

    def error(self, message: str) -> NoReturn:
        complain(f"{message} (see {self.prog} --help)")
        sys.exit(ERROR)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse `args`; an unrecognized one is an error of this parser, which knows the options."""
        known, extras = super().parse_known_args(args, namespace)
        if extras:
            options = [word.partition("=")[0] for word in extras if word.startswith("-")]
            close = [one for word in options for one in _close(word, self._option_string_actions)]
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            self.error(f"unrecognized arguments: {' '.join(extras)}{hint}")
        return known, extras

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        close = _close(str(value), choices, 2)
        listed = ", ".join(choices)
        hint = f"did you mean {' or '.join(close)}?" if close else f"choose from {listed}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"unknown command {value!r}; {hint}")
        raise argparse.ArgumentError(action, f"invalid choice {value!r}; {hint}")


def _close(word: str, words: Iterable[str], limit: int = 1) -> list[str]:
    return difflib.get_close_matches(word, list(words), n=limit, cutoff=0.7)


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    description: str,
    examples: Sequence[str],
    notes: str = "",
) -> CommandParser:
    """Register a command whose help ends with examples and notes."""
    shown = "".join(f"  fastmosaic {example}\n" for example in examples)
    return commands.add_parser(
        name,
        help=summary,
        description=wrapped(description),
        epilog=f"examples:\n{shown}\n{wrapped(notes)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def wrapped(text: str) -> str:
    """Wrap the paragraphs of a text to the width of a small terminal."""
    paragraphs = text.strip().split("\n\n")
    return "\n\n".join(textwrap.fill(" ".join(one.split()), _HELP_WIDTH) for one in paragraphs)


# ---- options


def add_json(parser: Options) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_paths(parser: Options, what: str = "files, directories, globs or URIs") -> None:
    """Add the positional argument PATH, which may be repeated."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help=what)
    add_follow_links(parser)


def add_follow_links(parser: Options) -> None:
    """Add `--follow-links`."""
    parser.add_argument(
        "--follow-links",
        action="store_true",
        help="follow links that lead out of a directory (default: an error)",
    )


def add_at(parser: Options, option: str = "--at", what: str = "the table") -> None:
    """Add `--at`."""
    parser.add_argument(
        option,
        type=positive,
        metavar="VERSION",
        help=f"read an earlier version of {what} (see `fastmosaic table log`)",
    )


def add_columns(parser: Options) -> None:
    """Add `-c`."""
    option: Any = parser.add_argument(
        "-c",
        "--columns",
        action="append",
        metavar="NAMES",
        help="columns by name or glob, e.g. id,'sensor_temp_*', or fields of structs, e.g. "
        "info.name; may be repeated",
    )
    option.completer = complete_columns


def add_stored(parser: Options) -> None:
    """Add `--stored`."""
    parser.add_argument(
        "--stored",
        action="store_true",
        help="columns as Mosaic files store them and other readers see them: a struct is one column "
        "for each of its fields",
    )


def add_where(parser: Options, *, is_required: bool = False) -> None:
    """Add `--where`."""
    parser.add_argument(
        "-w",
        "--where",
        required=is_required,
        metavar="CONDITION",
        help="""only rows that match, e.g. "price > 9.5 and (kind = 'a' or kind is null)" """,
    )


def add_memory_limit(parser: Options) -> None:
    """Add `--memory-limit`."""
    parser.add_argument(
        "--memory-limit",
        type=size,
        metavar="SIZE",
        help="maximum memory of a result, e.g. 2g (default: half of the machine's memory)",
    )


def add_pager(parser: Options) -> None:
    """Add `--no-pager`."""
    parser.add_argument("--no-pager", action="store_true", help="do not page long output")


def add_types(parser: Options, help: str) -> None:
    """Add `--type`, which may be repeated."""
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
    """Add the options that describe CSV files."""
    parser.add_argument(
        "--delimiter",
        type=delimiter,
        metavar="CHAR",
        help="separator between CSV values, e.g. ';' or tab (default: ,)",
    )
    parser.add_argument(
        "--no-header",
        action="store_true",
        help="CSV files have no header line; columns are named f0, f1, ...",
    )


def dialect(arguments: argparse.Namespace) -> Dialect:
    """Return the CSV dialect that the options describe."""
    return Dialect(arguments.delimiter or ",", not arguments.no_header)


# ---- argument types


def whole(text: str) -> int:
    """Parse a number that is at least 0."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"invalid number {text!r} (expected e.g. 10)")
    return int(text)


def positive(text: str) -> int:
    """Parse a number that is at least 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"invalid number {text!r} (expected at least 1)")
    return int(text)


def size(text: str) -> int:
    """Parse a number of bytes, optionally with the unit k, m or g: 64m."""
    try:
        value = parse_size(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"invalid size {text!r} (expected e.g. 1000000 or 64m)")
    return value


def duration(text: str) -> float:
    """Parse a time with the unit s, m, h or d: 12h. The result is in seconds."""
    unit = _DURATIONS.get(text[-1:], 0)
    try:
        value = float(text[:-1]) * unit if unit else float(text)
    except ValueError:
        value = -1
    if (not unit and value != 0) or not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"invalid age {text!r} (expected e.g. 90m, 12h or 7d)")
    return value


def delimiter(text: str) -> str:
    """Parse a delimiter: one ASCII character, or the word `tab`."""
    char = _ESCAPES.get(text, text)
    if len(char) != 1 or char in '"\r\n' or not char.isascii():
        raise argparse.ArgumentTypeError(f"invalid delimiter {text!r} (expected e.g. ';' or tab)")
    return char


def typed(text: str) -> tuple[str, pa.DataType]:
    """Parse the name or glob of columns and their type, e.g. price=double."""
    name, equals, type = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"invalid type {text!r} (expected e.g. price=double)")
    return name, arrow_type(type.strip())


def arrow_type(text: str) -> pa.DataType:
    """Parse the name that Arrow prints for a type."""
    try:
        if found := _DECIMAL.fullmatch(text):
            return pa.decimal128(int(found[1]), int(found[2]))
        if found := _ZONED.fullmatch(text):
            return pa.timestamp(found[1], found[2])
        return pa.type_for_alias(text)
    except ValueError:
        close = difflib.get_close_matches(text, _TYPES, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(_TYPES)}"
        raise argparse.ArgumentTypeError(f"unknown type {text!r}; {hint}") from None


# ---- completion


def complete_columns(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the columns that start with `prefix`, in the files named before the cursor.

    If there are very many, return only the next words of their names: the shell lists them all.
    """
    from ..display.prefixes import next_words

    done, comma, last = prefix.rpartition(",")
    try:
        names = _names_in(_paths_of(parsed_args))
    except Exception:  # noqa: BLE001 - a shell that completes a word must not print a message
        return []
    # A name with a comma cannot be part of a list; control characters cannot be typed.
    found = [
        name
        for name in names
        if name.startswith(last) and name.isprintable() and not (comma and "," in name)
    ]
    if len(found) > _MAX_COMPLETIONS:
        found = next_words(last, found)
    return [f"{done}{comma}{name}" for name in found]


def _paths_of(arguments: argparse.Namespace) -> list[str]:
    """Return the files of a command; `diff` has two arguments of one each, and `table` has a table."""
    if paths := getattr(arguments, "paths", None):
        return list(paths)
    return [arguments.one if hasattr(arguments, "one") else arguments.table]


def _names_in(paths: Sequence[str]) -> Sequence[str]:
    from ..convert.read import format_of, inspect
    from ..dataset.discovery import discover
    from ..dataset.fileset import FileSet
    from ..schemas.union import Fixed

    first = discover(list(paths))[0]
    format = format_of(first.name) or "mosaic"
    if format == "mosaic":
        return _with_paths(FileSet(list(paths)).columns)
    schema, _ = inspect(first, format, first.size or 0)
    return _with_paths(Fixed(schema))


def _with_paths(columns: ColumnSet) -> list[str]:
    """Return the names of all columns, and the paths of the fields of structs."""
    return list(dict.fromkeys([*columns.names(), *columns.paths()]))
