/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of large buffers between the thread that decompresses and the one that reads what comes out. The
 * buffers are reused: memory that was never touched costs more than scanning it.
 *
 * Every buffer but the last is given away full, so that the end of the text is still in the ring when the
 * writer is done.
 */
#pragma once

#include "base/util.h"

/* Few enough that what was just decompressed is still in a cache when it is scanned. */
#define PIPE_PIECES 8
#define PIPE_PIECE  (1 << 20)

struct pipe;

int pipe_new(struct pipe **ret);
struct pipe *pipe_free(struct pipe *p);

/* The writer's side: room that is left in the current buffer, at least one byte, NULL where the reader gave
 * up; what was put there, where a full buffer goes to the reader; the end, which gives the reader a last
 * piece that may be empty. */
uint8_t *pipe_room(struct pipe *p, size_t *ret_size);
void pipe_filled(struct pipe *p, size_t size);
void pipe_end(struct pipe *p);
/* Copies the last bytes of the text, at most `size` and PIPE_PIECE, to ret, after pipe_end(). Returns how
 * many. */
size_t pipe_tail(const struct pipe *p, char *ret, size_t size);

/* The reader's side: the next piece, with FEED_MARGIN bytes before and SCAN_PAD bytes behind it that are the
 * reader's, until the call after; *ret_last where nothing follows. NULL where the writer gave up. */
char *pipe_next(struct pipe *p, size_t *ret_size, bool *ret_last);

/* Either side: the other one gets NULL from now on. */
void pipe_give_up(struct pipe *p);

DEFINE_CLEANUP(struct pipe *, pipe_free)
