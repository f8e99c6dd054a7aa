"""The annex and the types that it restores, in plain, slow Python: the oracle of their tests.

Written from the specification alone, on top of `reference`. A column is a list of cells, one for each
row. A cell is None for null, an integer (the bits of a float, the unscaled value of a decimal, the
number behind a date or a time), a boolean, bytes (also for text), a list, a list of pairs for a map,
a tuple for a struct, and a tuple of months, days and nanoseconds for an interval. Broken input
raises ValueError.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from io import BytesIO
from itertools import chain, pairwise
from typing import NamedTuple

import pyarrow as pa
from array_reference import crc32c
from pyarrow import types
from reference import FOOTER, decode_file, read_sized, read_uv, require

HAS_ANNEX, HAS_TYPES = 0x0001, 0x0002  # flags of the footer
TYPES, BASE, DICTIONARIES, COMMON = 2, 5, 6, 7  # kinds of sections
NULL, ELEMENT_NULL = "__null__", "__struct_null__"
SEPARATOR = "\x1f"  # between the names in the path of a dictionary
UINT64 = pa.decimal128(20, 0)
MILLIS_OF_DAY = 24 * 60 * 60 * 1000

Path = tuple[str, ...]
Cells = list  # of a column


# --- Arrays as cells -------------------------------------------------------------------------


def cells(array: pa.Array) -> Cells:
    """Return the rows of an array of any type."""
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return cells(array.storage)
    if types.is_null(arrow):
        return [None] * len(array)
    if types.is_dictionary(arrow):
        values = cells(array.dictionary)
        return [None if index is None else values[index] for index in array.indices.to_pylist()]
    if types.is_run_end_encoded(arrow):
        values, ends = cells(array.values), array.run_ends.to_pylist()
        return [values[bisect_right(ends, row)] for row in rows_of(array)]
    rows = inner_cells(array) if types.is_nested(arrow) else scalar_cells(array)
    valid = array.is_valid().to_pylist()
    return [row if here else None for row, here in zip(rows, valid, strict=True)]


def rows_of(array: pa.Array) -> range:
    """Return where the rows of a slice are in its buffers."""
    return range(array.offset, array.offset + len(array))


def inner_cells(array: pa.Array) -> Cells:
    """Return the rows of structs, lists and maps; those that are null may be anything."""
    arrow = array.type
    if types.is_struct(arrow):
        fields = [cells(array.field(i)) for i in range(arrow.num_fields)]
        return [tuple(field[row] for field in fields) for row in range(len(array))]
    if types.is_map(arrow):
        entries: list = list(zip(cells(array.keys), cells(array.items), strict=True))
    else:
        entries = cells(array.values)
    if types.is_fixed_size_list(arrow):
        size = arrow.list_size
        return [entries[row * size : (row + 1) * size] for row in rows_of(array)]
    offsets = array.offsets.to_pylist()
    if types.is_list_view(arrow) or types.is_large_list_view(arrow):
        sizes = array.sizes.to_pylist()
        return [entries[at : at + size] for at, size in zip(offsets, sizes, strict=True)]
    return [entries[start:end] for start, end in pairwise(offsets)]


def scalar_cells(array: pa.Array) -> Cells:
    arrow = array.type
    if types.is_boolean(arrow):
        return array.to_pylist()
    if types.is_decimal(arrow):
        raw = array.view(pa.binary(arrow.bit_width // 8)).to_pylist()
        return [None if one is None else int.from_bytes(one, "little", signed=True) for one in raw]
    if arrow == pa.month_day_nano_interval():
        return [None if one is None else tuple(one) for one in array.to_pylist()]
    if has_length(arrow):
        return array.cast(pa.large_binary()).to_pylist()
    if types.is_integer(arrow):
        return array.to_pylist()
    bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[arrow.bit_width]
    return array.view(bits).to_pylist()


def has_length(arrow: pa.DataType) -> bool:
    """Return whether values are text or bytes."""
    return (
        types.is_string(arrow)
        or types.is_binary(arrow)
        or types.is_large_string(arrow)
        or types.is_large_binary(arrow)
        or types.is_string_view(arrow)
        or types.is_binary_view(arrow)
        or (types.is_fixed_size_binary(arrow) and not types.is_decimal(arrow))
    )


# --- Stored columns --------------------------------------------------------------------------


def bare(arrow: pa.DataType) -> pa.DataType:
    """Return the type of the values: of an extension type, a dictionary, runs."""
    if isinstance(arrow, pa.BaseExtensionType):
        return bare(arrow.storage_type)
    if types.is_dictionary(arrow) or types.is_run_end_encoded(arrow):
        return bare(arrow.value_type)
    return arrow


def is_list(arrow: pa.DataType) -> bool:
    return types.is_nested(arrow) and not (
        types.is_struct(arrow) or types.is_map(arrow) or types.is_union(arrow)
    )


def is_split(arrow: pa.DataType) -> bool:
    """Return whether a column is stored as columns of other names."""
    arrow = bare(arrow)
    if types.is_map(arrow):
        return types.is_nested(bare(arrow.key_type)) or is_split(arrow.item_type)
    return types.is_struct(arrow) or (is_list(arrow) and is_split(arrow.value_type))


def stored_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type of the stored column of a column without structs."""
    arrow = bare(arrow)
    if types.is_map(arrow):
        fields = [arrow.key_field, arrow.item_field]
        return pa.map_(*(pa.field(f.name, stored_type(f.type), f.nullable) for f in fields))
    if is_list(arrow):
        item = arrow.value_field
        return pa.list_(pa.field(item.name, stored_type(item.type), item.nullable))
    if has_length(arrow):
        is_text = types.is_string(arrow) or types.is_large_string(arrow)
        return pa.string() if is_text or types.is_string_view(arrow) else pa.binary()
    if types.is_decimal(arrow):
        fits = arrow.precision <= 38 and -128 <= arrow.scale <= arrow.precision
        return pa.decimal128(arrow.precision, arrow.scale) if fits else pa.binary()
    if types.is_timestamp(arrow):
        return pa.timestamp("ms", arrow.tz) if arrow.unit == "s" else arrow
    if types.is_duration(arrow):
        return pa.int64()
    require(not types.is_union(arrow), "a union")
    others = {
        pa.null(): pa.string(),
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): UINT64,
        pa.float16(): pa.float32(),
        pa.date64(): pa.date32(),
        pa.time32("s"): pa.time32("ms"),
        pa.time64("us"): pa.int64(),
        pa.time64("ns"): pa.int64(),
        pa.month_day_nano_interval(): pa.binary(),
    }
    return others.get(arrow, arrow)


