"""Arrow types, names, tables, write options and filters for hypothesis; and exact comparison.

A table is drawn with few choices: the name and the type of each column, and a number that says
how its rows are dealt out of an array of values, which is made once for each type. So tables are
large enough to be interesting, and quick to draw; a failure shrinks to fewer and simpler columns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle, pairwise, product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import reference
from hypothesis import strategies as st

INTEGERS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
UNITS = ["ms", "us", "ns"]
TIME_ZONES = ["UTC", "Europe/Berlin", "+05:30", "not a zone", "Zürich/城"]

# Bit patterns at the edges: signed zeros, infinities, subnormals, NaNs quiet, signalling, with
# a payload and with a sign.
FLOAT32_EDGES = [0, 1 << 31, 0x7F800000, 0xFF800000, 1, 0x7FC00000, 0x7F800001, 0xFFC0BEEF]
FLOAT64_EDGES = [
    0,
    1 << 63,
    0x7FF0000000000000,
    0xFFF0000000000000,
    1,
    0x7FF8000000000000,
    0x7FF0000000000001,
    0xFFF8DEADBEEF0001,
]

MILLIS_OF_DAY = 24 * 60 * 60 * 1000


# Types -------------------------------------------------------------------------------------

FLAT_TYPES = [
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.date32(),
    pa.time32("ms"),
    pa.timestamp("ms"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.decimal128(18, 4),
    pa.decimal128(19, -3),
    pa.decimal128(38, 10),
    pa.binary(),
    pa.string(),
]
"""One type of each way in which values lie in a file."""


def decimals() -> st.SearchStrategy[pa.DataType]:
    return st.integers(1, 38).flatmap(
        lambda precision: st.integers(-10, precision).map(
            lambda scale: pa.decimal128(precision, scale)
        )
    )


def scalar_types() -> st.SearchStrategy[pa.DataType]:
    """Every scalar type that the format stores as it is; those with parameters less often."""
    plain = [
        pa.bool_(),
        *INTEGERS,
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.time32("ms"),
        pa.string(),
        pa.string(),
        pa.binary(),
        *map(pa.timestamp, UNITS),
    ]
    return st.integers(0, 6).flatmap(
        lambda kind: {
            5: decimals(),
            6: st.builds(pa.timestamp, st.sampled_from(UNITS), st.sampled_from(TIME_ZONES)),
        }.get(kind, st.sampled_from(plain))
    )


def list_types(elements: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.builds(
        lambda name, element, nullable: pa.list_(pa.field(name, element, nullable)),
        st.sampled_from(["item", "element", "ü"]),
        elements,
        st.booleans(),
    )


def map_types(values: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.builds(
        lambda key, value, nullable: pa.map_(
            pa.field("key", key, False), pa.field("value", value, nullable)
        ),
        scalar_types(),
        values,
        st.booleans(),
    )


def types(depth: int = 3) -> st.SearchStrategy[pa.DataType]:
    """Scalars, and lists and maps nested up to `depth`."""
    if depth == 0:
        return scalar_types()
    # Scalars come first: that is where hypothesis shrinks to, and most columns are scalar.
    inner = types(depth - 1)
    return st.one_of(scalar_types(), scalar_types(), list_types(inner), map_types(inner))


ANY_TYPE = types()


def _nested_types() -> Iterator[pa.DataType]:
    """Lists and maps of every scalar, and nested in each other."""
    scalars = [*FLAT_TYPES, pa.timestamp("us", "not a zone"), pa.decimal128(1, 0)]
    names, nullable = cycle(["item", "element", "ü"]), cycle([True, False, True, True, False])
    inner = list(scalars)
    for _ in range(3):
        lists = [pa.list_(pa.field(next(names), one, next(nullable))) for one in inner]
        maps = [
            pa.map_(pa.field("key", key, False), pa.field("value", one, next(nullable)))
            for key, one in zip(cycle(scalars[::-1]), inner[::2], strict=False)
        ]
        yield from lists
        yield from maps
        inner = [*maps[::2], *lists[::3]]


NESTED_TYPES = list(_nested_types())
ALL_TYPES = [*FLAT_TYPES * 4, *NESTED_TYPES]
"""Most of them nested, but a scalar is drawn nearly as often."""

SOME_TYPES = st.one_of(
    st.sampled_from(FLAT_TYPES),
    st.sampled_from(FLAT_TYPES),
    st.sampled_from(NESTED_TYPES),
)
"""Types of columns, most of them scalar: quicker to draw than `types()`."""


# Names -------------------------------------------------------------------------------------


def names() -> st.SearchStrategy[str]:
    """Names with long shared prefixes, odd characters, prefixes that cut a character in half."""
    return st.one_of(
        st.text("abc", min_size=1, max_size=3),
        st.builds(
            "sensor_{}_{}_pressure_{:03}".format,
            st.sampled_from(["front", "rear"]),
            st.sampled_from(["left", "right"]),
            st.integers(0, 200),
        ),
        st.text("éèêë漢語😀😁 \t\n'\"\\.%", min_size=1, max_size=6),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=10),
        st.integers(120, 300).map("n".__mul__),
    )


SOME_NAMES = st.sampled_from(
    [
        *("".join(letters) for size in (1, 2) for letters in product("abc", repeat=size)),
        *(
            f"sensor_{place}_{side}_pressure_{number:03}"
            for place, side, number in product(["front", "rear"], ["left", "right"], range(8))
        ),
        *(
            "é",
            "è",
            "éè",
            "漢",
            "漢語",
            "漢語é",
            "😀",
            "😀😁",
            "😁",
            " ",
            "\t",
            "\n",
            "'",
            '"',
            "\\",
            ".",
        ),
        *("%", "\x7f", "\x80", "\ud7ff", "\uffff", "\U0010ffff", "a\u0301", "n" * 127, "n" * 128),
        *("n" * 300, "n" * 300 + "é"),
    ]
)
"""Names of columns, of the same kinds: quicker to draw than `names()`."""


# Values ------------------------------------------------------------------------------------
# A drawn value is raw: the bits of a float, the integer behind a date, the unscaled decimal.


def edges(type: pa.DataType) -> list[Any]:
    """Raw values of a scalar type that are worth a test, the simplest first."""
    if pa.types.is_boolean(type):
        return [False, True]
    if type in INTEGERS or pa.types.is_date32(type) or pa.types.is_timestamp(type):
        bits = INTEGERS.get(type, type.bit_width)
        return [0, 1, -1, 2, -2, 3, -3, -(1 << bits - 1), (1 << bits - 1) - 1]
    if pa.types.is_floating(type):
        return FLOAT32_EDGES if type.bit_width == 32 else FLOAT64_EDGES
    if pa.types.is_time32(type):
        return [0, MILLIS_OF_DAY - 1]
    if pa.types.is_decimal(type):
        return [0, 10**type.precision - 1, 1 - 10**type.precision]
    if pa.types.is_string(type):
        return ["", "a", "\0", "ß" * 100, "ß" * 400]
    return [b"", b"a", b"\0", b"\xff" * 100, b"\xff" * 400]


def raw_values(type: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_map(type):
        return st.lists(st.tuples(raw_values(type.key_type), nullable(type.item_field)), max_size=3)
    if pa.types.is_list(type):
        return st.lists(nullable(type.value_field), max_size=4)
    if pa.types.is_string(type):
        return st.one_of(st.sampled_from(edges(type)), st.text(max_size=12))
    if pa.types.is_binary(type):
        return st.one_of(st.sampled_from(edges(type)), st.binary(max_size=12))
    if pa.types.is_boolean(type):
        return st.booleans()
    if pa.types.is_floating(type):
        low, high = 0, (1 << type.bit_width) - 1
    elif pa.types.is_time32(type):
        low, high = 0, MILLIS_OF_DAY - 1
    else:
        low, high = min(edges(type)), max(edges(type))
    return st.one_of(st.sampled_from(edges(type)), st.integers(low, high))


def nullable(field: pa.Field) -> st.SearchStrategy[Any]:
    values = raw_values(field.type)
    return st.one_of(values, st.none()) if field.nullable else values


def fresh_value(type: pa.DataType, rng: random.Random) -> Any:
    """A raw value that is probably not yet in the column."""
    if pa.types.is_boolean(type):
        return rng.random() < 0.5
    if type in INTEGERS or pa.types.is_date32(type) or pa.types.is_timestamp(type):
        bits = INTEGERS.get(type, 32 if pa.types.is_date32(type) else 64)
        return rng.getrandbits(bits) - (1 << bits - 1)
    if pa.types.is_floating(type):
        return rng.getrandbits(type.bit_width)
    if pa.types.is_time32(type):
        return rng.randrange(MILLIS_OF_DAY)
    if pa.types.is_decimal(type):
        return rng.randrange(10**type.precision)
    if pa.types.is_string(type):
        return f"{rng.getrandbits(40):x}é"
    if pa.types.is_binary(type):
        return rng.randbytes(rng.randrange(12))
    if pa.types.is_map(type):
        return [
            (_element(pa.field("", type.key_type, False), rng), _element(type.item_field, rng))
            for _ in range(rng.randrange(4))
        ]
    return [_element(type.value_field, rng) for _ in range(rng.randrange(5))]


def _element(field: pa.Field, rng: random.Random) -> Any:
    if field.nullable and rng.random() < 0.2:
        return None
    if not pa.types.is_nested(field.type) and rng.random() < 0.3:
        return rng.choice(edges(field.type))
    return fresh_value(field.type, rng)


_PREPARED: dict[bytes, pa.Array] = {}


def prepared(type: pa.DataType) -> pa.Array:
    """Values of `type`, without nulls: the edges, then others; always the same."""
    # Types that differ in the names of their children are equal for Arrow, but not for the format.
    key = reference.encode_type(pa.field("", type))
    if key not in _PREPARED:
        nested = pa.types.is_nested(type)
        rng = random.Random(key)
        values = [] if nested else edges(type)
        fresh = [fresh_value(type, rng) for _ in range(40 if nested else 700)]
        _PREPARED[key] = array_of(type, [*values, *fresh])
    return _PREPARED[key]


def array_of(type: pa.DataType, values: list[Any], hidden: Any = ()) -> pa.Array:
    """Raw `values` as an Arrow array; a null list or map covers the elements of `hidden`."""
    if pa.types.is_floating(type):
        return pa.array(values, pa.uint32() if type.bit_width == 32 else pa.uint64()).view(type)
    if pa.types.is_decimal(type):
        raw = [v if v is None else v.to_bytes(16, "little", signed=True) for v in values]
        return pa.array(raw, pa.binary(16)).view(type)
    if pa.types.is_temporal(type):
        return pa.array(values, pa.int32() if type.bit_width == 32 else pa.int64()).view(type)
    if not pa.types.is_nested(type):
        return pa.array(values, type)

    rows = [hidden if value is None else value for value in values]
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(row))
    ends = pa.array(offsets, pa.int32())
    mask = pa.array([value is None for value in values], pa.bool_())
    if pa.types.is_map(type):
        keys = array_of(type.key_type, [key for row in rows for key, _ in row])
        items = array_of(type.item_type, [item for row in rows for _, item in row])
        return pa.MapArray.from_arrays(ends, keys, items, type=type, mask=mask)
    elements = array_of(type.value_type, [element for row in rows for element in row])
    return pa.ListArray.from_arrays(ends, elements, type=type, mask=mask)


# Tables ------------------------------------------------------------------------------------


SHAPES = [
    (pool, null_share, fresh_share, bounds, hidden)
    for hidden in (False, True)
    for bounds in [(0, 0), (0, 0), (1, 0), (3, 5)]
    for fresh_share in [0, 0, 0.2, 1]
    for null_share in [0, 0, 0.1, 0.6, 1]
    for pool in (1, 2, 4)
]
"""How rows come about: the number of values that repeat, the shares of nulls and of values that do
not repeat, the rows before and after the slice, and whether null lists cover elements."""
SHAPE_NUMBERS = st.integers(0, len(SHAPES) - 1)


def dealt(
    field: pa.Field,
    num_rows: int,
    shape: tuple[int, float, float, tuple[int, int], bool],
    rng: np.random.Generator,
) -> pa.Array:
    """An array of `num_rows` rows: all null, constant, of few or of many values; maybe a slice."""
    pool, null_share, fresh_share, (before, after), hidden = shape
    values = prepared(field.type)
    total = before + num_rows + after
    few = rng.integers(0, len(values), pool) if rng.random() < 0.8 else np.zeros(1, int)
    fresh = np.resize(rng.permutation(len(values)), total)
    rows = np.where(rng.random(total) < fresh_share, fresh, rng.choice(few, total))
    nulls = rng.random(total) < (null_share if field.nullable else 0)
    mask = pa.array(nulls)
    if not pa.types.is_nested(field.type):
        return values.take(pa.array(rows, mask=nulls)).slice(before, num_rows)
    taken = values.take(pa.array(rows, mask=None if hidden else nulls))
    if pa.types.is_map(field.type):
        children: tuple[pa.Array, ...] = (taken.keys, taken.items)
    else:
        children = (taken.values,)
    made = type(taken).from_arrays(taken.offsets, *children, type=field.type, mask=mask)
    return made.slice(before, num_rows)


def chunked(array: pa.Array, cuts: list[int]) -> pa.ChunkedArray:
    """`array` in chunks that end at `cuts`; equal cuts give chunks without rows."""
    ends = [0, *sorted(cuts), len(array)]
    return pa.chunked_array(
        [array.slice(start, end - start) for start, end in pairwise(ends)], array.type
    )


def without_columns(num_rows: int) -> pa.Table:
    return pa.table({"": pa.nulls(num_rows)}).select([])


@st.composite
def tables(
    draw: st.DrawFn,
    min_rows: int = 0,
    max_rows: int = 600,
    min_columns: int = 0,
    max_columns: int = 40,
    column_types: st.SearchStrategy[pa.DataType] = SOME_TYPES,
) -> pa.Table:
    """Tables of any types and shapes, of sliced arrays in uneven chunks."""
    num_rows = draw(
        st.one_of(
            st.integers(min_rows, min(20, max_rows)),
            st.sampled_from([n for n in (0, 1, 63, 64, 65, 300, 600) if min_rows <= n <= max_rows]),
        )
    )
    column_names = draw(
        st.lists(
            SOME_NAMES,
            min_size=min_columns,
            # Wide or long: both at once would take the time of ten examples.
            max_size=min(max_columns, 40 if num_rows < 100 else 8),
            unique=True,
        )
    )
    if not column_names:
        return without_columns(num_rows)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    fields, columns = [], []
    for name in column_names:
        shape = SHAPES[draw(SHAPE_NUMBERS)]
        field = pa.field(name, draw(column_types), bool(rng.random() < 0.7))
        cuts = rng.integers(0, num_rows + 1, rng.integers(0, 4)).tolist()
        fields.append(field)
        columns.append(chunked(dealt(field, num_rows, shape, rng), cuts))
    return pa.table(columns, schema=pa.schema(fields))


# Options and filters -----------------------------------------------------------------------


def write_options() -> st.SearchStrategy[dict[str, Any]]:
    """Keywords of `MosaicWriter`; those left out are at their default."""
    return st.fixed_dictionaries(
        {},
        optional={
            "compression": st.sampled_from(["zstd", "none", None]),
            "compression_level": st.sampled_from([-1, 1, 3, 9, 19]),
            "write_statistics": st.booleans(),
            "use_dictionary": st.booleans(),
            "row_group_size": st.sampled_from([None, 1, 7, 64, 1000]),
            "row_group_bytes": st.sampled_from([1, 100, 5_000, 1 << 28]),
            "num_buckets": st.sampled_from([1, 2, 3, 40, 100, 1000]),
            "max_dict_entries": st.sampled_from([0, 1, 2, 255, 1000]),
            "max_dict_total_bytes": st.sampled_from([0, 10, 32768]),
            "page_size_threshold": st.sampled_from([None, 0, 1, 64, 32768]),
            "checksum": st.booleans(),
            "annex": st.booleans(),
            "use_threads": st.booleans(),
        },
    )


FILTERED_TYPES = [
    pa.bool_(),
    *INTEGERS,
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.date32(),
    pa.timestamp("us"),
    pa.timestamp("ns", "UTC"),
    pa.decimal128(9, 2),
]


def filtered_types() -> st.SearchStrategy[pa.DataType]:
    """Types that a filter can compare."""
    return st.sampled_from(FILTERED_TYPES)


def _conditions(table: pa.Table) -> st.SearchStrategy[tuple[str, str, Any]]:
    """`(column, operator, value)`, the value mostly one that is in the column."""

    def of_column(name: str) -> st.SearchStrategy[tuple[str, str, Any]]:
        column = table[name].combine_chunks().drop_null()
        values = raw_values(column.type).map(lambda value: array_of(column.type, [value])[0])
        if len(column):
            values = st.one_of(st.sampled_from(range(len(column))).map(column.__getitem__), values)
        ordered = [] if pa.types.is_boolean(column.type) else ["<", "<=", ">", ">="]
        return st.one_of(
            st.tuples(st.just(name), st.sampled_from(["==", "!=", *ordered]), values),
            st.tuples(
                st.just(name),
                st.sampled_from(["in", "not in"]),
                st.lists(values, min_size=1, max_size=3),
            ),
        )

    return st.sampled_from(table.column_names).flatmap(of_column)


def filters(table: pa.Table) -> st.SearchStrategy[Any]:
    """All three forms: a list of conditions, a list of such lists, an expression."""
    conditions = st.lists(_conditions(table), min_size=1, max_size=3)
    nulls = st.builds(
        lambda name, negated: ~pc.field(name).is_null() if negated else pc.field(name).is_null(),
        st.sampled_from(table.column_names),
        st.booleans(),
    )
    return st.one_of(conditions, st.lists(conditions, min_size=1, max_size=3), nulls)


# Comparison --------------------------------------------------------------------------------


def _bits(array: pa.Array) -> pa.Array:
    """`array` with each float replaced by its bits, so that `equals` compares exactly."""
    type = array.type
    if pa.types.is_floating(type):
        return array.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[type.bit_width])
    if pa.types.is_map(type):
        children = [_bits(array.keys), _bits(array.items)]
        entries = pa.StructArray.from_arrays(children, names=["key", "value"])
        return _same_rows(array, entries)
    if pa.types.is_list(type):
        return _same_rows(array, _bits(array.values))
    return array


def _same_rows(array: pa.Array, elements: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(
        pa.list_(elements.type),
        len(array),
        array.buffers()[:2],
        offset=array.offset,
        children=[elements],
    )


def assert_same(actual: pa.Table, expected: pa.Table) -> None:
    """The same schema, rows, nulls and bits; chunks and values behind nulls do not count."""
    actual.validate(full=True)
    assert reference.same_schema(actual.schema, expected.schema)
    assert actual.num_rows == expected.num_rows
    for field, left, right in zip(expected.schema, actual.columns, expected.columns, strict=True):
        bits = _bits(pa.array([], field.type)).type
        one, other = (pa.chunked_array(map(_bits, c.chunks), bits) for c in (left, right))
        assert one.equals(other), f"column {field.name!r} of {field.type}"
