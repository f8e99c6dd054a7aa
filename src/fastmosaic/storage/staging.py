"""Files that are written aside and then appear in a directory together."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ..threads import REMOTE_THREADS, map_in_order
from .location import is_fsspec, is_hidden, kind_of, locate, os_error
from .sink import OBJECT_STORES

EXISTING: Final = ("error", "append", "overwrite")
SUFFIX: Final = ".mosaic"

# By pyarrow's type_name or fsspec's protocol. There a directory is but a part of a name.
_WITHOUT_DIRECTORIES: Final = OBJECT_STORES | {"gs"}
# What rename says of a directory that may not be replaced: it is another user's in a sticky one,
# in the lower layer of a container's file system, or something is mounted on it.
_NOT_REPLACEABLE: Final = frozenset({errno.EPERM, errno.EACCES, errno.EXDEV, errno.EBUSY})
_NOT_EXCHANGEABLE: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP})
_RENAME_EXCHANGE: Final = 2  # of linux/fs.h
_AT_FDCWD: Final = -100  # of fcntl.h
# The list of the files that are being moved, for whoever finds that it was interrupted.
_MOVING: Final = "_moving"


@dataclass(frozen=True)
class Staging:
    """Files on their way into a directory.

    They are written below `root`, by any process, and appear below `base_dir` with `commit`, or
    never, with `abandon`; one of the two ends it. It holds no open files and can be pickled, so
    that the process which ends it need not be the one that began it.

    A local directory that is new, or is overwritten, is replaced in one step, by renaming. Where
    that cannot be (files are added, the storage is remote, the directory is a mount point, or its
    parent may not be written) the files are moved into it one by one, and if one cannot be, those
    before it are taken back. Then a reader may see some of the new files before the others, and,
    if they overwrite, for a moment both the new and the old ones.
    """

    name: str  # of the directory as it was given, for messages
    base_dir: str  # in `filesystem`; what a link points to
    filesystem: Any  # of pyarrow or fsspec; None is the local one
    root: str
    existing: str
    replaces: bool  # whether `root` is to become `base_dir`, or its files go there
    made: tuple[str, ...]  # directories that were not there before
    suffix: str = SUFFIX  # of the files that may be overwritten
    resumable: bool = False  # whether another process may go on from what is below `root`
    prefix: str = "part"  # of the names of files that `write_dataset` makes

    @classmethod
    def begin(
        cls,
        base_dir: Any,
        filesystem: Any = None,
        existing: str = "error",
        *,
        suffix: str = SUFFIX,
        identity: str | None = None,
    ) -> Staging:
        """A place for files that are to appear in `base_dir`, which need not exist.

        If there are files, `existing` says what becomes of them: "error" raises FileExistsError,
        "append" keeps them, "overwrite" removes them in `commit`, but raises ValueError if one does
        not end in `suffix`. Names that begin with "." or "_" do not count.

        What an earlier process wrote with the same `identity`, and neither committed nor
        abandoned, is still below `root`.
        """
        check_existing(existing)
        found = locate(base_dir, filesystem)
        if found is None:
            raise TypeError(
                "a data set is written to a directory, by its path or URI, "
                f"not to an object of type {type(base_dir).__name__}"
            )
        name, place, path = found
        path = os.path.realpath(path) if place is None else path.rstrip("/")
        storage = storage_of(place)
        kind = storage.get_file_info(path).type.name
        if kind == "File":
            raise os_error(errno.ENOTDIR, name)
        resumable = identity is not None
        if identity is not None:
            _take_back(storage, path, f"{path}/_staging-{identity}")
        if kind == "Directory":
            _check(
                name, existing, files_below(storage, path) if existing != "append" else [], suffix
            )
        identity = identity or uuid.uuid4().hex
        inside = f"{path}/_staging-{identity}"
        made: tuple[str, ...]
        if place is not None:
            made = (path,) if kind == "NotFound" else ()
            return cls(name, path, place, inside, existing, False, made, suffix, resumable)
        if _is_replaceable(path, existing):
            parent, base = os.path.split(path)
            made = _make_directories(parent)
            beside = os.path.join(parent, f".{base[:50]}.{identity}")
            try:
                os.makedirs(beside, exist_ok=resumable)
            except OSError as error:
                if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
                    raise
            else:
                return cls(name, path, None, beside, existing, True, made, suffix, resumable)
        made = _make_directories(path)
        os.makedirs(inside, exist_ok=resumable)
        return cls(name, path, None, inside, existing, False, made, suffix, resumable)

    def path(self, file: str) -> str:
        """Where to write what is to appear as `file` in the directory; its own directory is made."""
        path = f"{self.root}/{file}"
        if self.filesystem is None:
            # Not `root`: once this was ended, nobody shall write there.
            for directory in _directories(file):
                with suppress(FileExistsError):
                    os.mkdir(f"{self.root}/{directory}")
        elif kind_of(self.filesystem) not in _WITHOUT_DIRECTORIES:
            storage_of(self.filesystem).create_dir(path.rpartition("/")[0], recursive=True)
        return path

    @property
    def _ending(self) -> str:
        """The name of `root` as this ends, by which nobody else writes."""
        return f"{self.root}.ending"

    def is_ended(self) -> bool:
        """Whether another process has ended this, as far as can be told."""
        return self.filesystem is None and not os.path.isdir(self.root)

    def commit(self, files: Iterable[str]) -> None:
        """Let `files`, and nothing else that is below `root`, appear in the directory.

        If that fails, the directory is as before. An interrupt may come too late to stop it: then
        all of the new files are there.
        """
        names = sorted(set(files))
        try:
            if not (self.replaces and self._replace(names)):
                self._move_in(names)
        except BaseException:
            self.abandon()
            raise
        self._remove_root()

    def abandon(self) -> None:
        """Leave the directory as it is, and nothing of what was written."""
        self._remove_root()
        if self.filesystem is None:
            _remove_empty(self.made)
            return
        storage = storage_of(self.filesystem)
        with suppress(OSError):
            for directory in self.made:
                found = storage.get_file_info(directory).type.name == "Directory"
                if found and not files_below(storage, directory):
                    storage.delete_dir(directory)

    def _remove_root(self) -> None:
        if self.filesystem is None:
            with suppress(OSError):
                # A process that still writes would add to it.
                os.rename(self.root, self._ending)
            _remove_tree(self._ending)
            _remove_tree(self.root)
        else:
            storage = storage_of(self.filesystem)
            with suppress(OSError):
                if storage.get_file_info(self.root).type.name != "NotFound":
                    storage.delete_dir(self.root)

    def _replace(self, files: Sequence[str]) -> bool:
        """Make `root` the directory, in one step; False if the system does not allow it."""
        if self.resumable:  # it may have to be found by its name
            return self._take_place(self.root, files)
        os.rename(self.root, self._ending)
        if self._take_place(self._ending, files):
            return True
        os.rename(self._ending, self.root)
        return False

    def _take_place(self, root: str, files: Sequence[str]) -> bool:
        _keep_only(root, files)
        old = None
        try:
            if os.path.isdir(self.base_dir):
                os.chmod(root, stat.S_IMODE(os.stat(self.base_dir).st_mode))
            if self.existing == "overwrite" and os.path.isdir(self.base_dir):
                _check(
                    self.name,
                    self.existing,
                    files_below(storage_of(None), self.base_dir),
                    self.suffix,
                )
                old = _exchange(root, self.base_dir)
            else:
                os.rename(root, self.base_dir)
        except OSError as error:
            if error.errno in _NOT_REPLACEABLE:
                return False
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                raise FileExistsError(f"{self.name} got files while this was written") from None
            raise
        _sync(os.path.dirname(self.base_dir))
        if old is not None:
            _remove_tree(old)
        return True

    def _move_in(self, files: Sequence[str]) -> None:
        storage = storage_of(self.filesystem)
        _check_there(files, files_below(storage, self.root))
        old: list[str] = []
        if self.existing != "append":
            prefix = self.root.removeprefix(f"{self.base_dir}/") + "/"
            old = [f for f in files_below(storage, self.base_dir) if not f.startswith(prefix)]
            _check(self.name, self.existing, old, self.suffix)
        targets = [f"{self.base_dir}/{file}" for file in files]
        for info in storage.get_file_info(targets):
            if info.type.name != "NotFound":
                raise FileExistsError(f"{info.path} is there already")
        made: list[str] = []
        try:
            if self.filesystem is None:
                for directory in sorted({os.path.dirname(target) for target in targets}):
                    made += _make_directories(directory)
            elif kind_of(self.filesystem) not in _WITHOUT_DIRECTORIES:
                for directory in sorted({target.rpartition("/")[0] for target in targets}):
                    storage.create_dir(directory, recursive=True)
            if self.resumable:
                with storage.open_output_stream(f"{self.root}/{_MOVING}") as stream:
                    stream.write("\n".join(files).encode())
            # `list` lets go of the moves when one fails, which waits for those under way.
            list(
                map_in_order(
                    lambda file: storage.move(f"{self.root}/{file}", f"{self.base_dir}/{file}"),
                    files,
                    self.filesystem is not None,
                    purpose="move",
                    threads=REMOTE_THREADS,
                )
            )
            if self.filesystem is None:
                for directory in {os.path.dirname(path) for path in [*targets, *made]}:
                    _sync(directory)
        except BaseException as error:
            for target in targets:
                try:
                    if storage.get_file_info(target).type.name == "File":
                        storage.delete_file(target)
                except OSError as again:
                    error.add_note(f"{target} could not be taken back: {again}")
            if self.filesystem is None:
                _remove_empty(made)
            raise
        if self.existing == "overwrite":
            self._remove(old, files)

    def _remove(self, old: Sequence[str], files: Sequence[str]) -> None:
        """Remove the files that were there before, with directories that have none of `files`."""
        storage = storage_of(self.filesystem)
        kept = {directory for file in files for directory in _directories(file)}
        empty: set[str] = set()
        try:
            for file in old:
                unused = [name for name in _directories(file) if name not in kept]
                if unused:
                    empty.add(unused[0])
                else:
                    storage.delete_file(f"{self.base_dir}/{file}")
            for directory in sorted(empty):
                storage.delete_dir(f"{self.base_dir}/{directory}")
        except OSError as error:
            error.add_note(f"{self.name} has all new files, but some old ones are left")
            raise


def check_existing(existing: str) -> None:
    if existing not in EXISTING:
        raise ValueError(f"existing={existing!r}; it is 'error', 'append' or 'overwrite'")


class Direct(Staging):
    """Files that are written where they are to be, for storage that can only copy, not rename.

    A file appears as soon as it is complete. So until `commit`, which removes those that do not
    count and, with "overwrite", the old ones, a reader sees too many; `abandon` removes all. If the
    process is killed before either, what was written stays. Which files are of this write is told
    by their names, as `prefix` is like no other; that it has not ended, by a hidden file called
    like that. Who writes looks for it when a file is complete, and removes the file if it is gone.
    """

    @classmethod
    def begin(  # type: ignore[override]
        cls, base_dir: Any, filesystem: Any = None, existing: str = "error"
    ) -> Direct:
        begun = Staging.begin(base_dir, filesystem, existing)
        begun._remove_root()
        name, path, place = begun.name, begun.base_dir, begun.filesystem
        made = begun.made
        if place is None:
            made += _make_directories(path)
        prefix = f"part-{uuid.uuid4().hex}"
        direct = cls(name, path, place, path, existing, False, made, prefix=prefix)
        storage = storage_of(place)
        if place is not None and kind_of(place) not in _WITHOUT_DIRECTORIES:
            storage.create_dir(path, recursive=True)
        storage.open_output_stream(direct._mark).close()
        return direct

    @property
    def _mark(self) -> str:
        return f"{self.base_dir}/_{self.prefix}"

    def is_ended(self) -> bool:
        return bool(storage_of(self.filesystem).get_file_info(self._mark).type.name == "NotFound")

    def commit(self, files: Iterable[str]) -> None:
        """Let `files` be all that is left of this write, and with "overwrite" of the directory."""
        names = sorted(set(files))
        storage = storage_of(self.filesystem)
        storage.delete_file(self._mark)
        present = files_below(storage, self.base_dir)
        _check_there(names, present)
        own = {file for file in present if self._is_own(file)}
        for file in sorted(own.difference(names)):
            storage.delete_file(f"{self.base_dir}/{file}")
        if self.existing == "overwrite":
            old = [file for file in present if file not in own]
            _check(self.name, self.existing, old, self.suffix)
            self._remove(old, names)

    def abandon(self) -> None:
        storage = storage_of(self.filesystem)
        with suppress(FileNotFoundError):
            storage.delete_file(self._mark)
        own = [file for file in files_below(storage, self.base_dir) if self._is_own(file)]
        for file in own:
            with suppress(FileNotFoundError):
                storage.delete_file(f"{self.base_dir}/{file}")
        if self.filesystem is None:
            for directory in sorted({d for file in own for d in _directories(file)}, reverse=True):
                with suppress(OSError):  # it has files of others
                    os.rmdir(f"{self.base_dir}/{directory}")
            _remove_empty(self.made)

    def _is_own(self, file: str) -> bool:
        return self.prefix in file.rpartition("/")[2]


def is_visible(file: str) -> bool:
    """Whether a path below a data set is part of it."""
    *directories, name = file.split("/")
    return not (is_hidden(name, False) or any(is_hidden(one, True) for one in directories))


def _directories(file: str) -> list[str]:
    """The directories that a path leads through, from the top."""
    names = file.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]


def _check(name: str, existing: str, files: Iterable[str], suffix: str) -> None:
    """Raise if the files of a directory do not allow what is asked for."""
    visible = sorted(file for file in files if is_visible(file))
    if existing == "error" and visible:
        raise FileExistsError(
            f"{name} has files already, such as {visible[0]}; "
            "existing='append' adds to them, existing='overwrite' replaces them"
        )
    foreign = [file for file in visible if not file.endswith(suffix)]
    if existing == "overwrite" and foreign:
        raise ValueError(
            f"{name} is not overwritten: {foreign[0]} in it is not a {suffix} file; "
            "move it away, or write somewhere else"
        )


def _take_back(storage: Any, base_dir: str, root: str) -> None:
    """Undo what a process that was killed in `commit` had moved already."""
    moving = f"{root}/{_MOVING}"
    if storage.get_file_info(moving).type.name != "File":
        return
    with storage.open_input_stream(moving) as stream:
        files = stream.read().decode().split("\n")
    for file in files:
        if storage.get_file_info(f"{base_dir}/{file}").type.name == "File":
            storage.create_dir(f"{root}/{file}".rpartition("/")[0], recursive=True)
            storage.move(f"{base_dir}/{file}", f"{root}/{file}")
    storage.delete_file(moving)


def _check_there(files: Iterable[str], present: Iterable[str]) -> None:
    missing = set(files).difference(present)
    if missing:
        raise os_error(errno.ENOENT, min(missing))


@cache
def _local() -> Any:
    from pyarrow import fs

    return fs.LocalFileSystem()


def storage_of(filesystem: Any) -> Any:
    """The filesystem, with the members of pyarrow's."""
    if filesystem is None:
        return _local()
    if not is_fsspec(filesystem):
        return filesystem
    from pyarrow import fs

    filesystem.invalidate_cache()  # it remembers what a directory held, and others write to it
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem))


