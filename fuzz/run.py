"""Run workers for some time, start them again when they crash or hang, and report."""

from __future__ import annotations

import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from . import build, report

HEADER = struct.Struct("<QQQ")  # as in worker.py

HANG_SECONDS = 30.0
WORKERS = 2


@dataclass
class Running:
    slot: int
    life: int
    process: subprocess.Popen[bytes]
    log: Path
    executions: int = -1
    since: float = 0.0

    @property
    def number(self) -> str:
        return f"{self.slot}-{self.life}"


def run(seconds: float, seed: int, directory: Path) -> int:
    """Fuzz for some seconds; return the exit status."""
    state = directory / "state"
    shutil.rmtree(state, ignore_errors=True)
    for name in ("findings", "corpus"):
        shutil.rmtree(directory / name, ignore_errors=True)
        (directory / name).mkdir(parents=True)
    state.mkdir()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # end the workers, too
    start = time.time()
    end = start + seconds
    running = [_start(slot, 0, end, seed, directory) for slot in range(WORKERS)]
    said = start
    try:
        while running:
            time.sleep(0.5)
            for one in list(running):
                if not _look_after(one, directory):
                    continue
                running.remove(one)
                if time.time() < end - 5:
                    running.append(_start(one.slot, one.life + 1, end, seed, directory))
            if time.time() > said + 60:
                said = time.time()
                print(report.line(directory, said - start), flush=True)
    finally:
        for one in running:
            one.process.kill()
            one.process.wait()
    return report.write(directory, time.time() - start)


def _start(slot: int, life: int, end: float, seed: int, directory: Path) -> Running:
    log = directory / "state" / f"worker-{slot}-{life}.log"
    arguments = [f"{slot}-{life}", str(end - time.time()), str(seed * 1000 + life * 10 + slot)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", *arguments, str(directory)],
            stdout=output,
            stderr=output,
            env=build.environment() | {"FUZZ_WORKERS": str(WORKERS)},
            cwd=build.ROOT,
        )
    return Running(slot, life, process, log, since=time.time())


def _look_after(one: Running, directory: Path) -> bool:
    """Return whether a worker has ended; save its input if it crashed or hung."""
    status = one.process.poll()
    if status is not None:
        if status != 0:
            _save(one, directory, _summary(one.log, status))
        return True
    executions = _current(one, directory)[0]
    if executions != one.executions:
        one.executions, one.since = executions, time.time()
    elif time.time() > one.since + HANG_SECONDS:
        one.process.send_signal(signal.SIGUSR1)  # print where it is
        time.sleep(1)
        one.process.kill()
        one.process.wait()
        _save(one, directory, f"hang: more than {HANG_SECONDS:.0f} s")
        return True
    return False


def _current(one: Running, directory: Path) -> tuple[int, int, bytes]:
    path = directory / "state" / f"current-{one.number}"
    content = path.read_bytes() if path.exists() else b""
    if len(content) < HEADER.size:
        return 0, 0, b""
    executions, target, size = HEADER.unpack_from(content)
    return executions, target, content[HEADER.size : HEADER.size + size]


def _summary(log: Path, status: int) -> str:
    """Return the line in which a sanitizer says what happened."""
    text = log.read_text(errors="replace")
    found = re.findall(r"^SUMMARY: AddressSanitizer: (.*)$", text, re.MULTILINE)
    found = found or re.findall(r"^.*hard rss limit.*$", text, re.MULTILINE)
    last = (text.strip().splitlines() or [""])[-1][:200]
    return f"crash: {found[-1] if found else f'status {status}: {last}'}"


def _save(one: Running, directory: Path, what: str) -> None:
    # Only here, because the package needs the path of the tests, which workers have.
    sys.path[:0] = [str(build.ROOT / "tests")]
    from .findings import Findings
    from .targets import TARGETS

    _, number, data = _current(one, directory)
    target = TARGETS[number]
    log = one.log.read_text(errors="replace")
    findings = Findings(directory / "findings")
    what = f"{target.name}: {re.sub(r'0x[0-9a-f]+|==[0-9]+==', '', what)}"
    if not findings.is_known(what):
        findings.add(what, target, data, log[-20_000:])
