"""Kudu's array data block: test vectors, the oracle, all list types, damaged and hostile blocks."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import zlib
from array import array as int_array
from decimal import Decimal
from pathlib import Path

import array_reference as oracle
import pyarrow as pa
import pytest
from array_reference import u32, uv
from hypothesis import given, strategies as st
from reference import sized

import fastmosaic as fm
from fastmosaic import CorruptFileError, MemoryLimitError, UnsupportedError
from fastmosaic.format import array_block
from fastmosaic.format._crc import crc32c
from fastmosaic.memory import Memory

VECTORS = json.loads((Path(__file__).parents[1] / "golden" / "kudu_vectors.json").read_text())

# Every type that elements can have, and the form of them in a block.
FORMS = {
    pa.bool_(): "bool",
    pa.int8(): 1,
    pa.uint8(): 1,
    pa.int16(): 2,
    pa.uint16(): 2,
    pa.int32(): 4,
    pa.uint32(): 4,
    pa.int64(): 8,
    pa.uint64(): 8,
    pa.float16(): 2,
    pa.float32(): 4,
    pa.float64(): 8,
    pa.date32(): 4,
    pa.date64(): 8,
    pa.time32("s"): 4,
    pa.time32("ms"): 4,
    pa.time64("us"): 8,
    pa.time64("ns"): 8,
    pa.timestamp("s"): 8,
    pa.timestamp("ms"): 8,
    pa.timestamp("us", "UTC"): 8,
    pa.timestamp("ns"): 8,
    pa.decimal32(1, 0): 4,
    pa.decimal32(9, 2): 4,
    pa.decimal64(9, 2): 4,
    pa.decimal64(18, 2): 8,
    pa.decimal128(9, -2): 4,
    pa.decimal128(10, 0): 8,
    pa.decimal128(18, 4): 8,
    pa.decimal128(19, 4): 16,
    pa.decimal128(38, 10): 16,
    pa.decimal256(9, 0): 4,
    pa.decimal256(18, 0): 8,
    pa.decimal256(38, 0): 16,
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.string(): "binary",
    pa.large_string(): "binary",
    pa.string_view(): "binary",
}
every_type = pytest.mark.parametrize("arrow", FORMS, ids=str)
VECTOR_TYPES = {
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "int128": pa.decimal128(38, 10),
    "float": pa.float32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "binary": pa.binary(),
}


def is_text(arrow):
    return arrow in (pa.string(), pa.large_string(), pa.string_view())


# Cells as Arrow arrays, and back -------------------------------------------------------------


def as_elements(elements, arrow):
    form = FORMS[arrow]
    if form == "bool":
        return pa.array(elements, arrow)
    if form == "binary":
        return pa.array(
            [e if e is None or not is_text(arrow) else e.decode() for e in elements], arrow
        )
    wide = arrow.bit_width // 8
    # What is hidden under a null must not matter.
    raw = b"".join(
        b"\xa5" * wide
        if e is None
        else int.from_bytes(e, "little", signed=True).to_bytes(wide, "little", signed=True)
        for e in elements
    )
    validity = pa.array([e is not None for e in elements], pa.bool_()).buffers()[1]
    return pa.Array.from_buffers(arrow, len(elements), [validity, pa.py_buffer(raw)])


def as_lists(cells, arrow, hidden=()):
    """Return cells as an Arrow array; the elements of `hidden` are under null lists."""
    rows = [list(hidden) if cell is None else cell for cell in cells]
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row))
    elements = as_elements([e for row in rows for e in row], arrow)
    mask = pa.array([cell is None for cell in cells], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), elements, mask=mask)


def as_cells(lists, arrow):
    """Return the bytes of the elements, without the padding of decimals."""
    lists.validate()
    form = FORMS[arrow]
    elements = lists.values
    assert elements.type == arrow
    if form == "binary":
        elements.validate(full=True)
        values = elements.cast(pa.binary()).to_pylist()
    elif form == "bool":
        values = elements.to_pylist()
    else:
        wide = arrow.bit_width // 8
        raw = elements.buffers()[1].to_pybytes() if len(elements) else b""
        values = []
        for i, valid in enumerate(elements.is_valid().to_pylist()):
            number = int.from_bytes(raw[i * wide : (i + 1) * wide], "little", signed=True)
            values.append(number.to_bytes(form, "little", signed=True) if valid else None)
            assert valid or number == 0
    offsets = lists.offsets.to_pylist()
    present = lists.is_valid().to_pylist()
    return [values[offsets[i] : offsets[i + 1]] if here else None for i, here in enumerate(present)]


DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def limits(arrow):
    """Return the lowest and the highest value of a decimal or time."""
    if pa.types.is_time(arrow):
        return 0, DAY[arrow.unit] - 1
    return 1 - 10**arrow.precision, 10**arrow.precision - 1


def is_limited(arrow):
    return pa.types.is_decimal(arrow) or pa.types.is_time(arrow)


def is_within(cells, arrow):
    """Whether all elements are in the range of their type."""
    if not is_limited(arrow):
        return True
    low, high = limits(arrow)
    numbers = (int.from_bytes(e, "little", signed=True) for c in cells for e in c or [] if e)
    return all(low <= number <= high for number in numbers)


@st.composite
def elements(draw, arrow, rng):
    """Return a function that returns a random element or None."""
    form = FORMS[arrow]
    null_share = draw(st.sampled_from([0, 0, 0.1, 0.5, 1]))
    same_share = draw(st.sampled_from([0, 0.9, 0.99]))
    last = None

    def fresh():
        if rng.random() < null_share:
            return None
        if form == "bool":
            return rng.random() < 0.5
        if is_text(arrow):
            return "".join(rng.choices("aé漢😀", k=rng.randrange(6))).encode()
        if form == "binary":
            return rng.randbytes(rng.choice([0, 1, 3, 20, 300]))
        if is_limited(arrow):
            number = rng.choice([rng.randint(*limits(arrow)), *limits(arrow)])
            return number.to_bytes(form, "little", signed=True)
        return rng.randbytes(form)

    def element():
        nonlocal last
        if rng.random() >= same_share:
            last = fresh()
        return last

    return element


@st.composite
def cells_of(draw, arrow):
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    element = draw(elements(arrow, rng))
    null_share = draw(st.sampled_from([0, 0, 0.1, 0.5, 1]))
    lengths, counts = draw(
        st.sampled_from(
            [
                ([0], [1, 130]),
                ([1], [1, 8, 9, 130]),
                ([0, 1, 2, 5], [1, 7, 16, 65]),
                (range(70), [9]),
                ([130, 520], [2]),
            ]
        )
    )
    same_share = draw(st.sampled_from([0, 0, 0.9]))
    cells = []
    for _ in range(draw(st.sampled_from(counts))):
        if not cells or rng.random() >= same_share:
            length = None if rng.random() < null_share else rng.choice(lengths)
        cells.append(None if length is None else [element() for _ in range(length)])
    return cells


# The vectors ---------------------------------------------------------------------------------


def vectors(*lists, where=lambda vector: True):
    chosen = [vector for name in lists for vector in VECTORS[name] if where(vector)]
    return pytest.mark.parametrize("vector", chosen, ids=[v["name"] for v in chosen])


def vector_cells(vector):
    """Return the cells of a test vector in the oracle's form."""
    cells = eval(vector["cells_python"]) if "cells_python" in vector else vector["cells"]
    form = FORMS[VECTOR_TYPES[vector.get("element_type", "int32")]]

    def element(value):
        if value is None or form == "bool":
            return value
        if isinstance(value, str):
            return bytes.fromhex(value)
        return (value % (1 << 8 * form)).to_bytes(form, "little")

    return [None if cell is None else [element(value) for value in cell] for cell in cells]


