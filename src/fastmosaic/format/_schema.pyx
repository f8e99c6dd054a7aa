# cython: language_level=3, boundscheck=False, wraparound=False
"""Loops over the bytes of a schema block: column names, type descriptors, column order.

Names are packed: the bytes of all names one after another, and `offsets` with the start of each and
the end of the last. Functions that read bytes of a file check every step. Their errors say what is
wrong and where: `ValueError` if the bytes violate the format, `NotImplementedError` if they may
belong to a newer version.
"""

from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy

from fastmosaic.format._wire cimport (
    ARRAY_BLOCK, DECIMAL128, TIMESTAMP_NS, Reader, fm_ctz64, fm_swap64, is_utf8, left, put_varint, uint16_t, uint64_t,
    varint, varint64, varint_size,
)

cdef enum:
    MAX_RULES = 128
    MAX_DEPTH = 64
    FIRST_RULE = 0x80  # the token of rule 0; lower tokens are single bytes
    BOUNDARY = 256  # separates two names while rules are trained
    INSIDE = 257  # a place that is neither the first nor the last byte of a token
    PIECE = 64  # maximum text stored per token; longer texts are copied in two halves
    SHORT = 16  # maximum text that is copied without looking at its length
    UNKNOWN = 0xFF  # the kind of an unknown type

# `types.TypeId`, as far as the parameters of a type matter here.
cdef enum TypeId:
    CHAR_TYPE = 8
    VARCHAR_TYPE = 9
    STRING_TYPE = 10
    BINARY_TYPE = 11
    VARBINARY_TYPE = 12
    BYTES_TYPE = 13
    DECIMAL_TYPE = 14
    TIME_TYPE = 15
    TIMESTAMP_TYPE = 16
    TIMESTAMP_LTZ_TYPE = 17
    ARRAY_TYPE = 18
    MAP_TYPE = 19
    STRUCT_TYPE = 20  # of a later version of the format
    ARRAY_BLOCK_TYPE = 0xE0


cdef Py_ssize_t count_packed(const uint8_t[::1] data, const int32_t[::1] offsets) except -1:
    """Check the offsets and return the number of strings that are packed in `data`."""
    cdef Py_ssize_t i, count = offsets.shape[0] - 1
    cdef bint sound = count >= 0 and offsets[0] == 0 and offsets[count] == data.shape[0]

    if sound:
        with nogil:
            for i in range(count):
                sound &= offsets[i] <= offsets[i + 1]
    if not sound:
        raise ValueError(f"the offsets do not divide {data.shape[0]} bytes")
    return count


cdef inline object as_integers(bytes data):
    return memoryview(data).cast("i")


# Byte-pair encoding


def train(const uint8_t[::1] names not None, const int32_t[::1] offsets not None):
    """Return byte-pair rules for ASCII names, and the packed names encoded with them.

    Pair counts are updated with each rule, not computed again. All names are in one array with a
    place for each byte. A token occupies the places of its text; its number is stored in the first
    and last of them, so that both neighbours of a token are found without links. Each token has a
    list of the places where it once began, in ascending order. The occurrences of a pair are found
    by searching the shorter list of its two tokens.
    """
    cdef Py_ssize_t count = count_packed(names, offsets)
    cdef Py_ssize_t size = names.shape[0]
    cdef bytes rules, encoded, ends
    cdef Trainer trainer
    cdef uint8_t *text
    cdef int32_t *end
    cdef Py_ssize_t i, place, written = 0

    if size + count >= INT32_MAX:
        raise ValueError(f"{size} bytes of names are too many")
    trainer.tokens = <uint16_t *> malloc((size + count + 1) * sizeof(uint16_t))
    trainer.places = <int32_t *> malloc((2 * size + 1) * sizeof(int32_t))
    trainer.pairs = <int32_t *> calloc(256 * 256, sizeof(int32_t))
    try:
        if not (trainer.tokens and trainer.places and trainer.pairs):
            raise MemoryError
        with nogil:
            place_names(&trainer, names, offsets)
        if trainer.num_live[FIRST_RULE] != 0:
            raise ValueError("a name is not ASCII")
        with nogil:
            while trainer.num_rules < MAX_RULES and add_rule(&trainer):
                pass

        rules = PyBytes_FromStringAndSize(<char *> trainer.rules, 2 * trainer.num_rules)
        # Each listed place beyond one per byte is a pair that was merged.
        encoded = PyBytes_FromStringAndSize(NULL, 2 * size - trainer.num_places)
        ends = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t))
        text = <uint8_t *> PyBytes_AsString(encoded)
        end = <int32_t *> PyBytes_AsString(ends)
        with nogil:
            end[0] = 0
            place = 1
            for i in range(count):
                while trainer.tokens[place] != BOUNDARY:
                    text[written] = <uint8_t> trainer.tokens[place]
                    written += 1
                    place += trainer.lengths[trainer.tokens[place]]
                place += 1
                end[i + 1] = <int32_t> written
        return rules, encoded, as_integers(ends)
    finally:
        free(trainer.tokens)
        free(trainer.places)
        free(trainer.pairs)


cdef struct Trainer:
    uint16_t *tokens  # by place; BOUNDARY before, between and after the names
    int32_t *pairs  # how often left and right are neighbours, by left * 256 + right
    int32_t *places  # the lists of all tokens
    Py_ssize_t num_places
    int32_t[256] lists  # by token: where its list begins in `places`
    int32_t[256] list_sizes
    int32_t[256] num_live  # how many places in its list still have that token
    int32_t[BOUNDARY + 1] lengths  # bytes of its text
    uint8_t[2 * MAX_RULES] rules
    int num_rules


