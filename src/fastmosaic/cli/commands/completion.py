"""completion: print the script that lets a shell complete words."""

from __future__ import annotations

import argparse

from ..arguments import Commands
from ..exit import OK

_EPILOG = """\
examples:
  eval "$(fastmosaic completion bash)"    # in ~/.bashrc
  eval "$(fastmosaic completion zsh)"     # in ~/.zshrc, after compinit
  fastmosaic completion fish | source     # in ~/.config/fish/config.fish

Tab then completes commands, options and files, and after -c the columns of
the files before it:
  fastmosaic head sales.mosaic -c pri<Tab>
"""


def add(commands: Commands) -> None:
    """Register the `completion` command."""
    parser = commands.add_parser(
        "completion",
        help="print a completion script for bash, zsh or fish",
        description="Print the script that lets a shell complete the words of this command.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete in")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    print(shellcode(["fastmosaic"], shell=arguments.shell))
    return OK
