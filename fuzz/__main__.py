"""Fuzz for some time, or repeat findings.

python -m fuzz run --seconds 600
python -m fuzz repeat FILE...
python -m fuzz merge
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from . import build

ROOT = Path(__file__).parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    commands = parser.add_subparsers(required=True, dest="command")
    run = commands.add_parser("run", help="fuzz with sanitizers")
    run.add_argument("--seconds", type=float, default=60)
    run.add_argument("--seed", type=int, help="of all random choices (default: the time)")
    commands.add_parser(
        "merge", help="add the inputs of the last run that reach more to the corpus"
    )
    repeat = commands.add_parser("repeat", help="run inputs again with the ordinary kernels")
    repeat.add_argument("--target", help="only this target")
    repeat.add_argument("--family", default="files", help="of the inputs (default: files)")
    repeat.add_argument("paths", nargs="+", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "repeat":
        return _repeat(arguments.paths, arguments.family, arguments.target)
    build.build()
    if arguments.command == "merge":
        command = [sys.executable, "-m", "fuzz.merge"]
        return subprocess.run(command, check=False, env=build.environment(), cwd=ROOT).returncode
    from .run import run as start

    seed = int(time.time()) if arguments.seed is None else arguments.seed
    print(f"==> fuzz for {arguments.seconds:.0f} s with seed {seed}", flush=True)
    return start(arguments.seconds, seed, build.BUILD)


def _repeat(paths: list[Path], family: str, name: str | None) -> int:
    sys.path[:0] = [str(ROOT / "tests")]
    from .targets import TARGETS, close, execute

    status = 0
    for path in paths:
        note = path.with_suffix(".txt")
        noted = note.read_text().splitlines() if note.exists() else []
        family = next((x.removeprefix("family: ") for x in noted if "family: " in x), family)
        for target in TARGETS:
            if target.family == family and name in (None, target.name):
                start = time.process_time()
                try:
                    execute(target, path.read_bytes())
                    result = "ok"
                except (Exception, SystemExit) as error:  # noqa: BLE001 - to be shown
                    result, status = f"{type(error).__name__}: {error}", 1
                print(f"{path.name}: {target.name}: {result} ({time.process_time() - start:.2f} s)")
    close()
    return status


if __name__ == "__main__":
    sys.exit(main())
