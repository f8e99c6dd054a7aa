# cython: language_level=3
"""Rows of a matrix, as a place where the columns of a bucket go."""

from libc.stdint cimport int64_t, uint8_t

from fastmosaic.format._column cimport Column
from fastmosaic.format._page cimport Page


# Where the numbers of a matrix are, and what nulls become.
cdef struct Grid:
    uint8_t* at
    int dtype
    int width
    int64_t rows
    int64_t columns
    int64_t row_stride
    int64_t column_stride
    uint8_t* mask          # or NULL
    int64_t mask_row_stride
    int64_t mask_column_stride
    bint refuses_nulls
    uint8_t[8] fill


# A column of a matrix, from the first of some rows on.
cdef struct Lane:
    int source             # the type of the numbers in the page
    bint required          # nulls are unusual
    uint8_t* out
    uint8_t* mask          # or NULL


cdef class Matrix:
    cdef object _owner
    cdef Grid grid


cdef class MatrixRows:
    cdef Matrix _matrix
    cdef Grid _grid
    cdef const uint8_t[::1] _sources
    cdef const uint8_t[::1] _required
    cdef const int[::1] _columns
    cdef const int64_t[::1] _chosen
    cdef const int64_t[::1] _targets
    cdef int64_t _num_chosen   # -1: all rows
    cdef int64_t _row
    cdef int64_t _count
    cdef int64_t window        # bytes of pages that are decompressed at a time

    cdef Py_ssize_t write(self, Column* columns, const int* places, Py_ssize_t begin,
                          Py_ssize_t end) noexcept nogil
    cdef Lane _lane(self, int place) noexcept nogil
    cdef int _write_column(self, Page* page, const Lane* lane) noexcept nogil
    cdef int _write_in_place(self, Page* page, const Lane* lane) noexcept nogil
    cdef int _write_chosen(self, Page* page, const Lane* lane) noexcept nogil
    cdef int _write_tiles(self, Column* columns, const int* places, Py_ssize_t count) noexcept nogil
    cdef int _put_nulls(self, const Lane* lane, int64_t row, uint8_t* out, int64_t step,
                        const uint8_t* nulls, int64_t count) noexcept nogil
