"""BucketReader: whole parts of a bucket, decoded in one go, and what it leaves to others."""

import gc
from array import array

import pyarrow as pa
import pytest
import reference
import zstandard
from files import allocated_bytes
from hypothesis import given, strategies as st
from reference import sized, uv
from strategies import scalar_types, tables

from fastmosaic.errors import MemoryLimitError
from fastmosaic.format._decode import (
    Batch,
    BucketReader,
    Budget,
    PageFault,
    Pages,
    sort_positions,
)
from fastmosaic.format.types import ColumnType
from fastmosaic.memory import Memory

LARGEST = 1 << 20
FIRST = 100  # position of the first column of the bucket
PLENTY = 1 << 40


class Stored:
    """A bucket in both layouts, and reading some rows of some of its columns."""

    def __init__(self, types, num_rows, pages):
        """`pages` are bytes, or None if all rows are null."""
        self.types = types
        self.num_rows = num_rows
        self.slots = [b"" if page is None else compressed(page) for page in pages]
        self.kinds = bytes(ColumnType.from_arrow(pa.field("", arrow)).kind for arrow in types)
        self.digits = bytes(arrow.precision if pa.types.is_decimal(arrow) else 0 for arrow in types)

    def reader(self, wanted, start=0, count=None):
        count = self.num_rows - start if count is None else count
        positions = array("i", [FIRST + column for column in wanted])
        places = array("i", range(len(wanted)))
        return BucketReader(
            self.kinds, self.digits, positions, FIRST, places, self.num_rows, start, count, True
        )

    def paged(self, wanted, start=0, count=None, memory=None, budget=None, largest=LARGEST):
        """Decode slots of one buffer; return how many columns were decoded, and the batch."""
        offsets = array("q", [3])
        for slot in self.slots:
            offsets.append(offsets[-1] + len(slot))
        data = pa.py_buffer(b"..." + b"".join(self.slots))
        batch = Batch(len(wanted))
        done = self.reader(wanted, start, count).decode_paged(
            data, offsets, largest, batch, memory or Memory(), budget or Budget(PLENTY, 1)
        )
        return done, batch

    def apart(self, wanted, start=0, count=None):
        """Decode slots that are buffers of their own."""
        batch = Batch(len(wanted))
        done = self.reader(wanted, start, count).decode_slots(
            [pa.py_buffer(self.slots[column]) for column in wanted],
            LARGEST, batch, Memory(), Budget(PLENTY, 1),
        )  # fmt: skip
        return done, batch


def compressed(page):
    return uv(len(page)) + reference.compress(page, 1)


def content(page):
    if page.encoding == reference.ALL_NULL:
        return None
    return bytes([page.encoding, page.nulls != b""]) + page.table + page.nulls + page.data


def monolithic(stored, bucket, wanted, start=0, count=None, is_compressed=True, **options):
    data = reference.compress(bucket, 1) if is_compressed else bucket
    batch = Batch(len(wanted))
    done = stored.reader(wanted, start, count).decode_monolithic(
        pa.py_buffer(data),
        options.get("size", len(bucket) if is_compressed else 0),
        len(data),
        options.get("largest", LARGEST),
        batch,
        options.get("memory") or Memory(),
        options.get("budget") or Budget(PLENTY, 1),
    )
    return done, batch


# Against the oracle


@given(data=st.data(), rng=st.randoms())
def test_every_layout_gives_the_same_columns(data, rng):
    table = data.draw(
        tables(min_rows=1, max_rows=100, min_columns=1, max_columns=8, column_types=scalar_types())
    )
    columns = [reference.serialize(column.combine_chunks()) for column in table.columns]
    pages = []
    for rows in columns:
        distinct = len(set(rows) - {None})
        encodings = [reference.ALL_NULL]
        if distinct:
            encodings = [reference.PLAIN, reference.DICT]
        if distinct == 1:
            encodings.append(reference.CONST)
        pages.append(reference.encode_page(rows, rng.choice(encodings)))
    stored = Stored(table.schema.types, table.num_rows, list(map(content, pages)))
    bucket = reference.encode_monolithic(pages, table.num_columns)
    wanted = sorted(rng.sample(range(table.num_columns), rng.randint(1, table.num_columns)))
    start = rng.randrange(table.num_rows)
    count = rng.randint(1, table.num_rows - start)
    schema = pa.schema([table.schema.field(column) for column in wanted])
    for done, batch in (
        stored.paged(wanted, start, count),
        stored.apart(wanted, start, count),
        monolithic(stored, bucket, wanted, start, count),
        monolithic(stored, bucket, wanted, start, count, is_compressed=False),
    ):
        assert done == len(wanted)
        arrays = batch.finish(count, schema).columns
        for array_, column in zip(arrays, wanted, strict=True):
            array_.validate(full=True)
            expected = table.column(column).combine_chunks().slice(start, count)
            assert reference.same_array(array_, expected)


