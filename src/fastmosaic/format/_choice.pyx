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

cdef extern from *:
    int leading_zeros "__builtin_clzll"(uint64_t) nogil
    int trailing_zeros "__builtin_ctzll"(uint64_t) nogil

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
    found.start = found.distance = 0
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
    elif tuning == PARTS:
        found.min_match = 5
    elif tuning == NEAR:
        found.min_match = 5
        found.hash_log = 6
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
    int64_t differing    # bytes, in all pairs


cdef void compare_words(const word* values, int64_t count, Neighbours* found) noexcept nogil:
    """Compare neighbours as they are ordered in a file."""
    cdef int64_t i, equal = 0, rising = 0, differing = 0
    cdef uint64_t differ
    for i in range(1, count):
        rising += values[i] > values[i - 1]
        differ = values[i] ^ values[i - 1]
        equal += differ == 0
        differ |= differ == 0  # zeros cannot be counted in 0: as if one byte differed
        differing += 8 - (leading_zeros(differ) >> 3) - (trailing_zeros(differ) >> 3)
    found.differing += differing - equal
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


cdef double recurring_pairs(const word* values, int64_t count) noexcept nogil:
    """Return the share of pairs of different neighbours that occurred before.

    Only those that begin with some values are looked at, so that these are found again.
    """
    cdef uint64_t[2 * PAIRS] pairs
    cdef int64_t i, slot, found = 0, seen = 0
    cdef int bits = 0
    memset(pairs, 0, sizeof(pairs))
    while count >> bits > PAIRS // 2:
        bits += 1
    for i in range(1, count):
        if bits and <uint64_t>values[i] * <uint64_t>0x9E3779B97F4A7C15ULL >> (64 - bits) != 0:
            continue
        if values[i] == values[i - 1]:
            continue
        seen += 1
        slot = <int64_t>((values[i] * <uint64_t>0xC2B2AE3D27D4EB4FULL ^ values[i - 1])
                         * <uint64_t>0x9E3779B97F4A7C15ULL >> 40) % PAIRS
        if pairs[2 * slot] == values[i] and pairs[2 * slot + 1] == values[i - 1]:
            found += 1
        pairs[2 * slot] = values[i]
        pairs[2 * slot + 1] = values[i - 1]
    return found / <double>seen if seen else 0.0


cdef double recurring(const uint8_t* values, int64_t count, int width) noexcept nogil:
    """Return the share of numbers in sequences that occurred before, perhaps far away."""
    if width == 2:
        return recurring_pairs(<const uint16_t*>values, count)
    if width == 4:
        return recurring_pairs(<const uint32_t*>values, count)
    if width == 8:
        return recurring_pairs(<const uint64_t*>values, count)
    return recurring_pairs(values, count)


cdef void describe_rare(Traits* traits, const Dictionary* dictionary) noexcept nogil:
    """Fill in what is known about the values other than one that has most rows."""
    cdef int64_t count = min(dictionary.num_indices, <int64_t>NEIGHBOURS), i, rare = 0, equal = 0
    cdef const uint32_t* indices = dictionary.indices + (dictionary.num_indices - count) // 2
    cdef uint32_t frequent = 0
    cdef int64_t votes = 0
    for i in range(count):  # if a value has most rows, this finds it
        if votes == 0:
            frequent = indices[i]
        votes += 1 if indices[i] == frequent else -1
    for i in range(1, count):
        if indices[i] != frequent:
            rare += 1
            equal += indices[i] == indices[i - 1]
    traits.rare = rare / <double>count
    traits.equal_rare = equal / <double>rare if rare else 0.0


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


cdef void compare_numbers(Traits* traits, const uint8_t* numbers) noexcept nogil:
    """Fill in what numbers and their neighbours tell; their number and their size are known."""
    cdef Neighbours found = compare_neighbours(numbers, traits.count, traits.width)
    traits.equal = found.equal / <double>found.pairs
    traits.rising = traits.differing = 0
    if found.pairs > found.equal:
        traits.differing = found.differing / <double>(found.pairs - found.equal)
        traits.rising = max(found.rising, found.falling) / <double>(found.pairs - found.equal)


