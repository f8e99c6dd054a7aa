"""The command `fastmosaic` on a file: each is run, and shown with what it prints."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def show(console: Console, path: Path) -> None:
    """What one may ask of the file of the demo, and the answers, as they look in this place."""
    file = str(path)
    for words in (
        ["schema", file, "--types"],
        ["schema", file, "--grep", "^(row|cat|num)", "--sizes"],
        ["head", file, "-n", "3", "-c", "row_number,category,number"],
        ["count", file, "--where", "number > 500000 and category is not null"],
    ):
        console.print(Text(f"$ fastmosaic {shlex.join(words)}", "bold"), soft_wrap=True)
        console.file.flush()  # another process goes on printing
        subprocess.run(
            [sys.executable, "-m", "fastmosaic", *words],
            check=True,
            env={**os.environ, "COLUMNS": str(console.width)},
        )
        console.print()
