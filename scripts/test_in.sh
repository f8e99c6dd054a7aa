#!/bin/sh
# Run tests in an environment of their own, made anew: another Python, or older packages.
#
#   scripts/test_in.sh ENV PYTHON [PIP-OPTION...]
#
# TESTS names the tests to run; the default is a selection that touches all of the package but Spark.
set -eu

env=$1
python=$2
shift 2
cd "$(dirname "$0")/.."
tests=${TESTS:-tests/format tests/file/test_roundtrip.py tests/file/test_reading.py tests/dataset
    tests/interop tests/cli}

say() { printf '==> %s\n' "$*"; }

say "make $env with $("$python" --version), and build the package in it (2 minutes)"
rm -rf "$env" build/lib* build/temp* build/bdist*
"$python" -m venv "$env"
"$env/bin/pip" install --quiet --upgrade pip
"$env/bin/pip" install --quiet --group test "$@" --editable ".[duckdb,pandas,polars,s3,view]"
"$env/bin/pip" list | grep -iE '^(argcomplete|duckdb|numpy|pandas|polars|pyarrow|rich|s3fs|sqlglot) '

say "run tests with $("$env/bin/python" --version) (5 to 10 minutes)"
# The tests write Feather files, with functions that pyarrow 24 and 25 call deprecated.
# shellcheck disable=SC2086 # several paths
"$env/bin/python" -m pytest -q -p no:cacheprovider -W 'ignore:pyarrow.feather:FutureWarning' $tests
