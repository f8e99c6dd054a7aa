"""The key index of a file: which rows have a key, by the hash of the key.

It lies between the last bucket and the dictionaries or the annex, where other readers do not look, and
consists of blocks of 4,096 keys, the last one of fewer:

    u64le hash of each key      ascending
    u32le row number of each    ascending where hashes are equal

The annex has the columns of the key, and the first hash and a checksum of each block, so that a key
takes the read of one block. Hashes are those of `format.hashes`; those of several columns are combined.
Rows whose key has a null are not listed. Two keys may have the same hash, so readers compare the keys
of the rows that they find.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import CorruptFileError, SchemaMismatchError, UnsupportedError, located
from ..format.annex import KeySection
from ..format.hashes import can_hash, hash_values
from ..format.metadata import FileMetaData
from ..format.wire import crc32c
from ..storage.source import Source, read_ranges

_MAX_ROWS: Final = 1 << 32
_FACTOR: Final = 0x9E3779B97F4A7C15
_KEPT_BLOCKS: Final = 256  # of 48 KiB, for keys that are looked up later


def hash_keys(columns: Sequence[Any]) -> pa.Array:
    """Return the hashes of keys without nulls, of one column or several."""
    hashes = hash_values(columns[0])
    for column in columns[1:]:
        hashes = pc.bit_wise_xor(
            pc.multiply(hashes, pa.scalar(_FACTOR, pa.uint64())), hash_values(column)
        )
    return hashes


class KeyCollector:
    """Collects the keys of rows that are written, for the index."""

    def __init__(self, names: Sequence[str], schema: pa.Schema) -> None:
        self.names = tuple(names)
        for name in names:
            index = schema.get_field_index(name)
            if index < 0:
                raise SchemaMismatchError(
                    "write_key_index names a column that is not in the schema", column=name
                )
            if not can_hash(schema.field(index).type):
                raise UnsupportedError(
                    f"a key index of type {schema.field(index).type} is not supported", column=name
                )
        self._hashes: list[pa.Array] = []
        self._rows: list[pa.Array] = []
        self._num_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the keys of the rows that are written next."""
        rows = pa.array(range(self._num_rows, self._num_rows + batch.num_rows), pa.int64())
        self._num_rows += batch.num_rows
        if self._num_rows > _MAX_ROWS:
            raise UnsupportedError(f"a key index supports at most {_MAX_ROWS} rows in a file")
        columns = [batch.column(name) for name in self.names]
        if any(column.null_count for column in columns):
            valid = columns[0].is_valid()
            for column in columns[1:]:
                valid = pc.and_(valid, column.is_valid())
            columns = [column.filter(valid) for column in columns]
            rows = rows.filter(valid)
        self._hashes.append(hash_keys(columns))
        self._rows.append(rows.cast(pa.uint32()))

    def blocks(self) -> Iterator[bytes]:
        """Yield the blocks of the index."""
        keys = pa.table(
            {
                "hash": pa.chunked_array(self._hashes, pa.uint64()),
                "row": pa.chunked_array(self._rows, pa.uint32()),
            }
        )
        keys = keys.take(pc.sort_indices(keys, [("hash", "ascending"), ("row", "ascending")]))
        for start in range(0, keys.num_rows, KeySection.BLOCK_KEYS):
            part = keys.slice(start, KeySection.BLOCK_KEYS).combine_chunks()
            yield b"".join(_bytes_of(column.chunk(0)) for column in part.columns)

    def section(self, blocks: Sequence[bytes]) -> KeySection:
        """Return what the annex says about the index."""
        count = sum(map(len, blocks)) // KeySection.KEY_BYTES
        known = tuple((struct.unpack_from("<Q", block)[0], crc32c(block)) for block in blocks)
        return KeySection(self.names, count, known)


def _bytes_of(array: pa.Array) -> bytes:
    width = array.type.bit_width // 8
    return array.buffers()[1].slice(width * array.offset, width * len(array)).to_pybytes()


class KeyIndex:
    """The key index of an open file. Blocks are read when a key needs them, and some are kept."""

    def __init__(self, metadata: FileMetaData, offset: int, section: KeySection) -> None:
        self._offset = offset
        self._num_rows = metadata.num_rows
        self._section = section
        self._firsts = [first for first, _ in section.blocks]
        self._kept: dict[int, tuple[memoryview[int], memoryview[int]]] = {}
        self._turn = threading.Lock()
        if self._firsts != sorted(self._firsts) or section.count > self._num_rows:
            raise CorruptFileError(
                "the key index is not sorted, or has too many keys", part="annex"
            )

    @classmethod
    def of(cls, metadata: FileMetaData, names: Sequence[str]) -> KeyIndex | None:
        """Return the index of a file for the key columns `names`, or None."""
        found = metadata.key_index
        if found is None or found[1].names != tuple(names):
            return None
        return cls(metadata, *found)

    def rows_of(self, keys: Sequence[Any], source: Source) -> list[int]:
        """Return the numbers of rows that may have one of the keys, ascending.

        `keys` are the columns of the keys, without nulls.
        """
        return self.rows(hash_keys(keys).to_pylist(), source)

    def rows(self, hashes: Sequence[int], source: Source) -> list[int]:
        """Return the numbers of rows whose keys have one of `hashes`, ascending."""
        wanted = sorted(set(hashes))
        needed: dict[int, list[int]] = {}
        for one in wanted:
            start = max(0, bisect_left(self._firsts, one) - 1)
            for block in range(start, bisect_right(self._firsts, one)):
                needed.setdefault(block, []).append(one)
        found: set[int] = set()
        numbers = list(needed)
        with located(file=source.name, part="key index"):
            # A few blocks at a time, so that any number of keys needs bounded memory.
            for at in range(0, len(numbers), _KEPT_BLOCKS):
                for block, (own, rows) in self._read(numbers[at : at + _KEPT_BLOCKS], source):
                    for one in needed[block]:
                        first = bisect_left(own, one)
                        found.update(rows[first : bisect_right(own, one, first)])
        if found and max(found) >= self._num_rows:
            raise CorruptFileError(
                f"the key index lists row {max(found)} of {self._num_rows}", file=source.name
            )
        return sorted(found)

    def _read(
        self, blocks: Sequence[int], source: Source
    ) -> list[tuple[int, tuple[memoryview[int], memoryview[int]]]]:
        """Return the hashes and the rows of blocks."""
        with self._turn:
            known = {block: self._kept[block] for block in blocks if block in self._kept}
        missing = [block for block in blocks if block not in known]
        full = KeySection.BLOCK_KEYS
        ranges = []
        for block in missing:
            count = min(full, self._section.count - block * full)
            ranges.append(
                (self._offset + KeySection.KEY_BYTES * full * block, KeySection.KEY_BYTES * count)
            )
        for block, data in zip(missing, read_ranges(source, ranges) if ranges else (), strict=True):
            if crc32c(memoryview(data)) != self._section.blocks[block][1]:
                raise CorruptFileError(
                    f"block {block} of the key index does not match its checksum"
                )
            view = memoryview(data).cast("B")
            middle = 8 * (len(view) // KeySection.KEY_BYTES)
            known[block] = view[:middle].cast("Q"), view[middle:].cast("I")
        with self._turn:
            self._kept |= {block: known[block] for block in missing}
            while len(self._kept) > _KEPT_BLOCKS:
                del self._kept[next(iter(self._kept))]
        return [(block, known[block]) for block in blocks]
