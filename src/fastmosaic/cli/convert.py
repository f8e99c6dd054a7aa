"""convert: files of one format into another."""

from __future__ import annotations

from .arguments import Commands


def add(commands: Commands) -> None:
    """Let the command have these."""
