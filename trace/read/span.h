/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffer that a trace is decoded through. Its first and last WINDOW_END bytes remain available
 * afterwards.
 *
 * It is a ring: request room, fill a part of it, commit the size. Bytes are copied once for the head and,
 * in window_tail(), once for the tail; no other bytes are copied.
 */
#pragma once

#include "base/util.h"

#define WINDOW_END (1 << 20)
/* Small enough that decoded text is still in the cache when it is scanned. */
#define WINDOW_ROOM (256 << 10)

struct text_window;

int window_new(struct text_window **ret);
struct text_window *window_free(struct text_window *w);
/* At least one byte, at most WINDOW_ROOM. */
uint8_t *window_room(struct text_window *w, size_t *ret_size);
void window_filled(struct text_window *w, size_t size);
uint64_t window_total(const struct text_window *w);
const char *window_head(const struct text_window *w, size_t *ret_size);
/* Rotates the ring so that its last bytes are contiguous; the window takes no more bytes after that. */
const char *window_tail(struct text_window *w, size_t *ret_size);

DEFINE_CLEANUP(struct text_window *, window_free)

/*
 * Reads the time span of a trace and its number of complete events while it is inflated.
 *
 * Searches only for the text that every writer of complete ("ph": "X") events produces: `"ts": N, "dur":
 * N`. Numbers are microseconds and become integer nanoseconds, never converted through a double; decimals
 * after the third are cut. A pair that is not such a number (NaN, an exponent, a sign) is not counted. Feed
 * the text in pieces of any size: a pair may span them. Fixed memory.
 */

/* Maximum distance of the pair before and after the word "dur". */
#define SPAN_BEFORE 160
#define SPAN_AFTER  64

struct span {
    uint64_t events;  /* pairs seen: complete events in the usual key order */
    int64_t first_ns; /* smallest ts; with last_ns valid where events > 0 */
    int64_t last_ns;  /* largest ts + dur */

    uint64_t offset;   /* bytes fed */
    uint64_t examined; /* every "dur" before this offset was examined */
    size_t carry_size;
    char carry[SPAN_BEFORE + SPAN_AFTER];
};

/* A zeroed struct is ready. */
void span_feed(struct span *s, const char *data, size_t size);
void span_finish(struct span *s);
