"""verify: check files for damage."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from ...dataset.discovery import discover
from ...dataset.found import Found
from ...errors import printable
from ...file.verify import VerifyReport, verify
from ...storage.secrets import redacted
from ..arguments import Commands, add_command, add_json, add_paths
from ..exit import ERROR, NO, OK, complain, message_of
from ..files import other_format
from ..output.console import Console

_MAX_SHOWN: Final = 10  # problems of a file: a damaged index may cause one for each column

_DESCRIPTION = """\
Check Mosaic files for damage: structure, checksums, values and statistics. Files are read and
decoded completely.

Exit status: 0 if all files are undamaged, 1 if a file is damaged, 2 if a file could not be checked.
"""

_EXAMPLES = ("verify sales.mosaic", "verify -v --shallow warehouse 'archive/*.mosaic'")


@dataclass(frozen=True, slots=True)
class _Result:
    """The report on a file, or the error that prevented one."""

    name: str
    report: VerifyReport | None = None
    error: str = ""

    @property
    def status(self) -> int:
        if self.report is None:
            return ERROR
        return OK if self.report.ok else NO

    def to_dict(self) -> dict[str, Any]:
        if self.report is None:
            return {"file": self.name, "ok": None, "error": self.error}
        return {"file": self.name, "ok": self.report.ok} | {
            key: value for key, value in asdict(self.report).items() if key != "file"
        }


def add(commands: Commands) -> None:
    """Register the `verify` command."""
    parser = add_command(commands, "verify", "check files for damage", _DESCRIPTION, _EXAMPLES)
    add_paths(parser)
    parser.add_argument(
        "--shallow", action="store_true", help="check the metadata only, not the data"
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="print all problems, what was checked, and what could not be checked",
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(arguments)
    places = list(_places(arguments.paths, arguments.follow_links))
    total = sum(_size(place) for place in places if isinstance(place, Found))
    results: list[_Result] = []
    with console.progress("verifying", total) as advance:
        for place in places:
            result = place if isinstance(place, _Result) else _check(place, arguments, advance)
            results.append(result)
            # On a terminal, the lines would end up inside of the progress bar.
            if not (console.is_json or console.is_terminal):
                _print(console, result, arguments.verbose)
    if console.is_json:
        console.document({"files": [result.to_dict() for result in results]})
    elif console.is_terminal:
        for result in results:
            _print(console, result, arguments.verbose)
    if len(results) > 1 and not console.is_json:
        console.line(_summary(results))
    return max(result.status for result in results)


def _places(paths: Sequence[str], follow_links: bool) -> Iterator[Found | _Result]:
    """Yield every file once, or the error if a path has none."""
    seen = set()
    for path in paths:
        try:
            for found in discover(path, partitioned=False, follow_links=follow_links):
                key = os.path.abspath(found.path) if found.filesystem is None else found.path
                if key in seen:
                    continue
                seen.add(key)
                problem = other_format(found)
                yield found if problem is None else _Result(found.name, error=problem)
        except (OSError, ValueError) as error:
            yield _Result(redacted(path), error=message_of(error))


def _size(found: Found) -> int:
    if found.size is None and found.filesystem is None and os.path.exists(found.path):
        return os.path.getsize(found.path)
    return found.size or 0


def _check(found: Found, arguments: argparse.Namespace, advance: Callable[[int], None]) -> _Result:
    try:
        report = verify(found.path, filesystem=found.filesystem, deep=not arguments.shallow)
    except OSError as error:
        return _Result(found.name, error=message_of(error))
    finally:
        advance(_size(found))
    return _Result(found.name, report)


def _print(console: Console, result: _Result, verbose: bool) -> None:
    report = result.report
    if report is None:
        # Most messages contain the name of the file.
        is_named = printable(result.name) in printable(result.error)
        complain(result.error if is_named else f"{result.name}: {result.error}")
        return
    count = len(report.problems)
    if report.ok:
        rows, size = console.cell(report.num_rows), console.size(report.num_bytes)
        unit = "" if console.is_terminal else " bytes"
        console.line(f"{result.name}: ok, {rows} rows, {size}{unit}")
    else:
        console.line(f"{result.name}: damaged, {count} problem{'s' if count > 1 else ''}")
    for problem in report.problems if verbose else report.problems[:_MAX_SHOWN]:
        console.line(f"  {problem}")
    if count > _MAX_SHOWN and not verbose:
        console.line(f"  and {console.cell(count - _MAX_SHOWN)} more; use -v to print all")
    if verbose:
        for text in report.checked:
            console.line(f"  checked: {text}")
        for text in report.unverified:
            console.line(f"  not checked: {text}")


def _summary(results: Sequence[_Result]) -> str:
    statuses = [result.status for result in results]
    counts = (
        (statuses.count(OK), "ok"),
        (statuses.count(NO), "damaged"),
        (statuses.count(ERROR), "not checked"),
    )
    told = ", ".join(f"{count} {what}" for count, what in counts if count)
    return f"{len(results)} files: {told}"
