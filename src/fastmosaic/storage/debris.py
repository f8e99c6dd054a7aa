"""Debris: what writers that were killed have left behind, known by its name, a lock and its age.

A writer locks its temporary files and staging directories where locks are reliable, on local disks.
The system releases the lock when the process ends, however it ends: then what has the name of a
locked file, but no lock, is debris at once. Where there are no such locks (network filesystems,
object stores) and for jobs of many processes, it is debris when nothing was written for a while.

temporary_name, staging_name          names of what is removed at the end
Spool, spool                          temporary files that are removed when they are closed
Lock, is_lockable                     locks that end with the process
MOVING                                marks a commit that has begun, which is never debris
find_debris, debris_of, Debris        what others have left behind, and its removal
sweep                                 the removal by the next writer to the same place
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from .listing import files_below, join
from .location import as_arrow, is_fsspec, os_error

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Windows
    fcntl = None  # type: ignore[assignment]

# Without a lock, seconds since the last write after which the next writer removes it. Jobs may
# compute for long before they write, and some of them can be resumed.
MAX_AGE: Final = 24 * 3600
MAX_JOB_AGE: Final = 7 * MAX_AGE

# Filesystems whose locks all processes see that can see the files.
_LOCKABLE: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"}
)
_MAX_BASE: Final = 40  # characters of a name that a temporary name contains
# A directory with this many entries is listed for every second file that is written to it.
_ENTRIES_PER_SKIP: Final = 100

_STARTS: Final = (".", "_", "fastmosaic-")
_LOCKED: Final = "write-"  # begins the identity of a staging that is locked
_IDENTITY: Final = (
    r"(?:(?:(?:write|job)-)?[0-9a-f]{32}|(?:convert|compact|concat|columns|delete|fold)-[0-9a-f]{16}"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
)
_JOB: Final = re.compile(r"[a-z]+-([0-9a-f]{16})")
_TEMPORARY: Final = re.compile(r"\..*\.[0-9a-f]{16}\.fastmosaic-(tmp|locked)", re.DOTALL)
_SPOOL: Final = re.compile(r"fastmosaic-(tmp|locked)-[a-z0-9_]{8}(?:-.*)?", re.DOTALL)
_INSIDE: Final = re.compile(rf"_staging-(?P<identity>{_IDENTITY})(?:\.ending)?")
_BESIDE: Final = re.compile(
    rf"\.(?P<base>.*)\.(?P<identity>{_IDENTITY})\.fastmosaic-staging(?:\.ending)?(?P<old>\.old)?",
    re.DOTALL,
)
_MARK: Final = re.compile(r"_(part-[0-9]{20}-[0-9a-f]{32})")
# In a staging directory, the list of the files that a commit moves out of it. Some may have appeared, and
# only the writer that continues can complete the commit, or take them back.
MOVING: Final = "_moving"


# ---- names


def temporary_name(base: str, *, is_locked: bool) -> str:
    """Return a new name for a file on its way to the name `base`."""
    kind = "locked" if is_locked else "tmp"
    return f".{base[:_MAX_BASE]}.{os.urandom(8).hex()}.fastmosaic-{kind}"


def new_identity(*, is_locked: bool) -> str:
    """Return a new identity for `staging_name`."""
    return f"{_LOCKED if is_locked else 'job-'}{os.urandom(16).hex()}"


def staging_name(identity: str) -> str:
    """Return the name of a staging directory inside of the directory that is written."""
    return f"_staging-{identity}"


def staging_path_beside(path: str, identity: str) -> str:
    """Return the path of a staging directory next to the directory that is written."""
    parent, base = os.path.split(path)
    return os.path.join(parent, f".{base[:_MAX_BASE]}.{identity}.fastmosaic-staging")


def stagings_of(path: str, verb: str) -> list[str]:
    """Return the staging directories of jobs `verb`, such as "convert", for a local directory."""
    parent, base = os.path.split(path)
    inside = [name for name in os.listdir(path) if _is_of(_INSIDE, name, verb)]
    start = f".{base[:_MAX_BASE]}."
    beside = [
        name
        for name in os.listdir(parent)
        if name.startswith(start) and _is_of(_BESIDE, name, verb)
    ]
    return [f"{path}/{name}" for name in inside] + [f"{parent}/{name}" for name in beside]


def job_of_staging(path: str) -> str | None:
    """Return the number in the name of a staging directory inside of a directory, if it is a job's."""
    found = _INSIDE.fullmatch(path.rpartition("/")[2])
    job = None if found is None else _JOB.fullmatch(found["identity"])
    return None if job is None else job[1]