def vector_bits(vector):
    if "bits" in vector:
        return [int(bit) for bit in vector["bits"]]
    return [bit for bit, count in vector["bits_runs"] for _ in range(count)]


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("vector", VECTORS["crc32c"], ids=lambda v: v["input_hex"][:16])
def test_checksum_vector(vector, portable):
    data = bytes.fromhex(vector["input_hex"])
    assert crc32c(data, portable=portable) == vector["crc32c"] == oracle.crc32c(data)
    assert u32(vector["crc32c"]).hex() == vector["stored_hex"]


@vectors("rle_bitmap")
def test_bitmap_vector(vector):
    bits = vector_bits(vector)
    assert array_block.rle_encode(bits, 1).hex() == vector["hex"]
    assert array_block.rle_decode(bytes.fromhex(vector["hex"]), 1, vector["count"]) == bits


@vectors("rle_uint16")
def test_lengths_vector(vector):
    assert array_block.rle_encode(vector["values"], 16).hex() == vector["hex"]
    decoded = array_block.rle_decode(bytes.fromhex(vector["hex"]), 16, vector["count"])
    assert decoded == vector["values"]


def is_given(block, vector):
    if "block_hex" in vector:
        return block.hex() == vector["block_hex"]
    digest = hashlib.sha256(block).hexdigest()
    return (len(block), digest) == (vector["block_length"], vector["block_sha256"])


@vectors("blocks", "blocks_other_types")
def test_block_vector(vector):
    arrow = VECTOR_TYPES[vector["element_type"]]
    cells, ordinal = vector_cells(vector), vector["first_ordinal"]
    lists = as_lists(cells, arrow)
    bits = array_block.element_bits(arrow)
    sound = is_within(cells, arrow)
    if sound:
        checked = array_block.encode_lists(lists, bits, ordinal=ordinal)
        block = array_block.encode_lists(lists, bits, ordinal=ordinal, checksum=False)
    else:  # numbers that a decimal cannot have
        with pytest.raises(ValueError, match="more digits than its type"):
            array_block.encode(lists)
        block = oracle.encode(cells, FORMS[arrow])
        checked = oracle.with_checksum(block)
        for data, checksum in ((checked, True), (block, False)):
            with pytest.raises(CorruptFileError, match="more digits than its type"):
                array_block.decode(data, arrow, checksum=checksum)
    assert is_given(block, vector)
    assert checked == block + bytes.fromhex(vector["checksum_hex"])
    if ordinal == 0 and sound:
        assert array_block.encode(lists) == checked
        assert array_block.encode(lists, checksum=False) == block
    decoded = array_block.decode(checked, arrow, strict=sound)
    assert as_cells(decoded, arrow) == cells
    decoded = array_block.decode(block, arrow, checksum=False, strict=sound)
    assert as_cells(decoded, arrow) == cells


@vectors("blocks_other_encodings")
def test_sections_do_not_depend_on_the_encoding_of_the_data(vector):
    cells = vector_cells(vector)
    arrow = VECTOR_TYPES[vector["element_type"]]
    block = array_block.encode(as_lists(cells, arrow), checksum=False)
    data_at = {name: start for name, start, _ in vector["layout"]}["data"]
    assert block[:data_at].hex() == vector["block_hex"][: 2 * data_at]


@vectors("blocks_other_encodings", where=lambda v: v["encoding"] == "RLE")
def test_values_in_runs(vector):
    form = FORMS[VECTOR_TYPES[vector["element_type"]]]
    width = 1 if form == "bool" else 8 * form
    values = [
        int(e) if form == "bool" else int.from_bytes(e, "little")
        for cell in vector_cells(vector)
        for e in cell or []
        if e is not None
    ]
    runs = bytes.fromhex(vector["data_hex"])[8:]
    assert array_block.rle_encode(values, width) == runs
    assert array_block.rle_decode(runs, width, len(values)) == values


