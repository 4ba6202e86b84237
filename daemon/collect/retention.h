/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who loses a trace when the store is full: the policy, over numbers alone. No I/O, no catalog.
 *
 * Each holder (a user; a worker where owners say nothing) has a share. Whoever holds most above his share
 * loses the oldest of his traces, also to a file of his own; whoever does not exceed his share loses nothing
 * to others. While the store is not full a share limits nobody.
 */
#pragma once

#include "base/util.h"

struct retention_holder {
    int64_t used;   /* bytes that count as his, with those of the file that wants room if it is his */
    bool removable; /* something of his may go: it is not pinned, and its session is over */
};

/* What each of n holders has to himself in a store of that capacity: an equal part, or per_user bytes where
 * that is less. per_user 0: not set. */
int64_t retention_share(int64_t capacity, size_t n, int64_t per_user);
/* The holder whose oldest trace goes next; -1: nobody's may, and the file is refused. */
ssize_t retention_next(const struct retention_holder *holders, size_t n, int64_t share);
