"""Run commands on the file of the demo, and show them with their output."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def show(console: Console, path: Path) -> None:
    """Run a few commands on the file at `path`."""
    file = str(path)
    for words in (
        ["schema", file, "--types"],
        ["schema", file, "--grep", "^(row|cat|num)", "--sizes"],
        ["head", file, "-n", "3", "-c", "row_number,category,number"],
        ["count", file, "--where", "number > 500000"],
    ):
        console.print(Text(f"$ fastmosaic {shlex.join(words)}", "bold"), soft_wrap=True)
        console.file.flush()  # the next lines come from another process
        subprocess.run(
            [sys.executable, "-m", "fastmosaic", *words],
            check=True,
            env={**os.environ, "COLUMNS": str(console.width)},
        )
        console.print()
