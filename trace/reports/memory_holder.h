/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who allocated: the operator and the Python frame, over all allocations of a device: what was theirs at its
 * peak, and what they never freed.
 */
#pragma once

#include "trace/reports/memory_use.h"

struct memory_holder {
    uint32_t device;
    int64_t op, frame;  /* texts; both COLUMN_NULL: allocated before the trace began */
    int64_t peak_bytes; /* at the device's peak */
    uint64_t peak_count;
    int64_t unfreed_bytes; /* when the trace ends */
    uint64_t unfreed_count;
    unsigned unfreed_in; /* in which quarters of the trace that was allocated, as bits */
};

struct memory_holders {
    struct memory_holder *items; /* what was most at the peak first */
    size_t n;
};

/* -ENOMEM. */
int memory_holders_read(const struct columns *c, const struct memory_use *use, struct memory_holders *ret);
void memory_holders_done(struct memory_holders *holders);

/* In each of the first three quarters of the trace it allocated what was never freed. */
bool memory_holder_leaks(const struct memory_holder *holder);
