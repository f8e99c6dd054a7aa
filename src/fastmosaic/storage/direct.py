"""Writing without staging: files appear under their final names as soon as they are complete."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from .listing import files_below
from .location import kind_of
from .remote import storage_of
from .replace import make_directories, remove_empty
from .sink import WITHOUT_DIRECTORIES, Sink, open_sink
from .staging import Staging
from .target import check_contents, check_present, directories_of


class Direct(Staging):
    """Files written to their final location, for storage that copies files instead of renaming.

    A file appears as soon as it is complete. `commit` removes files that do not belong to the
    result and, with "overwrite", the old files; `abandon` removes all new files. Until then other
    programs see too many files, and if the process is killed before, they stay as debris.

    The files of this write are known by their names, because `prefix` is unique. A hidden file
    with the name of the prefix exists until the end: a process that has completed a file looks
    for it, and removes the file if the write has ended. Until then `discover` leaves them out.
    """

    @classmethod
    def begin(  # type: ignore[override]
        cls,
        base_dir: Any,
        filesystem: Any = None,
        existing: str = "error",
        *,
        is_shared: bool = True,
    ) -> Direct:
        begun = Staging.begin(base_dir, filesystem, existing, is_shared=is_shared)
        begun._remove_root()
        name, path, place = begun.name, begun.base_dir, begun.filesystem
        made = begun.made
        if place is None:
            made += make_directories(path)
        prefix = f"{begun.prefix}-{uuid.uuid4().hex}"
        direct = cls(name, path, place, path, existing, False, made, prefix)
        storage = storage_of(place)
        if place is not None and kind_of(place) not in WITHOUT_DIRECTORIES:
            storage.create_dir(path, recursive=True)
        open_sink(direct._mark, place).commit()
        return direct

    def open(self, file: str) -> Sink:
        """Open `file` for writing; it appears when it is complete."""
        return open_sink(self.path(file), self.filesystem)

    @property
    def _mark(self) -> str:
        return f"{self.base_dir}/_{self.prefix}"

    def is_ended(self) -> bool:
        return bool(storage_of(self.filesystem).get_file_info(self._mark).type.name == "NotFound")

    def commit(self, files: Iterable[str]) -> None:
        """Remove every other file of this write and, with "overwrite", of the directory."""
        names = sorted(set(files))
        storage = storage_of(self.filesystem)
        storage.delete_file(self._mark)
        try:
            present = files_below(self.filesystem, self.base_dir)
            check_present(names, present)
            own = {file for file in present if self._is_own(file)}
            old = [file for file in present if file not in own]
            check_contents(self.name, self.existing, old, self.suffix)
            for file in sorted(own.difference(names)):
                storage.delete_file(f"{self.base_dir}/{file}")
        except BaseException:
            self._remove_own()
            raise
        if self.existing == "overwrite":
            self._remove(old, names)

    def abandon(self) -> None:
        """Remove all new files, unless `commit` has begun, which may have removed old ones."""
        storage = storage_of(self.filesystem)
        try:
            storage.delete_file(self._mark)
        except FileNotFoundError:
            return
        self._remove_own()

    def _remove_own(self) -> None:
        storage = storage_of(self.filesystem)
        own = [file for file in files_below(self.filesystem, self.base_dir) if self._is_own(file)]
        for file in own:
            with suppress(FileNotFoundError):
                storage.delete_file(f"{self.base_dir}/{file}")
        if self.filesystem is None:
            for directory in sorted(
                {d for file in own for d in directories_of(file)}, reverse=True
            ):
                with suppress(OSError):  # it contains other files
                    os.rmdir(f"{self.base_dir}/{directory}")
            remove_empty(self.made)

    def _is_own(self, file: str) -> bool:
        return self.prefix in file.rpartition("/")[2]
