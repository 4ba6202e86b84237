/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace events in JSON, into an intake, as fast as the text can be looked at: no tree, nothing allocated for
 * an event. Takes every dialect of Chrome's trace event format (Kineto of every torch, generic, RTP-LLM, ONNX
 * Runtime; an object with "traceEvents" or a bare array).
 *
 * The text comes in pieces that the caller keeps together: each call takes as many whole items as there are
 * and says how many bytes it used; the next call's piece begins with what was left. Expects the key order
 * that Kineto writes and falls back to any other. What is wrong is counted as a defect of the intake with its
 * offset, and reading goes on after it. Same results with AVX2, SSE2, NEON and plain C.
 */
#pragma once

#include "trace/read/intake.h"

#define SCAN_PAD 64 /* readable bytes after every piece; their content does not matter */
/* An item (an event, or a member of the outer object) larger than this is left out. */
#define SCAN_ITEM_MAX  (16 << 20)
#define SCAN_DEPTH_MAX 512

enum scan_simd {
    SCAN_SIMD_BEST, /* what this processor has */
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
    SCAN_NOT_EVENTS, /* the text is no trace of this kind; everything is taken and ignored */
};

struct scanner;

/* simd: -ENOTSUP where this processor does not have it. */
int scan_new(struct intake *intake, enum scan_simd simd, struct scanner **ret);
struct scanner *scan_free(struct scanner *s);
/* A scanner that begins in the middle of an array of events, at the first byte of an event. */
void scan_begin_in_events(struct scanner *s);
/* The same where that array has no object around it. */
void scan_begin_in_bare_events(struct scanner *s);
/* Takes whole items from [p, p + size), of which the first byte has the offset `offset` in the stream. last:
 * nothing follows; what is left then is cut off. Returns the bytes used; at least one where size is
 * SCAN_ITEM_MAX. */
size_t scan_some(struct scanner *s, const char *p, size_t size, uint64_t offset, bool last);
enum scan_state scan_state(const struct scanner *s);
/* Whether everything taken so far ended with an event and what may follow it. */
bool scan_between_events(const struct scanner *s);
/* Events read so far. */
uint64_t scan_events(const struct scanner *s);
/* An offset in [p, p + size) where an event is likely to begin, or size: for splitting a text. */
size_t scan_guess_event(const char *p, size_t size);

DEFINE_CLEANUP(struct scanner *, scan_free)
