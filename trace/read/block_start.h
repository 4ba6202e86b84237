/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where a deflate block begins, by watching a decoder: it is given so little input at a time that it
 * stops within the header of a block, which it keeps until it can read all of it.
 *
 * Such small pieces are slow, so that larger ones come first: when a block has begun within one, the decoder
 * is set back to where it was before, and goes through the same input again in small ones.
 */
#pragma once

#include "base/util.h"
#include <isa-l/igzip_lib.h>

enum block_found {
    BLOCK_NONE,
    BLOCK_AGAIN, /* the decoder was set back: the last piece has not been taken, nor its output given */
    BLOCK_START, /* the decoder stands within a header, of which it keeps some bits */
    BLOCK_NEVER, /* this stream seems to have no headers that are long enough */
};

struct block_start {
    struct inflate_state before; /* the last large piece */
    size_t small;                /* input that is to come in small pieces */
    size_t sought;               /* input so far */
};

/* How much input the decoder may be given next. */
size_t block_start_step(struct block_start *b, const struct inflate_state *z);
/* After it took so much of it. With BLOCK_START, *ret_kept are the bits of input taken that belong to the
 * header, and b is ready for another search, as with BLOCK_NEVER and when it is zeroed. */
enum block_found block_start_look(struct block_start *b, struct inflate_state *z, size_t taken,
                                  uint64_t *ret_kept);
