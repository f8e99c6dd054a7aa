"""The machine: what it is, and how much memory a process takes."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


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
