# cython: language_level=3
"""Distinct values of a column, and the number of each row's value among them."""

from libc.stdint cimport int64_t, uint8_t

from fastmosaic.format._collect cimport Scratch, Source, Value
from fastmosaic.format._wire cimport uint32_t, uint64_t


cdef struct Slot:
    uint64_t key           # the number, or the hash of a text
    uint32_t entry         # its number + 1, 0 = free


# The memory is used for one column after another.
cdef struct Dictionary:
    int64_t count          # of entries
    int64_t room           # for entries
    int log_slots          # slots are a power of two
    Slot* slots
    Value* entries         # in the order in which they were found, until they are sorted
    int64_t bytes          # of the entries in a file
    int64_t seen           # values that were looked at before it was given up
    double index_bits      # that an index takes after compression, roughly; known when sorted
    uint32_t* indices      # the entry of each value
    int64_t index_room
    int64_t num_indices
    const uint32_t* places # of the entries after they were sorted; NULL before


# When to do without a dictionary: with more entries or bytes; or, if `guesses`, when most values
# at the beginning are distinct.
cdef struct Limits:
    int64_t entries
    int64_t bytes
    bint guesses


# Each returns 1, 0 if there is no dictionary within the limits, -1 without memory.
cdef int index_numbers(Dictionary* dictionary, const uint8_t* values, int64_t count, int width,
                       int stored_width, const Limits* limits) noexcept nogil
cdef int index_values(Dictionary* dictionary, const Source* source, const Limits* limits) noexcept nogil

# The scratch must be left alone until the indices are packed.
cdef bint sort_entries(Dictionary* dictionary, int kind, int64_t table, Scratch* scratch) noexcept nogil
cdef bint is_walk(const Dictionary* dictionary) noexcept nogil
cdef void pack_indices(const Dictionary* dictionary, int64_t start, int64_t count, int width,
                       uint8_t* out) noexcept nogil
cdef void free_dictionary(Dictionary* dictionary) noexcept nogil
