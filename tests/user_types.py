"""Tables of all Arrow types that can be written, nested in each other; and exact comparison.

Types are drawn from a list that is always the same, and arrays are made from a seed: quick to draw,
and a failure shrinks to fewer columns and rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from annex_reference import Cells, Path, bare, cells, dictionaries_in, is_list, key_and_item
from hypothesis import strategies as st
from pyarrow import types
from strategies import FLAT_TYPES, chunked, edges, fresh_value

# Types -------------------------------------------------------------------------------------

UNSIGNED = [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TIMES = [pa.time32("s"), pa.time64("us"), pa.time64("ns")]
DURATIONS = [pa.duration(unit) for unit in ("s", "ms", "us", "ns")]
DECIMALS = [
    pa.decimal32(7, 2),
    pa.decimal64(15, 3),
    pa.decimal256(38, 5),
    pa.decimal256(60, 10),
    pa.decimal128(3, 10),  # a scale beyond the precision, which the format has not
]
TEXTS = [pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
EXTENSIONS = [
    *(pa.uuid(), pa.json_(), pa.bool8(), pa.opaque(pa.duration("s"), "a", "b")),
    pa.opaque(pa.struct([("x", pa.uint8())]), "a", "b"),
]
SCALARS = [
    *(*FLAT_TYPES, *UNSIGNED, *TIMES, *DURATIONS, *DECIMALS, *TEXTS, *EXTENSIONS),
    *(pa.float16(), pa.date64(), pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.null()),
    pa.month_day_nano_interval(),
]
DICTIONARIES = [
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string(), ordered=True),
    pa.dictionary(pa.uint16(), pa.uint64()),
    pa.dictionary(pa.int64(), pa.duration("us")),
    pa.dictionary(pa.int16(), pa.float16()),
    pa.dictionary(pa.uint8(), pa.string_view()),
    pa.dictionary(pa.int8(), pa.decimal256(50, 2)),
    pa.dictionary(pa.int8(), pa.month_day_nano_interval()),
    pa.dictionary(pa.int8(), pa.binary(3)),
    pa.dictionary(pa.int16(), pa.struct([("x", pa.int8()), ("y", pa.uint64())])),
    pa.dictionary(pa.int16(), pa.list_(pa.time64("ns"))),
    pa.dictionary(pa.int16(), pa.float64()),
]
RUNS = [
    pa.run_end_encoded(pa.int16(), pa.string()),
    pa.run_end_encoded(pa.int32(), pa.uint64()),
    pa.run_end_encoded(pa.int64(), pa.large_string()),
    pa.run_end_encoded(pa.int32(), pa.struct([("x", pa.int8())])),
]
LEAVES = [*SCALARS, *DICTIONARIES, *RUNS]


def random_type(rng: random.Random, depth: int) -> pa.DataType:
    """Return a type that is nested up to `depth`."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(LEAVES)
    kind = rng.randrange(9)
    if kind < 4:
        names = rng.sample(["x", "y", "b", "a.b", "é", "ключ"], rng.choice([0, 1, 1, 2, 3]))
        return pa.struct([random_field(name, rng, depth) for name in names])
    if kind == 4:
        key = pa.field("key", rng.choice(KEYS), nullable=False)
        return pa.map_(key, random_field("value", rng, depth), keys_sorted=rng.random() < 0.2)
    element = random_field(rng.choice(["item", "element", "é"]), rng, depth)
    if kind == 5:
        return pa.list_(element, rng.choice([0, 1, 2, 3]))
    return rng.choice([pa.list_, pa.list_, pa.large_list, pa.list_view, pa.large_list_view])(
        element
    )


KEYS = [
    *[one for one in SCALARS if one != pa.null()],
    pa.dictionary(pa.int8(), pa.string()),
    pa.struct([pa.field("x", pa.int8(), nullable=False), ("y", pa.string())]),
    pa.list_(pa.int8()),
]