def _is_of(pattern: re.Pattern[str], name: str, verb: str) -> bool:
    found = pattern.fullmatch(name)
    return found is not None and found["identity"].startswith(f"{verb}-")


def is_debris_name(name: str) -> bool:
    """Return whether a name is one of a temporary file or a staging directory."""
    if not name.startswith(_STARTS):
        return False
    patterns = (_TEMPORARY, _INSIDE, _BESIDE, _SPOOL)
    return any(pattern.fullmatch(name) for pattern in patterns)


def unfinished_prefix(name: str) -> str | None:
    """Return the prefix of the files of a write without staging if `name` marks that it is not over."""
    found = _MARK.fullmatch(name) if name.startswith("_part-") else None
    return None if found is None else found[1]


def _is_known(name: str) -> bool:
    return is_debris_name(name) or unfinished_prefix(name) is not None


# ---- locks


class Lock:
    """An exclusive lock on a local file or directory, until it is released or the process ends.

    In another process, a copy of it is not a lock.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: int | None = None) -> None:
        self._handle = handle

    @classmethod
    def of(cls, path: str) -> Lock | None:
        """Lock a file or directory that this process has made; None if it was removed."""
        lock = cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        assert lock._handle is not None
        if keeps(path, lock._handle):
            return lock
        lock.release()
        return None

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def __del__(self) -> None:
        self.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()


def keeps(path: str, handle: int) -> bool:
    """Lock an open file; return False if someone took it for debris before, and removed it."""
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def is_lockable(directory: str) -> bool:
    """Return whether the locks of files in a local directory are reliable."""
    if fcntl is None:
        return False
    try:
        device = os.stat(directory).st_dev
        if device not in _lockable_devices:
            _lockable_devices[device] = _filesystem_of(directory) in _LOCKABLE
        return _lockable_devices[device]
    except OSError:
        return False


_lockable_devices: dict[int, bool] = {}


def _filesystem_of(directory: str) -> str:
    """Return the type of the filesystem that is mounted at a directory or above it."""
    directory = os.path.realpath(directory)
    best, kind = "", ""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            mount, _, rest = line.partition(" - ")
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), mount.split(" ")[4])
            is_above = directory == point or directory.startswith(point.rstrip("/") + "/")
            if is_above and len(point) >= len(best):
                best, kind = point, rest.split(" ")[0]
    return kind


@contextmanager
def _claimed(path: str) -> Iterator[bool]:
    """Lock a file or directory whose writer would have locked it; False if the writer lives."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


# ---- spools


