# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Kudu's array data block and its run-length encoding, without the GIL.

A block contains, in this order:

    uv      N, elements of all arrays, nulls included
    uv      n, arrays, null ones included
    uv F    runs of 1 bit, N of them: the element is not null
    uv L    runs of 16 bits, n of them: elements of the array
    uv A    runs of 1 bit, n of them: the array is not null
    data    the elements that are not null, to the end

where `uv X` is the size of X in bytes, then X. Fixed-width data is `u32 V, u32 ordinal`, then V
values (booleans as bits); binary data is `u32 ordinal, u32 V, u32 P`, the bytes of all values,
and at P the V starts of the values in groups of four. All integers are little-endian.

The bytes are not trusted: counts and runs are checked against the bytes that exist before memory is
allocated. Errors are `ValueError` (the block is damaged) or `OverflowError` (there is more data
than a block can contain).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._crc cimport fm_crc32c
from fastmosaic.format._wire cimport (
    MAX_DIGITS, Reader, fm_bits, fm_copy, fm_ctz64, fm_equal, fm_has_digits, fm_is_ascii, fm_load16, fm_load32, fm_load64,
    fm_popcount64, fm_store16, fm_store32, fm_store64, is_utf8, left, put_varint, uint16_t, uint32_t,
    uint64_t, varint, varint_size,
)

cdef extern from "Python.h":
    char* PyBytes_AsString(object o) except NULL

# Reasons for errors. From TOO_LONG on, the block is not damaged.
cdef enum Fault:
    FINE
    CHECKSUM
    BAD_COUNT
    BAD_SECTION
    BAD_RUN
    EMPTY_RUN
    RUN_CUT
    BAD_VALUE
    TOO_FEW
    TOO_MANY
    BAD_SUM
    NULL_WITH_ELEMENTS
    BAD_HEADER
    BAD_VALUES
    BAD_SIZE
    BAD_OFFSETS
    BAD_UTF8
    BAD_RANGE
    TOO_LONG
    TOO_MANY_ELEMENTS
    BAD_DECIMAL
    BAD_TIME
    BAD_LISTS
    NO_MEMORY

_FACTS = (
    "",
    "the checksum is wrong",
    "a count is cut off or exceeds 32 bits, or there are more elements than arrays can have",
    "a section or its size is cut off",
    "the length of a run is cut off or exceeds 31 bits",
    "a run is empty",
    "a run is cut off",
    "the value of a run has too many bits",
    "runs end before the last value",
    "runs have more values than there should be",
    "the lengths of the arrays do not add up to the number of elements",
    "a null array has elements",
    "the header of the data is cut off",
    "the number of values differs from the number of non-null elements",
    "the values are cut off, or bytes follow them",
    "an offset is cut off, out of order or out of range",
    "a string is not UTF-8",
    "ranges of rows are out of order or out of range",
    "an array has more than 65,535 elements",
    "there are more than 1,073,741,823 arrays or elements",
    "a decimal has more digits than its type",
    "a time is negative or not less than 24 hours",
    "the lengths of the lists do not match their elements",
    "out of memory",
)

cdef int64_t MAX_LENGTH = 65535
cdef int64_t MAX_COUNT = (1 << 30) - 1  # of values in one run, and so of all values
cdef int64_t MAX_OFFSET = 2147483647  # in Arrow's lists and strings
cdef int64_t MAX_LITERAL = 63 * 8  # values: the length of such a run is one byte


cdef object fail(int fault, int64_t index=-1):
    if fault == NO_MEMORY:
        raise MemoryError
    fact = _FACTS[fault]
    if fault == TOO_LONG:
        fact = f"array {index} has more than {MAX_LENGTH:,} elements, the maximum in a data block"
    if fault == TOO_LONG or fault == TOO_MANY_ELEMENTS:
        raise OverflowError(fact)
    raise ValueError(fact)


cdef inline uint64_t low_bits(int count) noexcept nogil:
    """Return a word whose lowest `count` bits are set."""
    return ~<uint64_t>0 if count == 64 else (<uint64_t>1 << count) - 1


# ---- runs, written


cdef struct Packed:
    const uint8_t* data     # values of `width` bits one after another, lowest bit first
    int64_t size            # bytes
    int64_t start           # position of the first bit
    int64_t count
    int width


cdef inline int64_t max_run_bytes(int64_t count, int width) noexcept nogil:
    """Return an upper bound of the bytes of `count` values as runs."""
    return (count + 7) // 8 * (1 + width)


cdef inline uint64_t value_at(const Packed* values, int64_t i) noexcept nogil:
    return fm_bits(values.data, values.size, values.start + i * values.width, values.width)


cdef inline bint in_bytes(const Packed* values) noexcept nogil:
    return (values.width | values.start) & 7 == 0


cdef inline bint all_equal(const Packed* values, int64_t first, int count) noexcept nogil:
    """Return whether `count` (at most 8) values from `first` on are equal."""
    cdef const uint8_t* at
    cdef uint64_t bits
    cdef int i, width = values.width >> 3
    if values.width == 1:
        bits = fm_bits(values.data, values.size, values.start + first, count)
        return bits == 0 or bits == low_bits(count)
    if in_bytes(values):
        at = values.data + (values.start >> 3) + first * width
        return fm_equal(at, at + width, (count - 1) * width)
    bits = value_at(values, first)
    for i in range(1, count):
        if value_at(values, first + i) != bits:
            return False
    return True


cdef int64_t equal_from(const Packed* values, int64_t first) noexcept nogil:
    """Return how many values from `first` on are equal."""
    cdef int64_t count = values.count - first, i = 0, same, size
    cdef uint64_t word, bits = value_at(values, first)
    cdef const uint8_t* at
    cdef int width = values.width >> 3, step
    if values.width == 1:
        while i < count:
            step = <int>min(<int64_t>64, count - i)
            word = fm_bits(values.data, values.size, values.start + first + i, step)
            if bits:
                word = ~word & low_bits(step)
            if word:
                return i + fm_ctz64(word)
            i += step
        return count
    if in_bytes(values):
        # Values are equal as long as each byte equals the one a value earlier.
        at = values.data + (values.start >> 3) + first * width
        size = (count - 1) * width
        same = 0
        while same + 8 <= size:
            word = fm_load64(at + same) ^ fm_load64(at + same + width)
            if word:
                return 1 + (same + (fm_ctz64(word) >> 3)) // width
            same += 8
        while same < size and at[same] == at[same + width]:
            same += 1
        return 1 + same // width
    while i < count and value_at(values, first + i) == bits:
        i += 1
    return i


