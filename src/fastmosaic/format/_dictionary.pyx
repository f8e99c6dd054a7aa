# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Find the distinct values of a column, sort them, and pack indices, without the GIL."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcmp, memcpy, memset

from fastmosaic.format._collect cimport (
    BLOCK, Scratch, Source, Value, Walk, need, next_block, size_value,
)
from fastmosaic.format._wire cimport (
    BINARY, bit_width, fm_equal, fm_load32, fm_load64, fm_store16, fm_store64, fm_swap64, uint16_t, uint32_t, uint64_t,
)

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t

cdef enum:
    FEW_LOG_SLOTS = 8
    FEW_SLOTS = 1 << FEW_LOG_SLOTS
    # Sorting more texts takes longer than it is worth.
    MAX_SORTED_TEXTS = 16384
    # In fewer rows, texts are found in about the order of their frequency, which is as good.
    MIN_SORTED_ROWS = 1000
    MAX_INSERTED = 64  # entries that are sorted by insertion


cdef void free_dictionary(Dictionary* dictionary) noexcept nogil:
    free(dictionary.slots)
    free(dictionary.entries)
    free(dictionary.indices)
    memset(dictionary, 0, sizeof(Dictionary))


cdef bint begin(Dictionary* dictionary, int64_t num_values) noexcept nogil:
    """Forget what was there, and make room for the indices of so many values."""
    cdef uint32_t* indices
    # A large table of the column before would have to be cleared: a small one is made anew.
    if dictionary.log_slots != FEW_LOG_SLOTS:
        free(dictionary.slots)
        free(dictionary.entries)
        dictionary.slots = <Slot*>malloc(FEW_SLOTS * sizeof(Slot))
        # Enough for all values of one byte: see `feed_bytes`.
        dictionary.entries = <Value*>malloc(256 * sizeof(Value))
        dictionary.room = FEW_SLOTS // 2
        dictionary.log_slots = FEW_LOG_SLOTS
        if dictionary.slots == NULL or dictionary.entries == NULL:
            dictionary.log_slots = 0
            return False
    memset(dictionary.slots, 0, FEW_SLOTS * sizeof(Slot))
    dictionary.count = dictionary.bytes = dictionary.num_indices = dictionary.seen = 0
    dictionary.places = NULL
    if num_values > dictionary.index_room:
        indices = <uint32_t*>realloc(dictionary.indices, num_values * sizeof(uint32_t))
        if indices == NULL:
            return False
        dictionary.indices = indices
        dictionary.index_room = num_values
    return True


cdef inline uint64_t slot_of(uint64_t key, int log_slots) noexcept nogil:
    return (key * <uint64_t>0x9E3779B97F4A7C15ULL) >> (64 - log_slots)


cdef bint grow(Dictionary* dictionary) noexcept nogil:
    """Make four times the room."""
    cdef int log_slots = dictionary.log_slots + 2
    cdef uint64_t num_slots = <uint64_t>1 << log_slots, slot, old
    cdef Slot* slots = <Slot*>calloc(num_slots, sizeof(Slot))
    cdef Value* entries = <Value*>realloc(dictionary.entries, 4 * dictionary.room * sizeof(Value))
    if entries != NULL:
        dictionary.entries = entries
    if slots == NULL or entries == NULL:
        free(slots)
        return False
    for old in range(<uint64_t>1 << dictionary.log_slots):
        if dictionary.slots[old].entry:
            slot = slot_of(dictionary.slots[old].key, log_slots)
            while slots[slot].entry:
                slot = (slot + 1) & (num_slots - 1)
            slots[slot] = dictionary.slots[old]
    free(dictionary.slots)
    dictionary.slots = slots
    dictionary.log_slots = log_slots
    dictionary.room *= 4
    return True


