# cython: language_level=3
"""Loops over values, for the kernels: byte order, packed indices, booleans, nulls.

Every function trusts its arguments: callers check sizes first.
"""

from libc.stdint cimport int64_t, uint8_t

from fastmosaic.format._wire cimport uint32_t, uint64_t

cdef extern from *:
    """
    /* ---- byte order: big-endian values to native ones */

    FM_CLONES static void fm_swap_all16(uint8_t* out, const uint8_t* in, int64_t count) {
        for (int64_t i = 0; i < count; i++) fm_store16(out + 2 * i, fm_swap16(fm_load16(in + 2 * i)));
    }
    FM_CLONES static void fm_swap_all32(uint8_t* out, const uint8_t* in, int64_t count) {
        for (int64_t i = 0; i < count; i++) fm_store32(out + 4 * i, fm_swap32(fm_load32(in + 4 * i)));
    }
    FM_CLONES static void fm_swap_all64(uint8_t* out, const uint8_t* in, int64_t count) {
        for (int64_t i = 0; i < count; i++) fm_store64(out + 8 * i, fm_swap64(fm_load64(in + 8 * i)));
    }
    /* 64-bit integers to 128-bit ones. */
    FM_CLONES static void fm_widen_all64(uint8_t* out, const uint8_t* in, int64_t count) {
        for (int64_t i = 0; i < count; i++) {
            int64_t number = (int64_t)fm_swap64(fm_load64(in + 8 * i));
            fm_store64(out + 16 * i, (uint64_t)number);
            fm_store64(out + 16 * i + 8, (uint64_t)(number >> 63));
        }
    }
    static inline uint64_t fm_power_of_ten(int exponent) {
        uint64_t power = 1;
        while (exponent-- > 0) power *= 10;
        return power;
    }
    /* Whether all of these 64-bit integers are between -limit and limit, without the two. */
    FM_CLONES static int fm_all_within64(const uint8_t* in, int64_t count, uint64_t limit) {
        int outside = 0;
        for (int64_t i = 0; i < count; i++)
            outside |= fm_swap64(fm_load64(in + 8 * i)) + (limit - 1) > 2 * (limit - 1);
        return !outside;
    }
    /* Timestamps of milliseconds and nanoseconds to nanoseconds; return whether none of them is
       near or beyond the limits, where the result is not right. */
    FM_CLONES static int fm_join_all96(uint8_t* out, const uint8_t* in, int64_t count) {
        int outside = 0;
        for (int64_t i = 0; i < count; i++) {
            uint64_t millis = fm_swap64(fm_load64(in + 12 * i));
            uint32_t nanos = fm_swap32(fm_load32(in + 12 * i + 8));
            outside |= nanos > 999999;
            outside |= millis + 9223372036854ULL > 2 * 9223372036854ULL - 1;
            fm_store64(out + 8 * i, millis * 1000000 + nanos);
        }
        return !outside;
    }
    /* Whether all 32-bit integers are less than `limit`. */
    FM_CLONES static int fm_all_below32(const uint8_t* values, int64_t count, uint32_t limit) {
        uint32_t largest = 0;
        for (int64_t i = 0; i < count; i++) {
            uint32_t value = fm_load32(values + 4 * i);
            largest = value > largest ? value : largest;
        }
        return count == 0 || largest < limit;
    }

    /* ---- packed indices */

    /* Unpack `groups` of eight indices of `width` bits, which is a constant where it is inlined.
       Up to eight bytes after a group are read. */
    static inline __attribute__((always_inline)) void fm_unpack_groups(
            const uint8_t* at, int64_t groups, int width, uint32_t* out) {
        const uint64_t mask = ((uint64_t)1 << width) - 1;
        for (int64_t group = 0; group < groups; group++, at += width, out += 8) {
            if (width <= 8) {
                uint64_t word = fm_load64(at);
                for (int i = 0; i < 8; i++) out[i] = (uint32_t)(word >> (i * width) & mask);
            } else {
                uint64_t low = fm_load64(at);
                uint64_t high = fm_load64(at + (width >> 1)) >> (width & 1 ? 4 : 0);
                for (int i = 0; i < 4; i++) out[i] = (uint32_t)(low >> (i * width) & mask);
                for (int i = 0; i < 4; i++) out[4 + i] = (uint32_t)(high >> (i * width) & mask);
            }
        }
    }
    FM_CLONES static void fm_unpack_blocks(
            const uint8_t* at, int64_t groups, int width, uint32_t* out) {
        switch (width) {
    #define FM_WIDTH(n) case n: fm_unpack_groups(at, groups, n, out); break;
        FM_WIDTH(1) FM_WIDTH(2) FM_WIDTH(3) FM_WIDTH(4) FM_WIDTH(5) FM_WIDTH(6) FM_WIDTH(7) FM_WIDTH(8)
        FM_WIDTH(9) FM_WIDTH(10) FM_WIDTH(11) FM_WIDTH(12) FM_WIDTH(13) FM_WIDTH(14) FM_WIDTH(15)
        FM_WIDTH(16)
    #undef FM_WIDTH
        }
    }
    /* Unpack `count` indices of `width` bits, beginning with index `start`. */
    static inline void fm_unpack(const uint8_t* packed, int64_t size, int width, int64_t start,
                                 int64_t count, uint32_t* out) {
        int64_t i = 0, bit = start * width, safe;
        const uint64_t mask = ((uint64_t)1 << width) - 1;
        if (width == 0) {
            memset(out, 0, count * sizeof(uint32_t));
            return;
        }
        if (width <= 16 && (bit & 7) == 0) {
            safe = (size - (bit >> 3) - 16) / width;
            safe = safe < count / 8 ? safe : count / 8;
            if (safe > 0) {
                fm_unpack_blocks(packed + (bit >> 3), safe, width, out);
                i = 8 * safe;
                bit += i * width;
            }
        }
        /* An unaligned load of eight bytes contains any index; the last few are read byte by byte. */
        safe = size >= 8 ? i + ((size - 8) * 8 - bit) / width : 0;
        safe = safe < count ? safe : count;
        for (; i < safe; i++, bit += width)
            out[i] = (uint32_t)(fm_load64(packed + (bit >> 3)) >> (bit & 7) & mask);
        for (; i < count; i++, bit += width) out[i] = (uint32_t)fm_bits(packed, size, bit, width);
    }

    /* ---- booleans: bytes to bits */

    /* Pack `count` (at most 64) bytes to bits: whether each is not zero. */
    static inline uint64_t fm_pack_bytes(const uint8_t* bytes, int count) {
        const uint64_t low = 0x7f7f7f7f7f7f7f7fULL;
        uint64_t bits = 0;
        int i = 0;
        for (; i + 8 <= count; i += 8) {
            uint64_t word = fm_load64(bytes + i);
            word = (((word & low) + low) | word) >> 7 & 0x0101010101010101ULL;
            bits |= (word * 0x0102040810204080ULL >> 56) << i;
        }
        for (; i < count; i++) bits |= (uint64_t)(bytes[i] != 0) << i;
        return bits;
    }
    /* Move the lowest bits of `bits` to where `places` has ones, in order. After "expand" in
       Hacker's Delight: each step moves the bits that must move by a power of two. */
    static inline uint64_t fm_spread_bits(uint64_t bits, uint64_t places) {
        uint64_t moves[6], rest = places, before = ~places << 1, parity, move;
        if (places == ~(uint64_t)0) return bits;
        for (int i = 0; i < 6; i++) {
            parity = before ^ before << 1;
            parity ^= parity << 2;
            parity ^= parity << 4;
            parity ^= parity << 8;
            parity ^= parity << 16;
            parity ^= parity << 32;
            move = moves[i] = parity & rest;
            rest = (rest ^ move) | move >> (1 << i);
            before &= ~parity;
        }
        for (int i = 5; i >= 0; i--)
            bits = (bits & ~moves[i]) | (bits << (1 << i) & moves[i]);
        return bits & places;
    }

    /* ---- nulls: dense values to their rows */

    /* Count the ones among `count` bits from bit `first` on. */
    FM_CLONES static int64_t fm_count_bits(
            const uint8_t* bits, int64_t size, int64_t first, int64_t count) {
        int64_t ones = 0, row = 0;
        if ((first & 7) == 0)
            for (; row + 64 <= count; row += 64)
                ones += fm_popcount64(fm_load64(bits + ((first + row) >> 3)));
        for (; row < count; row += 64)
            ones += fm_popcount64(fm_bits(bits, size, first + row, count - row < 64 ? (int)(count - row) : 64));
        return ones;
    }
    /* Write the inverse of `count` bits from bit `first` on; spare bits are zero. */
    FM_CLONES static void fm_invert_bits(
            uint8_t* out, const uint8_t* bits, int64_t size, int64_t first, int64_t count) {
        int64_t row = 0;
        if ((first & 7) == 0)
            for (; row + 64 <= count; row += 64)
                fm_store64(out + (row >> 3), ~fm_load64(bits + ((first + row) >> 3)));
        for (; row < count; row += 64) {
            int step = count - row < 64 ? (int)(count - row) : 64;
            uint64_t word = ~fm_bits(bits, size, first + row, step);
            if (step < 64) word &= ((uint64_t)1 << step) - 1;
            memcpy(out + (row >> 3), &word, (size_t)(step + 7) / 8);
        }
    }

    /* Values of one word of rows: `valid` tells which of the 64 rows at `out` have the next value of
       `dense`; the others become zero. One value after the last is read. */
    typedef uint16_t __attribute__((may_alias)) fm_quarter;
    typedef uint32_t __attribute__((may_alias)) fm_half;
    typedef uint64_t __attribute__((may_alias)) fm_word;
    #define FM_EXPAND(name, type) \\
        static inline void name(type* out, const type* dense, uint64_t valid) { \\
            for (int i = 0; i < 64; i++) { \\
                uint64_t bit = valid >> i & 1; \\
                out[i] = *dense & (type)(0 - bit); \\
                dense += bit; \\
            } \\
        }
    FM_EXPAND(fm_expand8, uint8_t)
    FM_EXPAND(fm_expand16, fm_quarter)
    FM_EXPAND(fm_expand32, fm_half)
    FM_EXPAND(fm_expand64, fm_word)
    #undef FM_EXPAND
    static inline void fm_expand128(fm_word* out, const fm_word* dense, uint64_t valid) {
        for (int i = 0; i < 64; i++) {
            uint64_t bit = valid >> i & 1;
            out[2 * i] = dense[0] & (0 - bit);
            out[2 * i + 1] = dense[1] & (0 - bit);
            dense += 2 * bit;
        }
    }

    #if defined(__x86_64__) && defined(__GNUC__) && !defined(FM_PORTABLE)
    #include <immintrin.h>
    #define FM_AVX2 1
    /* For each mask of eight rows: which of the next values each row has; 255 for a null. */
    static uint8_t fm_places[256][8];
    static FM_UNUSED void fm_make_places(void) {
        for (int mask = 0; mask < 256; mask++)
            for (int i = 0, k = 0; i < 8; i++) fm_places[mask][i] = mask >> i & 1 ? k++ : 255;
    }
    static inline __attribute__((always_inline, target("avx2"))) void fm_expand_avx2(
            uint8_t* out, int width, const uint8_t* dense, uint64_t valid) {
        for (int i = 0; i < 8; i++, valid >>= 8, out += 8 * width) {
            int mask = (int)(valid & 255);
            __m128i places = _mm_loadl_epi64((const __m128i*)fm_places[mask]);
            if (width == 1) {
                __m128i values = _mm_loadl_epi64((const __m128i*)dense);
                _mm_storel_epi64((__m128i*)out, _mm_shuffle_epi8(values, places));
            } else if (width == 2) {
                __m128i values = _mm_loadu_si128((const __m128i*)dense);
                places = _mm_unpacklo_epi8(places, places);
                places = _mm_adds_epu8(_mm_adds_epu8(places, places), _mm_set1_epi16(0x0100));
                _mm_storeu_si128((__m128i*)out, _mm_shuffle_epi8(values, places));
            } else if (width == 4) {
                __m256i values = _mm256_loadu_si256((const __m256i*)dense);
                __m256i lanes = _mm256_cvtepu8_epi32(places);
                __m256i keep = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), lanes);
                values = _mm256_permutevar8x32_epi32(values, lanes);
                _mm256_storeu_si256((__m256i*)out, _mm256_and_si256(values, keep));
            } else {
                const uint8_t* from = dense;
                for (int half = 0; half < 2; half++) {
                    const uint8_t* at = fm_places[mask >> (4 * half) & 15];
                    __m256i values = _mm256_loadu_si256((const __m256i*)from);
                    __m256i lanes = _mm256_cvtepu8_epi64(_mm_cvtsi32_si128((int)fm_load32(at)));
                    __m256i keep = _mm256_cmpgt_epi64(_mm256_set1_epi64x(8), lanes);
                    lanes = _mm256_add_epi32(lanes, lanes);
                    lanes = _mm256_or_si256(lanes, _mm256_slli_epi64(lanes, 32));
                    lanes = _mm256_or_si256(lanes, _mm256_set1_epi64x((int64_t)1 << 32));
                    values = _mm256_permutevar8x32_epi32(values, lanes);
                    _mm256_storeu_si256(
                        (__m256i*)(out + 32 * half), _mm256_and_si256(values, keep));
                    from += 8 * fm_popcount64((uint64_t)(mask & 15));
                }
            }
            dense += width * fm_popcount64((uint64_t)mask);
        }
    }
    #else
    #define FM_AVX2 0
    static FM_UNUSED void fm_make_places(void) {}
    #endif

    /* Move the `count` dense values at the start of `out` to their rows, from the last one; nulls
       become zero. `nulls` has bit 1 for a null, from bit `first` on, in `null_bytes` bytes. */
    #define FM_SPREAD(name, attributes, expand) \\
        static inline __attribute__(attributes) void name( \\
                uint8_t* out, int width, int64_t rows, int64_t count, \\
                const uint8_t* nulls, int64_t null_bytes, int64_t first) { \\
            uint8_t dense[66 * 16] __attribute__((aligned(16))); \\
            uint8_t words[64 * 16] __attribute__((aligned(16))); \\
            memset(dense, 0, sizeof(dense)); \\
            while (rows > count) { \\
                int64_t block = (rows - 1) & ~(int64_t)63; \\
                int step = (int)(rows - block), values; \\
                uint64_t valid = ~fm_bits(nulls, null_bytes, first + block, step); \\
                if (step < 64) valid &= ((uint64_t)1 << step) - 1; \\
                values = fm_popcount64(valid); \\
                rows = block; \\
                count -= values; \\
                if (values == step) { \\
                    memmove(out + block * width, out + count * width, (size_t)step * width); \\
                } else if (values == 0) { \\
                    memset(out + block * width, 0, (size_t)step * width); \\
                } else { \\
                    /* The rows may overlap with the values. */ \\
                    memcpy(dense, out + count * width, (size_t)values * width); \\
                    if (step == 64) expand(out + block * width, width, dense, valid); \\
                    else { \\
                        expand(words, width, dense, valid); \\
                        memcpy(out + block * width, words, (size_t)step * width); \\
                    } \\
                } \\
            } \\
        }
    static inline __attribute__((always_inline)) void fm_expand(
            uint8_t* out, int width, const uint8_t* dense, uint64_t valid) {
        if (width == 1) fm_expand8(out, dense, valid);
        else if (width == 2) fm_expand16((fm_quarter*)out, (const fm_quarter*)dense, valid);
        else if (width == 4) fm_expand32((fm_half*)out, (const fm_half*)dense, valid);
        else if (width == 8) fm_expand64((fm_word*)out, (const fm_word*)dense, valid);
        else fm_expand128((fm_word*)out, (const fm_word*)dense, valid);
    }
    FM_SPREAD(fm_spread_any, (always_inline), fm_expand)
    #define FM_EACH_WIDTH(spread) \\
        if (width == 1) spread(out, 1, rows, count, nulls, null_bytes, first); \\
        else if (width == 2) spread(out, 2, rows, count, nulls, null_bytes, first); \\
        else if (width == 4) spread(out, 4, rows, count, nulls, null_bytes, first); \\
        else if (width == 8) spread(out, 8, rows, count, nulls, null_bytes, first);
    #if FM_AVX2
    FM_SPREAD(fm_spread_any_avx2, (always_inline, target("avx2,popcnt")), fm_expand_avx2)
    static __attribute__((target("avx2,popcnt"))) FM_UNUSED void fm_spread_avx2(
            uint8_t* out, int width, int64_t rows, int64_t count,
            const uint8_t* nulls, int64_t null_bytes, int64_t first) {
        FM_EACH_WIDTH(fm_spread_any_avx2)
    }
    #endif
    static FM_UNUSED void fm_spread(uint8_t* out, int width, int64_t rows, int64_t count,
                                    const uint8_t* nulls, int64_t null_bytes, int64_t first) {
    #if FM_AVX2
        if (width < 16 && __builtin_cpu_supports("avx2")) {
            fm_spread_avx2(out, width, rows, count, nulls, null_bytes, first);
            return;
        }
    #endif
        FM_EACH_WIDTH(fm_spread_any)
        else fm_spread_any(out, 16, rows, count, nulls, null_bytes, first);
    }
    #undef FM_EACH_WIDTH
    #undef FM_SPREAD

    /* Convert the `count` + 1 offsets of dense strings to those of `rows` rows; nulls are empty. */
    static FM_UNUSED void fm_spread_offsets(
            int32_t* offsets, int64_t rows, int64_t count,
            const uint8_t* nulls, int64_t null_bytes, int64_t first) {
        int32_t dense[65];
        offsets[rows] = offsets[count];
        while (rows > count) {
            int64_t block = (rows - 1) & ~(int64_t)63;
            int step = (int)(rows - block), values;
            uint64_t valid = ~fm_bits(nulls, null_bytes, first + block, step);
            if (step < 64) valid &= ((uint64_t)1 << step) - 1;
            values = fm_popcount64(valid);
            rows = block;
            count -= values;
            if (values == step) {
                memmove(offsets + block, offsets + count, (size_t)step * 4);
                continue;
            }
            if (values == 0) {
                for (int i = 0; i < step; i++) offsets[block + i] = offsets[count];
                continue;
            }
            memcpy(dense, offsets + count, (size_t)(values + 1) * 4);
            const int32_t* at = dense;
            for (int i = 0; i < step; i++) {
                offsets[block + i] = *at;
                at += valid >> i & 1;
            }
        }
    }
    """
    void fm_swap_all16(uint8_t* out, const uint8_t* values, int64_t count) nogil
    void fm_swap_all32(uint8_t* out, const uint8_t* values, int64_t count) nogil
    void fm_swap_all64(uint8_t* out, const uint8_t* values, int64_t count) nogil
    void fm_widen_all64(uint8_t* out, const uint8_t* values, int64_t count) nogil
    uint64_t fm_power_of_ten(int exponent) nogil
    bint fm_all_within64(const uint8_t* values, int64_t count, uint64_t limit) nogil
    bint fm_join_all96(uint8_t* out, const uint8_t* values, int64_t count) nogil
    bint fm_all_below32(const uint8_t* values, int64_t count, uint32_t limit) nogil
    void fm_unpack(const uint8_t* packed, int64_t size, int width, int64_t start, int64_t count,
                   uint32_t* out) nogil
    uint64_t fm_pack_bytes(const uint8_t* values, int count) nogil
    uint64_t fm_spread_bits(uint64_t bits, uint64_t places) nogil
    int64_t fm_count_bits(const uint8_t* bits, int64_t size, int64_t first, int64_t count) nogil
    void fm_invert_bits(uint8_t* out, const uint8_t* bits, int64_t size, int64_t first,
                        int64_t count) nogil
    void fm_make_places()
    void fm_spread(uint8_t* out, int width, int64_t rows, int64_t count,
                   const uint8_t* nulls, int64_t null_bytes, int64_t first) nogil
    void fm_spread_offsets(int* offsets, int64_t rows, int64_t count,
                           const uint8_t* nulls, int64_t null_bytes, int64_t first) nogil