def files_below(storage: Any, directory: str) -> list[str]:
    """Paths of the files in a directory and below, relative to it."""
    from pyarrow import fs

    selector = fs.FileSelector(directory, recursive=True, allow_not_found=True)
    infos = storage.get_file_info(selector)
    start = len(directory) + 1
    return [info.path[start:] for info in infos if info.type.name == "File"]


def _is_replaceable(path: str, existing: str) -> bool:
    """Whether another directory may take the place of this one."""
    if existing == "append":
        return False
    if not os.path.isdir(path):
        return True
    if existing == "error" and os.listdir(path):
        return False  # hidden files, which nobody asked to remove
    # Whoever stands in a directory would be left in the old one.
    stands_in = f"{os.getcwd()}/".startswith(f"{path}/")
    return not stands_in and not os.path.ismount(path)


def _make_directories(path: str) -> tuple[str, ...]:
    """Make a directory and its parents; those that were not there, from the top."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    made = []
    for directory in reversed(missing):
        with suppress(FileExistsError):  # someone else was faster, unless it is a file
            os.mkdir(directory)
            made.append(directory)
    return tuple(made)


def _remove_tree(directory: str) -> None:
    import shutil  # it imports all of Python's compressors

    shutil.rmtree(directory, ignore_errors=True)


def _remove_empty(directories: Sequence[str]) -> None:
    for directory in reversed(directories):
        with suppress(OSError):
            os.rmdir(directory)


def _keep_only(root: str, files: Sequence[str]) -> None:
    """Remove everything else below `root`, and see that what is left survives a power cut."""
    _check_there(files, files_below(_local(), root))
    kept = {f"{root}/{file}" for file in files}
    for directory, _, names in os.walk(root, topdown=False):
        for path in (f"{directory}/{name}" for name in names):
            if path not in kept:
                os.unlink(path)
        if directory != root and not os.listdir(directory):
            os.rmdir(directory)
        else:
            _sync(directory)


def _sync(directory: str) -> None:
    with suppress(OSError):  # some filesystems cannot sync a directory
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(new: str, old: str) -> str:
    """Put `new` in the place of `old`, both directories; where the old one is then.

    Linux does that in one step. Elsewhere, for a moment there is nothing by the name.
    """
    try:
        _renameat2(new, old)
    except OSError as error:
        if error.errno not in _NOT_EXCHANGEABLE:
            raise
    else:
        return new
    aside = f"{new}.old"
    try:
        os.rename(old, aside)
        os.rename(new, old)
    except BaseException:
        if not os.path.lexists(old):
            os.rename(aside, old)
        raise
    return aside


def _renameat2(one: str, other: str) -> None:
    """Exchange the names of two directories."""
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        raise os_error(errno.ENOSYS, one)
    arguments = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    if function(*arguments) != 0:
        raise os_error(ctypes.get_errno(), other)
