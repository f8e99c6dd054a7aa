"""Check what is in a wheel: stripped kernels for abi3, the types and the viewer's page, but no
sources of kernels.
"""

import re
import sys
import zipfile
from pathlib import Path, PurePath

ALLOWED = {".py", ".pyi", ".so", ""}
STATIC = "fastmosaic/viewer/static/"
PAGE = "fastmosaic/report/static/"
SOURCES = Path(__file__).parent.parent / "src"
REQUIRED = [
    "fastmosaic/py.typed",
    "fastmosaic/format/_decode.pyi",
    "pyspark_mosaic/__init__.py",
    # The pages, with the vendored files and their licences.
    *(
        path.relative_to(SOURCES).as_posix()
        for folder in (STATIC, PAGE)
        for path in (SOURCES / folder).rglob("*")
        if path.is_file()
    ),
]


def problems(path: str) -> list[str]:
    """Return what is wrong with the wheel at `path`, one line each."""
    found = []
    # The versions of glibc that docs/installation.md promises.
    if not re.search(r"-cp311-abi3-manylinux2014_\S*\.whl$", path):
        found.append(f"{path}: expected a name like fastmosaic-…-cp311-abi3-manylinux2014_….whl")
    with zipfile.ZipFile(path) as wheel:
        members = [
            name
            for name in wheel.namelist()
            if not name.endswith("/") and ".dist-info/" not in name
        ]
        kernels = [name for name in members if name.endswith(".so")]
        found += [f"{name} is missing" for name in REQUIRED if name not in members]
        found += [
            f"{name} does not belong in a wheel"
            for name in members
            if PurePath(name).suffix not in ALLOWED
            and not name.endswith("py.typed")
            and not name.startswith((STATIC, PAGE))
        ]
        for name in kernels:
            if not name.endswith(".abi3.so"):
                found.append(f"{name} is not built for the stable ABI")
            if b".debug_info" in wheel.read(name):
                found.append(f"{name} contains debug information")
        stubs = {name.removesuffix(".pyi") for name in members if name.endswith(".pyi")}
        found += [f"{stub}.pyi has no kernel" for stub in stubs if f"{stub}.abi3.so" not in kernels]
        size = sum(wheel.getinfo(name).file_size for name in kernels)
    print(f"{path}: {len(members)} files; the {len(kernels)} kernels take {size:,} bytes")
    return found


if __name__ == "__main__":
    found = [problem for path in sys.argv[1:] for problem in problems(path)]
    sys.exit("\n".join(found) or None)
