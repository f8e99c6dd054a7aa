#!/bin/sh
# Run a selection of the tests with each supported Python that this machine has.
#
#   scripts/test_pythons.sh        looks for python3.11 to python3.14 on the PATH and in pyenv
set -eu

cd "$(dirname "$0")/.."
skipped=
for minor in 11 12 13 14; do
    found=
    for candidate in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3; do
        # pyenv puts commands on the PATH that only say that they are not active: run it.
        if [ -z "$found" ] && "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
            found=$candidate
        fi
    done
    if [ -n "$found" ]; then
        scripts/test_in.sh "build/python3.$minor" "$found"
    else
        skipped="$skipped 3.$minor"
    fi
done
[ -z "$skipped" ] || echo "not tested, because this machine does not have it: Python$skipped"
