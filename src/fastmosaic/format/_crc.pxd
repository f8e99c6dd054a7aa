# cython: language_level=3
"""CRC-32C for the kernels, with the processor's own instruction where it has one."""

from libc.stdint cimport int64_t, uint8_t

from fastmosaic.format._wire cimport uint32_t

cdef extern from *:
    """
    /* CRC-32C: polynomial 0x1EDC6F41, reflected; eight bytes at a time by eight tables. */
    static uint32_t fm_crc_tables[8][256];

    __attribute__((constructor)) static void fm_crc_prepare(void) {
        for (int i = 0; i < 256; i++) {
            uint32_t crc = (uint32_t)i;
            for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78U : 0);
            fm_crc_tables[0][i] = crc;
        }
        for (int i = 0; i < 256; i++)
            for (int k = 1; k < 8; k++) {
                uint32_t below = fm_crc_tables[k - 1][i];
                fm_crc_tables[k][i] = below >> 8 ^ fm_crc_tables[0][below & 0xFF];
            }
    }
    static uint32_t fm_crc_by_table(uint32_t crc, const uint8_t* at, int64_t size) {
        crc = ~crc;
        for (; size >= 8; at += 8, size -= 8) {
            uint64_t word = fm_load64(at) ^ crc;
            crc = 0;
            for (int k = 0; k < 8; k++) crc ^= fm_crc_tables[7 - k][word >> 8 * k & 0xFF];
        }
        for (; size; at++, size--) crc = crc >> 8 ^ fm_crc_tables[0][(crc ^ *at) & 0xFF];
        return ~crc;
    }
    #if defined(__x86_64__)
    __attribute__((target("sse4.2")))
    static uint32_t fm_crc_by_instruction(uint32_t before, const uint8_t* at, int64_t size) {
        uint64_t crc = (uint32_t)~before;
        for (; size >= 8; at += 8, size -= 8)
            crc = __builtin_ia32_crc32di(crc, fm_load64(at));
        for (; size; at++, size--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
        return ~(uint32_t)crc;
    }
    static uint32_t fm_crc32c(uint32_t crc, const uint8_t* at, int64_t size) {
        if (__builtin_cpu_supports("sse4.2")) return fm_crc_by_instruction(crc, at, size);
        return fm_crc_by_table(crc, at, size);
    }
    #else
    static uint32_t fm_crc32c(uint32_t crc, const uint8_t* at, int64_t size) {
        return fm_crc_by_table(crc, at, size);
    }
    #endif
    """
    # `crc` is that of the bytes before, 0 if there are none.
    uint32_t fm_crc_by_table(uint32_t crc, const uint8_t* at, int64_t size) nogil
    uint32_t fm_crc32c(uint32_t crc, const uint8_t* at, int64_t size) nogil
