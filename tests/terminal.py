"""The command on a terminal: a pseudo terminal of a given size, and all that appears on it."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>])")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """That of this process, without what would change how the command prints."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES", "LESS", "NO_COLOR", "PAGER", "FORCE_COLOR"}
    }
    return kept | {"PYTHONPATH": str(SOURCE), "TERM": "xterm-256color"} | dict(extra or {})


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "fastmosaic", *words]


def peak_memory(*words: object) -> int:
    """The most memory of a run of the command, in bytes."""
    # What `resource` tells of a process begins with that of its parent; its status does not.
    code = (
        "import re, sys; from fastmosaic.cli import main; status = main(sys.argv[1:]); "
        "peak = re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1]; "
        "print(int(peak) * 1024, file=sys.stderr); sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(),
        check=True,
    )
    return int(done.stderr)


def on_terminal(
    words: Sequence[str],
    *,
    columns: int = 80,
    lines: int = 24,
    env: Mapping[str, str] | None = None,
    stdout: int | None = None,
) -> tuple[int, str]:
    """The exit status of a program, and what it printed on its terminal.

    If `stdout` is given, that is where its output goes, and only stderr is the terminal.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    process = subprocess.Popen(
        words,
        stdin=its,
        stdout=its if stdout is None else stdout,
        stderr=its,
        env=environment(env),
        start_new_session=True,
    )
    os.close(its)
    printed = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:  # on Linux, that is how a terminal ends
            piece = b""
        if not piece:
            break
        printed += piece
    os.close(ours)
    return process.wait(), printed.decode("utf-8", "replace").replace("\r\n", "\n")


def plain(text: str) -> str:
    """What is seen, without colours and movements of the cursor."""
    return ESCAPE.sub("", text)
