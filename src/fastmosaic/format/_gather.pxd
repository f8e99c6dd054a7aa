# cython: language_level=3, cdivision=True
"""Pages with only some rows of other pages, for the kernels.

A gathered page has the same kind and a PLAIN, CONST, DICT or ALL_NULL encoding, so everything that
decodes pages decodes it, too. Rows are ascending ranges, (start, stop) one after another. Values
that nobody asked for are passed over, not checked.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from fastmosaic.format._page cimport (
    BAD_INDEX, BAD_LENGTH, FINE, NO_MEMORY, TOO_FEW, TRUNCATED, Page,
)
from fastmosaic.format._values cimport fm_count_bits
from fastmosaic.format._wire cimport (
    ALL_NULL, ARRAY_BLOCK, CONST, DICT, INT32, PLAIN, Reader, bit_width, fm_bits, fm_copy, fm_load32,
    fm_load64, fm_store64, fm_swap32, skip_values, uint32_t, uint64_t, width_of,
)

cdef enum:
    PADDING = 16  # bytes after a bitmap or packed indices, which are written as words


# Values of a page that are one after another: those of one range.
cdef struct Piece:
    int64_t value  # the number of the first one
    int64_t count
    const uint8_t* at  # of variable width: where they are stored
    int64_t size


cdef inline void put_bits(uint8_t* bits, int64_t at, uint64_t word) noexcept nogil:
    """Add up to 57 bits at bit `at` to bits that are zero; up to PADDING bytes are written."""
    fm_store64(bits + (at >> 3), fm_load64(bits + (at >> 3)) | word << (at & 7))


cdef inline int find_pieces(const Page* page, const int64_t* ranges, int64_t count, Page* out,
                            Piece* pieces) noexcept nogil:
    """Check the ranges; find the values of each, and how many rows and values there are."""
    cdef int64_t i, start, stop, row = 0, value = 0
    out.rows = out.non_null = 0
    for i in range(count):
        start, stop = ranges[2 * i], ranges[2 * i + 1]
        if start < row or stop <= start or stop > page.rows:
            return TOO_FEW
        out.rows += stop - start
        pieces[i].count = stop - start
        value += start - row
        if page.nulls != NULL:
            value -= fm_count_bits(page.nulls, page.null_bytes, row, start - row)
            pieces[i].count -= fm_count_bits(page.nulls, page.null_bytes, start, stop - start)
        pieces[i].value = value
        value += pieces[i].count
        out.non_null += pieces[i].count
        row = stop
    return FINE


cdef inline void gather_nulls(const Page* page, const int64_t* ranges, int64_t count,
                              uint8_t* bits) noexcept nogil:
    """Copy the null bits of the ranges to `bits`, which are zero."""
    cdef int64_t i, row, at = 0
    cdef int step
    for i in range(count):
        row = ranges[2 * i]
        while row < ranges[2 * i + 1]:
            step = <int>min(<int64_t>56, ranges[2 * i + 1] - row)
            put_bits(bits, at, fm_bits(page.nulls, page.null_bytes, row, step))
            row += step
            at += step


cdef inline uint32_t index_at(const Page* page, int width, int64_t value) noexcept nogil:
    return <uint32_t>fm_bits(page.data, page.data_size, value * width, width)


cdef inline int walk(const Page* page, Piece* pieces, int64_t count, int64_t* size) noexcept nogil:
    """Find where values with lengths of their own are stored, and the bytes of all of them."""
    cdef Reader reader
    cdef int64_t i, value = 0
    reader.at = page.data
    reader.end = page.data + page.data_size
    size[0] = 0
    for i in range(count):
        if pieces[i].count == 0:
            continue
        if not skip_values(&reader, page.kind, pieces[i].value - value):
            return TRUNCATED
        pieces[i].at = reader.at
        if not skip_values(&reader, page.kind, pieces[i].count):
            return TRUNCATED
        pieces[i].size = reader.at - pieces[i].at
        size[0] += pieces[i].size
        value = pieces[i].value + pieces[i].count
    return FINE


cdef inline int gather_plain(const Page* page, Piece* pieces, int64_t count, int64_t null_bytes,
                             Page* out, uint8_t** memory) noexcept nogil:
    cdef int width = width_of(page.kind), fault
    cdef int64_t i, size = out.non_null * width
    cdef uint8_t* at
    if width == 0:
        fault = walk(page, pieces, count, &size)
        if fault:
            return fault
    memory[0] = <uint8_t*>malloc(null_bytes + size + PADDING)
    if memory[0] == NULL:
        return NO_MEMORY
    at = memory[0] + null_bytes
    out.data = at
    out.data_size = size
    for i in range(count):
        if width:
            pieces[i].at = page.data + pieces[i].value * width
            pieces[i].size = pieces[i].count * width
        if pieces[i].count:
            fm_copy(at, pieces[i].at, pieces[i].size)
            at += pieces[i].size
    return FINE


cdef inline int gather_fixed_entries(const Page* page, const Piece* pieces, int64_t count,
                                     int64_t null_bytes, Page* out, uint8_t** memory) noexcept nogil:
    """Make a PLAIN page of the values of a DICT page."""
    cdef int bits = bit_width(page.entries), width = width_of(page.kind)
    cdef int64_t i, k
    cdef uint32_t index
    cdef uint8_t* at
    memory[0] = <uint8_t*>malloc(null_bytes + out.non_null * width + PADDING)
    if memory[0] == NULL:
        return NO_MEMORY
    at = memory[0] + null_bytes
    out.encoding = PLAIN
    out.data = at
    out.data_size = out.non_null * width
    for i in range(count):
        for k in range(pieces[i].value, pieces[i].value + pieces[i].count):
            index = index_at(page, bits, k)
            if index >= page.entries:
                return BAD_INDEX
            fm_copy(at, page.meta + width * <int64_t>index, width)
            at += width
    return FINE


cdef inline int gather_entries(const Page* page, const Piece* pieces, int64_t count,
                               int64_t null_bytes, Page* out, uint8_t** memory) noexcept nogil:
    """Make a DICT page, or a CONST page, of those entries that are used.

    A PLAIN page could be much larger than the file if few long entries are used by many rows.
    """
    cdef uint32_t* places = <uint32_t*>calloc(page.entries + 1, sizeof(uint32_t))
    cdef int fault = NO_MEMORY if places == NULL else FINE
    if not fault:
        fault = fill_entries(page, pieces, count, null_bytes, places, out, memory)
    free(places)
    return fault


cdef inline int fill_entries(const Page* page, const Piece* pieces, int64_t count,
                             int64_t null_bytes, uint32_t* places, Page* out,
                             uint8_t** memory) noexcept nogil:
    """Fill in the page; `places` are zeros, one for each entry and one more."""
    cdef int bits = bit_width(page.entries)
    cdef int64_t i, k, last = -1, used = 0, done = 0
    cdef const uint8_t* start
    cdef uint8_t* at
    cdef uint32_t index
    cdef Reader reader
    for i in range(count):
        for k in range(pieces[i].value, pieces[i].value + pieces[i].count):
            index = index_at(page, bits, k)
            if index >= page.entries:
                return BAD_INDEX
            places[index] = 1
            last = max(last, <int64_t>index)
    out.meta_size = 0
    reader.at = page.meta
    reader.end = page.meta + page.meta_size
    for i in range(last + 1):
        start = reader.at
        if not skip_values(&reader, page.kind, 1):
            return TRUNCATED
        if places[i]:
            out.meta_size += reader.at - start
            used += 1
    out.entries = used
    out.encoding = CONST if used == 1 else DICT
    out.data_size = (out.non_null * bit_width(used) + 7) // 8
    memory[0] = <uint8_t*>calloc(null_bytes + out.meta_size + out.data_size + PADDING, 1)
    if memory[0] == NULL:
        return NO_MEMORY
    # Decoding relies on it that there are bytes after the entries.
    at = memory[0] + null_bytes
    out.meta = at
    out.data = at + out.meta_size
    reader.at = page.meta
    used = 0
    for i in range(last + 1):
        start = reader.at
        skip_values(&reader, page.kind, 1)
        if places[i]:
            fm_copy(at, start, reader.at - start)
            at += reader.at - start
            places[i] = <uint32_t>used
            used += 1
    if out.encoding == CONST:
        return FINE
    for i in range(count):
        for k in range(pieces[i].value, pieces[i].value + pieces[i].count):
            put_bits(at, done, places[index_at(page, bits, k)])
            done += bit_width(used)
    return FINE


cdef inline int gather_pieces(const Page* page, const int64_t* ranges, int64_t count,
                              Piece* pieces, Page* out, uint8_t** memory) noexcept nogil:
    cdef int64_t null_bytes = 0
    cdef int fault = find_pieces(page, ranges, count, out, pieces)
    out.nulls = NULL
    out.null_bytes = 0
    out.has_nulls = out.non_null < out.rows
    if fault:
        return fault
    if page.encoding == ALL_NULL or out.non_null == 0:
        out.encoding = ALL_NULL
        out.non_null = 0
        out.entries = out.meta_size = out.data_size = 0
        return FINE
    if out.has_nulls:
        out.null_bytes = (out.rows + 7) // 8
        null_bytes = out.null_bytes + PADDING
    if page.encoding == PLAIN:
        fault = gather_plain(page, pieces, count, null_bytes, out, memory)
    elif page.encoding == CONST or page.entries == 1:
        out.encoding = CONST
        if null_bytes:
            memory[0] = <uint8_t*>malloc(null_bytes)
            fault = FINE if memory[0] != NULL else NO_MEMORY
    elif width_of(page.kind):
        fault = gather_fixed_entries(page, pieces, count, null_bytes, out, memory)
    else:
        fault = gather_entries(page, pieces, count, null_bytes, out, memory)
    if not fault and null_bytes:
        memset(memory[0], 0, null_bytes)
        gather_nulls(page, ranges, count, memory[0])
        out.nulls = memory[0]
    return fault


cdef inline int gather(const Page* page, const int64_t* ranges, int64_t count, Page* out,
                       uint8_t** memory) noexcept nogil:
    """Make a page of `count` ranges of rows of a page, of which nothing was decoded yet.

    What it needs besides the bytes of `page` is allocated at `memory`, and for the caller to free.
    """
    cdef Piece[4] few
    cdef Piece* pieces = few
    cdef int fault
    memory[0] = NULL
    out[0] = page[0]
    if page.row or page.kind == ARRAY_BLOCK and page.encoding != ALL_NULL:
        return TOO_FEW
    if count > 4:
        pieces = <Piece*>malloc(count * sizeof(Piece))
        if pieces == NULL:
            return NO_MEMORY
    fault = gather_pieces(page, ranges, count, pieces, out, memory)
    if count > 4:
        free(pieces)
    return fault


cdef inline int64_t length_at(const Page* page, int bits, int64_t value) noexcept nogil:
    """Return the length that is number `value` of a page; -1 if it is broken."""
    cdef const uint8_t* at = page.meta
    cdef int64_t index
    if page.encoding == PLAIN:
        at = page.data + 4 * value
    elif bits:
        index = index_at(page, bits, value)
        if index >= page.entries:
            return -1
        at += 4 * index
    return <int32_t>fm_swap32(fm_load32(at))


cdef inline int element_ranges(const Page* page, const int64_t* ranges, int64_t count,
                               int64_t num_elements, int64_t* out, int64_t* found) noexcept nogil:
    """Find the elements of ranges of lists, whose lengths are in `page`.

    `out` has room for `count` ranges; those that are not empty are `found`.
    """
    cdef int bits = bit_width(page.entries) if page.encoding == DICT else 0
    cdef int64_t i, k, length, row = 0, value = 0, element = 0, start, stop
    found[0] = 0
    if page.encoding == ALL_NULL:
        return FINE
    if page.kind != INT32 or page.row:
        return TOO_FEW
    for i in range(2 * count):  # the elements before each start, and each stop
        if not row <= ranges[i] <= page.rows:
            return TOO_FEW
        stop = value + ranges[i] - row
        if page.nulls != NULL:
            stop -= fm_count_bits(page.nulls, page.null_bytes, row, ranges[i] - row)
        start = element
        if page.encoding == PLAIN or bits:
            for k in range(value, stop):
                length = length_at(page, bits, k)
                if length < 0:
                    return BAD_LENGTH
                element += length
        elif stop > value:
            length = length_at(page, 0, 0)
            if length < 0:
                return BAD_LENGTH
            element += length * (stop - value)
        if element > num_elements:
            return TOO_FEW
        if i & 1 and element > start:
            if found[0] and out[2 * found[0] - 1] == start:
                out[2 * found[0] - 1] = element
            else:
                out[2 * found[0]] = start
                out[2 * found[0] + 1] = element
                found[0] += 1
        row = ranges[i]
        value = stop
    return FINE