def stored_fields(
    field: pa.Field, path: str, null: str = NULL, in_nullable: bool = False
) -> list[pa.Field]:
    """Return the columns that store a column, or a field inside a column.

    Those that may be missing, if nothing is null, have metadata.
    """
    arrow, nullable = bare(field.type), field.nullable or in_nullable
    if types.is_struct(arrow):
        inner = [stored_fields(f, f"{path}.{f.name}", NULL, nullable) for f in arrow]
        # Without fields, this column says how many structs there are.
        nulls = pa.field(f"{path}.{null}", pa.bool_(), nullable=False)
        if not inner:
            return [nulls]
        own = [nulls.with_metadata({"optional": ""})] if field.nullable else []
        return [*own, *chain(*inner)]
    if not is_split(arrow):
        return [pa.field(path, stored_type(arrow), nullable)]
    if types.is_map(arrow):
        keys = stored_fields(arrow.key_field, f"{path}.key", ELEMENT_NULL)
        inside = [*keys, *stored_fields(arrow.item_field, f"{path}.value", ELEMENT_NULL)]
        name = "item"
    else:
        inside = stored_fields(arrow.value_field, path, ELEMENT_NULL)
        name = arrow.value_field.name
    return [
        pa.field(one.name, pa.list_(one.with_name(name)), nullable, one.metadata) for one in inside
    ]


# --- Cells of stored columns as cells of the user --------------------------------------------

Columns = dict[str, Cells]


