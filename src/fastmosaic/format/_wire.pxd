# cython: language_level=3
"""How values are stored in a file, for the kernels: bytes, bits, varints, kinds, encodings."""

from libc.stdint cimport int64_t, uint8_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    #error "the kernels are written for little-endian machines"
    #endif

    #define FM_UNUSED __attribute__((unused))

    /* Compile a loop twice, for AVX2 and for any x86-64, and choose when the module is loaded.
       Sanitizers are not yet at work when the choice is made, so their builds have one version.
       With FM_PORTABLE, x86-64 has only the code of other machines, which can be tested so. */
    #ifndef __has_attribute
    #define __has_attribute(name) 0
    #endif
    #ifndef __has_feature
    #define __has_feature(name) 0
    #endif
    #if defined(__x86_64__) && defined(__ELF__) && defined(__GLIBC__) && !defined(FM_PORTABLE) \\
        && __has_attribute(target_clones) && !defined(__SANITIZE_ADDRESS__) \\
        && !__has_feature(address_sanitizer) && !__has_feature(undefined_behavior_sanitizer)
    #define FM_CLONES __attribute__((target_clones("avx2", "default")))
    #else
    #define FM_CLONES FM_UNUSED
    #endif

    static inline uint16_t fm_load16(const uint8_t* p) { uint16_t v; memcpy(&v, p, 2); return v; }
    static inline uint32_t fm_load32(const uint8_t* p) { uint32_t v; memcpy(&v, p, 4); return v; }
    static inline uint64_t fm_load64(const uint8_t* p) { uint64_t v; memcpy(&v, p, 8); return v; }
    static inline void fm_store16(uint8_t* p, uint16_t v) { memcpy(p, &v, 2); }
    static inline void fm_store32(uint8_t* p, uint32_t v) { memcpy(p, &v, 4); }
    static inline void fm_store64(uint8_t* p, uint64_t v) { memcpy(p, &v, 8); }
    static inline uint16_t fm_swap16(uint16_t v) { return __builtin_bswap16(v); }
    static inline uint32_t fm_swap32(uint32_t v) { return __builtin_bswap32(v); }
    static inline uint64_t fm_swap64(uint64_t v) { return __builtin_bswap64(v); }
    static inline int fm_ctz64(uint64_t v) { return __builtin_ctzll(v); }
    static inline int fm_popcount64(uint64_t v) { return __builtin_popcountll(v); }

    /* Most strings are short: two overlapping loads are faster than a call to memcpy. */
    static inline void fm_copy(uint8_t* to, const uint8_t* from, uint64_t size) {
        if (size > 16) memcpy(to, from, size);
        else if (size >= 8) {
            uint64_t head = fm_load64(from), tail = fm_load64(from + size - 8);
            fm_store64(to, head);
            fm_store64(to + size - 8, tail);
        } else if (size >= 4) {
            uint32_t head = fm_load32(from), tail = fm_load32(from + size - 4);
            fm_store32(to, head);
            fm_store32(to + size - 4, tail);
        } else if (size) {
            uint8_t head = from[0], middle = from[size >> 1], tail = from[size - 1];
            to[0] = head;
            to[size >> 1] = middle;
            to[size - 1] = tail;
        }
    }
    static inline int fm_equal(const uint8_t* a, const uint8_t* b, uint64_t size) {
        if (size > 16) return memcmp(a, b, size) == 0;
        if (size >= 8)
            return ((fm_load64(a) ^ fm_load64(b))
                    | (fm_load64(a + size - 8) ^ fm_load64(b + size - 8))) == 0;
        if (size >= 4)
            return ((fm_load32(a) ^ fm_load32(b))
                    | (fm_load32(a + size - 4) ^ fm_load32(b + size - 4))) == 0;
        if (size)
            return a[0] == b[0] && a[size >> 1] == b[size >> 1] && a[size - 1] == b[size - 1];
        return 1;
    }
    static inline int fm_is_ascii(const uint8_t* text, int64_t size) {
        uint64_t high = 0;
        int64_t i = 0;
        for (; i + 8 <= size; i += 8) high |= fm_load64(text + i);
        for (; i < size; i++) high |= text[i];
        return (high & 0x8080808080808080ULL) == 0;
    }

    /* Whether a 128-bit decimal has at most `digits` (1 to 38) digits. */
    static inline int fm_has_digits(uint64_t low, uint64_t high, int digits) {
        static const uint64_t powers[20] = {
            1ULL, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL, 1000000ULL, 10000000ULL,
            100000000ULL, 1000000000ULL, 10000000000ULL, 100000000000ULL, 1000000000000ULL,
            10000000000000ULL, 100000000000000ULL, 1000000000000000ULL, 10000000000000000ULL,
            100000000000000000ULL, 1000000000000000000ULL, 10000000000000000000ULL};
        unsigned __int128 size = (unsigned __int128)high << 64 | low, limit;
        if (high >> 63) size = 0 - size;
        limit = digits < 20 ? powers[digits] : (unsigned __int128)powers[19] * powers[digits - 19];
        return size < limit;
    }

    /* Return the `count` (at most 64) bits from bit `start` of `bits`, which has `size` bytes. */
    static inline uint64_t fm_bits(const uint8_t* bits, int64_t size, int64_t start, int count) {
        int64_t byte = start >> 3;
        int shift = (int)(start & 7);
        uint64_t word = 0;
        if (byte + 9 <= size) {
            word = fm_load64(bits + byte) >> shift;
            if (shift) word |= (uint64_t)bits[byte + 8] << (64 - shift);
        } else {
            int k = 0, n = (int)(size - byte);
            for (k = 0; k < n && k < 8; k++) word |= (uint64_t)bits[byte + k] << (8 * k);
            word >>= shift;
            if (n > 8 && shift) word |= (uint64_t)bits[byte + 8] << (64 - shift);
        }
        return count < 64 ? word & (((uint64_t)1 << count) - 1) : word;
    }
    """
    ctypedef unsigned short uint16_t
    ctypedef unsigned int uint32_t
    ctypedef unsigned long long uint64_t

    uint16_t fm_load16(const uint8_t* p) nogil
    uint32_t fm_load32(const uint8_t* p) nogil
    uint64_t fm_load64(const uint8_t* p) nogil
    void fm_store16(uint8_t* p, uint16_t v) nogil
    void fm_store32(uint8_t* p, uint32_t v) nogil
    void fm_store64(uint8_t* p, uint64_t v) nogil
    uint16_t fm_swap16(uint16_t v) nogil
    uint32_t fm_swap32(uint32_t v) nogil
    uint64_t fm_swap64(uint64_t v) nogil
    int fm_ctz64(uint64_t v) nogil
    int fm_popcount64(uint64_t v) nogil
    void fm_copy(uint8_t* to, const uint8_t* source, uint64_t size) nogil
    bint fm_equal(const uint8_t* a, const uint8_t* b, uint64_t size) nogil
    bint fm_is_ascii(const uint8_t* text, int64_t size) nogil
    bint fm_has_digits(uint64_t low, uint64_t high, int digits) nogil
    uint64_t fm_bits(const uint8_t* bits, int64_t size, int64_t start, int count) nogil

cdef enum:
    DAY = 86400000  # milliseconds
    MAX_DIGITS = 38  # of a decimal

# How one value is stored in a file: `types.Kind` in C.
cdef enum Kind:
    BOOL = 0
    INT8 = 1
    INT16 = 2
    INT32 = 3
    TIME = 4
    INT64 = 5
    TIMESTAMP_NS = 6
    DECIMAL64 = 7
    DECIMAL128 = 8
    BINARY = 9
    STRING = 10
    NUM_KINDS = 11  # kinds that are stored as single values
    NESTED = 11  # stored as several flat columns
    ARRAY_BLOCK = 12  # one data block for all rows

cdef enum Encoding:
    PLAIN = 0
    CONST = 1
    DICT = 2
    ALL_NULL = 3

# Bytes of one value in a file; 0 if the value has its own length in front.
cdef inline int width_of(int kind) noexcept nogil:
    if kind <= INT8:
        return 1
    if kind == INT16:
        return 2
    if kind == INT32 or kind == TIME:
        return 4
    if kind == INT64 or kind == DECIMAL64:
        return 8
    if kind == TIMESTAMP_NS:
        return 12
    return 0

cdef inline int bit_width(uint64_t entries) noexcept nogil:
    """Return the number of bits of an index into a dictionary with this many entries."""
    cdef int width = 0
    if entries <= 1:
        return 0
    entries -= 1
    while entries:
        width += 1
        entries >>= 1
    return width

cdef inline bint is_utf8(const uint8_t* text, int64_t size) noexcept nogil:
    cdef int64_t i = 0
    cdef uint8_t first, low, high
    cdef int more, k
    while i < size:
        if i + 8 <= size and fm_load64(text + i) & 0x8080808080808080ULL == 0:
            i += 8
            continue
        first = text[i]
        i += 1
        if first < 0x80:
            continue
        low, high = 0x80, 0xBF  # of the second byte: no overlong form, no surrogate
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if size - i < more:
            return False
        for k in range(more):
            if not low <= text[i] <= high:
                return False
            low, high = 0x80, 0xBF
            i += 1
    return True


cdef struct Reader:
    const uint8_t* at
    const uint8_t* end


cdef inline int64_t left(Reader* reader) noexcept nogil:
    return reader.end - reader.at


cdef inline int64_t varint(Reader* reader) noexcept nogil:
    """Read a varint of up to 32 bits; return -1 if it is cut off or longer."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while reader.at < reader.end and shift < 35:
        byte = reader.at[0]
        reader.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return <int64_t>value if value <= 0xFFFFFFFFULL else -1
        shift += 7
    return -1


