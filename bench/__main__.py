"""`python -m bench`: measure files, print, and write bench/results/files.json and its page."""

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
    from . import measure, plan, render, report
    from .contenders import CONTENDERS, ParquetPlain
    from .results import OURS, TIME

    # Without a dictionary, Parquet files of these tables are larger.
    contenders = [one for one in CONTENDERS if not isinstance(one, ParquetPlain)]
    names = {contender.name.lower(): contender for contender in contenders}
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    render.add_arguments(parser, quick="less of it, within two minutes")
    parser.add_argument("--only", metavar="NAME,...", help=f"some of: {', '.join(names)}")
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
    results.add(plan.IMPORT, TIME, OURS, measure.import_seconds(runs=10))
    log("done")
    print(report.text(results))
    render.publish(results, args.out, complete=not args.quick and not args.only)
    return 1 if results.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
