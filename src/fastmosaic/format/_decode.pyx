# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decode the bytes of a bucket to Arrow arrays, column by column, without the GIL.

The bytes are not trusted: every read is checked against the end of its part, and every count
against the remaining bytes, before memory is allocated. Errors are `ValueError` (the file is
damaged) or `OverflowError` (it contains more than Arrow's types can represent).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._wire cimport (
    ALL_NULL, ARRAY_BLOCK, BINARY, BOOL, CONST, DECIMAL64, DECIMAL128, DICT, INT8, INT16, INT32, INT64,
    NUM_KINDS, PLAIN, STRING, TIMESTAMP_NS, Reader, bit_width, fm_bits, fm_copy, fm_is_ascii,
    fm_load16, fm_load32, fm_load64, fm_popcount64, fm_store16, fm_store32, fm_store64, fm_swap16, fm_swap32, fm_swap64,
    is_utf8, left, skip_values, uint16_t, uint32_t, uint64_t, varint, width_of,
)

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory

import pyarrow as pa

_allocate = pa.allocate_buffer
_import_array = pa.Array._import_from_c
_import_batch = pa.RecordBatch._import_from_c

cdef extern from "Python.h":
    ctypedef struct PyObject
    int Py_IsInitialized() nogil
    void Py_XINCREF(PyObject* o)
    void Py_XDECREF(PyObject* o)
    char* PyBytes_AsString(object o) except NULL


# Reasons why a page cannot be decoded. From TOO_LARGE on, the file is not damaged.
cdef enum Fault:
    FINE
    TRUNCATED
    BAD_VARINT
    BAD_ENTRIES
    BAD_INDEX
    BAD_ENCODING
    BAD_BLOCK
    BAD_UTF8
    BAD_DECIMAL
    BAD_NANOS
    NANOS_OVERFLOW
    TOO_LARGE
    NO_MEMORY

_FACTS = (
    "",
    "the data ends before its last value, or a length in it is broken",
    "a length is cut off or exceeds 32 bits",
    "a dictionary declares more entries than it has bytes or rows",
    "a dictionary index has no entry",
    "unknown encoding",
    "an array data block is not PLAIN or has a null bitmap",
    "a string is not UTF-8",
    "a decimal is longer than 16 bytes",
    "the nanoseconds of a timestamp are not in 0..999999",
    "a timestamp exceeds 64 bits of nanoseconds",
    "the column exceeds 2 GiB in one row group",
    "out of memory",
)

cdef int64_t MAX_OFFSET = 2147483647
cdef int64_t MAX_IDLE_ENTRIES = 65536  # in a dictionary with more entries than rows
cdef int64_t OVERSHOOT = 16  # bytes that short copies may write beyond the end
# Columns that need no more than this in total share one allocation.
cdef int64_t MAX_SHARED_BYTES = 1 << 20
cdef int BLOCK = 1024  # indices per block, which fit in the first-level cache


cdef struct Page:
    int encoding
    int kind
    bint has_nulls
    int64_t rows
    int64_t non_null
    const uint8_t* meta       # the value of a CONST, the entries of a DICT
    int64_t meta_size
    int64_t entries
    const uint8_t* nulls      # bit 1 = null
    const uint8_t* data
    int64_t data_size
    int64_t size              # bytes of all parts before compression


cdef int check_encoding(Page* page) noexcept nogil:
    """Check that a column of this kind may have this encoding."""
    if page.kind == ARRAY_BLOCK and page.encoding != ALL_NULL:
        if page.encoding != PLAIN or page.has_nulls:
            return BAD_BLOCK
    return FINE


cdef int take_meta(Page* page, Reader* reader) noexcept nogil:
    cdef const uint8_t* start = reader.at
    cdef int fault
    page.meta = start
    if page.encoding == CONST:
        page.entries = 1
        fault = FINE if skip_values(reader, page.kind, 1) else TRUNCATED
    else:
        page.entries = varint(reader)
        if page.entries < 0:
            return BAD_VARINT
        if page.entries > left(reader):
            return BAD_ENTRIES
        page.meta = reader.at
        fault = FINE if skip_values(reader, page.kind, page.entries) else TRUNCATED
    page.meta_size = reader.at - page.meta
    page.size += reader.at - start
    return fault


cdef int take_nulls(Page* page, Reader* reader) noexcept nogil:
    cdef int64_t size = (page.rows + 7) // 8, row = 0, nulls = 0
    if not page.has_nulls or page.encoding == ALL_NULL:
        return FINE
    if size > left(reader):
        return TRUNCATED
    page.nulls = reader.at
    page.size += size
    reader.at += size
    while row < page.rows:
        nulls += fm_popcount64(fm_bits(page.nulls, size, row, <int>min(64, page.rows - row)))
        row += 64
    page.non_null = page.rows - nulls
    return FINE


cdef int take_data(Page* page, Reader* reader) noexcept nogil:
    cdef int64_t size
    cdef int fault = FINE
    page.data = reader.at
    if page.encoding == PLAIN and page.kind == ARRAY_BLOCK:
        fault = FINE if skip_values(reader, BINARY, 1) else TRUNCATED
    elif page.encoding == PLAIN:
        fault = FINE if skip_values(reader, page.kind, page.non_null) else TRUNCATED
    elif page.encoding == DICT:
        size = (page.non_null * bit_width(page.entries) + 7) // 8
        if size > left(reader):
            return TRUNCATED
        if page.entries == 0 and page.non_null:
            return BAD_INDEX
        # The table of entries may need 16 times their bytes, so unused entries are limited.
        if page.entries > max(page.non_null, MAX_IDLE_ENTRIES):
            return BAD_ENTRIES
        reader.at += size
    page.data_size = reader.at - page.data
    page.size += page.data_size
    return fault


