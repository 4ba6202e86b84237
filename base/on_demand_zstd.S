/* SPDX-License-Identifier: Apache-2.0 */
/* libzstd, which decompresses traces and compresses Parquet files. */
#include "base/on_demand_call.h"

ON_DEMAND("libzstd.so.1", \
          ZSTD_DCtx_reset, ZSTD_DCtx_setParameter, ZSTD_compress, ZSTD_compressBound, ZSTD_compressCCtx, \
          ZSTD_createCCtx, ZSTD_createDStream, ZSTD_decompress, ZSTD_decompressStream, ZSTD_freeCCtx, \
          ZSTD_freeDStream, ZSTD_getErrorName, ZSTD_isError)