cdef void place_names(
    Trainer *self, const uint8_t[::1] names, const int32_t[::1] offsets
) noexcept nogil:
    """Start with one token per byte. `num_live[FIRST_RULE]` counts bytes that are not ASCII."""
    cdef Py_ssize_t i, k, place = 1
    cdef int32_t at = 0
    cdef int token

    self.num_rules = 0
    for token in range(256):
        self.num_live[token] = 0
        self.lengths[token] = 1
    self.lengths[BOUNDARY] = 1
    for k in range(names.shape[0]):
        token = names[k]
        self.num_live[token if token < FIRST_RULE else FIRST_RULE] += 1
    if self.num_live[FIRST_RULE] != 0:
        return
    for token in range(256):
        self.lists[token] = at
        self.list_sizes[token] = 0
        at += self.num_live[token]
    self.num_places = at

    self.tokens[0] = BOUNDARY
    for i in range(offsets.shape[0] - 1):
        for k in range(offsets[i], offsets[i + 1]):
            token = names[k]
            self.tokens[place] = <uint16_t> token
            self.places[self.lists[token] + self.list_sizes[token]] = <int32_t> place
            self.list_sizes[token] += 1
            if k > offsets[i]:
                self.pairs[names[k - 1] * 256 + token] += 1
            place += 1
        self.tokens[place] = BOUNDARY
        place += 1


cdef int most_frequent(Trainer *self) noexcept nogil:
    """Return the pair with the greatest (count, left, right), or -1 if none occurs twice."""
    cdef int left, right, num_tokens = FIRST_RULE + self.num_rules, best = -1
    cdef int32_t row_max, best_count = 2
    cdef int32_t *row

    for left in range(num_tokens):
        if self.num_live[left] < best_count:
            continue
        row = self.pairs + left * 256
        row_max = 0
        for right in range(256):
            row_max = max(row_max, row[right])
        if row_max >= best_count:
            best_count = row_max
            for right in range(num_tokens):
                if row[right] == row_max:
                    best = left * 256 + right
    return best


cdef bint add_rule(Trainer *self) noexcept nogil:
    """Merge all occurrences of the most frequent pair; return false if there is none."""
    cdef int pair = most_frequent(self)
    cdef int left, right, token, listed, before, after
    cdef int32_t place, first, second, end, num_kept = 0, num_merged = 0
    cdef int32_t *places
    cdef int32_t *merged
    cdef Py_ssize_t i

    if pair < 0:
        return False
    left = pair // 256
    right = pair % 256
    token = FIRST_RULE + self.num_rules
    self.rules[2 * self.num_rules] = <uint8_t> left
    self.rules[2 * self.num_rules + 1] = <uint8_t> right
    self.num_rules += 1
    self.lengths[token] = self.lengths[left] + self.lengths[right]
    merged = self.places + self.num_places

    listed = left if self.list_sizes[left] <= self.list_sizes[right] else right
    places = self.places + self.lists[listed]
    for i in range(self.list_sizes[listed]):
        place = places[i]
        if self.tokens[place] != listed:
            continue  # it is part of another token by now
        if listed == left:
            first = place
            second = place + self.lengths[left]
        else:
            first = place - self.lengths[left]
            second = place
        # The number of the left token is also stored at its end.
        if self.tokens[second - 1] != left or self.tokens[second] != right:
            places[num_kept] = place
            num_kept += 1
            continue

        end = second + self.lengths[right]
        before = self.tokens[first - 1]
        after = self.tokens[end]
        self.pairs[pair] -= 1
        if before != BOUNDARY:
            self.pairs[before * 256 + left] -= 1
            self.pairs[before * 256 + token] += 1
        if after != BOUNDARY:
            self.pairs[right * 256 + after] -= 1
            self.pairs[token * 256 + after] += 1
        self.tokens[second - 1] = INSIDE
        self.tokens[second] = INSIDE
        self.tokens[first] = <uint16_t> token
        self.tokens[end - 1] = <uint16_t> token
        merged[num_merged] = first
        num_merged += 1

    self.list_sizes[listed] = num_kept
    self.num_live[left] -= num_merged
    self.num_live[right] -= num_merged
    self.lists[token] = <int32_t> self.num_places
    self.list_sizes[token] = num_merged
    self.num_live[token] = num_merged
    self.num_places += num_merged
    return True


# Encoding


def front_coded_size(const uint8_t[::1] names not None, const int32_t[::1] offsets not None):
    """Return the size of the packed names after front coding."""
    cdef Py_ssize_t count = count_packed(names, offsets)
    cdef Py_ssize_t i, size, shared, total = 0

    with nogil:
        for i in range(count):
            shared = shared_prefix(names, offsets, i)
            size = offsets[i + 1] - offsets[i] - shared
            total += varint_size(shared) + varint_size(size) + size
    return total


def encode_columns(
    const uint8_t[::1] names not None,
    const int32_t[::1] offsets not None,
    const uint8_t[::1] descriptors not None,
    const int32_t[::1] descriptor_offsets not None,
):
    """Encode the columns of a schema block: each name front coded, then its type descriptor."""
    cdef Py_ssize_t count = count_packed(names, offsets)
    cdef Py_ssize_t i, size, shared
    cdef bytes columns
    cdef uint8_t *out

    if count_packed(descriptors, descriptor_offsets) != count:
        raise ValueError(f"{descriptor_offsets.shape[0] - 1} types for {count} names")
    columns = PyBytes_FromStringAndSize(
        NULL, <Py_ssize_t> front_coded_size(names, offsets) + descriptors.shape[0]
    )
    out = <uint8_t *> PyBytes_AsString(columns)
    with nogil:
        for i in range(count):
            shared = shared_prefix(names, offsets, i)
            size = offsets[i + 1] - offsets[i] - shared
            out = put_varint(out, shared)
            out = put_varint(out, size)
            if size:
                memcpy(out, &names[offsets[i] + shared], size)
            out += size
            size = descriptor_offsets[i + 1] - descriptor_offsets[i]
            if size:
                memcpy(out, &descriptors[descriptor_offsets[i]], size)
            out += size
    return columns


