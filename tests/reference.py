"""The Mosaic file format in plain, slow Python: the oracle of the tests.

Written from the specification alone, for obviousness: bit strings are big integers, a column
is a list with one item a row (None for null), a value is its serialized bytes. Nothing here
comes from the package under test. Section numbers are those of the specification.

`read_…` takes from a stream, `get_…` from bytes at a position and also returns the position after
it. Broken input raises ValueError.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import accumulate, chain, pairwise
from typing import NamedTuple

import pyarrow as pa
import zstandard

PLAIN, CONST, DICT, ALL_NULL = range(4)
NONE, ZSTD = range(2)

Column = list  # of a value's bytes or None; of an array data block: of lists of elements or None


def require(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


# --- §1 Primitives ---------------------------------------------------------------------------


def take(stream: BytesIO, size: int) -> bytes:
    data = stream.read(size)
    require(len(data) == size, f"needed {size} bytes, {len(data)} are left")
    return data


def uv(number: int) -> bytes:
    """Encode as LEB128: seven bits per byte, lowest first; the high bit means that more follow."""
    if number < 0x80:
        return bytes([number])
    return bytes([number % 0x80 + 0x80]) + uv(number // 0x80)


def read_uv(stream: BytesIO, bits: int = 32) -> int:
    """Read LEB128; bits above `bits` are dropped, as in release 0.2.0."""
    number = 0
    for shift in range(0, bits, 7):
        (byte,) = take(stream, 1)
        number += byte % 0x80 << shift
        if byte < 0x80:
            return number % (1 << bits)
    raise ValueError(f"varint too long for {bits} bits")


def get_uv(data: bytes, pos: int) -> tuple[int, int]:
    stream = stream_at(data, pos)
    return read_uv(stream), stream.tell()


def zz(number: int) -> bytes:
    """Encode 0, -1, 1, -2, … as 0, 1, 2, 3, …"""
    return uv(2 * number if number >= 0 else -2 * number - 1)


def read_zz(stream: BytesIO) -> int:
    number = read_uv(stream, bits=64)
    return -(number + 1) // 2 if number % 2 else number // 2


def get_zz(data: bytes, pos: int) -> tuple[int, int]:
    stream = stream_at(data, pos)
    return read_zz(stream), stream.tell()


def stream_at(data: bytes, pos: int) -> BytesIO:
    stream = BytesIO(data)
    stream.seek(pos)
    return stream


def sized(content: bytes) -> bytes:
    return uv(len(content)) + content


def read_sized(stream: BytesIO) -> bytes:
    return take(stream, read_uv(stream))


def pack_bits(values: Sequence[int], width: int) -> bytes:
    """Pack the values like the digits of one big little-endian number."""
    number = sum(value << (i * width) for i, value in enumerate(values))
    return number.to_bytes((len(values) * width + 7) // 8, "little")


def unpack_bits(packed: bytes, width: int, count: int) -> list[int]:
    number = int.from_bytes(packed, "little")
    return [number >> (i * width) & ((1 << width) - 1) for i in range(count)]


def read_bits(stream: BytesIO, width: int, count: int) -> list[int]:
    return unpack_bits(take(stream, (count * width + 7) // 8), width, count)


def bitmap(flags: Sequence[bool]) -> bytes:
    return pack_bits([int(flag) for flag in flags], 1)


def unbitmap(packed: bytes, count: int) -> list[bool]:
    return [bit == 1 for bit in unpack_bits(packed, 1, count)]


# --- §3.4, §3.5 Names ------------------------------------------------------------------------

Rules = list[tuple[int, int]]


def train_bpe(names: list[bytes]) -> Rules:
    """Tokens are bytes, so that a pair is replaced by its token with `bytes.replace`."""
    rules: Rules = []
    while len(rules) < 128:
        counts = Counter(pair for name in names for pair in pairwise(name))
        best = max(counts, key=lambda pair: (counts[pair], pair), default=None)
        if best is None or counts[best] < 2:
            break
        names = [name.replace(bytes(best), bytes([0x80 + len(rules)])) for name in names]
        rules.append(best)
    return rules


def apply_bpe(name: bytes, rules: Rules) -> bytes:
    for token, pair in enumerate(rules, 0x80):
        name = name.replace(bytes(pair), bytes([token]))
    return name


def expand_bpe(encoded: bytes, rules: Rules) -> bytes:
    """A rule may refer to earlier ones only; anything else leaves a token in the name."""
    for token, pair in reversed(list(enumerate(rules, 0x80))):
        encoded = encoded.replace(bytes([token]), bytes(pair))
    require(encoded.isascii(), "BPE token without a rule before it")
    return encoded


def front_code(names: list[bytes]) -> list[tuple[int, bytes]]:
    """Return for each name the length of its common prefix with the previous one, and the rest."""
    shared = [common_prefix(*pair) for pair in pairwise([b"", *names])]
    return [(size, name[size:]) for size, name in zip(shared, names, strict=True)]


def common_prefix(a: bytes, b: bytes) -> int:
    return max(size for size in range(min(len(a), len(b)) + 1) if a[:size] == b[:size])


def front_decode(coded: list[tuple[int, bytes]]) -> list[bytes]:
    names = [b""]
    for shared, suffix in coded:
        require(shared <= len(names[-1]), "corrupted column name encoding")
        names.append(names[-1][:shared] + suffix)
    return names[1:]


def front_size(names: list[bytes]) -> int:
    return sum(len(uv(shared) + sized(suffix)) for shared, suffix in front_code(names))


def choose_name_encoding(names: list[bytes]) -> tuple[Rules, list[bytes]]:
    """Return BPE rules and stored names; no rules if front coding alone is as small."""
    rules = train_bpe(names) if all(name.isascii() for name in names) else []
    encoded = [apply_bpe(name, rules) for name in names]
    if rules and 1 + 2 * len(rules) + front_size(encoded) < front_size(names):
        return rules, encoded
    return [], names


# --- §3.6, §4 Types --------------------------------------------------------------------------

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
SIMPLE = dict(enumerate([pa.bool_(), *INTEGERS, pa.float32(), pa.float64(), pa.date32()]))
SIMPLE |= {10: pa.string(), 13: pa.binary()}
WITH_LENGTH = {8: pa.string(), 9: pa.string(), 11: pa.binary(), 12: pa.binary()}
DECIMAL, TIME, TIMESTAMP, TIMESTAMP_LTZ, ARRAY, MAP = range(14, 20)
ARRAY_BLOCK = 0xE0
PRECISIONS = {"ms": 3, "us": 6, "ns": 9}
LEGACY_NANOS = [("millis", pa.int64()), ("nanos_of_milli", pa.int32())]


class ArrayBlock(pa.ExtensionType):
    """Represents, only in this module, a list column that is stored as an array data block."""

    def __init__(self, lists: pa.DataType) -> None:
        super().__init__(lists, "array_block")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, lists: pa.DataType, serialized: bytes) -> "ArrayBlock":
        return cls(lists)


def is_block(arrow: pa.DataType) -> bool:
    return isinstance(arrow, ArrayBlock)


def as_block(arrow: pa.DataType) -> pa.DataType:
    """Convert lists of scalars to blocks."""
    return (
        ArrayBlock(arrow) if pa.types.is_list(arrow) and not is_nested(arrow.value_type) else arrow
    )


def in_block(lists: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(ArrayBlock(lists.type), lists)


def without_block(field: pa.Field) -> pa.Field:
    return field.with_type(field.type.storage_type) if is_block(field.type) else field


def is_text(arrow: pa.DataType) -> bool:
    return arrow in (pa.string(), pa.binary())


def is_nested(arrow: pa.DataType) -> bool:
    return pa.types.is_list(arrow) or pa.types.is_map(arrow)


def is_nanos(arrow: pa.DataType) -> bool:
    """Also true for the struct that older tables use for nanosecond timestamps."""
    if pa.types.is_struct(arrow):
        return [(field.name, field.type) for field in arrow] == LEGACY_NANOS
    return pa.types.is_timestamp(arrow) and arrow.unit == "ns"


def encode_type(field: pa.Field) -> bytes:
    """Return the type descriptor, which does not contain the name of the field itself."""
    type_id, parameters = encode_parameters(field.type)
    return bytes([type_id, field.nullable]) + parameters


def encode_parameters(arrow: pa.DataType) -> tuple[int, bytes]:
    for type_id, simple in SIMPLE.items():
        if arrow == simple:
            return type_id, b""
    if pa.types.is_decimal128(arrow):
        return DECIMAL, uv(arrow.precision) + uv(arrow.scale % (1 << 32))
    if arrow == pa.time32("ms"):
        return TIME, uv(3)
    if pa.types.is_struct(arrow) and is_nanos(arrow):
        return TIMESTAMP, uv(9)
    if pa.types.is_timestamp(arrow) and arrow.tz is None:
        return TIMESTAMP, uv(PRECISIONS[arrow.unit])
    if pa.types.is_timestamp(arrow):
        return TIMESTAMP_LTZ, uv(PRECISIONS[arrow.unit]) + sized(arrow.tz.encode())
    if pa.types.is_list(arrow):
        return ARRAY, encode_named(arrow.value_field)
    if pa.types.is_map(arrow):
        entries = sized(arrow.field(0).name.encode())
        return MAP, entries + encode_named(arrow.key_field) + encode_named(arrow.item_field)
    if is_block(arrow):
        return ARRAY_BLOCK, encode_named(arrow.storage_type.value_field)
    raise ValueError(f"unsupported type {arrow}")


def encode_named(field: pa.Field) -> bytes:
    return sized(field.name.encode()) + encode_type(field)


def decode_type(data: bytes, pos: int) -> tuple[pa.Field, int]:
    """Return a field without a name, and the position after its descriptor."""
    stream = stream_at(data, pos)
    return read_type(stream, ""), stream.tell()


def read_type(stream: BytesIO, name: str) -> pa.Field:
    type_id, nullable = take(stream, 2)
    return pa.field(name, read_parameters(stream, type_id), nullable != 0)


def read_parameters(stream: BytesIO, type_id: int) -> pa.DataType:
    if type_id in SIMPLE:
        return SIMPLE[type_id]
    if type_id in WITH_LENGTH:
        read_uv(stream)
        return WITH_LENGTH[type_id]
    if type_id == DECIMAL:
        precision, scale = read_uv(stream) % 256, read_uv(stream) % 256
        return pa.decimal128(precision, scale if scale < 128 else scale - 256)
    if type_id == TIME:
        read_uv(stream)
        return pa.time32("ms")
    if type_id in (TIMESTAMP, TIMESTAMP_LTZ):
        precision = read_uv(stream)
        unit = "ms" if precision <= 3 else "us" if precision <= 6 else "ns"
        zone = read_sized(stream).decode() if type_id == TIMESTAMP_LTZ else None
        return pa.timestamp(unit, zone or None)
    if type_id == ARRAY:
        return pa.list_(read_named(stream))
    if type_id == ARRAY_BLOCK:
        element = read_named(stream)
        require(not is_nested(element.type), "an array data block of lists or maps")
        return ArrayBlock(pa.list_(element))
    if type_id == MAP:
        read_sized(stream)  # the name of the entries, which pyarrow cannot set
        return pa.map_(read_named(stream), read_named(stream))
    raise ValueError(f"unknown type id {type_id}")


def read_named(stream: BytesIO) -> pa.Field:
    name = read_sized(stream).decode()
    field = read_type(stream, name)
    require(not is_block(field.type), "an array data block inside a list or map")
    return field


# --- §5 Values -------------------------------------------------------------------------------


def width(arrow: pa.DataType) -> int | None:
    """Return the bytes of a serialized value, or None if it has its own length."""
    if is_nanos(arrow):
        return 12
    if pa.types.is_decimal(arrow):
        return 8 if arrow.precision <= 18 else None
    return None if is_text(arrow) else max(arrow.bit_width // 8, 1)


def stored_as(arrow: pa.DataType) -> pa.DataType:
    """Return the integer or binary type of Arrow's buffers for values of the type."""
    if pa.types.is_boolean(arrow) or pa.types.is_struct(arrow):
        return arrow
    if pa.types.is_decimal(arrow):
        return pa.binary(16)
    if is_text(arrow):
        return pa.binary()
    return next(integer for integer in INTEGERS if integer.bit_width == arrow.bit_width)


