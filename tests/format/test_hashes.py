"""Hashes of values: against an implementation in Python, for all types and representations."""

import math
import random
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from strategies import FLAT_TYPES, scalar_types, tables

from fastmosaic.errors import UnsupportedError
from fastmosaic.format.hashes import SmallestHashes, can_hash, hash_values

WORD = 2**64 - 1


def mix(word: int) -> int:
    word &= WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def absorb(state: int, data: bytes) -> int:
    state = (state ^ int.from_bytes(data, "little")) * 0x9FB21C651E98DF25 & WORD
    return state ^ state >> 32


def of_bytes(data: bytes) -> int:
    state = len(data) * 0x9E3779B97F4A7C15 & WORD
    for start in range(0, len(data), 8):
        state = absorb(state, data[start : start + 8])
    return mix(state)


def of_double(number: float) -> int:
    if math.isnan(number):
        return mix(0x7FF8 << 48)
    return mix(struct.unpack("<Q", struct.pack("<d", number + 0.0))[0])


def of_decimal(number: int) -> int:
    data = number.to_bytes(32, "little", signed=True)
    state = 0
    for start in range(0, 32, 8):
        state = absorb(state, data[start : start + 8])
    return mix(state)


def hashes(values: pa.Array | pa.ChunkedArray) -> list[int]:
    return hash_values(values).to_pylist()


@pytest.mark.parametrize(
    "arrow", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.time32("ms")], ids=str
)
def test_signed_numbers(arrow):
    numbers = [0, 1, -1, 127, -128]
    plain = pa.array(numbers, f"int{arrow.bit_width}")
    assert hashes(plain.view(arrow)) == [mix(number) for number in numbers]


@pytest.mark.parametrize("arrow", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str)
def test_unsigned_numbers_are_those_of_the_same_value(arrow):
    assert hashes(pa.array([0, 255], arrow)) == hashes(pa.array([0, 255], pa.int64()))


def test_floats():
    numbers = [0.0, -0.0, 1.5, -1.5, float("inf"), float("nan")]
    expected = list(map(of_double, numbers))
    assert expected[0] == expected[1]
    for arrow in (pa.float64(), pa.float32(), pa.float16()):
        assert hashes(pa.array(numbers, pa.float64()).cast(arrow)) == expected
    payload = pa.array([0x7FF0000000000001, -1], pa.int64()).view(pa.float64())
    assert hashes(payload) == [of_double(float("nan"))] * 2


def test_booleans():
    assert hashes(pa.array([True, None, False] * 30)) == [mix(1), mix(0)] * 30


def test_decimals_of_every_width():
    numbers = [0, 1, -1, 99, -99]
    for arrow in (
        pa.decimal32(4, 2),
        pa.decimal64(12, 2),
        pa.decimal128(20, 2),
        pa.decimal256(50, 2),
    ):
        array = pa.array([Decimal(number) / 100 for number in numbers], arrow)
        assert hashes(array) == [of_decimal(number) for number in numbers]


def test_text_and_bytes():
    texts = ["", "a", "a\0", "12345678", "123456789", "é" * 50]
    expected = [of_bytes(text.encode()) for text in texts]
    for arrow in (
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        assert hashes(pa.array(texts, pa.string()).cast(arrow)) == expected
    assert hashes(pa.array([b"abc", None], pa.binary(3))) == [of_bytes(b"abc")]
    assert len(set(expected)) == len(expected)


ONE_COLUMN = tables(min_columns=1, max_columns=1, max_rows=200, column_types=scalar_types())


@given(ONE_COLUMN, st.data())
def test_slices_chunks_and_dictionaries_make_no_difference(table, data):
    array = pa.concat_arrays(table.column(0).chunks or [pa.nulls(0, table.schema.types[0])])
    start = data.draw(st.integers(0, len(array)))
    stop = data.draw(st.integers(start, len(array)))
    part = array.slice(start, stop - start)
    expected = hashes(pa.concat_arrays([part]).drop_null())
    assert hashes(part) == expected
    middle = (start + stop) // 2
    chunks = [array.slice(start, middle - start), array.slice(middle, stop - middle)]
    assert hashes(pa.chunked_array(chunks, array.type)) == expected
    assert hashes(part.dictionary_encode()) == expected
    assert (
        hashes(pa.chunked_array([array]).dictionary_encode().slice(start, stop - start)) == expected
    )


def test_nothing_has_no_hash():
    for arrow in (*FLAT_TYPES, pa.null(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert hashes(pa.nulls(3, arrow)) == hashes(pa.nulls(0, arrow)) == []
    assert hashes(pa.chunked_array([], pa.int8())) == []


def test_values_of_extension_types_are_those_behind_them():
    values = pa.array([b"0123456789abcdef"], pa.binary(16))
    assert hashes(pa.ExtensionArray.from_storage(pa.uuid(), values)) == hashes(values)


def test_lists_have_no_hashes():
    for arrow in (pa.list_(pa.int8()), pa.map_(pa.string(), pa.int8())):
        assert not can_hash(arrow)
        with pytest.raises(UnsupportedError, match="cannot be hashed"):
            hash_values(pa.nulls(1, arrow))


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_every_bit_of_a_value_changes_half_of_its_hash(kind):
    rng = random.Random(5)
    words = [rng.getrandbits(64) for _ in range(400)]

    def hashed(numbers: list[int]) -> list[int]:
        if kind == "numbers":
            return hashes(pa.array(numbers, pa.uint64()))
        return hashes(pa.array([b"prefix" + struct.pack("<Q", n) for n in numbers], pa.binary()))

    before = hashed(words)
    for bit in range(64):
        after = hashed([word ^ 1 << bit for word in words])
        changed = [
            sum((a ^ b) >> place & 1 for a, b in zip(before, after, strict=True))
            for place in range(64)
        ]
        assert 30 < sum(changed) / len(words) < 34
        assert 120 < min(changed) <= max(changed) < 280


def test_similar_texts_have_different_hashes():
    texts = [f"{a}_{b}" for a in range(400) for b in range(400)]
    assert len(set(hashes(pa.array(texts)))) == len(texts)


@given(st.lists(st.lists(st.integers(0, 60)), max_size=5), st.integers(1, 20))
def test_the_smallest_hashes(parts, size):
    kernel = SmallestHashes(size)
    for part in parts:
        kernel.add(pa.array(part, pa.int32()))
    expected = sorted({mix(number) for part in parts for number in part})[:size]
    assert kernel.hashes().to_pylist() == expected
    other = SmallestHashes(size)
    for part in parts:
        other.merge(hash_values(pa.array([None, *part], pa.int8())))
    assert other.hashes().equals(kernel.hashes())


def test_the_smallest_of_many_hashes():
    numbers = [number * number % 100_003 for number in range(200_000)]
    kernel = SmallestHashes(256)
    kernel.add(pa.chunked_array([numbers[:77_777], numbers[77_777:]], pa.int64()))
    assert kernel.hashes().to_pylist() == sorted(set(map(mix, numbers)))[:256]


def test_a_sketch_of_nothing():
    assert SmallestHashes(4).hashes().to_pylist() == []
    with pytest.raises(ValueError, match="0 hashes"):
        SmallestHashes(0)
