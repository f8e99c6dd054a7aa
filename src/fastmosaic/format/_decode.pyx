# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decode the bytes of a bucket to Arrow arrays, column by column, without the GIL.

The rows of a column are decoded one portion after another: each call goes on where the one before
it stopped, for each column.

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
    DAY, MAX_DIGITS, NUM_KINDS, PLAIN, STRING, TIME, TIMESTAMP_NS, Reader, bit_width, fm_bits,
    fm_has_digits, fm_is_ascii,
    fm_load16, fm_load32, fm_load64, fm_popcount64, fm_store16, fm_store32, fm_store64, fm_swap16, fm_swap32, fm_swap64,
    is_utf8, left, skip_values, uint16_t, uint32_t, uint64_t, varint, width_of,
)

from fastmosaic.format._values cimport (
    fm_all_below32, fm_all_within64, fm_join_all96, fm_make_places, fm_pack_bytes, fm_spread, fm_spread_bits, fm_spread_offsets, fm_swap_all16,
    fm_swap_all32, fm_swap_all64, fm_unpack, fm_widen_all64,
)

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory

import atexit

import pyarrow as pa

_allocate = pa.allocate_buffer
_import_array = pa.Array._import_from_c
_import_batch = pa.RecordBatch._import_from_c

cdef extern from *:
    """
    #include <sys/mman.h>

    /* Ask for huge pages: touching the pages of a large result one by one takes longer than decoding. */
    static void fm_use_huge_pages(void* memory, int64_t size) {
    #ifdef MADV_HUGEPAGE
        const uintptr_t huge = (uintptr_t)2 << 20;
        uintptr_t start = ((uintptr_t)memory + huge - 1) & ~(huge - 1);
        uintptr_t end = ((uintptr_t)memory + (uintptr_t)size) & ~(huge - 1);
        if (start < end) madvise((void*)start, end - start, MADV_HUGEPAGE);
    #else
        (void)memory; (void)size;
    #endif
    }
    """
    void fm_use_huge_pages(void* memory, int64_t size) nogil

cdef extern from *:
    """
    /* Arrow's threads release arrays, for which they need the GIL. At the end of the process a
       thread that waits for it would be ended in the middle of Arrow's code, which aborts. So they
       stop asking for it before, and leave the memory to the system. */
    static int fm_closing, fm_releasing;
    static int fm_begin_release(void) {
        __atomic_add_fetch(&fm_releasing, 1, __ATOMIC_SEQ_CST);
        return !__atomic_load_n(&fm_closing, __ATOMIC_SEQ_CST);
    }
    static void fm_end_release(void) { __atomic_sub_fetch(&fm_releasing, 1, __ATOMIC_SEQ_CST); }
    static void fm_close(void) { __atomic_store_n(&fm_closing, 1, __ATOMIC_SEQ_CST); }
    static int fm_is_releasing(void) { return __atomic_load_n(&fm_releasing, __ATOMIC_SEQ_CST); }
    """
    bint fm_begin_release() nogil
    void fm_end_release() nogil
    void fm_close() nogil
    bint fm_is_releasing() nogil

cdef extern from "unistd.h":
    int usleep(unsigned int microseconds) nogil

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
    BAD_DIGITS
    BAD_TIME
    BAD_LENGTH
    TOO_FEW
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
    "a decimal has more digits than its type; strict=False reads it anyway",
    "a time is negative or not less than 24 hours; strict=False reads it anyway",
    "a list has a negative length",
    "lists have more elements than are stored",
    "the column exceeds 2 GiB in one row group",
    "out of memory",
)

cdef int64_t MAX_OFFSET = 2147483647
# Columns that need no more than this in total share one allocation.
cdef int64_t MAX_SHARED_BYTES = 1 << 20
cdef enum:
    OVERSHOOT = 32  # bytes that short copies may write beyond the end
    BLOCK = 1024  # values per block, which fit in the first-level cache
    IDLE = 65536  # entries that a dictionary may have, however few rows there are
    COPY_BYTES = 1 << 18
    HUGE_BYTES = 16 << 20


MAX_IDLE_ENTRIES = IDLE


# A page, or a portion of one: `rows` rows from number `row` on.
cdef struct Page:
    int encoding
    int kind
    int digits                # the precision of a decimal; 0 if it is not checked
    bint strict               # whether times are checked
    bint has_nulls
    int64_t rows
    int64_t non_null
    int64_t row
    int64_t value             # non-null values before that row
    const uint8_t* meta       # the value of a CONST, the entries of a DICT
    int64_t meta_size
    int64_t entries
    const uint8_t* nulls      # of the page; bit 1 = null
    int64_t null_bytes
    const uint8_t* data       # PLAIN: of the portion; DICT: of the page
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


cdef inline uint64_t nulls_at(const Page* page, int64_t row, int count) noexcept nogil:
    """Return the null bits of up to 64 rows; `row` is counted from the start of the portion."""
    return fm_bits(page.nulls, page.null_bytes, page.row + row, count)


