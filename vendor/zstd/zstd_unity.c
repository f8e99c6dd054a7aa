/* All of zstd as one unit; its functions are visible to the including kernel only. */
#define ZSTD_STATIC_LINKING_ONLY
#define ZSTD_DISABLE_ASM 1
#define ZSTD_LEGACY_SUPPORT 0
#define ZSTD_TRACE 0
#define DEBUGLEVEL 0
#define ZSTDLIB_VISIBLE __attribute__((visibility("hidden")))
#define ZSTDLIB_HIDDEN __attribute__((visibility("hidden")))
#define ZSTDERRORLIB_VISIBLE __attribute__((visibility("hidden")))
#define XXH_NAMESPACE ZSTD_
#define XXH_INLINE_ALL
#define XXH_PRIVATE_API

#include "common/debug.c"
#include "common/entropy_common.c"
#include "common/error_private.c"
#include "common/fse_decompress.c"
#include "common/zstd_common.c"
#include "compress/fse_compress.c"
#include "compress/hist.c"
#include "compress/huf_compress.c"
#include "compress/zstd_compress_literals.c"
#include "compress/zstd_compress_sequences.c"
#include "compress/zstd_compress_superblock.c"
#include "compress/zstd_preSplit.c"
#include "compress/zstd_compress.c"
#include "compress/zstd_double_fast.c"
#include "compress/zstd_fast.c"
#include "compress/zstd_lazy.c"
#include "compress/zstd_ldm.c"
#include "compress/zstd_opt.c"
#include "decompress/huf_decompress.c"
#include "decompress/zstd_ddict.c"
#include "decompress/zstd_decompress.c"
#include "decompress/zstd_decompress_block.c"