def random_field(name: str, rng: random.Random, depth: int) -> pa.Field:
    arrow = random_type(rng, depth - 1)
    metadata = {"k": "v"} if rng.random() < 0.05 else None
    return pa.field(name, arrow, bare(arrow) == pa.null() or rng.random() < 0.6, metadata)


def _nested_types() -> Iterator[pa.DataType]:
    """Structs, lists and maps of every leaf, and nested in each other."""
    rng = random.Random(14)
    for leaf in LEAVES:
        nullable = bare(leaf) == pa.null() or rng.random() < 0.5
        yield pa.struct([pa.field("x", leaf, nullable), pa.field("y", pa.int8())])
        yield pa.list_(pa.field("item", leaf, nullable))
        yield pa.list_(pa.field("item", pa.struct([pa.field("x", leaf, nullable)])))
    for _ in range(400):
        yield random_type(rng, 3)


NESTED = [one for one in _nested_types() if types.is_nested(one)]
USER_TYPES = st.one_of(st.sampled_from(LEAVES), st.sampled_from(NESTED))


# Arrays ------------------------------------------------------------------------------------


def user_array(field: pa.Field, count: int, rng: random.Random) -> pa.Array:
    """Return an array that may be a slice; values under nulls are arbitrary."""
    before, after = rng.choice([(0, 0), (0, 0), (1, 0), (3, 5)])
    return _array(field, before + count + after, rng).slice(before, count)


def _array(field: pa.Field, count: int, rng: random.Random) -> pa.Array:
    arrow = field.type
    if types.is_null(arrow):
        return pa.nulls(count)
    share = rng.choice([0, 0.1, 0.6, 1]) if field.nullable else 0
    nulls = [rng.random() < share for _ in range(count)]
    if isinstance(arrow, pa.BaseExtensionType):
        return arrow.wrap_array(_array(field.with_type(arrow.storage_type), count, rng))
    if types.is_dictionary(arrow):
        return _dictionary(arrow, nulls, rng)
    if types.is_run_end_encoded(arrow):
        return _runs(field, count, rng)
    if types.is_nested(arrow):
        return _nested(arrow, nulls, rng)
    return _scalars(arrow, nulls, rng)


def _dictionary(arrow: pa.DataType, nulls: list[bool], rng: random.Random) -> pa.Array:
    """Return values of a dictionary that are distinct, in any order; some may be unused."""
    some = _array(pa.field("", arrow.value_type, nullable=False), rng.randrange(1, 7), rng)
    places = {_hashable(cell): place for place, cell in enumerate(cells(some))}
    kept = [some.slice(place, 1) for place in places.values()]
    values = pa.concat_arrays(kept)
    indices = [None if null else rng.randrange(len(values)) for null in nulls]
    return pa.DictionaryArray.from_arrays(
        pa.array(indices, arrow.index_type), values, ordered=arrow.ordered
    )


def _hashable(cell: object) -> object:
    if isinstance(cell, list | tuple):
        return type(cell).__name__, *map(_hashable, cell)
    return cell


def _runs(field: pa.Field, count: int, rng: random.Random) -> pa.Array:
    ends: list[int] = []
    while (ends[-1] if ends else 0) < count:
        ends.append(min(count, (ends[-1] if ends else 0) + rng.randrange(1, 5)))
    values = _array(field.with_type(field.type.value_type), len(ends), rng)
    return pa.RunEndEncodedArray.from_arrays(
        pa.array(ends, field.type.run_end_type), values, type=field.type
    )


