"""diff: what is different in two files."""

from __future__ import annotations

from .arguments import Commands


def add(commands: Commands) -> None:
    """Let the command have these."""