cdef inline uint8_t* put_low_bytes(uint8_t* to, uint64_t value, int count) noexcept nogil:
    cdef int i
    for i in range(count):
        to[i] = <uint8_t>(value >> (8 * i))
    return to + count


cdef uint8_t* put_bits(uint8_t* to, const uint8_t* data, int64_t size, int64_t start,
                       int64_t count) noexcept nogil:
    """Copy `count` bits from bit `start` of `data`, which has `size` bytes; pad with zeros."""
    cdef int rest
    if start & 7 == 0 and count >= 8:
        memcpy(to, data + (start >> 3), count >> 3)
        to += count >> 3
        start += count & ~<int64_t>7
        count &= 7
    while count >= 64:
        fm_store64(to, fm_bits(data, size, start, 64))
        to += 8
        start += 64
        count -= 64
    rest = <int>count
    if rest:
        to = put_low_bytes(to, fm_bits(data, size, start, rest), (rest + 7) // 8)
    return to


cdef inline uint8_t* put_literal(uint8_t* to, const Packed* values, int64_t first,
                                 int64_t count) noexcept nogil:
    to[0] = <uint8_t>((count + 7) // 8 << 1 | 1)
    return put_bits(to + 1, values.data, values.size, values.start + first * values.width,
                    count * values.width)


cdef inline uint8_t* put_repeated(uint8_t* to, uint64_t value, int width,
                                  int64_t count) noexcept nogil:
    return put_low_bytes(put_varint(to, <uint64_t>count << 1), value, (width + 7) // 8)


cdef uint8_t* put_runs(uint8_t* to, const Packed* values) noexcept nogil:
    """Write the values as runs; at most MAX_COUNT of them."""
    cdef int64_t at = 0, first = 0, count  # a literal run is open from `first` to `at`
    while values.count - at >= 8:
        if not all_equal(values, at, 8):
            at += 8
            if at - first == MAX_LITERAL:
                to = put_literal(to, values, first, at - first)
                first = at
            continue
        if first < at:
            to = put_literal(to, values, first, at - first)
        count = equal_from(values, at)
        to = put_repeated(to, value_at(values, at), values.width, count)
        at += count
        first = at
    count = values.count - at
    if count and first == at and all_equal(values, at, <int>count):
        return put_repeated(to, value_at(values, at), values.width, count)
    if first < values.count:
        to = put_literal(to, values, first, values.count - first)
    return to


# ---- runs, read


cdef struct Run:
    bint literal
    int64_t count
    uint64_t value          # of a repeated run
    const uint8_t* data     # of a literal run
    int64_t size


cdef inline int take_run(Reader* reader, int width, int64_t missing, Run* run) noexcept nogil:
    """Read the next run, of at most `missing` values."""
    cdef int64_t indicator
    cdef int i, value_bytes = (width + 7) // 8
    if missing == 0:
        return TOO_MANY
    indicator = varint(reader)
    if indicator < 0 or indicator > 0x7FFFFFFF:
        return BAD_RUN
    run.literal = indicator & 1
    run.count = indicator >> 1
    if run.count == 0:
        return EMPTY_RUN
    if run.literal:
        if 8 * run.count >= missing + 8:
            return TOO_MANY
        run.count = min(8 * run.count, missing)
        run.size = (run.count * width + 7) // 8
        if run.size > left(reader):
            return RUN_CUT
        run.data = reader.at
        reader.at += run.size
        return FINE
    if run.count > missing:
        return TOO_MANY
    if value_bytes > left(reader):
        return RUN_CUT
    run.value = 0
    for i in range(value_bytes):
        run.value |= <uint64_t>reader.at[i] << (8 * i)
    reader.at += value_bytes
    if run.value > low_bits(width):
        return BAD_VALUE
    return FINE


cdef inline int64_t count_ones(const uint8_t* bits, int64_t size, int64_t start,
                               int64_t count) noexcept nogil:
    cdef int64_t done = 0, ones = 0
    while done < count:
        ones += fm_popcount64(
            fm_bits(bits, size, start + done, <int>min(<int64_t>64, count - done)))
        done += 64
    return ones


# A section that is read part by part: values that are all in one run.
cdef struct Walk:
    Reader section
    int width
    int64_t end     # values in the section
    int64_t at      # values that were read
    Run run
    int64_t first   # the last part: `count` values of the run from this one on
    int64_t count


cdef inline void begin(Walk* walk, Reader section, int width, int64_t end) noexcept nogil:
    memset(walk, 0, sizeof(Walk))
    walk.section = section
    walk.width = width
    walk.end = end


cdef inline int take_part(Walk* walk, int64_t stop) noexcept nogil:
    """Read the next part, up to value `stop` at most."""
    cdef int fault
    walk.first += walk.count
    walk.count = 0
    if walk.first == walk.run.count:
        fault = take_run(&walk.section, walk.width, walk.end - walk.at, &walk.run)
        if fault:
            return fault
        walk.first = 0
    walk.count = min(walk.run.count - walk.first, stop - walk.at)
    walk.at += walk.count
    return FINE


cdef inline int64_t sum_part(const Walk* walk) noexcept nogil:
    """Sum the values, of 1 or 16 bits, of the last part."""
    cdef int64_t i, sum = 0
    if not walk.run.literal:
        return <int64_t>walk.run.value * walk.count
    if walk.width == 1:
        return count_ones(walk.run.data, walk.run.size, walk.first, walk.count)
    for i in range(walk.first, walk.first + walk.count):
        sum += fm_load16(walk.run.data + 2 * i)
    return sum


cdef int check_runs(Reader section, int width, int64_t count, int64_t* total) noexcept nogil:
    """Check that the section contains `count` values; sum them if they have 1 or 16 bits."""
    cdef Walk walk
    cdef int fault
    begin(&walk, section, width, count)
    total[0] = 0
    while left(&walk.section):
        fault = take_part(&walk, count)
        if fault:
            return fault
        if width == 1 or width == 16:
            total[0] += sum_part(&walk)
    return TOO_FEW if walk.at < count else FINE


# The functions below read the values between edges: ascending positions where the first range
# starts, where it stops, where the second one starts, and so on. `check_runs` has checked these
# runs, but a caller may change the bytes in the meantime.


cdef int64_t covered(const int64_t* edges, int64_t num_edges) noexcept nogil:
    """Return how many values the ranges have."""
    cdef int64_t i, count = 0
    for i in range(1, num_edges, 2):
        count += edges[i] - edges[i - 1]
    return count


cdef int sums_before(Reader section, int width, int64_t end, const int64_t* edges,
                     int64_t num_edges, int64_t* sums) noexcept nogil:
    """Sum the values of 1 or 16 bits before each edge."""
    cdef Walk walk
    cdef int64_t i, sum = 0
    cdef int fault
    begin(&walk, section, width, end)
    for i in range(num_edges):
        while walk.at < edges[i]:
            fault = take_part(&walk, edges[i])
            if fault:
                return fault
            sum += sum_part(&walk)
        sums[i] = sum
    return FINE


cdef void set_bits(uint8_t* out, int64_t start, int64_t count) noexcept nogil:
    cdef int head = <int>min(-start & 7, count)
    if head:
        out[start >> 3] |= <uint8_t>(low_bits(head) << (start & 7))
        start += head
        count -= head
    memset(out + (start >> 3), 0xFF, count >> 3)
    if count & 7:
        out[(start + count) >> 3] |= <uint8_t>low_bits(count & 7)


cdef void add_bits(uint8_t* out, int64_t start, const uint8_t* bits, int64_t first,
                   int64_t count) noexcept nogil:
    """Copy `count` bits from bit `first` to bit `start` of `out`, where there must be zeros."""
    cdef int64_t i, whole
    cdef int shift, rest, head = <int>min(-first & 7, count)
    cdef uint32_t byte
    cdef uint8_t few
    bits += first >> 3
    if head:
        few = bits[0] >> (first & 7)
        add_bits(out, start, &few, 0, head)
        bits += 1
        start += head
        count -= head
    whole = count >> 3
    shift = <int>(start & 7)
    rest = <int>(count & 7)
    out += start >> 3
    if shift == 0:
        memcpy(out, bits, whole)
    else:
        for i in range(whole):
            byte = <uint32_t>bits[i] << shift
            out[i] |= <uint8_t>byte
            out[i + 1] = <uint8_t>(byte >> 8)
    if rest:
        byte = (bits[whole] & <uint32_t>low_bits(rest)) << shift
        out[whole] |= <uint8_t>byte
        if shift + rest > 8:
            out[whole + 1] = <uint8_t>(byte >> 8)


cdef int fill_bits(Reader section, int64_t end, const int64_t* edges, int64_t num_edges,
                   uint8_t* out) noexcept nogil:
    cdef Walk walk
    cdef int64_t i, done = 0
    cdef int fault
    memset(out, 0, (covered(edges, num_edges) + 7) // 8)
    begin(&walk, section, 1, end)
    for i in range(num_edges):
        while walk.at < edges[i]:
            fault = take_part(&walk, edges[i])
            if fault:
                return fault
            if i & 1 == 0:
                continue
            if walk.run.literal:
                add_bits(out, done, walk.run.data, walk.first, walk.count)
            elif walk.run.value:
                set_bits(out, done, walk.count)
            done += walk.count
    return FINE


cdef int fill_offsets(Reader section, int64_t end, const int64_t* edges, int64_t num_edges,
                      int64_t sum, int32_t* out) noexcept nogil:
    """Write the cumulative sum of the lengths, which must end at `sum`."""
    cdef Walk walk
    cdef int64_t i, k, total = 0
    cdef int fault
    out[0] = 0
    begin(&walk, section, 16, end)
    for i in range(num_edges):
        while walk.at < edges[i]:
            fault = take_part(&walk, edges[i])
            if fault:
                return fault
            if i & 1 == 0:
                continue
            for k in range(walk.first, walk.first + walk.count):
                total += (fm_load16(walk.run.data + 2 * k) if walk.run.literal
                          else <int64_t>walk.run.value)
                out += 1
                out[0] = <int32_t>total
    return FINE if total == sum else BAD_SUM


cdef int fill_numbers(Reader section, int width, int64_t count, uint64_t* out) noexcept nogil:
    cdef Run run
    cdef int64_t done = 0, i
    cdef int fault
    while done < count:
        fault = take_run(&section, width, count - done, &run)
        if fault:
            return fault
        for i in range(run.count):
            out[done + i] = (fm_bits(run.data, run.size, i * width, width) if run.literal
                             else run.value)
        done += run.count
    return FINE


cdef int pack(const uint64_t* numbers, int64_t count, int width, uint8_t* out) noexcept nogil:
    """Write numbers of `width` bits one after another; `out` has room for 8 more bytes."""
    cdef uint64_t word = 0, number
    cdef int filled = 0
    cdef int64_t i
    for i in range(count):
        number = numbers[i]
        if number > low_bits(width):
            return BAD_VALUE
        word |= number << filled
        if filled + width >= 64:
            fm_store64(out, word)
            out += 8
            word = number >> (64 - filled) if filled else 0
            filled += width - 64
        else:
            filled += width
    fm_store64(out, word)
    return FINE


def encode_runs(const uint64_t[::1] values not None, int width):
    """Encode values of `width` bits (1 to 64) as runs."""
    cdef Packed packed
    cdef uint8_t* memory
    cdef uint8_t* runs = NULL
    cdef int64_t size = 0
    cdef int fault
    packed.count = values.shape[0]
    packed.width = width
    packed.start = 0
    if not 1 <= width <= 64:
        raise ValueError(f"invalid bit width {width}: expected 1 to 64")
    if packed.count == 0:
        return b""
    if packed.count > MAX_COUNT:
        fail(TOO_MANY_ELEMENTS)
    packed.size = (packed.count * width + 7) // 8
    memory = <uint8_t*>malloc(packed.size + 16 + max_run_bytes(packed.count, width))
    if memory == NULL:
        raise MemoryError
    try:
        with nogil:
            packed.data = memory
            fault = pack(&values[0], packed.count, width, memory)
            runs = memory + packed.size + 16
            if not fault:
                size = put_runs(runs, &packed) - runs
        if fault:
            raise ValueError(f"a value has more than {width} bits")
        return PyBytes_FromStringAndSize(<char*>runs, size)
    finally:
        free(memory)


def check(data, int width, int64_t count):
    """Raise `ValueError` unless `data` contains `count` values of `width` bits (1 to 64) as runs."""
    cdef Held held = Held(data)
    cdef int64_t total
    cdef int fault
    if not 1 <= width <= 64:
        raise ValueError(f"invalid bit width {width}: expected 1 to 64")
    if count < 0:
        raise ValueError(f"{count} values")
    with nogil:
        fault = check_runs(held.reader, width, count, &total)
    if fault:
        fail(fault)


def decode_runs(data, int width, int64_t count):
    """Decode `count` values of `width` bits (1 to 64) from runs."""
    cdef Held held = Held(data)
    check(data, width, count)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef uint64_t* numbers = <uint64_t*>PyBytes_AsString(out)
    cdef int fault
    with nogil:
        fault = fill_numbers(held.reader, width, count, numbers)
    if fault:
        fail(fault)
    return memoryview(out).cast("Q")


cdef class Held:
    """The bytes of an object, which is kept alive."""

    cdef Py_buffer _view
    cdef bint _held
    cdef Reader reader

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self._view, PyBUF_SIMPLE)
        self._held = True
        self.reader.at = <const uint8_t*>self._view.buf
        self.reader.end = self.reader.at + self._view.len

    def __dealloc__(self):
        if self._held:
            PyBuffer_Release(&self._view)


# ---- Arrow arrays, written


cdef inline const uint8_t* validity_of(const ArrowArray* array) noexcept nogil:
    """Return the validity bitmap, or NULL if there are no nulls."""
    if array.null_count == 0:
        return NULL
    return <const uint8_t*>array.buffers[0]


cdef inline uint64_t valid_bits(const ArrowArray* array, int64_t row, int count) noexcept nogil:
    """Return which of `count` (at most 64) rows from `row` on are not null."""
    cdef const uint8_t* validity = validity_of(array)
    if validity == NULL:
        return low_bits(count)
    return fm_bits(validity, (array.offset + array.length + 7) // 8, array.offset + row, count)


cdef int64_t count_valid(const ArrowArray* array) noexcept nogil:
    if validity_of(array) == NULL:
        return array.length
    return count_ones(validity_of(array), (array.offset + array.length + 7) // 8, array.offset,
                      array.length)


cdef uint8_t* put_validity(uint8_t* to, const ArrowArray* array) noexcept nogil:
    cdef Packed bits
    if array.length == 0:
        return to
    if validity_of(array) == NULL:
        return put_repeated(to, 1, 1, array.length)
    bits.data = validity_of(array)
    bits.size = (array.offset + array.length + 7) // 8
    bits.start = array.offset
    bits.count = array.length
    bits.width = 1
    return put_runs(to, &bits)


cdef int take_lengths(const ArrowArray* array, bint wide, int64_t total, uint8_t* out,
                      int64_t* index) noexcept nogil:
    """Convert lengths of 32 or 64 bits to 16 bits, 0 for a null; sum them in `total`."""
    cdef int64_t start = array.offset * (8 if wide else 4)
    cdef const uint8_t* lengths = <const uint8_t*>array.buffers[1] + start
    cdef int64_t row = 0, length, sum = 0, i
    cdef uint64_t valid
    cdef int step
    while row < array.length:
        step = <int>min(<int64_t>64, array.length - row)
        valid = valid_bits(array, row, step)
        for i in range(row, row + step):
            length = 0
            if valid & 1:
                length = (<int64_t>fm_load64(lengths + 8 * i) if wide
                          else <int32_t>fm_load32(lengths + 4 * i))
            if length < 0:
                return BAD_LISTS
            if length > MAX_LENGTH:
                index[0] = i
                return TOO_LONG
            fm_store16(out + 2 * i, <uint16_t>length)
            sum += length
            valid >>= 1
        row += step
    return FINE if sum == total else BAD_LISTS


cdef inline void copy_value(uint8_t* to, const uint8_t* source, int width) noexcept nogil:
    if width == 1:
        to[0] = source[0]
    elif width == 2:
        memcpy(to, source, 2)
    elif width == 4:
        memcpy(to, source, 4)
    elif width == 8:
        memcpy(to, source, 8)
    else:
        memcpy(to, source, 16)


cdef inline bint narrow(uint8_t* to, int width, const uint8_t* source, int wide) noexcept nogil:
    """Write the low `width` bytes of a number of `wide` bytes; return False if it needs more."""
    cdef int64_t low = <int64_t>fm_load64(source)
    cdef uint64_t sign
    cdef int at = 8
    if width == 4:
        fm_store32(to, <uint32_t>low)
        if low != <int32_t>low:
            return False
    elif width == 8:
        fm_store64(to, <uint64_t>low)
    else:
        memcpy(to, source, 16)
        low = <int64_t>fm_load64(source + 8)
        at = 16
    sign = <uint64_t>(low >> 63)
    while at < wide:
        if fm_load64(source + at) != sign:
            return False
        at += 8
    return True


cdef inline void widen(uint8_t* to, int wide, const uint8_t* source, int width) noexcept nogil:
    """Sign-extend a number of `width` bytes to `wide` bytes."""
    cdef int64_t low
    cdef int at = 8
    if width == 4:
        low = <int32_t>fm_load32(source)
        fm_store64(to, <uint64_t>low)
    elif width == 8:
        low = <int64_t>fm_load64(source)
        fm_store64(to, <uint64_t>low)
    else:
        memcpy(to, source, 16)
        low = <int64_t>fm_load64(source + 8)
        at = 16
    while at < wide:
        fm_store64(to + at, <uint64_t>(low >> 63))
        at += 8


cdef int put_fixed(uint8_t* to, int width, const ArrowArray* array, int wide) noexcept nogil:
    """Write the non-null values of `wide` bytes with `width` bytes each."""
    cdef const uint8_t* values = <const uint8_t*>array.buffers[1] + array.offset * wide
    cdef int64_t row = 0, i
    cdef uint64_t valid
    cdef int step
    while row < array.length:
        if width == wide and validity_of(array) == NULL:
            memcpy(to, values, array.length * width)
            return FINE
        step = <int>min(<int64_t>64, array.length - row)
        valid = valid_bits(array, row, step)
        if width == wide and valid == low_bits(step):
            memcpy(to, values + row * width, step * width)
            to += step * width
            valid = 0
        while valid:
            i = row + fm_ctz64(valid)
            valid &= valid - 1
            if width == wide:
                copy_value(to, values + i * width, width)
            elif not narrow(to, width, values + i * wide, wide):
                return BAD_DECIMAL
            to += width
        row += step
    return FINE


cdef void put_booleans(uint8_t* to, const ArrowArray* array) noexcept nogil:
    cdef const uint8_t* values = <const uint8_t*>array.buffers[1]
    cdef int64_t size = (array.offset + array.length + 7) // 8, row = 0, done = 0
    cdef uint64_t valid, bits
    cdef int step, i
    if array.length == 0:
        return
    if validity_of(array) == NULL:
        put_bits(to, values, size, array.offset, array.length)
        return
    while row < array.length:
        step = <int>min(<int64_t>64, array.length - row)
        valid = valid_bits(array, row, step)
        bits = fm_bits(values, size, array.offset + row, step)
        while valid:
            i = fm_ctz64(valid)
            valid &= valid - 1
            if done & 7 == 0:
                to[done >> 3] = 0
            to[done >> 3] |= <uint8_t>((bits >> i & 1) << (done & 7))
            done += 1
        row += step


cdef inline int byte_length(uint32_t value) noexcept nogil:
    return 1 + (value > 0xFF) + (value > 0xFFFF) + (value > 0xFFFFFF)


# An array of strings: where each non-null string starts, and the sizes of all parts.
cdef struct Strings:
    uint32_t* starts
    int64_t groups
    int64_t text_size
    int64_t starts_size


cdef int measure_strings(const ArrowArray* array, int64_t count, Strings* strings) noexcept nogil:
    cdef const int32_t* offsets = <const int32_t*>array.buffers[1] + array.offset
    cdef int64_t row = 0, i, k = 0, at = 12
    cdef uint64_t valid
    cdef int step
    strings.groups = (count + 3) // 4
    strings.text_size = strings.starts_size = 0
    strings.starts = <uint32_t*>malloc((4 * strings.groups + 1) * sizeof(uint32_t))
    if strings.starts == NULL:
        return NO_MEMORY
    while row < array.length and k < count:
        step = <int>min(<int64_t>64, array.length - row)
        valid = valid_bits(array, row, step)
        while valid:
            i = row + fm_ctz64(valid)
            valid &= valid - 1
            strings.starts[k] = <uint32_t>at
            strings.starts_size += byte_length(<uint32_t>at)
            at += offsets[i + 1] - offsets[i]
            k += 1
        row += step
    while k < 4 * strings.groups:
        strings.starts[k] = 0
        strings.starts_size += 1
        k += 1
    strings.starts_size += strings.groups  # their tags
    strings.text_size = at - 12
    return FINE


cdef int put_strings(uint8_t* to, const ArrowArray* array, int64_t count, const Strings* strings,
                     bint utf8) noexcept nogil:
    """Write the bytes of the non-null strings, then their starts."""
    cdef const int32_t* offsets = <const int32_t*>array.buffers[1] + array.offset
    cdef const uint8_t* text = <const uint8_t*>array.buffers[2]
    cdef const uint8_t* begin = to
    cdef int64_t row = 0, i, size, group, k
    cdef uint64_t valid
    cdef uint32_t start
    cdef int step, length
    cdef uint8_t* tag
    if count == array.length and strings.text_size:
        memcpy(to, text + offsets[0], strings.text_size)
        to += strings.text_size
    elif strings.text_size:
        while row < array.length:
            step = <int>min(<int64_t>64, array.length - row)
            valid = valid_bits(array, row, step)
            while valid:
                i = row + fm_ctz64(valid)
                valid &= valid - 1
                size = offsets[i + 1] - offsets[i]
                fm_copy(to, text + offsets[i], size)
                to += size
            row += step
    if utf8 and not strings_are_utf8(begin, strings.text_size, strings.starts, 12, count):
        return BAD_UTF8
    for group in range(strings.groups):
        tag = to
        tag[0] = 0
        to += 1
        for k in range(4):
            start = strings.starts[4 * group + k]
            length = byte_length(start)
            tag[0] = <uint8_t>(tag[0] << 2 | (length - 1))
            to = put_low_bytes(to, start, length)
    return FINE


cdef bint strings_are_utf8(const uint8_t* text, int64_t size, const uint32_t* starts,
                           uint32_t base, int64_t count) noexcept nogil:
    """Return whether each string is UTF-8; `starts` are relative to `base`."""
    cdef int64_t i, at
    if fm_is_ascii(text, size):
        return True
    if not is_utf8(text, size):
        return False
    # All bytes together are valid; a string must not begin inside a character.
    for i in range(count):
        at = starts[i] - base
        if at < size and text[at] & 0xC0 == 0x80:
            return False
    return True


def encode(lengths, elements, *, int bits, int arrow_bits, bint wide_lengths, bint utf8,
           uint32_t ordinal, bint checksum):
    """Encode a block of lists with these `lengths`, null for a null list, and `elements`.

    An element has `bits` bits in the block and `arrow_bits` in Arrow, a boolean 1, a string or
    binary 0. `lengths` are of 32 bits, or of 64.
    """
    cdef ArrowArray rows, values
    rows.release = values.release = NULL
    if not (bits in (0, 1, 8, 16, 32, 64, 128)
            and (bits == arrow_bits or 32 <= bits < arrow_bits <= 256)):
        raise ValueError(f"{bits} bits of {arrow_bits}")
    try:
        lengths._export_to_c(<uintptr_t>&rows)
        elements._export_to_c(<uintptr_t>&values)
        return encode_arrays(&rows, &values, bits, arrow_bits, wide_lengths, utf8, ordinal,
                             checksum)
    finally:
        if rows.release != NULL:
            rows.release(&rows)
        if values.release != NULL:
            values.release(&values)


cdef bytes encode_arrays(const ArrowArray* rows, const ArrowArray* values, int bits,
                         int arrow_bits, bint wide_lengths, bint utf8, uint32_t ordinal,
                         bint checksum):
    cdef int64_t flat_room = max_run_bytes(values.length, 1) + 8
    cdef int64_t lengths_room = max_run_bytes(rows.length, 16) + 8
    cdef int64_t rows_room = max_run_bytes(rows.length, 1) + 8
    cdef int64_t sizes[3]
    cdef int64_t count, data_size, size, index = -1
    cdef int fault
    cdef Packed packed
    cdef Strings strings
    cdef uint8_t* memory
    cdef uint8_t* parts[3]
    cdef uint8_t* to
    cdef uint8_t* begin
    cdef bytes block
    strings.starts = NULL
    if rows.length > MAX_COUNT or values.length > MAX_COUNT:
        fail(TOO_MANY_ELEMENTS)
    memory = <uint8_t*>malloc(flat_room + lengths_room + rows_room + 2 * rows.length + 8)
    if memory == NULL:
        raise MemoryError
    try:
        with nogil:
            parts[0] = memory
            parts[1] = parts[0] + flat_room
            parts[2] = parts[1] + lengths_room
            packed.data = parts[2] + rows_room
            packed.size = 2 * rows.length
            packed.start = 0
            packed.count = rows.length
            packed.width = 16
            fault = take_lengths(rows, wide_lengths, values.length, parts[2] + rows_room, &index)
            if not fault:
                sizes[0] = put_validity(parts[0], values) - parts[0]
                sizes[1] = put_runs(parts[1], &packed) - parts[1]
                sizes[2] = put_validity(parts[2], rows) - parts[2]
                count = count_valid(values)
                if bits:
                    data_size = 8 + (count * bits + 7) // 8
                else:
                    fault = measure_strings(values, count, &strings)
                    data_size = 12 + strings.text_size + strings.starts_size
        if fault:
            fail(fault, index)
        size = varint_size(values.length) + varint_size(rows.length) + data_size
        for index in range(3):
            size += varint_size(sizes[index]) + sizes[index]
        block = PyBytes_FromStringAndSize(NULL, size + 4 * checksum)
        begin = to = <uint8_t*>PyBytes_AsString(block)
        with nogil:
            to = put_varint(put_varint(to, values.length), rows.length)
            for index in range(3):
                to = put_varint(to, sizes[index])
                memcpy(to, parts[index], sizes[index])
                to += sizes[index]
            if bits:
                fm_store32(to, <uint32_t>count)
                fm_store32(to + 4, ordinal)
                if bits == 1:
                    put_booleans(to + 8, values)
                else:
                    fault = put_fixed(to + 8, bits // 8, values, arrow_bits // 8)
            else:
                fm_store32(to, ordinal)
                fm_store32(to + 4, <uint32_t>count)
                fm_store32(to + 8, <uint32_t>(12 + strings.text_size))
                fault = put_strings(to + 12, values, count, &strings, utf8)
            if checksum:
                fm_store32(begin + size, fm_crc32c(0, begin, size))
        if fault:
            fail(fault)
        return block
    finally:
        free(strings.starts)
        free(memory)


# ---- Arrow arrays, read


cdef class Block:
    """A block whose counts and runs have been checked; it fills the buffers of Arrow arrays.

    An element has `bits` bits: a boolean 1, a string or binary 0. `fill_strings` also checks the
    strings. After `gather`, the counts and buffers are those of some arrays only.
    """

    cdef Held _held
    cdef Reader _flat, _lengths, _rows
    cdef const uint8_t* _values          # of strings: their text
    cdef Reader _starts                  # of strings: where each of them starts, encoded
    cdef readonly int bits
    cdef int64_t _all_arrays, _all_elements, _all_values, _all_text
    # Edges of the wanted arrays, followed by those of their elements, values and text.
    cdef int64_t* _edges
    cdef int64_t _num_edges              # of each of them
    cdef int64_t[8] _own_edges           # if all arrays are wanted
    cdef uint8_t* _gathered              # the wanted values
    cdef uint32_t* _gathered_starts
    cdef readonly int64_t num_bytes
    cdef readonly int64_t num_arrays
    cdef readonly int64_t num_valid_arrays
    cdef readonly int64_t num_elements
    cdef readonly int64_t num_values     # elements that are not null
    cdef readonly int64_t text_size      # bytes of all strings
    cdef readonly int64_t ordinal

    def __cinit__(self, data, *, int bits, bint checksum):
        cdef int fault
        if bits not in (0, 1, 8, 16, 32, 64, 128):
            raise ValueError(f"elements of {bits} bits")
        self._held = Held(data)
        self.bits = bits
        self._edges = self._own_edges
        self._num_edges = 2
        with nogil:
            fault = self._open(self._held.reader, checksum)
        if fault:
            fail(fault)

    def __dealloc__(self):
        if self._edges != self._own_edges:
            free(self._edges)
        free(self._gathered)
        free(self._gathered_starts)

    cdef int _open(self, Reader reader, bint checksum) noexcept nogil:
        cdef int64_t total
        cdef int fault
        self.num_bytes = left(&reader)
        if checksum:
            if left(&reader) < 4:
                return CHECKSUM
            reader.end -= 4
            if fm_crc32c(0, reader.at, left(&reader)) != fm_load32(reader.end):
                return CHECKSUM
        self.num_elements = varint(&reader)
        if self.num_elements < 0:
            return BAD_COUNT
        self.num_arrays = varint(&reader)
        if self.num_arrays < 0 or self.num_elements > MAX_LENGTH * self.num_arrays:
            return BAD_COUNT
        if not (take_section(&reader, &self._flat) and take_section(&reader, &self._lengths)
                and take_section(&reader, &self._rows)):
            return BAD_SECTION
        fault = check_runs(self._lengths, 16, self.num_arrays, &total)
        if fault:
            return fault
        if total != self.num_elements:
            return BAD_SUM
        fault = check_runs(self._rows, 1, self.num_arrays, &self.num_valid_arrays)
        if not fault:
            fault = check_nulls(self._lengths, self._rows, self.num_arrays)
        if fault:
            return fault
        fault = check_runs(self._flat, 1, self.num_elements, &self.num_values)
        if fault:
            return fault
        fault = self._open_data(reader.at, left(&reader))
        self._own_edges[1] = self._all_arrays = self.num_arrays
        self._own_edges[3] = self._all_elements = self.num_elements
        self._own_edges[5] = self._all_values = self.num_values
        self._own_edges[7] = self._all_text = self.text_size
        return fault

    cdef int _open_data(self, const uint8_t* data, int64_t size) noexcept nogil:
        cdef int64_t start = 8 if self.bits else 12, count, end
        if size < start:
            return BAD_HEADER
        count = fm_load32(data + (0 if self.bits else 4))
        self.ordinal = fm_load32(data + (4 if self.bits else 0))
        if count != self.num_values:
            return BAD_VALUES
        self._values = data + start
        if self.bits:
            return FINE if size == start + (count * self.bits + 7) // 8 else BAD_SIZE
        end = fm_load32(data + 8)
        # Four starts need at least five bytes.
        if end < start or end > size or (count + 3) // 4 * 5 > size - end:
            return BAD_SIZE
        self.text_size = end - start
        self._starts.at = data + end
        self._starts.end = data + size
        if count == 0 and size != start:
            return BAD_SIZE
        return FINE

    def gather(self, const int64_t[::1] ranges not None):
        """Keep only some arrays; `ranges` are start and stop of each range, ascending.

        Of the other arrays, only the starts of strings are checked.
        """
        cdef int64_t count = ranges.shape[0] // 2 * 2
        cdef int64_t* edges
        cdef int fault
        if self._edges != self._own_edges:
            raise ValueError("arrays were gathered before")
        edges = <int64_t*>malloc((4 * count + 1) * sizeof(int64_t))
        if edges == NULL:
            raise MemoryError
        if count:
            memcpy(edges, &ranges[0], count * sizeof(int64_t))
        self._edges = edges
        self._num_edges = count
        with nogil:
            fault = self._gather()
        if fault:
            self._num_edges = 0  # nothing can be filled in afterwards
            fail(fault)

    cdef int _gather(self) noexcept nogil:
        cdef int64_t* rows = self._edges
        cdef int64_t* elements = rows + self._num_edges
        cdef int64_t* values = elements + self._num_edges
        cdef int64_t i, row = 0
        cdef int fault
        for i in range(self._num_edges):
            if rows[i] < row + (i & 1) or rows[i] > self._all_arrays:
                return BAD_RANGE
            row = rows[i]
        fault = sums_before(self._rows, 1, self._all_arrays, rows, self._num_edges, values)
        if not fault:
            self.num_valid_arrays = covered(values, self._num_edges)
            fault = sums_before(self._lengths, 16, self._all_arrays, rows, self._num_edges,
                                elements)
        if not fault:
            fault = sums_before(self._flat, 1, self._all_elements, elements, self._num_edges,
                                values)
        if fault:
            return fault
        if self._num_edges and values[self._num_edges - 1] > self._all_values:
            return BAD_VALUES
        self.num_arrays = covered(rows, self._num_edges)
        self.num_elements = covered(elements, self._num_edges)
        self.num_values = covered(values, self._num_edges)
        return self._gather_values(values)

    cdef int _gather_values(self, const int64_t* edges) noexcept nogil:
        cdef int64_t i, start, count, done = 0, size = self.num_values * self.bits
        cdef int fault, width = max(1, self.bits // 8)
        if self.bits == 0:
            self._gathered_starts = <uint32_t*>malloc((self.num_values + 1) * sizeof(uint32_t))
            if self._gathered_starts == NULL:
                return NO_MEMORY
            fault = self._read_starts(self._gathered_starts)
            if fault:
                return fault
            edges += self._num_edges
            self.text_size = covered(edges, self._num_edges)
            size = 8 * self.text_size
        self._gathered = <uint8_t*>calloc((size + 7) // 8 + 1, 1)
        if self._gathered == NULL:
            return NO_MEMORY
        for i in range(0, self._num_edges, 2):
            start = edges[i]
            count = edges[i + 1] - start
            if self.bits == 1:
                add_bits(self._gathered, done, self._values, start, count)
            else:
                memcpy(self._gathered + done * width, self._values + start * width, count * width)
            done += count
        self._values = self._gathered
        return FINE

    def fill_lists(self, uint8_t[::1] offsets not None, uint8_t[::1] validity):
        """Fill in the 32-bit offsets, and the validity of the arrays if there are nulls."""
        cdef bint nulls = self.num_valid_arrays < self.num_arrays
        cdef int fault
        if self.num_elements > MAX_OFFSET:
            raise OverflowError(f"{self.num_elements} elements")
        check_size(offsets, 4 * (self.num_arrays + 1))
        if nulls:
            check_size(validity, (self.num_arrays + 7) // 8)
        with nogil:
            fault = fill_offsets(self._lengths, self._all_arrays, self._edges, self._num_edges,
                                 self.num_elements, <int32_t*>&offsets[0])
            if nulls and not fault:
                fault = fill_bits(self._rows, self._all_arrays, self._edges, self._num_edges,
                                  &validity[0])
        if fault:
            fail(fault)

    def fill_validity(self, uint8_t[::1] out not None):
        """Fill in which elements are not null."""
        cdef int fault = FINE
        check_size(out, (self.num_elements + 7) // 8)
        if self.num_elements:
            with nogil:
                fault = fill_bits(self._flat, self._all_elements, self._edges + self._num_edges,
                                  self._num_edges, &out[0])
                if not fault and self.num_values != count_ones(
                        &out[0], (self.num_elements + 7) // 8, 0, self.num_elements):
                    fault = BAD_VALUES
        if fault:
            fail(fault)

    def fill_values(self, uint8_t[::1] out not None, uint8_t[::1] validity, int arrow_bits):
        """Fill in the elements with `arrow_bits` each; nulls become zero."""
        cdef bint nulls = self.num_values < self.num_elements
        cdef const uint8_t* valid = NULL
        if not (self.bits == arrow_bits or 32 <= self.bits < arrow_bits <= 256):
            raise ValueError(f"{self.bits} bits as {arrow_bits}")
        check_size(out, (self.num_elements * arrow_bits + 7) // 8)
        if self.num_elements == 0:
            return
        if nulls:
            check_size(validity, (self.num_elements + 7) // 8)
            valid = &validity[0]
        with nogil:
            if self.bits == 1:
                spread_booleans(&out[0], self.num_elements, valid, self._values)
            else:
                spread_fixed(&out[0], arrow_bits // 8, self.num_elements, valid, self._values,
                             self.bits // 8)

    def fill_strings(self, uint8_t[::1] offsets not None, uint8_t[::1] text not None,
                     uint8_t[::1] validity, bint utf8):
        """Fill in the 32-bit offsets and the bytes of the strings; nulls are empty."""
        cdef bint nulls = self.num_values < self.num_elements
        cdef int fault
        if self.bits or self.text_size > MAX_OFFSET:
            raise OverflowError(f"{self.text_size} bytes of text")
        check_size(offsets, 4 * (self.num_elements + 1))
        check_size(text, self.text_size)
        if nulls:
            check_size(validity, (self.num_elements + 7) // 8)
        with nogil:
            fault = self._fill_starts(<uint32_t*>&offsets[0])
            if not fault and self.text_size:
                memcpy(&text[0], self._values, self.text_size)
                if utf8 and not strings_are_utf8(&text[0], self.text_size, <uint32_t*>&offsets[0],
                                                 0, self.num_values):
                    fault = BAD_UTF8
            if not fault and nulls:
                spread_offsets(<int32_t*>&offsets[0], self.num_elements, self.num_values,
                               &validity[0])
        if fault:
            fail(fault)

    def check_range(self, int digits, int64_t limit):
        """Check that decimals have at most `digits` digits, or that times are in 0..`limit` - 1.

        One of the two is 0.
        """
        cdef uint8_t[16] value
        cdef int64_t i
        cdef int fault = FINE, width = self.bits // 8
        if width < 4 or not 0 <= digits <= MAX_DIGITS or limit < 0:
            raise ValueError(f"{self.bits} bits with {digits} digits up to {limit}")
        with nogil:
            for i in range(self.num_values):
                if width == 16:
                    memcpy(value, self._values + 16 * i, 16)
                else:
                    widen(value, 16, self._values + width * i, width)
                if digits and not fm_has_digits(fm_load64(value), fm_load64(value + 8), digits):
                    fault = BAD_DECIMAL
                elif limit and fm_load64(value) >= <uint64_t>limit:
                    fault = BAD_TIME
        if fault:
            fail(fault)

    def check(self, bint utf8):
        """Check what `fill_strings` checks, in memory for the stored bytes only."""
        cdef uint32_t* starts = NULL
        cdef int fault = FINE
        with nogil:
            if self.bits == 0:
                starts = <uint32_t*>malloc((self.num_values + 1) * sizeof(uint32_t))
                fault = NO_MEMORY if starts == NULL else self._fill_starts(starts)
                if not fault and utf8 and not strings_are_utf8(
                        self._values, self.text_size, starts, 0, self.num_values):
                    fault = BAD_UTF8
                free(starts)
        if fault:
            fail(fault)

    cdef int _fill_starts(self, uint32_t* out) noexcept nogil:
        """Write the starts of the non-null strings, beginning with 0, and the end of the last."""
        if self._gathered_starts == NULL:
            return self._read_starts(out)
        memcpy(out, self._gathered_starts, (self.num_values + 1) * sizeof(uint32_t))
        return FINE

    cdef int _read_starts(self, uint32_t* out) noexcept nogil:
        """Decode the starts, and find the edges of the text."""
        cdef const int64_t* values = self._edges + 2 * self._num_edges
        cdef int64_t* texts = self._edges + 3 * self._num_edges
        cdef int64_t k, edge = 0, stop = values[0] if self._num_edges else -1
        cdef int64_t count = self._all_values, size = self._all_text
        cdef uint32_t[4] group
        cdef uint32_t start, before = 12, passed = 12
        cdef Reader reader = self._starts
        cdef int i
        for k in range(0, count, 4):
            if not take_group(&reader, group):
                return BAD_OFFSETS
            for i in range(<int>min(<int64_t>4, count - k)):
                start = group[i]
                if start < before or start - 12 > size or (k + i == 0 and start != 12):
                    return BAD_OFFSETS
                before = start
                while stop == k + i:
                    texts[edge] = start - 12
                    if edge & 1 == 0:
                        passed += <uint32_t>(texts[edge] - (texts[edge - 1] if edge else 0))
                    edge += 1
                    stop = values[edge] if edge < self._num_edges else -1
                out[0] = start - passed
                out += edge & 1
        while edge < self._num_edges:
            texts[edge] = size
            edge += 1
        out[0] = <uint32_t>covered(texts, self._num_edges)
        return FINE if left(&reader) == 0 else BAD_OFFSETS


cdef int check_size(const uint8_t[::1] buffer, int64_t size) except -1:
    if buffer is None or buffer.shape[0] < size:
        raise ValueError(f"the buffer must have {size} bytes")
    return 0


cdef inline bint take_group(Reader* reader, uint32_t* group) noexcept nogil:
    """Read four numbers, and a byte before them with the length of each."""
    cdef int i, k, length, tag
    cdef bint is_near_end
    if left(reader) == 0:
        return False
    tag = reader.at[0]
    reader.at += 1
    is_near_end = left(reader) < 16
    for i in range(4):
        length = (tag >> (6 - 2 * i) & 3) + 1
        if is_near_end:
            if length > left(reader):
                return False
            group[i] = 0
            for k in range(length):
                group[i] |= <uint32_t>reader.at[k] << (8 * k)
        else:
            group[i] = fm_load32(reader.at) & <uint32_t>0xFFFFFFFF >> (32 - 8 * length)
        reader.at += length
    return True


cdef bint take_section(Reader* reader, Reader* section) noexcept nogil:
    cdef int64_t size = varint(reader)
    if size < 0 or size > left(reader):
        return False
    section.at = reader.at
    reader.at += size
    section.end = reader.at
    return True


cdef int check_nulls(Reader lengths, Reader rows, int64_t count) noexcept nogil:
    """Check that no null array has elements, run by run."""
    cdef Walk length, row
    cdef int64_t first, done, i
    cdef uint64_t nulls
    cdef int fault, step
    begin(&length, lengths, 16, count)
    begin(&row, rows, 1, count)
    while length.at < count:
        if row.at == length.at:
            fault = take_part(&row, count)
            if fault:
                return fault
        first = row.first + row.count - (row.at - length.at)
        fault = take_part(&length, row.at)
        if fault:
            return fault
        if not row.run.literal and row.run.value or not length.run.literal and not length.run.value:
            continue
        done = 0
        while done < length.count:
            step = <int>min(<int64_t>64, length.count - done)
            nulls = low_bits(step)
            if row.run.literal:
                nulls &= ~fm_bits(row.run.data, row.run.size, first + done, step)
            while nulls:
                i = length.first + done + fm_ctz64(nulls)
                nulls &= nulls - 1
                if not length.run.literal or fm_load16(length.run.data + 2 * i):
                    return NULL_WITH_ELEMENTS
            done += step
    return FINE


cdef void spread_fixed(uint8_t* out, int wide, int64_t count, const uint8_t* validity,
                       const uint8_t* values, int width) noexcept nogil:
    """Put the values where `validity` has bits, or everywhere; zeros elsewhere."""
    cdef int64_t row = 0, size = (count + 7) // 8, i
    cdef uint64_t valid
    cdef int step
    if validity == NULL and width == wide:
        memcpy(out, values, count * width)
        return
    if validity != NULL:
        memset(out, 0, count * wide)
    while row < count:
        step = <int>min(<int64_t>64, count - row)
        valid = low_bits(step) if validity == NULL else fm_bits(validity, size, row, step)
        if width == wide and valid == low_bits(step):
            memcpy(out + row * width, values, step * width)
            values += step * width
            valid = 0
        while valid:
            i = row + fm_ctz64(valid)
            valid &= valid - 1
            if width == wide:
                copy_value(out + i * width, values, width)
            else:
                widen(out + i * wide, wide, values, width)
            values += width
        row += step


cdef void spread_booleans(uint8_t* out, int64_t count, const uint8_t* validity,
                          const uint8_t* values) noexcept nogil:
    cdef int64_t row = 0, size = (count + 7) // 8, i, k = 0
    cdef uint64_t valid
    cdef int step
    memset(out, 0, size)
    if validity == NULL:
        add_bits(out, 0, values, 0, count)
        return
    while row < count:
        step = <int>min(<int64_t>64, count - row)
        valid = fm_bits(validity, size, row, step)
        while valid:
            i = row + fm_ctz64(valid)
            valid &= valid - 1
            out[i >> 3] |= <uint8_t>((values[k >> 3] >> (k & 7) & 1) << (i & 7))
            k += 1
        row += step


cdef void spread_offsets(int32_t* offsets, int64_t count, int64_t k,
                         const uint8_t* validity) noexcept nogil:
    """Convert the offsets of the `k` non-null strings to those of all; nulls are empty."""
    cdef int64_t row = count, size = (count + 7) // 8, block
    cdef uint64_t valid
    offsets[row] = offsets[k]
    while row > k:
        block = (row - 1) & ~<int64_t>63
        valid = fm_bits(validity, size, block, <int>(row - block))
        while row > block:
            row -= 1
            k -= <int64_t>(valid >> (row & 63) & 1)
            offsets[row] = offsets[k]
