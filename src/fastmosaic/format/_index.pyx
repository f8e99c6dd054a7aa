# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Walk over the row group index, and make Python values of its statistics.

The bytes are not trusted: every entry is checked against the remaining bytes and the extent of the
data. Errors are `ValueError`.
"""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from libc.stdio cimport snprintf
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memset

from fastmosaic.format._wire cimport (
    BINARY, BOOL, DAY, DECIMAL64, INT8, INT16, INT32, INT64, NUM_KINDS, STRING, TIME, Reader,
    fm_load16, fm_load32, fm_load64, fm_swap16, fm_swap32, fm_swap64, left, skip_values, uint32_t,
    uint64_t, varint,
)

# `types.TypeId`, as far as types that are stored alike differ in Python.
cdef enum TypeId:
    FLOAT_TYPE = 5
    DOUBLE_TYPE = 6
    DATE_TYPE = 7
    TIMESTAMP_TYPE = 16
    TIMESTAMP_LTZ_TYPE = 17

# What to do with the statistics of a column.
cdef enum Wanted:
    SKIP
    DECODE
    KEEP  # as bytes


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
                    Table* out, const uint8_t* wanted) noexcept nogil:
    """Move past the statistics of one row group; record their places in `out`, unless NULL.

    With `wanted`, only those of columns that are not 0 there are recorded.
    """
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
        if out != NULL and (wanted == NULL or wanted[column] != SKIP):
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
        fault = walk_stats(reader, base, rows, kinds, NULL, NULL)
        if fault:
            return fault
        if not push(groups, reader.at - base):
            return NO_MEMORY
    return TRAILING if left(reader) else FINE


cdef bytes _drain(Table* table):
    return (<const char*>table.items)[: table.size * <int64_t>sizeof(int64_t)]


def walk_index(const uint8_t[::1] data not None, int64_t num_groups, int64_t num_buckets,
               const uint8_t[::1] kinds not None, int64_t data_end):
    """Return the row groups and bucket entries of an index, as two tables of native int64.

    A group is (rows, first entry, entries, whether they ascend, offset of its statistics, their
    end); an entry is (bucket, offset, compressed size, uncompressed size).
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
                    const uint8_t[::1] kinds not None, const uint8_t[::1] wanted=None):
    """Return the statistics of one row group as a table of native int64.

    A row is (column, null count, start of the minimum, start of the maximum, its end). With
    `wanted`, a byte for each column, only those of columns with another byte than 0 are returned.
    """
    cdef Table out
    memset(&out, 0, sizeof(Table))
    try:
        _walk_statistics(&out, data, start, rows, kinds, wanted)
        return _drain(&out)
    finally:
        free(out.items)


cdef int _walk_statistics(Table* out, const uint8_t[::1] data, int64_t start, int64_t rows,
                          const uint8_t[::1] kinds, const uint8_t[::1] wanted) except -1:
    cdef Reader reader
    cdef const uint8_t* base = &data[0] if data.shape[0] else NULL
    cdef const uint8_t* chosen = NULL
    cdef int fault
    if not 0 <= start <= data.shape[0]:
        raise ValueError("statistics start outside the index")
    if wanted is not None:
        if wanted.shape[0] != kinds.shape[0]:
            raise ValueError(f"{wanted.shape[0]} columns wanted of {kinds.shape[0]}")
        if wanted.shape[0]:
            chosen = &wanted[0]
    reader.at = base + start
    reader.end = base + data.shape[0]
    with nogil:
        fault = walk_stats(&reader, base, rows, kinds, out, chosen)
    if fault == NO_MEMORY:
        raise MemoryError
    if fault:
        raise ValueError(f"{_FACTS[fault]}, at byte {reader.at - base} of the index")
    return 0


# Python values


