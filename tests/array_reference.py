"""Kudu's array data block in plain, slow Python: the oracle of its tests.

Written from the specification alone. A cell is None or a list, an element is None or its bytes
(a boolean: True or False). The form of the elements is "bool", "binary", or their width in bytes.
Broken input raises ValueError. Section numbers are those of the specification.
"""

from __future__ import annotations

from io import BytesIO
from itertools import accumulate, groupby, pairwise

from reference import pack_bits, require, sized, take, unpack_bits, uv

Form = str | int
Element = bytes | bool | None
Cells = list[list[Element] | None]


def u32(number: int) -> bytes:
    return number.to_bytes(4, "little")


def read_u32(stream: BytesIO) -> int:
    return int.from_bytes(take(stream, 4), "little")


def read_uv(stream: BytesIO) -> int:
    number = 0
    for shift in range(0, 35, 7):
        (byte,) = take(stream, 1)
        number += byte % 0x80 << shift
        if byte < 0x80:
            require(number < 1 << 32, "a varint of more than 32 bits")
            return number
    raise ValueError("a varint of more than five bytes")


# --- §3 Runs ---------------------------------------------------------------------------------


def encode_runs(values: list[int], width: int) -> bytes:
    out = b""
    literal: list[int] = []

    def close() -> None:
        nonlocal out, literal
        if literal:
            out += uv((len(literal) + 7) // 8 * 2 + 1) + pack_bits(literal, width)
        literal = []

    while values:
        group = values[:8]
        if len(set(group)) == 1 and (len(group) == 8 or not literal):
            close()
            count = len(list(next(groupby(values))[1]))
            out += uv(2 * count) + group[0].to_bytes((width + 7) // 8, "little")
            values = values[count:]
        else:
            literal += group
            values = values[8:]
            if len(literal) == 63 * 8:
                close()
    close()
    return out


def decode_runs(data: bytes, width: int, count: int) -> list[int]:
    stream = BytesIO(data)
    values: list[int] = []
    while stream.tell() < len(data):
        missing = count - len(values)
        require(missing, "a run too many")
        indicator = read_uv(stream)
        require(indicator < 1 << 31 and indicator > 1, "a bad indicator")
        if indicator % 2:
            groups = indicator // 2
            require(8 * groups < missing + 8, "a group too many")
            size = min(8 * groups, missing)
            values += unpack_bits(take(stream, (size * width + 7) // 8), width, size)
        else:
            value = int.from_bytes(take(stream, (width + 7) // 8), "little")
            require(value < 1 << width, "a value too large")
            require(indicator // 2 <= missing, "a run too long")
            values += [value] * (indicator // 2)
    require(len(values) == count, "too few values")
    return values


# --- §4 Data ---------------------------------------------------------------------------------


def encode_data(values: list[bytes | bool], form: Form, ordinal: int) -> bytes:
    if form == "binary":
        starts = list(accumulate(map(len, values[:-1]), initial=12)) if values else []
        text = b"".join(values)
        header = u32(ordinal) + u32(len(values)) + u32(12 + len(text))
        return header + text + encode_group_varints(starts)
    header = u32(len(values)) + u32(ordinal)
    return header + (pack_bits(values, 1) if form == "bool" else b"".join(values))


def decode_data(data: bytes, form: Form) -> list[bytes | bool]:
    stream = BytesIO(data)
    if form == "binary":
        _, count, end = (read_u32(stream) for _ in range(3))
        text = take(stream, end - 12) if end >= 12 else take(stream, len(data))
        starts = decode_group_varints(stream, count)
        require(not stream.read(1), "bytes after the offsets")
        require((starts[:1] or [end]) == [12], "the first value is not behind the header")
        require(starts == sorted(starts) and max(starts, default=12) <= end, "offsets out of order")
        return [text[a - 12 : b - 12] for a, b in pairwise([*starts, end])]
    count, _ = read_u32(stream), read_u32(stream)
    if form == "bool":
        values = [bit == 1 for bit in unpack_bits(take(stream, (count + 7) // 8), 1, count)]
    else:
        packed = take(stream, count * form)
        values = [packed[i : i + form] for i in range(0, count * form, form)]
    require(not stream.read(1), "bytes after the values")
    return values


def encode_group_varints(numbers: list[int]) -> bytes:
    out = b""
    for i in range(0, len(numbers), 4):
        group = [*numbers[i : i + 4], 0, 0, 0][:4]
        parts = [
            number.to_bytes(max(1, (number.bit_length() + 7) // 8), "little") for number in group
        ]
        out += pack_bits([len(part) - 1 for part in reversed(parts)], 2) + b"".join(parts)
    return out


def decode_group_varints(stream: BytesIO, count: int) -> list[int]:
    numbers: list[int] = []
    while len(numbers) < count:
        lengths = reversed(unpack_bits(take(stream, 1), 2, 4))
        numbers += [int.from_bytes(take(stream, length + 1), "little") for length in lengths]
    return numbers[:count]


# --- §2 The block ----------------------------------------------------------------------------


def encode(cells: Cells, form: Form, ordinal: int = 0) -> bytes:
    flat = [element for cell in cells if cell is not None for element in cell]
    return (
        uv(len(flat))
        + uv(len(cells))
        + sized(encode_runs([int(element is not None) for element in flat], 1))
        + sized(encode_runs([len(cell or []) for cell in cells], 16))
        + sized(encode_runs([int(cell is not None) for cell in cells], 1))
        + encode_data([element for element in flat if element is not None], form, ordinal)
    )


def decode(block: bytes, form: Form) -> Cells:
    stream = BytesIO(block)
    num_elements, num_cells = read_uv(stream), read_uv(stream)
    flat_section, length_section, cell_section = (take(stream, read_uv(stream)) for _ in range(3))
    lengths = decode_runs(length_section, 16, num_cells)
    require(sum(lengths) == num_elements, "lengths do not add up")
    present = decode_runs(cell_section, 1, num_cells)
    require(not any(n for n, here in zip(lengths, present, strict=True) if not here), "not null")
    valid = decode_runs(flat_section, 1, num_elements)
    values = decode_data(stream.read(), form)
    require(len(values) == sum(valid), "values are missing")
    queue = iter(values)
    flat = iter([next(queue) if bit else None for bit in valid])
    return [
        [next(flat) for _ in range(length)] if here else None
        for length, here in zip(lengths, present, strict=True)
    ]


# --- §5 Checksum -----------------------------------------------------------------------------


def crc32c(data: bytes) -> int:
    """Bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc % 2 else 0)
    return crc ^ 0xFFFFFFFF


def with_checksum(block: bytes) -> bytes:
    return block + u32(crc32c(block))
