# Functions for scripts that install system packages on Debian and Ubuntu; to be sourced.

DEBIAN_FRONTEND=noninteractive
export DEBIAN_FRONTEND

say() { printf '==> %s\n' "$*"; }
fail() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# Run a command and show those lines of its output that match a pattern: what takes long, and no more.
showing() {
    pattern=$1
    shift
    failed=$(mktemp)
    { "$@" || echo "$?" >"$failed"; } | grep --line-buffered -E "$pattern" || true
    status=$(cat "$failed")
    rm "$failed"
    [ -z "$status" ] || fail "this command failed, see above: $*"
}

# The command that runs apt-get, or nothing where it may not be run.
apt_get() {
    command -v apt-get >/dev/null || return 0
    if [ "$(id -u)" = 0 ]; then
        echo apt-get
    elif sudo -n true 2>/dev/null; then
        echo "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get"
    fi
}

available() { apt-cache show "$1" 2>/dev/null | grep -q .; }

# The first of these packages that apt-get knows, else the first.
one_of() {
    for package in "$@"; do
        if available "$package"; then
            echo "$package"
            return
        fi
    done
    echo "$1"
}

# Install packages with the command `apt_get`, without what they only recommend.
install_packages() {
    say "install $* with apt-get (about a minute)"
    # shellcheck disable=SC2046 # a command of several words
    showing '^Setting up' $(apt_get) install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "$@"
}
