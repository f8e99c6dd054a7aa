# cython: language_level=3
"""Which page a column gets: PLAIN or a dictionary, and the zstd parameters that suit it."""

from libc.stdint cimport int64_t, uint8_t

from fastmosaic.format._dictionary cimport Dictionary
from fastmosaic.format._zstd cimport Parameters


# How pages are chosen and compressed.
cdef struct Rule:
    bint by_cost
    int64_t max_entries    # of dictionaries, if not by cost
    int64_t max_bytes
    bint is_tuned          # whether zstd gets parameters that suit the page, not those of a level
    int level
    bint checksum


cdef enum:
    MAX_ENTRIES = 65536       # of a dictionary that is chosen by cost
    SAMPLE_BYTES = 8192       # that are compressed to predict the size of a page
    NEIGHBOURS = 2048         # values whose neighbours are compared
    MIN_BLOCK = 512           # bytes that get a block of their own in a frame
    MIN_GROUP = 4096          # the same for the parts of several pages
    MIN_PADDED = 1000         # values from which unused entries may pay
    PAIRS = 512               # neighbours that are remembered to find them again
    RUN_SAMPLE = 2048         # values that are compressed to choose a page for runs, at most
    PADDING = 16              # bytes that unused entries take after compression
    SMALL_PAGE = 16384        # bytes for which level 1 has parameters of its own


# zstd parameters for kinds of pages, measured in docs/layout.md.
cdef enum Tuning:
    LEVEL   # those of level 1
    BASE    # numbers
    SHORT   # float32: matches of four bytes
    PARTS   # short texts: matches of five bytes
    NEAR    # values that resemble the one before: only what came just before
    RUNS    # indices with runs
    ENTROPY # indices without: nearly no matches
    MIXED   # a whole bucket


# What is known about the values of a column.
cdef struct Traits:
    int width            # bytes of a number; 0 for texts and large decimals
    bint is_float
    int64_t count
    int64_t plain        # bytes as PLAIN
    int64_t entries      # distinct values; 0 if there is no dictionary
    int64_t table        # bytes of the entries with their number
    double equal         # share of neighbours that are equal
    double rare          # share of the values other than one that has most rows
    double equal_rare    # share of them that equal the value before
    double rising        # share of the neighbours that differ
    int64_t stride       # bytes of each value as PLAIN; 0 if they differ
    double bits          # entropy of a value, if there are up to 256 distinct ones
    double differing     # bytes from the first to the last that differ, if neighbours do
    double repeats       # share of the values that occurred before, roughly


cdef struct Choice:
    int encoding
    int tuning
    int plain_tuning     # if it is PLAIN after all
    int64_t padded       # entries, with unused ones at the end
    bint has_runs        # whether to choose among the pages that suit runs
    bint unsure          # whether to try another page too


cdef Parameters parameters_of(int tuning, const Rule* rule) noexcept nogil
cdef void compare_numbers(Traits* traits, const uint8_t* numbers) noexcept nogil
cdef double recurring(const uint8_t* values, int64_t count, int width) noexcept nogil
cdef void describe(Traits* traits, const Dictionary* dictionary, bint has_dictionary) noexcept nogil
cdef Choice choose(const Traits* traits) noexcept nogil
