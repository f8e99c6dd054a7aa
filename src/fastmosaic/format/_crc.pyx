# cython: language_level=3, boundscheck=False, wraparound=False
"""CRC-32C of any bytes, without the GIL."""

from libc.stdint cimport int64_t, uint8_t

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from fastmosaic.format._crc cimport fm_crc32c, fm_crc_by_table
from fastmosaic.format._wire cimport uint32_t


def crc32c(data, uint32_t crc=0, *, bint portable=False):
    """Return the CRC-32C of `data`, or of the bytes before it, whose CRC-32C is `crc`, and `data`.

    `portable` avoids the processor's CRC instruction.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            if portable:
                crc = fm_crc_by_table(crc, <const uint8_t*>view.buf, view.len)
            else:
                crc = fm_crc32c(crc, <const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return crc
