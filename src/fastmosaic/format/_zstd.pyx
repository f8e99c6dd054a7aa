# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""zstd frames: the vendored library for the kernels, and for Python."""

from libc.stdint cimport int64_t, uint8_t

from cpython.bytes cimport PyBytes_FromStringAndSize

cdef extern from *:
    """
    #include "zstd_unity.c"
    #include <pthread.h>

    /* glibc 2.34 gave these functions a new version, but they are the same as before. With the old
       version a wheel that is built there also runs where glibc is older. */
    #if defined(__GLIBC__) && defined(__x86_64__)
    #define FM_OLD_VERSION "GLIBC_2.2.5"
    #elif defined(__GLIBC__) && defined(__aarch64__)
    #define FM_OLD_VERSION "GLIBC_2.17"
    #endif
    #ifdef FM_OLD_VERSION
    __asm__(".symver pthread_key_create, pthread_key_create@" FM_OLD_VERSION);
    __asm__(".symver pthread_getspecific, pthread_getspecific@" FM_OLD_VERSION);
    __asm__(".symver pthread_setspecific, pthread_setspecific@" FM_OLD_VERSION);
    #endif

    /* A context is expensive to create and not thread-safe: each thread keeps its own. */
    static pthread_key_t fm_compressor_key, fm_decompressor_key;
    static void fm_free_compressor(void* context) { ZSTD_freeCCtx((ZSTD_CCtx*)context); }
    static void fm_free_decompressor(void* context) { ZSTD_freeDCtx((ZSTD_DCtx*)context); }
    static int fm_make_keys(void) {
        return pthread_key_create(&fm_compressor_key, fm_free_compressor) == 0
            && pthread_key_create(&fm_decompressor_key, fm_free_decompressor) == 0;
    }
    static ZSTD_CCtx* fm_compressor(void) {
        ZSTD_CCtx* context = (ZSTD_CCtx*)pthread_getspecific(fm_compressor_key);
        if (context == NULL && (context = ZSTD_createCCtx()) != NULL)
            pthread_setspecific(fm_compressor_key, context);
        return context;
    }
    static ZSTD_DCtx* fm_decompressor(void) {
        ZSTD_DCtx* context = (ZSTD_DCtx*)pthread_getspecific(fm_decompressor_key);
        if (context == NULL && (context = ZSTD_createDCtx()) != NULL)
            pthread_setspecific(fm_decompressor_key, context);
        return context;
    }

    /* Return a size, or the negative number of an error. */
    static int64_t fm_result(size_t result) {
        return ZSTD_isError(result) ? -(int64_t)ZSTD_getErrorCode(result) : (int64_t)result;
    }

    static inline uint64_t fm_word(const uint8_t* at) { uint64_t word; memcpy(&word, at, 8); return word; }
    static inline uint32_t fm_half(const uint8_t* at) { uint32_t half; memcpy(&half, at, 4); return half; }

    /* Bytes from `first` on may match those `distance` before, which are in the same buffer. */
    typedef struct { ZSTD_CCtx* context; const uint8_t* first; size_t distance; } fm_Before;

    static inline ZSTD_Sequence fm_match(const uint8_t* literals, const uint8_t* at, const uint8_t* stop,
                                         size_t distance) {
        ZSTD_Sequence found = {(unsigned)distance, (unsigned)(at - literals), (unsigned)(stop - at), 0};
        return found;
    }

    static inline int fm_same32(const uint8_t* one, const uint8_t* other) {
        return ((fm_word(one) ^ fm_word(other)) | (fm_word(one + 8) ^ fm_word(other + 8))
                | (fm_word(one + 16) ^ fm_word(other + 16)) | (fm_word(one + 24) ^ fm_word(other + 24))) == 0;
    }

    /* Match values of 4 or 8 bytes with the ones before them: each has a beginning and an end that
       may be the same, and what is between them is not looked at. Where short runs end is hard to
       predict for a processor, so this loop branches for long ones only. */
    static inline size_t fm_match_values(ZSTD_Sequence* found, const uint8_t* literals, const uint8_t* at,
                                         const uint8_t* end, const int width) {
        const uint8_t* start = at; /* of the bytes that are the same */
        const uint8_t* stop = at;
        const uint8_t* next;
        uint64_t differ;
        size_t count = 0;
        ptrdiff_t differs, ends;
        for (; end - at >= width; at += width) {
            if (end - at >= 32 && fm_same32(at, at - width)) {
                stop = at + 32;
                at = stop - width;
                continue;
            }
            differ = width == 8 ? fm_word(at) ^ fm_word(at - 8) : fm_half(at) ^ fm_half(at - 4);
            differs = differ != 0;
            differ |= !differs; /* zeros cannot be counted in 0 */
            stop = at + (__builtin_ctzll(differ) >> 3);
            ends = differs & (stop - start >= 3);
            found[count] = fm_match(literals, start, stop, (size_t)width);
            count += (size_t)ends;
            literals += -ends & (stop - literals);
            stop = at + width;
            next = stop - ((__builtin_clzll(differ) - 64 + 8 * width) >> 3);
            start += -differs & (next - start);
        }
        if (stop - start >= 3) {
            found[count++] = fm_match(literals, start, stop, (size_t)width);
            literals = stop;
        }
        found[count++] = fm_match(literals, end, end, 0);
        return count;
    }

    /* Match bytes with those `distance` before. */
    static size_t fm_match_bytes(ZSTD_Sequence* found, const uint8_t* literals, const uint8_t* at,
                                 const uint8_t* end, size_t distance) {
        const uint64_t low = 0x7F7F7F7F7F7F7F7FULL;
        const uint8_t* stop;
        uint64_t differ, same;
        size_t count = 0;
        while (end - at >= 8) {
            differ = fm_word(at) ^ fm_word(at - distance);
            same = ~(((differ & low) + low) | differ | low); /* the high bit of equal bytes */
            same &= same >> 8 & same >> 16;
            if (same == 0) {
                at += 6;
                continue;
            }
            at += __builtin_ctzll(same) >> 3;
            stop = at + 3;
            while (end - stop >= 8 && fm_word(stop) == fm_word(stop - distance)) stop += 8;
            while (stop < end && *stop == *(stop - distance)) stop++;
            found[count++] = fm_match(literals, at, stop, distance);
            at = literals = stop;
        }
        found[count++] = fm_match(literals, end, end, 0);
        return count;
    }

    /* Find the matches of a block, of at least three bytes. Between values that resemble the ones
       before them these are nearly all that there are, and they are found faster than by hashes. In
       a block before `first`, zstd searches on its own. There is room for a match of each three bytes. */
    static size_t fm_find_before(void* state, ZSTD_Sequence* found, size_t room, const void* block, size_t size,
                                 const void* dictionary, size_t dictionary_size, int level, size_t window) {
        const fm_Before* before = (const fm_Before*)state;
        const uint8_t* start = (const uint8_t*)block;
        const uint8_t* end = start + size;
        const uint8_t* at = start;
        (void)room, (void)dictionary, (void)dictionary_size, (void)level, (void)window;
        if (end <= before->first) return ZSTD_SEQUENCE_PRODUCER_ERROR;
        /* The fast strategies keep account of two of the three offsets that a match may repeat. The
           third one is that of the last block of ours, or of none: it must not be repeated. */
        before->context->blockState.prevCBlock->rep[2] = 0;
        if (at < before->first) at = before->first;
        if (before->distance != 4 && before->distance != 8)
            return fm_match_bytes(found, start, at, end, before->distance);
        at += (before->distance - (size_t)(at - before->first) % before->distance) % before->distance;
        if (before->distance == 8) return fm_match_values(found, start, at, end, 8);
        return fm_match_values(found, start, at, end, 4);
    }

    /* Compress to one frame with its content size; a block of the frame ends at each cut. */
    static int64_t fm_compress(int level, int checksum, int strategy, int window_log, int hash_log,
                               int chain_log, int search_log, int min_match, int64_t start,
                               int64_t distance, const uint8_t* data, int64_t size,
                               const int64_t* cuts, int num_cuts, uint8_t* out, int64_t room) {
        ZSTD_CCtx* context = fm_compressor();
        ZSTD_inBuffer input = {data, 0, 0};
        ZSTD_outBuffer output = {out, (size_t)room, 0};
        fm_Before before = {context, data + start, (size_t)distance};
        size_t left;
        int i;
        if (context == NULL) return -ZSTD_error_memory_allocation;
        ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum);
        if (strategy == 0) {
            ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
        } else {
            ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
            ZSTD_CCtx_setParameter(context, ZSTD_c_strategy, strategy);
            ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
            ZSTD_CCtx_setParameter(context, ZSTD_c_hashLog, hash_log);
            ZSTD_CCtx_setParameter(context, ZSTD_c_chainLog, chain_log);
            ZSTD_CCtx_setParameter(context, ZSTD_c_searchLog, search_log);
            ZSTD_CCtx_setParameter(context, ZSTD_c_minMatch, min_match);
            ZSTD_CCtx_setParameter(context, ZSTD_c_targetLength, 0);
        }
        if (distance) {
            ZSTD_registerSequenceProducer(context, &before, fm_find_before);
            ZSTD_CCtx_setParameter(context, ZSTD_c_enableSeqProducerFallback, 1);
            ZSTD_CCtx_setParameter(context, ZSTD_c_searchForExternalRepcodes, ZSTD_ps_enable);
        }
        if (num_cuts == 0) {
            left = ZSTD_compress2(context, out, (size_t)room, data, (size_t)size);
            return fm_result(left);
        }
        ZSTD_CCtx_setParameter(context, ZSTD_c_stableInBuffer, 1);
        ZSTD_CCtx_setParameter(context, ZSTD_c_stableOutBuffer, 1);
        ZSTD_CCtx_setPledgedSrcSize(context, (unsigned long long)size);
        for (i = 0; i <= num_cuts; i++) {
            input.size = (size_t)(i < num_cuts ? cuts[i] : size);
            do {
                left = ZSTD_compressStream2(context, &output, &input, i < num_cuts ? ZSTD_e_flush : ZSTD_e_end);
                if (ZSTD_isError(left)) return fm_result(left);
            } while (left);
        }
        return (int64_t)output.pos;
    }

    static int64_t fm_decompress(const uint8_t* frame, int64_t size, uint8_t* out, int64_t room) {
        ZSTD_DCtx* context = fm_decompressor();
        if (context == NULL) return -ZSTD_error_memory_allocation;
        return fm_result(ZSTD_decompressDCtx(context, out, (size_t)room, frame, (size_t)size));
    }

    /* Decompress the first `room` bytes of a frame, or all of them if there are fewer. */
    static int64_t fm_decompress_front(const uint8_t* frame, int64_t size, uint8_t* out, int64_t room) {
        ZSTD_DCtx* context = fm_decompressor();
        ZSTD_inBuffer input = {frame, (size_t)size, 0};
        ZSTD_outBuffer output = {out, (size_t)room, 0};
        size_t left = 1;
        if (context == NULL) return -ZSTD_error_memory_allocation;
        ZSTD_DCtx_reset(context, ZSTD_reset_session_and_parameters);
        ZSTD_DCtx_setMaxWindowSize(context, (size_t)1 << 30);
        while (left && output.pos < output.size && input.pos < input.size) {
            left = ZSTD_decompressStream(context, &output, &input);
            if (ZSTD_isError(left)) break;
        }
        ZSTD_DCtx_reset(context, ZSTD_reset_session_and_parameters);
        return ZSTD_isError(left) ? fm_result(left) : (int64_t)output.pos;
    }
    """
    bint fm_make_keys()
    int64_t fm_compress(int level, bint checksum, int strategy, int window_log, int hash_log,
                        int chain_log, int search_log, int min_match, int64_t start, int64_t distance,
                        const uint8_t* data, int64_t size, const int64_t* cuts, int num_cuts,
                        uint8_t* out, int64_t room) nogil
    int64_t fm_decompress(const uint8_t* frame, int64_t size, uint8_t* out, int64_t room) nogil
    int64_t fm_decompress_front(const uint8_t* frame, int64_t size, uint8_t* out,
                                int64_t room) nogil
    ctypedef struct ZSTD_FrameHeader:
        unsigned long long frameContentSize
        int checksumFlag
    size_t ZSTD_getFrameHeader(ZSTD_FrameHeader* header, const void* frame, size_t size) nogil
    size_t ZSTD_findFrameCompressedSize(const void* frame, size_t size) nogil
    size_t ZSTD_compressBound(size_t size) nogil
    ctypedef int ZSTD_ErrorCode
    const char* ZSTD_getErrorString(ZSTD_ErrorCode code)
    enum:
        ZSTD_error_memory_allocation
        ZSTD_error_srcSize_wrong
    int ZSTD_minCLevel()
    int ZSTD_maxCLevel()
    const char* ZSTD_versionString()

