# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Encode flat columns as the pages of a bucket, and compress them, without the GIL.

A page is chosen in one of two ways. By the rule of the Apache writer, a dictionary has limits and
is used if it is smaller than the values. By cost, which is the default, dictionaries have up to
65,536 entries, and what decides is how small a page is after compression: see docs/layout.md. That
is predicted from counts (how many distinct values, equal neighbours, rising values), and only tried
where the prediction is unsure.
"""

from libc.math cimport log2
from libc.stdint cimport INT64_MAX, UINT32_MAX, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._choice cimport (
    BASE, ENTROPY, LEVEL, MAX_ENTRIES, MIN_BLOCK, MIN_GROUP, MIXED, NEAR, PARTS, RUN_SAMPLE, RUNS, SAMPLE_BYTES,
    SHORT, SMALL_PAGE, PADDING, Choice, Rule, Traits, choose, compare_numbers, describe, parameters_of, recurring,
)
from fastmosaic.format._collect cimport (
    BLOCK, FINE, NO_MEMORY, ArrowColumns, CollectedColumns, Scratch, Source, Value, Walk, assemble, check,
    count_valid, need, next_block, number_width, numbers_of, plain_size_of, put_nulls, put_texts, put_value,
    size_value,
)
from fastmosaic.format._dictionary cimport (
    Dictionary, Limits, free_dictionary, index_numbers, index_values, is_walk, pack_indices, sort_entries,
)
from fastmosaic.format._range cimport Range, measure_numbers, measure_values
from fastmosaic.format._values cimport fm_swap_all16, fm_swap_all32, fm_swap_all64
from fastmosaic.format._wire cimport (
    ALL_NULL, ARRAY_BLOCK, BINARY, CONST, DICT, MAX_DIGITS, NUM_KINDS, PLAIN, TIMESTAMP_NS, bit_width, fm_copy,
    fm_equal, fm_store32, put_varint, uint32_t, uint64_t, varint_size, width_of,
)
from fastmosaic.format._zstd cimport ZSTD_NO_MEMORY, Parameters, zstd_bound, zstd_compress

cdef extern from "Python.h":
    const char* PyBytes_AsString(object o) except NULL

_FACTS = (
    "",
    "a string is not UTF-8",
    "a decimal has more digits than its type",
    "a time is negative or not less than 24 hours",
    "",
)

# ---- pages


cdef struct Encoded:
    int encoding
    int tuning
    int64_t stride     # bytes of each value or index in the data; 0 if they differ
    bint has_nulls
    int64_t rows
    int64_t num_nulls
    uint8_t* page      # encoding, flags, then the parts
    int64_t meta       # sizes of the parts
    int64_t nulls
    int64_t data
    uint8_t* frame     # the compressed page, if it is known
    int64_t frame_size
    bint is_measured   # statistics
    Range range
    uint8_t* bounds    # both, if they are texts: they must outlive the batches


# What a thread uses for one column after another.
cdef struct Workspace:
    Dictionary dictionary
    Scratch numbers
    Scratch sorting
    Scratch sample
    Scratch collected


cdef void free_workspace(Workspace* space) noexcept nogil:
    free_dictionary(&space.dictionary)
    free(space.numbers.data)
    free(space.sorting.data)
    free(space.sample.data)
    free(space.collected.data)


cdef inline int64_t page_size(const Encoded* page) noexcept nogil:
    return 2 + page.meta + page.nulls + page.data


cdef int64_t compress_page(const Encoded* page, const Rule* rule, uint8_t* out, int64_t room) noexcept nogil:
    """Compress a page; return the size of the frame, or an error of zstd.

    Table, null bitmap and indices have little in common: each gets a block of its own if it is not
    too short.
    """
    cdef Parameters parameters = parameters_of(page.tuning, rule)
    cdef int64_t[2] cuts
    cdef int num_cuts = 0
    if page.tuning == NEAR and rule.is_tuned:
        parameters.distance = page.stride
        parameters.start = 2 + page.meta + page.nulls + page.stride
    if rule.is_tuned and rule.by_cost:
        if page.encoding == DICT and page.meta >= MIN_BLOCK // 2 and page.data >= MIN_BLOCK:
            cuts[num_cuts] = 2 + page.meta
            num_cuts += 1
        if page.nulls >= MIN_BLOCK and page.data >= MIN_BLOCK:
            cuts[num_cuts] = 2 + page.meta + page.nulls
            num_cuts += 1
    return zstd_compress(&parameters, page.page, page_size(page), cuts, num_cuts, out, room)


cdef void put_numbers(const uint8_t* numbers, int64_t count, int kind, uint8_t* at) noexcept nogil:
    """Write numbers as PLAIN."""
    cdef int width = number_width(kind)
    cdef int64_t k
    cdef Value value
    if kind == TIMESTAMP_NS:
        value.high = 0
        for k in range(count):
            value.low = (<const uint64_t*>numbers)[k]
            at = put_value(at, &value, TIMESTAMP_NS)
    elif width == 1:
        memcpy(at, numbers, count)
    elif width == 2:
        fm_swap_all16(at, numbers, count)
    elif width == 4:
        fm_swap_all32(at, numbers, count)
    else:
        fm_swap_all64(at, numbers, count)


cdef void put_plain(const Source* source, const uint8_t* numbers, uint8_t* at) noexcept nogil:
    """Write the values as PLAIN; `numbers` are those of a column of numbers."""
    cdef Value[BLOCK] values
    cdef Walk walk
    cdef int i, count
    cdef int64_t k
    if number_width(source.kind):
        put_numbers(numbers, source.valid, source.kind, at)
    elif source.gathered != NULL:
        memcpy(at, source.data, source.gathered.data.size)
    elif source.kind >= BINARY:
        for k in range(source.num_chunks):
            at = put_texts(source.chunks[k], at)
    else:
        memset(&walk, 0, sizeof(Walk))
        walk.source = source
        count = next_block(&walk, values)
        while count:
            for i in range(count):
                at = put_value(at, &values[i], source.kind)
            count = next_block(&walk, values)


cdef int put_page(Source* source, const uint8_t* numbers, const Value* first,
                  const Dictionary* dictionary, int64_t padded, Encoded* out) noexcept nogil:
    """Write the page of the chosen encoding; return a Fault."""
    cdef int64_t i, entries = 0
    cdef int bits = 0
    cdef uint8_t* at
    out.has_nulls = source.valid < source.rows
    out.nulls = (source.rows + 7) // 8 if out.has_nulls else 0
    out.meta = out.data = 0
    if out.encoding == CONST:
        out.meta = size_value(first, source.kind)
    elif out.encoding == DICT:
        entries = max(padded, dictionary.count)
        bits = bit_width(entries)
        out.meta = varint_size(entries) + dictionary.bytes + (entries - dictionary.count) * size_value(
            &dictionary.entries[dictionary.count - 1], source.kind)
        out.data = (dictionary.num_indices * bits + 7) // 8
    else:
        out.data = plain_size_of(source)
    free(out.page)
    out.page = <uint8_t*>malloc(page_size(out))
    if out.page == NULL:
        return NO_MEMORY
    out.page[0] = out.encoding
    out.page[1] = out.has_nulls
    at = out.page + 2
    if out.encoding == CONST:
        at = put_value(at, first, source.kind)
    elif out.encoding == DICT:
        at = put_varint(at, entries)
        for i in range(entries):
            at = put_value(at, &dictionary.entries[min(i, dictionary.count - 1)], source.kind)
    if out.has_nulls:
        put_nulls(source, at)
        at += out.nulls
    if out.encoding == DICT:
        pack_indices(dictionary, 0, dictionary.num_indices, bits, at)
    elif out.encoding == PLAIN:
        put_plain(source, numbers, at)
    return FINE


cdef int64_t sample_size(const uint8_t* data, int64_t size, int tuning, int64_t stride, const Rule* rule,
                         Workspace* space) noexcept nogil:
    """Return the compressed size of some values or indices, or an error of zstd."""
    cdef Parameters parameters = parameters_of(tuning, rule)
    cdef int64_t room = zstd_bound(size)
    cdef uint8_t* out = need(&space.sample, room)
    if out == NULL:
        return ZSTD_NO_MEMORY
    if tuning == NEAR and rule.is_tuned:
        parameters.start = parameters.distance = stride
    return zstd_compress(&parameters, data, size, NULL, 0, out, room)


cdef int64_t compressed_share(const uint8_t* data, int64_t size, int tuning, int64_t stride, const Rule* rule,
                              Workspace* space) noexcept nogil:
    """Return the size that data has after compression, predicted from a sample; or an error."""
    cdef int64_t part = min(size, max(<int64_t>SAMPLE_BYTES // 4, min(size // 8, <int64_t>SAMPLE_BYTES)))
    cdef int64_t found = sample_size(data + (size - part) // 2 // 8 * 8, part, tuning, stride, rule, space)
    return found * size // part if found > 0 else found


cdef int keep_frame(Encoded* page, const Rule* rule) noexcept nogil:
    """Compress a page and keep the frame; return a Fault."""
    cdef int64_t room = zstd_bound(page_size(page))
    page.frame = <uint8_t*>malloc(room)
    if page.frame == NULL:
        return NO_MEMORY
    page.frame_size = compress_page(page, rule, page.frame, room)
    return FINE if page.frame_size >= 0 else NO_MEMORY


cdef int tune_plain(const uint8_t* numbers, const Traits* traits, const Rule* rule, Workspace* space,
                    Encoded* page) noexcept nogil:
    """Find the parameters that suit a PLAIN page, where counts do not tell; return a Fault."""
    cdef double recurs
    if traits.width == 0:
        return tune_texts(traits, rule, space, page) if page.tuning == LEVEL and page.data >= 4 * SAMPLE_BYTES else FINE
    # The first bytes of a float tell little: decimal fractions make the others recur.
    if page.tuning == NEAR and traits.is_float or page.data >= SAMPLE_BYTES and page.tuning in (BASE, LEVEL) and (
            traits.stride - traits.differing >= 2.5):
        # Matches far away mislead BASE in a whole page, but not in a sample.
        if not choose_smaller(page, BASE if page.data > SMALL_PAGE else LEVEL, NEAR, 1.001, rule, space):
            return NO_MEMORY
    if page.tuning == NEAR:
        recurs = recurring(numbers, traits.count, traits.width)
        if recurs >= 0.6:
            page.tuning = LEVEL
        elif recurs >= 0.2:
            return try_level(page, rule)
    return FINE


cdef int tune_texts(const Traits* traits, const Rule* rule, Workspace* space, Encoded* page) noexcept nogil:
    """Find out whether texts resemble the ones before, or in part some others; return a Fault."""
    cdef const uint8_t* data = page.page + 2 + page.nulls
    cdef int64_t near = compressed_share(data, page.data, NEAR, page.stride, rule, space)
    cdef int64_t parts = compressed_share(data, page.data, PARTS, page.stride, rule, space), base = 0
    if page.data <= 12 * traits.count:
        base = compressed_share(data, page.data, BASE, page.stride, rule, space)
    if near < 0 or parts < 0 or base < 0:
        return NO_MEMORY
    if near < 0.98 * parts:
        page.tuning = NEAR
    elif parts < 0.98 * base:
        page.tuning = PARTS
    return FINE


cdef bint choose_smaller(Encoded* page, int one, int other, double factor, const Rule* rule,
                         Workspace* space) noexcept nogil:
    """Choose between two kinds of parameters by a sample; return False without memory."""
    cdef const uint8_t* data = page.page + 2 + page.nulls
    cdef int64_t now = compressed_share(data, page.data, one, page.stride, rule, space)
    cdef int64_t then = compressed_share(data, page.data, other, page.stride, rule, space)
    page.tuning = other if then < factor * now else one
    return now >= 0 and then >= 0


cdef int try_level(Encoded* page, const Rule* rule) noexcept nogil:
    """Compress a page also with the parameters of the level, and keep the smaller frame; return a Fault."""
    cdef Encoded other = page[0]
    cdef int fault = keep_frame(page, rule)
    if fault:
        return fault
    other.tuning = LEVEL
    fault = keep_frame(&other, rule)
    if not fault and other.frame_size < page.frame_size:
        page[0], other = other, page[0]
    free(other.frame)
    return fault


cdef int try_plain(Source* source, const uint8_t* numbers, const Value* first, const Choice* choice,
                   const Traits* traits, const Rule* rule, Workspace* space, Encoded* out) noexcept nogil:
    """Replace the dictionary in `out` by PLAIN, if that is smaller; return a Fault."""
    cdef const Dictionary* dictionary = &space.dictionary
    cdef Encoded other = out[0]
    cdef int64_t near, table
    cdef double plain, indexed, reference
    cdef int fault
    other.page = other.frame = NULL
    other.encoding = PLAIN
    other.tuning = choice.plain_tuning
    other.stride = traits.stride
    fault = put_page(source, numbers, first, dictionary, 0, &other)
    if fault:
        return fault
    near = compressed_share(other.page + 2 + other.nulls, other.data, other.tuning, other.stride, rule, space)
    table = compressed_share(out.page + 2, out.meta, out.tuning, 0, rule, space)
    if near < 0 or table < 0:
        free(other.page)
        return NO_MEMORY
    # zstd makes of PLAIN values: what the sample shows, where values are near each other; where
    # they are far apart, the first of each distinct value, and references to places in the page.
    reference = dictionary.index_bits - bit_width(dictionary.count) + log2(<double>other.data) + 5
    plain = min(0.95 * near, table + (traits.count - traits.entries) * reference / 8)
    indexed = table + traits.count * dictionary.index_bits / 8
    if dictionary.index_bits == bit_width(dictionary.count):  # not sorted by frequency
        indexed -= (indexed - table) * traits.equal
    # Runs and frequent values are hard to predict; otherwise what is known of indices is exact.
    if plain < indexed / (1.5 if traits.equal >= 0.3 else 1.15):
        free(out.page)
        out[0] = other
        return FINE
    if plain > indexed * (1.5 if traits.equal >= 0.3 else 1):
        free(other.page)
        return FINE
    fault = keep_frame(out, rule)
    if not fault:
        fault = keep_frame(&other, rule)
    if other.frame_size < out.frame_size:
        out[0], other = other, out[0]
    free(other.page)
    free(other.frame)
    return fault


cdef int64_t run_sample(int64_t count) noexcept nogil:
    """Return how many of the values to compress to choose a page for runs."""
    return min(<int64_t>RUN_SAMPLE, max(count // 4, min(count, <int64_t>RUN_SAMPLE // 2)))


cdef int64_t sampled_indices(const Dictionary* dictionary, int bits, int tuning, const Rule* rule,
                             Workspace* space) noexcept nogil:
    """Return the size after compression of some indices from the middle, or an error of zstd."""
    cdef int64_t count = run_sample(dictionary.num_indices)
    cdef uint8_t[RUN_SAMPLE + 8] packed
    pack_indices(dictionary, (dictionary.num_indices - count) // 2, count, bits, packed)
    return sample_size(packed, (count * bits + 7) // 8, tuning, 1, rule, space)


cdef int64_t sampled_numbers(const uint8_t* numbers, const Traits* traits, int kind, const Rule* rule,
                             Workspace* space) noexcept nogil:
    """Return the size after compression of some PLAIN numbers from the middle, or an error of zstd."""
    cdef int64_t count = run_sample(traits.count)
    cdef uint8_t[12 * RUN_SAMPLE] plain
    put_numbers(numbers + (traits.count - count) // 2 * traits.width, count, kind, plain)
    return sample_size(plain, count * traits.stride, NEAR, traits.stride, rule, space)


cdef bint try_indices(const Dictionary* dictionary, int bits, int tuning, int64_t padded, const Rule* rule,
                      Workspace* space, int64_t* least, Choice* choice) noexcept nogil:
    """Choose these indices if a sample is smaller than the `least` so far; return False without memory."""
    cdef int64_t found = sampled_indices(dictionary, bits, tuning, rule, space)
    if 0 <= found < least[0]:
        least[0] = found
        choice.tuning = tuning
        choice.padded = padded
    return found >= 0


cdef int choose_for_runs(const uint8_t* numbers, int kind, const Traits* traits, const Rule* rule, Workspace* space,
                         Choice* choice) noexcept nogil:
    """Choose by samples among the pages that suit runs of few distinct values; return a Fault.

    Indices of one byte each let zstd count the values of a run; those of few bits are short, but
    runs begin within bytes.
    """
    cdef const Dictionary* dictionary = &space.dictionary
    cdef int bits = bit_width(traits.entries)
    cdef int64_t found, least = INT64_MAX
    cdef double shown = run_sample(traits.count) / <double>traits.count
    cdef bint fine = True
    if bits <= 4:
        if bits > 2:
            bits = 4
            fine = try_indices(dictionary, 4, RUNS, 9, rule, space, &least, choice)
            least -= least // 32  # there are more matches in a whole page
        fine &= try_indices(dictionary, bits, ENTROPY, 9 if bits == 4 else 0, rule, space, &least, choice)
        least -= <int64_t>(shown * PADDING)
    if traits.width != 1 and (bits > 4 or traits.equal >= 0.45):
        fine &= try_indices(dictionary, 8, NEAR, 129, rule, space, &least, choice)
        if bits > 2:
            fine &= try_indices(dictionary, 8, RUNS, 129, rule, space, &least, choice)
    if traits.width and traits.differing <= 2 and traits.equal >= 0.45:
        found = sampled_numbers(numbers, traits, kind, rule, space)
        fine &= found >= 0
        # About half of a table is left after compression.
        if found < least + shown * traits.table / 2:
            choice.encoding = PLAIN
            choice.tuning = NEAR
    return FINE if fine else NO_MEMORY


cdef int finish_page(Source* source, const uint8_t* numbers, const Value* first, const Traits* traits,
                     const Rule* rule, Workspace* space, Encoded* out) noexcept nogil:
    """Write the page that is probably the smallest after compression; return a Fault."""
    cdef Choice choice = choose(traits)
    cdef int fault = FINE
    if choice.encoding == DICT:
        if not sort_entries(&space.dictionary, source.kind, traits.table, &space.sorting):
            return NO_MEMORY
        if choice.has_runs:
            fault = choose_for_runs(numbers, source.kind, traits, rule, space, &choice)
        elif choice.tuning == BASE and space.dictionary.count > 256 and is_walk(&space.dictionary):
            choice.tuning = SHORT
    out.encoding = choice.encoding
    out.tuning = choice.tuning
    out.stride = traits.stride if out.encoding == PLAIN else 1
    if not fault:
        fault = put_page(source, numbers, first, &space.dictionary, choice.padded, out)
    if not fault and choice.unsure:
        fault = try_plain(source, numbers, first, &choice, traits, rule, space, out)
    if fault or out.encoding != PLAIN or out.frame != NULL or choice.has_runs or not rule.is_tuned:
        return fault
    return tune_plain(numbers, traits, rule, space, out)


cdef int put_smaller(Source* source, const uint8_t* numbers, const Value* first, const Traits* traits,
                     Workspace* space, Encoded* out) noexcept nogil:
    """Write the page that is smaller before compression, as the Apache writer does; return a Fault."""
    cdef int64_t indices = (traits.count * bit_width(traits.entries) + 7) // 8
    out.tuning = LEVEL
    out.encoding = DICT if traits.entries and traits.table + indices < traits.plain else PLAIN
    return put_page(source, numbers, first, &space.dictionary, 0, out)


cdef bint all_equal(const uint8_t* data, int64_t count, int width) noexcept nogil:
    return memcmp(data, data + width, (count - 1) * width) == 0


cdef int encode_numbers(Source* source, const Rule* rule, bint use_dictionary, bint is_float, bint measured,
                        Workspace* space, Encoded* out) noexcept nogil:
    """Encode a column of numbers; return a Fault."""
    cdef int width = number_width(source.kind), status = 0
    cdef const uint8_t* numbers = numbers_of(source, &space.numbers)
    cdef Dictionary* dictionary = &space.dictionary
    cdef Limits limits
    cdef Traits traits
    cdef Value first
    if numbers == NULL:
        return NO_MEMORY
    first.low = first.high = 0
    memcpy(&first.low, numbers, width)
    if all_equal(numbers, source.valid, width):
        out.encoding = CONST
        if measured:
            out.range.is_known = True
            out.range.low = out.range.high = first
        return put_page(source, numbers, &first, NULL, 0, out)
    memset(&traits, 0, sizeof(Traits))
    traits.width = width
    traits.is_float = is_float
    traits.count = source.valid
    traits.plain = plain_size_of(source)
    traits.stride = width_of(source.kind)
    dictionary.seen = 0
    if rule.by_cost:
        compare_numbers(&traits, numbers)
        use_dictionary &= traits.rising < 0.9
    if use_dictionary:
        # By cost: a table that is not smaller than the values is of no use.
        limits.entries = min(<int64_t>MAX_ENTRIES, source.valid // 2 + 1) if rule.by_cost else rule.max_entries
        limits.bytes = INT64_MAX if rule.by_cost or source.kind != TIMESTAMP_NS else rule.max_bytes
        limits.guesses = rule.by_cost
        status = index_numbers(dictionary, numbers, source.valid, width, width_of(source.kind), &limits)
        if status < 0:
            return NO_MEMORY
    if measured:
        measure_numbers(numbers, source, is_float, dictionary if status else NULL, &out.range)
    describe(&traits, dictionary, status)
    if not rule.by_cost:
        return put_smaller(source, numbers, &first, &traits, space, out)
    return finish_page(source, numbers, &first, &traits, rule, space, out)


cdef int encode_values(Source* source, const Rule* rule, bint use_dictionary, bint measured,
                       Workspace* space, Encoded* out) noexcept nogil:
    """Encode a column of texts or large decimals; return a Fault."""
    cdef Dictionary* dictionary = &space.dictionary
    cdef Value[BLOCK] values
    cdef Limits limits
    cdef Traits traits
    cdef Value first
    cdef Walk walk
    cdef int status = 0
    cdef bint constant = True
    memset(&walk, 0, sizeof(Walk))
    walk.source = source
    next_block(&walk, values)
    first = values[0]
    if use_dictionary:
        limits.entries = min(<int64_t>MAX_ENTRIES, source.valid // 2 + 1) if rule.by_cost else rule.max_entries
        limits.bytes = plain_size_of(source) if rule.by_cost else rule.max_bytes
        limits.guesses = rule.by_cost
        status = index_values(dictionary, source, &limits)
        if status < 0:
            return NO_MEMORY
        if status:
            constant = dictionary.count == 1
    if not status:
        constant = is_constant(source, &first)
    if constant:
        out.encoding = CONST
        if measured:
            out.range.is_known = True
            out.range.low = out.range.high = first
        return put_page(source, NULL, &first, NULL, 0, out)
    if measured:
        measure_values(source, dictionary if status else NULL, &out.range)
    memset(&traits, 0, sizeof(Traits))
    traits.plain = plain_size_of(source)
    traits.count = source.valid
    traits.stride = size_value(&first, source.kind)
    if traits.plain != source.valid * traits.stride:
        traits.stride = 0
    describe(&traits, dictionary, status)
    if not rule.by_cost:
        return put_smaller(source, NULL, &first, &traits, space, out)
    return finish_page(source, NULL, &first, &traits, rule, space, out)


cdef bint is_constant(const Source* source, const Value* first) noexcept nogil:
    cdef Value[BLOCK] values
    cdef Walk walk
    cdef int i, count
    memset(&walk, 0, sizeof(Walk))
    walk.source = source
    count = next_block(&walk, values)
    while count:
        for i in range(count):
            if values[i].low != first.low:
                return False
            if source.kind < BINARY:
                if values[i].high != first.high:
                    return False
            elif not fm_equal(<const uint8_t*>values[i].high, <const uint8_t*>first.high, first.low):
                return False
        count = next_block(&walk, values)
    return True


cdef bint keep_bounds(Encoded* page, int kind) noexcept nogil:
    """Copy bounds that are texts; return False without memory."""
    if not page.range.is_known or kind < BINARY:
        return True
    page.bounds = <uint8_t*>malloc(page.range.low.low + page.range.high.low + 1)
    if page.bounds == NULL:
        return False
    fm_copy(page.bounds, <const uint8_t*>page.range.low.high, page.range.low.low)
    fm_copy(page.bounds + page.range.low.low, <const uint8_t*>page.range.high.high, page.range.high.low)
    page.range.low.high = <uint64_t>page.bounds
    page.range.high.high = <uint64_t>(page.bounds + page.range.low.low)
    return True


# ---- columns


# What is asked for of a flat column.
cdef enum:
    MAY_USE_DICTIONARY = 1
    IS_FLOAT = 2
    MEASURED = 4


cdef int encode_column(Source* source, int digits, int flags, const Rule* rule, Workspace* space,
                       Encoded* out) noexcept nogil:
    """Encode one column, except array data blocks; return a Fault."""
    cdef int64_t i
    cdef int fault
    if source.gathered != NULL:
        source.rows = source.gathered.rows
        source.valid = source.gathered.count
        source.data = assemble(source.gathered, &space.collected)
        if source.data == NULL:
            return NO_MEMORY
    for i in range(source.num_chunks):
        source.rows += source.chunks[i].length
        source.valid += count_valid(source.chunks[i])
        fault = check(source.chunks[i], source.kind, digits)
        if fault:
            return fault
    out.rows = source.rows
    out.num_nulls = source.rows - source.valid
    out.encoding = ALL_NULL
    if source.valid == 0 or source.kind == ARRAY_BLOCK:
        return FINE
    if number_width(source.kind):
        fault = encode_numbers(source, rule, flags & MAY_USE_DICTIONARY, (flags & IS_FLOAT) != 0,
                               (flags & MEASURED) != 0, space, out)
    else:
        fault = encode_values(source, rule, flags & MAY_USE_DICTIONARY, (flags & MEASURED) != 0, space, out)
    if not fault and not keep_bounds(out, source.kind):
        return NO_MEMORY
    return fault


cdef class EncodedPages:
    """The pages of the flat columns of a bucket."""

    cdef Encoded* _pages
    cdef Rule _rule
    cdef bytes _kinds
    cdef readonly Py_ssize_t count

    def __cinit__(self, bytes kinds not None):
        self.count = len(kinds)
        self._kinds = kinds
        self._pages = <Encoded*>calloc(self.count + 1, sizeof(Encoded))
        if self._pages == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self._pages != NULL:
            for i in range(self.count):
                free(self._pages[i].page)
                free(self._pages[i].frame)
                free(self._pages[i].bounds)
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

    def largest(self):
        """Return the size of the largest page."""
        cdef Py_ssize_t i
        cdef int64_t size = 0
        for i in range(self.count):
            size = max(size, page_size(&self._pages[i]))
        return size

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

    def compressed(self, bytes header not None):
        """Return a compressed monolithic bucket, which begins with `header`, and its size before."""
        cdef bytes bucket
        cdef const uint8_t* data
        cdef uint8_t* out
        cdef int64_t at = len(header) + (2 * self.count + 7) // 8 + (self.count + 7) // 8
        cdef int64_t tables = 0, nulls = 0, size, done
        cdef int64_t[2] cuts
        cdef int num_cuts = 0
        cdef Parameters parameters
        cdef Py_ssize_t i
        if self.count == 1 and not header and self._pages[0].page != NULL:
            # A bucket of one flat column has the bytes of its page.
            with nogil:
                done = self._pages[0].frame == NULL and keep_frame(&self._pages[0], &self._rule)
            if done:
                raise MemoryError
            return (<const char*>self._pages[0].frame)[:self._pages[0].frame_size], page_size(&self._pages[0])
        bucket = self.monolithic(header)
        data = <const uint8_t*>PyBytes_AsString(bucket)
        size = len(bucket)
        out = <uint8_t*>malloc(zstd_bound(size))
        if out == NULL:
            raise MemoryError
        with nogil:
            parameters = parameters_of(self._bucket_tuning(), &self._rule)
            if self._rule.is_tuned and self._rule.by_cost:
                for i in range(self.count):
                    tables += self._pages[i].meta
                    nulls += self._pages[i].nulls
                at += tables
                if tables >= MIN_GROUP and size - at >= MIN_GROUP:
                    cuts[0] = at
                    num_cuts = 1
                at += nulls
                if nulls >= MIN_GROUP and size - at >= MIN_GROUP:
                    cuts[num_cuts] = at
                    num_cuts += 1
            done = zstd_compress(&parameters, data, size, cuts, num_cuts, out, zstd_bound(size))
        try:
            if done < 0:
                raise MemoryError
            return (<const char*>out)[:done], size
        finally:
            free(out)

    cdef int _bucket_tuning(self) noexcept nogil:
        """Return what suits most bytes of the bucket."""
        cdef int64_t[MIXED + 1] bytes_of
        cdef int64_t total = 0
        cdef Py_ssize_t i
        cdef int tuning
        memset(bytes_of, 0, sizeof(bytes_of))
        for i in range(self.count):
            if self._pages[i].page != NULL:
                bytes_of[self._pages[i].tuning] += page_size(&self._pages[i])
                total += page_size(&self._pages[i])
        for tuning in range(MIXED):
            if 10 * bytes_of[tuning] > 9 * total:
                return tuning
        if 2 * bytes_of[<int>NEAR] > total:
            return NEAR
        return MIXED

    def paged(self, bytes header not None):
        """Return a paged bucket: `header`, the directory, and the compressed pages."""
        cdef int64_t start = len(header), room = start + 4 * self.count, at, done
        cdef Py_ssize_t i
        cdef Encoded* page
        cdef bytes result
        cdef uint8_t* out
        cdef uint8_t* end
        cdef const char* head = PyBytes_AsString(header)
        for i in range(self.count):
            page = &self._pages[i]
            if page.frame != NULL:
                room += 5 + page.frame_size
            elif page.encoding != ALL_NULL:
                room += 5 + zstd_bound(page_size(page))
        out = <uint8_t*>malloc(room)
        if out == NULL:
            raise MemoryError
        try:
            done = at = start + 4 * self.count
            with nogil:
                memcpy(out, head, start)
                for i in range(self.count):
                    page = &self._pages[i]
                    done = 0
                    if page.encoding != ALL_NULL:
                        end = put_varint(out + at, page_size(page))
                        if page.frame != NULL:
                            memcpy(end, page.frame, page.frame_size)
                            done = page.frame_size
                        else:
                            done = compress_page(page, &self._rule, end, room - (end - out))
                        if done < 0:
                            break
                        done += end - (out + at)
                    fm_store32(out + start + 4 * i, <uint32_t>done)
                    at += done
            if done < 0:
                raise MemoryError
            return (<const char*>out)[:at]
        finally:
            free(out)

    def statistics(self, Py_ssize_t first, Py_ssize_t count):
        """Return the statistics of the first `count` columns, and how many there are.

        They are encoded as in the row group index; `first` is the position of the first column.
        """
        cdef Py_ssize_t i, found = 0
        cdef int64_t size = 0
        cdef Encoded* page
        cdef uint8_t* at
        cdef bytes result
        cdef const uint8_t[::1] kinds = self._kinds
        if not 0 <= count <= self.count:
            raise IndexError(count)
        for i in range(count):
            page = &self._pages[i]
            if page.is_measured:
                found += 1
                size += 10
                if page.range.is_known:
                    size += size_value(&page.range.low, kinds[i]) + size_value(&page.range.high, kinds[i])
        result = PyBytes_FromStringAndSize(NULL, size)
        at = <uint8_t*>PyBytes_AsString(result)
        for i in range(count):
            page = &self._pages[i]
            if page.is_measured:
                at = put_varint(at, first + i)
                at = put_varint(at, page.num_nulls)
                if page.range.is_known:
                    at = put_value(at, &page.range.low, kinds[i])
                    at = put_value(at, &page.range.high, kinds[i])
        return result[:at - <uint8_t*>PyBytes_AsString(result)], found


class ColumnFault(ValueError):
    """A column cannot be encoded; `column` is its index among the requested columns."""

    def __init__(self, fact, column):
        super().__init__(fact)
        self.column = column


cdef object _fail(int fault, Py_ssize_t column):
    if fault == NO_MEMORY:
        raise MemoryError
    raise ColumnFault(_FACTS[fault], column)


def check_columns(ArrowColumns batch not None, bytes kinds not None, bytes digits not None):
    """Raise ColumnFault if a batch contains values that a file must not have."""
    cdef const uint8_t[::1] kind = kinds, precision = digits
    cdef Py_ssize_t i, count = batch.count
    cdef int fault = FINE
    if not len(kinds) == len(digits) == count:
        raise ValueError(f"{len(kinds)} kinds for {count} columns")
    with nogil:
        for i in range(count):
            if kind[i] < NUM_KINDS and precision[i] <= MAX_DIGITS:
                fault = check(batch._arrays[i], kind[i], precision[i])
            if fault:
                break
    if fault:
        _fail(fault, i)


def encode(batches, columns, bytes kinds not None, bytes digits not None, bytes flags not None, max_entries=None,
           int64_t max_bytes=0, level=None, bint checksum=True):
    """Encode some `columns` of consecutive batches.

    Parameters
    ----------
    batches : list of ArrowColumns, or CollectedColumns
    columns : sequence of int
        The indices of the columns in each batch.
    kinds, digits, flags : bytes
        For each of the columns: how its values are stored, the precision of a decimal, and a sum of
        1 (a dictionary is allowed), 2 (the numbers are floats) and 4 (statistics are wanted).
    max_entries, max_bytes : int, optional
        The limits of dictionaries by the rule of the Apache writer. By default pages are chosen by
        cost.
    level : int, optional
        The level of zstd. By default its parameters suit each page.
    """
    cdef Py_ssize_t count = len(columns), num_batches = 0, i, k, index
    cdef EncodedPages pages = EncodedPages(kinds)
    cdef CollectedColumns collected = None
    cdef const uint8_t[::1] kind = kinds, precision = digits, flag = flags
    cdef ArrowArray** chunks = NULL
    cdef ArrowColumns batch
    cdef Workspace space
    cdef Source* sources
    cdef int fault = FINE
    pages._rule.by_cost = max_entries is None
    pages._rule.max_entries = 0 if max_entries is None else max_entries
    pages._rule.max_bytes = max_bytes
    pages._rule.is_tuned = level is None
    pages._rule.level = 1 if level is None else level
    pages._rule.checksum = checksum
    if not len(kinds) == len(digits) == len(flags) == count:
        raise ValueError(f"{len(kinds)} kinds for {count} columns")
    if isinstance(batches, CollectedColumns):
        collected = batches
    else:
        num_batches = len(batches)
    memset(&space, 0, sizeof(Workspace))
    sources = <Source*>calloc(count + 1, sizeof(Source))
    chunks = <ArrowArray**>malloc((count * num_batches + 1) * sizeof(ArrowArray*))
    try:
        if sources == NULL or chunks == NULL:
            raise MemoryError
        for i in range(count):
            if kind[i] >= NUM_KINDS and kind[i] != ARRAY_BLOCK:
                raise ValueError(f"kind {kind[i]}")
            if precision[i] > MAX_DIGITS:
                raise ValueError(f"{precision[i]} digits")
            index = columns[i]
            sources[i].kind = kind[i]
            sources[i].plain = -1
            pages._pages[i].is_measured = (flag[i] & MEASURED) != 0
            if collected is not None:
                if not 0 <= index < collected.count:
                    raise IndexError(f"column {index} of {collected.count}")
                if kind[i] == ARRAY_BLOCK:
                    continue
                if kind[i] != collected._kinds[index]:
                    raise ValueError(f"column {index} was collected as kind {collected._kinds[index]}")
                sources[i].gathered = &collected._columns[index]
                continue
            sources[i].chunks = chunks + i * num_batches
            sources[i].num_chunks = num_batches
            for k in range(num_batches):
                batch = batches[k]
                if not 0 <= index < batch.count:
                    raise IndexError(f"column {index} of {batch.count}")
                sources[i].chunks[k] = batch._arrays[index]
        with nogil:
            for i in range(count):
                fault = encode_column(&sources[i], precision[i], flag[i], &pages._rule, &space,
                                      &pages._pages[i])
                if fault:
                    break
        if fault:
            _fail(fault, i)
        return pages
    finally:
        free_workspace(&space)
        free(sources)
        free(chunks)