def _nested(arrow: pa.DataType, nulls: list[bool], rng: random.Random) -> pa.Array:
    mask = pa.array(nulls, pa.bool_())
    count = len(nulls)
    if types.is_struct(arrow):
        inner = [_array(field, count, rng) for field in arrow]
        if not inner:
            bits = pa.array([not null for null in nulls], pa.bool_()).buffers()[1]
            return pa.Array.from_buffers(arrow, count, [bits if any(nulls) else None])
        return pa.StructArray.from_arrays(inner, fields=list(arrow), mask=mask)
    if types.is_fixed_size_list(arrow):
        elements = _array(arrow.value_field, count * arrow.list_size, rng)
        bits = pa.array([not null for null in nulls], pa.bool_()).buffers()[1]
        return pa.Array.from_buffers(
            arrow, count, [bits if any(nulls) else None], children=[elements]
        )
    hidden = rng.random() < 0.3
    lengths = [0 if null and not hidden else rng.choice([0, 1, 1, 2, 3]) for null in nulls]
    ends = [sum(lengths[:i]) for i in range(count + 1)]
    if types.is_map(arrow):
        keys, items = (_array(field, ends[-1], rng) for field in key_and_item(arrow))
        offsets = pa.array(ends, pa.int32())
        return pa.MapArray.from_arrays(offsets, keys, items, type=arrow, mask=mask)
    elements = _array(arrow.value_field, ends[-1], rng)
    wide = types.is_large_list(arrow) or types.is_large_list_view(arrow)
    offsets = pa.array(ends, pa.int64() if wide else pa.int32())
    if types.is_list(arrow):
        return pa.ListArray.from_arrays(offsets, elements, type=arrow, mask=mask)
    if types.is_large_list(arrow):
        return pa.LargeListArray.from_arrays(offsets, elements, type=arrow, mask=mask)
    view = pa.LargeListViewArray if wide else pa.ListViewArray
    # Views need not be in order, and may overlap.
    order = [rng.randrange(count) if rng.random() < 0.3 else i for i in range(count)]
    starts = pa.array([ends[i] for i in order], offsets.type)
    sizes = pa.array([lengths[i] for i in order], offsets.type)
    return view.from_arrays(starts, sizes, elements, type=arrow, mask=mask)


def _scalars(arrow: pa.DataType, nulls: list[bool], rng: random.Random) -> pa.Array:
    pool = [_raw(arrow, rng) for _ in range(rng.choice([1, 3, 3, 50]))]
    values = [None if null else rng.choice(pool) for null in nulls]
    if types.is_decimal(arrow):
        size = arrow.bit_width // 8
        raw = [v if v is None else v.to_bytes(size, "little", signed=True) for v in values]
        return pa.array(raw, pa.binary(size)).view(arrow)
    if types.is_floating(arrow):
        bits = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[arrow.bit_width]
        return pa.array(values, bits).view(arrow)
    if types.is_temporal(arrow) and not types.is_interval(arrow):
        return pa.array(values, pa.int32() if arrow.bit_width == 32 else pa.int64()).view(arrow)
    return pa.array(values, arrow)


def _raw(arrow: pa.DataType, rng: random.Random) -> Any:
    """Return a value: the bits of a float, the integer behind a date, the unscaled decimal."""
    if types.is_unsigned_integer(arrow):
        top = (1 << arrow.bit_width) - 1
        return rng.choice([0, 1, top, top // 2 + 1, rng.randint(0, top)])
    if types.is_float16(arrow):
        return rng.choice([0, 0x8000, 0x7C00, 0xFC00, 1, 0x7E00, 0x7C01, rng.getrandbits(16)])
    if types.is_interval(arrow):
        edge = rng.choice([0, 1, -1, 1 << 20])
        return edge, rng.randrange(-400, 400), rng.choice([0, -1, rng.getrandbits(62)])
    if types.is_duration(arrow):
        return rng.choice([0, 1, -1, -(1 << 63), (1 << 63) - 1, rng.getrandbits(40)])
    if types.is_timestamp(arrow) and arrow.unit == "s":
        return rng.choice([0, -1, 253402300799, rng.getrandbits(34)])
    if types.is_date64(arrow):
        return rng.choice([0, -1, 1, 20_000, -(10**6)]) * 24 * 60 * 60 * 1000
    if types.is_time(arrow):
        top = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[arrow.unit] * 24 * 60 * 60 - 1
        return rng.choice([0, 1, top, rng.randint(0, top)])
    if types.is_decimal(arrow):
        top = 10**arrow.precision - 1
        return rng.choice([0, 1, -1, top, -top, rng.randint(-top, top)])
    if types.is_fixed_size_binary(arrow):
        return rng.randbytes(arrow.byte_width)
    plain = arrow
    if arrow in (pa.large_string(), pa.string_view()):
        plain = pa.string()
    elif arrow in (pa.large_binary(), pa.binary_view()):
        plain = pa.binary()
    return rng.choice(edges(plain)) if rng.random() < 0.5 else fresh_value(plain, rng)


# Tables ------------------------------------------------------------------------------------

NAMES = ["a", "b", "info", "info.name", "é", " ", "x.y.z", "__null__", "value", "long" * 40]


@st.composite
def user_tables(
    draw: st.DrawFn, max_rows: int = 20, max_columns: int = 4, types: Any = USER_TYPES
) -> pa.Table:
    """Tables of all types that can be written, of sliced arrays in uneven chunks."""
    count = draw(st.integers(0, max_rows))
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=max_columns, unique=True))
    fields = [draw(types) for _ in names]
    return user_table(names, fields, count, random.Random(draw(st.integers(0, 1 << 32))))


