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
