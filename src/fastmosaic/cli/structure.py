"""meta, footer, buckets, pages, dictionary and column-size: how files are built."""

from __future__ import annotations

from .arguments import Commands


def add(commands: Commands) -> None:
    """Let the command have these."""