def user_table(
    names: list[str], arrows: list[pa.DataType], count: int, rng: random.Random
) -> pa.Table:
    fields, columns = [], []
    for name, arrow in zip(names, arrows, strict=True):
        nullable = bare(arrow) == pa.null() or rng.random() < 0.7
        metadata = {"comment": name} if rng.random() < 0.1 else None
        field = pa.field(name, arrow, nullable, metadata)
        fields.append(field)
        if rng.random() < 0.5:
            cuts = [rng.randint(0, count) for _ in range(rng.randrange(4))]
            columns.append(chunked(user_array(field, count, rng), cuts))
        else:  # dictionaries of chunks differ
            middle = rng.randint(0, count)
            parts = [user_array(field, size, rng) for size in (middle, count - middle)]
            columns.append(pa.chunked_array(parts, arrow))
    metadata = rng.choice([None, None, {"owner": "us"}])
    return pa.table(columns, schema=pa.schema(fields, metadata))


# Comparison --------------------------------------------------------------------------------


def column_cells(column: pa.ChunkedArray) -> Cells:
    return [cell for chunk in column.chunks for cell in cells(chunk)]


def dictionary_cells(table: pa.Table) -> dict[Path, Cells]:
    """Return the values of all dictionaries: those of all chunks, in order of appearance."""
    found: dict[Path, dict[object, object]] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        for chunk in column.chunks:
            for path, values in _values_in(chunk, (field.name,)):
                known = found.setdefault(path, {})
                for cell in values:
                    known.setdefault(_hashable(cell), cell)
    return {path: list(known.values()) for path, known in found.items()}


def _values_in(array: pa.Array, path: Path) -> Iterator[tuple[Path, Cells]]:
    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        yield from _values_in(array.storage, path)
    elif types.is_dictionary(arrow):
        yield path, cells(array.dictionary)
    elif types.is_run_end_encoded(arrow):
        yield from _values_in(array.values, path)
    elif types.is_struct(arrow):
        for number, field in enumerate(arrow):
            yield from _values_in(array.field(number), (*path, field.name))
    elif types.is_map(arrow):
        yield from _values_in(array.keys, (*path, arrow.key_field.name))
        yield from _values_in(array.items, (*path, arrow.item_field.name))
    elif is_list(arrow):
        yield from _values_in(array.values, (*path, arrow.value_field.name))


def has_dictionaries(schema: pa.Schema) -> bool:
    return any(dictionaries_in(field.type, (field.name,)) for field in schema)


def assert_same_table(actual: pa.Table, expected: pa.Table) -> None:
    """The same schema with metadata, the same bits in all rows, and the same dictionaries."""
    actual.validate(full=True)
    assert actual.schema.equals(expected.schema, check_metadata=True)
    assert actual.num_rows == expected.num_rows
    for field, one, other in zip(expected.schema, actual.columns, expected.columns, strict=True):
        assert column_cells(one) == column_cells(other), f"column {field.name!r} of {field.type}"
    assert dictionary_cells(actual) == dictionary_cells(expected)
