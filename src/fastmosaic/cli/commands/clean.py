"""clean: remove what writers that were killed have left behind."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from ...storage.debris import Debris, debris_of
from ...storage.listing import join
from ...storage.location import locate
from ..arguments import Commands, add_command, add_json, duration
from ..exit import ERROR, OK, complain, message_of
from ..output.console import Console

_DESCRIPTION: Final = """\
Remove temporary files and staging directories of writers that were killed.

On a local disk, a writer locks its temporary file or staging directory. Without the lock, it is
removed, however new it is; with the lock, it is never removed. Where locks cannot tell (network
filesystems, object stores, jobs of Spark), it is removed if nothing was written to it for as long
as --older-than says. A staging directory whose commit was interrupted stays: start the stream or the
job again. Directories are searched recursively; links are not followed. Other files are never removed.
"""
_EXAMPLES: Final = ("clean warehouse", "clean --dry-run --older-than 6h s3://bucket/warehouse")

_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """What became of something that a writer has left behind."""

    path: str
    debris: Debris
    state: str  # a key of _STATES
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        seconds = self.debris.modified
        modified = None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
        facts = {
            "path": self.path,
            "kind": self.debris.what,
            "bytes": self.debris.num_bytes,
            "modified": modified,
            "state": self.state,
        }
        return {**facts, "error": self.error} if self.error else facts

    def describe(self, console: Console) -> str:
        size, unit = console.size(self.debris.num_bytes), "" if console.is_terminal else " bytes"
        return (
            f"{self.path}: {_STATES[self.state]}, {self.debris.what}, {size}{unit}, "
            f"{_age(console, self.debris)}"
        )


_STATES: Final = {
    "removed": "removed",
    "removable": "would be removed",
    "in use": "kept because a process is writing it",
    "recent": "kept because a process may be writing it",
    "interrupted": "kept because only its stream or job, started again, can complete its commit",
    "failed": "not removed",
}


def add(commands: Commands) -> None:
    """Register the `clean` command."""
    parser = add_command(
        commands, "clean", "remove what killed writers left behind", _DESCRIPTION, _EXAMPLES
    )
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="directories, files that were written, or URIs"
    )
    parser.add_argument(
        "--older-than",
        type=duration,
        default="1d",
        metavar="AGE",
        help="age, e.g. 90m, 12h or 7d, from which to remove what has no lock (default: 1d)",
    )
    parser.add_argument("--dry-run", action="store_true", help="print only, remove nothing")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    results: list[_Cleaned] = []
    for path in arguments.paths:
        for result in _clean(path, arguments.older_than, arguments.dry_run):
            results.append(result)
            if console.is_json:
                continue
            if result.state == "failed":
                complain(f"{result.path}: {result.error}")
            else:
                console.line(result.describe(console))
    states = [result.state for result in results]
    done = [one for one in results if one.state in ("removed", "removable")]
    num_bytes = sum(one.debris.num_bytes for one in done)
    if console.is_json:
        console.document(
            {
                "dry_run": arguments.dry_run,
                "removed": states.count("removed"),
                "bytes": num_bytes,
                "found": [result.to_dict() for result in results],
            }
        )
    else:
        verb = "would remove" if arguments.dry_run else "removed"
        unit = "" if console.is_terminal else " bytes"
        console.line(f"{verb} {console.count(len(done), 'item')}, {console.size(num_bytes)}{unit}")
    return ERROR if "failed" in states else OK


def _clean(given: str, max_age: float, dry_run: bool) -> Iterator[_Cleaned]:
    found = locate(given, None)
    assert found is not None  # it is text
    name, filesystem, path = found
    for one in debris_of(filesystem, path, name):
        shown = one.path
        if filesystem is not None:
            shown = join(name.partition("?")[0], one.path.removeprefix(path).lstrip("/"))
        if not one.is_dead(max_age):
            yield _Cleaned(shown, one, _reason(one))
        elif dry_run:
            yield _Cleaned(shown, one, "removable")
        else:
            try:
                state = "removed" if one.remove(filesystem) else "in use"
            except FileNotFoundError:  # its writer, or another process, was faster
                continue
            except OSError as error:
                yield _Cleaned(shown, one, "failed", message_of(error))
            else:
                yield _Cleaned(shown, one, state)


def _reason(kept: Debris) -> str:
    if kept.is_alive:
        return "in use"
    return "interrupted" if kept.is_interrupted else "recent"


def _age(console: Console, debris: Debris) -> str:
    if debris.modified is None:
        return "of unknown age"
    seconds = max(0, int(time.time() - debris.modified))
    unit = next((one for one, size in reversed(_SECONDS.items()) if seconds >= size), "second")
    return f"written {console.count(seconds // _SECONDS[unit], unit)} ago"
