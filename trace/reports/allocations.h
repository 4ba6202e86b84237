/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was allocated while the trace ran, by torch's [memory] events: each allocation with its end, and each
 * device with what it had at most.
 */
#pragma once

#include "trace/reports/analysis.h"

/* Further ones are left out. */
#define MEMORY_DEVICES_MAX 64
#define MEMORY_LIVES       INT64_MAX /* when freed: not before the trace ends */

struct allocation {
    int64_t ts, freed;
    int64_t address, bytes;
    uint64_t slice;  /* the event */
    uint32_t device; /* place in devices */
};

struct memory_device {
    int64_t type, number; /* as torch numbers them: 0 is the host, 1 CUDA and HIP */
    uint64_t allocations, frees;
    uint64_t unknown_frees; /* of what was allocated before the trace */
    int64_t allocated;      /* sum of what was allocated while the trace ran */
    int64_t first, last;    /* allocated in all, before the first event and after the last */
    int64_t peak, peak_ts;  /* within the view; COLUMN_NULL where it holds no event */
    int64_t peak_reserved;
    int64_t peak_cached; /* reserved and not allocated, at most */
};

struct memory_use {
    struct allocation *items; /* by when they were made */
    size_t n;
    struct memory_device devices[MEMORY_DEVICES_MAX];
    size_t n_devices;
};

/* -ENOMEM. */
int memory_use_read(struct analysis *a, size_t rank, struct memory_use *ret);
void memory_use_done(struct memory_use *use);

/* Sums of sizes that a trace may have made up stop at the largest there is. */
static inline int64_t memory_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

#define MEMORY_DEVICE_NAME_MAX 48
/* "cpu", "cuda:1" */
const char *memory_device_name(const struct memory_device *device, char buf[MEMORY_DEVICE_NAME_MAX]);

/*
 * Who allocated: the operator and the Python frame, over all allocations of a device: what was theirs at its
 * peak, and what they never freed.
 */
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
