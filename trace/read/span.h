/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffer that a trace is decoded through, of which the first and the last WINDOW_END bytes can be looked
 * at afterwards.
 *
 * It is a ring: ask for room, fill a part of it, say how much. Bytes are copied once for the head and, in
 * window_tail(), once for the tail; nothing else is.
 */
#pragma once

#include "base/util.h"

#define WINDOW_END (1 << 20)
/* Small enough that what was just decoded is still in the cache when it is scanned. */
#define WINDOW_ROOM (256 << 10)

struct window;

int window_new(struct window **ret);
struct window *window_free(struct window *w);
/* At least one byte, at most WINDOW_ROOM. */
uint8_t *window_room(struct window *w, size_t *ret_size);
void window_filled(struct window *w, size_t size);
uint64_t window_total(const struct window *w);
const char *window_head(const struct window *w, size_t *ret_size);
/* Turns the ring so that its last bytes are in one piece; the window takes no more bytes after that. */
const char *window_tail(struct window *w, size_t *ret_size);

DEFINE_CLEANUP(struct window *, window_free)

/*
 * From when to when a trace was recorded, and how many complete events it has, read while it is inflated.
 *
 * Looks only for what every writer of complete ("ph": "X") events puts side by side: `"ts": N, "dur": N`.
 * Numbers are microseconds and become integer nanoseconds, never by way of a double; decimals after the
 * third are cut. A pair that is no such number (NaN, an exponent, a sign) is not counted. Feed the text in
 * pieces of any size: a pair may lie across them. Fixed memory.
 */

/* How far before and after the word "dur" its pair may reach. */
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