def joined(field: pa.Field, path: str, columns: Columns, count: int, null: str = NULL) -> Cells:
    """Return the `count` cells of a field, made from the stored columns."""
    arrow = bare(field.type)
    if types.is_struct(arrow):
        inner = [joined(f, f"{path}.{f.name}", columns, count) for f in arrow]
        may_be_null = field.nullable or not inner
        nulls = columns.get(f"{path}.{null}") if may_be_null else None
        nulls = [False] * count if nulls is None else nulls
        return [
            None if is_null else tuple(one[row] for one in inner)
            for row, is_null in enumerate(nulls)
        ]
    if not is_split(arrow):
        return [None if cell is None else as_user(arrow, cell) for cell in columns[path]]
    lengths, inside = elements(columns, [one.name for one in stored_fields(field, path)])
    total = sum(length or 0 for length in lengths)
    if types.is_map(arrow):
        pair = zip(key_and_item(arrow), ("key", "value"), strict=True)
        both = [joined(f, f"{path}.{name}", inside, total, ELEMENT_NULL) for f, name in pair]
        flat = iter(zip(*both, strict=True))
    else:
        flat = iter(joined(arrow.value_field, path, inside, total, ELEMENT_NULL))
    return [None if n is None else [next(flat) for _ in range(n)] for n in lengths]


def elements(columns: Columns, names: Sequence[str]) -> tuple[list[int | None], Columns]:
    """Return the lengths of lists that several columns have in common, and their elements."""
    found = {name: columns[name] for name in names if name in columns}
    shapes = [[None if row is None else len(row) for row in one] for one in found.values()]
    require(shapes and all(shape == shapes[0] for shape in shapes), "lists of other lengths")
    inside = {
        name: [element for row in one if row is not None for element in row]
        for name, one in found.items()
    }
    return shapes[0], inside


def check(field: pa.Field, cell: object) -> None:
    """Check that nothing is null that must not be, and that lists have the right size."""
    require(field.nullable or cell is not None, f"{field.name} is null")
    arrow = bare(field.type)
    if cell is None or not types.is_nested(arrow):
        return
    if types.is_struct(arrow):
        inner: Iterable = zip(arrow, cell, strict=True)
    elif types.is_map(arrow):
        inner = [one for pair in cell for one in zip(key_and_item(arrow), pair, strict=True)]
    else:
        inner = [(arrow.value_field, one) for one in cell]
        is_fixed = types.is_fixed_size_list(arrow)
        require(not is_fixed or len(cell) == arrow.list_size, "a list of another size")
    for one, value in inner:
        check(one, value)


def key_and_item(arrow: pa.DataType) -> list[pa.Field]:
    return [arrow.key_field, arrow.item_field]


def as_user(arrow: pa.DataType, cell: object) -> object:
    """Return a stored cell that is not null as the user had it."""
    arrow = bare(arrow)
    if types.is_struct(arrow):
        inner = zip((f.type for f in arrow), cell, strict=True)
        return tuple(None if one is None else as_user(kind, one) for kind, one in inner)
    if types.is_map(arrow):
        kinds = [arrow.key_type, arrow.item_type]
        return [
            tuple(None if o is None else as_user(k, o) for k, o in zip(kinds, pair, strict=True))
            for pair in cell
        ]
    if is_list(arrow):
        return [None if one is None else as_user(arrow.value_type, one) for one in cell]
    return scalar_as_user(arrow, cell)


