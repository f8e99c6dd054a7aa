# cython: language_level=3
"""zstd frames for the kernels: compress and decompress without the GIL.

Each thread keeps one context for each direction until it ends.
"""

from libc.stdint cimport int64_t, uint8_t

# How a frame is compressed. Without a strategy, the other numbers are those of the level. With a
# `distance`, bytes from `start` on are only compared with those so many bytes before.
cdef struct Parameters:
    int level
    bint checksum
    int strategy
    int window_log
    int hash_log
    int chain_log
    int search_log
    int min_match
    int64_t start
    int64_t distance

cdef enum:
    FAST = 1   # strategies
    DFAST = 2

# The functions return a size, or the negative number of an error of zstd.
cdef enum:
    ZSTD_NO_MEMORY = -64

cdef int64_t zstd_bound(int64_t size) noexcept nogil
cdef int64_t zstd_compress(const Parameters* parameters, const uint8_t* data, int64_t size, const int64_t* cuts,
                           int num_cuts, uint8_t* out, int64_t room) noexcept nogil
cdef int64_t zstd_decompress(const uint8_t* frame, int64_t size, uint8_t* out, int64_t room) noexcept nogil