@vectors("block_cutting", where=lambda v: v["encoding"] == "PLAIN")
def test_blocks_of_a_cut_column(vector):
    lists = as_lists(vector_cells(vector), pa.int32())
    for part in vector["blocks"]:
        rows = lists.slice(part["first_ordinal"], part["array_count"])
        block = array_block.encode_lists(rows, 32, ordinal=part["first_ordinal"], checksum=False)
        assert is_given(block, part)
        assert array_block.decode(block, pa.int32(), checksum=False).equals(rows)


@vectors("compression")
def test_compressed_block_is_that_of_the_encoder(vector):
    stored = bytes.fromhex(vector["file_bytes_hex"])
    size, payload = int.from_bytes(stored[:4], "little"), stored[4:-4]
    assert crc32c(stored[:-4]) == int.from_bytes(stored[-4:], "little")
    if vector["stored_raw"]:
        block = payload
    elif vector["codec"] == "ZLIB":
        block = zlib.decompress(payload)
    else:
        block = pa.Codec("lz4_raw").decompress(payload, size, asbytes=True)
    cells = vector_cells(vector)
    assert array_block.encode(as_lists(cells, pa.int32()), checksum=False) == block
    assert as_cells(array_block.decode(block, pa.int32(), checksum=False), pa.int32()) == cells


@vectors("tolerated")
def test_odd_but_valid_block_is_read(vector):
    block = bytes.fromhex(vector["block_hex"])
    decoded = array_block.decode(block, VECTOR_TYPES[vector["element_type"]], checksum=False)
    assert decoded.to_pylist() == vector["cells"]


@vectors("malformed")
def test_malformed_block_is_refused(vector):
    arrow = VECTOR_TYPES[vector["element_type"]]
    block = bytes.fromhex(vector["block_hex"])
    with pytest.raises(CorruptFileError, match=f"array data block of {len(block)} bytes: [a-z]"):
        array_block.decode(block, arrow, checksum=False)
    with pytest.raises(
        CorruptFileError, match=f"array data block of {len(block) + 4} bytes: [a-z]"
    ):
        array_block.decode(oracle.with_checksum(block), arrow)


@vectors("bad_checksum")
def test_bad_checksum_is_refused(vector):
    with pytest.raises(CorruptFileError, match="the checksum is wrong"):
        array_block.decode(bytes.fromhex(vector["file_bytes_hex"]), pa.int32())


# The oracle ----------------------------------------------------------------------------------


@given(st.data())
def test_runs_are_those_of_the_oracle(data):
    width = data.draw(st.one_of(st.sampled_from([1, 16, 8, 32, 64]), st.integers(1, 64)))
    rng = random.Random(data.draw(st.integers(0, 2**32 - 1)))
    pool = data.draw(st.lists(st.integers(0, 2**width - 1), min_size=1, max_size=4))
    counts = data.draw(st.sampled_from([[1], [1, 7, 8, 9], [3, 100], [1, 1, 1, 1, 600]]))
    values = []
    for _ in range(data.draw(st.sampled_from([0, 1, 5, 30, 700]))):
        values += [rng.choice(pool)] * rng.choice(counts)
    values = values[: data.draw(st.sampled_from([len(values), 1, 8, 504, 505, 512]))]
    runs = array_block.rle_encode(values, width)
    assert runs == oracle.encode_runs(values, width)
    assert array_block.rle_decode(runs, width, len(values)) == values


@given(st.binary(max_size=12), st.sampled_from([1, 2, 7, 8, 16, 33, 64]), st.integers(0, 40))
def test_any_bytes_are_the_runs_that_the_oracle_reads(data, width, count):
    try:
        expected = oracle.decode_runs(data, width, count)
    except ValueError:
        with pytest.raises(CorruptFileError, match="runs of"):
            array_block.rle_decode(data, width, count)
    else:
        assert array_block.rle_decode(data, width, count) == expected


@every_type
@given(data=st.data())
def test_blocks_are_those_of_the_oracle(arrow, data):
    cells = data.draw(cells_of(arrow))
    hidden = [e for cell in cells for e in cell or []][: data.draw(st.integers(0, 3))]
    before, after = data.draw(st.sampled_from([(0, 0), (1, 0), (3, 2), (9, 1)]))
    padded = [(cells[i % len(cells)]) for i in range(before)] + cells + cells[:after]
    lists = as_lists(padded, arrow, hidden).slice(before, len(cells))
    block = oracle.encode(cells, FORMS[arrow])
    assert array_block.encode(lists, checksum=False) == block
    assert array_block.encode(lists) == oracle.with_checksum(block)
    decoded = array_block.decode(oracle.with_checksum(block), arrow)
    assert decoded.type == pa.list_(arrow)
    assert as_cells(decoded, arrow) == cells
    assert oracle.decode(block, FORMS[arrow]) == cells