cdef int64_t count_values(const Page* page) noexcept nogil:
    """Count the rows that are not null."""
    cdef int64_t row = 0, nulls = 0
    if page.encoding == ALL_NULL:
        return 0
    if page.nulls == NULL:
        return page.rows
    while row < page.rows:
        nulls += fm_popcount64(nulls_at(page, row, <int>min(64, page.rows - row)))
        row += 64
    return page.rows - nulls


cdef int take_nulls(Page* page, Reader* reader) noexcept nogil:
    cdef int64_t size = (page.rows + 7) // 8
    if not page.has_nulls or page.encoding == ALL_NULL:
        return FINE
    if size > left(reader):
        return TRUNCATED
    page.nulls = reader.at
    page.null_bytes = size
    page.size += size
    reader.at += size
    page.non_null = count_values(page)
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
        if page.entries > max(page.non_null, <int64_t>IDLE):
            return BAD_ENTRIES
        reader.at += size
    page.data_size = reader.at - page.data
    page.size += page.data_size
    return fault


cdef int split(Page* pages, int64_t count, int64_t stop, Reader* reader, int64_t* at) noexcept nogil:
    """Find the parts of the pages in a monolithic bucket; data only for pages before `stop`."""
    cdef int64_t i, flag_bytes = (2 * count + 7) // 8, null_bytes = (count + 7) // 8
    cdef const uint8_t* flags = reader.at
    cdef const uint8_t* nulls
    cdef int fault
    at[0] = 0
    if flag_bytes + null_bytes > left(reader):
        return TRUNCATED
    nulls = flags + flag_bytes
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


cdef int take_portion(const Page* page, int64_t count, Page* portion) noexcept nogil:
    """Find the next `count` rows of a page; `advance` moves past them."""
    cdef Reader reader
    portion[0] = page[0]
    if count < 0 or count > page.rows - page.row:
        return TOO_FEW
    if count == page.rows:
        return FINE
    portion.rows = count
    portion.non_null = count_values(portion)
    if page.encoding == PLAIN:
        reader.at = page.data
        reader.end = page.data + page.data_size
        if not skip_values(&reader, page.kind, portion.non_null):
            return TRUNCATED
        portion.data_size = reader.at - page.data
    return FINE


cdef void advance(Page* page, const Page* portion) noexcept nogil:
    page.row += portion.rows
    page.value += portion.non_null
    if page.encoding == PLAIN:
        page.data += portion.data_size
        page.data_size -= portion.data_size


# ---- values, densely: one after another, without the nulls


cdef inline int arrow_width(int kind) noexcept nogil:
    """Return the bytes of one value in an Arrow buffer; a boolean is a byte until it is packed."""
    if kind <= INT8:
        return 1
    if kind == INT16:
        return 2
    if kind == INT32 or kind == TIME:
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


cdef int decode_unchecked(Reader* reader, int kind, int64_t count, uint8_t* out) noexcept nogil:
    cdef int64_t i
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
        fm_swap_all16(out, at, count)
    elif kind == INT32 or kind == TIME:
        fm_swap_all32(out, at, count)
    elif kind == INT64:
        fm_swap_all64(out, at, count)
    elif kind == DECIMAL64:
        fm_widen_all64(out, at, count)
    elif not fm_join_all96(out, at, count):
        return join_timestamps(at, count, out)
    return FINE


cdef int join_timestamps(const uint8_t* at, int64_t count, uint8_t* out) noexcept nogil:
    """Decode timestamps of nanoseconds that may be beyond 64 bits."""
    cdef int64_t i, millis, nanos
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


cdef uint64_t[19] POWERS  # of ten
POWERS[0] = 1
for _power in range(1, 19):
    POWERS[_power] = 10 * POWERS[_power - 1]
fm_make_places()


cdef int decode_fixed(const Page* page, Reader* reader, int64_t count, uint8_t* out) noexcept nogil:
    """Decode `count` values of a kind other than BINARY and STRING, and check their range."""
    cdef const uint8_t* stored = reader.at
    cdef int fault = decode_unchecked(reader, page.kind, count, out)
    cdef int64_t i
    if fault:
        return fault
    if page.digits and page.kind == DECIMAL64:
        # More digits than these have no limit in 64 bits.
        if page.digits < 19 and not fm_all_within64(stored, count, POWERS[page.digits]):
            return BAD_DIGITS
    elif page.digits:
        for i in range(count):
            if not fm_has_digits(fm_load64(out + 16 * i), fm_load64(out + 16 * i + 8), page.digits):
                return BAD_DIGITS
    elif page.kind == TIME and page.strict and not fm_all_below32(out, count, DAY):
        return BAD_TIME
    return FINE


