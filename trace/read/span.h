/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From when to when a trace was recorded, and how many complete events it has, read while it is inflated.
 *
 * Looks only for what every writer of complete ("ph": "X") events puts side by side: `"ts": N, "dur": N`.
 * Numbers are microseconds and become integer nanoseconds, never by way of a double; decimals behind the
 * third are cut. A pair that is no such number (NaN, an exponent, a sign) is not counted. Feed the text in
 * pieces of any size: a pair may lie across them. Fixed memory.
 */
#pragma once

#include "base/util.h"

/* How far before and behind the word "dur" its pair may reach. */
#define SPAN_BEFORE 160
#define SPAN_BEHIND 64

struct span {
    uint64_t events;  /* pairs seen: complete events in the usual key order */
    int64_t first_ns; /* smallest ts; with last_ns valid where events > 0 */
    int64_t last_ns;  /* largest ts + dur */

    uint64_t offset; /* bytes fed */
    uint64_t looked; /* every "dur" before this offset was looked at */
    size_t carry_size;
    char carry[SPAN_BEFORE + SPAN_BEHIND];
};

/* A zeroed struct is ready. */
void span_feed(struct span *s, const char *data, size_t size);
void span_finish(struct span *s);
