"""The command `fastmosaic`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from .spark import app


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with the words of the command line; the exit status."""
    parser = argparse.ArgumentParser(prog="fastmosaic", description="Work with Mosaic files")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    app.add_arguments(commands.add_parser("spark", help="jobs over many files, by Spark"))
    return app.reported(app.run, parser.parse_args(argv))
