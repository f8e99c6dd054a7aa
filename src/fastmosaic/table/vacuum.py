"""Remove old versions, and files that no version names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..dataset.snapshot import Snapshot
from ..dataset.version import VERSIONS, Version, version_name, version_number
from ..storage.debris import is_debris_name
from ..storage.location import as_arrow
from ..storage.retry import insist
from ..threads import REMOTE_THREADS, map_in_order
from .changes import State, Vacuum
from .commit import commit
from .store import TableStore

DEFAULT_AGE: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What `vacuum` has removed, or would remove."""

    version: int  # the newest one
    versions: tuple[int, ...]  # that were removed
    files: tuple[str, ...]  # that were removed, relative to the table
    num_bytes: int  # of these files

    def __repr__(self) -> str:
        return (
            f"<VacuumReport: {len(self.versions):,} versions and {len(self.files):,} files, "
            f"{self.num_bytes:,} bytes>"
        )


def vacuum(
    store: TableStore, older_than: timedelta, keep_versions: int, dry_run: bool
) -> tuple[Snapshot, VacuumReport]:
    """Remove versions and files that are older than `older_than`; return the table as it is then."""
    limit = datetime.now(UTC) - older_than
    read = State(store.snapshot())
    known = {number: _read(store, number) for number in store.versions()}
    old = _old(known, limit, keep_versions)
    snapshot = read.snapshot
    if old and not dry_run:
        # Whoever has read one of these to restore it finds that another version was committed.
        for number in old:
            store.remove(version_name(number))
        snapshot, _ = commit(store, Vacuum({"versions": len(old)}), read)
    kept = [
        _read(store, number)
        for number in store.versions()
        if number not in old or number == snapshot.version.number
    ]
    if any(version is None for version in kept):
        return vacuum(store, older_than, keep_versions, dry_run)  # another vacuum runs
    named = set().union(*(version.paths for version in kept if version is not None))
    unused = [
        (path, size)
        for path, size, changed in _files(store)
        if path not in named and changed <= limit
    ]
    if not dry_run:
        remote = store.filesystem is not None
        paths = [path for path, _ in unused]
        for _ in map_in_order(store.remove, paths, remote, purpose="files", threads=REMOTE_THREADS):
            pass
    return snapshot, VacuumReport(
        snapshot.version.number,
        tuple(old),
        tuple(path for path, _ in unused),
        sum(size for _, size in unused),
    )


def _read(store: TableStore, number: int) -> Version | None:
    try:
        return store.read(number)
    except FileNotFoundError:
        return None  # another vacuum has removed it


def _old(known: dict[int, Version | None], limit: datetime, keep_versions: int) -> list[int]:
    """Return the versions to remove: never the newest `keep_versions`."""
    candidates = sorted(known)[: -max(1, keep_versions)]
    return [
        number
        for number in candidates
        if (version := known[number]) is None or version.time <= limit
    ]


def _files(store: TableStore) -> Iterator[tuple[str, int, datetime]]:
    """Yield the path, size and time of last change of each file that a version might name."""
    from pyarrow.fs import FileSelector

    storage = as_arrow(store.filesystem)
    selector = FileSelector(store.path, recursive=True)
    infos: list[Any] = insist(store.name, lambda: storage.get_file_info(selector))
    for info in infos:
        if not info.is_file:
            continue
        path = info.path.removeprefix(store.path).lstrip("/")
        *folders, name = path.split("/")
        if any(map(is_debris_name, (*folders, name))):
            continue  # what killed writers left is known by its name, and its lock
        if folders == [VERSIONS] and version_number(name) is not None:
            continue
        if name.endswith(".mosaic"):
            yield path, info.size, info.mtime