cdef void describe(Traits* traits, const Dictionary* dictionary, bint has_dictionary) noexcept nogil:
    """Fill in what a dictionary tells, after `compare_numbers` if the values are numbers."""
    traits.entries = traits.table = 0
    traits.bits = 0
    traits.repeats = 1
    traits.rare = 1
    traits.equal_rare = traits.equal
    if has_dictionary:
        traits.entries = dictionary.count
        traits.table = varint_size(dictionary.count) + dictionary.bytes
        describe_rare(traits, dictionary)
        if traits.width == 0:
            traits.equal = equal_indices(dictionary)
        if traits.entries <= 256:
            traits.bits = bits_per_value(dictionary)
    elif dictionary.seen:
        traits.repeats = repeats(dictionary, traits.count)


# ---- the rule


cdef bint is_near(const Traits* traits) noexcept nogil:
    """Return whether the best match of most numbers is the one before."""
    cdef double runs = (1 - traits.equal) * traits.count
    if traits.rising >= 0.9:
        return True
    # Runs that begin with few other bytes, or whose values seldom come again.
    return traits.equal_rare >= 0.5 and (traits.differing <= 3 or traits.entries == 0 or traits.entries >= 0.75 * runs)


cdef int plain_tuning(const Traits* traits) noexcept nogil:
    if traits.width == 0:
        return NEAR if traits.equal_rare >= 0.5 else LEVEL
    if is_near(traits):
        return NEAR
    if traits.plain <= SMALL_PAGE:
        return LEVEL
    return SHORT if traits.is_float and traits.width == 4 and traits.repeats >= 0.5 else BASE


cdef int64_t padding(const Traits* traits, int bits, bint runs) noexcept nogil:
    """Return how many entries make indices of 4 or 8 bits, which zstd can code by frequency.

    That does not pay if all values are about equally frequent, unless there are runs.
    """
    if not runs and (traits.count < MIN_PADDED or traits.bits > bits - 0.1):
        return 0
    if 5 <= bits <= 7:
        return 129
    return 9 if bits == 3 else 0


cdef Choice choose(const Traits* traits) noexcept nogil:
    """Choose the encoding that is probably the smallest after compression."""
    cdef Choice choice
    cdef int bits = bit_width(traits.entries)
    cdef int64_t indices = (traits.count * bits + 7) // 8
    choice.encoding = PLAIN
    choice.tuning = choice.plain_tuning = plain_tuning(traits)
    choice.padded = 0
    choice.has_runs = choice.unsure = False
    if traits.entries == 0 or traits.table + indices >= traits.plain:
        return choice
    if traits.width == 1 and traits.entries > 16:
        return choice
    if bits > 8 and (traits.width and is_near(traits) or traits.entries > traits.rare * traits.count / 2):
        return choice
    if traits.width == 2 and bits > 8 and (traits.entries > traits.count // 8 or traits.differing < 1.5):
        return choice
    choice.encoding = DICT
    if bits <= 8:
        choice.tuning = BASE
        if traits.equal >= 0.3:
            choice.tuning = RUNS
            choice.has_runs = traits.count >= MIN_PADDED
        elif traits.count < MIN_PADDED or (
                traits.width == 0 and traits.table < MIN_BLOCK // 2 and indices < MIN_GROUP // 2):
            choice.tuning = LEVEL  # finds the matches in a table of texts, too
        elif traits.table <= indices:
            choice.tuning = ENTROPY
        if not choice.has_runs:
            choice.padded = padding(traits, bits, choice.tuning == RUNS)
        return choice
    choice.unsure = traits.entries > traits.count // 8 or traits.equal >= 0.3
    if traits.equal >= 0.3:
        choice.tuning = RUNS
    elif traits.stride == 0:
        choice.tuning = ENTROPY
    else:
        choice.tuning = BASE
    return choice
