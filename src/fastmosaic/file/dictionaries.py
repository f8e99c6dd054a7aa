"""Dictionaries of the user: their values, in the order in which the user had them.

A column of a dictionary type is stored as its values. Their order in the dictionary, and values that
no row has, are kept in a Mosaic file of its own, between the last bucket and the annex, where other
readers do not look. It has a column of lists for each dictionary, with all values in order, and is read
only when such a column is. The name of the column is the path of the dictionary: the column, and the
fields inside it, separated by U+001F.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa
from pyarrow import types

from ..errors import CorruptFileError, MemoryLimitError, UnsupportedError, located
from ..format.distinct_values import distinct, is_distinct, is_subsequence
from ..format.metadata import FileMetaData
from ..format.paths import Path
from ..format.plain_arrays import to_plain
from ..format.types import is_list, is_simple, plain_type
from ..format.user_arrays import Dictionaries
from ..format.user_schema import map_dictionaries
from ..memory import Memory
from ..storage.source import Source
from ..threads import REMOTE_THREADS, map_in_order
from .opening import read_end
from .scan import Scanner, ScanRequest

_SEPARATOR: Final = "\x1f"
_MAX_SINGLE: Final = 16  # dictionaries that are read one by one
# Values of dictionaries are distinct, so that they do not compress as well as others.
_MAX_EXPANSION: Final = 1000
_SMALL: Final = 64 << 20
_LIST_ROWS: Final = 65536  # values in a row, so that row groups stay small
_WIDE_BITS: Final = 32  # indices of dictionaries that no dataset exceeds
_INDEX_TYPES: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


class FileDictionaries:
    """The dictionaries in a file, read on first use."""

    def __init__(self, source: Source, metadata: FileMetaData) -> None:
        self._source = source
        self._metadata = metadata
        self._found: dict[str, pa.Array] = {}
        self._opened: tuple[FileMetaData, Scanner] | None = None
        self._turn = threading.Lock()

    @property
    def is_local(self) -> bool:
        return self._source.is_local

    def find(self, path: Path) -> pa.Array | None:
        """Return the values of the dictionary at `path`, or None if there is none."""
        name = _SEPARATOR.join(path)
        place = self._metadata.dictionaries
        if place is None:
            return None
        with self._turn, located(file=self._source.name, part="dictionaries"):
            if self._opened is None:
                inner = part_of(self._source, *place)
                metadata, tail = read_end(inner)
                if metadata.dictionaries is not None:
                    raise CorruptFileError("there are dictionaries inside the dictionaries")
                self._opened = metadata, Scanner(inner, metadata, tail)
            metadata, scanner = self._opened
            if name not in self._found and metadata.columns.find(name) is not None:
                # A query that needs many of them usually needs all, and together is faster.
                names = [name] if len(self._found) < _MAX_SINGLE else metadata.columns.names()
                self._found |= _read(metadata, scanner, names, place[1])
            return self._found.get(name)

    def fitted(self, type: pa.DataType, path: Path) -> pa.DataType:
        """Return `type`: the writer has chosen indices that are wide enough."""
        return type


def _read(
    metadata: FileMetaData, scanner: Scanner, names: Sequence[str], size: int
) -> dict[str, pa.Array]:
    """Read dictionaries by the names of their columns, from a file of `size` bytes."""
    projection = metadata.columns.projection(metadata.columns.select(names))
    for field in projection.schema:
        if not types.is_list(field.type):
            raise CorruptFileError("a dictionary is not stored as lists", column=field.name)
    groups = range(metadata.num_row_groups)
    memory = Memory(max(_SMALL, _MAX_EXPANSION * size))
    try:
        batches = scanner.read(ScanRequest(projection, use_threads=False), groups, memory)
    except MemoryLimitError as error:
        raise CorruptFileError(f"a dictionary of {size} bytes is too large: {error}") from error
    found = {}
    for place, field in enumerate(projection.schema):
        lists = [batch.column(place) for batch in batches]
        chunks = [one.flatten() for one in lists]
        values = pa.concat_arrays(chunks or [pa.nulls(0, field.type.value_type)])
        if any(one.null_count for one in lists) or not is_distinct(values):
            raise CorruptFileError(
                "a dictionary contains a value twice, or null", column=field.name
            )
        found[field.name] = values
    return found


def part_of(source: Source, offset: int, size: int) -> Source:
    """Return a part of a file as a file of its own."""
    return Source(
        source.name,
        size,
        is_local=source.is_local,
        read=lambda start, length: source.read_at(offset + start, length),
    )


class StoredDictionaries(Dictionaries, Protocol):
    """Dictionaries that are read from a file."""

    @property
    def is_local(self) -> bool: ...


class WithDictionaries(Protocol):
    """A file that may have dictionaries."""

    @property
    def dictionaries(self) -> StoredDictionaries | None: ...


class ManyDictionaries:
    """The dictionaries of many files.

    If the dictionary of one file has all values, and the order of all others, it is that of
    all. Otherwise, values that a file does not share follow those before it.
    """

    def __init__(self, files: Sequence[WithDictionaries]) -> None:
        self._files = files
        self._found: dict[Path, tuple[pa.Array | None, bool]] = {}

    def find(self, path: Path) -> pa.Array | None:
        """Return the values of the dictionary at `path`, or None if no file has one."""
        return self._look_up(path)[0]

    def fitted(self, type: pa.DataType, path: Path) -> pa.DataType:
        """Return `type` with wider indices if they are needed, and ordered only if all files agree."""
        is_wide = type.index_type.bit_width >= _WIDE_BITS
        if len(self._files) == 1 or (is_wide and not type.ordered):
            return type  # without reading dictionaries
        values, in_order = self._look_up(path)
        index = wide_enough(type.index_type, 0 if values is None else len(values))
        return pa.dictionary(index, type.value_type, type.ordered and in_order)

    def _look_up(self, path: Path) -> tuple[pa.Array | None, bool]:
        """Return the values of a dictionary, and whether they are in the order of all files."""
        if path not in self._found:
            self._found[path] = _united(self._read(path))
        return self._found[path]

    def _read(self, path: Path) -> list[pa.Array]:
        """Return the distinct dictionaries at `path`."""

        given = (file.dictionaries for file in self._files)
        files = [one for one in given if one is not None]
        every = map_in_order(
            lambda file: file.find(path),
            files,
            not all(file.is_local for file in files),
            purpose="dictionaries",
            threads=REMOTE_THREADS,
        )
        parts: list[pa.Array] = []
        for values in every:
            if values is not None and not any(values.equals(part) for part in parts):
                parts.append(values)
        return [part for part in parts if part.type == parts[0].type]


def _united(parts: Sequence[pa.Array]) -> tuple[pa.Array | None, bool]:
    """Return the values of several dictionaries, and whether they are in the order of all."""
    if not parts:
        return None, True
    longest = max(parts, key=len)
    if all(part is longest or is_subsequence(part, longest) for part in parts):
        return longest, True
    return distinct(pa.concat_arrays(parts)), False


class DictionaryCollector:
    """Collects the dictionaries of batches that are written.

    If batches have different dictionaries, values that are new are appended to the ones before.
    """

    def __init__(self, schema: pa.Schema) -> None:
        columns = (
            (field.name, dict(dictionaries_in(field.type, (field.name,))))
            for field in schema
            if not is_simple(field.type)
        )
        self._columns = [(name, paths) for name, paths in columns if paths]
        self._known: dict[Path, pa.Array] = {}

    def __bool__(self) -> bool:
        """Return whether there are columns with dictionaries."""
        return bool(self._columns)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the dictionaries of a batch."""
        for name, paths in self._columns:
            self._add_column(name, paths, batch.column(name))

    def add_table(self, table: pa.Table) -> None:
        """Add the dictionaries of a table, also those of chunks without rows."""
        for name, paths in self._columns:
            for chunk in table.column(name).chunks:
                self._add_column(name, paths, chunk)

    def _add_column(self, name: str, paths: dict[Path, pa.DataType], array: pa.Array) -> None:
        for path, values in _values_in(array, (name,)):
            if path in paths:
                self._add(path, to_plain(values, plain_type(paths[path].value_type)))

    def add_all(self, dictionaries: Dictionaries) -> None:
        """Add the dictionaries of another file."""
        for _, paths in self._columns:
            for path in paths:
                found = dictionaries.find(path)
                if found is not None:
                    self._add(path, found)

    def find(self, path: Path) -> pa.Array | None:
        """Return the values of the dictionary at `path` so far, or None if there are none."""
        return self._known.get(path)

    def _add(self, path: Path, values: pa.Array) -> None:
        known = self._known.get(path)
        if known is None:
            self._known[path] = distinct(values)
        elif not known.slice(0, len(values)).equals(values):
            self._known[path] = distinct(pa.concat_arrays([known, values]))

    def table(self) -> pa.Table | None:
        """Return the table to store: a column for each dictionary."""
        if not self._known:
            return None
        rows = max(-(-len(values) // _LIST_ROWS) for values in self._known.values())
        columns = {
            _SEPARATOR.join(path): _in_lists(values, max(1, rows))
            for path, values in self._known.items()
        }
        if len(columns) < len(self._known):
            raise UnsupportedError("names of columns with dictionaries must not contain U+001F")
        return pa.table(columns)

    def widened(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the user, with wider indices where the dictionaries need them."""
        if not self._known:
            return schema
        for place, field in enumerate(schema):
            type = map_dictionaries(field.type, self.fitted, (field.name,))
            if type != field.type:
                schema = schema.set(place, field.with_type(type))
        return schema

    def fitted(self, type: pa.DataType, path: Path) -> pa.DataType:
        """Return a dictionary type with wider indices, if the values at `path` need them."""
        index = wide_enough(type.index_type, len(self._known.get(path, ())))
        return pa.dictionary(index, type.value_type, type.ordered)


def wide_enough(index: pa.DataType, size: int) -> pa.DataType:
    """Return `index`, or a wider type for indices, that can refer to `size` values."""
    return next(one for one in (index, *_INDEX_TYPES) if size <= _capacity(one))


def _capacity(index: pa.DataType) -> int:
    """Return how many values indices of this type can refer to."""
    return 1 << (index.bit_width - types.is_signed_integer(index))


def _in_lists(values: pa.Array, rows: int) -> pa.Array:
    """Return `rows` lists of values, of which the last ones may be empty."""
    ends = [min(len(values), row * _LIST_ROWS) for row in range(rows + 1)]
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)


def dictionaries_in(type: pa.DataType, path: Path) -> Iterator[tuple[Path, pa.DataType]]:
    """Yield the dictionaries in a type, each with its path."""
    if is_simple(type):
        return
    if isinstance(type, pa.BaseExtensionType):
        yield from dictionaries_in(type.storage_type, path)
    elif types.is_dictionary(type):
        yield path, type
    elif types.is_run_end_encoded(type):
        yield from dictionaries_in(type.value_type, path)
    else:
        for field in _fields(type):
            yield from dictionaries_in(field.type, (*path, field.name))


def _fields(type: pa.DataType) -> Sequence[pa.Field]:
    if types.is_struct(type):
        return list(type)
    if types.is_map(type):
        return [type.key_field, type.item_field]
    return [type.value_field] if is_list(type) else []


def _values_in(array: pa.Array, path: Path) -> Iterator[tuple[Path, pa.Array]]:
    """Yield the values of the dictionaries in an array, each with its path."""
    type = array.type
    if isinstance(type, pa.BaseExtensionType):
        yield from _values_in(array.storage, path)
    elif types.is_dictionary(type):
        yield path, array.dictionary
    elif types.is_run_end_encoded(type):
        yield from _values_in(array.values, path)
    elif types.is_map(type):
        for child, field in ((array.keys, type.key_field), (array.items, type.item_field)):
            yield from _values_in(child, (*path, field.name))
    elif types.is_struct(type):
        for number, field in enumerate(type):
            yield from _values_in(array.field(number), (*path, field.name))
    elif is_list(type):
        yield from _values_in(array.values, (*path, type.value_field.name))
