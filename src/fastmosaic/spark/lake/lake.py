"""A lake: a directory whose directories are namespaces and tables. Without Spark's JVM.

A directory is a table if it contains `_mosaic`, and a dataset, which can only be read, if it contains
Mosaic files or directories `key=value`. Others are namespaces. In a namespace, also a single Mosaic
file `name.mosaic` is a table, `name`, unless the directory is taken for a dataset because of it: the
lake itself, and namespaces that were created as such, are none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from ...dataset.hive import escaped
from ...dataset.snapshot import list_versions
from ...dataset.version import VERSIONS, version_name
from ...errors import UnsupportedError
from ...storage.debris import new_identity, staging_path_beside
from ...storage.listing import entries_below, join, look, unquoted
from ...storage.location import is_hidden, is_web, locate
from ...storage.remote import storage_of
from ...storage.replace import make_directories, remove_empty, remove_tree
from ...storage.retry import insist
from ...storage.sink import open_sink
from ...storage.source import open_source
from ...storage.target import SUFFIX, is_visible
from ...table.store import TableStore
from ...threads import REMOTE_THREADS, map_in_order

__all__ = ["Kind", "Lake", "LakeError", "Namespace"]

# A file in the directory of a namespace, with its properties as JSON.
MARK: Final = "_namespace"
MAX_MARK_BYTES: Final = 1 << 20

Namespace: TypeAlias = tuple[str, ...]
Kind: TypeAlias = Literal["table", "dataset", "file"]


class LakeError(Exception):
    """What Spark has an error of its own for: `reason` and what it is about."""

    def __init__(
        self,
        reason: Literal[
            "no table", "table exists", "no namespace", "namespace exists", "not empty"
        ],
        namespace: Namespace,
        name: str | None = None,
    ) -> None:
        super().__init__(reason, namespace, name)
        self.reason = reason
        self.namespace = namespace
        self.name = name


@dataclass(frozen=True, slots=True)
class Lake:
    """A directory of tables.

    name           the directory for messages, without credentials
    filesystem     a filesystem of pyarrow or fsspec, or None for the local one
    path           the directory in the filesystem
    single_writer  as for `MosaicTable`
    """

    name: str
    filesystem: Any
    path: str = field(repr=False)
    single_writer: bool = False

    @classmethod
    def of(cls, path: Any, filesystem: Any = None, single_writer: bool = False) -> Lake:
        found = locate(path, filesystem)
        if found is None:
            raise TypeError(f"expected a path or URI, not an object of type {type(path).__name__}")
        name, place, inside = found
        if is_web(place):
            raise ValueError(f"{name}: a web server cannot be a catalog; read its files by path")
        inside = os.path.abspath(inside) if place is None else inside.rstrip("/")
        return cls(name.rstrip("/") or name, place, inside, single_writer)

    # ---- what there is

    def namespaces(self, parent: Namespace = ()) -> list[Namespace]:
        """Return the namespaces in another one, or in the lake, sorted."""
        return [(*parent, name) for name, kind in self._content(parent) if kind == "namespace"]

    def tables(self, namespace: Namespace = ()) -> list[str]:
        """Return the names of the tables in a namespace, sorted."""
        return [name for name, kind in self._content(namespace) if kind != "namespace"]

    def _content(self, namespace: Namespace) -> list[tuple[str, Kind | Literal["namespace"]]]:
        """Return the names of namespaces and tables in a namespace, sorted."""
        self.check_namespace(namespace)
        folder = self._folder(namespace)
        assert folder is not None
        children = self._children(folder)
        folders = [name for name, is_folder in children if is_folder and _is_plain(name)]

        def kind_of(name: str) -> Kind | Literal["namespace"] | None:
            return self._kind_of_folder(join(folder, name))

        remote = self.filesystem is not None
        kinds = map_in_order(kind_of, folders, remote, purpose="files", threads=REMOTE_THREADS)
        found: dict[str, Kind | Literal["namespace"]] = {
            name.removesuffix(SUFFIX): "file"
            for name, is_folder in children
            if not is_folder and _is_file_name(name)
        }
        found |= {name: kind for name, kind in zip(folders, kinds, strict=True) if kind is not None}
        return sorted((_shown(name), kind) for name, kind in found.items())

    def is_namespace(self, namespace: Namespace) -> bool:
        """Return whether there is such a namespace; the lake itself is one, without a name."""
        return self._folder(namespace) is not None

    def check_namespace(self, namespace: Namespace) -> None:
        """Raise LakeError unless there is such a namespace."""
        if not self.is_namespace(namespace):
            raise LakeError("no namespace", namespace)

    def kind(self, namespace: Namespace, name: str) -> Kind | None:
        """Return what a table is; None if there is none."""
        found = self._find(namespace, name)
        return None if found is None else found[1]

    def find(self, namespace: Namespace, name: str) -> tuple[str, Kind]:
        """Return the path of a table, and what it is; raise LakeError if there is none."""
        found = self._find(namespace, name)
        if found is None:
            raise LakeError("no table", namespace, name)
        return found

    def _find(self, namespace: Namespace, name: str) -> tuple[str, Kind] | None:
        folder = self._folder(namespace)
        for one in () if folder is None else _names(name):
            path = join(folder or "", one)
            kind = self._kind_of_folder(path)
            if kind is not None and kind != "namespace":
                return path, kind
            if kind is None and self._look(path + SUFFIX) == "file":
                return path + SUFFIX, "file"
        return None

    def _folder(self, namespace: Namespace) -> str | None:
        """Return the directory of a namespace, if there is one."""
        folder = self.path
        for part in namespace:
            for name in _names(part):
                if self._kind_of_folder(join(folder, name)) == "namespace":
                    folder = join(folder, name)
                    break
            else:
                return None
        return folder

    def _kind_of_folder(self, path: str) -> Kind | Literal["namespace"] | None:
        """Return what a directory is; None if there is none, or a table that has no version."""
        children = self._children(path)
        if not children:
            # An empty directory of an object store does not exist.
            return "namespace" if self._look(path) == "directory" else None
        if (VERSIONS, True) in children:
            return "table" if list_versions(path, self.filesystem, path) else None
        if (MARK, False) in children:
            return "namespace"
        is_dataset = any(
            _is_partition(name) if is_folder else _is_file_name(name)
            for name, is_folder in children
        )
        return "dataset" if is_dataset else "namespace"

    def _children(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a directory, and whether each is a directory."""
        from pyarrow.fs import FileSelector, FileType

        if self.filesystem is None:
            try:
                with os.scandir(path) as entries:
                    return [(entry.name, entry.is_dir()) for entry in entries]
            except (FileNotFoundError, NotADirectoryError):
                return []
        selector = FileSelector(path, allow_not_found=True)
        infos = insist(self.name, lambda: storage_of(self.filesystem).get_file_info(selector))
        every = ((info, info.path.rstrip("/").rpartition("/")[2]) for info in infos)
        return [
            (name, info.type == FileType.Directory)
            for info, name in every
            if name and info.path.rstrip("/") != path
        ]

    def _look(self, path: str) -> str:
        return insist(self.name, lambda: look(self.filesystem, path))[0]

    # ---- namespaces

    def properties(self, namespace: Namespace) -> dict[str, str]:
        """Return the properties that a namespace was created with."""
        self.check_namespace(namespace)
        path = join(self._folder(namespace) or "", MARK)
        if not namespace or self._look(path) != "file":
            return {}
        with open_source(path, self.filesystem) as source:
            data = source.read_at(0, min(source.size, MAX_MARK_BYTES)).to_pybytes()
        try:
            found = json.loads(data)
            return {str(key): str(value) for key, value in found.items()}
        except (ValueError, AttributeError) as error:
            raise ValueError(
                f"{join(self.name, MARK)} of {namespace} is not a JSON object"
            ) from error

    def create_namespace(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Create a namespace, and those that it is in."""
        if self.is_namespace(namespace):
            raise LakeError("namespace exists", namespace)
        if not self.is_namespace(namespace[:-1]):
            self.create_namespace(namespace[:-1], {})
        if self._find(namespace[:-1], namespace[-1]):
            raise LakeError("namespace exists", namespace)
        self._write_mark(
            join(self._folder(namespace[:-1]) or "", escaped(namespace[-1])), properties
        )

    def set_properties(self, namespace: Namespace, properties: Mapping[str, str]) -> None:
        """Replace the properties of a namespace."""
        self.check_namespace(namespace)
        if not namespace:
            raise UnsupportedError("the catalog itself has no properties that could be set")
        self._write_mark(self._folder(namespace) or "", properties)

    def _write_mark(self, folder: str, properties: Mapping[str, str]) -> None:
        if self.filesystem is None:
            make_directories(folder)
        sink = open_sink(join(folder, MARK), self.filesystem)
        sink.write(json.dumps(dict(properties)).encode())
        sink.commit()

    def drop_namespace(self, namespace: Namespace, cascade: bool) -> None:
        """Remove a namespace; with `cascade`, with all that it contains."""
        self.check_namespace(namespace)
        if not namespace:
            raise ValueError("the namespace of the catalog itself cannot be dropped")
        content = self._content(namespace)
        if content and not cascade:
            raise LakeError("not empty", namespace)
        for name, kind in content:
            if kind == "namespace":
                self.drop_namespace((*namespace, name), True)
            else:
                self.drop(namespace, name)
        folder = self._folder(namespace) or ""
        left = [
            name
            for name, _ in self._children(folder)
            if name != MARK and not self._remove_unfinished(join(folder, name))
        ]
        if left:
            raise ValueError(
                f"the namespace was not dropped, because its directory contains {left[0]!r}, which "
                "is not a table"
            )
        self._remove([join(folder, MARK)])
        self._remove_folder(folder)

    # ---- tables

    def store(self, namespace: Namespace, name: str) -> TableStore:
        """Return the directory of a table, which need not exist."""
        folder = self._folder(namespace)
        if folder is None:
            raise LakeError("no namespace", namespace)
        if not name:
            raise ValueError("the name of a table must not be empty")
        found = self._find(namespace, name)
        return self._store(join(folder, escaped(name)) if found is None else found[0])

    def _store(self, path: str) -> TableStore:
        return TableStore(
            join(self.name, path.removeprefix(self.path).lstrip("/")),
            self.filesystem,
            path,
            self.single_writer,
        )

    def check_new(self, namespace: Namespace, name: str) -> None:
        """Raise LakeError if a table cannot have this name."""
        self.check_namespace(namespace)
        if self._find(namespace, name) or self.is_namespace((*namespace, name)):
            raise LakeError("table exists", namespace, name)

    def drop(self, namespace: Namespace, name: str) -> bool:
        """Remove a table with all its files; return whether there was one.

        Local tables disappear in one step.
        """
        found = self._find(namespace, name)
        if found is None:
            return False
        path, kind = found
        if kind == "file":
            self._remove([path])
            return True
        files = [entry.relative for entry in entries_below(self.filesystem, path)]
        foreign = [one for one in files if is_visible(one) and not one.endswith(SUFFIX)]
        if foreign:
            raise ValueError(
                f"{self._store(path).name} was not dropped, because {min(foreign)} is not a "
                f"{SUFFIX} file; move that file"
            )
        if self.filesystem is None:
            aside = staging_path_beside(path, new_identity(is_locked=False))
            os.rename(path, aside)
            remove_tree(aside)
            return True
        store = self._store(path)
        if kind == "table":
            store.begin_creation()  # a table without versions is none, whatever is left of it
            self._remove([join(path, version_name(number)) for number in store.versions()])
        self._remove([join(path, one) for one in files])
        if kind == "table":
            store.end_creation()
        self._remove_folder(path)
        return True

    def _remove(self, paths: Iterable[str]) -> None:
        every = list(paths)
        remote = self.filesystem is not None

        def remove(path: str) -> None:
            with suppress(FileNotFoundError):
                if self.filesystem is None:
                    os.unlink(path)
                else:
                    storage = storage_of(self.filesystem)
                    insist(self.name, lambda: storage.delete_file(path))

        for _ in map_in_order(remove, every, remote, purpose="files", threads=REMOTE_THREADS):
            pass

    def _remove_unfinished(self, path: str) -> bool:
        """Remove a table that was not created completely; return whether it was one."""
        if (VERSIONS, True) not in self._children(path) or self._kind_of_folder(path) is not None:
            return False
        if self.filesystem is None:
            remove_tree(path)
        else:
            self._remove(entry.path for entry in entries_below(self.filesystem, path))
            self._remove_folder(path)
        return True

    def _remove_folder(self, path: str) -> None:
        """Remove a directory whose files were removed, where there are directories without files."""
        if self.filesystem is None:
            os.rmdir(path)
            return
        storage = storage_of(self.filesystem)
        with suppress(FileNotFoundError):
            insist(self.name, lambda: storage.delete_dir(path))

    def rename(self, source: tuple[Namespace, str], target: tuple[Namespace, str]) -> None:
        """Give a table another name, which no table has."""
        path, kind = self.find(*source)
        self.check_new(*target)
        if self.filesystem is not None:
            raise UnsupportedError(
                "tables on this filesystem cannot be renamed, because all files would have to be "
                "copied: create the other table as select from this one, then drop this one",
                file=self._store(path).name,
            )
        folder = self._folder(target[0]) or ""
        new = join(folder, escaped(target[1])) + (SUFFIX if kind == "file" else "")
        if os.path.lexists(new):
            remove_empty([new])
        if os.path.lexists(new):
            raise LakeError("table exists", *target)
        os.rename(path, new)


def _names(name: str) -> Sequence[str]:
    """Return the names of directories that may be that of a table or namespace."""
    # A directory that was not created here may have characters that are escaped here.
    return list(dict.fromkeys([escaped(name), name])) if _is_plain(name) else [escaped(name)]


def _shown(name: str) -> str:
    """Return the name of the table or namespace in a directory."""
    text = unquoted(name)
    return text if escaped(text) == name else name


def _is_plain(name: str) -> bool:
    """Return whether a directory may be a table or a namespace: one that is neither hidden nor a key."""
    return bool(name) and "/" not in name and "=" not in name and not is_hidden(name, True)


def _is_partition(name: str) -> bool:
    return "=" in name and not is_hidden(name, True)


def _is_file_name(name: str) -> bool:
    return name.endswith(SUFFIX) and name != SUFFIX and not is_hidden(name, False)
