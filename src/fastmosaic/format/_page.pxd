# cython: language_level=3, cdivision=True
"""Pages of columns, for the kernels: find the parts of a page in the bytes of a bucket.

The bytes are not trusted: every read is checked against the end of its part, and every count
against the remaining bytes, before memory is allocated.
"""

from libc.stdint cimport int64_t, uint8_t

from fastmosaic.format._values cimport fm_count_bits
from fastmosaic.format._wire cimport (
    ALL_NULL, ARRAY_BLOCK, BINARY, CONST, DICT, INT8, INT16, INT32, INT64, PLAIN, TIME, TIMESTAMP_NS,
    Reader, bit_width, fm_bits, left, skip_values, uint64_t, varint,
)

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

cdef enum:
    IDLE = 65536  # entries that a dictionary may have, however few rows there are


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


cdef inline int check_encoding(Page* page) noexcept nogil:
    """Check that a column of this kind may have this encoding."""
    if page.kind == ARRAY_BLOCK and page.encoding != ALL_NULL:
        if page.encoding != PLAIN or page.has_nulls:
            return BAD_BLOCK
    return FINE


cdef inline int take_meta(Page* page, Reader* reader) noexcept nogil:
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


cdef inline int64_t count_values(const Page* page) noexcept nogil:
    """Count the rows that are not null."""
    if page.encoding == ALL_NULL:
        return 0
    if page.nulls == NULL:
        return page.rows
    return page.rows - fm_count_bits(page.nulls, page.null_bytes, page.row, page.rows)


cdef inline int take_nulls(Page* page, Reader* reader) noexcept nogil:
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


cdef inline int take_data(Page* page, Reader* reader, bint is_last) noexcept nogil:
    """Find the data of a page. If it is the last part of the bytes, it need not be looked through."""
    cdef int64_t size
    cdef int fault = FINE
    page.data = reader.at
    if page.encoding == PLAIN and page.kind == ARRAY_BLOCK:
        fault = FINE if skip_values(reader, BINARY, 1) else TRUNCATED
    elif page.encoding == PLAIN and is_last and page.kind >= BINARY:
        # Decoding finds out whether the lengths are right, and ignores what follows.
        if left(reader) < page.non_null:
            return TRUNCATED
        reader.at = reader.end
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


cdef inline int split(Page* pages, int64_t count, int64_t stop, Reader* reader, int64_t* at) noexcept nogil:
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
        fault = take_data(&pages[i], reader, False)
        if fault:
            return fault
    return FINE


cdef inline int open_page(Page* page, Reader* reader, bint is_last) noexcept nogil:
    """Find the parts of the page of one column; `is_last` as for `take_data`."""
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
        fault = take_data(page, reader, is_last)
    return fault


cdef inline int take_portion(const Page* page, int64_t count, Page* portion) noexcept nogil:
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


cdef inline void advance(Page* page, const Page* portion) noexcept nogil:
    page.row += portion.rows
    page.value += portion.non_null
    if page.encoding == PLAIN:
        page.data += portion.data_size
        page.data_size -= portion.data_size


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
