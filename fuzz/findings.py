"""Findings: one for each place or message, with an input that repeats it."""

from __future__ import annotations

import contextlib
import hashlib
import re
import traceback
from collections.abc import Callable
from pathlib import Path

from . import model, tokens
from .targets import Target, Wrong, current_step


def signature(target: Target, error: BaseException) -> str:
    """Return what a finding is, without what differs between inputs."""
    if isinstance(error, Wrong):
        return f"{target.name}: {current_step()}: {generic(str(error))}"
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "/fastmosaic/" in f.filename] or frames[-1:]
    place = f"{Path(ours[-1].filename).name} {ours[-1].name}" if ours else ""
    return (
        f"{target.name}: {current_step()}: {type(error).__name__} in {place}: {generic(str(error))}"
    )


def generic(message: str) -> str:
    message = re.sub(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}", "…", message)
    return re.sub(r"-?\d[\d.e+]*", "N", message)[:110]


class Findings:
    """The findings in a directory; the first input of each is kept."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._known: set[str] = set()

    def path(self, what: str) -> Path:
        slug = re.sub(r"[^a-z0-9]+", "-", what.lower())[:60].strip("-")
        return self._directory / f"{slug}-{hashlib.sha256(what.encode()).hexdigest()[:8]}.bin"

    def is_known(self, what: str) -> bool:
        if what not in self._known and self.path(what).exists():
            self._known.add(what)
        return what in self._known

    def add(self, what: str, target: Target, data: bytes, detail: str) -> None:
        self._known.add(what)
        path = self.path(what)
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(
            f"{what}\ntarget: {target.name}\nfamily: {target.family}\n\n{detail}\n"
        )


def minimised(data: bytes, family: str, repeats: Callable[[bytes], bool]) -> bytes:
    """Return a smaller input that repeats a finding; `repeats` may end this by returning False."""
    if family == "seeds":
        return data
    if family == "files":
        data = _smaller_file(data, repeats)
    return _shorter(data, repeats) if family != "files" else data


def _shorter(data: bytes, repeats: Callable[[bytes], bool]) -> bytes:
    size = max(1, len(data) // 2)
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if repeats(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


def _smaller_file(data: bytes, repeats: Callable[[bytes], bool]) -> bytes:
    """Leave out row groups, buckets, the annex and tokens, as long as the finding repeats."""
    try:
        best = model.assemble(model.parse(data))
    except tokens.BROKEN:
        return _shorter(data, repeats)
    if not repeats(best):
        return data

    def attempt(change: Callable[[model.File], None]) -> bool:
        nonlocal best
        with contextlib.suppress(*tokens.BROKEN, IndexError):
            file = model.parse(best)
            change(file)
            made = model.assemble(file)
            if len(made) < len(best) and repeats(made):
                best = made
                return True
        return False

    attempt(lambda file: setattr(file, "annex", None) or setattr(file, "flags", file.flags & ~1))
    attempt(lambda file: setattr(file, "padding", b""))
    for number in reversed(range(len(model.parse(best).groups))):
        attempt(lambda file, number=number: file.groups.pop(number))
    for part in reversed(range(len(model.parse(best).parts()))):
        with contextlib.suppress(*tokens.BROKEN, IndexError):
            for at in reversed(range(len(model.parse(best).parts()[part]))):
                attempt(lambda file, part=part, at=at: file.parts()[part].pop(at))
    return best