def encode_order(const int32_t[::1] order not None):
    """Encode `order` as zigzag differences: the last part of a schema block."""
    cdef Py_ssize_t i, size = 0
    cdef int64_t previous = 0
    cdef uint64_t delta
    cdef bytes deltas
    cdef uint8_t *out

    with nogil:
        for i in range(order.shape[0]):
            size += varint_size(zigzag(order[i] - previous))
            previous = order[i]
    deltas = PyBytes_FromStringAndSize(NULL, size)
    out = <uint8_t *> PyBytes_AsString(deltas)
    with nogil:
        previous = 0
        for i in range(order.shape[0]):
            delta = zigzag(order[i] - previous)
            previous = order[i]
            out = put_varint(out, delta)
    return deltas


cdef inline Py_ssize_t shared_prefix(
    const uint8_t[::1] names, const int32_t[::1] offsets, Py_ssize_t i
) noexcept nogil:
    """Return the length of the common prefix of string `i` and the previous one."""
    cdef Py_ssize_t shared = 0, limit

    if i == 0:
        return 0
    limit = min(offsets[i] - offsets[i - 1], offsets[i + 1] - offsets[i])
    while shared < limit and names[offsets[i - 1] + shared] == names[offsets[i] + shared]:
        shared += 1
    return shared


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t> value << 1) ^ <uint64_t> (value >> 63)


# Decoding


cdef struct Rules:
    bint is_used  # otherwise, each byte is a token
    int num_tokens
    uint8_t[256] lefts  # by token: the two tokens that it stands for
    uint8_t[256] rights
    int64_t[256] lengths  # bytes of its text; more than `limit` if undefined
    uint8_t[256][PIECE] texts  # of tokens whose text fits
    uint64_t[256] heads  # the first bytes of its text as a number, the first one highest
    int64_t longest  # of all lengths
    Py_ssize_t limit


