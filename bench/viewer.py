"""Measure the viewer in a real Chromium: first paint, jumps, heap, bytes read.

python -m bench.viewer            100,000 columns x 1,000 rows
python -m bench.viewer --tall     10,000 columns x 1,000,000 rows; needs 1.3 GB of disk and some minutes
python -m bench.viewer --path F   keep the file as F, or use it if it exists

The server runs in a process of its own, as users start it. Times are those that the page sees, until the
cells are drawn: after dragging both scroll bars to a random place, and after entering the name of a column
in the dialog that `g` opens.
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
SCROLL = """async ([x, y]) => {
  const grid = document.getElementById("grid");
  const start = performance.now();
  grid.scrollLeft = x * (grid.scrollWidth - grid.clientWidth);
  grid.scrollTop = y * (grid.scrollHeight - grid.clientHeight);
  await grid.flush();
  return performance.now() - start;
}"""
GO_TO = """async (name) => {
  document.getElementById("grid").dispatchEvent(new KeyboardEvent("keydown", {key: "g", bubbles: true}));
  const input = document.getElementById("goto-name");
  input.value = name;
  const start = performance.now();
  input.form.requestSubmit();
  const shown = () => [...document.querySelectorAll("regular-table thead tr:first-child th")]
    .some((head) => head.textContent.trim() === name);
  while (!shown()) await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""


def name_of(position: int) -> str:
    return f"sensor_{position // 100:04d}_{position:06d}"


def write(path: Path, num_columns: int, num_rows: int) -> None:
    """Write a file of random numbers."""
    rng = np.random.default_rng(0)
    step = min(num_rows, 20_000)
    names = list(map(name_of, range(num_columns)))
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
            times = [page.evaluate(SCROLL, rng.random(2).tolist()) for _ in range(JUMPS)]
            found["jump by scrolling, median (ms)"] = statistics.median(times)
            found["jump by scrolling, slowest (ms)"] = max(times)
            found["read for a jump (kB)"] = (bytes_read(server.pid) - before) / len(times) / 1000
            named = [*rng.integers(num_columns, size=JUMPS).tolist(), num_columns - 1]
            times = [page.evaluate(GO_TO, name_of(position)) for position in named]
            found["jump by name, median (ms)"] = statistics.median(times)
            found["jump by name, slowest (ms)"] = max(times)
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
    parser.add_argument("--path", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    num_columns, num_rows = (10_000, 1_000_000) if arguments.tall else (100_000, 1_000)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.path or Path(folder) / "wide.mosaic"
        if not path.exists():
            write(path, num_columns, num_rows)
        print(f"{num_columns:,} columns x {num_rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB")
        for name, value in measure(path, num_columns, num_rows).items():
            print(f"{name:32}{value:10,.1f}")


if __name__ == "__main__":
    main()
