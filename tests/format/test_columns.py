"""Columns of a bucket in portions: decoded, skipped, checked and measured, against the oracle."""

import random
from array import array as int_array
from itertools import pairwise

import pyarrow as pa
import pytest
import reference
from files import flat_columns
from hypothesis import given, strategies as st
from reference import ALL_NULL, CONST, DICT, PLAIN, uv
from strategies import FLAT_TYPES, MILLIS_OF_DAY, SOME_TYPES, array_of, list_types, prepared, tables

from fastmosaic.errors import CorruptFileError, MemoryLimitError
from fastmosaic.format import bucket
from fastmosaic.format._decode import MAX_IDLE_ENTRIES, Batch
from fastmosaic.format._encode import encode
from fastmosaic.format.columns import ColumnDecoder
from fastmosaic.format.nested import BucketColumns, max_page_bytes
from fastmosaic.format.schema import SchemaBlock
from fastmosaic.format.types import Kind
from fastmosaic.memory import Memory

every_type = pytest.mark.parametrize("arrow", FLAT_TYPES, ids=str)
SIZES = st.sampled_from([0, 1, 2, 7, 8, 9, 63, 64, 65, 200, 1000])
PADDING = 256  # bytes that buffers may be larger than what is in them, for each flat column
LIMITED = [
    pa.time32("ms"),
    *(pa.decimal128(digits, 0) for digits in (1, 9, 17, 18, 19, 20, 37, 38)),
]


def columns_of(schema, blocks=False):
    return BucketColumns(SchemaBlock.from_arrow(schema, 1, blocks), 0)


def content(page):
    """Return a page of the oracle as bytes, or None if all rows are null."""
    if page.encoding == ALL_NULL:
        return None
    return bytes([page.encoding, page.nulls != b""]) + page.table + page.nulls + page.data


class Stored:
    """A table as the oracle stores it, in both layouts, with random encodings."""

    def __init__(self, table, rng, blocks=False):
        self.table = table.rename_columns([f"{i:03}" for i in range(table.num_columns)])
        self.columns = columns_of(self.table.schema, blocks)
        self.arrays = [column.combine_chunks() for column in table.columns]
        kept = self.arrays
        if blocks:
            kept = [self._in_block(array) for array in kept]
        types = reference.flatten_types([array.type for array in kept])
        flat = reference.flatten_columns(kept)
        self.pages = [self._page(*one, rng) for one in zip(flat, types, strict=True)]

    @staticmethod
    def _in_block(array):
        as_block = reference.as_block(array.type)
        return array if as_block is array.type else reference.in_block(array)

    @staticmethod
    def _page(column, arrow, rng):
        if reference.is_block(arrow):
            if all(cell is None for cell in column):
                return reference.Page(ALL_NULL, len(column), b"", b"", b"")
            data = reference.encode_block(column, arrow)
            return reference.Page(PLAIN, len(column), b"", b"", data)
        return reference.encode_page(column, rng.choice(possible_encodings(column)))

    @property
    def rows(self):
        return [page.num_rows for page in self.pages]

    def slots(self):
        return list(map(content, self.pages))

    def opened(self, paged, wanted=None, strict=True):
        """Return a new decoder of some or all columns."""
        if wanted is None:
            wanted = range(self.table.num_columns)
        columns, num_rows = self.columns, self.table.num_rows
        if paged:
            flats = bucket.flat_of(columns, wanted)
            slots = self.slots()
            pages = bucket.open_slots(
                [slots[flat] for flat in flats], columns, flats, self.rows, strict=strict
            )
            return ColumnDecoder(pages, range(len(flats)), columns, wanted, strict)
        data = reference.encode_monolithic(self.pages, columns.num_columns)
        pages = bucket.open_monolithic(data, columns, num_rows, columns.num_flat, strict=strict)
        return ColumnDecoder(pages, bucket.flat_of(columns, wanted), columns, wanted, strict)