def python_statistics(const uint8_t[::1] data not None, int64_t start, int64_t rows,
                      const uint8_t[::1] kinds not None, const uint8_t[::1] body not None,
                      const int32_t[::1] type_starts not None, const uint8_t[::1] wanted not None,
                      zone_of):
    """Return the statistics of one row group as lists: columns, null counts, minima and maxima.

    `type_starts` says where in `body` the type descriptor of each column begins. `wanted` says for
    each column whether to skip its statistics (0), to make Python values (1), or to return the
    stored bytes (2). The fifth list contains the rows with bytes: those, and of columns decoded to
    Python the values that this function does not make. Without bounds, both are None. `zone_of`
    returns the time zone with a name, in bytes, or None.
    """
    cdef Table out
    cdef Reader reader
    cdef Form form
    cdef int64_t* row
    cdef const uint8_t* base = &data[0] if data.shape[0] else NULL
    cdef int64_t i, column
    cdef list columns = [], nulls = [], lows = [], highs = [], rest = []
    cdef object low, high, zone
    memset(&out, 0, sizeof(Table))
    if type_starts.shape[0] != kinds.shape[0]:
        raise ValueError(f"{type_starts.shape[0]} types of {kinds.shape[0]} columns")
    try:
        _walk_statistics(&out, data, start, rows, kinds, wanted)
        for i in range(out.size // 5):
            row = out.items + 5 * i
            column = row[0]
            columns.append(column)
            nulls.append(row[1])
            low = high = None
            if row[2] < row[4] and kinds[column] != BINARY:
                low = high = _UNKNOWN
                if wanted[column] == DECODE:
                    form = form_of(kinds[column], body, type_starts[column])
                    zone = None
                    if form.zone_size:
                        zone = zone_of((<const char*>form.zone)[:form.zone_size])
                    low = python_value(&form, base + row[2], base + row[3], zone)
                    high = python_value(&form, base + row[3], base + row[4], zone)
                if low is _UNKNOWN or high is _UNKNOWN:
                    low = PyBytes_FromStringAndSize(<const char*>base + row[2], row[3] - row[2])
                    high = PyBytes_FromStringAndSize(<const char*>base + row[3], row[4] - row[3])
                    rest.append(i)
            lows.append(low)
            highs.append(high)
        return columns, nulls, lows, highs, rest
    finally:
        free(out.items)


cdef object _UNKNOWN = object()


cdef struct Form:
    int kind
    int type_id
    int parameter  # scale of a decimal, or units of a timestamp in a second
    const uint8_t* zone  # name of the time zone of a timestamp, if it has one
    int64_t zone_size


cdef Form form_of(int kind, const uint8_t[::1] body, int64_t start) except *:
    """Return what distinguishes types whose values are stored alike."""
    cdef Form form = Form(kind, 0, 0, NULL, 0)
    cdef Reader reader
    cdef int64_t number
    if not 0 <= start <= body.shape[0] - 2:
        raise ValueError(f"no type at {start} of {body.shape[0]} bytes")
    form.type_id = body[start]
    reader.at = &body[0] + start + 2
    reader.end = &body[0] + body.shape[0]
    if kind == DECIMAL64:
        varint(&reader)
        form.parameter = <int8_t>(varint(&reader) & 0xFF)
    elif kind == INT64 and form.type_id in (TIMESTAMP_TYPE, TIMESTAMP_LTZ_TYPE):
        form.parameter = 1000 if varint(&reader) <= 3 else 1000000
        if form.type_id == TIMESTAMP_LTZ_TYPE:
            number = varint(&reader)
            if 0 < number <= left(&reader):
                form.zone = reader.at
                form.zone_size = number
    return form


cdef object python_value(Form* form, const uint8_t* at, const uint8_t* end, zone):
    """Return a value, or _UNKNOWN if it is of another type or beyond what Python represents."""
    cdef Reader reader
    cdef int64_t number, size
    cdef uint64_t bits
    cdef uint32_t half
    cdef float single
    cdef double real
    cdef char[40] text

    if form.kind == STRING:
        reader.at = at
        reader.end = end
        size = varint(&reader)
        if size != left(&reader):
            raise ValueError("a string in the statistics has a wrong length")
        return PyUnicode_DecodeUTF8(<const char*>reader.at, size, NULL)
    if form.kind == BOOL:
        return at[0] != 0
    if form.kind == INT8:
        return <int8_t>at[0]
    if form.kind == INT16:
        return <int16_t>fm_swap16(fm_load16(at))
    if form.kind == INT32 or form.kind == TIME:
        half = fm_swap32(fm_load32(at))
        if form.kind == TIME:
            return time_of(<int32_t>half)
        if form.type_id == FLOAT_TYPE:
            memcpy(&single, &half, 4)
            return <double>single
        if form.type_id == DATE_TYPE:
            return date_of(<int32_t>half)
        return <int32_t>half
    if form.kind == INT64:
        bits = fm_swap64(fm_load64(at))
        if form.type_id == DOUBLE_TYPE:
            memcpy(&real, &bits, 8)
            return real
        if form.type_id == TIMESTAMP_TYPE or zone is not None:
            return datetime_of(<int64_t>bits, form.parameter, zone)
        if form.type_id == TIMESTAMP_LTZ_TYPE:
            return _UNKNOWN
        return <int64_t>bits
    if form.kind == DECIMAL64:
        number = <int64_t>fm_swap64(fm_load64(at))
        size = snprintf(text, sizeof(text), "%lldE%d", <long long>number, -form.parameter)
        return Decimal(PyUnicode_DecodeUTF8(text, size, NULL))
    return _UNKNOWN


cdef enum:
    DAY_1970 = 719163  # of 1970-01-01, counted from 0001-01-01, which is 1
    LAST_DAY = 3652059  # 9999-12-31

cdef object _FROM_ORDINAL = date.fromordinal
cdef object _EPOCH = datetime(1970, 1, 1)
cdef object _EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)


cdef object date_of(int64_t days):
    days += DAY_1970
    return _FROM_ORDINAL(days) if 1 <= days <= LAST_DAY else _UNKNOWN


cdef object time_of(int64_t millis):
    if not 0 <= millis < DAY:
        return _UNKNOWN
    return time(
        millis // 3600000, millis // 60000 % 60, millis // 1000 % 60, millis % 1000 * 1000
    )


cdef object datetime_of(int64_t units, int64_t in_second, zone):
    """Return the moment this many units after 1970-01-01; `in_second` units are a second."""
    cdef int64_t in_day = 86400 * in_second, days = units // in_day, rest = units % in_day
    cdef object since
    if rest < 0:  # C divides towards 0
        rest += in_day
        days -= 1
    # In another zone, it may be the day before or after.
    if not 1 < days + DAY_1970 < LAST_DAY:
        return _UNKNOWN
    since = timedelta(days, rest // in_second, rest % in_second * (1000000 // in_second))
    return _EPOCH + since if zone is None else (_EPOCH_UTC + since).astimezone(zone)
