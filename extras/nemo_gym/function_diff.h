/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two profiles of functions side by side. A function is the same by its file and name: between the two its
 * line may have moved, and its server's port. Pure.
 */
#pragma once

#include "extras/nemo_gym/function_rows.h"

struct function_change {
    struct function_row before, after; /* of which one may be all zero, but for its texts */
};

struct function_changes {
    struct function_change *items;
    size_t n;
};

/* The largest change of ttot first; rows of one function are summed. Borrows the texts of the rows. */
void function_changes_make(const struct function_rows *before, const struct function_rows *after,
                           struct function_changes *ret);
void function_changes_done(struct function_changes *c);
int64_t function_change_ns(const struct function_change *c); /* of ttot */
