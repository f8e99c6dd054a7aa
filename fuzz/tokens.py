"""The decompressed parts of a file as lists of tokens, which mutations change one by one.

A token is a kind and a value. Lengths and checksums are not tokens: `encode` computes them, so that
a changed part still has a right length and a right checksum.

    u8, uv, zz, le4   a number
    raw               bytes: a value, a bitmap, packed indices
    str               bytes with their length before them
    part              tokens with their length before them
    block             tokens with their length before them and their CRC-32C behind them

A part that cannot be parsed, because a mutation has broken it, becomes one token of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, TypeAlias

import array_reference
import pyarrow as pa
import reference
from reference import (
    ARRAY,
    ARRAY_BLOCK,
    CONST,
    DECIMAL,
    DICT,
    MAP,
    PLAIN,
    TIME,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    WITH_LENGTH,
    require,
    take,
)

from fastmosaic.format.wire import crc32c

Token: TypeAlias = tuple[str, Any]
Tokens: TypeAlias = list[Token]

MAX_TOKENS = 4000  # a part of more values stays in one piece

# What goes wrong when tokens are made of broken bytes.
BROKEN = (
    *(ValueError, TypeError, LookupError, OverflowError, RecursionError, MemoryError),
    pa.ArrowException,
)


def encode(tokens: Tokens) -> bytes:
    return b"".join(map(_encode, tokens))


def _encode(token: Token) -> bytes:
    kind, value = token
    match kind:
        case "raw":
            return value
        case "uv":
            return reference.uv(value)
        case "u8":
            return bytes([value & 0xFF])
        case "str":
            return reference.sized(value)
        case "zz":
            return reference.zz(value)
        case "le4":
            return (value & 0xFFFFFFFF).to_bytes(4, "little")
        case "part":
            return reference.sized(encode(value))
        case "block":
            body = encode(value)
            return reference.sized(body + crc32c(body).to_bytes(4, "little"))
    raise ValueError(f"unknown kind {kind}")


def parsed(data: bytes, parse: Callable[..., Tokens], *arguments: Any) -> Tokens:
    """Return the tokens of `data`; one token of bytes if it is broken."""
    stream = BytesIO(data)
    try:
        tokens = parse(stream, *arguments)
    except BROKEN:
        return [("raw", data)]
    if rest := stream.read():
        tokens.append(("raw", rest))
    # Varints that are not minimal would come out shorter.
    return tokens if encode(tokens) == data else [("raw", data)]


def uv(stream: BytesIO) -> Token:
    return ("uv", reference.read_uv(stream))


def text(stream: BytesIO) -> Token:
    return ("str", reference.read_sized(stream))


# ---- schema block


def schema(stream: BytesIO) -> Tokens:
    tokens = [uv(stream), uv(stream), ("u8", take(stream, 1)[0])]
    num_columns = tokens[0][1]
    require(num_columns < MAX_TOKENS, "too many columns")
    if tokens[2][1] == 1:
        tokens.append(uv(stream))
        tokens.append(("raw", take(stream, 2 * tokens[-1][1])))
    for _ in range(num_columns):
        tokens += [uv(stream), text(stream), *descriptor(stream)]
    if stream.tell() < len(stream.getbuffer()):
        tokens += [("zz", reference.read_zz(stream)) for _ in range(num_columns)]
    return tokens


def size_of_names(parts: Tokens) -> int:
    """Return how long all names are, which may be much more than their bytes: rules can double."""
    if len(parts) < 5 or parts[2] != ("u8", 1):
        return sum(len(value) for kind, value in parts if kind == "str")
    sizes = [1] * 128
    for left, right in zip(parts[4][1][::2], parts[4][1][1::2], strict=True):
        sizes.append(sum(sizes[one] if one < len(sizes) else 1 for one in (left, right)))
    longest = max(sizes)
    return sum(longest * len(value) for kind, value in parts if kind == "str")


def descriptor(stream: BytesIO) -> Tokens:
    number, nullable = take(stream, 2)
    tokens: Tokens = [("u8", number), ("u8", nullable)]
    if number in WITH_LENGTH or number in (TIME, TIMESTAMP):
        tokens.append(uv(stream))
    elif number == DECIMAL:
        tokens += [uv(stream), uv(stream)]
    elif number == TIMESTAMP_LTZ:
        tokens += [uv(stream), text(stream)]
    elif number in (ARRAY, ARRAY_BLOCK):
        tokens += [text(stream), *descriptor(stream)]
    elif number == MAP:
        tokens += [text(stream), text(stream), *descriptor(stream)]
        tokens += [text(stream), *descriptor(stream)]
    else:
        require(number in reference.SIMPLE, "unknown type")
    return tokens


# ---- buckets


def value(stream: BytesIO, arrow: pa.DataType) -> Token:
    size = reference.width(arrow)
    return ("raw", take(stream, size)) if size else text(stream)


def table(stream: BytesIO, encoding: int, arrow: pa.DataType) -> Tokens:
    if encoding == CONST:
        return [value(stream, arrow)]
    if encoding != DICT:
        return []
    count = uv(stream)
    require(count[1] < MAX_TOKENS, "too many entries")
    return [count, *(value(stream, arrow) for _ in range(count[1]))]


def bitmap(stream: BytesIO, num_rows: int) -> tuple[Tokens, int]:
    """Return the bitmap, and how many rows are not null."""
    packed = take(stream, (num_rows + 7) // 8)
    bits = int.from_bytes(packed, "little") & ((1 << num_rows) - 1)
    return [("raw", packed)], num_rows - bits.bit_count()


def rows(
    stream: BytesIO, encoding: int, arrow: pa.DataType, num_entries: int, count: int
) -> Tokens:
    if encoding == PLAIN and reference.is_block(arrow):
        data = reference.read_sized(stream)
        form = reference.block_form(arrow.storage_type.value_type)
        return [("block", parsed(data[:-4], array_block, form))]
    if encoding == PLAIN:
        require(count < MAX_TOKENS, "too many values")
        return [value(stream, arrow) for _ in range(count)]
    if encoding == DICT:
        return [("raw", take(stream, (reference.index_width(num_entries) * count + 7) // 8))]
    return []


def monolithic(
    stream: BytesIO, types: Sequence[pa.DataType], num_primary: int, num_rows: int
) -> Tokens:
    tokens: Tokens = []
    counts = [num_rows] * num_primary
    if len(types) > num_primary:
        tokens += [uv(stream), uv(stream)]
        require(tokens[1][1] == len(types) - num_primary, "children differ from the schema")
        tokens += [uv(stream) for _ in types[num_primary:]]
        counts += [count for _, count in tokens[2:]]
    packed, flags = take(stream, (len(types) + 3) // 4), take(stream, (len(types) + 7) // 8)
    tokens += [("raw", packed), ("raw", flags)]
    encodings = reference.unpack_bits(packed, 2, len(types))
    has_nulls = reference.unpack_bits(flags, 1, len(types))
    entries = [0] * len(types)
    for section in (CONST, DICT):
        for i, encoding in enumerate(encodings):
            if encoding == section:
                made = table(stream, encoding, types[i])
                entries[i] = len(made) - (encoding == DICT)
                tokens += made
    for i, encoding in enumerate(encodings):
        if has_nulls[i] and encoding in (PLAIN, CONST, DICT):
            made, counts[i] = bitmap(stream, counts[i])
            tokens += made
    for i, encoding in enumerate(encodings):
        tokens += rows(stream, encoding, types[i], entries[i], counts[i])
    return tokens


def page(stream: BytesIO, arrow: pa.DataType, num_rows: int) -> Tokens:
    encoding, flags = take(stream, 2)
    entries = table(stream, encoding, arrow)
    tokens: Tokens = [("u8", encoding), ("u8", flags), *entries]
    count = num_rows
    if flags & 1:
        made, count = bitmap(stream, num_rows)
        tokens += made
    return tokens + rows(stream, encoding, arrow, len(entries) - (encoding == DICT), count)


# ---- array data blocks


def array_block(stream: BytesIO, form: str | int) -> Tokens:
    tokens = [uv(stream), uv(stream)]
    tokens += [("part", parsed(reference.read_sized(stream), runs, width)) for width in (1, 16, 1)]
    if form == "binary":
        ordinal, count, end = (("le4", array_reference.read_u32(stream)) for _ in range(3))
        tokens += [ordinal, count, end, ("raw", take(stream, max(0, end[1] - 12)))]
        return tokens
    tokens += [("le4", array_reference.read_u32(stream)) for _ in range(2)]
    count = tokens[-2][1]
    if form == "bool":
        return [*tokens, ("raw", take(stream, (count + 7) // 8))]
    require(count < MAX_TOKENS, "too many elements")
    return tokens + [("raw", take(stream, int(form))) for _ in range(count)]


def runs(stream: BytesIO, width: int) -> Tokens:
    tokens: Tokens = []
    size = len(stream.getbuffer())
    while stream.tell() < size:
        tokens.append(uv(stream))
        indicator = tokens[-1][1]
        if indicator % 2:
            tokens.append(("raw", stream.read(indicator // 2 * width)))
        else:
            tokens.append(("raw", take(stream, (width + 7) // 8)))
    return tokens


# ---- row group index and annex


def statistics(stream: BytesIO, types: Sequence[pa.DataType], num_rows: int) -> Tokens:
    tokens = [uv(stream)]
    require(tokens[0][1] < MAX_TOKENS, "too many statistics")
    for _ in range(tokens[0][1]):
        position, nulls = uv(stream), uv(stream)
        tokens += [position, nulls]
        if nulls[1] < num_rows:
            tokens += [value(stream, types[position[1]]) for _ in range(2)]
    return tokens


def numbers(stream: BytesIO) -> Tokens:
    """Checksums: numbers of four bytes."""
    size = len(stream.getbuffer()) // 4
    return [("le4", array_reference.read_u32(stream)) for _ in range(size)]