cdef int prepare(Rules *self, const uint8_t[::1] rules, Py_ssize_t limit) except -1:
    cdef int i, left, right, token

    if not 0 <= limit < INT32_MAX:
        raise ValueError(f"no names of {limit} bytes")
    self.limit = limit
    self.is_used = rules is not None
    self.num_tokens = FIRST_RULE if rules is not None else 256
    self.longest = 1
    for token in range(256):
        self.lengths[token] = 1 if token < self.num_tokens else limit + 1
        self.texts[token][0] = <uint8_t> token
        self.heads[token] = <uint64_t> token << 56
    if rules is None:
        return 0
    if rules.shape[0] > 2 * MAX_RULES or rules.shape[0] % 2:
        raise ValueError(f"no byte-pair rules in {rules.shape[0]} bytes")
    for i in range(rules.shape[0] // 2):
        token = FIRST_RULE + i
        left = rules[2 * i]
        right = rules[2 * i + 1]
        if left >= token or right >= token:
            raise ValueError(f"a cyclic or forward rule: {token:#x} is {left:#x}, {right:#x}")
        self.lefts[token] = <uint8_t> left
        self.rights[token] = <uint8_t> right
        # Limited, because 128 rules that double in length would overflow.
        self.lengths[token] = min(self.lengths[left] + self.lengths[right], limit + 1)
        self.longest = max(self.longest, self.lengths[token])
        self.texts[token][0] = self.texts[left][0]
        self.heads[token] = self.heads[left]
        if self.lengths[left] < 8:
            self.heads[token] |= self.heads[right] >> (8 * self.lengths[left])
        if self.lengths[token] <= PIECE:
            memcpy(self.texts[token], self.texts[left], self.lengths[left])
            memcpy(
                self.texts[token] + self.lengths[left], self.texts[right], self.lengths[right]
            )
    self.num_tokens = <int> (FIRST_RULE + rules.shape[0] // 2)
    return 0


cdef struct Walk:
    Rules rules
    uint8_t *name  # the current one, still encoded
    Py_ssize_t length
    Py_ssize_t longest
    int64_t num_tokens  # of all names
    bint ascending
    int64_t to_compare  # how many bytes of text may be compared; less than 0: too many were


def walk_columns(
    const uint8_t[::1] body not None,
    Py_ssize_t position,
    Py_ssize_t num_columns,
    const uint8_t[::1] kind_of not None,
    const uint8_t[::1] rules,
    Py_ssize_t limit,
):
    """Find and check the columns of a schema block.

    Return (starts, kinds, longest name, whether the names strictly ascend). Column `i` is
    `body[starts[i]:starts[i + 1]]`. `kind_of` maps type ids to kinds. Names are checked, but stay encoded with `rules`, the
    byte-pair rules, or None. The longest one is measured in its encoded form. All names may have up
    to `limit` bytes of text: with rules that double each other's length, a few bytes could expand
    to gigabytes.
    """
    cdef bytes starts_data, kinds_data
    cdef int32_t *starts
    cdef uint8_t *kinds
    cdef Body block
    cdef Walk walk
    cdef Py_ssize_t i, shared, size
    cdef const uint8_t *suffix

    if kind_of.shape[0] != 256:
        raise ValueError(f"{kind_of.shape[0]} kinds for 256 type ids")
    if not 0 <= position <= body.shape[0] <= INT32_MAX or num_columns < 0:
        raise ValueError(f"no {num_columns} columns at {position} of {body.shape[0]} bytes")
    # Two lengths, a type and whether it is nullable need at least four bytes.
    if num_columns > (body.shape[0] - position) // 4:
        raise ValueError(
            f"{num_columns} columns do not fit in the {body.shape[0] - position} bytes "
            f"after offset {position}"
        )
    starts_data = PyBytes_FromStringAndSize(NULL, (num_columns + 1) * sizeof(int32_t))
    kinds_data = PyBytes_FromStringAndSize(NULL, num_columns)
    starts = <int32_t *> PyBytes_AsString(starts_data)
    kinds = <uint8_t *> PyBytes_AsString(kinds_data)

    prepare(&walk.rules, rules, limit)
    walk.length = walk.longest = walk.num_tokens = 0
    walk.ascending = True
    walk.to_compare = limit
    # A name shares bytes only with the one before it, so none is longer than the body.
    walk.name = <uint8_t *> malloc(body.shape[0] + SHORT)
    if not walk.name:
        raise MemoryError
    block = body_at(body, position)
    try:
        with nogil:
            for i in range(num_columns):
                starts[i] = <int32_t> offset_of(&block)
                shared = take_varint(&block)
                size = take_varint(&block)
                if shared > walk.length:
                    corrupt("a name that shares {} bytes with a shorter one", shared, starts[i])
                suffix = block.reader.at
                skip(&block, size)
                add_name(&walk, suffix, size, shared, left(&block.reader), starts[i])
                if left(&block.reader) >= 2 and has_no_parameters(block.reader.at[0]):
                    kinds[i] = kind_of[block.reader.at[0]]
                    block.reader.at += 2
                else:
                    kinds[i] = <uint8_t> skip_type(&block, &kind_of[0])
            starts[num_columns] = <int32_t> offset_of(&block)
    finally:
        free(walk.name)
    if walk.to_compare < 0:  # too long to be compared token by token
        _, _, walk.ascending = expand_names(
            body, as_integers(starts_data), walk.longest, rules, limit
        )
    elif walk.num_tokens > limit // walk.rules.longest:  # they may be too long
        expand_names(body, as_integers(starts_data), walk.longest, rules, limit, measure=True)
    return as_integers(starts_data), kinds_data, walk.longest, walk.ascending


def type_starts(const uint8_t[::1] body not None, const int32_t[::1] starts not None):
    """Return where the type descriptors of columns begin, given where the columns begin."""
    cdef Py_ssize_t i, count = starts.shape[0]
    cdef bytes found = PyBytes_FromStringAndSize(NULL, count * sizeof(int32_t))
    cdef int32_t *out = <int32_t *> PyBytes_AsString(found)
    cdef Body block = body_at(body, 0)

    for i in range(count):
        if not 0 <= starts[i] < body.shape[0]:
            raise ValueError(f"no column at {starts[i]} of {body.shape[0]} bytes")
    with nogil:
        for i in range(count):
            block.reader.at = block.start + starts[i]
            take_varint(&block)
            skip(&block, take_varint(&block))
            out[i] = <int32_t> offset_of(&block)
    return as_integers(found)


cdef inline int add_name(
    Walk *self,
    const uint8_t *suffix,
    Py_ssize_t size,
    Py_ssize_t shared,
    Py_ssize_t room,
    Py_ssize_t start,
) except -1 nogil:
    """Check the next name; `room` bytes may be read after the suffix."""
    cdef Py_ssize_t k, first, length = shared + size
    cdef int order

    if length == 0:
        return corrupt("an empty name", 0, start)
    if self.rules.num_tokens < 256 and self.rules.is_used:
        for k in range(size):
            if suffix[k] >= self.rules.num_tokens:
                return corrupt("a name with a token without a rule", 0, start)
    if self.num_tokens:
        order = 0
        if shared < self.length and size:
            order = order_of(&self.rules, self.name[shared], suffix[0])
        if order == 0:
            order = -1 if is_less(
                self, self.name + shared, self.length - shared, suffix, size
            ) else 1
        self.ascending &= order < 0
    if size <= SHORT and room >= SHORT:
        memcpy(self.name + shared, suffix, SHORT)  # a fixed size needs no call
    else:
        memcpy(self.name + shared, suffix, size)
    if not self.rules.is_used:
        first = character_start(self.name, shared)
        if not is_utf8(self.name + first, length - first):
            return corrupt("a name that is not UTF-8", 0, start)
    self.length = length
    self.longest = max(self.longest, length)
    self.num_tokens += length
    return 0


cdef inline int order_of(Rules *rules, uint8_t token, uint8_t other) noexcept nogil:
    """Return -1 or 1 if the first bytes of two tokens tell the order of their texts, else 0."""
    cdef uint64_t difference = rules.heads[token] ^ rules.heads[other]
    cdef int place

    if difference == 0:
        return 0
    place = fm_ctz64(fm_swap64(difference)) >> 3  # of the first byte that differs
    if place >= rules.lengths[token] or place >= rules.lengths[other]:
        return 0
    return -1 if rules.heads[token] < rules.heads[other] else 1


cdef struct Text:
    const uint8_t *token
    const uint8_t *end
    int64_t offset  # in the text of the token


cdef bint is_less(
    Walk *self, const uint8_t *tokens, Py_ssize_t count, const uint8_t *others, Py_ssize_t num_others
) noexcept nogil:
    """Return whether the text of some tokens comes before that of others."""
    cdef Text text = Text(tokens, tokens + count, 0)
    cdef Text other = Text(others, others + num_others, 0)
    cdef const uint8_t *piece
    cdef const uint8_t *other_piece
    cdef int64_t size, other_size
    cdef int difference

    if not self.rules.is_used:
        difference = memcmp(tokens, others, min(count, num_others))
        return difference < 0 or (difference == 0 and count < num_others)
    while True:
        piece = next_piece(&self.rules, &text, &size)
        other_piece = next_piece(&self.rules, &other, &other_size)
        if piece == NULL or other_piece == NULL:
            return piece == NULL and other_piece != NULL
        size = min(size, other_size)
        self.to_compare -= size
        if self.to_compare < 0:
            return False
        difference = memcmp(piece, other_piece, size)
        if difference:
            return difference < 0
        text.offset += size
        other.offset += size


cdef inline const uint8_t *next_piece(Rules *rules, Text *text, int64_t *size) noexcept nogil:
    """Return the text that comes next, and its size; NULL at the end."""
    cdef int64_t offset
    cdef uint8_t token

    while text.token < text.end and text.offset >= rules.lengths[text.token[0]]:
        text.offset -= rules.lengths[text.token[0]]
        text.token += 1
    if text.token == text.end:
        return NULL
    token = text.token[0]
    offset = text.offset
    while rules.lengths[token] > PIECE:
        if offset < rules.lengths[rules.lefts[token]]:
            token = rules.lefts[token]
        else:
            offset -= rules.lengths[rules.lefts[token]]
            token = rules.rights[token]
    size[0] = rules.lengths[token] - offset
    return rules.texts[token] + offset


cdef struct Body:
    Reader reader
    const uint8_t *start  # of the whole body, for offsets in messages


cdef inline Body body_at(const uint8_t[::1] data, Py_ssize_t position):
    cdef Body self
    self.start = &data[0] if data.shape[0] else NULL
    self.reader.at = self.start + position
    self.reader.end = self.start + data.shape[0]
    return self


cdef inline Py_ssize_t offset_of(Body *self) noexcept nogil:
    return self.reader.at - self.start


cdef int corrupt(const char *fact, int64_t number, Py_ssize_t at) except -1 with gil:
    raise ValueError(f"{fact.decode().format(number)} at offset {at}")


cdef int unsupported(const char *fact, int64_t number, Py_ssize_t at) except -1 with gil:
    raise NotImplementedError(f"{fact.decode().format(number)} at offset {at}")


cdef inline int skip(Body *self, Py_ssize_t size) except -1 nogil:
    if size > left(&self.reader):
        return corrupt("{} bytes that run past the end", size, offset_of(self))
    self.reader.at += size
    return 0


cdef inline int64_t take_varint(Body *self) except -1 nogil:
    """Read an unsigned integer of up to 32 bits."""
    cdef Py_ssize_t start = offset_of(self)
    cdef int64_t value

    if self.reader.at < self.reader.end and self.reader.at[0] < 0x80:
        value = self.reader.at[0]
        self.reader.at += 1
        return value
    value = varint(&self.reader)
    if value < 0:
        return corrupt("a varint that is cut off or exceeds 32 bits", 0, start)
    return value


cdef int skip_text(Body *self) except -1 nogil:
    cdef Py_ssize_t size = take_varint(self)
    cdef const uint8_t *text = self.reader.at

    skip(self, size)
    if not is_utf8(text, size):
        return corrupt("text that is not UTF-8", 0, text - self.start)
    return 0


cdef inline bint has_no_parameters(uint8_t type_id) noexcept nogil:
    """Return whether the descriptor of a type consists of its id and whether it is nullable."""
    return type_id < CHAR_TYPE or type_id == STRING_TYPE or type_id == BYTES_TYPE


cdef int skip_type(Body *self, const uint8_t *kind_of) except -1 nogil:
    """Check the type descriptor that comes next and return its kind."""
    cdef bint[MAX_DEPTH] in_key  # by depth: inside the key of a map, whose value is yet to come
    cdef int type_id, kind = -1, depth = 0
    cdef int64_t precision
    cdef Py_ssize_t start

    while True:
        start = offset_of(self)
        skip(self, 2)
        type_id = self.start[start]
        if kind_of[type_id] == UNKNOWN:
            if type_id == STRUCT_TYPE:
                return unsupported("type {} is STRUCT, of a later Mosaic version,", type_id, start)
            return unsupported("unknown type {}", type_id, start)
        if kind < 0:
            kind = kind_of[type_id]

        if type_id in (ARRAY_TYPE, MAP_TYPE, ARRAY_BLOCK_TYPE):
            if kind == ARRAY_BLOCK and depth:
                return corrupt("an array data block of lists or maps", 0, start)
            if type_id == ARRAY_BLOCK_TYPE and depth:
                return unsupported("an array data block inside a list or map", 0, start)
            if depth == MAX_DEPTH:
                return unsupported("a type that is nested more than {} deep", MAX_DEPTH, start)
            if depth and in_key[depth - 1]:
                return corrupt("a map whose key is a list or map", 0, start)
            skip_text(self)
            if type_id == MAP_TYPE:
                skip_text(self)
            in_key[depth] = type_id == MAP_TYPE
            depth += 1
            continue

        if type_id == DECIMAL_TYPE:
            precision = take_varint(self) & 0xFF  # one byte in Arrow and in the reference
            take_varint(self)
            if not 1 <= precision <= 38:
                return corrupt("a decimal of {} digits", precision, start)
            if depth == 0 and precision > 18:
                kind = DECIMAL128
        elif type_id == TIMESTAMP_TYPE or type_id == TIMESTAMP_LTZ_TYPE:
            precision = take_varint(self)
            if type_id == TIMESTAMP_LTZ_TYPE:
                skip_text(self)
            if depth == 0 and precision > 6:
                kind = TIMESTAMP_NS
        elif type_id in (CHAR_TYPE, VARCHAR_TYPE, BINARY_TYPE, VARBINARY_TYPE, TIME_TYPE):
            take_varint(self)

        while depth and not in_key[depth - 1]:
            depth -= 1
        if depth == 0:
            return kind
        in_key[depth - 1] = False
        skip_text(self)


cdef inline Py_ssize_t character_start(const uint8_t *text, Py_ssize_t at) noexcept nogil:
    """Return the start of the character before `at` in UTF-8 that may be cut off at `at`."""
    while at > 0 and text[at - 1] & 0xC0 == 0x80:
        at -= 1
    return max(at - 1, 0)


def expand_names(
    const uint8_t[::1] body not None,
    const int32_t[::1] starts not None,
    Py_ssize_t longest,
    const uint8_t[::1] rules,
    Py_ssize_t limit,
    *,
    bint measure=False,
):
    """Decode the names of the columns; return them packed, and whether they strictly ascend.

    `rules` are the byte-pair rules, or None. The names may have up to `limit` bytes in total: with
    rules that double each other's length, a few bytes could expand to gigabytes. With `measure`,
    only check that, and return None.
    """
    cdef Py_ssize_t i, count = starts.shape[0] - 1
    cdef bytes names, offsets_data
    cdef Expander expander
    cdef bint ascending

    if count < 0 or not 0 <= longest <= INT32_MAX or not 0 <= limit < INT32_MAX:
        raise ValueError(f"no {count} names of {longest} bytes within {limit}")
    for i in range(count):
        if not 0 <= starts[i] < body.shape[0]:
            raise ValueError(f"no column at {starts[i]} of {body.shape[0]} bytes")
    prepare(&expander.rules, rules, limit)
    expander.longest = longest
    offsets_data = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t))
    expander.offsets = <int32_t *> PyBytes_AsString(offsets_data)
    expander.ends = <int32_t *> malloc((longest + 1) * sizeof(int32_t))
    if not expander.ends:
        raise MemoryError
    try:
        expander.names = NULL
        with nogil:
            expand_columns(&expander, body, starts)
        if measure:
            return None
        names = PyBytes_FromStringAndSize(NULL, expander.offsets[count])
        expander.names = <uint8_t *> PyBytes_AsString(names)
        with nogil:
            ascending = expand_columns(&expander, body, starts)
    finally:
        free(expander.ends)
    return names, as_integers(offsets_data), ascending


