"""`python -m bench`: measure, print, and write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; the exit status is 1 if someone returned wrong values."""
    # Here, because each worker process imports this module first.
    from . import document, measure, plan, report
    from .contenders import CONTENDERS

    names = {contender.name.lower(): contender for contender in CONTENDERS}
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of it, within two minutes")
    parser.add_argument("--only", metavar="NAME,...", help=f"some of: {', '.join(names)}")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write, instead of docs")
    args = parser.parse_args(argv)
    only = [name.strip().lower() for name in args.only.split(",")] if args.only else list(names)
    if unknown := set(only) - set(names):
        parser.error(f"no such contender: {', '.join(sorted(unknown))}")

    start = time.monotonic()

    def log(line: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {line}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        contenders = [contender for name, contender in names.items() if name in only]
        chosen = plan.QUICK if args.quick else plan.FULL
        results = measure.run(chosen, contenders, Path(folder), log)
    log("import")
    results.import_seconds = measure.import_seconds(runs=10)
    log("done")
    print(report.text(results))
    out = args.out or (None if args.quick else Path(__file__).parents[1] / "docs")
    if out:
        out.mkdir(parents=True, exist_ok=True)
        print(f"Written: {document.write(results, out)}")
    return 1 if results.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
