"""Mutations: of the parts of a file, of other lists of tokens, and of plain bytes.

All choices come from a `random.Random`, so that a seed repeats a mutation.
"""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any

import annex_reference
import pyarrow as pa
import reference
import user_types

from . import model, tokens
from .model import Block, File, Frame
from .tokens import Token, Tokens

NUMBERS = [0, 1, 2, 3, 7, 8, 9, 16, 38, 39, 63, 64, 127, 128, 255, 256, 1000, 65535, 65536]
NUMBERS += [10**6, 1 << 24, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
JSON_VALUES = [
    None,
    True,
    1.5,
    "",
    "a",
    "..",
    "../a",
    "/a",
    "_columns/a",
    "a\0",
    "\ud800",
    "0" * 32,
    [],
    {},
]
TEXTS = [
    *(
        b"",
        b"a",
        b"\0",
        b"a\0b",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
    ),
    *(
        "é",
        "漢語",
        "\u202ehidden",
        "\x1b[31mred",
        "\x9b",
        "\ufeff",
        "a\nb",
        "\U0010ffff",
        "\u2066x",
    ),
    *(
        "UTC",
        "Europe/Berlin",
        "+05:30",
        "not a zone",
        "*",
        "a,b",
        "--help",
        "item",
        "key",
        "entries",
    ),
]
TEXTS = [one.encode() if isinstance(one, str) else one for one in TEXTS]
TYPES = [
    *(reference.encode_type(pa.field("", one)) for one in reference.SIMPLE.values()),
    *(
        b"\x08\x01\x05",
        b"\x0b\x00\x05",
        b"\x0e\x01\x12\x00",
        b"\x0e\x01\x13\x02",
        b"\x0e\x01\x26\x26",
    ),
    *(b"\x0e\x00\x05\xfe\xff\xff\xff\x0f", b"\x0f\x01\x03", b"\x10\x01\x03", b"\x10\x01\x06"),
    *(b"\x10\x01\x09", b"\x11\x01\x09\x03UTC", b"\x11\x01\x06\x00"),
    *(b"\x12\x01\x04item\x03\x01", b"\x12\x00\x00\x0a\x00", b"\x12\x01\x01e\x12\x01\x01e\x00\x01"),
    *(b"\xe0\x01\x04item\x03\x01", b"\xe0\x01\x04item\x0a\x01", b"\xe0\x00\x04item\x10\x01\x09"),
    b"\x13\x01\x07entries\x03key\x0a\x00\x05value\x03\x01",
    b"\x13\x01\x07entries\x03key\x03\x00\x05value\x12\x01\x04item\x0e\x01\x14\x02",
    *(b"\x14\x01", b"\x0e\x01\x00\x00", b"\x0e\x01\x27\x00", b"\x12\x01\x01e" * 40 + b"\x00\x01"),
]


# ---- bytes and numbers


def number(value: int, rng: Random) -> int:
    match rng.randrange(5):
        case 0:
            return rng.choice(NUMBERS)
        case 1:
            return value ^ (1 << rng.randrange(32))
        case 2:
            return max(0, value + rng.choice([-1, 1, -1, 1, 2, 8, -8]))
        case 3:
            return value * rng.choice([2, 3, 10]) % (1 << 32)
    return rng.getrandbits(rng.choice([3, 8, 17, 32]))


def bytes_of_value(value: bytes, rng: Random) -> bytes:
    """Return another value of the same size, or nearly so."""
    size = len(value)
    match rng.randrange(9):
        case 0:
            return bytes(size)
        case 1:
            return b"\xff" * size
        case 2:
            return b"\x7f" + b"\xff" * (size - 1) if size else b"\x7f"
        case 3:
            return b"\x80" + bytes(size - 1) if size else b"\x80"
        case 4:
            return rng.randbytes(size)
        case 5:
            step = rng.choice([-1, 1, 1000, 86400000, 10**6])
            return ((int.from_bytes(value) + step) % (1 << 8 * size)).to_bytes(size)
        case 6:
            return value[: rng.randrange(size)] if size else b"\0"
    return flipped(value, rng) if size else b"\x01"


def text(value: bytes, rng: Random) -> bytes:
    match rng.randrange(6):
        case 0:
            return rng.choice(TEXTS)
        case 1:
            return value + rng.choice(TEXTS)
        case 2:
            return value[: rng.randrange(len(value) + 1)]
        case 3:
            return value * rng.choice([2, 3, 40]) if len(value) < 4000 else value[:10]
    return bytes_of_value(value, rng)


def flipped(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def plain(data: bytes, rng: Random) -> bytes:
    """Change bytes without knowing what they mean."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice([1, 1, 2, 4, 8, 32]))
    match rng.randrange(7):
        case 0:
            return data[:start]
        case 1:
            return data[start:]
        case 2:
            return data[:start] + data[end:]
        case 3:
            return data[:end] + data[start:]
        case 4:
            return data[:start] + rng.randbytes(end - start) + data[end:]
        case 5:
            return data[:start] + rng.randbytes(rng.randrange(1, 9)) + data[start:]
    for _ in range(rng.randrange(1, 4)):
        data = flipped(data, rng)
    return data


# ---- tokens


def token(one: Token, rng: Random) -> Token:
    kind, value = one
    match kind:
        case "u8":
            return (
                kind,
                rng.choice([0, 1, 2, 3, 4, 255, value ^ 1, value + 1, rng.randrange(256)]),
            )
        case "uv" | "le4":
            return (kind, number(value, rng))
        case "zz":
            return (kind, value + rng.choice([-1, 1, 2, 1 << 31, -(1 << 62), 1 << 62]))
        case "raw":
            return (kind, bytes_of_value(value, rng))
        case "str":
            return (kind, text(value, rng))
    change(value, rng)
    return one


def nested(part: Tokens) -> list[Tokens]:
    """Return a list of tokens and the lists inside it."""
    found = [part]
    for kind, value in part:
        if kind in ("part", "block"):
            found += nested(value)
    return found


def change(part: Tokens, rng: Random, donor: Tokens | None = None) -> None:
    """Change a list of tokens in place."""
    part = rng.choice(nested(part))
    if not part:
        part.append(("raw", rng.randbytes(rng.randrange(9))))
        return
    at = rng.randrange(len(part))
    match rng.randrange(14):
        case 0:
            del part[at]
        case 1:
            part.insert(at, part[at])
        case 2:
            part.insert(at, rng.choice(part))
        case 3:
            other = rng.randrange(len(part))
            part[at], part[other] = part[other], part[at]
        case 4 if donor:
            start = rng.randrange(len(donor))
            part[at : at + rng.randrange(3)] = pickle.loads(
                pickle.dumps(donor[start : start + rng.randrange(1, 6)])
            )
        case 5:
            del part[at:]
        case 6:
            part.append(("raw", rng.randbytes(rng.randrange(1, 9))))
        case _:
            part[at] = token(part[at], rng)


# ---- files


def file(data: bytes, donor: bytes, rng: Random) -> bytes:
    """Return a changed file; `donor` is another one."""
    if rng.random() < 0.05:
        return plain(data, rng)
    if rng.random() < 0.02:
        return spliced(data, donor, rng)
    parts = _parsed(data)
    if parts is None:
        return plain(data, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        if rng.random() < 0.55:
            change(rng.choice(parts.parts()), rng, rng.choice(parts.parts()))
        else:
            is_inner = parts.dictionaries is not None and rng.random() < 0.2
            rng.choice(FILE_CHANGES)(parts.dictionaries if is_inner else parts, rng, donor)
    made = model.assemble(parts)
    return plain(made, rng) if rng.random() < 0.03 else made


@lru_cache(maxsize=2000)
def _pickled(data: bytes) -> bytes:
    try:
        return pickle.dumps(model.parse(data))
    except tokens.BROKEN:
        return pickle.dumps(None)


def _parsed(data: bytes) -> File | None:
    """Return the parts of a file, which may be changed; None if it cannot be parsed."""
    return pickle.loads(_pickled(data))


def spliced(data: bytes, donor: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)] + donor[rng.randrange(len(donor) + 1) :]


def _group(file: File, rng: Random) -> Any:
    return rng.choice(file.groups) if file.groups else None


def _bucket(file: File, rng: Random) -> Block | None:
    blocks = [block for group in file.groups for block in group.blocks]
    return rng.choice(blocks) if blocks else None


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _rows(file: File, rng: Random, _: bytes) -> None:
    if group := _group(file, rng):
        group.rows = number(group.rows, rng)


def _child_rows(file: File, rng: Random, _: bytes) -> None:
    block = _bucket(file, rng)
    if block and block.child_rows:
        at = rng.randrange(len(block.child_rows))
        block.child_rows[at] = number(block.child_rows[at], rng)


def _groups(file: File, rng: Random, _: bytes) -> None:
    if not file.groups:
        return
    at = rng.randrange(len(file.groups))
    match rng.randrange(4):
        case 0:
            del file.groups[at]
        case 1 if len(file.groups) < 8:
            file.groups.insert(at, _copy(file.groups[at]))
        case 2:
            file.groups.reverse()
        case _:
            # Many row groups of few bytes: what costs once must not cost a thousand times.
            if len(file.groups[at].blocks) < 3:
                file.groups += [_copy(file.groups[at]) for _ in range(rng.choice([3, 30]))]


def _blocks(file: File, rng: Random, _: bytes) -> None:
    group = _group(file, rng)
    if not group or not group.blocks:
        return
    at = rng.randrange(len(group.blocks))
    match rng.randrange(6):
        case 0:
            del group.blocks[at]
        case 1:
            group.blocks.insert(at, _copy(group.blocks[at]))
        case 2:
            group.blocks.reverse()
        case 3:
            group.blocks[at].number = number(group.blocks[at].number, rng)
        case 4:
            group.listed = number(len(group.blocks), rng)
        case 5:
            other = rng.choice(group.blocks)
            one = group.blocks[at]
            one.number, other.number = other.number, one.number


def _places(file: File, rng: Random, _: bytes) -> None:
    if block := _bucket(file, rng):
        if rng.random() < 0.5:
            block.moved = rng.choice([-1, 1, 8, 100, -(1 << 40), (1 << 63), -(1 << 20)])
        else:
            block.grown = rng.choice([-1, 1, 8, 100, 1 << 20, 1 << 31])


def _slots(file: File, rng: Random, _: bytes) -> None:
    block = _bucket(file, rng)
    if block is None or not block.slots:
        return
    at, other = rng.randrange(len(block.slots)), rng.randrange(len(block.slots))
    match rng.randrange(4):
        case 0:
            block.slots[at] = None
        case 1:
            block.slots[at] = _copy(block.slots[other])
        case 2:
            block.slots[at], block.slots[other] = block.slots[other], block.slots[at]
        case 3:
            del block.slots[at]


def _frames(file: File, rng: Random, _: bytes) -> None:
    block = _bucket(file, rng)
    frame = file.frame if block is None or rng.random() < 0.15 else block.frame
    match rng.randrange(10):
        case 0:
            frame.checksum = not frame.checksum
        case 1:
            frame.content_size = not frame.content_size
        case 2:
            frame.pieces = rng.choice([2, 3, 7])
        case 3:
            frame.before = SKIPPABLE
        case 4:
            frame.after = rng.choice([SKIPPABLE, b"\0", b"\x28\xb5\x2f\xfd", rng.randbytes(5)])
        case 5:
            frame.zeros = rng.choice([1, 100, 1 << 16, 1 << 20, 1 << 24, 1 << 29])
        case 6:
            frame.cut = rng.randrange(1, 9)
        case 7:
            frame.declared = rng.choice([0, 1, *NUMBERS, 1 << 29, 1 << 30])
        case 8:
            frame.is_stored = not frame.is_stored
        case 9:
            size = len(tokens.encode(file.schema if block is None else block.tokens))
            frame.declared = max(0, size + rng.choice([-1, 1, 10, 1000]))


SKIPPABLE = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"


def _footer(file: File, rng: Random, _: bytes) -> None:
    match rng.randrange(8):
        case 0:
            file.version = rng.choice([0, 1, 2, 0x81, 0x82, 255])
        case 1:
            file.flags = rng.choice([0, 1, 2, 3, 0x80, 0x100, 0x101, 0x200, 0xFFFF])
        case 2:
            file.num_buckets = rng.choice(NUMBERS)
        case 3:
            file.num_groups = number(len(file.groups), rng)
        case 4:
            file.moved = rng.choice([(-1, 0), (1, 0), (0, 1), (0, -1), (8, 8), (1 << 63, 0)])
        case 5:
            file.compression = rng.choice([0, 1, 2, 255])
        case 6:
            model.recompressed(file)
        case 7:
            file.version, file.flags = 0x81, file.flags | 0x100


def _types(file: File, rng: Random, donor: bytes) -> None:
    """Change the types that the annex restores, or restore some."""
    if file.annex is None:
        file.annex = []
    file.flags |= 1 | model.HAS_TYPES
    stored = _stored_schema(file)
    listed = next((part for kind, part in file.annex if kind == model.TYPES and part), None)
    if listed is None or rng.random() < 0.3:
        given = plausible(stored, rng)
    else:
        try:
            given = pa.ipc.read_schema(pa.py_buffer(tokens.encode(listed)))
        except (*tokens.BROKEN, OSError):
            given = plausible(stored, rng)
    if rng.random() < 0.7 and len(given):
        place = rng.randrange(len(given))
        with contextlib.suppress(*tokens.BROKEN):  # a type that Arrow does not have
            changed = changed_field(given.field(place), rng)
            given = given.remove(place) if changed is None else given.set(place, changed)
    kind = model.TYPES
    if rng.random() < 0.1:
        kind = model.COMMON
        given = pa.schema([pa.field("", rng.choice(RESTORED_TYPES)) for _ in range(2)])
    with contextlib.suppress(*tokens.BROKEN):
        message = given.serialize().to_pybytes()
        file.annex = [one for one in file.annex if one[0] != kind]
        file.annex.append((kind, [("raw", message)]))


def _stored_schema(file: File) -> pa.Schema:
    try:
        fields = reference.decode_schema(tokens.encode(file.schema)).fields
        return pa.schema(list(map(reference.without_block, fields)))
    except tokens.BROKEN:
        return pa.schema([("a", pa.int32())])


def plausible(stored: pa.Schema, rng: Random) -> pa.Schema:
    """Return types that may fit stored columns: structs by their names, others by their types."""
    columns: dict[str, list[pa.Field]] = {}
    for field in stored:
        owner, dot, name = field.name.partition(".")
        if dot and owner and name:
            columns.setdefault(owner, []).append(field.with_name(name))
        elif rng.random() < 0.5:
            fitting = [one for one in RESTORED_TYPES if _is_stored_as(one, field.type)]
            columns[field.name] = [field.with_type(rng.choice(fitting or [field.type]))]
    made = []
    for name, fields in columns.items():
        if len(fields) == 1 and fields[0].name == name:
            made.append(fields[0])
            continue
        leaves = [one for one in fields if not one.name.startswith("__")]
        in_lists = all(pa.types.is_list(one.type) for one in fields)
        if in_lists:
            leaves = [one.with_type(one.type.value_type) for one in leaves]
        arrow = pa.struct(leaves)
        made.append(pa.field(name, pa.list_(arrow) if in_lists else arrow, rng.random() < 0.8))
    return pa.schema(made)


def _is_stored_as(arrow: pa.DataType, stored: pa.DataType) -> bool:
    return not annex_reference.is_split(arrow) and annex_reference.stored_type(arrow) == stored


def changed_field(field: pa.Field, rng: Random) -> pa.Field | None:
    """Return a field with another name, type, or one that is nullable; None to leave it out."""
    arrow = field.type
    match rng.randrange(9):
        case 0:
            return field.with_nullable(not field.nullable)
        case 1:
            return field.with_name(rng.choice(["a", "__null__", "x", field.name + ".x", ""]))
        case 2:
            return None
        case 3:
            return field.with_type(rng.choice(RESTORED_TYPES))
        case 4:
            wrap = rng.choice([pa.list_, pa.large_list, lambda one: pa.list_(one, 2), _struct])
            return field.with_type(wrap(arrow))
        case 5 if pa.types.is_list(arrow):
            return field.with_type(pa.list_(arrow.value_field, rng.choice([0, 1, 2, 2**31 - 1])))
        case 6 if not pa.types.is_nested(arrow):
            index = rng.choice([pa.int8(), pa.uint8(), pa.int32()])
            return field.with_type(pa.dictionary(index, arrow))
    if pa.types.is_struct(arrow) and len(arrow):
        fields = list(arrow)
        at = rng.randrange(len(fields))
        inner = changed_field(fields[at], rng)
        fields[at : at + 1] = [] if inner is None else [inner, *rng.choice([[], [], [inner]])]
        return field.with_type(pa.struct(fields))
    if pa.types.is_list(arrow):
        inner = changed_field(arrow.value_field, rng)
        return field if inner is None else field.with_type(pa.list_(inner))
    if pa.types.is_map(arrow):
        inner = changed_field(arrow.item_field, rng)
        return field if inner is None else field.with_type(pa.map_(arrow.key_field, inner))
    return field.with_type(rng.choice(RESTORED_TYPES))


def _struct(arrow: pa.DataType) -> pa.DataType:
    return pa.struct([("x", arrow)])


def _dictionaries(file: File, rng: Random, donor: bytes) -> None:
    """Change where the dictionaries are, or what they are."""
    match rng.randrange(5):
        case 0:
            file.dictionaries = None
        case 1:
            size: Tokens = [("uv", rng.choice(NUMBERS))]
            file.annex = [one for one in file.annex or () if one[0] != model.DICTIONARIES]
            file.annex.append((model.DICTIONARIES, size))
        case 2:
            other = _parsed(donor)
            file.dictionaries = other if other is None or len(donor) < 3000 else None
        case 3:
            other = _parsed(donor)
            if other is not None and other.dictionaries is not None:
                file.dictionaries = other.dictionaries
        case 4 if file.dictionaries is not None:
            file.dictionaries.schema = _renamed(file.dictionaries.schema, names_of(file), rng)
    if file.dictionaries is not None and file.annex is not None:
        kinds = [kind for kind, _ in file.annex]
        if model.DICTIONARIES not in kinds:
            file.annex.append((model.DICTIONARIES, None))


def _renamed(schema: Tokens, names: list[str], rng: Random) -> Tokens:
    """Return a schema block with another name of a column."""
    places = [i for i, (kind, _) in enumerate(schema) if kind == "str"]
    made = list(schema)
    if places:
        made[rng.choice(places)] = ("str", rng.choice(names).encode())
    return made


def _annex(file: File, rng: Random, _: bytes) -> None:
    if file.annex is None:
        file.annex = rng.choice([[], [(1, None)], [(4, None)], [(1, None), (4, None)]])
        file.flags |= 1
    match rng.randrange(9):
        case 0:
            file.annex = None
        case 1:
            file.flags ^= 1
        case 2:
            file.annex_sum = rng.choice([0, 1])
        case 3:
            file.annex.append((rng.choice([3, 5, 7, 255]), [("raw", rng.choice(TEXTS))]))
        case 4:
            message = attached(rng, names_of(file))
            file.annex = [one for one in file.annex if one[0] != model.TYPES]
            file.annex.append((model.TYPES, [("raw", message)]))
        case 5:
            if file.annex:
                del file.annex[rng.randrange(len(file.annex))]
        case 6:
            if file.annex:
                file.annex.append(rng.choice(file.annex))
        case 7:
            numbers: Tokens = [("le4", rng.getrandbits(32)) for _ in range(rng.randrange(5))]
            file.annex.append((rng.choice([1, 4]), numbers))
        case 8:
            file.padding = rng.randbytes(rng.choice([1, 12, 100]))


def names_of(file: File) -> list[str]:
    try:
        fields = reference.decode_schema(tokens.encode(file.schema)).fields
    except tokens.BROKEN:
        return ["a"]
    return [field.name for field in fields] or ["a"]


ATTACHED_TYPES = [
    *(pa.int8(), pa.int32(), pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.binary()),
    *(pa.uuid(), pa.json_(), pa.bool8(), pa.opaque(pa.int64(), "a", "b")),
    *(pa.fixed_shape_tensor(pa.int32(), [2]), pa.dictionary(pa.int8(), pa.string()), pa.null()),
    *(pa.list_(pa.uuid()), pa.map_(pa.string(), pa.bool8()), pa.list_(pa.int32(), 2)),
    *(pa.struct([("a", pa.int8())]), pa.large_string(), pa.decimal128(5, 2), pa.uint8()),
    *(pa.string_view(), pa.large_list(pa.int32()), pa.time64("ns"), pa.duration("s")),
    *(pa.timestamp("s", "UTC"), pa.run_end_encoded(pa.int32(), pa.int8()), pa.float16()),
]
RESTORED_TYPES = [*user_types.LEAVES, *ATTACHED_TYPES]


def attached(rng: Random, names: list[str]) -> bytes:
    """Return an IPC message for the annex: metadata, and types that may not fit."""
    fields = []
    for name in rng.sample(names, min(len(names), rng.randrange(3))):
        metadata = rng.choice([None, {"a": "b"}, {"ARROW:extension:name": "x"}, {b"\xff": b"\0"}])
        arrow = rng.choice(RESTORED_TYPES)
        nullable = arrow == pa.null() or rng.random() < 0.7
        fields.append(pa.field(name, arrow, nullable, metadata))
    message = pa.schema(fields, rng.choice([None, {"pandas": "{}"}, {"k": "v" * 100}])).serialize()
    data = message.to_pybytes()
    return plain(data, rng) if rng.random() < 0.3 else data


def _schema_types(file: File, rng: Random, _: bytes) -> None:
    """Replace the type of a column, and keep its data."""
    ends = [i + 1 for i in range(len(file.schema) - 1) if file.schema[i][0] == "str" and i > 2]
    if not ends:
        return
    at = rng.choice(ends)
    after = next((i for i in range(at, len(file.schema)) if file.schema[i][0] in ("uv", "zz")), at)
    file.schema[at:after] = [("raw", rng.choice(TYPES))]


def _layout(file: File, rng: Random, _: bytes) -> None:
    """Turn a bucket of one column into a page, or a page into a bucket."""
    block = _bucket(file, rng)
    if block is None:
        return
    if block.slots is None:
        block.slots, block.tokens = [block.tokens], []
    else:
        pages = [slot for slot in block.slots if slot]
        block.slots, block.tokens = None, pages[0] if pages else []


def _other_parts(file: File, rng: Random, donor: bytes) -> None:
    """Replace a part by one of another file."""
    other = _parsed(donor)
    if other is None:
        return
    match rng.randrange(4):
        case 0:
            file.schema = other.schema
        case 1:
            file.annex, file.flags = other.annex, file.flags | other.flags & 3
            file.dictionaries = other.dictionaries
        case 2:
            file.groups += other.groups[:3]
        case 3:
            mine, theirs = _group(file, rng), _group(other, rng)
            if mine and theirs:
                mine.blocks = theirs.blocks


def _padding(file: File, rng: Random, _: bytes) -> None:
    file.padding = rng.choice([b"\0", b"MOSX", bytes(100), b"\0" * 8 + b"MOSX"])


def _plain_frame(file: File, rng: Random, _: bytes) -> None:
    """Damage what is compressed, not what is in it."""
    block = _bucket(file, rng)
    if block is not None and block.slots is None and not block.frame.is_stored:
        data, raw = block.pack(file.compression)
        block.tokens = [("raw", flipped(data, rng))]
        block.frame = Frame(is_stored=True, declared=raw)


FILE_CHANGES: list[Callable[[File, Random, bytes], None]] = [
    *(_rows, _rows, _child_rows, _groups, _blocks, _places, _slots, _frames, _frames, _footer),
    *(_annex, _annex, _schema_types, _schema_types, _layout, _other_parts, _padding, _plain_frame),
    *(_types, _types, _dictionaries),
]


# ---- other inputs


def schema(data: bytes, donor: bytes, rng: Random) -> bytes:
    """The body of a schema block."""
    parts = tokens.parsed(data, tokens.schema)
    other = tokens.parsed(donor, tokens.schema)
    return _changed(parts, other, rng)


def block(data: bytes, donor: bytes, rng: Random) -> bytes:
    """An array data block behind the number of its type in `targets.BLOCK_TYPES`."""
    from .targets import BLOCK_TYPES, block_form

    kind = data[0] if data else 0
    arrow = BLOCK_TYPES[kind % len(BLOCK_TYPES)]
    if rng.random() < 0.05:
        kind = rng.randrange(len(BLOCK_TYPES))
    form = block_form(arrow)
    parts = tokens.parsed(data[1:], tokens.array_block, form)
    other = tokens.parsed(donor[1:], tokens.array_block, form)
    return bytes([kind]) + _changed(parts, other, rng)


def annex(data: bytes, donor: bytes, rng: Random) -> bytes:
    """The sections of an annex, without its end."""
    if rng.random() < 0.3:
        return b"\x02" + reference.sized(attached(rng, ["a", "b"]))
    if rng.random() < 0.3:
        fields = plausible(pa.schema([("a", pa.int16()), ("b.x", pa.string())]), rng)
        with contextlib.suppress(*tokens.BROKEN):
            given = filter(None, [changed_field(field, rng) for field in fields])
            made = pa.schema(list(given)).serialize().to_pybytes()
            return rng.choice([b"\x02", b"\x07"]) + reference.sized(made)
    return plain(data, rng) if rng.random() < 0.8 else spliced(data, donor, rng)


def seed(data: bytes, donor: bytes, rng: Random) -> bytes:
    """A number that decides about a random table."""
    return rng.randbytes(8)


def version(data: bytes, donor: bytes, rng: Random) -> bytes:
    """The JSON text of a version of a table."""
    try:
        document, other = json.loads(data), json.loads(donor)
    except (ValueError, RecursionError):
        return plain(data, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        document = _changed_json(document, other, rng)
    made = json.dumps(document).encode()
    return plain(made, rng) if rng.random() < 0.1 else made


def _changed_json(value: Any, other: Any, rng: Random) -> Any:
    """Change something inside a value, or the value itself."""
    keys: list[Any] = []
    if isinstance(value, dict | list) and rng.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return _copy(
            rng.choice([*JSON_VALUES, other, rng.choice(NUMBERS), -1, 2**63, value, [value]])
        )
    key = rng.choice(keys)
    if rng.random() < 0.1:
        del value[key]
    elif isinstance(value, list) and rng.random() < 0.2:
        value.append(_copy(value[key]))
    else:
        theirs = other.get(key) if isinstance(other, dict) else other
        value[key] = _changed_json(value[key], theirs, rng)
    return value


def _changed(parts: Tokens, other: Tokens, rng: Random) -> bytes:
    for _ in range(rng.choice([1, 1, 1, 2, 3, 6])):
        change(parts, rng, other)
    made = tokens.encode(parts)
    return plain(made, rng) if rng.random() < 0.05 else made
