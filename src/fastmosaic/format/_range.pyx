# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Find minimum and maximum of a column, as the format defines them, without the GIL.

For floats, the first value is the initial minimum and maximum: if it is NaN, both stay NaN; a later
NaN is ignored; and of 0.0 and -0.0, the one that comes first is kept. Texts are compared by their
bytes.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from fastmosaic.format._collect cimport BLOCK, Source, Value, Walk, next_block, number_width
from fastmosaic.format._dictionary cimport Dictionary
from fastmosaic.format._wire cimport BINARY

cdef extern from *:
    """
    /* The least and the greatest of integers. */
    #define FM_RANGE(name, type) \
        FM_CLONES static void name(const type* values, int64_t count, type* low, type* high) { \
            type least = values[0], greatest = values[0]; \
            for (int64_t i = 1; i < count; i++) { \
                least = values[i] < least ? values[i] : least; \
                greatest = values[i] > greatest ? values[i] : greatest; \
            } \
            *low = least; \
            *high = greatest; \
        }
    FM_RANGE(fm_range8, int8_t)
    FM_RANGE(fm_range16, int16_t)
    FM_RANGE(fm_range32, int32_t)
    FM_RANGE(fm_range64, int64_t)
    """
    void fm_range8(const int8_t* values, int64_t count, int8_t* low, int8_t* high) nogil
    void fm_range16(const int16_t* values, int64_t count, int16_t* low, int16_t* high) nogil
    void fm_range32(const int32_t* values, int64_t count, int32_t* low, int32_t* high) nogil
    void fm_range64(const int64_t* values, int64_t count, int64_t* low, int64_t* high) nogil


cdef inline bint is_less(const Value* a, const Value* b, int kind) noexcept nogil:
    """Compare texts by their bytes, and large decimals by their value."""
    cdef int found
    if kind >= BINARY:
        found = memcmp(<const void*>a.high, <const void*>b.high, min(a.low, b.low))
        return found < 0 or (found == 0 and a.low < b.low)
    if a.high != b.high:
        return <int64_t>a.high < <int64_t>b.high
    return a.low < b.low


cdef void measure_values(const Source* source, const Dictionary* dictionary, Range* out) noexcept nogil:
    cdef Value[BLOCK] values
    cdef const Value* found = values
    cdef Walk walk
    cdef int64_t i, count
    memset(&walk, 0, sizeof(Walk))
    walk.source = source
    if dictionary != NULL:
        found = dictionary.entries
        count = dictionary.count
    else:
        count = next_block(&walk, values)
    out.is_known = True
    out.low = out.high = found[0]
    while count:
        for i in range(count):
            if is_less(&found[i], &out.low, source.kind):
                out.low = found[i]
            elif is_less(&out.high, &found[i], source.kind):
                out.high = found[i]
        count = next_block(&walk, values) if dictionary == NULL else 0


ctypedef fused floating:
    float
    double


cdef void range_of_floats(const floating* values, int64_t count, floating* low, floating* high) noexcept nogil:
    """The first value is both; NaN is neither less nor greater than it."""
    cdef int64_t i
    low[0] = high[0] = values[0]
    for i in range(1, count):
        if values[i] < low[0]:
            low[0] = values[i]
        if values[i] > high[0]:
            high[0] = values[i]


cdef void range_of_entries(const Dictionary* dictionary, int width, bint is_float, Range* out) noexcept nogil:
    cdef int64_t i
    cdef float low4, high4, one4
    cdef double low8, high8, one8
    cdef int64_t low, high, one
    cdef int shift = 64 - 8 * width
    out.low = out.high = dictionary.entries[0]
    for i in range(1, dictionary.count):
        if is_float and width == 4:
            memcpy(&one4, &dictionary.entries[i].low, 4)
            memcpy(&low4, &out.low.low, 4)
            memcpy(&high4, &out.high.low, 4)
            if one4 < low4:
                out.low = dictionary.entries[i]
            if one4 > high4:
                out.high = dictionary.entries[i]
        elif is_float:
            memcpy(&one8, &dictionary.entries[i].low, 8)
            memcpy(&low8, &out.low.low, 8)
            memcpy(&high8, &out.high.low, 8)
            if one8 < low8:
                out.low = dictionary.entries[i]
            if one8 > high8:
                out.high = dictionary.entries[i]
        else:
            one = <int64_t>(dictionary.entries[i].low << shift)
            low = <int64_t>(out.low.low << shift)
            high = <int64_t>(out.high.low << shift)
            if one < low:
                out.low = dictionary.entries[i]
            if one > high:
                out.high = dictionary.entries[i]


cdef void measure_numbers(const uint8_t* numbers, const Source* source, bint is_float,
                          const Dictionary* dictionary, Range* out) noexcept nogil:
    """Find the least and the greatest number, as the format defines them."""
    cdef int width = number_width(source.kind)
    out.is_known = True
    out.low.low = out.low.high = out.high.low = out.high.high = 0
    if dictionary != NULL:
        range_of_entries(dictionary, width, is_float, out)
    elif is_float and width == 4:
        range_of_floats(<const float*>numbers, source.valid, <float*>&out.low.low, <float*>&out.high.low)
    elif is_float:
        range_of_floats(<const double*>numbers, source.valid, <double*>&out.low.low, <double*>&out.high.low)
    elif width == 1:
        fm_range8(<const int8_t*>numbers, source.valid, <int8_t*>&out.low.low, <int8_t*>&out.high.low)
    elif width == 2:
        fm_range16(<const int16_t*>numbers, source.valid, <int16_t*>&out.low.low, <int16_t*>&out.high.low)
    elif width == 4:
        fm_range32(<const int32_t*>numbers, source.valid, <int32_t*>&out.low.low, <int32_t*>&out.high.low)
    else:
        fm_range64(<const int64_t*>numbers, source.valid, <int64_t*>&out.low.low, <int64_t*>&out.high.low)
