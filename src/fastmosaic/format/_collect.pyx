# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Take the values of Arrow arrays that are not null, without the GIL.

A flat column of a row group has one array for each batch. If batches are small, their rows are
collected instead, without the nulls, so that the batches can be released.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._wire cimport (
    ARRAY_BLOCK, BINARY, BOOL, DAY, DECIMAL64, DECIMAL128, INT8, INT16, INT32, NUM_KINDS, STRING, TIME,
    TIMESTAMP_NS, Reader, fm_bits, fm_copy, fm_ctz64, fm_has_digits, fm_is_ascii, fm_load16, fm_load32,
    fm_load64, fm_popcount64, fm_store64, is_utf8,
    put_varint, uint16_t, uint32_t, uint64_t, varint, varint_size, width_of,
)

cdef extern from *:
    """
    /* The bytes of the lengths of `count` texts as varints. */
    FM_CLONES static int64_t fm_varint_bytes(const int32_t* offsets, int64_t count) {
        int64_t total = count;
        for (int64_t start = 0; start < count; start += 65536) {
            int32_t more = 0;
            int64_t end = start + 65536 < count ? start + 65536 : count;
            for (int64_t i = start; i < end; i++) {
                int32_t size = offsets[i + 1] - offsets[i];
                more += (size >= 128) + (size >= 16384) + (size >= 2097152) + (size >= 268435456);
            }
            total += more;
        }
        return total;
    }
    """
    int64_t fm_varint_bytes(const int32_t* offsets, int64_t count) nogil

ctypedef fused word:
    uint8_t
    uint16_t
    uint32_t
    uint64_t


cdef class ArrowColumns:
    """The arrays of one batch, as C structures that this object keeps alive."""

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


cdef int64_t plain_size(const ArrowArray* array, int kind) noexcept nogil:
    cdef int64_t valid = count_valid(array), total = 0, i, row = 0
    cdef const int32_t* offsets
    cdef const uint8_t* validity = validity_of(array)
    cdef const uint8_t* decimals
    cdef uint64_t size, nulls
    cdef int step
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
    total = offsets[array.length] - offsets[0] + fm_varint_bytes(offsets, array.length)
    while validity != NULL and row < array.length:
        step = <int>min(<int64_t>64, array.length - row)
        nulls = ~fm_bits(validity, bitmap_size(array), array.offset + row, step)
        if step < 64:
            nulls &= (<uint64_t>1 << step) - 1
        while nulls:
            i = row + fm_ctz64(nulls)
            size = <uint32_t>(offsets[i + 1] - offsets[i])
            total -= size + varint_size(size)
            nulls &= nulls - 1
        row += 64
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


# ---- numbers


cdef int number_width(int kind) noexcept nogil:
    """Return the bytes of a number in the machine's order; 0 if values have no fixed width."""
    return 8 if kind == TIMESTAMP_NS else width_of(kind)


cdef uint8_t* need(Scratch* scratch, int64_t size) noexcept nogil:
    """Return at least `size` bytes; NULL without memory. What was there before is lost."""
    if size > scratch.room or scratch.data == NULL:
        free(scratch.data)
        scratch.room = size + size // 4 + 64
        scratch.data = <uint8_t*>malloc(scratch.room)
        if scratch.data == NULL:
            scratch.room = 0
    return scratch.data


cdef inline int64_t take_words(const word* values, const ArrowArray* array, word* out) noexcept nogil:
    """Copy the values that are not null, `values` being those of all rows; return their number."""
    cdef const uint8_t* validity = validity_of(array)
    cdef int64_t row = 0, count = 0, size = bitmap_size(array)
    cdef uint64_t valid
    cdef int step, i
    if validity == NULL:
        memcpy(out, values, array.length * <int64_t>sizeof(word))
        return array.length
    while row < array.length:
        step = <int>min(<int64_t>64, array.length - row)
        valid = fm_bits(validity, size, array.offset + row, step)
        if step == 64 and valid == ~<uint64_t>0:
            memcpy(out + count, values + row, 64 * sizeof(word))
            count += 64
        elif fm_popcount64(valid) > 16:
            # Nulls are hard to predict: without a branch, but one value may be written in vain.
            for i in range(step):
                out[count] = values[row + i]
                count += valid & 1
                valid >>= 1
        else:
            while valid:
                out[count] = values[row + fm_ctz64(valid)]
                count += 1
                valid &= valid - 1
        row += 64
    return count


