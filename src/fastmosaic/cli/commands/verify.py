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
from ...storage.location import is_web, locate
from ...storage.secrets import redacted
from ...table.verify import FileCheck, checks_of_versions, is_table
from ..arguments import Commands, add_command, add_json, add_paths
from ..exit import ERROR, NO, OK, complain, message_of
from ..files import other_format
from ..output.console import Console

_MAX_SHOWN: Final = 10  # problems of a file: a damaged index may cause one for each column

_DESCRIPTION = """\
Check Mosaic files for damage: structure, checksums, values and statistics. Files are read and
decoded completely. Of a table, all versions are checked, all files that they name, and that these
are the files that they mean.

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
    places = list(_places(arguments))
    total = sum(place.num_bytes for place in places if isinstance(place, FileCheck))
    results: list[_Result] = []
    with console.progress("verifying", total) as advance:
        for place in places:
            result = place if isinstance(place, _Result) else _check(place, advance)
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


def _places(arguments: argparse.Namespace) -> Iterator[FileCheck | _Result]:
    """Yield the check of every file once, or the error if a path has none."""
    seen = set()
    deep = not arguments.shallow
    for path in arguments.paths:
        try:
            for place, check in _found(path, arguments.follow_links, deep):
                if place in seen:
                    continue
                seen.add(place)
                yield check
        except (OSError, ValueError) as error:
            yield _Result(redacted(path), error=message_of(error))


def _found(path: str, follow_links: bool, deep: bool) -> Iterator[tuple[str, FileCheck | _Result]]:
    """Yield the files that a path stands for; of a table, also those that are not base files."""
    located = locate(path, None)
    assert located is not None  # it is text
    if not is_web(located[1]) and is_table(*located):
        for check in checks_of_versions(*located, deep=deep):
            yield _place(check.name, located[1]), check
        return
    for found in discover(path, partitioned=False, follow_links=follow_links):
        problem = other_format(found)
        yield (
            _place(found.path, found.filesystem),
            _check_of(found, deep) if problem is None else _Result(found.name, error=problem),
        )


def _place(path: str, filesystem: Any) -> str:
    return os.path.abspath(path) if filesystem is None else path


def _check_of(found: Found, deep: bool) -> FileCheck:
    size = found.size
    if size is None and found.filesystem is None and os.path.exists(found.path):
        size = os.path.getsize(found.path)

    def run() -> VerifyReport:
        return verify(found.path, filesystem=found.filesystem, deep=deep)

    return FileCheck(found.name, size or 0, run)


def _check(check: FileCheck, advance: Callable[[int], None]) -> _Result:
    try:
        report = check.run()
    except OSError as error:
        return _Result(check.name, error=message_of(error))
    finally:
        advance(check.num_bytes)
    return _Result(check.name, report)


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
