"""Kudu's array data block: a column of arrays in one block of bytes.

A block contains the lengths of the arrays and two bitmaps (which arrays and which elements are not
null) as runs, followed by the elements that are not null, and a CRC-32C. It does not contain the
type of the elements. `encode` writes PLAIN data and the first ordinal 0; `decode` accepts any
ordinal.

    element type                                 bytes of one element
    boolean                                      1/8
    integer, float, date, time, timestamp        as in Arrow
    decimal of up to 9, 18, 38 digits            4, 8, 16
    string, binary                               variable
"""

from __future__ import annotations

from array import array as native_array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from pyarrow import types as arrow_types

from ..errors import CorruptFileError, MosaicError, UnsupportedError
from ..memory import Memory, MemoryLimit
from . import _array

__all__ = ["decode", "encode", "rle_decode", "rle_encode"]

MAX_OFFSET: Final = 2**31 - 1  # in Arrow's lists and strings
_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def encode(array: pa.Array, *, checksum: bool = True) -> bytes:
    """Encode an array of lists as a data block.

    Parameters
    ----------
    array : pyarrow.Array
        Lists of any of Arrow's list types, with up to 65,535 elements each. The elements must be
        booleans, numbers, dates, times, timestamps, strings or binary. Dictionary-encoded elements
        are decoded, and extension types are stored as their storage type.
    checksum : bool, default True
        Append the CRC-32C of the block.

    >>> encode(pa.array([[7], None, []], pa.list_(pa.int32())), checksum=False).hex(" ")
    '01 03 02 02 01 07 03 01 00 00 00 00 00 02 03 05 01 00 00 00 00 00 00 00 07 00 00 00'
    """
    lists = _storage(array)
    return encode_lists(lists, element_bits(_value_type(lists)), checksum=checksum)


def decode(
    data: Any,
    value_type: pa.DataType,
    *,
    checksum: bool = True,
    strict: bool = True,
    memory_limit: MemoryLimit = None,
) -> pa.Array:
    """Decode a data block to an array of lists.

    Parameters
    ----------
    data : bytes-like
        The block.
    value_type : pyarrow.DataType
        The type of the elements, which the block does not contain.
    checksum : bool, default True
        Whether the block ends with its CRC-32C, which is then verified.
    strict : bool, default True
        Refuse decimals with more digits than their type has, and times outside the day. If False,
        they are returned, and `validate(full=True)` of the result fails.
    memory_limit : int or str, optional
        Maximum memory of the result, in bytes or as text such as "8g". Many nulls or equal lengths
        take few bytes in a block. The default is half of the memory of the machine; see
        `fastmosaic.read_table`.

    Raises
    ------
    CorruptFileError
        If the block is damaged; in most cases also if the elements have another type.
    MemoryLimitError
        If the result would exceed `memory_limit`.

    >>> decode(encode(pa.array([["a", None], []])), pa.string()).to_pylist()
    [['a', None], []]
    """
    block = open_lists(data, element_bits(value_type), checksum=checksum)
    return decode_lists(block, pa.list_(value_type), Memory(memory_limit), strict=strict)


def rle_encode(values: Iterable[int] | pa.Array, bit_width: int) -> bytes:
    """Encode non-negative integers of `bit_width` bits (1 to 64) as runs, as in a data block.

    >>> rle_encode([5] * 100 + [1, 2], 16).hex(" ")
    'c8 01 05 00 03 01 00 02 00'
    """
    numbers: native_array[int] | memoryview
    try:
        if isinstance(values, pa.Array):
            if values.null_count:
                raise ValueError("nulls cannot be encoded as runs")
            whole = pa.concat_arrays([values.cast(pa.uint64())])  # without an offset
            numbers = memoryview(whole.buffers()[1] or b"").cast("B").cast("Q")[: len(whole)]
        else:
            numbers = native_array("Q", iter(values))
        return _array.encode_runs(numbers, bit_width)
    except OverflowError as error:
        raise ValueError(f"the values are not integers of {bit_width} bits: {error}") from error


