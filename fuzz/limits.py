"""What an execution may cost, and what it did cost.

    python -m fuzz.limits TARGET FILE      measure one execution with the ordinary kernels

A hostile file may cost a second of processor time and 300 MB, besides what is proportional to the
result. Sanitizers make all of this several times as much, so a suspicion under sanitizers is
measured again without them, in a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MAX_SECONDS = 1.0
MAX_MEMORY = 300 << 20
SECONDS_PER_BYTE = 1 / (50 << 20)  # of a result
MEMORY_PER_BYTE = 3  # of a result: a target holds it as a table, in parts and in batches
TIMEOUT = 15  # less than what `run` calls a hang


@dataclass(frozen=True)
class Cost:
    seconds: float = 0.0
    memory: int = 0
    result: int = 0
    error: str = ""

    def excess(self, factor: float = 1.0) -> str:
        """Return "time" or "memory" if the limits, times a factor, are exceeded."""
        if self.seconds > factor * (MAX_SECONDS + self.result * SECONDS_PER_BYTE):
            return "time"
        if self.memory > factor * (MAX_MEMORY + self.result * MEMORY_PER_BYTE):
            return "memory"
        return ""


def peak() -> int:
    """Return the largest memory that this process has had."""
    # Not ru_maxrss, which begins with the memory of the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def forget_peak() -> None:
    """Let `peak` start again from the present."""
    Path("/proc/self/clear_refs").write_text("5")


def present() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(act: Callable[[], int]) -> Cost:
    """Return what `act` costs, which returns the size of its result."""
    forget_peak()
    before, start = present(), time.process_time()
    result, error = 0, ""
    try:
        result = act()
    except Exception as raised:  # noqa: BLE001 - it may be what is looked for
        error = f"{type(raised).__name__}: {raised}"[:300]
    seconds = time.process_time() - start
    return Cost(seconds, max(0, peak() - before), result, error)


def confirm(target: str, path: Path) -> Cost:
    """Measure an input with the ordinary kernels."""
    hidden = ("LD_PRELOAD", "PYTHONMALLOC", "ARROW_DEFAULT_MEMORY_POOL", "PYTHONPATH")
    clean = {name: value for name, value in os.environ.items() if name not in hidden}
    clean["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(ROOT / "tests")])
    command = [sys.executable, "-m", "fuzz.limits", target, str(path)]
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            env=clean,
            timeout=TIMEOUT,
            cwd=ROOT,
        )
        return Cost(**json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return Cost(seconds=TIMEOUT, error="timeout")
    except (ValueError, IndexError, TypeError):
        return Cost(memory=1 << 40, error=f"died: {done.stderr[-300:]}")


def _main() -> None:
    from . import seeds, targets

    name, path = sys.argv[1:]
    target = next(one for one in targets.TARGETS if one.name == name)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    # Import and compile what the first execution would.
    start = seeds.starts()[target.family][0]
    for _ in range(3):
        measure(lambda: targets.execute(target, start))
    data = Path(path).read_bytes()
    print(json.dumps(asdict(measure(lambda: targets.execute(target, data)))))
    targets.close()


if __name__ == "__main__":
    _main()
