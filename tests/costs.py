"""What hostile files may cost: little processor time, and little memory beyond the result."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parent / "file" / "hostile_cases.py"
# Of processor time, beyond writing the result to memory. On a machine that is not busy, no file takes a
# third of it.
MAX_SECONDS = 4.0
MAX_BYTES = 300 << 20
BYTES_PER_SECOND = 500 << 20  # of a slow machine, for memory that is touched for the first time


def assert_cheap(path: Path) -> None:
    """Do everything that can be done with a file, in a process of its own."""
    child = subprocess.run(
        [sys.executable, SCRIPT, path],
        # Memory that is freed returns to the system at once.
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    costs = json.loads(child.stdout)
    assert len(costs) == 10
    too_much = {
        task: cost
        for task, cost in costs.items()
        if cost["memory"] > cost["result"] + MAX_BYTES
        or cost["seconds"] > MAX_SECONDS + cost["result"] / BYTES_PER_SECOND
    }
    assert too_much == {}, too_much