@given(st.binary(max_size=300))
def test_checksum_is_that_of_the_oracle(data):
    assert crc32c(data) == crc32c(data, portable=True) == oracle.crc32c(data)
    for cut in {0, 1, len(data) // 2, len(data)}:
        before = crc32c(data[:cut])
        for portable in (False, True):
            assert crc32c(data[cut:], before, portable=portable) == crc32c(data)


# What Arrow has ------------------------------------------------------------------------------

ROWS = [[1, 2], None, [3, None], [], None, [None, 4]]
PAIRS = [[1, 2], None, [3, None], None, [None, 4]]


@pytest.mark.parametrize(
    ("arrow", "rows"),
    [
        (pa.list_(pa.int32()), ROWS),
        (pa.large_list(pa.int32()), ROWS),
        (pa.list_view(pa.int32()), ROWS),
        (pa.large_list_view(pa.int32()), ROWS),
        (pa.list_(pa.int32(), 2), PAIRS),
    ],
    ids=str,
)
def test_every_kind_of_list_gives_the_same_block(arrow, rows):
    plain = pa.array(rows, pa.list_(pa.int32()))
    lists = pa.array([*rows[:1], *rows, *rows[:1]], arrow)
    assert array_block.encode(lists.slice(1, len(rows))) == array_block.encode(plain)


def test_list_views_may_be_out_of_order_and_overlap():
    lists = pa.ListViewArray.from_arrays([2, 0, 1], [2, 1, 3], pa.array([1, 2, 3, 4]))
    assert array_block.encode(lists) == array_block.encode(pa.array([[3, 4], [1], [2, 3, 4]]))


def test_lists_of_fixed_size_zero():
    lists = pa.array([[], None], pa.list_(pa.int32(), 0))
    decoded = array_block.decode(array_block.encode(lists), pa.int32())
    assert decoded.to_pylist() == [[], None]


@pytest.mark.parametrize(
    ("arrow", "values"),
    [
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None, "a"]),
        (pa.dictionary(pa.int32(), pa.large_string()), ["a", "b", None, "a"]),
        (pa.dictionary(pa.int16(), pa.int64()), [1, 2, None, 1]),
        (pa.binary(2), [b"aa", b"bb", None, b"aa"]),
    ],
    ids=str,
)
def test_types_that_are_stored_as_others_come_back(arrow, values):
    plain = pa.array(values)
    lists = pa.ListArray.from_arrays([0, 3, 3, 4], pa.array(values, arrow))
    block = array_block.encode(lists)
    assert block == array_block.encode(pa.ListArray.from_arrays([0, 3, 3, 4], plain))
    decoded = array_block.decode(block, arrow)
    assert decoded.type == pa.list_(arrow)
    assert decoded.to_pylist() == lists.to_pylist()


def test_extension_types_are_stored_as_what_is_behind_them():
    uuids = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([b"0123456789abcdef", None], pa.binary(16))
    )
    lists = pa.ListArray.from_arrays([0, 2, 2], uuids)
    decoded = array_block.decode(array_block.encode(lists), pa.uuid())
    assert decoded.equals(lists)
    tensors = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), [2]), pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))
    )
    assert array_block.encode(tensors) == array_block.encode(tensors.storage)


def test_nulls_and_values_of_many_words():
    cells = [[None] * 200, [b"\1"] * 200, [None, b"\2"] * 100]
    block = array_block.encode(as_lists(cells, pa.int8()), checksum=False)
    assert block == oracle.encode(cells, 1)
    assert as_cells(array_block.decode(block, pa.int8(), checksum=False), pa.int8()) == cells


@pytest.mark.parametrize("arrow", [pa.list_(pa.int8()), pa.large_list(pa.int8())], ids=str)
def test_array_of_65535_elements_is_the_longest(arrow):
    lists = pa.array([[1], None, [7] * 65535], arrow)
    assert array_block.decode(array_block.encode(lists), pa.int8()).to_pylist() == lists.to_pylist()
    with pytest.raises(UnsupportedError, match="array 2 has more than 65,535 elements"):
        array_block.encode(pa.array([[1], None, [7] * 65536], arrow))
    hidden = as_lists([[b"\1"], None], pa.int8(), [b"\7"] * 65536)  # under a null it does not count
    assert array_block.decode(array_block.encode(hidden), pa.int8()).to_pylist() == [[1], None]


def test_any_ordinal_is_read():
    lists = pa.array([["a"], None])
    for ordinal in (0, 1, 2**32 - 1):
        block = array_block.encode_lists(lists, 0, ordinal=ordinal)
        assert array_block.decode(block, pa.string()).equals(lists)


def test_decimals_may_be_wider_than_kudu_has_them():
    lists = pa.array([[Decimal(1), Decimal(-1), None]], pa.list_(pa.decimal128(4, 0)))
    assert len(array_block.encode(lists)) == len(array_block.encode_lists(lists, 64)) - 8
    block = array_block.encode_lists(lists, 64)
    opened = array_block.open_lists(block, 64)
    assert array_block.decode_lists(opened, lists.type, Memory()).equals(lists)


def test_number_of_rows_can_be_demanded():
    lists = pa.array([[1], [2]], pa.list_(pa.field("element", pa.int32(), nullable=False)))
    block = array_block.encode(lists)
    opened = array_block.open_lists(block, 32, num_rows=2)
    assert array_block.decode_lists(opened, lists.type, Memory()).equals(lists)
    with pytest.raises(CorruptFileError, match="2 arrays, but there are 3 rows"):
        array_block.open_lists(block, 32, num_rows=3)


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, pa.py_buffer])
def test_bytes_of_any_kind_are_read(form):
    block = array_block.encode(pa.array([[1, 2]]))
    assert array_block.decode(form(block), pa.int64()).to_pylist() == [[1, 2]]
    assert array_block.rle_decode(form(b"\x06\x01"), 1, 3) == [1, 1, 1]


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True],
        (1, 0, 1),
        b"\1\0\1",
        iter([1, 0, 1]),
        pa.array([1, 0, 1], pa.int8()),
        pa.array([1, 1, 0, 1, 1], pa.uint64()).slice(1, 3),
        pa.array([True, False, True]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_runs_are_made_of_any_integers(values):
    assert array_block.rle_encode(values, 1) == b"\x03\x05"


# What is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (pa.chunked_array([[[1]]]), TypeError, "combine_chunks"),
        ([[1]], TypeError, "not list"),
        (pa.array([1]), TypeError, "lists, not of int64"),
        (pa.array([[]], pa.list_(pa.null())), UnsupportedError, "cast the lists"),
        (pa.array([[[1]]]), UnsupportedError, "cannot contain list<item: int64>"),
        (pa.array([[{"a": 1}]]), UnsupportedError, "cannot contain struct"),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())), TypeError, "lists, not of map"),
        (pa.array([[1]], pa.list_(pa.duration("s"))), UnsupportedError, "cast them to int64"),
        (pa.array([[1]], pa.list_(pa.decimal256(39, 0))), UnsupportedError, "38 digits"),
        (pa.array([], pa.list_(pa.int8())), UnsupportedError, "at least one array"),
    ],
    ids=str,
)
def test_what_cannot_be_encoded_is_refused(array, error, message):
    with pytest.raises(error, match=message):
        array_block.encode(array)


