"""completion: the script by which a shell completes words of the command."""

from __future__ import annotations

import argparse

from ..arguments import Commands
from ..exit import OK

_EPILOG = """\
examples:
  eval "$(fastmosaic completion bash)"    # in ~/.bashrc
  eval "$(fastmosaic completion zsh)"     # in ~/.zshrc, after compinit
  fastmosaic completion fish | source     # in ~/.config/fish/config.fish

Then Tab completes commands, options, files, and after -c the columns of the files before it:
  fastmosaic head sales.mosaic -c pri<Tab>
"""


def add(commands: Commands) -> None:
    """Let the command have `completion`."""
    parser = commands.add_parser(
        "completion",
        help="a script that lets the shell complete words",
        description="Print the script that lets a shell complete words of this command.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["fastmosaic"], shell=arguments.shell))
    return OK
