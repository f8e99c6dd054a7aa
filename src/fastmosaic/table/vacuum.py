"""Remove old versions, and files that no version names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ..dataset.snapshot import Snapshot
from ..dataset.version import CREATING, VERSIONS, Version, is_name_of_file, version_name
from ..errors import ConflictError
from ..storage.debris import MAX_JOB_AGE, Debris, find_debris, job_of_staging
from ..storage.listing import join
from ..storage.location import as_arrow
from ..storage.replace import remove_empty
from ..storage.retry import insist
from ..threads import REMOTE_THREADS, map_in_order
from .changes import State, Vacuum
from .commit import commit
from .store import TableStore, job_of

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


class _Unnamed(NamedTuple):
    """A file that no version names."""

    path: str  # relative to the table
    size: int


def vacuum(
    store: TableStore,
    older_than: timedelta | float,
    keep_versions: int,
    dry_run: bool,
    remove: Callable[[TableStore, Sequence[str]], None] | None = None,
) -> tuple[Snapshot, VacuumReport]:
    """Remove versions and files that are older than `older_than`; return the table as it is then.

    `remove` removes files by their paths, and may do so in other processes.

    Others may write at the same time. Nobody can read a version that was removed, to return to it.
    Whoever has read it before finds that a version was committed meanwhile, which marks the removal.
    So whatever names files of removed versions comes before that mark, and is seen here.
    """
    age = older_than if isinstance(older_than, timedelta) else timedelta(seconds=older_than)
    if age < timedelta(0):
        raise ValueError("older_than must not be negative")
    if keep_versions < 1:
        raise ValueError(f"keep_versions must be at least 1, not {keep_versions}")
    limit = datetime.now(UTC) - age
    known: dict[int, Version] = {}
    old = _old(_versions(store, known), limit, keep_versions)
    candidates = _files_before(store, limit)
    # A job that ends before this has committed its files, which is seen below.
    debris, jobs = _debris(store, age)
    candidates = [one for one in candidates if job_of(one.path) not in jobs]
    if not dry_run:
        for number in old:
            store.remove(version_name(number))
    while True:
        kept = [version for version in _versions(store, known) if version.number not in old]
        named = set[str]().union(*(version.paths for version in kept))
        unused = [one for one in candidates if one.path not in named]
        snapshot = store.at(kept[-1])
        if dry_run or not (old or unused):
            break
        try:
            snapshot, _ = commit(store, Vacuum({"versions": len(old)}), State(snapshot))
        except ConflictError:
            continue  # a version of another writer may name some of the files
        break
    if not dry_run:
        _remove_files(store, [one.path for one in unused], limit, remove or remove_files)
        _remove_debris(store, debris)
    unused += [_Unnamed(_relative(store, one.path), one.num_bytes) for one in debris]
    return snapshot, VacuumReport(
        snapshot.version.number,
        tuple(old),
        tuple(one.path for one in unused),
        sum(one.size for one in unused),
    )


# ---- versions


def _versions(store: TableStore, known: dict[int, Version]) -> list[Version]:
    """Return all versions, ascending; read those that are not `known`."""
    while True:
        numbers = store.versions()
        for number in numbers:
            if number not in known:
                with suppress(FileNotFoundError):  # another vacuum has removed it
                    known[number] = store.read(number)
        if found := [known[number] for number in numbers if number in known]:
            return found
        store.snapshot()  # which raises if there is no table any more


def _old(versions: Sequence[Version], limit: datetime, keep_versions: int) -> list[int]:
    """Return the versions to remove: never the newest `keep_versions`.

    A version is as old as its successor. Until then it was the newest one, which readers have opened,
    and which writers have prepared their changes for.
    """
    replaced = [one.number for one, later in pairwise(versions) if later.time <= limit]
    kept = {one.number for one in versions[-keep_versions:]}
    return [number for number in replaced if number not in kept]


# ---- files


def _files_before(store: TableStore, limit: datetime, folder: str = "") -> list[_Unnamed]:
    """Return files that a version might name, and that were written before `limit`."""
    from pyarrow.fs import FileSelector

    storage = as_arrow(store.filesystem)
    selector = FileSelector(join(store.path, folder), allow_not_found=True, recursive=True)
    infos: list[Any] = insist(store.name, lambda: storage.get_file_info(selector))
    every = ((_relative(store, info.path), info) for info in infos if info.is_file)
    return [
        _Unnamed(path, info.size)
        for path, info in every
        if is_name_of_file(path) or path == f"{VERSIONS}/{CREATING}"
        # Some filesystems do not tell the time.
        if info.mtime is not None and info.mtime <= limit
    ]


def _remove_files(
    store: TableStore,
    paths: Sequence[str],
    limit: datetime,
    remove: Callable[[TableStore, Sequence[str]], None],
) -> None:
    """Remove files, and directories of base files that are empty then."""
    files = [path for path in paths if not path.startswith(f"{VERSIONS}/")]
    remove(store, files)
    # Columns have their name from their content. A writer may just have written the same ones.
    still = {one.path for one in _files_before(store, limit, VERSIONS)}
    remove_files(store, [path for path in paths if path in still])
    if store.filesystem is None:
        for folder in {path.rpartition("/")[0] for path in files}:
            parts = folder.split("/")
            above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
            remove_empty([join(store.path, one) for one in above if one])


def remove_files(store: TableStore, paths: Sequence[str]) -> None:
    """Remove files by their paths, relative to the table."""
    remote = store.filesystem is not None
    for _ in map_in_order(store.remove, paths, remote, purpose="files", threads=REMOTE_THREADS):
        pass


def _debris(store: TableStore, older_than: timedelta) -> tuple[list[Debris], set[str | None]]:
    """Return what writers that were killed have left, and the numbers of jobs that may go on.

    What they have left are not the files that they have completed. Those of a job have its number in
    their names.
    """
    age = older_than.total_seconds()
    found = insist(store.name, lambda: find_debris(store.filesystem, store.path))
    dead = [one for one in found if one.is_dead(age, max(age, MAX_JOB_AGE))]
    jobs = {job_of_staging(one.path) for one in found if one not in dead}
    return dead, jobs - {None}


def _remove_debris(store: TableStore, debris: Iterable[Debris]) -> None:
    for one in debris:
        with suppress(FileNotFoundError):  # the next writer has removed it
            insist(store.name, partial(one.remove, store.filesystem))


def _relative(store: TableStore, path: str) -> str:
    return path.removeprefix(store.path).lstrip("/")