def possible_encodings(column):
    """Return the encodings that can represent the rows of a column."""
    distinct = len({value for value in column if value is not None})
    return [ALL_NULL] if distinct == 0 else [PLAIN, DICT] if distinct > 1 else [PLAIN, CONST, DICT]


def decoded(decoder, count, schema, memory=None):
    """Decode the next rows of all columns."""
    batch = Batch(len(schema))
    decoder.decode(count, batch, range(len(schema)), memory or Memory())
    return batch.finish(count, schema).columns


def nullable(schema):
    return pa.schema([field.with_nullable(True) for field in schema])


def portions(num_rows, sizes):
    """Yield the start and the end of portions of these sizes, which are repeated."""
    start = at = 0
    while start < num_rows:
        end = min(num_rows, start + sizes[at % len(sizes)])
        yield start, end
        start, at = end, at + 1


STEPS = st.lists(st.tuples(st.booleans(), SIZES), min_size=1, max_size=4).filter(
    lambda steps: sum(size for _, size in steps) > 0
)
SOME_TABLES = tables(min_columns=1, max_columns=4, max_rows=600)
BLOCK_TABLES = tables(
    min_columns=1,
    max_columns=3,
    min_rows=1,
    max_rows=100,
    column_types=st.one_of(list_types(st.sampled_from(FLAT_TYPES)), SOME_TYPES),
)
SEEDS = st.builds(random.Random, st.integers(0, 1 << 32))


# Portions


def check_portions(stored, paged, steps):
    """Decode or skip one portion after another; what is decoded is a slice of the table."""
    decoder = stored.opened(paged)
    sizes = [size for _, size in steps]
    for number, (start, end) in enumerate(portions(stored.table.num_rows, sizes)):
        assert decoder.row == start
        if steps[number % len(steps)][0]:
            decoder.skip(end - start)
            continue
        schema = nullable(stored.table.schema)
        arrays = decoded(decoder, end - start, schema)
        for array, expected in zip(arrays, stored.arrays, strict=True):
            array.validate(full=True)
            assert reference.same_array(array, expected.slice(start, end - start))
    assert decoder.row == stored.table.num_rows


@given(table=SOME_TABLES, rng=SEEDS, paged=st.booleans(), steps=STEPS)
def test_portions_are_slices_of_all_rows(table, rng, paged, steps):
    check_portions(Stored(table, rng), paged, steps)


@given(table=BLOCK_TABLES, rng=SEEDS, paged=st.booleans(), steps=STEPS)
def test_portions_of_array_data_blocks(table, rng, paged, steps):
    check_portions(Stored(table, rng, blocks=True), paged, steps)


@every_type
@given(data=st.data(), rng=SEEDS, steps=STEPS)
def test_portions_of_every_type(arrow, data, rng, steps):
    table = data.draw(tables(min_columns=1, max_columns=1, column_types=st.just(arrow)))
    check_portions(Stored(table, rng), rng.random() < 0.5, steps)


# Some rows


def some_ranges(num_rows, rng):
    """Ascending ranges of rows, as the kernels get them, and the numbers of the rows."""
    numbers = sorted(rng.sample(range(num_rows), rng.randint(0, num_rows)))
    if rng.random() < 0.5:
        numbers = numbers[: rng.randint(0, 3)]
    ranges = int_array("q")
    for number in numbers:
        if ranges and ranges[-1] == number and rng.random() < 0.7:
            ranges[-1] += 1
        else:
            ranges.extend((number, number + 1))
    return memoryview(ranges), numbers


def check_gathered(stored, paged, rng):
    """Decode some rows in one or more portions; they are those that Arrow takes."""
    decoder = stored.opened(paged)
    ranges, numbers = some_ranges(stored.table.num_rows, rng)
    decoder.gather(ranges)
    cuts = sorted(rng.randint(0, len(numbers)) for _ in range(rng.randint(0, 2)))
    for start, end in pairwise([0, *cuts, len(numbers)]):
        arrays = decoded(decoder, end - start, nullable(stored.table.schema))
        for found, whole in zip(arrays, stored.arrays, strict=True):
            found.validate(full=True)
            expected = whole.take(pa.array(numbers[start:end], pa.int64()))
            assert reference.same_array(found, expected)