def encode_value(stored: object, arrow: pa.DataType) -> bytes:
    if is_text(arrow):
        return sized(stored)
    if pa.types.is_struct(arrow):
        return struct.pack(">qi", stored["millis"], stored["nanos_of_milli"])
    if is_nanos(arrow):
        return struct.pack(">qi", *divmod(stored, 10**6))
    if pa.types.is_decimal(arrow) and width(arrow) == 8:
        return stored[:8][::-1]
    if pa.types.is_decimal(arrow):
        number = int.from_bytes(stored, "little", signed=True)
        size = next(size for size in range(1, 17) if -1 <= number >> (8 * size - 1) <= 0)
        return sized(number.to_bytes(size, "big", signed=True))
    return int(stored).to_bytes(width(arrow), "big", signed=True)


def decode_value(value: bytes, arrow: pa.DataType) -> object:
    content = read_sized(BytesIO(value)) if width(arrow) is None else value
    if is_text(arrow):
        return content
    if pa.types.is_boolean(arrow):
        return value != b"\0"
    if is_nanos(arrow):
        millis, nanos = struct.unpack(">qi", value)
        require(0 <= nanos < 10**6, f"invalid nanos of milli {nanos}")
        total = millis * 10**6 + nanos
        require(-(1 << 63) <= total < 1 << 63, "timestamp overflows nanoseconds")
        return total
    number = int.from_bytes(content, "big", signed=True)
    if pa.types.is_decimal(arrow):
        require(len(content) <= 16, "decimal longer than 16 bytes")
        return number.to_bytes(16, "little", signed=True)
    return number


