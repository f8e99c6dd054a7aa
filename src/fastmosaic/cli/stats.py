"""stats: what the columns hold, and how they are stored."""

from __future__ import annotations

from .arguments import Commands


def add(commands: Commands) -> None:
    """Let the command have these."""
