/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans the same text whole with plain C and key by key, and in pieces, along shapes, with the best that the processor
 * has. A second text repeats the events, so that shapes are followed, and left in the middle.
 */
#include "tests/unit/scan-digest.h"
#include "trace/read/scan.h"

#define STRINGS_MAX (16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEY_BY_KEY = 1, IN_EVENTS = 2 };

static uint64_t scan(const uint8_t *data, size_t size, enum scan_simd simd, size_t more, int how)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    _cleanup_(scan_freep) struct scanner *s = NULL;
    uint64_t digest = 0;
    size_t used = 0, end = 0;

    if (intake_new(STRINGS_MAX, &in) < 0 || scan_new(in, simd, &s) < 0)
        abort();
    if (how & KEY_BY_KEY)
        scan_without_shapes(s);
    if (how & IN_EVENTS)
        scan_begin(s, SCAN_IN_EVENTS);
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

/* The text twice as it is, then without a part of its middle, then as it is. */
static void check_repeated(const uint8_t *data, size_t size)
{
    size_t cut = size > 0 ? data[0] * size / 256 : 0, kept = size - MIN(cut + 8, size),
           all = 3 * size + cut + kept;
    _cleanup_(freep) uint8_t *text = malloc(all + 1);

    if (!text)
        abort();
    uint8_t *at = mempcpy(mempcpy(text, data, size), data, size);
    at = mempcpy(mempcpy(at, data, cut), data + size - kept, kept);
    memcpy(at, data, size);
    uint64_t expected = scan(text, all, SCAN_SIMD_PLAIN, all + 1, KEY_BY_KEY | IN_EVENTS);
    if (scan(text, all, SCAN_SIMD_BEST, all + 1, IN_EVENTS) != expected ||
        scan(text, all, SCAN_SIMD_PLAIN, 64 + size % 997, IN_EVENTS) != expected)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole = scan(data, size, SCAN_SIMD_PLAIN, size + 1, KEY_BY_KEY);

    if (scan(data, size, SCAN_SIMD_BEST, 1 + size % 97, 0) != whole ||
        scan(data, size, SCAN_SIMD_BEST, size + 1, 0) != whole)
        abort();
    if (scan_guess_event((const char *)data, size) > size)
        abort();
    check_repeated(data, size);
    return 0;
}