def read_value(stream: BytesIO, arrow: pa.DataType) -> bytes:
    """Read a serialized value, including its length if it has one."""
    size = width(arrow)
    return take(stream, size) if size else sized(read_sized(stream))


def storage(array: pa.Array) -> list:
    return array.view(stored_as(array.type)).to_pylist()


def serialize(array: pa.Array) -> Column:
    if is_block(array.type):
        return block_cells(array.storage)
    return [None if row is None else encode_value(row, array.type) for row in storage(array)]


def deserialize(column: Column, arrow: pa.DataType) -> pa.Array:
    if is_block(arrow):
        return lists_of_cells(column, arrow.storage_type)
    rows = [None if value is None else decode_value(value, arrow) for value in column]
    array = pa.array(rows, stored_as(arrow)).view(arrow)
    if pa.types.is_string(arrow):
        array.validate(full=True)  # `view` lets any bytes pass as UTF-8
    return array


# --- Type 0xE0: arrays in data blocks --------------------------------------------------------


def block_form(element: pa.DataType) -> str | int:
    """Return the form of the elements in `array_reference`."""
    if pa.types.is_boolean(element):
        return "bool"
    if pa.types.is_decimal(element):
        return 8 if element.precision <= 18 else 16
    return "binary" if is_text(element) else element.bit_width // 8


def block_cells(lists: pa.Array) -> Column:
    form = block_form(lists.type.value_type)

    def element(stored: object) -> bytes | bool | None:
        if stored is None or isinstance(stored, bool):
            return stored
        if isinstance(stored, bytes):  # a decimal has 16, little-endian
            return stored if form == "binary" else stored[:form]
        return stored.to_bytes(form, "little", signed=True)

    lengths, values = flatten(lists)
    elements = map(element, storage(values))
    return [
        None if length is None else [next(elements) for _ in range(length)]
        for length in lengths.to_pylist()
    ]


def lists_of_cells(cells: Column, lists: pa.DataType) -> pa.Array:
    arrow = lists.value_type

    def stored(element: bytes | bool | None) -> object:
        if element is None or isinstance(element, bool) or is_text(arrow):
            return element
        number = int.from_bytes(element, "little", signed=True)
        is_decimal = pa.types.is_decimal(arrow)
        return number.to_bytes(16, "little", signed=True) if is_decimal else number

    lengths = pa.array([None if cell is None else len(cell) for cell in cells], pa.int32())
    elements = pa.array([stored(e) for cell in cells for e in cell or []], stored_as(arrow))
    values = elements.view(arrow)
    if pa.types.is_string(arrow):
        values.validate(full=True)
    return unflatten(lists, iter([lengths, values]))