@pytest.mark.parametrize(
    "arrow", [pa.null(), pa.list_(pa.int8()), pa.duration("s"), pa.decimal256(76, 0)], ids=str
)
def test_types_without_a_form_are_refused(arrow):
    with pytest.raises(UnsupportedError, match="a data block cannot contain"):
        array_block.decode(b"", arrow)


def test_decimal_beyond_its_digits_is_refused():
    for number in (2**31, -(2**31) - 1, 2**64, 2**100, -(2**100)):
        raw = number.to_bytes(16, "little", signed=True)
        values = pa.Array.from_buffers(pa.decimal128(9, 0), 1, [None, pa.py_buffer(raw)])
        with pytest.raises(ValueError, match="more digits than its type"):
            array_block.encode(pa.ListArray.from_arrays([0, 1], values))


OUTSIDE = r"more digits than its type|not less than 24 hours"


@pytest.mark.parametrize("arrow", list(filter(is_limited, FORMS)), ids=str)
def test_values_outside_the_range_of_their_type(arrow):
    form = FORMS[arrow]
    for number in (limits(arrow)[0] - 1, limits(arrow)[1] + 1):
        if number.bit_length() >= 8 * form:
            continue
        cells = [[number.to_bytes(form, "little", signed=True), None], None]
        block = oracle.with_checksum(oracle.encode(cells, form))
        with pytest.raises(ValueError, match=OUTSIDE):
            array_block.encode(as_lists(cells, arrow))
        with pytest.raises(CorruptFileError, match=OUTSIDE):
            array_block.decode(block, arrow)
        lenient = array_block.decode(block, arrow, strict=False)
        assert as_cells(lenient, arrow) == cells
        with pytest.raises(pa.ArrowInvalid):
            lenient.validate(full=True)
        # Under a null it does not count.
        hiding = as_lists([None, [None]], arrow, cells[0])
        assert array_block.decode(array_block.encode(hiding), arrow).to_pylist() == [None, [None]]


def check_lists(block, arrow, num_rows, nullable=True):
    """Check a block as the elements of a column of array data blocks."""
    bits = array_block.element_bits(arrow)
    opened = array_block.open_lists(block, bits, num_rows=num_rows, nullable=nullable)
    return array_block.check_lists(opened, arrow)


@every_type
@given(data=st.data())
def test_checking_a_block_counts_its_null_lists(arrow, data):
    cells = data.draw(cells_of(arrow))
    block = oracle.with_checksum(oracle.encode(cells, FORMS[arrow]))
    assert check_lists(block, arrow, len(cells)) == cells.count(None)
    with pytest.raises(CorruptFileError, match=f"but there are {len(cells) + 1} rows"):
        check_lists(block, arrow, len(cells) + 1)
    nulls = [e for cell in cells for e in cell or []].count(None)
    if nulls:
        with pytest.raises(CorruptFileError, match=f"there are {nulls} null elements"):
            check_lists(block, arrow, len(cells), nullable=False)
    else:
        assert check_lists(block, arrow, len(cells), nullable=False) == cells.count(None)


@pytest.mark.parametrize("text", [b"\xff", b"a\xc3", b"\xed\xa0\x80"])
def test_text_that_is_not_utf8_is_refused(text):
    lists = pa.array([[b"ok", text]])
    block = array_block.encode(lists)
    assert array_block.decode(block, pa.binary()).equals(lists)
    with pytest.raises(CorruptFileError, match="not UTF-8"):
        array_block.decode(block, pa.string())
    with pytest.raises(ValueError, match="not UTF-8"):
        array_block.encode(lists.view(pa.list_(pa.string())))


def test_character_in_two_strings_is_not_utf8():
    block = array_block.encode(
        pa.array([["é".encode()[:1], "é".encode()[1:]]], pa.list_(pa.binary()))
    )
    with pytest.raises(CorruptFileError, match="not UTF-8"):
        array_block.decode(block, pa.string())


def test_values_of_another_length_are_refused():
    block = array_block.encode(pa.array([[b"abc"]]))
    with pytest.raises(CorruptFileError, match="widths must match"):
        array_block.decode(block, pa.binary(2))


@pytest.mark.parametrize(
    ("values", "width", "message"),
    [
        ([2], 1, "more than 1 bits"),
        ([65536], 16, "more than 16 bits"),
        ([-1], 16, "not integers of 16 bits"),
        ([2**64], 64, "not integers of 64 bits"),
        ([1], 0, "invalid bit width 0"),
        ([1], 65, "invalid bit width 65"),
        (pa.array([1, None]), 8, "nulls cannot be"),
    ],
    ids=str,
)
def test_what_is_not_runs_is_refused(values, width, message):
    with pytest.raises(ValueError, match=message):
        array_block.rle_encode(values, width)


@pytest.mark.parametrize(("width", "count"), [(0, 1), (65, 1), (1, -1)])
def test_runs_of_impossible_numbers_are_a_wrong_argument(width, count):
    with pytest.raises(ValueError, match="expected at least 0, and 1 to 64") as caught:
        array_block.rle_decode(b"\x02\x01", width, count)
    assert not isinstance(caught.value, CorruptFileError)


