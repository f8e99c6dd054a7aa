# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Hashes of Arrow values, without the GIL: the same in every process and on every machine.

Equal values have equal hashes, however their arrays are sliced or chunked. Numbers of up to 64 bits
never collide, because the hash of a word can be undone.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy, memset

from cpython.bytes cimport PyBytes_FromStringAndSize

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._wire cimport fm_bits, fm_load16, fm_load32, fm_load64, uint64_t

# How the values of an array become words; numbered as in hashes.py.
cdef enum Form:
    BOOLEAN = 0
    SIGNED = 1
    UNSIGNED = 2
    FLOATING = 3
    DECIMAL = 4
    FIXED_BYTES = 5  # `width` bytes each
    BYTES = 6  # `width` is that of the offsets
    NUM_FORMS = 7

cdef enum:
    CACHE = 4096  # hashes that are remembered; a power of two
    MIN_CACHED = 1024  # shorter arrays are not worth the cache
    BLOCK = 64  # rows that are hashed at a time


cdef inline uint64_t mix(uint64_t word) noexcept nogil:
    """Mix all bits of a word into each other; no two words have the same result."""
    word ^= word >> 30
    word *= 0xBF58476D1CE4E5B9ULL
    word ^= word >> 27
    word *= 0x94D049BB133111EBULL
    return word ^ word >> 31


cdef inline uint64_t absorb(uint64_t state, uint64_t word) noexcept nogil:
    state = (state ^ word) * 0x9FB21C651E98DF25ULL
    return state ^ state >> 32


cdef uint64_t hash_bytes(const uint8_t* at, int64_t size) noexcept nogil:
    cdef uint64_t state = <uint64_t>size * 0x9E3779B97F4A7C15ULL, word = 0
    while size >= 8:
        state = absorb(state, fm_load64(at))
        at += 8
        size -= 8
    if size:
        memcpy(&word, at, size)
        state = absorb(state, word)
    return mix(state)


cdef inline uint64_t hash_double(double value) noexcept nogil:
    cdef uint64_t word = 0
    if value != value:
        word = 0x7FF8000000000000ULL  # all NaN are one value
    elif value != 0:  # and so are both zeros
        memcpy(&word, &value, 8)
    return mix(word)