def rle_decode(
    data: Any, bit_width: int, count: int, *, memory_limit: MemoryLimit = None
) -> list[int]:
    """Decode `count` integers of `bit_width` bits from runs; `memory_limit` is as in `decode`.

    >>> rle_decode(bytes.fromhex("c80105000301000200"), 16, 102)[98:]
    [5, 5, 1, 2]
    """
    if not 1 <= bit_width <= 64 or count < 0:
        raise ValueError(
            f"invalid count {count} or bit width {bit_width}: expected at least 0, and 1 to 64"
        )
    with _damage(memoryview(data).nbytes, "runs"):
        _array.check(data, bit_width, count)
        # 8 bytes each as integers, and 8 in the list.
        Memory(memory_limit).take(16 * count)
        return _array.decode_runs(data, bit_width, count).tolist()


def element_bits(value_type: pa.DataType) -> int:
    """Return the bits of an element in a block; 0 for strings and binary, which vary in size."""
    value_type = _stored(value_type)
    if arrow_types.is_boolean(value_type):
        return 1
    if arrow_types.is_decimal(value_type):
        if value_type.precision > 38:
            raise UnsupportedError(
                f"a data block cannot contain {value_type}; decimals can have at most 38 digits"
            )
        return 32 if value_type.precision <= 9 else 64 if value_type.precision <= 18 else 128
    if _is_bytes(value_type):
        return 0
    if (
        arrow_types.is_integer(value_type)
        or arrow_types.is_floating(value_type)
        or arrow_types.is_date(value_type)
        or arrow_types.is_time(value_type)
        or arrow_types.is_timestamp(value_type)
    ):
        return value_type.bit_width
    advice = "elements must be numbers, booleans, dates, times, timestamps, strings or binary"
    if arrow_types.is_duration(value_type):
        advice = "cast them to int64"
    elif arrow_types.is_null(value_type):
        advice = "cast the lists to a type such as pyarrow.list_(pyarrow.int32())"
    elif arrow_types.is_run_end_encoded(value_type):
        advice = "decode them first with pyarrow.compute.run_end_decode"
    raise UnsupportedError(f"a data block cannot contain {value_type}; {advice}")


def encode_lists(lists: pa.Array, bits: int, *, ordinal: int = 0, checksum: bool = True) -> bytes:
    """Encode `lists` whose elements have `bits` bits (see `element_bits`)."""
    if not len(lists):
        raise UnsupportedError("a data block must contain at least one array")
    lengths = lists.value_lengths()
    elements = _storage(lists.flatten())
    if arrow_types.is_dictionary(elements.type):
        elements = _storage(elements.dictionary_decode())
    value_type = elements.type
    if bits == 0:
        value_type = pa.string() if _is_text(value_type) else pa.binary()
        try:
            elements = elements.cast(value_type)
        except pa.ArrowInvalid as error:
            raise UnsupportedError(f"{error}; encode fewer arrays at a time") from error
    try:
        block = _array.encode(
            lengths,
            elements,
            bits=bits,
            arrow_bits=value_type.bit_width if bits else 0,
            wide_lengths=arrow_types.is_int64(lengths.type),
            utf8=value_type == pa.string(),
            ordinal=ordinal,
            checksum=checksum,
        )
    except OverflowError as error:
        raise UnsupportedError(str(error)) from error
    if arrow_types.is_decimal(value_type) or arrow_types.is_time(value_type):
        _check_range(_array.Block(block, bits=bits, checksum=checksum), value_type)
    return block


def open_lists(
    data: Any,
    bits: int,
    *,
    num_rows: int | None = None,
    nullable: bool = True,
    checksum: bool = True,
    ranges: memoryview[int] | None = None,
) -> _array.Block:
    """Check the counts of a data block of `num_rows` lists, whose elements have `bits` bits.

    Elements may be null if they are `nullable`. With `ranges`, start and stop of ascending ranges
    of rows, the block then has only these lists.
    """
    with _damage(memoryview(data).nbytes):
        block = _array.Block(data, bits=bits, checksum=checksum)
        if num_rows is not None and block.num_arrays != num_rows:
            raise ValueError(
                f"the block has {block.num_arrays} arrays, but there are {num_rows} rows"
            )
        if max(block.num_elements, block.text_size) > MAX_OFFSET:
            raise UnsupportedError(
                f"a data block has {block.num_elements} elements with {block.text_size} bytes of "
                f"text; Arrow's lists and strings are limited to {MAX_OFFSET}"
            )
        nulls = block.num_elements - block.num_values
        if nulls and not nullable:
            raise CorruptFileError(
                f"there are {nulls} null elements, but they are declared not null"
            )
        if ranges is not None:
            block.gather(ranges)
    return block


