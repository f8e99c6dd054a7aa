"""Arguments that several commands take, and what is said of wrong ones."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn, TypeAlias

from .exit import ERROR, complain

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
Options: TypeAlias = "argparse._ActionsContainer"  # a parser, or a group of its options

_MAX_COMPLETIONS: Final = 300


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, with the word that may have been meant."""

    def error(self, message: str) -> NoReturn:
        complain(f"{message} (see {self.prog} --help)")
        sys.exit(ERROR)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        close = difflib.get_close_matches(str(value), choices, n=2, cutoff=0.7)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(choices)}"
        if isinstance(action, argparse._SubParsersAction):
            self.error(f"there is no command {value!r}; {hint}")
        raise argparse.ArgumentError(action, f"{value!r} is not a choice; {hint}")


def add_command(
    commands: Commands,
    name: str,
    summary: str,
    description: str,
    examples: Sequence[str],
    notes: str = "",
) -> Parser:
    """A command, whose help has examples, and notes after them."""
    shown = "".join(f"  fastmosaic {example}\n" for example in examples)
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples:\n{shown}\n{notes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_json(parser: Options) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_paths(parser: Options, what: str = "files, directories or globs") -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help=what)


def add_columns(parser: Options) -> None:
    option: Any = parser.add_argument(
        "-c",
        "--columns",
        action="append",
        metavar="NAMES",
        help="columns by name or glob, such as id,'sensor_temp_*'; may be repeated",
    )
    option.completer = complete_columns


def add_where(parser: Options) -> None:
    parser.add_argument(
        "-w",
        "--where",
        metavar="CONDITION",
        help="""rows to take, such as "price > 9.5 and (kind = 'a' or kind is null)" """,
    )


def add_pager(parser: Options) -> None:
    parser.add_argument("--no-pager", action="store_true", help="do not page what is long")


def whole(text: str) -> int:
    """An argument that is a number of something, perhaps 0."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no number, such as 10")
    return int(text)


def positive(text: str) -> int:
    """An argument that is a number of something, at least 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def complete_columns(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Columns of the files that stand before the cursor, for the shell.

    Of very many, only the next words are told: the shell would show them all.
    """
    from .output.prefixes import next_words

    done, comma, last = prefix.rpartition(",")
    try:
        # diff has one file before the other.
        names = _names_in(getattr(parsed_args, "paths", None) or [parsed_args.one])
    except Exception:  # noqa: BLE001 - a shell that completes wants no message
        return []
    # A name with a comma is none in a list of them; one with a control character cannot be typed.
    found = [
        name
        for name in names
        if name.startswith(last) and name.isprintable() and not (comma and "," in name)
    ]
    if len(found) > _MAX_COMPLETIONS:
        found = next_words(last, found)
    return [f"{done}{comma}{name}" for name in found]


def _names_in(paths: Sequence[str]) -> Sequence[str]:
    from ..convert.read import format_of, inspect
    from ..dataset.discovery import discover
    from ..dataset.fileset import FileSet

    first = discover(list(paths))[0]
    format = format_of(first.name) or "mosaic"
    if format == "mosaic":
        return FileSet(list(paths)).columns.names()
    schema, _ = inspect(first, format, first.size or 0)
    return schema.names
