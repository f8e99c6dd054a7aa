# PYTHON_ARGCOMPLETE_OK
"""The command `fastmosaic`.

arguments   The argument parser, and options and argument types that commands share
commands    One module per command or family of commands
exit        Exit statuses, and errors in one line
files       Mosaic files that a command inspects one by one
output      How results are printed
source      The source of `convert`, `table create` and `table append`
target      The target of `convert` and `concat`: its format, its writer's options
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from ..memory import default_limited
from ..version import __version__
from .arguments import CommandParser, Commands
from .commands import (
    clean,
    compact,
    completion,
    concat,
    convert,
    diff,
    pages,
    report,
    rows,
    schema,
    spark,
    stats,
    structure,
    table,
    verify,
    view,
)
from .exit import ERROR, reported

_GROUPS: Final = {
    "content of files": ("view", "schema", "head", "cat", "count", "stats", "report", "diff"),
    "conversion": ("convert", "concat", "compact"),
    "tables that change": ("table",),
    "internals of Mosaic files": (
        *("meta", "footer", "buckets", "pages", "dictionary", "column-size", "verify"),
    ),
    "other": ("spark", "clean", "completion"),
}
_MODULES: Final = (
    *(view, schema, rows, stats, report, diff, convert, concat, compact),
    *(table, structure, pages, verify, spark, clean, completion),
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = CommandParser(
        prog="fastmosaic",
        usage="fastmosaic COMMAND ...",
        description="Inspect, convert and verify Mosaic files, and files of other formats.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fastmosaic {__version__}")
    commands: Commands = parser.add_subparsers(
        required=True, metavar="COMMAND", help=argparse.SUPPRESS, prog="fastmosaic"
    )
    for module in _MODULES:
        module.add(commands)
    parser.epilog = "\n".join(_overview(commands))
    return parser


def _overview(commands: Commands) -> Iterator[str]:
    """Yield the lines that list the commands, in groups."""
    helps = {action.dest: action.help for action in commands._choices_actions}
    width = max(map(len, helps)) + 2
    for title, names in _GROUPS.items():
        yield f"{title}:"
        for name in names:
            yield f"  {name:<{width}}{helps[name]}"
        yield ""
    yield "Run `fastmosaic COMMAND --help` for options and examples."
    yield "Exit status: 0 on success, 1 if files differ or are damaged, 2 on errors."


def _is_candidate(word: str, prefix: str) -> bool:
    """Tell whether a shell may list `word`, which may be the name of a file."""
    return word.startswith(prefix) and word.isprintable()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the arguments `argv`, by default those of the process.

    Returns the exit status.
    """
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        import argcomplete

        argcomplete.autocomplete(parser, validator=_is_candidate)
    words = sys.argv[1:] if argv is None else argv
    if not words:
        parser.print_help(sys.stderr)
        return ERROR
    arguments = parser.parse_args(words)
    with default_limited(getattr(arguments, "memory_limit", None)):
        return reported(arguments.run, arguments)
