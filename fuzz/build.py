"""Build the kernels with sanitizers and coverage, apart from the ordinary build.

    python -m fuzz.build

build/fuzz/lib contains the package: links to its Python files, and the kernels. Kernels are built
again if their sources have changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "fastmosaic"
BUILD = ROOT / "build" / "fuzz"
LIBRARY = BUILD / "lib"
COVERAGE = BUILD / "coverage.so"

# Cython calls functions through pointers of other types, as CPython does.
FLAGS = (
    *("-O1", "-g", "-fno-omit-frame-pointer", "-fPIC", "-shared", "-shared-libasan", "-w"),
    *("-fsanitize=address,undefined", "-fno-sanitize=function", "-fsanitize-recover=undefined"),
    *("-fsanitize-coverage=inline-8bit-counters,pc-table", "-DPy_LIMITED_API=0x030b0000"),
)


def clang() -> str:
    """Return the newest clang of this machine."""
    for name in (os.environ.get("CLANG", ""), *(f"clang-{n}" for n in range(22, 13, -1)), "clang"):
        if name and shutil.which(name):
            return name
    sys.exit("fuzz: clang is required; on Debian or Ubuntu, `make fuzz` installs it as root")


def runtime() -> Path:
    """Return the runtime of AddressSanitizer, which has to be preloaded."""
    for name in ("libclang_rt.asan-x86_64.so", "libclang_rt.asan.so"):
        command = [clang(), f"--print-file-name={name}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        path = Path(done.stdout.strip())
        if path.is_absolute() and path.exists():
            return path.resolve()
    sys.exit(f"fuzz: {clang()} has no AddressSanitizer; install libclang-rt-dev of its version")


def symbolizer() -> str | None:
    """Return the program that turns addresses into lines."""
    beside = Path(os.path.realpath(shutil.which(clang()) or "")).parent / "llvm-symbolizer"
    return str(beside) if beside.exists() else shutil.which("llvm-symbolizer")


def environment() -> dict[str, str]:
    """Return the variables of a process that uses the sanitized kernels."""
    asan = {
        "detect_leaks": 0,
        "allocator_may_return_null": 1,
        "max_allocation_size_mb": 1500,
        "soft_rss_limit_mb": 3000,
        "hard_rss_limit_mb": 5000,
        "quarantine_size_mb": 16,
        "handle_segv": 1,
        "verify_asan_link_order": 0,
        "abort_on_error": 0,
        "exitcode": 99,
    }
    paths = [str(LIBRARY), str(ROOT), str(ROOT / "tests")]
    return os.environ | {
        "LD_PRELOAD": f"{COVERAGE}:{runtime()}",
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in asan.items()),
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "ASAN_SYMBOLIZER_PATH": symbolizer() or "",
        "ARROW_DEFAULT_MEMORY_POOL": "system",  # so that buffers lie between red zones
        "PYTHONMALLOC": "malloc",  # and bytes objects as well
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }


def build() -> None:
    """Bring build/fuzz/lib up to date."""
    BUILD.mkdir(parents=True, exist_ok=True)
    here = Path(__file__).parent
    if _is_older(COVERAGE, [here / "coverage.c"]):
        _run(clang(), "-O2", "-fPIC", "-shared", "-o", str(COVERAGE), str(here / "coverage.c"))
    _link_python()
    kernels = sorted((SOURCE / "format").glob("*.pyx"))
    shared = sorted((SOURCE / "format").glob("*.pxd"))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda kernel: _build_kernel(kernel, [kernel, *shared]), kernels))


def _link_python() -> None:
    """Link to the Python files, so that the package is what the working copy has."""
    package = LIBRARY / "fastmosaic"
    if package.exists():
        for path in package.rglob("*"):
            if path.is_symlink():
                path.unlink()
    for path in SOURCE.rglob("*.py"):
        link = package / path.relative_to(SOURCE)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)


def _build_kernel(kernel: Path, sources: list[Path]) -> None:
    name = kernel.stem
    target = LIBRARY / "fastmosaic" / "format" / f"{name}.abi3.so"
    if not _is_older(target, [*sources, Path(__file__)]):
        return
    print(f"==> build {name} with sanitizers", flush=True)
    code = BUILD / f"{name}.c"
    _run(
        *(sys.executable, "-m", "cython", "-3", "--line-directives", "-I", str(SOURCE.parent)),
        *("--module-name", f"fastmosaic.format.{name}", "-o", str(code), str(kernel)),
    )
    include = sysconfig.get_path("include")
    _run(
        clang(),
        *FLAGS,
        f"-I{include}",
        f"-I{ROOT / 'vendor' / 'zstd'}",
        "-o",
        str(target),
        str(code),
    )


def _is_older(target: Path, sources: list[Path]) -> bool:
    if not target.exists():
        return True
    return target.stat().st_mtime < max(source.stat().st_mtime for source in sources)


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"fuzz: this command failed: {' '.join(command)}\n{done.stderr}")


if __name__ == "__main__":
    build()
