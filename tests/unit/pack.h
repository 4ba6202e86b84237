/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed text for tests. The caller frees what is returned. */
#pragma once

#include "base/alloc.h"
#include <isa-l/igzip_lib.h>
#include <zstd.h>

static inline uint8_t *pack_gzip(const void *data, size_t size, size_t *ret_size)
{
    struct isal_zstream z;
    size_t capacity = size + size / 8 + 1024;
    uint8_t *out = xcalloc(capacity, 1);

    isal_deflate_stateless_init(&z);
    z.gzip_flag = IGZIP_GZIP;
    z.end_of_stream = 1;
    z.next_in = (uint8_t *)data;
    z.avail_in = (uint32_t)size;
    z.next_out = out;
    z.avail_out = (uint32_t)capacity;
    if (isal_deflate_stateless(&z) != COMP_OK)
        abort();
    *ret_size = z.total_out;
    return out;
}

static inline uint8_t *pack_zstd(const void *data, size_t size, size_t *ret_size)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t capacity = ZSTD_compressBound(size);
    uint8_t *out = xcalloc(capacity, 1);

    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    *ret_size = ZSTD_compress2(context, out, capacity, data, size);
    ZSTD_freeCCtx(context);
    if (ZSTD_isError(*ret_size))
        abort();
    return out;
}
