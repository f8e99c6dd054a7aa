#!/bin/sh
# Install clang with its sanitizers, for `make fuzz`.
#
# On Debian and Ubuntu it is installed with apt-get if this user may do so. Elsewhere one line says
# what to install.
set -eu

cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

versions="19 18 17 16 15 14"

has_clang() {
    for version in $versions; do
        name=clang-$version
        if command -v "$name" >/dev/null && command -v "llvm-symbolizer-$version" >/dev/null; then
            runtime=$("$name" -print-file-name=libclang_rt.asan-x86_64.so)
            [ ! -e "$runtime" ] || return 0
            [ ! -e "$("$name" -print-file-name=libclang_rt.asan.so)" ] || return 0
        fi
    done
    return 1
}

# The packages of the newest clang: compiler, sanitizers, and what turns addresses into lines.
packages() {
    # shellcheck disable=SC2046 # one word for each version
    newest=$(one_of $(for version in $versions; do echo "libclang-rt-$version-dev"; done))
    version=${newest#libclang-rt-}
    version=${version%-dev}
    echo "clang-$version" "$newest" "llvm-$version"
}

if ! has_clang; then
    if [ -z "$(apt_get)" ]; then
        # shellcheck disable=SC2046 # one line
        fail "clang is missing; on Debian or Ubuntu install it with: sudo apt-get install" $(packages)
    fi
    say "update the lists of packages with apt-get (some seconds)"
    $(apt_get) update -qq
    # shellcheck disable=SC2046 # several words
    install_packages $(packages)
    has_clang || fail "clang was installed, but its sanitizers cannot be found"
fi