cdef int split(Page* pages, int64_t count, int64_t stop, Reader* reader, int64_t* at) noexcept nogil:
    """Find the parts of the pages in a monolithic bucket; data only for pages before `stop`."""
    cdef int64_t i, flag_bytes = (2 * count + 7) // 8, null_bytes = (count + 7) // 8
    cdef const uint8_t* flags = reader.at
    cdef const uint8_t* nulls = reader.at + flag_bytes
    cdef int fault
    at[0] = 0
    if flag_bytes + null_bytes > left(reader):
        return TRUNCATED
    reader.at += flag_bytes + null_bytes
    for i in range(count):
        pages[i].encoding = (flags[i >> 2] >> (2 * (i & 3))) & 3
        pages[i].has_nulls = (nulls[i >> 3] >> (i & 7)) & 1
        if pages[i].encoding == ALL_NULL:
            pages[i].non_null = 0
        at[0] = i
        fault = check_encoding(&pages[i])
        if fault:
            return fault
    for i in range(count):
        if pages[i].encoding == CONST:
            at[0] = i
            fault = take_meta(&pages[i], reader)
            if fault:
                return fault
    for i in range(count):
        if pages[i].encoding == DICT:
            at[0] = i
            fault = take_meta(&pages[i], reader)
            if fault:
                return fault
    for i in range(count):
        at[0] = i
        fault = take_nulls(&pages[i], reader)
        if fault:
            return fault
    for i in range(stop):
        at[0] = i
        fault = take_data(&pages[i], reader)
        if fault:
            return fault
    return FINE


cdef int open_page(Page* page, Reader* reader) noexcept nogil:
    """Find the parts of the page of one column."""
    cdef int fault
    if left(reader) < 2:
        return TRUNCATED
    page.encoding = reader.at[0]
    page.has_nulls = reader.at[1] & 1
    reader.at += 2
    if page.encoding > DICT:
        return BAD_ENCODING
    fault = check_encoding(page)
    if not fault and page.encoding != PLAIN:
        fault = take_meta(page, reader)
    if not fault:
        fault = take_nulls(page, reader)
    if not fault:
        fault = take_data(page, reader)
    return fault


# ---- values, densely: one after another, without the nulls


cdef inline int arrow_width(int kind) noexcept nogil:
    """Return the bytes of one value in an Arrow buffer; a boolean is a byte until it is packed."""
    if kind <= INT8:
        return 1
    if kind == INT16:
        return 2
    if kind == INT32:
        return 4
    if kind == INT64 or kind == TIMESTAMP_NS:
        return 8
    return 16


cdef int decode_decimals(Reader* reader, int64_t count, uint8_t* out) noexcept nogil:
    cdef int64_t i, k, size
    cdef uint64_t low, high, byte
    for i in range(count):
        size = varint(reader)
        if size < 0:
            return BAD_VARINT
        if size > left(reader):
            return TRUNCATED
        if size > 16:
            return BAD_DECIMAL
        low = 0
        if size and reader.at[0] & 0x80:
            low = ~low
        high = low
        for k in range(size):
            byte = reader.at[k]
            high = high << 8 | low >> 56
            low = low << 8 | byte
        reader.at += size
        fm_store64(out + 16 * i, low)
        fm_store64(out + 16 * i + 8, high)
    return FINE


cdef int decode_fixed(Reader* reader, int kind, int64_t count, uint8_t* out) noexcept nogil:
    """Decode `count` values of a kind other than BINARY and STRING."""
    cdef int64_t i, millis, nanos, number
    cdef const uint8_t* at = reader.at
    if kind == DECIMAL128:
        return decode_decimals(reader, count, out)
    if count > left(reader) // width_of(kind):
        return TRUNCATED
    reader.at += count * width_of(kind)
    if kind == BOOL:
        for i in range(count):
            out[i] = at[i] != 0
    elif kind == INT8:
        memcpy(out, at, count)
    elif kind == INT16:
        for i in range(count):
            fm_store16(out + 2 * i, fm_swap16(fm_load16(at + 2 * i)))
    elif kind == INT32:
        for i in range(count):
            fm_store32(out + 4 * i, fm_swap32(fm_load32(at + 4 * i)))
    elif kind == INT64:
        for i in range(count):
            fm_store64(out + 8 * i, fm_swap64(fm_load64(at + 8 * i)))
    elif kind == DECIMAL64:
        for i in range(count):
            number = <int64_t>fm_swap64(fm_load64(at + 8 * i))
            fm_store64(out + 16 * i, <uint64_t>number)
            fm_store64(out + 16 * i + 8, <uint64_t>(number >> 63))
    else:
        for i in range(count):
            millis = <int64_t>fm_swap64(fm_load64(at + 12 * i))
            nanos = <int32_t>fm_swap32(fm_load32(at + 12 * i + 8))
            if nanos < 0 or nanos > 999999:
                return BAD_NANOS
            # The range of int64 nanoseconds begins and ends within these milliseconds.
            if millis > 9223372036854LL or millis < -9223372036855LL:
                return NANOS_OVERFLOW
            if millis == 9223372036854LL and nanos > 775807:
                return NANOS_OVERFLOW
            if millis == -9223372036855LL and nanos < 224192:
                return NANOS_OVERFLOW
            fm_store64(out + 8 * i, <uint64_t>millis * 1000000 + <uint64_t>nanos)
    return FINE


