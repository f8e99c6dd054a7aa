"""One process that fuzzes all targets in turn.

    python -m fuzz.worker NUMBER SECONDS SEED DIRECTORY

The execution that is under way is in DIRECTORY/state/current-NUMBER, so that the process that
started this one can save it when this one crashes or hangs.
"""

from __future__ import annotations

import faulthandler
import gc
import hashlib
import json
import os
import pickle
import re
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from . import findings, limits, mutate, seeds, targets, tokens
from .coverage import Coverage
from .targets import MUTATORS, TARGETS, Target

HEADER = struct.Struct("<QQQ")  # number of the execution, of the target, length of the input
SLOWDOWN = 5.0  # by the sanitizers
MAX_INPUT = 20_000
MAX_KEPT_SECONDS = 0.1  # of an input that others are made of
SYNC_SECONDS = 20.0
MAX_SUSPICIONS = 5  # of one kind that are measured again
MINIMISING_SECONDS = 10.0
# clang calls this undefined, later standards of C do not, and it has no effect.
HARMLESS = "applying zero offset to null pointer"


class Worker:
    def __init__(self, number: str, seed: int, directory: Path) -> None:
        self.number = number
        self.rng = Random(seed)
        self.coverage = Coverage()
        self.state = directory / "state"
        self.found = directory / "corpus"
        self.findings = findings.Findings(directory / "findings")
        self.counts: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.finds: Counter[str] = Counter()  # by signature
        self.suspicions: Counter[str] = Counter()
        self.pools: dict[str, list[bytes]] = {}
        self.known: set[bytes] = set()
        self.loaded: set[Path] = set()
        self.sites: set[str] = set()
        self.executions = 0
        self.current = os.open(self.state / f"current-{number}", os.O_RDWR | os.O_CREAT)
        self.errors_read = 0
        self.unraisable: list[str] = []
        self.started = time.time()
        self.last_sync = 0.0
        self.first_memory = 0

    # ---- inputs

    def load(self) -> None:
        for family, inputs in seeds.starts().items():
            for data in inputs:
                self.keep(family, data)
        for directory in (seeds.CORPUS, self.found):
            self._load(directory)

    def _load(self, directory: Path) -> None:
        for path in sorted(set(directory.glob("*/*")) - self.loaded):
            self.loaded.add(path)
            data = path.read_bytes()
            if len(data) <= MAX_INPUT:
                self.keep(path.parent.name, data)

    def keep(self, family: str, data: bytes) -> None:
        if data not in self.known:
            self.known.add(data)
            self.pools.setdefault(family, []).append(data)

    def save(self, family: str, data: bytes) -> None:
        """Keep an input that reached something new, and let the other processes find it."""
        if data in self.known or len(data) > MAX_INPUT:
            return
        self.keep(family, data)
        path = self.found / family / hashlib.sha256(data).hexdigest()[:16]
        path.parent.mkdir(parents=True, exist_ok=True)
        self.loaded.add(path)
        part = path.parent.parent / f".{self.number}"  # the others must not read half of it
        part.write_bytes(data)
        part.replace(path)

    def pick(self, family: str) -> bytes:
        """Choose an input, the latest more often."""
        pool = self.pools[family]
        return pool[int(len(pool) * max(self.rng.random(), self.rng.random()))]

    def mutated(self, family: str) -> bytes:
        one, other = self.pick(family), self.pick(family)
        try:
            return MUTATORS[family](one, other, self.rng)
        except tokens.BROKEN:  # a number that has grown beyond its field
            return mutate.plain(one, self.rng)

    # ---- executions

    def run(self, seconds: float) -> None:
        end = time.time() + seconds
        for target, data in self._first():
            if time.time() > end:
                break
            self.execute(target, data)
        limits.forget_peak()
        self.first_memory = limits.present()
        while time.time() < end:
            target = min(TARGETS, key=lambda one: self.seconds[one.name] / one.share)
            start = time.process_time()
            data = self.mutated(target.family)
            self.seconds[target.name] += time.process_time() - start
            self.execute(target, data)
        self.sync()

    def _first(self) -> list[tuple[Target, bytes]]:
        """Each input with each target, a share of them for each process."""
        pairs = [(one, data) for one in TARGETS for data in self.pools.get(one.family, ())]
        first, count = int(self.number.split("-")[0]), int(os.environ.get("FUZZ_WORKERS", "1"))
        self.rng.shuffle(pairs)
        return pairs[first::count] if self.number.endswith("-0") else []

    def announce(self, target: Target, data: bytes) -> None:
        """Tell the process that watches this one what is under way, and that it has not hung."""
        self.executions += 1
        header = HEADER.pack(self.executions, TARGETS.index(target), len(data))
        os.pwrite(self.current, header + data, 0)

    def execute(self, target: Target, data: bytes) -> None:
        self.announce(target, data)
        self.coverage.reset()
        start, clock = time.process_time(), time.time()
        error: BaseException | None = None
        size = 0
        try:
            size = targets.execute(target, data)
        except (Exception, SystemExit) as raised:  # noqa: BLE001 - all of them are findings
            error = raised
        seconds = time.process_time() - start
        is_new = self.coverage.collect() > 0
        self.counts[target.name] += 1
        self.seconds[target.name] += max(seconds, time.time() - clock)
        if error is not None:
            self._note(target, data, error)
            error.__traceback__ = None
        if is_new | self._is_new_site(target) and seconds < MAX_KEPT_SECONDS:
            self.save(target.family, data)
        self._check_cost(target, data, limits.Cost(seconds, self._memory(), size))
        self._check_messages(target, data)
        if self.executions % 200 == 0:
            gc.collect()
            if time.time() > self.last_sync + SYNC_SECONDS:
                self.sync()

    def _is_new_site(self, target: Target) -> bool:
        """Errors that the library raises at a new place are new, too: they stand for Python code."""
        fresh = targets.sites - self.sites
        self.sites |= fresh
        targets.sites.clear()
        return bool(fresh)

    def _memory(self) -> int:
        if not self.first_memory:
            return 0
        grown = limits.peak() - self.first_memory
        if grown > limits.MAX_MEMORY:
            limits.forget_peak()
            self.first_memory = max(self.first_memory, limits.present())
        return grown

    # ---- findings

    def _note(self, target: Target, data: bytes, error: BaseException) -> None:
        what = findings.signature(target, error)
        self.finds[what] += 1
        if self.findings.is_known(what):
            return
        detail = "".join(traceback.format_exception(error))
        self.findings.add(what, target, data, detail)
        end = time.time() + MINIMISING_SECONDS

        def repeats(smaller: bytes) -> bool:
            if time.time() > end:
                return False
            self.announce(target, smaller)
            try:
                targets.execute(target, smaller)
            except (Exception, SystemExit) as raised:  # noqa: BLE001
                return findings.signature(target, raised) == what
            return False

        small = findings.minimised(data, target.family, repeats)
        self.findings.add(what, target, small, detail)

    def _check_cost(self, target: Target, data: bytes, cost: limits.Cost) -> None:
        kind = cost.excess(SLOWDOWN if self.coverage.is_on else 1.0)
        if not kind:
            return
        what = f"{target.name}: {targets.current_step()}: {kind}"
        self.suspicions[what] += 1
        if self.findings.is_known(what) or self.suspicions[what] > MAX_SUSPICIONS:
            return
        self.announce(target, data)
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            real = limits.confirm(target.name, Path(file.name))
        if excess := real.excess():
            detail = f"{excess}: {real}\nwith sanitizers: {cost}"
            self.finds[what] += 1
            self.findings.add(what, target, data, detail)

    def _check_messages(self, target: Target, data: bytes) -> None:
        """Look for messages of the sanitizers, and for errors that were only printed."""
        for text in self.unraisable:
            what = f"{target.name}: an error was ignored: {findings.generic(text)}"
            self.finds[what] += 1
            if not self.findings.is_known(what):
                self.findings.add(what, target, data, text)
        self.unraisable.clear()
        size = os.fstat(2).st_size
        if size <= self.errors_read:
            return
        log = self.state / f"worker-{self.number}.log"
        text = log.read_bytes()[self.errors_read : size].decode(errors="replace")
        self.errors_read = size
        for place, message in re.findall(
            r"^.*?(\w+\.pyx:\d+):\d+: runtime error: (.*)$", text, re.MULTILINE
        ):
            if HARMLESS not in message:
                what = f"undefined behaviour in {place}: {findings.generic(message)}"
                self.finds[what] += 1
                if not self.findings.is_known(what):
                    self.findings.add(what, target, data, text)

    # ---- what others see

    def sync(self) -> None:
        """Write the figures, and load what other processes have found."""
        self.last_sync = time.time()
        figures = {
            "executions": dict(self.counts),
            "seconds": dict(self.seconds),
            "findings": dict(self.finds),
            "suspicions": dict(self.suspicions),
            "inputs": {family: len(pool) for family, pool in self.pools.items()},
            "deaths": targets.their_deaths,
            "elapsed": time.time() - self.started,
            "memory": limits.present() - self.first_memory if self.first_memory else 0,
        }
        (self.state / f"figures-{self.number}.json").write_text(json.dumps(figures))
        (self.state / f"seen-{self.number}.bin").write_bytes(pickle.dumps(self.coverage.seen()))
        self._load(self.found)


def main() -> None:
    number, seconds, seed, directory = sys.argv[1:]
    faulthandler.register(signal.SIGUSR1)
    worker = Worker(number, int(seed), Path(directory))
    sys.unraisablehook = lambda args: worker.unraisable.append(
        f"{args.object!r}: {args.exc_value!r}"
    )
    for path in worker.state.glob("seen-*.bin"):
        worker.coverage.merge(pickle.loads(path.read_bytes()))
    worker.load()
    try:
        worker.run(float(seconds))
    finally:
        targets.close()
    (worker.state / "places.bin").write_bytes(pickle.dumps(worker.coverage.places()))


if __name__ == "__main__":
    main()
