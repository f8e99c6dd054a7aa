# PYTHON_ARGCOMPLETE_OK
"""The command `fastmosaic`.

arguments      What commands have in common: options, and the parser itself
columns        Columns named on the command line
commands       One module per command or family of commands
exit           Exit statuses, errors in one line, how sizes are typed
files          Commands that look into Mosaic files
output         How results are printed
text_options   Options for CSV: separators, quotes, types
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from ..spark import app
from ..version import __version__
from .arguments import Commands, Parser
from .commands import completion, convert, diff, pages, rows, schema, stats, structure, verify
from .exit import ERROR, reported

_GROUPS: Final = {
    "what is in files": ("schema", "head", "cat", "count", "stats", "diff"),
    "from one format to another": ("convert",),
    "how files are built": (
        *("meta", "footer", "buckets", "pages", "dictionary", "column-size", "verify"),
    ),
    "besides": ("spark", "completion"),
}


def make_parser() -> argparse.ArgumentParser:
    """The words that the command understands."""
    parser = Parser(
        prog="fastmosaic",
        usage="fastmosaic COMMAND ...",
        description="Look at, convert and check Mosaic files, and files of other formats.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fastmosaic {__version__}")
    commands: Commands = parser.add_subparsers(
        required=True, metavar="COMMAND", help=argparse.SUPPRESS, prog="fastmosaic"
    )
    for module in (schema, rows, stats, diff, convert, structure, pages, verify, completion):
        module.add(commands)
    spark = commands.add_parser(
        "spark",
        help="jobs over many files, by Spark",
        description="Convert, compact, check and profile many files at once, by Spark.",
        epilog="examples:\n  fastmosaic spark convert warehouse data --statistics id",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    app.add_arguments(spark)
    parser.epilog = "\n".join(_overview(commands))
    return parser


def _overview(commands: Commands) -> Iterator[str]:
    """The commands in groups, with a line for each."""
    helps = {action.dest: action.help for action in commands._choices_actions}
    width = max(map(len, helps)) + 2
    for title, names in _GROUPS.items():
        yield f"{title}:"
        for name in names:
            yield f"  {name:<{width}}{helps[name]}"
        yield ""
    yield "`fastmosaic COMMAND --help` says more, with examples. Exit status: 0 if all is well,"
    yield "1 if the answer is no (files differ, or one is damaged), 2 if something went wrong."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the words of the command line; the exit status."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next
        import argcomplete

        argcomplete.autocomplete(parser)
    words = sys.argv[1:] if argv is None else argv
    if not words:
        parser.print_help(sys.stderr)
        return ERROR
    arguments = parser.parse_args(words)
    return reported(arguments.run, arguments)
