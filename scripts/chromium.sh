#!/bin/sh
# Install Chromium, in which the tests of the viewer and of reports run.
#
# On Debian it is installed with apt-get if this user may do so. Elsewhere one line says what to
# install. `tests/browser.py` looks for the same names.
set -eu

cd "$(dirname "$0")/.."
# shellcheck source=scripts/apt.sh
. scripts/apt.sh

has_chromium() {
    for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
        ! command -v "$name" >/dev/null || return 0
    done
    return 1
}

if ! has_chromium; then
    hint="on Debian install it with: sudo apt-get install chromium; elsewhere set CHROMIUM to its path"
    [ -n "$(apt_get)" ] || fail "the tests need Chromium; $hint"
    say "update the lists of packages with apt-get (some seconds)"
    $(apt_get) update -qq
    install_packages chromium
    has_chromium || fail "Chromium was not found after the installation; $hint"
fi