cdef extern from "Python.h":
    char* PyBytes_AsString(object o) except NULL

MIN_LEVEL = ZSTD_minCLevel()
MAX_LEVEL = ZSTD_maxCLevel()
VERSION = ZSTD_versionString().decode()
if not fm_make_keys():
    raise MemoryError("the process has no thread-specific keys left")


class ZstdError(ValueError):
    """A frame is damaged."""


cdef int64_t zstd_bound(int64_t size) noexcept nogil:
    """Return the room that compressing `size` bytes needs at most, also with a few cuts."""
    return <int64_t>ZSTD_compressBound(size) + 64


cdef int64_t zstd_compress(const Parameters* parameters, const uint8_t* data, int64_t size,
                           const int64_t* cuts, int num_cuts, uint8_t* out,
                           int64_t room) noexcept nogil:
    """Compress `data` to one frame; return its size, or an error.

    A block ends at each of the ascending `cuts`, so that what follows gets tables of its own.
    """
    return fm_compress(
        parameters.level, parameters.checksum, parameters.strategy, parameters.window_log,
        parameters.hash_log, parameters.chain_log, parameters.search_log, parameters.min_match,
        parameters.start, parameters.distance, data, size, cuts, num_cuts, out, room)


cdef int64_t zstd_decompress(const uint8_t* frame, int64_t size, uint8_t* out,
                             int64_t room) noexcept nogil:
    """Decompress what must be one frame; return the number of bytes, or an error."""
    if <int64_t>ZSTD_findFrameCompressedSize(frame, size) != size:
        return -ZSTD_error_srcSize_wrong
    return fm_decompress(frame, size, out, room)