cdef struct Expander:
    Rules rules
    Py_ssize_t longest
    int32_t *ends  # of the current name: bytes of text up to each token
    int32_t *offsets
    uint8_t *names  # NULL: only measure


cdef int expand_columns(
    Expander *self, const uint8_t[::1] body, const int32_t[::1] starts
) except -1 nogil:
    """Fill the offsets and, unless they are NULL, the names; return whether they ascend."""
    cdef Py_ssize_t i, k, shared, size, kept, end, first, previous_end = 0, length = 0
    cdef const uint8_t *suffix
    cdef uint8_t *name = NULL
    cdef uint8_t *previous = NULL
    cdef uint8_t *names_end = NULL
    cdef bint ascending = True
    cdef int difference
    cdef Body block

    block.start = &body[0]
    block.reader.end = block.start + body.shape[0]
    if self.names != NULL:
        names_end = self.names + self.offsets[starts.shape[0] - 1]
    self.ends[0] = 0
    self.offsets[0] = 0
    for i in range(starts.shape[0] - 1):
        block.reader.at = block.start + starts[i]
        shared = take_varint(&block)
        size = take_varint(&block)
        suffix = block.reader.at
        skip(&block, size)
        if shared > length or shared + size > self.longest:
            return corrupt("a name that is longer than {} bytes", self.longest, starts[i])
        length = shared + size
        if self.rules.is_used:
            kept = end = self.ends[shared]
            for k in range(size):
                end += self.rules.lengths[suffix[k]]
                if end > self.rules.limit:
                    if suffix[k] >= self.rules.num_tokens:
                        return corrupt("a name with a token without a rule", 0, starts[i])
                    break
                self.ends[shared + k + 1] = <int32_t> end
        else:
            kept = shared
            end = length
        if end == 0:
            return corrupt("an empty name", 0, starts[i])
        if end > self.rules.limit - self.offsets[i]:
            return corrupt("more than {} bytes of names", self.rules.limit, starts[i])
        self.offsets[i + 1] = self.offsets[i] + <int32_t> end
        if self.names == NULL:
            continue

        name = self.names + self.offsets[i]
        if i:
            memcpy(name, previous, kept)
        put_suffix(self, suffix, size, shared, name, names_end - name)
        if not self.rules.is_used:
            first = character_start(name, kept)
            if not is_utf8(name + first, end - first):
                return corrupt("a name that is not UTF-8", 0, starts[i])
        if i:
            difference = memcmp(previous + kept, name + kept, min(previous_end, end) - kept)
            ascending &= difference < 0 or (difference == 0 and previous_end < end)
        previous = name
        previous_end = end
    return ascending


