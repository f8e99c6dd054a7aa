"""verify: check a table: its versions, and all files of one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from ..dataset.files import DEFAULTS, File
from ..dataset.found import Found
from ..dataset.snapshot import Snapshot, list_versions, read_version
from ..dataset.table_files import TableColumns, TableFile
from ..dataset.version import VERSIONS, BaseFile, schema_name, version_name
from ..errors import MosaicError
from ..file.opening import SchemaCache
from ..file.verify import VerifyReport, verify
from ..file.verify_bucket import Problem
from ..storage.listing import join
from ..storage.source import open_source


@dataclass(frozen=True, slots=True)
class TableReport:
    """The result of `MosaicTable.verify`: a report on each version, schema and file."""

    version: int
    files: tuple[VerifyReport, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return all(file.ok for file in self.files)

    @property
    def damaged(self) -> tuple[VerifyReport, ...]:
        """The reports on files with problems."""
        return tuple(file for file in self.files if not file.ok)

    def __str__(self) -> str:
        return "\n".join(map(str, self.damaged)) or f"version {self.version}: no problem"


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A check that is still to be done: of a version, of a schema, or of a file."""

    name: str
    num_bytes: int
    run: Callable[[], VerifyReport]


def is_table(name: str, filesystem: object, path: str) -> bool:
    """Return whether a directory is a table, even if its versions are damaged."""
    return bool(list_versions(name, filesystem, path))


def checks_of_versions(
    name: str, filesystem: object, path: str, *, deep: bool = True
) -> Iterator[FileCheck]:
    """Yield the checks of all versions of a table, the newest first, and of all of their files."""
    seen: set[str] = set()
    for number in reversed(list_versions(name, filesystem, path)):
        try:
            version = read_version(name, filesystem, path, number)
        except FileNotFoundError:
            continue  # vacuum has removed it meanwhile
        except MosaicError as error:
            yield _damaged(join(name, version_name(number)), error)
        else:
            yield from checks_of(Snapshot(name, filesystem, path, version), seen, deep=deep)


def checks_of(
    snapshot: Snapshot, seen: set[str] | None = None, *, deep: bool = True
) -> Iterator[FileCheck]:
    """Yield the checks of a version, and of all of its files that are not in `seen`, which grows."""
    known = set() if seen is None else seen
    version = snapshot.version
    yield FileCheck(
        join(snapshot.name, version_name(version.number)), 0, partial(_decoded, snapshot)
    )
    for path in sorted(version.paths - known):
        if path.startswith(f"{VERSIONS}/"):
            yield _SchemaCheck(snapshot, path).pending()
    columns = TableColumns(snapshot, SchemaCache(), DEFAULTS)
    for found in snapshot.found() if version.files else ():
        yield from _BaseCheck(found, columns, deep).pending(known)
    known |= version.paths


def _decoded(snapshot: Snapshot) -> VerifyReport:
    """Return the report on a version, which was decoded."""
    version = snapshot.version
    name, path = (join(one, version_name(version.number)) for one in (snapshot.name, snapshot.path))
    try:
        with open_source(path, snapshot.filesystem) as source:
            size = source.size
    except FileNotFoundError:
        return _missing(name)
    checked = f"version: {len(version.files)} files inside of the table, each once"
    return VerifyReport(name, size, version.num_rows, 0, (), (checked,), ())


def _damaged(name: str, error: MosaicError) -> FileCheck:
    report = VerifyReport(name, 0, 0, 0, (Problem.of(error),), (), ())
    return FileCheck(name, 0, lambda: report)


@dataclass(frozen=True, slots=True)
class _SchemaCheck:
    """The check of the file that has the columns of other files."""

    snapshot: Snapshot
    path: str

    def pending(self) -> FileCheck:
        return FileCheck(join(self.snapshot.name, self.path), 0, self._run)

    def _run(self) -> VerifyReport:
        found = self.snapshot.part(self.path, None)
        try:
            report = verify(found.path, filesystem=found.filesystem)
            with open_source(found.path, found.filesystem) as source:
                data = source.read_at(0, source.size)
        except FileNotFoundError:
            return _missing(found.name)
        problems: list[Problem] = []
        digest = hashlib.blake2b(data, digest_size=16, usedforsecurity=False).hexdigest()
        if self.path != schema_name(digest):
            problems.append(Problem(f"its content has the digest {digest}, which is not its name"))
        if report.num_rows:
            problems.append(Problem(f"it has {report.num_rows} rows, but a schema has none"))
        return _with(report, found.name, problems, "digest of the content")


@dataclass(frozen=True, slots=True)
class _BaseCheck:
    """The check of a base file and its column files."""

    found: Found
    columns: TableColumns
    deep: bool

    @property
    def snapshot(self) -> Snapshot:
        assert self.found.entry is not None
        return self.found.entry.snapshot

    @property
    def file(self) -> BaseFile:
        assert self.found.entry is not None
        return self.found.entry.file

    def pending(self, seen: set[str]) -> Iterator[FileCheck]:
        for number, part in enumerate(self.file.parts):
            if part.path not in seen:
                name = join(self.snapshot.name, part.path)
                yield FileCheck(name, part.size, partial(self._run, number))

    def _run(self, number: int) -> VerifyReport:
        part = self.file.parts[number]
        found = self.snapshot.part(part.path, part.size)
        try:
            report = verify(found.path, filesystem=found.filesystem, deep=self.deep)
        except FileNotFoundError:
            return _missing(found.name)
        problems = list(self._problems(number))
        what = "size, rows and columns of the version"
        if number:
            what += ", base file and row groups"
        elif self.file.digest is not None:
            what += ", digest"
        return _with(report, found.name, problems, what)

    def _problems(self, number: int) -> Iterator[Problem]:
        """Yield what is wrong with a file as a part of the table."""
        name = join(self.snapshot.name, self.file.parts[number].path)
        try:
            one = self._table_file().parts[number]
            _ = one.metadata
        except FileNotFoundError:
            return  # a schema, which is reported by its own check
        except MosaicError as error:
            if error.file == name:  # otherwise it is damage of a schema
                yield Problem.of(error)
            return
        if number:
            yield from self._alignment(one)

    def _table_file(self) -> TableFile:
        # A new one each time: it keeps the metadata that it has read.
        return TableFile(self.found, (), self.columns.schemas, DEFAULTS, self.columns)

    def _alignment(self, one: File) -> Iterator[Problem]:
        try:
            edges = self._table_file().parts[0].metadata.row_edges
        except (MosaicError, OSError):
            return  # reported by the check of the base file
        if one.metadata.row_edges != edges:
            yield Problem(f"its row groups are not those of {self.file.path}")


def _missing(name: str) -> VerifyReport:
    return VerifyReport(name, 0, 0, 0, (Problem("the file is missing"),), (), ())


def _with(
    report: VerifyReport, name: str, problems: Iterable[Problem], checked: str
) -> VerifyReport:
    """Return a report with further problems, each once."""
    known = {problem.message for problem in report.problems}
    new = tuple(problem for problem in problems if problem.message not in known)
    return replace(
        report,
        file=name,
        problems=(*report.problems, *new),
        checked=(*report.checked, checked),
    )