cdef inline uint64_t spread_bits(uint64_t bits) noexcept nogil:
    """Return eight bytes of 0 or 1 for the low eight bits."""
    cdef uint64_t each = <uint64_t>0x0101010101010101ULL
    bits = (bits & 255) * each & <uint64_t>0x8040201008040201ULL  # one other bit in each byte
    return (bits + 127 * each) >> 7 & each


cdef int64_t take_bools(const ArrowArray* array, uint8_t* out) noexcept nogil:
    """Copy the booleans that are not null as bytes; return how many there are."""
    cdef const uint8_t* data = <const uint8_t*>array.buffers[1]
    cdef const uint8_t* validity = validity_of(array)
    cdef int64_t row = 0, count = 0, size = bitmap_size(array)
    cdef uint64_t bits, valid
    cdef int step, i
    while row < array.length:
        step = <int>min(<int64_t>64, array.length - row)
        bits = fm_bits(data, size, array.offset + row, step)
        valid = ~<uint64_t>0
        if validity != NULL:
            valid = fm_bits(validity, size, array.offset + row, step)
        if step == 64 and valid == ~<uint64_t>0:
            for i in range(8):
                fm_store64(out + count + 8 * i, spread_bits(bits >> 8 * i))
            count += 64
        else:
            for i in range(step):
                out[count] = bits >> i & 1
                count += valid >> i & 1
        row += 64
    return count


cdef int64_t take_numbers(const ArrowArray* array, int kind, uint8_t* out) noexcept nogil:
    """Copy the numbers that are not null; return how many there are.

    There must be room for one number more.
    """
    cdef const uint8_t* data = <const uint8_t*>array.buffers[1]
    cdef int64_t i, count = 0
    if array.length == 0:
        return 0
    if kind == BOOL:
        return take_bools(array, out)
    if kind == DECIMAL64:
        for i in range(array.length):
            fm_store64(out + 8 * count, fm_load64(data + 16 * (array.offset + i)))
            count += is_valid(array, i)
        return count
    if kind == INT8:
        return take_words[uint8_t](data + array.offset, array, out)
    if kind == INT16:
        return take_words[uint16_t](<const uint16_t*>data + array.offset, array, <uint16_t*>out)
    if kind == INT32 or kind == TIME:
        return take_words[uint32_t](<const uint32_t*>data + array.offset, array, <uint32_t*>out)
    return take_words[uint64_t](<const uint64_t*>data + array.offset, array, <uint64_t*>out)


cdef const uint8_t* numbers_of(const Source* source, Scratch* scratch) noexcept nogil:
    """Return all numbers of a column that are not null, copied if need be; NULL without memory."""
    cdef int width = number_width(source.kind)
    cdef const ArrowArray* array
    cdef const uint8_t* data
    cdef uint8_t* out
    cdef int64_t i
    if source.gathered != NULL:
        return source.data
    if source.num_chunks == 1 and source.valid == source.rows:
        array = source.chunks[0]
        if source.kind != BOOL and source.kind != DECIMAL64:
            data = <const uint8_t*>array.buffers[1] + array.offset * width
            if <uintptr_t>data % width == 0:
                return data
    data = out = need(scratch, (source.valid + 1) * width)
    if out == NULL:
        return NULL
    for i in range(source.num_chunks):
        out += width * take_numbers(source.chunks[i], source.kind, out)
    return data


# ---- other values


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


