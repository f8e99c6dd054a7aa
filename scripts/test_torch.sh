#!/bin/sh
# Run the tests of fastmosaic.torch with PyTorch, in an environment of their own.
#
#   scripts/test_torch.sh VENV [PYTEST-OPTION...]
#
# VENV is the environment for development: the kernels that it has built are used. TORCH is what pip
# installs, for example "torch==2.13.0" or the path of a wheel.
set -eu

venv=$1
shift
cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh # say, fail

env=build/torch
torch=${TORCH:-torch==2.13.0}
stamp=$env/installed
mkdir -p build
if [ "$(cat "$stamp" 2>/dev/null)" != "$torch" ]; then
    say "make $env with $torch (one minute)"
    rm -rf "$env"
    "$venv/bin/python" -m venv "$env"
    "$env/bin/pip" install --quiet --upgrade pip
    if "$env/bin/pip" install --dry-run "$torch" | grep -q 'Would install.* nvidia'; then
        fail "pip would install gigabytes of CUDA packages with $torch; let it find a build for CPUs
first, for example with PIP_INDEX_URL, or with TORCH= and the path of such a wheel"
    fi
    "$venv/bin/python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["project"]["dependencies"], sep="\n")
' >build/requirements.txt
    "$env/bin/pip" install --quiet "$torch" --group test --requirement build/requirements.txt
    "$env/bin/pip" install --quiet --no-deps torchdata # it would install the newest torch
    site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$PWD/src" >"$site/fastmosaic.pth"
    echo "$torch" >"$stamp"
fi
say "run tests/torch with PyTorch $("$env/bin/python" -c 'import torch; print(torch.__version__)')"
"$env/bin/python" -m pytest -q -p no:cacheprovider tests/torch "$@"