def scalar_as_user(arrow: pa.DataType, cell: object) -> object:
    require(not types.is_null(arrow), "a value of type null")
    if types.is_unsigned_integer(arrow):
        require(0 <= cell < 1 << arrow.bit_width, f"{cell} is not a {arrow}")
    elif types.is_fixed_size_binary(arrow) and not types.is_decimal(arrow):
        require(len(cell) == arrow.byte_width, "bytes of another length")
    elif types.is_float16(arrow):
        return half(cell)
    elif types.is_date64(arrow):
        return cell * MILLIS_OF_DAY
    elif types.is_time(arrow):
        per_day = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[arrow.unit] * 24 * 60 * 60
        made = seconds(cell) if arrow.unit == "s" else cell
        require(0 <= made < per_day, "a time outside the day")
        return made
    elif types.is_timestamp(arrow) and arrow.unit == "s":
        return seconds(cell)
    elif isinstance(cell, bytes) and types.is_interval(arrow):
        require(len(cell) == 16, "an interval of another length")
        return struct.unpack("<iiq", cell)
    elif isinstance(cell, bytes) and types.is_decimal(arrow):
        require(len(cell) == arrow.bit_width // 8, "a decimal of another length")
        cell = int.from_bytes(cell, "little", signed=True)
        require(abs(cell) < 10**arrow.precision, "a decimal of more digits")
    return cell


def seconds(millis: int) -> int:
    require(millis % 1000 == 0, "milliseconds in a type of seconds")
    return millis // 1000


def half(bits: int) -> int:
    """Return the bits of a 16-bit float, given those of a 32-bit float of the same value."""
    bits %= 1 << 32
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    if exponent == 0xFF:  # infinities, and NaN with its payload
        require(fraction % (1 << 13) == 0, "a NaN of more than 16 bits")
        number = (bits >> 31) << 15 | 0x7C00 | fraction >> 13
    else:
        (value,) = struct.unpack("<f", struct.pack("<I", bits))
        require(abs(value) < 65520, "a float of more than 16 bits")
        packed = struct.pack("<e", value)
        require(struct.unpack("<e", packed) == (value,), "a float of more than 16 bits")
        (number,) = struct.unpack("<H", packed)
    return number - (1 << 16) if number >= 1 << 15 else number


# --- Files -----------------------------------------------------------------------------------


class Table(NamedTuple):
    """What the user wrote."""

    schema: pa.Schema
    columns: list[Cells]
    dictionaries: dict[Path, Cells]  # values in the order in which the user had them


class Annex(NamedTuple):
    start: int  # in the file
    sections: dict[int, bytes]


def read_annex(data: bytes) -> Annex | None:
    """Return the sections by kind."""
    require(len(data) >= FOOTER.size, "not a Mosaic file")
    _, end, _, _, _, _, flags, _ = FOOTER.unpack(data[-FOOTER.size :])
    if not flags & HAS_ANNEX:
        return None
    require(12 <= end <= len(data), "no annex")
    crc, size, magic = struct.unpack("<II4s", data[end - 12 : end])
    require(magic == b"MOSX" and 12 <= size <= end, "not an annex")
    body = data[end - size : end - 12]
    require(crc32c(body) == crc, "checksum of the annex")
    stream = BytesIO(body)
    sections: dict[int, bytes] = {}
    while kind := stream.read(1):
        require(kind[0] not in sections, "two sections of a kind")
        sections[kind[0]] = read_sized(stream)
    return Annex(end - size, sections)


class Base(NamedTuple):
    """The file that a column file of a table belongs to."""

    num_rows: int
    size: int
    digest: bytes


def base_of(data: bytes) -> Base | None:
    """Return what a column file says about its base file."""
    annex = read_annex(data)
    if annex is None or BASE not in annex.sections:
        return None
    body = annex.sections[BASE]
    require(len(body) == 32, "not a base file")
    return Base(*struct.unpack("<QQ16s", body))


def identity(data: bytes) -> Base:
    """Return what column files say about a file: its end is what follows the last bucket."""
    _, end, _, _, _, _, _, _ = FOOTER.unpack(data[-FOOTER.size :])
    annex = read_annex(data)
    start = end if annex is None else annex.start
    _, batches = decode_file(data)
    digest = blake2b(data[start:], digest_size=16).digest()
    return Base(sum(batch.num_rows for batch in batches), len(data), digest)


def restores_types(data: bytes) -> bool:
    return bool(FOOTER.unpack(data[-FOOTER.size :])[6] & HAS_TYPES)


def decode_table(data: bytes) -> Table:
    """Return what the user wrote: types, metadata and dictionaries of the annex are restored."""
    stored, batches = decode_file(data)
    rows = sum(batch.num_rows for batch in batches)
    columns = {
        name: [cell for batch in batches for cell in cells(batch[name])] for name in stored.names
    }
    annex = read_annex(data)
    sections = {} if annex is None else annex.sections
    known = TYPES in sections or COMMON in sections
    require(known or not restores_types(data), "no types to restore")
    message = pa.schema([])
    if TYPES in sections:
        message = pa.ipc.read_schema(pa.py_buffer(sections[TYPES]))
    require(len(set(message.names)) == len(message), "a column is listed twice")
    if not restores_types(data):
        fields = [noted(field, message) for field in stored]
        return Table(pa.schema(fields, message.metadata), list(columns.values()), {})
    common = common_types(sections.get(COMMON))
    owners = owners_of(stored, message)
    names = list(dict.fromkeys(owners.get(name, name) for name in stored.names))
    fields = [
        message.field(name)
        if name in message.names
        else stored.field(name).with_type(
            common.get(stored.field(name).type, stored.field(name).type)
        )
        for name in names
    ]
    made = [joined(field, field.name, columns, rows) for field in fields]
    for field, column in zip(fields, made, strict=True):
        for cell in column:
            check(field, cell)
    given = {} if annex is None else read_dictionaries(data, annex)
    dictionaries = {
        path: [as_user(kind.value_type, cell) for cell in given[path]]
        for field in fields
        for path, kind in dictionaries_in(field.type, (field.name,))
        if path in given
    }
    return Table(pa.schema(fields, message.metadata), made, dictionaries)


def is_changed(arrow: pa.DataType) -> bool:
    """Return whether values are stored as values of another kind, such as times as numbers."""
    arrow = bare(arrow)
    inner = [bare(arrow.field(i).type) for i in range(arrow.num_fields)]
    return (
        is_split(arrow)
        or types.is_duration(arrow)
        or types.is_time64(arrow)
        or types.is_uint64(arrow)
        or types.is_interval(arrow)
        or (types.is_decimal(arrow) and stored_type(arrow) == pa.binary())
        or any(map(is_changed, inner))
    )


def common_types(message: bytes | None) -> dict[pa.DataType, pa.DataType]:
    """Return the types of columns that are not listed, by the types in which they are stored."""
    if message is None:
        return {}
    given = pa.ipc.read_schema(pa.py_buffer(message)).types
    require(not any(map(is_changed, given)), "common types whose values are stored as others")
    found = {stored_type(one): one for one in given}
    require(len(found) == len(given), "several types for one stored type")
    return found


def noted(field: pa.Field, message: pa.Schema) -> pa.Field:
    """Return a stored column with its metadata, and with its extension type if that fits."""
    index = message.get_field_index(field.name)
    if index < 0:
        return field
    given = message.field(index)
    fits = has_extension(given.type) and not is_split(given.type)
    fits = fits and stored_type(given.type) == field.type
    return pa.field(field.name, given.type if fits else field.type, field.nullable, given.metadata)


def has_extension(arrow: pa.DataType) -> bool:
    inner = [arrow.field(i).type for i in range(arrow.num_fields)]
    return isinstance(arrow, pa.BaseExtensionType) or any(map(has_extension, inner))


def owners_of(stored: pa.Schema, message: pa.Schema) -> dict[str, str]:
    """Return for each stored column of a listed column the name of that column."""
    owners: dict[str, str] = {}
    for field in message:
        wanted = stored_fields(field, field.name)
        found = [one for one in wanted if one.name in stored.names]
        for one in wanted:
            require(one.metadata or one.name in stored.names, f"{one.name} is missing")
        for one in found:
            require(one.name not in owners, f"{one.name} belongs to two columns")
            require(stored.field(one.name).equals(one), f"{one.name} has another type")
            owners[one.name] = field.name
    return owners


def dictionaries_in(arrow: pa.DataType, path: Path) -> list[tuple[Path, pa.DataType]]:
    """Return the dictionaries in a type, each with its path."""
    if isinstance(arrow, pa.BaseExtensionType):
        return dictionaries_in(arrow.storage_type, path)
    if types.is_dictionary(arrow):
        return [(path, arrow)]
    if types.is_run_end_encoded(arrow):
        return dictionaries_in(arrow.value_type, path)
    if types.is_struct(arrow):
        fields = list(arrow)
    elif types.is_map(arrow):
        fields = key_and_item(arrow)
    else:
        fields = [arrow.value_field] if is_list(arrow) else []
    return list(chain(*(dictionaries_in(f.type, (*path, f.name)) for f in fields)))


def read_dictionaries(data: bytes, annex: Annex) -> dict[Path, Cells]:
    """Return the values of all dictionaries, with types that the file of dictionaries has."""
    if DICTIONARIES not in annex.sections:
        return {}
    stream = BytesIO(annex.sections[DICTIONARIES])
    size = read_uv(stream)
    require(not stream.read() and size <= annex.start, "size of the dictionaries")
    file = data[annex.start - size : annex.start]
    own = read_annex(file)
    require(own is None or DICTIONARIES not in own.sections, "dictionaries in dictionaries")
    inner = decode_table(file)
    return {
        tuple(name.split(SEPARATOR)): values_of(column)
        for name, column in zip(inner.schema.names, inner.columns, strict=True)
    }


def values_of(column: Cells) -> Cells:
    """Return the values of a dictionary, which are stored in several lists."""
    require(all(isinstance(row, list) for row in column), "a dictionary without lists")
    values = [value for row in column for value in row]
    require(None not in values, "null in a dictionary")
    require(len(set(map(repr, values))) == len(values), "a value twice in a dictionary")
    return values
