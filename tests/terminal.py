"""The command on a terminal: a pseudo terminal of a given size, and all that appears on it."""

import fcntl
import os
import pty
import pydoc
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from fastmosaic.cli import main

SOURCE = Path(__file__).parent.parent / "src"
ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>])")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of this process, without those that would change how the command prints."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"COLUMNS", "LINES", "LESS", "NO_COLOR", "PAGER", "FORCE_COLOR"}
    }
    return kept | {"PYTHONPATH": str(SOURCE), "TERM": "xterm-256color"} | dict(extra or {})


def command(*words: str) -> list[str]:
    """The command as another process, for signals, pipes and encodings."""
    return [sys.executable, "-m", "fastmosaic", *words]


def peak_memory(*words: object) -> int:
    """The peak memory of a run of the command, in bytes."""
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
    *words: object,
    columns: int = 80,
    lines: int = 24,
    env: Mapping[str, str] | None = None,
    stdout: int | None = None,
) -> tuple[int, str]:
    """The exit status of the command, and what it prints on its terminal."""
    return acting(
        lambda: main([str(word) for word in words]),
        columns=columns,
        lines=lines,
        env=env,
        stdout=stdout,
    )


def acting(
    act: Callable[[], int],
    *,
    columns: int = 80,
    lines: int = 24,
    env: Mapping[str, str] | None = None,
    stdout: int | None = None,
) -> tuple[int, str]:
    """What `act` returns, and what it and its children print on the terminal of this process.

    If `stdout` is given, that is where the output goes, and only stderr is the terminal.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    printed: list[bytes] = []
    reading = threading.Thread(target=_read, args=(ours, printed))
    reading.start()
    # pydoc remembers the pager of its first call.
    pager = mock.patch.object(pydoc, "pager", lambda text: pydoc.getpager()(text))
    try:
        with (
            mock.patch.dict(os.environ, environment(env), clear=True),
            pager,
            _streams(its, its if stdout is None else stdout, its),
        ):
            os.close(its)
            status = act()
    finally:
        reading.join()
        os.close(ours)
    return status, b"".join(printed).decode("utf-8", "replace").replace("\r\n", "\n")


def _read(terminal: int, printed: list[bytes]) -> None:
    while True:
        try:
            piece = os.read(terminal, 1 << 16)
        except OSError:  # on Linux, that is how a terminal ends
            return
        if not piece:
            return
        printed.append(piece)


@contextmanager
def _streams(*descriptors: int) -> Iterator[None]:
    """Let the standard streams of this process be others while the block runs."""
    encoding = os.environ.get("PYTHONIOENCODING", "utf-8")
    streams = (sys.stdin, sys.stdout, sys.stderr)
    for stream in streams[1:]:
        stream.flush()
    kept = [os.dup(number) for number in range(3)]
    for number, other in enumerate(descriptors):
        os.dup2(other, number)
    opened = [
        open(number, mode, encoding=encoding, closefd=False)  # noqa: SIM115
        for number, mode in enumerate(("r", "w", "w"))
    ]
    sys.stdin, sys.stdout, sys.stderr = opened  # type: ignore[assignment]
    try:
        yield
    finally:
        for stream in opened[1:]:
            stream.flush()
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, other in enumerate(kept):
            os.dup2(other, number)
            os.close(other)


def plain(text: str) -> str:
    """What is seen, without colours and movements of the cursor."""
    return ESCAPE.sub("", text)