cdef inline void put_suffix(
    Expander *self,
    const uint8_t *suffix,
    Py_ssize_t size,
    Py_ssize_t shared,
    uint8_t *name,
    Py_ssize_t room,
) noexcept nogil:
    """Write a name after its first `shared` tokens; `ends` has the position of each token."""
    cdef Py_ssize_t k, at

    if not self.rules.is_used:
        memcpy(name + shared, suffix, size)
        return
    for k in range(size):
        at = self.ends[shared + k]
        if self.rules.lengths[suffix[k]] <= SHORT and room - at >= SHORT:
            # A fixed size needs no call; the next token overwrites the surplus.
            memcpy(name + at, self.rules.texts[suffix[k]], SHORT)
        else:
            put_token(self, suffix[k], name + at)


cdef void put_token(Expander *self, uint8_t token, uint8_t *out) noexcept nogil:
    if self.rules.lengths[token] <= PIECE:
        memcpy(out, self.rules.texts[token], self.rules.lengths[token])
    else:
        # Rules refer only to earlier rules, so the depth is at most their number.
        put_token(self, self.rules.lefts[token], out)
        put_token(self, self.rules.rights[token], out + self.rules.lengths[self.rules.lefts[token]])


def check_order(const uint8_t[::1] body not None, Py_ssize_t position, Py_ssize_t num_columns):
    """Check the order of the columns; return the number of bytes after it.

    If the body ends at `position`, there is no order: the user order is the sorted order.
    """
    cdef uint8_t *seen
    cdef Py_ssize_t end

    check_place(body, position, num_columns)
    if position == body.shape[0]:
        return 0
    seen = <uint8_t *> calloc(num_columns + 1, 1)
    if not seen:
        raise MemoryError
    try:
        end = walk_order(body, position, num_columns, seen, NULL)
    finally:
        free(seen)
    return body.shape[0] - end


def decode_order(const uint8_t[::1] body not None, Py_ssize_t position, Py_ssize_t num_columns):
    """Return the sorted position of each column, in user order; `check_order` has checked it."""
    cdef Py_ssize_t i
    cdef int32_t *order
    cdef bytes order_data

    check_place(body, position, num_columns)
    order_data = PyBytes_FromStringAndSize(NULL, num_columns * sizeof(int32_t))
    order = <int32_t *> PyBytes_AsString(order_data)
    if position == body.shape[0]:
        for i in range(num_columns):
            order[i] = <int32_t> i
    else:
        walk_order(body, position, num_columns, NULL, order)
    return as_integers(order_data)


