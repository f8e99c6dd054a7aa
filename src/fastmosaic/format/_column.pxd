# cython: language_level=3, cdivision=True
"""Columns, for the kernels: measure, decode and check the rows of a page."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._page cimport (
    BAD_DECIMAL, BAD_DIGITS, BAD_INDEX, BAD_LENGTH, BAD_NANOS, BAD_TIME, BAD_UTF8, BAD_VARINT, FINE,
    IDLE, NANOS_OVERFLOW, NO_MEMORY, TOO_LARGE, TRUNCATED, Page, arrow_width, nulls_at,
)
from fastmosaic.format._values cimport (
    fm_all_below32, fm_all_within64, fm_invert_bits, fm_join_all96, fm_pack_bytes, fm_power_of_ten, fm_spread,
    fm_spread_bits, fm_spread_offsets, fm_swap_all16, fm_swap_all32, fm_swap_all64, fm_unpack,
    fm_widen_all64,
)
from fastmosaic.format._wire cimport (
    ALL_NULL, BINARY, BOOL, CONST, DAY, DECIMAL64, DECIMAL128, DICT, INT8, INT16, INT32, INT64, PLAIN,
    STRING, TIME, TIMESTAMP_NS, Reader, bit_width, fm_bits, fm_has_digits, fm_is_ascii, fm_load16,
    fm_load32, fm_load64, fm_popcount64, fm_store16, fm_store32, fm_store64, fm_swap16, fm_swap32,
    fm_swap64, is_utf8, left, skip_values, uint32_t, uint64_t, varint, width_of,
)

cdef enum:
    MAX_OFFSET = 2147483647  # of Arrow's strings and lists
    OVERSHOOT = 32  # bytes that short copies may write beyond the end
    BLOCK = 1024  # values per block, which fit in the first-level cache
    COPY_BYTES = 1 << 18


# ---- values, densely: one after another, without the nulls


cdef inline int decode_decimals(Reader* reader, int64_t count, uint8_t* out) noexcept nogil:
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


cdef inline int decode_unchecked(Reader* reader, int kind, int64_t count, uint8_t* out) noexcept nogil:
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


cdef inline int join_timestamps(const uint8_t* at, int64_t count, uint8_t* out) noexcept nogil:
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


cdef inline int decode_fixed(const Page* page, Reader* reader, int64_t count, uint8_t* out) noexcept nogil:
    """Decode `count` values of a kind other than BINARY and STRING, and check their range."""
    cdef const uint8_t* stored = reader.at
    cdef int fault = decode_unchecked(reader, page.kind, count, out)
    cdef int64_t i
    if fault:
        return fault
    if page.digits and page.kind == DECIMAL64:
        # More digits than these have no limit in 64 bits.
        if page.digits < 19 and not fm_all_within64(stored, count, fm_power_of_ten(page.digits)):
            return BAD_DIGITS
    elif page.digits:
        for i in range(count):
            if not fm_has_digits(fm_load64(out + 16 * i), fm_load64(out + 16 * i + 8), page.digits):
                return BAD_DIGITS
    elif page.kind == TIME and page.strict and not fm_all_below32(out, count, DAY):
        return BAD_TIME
    return FINE


cdef inline void repeat(uint8_t* out, int64_t width, int64_t count) noexcept nogil:
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


cdef inline int check_fixed(const Page* page, Reader reader, int64_t count) noexcept nogil:
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


cdef inline int next_indices(const Page* page, int64_t done, uint32_t* indices, int* count) noexcept nogil:
    """Read up to BLOCK indices of a DICT page, and check them."""
    cdef int width = bit_width(page.entries)
    count[0] = <int>min(<int64_t>BLOCK, page.non_null - done)
    fm_unpack(page.data, page.data_size, width, page.value + done, count[0], indices)
    # All indices are valid if every number of that many bits has an entry.
    if page.entries == <int64_t>1 << width:
        return FINE
    return FINE if fm_all_below32(<uint8_t*>indices, count[0], <uint32_t>page.entries) else BAD_INDEX


cdef inline uint32_t* find_entries(const Page* page) noexcept nogil:
    """Return where each entry of a dictionary starts, after its length; NULL without memory."""
    cdef uint32_t* starts = <uint32_t*>malloc((page.entries + 1) * sizeof(uint32_t))
    cdef Reader reader = meta_of(page)
    cdef int64_t i
    if starts != NULL:
        for i in range(page.entries):
            starts[i] = <uint32_t>(reader.at - page.meta)
            skip_values(&reader, page.kind, 1)  # `take_meta` did so before
    return starts


cdef inline int lookup_decoded(const Page* page, uint8_t* out) noexcept nogil:
    """Decode the values of a DICT page by a table of its decoded entries."""
    cdef int width = arrow_width(page.kind), count = 0, i
    cdef uint32_t[BLOCK] indices
    cdef int64_t done = 0
    cdef Reader reader = meta_of(page)
    cdef uint8_t* table = <uint8_t*>malloc(width * page.entries + 16)
    cdef int fault = NO_MEMORY
    if table != NULL:
        fault = decode_fixed(page, &reader, page.entries, table)
    while not fault and done < page.non_null:
        fault = next_indices(page, done, indices, &count)
        if fault:
            break
        if width == 8:
            for i in range(count):
                memcpy(out + 8 * i, table + 8 * <int64_t>indices[i], 8)
        else:
            for i in range(count):
                memcpy(out + 16 * i, table + 16 * <int64_t>indices[i], 16)
        out += width * count
        done += count
    free(table)
    return fault


cdef inline int lookup_decimals(const Page* page, uint8_t* out) noexcept nogil:
    """Decode the values of a DICT page of decimals, whose entries have lengths of their own."""
    cdef uint32_t[BLOCK] indices
    cdef int64_t done = 0
    cdef int count = 0, i
    cdef Reader reader = meta_of(page)
    cdef int fault = check_fixed(page, reader, page.entries)
    cdef uint32_t* starts = find_entries(page)
    if starts == NULL:
        return NO_MEMORY
    while not fault and done < page.non_null:
        fault = next_indices(page, done, indices, &count)
        if fault:
            break
        for i in range(count):
            reader = meta_of(page)
            reader.at += starts[indices[i]]
            decode_decimals(&reader, 1, out + 16 * i)
        out += 16 * count
        done += count
    free(starts)
    return fault


cdef inline int lookup_fixed(const Page* page, uint8_t* out) noexcept nogil:
    """Decode the values of a DICT page.

    Most kinds are decoded from the entries as they are stored: a table of decoded entries would
    take longer to make than it saves. Kinds whose entries are checked have one, if it is not large.
    """
    cdef int width = arrow_width(page.kind), count = 0, i, fault = FINE
    cdef const uint8_t* meta = page.meta
    cdef uint32_t[BLOCK] indices
    cdef uint8_t[12 * BLOCK] stored
    cdef int64_t done = 0
    cdef Reader reader
    if width >= 8 and page.kind != INT64 and not is_large(page):
        return lookup_decoded(page, out)
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


cdef inline int dense_fixed(const Page* page, uint8_t* out) noexcept nogil:
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


cdef inline int plain_strings(const Page* page, int32_t* offsets, uint8_t* out) noexcept nogil:
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
        # Each string that follows has a length of a byte or more: `measure` relies on it.
        if size > left(&reader) - (page.non_null - 1 - i):
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


cdef inline int check_entries(const Page* page) noexcept nogil:
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


cdef inline int64_t longest_entry(const Page* page) noexcept nogil:
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
    uint8_t* gathered      # memory of the page, if it has only some rows of `whole`
    uint8_t* data
    void* owner            # of the memory that `data` is in
    int64_t place          # among the columns in that memory
    ArrowArray* array      # the result


cdef inline int size_strings(Column* column, int64_t* total) noexcept nogil:
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


cdef inline void repeat_string(const Page* page, int32_t* offsets, uint8_t* out) noexcept nogil:
    cdef Entry entry = entry_at(page, page.meta)
    cdef int64_t i
    for i in range(page.non_null + 1):
        offsets[i] = <int32_t>(i * entry.size)
    if page.non_null and entry.size > 0:
        memcpy(out, entry.text, entry.size)
        repeat(out, entry.size, page.non_null)


cdef inline void lookup_strings(const Column* column, int32_t* offsets, uint8_t* out) noexcept nogil:
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


cdef inline void fill_validity(uint8_t* out, const Page* page) noexcept nogil:
    fm_invert_bits(out, page.nulls, page.null_bytes, page.row, page.rows)


cdef inline int fill_booleans(const Page* page, uint8_t* out) noexcept nogil:
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


# ---- columns


cdef inline int64_t aligned(int64_t size) noexcept nogil:
    return (size + 63) & ~<int64_t>63


cdef inline int64_t value_bytes(const Page* page) noexcept nogil:
    """Return the bytes of the fixed-width buffer of the column: values or offsets."""
    if page.kind == BOOL:
        return (page.rows + 7) // 8
    if page.kind >= BINARY:
        return 4 * (page.rows + 1)
    return page.rows * arrow_width(page.kind)


cdef inline int measure(Column* column) noexcept nogil:
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


cdef inline int fill(Column* column) noexcept nogil:
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


cdef inline int fill_offsets(const Page* page, int32_t* out) noexcept nogil:
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


cdef inline int check_strings(const Page* page) noexcept nogil:
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


cdef inline int check_values(const Page* page) noexcept nogil:
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


cdef inline int sum_lengths(const Page* page, int64_t* total) noexcept nogil:
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
