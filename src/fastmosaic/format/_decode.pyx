# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decode the bytes of a bucket to Arrow arrays, column by column, without the GIL.

The rows of a column are decoded one portion after another: each call goes on where the one before
it stopped, for each column.

The bytes are not trusted: every read is checked against the end of its part, and every count
against the remaining bytes, before memory is allocated. Errors are `ValueError` (the file is
damaged) or `OverflowError` (it contains more than Arrow's types can represent).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from fastmosaic.format._arrow cimport ArrowArray
from fastmosaic.format._column cimport (
    BLOCK, MAX_OFFSET, Column, check_values, fill, fill_offsets, fill_validity, longest_entry, measure,
    sum_lengths, value_bytes,
)
from fastmosaic.format._gather cimport element_ranges, gather
from fastmosaic.format._matrix cimport MatrixRows
from fastmosaic.format._page cimport (
    BAD_INDEX, FINE, IDLE, NO_MEMORY, TOO_LARGE, Page, advance, open_page, split, take_portion,
)
from fastmosaic.format._values cimport fm_all_below32, fm_make_places, fm_unpack
from fastmosaic.format._wire cimport (
    ALL_NULL, ARRAY_BLOCK, BINARY, DECIMAL64, DECIMAL128, INT32, MAX_DIGITS, NUM_KINDS, PLAIN, STRING,
    Reader, bit_width, fm_load32, left, uint32_t, uint64_t, varint,
)
from fastmosaic.format._zstd cimport zstd_decompress

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory

import atexit

import pyarrow as pa

_allocate_buffer = pa.allocate_buffer
_system_pool = pa.system_memory_pool()
_import_array = pa.Array._import_from_c
_import_batch = pa.RecordBatch._import_from_c

cdef extern from *:
    """
    #include <sys/mman.h>

    /* Ask for huge pages: touching the pages of a large result one by one takes longer than decoding. */
    static void fm_use_huge_pages(void* memory, int64_t size) {
    #ifdef MADV_HUGEPAGE
        const uintptr_t huge = (uintptr_t)2 << 20;
        uintptr_t start = ((uintptr_t)memory + huge - 1) & ~(huge - 1);
        uintptr_t end = ((uintptr_t)memory + (uintptr_t)size) & ~(huge - 1);
        if (start < end) madvise((void*)start, end - start, MADV_HUGEPAGE);
    #else
        (void)memory; (void)size;
    #endif
    }
    """
    void fm_use_huge_pages(void* memory, int64_t size) nogil

cdef extern from *:
    """
    /* Arrow's threads release arrays, for which they need the GIL. At the end of the process a
       thread that waits for it would be ended in the middle of Arrow's code, which aborts. So they
       stop asking for it before, and leave the memory to the system. */
    static int fm_closing, fm_releasing;
    static int fm_begin_release(void) {
        __atomic_add_fetch(&fm_releasing, 1, __ATOMIC_SEQ_CST);
        return !__atomic_load_n(&fm_closing, __ATOMIC_SEQ_CST);
    }
    static void fm_end_release(void) { __atomic_sub_fetch(&fm_releasing, 1, __ATOMIC_SEQ_CST); }
    static void fm_close(void) { __atomic_store_n(&fm_closing, 1, __ATOMIC_SEQ_CST); }
    static int fm_is_releasing(void) { return __atomic_load_n(&fm_releasing, __ATOMIC_SEQ_CST); }
    """
    bint fm_begin_release() nogil
    void fm_end_release() nogil
    void fm_close() nogil
    bint fm_is_releasing() nogil

cdef extern from *:
    """
    static int64_t fm_add(int64_t* number, int64_t more) {
        return __atomic_add_fetch(number, more, __ATOMIC_ACQ_REL);
    }
    """
    int64_t fm_add(int64_t* number, int64_t more) nogil

cdef extern from "unistd.h":
    int usleep(unsigned int microseconds) nogil

cdef extern from "Python.h":
    ctypedef struct PyObject
    int Py_IsInitialized() nogil
    void Py_XINCREF(PyObject* o)
    void Py_XDECREF(PyObject* o)
    char* PyBytes_AsString(object o) except NULL


_FACTS = (
    "",
    "the data ends before its last value, or a length in it is broken",
    "a length is cut off or exceeds 32 bits",
    "a dictionary declares more entries than it has bytes or rows",
    "a dictionary index has no entry",
    "unknown encoding",
    "an array data block is not PLAIN or has a null bitmap",
    "a string is not UTF-8",
    "a decimal is longer than 16 bytes",
    "the nanoseconds of a timestamp are not in 0..999999",
    "a timestamp exceeds 64 bits of nanoseconds",
    "a decimal has more digits than its type; strict=False reads it anyway",
    "a time is negative or not less than 24 hours; strict=False reads it anyway",
    "a list has a negative length",
    "lists have more elements than are stored",
    "the column exceeds 2 GiB in one row group",
    "out of memory",
)

cdef enum:
    MAX_SHARED_BYTES = 1 << 20  # columns share an allocation up to this size
    MAX_SYSTEM_BYTES = 1 << 16  # of a buffer that does not come from Arrow's own pool
    HUGE_BYTES = 16 << 20
    WINDOW_BYTES = 1 << 18  # pages that are decompressed before they are decoded: the cache holds them

MAX_IDLE_ENTRIES = IDLE
fm_make_places()


# ---- Arrow arrays


# The memory of several columns. Each of them holds a reference, and the last one releases it.
cdef struct Owner:
    int64_t references
    PyObject* memory        # a pyarrow.Buffer
    const void* buffers[3]  # of the first column; those of the others follow


cdef Owner* make_owner(memory, Py_ssize_t count) except NULL:
    """Return the owner of the memory of `count` columns, which have `count` references."""
    cdef Owner* owner = <Owner*>malloc(sizeof(Owner) + 3 * count * sizeof(void*))
    if owner == NULL:
        raise MemoryError
    owner.references = count
    owner.memory = <PyObject*>memory
    Py_XINCREF(owner.memory)
    return owner


cdef void drop(Owner* owner) noexcept nogil:
    """Give a reference back. Only the last one needs the GIL."""
    if fm_add(&owner.references, -1):
        return
    if fm_begin_release() and Py_IsInitialized():  # an array may outlive the interpreter
        with gil:
            Py_XDECREF(owner.memory)
    fm_end_release()
    free(owner)


cdef void release_array(ArrowArray* array) noexcept nogil:
    drop(<Owner*>array.private_data)
    array.release = NULL


@atexit.register
def _stop_releasing():
    """Let no thread ask for the GIL any more, and wait for those that do."""
    fm_close()
    with nogil:
        while fm_is_releasing():
            usleep(100)


cdef void make_array(Column* column) noexcept nogil:
    """Fill in the Arrow array of a column, which takes over the reference of the column."""
    cdef Page* page = &column.page
    cdef ArrowArray* array = column.array
    cdef const void** buffers = (<Owner*>column.owner).buffers + 3 * column.place
    buffers[0] = column.data if page.rows > page.non_null else NULL
    buffers[1] = column.data + column.validity
    # Arrow makes no buffer where there are no bytes.
    buffers[2] = NULL if page.non_null == 0 else column.data + column.validity + column.values
    array.length = page.rows
    array.null_count = page.rows - page.non_null
    array.n_buffers = 2 if page.kind < BINARY else 3
    array.buffers = buffers
    array.private_data = column.owner
    array.release = release_array
    column.owner = NULL


cdef class Pages:
    """The pages of the columns of a bucket, located in a buffer but not yet decoded."""

    cdef Page* _pages
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t _stop  # the data of columns from here on was not located
    cdef readonly int64_t surplus  # bytes after the pages, which nothing refers to
    cdef object _owner
    cdef uint8_t** _gathered  # the memory of each page that was gathered

    def __cinit__(self, const uint8_t[::1] kinds not None, const uint8_t[::1] digits not None,
                  rows not None, bint strict=True):
        cdef Py_ssize_t i
        self.count = self._stop = kinds.shape[0]
        if len(rows) != self.count or digits.shape[0] != self.count:
            raise ValueError(f"{len(rows)} row counts for {self.count} columns")
        self._pages = <Page*>calloc(self.count + 1, sizeof(Page))
        if self._pages == NULL:
            raise MemoryError
        for i in range(self.count):
            if kinds[i] >= NUM_KINDS and kinds[i] != ARRAY_BLOCK:
                raise ValueError(f"kind {kinds[i]}")
            if digits[i] > (MAX_DIGITS if kinds[i] in (DECIMAL64, DECIMAL128) else 0):
                raise ValueError(f"{digits[i]} digits of kind {kinds[i]}")
            self._pages[i].kind = kinds[i]
            self._pages[i].strict = strict
            self._pages[i].digits = digits[i] if strict else 0
            self._pages[i].rows = self._pages[i].non_null = rows[i]
            self._pages[i].encoding = ALL_NULL

    def __dealloc__(self):
        cdef Py_ssize_t i
        free(self._pages)
        if self._gathered != NULL:
            for i in range(self.count):
                free(self._gathered[i])
            free(self._gathered)

    @staticmethod
    def from_monolithic(data, int64_t start, kinds, digits, rows, int64_t stop, strict):
        """Locate the pages in a monolithic bucket whose flags are at `start`.

        Only columns before `stop` can be decoded. `digits` is the precision of each column that is
        a decimal; 0 for other columns. If not `strict`, decimals and times are not checked.
        """
        cdef const uint8_t[::1] view = data
        cdef Pages pages = Pages(kinds, digits, rows, strict)
        cdef Reader reader
        cdef int64_t at = 0
        cdef int fault
        pages._owner = data
        if not (0 <= start <= view.shape[0] and 0 <= stop <= pages.count):
            raise ValueError("bad start or stop")
        reader.at = &view[0] + start if view.shape[0] else NULL
        reader.end = &view[0] + view.shape[0] if view.shape[0] else NULL
        with nogil:
            fault = split(pages._pages, pages.count, stop, &reader, &at)
        if fault:
            _fail(fault, at)
        pages._stop = stop
        pages.surplus = left(&reader) if stop == pages.count else 0
        return pages

    @staticmethod
    def from_slots(slots, kinds, digits, rows, strict):
        """Locate the pages in decompressed slots; None if all rows are null."""
        cdef Pages pages = Pages(kinds, digits, rows, strict)
        cdef Py_buffer view
        cdef Reader reader
        cdef int fault
        cdef Py_ssize_t i
        if len(slots) != pages.count:
            raise ValueError(f"{len(slots)} slots for {pages.count} columns")
        pages._owner = list(slots)
        for i, slot in enumerate(slots):
            if slot is None:
                pages._pages[i].non_null = 0
                continue
            # The owner keeps the bytes in place, so the view can be released.
            PyObject_GetBuffer(slot, &view, PyBUF_SIMPLE)
            reader.at = <const uint8_t*>view.buf
            reader.end = reader.at + view.len
            PyBuffer_Release(&view)
            fault = open_page(&pages._pages[i], &reader, False)
            if fault:
                _fail(fault, i)
            pages._pages[i].size = view.len
            pages.surplus += left(&reader)
        return pages

    cdef int _check(self, Py_ssize_t column) except -1:
        if not 0 <= column < self._stop:
            raise IndexError(f"column {column} of {self._stop}")
        return 0

    def gather(self, Py_ssize_t column, const int64_t[::1] ranges not None):
        """Keep only some rows of a column, of which nothing was decoded yet.

        `ranges` are start and stop of each range, ascending.
        """
        cdef Page gathered
        cdef uint8_t* memory
        cdef int fault
        self._check(column)
        if self._gathered == NULL:
            self._gathered = <uint8_t**>calloc(self.count + 1, sizeof(uint8_t*))
            if self._gathered == NULL:
                raise MemoryError
        if self._gathered[column] != NULL:
            raise ValueError(f"rows of column {column} were gathered before")
        with nogil:
            fault = gather(&self._pages[column], _first_of(ranges), ranges.shape[0] // 2, &gathered,
                           &memory)
        self._gathered[column] = memory
        if fault:
            _fail(fault, column)
        self._pages[column] = gathered

    def element_ranges(self, Py_ssize_t column, const int64_t[::1] ranges not None,
                       int64_t num_elements):
        """Return the ranges of the elements of lists, of which there are `num_elements`.

        `column` contains the lengths of the lists, and `ranges` are the rows that are wanted.
        """
        cdef bytes out = PyBytes_FromStringAndSize(NULL, 8 * ranges.shape[0])
        cdef int64_t* elements = <int64_t*>PyBytes_AsString(out)
        cdef int64_t found = 0
        cdef int fault
        self._check_lengths(column, True)
        with nogil:
            fault = element_ranges(&self._pages[column], _first_of(ranges), ranges.shape[0] // 2,
                                   num_elements, elements, &found)
        if fault:
            _fail(fault, column)
        return memoryview(out)[:16 * found].cast("q")

    def bound(self, columns):
        """Return the memory that decoding all rows of `columns` takes at most."""
        cdef int64_t total = 0, zeros = 0
        cdef Py_ssize_t i
        cdef Page* page
        for i in columns:
            if not 0 <= i < self._stop:
                self._check(i)
            page = &self._pages[i]
            if page.encoding == ALL_NULL:
                zeros = max(zeros, value_bytes(page))
                continue
            total += value_bytes(page) + page.null_bytes
            if page.kind == BINARY or page.kind == STRING:
                total += page.data_size if page.encoding == PLAIN else (
                    page.non_null * longest_entry(page))
        return total + zeros

    def num_rows(self, Py_ssize_t column):
        self._check(column)
        return self._pages[column].rows

    def encoding(self, Py_ssize_t column):
        """Return the number of the encoding: 0 PLAIN, 1 CONST, 2 DICT, 3 ALL_NULL."""
        self._check(column)
        return self._pages[column].encoding

    def null_count(self, Py_ssize_t column):
        """Return the number of null rows; 0 for an array data block, which has its own nulls."""
        self._check(column)
        return self._pages[column].rows - self._pages[column].non_null

    def rows_left(self, Py_ssize_t column):
        """Return the number of rows that were not decoded, checked or skipped."""
        self._check(column)
        return self._pages[column].rows - self._pages[column].row

    def is_constant(self, Py_ssize_t column):
        """Return whether all rows are null, or all rows have the same value.

        The lists of an array data block may differ unless all are null.
        """
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        return page.non_null == 0 or (page.entries == 1 and page.non_null == page.rows)

    def size(self, Py_ssize_t column):
        """Return the bytes of a page before compression."""
        self._check(column)
        return self._pages[column].size

    def num_entries(self, Py_ssize_t column):
        """Return the number of dictionary entries; 1 for a constant, 0 without a dictionary."""
        self._check(column)
        return self._pages[column].entries

    def entry_bytes(self, Py_ssize_t column):
        """Return the bytes that the dictionary entries or the constant take in the page."""
        self._check(column)
        return self._pages[column].meta_size

    def entries(self, Py_ssize_t column, type, memory):
        """Return the dictionary entries in their order, or the constant, as an Arrow array."""
        cdef Pages plain
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        plain = Pages(bytes([page.kind]), bytes([page.digits]), [page.entries], page.strict)
        plain._owner = self
        plain._pages[0].encoding = PLAIN
        plain._pages[0].data = page.meta
        plain._pages[0].data_size = page.meta_size
        (array,) = plain.decode([0], [type], [page.entries], memory)
        return array

    def entry_counts(self, Py_ssize_t column):
        """Return how many rows have each of the dictionary entries, or the constant."""
        cdef uint32_t[1024] indices
        cdef int64_t* counts
        cdef int64_t done = 0
        cdef int i, step, bits
        cdef int fault = FINE
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        if page.entries < 2:
            return [page.non_null] * page.entries
        bits = bit_width(page.entries)
        counts = <int64_t*>calloc(page.entries, sizeof(int64_t))
        if counts == NULL:
            raise MemoryError
        try:
            with nogil:
                while done < page.non_null:
                    step = <int>min(<int64_t>BLOCK, page.non_null - done)
                    fm_unpack(page.data, page.data_size, bits, done, step, indices)
                    if not fm_all_below32(<uint8_t*>indices, step, <uint32_t>page.entries):
                        fault = BAD_INDEX
                        break
                    for i in range(step):
                        counts[indices[i]] += 1
                    done += step
            if fault:
                _fail(fault, column)
            return [counts[i] for i in range(page.entries)]
        finally:
            free(counts)

    def block(self, Py_ssize_t column):
        """Return the array data block of a column, or None if all rows are null.

        The view is valid as long as this object exists.
        """
        cdef Reader reader
        cdef Page* page
        self._check(column)
        page = &self._pages[column]
        if page.kind != ARRAY_BLOCK:
            raise ValueError(f"column {column} has no array data block")
        if page.encoding == ALL_NULL:
            return None
        reader.at = page.data
        reader.end = page.data + page.data_size
        varint(&reader)
        return PyMemoryView_FromMemory(<char*>reader.at, left(&reader), 0x100)  # PyBUF_READ

    def check(self, Py_ssize_t column, int64_t count):
        """Check the next `count` rows and move past them; return how many of them are null."""
        return self._pass(column, count, True, NULL)

    def skip(self, Py_ssize_t column, int64_t count):
        """Move past the next `count` rows; return how many of them are null."""
        return self._pass(column, count, False, NULL)

    def skip_lists(self, Py_ssize_t column, int64_t count):
        """Move past the next `count` rows of lengths; return their sum, and how many are null."""
        cdef int64_t total = 0
        nulls = self._pass(column, count, False, &total)
        return total, nulls

    cdef object _pass(self, Py_ssize_t column, int64_t count, bint check, int64_t* total):
        cdef Page portion
        cdef int fault
        self._check_lengths(column, total != NULL)
        with nogil:
            fault = take_portion(&self._pages[column], count, &portion)
            if not fault and check:
                fault = check_values(&portion)
            if not fault and total != NULL:
                fault = sum_lengths(&portion, total)
        if fault:
            _fail(fault, column)
        advance(&self._pages[column], &portion)
        return portion.rows - portion.non_null

    cdef int _check_lengths(self, Py_ssize_t column, bint lengths) except -1:
        self._check(column)
        if self._pages[column].kind == ARRAY_BLOCK:
            raise ValueError(f"column {column} is an array data block")
        if lengths and self._pages[column].kind != INT32:
            raise ValueError(f"column {column} contains no lengths")
        return 0

    def decode_lists(self, Py_ssize_t column, int64_t count, memory):
        """Decode the next `count` rows of a column of lengths.

        Return validity (None without nulls), offsets, number of nulls, and the sum of the lengths.
        """
        cdef Page portion
        cdef int32_t* out
        cdef uint8_t* bits = NULL
        cdef int fault
        self._check_lengths(column, True)
        fault = take_portion(&self._pages[column], count, &portion)
        if fault:
            _fail(fault, column)
        if count >= MAX_OFFSET:
            _fail(TOO_LARGE, column)
        nulls = count - portion.non_null
        if portion.encoding == ALL_NULL:
            zeros = memory.zeros(4 * (count + 1)).slice(0, 4 * (count + 1))
            advance(&self._pages[column], &portion)
            return zeros, zeros, nulls, 0
        memory.take(4 * (count + 1) + ((count + 7) // 8 if nulls else 0))
        offsets = _allocate(4 * (count + 1))
        out = <int32_t*><uintptr_t>offsets.address
        validity = None
        if nulls:
            validity = _allocate((count + 7) // 8)
            bits = <uint8_t*><uintptr_t>validity.address
        with nogil:
            if bits != NULL:
                fill_validity(bits, &portion)
            fault = fill_offsets(&portion, out)
        if fault:
            _fail(fault, column)
        advance(&self._pages[column], &portion)
        return validity, offsets, nulls, out[count]

    def decode(self, columns, types, counts, memory):
        """Decode the next rows of `columns`, as many as `counts`, to arrays of the Arrow `types`."""
        cdef Py_ssize_t k
        cdef Batch batch = Batch(len(columns))
        self.decode_into(columns, counts, batch, range(len(columns)), memory)
        result = []
        for k in range(batch.count):
            result.append(_import_array(<uintptr_t>&batch._root.children[k], types[k]))
        return result

    def measure(self, columns, counts):
        """Return the memory that decoding the next rows takes: that of the columns, and zeros."""
        cdef Plan plan = Plan(len(columns))
        plan.measure(self, columns, counts)
        return plan.total, plan.zeros

    def decode_into(self, columns, counts, Batch batch not None, places, memory):
        """Decode the next rows of `columns`, as many as `counts`, into `batch`, at their `places`.

        `counts` is one number for all columns, or one for each.

        A column must not occur twice. `memory.take` is called with the size of the result before it is allocated, and
        `memory.zeros` for the values of columns that are null.
        """
        cdef Py_ssize_t k, done
        cdef Plan plan = Plan(len(columns))
        for k in range(plan.count):
            plan.columns[k].array = batch._child(places[k])
        plan.measure(self, columns, counts)
        if plan.too_large:
            _fail(TOO_LARGE, 0)
        done = plan.decode(0, plan.count, memory)
        if done < plan.count:
            _fail(plan.fault, columns[done])
        plan.publish(0, done)


cdef inline const int64_t* _first_of(const int64_t[::1] numbers) noexcept nogil:
    return &numbers[0] if numbers.shape[0] else NULL


cdef class Plan:
    """Some columns, from the pages where they are stored to the arrays of a batch."""

    cdef Column* columns
    cdef Py_ssize_t count
    cdef int64_t total
    cdef int64_t zeros   # bytes of zeros for columns that are null
    cdef bint too_large  # for Arrow's offsets
    cdef int fault       # of the column at which `decode` stopped
    cdef MatrixRows matrix  # where numbers go, if not to arrays
    cdef bint has_matrix
    cdef int64_t window  # bytes of pages that are decompressed at a time

    def __cinit__(self, Py_ssize_t count, MatrixRows matrix=None):
        self.count = count
        self.matrix = matrix
        self.has_matrix = matrix is not None
        self.window = WINDOW_BYTES if matrix is None else matrix.window
        self.columns = <Column*>calloc(count + 1, sizeof(Column))
        if self.columns == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self.count):
            if self.columns[k].owner != NULL:
                drop(<Owner*>self.columns[k].owner)
            free(self.columns[k].starts)
            free(self.columns[k].gathered)
        free(self.columns)

    cdef int measure(self, Pages pages, columns, counts) except -1:
        cdef Py_ssize_t i, k
        cdef Column* column
        cdef int fault = FINE
        cdef int64_t same = counts if isinstance(counts, int) else -1
        for k in range(self.count):
            i = columns[k]
            if not 0 <= i < pages._stop or pages._pages[i].kind == ARRAY_BLOCK:
                pages._check_lengths(i, False)
            self.columns[k].whole = &pages._pages[i]
            self.columns[k].page.rows = same if same >= 0 else <int64_t>counts[k]
        with nogil:
            for k in range(self.count):
                column = &self.columns[k]
                fault = take_portion(column.whole, column.page.rows, &column.page)
                if not fault:
                    fault = measure(column)
                if fault == TOO_LARGE:
                    self.too_large = True
                elif fault:
                    break
                fault = FINE
                self.total += column.size
                self.zeros = max(self.zeros, zeros_of(column))
        if fault:
            _fail(fault, columns[k])
        return 0

    cdef Py_ssize_t decode(self, Py_ssize_t begin, Py_ssize_t end, memory) except -1:
        """Decode columns that are measured; return the first that has a fault, or `end`."""
        cdef Py_ssize_t k
        cdef int64_t total = 0, zeros = 0
        for k in range(begin, end):
            total += self.columns[k].size
            zeros = max(zeros, zeros_of(&self.columns[k]))
        memory.take(total)
        self.allocate(begin, end, memory.zeros(zeros) if zeros else None)
        with nogil:
            for k in range(begin, end):
                self.fault = fill(&self.columns[k])
                if self.fault:
                    break
            else:
                k = end
        return k

    cdef Py_ssize_t deliver(self, Py_ssize_t begin, Py_ssize_t end, memory) except -1:
        """Decode columns to arrays; return the first that is unusual, or `end`."""
        cdef Py_ssize_t done = self.decode(begin, end, memory)
        self.publish(begin, done)
        return done

    cdef int publish(self, Py_ssize_t begin, Py_ssize_t end) except -1:
        """Put decoded columns in the batch."""
        cdef Py_ssize_t k
        cdef Column* column
        for k in range(begin, end):
            column = &self.columns[k]
            if column.array.release != NULL:
                raise ValueError("two columns have the same place")
            make_array(column)
            advance(column.whole, &column.page)
            free(column.starts)
            free(column.gathered)
            column.starts = NULL
            column.gathered = NULL
        return 0

    cdef int allocate(self, Py_ssize_t begin, Py_ssize_t end, zeros) except -1:
        """Allocate the memory of columns; small ones share a buffer, those of nulls share zeros."""
        cdef Py_ssize_t k, first = begin, after, nulls = 0
        cdef int64_t size
        for k in range(begin, end):
            nulls += self.columns[k].page.encoding == ALL_NULL
        if nulls:
            self.own(begin, end, True, zeros, nulls)
        while first < end:
            size = self.columns[first].size
            after = first + 1
            while after < end and size + self.columns[after].size <= MAX_SHARED_BYTES:
                size += self.columns[after].size
                after += 1
            if size:
                buffer = _allocate(size)
                self.own(first, after, False, buffer, after - first)
                if size >= HUGE_BYTES:
                    fm_use_huge_pages(self.columns[first].data, size)
            first = after
        return 0

    cdef int own(self, Py_ssize_t begin, Py_ssize_t end, bint are_null, memory,
                 Py_ssize_t count) except -1:
        """Let columns that are all null, or the others, have their part of the memory."""
        cdef Owner* owner = make_owner(memory, count)
        cdef uint8_t* data = <uint8_t*><uintptr_t>memory.address
        cdef Column* column
        cdef Py_ssize_t k, place = 0
        for k in range(begin, end):
            column = &self.columns[k]
            if (column.page.encoding == ALL_NULL) == are_null:
                column.owner = owner
                column.place = place
                column.data = data
                data += column.size
                place += 1
        # Fewer than expected have a reference.
        for k in range(place, count):
            drop(owner)
        return 0


cdef inline int64_t zeros_of(const Column* column) noexcept nogil:
    """Return how many zeros a column of nulls needs."""
    return value_bytes(&column.page) + 64 if column.page.encoding == ALL_NULL else 0


# ---- whole buckets


cdef class Budget:
    """How many bytes results may have beyond `expansion` times the stored bytes."""

    cdef int64_t left
    cdef int64_t expansion

    def __cinit__(self, int64_t size, int64_t expansion):
        self.left = size
        self.expansion = expansion

    cdef bint spend(self, int64_t size) noexcept nogil:
        """Take `size` bytes; return False if there are fewer."""
        if size <= 0 or fm_add(&self.left, -size) >= 0:
            return True
        fm_add(&self.left, size)
        return False

    def allows(self, int64_t result, int64_t stored):
        """Return whether a result of this size is within the budget, and take what it needs."""
        return self.spend(result - stored * self.expansion)


cdef class Scratch:
    """Memory for decompressed pages. It is used again and again."""

    cdef uint8_t* memory
    cdef int64_t size

    def __cinit__(self, int64_t size):
        self.size = size
        self.memory = <uint8_t*>malloc(size)
        if self.memory == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.memory)


_scratches = []


cdef Scratch take_scratch(int64_t size):
    """Return memory of `size` bytes or more, to be given back to `_scratches`."""
    cdef Scratch scratch = _scratches.pop() if _scratches else None
    return Scratch(size) if scratch is None or scratch.size < size else scratch


cdef struct Span:
    const uint8_t* at
    int64_t size


cdef class BucketReader:
    """Decodes rows of columns of a bucket without nested columns, all in one go.

    They go to a `sink`: a Batch of arrays, or MatrixRows.

    What is unusual is left to others: faults, sizes that must be examined first, results that are
    not within the budget. The methods return how many columns they have decoded; the first one that
    is left is the unusual one.

    Parameters
    ----------
    kinds, digits : bytes
        Of all columns of the bucket.
    positions, first : memoryview of int32, int
        The columns to decode, and the position of the first column of the bucket.
    places : memoryview of int32
        Where the columns are in the batch.
    num_rows, start, count : int
        Rows of the row group, and which of them to decode.
    strict : bool
        Whether decimals and times are checked.
    ranges : memoryview of int64, optional
        Start and stop of ranges of rows, ascending: only these `count` rows are decoded, and
        `start` is 0.
    """

    cdef const uint8_t[::1] _kinds
    cdef const uint8_t[::1] _digits
    cdef const int[::1] _positions
    cdef const int[::1] _places
    cdef Py_ssize_t _first
    cdef int64_t _num_rows
    cdef int64_t _start
    cdef int64_t _count
    cdef bint _strict
    cdef const int64_t[::1] _ranges

    def __cinit__(self, const uint8_t[::1] kinds not None, const uint8_t[::1] digits not None,
                  const int[::1] positions not None, Py_ssize_t first,
                  const int[::1] places not None, int64_t num_rows, int64_t start, int64_t count,
                  bint strict, const int64_t[::1] ranges=None):
        cdef Py_ssize_t k, column
        if digits.shape[0] != kinds.shape[0] or places.shape[0] != positions.shape[0]:
            raise ValueError("there must be digits for each kind, and a place for each column")
        for k in range(positions.shape[0]):
            column = positions[k] - first
            if not 0 <= column < kinds.shape[0] or kinds[column] >= NUM_KINDS:
                raise ValueError(f"column {column} does not exist or is nested")
        if not (0 <= start <= num_rows and 0 <= count <= num_rows - start):
            raise ValueError(f"{count} rows from {start} of {num_rows}")
        self._kinds, self._digits, self._positions, self._places = kinds, digits, positions, places
        self._first, self._strict = first, strict
        self._num_rows, self._start, self._count = num_rows, start, count
        self._ranges = ranges

    def decode_paged(self, data not None, const int64_t[::1] offsets not None, int64_t largest,
                     sink not None, memory, Budget budget not None):
        """Decode slots of a bucket: that of column i is at `offsets[i]` to `offsets[i + 1]`.

        `data` is the pyarrow.Buffer of the bucket. A page that declares more than `largest` bytes is
        unusual.
        """
        cdef const uint8_t* start = <const uint8_t*><uintptr_t>data.address
        cdef int64_t size = data.size
        cdef Py_ssize_t k, column, count = self._positions.shape[0]
        cdef Span* spans = <Span*>malloc((count + 1) * sizeof(Span))
        if spans == NULL:
            raise MemoryError
        try:
            if offsets.shape[0] <= self._kinds.shape[0]:
                raise ValueError("there must be an offset for each column")
            for k in range(count):
                column = self._positions[k] - self._first
                if not 0 <= offsets[column] <= offsets[column + 1] <= size:
                    raise ValueError(f"slot {offsets[column]}..{offsets[column + 1]} of {size} bytes")
                spans[k].at = start + offsets[column]
                spans[k].size = offsets[column + 1] - offsets[column]
            return self._decode_slots(spans, largest, sink, memory, budget)
        finally:
            free(spans)

    def decode_slots(self, slots, int64_t largest, sink not None, memory,
                     Budget budget not None):
        """Decode slots that were read one by one: a buffer for each wanted column."""
        cdef Py_ssize_t k, count = self._positions.shape[0]
        cdef Span* spans = <Span*>malloc((count + 1) * sizeof(Span))
        if spans == NULL:
            raise MemoryError
        try:
            if len(slots) != count:
                raise ValueError(f"{len(slots)} slots for {count} columns")
            for k, slot in enumerate(slots):
                spans[k].at = <const uint8_t*><uintptr_t>slot.address
                spans[k].size = slot.size
            return self._decode_slots(spans, largest, sink, memory, budget)
        finally:
            free(spans)

    cdef Py_ssize_t _decode_slots(self, const Span* spans, int64_t largest, sink, memory,
                                  Budget budget) except -1:
        """Decompress some pages and decode them, then the next ones, in the same memory."""
        cdef Py_ssize_t begin = 0, end = 0, done = 0, count = self._positions.shape[0]
        cdef Plan plan = self._plan(sink)
        cdef MatrixRows matrix = plan.matrix
        cdef Page* pages = <Page*>calloc(count + 1, sizeof(Page))
        cdef Scratch scratch = take_scratch(largest)
        cdef int64_t surplus = 0, spent = 0
        cdef bint is_usual = True
        if pages == NULL:
            raise MemoryError
        try:
            while is_usual and end < count:
                begin = end
                with nogil:
                    is_usual = self._open_window(
                        spans, largest, scratch, pages, plan, budget, &surplus, &spent, &end)
                    if plan.has_matrix:  # without taking the GIL in between
                        done = self._fill(matrix, plan.columns, begin, end)
                if not plan.has_matrix:
                    done = plan.deliver(begin, end, memory)
                if done < end:
                    return done
            return end
        finally:
            free(pages)
            _scratches.append(scratch)

    cdef Plan _plan(self, sink):
        cdef Plan plan
        cdef Batch batch
        cdef Py_ssize_t k
        if isinstance(sink, MatrixRows):
            plan = Plan(self._positions.shape[0], sink)
            if plan.matrix._count != self._count:
                raise ValueError(f"{self._count} rows for {plan.matrix._count}")
            return plan
        plan = Plan(self._positions.shape[0])
        batch = sink
        for k in range(plan.count):
            plan.columns[k].array = batch._child(self._places[k])
        return plan

    cdef Py_ssize_t _fill(self, MatrixRows matrix, Column* columns, Py_ssize_t begin,
                          Py_ssize_t end) noexcept nogil:
        """Decode columns into a matrix; return the first that is unusual, or `end`."""
        if begin == end:
            return end
        return matrix.write(columns, &self._places[0], begin, end)

    cdef void _start_page(self, Page* page, Py_ssize_t column) noexcept nogil:
        page.kind = self._kinds[column]
        page.digits = self._digits[column] if self._strict else 0
        page.strict = self._strict
        page.rows = page.non_null = self._num_rows

    cdef bint _measure(self, Column* column, Page* page, int64_t stored, bint has_matrix,
                       Budget budget, int64_t* surplus, int64_t* spent) noexcept nogil:
        """Move to the first row and measure; return False if that is unusual."""
        cdef Page before
        column.whole = page
        if self._ranges is not None:
            if gather(page, _first_of(self._ranges), self._ranges.shape[0] // 2, &column.page,
                      &column.gathered) or column.page.rows != self._count:
                return False
            if has_matrix:
                column.whole = &column.page
                return True
        else:
            if self._start:
                if take_portion(page, self._start, &before):
                    return False
                advance(page, &before)
            if has_matrix:  # its memory exists
                return True
            if take_portion(page, self._count, &column.page):
                return False
        if measure(column):
            return False
        surplus[0] += column.size - stored * budget.expansion
        if surplus[0] > spent[0]:
            if not budget.spend(surplus[0] - spent[0]):
                return False
            spent[0] = surplus[0]
        return True

    cdef bint _open_window(self, const Span* spans, int64_t largest, Scratch scratch, Page* pages,
                           Plan plan, Budget budget, int64_t* surplus, int64_t* spent,
                           Py_ssize_t* end) noexcept nogil:
        """Decompress pages and find their parts; return False if the next one is unusual."""
        cdef int64_t declared, used = 0
        cdef Reader reader
        cdef Page* page
        cdef Py_ssize_t k
        while end[0] < plan.count and used < plan.window:
            k = end[0]
            page = &pages[k]
            self._start_page(page, self._positions[k] - self._first)
            if spans[k].size == 0:
                page.encoding = ALL_NULL
                page.non_null = 0
            else:
                reader.at = spans[k].at
                reader.end = spans[k].at + spans[k].size
                declared = varint(&reader)
                if declared < 2 or declared > largest or left(&reader) == 0:
                    return False
                if used + declared > scratch.size:
                    return True
                if zstd_decompress(reader.at, left(&reader), scratch.memory + used,
                                   declared) != declared:
                    return False
                reader.at = scratch.memory + used
                reader.end = reader.at + declared
                if open_page(page, &reader, True):
                    return False
                used += declared
            if not self._measure(&plan.columns[k], page, spans[k].size, plan.has_matrix, budget,
                                 surplus, spent):
                return False
            end[0] = k + 1
        return True

    def decode_monolithic(self, data not None, int64_t size, int64_t stored, int64_t largest, sink not None, memory, Budget budget not None):
        """Decode columns of a monolithic bucket; of `size` bytes, or 0 if it is not compressed.

        `data` is the pyarrow.Buffer of the bucket. `stored` is the part of its bytes that the wanted columns take, roughly.
        """
        cdef Py_ssize_t k, end = 0, stop = 0, count = self._positions.shape[0]
        cdef Py_ssize_t num_columns = self._kinds.shape[0]
        cdef Plan plan = self._plan(sink)
        cdef MatrixRows matrix = plan.matrix
        cdef Page* pages = <Page*>calloc(num_columns + 1, sizeof(Page))
        cdef Scratch scratch = None
        cdef Reader reader
        cdef int64_t at = 0, surplus = 0, spent = 0
        if pages == NULL:
            raise MemoryError
        try:
            reader.at = <const uint8_t*><uintptr_t>data.address
            reader.end = reader.at + <int64_t>data.size
            if left(&reader) == 0 or size > largest:
                return 0
            if size:
                scratch = take_scratch(largest)
            with nogil:
                if size:
                    if zstd_decompress(reader.at, left(&reader), scratch.memory, size) != size:
                        reader.at = NULL
                    else:
                        reader.at = scratch.memory
                        reader.end = reader.at + size
                for k in range(num_columns):
                    self._start_page(&pages[k], k)
                for k in range(count):
                    stop = max(stop, self._positions[k] - self._first + 1)
                if reader.at != NULL and split(pages, num_columns, stop, &reader, &at) == FINE:
                    while end < count and self._measure(
                            &plan.columns[end], &pages[self._positions[end] - self._first], stored // count,
                            plan.has_matrix, budget, &surplus, &spent):
                        end += 1
                if plan.has_matrix:
                    end = self._fill(matrix, plan.columns, 0, end)
            return end if plan.has_matrix else plan.deliver(0, end, memory)
        finally:
            free(pages)
            if scratch is not None:
                _scratches.append(scratch)


cdef struct Root:
    ArrowArray* children
    ArrowArray** pointers


cdef void release_root(ArrowArray* root) noexcept nogil:
    cdef int64_t i
    for i in range(root.n_children):
        if root.children[i].release != NULL:
            root.children[i].release(root.children[i])
    free(root.private_data)
    root.release = NULL


cdef class Batch:
    """Collects the columns of a record batch, from any thread, and hands them over to Arrow."""

    cdef ArrowArray _array
    cdef Root _root
    cdef readonly Py_ssize_t count

    def __cinit__(self, Py_ssize_t count):
        cdef Py_ssize_t i
        cdef char* memory
        self.count = count
        memset(&self._array, 0, sizeof(ArrowArray))
        # One allocation for the children, the pointers to them, and the one buffer.
        memory = <char*>calloc(1, (count + 1) * (sizeof(ArrowArray) + sizeof(void*)))
        if memory == NULL:
            raise MemoryError
        self._root.children = <ArrowArray*>memory
        self._root.pointers = <ArrowArray**>(memory + count * sizeof(ArrowArray))
        for i in range(count):
            self._root.pointers[i] = &self._root.children[i]
        self._array.n_buffers = 1
        self._array.buffers = <const void**>(self._root.pointers + count)
        self._array.n_children = count
        self._array.children = self._root.pointers
        self._array.private_data = memory
        self._array.release = release_root

    def __dealloc__(self):
        if self._array.release != NULL:
            self._array.release(&self._array)

    cdef ArrowArray* _child(self, Py_ssize_t place) except NULL:
        """Return the array of a place that is still free."""
        cdef ArrowArray* child
        if self._array.release == NULL:
            raise ValueError("the batch was taken over by Arrow")
        if not 0 <= place < self.count:
            raise IndexError(f"place {place} of {self.count}")
        child = &self._root.children[place]
        if child.release != NULL:
            raise ValueError(f"place {place} is taken")
        return child

    def put(self, Py_ssize_t place, array):
        """Set a column to an existing array."""
        array._export_to_c(<uintptr_t>self._child(place))

    def find_nulls(self, const uint8_t[::1] required not None):
        """Return place and number of nulls of the first column that has some and must not, or None.

        `required` has a byte for each column: whether it must not be null.
        """
        cdef Py_ssize_t place
        if self._array.release == NULL:
            raise ValueError("the batch was taken over by Arrow")
        if required.shape[0] != self.count:
            raise ValueError(f"{required.shape[0]} columns of {self.count}")
        for place in range(self.count):
            if required[place] and self._root.children[place].null_count:
                return place, self._root.children[place].null_count
        return None

    def finish(self, int64_t num_rows, schema):
        """Return the record batch. All columns must be set and have `num_rows` rows."""
        cdef Py_ssize_t i
        if self._array.release == NULL:
            raise ValueError("the batch was taken over by Arrow")
        for i in range(self.count):
            if self._root.children[i].release == NULL or self._root.children[i].length != num_rows:
                raise ValueError(f"column {i} is missing, or does not have {num_rows} rows")
        self._array.length = num_rows
        return _import_batch(<uintptr_t>&self._array, schema)


cdef object _allocate(int64_t size):
    """Allocate a buffer of Arrow.

    The first allocation from Arrow's own pool prepares that for large ones, which takes longer than
    reading a column; small ones do not need it.
    """
    if size <= MAX_SYSTEM_BYTES:
        return _allocate_buffer(size, memory_pool=_system_pool)
    return _allocate_buffer(size)


class PageFault(ValueError):
    """A page cannot be decoded; `column` is its number."""

    def __init__(self, fact, column):
        super().__init__(fact)
        self.column = column


cdef object _fail(int fault, int64_t column):
    if fault == NO_MEMORY:
        raise MemoryError
    if fault == TOO_LARGE:
        raise OverflowError(_FACTS[fault])
    raise PageFault(_FACTS[fault], column)


def sort_positions(const int[::1] positions not None, int64_t num_columns):
    """Return the positions in ascending order, and where each of them is in `positions`."""
    cdef Py_ssize_t i, count = positions.shape[0]
    cdef bytes ascending = PyBytes_FromStringAndSize(NULL, 4 * count)
    cdef bytes places = PyBytes_FromStringAndSize(NULL, 4 * count)
    cdef int* sorted_position = <int*>PyBytes_AsString(ascending)
    cdef int* place = <int*>PyBytes_AsString(places)
    cdef int* after = <int*>calloc(num_columns + 1, sizeof(int))
    if after == NULL:
        raise MemoryError
    try:
        for i in range(count):
            if not 0 <= positions[i] < num_columns:
                raise ValueError(f"position {positions[i]} of {num_columns}")
            after[positions[i] + 1] += 1
        for i in range(num_columns):
            after[i + 1] += after[i]
        for i in range(count):
            sorted_position[after[positions[i]]] = positions[i]
            place[after[positions[i]]] = <int>i
            after[positions[i]] += 1
    finally:
        free(after)
    return memoryview(ascending).cast("i"), memoryview(places).cast("i")


def slot_offsets(const uint8_t[::1] sizes not None, int64_t start):
    """Return the offsets of slots of the given `sizes` (u32le) from `start`, and the end."""
    cdef Py_ssize_t i, count = sizes.shape[0] // 4
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, 8 * (count + 1))
    cdef int64_t* offset = <int64_t*>PyBytes_AsString(offsets)
    offset[0] = start
    for i in range(count):
        offset[i + 1] = offset[i] + <int64_t>fm_load32(&sizes[4 * i])
    return memoryview(offsets).cast("q")
