# cython: language_level=3
"""Columns on their way into a file: Arrow arrays of batches, or rows collected from them."""

from libc.stdint cimport int64_t, uint8_t

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._wire cimport (
    BINARY, DECIMAL128, INT8, INT16, INT32, TIME, TIMESTAMP_NS, fm_copy, fm_store16, fm_store32, fm_store64,
    fm_swap16, fm_swap32, fm_swap64, put_varint, uint32_t, uint64_t, varint_size, width_of,
)


cdef class ArrowColumns:
    cdef ArrowArray** _arrays
    cdef ArrowArray _batch
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef list _own  # addresses of arrays that were exported separately

    cdef ArrowArray* _export(self, array) except NULL


# Memory that is used for one column after another.
cdef struct Scratch:
    uint8_t* data
    int64_t room


# Bytes that grow at the end, in chunks that never move: ten thousand columns grow side by side, and
# moving them would leave holes between them that add up to more than what they hold.
cdef struct Chunk:
    Chunk* next
    uint32_t size
    uint32_t room


cdef struct Stream:
    Chunk* first
    Chunk* last
    int64_t size


# The rows of a flat column that were collected, without the nulls.
cdef struct Gathered:
    int64_t rows
    int64_t count       # rows that are not null
    Stream data         # numbers in the machine's order, booleans as bytes, other values as PLAIN
    Stream nulls        # words of 64 rows; bit 1 = null. Empty if there are none so far
    uint64_t bits       # of the last rows, which do not fill a word
    bint has_nulls


cdef struct Slab:
    Slab* next


cdef class CollectedColumns:
    cdef Gathered* _columns
    cdef Slab* _slabs
    cdef uint8_t* _at   # free bytes of the first slab
    cdef int64_t _left
    cdef Scratch _scratch
    cdef bytes _kinds
    cdef readonly Py_ssize_t count
    cdef readonly int64_t num_rows
    cdef readonly int64_t memory  # bytes that are allocated

    cdef bint _collect(self, Gathered* column, const ArrowArray* array, int kind) noexcept nogil
    cdef bint _put_nulls(self, Gathered* column, const ArrowArray* array) noexcept nogil
    cdef bint _push(self, Stream* stream, const uint8_t* data, int64_t size) noexcept nogil


# A flat column of a row group: chunks, or what was collected.
cdef struct Source:
    int kind
    int64_t rows
    int64_t valid           # rows that are not null
    ArrowArray** chunks
    int64_t num_chunks
    const Gathered* gathered
    const uint8_t* data     # all that was collected
    int64_t plain           # bytes of all values as PLAIN; -1 if unknown


# A number, or the address and length of a string.
cdef struct Value:
    uint64_t low         # a number, or the length of a string
    uint64_t high        # the upper half of a decimal, or the address of a string


cdef enum:
    BLOCK = 1024  # values per block, which fit in the first-level cache


# Goes through the values of a column that are not null.
cdef struct Walk:
    const Source* source
    int64_t chunk
    int64_t row
    const uint8_t* at


# Reasons why a column cannot be encoded.
cdef enum Fault:
    FINE
    BAD_UTF8
    BAD_DECIMAL
    BAD_TIME
    NO_MEMORY


cdef uint8_t* need(Scratch* scratch, int64_t size) noexcept nogil
cdef int number_width(int kind) noexcept nogil
cdef int64_t count_valid(const ArrowArray* array) noexcept nogil
cdef int check(const ArrowArray* array, int kind, int digits) noexcept nogil
cdef const uint8_t* numbers_of(const Source* source, Scratch* scratch) noexcept nogil
cdef int next_block(Walk* walk, Value* out) noexcept nogil
cdef int64_t plain_size_of(Source* source) noexcept nogil
cdef const uint8_t* assemble(const Gathered* column, Scratch* scratch) noexcept nogil
cdef uint8_t* put_texts(const ArrowArray* array, uint8_t* out) noexcept nogil
cdef void put_nulls(const Source* source, uint8_t* out) noexcept nogil


cdef inline int decimal_size(uint64_t low, int64_t high) noexcept nogil:
    """Return the minimum number of bytes of a 128-bit integer in two's complement."""
    cdef int size = 16
    cdef uint64_t sign = <uint64_t>(high >> 63)
    cdef uint64_t top = <uint64_t>high, below = low
    if <uint64_t>high == sign and <uint64_t>(<int64_t>low >> 63) == sign:
        top = low
        below = sign
        size = 8
    # Drop a leading byte while it and the next bit only repeat the sign.
    while size > 1 and top >> 55 == sign >> 55:
        top = top << 8 | below >> 56
        below <<= 8
        size -= 1
    return size


cdef inline int64_t size_value(const Value* value, int kind) noexcept nogil:
    """Return the bytes of a value in a file."""
    if kind >= BINARY:
        return varint_size(value.low) + <int64_t>value.low
    if kind == DECIMAL128:
        return 1 + decimal_size(value.low, <int64_t>value.high)
    return width_of(kind)


cdef inline uint8_t* put_value(uint8_t* out, const Value* value, int kind) noexcept nogil:
    cdef int64_t number, millis
    cdef int size, i
    if kind <= INT8:
        out[0] = <uint8_t>value.low
        return out + 1
    if kind == INT16:
        fm_store16(out, fm_swap16(<unsigned short>value.low))
        return out + 2
    if kind == INT32 or kind == TIME:
        fm_store32(out, fm_swap32(<uint32_t>value.low))
        return out + 4
    if kind == TIMESTAMP_NS:
        number = <int64_t>value.low
        millis = number // 1000000 - (number % 1000000 < 0)
        fm_store64(out, fm_swap64(<uint64_t>millis))
        fm_store32(out + 8, fm_swap32(<uint32_t>(value.low - <uint64_t>millis * 1000000)))
        return out + 12
    if kind == DECIMAL128:
        size = decimal_size(value.low, <int64_t>value.high)
        out[0] = <uint8_t>size
        out += 1
        for i in range(size):
            number = size - 1 - i
            out[i] = <uint8_t>(value.low >> (8 * number) if number < 8
                               else value.high >> (8 * (number - 8)))
        return out + size
    if kind >= BINARY:
        out = put_varint(out, value.low)
        fm_copy(out, <const uint8_t*>value.high, value.low)
        return out + value.low
    fm_store64(out, fm_swap64(value.low))
    return out + 8
