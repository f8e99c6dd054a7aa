#!/bin/sh
# Run the tests of Spark with each supported version of PySpark, in an environment of its own.
#
#   scripts/test_spark_versions.sh VENV [VERSION...]
#
# VENV is the environment for development: the kernels that it has built are used. TESTS names the tests
# to run; the default is all tests of Spark. Spark 3.5 has no data sources in Python and has its own tests.
set -eu

venv=$1
shift
cd "$(dirname "$0")/.."
versions=${*:-3.5.9 4.0.5 4.1.4 4.2.1 4.3.0}
. scripts/apt.sh # say, fail

mkdir -p build
"$venv/bin/python" -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
print(*project["dependencies"], *project["optional-dependencies"]["duckdb"], sep="\n")
' >build/requirements.txt

failed=
for version in $versions; do
    env=build/spark-$version
    case $version in
        3.*) # its extras require an older NumPy than pyarrow does
            tests=tests/spark35 pyspark=pyspark
            ;;
        *) tests=${TESTS:-tests/spark} pyspark='pyspark[connect]' ;;
    esac
    say "make $env with PySpark $version (2 minutes)"
    rm -rf "$env"
    "$venv/bin/python" -m venv "$env"
    "$env/bin/pip" install --quiet --upgrade pip
    "$env/bin/pip" install --quiet --group test --requirement build/requirements.txt pandas setuptools \
        "$pyspark==$version"
    site=$("$env/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    echo "$PWD/src" >"$site/fastmosaic.pth"
    "$env/bin/python" -W ignore tests/spark_jvm.py || say "continuing without an archive of classes"
    say "run $tests with PySpark $version"
    # PySpark 3.5 uses distutils, and 4.0 leaves sockets to the garbage collector.
    # shellcheck disable=SC2086 # several paths
    "$env/bin/python" -m pytest -q -p no:cacheprovider \
        -W ignore::DeprecationWarning:pyspark -W ignore:distutils:DeprecationWarning \
        -W ignore::ResourceWarning -n 2 --dist loadgroup $tests ||
        failed="$failed $version"
done
[ -z "$failed" ] || fail "tests failed with PySpark$failed"
say "all tests passed with PySpark $versions"
