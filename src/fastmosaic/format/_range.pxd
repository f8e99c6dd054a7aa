# cython: language_level=3
"""Minimum and maximum of a column."""

from libc.stdint cimport uint8_t

from fastmosaic.format._collect cimport Source, Value
from fastmosaic.format._dictionary cimport Dictionary


cdef struct Range:
    bint is_known
    Value low
    Value high


# A dictionary that is not sorted yet tells the same as all values, and sooner; it may be NULL.
cdef void measure_values(const Source* source, const Dictionary* dictionary, Range* out) noexcept nogil
cdef void measure_numbers(const uint8_t* numbers, const Source* source, bint is_float,
                          const Dictionary* dictionary, Range* out) noexcept nogil