cdef inline int next_plain(Walk* walk, Value* out) noexcept nogil:
    """Read the next values that were collected as PLAIN."""
    cdef Reader reader
    cdef int count = 0, k
    cdef int64_t size
    reader.at = walk.at
    reader.end = walk.source.data + walk.source.gathered.data.size
    while count < BLOCK and reader.at < reader.end:
        size = varint(&reader)
        if walk.source.kind == DECIMAL128:
            out[count].low = 0 - <uint64_t>(reader.at[0] >> 7)
            out[count].high = out[count].low
            for k in range(<int>size):
                out[count].high = out[count].high << 8 | out[count].low >> 56
                out[count].low = out[count].low << 8 | reader.at[k]
        else:
            out[count].low = <uint64_t>size
            out[count].high = <uint64_t>reader.at
        reader.at += size
        count += 1
    walk.at = reader.at
    return count


cdef int next_block(Walk* walk, Value* out) noexcept nogil:
    """Read the next values, as many as fit in a block; return 0 at the end.

    The column has strings or decimals of up to 16 bytes.
    """
    cdef const ArrowArray* array
    cdef int kind = walk.source.kind
    cdef uint64_t valid
    cdef int i, rows, count = 0
    if walk.source.gathered != NULL:
        if walk.at == NULL:
            walk.at = walk.source.data
        return next_plain(walk, out)
    while walk.chunk < walk.source.num_chunks:
        array = walk.source.chunks[walk.chunk]
        if validity_of(array) == NULL:
            rows = <int>min(<int64_t>(BLOCK - count), array.length - walk.row)
            for i in range(rows):
                load_value(array, kind, array.offset + walk.row + i, &out[count + i])
            count += rows
            walk.row += rows
        else:
            while walk.row < array.length and count <= BLOCK - 64:
                rows = <int>min(<int64_t>64, array.length - walk.row)
                valid = fm_bits(validity_of(array), bitmap_size(array), array.offset + walk.row,
                                rows)
                while valid:
                    load_value(array, kind, array.offset + walk.row + fm_ctz64(valid),
                               &out[count])
                    count += 1
                    valid &= valid - 1
                walk.row += rows
        if walk.row < array.length:
            return count
        walk.chunk += 1
        walk.row = 0
    return count


cdef inline uint8_t* put_text(uint8_t* out, const uint8_t* text, uint32_t size) noexcept nogil:
    if size < 128:
        out[0] = <uint8_t>size
        out += 1
    else:
        out = put_varint(out, size)
    fm_copy(out, text, size)
    return out + size


cdef uint8_t* put_texts(const ArrowArray* array, uint8_t* out) noexcept nogil:
    """Write the texts of an array as PLAIN; return the address after them."""
    cdef const int32_t* offsets = <const int32_t*>array.buffers[1] + array.offset
    cdef const uint8_t* data = <const uint8_t*>array.buffers[2]
    cdef const uint8_t* validity = validity_of(array)
    cdef int64_t row = 0, i, size = bitmap_size(array)
    cdef uint64_t valid
    if validity == NULL:
        for row in range(array.length):
            out = put_text(out, data + offsets[row], <uint32_t>(offsets[row + 1] - offsets[row]))
        return out
    while row < array.length:
        valid = fm_bits(validity, size, array.offset + row, <int>min(<int64_t>64, array.length - row))
        while valid:
            i = row + fm_ctz64(valid)
            out = put_text(out, data + offsets[i], <uint32_t>(offsets[i + 1] - offsets[i]))
            valid &= valid - 1
        row += 64
    return out


cdef int64_t plain_size_of(Source* source) noexcept nogil:
    """Return the bytes of all values as PLAIN."""
    cdef int64_t i
    if source.plain < 0:
        if width_of(source.kind):
            source.plain = source.valid * width_of(source.kind)
        elif source.gathered != NULL:
            source.plain = source.gathered.data.size
        else:
            source.plain = 0
            for i in range(source.num_chunks):
                source.plain += plain_size(source.chunks[i], source.kind)
    return source.plain


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


