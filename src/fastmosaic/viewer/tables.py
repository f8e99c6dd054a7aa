"""What the paths on the command line stand for: tables, by number and version."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from ..convert.find import find
from ..convert.inputs import Input, open_input
from ..errors import printable
from ..storage.secrets import redacted
from ..table.store import TableStore
from .cells import CellCache
from .columns import ColumnIndex
from .errors import RequestError, StoppedError
from .sizes import ColumnSizes

_MAX_VERSIONS: Final = 1000  # of a table that the page lists
_FIRST_COLUMNS: Final = 24
_FIRST_ROWS: Final = 60
_MAX_OPEN: Final = 4  # versions of a table that are kept open
_MAX_FILTERS: Final = 8  # filters whose row numbers are kept
MAX_MATCHES: Final = 10_000_000  # row numbers that are kept of a filter; the page shows no others


@dataclass(slots=True)
class FilterMatches:
    """The numbers of the rows that match a filter.

    found        how many there are
    kept         how many of them are in `numbers`, the first ones
    """

    numbers: list[pa.Array] = field(default_factory=list)
    found: int = 0
    kept: int = 0
    is_complete: bool = False

    def add(self, numbers: pa.Array) -> None:
        """Add the numbers of further rows, as long as there are not too many."""
        self.found += len(numbers)
        if self.kept < MAX_MATCHES:
            self.numbers.append(numbers.slice(0, MAX_MATCHES - self.kept))
            self.kept += len(self.numbers[-1])

    def slice(self, start: int, stop: int) -> list[int]:
        """Return the row numbers of matches by their place among all matches."""
        if len(self.numbers) > 1:
            self.numbers = [pa.concat_arrays(self.numbers)]
        return self.numbers[0].slice(start, stop - start).to_pylist() if self.numbers else []


class ViewedTable:
    """A table that is shown: files of one format, or one version of a Mosaic table."""

    def __init__(
        self, path: str, version: int | None, follow_links: bool, stop: threading.Event
    ) -> None:
        self._stop = stop
        self.input: Input = open_input([path], version=version, follow_links=follow_links)
        self.schema = self.input.schema
        self.num_rows = self.input.count()
        entry = self.input.files[0].entry if self.input.files else None
        self.version = None if entry is None else entry.snapshot.version.number
        self.sizes = ColumnSizes(self.input, self._go_on)
        self.columns = ColumnIndex(self.schema, self.sizes)
        self.cells = CellCache(self)
        self._filters: dict[str, FilterMatches] = {}

    def _go_on(self) -> None:
        if self._stop.is_set():
            raise StoppedError

    def find_matches(self, where: str) -> Iterator[tuple[float, FilterMatches]]:
        """Find the rows that match a condition; yield the share that is done, and what was found.

        A search that was stopped leaves nothing behind.
        """
        known = self._filters.get(where)
        if known is None:
            matches = FilterMatches()
            for done, numbers in self.input.matching(where):
                self._go_on()
                matches.add(numbers)
                yield done / max(1, self.num_rows), matches
            matches.is_complete = True
            while len(self._filters) >= _MAX_FILTERS:
                self._filters.pop(next(iter(self._filters)), None)
            self._filters[where] = known = matches
        yield 1.0, known

    def matches(self, where: str) -> FilterMatches:
        """Return the rows that match a condition."""
        if where not in self._filters:
            for _ in self.find_matches(where):
                pass
        return self._filters[where]

    def row_numbers(self, start: int, stop: int, where: str) -> Sequence[int]:
        """Return the numbers of the rows that are shown at places from `start` to `stop`."""
        if where:
            return self.matches(where).slice(start, stop)
        return range(min(start, self.num_rows), min(stop, self.num_rows))

    def to_dict(self) -> dict[str, Any]:
        """Return what the page shows about the table as a whole."""
        return {
            "format": self.input.format,
            "rows": self.num_rows,
            "columns": len(self.schema),
            "bytes": self.input.num_bytes,
            "files": len(self.input.files),
            "version": self.version,
            "has_sizes": self.sizes.are_available,
            "has_nulls": self.columns.has_nulls,
        }


class ViewedPath:
    """A path on the command line. It is opened by the first request."""

    def __init__(
        self, path: str, stop: threading.Event, follow_links: bool, version: int | None
    ) -> None:
        self._stop = stop
        self.path = path
        self.name = printable(redacted(path))
        self._follow_links = follow_links
        self._version = version
        self._open: dict[int | None, ViewedTable] = {}
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise if there are no such files; whether they are damaged is not checked."""
        found = find([self.path], follow_links=self._follow_links, version=self._version)
        if found.spool is not None:
            raise ValueError("the viewer requires files; save the content of the pipe first")

    def at(self, version: int | None) -> ViewedTable:
        """Return the table at a version, or at the newest one when it was opened first."""
        version = self._version if version is None else version
        with self._lock:
            if version not in self._open:
                made = ViewedTable(self.path, version, self._follow_links, self._stop)
                while len(self._open) >= _MAX_OPEN:
                    self._open.pop(next(iter(self._open)))
                self._open[version] = made
            return self._open[version]

    def versions(self) -> list[dict[str, Any]]:
        """Return the versions of a table, newest first; no versions for anything else."""
        if self.at(None).version is None:
            return []
        store = TableStore.of(self.path, None, False)
        found = []
        for number in sorted(store.versions(), reverse=True)[:_MAX_VERSIONS]:
            try:
                version = store.read(number)
            except FileNotFoundError:
                continue  # vacuum has removed it meanwhile
            found.append(
                {
                    "version": number,
                    "time": version.time.isoformat(timespec="seconds"),
                    "operation": printable(version.operation),
                    "rows": version.num_rows,
                }
            )
        return found


class ViewedPaths:
    """The paths on the command line; a client knows them by number only."""

    def __init__(
        self, paths: Sequence[str], *, follow_links: bool = False, version: int | None = None
    ) -> None:
        self._stop = threading.Event()
        self.paths = [ViewedPath(path, self._stop, follow_links, version) for path in paths]

    def stop(self) -> None:
        """Let work that other threads do end after its current step."""
        self._stop.set()

    def prepare(self) -> None:
        """Open the first path, for the page that is about to ask for it, which shows any error.

        The first cells are read, too: what a first read of a file needs takes longest.
        """
        import pyarrow.compute  # noqa: F401  # takes longer to import than a request should take

        with suppress(Exception):
            table = self.paths[0].at(None)
            table.cells.read(table.columns.selected("")[:_FIRST_COLUMNS], 0, _FIRST_ROWS, "")

    def __getitem__(self, number: int) -> ViewedPath:
        if not 0 <= number < len(self.paths):
            raise RequestError(f"source {number} does not exist: there are {len(self.paths)}")
        return self.paths[number]
