#!/bin/sh
# Build the sdist and the wheel into dist/, and try the wheel where there is no compiler.
#
#   scripts/wheel.sh VENV        VENV: a virtual environment with the dependency group "release"
#
# The wheel is built from the sdist, in isolation, so that the sdist is known to build.
set -eu

cd "$(dirname "$0")/.."
venv=$(cd "$1" && pwd)
work=$PWD/build/wheel
rm -rf dist "$work"
mkdir -p dist "$work"

say() { printf '\n==> %s\n' "$*"; }

say "build the sdist, and from it the wheel (about a minute)"
"$venv/bin/python" -m build --outdir "$work" . >"$work/build.log" 2>&1 ||
    { tail -n 40 "$work/build.log"; exit 1; }
mv "$work"/*.tar.gz dist/

say "make it a manylinux wheel"
PATH=$venv/bin:$PATH auditwheel repair --wheel-dir dist "$work"/*.whl

say "check what is in it"
"$venv/bin/python" scripts/check_wheel.py dist/*.whl

say "install it in an empty environment, where no compiler can be found (about a minute)"
"$venv/bin/python" -m venv "$work/env"
alone() { env -u PYTHONPATH PATH="$work/env/bin" CC=false "$@"; }
alone pip install --quiet --only-binary=:all: dist/*.whl
cd "$work"
alone python - <<'END'
import shutil, subprocess
import pyarrow as pa
import fastmosaic as fm

assert not any(map(shutil.which, ("cc", "gcc", "clang"))), "a compiler is on the PATH"
assert "site-packages" in fm.__file__, fm.__file__
table = pa.table({"id": [1, 2, 3], "kind": ["a", None, "b"], "list": [[1.5], [], None]})
fm.write_table(table, "tried.mosaic", write_statistics=["id"])
assert fm.read_table("tried.mosaic").equals(table)
assert fm.read_table("tried.mosaic", columns=["kind"], filters=[("id", ">", 1)]).num_rows == 2
assert fm.verify("tried.mosaic").ok
for arguments in (["--version"], ["head", "tried.mosaic"], ["schema", "tried.mosaic"]):
    print("$ fastmosaic", *arguments, flush=True)
    subprocess.run(["fastmosaic", *arguments], check=True)
END
cd ../..

say "done"
ls -l dist