# ---- nulls


cdef void put_null_bits(const ArrowArray* array, int64_t at, uint8_t* out) noexcept nogil:
    """Set the bits of the rows of an array that are null, beginning with bit `at`."""
    cdef const uint8_t* validity = validity_of(array)
    cdef int64_t row = 0, byte, size = bitmap_size(array)
    cdef uint64_t bits
    cdef int count
    while validity != NULL and row < array.length:
        # 56 bits, shifted by up to 7, fit in one word.
        count = <int>min(56, array.length - row)
        bits = ~fm_bits(validity, size, array.offset + row, count)
        bits = (bits & ((<uint64_t>1 << count) - 1)) << ((at + row) & 7)
        byte = (at + row) >> 3
        while bits:
            out[byte] |= <uint8_t>bits
            bits >>= 8
            byte += 1
        row += count


cdef void put_nulls(const Source* source, uint8_t* out) noexcept nogil:
    """Write the null bitmap of a column; 1 means null."""
    cdef int64_t chunk, at = 0, size = (source.rows + 7) // 8
    if source.gathered != NULL:
        copy_out(&source.gathered.nulls, out)
        at = source.gathered.nulls.size
        memcpy(out + at, &source.gathered.bits, size - at)
        return
    memset(out, 0, size)
    for chunk in range(source.num_chunks):
        put_null_bits(source.chunks[chunk], at, out)
        at += source.chunks[chunk].length


# ---- collected rows


cdef enum:
    SLAB_BYTES = 1 << 20
    MIN_CHUNK_BYTES = 48
    MAX_CHUNK_BYTES = 1 << 16


cdef inline uint8_t* bytes_of(Chunk* chunk) noexcept nogil:
    return <uint8_t*>(chunk + 1)


cdef void copy_out(const Stream* stream, uint8_t* out) noexcept nogil:
    cdef Chunk* chunk = stream.first
    while chunk != NULL:
        memcpy(out, bytes_of(chunk), chunk.size)
        out += chunk.size
        chunk = chunk.next


cdef const uint8_t* assemble(const Gathered* column, Scratch* scratch) noexcept nogil:
    """Return all that was collected of a column, in one piece; NULL without memory."""
    cdef uint8_t* out = need(scratch, column.data.size)
    if out != NULL:
        copy_out(&column.data, out)
    return out


