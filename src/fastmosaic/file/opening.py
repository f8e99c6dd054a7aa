"""Open a file: the steps from its last bytes to its metadata.

Reading stops at the first step that fails. `verify` records the failure and takes the steps that
are still possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
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

SchemaDecoder: TypeAlias = Callable[[bytes, Compression], SchemaBlock]
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
        start = max(0, source.size - (TAIL_BYTES_LOCAL if source.is_local else TAIL_BYTES_REMOTE))
        tail = source.read_at(start, source.size - start)
        footer = Footer.decode(tail, source.size)
        if max(0, footer.schema_offset - Annex.TRAILER.size) >= start:
            return cls(footer, source.size, tail, tail)
        first = max(0, footer.schema_offset - ANNEX_BYTES)
        front = source.read_at(first, start - first)
        held = pa.py_buffer(front.to_pybytes() + tail.to_pybytes())
        return cls(footer, source.size, tail, held)

    @property
    def schema(self) -> bytes:
        """The bytes of the schema block."""
        return self._between(self.footer.schema_offset, self.footer.index_offset)

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
        return self.held.slice(start - (self.size - self.held.size), end - start).to_pybytes()


# The files of a dataset usually share one schema, which is then decoded once. The cache compares
# whole blocks, so a file cannot get the schema of another one.
@lru_cache(maxsize=8)
def decode_schema(block: bytes, compression: Compression) -> SchemaBlock:
    """Decode a schema block, compressed or not."""
    body = block[4:]
    if compression == Compression.ZSTD:
        size = int.from_bytes(block[:4], "big")
        if is_suspicious(len(body), size):  # names differ from each other: they compress less
            raise CorruptFileError(f"it declares {size} bytes, compressed to {len(body)}")
        body = decompress(body, size)
    return SchemaBlock.decode(body)


class Opening:
    """A file that is being opened: the steps, and what they have found so far."""

    def __init__(self, source: Source, decode: SchemaDecoder | None = None) -> None:
        self._source = source
        self._decode = decode or decode_schema
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