def decode_lists(
    block: _array.Block, list_type: pa.DataType, memory: Memory, *, strict: bool = True
) -> pa.Array:
    """Decode the lists of a data block to `list_type`."""
    value_type = list_type.value_type
    stored = _stored_element(value_type, block.bits)
    with _damage(block.num_bytes):
        if strict:
            _check_range(block, stored, "; strict=False reads it anyway")
        memory.take(_sizes(block, stored)[0])
        elements = _as_type(_decode_elements(block, stored, memory), value_type)
        validity, offsets = _decode_offsets(block, memory)
    return pa.Array.from_buffers(
        list_type,
        block.num_arrays,
        [validity, offsets],
        block.num_arrays - block.num_valid_arrays,
        children=[elements],
    )


def measure_lists(block: _array.Block, value_type: pa.DataType) -> tuple[int, int]:
    """Return what `decode_lists` takes from a memory, and how many zeros it uses."""
    return _sizes(block, _stored_element(value_type, block.bits))


def check_lists(block: _array.Block, value_type: pa.DataType, *, strict: bool = True) -> int:
    """Check a data block as `decode_lists` does, in memory for its stored values only.

    Return how many lists are null.
    """
    stored = _stored_element(value_type, block.bits)
    with _damage(block.num_bytes):
        block.check(utf8=stored == pa.string())
        if strict:
            _check_range(block, stored, "; strict=False reads it anyway")
    return block.num_arrays - block.num_valid_arrays


def _check_range(block: _array.Block, stored: pa.DataType, hint: str = "") -> None:
    """Raise ValueError, with a hint, if decimals or times are outside the range of their type."""
    try:
        if arrow_types.is_decimal(stored):
            block.check_range(stored.precision, 0)
        elif arrow_types.is_time(stored):
            block.check_range(0, _DAY[stored.unit])
    except ValueError as error:
        raise ValueError(f"{error}{hint}") from None


@contextmanager
def _damage(size: int, what: str = "array data block") -> Iterator[None]:
    """Turn errors of the kernels or of Arrow's checks and casts into `CorruptFileError`."""
    try:
        yield
    except MosaicError:
        raise
    except (ValueError, OverflowError) as error:  # OverflowError: a count of more than 64 bits
        raise CorruptFileError(f"{what} of {size} bytes: {error}") from error


