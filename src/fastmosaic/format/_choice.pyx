# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Predict which page of a column is the smallest after compression, without the GIL.

docs/layout.md explains the rule, and what it is based on.
"""

from libc.math cimport exp, log2
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

from fastmosaic.format._dictionary cimport Dictionary
from fastmosaic.format._wire cimport DICT, PLAIN, bit_width, uint16_t, uint32_t, uint64_t, varint_size
from fastmosaic.format._zstd cimport DFAST, FAST, Parameters

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef Parameters parameters_of(int tuning, const Rule* rule) noexcept nogil:
    cdef Parameters found
    found.checksum = rule.checksum
    found.level = rule.level
    found.strategy = 0
    if tuning == LEVEL or not rule.is_tuned:
        return found
    found.strategy = FAST
    found.window_log = 20
    found.hash_log = 16
    found.chain_log = 6
    found.search_log = 1
    found.min_match = 6
    if tuning == SHORT:
        found.min_match = 4
    elif tuning == NEAR:
        found.min_match = 5
        found.hash_log = 6
    elif tuning == ZERO:
        found.strategy = DFAST
        found.min_match = 7
        found.hash_log = 6
    elif tuning == STEP:
        found.strategy = DFAST
        found.min_match = 7
        found.hash_log = found.chain_log = 9
    elif tuning == RUNS:
        found.strategy = DFAST
        found.min_match = 4
        found.hash_log = 15
        found.chain_log = 14
    elif tuning == ENTROPY:
        found.min_match = 7
        found.hash_log = 6
    elif tuning == MIXED:
        found.min_match = 5
        found.hash_log = 14
    return found


# ---- what is known about the values


cdef struct Neighbours:
    int64_t pairs
    int64_t equal
    int64_t rising
    int64_t falling
    int64_t close


cdef void compare_words(const word* values, int64_t count, Neighbours* found) noexcept nogil:
    """Compare neighbours as they are ordered in a file."""
    cdef int64_t i, equal = 0, rising = 0, close = 0
    cdef int shift = 8 * sizeof(word) - 16 if sizeof(word) > 2 else 0
    for i in range(1, count):
        equal += values[i] == values[i - 1]
        rising += values[i] > values[i - 1]
        close += (values[i] ^ values[i - 1]) >> shift == 0
    found.close += close
    found.pairs += count - 1
    found.equal += equal
    found.rising += rising
    found.falling += count - 1 - equal - rising


cdef Neighbours compare_neighbours(const uint8_t* values, int64_t count, int width) noexcept nogil:
    """Compare the neighbours among numbers, or a sample of them in four places."""
    cdef Neighbours found
    cdef int64_t part = count if count <= NEIGHBOURS else NEIGHBOURS // 4
    cdef int64_t start = 0, step = count if count <= NEIGHBOURS else (count - part) // 3
    memset(&found, 0, sizeof(Neighbours))
    while start + part <= count and count > 1:
        if width == 1:
            compare_words(values + start, part, &found)
        elif width == 2:
            compare_words(<const uint16_t*>values + start, part, &found)
        elif width == 4:
            compare_words(<const uint32_t*>values + start, part, &found)
        else:
            compare_words(<const uint64_t*>values + start, part, &found)
        start += step
    return found


cdef bint has_equal_steps(const word* values, int64_t count) noexcept nogil:
    """Return whether nine of ten differences at the beginning are the same."""
    cdef int64_t i, steps = min(count - 1, <int64_t>256), equal = 0
    cdef word step
    if count < 16:
        return False
    step = values[steps // 2] - values[steps // 2 - 1]
    if step == 0:
        return False
    for i in range(1, steps + 1):
        equal += <word>(values[i] - values[i - 1]) == step
    return 10 * equal > 9 * steps


cdef bint has_steps(const uint8_t* values, int64_t count, int width) noexcept nogil:
    if width == 2:
        return has_equal_steps(<const uint16_t*>values, count)
    if width == 4:
        return has_equal_steps(<const uint32_t*>values, count)
    return width == 8 and has_equal_steps(<const uint64_t*>values, count)


cdef bint are_small(const uint8_t* values, int64_t count, int width) noexcept nogil:
    """Return whether all numbers of eight bytes are below 2**24."""
    cdef uint64_t all_bits = 0
    cdef int64_t i
    if width == 8:
        for i in range(count):
            all_bits |= (<const uint64_t*>values)[i]
    return width == 8 and all_bits < 1 << 24


cdef double equal_rare(const Dictionary* dictionary) noexcept nogil:
    """Return the share of equal neighbours among values other than one that has most rows."""
    cdef int64_t count = min(dictionary.num_indices, <int64_t>NEIGHBOURS), i, pairs = 0, equal = 0
    cdef const uint32_t* indices = dictionary.indices + (dictionary.num_indices - count) // 2
    cdef uint32_t frequent = 0
    cdef int64_t votes = 0
    for i in range(count):  # if a value has most rows, this finds it
        if votes == 0:
            frequent = indices[i]
        votes += 1 if indices[i] == frequent else -1
    for i in range(1, count):
        if indices[i] != frequent:
            pairs += 1
            equal += indices[i] == indices[i - 1]
    return equal / <double>pairs if pairs else 0.0


cdef double bits_per_value(const Dictionary* dictionary) noexcept nogil:
    """Return the entropy of up to 256 distinct values, from a sample."""
    cdef int64_t count = min(dictionary.num_indices, <int64_t>NEIGHBOURS), i
    cdef const uint32_t* indices = dictionary.indices + (dictionary.num_indices - count) // 2
    cdef uint32_t[256] rows
    cdef double bits = 0
    memset(rows, 0, sizeof(rows))
    for i in range(count):
        rows[indices[i]] += 1
    for i in range(dictionary.count):
        if rows[i]:
            bits -= rows[i] * log2(rows[i] / <double>count)
    return bits / count


cdef double repeats(const Dictionary* dictionary, int64_t count) noexcept nogil:
    """Estimate the share of values that occurred before, from the values seen so far.

    They are taken for draws from equally frequent values: with k of them, d distinct ones and n
    values seen, n - d is about n * n / 2k.
    """
    cdef double seen = dictionary.seen
    cdef double draws = 2 * (seen - dictionary.count) / seen * count / seen
    return 1 - (1 - exp(-draws)) / draws if draws > 0 else 0.0


cdef double equal_indices(const Dictionary* dictionary) noexcept nogil:
    cdef Neighbours found = compare_neighbours(
        <const uint8_t*>dictionary.indices, dictionary.num_indices, 4)
    return found.equal / <double>found.pairs if found.pairs else 0.0


cdef void describe(Traits* traits, const Dictionary* dictionary, bint has_dictionary) noexcept nogil:
    """Fill in what a dictionary tells; the number of values and their size are known."""
    traits.entries = dictionary.count if has_dictionary else 0
    traits.table = varint_size(dictionary.count) + dictionary.bytes if has_dictionary else 0
    traits.equal = equal_indices(dictionary) if has_dictionary else 0
    traits.equal_rare = equal_rare(dictionary) if has_dictionary else 0
    traits.bits = bits_per_value(dictionary) if 0 < traits.entries <= 256 else 0
    traits.rising = traits.close = traits.repeats = 0
    traits.has_steps = traits.is_small = False


cdef void describe_numbers(Traits* traits, const uint8_t* numbers, const Dictionary* dictionary) noexcept nogil:
    """Fill in what numbers and their neighbours tell, after `describe`."""
    cdef Neighbours found = compare_neighbours(numbers, traits.count, traits.width)
    traits.equal = found.equal / <double>found.pairs
    if traits.entries == 0:
        traits.equal_rare = traits.equal
    traits.close = found.close / <double>found.pairs
    if found.pairs > found.equal:
        traits.rising = max(found.rising, found.falling) / <double>(found.pairs - found.equal)
    traits.has_steps = has_steps(numbers, traits.count, traits.width)
    traits.is_small = traits.rising >= 0.9 and are_small(numbers, traits.count, traits.width)
    traits.repeats = 1
    if traits.entries == 0 and dictionary.seen:
        traits.repeats = repeats(dictionary, traits.count)


# ---- the rule


cdef int plain_tuning(const Traits* traits) noexcept nogil:
    if traits.width == 0:
        return NEAR if traits.equal_rare >= 0.5 else LEVEL
    if traits.rising >= 0.9 and not traits.has_steps or traits.equal_rare >= 0.5:
        return ZERO if traits.is_small else NEAR
    if traits.plain <= SMALL_PAGE:
        return LEVEL
    if traits.has_steps:
        return STEP
    return SHORT if traits.is_float and traits.width == 4 and traits.repeats >= 0.3 else BASE


cdef int64_t padding(const Traits* traits, int bits, bint runs) noexcept nogil:
    """Return how many entries make indices of 4 or 8 bits, which zstd can code by frequency.

    That does not pay if all values are about equally frequent, unless there are runs.
    """
    if not runs and (traits.count < MIN_PADDED or traits.bits > bits - 0.1):
        return 0
    if 5 <= bits <= 7:
        return 129
    return 9 if bits == 3 or (bits == 2 and runs) else 0


cdef Choice choose(const Traits* traits) noexcept nogil:
    """Choose the encoding that is probably the smallest after compression."""
    cdef Choice choice
    cdef int bits = bit_width(traits.entries)
    cdef int64_t indices = (traits.count * bits + 7) // 8
    cdef bint runs
    choice.encoding = PLAIN
    choice.tuning = choice.plain_tuning = plain_tuning(traits)
    choice.padded = 0
    choice.unsure = False
    if traits.entries == 0 or traits.table + indices >= traits.plain:
        return choice
    if traits.rising >= 0.9 and bits > 2:
        return choice
    if traits.width == 1 and traits.entries > 16:
        return choice
    if 0 < traits.width <= 4 and bits > 8 and traits.entries > traits.count // 8:
        return choice
    if bits <= 8:
        runs = traits.equal >= 0.5 or (bits >= 4 and traits.equal >= 0.3)
        choice.encoding = DICT
        if runs:
            choice.tuning = RUNS
            choice.padded = padding(traits, bits, True)
        else:
            choice.tuning = BASE
            if traits.count < MIN_PADDED:
                choice.tuning = LEVEL
            elif traits.table <= indices:
                choice.tuning = ENTROPY
            choice.padded = padding(traits, bits, False)
        return choice
    choice.encoding = DICT
    choice.unsure = traits.entries > traits.count // 8 or traits.equal >= 0.3
    if traits.equal >= 0.3:
        choice.tuning = RUNS
    elif traits.width == 0 and not traits.same_length:
        choice.tuning = ENTROPY
    else:
        choice.tuning = BASE
    return choice