cdef uint64_t hash_decimal(const uint8_t* at, int width) noexcept nogil:
    """Hash a little-endian integer of 4 to 32 bytes as if it had 32."""
    cdef uint64_t state = 0, word, sign
    cdef int i
    if width == 4:
        word = <uint64_t><int64_t><int32_t>fm_load32(at)
        sign = <uint64_t>(<int64_t>word >> 63)
        state = absorb(state, word)
        i = 1
    else:
        sign = <uint64_t>(<int64_t>fm_load64(at + width - 8) >> 63)
        for i in range(width // 8):
            state = absorb(state, fm_load64(at + 8 * i))
        i = width // 8
    while i < 4:
        state = absorb(state, sign)
        i += 1
    return mix(state)


cdef uint64_t hash_value(const ArrowArray* array, int form, int width, int64_t i) noexcept nogil:
    """Hash the value in slot `i`, counted from the start of the buffers."""
    cdef const uint8_t* values = <const uint8_t*>array.buffers[1]
    cdef int64_t start, end
    cdef float single
    cdef double value
    if form == SIGNED:
        if width == 8:
            return mix(fm_load64(values + 8 * i))
        if width == 4:
            return mix(<uint64_t><int64_t><int32_t>fm_load32(values + 4 * i))
        if width == 2:
            return mix(<uint64_t><int64_t><int16_t>fm_load16(values + 2 * i))
        return mix(<uint64_t><int64_t><int8_t>values[i])
    if form == UNSIGNED:
        if width == 8:
            return mix(fm_load64(values + 8 * i))
        if width == 4:
            return mix(fm_load32(values + 4 * i))
        if width == 2:
            return mix(fm_load16(values + 2 * i))
        return mix(values[i])
    if form == FLOATING:
        if width == 8:
            memcpy(&value, values + 8 * i, 8)
            return hash_double(value)
        memcpy(&single, values + 4 * i, 4)
        return hash_double(single)
    if form == BOOLEAN:
        return mix(values[i >> 3] >> (i & 7) & 1)
    if form == DECIMAL:
        return hash_decimal(values + width * i, width)
    if form == FIXED_BYTES:
        return hash_bytes(values + width * i, width)
    if width == 4:
        start = <int32_t>fm_load32(values + 4 * i)
        end = <int32_t>fm_load32(values + 4 * i + 4)
    else:
        start = <int64_t>fm_load64(values + 8 * i)
        end = <int64_t>fm_load64(values + 8 * i + 8)
    return hash_bytes(<const uint8_t*>array.buffers[2] + start, end - start)


cdef int hash_block(const ArrowArray* array, int form, int width, int64_t row, int count,
                    uint64_t* out) noexcept nogil:
    """Hash the values that are not null among `count` rows from `row` on; return their number."""
    cdef const uint8_t* validity = <const uint8_t*>array.buffers[0]
    cdef int64_t first = array.offset + row
    cdef uint64_t valid = ~<uint64_t>0
    cdef int i, filled = 0
    if validity != NULL and array.null_count != 0:
        valid = fm_bits(validity, (array.offset + array.length + 7) // 8, first, count)
    for i in range(count):
        if valid >> i & 1:
            out[filled] = hash_value(array, form, width, first + i)
            filled += 1
    return filled


cdef class Exported:
    """An array, as C sees it."""

    cdef ArrowArray array

    def __cinit__(self, array):
        memset(&self.array, 0, sizeof(ArrowArray))
        array._export_to_c(<uintptr_t>&self.array)

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)


cdef int check(int form, int width) except -1:
    if not 0 <= form < NUM_FORMS or width < 0:
        raise ValueError(f"values of form {form} and width {width}")
    return 0


def hash_array(array, int form, int width):
    """Return the hashes of the values that are not null, as native uint64."""
    cdef Exported exported
    cdef uint64_t[BLOCK] block
    cdef int64_t row = 0, filled = 0
    cdef int count
    cdef uint64_t* hashes
    check(form, width)
    hashes = <uint64_t*>malloc(8 * len(array) + 8)
    if hashes == NULL:
        raise MemoryError
    try:
        exported = Exported(array)
        with nogil:
            while row < exported.array.length:
                count = hash_block(&exported.array, form, width, row,
                                   <int>min(<int64_t>BLOCK, exported.array.length - row), block)
                memcpy(hashes + filled, block, 8 * count)
                filled += count
                row += BLOCK
        return PyBytes_FromStringAndSize(<char*>hashes, 8 * filled)
    finally:
        free(hashes)


cdef int compare(const void* a, const void* b) noexcept nogil:
    cdef uint64_t one = (<const uint64_t*>a)[0], other = (<const uint64_t*>b)[0]
    return (one > other) - (one < other)


cdef class SmallestHashes:
    """The `size` smallest distinct hashes of all values that were added."""

    cdef readonly Py_ssize_t size
    cdef uint64_t* _held       # sorted and distinct after `_settle`
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room
    cdef uint64_t _limit       # larger hashes are not among the smallest

    def __cinit__(self, Py_ssize_t size):
        if size < 1:
            raise ValueError(f"a sketch of {size} hashes")
        self.size = size
        self._limit = ~<uint64_t>0

    def __dealloc__(self):
        free(self._held)

    cdef void _settle(self) noexcept nogil:
        """Sort the hashes, drop duplicates, and keep the smallest."""
        cdef Py_ssize_t i, kept = 0
        if self._count == 0:
            return
        qsort(self._held, self._count, sizeof(uint64_t), compare)
        for i in range(self._count):
            if kept == 0 or self._held[i] != self._held[kept - 1]:
                self._held[kept] = self._held[i]
                kept += 1
        self._count = min(kept, self.size)
        if self._count == self.size:
            self._limit = self._held[self.size - 1]

    cdef bint _make_room(self) noexcept nogil:
        """Make room for one hash; return False without memory."""
        cdef Py_ssize_t room = 2 * self._room + 16
        cdef uint64_t* held
        if self._room >= 4 * self.size:
            self._settle()  # which leaves no more than `size`
            return True
        held = <uint64_t*>realloc(self._held, room * sizeof(uint64_t))
        if held == NULL:
            return False
        self._held = held
        self._room = room
        return True

    cdef inline bint _add(self, uint64_t hash) noexcept nogil:
        """Add a hash; return False without memory."""
        if hash > self._limit:
            return True
        if self._count == self._room and not self._make_room():
            return False
        self._held[self._count] = hash
        self._count += 1
        return True

    def add(self, array, int form, int width):
        """Add the values of an array that are not null."""
        cdef Exported exported = Exported(array)
        cdef uint64_t[BLOCK] block
        cdef uint64_t[CACHE] seen
        cdef int64_t row = 0
        cdef int i, count
        cdef bint cached = exported.array.length >= MIN_CACHED, fine = True
        check(form, width)
        with nogil:
            if cached:
                for i in range(CACHE):
                    seen[i] = ~<uint64_t>i  # belongs to another place, so no hash is found here
            while fine and row < exported.array.length:
                count = hash_block(&exported.array, form, width, row,
                                   <int>min(<int64_t>BLOCK, exported.array.length - row), block)
                for i in range(count):
                    if cached:
                        if seen[block[i] & (CACHE - 1)] == block[i]:
                            continue  # a repeated value
                        seen[block[i] & (CACHE - 1)] = block[i]
                    fine &= self._add(block[i])
                row += BLOCK
        if not fine:
            raise MemoryError

    def add_hashes(self, const uint64_t[::1] hashes not None):
        """Add hashes, such as those of another sketch."""
        cdef Py_ssize_t i
        for i in range(hashes.shape[0]):
            if not self._add(hashes[i]):
                raise MemoryError

    def hashes(self):
        """Return the hashes, sorted, as native uint64."""
        self._settle()
        return PyBytes_FromStringAndSize(<char*>self._held, 8 * self._count)