cdef int64_t first_look(int64_t count) noexcept nogil:
    """Return after how many values to consider giving a dictionary up."""
    return 192 if count <= 4096 else max(<int64_t>512, count // 16)


cdef bint is_hopeless(int64_t entries, int64_t seen, int64_t count, int width) noexcept nogil:
    """Return whether too many of the values seen are distinct.

    If they are drawn from equally frequent values, 0.92 means that a third of all values will be
    distinct, and 0.79 an eighth, where a table of numbers of four bytes ceases to pay.
    """
    if count <= 4096:
        return entries > 0.97 * seen
    return entries > (0.79 if 0 < width <= 4 else 0.92) * seen


# ---- numbers


cdef int feed(Dictionary* dictionary, const word* values, int64_t start, int64_t stop,
              int64_t max_entries) noexcept nogil:
    """Add the values from `start` to `stop`; return 1, 0 if there are too many, -1 without memory."""
    cdef int64_t i
    cdef uint64_t key, last_key, slot, mask
    cdef uint32_t last
    cdef Slot* slots
    if start == 0:
        if max_entries < 1:
            return 0
        last_key = values[0]
        last = 0
        dictionary.entries[0].low = last_key
        dictionary.entries[0].high = 0
        dictionary.count = 1
        slot = slot_of(last_key, dictionary.log_slots)
        dictionary.slots[slot].entry = 1
        dictionary.slots[slot].key = last_key
    else:
        last = dictionary.indices[start - 1]
        last_key = values[start - 1]
    slots = dictionary.slots
    mask = (<uint64_t>1 << dictionary.log_slots) - 1
    for i in range(start, stop):
        key = values[i]
        # A value often equals the previous one, and then needs no search.
        if key != last_key:
            slot = slot_of(key, dictionary.log_slots)
            while slots[slot].entry and slots[slot].key != key:
                slot = (slot + 1) & mask
            if slots[slot].entry == 0:
                if dictionary.count >= max_entries:
                    return 0
                if dictionary.count == dictionary.room:
                    if not grow(dictionary):
                        return -1
                    slots = dictionary.slots
                    mask = (<uint64_t>1 << dictionary.log_slots) - 1
                    slot = slot_of(key, dictionary.log_slots)
                    while slots[slot].entry:
                        slot = (slot + 1) & mask
                dictionary.entries[dictionary.count].low = key
                dictionary.entries[dictionary.count].high = 0
                dictionary.count += 1
                slots[slot].entry = <uint32_t>dictionary.count
                slots[slot].key = key
            last = slots[slot].entry - 1
            last_key = key
        dictionary.indices[i] = last
    return 1


cdef void feed_bytes(Dictionary* dictionary, const uint8_t* values, int64_t count) noexcept nogil:
    """Add values of one byte, by a table."""
    cdef uint32_t[256] seen
    cdef int64_t i
    memset(seen, 0, sizeof(seen))
    for i in range(count):
        if seen[values[i]] == 0:
            dictionary.entries[dictionary.count].low = values[i]
            dictionary.entries[dictionary.count].high = 0
            dictionary.count += 1
            seen[values[i]] = <uint32_t>dictionary.count
        dictionary.indices[i] = seen[values[i]] - 1


cdef int feed_all(Dictionary* dictionary, const word* values, int64_t count,
                  const Limits* limits) noexcept nogil:
    cdef int64_t look = first_look(count)
    cdef int status
    if limits.guesses and look < count:
        status = feed(dictionary, values, 0, look, limits.entries)
        if status <= 0:
            return status
        if is_hopeless(dictionary.count, look, count, sizeof(word)):
            dictionary.seen = look
            return 0
        return feed(dictionary, values, look, count, limits.entries)
    return feed(dictionary, values, 0, count, limits.entries)


cdef int index_numbers(Dictionary* dictionary, const uint8_t* values, int64_t count, int width,
                       int stored_width, const Limits* limits) noexcept nogil:
    """Make the dictionary of `count` numbers of `width` bytes."""
    cdef int status = 1
    if not begin(dictionary, count):
        return -1
    if width == 1:
        feed_bytes(dictionary, values, count)
        status = dictionary.count <= limits.entries
    elif width == 2:
        status = feed_all(dictionary, <const uint16_t*>values, count, limits)
    elif width == 4:
        status = feed_all(dictionary, <const uint32_t*>values, count, limits)
    else:
        status = feed_all(dictionary, <const uint64_t*>values, count, limits)
    dictionary.num_indices = count
    dictionary.bytes = dictionary.count * stored_width
    if status > 0 and dictionary.bytes > limits.bytes:
        return 0
    return status


# ---- texts, and decimals of up to 16 bytes


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


cdef int find(Dictionary* dictionary, const Value* value, int kind, const Limits* limits,
              uint32_t* entry) noexcept nogil:
    """Set `entry` to that of `value`; return 1, 0 if there are too many, -1 without memory."""
    cdef uint64_t mask = (<uint64_t>1 << dictionary.log_slots) - 1
    cdef uint64_t key = hash_value(value, kind)
    cdef uint64_t slot = slot_of(key, dictionary.log_slots)
    while dictionary.slots[slot].entry:
        entry[0] = dictionary.slots[slot].entry - 1
        if dictionary.slots[slot].key == key and same(value, &dictionary.entries[entry[0]], kind):
            return 1
        slot = (slot + 1) & mask
    if dictionary.count >= limits.entries:
        return 0
    dictionary.bytes += size_value(value, kind)
    if dictionary.bytes > limits.bytes:
        return 0
    if dictionary.count == dictionary.room:
        if not grow(dictionary):
            return -1
        mask = (<uint64_t>1 << dictionary.log_slots) - 1
        slot = slot_of(key, dictionary.log_slots)
        while dictionary.slots[slot].entry:
            slot = (slot + 1) & mask
    entry[0] = <uint32_t>dictionary.count
    dictionary.entries[entry[0]] = value[0]
    dictionary.count += 1
    dictionary.slots[slot].entry = entry[0] + 1
    dictionary.slots[slot].key = key
    return 1


cdef int index_values(Dictionary* dictionary, const Source* source, const Limits* limits) noexcept nogil:
    """Make the dictionary of a column whose values have no fixed width."""
    cdef Value[BLOCK] values
    cdef Walk walk
    cdef int i, count, found, kind = source.kind
    cdef uint32_t entry = 0
    cdef int64_t done = 0, look = first_look(source.valid)
    if not begin(dictionary, source.valid):
        return -1
    memset(&walk, 0, sizeof(Walk))
    walk.source = source
    count = next_block(&walk, values)
    while count:
        for i in range(count):
            if dictionary.count == 0 or not same(&values[i], &dictionary.entries[entry], kind):
                found = find(dictionary, &values[i], kind, limits, &entry)
                if found <= 0:
                    return found
            dictionary.indices[done] = entry
            done += 1
            if done == look and limits.guesses and is_hopeless(dictionary.count, look, source.valid, 0):
                return 0
        count = next_block(&walk, values)
    dictionary.num_indices = done
    return 1


# ---- order


cdef struct Keyed:
    uint64_t key
    uint32_t entry
    uint32_t rows


cdef void sort_by_key(Keyed* items, Keyed* other, int64_t count) noexcept nogil:
    """Sort by key, with `other` as room for the same number of items."""
    cdef uint32_t[256] starts
    cdef uint32_t total, more
    cdef int64_t i, k
    cdef int shift
    cdef Keyed item
    cdef Keyed* first = items
    cdef Keyed* swap
    if count <= MAX_INSERTED:
        for i in range(1, count):
            item = items[i]
            k = i
            while k and items[k - 1].key > item.key:
                items[k] = items[k - 1]
                k -= 1
            items[k] = item
        return
    for shift in range(0, 64, 8):
        memset(starts, 0, sizeof(starts))
        for i in range(count):
            starts[items[i].key >> shift & 255] += 1
        if starts[items[0].key >> shift & 255] == <uint32_t>count:
            continue  # all have the same byte here
        total = 0
        for i in range(256):
            more = starts[i]
            starts[i] = total
            total += more
        for i in range(count):
            k = items[i].key >> shift & 255
            other[starts[k]] = items[i]
            starts[k] += 1
        swap = items
        items = other
        other = swap
    if items != first:
        memcpy(first, items, count * sizeof(Keyed))


cdef int compare_texts(const void* a, const void* b) noexcept nogil:
    cdef const Value* one = <const Value*>(<const Keyed*>a).key
    cdef const Value* other = <const Value*>(<const Keyed*>b).key
    cdef int found = memcmp(<const void*>one.high, <const void*>other.high, min(one.low, other.low))
    if found:
        return found
    return (one.low > other.low) - (one.low < other.low)


cdef int64_t common_prefix(const Value* entries, int64_t count) noexcept nogil:
    """Return how many bytes all texts begin with."""
    cdef const uint8_t* first = <const uint8_t*>entries[0].high
    cdef const uint8_t* text
    cdef int64_t size = <int64_t>entries[0].low, i, k
    for i in range(1, count):
        text = <const uint8_t*>entries[i].high
        size = min(size, <int64_t>entries[i].low)
        k = 0
        while k < size and text[k] == first[k]:
            k += 1
        size = k
    return size


cdef uint64_t text_key(const Value* text, int64_t start) noexcept nogil:
    """Return eight bytes from `start`, with zeros after the end, as a number in order of bytes."""
    cdef const uint8_t* at = <const uint8_t*>text.high + start
    cdef int64_t left = <int64_t>text.low - start, i
    cdef uint64_t key = 0
    if left >= 8:
        return fm_swap64(fm_load64(at))
    for i in range(left):
        key |= <uint64_t>at[i] << (56 - 8 * i)
    return key


cdef double ranked_bits(const Keyed* items, int64_t count, int64_t num_rows) noexcept nogil:
    """Return the mean number of bits that an index takes if items are numbered in their order."""
    cdef int64_t rank, bits = 0, width = 0
    for rank in range(count):
        if rank >> width:
            width += 1
        bits += width * items[rank].rows
    # About two bits are lost at the borders between bytes.
    return min(<double>width, bits / <double>num_rows + 2)


cdef bint has_frequent(const uint32_t* rows, int64_t count, int64_t num_rows) noexcept nogil:
    """Return whether an entry has many times the rows of the mean."""
    cdef int64_t i
    cdef uint32_t most = 0
    for i in range(count):
        most = max(most, rows[i])
    return most > 8 * num_rows // count


cdef bint sort_entries(Dictionary* dictionary, int kind, int64_t table, Scratch* scratch) noexcept nogil:
    """Put the entries in order; return False without memory.

    They are sorted by their bytes, which makes a table small; if there are more than 256 and some
    are much more frequent than others, by their frequency, which makes indices small. `table` is
    the size of the entries. Very many texts keep their order, and so do the texts of few rows.
    """
    cdef int64_t count = dictionary.count, i, start = 0, end
    cdef int64_t size = count * <int64_t>(3 * sizeof(Keyed) + sizeof(Value) + 2 * sizeof(uint32_t))
    cdef bint texts = kind >= BINARY
    cdef int width = bit_width(count)
    cdef Keyed* items
    cdef Value* entries
    cdef uint32_t* places
    cdef uint32_t* rows
    dictionary.index_bits = width
    if texts and (count > MAX_SORTED_TEXTS or dictionary.num_indices < MIN_SORTED_ROWS):
        return True
    items = <Keyed*>need(scratch, size)
    if items == NULL:
        return False
    entries = <Value*>(items + 3 * count)
    places = <uint32_t*>(entries + count)
    rows = places + count
    memcpy(entries, dictionary.entries, count * sizeof(Value))
    if count > 256:
        memset(rows, 0, count * sizeof(uint32_t))
        for i in range(dictionary.num_indices):
            rows[dictionary.indices[i]] += 1
    if texts:
        start = common_prefix(entries, count)
    for i in range(count):
        items[i].key = text_key(&entries[i], start) if texts else entries[i].low
        items[i].entry = <uint32_t>i
    sort_by_key(items, items + count, count)
    if texts:
        start = 0
        while start < count:
            end = start + 1
            while end < count and items[end].key == items[start].key:
                end += 1
            if end - start > 1:
                for i in range(start, end):
                    items[i].key = <uint64_t>&entries[items[i].entry]
                qsort(items + start, end - start, sizeof(Keyed), &compare_texts)
            start = end
    if count > 256 and has_frequent(rows, count, dictionary.num_indices):
        # Stable: entries of equal frequency stay sorted by their bytes.
        for i in range(count):
            items[i].rows = rows[items[i].entry]
            items[i].key = <uint64_t>(dictionary.num_indices - items[i].rows)
        memcpy(items + count, items, count * sizeof(Keyed))
        sort_by_key(items, items + 2 * count, count)
        # Small numbers for frequent entries leave the high bits of most indices zero. A table that
        # is not sorted by its bytes is larger by about a sixth.
        dictionary.index_bits = ranked_bits(items, count, dictionary.num_indices)
        if (width - dictionary.index_bits) * dictionary.num_indices <= table // 6 * 8:
            dictionary.index_bits = width
            memcpy(items, items + count, count * sizeof(Keyed))
    for i in range(count):
        dictionary.entries[i] = entries[items[i].entry]
        places[items[i].entry] = <uint32_t>i
    dictionary.places = places
    return True


# ---- indices


cdef bint is_walk(const Dictionary* dictionary) noexcept nogil:
    """Return whether most values are close to the one before, among the sorted entries."""
    cdef int64_t count = min(dictionary.num_indices, <int64_t>BLOCK), i, near = 0, step
    cdef const uint32_t* indices = dictionary.indices + (dictionary.num_indices - count) // 2
    if dictionary.places == NULL:
        return False
    for i in range(1, count):
        step = <int64_t>dictionary.places[indices[i]] - <int64_t>dictionary.places[indices[i - 1]]
        near += -dictionary.count <= 32 * step <= dictionary.count
    return 10 * near > 8 * count


cdef inline void pack(const uint32_t* indices, const uint32_t* places, int64_t count, int width,
                      uint8_t* out) noexcept nogil:
    cdef uint64_t window = 0, index
    cdef int filled = 0
    cdef int64_t i
    if width == 8:
        for i in range(count):
            out[i] = <uint8_t>(indices[i] if places == NULL else places[indices[i]])
        return
    if width == 16:
        for i in range(count):
            fm_store16(out + 2 * i, <uint16_t>(indices[i] if places == NULL else places[indices[i]]))
        return
    for i in range(count):
        index = indices[i] if places == NULL else places[indices[i]]
        window |= index << filled
        filled += width
        if filled >= 64:
            fm_store64(out, window)
            out += 8
            filled -= 64
            # A shift by 64 is undefined.
            window = index >> (width - filled) if filled else 0
    while filled > 0:
        out[0] = <uint8_t>window
        out += 1
        window >>= 8
        filled -= 8


cdef void pack_indices(const Dictionary* dictionary, int64_t start, int64_t count, int width,
                       uint8_t* out) noexcept nogil:
    """Write `count` indices with `width` bits each, low bit first."""
    if dictionary.places == NULL:
        pack(dictionary.indices + start, NULL, count, width, out)
    else:
        pack(dictionary.indices + start, dictionary.places, count, width, out)