def test_pages_of_several_windows():
    # Pages of 200,000 bytes, of which two fit in the memory of a window.
    rows = 25_000
    pages = [b"\0\0" + rows * i.to_bytes(8, "big") for i in range(20)]
    pages[7] = None
    done, batch = Stored([pa.int64()] * 20, rows, pages).paged(range(20))
    assert done == 20
    finished = batch.finish(rows, pa.schema([(f"{i}", pa.int64()) for i in range(20)]))
    finished.validate(full=True)
    for i, column in enumerate(finished.columns):
        assert column.equals(pa.array([None if i == 7 else i] * rows, pa.int64()))


def test_memory_is_given_back():
    stored = Stored(
        [pa.int64(), pa.string()] * 50, 3, [b"\0\0" + bytes(24), b"\1\0" + sized(b"xyz")] * 50
    )
    gc.collect()
    before = allocated_bytes()
    done, batch = stored.paged(range(100))
    assert done == 100
    assert allocated_bytes() > before
    schema = pa.schema([(f"{i}", arrow) for i, arrow in enumerate(stored.types)])
    finished = batch.finish(3, schema)
    one = finished.column(99)
    del finished, batch
    assert one.to_pylist() == ["xyz"] * 3
    del one
    assert allocated_bytes() == before


# What is left to others

INT64 = b"\0\0" + bytes(16)
GOOD = compressed(INT64)
FRAME = reference.compress(INT64, 1)


