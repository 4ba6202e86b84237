/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans trace events in JSON into an intake, at the speed of searching text: no tree, no allocation per
 * event. Accepts every dialect of Chrome's trace event format (Kineto of every torch, generic, RTP-LLM,
 * ONNX Runtime; an object with "traceEvents" or a bare array).
 *
 * The caller keeps the pieces of the text together: each call takes all complete items of a piece and
 * returns the number of bytes used; the next piece begins with the unused rest. Expects the key order that
 * Kineto writes and falls back to any other. An error is counted as a defect of the intake with its offset,
 * and reading continues after it. The results of AVX2, SSE2, NEON and plain C are equal.
 */
#pragma once

#include "trace/read/intake.h"

#define SCAN_PAD 64 /* readable bytes after every piece; their content is ignored */
/* A larger item (an event, or a member of the outer object) is skipped. */
#define SCAN_ITEM_MAX  (16 << 20)
#define SCAN_DEPTH_MAX 512

enum scan_simd {
    SCAN_SIMD_BEST, /* the best that this processor supports */
    SCAN_SIMD_PLAIN,
    SCAN_SIMD_SSE2,
    SCAN_SIMD_AVX2,
    SCAN_SIMD_NEON,
};

enum scan_state {
    SCAN_BEFORE,     /* nothing but space has been seen */
    SCAN_OUTSIDE,    /* within the outer object, outside its events */
    SCAN_EVENTS,     /* within the array of events */
    SCAN_AFTER,      /* after the end of the outer value */
    SCAN_NOT_EVENTS, /* the text is not a trace of this kind; everything is taken and ignored */
};

enum scan_begin {
    SCAN_AT_BEGINNING,
    SCAN_IN_EVENTS,      /* at the first byte of an event in their array */
    SCAN_IN_BARE_EVENTS, /* the same in an array without an outer object */
};

struct scanner;

/* simd: -ENOTSUP if this processor does not support it. */
int scan_new(struct intake *intake, enum scan_simd simd, struct scanner **ret);
struct scanner *scan_free(struct scanner *s);
/* Sets where the text of a new scanner begins. */
void scan_begin(struct scanner *s, enum scan_begin begin);
/* Reads every event key by key, for comparison: the result is the same, but slower. */
void scan_without_shapes(struct scanner *s);
/* Takes complete items from [p, p + size), whose first byte has the offset `offset` in the stream. last:
 * nothing follows; an unused rest is then truncated. Returns the bytes used; at least one if size is
 * SCAN_ITEM_MAX. */
size_t scan_some(struct scanner *s, const char *p, size_t size, uint64_t offset, bool last);
enum scan_state scan_state(const struct scanner *s);
/* Returns whether all text so far ended with an event and characters that may follow it. */
bool scan_between_events(const struct scanner *s);
/* Number of events so far. */
uint64_t scan_events(const struct scanner *s);
/* Returns an offset in [p, p + size) at which an event probably begins, or size: to split a text. */
size_t scan_guess_event(const char *p, size_t size);

DEFINE_CLEANUP(struct scanner *, scan_free)
