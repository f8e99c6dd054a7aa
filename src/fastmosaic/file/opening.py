"""Open a file: the steps from its last bytes to its metadata.

Reading stops at the first step that fails. `verify` records the failure and takes the steps that
are still possible.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from ..errors import CorruptFileError, MosaicError, Place
from ..format.annex import Annex, Checksums
from ..format.footer import Footer
from ..format.metadata import FileMetaData
from ..format.schema import SchemaBlock
from ..format.wire import Compression, decompress, is_suspicious
from ..storage.source import Source

# Usually covers all metadata, so that opening a file takes one read. For remote files a second read
# costs more than many bytes: 120 row groups of 100 buckets have an index of 170 KiB.
TAIL_BYTES_LOCAL: Final = 64 << 10
TAIL_BYTES_REMOTE: Final = 1 << 20
# Read before a schema block that the tail does not reach; covers most annexes.
ANNEX_BYTES: Final = 4 << 10

_KEY_BYTES: Final = 64  # at the end of a schema block

SchemaDecoder: TypeAlias = Callable[[pa.Buffer, Compression], SchemaBlock]
Step: TypeAlias = tuple[Place, Callable[[], None]]


@dataclass(frozen=True, slots=True)
class End:
    """The last bytes of a file, starting before its schema block."""

    footer: Footer
    size: int  # of the file
    tail: pa.Buffer  # the first read
    held: pa.Buffer  # the tail, and what was missing before it

    @classmethod
    def read(cls, source: Source) -> End:
        size = source.size
        start = max(0, size - (TAIL_BYTES_LOCAL if source.is_local else TAIL_BYTES_REMOTE))
        tail = source.read_at(start, size - start)
        footer = Footer.decode(tail, size)
        if max(0, footer.schema_offset - Annex.TRAILER.size) >= start:
            return cls(footer, size, tail, tail)
        first = max(0, footer.schema_offset - ANNEX_BYTES)
        front = source.read_at(first, start - first)
        held = pa.py_buffer(b"".join((front, tail)))
        return cls(footer, size, tail, held)

    @property
    def schema(self) -> pa.Buffer:
        """The bytes of the schema block."""
        return self._slice(self.footer.schema_offset, self.footer.index_offset)

    @property
    def index(self) -> bytes:
        """The bytes of the row group index."""
        return self._between(self.footer.index_offset, self.size - Footer.SIZE)

    def annex(self, source: Source) -> Annex | None:
        """Decode the annex, if there is one."""
        end = self.footer.schema_offset
        trailer = self._between(max(0, end - Annex.TRAILER.size), end)
        size = Annex.size_in(trailer)
        if not Annex.TRAILER.size <= size <= end:
            if self.footer.has_annex:
                fact = f"it claims to have {size} bytes" if size else "there is none"
                raise CorruptFileError(f"{fact}, but the footer has the flag for one")
            return None
        start = end - size
        if start >= self.size - self.held.size:
            data = self._between(start, end)
        else:
            data = source.read_at(start, size).to_pybytes()
        if self.footer.has_annex:
            return Annex.decode(data, start)
        try:
            checksums = Annex.decode(data, start).checksums
        except CorruptFileError:
            checksums = None
        if checksums is None:
            return None  # data that happens to end like an annex
        raise CorruptFileError("there is one, but the footer lacks the flag for it")

    def check(self, checksums: Checksums) -> None:
        """Raise CorruptFileError unless the row group index and the footer match `checksums`."""
        checksums.check(self.index, self._between(self.size - Footer.SIZE, self.size))

    def _between(self, start: int, end: int) -> bytes:
        """Return the bytes between two offsets in the file."""
        return self._slice(start, end).to_pybytes()

    def _slice(self, start: int, end: int) -> pa.Buffer:
        return self.held.slice(start - (self.size - self.held.size), end - start)


class SchemaCache:
    """Decoded schema blocks: files with the same schema usually share one.

    Whole blocks are compared, so a file cannot get the schema of another one.

    Parameters
    ----------
    decode : callable, optional
        Decodes a block that is not in the cache; by default with the cache of the process.
    size : int, optional
        How many blocks to keep, those that were used last; by default all.
    """

    def __init__(self, decode: SchemaDecoder | None = None, size: int | None = None) -> None:
        self._decode = decode or SCHEMAS.decode
        self._size = size
        self._blocks: dict[tuple[bytes, Compression], tuple[pa.Buffer, SchemaBlock]] = {}
        self._turn = threading.Lock()

    def decode(self, block: pa.Buffer, compression: Compression) -> SchemaBlock:
        """Return the columns of a schema block, compressed or not."""
        # The end of a frame is its checksum. Blocks that differ only before it share one place.
        key = block.slice(max(0, block.size - _KEY_BYTES)).to_pybytes(), compression
        with self._turn:
            found = self._blocks.pop(key, None)
            if found is None or not found[0].equals(block):
                found = _without_surroundings(block), self._decode(block, compression)
            self._blocks[key] = found
            if self._size is not None and len(self._blocks) > self._size:
                del self._blocks[next(iter(self._blocks))]
        return found[1]

    def clear(self) -> None:
        self._blocks.clear()

    def __reduce__(self) -> tuple[type[SchemaCache], tuple[()]]:
        return SchemaCache, ()  # whatever refers to a schema carries it


def _without_surroundings(block: pa.Buffer) -> pa.Buffer:
    """Return a buffer with the same bytes that does not keep many others in memory."""
    if block.parent is None or block.parent.size <= 2 * block.size:
        return block
    return pa.py_buffer(block.to_pybytes())


def decode_schema(block: pa.Buffer, compression: Compression) -> SchemaBlock:
    """Decode a schema block, compressed or not."""
    if compression == Compression.NONE:
        return SchemaBlock.decode(block.slice(4).to_pybytes())
    frame = memoryview(block).cast("B")[4:]
    size = int.from_bytes(block.slice(0, 4), "big")
    if is_suspicious(len(frame), size):  # names differ from each other: they compress less
        raise CorruptFileError(f"it declares {size} bytes, compressed to {len(frame)}")
    return SchemaBlock.decode(decompress(frame, size))


# Programs often open the same files again.
SCHEMAS: Final = SchemaCache(decode_schema, size=8)


class Opening:
    """A file that is being opened: the steps, and what they have found so far."""

    def __init__(self, source: Source, decode: SchemaDecoder | None = None) -> None:
        self._source = source
        self._decode = decode or SCHEMAS.decode
        self.end: End | None = None
        self.annex: Annex | None = None
        self.has_checksums = False
        self.is_checked = False  # whether index and footer match the checksums of the annex
        self.schema: SchemaBlock | None = None
        self.metadata: FileMetaData | None = None

    def steps(self) -> Iterator[Step]:
        """Yield the steps, each with the part of the file that it reads.

        The caller must call each step before it asks for the next one. Steps that need the result
        of one that failed are left out.
        """
        yield {}, self._read_end
        end = self.end
        if end is None:
            return
        footer = end.footer
        at_annex: Place = {"part": "annex", "offset": footer.schema_offset}
        yield at_annex, lambda: self._read_annex(end)
        if self.annex is not None and self.annex.checksums is not None:
            checksums = self.annex.checksums
            self.has_checksums = True
            yield at_annex, lambda: self._check(end, checksums)
        at_schema: Place = {"part": "schema block", "offset": footer.schema_offset}
        yield at_schema, lambda: self._decode_schema(end)
        if (schema := self.schema) is None:
            return
        at_index: Place = {"part": "row group index", "offset": footer.index_offset}
        yield at_index, lambda: self._decode_index(end, schema)

    def _read_end(self) -> None:
        self.end = End.read(self._source)

    def _read_annex(self, end: End) -> None:
        self.annex = end.annex(self._source)

    def _check(self, end: End, checksums: Checksums) -> None:
        end.check(checksums)
        self.is_checked = True

    def _decode_schema(self, end: End) -> None:
        schema = self._decode(end.schema, end.footer.compression)
        if schema.num_buckets != end.footer.num_buckets:
            raise CorruptFileError(
                f"it has {schema.num_buckets} buckets, but the footer says {end.footer.num_buckets}"
            )
        self.schema = schema

    def _decode_index(self, end: End, schema: SchemaBlock) -> None:
        self.metadata = FileMetaData(end.footer, schema, end.index, self.annex)


def read_end(source: Source, decode: SchemaDecoder | None = None) -> tuple[FileMetaData, pa.Buffer]:
    """Return the metadata of a file, and the last bytes of it that were read first."""
    opening = Opening(source, decode)
    place: Place = {}
    try:
        for place, step in opening.steps():  # noqa: B007
            step()
    except MosaicError as error:
        error.locate(**place)
        error.locate(file=source.name)
        raise
    assert opening.end is not None
    assert opening.metadata is not None
    return opening.metadata, opening.end.tail
