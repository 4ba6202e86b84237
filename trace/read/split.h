/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a plain file of trace events in several parts at once, each by a thread of its own.
 *
 * A part begins where an event seems to. Whether it does is known when the part before it has been read: if
 * its events do not end exactly there, the guess was wrong, the part is thrown away and the one before goes
 * on through its text. So the result is that of one thread, whatever the text looks like.
 */
#pragma once

#include "trace/read/reading.h"

/* Smaller parts are not worth a thread. */
#define SPLIT_PART_MIN (1 << 20)
/* Batches and buffers of a part, at most. */
#define SPLIT_PART_MEMORY (32 << 20)
#define SPLIT_PARTS_MAX   32

/* How many parts a file of this size should be read in by that many threads, with so much memory; 1: not
 * split. */
size_t split_parts(uint64_t size, unsigned threads, uint64_t memory);
/* As streamed_read(), in n parts at most. */
int split_read(struct reading *r, size_t n);
