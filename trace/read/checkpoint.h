/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in a compressed stream from which decompression can begin: for gzip the bit at which a deflate block
 * starts and the 32 KiB before it, for both codings the start of a member or frame. Never a dump of a
 * decoder's state.
 *
 * They are made on the way while a stream is decoded (stream.h asks), kept compressed, and checked when they
 * are used: a wrong one costs a wrong event at most, and what is read is checked against the event it should
 * be.
 */
#pragma once

#include "base/util.h"

/* Text between two of them: what reading one event costs at most. */
#define CHECKPOINT_SPACING (4 << 20)
#define CHECKPOINT_WINDOW  (32 << 10)
/* Where a text is so long that there would be more, every second one is dropped and they lie twice as far
 * apart. */
#define CHECKPOINTS_MAX 8192

struct checkpoint {
    uint64_t in_bit; /* place in the file, in bits */
    uint64_t out;    /* place in the text */
    uint8_t *window; /* zstd-compressed, window_size bytes; NULL where none is needed */
    size_t window_size;
};

/* A zeroed struct is ready. */
struct checkpoint_list {
    struct checkpoint *items;
    size_t n, cap;
    uint64_t last;    /* place in the text of the last one, or of the last vain search for one */
    unsigned doubled; /* how often their distance was */
};

/* Whether one should be looked for, with so much text given. */
bool checkpoint_due(const struct checkpoint_list *list, uint64_t out);
/* window: CHECKPOINT_WINDOW bytes, or NULL. Without memory there is one checkpoint less. */
void checkpoint_add(struct checkpoint_list *list, uint64_t in_bit, uint64_t out, const uint8_t *window);
/* There was none to be found before this place. */
void checkpoint_give_up(struct checkpoint_list *list, uint64_t out);
void checkpoint_list_done(struct checkpoint_list *list);
/* -EBADMSG where it is no whole window. */
int checkpoint_unpack(const uint8_t *window, size_t size, uint8_t ret[CHECKPOINT_WINDOW]);