@given(table=SOME_TABLES, rng=SEEDS, paged=st.booleans())
def test_gathered_rows_are_those_that_arrow_takes(table, rng, paged):
    check_gathered(Stored(table, rng), paged, rng)


@given(table=BLOCK_TABLES, rng=SEEDS, paged=st.booleans())
def test_gathered_rows_of_array_data_blocks(table, rng, paged):
    check_gathered(Stored(table, rng, blocks=True), paged, rng)


@every_type
@given(data=st.data(), rng=SEEDS)
def test_gathered_rows_of_every_type(arrow, data, rng):
    table = data.draw(tables(min_columns=1, max_columns=1, column_types=st.just(arrow)))
    check_gathered(Stored(table, rng), rng.random() < 0.5, rng)


def check_gathered_damage(stored, rng):
    """Any byte may be wrong: no read leaves the page, and what is returned is a valid array."""
    slots = [None if slot is None else bytearray(slot) for slot in stored.slots()]
    for slot in filter(None, slots):
        slot[rng.randrange(len(slot))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    columns = stored.columns
    flats = bucket.flat_of(columns, range(columns.num_columns))
    ranges, numbers = some_ranges(stored.table.num_rows, rng)
    try:
        pages = bucket.open_slots([slots[i] for i in flats], columns, flats, stored.rows)
        decoder = ColumnDecoder(pages, range(len(flats)), columns, range(columns.num_columns))
        decoder.gather(ranges)
        arrays = decoded(decoder, len(numbers), nullable(stored.table.schema))
    except (CorruptFileError, OverflowError):
        return
    for found in arrays:
        found.validate(full=True)


@given(table=SOME_TABLES, rng=SEEDS)
def test_rows_gathered_from_damaged_pages_are_right_or_refused(table, rng):
    check_gathered_damage(Stored(table, rng), rng)


@given(table=BLOCK_TABLES, rng=SEEDS)
def test_rows_gathered_from_damaged_array_data_blocks_are_right_or_refused(table, rng):
    check_gathered_damage(Stored(table, rng, blocks=True), rng)


@pytest.mark.parametrize("ranges", [[-1, 2], [0, 6], [2, 2], [3, 1], [0, 3, 2, 4], [5, 6]])
@pytest.mark.parametrize("blocks", [False, True], ids=["columns", "block"])
def test_ranges_that_do_not_exist(ranges, blocks):
    table = pa.table({"a": range(5), "b": [[1]] * 5, "c": pa.nulls(5, pa.list_(pa.int8()))})
    stored = Stored(table, random.Random(0), blocks)
    for column in range(3):
        decoder = stored.opened(True, [column])
        with pytest.raises(CorruptFileError, match=r"more elements than are stored|out of range"):
            decoder.gather(memoryview(int_array("q", ranges)))


def test_a_gathered_dictionary_has_only_the_entries_that_are_used():
    texts = [reference.sized(f"text {i % 50}".encode()) for i in range(1000)]
    page = reference.encode_page(texts, DICT)
    columns = columns_of(pa.schema({"a": pa.string()}))
    pages = bucket.open_slots([content(page)], columns, [0], [1000])
    assert pages.num_entries(0) == 50
    pages.gather(0, memoryview(int_array("q", [3, 5, 103, 104, 900, 901])))
    assert (pages.num_rows(0), pages.num_entries(0)) == (4, 3)
    (found,) = pages.decode([0], [pa.string()], [4], Memory())
    assert found.to_pylist() == ["text 3", "text 4", "text 3", "text 0"]
    with pytest.raises(ValueError, match="gathered before"):
        pages.gather(0, memoryview(int_array("q", [0, 1])))


@given(table=SOME_TABLES, rng=SEEDS, paged=st.booleans())
def test_some_columns_in_any_order(table, rng, paged):
    stored = Stored(table, rng)
    wanted = rng.sample(range(table.num_columns), rng.randrange(1, table.num_columns + 1))
    arrays = decoded(
        stored.opened(paged, wanted),
        table.num_rows,
        nullable(pa.schema([stored.table.schema.field(i) for i in wanted])),
    )
    for i, array in zip(wanted, arrays, strict=True):
        assert reference.same_array(array, stored.arrays[i])


def pack(indices, width):
    """Like the oracle's `pack_bits`, but not with quadratic time."""
    digits = "".join(format(index, f"0{width}b") for index in reversed(indices)) if width else "0"
    return int(digits, 2).to_bytes((len(indices) * width + 7) // 8, "little")


# A table of the entries is made for 4096, or as many as a sixteenth of the rows.
@pytest.mark.parametrize(("num_entries", "num_rows"), [(4096, 700), (4097, 700), (5000, 90_000)])
@every_type
def test_dictionaries_of_very_many_entries(arrow, num_entries, num_rows):
    rng = random.Random(num_entries)
    values = prepared(arrow)
    entries = values.take(pa.array(rng.choices(range(len(values)), k=num_entries)))
    indices = rng.choices(range(num_entries), k=num_rows)
    nulls = [rng.random() < 0.2 for _ in indices]
    page = b"\2\1" + uv(num_entries) + b"".join(reference.serialize(entries)) + pack(nulls, 1)
    present = [i for i, null in zip(indices, nulls, strict=True) if not null]
    page += pack(present, (num_entries - 1).bit_length())
    expected = entries.take(pa.array(indices, pa.int32(), mask=pa.array(nulls).to_numpy(False)))

    schema = pa.schema([("x", arrow)])
    columns = columns_of(schema)

    def opened():
        pages = bucket.open_slots([page], columns, [0], [num_rows])
        return ColumnDecoder(pages, [0], columns, [0])

    (whole,) = decoded(opened(), num_rows, schema)
    whole.validate(full=True)
    bits = reference.stored_as(arrow)
    assert whole.view(bits).equals(expected.view(bits))
    decoder = opened()
    for start, end in portions(num_rows, [65, 1000, 7, num_rows]):
        (part,) = decoded(decoder, end - start, schema)
        assert part.view(bits).equals(whole.slice(start, end - start).view(bits))
    assert opened().check(num_rows) == sum(nulls)

    def measured():
        memory = Memory()
        decoded(opened(), num_rows, schema, memory)
        return memory.taken

    assert sum(opened().measure(num_rows)) == measured() <= opened().bound() + PADDING


def test_more_rows_than_there_are():
    table = pa.table({"x": [1, 2, 3], "y": [[1], None, [2, 3]]})
    for wanted in ([0], [1], [0, 1]):
        for ask in (
            lambda decoder, wanted: decoder.decode(3, Batch(2), wanted, Memory()),
            lambda decoder, _: decoder.check(3),
            lambda decoder, _: decoder.skip(3),
            lambda decoder, _: decoder.measure(3),
        ):
            decoder = Stored(table, random.Random(1)).opened(True, wanted)
            decoder.skip(1)
            with pytest.raises(CorruptFileError, match="more elements than are stored"):
                ask(decoder, range(len(wanted)))


# Checks


@given(table=SOME_TABLES, rng=SEEDS, paged=st.booleans(), sizes=st.lists(SIZES, min_size=1))
def test_a_check_counts_the_nulls(table, rng, paged, sizes):
    stored = Stored(table, rng)
    counts = [array.null_count for array in stored.arrays]
    assert stored.opened(paged).check(table.num_rows) == sum(counts)
    for i, count in enumerate(counts):
        assert stored.opened(paged, [i]).check(table.num_rows) == count
    decoder = stored.opened(paged)
    for start, end in portions(table.num_rows, [*sizes, 1]):
        nulls = sum(array.slice(start, end - start).null_count for array in stored.arrays)
        assert decoder.check(end - start) == nulls


@given(table=BLOCK_TABLES, rng=SEEDS, paged=st.booleans())
def test_a_check_of_array_data_blocks_counts_the_null_lists(table, rng, paged):
    stored = Stored(table, rng, blocks=True)
    nulls = sum(array.null_count for array in stored.arrays)
    assert stored.opened(paged).check(table.num_rows) == nulls


def outcome(function):
    """Return the result, or the error: its kind and message."""
    try:
        return function()
    except (CorruptFileError, OverflowError) as error:
        return type(error), *error.args


def check_damaged(stored, rng, strict):
    """A check refuses what decoding refuses, with the same words."""
    slots = stored.slots()
    flat = rng.choice([i for i, slot in enumerate(slots) if slot is not None] or [None])
    if flat is None:
        return
    damaged = bytearray(slots[flat])
    for _ in range(rng.choice([1, 1, 2])):
        damaged[rng.randrange(len(damaged))] = rng.choice(
            [0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)]
        )
    slots[flat] = bytes(damaged)
    columns, num_rows = stored.columns, stored.table.num_rows
    wanted = [i for i in range(columns.num_columns) if flat in bucket.flat_of(columns, [i])]
    flats = bucket.flat_of(columns, wanted)
    fields = [stored.table.schema.field(i) for i in wanted]

    def opened():
        chosen = [slots[i] for i in flats]
        pages = bucket.open_slots(chosen, columns, flats, stored.rows, strict=strict)
        return ColumnDecoder(pages, range(len(flats)), columns, wanted, strict)

    def decode():
        (array,) = decoded(opened(), num_rows, nullable(pa.schema(fields)))
        if strict:
            array.validate(full=True)
        return array.null_count

    expected = outcome(decode)
    if isinstance(expected, tuple) and expected[0] is OverflowError:
        # More than Arrow's offsets can count, and so more than is stored.
        expected = CorruptFileError, "lists have more elements than are stored"
    assert outcome(lambda: opened().check(num_rows)) == expected


@given(table=SOME_TABLES, rng=SEEDS, strict=st.booleans())
def test_a_check_refuses_what_decoding_refuses(table, rng, strict):
    check_damaged(Stored(table, rng), rng, strict)


@given(table=BLOCK_TABLES, rng=SEEDS)
def test_a_check_of_array_data_blocks_refuses_what_decoding_refuses(table, rng):
    check_damaged(Stored(table, rng, blocks=True), rng, strict=True)


@every_type
@given(data=st.data(), rng=SEEDS, strict=st.booleans())
def test_a_check_of_every_type_refuses_what_decoding_refuses(arrow, data, rng, strict):
    one = tables(min_rows=1, max_rows=70, min_columns=1, max_columns=1, column_types=st.just(arrow))
    check_damaged(Stored(data.draw(one), rng), rng, strict)


# Range


def beyond(arrow):
    """Return the values next to the range of a type, and those at its edges."""
    if pa.types.is_time(arrow):
        return [-1, MILLIS_OF_DAY, -(2**31), 2**31 - 1], [0, MILLIS_OF_DAY - 1]
    limit = 10**arrow.precision
    far = [2**127 - 1, -(2**127)] if arrow.precision > 18 else [2**63 - 1, -(2**63)]
    return [limit, -limit, *far], [limit - 1, 1 - limit]


def forms(arrow, value):
    """Yield slots that contain a value in every encoding, and the values of their rows."""
    fine = reference.serialize(array_of(arrow, [0]))[0]
    bad = reference.serialize(array_of(arrow, [value]))[0]
    yield b"\0\0" + fine + bad, [0, value]
    yield b"\0\1" + b"\2" + fine + bad, [0, None, value]
    yield b"\1\0" + bad, [value, value]
    yield b"\2\0\2" + fine + bad + b"\2", [0, value]
    many = uv(5000) + fine * 4999 + bad  # entries that are looked up one by one
    yield b"\2\0" + many + pack([0, 4999], 13), [0, value]


@pytest.mark.parametrize("arrow", LIMITED, ids=str)
def test_values_outside_the_range_of_their_type(arrow):
    outside, inside = beyond(arrow)
    what = "strict=False reads it anyway"
    schema = pa.schema([("x", arrow)])
    columns = columns_of(schema)
    for value in outside + inside:
        for page, rows in forms(arrow, value):
            expected = array_of(arrow, rows)

            def opened(strict, page=page, rows=rows):
                pages = bucket.open_slots([page], columns, [0], [len(rows)], strict=strict)
                return ColumnDecoder(pages, [0], columns, [0], strict)

            for strict in (False, True):
                if strict and value in outside:
                    with pytest.raises(CorruptFileError, match=what) as caught:
                        decoded(opened(strict), len(rows), schema)
                    assert caught.value.column == "x"
                    with pytest.raises(CorruptFileError, match=what):
                        opened(strict).check(len(rows))
                else:
                    (array,) = decoded(opened(strict), len(rows), schema)
                    assert reference.same_array(array, expected)
                    assert opened(strict).check(len(rows)) == expected.null_count
                # Values that are skipped are not looked at.
                decoder = opened(strict)
                decoder.skip(len(rows))
                assert decoder.row == len(rows)


@pytest.mark.parametrize("arrow", LIMITED, ids=str)
@pytest.mark.parametrize("blocks", [False, True], ids=["columns", "block"])
def test_elements_outside_the_range_of_their_type(arrow, blocks):
    outside, inside = beyond(arrow)
    for value in outside + inside:
        lists = array_of(pa.list_(arrow), [[0], None, [value, None]])
        table = pa.table({"x": lists})
        stored = Stored(table, random.Random(1), blocks)
        schema = stored.table.schema
        if value in inside:
            assert reference.same_array(decoded(stored.opened(True), 3, schema)[0], lists)
            assert stored.opened(True).check(3) == 1
        else:
            with pytest.raises(CorruptFileError) as caught:
                decoded(stored.opened(True), 3, schema)
            with pytest.raises(CorruptFileError) as other:
                stored.opened(True).check(3)
            assert other.value.message == caught.value.message
        lenient = stored.opened(True, strict=False)
        assert reference.same_array(decoded(lenient, 3, schema)[0], lists)
        assert stored.opened(True, strict=False).check(3) == 1


# Memory


def taken(stored, paged, wanted=None):
    """Return the memory that decoding all rows takes."""
    memory = Memory()
    decoder = stored.opened(paged, wanted)
    wanted = range(stored.table.num_columns) if wanted is None else wanted
    schema = nullable(pa.schema([stored.table.schema.field(i) for i in wanted]))
    decoded(decoder, stored.table.num_rows, schema, memory)
    return memory.taken


@given(
    table=tables(min_columns=1, max_columns=5, column_types=st.sampled_from(FLAT_TYPES)),
    rng=SEEDS,
    paged=st.booleans(),
)
def test_what_is_measured_is_taken(table, rng, paged):
    stored = Stored(table, rng)
    for wanted in (range(table.num_columns), [0]):
        size = taken(stored, paged, wanted)
        assert sum(stored.opened(paged, wanted).measure(table.num_rows)) == size
        padding = PADDING * len(wanted)
        assert size <= stored.opened(paged, wanted).bound() + padding


@given(table=SOME_TABLES, rng=SEEDS, paged=st.booleans())
def test_what_is_measured_of_nested_columns_is_taken(table, rng, paged):
    stored = Stored(table, rng)
    padding = PADDING * stored.columns.num_flat
    for i in range(table.num_columns):
        size = taken(stored, paged, [i])
        measured = sum(stored.opened(paged, [i]).measure(table.num_rows))
        flats = bucket.flat_of(stored.columns, [i])
        if sum(stored.pages[flat].encoding == ALL_NULL for flat in flats) < 2:
            assert measured == size
        else:  # columns of nulls share their zeros
            assert measured >= size
        assert size <= stored.opened(paged, [i]).bound() + padding


def test_null_elements_are_measured_once():
    lists = pa.array([[None] * 1000] * 3, pa.list_(pa.int64()))
    stored = Stored(pa.table({f"{i}": lists for i in range(10)}), random.Random(1))
    assert sum(stored.opened(True).measure(3)) == taken(stored, True)


@given(table=BLOCK_TABLES, rng=SEEDS, paged=st.booleans())
def test_what_is_measured_of_array_data_blocks_is_taken(table, rng, paged):
    stored = Stored(table, rng, blocks=True)
    padding = PADDING * stored.columns.num_flat
    size = taken(stored, paged)
    assert size <= sum(stored.opened(paged).measure(table.num_rows)) + padding
    assert size <= stored.opened(paged).bound() + padding


@given(table=BLOCK_TABLES, rng=SEEDS, paged=st.booleans())
def test_what_is_measured_of_gathered_array_data_blocks_is_taken(table, rng, paged):
    stored = Stored(table, rng, blocks=True)
    padding = PADDING * stored.columns.num_flat
    ranges, numbers = some_ranges(table.num_rows, rng)

    def opened():
        decoder = stored.opened(paged)
        decoder.gather(ranges)
        return decoder

    memory = Memory()
    arrays = decoded(opened(), len(numbers), nullable(stored.table.schema), memory)
    assert memory.taken <= sum(opened().measure(len(numbers))) + padding
    assert memory.taken <= opened().bound() + padding
    assert opened().check(len(numbers)) == sum(array.null_count for array in arrays)


@pytest.mark.parametrize("element", [pa.bool_(), pa.int8(), pa.int64(), pa.string()], ids=str)
def test_what_is_measured_of_a_block_of_nulls_is_taken(element):
    lists = pa.array([[None] * 30_000] * 3, pa.list_(element))
    stored = Stored(pa.table({"x": lists}), random.Random(1), blocks=True)
    size = taken(stored, True)
    assert size <= sum(stored.opened(True).measure(3)) + PADDING
    assert size <= stored.opened(True).bound() + PADDING


def test_bound_is_that_of_many_null_lists():
    table = pa.table({f"{i}": pa.nulls(10_000, pa.list_(pa.int8())) for i in range(10)})
    stored = Stored(table, random.Random(1))
    assert taken(stored, True) <= stored.opened(True).bound() + PADDING * stored.columns.num_flat


@pytest.mark.parametrize("blocks", [False, True], ids=["columns", "block"])
@pytest.mark.parametrize(
    "column",
    [
        pa.array([7] * 50_000),
        pa.array(["some text"] * 50_000),
        pa.array([None, "x"] * 25_000),
        pa.array([[1, 2]] * 50_000),
        pa.nulls(50_000, pa.int64()),
        pa.nulls(50_000, pa.list_(pa.int64())),
    ],
    ids=["constant", "text", "nulls", "lists", "all null", "null lists"],
)
def test_memory_is_limited_before_it_is_taken(column, blocks):
    stored = Stored(pa.table({"x": column}), random.Random(1), blocks)
    size = taken(stored, True)
    before = pa.total_allocated_bytes()
    with pytest.raises(MemoryLimitError) as caught:
        decoded(stored.opened(True), len(column), stored.table.schema, Memory(size // 8))
    assert pa.total_allocated_bytes() <= before + size // 8
    assert size // 8 < caught.value.size <= size
    (array,) = decoded(stored.opened(True), len(column), stored.table.schema, Memory(size))
    assert array.equals(column)


@given(table=SOME_TABLES, rng=SEEDS, paged=st.booleans())
def test_only_equal_rows_are_constant(table, rng, paged):
    stored = Stored(table, rng)
    for i, array in enumerate(stored.arrays):
        if stored.opened(paged, [i]).is_constant():
            repeated = array.take(pa.array([0] * len(array), pa.int64()))
            assert reference.same_array(array, repeated)


@pytest.mark.parametrize(
    ("page", "constant"),
    [
        (None, True),
        (b"\1\0\5", True),
        (b"\2\0\1\5", True),
        (b"\0\1\7", True),
        (b"\1\1\5\7", True),
        (b"\1\1\5\1", False),
        (b"\2\0\2\5\6\0", False),
        (b"\0\0\5\5\5", False),
    ],
)
def test_constant_pages(page, constant):
    columns = columns_of(pa.schema([("x", pa.int8())]))
    pages = bucket.open_slots([page], columns, [0], [3])
    assert ColumnDecoder(pages, [0], columns, [0]).is_constant() is constant


# The size of a page


def encoded(table, columns):
    """Encode the pages of a table as the writer does, with dictionaries of any size."""
    flat = range(columns.num_flat)
    flags = bytes([1] * len(flat))
    return encode(flat_columns(table), flat, columns.kinds, columns.digits, flags, 1 << 30, 1 << 30)


def check_sizes(table):
    table = table.rename_columns([f"{i:03}" for i in range(table.num_columns)])
    columns = columns_of(table.schema)
    pages = encoded(table, columns)
    for flat in range(columns.num_flat):
        limit = max_page_bytes(columns.kinds[flat], pages.num_rows(flat))
        assert (limit is None) == (columns.kinds[flat] in (Kind.BINARY, Kind.STRING))
        page = pages.page(flat)
        assert page is None or limit is None or len(page) <= limit
    limit = columns.max_bytes(table.num_rows)
    varies = columns.num_children or {Kind.BINARY, Kind.STRING} & set(columns.kinds)
    assert (limit is None) == bool(varies)
    assert limit is None or len(bucket.encode_monolithic(pages, table.num_columns)) <= limit


@given(table=tables(min_columns=1, max_columns=40))
def test_no_page_is_larger_than_its_rows_allow(table):
    check_sizes(table)


@every_type
@pytest.mark.parametrize("num_rows", [1, 70_000])
def test_no_page_of_any_type_is_larger_than_its_rows_allow(arrow, num_rows):
    values = prepared(arrow)
    rng = random.Random(num_rows)
    column = values.take(pa.array(rng.choices(range(len(values)), k=num_rows)))
    check_sizes(pa.table({"x": column}))


@pytest.mark.parametrize(
    ("arrow", "value"),
    [(pa.int8(), 1), (pa.int64(), -1), (pa.timestamp("ns"), 1), (pa.decimal128(38, 0), 10**38 - 1)],
    ids=str,
)
@pytest.mark.parametrize("num_rows", [1, 100, MAX_IDLE_ENTRIES, MAX_IDLE_ENTRIES + 500])
def test_the_largest_dictionary_is_within_the_limit(arrow, value, num_rows):
    (entry,) = reference.serialize(array_of(arrow, [value]))
    columns = columns_of(pa.schema([("x", arrow)]))
    most = max(num_rows, MAX_IDLE_ENTRIES)
    for num_entries in (most, most + 1):
        indices = (num_rows * (num_entries - 1).bit_length() + 7) // 8
        nulls = bytes((num_rows + 7) // 8)
        page = b"\2\1" + uv(num_entries) + entry * num_entries + nulls + bytes(indices)
        assert len(page) <= max_page_bytes(columns.kinds[0], num_rows) + len(entry)
        if num_entries > most:
            with pytest.raises(CorruptFileError, match="more entries than it has bytes or rows"):
                bucket.open_slots([page], columns, [0], [num_rows])
        else:
            pages = bucket.open_slots([page], columns, [0], [num_rows])
            assert len(page) <= max_page_bytes(columns.kinds[0], num_rows)
            assert ColumnDecoder(pages, [0], columns, [0]).check(num_rows) == 0


def test_digits_are_those_of_decimals():
    schema = pa.schema(
        [
            ("a", pa.decimal128(7, 2)),
            ("b", pa.int64()),
            ("c", pa.map_(pa.decimal128(38, 0), pa.list_(pa.decimal128(19, 3)))),
            ("d", pa.time32("ms")),
        ]
    )
    assert columns_of(schema).digits == bytes([7, 0, 0, 0, 38, 0, 19])
