# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Encode Arrow arrays as the pages of a bucket, column by column, without the GIL.

A column may have several chunks. It is processed in blocks of values that are not null: numbers as
64-bit integers, strings as pointers and lengths. A first pass looks for a constant or a dictionary.
If neither makes the page smaller, a second pass writes the values as PLAIN.
"""

from libc.stdint cimport INT64_MAX, UINT32_MAX, int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._wire cimport (
    ALL_NULL, ARRAY_BLOCK, BINARY, BOOL, CONST, DECIMAL64, DECIMAL128, DICT, INT8, INT16, INT32, NUM_KINDS,
    PLAIN, STRING, TIME, TIMESTAMP_NS, DAY, MAX_DIGITS, bit_width, fm_bits, fm_copy, fm_ctz64, fm_equal, fm_has_digits, fm_is_ascii,
    fm_load16, fm_load32, fm_load64, fm_popcount64, fm_store16, fm_store32, fm_store64, fm_swap16, fm_swap32, fm_swap64, is_utf8,
    put_varint, uint32_t, uint64_t, varint_size, width_of,
)

cdef extern from "Python.h":
    const char* PyBytes_AsString(object o) except NULL


cdef class ArrowColumns:
    """The arrays of one batch, as C structures that this object keeps alive."""

    cdef ArrowArray** _arrays
    cdef ArrowArray _batch
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _room
    cdef list _own  # addresses of arrays that were exported separately

    def __cinit__(self, batch):
        cdef Py_ssize_t i
        self._own = []
        memset(&self._batch, 0, sizeof(ArrowArray))
        batch._export_to_c(<uintptr_t>&self._batch)
        self.count = self._room = self._batch.n_children
        self._arrays = <ArrowArray**>malloc((self._room + 1) * sizeof(ArrowArray*))
        if self._arrays == NULL:
            raise MemoryError
        for i in range(self.count):
            self._arrays[i] = self._batch.children[i]

    def __dealloc__(self):
        cdef ArrowArray* array
        cdef uintptr_t address
        if self._own is not None:
            for item in self._own:
                address = item
                array = <ArrowArray*>address
                array.release(array)
                free(array)
        if self._batch.release != NULL:
            self._batch.release(&self._batch)
        free(self._arrays)

    cdef ArrowArray* _export(self, array) except NULL:
        cdef ArrowArray* exported = <ArrowArray*>calloc(1, sizeof(ArrowArray))
        if exported == NULL:
            raise MemoryError
        try:
            array._export_to_c(<uintptr_t>exported)
        except BaseException:
            free(exported)
            raise
        self._own.append(<uintptr_t>exported)
        return exported

    def put(self, Py_ssize_t index, array):
        """Replace column `index` with `array`."""
        if not 0 <= index < self.count:
            raise IndexError(f"column {index} of {self.count}")
        self._arrays[index] = self._export(array)

    def append(self, array):
        """Append a column and return its index."""
        cdef ArrowArray** arrays
        if self.count == self._room:
            arrays = <ArrowArray**>realloc(
                self._arrays, (2 * self._room + 8) * sizeof(ArrowArray*))
            if arrays == NULL:
                raise MemoryError
            self._arrays = arrays
            self._room = 2 * self._room + 8
        self._arrays[self.count] = self._export(array)
        self.count += 1
        return self.count - 1

    def sizes(self, const uint8_t[::1] kinds not None):
        """Return (bytes of all non-null values as PLAIN, bytes of all Arrow buffers)."""
        cdef int64_t plain = 0, arrow = 0, size
        cdef Py_ssize_t i
        if kinds.shape[0] != self.count:
            raise ValueError(f"{kinds.shape[0]} kinds for {self.count} columns")
        with nogil:
            for i in range(self.count):
                size = plain_size(self._arrays[i], kinds[i])
                plain += size
                arrow += arrow_size(self._arrays[i], kinds[i], size)
        return plain, arrow


# ---- Arrow arrays


cdef inline const uint8_t* validity_of(const ArrowArray* array) noexcept nogil:
    """Return the validity bitmap, or NULL if there are no nulls."""
    if array.null_count == 0:
        return NULL
    return <const uint8_t*>array.buffers[0]


cdef inline int64_t bitmap_size(const ArrowArray* array) noexcept nogil:
    return (array.offset + array.length + 7) // 8


cdef inline bint is_valid(const ArrowArray* array, int64_t i) noexcept nogil:
    cdef const uint8_t* validity = validity_of(array)
    cdef int64_t bit = array.offset + i
    return validity == NULL or validity[bit >> 3] >> (bit & 7) & 1


cdef int64_t count_valid(const ArrowArray* array) noexcept nogil:
    cdef const uint8_t* validity = validity_of(array)
    cdef int64_t row = 0, valid = 0
    if validity == NULL:
        return array.length
    if array.null_count > 0:
        return array.length - array.null_count
    while row < array.length:
        valid += fm_popcount64(fm_bits(validity, bitmap_size(array), array.offset + row,
                                       <int>min(64, array.length - row)))
        row += 64
    return valid


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


cdef int64_t plain_size(const ArrowArray* array, int kind) noexcept nogil:
    cdef int64_t valid = count_valid(array), total = 0, i
    cdef const int32_t* offsets
    cdef const uint8_t* validity = validity_of(array)
    cdef const uint8_t* decimals
    cdef uint64_t size
    if width_of(kind):
        return valid * width_of(kind)
    if valid == 0:
        return 0
    if kind == DECIMAL128:
        decimals = <const uint8_t*>array.buffers[1] + 16 * array.offset
        for i in range(array.length):
            if is_valid(array, i):
                total += 1 + decimal_size(fm_load64(decimals + 16 * i),
                                          <int64_t>fm_load64(decimals + 16 * i + 8))
        return total
    offsets = <const int32_t*>array.buffers[1] + array.offset
    if validity == NULL:
        total = offsets[array.length] - offsets[0]
        for i in range(array.length):
            total += varint_size(<uint32_t>(offsets[i + 1] - offsets[i]))
        return total
    for i in range(array.length):
        size = <uint32_t>(offsets[i + 1] - offsets[i])
        if is_valid(array, i):
            total += size + varint_size(size)
    return total


cdef int64_t arrow_size(const ArrowArray* array, int kind, int64_t plain) noexcept nogil:
    cdef int64_t size = array.length // 8 if validity_of(array) != NULL else 0
    if kind == BOOL:
        return size + array.length // 8
    if kind >= BINARY:
        return size + 4 * array.length + plain
    if kind == DECIMAL64 or kind == DECIMAL128:
        return size + 16 * array.length
    if kind == TIMESTAMP_NS:
        return size + 8 * array.length
    return size + width_of(kind) * array.length


# ---- dense values


cdef struct Value:
    uint64_t low       # a number, or the length of a string
    uint64_t high      # the upper half of a decimal, or the address of a string


cdef inline void load_value(const ArrowArray* array, int kind, int64_t i,
                            Value* value) noexcept nogil:
    """Return the value of row `i`, counted from the start of the buffers."""
    cdef const uint8_t* data = <const uint8_t*>array.buffers[1]
    cdef const int32_t* offsets
    value.high = 0
    if kind == BOOL:
        value.low = data[i >> 3] >> (i & 7) & 1
    elif kind == INT8:
        value.low = data[i]
    elif kind == INT16:
        value.low = fm_load16(data + 2 * i)
    elif kind == INT32 or kind == TIME:
        value.low = fm_load32(data + 4 * i)
    elif kind == DECIMAL64:
        value.low = fm_load64(data + 16 * i)
    elif kind == DECIMAL128:
        value.low = fm_load64(data + 16 * i)
        value.high = fm_load64(data + 16 * i + 8)
    elif kind >= BINARY:
        offsets = <const int32_t*>data
        value.low = <uint32_t>(offsets[i + 1] - offsets[i])
        value.high = <uint64_t>(<const uint8_t*>array.buffers[2] + offsets[i])
    else:
        value.low = fm_load64(data + 8 * i)


cdef enum:
    BLOCK = 1024  # values per block, which fit in the first-level cache


cdef struct Walk:
    ArrowArray** chunks
    int64_t num_chunks
    int kind
    int64_t chunk      # where it is
    int64_t row


cdef int next_block(Walk* walk, Value* out) noexcept nogil:
    """Read the next non-null values, as many as fit in a block; return 0 at the end."""
    cdef const ArrowArray* array
    cdef uint64_t valid
    cdef int i, rows, count = 0
    while walk.chunk < walk.num_chunks:
        array = walk.chunks[walk.chunk]
        if validity_of(array) == NULL:
            rows = <int>min(<int64_t>(BLOCK - count), array.length - walk.row)
            for i in range(rows):
                load_value(array, walk.kind, array.offset + walk.row + i, &out[count + i])
            count += rows
            walk.row += rows
        else:
            while walk.row < array.length and count <= BLOCK - 64:
                rows = <int>min(<int64_t>64, array.length - walk.row)
                valid = fm_bits(validity_of(array), bitmap_size(array), array.offset + walk.row,
                                rows)
                while valid:
                    load_value(array, walk.kind, array.offset + walk.row + fm_ctz64(valid),
                               &out[count])
                    count += 1
                    valid &= valid - 1
                walk.row += rows
        if walk.row < array.length:
            return count
        walk.chunk += 1
        walk.row = 0
    return count


# Reasons why a column cannot be encoded.
cdef enum Fault:
    FINE
    BAD_UTF8
    BAD_DECIMAL
    BAD_TIME
    NO_MEMORY

_FACTS = (
    "",
    "a string is not UTF-8",
    "a decimal has more digits than its type",
    "a time is negative or not less than 24 hours",
    "",
)


cdef int check(const ArrowArray* array, int kind, int digits) noexcept nogil:
    """Check values that Arrow does not, such as UTF-8; a reader would refuse invalid ones.

    A decimal may have `digits` digits.
    """
    cdef int64_t i
    cdef const int32_t* offsets
    cdef const uint8_t* data
    if array.length == 0:
        return FINE
    if kind == STRING:
        offsets = <const int32_t*>array.buffers[1] + array.offset
        data = <const uint8_t*>array.buffers[2]
        if fm_is_ascii(data + offsets[0], offsets[array.length] - offsets[0]):
            return FINE
        for i in range(array.length):
            if is_valid(array, i) and not is_utf8(data + offsets[i], offsets[i + 1] - offsets[i]):
                return BAD_UTF8
    elif kind == DECIMAL64 or kind == DECIMAL128:
        data = <const uint8_t*>array.buffers[1] + 16 * array.offset
        for i in range(array.length):
            if (not fm_has_digits(fm_load64(data + 16 * i), fm_load64(data + 16 * i + 8), digits)
                    and is_valid(array, i)):
                return BAD_DECIMAL
    elif kind == TIME:
        data = <const uint8_t*>array.buffers[1] + 4 * array.offset
        for i in range(array.length):
            if fm_load32(data + 4 * i) >= DAY and is_valid(array, i):
                return BAD_TIME
    return FINE


cdef inline bint same(const Value* a, const Value* b, int kind) noexcept nogil:
    if a.low != b.low:
        return False
    if kind < BINARY:
        return a.high == b.high
    return a.high == b.high or fm_equal(<const uint8_t*>a.high, <const uint8_t*>b.high, a.low)


cdef inline uint64_t mix(uint64_t x) noexcept nogil:
    x ^= x >> 32
    x *= <uint64_t>0x9E3779B97F4A7C15ULL
    return x ^ x >> 29


cdef inline uint64_t hash_value(const Value* value, int kind) noexcept nogil:
    cdef const uint8_t* text
    cdef uint64_t h, size
    if kind < BINARY:
        return mix(value.low ^ value.high * <uint64_t>0xC2B2AE3D27D4EB4FULL)
    text = <const uint8_t*>value.high
    size = value.low
    h = size * <uint64_t>0x9E3779B97F4A7C15ULL
    while size >= 8:
        h = mix(h ^ fm_load64(text))
        text += 8
        size -= 8
    if size >= 4:
        h = mix(h ^ fm_load32(text) ^ <uint64_t>fm_load32(text + size - 4) << 32)
    elif size:
        h = mix(h ^ text[0] ^ <uint64_t>text[size >> 1] << 8 ^ <uint64_t>text[size - 1] << 16)
    return mix(h)


cdef inline int64_t size_value(const Value* value, int kind) noexcept nogil:
    if kind >= BINARY:
        return varint_size(value.low) + <int64_t>value.low
    if kind == DECIMAL128:
        return 1 + decimal_size(value.low, <int64_t>value.high)
    return width_of(kind)


cdef uint8_t* put_value(uint8_t* out, const Value* value, int kind) noexcept nogil:
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


# ---- dictionaries


cdef struct Dictionary:
    uint32_t* slots        # entry number + 1, 0 = free
    uint64_t num_slots     # a power of two
    Value* entries
    int64_t room
    int64_t count
    int64_t bytes          # of the entries in the file
    uint32_t last          # the entry of the previous value
    uint8_t* indices       # of the values so far, of one or four bytes each
    int64_t index_bytes
    int64_t index_room     # in bytes
    int64_t num_indices


cdef bint begin(Dictionary* dictionary, int64_t max_entries) noexcept nogil:
    if dictionary.slots == NULL:
        dictionary.num_slots = 1024
        dictionary.room = 512
        dictionary.slots = <uint32_t*>malloc(dictionary.num_slots * sizeof(uint32_t))
        dictionary.entries = <Value*>malloc(dictionary.room * sizeof(Value))
        if dictionary.slots == NULL or dictionary.entries == NULL:
            return False
    memset(dictionary.slots, 0, dictionary.num_slots * sizeof(uint32_t))
    dictionary.count = dictionary.bytes = dictionary.num_indices = 0
    dictionary.index_bytes = 1 if max_entries <= 256 else 4
    return True


cdef bint reserve(Dictionary* dictionary, int64_t more) noexcept nogil:
    """Make room for the indices of `more` values."""
    cdef int64_t needed = (dictionary.num_indices + more) * dictionary.index_bytes
    cdef uint8_t* indices
    if needed > dictionary.index_room:
        needed = max(needed, 2 * dictionary.index_room)
        indices = <uint8_t*>realloc(dictionary.indices, needed)
        if indices == NULL:
            return False
        dictionary.indices = indices
        dictionary.index_room = needed
    return True


cdef bint grow(Dictionary* dictionary, int kind) noexcept nogil:
    cdef uint32_t* slots = <uint32_t*>calloc(2 * dictionary.num_slots, sizeof(uint32_t))
    cdef Value* entries
    cdef int64_t i
    cdef uint64_t slot
    if slots == NULL:
        return False
    entries = <Value*>realloc(dictionary.entries, 2 * dictionary.room * sizeof(Value))
    if entries == NULL:
        free(slots)
        return False
    free(dictionary.slots)
    dictionary.slots = slots
    dictionary.entries = entries
    dictionary.num_slots *= 2
    dictionary.room *= 2
    for i in range(dictionary.count):
        slot = hash_value(&entries[i], kind) & (dictionary.num_slots - 1)
        while slots[slot]:
            slot = (slot + 1) & (dictionary.num_slots - 1)
        slots[slot] = <uint32_t>(i + 1)
    return True


cdef int find(Dictionary* dictionary, const Value* value, int kind, int64_t max_entries,
              int64_t max_bytes) noexcept nogil:
    """Set `last` to the entry of `value`; return 1, 0 if there are too many, -1 without memory."""
    cdef uint64_t mask = dictionary.num_slots - 1
    cdef uint64_t slot = hash_value(value, kind) & mask
    while dictionary.slots[slot]:
        dictionary.last = dictionary.slots[slot] - 1
        if same(value, &dictionary.entries[dictionary.last], kind):
            return 1
        slot = (slot + 1) & mask
    if dictionary.count >= max_entries:
        return 0
    dictionary.bytes += size_value(value, kind)
    if dictionary.bytes > max_bytes:
        return 0
    if dictionary.count == dictionary.room:
        if not grow(dictionary, kind):
            return -1
        mask = dictionary.num_slots - 1
        slot = hash_value(value, kind) & mask
        while dictionary.slots[slot]:
            slot = (slot + 1) & mask
    dictionary.last = <uint32_t>dictionary.count
    dictionary.entries[dictionary.last] = value[0]
    dictionary.count += 1
    dictionary.slots[slot] = dictionary.last + 1
    return 1


cdef int feed(Dictionary* dictionary, const Value* values, int count, int kind,
              int64_t max_entries, int64_t max_bytes) noexcept nogil:
    """Add `count` values; return 1, 0 if there are too many entries, -1 without memory."""
    cdef int i, found
    cdef int64_t at = dictionary.num_indices
    if not reserve(dictionary, count):
        return -1
    for i in range(count):
        # A value often equals the previous one, and then needs no hash.
        if dictionary.count == 0 or not same(&values[i], &dictionary.entries[dictionary.last],
                                             kind):
            found = find(dictionary, &values[i], kind, max_entries, max_bytes)
            if found <= 0:
                return found
        if dictionary.index_bytes == 1:
            dictionary.indices[at + i] = <uint8_t>dictionary.last
        else:
            (<uint32_t*>dictionary.indices)[at + i] = dictionary.last
    dictionary.num_indices += count
    return 1


cdef void pack(const Dictionary* dictionary, int width, uint8_t* out) noexcept nogil:
    """Write the indices with `width` bits each, low bit first."""
    cdef uint64_t window = 0, index
    cdef int filled = 0
    cdef int64_t i
    for i in range(dictionary.num_indices):
        if dictionary.index_bytes == 1:
            index = dictionary.indices[i]
        else:
            index = (<uint32_t*>dictionary.indices)[i]
        window |= index << filled
        filled += width
        while filled >= 8:
            out[0] = <uint8_t>window
            out += 1
            window >>= 8
            filled -= 8
    if filled:
        out[0] = <uint8_t>window


cdef void put_nulls(ArrowArray** chunks, int64_t num_chunks, int64_t rows,
                    uint8_t* out) noexcept nogil:
    """Write the null bitmap of all chunks; 1 means null."""
    cdef int64_t chunk, row, at = 0, byte
    cdef const uint8_t* validity
    cdef uint64_t bits
    cdef int count
    memset(out, 0, (rows + 7) // 8)
    for chunk in range(num_chunks):
        validity = validity_of(chunks[chunk])
        row = 0
        while validity != NULL and row < chunks[chunk].length:
            # 56 bits, shifted by up to 7, fit in one word.
            count = <int>min(56, chunks[chunk].length - row)
            bits = ~fm_bits(validity, bitmap_size(chunks[chunk]), chunks[chunk].offset + row, count)
            bits = (bits & ((<uint64_t>1 << count) - 1)) << ((at + row) & 7)
            byte = (at + row) >> 3
            while bits:
                out[byte] |= <uint8_t>bits
                bits >>= 8
                byte += 1
            row += count
        at += chunks[chunk].length


# ---- pages


cdef struct Encoded:
    int encoding
    bint has_nulls
    int64_t rows
    uint8_t* page      # encoding, flags, then the parts
    int64_t meta       # sizes of the parts
    int64_t nulls
    int64_t data


cdef int64_t dictionary_size(const Dictionary* dictionary) noexcept nogil:
    """Return the bytes of the entries, including their count."""
    return varint_size(dictionary.count) + dictionary.bytes


cdef int64_t indices_size(const Dictionary* dictionary) noexcept nogil:
    return (dictionary.num_indices * bit_width(dictionary.count) + 7) // 8


cdef int choose(Walk* walk, int64_t valid, Dictionary* dictionary, bint use_dictionary,
                int64_t max_entries, int64_t max_bytes, Value* first, Encoded* out) noexcept nogil:
    """Choose the encoding and compute the sizes of the parts; return a Fault."""
    cdef Value[BLOCK] values
    cdef int i, count, status = use_dictionary, kind = walk.kind
    cdef int64_t plain = valid * width_of(kind)
    cdef bint constant = True, started = False
    if width_of(kind) and kind != TIMESTAMP_NS:
        max_bytes = INT64_MAX  # the limit applies to variable lengths and to these timestamps
    if use_dictionary and not begin(dictionary, max_entries):
        return NO_MEMORY
    # If the column is neither constant nor a dictionary, only variable lengths still matter.
    while constant or status or not width_of(kind):
        count = next_block(walk, values)
        if count == 0:
            break
        if not started:
            first[0] = values[0]
            started = True
        i = 0
        while constant and i < count:
            constant = same(&values[i], first, kind)
            i += 1
        if not width_of(kind):
            for i in range(count):
                plain += size_value(&values[i], kind)
        if status:
            status = feed(dictionary, values, count, kind, max_entries, max_bytes)
            if status < 0:
                return NO_MEMORY
    if constant:
        out.encoding = CONST
        out.meta = size_value(first, kind)
    elif status and dictionary_size(dictionary) + indices_size(dictionary) < plain:
        out.encoding = DICT
        out.meta = dictionary_size(dictionary)
        out.data = indices_size(dictionary)
    else:
        out.encoding = PLAIN
        out.data = plain
    return FINE


cdef void put_plain(Walk* walk, uint8_t* at) noexcept nogil:
    cdef Value[BLOCK] values
    cdef int i, count = next_block(walk, values)
    while count:
        for i in range(count):
            at = put_value(at, &values[i], walk.kind)
        count = next_block(walk, values)


cdef int encode_column(ArrowArray** chunks, int64_t num_chunks, int kind, int digits,
                       bint use_dictionary, int64_t max_entries, int64_t max_bytes,
                       Dictionary* dictionary, Encoded* out) noexcept nogil:
    """Encode one column, except array data blocks; return a Fault."""
    cdef int64_t i, valid = 0
    cdef Value first
    cdef Walk walk
    cdef uint8_t* at
    cdef int fault

    out.rows = 0
    for i in range(num_chunks):
        out.rows += chunks[i].length
        valid += count_valid(chunks[i])
        fault = check(chunks[i], kind, digits)
        if fault:
            return fault
    out.encoding = ALL_NULL
    if valid == 0 or kind == ARRAY_BLOCK:
        return FINE
    out.has_nulls = valid < out.rows
    out.nulls = (out.rows + 7) // 8 if out.has_nulls else 0
    walk.chunks = chunks
    walk.num_chunks = num_chunks
    walk.kind = kind
    walk.chunk = walk.row = 0
    fault = choose(&walk, valid, dictionary, use_dictionary, max_entries, max_bytes, &first, out)
    if fault:
        return fault

    out.page = <uint8_t*>malloc(2 + out.meta + out.nulls + out.data)
    if out.page == NULL:
        return NO_MEMORY
    out.page[0] = out.encoding
    out.page[1] = out.has_nulls
    at = out.page + 2
    if out.encoding == CONST:
        at = put_value(at, &first, kind)
    elif out.encoding == DICT:
        at = put_varint(at, dictionary.count)
        for i in range(dictionary.count):
            at = put_value(at, &dictionary.entries[i], kind)
    if out.has_nulls:
        put_nulls(chunks, num_chunks, out.rows, at)
        at += out.nulls
    if out.encoding == DICT:
        pack(dictionary, bit_width(dictionary.count), at)
    elif out.encoding == PLAIN:
        walk.chunk = walk.row = 0
        put_plain(&walk, at)
    return FINE


cdef class EncodedPages:
    """The pages of the flat columns of a bucket."""

    cdef Encoded* _pages
    cdef readonly Py_ssize_t count

    def __cinit__(self, Py_ssize_t count):
        self.count = count
        self._pages = <Encoded*>calloc(count + 1, sizeof(Encoded))
        if self._pages == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._pages != NULL:
            for i in range(self.count):
                free(self._pages[i].page)
            free(self._pages)

    def num_rows(self, Py_ssize_t flat):
        if not 0 <= flat < self.count:
            raise IndexError(flat)
        return self._pages[flat].rows

    def put_block(self, Py_ssize_t flat, const uint8_t[::1] block not None):
        """Use an array data block as the page of a column that has no page yet."""
        cdef Encoded* page
        cdef int64_t size = block.shape[0]
        if not 0 <= flat < self.count:
            raise IndexError(flat)
        page = &self._pages[flat]
        if page.page != NULL or size > UINT32_MAX:
            raise ValueError(f"a block of {size} bytes for column {flat}")
        page.page = <uint8_t*>malloc(2 + varint_size(size) + size)
        if page.page == NULL:
            raise MemoryError
        page.encoding = page.page[0] = PLAIN
        page.page[1] = 0
        page.data = varint_size(size) + size
        fm_copy(put_varint(page.page + 2, size), &block[0] if size else NULL, size)

    def encodings(self):
        """Return the encoding of each page, one byte each."""
        return bytes([self._pages[i].encoding for i in range(self.count)])

    def page(self, Py_ssize_t flat):
        """Return a view of one page, or None if all rows are null.

        The view is valid as long as this object exists.
        """
        cdef Encoded* page
        if not 0 <= flat < self.count:
            raise IndexError(flat)
        page = &self._pages[flat]
        if page.encoding == ALL_NULL:
            return None
        return PyMemoryView_FromMemory(
            <char*>page.page, 2 + page.meta + page.nulls + page.data, 0x100)  # PyBUF_READ

    def sizes(self):
        """Return (bytes as a monolithic bucket without header, number of pages, their bytes).

        A page counts here as the reference counts it: without its first two bytes and the value
        of a CONST, and not at all if nothing is left.
        """
        cdef int64_t mono = (2 * self.count + 7) // 8 + (self.count + 7) // 8
        cdef int64_t pages = 0, total = 0
        cdef Py_ssize_t i
        cdef Encoded* page
        for i in range(self.count):
            page = &self._pages[i]
            mono += page.meta + page.nulls + page.data
            if page.encoding == PLAIN or page.encoding == DICT or page.has_nulls:
                pages += 1
                total += page.nulls + page.data
                if page.encoding == DICT:
                    total += page.meta
        return mono, pages, total

    def monolithic(self, bytes header):
        """Return a monolithic bucket: `header`, then the parts of all pages, grouped by part."""
        cdef int64_t start = len(header), size = start + <int64_t>self.sizes()[0]
        cdef int64_t flag_bytes = (2 * self.count + 7) // 8, null_bytes = (self.count + 7) // 8
        cdef bytes result = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* base = <uint8_t*>PyBytes_AsString(result)
        cdef uint8_t* at
        cdef const char* head = PyBytes_AsString(header)
        cdef Py_ssize_t i
        cdef Encoded* page
        with nogil:
            memcpy(base, head, start)
            base += start
            memset(base, 0, flag_bytes + null_bytes)
            at = base + flag_bytes + null_bytes
            for i in range(self.count):
                page = &self._pages[i]
                base[i >> 2] |= page.encoding << (2 * (i & 3))
                base[flag_bytes + (i >> 3)] |= page.has_nulls << (i & 7)
            for i in range(self.count):
                page = &self._pages[i]
                if page.encoding == CONST:
                    memcpy(at, page.page + 2, page.meta)
                    at += page.meta
            for i in range(self.count):
                page = &self._pages[i]
                if page.encoding == DICT:
                    memcpy(at, page.page + 2, page.meta)
                    at += page.meta
            for i in range(self.count):
                page = &self._pages[i]
                if page.nulls:
                    memcpy(at, page.page + 2 + page.meta, page.nulls)
                    at += page.nulls
            for i in range(self.count):
                page = &self._pages[i]
                if page.data:
                    memcpy(at, page.page + 2 + page.meta + page.nulls, page.data)
                    at += page.data
        return result


class ColumnFault(ValueError):
    """A column cannot be encoded; `column` is its index among the requested columns."""

    def __init__(self, fact, column):
        super().__init__(fact)
        self.column = column


def encode(list batches not None, columns, const uint8_t[::1] kinds not None,
           const uint8_t[::1] digits not None, const uint8_t[::1] use_dictionary not None,
           int64_t max_entries, int64_t max_bytes):
    """Encode some `columns` of consecutive `batches`, which are `ArrowColumns` objects.

    `digits` is the precision of each column that is a decimal.
    """
    cdef Py_ssize_t count = len(columns), num_batches = len(batches), i, k
    cdef EncodedPages pages = EncodedPages(count)
    cdef ArrowArray** chunks
    cdef ArrowColumns batch
    cdef Dictionary dictionary
    cdef int fault = FINE
    if not kinds.shape[0] == digits.shape[0] == use_dictionary.shape[0] == count:
        raise ValueError(f"{kinds.shape[0]} kinds for {count} columns")
    chunks = <ArrowArray**>malloc((count * num_batches + 1) * sizeof(ArrowArray*))
    if chunks == NULL:
        raise MemoryError
    memset(&dictionary, 0, sizeof(Dictionary))
    try:
        for k in range(num_batches):
            batch = batches[k]
            for i in range(count):
                if not 0 <= <Py_ssize_t>columns[i] < batch.count:
                    raise IndexError(f"column {columns[i]} of {batch.count}")
                if kinds[i] >= NUM_KINDS and kinds[i] != ARRAY_BLOCK:
                    raise ValueError(f"kind {kinds[i]}")
                if digits[i] > MAX_DIGITS:
                    raise ValueError(f"{digits[i]} digits")
                chunks[i * num_batches + k] = batch._arrays[<Py_ssize_t>columns[i]]
        with nogil:
            for i in range(count):
                fault = encode_column(chunks + i * num_batches, num_batches, kinds[i], digits[i],
                                      use_dictionary[i], max_entries, max_bytes, &dictionary,
                                      &pages._pages[i])
                if fault:
                    break
        if fault == NO_MEMORY:
            raise MemoryError
        if fault:
            raise ColumnFault(_FACTS[fault], i)
        return pages
    finally:
        free(chunks)
        free(dictionary.slots)
        free(dictionary.entries)
        free(dictionary.indices)