def _decode_offsets(block: _array.Block, memory: Memory) -> tuple[pa.Buffer | None, pa.Buffer]:
    """Return validity and offsets of the lists. A few bytes can stand for many empty ones."""
    size = 4 * (block.num_arrays + 1)
    if _has_equal_offsets(block):
        zeros = memory.zeros(size).slice(0, size)
        return None if block.num_valid_arrays else zeros, zeros
    validity = _allocate((block.num_arrays + 7) // 8, block.num_valid_arrays < block.num_arrays)
    offsets = pa.allocate_buffer(size)
    block.fill_lists(_bytes(offsets), _bytes(validity))
    return validity, offsets


def _has_equal_offsets(block: _array.Block) -> bool:
    return block.num_elements == 0 and block.num_valid_arrays in (0, block.num_arrays)


def _decode_elements(block: _array.Block, stored: pa.DataType, memory: Memory) -> pa.Array:
    count = block.num_elements
    if block.num_values == 0:
        return _nulls(stored, count, memory)
    validity = _allocate((count + 7) // 8, block.num_values < count)
    if validity is not None:
        block.fill_validity(_bytes(validity))
    if block.bits:
        values = pa.allocate_buffer((count * stored.bit_width + 7) // 8)
        block.fill_values(_bytes(values), _bytes(validity), stored.bit_width)
        buffers = [validity, values]
    else:
        offsets, text = pa.allocate_buffer(4 * (count + 1)), pa.allocate_buffer(block.text_size)
        block.fill_strings(
            _bytes(offsets), _bytes(text), _bytes(validity), utf8=stored == pa.string()
        )
        buffers = [validity, offsets, text]
    return pa.Array.from_buffers(stored, count, buffers, count - block.num_values)


def _nulls(stored: pa.DataType, count: int, memory: Memory) -> pa.Array:
    """Return `count` nulls, whose buffers are zeros."""
    zeros = memory.zeros(_null_bytes(stored, count))
    buffers = [zeros if count else None, zeros]
    if _is_bytes(stored):
        buffers.append(pa.py_buffer(b""))
    return pa.Array.from_buffers(stored, count, buffers, count)


def _null_bytes(stored: pa.DataType, count: int) -> int:
    return 4 * (count + 1) if _is_bytes(stored) else count * stored.bit_width // 8 + 1


def _as_type(elements: pa.Array, value_type: pa.DataType) -> pa.Array:
    """Cast the elements of a block to `value_type`."""
    if isinstance(value_type, pa.BaseExtensionType):
        storage = _as_type(elements, value_type.storage_type)
        return pa.ExtensionArray.from_storage(value_type, storage)
    if arrow_types.is_dictionary(value_type):
        values = _as_type(elements, value_type.value_type)
        return values.dictionary_encode().cast(value_type)
    return elements if elements.type == value_type else elements.cast(value_type)


def _allocate(size: int, wanted: bool) -> pa.Buffer | None:
    return pa.allocate_buffer(size) if wanted else None


def _bytes(buffer: Any) -> Any:
    return None if buffer is None else memoryview(buffer).cast("B")


def _storage(array: Any) -> pa.Array:
    """Return the storage of an array of an extension type."""
    if isinstance(array, pa.ChunkedArray):
        raise TypeError(
            "expected a pyarrow.Array, not a ChunkedArray: encode each chunk, or call combine_chunks()"
        )
    if not isinstance(array, pa.Array):
        raise TypeError(f"expected a pyarrow.Array, not {type(array).__name__}")
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array


def _value_type(lists: pa.Array) -> pa.DataType:
    """Return the type as which the elements of the lists are stored."""
    arrow = lists.type
    if not (
        arrow_types.is_list(arrow)
        or arrow_types.is_large_list(arrow)
        or arrow_types.is_fixed_size_list(arrow)
        or arrow_types.is_list_view(arrow)
        or arrow_types.is_large_list_view(arrow)
    ):
        raise TypeError(f"expected an array of lists, not of {arrow}")
    return _stored(arrow.value_type)


def _stored(value_type: pa.DataType) -> pa.DataType:
    """Return the type without extensions and dictionaries around it."""
    if isinstance(value_type, pa.BaseExtensionType):
        return _stored(value_type.storage_type)
    if arrow_types.is_dictionary(value_type):
        return _stored(value_type.value_type)
    return value_type


def _stored_element(value_type: pa.DataType, bits: int) -> pa.DataType:
    """Return the type of the decoded elements, before they are cast to `value_type`."""
    stored = _stored(value_type)
    if bits == 0:
        return pa.string() if _is_text(stored) else pa.binary()
    return stored


def _is_text(arrow: pa.DataType) -> bool:
    return (
        arrow_types.is_string(arrow)
        or arrow_types.is_large_string(arrow)
        or arrow_types.is_string_view(arrow)
    )


def _is_bytes(arrow: pa.DataType) -> bool:
    return (
        _is_text(arrow)
        or arrow_types.is_binary(arrow)
        or arrow_types.is_large_binary(arrow)
        or arrow_types.is_binary_view(arrow)
        or arrow_types.is_fixed_size_binary(arrow)
    )


def _sizes(block: _array.Block, stored: pa.DataType) -> tuple[int, int]:
    """Return the memory of the lists in a block, and how many zeros they use."""
    size = zeros = 0
    if _has_equal_offsets(block):
        zeros = 4 * (block.num_arrays + 1)
    else:
        has_nulls = block.num_valid_arrays < block.num_arrays
        size += 4 * (block.num_arrays + 1) + ((block.num_arrays + 7) // 8 if has_nulls else 0)
    count = block.num_elements
    if block.num_values == 0:
        return size, max(zeros, _null_bytes(stored, count))
    width = 32 if _is_bytes(stored) else stored.bit_width
    size += block.text_size + (count * width + 7) // 8 + (4 if _is_bytes(stored) else 0)
    return size + ((count + 7) // 8 if block.num_values < count else 0), zeros
