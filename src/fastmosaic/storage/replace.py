"""Local files and directories: replace one in a single step, make, remove and sync them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ..errors import UnsupportedError
from .location import os_error

_RENAME_NOREPLACE: Final = 1  # from linux/fs.h
_RENAME_EXCHANGE: Final = 2
# How a system or a filesystem says that it has no such flag of renameat2, and no hard links.
_NO_FLAG: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EMLINK, *_NO_FLAG})
# Not those that the system computes from the content.
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_", "security.selinux")
_AT_FDCWD: Final = -100  # from fcntl.h


def resolved(path: str, name: str) -> str:
    """Return the path that a link leads to, whether it exists or not, or else the path itself."""
    real = os.path.realpath(path)
    if os.path.islink(real):
        raise os_error(errno.ELOOP, name)
    return real


def keep_status(old: str, new: int | str) -> None:
    """Give `new`, which will replace `old`, its owner, group, permissions and attributes.

    `new` is a path, or a descriptor of an open file. An owner or a group that this process may not
    set stays its own; then permissions that were meant for the other one are not given to it.
    Attributes include access control lists.
    """
    before = os.stat(old)
    mode = stat.S_IMODE(before.st_mode)
    if not (_owned(new, -1, before.st_gid) or os.stat(new).st_gid == before.st_gid):
        others = mode & stat.S_IRWXO
        mode = mode & ~(stat.S_IRWXG | stat.S_ISGID) | (mode & stat.S_IRWXG & others << 3)
    if not (_owned(new, before.st_uid, -1) or os.stat(new).st_uid == before.st_uid):
        mode &= ~stat.S_ISUID
    _copy_attributes(old, new)
    with suppress(OSError):  # some filesystems have no permissions
        os.chmod(new, mode)  # at last, because a new owner resets some of the bits


def _owned(new: int | str, user: int, group: int) -> bool:
    try:
        os.chown(new, user, group)
    except OSError:
        return False
    return True


def _copy_attributes(old: str, new: int | str) -> None:
    if not hasattr(os, "listxattr"):  # only Linux has them
        return
    with suppress(OSError):  # the filesystem has none
        for name in os.listxattr(old):
            if name.startswith(_KEPT_ATTRIBUTES):
                with suppress(OSError):  # it may be for other users to set
                    os.setxattr(new, name, os.getxattr(old, name))


def is_replaceable(path: str, existing: str) -> bool:
    """Return whether another directory may take the place of this one."""
    if existing == "append":
        return False
    if not os.path.isdir(path):
        return True
    if existing == "error" and os.listdir(path):
        return False  # hidden files, which the caller did not ask to remove
    # A process whose working directory this is would be left in the old directory.
    is_current = f"{os.getcwd()}/".startswith(f"{path}/")
    return not is_current and not os.path.ismount(path)


def exchange(new: str, old: str) -> str:
    """Put directory `new` in the place of directory `old`; return where the old one is now.

    On Linux this is a single step. Elsewhere the name does not exist for a moment.
    """
    try:
        renameat2(new, old, _RENAME_EXCHANGE)
    except OSError as error:
        if error.errno not in _NO_FLAG:
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


def move_new(temporary: str, target: str) -> None:
    """Give a file another name in a single step, unless it exists: then raise FileExistsError.

    A filesystem that cannot do this raises UnsupportedError.
    """
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        with suppress(OSError):  # the file has its name; the other one is debris
            os.unlink(temporary)
        return
    try:
        renameat2(temporary, target, _RENAME_NOREPLACE)
    except OSError as error:
        if error.errno not in _NO_FLAG:
            raise
        raise UnsupportedError(
            "the filesystem has neither hard links nor a rename that keeps an existing file"
        ) from error


def renameat2(one: str, other: str, flags: int) -> None:
    """Rename a file or directory, or exchange two, as Linux does with these flags."""
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        raise os_error(errno.ENOSYS, one)
    arguments = (_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), flags)
    if function(*arguments) != 0:
        raise os_error(ctypes.get_errno(), other)


def keep_only(root: str, files: Sequence[str]) -> None:
    """Remove everything else below `root`, and sync the directories that remain."""
    kept = {f"{root}/{file}" for file in files}
    for directory, _, names in os.walk(root, topdown=False):
        for path in (f"{directory}/{name}" for name in names):
            if path not in kept:
                os.unlink(path)
        if directory != root and not os.listdir(directory):
            os.rmdir(directory)
        else:
            sync(directory)


def sync(directory: str) -> None:
    """Make sure that the names in a directory survive a power failure."""
    with suppress(OSError):  # some filesystems cannot sync a directory
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def make_directories(path: str) -> tuple[str, ...]:
    """Make a directory and its parents; return those that did not exist, outermost first."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    made = []
    for directory in reversed(missing):
        with suppress(FileExistsError):  # another process made it, unless it is a file
            os.mkdir(directory)
            made.append(directory)
    return tuple(made)


def remove_tree(directory: str) -> None:
    """Remove a directory and everything in it, as far as possible."""
    import shutil  # it imports all of Python's compressors

    shutil.rmtree(directory, ignore_errors=True)


def remove_empty(directories: Sequence[str]) -> None:
    """Remove directories, innermost first, unless they contain something."""
    for directory in reversed(directories):
        with suppress(OSError):
            os.rmdir(directory)