cdef void repeat(uint8_t* out, int64_t width, int64_t count) noexcept nogil:
    """Fill `out` with `count` copies of its first value."""
    cdef int64_t filled = width, total = count * width, step
    if width == 1:
        memset(out, out[0], count)
        return
    # Copies of up to this size come from the cache.
    while filled < total:
        step = min(filled, total - filled)
        if step > COPY_BYTES:
            step = min(max(width, COPY_BYTES // width * width), total - filled)
        memcpy(out + filled, out, step)
        filled += step


cdef inline Reader meta_of(const Page* page) noexcept nogil:
    cdef Reader reader
    reader.at = page.meta
    reader.end = page.meta + page.meta_size
    return reader


cdef inline bint is_large(const Page* page) noexcept nogil:
    """Whether a table of the dictionary would need much memory, compared with the result."""
    return page.entries > max(<int64_t>IDLE, page.rows // 16)


cdef int check_fixed(const Page* page, Reader reader, int64_t count) noexcept nogil:
    """Check `count` values as `decode_fixed` does."""
    cdef uint8_t[16 * BLOCK] values
    cdef int64_t step
    cdef int fault
    while count:
        step = min(count, BLOCK)
        fault = decode_fixed(page, &reader, step, values)
        if fault:
            return fault
        count -= step
    return FINE


cdef int next_indices(const Page* page, int64_t done, uint32_t* indices, int* count) noexcept nogil:
    """Read up to BLOCK indices of a DICT page, and check them."""
    cdef int width = bit_width(page.entries)
    count[0] = <int>min(<int64_t>BLOCK, page.non_null - done)
    fm_unpack(page.data, page.data_size, width, page.value + done, count[0], indices)
    # All indices are valid if every number of that many bits has an entry.
    if page.entries == <int64_t>1 << width:
        return FINE
    return FINE if fm_all_below32(<uint8_t*>indices, count[0], <uint32_t>page.entries) else BAD_INDEX


cdef uint32_t* find_entries(const Page* page) noexcept nogil:
    """Return where each entry of a dictionary starts, after its length; NULL without memory."""
    cdef uint32_t* starts = <uint32_t*>malloc((page.entries + 1) * sizeof(uint32_t))
    cdef Reader reader = meta_of(page)
    cdef int64_t i
    if starts != NULL:
        for i in range(page.entries):
            starts[i] = <uint32_t>(reader.at - page.meta)
            skip_values(&reader, page.kind, 1)  # `take_meta` did so before
    return starts


cdef int lookup_decimals(const Page* page, uint8_t* out) noexcept nogil:
    """Decode the values of a DICT page of decimals, whose entries have lengths of their own."""
    cdef uint32_t[BLOCK] indices
    cdef int64_t done = 0
    cdef int count = 0, i, fault
    cdef Reader reader = meta_of(page)
    cdef uint32_t* starts = NULL
    cdef uint8_t* table = NULL
    if is_large(page):
        fault = check_fixed(page, reader, page.entries)
        starts = find_entries(page)
    else:
        table = <uint8_t*>malloc(16 * page.entries + 16)
        fault = decode_fixed(page, &reader, page.entries, table) if table != NULL else FINE
    if starts == NULL and table == NULL:
        return NO_MEMORY
    while not fault and done < page.non_null:
        fault = next_indices(page, done, indices, &count)
        if fault:
            break
        if table != NULL:
            for i in range(count):
                memcpy(out + 16 * i, table + 16 * <int64_t>indices[i], 16)
        else:
            for i in range(count):
                reader = meta_of(page)
                reader.at += starts[indices[i]]
                decode_decimals(&reader, 1, out + 16 * i)
        out += 16 * count
        done += count
    free(starts)
    free(table)
    return fault


cdef int lookup_fixed(const Page* page, uint8_t* out) noexcept nogil:
    """Decode the values of a DICT page, from the entries as they are stored.

    A table of decoded entries would take longer to make than it saves.
    """
    cdef int width = arrow_width(page.kind), count = 0, i, fault = FINE
    cdef const uint8_t* meta = page.meta
    cdef uint32_t[BLOCK] indices
    cdef uint8_t[12 * BLOCK] stored
    cdef int64_t done = 0
    cdef Reader reader
    if page.kind == DECIMAL128:
        return lookup_decimals(page, out)
    if page.kind == TIME or page.kind == TIMESTAMP_NS or page.kind == DECIMAL64:
        fault = check_fixed(page, meta_of(page), page.entries)
    while fault == FINE and done < page.non_null:
        fault = next_indices(page, done, indices, &count)
        if fault:
            break
        if page.kind == BOOL:
            for i in range(count):
                out[i] = meta[indices[i]] != 0
        elif page.kind == INT8:
            for i in range(count):
                out[i] = meta[indices[i]]
        elif page.kind == INT16:
            for i in range(count):
                fm_store16(out + 2 * i, fm_swap16(fm_load16(meta + 2 * <int64_t>indices[i])))
        elif width == 4:
            for i in range(count):
                fm_store32(out + 4 * i, fm_swap32(fm_load32(meta + 4 * <int64_t>indices[i])))
        elif page.kind == INT64:
            for i in range(count):
                fm_store64(out + 8 * i, fm_swap64(fm_load64(meta + 8 * <int64_t>indices[i])))
        else:
            if page.kind == DECIMAL64:
                for i in range(count):
                    fm_store64(stored + 8 * i, fm_load64(meta + 8 * <int64_t>indices[i]))
            else:
                for i in range(count):
                    memcpy(stored + 12 * i, meta + 12 * <int64_t>indices[i], 12)
            reader.at = stored
            reader.end = stored + sizeof(stored)
            decode_unchecked(&reader, page.kind, count, out)
        out += count * width
        done += count
    return fault


cdef int dense_fixed(const Page* page, uint8_t* out) noexcept nogil:
    cdef Reader reader
    cdef int fault
    if page.encoding == DICT:
        return lookup_fixed(page, out)
    if page.encoding == CONST:
        reader = meta_of(page)
        fault = FINE
        if page.non_null:
            fault = decode_fixed(page, &reader, 1, out)
            repeat(out, arrow_width(page.kind), page.non_null)
        return fault
    reader.at = page.data
    reader.end = page.data + page.data_size
    return decode_fixed(page, &reader, page.non_null, out)


# ---- strings: dense offsets and bytes


cdef inline void copy_short(uint8_t* to, const uint8_t* source, int64_t size,
                            bint roomy) noexcept nogil:
    """Copy `size` bytes, at once if both sides have room for OVERSHOOT bytes."""
    if roomy and size <= OVERSHOOT:
        memcpy(to, source, OVERSHOOT)
    else:
        memcpy(to, source, size)


cdef int plain_strings(const Page* page, int32_t* offsets, uint8_t* out) noexcept nogil:
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
        copy_short(out + filled, reader.at, size, left(&reader) >= OVERSHOOT)
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


cdef inline Entry entry_at(const Page* page, const uint8_t* at) noexcept nogil:
    """Return the dictionary entry whose length is at `at`; `take_meta` has checked it."""
    cdef Reader reader
    cdef Entry entry
    if at[0] < 0x80:
        entry.size = at[0]
        entry.text = at + 1
        return entry
    reader.at = at
    reader.end = page.meta + page.meta_size
    entry.size = varint(&reader)
    entry.text = reader.at
    return entry


cdef int check_entries(const Page* page) noexcept nogil:
    cdef const uint8_t* at = page.meta
    cdef Entry entry
    cdef int64_t i
    # Lengths of more than a byte are not ASCII either.
    if page.kind == STRING and not fm_is_ascii(page.meta, page.meta_size):
        for i in range(page.entries):
            entry = entry_at(page, at)
            if not is_utf8(entry.text, entry.size):
                return BAD_UTF8
            at = entry.text + entry.size
    return FINE


cdef int64_t longest_entry(const Page* page) noexcept nogil:
    """Return the size of the longest string of a CONST or DICT page."""
    cdef const uint8_t* at = page.meta
    cdef int64_t i, size = 0
    cdef Entry entry
    for i in range(page.entries):
        entry = entry_at(page, at)
        size = max(size, entry.size)
        at = entry.text + entry.size
    return size


# A portion of a page, and the buffer of its Arrow array: validity, values, strings.
cdef struct Column:
    Page* whole
    Page page              # the portion
    int64_t validity       # sizes of the parts, padded to 64 bytes
    int64_t values
    int64_t size           # of all parts, with room for OVERSHOOT
    uint32_t* starts       # of the entries of a DICT of strings
    uint8_t* data
    PyObject* owner        # the pyarrow.Buffer that `data` is in
    ArrowArray* array      # the result


cdef int size_strings(Column* column, int64_t* total) noexcept nogil:
    """Compute the bytes of all strings of a CONST or DICT page."""
    cdef const Page* page = &column.page
    cdef uint32_t[BLOCK] indices
    cdef int64_t done = 0
    cdef int i, count = 0, fault
    total[0] = 0
    if page.entries == 1:
        total[0] = entry_at(page, page.meta).size * page.non_null
        return FINE
    while done < page.non_null:
        fault = next_indices(page, done, indices, &count)
        if fault:
            return fault
        for i in range(count):
            total[0] += entry_at(page, page.meta + column.starts[indices[i]]).size
        done += count
    return FINE


cdef void repeat_string(const Page* page, int32_t* offsets, uint8_t* out) noexcept nogil:
    cdef Entry entry = entry_at(page, page.meta)
    cdef int64_t i
    for i in range(page.non_null + 1):
        offsets[i] = <int32_t>(i * entry.size)
    if page.non_null and entry.size > 0:
        memcpy(out, entry.text, entry.size)
        repeat(out, entry.size, page.non_null)


cdef void lookup_strings(const Column* column, int32_t* offsets, uint8_t* out) noexcept nogil:
    """Decode a DICT page; `size_strings` has checked the indices."""
    cdef const Page* page = &column.page
    # Indices follow the entries, so that most entries have room after them.
    cdef const uint8_t* end = page.data + page.data_size
    cdef uint32_t[BLOCK] indices
    cdef int64_t done = 0, filled = 0
    cdef int i, count = 0
    cdef Entry entry
    offsets[0] = 0
    while done < page.non_null:
        next_indices(page, done, indices, &count)
        for i in range(count):
            entry = entry_at(page, page.meta + column.starts[indices[i]])
            copy_short(out + filled, entry.text, entry.size, end - entry.text >= OVERSHOOT)
            filled += entry.size
            offsets[done + i + 1] = <int32_t>filled
        done += count


# ---- from dense values to rows


cdef inline void spread(uint8_t* out, int width, const Page* page) noexcept nogil:
    """Move the dense values in `out` to their rows; nulls become zero."""
    fm_spread(out, width, page.rows, page.non_null, page.nulls, page.null_bytes, page.row)


cdef inline void spread_offsets(int32_t* offsets, const Page* page) noexcept nogil:
    """Convert the offsets of the dense strings to those of the rows; nulls are empty."""
    fm_spread_offsets(<int*>offsets, page.rows, page.non_null, page.nulls, page.null_bytes, page.row)


cdef inline uint64_t low_bits(int count) noexcept nogil:
    """Return a word whose lowest `count` bits are set."""
    return ~<uint64_t>0 if count == 64 else (<uint64_t>1 << count) - 1


cdef inline void store_bits(uint8_t* out, int64_t row, uint64_t bits, int count) noexcept nogil:
    """Store the bits of up to 64 rows, beginning with a multiple of 64."""
    cdef int i
    if count == 64:
        fm_store64(out + (row >> 3), bits)
        return
    for i in range((count + 7) // 8):
        out[(row >> 3) + i] = <uint8_t>(bits >> (8 * i))


cdef void fill_validity(uint8_t* out, const Page* page) noexcept nogil:
    cdef int64_t row = 0
    cdef int step
    while row < page.rows:
        step = <int>min(<int64_t>64, page.rows - row)
        store_bits(out, row, ~nulls_at(page, row, step) & low_bits(step), step)
        row += 64


cdef int fill_booleans(const Page* page, uint8_t* out) noexcept nogil:
    """Decode booleans to bits, 64 rows at a time; nulls become zero."""
    cdef uint32_t[BLOCK] indices
    cdef int64_t row = 0, k = 0, done = 0, start = 0
    cdef uint64_t valid, bits
    cdef int i, step, more, count = 0, fault = FINE
    # With two entries the indices are bits themselves.
    cdef bint is_pair = page.encoding == DICT and page.entries == 2
    cdef uint64_t first = 0, second = 0
    if page.encoding == CONST or is_pair:
        first = 0 - <uint64_t>(page.meta[0] != 0)
    if is_pair:
        second = 0 - <uint64_t>(page.meta[1] != 0)
    while not fault and row < page.rows:
        step = <int>min(<int64_t>64, page.rows - row)
        valid = low_bits(step)
        if page.nulls != NULL:
            valid &= ~nulls_at(page, row, step)
        more = fm_popcount64(valid)
        if page.encoding == CONST:
            bits = first
        elif page.encoding == PLAIN:
            bits = fm_pack_bytes(page.data + k, more)
        elif is_pair:
            bits = fm_bits(page.data, page.data_size, page.value + k, more)
            bits = (bits & second) | (~bits & first)
        else:
            bits = 0
            for i in range(more):
                if k + i == done:
                    fault = next_indices(page, done, indices, &count)
                    if fault:
                        break
                    start = done
                    done += count
                bits |= <uint64_t>(page.meta[indices[k + i - start]] != 0) << i
        k += more
        store_bits(out, row, fm_spread_bits(bits, valid) & valid, step)
        row += 64
    return fault


# ---- Arrow arrays


cdef struct Root:
    ArrowArray* children
    ArrowArray** pointers


cdef struct Private:
    const void* buffers[3]
    PyObject* owner        # the pyarrow.Buffer


cdef void release_array(ArrowArray* array) noexcept nogil:
    cdef Private* private = <Private*>array.private_data
    if fm_begin_release() and Py_IsInitialized():  # an array may outlive the interpreter
        with gil:
            Py_XDECREF(private.owner)
    fm_end_release()
    free(private)
    array.release = NULL


@atexit.register
def _stop_releasing():
    """Let no thread ask for the GIL any more, and wait for those that do."""
    fm_close()
    with nogil:
        while fm_is_releasing():
            usleep(100)


cdef bint make_array(Column* column) noexcept:
    """Fill in the Arrow array of a column; return False without memory."""
    cdef Private* private = <Private*>malloc(sizeof(Private))
    cdef Page* page = &column.page
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


cdef int64_t value_bytes(const Page* page) noexcept nogil:
    """Return the bytes of the fixed-width buffer of the column: values or offsets."""
    if page.kind == BOOL:
        return (page.rows + 7) // 8
    if page.kind >= BINARY:
        return 4 * (page.rows + 1)
    return page.rows * arrow_width(page.kind)


cdef int measure(Column* column) noexcept nogil:
    """Compute the size of the buffer from the bytes that exist, not from declared sizes.

    It is also known if it is TOO_LARGE.
    """
    cdef Page* page = &column.page
    cdef int64_t strings = 0
    cdef int fault = FINE
    if page.encoding == ALL_NULL:
        return TOO_LARGE if page.kind >= BINARY and page.rows >= MAX_OFFSET else FINE
    column.validity = aligned((page.rows + 7) // 8) if page.rows > page.non_null else 0
    column.values = aligned(value_bytes(page))
    if page.kind >= BINARY:
        if page.encoding == PLAIN:
            strings = page.data_size - page.non_null  # each has a length of a byte or more
        else:
            fault = check_entries(page)
            if not fault and page.encoding == DICT:
                column.starts = find_entries(page)
                fault = FINE if column.starts != NULL else NO_MEMORY
            if not fault:
                fault = size_strings(column, &strings)
        if not fault and max(page.rows + 1, strings) > MAX_OFFSET:
            fault = TOO_LARGE
    column.size = aligned(column.validity + column.values + strings + OVERSHOOT)
    return fault


cdef int fill(Column* column) noexcept nogil:
    """Decode the page into the buffer."""
    cdef Page* page = &column.page
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
        repeat_string(page, <int32_t*>values, values + column.values)
    else:
        lookup_strings(column, <int32_t*>values, values + column.values)
    if nulls and not fault:
        spread_offsets(<int32_t*>values, page)
    return fault


cdef int fill_offsets(const Page* page, int32_t* out) noexcept nogil:
    """Decode lengths of lists to `page.rows + 1` offsets; null lists are empty."""
    cdef int64_t total = 0, i
    cdef int32_t length
    cdef int fault = FINE
    out[0] = 0
    fault = dense_fixed(page, <uint8_t*>(out + 1))
    if fault:
        return fault
    if page.rows > page.non_null:
        spread(<uint8_t*>(out + 1), 4, page)
    for i in range(page.rows):
        length = out[i + 1]
        if length < 0:
            return BAD_LENGTH
        total += length
        if total > MAX_OFFSET:
            return TOO_LARGE
        out[i + 1] = <int32_t>total
    return FINE


# ---- checks without a result


cdef int check_strings(const Page* page) noexcept nogil:
    """Check PLAIN strings as `plain_strings` does."""
    cdef Reader reader
    cdef int64_t i, size
    reader.at = page.data
    reader.end = page.data + page.data_size
    for i in range(page.non_null):
        size = varint(&reader)
        if size < 0:
            return BAD_VARINT
        if size > left(&reader):
            return TRUNCATED
        if page.kind == STRING and not is_utf8(reader.at, size):
            return BAD_UTF8
        reader.at += size
    return FINE


cdef int check_values(const Page* page) noexcept nogil:
    """Check the values of a portion, as decoding it would."""
    cdef uint32_t[BLOCK] indices
    cdef int64_t done = 0
    cdef int count = 0, fault = FINE
    cdef Reader reader
    if page.encoding == ALL_NULL:
        return FINE
    if page.encoding == PLAIN:
        if page.kind >= BINARY:
            return check_strings(page)
        reader.at = page.data
        reader.end = page.data + page.data_size
        return check_fixed(page, reader, page.non_null)
    if page.encoding == CONST and page.non_null == 0 and page.kind < BINARY:
        return FINE
    fault = check_entries(page) if page.kind >= BINARY else check_fixed(
        page, meta_of(page), page.entries)
    if fault or page.encoding == CONST or page.entries == <int64_t>1 << bit_width(page.entries):
        return fault
    while done < page.non_null and not fault:
        fault = next_indices(page, done, indices, &count)
        done += count
    return fault


cdef int sum_lengths(const Page* page, int64_t* total) noexcept nogil:
    """Add up the lengths of the lists in a portion."""
    cdef uint32_t[BLOCK] indices
    cdef int32_t length = 0, shortest = 0
    cdef int32_t* table
    cdef int64_t done = 0, i
    cdef int count = 0, fault
    cdef Reader reader = meta_of(page)
    total[0] = 0
    if page.non_null == 0:
        return FINE
    if page.encoding == PLAIN:
        for i in range(page.non_null):
            length = <int32_t>fm_swap32(fm_load32(page.data + 4 * i))
            shortest = min(shortest, length)
            total[0] += length
        return BAD_LENGTH if shortest < 0 else FINE
    table = <int32_t*>malloc(4 * page.entries + 4)
    if table == NULL:
        return NO_MEMORY
    fault = decode_fixed(page, &reader, page.entries, <uint8_t*>table)
    if not fault and page.entries == 1:
        shortest = table[0]
        total[0] = table[0] * page.non_null
        done = page.non_null
    while not fault and done < page.non_null:
        fault = next_indices(page, done, indices, &count)
        if fault:
            break
        for i in range(count):
            length = table[indices[i]]
            shortest = min(shortest, length)
            total[0] += length
        done += count
    free(table)
    return BAD_LENGTH if not fault and shortest < 0 else fault


cdef class Pages:
    """The pages of the columns of a bucket, located in a buffer but not yet decoded."""

    cdef Page* _pages
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _stop  # the data of columns from here on was not located
    cdef readonly int64_t surplus  # bytes after the pages, which nothing refers to
    cdef object _owner

    def __cinit__(self, const uint8_t[::1] kinds not None, const uint8_t[::1] digits not None,
                  rows not None, bint strict=True):
        cdef Py_ssize_t i
        self.count = self._stop = kinds.shape[0]
        if len(rows) != self.count or digits.shape[0] != self.count:
            raise ValueError(f"{len(rows)} row counts for {self.count} columns")
        self._pages = <Page*>calloc(self.count + 1, sizeof(Page))
        if self._pages == NULL:
            raise MemoryError
        for i in range(self.count):
            if kinds[i] >= NUM_KINDS and kinds[i] != ARRAY_BLOCK:
                raise ValueError(f"kind {kinds[i]}")
            if digits[i] > (MAX_DIGITS if kinds[i] in (DECIMAL64, DECIMAL128) else 0):
                raise ValueError(f"{digits[i]} digits of kind {kinds[i]}")
            self._pages[i].kind = kinds[i]
            self._pages[i].strict = strict
            self._pages[i].digits = digits[i] if strict else 0
            self._pages[i].rows = self._pages[i].non_null = rows[i]
            self._pages[i].encoding = ALL_NULL

    def __dealloc__(self):
        free(self._pages)

    @staticmethod
    def from_monolithic(data, int64_t start, kinds, digits, rows, int64_t stop, strict):
        """Locate the pages in a monolithic bucket whose flags are at `start`.

        Only columns before `stop` can be decoded. `digits` is the precision of each column that is
        a decimal; 0 for other columns. If not `strict`, decimals and times are not checked.
        """
        cdef const uint8_t[::1] view = data
        cdef Pages pages = Pages(kinds, digits, rows, strict)
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
        pages.surplus = left(&reader) if stop == pages.count else 0
        return pages

    @staticmethod
    def from_slots(slots, kinds, digits, rows, strict):
        """Locate the pages in decompressed slots; None if all rows are null."""
        cdef Pages pages = Pages(kinds, digits, rows, strict)
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
            pages.surplus += left(&reader)
        return pages

    cdef int _check(self, Py_ssize_t column) except -1:
        if not 0 <= column < self._stop:
            raise IndexError(f"column {column} of {self._stop}")
        return 0

    def bound(self, columns):
        """Return the memory that decoding all rows of `columns` takes at most."""
        cdef int64_t total = 0, zeros = 0
        cdef Py_ssize_t i
        cdef Page* page
        for i in columns:
            if not 0 <= i < self._stop:
                self._check(i)
            page = &self._pages[i]
            if page.encoding == ALL_NULL:
                zeros = max(zeros, value_bytes(page))
                continue
            total += value_bytes(page) + page.null_bytes
            if page.kind == BINARY or page.kind == STRING:
                total += page.data_size if page.encoding == PLAIN else (
                    page.non_null * longest_entry(page))
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

    def rows_left(self, Py_ssize_t column):
        """Return the number of rows that were not decoded, checked or skipped."""
        self._check(column)
        return self._pages[column].rows - self._pages[column].row

    def is_constant(self, Py_ssize_t column):
        """Return whether all rows are null, or all rows have the same value.

        The lists of an array data block may differ unless all are null.
        """
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        return page.non_null == 0 or (page.entries == 1 and page.non_null == page.rows)

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

    def entries(self, Py_ssize_t column, type, memory):
        """Return the dictionary entries in their order, or the constant, as an Arrow array."""
        cdef Pages plain
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        plain = Pages(bytes([page.kind]), bytes([page.digits]), [page.entries], page.strict)
        plain._owner = self
        plain._pages[0].encoding = PLAIN
        plain._pages[0].data = page.meta
        plain._pages[0].data_size = page.meta_size
        (array,) = plain.decode([0], [type], [page.entries], memory)
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
                    fm_unpack(page.data, page.data_size, bits, done, step, indices)
                    if not fm_all_below32(<uint8_t*>indices, step, <uint32_t>page.entries):
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

    def check(self, Py_ssize_t column, int64_t count):
        """Check the next `count` rows and move past them; return how many of them are null."""
        return self._pass(column, count, True, NULL)

    def skip(self, Py_ssize_t column, int64_t count):
        """Move past the next `count` rows; return how many of them are null."""
        return self._pass(column, count, False, NULL)

    def skip_lists(self, Py_ssize_t column, int64_t count):
        """Move past the next `count` rows of lengths; return their sum, and how many are null."""
        cdef int64_t total = 0
        nulls = self._pass(column, count, False, &total)
        return total, nulls

    cdef object _pass(self, Py_ssize_t column, int64_t count, bint check, int64_t* total):
        cdef Page portion
        cdef int fault
        self._check_lengths(column, total != NULL)
        with nogil:
            fault = take_portion(&self._pages[column], count, &portion)
            if not fault and check:
                fault = check_values(&portion)
            if not fault and total != NULL:
                fault = sum_lengths(&portion, total)
        if fault:
            _fail(fault, column)
        advance(&self._pages[column], &portion)
        return portion.rows - portion.non_null

    cdef int _check_lengths(self, Py_ssize_t column, bint lengths) except -1:
        self._check(column)
        if self._pages[column].kind == ARRAY_BLOCK:
            raise ValueError(f"column {column} is an array data block")
        if lengths and self._pages[column].kind != INT32:
            raise ValueError(f"column {column} contains no lengths")
        return 0

    def decode_lists(self, Py_ssize_t column, int64_t count, memory):
        """Decode the next `count` rows of a column of lengths.

        Return validity (None without nulls), offsets, number of nulls, and the sum of the lengths.
        """
        cdef Page portion
        cdef int32_t* out
        cdef uint8_t* bits = NULL
        cdef int fault
        self._check_lengths(column, True)
        fault = take_portion(&self._pages[column], count, &portion)
        if fault:
            _fail(fault, column)
        if count >= MAX_OFFSET:
            _fail(TOO_LARGE, column)
        nulls = count - portion.non_null
        if portion.encoding == ALL_NULL:
            zeros = memory.zeros(4 * (count + 1)).slice(0, 4 * (count + 1))
            advance(&self._pages[column], &portion)
            return zeros, zeros, nulls, 0
        memory.take(4 * (count + 1) + ((count + 7) // 8 if nulls else 0))
        offsets = _allocate(4 * (count + 1))
        out = <int32_t*><uintptr_t>offsets.address
        validity = None
        if nulls:
            validity = _allocate((count + 7) // 8)
            bits = <uint8_t*><uintptr_t>validity.address
        with nogil:
            if bits != NULL:
                fill_validity(bits, &portion)
            fault = fill_offsets(&portion, out)
        if fault:
            _fail(fault, column)
        advance(&self._pages[column], &portion)
        return validity, offsets, nulls, out[count]

    def decode(self, columns, types, counts, memory):
        """Decode the next rows of `columns`, as many as `counts`, to arrays of the Arrow `types`."""
        cdef Py_ssize_t k
        cdef Batch batch = Batch(len(columns))
        self.decode_into(columns, counts, batch, range(len(columns)), memory)
        result = []
        for k in range(batch.count):
            result.append(_import_array(<uintptr_t>&batch._root.children[k], types[k]))
        return result

    def measure(self, columns, counts):
        """Return the memory that decoding the next rows takes: that of the columns, and zeros."""
        cdef Plan plan = Plan(len(columns))
        plan.measure(self, columns, counts)
        return plan.total, plan.zeros

    def decode_into(self, columns, counts, Batch batch not None, places, memory):
        """Decode the next rows of `columns`, as many as `counts`, into `batch`, at their `places`.

        `counts` is one number for all columns, or one for each.

        A column must not occur twice. `memory.take` is called with the size of the result before it is allocated, and
        `memory.zeros` for the values of columns that are null.
        """
        cdef Py_ssize_t k
        cdef Plan plan = Plan(len(columns))
        cdef Column* column
        cdef int fault = FINE
        plan.measure(self, columns, counts)
        if plan.too_large:
            _fail(TOO_LARGE, 0)
        memory.take(plan.total)
        plan.allocate(memory.zeros(plan.zeros) if plan.zeros else None)
        with nogil:
            for k in range(plan.count):
                fault = fill(&plan.columns[k])
                if fault:
                    break
        if fault:
            _fail(fault, columns[k])
        for k in range(plan.count):
            column = &plan.columns[k]
            column.array = batch._child(places[k])
            if column.array.release != NULL:
                raise ValueError(f"place {places[k]} is taken")
            if not make_array(column):
                raise MemoryError
            advance(column.whole, &column.page)


cdef class Plan:
    """What decoding some columns takes."""

    cdef Column* columns
    cdef Py_ssize_t count
    cdef int64_t total
    cdef int64_t zeros   # bytes of zeros for columns that are null
    cdef bint too_large  # for Arrow's offsets

    def __cinit__(self, Py_ssize_t count):
        self.count = count
        self.columns = <Column*>calloc(count + 1, sizeof(Column))
        if self.columns == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self.count):
            Py_XDECREF(self.columns[k].owner)
            free(self.columns[k].starts)
        free(self.columns)

    cdef int measure(self, Pages pages, columns, counts) except -1:
        cdef Py_ssize_t i, k
        cdef Column* column
        cdef int fault = FINE
        cdef int64_t same = counts if isinstance(counts, int) else -1
        for k in range(self.count):
            i = columns[k]
            if not 0 <= i < pages._stop or pages._pages[i].kind == ARRAY_BLOCK:
                pages._check_lengths(i, False)
            self.columns[k].whole = &pages._pages[i]
            self.columns[k].page.rows = same if same >= 0 else <int64_t>counts[k]
        with nogil:
            for k in range(self.count):
                column = &self.columns[k]
                fault = take_portion(column.whole, column.page.rows, &column.page)
                if not fault:
                    fault = measure(column)
                if fault == TOO_LARGE:
                    self.too_large = True
                elif fault:
                    break
                fault = FINE
                self.total += column.size
                if column.page.encoding == ALL_NULL:
                    self.zeros = max(self.zeros, value_bytes(&column.page) + 64)
        if fault:
            _fail(fault, columns[k])
        return 0

    cdef int allocate(self, zeros) except -1:
        """Allocate the memory of each column: its own, a shared buffer, or zeros."""
        cdef Py_ssize_t k
        cdef int64_t at = 0
        cdef bint share = self.total <= MAX_SHARED_BYTES
        shared = _allocate(self.total) if share and self.total else None
        for k in range(self.count):
            if self.columns[k].page.encoding == ALL_NULL:
                own(&self.columns[k], zeros, 0)
            elif share:
                own(&self.columns[k], shared, at)
                at += self.columns[k].size
            else:
                own(&self.columns[k], _allocate(self.columns[k].size), 0)
                if self.columns[k].size >= HUGE_BYTES:
                    fm_use_huge_pages(self.columns[k].data, self.columns[k].size)
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
    """A page cannot be decoded; `column` is its number."""

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
