/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a text that comes in pieces to the scanner, which takes whole items: what is left of a piece is put
 * in front of the next one, in a margin that every piece has before it. What does not fit into the margin is
 * gathered in a buffer that grows up to the size of an item.
 */
#pragma once

#include "trace/read/scan.h"

/* Writable bytes before every piece; behind it are SCAN_PAD readable ones. */
#define FEED_MARGIN (64 << 10)

struct feed;

enum feed_begin {
    FEED_AT_BEGINNING,
    FEED_IN_EVENTS,      /* at an event */
    FEED_IN_BARE_EVENTS, /* at one of an array without an object around it */
};

/* place: of the first byte of its text in the stream. */
int feed_new(struct intake *in, enum feed_begin begin, uint64_t place, struct feed **ret);
struct feed *feed_free(struct feed *f);
/* The next piece, which is done with when this returns. -ENOMEM. */
int feed_piece(struct feed *f, char *p, size_t size, bool last);
/* Whether the text so far ended between two events: the next one may begin with the next piece. */
bool feed_between_events(const struct feed *f);
enum scan_state feed_state(const struct feed *f);
/* Events so far; may be asked by any thread. */
uint64_t feed_events(const struct feed *f);

DEFINE_CLEANUP(struct feed *, feed_free)