cdef inline bint varint64(Reader* reader, uint64_t* value) noexcept nogil:
    """Read a varint of up to 64 bits; return False if it is cut off or longer."""
    cdef int shift = 0
    cdef uint8_t byte
    value[0] = 0
    while reader.at < reader.end and shift < 70:
        byte = reader.at[0]
        reader.at += 1
        if shift == 63 and byte > 1:
            return False
        value[0] |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return True
        shift += 7
    return False


cdef inline int varint_size(uint64_t value) noexcept nogil:
    """Return the number of bytes of a varint below 2**35."""
    return 1 + (value >= 128) + (value >= 16384) + (value >= 2097152) + (value >= 268435456)


cdef inline uint8_t* put_varint(uint8_t* to, uint64_t value) noexcept nogil:
    """Write a varint and return the address after it."""
    while value > 0x7F:
        to[0] = <uint8_t>(value | 0x80)
        to += 1
        value >>= 7
    to[0] = <uint8_t>value
    return to + 1


cdef inline bint skip_values(Reader* reader, int kind, int64_t count) noexcept nogil:
    """Move past `count` values; return False if they are not all there."""
    cdef int width = width_of(kind)
    cdef int64_t i, size
    if width:
        if count > left(reader) // width:
            return False
        reader.at += count * width
        return True
    for i in range(count):
        if reader.at < reader.end and reader.at[0] < 0x80:
            size = reader.at[0]
            reader.at += 1
        else:
            size = varint(reader)
        if size < 0 or size > left(reader):
            return False
        reader.at += size
    return True