# Damage --------------------------------------------------------------------------------------

DAMAGED = {
    pa.int32(): [[b"\1\0\0\0", None], None, [], [b"\2\0\0\0"] * 9],
    pa.bool_(): [[True, None, False] * 3, None, [True]],
    pa.binary(): [[b"a", None, b"", b"bcd"], [], None, [b"e" * 30]],
    pa.string(): [["é".encode(), b"x"], None, ["漢".encode()]],
    pa.decimal128(9, -2): [[b"\1\0\0\0", None], [b"\xff\xff\xff\xff"]],
}
every_damaged = pytest.mark.parametrize("arrow", DAMAGED, ids=str)


@every_damaged
def test_every_truncation_is_refused(arrow):
    block = oracle.encode(DAMAGED[arrow], FORMS[arrow])
    checked = oracle.with_checksum(block)
    for size in range(len(block)):
        with pytest.raises(CorruptFileError, match="array data block of"):
            array_block.decode(block[:size], arrow, checksum=False)
        with pytest.raises(CorruptFileError, match="array data block of"):
            array_block.decode(oracle.with_checksum(block[:size]), arrow)
    for size in range(len(checked)):
        with pytest.raises(CorruptFileError, match="the checksum is wrong"):
            array_block.decode(checked[:size], arrow)


