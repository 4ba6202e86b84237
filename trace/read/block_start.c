/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/block_start.h"

#define LARGE_STEP 4096
/* Less than the codes of a block usually take. */
#define SMALL_STEP 48
/* Several times the size of most compressors' blocks. */
#define SOUGHT_MAX (512 << 10)

size_t block_start_step(struct block_start *b, const struct inflate_state *z)
{
    if (b->small > 0)
        return MIN(b->small, (size_t)SMALL_STEP);
    b->before = *z;
    return LARGE_STEP;
}

/* Each block that is compressed to some use has codes of its own. */
static bool has_other_codes(const struct inflate_state *a, const struct inflate_state *b)
{
    return memcmp(&a->dist_huff_code, &b->dist_huff_code, sizeof(a->dist_huff_code)) != 0 ||
           memcmp(&a->lit_huff_code, &b->lit_huff_code, sizeof(a->lit_huff_code)) != 0;
}

enum block_found block_start_look(struct block_start *b, struct inflate_state *z, size_t taken,
                                  uint64_t *ret_kept)
{
    enum block_found found = BLOCK_NONE;

    if (z->block_state == ISAL_BLOCK_HDR) {
        *ret_kept = 8 * (uint64_t)z->tmp_in_size + (uint64_t)z->read_in_length;
        found = BLOCK_START;
    } else if (b->small > 0) {
        b->small -= taken;
    } else if (has_other_codes(z, &b->before)) {
        *z = b->before;
        b->small = taken;
        return BLOCK_AGAIN;
    }
    b->sought += taken;
    if (found == BLOCK_NONE && b->sought >= SOUGHT_MAX)
        found = BLOCK_NEVER;
    if (found != BLOCK_NONE)
        b->small = b->sought = 0;
    return found;
}
