# PYTHON_ARGCOMPLETE_OK
"""The command `fastmosaic`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from ..shell import reported
from ..spark import app
from ..version import __version__
from . import completion, convert, diff, rows, schema, stats, structure, verify


def make_parser() -> argparse.ArgumentParser:
    """The words that the command understands."""
    parser = argparse.ArgumentParser(prog="fastmosaic", description="Work with Mosaic files")
    parser.add_argument("--version", action="version", version=f"fastmosaic {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for module in (schema, structure, rows, stats, convert, diff, verify, completion):
        module.add(commands)
    spark = commands.add_parser("spark", help="jobs over many files, by Spark")
    app.add_arguments(spark)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the words of the command line; the exit status."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what could come next
        import argcomplete

        argcomplete.autocomplete(parser)
    arguments = parser.parse_args(argv)
    return reported(arguments.run, arguments)
