"""The columns of files as the command shows them: also those that not all files have alike."""

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
class Entry:
    """A column of the files."""

    position: int
    name: str
    type: str
    nullable: bool
    num_files: int | None = None  # that have it, if that is known
    is_key: bool = False  # of partitions: it is in the names of directories
    conflict: tuple[str, ...] = ()  # types that no type joins
    size: int | None = None

    @property
    def full_type(self) -> str:
        if self.conflict:
            return f"conflict: {' or '.join(self.conflict)}"
        return self.type if self.nullable else f"{self.type} not null"

    def to_dict(self) -> dict[str, Any]:
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


def entries_of(files: Input) -> list[Entry]:
    """The columns of all files, in their order."""
    fileset = files.fileset
    if fileset is None:
        return [
            Entry(position, field.name, str(field.type), field.nullable)
            for position, field in enumerate(files.schema)
        ]
    blocks = Counter(file.metadata.schema_block for file in fileset.files)
    try:
        fields = list(fileset.schema)
    except SchemaMismatchError:
        entries = [_entry_of(fileset, blocks, *pair) for pair in enumerate(files.names())]
    else:
        entries = [
            Entry(position, field.name, str(field.type), field.nullable)
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


def _entry_of(fileset: FileSet, blocks: Iterable[SchemaBlock], position: int, name: str) -> Entry:
    """A column, also if its types in the files do not fit together."""
    try:
        field = fileset.columns.field(name)
    except SchemaMismatchError:
        found = [(block, block.find(name)) for block in blocks]
        types = dict.fromkeys(str(block.field(at).type) for block, at in found if at >= 0)
        return Entry(position, name, "", True, conflict=tuple(types))
    return Entry(position, name, str(field.type), field.nullable)


def measure(entries: Sequence[Entry], files: Input, advance: Callable[[int], None]) -> None:
    """Let the columns have their sizes, bytes in all files; `advance` is told of bytes done."""
    fileset = files.fileset
    if fileset is None:
        raise UnsupportedError(f"sizes of columns are known of Mosaic files, not of {files.format}")
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