@pytest.mark.parametrize(
    "slot",
    [
        b"\x80",
        uv(18),
        uv(0) + reference.compress(b"", 1),
        uv(1) + reference.compress(b"\0", 1),
        uv(17) + FRAME,
        uv(19) + FRAME,
        uv(36) + FRAME + FRAME,
        uv(18) + FRAME + b"\0",
        uv(18) + FRAME[:-1],
        uv(18) + b"\0" + FRAME,
        uv(18) + zstandard.ZstdCompressor(write_content_size=False).compress(INT64 + b"\0"),
        compressed(b"\4" + INT64),
        compressed(INT64[:-1]),
        compressed(b"\2\0" + uv(70_000) + bytes(70_000 * 8 + 5)),
        uv(LARGEST + 1) + reference.compress(bytes(LARGEST + 1), 1),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_unusual_slot_is_left(slot, place):
    stored = Stored([pa.int64()] * 3, 2, [INT64] * 3)
    stored.slots[place] = slot
    for done, _batch in (stored.paged(range(3)), stored.apart(range(3))):
        assert done == place


def test_a_fault_in_the_values_is_left():
    texts = [b"\0\0" + sized(b"x"), b"\0\0" + sized(b"\xff"), b"\0\0" + sized(b"y")]
    done, batch = Stored([pa.string()] * 3, 1, texts).paged(range(3))
    assert done == 1
    batch.put(1, pa.array(["between"]))
    batch.put(2, pa.array(["after"]))
    schema = pa.schema([(name, pa.string()) for name in "abc"])
    assert batch.finish(1, schema).to_pylist() == [{"a": "x", "b": "between", "c": "after"}]


@pytest.mark.parametrize("length", [6, 7, 100, 4000])
def test_a_string_leaves_room_for_the_lengths_of_those_after_it(length):
    # Five strings, of which the first one has the bytes of the others.
    page = b"\0\0" + sized(b"x" * length) + b"\0" * 3
    assert Stored([pa.string()], 5, [page]).paged([0])[0] == 0
    assert Stored([pa.string()], 4, [page]).paged([0])[0] == 1


@given(
    arrow=scalar_types(),
    page=st.binary(min_size=2, max_size=60),
    encoding=st.sampled_from([reference.PLAIN, reference.CONST, reference.DICT]),
    num_rows=st.integers(1, 70),
)
def test_arbitrary_bytes_are_read_if_others_can_read_them(arrow, page, encoding, num_rows):
    page = bytes([encoding, page[1] & 1]) + page[2:]
    stored = Stored([arrow], num_rows, [page])
    try:
        pages = Pages.from_slots([page], stored.kinds, stored.digits, [num_rows], True)
        (expected,) = pages.decode([0], [arrow], [num_rows], Memory())
    except PageFault:
        expected = None
    done, batch = stored.paged([0])
    assert done == (expected is not None)
    if done:
        column = batch.finish(num_rows, pa.schema([("a", arrow)])).column(0)
        assert reference.same_array(column, expected)


def test_an_unusual_bucket_is_left():
    stored = Stored([pa.int8()] * 2, 2, [])
    bucket = b"\0\0" + bytes([1, 2, 3, 4])  # both PLAIN, without nulls
    assert monolithic(stored, bucket, [0, 1])[0] == 2
    assert monolithic(stored, bucket[:-1], [0, 1])[0] == 0
    assert monolithic(stored, bucket[:-1], [0])[0] == 1
    assert monolithic(stored, bucket, [0, 1], size=5)[0] == 0
    assert monolithic(stored, bucket, [0, 1], size=7)[0] == 0
    assert monolithic(stored, bucket, [0, 1], largest=5)[0] == 0
    assert monolithic(stored, b"", [0], is_compressed=False)[0] == 0


def test_what_expands_beyond_the_budget_is_left():
    stored = Stored([pa.int64()] * 4, 1000, [b"\1\0" + bytes(8)] * 4)
    size = len(stored.slots[0])
    assert stored.paged(range(4), budget=Budget(40_000, 1))[0] == 4
    assert stored.paged(range(4), budget=Budget(20_000, 1))[0] == 2
    assert stored.paged(range(4), budget=Budget(0, 8100 // size + 1))[0] == 4
    assert stored.paged(range(4), budget=Budget(0, 1))[0] == 0


def test_a_budget_is_spent_once():
    budget = Budget(100, 2)
    assert budget.allows(70, 10)
    assert not budget.allows(71, 10)
    assert budget.allows(70, 10)
    assert budget.allows(20, 10)
    assert not budget.allows(21, 10)


def test_memory_is_taken_before_it_is_allocated():
    stored = Stored([pa.int64()] * 4, 1000, [b"\1\0" + bytes(8)] * 4)
    before = allocated_bytes()
    with pytest.raises(MemoryLimitError):
        stored.paged(range(4), memory=Memory(30_000))
    assert allocated_bytes() == before
    memory = Memory(40_000)
    assert stored.paged(range(4), memory=memory)[0] == 4
    assert 32_000 <= memory.taken <= 40_000


def test_more_than_arrow_can_count_is_left():
    stored = Stored([pa.string()], 1 << 12, [b"\1\0" + sized(b"x" * (1 << 19))])
    assert stored.paged([0], count=100)[0] == 1
    assert stored.paged([0])[0] == 0  # 2 GiB


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": [99]}, "column -1 does not exist or is nested"),
        ({"positions": [101]}, "column 1 does not exist or is nested"),
        ({"kinds": b"\x0b"}, "column 0 does not exist or is nested"),
        ({"digits": b""}, "digits for each kind"),
        ({"places": []}, "a place for each column"),
        ({"start": 3}, "0 rows from 3 of 2"),
        ({"count": 3}, "3 rows from 0 of 2"),
    ],
)
def test_arguments_that_do_not_fit_together(change, message):
    arguments = {"positions": [100], "places": [0], "kinds": b"\5", "digits": b"\0", "start": 0}
    arguments = {**arguments, "count": 2 - change.get("start", 0), **change}
    if "start" in change:
        arguments["count"] = 0
    with pytest.raises(ValueError, match=message):
        BucketReader(
            arguments["kinds"], arguments["digits"], array("i", arguments["positions"]), FIRST,
            array("i", arguments["places"]), 2, arguments["start"], arguments["count"], True,
        )  # fmt: skip


def test_slots_that_do_not_fit():
    stored = Stored([pa.int64()], 2, [INT64])
    reader = stored.reader([0])
    rest = LARGEST, Batch(1), Memory(), Budget(0, 1)
    for offsets in ([0], [-1, 3], [3, 2], [0, 4]):
        with pytest.raises(
            ValueError, match=r"slot -?\d\.\.\d of 3 bytes|an offset for each column"
        ):
            reader.decode_paged(pa.py_buffer(b"abc"), array("q", offsets), *rest)
    with pytest.raises(ValueError, match="0 slots for 1 columns"):
        reader.decode_slots([], *rest)


# Columns by position


@given(st.lists(st.integers(0, 30), max_size=60))
def test_sorted_positions(positions):
    ascending, places = sort_positions(array("i", positions), 31)
    assert list(ascending) == sorted(positions)
    assert [positions[place] for place in places] == sorted(positions)
    assert sorted(places) == list(range(len(positions)))


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_that_is_not_there(position):
    with pytest.raises(ValueError, match=f"position {position} of 3"):
        sort_positions(array("i", [0, position]), 3)
