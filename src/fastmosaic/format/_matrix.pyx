# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decode pages of numbers into a matrix of one type, without the GIL.

A page is decoded some rows at a time, into memory that the cache holds, and converted to the type of the
matrix. If the type is the same and the matrix stores columns one after another, it is decoded in place.

Only numbers that the matrix can represent are written. Whatever else occurs (a damaged page, an overflow,
nulls that are not allowed) stops with the column where it occurs: others decode it again and say why.
"""

from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from fastmosaic.format._column cimport Column, dense_fixed, fill_booleans, spread
from fastmosaic.format._page cimport FINE, Page, advance, arrow_width, nulls_at, take_portion
from fastmosaic.format._values cimport fm_make_places
from fastmosaic.format._wire cimport (
    ALL_NULL, BOOL, DICT, TIME, TIMESTAMP_NS, uint64_t,
)

cdef extern from *:
    """
    #include <math.h>
    #include <string.h>

    /* Types of numbers, as `SOURCES` and `DTYPES` count them. */
    enum { FM_BOOL, FM_I8, FM_I16, FM_I32, FM_I64, FM_F32, FM_F64, FM_U8, FM_U16, FM_U32, FM_U64, FM_F16 };

    /* IEEE half precision, rounded to the nearest, ties to even. */
    static uint16_t fm_to_half(double number) {
        uint16_t sign = signbit(number) ? 0x8000 : 0;
        double size = fabs(number), scaled;
        int exponent;
        if (isnan(number)) return sign | 0x7e00;
        if (size >= 65520.0) return sign | 0x7c00;
        if (size < 0x1p-14) return sign | (uint16_t)rint(size * 0x1p24);
        scaled = rint(ldexp(frexp(size, &exponent), 11));
        return sign | (uint16_t)(((exponent + 14) << 10) + ((int)scaled - 1024));
    }

    #define FM_EACH(NAME, FROM, TO, FITS, MADE) \
    static int NAME(uint8_t* out, const uint8_t* in, int64_t count) { \
        int misfit = 0; \
        for (int64_t i = 0; i < count; i++) { \
            FROM number; TO made; int fits; \
            memcpy(&number, in + i * sizeof(FROM), sizeof(FROM)); \
            fits = (FITS); \
            made = (MADE); \
            misfit |= !fits; \
            memcpy(out + i * sizeof(TO), &made, sizeof(TO)); \
        } \
        return !misfit; \
    }
    #define FM_WHOLE(NAME, FROM, TO) FM_EACH(NAME, FROM, TO, \
        (int64_t)(TO)number == (int64_t)number && ((TO)number < 0) == (number < 0), (TO)number)
    #define FM_TRUNC(NAME, FROM, TO, LOW, HIGH) FM_EACH(NAME, FROM, TO, \
        number >= LOW && number < HIGH && trunc(number) == number, fits ? (TO)number : 0)
    #define FM_ANY(NAME, FROM, TO) FM_EACH(NAME, FROM, TO, 1, (TO)number)
    #define FM_FLOAT(NAME) FM_EACH(NAME, double, float, \
        !isfinite(number) || isfinite((float)number), (float)number)
    #define FM_HALF(NAME, FROM) FM_EACH(NAME, FROM, uint16_t, \
        !isfinite((double)number) || fabs((double)number) < 65520.0, fm_to_half((double)number))

    #define FM_OF_WHOLE(NAME, FROM) \
        FM_WHOLE(NAME##_i8, FROM, int8_t) FM_WHOLE(NAME##_i16, FROM, int16_t) \
        FM_WHOLE(NAME##_i32, FROM, int32_t) FM_WHOLE(NAME##_i64, FROM, int64_t) \
        FM_WHOLE(NAME##_u8, FROM, uint8_t) FM_WHOLE(NAME##_u16, FROM, uint16_t) \
        FM_WHOLE(NAME##_u32, FROM, uint32_t) FM_WHOLE(NAME##_u64, FROM, uint64_t) \
        FM_ANY(NAME##_f32, FROM, float) FM_ANY(NAME##_f64, FROM, double) FM_HALF(NAME##_f16, FROM)
    #define FM_OF_FLOAT(NAME, FROM) \
        FM_TRUNC(NAME##_i8, FROM, int8_t, -0x1p7, 0x1p7) FM_TRUNC(NAME##_i16, FROM, int16_t, -0x1p15, 0x1p15) \
        FM_TRUNC(NAME##_i32, FROM, int32_t, -0x1p31, 0x1p31) FM_TRUNC(NAME##_i64, FROM, int64_t, -0x1p63, 0x1p63) \
        FM_TRUNC(NAME##_u8, FROM, uint8_t, 0, 0x1p8) FM_TRUNC(NAME##_u16, FROM, uint16_t, 0, 0x1p16) \
        FM_TRUNC(NAME##_u32, FROM, uint32_t, 0, 0x1p32) FM_TRUNC(NAME##_u64, FROM, uint64_t, 0, 0x1p64) \
        FM_HALF(NAME##_f16, FROM)
    FM_OF_WHOLE(fm_i8, int8_t)
    FM_OF_WHOLE(fm_i16, int16_t)
    FM_OF_WHOLE(fm_i32, int32_t)
    FM_OF_WHOLE(fm_i64, int64_t)
    FM_OF_FLOAT(fm_f32, float)
    FM_ANY(fm_f32_f32, float, float)
    FM_ANY(fm_f32_f64, float, double)
    FM_OF_FLOAT(fm_f64, double)
    FM_FLOAT(fm_f64_f32)
    FM_ANY(fm_f64_f64, double, double)

    #define FM_TO(NAME) switch (to) { \
        case FM_I8: return NAME##_i8(out, in, count); case FM_I16: return NAME##_i16(out, in, count); \
        case FM_I32: return NAME##_i32(out, in, count); case FM_I64: return NAME##_i64(out, in, count); \
        case FM_U8: return NAME##_u8(out, in, count); case FM_U16: return NAME##_u16(out, in, count); \
        case FM_U32: return NAME##_u32(out, in, count); case FM_U64: return NAME##_u64(out, in, count); \
        case FM_F16: return NAME##_f16(out, in, count); case FM_F32: return NAME##_f32(out, in, count); \
        case FM_F64: return NAME##_f64(out, in, count); } return 0;

    /* Convert numbers; return whether all of them can be represented. */
    static int fm_convert(int from, int to, uint8_t* out, const uint8_t* in, int64_t count) {
        switch (from) {
            case FM_BOOL: case FM_I8: FM_TO(fm_i8)
            case FM_I16: FM_TO(fm_i16)
            case FM_I32: FM_TO(fm_i32)
            case FM_I64: FM_TO(fm_i64)
            case FM_F32: FM_TO(fm_f32)
            case FM_F64: FM_TO(fm_f64)
        }
        return 0;
    }

    #define FM_COPY_EACH(WIDTH) \
        for (int64_t i = 0; i < count; i++) memcpy(out + i * out_step, in + i * in_step, WIDTH);
    /* Copy numbers of `width` bytes. */
    static void fm_copy_each(uint8_t* out, int64_t out_step, const uint8_t* in, int64_t in_step,
                             int64_t count, int width) {
        switch (width) {
            case 1: FM_COPY_EACH(1) break;
            case 2: FM_COPY_EACH(2) break;
            case 4: FM_COPY_EACH(4) break;
            default: FM_COPY_EACH(8)
        }
    }
    """
    bint fm_convert(int source, int to, uint8_t* out, const uint8_t* values, int64_t count) nogil
    void fm_copy_each(uint8_t* out, int64_t out_step, const uint8_t* values, int64_t in_step,
                      int64_t count, int width) nogil

SOURCES = ("bool", "int8", "int16", "int32", "int64", "float32", "float64")
DTYPES = (*SOURCES, "uint8", "uint16", "uint32", "uint64", "float16")

cdef enum:
    ROWS = 2048          # rows that are decoded at a time: their numbers fit in the first-level cache
    TILE_BYTES = 1 << 16
    MAX_TILE_COLUMNS = 256
    WINDOW_BYTES = 1 << 18       # pages that are decompressed before they are decoded
    TILED_WINDOW_BYTES = 1 << 20  # if rows are contiguous, more columns at once make longer runs
    UNUSUAL = -1
    NUM_SOURCES = 7

fm_make_places()

cdef int[12] WIDTHS = [1, 1, 2, 4, 8, 4, 8, 1, 2, 4, 8, 2]


cdef int numbers_of(Page* page, int64_t rows, int source, uint8_t* values, uint8_t* nulls,
                    bint* has_nulls) noexcept nogil:
    """Decode the next `rows` rows of a page, ROWS at most, and move past them; nulls become zero.

    `nulls` gets a byte for each row, if there are any.
    """
    cdef Page portion
    cdef uint8_t[ROWS] bits
    cdef uint64_t word
    cdef int64_t row, i, step
    if take_portion(page, rows, &portion):
        return UNUSUAL
    has_nulls[0] = portion.non_null < rows
    if portion.encoding == ALL_NULL:
        memset(values, 0, rows * WIDTHS[source])
        memset(nulls, 1, rows)
        advance(page, &portion)
        return FINE
    if has_nulls[0]:
        row = 0
        while row < rows:
            step = min(<int64_t>64, rows - row)
            word = nulls_at(&portion, row, <int>step)
            for i in range(step):
                nulls[row + i] = <uint8_t>(word >> i) & 1
            row += 64
    if portion.kind == BOOL:
        if fill_booleans(&portion, bits):
            return UNUSUAL
        for row in range(rows):
            values[row] = bits[row >> 3] >> (row & 7) & 1
    else:
        if dense_fixed(&portion, values):
            return UNUSUAL
        if has_nulls[0]:
            spread(values, WIDTHS[source], &portion)
    advance(page, &portion)
    return FINE


cdef bint is_usual(const Page* page, int source) noexcept nogil:
    """Whether the page contains numbers of this type, and can be decoded some rows at a time."""
    cdef int kind = page.kind
    if kind > TIMESTAMP_NS or arrow_width(kind) != WIDTHS[source]:
        return False
    if (kind == BOOL) != (source == 0):
        return False
    # The entries of these are checked or decoded again for each portion.
    return page.encoding != DICT or page.entries <= ROWS or (kind != TIME and kind != TIMESTAMP_NS)


cdef class Matrix:
    """An array of numbers in memory that columns are decoded into, from any thread.

    Parameters
    ----------
    array, mask : numpy.ndarray
        Two-dimensional; the mask, of one byte for each number, is set where nulls are, or is None.
    fill : bytes or None
        The number that nulls become; without it, nulls are unusual.
    """

    def __cinit__(self, array not None, mask, fill):
        cdef bytes value
        cdef Grid* grid = &self.grid
        if array.ndim != 2 or array.dtype.name not in DTYPES or not array.dtype.isnative:
            raise ValueError(f"cannot decode into an array of {array.dtype}")
        if not array.flags.writeable:
            raise ValueError("the array is read-only")
        self._owner = array, mask
        grid.dtype = DTYPES.index(array.dtype.name)
        grid.width = array.dtype.itemsize
        grid.rows, grid.columns = array.shape
        grid.row_stride, grid.column_stride = array.strides
        grid.at = <uint8_t*><uintptr_t>array.ctypes.data
        grid.mask = NULL
        if mask is not None:
            if mask.shape != array.shape or mask.dtype.itemsize != 1 or not mask.flags.writeable:
                raise ValueError("the mask must be a writable array of bytes of the same shape")
            grid.mask = <uint8_t*><uintptr_t>mask.ctypes.data
            grid.mask_row_stride, grid.mask_column_stride = mask.strides
        grid.refuses_nulls = fill is None
        if fill is not None:
            value = fill
            if len(value) != grid.width:
                raise ValueError(f"{len(value)} bytes of a number of {grid.width}")
            memcpy(grid.fill, <const char*>value, grid.width)


cdef class MatrixRows:
    """Where the rows of a part of a row group go in a matrix.

    Parameters
    ----------
    matrix : Matrix
    columns : memoryview of int32
        The column of the matrix for each place.
    sources, required : bytes
        For each place, the type of its numbers, counted in SOURCES, and whether nulls are unusual.
    row : int
        The row of the matrix where the first row goes.
    count : int
        The number of rows that are decoded.
    chosen, targets : memoryview of int64, optional
        Those of the rows that are wanted, ascending, and where each of them goes, counted from `row`.
    """

    def __cinit__(self, Matrix matrix not None, const int[::1] columns not None,
                  const uint8_t[::1] sources not None, const uint8_t[::1] required not None,
                  int64_t row, int64_t count, const int64_t[::1] chosen=None,
                  const int64_t[::1] targets=None):
        cdef Py_ssize_t i
        cdef int64_t before = 0
        self._grid = matrix.grid
        if not columns.shape[0] == sources.shape[0] == required.shape[0]:
            raise ValueError("there must be a source and a column for each place")
        for i in range(columns.shape[0]):
            if not 0 <= columns[i] < self._grid.columns or sources[i] >= NUM_SOURCES:
                raise ValueError(f"column {columns[i]} of {self._grid.columns}, source {sources[i]}")
        if row < 0 or count < 0 or row > self._grid.rows:
            raise ValueError(f"{count} rows at {row} of {self._grid.rows}")
        self._num_chosen = -1
        if chosen is None:
            if count > self._grid.rows - row:
                raise ValueError(f"{count} rows at {row} of {self._grid.rows}")
        else:
            self._num_chosen = chosen.shape[0]
            if targets is None or targets.shape[0] != chosen.shape[0]:
                raise ValueError("there must be a target for each row")
            for i in range(chosen.shape[0]):
                if not before <= chosen[i] < count:
                    raise ValueError(f"row {chosen[i]} of {count} after {before}")
                if not 0 <= targets[i] < self._grid.rows - row:
                    raise ValueError(f"target {targets[i]} of {self._grid.rows - row}")
                before = chosen[i]
        self._matrix, self._columns, self._sources, self._required = matrix, columns, sources, required
        self._chosen, self._targets = chosen, targets
        self._row, self._count = row, count
        self.window = TILED_WINDOW_BYTES if self._grid.row_stride != self._grid.width else WINDOW_BYTES

    cdef Lane _lane(self, int place) noexcept nogil:
        cdef Lane lane
        cdef int64_t column = self._columns[place]
        lane.source = self._sources[place]
        lane.required = self._required[place] or self._grid.refuses_nulls
        lane.out = self._grid.at + self._row * self._grid.row_stride + column * self._grid.column_stride
        lane.mask = NULL
        if self._grid.mask != NULL:
            lane.mask = (self._grid.mask + self._row * self._grid.mask_row_stride
                         + column * self._grid.mask_column_stride)
        return lane

    cdef Py_ssize_t write(self, Column* columns, const int* places, Py_ssize_t begin,
                          Py_ssize_t end) noexcept nogil:
        """Write columns, whose pages are at their first rows; return the first unusual one, or `end`."""
        cdef Py_ssize_t k = begin, stop
        cdef Lane lane
        cdef int fault
        for k in range(begin, end):
            if places[k] < 0 or places[k] >= self._columns.shape[0] or not is_usual(
                    columns[k].whole, self._sources[places[k]]):
                end = k
                break
        if self._num_chosen < 0 and self._grid.row_stride != self._grid.width:
            k = begin
            while k < end:
                stop = min(k + MAX_TILE_COLUMNS, end)
                if self._write_tiles(columns + k, places + k, stop - k):
                    return k
                k = stop
            return end
        for k in range(begin, end):
            lane = self._lane(places[k])
            if self._num_chosen >= 0:
                fault = self._write_chosen(columns[k].whole, &lane)
            elif lane.source == self._grid.dtype:
                fault = self._write_in_place(columns[k].whole, &lane)
            else:
                fault = self._write_column(columns[k].whole, &lane)
            if fault:
                return k
        return end

    cdef int _put_nulls(self, const Lane* lane, int64_t row, uint8_t* out, int64_t step,
                        const uint8_t* nulls, int64_t count) noexcept nogil:
        """Write nulls: numbers to `out`, with `step` bytes from one to the next, and the mask."""
        cdef int64_t i
        if lane.required:
            return UNUSUAL
        for i in range(count):
            if nulls[i]:
                memcpy(out + i * step, self._grid.fill, self._grid.width)
        if lane.mask != NULL:
            fm_copy_each(lane.mask + row * self._grid.mask_row_stride, self._grid.mask_row_stride,
                         nulls, 1, count, 1)
        return FINE

    cdef int _write_in_place(self, Page* page, const Lane* lane) noexcept nogil:
        """Decode a column that has the type of the matrix where it belongs."""
        cdef Page portion
        cdef uint8_t[ROWS] nulls
        cdef uint64_t word
        cdef int64_t row = 0, step, i, width = self._grid.width
        if take_portion(page, self._count, &portion):
            return UNUSUAL
        if portion.encoding == ALL_NULL:
            return self._write_column(page, lane)
        if portion.non_null == portion.rows:
            return UNUSUAL if dense_fixed(&portion, lane.out) else FINE
        if lane.required or dense_fixed(&portion, lane.out):
            return UNUSUAL
        spread(lane.out, <int>width, &portion)
        while row < self._count:
            step = min(<int64_t>64, self._count - row)
            word = nulls_at(&portion, row, <int>step)
            if word:
                for i in range(step):
                    nulls[i] = <uint8_t>(word >> i) & 1
                self._put_nulls(lane, row, lane.out + row * width, width, nulls, step)
            row += step
        return FINE

    cdef int _write_column(self, Page* page, const Lane* lane) noexcept nogil:
        """Write a column of a matrix whose columns are contiguous."""
        cdef uint8_t[8 * ROWS] values
        cdef uint8_t[ROWS] nulls
        cdef int64_t row = 0, step, width = self._grid.width
        cdef bint has_nulls = False
        while row < self._count:
            step = min(<int64_t>ROWS, self._count - row)
            if numbers_of(page, step, lane.source, values, nulls, &has_nulls):
                return UNUSUAL
            if not fm_convert(lane.source, self._grid.dtype, lane.out + row * width, values, step):
                return UNUSUAL
            if has_nulls and self._put_nulls(lane, row, lane.out + row * width, width, nulls, step):
                return UNUSUAL
            row += step
        return FINE

    cdef int _write_chosen(self, Page* page, const Lane* lane) noexcept nogil:
        """Write the chosen rows of a column."""
        cdef uint8_t[8 * ROWS] values
        cdef uint8_t[8 * ROWS] picked
        cdef uint8_t[8 * ROWS] made
        cdef uint8_t[ROWS] nulls
        cdef int64_t row = 0, done = 0, step, count, i, place, target
        cdef int64_t stride = self._grid.row_stride
        cdef int width = WIDTHS[lane.source]
        cdef Page portion
        cdef bint has_nulls = False
        while done < self._num_chosen:
            # Rows before the next chosen one are not decoded.
            if self._chosen[done] > row:
                if take_portion(page, self._chosen[done] - row, &portion):
                    return UNUSUAL
                advance(page, &portion)
                row = self._chosen[done]
            step = min(<int64_t>ROWS, self._count - row)
            if numbers_of(page, step, lane.source, values, nulls, &has_nulls):
                return UNUSUAL
            while done < self._num_chosen and self._chosen[done] < row + step:
                count = 0
                while (count < ROWS and done + count < self._num_chosen
                       and self._chosen[done + count] < row + step):
                    place = self._chosen[done + count] - row
                    memcpy(picked + count * width, values + place * width, width)
                    count += 1
                if not fm_convert(lane.source, self._grid.dtype, made, picked, count):
                    return UNUSUAL
                for i in range(count):
                    target = self._targets[done + i]
                    if has_nulls and nulls[self._chosen[done + i] - row]:
                        if lane.required:
                            return UNUSUAL
                        memcpy(lane.out + target * stride, self._grid.fill, self._grid.width)
                        if lane.mask != NULL:
                            lane.mask[target * self._grid.mask_row_stride] = 1
                    else:
                        memcpy(lane.out + target * stride, made + i * self._grid.width,
                               self._grid.width)
                done += count
            row += step
        return FINE

    cdef int _write_tiles(self, Column* columns, const int* places, Py_ssize_t count) noexcept nogil:
        """Write columns of a matrix whose columns are not contiguous, some rows of all at a time."""
        cdef uint8_t[8 * ROWS] values
        cdef uint8_t[ROWS] nulls
        cdef Lane[MAX_TILE_COLUMNS] lanes
        cdef int64_t width = self._grid.width, row = 0, step, most, stride, i
        cdef Py_ssize_t k
        cdef uint8_t* tile
        cdef bint has_nulls = False
        cdef int fault = FINE
        most = max(<int64_t>16, min(<int64_t>ROWS, TILE_BYTES // (count * width)))
        # Columns of a tile that are a power of two apart would displace each other in the cache.
        stride = most * width + 64
        tile = <uint8_t*>malloc(stride * count)
        if tile == NULL:
            return UNUSUAL
        for k in range(count):
            lanes[k] = self._lane(places[k])
        while row < self._count and not fault:
            step = min(most, self._count - row)
            for k in range(count):
                fault = numbers_of(columns[k].whole, step, lanes[k].source, values, nulls, &has_nulls)
                if not fault and not fm_convert(lanes[k].source, self._grid.dtype, tile + k * stride,
                                                values, step):
                    fault = UNUSUAL
                if not fault and has_nulls:
                    fault = self._put_nulls(&lanes[k], row, tile + k * stride, width, nulls, step)
                if fault:
                    break
            else:
                put_tile(lanes, count, tile, stride, row, step, &self._grid)
            row += step
        free(tile)
        return fault


cdef void put_tile(const Lane* lanes, Py_ssize_t count, const uint8_t* tile, int64_t stride,
                   int64_t row, int64_t rows, const Grid* grid) noexcept nogil:
    """Copy the columns of a tile to rows of a matrix."""
    cdef Py_ssize_t k = 0, after
    cdef int64_t i
    while k < count:
        # Neighbours in the matrix are copied together.
        after = k + 1
        while after < count and lanes[after].out == lanes[after - 1].out + grid.column_stride:
            after += 1
        for i in range(rows):
            fm_copy_each(lanes[k].out + (row + i) * grid.row_stride, grid.column_stride,
                         tile + k * stride + i * grid.width, stride, after - k, grid.width)
        k = after
