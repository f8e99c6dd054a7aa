# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Walk over the row group index, without the GIL.

The bytes are not trusted: every entry is checked against the remaining bytes and the extent of the
data. Errors are `ValueError`.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memset

from fastmosaic.format._wire cimport (
    NUM_KINDS, Reader, fm_load64, fm_swap64, left, skip_values, uint64_t, varint,
)


cdef struct Table:
    int64_t* items
    int64_t size
    int64_t room


cdef bint push(Table* table, int64_t item) noexcept nogil:
    cdef int64_t* items
    if table.size == table.room:
        table.room = 2 * table.room + 256
        items = <int64_t*>realloc(table.items, table.room * sizeof(int64_t))
        if items == NULL:
            return False
        table.items = items
    table.items[table.size] = item
    table.size += 1
    return True


cdef enum Fault:
    FINE
    TRUNCATED
    TOO_MANY_BUCKETS
    BUCKET
    SIZES
    BOUNDS
    STATS_COLUMN
    STATS_NULLS
    STATS_VALUE
    TRAILING
    NO_MEMORY

_FACTS = (
    "",
    "the index ends inside an entry",
    "a row group lists more buckets than the file has",
    "a bucket number is out of range",
    "a bucket has 0 bytes",
    "a bucket lies outside the data",
    "there are statistics of a column that does not exist",
    "the statistics count more nulls than rows",
    "a value in the statistics is cut off",
    "bytes follow the last row group",
    "out of memory",
)


cdef int walk_stats(Reader* reader, const uint8_t* base, int64_t rows, const uint8_t[::1] kinds,
                    Table* out) noexcept nogil:
    """Move past the statistics of one row group; record their positions in `out`, unless NULL."""
    cdef int64_t count = varint(reader), i, column, nulls
    cdef const uint8_t* start
    cdef const uint8_t* middle
    if count < 0 or count > left(reader):
        return TRUNCATED
    for i in range(count):
        column = varint(reader)
        nulls = varint(reader)
        if column < 0 or nulls < 0:
            return TRUNCATED
        if column >= kinds.shape[0]:
            return STATS_COLUMN
        if nulls > rows:
            return STATS_NULLS
        start = middle = reader.at
        if nulls < rows:
            if kinds[column] >= NUM_KINDS:
                return STATS_COLUMN
            if not skip_values(reader, kinds[column], 1):
                return STATS_VALUE
            middle = reader.at
            if not skip_values(reader, kinds[column], 1):
                return STATS_VALUE
        if out != NULL:
            if not (push(out, column) and push(out, nulls) and push(out, start - base)
                    and push(out, middle - base) and push(out, reader.at - base)):
                return NO_MEMORY
    return FINE


cdef int walk_groups(Reader* reader, const uint8_t* base, int64_t num_groups, int64_t num_buckets,
                     const uint8_t[::1] kinds, int64_t data_end, Table* groups,
                     Table* entries) noexcept nogil:
    cdef int64_t group, i, rows, count, bucket, size, bulk, last, first
    cdef uint64_t offset
    cdef bint ascending
    cdef int fault
    for group in range(num_groups):
        rows = varint(reader)
        count = varint(reader)
        if rows < 0 or count < 0:
            return TRUNCATED
        if count > num_buckets:
            return TOO_MANY_BUCKETS
        first = entries.size // 4
        last = -1
        ascending = True
        for i in range(count):
            bucket = varint(reader)
            if bucket < 0 or left(reader) < 8:
                return TRUNCATED
            offset = fm_swap64(fm_load64(reader.at))
            reader.at += 8
            size = varint(reader)
            bulk = varint(reader)
            if size < 0 or bulk < 0:
                return TRUNCATED
            if bucket >= num_buckets:
                return BUCKET
            if size == 0:
                return SIZES
            if offset > <uint64_t>data_end or size > data_end - <int64_t>offset:
                return BOUNDS
            ascending &= bucket > last
            last = bucket
            if not (push(entries, bucket) and push(entries, <int64_t>offset)
                    and push(entries, size) and push(entries, bulk)):
                return NO_MEMORY
        if not (push(groups, rows) and push(groups, first) and push(groups, count)
                and push(groups, ascending) and push(groups, reader.at - base)):
            return NO_MEMORY
        fault = walk_stats(reader, base, rows, kinds, NULL)
        if fault:
            return fault
    return TRAILING if left(reader) else FINE


cdef bytes _drain(Table* table):
    return (<const char*>table.items)[: table.size * <int64_t>sizeof(int64_t)]


def walk_index(const uint8_t[::1] data not None, int64_t num_groups, int64_t num_buckets,
               const uint8_t[::1] kinds not None, int64_t data_end):
    """Return the row groups and bucket entries of an index, as two tables of native int64.

    A group is (rows, first entry, entries, whether they ascend, offset of its statistics);
    an entry is (bucket, offset, compressed size, uncompressed size).
    """
    cdef Table groups, entries
    cdef Reader reader
    cdef const uint8_t* base = &data[0] if data.shape[0] else NULL
    cdef int fault
    memset(&groups, 0, sizeof(Table))
    memset(&entries, 0, sizeof(Table))
    if num_groups > data.shape[0] // 3:  # numRows, nonEmptyCount, numStats
        raise ValueError(f"{num_groups} row groups do not fit in {data.shape[0]} bytes of index")
    reader.at = base
    reader.end = base + data.shape[0]
    try:
        with nogil:
            fault = walk_groups(&reader, base, num_groups, num_buckets, kinds, data_end, &groups,
                                &entries)
        if fault == NO_MEMORY:
            raise MemoryError
        if fault:
            raise ValueError(f"{_FACTS[fault]}, at byte {reader.at - base} of the index")
        return _drain(&groups), _drain(&entries)
    finally:
        free(groups.items)
        free(entries.items)


def walk_statistics(const uint8_t[::1] data not None, int64_t start, int64_t rows,
                    const uint8_t[::1] kinds not None):
    """Return the statistics of one row group as a table of native int64.

    A row is (column, null count, start of the minimum, start of the maximum, its end).
    """
    cdef Table out
    cdef Reader reader
    cdef const uint8_t* base = &data[0] if data.shape[0] else NULL
    cdef int fault
    memset(&out, 0, sizeof(Table))
    if not 0 <= start <= data.shape[0]:
        raise ValueError("statistics start outside the index")
    reader.at = base + start
    reader.end = base + data.shape[0]
    try:
        with nogil:
            fault = walk_stats(&reader, base, rows, kinds, &out)
        if fault == NO_MEMORY:
            raise MemoryError
        if fault:
            raise ValueError(f"{_FACTS[fault]}, at byte {reader.at - base} of the index")
        return _drain(&out)
    finally:
        free(out.items)
