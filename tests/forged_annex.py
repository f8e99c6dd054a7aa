"""Files whose annex says anything about the columns that they store."""

import struct

import pyarrow as pa
from files import written
from reference import sized, uv

from fastmosaic.format._crc import crc32c

ANNEX, TYPES = 1, 2  # flags of the footer


def annex(sections: list[tuple[int, bytes]]) -> bytes:
    """An annex of sections `(kind, body)`, with the right checksum."""
    body = b"".join(bytes([kind]) + sized(content) for kind, content in sections)
    return body + struct.pack("<II4s", crc32c(body), len(body) + 12, b"MOSX")


def forged(
    stored: pa.Table,
    message: pa.Schema | bytes | None,
    *,
    common: pa.Schema | None = None,
    dictionaries: bytes = b"",
    size: int | None = None,
    flags: int = ANNEX | TYPES,
    **options: object,
) -> bytes:
    """A file of the columns of `stored`, whose annex restores the types of `message`.

    `common` are types of columns that it does not list, `dictionaries` is the file of dictionaries, and `size` what the annex says about its size.
    """
    data = written(stored, **{"compression": "none", "annex": False, **options})
    if isinstance(message, pa.Schema):
        message = message.serialize().to_pybytes()
    sections = [] if message is None else [(2, message)]
    if common is not None:
        sections.append((7, common.serialize().to_pybytes()))
    if dictionaries or size is not None:
        sections.append((6, uv(len(dictionaries) if size is None else size)))
    added = dictionaries + annex(sections)
    index_at, schema_at = struct.unpack(">QQ", data[-32:-16])
    footer = struct.pack(">QQ", index_at + len(added), schema_at + len(added)) + data[-16:-6]
    return (
        data[:schema_at] + added + data[schema_at:-32] + footer + struct.pack(">H", flags) + b"MOSA"
    )
