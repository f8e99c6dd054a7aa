"""Staging: files are written below a staging directory and appear in a directory together."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ..threads import REMOTE_THREADS, map_in_order
from .debris import (
    Lock,
    is_lockable,
    new_identity,
    staging_name,
    staging_path_beside,
    sweep,
)
from .listing import files_below
from .location import kind_of, locate, os_error
from .moves import begin_moves, end_moves, read_moves, take_back
from .remote import storage_of
from .replace import (
    exchange,
    is_replaceable,
    keep_only,
    keep_status,
    make_directories,
    remove_empty,
    remove_tree,
    resolved,
    sync,
)
from .sink import WITHOUT_DIRECTORIES, Sink, open_sink
from .target import (
    SUFFIX,
    check_contents,
    check_existing,
    check_no_table,
    check_present,
    directories_of,
    new_prefix,
    prefix_of,
    visible_below,
)

# Errors of rename for a directory that may not be replaced: another user owns it in a sticky
# directory, it is in the lower layer of a container's filesystem, or it is a mount point.
_NOT_REPLACEABLE: Final = frozenset({errno.EPERM, errno.EACCES, errno.EXDEV, errno.EBUSY})


@dataclass(frozen=True)
class Staging:
    """Files on their way into a directory.

    Any process can write files below `root`. They appear below `base_dir` with `commit`, or never,
    with `abandon`; exactly one of the two ends the staging. A staging has no open files and can be
    pickled, so the process that ends it need not be the one that began it.

    A local directory that is new or overwritten is replaced in one step, by renaming. Where that
    is not possible (files are appended, the storage is remote, the directory is a mount point, or
    its parent is not writable), the files are moved one by one. If a move fails, those before it
    are undone. Meanwhile a reader may see some of the new files before the others and, if they
    overwrite, both the new and the old files.
    """

    name: str  # the directory as the caller gave it, for messages
    base_dir: str  # the path in `filesystem`, with links resolved
    filesystem: Any  # a pyarrow or fsspec filesystem; None is the local one
    root: str
    existing: str
    replaces: bool  # whether `root` becomes `base_dir`, or its files are moved there
    made: tuple[str, ...]  # directories that did not exist before
    prefix: str  # of the names of new files, see `new_prefix`
    suffix: str = SUFFIX  # of the files that may be overwritten
    resumable: bool = False  # whether another process may continue with the files below `root`
    lock: Lock = field(default_factory=Lock, repr=False, compare=False)  # of `root`

    @classmethod
    def begin(
        cls,
        base_dir: Any,
        filesystem: Any = None,
        existing: str = "error",
        *,
        suffix: str = SUFFIX,
        identity: str | None = None,
        is_shared: bool = False,
    ) -> Staging:
        """Begin to write files into `base_dir`, which need not exist.

        If it contains files, `existing` decides: "error" raises FileExistsError, "append" keeps
        them, "overwrite" removes them in `commit`, but raises ValueError if a file does not end in
        `suffix`. Names that begin with "." or "_" are ignored. A table is refused, whatever
        `existing` says, because only its versions tell which files it has.

        Files that an earlier process wrote with the same `identity`, without ending its staging,
        are still below `root`. Otherwise the staging belongs to this process, and is debris when
        the process ends, unless it `is_shared` with others.
        """
        check_existing(existing)
        found = locate(base_dir, filesystem)
        if found is None:
            raise TypeError(
                "expected the path or URI of a directory to write to, "
                f"not an object of type {type(base_dir).__name__}"
            )
        name, place, path = found
        path = resolved(path, name) if place is None else path.rstrip("/")
        storage = storage_of(place)
        kind = storage.get_file_info(path).type.name
        if kind == "File":
            raise os_error(errno.ENOTDIR, name)
        check_no_table(name, place, path)
        resumable = identity is not None
        if identity is not None:
            take_back(place, path, f"{path}/{staging_name(identity)}")
        present: list[str] | None = None if kind == "Directory" else []
        if existing != "append" and present is None:
            present = visible_below(place, path)
            check_contents(name, existing, present, suffix)
        lock = Lock()
        replaces = False
        made: tuple[str, ...]
        if place is not None:
            identity = identity or new_identity(is_locked=False)
            root = f"{path}/{staging_name(identity)}"
            made = (path,) if kind == "NotFound" else ()
            if kind != "NotFound":
                sweep(place, path, keep=root)
        else:
            parent = os.path.dirname(path)
            if is_replaceable(path, existing):
                made = make_directories(parent)
                if beside := _made(staging_path_beside, path, parent, identity, is_shared):
                    replaces = True
                    root, lock = beside
                    if kind == "Directory":
                        keep_status(path, root)
                        os.chmod(root, stat.S_IMODE(os.stat(root).st_mode) | stat.S_IRWXU)
            if not replaces:
                made = make_directories(path)
                inside = _made(_inside, path, path, identity, is_shared)
                if inside is None:
                    raise os_error(errno.EACCES, name)
                root, lock = inside
        prefix = prefix_of(files_below(place, root)) if resumable else None
        if prefix is None:
            prefix = new_prefix(visible_below(place, path) if present is None else present)
        return cls(
            name, path, place, root, existing, replaces, made, prefix, suffix, resumable, lock
        )

    def path(self, file: str) -> str:
        """Return the path to write `file` to, a path relative to the directory.

        The directories that it leads through are made.
        """
        path = f"{self.root}/{file}"
        if self.filesystem is None:
            # Not `root` itself: after the end of the staging it must not exist again.
            for directory in directories_of(file):
                with suppress(FileExistsError):
                    os.mkdir(f"{self.root}/{directory}")
        elif kind_of(self.filesystem) not in WITHOUT_DIRECTORIES:
            storage_of(self.filesystem).create_dir(path.rpartition("/")[0], recursive=True)
        return path

    def open(self, file: str) -> Sink:
        """Open `file`, a path relative to the directory, for writing.

        It needs no temporary name, since it is not visible before `commit`.
        """
        return open_sink(self.path(file), self.filesystem, is_staged=True)

    @property
    def _ending(self) -> str:
        """The name of `root` while the staging ends, which no other process uses."""
        return f"{self.root}.ending"

    def is_ended(self) -> bool:
        """Return whether another process has ended the staging, as far as is known."""
        return self.filesystem is None and not os.path.isdir(self.root)

    def commit(self, files: Iterable[str]) -> None:
        """Make `files`, and nothing else that is below `root`, appear in the directory.

        If that fails, the directory is unchanged. An interrupt may come too late to stop it: then
        all of the new files are present.
        """
        names = sorted(set(files))
        try:
            if not (self.replaces and self._replace(names)):
                self._move_in(names)
        except BaseException as error:
            try:
                self.abandon()
            except OSError as again:
                error.add_note(f"files that were moved before could not be moved back: {again}")
            raise
        self._remove_root()

    def finish(self) -> None:
        """Complete the moves of a process that was killed, or failed, in `commit`.

        Files that have appeared stay, and the others join them. `begin` and `abandon` move them back.
        """
        files = read_moves(self.filesystem, self.root)
        if files is not None:
            present = set(files_below(self.filesystem, self.root))
            self._move([file for file in files if file in present])
            end_moves(self.filesystem, self.root)

    def abandon(self) -> None:
        """Leave the directory unchanged, and remove everything that was written.

        If files that appeared cannot be moved back, the others stay, so that it can be done later.
        """
        if self.resumable:
            take_back(self.filesystem, self.base_dir, self.root)
        self._remove_root()
        if self.filesystem is None:
            remove_empty(self.made)
            return
        storage = storage_of(self.filesystem)
        with suppress(OSError):
            for directory in self.made:
                found = storage.get_file_info(directory).type.name == "Directory"
                if found and not files_below(self.filesystem, directory):
                    storage.delete_dir(directory)

    def _remove_root(self) -> None:
        self.lock.release()
        if self.filesystem is None:
            with suppress(OSError):
                # Otherwise a process that is still writing could add files meanwhile.
                os.rename(self.root, self._ending)
            remove_tree(self._ending)
            remove_tree(self.root)
        else:
            storage = storage_of(self.filesystem)
            with suppress(OSError):
                if storage.get_file_info(self.root).type.name != "NotFound":
                    storage.delete_dir(self.root)

    def _replace(self, files: Sequence[str]) -> bool:
        """Make `root` the directory in one step; return False if the system does not allow it."""
        if self.resumable:  # a later process looks for it by its name
            return self._take_place(self.root, files)
        os.rename(self.root, self._ending)
        if self._take_place(self._ending, files):
            return True
        os.rename(self._ending, self.root)
        return False

    def _take_place(self, root: str, files: Sequence[str]) -> bool:
        check_present(files, files_below(None, root))
        keep_only(root, files)
        old = None
        try:
            _keep_statuses(self.base_dir, root)
            if self.existing == "overwrite" and os.path.isdir(self.base_dir):
                check_contents(
                    self.name,
                    self.existing,
                    files_below(None, self.base_dir),
                    self.suffix,
                )
                old = exchange(root, self.base_dir)
            else:
                os.rename(root, self.base_dir)
        except OSError as error:
            if error.errno in _NOT_REPLACEABLE:
                return False
            if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                raise FileExistsError(
                    f"{self.name}: another process has written files to it meanwhile"
                ) from None
            raise
        sync(os.path.dirname(self.base_dir))
        if old is not None:
            remove_tree(old)
        return True

    def _move_in(self, files: Sequence[str]) -> None:
        storage = storage_of(self.filesystem)
        check_present(files, files_below(self.filesystem, self.root))
        old: list[str] = []
        if self.existing != "append":
            prefix = self.root.removeprefix(f"{self.base_dir}/") + "/"
            old = [
                f for f in files_below(self.filesystem, self.base_dir) if not f.startswith(prefix)
            ]
            check_contents(self.name, self.existing, old, self.suffix)
        targets = [f"{self.base_dir}/{file}" for file in files]
        for info in storage.get_file_info(targets):
            if info.type.name != "NotFound":
                raise FileExistsError(f"{info.path} exists already")
        if self.resumable:
            begin_moves(self.filesystem, self.root, files)
        made: list[str] = []
        try:
            self._move(files, made)
        except BaseException as error:
            for target in targets if not self.resumable else ():
                try:
                    if storage.get_file_info(target).type.name == "File":
                        storage.delete_file(target)
                except OSError as again:
                    error.add_note(f"{target} could not be removed again: {again}")
            if self.filesystem is None:
                remove_empty(made)
            raise
        if self.existing == "overwrite":
            if self.resumable:  # there is no way back when old files are gone
                end_moves(self.filesystem, self.root)
            self._remove(old, files)

    def _move(self, files: Sequence[str], made: list[str] | None = None) -> None:
        """Move files from `root` to the directory; `made` gets the directories that this makes."""
        storage = storage_of(self.filesystem)
        made = [] if made is None else made
        directories = sorted({f"{self.base_dir}/{file}".rpartition("/")[0] for file in files})
        if self.filesystem is None:
            for directory in directories:
                made += make_directories(directory)
        elif kind_of(self.filesystem) not in WITHOUT_DIRECTORIES:
            for directory in directories:
                storage.create_dir(directory)
        # If a move fails, `list` drops the others, which waits for those under way.
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
            for directory in {*directories, *map(os.path.dirname, made)}:
                sync(directory)

    def _remove(self, old: Sequence[str], files: Sequence[str]) -> None:
        """Remove the old files, and directories that contain none of `files`."""
        kept = {directory for file in files for directory in directories_of(file)}
        empty: set[str] = set()
        if self.filesystem is None:  # links are removed, not what they lead to
            import shutil  # it imports all of Python's compressors

            delete_file: Callable[[str], object] = os.unlink
            delete_directory: Callable[[str], object] = shutil.rmtree
        else:
            storage = storage_of(self.filesystem)
            delete_file, delete_directory = storage.delete_file, storage.delete_dir
        try:
            for file in old:
                unused = [name for name in directories_of(file) if name not in kept]
                if unused:
                    empty.add(unused[0])
                else:
                    delete_file(f"{self.base_dir}/{file}")
            for directory in sorted(empty):
                delete_directory(f"{self.base_dir}/{directory}")
        except OSError as error:
            error.add_note(
                f"{self.name} contains all new files, but some old ones could not be removed"
            )
            raise


def _inside(path: str, identity: str) -> str:
    return f"{path}/{staging_name(identity)}"


def _made(
    place: Callable[[str, str], str], path: str, parent: str, identity: str | None, is_shared: bool
) -> tuple[str, Lock] | None:
    """Make the staging directory `place(path, identity)` and lock it if it is not shared.

    Debris in `parent` is removed. Returns None if it is not permitted to make a directory there.
    """
    is_locked = identity is None and not is_shared and is_lockable(parent)
    sweep(None, parent, keep="" if identity is None else place(path, identity))
    while True:
        root = place(path, identity or new_identity(is_locked=is_locked))
        try:
            os.makedirs(root, exist_ok=identity is not None)
        except OSError as error:
            if error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
                raise
            return None
        if not is_locked:
            with suppress(OSError):  # it belongs to another user
                os.utime(root)  # a resumed job is not old
            return root, Lock()
        with suppress(FileNotFoundError):  # another writer took it for debris, before the lock
            if lock := Lock.of(root):
                return root, lock


def _keep_statuses(old: str, new: str) -> None:
    """Keep owners and permissions of a directory, and of those in it that exist before and after."""
    if not os.path.isdir(old):
        return
    for folder, folders, _ in os.walk(new, topdown=False):
        for name in folders:
            before = os.path.join(old, os.path.relpath(folder, new), name)
            if os.path.isdir(before) and not os.path.islink(before):
                keep_status(before, os.path.join(folder, name))
    keep_status(old, new)