@every_damaged
def test_every_flip_is_found_by_the_checksum(arrow):
    checked = oracle.with_checksum(oracle.encode(DAMAGED[arrow], FORMS[arrow]))
    for at in range(len(checked)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(checked)
            damaged[at] ^= change
            with pytest.raises(CorruptFileError, match="the checksum is wrong"):
                array_block.decode(damaged, arrow)


def is_utf8(cells):
    try:
        b"\0".join(e for cell in cells for e in cell or [] if e).decode()
    except UnicodeDecodeError:
        return False
    return True


@every_damaged
def test_every_other_byte_is_read_as_by_the_oracle(arrow):
    block = oracle.encode(DAMAGED[arrow], FORMS[arrow])
    for at in range(len(block)):
        # Every bit, and what a count, a size or the length of a run may turn into.
        for byte in {*(block[at] ^ 1 << i for i in range(8)), 0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF}:
            damaged = block[:at] + bytes([byte]) + block[at + 1 :]
            try:
                cells = oracle.decode(damaged, FORMS[arrow])
            except ValueError:
                cells = None
            checked = oracle.with_checksum(damaged)
            sound = cells is not None and is_within(cells, arrow)
            if not sound or (arrow == pa.string() and not is_utf8(cells)):
                with pytest.raises(CorruptFileError, match="array data block of") as caught:
                    array_block.decode(checked, arrow)
                with pytest.raises(CorruptFileError, match="array data block of") as other:
                    check_lists(checked, arrow, len(cells or DAMAGED[arrow]))
                if cells is not None:
                    assert str(other.value) == str(caught.value)
            else:
                decoded = array_block.decode(damaged, arrow, checksum=False)
                assert as_cells(decoded, arrow) == cells
                assert check_lists(checked, arrow, len(cells)) == cells.count(None)
            if cells is not None and not sound:
                decoded = array_block.decode(damaged, arrow, checksum=False, strict=False)
                assert as_cells(decoded, arrow) == cells


@given(st.data())
def test_heavy_damage_is_read_as_by_the_oracle(data):
    arrow = data.draw(st.sampled_from([pa.int32(), pa.bool_(), pa.binary()]))
    block = bytearray(oracle.encode(DAMAGED[arrow], FORMS[arrow]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(block)))
        block[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        cells = oracle.decode(bytes(block), FORMS[arrow])
    except ValueError:
        with pytest.raises(CorruptFileError, match="array data block of"):
            array_block.decode(block, arrow, checksum=False)
    else:
        assert as_cells(array_block.decode(block, arrow, checksum=False), arrow) == cells


# Some lists ----------------------------------------------------------------------------------


def ranges_of(*edges):
    return memoryview(int_array("q", edges))


@st.composite
def some_rows(draw, num_rows):
    """Ascending ranges of rows, and the numbers of the rows."""
    edges = sorted(draw(st.sets(st.integers(0, num_rows), max_size=12)))
    pairs = list(zip(edges[::2], edges[1::2], strict=False))
    if pairs and draw(st.booleans()):  # two ranges that are next to each other
        pairs += [(pairs[-1][1], end) for end in range(pairs[-1][1] + 1, num_rows + 1)][:1]
    numbers = [number for pair in pairs for number in range(*pair)]
    return ranges_of(*(edge for pair in pairs for edge in pair)), numbers


def gathered(block, arrow, ranges, memory=None, **options):
    """Decode some lists of a block."""
    bits = array_block.element_bits(arrow)
    opened = array_block.open_lists(block, bits, ranges=ranges, **options)
    return array_block.decode_lists(opened, pa.list_(arrow), memory or Memory())


@every_type
@given(data=st.data())
def test_gathered_lists_are_those_of_the_oracle(arrow, data):
    cells = data.draw(cells_of(arrow))
    block = oracle.with_checksum(oracle.encode(cells, FORMS[arrow]))
    ranges, numbers = data.draw(some_rows(len(cells)))
    memory = Memory()
    lists = gathered(block, arrow, ranges, memory, num_rows=len(cells))
    lists.validate(full=arrow != pa.date64())
    assert as_cells(lists, arrow) == [cells[number] for number in numbers]
    if "view" not in str(arrow):  # which Arrow cannot take
        taken = array_block.decode(block, arrow).take(pa.array(numbers, pa.int64()))
        assert as_cells(lists, arrow) == as_cells(taken, arrow)

    opened = array_block.open_lists(block, array_block.element_bits(arrow), ranges=ranges)
    assert sum(array_block.measure_lists(opened, arrow)) >= memory.taken
    assert array_block.check_lists(opened, arrow) == lists.null_count


@pytest.mark.parametrize(
    "edges", [(-1, 2), (0, 6), (2, 2), (3, 1), (0, 3, 2, 4), (5, 6), (2**62, 2**63 - 1)]
)
def test_ranges_that_do_not_exist(edges):
    block = array_block.encode(pa.array([["a"], None, [], ["b", None], ["c"]]))
    with pytest.raises(CorruptFileError, match="ranges of rows are out of order or out of range"):
        gathered(block, pa.string(), ranges_of(*edges))


def test_lists_are_gathered_once():
    opened = array_block.open_lists(array_block.encode(pa.array([[1], [2]])), 64)
    opened.gather(ranges_of(1, 2))
    assert (opened.num_arrays, opened.num_elements) == (1, 1)
    with pytest.raises(ValueError, match="gathered before"):
        opened.gather(ranges_of(0, 1))


@pytest.mark.parametrize("arrow", [pa.int8(), pa.float64(), pa.bool_(), pa.string()], ids=str)
@pytest.mark.parametrize("nulls", [False, True])
def test_only_the_wanted_lists_are_decoded(arrow, nulls):
    """The memory of 3 of 100,000 lists is that of their 30 elements."""
    elements = {pa.string(): ["text"], pa.bool_(): [True]}.get(arrow, [1]) * 9
    cells = [[*elements, None] if nulls else [*elements, *elements[:1]]] * 50_000
    mixed = pa.array([cells[0], [*elements, None] if nulls else None] * 50_000, pa.list_(arrow))
    for lists in (pa.array(cells * 2, pa.list_(arrow)), mixed):
        whole, memory = Memory(), Memory()
        block = array_block.encode(lists)
        opened = array_block.open_lists(block, array_block.element_bits(arrow))
        array_block.decode_lists(opened, lists.type, whole)
        found = gathered(block, arrow, ranges_of(7, 8, 500, 501, 99_998, 99_999), memory)
        assert found.equals(lists.take([7, 500, 99_998]))
        assert memory.taken <= 400 < whole.taken / 500


def outcome(function):
    """Return the result and None, or None and the message of the error."""
    try:
        return function(), None
    except (CorruptFileError, UnsupportedError) as error:
        return None, str(error)


def check_gathered_damage(block, arrow, ranges, numbers):
    """Some lists are refused as all are, unless the damage is in the values of others."""
    whole, error = outcome(lambda: array_block.decode(block, arrow, checksum=False))
    lists, own_error = outcome(lambda: gathered(block, arrow, ranges, checksum=False))
    if lists is not None:
        lists.validate(full=True)
    if error is None and numbers[-1:] < [len(whole)]:
        cells = as_cells(whole, arrow)
        assert as_cells(lists, arrow) == [cells[number] for number in numbers]
    elif error is not None and own_error != error:
        assert own_error is None
        assert re.search("not UTF-8|more digits than its type", error)


@every_damaged
@pytest.mark.parametrize("numbers", [[0], [1], [0, 2], [1, 2], [3]], ids=str)
def test_some_lists_of_damaged_blocks(arrow, numbers):
    block = oracle.encode(DAMAGED[arrow], FORMS[arrow])
    if numbers[-1] >= len(DAMAGED[arrow]):
        return
    ranges = ranges_of(*(edge for number in numbers for edge in (number, number + 1)))
    for size in range(len(block)):
        with pytest.raises(CorruptFileError, match="array data block of"):
            gathered(block[:size], arrow, ranges, checksum=False)
    checked = oracle.with_checksum(block)
    for at in range(len(checked)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(checked)
            damaged[at] ^= change
            with pytest.raises(CorruptFileError, match="the checksum is wrong"):
                gathered(damaged, arrow, ranges)
            if at < len(block):
                check_gathered_damage(damaged[:-4], arrow, ranges, numbers)


@given(st.data())
def test_some_lists_of_heavily_damaged_blocks(data):
    arrow = data.draw(st.sampled_from(list(DAMAGED)))
    block = bytearray(oracle.encode(DAMAGED[arrow], FORMS[arrow]))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(block)))
        block[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    ranges, numbers = data.draw(some_rows(len(DAMAGED[arrow])))
    check_gathered_damage(bytes(block), arrow, ranges, numbers)


def test_text_of_other_lists_is_not_checked():
    block = array_block.encode(pa.array([[b"ok"], [b"\xff"], [b"fine"]]))
    found = gathered(block, pa.string(), ranges_of(0, 1, 2, 3))
    assert found.to_pylist() == [["ok"], ["fine"]]
    with pytest.raises(CorruptFileError, match="not UTF-8"):
        gathered(block, pa.string(), ranges_of(1, 2))


# Hostile numbers -----------------------------------------------------------------------------

MOST = 2**30 - 1  # values that one run can have


def runs(value, count, width):
    """Encode `count` times the value, in as many runs as necessary."""
    out = b""
    while count:
        step = min(count, MOST)
        out += uv(2 * step) + value.to_bytes((width + 7) // 8, "little")
        count -= step
    return out


def nulls(num_arrays, length, num_values=0):
    """Return a valid block of arrays with this many null elements each."""
    flat = num_arrays * length
    return (
        uv(flat)
        + uv(num_arrays)
        + sized(runs(0, flat, 1))
        + sized(runs(length, num_arrays, 16))
        + sized(runs(1, num_arrays, 1))
        + u32(num_values)
        + u32(0)
    )


HOSTILE = {
    "a billion null arrays": nulls(MOST, 0),
    "four billion null arrays": nulls(2**32 - 1, 0),
    "four billion null elements": nulls(65537, 65535),
    "a billion null elements": nulls(16384, 65535),
    "values that are not there": nulls(3, 3, num_values=2**32 - 1),
    "values of all elements that are not there": (
        uv(MOST)
        + uv(16385)
        + sized(runs(1, MOST, 1))
        + sized(runs(65535, 16384, 16) + uv(2) + (MOST - 16384 * 65535).to_bytes(2, "little"))
        + sized(runs(1, 16385, 1))
        + u32(MOST)
        + u32(0)
    ),
    "counts without runs": uv(2**32 - 1) * 2 + bytes(3) + bytes(8),
    "arrays without runs": uv(0) + uv(2**32 - 1) + bytes(3) + bytes(8),
    "sections beyond the end": uv(0) + uv(1) + uv(2**32 - 1) * 3,
    "runs of zero": uv(8) + uv(8) + sized(bytes(50)) * 3 + bytes(8),
    "a text beyond the end": (
        bytes.fromhex("0101 020201 03020100 020201") + u32(0) + u32(1) + u32(2**32 - 1)
    ),
}

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
import pyarrow as pa
from array import array
from fastmosaic import CorruptFileError, MemoryLimitError, UnsupportedError, array_block
from fastmosaic.format.array_block import decode_lists, element_bits, open_lists
from fastmosaic.memory import Memory
block = bytes.fromhex(sys.argv[1])
for arrow in (pa.int8(), pa.int64(), pa.bool_(), pa.string(), pa.decimal256(38, 0)):
    for edges in ([0, 1], [1, 3, 100, 102]):
        ranges = memoryview(array("q", edges))
        memory = Memory(16 << 20)
        try:
            some = open_lists(block, element_bits(arrow), checksum=False, ranges=ranges)
            found = decode_lists(some, pa.list_(arrow), memory)
        except (CorruptFileError, UnsupportedError) as error:
            assert len(str(error)) < 300
        else:
            assert len(found) == sum(edges[1::2]) - sum(edges[::2])
    try:
        array_block.decode(block, arrow, checksum=False)
    except (CorruptFileError, UnsupportedError, MemoryLimitError) as error:
        assert len(str(error)) < 300
    else:
        assert arrow == pa.bool_(), arrow
for width in (1, 16, 64):
    for count in (2**30 - 1, 2**40, 2**70):
        for runs in (b"", bytes.fromhex("feffffff07") + bytes(8), block):
            try:
                array_block.rle_decode(runs, width, count)
            except (CorruptFileError, UnsupportedError, MemoryLimitError) as error:
                assert len(str(error)) < 300
            else:
                raise AssertionError((width, count))
"""


@pytest.mark.parametrize("block", HOSTILE.values(), ids=HOSTILE)
def test_block_that_asks_for_too_much_is_refused(block):
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, block.hex()],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(fm.__file__).parents[1])},
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]


def test_many_nulls_are_no_bomb():
    for cells in ([None] * 3_000_000, [[None] * 60_000] * 20):
        block = array_block.encode(pa.array(cells, pa.list_(pa.int8())))
        assert len(block) < 60
        decoded = array_block.decode(block, pa.int8())
        assert len(decoded) == len(cells)
        assert decoded.null_count == cells.count(None)
        assert decoded.values.null_count == sum(len(cell or []) for cell in cells)


@every_type
def test_memory_is_limited_before_it_is_taken(arrow):
    value = (
        {"bool": True, "binary": b""}.get(FORMS[arrow])
        if isinstance(FORMS[arrow], str)
        else bytes(FORMS[arrow])
    )
    cells = [[None] * 5_999 + [value]] * 5
    block = oracle.with_checksum(oracle.encode(cells, FORMS[arrow]))
    # The bitmap of the elements, and their values or offsets.
    least = 5 * 6_000 * (1 + (32 if FORMS[arrow] == "binary" else arrow.bit_width)) // 8
    before = pa.total_allocated_bytes()
    with pytest.raises(MemoryLimitError, match=f"but the limit is {least:,}") as caught:
        array_block.decode(block, arrow, memory_limit=least)
    assert pa.total_allocated_bytes() <= before
    assert least < caught.value.size < least + 1000
    decoded = array_block.decode(block, arrow, memory_limit=caught.value.size)
    assert decoded.values.null_count == 5 * 5_999


@given(st.data())
def test_memory_taken_is_that_of_the_lists(data):
    arrow = data.draw(st.sampled_from([t for t in FORMS if "view" not in str(t)]))
    cells = data.draw(cells_of(arrow))
    memory = Memory()
    block = oracle.with_checksum(oracle.encode(cells, FORMS[arrow]))
    opened = array_block.open_lists(block, array_block.element_bits(arrow))
    lists = array_block.decode_lists(opened, pa.list_(arrow), memory)
    # Strings with 64 bits of offset are made of others after decoding.
    if arrow not in (pa.large_string(), pa.large_binary()):
        # Offsets of empty lists, and all of null lists and elements, are the same zeros.
        shared = 0
        if not len(lists.values) or lists.null_count == len(lists):
            shared = lists.nbytes
        elif lists.values.null_count == len(lists.values):
            shared = lists.values.nbytes
        assert lists.nbytes - shared - 16 <= memory.taken


def test_runs_are_limited_too():
    runs = array_block.rle_encode([1] * 1000, 1)
    assert array_block.rle_decode(runs, 1, 1000, memory_limit="16k") == [1] * 1000
    with pytest.raises(MemoryLimitError, match="at least 16,000 bytes"):
        array_block.rle_decode(runs, 1, 1000, memory_limit=15_999)
    with pytest.raises(CorruptFileError, match="runs"):
        array_block.rle_decode(runs, 1, 1001, memory_limit=15_999)