def frame_header(const uint8_t[::1] frame not None):
    """Return the content size of a frame, -1 if it does not say, and whether it has a checksum."""
    cdef ZSTD_FrameHeader header
    cdef Py_ssize_t size = frame.shape[0]
    if size == 0 or ZSTD_getFrameHeader(&header, &frame[0], size):
        raise ZstdError("the header of a frame is cut off or invalid")
    return <int64_t>header.frameContentSize, header.checksumFlag != 0


def compress(const uint8_t[::1] data not None, int level, bint checksum):
    """Compress `data` to one frame with its content size in the header."""
    cdef Parameters parameters
    cdef int64_t size = data.shape[0], room = zstd_bound(size), done
    cdef bytes out = PyBytes_FromStringAndSize(NULL, room)
    cdef uint8_t* to = <uint8_t*>PyBytes_AsString(out)
    cdef const uint8_t* source = &data[0] if size else to
    parameters.level = level
    parameters.checksum = checksum
    parameters.strategy = 0
    parameters.start = parameters.distance = 0
    with nogil:
        done = zstd_compress(&parameters, source, size, NULL, 0, to, room)
    _check(done)
    return out[:done]


def decompress(const uint8_t[::1] frame not None, int64_t size):
    """Decompress what must be one frame of `size` bytes."""
    cdef bytes out = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* to = <uint8_t*>PyBytes_AsString(out)
    cdef int64_t stored = frame.shape[0], done
    if stored == 0:
        _check(-ZSTD_error_srcSize_wrong)
    with nogil:
        done = zstd_decompress(&frame[0], stored, to, size)
    _check(done)
    if done != size:
        raise ZstdError(f"a frame contains {done} bytes, but {size} are declared")
    return out


def decompress_front(const uint8_t[::1] frame not None, int64_t size):
    """Decompress at most `size` bytes from the start of a frame."""
    cdef bytes out = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* to = <uint8_t*>PyBytes_AsString(out)
    cdef int64_t stored = frame.shape[0], done
    if stored == 0:
        _check(-ZSTD_error_srcSize_wrong)
    with nogil:
        done = fm_decompress_front(&frame[0], stored, to, size)
    _check(done)
    return out[:done]


cdef int _check(int64_t done) except -1:
    if done == -ZSTD_error_memory_allocation:
        raise MemoryError
    if done < 0:
        raise ZstdError(ZSTD_getErrorString(<ZSTD_ErrorCode>-done).decode())
    return 0
