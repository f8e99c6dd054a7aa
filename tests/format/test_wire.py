"""Integers, the cursor and compressed blocks: at every boundary, truncated, and damaged."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
import reference
import zstandard
from hypothesis import given, strategies as st

from fastmosaic.errors import CorruptFileError, UnsupportedError
from fastmosaic.format.wire import (
    MAX_BLOCK_BYTES,
    SUSPICIOUS_BYTES,
    SUSPICIOUS_EXPANSION,
    Cursor,
    compress,
    decompress,
    decompress_front,
    is_suspicious,
    put_bytes,
    put_varint,
)

POWERS = sorted({(1 << power) + step for power in range(33) for step in (-1, 0, 1)})
NUMBERS = [number for number in POWERS if number < 1 << 32]


def varint(number):
    out = bytearray()
    put_varint(out, number)
    return bytes(out)


# Varints


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (2**32 - 1, "ffffffff0f")],
)
def test_varint_examples(number, encoded):
    assert varint(number) == bytes.fromhex(encoded)


def test_varints_come_back_one_after_another():
    out = bytearray()
    for number in NUMBERS:
        put_varint(out, number)
    assert out == b"".join(map(reference.uv, NUMBERS))
    cursor = Cursor(bytes(out))
    assert [cursor.varint() for _ in NUMBERS] == NUMBERS
    assert cursor.remaining == 0


def test_every_truncation_of_a_varint_is_corrupt():
    for encoded in map(varint, NUMBERS):
        for size in range(len(encoded)):
            with pytest.raises(CorruptFileError, match=f"at offset {size}, but 0 are left"):
                Cursor(encoded[:size]).varint()


@pytest.mark.parametrize("encoded", ["8000", "ff808000", "ffffff8f00"])
def test_a_varint_need_not_be_minimal(encoded):
    data = bytes.fromhex(encoded)
    assert Cursor(data).varint() == reference.get_uv(data, 0)[0]


@pytest.mark.parametrize("encoded", ["8080808010", "ffffffff7f", "808080808000", "ffffffffffff"])
def test_a_varint_beyond_32_bits_is_corrupt(encoded):
    with pytest.raises(CorruptFileError, match="before offset 105 exceeds 32 bits"):
        Cursor(bytes.fromhex(encoded), base=100).varint()


@pytest.mark.parametrize("number", [-1, 1 << 32])
def test_a_number_beyond_32_bits_is_not_written(number):
    with pytest.raises(UnsupportedError, match=f"^{number} is too large"):
        varint(number)


# Cursor


def test_a_cursor_takes_what_is_there_and_no_more():
    cursor = Cursor(pa.py_buffer(b"\xffab"))  # a buffer whose bytes are signed
    assert cursor.uint8() == 255
    assert cursor.take(2) == b"ab"
    assert (cursor.pos, cursor.remaining) == (3, 0)
    assert cursor.take(0) == b""
    with pytest.raises(CorruptFileError, match="needed 1 bytes at offset 3, but 0 are left"):
        cursor.uint8()
    assert cursor.pos == 3


@given(st.binary(max_size=200))
def test_bytes_carry_their_length(content):
    out = bytearray(b"x")
    put_bytes(out, content)
    cursor = Cursor(out)
    cursor.take(1)
    assert out[1:] == reference.sized(content)
    assert cursor.bytes() == content


def test_a_length_beyond_the_end_is_corrupt():
    with pytest.raises(CorruptFileError, match="needed 4294967295 bytes at offset 15, but 3"):
        Cursor(reference.uv(2**32 - 1) + b"abc", base=10).bytes()


def test_text_is_utf8():
    assert Cursor(reference.sized("é城".encode())).text() == "é城"
    with pytest.raises(CorruptFileError, match="text at offset 7 is not UTF-8"):
        Cursor(reference.sized("é".encode()[:1]), base=7).text()


# Compressed blocks

CONTENT = bytes(range(256)) * 3


@given(st.binary(max_size=500), st.sampled_from([-5, 1, 3, 19]), st.booleans())
def test_blocks_come_back(content, level, checksum):
    block = compress(content, level, checksum)
    assert decompress(block, len(content)) == content
    frame = zstandard.get_frame_parameters(block)
    assert frame.content_size == len(content)
    assert frame.has_checksum == checksum
    if not checksum:
        assert block == reference.compress(content, level)


def test_every_truncation_of_a_block_is_corrupt():
    block = compress(CONTENT, 1, checksum=True)
    for size in range(len(block)):
        with pytest.raises(CorruptFileError, match="zstd"):
            decompress(block[:size], len(CONTENT))


def test_bytes_after_a_block_are_corrupt():
    block = compress(CONTENT, 1, checksum=False)
    for extra in (b"\0", block):
        with pytest.raises(CorruptFileError, match="zstd: Src size is incorrect"):
            decompress(block + extra, len(CONTENT))


@pytest.mark.parametrize("size", [0, len(CONTENT) - 1, len(CONTENT) + 1])
def test_a_block_of_another_size_than_declared_is_corrupt(size):
    block = compress(CONTENT, 1, checksum=False)
    with pytest.raises(CorruptFileError, match=f"contains {len(CONTENT)} bytes, but {size} are"):
        decompress(block, size)


def test_a_frame_need_not_say_its_size():
    block = zstandard.ZstdCompressor(write_content_size=False).compress(CONTENT)
    assert decompress(block, len(CONTENT)) == CONTENT
    with pytest.raises(CorruptFileError, match=f"contains {len(CONTENT)} bytes, but 769 are"):
        decompress(block, len(CONTENT) + 1)
    with pytest.raises(CorruptFileError, match="zstd: Destination buffer is too small"):
        decompress(block, len(CONTENT) - 1)


def test_a_checksum_finds_every_flipped_bit_of_the_content():
    block = bytearray(compress(CONTENT, 1, checksum=True))
    found = 0
    for bit in range(8 * len(block)):
        block[bit >> 3] ^= 1 << (bit & 7)
        try:
            assert decompress(block, len(CONTENT)) == CONTENT  # a bit that means nothing
        except CorruptFileError:
            found += 1
        block[bit >> 3] ^= 1 << (bit & 7)
    assert found >= 8 * len(block) - 3  # two bits with libzstd 1.5.7, three with 1.5.5


@pytest.mark.parametrize("size", [2 << 20, MAX_BLOCK_BYTES, 2**32 - 1])
def test_a_huge_declared_size_is_refused_before_memory_is_taken(size):
    # A frame that says of itself, too, that it holds so much.
    frame = bytes.fromhex("28b52ffda0") + size.to_bytes(4, "little") + bytes.fromhex("010000")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError, match=f"12 bytes declares {size} bytes of content"):
            decompress(frame, size)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_block_of_one_value_may_expand_far():
    content = bytes(32 << 20)
    assert decompress(compress(content, 1, checksum=False), len(content)) == content


def test_a_block_beyond_the_limit_is_not_written():
    block = memoryview(bytes(MAX_BLOCK_BYTES + 1))
    with pytest.raises(UnsupportedError, match="a block of 536870913 bytes exceeds the format's"):
        compress(block, 1, checksum=False)


def test_threads_compress_at_once():
    contents = [bytes([number]) * 10_000 + CONTENT for number in range(64)]

    def there_and_back(content):
        return decompress(compress(content, 1, checksum=True), len(content))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(there_and_back, contents)) == contents


FRAME = compress(CONTENT, 1, checksum=True)


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        (b"", 768),
        (b"not a frame", 768),
        (FRAME[:4], 768),
        (FRAME[:-5], 768),
        (FRAME[:-1], 768),
        (FRAME[:-1] + bytes([FRAME[-1] ^ 1]), 768),
        (FRAME, 767),
        (FRAME, 769),
        (zstandard.ZstdCompressor(write_content_size=False).compress(CONTENT), 767),
        (zstandard.ZstdCompressor(write_content_size=False).compress(CONTENT), 769),
    ],
)
def test_a_broken_block_is_corrupt(frame, size):
    with pytest.raises(CorruptFileError, match="zstd"):
        decompress(frame, size)


def test_the_front_of_a_frame():
    frame = compress(bytes(SUSPICIOUS_BYTES + 1), 1, checksum=True)
    assert is_suspicious(len(frame), SUSPICIOUS_BYTES + 1)
    assert not is_suspicious(len(frame), SUSPICIOUS_BYTES)
    assert not is_suspicious(SUSPICIOUS_BYTES // SUSPICIOUS_EXPANSION + 1, SUSPICIOUS_BYTES + 1)
    # The rest of the frame is not looked at.
    assert decompress_front(frame[: len(frame) * 3 // 4]) == bytes(SUSPICIOUS_BYTES // 2)
    assert decompress_front(FRAME) == CONTENT
    with pytest.raises(CorruptFileError, match="zstd"):
        decompress_front(b"not a frame")