cdef void unpack(const uint8_t* packed, int64_t size, int width, int64_t start, int count,
                 uint32_t* out) noexcept nogil:
    """Unpack `count` indices of `width` bits, beginning with index `start`."""
    cdef int64_t bit = start * width
    cdef uint64_t mask = (<uint64_t>1 << width) - 1
    cdef int i, safe
    cdef const uint8_t* at
    if width == 8:
        at = packed + start
        for i in range(count):
            out[i] = at[i]
        return
    if width == 0:
        memset(out, 0, count * sizeof(uint32_t))
        return
    # An unaligned load of eight bytes contains any index; the last few are read byte by byte.
    safe = <int>max(0, min(<int64_t>count, ((size - 8) * 8 - bit) // width)) if size >= 8 else 0
    for i in range(safe):
        out[i] = <uint32_t>(fm_load64(packed + (bit >> 3)) >> (bit & 7) & mask)
        bit += width
    for i in range(safe, count):
        out[i] = <uint32_t>fm_bits(packed, size, bit, width)
        bit += width


cdef inline uint32_t largest(const uint32_t* indices, int count) noexcept nogil:
    cdef uint32_t result = 0
    cdef int i
    for i in range(count):
        if indices[i] > result:
            result = indices[i]
    return result


cdef void repeat(uint8_t* out, int64_t width, int64_t count) noexcept nogil:
    """Fill `out` with `count` copies of its first value."""
    cdef int64_t filled = width, total = count * width, step
    if width == 1:
        memset(out, out[0], count)
        return
    while filled < total:
        step = min(filled, total - filled)
        memcpy(out + filled, out, step)
        filled += step


cdef int lookup_fixed(Page* page, uint8_t* out) noexcept nogil:
    """Decode the values of a DICT page."""
    cdef int width = arrow_width(page.kind), bits = bit_width(page.entries), count, i, fault
    cdef uint32_t[1024] indices
    cdef int64_t done = 0
    cdef Reader reader
    cdef uint8_t* table = <uint8_t*>malloc(page.entries * width + 16)
    if table == NULL:
        return NO_MEMORY
    reader.at = page.meta
    reader.end = page.meta + page.meta_size
    fault = decode_fixed(&reader, page.kind, page.entries, table)
    while fault == FINE and done < page.non_null:
        count = <int>min(<int64_t>BLOCK, page.non_null - done)
        unpack(page.data, page.data_size, bits, done, count, indices)
        if largest(indices, count) >= page.entries:
            fault = BAD_INDEX
            break
        if width == 1:
            for i in range(count):
                out[i] = table[indices[i]]
        elif width == 2:
            for i in range(count):
                fm_store16(out + 2 * i, fm_load16(table + 2 * <int64_t>indices[i]))
        elif width == 4:
            for i in range(count):
                fm_store32(out + 4 * i, fm_load32(table + 4 * <int64_t>indices[i]))
        elif width == 8:
            for i in range(count):
                fm_store64(out + 8 * i, fm_load64(table + 8 * <int64_t>indices[i]))
        else:
            for i in range(count):
                memcpy(out + 16 * i, table + 16 * <int64_t>indices[i], 16)
        out += count * width
        done += count
    free(table)
    return fault


cdef int dense_fixed(Page* page, uint8_t* out) noexcept nogil:
    cdef Reader reader
    cdef int fault
    if page.encoding == DICT:
        return lookup_fixed(page, out)
    if page.encoding == CONST:
        reader.at = page.meta
        reader.end = page.meta + page.meta_size
        fault = FINE
        if page.non_null:
            fault = decode_fixed(&reader, page.kind, 1, out)
            repeat(out, arrow_width(page.kind), page.non_null)
        return fault
    reader.at = page.data
    reader.end = page.data + page.data_size
    return decode_fixed(&reader, page.kind, page.non_null, out)


# ---- strings: dense offsets and bytes


cdef inline void copy_short(uint8_t* to, const uint8_t* source, int64_t size,
                            bint roomy) noexcept nogil:
    """Copy `size` bytes, at once if both sides have room for 16 bytes."""
    if roomy and size <= 16:
        memcpy(to, source, 16)
    else:
        memcpy(to, source, size)


cdef int plain_strings(Page* page, int32_t* offsets, uint8_t* out) noexcept nogil:
    cdef Reader reader
    cdef int64_t i, size, filled = 0
    reader.at = page.data
    reader.end = page.data + page.data_size
    offsets[0] = 0
    for i in range(page.non_null):
        if reader.at < reader.end and reader.at[0] < 0x80:
            size = reader.at[0]
            reader.at += 1
        else:
            size = varint(&reader)
            if size < 0:
                return BAD_VARINT
        if size > left(&reader):
            return TRUNCATED
        copy_short(out + filled, reader.at, size, left(&reader) >= 16)
        reader.at += size
        filled += size
        offsets[i + 1] = <int32_t>filled
    if page.kind == STRING and not fm_is_ascii(out, filled):
        if not is_utf8(out, filled):
            return BAD_UTF8
        # All bytes together are valid; a string must not begin inside a character.
        for i in range(page.non_null):
            if offsets[i] < filled and out[offsets[i]] & 0xC0 == 0x80:
                return BAD_UTF8
    return FINE


cdef struct Entry:
    const uint8_t* text
    int64_t size
    uint8_t[16] short_text   # the text, if it is no longer than this


cdef int open_entries(Page* page, Entry* entries, bint* all_short) noexcept nogil:
    cdef Reader reader
    cdef int64_t i
    reader.at = page.meta
    reader.end = page.meta + page.meta_size
    all_short[0] = True
    for i in range(page.entries):
        entries[i].size = varint(&reader)
        if entries[i].size < 0 or entries[i].size > left(&reader):
            return TRUNCATED
        entries[i].text = reader.at
        reader.at += entries[i].size
        if page.kind == STRING and not is_utf8(entries[i].text, entries[i].size):
            return BAD_UTF8
        if entries[i].size <= 16:
            fm_copy(entries[i].short_text, entries[i].text, entries[i].size)
        else:
            all_short[0] = False
    return FINE


cdef int size_strings(Page* page, Entry* entries, int64_t* total) noexcept nogil:
    """Compute the bytes of all strings of a CONST or DICT page."""
    cdef uint32_t[1024] indices
    cdef int64_t done = 0
    cdef int i, count, bits = bit_width(page.entries)
    total[0] = 0
    if page.encoding == CONST:
        total[0] = entries[0].size * page.non_null
        return FINE
    while done < page.non_null:
        count = <int>min(<int64_t>BLOCK, page.non_null - done)
        unpack(page.data, page.data_size, bits, done, count, indices)
        if largest(indices, count) >= page.entries:
            return BAD_INDEX
        for i in range(count):
            total[0] += entries[indices[i]].size
        done += count
    return FINE


cdef void repeat_string(Page* page, Entry* entry, int32_t* offsets, uint8_t* out) noexcept nogil:
    cdef int64_t i
    for i in range(page.non_null + 1):
        offsets[i] = <int32_t>(i * entry.size)
    if page.non_null and entry.size:
        memcpy(out, entry.text, entry.size)
        repeat(out, entry.size, page.non_null)


cdef void lookup_strings(Page* page, Entry* entries, bint all_short, int32_t* offsets,
                         uint8_t* out) noexcept nogil:
    cdef uint32_t[1024] indices
    cdef int64_t done = 0, filled = 0
    cdef int i, count, bits = bit_width(page.entries)
    cdef Entry* entry
    offsets[0] = 0
    while done < page.non_null:
        count = <int>min(<int64_t>BLOCK, page.non_null - done)
        unpack(page.data, page.data_size, bits, done, count, indices)
        if all_short:
            for i in range(count):
                entry = &entries[indices[i]]
                memcpy(out + filled, entry.short_text, 16)  # may write beyond the end, where there is room
                filled += entry.size
                offsets[done + i + 1] = <int32_t>filled
        else:
            for i in range(count):
                entry = &entries[indices[i]]
                memcpy(out + filled, entry.text, entry.size)
                filled += entry.size
                offsets[done + i + 1] = <int32_t>filled
        done += count


# ---- from dense values to rows


cdef void spread(uint8_t* out, int width, Page* page) noexcept nogil:
    """Move the dense values in `out` to their rows, from the last one; nulls become zero."""
    cdef int64_t row = page.rows, k = page.non_null, bytes = (page.rows + 7) // 8, block
    cdef uint64_t nulls, bit
    cdef uint64_t* words = <uint64_t*>out
    cdef uint32_t* halves = <uint32_t*>out
    cdef uint16_t* quarters = <uint16_t*>out
    cdef uint64_t keep
    # Without branches inside a block of 64 rows, because nulls are hard to predict; `k > 0`
    # keeps reads inside the buffer when no values are left.
    while row > k:
        block = (row - 1) & ~63
        nulls = fm_bits(page.nulls, bytes, block, <int>(row - block))
        while row > block:
            row -= 1
            bit = ~(nulls >> (row & 63)) & 1
            keep = 0 - bit
            if width == 1:
                out[row] = out[k - (k > 0)] & <uint8_t>keep
            elif width == 2:
                quarters[row] = quarters[k - (k > 0)] & <uint16_t>keep
            elif width == 4:
                halves[row] = halves[k - (k > 0)] & <uint32_t>keep
            elif width == 8:
                words[row] = words[k - (k > 0)] & keep
            else:
                words[2 * row + 1] = words[2 * (k - (k > 0)) + 1] & keep
                words[2 * row] = words[2 * (k - (k > 0))] & keep
            k -= <int64_t>bit


cdef void spread_offsets(int32_t* offsets, Page* page) noexcept nogil:
    """Convert the offsets of the dense strings to those of the rows; nulls are empty."""
    cdef int64_t row = page.rows, k = page.non_null, bytes = (page.rows + 7) // 8, block
    cdef uint64_t nulls
    offsets[row] = offsets[k]
    while row > k:
        block = (row - 1) & ~63
        nulls = fm_bits(page.nulls, bytes, block, <int>(row - block))
        while row > block:
            row -= 1
            k -= <int64_t>(~(nulls >> (row & 63)) & 1)
            offsets[row] = offsets[k]


cdef void fill_validity(uint8_t* out, Page* page) noexcept nogil:
    cdef int64_t i, bytes = (page.rows + 7) // 8
    for i in range(bytes):
        out[i] = ~page.nulls[i]
    if page.rows & 7:
        out[bytes - 1] &= (1 << (page.rows & 7)) - 1


cdef void pack_booleans(const uint8_t* values, int64_t count, uint8_t* out) noexcept nogil:
    cdef int64_t i
    memset(out, 0, (count + 7) // 8)
    for i in range(count):
        out[i >> 3] |= values[i] << (i & 7)


# ---- Arrow arrays


# A page, and the buffer of its Arrow array: validity, values, strings.
cdef struct Column:
    Page* page
    int64_t validity       # sizes of the parts, padded to 64 bytes
    int64_t values
    int64_t size           # of all parts, with room for OVERSHOOT
    Entry* entries         # of a CONST or DICT of strings
    bint all_short         # whether each of them has 16 bytes or fewer
    uint8_t* data
    PyObject* owner        # the pyarrow.Buffer that `data` is in
    ArrowArray* array      # the result


cdef struct Root:
    ArrowArray* children
    ArrowArray** pointers


cdef struct Private:
    const void* buffers[3]
    PyObject* owner        # the pyarrow.Buffer


cdef void release_array(ArrowArray* array) noexcept nogil:
    cdef Private* private = <Private*>array.private_data
    if Py_IsInitialized():  # an array may outlive the interpreter
        with gil:
            Py_XDECREF(private.owner)
    free(private)
    array.release = NULL


cdef bint make_array(Column* column) noexcept:
    """Fill in the Arrow array of a column; return False without memory."""
    cdef Private* private = <Private*>malloc(sizeof(Private))
    cdef Page* page = column.page
    cdef ArrowArray* array = column.array
    if private == NULL:
        return False
    private.owner = column.owner
    column.owner = NULL
    private.buffers[0] = column.data if page.rows > page.non_null else NULL
    private.buffers[1] = column.data + column.validity
    private.buffers[2] = column.data + column.validity + column.values
    array.length = page.rows
    array.null_count = page.rows - page.non_null
    array.n_buffers = 2 if page.kind < BINARY else 3
    array.buffers = private.buffers
    array.private_data = private
    array.release = release_array
    return True


cdef inline int64_t aligned(int64_t size) noexcept nogil:
    return (size + 63) & ~<int64_t>63


cdef int64_t value_bytes(Page* page) noexcept nogil:
    """Return the bytes of the fixed-width buffer of the column: values or offsets."""
    if page.kind == BOOL:
        return (page.rows + 7) // 8
    if page.kind >= BINARY:
        return 4 * (page.rows + 1)
    return page.rows * arrow_width(page.kind)


cdef int measure(Column* column) noexcept nogil:
    """Compute the size of the buffer from the bytes that exist, not from declared sizes."""
    cdef Page* page = column.page
    cdef int64_t strings = 0
    cdef int fault = FINE
    if page.encoding == ALL_NULL:
        return FINE  # all such columns share one buffer of zeros
    column.validity = aligned((page.rows + 7) // 8) if page.rows > page.non_null else 0
    column.values = aligned(value_bytes(page))
    if page.kind >= BINARY:
        if page.rows >= MAX_OFFSET:
            return TOO_LARGE
        if page.encoding == PLAIN:
            strings = page.data_size - page.non_null  # each has a length of a byte or more
        else:
            column.entries = <Entry*>malloc((page.entries + 1) * sizeof(Entry))
            if column.entries == NULL:
                return NO_MEMORY
            fault = open_entries(page, column.entries, &column.all_short)
            if not fault:
                fault = size_strings(page, column.entries, &strings)
        if not fault and strings > MAX_OFFSET:
            fault = TOO_LARGE
    column.size = aligned(column.validity + column.values + strings + OVERSHOOT)
    return fault


cdef int fill_booleans(Page* page, uint8_t* out) noexcept nogil:
    cdef uint8_t* dense = <uint8_t*>malloc(page.rows + 1)
    cdef int fault
    if dense == NULL:
        return NO_MEMORY
    fault = dense_fixed(page, dense)
    if not fault:
        if page.rows > page.non_null:
            spread(dense, 1, page)
        pack_booleans(dense, page.rows, out)
    free(dense)
    return fault


cdef int fill(Column* column) noexcept nogil:
    """Decode the page into the buffer."""
    cdef Page* page = column.page
    cdef bint nulls = page.rows > page.non_null
    cdef uint8_t* values = column.data + column.validity
    cdef int fault = FINE
    if page.encoding == ALL_NULL:
        return FINE
    if nulls:
        fill_validity(column.data, page)
    if page.kind == BOOL:
        return fill_booleans(page, values)
    if page.kind < BINARY:
        fault = dense_fixed(page, values)
        if nulls and not fault:
            spread(values, arrow_width(page.kind), page)
        return fault
    if page.encoding == PLAIN:
        fault = plain_strings(page, <int32_t*>values, values + column.values)
    elif page.encoding == CONST:
        repeat_string(page, column.entries, <int32_t*>values, values + column.values)
    else:
        lookup_strings(page, column.entries, column.all_short, <int32_t*>values,
                       values + column.values)
    if nulls and not fault:
        spread_offsets(<int32_t*>values, page)
    return fault


cdef class Pages:
    """The pages of the columns of a bucket, located in a buffer but not yet decoded."""

    cdef Page* _pages
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _stop  # the data of columns from here on was not located
    cdef object _owner

    def __cinit__(self, const uint8_t[::1] kinds not None, rows not None):
        cdef Py_ssize_t i
        self.count = self._stop = kinds.shape[0]
        if len(rows) != self.count:
            raise ValueError(f"{len(rows)} row counts for {self.count} columns")
        self._pages = <Page*>calloc(self.count + 1, sizeof(Page))
        if self._pages == NULL:
            raise MemoryError
        for i in range(self.count):
            if kinds[i] >= NUM_KINDS and kinds[i] != ARRAY_BLOCK:
                raise ValueError(f"kind {kinds[i]}")
            self._pages[i].kind = kinds[i]
            self._pages[i].rows = self._pages[i].non_null = rows[i]
            self._pages[i].encoding = ALL_NULL

    def __dealloc__(self):
        free(self._pages)

    @staticmethod
    def from_monolithic(data, int64_t start, const uint8_t[::1] kinds, rows, int64_t stop):
        """Locate the pages in a monolithic bucket whose flags are at `start`.

        Only columns before `stop` can be decoded.
        """
        cdef const uint8_t[::1] view = data
        cdef Pages pages = Pages(kinds, rows)
        cdef Reader reader
        cdef int64_t at = 0
        cdef int fault
        pages._owner = data
        if not (0 <= start <= view.shape[0] and 0 <= stop <= pages.count):
            raise ValueError("bad start or stop")
        reader.at = &view[0] + start if view.shape[0] else NULL
        reader.end = &view[0] + view.shape[0] if view.shape[0] else NULL
        with nogil:
            fault = split(pages._pages, pages.count, stop, &reader, &at)
        if fault:
            _fail(fault, at)
        pages._stop = stop
        return pages

    @staticmethod
    def from_slots(slots, const uint8_t[::1] kinds, rows):
        """Locate the pages in decompressed slots; None if all rows are null."""
        cdef Pages pages = Pages(kinds, rows)
        cdef Py_buffer view
        cdef Reader reader
        cdef int fault
        cdef Py_ssize_t i
        if len(slots) != pages.count:
            raise ValueError(f"{len(slots)} slots for {pages.count} columns")
        pages._owner = list(slots)
        for i, slot in enumerate(slots):
            if slot is None:
                pages._pages[i].non_null = 0
                continue
            # The owner keeps the bytes in place, so the view can be released.
            PyObject_GetBuffer(slot, &view, PyBUF_SIMPLE)
            reader.at = <const uint8_t*>view.buf
            reader.end = reader.at + view.len
            PyBuffer_Release(&view)
            fault = open_page(&pages._pages[i], &reader)
            if fault:
                _fail(fault, i)
            pages._pages[i].size = view.len
        return pages

    cdef int _check(self, Py_ssize_t column) except -1:
        if not 0 <= column < self._stop:
            raise IndexError(f"column {column} of {self._stop}")
        return 0

    def expansion(self, columns):
        """Return the memory of `columns` beyond their stored bytes: repeated values and nulls."""
        cdef int64_t total = 0, zeros = 0
        cdef Py_ssize_t i
        cdef Page* page
        for i in columns:
            self._check(i)
            page = &self._pages[i]
            if page.encoding == ALL_NULL:
                zeros = max(zeros, value_bytes(page))
            elif page.encoding == CONST or page.entries == 1:
                total += value_bytes(page)
                if page.kind >= BINARY:
                    total += page.non_null * page.meta_size
        return total + zeros

    def num_rows(self, Py_ssize_t column):
        self._check(column)
        return self._pages[column].rows

    def encoding(self, Py_ssize_t column):
        """Return the number of the encoding: 0 PLAIN, 1 CONST, 2 DICT, 3 ALL_NULL."""
        self._check(column)
        return self._pages[column].encoding

    def null_count(self, Py_ssize_t column):
        """Return the number of null rows; 0 for an array data block, which has its own nulls."""
        self._check(column)
        return self._pages[column].rows - self._pages[column].non_null

    def size(self, Py_ssize_t column):
        """Return the bytes of a page before compression."""
        self._check(column)
        return self._pages[column].size

    def num_entries(self, Py_ssize_t column):
        """Return the number of dictionary entries; 1 for a constant, 0 without a dictionary."""
        self._check(column)
        return self._pages[column].entries

    def entry_bytes(self, Py_ssize_t column):
        """Return the bytes that the dictionary entries or the constant take in the page."""
        self._check(column)
        return self._pages[column].meta_size

    def entries(self, Py_ssize_t column, type):
        """Return the dictionary entries in their order, or the constant, as an Arrow array."""
        cdef Pages plain
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        plain = Pages(bytes([page.kind]), [page.entries])
        plain._owner = self
        plain._pages[0].encoding = PLAIN
        plain._pages[0].data = page.meta
        plain._pages[0].data_size = page.meta_size
        (array,) = plain.decode([0], [type])
        return array

    def entry_counts(self, Py_ssize_t column):
        """Return how many rows have each of the dictionary entries, or the constant."""
        cdef uint32_t[1024] indices
        cdef int64_t* counts
        cdef int64_t done = 0
        cdef int i, step, bits
        cdef int fault = FINE
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        if page.entries < 2:
            return [page.non_null] * page.entries
        bits = bit_width(page.entries)
        counts = <int64_t*>calloc(page.entries, sizeof(int64_t))
        if counts == NULL:
            raise MemoryError
        try:
            with nogil:
                while done < page.non_null:
                    step = <int>min(<int64_t>BLOCK, page.non_null - done)
                    unpack(page.data, page.data_size, bits, done, step, indices)
                    if largest(indices, step) >= page.entries:
                        fault = BAD_INDEX
                        break
                    for i in range(step):
                        counts[indices[i]] += 1
                    done += step
            if fault:
                _fail(fault, column)
            return [counts[i] for i in range(page.entries)]
        finally:
            free(counts)

    def block(self, Py_ssize_t column):
        """Return the array data block of a column, or None if all rows are null.

        The view is valid as long as this object exists.
        """
        cdef Reader reader
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        if page.kind != ARRAY_BLOCK:
            raise ValueError(f"column {column} has no array data block")
        if page.encoding == ALL_NULL:
            return None
        reader.at = page.data
        reader.end = page.data + page.data_size
        varint(&reader)
        return PyMemoryView_FromMemory(<char*>reader.at, left(&reader), 0x100)  # PyBUF_READ

    def decode(self, columns, types):
        """Decode `columns` to arrays of the Arrow `types`."""
        cdef Py_ssize_t k
        cdef Batch batch = Batch(len(columns))
        self.decode_into(columns, batch, range(len(columns)))
        result = []
        for k in range(batch.count):
            result.append(_import_array(<uintptr_t>&batch._root.children[k], types[k]))
        return result

    def decode_into(self, columns, Batch batch not None, places):
        """Decode `columns` into `batch`, at their `places`."""
        cdef Py_ssize_t i, k, count = len(columns)
        cdef int fault = FINE
        cdef int64_t total = 0
        cdef Column* plan = <Column*>calloc(count + 1, sizeof(Column))
        if plan == NULL:
            raise MemoryError
        try:
            for k in range(count):
                i = columns[k]
                self._check(i)
                if self._pages[i].kind == ARRAY_BLOCK:
                    raise ValueError(f"column {i} is an array data block")
                plan[k].page = &self._pages[i]
                plan[k].array = batch._child(places[k])
            with nogil:
                for k in range(count):
                    fault = measure(&plan[k])
                    if fault:
                        break
                    total += plan[k].size
            if fault:
                _fail(fault, columns[k])
            self._allocate(plan, count, total)
            with nogil:
                for k in range(count):
                    fault = fill(&plan[k])
                    if fault:
                        break
            if fault:
                _fail(fault, columns[k])
            for k in range(count):
                if plan[k].array.release != NULL:
                    raise ValueError(f"place {places[k]} is taken")
                if not make_array(&plan[k]):
                    raise MemoryError
        finally:
            for k in range(count):
                Py_XDECREF(plan[k].owner)
                free(plan[k].entries)
            free(plan)

    cdef int _allocate(self, Column* plan, Py_ssize_t count, int64_t total) except -1:
        """Allocate the memory of each column: its own, a shared buffer, or zeros."""
        cdef Py_ssize_t k
        cdef int64_t zero_bytes = 0, at = 0
        cdef bint share = total <= MAX_SHARED_BYTES
        shared = _allocate(total) if share and total else None
        for k in range(count):
            if plan[k].page.encoding == ALL_NULL:
                zero_bytes = max(zero_bytes, value_bytes(plan[k].page) + 64)
            elif share:
                own(&plan[k], shared, at)
                at += plan[k].size
            else:
                own(&plan[k], _allocate(plan[k].size), 0)
        if zero_bytes:
            shared = _allocate(zero_bytes)
            memset(<void*><uintptr_t>shared.address, 0, zero_bytes)
            for k in range(count):
                if plan[k].page.encoding == ALL_NULL:
                    own(&plan[k], shared, 0)
        return 0


cdef int own(Column* column, buffer, int64_t at) except -1:
    column.owner = <PyObject*>buffer
    Py_XINCREF(column.owner)
    column.data = <uint8_t*><uintptr_t>buffer.address + at
    return 0


cdef void release_root(ArrowArray* root) noexcept nogil:
    cdef int64_t i
    for i in range(root.n_children):
        if root.children[i].release != NULL:
            root.children[i].release(root.children[i])
    free(root.private_data)
    root.release = NULL


cdef class Batch:
    """Collects the columns of a record batch, from any thread, and hands them over to Arrow."""

    cdef ArrowArray _array
    cdef Root _root
    cdef readonly Py_ssize_t count

    def __cinit__(self, Py_ssize_t count):
        cdef Py_ssize_t i
        cdef char* memory
        self.count = count
        memset(&self._array, 0, sizeof(ArrowArray))
        # One allocation for the children, the pointers to them, and the one buffer.
        memory = <char*>calloc(1, (count + 1) * (sizeof(ArrowArray) + sizeof(void*)))
        if memory == NULL:
            raise MemoryError
        self._root.children = <ArrowArray*>memory
        self._root.pointers = <ArrowArray**>(memory + count * sizeof(ArrowArray))
        for i in range(count):
            self._root.pointers[i] = &self._root.children[i]
        self._array.n_buffers = 1
        self._array.buffers = <const void**>(self._root.pointers + count)
        self._array.n_children = count
        self._array.children = self._root.pointers
        self._array.private_data = memory
        self._array.release = release_root

    def __dealloc__(self):
        if self._array.release != NULL:
            self._array.release(&self._array)

    cdef ArrowArray* _child(self, Py_ssize_t place) except NULL:
        if self._array.release == NULL:
            raise ValueError("the batch was taken over by Arrow")
        if not 0 <= place < self.count:
            raise IndexError(f"place {place} of {self.count}")
        return &self._root.children[place]

    def put(self, Py_ssize_t place, array):
        """Set a column to an existing array."""
        cdef ArrowArray* child = self._child(place)
        if child.release != NULL:
            raise ValueError(f"place {place} is taken")
        array._export_to_c(<uintptr_t>child)

    def null_count(self, Py_ssize_t place):
        """Return the number of nulls in a column."""
        return self._child(place).null_count

    def finish(self, int64_t num_rows, schema):
        """Return the record batch. All columns must be set and have `num_rows` rows."""
        cdef Py_ssize_t i
        if self._array.release == NULL:
            raise ValueError("the batch was taken over by Arrow")
        for i in range(self.count):
            if self._root.children[i].release == NULL or self._root.children[i].length != num_rows:
                raise ValueError(f"column {i} is missing, or does not have {num_rows} rows")
        self._array.length = num_rows
        return _import_batch(<uintptr_t>&self._array, schema)


class PageFault(ValueError):
    """A page cannot be decoded; `column` is the number of its flat column."""

    def __init__(self, fact, column):
        super().__init__(fact)
        self.column = column


cdef object _fail(int fault, int64_t column):
    if fault == NO_MEMORY:
        raise MemoryError
    if fault == TOO_LARGE:
        raise OverflowError(_FACTS[fault])
    raise PageFault(_FACTS[fault], column)


def slot_offsets(const uint8_t[::1] sizes not None, int64_t start):
    """Return the offsets of slots of the given `sizes` (u32le) from `start`, and the end."""
    cdef Py_ssize_t i, count = sizes.shape[0] // 4
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, 8 * (count + 1))
    cdef int64_t* offset = <int64_t*>PyBytes_AsString(offsets)
    offset[0] = start
    for i in range(count):
        offset[i + 1] = offset[i] + <int64_t>fm_load32(&sizes[4 * i])
    return memoryview(offsets).cast("q")


cdef int64_t frame_size(const uint8_t* frame, int64_t size) noexcept nogil:
    """Return the size of the zstd frame at the start of `frame`, or -1 if it is incomplete.

    magic, u8 descriptor, [u8 window], [dictionary id], [content size], blocks, [u32 checksum];
    a block is u24le (bit 0: last, bits 1-2: type, then its size), and its content.
    """
    cdef int64_t at = 5, header, content
    cdef int descriptor, size_code
    if size < 6 or fm_load32(frame) != 0xFD2FB528U:
        return -1
    descriptor = frame[4]
    size_code = descriptor >> 6
    if descriptor & 0x20 == 0:  # not a single segment, so there is a window
        at += 1
    elif size_code == 0:
        at += 1  # content size of one byte
    at += (1 << (descriptor & 3)) >> 1  # dictionary id: 0, 1, 2 or 4 bytes
    at += (1 << size_code) & ~1  # content size: 0, 2, 4 or 8 bytes
    while at + 3 <= size:
        header = frame[at] | <int64_t>frame[at + 1] << 8 | <int64_t>frame[at + 2] << 16
        content = 1 if header >> 1 & 3 == 1 else header >> 3  # a repeated byte is stored once
        at += 3 + content
        if header & 1:
            if descriptor & 4:
                at += 4
            return at if at <= size else -1
    return -1


def find_frames(const uint8_t[::1] data not None, const int64_t[::1] spans not None):
    """Find the zstd frames in the slots at `spans` (start, end, start, end ...) of `data`.

    Return (start, size) of each frame, and the declared sizes of the pages, as native uint64.
    """
    cdef Py_ssize_t i, count = spans.shape[0] // 2
    cdef bytes frames = PyBytes_FromStringAndSize(NULL, 16 * count)
    cdef bytes sizes = PyBytes_FromStringAndSize(NULL, 8 * count)
    cdef uint64_t* frame = <uint64_t*>PyBytes_AsString(frames)
    cdef uint64_t* size = <uint64_t*>PyBytes_AsString(sizes)
    cdef Reader reader
    cdef int64_t declared
    for i in range(count):
        if not 0 <= spans[2 * i] < spans[2 * i + 1] <= data.shape[0]:
            raise ValueError(f"slot {spans[2 * i]}..{spans[2 * i + 1]} of {data.shape[0]} bytes")
        reader.at = &data[0] + spans[2 * i]
        reader.end = &data[0] + spans[2 * i + 1]
        declared = varint(&reader)
        if declared < 2:  # encoding and flags
            raise ValueError(f"the length of the page at {spans[2 * i]} in its bucket is broken")
        if frame_size(reader.at, left(&reader)) != left(&reader):
            raise ValueError(f"slot {spans[2 * i]}..{spans[2 * i + 1]} is not one zstd frame")
        frame[2 * i] = reader.at - &data[0]
        frame[2 * i + 1] = left(&reader)
        size[i] = declared
    return frames, sizes


def offsets_of(const int32_t[::1] lengths not None, int32_t[::1] out not None):
    """Fill `out` with the cumulative sum of `lengths`, starting at 0; return the last one."""
    cdef int64_t total = 0
    cdef Py_ssize_t i, count = lengths.shape[0]
    cdef bint negative = False
    if out.shape[0] != count + 1:
        raise ValueError("there must be one offset more than lengths")
    out[0] = 0
    with nogil:
        for i in range(count):
            negative |= lengths[i] < 0
            total += lengths[i]
            if negative or total > MAX_OFFSET:
                break
            out[i + 1] = <int32_t>total
    if negative:
        raise ValueError("a list has a negative length")
    if total > MAX_OFFSET:
        raise ValueError("the lists have more than 2,147,483,647 elements in total")
    return total
