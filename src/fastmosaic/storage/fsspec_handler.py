"""Filesystems of fsspec as filesystems of pyarrow, with listings that are complete and current."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pyarrow.fs import FileInfo, FileSelector, FileType, FSSpecHandler

from .location import info_of

# Where filesystems of fsspec tell when a file was written.
_MODIFIED: Final = ("mtime", "LastModified", "last_modified", "updated", "created")


class Handler(FSSpecHandler):
    """pyarrow's handler, with listings that cost one request and are not taken from a cache.

    A directory that cannot be listed raises an error. A page of a web server is a directory.
    """

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        infos = []
        for path in paths:
            try:
                info = info_of(self.fs, path)
            except (FileNotFoundError, NotADirectoryError):
                infos.append(FileInfo(path, FileType.NotFound))
                continue
            if info.get("mimetype") == "text/html":
                info = {**info, "type": "directory"}
            infos.append(self._create_file_info(path, {"size": None, **info}))
        return infos

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        try:
            if selector.recursive:
                self.fs.invalidate_cache()
                found = list(self.fs.find(selector.base_dir, detail=True).items())
            else:
                self.fs.invalidate_cache(selector.base_dir)
                listing = self.fs.ls(selector.base_dir, detail=True)
                found = [(info["name"], info) for info in listing]
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        return [_file_info(path, info) for path, info in found]


def lists_at_once(filesystem: Any) -> bool:
    """Return whether a filesystem of fsspec can list a whole tree at once, as object stores can.

    The implementation that the others inherit skips directories that it fails to list.
    """
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    kind = type(filesystem)
    if isinstance(filesystem, AsyncFileSystem):
        return kind._find is not AsyncFileSystem._find
    return kind.find is not AbstractFileSystem.find


def _file_info(path: str, info: Any) -> FileInfo:
    if info.get("type") == "directory":
        return FileInfo(path, FileType.Directory)
    modified = next((info[key] for key in _MODIFIED if info.get(key)), None)
    if not isinstance(modified, datetime | float):
        modified = None
    return FileInfo(path, FileType.File, size=info.get("size"), mtime=modified)
