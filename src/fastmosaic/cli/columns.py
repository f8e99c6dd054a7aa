"""The columns of files as `schema` lists them, including columns on which files disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..convert.inputs import Input
from ..dataset.fileset import FileSet
from ..errors import SchemaMismatchError, UnsupportedError
from ..file.stored import stored_bytes
from ..format.schema import SchemaBlock
from ..storage.source import open_source


@dataclass(slots=True)
class ListedColumn:
    """A column of the files.

    num_files   number of files that contain it, if known
    is_key      whether it is a partition key, which is stored in the names of directories
    conflict    types that have no common type
    size        bytes in all files, once they are measured
    """

    position: int
    name: str
    type: str
    nullable: bool
    num_files: int | None = None
    is_key: bool = False
    conflict: tuple[str, ...] = ()
    size: int | None = None

    @property
    def full_type(self) -> str:
        """The type with its nullability, or the conflict."""
        if self.conflict:
            return f"conflict: {' or '.join(self.conflict)}"
        return self.type if self.nullable else f"{self.type} not null"

    def to_dict(self) -> dict[str, Any]:
        """Return the entry for JSON."""
        return {
            "position": self.position,
            "name": self.name,
            "type": None if self.conflict else self.type,
            "nullable": self.nullable,
            **({} if self.num_files is None else {"num_files": self.num_files}),
            **({"partition": True} if self.is_key else {}),
            **({"conflict": self.conflict} if self.conflict else {}),
            **({} if self.size is None else {"size": self.size}),
        }


def entries_of(files: Input) -> list[ListedColumn]:
    """Return the columns of all files, in order."""
    fileset = files.fileset
    if fileset is None:
        return [
            ListedColumn(position, field.name, str(field.type), field.nullable)
            for position, field in enumerate(files.schema)
        ]
    blocks = Counter(file.metadata.schema_block for file in fileset.files)
    try:
        fields = list(fileset.schema)
    except SchemaMismatchError:
        entries = [_entry_of(fileset, blocks, *pair) for pair in enumerate(files.names())]
    else:
        entries = [
            ListedColumn(position, field.name, str(field.type), field.nullable)
            for position, field in enumerate(fields)
        ]
    counts: Counter[str] = Counter()
    for block, count in blocks.items() if len(blocks) > 1 else ():
        counts.update(dict.fromkeys(block.names(), count))
    keys = set(fileset.partitions.names)
    for entry in entries:
        entry.is_key = entry.name in keys
        entry.num_files = counts.get(entry.name, len(fileset.files))
    return entries


def _entry_of(
    fileset: FileSet, blocks: Iterable[SchemaBlock], position: int, name: str
) -> ListedColumn:
    """Return a column, even if its types in the files have no common type."""
    try:
        field = fileset.columns.field(name)
    except SchemaMismatchError:
        found = [(block, block.find(name)) for block in blocks]
        types = dict.fromkeys(str(block.field(at).type) for block, at in found if at >= 0)
        return ListedColumn(position, name, "", True, conflict=tuple(types))
    return ListedColumn(position, name, str(field.type), field.nullable)


def measure(entries: Sequence[ListedColumn], files: Input, advance: Callable[[int], None]) -> None:
    """Set the sizes of the columns; `advance` is called with the number of bytes that are done."""
    fileset = files.fileset
    if fileset is None:
        raise UnsupportedError(
            f"sizes of columns are available for Mosaic files only, not for {files.format}"
        )
    for entry in entries:
        entry.size = None if entry.is_key else 0
    for file in fileset.files:
        block = file.metadata.schema_block
        by_position = {block.find(entry.name): entry for entry in entries}
        by_position.pop(-1, None)
        source = open_source(file.found.path, file.found.filesystem, size=file.found.size)
        try:
            for group in range(file.metadata.num_row_groups):
                sizes = stored_bytes(source, file.metadata, group, by_position)
                for position, size in sizes.items():
                    entry = by_position[position]
                    entry.size = size + (entry.size or 0)
        finally:
            source.close()
        advance(file.size)