def encode_block(cells: Column, arrow: ArrayBlock) -> bytes:
    """Return the data of the page."""
    import array_reference  # which is built on this module

    block = array_reference.encode(cells, block_form(arrow.storage_type.value_type))
    return sized(array_reference.with_checksum(block))


def read_block_page(stream: BytesIO, arrow: ArrayBlock, num_rows: int) -> Column:
    import array_reference

    data = read_sized(stream)
    block = data[:-4]
    require(data == array_reference.with_checksum(block), "checksum of an array data block")
    cells = array_reference.decode(block, block_form(arrow.storage_type.value_type))
    require(len(cells) == num_rows, "an array data block of other rows")
    return cells


# --- §3.2 Schema block -----------------------------------------------------------------------


class Schema(NamedTuple):
    fields: list[pa.Field]  # in the order of the file
    num_buckets: int
    order: list[int]  # of each column as the user has them, its position in `fields`


def sort_columns(names: list[str]) -> list[int]:
    """Return user positions in the order of the file, by the bytes of the names."""
    require(len(set(names)) == len(names), "duplicate column name")
    return sorted(range(len(names)), key=lambda position: names[position].encode())


def count_buckets(requested: int, num_columns: int) -> int:
    return max(1, min(requested, num_columns))


def bucket_columns(num_columns: int, num_buckets: int) -> list[list[int]]:
    """Return the file positions of the columns of each bucket."""
    buckets: list[list[int]] = [[] for _ in range(num_buckets)]
    for position in range(num_columns):
        buckets[position * num_buckets // num_columns].append(position)
    return buckets


def encode_schema(schema: pa.Schema, num_buckets_requested: int) -> bytes:
    by_name = sort_columns(schema.names)
    fields = [schema.field(position) for position in by_name]
    rules, names = choose_name_encoding([field.name.encode() for field in fields])
    body = uv(len(fields)) + uv(count_buckets(num_buckets_requested, len(fields)))
    body += bytes([1]) + uv(len(rules)) + bytes(chain(*rules)) if rules else bytes([0])
    for (shared, suffix), field in zip(front_code(names), fields, strict=True):
        body += uv(shared) + sized(suffix) + encode_type(field)
    order = [by_name.index(position) for position in range(len(fields))]
    return body + b"".join(zz(after - before) for before, after in pairwise([0, *order]))


def decode_schema(body: bytes) -> Schema:
    stream = BytesIO(body)
    num_columns, num_buckets = read_uv(stream), read_uv(stream)
    require(num_buckets > 0, "no buckets")
    has_rules = take(stream, 1) == b"\1"
    pairs = take(stream, 2 * read_uv(stream)) if has_rules else b""
    coded, fields = [], []
    for _ in range(num_columns):
        coded.append((read_uv(stream), read_sized(stream)))
        fields.append(read_type(stream, ""))
    names = front_decode(coded)
    if has_rules:
        rules = list(zip(pairs[::2], pairs[1::2], strict=True))
        names = [expand_bpe(name, rules) for name in names]
    require(all(names) and len(set(names)) == len(names), "empty or duplicate column name")
    fields = [field.with_name(name.decode()) for field, name in zip(fields, names, strict=True)]
    order = list(range(num_columns))
    if stream.tell() < len(body):
        order = list(accumulate(read_zz(stream) for _ in range(num_columns)))
    require(sorted(order) == list(range(num_columns)), "original order is not a permutation")
    return Schema(fields, num_buckets, order)


# --- §6 Physical columns ---------------------------------------------------------------------


def child_types(arrow: pa.DataType) -> list[pa.DataType]:
    return [arrow.key_type, arrow.item_type] if pa.types.is_map(arrow) else [arrow.value_type]


def flatten_type(arrow: pa.DataType) -> list[pa.DataType]:
    """Return the type of the primary column, then those of all columns below it, depth first."""
    if not is_nested(arrow):
        return [arrow]
    return [pa.int32(), *chain(*map(flatten_type, child_types(arrow)))]


def flatten(array: pa.Array) -> list[pa.Array]:
    """Return the primary column, then all columns below it, without values under null containers."""
    if not is_nested(array.type):
        return [array]
    ranges = [range(*pair) for pair in pairwise(array.offsets.to_pylist())]
    rows = [r if ok else None for r, ok in zip(ranges, array.is_valid().to_pylist(), strict=True)]
    lengths = pa.array([None if r is None else len(r) for r in rows], pa.int32())
    kept = pa.array(chain(*filter(None, rows)), pa.int64())
    children = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    return [lengths, *chain(*(flatten(child.take(kept)) for child in children))]


def unflatten(
    arrow: pa.DataType, columns: Iterator[pa.Array], num_rows: int | None = None
) -> pa.Array:
    """Undo `flatten`, consuming `columns`; rows after the first `num_rows` are ignored."""
    primary = next(columns)
    if num_rows is not None:
        require(num_rows <= len(primary), "more elements than rows")
        primary = primary.slice(0, num_rows)
    if not is_nested(arrow):
        return primary
    lengths = [length or 0 for length in primary.to_pylist()]
    require(all(length >= 0 for length in lengths), "negative length")
    children = [unflatten(child, columns, sum(lengths)) for child in child_types(arrow)]
    offsets = pa.array(accumulate(lengths, initial=0), pa.int32())
    container = pa.MapArray if pa.types.is_map(arrow) else pa.ListArray
    return container.from_arrays(offsets, *children, type=arrow, mask=primary.is_null())


def primaries_first(columns: Iterable[list]) -> list:
    """Return the physical columns of a bucket, given those of each logical column."""
    columns = list(columns)
    return [primary for primary, *_ in columns] + list(chain(*(below for _, *below in columns)))


def flatten_types(types: Iterable[pa.DataType]) -> list[pa.DataType]:
    return primaries_first(map(flatten_type, types))


def flatten_columns(arrays: Iterable[pa.Array]) -> list[Column]:
    return [serialize(array) for array in primaries_first(map(flatten, arrays))]


def unflatten_columns(columns: list[Column], types: list[pa.DataType]) -> list[pa.Array]:
    physical = list(map(deserialize, columns, flatten_types(types)))
    children = iter(physical[len(types) :])
    return [
        unflatten(arrow, chain([primary], children))
        for arrow, primary in zip(types, physical, strict=False)
    ]


# --- §7 Column encodings ---------------------------------------------------------------------


class Page(NamedTuple):
    """One physical column of a row group, encoded."""

    encoding: int
    num_rows: int
    table: bytes  # the CONST value or the DICT entries
    nulls: bytes  # the null bitmap, empty if there are no nulls
    data: bytes  # PLAIN values or DICT indices


def index_width(num_entries: int) -> int:
    return max(num_entries - 1, 0).bit_length()


def choose_encoding(column: Column, max_entries: int, max_bytes: int, variable_width: bool) -> int:
    """`variable_width` is also true for 12-byte timestamps, which have the same byte budget."""
    values = [value for value in column if value is not None]
    distinct = set(values)
    if len(distinct) <= 1:
        return CONST if values else ALL_NULL
    entry_bytes = sum(map(len, distinct))
    if len(distinct) > max_entries or (variable_width and entry_bytes > max_bytes):
        return PLAIN
    index_bytes = (len(values) * index_width(len(distinct)) + 7) // 8
    dict_bytes = len(uv(len(distinct))) + entry_bytes + index_bytes
    return DICT if dict_bytes < sum(map(len, values)) else PLAIN


def encode_page(column: Column, encoding: int) -> Page:
    values = [value for value in column if value is not None]
    nulls = bitmap([value is None for value in column]) if 0 < len(values) < len(column) else b""
    table = data = b""
    if encoding == PLAIN:
        data = b"".join(values)
    elif encoding == CONST:
        table = values[0]
    elif encoding == DICT:
        entries = list(dict.fromkeys(values))
        positions = {entry: position for position, entry in enumerate(entries)}
        table = uv(len(entries)) + b"".join(entries)
        data = pack_bits([positions[value] for value in values], index_width(len(entries)))
    return Page(encoding, len(column), table, nulls, data)


def read_table(stream: BytesIO, encoding: int, arrow: pa.DataType) -> list[bytes]:
    """Read the CONST value as the only entry, or the DICT entries."""
    if encoding == DICT:
        return [read_value(stream, arrow) for _ in range(read_uv(stream))]
    return [read_value(stream, arrow)] if encoding == CONST else []


def read_nulls(
    stream: BytesIO, encoding: int, has_nulls: int, num_rows: int, arrow: pa.DataType
) -> list[bool]:
    if is_block(arrow):
        sound = encoding == ALL_NULL or (encoding == PLAIN and not has_nulls)
        require(sound, "an array data block that is encoded, or has a bitmap")
    if has_nulls and encoding != ALL_NULL:
        return [bit == 1 for bit in read_bits(stream, 1, num_rows)]
    return [encoding == ALL_NULL] * num_rows


def read_data(
    stream: BytesIO, encoding: int, arrow: pa.DataType, entries: list[bytes], nulls: list[bool]
) -> Column:
    """Read the column: values where `nulls` is false."""
    count = nulls.count(False)
    if encoding == PLAIN and is_block(arrow):
        return read_block_page(stream, arrow, len(nulls))
    if encoding == PLAIN:
        values = iter([read_value(stream, arrow) for _ in range(count)])
    elif encoding == DICT:
        indices = read_bits(stream, index_width(len(entries)), count)
        require(all(index < len(entries) for index in indices), "corrupt dict index")
        values = iter([entries[index] for index in indices])
    else:
        values = iter(entries * count)
    return [None if null else next(values) for null in nulls]


# --- §8 Monolithic bucket --------------------------------------------------------------------


def encode_monolithic(pages: list[Page], num_primary: int) -> bytes:
    children = pages[num_primary:]
    header = [num_primary, len(children), *(page.num_rows for page in children)]
    parts = [
        *(map(uv, header) if children else []),
        pack_bits([page.encoding for page in pages], 2),
        bitmap([page.nulls != b"" for page in pages]),
        *(page.table for page in pages if page.encoding == CONST),
        *(page.table for page in pages if page.encoding == DICT),
        *(page.nulls for page in pages),
        *(page.data for page in pages),
    ]
    return b"".join(parts)


def decode_monolithic(
    data: bytes, types: list[pa.DataType], num_primary: int, num_rows: int
) -> list[Column]:
    """`types` are those of the physical columns."""
    stream = BytesIO(data)
    rows = [num_rows] * num_primary
    if len(types) > num_primary:
        read_uv(stream)  # the number of primary columns, again
        require(read_uv(stream) == len(types) - num_primary, "children differ from the schema")
        rows += [read_uv(stream) for _ in types[num_primary:]]
    encodings = read_bits(stream, 2, len(types))
    has_nulls = read_bits(stream, 1, len(types))
    tables: list[list[bytes]] = [[] for _ in types]
    for section in (CONST, DICT):
        for i, encoding in enumerate(encodings):
            if encoding == section:
                tables[i] = read_table(stream, encoding, types[i])
    flags = zip(encodings, has_nulls, rows, types, strict=True)
    nulls = [read_nulls(stream, *one) for one in flags]
    parts = zip(encodings, types, tables, nulls, strict=True)
    return [read_data(stream, *column) for column in parts]


# --- §9 Paged bucket -------------------------------------------------------------------------


def encode_paged(pages: list[Page], num_primary: int, zstd_level: int) -> bytes:
    children = pages[num_primary:]
    counts = struct.pack(
        f"<H{len(children)}I", len(children), *(page.num_rows for page in children)
    )
    slots = [encode_slot(page, zstd_level) for page in pages]
    directory = struct.pack(f"<{len(slots)}I", *map(len, slots))
    return (counts if children else b"") + directory + b"".join(slots)


def encode_slot(page: Page, zstd_level: int) -> bytes:
    if page.encoding == ALL_NULL:
        return b""
    content = bytes([page.encoding, page.nulls != b""]) + page.table + page.nulls + page.data
    return uv(len(content)) + compress(content, zstd_level)


def split_paged(data: bytes, num_columns: int, num_primary: int) -> tuple[list[int], list[bytes]]:
    """Return the row counts of the children, and the page of each column, b"" for ALL_NULL."""
    stream = BytesIO(data)
    num_children = num_columns - num_primary
    if num_children > 0:
        require(take(stream, 2) == struct.pack("<H", num_children), "children differ")
    child_rows = struct.unpack(f"<{num_children}I", take(stream, 4 * num_children))
    sizes = struct.unpack(f"<{num_columns}I", take(stream, 4 * num_columns))
    pages = [decode_slot(take(stream, size)) if size > 0 else b"" for size in sizes]
    require(stream.tell() == len(data), "directory and slots do not fill the bucket")
    return list(child_rows), pages


def decode_slot(slot: bytes) -> bytes:
    size, pos = get_uv(slot, 0)
    return decompress(slot[pos:], size)


def decode_page(content: bytes, arrow: pa.DataType, num_rows: int) -> Column:
    if not content:
        return [None] * num_rows
    stream = BytesIO(content)
    encoding, flags = take(stream, 2)
    require(encoding in (PLAIN, CONST, DICT), f"unsupported encoding {encoding}")
    entries = read_table(stream, encoding, arrow)
    nulls = read_nulls(stream, encoding, flags & 1, num_rows, arrow)
    return read_data(stream, encoding, arrow, entries, nulls)


def decode_paged(
    data: bytes, types: list[pa.DataType], num_primary: int, num_rows: int
) -> list[Column]:
    child_rows, pages = split_paged(data, len(types), num_primary)
    return list(map(decode_page, pages, types, [num_rows] * num_primary + child_rows))


# --- §10.3 Layout, §12 Compression -----------------------------------------------------------


def is_paged(pages: list[Page], monolithic_size: int, threshold: int) -> bool:
    """Return whether a bucket of a zstd file is paged."""
    sizes = [
        len(page.nulls + page.data) + (len(page.table) if page.encoding == DICT else 0)
        for page in pages
        if page.encoding in (PLAIN, DICT) or (page.encoding == CONST and page.nulls)
    ]
    return monolithic_size >= threshold and sizes != [] and sum(sizes) // len(sizes) >= threshold


def compress(content: bytes, level: int) -> bytes:
    level = max(-(1 << 17), min(level, zstandard.MAX_COMPRESSION_LEVEL))
    return zstandard.ZstdCompressor(level=level).compress(content)


def decompress(frames: bytes, size: int) -> bytes:
    """Decompress at most `size` bytes from one or several consecutive frames."""
    content = b""
    while frames:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            content += frame.decompress(frames)
        except zstandard.ZstdError as error:
            raise ValueError("broken zstd frame") from error
        require(frame.eof, "zstd frame cut off")
        frames = frame.unused_data
    require(len(content) <= size, "block longer than declared")
    return content


# --- §11 Row group index and statistics ------------------------------------------------------


class Bucket(NamedTuple):
    bucket_id: int
    offset: int
    size: int
    raw_size: int  # 0 if paged


class Statistics(NamedTuple):
    position: int  # of the column, in the order of the file
    null_count: int
    min: bytes  # serialized, b"" if all rows are null
    max: bytes


class RowGroup(NamedTuple):
    num_rows: int
    buckets: list[Bucket]
    statistics: list[Statistics]


def statistics(position: int, column: Column, arrow: pa.DataType) -> Statistics:
    """`min` and `max` keep the first of equals and replace it only by what compares less or
    greater, which NaN never does: just as the format has it."""

    def key(value: bytes) -> object:
        if pa.types.is_floating(arrow):
            return struct.unpack(">f" if arrow == pa.float32() else ">d", value)[0]
        return read_sized(BytesIO(value)) if is_text(arrow) else int.from_bytes(value, signed=True)

    is_scalar = not is_nested(arrow) and not is_block(arrow)
    supported = arrow == pa.string() or (is_scalar and width(arrow))
    require(supported, f"no statistics of {arrow}")
    values = [value for value in column if value is not None]
    low, high = min(values, key=key, default=b""), max(values, key=key, default=b"")
    return Statistics(position, column.count(None), low, high)


def encode_row_group(group: RowGroup) -> bytes:
    entry = uv(group.num_rows) + uv(len(group.buckets))
    for bucket_id, offset, size, raw_size in group.buckets:
        entry += uv(bucket_id) + struct.pack(">Q", offset) + uv(size) + uv(raw_size)
    entry += uv(len(group.statistics))
    for position, null_count, low, high in group.statistics:
        entry += uv(position) + uv(null_count) + low + high
    return entry


def read_row_group(stream: BytesIO, types: list[pa.DataType]) -> RowGroup:
    """`types` are those of the columns in the order of the file."""
    num_rows = read_uv(stream)
    buckets, stats = [], []
    for _ in range(read_uv(stream)):
        bucket_id, offset = read_uv(stream), int.from_bytes(take(stream, 8))
        buckets.append(Bucket(bucket_id, offset, read_uv(stream), read_uv(stream)))
    for _ in range(read_uv(stream)):
        position, null_count, low, high = read_uv(stream), read_uv(stream), b"", b""
        require(position < len(types) and null_count <= num_rows, "corrupt statistics")
        if null_count < num_rows:
            require(not is_block(types[position]), "statistics of arrays")
            low, high = (read_value(stream, types[position]) for _ in range(2))
        stats.append(Statistics(position, null_count, low, high))
    return RowGroup(num_rows, buckets, stats)


# --- §2, §10, §13 Files ----------------------------------------------------------------------

FOOTER = struct.Struct(">QQIIBBH4s")
HAS_BLOCKS = 0x0100  # a flag of the footer; from this one on, a reader must know them
WITH_FEATURES = 0x81  # the version of a file with such a flag


class Options(NamedTuple):
    """The options of release 0.2.0, and the layout of arrays."""

    compression: int = ZSTD
    zstd_level: int = 1
    num_buckets: int = 0  # means 100
    row_group_max_size: int = 268435456
    max_dict_total_bytes: int = 32768
    max_dict_entries: int = 255
    stats_columns: Sequence[str] = ()
    page_size_threshold: int = 32768
    array_layout: str = "columns"


def encode_file(batches: Iterable[pa.RecordBatch], schema: pa.Schema, **options: object) -> bytes:
    """Return the bytes that release 0.2.0 writes; `options` are those of `Options`."""
    chosen = Options(**options)
    num_buckets = count_buckets(chosen.num_buckets or 100, len(schema))
    buckets = bucket_columns(len(schema), num_buckets)
    by_name = sort_columns(schema.names)
    convert = as_block if chosen.array_layout == "block" else lambda arrow: arrow
    stored = pa.schema([field.with_type(convert(field.type)) for field in schema])
    flags = HAS_BLOCKS if any(map(is_block, stored.types)) else 0
    stats_positions = sorted(by_name.index(schema.names.index(n)) for n in chosen.stats_columns)

    out, groups = b"", []
    for members in cut_row_groups(batches, buckets, chosen.row_group_max_size):
        columns = [pa.concat_arrays([batch.column(i) for batch in members]) for i in by_name]
        columns = [
            in_block(column) if is_block(convert(column.type)) else column for column in columns
        ]
        entries = []
        for bucket_id, positions in enumerate(buckets):
            if positions:
                block, raw_size = encode_bucket([columns[p] for p in positions], chosen)
                entries.append(Bucket(bucket_id, len(out), len(block), raw_size))
                out += block
        stats = [statistics(p, serialize(columns[p]), columns[p].type) for p in stats_positions]
        groups.append(RowGroup(sum(batch.num_rows for batch in members), entries, stats))

    body = encode_schema(stored, num_buckets)
    schema_offset = len(out)
    out += struct.pack(">I", len(body))
    out += compress(body, chosen.zstd_level) if chosen.compression == ZSTD else body
    index_offset = len(out)
    out += b"".join(map(encode_row_group, groups))
    counts = num_buckets, len(groups), chosen.compression
    version = WITH_FEATURES if flags else 1
    return out + FOOTER.pack(index_offset, schema_offset, *counts, version, flags, b"MOSA")


def cut_row_groups(
    batches: Iterable[pa.RecordBatch], buckets: list[list[int]], max_size: int
) -> list[list[pa.RecordBatch]]:
    """Return the batches of each row group, without empty batches."""
    groups: list[list[pa.RecordBatch]] = [[]]
    buffered = 0
    for batch in batches:
        if batch.num_rows > 0:
            groups[-1].append(batch)
            buffered += buffered_size(batch, buckets)
            if buffered >= max_size:
                groups.append([])
                buffered = 0
    return [group for group in groups if group]


def buffered_size(batch: pa.RecordBatch, buckets: list[list[int]]) -> int:
    values = filter(None, chain(*flatten_columns(batch.columns)))
    bitmaps = sum((len(positions) + 7) // 8 for positions in buckets)
    return sum(map(len, values)) + batch.num_rows * bitmaps


def encode_bucket(columns: list[pa.Array], options: Options) -> tuple[bytes, int]:
    """Return the stored bytes, and their uncompressed size or 0 if paged."""
    pages = []
    types = flatten_types(column.type for column in columns)
    for column, arrow in zip(flatten_columns(columns), types, strict=True):
        if is_block(arrow):
            is_null = all(cell is None for cell in column)
            data = b"" if is_null else encode_block(column, arrow)
            pages.append(Page(ALL_NULL if is_null else PLAIN, len(column), b"", b"", data))
            continue
        limits = options.max_dict_entries, options.max_dict_total_bytes
        encoding = choose_encoding(column, *limits, width(arrow) in (None, 12))
        pages.append(encode_page(column, encoding))
    raw = encode_monolithic(pages, len(columns))
    if options.compression == NONE:
        return raw, len(raw)
    if is_paged(pages, len(raw), options.page_size_threshold):
        return encode_paged(pages, len(columns), options.zstd_level), 0
    return compress(raw, options.zstd_level), len(raw)


class File(NamedTuple):
    """A file without its buckets."""

    compression: int
    body: bytes  # of the schema block
    schema: Schema
    groups: list[RowGroup]


def open_file(data: bytes) -> File:
    require(len(data) >= 32 and data[-4:] == b"MOSA", "not a Mosaic file")
    footer = FOOTER.unpack(data[-32:])
    index_offset, schema_offset, num_buckets, num_groups, compression, version, flags, _ = footer
    required = flags & 0xFF00
    require(required in (0, HAS_BLOCKS), "unknown features")
    require(version == (WITH_FEATURES if required else 1), "unsupported version")
    require(compression in (NONE, ZSTD), "unsupported compression")
    require(schema_offset + 4 <= index_offset <= len(data) - 32, "corrupted footer offsets")
    body = data[schema_offset + 4 : index_offset]
    if compression == ZSTD:
        body = decompress(body, *struct.unpack_from(">I", data, schema_offset))
    schema = decode_schema(body)
    require(schema.num_buckets == num_buckets, "footer and schema differ in buckets")
    index = BytesIO(data[index_offset:-32])
    types = [field.type for field in schema.fields]
    require(required or not any(map(is_block, types)), "array data blocks without their flag")
    groups = [read_row_group(index, types) for _ in range(num_groups)]
    require(not index.read(), "trailing bytes in the index")
    for bucket in chain(*(group.buckets for group in groups)):
        require(bucket.bucket_id < num_buckets, "bucket id out of range")
        require(bucket.offset + bucket.size <= schema_offset, "bucket extends past the data")
    return File(compression, body, schema, groups)


def bucket_types(schema: Schema) -> list[list[pa.DataType]]:
    buckets = bucket_columns(len(schema.fields), schema.num_buckets)
    return [[schema.fields[position].type for position in positions] for positions in buckets]


def decode_file(data: bytes) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """Return the schema, and one batch per row group."""
    file = open_file(data)
    schema = pa.schema([without_block(file.schema.fields[i]) for i in file.schema.order])
    batches = []
    for group in file.groups:
        columns: list[pa.Array] = []
        buckets = {bucket.bucket_id: bucket for bucket in group.buckets}
        for bucket_id, types in enumerate(bucket_types(file.schema)):
            require(bucket_id in buckets or not types, "a bucket with columns is missing")
            if types:
                block = read_block(data, buckets[bucket_id], file.compression)
                decode = decode_monolithic if buckets[bucket_id].raw_size else decode_paged
                physical = decode(block, flatten_types(types), len(types), group.num_rows)
                columns += unflatten_columns(physical, types)
        # A batch without columns keeps its number of rows only if it comes from one with columns.
        fields = [pa.field("", pa.null()), *schema]
        columns = [pa.nulls(group.num_rows), *(columns[i] for i in file.schema.order)]
        batch = pa.record_batch(columns, schema=pa.schema(fields))
        batches.append(batch.select(range(1, len(fields))))
    return schema, batches


def read_block(data: bytes, bucket: Bucket, compression: int) -> bytes:
    """Return a monolithic bucket uncompressed, and a paged one as stored."""
    block = take(stream_at(data, bucket.offset), bucket.size)
    require(bucket.raw_size > 0 or compression == ZSTD, "paged bucket requires zstd")
    monolithic_frame = bucket.raw_size > 0 and compression == ZSTD
    return decompress(block, bucket.raw_size) if monolithic_frame else block


def decode_blocks(data: bytes) -> list[tuple[str, bytes]]:
    """Return a file as labelled, uncompressed parts that do not depend on the zstd frames."""
    file = open_file(data)
    blocks = [("compression", bytes([file.compression])), ("schema", file.body)]
    for number, group in enumerate(file.groups):
        entries = [bucket._replace(offset=0, size=0) for bucket in group.buckets]
        blocks.append((f"{number} index", encode_row_group(group._replace(buckets=entries))))
        for bucket in group.buckets:
            label = f"{number} bucket {bucket.bucket_id}"
            block = read_block(data, bucket, file.compression)
            if bucket.raw_size > 0:
                blocks.append((label, block))
                continue
            types = bucket_types(file.schema)[bucket.bucket_id]
            child_rows, pages = split_paged(block, len(flatten_types(types)), len(types))
            blocks.append((f"{label} child rows", b"".join(map(uv, child_rows))))
            blocks += [(f"{label} page {i}", page) for i, page in enumerate(pages)]
    return blocks


# --- Comparison ------------------------------------------------------------------------------


def same_type(a: pa.DataType, b: pa.DataType) -> bool:
    """Arrow's own test, and the names of list elements. Those of map keys and values are left
    out: Arrow's IPC format and C interface lose them."""
    if pa.types.is_list(a) and pa.types.is_list(b) and a.value_field.name != b.value_field.name:
        return False
    return a.equals(b) and (not is_nested(a) or all(map(same_type, child_types(a), child_types(b))))


def same_schema(a: pa.Schema, b: pa.Schema) -> bool:
    return a.equals(b) and all(map(same_type, a.types, b.types))


def same_array(a: pa.Array, b: pa.Array) -> bool:
    """Compare every bit of every value; values under nulls are ignored."""
    if not same_type(a.type, b.type):
        return False
    return [storage(column) for column in flatten(a)] == [storage(column) for column in flatten(b)]


def same_batch(a: pa.RecordBatch, b: pa.RecordBatch) -> bool:
    same_shape = same_schema(a.schema, b.schema) and a.num_rows == b.num_rows
    return same_shape and all(map(same_array, a.columns, b.columns))
