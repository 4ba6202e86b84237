/* SPDX-License-Identifier: Apache-2.0 */
/* Scans the same text whole with plain C, and in pieces with the best that the processor has. */
#include "tests/unit/scan-digest.h"
#include "trace/read/scan.h"

#define STRINGS_MAX (16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t scan(const uint8_t *data, size_t size, enum scan_simd simd, size_t more)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    _cleanup_(scan_freep) struct scanner *s = NULL;
    uint64_t digest = 0;
    size_t used = 0, end = 0;

    if (intake_new(STRINGS_MAX, &in) < 0 || scan_new(in, simd, &s) < 0)
        abort();
    in->flush = digest_batch;
    in->flush_arg = &digest;
    do {
        end = MIN(end + more, size);
        /* Exactly what may be looked at, so that the sanitizer sees a look beyond. */
        _cleanup_(freep) char *piece = malloc(end - used + SCAN_PAD);
        if (!piece)
            abort();
        memcpy(piece, data + used, end - used);
        memset(piece + (end - used), (int)(more % 256), SCAN_PAD);
        size_t n = scan_some(s, piece, end - used, used, end == size);
        if (n > end - used)
            abort();
        used += n;
    } while (end < size);
    digest_batch(in, in->batch, &digest);
    digest_intake(in, &digest);
    digest_add(&digest, scan_events(s));
    digest_add(&digest, scan_state(s));
    return digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole = scan(data, size, SCAN_SIMD_PLAIN, size + 1);

    if (scan(data, size, SCAN_SIMD_BEST, 1 + size % 97) != whole ||
        scan(data, size, SCAN_SIMD_BEST, size + 1) != whole)
        abort();
    if (scan_guess_event((const char *)data, size) > size)
        abort();
    return 0;
}