class Spool:
    """A file in the system's directory for temporary files; closing it removes it.

    It is removed while it is locked: after that, another process may take it for debris.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.close = weakref.finalize(self, _remove_spool, file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def spool(suffix: str = "") -> Spool:
    """Open a temporary file for writing."""
    import tempfile  # imported on use, because it takes long

    directory = tempfile.gettempdir()
    sweep(None, directory)
    is_locked = is_lockable(directory)
    prefix = f"fastmosaic-{'locked' if is_locked else 'tmp'}-"
    while True:
        file = tempfile.NamedTemporaryFile(prefix=prefix, suffix=suffix, delete=False)  # noqa: SIM115
        if not is_locked or keeps(file.name, file.fileno()):
            return Spool(file)
        file.close()


def _remove_spool(file: Any) -> None:
    with suppress(FileNotFoundError):
        os.unlink(file.name)
    file.close()


# ---- what others have left behind


@dataclass(frozen=True, slots=True)
class Debris:
    """A temporary file, a staging directory, or the files of a write that did not end.

    is_alive        whether its writer holds the lock; None if a lock cannot tell
    modified        when something was written to it, in seconds since 1970; None if unknown
    is_interrupted  whether files of it have appeared, and its writer has yet to move the others
    """

    path: str
    what: str
    num_bytes: int
    modified: float | None
    is_alive: bool | None
    is_job: bool = False
    files: tuple[str, ...] = ()  # of an unfinished write, which `path` marks
    is_interrupted: bool = False

    def is_dead(self, max_age: float, max_job_age: float | None = None) -> bool:
        """Return whether no writer uses it any more, as far as a lock or its age tell."""
        if self.is_alive is not None:
            return not self.is_alive
        if self.is_interrupted:
            return False
        limit = max_age if max_job_age is None or not self.is_job else max_job_age
        return self.modified is not None and time.time() - self.modified >= limit

    def remove(self, filesystem: Any) -> bool:
        """Remove it; return False if a writer has locked it."""
        if self.is_alive is None:
            self._remove(filesystem)
            return True
        with _claimed(self.path) as is_claimed:
            if is_claimed:
                self._remove(filesystem)
            return is_claimed

    def _remove(self, filesystem: Any) -> None:
        is_directory = self.what == _STAGING
        if filesystem is None:
            for path in self.files:
                with suppress(FileNotFoundError):
                    os.unlink(path)
            if is_directory:
                import shutil  # it imports all of Python's compressors

                shutil.rmtree(self.path)
            else:
                os.unlink(self.path)
            return
        storage = as_arrow(filesystem)
        for path in self.files:  # before the mark, without which they would be data
            with suppress(FileNotFoundError):
                storage.delete_file(path)
        (storage.delete_dir if is_directory else storage.delete_file)(self.path)


_FILE: Final = "temporary file"
_STAGING: Final = "staging directory"
_UNFINISHED: Final = "unfinished write"


def find_debris(filesystem: Any, directory: str, *, recursive: bool = True) -> list[Debris]:
    """Return what may be debris in a directory, or also in those below it, sorted by path.

    Links are not followed. A directory that does not exist contains none.
    """
    if filesystem is None:
        found = _local(directory, recursive)
    else:
        found = _remote(filesystem, directory, recursive)
    return sorted(found, key=lambda one: one.path)


def debris_of(filesystem: Any, path: str, name: str) -> list[Debris]:
    """Return what may be debris of writers to a path: below it if it is a directory, and beside it.

    `name` is that of the path for messages.
    """
    if filesystem is not None:
        return find_debris(filesystem, path)
    parent, base = os.path.split(os.path.abspath(path))
    start = f".{base[:_MAX_BASE]}."
    beside = [
        one
        for one in find_debris(None, parent, recursive=False)
        if os.path.basename(one.path).startswith(start)
    ]
    if not beside and not os.path.lexists(path):
        raise os_error(errno.ENOENT, name)
    return [*beside, *find_debris(None, path)]


def sweep(filesystem: Any, directory: str, *, keep: str = "") -> None:
    """Remove the debris in a directory, except for `keep`, before something is written to it.

    This never fails. A large directory is not listed every time.
    """
    with suppress(Exception):  # libraries of filesystems raise their own
        if filesystem is None and not _is_due(directory):
            return
        for one in find_debris(filesystem, directory, recursive=False):
            if one.path != keep and one.is_dead(MAX_AGE, MAX_JOB_AGE):
                with suppress(Exception):
                    one.remove(filesystem)


_skips: dict[str, int] = {}  # how often to write to a directory before it is listed again


def _is_due(directory: str) -> bool:
    left = _skips.get(directory, 0)
    if left:
        _skips[directory] = left - 1
    return not left


def _local(directory: str, recursive: bool) -> Iterator[Debris]:
    pending = [directory]
    while pending:
        folder = pending.pop()
        try:
            names = os.listdir(folder or ".")
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not recursive:
            if len(_skips) > 1000:
                _skips.clear()
            _skips[directory] = len(names) // _ENTRIES_PER_SKIP
        for name in names:
            one = _local_debris(folder, name) if name.startswith(_STARTS) else None
            if one is not None:
                yield one
            elif recursive:
                path = os.path.join(folder, name)
                if os.path.isdir(path) and not os.path.islink(path):
                    pending.append(path)


def _local_debris(folder: str, name: str) -> Debris | None:
    path = os.path.join(folder, name)
    try:
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            if found := _TEMPORARY.fullmatch(name) or _SPOOL.fullmatch(name):
                is_alive = _is_alive(path, folder, is_locked=found[1] == "locked")
                return Debris(path, _FILE, status.st_size, status.st_mtime, is_alive)
            if found := _MARK.fullmatch(name):
                own = _own_files(folder, found[1])
                statuses = [os.stat(one) for one in own]
                return Debris(
                    path,
                    _UNFINISHED,
                    sum(one.st_size for one in statuses),
                    max(one.st_mtime for one in (status, *statuses)),
                    None,
                    True,
                    tuple(own),
                )
        elif stat.S_ISDIR(status.st_mode) and (identity := _identity(name, folder)):
            sizes = [os.lstat(one) for one in _below(path)]
            is_locked = identity.startswith(_LOCKED)
            return Debris(
                path,
                _STAGING,
                sum(one.st_size for one in sizes if stat.S_ISREG(one.st_mode)),
                max(one.st_mtime for one in (status, *sizes)),
                _is_alive(path, folder, is_locked=is_locked),
                not is_locked,
                is_interrupted=os.path.lexists(os.path.join(path, MOVING)),
            )
    except FileNotFoundError:  # its writer has just ended
        pass
    return None


def _identity(name: str, folder: str | None) -> str | None:
    """Return the identity in the name of a staging directory, or None if it is not one."""
    if inside := _INSIDE.fullmatch(name):
        return inside["identity"]
    if beside := _BESIDE.fullmatch(name):
        # Where directories cannot be exchanged, it is the only copy until the new one has its name.
        if beside["old"] and (
            len(beside["base"]) == _MAX_BASE  # the name of the directory may be longer
            or not os.path.isdir(os.path.join(folder or "", beside["base"]))
        ):
            return None
        return beside["identity"]
    return None


def _is_alive(path: str, folder: str, *, is_locked: bool) -> bool | None:
    if not is_locked or not is_lockable(folder):
        return None
    try:
        with _claimed(path) as is_claimed:
            return not is_claimed
    except PermissionError:
        return None


def _below(directory: str) -> Iterator[str]:
    for folder, folders, files in os.walk(directory):
        for name in (*folders, *files):
            yield os.path.join(folder, name)


def _own_files(folder: str, prefix: str) -> list[str]:
    """Return the files of a write, which have its prefix in their names, without its mark."""
    below = files_below(None, folder)
    own = [file for file in below if prefix in file.rpartition("/")[2]]
    return [join(folder, file) for file in own if file != f"_{prefix}"]


def _remote(filesystem: Any, directory: str, recursive: bool) -> Iterator[Debris]:
    """Yield what is in a remote directory; only if there is something, those below it are listed."""
    from pyarrow.fs import FileSelector, FileType

    if is_fsspec(filesystem):
        filesystem.invalidate_cache()
    storage = as_arrow(filesystem)

    def listed(recursive: bool) -> list[Any]:
        return list(storage.get_file_info(FileSelector(directory, True, recursive)))

    infos = listed(recursive)
    if not recursive and any(_is_known(info.base_name) for info in infos):
        infos = listed(True)
    base = f"{directory.rstrip('/')}/"
    stagings: dict[str, list[Any]] = {}
    for info in infos:
        names = info.path.removeprefix(base).rstrip("/").split("/")
        depth = next((at for at, name in enumerate(names) if _identity(name, None)), None)
        if depth is not None and (depth < len(names) - 1 or info.type == FileType.Directory):
            stagings.setdefault(base + "/".join(names[: depth + 1]), []).append(info)
        elif info.type == FileType.File and _TEMPORARY.fullmatch(names[-1]):
            yield Debris(info.path, _FILE, info.size or 0, _newest([info]), None)
        elif info.type == FileType.File and (found := _MARK.fullmatch(names[-1])):
            parent = info.path.rpartition("/")[0]
            own = [
                one
                for one in infos
                if one.type == FileType.File
                and one.path.startswith(f"{parent}/")
                and found[1] in one.base_name
                and one.path != info.path
            ]
            size = sum(one.size or 0 for one in own)
            paths = tuple(one.path for one in own)
            yield Debris(info.path, _UNFINISHED, size, _newest([info, *own]), None, True, paths)
    for path, own in stagings.items():
        size = sum(one.size or 0 for one in own if one.type == FileType.File)
        is_interrupted = any(one.path == f"{path}/{MOVING}" for one in own)
        yield Debris(path, _STAGING, size, _newest(own), None, True, is_interrupted=is_interrupted)


def _newest(infos: Iterable[Any]) -> float | None:
    """Return when the last of the files was written; None if the filesystem does not tell."""
    times = [info.mtime_ns for info in infos if info.mtime_ns]
    return max(times) / 1e9 if times else None