cdef class CollectedColumns:
    """Rows of flat columns, collected from batches without their nulls.

    They take about the memory of their values in a file before compression.
    """

    def __cinit__(self, bytes kinds not None):
        self.count = len(kinds)
        self._kinds = kinds
        self._columns = <Gathered*>calloc(self.count + 1, sizeof(Gathered))
        if self._columns == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Slab* slab
        while self._slabs != NULL:
            slab = self._slabs
            self._slabs = slab.next
            free(slab)
        free(self._columns)
        free(self._scratch.data)

    def append(self, ArrowColumns batch not None, int64_t num_rows):
        """Append the rows of a batch, whose columns are those of the kinds."""
        cdef Py_ssize_t i
        cdef bint enough = True
        cdef const uint8_t[::1] kinds = self._kinds
        if batch.count != self.count:
            raise ValueError(f"{batch.count} columns for {self.count}")
        for i in range(self.count):
            if kinds[i] >= NUM_KINDS and kinds[i] != ARRAY_BLOCK:
                raise ValueError(f"kind {kinds[i]}")
        with nogil:
            for i in range(self.count):
                if kinds[i] != ARRAY_BLOCK:
                    enough = self._collect(&self._columns[i], batch._arrays[i], kinds[i])
                    if not enough:
                        break
        if not enough:
            raise MemoryError
        self.num_rows += num_rows

    cdef bint _collect(self, Gathered* column, const ArrowArray* array, int kind) noexcept nogil:
        """Append the rows of an array; return False without memory."""
        cdef int width = number_width(kind)
        cdef int64_t size
        cdef uint8_t* values
        cdef uint8_t* at
        cdef Value[BLOCK] block
        cdef Source source
        cdef Walk walk
        cdef ArrowArray* chunk = <ArrowArray*>array
        cdef int i, count
        if not self._put_nulls(column, array):
            return False
        column.rows += array.length
        if width:
            values = need(&self._scratch, (array.length + 1) * width)
            if values == NULL:
                return False
            size = width * take_numbers(array, kind, values)
        else:
            values = need(&self._scratch, plain_size(array, kind))
            if values == NULL:
                return False
            if kind >= BINARY:
                size = put_texts(array, values) - values if array.length else 0
            else:
                memset(&source, 0, sizeof(Source))
                memset(&walk, 0, sizeof(Walk))
                source.kind = kind
                source.chunks = &chunk
                source.num_chunks = 1
                walk.source = &source
                at = values
                count = next_block(&walk, block)
                while count:
                    for i in range(count):
                        at = put_value(at, &block[i], kind)
                    count = next_block(&walk, block)
                size = at - values
        column.count += count_valid(array)
        return self._push(&column.data, values, size)

    cdef bint _put_nulls(self, Gathered* column, const ArrowArray* array) noexcept nogil:
        """Append the null bits of an array."""
        cdef const uint8_t* validity = validity_of(array)
        cdef int64_t row = 0, i, size = bitmap_size(array)
        cdef int filled, step
        cdef uint64_t nulls
        if not column.has_nulls:
            if validity == NULL:
                return True
            column.has_nulls = True
            for i in range(column.rows // 64):
                if not self._push(&column.nulls, <const uint8_t*>&column.bits, 8):
                    return False
        filled = <int>(column.rows & 63)
        while row < array.length:
            step = <int>min(<int64_t>(64 - filled), array.length - row)
            nulls = 0
            if validity != NULL:
                nulls = ~fm_bits(validity, size, array.offset + row, step)
                if step < 64:
                    nulls &= (<uint64_t>1 << step) - 1
            column.bits |= nulls << filled
            filled += step
            row += step
            if filled == 64:
                if not self._push(&column.nulls, <const uint8_t*>&column.bits, 8):
                    return False
                column.bits = 0
                filled = 0
        return True

    cdef bint _push(self, Stream* stream, const uint8_t* data, int64_t size) noexcept nogil:
        """Append bytes to a stream; return False without memory."""
        cdef Chunk* chunk = stream.last
        cdef int64_t step, room
        cdef Slab* slab
        while size:
            if chunk == NULL or chunk.size == chunk.room:
                # Chunks grow with what is there, so that the free bytes of the last one are few.
                room = min(max(stream.size // 8, <int64_t>MIN_CHUNK_BYTES), <int64_t>MAX_CHUNK_BYTES)
                room = (room + 15) // 16 * 16
                if self._left < room + <int64_t>sizeof(Chunk):
                    slab = <Slab*>malloc(SLAB_BYTES)
                    if slab == NULL:
                        return False
                    slab.next = self._slabs
                    self._slabs = slab
                    self._at = <uint8_t*>slab + 16
                    self._left = SLAB_BYTES - 16
                    self.memory += SLAB_BYTES
                chunk = <Chunk*>self._at
                self._at += sizeof(Chunk) + room
                self._left -= sizeof(Chunk) + room
                chunk.next = NULL
                chunk.size = 0
                chunk.room = <uint32_t>room
                if stream.last == NULL:
                    stream.first = chunk
                else:
                    stream.last.next = chunk
                stream.last = chunk
            step = min(size, <int64_t>(chunk.room - chunk.size))
            memcpy(bytes_of(chunk) + chunk.size, data, step)
            chunk.size += <uint32_t>step
            stream.size += step
            data += step
            size -= step
        return True
