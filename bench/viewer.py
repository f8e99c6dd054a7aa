"""Measure the viewer in a real Chromium: first paint, jumps, heap, bytes read.

python -m bench.viewer            100,000 columns x 1,000 rows
python -m bench.viewer --tall     10,000 columns x 1,000,000 rows; needs about 2 GB of disk and some minutes

The server runs in a process of its own, as users start it. Times are those that the page sees.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import fastmosaic as fm

JUMPS = 20
# From the key press until the column is drawn.
JUMP = """async ([x, y]) => {
  const grid = document.getElementById("grid");
  const start = performance.now();
  await grid.scrollToCell(x, y, COLUMNS, ROWS);
  await grid.draw({invalid_viewport: true});
  return performance.now() - start;
}"""


def write(path: Path, num_columns: int, num_rows: int) -> None:
    """Write a file of random numbers."""
    rng = np.random.default_rng(0)
    step = min(num_rows, 20_000)
    names = [f"sensor_{i // 100:04d}_{i:06d}" for i in range(num_columns)]
    schema = pa.schema([(name, pa.int16()) for name in names])
    with fm.MosaicWriter(path, schema) as writer:
        for _ in range(0, num_rows, step):
            # Independent columns do not compress each other; few values keep a tall file small.
            most = 1000 if num_rows <= step else 2
            values = rng.integers(0, most, (num_columns, step), dtype=np.int16)
            columns = [pa.array(one) for one in values]
            writer.write_batch(pa.record_batch(columns, schema))


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def bytes_read(pid: int) -> int:
    """Return how many bytes a process has read, from the disk or the cache."""
    text = Path(f"/proc/{pid}/io").read_text()
    return int(dict(line.split(": ") for line in text.splitlines())["rchar"])


def measure(path: Path, num_columns: int, num_rows: int) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    command = [sys.executable, "-m", "fastmosaic", "view", "--no-browser", str(path)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    found: dict[str, float] = {}
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=["--no-sandbox", "--disable-gpu", "--enable-precise-memory-info"],
            )
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.goto("about:blank")
            start = time.perf_counter()
            page.goto(url)
            page.wait_for_selector("regular-table td")
            found["first cells (ms)"] = 1000 * (time.perf_counter() - start)
            page.wait_for_selector("body[aria-busy=false]")
            before, memory = bytes_read(server.pid), resident(server.pid)
            rng = np.random.default_rng(1)
            script = JUMP.replace("COLUMNS", str(num_columns)).replace("ROWS", str(num_rows))
            times = []
            for _ in range(JUMPS):
                place = [int(rng.integers(num_columns)), int(rng.integers(num_rows))]
                times.append(page.evaluate(script, place))
            times.append(page.evaluate(script, [num_columns - 1, 0]))
            found["jump, median (ms)"] = statistics.median(times)
            found["jump, slowest (ms)"] = max(times)
            found["read for a jump (kB)"] = (bytes_read(server.pid) - before) / len(times) / 1000
            found["browser heap (MB)"] = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
            found["server memory (MB)"] = resident(server.pid) / 1e6
            found["growth by the jumps (MB)"] = (resident(server.pid) - memory) / 1e6
            browser.close()
    finally:
        server.terminate()
        server.wait()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tall", action="store_true")
    arguments = parser.parse_args()
    num_columns, num_rows = (10_000, 1_000_000) if arguments.tall else (100_000, 1_000)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wide.mosaic"
        write(path, num_columns, num_rows)
        print(f"{num_columns:,} columns x {num_rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB")
        for name, value in measure(path, num_columns, num_rows).items():
            print(f"{name:28}{value:10,.1f}")


if __name__ == "__main__":
    main()
