#!/bin/sh
# Set up a virtual environment for development, with all that it needs from the system.
#
#   scripts/setup.sh VENV [PYTHON]     PYTHON: the interpreter, by default the first suitable one
#
# On Debian and Ubuntu, missing system packages are installed with apt-get if this user may do so.
# Elsewhere one line says what to install.
set -eu

venv=$1
python=${2:-}
oldest=11 # Python 3.11
java_versions="17 21" # that Spark runs on, as Debian's and Ubuntu's packages are named

cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

# ---- what is there

suitable() { "$1" -c "import sys; sys.exit(sys.version_info < (3, $oldest))" 2>/dev/null; }

find_python() {
    for name in ${python:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if suitable "$name"; then
            echo "$name"
            return
        fi
    done
}

has_venv() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

has_headers() {
    "$1" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'
}

has_compiler() {
    echo '#include <stdlib.h>' | ${CC:-cc} -x c -c -o /dev/null - 2>/dev/null
}

has_java() {
    java=java
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ]
}

# ---- what the system can install

java_package() {
    # shellcheck disable=SC2046 # one word for each version
    one_of $(for version in $java_versions; do echo "openjdk-$version-jre-headless"; done) \
        default-jre-headless
}

# What is missing, as names of Debian packages.
missing() {
    has_compiler || echo gcc libc6-dev
    found=$(find_python)
    if [ -z "$found" ]; then
        # Debian 12, Ubuntu 24.04 and later have a suitable python3, some older ones another package.
        version=$(apt-cache show python3 2>/dev/null | sed -n 's/^Version: 3\.\([0-9]*\).*/\1/p' |
            head -n 1)
        if [ "${version:-0}" -ge "$oldest" ]; then
            echo python3 python3-venv python3-dev
        else
            name=$(one_of python3.13 python3.12 python3.11)
            echo "$name" "$name-venv" "$name-dev"
        fi
    else
        name=$("$found" -c 'import sys; print("python3.%d" % sys.version_info[1])')
        has_venv "$found" || echo "$name-venv"
        has_headers "$found" || echo "$name-dev"
    fi
    has_java || java_package
}

install_missing() {
    # shellcheck disable=SC2046 # one line
    set -- $(missing)
    [ $# = 0 ] && return
    apt_get=$(apt_get)
    if [ -z "$apt_get" ]; then
        say "something is missing; on Debian or Ubuntu install it with: sudo apt-get install $*"
    else
        # The names of packages may change when the lists are there: a new machine has none.
        say "update the lists of packages with apt-get (some seconds)"
        $apt_get update -qq
        # shellcheck disable=SC2046
        set -- $(missing)
        install_packages "$@"
    fi
    has_compiler || fail "building the kernels requires a C compiler"
    python_found=$(find_python)
    [ -n "$python_found" ] || fail "Python 3.$oldest or later is required"
    has_venv "$python_found" || fail "$python_found has no venv module: install python3-venv"
    has_headers "$python_found" || fail "$python_found has no header files: install python3-dev"
    has_java || say "continuing without Java: what uses Spark will not work"
}

# ---- Python packages

pip_install() {
    showing '^(Collecting|Processing|Obtaining|Building|Installing)|Downloading.*[0-9][0-9][.][0-9] MB' \
        "$venv/bin/python" -m pip install --disable-pip-version-check --progress-bar off "$@"
}

install_missing
if [ ! -x "$venv/bin/python" ]; then
    python=$(find_python)
    say "make the virtual environment $venv with $("$python" --version)"
    "$python" -m venv "$venv"
fi
say "update pip"
pip_install --upgrade pip
say "install the Python packages and compile the kernels (3 to 6 minutes the first time, 900 MB)"
pip_install --group dev --editable ".[duckdb,pandas,polars,s3,view]"
touch "$venv/ready"
say "ready: $venv"
