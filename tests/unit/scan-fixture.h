/* SPDX-License-Identifier: Apache-2.0 */
/* Scanning texts in tests. */
#pragma once

#include "tests/unit/intake-fixture.h"
#include "tests/unit/scan-digest.h"
#include "trace/read/scan.h"

struct scanned {
    struct intake *in;
    enum scan_state state;
    uint64_t events;
    uint64_t digest; /* of every event and row of arguments, in order */
};

static inline void scanned_free(struct scanned *s)
{
    intake_free(s->in);
}

#define _cleanup_scanned_ _cleanup_(scanned_free)

/* Feeds `more` bytes at a time, each piece a copy of exactly its size and the bytes that may be looked at. */
static inline struct scanned scan_along_shapes(const char *text, size_t size, enum scan_simd simd,
                                               size_t more, bool keep, bool shapes)
{
    _cleanup_(scan_freep) struct scanner *s = NULL;
    struct scanned r = {.in = fixture_new()};
    size_t used = 0, end = 0;

    r.in->flush = digest_batch;
    r.in->flush_arg = &r.digest;
    assert_int_equal(scan_new(r.in, simd, &s), 0);
    if (!shapes)
        scan_without_shapes(s);
    do {
        end = MIN(end + more, size);
        _cleanup_(freep) char *piece = malloc(end - used + SCAN_PAD);
        assert_non_null(piece);
        memcpy(piece, text + used, end - used);
        memset(piece + (end - used), '}', SCAN_PAD);
        size_t n = scan_some(s, piece, end - used, used, end == size);
        assert_in_range(n, 0, end - used);
        used += n;
    } while (end < size);
    r.state = scan_state(s);
    r.events = scan_events(s);
    if (!keep)
        digest_batch(r.in, r.in->batch, &r.digest);
    digest_intake(r.in, &r.digest);
    return r;
}

static inline struct scanned scan_in_pieces(const char *text, size_t size, enum scan_simd simd, size_t more,
                                            bool keep)
{
    return scan_along_shapes(text, size, simd, more, keep, true);
}

static inline struct scanned scan_text(const char *text)
{
    return scan_in_pieces(text, strlen(text), SCAN_SIMD_BEST, SIZE_MAX / 2, true);
}

static const enum scan_simd all_simds[] = {SCAN_SIMD_BEST, SCAN_SIMD_PLAIN, SCAN_SIMD_SSE2, SCAN_SIMD_AVX2,
                                           SCAN_SIMD_NEON};

static inline bool has_simd(enum scan_simd simd)
{
    _cleanup_(intake_freep) struct intake *in = fixture_new();
    _cleanup_(scan_freep) struct scanner *s = NULL;
    int r = scan_new(in, simd, &s);

    assert_true(r == 0 || r == -ENOTSUP);
    return r == 0;
}