cdef int check_place(
    const uint8_t[::1] body, Py_ssize_t position, Py_ssize_t num_columns
) except -1:
    if not 0 <= position <= body.shape[0] or not 0 <= num_columns <= body.shape[0]:
        raise ValueError(f"no order of {num_columns} at {position} of {body.shape[0]} bytes")
    return 0


cdef Py_ssize_t walk_order(
    const uint8_t[::1] body,
    Py_ssize_t position,
    Py_ssize_t num_columns,
    uint8_t *seen,
    int32_t *order,
) except -1:
    """Move past the order and return the offset of its end. `seen` and `order` may be NULL."""
    cdef Py_ssize_t i, start
    cdef uint64_t value = 0, delta = 0
    cdef Body block = body_at(body, position)

    with nogil:
        for i in range(num_columns):
            start = offset_of(&block)
            if not varint64(&block.reader, &delta):
                corrupt("a varint that is cut off or exceeds 64 bits", 0, start)
            value += (delta >> 1) ^ -(delta & 1)
            if value >= <uint64_t> num_columns or (seen != NULL and seen[value]):
                corrupt("a column order that is not a permutation", 0, start)
            if seen != NULL:
                seen[value] = True
            if order != NULL:
                order[i] = <int32_t> value
    return offset_of(&block)


# Looking up


def find_encoded(
    const uint8_t[::1] body not None,
    const int32_t[::1] starts not None,
    const uint8_t[::1] rules,
    const uint8_t[::1] wanted not None,
):
    """Return the position of the first column called `wanted`, or -1.

    The names stay encoded. Only tokens after the part that a name shares with the previous one are
    compared, and only if the wanted name shares that part too.
    """
    cdef Py_ssize_t i, k, shared, size, matched = 0, length = 0, found = -1
    cdef Py_ssize_t count = starts.shape[0] - 1
    cdef const uint8_t *suffix
    cdef Rules known
    cdef Body block
    cdef int32_t *ends  # of the tokens that match: bytes of text up to each

    prepare(&known, rules, INT32_MAX - 1)
    for i in range(count):
        if not 0 <= starts[i] < body.shape[0]:
            raise ValueError(f"no column at {starts[i]} of {body.shape[0]} bytes")
    if wanted.shape[0] == 0 or wanted.shape[0] >= INT32_MAX:
        return -1
    ends = <int32_t *> malloc((wanted.shape[0] + 1) * sizeof(int32_t))
    if not ends:
        raise MemoryError
    block = body_at(body, 0)
    ends[0] = 0
    try:
        with nogil:
            for i in range(count):
                block.reader.at = block.start + starts[i]
                shared = take_varint(&block)
                size = take_varint(&block)
                suffix = block.reader.at
                skip(&block, size)
                if shared > length:
                    corrupt("a name that shares {} bytes with a shorter one", shared, starts[i])
                length = shared + size
                if shared > matched:
                    continue  # the token that differs is part of this name, too
                matched = shared
                for k in range(size):
                    if not matches(&known, suffix[k], &wanted[0] + ends[matched],
                                   wanted.shape[0] - ends[matched]):
                        break
                    ends[matched + 1] = <int32_t> (ends[matched] + known.lengths[suffix[k]])
                    matched += 1
                if matched == length and ends[matched] == wanted.shape[0]:
                    found = i
                    break
    finally:
        free(ends)
    return found


cdef bint matches(
    Rules *rules, uint8_t token, const uint8_t *text, Py_ssize_t size
) noexcept nogil:
    """Return whether `text` begins with the text of a token."""
    cdef int64_t length = rules.lengths[token]

    if length > size or rules.texts[token][0] != text[0]:
        return False
    if length <= PIECE:
        return memcmp(rules.texts[token], text, length) == 0
    length = rules.lengths[rules.lefts[token]]
    return matches(rules, rules.lefts[token], text, size) and matches(
        rules, rules.rights[token], text + length, size - length
    )


def find(
    const uint8_t[::1] names not None,
    const int32_t[::1] offsets not None,
    const uint8_t[::1] wanted not None,
):
    """Return the position of `wanted` among ascending packed names, or -1."""
    cdef Py_ssize_t low = 0, high = offsets.shape[0] - 1, middle, size, found = -1
    cdef int difference

    if high < 0 or offsets[high] != names.shape[0]:
        raise ValueError(f"the offsets do not divide {names.shape[0]} bytes")
    with nogil:
        while low < high:
            middle = (low + high) // 2
            size = offsets[middle + 1] - offsets[middle]
            difference = memcmp(
                &names[0] + offsets[middle], &wanted[0], min(size, wanted.shape[0])
            )
            if difference == 0 and size == wanted.shape[0]:
                found = middle
                break
            if difference < 0 or (difference == 0 and size < wanted.shape[0]):
                low = middle + 1
            else:
                high = middle
    return found


def occurring(
    const uint8_t[::1] names not None,
    const int32_t[::1] offsets not None,
    const uint8_t[::1] text not None,
):
    """Return the positions of the packed names that occur anywhere in `text`."""
    cdef Py_ssize_t count = count_packed(names, offsets)
    cdef Py_ssize_t i, k
    cdef const uint8_t *name
    cdef uint8_t *pairs = <uint8_t *> calloc(256 * 256, 1)
    cdef list found = []

    if not pairs:
        raise MemoryError
    try:
        with nogil:
            for k in range(1, text.shape[0]):
                pairs[text[k - 1] * 256 + text[k]] = True
            for i in range(count):
                name = &names[0] + offsets[i]
                # Nearly all names contain a pair of bytes that the text does not. Names differ
                # most towards their ends.
                k = offsets[i + 1] - offsets[i] - 1
                while k > 0 and pairs[name[k - 1] * 256 + name[k]]:
                    k -= 1
                if k <= 0 and contains(
                    &text[0], text.shape[0], name, offsets[i + 1] - offsets[i]
                ):
                    with gil:
                        found.append(i)
    finally:
        free(pairs)
    return found


