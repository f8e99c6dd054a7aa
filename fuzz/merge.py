"""Add the inputs of a run to the corpus that reach edges which the others do not reach.

python -m fuzz merge      which runs this module with the sanitized kernels
"""

from __future__ import annotations

import hashlib
import sys
import time

from . import build, seeds, targets
from .coverage import Coverage

MAX_BYTES = 4000
MAX_SECONDS = 0.1  # of processor time, so that tests are quick


def main() -> int:
    coverage = Coverage()
    if not coverage.is_on:
        sys.exit("fuzz: run this with `python -m fuzz merge`")

    def reaches_more(family: str, data: bytes) -> bool:
        """Run all targets of a family; inputs that take long or find something do not count."""
        coverage.reset()
        start = time.process_time()
        for target in targets.TARGETS:
            if target.family == family and target.name != "exchange":
                try:
                    targets.execute(target, data)
                except (Exception, SystemExit):  # noqa: BLE001 - a finding is kept elsewhere
                    return False
        if time.process_time() - start > 5 * MAX_SECONDS:
            return False
        return coverage.collect_edges() > 0

    for family, inputs in seeds.starts().items():
        for data in inputs:
            reaches_more(family, data)
    for family, named in seeds.corpus().items():
        for data in named.values():
            reaches_more(family, data)
    found = [
        (len(data), family, data)
        for family, named in seeds.corpus(build.BUILD / "corpus").items()
        for data in named.values()
        if len(data) <= MAX_BYTES
    ]
    added = 0
    for _, family, data in sorted(found):
        if reaches_more(family, data):
            path = seeds.CORPUS / family / hashlib.sha256(data).hexdigest()[:16]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            added += 1
    print(f"added {added} of {len(found)} inputs to {seeds.CORPUS}")
    targets.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