def unpack(
    const uint8_t[::1] names not None,
    const int32_t[::1] offsets not None,
    const int32_t[::1] positions not None,
):
    """Return the packed names at `positions`, which must be UTF-8, as a list of str."""
    cdef Py_ssize_t count = count_packed(names, offsets)
    cdef Py_ssize_t i, position
    cdef const char *text = NULL
    cdef list unpacked = []

    if names.shape[0]:
        text = <const char *> &names[0]
    for i in range(positions.shape[0]):
        position = positions[i]
        if not 0 <= position < count:
            raise IndexError(f"no name {position} among {count}")
        unpacked.append(
            PyUnicode_DecodeUTF8(
                text + offsets[position], offsets[position + 1] - offsets[position], NULL
            )
        )
    return unpacked


cdef enum:
    MAX_PARTS = 8
    MAX_LENGTH = (1 << 24) - 1  # differences of names beyond this count as this


def similar(
    const uint8_t[::1] names not None,
    const int32_t[::1] offsets not None,
    const uint8_t[::1] wanted not None,
    parts,
    Py_ssize_t limit,
):
    """Return the positions of up to `limit` packed names that are most similar to `wanted`.

    Only names that contain at least one of `parts`, which are bytes, are similar. More parts are
    better; then a longer common prefix and suffix; then a closer length; then the later name.
    """
    cdef Py_ssize_t count = count_packed(names, offsets)
    cdef Py_ssize_t i, k, size, place, num_parts = len(parts), num_found = 0
    cdef const uint8_t *name
    cdef const uint8_t *texts[MAX_PARTS]
    cdef Py_ssize_t[MAX_PARTS] sizes
    cdef int64_t shared, score
    cdef int64_t *scores
    cdef Py_ssize_t *found

    if num_parts > MAX_PARTS or limit < 1:
        raise ValueError(f"{num_parts} parts of a name, limit {limit}")
    parts = list(parts)  # so that they stay alive
    for k in range(num_parts):
        if not parts[k]:
            raise ValueError("an empty part of a name")
        texts[k] = <const uint8_t *> PyBytes_AsString(parts[k])
        sizes[k] = len(parts[k])
    scores = <int64_t *> malloc(limit * sizeof(int64_t))
    found = <Py_ssize_t *> malloc(limit * sizeof(Py_ssize_t))
    try:
        if not scores or not found:
            raise MemoryError
        with nogil:
            for i in range(count):
                size = offsets[i + 1] - offsets[i]
                if size == 0:
                    continue
                name = &names[offsets[i]]
                shared = 0
                for k in range(num_parts):
                    shared += contains(name, size, texts[k], sizes[k])
                if shared == 0:
                    continue
                score = likeness(shared, name, size, wanted)
                if num_found == limit and score < scores[limit - 1]:
                    continue
                # The best ones are kept in order, the worst of them last.
                num_found = min(num_found + 1, limit)
                place = num_found - 1
                while place > 0 and scores[place - 1] <= score:
                    scores[place] = scores[place - 1]
                    found[place] = found[place - 1]
                    place -= 1
                scores[place] = score
                found[place] = i
        return [found[i] for i in range(num_found)]
    finally:
        free(scores)
        free(found)


cdef int64_t likeness(
    int64_t shared, const uint8_t *name, Py_ssize_t size, const uint8_t[::1] wanted
) noexcept nogil:
    """Return a number that orders names by parts, common ends and length, in this order."""
    cdef Py_ssize_t limit = min(size, wanted.shape[0]), prefix = 0, suffix = 0
    cdef Py_ssize_t difference = max(size, wanted.shape[0]) - limit

    while prefix < limit and name[prefix] == wanted[prefix]:
        prefix += 1
    while suffix < limit and name[size - 1 - suffix] == wanted[wanted.shape[0] - 1 - suffix]:
        suffix += 1
    return (
        (shared << 56)
        + (min(prefix + suffix, MAX_LENGTH) << 28)
        + MAX_LENGTH
        - min(difference, MAX_LENGTH)
    )


cdef bint contains(
    const uint8_t *text, Py_ssize_t text_size, const uint8_t *part, Py_ssize_t size
) noexcept nogil:
    cdef const uint8_t *at = text
    cdef const uint8_t *last

    if size == 0 or size > text_size:
        return size == 0
    last = text + (text_size - size)
    while at <= last:
        at = <const uint8_t *> memchr(at, part[0], last - at + 1)
        if at == NULL:
            return False
        if memcmp(at, part, size) == 0:
            return True
        at += 1
    return False


def required(const uint8_t[::1] body not None, const int32_t[::1] starts not None,
             const int32_t[::1] positions not None):
    """Return a byte for each of the columns at `positions`: whether it must not be null.

    `starts` are where the columns begin, and the end of the last one.
    """
    cdef Py_ssize_t i, count = positions.shape[0]
    cdef bytes result = PyBytes_FromStringAndSize(NULL, count)
    cdef uint8_t* flags = <uint8_t*>PyBytes_AsString(result)
    cdef Body block = body_at(body, 0)
    for i in range(count):
        if not 0 <= positions[i] < starts.shape[0] - 1 or not 0 <= starts[positions[i]] < body.shape[0]:
            raise ValueError(f"position {positions[i]} of {starts.shape[0] - 1}")
    with nogil:
        for i in range(count):
            block.reader.at = block.start + starts[positions[i]]
            take_varint(&block)
            skip(&block, take_varint(&block))
            flags[i] = body[offset_of(&block) + 1] == 0  # after the type: whether it is nullable
    return result
